"""Exclude reads of the clock that are only printed, logged or stored from compiled code. Imported only for a
rewrite."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import libcst as cst
from tcready.fixes.rewriters.conditions import walk
from tcready.fixes.rewriters.hidden_effects import hidden_effect
from tcready.fixes.rewriters.messages import CAUGHT, is_message, is_tried, is_without_effect, unknown_call, why_needed
from tcready.fixes.rewriters.module_methods import changes_module
from tcready.fixes.rewriters.numbers import Uses
from tcready.fixes.rewriters.rewrites import Decline, Ways, torch_of
from tcready.fixes.rewriters.statements import assignments, full_name, quote, text, values_given
from tcready.static.diagnostics.cst_view import names_in
from tcready.static.diagnostics.rule import Change, Rewrite

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located
    from tcready.static.frontend.source import Source

CLOCKS = frozenset(
    f"time.{name}{unit}"
    for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time")
    for unit in ("", "_ns")
) | {"datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today"}
OUTSIDE = "Read the clock around the call of the model."
FROM = ("time", "datetime", "logging", "warnings", "pprint")
SYSTEM_QUERY = "A graph cannot query the system. Do that outside, and pass the result to the call."
MISSED = (
    "The time goes into a container or another function, and the values of compiled calls would be missing there. {}"
)


def exclude_timing(place: Located) -> Ways:
    """Put `start = time.time()`, if it is only printed, logged or stored, with everything computed from it, below
    `if not is_compiling():`."""
    known = place.source.derive(_names)
    if not isinstance(place.node, cst.Call) or not _is_clock(place.node, known):
        raise Decline(SYSTEM_QUERY)
    torch = torch_of(place)
    found = _Timing(place, known)
    reason = found.follow(place.node)
    if reason is not None:
        raise Decline(reason)
    found.join_others()
    test = cst.parse_expression(f"not {torch[0]}.compiler.is_compiling()")
    yield Rewrite(
        "The time is read, and reported or stored, in eager mode only: compiled code skips it",
        tuple(_guarded(lines, test) for lines in _in_a_row(place, found.lines)),
        found.unsafe(),
        torch[1],
        silences=True,
    )


def _names(source: Source) -> dict[str, str]:
    """Return the full name of clock modules and clock functions by the file's own name."""
    found: dict[str, str] = {}
    for node in source.nodes:
        if isinstance(node, ast.Import):
            found |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module in FROM:
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return found


def _is_clock(node: cst.CSTNode, known: dict[str, str]) -> bool:
    if not isinstance(node, cst.Call) or any(not isinstance(arg.value, cst.Name) for arg in node.args):
        return False
    first, dot, rest = text(node.func).partition(".")
    return first in known and f"{known[first]}{dot}{rest}" in CLOCKS


def _function(value: ast.expr) -> ast.expr:
    """Return the full name of the called function."""
    return value.func if isinstance(value, ast.Call) else value


def _reads(function: ast.AST, name: str) -> bool:
    return any(
        isinstance(each, ast.Attribute) and each.attr == name and isinstance(each.ctx, ast.Load)
        for each in ast.walk(function)
    )


class _Timing:
    """The statements that use a time."""

    def __init__(self, place: Located, known: dict[str, str]) -> None:
        self.place = place
        self.known = known
        self.uses = Uses(place.piece, "torch")
        self.lines: dict[cst.SimpleStatementLine, None] = {}
        self.names: set[str] = set()
        self.stored = False
        """It is stored beyond the call."""

    def join_others(self) -> None:
        """Include times that are reported in the same lines: one guard for both, not nested ones."""
        clocks = [
            each
            for each in self.place.piece.parents
            if _is_clock(each, self.known) and self.uses.function_of(each) is self.uses.function_of(self.place.node)
        ]
        grows = True
        while grows:
            grows = False
            for each in clocks:
                other = _Timing(self.place, self.known)
                if other.follow(each) is None and other.lines.keys() & self.lines.keys():
                    grows = grows or bool(other.lines.keys() - self.lines.keys())
                    self.lines |= other.lines
                    self.stored = self.stored or other.stored

    def follow(self, node: cst.CSTNode) -> str | None:
        """Return why a value derived from a node is needed in compiled code; None if all its uses are known."""
        inner: cst.CSTNode = node
        while not isinstance(inner, (cst.BaseSmallStatement, cst.BaseCompoundStatement, cst.Lambda)):
            inner = self.place.piece.parents[inner]
        line = self.place.piece.parents.get(inner)
        if not isinstance(inner, cst.BaseSmallStatement) or not isinstance(line, cst.SimpleStatementLine):
            return f"A condition, a loop or an inner function uses the time, so compiled code needs it. {OUTSIDE}"
        if line in self.lines or self._is_guarded(line):
            return None
        if len(line.body) != 1:
            return "Another statement is on the line that uses the time. Put each on a line of its own."
        if any(isinstance(each, (cst.NamedExpr, cst.Await, cst.Yield)) for each in walk(inner)):
            return (
                "The line that uses the time assigns a name within an expression (`:=`). Assign it on a line of "
                "its own."
            )
        for name in ("locals", "vars", "dir", "eval", "exec"):
            if next(self.uses.loads(name), None) is not None:
                return f"The function calls `{name}`, which sees the variable with the time. Remove that call."
        self.lines[line] = None
        call = unknown_call(_without_clocks(inner, self.known))
        if isinstance(inner, cst.Expr) and isinstance(inner.value, cst.Call):
            if not is_message(inner.value):
                return MISSED.format(OUTSIDE)
            if self._is_own(inner.value):
                return f"`{text(inner.value.func)}` is a function of this file, and may do more than print. {OUTSIDE}"
        elif isinstance(inner, (cst.Assign, cst.AugAssign, cst.AnnAssign)) and inner.value is not None:
            if reason := self._assigned(inner):
                return reason
        else:
            return f"The function returns the time, or compiled code uses it. {OUTSIDE}"
        if call is not None:
            return (
                f"{quote(call)} may have a side effect, and compiled code would skip it. Call it on a line of its own."
            )
        return None

    def _is_guarded(self, line: cst.CSTNode) -> bool:
        """Return True if it is excluded from compiled code already."""
        while line in self.place.piece.parents:
            inner, line = line, self.place.piece.parents[line]
            if isinstance(line, cst.If) and line.body is inner:
                test = text(line.test)
                if test.startswith("not ") and test.partition(" and ")[0].endswith("is_compiling()"):
                    return " or " not in test
        return False

    def _assigned(self, statement: cst.Assign | cst.AugAssign | cst.AnnAssign) -> str | None:
        targets = [t.target for t in statement.targets] if isinstance(statement, cst.Assign) else [statement.target]
        for target in targets:
            if isinstance(statement, cst.AugAssign) and not self._is_new(target):
                return (
                    f"The time is added to `{text(target)}`, which may be a tensor or list that other code holds. "
                    "Start with a number."
                )
            if isinstance(target, cst.Attribute) and text(target.value) == "self":
                if not self._is_begun(target.attr.value):
                    return (
                        f"Compiled code would skip the assignment of `{text(target)}`, and `__init__` gives it no "
                        "value. Set it in `__init__`."
                    )
                if self._is_read(target):
                    return f"Compiled code reads `{text(target)}`, and would see an old time. {OUTSIDE}"
                self.stored = True
                continue
            if isinstance(target, cst.Subscript):
                return MISSED.format(OUTSIDE)
            if not isinstance(target, cst.Name) or self._is_shared(target.value):
                return (
                    f"The time is assigned to `{text(target)}`, whose uses tcready does not follow. Use a local "
                    "variable."
                )
            if target.value in self.names:
                continue
            self.names.add(target.value)
            for name in (*self.uses.loads(target.value), *self._given(target.value)):
                if self.uses.function_of(name) is not self.uses.function_of(target):
                    return (
                        f"An inner function uses `{target.value}`, and would have no value in compiled code. Pass "
                        "it as an argument."
                    )
                if reason := self.follow(name):
                    return reason
        return None

    def _is_shared(self, name: str) -> bool:
        """Return True if a name is global, or of an enclosing function."""
        shared = (each for each in self.place.piece.parents if isinstance(each, (cst.Global, cst.Nonlocal)))
        return any(item.name.value == name for each in shared for item in each.names)

    def _is_begun(self, name: str) -> bool:
        """Return True if `__init__` assigns an attribute of self."""
        init = self.place.method("__init__")
        return init is not None and any(
            isinstance(each, ast.Attribute) and each.attr == name and isinstance(each.ctx, ast.Store)
            for each in ast.walk(init[0])
        )

    def _is_new(self, target: cst.BaseExpression) -> bool:
        """Return True if the target of an in-place addition is a number, or made by an operator, according to the
        file."""
        if isinstance(target, cst.Name):
            values = self.uses.values_of(target.value)
            return all(
                isinstance(each, (cst.BaseNumber, cst.BinaryOperation))
                or (each is not None and _is_clock(each, self.known))
                for each in values
            )
        if not isinstance(target, cst.Attribute):
            return True  # an item: it is declined for that
        return all(
            isinstance(each.value, (ast.Constant, ast.BinOp)) or full_name(_function(each.value), self.known) in CLOCKS
            for each in self.place.source.nodes
            if isinstance(each, ast.Assign)
            and any(isinstance(to, ast.Attribute) and to.attr == target.attr.value for to in each.targets)
        )

    def _is_own(self, message: cst.Call) -> bool:
        """Return True if a function is called to which the file gives a name like `print`."""
        name = message.func.value if isinstance(message.func, cst.Name) else None
        if name is None:
            return False
        origin = self.known.get(name)
        return name in self.place.source.derive(names_in) and origin not in ("warnings.warn", "pprint.pprint")

    def _is_logger(self, message: cst.Call) -> bool:
        """Return True if a message is logged through a module of Python, or an object made by `getLogger`, according
        to the file."""
        if not isinstance(message.func, cst.Attribute):
            return True
        owner = text(message.func.value)
        if self.known.get(owner) in ("logging", "warnings", "pprint"):
            return True
        given = [*values_given(self.place.source.derive(assignments), owner)]
        makers = [full_name(each.func, self.known) for each in given if isinstance(each, ast.Call)]
        defined = {each.name for each in self.place.source.tree.body if isinstance(each, ast.FunctionDef)}
        return len(makers) == len(given) > 0 and all(
            maker.rpartition(".")[2] in ("getLogger", "get_logger") and maker not in defined for maker in makers
        )

    def _is_read(self, target: cst.Attribute) -> bool:
        """Return True if an attribute of self is read in a statement that is not part of this."""
        for node, parent in self.place.piece.parents.items():
            if isinstance(node, cst.Attribute) and node.deep_equals(target) and node is not target:
                if isinstance(parent, cst.AssignTarget):
                    continue
                if self.follow(node) is not None:
                    return True
        return any(_reads(each, target.attr.value) for each in self._others())

    def _others(self) -> Iterator[ast.AST]:
        """Return the other functions of the file that it calls itself, by their names: compiled code may run them."""
        nodes = self.place.source.nodes
        called = {
            each.func.attr if isinstance(each.func, ast.Attribute) else getattr(each.func, "id", "")
            for each in nodes
            if isinstance(each, ast.Call)
        }
        line = self.place.piece.lines(self.place.node)[0]
        for each in nodes:
            if not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) or each.name == "__init__":
                continue
            runs = each.name in called or each.name in ("forward", "__call__") or bool(each.decorator_list)
            if runs and not each.lineno <= line <= (each.end_lineno or each.lineno):
                yield each

    def _given(self, name: str) -> Iterator[cst.CSTNode]:
        """Return other assignments to a name: either all are excluded, or none."""
        for node, parent in self.place.piece.parents.items():
            if not isinstance(node, cst.Name) or node.value != name:
                continue
            if isinstance(parent, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign)) and parent.target is node:
                yield node
            elif isinstance(parent, (cst.Param, cst.For, cst.CompFor, cst.AsName)):
                yield parent

    def unsafe(self) -> str | None:
        if self.stored:
            return "the stored times are those of eager calls only"
        for line in self.lines:
            value = _without_clocks(line.body[0], self.known)
            call = value.value if isinstance(value, cst.Expr) and isinstance(value.value, cst.Call) else None
            if call is not None and not self._is_logger(call):
                return f"`{text(call.func)}` may do more than log, because this file does not create its logger"
            parts = [value] if call is None else call.args
            if not all(is_without_effect(part) for part in parts):
                return "a part of it is a call or an index, and compiled code would skip its side effects"
            reason = (
                hidden_effect(self.place, value) or changes_module(self.place, value)
                if call is None
                else why_needed(self.place, call)
            )
            if reason:
                return reason
            if is_tried(self.place, line):
                return CAUGHT
        return None


class _Without(cst.CSTTransformer):
    def __init__(self, known: dict[str, str]) -> None:
        super().__init__()
        self.known = known

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:  # noqa: N802
        return cst.Integer("0") if _is_clock(original_node, self.known) else updated_node


def _without_clocks(node: cst.CSTNode, known: dict[str, str]) -> cst.CSTNode:
    made = node.visit(_Without(known))
    assert isinstance(made, cst.CSTNode)
    return made


def _in_a_row(
    place: Located, lines: Iterable[cst.SimpleStatementLine]
) -> Iterator[tuple[cst.SimpleStatementLine, ...]]:
    """Group consecutive lines of one block."""
    left = dict.fromkeys(lines)
    for node in walk(place.piece.tree):
        row: list[cst.SimpleStatementLine] = []
        for each in node.body if isinstance(node, cst.IndentedBlock) else ():
            if isinstance(each, cst.SimpleStatementLine) and each in left:
                row.append(each)
            elif row:
                yield tuple(row)
                row = []
        if row:
            yield tuple(row)


def _guarded(lines: tuple[cst.SimpleStatementLine, ...], test: cst.BaseExpression) -> Change:
    first = lines[0].with_changes(leading_lines=())
    return Change(lines, (cst.If(test=test, body=cst.IndentedBlock(body=[first, *lines[1:]])),))
