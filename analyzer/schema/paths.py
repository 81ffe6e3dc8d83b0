"""The name of a file in every output, the owner of its code, and its contents."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from tcready.schema.words import Origin


def display_path(path: str, root: str) -> str:
    """How a file is named in every output, with forward slashes.

    Below a site-packages (or dist-packages): the path below it. Else relative to `root` if it lies
    inside. Else absolute. Both are compared as real paths.
    """
    real, base = os.path.realpath(path), os.path.realpath(root)
    parts = real.replace(os.sep, "/").split("/")
    for index in range(len(parts) - 2, -1, -1):
        if parts[index] in ("site-packages", "dist-packages"):
            return "/".join(parts[index + 1 :])
    if real == base or real.startswith(base.rstrip(os.sep) + os.sep):
        return os.path.relpath(real, base).replace(os.sep, "/")
    return "/".join(parts)


def is_installed(path: str) -> bool:
    """Whether the file `path` lies below a site-packages (or dist-packages)."""
    real = os.path.realpath(path).replace(os.sep, "/")
    return "/site-packages/" in real or "/dist-packages/" in real


SOURCE_FOLDER = "src"
"""The folder that packages stand in which are not installed from where they stand."""


PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")


def import_name(path: str | os.PathLike[str]) -> tuple[str, Path]:
    """The dotted name that a file is imported by, and the folder that must be on the path for it.

    Packages are told by the `__init__.py`s above the file; below the `src` of a project the folders down to these are
    namespace packages.
    """
    real = Path(os.path.realpath(path))
    parts = [] if real.stem == "__init__" else [real.stem]
    folder = real.parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        parts.insert(0, folder.name)
        folder = folder.parent
    for above in (folder, *folder.parents):
        if above.name == SOURCE_FOLDER and any((above.parent / name).is_file() for name in PROJECT_FILES):
            return ".".join([*folder.relative_to(above).parts, *parts]) or real.parent.name, above
        if not above.name.isidentifier():
            break
    return ".".join(parts) or real.parent.name, folder


def source_folders(root: str | os.PathLike[str]) -> tuple[str, ...]:
    """The folder `src` of a project, if it holds packages and is none."""
    folder = os.path.join(root, SOURCE_FOLDER)
    is_package = os.path.isfile(os.path.join(folder, "__init__.py"))
    return (folder,) if os.path.isdir(folder) and not is_package else ()


def origin_of(path: str, root: str, packages: tuple[str, ...] = ()) -> Origin:
    """Whose code the file `path` is.

    `own` below `root` and not below a site-packages; below a site-packages only if the first segment
    there is one of `packages` (the distribution a target `pkg.mod::X` asked for). Elsewhere too that package is his
    own: an editable install stands anywhere.
    """
    shown = display_path(path, root)
    if is_installed(path):
        return "own" if shown.split("/")[0].removesuffix(".py") in packages else "third_party"
    if not os.path.isabs(shown):
        return "own"
    return "own" if packages and import_name(Path(path))[0].split(".")[0] in packages else "third_party"


def contents(path: str | os.PathLike[str], largest: int | None = None) -> tuple[bytes, os.stat_result]:
    """What a file holds, and how it was when it was opened.

    Raises OSError; of a pipe or a device too, which may never answer, and of a file of more than `largest` bytes.
    """
    with open(path, "rb", opener=_at_once) as file:
        opened = os.fstat(file.fileno())
        if not stat.S_ISREG(opened.st_mode):
            raise OSError(errno.EINVAL, "Not a regular file")
        if largest is not None and opened.st_size > largest:
            raise OSError(errno.EFBIG, "File too large")
        return file.read(), opened


def _at_once(path: str, flags: int) -> int:
    """Opens a pipe without waiting for who writes to it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
