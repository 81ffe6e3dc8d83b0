"""Finds the source of a dotted module name without importing anything.

`importlib.util.find_spec` would import parents; this walks path segments, `.pth` files and the mappings of
editable installs.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from tcready.schema.display_paths import source_folders

OPAQUE = frozenset(
    "torch functorch torchgen packaging numpy scipy sympy pandas mpmath sklearn triton einops einx "
    "hypothesis networkx onnx onnxruntime tabulate tensorflow tensorrt tqdm tree tvm xarray".split()
)
"""Packages that are never read: their effect on Dynamo is known by name, or it never enters them."""


def is_opaque(name: str) -> bool:
    """The standard library or one of OPAQUE."""
    root = name.partition(".")[0]
    return root in OPAQUE or root in sys.stdlib_module_names


def default_search_path(root: Path) -> tuple[Path, ...]:
    """`root` and its `src` first, then this interpreter's path with what its `.pth` files add, in order."""
    found = (path for entry in sys.path if entry and (path := Path(entry)).is_dir())
    return tuple(dict.fromkeys((root, *map(Path, source_folders(root)), *found)))


Additions = tuple[tuple[Path, ...], tuple[tuple[str, Path], ...]]


def additions(folder: Path) -> Additions:
    """Plain folders named by the `.pth` files of `folder`, and the packages its editable finders map."""
    folders: list[Path] = []
    mapping: list[tuple[str, Path]] = []
    for pth in sorted(folder.glob("*.pth")):
        try:
            lines = pth.read_text("utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            line = line.strip()
            if line and not line.startswith(("#", "import ", "import\t")) and (folder / line).is_dir():
                folders.append(folder / line)
    for finder in sorted(folder.glob("__editable__*_finder.py")):
        with contextlib.suppress(OSError):
            mapping += _mapped_packages(finder.read_bytes())
    return tuple(folders), tuple(mapping)


@functools.lru_cache(maxsize=64)
def _mapped_packages(finder: bytes) -> tuple[tuple[str, Path], ...]:
    """Return the packages that an editable finder maps (cached, as repeated readings use the same few)."""
    mapping: list[tuple[str, Path]] = []
    try:
        tree = ast.parse(finder)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    for node in tree.body:
        names = [t.id for t in getattr(node, "targets", [getattr(node, "target", None)]) if isinstance(t, ast.Name)]
        value = getattr(node, "value", None)
        if {"MAPPING", "NAMESPACES"}.intersection(names) and isinstance(value, ast.Dict):
            for key, path in zip(value.keys, value.values, strict=True):
                match key, path:
                    case ast.Constant(value=str(package)), ast.List(elts=elements):
                        mapping += [
                            (package, Path(each.value))
                            for each in elements
                            if isinstance(each, ast.Constant) and isinstance(each.value, str)
                        ]
                    case ast.Constant(value=str(package)), ast.Constant(value=str(folder_name)):
                        mapping.append((package, Path(folder_name)))
    return tuple(mapping)


def find_module(
    name: str,
    search_path: Iterable[Path],
    additions: Callable[[Path], Additions] = additions,
    is_file: Callable[[Path], bool] = Path.is_file,
    has: Callable[[Path, str], bool] = lambda folder, name: (folder / name).exists(),
) -> Path | None:
    """Return the file of module `name` (`__init__.py` for a package), or None.

    A namespace package has no file: None, though its members are found. `additions`, and `has` (whether a folder has
    something of a name), may remember their answers, and `is_file` may know of files that are yet to be saved.
    """
    parts = name.split(".")
    for folder in search_path:
        found = _below(folder, parts, is_file, has)
        if found is not None:
            return found
        if not folder.name.endswith("-packages"):
            continue
        folders, mapping = additions(folder)
        for extra in folders:
            found = _below(extra, parts, is_file, has)
            if found is not None:
                return found
        for prefix, target in mapping:
            below = prefix.split(".")
            if parts[: len(below)] == below:
                left = parts[len(below) :]
                found = _below(target, left, is_file, has) if left else _file(target, is_file)
                if found is not None:
                    return found
    return None


def _below(
    folder: Path, parts: list[str], is_file: Callable[[Path], bool], has: Callable[[Path, str], bool]
) -> Path | None:
    try:
        there = len(parts) == 1 or has(folder, parts[0])
        return _file(folder.joinpath(*parts), is_file) if there else None
    except (OSError, ValueError):  # a name too long for any file, or with a character that none may hold
        return None


def _file(base: Path, is_file: Callable[[Path], bool]) -> Path | None:
    package = base / "__init__.py"
    if is_file(package):
        return package
    module = base.with_name(base.name + ".py")
    if is_file(module):
        return module
    return base if base.suffix == ".py" and is_file(base) else None


def is_native(folder: Path, parts: list[str]) -> bool:
    """Return whether a name below a package's folder is in a compiled extension module."""
    for part in parts:
        if any(found.suffix in (".so", ".pyd") for found in folder.glob(f"{part}.*")):
            return True
        folder /= part
        if not folder.is_dir():
            return False
    return False
