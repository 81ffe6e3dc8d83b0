"""A foreign function is called through `ctypes` in compiled code.

## What it does
Finds calls into `ctypes` and into libraries opened by it, reached from the compiled forward.

## Why it hurts torch.compile
Dynamo does not trace `ctypes`: the call ends the graph, and the function around it often runs eagerly as a
whole. A pointer (`data_ptr`) taken while tracing is that of no real tensor.

## Use instead
Register it as an operator, which Dynamo keeps in the graph: `@torch.library.custom_op("mylib::op",
mutates_args=())` over a function that calls the extension, and `@op.register_fake` over one that returns an
empty tensor of the result's shape and dtype. `op.register_autograd` gives it a backward.

## Limits
`x.data_ptr()` alone does not break, and is not reported.
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
    no_rewrite="Only the library knows its shapes: register the call as an operator with a fake kernel.",
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
