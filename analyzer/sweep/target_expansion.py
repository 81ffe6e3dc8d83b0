"""Resolve the targets of a sweep to files, named models, and the modules of packages."""

from __future__ import annotations

import dataclasses
import fnmatch
import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tcready.config import pyproject
from tcready.config.resolution import Settings, TargetTable
from tcready.pipeline import named_models, run_selection
from tcready.pipeline.run_selection import PlannedRun
from tcready.portable.target import LibraryModel, Target
from tcready.schema.enums import TcreadyError
from tcready.schema.report import Report
from tcready.schema.static import StaticResult
from tcready.static.diagnostics import suggestions
from tcready.static.frontend import module_search
from tcready.static.units import is_wanted, leads_out, units

Kind = Literal["file", "model", "module"]
TOML = ".toml"


@dataclass(frozen=True)
class Wanted:
    """One thing to sweep."""

    kind: Kind
    """`file`: the runs that a file provides, or each model in it; `model`: a named one; `module`: every nn.Module
    class of a module of a package."""
    target: str
    """`path.py`, `path.py::Name` or `pkg.mod::Name`; for `module` a dotted name."""
    table: TargetTable | None = None
    """The table in the file that lists it."""
    named: str | None = None
    """The library model of the target."""
    read: bool = True
    """Its sources were found."""

    @property
    def is_unspeakable(self) -> bool:
        """Return True for a file that no target can name, because its name contains the separator of file and class."""
        return self.kind == "file" and "::" in self.target


def resolve_targets(names: Sequence[str], settings: Settings) -> tuple[Wanted, ...]:
    """Return what was named, each once, in order.

    Raises TcreadyError for a missing target, a glob without a match, and a TOML file that lists no target.
    """
    found: dict[tuple[Kind, str, str], Wanted] = {}
    for each in (each for name in names for each in _wanted(name, settings)):
        named = each.kind == "module" or each.is_unspeakable
        if named or is_wanted(each.target, settings.root, settings.read.exclude):
            found.setdefault((each.kind, each.target, each.table.source if each.table else ""), each)
    return tuple(found.values())


def _wanted(name: str, settings: Settings) -> Iterator[Wanted]:
    root = settings.root
    if named := _library_names(name, root):
        yield from (_of_library(each, None, settings) for each in named)
    elif name.endswith(TOML):
        for table in pyproject.listed_targets(root / name, name):
            if named := _library_names(table.target, root):
                yield from (_of_library(each, table, settings) for each in named)
            elif Target.parse(table.target).name is None:
                if table.target.endswith(TOML):
                    raise TcreadyError(f"{name}: [{table.section}.{table.name}] names another list")
                try:
                    yield from _wanted(table.target, settings)
                except TcreadyError as error:
                    raise TcreadyError(f"{name}: [{table.section}.{table.name}] {error}") from None
            else:
                _reject_missing(table.target, root, f"{name}: [{table.section}.{table.name}] ")
                yield Wanted("model", table.target, table)
    elif "::" in name:
        _reject_missing(name, root)
        yield Wanted("model", name)
    elif (root / name).exists():
        yield from _at(name, settings)
    elif glob.has_magic(name):
        found = sorted(set(_matching(name, root)))
        if not found:
            raise TcreadyError(f"{name}: nothing matches")
        for each in found:
            if (root / each).is_dir() or each.endswith(".py"):
                yield from _at(each, settings)
    else:
        yield from _of_package(name, settings)


def _matching(pattern: str, root: Path) -> Iterator[str]:
    """Return the files and folders that match a glob, as `glob.glob` does, except for links that match a wildcard:
    linked folders are not entered, because they may form cycles, and linked files outside of the folder where the
    wildcards begin are ignored."""
    parts = re.sub(r"(?<![^/])(\*\*/)+", "**/", pattern.replace(os.sep, "/")).split("/")
    named = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    folder = "".join(f"{part}/" for part in parts[:named])
    yield from _below(folder, parts[named:], root, Path(os.path.realpath(root / folder)))


def _below(folder: str, parts: Sequence[str], root: Path, top: Path) -> Iterator[str]:
    """Yield what the `parts` of the glob match in one folder, for `_matching`; files must be below `top`."""
    part, *rest = parts
    if not glob.has_magic(part):
        if rest:
            yield from _below(f"{folder}{part}/", rest, root, top)
        elif os.path.exists(root / f"{folder}{part}"):
            yield folder + part
        return
    if part == "**" and rest:
        yield from _below(folder, rest, root, top)
    try:
        names = os.listdir(root / folder)
    except OSError:  # no folder, or one that may not be read
        return
    for name in names:
        path = root / (folder + name)
        if not fnmatch.fnmatch(name, part) or (name.startswith(".") and not part.startswith(".")):
            continue
        if path.is_symlink() and (os.path.isdir(path) or leads_out(path, top)):
            continue
        if not rest:
            yield folder + name
        if os.path.isdir(path) and (rest or part == "**"):
            yield from _below(f"{folder}{name}/", parts if part == "**" else rest, root, top)


def _reject_missing(text: str, root: Path, where: str = "") -> None:
    target = Target.parse(text)
    if target.kind == "path" and not (root / target.place).is_file():
        raise TcreadyError(f"{where}{text}: there is no file {target.place}")


def _library_names(text: str, root: Path) -> tuple[str, ...]:
    """Return the models of a library that a name or a glob of names matches; none for any other text."""
    return named_models.match_models(text, root) or ((text,) if LibraryModel.parse(text) is not None else ())


def _of_library(name: str, table: TargetTable | None, settings: Settings) -> Wanted:
    found = named_models.find_models((name,), settings.with_table(table).run, settings.root)[0]
    return Wanted("model", found.target, table, name, found.read)


def _at(place: str, settings: Settings) -> Iterator[Wanted]:
    """Return a file, or all files of a folder; listed models of modules belong to the project's own folder."""
    root = settings.root
    place = os.path.normpath(place)  # named in two ways, it is still one
    if (root / place).is_dir():
        tables = pyproject.inside(place, settings.tables or (), root)
        yield from (
            Wanted("model", table.target, table) for table in tables if Target.parse(table.target).kind == "module"
        )
        for unit in units([place], root, settings.read.exclude):
            yield Wanted("file", unit.target)
    else:
        yield Wanted("file", place)


def _of_package(name: str, settings: Settings) -> Iterator[Wanted]:
    """Return every module of an importable package, found without importing it; one without an `__init__.py` may
    have several folders."""
    root = settings.root
    search = module_search.default_search_path(root)
    found = module_search.find_module(name, search) if _is_dotted(name) else None
    if found is not None and found.name != "__init__.py":
        yield Wanted("module", name)
        return
    if found is not None:
        folders = [found.parent]
    else:
        folders = [path for each in search if _is_dotted(name) and (path := each.joinpath(*name.split("."))).is_dir()]
    modules = dict.fromkeys(module for folder in folders for module in _modules(name, folder, root))
    if not modules:
        raise TcreadyError(
            f"{name}: there is no such file, folder, glob or package{suggestions.for_place(name, name, root)}"
        )
    yield from (Wanted("module", module) for module in modules)


def _modules(name: str, folder: Path, root: Path) -> Iterator[str]:
    """Yield the dotted names of the modules below the folder of a package."""
    for unit in units([str(folder)], root):
        path = unit.path
        if path is None or path.suffix != ".py":
            continue
        inside = path.relative_to(os.path.realpath(folder)).with_suffix("").parts
        dotted = ".".join((name, *inside)).removesuffix(".__init__")
        if all(part.isidentifier() for part in dotted.split(".")):
            yield dotted


def _is_dotted(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


def members(module: str, classes: Sequence[str]) -> Iterator[Wanted]:
    """Return the models of a listed module."""
    yield from (Wanted("model", f"{module}::{name}") for name in classes)


def runs(each: Wanted, report: Report | None, settings: Settings) -> tuple[PlannedRun, ...]:
    """Return the runs that are due for what was read, according to its source; `report` is None if it was not read.

    A file with inputs is run with them, one that the project lists as it is listed there; in any other each model is
    run with generated inputs.
    """
    if Target.parse(each.target).is_notebook:  # it is read
        return ()
    if each.table is not None and each.named is None:
        return (run_selection.run_of_table(each.table, settings.root, requested=True),)
    models: Mapping[str, str] = {each.target: each.named} if each.named is not None else {}
    static = _static(report)
    tables = settings.tables or ()
    due = tuple(run_selection.due((each.target,), True, settings, tables, static, models))
    if each.table is not None:
        return tuple(dataclasses.replace(run, table=each.table, synthesise=each.table.inputs is None) for run in due)
    if each.kind == "file" and any(run.synthesise and run.table is None for run in due):
        return tuple(
            PlannedRun(target.target, run_selection.MADE_UP, True, synthesise=True, compile_call=target.compiled_at)
            for target in static.targets
        )
    return due


def _static(report: Report | None) -> StaticResult:
    if report is None:
        return StaticResult((), (), (), (), (), {})
    return StaticResult((), report.predicted, (), report.skipped, (), {})
