"""Dispatch uses of a tensor's truth value: the rewrites of the branch that depends on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from tcready.fixes.rewriters.branches import choosing_expression, choosing_statement
from tcready.fixes.rewriters.conditions import owner_of, python_first
from tcready.fixes.rewriters.guards import rewrite_assert, rewrite_raise
from tcready.fixes.rewriters.masked import ORDINARY, rewrite_guarded
from tcready.fixes.rewriters.messages import message_branch
from tcready.fixes.rewriters.rewrites import Decline, Ways, attempt
from tcready.fixes.rewriters.statements import block_of, else_of
from tcready.fixes.rewriters.truths import rewrite_while
from tcready.static.diagnostics.rule import Declined, Rewrite

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located


LEAVES_LOOP = (
    "The `if` ends in `{}`, and a graph cannot leave a loop or skip an iteration depending on a tensor. Leave the loop "
    "in eager mode and compile the function that does one iteration, as is usual for decoding. Or run all iterations and "
    "keep the old values with `done = done | test` and `torch.where(done, old, new)`."
)


def _exit_of_loop(place: Located, branch: cst.If) -> str | None:
    """Return the keyword if a branch in a loop ends in `break` or `continue`, or returns from within the loop."""
    node: cst.CSTNode | None = branch
    while node is not None and not isinstance(node, (cst.For, cst.While, cst.FunctionDef)):
        node = place.piece.parents.get(node)
    if not isinstance(node, (cst.For, cst.While)):
        return None
    last = [side[-1] for side in (block_of(branch.body), else_of(branch)) if side]
    return next(
        (
            type(part).__name__.lower()
            for statement in last
            if isinstance(statement, cst.SimpleStatementLine)
            for part in statement.body
            if isinstance(part, (cst.Break, cst.Continue, cst.Return))
        ),
        None,
    )


def written_anew(place: Located) -> Ways:
    """Return the rewrites of the statement or expression with this test or operand; nothing if there is none."""
    owner = owner_of(place)
    if isinstance(owner, cst.IfExp):
        yield from choosing_expression(place)
    elif isinstance(owner, cst.Assert):
        yield from rewrite_assert(place)
    elif isinstance(owner, cst.While):
        yield from rewrite_while(place)
    elif isinstance(owner, cst.If):
        alone = [*attempt(rewrite_raise(place))] or [*message_branch(place, owner)]
        if alone:
            yield from alone
            return
        if keyword := _exit_of_loop(place, owner):
            raise Decline(LEAVES_LOOP.format(keyword))
        found = [*attempt(rewrite_guarded(place)), *attempt(choosing_statement(place)), *python_first(owner)]
        yield from (each for each in found if isinstance(each, Rewrite))
        declined = [each for each in found if isinstance(each, Declined) and each.reason != ORDINARY]
        # of two reasons for one rewrite the first is the more specific
        first = {each.rewrite: each for each in reversed(declined) if each.rewrite}
        yield from dict.fromkeys(each for each in declined if each is first.get(each.rewrite, each))
