"""A foreign function is called through `ctypes` in compiled code.

## What it does
Finds calls of `ctypes`, and of libraries that it opened, in code that the compiled forward reaches.

## Why it hurts torch.compile
Dynamo does not trace `ctypes`. The call ends the graph, and often the whole function around it runs eagerly.
A pointer (`data_ptr`) that is taken while tracing does not point to a real tensor.

## Use instead
Register it as an operator, which Dynamo keeps in the graph:
`@torch.library.custom_op("mylib::op", mutates_args=())` on a function that calls the extension, and
`@op.register_fake` on a function that returns an empty tensor with the shape and dtype of the result.
`op.register_autograd` adds a backward.

## Limits
`x.data_ptr()` by itself does not break the graph and is not reported.
"""

from tcready.rules._names import receiver_class
from tcready.static.engine.facts import Call
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Call) -> Claim | None:
    if fact.constructed.startswith("ctypes.") or receiver_class(fact).startswith("ctypes."):
        return Claim("call through `ctypes`: the graph ends here")
    return None


RULE = Rule(
    code="TCR402",
    name="ctypes-call",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB0156",
        "GB8977",
    ),
    facts=(Call,),
    check=check,
    no_rewrite="Only the library determines the shapes. Register the call as an operator with a fake kernel.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        size = LIB.abs(-3)  # BAD
        return y + size
""",
            setup="""
import ctypes

LIB = ctypes.CDLL(None)
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        LIB.memcpy(ctypes.c_void_p(y.data_ptr()), ctypes.c_void_p(x.data_ptr()), 4)  # BAD
        return y + 1
""",
            setup="""
import ctypes

LIB = ctypes.CDLL(None)
""",
        ),
    ),
    good=(
        Sample(
            """
@torch.library.custom_op("tcready_ctypes::scaled", mutates_args=())
def scaled(x: torch.Tensor, size: int) -> torch.Tensor:
    return x * LIB.abs(size)


@scaled.register_fake
def _(x, size):
    return torch.empty_like(x)


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        return scaled(y, -3) + 1
""",
            setup="""
import ctypes

LIB = ctypes.CDLL(None)
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        return y + abs(-3)
""",
            setup="""
import ctypes

LIB = ctypes.CDLL(None)
""",
        ),
    ),
)
