"""How an option is declared on a field of a dataclass, and read from it."""

from __future__ import annotations

import dataclasses
import functools
import shlex
from collections.abc import Mapping
from typing import Any, Literal

from tcready.schema.value_class import dataclass

Kind = Literal[
    "flag",
    "text",
    "number",
    "share",
    "count",
    "choice",
    "list",
    "texts",
    "files",
    "globs",
    "weights",
    "command",
    "version",
]
"""Kind of a value: true or false; a text; a number above 0; a whole number above 0; one of the choices; texts
separated by commas; raw texts; file names; globs to lists of rule codes; named cases to numbers; a command's words;
a version of torch."""


Completes = Literal["files", "codes"]


@dataclass(frozen=True)
class Option:
    """How users set one field."""

    kind: Kind
    help: str = ""
    name: str = ""
    """The flag without its dashes, and the key in pyproject.toml; empty: the field's name with dashes."""
    metavar: str | None = None
    takes: str = ""
    """Valid values, for error messages; empty: the description of the kind."""
    choices: tuple[str, ...] = ()
    flag: bool = True
    """`tcready check` has a flag for it."""
    keyword: bool | None = None
    """`tcready.check` takes it as a keyword; None: if there is a flag."""
    no_flag: str = ""
    """Why there is no flag."""
    short: str | None = None
    """A one-letter flag."""
    paired: bool = True
    """The flag has a form with --no- that undoes it."""
    project: bool = False
    """`[tool.tcready]` may set it."""
    table: bool = False
    """The table of a target may set it."""
    worker: bool = False
    """The standalone worker has it as an option."""
    completes: Completes | None = None
    """How a shell completes it."""
    writes: bool = False
    """It names a file to write. A file that cannot be written is rejected before anything runs."""
    none_counts: bool = False
    """None is a value in a call from Python, not the same as leaving it out."""
    at_command: Any = ...
    """The default of `tcready check`; `...`: that of a call from Python."""


@dataclass(frozen=True)
class Declared:
    """A field that users can set."""

    field: str
    type: str
    """The annotated type."""
    default: Any
    option: Option

    @property
    def name(self) -> str:
        """The flag without its dashes, and the key in pyproject.toml."""
        return self.option.name or self.field.replace("_", "-")

    @property
    def keywords(self) -> tuple[str, ...]:
        """Return the names that a call from Python may use: the field, and the flag with underscores."""
        return tuple(dict.fromkeys((self.field, self.name.replace("-", "_"))))


def option(kind: Kind, help: str = "", *, default: Any = ..., places: str = "", **more: Any) -> Any:  # noqa: A002
    """Return a field that users can set.

    Its default is that of its kind (off for a flag, empty for several values, else None) unless given. `places` names
    what else may set it: `project`, `table` and `worker`, fields of Option, as are `more`.
    """
    more |= dict.fromkeys(places.split(), True)
    value = _DEFAULTS.get(kind) if default is ... else default
    return dataclasses.field(default=value, metadata={"option": Option(kind, help, **more)})


_DEFAULTS: Mapping[Kind, Any] = {"flag": False, **dict.fromkeys(("list", "texts", "globs", "weights", "command"), ())}


def fixed(default: Any, reason: str) -> Any:
    """Return a field that users do not set by name, with its default."""
    return dataclasses.field(default=default, metadata=given_by(reason))


def given_by(reason: str) -> Mapping[str, Any]:
    """Return the metadata of a field that users do not set by name: where its value is from, or why it has none."""
    return {"no_option": reason}


@functools.cache
def declared(*values: type) -> tuple[Declared, ...]:
    """Return the fields of dataclasses that users can set, in order."""
    return tuple(
        Declared(each.name, str(each.type), each.default, each.metadata["option"])
        for value in values
        for each in dataclasses.fields(value)
        if "option" in each.metadata
    )


def words(given: Mapping[str, Any], *values: type) -> tuple[str, ...]:
    """Return the words that set `said`, values by field name, on the command line of `tcready check`. Only fields of
    `values` that have a flag are included."""
    found: list[str] = []
    for each in declared(*values):
        value, option, flag = given.get(each.field), each.option, f"--{each.name}"
        if value is None or not option.flag:
            continue
        if option.kind == "flag":
            found.append(flag if value else f"--no-{each.name}")
        elif option.kind in ("texts", "files"):
            found += [word for text in value for word in (flag, text)]
        elif option.kind == "list":
            found += [flag, ",".join(value)]
        elif option.kind == "command":
            found += [flag, shlex.join(value)]
        elif option.kind == "version":
            found += [flag, ".".join(map(str, value))]
        else:
            found += [flag, f"{value:g}" if isinstance(value, float) else str(value)]
    return tuple(found)
