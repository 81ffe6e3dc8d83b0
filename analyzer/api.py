"""Puts the halves together: `check` and `observe`, what the command line and other programs call.

Nothing heavy is imported until it is needed: importing this module loads neither torch nor libcst, networkx,
rich, click or jinja2.
"""

from __future__ import annotations

import dataclasses
import gc
import importlib.util
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcready.schema import (
    Level,
    Mode,
    ModeAsked,
    Observation,
    Report,
    RuleText,
    SourceText,
    Stage,
    StaticResult,
    TcreadyError,
    Tool,
)

if TYPE_CHECKING:
    from tcready.static.cache import Cache
    from tcready.static.concrete import Located
    from tcready.static.parts import Part
    from tcready.static.rule import Rule
    from tcready.static.targets import LintOptions, Unit

Tell = Callable[[str], None]
"""Told one line of what goes on."""


def _say_nothing(_text: str) -> None: ...


def _suggest(path: str, rule: Rule, place: Located) -> str | None:
    from tcready.refactor.suggest import suggest

    return suggest(path, rule, place)


ONE_MODE = "mode both is for the sources: the run was in inference mode, training was not run"
TIMEOUT = 600.0
"""Seconds for the whole dynamic pass of one target."""


def check(
    targets: Sequence[str],
    *,
    inputs: str | None = None,
    run: bool | None = None,
    mode: ModeAsked = "infer",
    device: str = "cpu",
    dtype: str | None = None,
    autocast: str | None = None,
    python: str | None = None,
    timeout: float = TIMEOUT,
    memory_gb: float | None = None,
    allow_downloads: bool = False,
    fullgraph: bool = False,
    shapes: bool = False,
    backend: bool = False,
    budget: float | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    low: bool = False,
    plain_call: bool = False,
    torch_version: str | None = None,
    cache: bool = False,
    jobs: int | None = 1,
    root: str | os.PathLike[str] | None = None,
    announce: Tell = _say_nothing,
    progress: Tell = _say_nothing,
) -> Report:
    """The report on `targets`: `path.py`, a folder, `path.py::Name` or `pkg.mod::Name`.

    Everything is read and linted. What is executed depends on `run`: False, nothing; None, a single named
    file or target that gives its inputs itself or has `inputs`; True, every target named and each file of a
    folder that gives its inputs. `inputs` is `path.py::name`. `device` is what torch calls it (`cpu`,
    `cuda:1`), `dtype` likewise (`float16`). `timeout` is in seconds and `memory_gb` in GB, for each target's
    run, which happens in a process of its own in the interpreter `python` (this one by default). `autocast` is the
    dtype of `torch.autocast` around each call. `fullgraph`, `shapes` and `backend` ask for the phases that cost more:
    `fullgraph=True` though there are breaks, other sizes of the inputs, and Inductor; `budget` is in seconds, for
    all of them together. `select`
    and `ignore` hold rule codes or prefixes of them; `low` keeps what is found with low confidence. A model that
    takes its targets (`labels`) is read as called with them and all else it takes, unless `plain_call`. What the
    sources are judged by is the Dynamo of
    `torch_version` (`2.11`), by default of the torch that is installed here, else of the newest known. With
    `cache`, what the source says is kept in `.tcready_cache` below `root` and taken from there while nothing it
    depends on has changed. `jobs` processes read the sources, None for as many as pay; more than one needs a main
    module that may be imported. Paths are told relative to `root` (the working folder).
    `mode` is `infer`, `train` or `both`: the sources are read in each, and what is found in one alone says so; a run
    is then in inference mode. `announce` is told what is about to be executed, or why it is not; `progress` how it goes.

    A run that fails is part of the report. Raises TcreadyError for what the caller can mend: a file or a
    class that does not exist, options that contradict each other.
    """
    from tcready.dynamic import Extra
    from tcready.merge import merge
    from tcready.static.targets import LintOptions

    base = Path(root or Path.cwd()).resolve()
    _refuse_contradictions(targets, inputs, run)
    _refuse_missing_python(python)
    options = LintOptions(
        root=base,
        mode=mode,
        select=tuple(select),
        ignore=tuple(ignore),
        low=low,
        plain_call=plain_call,
        torch=_torch_version(torch_version, base),
    )
    static, known, tool = _read(targets, options, cache=cache, jobs=jobs)
    observations: list[Observation] = []
    warnings: list[str] = []
    run_mode: Mode = "train" if mode == "train" else "infer"
    asked: dict[str, Any] = {
        "inputs": inputs,
        "mode": run_mode,
        "device": device,
        "dtype": dtype,
        "autocast": autocast,
        "python": python,
        "timeout": timeout,
        "memory_gb": memory_gb,
        "allow_downloads": allow_downloads,
        "extra": Extra(fullgraph, shapes, backend, budget),
    }
    if not static.skipped and static.statistics.get("files") == 0:
        warnings.append(f"no Python file in {', '.join(targets)}")
        announce(warnings[-1])
    for due in _due(targets, inputs, run, base, static):
        if due.impossible:
            observations.append(_not_established(due, run_mode))
            continue
        if not due.asked and python is None and importlib.util.find_spec("torch") is None:
            warnings.append(f"not run: torch is not installed, so {due.target} was read and not executed")
            announce(warnings[-1])
            continue
        announce(f"running {due.target} with {due.label}" + (" in inference mode" if mode == "both" else ""))
        if mode == "both" and ONE_MODE not in warnings:
            warnings.append(ONE_MODE)
        seen = _launch(due.target, asked, base, progress)
        if not _lacks_torch(seen):
            observations.append(seen)
            warnings.extend(w for w in _other_torch(seen, options.torch, torch_version) if w not in warnings)
        elif due.asked:
            observations.append(_failed_import(seen))
        else:
            warnings.append(f"not run: torch is not installed in {python}, so {due.target} was not executed")
            announce(warnings[-1])
    static = dataclasses.replace(
        static,
        sources=(*static.sources, *_sources_of(observations, static)),
        warnings=(*static.warnings, *warnings),
    )
    return merge(static, observations, known, tool)


def observe(
    target: str,
    *,
    inputs: str | None = None,
    mode: Mode = "infer",
    device: str = "cpu",
    dtype: str | None = None,
    autocast: str | None = None,
    python: str | None = None,
    timeout: float = TIMEOUT,
    memory_gb: float | None = None,
    allow_downloads: bool = False,
    fullgraph: bool = False,
    shapes: bool = False,
    backend: bool = False,
    budget: float | None = None,
    root: str | os.PathLike[str] | None = None,
    progress: Tell = _say_nothing,
) -> Observation:
    """Runs one target and tells what was seen; arguments as in `check`. A run that fails is told, not raised.

    Raises TcreadyError where the target or its inputs cannot be found.
    """
    from tcready.dynamic import Extra

    _refuse_missing_python(python)
    asked = {
        "inputs": inputs,
        "mode": mode,
        "device": device,
        "dtype": dtype,
        "autocast": autocast,
        "python": python,
        "timeout": timeout,
        "memory_gb": memory_gb,
        "allow_downloads": allow_downloads,
        "extra": Extra(fullgraph, shapes, backend, budget),
    }
    return _launch(target, asked, Path(root or Path.cwd()).resolve(), progress)


def render(report: Report, format: str, **options: Any) -> str:  # noqa: A002 - the flag's own name
    """`report` as text in one of the formats of `tcready.reports`; `options` are that format's own."""
    from tcready import reports

    return reports.render(report, format, **options)


def exit_code(report: Report, *, fail_on: Level = "warning", third_party: bool = False) -> int:
    """0 clean, 1 findings at or above `fail_on`, 2 something due could not be established."""
    from tcready import merge

    return merge.exit_code(report, fail_on=fail_on, third_party=third_party)


def load_rules() -> tuple[Rule, ...]:
    """Every rule, by code."""
    from tcready import rules

    return rules.load()


def version() -> str:
    """The version of tcready that is installed."""
    for folder in filter(
        os.path.isdir, sys.path
    ):  # `importlib.metadata` takes longer to load than a warm check
        for name in os.listdir(folder):
            if name.startswith("tcready-") and name.endswith(".dist-info"):
                return name.removeprefix("tcready-").removesuffix(".dist-info")
    from importlib.metadata import version as installed

    return installed("tcready")


# The static half: units that the cache does not know are read, here or by several processes


CHUNK = 500_000
"""Bytes of source that share one reading of what they import: what was read is dropped after each chunk."""
NAMED = 300_000
"""A class of an installed package counts for so many bytes: what it reaches."""
WORTH_A_PROCESS = 1_000_000
"""Bytes of source that take longer to analyse than a process takes to start."""
MAX_JOBS = 8


def _read(
    targets: Sequence[str], options: LintOptions, *, cache: bool, jobs: int | None
) -> tuple[StaticResult, tuple[RuleText, ...], Tool]:
    """What the sources say, the rules that were asked, and who asked."""
    from tcready.static.parts import codes, combine
    from tcready.static.targets import units

    asked = _asked(options) if cache else None
    kept = _open_cache(options, asked)
    known = kept.about() if kept is not None else None
    if known is None:
        known = tuple(rule.text() for rule in load_rules()), Tool("tcready", version())
        if kept is not None:
            kept.keep_about(*known)
    rules, tool = known
    select, ignore = (
        codes(asked_for, [r.code for r in rules]) for asked_for in (options.select, options.ignore)
    )
    wanted = units(targets, options.root)
    found = {unit: kept.part(unit) if kept is not None else None for unit in wanted}
    missing = [unit for unit, part in found.items() if part is None]
    parts: dict[Unit, Part | None] = {**found, **dict(_examined(missing, options, asked, jobs))}
    return combine([part for part in parts.values() if part is not None], select, ignore), rules, tool


def _asked(options: LintOptions) -> str:
    from tcready.static.cache import asked

    return asked(options, ("tcready", "tcready.static", "tcready.rules", "tcready.refactor"))


def _open_cache(options: LintOptions, asked: str | None) -> Cache | None:
    from tcready.static.cache import Cache
    from tcready.static.disk import Disk

    return Cache(options.root, asked, Disk()) if asked is not None else None


def _examined(
    units: Sequence[Unit], options: LintOptions, asked: str | None, jobs: int | None
) -> Iterator[tuple[Unit, Part]]:
    """Each unit with what was found in it, in order."""
    sizes = [_size(unit) for unit in units]
    paying = min(sum(sizes) // WORTH_A_PROCESS + 1, _processors(), MAX_JOBS)
    processes = min(jobs if jobs is not None else paying, len(units))
    chunks = list(_chunks(units, sizes, sum(sizes) // processes if processes else 0))
    if processes <= 1 or len(chunks) <= 1:
        for chunk in chunks:
            yield from zip(chunk, _examine(chunk, options, asked, last=chunk is chunks[-1]), strict=True)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    before = multiprocessing.active_children()
    executor = ProcessPoolExecutor(min(processes, len(chunks)), context, _prepare)
    try:
        waiting = [(chunk, executor.submit(_examine, chunk, options, asked)) for chunk in chunks]
        for chunk, future in waiting:
            try:
                parts = future.result()
            except (
                BrokenProcessPool
            ):  # one was killed, or cannot start: a main module that must not be imported
                parts = _examine(chunk, options, asked)
            yield from zip(chunk, parts, strict=True)
    except BaseException:  # interrupted, or a name is not there: nobody waits for the rest
        for process in multiprocessing.active_children():
            if process not in before:
                process.terminate()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


def _processors() -> int:
    """Those that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _size(unit: Unit) -> int:
    try:
        return unit.path.stat().st_size if unit.path is not None else NAMED
    except OSError:
        return 0


def _chunks(units: Sequence[Unit], sizes: Sequence[int], share: int) -> Iterator[tuple[Unit, ...]]:
    """Runs of units, each of CHUNK bytes or of one process's share where that is less."""
    chunk: list[Unit] = []
    held = 0
    for unit, size in zip(units, sizes, strict=True):
        if chunk and held + size > min(CHUNK, share):
            yield tuple(chunk)
            chunk, held = [], 0
        chunk.append(unit)
        held += size
    if chunk:
        yield tuple(chunk)


def _prepare() -> None:
    """A process of the pool leaves interrupts to its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _examine(
    units: Sequence[Unit], options: LintOptions, asked: str | None, *, last: bool = False
) -> list[Part]:
    """What is found in some units, over one reading of what they share; kept where there is a cache.

    Garbage is collected once, and not where these units are the last: all that is read is held to the end, and
    walking it again and again took a third of the time.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _examined_here(units, options, asked)
    finally:
        if not last:
            gc.collect()
        if collecting:
            gc.enable()


def _examined_here(units: Sequence[Unit], options: LintOptions, asked: str | None) -> list[Part]:
    from tcready.static.index import Library
    from tcready.static.lint import examine

    rules = load_rules()
    library = Library()
    kept = _open_cache(options, asked)
    parts = []
    for unit in units:
        part, reading = examine(unit, rules, options, _suggest, library)
        if kept is not None:
            kept.keep(unit, part, reading, library.disk)
        parts.append(part)
    return parts


# What is to be run


@dataclasses.dataclass(frozen=True)
class _Due:
    """A run that is due. `label` says what gives its inputs; `asked` whether the user asked for the run."""

    target: str
    label: str
    asked: bool
    impossible: str = ""
    """Why there is nothing to run, where the run was asked for all the same."""


def _other_torch(seen: Observation, predicted: tuple[int, int], asked: str | None) -> Iterator[str]:
    """What to say of a run under another torch than the one that was asked for: it refutes nothing there."""
    ran = str((seen.environment or {}).get("torch") or "")
    if asked is not None and ran and ran.split(".")[:2] != [str(part) for part in predicted]:
        yield f"predicted is what torch {asked} does, and the run used torch {ran}: it cannot show that"


def _torch_version(asked: str | None, base: Path) -> tuple[int, int]:
    """The torch whose Dynamo is predicted."""
    from tcready.static import locate, versions

    if asked is not None:
        return versions.version_of(asked)
    return versions.installed(locate.default_search_path(base)) or versions.NEWEST


def _refuse_contradictions(targets: Sequence[str], inputs: str | None, run: bool | None) -> None:
    if inputs is None:
        return
    if run is False:
        raise TcreadyError("--inputs asks for a run and --no-run forbids it: leave one of them out")
    if len(targets) != 1 or Path(targets[0]).is_dir():
        raise TcreadyError("--inputs goes with one target: a file, path.py::Name or pkg.mod::Name")


def _refuse_missing_python(python: str | None) -> None:
    if python is not None and shutil.which(python) is None:
        raise TcreadyError(f"--python {python}: no such program")


def _due(
    targets: Sequence[str], inputs: str | None, run: bool | None, root: Path, static: StaticResult
) -> Iterator[_Due]:
    """The runs that are due: the README says when a file is run without being asked."""
    if run is False:
        return
    asked = run is True or inputs is not None
    if not asked and (len(targets) != 1 or (root / targets[0]).is_dir()):
        return
    for target in targets:
        if (root / target).is_dir():
            yield from _due_in_folder(target, root, static)
        elif inputs is not None:
            yield _Due(_only_one(target, static), f"inputs from {inputs}", asked)
        else:
            due = _by_convention(target, root, asked=asked)
            if due is not None or asked:
                yield due or _Due(target, "the inputs it gives", asked)


def _only_one(target: str, static: StaticResult) -> str:
    """The target itself, or the one model of the file it names. Raises TcreadyError where there are several."""
    if "::" in target:
        return target
    found = [t.target for t in static.targets if t.target.partition("::")[0] == target]
    if len(found) == 1 or static.skipped:
        return found[0] if found else target
    names = (
        f": name one of {', '.join(found)}"
        if found
        else ", and no model is seen in it: name one as FILE::Name"
    )
    raise TcreadyError(f"{target}: --inputs goes with one model{names}")


def _due_in_folder(folder: str, root: Path, static: StaticResult) -> Iterator[_Due]:
    """Each file of the folder that holds something to compile and gives its inputs."""
    base = root / folder
    files = dict.fromkeys(target.target.partition("::")[0] for target in static.targets)
    inside = [name for name in files if (root / name).is_relative_to(base)]
    found = [due for name in inside if (due := _by_convention(name, root, asked=True)) is not None]
    if not found:
        why = "no file here gives its inputs: define get_inputs() beside the model, or name one with --inputs"
        yield _Due(folder, "", asked=True, impossible=why)
    yield from found


def _by_convention(target: str, root: Path, *, asked: bool) -> _Due | None:
    """The run of a target whose file itself says what to build and gives the inputs. Nothing is executed."""
    from tcready.dynamic import find_convention
    from tcready.static import locate

    head, _, name = target.partition("::")
    path: Path | None = root / head
    if not head.endswith(".py"):
        path = locate.find_module(head, locate.default_search_path(root))
    convention = find_convention(path, name or None) if path is not None else None
    if convention is None:
        return None
    return _Due(f"{head}::{name or convention.target}", convention.label.partition(" with ")[0], asked)


def _not_established(due: _Due, mode: Mode) -> Observation:
    stages = (Stage("parse", "pass", "read"), Stage("build", "fail", due.impossible))
    return Observation(target=due.target, convention=None, mode=mode, stages=stages, environment=None)


def _lacks_torch(seen: Observation) -> bool:
    """Whether the interpreter that was to run the target has no torch."""
    return any(stage.stage == "import" and "torch is not installed" in stage.detail for stage in seen.stages)


def _failed_import(seen: Observation) -> Observation:
    """A run that was asked for and found no torch: not merely not run, it could not be established."""
    stages = (
        dataclasses.replace(stage, state="fail") if stage.stage == "import" else stage
        for stage in seen.stages
    )
    return dataclasses.replace(seen, stages=tuple(stages))


def _launch(target: str, asked: Mapping[str, Any], root: Path, progress: Tell) -> Observation:
    """Runs one target; `asked` are the fields of RunRequest that the caller decides."""
    from tcready import dynamic

    request = dynamic.RunRequest(target=target, root=str(root), own_packages=_own_packages(target), **asked)
    return dynamic.observe(request, progress)


def _own_packages(target: str) -> tuple[str, ...]:
    """The top-level package that `pkg.mod::Name` asks about: its findings are the user's own."""
    head = target.partition("::")[0]
    return () if head.endswith(".py") or os.sep in head or "/" in head else (head.partition(".")[0],)


# Sources that only a run knows of


def _sources_of(observations: Iterable[Observation], static: StaticResult) -> Iterator[SourceText]:
    """The sources, where readable here, of files that a run points at and the static half did not read."""
    from tcready.static import source

    have = {text.path for text in static.sources}
    for seen in observations:
        files: Mapping[str, str] = dict(seen.sources)
        for shown in _pointed_at(seen):
            if shown in have or shown not in files:
                continue
            have.add(shown)
            try:
                read = source.read(Path(files[shown]))
            except source.UnreadableError:
                continue
            yield SourceText(shown, read.sha256, read.text)


def _pointed_at(seen: Observation) -> Iterator[str]:
    """Display paths of the places that a report on this run shows."""
    for site in seen.break_sites:
        yield site.path
    for frame in seen.skipped_frames:
        if not frame.benign:
            yield frame.path
    for recompile in seen.recompiles:
        yield recompile.path
        yield from (frame.path for frame in recompile.lines)
