"""Combine findings with runs: their status, level and evidence. Add findings that only a run showed."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from tcready.merge.match import Event, Key, MatchProof, key_of
from tcready.merge.observed_run import Run, skips
from tcready.merge.source_lines import Code
from tcready.portable.target import Target
from tcready.schema.break_effect import BreakEffect, worst_fates
from tcready.schema.compile_call import CompileCall
from tcready.schema.enums import BREAKING, LEVELS, Effect, Level, Mode, Status
from tcready.schema.static import Evidence, Finding, FindingTarget, Prediction, RuleText, StaticTarget
from tcready.source.fingerprint import fingerprint

STRENGTH: tuple[Status, ...] = ("predicted", "not_reached", "not_traced", "not_observed", "confirmed", "runtime_only")
"""How much a status says, in rising order: over several targets a finding gets the most informative one.

A target in which Dynamo broke outweighs one that traced the line without a break, and that outweighs one that did not
reach it.
"""
_MODE_ONLY: Mapping[Mode | None, str] = {"train": "; in training mode only", "infer": "; in inference mode only"}


_LEVEL_SHOWN: Mapping[Effect, Level] = {"intent": "note", "slow": "warning"}
"""Levels of findings that only a run showed, if less than an error."""


def place_order(finding: Finding) -> tuple[str, int, int, str, str]:
    return finding.path, finding.line, finding.column, finding.rule or "", finding.fingerprint


def distinct(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Keep one finding for each (path, line, rule): the most certain, then the leftmost. It represents the others."""
    sure = ("high", "medium", "low")
    alike: dict[Key, list[Finding]] = defaultdict(list)
    for finding in sorted(findings, key=lambda f: (sure.index(f.confidence), f.column, f.fingerprint)):
        alike[key_of(finding)].append(finding)
    return tuple(best if not others else _for_all(best, others) for best, *others in alike.values())


def _for_all(best: Finding, others: Sequence[Finding]) -> Finding:
    prints = {print_ for each in (best, *others) for print_ in (each.fingerprint, *each.also)}
    until = max(last for each in (best, *others) for last in (each.end_line, each.also_until or 0))
    return dataclasses.replace(best, also=tuple(sorted(prints - {best.fingerprint})), also_until=until)


def judge_finding(finding: Finding, runs: Sequence[Run], proofs: Sequence[MatchProof]) -> Finding:
    """Return the finding with its status in each run, and the resulting level."""
    placed: list[tuple[FindingTarget, str | None]] = []
    for run in runs:
        own = [proof for proof in proofs if (proof.target, proof.mode) == (run.target, run.mode)]
        if own:
            placed += [
                (FindingTarget(run.target, case, "confirmed", run.mode), None)
                for case in dict.fromkeys(p.case for p in own)
            ]
        else:
            status, why = _status(finding, run)
            placed.append((FindingTarget(run.target, None, status, run.mode), why))
    ran = {target.target for target, _ in placed}
    static_only = tuple(target for target in finding.targets if target.target not in ran)
    targets = (*(target for target, _ in placed), *static_only)
    status = max((target.status for target in targets), key=STRENGTH.index, default=finding.status)
    only = only_mode(proofs, runs)
    from_runs = [_only_in(only, proof.evidence) for proof in proofs] or [
        Evidence("dynamo", why) for target, why in placed if target.status == status and why
    ]
    before = Prediction(finding.level, finding.confidence, finding.gb_ids)
    now = Prediction(
        _level(finding, status, proofs),
        "high" if status == "confirmed" else finding.confidence,
        tuple(dict.fromkeys(i for proof in proofs for i in proof.gb_ids)) or finding.gb_ids,
    )
    return dataclasses.replace(
        finding,
        status=status,
        level=now.level,
        confidence=now.confidence,
        targets=targets,
        gb_ids=now.gb_ids,
        evidence=tuple(dict.fromkeys([*finding.evidence, *from_runs])),
        break_effect=_with_seen(finding.break_effect, proofs),
        cost=_cost(proofs),
        prediction=before if now != before else None,
    )


def claim_of(finding: Finding) -> Finding:
    """Return a judged finding as the source alone claims it: the inverse of `judge_finding`."""
    before = finding.prediction or Prediction(finding.level, finding.confidence, finding.gb_ids)
    effect = finding.break_effect
    return dataclasses.replace(
        finding,
        status="predicted",
        level=before.level,
        confidence=before.confidence,
        targets=(),
        gb_ids=before.gb_ids,
        evidence=tuple(line for line in finding.evidence if line.speaker == "static"),
        break_effect=dataclasses.replace(effect, seen=()) if effect is not None else None,
        cost=None,
        prediction=None,
    )


def only_mode(shown: Sequence[MatchProof | Event], runs: Iterable[Run]) -> Mode | None:
    """Return the only mode in which something was seen, if all runs of its targets in the other mode captured and
    did not see it."""
    modes = {item.mode for item in shown}
    targets = {item.target for item in shown}
    if len(modes) != 1 or not all(run.captured for run in runs if run.target in targets):
        return None
    return modes.pop()


def _only_in(mode: Mode | None, evidence: Evidence) -> Evidence:
    """Return the line with the only mode it applies to; None: any mode."""
    return dataclasses.replace(evidence, text=evidence.text + _MODE_ONLY.get(mode, ""))


def _cost(shown: Iterable[MatchProof | Event]) -> Mapping[str, float] | None:
    """Return the cost outside of graphs that a finding causes, over all cases in which it was counted."""
    costs = [item.cost for item in shown if item.cost is not None]
    if not costs:
        return None
    found: dict[str, float] = {"operations": sum(c.ops for c in costs)}
    seconds = [c.seconds for c in costs if c.seconds is not None]
    return {**found, "seconds": sum(seconds)} if seconds else found


def _with_seen(effect: BreakEffect | None, proofs: Iterable[MatchProof]) -> BreakEffect | None:
    """Add the results of runs to the prediction. A function that was given up in any run counts as given up."""
    if effect is None:
        return None
    return dataclasses.replace(effect, seen=worst_fates(frame for proof in proofs for frame in proof.frames))


def by_file(
    runs: Iterable[Run], proofs: Mapping[Key, Sequence[MatchProof]], files: Collection[str]
) -> Mapping[str, tuple[Run, ...]]:
    """Group by file the runs that target it, ran its lines or proved something in it.

    The trace of a job is relevant to all `files`, because lines that it does not mention may have run.
    """
    proved: dict[tuple[str, Mode | None], set[str]] = defaultdict(set)
    for (path, _, _), shown in proofs.items():
        for proof in shown:
            proved[proof.target, proof.mode].add(path)
    found: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        paths = {Target.place_in(run.target)} | run.executed.paths | run.traced.paths
        paths |= proved[run.target, run.mode]
        for path in paths.union(files if run.observation.trace is not None else ()):
            found[path].append(run)
    return {path: tuple(some) for path, some in found.items()}


def files_not_run(targets: Iterable[StaticTarget], ran: Collection[str]) -> frozenset[str]:
    """Return files with targets of their own that no run targeted or reached."""
    return frozenset({Target.place_in(target.target) for target in targets}.difference(ran))


def _level(finding: Finding, status: Status, proofs: Sequence[MatchProof]) -> Level:
    """Return the level: a note for a refuted prediction, that of its effect for a proved one, however uncertain it
    was."""
    if status == "not_observed":
        return "note"
    if status != "confirmed" or finding.effect == "intent":
        return finding.level
    return max(finding.level, *(proof.level for proof in proofs), key=LEVELS.index)


def _status(finding: Finding, run: Run) -> tuple[Status, str | None]:
    """Return the status of a finding in a run without proof, and the reason."""
    if not run.captured or not _showable(finding):
        return "predicted", None
    if not predicted_in(finding, run.observation.mode):
        return "predicted", "the run was in the other mode"
    if finding.effect == "recompile" and any(recompile.on_every_call for recompile in run.recompiles):
        return ("predicted", "recompiles on every call, and the guards that failed do not name this line")
    if finding.effect == "recompile" and run.observation.trace is not None:
        return ("predicted", "the trace of the job does not show whether a call with the same inputs compiles again")
    place = (finding.path, finding.line, finding.end_line)
    if run.observation.trace is not None and not run.traced.meets(*place):
        return "predicted", "the trace of the job does not show whether the line ran"
    if not run.executed.meets(*place) and not run.traced.meets(*place):
        return "not_reached", "the line did not run for these inputs"
    ended = any(s.path == finding.path and finding.line <= s.line <= finding.end_line for s in run.sites if skips(s))
    skipped = run.skipped_around(finding.path, finding.line)
    covered = run.traced.meets(*place) and not ended if run.traced else skipped is None
    if covered:
        return "not_observed", "traced this line and it did not show"
    inside = f"{skipped.symbol} (line {skipped.line})" if skipped else "a frame"
    return "not_traced", f"the line ran, but inside {inside}, which Dynamo had given up on"


def predicted_in(finding: Finding, mode: Mode) -> bool:
    """Return True if a finding is predicted in the mode of a run."""
    return mode in finding.modes or not finding.modes


def harmless_in(finding: Finding, target: str, mode: Mode) -> bool:
    """Return True if a finding does not count in a run of `target` that compiled: it traced the line without a
    break, or never reached the line or its file; or the break is of the other mode."""
    if finding.status != "confirmed" and not predicted_in(finding, mode):
        return True
    own = [entry for entry in finding.targets if entry.target == target]
    if own:
        return any(e.mode in (None, mode) and e.status in ("not_observed", "not_reached") for e in own)
    return any(entry.status != "predicted" for entry in finding.targets)


def _showable(finding: Finding) -> bool:
    """Return True if calls with one set of inputs can show the effect. Of these two, a warning is about other calls."""
    if finding.effect in ("recompile", "compile_error"):
        return finding.level == "error"
    return finding.effect in BREAKING


def found_by_run(
    events: Sequence[Event], code: Code, only: Mode | None, strict: Mapping[str, CompileCall] = MappingProxyType({})
) -> Finding:
    """Return one finding for everything that happened at a line, named after the most severe effect. `only`: the
    only mode it is of. `strict`: by target, the call that compiles it with `fullgraph=True`, where a break is an
    error."""
    weight: tuple[Effect, ...] = (
        "intent",
        "slow",
        "recompile",
        "graph_break",
        "frame_skip",
        "compile_error",
        "wrong_result",
    )
    first = max(events, key=lambda event: weight.index(event.effect))
    text = code.line(first.path, first.line)
    stripped = text.strip()
    column = len(text) - len(text.lstrip()) + 1 if stripped else 1
    same = code.statement(first.path, first.line) or stripped
    prints = [fingerprint(e.path, e.symbol, e.effect, e.name, same) for e in (first, *events)]
    breaks = (e for e in events if e.effect in BREAKING or e.effect == "intent")
    raises_at = next((strict[e.target] for e in breaks if e.target in strict), None)
    return Finding(
        rule=None,
        name=first.name,
        effect=first.effect,
        level="error" if raises_at is not None else first.level or _LEVEL_SHOWN.get(first.effect, "error"),
        confidence="high",
        message=first.message,
        path=first.path,
        line=first.line,
        column=column,
        end_line=first.line,
        end_column=column + max(len(stripped), 1),
        symbol=first.symbol,
        origin=first.origin,
        status="runtime_only",
        gb_ids=tuple(dict.fromkeys(i for event in events for i in event.gb_ids)),
        targets=tuple(dict.fromkeys(FindingTarget(e.target, e.case, "runtime_only", e.mode) for e in events)),
        fingerprint=prints[0],
        evidence=tuple(dict.fromkeys(_only_in(only, event.evidence) for event in events)),
        cost=_cost(events),
        modes=(only,) if only else (),
        raises_at=raises_at,
        also=tuple(dict.fromkeys(print_ for print_ in prints if print_ != prints[0])),
    )


def add_advice(finding: Finding, advice: Mapping[str, RuleText]) -> Finding:
    """Add advice to findings that only a run showed: the text for the first of its types that has one; for findings
    without a type, such as a recompilation, the text for its name."""
    text = next((advice[each] for each in (*finding.gb_ids, finding.name) if each in advice), None)
    return finding if text is None else dataclasses.replace(finding, advice=text.code)


def number_fingerprints(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Number equal fingerprints of equal lines by their order in the file."""
    seen: Counter[str] = Counter()
    for finding in sorted(findings, key=place_order):
        number = seen[finding.fingerprint]
        seen[finding.fingerprint] += 1
        if number:
            yield dataclasses.replace(finding, fingerprint=f"{finding.fingerprint}-{number + 1}")
        else:
            yield finding
