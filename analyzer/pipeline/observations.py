"""The runs of a report, made here or elsewhere, and the sources that they refer to."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.util
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tcready.config.resolution import Settings
from tcready.pipeline import run_selection
from tcready.pipeline.run_selection import MODE_WORDS, PlannedRun
from tcready.portable.options import RunOptions
from tcready.portable.target import Target
from tcready.schema.enums import Mode, ModeAsked, TcreadyError
from tcready.schema.observation import SYNTHESISED, Observation, Stage
from tcready.schema.progress import Progressing
from tcready.schema.report import Report, Tool
from tcready.schema.static import RuleText, SourceText, StaticTarget
from tcready.schema.value_class import dataclass
from tcready.source.files import refuse, write

if TYPE_CHECKING:
    from tcready.dynamic import ForkServer, RunRequest, StayingWorker
    from tcready.traces import Traced

SOURCES = (".py", ".pyw", ".ipynb")
"""Suffixes of files with code."""
Announce = Callable[[str], None]
"""A function that is called with one line about the current work."""


@dataclass(frozen=True)
class Observed:
    """Runs, and warnings about them."""

    runs: tuple[Observation, ...] = ()
    warnings: tuple[str, ...] = ()


# Runs that are made here


def make(
    planned: Iterable[PlannedRun],
    settings: Settings,
    read_mode: ModeAsked,
    announce: Announce,
    progress: Progressing,
    stays: StayingWorker | None = None,
) -> Observed:
    """Make the runs that are due, each in every requested mode.

    Args:
        planned: The runs that are due.
        settings: How to run a target without a table in the project.
        read_mode: The mode that the sources were read in.
        announce: Called with what is about to be executed, or why it is not.
        progress: Called with the current stage.
        stays: Gets the process of the last run, if that ends well.

    Returns:
        The runs. A run that was not requested and finds no torch is a warning.

    Raises:
        TcreadyError: The interpreter does not exist.
    """
    runs: list[Observation] = []
    warnings: list[str] = []
    python = settings.run.python
    every = [(due, () if due.impossible else due.options(settings)) for due in planned]
    if not every:
        return Observed()
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(fork_server()) if sum(len(modes) for _, modes in every) > 1 else None
        for due, each_mode in every:
            run_selection.validate_programs(settings.run)
            if due.impossible:
                runs.append(_not_established(due, "train" if read_mode == "train" else "infer"))
                continue
            if not due.requested and python is None and importlib.util.find_spec("torch") is None:
                warnings.append(f"not run: torch is not installed, so {due.target} was read and not executed")
                announce(warnings[-1])
                continue
            for options in each_mode:
                in_mode = f" in {MODE_WORDS[options.mode]}" if len(each_mode) > 1 else ""
                announce(f"running {due.target} with {due.inputs_from}{in_mode}")
                seen = launch(due.target, options, settings.root, progress, server, stays)
                if due.model is not None and (words := _built_and_called(seen)):
                    announce(words)
                if named := due.convention(settings):
                    seen = dataclasses.replace(seen, convention=named, inputs_from="project")
                if not _lacks_torch(seen):
                    runs.append(seen)
                elif due.requested:
                    runs.append(_failed_import(seen))
                    break
                else:
                    warnings.append(f"not run: torch is not installed in {python}, so {due.target} was not executed")
                    announce(warnings[-1])
                    break
    return Observed(tuple(runs), tuple(warnings))


def fork_server() -> ForkServer:
    """Return a context manager with the server that several runs are forked from: torch is imported once for all."""
    from tcready import dynamic

    return dynamic.ForkServer()


def _built_and_called(seen: Observation) -> str:
    """Return the model and the inputs of a run of a named model, for reports; empty if it did not get that far."""
    built = next(stage for stage in seen.stages if stage.stage == "build")
    if built.state != "pass" or seen.convention is None:
        return ""
    made_up = "made-up inputs: " if seen.inputs_from == "made_up" else ""
    return f"{built.detail}, called with {made_up}{seen.convention.removeprefix(SYNTHESISED)}"


def launch(
    target: str,
    options: RunOptions,
    root: Path,
    progress: Progressing,
    server: ForkServer | None = None,
    stays: StayingWorker | None = None,
) -> Observation:
    """Run one target in a separate process, which is passed to `stays` if the run ends well."""
    from tcready import dynamic

    return dynamic.observe(run_request(target, options, root, server), progress, stays)


def one_of_many(
    target: str,
    options: RunOptions,
    root: Path,
    given_by: str | None,
    server: ForkServer,
    variables: tuple[tuple[str, str], ...],
) -> Observation:
    """Make one run of a sweep, as `make` does. `given_by` is the table with its inputs, if there is one."""
    from tcready import dynamic

    request = run_request(target, options, root, server, variables)
    seen = dynamic.observe(request)
    if given_by is not None:
        seen = dataclasses.replace(seen, convention=given_by, inputs_from="project")
    return _failed_import(seen) if _lacks_torch(seen) else seen


def run_request(
    target: str,
    options: RunOptions,
    root: Path,
    server: ForkServer | None = None,
    variables: tuple[tuple[str, str], ...] = (),
) -> RunRequest:
    """Return the request for a run of one target. The package of a `pkg.mod::Name` counts as own code.

    `server`: where several runs are forked from. `variables`: additions to the environment.
    """
    from tcready import dynamic

    package = Target.parse(target).package
    own = (package,) if package else ()
    return dynamic.RunRequest(target, options, str(root), own, server, variables)


def _not_established(due: PlannedRun, mode: Mode) -> Observation:
    stages = (Stage("parse", "pass", "read"), Stage("build", "fail", due.impossible))
    return Observation(target=due.target, convention=None, mode=mode, stages=stages, environment=None)


def _lacks_torch(seen: Observation) -> bool:
    """Return True if the interpreter for the target has no torch."""
    return any(stage.reason == "no_torch" for stage in seen.stages)


def _failed_import(seen: Observation) -> Observation:
    """Return a requested run that found no torch. It failed, because nothing could be established."""
    stages = (dataclasses.replace(stage, state="fail") if stage.stage == "import" else stage for stage in seen.stages)
    return dataclasses.replace(seen, stages=tuple(stages))


# Runs that were made elsewhere


def load(path: str | os.PathLike[str], named: str) -> Report | Observation:
    """Load a JSON report, an HTML page of one, or a result of the standalone worker.

    Raises TcreadyError, with `named`, if the file is none of these, is truncated, or was written by a newer tcready.
    """
    from tcready.pipeline import (
        report_loading,  # with a parser of HTML, for which a check without observations has no use
    )

    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise TcreadyError(f"{named}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TcreadyError(f"{named} is neither a report of tcready nor what its worker wrote") from None
    return report_loading.parse_report(text, named)


def load_runs(files: Sequence[str], root: Path, announce: Announce) -> Observed:
    """Load the runs in files that the standalone worker wrote, with local copies of their sources.

    Raises TcreadyError if a file is not such a result, or was written by a newer tcready.
    """
    runs: list[Observation] = []
    warnings: list[str] = []
    for file in files:
        named = f"--observation {file}"
        seen = load(root / file, named)
        if not isinstance(seen, Observation):
            raise TcreadyError(f"{named} is a report: `tcready report` puts reports together")
        placed, differing = _placed(seen, file, root)
        announce(f"{file}: {placed.target} was run {_where(placed)}")
        runs.append(placed)
        warnings += differing
    return Observed(tuple(runs), tuple(warnings))


def _placed(
    seen: Observation, file: str, root: Path, known: Mapping[str, str] = MappingProxyType({})
) -> tuple[Observation, list[str]]:
    """Return an observation with local copies of its sources, and warnings about those that differ from what was
    run. `known`: digests of files that are loaded already."""
    from tcready.static.frontend import module_search

    search = module_search.default_search_path(root)
    here = {
        shown: path
        for shown, _ in seen.sources
        if shown.endswith(SOURCES)  # whoever wrote the file names what is read here, and shown
        and (path := next((p / shown for p in search if (p / shown).is_file()), None)) is not None
    }
    digests = {
        shown: hashlib.sha256(path.read_bytes()).hexdigest() for shown, path in here.items() if shown not in known
    }
    digests |= known
    differing = [
        f"{shown} is not what was run in {file}: its lines may have moved"
        for shown, digest in seen.digests
        if digests.get(shown, digest) != digest
    ]
    sources = tuple((shown, str(path)) for shown, path in here.items())
    return dataclasses.replace(seen, sources=sources, brought_from=file), differing


def _where(seen: Observation) -> str:
    """Describe in a few words where an observation was made."""
    about = seen.environment or {}
    words = [f"under torch {about['torch']}"] if "torch" in about else ["without torch"]
    device = about.get("gpu") or about.get("device")
    return " ".join([*words, f"on {device}"] if device else words)


def combine_files(
    files: Sequence[str],
    root: Path,
    tool: Tool,
    whole: Callable[[Observation], Observation],
    advice: Mapping[str, RuleText],
) -> Report:
    """Combine several files, of reports and runs, into one report. `whole` computes what a run measured, `advice`
    has the texts for types of breaks that only a run shows. Raises TcreadyError for a file that cannot be read."""
    loaded = [(file, load(root / file, file)) for file in files]
    reports = [(file, report) for file, report in loaded if isinstance(report, Report)]
    known = {source.path: source.sha256 for _, report in reports for source in report.sources}
    runs: list[Observation] = []
    warnings: list[str] = []
    for file, seen in loaded:
        if isinstance(seen, Observation):
            placed, differing = _placed(whole(seen), file, root, known)
            runs.append(placed)
            warnings += differing
    return together(reports, runs, tool, advice, warnings)


def together(
    reports: Sequence[tuple[str, Report]],
    runs: Sequence[Observation],
    tool: Tool,
    advice: Mapping[str, RuleText],
    warnings: Sequence[str] = (),
) -> Report:
    """Combine several named reports and runs into one report, with the sources that these refer to and `warnings`.

    Raises TcreadyError if there is neither.
    """
    from tcready.merge import combine_reports as merge

    given = list(reports)
    if runs or warnings:
        texts = tuple(sources_of(runs, [source for _, report in reports for source in report.sources]))
        given.append(("", Report(tool, (), (), (), texts, (), tuple(warnings), {})))
    return merge(given, runs, advice)


# Runs that nobody can make again: what a job left under TORCH_TRACE


def load_traces(files: Sequence[str], roots: Sequence[str], root: Path, announce: Announce) -> tuple[Observed, Traced]:
    """Return the content of the traces of a job, in place of runs, and where the compiled code begins here.

    Args:
        files: Files of a trace, or folders of them, all of one job.
        roots: `OLD=NEW`: folders of the job, and the corresponding ones below `root`.
        root: The working folder.
        announce: Called with what was read.

    Raises:
        TcreadyError: A file is missing or is not a trace of torch, or a value of `roots` is invalid.
    """
    from tcready import traces
    from tcready.static.frontend import module_search

    found = traces.read(files, root, [_moved(text, root) for text in roots], module_search.default_search_path(root))
    processes = {process.file for seen in found.observations if seen.trace for process in seen.trace.processes}
    announce(f"{', '.join(files)}: {len(processes)} process{'' if len(processes) == 1 else 'es'} of a job")
    return Observed(found.observations, found.warnings), found


def write_timeline(files: Sequence[str], root: Path, path: str) -> None:
    """Write the timeline of a job's traces to `path`.

    Raises TcreadyError if there is none, if it cannot be written, or if `path` is a file of the trace.
    """
    from tcready.traces import timeline

    root = root.resolve()
    refuse(path, "--timeline", map(str, timeline.files_of(files, root)))
    found = timeline.make(files, root)
    write(path, json.dumps(found, separators=(",", ":")) + "\n")


def _moved(text: str, root: Path) -> tuple[str, str]:
    """Return the two folders of `OLD=NEW`. Raises TcreadyError if it is invalid, or if the new one does not exist."""
    old, equals, new = text.rpartition("=")
    if not equals or not old or not new:
        raise TcreadyError(f"--trace-root {text}: write OLD=NEW, the folder of the job and the one here")
    if not (root / new).is_dir():
        raise TcreadyError(f"--trace-root {text}: there is no folder {new}")
    return old, new


def named_as_read(found: Traced, targets: Iterable[StaticTarget]) -> tuple[Observation, ...]:
    """Rename observations of traces to the target that was read, if the compiled code is the forward of that target
    only."""
    forwards = [
        (module.path, module.line, target.target)
        for target in targets
        for module in target.modules
        if module.name == "" and module.line is not None
    ]
    renamed = []
    for seen in found.observations:
        path, root = found.roots.get(seen.target, ("", None))
        same = {
            target
            for at, line, target in forwards
            if root is not None and at == path and root.first <= line <= root.last
        }
        renamed.append(dataclasses.replace(seen, target=min(same)) if len(same) == 1 else seen)
    return tuple(renamed)


def as_the_job(found: Traced) -> dict[str, Any]:
    """Return options to read the sources as the job ran them: the mode, and the torch version to predict for."""
    modes = {seen.mode for seen in found.observations}
    read: dict[str, Any] = {"mode": "both" if len(modes) > 1 else modes.pop()}
    ran = (str((seen.environment or {}).get("torch") or "") for seen in found.observations)
    version = next((match for text in ran if (match := re.match(r"2\.(\d+)\.", text))), None)
    return read if version is None else {**read, "torch": (2, int(version[1]))}


def sources_in(found: Traced, root: Path) -> tuple[str, ...]:
    """Return the user's own files below `root` that occur in a trace, as names of targets."""
    shown = {path for seen in found.observations for path, _ in seen.sources}
    return tuple(sorted(path for path in shown if (root / path).is_file() and not os.path.isabs(path)))


# What is said of runs, and their sources


def warn_other_torch(runs: Iterable[Observation], predicted: tuple[int, int]) -> tuple[str, ...]:
    """Return a warning about runs under another torch than the predicted one: they do not refute predictions."""
    version = ".".join(map(str, predicted))
    ran = (str((seen.environment or {}).get("torch") or "") for seen in runs)
    return tuple(
        dict.fromkeys(
            f"the predictions are for torch {version}, but the run used torch {torch}: it cannot confirm them"
            for torch in ran
            if torch and torch.split(".")[:2] != version.split(".")
        )
    )


def sources_of(runs: Iterable[Observation], known: Iterable[SourceText]) -> Iterator[SourceText]:
    """Read the sources, if readable here, of files that a run refers to and that are not `known` already."""
    there = {text.path for text in known}
    for seen in runs:
        files: Mapping[str, str] = dict(seen.sources)
        for shown in _pointed_at(seen):
            if shown in there or shown not in files:
                continue
            from tcready.static.frontend import source

            there.add(shown)
            try:
                read = source.read(Path(files[shown]))
            except source.UnreadableError:
                continue
            yield SourceText(shown, read.sha256, read.text, read.cells)


def _pointed_at(seen: Observation) -> Iterator[str]:
    """Return the display paths of the places that a report on this run shows."""
    for site in seen.break_sites:
        yield site.path
    for frame in seen.skipped_frames:
        if not frame.benign:
            yield frame.path
    for recompile in seen.recompiles:
        yield recompile.path
        yield from (frame.path for frame in recompile.lines)
