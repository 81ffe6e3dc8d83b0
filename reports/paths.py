"""Shorten absolute paths in reports to the file name, without the name of a home folder."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote

from tcready.schema.report import Report
from tcready.schema.static import Evidence
from tcready.schema.words import Speaker
from tcready.target import Target

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
"""Where people's own folders stand, whatever stands before; the name of one is a person's."""
_IN_PROSE = re.compile(
    rf"{_ADDRESS}|(?:file://|(?<![\w:/.\\<)\]~]))"
    rf"(?:(?:[A-Za-z]:|~)?/(?:[^/:{_ENDS}]+/)+|~/|(?:[A-Za-z]:|\\|~)\\(?:[^\\:{_ENDS}]+\\)*)(?=[^\s/\\])"
)
"""Folders in front of a file's name. The address of a page is neither."""
_VERBATIM = frozenset({"text", "new_text", "summary", "why", "instead", "before", "after", "commit", "link"})
"""A source's text and a rule's page are shown as they were written, and the address of a commit is one."""
_CODE = frozenset({"diff", "code", "cure", "rollback", "production", "quoted code"})
"""Where a slash divides."""
_SPOKEN: Mapping[Speaker, str] = MappingProxyType({"static": "quoted code", "dynamo": "evidence"})
"""The static pass quotes the source."""


def in_address(path: str, safe: str = "/") -> str:
    """A path as it stands in an address. A lone surrogate is a byte that is no text, as Python reads names of files; in a
    report that comes from elsewhere it may be anything."""
    try:
        return quote(path, safe, errors="surrogateescape")
    except UnicodeEncodeError:
        return quote(path, safe, errors="surrogatepass")


def is_absolute(path: str) -> bool:
    """On either kind of machine: the report may come from another one."""
    return _ABSOLUTE.match(path) is not None


def file_name(path: str) -> str:
    """Of an absolute path the file's name alone; a relative one as it is."""
    return re.split(r"[\\/]", path.rstrip("\\/"))[-1] if is_absolute(path) else path


def without_absolute_paths(report: R) -> R:
    """`report` with each absolute path replaced by its file name, wherever it stands but in source texts.

    Two files of one name are told apart by a number. Paths in prose that the report does not list (those of
    a traceback) lose their folders too.
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
    """The names that `without_absolute_paths` gives to files that are not below the working folder."""
    return frozenset(_names(report).values())


def _names(report: Report | Comparison) -> dict[str, str]:
    """Each absolute path with the name that stands for it."""
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
    """Every value of a field `path`, and the file part of every target's name."""
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
    """`value` with each text changed; `change` is told the name of the field, or the key, that it stands under."""
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
