"""Write a file as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from tcready.schema.enums import TcreadyError

SOURCES = (".py", ".pyi", ".pyw", ".ipynb")
"""Suffixes of files with source code."""
STREAMS = ("/dev", "/proc")
"""Folders where the system has links: `/dev/stdout` leads to what the shell chose."""


def refuse(path: str, named: str, read: Iterable[str] = ()) -> None:
    """Raise TcreadyError, with the option `named`, if a result may not be written to `path`.

    Refused are a file of Python code, by its content or by its name, one of the files `read`, and a link that leads out
    of the working folder, which may come from the author of a checkout. A file outside is accepted if its own path is
    given.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file() and not target.is_dir():
        return  # a device or a pipe
    if target.suffix.lower() in SOURCES and not target.is_dir():
        why = "holds code, which would be lost" if target.is_file() else "would be taken for code"
        raise TcreadyError(f"{named} {path} {why}: name another file")
    if any(os.path.realpath(each) == str(target) for each in read):
        raise TcreadyError(f"{named} {path} is what is to be read, and would be lost: name another file")
    outside = _led_out(path, target)
    if outside is not None:
        raise TcreadyError(
            f"{named} {path} is a link that leads out of the working folder: if {outside} is meant, name that"
        )


def _led_out(path: str, target: Path) -> Path | None:
    """Return the destination of a link that leaves the working folder, or is outside of it; None if there is none."""
    plain, folder = Path(os.path.abspath(path)), Path.cwd()
    if any(plain.is_relative_to(each) for each in STREAMS):
        return None
    if plain.is_relative_to(folder):
        return None if target.is_relative_to(folder) else target
    return target if plain.is_symlink() else None


def write(path: str, text: str, errors: str = "backslashreplace") -> None:
    """Write the file as a whole or not at all, in UTF-8; a device or a pipe is written to and never replaced.

    Raises TcreadyError if it cannot be written, or if `refuse` forbids it.
    """
    write_bytes(path, text.encode("utf-8", errors))


def write_bytes(path: str, data: bytes) -> None:
    """Write bytes, as `write` does."""
    with open_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def open_file(path: str) -> Iterator[IO[bytes]]:
    """Open `path` for writing in pieces, with the guarantees of `write`."""
    refuse(path, "cannot write")
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "wb") as file:
                yield file
            return
        target = Path(os.path.realpath(path))
        with _staging(target) as (partial, file):
            yield file
        try:
            os.replace(partial, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(partial)
            raise
    except OSError as error:
        raise TcreadyError(f"cannot write {path}: {error.strerror or error}") from None


def stage_file(target: Path, data: bytes) -> str:
    """Create a file beside `target`, ready to replace it, with the permissions that `target` has or would get."""
    with _staging(target) as (partial, file):
        file.write(data)
    return partial


@contextlib.contextmanager
def _staging(target: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the staged file while it is written; remove it if that fails."""
    partial = str(target.with_name(f".tcready-{os.getpid()}-{time.monotonic_ns()}"))
    try:
        with open(partial, "xb", opener=_for_its_owner) as file:
            yield partial, file
        os.chmod(partial, _mode(target))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def _for_its_owner(path: str, flags: int) -> int:
    """Open a file that nobody else can read yet. `tempfile` does that too, but takes longer to import than a page to
    write."""
    return os.open(path, flags, 0o600)


def _mode(target: Path) -> int:
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
