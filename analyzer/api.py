"""Puts the halves together: `check` and `observe`, what the command line and other programs call.

Nothing heavy is imported until it is needed: importing this module loads neither torch nor libcst, networkx,
rich, click or jinja2.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tcready import project
from tcready.reports import FORMATS as FORMATS  # the command line offers them
from tcready.schema import (
    Comparison,
    Level,
    Mode,
    ModeAsked,
    Observation,
    Reading,
    Report,
    SourceText,
    Stage,
    StaticResult,
    TcreadyError,
    Tool,
    display_path,
)
from tcready.target import Target

if TYPE_CHECKING:
    from tcready.baseline import Baseline, Entry
    from tcready.options import ReportOptions
    from tcready.schema import Edit
    from tcready.static.concrete import Located
    from tcready.static.driver import RuleSet
    from tcready.static.rule import Rule

Tell = Callable[[str], None]
"""Told one line of what goes on."""


def _say_nothing(_text: str) -> None: ...


def _suggest(path: str, rule: Rule, place: Located) -> tuple[Edit, ...]:
    from tcready.refactor.suggest import suggest

    return suggest(path, rule, place)


MODE_WORDS: Mapping[Mode, str] = {"infer": "inference mode", "train": "training mode"}
TIMEOUT = 600.0
"""Seconds for the whole dynamic pass of one target."""


def check(
    targets: str | Sequence[str],
    *,
    inputs: str | None = None,
    run: bool | None = None,
    observations: Sequence[str] = (),
    mode: ModeAsked | None = None,
    device: str | None = None,
    dtype: str | None = None,
    autocast: str | None = None,
    python: str | None = None,
    launcher: str | None = None,
    processes: int | None = None,
    timeout: float | None = None,
    memory_gb: float | None = None,
    allow_downloads: bool = False,
    fullgraph: bool = False,
    shapes: bool = False,
    backend: bool = False,
    budget: float | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    per_file_ignores: Mapping[str, Sequence[str]] | None = None,
    exclude: Sequence[str] = (),
    force_exclude: bool = False,
    low: bool = False,
    plain_call: bool = False,
    torch_version: str | None = None,
    cache: bool = False,
    jobs: int | None = 1,
    checkout: bool = True,
    baseline: str | None = None,
    write_baseline: str | None = None,
    diff_base: str | None = None,
    root: str | os.PathLike[str] | None = None,
    defaults: Mapping[str, Any] | None = None,
    isolated: bool = False,
    announce: Tell = _say_nothing,
    progress: Tell = _say_nothing,
) -> Report:
    """The report on `targets`: `path.py`, a folder, `path.py::Name` or `pkg.mod::Name`.

    Everything is read and linted. What is executed depends on `run`: False, nothing; None, a single named
    file or target that gives its inputs itself or has `inputs`; True, every target named and each file of a
    folder that gives its inputs; then inputs that nobody gives are made up. `inputs` is `path.py::name`. `device` is
    what torch calls it (`cpu`, `cuda:1`) or `auto`, `dtype` likewise (`float16`). `timeout` is in seconds and
    `memory_gb` in GB, for each target's run, which happens in a process of its own in the interpreter `python` (this
    one by default), behind `launcher` (`srun -n1`) and in so many `processes` of torch.distributed. What
    `[tool.tcready.targets]` in the pyproject.toml of `root` says of a target holds where no argument says otherwise:
    by default the mode is `infer`, the device `cpu`, the time limit 600 s. `observations` are files that
    the travelling worker wrote: they stand for runs, and nothing is run here. `autocast` is the
    dtype of `torch.autocast` around each call. `fullgraph`, `shapes` and `backend` ask for the phases that cost more:
    `fullgraph=True` though there are breaks, other sizes of the inputs, and Inductor; `budget` is in seconds, for
    all of them together. `select`
    and `ignore` hold rule codes or prefixes of them; `per_file_ignores` maps globs of files to such; `exclude` holds
    globs of files and folders that are passed by in folders, and with `force_exclude` where they are named too
    (what another file reaches in them is told all the same). `low` keeps what is found with low confidence. A model that
    takes its targets (`labels`) is read as called with them and all else it takes, unless `plain_call`. What the
    sources are judged by is the Dynamo of
    `torch_version` (`2.11`), by default of the torch that is installed here, else of the newest known. With
    `cache`, what the source says is kept in `.tcready_cache` below `root` and taken from there while nothing it
    depends on has changed. `jobs` processes read the sources, None for as many as pay; more than one needs a main
    module that may be imported. Paths are told relative to `root` (the working folder).
    `mode` is `infer`, `train` or `both`: the sources are read in each and a target is run in each, and what is found
    in one alone says so. With `checkout`, git is asked at which commit the sources stand, for links to their lines.
    `announce` is told what is about to be executed, or why it is not; `progress` how it goes.

    `defaults` gives `mode`, `device`, `dtype`, `autocast`, `python`, `timeout` and `memory_gb` where neither an argument
    nor the target's table does; `isolated` reads no pyproject.toml. No other option is ever taken from there.

    With `baseline`, a file that an earlier `write_baseline` wrote, only findings that it does not hold are told; with
    `diff_base`, a git revision, only those on lines that differ from where HEAD parted from it. Verdicts, break sites
    and regions are those of all that was found, and `narrowed` says what was left out. `write_baseline` writes all
    that was found; together with `baseline`, entries of it that this check does not speak of are kept: of what it did not
    read, hides, or read or ran otherwise than the file says.

    A run that fails is part of the report. Raises TcreadyError for what the caller can mend: a file or a
    class that does not exist, options that contradict each other.
    """
    from tcready.merge import merge
    from tcready.options import ReadOptions, ReportOptions
    from tcready.static import driver
    from tcready.static.units import is_wanted

    targets = (targets,) if isinstance(targets, str) else targets
    base = Path(root or Path.cwd()).resolve()
    first = write_baseline is not None and baseline is not None and not (base / baseline).exists()
    known_before = _baseline(baseline, base) if baseline is not None and not first else None
    changed = _changed_lines(base, diff_base) if diff_base is not None else None
    _refuse_contradictions(targets, inputs, run, observations)
    fallback = dict(defaults or {})
    _refuse_missing_python(python)
    _refuse_autocast(autocast or fallback.get("autocast"))
    before = _launcher(launcher)
    if force_exclude:
        targets = [target for target in targets if is_wanted(target, base, exclude)]
    tables = () if run is False or observations or isolated else project.configured(base)
    usual: ModeAsked = fallback.pop("mode", None) or "infer"
    modes = {table.mode or usual for target in targets for table in project.matching(target, tables, base)}
    said: ModeAsked = mode or ("both" if len(modes) > 1 else modes.pop() if modes else usual)
    shown = ReportOptions(
        select=tuple(select),
        ignore=tuple(ignore),
        per_file_ignores=tuple((glob, tuple(held)) for glob, held in (per_file_ignores or {}).items()),
    )
    version = _torch_version(torch_version, base)
    options = ReadOptions(
        root=base,
        mode=said,
        exclude=tuple(exclude),
        low=low,
        plain_call=plain_call,
        torch=version,
    )
    read = driver.read(targets, options, _rule_set(), shown, cache=cache, jobs=jobs)
    static, known, tool = read.result, read.rules, read.tool
    runs: list[Observation] = []
    warnings: list[str] = []
    asked: dict[str, Any] = {
        "inputs": inputs,
        "device": device,
        "dtype": dtype,
        "autocast": autocast,
        "python": python,
        "launcher": before,
        "processes": processes,
        "timeout": timeout,
        "memory_gb": memory_gb,
        "allow_downloads": allow_downloads,
        "extra": (fullgraph, shapes, backend, budget),
    }
    for file in observations:
        seen, unlike = _brought(file, base)
        announce(f"{file}: {seen.target} was run {_where(seen)}")
        runs.append(seen)
        warnings.extend(unlike)
        warnings.extend(w for w in _other_torch(seen, version, torch_version) if w not in warnings)
    if targets and not static.skipped and not static.warnings and static.statistics.get("files") == 0:
        warnings.append(f"no Python file in {', '.join(targets)}")
        announce(warnings[-1])
    dues = () if observations else tuple(_due(targets, inputs, run, base, static, tables))
    if dues and python is None:
        asked["python"] = python = fallback.get("python")
        _refuse_missing_python(python)
    for due in dues:
        if due.impossible:
            runs.append(_not_established(due, "train" if said == "train" else "infer"))
            continue
        if not due.asked and python is None and importlib.util.find_spec("torch") is None:
            warnings.append(f"not run: torch is not installed, so {due.target} was read and not executed")
            announce(warnings[-1])
            continue
        in_modes = due.modes(mode, usual)
        for run_mode in in_modes:
            announce(
                f"running {due.target} with {due.label}"
                + (f" in {MODE_WORDS[run_mode]}" if len(in_modes) > 1 else "")
            )
            seen = _launch(due.target, due.settings(asked | {"mode": run_mode}, fallback), base, progress)
            if due.table is not None and due.table.inputs and inputs is None:
                seen = dataclasses.replace(
                    seen, convention=f"[{project.TABLES}.{due.table.name}]", inputs_from="project"
                )
            if not _lacks_torch(seen):
                runs.append(seen)
                warnings.extend(w for w in _other_torch(seen, version, torch_version) if w not in warnings)
            elif due.asked:
                runs.append(_failed_import(seen))
                break
            else:
                warnings.append(
                    f"not run: torch is not installed in {python}, so {due.target} was not executed"
                )
                announce(warnings[-1])
                break
    static = dataclasses.replace(
        static,
        sources=(*static.sources, *_sources_of(runs, (text.path for text in static.sources))),
        warnings=(*static.warnings, *warnings),
    )
    reading = Reading(said, low, plain_call, ".".join(map(str, version)))
    report = dataclasses.replace(merge(static, runs, known, tool), readings=(reading,))
    if write_baseline is not None or baseline is not None:
        from tcready import baseline as baselines
        from tcready import files

        held = known_before or baselines.Baseline()
        asked_again = _asking(report, held, targets, shown, base)
        if write_baseline is not None:
            anew = baselines.renewed(report, held, asked_again)
            files.write(str(base / write_baseline), baselines.written(anew))
            announce(f"{write_baseline} is written; entries: {len(anew.entries)}")
        if baseline is not None:
            report = baselines.without_known(report, held.entries, baseline, asked_again)
    if changed is not None and diff_base is not None:
        from tcready import baseline as baselines
        from tcready import git

        commit, lines = changed
        unseen = git.unwatched(base, {finding.path for finding in report.findings})
        lines = {**{path: [(1, sys.maxsize)] for path in unseen}, **lines}
        report = baselines.on_changed_lines(report, lines, diff_base, commit)
    return _at_its_commit(report, base) if checkout else report


def _at_its_commit(report: Report, root: Path) -> Report:
    from tcready import git

    return dataclasses.replace(report, checkout=git.checkout(root, [s.path for s in report.sources]))


def observe(
    target: str,
    *,
    inputs: str | None = None,
    mode: Mode = "infer",
    device: str = "cpu",
    dtype: str | None = None,
    autocast: str | None = None,
    python: str | None = None,
    launcher: str | None = None,
    processes: int | None = None,
    timeout: float = TIMEOUT,
    memory_gb: float | None = None,
    allow_downloads: bool = False,
    fullgraph: bool = False,
    shapes: bool = False,
    backend: bool = False,
    budget: float | None = None,
    synthesise: bool = False,
    root: str | os.PathLike[str] | None = None,
    progress: Tell = _say_nothing,
) -> Observation:
    """Runs one target and tells what was seen; arguments as in `check`. A run that fails is told, not raised.

    With `synthesise`, inputs that nothing gives are made up.

    Raises TcreadyError where the target or its inputs cannot be found.
    """
    _refuse_missing_python(python)
    _refuse_autocast(autocast)
    asked = {
        "inputs": inputs,
        "mode": mode,
        "device": device,
        "dtype": dtype,
        "autocast": autocast,
        "python": python,
        "launcher": _launcher(launcher),
        "processes": processes,
        "timeout": timeout,
        "memory_gb": memory_gb,
        "allow_downloads": allow_downloads,
        "extra": (fullgraph, shapes, backend, budget),
        "synthesise": synthesise,
    }
    return _launch(target, asked, Path(root or Path.cwd()).resolve(), progress)


def observe_live(value: Callable[..., Any], calls: Sequence[Any], **options: Any) -> Observation:
    """What compiling an object of this process shows, a module or a function, for `calls`; it runs in this process.

    `options` are those of `tcready.dynamic.observe_live`. Raises TcreadyError where torch is missing or a call is none.
    """
    from tcready import dynamic

    return dynamic.observe_live(value, calls, **options)


def load(path: str | os.PathLike[str], named: str | None = None) -> Report | Observation:
    """What a file holds: a JSON report, an HTML page of one, or what the travelling worker wrote.

    Raises TcreadyError, with the file's name or `named`, where it is none of these, is cut short or is of a newer
    tcready.
    """
    from tcready import stored

    shown = named or str(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise TcreadyError(f"{shown}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TcreadyError(f"{shown} is neither a report of tcready nor what its worker wrote") from None
    return stored.parsed(text, shown)


def combine(files: Sequence[str], *, root: str | os.PathLike[str] | None = None) -> Report:
    """One report of several files that `load` reads: reports of different targets, or a report and runs of what it
    tells of that were made elsewhere. What several tell is judged as if all had been made at once.

    Sources that only a run knows of are read below `root` (the working folder) and where packages are installed, where
    they are there. Raises TcreadyError for a file that cannot be read.
    """
    from tcready.merge import combined

    base = Path(root or Path.cwd()).resolve()
    held = [(file, load(base / file, file)) for file in files]
    reports = [(file, report) for file, report in held if isinstance(report, Report)]
    known = {source.path: source.sha256 for _, report in reports for source in report.sources}
    runs: list[Observation] = []
    warnings: list[str] = []
    for file, seen in held:
        if isinstance(seen, Observation):
            placed, unlike = _placed(seen, file, base, known)
            runs.append(placed)
            warnings += unlike
    if runs:
        texts = tuple(_sources_of(runs, known))
        more = Report(_tool(), (), (), (), texts, (), tuple(warnings), {})
        reports.append(("", more))
    return combined(reports, runs)


def compare(before: Report, after: Report, names: tuple[str, str] = ("before", "after")) -> Comparison:
    """What is fixed, new, moved and unchanged in `after`, and per target how verdict, coverage and break sites changed.

    `names` is how the two are called. Raises TcreadyError where `before` leaves findings out (a baseline): what is new
    cannot be told then.
    """
    from tcready import comparison as comparing

    if before.narrowed is not None:
        raise TcreadyError(f"{names[0]} was made with a baseline or --diff-base: what is new cannot be told")
    return comparing.compare(before, after, names)


def render_comparison(comparison: Comparison, format: str = "text") -> str:  # noqa: A002 - the flag's own name
    """A comparison as `text`, `json` or `markdown`."""
    from tcready import reports

    return reports.render_comparison(comparison, format)


def comparison_exit_code(
    comparison: Comparison, *, fail_on: Level = "warning", third_party: bool = False
) -> int:
    """1 where a finding at or above `fail_on` is new or a target fails to compile that did not before, else 0."""
    from tcready import comparison as comparing

    return comparing.exit_code(comparison, fail_on=fail_on, third_party=third_party)


def write_worker(path: str | os.PathLike[str]) -> None:
    """Writes the travelling worker, one file for any Python that has torch. Raises TcreadyError where it cannot."""
    from tcready.dynamic import build_bundle

    try:
        build_bundle(Path(path))
    except OSError as error:
        raise TcreadyError(f"cannot write {path}: {error.strerror}") from None


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


def _tool() -> Tool:
    return Tool("tcready", version())


def _rule_set() -> RuleSet:
    from tcready.static.driver import RuleSet

    packages = ("tcready", "tcready.schema", "tcready.static", "tcready.rules", "tcready.refactor")
    return RuleSet(load_rules, _tool, _suggest, packages)


# What is to be run


@dataclasses.dataclass(frozen=True)
class _Due:
    """A run that is due. `label` says what gives its inputs; `asked` whether the user asked for the run."""

    target: str
    label: str
    asked: bool
    impossible: str = ""
    """Why there is nothing to run, where the run was asked for all the same."""
    table: project.Configured | None = None
    """What the project says of the target."""
    synthesise: bool = False
    """Whether its inputs are to be made up."""

    def modes(self, asked: ModeAsked | None, usual: ModeAsked) -> tuple[Mode, ...]:
        """The modes to run it in, one after the other."""
        mode = asked or (self.table.mode if self.table else None) or usual
        return ("infer", "train") if mode == "both" else (mode,)

    def settings(self, asked: Mapping[str, Any], fallback: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of RunRequest: what was asked for, else what the project says of it, else `fallback`."""
        said = self.table
        known: dict[str, Any] = {"device": "cpu", "timeout": TIMEOUT, **fallback}
        if said is not None:
            told = {
                name: getattr(said, name) for name in ("inputs", "device", "dtype", "autocast", "timeout")
            }
            told |= {"memory_gb": said.memory}
            known |= {name: value for name, value in told.items() if value is not None}
            known |= {"weights": said.weights}
        known |= {name: value for name, value in asked.items() if value is not None}
        return {**known, "synthesise": self.synthesise}


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


def _refuse_contradictions(
    targets: Sequence[str], inputs: str | None, run: bool | None, observations: Sequence[str]
) -> None:
    if observations and (run or inputs is not None):
        raise TcreadyError("--observation stands for a run: leave --inputs and --run out")
    if inputs is None:
        return
    if run is False:
        raise TcreadyError("--inputs asks for a run and --no-run forbids it: leave one of them out")
    if len(targets) != 1 or Path(targets[0]).is_dir():
        raise TcreadyError("--inputs goes with one target: a file, path.py::Name or pkg.mod::Name")


def _refuse_autocast(dtype: str | None) -> None:
    """Raises TcreadyError for a dtype that torch.autocast does not take: torch would only warn, and run without."""
    known = ("bfloat16", "float16", "half", "float32", "float64")
    if dtype is not None and dtype.removeprefix("torch.") not in known:
        raise TcreadyError(f"--autocast {dtype}: expected one of {', '.join(known)}")


def _refuse_missing_python(python: str | None) -> None:
    if python is not None and shutil.which(python) is None:
        raise TcreadyError(f"--python {python}: no such program")


def _launcher(launcher: str | None) -> tuple[str, ...]:
    """The words of a command prefix. Raises TcreadyError where there is no such program."""
    import shlex

    try:
        words = tuple(shlex.split(launcher or ""))
    except ValueError as error:
        raise TcreadyError(f"--launcher {launcher}: {error}") from None
    if words and shutil.which(words[0]) is None:
        raise TcreadyError(f"--launcher {words[0]}: no such program")
    return words


def _due(
    targets: Sequence[str],
    inputs: str | None,
    run: bool | None,
    root: Path,
    static: StaticResult,
    tables: tuple[project.Configured, ...],
) -> Iterator[_Due]:
    """The runs that are due: the README says when a file is run without being asked."""
    if run is False:
        return
    asked = run is True or inputs is not None
    if not asked and (len(targets) != 1 or (root / targets[0]).is_dir()):
        return
    for target in targets:
        if (root / target).is_dir():
            yield from _due_in_folder(target, root, static, tables)
            continue
        found = project.matching(target, tables, root)
        if inputs is not None:
            named = _only_one(target, static)
            table = next((table for table in found if table.target == named), None)
            yield _Due(named, f"inputs from {inputs}", asked, table=table)
        elif told := [table for table in found if table.inputs]:
            yield from (_told(table, root, asked=asked) for table in told)
        else:
            table = found[0] if len(found) == 1 else None
            due = _by_convention(table.target if table else target, root, asked=asked)
            if due is not None:
                yield dataclasses.replace(due, table=table)
            elif asked:
                named = table.target if table else _root_of(target, root)
                yield _Due(named, "made-up inputs", asked, table=table, synthesise=True)


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


def _root_of(target: str, root: Path) -> str:
    """The target itself, or for a file the model that it is about, where one can be told."""
    from tcready.dynamic import find_target

    if "::" in target or not target.endswith(".py"):
        return target
    name = find_target(root / target)
    return f"{target}::{name}" if name else target


def _due_in_folder(
    folder: str, root: Path, static: StaticResult, tables: tuple[project.Configured, ...]
) -> Iterator[_Due]:
    """Each target in the folder that the project tells of, and each other file with a model that gives its inputs."""
    base = root / folder
    told = project.inside(folder, tables, root)
    yield from (_told(table, root, asked=True) for table in told)
    files = dict.fromkeys(target.target.partition("::")[0] for target in static.targets)
    inside = [name for name in files if (root / name).is_relative_to(base)]
    spoken = {os.path.realpath(root / table.target.partition("::")[0]) for table in told}
    rest = [name for name in inside if os.path.realpath(root / name) not in spoken]
    found = [due for name in rest if (due := _by_convention(name, root, asked=True)) is not None]
    if not found and not told:
        why = (
            "no file here gives its inputs: define get_inputs() beside the model, or name target and inputs in "
            f"[{project.TABLES}.NAME] of {project.FILE} or with --inputs"
        )
        yield _Due(folder, "", asked=True, impossible=why)
    yield from found


def _told(table: project.Configured, root: Path, *, asked: bool) -> _Due:
    """The run of a target that the project tells of, with the inputs that it, or else its file, gives."""
    if table.inputs:
        return _Due(table.target, f"inputs from {table.inputs}", asked, table=table)
    due = _by_convention(table.target, root, asked=asked)
    if due is not None:
        return dataclasses.replace(due, table=table)
    return _Due(table.target, "made-up inputs", asked, table=table, synthesise=True)


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
    """Runs one target; `asked` are the fields of RunOptions that the caller decides."""
    from tcready import dynamic
    from tcready.options import RunOptions

    fields = dict(asked)
    fullgraph, shapes, backend, budget = fields.pop("extra")
    run = RunOptions(fullgraph=fullgraph, shapes=shapes, backend=backend, budget=budget, **fields)
    return dynamic.observe(dynamic.RunRequest(target, run, str(root), _own_packages(target)), progress)


def _own_packages(target: str) -> tuple[str, ...]:
    """The top-level package that `pkg.mod::Name` asks about: its findings are the user's own."""
    package = Target.parse(target).package
    return (package,) if package else ()


# Runs that were made elsewhere


def _brought(file: str, root: Path) -> tuple[Observation, list[str]]:
    """The observation in a file, its sources where they stand here, and what to say of those that are not the same.

    Raises TcreadyError where the file is none, or newer than this.
    """
    seen = load(root / file, f"--observation {file}")
    if not isinstance(seen, Observation):
        raise TcreadyError(f"--observation {file} is a report: `tcready report` puts reports together")
    return _placed(seen, file, root)


def _placed(
    seen: Observation, file: str, root: Path, known: Mapping[str, str] = MappingProxyType({})
) -> tuple[Observation, list[str]]:
    """An observation with its sources where they stand here, and what to say of those that are not what was run.
    `known` are the digests of files whose text is there already.
    """
    from tcready.static import locate

    search = locate.default_search_path(root)
    here = {
        shown: path
        for shown, _ in seen.sources
        if (path := next((p / shown for p in search if (p / shown).is_file()), None)) is not None
    }
    there = {s: hashlib.sha256(path.read_bytes()).hexdigest() for s, path in here.items() if s not in known}
    there |= known
    unlike = [
        f"{shown} is not what was run in {file}: its lines may have moved"
        for shown, digest in seen.digests
        if there.get(shown, digest) != digest
    ]
    return dataclasses.replace(seen, sources=tuple((k, str(v)) for k, v in here.items())), unlike


def _where(seen: Observation) -> str:
    """On what an observation was made, in a few words."""
    about = seen.environment or {}
    words = [f"under torch {about['torch']}"] if "torch" in about else ["without torch"]
    device = about.get("gpu") or about.get("device")
    return " ".join([*words, f"on {device}"] if device else words)


# What is known already


def _baseline(file: str, root: Path) -> Baseline:
    """What a baseline holds. Raises TcreadyError where it cannot be read."""
    from tcready import baseline as baselines

    try:
        text = (root / file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TcreadyError(f"--baseline {file}: no such file; --write-baseline {file} makes it") from None
    except OSError as error:
        raise TcreadyError(f"--baseline {file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise TcreadyError(f"--baseline {file} is no baseline: {error}") from None
    return baselines.parsed(text, file)


def _changed_lines(root: Path, revision: str) -> tuple[str, dict[str, list[tuple[int, int]]]]:
    from tcready import git

    return git.changed_lines(root, revision)


def _asking(
    report: Report, known: Baseline, targets: Sequence[str], options: ReportOptions, root: Path
) -> Callable[[Entry], bool]:
    """Whether a check would have told of a baseline's entry, were it still there: its rule was asked for and no comment
    hides it, its file was read as a whole (or is there no more) and as widely as the baseline says, and ran in the same
    modes if only a run shows it.
    """
    from tcready.baseline import run_modes
    from tcready.static.patterns import ignored_in

    skipped = {item.path for item in report.skipped}
    read = {source.path for source in report.sources}
    ran = {lines.path for target in report.targets for lines in target.observation.executed}
    named = {display_path(str(root / target), str(root)) for target in targets if "::" not in target}
    folders = ("",) if "." in named else tuple(f"{name}/" for name in named)
    otherwise = any(now.differs(then) for then in known.readings for now in report.readings)
    run_again = run_modes(report) >= {*known.runs}
    selected, ignored = _upper(options.select), _upper(options.ignore)

    def asked(entry: Entry) -> bool:
        path, rule = entry.path, entry.rule
        if path in skipped or not (path in named or path.startswith(folders)):
            return False
        hidden = (*ignored, *_upper(ignored_in(path, options.per_file_ignores, root)))
        if rule and (rule.startswith(hidden) or (selected and not rule.startswith(selected))):
            return False
        if entry.fingerprint in report.hidden or (rule and otherwise):
            return False
        if not rule and not (run_again and path in ran):
            return False
        return path in read or (entry.origin == "own" and not (root / path).exists())

    return asked


def _upper(prefixes: Sequence[str]) -> tuple[str, ...]:
    return tuple(prefix.strip().upper() for prefix in prefixes)


# Sources that only a run knows of


def _sources_of(observations: Iterable[Observation], known: Iterable[str]) -> Iterator[SourceText]:
    """The sources, where readable here, of files that a run points at and that are not `known` already."""
    from tcready.static import source

    have = set(known)
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
