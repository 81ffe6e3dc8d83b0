"""Record branch coverage: the compiled tree has additional calls that record the values of tests and the executed
statements, on the lines of the source."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from tcready.schema.enums import lines_of
from tcready.schema.proof import SidesTaken, Span

PROBE = "__tcready_side__"
"""The name of the built-in that records the value of a test."""
REACHED = "__tcready_reached__"
"""The name of the built-in that records that a statement is executed."""
LINKED = "__tcready_linked__"
"""The name of the built-in by which an operand of a chain of comparisons records that the links before it were true."""
NUMBER = "__tcready_number__"
"""The name of the built-in that records the value of a name or an attribute in a changed statement or test."""
FEW, SMALL = 2, 64
"""The first values of a tensor are recorded as numbers, if it has at most that many."""
CHAIN = "__tcready_chain__"
"""The name of the built-in that records that such a chain is evaluated."""
_Place = tuple[int, int, int, int]


def marked(tree: ast.Module, text: str, tests: Mapping[Span, int], runs: Mapping[Span, int]) -> ast.Module:
    """Return the tree of one file with each test, by number, inside a call, and a call before each statement."""
    places = ({_place(span): number for span, number in each.items()} for each in (tests, runs))
    made: ast.Module = _Marks(lines_of(text), *places).visit(tree)
    return ast.fix_missing_locations(made)


def _place(span: Span) -> _Place:
    return span.line, span.column, span.end_line, span.end_column


class _Marks(ast.NodeTransformer):
    def __init__(self, lines: Sequence[str], tests: dict[_Place, int], runs: dict[_Place, int]) -> None:
        self.lines, self.tests, self.runs = lines, tests, runs
        self.headers: set[int] = set()
        self.depth = 0
        """The number of changed statements and tests around the current node."""

    def _column(self, line: int, offset: int) -> int:
        text = self.lines[line - 1]
        return offset + 1 if text.isascii() else len(text.encode()[:offset].decode(errors="ignore")) + 1

    def _place_of(self, first: ast.expr | ast.stmt, last: ast.expr | ast.stmt) -> _Place:
        assert last.end_lineno is not None
        assert last.end_col_offset is not None
        return (
            first.lineno,
            self._column(first.lineno, first.col_offset),
            last.end_lineno,
            self._column(last.end_lineno, last.end_col_offset),
        )

    def visit(self, node: ast.AST) -> Any:
        """Return the node with marks in it; a statement as a list, if a mark precedes it."""
        if isinstance(node, ast.JoinedStr):
            return node  # before Python 3.12 nodes in it have no columns of their own
        if isinstance(node, ast.stmt):
            number = self.runs.get(self._place_of(node, node))
            if isinstance(node, ast.For):  # if the header of a loop changes, the body records that it is run
                self.headers.add(id(node.iter))
            found = self._visited(node, changed=number is not None and not hasattr(node, "body"))
            if number is None:
                return found
            return [ast.copy_location(ast.Expr(_call(REACHED, node, number)), node), found]
        if not isinstance(node, ast.expr):
            return self.generic_visit(node)
        place = self._place_of(node, node)
        links = self._links(node) if isinstance(node, ast.Compare) else {}
        made: Any = self._visited(node, changed=place in self.tests or id(node) in self.headers)
        if isinstance(made, ast.Call):
            made.func = _without_note(made.func)  # a function is no number
        for position, number in links.items():
            made.comparators[position] = _evaluate_after(_call(LINKED, node, number), made.comparators[position])
        if links:
            numbers = ast.Tuple([_number(each, node) for each in links.values()], ast.Load())
            made = _call(CHAIN, node, numbers, made)
        if place in self.tests:
            made = _call(PROBE, node, self.tests[place], made)
        if place in self.runs:
            made = _evaluate_after(_call(REACHED, node, self.runs[place]), made)
        if self.depth and isinstance(node, (ast.Name, ast.Attribute, ast.BinOp, ast.Subscript)):
            is_read = isinstance(getattr(node, "ctx", None) or ast.Load(), ast.Load)
            made = _call(NUMBER, node, made) if is_read else made
        return made

    def _visited(self, node: ast.AST, *, changed: bool) -> Any:
        self.depth += changed
        made = self.generic_visit(node)
        self.depth -= changed
        return made

    def _links(self, node: ast.Compare) -> dict[int, int]:
        """Return the numbers of the first links, by the operand after them."""
        places = {at + 1: self._place_of(node, each) for at, each in enumerate(node.comparators[:-1])}
        return {position: self.tests[place] for position, place in places.items() if place in self.tests}


def _without_note(node: ast.expr) -> ast.expr:
    is_noted = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == NUMBER
    return node.args[0] if is_noted and isinstance(node, ast.Call) else node


def _number(number: int, at: ast.AST) -> ast.expr:
    return ast.copy_location(ast.Constant(number), at)


def _call(name: str, at: ast.AST, *arguments: int | ast.expr) -> ast.expr:
    args = [_number(each, at) if isinstance(each, int) else each for each in arguments]
    return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), args, []), at)


def _evaluate_after(first: ast.expr, value: ast.expr) -> ast.expr:
    """Return an expression that evaluates `first` and then has the value of another."""
    both = ast.Tuple([first, value], ast.Load())
    return ast.copy_location(ast.Subscript(both, ast.Constant(1), ast.Load()), value)


@dataclass
class BranchCoverage:
    """Counts how often each test was true and false, and records which statements were executed."""

    tests: tuple[Span, ...]
    runs: tuple[Span, ...] = ()
    alone: bool = False
    """True if functions are being called alone."""
    counts: dict[tuple[int, bool, bool], int] = field(default_factory=dict)
    pending: list[tuple[int, bool, bool]] = field(default_factory=list)
    """Tests seen in the current call."""
    reached: set[int] = field(default_factory=set)
    running: set[int] = field(default_factory=set)
    """Statements that the current call executed."""
    linked: set[int] = field(default_factory=set)
    """Links of the current chain that were true."""
    numbers: dict[float, None] = field(default_factory=dict)
    """Numbers that are values in changed statements and tests."""
    strings: dict[str, None] = field(default_factory=dict)
    """Strings that are such values, and strings in containers that are."""

    def __enter__(self) -> BranchCoverage:
        for name, function in self._functions().items():
            setattr(builtins, name, function)
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._functions():
            delattr(builtins, name)

    def _functions(self) -> dict[str, Any]:
        return {
            PROBE: self._note,
            REACHED: self.running.add,
            LINKED: self._link,
            CHAIN: self._chain,
            NUMBER: self._number,
        }

    def marked(self, sources: Mapping[str, str], path: str, tree: ast.Module) -> ast.Module:
        """Return the marked tree of the file at `path`, one of these sources."""
        tests, runs = (_numbered(each, path) for each in (self.tests, self.runs))
        return marked(tree, sources[path], tests, runs)

    def _note(self, number: int, value: Any) -> Any:
        try:
            taken = bool(value)
        except Exception:
            return value  # the test itself raises it
        self.pending.append((number, taken, self.alone))
        return value

    def _number(self, value: Any) -> Any:
        if type(value) in (int, float):
            self.numbers[float(value)] = None
        elif type(value) is str or isinstance(value, (list, tuple, set, frozenset, dict)):
            texts = [value] if isinstance(value, str) else [*value] if len(value) <= SMALL else []
            self.strings |= dict.fromkeys(each for each in texts if type(each) is str)
        elif type(value) is torch.Tensor and not value.requires_grad and 0 < value.numel() <= SMALL:
            strided = value.layout == torch.strided and not value.is_nested
            if strided and value.dtype != torch.bool and not value.is_complex() and value.device.type != "meta":
                self.numbers |= dict.fromkeys(map(float, value.detach().reshape(-1)[:FEW].tolist()))
        return value

    def _link(self, number: int) -> None:
        self.linked.add(number)
        self.pending.append((number, True, self.alone))

    def _chain(self, numbers: tuple[int, ...], value: Any) -> Any:
        self.pending += [(number, False, self.alone) for number in numbers if number not in self.linked]
        self.linked.difference_update(numbers)
        return value

    def settle(self, *, counts: bool, raised: bool, compared: bool = True) -> None:
        """Finish a call. Its tests are counted only if the call could have distinguished one branch from the other,
        and its statements only if it is `compared`.

        If the call raised, only the last test with its operands counts, because the results of the earlier ones were
        never returned.
        """
        seen = self._last() if raised else self.pending
        for key in seen if counts else ():
            self.counts[key] = self.counts.get(key, 0) + 1
        self.reached |= self.running if compared else set()
        self.running.clear()
        self.pending.clear()
        self.linked.clear()

    def _last(self) -> list[tuple[int, bool, bool]]:
        found: list[tuple[int, bool, bool]] = []
        for key in reversed(self.pending):
            if found and not _is_inside(self.tests[key[0]], self.tests[found[0][0]]):
                break
            found.append(key)
        return found

    def taken(self) -> tuple[SidesTaken, ...]:
        def count(number: int, way: bool, alone: bool) -> int:
            return self.counts.get((number, way, alone), 0)

        return tuple(
            SidesTaken(test, *(count(number, way, alone) for alone in (False, True) for way in (True, False)))
            for number, test in enumerate(self.tests)
        )

    def ways(self) -> frozenset[tuple[int, bool]]:
        """Return every test, with its outcome, that was seen so far."""
        return frozenset((number, way) for number, way, _ in self.counts)

    @property
    def not_run(self) -> tuple[Span, ...]:
        """Return the statements that no call executed."""
        return tuple(each for number, each in enumerate(self.runs) if number not in self.reached)


def _numbered(spans: Iterable[Span], path: str) -> dict[Span, int]:
    return {span: number for number, span in enumerate(spans) if span.path == path}


def _is_inside(one: Span, other: Span) -> bool:
    return (
        one.path == other.path
        and (other.line, other.column) <= (one.line, one.column)
        and (one.end_line, one.end_column) <= (other.end_line, other.end_column)
    )
