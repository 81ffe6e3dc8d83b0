"""The state of a tensor itself is changed: `requires_grad`, `.data`, `resize_`, shared memory.

## What it does
Finds assignments to `requires_grad` and `.data`; `requires_grad_()`, `resize_`, `resize_as_`,
`share_memory_`, `storage()` and `is_pinned()` on tensors; and method calls on an `untyped_storage()`. Also
finds `squeeze_`, `unsqueeze_`, `t_`, `transpose_`, `detach_` and similar methods on an input of the compiled
code: an argument, a parameter or a buffer.

## Why it hurts torch.compile
These change or read properties of a tensor, not its values. A graph of operations cannot represent that, so
the graph ends there.

## Use instead
`x.detach()`, or a tensor that gets the flag before the compiled region. Use `y = new` or `y.copy_(new)`
instead of `.data`, `torch.empty` of the right size instead of `resize_`, and `x = x.squeeze(-1)` instead of
`x.squeeze_(-1)`.

## Limits
Reading `.data`, in-place arithmetic, `squeeze_` and similar methods on a tensor that the forward created, and
assigning `.data` of a parameter are harmless. `requires_grad_()` is also harmless on a tensor that already
has the flag, or if nothing that depends on the tensor leaves the function; the rule does not distinguish
these. On a tensor that the forward created, it is reported with low confidence if gradients are off, unless
the variable is read after a later break.
"""

from tcready.rules._names import method_of_tensor, receiver_class
from tcready.static.engine.facts import LEAKED_FLAG, Call, Store
from tcready.static.engine.values import Const, tensor_of
from tcready.static.rule import Claim, Rule, Sample

IN_PLACE_VIEWS = frozenset(
    "as_strided_ detach_ resize_ resize_as_ set_ squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_".split()
)
"""Methods that make a tensor another view of its storage: torch's operators with the tag `inplace_view`."""


def check(fact: Call | Store) -> Claim | None:
    if isinstance(fact, Store):
        owner = tensor_of(fact.owner) if fact.kind == "attribute" and fact.owner is not None else None
        made = owner is not None and not owner.leaf and not owner.graph_input
        if owner and (fact.name == "requires_grad" or (fact.name == "data" and made)):
            return Claim(f"`.{fact.name}` of a tensor is assigned: the graph ends here")
        return None
    if fact.method in IN_PLACE_VIEWS and fact.receiver is not None:
        tensor = tensor_of(fact.receiver)
        # a number made a tensor is known while tracing, as an argument is
        if tensor is not None and (tensor.leaf or (tensor.graph_input and tensor.rank != 0)):
            return Claim(
                f"`{fact.method}` changes the layout of an argument, a parameter or a buffer: the graph ends here"
            )
    if method_of_tensor(fact, "resize_", "resize_as_", "share_memory_", "storage", "is_pinned"):
        return Claim(f"`{fact.method}` on a tensor: the graph ends here")
    if receiver_class(fact) == "torch.UntypedStorage":
        return Claim(f"`{fact.method}` of a tensor's storage: the graph ends here")
    if fact.method == "requires_grad_":
        if receiver_class(fact).startswith("torch.nn."):
            return Claim("`requires_grad_` on a module: the graph ends here")
        given = fact.args[0] if fact.args else fact.keyword("requires_grad")
        tensor = tensor_of(fact.receiver) if fact.receiver is not None else None
        # only a parameter has the flag for sure, which it then loses
        keeps = given == Const(False) and not (tensor is not None and tensor.leaf and not tensor.buffer)
        if method_of_tensor(fact, "requires_grad_") and not keeps:
            leaked = fact.gb_id == LEAKED_FLAG
            return Claim("`requires_grad_` on a tensor: the graph ends here", "low" if leaked else "medium")
    return None


RULE = Rule(
    code="TCR322",
    name="tensor-state-mutation",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB8985",
        "GB0125",
        "GB0206",
        "GB0056",
        "GB0126",
        "GB0127",
        "GB0117",
        "GB0148",
        "GB0208",
        "GB0156",
        "GB4197",
    ),
    facts=(
        Call,
        Store,
    ),
    check=check,
    no_rewrite="A graph changes the values of a tensor, not its properties. Do it before the call.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        x.requires_grad_()  # BAD
        return y + x
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        size = y.untyped_storage().nbytes()  # BAD
        y = (y * 2).detach()
        y.requires_grad = True  # BAD
        return y + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        y.data = x  # BAD
        return y + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        z = torch.ones(4)
        z.resize_(2, 2)  # BAD
        y.share_memory_()  # BAD
        pinned = y.is_pinned()  # BAD
        return y + z.sum() + pinned
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        y = x * 2
        self.layer.requires_grad_(False)  # BAD
        return self.layer(y)
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        y = x * 2
        self.layer.weight.requires_grad_(False)  # BAD
        return self.layer(y)
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("shift", torch.ones(1, 8))

    def forward(self, x):
        y = x * 2
        x.unsqueeze_(0)  # BAD
        y = y + x
        self.shift.squeeze_(0)  # BAD
        return y + self.shift
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = (x * 2).detach()
        return y + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        y = x * 2
        y.foo = 1
        y.grad = None
        z = y.detach().requires_grad_(False)
        self.layer.weight.data.clamp_(-1, 1)
        self.layer.weight.data = self.layer.weight.data * 0.5
        leaf = y.is_leaf or y.requires_grad
        y.add_(1)
        y.unsqueeze_(0).squeeze_(0)
        x[0].unsqueeze_(0)
        y[:, 0] = 0
        return self.layer(y).detach() * 0 + z + y.data.mean() + leaf
"""
        ),
    ),
)
