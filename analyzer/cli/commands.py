"""The command `tcready`: its subcommands, errors and exit codes."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, MutableMapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

import click
from tcready import api
from tcready.cli.output import ReaderGoneError, complain
from tcready.schema.enums import TcreadyError

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 plus the number of the signal, as in shells."""
BROKEN_PIPE = 141
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. Exits with 0, 1 or 2 as in the README, or 130 if interrupted. Prints no traceback for
    errors that the user can fix."""
    if sys.flags.optimize > 1:
        sys.exit(
            complain(
                "Python removes docstrings (-OO or PYTHONOPTIMIZE=2), which contain the pages of rules: run "
                "it without this option"
            )
        )
    for ending in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(ending) is signal.SIG_DFL:
            signal.signal(ending, _end)
    collecting = gc.isenabled()
    gc.disable()  # little of what a check builds is dropped before it ends, and walking it takes a tenth of the time
    try:
        code = app.main(args=arguments, prog_name="tcready", standalone_mode=False)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        code = complain(error.format_message() + (f" (try `{context.command_path} --help`)" if context else ""))
    except (KeyboardInterrupt, click.Abort):
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # another would end this with a traceback
        click.echo("tcready: interrupted", err=True)
        code = INTERRUPTED
    except ReaderGoneError:
        # Point both elsewhere, or the interpreter complains again while it closes: stderr may be in the same pipe.
        for stream in (sys.stdout, sys.stderr):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        code = BROKEN_PIPE
    except (OSError, MemoryError) as error:  # of the machine, not of a line of ours: the disk is full
        code = complain(_of_the_machine(error))
    except Exception:
        import traceback

        traceback.print_exc()
        code = complain("this is a bug in tcready: the traceback is above")
    finally:
        if collecting:
            gc.enable()
    sys.exit(code if isinstance(code, int) else 0)


def _of_the_machine(error: OSError | MemoryError) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    try:
        os.getcwd()
    except OSError:
        return "the working folder no longer exists"
    where = f"{error.filename}: " if error.filename is not None else ""
    return f"{where}{error.strerror or error}"


def _end(number: int, _frame: object) -> NoReturn:
    """End the process on a signal by an exception, so that the launcher's `finally` ends the processes of the run."""
    sys.exit(128 + number)


def _print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(f"tcready {api.version()}")
        context.exit()


HOMES = MappingProxyType(
    {
        "bench": "bench_command",
        "check": "check_command",
        "completion": "setup_commands",
        "explain": "explain_command",
        "fix": "fix_commands",
        "init": "setup_commands",
        "lsp": "lsp_command",
        "mcp": "mcp_command",
        "prove": "fix_commands",
        "report": "report_command",
        "rule": "setup_commands",
        "rules": "setup_commands",
        "sweep": "sweep_command",
        "worker": "setup_commands",
    }
)
"""Each command and the module of this package that defines it."""


class Commands(MutableMapping[str, click.Command]):
    """The subcommands. Each is imported on first use, because importing all takes longer than a check."""

    def __init__(self) -> None:
        self._known: dict[str, click.Command | None] = dict.fromkeys(HOMES)

    def __getitem__(self, name: str) -> click.Command:
        command = self._known[name]
        if command is None:
            command = getattr(importlib.import_module(f"tcready.cli.{HOMES[name]}"), name)
            assert isinstance(command, click.Command)
        return command

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._known[name] = command

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


class App(click.Group):
    """The command group. It handles a broken pipe itself: click would exit with 1, which means findings."""

    def invoke(self, context: click.Context) -> Any:
        try:
            try:
                return super().invoke(context)
            except TcreadyError as error:
                return complain(str(error))
        except BrokenPipeError:
            raise ReaderGoneError from None


@click.group(cls=App, commands=Commands(), context_settings=CONTEXT, invoke_without_command=True)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show the version."
)
@click.pass_context
def app(context: click.Context) -> None:
    """Find out if a PyTorch model is ready for torch.compile: where it breaks, why, what it costs, what to change."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
