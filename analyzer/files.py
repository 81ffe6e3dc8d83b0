"""Writing a file as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from pathlib import Path

from tcready.schema import TcreadyError


def write(path: str, text: str, errors: str = "backslashreplace") -> None:
    """The file as a whole or not at all, in UTF-8; a device or a pipe is written to and never replaced.

    Raises TcreadyError if it cannot be written.
    """
    data = text.encode("utf-8", errors)
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "wb") as file:
                file.write(data)
            return
        target = Path(os.path.realpath(path))
        partial = staged(target, data)
        try:
            os.replace(partial, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(partial)
            raise
    except OSError as error:
        raise TcreadyError(f"cannot write {path}: {error.strerror}") from None


def staged(target: Path, data: bytes) -> str:
    """A file beside `target`, ready to take its place, with the permissions that `target` has or would get."""
    partial = str(target.with_name(f".tcready-{os.getpid()}-{time.monotonic_ns()}"))
    try:
        with open(partial, "xb", opener=_for_its_owner) as file:
            file.write(data)
        os.chmod(partial, _mode(target))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
    return partial


def _for_its_owner(path: str, flags: int) -> int:
    """Opens a file that nobody else can read yet; `tempfile` does too, and takes longer to load than a page to write."""
    return os.open(path, flags, 0o600)


def _mode(target: Path) -> int:
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
