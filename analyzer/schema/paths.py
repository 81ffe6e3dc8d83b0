"""How a file is named in every output, and whose code it is."""

from __future__ import annotations

import os

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


def origin_of(path: str, root: str, packages: tuple[str, ...] = ()) -> Origin:
    """Whose code the file `path` is.

    `own` below `root` and not below a site-packages; below a site-packages only if the first segment
    there is one of `packages` (the distribution a target `pkg.mod::X` asked for).
    """
    shown = display_path(path, root)
    if is_installed(path):
        return "own" if shown.split("/")[0].removesuffix(".py") in packages else "third_party"
    return "own" if not os.path.isabs(shown) else "third_party"
