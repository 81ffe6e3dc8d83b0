"""Targets split into units: each file, and each name in a file or module, is judged by itself.

The result of a unit does not depend on other units, so that any process can compute it, and the cache can store it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from tcready.portable.target import NOTEBOOK, Target
from tcready.schema.display_paths import display_path
from tcready.schema.enums import TcreadyError
from tcready.schema.value_class import dataclass
from tcready.static.diagnostics import suggestions
from tcready.static.frontend.globs import is_excluded, matches

IGNORED_FOLDERS = frozenset(
    {"__pycache__", "node_modules", "build", "dist", "site-packages", "venv", "env", "__pypackages__"}
)


@dataclass(frozen=True)
class Unit:
    """One file, or one name in a file or module."""

    target: str
    """Its name in every output."""
    path: Path | None
    """The file; None for `pkg.mod::Name`."""
    name: str | None
    """The class, object or function; None for every nn.Module of the file."""
    folder: Path | None = None
    """The folder that was named, if the file was found in one: all below it is the user's own."""
    module: str = ""
    """The dotted module of `pkg.mod::Name`."""


def units(
    targets: Sequence[str], root: Path, exclude: Sequence[str] = (), unsaved: Collection[Path] = ()
) -> list[Unit]:
    """Return the units of `targets`, in their order; a folder's files by name, without those that `exclude` matches.
    Files that are `unsaved` need not exist.

    Raises TcreadyError for a target that does not exist, and a glob that cannot be read.
    """
    for pattern in exclude:
        matches(pattern, root, root)
    return list(dict.fromkeys(unit for target in targets for unit in _units(target, root, exclude, unsaved)))


def is_wanted(target: str, root: Path, exclude: Sequence[str]) -> bool:
    """Return whether a target that was named outright is not a file or folder that `exclude` matches."""
    named = Target.parse(target)
    place = Path(os.path.realpath(root / named.place))
    return named.kind == "module" or not is_excluded(place, exclude, root)


def holds(folder: Path, path: Path) -> bool:
    """Return whether a file is below a folder the user named, in no ignored part of it."""
    if not path.is_relative_to(folder):
        return False
    return not any(_is_ignored(part) for part in path.relative_to(folder).parts[:-1])


def _is_ignored(name: str) -> bool:
    return name in IGNORED_FOLDERS or name.startswith(".") or name.endswith(".egg-info")


def _units(text: str, root: Path, exclude: Sequence[str], unsaved: Collection[Path]) -> Iterator[Unit]:
    target = Target.parse(text)
    if target.kind == "module":
        yield Unit(text, None, target.name, module=target.place)
        return
    place = Path(target.place)
    path = place if place.is_absolute() else Path(os.path.realpath(root / place))
    if _is_folder(path):
        if target.name:
            raise TcreadyError(f"{text}: {target.place} is a folder; name the file that holds {target.name}")
        for file in _python_files(path, root, exclude):
            if file.is_symlink() and _leads_out_of_all(file, path, root):
                continue
            yield Unit(display_path(str(file), str(root)), file, None, path)
    elif not _exists(path) and Path(os.path.realpath(path)) not in unsaved:
        raise TcreadyError(f"{target.place}: no such file or folder{suggestions.for_place(text, target.place, root)}")
    else:
        yield Unit(text, path, target.name)


def links_out(targets: Sequence[str], root: Path, exclude: Sequence[str] = ()) -> Iterator[Path]:
    """Yield the unread links to Python files in folders that `targets` name: they lead to somebody else's code."""
    for text in targets:
        place = Path(os.path.realpath(root / Target.parse(text).place))
        if Target.parse(text).kind != "module" and _is_folder(place):
            for file in _python_files(place, root, exclude):
                if file.is_symlink() and _leads_out_of_all(file, place, root):
                    yield file


def _leads_out_of_all(path: Path, folder: Path, root: Path) -> bool:
    """Return whether a link ends in a file that is neither below the named folder nor below the root."""
    return leads_out(path, Path(os.path.realpath(folder))) and leads_out(path, Path(os.path.realpath(root)))


def _python_files(folder: Path, root: Path, exclude: Sequence[str]) -> Iterator[Path]:
    """Yield the files below a folder, and links to files."""
    try:
        inside = sorted(folder.iterdir())
    except OSError:  # a folder that may not be read holds nothing of ours
        return
    for path in inside:
        if any(matches(pattern, path, root) for pattern in exclude):
            continue
        if _is_folder(path):
            if not _is_ignored(path.name) and not path.is_symlink():
                yield from _python_files(path, root, exclude)
        elif path.suffix in (".py", NOTEBOOK):
            yield path


def leads_out(path: Path, top: Path) -> bool:
    """Return whether a link ends outside of a folder, at an existing file."""
    end = Path(os.path.realpath(path))
    return _exists(end) and not end.is_relative_to(top)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that is too long, or below a folder that may not be read
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False
