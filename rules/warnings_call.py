"""`warnings.warn` is called in compiled code.

## What it does
Finds `warnings.warn`, `warn_explicit`, `simplefilter` and `filterwarnings` in code that the compiled forward
reaches.

## Why it hurts torch.compile
Dynamo skips the functions of `warnings`. The graph ends at the call, on every path that reaches it.

## Use instead
Warn when the module is built, or guard the call with `if not torch.compiler.is_compiling():`. To warn after
the graph has run, call `torch._dynamo.config.reorderable_logging_functions.add(warnings.warn)`.

## Limits
A warning on a path that sizes and flags exclude is harmless. `with warnings.catch_warnings():` by itself is
harmless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.static.engine.facts import Call
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located


FILTERS = frozenset({"warnings.simplefilter", "warnings.filterwarnings"})
"""The tables have no call of these: measured on torch 2.13."""


def check(fact: Call) -> Claim | None:
    name = fact.constructed
    if name in FILTERS or (name.startswith("warnings.") and fact.gb_id):
        return Claim(f"`{name}` in compiled code: the graph ends here", regardless=True)
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._messages import unless_compiling

    return unless_compiling(place)


RULE = Rule(
    code="TCR303",
    name="warnings-call",
    effect="graph_break",
    level="error",
    gb_ids=("GB0007",),
    facts=(Call,),
    check=check,
    side_output_only=True,
    rewrite=rewrite,
    may_autofix=True,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        warnings.warn("old path", stacklevel=2)  # BAD
        y = y + 1
        warnings.filterwarnings("ignore")  # BAD
        return y + 1
""",
            setup="""
import warnings
""",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        warnings.warn("old path", stacklevel=2)

    def forward(self, x):
        return x * 2 + 1
""",
            setup="""
import warnings
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.old = False

    def forward(self, x):
        y = x * 2
        if self.old:
            warnings.warn("old path", stacklevel=2)
        if not torch.compiler.is_compiling():
            warnings.warn("eager", stacklevel=2)
        with warnings.catch_warnings():
            y = y + 1
        return y
""",
            setup="""
import warnings
""",
        ),
    ),
)
