"""A custom operator (`torch.ops.ns.op`) is called, and no fake kernel for it is found.

## What it does
Finds calls of `torch.ops.<namespace>.<op>` outside of torch's own namespaces, and of functions that
`torch.library.custom_op` turned into operators, unless the analyzed sources register a fake kernel.

## Why it hurts torch.compile
Dynamo runs the operator on fake tensors to determine the shape of the result. Without a fake kernel it
cannot, and the graph ends at each call. If the operator was defined in Python, the compiled call raises an
error.

## Use instead
`@torch.library.register_fake("mylib::op")` on a function that returns an empty tensor with the shape and
dtype of the result. `torch.library.opcheck` tests it. In C++, use a `Meta` kernel.

## Limits
A library may register its fake kernels where this analysis does not look (C++, an installed package), so the
confidence is medium. Of operators defined in Python, the rule knows those that a decorator
`torch.library.custom_op("ns::op", ...)` defines; without `register_fake`, the compiled call raises an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.static.engine.facts import Call
from tcready.static.engine.knowledge import CUSTOM_OP
from tcready.static.engine.values import Tensor
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located

BUILT_IN = frozenset(
    """
    aten prim prims debugprims quantized quantized_decomposed c10d c10d_functional inductor higher_order mkldnn mkl
    sparse symm_mem rngprims onednn profiler cuda xnnpack prepacked static_runtime fsdp mkldnn_prepacked
    """.split()
)


def check(fact: Call) -> Claim | None:
    name = fact.constructed
    if name.startswith(f"{CUSTOM_OP}."):
        operator = "::".join(name.removeprefix(f"{CUSTOM_OP}.").split(".", 1))
        return Claim(
            f"`{operator}` has no fake kernel in the code that was read: without one, compiling fails here",
            "medium",
            "compile_error",
        )
    if not name.startswith("torch.ops.") or has_fake_kernel(fact):
        return None
    namespace = name.removeprefix("torch.ops.").partition(".")[0]
    if namespace in BUILT_IN or namespace.startswith("_"):
        return None
    return Claim(
        f"`{name}` has no fake kernel in the code that was read: without one, the graph ends here", "medium"
    )


def has_fake_kernel(fact: Call) -> bool:
    """The engine saw a registration: it then says for sure that the operator gives a tensor."""
    return isinstance(fact.result, Tensor) and fact.result.sure


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._fake_kernels import fake_kernel

    return fake_kernel(place)


RULE = Rule(
    code="TCR404",
    name="operator-without-fake-kernel",
    effect="graph_break",
    level="error",
    gb_ids=("GB0090",),
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
        z = torch.ops.tcready_bare.twice(y)  # BAD
        return z + 1
""",
            setup="""
LIBRARY = torch.library.Library("tcready_bare", "FRAGMENT")
if not hasattr(torch.ops.tcready_bare, "twice"):
    LIBRARY.define("twice(Tensor x) -> Tensor")
    LIBRARY.impl("twice", lambda x: x * 2, "CPU")
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        z = twice(y)  # BAD
        return z + 1
""",
            setup="""
@torch.library.custom_op("tcready_made::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2
""",
            raises="no fake impl",
        ),
    ),
    good=(
        Sample(
            """
@torch.library.custom_op("tcready_full::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        z = twice(y)
        return z + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = torch.ops.aten.relu(x)
        z = torch.ops.aten.mul.Tensor(y, 2)
        return z + torch.ops.prims.sin(y)
"""
        ),
    ),
)
