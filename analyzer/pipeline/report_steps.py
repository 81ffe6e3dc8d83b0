"""From what was read and run to a report: the steps that every check shares."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tcready.config import pyproject
from tcready.config.resolution import Settings
from tcready.pipeline.registry import advice, rule_set, torch_for, warn_no_tables
from tcready.schema.observation import Observation
from tcready.schema.progress import Progressing
from tcready.schema.report import Reading, Report
from tcready.schema.static import StaticResult

if TYPE_CHECKING:
    from tcready.dynamic import StayingWorker
    from tcready.pipeline.observations import Observed
    from tcready.pipeline.run_selection import PlannedRun
    from tcready.traces import Traced


Announce = Callable[[str], None]
"""A function that is called with one line about the current work."""


SHOWN_LINKS = 5
"""Maximum number of unread links that are named."""


def report_of(
    names: tuple[str, ...],
    run: bool | None,
    observations: Sequence[str],
    chosen: Settings,
    announce: Announce,
    progress: Progressing,
    benched: Callable[[Sequence[PlannedRun]], Callable[[Observed], Observed]] | None = None,
    traced: tuple[Observed, Traced] | None = None,
    stays: StayingWorker | None = None,
) -> Report:
    """Return the report of `check`. `benched` is called before the runs; its result adds the measurements of a bench
    to them. `stays` keeps the process of the last run for the bench. `traced` replaces the runs."""
    from tcready.merge import merge
    from tcready.pipeline import filtering, named_models, run_selection
    from tcready.pipeline import observations as run_sources
    from tcready.static import driver
    from tcready.static.units import is_wanted, links_out

    base, work, shown = chosen.root, chosen.work, chosen.report
    known = filtering.load_known(shown, base)
    named = named_models.find_models(names, chosen.run, base, chosen.values["mode"])
    if named:
        named_models.reject_unread(named, run)
        targets = {each.text: each.target for each in named}
        names = tuple(dict.fromkeys([*(targets.get(name, name) for name in names), *targets.values()]))
    models = {each.target: each.text for each in named}
    unread = {each.target: each.warning for each in named if not each.read}
    run_selection.validate_options(names, chosen, run, observations)
    if work.force_exclude:
        names = tuple(name for name in names if is_wanted(name, base, chosen.read.exclude))
    may_run = run is not False and not observations
    tables = (with_tables(chosen).tables or ()) if may_run else ()
    version = torch_of(chosen)
    mode = run_selection.reading_mode(names, chosen, tables)
    dtype, autocast = run_selection.reading_types(names, chosen, tables or chosen.tables or ())
    reading = dataclasses.replace(chosen.read, mode=mode, torch=version, dtype=dtype, autocast=autocast)
    readable = tuple(name for name in names if name not in unread)
    read = driver.read(readable, reading, rule_set(), shown, cache=work.cache, jobs=work.jobs, progress=progress)
    links = _not_followed([os.path.relpath(path, base) for path in links_out(readable, base, reading.exclude)])
    empty = (*links, *(() if links else _without_files(readable, read.result)), *unread.values())
    for warning in empty:
        announce(warning)
    if observations:
        seen = run_sources.load_runs(observations, base, announce)
        apart = tuple(
            f"{run.target} was run elsewhere and is not what was named here: its run is reported in addition"
            for run in seen.runs
            if not run_selection.is_named(run.target, names, base)
        )
        runs = tuple(map(with_figures, seen.runs))
        seen = dataclasses.replace(seen, runs=runs, warnings=(*seen.warnings, *apart))
    elif traced is not None:
        runs = run_sources.named_as_read(traced[1], read.result.targets)
        seen = dataclasses.replace(traced[0], runs=runs)
    else:
        there = tuple(name for name in names if name not in read.missing)
        requested = run if len(names) == 1 else run is True  # one of several is not run unasked
        planned = tuple(run_selection.due(there, requested, chosen, tables, read.result, models)) if may_run else ()
        if run and not planned:
            announce("nothing was run: no file provides inputs, and no target is listed in pyproject.toml")
        measure = benched(planned) if benched is not None else None
        seen = run_sources.make(planned, chosen, mode, announce, progress, stays)
        seen = measure(seen) if measure is not None else seen
    if chosen.is_given("trace_out") and not seen.runs:
        announce(f"nothing was run, so there is no trace in {chosen.run.trace_out}")
    studies = [f"--{name}" for name in chosen.run.studies() if chosen.is_given(name)]
    if studies and not seen.runs:
        announce(f"nothing was run, so {', '.join(studies)} did nothing: --run or --inputs run the target")
    other = chosen.is_given("torch") or chosen.run.python is not None
    other_torch = run_sources.warn_other_torch(seen.runs, version) if other else ()
    static = dataclasses.replace(
        read.result,
        skipped=(
            *read.result.skipped,
            *run_selection.unchecked(readable, read.result, seen.runs, base, lenient=reading.lenient),
        ),
        sources=(*read.result.sources, *run_sources.sources_of(seen.runs, read.result.sources)),
        warnings=(*read.result.warnings, *empty, *seen.warnings, *warn_no_tables(version), *other_torch),
    )
    report = merge(static, seen.runs, read.rules, read.tool, advice() if seen.runs else {})
    if work.verify_fixes:
        from tcready.fixes import proposals

        report = proposals.verify_report(report, chosen, version, rule_set(), announce, progress)
    report = dataclasses.replace(
        report,
        targets=tuple(
            each  # the worker of a run elsewhere recorded its own options
            if observations and each.was_run
            else each.with_command(run_selection.command_arguments(each.target, models.get(each.target), chosen))
            for each in report.targets
        ),
    )
    how = Reading(mode, reading.low, reading.plain_call, ".".join(map(str, version)), reading.dtype or "")
    report, notes = filtering.filter_report(dataclasses.replace(report, readings=(how,)), known, shown, readable, base)
    for note in notes:
        announce(note)
    if shown.serving is not None:
        report = _with_serving(report, base, announce)
    return at_its_commit(report, base) if work.checkout else report


def _with_serving(report: Report, base: Path, announce: Announce) -> Report:
    """Return the report with the verdict of the installed serving engine on its findings."""
    from tcready.integrations import vllm

    found = vllm.by_the_installed(report, base)
    if not found.installed:
        announce(vllm.NOT_INSTALLED)
    return dataclasses.replace(report, serving=found)


def with_figures(seen: Observation) -> Observation:
    """Return the report with the figures of what the standalone worker measured. They need scipy, which is available
    here."""
    if seen.bench_run is None:
        return seen
    from tcready.pipeline import bench_run

    return bench_run.compute_bench(seen)


def _not_followed(links: Sequence[str]) -> tuple[str, ...]:
    """Return a warning about links that lead out of the given folders and of the project."""
    if not links:
        return ()
    more = f" and {len(links) - SHOWN_LINKS} more" if len(links) > SHOWN_LINKS else ""
    named = f"{', '.join(links[:SHOWN_LINKS])}{more}"
    return (f"not read, since they are links that lead out of what was named and of the project: {named}",)


def _without_files(names: Sequence[str], static: StaticResult) -> tuple[str, ...]:
    """Return a warning if no Python file was named."""
    silent = not static.skipped and not static.warnings
    if names and silent and static.statistics.get("files") == 0:
        return (f"no Python file in {', '.join(names)}",)
    return ()


def torch_of(chosen: Settings) -> tuple[int, int]:
    return torch_for(chosen.read.torch, chosen.root, chosen.run.python)


def at_its_commit(report: Report, root: Path) -> Report:
    from tcready.pipeline import git

    return dataclasses.replace(report, checkout=git.checkout(root, [s.path for s in report.sources]))


def with_tables(chosen: Settings) -> Settings:
    tables = pyproject.target_tables(chosen.root) if chosen.tables is None else chosen.tables
    return dataclasses.replace(chosen, tables=tables)
