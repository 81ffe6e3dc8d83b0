"""The imports of a module, by its text: nothing is parsed, and nothing imported."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

# What a line may be tried against grows with its length alone: a text may be anything.
_START = rb"(?:^|[:;])[ \t]*"
_FROM = re.compile(_START + rb"from\b([^\n#;()'\"]*?)\bimport\b[ \t]*(\((?:[^()#]|#[^\n]*)*\)|[^\n#;()]*)", re.M)
_IMPORT = re.compile(_START + rb"import\b([^\n#;()'\"]+)", re.M)
_BY_TEXT = re.compile(rb"\b(?:import_module|__import__)\([ \t\n]*[\"']([\w.]+)[\"']")
_COMMENT = re.compile(rb"#[^\n]*")
_LISTING = re.compile(rb"\b(?:iter_modules|walk_packages|listdir|scandir|i?glob)\b")


def with_packages(name: str) -> Iterator[str]:
    """Yield the packages of a dotted name, which are imported first, then the name."""
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def imports_in(text: bytes, package: str, is_package: Callable[[str], bool]) -> Iterator[str]:
    """Return the dotted names that a module of a package may import, anywhere: of `from x import y` also `x.y`, if `x` is
    a package."""
    text = text.replace(b"\\\r\n", b" ").replace(b"\\\n", b" ")
    for modules in _IMPORT.findall(text):
        for each in modules.split(b","):
            yield from with_packages(_strip_blanks(each.partition(b" as ")[0]))
    for name in _BY_TEXT.findall(text):
        yield from with_packages(_strip_blanks(name).lstrip("."))
    above = package.split(".")
    for module, names in _FROM.findall(text):
        base = _strip_blanks(module)
        dots = len(base) - len(base.lstrip("."))
        if dots > len(above):
            continue
        start = ".".join(above[: len(above) - dots + 1]) if dots else ""
        whole = ".".join(filter(None, (start, base.lstrip("."))))
        yield from with_packages(whole)
        if is_package(whole):
            for each in re.findall(r"\w+", _COMMENT.sub(b"", names).decode("utf-8", "replace")):
                if not each[0].isupper():  # a class, as a rule
                    yield f"{whole}.{each}"


def _strip_blanks(written: bytes) -> str:
    """Return a name without blanks."""
    return "".join(written.decode("utf-8", "replace").split())


def imports_its_files(text: bytes) -> bool:
    """Return whether a package iterates over its folder and imports what it finds."""
    return b"import_module" in text and _LISTING.search(text) is not None
