"""The suggested change of a rule as a unified diff against the file as it stands."""

from __future__ import annotations

import difflib
import re

import libcst as cst
from tcready.static.concrete import Located
from tcready.static.rule import Rule

CONTEXT = 2
"""Unchanged lines shown on either side."""


def suggest(path: str, rule: Rule, place: Located) -> str | None:
    """The diff that rewrites `place` as `rule` would, or None where the rule cannot.

    Only the statement around the place is written anew, so that the cost does not grow with the file; what
    does not parse after the change is no suggestion. `path` is how the file is named in the diff's header.
    """
    change = rule.rewrite(place) if rule.rewrite is not None else None
    if change is None:
        return None
    old, new = change
    statement = place.piece.statement_of(old)
    changed = new if old is statement else statement.deep_replace(old, new)
    assert isinstance(changed, cst.BaseStatement)
    first, last = place.piece.lines(statement)
    lines = place.source.lines[:-1] if not place.source.lines[-1] else place.source.lines
    indent = re.match(r"\s*", lines[first - 1])
    written = _written(changed, indent[0] if indent else "", place.piece.tree.default_indent)
    if written is None:
        return None
    start, end = max(first - 1 - CONTEXT, 0), last + CONTEXT
    before = lines[start:end]
    after = [*lines[start : first - 1], *written, *lines[last:end]]
    name = path.lstrip("/")
    diff = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", lineterm="", n=CONTEXT)
    return "".join(f"{_moved(line, start)}\n" for line in diff)


def _written(statement: cst.BaseStatement, indent: str, step: str) -> list[str] | None:
    """The lines of a statement at `indent`, without the comments above it; None where they do not parse."""
    bare = statement.with_changes(leading_lines=())
    block = cst.IndentedBlock(body=[bare], indent=indent or step)
    code = cst.Module(body=[cst.If(test=cst.Name("x"), body=block)], default_indent=step).code
    try:
        cst.parse_module(code)
    except cst.ParserSyntaxError:
        return None
    lines = code.removesuffix("\n").split("\n")[1:]
    return lines if indent else [line.removeprefix(step) for line in lines]


def _moved(line: str, start: int) -> str:
    """A hunk's header with its line numbers counted from the file's beginning."""
    match = re.match(r"@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@", line)
    if match is None:
        return line
    old, new = int(match[1]) + start, int(match[3]) + start
    return f"@@ -{old}{match[2] or ''} +{new}{match[4] or ''} @@"
