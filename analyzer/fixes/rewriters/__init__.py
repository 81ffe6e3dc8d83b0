"""Rewriters: how each kind of hazard is rewritten, on libcst's tree.

Rules name them as text, because a check that shows no fix imports neither libcst nor a rewriter.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located
    from tcready.static.diagnostics.rule import Declined, Rewrite, Rule


def rewrites_of(rule: Rule, place: Located) -> Iterator[Rewrite | Declined]:
    """Yield what the rule's rewriters yield for `place`, which may be any expression."""
    for rewriter in rule.rewriters:
        module, _, function = rewriter.partition(".")
        yield from getattr(importlib.import_module(f"{__name__}.{module}"), function)(place)
