"""The facade: `check`, `observe` and the other functions that the command line and other programs call.

Nothing heavy is imported until it is needed: importing this module loads neither torch nor libcst, networkx,
rich, click or jinja2.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from tcready.config.resolution import Settings, keywords, resolve
from tcready.pipeline.registry import advice, rule_set, tool
from tcready.pipeline.registry import is_of_a_run as is_of_a_run
from tcready.pipeline.registry import load_rules as load_rules  # as is the command line
from tcready.pipeline.registry import page_of as page_of
from tcready.pipeline.registry import page_of_break as page_of_break
from tcready.pipeline.registry import rule_named as rule_named
from tcready.pipeline.registry import version as version
from tcready.pipeline.report_steps import Announce, at_its_commit, report_of, torch_of, with_figures, with_tables
from tcready.reports import FORMATS as FORMATS  # the command line offers them
from tcready.schema.enums import Level, Mode, TcreadyError
from tcready.schema.observation import Observation
from tcready.schema.progress import Progressing
from tcready.schema.report import Report
from tcready.schema.static import Finding

if TYPE_CHECKING:
    from tcready.config.init import ProjectTarget
    from tcready.config.keywords import CheckKeywords, ObserveKeywords
    from tcready.fixes.proposals import Fixed
    from tcready.pipeline.live_objects import Checked
    from tcready.pipeline.observations import Observed
    from tcready.pipeline.run_selection import PlannedRun
    from tcready.portable.options import BenchOptions, RunOptions, SweepOptions
    from tcready.schema.comparison import Comparison
    from tcready.schema.proof import FixChange, FixResult
    from typing_extensions import Unpack  # for type checkers alone: it came to typing with 3.11


NOT_GIVEN = object()
"""The default of inputs that were not given. None cannot be the default because it is a valid input."""


def _say_nothing(_: object) -> None: ...


@overload
def check(
    targets: str | Sequence[str],
    *,
    run: bool | None = None,
    observations: Sequence[str] = (),
    settings: Settings | None = None,
    root: str | os.PathLike[str] | None = None,
    announce: Announce = _say_nothing,
    progress: Progressing = _say_nothing,
    **options: Unpack[CheckKeywords],
) -> Report: ...
@overload
def check(
    targets: Callable[..., Any],
    inputs: Any = ...,
    *,
    cases: Mapping[str, Any] | None = None,
    mode: Mode = "infer",
    root: str | os.PathLike[str] | None = None,
    fullgraph: bool = False,
    shapes: bool = False,
    plan: bool = False,
    backend: bool = False,
    bench: bool | Mapping[str, Any] = False,
    budget: float | None = None,
    weights: Mapping[str, float] | None = None,
    low: bool = False,
    plain_call: bool = False,
    select: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
) -> Checked: ...
def check(targets: Any, inputs: Any = NOT_GIVEN, **options: Any) -> Report | Checked:
    """Check targets: read and analyze them, run those that can be run, and combine the results in a report.

    The first argument names targets, or is a module or function of this process. `check_targets` and `check_object`
    document the two cases.
    """
    if callable(targets):
        return check_object(targets, inputs, **options)
    if not hasattr(targets, "__iter__"):
        raise TcreadyError(
            f"check() takes names of targets, or a module or function: {type(targets).__name__} is none of these"
        )
    return check_targets(targets, **options, **({} if inputs is NOT_GIVEN else {"inputs": inputs}))


def check_object(
    value: Callable[..., Any],
    inputs: Any = NOT_GIVEN,
    *,
    cases: Mapping[str, Any] | None = None,
    mode: Mode = "infer",
    bench: bool | Mapping[str, Any] = False,
    root: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Checked:
    """Check a module or function of this process without changing it.

    Its classes are read where they were defined, in files or in cells of a notebook, and copies of it are compiled in
    this process. A crash or a hang affects this process, and code that was compiled before is compiled again at its
    next call.

    Args:
        value: The module or function.
        inputs: The inputs of a call: a tensor, a tuple of arguments, a dict of keyword arguments, `(args, kwargs)`,
            or `{"cases": {name: any of these}, "weights": {name: number}, "items": {"unit": text, "count": number}}`.
            Default: a call without arguments.
        cases: Named inputs, in place of `inputs`.
        mode: "infer" is `eval()` without gradients, "train" is `train()` with loss, backward and optimizer, on copies.
        bench: True, or options of `tcready bench` by the names of their flags (`{"quick": True, "arm": ["default"]}`):
            measure the speed of eager and compiled code, in forked copies of this process if possible.
        root: Code below this folder is your own, and paths are relative to it. Default: the working folder.
        options: `fullgraph`, `shapes`, `plan`, `backend`, `budget`, `weights`, `low`, `plain_call`, `select` and
            `ignore`, as for a named target.

    Raises:
        TcreadyError: torch is missing, the inputs are invalid, the object is TorchScript or a class, or an option is
            not supported in this process (a time limit, another device).
        TypeError: An option is unknown.
    """
    from tcready.pipeline import live_objects

    began = time.monotonic()
    for name, reason in live_objects.NOT_HERE.items():
        if options.pop(name, None) is not None:
            raise TcreadyError(f"{name} does not go with an object of this process: {reason}")
    unknown = sorted(options.keys() - live_objects.TAKEN)
    if unknown:
        raise TypeError(
            f"check() of an object takes no option {unknown[0]}: "
            f"it takes {', '.join((*live_objects.NAMED, *live_objects.TAKEN))}"
        )
    if mode not in ("infer", "train"):
        raise TcreadyError(f"mode = {mode!r}: an object is checked in 'infer' or 'train'")
    if cases is not None and inputs is not NOT_GIVEN:
        raise TcreadyError("inputs and cases both say what the object is called with: give one of them")
    weights = options.pop("weights", None)
    given = {"cases": dict(cases)} if cases is not None else () if inputs is NOT_GIVEN else inputs
    chosen = _chosen(None, root, {**options, "mode": mode})
    wanted = None
    if bench is not False:
        from tcready.pipeline import bench_run

        bench_options = {} if bench is True else dict(bench)
        wanted = live_objects.ToMeasure(bench_run.wanted_of_an_object(bench_options), bench_options, began)
        chosen = bench_run.settings_for(wanted.options, chosen)
    run = dataclasses.replace(chosen.run, weights=tuple((weights or {}).items()))
    read = dataclasses.replace(chosen.read, torch=torch_of(chosen))
    return live_objects.check_live(value, given, run, read, chosen.report, wanted)


def check_cell(text: str, root: str | os.PathLike[str] | None = None) -> Checked:
    """Return what the source of all cells shows about a cell that IPython has run. Nothing is executed."""
    from tcready.pipeline import live_objects

    chosen = _chosen(None, root, {})
    return live_objects.check_live_cell(text, dataclasses.replace(chosen.read, torch=torch_of(chosen)), chosen.report)


def check_targets(
    targets: str | Sequence[str],
    *,
    run: bool | None = None,
    observations: Sequence[str] = (),
    settings: Settings | None = None,
    root: str | os.PathLike[str] | None = None,
    announce: Announce = _say_nothing,
    progress: Progressing = _say_nothing,
    **options: Unpack[CheckKeywords],
) -> Report:
    """Read and analyze targets, run those that can be run, and combine the results in a report.

    Args:
        targets: `path.py`, a folder, `path.py::Name` or `pkg.mod::Name`; one or several.
        run: False: execute nothing. None: run a single named file or target if it provides inputs or has `inputs`.
            True: run every named target and each file of a folder that provides inputs; generate inputs that are
            not given.
        observations: Files that the standalone worker wrote. They replace runs, and nothing is run here.
        settings: Resolved options, as the command line has them. By default only the tables of targets in the
            pyproject.toml of `root` are read.
        root: Paths are relative to this folder. Default: the working folder.
        announce: Called with what is about to be executed, or why it is not executed.
        progress: Called with the progress: files that were read, the stage of a run, trials, the budget.
        options: Every option of `tcready check` by the name of its field in `tcready.portable.options`, or of its flag
            with underscores: `device="cuda"`, `mode="train"`, `ignore=["TCR5"]`, `per_file_ignores={"tests/*": ["TCR"]}`.
            None is the same as leaving it out. An option overrides a target's table, which overrides the default.

    Returns:
        The report. A failed run is part of it. With `baseline` or `diff_base`, findings are left out and `narrowed`
        has their number; verdicts, break sites and regions still cover all findings.

    Raises:
        TcreadyError: Something that the caller can fix: a file or class that does not exist, an invalid value of an
            option, options that contradict each other.
        TypeError: An option is unknown.
    """
    names = (targets,) if isinstance(targets, str) else tuple(targets)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"check() takes targets as text: {targets!r}")
    return report_of(names, run, observations, _chosen(settings, root, options), announce, progress)


def check_trace(
    traces: str | Sequence[str],
    targets: str | Sequence[str] = (),
    *,
    moved: Sequence[str] = (),
    settings: Settings | None = None,
    root: str | os.PathLike[str] | None = None,
    announce: Announce = _say_nothing,
    progress: Progressing = _say_nothing,
    **options: Unpack[CheckKeywords],
) -> Report:
    """Read the files that a job wrote with `TORCH_TRACE`, in place of a run, and analyze the sources with them.

    Args:
        traces: Files of a trace, or folders of them, all of one job. They are read; nothing is executed.
        targets: What to read, as for `check`. Default: the files below `root` that occur in the trace.
        moved: `OLD=NEW`: folders of the job and the corresponding folders here. Needed only if the ends of paths do
            not identify them.
        settings, root, announce, progress, options: As for `check`.

    Returns:
        The report, with a target for each function that the job compiled. `trace` of its observation lists what a
        trace does not contain.

    Raises:
        TcreadyError: As for `check`; there is no trace, or a value of `moved` is invalid.
        TypeError: An option is unknown.
    """
    from tcready.pipeline import observations as run_sources

    chosen = _chosen(settings, root, options)
    folders = (traces,) if isinstance(traces, str) else tuple(traces)
    names = (targets,) if isinstance(targets, str) else tuple(targets)
    found = run_sources.load_traces(folders, moved, chosen.root, announce)
    chosen = chosen.with_keywords(
        {name: value for name, value in run_sources.as_the_job(found[1]).items() if not chosen.is_given(name)}
    )
    return report_of(
        names or run_sources.sources_in(found[1], chosen.root), False, (), chosen, announce, progress, traced=found
    )


def save_timeline(
    traces: str | Sequence[str], path: str | os.PathLike[str], *, root: str | os.PathLike[str] | None = None
) -> None:
    """Write a timeline of the compilations in the trace of a job, as JSON for Perfetto or Chrome's trace viewer.

    Args:
        traces: As for `check_trace`.
        path: The file to write. It is written as a whole or not at all.
        root: The working folder. Default: the current one.

    Raises:
        TcreadyError: There is no trace, no compilation in it has a time, or the file cannot be written.
    """
    from tcready.pipeline import observations as run_sources

    folders = (traces,) if isinstance(traces, str) else tuple(traces)
    run_sources.write_timeline(folders, Path(root or "."), os.fspath(path))


@contextlib.contextmanager
def traced(settings: Settings) -> Iterator[Settings]:
    """Return settings with which a check leaves a trace of its run: in `trace_out` if that is set, otherwise in a
    folder that is removed at the end of the context."""
    if settings.run.trace_out is not None:
        yield settings
        return
    with tempfile.TemporaryDirectory(prefix="tcready-trace-", ignore_cleanup_errors=True) as folder:
        yield dataclasses.replace(settings, values={**settings.values, "trace_out": folder})


def save_timeline_of_run(report: Report, settings: Settings, path: str | os.PathLike[str]) -> None:
    """Write a timeline of the compilations of a check, as `save_timeline` does.

    Args:
        report: The report of the check.
        settings: Those of `traced`, with which it was made.
        path: The file to write.

    Raises:
        TcreadyError: Nothing was run or compiled, or the file cannot be written.
    """
    folder = settings.run.trace_out
    if folder is None or not any(each.was_run for each in report.targets):
        raise TcreadyError("nothing was run, so there is no timeline: --run or --inputs run the target")
    if not any((settings.root / folder).glob("*")):
        raise TcreadyError("the run compiled nothing, so there is no timeline: the report says how far it came")
    save_timeline(folder, path, root=settings.root)


def fix(
    targets: str | Sequence[str],
    *,
    verify: bool = False,
    unsafe: bool = False,
    third_party: bool = False,
    keep_output: bool = False,
    settings: Settings | None = None,
    root: str | os.PathLike[str] | None = None,
    announce: Announce = _say_nothing,
    progress: Progressing = _say_nothing,
    **options: Unpack[CheckKeywords],
) -> Fixed:
    """Return changes that let Dynamo compile the code of targets.

    Args:
        targets: As for `check`.
        verify: Run the model before and after each change to verify it. Otherwise nothing is executed.
        unsafe: Include unsafe changes: without `verify` those that may change behavior, with it those for which only
            one side of a branch was exercised, or that raise another exception.
        third_party: Include changes in installed packages.
        keep_output: Leave out changes by which compiled code prints, logs or warns less.
        settings, root, announce, progress, options: As for `check`.

    Returns:
        The changes, what is left, and the changed files; with `verify` of several targets also what could not
        be run (`failure`). Nothing is written: `apply` does that.

    Raises:
        TcreadyError: As for `check`; with `verify`, if a single target is named and there are no inputs for it.
        TypeError: An option is unknown.
    """
    from tcready.fixes import proposals
    from tcready.pipeline import named_models

    names = (targets,) if isinstance(targets, str) else tuple(targets)
    proposals.reject_notebooks(names)
    chosen = _chosen(settings, root, options)
    named_models.reject_library_models(names, chosen.root)
    wanted = proposals.FixOptions(unsafe, third_party, chosen.report.select, keep_output)
    if not verify:
        return proposals.read_only(names, chosen, torch_of(chosen), rule_set(), wanted)
    return proposals.find_and_prove(
        names, with_tables(chosen), torch_of(chosen), rule_set(), wanted, announce, progress
    )


def _chosen(settings: Settings | None, root: str | os.PathLike[str] | None, options: Mapping[str, Any]) -> Settings:
    """Return the settings of a call: the given ones, or the defaults, at `root`, with the keywords of the call."""
    base = Path(root or (settings.root if settings else Path.cwd())).resolve()
    return dataclasses.replace(settings or resolve({}, root=base), root=base).with_keywords(options)


def settings_for(targets: Sequence[str], settings: Settings) -> Settings:
    """Return the settings that apply to the named targets, if the project has one table for all of them."""
    from tcready.pipeline import run_selection

    tables = [
        table for target in targets for table in run_selection.matching(target, settings.tables or (), settings.root)
    ]
    return settings.with_table(tables[0]) if len(tables) == 1 else settings


def bench(
    target: str,
    *,
    wanted: BenchOptions | None = None,
    command: str = "",
    settings: Settings | None = None,
    root: str | os.PathLike[str] | None = None,
    announce: Announce = _say_nothing,
    progress: Progressing = _say_nothing,
    **options: Unpack[CheckKeywords],
) -> Report:
    """Measure whether compiling a target pays off: eager against compiled code, each in several processes.

    Args:
        target: As for `check`. If no inputs are given, they are generated.
        wanted: What to measure, and the time limit.
        command: The command that repeats the bench, for the report.
        settings, root, announce, progress, options: As for `check`.

    Returns:
        The report of a check of the target, with `bench` in its run.

    Raises:
        TcreadyError: As for `check`; an arm, a file of sizes or a patch is invalid; several targets are to be run.
        TypeError: An option is unknown.
    """
    from tcready.dynamic import StayingWorker
    from tcready.pipeline import bench_run, explanation
    from tcready.portable.options import BenchOptions

    began = time.monotonic()
    options_of_bench = wanted or BenchOptions()
    chosen = bench_run.settings_for(options_of_bench, _chosen(settings, root, options))

    def benched(planned: Sequence[PlannedRun]) -> Callable[[Observed], Observed]:
        bench_run.reject_several(planned)
        bench_run.reject_other_plan(planned, options_of_bench)
        bench_run.reject_other_bench(planned, chosen, options_of_bench)
        bench_run.announce_short_budget(options_of_bench, announce)
        return lambda seen: bench_run.benched(
            seen,
            planned,
            chosen,
            options_of_bench,
            command,
            announce,
            progress,
            began,
            lambda: explanation.stored_report(chosen.root),
            stays,
        )

    with StayingWorker(options_of_bench.steps) as stays:
        return report_of((target,), True, (), chosen, announce, progress, benched, stays=stays)


def regressions(before: str, after: Report, wanted: str) -> tuple[str, ...]:
    """Return one line for each arm that is slower in `after` than in the stored bench `before` by more than `wanted`
    ("5%").

    Raises TcreadyError if `before` has no bench of a target of `after`, or was measured on another machine or stack.
    """
    from tcready.pipeline import bench_run

    return bench_run.regressions(before, after, wanted)


def sweep(
    targets: str | Sequence[str],
    *,
    run: bool = True,
    wanted: SweepOptions | None = None,
    settings: Settings | None = None,
    root: str | os.PathLike[str] | None = None,
    announce: Announce = _say_nothing,
    progress: Progressing = _say_nothing,
    **options: Unpack[CheckKeywords],
) -> Report:
    """Check many models and keep the results in a store: what did not change is not analyzed again.

    Args:
        targets: As for `check`; also globs, names of packages, and TOML files that list targets.
        run: True: run each model, with generated inputs if none are given. False: execute nothing.
        wanted: The store, the number of models that are processed at a time, and the matrix of settings.
        settings, root, announce, progress, options: As for `check`.

    Returns:
        One report on all models. Its `sweep` summarizes them and lists what changed since the last sweep.

    Raises:
        TcreadyError: As for `check`; the store cannot be used.
        TypeError: An option is unknown.
    """
    from tcready.portable.options import SweepOptions
    from tcready.sweep import runner

    names = (targets,) if isinstance(targets, str) else tuple(targets)
    sweep_options = wanted or SweepOptions()
    chosen = _chosen(settings, root, options)
    report = runner.sweep(names, with_tables(chosen), sweep_options, run, announce, progress)
    return at_its_commit(report, chosen.root) if chosen.work.checkout else report


def project_targets(root: str | os.PathLike[str]) -> tuple[ProjectTarget, ...]:
    """Return the models of a project that are no part of another one, for `tcready init`. Nothing is executed.

    Raises TcreadyError if the project has settings that are invalid.
    """
    from tcready.pipeline import project_targets as found

    base = Path(root).resolve()
    return found.project_targets(check_targets((".",), run=False, root=base), base)


def export_sweeps(store: str, output: str | os.PathLike[str], *, root: str | os.PathLike[str] | None = None) -> None:
    """Write every result in a store of sweeps to one Parquet file.

    Raises TcreadyError if there is no such store, pyarrow is missing, or the file cannot be written.
    """
    from tcready.sweep import export
    from tcready.sweep.store import ResultStore

    path = Path(root or Path.cwd()) / store
    export.refuse(os.fspath(output), path)
    if not path.is_file():
        raise TcreadyError(f"--store {store}: there is no such file")
    with ResultStore(path, store) as opened:
        export.write(opened, os.fspath(output))


def prove(
    patch: str,
    target: str,
    *,
    named: str = "the patch",
    settings: Settings | None = None,
    root: str | os.PathLike[str] | None = None,
    beside: Sequence[str] = (),
    announce: Announce = _say_nothing,
    progress: Progressing = _say_nothing,
    **options: Unpack[CheckKeywords],
) -> FixChange | str:
    """Verify any patch in the way that `fix` verifies its own changes.

    Args:
        patch: A unified diff; its paths are below `root` or below a site-packages folder.
        target: What to run, as for `check`.
        named: The name of the patch in messages.
        beside: Settings of `torch._dynamo.config` that belong to the patch: `capture_scalar_outputs`, which becomes
            True, or `recompile_limit=64`.
        settings, root, announce, progress, options: As for `check`.

    Returns:
        The patch as one change, with the result of the verification; or why it could not be tried, in one line.

    Raises:
        TcreadyError: The patch does not apply, `beside` names an unknown setting, there are no inputs, or as for `check`.
    """
    from tcready.fixes import proposals
    from tcready.pipeline import named_models

    chosen = _chosen(settings, root, options)
    named_models.reject_library_models((target,), chosen.root)
    return proposals.proved_patch(target, with_tables(chosen), rule_set(), (patch, named), announce, progress, beside)


def changed_by(patch: str, named: str = "the patch") -> list[str]:
    """Return the files that a unified diff changes, as it names them. Raises TcreadyError for an invalid diff."""
    from tcready.fixes import patching

    return patching.changed_by(patch, named)


def holds(change: FixChange) -> bool:
    """Return True if a patch passed verification without any reservation, not even another exception."""
    return change.holds


def apply(fixed: Fixed, *, root: str | os.PathLike[str] | None = None, dirty: bool = False) -> list[str]:
    """Write the changed files of the user, all or none; installed packages are not changed.

    Returns the paths that were written.

    Raises TcreadyError, with nothing written, if a file changed since it was read, is outside of `root` (the working
    folder), or has uncommitted changes and `dirty` does not allow them.
    """
    from tcready.fixes import patching
    from tcready.schema.display_paths import is_installed

    own = [file for file in fixed.files if not is_installed(str(file.path))]
    patching.write(own, Path(root or Path.cwd()).resolve(), dirty=dirty)
    return [file.shown for file in own]


def reject_uncommitted(files: Iterable[str], *, root: str | os.PathLike[str] | None = None) -> None:
    """Raise TcreadyError if `apply` would refuse one of `files` because of uncommitted changes. Call it before
    verification. Paths are relative to `root` (the working folder); paths that are not files are ignored."""
    from tcready.fixes import patching

    base = Path(root or Path.cwd()).resolve()
    patching.reject_uncommitted((each for each in files if (base / each).is_file()), base)


def observe(
    target: str,
    *,
    settings: RunOptions | None = None,
    root: str | os.PathLike[str] | None = None,
    progress: Progressing = _say_nothing,
    **options: Unpack[ObserveKeywords],
) -> Observation:
    """Run one target in a separate process.

    Args:
        target: `path.py`, `path.py::Name` or `pkg.mod::Name`.
        settings: How to run it.
        root: Paths are relative to this folder. Default: the working folder.
        progress: Called with the progress: files that were read, the stage of a run, trials, the budget.
        options: Fields of `RunOptions` by name, which override `settings`: `inputs="model.py::example"`,
            `device="cuda"`, `timeout=60` (seconds). With `synthesise=True`, missing inputs are generated.

    Returns:
        The observation. A failed run is part of it, not an exception.

    Raises:
        TcreadyError: The interpreter or the launcher does not exist, the value of an option is invalid, or the folder
            of `trace_out` is not empty.
        TypeError: An option is unknown.
    """
    from tcready.pipeline import observations, run_selection
    from tcready.portable.options import RunOptions

    chosen = dataclasses.replace(settings or RunOptions(), **keywords(options, (RunOptions,), "observe"))
    run_selection.validate_programs(chosen)
    base = Path(root or Path.cwd()).resolve()
    run_selection.validate_trace_folder(chosen, base)
    return observations.launch(target, chosen, base, progress)


def observe_live(value: Callable[..., Any], calls: Sequence[Any], **options: Any) -> Observation:
    """Compile an object of this process, a module or a function, run `calls`, and return the observation.

    `options` are those of `tcready.dynamic.observe_live`. Raises TcreadyError if torch is missing or a call is invalid.
    """
    from tcready import dynamic

    return dynamic.observe_live(value, calls, **options)


def load(path: str | os.PathLike[str], named: str | None = None) -> Report | Observation:
    """Load a JSON report, an HTML page of one, or a result of the standalone worker.

    Raises TcreadyError, with the name of the file or `named`, if it is none of these, is truncated, or was written by a
    newer tcready.
    """
    from tcready.pipeline import observations

    found = observations.load(path, named or str(path))
    return with_figures(found) if isinstance(found, Observation) else found


def combine(files: Sequence[str], *, root: str | os.PathLike[str] | None = None) -> Report:
    """Combine several files that `load` can read into one report: reports of different targets, or a report and runs of
    its targets on other machines. The result is the same as if everything had been made at once.

    Sources that only a run names are read below `root` (the working folder) and in installed packages, if they exist.
    Raises TcreadyError for a file that cannot be read.
    """
    from tcready.pipeline import observations

    return observations.combine_files(files, Path(root or Path.cwd()).resolve(), tool(), with_figures, advice())


def explain(
    fingerprint: str,
    named: Sequence[str] = (),
    *,
    settings: Settings | None = None,
    root: str | os.PathLike[str] | None = None,
    announce: Announce = _say_nothing,
    **options: Unpack[CheckKeywords],
) -> tuple[Report, Finding]:
    """Return the finding with this fingerprint, or a unique beginning of it, and the report that contains it.

    Args:
        fingerprint: As in the text report, `9f3c2a1`, or a shorter unique beginning.
        named: Files of reports, or targets, which are read but not run. Default: the last run that the command line
            made in `root`, if the code did not change since, else the sources in that folder.
        settings, root, announce, options: As for `check`.

    Raises:
        TcreadyError: No finding or several findings have such a fingerprint; or as for `check` and `combine`.
    """
    from tcready.pipeline import explanation

    explanation.validate_fingerprint(fingerprint)
    base = _chosen(settings, root, options).root
    if explanation.are_stored(named):
        report = combine(named, root=base)
        found = explanation.find_named(fingerprint, report)
        if found is None:
            raise TcreadyError(f"there is no finding {fingerprint} in {', '.join(named)}")
        return report, found
    stored = () if named else (explanation.stored_report(base), explanation.stored_report(base, ran=False))
    known = [
        (last, of_last)
        for last in stored
        if last is not None and (of_last := explanation.find_named(fingerprint, last)) is not None
    ]
    for last, of_last in known:
        if explanation.still_holds(last, of_last, base):
            return last, of_last
    report = check_targets(tuple(named) or (".",), run=False, settings=settings, root=root, **options)
    found = explanation.find_named(fingerprint, report)
    if found is not None:
        return report, found
    if known:
        announce(f"{known[0][1].path} has changed since: this is what the last run here showed")
        return known[0]
    if named:
        raise TcreadyError(
            f"there is no finding {fingerprint} in {', '.join(named)}, as far as the source shows: "
            "name the report of the run, if it is one of those"
        )
    raise TcreadyError(
        f"there is no finding {fingerprint} in the last run here or in this folder: name the report or the target that "
        f"has it, as in `tcready explain {fingerprint} report.json`"
    )


def when_run(root: str | os.PathLike[str]) -> str | None:
    """Return when the run that `explain` uses was stored in the working folder `root`, as `2026-01-31 14:05 UTC`;
    None if there is none."""
    from tcready.pipeline import explanation

    return explanation.when_run(Path(root))


def keep_last(report: Report, root: str | os.PathLike[str], named: Sequence[str] = ()) -> None:
    """Store a report on the targets `named` in the cache of the working folder `root`, for `explain`. Skip it if
    reading the folder gives the same report."""
    from tcready.pipeline import explanation

    explanation.keep(report, Path(root), named)


def compare(before: Report, after: Report, names: tuple[str, str] = ("before", "after")) -> Comparison:
    """Compare two reports: fixed, new, moved and unchanged findings, and how verdict, coverage and break sites of each
    target changed.

    `names` are the names of the two reports. Raises TcreadyError if `before` leaves findings out (a baseline), because
    new ones are then unknown.
    """
    from tcready.pipeline import comparison as comparing

    if before.narrowed is not None:
        raise TcreadyError(f"{names[0]} was made with a baseline or --diff-base: what is new cannot be told")
    return comparing.compare(before, after, names)


def versions_to_compare(settings: Settings, against: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the version of torch that the settings predict for and the one to compare it with. Raises TcreadyError for a
    version without predictions of its own."""
    from tcready.pipeline import registry, report_steps

    versions = report_steps.torch_of(settings), against
    registry.require_tables(versions)
    return versions


def compare_versions(
    targets: Sequence[str], versions: tuple[tuple[int, int], tuple[int, int]], settings: Settings, **asked: Any
) -> tuple[Comparison, Report]:
    """Compare the findings in the source for two versions of torch, and return the comparison and the later report.

    `asked` are further arguments of `check`.
    """
    from tcready.pipeline import comparison as comparing

    before, after = (
        check_targets(
            targets,
            run=False,
            settings=dataclasses.replace(settings, values={**settings.values, "torch": each}),
            **asked,
        )
        for each in versions
    )
    if before.narrowed is not None:
        raise TcreadyError("two versions of torch cannot be compared behind a baseline or --diff-base")
    names = tuple("torch {}.{}".format(*each) for each in versions)
    return comparing.compare_versions(before, after, (names[0], names[1])), after


def write_worker(path: str | os.PathLike[str]) -> None:
    """Write the standalone worker, one file for any Python that has torch. Raises TcreadyError if it cannot be
    written."""
    import tempfile

    from tcready.dynamic import build_bundle
    from tcready.source import files

    with tempfile.TemporaryDirectory(prefix="tcready-") as folder:
        made = Path(folder) / "worker.pyz"
        build_bundle(made)
        files.write_bytes(os.fspath(path), made.read_bytes())


def render(report: Report | Comparison | FixResult | FixChange, format: str, **options: Any) -> str:  # noqa: A002 - the flag's own name
    """Render `report` as text in one of the formats of `tcready.reports`; `options` are those of the format.

    A comparison has the formats `text`, `json`, `markdown` and `html`, changes have `text` and `json`. Of their
    formats, only `html` has options: `editor` and `root`.
    """
    from tcready import reports

    if isinstance(report, Report):
        return reports.render(report, format, **options)
    from tcready.schema.comparison import Comparison

    if isinstance(report, Comparison):
        return reports.render_comparison(report, format, **options)
    return reports.render_changes(report, format)


def editor_address(editor: str) -> str:
    """Return the address with which `editor` opens a line, with `{path}`, `{line}` and `{column}`; empty for `none`.

    Raises TcreadyError for a value that is neither a known editor nor such an address.
    """
    from tcready.reports import editor_address

    return editor_address(editor)


def pages_of_models(report: Report) -> Iterator[tuple[str, Report]]:
    """Return the report of each model of a sweep, with the file name of its page. The page of the sweep links to
    these files."""
    from tcready import reports

    return reports.pages_of_models(report)


def render_finding(report: Report, finding: Finding, **options: Any) -> str:
    """Render everything that `report` contains about one of its findings, as text, and what `fix` offers for its line;
    `options` are `color` and `width`."""
    from tcready import reports

    return reports.render_finding(report, finding, here=_change_here(report, finding), **options)


def _change_here(report: Report, finding: Finding) -> str:
    """Return what `fix` offers for a finding of the user's own code, or why nothing; empty if the report knows a change
    already, or does not contain the file."""
    from tcready.fixes import proposals

    text = next((source.text for source in report.sources if source.path == finding.path), None)
    rule = next((rule for rule in load_rules() if rule.code == finding.rule), None)
    known = finding.fix is not None and (finding.fix.diff is not None or finding.fix.verified is not None)
    if text is None or rule is None or known or finding.origin != "own":
        return ""
    return proposals.describe_change(finding, rule, text)


def failures(report: Report) -> tuple[str, ...]:
    """Return one line for each target that makes `exit_code` 1 or 2 apart from findings: the model does not compile,
    or a run established nothing."""
    from tcready import merge

    return tuple(merge.failures(report))


def exit_code(report: Report | Comparison, *, fail_on: Level = "warning", third_party: bool = False) -> int:
    """Return 0 if clean, 1 for findings at or above `fail_on`, 2 if something that was due could not be established.

    For a comparison, return 1 if a finding at or above `fail_on` is new or a target newly fails to compile, else 0.
    """
    if isinstance(report, Report):
        from tcready import merge

        return merge.exit_code(report, fail_on=fail_on, third_party=third_party)
    from tcready.pipeline import comparison

    return comparison.exit_code(report, fail_on=fail_on, third_party=third_party)
