"""Write to stdout, stderr and files."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from tcready import api
from tcready.portable.target import Target
from tcready.schema.enums import TcreadyError, visible
from tcready.schema.report import Report
from tcready.source.files import refuse, write

if TYPE_CHECKING:
    from tcready.schema.comparison import Comparison

BARE = ("concise", "jsonl", "github", "gitlab", "sarif")
"""Formats that show only findings."""
PAGE_OF_MODEL = re.compile(r".+-[0-9a-f]{8}\.html")
OURS = b'id="tcready-report"'
"""The text that marks every page of tcready."""


class ReaderGoneError(Exception):
    """The reader of stdout closed it."""


def complain(message: str) -> int:
    say(f"tcready: error: {' '.join(message.split())}")
    return 2


def say(text: str) -> None:
    """Print one line on stderr, with control characters of names escaped."""
    click.echo(visible(text), err=True)


def write_out(text: str, *, as_it_is: bool = False) -> None:
    """Write to stdout in its encoding; characters that it cannot represent are escaped. `as_it_is`: write the bytes
    of files."""
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
    stored: str | None = None,
) -> None:
    """Render the report (or use `text`) and write it to the requested destination. `stored`: a file that already
    holds it."""
    of_page = {"editor": editor, "root": Path.cwd()}
    if text is not None:
        pass
    elif output_format == "text":
        text = api.render(
            report, "text", third_party=third_party, verbose=verbose, stored=stored, **on_terminal(to_file=bool(output))
        )
    else:
        text = api.render(
            report, output_format, **({"json": {}, "html": of_page}.get(output_format, {"third_party": third_party}))
        )
    put_page(html, report, of_page, quiet=quiet)
    put(output, text)


def say_what_failed(report: Report, output_format: str, output: str | None) -> None:
    """Explain exit codes 2 and 1 apart from findings, if the terminal does not show the reasons yet: files that
    cannot be analyzed, runs that established nothing, models that do not compile."""
    if output_format != "text" or output:
        for item in report.skipped:
            say(f"tcready: error: {item.path} cannot be judged: {item.reason}")
    if output_format in BARE:
        for text in api.failures(report):
            say(f"tcready: error: {text}")
        for text in report.warnings:
            say(f"tcready: warning: {text}")


def show_comparison(
    compared: Comparison, output_format: str, output: str | None, html: str | None, *, editor: str, quiet: bool
) -> None:
    """Render a comparison of two reports and write it to the requested destination."""
    of_page = {"editor": editor, "root": Path.cwd()}
    put_page(html, compared, of_page, quiet=quiet)
    put(output, api.render(compared, output_format, **(of_page if output_format == "html" else {})))


def put_page(html: str | None, shown: Report | Comparison, of_page: Mapping[str, Any], *, quiet: bool) -> None:
    """Write the HTML page, if requested, and print its path."""
    if not html:
        return
    written: set[str] = set()
    if isinstance(shown, Report) and shown.sweep is not None:
        folder = _folder_of_pages(html)
        for name, of_model in api.pages_of_models(shown):
            write(os.path.join(folder, name), api.render(of_model, "html", **of_page))
            written.add(name)
        _remove_pages(folder, written)
        of_page = {**of_page, "folder": os.path.basename(folder)}
    write(html, api.render(shown, "html", **of_page))
    if not quiet:
        say(f"the page is in {html}" + (f", {len(written)} of models beside it" if written else ""))


def validate_page_folder(html: str) -> str:
    """Return the folder for the pages of models beside the page of a sweep. Raises TcreadyError if the path cannot
    be used."""
    folder = f"{os.path.splitext(html)[0]}_models"
    refuse(folder, "--html")
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise TcreadyError(f"--html {html}: the pages of models go into the folder {folder}, which is a file")
    return folder


def _remove_pages(folder: str, current: Container[str]) -> None:
    """Remove the pages of models that an earlier sweep wrote."""
    for each in Path(folder).glob("*.html"):
        if each.name in current or not PAGE_OF_MODEL.fullmatch(each.name) or each.is_symlink():
            continue
        with contextlib.suppress(OSError):
            if each.is_file() and OURS in each.read_bytes():
                each.unlink()


def _folder_of_pages(html: str) -> str:
    """Return that folder, and create it if it does not exist."""
    folder = validate_page_folder(html)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise TcreadyError(f"cannot write {folder}: {error.strerror}") from None
    return folder


def on_terminal(*, to_file: bool = False) -> dict[str, Any]:
    """Return the layout of text: its width, and whether it has colors."""
    width = shutil.get_terminal_size((100, 24)).columns
    return {"color": not to_file and _wants_color(), "width": width}


def validate_output_files(written: Mapping[str, str | None], read: Sequence[str] = ()) -> None:
    """Raise TcreadyError if two options write to the same file, or one to a file or target that is `read`."""
    options: dict[Path, str] = {}
    places = [Target.place_in(each) for each in read]
    for option, name in written.items():
        if not name:
            continue
        if (other := options.setdefault(Path(os.path.realpath(name)), option)) != option:
            raise TcreadyError(f"{other} and {option} both name {name}: give them different files")
        refuse(name, option, places)


def _wants_color() -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")
