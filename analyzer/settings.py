"""`[tool.tcready]` as defaults of `tcready check`, and what its options came to.

A key of the table is an option of the command line without its dashes, and takes what that option takes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from tcready import project
from tcready.schema import TcreadyError

KEYS = (
    "select",
    "ignore",
    "per-file-ignores",
    "exclude",
    "force-exclude",
    "fail-on",
    "third-party",
    "low",
    "plain-call",
    "torch-version",
    "output-format",
    "baseline",
    "cache",
    "mode",
    "device",
    "dtype",
    "autocast",
    "python",
    "timeout",
    "memory",
    "fullgraph",
    "shapes",
    "backend",
    "budget",
)
"""What a project may decide. Not among them: what is executed, and whether it may fetch files, which the one who
calls decides; files that are written; what belongs to a machine (`--launcher`, `--jobs`)."""
BELOW_TARGETS = ("mode", "device", "dtype", "autocast", "python", "timeout", "memory_gb")
"""What the table of one target says more closely than `[tool.tcready]` does."""
_SOURCES = {
    ParameterSource.DEFAULT: "default",
    ParameterSource.DEFAULT_MAP: project.FILE,
    ParameterSource.COMMANDLINE: "command line",
}


def defaults(command: click.Command, root: Path) -> dict[str, Any]:
    """What the table says, by the names of the command's parameters.

    Raises TcreadyError for a key that it does not take, and for a value that the option does not.
    """
    options = dict(_options(command))
    found: dict[str, Any] = {}
    for key, given in project.options(root).items():
        if key not in KEYS:
            raise project.unknown_key(key, (*KEYS, project.TARGETS), project.TABLE)
        read = _read(options[key], given)
        if read is None:
            raise TcreadyError(
                f"{project.FILE}: [{project.TABLE}] {key} = {_written(given)}: it takes {_takes(options[key])}"
            )
        found[options[key].name or key] = read
    project.configured(root)  # a mistake in a target's table is told whether or not anything is to run
    return found


def below_targets(context: click.Context) -> dict[str, Any]:
    """Those of BELOW_TARGETS that the table gave and the command line did not."""
    return {
        name: context.params[name]
        for name in BELOW_TARGETS
        if context.get_parameter_source(name) is ParameterSource.DEFAULT_MAP
    }


def shown(context: click.Context, root: Path, *, isolated: bool) -> str:
    """Every option of the command with its value, as TOML has it, and where it came from; then the targets."""
    rows = []
    for key, option in _options(context.command):
        if not option.expose_value or option.name in ("isolated", "show_settings"):
            continue
        value = context.params.get(option.name or "")
        if value is None:
            usual = option.show_default
            text = _written(usual) if isinstance(usual, str) else "not set"
        else:
            text = _written(value)
        source = context.get_parameter_source(option.name or "") or ParameterSource.DEFAULT
        rows.append((key, text, _SOURCES.get(source, source.name.lower())))
    for table in () if isolated else project.configured(root):
        for name in project.KEYS:
            said = getattr(table, name)
            if said:
                value = dict(said) if name == "weights" else said
                rows.append((f"{project.TARGETS}.{table.name}.{name}", _written(value), project.FILE))
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    second = min(second, 40)  # one long list does not push all sources out of sight
    return "".join(f"{key:<{first}}  {text:<{second}}  {source}\n" for key, text, source in rows)


def _options(command: click.Command) -> Iterator[tuple[str, click.Option]]:
    """The options by their longest name, without dashes."""
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield max(parameter.opts, key=len).lstrip("-"), parameter


def _read(option: click.Option, given: Any) -> Any:
    """The value for the option; None where it takes no such value."""
    if option.is_flag:
        return given if isinstance(given, bool) else None
    if option.name == "per_file_ignores":
        if not isinstance(given, Mapping):
            return None
        found = tuple((glob, _strings(codes)) for glob, codes in given.items())
        return None if any(not glob.strip() or codes is None for glob, codes in found) else found
    if option.multiple:
        return _strings(given)
    if isinstance(option.type, click.Choice):
        return given if given in tuple(option.type.choices) else None
    if isinstance(option.type, (click.FloatRange, click.IntRange)):
        if isinstance(given, bool) or not isinstance(given, (int, float)) or not math.isfinite(given):
            return None
        try:
            kind: Any = option.type
            return kind.convert(given, option, None)
        except click.BadParameter:
            return None
    return given if isinstance(given, str) and given.strip() else None


def _strings(given: Any) -> tuple[str, ...] | None:
    if not isinstance(given, list) or not all(isinstance(item, str) and item.strip() for item in given):
        return None
    return tuple(given)


def _takes(option: click.Option) -> str:
    if option.is_flag:
        return "true or false"
    if option.name == "per_file_ignores":
        return 'a table of globs to lists of codes: { "tests/**" = ["TCR3"] }'
    if option.multiple:
        return "a list of strings"
    if isinstance(option.type, click.Choice):
        return f"one of {', '.join(map(str, option.type.choices))}"
    if isinstance(option.type, (click.FloatRange, click.IntRange)):
        return "a number above 0"
    return "a string"


def _written(value: Any) -> str:
    """A value as TOML has it, on one line."""
    if isinstance(value, Mapping):
        inside = ", ".join(f"{json.dumps(key)} = {_written(item)}" for key, item in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, (str, bool, int)):
        return json.dumps(value, ensure_ascii=False)
    return f"{value:g}" if isinstance(value, float) else str(value)  # seconds and GB
