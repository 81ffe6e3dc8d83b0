"""What a module imports, read off its text: nothing is parsed, and nothing imported."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+(\.*)[ \t]*([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n#;]*)|import[ \t]+([^\n#;]+))",
    re.M,
)
_LISTING = re.compile(rb"\b(?:iter_modules|walk_packages|listdir|scandir|i?glob)\b")


def with_packages(name: str) -> Iterator[str]:
    """A dotted name behind those of the packages that are imported before it."""
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def imports_in(text: bytes, package: str, is_package: Callable[[str], bool]) -> Iterator[str]:
    """The dotted names that a module of a package may import, wherever that stands: of `from x import y` also `x.y`, if
    `x` is a package."""
    for dots, base, names, modules in _IMPORT.findall(text):
        if modules:
            for each in modules.decode("utf-8", "replace").split(","):
                yield from with_packages(each.split()[0] if each.split() else "")
            continue
        above = package.split(".")
        if len(dots) > len(above):
            continue
        start = ".".join(above[: len(above) - len(dots) + 1]) if dots else ""
        whole = ".".join(filter(None, (start, base.decode("utf-8", "replace"))))
        yield from with_packages(whole)
        if is_package(whole):
            for each in re.findall(r"\w+", names.decode("utf-8", "replace")):
                if not each[0].isupper():  # a class, as a rule
                    yield f"{whole}.{each}"


def imports_its_files(text: bytes) -> bool:
    """Whether a package goes through its folder and imports what it finds."""
    return b"import_module" in text and _LISTING.search(text) is not None
