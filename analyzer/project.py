"""Read `[tool.tcready]` of the pyproject.toml in the working folder.

The tables of its targets hold for whoever checks the project, the other keys for the command line alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tcready.options import Declared, RunOptions, declared
from tcready.resolve import PROJECT, TargetTable, from_toml, takes, written
from tcready.schema.paths import contents
from tcready.schema.words import TcreadyError
from tcready.target import LibraryModel, Target

FILE = PROJECT
TABLE = "tool.tcready"
TARGETS = "targets"
TABLES = f"{TABLE}.{TARGETS}"


def target_tables(root: Path) -> tuple[TargetTable, ...]:
    """The targets of the project at `root`, in the order of the file; nothing if there is no such table.

    Raises TcreadyError if the file is no TOML, or a table says what it cannot say.
    """
    tables = _table(_contents(root).get(TARGETS), TABLES)
    return tuple(_target_table(name, value) for name, value in tables.items())


def listed_targets(path: Path, named: str) -> tuple[TargetTable, ...]:
    """The targets that a file of its own lists, in `[targets.NAME]` or as a pyproject.toml does, in its order; models of
    libraries may be among them, and files, folders and packages.

    `named` is how the file is called. Raises TcreadyError if it cannot be read, is no TOML or lists none, or a table says
    what it cannot say.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TcreadyError(f"{named}: {error.strerror or error}") from None
    whole = parsed(data, named)
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
    """What `[tool.tcready]` at `root` says, by the names of the fields of `values`; the tables of targets apart.

    Raises TcreadyError if the file is no TOML, for a key that the table does not take, and for a value that its option
    does not.
    """
    known = {each.name: each for each in declared(*values) if each.option.project}
    table = {key: value for key, value in _contents(root).items() if key != TARGETS}
    return _read(table, known, TABLE, (*known, TARGETS))


def has_table(root: Path) -> bool:
    """Whether the pyproject.toml in `root` says anything to tcready. Raises TcreadyError if it is no TOML."""
    return bool(_contents(root))


def parsed(data: bytes, named: str = FILE) -> Mapping[str, Any]:
    """What a pyproject.toml, or the file so `named`, says. Raises TcreadyError if it is no TOML."""
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
    """What to say of a key that a table does not take: the nearest that it does."""
    keys = tuple(known)
    from difflib import get_close_matches

    near = get_close_matches(key.replace("_", "-"), keys, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(keys)}"
    return TcreadyError(f"{named}: [{where}] has no key {key}: {hint}")


def inside(folder: str, tables: Sequence[TargetTable], root: Path) -> tuple[TargetTable, ...]:
    """The tables whose files lie in `folder`; for `root` itself those of `pkg.mod::Name` as well."""
    base = os.path.realpath(root / folder)
    whole = base == os.path.realpath(root)

    def lies_there(table: TargetTable) -> bool:
        target = Target.parse(table.target)
        if target.kind == "module":
            return whole
        return Path(os.path.realpath(root / target.place)).is_relative_to(base)

    return tuple(filter(lies_there, tables))


def _contents(root: Path) -> Mapping[str, Any]:
    """The table of the project at `root`; empty if there is none."""
    try:
        data, _ = contents(root / FILE)  # no pipe, which may never answer
    except OSError:
        return {}
    if (
        b"tcready" not in data and b"\0" not in data
    ):  # spares the parser for every project that says nothing here
        return {}
    return _table(_table(parsed(data).get("tool"), "tool").get("tcready"), TABLE)


def _table(value: Any, where: str, named: str = FILE) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TcreadyError(f"{named}: [{where}] is no table")
    return value


def _target_table(
    name: str, value: Any, section: str = TABLES, named: str = FILE, *, of_list: bool = False
) -> TargetTable:
    """`of_list`: whether it may name a model of a library, and what holds several models."""
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
        raise TcreadyError(
            f"{named}: [{where}] {next(iter(found))} goes with one model: name it, as {target}::Name"
        )
    if target is None or (of_several and not of_list):
        raise TcreadyError(f"{named}: [{where}] needs a target: path.py::Name or pkg.mod::Name")
    return TargetTable(name, target, found, section)


def _read(
    table: Mapping[str, Any],
    known: Mapping[str, Declared],
    where: str,
    keys: Iterable[str],
    named: str = FILE,
) -> dict[str, Any]:
    """What a table says, by field. `keys` are all that it takes."""
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
    return TcreadyError(f"{named}: [{where}] {key} = {written(given)}: it takes {expected}")
