"""A tensor is passed to a library that computes outside of torch (SciPy, scikit-learn, pandas).

## What it does
Finds calls of functions of `scipy`, `sklearn` and `pandas` with a tensor among their arguments, and calls of
functions of `scipy` with any arguments.

## Why it hurts torch.compile
The library converts the tensor to its own array and computes in native code, which Dynamo cannot trace. The
graph ends at the call, and a tensor on a GPU would have to be copied first.

## Use instead
The equivalent operation of torch, if there is one. Otherwise wrap the call in a registered operator
(`torch.library.custom_op`), or move it after the compiled region; this is usually possible for the matchers
of losses.

## Limits
Functions of NumPy that torch knows are traced and not reported here. If a function of `scipy` receives
neither a tensor nor an array, the confidence is medium: of 63 functions that were tested with Python numbers
and lists, Dynamo traces 7 (`scipy.special.softmax`, `scipy.linalg.hadamard`), because they are written in
NumPy only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.schema.words import Confidence
from tcready.static.engine.facts import Call
from tcready.static.engine.knowledge import ARRAY
from tcready.static.engine.values import holds_tensor, options
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located

LIBRARIES = ("scipy.", "sklearn.", "pandas.")
OF_ARRAYS = "scipy."
"""It computes with arrays of numpy by means that Dynamo does not trace (all 21 functions that were tried), and with
numbers and lists too (56 of the 63 that were tried)."""


def check(fact: Call) -> Claim | None:
    name = fact.constructed
    given = (*fact.args, *(value for _, value in fact.keywords))
    foreign = name.startswith(LIBRARIES) and any(map(holds_tensor, given))
    message = f"`{name}` computes outside of torch: the graph ends here"
    if foreign:
        return Claim(message)
    if name.startswith(OF_ARRAYS):
        # what has left torch already is seldom in the way of a usual call, where a test decides on it
        sure: Confidence | None = None if any(ARRAY in options(value) for value in given) else "medium"
        return Claim(message, "low" if fact.where.conditional else sure)
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._operators import matching_operator

    return matching_operator(place)


RULE = Rule(
    code="TCR416",
    name="foreign-library-call",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB0007",
        "GB0008",
        "GB0156",
        "GB0157",
        "GB0208",
        "GB0294",
        "GB4818",
    ),
    facts=(Call,),
    check=check,
    rewrite=rewrite,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        rows, columns = linear_sum_assignment(y)  # BAD
        return y[torch.as_tensor(rows), torch.as_tensor(columns)]
""",
            setup="""
from scipy.optimize import linear_sum_assignment
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        return y + torch.from_numpy(scipy.special.ive(1, y.abs().numpy()))  # BAD
""",
            setup="""
import scipy.special
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        length = next_fast_len(y.size(1))  # BAD
        return torch.fft.rfft(y, length)
""",
            setup="""
from scipy.fft import next_fast_len
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        rows, columns = linear_sum_assignment(y.numpy())  # BAD
        return y[torch.as_tensor(rows), torch.as_tensor(columns)]
""",
            setup="""
from scipy.optimize import linear_sum_assignment
""",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        return y.gather(1, y.argmin(dim=1, keepdim=True)).squeeze(1)
"""
        ),
    ),
)
