"""Interpret `match` as a chain of `if`, `elif` and `else`: a case is reached if no case above it matches."""

from __future__ import annotations

import ast
from typing import Any


class Fits(ast.expr):
    """A test of whether a subject, stored in the variable `key`, fits a pattern."""

    _fields = ("subject", "key", "pattern")
    subject: ast.expr
    key: str
    pattern: ast.pattern

    def __init__(self, subject: ast.expr, key: str, pattern: ast.pattern) -> None:
        fields: dict[str, Any] = {"subject": subject, "key": key, "pattern": pattern}
        super().__init__(**fields)


def subject_key(node: ast.Match) -> str:
    """Return the variable that keeps the subject of a match statement, by a name that no code can have."""
    return f"match {node.lineno}:{node.col_offset}"


def chain_of(node: ast.Match) -> list[ast.stmt]:
    """Return the `if` chain equivalent to a match statement with a stored subject."""
    key = subject_key(node)
    chain: list[ast.stmt] = []
    for case in reversed(node.cases):
        pattern, guard = case.pattern, case.guard
        if guard is None and isinstance(pattern, ast.MatchAs) and pattern.pattern is None:
            chain = [*_capture(pattern, key), *case.body]
            continue
        test: ast.expr = ast.copy_location(Fits(node.subject, key, pattern), pattern)
        if guard is not None:
            test = ast.copy_location(ast.BoolOp(ast.And(), [test, guard]), pattern)
        chain = [ast.copy_location(ast.If(test, case.body, chain), pattern)]
    return chain


def _capture(pattern: ast.MatchAs, key: str) -> list[ast.stmt]:
    """`case name`."""
    if pattern.name is None:
        return []
    name, subject = ast.Name(pattern.name, ast.Store()), ast.Name(key, ast.Load())
    return [ast.fix_missing_locations(ast.copy_location(ast.Assign([name], subject), pattern))]


def values_test(test: Fits) -> ast.expr | None:
    """`subject == value` or `subject in (...)` where a pattern asks for values alone; None for any other."""
    pattern = test.pattern
    if isinstance(pattern, ast.MatchOr):
        values = [each.value for each in pattern.patterns if isinstance(each, ast.MatchValue)]
        if len(values) < len(pattern.patterns):
            return None
        comparison = ast.Compare(test.subject, [ast.In()], [ast.Tuple(values, ast.Load())])
    elif isinstance(pattern, ast.MatchValue):
        comparison = ast.Compare(test.subject, [ast.Eq()], [pattern.value])
    elif isinstance(pattern, ast.MatchSingleton):
        comparison = ast.Compare(test.subject, [ast.Is()], [ast.Constant(pattern.value)])
    else:
        return None
    return ast.fix_missing_locations(ast.copy_location(comparison, pattern))


def test_text(test: ast.expr) -> str:
    """Return the text of a test; for a case, that of the equivalent comparison, or its own."""
    guard = ""
    if isinstance(test, ast.BoolOp) and isinstance(test.values[0], Fits):
        guard, test = ast.unparse(test.values[1]), test.values[0]
    if not isinstance(test, Fits):
        return ast.unparse(test)
    comparison = values_test(test)
    if comparison is not None:
        return ast.unparse(comparison) + (f" and {guard}" if guard else "")
    text = f"match {ast.unparse(test.subject)}: case {ast.unparse(test.pattern)}"
    return text + (f" if {guard}" if guard else "")
