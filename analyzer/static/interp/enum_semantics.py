"""Enum members used as the numbers or strings that they also are.

To Dynamo the member is an object, and the effect differs between versions of torch, so the tables have it (`members`,
derived by `benchmarks/deriving/members.py`).
"""

from __future__ import annotations

import ast

from tcready.static.domain import facts as F  # noqa: N812 - the facts are many and their names common words
from tcready.static.domain.scope import Frame
from tcready.static.domain.values import (
    Choice,
    Const,
    ExternalInstance,
    Instance,
    Plain,
    Sequence,
    Tensor,
    Value,
    holds_number,
    is_answer,
    is_member,
    is_member_of,
    likely,
    tensor_of,
)
from tcready.static.interp.interfaces import CallSite, Component

ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
CONVERSIONS = frozenset({"float", "range"})


class Members(Component):
    """Members of enums, where they are taken for numbers and texts."""

    def member_compared(
        self, op: ast.cmpop, node: ast.Compare, sides: tuple[Value, Value], frame: Frame, of: ast.expr | None
    ) -> Value | None:
        """Return the result of a comparison with a member, if it is no tensor; `of` is read from the result, and no bool
        has it."""
        left, right = sides
        inside = isinstance(op, (ast.In, ast.NotIn))
        if inside and _is_text(right):
            self._emit(node, "text containment", frame)
        if not _is_with_member(op, left, right):
            return None
        use = "tensor contained" if inside else "tensor order" if isinstance(op, ORDERS) else "tensor equality"
        outcome = self._outcome(use)
        if not outcome:
            return None
        known = not isinstance(left, Choice) and not isinstance(right, Choice)
        sure = known and all(v.sure for v in sides if isinstance(v, Tensor))
        lost = of is not None and outcome == F.DIFFERS
        self._emit(node, "attribute" if lost else use, frame, sure=sure or lost)
        if outcome != F.DIFFERS:
            return None
        return Const(isinstance(op, (ast.NotEq, ast.NotIn))) if sure else Plain("bool")

    def emit_answer_read(self, node: ast.Attribute, owner: Value, frame: Frame) -> None:
        """Emit an attribute read as of a tensor from the result of such a comparison."""
        if is_answer(owner) and not hasattr(bool, node.attr) and self._outcome("tensor equality") == F.DIFFERS:
            self._emit(node, "attribute", frame)

    def emit_member_call(
        self, site: CallSite, receiver: Value | None, operation: str, operands: tuple[Value, ...]
    ) -> None:
        """Emit a method call on a member, a conversion of one, and a bool passed to an operation that takes none."""
        if isinstance(receiver, Const) and is_member(receiver):
            kind = "text" if isinstance(receiver.value, str) else "number"
            self._emit(site.node, f"{kind} method", site.frame)
        elif operation in CONVERSIONS and any(map(_is_number, operands)):
            self._emit(site.node, operation, site.frame)
        elif operation.startswith("torch.") and self._outcome("tensor equality") == F.DIFFERS:
            if self.engine.operations.takes_no_bool(operation, operands, site.keywords):
                self._emit(site.node, "argument", site.frame)

    def emit_member_index(self, node: ast.expr, base: Value, index: Value, frame: Frame) -> None:
        """Emit a sequence indexed by a member."""
        if not _is_number(index):
            return
        kind = ""
        if isinstance(base, Sequence) and base.kind in ("list", "tuple"):
            kind = base.kind
        elif isinstance(base, Plain) and base.kind == "Size":
            kind = "size"
        elif isinstance(base, (Instance, ExternalInstance)) and self.engine.containers.walked_members(base) is not None:
            kind = "module"
        if kind:
            self._emit(node, f"{kind} index", frame)

    def emit_member_walk(self, node: ast.expr, value: Value, frame: Frame) -> None:
        """Emit an iteration over the characters of a member."""
        if _is_text(value):
            self._emit(node, "text walk", frame)

    def emit_member_sum(self, node: ast.BinOp, left: Value, frame: Frame) -> None:
        """Emit a string appended to a member."""
        if isinstance(node.op, ast.Add) and _is_text(left):
            self._emit(node, "text sum", frame)

    def _outcome(self, use: str) -> str:
        return self.engine.operations.tables.member(use)

    def _emit(self, node: ast.expr, use: F.Use, frame: Frame, *, sure: bool = True) -> None:
        outcome = F.OF_ANSWERS.get(use) or self._outcome(use)
        if outcome and not self.engine.untraced:
            self.engine.emit(F.OfMember(self.engine.where(frame), node, use, outcome, sure))


def _is_number(value: Value) -> bool:
    return isinstance(value, Const) and is_member(value) and holds_number(value)


def _is_text(value: Value) -> bool:
    return isinstance(value, Const) and is_member(value) and isinstance(value.value, str) and not value.opaque


def _is_with_member(op: ast.cmpop, left: Value, right: Value) -> bool:
    """Return whether a tensor is compared with an enum member that is a number, or looked up among such members."""
    if isinstance(op, (ast.Is, ast.IsNot)):
        return False
    if isinstance(op, (ast.In, ast.NotIn)):
        return tensor_of(likely(left)) is not None and is_member_of(right) and holds_number(right)
    return any(
        tensor_of(likely(one)) is not None and is_member(likely(other)) and holds_number(likely(other))
        for one, other in ((left, right), (right, left))
    )
