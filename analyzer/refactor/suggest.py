"""The suggested change of a rule as a unified diff against the file as it stands."""

from __future__ import annotations

import difflib

import libcst as cst
from tcready.static.concrete import Located
from tcready.static.rule import Rule


def suggest(path: str, rule: Rule, place: Located) -> str | None:
    """The diff that rewrites `place` as `rule` would, or None where the rule cannot.

    Lines outside the change are kept to the letter; `path` is how the file is named in the diff's header. What
    does not parse after the change is no suggestion.
    """
    if rule.rewrite is None:
        return None
    change = rule.rewrite(place)
    if change is None:
        return None
    old, new = change
    piece = place.piece
    changed = piece.tree.deep_replace(old, new)
    assert isinstance(changed, cst.Module)
    try:
        cst.parse_module(changed.code)
    except cst.ParserSyntaxError:
        return None
    before = place.source.lines
    after = [*before[: piece.first - 1], *changed.code.removesuffix("\n").split("\n"), *before[piece.last :]]
    name = path.lstrip("/")
    lines = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", lineterm="", n=2)
    return "\n".join(lines) + "\n"
