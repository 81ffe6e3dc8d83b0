"""Whatever asks a tensor for its truth: the ways to write the branch anew that the answer decides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst
from tcready.rules._branches import choosing_expression, choosing_statement
from tcready.rules._conditions import owner_of, python_first
from tcready.rules._guards import asserting, raising
from tcready.rules._masked import unguarded
from tcready.rules._messages import message_branch
from tcready.rules._truths import looping
from tcready.static.rule import Declined, Rewrite

if TYPE_CHECKING:
    from tcready.static.concrete import Located


def written_anew(place: Located) -> Iterator[Rewrite | Declined]:
    """The rewrites of the statement or expression whose test this is, or is an operand of; nothing if it is none."""
    owner = owner_of(place)
    if isinstance(owner, cst.IfExp):
        yield from choosing_expression(place)
    elif isinstance(owner, cst.Assert):
        yield from asserting(place)
    elif isinstance(owner, cst.While):
        yield from looping(place)
    elif isinstance(owner, cst.If):
        alone = [*raising(place)] or [*message_branch(place, owner)]
        if alone:
            yield from alone
            return
        found = [*unguarded(place), *choosing_statement(place), *python_first(owner)]
        yield from (each for each in found if isinstance(each, Rewrite))
        reasons = dict.fromkeys(each.reason for each in found if isinstance(each, Declined))
        reasons.pop("it is an ordinary branch", None)
        yield from map(Declined, reasons)
