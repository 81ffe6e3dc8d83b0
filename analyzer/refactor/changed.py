"""What a change of a file changes: functions, branch tests that it takes away, and where each line went."""

from __future__ import annotations

import ast
import bisect
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from tcready.schema import FunctionPlace, Span
from tcready.static.source import Source, lines_of

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Changed:
    """What differs between two texts of one file."""

    functions: tuple[FunctionPlace, ...]
    """Functions, those inside others left out, whose code is not the same in both."""
    tests: tuple[Span, ...]
    """Tests of the first text that decide on a branch there, and that the function has no longer."""
    gone: tuple[Span, ...] = ()
    """Statements of the first text that its functions have no longer, or elsewhere."""
    written: tuple[Span, ...] = ()
    """Those of the second text that are new in them."""
    turned: tuple[Span, ...] = ()
    """Tests of the first text whose operands the function has in another order: they are true in the same cases."""


def changed(path: str, before: Source, after: Source) -> Changed:
    """What the second text of the file `path`, absolute, no longer has as the first had it."""
    later = dict(_functions(after.tree))
    functions: list[FunctionPlace] = []
    tests: list[Span] = []
    gone: list[Span] = []
    written: list[Span] = []
    turned: list[Span] = []
    for name, function in _functions(before.tree):
        other = later.get(name)
        if other is not None and ast.dump(other) == ast.dump(function):
            continue
        functions.append(FunctionPlace(path, name))
        kept = Counter(map(_asked, _tests(other))) if other is not None else Counter()
        as_they_were = {_written(each) for each in _tests(other)} if other is not None else set()
        for each in _tests(function):
            if kept[_asked(each)]:
                kept[_asked(each)] -= 1
                if _written(each) not in as_they_were:
                    turned.append(_span(path, before, each[0]))
            else:
                tests.append(_span(path, before, each[0]))
        one = [*_statements(function)]
        two = [] if other is None else [*_statements(other)]
        same = SequenceMatcher(None, [*map(_written, one)], [*map(_written, two)], autojunk=False)
        for tag, i1, i2, j1, j2 in same.get_opcodes():
            if tag != "equal":
                gone += [_span(path, before, each) for each, _ in one[i1:i2]]
                written += [_span(path, after, each) for each, _ in two[j1:j2]]
    return Changed(tuple(functions), tuple(tests), tuple(gone), tuple(written), tuple(turned))


def _written(found: tuple[ast.AST, bool]) -> str:
    return f"{found[1]} {ast.dump(found[0])}"


def _asked(found: tuple[ast.expr, bool]) -> str:
    """The same text for tests that are true in the same cases: the order of operands without effects tells nothing."""
    test, by_compiling = found
    if not isinstance(test, ast.BoolOp) or not all(map(_is_without_effect, ast.walk(test))):
        return _written(found)
    return f"{by_compiling} {type(test.op).__name__} {sorted(_operands(test, type(test.op)))}"


def _operands(node: ast.expr, kind: type[ast.boolop]) -> Iterator[str]:
    """What `and`, or `or`, joins, each as it is written."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, kind):
        for each in node.values:
            yield from _operands(each, kind)
    else:
        yield ast.dump(node)


_QUESTIONS = frozenset(
    "callable hasattr isinstance issubclass dim is_complex is_floating_point numel is_compiling is_dynamo_compiling "
    "is_scripting is_tracing".split()
)
"""Functions and methods that only answer."""


def _is_without_effect(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2] in _QUESTIONS
    return not isinstance(node, (ast.Await, ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Subscript))


_WITHOUT_CODE = (ast.Pass, ast.Global, ast.Nonlocal, ast.Break, ast.Continue)


def _statements(node: ast.AST, by_compiling: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """The simple statements of a function, those of functions inside it left out, and whether each is run depending on
    whether code is being compiled."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*_FUNCTIONS, ast.ClassDef, ast.expr, *_WITHOUT_CODE)):
            continue
        if hasattr(child, "body"):
            yield from _statements(child, by_compiling or _asks_compiling(child))
        elif isinstance(child, ast.stmt) and not _is_text(child):
            yield child, by_compiling


def _asks_compiling(node: ast.AST) -> bool:
    test = getattr(node, "test", None)
    return test is not None and "is_compiling" in ast.dump(test)


def _is_text(statement: ast.stmt) -> bool:
    """Whether nothing is run for it: a text that stands alone, an annotation."""
    alone = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return alone or (isinstance(statement, ast.AnnAssign) and statement.value is None)


def _functions(tree: ast.AST, around: str = "") -> Iterator[tuple[str, ast.AST]]:
    """The functions of a module and of its classes, by qualified name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _FUNCTIONS):
            yield around + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{around}{node.name}.")
        elif isinstance(node, ast.stmt):
            yield from _functions(node, around)


def _tests(node: ast.AST, by_compiling: bool = False) -> Iterator[tuple[ast.expr, bool]]:
    """The branch tests in a function, and whether each is asked depending on whether code is being compiled: of such a
    one the other side is compared in compiled code alone."""
    if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)):
        yield node.test, by_compiling
        by_compiling = by_compiling or _asks_compiling(node)
    elif isinstance(node, ast.comprehension):
        yield from ((each, by_compiling) for each in node.ifs)
    for child in ast.iter_child_nodes(node):
        yield from _tests(child, by_compiling)


def _span(path: str, source: Source, node: ast.expr | ast.stmt) -> Span:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return Span(
        path,
        node.lineno,
        source.column(node.lineno, node.col_offset),
        node.end_lineno,
        source.column(node.end_lineno, node.end_col_offset),
    )


class LineMap:
    """Where each line of one text stands in another."""

    def __init__(self, before: str, after: str) -> None:
        blocks = SequenceMatcher(None, lines_of(before), lines_of(after), autojunk=False).get_opcodes()
        self._blocks = [(i1, i2, j1, j2, tag == "equal") for tag, i1, i2, j1, j2 in blocks]
        self._starts = [block[2] for block in self._blocks]

    def came_from(self, line: int) -> int | None:
        """The line (1-based) of the first text that is this one of the second; None if it was written anew."""
        at = bisect.bisect_right(self._starts, line - 1) - 1
        # an empty block starts where the next one does
        begin, _, first, last, same = self._blocks[at]
        return begin + line - first if same and first < line <= last else None
