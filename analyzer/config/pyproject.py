"""The project's settings: `[tool.tcready]` of the pyproject.toml in the working folder.

The tables of its targets apply to everybody who checks the project, the other keys only to the command line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tcready.config.resolution import PROJECT, TargetTable, from_toml, takes, to_toml
from tcready.portable.option_fields import Declared, declared
from tcready.portable.options import RunOptions
from tcready.portable.target import LibraryModel, Target
from tcready.schema.display_paths import contents
from tcready.schema.enums import TcreadyError

FILE = PROJECT
TABLE = "tool.tcready"
TARGETS = "targets"
TABLES = f"{TABLE}.{TARGETS}"


def target_tables(root: Path) -> tuple[TargetTable, ...]:
    """Return the targets of the project at `root`, in the order of the file; nothing if there is no such table.

    Raises TcreadyError if the file is not TOML, or a table is invalid.
    """
    tables = _table(_contents(root).get(TARGETS), TABLES)
    return tuple(_target_table(name, value) for name, value in tables.items())


def listed_targets(path: Path, named: str) -> tuple[TargetTable, ...]:
    """Return the targets listed in a separate file, in `[targets.NAME]` or as in a pyproject.toml, in its order. They
    may include models of libraries, files, folders and packages.

    `named` is the name of the file. Raises TcreadyError if it cannot be read, is not TOML or lists none, or if a table
    is invalid.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TcreadyError(f"{named}: {error.strerror or error}") from None
    whole = parse_project(data, named)
    inner = _table(_table(whole.get("tool"), "tool", named).get("tcready"), TABLE, named)
    found = [
        _target_table(name, value, section, named, of_list=True)
        for section, place in ((TARGETS, whole), (TABLES, inner))
        for name, value in _table(place.get(TARGETS), section, named).items()
    ]
    if not found:
        raise TcreadyError(f'{named} lists no target: write [{TARGETS}.NAME] with target = "path.py::Name"')
    unknown = [key for key in whole if key not in (TARGETS, "tool")]
    if unknown and path.name != FILE:  # a misspelled table would leave its model out, and nobody would see it
        raise TcreadyError(f"{named}: [{unknown[0]}] is no table of a list: write [{TARGETS}.NAME]")
    return tuple(found)


def options(root: Path, *values: type) -> dict[str, Any]:
    """Return the options in `[tool.tcready]` at `root`, by the names of the fields of `values`, without the tables of
    targets.

    Raises TcreadyError if the file is not TOML, for an unknown key, and for an invalid value.
    """
    known = {each.name: each for each in declared(*values) if each.option.project}
    table = {key: value for key, value in _contents(root).items() if key != TARGETS}
    return _read(table, known, TABLE, (*known, TARGETS))


def has_table(root: Path) -> bool:
    """Return True if the pyproject.toml in `root` has settings for tcready. Raises TcreadyError if it is not TOML."""
    return bool(_contents(root))


def parse_project(data: bytes, named: str = FILE) -> Mapping[str, Any]:
    """Parse a pyproject.toml, or the file `named`. Raises TcreadyError if it is not TOML."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    if b"\0" in data:  # a disk that lost it, or an editor that saved it in UTF-16
        raise TcreadyError(f"{named} cannot be read: it holds NUL bytes; save it as UTF-8")
    try:
        return dict(tomllib.loads(data.decode("utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TcreadyError(f"{named} cannot be read: {error}") from None


def unknown_key(key: str, known: Iterable[str], where: str, named: str = FILE) -> TcreadyError:
    """Return the error message for a key that a table does not have, with the nearest valid one."""
    keys = tuple(known)
    from difflib import get_close_matches

    near = get_close_matches(key.replace("_", "-"), keys, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(keys)}"
    return TcreadyError(f"{named}: [{where}] has no key {key}: {hint}")


def inside(folder: str, tables: Sequence[TargetTable], root: Path) -> tuple[TargetTable, ...]:
    """Return the tables with files in `folder`; for `root` itself also those of `pkg.mod::Name`."""
    base = os.path.realpath(root / folder)
    whole = base == os.path.realpath(root)

    def lies_there(table: TargetTable) -> bool:
        target = Target.parse(table.target)
        if target.kind == "module":
            return whole
        return Path(os.path.realpath(root / target.place)).is_relative_to(base)

    return tuple(filter(lies_there, tables))


def _contents(root: Path) -> Mapping[str, Any]:
    """Return the table of the project at `root`; empty if there is none."""
    try:
        data, _ = contents(root / FILE)  # no pipe, which may never answer
    except OSError:
        return {}
    if b"tcready" not in data and b"\0" not in data:  # spares the parser for every project that says nothing here
        return {}
    return _table(_table(parse_project(data).get("tool"), "tool").get("tcready"), TABLE)


def _table(value: Any, where: str, named: str = FILE) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TcreadyError(f"{named}: [{where}] is no table")
    return value


def _target_table(
    name: str, value: Any, section: str = TABLES, named: str = FILE, *, of_list: bool = False
) -> TargetTable:
    """Parse the table of a target. `of_list`: it may name a model of a library, or something with several models."""
    where = f"{section}.{name}"
    table = dict(_table(value, where, named))
    target = table.pop("target", None)
    known = {each.name: each for each in declared(RunOptions) if each.option.table}
    found = _read(table, known, where, ("target", *known), named)
    if target is not None and not (isinstance(target, str) and target.strip()):
        raise _refusal(where, "target", target, "a string: path.py::Name or pkg.mod::Name", named)
    of_library = target is not None and LibraryModel.parse(target) is not None
    if of_library and not of_list:
        raise TcreadyError(
            f"{named}: [{where}] target {target}: such a name is for the command line; write a function in a file that "
            "gives the model (FILE::function), with inputs"
        )
    of_several = target is not None and not of_library and Target.parse(target).name is None
    if of_several and of_list and found:
        raise TcreadyError(f"{named}: [{where}] {next(iter(found))} goes with one model: name it, as {target}::Name")
    if target is None or (of_several and not of_list):
        raise TcreadyError(f"{named}: [{where}] needs a target: path.py::Name or pkg.mod::Name")
    return TargetTable(name, target, found, section)


def _read(
    table: Mapping[str, Any], known: Mapping[str, Declared], where: str, keys: Iterable[str], named: str = FILE
) -> dict[str, Any]:
    """Return the values in a table, by field. `keys` are all valid keys."""
    found: dict[str, Any] = {}
    for key, given in table.items():
        if key not in known:
            raise unknown_key(key, keys, where, named)
        value = from_toml(known[key].option, given)
        if value is None:
            raise _refusal(where, key, given, takes(known[key].option), named)
        found[known[key].field] = value
    return found


def _refusal(where: str, key: str, given: Any, expected: str, named: str = FILE) -> TcreadyError:
    return TcreadyError(f"{named}: [{where}] {key} = {to_toml(given)}: it takes {expected}")
