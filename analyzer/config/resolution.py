"""Combine the settings from the command line, a target's table, `[tool.tcready]` and the defaults.

Pure, standard library only. Values are read by their option's kind, independent of the source.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from tcready.portable.option_fields import Declared, Option, declared
from tcready.portable.options import ReadOptions, ReportOptions, RunOptions, WorkOptions
from tcready.schema.enums import Mode, ModeAsked, TcreadyError
from tcready.schema.value_class import dataclass

VALUES: tuple[type, ...] = (ReportOptions, ReadOptions, WorkOptions, RunOptions)
"""The dataclasses with the options of every check."""
COMMAND_LINE = "command line"
PROJECT = "pyproject.toml"
DEFAULT = "default"
_T = TypeVar("_T")


@dataclass(frozen=True)
class Layer:
    """The settings from one source: values by field name, in the types of the fields."""

    source: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class TargetTable:
    """One table `[tool.tcready.targets.NAME]`."""

    name: str
    target: str
    """`path.py::Name` or `pkg.mod::Name`, relative to the working folder."""
    values: Mapping[str, Any]
    """Its values, by field name."""
    section: str = "tool.tcready.targets"
    """The name of the table."""

    @property
    def source(self) -> str:
        return f"[{self.section}.{self.name}]"

    @property
    def inputs(self) -> str | None:
        found: str | None = self.values.get("inputs")
        return found


@dataclass(frozen=True)
class Settings:
    """The values of a check, and the source of each."""

    values: Mapping[str, Any]
    """Every option's value by the name of its field."""
    sources: Mapping[str, str]
    """The source: COMMAND_LINE, the `[tool.tcready.targets.NAME]` of a table, PROJECT or DEFAULT."""
    root: Path
    """The working folder."""
    tables: tuple[TargetTable, ...] | None = None
    """The project's tables of targets; None: not read yet."""
    isolated: bool = False
    """Nothing was taken from the project."""

    def of(self, value: type[_T]) -> _T:
        """Return one of the dataclasses, filled with the settings."""
        fields = {item.name for item in dataclasses.fields(value)}  # type: ignore[arg-type]
        chosen = {name: item for name, item in self.values.items() if name in fields}
        return value(**chosen)

    @property
    def read(self) -> ReadOptions:
        names = [each.field for each in declared(ReadOptions)] + ["dtype", "autocast"]
        return ReadOptions(root=self.root, **{name: self.values[name] for name in names})

    @property
    def run(self) -> RunOptions:
        """Return how a target is run, in the first of `modes`."""
        return dataclasses.replace(self.of(RunOptions), mode=self.modes[0])

    @property
    def report(self) -> ReportOptions:
        return self.of(ReportOptions)

    @property
    def work(self) -> WorkOptions:
        return self.of(WorkOptions)

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Return the modes to run a target in, one after the other."""
        mode: ModeAsked = self.values["mode"]
        return ("infer", "train") if mode == "both" else (mode,)

    def is_given(self, name: str) -> bool:
        """Return True if any source set it."""
        return self.sources[name] != DEFAULT

    def with_table(self, table: TargetTable | None) -> Settings:
        """Return the settings for a target that has a table in the project: only the command line overrides the table.

        Weights belong to the named cases of the table's own inputs: with other inputs they are left out.
        """
        if table is None:
            return self
        lost = {name for name, source in self.sources.items() if source == COMMAND_LINE}
        if "inputs" in lost:
            lost.add("weights")
        values = {name: value for name, value in table.values.items() if name not in lost}
        return dataclasses.replace(
            self, values={**self.values, **values}, sources={**self.sources, **dict.fromkeys(values, table.source)}
        )

    def with_keywords(self, given: Mapping[str, Any]) -> Settings:
        """Return these settings with the keywords of a call from Python."""
        read = keywords(given)
        return dataclasses.replace(
            self, values={**self.values, **read}, sources={**self.sources, **dict.fromkeys(read, COMMAND_LINE)}
        )


def resolve(
    command: Mapping[str, Any],
    table: TargetTable | None = None,
    project: Mapping[str, Any] = MappingProxyType({}),
    *,
    root: Path,
    more: Sequence[type] = (),
    at_command: bool = False,
) -> Settings:
    """Return the settings of a check. In order of precedence: command line, table of a target, project, defaults.

    Args:
        command: Settings from the command line, or from a call from Python; by field.
        table: The table of the only target that is checked.
        project: Settings from `[tool.tcready]`, by field.
        root: The working folder.
        more: Further dataclasses besides VALUES, with fields declared in the same way.
        at_command: Use the defaults of `tcready check` if they differ from those of a call from Python.

    Returns:
        The settings, with the source of each.
    """
    known = declared(*VALUES, *more)
    layers = (
        Layer(DEFAULT, {each.field: _default(each, at_command) for each in reversed(known)}),
        Layer(PROJECT, project),
        Layer(COMMAND_LINE, command),
    )
    values = {name: value for layer in layers for name, value in layer.values.items()}
    sources = {name: layer.source for layer in layers for name in layer.values}
    return Settings(values, sources, root).with_table(table)


def _default(each: Declared, at_command: bool) -> Any:
    chosen = each.option.at_command
    return chosen if at_command and chosen is not ... else each.default


def keywords(given: Mapping[str, Any], values: Sequence[type] = VALUES, caller: str = "check") -> dict[str, Any]:
    """Return the settings of a call from Python, by field; None is the same as leaving it out.

    Args:
        given: Options by the name of their field, or of their flag with underscores.
        values: The dataclasses with the options that the call takes. With RunOptions alone, every field that can be set.
        caller: The name of the function that was called.

    Raises:
        TypeError: An option is unknown.
        TcreadyError: The value of an option is invalid.
    """
    known = taken(values)
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(known)}"
            raise TypeError(f"{caller}() takes no option {name}: {hint}")
        each = known[name]
        if value is None:
            if each.option.none_counts:
                found[each.field] = None
            continue
        read = from_python(each.option, value)
        if read is None:
            raise TcreadyError(f"{name} = {value!r}: it takes {takes(each.option)}")
        found[each.field] = read
    return found


def taken(values: Sequence[type]) -> dict[str, Declared]:
    """Return the options that a call takes by keyword; for RunOptions alone every field that can be set."""
    every = tuple(values) == (RunOptions,)
    return {
        name: each
        for each in declared(*values)
        if every or each.option.keyword or (each.option.keyword is None and each.option.flag)
        for name in each.keywords
    }


# What a value may be


def from_python(option: Option, given: Any) -> Any:
    """Convert a Python value to the type of the field: any sequence for a list, any mapping for a table; None if it
    does not fit."""
    if isinstance(given, os.PathLike):
        given = os.fspath(given)
    if option.kind == "text" and given == "":
        return given  # a shell gives it for a variable that is not set: what is done with it says so
    if option.kind in ("list", "texts", "files"):
        listed = not isinstance(given, (str, bytes, Mapping)) and isinstance(given, Iterable)
        return _texts(list(given)) if listed else None
    if option.kind == "command" and not isinstance(given, str):
        return from_python(dataclasses.replace(option, kind="list"), given)
    if option.kind in ("globs", "weights"):
        try:
            given = dict(given)
        except (TypeError, ValueError):
            return None
        if option.kind == "globs":
            given = {
                glob: list(codes) if isinstance(codes, (tuple, set, frozenset)) else codes
                for glob, codes in given.items()
            }
    if option.kind == "version" and isinstance(given, tuple):
        given = ".".join(map(str, given))
    return from_toml(option, given)


def from_toml(option: Option, given: Any) -> Any:
    """Convert a value from a TOML file, or from the command line, to the type of the field; None if it is invalid."""
    kind = option.kind
    if kind == "flag":
        return given if isinstance(given, bool) else None
    if kind == "choice":
        return given if given in option.choices else None
    if kind == "number":
        return _number(given)
    if kind == "share":
        return share_of(given)
    if kind == "count":
        return given if isinstance(given, int) and not isinstance(given, bool) and given > 0 else None
    if kind in ("list", "texts", "files"):
        return _texts(given)
    if kind == "globs":
        return _globs(given)
    if kind == "weights":
        return _weights(given)
    if not isinstance(given, str) or not given.strip():
        return None
    if kind == "command":
        return _words(given)
    if kind == "version":
        from tcready.static.library.torch_versions import version_of

        return version_of(given)
    return given


def _number(given: Any) -> float | None:
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        return None
    return float(given) if given > 0 and math.isfinite(given) else None


def share_of(given: Any) -> float | None:
    """Return a share above 0 and below 1, given as such or in percent, as "2%"; None for anything else."""
    percent = isinstance(given, str) and given.rstrip().endswith("%")
    try:
        number = float(given.rstrip().removesuffix("%")) / (100 if percent else 1) if isinstance(given, str) else given
    except ValueError:
        return None
    found = _number(number)
    return found if found is not None and found < 1 else None


def _texts(given: Any) -> tuple[str, ...] | None:
    if not isinstance(given, list) or not all(isinstance(item, str) and item.strip() for item in given):
        return None
    return tuple(given)


def _globs(given: Any) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
    if not isinstance(given, Mapping):
        return None
    found = [(glob, _texts(codes)) for glob, codes in given.items()]
    read = tuple((glob, codes) for glob, codes in found if codes is not None and glob.strip())
    return read if len(read) == len(found) else None


def _weights(given: Any) -> tuple[tuple[str, float], ...] | None:
    if not isinstance(given, Mapping) or not given:
        return None
    found = [(name, _number(number)) for name, number in given.items()]
    read = tuple((name, number) for name, number in found if number is not None)
    return read if len(read) == len(found) else None


def _words(given: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(given))
    except ValueError as error:
        raise TcreadyError(f"--launcher {given}: {error}") from None


_TAKES = {
    "flag": "true or false",
    "text": "a string",
    "number": "a number above 0",
    "share": "a share above 0 and below 1, as 2% or 0.02",
    "count": "a whole number above 0",
    "list": "a list of strings",
    "texts": "a list of strings",
    "files": "a list of strings",
    "globs": 'a table of globs to lists of codes: { "tests/**" = ["TCR3"] }',
    "weights": "a table of names to numbers above 0",
    "command": "a string",
    "version": "a string",
}


def takes(option: Option) -> str:
    """Describe the valid values of an option."""
    if option.kind == "choice":
        return f"one of {', '.join(option.choices)}"
    return option.takes or _TAKES[option.kind]


# What holds, to be read


def shown(settings: Settings, values: Sequence[type]) -> str:
    """Return each option with a flag, its value in TOML, and its source; then the settings of targets' tables."""
    rows = [
        (each.name, _written(each.option, settings.values[each.field]), settings.sources[each.field])
        for each in declared(*values)
        if each.option.flag
    ]
    in_table = {each.field: each for each in declared(RunOptions) if each.option.table}
    for table in settings.tables or ():
        rows.append((f"targets.{table.name}.target", to_toml(table.target), PROJECT))
        rows += [
            (f"targets.{table.name}.{each.name}", _written(each.option, table.values[name]), PROJECT)
            for name, each in in_table.items()
            if name in table.values
        ]
    return "".join(_aligned(rows))


def _aligned(rows: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    second = min(second, 40)  # one long list does not push all sources out of sight
    for key, text, source in rows:
        yield f"{key:<{first}}  {text:<{second}}  {source}\n"


def _written(option: Option, value: Any) -> str:
    if value is None:
        return "not set"
    if option.kind in ("globs", "weights"):
        return to_toml(dict(value))
    if option.kind == "command":
        return to_toml(shlex.join(value)) if value else "not set"
    if option.kind == "version":
        return to_toml(".".join(map(str, value)))
    return to_toml(value)


def to_toml(value: Any) -> str:
    """Return a value in TOML, on one line."""
    if isinstance(value, Mapping):
        inside = ", ".join(f"{json.dumps(key)} = {to_toml(item)}" for key, item in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(to_toml, value))}]"
    if isinstance(value, (str, bool, int)):
        return json.dumps(value, ensure_ascii=False)
    return f"{value:g}" if isinstance(value, float) else str(value)  # seconds and GB
