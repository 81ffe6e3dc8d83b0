"""A result is written to a tensor that it does not fit.

## What it does
Finds calls of torch functions whose `out=` is an empty tensor (`x.new()`, `torch.empty(0)`) or a
non-contiguous part of a tensor (`buffer[:, :n]`, `a.t()`).

## Why it hurts torch.compile
Torch resizes an `out=` tensor of another shape, which Dynamo does not trace: the graph ends there. The graph
also ends at a tensor that is not contiguous.

## Use instead
Use the returned result: `made = torch.add(x, y)`. If it must be in a part of a tensor, assign it:
`buffer[:, :n] = made`.

## Limits
Sizes are unknown, except that of an empty tensor, so a tensor of the wrong size is not found. A slice may be
the whole tensor, and a result may be empty. A tensor that is resized in place (`made.resize_(4)`) is still
assumed to be empty.
"""

from __future__ import annotations

from tcready.static.engine.facts import Call
from tcready.static.engine.values import tensors_in
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Call) -> Claim | None:
    out = fact.keyword("out")
    if out is None or not (fact.name or "").startswith("torch."):
        return None
    into = list(tensors_in(out))
    if any(each.layout == "empty" and not each.leaf for each in into):
        return Claim("`out` is an empty tensor, which torch has to resize: the graph ends here")
    if any(each.layout == "non-contiguous" for each in into):
        return Claim("`out` is a tensor that is not contiguous: the graph ends here", "medium")
    return None


RULE = Rule(
    code="TCR426",
    name="unfit-out-argument",
    effect="graph_break",
    level="error",
    gb_ids=("GB0240", "GB0241", "GB0242", "GB0247"),
    facts=(Call,),
    check=check,
    no_rewrite="The `out` tensor may be read elsewhere, and that code has to read the result instead.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        values, places = x.new(), x.new().long()
        torch.sort(x, dim=1, out=(values, places))  # BAD
        return values * 2
""",
            inputs="(torch.rand(4, 4),)",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        steps = torch.arange(4, out=x.data.new())  # BAD
        made = torch.empty(0)
        torch.mm(x, x, out=made)  # BAD
        return made + steps
""",
            inputs="(torch.rand(4, 4),)",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        both = torch.empty(4, 8)
        torch.add(x, 1, out=both[:, :4])  # BAD
        torch.mul(x, 2, out=both[..., 4:])  # BAD
        return both
""",
            inputs="(torch.rand(4, 4),)",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        both = torch.empty(4, 8)
        first, second = both.chunk(2, dim=-1)
        torch.add(x, 1, out=first)  # BAD
        torch.mul(x, 2, out=second)  # BAD
        return both
""",
            inputs="(torch.rand(4, 4),)",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        both = torch.empty(8, 4)
        torch.add(x, 1, out=both[:4])
        torch.mul(x, 2, out=both[4:, :])
        made = torch.empty_like(x)
        torch.mm(x, x, out=made)
        values, places = torch.empty(4, 4), torch.empty(4, 4).long()
        torch.sort(x, dim=1, out=(values, places))
        return both[:4] + both[4:] + made + values
""",
            inputs="(torch.rand(4, 4),)",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        values, places = torch.sort(x, dim=1)
        both = torch.empty(4, 8)
        both[:, :4] = torch.add(x, 1)
        both[:, 4:] = torch.mul(x, 2)
        return both + torch.cat([values, x], 1)
""",
            inputs="(torch.rand(4, 4),)",
        ),
    ),
)
