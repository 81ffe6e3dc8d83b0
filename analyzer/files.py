"""Write a file completely or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from tcready.schema.words import TcreadyError

SOURCES = (".py", ".pyi", ".pyw", ".ipynb")
"""Endings of files that hold somebody's code."""
STREAMS = ("/dev", "/proc")
"""Where the system itself keeps links: `/dev/stdout` leads to whatever the shell put there."""


def refuse(path: str, named: str, read: Iterable[str] = ()) -> None:
    """Raises TcreadyError, in which `named` says what asks for it, if `path` is nothing to write a result to.

    That is a file of Python code, or what its name would make one, one of the files `read`, and a link that leads out of
    the working folder: whoever wrote a checkout may have put it there. A file outside is fine if it is named as what it
    is.
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
    """Where a link leads that leaves the working folder, or that lies outside of it; None if there is none."""
    plain, folder = Path(os.path.abspath(path)), Path.cwd()
    if any(plain.is_relative_to(each) for each in STREAMS):
        return None
    if plain.is_relative_to(folder):
        return None if target.is_relative_to(folder) else target
    return target if plain.is_symlink() else None


def write(path: str, text: str, errors: str = "backslashreplace") -> None:
    """The file as a whole or not at all, in UTF-8; a device or a pipe is written to and never replaced.

    Raises TcreadyError if it cannot be written, or must not be: `refuse` says what.
    """
    write_bytes(path, text.encode("utf-8", errors))


def write_bytes(path: str, data: bytes) -> None:
    """As `write`, of bytes."""
    with opened(path) as file:
        file.write(data)


@contextlib.contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """What is written to `path`, as `write` does it, for who has it piece by piece."""
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


def staged(target: Path, data: bytes) -> str:
    """A file beside `target`, ready to take its place, with the permissions that `target` has or would get."""
    with _staging(target) as (partial, file):
        file.write(data)
    return partial


@contextlib.contextmanager
def _staging(target: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """What `staged` gives, while it is written; it is gone if that fails."""
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
    """Opens a file that nobody else can read yet; `tempfile` does too, and takes longer to load than a page to write."""
    return os.open(path, flags, 0o600)


def _mode(target: Path) -> int:
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
