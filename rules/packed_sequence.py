"""A packed sequence is created or unpacked in compiled code.

## What it does
Finds `pack_padded_sequence`, `pack_sequence` and `pad_packed_sequence` of `torch.nn.utils.rnn` in code that
the compiled forward reaches.

## Why it hurts torch.compile
The size of a packed sequence depends on lengths, which are data. Dynamo skips these functions, so the graph
ends at the call.

## Use instead
Padded tensors and a mask. Or pack outside of the compiled region.

## Limits
`pad_sequence` is traced and not reported.
"""

from tcready.static.engine.facts import Call
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Call) -> Claim | None:
    module, _, name = fact.constructed.rpartition(".")
    if module == "torch.nn.utils.rnn" and fact.gb_id:
        return Claim(f"`{name}` depends on lengths that are data: the graph ends here", regardless=True)
    return None


RULE = Rule(
    code="TCR409",
    name="packed-sequence",
    effect="graph_break",
    level="error",
    gb_ids=("GB0007",),
    facts=(Call,),
    check=check,
    no_rewrite="The size of a packed sequence depends on data. Padded tensors and a mask are another algorithm.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, lengths):
        y = x * 2
        packed = nn.utils.rnn.pack_padded_sequence(y, lengths, batch_first=True)  # BAD
        return y + 1
""",
            inputs="(torch.randn(4, 8, 3), torch.tensor([8, 7, 6, 5]))",
        ),
        Sample(
            """
from torch.nn.utils.rnn import *

class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        packed = pack_sequence([y, y])  # BAD
        return y + 1
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, lengths):
        y = x * 2
        mask = torch.arange(x.shape[1]) < lengths[:, None]
        return y * mask[:, :, None] + 1
""",
            inputs="(torch.randn(4, 8, 3), torch.tensor([8, 7, 6, 5]))",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        return nn.utils.rnn.pad_sequence([x, x * 2]).sum()
"""
        ),
    ),
)
