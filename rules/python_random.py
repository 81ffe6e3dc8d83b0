"""Random numbers of Python or numpy are drawn in compiled code.

## What it does
Finds draws from `random`, scalar draws from `numpy.random`, and any method call on a numpy generator
(`np.random.default_rng()`, `np.random.RandomState()`). Dynamo captures some draws (`random.randint`,
`random.uniform`); the rule finds branches, arithmetic with other numbers, sizes, indices and `range` that use
those. Array draws such as `np.random.randn(8)` are reported as a wrong result.

## Why it hurts torch.compile
Dynamo skips most generators. The graph ends at the call, and the number becomes a guard on the next graph, so
each call may recompile. A captured draw is a symbolic number, which cannot decide a branch. Arrays are drawn
by the generator of torch instead, so `np.random.seed` no longer determines the result.

## Use instead
`torch.rand` and related functions, with the result kept as a tensor
(`torch.where(torch.rand(()) < p, a, b)`). Or draw outside and pass the number as a tensor.

## Limits
`random.randint`, `random.uniform` and `random.randrange` are captured and drawn again in each call:
arithmetic with tensors is traced. Other functions of torch that read such a number (`torch.roll`) are not
reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.rules._names import sizes
from tcready.static.engine.facts import Arithmetic, Call, Index, Test
from tcready.static.engine.knowledge import GENERATORS
from tcready.static.engine.values import NONE, Tensor, is_captured, options
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located

BRANCHES = frozenset({"if", "while", "ifexp", "and", "or", "comprehension"})
"""What asks for the truth of a draw in a way that ends the graph; an `assert` is traced."""
SCALAR = frozenset("rand randn randint uniform normal random random_sample sample".split())
"""What torch draws in place of numpy: an array becomes a tensor, one number would have to be read (measured; so would
whatever `choice` picks)."""


def check(fact: Call | Test | Index | Arithmetic) -> Claim | None:
    if isinstance(fact, Arithmetic):
        return Claim(
            "arithmetic with a captured random number: the function runs eagerly", None, "frame_skip"
        )
    if isinstance(fact, Index):
        bound = any(map(is_captured, fact.slices))
        if bound or (isinstance(fact.base, Tensor) and any(map(is_captured, fact.parts))):
            message = "an index by a captured random number: its value has to be read"
            return Claim(message, None, "frame_skip" if bound else None)
        return None
    if isinstance(fact, Test):
        drawn = [is_captured(v) for v in options(fact.value)]
        if any(drawn) and fact.kind in BRANCHES:
            message = "branch on a captured random number: Dynamo cannot know which branch runs"
            return Claim(message, None if all(drawn) else "medium")
        return None
    name = fact.constructed
    if name == "range" and any(map(is_captured, fact.args)):
        return Claim("`range` of a captured random number: the function runs eagerly", None, "frame_skip")
    if any(map(is_captured, sizes(fact))):
        return Claim(
            "a captured random number is used as a size: its value has to be read, and the graph ends here"
        )
    if fact.receiver is not None and set(GENERATORS.values()).intersection(options(fact.receiver)):
        return Claim(f"`{fact.method}` of a numpy generator in compiled code: the graph ends here")
    module, _, draw = name.rpartition(".")
    breaks = draw == "choice" or (draw in SCALAR and scalar(fact, draw))
    if (module == "random" and fact.gb_id) or (module == "numpy.random" and (fact.gb_id or breaks)):
        return Claim(f"`{name}` in compiled code: the graph ends here")
    if module == "numpy.random" and draw in SCALAR:
        return Claim(
            f"`{name}` is drawn by torch in compiled code: the seed of numpy is ignored",
            None,
            "wrong_result",
            "warning",
        )
    return None


def scalar(fact: Call, draw: str) -> bool:
    """The draw gives one number: no shape is asked for."""
    if draw in ("rand", "randn", "random", "random_sample", "sample"):
        return not fact.args and fact.keyword("size") in (None, NONE)
    return fact.keyword("size") in (None, NONE) and len(fact.args) < 3


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._state import rewrite_random

    return rewrite_random(place)


RULE = Rule(
    code="TCR306",
    name="python-random",
    effect="graph_break",
    level="error",
    gb_ids=("GB0007", "GB0033", "GB0124", "GB0156", "GB0170", "GB0213", "GB0294", "GB4841"),
    facts=(
        Call,
        Test,
        Index,
        Arithmetic,
    ),
    check=check,
    rewrite=rewrite,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        keep = random.random()  # BAD
        return y * keep
""",
            setup="""
import random
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        if random.uniform(0, 1) > 0.5:  # BAD
            y = y + 1
        pick = random.choice([1, 2])  # BAD
        y = y * 2
        noise = np.random.uniform()  # BAD
        y = y * 2
        step = np.random.randint(3)  # BAD
        random.shuffle([1, 2])  # BAD
        y = y * 2
        order = np.random.permutation(3)  # BAD
        return y + pick
""",
            setup="""
import random

import numpy as np
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        noise = np.random.randn(8)  # BAD
        shift = np.random.uniform(size=(8,))  # BAD
        return x + torch.from_numpy(noise) + torch.from_numpy(shift)
""",
            setup="""
import numpy as np

np.random.seed(0)
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        u = random.uniform(0, 1)
        if u > 0.5:  # BAD
            y = y + 1
        many = draw.randint(0, 3)
        while many > 0:  # BAD
            y = y * 2
            many = 0
        keep = uniform(0, 1) < 0.5
        return y if keep else -y  # BAD
""",
            setup="""
import random
import random as draw
from random import uniform
""",
        ),
        Sample(
            """
def weight(p):
    if p > 0.5:  # BAD
        return 1.0
    return 2.0


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        drawn = [random.uniform(0, 1) for _ in range(2)]
        y = y * weight(drawn[0])
        count = random.randint(0, 1) or 3  # BAD
        return y + count
""",
            setup="""
import random
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        count = random.randint(1, 2)
        y = x * count
        return y + torch.zeros(count, 1, 1)  # BAD
""",
            setup="""
import random
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        start = random.randint(0, 1)
        y = x * 2
        return y[:, : 4 - start]  # BAD
""",
            setup="""
import random
""",
        ),
        Sample(
            """
def scaled(y, rng):
    return y * rng.normal()  # BAD


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rng = np.random.default_rng(0)
        self.old = np.random.RandomState(0)

    def forward(self, x):
        y = x * 2
        if self.rng.random() < 0.5:  # BAD
            y = y + 1
        y = y + self.old.randint(3)  # BAD
        return scaled(y, self.rng) + torch.from_numpy(RNG.random(8))  # BAD
""",
            setup="""
import numpy as np

RNG = np.random.default_rng(0)
""",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rng = np.random.default_rng(0)
        self.scale = self.rng.normal()
        self.up = self.rng.random() < 0.5

    def forward(self, x):
        if self.rng is None or self.up:
            x = x + 1
        return x * 2
""",
            setup="""
import numpy as np
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = random.uniform(0.6, 0.9)
        self.sign = "up" if SHIFT > 0.5 else "down"

    def forward(self, x):
        if self.rate > 0.5 or self.sign == "up":
            x = x + 1
        return x * 2 if SHIFT > 0.5 else x
""",
            setup="""
import random

SHIFT = random.uniform(0.6, 0.9)
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        keep = torch.rand(())
        return y * (keep * 0)
""",
            setup="""
import random
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        a = random.randint(0, 3)
        b = random.uniform(0, 1)
        e = torch.randn_like(y)
        inside = b < 0.5
        assert b <= 1
        y = y + torch.zeros(8) * inside
        return y + torch.zeros(8) * a + torch.zeros(8) * b + e * 0
""",
            setup="""
import random

import numpy as np
""",
        ),
    ),
)
