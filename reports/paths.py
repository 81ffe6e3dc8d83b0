"""What a report that leaves the machine says of absolute paths: the file's name alone, and of nobody's home."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tcready.schema import Report, as_json, from_json

_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]|\\\\")
_NAMED = r"[^\s/\\:'\"<>`,;)]+"
_IN_PROSE = re.compile(
    r"(?:file://|(?<![\w:/.\\<~]))(?:/(?:[^\s/:'\"<>`]+/)+|[A-Za-z]:\\(?:[^\s\\:'\"<>`]+\\)+)(?=[^\s/\\])"
)
_HOMES = re.compile(
    rf"(?<![\w:/.\\<~])(?:/(?:home|Users)/{_NAMED}|/root|[A-Za-z]:\\Users\\{_NAMED})[/\\]?(?=[\s'\"<>`,;)]|$)"
)
"""Where people's own folders stand; the name of one is a person's."""
_VERBATIM = frozenset({"text", "summary", "why", "instead", "before", "after"})
"""A source's text and a rule's page are shown as they were written."""


def is_absolute(path: str) -> bool:
    """On either kind of machine: the report may come from another one."""
    return _ABSOLUTE.match(path) is not None


def without_absolute_paths(report: Report) -> Report:
    """`report` with each absolute path replaced by its file name, wherever it stands but in source texts.

    Two files of one name are told apart by a number. Paths in prose that the report does not list (those of
    a traceback) lose their folders too.
    """
    data = as_json(report)
    found = sorted(set(_paths(data)))
    taken = {path for path in found if not is_absolute(path)}
    names: dict[str, str] = {}
    for path in found:
        if is_absolute(path):
            names[path] = _free_name(re.split(r"[\\/]", path.rstrip("\\/"))[-1], taken)
            taken.add(names[path])
    longest_first = sorted(names, key=lambda path: (-len(path), path))

    def shorten(text: str, key: str) -> str:
        if key in _VERBATIM:
            return text
        for path in longest_first:
            if path in text:
                text = text.replace(path, names[path])
        return text if key in ("diff", "code") else _IN_PROSE.sub("", _HOMES.sub("~", text))

    return from_json(Report, _each_string(data, shorten))


def _free_name(name: str, taken: set[str]) -> str:
    free, count = name, 1
    while free in taken:
        count += 1
        free = f"{name} ({count})"
    return free


def _paths(value: Any) -> Iterator[str]:
    """Every value of a field `path`, and the file part of every target's name."""
    if isinstance(value, list):
        for item in value:
            yield from _paths(item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if isinstance(item, str) and key == "path":
                yield item
            elif isinstance(item, str) and key == "target":
                yield item.partition("::")[0]
            else:
                yield from _paths(item)


def _each_string(value: Any, change: Any, key: str = "") -> Any:
    if isinstance(value, str):
        return change(value, key)
    if isinstance(value, list):
        return [_each_string(item, change, key) for item in value]
    if isinstance(value, Mapping):
        return {change(name, ""): _each_string(item, change, name) for name, item in value.items()}
    return value
