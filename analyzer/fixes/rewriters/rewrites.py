"""Changes that several rules suggest, on libcst's concrete tree. Imported only on demand."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import libcst as cst
from tcready.static.diagnostics.cst_view import names_in, torch_in
from tcready.static.diagnostics.rule import Change, Declined, Rewrite

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located
    from tcready.static.diagnostics.rule import Rule

Ways = Iterator[Rewrite | Declined]
NO_TORCH = Declined("The name `torch` is assigned to something else here. Rename that, or import torch.")


class Decline(Exception):  # noqa: N818  not an error
    """Ends a rewriter: the code stays as it is, for the reason given."""

    def __init__(self, reason: str | Declined, rewrite: str = "") -> None:
        super().__init__(reason)
        self.declined = Declined(reason, rewrite=rewrite) if isinstance(reason, str) else reason


def attempt(ways: Ways) -> Ways:
    """Yield what a rewriter yields, and last why it declined if it did."""
    try:
        yield from ways
    except Decline as reason:
        yield reason.declined


def rewrites_of(rule: Rule, place: Located) -> Ways:
    """Yield what the rule's rewriters yield for `place`, which may be any expression."""
    for rewriter in rule.rewriters:
        module, _, function = rewriter.partition(".")
        yield from attempt(getattr(importlib.import_module(f"{__package__}.{module}"), function)(place))


def is_compiling(torch: str) -> cst.BaseExpression:
    """Return the test whether the code is being compiled; `torch` is the file's name for torch."""
    return cst.parse_expression(f"{torch}.compiler.is_compiling()")


def where_compiled(torch: str, compiled: Sequence[cst.BaseStatement], eager: cst.BaseStatement) -> cst.If:
    """Return the statements for compiled code, with the code as it was for any other."""
    old = cst.Else(body=cst.IndentedBlock([eager.with_changes(leading_lines=())]))
    return cst.If(test=is_compiling(torch), body=cst.IndentedBlock(compiled), orelse=old)


def first_or_others(first: Ways, *others: Ways) -> Ways:
    """Yield what the first rewriter yields, or else what all others yield."""
    found = [*attempt(first)]
    yield from found or chain.from_iterable(map(attempt, others))


def torch_name(place: Located) -> tuple[str, tuple[str, ...]] | None:
    """Return the file's name for torch, and the import that it lacks; None if the name means something else around
    the place."""
    found = place.source.derive(torch_in)
    name, needed = (found, ()) if found else ("torch", ("import torch",))
    bound = place.piece.bound if found else place.source.derive(names_in)
    return None if name in bound else (name, needed)


def torch_of(place: Located) -> tuple[str, tuple[str, ...]]:
    """Return the same. Raises Decline if the name means something else."""
    found = torch_name(place)
    if found is None:
        raise Decline(NO_TORCH)
    return found


def expression(code: str, **parts: cst.BaseExpression) -> cst.BaseExpression:
    """Parse an expression with some names replaced by other expressions: `expression("a > 0", a=node)`.

    Replacements get parentheses if needed.
    """
    made = cst.parse_expression(code).visit(_Fill(parts))
    assert isinstance(made, cst.BaseExpression)
    return made


def joined(torch: str, word: str, parts: Iterable[cst.BaseExpression]) -> cst.BaseExpression:
    """Return tensors joined by `torch.logical_and` or `logical_or`; the only one if there is one."""
    return functools.reduce(lambda a, b: expression(f"{torch}.logical_{word}(a, b)", a=a, b=b), parts)


class _Fill(cst.CSTTransformer):
    def __init__(self, parts: dict[str, cst.BaseExpression]) -> None:
        super().__init__()
        self.parts = parts

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:  # noqa: N802
        part = self.parts.get(original_node.value)
        return updated_node if part is None else in_parentheses(part)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:  # noqa: N802
        # an argument is between commas: it needs no parentheses of its own
        return updated_node.with_changes(value=bare(updated_node.value), keyword=original_node.keyword)

    def leave_Attribute(  # noqa: N802
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.Attribute:
        return updated_node.with_changes(attr=original_node.attr)


TIGHT = (
    cst.Name,
    cst.Attribute,
    cst.Call,
    cst.Subscript,
    cst.Integer,
    cst.Float,
    cst.SimpleString,
    cst.FormattedString,
    cst.List,
    cst.Dict,
    cst.Set,
)
"""Nodes that need no parentheses beside any operator."""


def in_parentheses(value: cst.BaseExpression) -> cst.BaseExpression:
    """Return it in parentheses, unless it needs none beside any operator."""
    if value.lpar or isinstance(value, TIGHT):
        return value
    return value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def bare(value: cst.BaseExpression) -> cst.BaseExpression:
    """Return it without the parentheses that its old place needed; a tuple keeps its own."""
    if isinstance(value, (cst.Tuple, cst.GeneratorExp, cst.NamedExpr)) or len(value.lpar) != 1:
        return value
    return value.with_changes(lpar=(), rpar=())


def in_place_of(place: Located, branch: cst.If, new: tuple[cst.BaseStatement, ...]) -> Change:
    """Return statements in place of an `if`; for an `elif`, below an `else` of its `if`."""
    top = place.piece.parents.get(branch)
    if not isinstance(top, cst.If):
        return Change((branch,), new)
    body = new or (cst.SimpleStatementLine([cst.Pass()]),)
    inner: cst.BaseStatement | cst.Else = cst.Else(body=cst.IndentedBlock(body=body))
    only = body[0] if len(body) == 1 else None
    if isinstance(only, cst.If):
        inner = only  # stays an `elif`
    while True:
        whole = top.with_changes(orelse=inner)
        above = place.piece.parents.get(top)
        if not isinstance(above, cst.If) or above.orelse is not top:
            return Change((top,), (whole,))
        top, inner = above, whole


def line_of(statement: cst.BaseSmallStatement) -> cst.SimpleStatementLine:
    return cst.SimpleStatementLine(body=[statement])
