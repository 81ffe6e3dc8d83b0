"""Decide whether two texts of a function do the same by the rules of Python alone, so that no call has to show it."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from typing import TypeVar

_Tree = TypeVar("_Tree", bound=ast.AST)
_READ_NAMES = frozenset({"locals", "vars", "dir", "eval", "exec"})
"""Builtins that can see the names of local variables."""
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.Eq, ast.NotEq: ast.NotEq, ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE,
}  # fmt: skip
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


def with_constants_on_the_right(tree: _Tree) -> _Tree:
    """Return a tree in which comparisons such as `0 < x` read `x > 0`: a constant leaves the answer to the other
    operand."""
    if not any(isinstance(each, ast.Compare) and _is_constant(each.left) for each in ast.walk(tree)):
        return tree
    mirrored: _Tree = _Mirrored().visit(copy.deepcopy(tree))
    return mirrored


def mirror(node: ast.Compare) -> ast.Compare | None:
    """Return a comparison with its operands exchanged, or None if it is a chain or asks for identity or membership."""
    if len(node.ops) != 1 or (operator := _MIRRORED.get(type(node.ops[0]))) is None:
        return None
    return ast.copy_location(ast.Compare(node.comparators[0], [operator()], [node.left]), node)


class _Mirrored(ast.NodeTransformer):
    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        is_turned = _is_constant(node.left) and not _is_constant(node.comparators[0])
        return (mirror(node) if is_turned else None) or node


def _is_constant(node: ast.expr) -> bool:
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(map(_is_constant, node.elts))
    return isinstance(node, ast.Constant)


def canonical_text(function: ast.AST) -> str:
    """Return the same text for functions that differ only in the names of local variables, in how a condition is negated,
    and in which branch of an `if` comes first. `==` and `!=` are not taken as opposites: a class may define both."""
    tree = _Conditions().visit(copy.deepcopy(function))
    return ast.dump(_Renamed(_local_names(tree)).visit(tree))


class _Conditions(ast.NodeTransformer):
    """Moves each `not` of a condition to its operands, and orders the branches of an `if` that has two."""

    def visit_If(self, node: ast.If) -> ast.AST:
        node.body = [self.visit(each) for each in node.body]
        node.orelse = [self.visit(each) for each in node.orelse]
        node.test, is_negated = self._oriented(node.test, has_both=bool(node.orelse))
        if is_negated:
            node.body, node.orelse = node.orelse, node.body
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        node.test, is_negated = self._oriented(node.test, has_both=True)
        if is_negated:
            node.body, node.orelse = node.orelse, node.body
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        node.test = self._test(node.test)
        node.body = [self.visit(each) for each in node.body]
        node.orelse = [self.visit(each) for each in node.orelse]
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if not isinstance(node.op, ast.Not):
            return self.generic_visit(node)
        node.operand = self._test(node.operand)
        return node

    def _oriented(self, test: ast.expr, *, has_both: bool) -> tuple[ast.expr, bool]:
        """Return a test, or its negation if that comes first in the order of their texts."""
        changed = self._test(copy.deepcopy(test))
        if not has_both:
            return changed, False
        negated = self._negated(test)
        return (negated, True) if ast.dump(negated) < ast.dump(changed) else (changed, False)

    def _test(self, node: ast.expr) -> ast.expr:
        """Return an expression that is true in the same cases. Its value may be another one."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self._negated(node.operand)
        if isinstance(node, ast.BoolOp):
            return _joined(type(node.op), node.values, self._test)
        tested: ast.expr = self.visit(node)
        return tested

    def _negated(self, node: ast.expr) -> ast.expr:
        """Return an expression that is true in the opposite cases and evaluates the same operands in the same order."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self._test(node.operand)
        if isinstance(node, ast.BoolOp):
            return _joined(ast.Or if isinstance(node.op, ast.And) else ast.And, node.values, self._negated)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPPOSITE:
            compared = self.generic_visit(node)
            assert isinstance(compared, ast.Compare)
            compared.ops = [_OPPOSITE[type(node.ops[0])]()]
            return compared
        return ast.UnaryOp(ast.Not(), self.visit(node))


def _joined(operator: type[ast.boolop], values: list[ast.expr], change: Callable[[ast.expr], ast.expr]) -> ast.BoolOp:
    """Return the changed operands under one `and` or `or`, those of a nested one of the same kind among them."""
    operands: list[ast.expr] = []
    for each in map(change, values):
        nested = isinstance(each, ast.BoolOp) and isinstance(each.op, operator)
        operands += each.values if nested and isinstance(each, ast.BoolOp) else [each]
    return ast.BoolOp(operator(), operands)


def _local_names(function: ast.AST) -> frozenset[str]:
    """Return the names of variables that nothing but the function itself sees: none if it has functions in it, or looks
    at names. What is bound by a parameter, a comprehension, an import, `except` or `global` keeps its name."""
    stored: set[str] = set()
    outer = {name.id for each in _evaluated_outside(function) for name in ast.walk(each) if isinstance(name, ast.Name)}
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            if node.id in _READ_NAMES:
                return frozenset()
            if isinstance(node.ctx, ast.Store):
                stored.add(node.id)
        elif node is not function and isinstance(
            node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Match)
        ):
            return frozenset()
        elif isinstance(node, ast.comprehension):  # outside it the name may be that of a global
            outer |= {each.id for each in ast.walk(node.target) if isinstance(each, ast.Name)}
        elif isinstance(node, ast.arg):
            outer.add(node.arg)
        elif isinstance(node, ast.alias):
            outer.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name is not None:
            outer.add(node.name)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            outer.update(node.names)
    return frozenset(stored - outer)


def _evaluated_outside(function: ast.AST) -> list[ast.AST]:
    """Return the decorators, defaults and annotations of a function: names in them are not its own."""
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return []
    taken = function.args
    every = [*taken.posonlyargs, *taken.args, *taken.kwonlyargs, taken.vararg, taken.kwarg]
    annotations = [function.returns, *(each.annotation for each in every if each is not None)]
    found = [*function.decorator_list, *taken.defaults, *taken.kw_defaults, *annotations]
    return [each for each in found if each is not None]


class _Renamed(ast.NodeTransformer):
    """Numbers local variables in the order in which they appear."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._numbers: dict[str, int] = {}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self._names:
            return node
        number = self._numbers.setdefault(node.id, len(self._numbers))
        return ast.Name(f"<local {number}>", node.ctx)
