"""Remove absolute paths and names of home folders from a report that leaves the machine."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote

from tcready.portable.target import Target
from tcready.schema.enums import Speaker
from tcready.schema.report import Report
from tcready.schema.static import Evidence

if TYPE_CHECKING:
    from tcready.schema.comparison import Comparison

R = TypeVar("R", Report, "Comparison")

_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]|\\\\")
_ENDS = r"\s'\"<>`"
_ADDRESS = rf"(?P<address>(?<![A-Za-z])(?!file:)[A-Za-z][A-Za-z0-9+.-]*://[^{_ENDS}]*)"
_HOMES = re.compile(
    rf"{_ADDRESS}|(?:/(?:home|Users)/[^/\\:,;){_ENDS}]+|(?<![\w./)\]-])/root(?![\w.-])"
    rf"|[A-Za-z]:[\\/]Users[\\/][^/\\:,;){_ENDS}]+)(?:[\\/](?=[,;){_ENDS}]|$))?"
)
"""Patterns of home folders anywhere in a path; the name of one is that of a person."""
_IN_PROSE = re.compile(
    rf"{_ADDRESS}|(?:file://|(?<![\w:/.\\<)\]~]))"
    rf"(?:(?:[A-Za-z]:|~)?/(?:[^/:{_ENDS}]+/)+|~/|(?:[A-Za-z]:|\\|~)\\(?:[^\\:{_ENDS}]+\\)*)(?=[^\s/\\])"
)
"""Pattern of folders in front of a file's name, but not of an address of a page."""
_VERBATIM = frozenset({"text", "new_text", "summary", "why", "instead", "before", "after", "commit", "link"})
"""Fields shown unchanged: a source's text, a rule's page, and the address of a commit."""
_CODE = frozenset({"diff", "code", "cure", "rollback", "production", "quoted code"})
"""Fields with code, where a slash divides."""
_SPOKEN: Mapping[Speaker, str] = MappingProxyType({"static": "quoted code", "dynamo": "evidence"})
"""Fields with quotes of the source by the static pass."""


def in_address(path: str, safe: str = "/") -> str:
    """Return a path for an address. A lone surrogate is a byte that is not text, in Python's form for file names; in
    a report from elsewhere it may be anything."""
    try:
        return quote(path, safe, errors="surrogateescape")
    except UnicodeEncodeError:
        return quote(path, safe, errors="surrogatepass")


def is_absolute(path: str) -> bool:
    """Return True for an absolute path on any kind of machine: the report may come from another one."""
    return _ABSOLUTE.match(path) is not None


def file_name(path: str) -> str:
    """Return the name of the file for an absolute path; a relative one unchanged."""
    return re.split(r"[\\/]", path.rstrip("\\/"))[-1] if is_absolute(path) else path


def without_absolute_paths(report: R) -> R:
    """Return `report` with each absolute path replaced by its file name, everywhere except in source texts.

    Two files of one name are numbered. Paths in prose that the report does not list (those of a traceback) lose their
    folders too.
    """
    names = _names(report)
    longest_first = sorted(names, key=lambda path: (-len(path), path))

    def shorten(text: str, key: str) -> str:
        if key in _VERBATIM:
            return text
        for path in longest_first:
            if path in text:
                text = text.replace(path, names[path])
        if key in _CODE:
            return text
        return _IN_PROSE.sub(_but_addresses(""), _HOMES.sub(_but_addresses("~"), text))

    return cast(R, _each_string(report, shorten))


def outside(report: Report) -> frozenset[str]:
    """Return the names that `without_absolute_paths` gives to files that are not below the working folder."""
    return frozenset(_names(report).values())


def _names(report: Report | Comparison) -> dict[str, str]:
    """Return each absolute path with its replacement."""
    found = sorted(set(paths_in(report)))
    taken = {path for path in found if not is_absolute(path)}
    names: dict[str, str] = {}
    for path in found:
        if is_absolute(path):
            names[path] = _free_name(file_name(path), taken)
            taken.add(names[path])
    return names


def _but_addresses(instead: str) -> Callable[[re.Match[str]], str]:
    return lambda found: found["address"] or instead


def _free_name(name: str, taken: set[str]) -> str:
    free, count = name, 1
    while free in taken:
        count += 1
        free = f"{name} ({count})"
    return free


def paths_in(value: Any) -> Iterator[str]:
    """Yield every value of a field `path`, and the file part of every target's name."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from paths_in(item)
        return
    fields: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    if dataclasses.is_dataclass(value):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    for name, item in fields.items():
        if not isinstance(item, str):
            yield from paths_in(item)
        elif name == "path":
            yield item
        elif name == "target":
            yield Target.place_in(item)


def _each_string(value: Any, change: Callable[[str, str], str], key: str = "") -> Any:
    """Return `value` with each text changed; `change` gets the name of its field, or its key."""
    if isinstance(value, str):
        return change(value, key)
    if isinstance(value, Evidence):
        return dataclasses.replace(value, text=change(value.text, _SPOKEN[value.speaker]))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        changed = {name: _each_string(item, change, name) for name, item in fields.items()}
        return dataclasses.replace(value, **{k: v for k, v in changed.items() if v is not fields[k]})
    if isinstance(value, (tuple, list)):
        return type(value)(_each_string(item, change, key) for item in value)
    if isinstance(value, Mapping):
        return {change(name, ""): _each_string(item, change, name) for name, item in value.items()}
    return value
