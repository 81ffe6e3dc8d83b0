"""Decide which code is the user's, and how it is named."""

from __future__ import annotations

import functools
import linecache
import os
import re
import sysconfig
from dataclasses import dataclass, field

from tcready.portable.events import to_schema
from tcready.portable.events.definitions import Definition, definitions_in, innermost, plain_name
from tcready.portable.events.ownership import NOT_USER, below_site
from tcready.portable.events.record import Place
from tcready.portable.events.to_schema import RawFrame
from tcready.schema.code_line import Frame
from tcready.schema.display_paths import display_path, origin_of
from tcready.schema.enums import Origin

CELL = re.compile(r"<ipython-input-\d+-|.*[/\\]ipykernel_\d+[/\\][^/\\]+\.py$", re.DOTALL)
"""File names that IPython gives to the code of its cells. Their text is only in `linecache`."""


@functools.cache
def definitions(path: str) -> tuple[Definition, ...]:
    """Return all functions and classes of the file, outer before inner; empty if it cannot be parsed."""
    try:
        if is_cell(path):
            return definitions_in("".join(linecache.getlines(path)))
        with open(path, "rb") as file:
            return definitions_in(file.read())
    except (OSError, SyntaxError, ValueError):
        return ()


def enclosing(path: str, line: int) -> Definition | None:
    """Return the innermost function around the line, or else the innermost class."""
    return innermost(definitions(path), line)


def user_stack(stack: list[RawFrame]) -> tuple[RawFrame, list[RawFrame]] | None:
    """Return the innermost user frame of a stack of this machine, and the frames to show; see `narrate.user_stack`."""
    return to_schema.user_stack(stack, is_user_file, is_worker_file)


@functools.cache
def _code_roots() -> tuple[str, ...]:
    """Return the folders of the standard library, as real paths ending in a separator."""
    names = ("stdlib", "platstdlib")
    paths = [sysconfig.get_path(name) for name in names]
    return tuple({os.path.realpath(path).rstrip(os.sep) + os.sep for path in paths if path})


def is_cell(path: str) -> bool:
    """Return whether this is the code of a cell that this process has run."""
    return CELL.match(path) is not None and path in linecache.cache


@functools.cache
def is_user_file(path: str) -> bool:
    """Return whether frames of this file count as the user's: see `NOT_USER`, and not generated, nor the worker."""
    if is_cell(path):
        return True
    if path.startswith("<") or "torchinductor_" in path or not path.endswith((".py", ".pyw")):
        return False
    real = os.path.realpath(path)
    if is_worker_file(path):
        return False
    if not os.path.isfile(real):
        return False
    installed = below_site(real)
    if installed is not None:
        return installed not in NOT_USER
    if any(real.startswith(root) for root in _package_roots()):
        return False
    return not any(real.startswith(root) for root in _code_roots())


@functools.cache
def is_worker_file(path: str) -> bool:
    """Return whether the file is tcready's own."""
    real = os.path.realpath(path)
    return _worker_root() in (path, real) or real.startswith(_worker_root() + os.sep)


@functools.cache
def _worker_root() -> str:
    """Return the bundle that contains this file (`bundle/tcready/dynamic/worker/frames.py`), or the folder of the
    installed package."""
    package = os.path.realpath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
    bundle = os.path.dirname(package)
    return bundle if os.path.isfile(bundle) else package


@functools.cache
def _package_roots() -> tuple[str, ...]:
    """Return the folder of torch itself if it is not in site-packages (a source build)."""
    import torch

    folder = os.path.dirname(os.path.realpath(torch.__file__))
    return (folder + os.sep, os.path.join(os.path.dirname(folder), "torchgen") + os.sep)


@dataclass
class FrameNames:
    """The Naming of this machine: names of files and frames, and the user files that were named so far."""

    root: str
    packages: tuple[str, ...]
    sources: dict[str, str] = field(default_factory=dict)

    def path(self, path: str) -> str:
        shown = display_path(path, self.root)
        if os.path.isfile(path) and is_user_file(path):
            self.sources[shown] = os.path.realpath(path)
        return shown

    def origin(self, path: str) -> Origin:
        return origin_of(path, self.root, self.packages)

    def symbol(self, path: str, line: int, name: str = "") -> str:
        """Return the qualified name, such as `Model.forward`; for code outside of definitions the plain name."""
        found = enclosing(path, line)
        return found.symbol if found else plain_name(name) or "<module>"

    def frame(self, path: str, line: int, name: str) -> Frame:
        symbol = self.symbol(path, line, name) if is_user_file(path) else plain_name(name)
        return Frame(self.path(path), line, symbol)

    def is_user(self, path: str) -> bool:
        return is_user_file(path)

    def is_ours(self, path: str) -> bool:
        return is_worker_file(path)

    def around(self, path: str, line: int) -> Definition | None:
        return enclosing(path, line)

    def guard_file(self, shown: str, place: Place) -> str | None:
        """Return the file that a guard names: the frame's own, one named before, or one of torch."""
        from tcready.dynamic.worker.torch_internals.dynamo import shorten_path, torch_folder

        torch_file = os.path.join(torch_folder(), shown)
        known = (place.path, *self.sources.values(), *([torch_file] if os.path.isfile(torch_file) else []))
        return next((path for path in known if shorten_path(path) == shown), None)

    def break_id(self, kind: str) -> str | None:
        from tcready.dynamic.worker.torch_internals.recording import break_id

        return break_id(kind)
