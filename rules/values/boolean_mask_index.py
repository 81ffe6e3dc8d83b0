"""A tensor is indexed with a boolean mask (`x[mask]`)."""

from __future__ import annotations

import ast
import re

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Index
from tcready.static.domain.values import Const, Sequence, Value, options, tensor_of
from tcready.static.library.semantics import ARRAY

NAMED_MASK = re.compile(r"(^|_)masks?$")

SETTING = "capture_dynamic_output_shape_ops"


def check(fact: Index) -> Claim | None:
    if fact.mode != "load" or not (tensor_of(fact.base) or fact.base == ARRAY):
        return None
    index = fact.node.slice
    written = index.elts if isinstance(index, ast.Tuple) else [index]
    compared = ARRAY in fact.parts and any(isinstance(node, ast.Compare) for node in written)
    if compared or any(boolean(part) for part in fact.parts):
        message = "indexed with a boolean mask: the size of the result depends on the values of the mask"
        return Claim(message, suppressed_by_config=SETTING)
    if len(written) == len(fact.parts) and any(map(_believed, fact.parts, written)):
        return Claim(
            "indexed with a mask, according to its name: if it is boolean, the size depends on its values",
            "medium",
            suppressed_by_config=SETTING,
        )
    return None


def _believed(part: Value, written: ast.expr) -> bool:
    """A tensor of unknown dtype, by a name that says mask."""
    found = tensor_of(part)
    untyped = part == ARRAY or (found is not None and found.dtype is None)
    return untyped and bool(NAMED_MASK.search(_name(written)))


def _name(node: ast.expr) -> str:
    """The last name in `mask`, `self.mask`, `batch["mask"]`, `masks[0]`, `~mask` or `mask & other`; empty if none."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        return _name(node.operand)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr)):
        return _name(node.left)
    if isinstance(node, ast.Subscript):
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        return key if isinstance(key, str) else _name(node.value)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def boolean(part: Value) -> bool:
    """A boolean tensor, or a list of booleans."""
    found = tensor_of(part)
    if found:
        return found.dtype == "bool"
    return any(
        isinstance(v, Sequence) and v.kind == "list" and v.items is not None and _all_bool(v.items)
        for v in options(part)
    )


def _all_bool(items: tuple[Value, ...]) -> bool:
    return bool(items) and all(isinstance(item, Const) and isinstance(item.value, bool) for item in items)


RULE = Rule(
    code="TCR204",
    gb_ids=("GB0036",),
    settings=(SETTING,),
    facts=(Index,),
    check=check,
    rewriters=("masks.masked_read",),
    module=__name__,
)
