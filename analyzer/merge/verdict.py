"""The verdict on a target, and the exit that follows from a report."""

from __future__ import annotations

from collections.abc import Sequence

from tcready.merge import regions
from tcready.merge.run import Run
from tcready.merge.words import first_line
from tcready.schema import LEVELS, OF_THE_MODEL, Level, Region, Report, Stage, StageName, Verdict

_FAILING: frozenset[StageName] = frozenset({"capture", "backend", "parity"})
"""`fullgraph` asks for more than compiling does: a model with breaks fails it."""
_LATER_STAGES: tuple[StageName, ...] = ("fullgraph", "backend", "parity", "speed")
_HALF = 0.5
"""Share of the operations that break-free regions must hold for `ready_by_region`."""


def exit_code(report: Report, *, fail_on: Level = "warning", third_party: bool = False) -> int:
    """2 if something due could not be established, else 1 if a finding fails, else 0.

    Due and not established: a file that could not be parsed, or a target that was run whose verdict is
    `unknown`. Third-party findings fail only with `third_party`. A compile error fails as a finding does.
    """
    if report.skipped or any(target.was_run and target.verdict == "unknown" for target in report.targets):
        return 2
    weight = LEVELS.index(fail_on)
    failing = any(
        LEVELS.index(finding.level) >= weight and (third_party or finding.origin == "own")
        for finding in report.findings
    )
    stages = (stage for target in report.targets for stage in target.stages)
    return 1 if failing or any(map(_failed_to_compile, stages)) else 0


def _failed_to_compile(stage: Stage) -> bool:
    return stage.stage in _FAILING and stage.state == "fail" and stage.reason in OF_THE_MODEL


def is_whole(run: Run) -> bool:
    """Whether nothing that was seen keeps the model from being compiled whole."""
    return not run.troubles.words() and all(run.state(stage) != "fail" for stage in _FAILING)


def verdict_of(run: Run, found: Sequence[Region]) -> tuple[Verdict, str]:
    """The verdict and its reason in one sentence, which names the stages that did not run."""
    failed = [stage for stage in run.stages.values() if _failed_to_compile(stage)]
    causes = [f"{stage.stage} failed: {first_line(stage.detail)}" for stage in failed]
    for stage in run.stages.values():
        if stage.state == "fail" and stage.reason not in OF_THE_MODEL:
            words = f"{stage.stage} failed, which says nothing of compiling"
            return "unknown", "; ".join([words, *causes])
    if run.state("capture") == "not_run":
        return "unknown", f"nothing was compiled: {first_line(run.detail('capture'))}"
    if run.nothing_compiled:
        return (
            "unknown",
            "no operation ran in a graph and nothing says why: does the code switch compilation off?",
        )
    troubles = ", ".join([*causes, *run.troubles.words()])
    missing = _missing(run)
    if not troubles:
        return "ready", f"captured whole{missing}"
    share = sum(region.ops_share or 0.0 for region in found if regions.worth_compiling(region, run.modules))
    free = (
        f"regions free of breaks (single modules of torch aside) hold {share:.0%} of the operations"
        if run.modules
        else "no module tree was seen"
    )
    verdict: Verdict = "ready_by_region" if share >= _HALF and not failed else "not_ready"
    return verdict, f"{troubles}; {free}{missing}"


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
