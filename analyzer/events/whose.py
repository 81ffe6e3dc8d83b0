"""Decide from its path whether a file is the user's, a library's or torch's."""

from __future__ import annotations

NOT_USER = frozenset(
    {"torch", "functorch", "torchgen", "numpy", "scipy", "sympy", "pandas", "mpmath", "sklearn"}
)
"""Packages whose frames are never a site."""
SITE_FOLDERS = ("site-packages", "dist-packages")


def slashed(path: str) -> str:
    """A path with forward slashes, whatever the machine that it is of."""
    return path.replace("\\", "/")


def within_site(path: str) -> str | None:
    """What of a path stands below a site-packages folder, with forward slashes; None elsewhere."""
    parts = slashed(path).split("/")
    for index in range(len(parts) - 2, -1, -1):
        if parts[index] in SITE_FOLDERS:
            return "/".join(parts[index + 1 :])
    return None


def below_site(path: str) -> str | None:
    """The package, or the module alone, that a path below a site-packages folder belongs to; None elsewhere."""
    inside = within_site(path)
    return None if inside is None else inside.split("/")[0].removesuffix(".py")
