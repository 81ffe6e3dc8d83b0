"""Find the owner of the code in a file from its path."""

from __future__ import annotations

NOT_USER = frozenset({"torch", "functorch", "torchgen", "numpy", "scipy", "sympy", "pandas", "mpmath", "sklearn"})
"""Packages with frames that are never a site."""
SITE_FOLDERS = ("site-packages", "dist-packages")


def slashed(path: str) -> str:
    """Return a path with forward slashes, for a path of any machine."""
    return path.replace("\\", "/")


def within_site(path: str) -> str | None:
    """Return the part of a path below a site-packages folder, with forward slashes; None elsewhere."""
    parts = slashed(path).split("/")
    for index in range(len(parts) - 2, -1, -1):
        if parts[index] in SITE_FOLDERS:
            return "/".join(parts[index + 1 :])
    return None


def below_site(path: str) -> str | None:
    """Return the package, or the single module, that contains a path below a site-packages folder; None elsewhere."""
    inside = within_site(path)
    return None if inside is None else inside.split("/")[0].removesuffix(".py")
