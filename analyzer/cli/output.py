"""What goes to stdout, stderr and files, and how work under way is told."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from tcready import api
from tcready.files import write
from tcready.schema import Report, TcreadyError

LONG = 10.0
"""Seconds of reading after which a log that is no terminal says so."""


class ReaderGoneError(Exception):
    """Whoever read stdout closed it."""


def complain(message: str) -> int:
    click.echo(f"tcready: error: {' '.join(message.split())}", err=True)
    return 2


def write_out(text: str, *, as_it_is: bool = False) -> None:
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
        raise ReaderGoneError from None
    except OSError as error:
        sys.stdout = None  # what is left in its buffer cannot be written either
        raise TcreadyError(f"stdout cannot be written to: {error.strerror or error}") from None


def put(output: str | None, text: str) -> None:
    if output and output != "-":
        write(output, text)
    else:
        write_out(text)


def show(
    report: Report,
    output_format: str,
    output: str | None,
    html: str | None,
    *,
    third_party: bool,
    quiet: bool,
    verbose: bool = False,
    text: str | None = None,
    editor: str = "none",
) -> None:
    """Renders the report (`text` instead, if it is given) and puts it where the user wants it."""
    of_page = {"editor": editor, "root": Path.cwd()}
    if text is not None:
        pass
    elif output_format == "text":
        text = api.render(
            report, "text", third_party=third_party, verbose=verbose, **on_terminal(to_file=bool(output))
        )
    else:
        text = api.render(
            report,
            output_format,
            **({"json": {}, "html": of_page}.get(output_format, {"third_party": third_party})),
        )
    if html:
        write(html, api.render(report, "html", **of_page))
        if not quiet:
            click.echo(f"the page is in {html}", err=True)
    put(output, text)


def on_terminal(*, to_file: bool = False) -> dict[str, Any]:
    """How text is laid out: its width, and whether with colours."""
    width = shutil.get_terminal_size((100, 24)).columns
    return {"color": not to_file and _wants_color(), "width": width}


def refuse_one_file_twice(written: Mapping[str, str | None]) -> None:
    """Raises TcreadyError if two options name one file to write."""
    options: dict[Path, str] = {}
    for option, name in written.items():
        if name and (other := options.setdefault(Path(name).absolute(), option)) != option:
            raise TcreadyError(f"{other} and {option} both name {name}: give them different files")


@contextlib.contextmanager
def telling(quiet: bool) -> Iterator[tuple[Callable[[str], None], Callable[[str], None]]]:
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
