"""The verdict on a target, and the exit code that follows from a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcready.merge import regions
from tcready.merge.observed_run import Run
from tcready.merge.run_messages import first_line
from tcready.schema.enums import LEVELS, OF_THE_MODEL, Level, StageName, Verdict
from tcready.schema.observation import Observation
from tcready.schema.report import Region, Report, TargetReport

_FAILING: frozenset[StageName] = frozenset({"capture", "shapes", "backend", "parity"})
"""Stages that make a verdict fail. Not `fullgraph`, which asks for more than compiling: a model with breaks fails
it."""
_LATER_STAGES: tuple[StageName, ...] = ("fullgraph", "backend", "parity", "speed")
_HALF, _QUARTER = 0.5, 0.25
"""Minimum shares of break-free regions for `ready_by_region`: half of the operations or of the time, a quarter of
the other."""


def exit_code(report: Report, *, fail_on: Level = "warning", third_party: bool = False) -> int:
    """Return 2 if something due could not be established, else 1 if a finding fails, else 0.

    Due and not established: a file that could not be parsed, or a target that was run and has the verdict `unknown`;
    not the trace of a job without breaks, because a trace cannot show more. Third-party findings fail only with
    `third_party`. A compile error fails as a finding does.
    """
    if report.skipped or any(map(_not_established, report.targets)):
        return 2
    weight = LEVELS.index(fail_on)
    failing = any(
        LEVELS.index(finding.level) >= weight and (third_party or finding.origin == "own")
        for finding in report.findings
    )
    seen = [target.observation for target in report.targets]
    return 1 if failing or any(any(_causes(each)) or any(_raises_in_use(each)) for each in seen) else 0


def failures(report: Report) -> Iterator[str]:
    """Return one line for each target that affects `exit_code` apart from findings and unparsable files."""
    for target in report.targets:
        failed = [stage for stage in target.stages if stage.state == "fail"]
        undone = [stage for stage in target.stages if stage.state == "not_run" and stage.reason != "not_asked"]
        open_ = _not_established(target)
        if not open_:
            causes = [*_causes(target.observation), *_raises_in_use(target.observation)]
        else:
            causes = [
                f"{stage.stage} {'failed' if stage.state == 'fail' else 'did not run'}: {stage.detail}"
                for stage in failed or undone
            ]
        yield from (f"{target.target}: {cause}" for cause in causes[:1])


def _not_established(target: TargetReport) -> bool:
    captured = any(stage.stage == "capture" and stage.state == "pass" for stage in target.stages)
    traced = target.observation.trace is not None and captured
    return target.was_run and target.verdict == "unknown" and not traced


def _raises_in_use(seen: Observation) -> Iterator[str]:
    """Return that `fullgraph=True` fails, if the user's code compiles the target with it."""
    call = seen.compiled_at
    for stage in seen.stages:
        if stage.stage == "fullgraph" and stage.state == "fail" and call is not None and call.is_fullgraph:
            yield f"fullgraph=True at {call.path}:{call.line} raises an error: {stage.detail}"


def _causes(seen: Observation) -> Iterator[str]:
    """Return each stage, and each part of a training step, in which compiling raised or gave other results than
    eager."""
    for stage in seen.stages:
        if stage.stage in _FAILING and stage.state == "fail" and stage.reason in OF_THE_MODEL:
            yield f"{stage.stage} failed: {stage.detail}"
    for part in seen.training.failed if seen.training else ():
        yield f"training failed in its {part.phase}: {part.detail}"


def failed_to_compile(run: Run) -> bool:
    """Return True if compiling raised, or compiled results differ from eager: what to compile is then unknown."""
    return any(_causes(run.observation))


def is_whole(run: Run) -> bool:
    """Return True if nothing that was seen keeps the model from being compiled whole."""
    trained = run.observation.training
    failed = any(run.state(stage) == "fail" for stage in _FAILING) or (trained is not None and trained.failed)
    return not run.troubles.words() and not failed and not any(_raises_in_use(run.observation))


def verdict_of(run: Run, found: Sequence[Region]) -> tuple[Verdict, str]:
    """Return the verdict and its reason in one sentence, which names the stages that did not run."""
    causes = [first_line(cause) for cause in _causes(run.observation)]
    failed = bool(causes)
    for stage in run.stages.values():
        if stage.state == "fail" and stage.reason not in OF_THE_MODEL:
            if stage.reason == "no_values" and run.troubles.words():
                causes.append(f"{stage.stage} failed: {first_line(stage.detail)}")
                continue  # what was seen before that holds
            words = f"{stage.stage} failed, which says nothing of compiling"
            return "unknown", "; ".join([words, *causes])
    if run.state("capture") == "not_run":
        return "unknown", f"nothing was compiled: {first_line(run.detail('capture'))}"
    if run.nothing_compiled:
        return ("unknown", "no operation ran in a graph and nothing says why: does the code switch compilation off?")
    if run.nothing_to_compile:
        return (
            "unknown",
            "the call runs no operation of torch, so there is nothing to compile: is it the model, with its layers?",
        )
    own = run.troubles.words_of_own_compiles()
    found_so = [*causes, *map(first_line, _raises_in_use(run.observation)), *run.troubles.words(), own]
    troubles = ", ".join(filter(None, found_so))
    by_torch = run.troubles.words_by_torch()
    if not troubles and not _mostly_captured(run):
        troubles = by_torch
    missing = _missing(run)
    if not troubles and run.observation.trace is not None:
        return (
            "unknown",
            f"nothing broke in what the trace holds; a trace does not show how much ran in graphs{missing}",
        )
    if not troubles:
        share = run.observation.coverage.share if run.observation.coverage else 1.0
        whole = "captured whole" if share == 1 and not by_torch else f"no break{_captured(run)}"
        return "ready", whole + (f"; {by_torch}" if by_torch else "") + missing
    captured = _captured(run)
    plan = run.observation.plan
    planned = plan is not None and bool(plan.regions)
    if failed and not (planned and any(region.state == "proved" for region in found)):
        return "not_ready", f"{troubles}{captured}; no regions are offered{missing}"
    ops, time = _in_regions(run, found, planned)
    kind = "regions that were compiled alone" if planned else "regions free of breaks, without single modules of torch,"
    if any(region.name == "" and region.state == "proved" for region in found):
        kind = "the whole model with the plan's settings, and its regions,"
    free = f"{kind} hold {_shares(ops, time)}" if run.modules else "no module tree was seen"
    if plan is not None and plan.share is not None:
        free += f"; with the plan, {_shares(plan.share, plan.time_share)} run in graphs"
    return ("ready_by_region" if _enough(ops, time) else "not_ready", f"{troubles}{captured}; {free}{missing}")


def _in_regions(run: Run, found: Sequence[Region], planned: bool) -> tuple[float, float | None]:
    """Return the share of operations and of time in regions: with a plan, of the proved modules or functions, which
    may be nested; else of the predicted ones, except single modules of torch, which gain nothing."""
    if not planned:
        modules = [region for region in found if region.state == "predicted" and region.kind == "modules"]
        modules = [region for region in modules if regions.worth_compiling(region, run.modules)]
        return _sums(regions.outermost(modules, run.modules))
    proved = [region for region in found if region.state == "proved"]
    parts = _sums(regions.outermost([region for region in proved if region.kind == "modules"], run.modules))
    functions = _sums([region for region in proved if region.kind == "function"])
    return max(parts, functions, key=lambda shares: shares[0])


def _sums(some: Sequence[Region]) -> tuple[float, float | None]:
    times = [region.time_share for region in some if region.time_share is not None]
    ops = min(1.0, sum(region.ops_share or 0.0 for region in some))
    return ops, min(1.0, sum(times)) if times else None


def _enough(ops: float, time: float | None) -> bool:
    """Return True for half of the one and a quarter of the other; for operations alone if no time was measured."""
    if time is None:
        return ops >= _HALF
    return max(ops, time) >= _HALF and min(ops, time) >= _QUARTER


def _mostly_captured(run: Run) -> bool:
    """Return whether enough runs in graphs for breaks that torch asks for to be no obstacle."""
    coverage = run.observation.coverage
    return coverage is None or _enough(coverage.share, coverage.time_share)


def _captured(run: Run) -> str:
    """Return `; as it is, 97% of the operations run in graphs`: the result of compiling the whole model unchanged."""
    coverage = run.observation.coverage
    if coverage is None or run.state("capture") != "pass":
        return ""
    how = "compiled as a whole" if run.troubles.own_compiles else "as it is"
    shares = _shares(coverage.share, coverage.time_share)
    if coverage.time_share is not None and coverage.known_range is not None:
        low, high = coverage.known_range
        shares = f"{_shares(coverage.share, None)} and {low * 100:.0f}% to {high * 100:.0f}% of their time"
    return f"; {how}, {shares} run in graphs"


def _shares(ops: float, time: float | None) -> str:
    return f"{_percent(ops)} of the operations" + ("" if time is None else f" and {_percent(time)} of their time")


def _percent(share: float) -> str:
    """Return `61%`; less than the whole is never shown as 100%, nor more than nothing as 0%."""
    value = share * 100
    return f"{min(max(value, 0.1), 99.9):.1f}%" if 99 < value < 100 or 0 < value < 1 else f"{value:.0f}%"


def _missing(run: Run) -> str:
    """Return `; fullgraph and backend not run`, for the stages after capture."""
    # What a bench could not decide was run all the same; it says so in a line of its own.
    measured = run.observation.bench is not None and run.observation.bench.cases
    names = [stage for stage in _LATER_STAGES if run.state(stage) == "not_run" and not (stage == "speed" and measured)]
    fails = run.state("fullgraph") == "fail" and not any(_raises_in_use(run.observation))
    refused = "; fullgraph=True fails" if fails else ""
    if not names:
        return refused
    return f"{refused}; {', '.join(names[:-1])}{' and ' if names[:-1] else ''}{names[-1]} not run"
