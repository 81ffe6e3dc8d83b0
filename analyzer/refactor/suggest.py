"""The suggested change of a rule as edits of the file as it stands."""

from __future__ import annotations

import re

import libcst as cst
from tcready.schema import Edit
from tcready.static.concrete import Located
from tcready.static.rule import Rule


def suggest(path: str, rule: Rule, place: Located) -> tuple[Edit, ...]:
    """The edits that rewrite `place` as `rule` would, none if the rule cannot.

    Only the statement around the place is written anew, so that the cost does not grow with the file; what
    does not parse after the change is no suggestion. `path` is how the file is named in every output.
    """
    change = rule.rewrite(place) if rule.rewrite is not None else None
    if change is None:
        return ()
    old, new = change
    statement = place.piece.statement_of(old)
    changed = new if old is statement else statement.deep_replace(old, new)
    assert isinstance(changed, cst.BaseStatement)
    first, last = place.piece.lines(statement)
    lines = place.source.lines
    indent = re.match(r"\s*", lines[first - 1])
    margin = indent[0] if indent else ""
    written = _written(changed, margin, place.piece.tree.default_indent)
    if written is None:
        return ()
    new_text = place.source.line_end(first).join(written).removeprefix(margin)
    return (Edit(path, first, len(margin) + 1, last, len(lines[last - 1]) + 1, new_text),)


def _written(statement: cst.BaseStatement, indent: str, step: str) -> list[str] | None:
    """The lines of a statement at `indent`, without the comments above it; None if they do not parse."""
    bare = statement.with_changes(leading_lines=())
    block = cst.IndentedBlock(body=[bare], indent=indent or step)
    code = cst.Module(body=[cst.If(test=cst.Name("x"), body=block)], default_indent=step).code
    try:
        cst.parse_module(code)
    except cst.ParserSyntaxError:
        return None
    lines = code.removesuffix("\n").split("\n")[1:]
    return lines if indent else [line.removeprefix(step) for line in lines]
