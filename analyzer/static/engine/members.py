"""Evaluate operations on members of enums that are also numbers or strings.

Python takes it for that. Dynamo has an object there, and what comes of that differs between versions of torch, so that
the tables tell it (`members`, derived by `benchmarks/deriving/members.py`).
"""

from __future__ import annotations

import ast

from tcready.static.engine import facts as F  # noqa: N812 - the facts are many and their names common words
from tcready.static.engine.contract import CallSite, Room
from tcready.static.engine.scope import Frame
from tcready.static.engine.values import (
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

ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
CONVERSIONS = frozenset({"float", "range"})


class Members(Room):
    """Members of enums, where they are taken for numbers and texts."""

    def member_compared(
        self, op: ast.cmpop, node: ast.Compare, sides: tuple[Value, Value], frame: Frame, of: ast.expr | None
    ) -> Value | None:
        """What a comparison with a member gives, if that is no tensor; `of` is read of the answer, and no bool has it."""
        left, right = sides
        inside = isinstance(op, (ast.In, ast.NotIn))
        if inside and _is_text(right):
            self._tell(node, "text containment", frame)
        if not _is_with_member(op, left, right):
            return None
        use = (
            "tensor contained" if inside else "tensor order" if isinstance(op, ORDERS) else "tensor equality"
        )
        outcome = self._outcome(use)
        if not outcome:
            return None
        known = not isinstance(left, Choice) and not isinstance(right, Choice)
        sure = known and all(v.sure for v in sides if isinstance(v, Tensor))
        lost = of is not None and outcome == F.DIFFERS
        self._tell(node, "attribute" if lost else use, frame, sure=sure or lost)
        if outcome != F.DIFFERS:
            return None
        return Const(isinstance(op, (ast.NotEq, ast.NotIn))) if sure else Plain("bool")

    def tell_answer(self, node: ast.Attribute, owner: Value, frame: Frame) -> None:
        """Tells what is read of the answer of such a comparison as of a tensor."""
        if (
            is_answer(owner)
            and not hasattr(bool, node.attr)
            and self._outcome("tensor equality") == F.DIFFERS
        ):
            self._tell(node, "attribute", frame)

    def tell_member_called(
        self, site: CallSite, receiver: Value | None, operation: str, operands: tuple[Value, ...]
    ) -> None:
        """Tells a method of a member, a conversion of one, and a bool that is given where an operation takes none."""
        if isinstance(receiver, Const) and is_member(receiver):
            kind = "text" if isinstance(receiver.value, str) else "number"
            self._tell(site.node, f"{kind} method", site.frame)
        elif operation in CONVERSIONS and any(map(_is_number, operands)):
            self._tell(site.node, operation, site.frame)
        elif operation.startswith("torch.") and self._outcome("tensor equality") == F.DIFFERS:
            if self.engine.operations.takes_no_bool(operation, operands, site.keywords):
                self._tell(site.node, "argument", site.frame)

    def tell_member_index(self, node: ast.expr, base: Value, index: Value, frame: Frame) -> None:
        """Tells a member that a row is indexed by."""
        if not _is_number(index):
            return
        kind = ""
        if isinstance(base, Sequence) and base.kind in ("list", "tuple"):
            kind = base.kind
        elif isinstance(base, Plain) and base.kind == "Size":
            kind = "size"
        elif isinstance(base, (Instance, ExternalInstance)) and self.engine.walked_members(base) is not None:
            kind = "module"
        if kind:
            self._tell(node, f"{kind} index", frame)

    def tell_member_walk(self, node: ast.expr, value: Value, frame: Frame) -> None:
        """Tells a walk through the letters of a member."""
        if _is_text(value):
            self._tell(node, "text walk", frame)

    def tell_member_sum(self, node: ast.BinOp, left: Value, frame: Frame) -> None:
        """Tells a text that is put behind a member."""
        if isinstance(node.op, ast.Add) and _is_text(left):
            self._tell(node, "text sum", frame)

    def _outcome(self, use: str) -> str:
        return self.engine.operations.tables.member(use)

    def _tell(self, node: ast.expr, use: F.Use, frame: Frame, *, sure: bool = True) -> None:
        outcome = F.OF_ANSWERS.get(use) or self._outcome(use)
        if outcome and not self.engine.quiet:
            self.engine.tell(F.OfMember(self.engine.where(frame), node, use, outcome, sure))


def _is_number(value: Value) -> bool:
    return isinstance(value, Const) and is_member(value) and holds_number(value)


def _is_text(value: Value) -> bool:
    return isinstance(value, Const) and is_member(value) and isinstance(value.value, str) and not value.opaque


def _is_with_member(op: ast.cmpop, left: Value, right: Value) -> bool:
    """Whether a tensor is compared with a member of an enum that is a number, or looked for among such members."""
    if isinstance(op, (ast.Is, ast.IsNot)):
        return False
    if isinstance(op, (ast.In, ast.NotIn)):
        return tensor_of(likely(left)) is not None and is_member_of(right) and holds_number(right)
    return any(
        tensor_of(likely(one)) is not None and is_member(likely(other)) and holds_number(likely(other))
        for one, other in ((left, right), (right, left))
    )
