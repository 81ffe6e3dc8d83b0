"""An `if` compares a size with a bound (`if x.shape[0] > 4`).

## What it does
Finds `if`, `while` and conditional expressions that compare the size of a tensor with `<`, `<=`, `>` or `>=`.

## Why it hurts torch.compile
The path that is traced is valid for sizes on the same side of the bound, and that is guarded. A size on the
other side causes one recompilation.

## Use instead
Nothing, if sizes rarely cross the bound. If sizes cross the bound frequently, compile both paths with
`mark_dynamic` inputs at start-up, or move the branch out of the compiled region.

## Limits
Equality (`x.shape[0] == 1`) and comparisons with 0 and 1 are not reported: every model has them, and those
sizes are guarded anyway. A test that only raises an error is not reported either.
"""

import ast

from tcready.static.engine.facts import Test
from tcready.static.engine.values import Plain, options
from tcready.static.rule import Claim, Rule, Sample

ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def check(fact: Test) -> Claim | None:
    if fact.kind not in ("if", "while", "ifexp") or not isinstance(fact.node, ast.Compare) or fact.guards:
        return None
    sides = (fact.node.left, *fact.node.comparators)
    if any(isinstance(side, ast.Constant) and side.value in (0, 1) for side in sides):
        return None
    if not all(isinstance(op, ORDER) for op in fact.node.ops):
        return None
    if any(isinstance(v, Plain) and v.origin == "shape" for v in options(fact.value)):
        return Claim("branch on a size: the bound is guarded, and a size beyond it causes a recompilation")
    return None


RULE = Rule(
    code="TCR502",
    name="branch-on-size",
    effect="recompile",
    level="note",
    gb_ids=(),
    facts=(Test,),
    check=check,
    no_rewrite="The branch is traced. If the sizes vary, mark them dynamic, or pad.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        if x.shape[0] > 4:  # BAD
            return x * 2
        return x * 3
""",
            again="(torch.randn(6, 8),)",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        return x * 2
""",
            again="(torch.randn(6, 8),)",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        if x.dim() > 1 and x.shape[1] == 8:
            x = x * 2
        if x.shape[0] > 64:
            raise ValueError("too many")
        if x.numel() > 0:
            x = x + 1
        return x.view(x.shape[0], -1) * 3
""",
            again="(torch.randn(6, 8),)",
        ),
    ),
)
