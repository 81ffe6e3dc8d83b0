"""A tensor is indexed with a boolean mask (`x[mask]`).

## What it does
Finds `x[mask]` if the mask is a boolean tensor or array, or a list of booleans.

## Why it hurts torch.compile
The number of selected items depends on the values of the mask. The size of the result is unknown while
tracing, so the graph ends here.

## Use instead
`torch.where(mask, x, other)`, `x.masked_fill(~mask, 0)`, or multiply by the mask and divide by its sum. To
write, use `x[mask] = value`.

## Limits
Writing a number or a tensor through a mask is harmless. Under `fullgraph=True`, Dynamo captures such
operators. If the source does not show the dtype of a mask, only its name is evidence (`mask`,
`batch["pad_mask"]`), and the confidence is medium.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tcready.static.engine.facts import Index
from tcready.static.engine.knowledge import ARRAY
from tcready.static.engine.values import Const, Sequence, Value, options, tensor_of
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located

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
    """A tensor whose dtype is not known, by a name that says mask."""
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


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._masks import masked_read

    return masked_read(place)


RULE = Rule(
    code="TCR204",
    name="boolean-mask-index",
    effect="graph_break",
    level="error",
    gb_ids=("GB0036",),
    settings=(SETTING,),
    facts=(Index,),
    check=check,
    rewrite=rewrite,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        positive = y[y > 0]  # BAD
        return positive.mean()
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, mask):
        y = x * 2
        keep = mask.bool()
        rows = y[keep, :4]  # BAD
        rest = y[~keep]  # BAD
        named = y[mask]  # BAD
        other = y[~mask, 0]  # BAD
        return rows.sum() + rest.sum() + named.sum() + other.sum()
""",
            inputs="(torch.randn(4, 8), torch.tensor([True, False, True, True]))",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        some = y[[True, False, True, False]]  # BAD
        return some.sum()
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        positive = y.clamp(min=0)
        return positive.sum() / (y > 0).sum()
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, mask, rows):
        y = x * 2
        y[y > 1] = 0
        y[y < -1] = y.mean()
        y[mask] = rows
        return y
""",
            inputs="(torch.randn(4, 8), torch.tensor([True, False, True, False]), torch.randn(2, 8))",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, index):
        y = x * 2
        y = y.masked_fill(y > 1, 0)
        part = y[None, :, 0].sum() + y[..., 1:3].sum() + y[0, index].sum() + x[:, index].sum()
        return y[index] + y[[0, 2]] + part
""",
            inputs="(torch.randn(4, 8), torch.tensor([0, 2]))",
        ),
    ),
)
