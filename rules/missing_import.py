"""A package that is not installed is imported, inside a `try`, in compiled code.

## What it does
Finds `import` and `from ... import` of packages that are not installed in the environment of torch, inside a
`try` that the compiled forward reaches. This is the usual pattern for an optional package.

## Why it hurts torch.compile
Eager code catches the ImportError and continues. Dynamo cannot trace an import that fails. It skips the whole
function that contains the `try`, because a graph cannot end inside a `try`.

## Use instead
Try the import once, at the top of the file, and store the result: `if attention is not None:` in the forward
is evaluated while Dynamo traces.

## Limits
A package counts as installed if it is in the environment of the torch that tcready finds. An import outside
of a `try` is not reported, because it raises an error in eager code too.
"""

from __future__ import annotations

from tcready.static.engine.facts import Imported
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Imported) -> Claim | None:
    if "try" not in fact.where.enclosing:
        return None
    return Claim(f"`{fact.package}` is imported but not installed: the function with the `try` runs eagerly")


RULE = Rule(
    code="TCR419",
    name="missing-import",
    effect="frame_skip",
    level="error",
    gb_ids=("GB0069",),
    facts=(Imported,),
    check=check,
    no_rewrite="Move the import to the top of the file, and store the result in a variable of the module.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        return attention(y) + 1


def attention(y):
    try:
        from no_such_package import fast_attention  # BAD

        return fast_attention(y)
    except ImportError:
        return F.scaled_dot_product_attention(y, y, y)
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        if fast_attention is not None:
            return fast_attention(y) + 1
        return F.scaled_dot_product_attention(y, y, y) + 1
""",
            setup="""
try:
    from no_such_package import fast_attention
except ImportError:
    fast_attention = None
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        try:
            from math import pi
        except ImportError:
            pi = 3.14
        return x * pi
"""
        ),
    ),
)
