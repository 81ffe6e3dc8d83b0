"""Options of commands, made from the fields that declare them, and their values."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource
from tcready import api
from tcready.config import pyproject
from tcready.config.resolution import VALUES, Settings, from_python, resolve, share_of, takes
from tcready.portable.option_fields import Completes, Declared, Kind, declared, option
from tcready.portable.options import ReadOptions, ReportOptions, RunOptions, WorkOptions
from tcready.schema.enums import TcreadyError
from tcready.schema.value_class import dataclass
from tcready.source.files import refuse

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


_Command = TypeVar("_Command", bound="Callable[..., Any] | click.Command")


def _codes(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(code.strip() for value in values for code in _split(value) if code.strip())


def _split(value: str) -> list[str]:
    """Split at commas that are not inside braces."""
    return re.split(r",(?![^{}]*\})", value)


def _per_file(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """Parse globs and their codes from `GLOB:CODE,CODE`."""
    found: dict[str, tuple[str, ...]] = {}
    for value in values:
        glob = ""
        for piece in filter(None, map(str.strip, _split(value))):
            before, colon, code = piece.rpartition(":")
            glob = before if colon else glob
            if not glob or not code:
                why = f"{value}: write GLOB:CODES, as in tests/*:TCR3,TCR5"
                raise click.BadParameter(why, context, parameter)
            found[glob] = (*found.get(glob, ()), code)
    return found


def _finite(_context: click.Context, parameter: click.Parameter, number: float | None) -> float | None:
    if number is not None and not math.isfinite(number):
        raise TcreadyError(f"{parameter.opts[0]} {number}: name a finite number")
    return number


def complete_codes(_context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a rule code, or the last code of a list."""
    from click.shell_completion import CompletionItem

    head, comma, last = incomplete.rpartition(",") if parameter.name != "code" else ("", "", incomplete)
    return [
        CompletionItem(f"{head}{comma}{rule.code}", help=rule.summary)
        for rule in api.load_rules()
        if rule.code.startswith(last.upper())
    ]


def complete_files(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete files: the shell does it."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def writable(_context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Reject a file that cannot be written, before anything runs."""
    if value is None:
        return None
    if value == "-" and "--output" not in parameter.opts:
        raise click.BadParameter("- is stdout, which the report uses: name a file", param=parameter)
    path = Path(value)
    if path.is_dir():
        raise click.BadParameter(f"{value} is a folder: name a file", param=parameter)
    if not path.absolute().parent.is_dir():
        raise click.BadParameter(f"the folder {path.parent} does not exist: create it first", param=parameter)
    if not os.access(path.absolute().parent, os.W_OK):
        raise click.BadParameter(f"the folder {path.parent} cannot be written to", param=parameter)
    refuse(value, parameter.opts[-1])
    return value


def _share(_context: click.Context, parameter: click.Parameter, given: object) -> float | None:
    share = share_of(given)
    if given is not None and share is None:
        raise TcreadyError(f"{parameter.opts[0]} {given}: expected a share above 0 and below 1, such as 2% or 0.02")
    return share


_CALLBACKS: Mapping[Kind, Callable[..., Any]] = {"list": _codes, "globs": _per_file, "number": _finite, "share": _share}


_COMPLETES: Mapping[Completes, Callable[..., Any]] = {"codes": complete_codes, "files": complete_files}
_TYPES: Mapping[Kind, Any] = {
    "number": click.FloatRange(min=0, min_open=True),
    "count": click.IntRange(min=1),
    "globs": click.UNPROCESSED,
    "share": click.UNPROCESSED,
}


@dataclass(frozen=True)
class CommandOptions:
    """Options of `tcready check` in addition to those of `tcready.portable.options`: what to run, and how to report."""

    run: bool | None = option(
        "flag",
        "Run the targets, or only read them. By default, `check` runs a single file that provides its own inputs.",
        default=None,
    )
    observations: tuple[str, ...] = option(
        "files",
        "Result of the standalone worker (`tcready worker`) from another machine, used instead of a run.",
        default=(),
        name="observation",
        metavar="FILE",
        completes="files",
    )
    against_version: tuple[int, int] | None = option(
        "version",
        "List the findings that appear or disappear from the version of --torch-version to this one. "
        "Requires --no-run.",
        metavar="X.Y",
    )
    output_format: str = option(
        "choice", "Format of the report.", default="text", choices=tuple(api.FORMATS), places="project"
    )
    output: str | None = option(
        "text",
        "Write the report to this file instead of stdout.",
        short="-o",
        metavar="FILE",
        completes="files",
        writes=True,
    )
    html: str | None = option(
        "text", "Also write the HTML page to this file.", metavar="FILE", completes="files", writes=True
    )
    timeline: str | None = option(
        "text",
        "Also write a timeline of the compilations in the run to this file, for https://ui.perfetto.dev. With "
        "--backend, it has the phases of Inductor too.",
        metavar="FILE.json",
        completes="files",
        writes=True,
    )
    editor: str = option(
        "text",
        "Link the lines of the page to an editor: vscode, pycharm, or a URL with {path}, {line} and "
        "{column}. The page then contains the path of this folder.",
        default="none",
        metavar="NAME",
    )
    """An editor, an address, or `none`: the page then has no absolute paths."""
    exit_zero: bool = option("flag", "Exit 0 even if there are findings (2 stays 2).", paired=False)
    statistics: bool = option(
        "flag",
        "Show the number of findings by rule, and of unresolved constructs, instead of the findings.",
        paired=False,
    )
    verbose: bool = option(
        "flag",
        "Print in full: why each finding hurts, what to write instead, and all results of each run.",
        short="-v",
        paired=False,
    )
    quiet: bool = option("flag", "Print only errors to stderr.", short="-q", paired=False)


CHECK_OPTIONS = (RunOptions, ReadOptions, ReportOptions, WorkOptions, CommandOptions)
"""The dataclasses that declare the options of `tcready check`, in the order of its help."""
_PURPOSES = {
    "Reading the source": (ReadOptions, WorkOptions),
    "Running the model": (RunOptions,),
    "Reporting": (CommandOptions,),
    "Guarding a project": (ReportOptions,),
}
_ELSEWHERE = {
    "Running the model": "mode run observations verify_fixes",
    "Reporting": "select ignore per_file_ignores",
    "Guarding a project": "exit_zero",
}
"""Fields that belong to another section of the help than their dataclass."""


def _purposes() -> dict[str, str]:
    """Return the section of the help for each field."""
    found = {each.field: heading for heading, values in _PURPOSES.items() for each in declared(*values)}
    return found | {name: heading for heading, names in _ELSEWHERE.items() for name in names.split()}


COMMON = tuple("run inputs mode device dtype plan select output_format html baseline fail_on verbose".split())
"""The fields that `--help` shows, in this order; `--help-all` shows every option."""


class ByPurpose(click.Command):
    """A command with many options: `--help` shows the common ones, `--help-all` all of them, grouped by purpose."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        text = "Show all options and exit."
        self.params.append(
            click.Option(["--help-all"], is_flag=True, expose_value=False, is_eager=True, callback=_show_all, help=text)
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the common options."""
        known = {parameter.name: parameter for parameter in self.params}
        shown = [*(known[name] for name in (*COMMON, "help_all")), self.get_help_option(ctx)]
        with formatter.section("Common options"):
            formatter.write_dl([record for each in shown if each and (record := each.get_help_record(ctx))])

    def full_help(self, context: click.Context) -> str:
        """Return the help with all options."""
        formatter = context.make_formatter()
        self.format_usage(context, formatter)
        self.format_help_text(context, formatter)
        known = _purposes()
        records: dict[str, list[tuple[str, str]]] = {heading: [] for heading in (*_PURPOSES, "Other options")}
        for parameter in self.get_params(context):
            record = parameter.get_help_record(context)
            if record is not None and isinstance(parameter, click.Option):
                records[known.get(parameter.name or "", "Other options")].append(record)
        for heading, rows in records.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)
        return formatter.getvalue().rstrip("\n")


def _show_all(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing and isinstance(context.command, ByPurpose):
        click.echo(context.command.full_help(context))
        context.exit()


HOW_TO_RUN = frozenset({"inputs", "device", "dtype", "autocast", "python", "timeout", "memory_gb", "allow_downloads"})
"""Fields of RunOptions that `fix` and `prove` have as well."""


def with_options(*values: type, only: frozenset[str] | None = None) -> Callable[[_Command], _Command]:
    """Add options to a command, as declared by fields of these dataclasses; `only` restricts them to these names."""

    def decorate(command: _Command) -> _Command:
        for each in reversed(declared(*values)):
            if each.option.flag and (only is None or each.field in only):
                command = _click_option(each)(command)
        return command

    return decorate


def _click_option(each: Declared) -> Callable[[_Command], _Command]:
    option = each.option
    flag = f"--{each.name}"
    more: dict[str, Any] = {"metavar": option.metavar, "help": option.help, "callback": _CALLBACKS.get(option.kind)}
    if option.kind == "flag":
        flag = f"{flag}/--no-{each.name}" if option.paired else flag
        more |= {"is_flag": True}
        if each.default is True:
            more |= {"default": True}
    elif option.at_command is None:
        pass  # without it another default holds, which the help says in words
    elif option.kind in ("choice", "number", "share", "count", "text") and each.default is not None:
        is_whole = isinstance(each.default, float) and each.default.is_integer()
        more |= {"default": int(each.default) if is_whole else each.default, "show_default": True}
    if option.kind in _TYPES:
        more |= {"type": _TYPES[option.kind]}
    if option.kind == "choice":
        more |= {"type": click.Choice(option.choices)}
    if option.kind in ("list", "texts", "files", "globs"):
        more |= {"multiple": True}
    if option.writes:
        more |= {"callback": writable}
    if option.completes is not None:
        more |= {"shell_complete": _COMPLETES[option.completes]}
    names = [name for name in (option.short, flag, each.field) if name is not None]
    return click.option(*names, **more)


def _given(context: click.Context) -> dict[str, Any]:
    """Return the values that the command line itself sets, by field."""
    found = {}
    for each in declared(*CHECK_OPTIONS):
        if each.option.flag and context.get_parameter_source(each.field) is ParameterSource.COMMANDLINE:
            value = context.params[each.field]
            found[each.field] = from_python(each.option, value)
            if found[each.field] is None:
                raise TcreadyError(f"--{each.name} {value}: it takes {takes(each.option)}")
    return found


def settings_of(context: click.Context, *, isolated: bool) -> Settings:
    """Return the settings of a check from the command line and from the pyproject.toml of the working folder."""
    return settings_at(Path.cwd(), _given(context), isolated=isolated)


def settings_at(root: Path, given: Mapping[str, Any] = MappingProxyType({}), *, isolated: bool = False) -> Settings:
    """Return the settings from the pyproject.toml in `root`, overridden by `given`. Raises TcreadyError for invalid
    settings."""
    in_project = {} if isolated else pyproject.options(root, *VALUES, CommandOptions)
    settings = resolve(given, project=in_project, root=root, more=(CommandOptions,), at_command=True)
    # a mistake in a target's table is an error whether or not anything is to run
    return replace(settings, tables=() if isolated else pyproject.target_tables(root), isolated=isolated)
