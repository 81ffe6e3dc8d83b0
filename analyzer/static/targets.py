"""What the user names, parted into units: each file, and each name in a file or module, is judged by itself.

What is told of a unit does not depend on the units beside it, so that it can be worked out in any process and
kept in the cache.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tcready.schema import TcreadyError, display_path
from tcready.static.patterns import is_excluded, matches

IGNORED_FOLDERS = frozenset(
    {"__pycache__", "node_modules", "build", "dist", "site-packages", "venv", "env", "__pypackages__"}
)


@dataclass(frozen=True)
class Unit:
    """One file, or one name in a file or module."""

    target: str
    """How it is called in every output."""
    path: Path | None
    """The file; None for `pkg.mod::Name`."""
    name: str | None
    """The class, object or function; None for every nn.Module of the file."""
    folder: Path | None = None
    """The folder that was named, where the file was found in one: all below it is the user's own."""

    @property
    def place(self) -> str:
        """The dotted module of `pkg.mod::Name`."""
        return self.target.partition("::")[0]


def units(targets: Sequence[str], root: Path, exclude: Sequence[str] = ()) -> list[Unit]:
    """What `targets` name, in their order; a folder's files by name, without those that `exclude` matches.

    Raises TcreadyError for a target that does not exist, and a glob that cannot be read.
    """
    for pattern in exclude:
        matches(pattern, root, root)
    return list(dict.fromkeys(unit for target in targets for unit in _units(target, root, exclude)))


def is_wanted(target: str, root: Path, exclude: Sequence[str]) -> bool:
    """Whether a target that was named outright is not a file or folder that `exclude` matches."""
    place = Path(os.path.realpath(root / target.partition("::")[0]))
    return is_dotted(target) or not is_excluded(place, exclude, root)


def is_dotted(target: str) -> bool:
    """`pkg.mod::Name`, as opposed to a path."""
    place, _, name = target.partition("::")
    return bool(name) and "/" not in place and "\\" not in place and not place.endswith(".py")


def holds(folder: Path, path: Path) -> bool:
    """Whether a file lies below a folder the user named, in no part of it that is not read."""
    if not path.is_relative_to(folder):
        return False
    return not any(_is_ignored(part) for part in path.relative_to(folder).parts[:-1])


def _is_ignored(name: str) -> bool:
    return name in IGNORED_FOLDERS or name.startswith(".") or name.endswith(".egg-info")


def _units(target: str, root: Path, exclude: Sequence[str]) -> Iterator[Unit]:
    place, _, name = target.partition("::")
    if not place:
        raise TcreadyError(f"{target!r} is no target: name a file, a folder, path.py::Name or pkg.mod::Name")
    if is_dotted(target):
        yield Unit(target, None, name)
        return
    path = Path(place) if Path(place).is_absolute() else Path(os.path.realpath(root / place))
    if path.is_dir():
        if name:
            raise TcreadyError(f"{target}: {place} is a folder; name the file that holds {name}")
        for file in _python_files(path, root, exclude):
            yield Unit(display_path(str(file), str(root)), file, None, path)
    elif not path.exists():
        raise TcreadyError(f"{place}: no such file or folder")
    else:
        yield Unit(target, path, name or None)


def _python_files(folder: Path, root: Path, exclude: Sequence[str]) -> Iterator[Path]:
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
        elif path.suffix == ".py":
            yield path


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False
