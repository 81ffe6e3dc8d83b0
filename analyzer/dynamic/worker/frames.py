"""Which code is the user's, and what it is called."""

from __future__ import annotations

import ast
import functools
import linecache
import os
import re
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass, field

from tcready.schema import Frame, LineSet, Origin, display_path, origin_of

NOT_USER = frozenset(
    {"torch", "functorch", "torchgen", "numpy", "scipy", "sympy", "pandas", "mpmath", "sklearn"}
)
"""Packages whose frames are never a site."""
RESUME = "torch_dynamo_resume_in_"
CELL = re.compile(r"<ipython-input-\d+-|.*[/\\]ipykernel_\d+[/\\][^/\\]+\.py$", re.DOTALL)
"""What IPython calls the code of a cell that it runs; its text is in `linecache` alone."""
SITE_FOLDERS = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class Definition:
    """A function or class of a file; `first` counts its decorators."""

    first: int
    last: int
    symbol: str
    function: bool


@functools.cache
def definitions(path: str) -> tuple[Definition, ...]:
    """All functions and classes of the file, outer before inner; empty where it cannot be parsed."""
    try:
        if is_cell(path):
            tree = ast.parse("".join(linecache.getlines(path)))
        else:
            with open(path, "rb") as file:
                tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return ()
    found: list[Definition] = []

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = prefix
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                function = not isinstance(child, ast.ClassDef)
                first = min([child.lineno, *(node.lineno for node in child.decorator_list)])
                symbol = prefix + child.name
                found.append(Definition(first, child.end_lineno or child.lineno, symbol, function))
                inner = f"{symbol}."
            visit(child, inner)

    visit(tree, "")
    return tuple(found)


def enclosing(path: str, line: int) -> Definition | None:
    """The innermost function (else class) around the line."""
    around = [item for item in definitions(path) if item.first <= line <= item.last]
    functions = [item for item in around if item.function]
    found = functions or around
    return found[-1] if found else None


@functools.cache
def _code_roots() -> tuple[str, ...]:
    """Folders of the standard library, as real paths ending in a separator."""
    names = ("stdlib", "platstdlib")
    paths = [sysconfig.get_path(name) for name in names]
    return tuple({os.path.realpath(path).rstrip(os.sep) + os.sep for path in paths if path})


def is_cell(path: str) -> bool:
    """Whether it is the code of a cell that this process has run."""
    return CELL.match(path) is not None and path in linecache.cache


@functools.cache
def is_user_file(path: str) -> bool:
    """Whether frames of this file count as the user's: see `NOT_USER`, and not generated, nor the worker."""
    if is_cell(path):
        return True
    if path.startswith("<") or "torchinductor_" in path or not path.endswith((".py", ".pyw")):
        return False
    real = os.path.realpath(path)
    if is_worker_file(path):
        return False
    if not os.path.isfile(real):
        return False
    parts = real.split(os.sep)
    below = next((parts[i + 1 :] for i in range(len(parts) - 2, -1, -1) if parts[i] in SITE_FOLDERS), None)
    if below is not None:
        return below[0].removesuffix(".py") not in NOT_USER
    if any(real.startswith(root) for root in _package_roots()):
        return False
    return not any(real.startswith(root) for root in _code_roots())


@functools.cache
def is_worker_file(path: str) -> bool:
    """Whether the file is tcready's own."""
    real = os.path.realpath(path)
    return _worker_root() in (path, real) or real.startswith(_worker_root() + os.sep)


@functools.cache
def _worker_root() -> str:
    """The bundle this runs from (`bundle/tcready/dynamic/worker/frames.py`), or the folder of the installed package."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    bundle = os.path.dirname(package)
    return bundle if os.path.isfile(bundle) else package


@functools.cache
def _package_roots() -> tuple[str, ...]:
    """Where torch itself lies when it is no site-packages (a source build)."""
    import torch

    folder = os.path.dirname(os.path.realpath(torch.__file__))
    return (folder + os.sep, os.path.join(os.path.dirname(folder), "torchgen") + os.sep)


@dataclass
class Names:
    """How files and frames are spelled, and which user files were named so far."""

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
        """`Model.forward`; for code that stands in no definition the plain name."""
        found = enclosing(path, line)
        return found.symbol if found else plain_name(name) or "<module>"

    def frame(self, path: str, line: int, name: str) -> Frame:
        symbol = self.symbol(path, line, name) if is_user_file(path) else plain_name(name)
        return Frame(self.path(path), line, symbol)


def plain_name(name: str) -> str:
    """The function's own name, for a part of it that Dynamo made to resume after a break."""
    return name.removeprefix(RESUME).rsplit("_at_", 1)[0] if name.startswith(RESUME) else name


def line_sets(lines: Iterable[tuple[str, int]], names: Names) -> tuple[LineSet, ...]:
    """User lines only, as ascending ranges by file."""
    by_file: dict[str, set[int]] = {}
    for path, line in lines:
        if line > 0 and is_user_file(path):
            by_file.setdefault(path, set()).add(line)
    shown = sorted((names.path(path), found) for path, found in by_file.items())
    return tuple(LineSet(path, ranges(found)) for path, found in shown)


def ranges(lines: Iterable[int]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for line in sorted(lines):
        if found and found[-1][1] == line - 1:
            found[-1] = (found[-1][0], line)
        else:
            found.append((line, line))
    return tuple(found)
