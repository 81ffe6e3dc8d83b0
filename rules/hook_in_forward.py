"""A module hook is registered or removed in compiled code.

## What it does
Finds `register_forward_hook`, `register_forward_pre_hook`, `register_full_backward_hook` and similar methods
on a module, and `handle.remove()`, in code that the compiled forward reaches.

## Why it hurts torch.compile
The dictionaries of hooks belong to the module, and Dynamo cannot create the handle object. The graph ends at
both calls, and a hook that is not removed makes the next call recompile.

## Use instead
Register hooks before compiling. To inspect an intermediate value, return it, or use `torch.utils.hooks`
around the eager module.

## Limits
`tensor.register_hook` is traced and not reported. The code inside a hook is not checked.
"""

from tcready.static.engine.facts import Call
from tcready.static.engine.values import tensor_of
from tcready.static.rule import Claim, Rule, Sample

HOOKS = frozenset(
    """
    register_forward_hook register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook
    register_backward_hook register_state_dict_pre_hook register_load_state_dict_post_hook
    """.split()
)


def check(fact: Call) -> Claim | None:
    if fact.method in HOOKS and fact.receiver is not None and not tensor_of(fact.receiver):
        return Claim(f"`{fact.method}` in compiled code: the graph ends here")
    if fact.name == "torch.utils.hooks.RemovableHandle.remove":
        return Claim("a hook is removed in compiled code: the graph ends here")
    return None


RULE = Rule(
    code="TCR412",
    name="hook-in-forward",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB0467",
        "GB0013",
        "GB0083",
        "GB0156",
    ),
    facts=(Call,),
    check=check,
    no_rewrite="The author has to decide when the hook is needed. Register it before compiling.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        y = x * 2
        handle = self.linear.register_forward_hook(double)  # BAD
        y = self.linear(y)
        handle.remove()  # BAD
        return y + 1
""",
            setup="""
def double(module, args, out):
    return out * 1
""",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.linear.register_forward_hook(double)

    def forward(self, x):
        return self.linear(x * 2) + 1
""",
            setup="""
def double(module, args, out):
    return out * 1
""",
        ),
    ),
)
