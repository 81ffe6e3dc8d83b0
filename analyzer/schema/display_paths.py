"""The display path of a file, its origin, and its content."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from tcready.schema.enums import Origin


def display_path(path: str, root: str) -> str:
    """Return the name of a file in every output, with forward slashes.

    Below a site-packages (or dist-packages): the path below it. Else relative to `root` if it is inside. Else absolute.
    Both are compared as real paths.
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
    """Return True if the file `path` is below a site-packages (or dist-packages)."""
    real = os.path.realpath(path).replace(os.sep, "/")
    return "/site-packages/" in real or "/dist-packages/" in real


SOURCE_FOLDER = "src"
"""The folder for packages that must be installed to be imported (src layout)."""
PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")


def import_name(path: str | os.PathLike[str]) -> tuple[str, Path]:
    """Return the dotted name by which a file is imported, and the folder that must be on the path for it.

    Packages are detected by the `__init__.py`s above the file; below the `src` of a project the folders down to these
    are namespace packages.
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
    """Return the folder `src` of a project, if it contains packages and is not one itself."""
    folder = os.path.join(root, SOURCE_FOLDER)
    is_package = os.path.isfile(os.path.join(folder, "__init__.py"))
    return (folder,) if os.path.isdir(folder) and not is_package else ()


def origin_of(path: str, root: str, packages: tuple[str, ...] = ()) -> Origin:
    """Return the origin of the file `path`.

    `own` below `root` and not below a site-packages; below a site-packages only if the first segment there is one of
    `packages` (the distribution that a target `pkg.mod::X` names). Such a package is `own` elsewhere too, because an
    editable install may be anywhere.
    """
    shown = display_path(path, root)
    if is_installed(path):
        return "own" if shown.split("/")[0].removesuffix(".py") in packages else "third_party"
    if not os.path.isabs(shown):
        return "own"
    return "own" if packages and import_name(Path(path))[0].split(".")[0] in packages else "third_party"


def contents(path: str | os.PathLike[str], largest: int | None = None) -> tuple[bytes, os.stat_result]:
    """Return the content of a file, and its status when it was opened.

    Raises OSError; also for a pipe or a device, which may never answer, and for a file of more than `largest` bytes.
    """
    with open(path, "rb", opener=_at_once) as file:
        opened = os.fstat(file.fileno())
        if not stat.S_ISREG(opened.st_mode):
            raise OSError(errno.EINVAL, "Not a regular file")
        if largest is not None and opened.st_size > largest:
            raise OSError(errno.EFBIG, "File too large")
        return file.read(), opened


def _at_once(path: str, flags: int) -> int:
    """Open a pipe without waiting for its writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
