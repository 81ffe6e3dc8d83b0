"""`unique`, `bincount`, `one_hot`, `repeat_interleave` or `ctc_loss` has a data-dependent result size.

## What it does
Finds operations that need the values of a tensor to determine the size of their result: `unique`,
`unique_consecutive`, `bincount`, `combinations`, `linalg.lstsq`, `repeat_interleave` by a tensor without
`output_size`, `one_hot` without `num_classes`, and `ctc_loss`. Also finds operations that need values for
other reasons: `cov`, `corrcoef`, `gaussian_nll_loss`. Modules of torch that use these are found too:
`nn.CTCLoss` and `nn.GaussianNLLLoss`; and `nn.Transformer`, its encoder and its decoder, if they are called
with a mask and without `is_causal`, because they compare the mask with a causal one. Dynamo traces numpy
functions over arrays (`np.unique`, `np.bincount`, `np.cov`) as the torch functions of the same name, and they
break the graph in the same way.

## Why it hurts torch.compile
The size of the result depends on the values in a tensor. Dynamo does not have them while tracing, and ends
the graph at the call.

## Use instead
`one_hot(x, num_classes=n)`; `repeat_interleave(x, repeats, output_size=n)`, where `n` may be
`repeats.sum().item()` under `capture_scalar_outputs`; `torch.zeros(n).scatter_add_(0, index, ones)` instead
of `bincount`, or of `unique` if it is used to count; `is_causal=` in addition to a mask.

## Limits
With `capture_dynamic_output_shape_ops`, a later `.tolist()` on a tensor whose length depends on a mask raises
an error instead of breaking the graph. `bincount(minlength=n)` breaks the graph too, because a minimum is not
a maximum. If the break is inside a module of torch, Dynamo's own log names the line inside torch, and omits
the call if that line is in a `forward`. A run of tcready names the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.rules._names import SELECTING, operands
from tcready.static.engine.facts import Call
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located

MESSAGE = "the size of the result depends on the values of a tensor"
NEEDS = "the values of a tensor are needed while tracing: the graph ends here"

SETTING = "capture_dynamic_output_shape_ops"


def check(fact: Call) -> Claim | None:
    if operands(fact, "ctc_loss") is not None:  # the tables have no call of it
        return Claim(MESSAGE)
    if fact.reads not in ("size", "values") or operands(fact, *SELECTING) is not None:
        return None
    if fact.method == "__call__":
        spared = f"; `{fact.told_by[0]}=` would avoid it" if fact.told_by else ""
        return Claim((MESSAGE if fact.reads == "size" else NEEDS) + spared)
    hint = f"; {fact.told_by[0]}=n would specify it" if fact.told_by else ""
    if fact.reads == "size":
        return Claim(MESSAGE + hint, unless=SETTING)
    return Claim((MESSAGE if hint else NEEDS) + hint)


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._masks import rewrite_count

    return rewrite_count(place)


RULE = Rule(
    code="TCR206",
    name="data-dependent-size",
    effect="graph_break",
    level="error",
    gb_ids=("GB0036", "GB0246", "GB0033", "GB0124"),
    settings=(SETTING,),
    facts=(Call,),
    check=check,
    rewrite=rewrite,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, labels):
        y = x * 2
        hot = F.one_hot(labels)  # BAD
        return y + hot.sum()
""",
            inputs="(torch.randn(4, 8), torch.tensor([0, 2, 1, 2]))",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, labels):
        y = x * 2
        a = torch.unique(labels)  # BAD
        b = labels.unique_consecutive()  # BAD
        c = torch.bincount(labels, minlength=8)  # BAD
        d = y.repeat_interleave(labels, dim=0)  # BAD
        e = torch.repeat_interleave(labels)  # BAD
        f = F.one_hot(labels, num_classes=-1)  # BAD
        return y + a.sum() + b.sum() + c.sum() + d.sum() + e.sum() + f.sum()
""",
            inputs="(torch.randn(4, 8), torch.tensor([0, 2, 1, 2]))",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, targets):
        y = x.log_softmax(2)
        size = torch.full((2,), 5)
        loss = F.ctc_loss(y, targets, size, size // 2)  # BAD
        return loss + y.sum()
""",
            inputs="(torch.randn(5, 2, 8), torch.randint(1, 8, (2, 4)))",
        ),
        Sample(
            """
import numpy as np

class Model(nn.Module):
    def forward(self, x, labels):
        y = x * 2
        found = np.unique(labels.numpy())  # BAD
        counts = np.bincount(labels.numpy(), minlength=8)  # BAD
        spread = np.cov(y.numpy())  # BAD
        return y + torch.from_numpy(found).sum() + torch.from_numpy(counts).sum() + torch.from_numpy(spread).sum()
""",
            inputs="(torch.randn(4, 8), torch.tensor([0, 2, 1, 2]))",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        spread = torch.cov(y)  # BAD
        related = y.corrcoef()  # BAD
        found = torch.linalg.lstsq(y, y)  # BAD
        return y + spread.sum() + related.sum() + found.solution.sum()
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.loss = nn.GaussianNLLLoss()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 1)

    def losses(self, y, mask):
        loss = self.loss(y, y, y.abs())  # BAD
        return loss + self.encoder(y, mask).sum()  # BAD

    def forward(self, x):
        y = x * 2
        return y + self.losses(y, nn.Transformer.generate_square_subsequent_mask(4))
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.loss = nn.PoissonNLLLoss()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 1)

    def forward(self, x):
        y = x * 2
        mask = nn.Transformer.generate_square_subsequent_mask(4)
        return self.encoder(y, mask, is_causal=True) + self.encoder(y) + self.loss(y, y)
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, labels):
        y = x * 2
        hot = F.one_hot(labels, num_classes=8)
        return y + hot.sum()
""",
            inputs="(torch.randn(4, 8), torch.tensor([0, 2, 1, 2]))",
        ),
        Sample(
            """
import numpy as np

class Model(nn.Module):
    def forward(self, x, labels):
        y = x * 2
        a = F.one_hot(labels, 8)
        b = y.repeat_interleave(2, dim=0)
        c = y.repeat_interleave(labels, dim=0, output_size=5)
        d = torch.zeros(8).scatter_add_(0, labels, torch.ones(4))
        e = torch.histc(y, bins=4)
        f = F.cross_entropy(x, labels)
        g = y.narrow(1, 0, 2).sum() + torch.tensor_split(y, [1, 3])[0].sum()
        g = g + torch.from_numpy(np.median(y.numpy(), axis=0)).sum() + torch.from_numpy(np.diff(labels.numpy())).sum()
        return g + a + b.sum() + c.sum() + d.sum() + e.sum() + f
""",
            inputs="(torch.randn(4, 8), torch.tensor([0, 2, 1, 2]))",
        ),
    ),
)
