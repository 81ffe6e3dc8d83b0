"""Puts the halves together: `check` and `observe`, what the command line and other programs call.

Nothing heavy is imported until it is needed: importing this module loads neither torch nor libcst, networkx,
rich, click or jinja2.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcready.schema import (
    Level,
    Mode,
    Observation,
    Report,
    SourceText,
    Stage,
    StaticResult,
    TcreadyError,
    Tool,
)

if TYPE_CHECKING:
    from tcready.static.concrete import Located
    from tcready.static.rule import Rule

Tell = Callable[[str], None]
"""Told one line of what goes on."""


def _say_nothing(_text: str) -> None: ...


def _suggest(path: str, rule: Rule, place: Located) -> str | None:
    from tcready.refactor.suggest import suggest

    return suggest(path, rule, place)


TIMEOUT = 600.0
"""Seconds for the whole dynamic pass of one target."""


def check(
    targets: Sequence[str],
    *,
    inputs: str | None = None,
    run: bool | None = None,
    mode: Mode = "infer",
    device: str = "cpu",
    dtype: str | None = None,
    python: str | None = None,
    timeout: float = TIMEOUT,
    memory_gb: float | None = None,
    allow_downloads: bool = False,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    root: str | os.PathLike[str] | None = None,
    announce: Tell = _say_nothing,
    progress: Tell = _say_nothing,
) -> Report:
    """The report on `targets`: `path.py`, a folder, `path.py::Name` or `pkg.mod::Name`.

    Everything is read and linted. What is executed depends on `run`: False, nothing; None, a single named
    file or target that gives its inputs itself or has `inputs`; True, every target named and each file of a
    folder that gives its inputs. `inputs` is `path.py::name`. `device` is what torch calls it (`cpu`,
    `cuda:1`), `dtype` likewise (`float16`). `timeout` is in seconds and `memory_gb` in GB, for each target's
    run, which happens in a process of its own in the interpreter `python` (this one by default). `select`
    and `ignore` hold rule codes or prefixes of them. Paths are told relative to `root` (the working folder).
    `announce` is told what is about to be executed, or why it is not; `progress` how it goes.

    A run that fails is part of the report. Raises TcreadyError for what the caller can mend: a file or a
    class that does not exist, options that contradict each other.
    """
    from tcready import rules
    from tcready.merge import merge
    from tcready.static.lint import LintOptions, lint

    base = Path(root or Path.cwd()).resolve()
    _refuse_contradictions(targets, inputs, run)
    _refuse_missing_python(python)
    known = rules.load()
    options = LintOptions(root=base, mode=mode, select=tuple(select), ignore=tuple(ignore))
    static = lint(targets, known, options, _suggest)
    observations: list[Observation] = []
    warnings: list[str] = []
    if not static.skipped and static.statistics.get("files") == 0:
        warnings.append(f"no Python file in {', '.join(targets)}")
        announce(warnings[-1])
    for due in _due(targets, inputs, run, base, static):
        if due.impossible:
            observations.append(_not_established(due, mode))
            continue
        if not due.asked and python is None and importlib.util.find_spec("torch") is None:
            warnings.append(f"not run: torch is not installed, so {due.target} was read and not executed")
            announce(warnings[-1])
            continue
        announce(f"running {due.target} with {due.label}")
        seen = _launch(
            due.target,
            inputs=inputs,
            mode=mode,
            device=device,
            dtype=dtype,
            python=python,
            timeout=timeout,
            memory_gb=memory_gb,
            allow_downloads=allow_downloads,
            root=base,
            progress=progress,
        )
        if not _lacks_torch(seen):
            observations.append(seen)
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
    return merge(static, observations, tuple(rule.text() for rule in known), _tool())


def observe(
    target: str,
    *,
    inputs: str | None = None,
    mode: Mode = "infer",
    device: str = "cpu",
    dtype: str | None = None,
    python: str | None = None,
    timeout: float = TIMEOUT,
    memory_gb: float | None = None,
    allow_downloads: bool = False,
    root: str | os.PathLike[str] | None = None,
    progress: Tell = _say_nothing,
) -> Observation:
    """Runs one target and tells what was seen; arguments as in `check`. A run that fails is told, not raised.

    Raises TcreadyError where the target or its inputs cannot be found.
    """
    return _launch(
        target,
        inputs=inputs,
        mode=mode,
        device=device,
        dtype=dtype,
        python=python,
        timeout=timeout,
        memory_gb=memory_gb,
        allow_downloads=allow_downloads,
        root=Path(root or Path.cwd()).resolve(),
        progress=progress,
    )


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
    from importlib.metadata import version as installed

    return installed("tcready")


def _tool() -> Tool:
    return Tool("tcready", version())


# What is to be run


@dataclasses.dataclass(frozen=True)
class _Due:
    """A run that is due. `label` says what gives its inputs; `asked` whether the user asked for the run."""

    target: str
    label: str
    asked: bool
    impossible: str = ""
    """Why there is nothing to run, where the run was asked for all the same."""


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


def _launch(
    target: str,
    *,
    inputs: str | None,
    mode: Mode,
    device: str,
    dtype: str | None,
    python: str | None,
    timeout: float,
    memory_gb: float | None,
    allow_downloads: bool,
    root: Path,
    progress: Tell,
) -> Observation:
    from tcready import dynamic

    _refuse_missing_python(python)
    request = dynamic.RunRequest(
        target=target,
        inputs=inputs,
        mode=mode,
        device=device,
        dtype=dtype,
        python=python,
        timeout=timeout,
        memory_gb=memory_gb,
        allow_downloads=allow_downloads,
        root=str(root),
        own_packages=_own_packages(target),
    )
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
