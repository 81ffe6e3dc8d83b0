"""Record settings of the process that a call changes, and files that it writes."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Set
from types import FrameType
from typing import Any

import torch
from tcready.dynamic.worker.core.frames import is_user_file
from tcready.dynamic.worker.torch_internals import dynamo

GONE = ("gone",)
"""The value of a setting that a call removed. It equals no text."""
LARGE = 50_000_000
"""The size of a file in bytes beyond which only its size is compared."""


def global_state() -> dict[str | bytes, Any]:
    """Return the settings of the process and the thread by name. Environment variables stay encoded: decoding all of
    them takes longer than most calls."""
    found: dict[str | bytes, Any] = {
        **os.environ._data,  # type: ignore[attr-defined]
        "the default dtype": str(torch.get_default_dtype()),
        "the default device": str(torch.get_default_device()),
        "whether gradients are on": torch.is_grad_enabled(),
        "whether inference mode is on": torch.is_inference_mode_enabled(),
        "autocast": [
            [torch.is_autocast_enabled(kind), str(torch.get_autocast_dtype(kind))] for kind in ("cpu", "cuda")
        ],
        "deterministic algorithms": [
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ],
        "detection of anomalies": torch.is_anomaly_enabled(),
        "the choice of cuDNN's algorithms": [
            torch.backends.cudnn.enabled,
            torch.backends.cudnn.benchmark,
            torch.backends.cudnn.deterministic,
        ],
        **{f"torch._dynamo.config.{name}": value for name, value in dynamo.flags().items()},
        "the precision of products": torch.get_float32_matmul_precision(),
        "the number of threads": torch.get_num_threads(),
        "the working folder": os.getcwd(),
        "sys.path": [*sys.path],
        "filters of warnings": len(warnings.filters),
        "the limit of recursion": sys.getrecursionlimit(),
        "the level below which logging is disabled": logging.root.manager.disable,
        "how tensors are printed": repr(torch.tensor([1 / 3, 1e9])),
    }
    if numpy := sys.modules.get("numpy"):
        found["numpy's errors"] = dict(numpy.geterr())
    for name, logger in [("root", logging.root), *logging.root.manager.loggerDict.items()]:
        if isinstance(logger, logging.Logger) and (logger.level, logger.disabled, logger.propagate) != (0, False, True):
            found[f"logger {name}"] = [logger.level, logger.disabled, logger.propagate]
    return found


def left_otherwise(before: Mapping[str | bytes, Any], after: Mapping[str | bytes, Any]) -> dict[str, Any]:
    """Return the settings that a call changed, with the values that it left."""
    names = [name for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name)]
    left = {name: after.get(name, GONE) for name in names}
    return {
        name if isinstance(name, str) else f"os.environ[{os.fsdecode(name)!r}]": os.fsdecode(value)
        if isinstance(value, bytes)
        else value
        for name, value in left.items()
    }


@contextlib.contextmanager
def environment_set(values: Mapping[str, str]) -> Iterator[None]:
    """Environment variables with these values, in the context."""
    known = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, before in known.items():
            if before is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = before


@contextlib.contextmanager
def environment_read(paths: Set[str] | None = None) -> Iterator[dict[str, None]]:
    """Record which environment variables the user's own code, or only that of these files, reads in the context."""
    names: dict[str, None] = {}
    known = os._Environ.__getitem__

    def noting(environment: os._Environ[str], name: str) -> str:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_globals.get("__name__") in ("os", "collections.abc", "_collections_abc"):
            frame = frame.f_back
        path = frame.f_code.co_filename if frame is not None else ""
        if isinstance(name, str) and (is_user_file(path) if paths is None else path in paths):
            names[name] = None
        return known(environment, name)

    os._Environ.__getitem__ = noting  # type: ignore[method-assign,assignment]
    try:
        yield names
    finally:
        os._Environ.__getitem__ = known  # type: ignore[method-assign]


_OTHER = frozenset(
    (
        "os.chmod",
        "os.link",
        "os.mkdir",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.symlink",
        "os.system",
        "os.truncate",
        "socket.connect",
        "subprocess.Popen",
    )
)
"""Other recorded events, beside files that are opened for writing."""


class Writes:
    """Records writes outside of the process while it is active."""

    def __init__(self) -> None:
        self._notes: list[str] | None = None
        self._begun: dict[str, int] = {}

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        """An audit hook of Python."""
        if self._notes is None or (event != "open" and event not in _OTHER) or _is_import():
            return
        if event != "open":
            self._notes.append(f"{event} {args[:2]!r}" if event != "socket.connect" else event)
            return
        path, _, flags = args
        writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)
        if not writes or not isinstance(path, (str, bytes, os.PathLike)):
            return
        name = os.path.abspath(os.fsdecode(path))
        if "__pycache__" in name or name.startswith(("/dev/", "/proc/")) or os.path.isdir(name):
            return  # a file without a name is opened by the name of its folder
        is_longer = bool(flags & os.O_APPEND)
        with contextlib.suppress(OSError):
            self._begun.setdefault(name, os.path.getsize(name) if is_longer else 0)
        self._begun.setdefault(name, 0)

    @contextlib.contextmanager
    def noted(self) -> Iterator[dict[str, Any]]:
        """Record the writes in the context; the result is complete at its end."""
        found: dict[str, Any] = {}
        self._notes, self._begun = [], {}
        drawn: list[str] = []
        # the audit event of `tempfile` has the path, and not which part of it was drawn
        save, draw = torch.save, tempfile._RandomNameSequence.__next__  # type: ignore[attr-defined]

        def noting(saved: Any, file: Any, *args: Any, **kwargs: Any) -> None:
            if isinstance(file, (str, os.PathLike)):  # C++ code opens it, of which no audit hook hears
                self._begun.setdefault(os.path.abspath(os.fsdecode(file)), 0)
            save(saved, file, *args, **kwargs)

        def drawing(names: Any) -> str:
            drawn.append(draw(names))
            return drawn[-1]

        torch.save = noting
        tempfile._RandomNameSequence.__next__ = drawing  # type: ignore[attr-defined]
        try:
            yield found
        finally:
            torch.save = save
            tempfile._RandomNameSequence.__next__ = draw  # type: ignore[attr-defined]
            notes, begun, self._notes = self._notes, self._begun, None
            written: dict[str, list[str]] = {}
            for name, start in begun.items():
                written.setdefault(f"file {_mask(name, drawn)}", []).append(_written(name, start))
            found |= {name: sorted(hashes) if len(hashes) > 1 else hashes[0] for name, hashes in written.items()}
            if notes:
                found["what was done to files and processes"] = [_mask(note, drawn) for note in notes]


def _mask(text: str, drawn: Iterable[str]) -> str:
    """Replace what `tempfile` drew for the names of files."""
    for name in drawn:
        text = text.replace(name, "*")
    return text


def _is_import() -> bool:
    """Return whether Python is importing something: import caches are written once, by whichever call comes first."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _written(path: str, start: int) -> str:
    try:
        size = os.path.getsize(path)
        if size > LARGE or not os.path.isfile(path):
            return f"{size - start} bytes"
        with open(path, "rb") as file:
            file.seek(start)
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return "gone"


@functools.cache
def writes() -> Writes:
    """Return the recorder of this process: an audit hook cannot be removed."""
    found = Writes()
    sys.addaudithook(found.hook)
    return found
