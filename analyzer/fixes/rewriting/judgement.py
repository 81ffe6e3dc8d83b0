"""The result of a trial of a change: proved, proved on one side, or refuted, and why."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tcready.fixes.rewriting.changes import LineMap
from tcready.schema.enums import lines_of
from tcready.schema.fix import Proof, SideCount
from tcready.schema.observation import Observation
from tcready.schema.proof import NOT_COMPARED, SLOWER, ProofCode, ProofRequest, ProofResult, ProofState, Span, Trial

NOISE = 2e-5
"""Seconds by which two measurements of one call may differ."""


@dataclass(frozen=True)
class Judgement:
    state: ProofState
    reason: str | None
    """Why it is not proved."""
    unsafe: str | None
    """A difference that a caller may notice nevertheless."""
    proof: Proof | None
    """None if it was not tried to the end."""
    condition: str | None = None
    """The exception to the proof."""
    only_asserts: bool = False
    """The only exception is that an assertion in the graph raises its own type of exception."""
    code: ProofCode | None = None
    """The kind of the reason."""


def judge_trial(
    before: Observation,
    trial: Trial,
    result: ProofResult,
    request: ProofRequest,
    tests: Iterable[Span],
    lines: Mapping[str, LineMap],
    shown: Mapping[str, tuple[str, str]],
    *,
    keeps_out: bool = False,
    fewer_compiles: bool = False,
    not_run: str | None = None,
) -> Judgement:
    """Judge a change by its trial.

    Args:
        before: The run of the code without the change.
        trial: The trial of the change.
        result: The answer that contains the trial.
        request: The request.
        tests: The branch tests that the change removes.
        lines: For each changed file, by its path in the observations, where its lines went.
        shown: For each file with tests, by absolute path, the path that is shown and its text.
        keeps_out: The change excludes a function from compilation: more must then be captured around it,
            and breaks are allowed where it is called.
        fewer_compiles: The change should not fix a break, but reduce the number of compilations.
        not_run: The changed statement that no call ran, in one line.
    """
    sides = _sides(result, frozenset(tests), shown)
    after = trial.observation
    proof = Proof(
        calls=trial.calls,
        compiled_calls=trial.compiled_calls,
        left_out=result.left_out,
        seeds=len(request.seeds),
        modes=request.modes,
        variations=result.variations,
        sides=sides,
        breaks_before=breaks(before),
        breaks_after=breaks(after) if _passed(after, "capture") is not None else None,
        share_before=captured_share(before),
        share_after=captured_share(after),
        fullgraph=_passed(after, "fullgraph"),
        eager_ratio=trial.seconds / result.seconds if trial.seconds and result.seconds else None,
        not_compared=NOT_COMPARED,
        compiled_again_before=compiled_again(before),
        compiled_again_after=compiled_again(after) if _passed(after, "capture") is not None else None,
        recompiled=trial.recompiled,
    )
    if trial.unanswered is not None:
        return Judgement("not_run", trial.unanswered, None, None, code="not_run")
    refuted = _refuted(before, trial, lines, keeps_out=keeps_out, fewer_compiles=fewer_compiles)
    if refuted is not None:
        code, reason = refuted
        return Judgement("refuted", reason, None, proof, code=code)
    unsafe = None
    if trial.raises is not None:
        unsafe = f"another exception: {trial.raises}"
    elif lines and trial.seconds and result.seconds and trial.seconds > result.seconds * SLOWER + NOISE:
        unsafe = f"an eager call takes {trial.seconds / result.seconds:.2f} times as long"
    elif trial.notice is not None:
        unsafe = trial.notice
    missing = next((side for side in sides if not (side.true and side.false)), None)
    if missing is not None:
        never = "true" if missing.false or not missing.true else "false"
        why = f"no inputs were found that make `{missing.text}` {never} (line {missing.line})"
        return Judgement("one_side", why, unsafe, proof, trial.limits, trial.only_asserts, "one_side")
    if not_run is not None:
        return Judgement("one_side", not_run, unsafe, proof, trial.limits, trial.only_asserts, "not_reached")
    return Judgement("proved", None, unsafe, proof, trial.limits, trial.only_asserts)


def breaks(seen: Observation) -> int:
    """Return the distinct lines at which Dynamo broke, and functions with tensor work that it gave up for no such
    line."""
    return len({(site.path, site.line) for site in seen.break_sites})


def compiled_again(seen: Observation) -> int:
    """Count recompiles: a guard failed for each earlier compiled version."""
    return sum(len(each.reasons) for each in seen.recompiles)


def captured_share(seen: Observation) -> float | None:
    """Return the share of a forward's operations in graphs; None if it was not measured."""
    return seen.coverage.share if seen.coverage is not None else None


def is_captured(seen: Observation) -> bool:
    """Return True if Dynamo captured the forward to its end."""
    return _passed(seen, "capture") is True


def captures_more(before: Observation, after: Observation) -> bool:
    """Return True if a larger share is in graphs after a change."""
    one, other = captured_share(before), captured_share(after)
    return one is not None and other is not None and other > one + 1e-9


def _passed(seen: Observation, name: str) -> bool | None:
    stage = next((stage for stage in seen.stages if stage.stage == name), None)
    return None if stage is None or stage.state == "not_run" else stage.state == "pass"


def _refuted(
    before: Observation, trial: Trial, lines: Mapping[str, LineMap], *, keeps_out: bool, fewer_compiles: bool = False
) -> tuple[ProofCode, str] | None:
    """Return why the change fails: its kind, and one line."""
    after = trial.observation
    differs = _differs(trial)
    if differs is not None:
        return trial.differs or "not_captured", differs
    one, other = captured_share(before), captured_share(after)
    if keeps_out:
        return (
            None
            if captures_more(before, after)
            else (
                "captures_less",
                f"no more operations are captured in graphs: {_percent(other)}, {_percent(one)} before the change",
            )
        )
    known = {(site.path, site.line) for site in before.break_sites}
    traced = {
        (each.path, line) for each in before.traced for first, last in each.ranges for line in range(first, last + 1)
    }
    remaining = 0
    for path, line in {(site.path, site.line) for site in after.break_sites}:
        was = lines[path].came_from(line) if path in lines else line
        if was is not None and (path, was) in known:
            remaining += 1
        elif was is None:
            return "new_break", f"Dynamo breaks the graph in the new code ({path}:{line})"
        elif (path, was) in traced:
            return "new_break", f"Dynamo breaks the graph at a line where it did not before ({path}:{line})"
    if fewer_compiles:
        if compiled_again(after) >= compiled_again(before):
            return (
                "compiles_again",
                f"functions recompile {compiled_again(after)} times, {compiled_again(before)} times before the change",
            )
    elif known and remaining == len(known) and is_captured(before):
        return "break_left", "Dynamo still breaks the graph there"
    if trial.not_lasting is not None:
        return "setting_is_lost", trial.not_lasting
    less = _takes_less(before, after)
    return ("captures_less", less) if less is not None else None


def why_spoiled(own: Observation, trial: Trial) -> str | None:
    """Return why a target is worse after changes for others, in one line; `own` is the run without them.

    The changes need not fix anything in it, nor must its calls take both sides of every branch: that was shown
    elsewhere.
    """
    after = trial.observation
    differs = trial.unanswered or _differs(trial)
    if differs is not None:
        return differs
    if breaks(after) > breaks(own):
        return f"Dynamo breaks the graph at more lines: {breaks(after)}, {breaks(own)} before the change"
    return _takes_less(own, after)


def _differs(trial: Trial) -> str | None:
    """Return a difference that a caller sees, or why it does not run."""
    after = trial.observation
    if trial.difference is not None:
        return trial.difference
    failed = next((s for s in after.stages if s.state == "fail" and s.stage != "fullgraph"), None)
    if failed is not None:
        return f"{failed.stage}: {failed.detail}"
    return "Dynamo did not capture the changed code" if _passed(after, "capture") is None else None


def _eager_operations(seen: Observation) -> float:
    """Count the operations outside of graphs; infinite if that was not measured."""
    cover = seen.coverage
    return cover.ops_total - cover.ops_captured if cover is not None else math.inf


def _takes_less(before: Observation, after: Observation) -> str | None:
    one, other = captured_share(before), captured_share(after)
    if (
        one is not None
        and (other is None or other < one - 1e-9)
        and _eager_operations(after) > _eager_operations(before)
    ):
        return f"fewer operations are captured in graphs: {_percent(other)}, {_percent(one)} before the change"
    if _passed(before, "fullgraph") and not _passed(after, "fullgraph"):
        return "`fullgraph=True` compiles before the change, and fails with it"
    return None


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{share:.1%}"


def _sides(result: ProofResult, tests: frozenset[Span], shown: Mapping[str, tuple[str, str]]) -> tuple[SideCount, ...]:
    found = []
    for side in result.sides:
        if side.test in tests:
            path, text = shown[side.test.path]
            found.append(
                SideCount(
                    path,
                    side.test.line,
                    written_at(text, side.test),
                    side.true + side.alone_true,
                    side.false + side.alone_false,
                    alone=not (side.true and side.false),
                )
            )
    return tuple(found)


def written_at(text: str, span: Span) -> str:
    """Return the code there, on one line."""
    lines = lines_of(text)[span.line - 1 : span.end_line]
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    return " ".join(" ".join(lines).split())
