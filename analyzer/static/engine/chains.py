"""Interpret `match` as a chain of `if`, `elif` and `else`: a case is reached if no case above it matches."""

from __future__ import annotations

import ast
from typing import Any


class Fits(ast.expr):
    """Whether a subject, of which the value is kept as a variable `key`, fits a pattern."""

    _fields = ("subject", "key", "pattern")
    subject: ast.expr
    key: str
    pattern: ast.pattern

    def __init__(self, subject: ast.expr, key: str, pattern: ast.pattern) -> None:
        fields: dict[str, Any] = {"subject": subject, "key": key, "pattern": pattern}
        super().__init__(**fields)


def subject_key(node: ast.Match) -> str:
    """The variable that keeps the subject of a match statement, by a name that no code can have."""
    return f"match {node.lineno}:{node.col_offset}"


def chain_of(node: ast.Match) -> list[ast.stmt]:
    """The statements that a match statement stands for once its subject is kept."""
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
    name, kept = ast.Name(pattern.name, ast.Store()), ast.Name(key, ast.Load())
    return [ast.fix_missing_locations(ast.copy_location(ast.Assign([name], kept), pattern))]


def values_test(test: Fits) -> ast.expr | None:
    """`subject == value` or `subject in (...)` where a pattern asks for values alone; None for any other."""
    pattern = test.pattern
    if isinstance(pattern, ast.MatchOr):
        values = [each.value for each in pattern.patterns if isinstance(each, ast.MatchValue)]
        if len(values) < len(pattern.patterns):
            return None
        asked = ast.Compare(test.subject, [ast.In()], [ast.Tuple(values, ast.Load())])
    elif isinstance(pattern, ast.MatchValue):
        asked = ast.Compare(test.subject, [ast.Eq()], [pattern.value])
    elif isinstance(pattern, ast.MatchSingleton):
        asked = ast.Compare(test.subject, [ast.Is()], [ast.Constant(pattern.value)])
    else:
        return None
    return ast.fix_missing_locations(ast.copy_location(asked, pattern))


def written(test: ast.expr) -> str:
    """The text of a test; of a case, as it would be asked, or as it stands there."""
    guard = ""
    if isinstance(test, ast.BoolOp) and isinstance(test.values[0], Fits):
        guard, test = ast.unparse(test.values[1]), test.values[0]
    if not isinstance(test, Fits):
        return ast.unparse(test)
    asked = values_test(test)
    if asked is not None:
        return ast.unparse(asked) + (f" and {guard}" if guard else "")
    text = f"match {ast.unparse(test.subject)}: case {ast.unparse(test.pattern)}"
    return text + (f" if {guard}" if guard else "")
