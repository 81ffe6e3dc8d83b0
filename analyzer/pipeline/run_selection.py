"""Decide which targets a check runs and with which inputs, from the command line, the project's tables and files.

Nothing is executed. The README says when a file is run without being asked.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from tcready.config import pyproject
from tcready.config.resolution import COMMAND_LINE, PROJECT, Settings, TargetTable
from tcready.portable.option_fields import words
from tcready.portable.options import ReadOptions, RunOptions, validate_parallel
from tcready.portable.target import LibraryModel, Target
from tcready.schema.compile_call import CompileCall
from tcready.schema.enums import Mode, ModeAsked, TcreadyError
from tcready.schema.observation import Observation
from tcready.schema.static import Skipped, StaticResult
from tcready.schema.value_class import dataclass

MODE_WORDS: Mapping[Mode, str] = {"infer": "inference mode", "train": "training mode"}
AUTOCAST = ("bfloat16", "float16", "half", "float32", "float64")
"""The dtypes that torch.autocast takes. For any other it only warns, and is disabled."""
SAME_DTYPE: Mapping[str, str] = MappingProxyType(
    {
        "half": "float16",
        "float": "float32",
        "double": "float64",
        "chalf": "complex32",
        "cfloat": "complex64",
        "cdouble": "complex128",
    }
)
"""Other names that torch has for a dtype."""
SHORT_DTYPE: Mapping[str, str] = MappingProxyType(
    {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64", "f16": "float16", "f32": "float32"}
)
"""Names that torch does not have, but users do."""
MOST_NAMED = 3
"""Maximum number of functions that are named as possible targets."""
MODULE_DTYPES = (
    "bfloat16", "float16", "float32", "float64", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "float8_e8m0fnu", "bcomplex32", "complex32", "complex64", "complex128",
)  # fmt: skip
"""The dtypes that `module.to(dtype)` takes: no integers."""
DEVICES = ("auto", "cpu", "cuda", "mps", "meta", "xpu", "hpu", "mtia")
"""Known device names, for detecting misspellings. Torch accepts more, including those that an extension registers."""
GIVE_ARGUMENTS = "run it, with the arguments of its constructor in get_init_inputs() of the file"
MADE_UP = "made-up inputs"
LIBRARY_OR_MADE_UP = "the default inputs of its library, or else made-up ones"
NOT_RUN = "{target}: a notebook is read, not run; to run a model, call tcready.check(model, inputs) in a cell"


@dataclass(frozen=True)
class PlannedRun:
    """A planned run."""

    target: str
    inputs_from: str
    """The source of its inputs, in words."""
    requested: bool
    """The user requested the run. False: the file provides its inputs and is run for that reason."""
    table: TargetTable | None = None
    """The table of the target in the project."""
    synthesise: bool = False
    """Generate its inputs."""
    impossible: str = ""
    """Why nothing can be run, although it was requested."""
    model: str | None = None
    """The library model or the expression that was named; None: the target itself is built."""
    compile_call: CompileCall | None = None
    """The call of the user's code that compiles the target."""

    def options(self, settings: Settings) -> tuple[RunOptions, ...]:
        """Return how to run it, once for each mode. Raises TcreadyError for a dtype that a model or autocast cannot
        have."""
        chosen = settings.with_table(self.table)
        validate_autocast(chosen.run.autocast)
        dtype = dtype_named(chosen.run.dtype)
        return tuple(
            dataclasses.replace(
                chosen.run,
                mode=mode,
                dtype=dtype,
                synthesise=self.synthesise,
                model=self.model,
                compile_call=self.compile_call,
            )
            for mode in chosen.modes
        )

    def convention(self, settings: Settings) -> str | None:
        """Return the table with the inputs, if a table provides them."""
        if self.table is None or settings.with_table(self.table).sources["inputs"] != self.table.source:
            return None
        return self.table.source


def command_arguments(target: str, model: str | None, settings: Settings) -> tuple[str, ...]:
    """Return the arguments of `tcready check` that repeat the run of a target. Settings of the project are left out,
    since they apply again.

    `model` is the library model or the expression of the target; None if there is neither.
    """
    of_library = model is not None and LibraryModel.parse(model) is not None
    written = {name: settings.values[name] for name, who in settings.sources.items() if who == COMMAND_LINE}
    written.pop("trace_out", None)  # its folder is not empty any more
    if model is None or of_library:
        written.pop("model", None)
    if not of_library:
        written = {name: value for name, value in written.items() if name not in ("tiny", "config")}
    named = (target,) if model is None else (model,) if of_library else ()
    isolated = ("--isolated",) if settings.isolated else ()
    return (*named, *isolated, *words(written, ReadOptions, RunOptions))


def validate_options(targets: Sequence[str], settings: Settings, run: bool | None, observations: Sequence[str]) -> None:
    """Raise TcreadyError if options contradict each other, or name a program that does not exist."""
    inputs, options = settings.run.inputs, settings.run
    if options.trace_out is not None:
        if run is False or observations:
            raise TcreadyError("--trace-out needs a run: remove --no-run and --observation")
        validate_trace_folder(options, settings.root)
    if observations and (run or inputs is not None):
        raise TcreadyError("--observation replaces a run: remove --inputs and --run")
    if inputs is not None and run is False:
        raise TcreadyError("--inputs needs a run and --no-run forbids it: remove one of them")
    if inputs is not None and (len(targets) != 1 or Path(targets[0]).is_dir()):
        raise TcreadyError("--inputs needs exactly one target: a file, path.py::Name or pkg.mod::Name")
    by_hand = options.optimizer and settings.sources["optimizer"] == COMMAND_LINE
    if by_hand and reading_mode(targets, settings, settings.tables or ()) == "infer":
        raise TcreadyError("--optimizer compiles a training step: add --mode train")
    if settings.sources["python"] == PROJECT:  # a matter of the run, if there is one
        options = dataclasses.replace(options, python=None)
    validate_programs(options)
    validate_parallel(options)
    if options.inputs is not None:
        validate_file("--inputs", options.inputs, settings.root)
    if options.tp_plan is not None:
        validate_file("--tp-plan", options.tp_plan, settings.root)
    if options.checkpoint is not None and not (settings.root / options.checkpoint).is_file():
        raise TcreadyError(f"--checkpoint {options.checkpoint}: there is no such file")
    validate_autocast(options.autocast)
    dtype_named(options.dtype)
    validate_device(options.device)


def validate_trace_folder(options: RunOptions, root: Path) -> None:
    """Raise TcreadyError if the folder for a trace is not empty, or cannot be written."""
    if options.trace_out is not None:
        from tcready.dynamic import refuse_trace_folder

        refuse_trace_folder(root / options.trace_out, options.trace_out)


def validate_file(option: str, named: str, root: Path) -> None:
    """Raise TcreadyError if the named file does not exist, if no name in it is given, or if it binds no such name."""
    target = Target.parse(named)
    if not target.name:
        raise TcreadyError(f"{option} {named}: add the name of the object, as in {named}::name")
    if target.is_file and not (root / target.place).is_file():
        raise TcreadyError(f"{option} {named}: there is no file {target.place}")
    if target.is_file:
        _reject_unbound(option, named, root / target.place, target.name.partition(".")[0])


def _reject_unbound(option: str, named: str, path: Path, name: str) -> None:
    """Raise TcreadyError if no line of the file can bind the name. A file that cannot be parsed is left to the run."""
    import ast  # most checks name no other file

    from tcready.static.diagnostics.suggestions import near_name

    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
    except (OSError, SyntaxError, ValueError):
        return
    bound: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.alias):
            bound.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.Name) and node.id in ("exec", "globals", "setattr", "vars"):
            return
    if name in bound or "*" in bound or "__getattr__" in bound:
        return
    hint = near_name(name, sorted(bound))
    raise TcreadyError(f"{option} {named}: {path.name} does not define {name}{hint and '; '}{hint}")


def unchecked(
    names: Sequence[str], static: StaticResult, runs: Sequence[Observation], root: Path, *, lenient: bool
) -> Iterator[Skipped]:
    """Yield targets that were neither read nor run: those without source, those that only call what the source does not
    show, and, if there is no target at all, files. With `lenient`, files without a model are left out: a hook gets every
    file of a commit."""
    from tcready.portable.input_conventions import find_functions

    were_run = {run.target for run in runs}
    named = {each for name in names for each in (name, *_roots_of(name, root, static))} if not lenient else set()
    found = bool(static.findings or static.hidden)
    for target in static.targets:
        if target.target in were_run:
            continue
        call, only = target.compiled_at, target.modules[0] if len(target.modules) == 1 else None
        if target.is_read:
            if only is not None and only.line is None and only.unknown and target.target in named and not found:
                why = f"the source does not show what {', '.join(only.unknown)} of {only.type} is"
                yield Skipped(target.target, f"nothing was checked: {why}: {GIVE_ARGUMENTS}")
        elif call is None:
            yield Skipped(target.target, "nothing was checked: its source was not found")
        elif target.target in named:
            why = f"line {call.line} compiles {call.subject}, and the source does not show what that is"
            yield Skipped(target.target, f"nothing was checked: {why}: name that model, or a function that returns it")
    if static.targets or static.skipped or runs or lenient:
        return
    for name in names:
        if not (root / name).is_file():
            continue
        functions = find_functions(root / name)
        how = ", ".join(f"{name}::{each}" for each in functions[:MOST_NAMED])
        more = ", ..." if len(functions) > MOST_NAMED else ""
        hint = f"; to check a function, name it: {how}{more}" if functions else ""
        yield Skipped(name, f"nothing was checked: there is no model in it{hint}")


def validate_programs(options: RunOptions) -> None:
    """Raise TcreadyError if the interpreter, or the launcher's program, does not exist."""
    import shutil  # most checks start no program

    if options.python is not None and shutil.which(options.python) is None:
        raise TcreadyError(f"--python {options.python}: no such program")
    if options.launcher and shutil.which(options.launcher[0]) is None:
        raise TcreadyError(f"--launcher {options.launcher[0]}: no such program")


def validate_autocast(dtype: str | None) -> None:
    """Raise TcreadyError for a dtype that torch.autocast does not support."""
    if dtype is not None and dtype.removeprefix("torch.") not in AUTOCAST:
        hint = _near_dtype(dtype, AUTOCAST)
        raise TcreadyError(f"--autocast {dtype}: expected one of {', '.join(AUTOCAST)}{hint and '; '}{hint}")


def _near_dtype(name: str, known: Sequence[str]) -> str:
    """`did you mean NAME?`, of these dtypes; empty if none is near."""
    from tcready.static.diagnostics.suggestions import near_name

    short = name.removeprefix("torch.")
    meant = SHORT_DTYPE.get(short)
    return f"did you mean {meant}?" if meant in known else near_name(short, known)


def validate_device(name: str) -> None:
    """Raise TcreadyError for a probable misspelling of a device."""
    kind = name.partition(":")[0]
    if kind not in DEVICES:
        from tcready.static.diagnostics.suggestions import near_name

        hint = "did you mean cuda?" if kind == "gpu" else near_name(kind, DEVICES)
        if hint:
            raise TcreadyError(f"--device {name}: torch has no such device; {hint}")


def dtype_named(name: str | None) -> str | None:
    """Return the name that torch prints for a dtype. Raises TcreadyError for one that no module can be cast to."""
    if name is None:
        return None
    short = name.removeprefix("torch.")
    found = SAME_DTYPE.get(short, short)
    if found not in MODULE_DTYPES:
        hint = _near_dtype(name, (*MODULE_DTYPES, *SAME_DTYPE)) or f"it takes {', '.join(MODULE_DTYPES[:4])}"
        raise TcreadyError(f"--dtype {name or repr(name)}: a model cannot be cast to it; {hint}")
    return found


def matching(target: str, tables: Sequence[TargetTable], root: Path) -> tuple[TargetTable, ...]:
    """Return the tables for a target named on the command line: a file matches each of its members.

    If the project uses `pkg.mod::Name` and the command line uses the file, or vice versa, the table gets the target as
    the command line names it.
    """
    named = Target.parse(target)
    found = ((table, Target.parse(table.target)) for table in tables)
    return tuple(
        table
        if of.kind == named.kind
        else dataclasses.replace(table, target=str(dataclasses.replace(named, name=of.name)))
        for table, of in found
        if _speaks_of(of, named, root)
    )


def is_named(target: str, names: Iterable[str], root: Path) -> bool:
    """Return True if a target is one of the named ones, is in one of their files, or is below one of their folders."""
    of = Target.parse(target)
    file = _file_of(of, root)
    for name in names:
        named = Target.parse(name)
        if _speaks_of(of, named if of.name else dataclasses.replace(named, name=None), root):
            return True
        folder = os.path.realpath(root / named.place)
        if named.kind == "path" and file is not None and Path(file).is_relative_to(folder):
            return True
    return False


def _speaks_of(target: Target, named: Target, root: Path) -> bool:
    if named.name and named.name != target.name:
        return False
    if target.place == named.place:
        return True
    files = [_file_of(each, root) for each in (target, named)]
    return files[0] is not None and files[0] == files[1]


def _file_of(target: Target, root: Path) -> str | None:
    """Return the real path of a target's file; None for a folder, and for a module that is not found."""
    if target.kind == "path":
        return os.path.realpath(root / target.place) if target.is_file else None
    from tcready.static.frontend import module_search

    path = module_search.find_module(target.place, module_search.default_search_path(root))
    return os.path.realpath(path) if path is not None else None


def reading_mode(targets: Sequence[str], settings: Settings, tables: Sequence[TargetTable]) -> ModeAsked:
    """Return the mode to read the sources in: that of the targets' tables, both if they differ."""
    modes: set[ModeAsked] = {
        settings.with_table(table).values["mode"]
        for target in targets
        for table in matching(target, tables, settings.root)
    }
    usual: ModeAsked = settings.values["mode"]
    return "both" if len(modes) > 1 else modes.pop() if modes else usual


def reading_types(
    targets: Sequence[str], settings: Settings, tables: Sequence[TargetTable]
) -> tuple[str | None, str | None]:
    """Return the dtype to read the sources with, and that of autocast: those of the targets' tables, none if they
    differ."""
    found = {
        tuple(settings.with_table(table).values[name] for name in ("dtype", "autocast"))
        for target in targets
        for table in matching(target, tables, settings.root)
    } or {(settings.values["dtype"], settings.values["autocast"])}
    if len(found) > 1:
        return None, None
    dtype, autocast = found.pop()
    return dtype_named(dtype), autocast


def due(
    targets: Sequence[str],
    run: bool | None,
    settings: Settings,
    tables: tuple[TargetTable, ...],
    static: StaticResult,
    models: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[PlannedRun]:
    """Yield the runs to make.

    Args:
        targets: The names from the user.
        run: True for every target, False for none, None for a single target with given inputs.
        settings: The requested settings.
        tables: The project's tables of targets.
        static: The results of reading the sources, with the models in each file.
        models: Targets that represent a library model or an expression, and its name.

    Raises:
        TcreadyError: `--inputs` was given for a file with several models, or a notebook is to be run.
    """
    calls = {target.target: target.compiled_at for target in static.targets}
    for planned in _due(targets, run, settings, tables, static, models):
        is_class = planned.model is None and Target.parse(planned.target).name
        for name in _roots_of(planned.target, settings.root, static) if is_class else (planned.target,):
            yield dataclasses.replace(planned, target=name, compile_call=calls.get(name))


def _due(
    targets: Sequence[str],
    run: bool | None,
    settings: Settings,
    tables: tuple[TargetTable, ...],
    static: StaticResult,
    models: Mapping[str, str],
) -> Iterator[PlannedRun]:
    if run is False:
        return
    root, inputs = settings.root, settings.run.inputs
    requested = run is True or inputs is not None
    if not requested and (len(targets) != 1 or (root / targets[0]).is_dir()):
        return
    for target in targets:
        if target in models:
            given = f"inputs from {inputs}" if inputs is not None else LIBRARY_OR_MADE_UP
            yield PlannedRun(target, given, requested, synthesise=inputs is None, model=models[target])
            continue
        if Target.parse(target).is_notebook:
            if requested:
                raise TcreadyError(NOT_RUN.format(target=target))
            continue
        if (root / target).is_dir():
            yield from _due_in_folder(target, root, static, tables, lenient=settings.read.lenient)
            continue
        found = matching(target, tables, root)
        if inputs is not None:
            named = _only_one(target, root, static)
            table = next((table for table in found if table.target == named), None)
            yield PlannedRun(named, f"inputs from {inputs}", requested, table)
        elif with_inputs := [table for table in found if table.inputs]:
            yield from (run_of_table(table, root, requested=requested) for table in with_inputs)
        else:
            table = found[0] if len(found) == 1 else None
            named_targets = _roots_of(table.target if table else target, root, static)
            for named in named_targets:
                planned = _by_convention(named, root, requested=requested)
                if planned is not None and (requested or len(named_targets) == 1):
                    yield dataclasses.replace(planned, table=table)
                elif requested:
                    yield PlannedRun(named, MADE_UP, requested, table, synthesise=True)


def _only_one(target: str, root: Path, static: StaticResult) -> str:
    """Return the target itself, or the only model of the file it names, or what a class compiles that is no model. Raises
    TcreadyError if there are several."""
    found = list(_roots_of(target, root, static))
    if not Target.parse(target).name:
        compiled = {t.target for t in static.targets if t.compiled_at is not None}
        there = [t.target for t in static.targets if Target.parse(t.target).place == target]
        others = [name for name in there if name not in compiled or name in found]
        found = others if len(others) == 1 else there
    if len(found) == 1 or static.skipped:
        return found[0] if found else target
    names = f": name one of {', '.join(found)}" if found else ", and no model is seen in it: name one as FILE::Name"
    raise TcreadyError(f"{target}: --inputs goes with one model{names}")


def _roots_of(text: str, root: Path, static: StaticResult) -> tuple[str, ...]:
    """Return what is run for a name: the target itself; for a file its main model, if one can be determined; for any
    other file, and for a class that is no model, everything that it compiles."""
    from tcready.portable.input_conventions import find_target

    target = Target.parse(text)
    main = find_target(root / target.place) if target.is_file and not target.name else None
    if main is not None:
        return (str(dataclasses.replace(target, name=main)),)
    if any(each.target == text for each in static.targets):
        return (text,)
    compiled = tuple(
        each.target
        for each in static.targets
        if each.compiled_at is not None
        and (
            Target.parse(each.target).place == target.place
            or (os.path.realpath(root / each.compiled_at.path) == os.path.realpath(root / target.place))
        )
        and (target.name is None or each.compiled_at.symbol.startswith(f"{target.name}."))
    )
    return compiled or (text,)


def _due_in_folder(
    folder: str, root: Path, static: StaticResult, tables: tuple[TargetTable, ...], *, lenient: bool
) -> Iterator[PlannedRun]:
    """Yield a run for each target in the folder with a table in the project, and for each other file that provides
    inputs."""
    base = root / folder
    inside = pyproject.inside(folder, tables, root)
    yield from (run_of_table(table, root, requested=True) for table in inside)
    files = dict.fromkeys(Target.parse(target.target).place for target in static.targets)
    covered = {os.path.realpath(root / Target.parse(table.target).place) for table in inside}
    rest = [
        name for name in files if (root / name).is_relative_to(base) and os.path.realpath(root / name) not in covered
    ]
    named = [each for name in rest for each in _roots_of(name, root, static)]
    found = [run for each in named if (run := _by_convention(each, root, requested=True)) is not None]
    if not found and not inside and not lenient:
        why = (
            "no file in this folder provides inputs: define get_inputs() next to the model, or set target and inputs "
            f"in [{pyproject.TABLES}.NAME] of {pyproject.FILE}, or check one model with --inputs"
        )
        yield PlannedRun(folder, "", requested=True, impossible=why)
    yield from found


def run_of_table(table: TargetTable, root: Path, *, requested: bool) -> PlannedRun:
    """Return the run of a target that has a table in the project, with the inputs from the table, or else from its
    file."""
    if table.inputs:
        return PlannedRun(table.target, f"inputs from {table.inputs}", requested, table)
    planned = _by_convention(table.target, root, requested=requested)
    if planned is not None:
        return dataclasses.replace(planned, table=table)
    return PlannedRun(table.target, MADE_UP, requested, table, synthesise=True)


def _by_convention(text: str, root: Path, *, requested: bool) -> PlannedRun | None:
    """Return the run of a target in a file with a convention for the model and the inputs."""
    from tcready.dynamic import find_convention
    from tcready.static.frontend import module_search

    target = Target.parse(text)
    path: Path | None = root / target.place
    if not target.is_file:
        path = module_search.find_module(target.place, module_search.default_search_path(root))
    convention = find_convention(path, target.name) if path is not None else None
    if convention is None:
        return None
    named = str(dataclasses.replace(target, name=target.name or convention.target))
    return PlannedRun(named, convention.label.partition(" with ")[0], requested)
