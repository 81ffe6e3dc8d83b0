"""A numpy array is converted to a Python number in compiled code.

## What it does
Finds `int`, `float`, `bool`, `complex` and functions of `math` called with a numpy array, and `.item()` and
`.tolist()` on one. Finds an array as a size (`x.reshape(np.prod(x.shape[1:]), -1)`), as an argument for which
torch takes a number (`F.conv1d(x, w, dilation=rates[0])`), as a bound of `range` or of a slice, as an index
of a list and as the condition of an `if`. Finds `np.array`, `np.mean` and similar functions of a list that
mixes numbers with arrays, or with numbers that numpy computes while tracing (`[np.sqrt(2), 1]`), or that
nests them in further lists. Finds `any`, `all`, `in`, sorting and comparisons of lists over arrays or their
items, and any use of an array of strings.

## Why it hurts torch.compile
Dynamo translates numpy code to tensor code. An array is a tensor to it, so its value must be read back, and
the graph ends there. The same is true of `np.prod(x.shape)`: the sizes are known, but what numpy computes
from them is not. A list that contains only arrays is stacked; for any other list, torch would have to read
the values. An array of strings cannot be a tensor, so Dynamo cannot represent it.

## Use instead
Keep the array, or preferably the tensor that it was made from. For numbers that are known while tracing, use
`math` (`math.prod(x.shape)` instead of `int(np.prod(x.shape))`). For strings, use a list.

## Limits
Arithmetic between arrays and `torch.from_numpy` are traced and not reported. What numpy computes from single
numbers (`np.sqrt(x.shape[-1])`, `int(np.ceil(n / 2))`, `np.array(0.5)`) stays known while tracing, except for
a branch on it and for the functions of `math` that round it or test it. A number that numpy computed before
(`self.hop = np.prod(rates)` in `__init__`) is known as a size and for `int` and `float`; a result that is
computed from it is an array. From integers alone, numpy computes an integer while tracing (`np.round(4)`,
`np.maximum(n, 2)`): that is reported where Python needs a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.rules._names import receiver_class, sizes
from tcready.static.engine.facts import Call, Contains, Index, Test
from tcready.static.engine.knowledge import (
    ARRAY,
    FOLDING,
    NUMBER,
    OF_TEXT,
    WHOLE,
    is_number_of_numpy,
    is_text,
)
from tcready.static.engine.values import Mapping, Plain, Sequence, Value, members_of, options
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located

ARRAYS = (ARRAY, NUMBER)
CONVERSIONS = frozenset({"int", "float", "bool", "complex"})
MAKERS = frozenset({"numpy.array", "numpy.asarray"})
OF_A_LIST = MAKERS | frozenset(f"numpy.{name}" for name in FOLDING)
"""Functions that make one array of a list."""
OF_ARRAYS = frozenset(
    f"numpy.{name}" for name in "column_stack concatenate dstack hstack row_stack stack vstack".split()
)
"""Functions that make one array of each member of a list: those that take `Sequence[ArrayLike]` in `torch._numpy`."""
NOT_FLOAT = frozenset(
    f"math.{name}"
    for name in "ceil comb factorial floor gcd isclose isfinite isinf isnan isqrt lcm perm trunc".split()
)
"""Functions of `math` that give a whole number or a truth: of a number of numpy Dynamo works out the others."""
ASKED = frozenset(
    {"if", "while", "ifexp", "assertion", "and", "or", "not", "comprehension", "filter", "members", "order"}
)

WORDS = {
    "ifexp": "if",
    "comprehension": "if",
    "assertion": "assert",
    "members": "==",
    "order": "sorted",
}


def check(fact: Call | Test | Index | Contains) -> Claim | None:
    if isinstance(fact, Contains):
        return Claim("`in` on a numpy array reads its values back") if array(fact.container) else None
    if _uses_text(fact):
        return Claim("an array of strings: Dynamo converts arrays to tensors, which cannot contain strings")
    if isinstance(fact, Index):
        place = isinstance(fact.base, (Sequence, Mapping)) and array(fact.index)
        place = place or (isinstance(fact.base, Sequence) and whole(fact.index))
        if place or any(array(bound) or whole(bound) for bound in fact.slices):
            return Claim("a numpy number as an index: its value has to be read, and the graph ends here")
        return None
    if isinstance(fact, Test):
        if fact.kind in ASKED and all(v in ARRAYS or is_number_of_numpy(v) for v in options(fact.value)):
            return Claim(
                f"`{WORDS.get(fact.kind, fact.kind)}` on the value of a numpy array: Dynamo cannot know which branch runs"
            )
        return None
    name = fact.constructed
    if name == "range" and any(v in ARRAYS for arg in fact.args for v in options(arg)):
        return Claim("`range` over a numpy array: its value has to be read back to Python")
    if name in ("any", "all") and any(map(_walks_arrays, fact.args)):
        return Claim(
            f"Python's `{name}` needs the truth values of numpy arrays: a branch that Dynamo cannot decide"
        )
    if any(map(array, sizes(fact))):
        return Claim("a numpy array is used as a size: its value has to be read, and the graph ends here")
    if any(map(array, fact.numbers)):
        return Claim(
            "a numpy array is passed where torch takes a number: its value is read, and the graph ends here"
        )
    if (name in CONVERSIONS or name == "range") and any(map(whole, fact.args)):
        return Claim(f"`{name}` of a numpy integer: Dynamo does not convert it to a Python number")
    if name in NOT_FLOAT and any(map(is_number_of_numpy, fact.args)):
        return Claim(f"`{name}` of a numpy number: Dynamo does not convert it to a Python number")
    if (name in CONVERSIONS or name.startswith("math.")) and any(map(array, fact.args)):
        return Claim(f"`{name}` of a numpy array reads its value back: the graph ends here")
    if name in MAKERS and fact.args and is_text(fact.args[0]):
        return Claim(f"`{name}` of strings: Dynamo converts arrays to tensors, which cannot contain strings")
    if fact.args and _reads_list(name, fact.args[0]):
        return Claim(f"`{name}` of a list that mixes arrays and numbers: the graph ends here")
    if fact.receiver is not None and (
        (fact.method == "item" and whole(fact.receiver))
        or (fact.method == "tolist" and is_number_of_numpy(fact.receiver))
    ):
        return Claim(f"`.{fact.method}()` of a numpy number: Dynamo does not convert it to a Python number")
    # `.item(place)` is traced as an index
    reads = fact.method == "tolist" or (fact.method == "item" and not fact.args)
    if reads and receiver_class(fact) == ARRAY.name:
        return Claim(f"`.{fact.method}()` of a numpy array reads it back: the graph ends here")
    return None


def whole(value: Value) -> bool:
    return all(isinstance(v, Plain) and v.kind == WHOLE for v in options(value))


def array(value: Value) -> bool:
    return ARRAY in options(value)


def _uses_text(fact: Call | Test | Index) -> bool:
    if isinstance(fact, Call):
        return fact.receiver == OF_TEXT or OF_TEXT in fact.args
    return isinstance(fact, Index) and fact.base == OF_TEXT


def _walks_arrays(value: Value) -> bool:
    """An array, or a list, tuple or iterator with one among its members."""
    return any(
        array(v) or (isinstance(v, Sequence) and any(map(array, members_of(v)))) for v in options(value)
    )


def _reads_list(name: str, given: Value) -> bool:
    """Whether torch has to read the values of arrays to make one of a list."""
    if not isinstance(given, Sequence):
        return False
    if name in OF_ARRAYS:
        return any(map(_mixes_arrays, members_of(given)))
    return name in OF_A_LIST and _mixes_arrays(given)


def _mixes_arrays(value: Value) -> bool:
    """A list with arrays beside something else, or in lists inside it: not one of arrays alone."""
    if not isinstance(value, Sequence):
        return False
    members = members_of(value)
    return not all(map(_is_array, members)) and any(map(_holds_array, members))


def _holds_array(value: Value) -> bool:
    return _is_array(value) or (isinstance(value, Sequence) and any(map(_holds_array, members_of(value))))


def _is_array(value: Value) -> bool:
    """An array, or a number that numpy made while tracing, of which Dynamo makes one."""
    return value == ARRAY or is_number_of_numpy(value)


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._numpy import without_numpy

    return without_numpy(place)


RULE = Rule(
    code="TCR209",
    name="numpy-to-number",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB0033",
        "GB0059",
        "GB0087",
        "GB0109",
        "GB0124",
        "GB0170",
        "GB0185",
        "GB0208",
    ),
    facts=(Call, Test, Index, Contains),
    check=check,
    rewrite=rewrite,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        weights = np.array([np.sqrt(x.shape[-1]), 1.0])  # BAD
        table = np.array([[p / np.power(100, i / 4) for i in range(4)] for p in range(3)])  # BAD
        joined = np.concatenate([[np.sqrt(2.0), 1.0], [1.0, 2.0]])  # BAD
        return x.sum() + torch.from_numpy(weights).sum() + torch.from_numpy(table) + torch.from_numpy(joined)
""",
            setup="""
import numpy as np
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        order = np.argsort((1, 0))
        if any([order[0] == 1, order[1] == 1]):  # BAD
            y = y + 1
        return y * len(LETTERS[:2])  # BAD
""",
            setup="""
import numpy as np

LETTERS = np.array(["a", "b", "c"])
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        if np.sqrt(y.shape[-1]) > 2:  # BAD
            y = y + 1
        half = math.floor(np.log2(5))  # BAD
        most = np.ceil(np.log(8)).astype("int").item()  # BAD
        return y * half * most
""",
            setup="""
import math

import numpy as np
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        scale = float(np.sin(y.numpy()).mean())  # BAD
        return y * scale
""",
            setup="""
import numpy as np
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        total = y.numpy().sum().item()  # BAD
        rows = y.numpy().tolist()  # BAD
        return y * total + len(rows)
""",
            setup="""
import numpy as np
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        inner = np.prod(x.shape[1:])
        y = y.reshape(inner, -1)  # BAD
        if inner > 3:  # BAD
            y = y + 1
        return y
""",
            inputs="(torch.randn(4, 8, 2),)",
            setup="""
import numpy as np
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        for step in range(np.prod(x.shape[:2])):  # BAD
            y = y + step
        return y
""",
            setup="""
import numpy as np
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        place = np.array((0, 2))
        return y[:, place[0] : place[1]] + 1  # BAD
""",
            setup="""
import numpy as np
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        place = np.array((0, 2))
        return [y, y + 1, y + 2][place[1]]  # BAD
""",
            setup="""
import numpy as np
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        rows = int(np.maximum(x.shape[0], 2))  # BAD
        return y[: np.round(3)] + rows  # BAD
""",
            setup="""
import numpy as np
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        rows = np.array([place for place in range(2)])
        assert (rows >= 0).all(), "no row is negative"
        assert (rows < 4).all(), f"no row is above {x.shape[0]}"  # BAD
        return y + int(np.array(3)) + math.floor(np.array(3.5))  # BAD
""",
            setup="""
import math

import numpy as np
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        places = np.linspace(0, 1, 4)
        grid = np.array([(a, b) for a in places for b in places])  # BAD
        ends = np.asarray([places[0], 0.5, 1.0, 2.0])  # BAD
        return y + torch.from_numpy(grid).sum() + torch.from_numpy(ends)
""",
            inputs="(torch.randn(2, 4),)",
            setup="""
import numpy as np
""",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        roots = np.array([np.sqrt(2.0), np.sqrt(3.0)])
        joined = np.stack([[np.sqrt(2.0), np.sqrt(3.0)], [1.0, 2.0]])
        return x.sum() + torch.from_numpy(roots).sum() + torch.from_numpy(joined)
""",
            setup="""
import numpy as np
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        places = np.linspace(0, 1, 4)
        rows = np.array([places, places * 2])
        return y + torch.from_numpy(rows).sum() + torch.from_numpy(np.array([1.0, np.pi, 0.0, 0.0]))
""",
            inputs="(torch.randn(2, 4),)",
            setup="""
import numpy as np
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        scale = torch.sin(y).mean()
        return y * scale
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = np.prod([2, 4])
        self.outer = int(np.prod([2, 2]))

    def forward(self, x):
        half = int(np.ceil(x.shape[-1] / 2)) + int(np.round(self.outer * 1.0)) - int(np.floor(4 / 1))
        x = x * float(np.log(5))
        return x[:, :half].reshape(-1) * np.prod(x.shape) + x.view(self.inner, -1).sum() + self.outer
""",
            setup="""
import numpy as np
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        wave = torch.from_numpy(np.sin(y.numpy()))
        root = np.sqrt(x.shape[-1]) + math.prod(x.shape) + math.sqrt(np.sqrt(4.0)) + np.array(2.0).item()
        root = root + int(np.array(3.5)) + float(np.asarray(0.5) * 2) + math.exp(np.array(0.5))
        y = y + y[:, np.array((0, 1))].sum() + y[: np.zeros((2, 3)).shape[0]].sum()
        return y * root + wave + torch.from_numpy(np.linspace(0, 1, 8))
""",
            setup="""
import math

import numpy as np
""",
        ),
    ),
)
