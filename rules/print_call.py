"""`print` is called in compiled code.

## What it does
Finds `print` (and `pprint.pprint`) in code that the compiled forward reaches.

## Why it hurts torch.compile
Printing is a side effect that a graph cannot contain. Dynamo ends the graph, prints, and starts a new graph
after it. Inside a loop, a `try` or a `with` block, the whole function runs eagerly.

## Use instead
Guard it with `if not torch.compiler.is_compiling():`, print outside of the compiled region, or remove it. To
print after the graph has run, call `torch._dynamo.config.reorderable_logging_functions.add(print)`.

## Limits
A `print` under a flag that is false, or guarded by `is_compiling()`, is harmless.
`reorderable_logging_functions` is a run-time setting that this rule does not see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.static.engine.facts import Call
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located


def check(fact: Call) -> Claim | None:
    if fact.constructed in ("print", "pprint.pprint"):
        return Claim("`print` in compiled code: the graph ends here", regardless=True)
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._messages import unless_compiling

    return unless_compiling(place)


RULE = Rule(
    code="TCR301",
    name="print-call",
    effect="graph_break",
    level="error",
    gb_ids=("GB0059", "GB0156"),
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
        print("shape", y.shape)  # BAD
        return y + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        self.show(y)
        return y + 1

    def show(self, y):
        print(y)  # BAD
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self, every=100):
        super().__init__()
        self.step = 0
        self.every = every

    def forward(self, x):
        y = x * 2
        if self.step % self.every == 0:
            print("step", self.step)  # BAD
        return y + 1

    def advance(self):
        self.step += 1
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        return y + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.verbose = False

    def forward(self, x):
        y = x * 2
        if not torch.compiler.is_compiling():
            print("shape", y.shape)
        if self.verbose:
            print(y)
        return y + 1
"""
        ),
    ),
)
