"""The verdict on a target, and the exit that follows from a report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tcready.merge import regions
from tcready.merge.run import Run
from tcready.merge.words import first_line
from tcready.schema import LEVELS, Level, Region, Report, Stage, StageName, TargetReport, Verdict

_COMPILE_STAGES = frozenset({"capture", "fullgraph", "backend", "parity"})
"""A failure of one of these speaks of the model; a failure of any other leaves the verdict open."""
_FAILING = frozenset({"capture", "backend", "parity"})
"""`fullgraph` asks for more than compiling does: a model with breaks fails it."""
_LATER_STAGES: tuple[StageName, ...] = ("fullgraph", "backend", "parity", "speed")
_HALF = 0.5
"""Share of the operations that break-free regions must hold for `ready_by_region`."""
_CUT_SHORT = re.compile(r"no answer within|memory: |the process (died|exited)|.* cannot be started")
"""The launcher's words for a stage that ended for a reason that says nothing of compiling."""


def exit_code(report: Report, *, fail_on: Level = "warning", third_party: bool = False) -> int:
    """2 where something due could not be established, else 1 where a finding fails, else 0.

    Due and not established: a file that could not be parsed, or a target that was run whose verdict is
    `unknown`. Third-party findings fail only with `third_party`. A compile error fails as a finding does.
    """
    if report.skipped or any(was_run(target) and target.verdict == "unknown" for target in report.targets):
        return 2
    weight = LEVELS.index(fail_on)
    failing = any(
        LEVELS.index(finding.level) >= weight and (third_party or finding.origin == "own")
        for finding in report.findings
    )
    return 1 if failing or any(_failed_to_compile(target.stages) for target in report.targets) else 0


def was_run(target: TargetReport) -> bool:
    """Whether anything beyond reading the target's source was tried."""
    return target.environment is not None or any(
        stage.state == "fail" or (stage.stage != "parse" and stage.state == "pass") for stage in target.stages
    )


def _failed_to_compile(stages: Iterable[Stage]) -> bool:
    return any(stage.stage in _FAILING and stage.state == "fail" for stage in stages)


def verdict_of(run: Run, found: Sequence[Region]) -> tuple[Verdict, str]:
    """The verdict and its reason in one sentence, which names the stages that did not run."""
    for stage in run.stages.values():
        if stage.state == "fail" and (stage.stage not in _COMPILE_STAGES or _cut_short(stage)):
            return "unknown", f"{stage.stage} failed, which says nothing of compiling"
    if run.state("capture") == "not_run":
        return "unknown", f"nothing was compiled: {first_line(run.detail('capture'))}"
    if run.nothing_compiled:
        return (
            "unknown",
            "no operation ran in a graph and nothing says why: does the code switch compilation off?",
        )
    troubles = ", ".join(troubles_of(run))
    missing = _missing(run)
    if not troubles:
        return "ready", f"captured whole{missing}"
    failed = _failed_to_compile(run.stages.values())
    share = sum(region.ops_share or 0.0 for region in found if regions.worth_compiling(region, run.modules))
    free = (
        f"regions free of breaks (single modules of torch aside) hold {share:.0%} of the operations"
        if run.modules
        else "no module tree was seen"
    )
    verdict: Verdict = "ready_by_region" if share >= _HALF and not failed else "not_ready"
    return verdict, f"{troubles}; {free}{missing}"


def _cut_short(stage: Stage) -> bool:
    """Whether a stage ended for a reason that says nothing of compiling: time, memory, a signal, an exit."""
    return bool(_CUT_SHORT.match(stage.detail))


def troubles_of(run: Run) -> list[str]:
    """What keeps the target from being `ready`, in words; nothing where it is."""
    sites = len({(site.path, site.line) for site in run.sites})
    frames = len({(frame.path, frame.line) for frame in run.lost})
    steady = len(
        {(recompile.path, recompile.line) for recompile in run.recompiles if recompile.identical_call}
    )
    counted = [
        (sites, "break site"),
        (frames, "skipped frame"),
        (steady, "function that compiles again on every call"),
    ]
    failed = [s for s in run.stages.values() if s.stage in _FAILING and s.state == "fail"]
    return [
        *(f"{stage.stage} failed: {first_line(stage.detail)}" for stage in failed),
        *(f"{count} {_plural(words, count)}" for count, words in counted if count),
    ]


def _plural(words: str, count: int) -> str:
    head, _, tail = words.partition(" that compiles")
    return words if count == 1 else f"{head}s" + (f" that compile{tail}" if tail else "")


def _missing(run: Run) -> str:
    """`; fullgraph and backend not run`, for the stages after capture."""
    names = [stage for stage in _LATER_STAGES if run.state(stage) == "not_run"]
    refused = "; fullgraph=True fails" if run.state("fullgraph") == "fail" else ""
    trained = run.observation.training
    parts = trained.parts if trained else ()
    if any(part.state == "fail" and part.phase in ("forward", "backward") for part in parts):
        refused += "; AOTAutograd fails in training"
    if not names:
        return refused
    return f"{refused}; {', '.join(names[:-1])}{' and ' if names[:-1] else ''}{names[-1]} not run"
