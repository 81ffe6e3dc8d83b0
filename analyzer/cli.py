"""The command line: click over `tcready.api`.

Findings go to stdout, what is about to be executed and how it goes to stderr; exits as the README tells them.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import math
import operator
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click
from click.core import ParameterSource
from tcready import api, project
from tcready.files import write as _write
from tcready.options import (
    Completes,
    Declared,
    Kind,
    ReadOptions,
    ReportOptions,
    RunOptions,
    WorkOptions,
    ask,
    declared,
)
from tcready.resolve import VALUES, Settings, from_python, resolve, shown, takes
from tcready.schema import LEVELS, Level, Report, TcreadyError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem
    from tcready.static.rule import Rule

INTERRUPTED = 130
"""Exit after Ctrl-C: 128 and the signal's number, as shells have it."""
BROKEN_PIPE = 141
SHOWN = 40
"""Constructs that were not resolved, in a table of them."""
LONG = 10.0
"""Seconds of reading after which a log that is no terminal says so."""
_Command = TypeVar("_Command", bound="Callable[..., Any] | click.Command")
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line. Exits 0, 1 or 2 as the README tells, 130 when interrupted; never a traceback
    for what the user can mend."""
    for ending in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(ending) is signal.SIG_DFL:
            signal.signal(ending, _end)
    collecting = gc.isenabled()
    gc.disable()  # little of what a check builds is dropped before it ends, and walking it takes a tenth of the time
    try:
        code = app.main(args=arguments, prog_name="tcready", standalone_mode=False)
    except TcreadyError as error:
        code = _complain(str(error))
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        code = _complain(
            error.format_message() + (f" (try `{context.command_path} --help`)" if context else "")
        )
    except (KeyboardInterrupt, click.Abort):
        click.echo("tcready: interrupted", err=True)
        code = INTERRUPTED
    except _ReaderGoneError:
        # Point stdout elsewhere, or the interpreter complains again while it closes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = BROKEN_PIPE
    finally:
        if collecting:
            gc.enable()
    sys.exit(code if isinstance(code, int) else 0)


def _end(number: int, _frame: object) -> NoReturn:
    """A signal that ends us ends the run's processes too: as an exception it passes the launcher's `finally`."""
    sys.exit(128 + number)


class _ReaderGoneError(Exception):
    """Whoever read stdout closed it."""


def _complain(message: str) -> int:
    click.echo(f"tcready: error: {' '.join(message.split())}", err=True)
    return 2


def _print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(f"tcready {api.version()}")
        context.exit()


@click.group(context_settings=_CONTEXT, invoke_without_command=True)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version.",
)
@click.pass_context
def app(context: click.Context) -> None:
    """Is a PyTorch model ready for torch.compile: where it breaks, why, what it costs, what to change."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _codes(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(code.strip() for value in values for code in _split(value) if code.strip())


def _split(value: str) -> list[str]:
    """Parted at the commas that stand in no braces."""
    return re.split(r",(?![^{}]*\})", value)


def _per_file(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """Globs and their codes, from `GLOB:CODE,CODE`."""
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


def _rule_codes(_context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The codes that go on what is typed; of a list that of its last."""
    from click.shell_completion import CompletionItem

    head, comma, last = incomplete.rpartition(",") if parameter.name != "code" else ("", "", incomplete)
    return [
        CompletionItem(f"{head}{comma}{rule.code}", help=rule.summary)
        for rule in api.load_rules()
        if rule.code.startswith(last.upper())
    ]


def _files(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files: the shell finds them itself."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def _writable(_context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuses, before anything runs, a file that could not be written after it."""
    if value is None:
        return None
    path = Path(value)
    if path.is_dir():
        raise click.BadParameter(f"{value} is a folder: name a file", param=parameter)
    if not path.absolute().parent.is_dir():
        raise click.BadParameter(f"the folder {path.parent} does not exist: make it first", param=parameter)
    if not os.access(path.absolute().parent, os.W_OK):
        raise click.BadParameter(f"the folder {path.parent} cannot be written to", param=parameter)
    return value


_CALLBACKS: Mapping[Kind, Callable[..., Any]] = {"list": _codes, "globs": _per_file, "number": _finite}
_COMPLETES: Mapping[Completes, Callable[..., Any]] = {"codes": _rule_codes, "files": _files}
_TYPES: Mapping[Kind, Any] = {
    "number": click.FloatRange(min=0, min_open=True),
    "count": click.IntRange(min=1),
    "globs": click.UNPROCESSED,
}


@dataclass(frozen=True)
class CommandOptions:
    """What `tcready check` is asked for beside the values of `tcready.options`: what it runs, and how it reports."""

    run: bool | None = field(
        default=None,
        metadata=ask(
            "flag",
            "Execute the targets, or nothing at all. By default a single file that gives its own inputs is run.",
        ),
    )
    observations: tuple[str, ...] = field(
        default=(),
        metadata=ask(
            "files",
            "What the travelling worker (`tcready worker`) saw elsewhere, instead of a run here.",
            name="observation",
            metavar="FILE",
            completes="files",
        ),
    )
    output_format: str = field(
        default="text",
        metadata=ask("choice", "How the report is told.", choices=tuple(api.FORMATS), project=True),
    )
    output: str | None = field(
        default=None,
        metadata=ask(
            "text",
            "Write the report there instead of stdout.",
            short="-o",
            metavar="FILE",
            completes="files",
            writes=True,
        ),
    )
    html: str | None = field(
        default=None,
        metadata=ask(
            "text", "Write the HTML page there as well.", metavar="FILE", completes="files", writes=True
        ),
    )
    exit_zero: bool = field(
        default=False, metadata=ask("flag", "Exit 0 though there are findings (2 stays 2).", paired=False)
    )
    statistics: bool = field(
        default=False,
        metadata=ask(
            "flag",
            "Count findings by rule, and what was not resolved, instead of showing findings.",
            paired=False,
        ),
    )
    quiet: bool = field(
        default=False, metadata=ask("flag", "Nothing on stderr but errors.", short="-q", paired=False)
    )


@dataclass(frozen=True)
class FixOptions:
    """What `tcready fix` is asked for beside how to run a target."""

    diff: bool = field(
        default=False,
        metadata=ask("flag", "Print the changes as one patch, and write nothing: the default.", paired=False),
    )
    apply: bool = field(
        default=False, metadata=ask("flag", "Write the changes into the user's files.", paired=False)
    )
    verify: bool = field(
        default=False,
        metadata=ask("flag", "Put each change to the proof, by runs before and after it.", paired=False),
    )
    unsafe: bool = field(
        default=False,
        metadata=ask(
            "flag",
            "Include what nothing shows to be safe; with --verify, what was shown on one side of a branch alone.",
            paired=False,
        ),
    )
    installed: bool = field(
        default=False,
        metadata=ask(
            "flag",
            "Propose changes in installed packages too; they are never written there.",
            name="third-party",
            paired=False,
        ),
    )
    allow_dirty: bool = field(
        default=False,
        metadata=ask("flag", "Write files too that have changes which are not committed.", paired=False),
    )
    patch_dir: str | None = field(
        default=None,
        metadata=ask("text", "Write own.patch, site-packages.patch and fixes.json there.", metavar="DIR"),
    )
    as_: str = field(
        default="text",
        metadata=ask("choice", "How the changes are told.", name="output-format", choices=("text", "json")),
    )
    silent: bool = field(
        default=False,
        metadata=ask("flag", "Nothing on stderr but errors.", name="quiet", short="-q", paired=False),
    )


HOW_TO_RUN = frozenset(
    {"inputs", "device", "dtype", "autocast", "python", "timeout", "memory_gb", "allow_downloads"}
)
"""Fields of RunOptions that a proof takes as well."""
ASKED = (RunOptions, ReadOptions, ReportOptions, WorkOptions, CommandOptions)
"""The values whose fields are the options of `tcready check`, in the order of its help."""


def _asked(*values: type, only: frozenset[str] | None = None) -> Callable[[_Command], _Command]:
    """Gives a command the options that the fields of some values declare, or `only` those of these names."""

    def decorate(command: _Command) -> _Command:
        for each in reversed(declared(*values)):
            if each.option.flag and (only is None or each.field in only):
                command = _click_option(each)(command)
        return command

    return decorate


def _click_option(each: Declared) -> Callable[[_Command], _Command]:
    option = each.option
    flag = f"--{each.name}"
    more: dict[str, Any] = {
        "metavar": option.metavar,
        "help": option.help,
        "callback": _CALLBACKS.get(option.kind),
    }
    if option.kind == "flag":
        flag = f"{flag}/--no-{each.name}" if option.paired else flag
        more |= {"is_flag": True}
    elif option.kind in ("choice", "number", "text") and each.default is not None:
        shown = f"{each.default:g}" if isinstance(each.default, float) else True
        more |= {"default": each.default, "show_default": shown}
    if option.kind in _TYPES:
        more |= {"type": _TYPES[option.kind]}
    if option.kind == "choice":
        more |= {"type": click.Choice(option.choices)}
    if option.kind in ("list", "files", "globs"):
        more |= {"multiple": True}
    if option.writes:
        more |= {"callback": _writable}
    if option.completes is not None:
        more |= {"shell_complete": _COMPLETES[option.completes]}
    names = [name for name in (option.short, flag, each.field) if name is not None]
    return click.option(*names, **more)


def _given(context: click.Context) -> dict[str, Any]:
    """What the command line itself says, by field."""
    found = {}
    for each in declared(*ASKED):
        if each.option.flag and context.get_parameter_source(each.field) is ParameterSource.COMMANDLINE:
            value = context.params[each.field]
            found[each.field] = from_python(each.option, value)
            if found[each.field] is None:
                raise TcreadyError(f"--{each.name} {value}: it takes {takes(each.option)}")
    return found


def _settings(context: click.Context, *, isolated: bool) -> Settings:
    """What a check is asked for, by the command line and by the pyproject.toml of the working folder."""
    root = Path.cwd()
    in_project = {} if isolated else project.options(root, *VALUES, CommandOptions)
    settings = resolve(
        _given(context), project=in_project, root=root, more=(CommandOptions,), at_command=True
    )
    # a mistake in a target's table is an error whether or not anything is to run
    return replace(settings, tables=() if isolated else project.target_tables(root))


@app.command()
@click.argument("targets", nargs=-1, shell_complete=_files)
@click.option("--isolated", is_flag=True, help="Take nothing from pyproject.toml.")
@click.option(
    "--show-settings", is_flag=True, help="Show each option, its value and who said so; check nothing."
)
@_asked(*ASKED)
@click.pass_context
def check(
    context: click.Context,
    /,
    targets: tuple[str, ...],
    isolated: bool,
    show_settings: bool,
    **_options: Any,
) -> int:
    """Lint TARGETS, run what gives its inputs, report.

    A TARGET is path.py, a folder, path.py::Name or pkg.mod::Name; by default the working folder.
    """
    settings = _settings(context, isolated=isolated)
    command, options = settings.of(CommandOptions), settings.report
    _refuse_one_file_twice(
        {"--output": command.output, "--html": command.html, "--write-baseline": options.write_baseline}
    )
    if show_settings:
        _print(shown(_of_targets(settings, targets), ASKED))
        return 0
    with _telling(command.quiet) as (announce, progress):
        report = api.check(
            targets or (".",),
            run=command.run,
            observations=command.observations,
            settings=settings,
            announce=announce,
            progress=progress,
            checkout=command.html is not None or command.output_format in ("html", "json"),
        )
    on_screen = command.output_format == "text" and not command.output
    for item in (
        () if on_screen else report.skipped
    ):  # what exit 2 is about, if the terminal does not show it already
        click.echo(f"tcready: error: {item.path} cannot be judged: {item.reason}", err=True)
    counts = _statistics(report) if command.statistics and command.output_format == "text" else None
    _show(
        report,
        command.output_format,
        command.output,
        command.html,
        third_party=options.third_party,
        quiet=command.quiet,
        text=counts,
    )
    code = api.exit_code(report, fail_on=options.fail_on, third_party=options.third_party)
    return 0 if code == 1 and (command.exit_zero or options.write_baseline) else code


def _of_targets(settings: Settings, targets: Sequence[str]) -> Settings:
    """The settings as they hold for the targets that were named, if the project has one table for them."""
    tables = [
        table
        for target in targets
        for table in project.matching(target, settings.tables or (), settings.root)
    ]
    return settings.with_table(tables[0]) if len(tables) == 1 else settings


def _show(
    report: Report,
    output_format: str,
    output: str | None,
    html: str | None,
    *,
    third_party: bool,
    quiet: bool,
    text: str | None = None,
) -> None:
    """Renders the report (`text` instead, if it is given) and puts it where the user wants it."""
    if text is not None:
        pass
    elif output_format == "text":
        width = shutil.get_terminal_size((100, 24)).columns
        text = api.render(
            report, "text", color=not output and _wants_color(), width=width, third_party=third_party
        )
    else:
        text = api.render(
            report,
            output_format,
            **({} if output_format in ("json", "html") else {"third_party": third_party}),
        )
    if html:
        _write(html, api.render(report, "html"))
        if not quiet:
            click.echo(f"the page is in {html}", err=True)
    _put(output, text)


def _put(output: str | None, text: str) -> None:
    if output and output != "-":
        _write(output, text)
    else:
        _print(text)


@app.command()
@click.argument("targets", nargs=-1, shell_complete=_files)
@_asked(FixOptions)
@_asked(RunOptions, only=HOW_TO_RUN)
@_asked(ReadOptions, ReportOptions, only=frozenset({"mode", "select", "exclude"}))
@click.pass_context
def fix(context: click.Context, /, targets: tuple[str, ...], **options: Any) -> int:
    """Propose changes that let Dynamo take the code of TARGETS; --verify proves each one by runs before and after it.

    The patch goes to stdout, what is said of it to stderr.
    """
    asked = FixOptions(**{name: options[name] for name in (each.name for each in fields(FixOptions))})
    if asked.apply and asked.diff:
        raise TcreadyError("--apply writes and --diff does not: leave one of them out")
    settings = _settings(context, isolated=False)
    folder = _folder(asked.patch_dir) if asked.patch_dir else None
    with _telling(asked.silent) as (announce, progress):
        found = api.fix(
            targets or (".",),
            verify=asked.verify,
            unsafe=asked.unsafe,
            third_party=asked.installed,
            settings=settings,
            announce=announce,
            progress=progress,
        )
    result = found.result
    if asked.apply:
        written = api.apply(found, dirty=asked.allow_dirty)
        click.echo(f"wrote {', '.join(written)}" if written else "nothing was written", err=True)
    if folder is not None:
        _write(str(folder / "own.patch"), result.patch, "surrogateescape")
        _write(str(folder / "site-packages.patch"), result.third_party_patch, "surrogateescape")
        _write(str(folder / "fixes.json"), api.render(result, "json"))
    if asked.as_ == "json":
        _print(api.render(result, "json"))
    else:
        if not asked.silent:
            click.echo(api.render(result, "text"), err=True, nl=False)
        _print(result.patch + result.third_party_patch if not asked.apply else "", as_it_is=True)
    if result.failure:
        return _complain(result.failure)
    left = bool(result.no_fix or result.refused) if result.breaks_after is None else result.breaks_after > 0
    is_applied = asked.apply and not result.third_party_patch
    return 1 if left or (result.changes and not is_applied) else 0


def _folder(named: str) -> Path:
    """The folder, made if it is not there. Raises TcreadyError if it cannot be."""
    folder = Path(named)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TcreadyError(f"--patch-dir {named}: {error.strerror}") from None
    return folder


@app.command()
@click.argument("patch", type=click.Path(dir_okay=False), shell_complete=_files)
@click.argument("target", shell_complete=_files)
@click.option("--output-format", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option("-q", "--quiet", is_flag=True, help="Nothing on stderr but errors.")
@_asked(RunOptions, only=HOW_TO_RUN)
@_asked(ReadOptions, only=frozenset({"mode"}))
@click.pass_context
def prove(
    context: click.Context, /, patch: str, target: str, output_format: str, quiet: bool, **_options: Any
) -> int:
    """Put PATCH, a unified diff by anybody, to the proof on TARGET: the same calls before and after it.

    Exit 0: a break is gone, none is new, and all calls agree, on both sides of every branch that the patch takes away;
    1: not so; 2: it could not be tried.
    """
    try:
        data = sys.stdin.buffer.read() if patch == "-" else Path(patch).read_bytes()
    except OSError as error:
        raise TcreadyError(f"{patch}: {error.strerror}") from None
    with _telling(quiet) as (announce, progress):
        change = api.prove(
            data.decode("utf-8", "surrogateescape"),  # line ends are part of it
            target,
            named=patch,
            settings=_settings(context, isolated=False),
            announce=announce,
            progress=progress,
        )
    if isinstance(change, str):
        return _complain(change)
    _print(api.render(change, output_format))
    holds = change.state == "proved" and not (change.unsafe or "").startswith("another exception")
    return 0 if holds else 1


@app.command()
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@click.option("--compare", is_flag=True, help="Tell what changed from the first of two files to the second.")
@click.option("--output-format", type=click.Choice(tuple(api.FORMATS)), default="text", show_default=True)
@click.option(
    "-o", "--output", metavar="FILE", callback=_writable, help="Write the report there instead of stdout."
)
@click.option("--html", metavar="FILE", callback=_writable, help="Write the HTML page there as well.")
@click.option(
    "--fail-on",
    type=click.Choice(LEVELS[::-1]),
    help="Exit 1 at this level and above; by default `warning` with --compare, never without.",
)
@click.option(
    "--third-party", is_flag=True, help="Count findings in installed packages, and show them one by one."
)
@click.option("-q", "--quiet", is_flag=True, help="Nothing on stderr but errors.")
def report(
    files: tuple[str, ...],
    compare: bool,
    output_format: str,
    output: str | None,
    html: str | None,
    fail_on: Level | None,
    third_party: bool,
    quiet: bool,
) -> int:
    """Render FILES again, put several together, or compare two.

    A file is a JSON report, an HTML page, or what the travelling worker wrote. A report made here and a run made on
    another machine give the report that `check --observation` would.
    """
    _refuse_one_file_twice({"--output": output, "--html": html})
    if not compare:
        together = api.combine(files)
        _show(together, output_format, output, html, third_party=third_party, quiet=quiet)
        return api.exit_code(together, fail_on=fail_on, third_party=third_party) if fail_on else 0
    if len(files) != 2 or html:
        raise TcreadyError("--compare takes two files, BEFORE and AFTER, and gives no HTML page")
    before, after = (api.combine([file]) for file in files)
    compared = api.compare(before, after, (files[0], files[1]))
    _put(output, api.render(compared, output_format))
    if api.exit_code(after) == 2:
        return 2
    return api.exit_code(compared, fail_on=fail_on or "warning", third_party=third_party)


def _refuse_one_file_twice(written: Mapping[str, str | None]) -> None:
    """Raises TcreadyError if two options name one file to write."""
    options: dict[Path, str] = {}
    for option, name in written.items():
        if name and (other := options.setdefault(Path(name).absolute(), option)) != option:
            raise TcreadyError(f"{other} and {option} both name {name}: give them different files")


@app.command()
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default="worker.pyz",
    show_default=True,
    callback=_writable,
    help="Where to write it.",
)
def worker(output: str) -> None:
    """Write the travelling worker: one file to run a model with on a machine that has only Python and torch.

    There: python worker.pyz --target model.py::Net --device cuda -o observation.json; here: tcready check model.py
    --observation observation.json.
    """
    api.write_worker(output)
    click.echo(f"{output} is written; python {output} --help tells how to run it", err=True)


@app.command()
@click.option("--yes", is_flag=True, help="Write without asking.")
@click.option("--diff", "only_show", is_flag=True, help="Show what would be added, and write nothing.")
def init(yes: bool, only_show: bool) -> None:
    """Add a [tool.tcready] table to pyproject.toml and the hook to .pre-commit-config.yaml.

    What is to be added is shown first; nothing that stands there is changed. Without a terminal to ask on, --yes
    writes.
    """
    from tcready import init as adding

    if yes and only_show:
        raise TcreadyError("--diff writes nothing and --yes writes: leave one of them out")
    plan = adding.plan(Path.cwd().resolve())
    for addition in plan.additions:
        _print(addition.diff())
    for note in plan.notes:
        click.echo(note, err=True)
    names = " and ".join(addition.path.name for addition in plan.additions)
    if not names or only_show:
        return
    if not yes and not (sys.stdin and sys.stdin.isatty()):
        click.echo("nothing was written: there is no terminal to ask on; --yes writes", err=True)
    elif yes or click.confirm(f"Write {names}?", default=True, err=True):
        adding.write(plan.additions)
        click.echo(f"written: {names}", err=True)
    else:
        click.echo("nothing was written", err=True)


@app.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print the script that makes a shell complete commands, options, rule codes and files.

    bash: eval "$(tcready completion bash)" in ~/.bashrc; zsh the same in ~/.zshrc; fish: tcready completion fish >
    ~/.config/fish/completions/tcready.fish
    """
    from click.shell_completion import ShellComplete, get_completion_class

    found = get_completion_class(shell)
    if found is None:
        raise TcreadyError(f"this click completes nothing in {shell}")
    # bash's own `source` starts bash to ask for its version; the script is the same
    _print(ShellComplete.source(found(app, {}, "tcready", "_TCREADY_COMPLETE")) + "\n")


@app.command()
@click.argument("code", shell_complete=_rule_codes)
def rule(code: str) -> None:
    """Show the page of one rule: what it finds, why it hurts, what to write instead."""
    _print(api.page_of(_rule(code)))


@app.command()
def rules() -> None:
    """List the rules."""
    lines = [f"{rule.code}  {rule.level:<7}  {rule.effect:<13}  {rule.summary}" for rule in api.load_rules()]
    _print("\n".join(lines) + "\n")


def _rule(code: str) -> Rule:
    known = {rule.code: rule for rule in api.load_rules()}
    by_name = {rule.name: rule for rule in known.values()}
    found = known.get(code.upper()) or by_name.get(code.lower())
    if found is None:
        from difflib import get_close_matches

        names = get_close_matches(code.lower(), by_name, n=1)
        near = names[0] if names else max(known, key=functools.partial(_alike, code.upper()))
        raise TcreadyError(f"there is no rule {code}: did you mean {near}? (`tcready rules` lists them)")
    return found


def _alike(one: str, other: str) -> int:
    """How many characters stand at the same place in both."""
    return sum(map(operator.eq, one, other))


def _statistics(report: Report) -> str:
    counted = Counter((finding.rule or "-", finding.name) for finding in report.findings)
    rows = sorted(counted.items(), key=lambda row: (-row[1], row[0]))
    table = "".join(f"{count:>5}  {code:<6}  {name}\n" for (code, name), count in rows)
    table += "".join(f"skipped {item.path}: {item.reason}\n" for item in report.skipped)
    seen = report.statistics
    if "calls" not in seen:
        return table
    table += (
        f"{seen['functions']} functions reached; {seen['calls_resolved']} of {seen['calls']} calls in them resolved, "
        f"{seen['calls_cut']} cut by a limit\n"
    )
    kinds = {"source": "source that is read", "library": "known names", "value": "known values"}
    counts = [
        f"{seen[f'calls_to_{kind}']} to {words}"
        for kind, words in kinds.items()
        if f"calls_to_{kind}" in seen
    ]
    if counts:
        table += f"of these {', '.join(counts)}\n"
    unresolved = seen.get("unresolved", ())
    if unresolved:
        table += "not resolved, most frequent first, and where it stands first:\n"
    table += "".join(
        f"{row['count']:>5}  {row['construct']}  {row['path']}:{row['line']}\n" for row in unresolved[:SHOWN]
    )
    if len(unresolved) > SHOWN:
        table += f"and {len(unresolved) - SHOWN} kinds more: `statistics` in the JSON has all\n"
    return table


@contextlib.contextmanager
def _telling(quiet: bool) -> Iterator[tuple[Callable[[str], None], Callable[[str], None]]]:
    """What to call with a line to announce, and with the state of the work; both write to stderr.

    On a terminal the state is shown live. Elsewhere each stage is a line with the time since the start, so that a log
    says how long work goes on.
    """

    def nothing(_text: str) -> None: ...

    def announce(text: str) -> None:
        click.echo(text, err=True)

    if quiet:
        yield nothing, nothing
        return
    if not sys.stderr.isatty():
        with _StageLines() as lines:
            yield lines.announce, lines.progress
        return
    with contextlib.ExitStack() as stack:
        shown: list[Callable[[str], None]] = []

        def progress(text: str) -> None:
            # rich costs more than a static check of a small file: it is loaded when there is a run to follow
            if not shown:
                from rich.console import Console

                status = stack.enter_context(Console(stderr=True, highlight=False).status(""))
                shown.append(lambda line: status.update(_plain(line)))
            shown[0](text)

        yield announce, progress


class _StageLines:
    """A line on stderr for each stage of each run, and one if reading the sources takes long."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._stages: set[str] = set()
        self._reading = threading.Timer(LONG, self._say, ["reading the sources"])
        self._reading.daemon = True

    def __enter__(self) -> _StageLines:
        self._reading.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._reading.cancel()

    def announce(self, text: str) -> None:
        self._reading.cancel()
        self._stages.clear()  # of the run before
        click.echo(text, err=True)

    def progress(self, text: str) -> None:
        stage = re.split(r"\W", text, maxsplit=1)[0]  # what follows it (a case, a size) may change many times
        if stage not in self._stages:
            self._stages.add(stage)
            self._say(stage)

    def _say(self, text: str) -> None:
        click.echo(f"[{time.monotonic() - self._start:.0f} s] {text}", err=True)


def _plain(text: str) -> Any:
    """`text` for rich, without reading markup out of file names."""
    from rich.text import Text

    return Text(text)


def _wants_color() -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")


def _print(text: str, *, as_it_is: bool = False) -> None:
    """To stdout, whatever its encoding: what it cannot spell is escaped. `as_it_is` gives the bytes of files instead."""
    if sys.stdout is None:  # closed before we began
        return
    encoding = sys.stdout.encoding or "utf-8"
    try:
        if as_it_is:
            sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
        else:
            sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        raise _ReaderGoneError from None
    except OSError as error:
        sys.stdout = None  # what is left in its buffer cannot be written either
        raise TcreadyError(f"stdout cannot be written to: {error.strerror or error}") from None
