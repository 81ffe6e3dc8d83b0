"""Match events of a run with the findings that claim them, and return the events that none claims."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tcready.merge.observed_run import Run, ids_of_site, in_frame, skips
from tcready.merge.run_messages import (
    alone_evidence,
    dynamo,
    first_line,
    recompile_evidence,
    site_evidence,
    skip_evidence,
    slug,
)
from tcready.merge.source_lines import Code
from tcready.portable.compile_code import Place
from tcready.schema.break_effect import FrameFate
from tcready.schema.capture_failures import at_recompile_limit, calls_by_size, is_by_torch, is_fsdp_hook
from tcready.schema.code_line import Frame
from tcready.schema.enums import BREAKING, INTENDED, Effect, Level, Mode, Origin
from tcready.schema.static import Evidence, Finding
from tcready.schema.value_class import dataclass

if TYPE_CHECKING:
    from tcready.schema.run import BreakSite, Cost, OwnCompile, Recompile, ShapeCall, SkippedFrame

_ON_THE_STACK = "___stack"
"""The name in guards of values that a break left on Python's stack."""
_GUARDED = re.compile(r"(?:\.|\[['\"])([A-Za-z_]\w*)")
"""Attribute and key names in a guard: `len(L['self'].cache) == 2` guards `self` and `cache`."""
Key = tuple[str, int, str | None]
"""The (path, line, rule) of a finding, which is unique."""
_NUMBER = re.compile(r"\bparam_groups\[\d+\]\['(\w+)'\] == -?\d\S*")
"""A guard on a number in the options of an optimizer."""
_NAMED_GUARDS = 4
"""Maximum number of guards in a message; the evidence has all."""


@dataclass(frozen=True)
class MatchProof:
    """Proof that Dynamo did, in one case of one target, what a finding claims."""

    target: str
    case: str | None
    evidence: Evidence
    gb_ids: tuple[str, ...] = ()
    level: Level = "error"
    frames: tuple[FrameFate, ...] = ()
    """The fates of the functions around."""
    cost: Cost | None = None
    mode: Mode | None = None


@dataclass(frozen=True)
class Event:
    """An event of a run that no finding claims, in one case of one target."""

    target: str
    case: str | None
    path: str
    line: int
    symbol: str
    origin: Origin
    effect: Effect
    name: str
    message: str
    evidence: Evidence
    gb_ids: tuple[str, ...] = ()
    cost: Cost | None = None
    mode: Mode | None = None
    level: Level | None = None
    """None for the level of its effect."""

    @classmethod
    def at(cls, run: Run, case: str | None, place: Frame | BreakSite | SkippedFrame, **more: Any) -> Event:
        """Return an event of a run at a place of its record; `more` are the other fields."""
        return cls(target=run.target, case=case, path=place.path, line=place.line, symbol=place.symbol, **more)


def key_of(finding: Finding) -> Key:
    return finding.path, finding.line, finding.rule


def proofs_of(run: Run, findings: Sequence[Finding], code: Code) -> Iterator[tuple[Key, MatchProof]]:
    """Yield every event of `run` that a finding claims, with the key of the finding."""
    for site in run.sites:
        for finding in _claimants(site, findings):
            evidence = site_evidence(site)
            level: Level = "note" if _effect(site) == "intent" else "error"
            yield (
                key_of(finding),
                MatchProof(run.target, site.case, evidence, ids_of_site(site), level, site.frames, site.cost),
            )
    for trial in run.alone:
        if trial.site is None:
            continue
        for finding in _claimants(trial.site, findings):
            yield (key_of(finding), MatchProof(run.target, None, alone_evidence(trial), ids_of_site(trial.site)))
    for frame in run.skipped:
        for finding in _skip_claimants(frame, run, findings):
            whole = FrameFate(frame.path, frame.line, frame.symbol, "whole_frame")
            evidence = skip_evidence(frame)
            yield (key_of(finding), MatchProof(run.target, frame.case, evidence, run.ids_of(frame), frames=(whole,)))
    for recompile in run.recompiles:
        for finding in _recompile_claimants(recompile, run, findings, code):
            steady = recompile.on_every_call or _limit_of(recompile, run) is not None
            level = "error" if steady else "warning"
            yield (key_of(finding), MatchProof(run.target, recompile.case, recompile_evidence(recompile), level=level))
    case = run.observation.shapes.case if run.observation.shapes else None
    for finding in findings:
        if finding.effect == "recompile" and (by_size := _size_evidence(run, finding)):
            yield key_of(finding), MatchProof(run.target, case, by_size, level="warning")
    for where, call in calls_by_size(run.observation):
        for site in call.break_sites:
            for finding in _claimants(site, findings):
                evidence = _with_size(site_evidence(site), where)
                level = "note" if _effect(site) == "intent" else "error"
                yield (key_of(finding), MatchProof(run.target, case, evidence, ids_of_site(site), level, site.frames))
        for finding in _size_claimants(call, findings):
            yield key_of(finding), MatchProof(run.target, case, _failure_evidence(call, where))
    raising = [stage for stage in run.observation.stages if stage.state == "fail" and stage.reason == "compile_error"]
    for detail in (stage.detail or "" for stage in raising if stage.stage in ("capture", "parity")):
        for finding in findings:
            if finding.effect == "compile_error" and _names_place(detail, finding):
                yield key_of(finding), MatchProof(run.target, None, dynamo(first_line(detail)))


def _size_evidence(run: Run, finding: Finding) -> Evidence | None:
    """Return evidence from the shape study for the finding's lines: with a dimension marked dynamic, code there made
    it a constant, or a guard from there failed for another size. Other settings are ignored because they only name a
    tensor's first use; so is the guard against a size of 1."""
    study = run.observation.shapes
    for trial in study.trials if study else ():
        if trial.setting != "mark_dynamic":
            continue
        if trial.error and _names_place(trial.error, finding):
            return dynamo(f"with {trial.varied} marked dynamic: {trial.error}")
        for call in trial.calls:
            for event in call.recompiles if call.size not in (None, 1) else ():
                if any(f.path == finding.path and finding.line <= f.line <= finding.end_line for f in event.lines):
                    reasons = "; ".join(map(first_line, event.reasons))
                    return dynamo(f"recompiled {event.symbol} for {call.label}, marked dynamic: {reasons}")
    return None


def _with_size(evidence: Evidence, where: str) -> Evidence:
    return dynamo(f"with {where}: {evidence.text}")


def _size_effect(call: ShapeCall) -> Effect:
    return "compile_error" if call.error else "wrong_result"


def _size_claimants(call: ShapeCall, findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that explain a call with another size: it raised at their lines, or its outputs differ."""
    place = call.place
    if place is None:
        return []
    return [
        finding
        for finding in findings
        if finding.effect == _size_effect(call)
        and finding.path == place.path
        and finding.line <= place.line <= finding.end_line
    ]


def _failure_evidence(call: ShapeCall, where: str) -> Evidence:
    return dynamo(f"with {where} the compiled call {_failure(call)}; eager takes that")


def _failure(call: ShapeCall) -> str:
    if call.error:
        return f"raised {first_line(call.error)}"
    return f"differs from eager: {first_line(call.difference or '')}"


def _claimants(site: BreakSite, findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that a break site proves: those on its line that are of its kind.

    If IDs distinguish several findings on one line, return only those that claim the site's IDs; if none does (IDs
    differ between versions, and some breaks have none), return all that claim a break there. Breaks in FSDP's own hooks
    do not prove anything about the line that calls them.
    """
    if is_fsdp_hook(site):
        return []
    here = [
        finding
        for finding in findings
        if finding.path == site.path
        and finding.line <= site.line <= finding.end_line
        and (finding.effect in BREAKING or finding.effect == "intent")
    ]
    ids = set(ids_of_site(site))
    return [finding for finding in here if ids.intersection(finding.gb_ids)] or here


def _skip_claimants(frame: SkippedFrame, run: Run, findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that predict a skipped frame around them, if no break explains it."""
    if at_recompile_limit(frame) or run.by_a_break(frame):
        return []
    return [f for f in findings if f.effect == "frame_skip" and in_frame(frame, f.path, f.line)]


def _recompile_claimants(recompile: Recompile, run: Run, findings: Iterable[Finding], code: Code) -> list[Finding]:
    """Return the recompile findings at a place that the failed guards name.

    A claim of level `error` (recompiles on every call) is proved by a recompile on an identical call, by one that
    continued until Dynamo gave the frame up, or, in the trace of a job, which has no inputs, if such guards of two
    compiled versions failed. A note is proved only if no other claim explains the recompile: its line may use the
    guarded name for something else.
    """
    steady = recompile.on_every_call or _limit_of(recompile, run) is not None
    of_a_job = run.observation.trace is not None
    found = [
        finding
        for finding in findings
        if finding.effect == "recompile"
        and (steady or finding.level != "error" or (of_a_job and _fails_twice(recompile, finding, code)))
        and _guard_names(recompile, finding, code)
    ]
    return [finding for finding in found if finding.level != "note"] or found


def _fails_twice(recompile: Recompile, finding: Finding, code: Code) -> bool:
    """Return True if guards of several compiled versions failed and each of them names what is on the finding's
    line."""
    each = (dataclasses.replace(recompile, reasons=(reason,), lines=()) for reason in recompile.reasons)
    return sum(_guard_names(one, finding, code) for one in each) > 1


def _guard_names(recompile: Recompile, finding: Finding, code: Code) -> bool:
    """Return True if the failed guards name the finding's lines, or in its file the names on its line."""
    if any(f.path == finding.path and finding.line <= f.line <= finding.end_line for f in recompile.lines):
        return True
    if any(_names_place(reason, finding) for reason in recompile.reasons):
        return True
    if recompile.path != finding.path:
        return False
    # what goes on behind a break begins on its line
    if any(_ON_THE_STACK in reason for reason in recompile.reasons):
        return finding.line <= recompile.line <= finding.end_line
    guards = (reason.split("#")[0] for reason in recompile.reasons)
    names = {name for guard in guards for name in _GUARDED.findall(guard)} - {"self"}
    text = " ".join(code.line(finding.path, n) for n in range(finding.line, finding.end_line + 1))
    return not names.isdisjoint(re.findall(r"\w+", text))


def _names_place(text: str, finding: Finding) -> bool:
    """Return True if a message contains `PATH:LINE` of one of the finding's lines."""
    if finding.path not in text:
        return False
    lines = re.findall(rf"{re.escape(finding.path)}:(\d+)\b", text)
    return any(finding.line <= int(line) <= finding.end_line for line in lines)


def _limit_of(recompile: Recompile, run: Run) -> SkippedFrame | None:
    """Return the skipped frame that shows that recompiling continued until Dynamo gave up."""
    for frame in run.skipped:
        if (frame.path, frame.line) == (recompile.path, recompile.line) and at_recompile_limit(frame):
            return frame
    return None


def unclaimed_events(run: Run, findings: Sequence[Finding], code: Code) -> Iterator[Event]:
    """Yield the events of a run that no finding claims: break sites, skipped frames, steady recompiles, other sizes."""
    for site in run.sites:
        if not _claimants(site, findings):
            yield _site_event(site, run)
    for trial in run.alone:
        if trial.site is not None and not _claimants(trial.site, findings):
            event = _site_event(trial.site, run)
            yield dataclasses.replace(event, evidence=alone_evidence(trial))
    yield from _size_events(run, findings)
    yield from _rank_events(run)
    yield from _traced_rank_events(run)
    placed: set[Place] = set()
    for frame in run.skipped:
        if run.by_a_break(frame) or _skip_claimants(frame, run, findings):
            continue
        behind = [r for r in run.recompiles if (r.path, r.line) == (frame.path, frame.line)]
        if any(_recompile_claimants(r, run, findings, code) for r in behind):
            continue
        placed.add((frame.path, frame.line))
        yield _skip_event(frame, run, behind)
    for recompile in run.recompiles:
        if not recompile.on_every_call or (recompile.path, recompile.line) in placed:
            continue
        if not _recompile_claimants(recompile, run, findings, code):
            yield _recompile_event(recompile, run)
    for own in run.observation.own_compiles:
        yield from _own_compile_events(own, run)
    for recompile in run.recompiles:
        if recompile.caller is not None and not recompile.on_every_call:
            yield from _number_events(recompile, recompile.caller, run)


def _size_events(run: Run, findings: Sequence[Finding]) -> Iterator[Event]:
    """Yield events of calls with other sizes: breaks, exceptions and different results."""
    study = run.observation.shapes
    case = study.case if study else None
    for where, call in calls_by_size(run.observation):
        for site in call.break_sites:
            if not _claimants(site, findings):
                event = _site_event(dataclasses.replace(site, case=case), run)
                evidence = _with_size(event.evidence, where)
                yield dataclasses.replace(event, message=f"with {where}: {event.message}", evidence=evidence)
        place = call.place
        if place is None or _size_claimants(call, findings):
            continue
        effect = _size_effect(call)
        yield Event.at(
            run,
            case,
            place,
            origin=call.origin,
            effect=effect,
            name=effect.replace("_", "-"),
            message=f"with {where} the compiled call {_failure(call)}",
            evidence=_failure_evidence(call, where),
        )


def _rank_events(run: Run) -> Iterator[Event]:
    """Yield events for which several processes compiled different code for the same inputs, if a line of the code
    causes that."""
    shared = run.observation.parallel
    for found in shared.differences if shared is not None else ():
        if found.place is None:
            continue
        place, words = found.place, found.words()
        waits = "their collectives differ, in which they hang or die: " if found.collectives else ""
        yield Event.at(
            run,
            found.case,
            place,
            origin=found.origin,
            effect="compile_error" if found.collectives else "slow",
            name="ranks-differ",
            message=f"ranks compile different graphs; {waits}{words}",
            evidence=dynamo(f"graph {found.graph} of each rank: {words}"),
        )


def _traced_rank_events(run: Run) -> Iterator[Event]:
    """Yield events for functions that the ranks of a job compiled differently, with what that does to the job."""
    trace = run.observation.trace
    for found in trace.differences if trace is not None else ():
        if not found.counts:
            continue
        what = (
            "ranks compile different collectives, in which they hang or die"
            if found.hangs
            else "ranks compile this a different number of times, so the others wait in their next collective"
        )
        yield Event.at(
            run,
            None,
            found.place,
            origin=found.origin,
            effect="compile_error" if found.hangs else "slow",
            name="ranks-differ",
            message=f"{what}; {found.words()}",
            evidence=dynamo(f"the trace of the job: {found.words()}"),
        )


def _site_event(site: BreakSite, run: Run) -> Event:
    return Event.at(
        run,
        site.case,
        site,
        origin=site.origin,
        effect=_effect(site),
        name=_name(site),
        message=_message(site),
        evidence=site_evidence(site),
        gb_ids=ids_of_site(site),
        cost=site.cost,
    )


def _name(site: BreakSite) -> str:
    if is_fsdp_hook(site):
        return "fsdp-hooks"
    if is_by_torch(site):
        return "break-by-torch"
    return slug(site.reason) or ("frame-skip" if skips(site) else "graph-break")


def _message(site: BreakSite) -> str:
    if is_fsdp_hook(site):
        return "FSDP gathers parameters here, outside of graphs on purpose"
    if is_by_torch(site):
        return "torch ends the graph on purpose in its own code that is called here"
    return first_line(site.reason)


def _effect(site: BreakSite) -> Effect:
    if is_fsdp_hook(site) or is_by_torch(site):
        return "intent"
    if ids_of_site(site) and INTENDED.issuperset(ids_of_site(site)):
        return "intent"
    return "frame_skip" if skips(site) else "graph_break"


def _skip_event(frame: SkippedFrame, run: Run, recompiles: Sequence[Recompile]) -> Event:
    why = first_line(frame.reason)
    guards = "; ".join(dict.fromkeys(first_line(reason) for r in recompiles for reason in r.reasons))
    evidence = skip_evidence(frame)
    return Event.at(
        run,
        frame.case,
        frame,
        origin=frame.origin,
        effect="frame_skip",
        name="recompile-limit" if at_recompile_limit(frame) else "frame-skip",
        message=f"Dynamo gave up on the whole of {frame.symbol}: {why}",
        evidence=dynamo(f"{evidence.text}; recompiled before because {guards}") if guards else evidence,
        gb_ids=run.ids_of(frame),
    )


def _recompile_event(recompile: Recompile, run: Run) -> Event:
    place = next(
        (f for f in recompile.lines if f.path == recompile.path),
        Frame(recompile.path, recompile.line, recompile.symbol),
    )
    reasons = [*dict.fromkeys(map(first_line, recompile.reasons))]
    guards = "; ".join(reasons[:_NAMED_GUARDS])
    more = f" (and {len(reasons) - _NAMED_GUARDS} more)" if len(reasons) > _NAMED_GUARDS else ""
    when = "on an identical call" if recompile.identical_call else "on every call"
    return Event.at(
        run,
        recompile.case,
        place,
        origin=recompile.origin,
        effect="recompile",
        name="recompile",
        message=f"{recompile.symbol} compiles again {when}" + (f": {guards}{more}" if guards else ""),
        evidence=recompile_evidence(recompile),
    )


def _number_events(recompile: Recompile, caller: Frame, run: Run) -> Iterator[Event]:
    """Yield an event for each option of an optimizer that is a number, changed, and so made its step compile again."""
    options = dict.fromkeys(name for reason in recompile.reasons for name in _NUMBER.findall(reason))
    for name in options:
        what = f"`{name}` of the optimizer is a number and changed"
        remedy = ": make it a tensor, `lr=torch.tensor(...)`" if name == "lr" else ""
        yield Event.at(
            run,
            recompile.case,
            caller,
            origin="own",
            effect="recompile",
            name="number-of-optimizer",
            message=f"{recompile.symbol} compiles again because {what}{remedy}",
            evidence=recompile_evidence(recompile),
            level="warning",
        )


def _own_compile_events(own: OwnCompile, run: Run) -> Iterator[Event]:
    """Yield an event if parts that the model compiles itself share code that is compiled again for them."""
    if not own.recompiles:
        return
    guards = [*dict.fromkeys(first_line(reason) for each in own.recompiles for reason in each.reasons)]
    shared: Level = "warning" if 2 * (own.compiled_again + 1) > len(own.parts) > 1 else "note"
    again = ", ".join(dict.fromkeys(each.symbol for each in own.recompiles))
    parts = f"`{own.how}` compiles {len(own.parts)} part{'' if len(own.parts) == 1 else 's'}"
    why = f": {'; '.join(guards[:1])}" if guards else ""
    if own.limit:
        limited = ", ".join(dict.fromkeys(frame.symbol for frame in own.limit))
        eager = f": {len(own.eager)} of them run eagerly, from {own.eager[0]} on" if own.eager else ""
        tried = "; with isolate_recompiles=True all of them are compiled (tried)" if own.isolated else ""
        message = f"{parts}, and {limited} reaches the recompile limit{eager}{tried}"
    else:
        message = (
            f"{parts}, and {again} compiles again {own.compiled_again} time{'' if own.compiled_again == 1 else 's'}"
        )
    yield Event.at(
        run,
        None,
        own.place,
        origin="own",
        effect="frame_skip" if own.limit else "recompile",
        name="limit-of-parts" if own.limit else "recompile-of-parts",
        message=message if own.limit else message + why,
        evidence=dynamo(f"recompiled {again} for the parts: {'; '.join(guards)}"),
        level="error" if own.limit else shared,
    )
