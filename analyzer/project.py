"""What a project says of itself: `[tool.tcready]` of the pyproject.toml in the working folder.

Its targets hold for whoever checks the project; the other keys are options of the command line, and read there.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from tcready.schema import Mode, TcreadyError

FILE = "pyproject.toml"
TABLE = "tool.tcready"
TARGETS = "targets"
TABLES = f"{TABLE}.{TARGETS}"


@dataclass(frozen=True)
class Configured:
    """One table `[tool.tcready.targets.NAME]`. What is None was not said; a flag of the command line wins."""

    name: str
    target: str
    """`path.py::Name` or `pkg.mod::Name`, relative to the working folder."""
    inputs: str | None = None
    mode: Mode | None = None
    device: str | None = None
    dtype: str | None = None
    autocast: str | None = None
    timeout: float | None = None
    """Seconds."""
    memory: float | None = None
    """GB of 10**9 bytes."""
    weights: tuple[tuple[str, float], ...] = ()
    """Named case to its share of the calls, in any unit."""


def configured(root: Path) -> tuple[Configured, ...]:
    """The targets of the project at `root`, in the order of the file; nothing where there is no such table.

    Raises TcreadyError where the file is no TOML, or a table says what it cannot say.
    """
    tables = _table(_said(root).get(TARGETS), TABLES)
    return tuple(_configured(name, value) for name, value in tables.items())


def options(root: Path) -> dict[str, Any]:
    """The keys of `[tool.tcready]` at `root` but for the targets, as they stand there; nothing where there is none.

    Raises TcreadyError where the file is no TOML.
    """
    return {key: value for key, value in _said(root).items() if key != TARGETS}


def parsed(data: bytes) -> Mapping[str, Any]:
    """What a pyproject.toml says. Raises TcreadyError where it is no TOML."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return dict(tomllib.loads(data.decode("utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TcreadyError(f"{FILE} cannot be read: {error}") from None


def unknown_key(key: str, known: Iterable[str], where: str) -> TcreadyError:
    """What to say of a key that a table does not take: the nearest that it does."""
    keys = tuple(known)
    near = difflib.get_close_matches(key.replace("_", "-"), keys, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(keys)}"
    return TcreadyError(f"{FILE}: [{where}] has no key {key}: {hint}")


def matching(told: str, tables: tuple[Configured, ...], root: Path) -> tuple[Configured, ...]:
    """The tables that speak of a target named on the command line: a file matches each of its members."""
    return tuple(table for table in tables if _speaks_of(table.target, told, root))


def inside(folder: str, tables: tuple[Configured, ...], root: Path) -> tuple[Configured, ...]:
    """The tables whose files lie in `folder`; for `root` itself those of `pkg.mod::Name` as well."""
    base = os.path.realpath(root / folder)
    whole = base == os.path.realpath(root)

    def lies_there(table: Configured) -> bool:
        path = table.target.partition("::")[0]
        if not path.endswith(".py"):
            return whole
        return Path(os.path.realpath(root / path)).is_relative_to(base)

    return tuple(filter(lies_there, tables))


def _speaks_of(target: str, told: str, root: Path) -> bool:
    head, _, name = target.partition("::")
    told_head, _, told_name = told.partition("::")
    if told_name and told_name != name:
        return False
    if head.endswith(".py") and told_head.endswith(".py"):
        return os.path.realpath(root / head) == os.path.realpath(root / told_head)
    return head == told_head


def _said(root: Path) -> Mapping[str, Any]:
    """The table of the project at `root`; empty where there is none."""
    try:
        data = (root / FILE).read_bytes()
    except OSError:
        return {}
    if b"tcready" not in data:  # spares the parser for every project that says nothing here
        return {}
    return _table(_table(parsed(data).get("tool"), "tool").get("tcready"), TABLE)


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TcreadyError(f"{FILE}: [{where}] is no table")
    return value


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _mode(value: Any) -> str | None:
    return value if value in get_args(Mode) else None


def _positive(value: Any) -> float | None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if number and 0 < value < float("inf") else None


def _weights(value: Any) -> tuple[tuple[str, float], ...] | None:
    if not isinstance(value, Mapping) or not value:
        return None
    found = tuple((name, _positive(number)) for name, number in value.items())
    return None if any(number is None for _, number in found) else found  # type: ignore[return-value]


KEYS: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "target": (_text, "a string: path.py::Name or pkg.mod::Name"),
    "inputs": (_text, "a string: path.py::name"),
    "mode": (_mode, f"one of {', '.join(get_args(Mode))}"),
    "device": (_text, "a string: cpu, cuda, cuda:1, mps or auto"),
    "dtype": (_text, "a string: float16"),
    "autocast": (_text, "a string: bfloat16"),
    "timeout": (_positive, "a number of seconds above 0"),
    "memory": (_positive, "a number of GB above 0"),
    "weights": (_weights, "a table of case names to numbers above 0"),
}
"""Each key of a table, what reads it (None where it cannot), and what it takes."""


def _configured(name: str, value: Any) -> Configured:
    where = f"{TABLES}.{name}"
    found: dict[str, Any] = {}
    for key, given in _table(value, where).items():
        if key not in KEYS:
            raise unknown_key(key, KEYS, where)
        read, takes = KEYS[key]
        found[key] = read(given)
        if found[key] is None:
            raise TcreadyError(f"{FILE}: [{where}] {key} = {given!r}: it takes {takes}")
    if "::" not in found.get("target", ""):
        raise TcreadyError(f"{FILE}: [{where}] needs a target: path.py::Name or pkg.mod::Name")
    return Configured(name, **found)
