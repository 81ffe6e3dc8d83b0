"""A sparse or nested tensor is created or used in compiled code.

## What it does
Finds `to_sparse`, `torch.sparse_coo_tensor` and `torch.nested.nested_tensor` if the compiled forward reaches
them. Also finds arguments and buffers that are used as only sparse tensors are: in `torch.sparse.mm` and
similar functions, and with `coalesce` and other methods that a dense tensor does not support.

## Why it hurts torch.compile
Dynamo has no fake tensors for these layouts. It ends the graph where such a tensor is created, and
computations on the tensor run eagerly. Dynamo cannot accept one that was created earlier either: then the
whole function runs eagerly.

## Use instead
Dense tensors and a mask. For ragged attention, use `torch.nn.attention.flex_attention`. Keep sparse products
outside of the compiled region.

## Limits
Jagged nested tensors that are arguments are not reported. Sparse tensors that are used like dense ones are
not reported, unless an annotation or the documentation of the function says that they are sparse.
`torch.sparse.mm` and `torch.spmm` also accept dense tensors, and are traced with those.
"""

from tcready.rules._names import method_of_tensor
from tcready.static.engine.facts import Call, Sparse
from tcready.static.engine.values import is_sparse, tensor_of
from tcready.static.rule import Claim, Rule, Sample

NAMES = frozenset({"torch.sparse_coo_tensor", "torch.nested.nested_tensor", "torch.nested.as_nested_tensor"})

OF_SPARSE = frozenset(f"torch.sparse.{name}" for name in ("mm", "sum", "softmax", "log_softmax")) | {
    "torch.spmm"
}
"""Functions that are called for the sake of a sparse first argument."""
SPARSE_METHODS = (
    "coalesce",
    "is_coalesced",
    "_indices",
    "_values",
    "_nnz",
    "crow_indices",
    "col_indices",
    "ccol_indices",
    "row_indices",
    "sparse_dim",
    "dense_dim",
)


def check(fact: Call | Sparse) -> Claim | None:
    if isinstance(fact, Sparse):
        # a call in a loop takes the whole function with it: the break counts where the tensor is used
        if fact.handed and {"for", "while"} & {*fact.where.enclosing}:
            return None
        return Claim(
            "a sparse tensor, according to its creation or the documentation: a graph cannot contain it",
            "medium",
            "frame_skip",
        )
    name = fact.constructed
    if name in NAMES or method_of_tensor(fact, "to_sparse"):
        return Claim("a sparse or nested tensor is created: the graph ends here")
    used = fact.args[0] if name in OF_SPARSE and fact.args else None
    if method_of_tensor(fact, *SPARSE_METHODS):
        used = fact.receiver
    tensor = None if used is None or is_sparse(used) else tensor_of(used)
    if tensor is not None and (tensor.graph_input or tensor.leaf):
        message = "an input is a sparse tensor, according to its use: the function runs eagerly"
        return Claim(message, "medium", "frame_skip")
    if (
        tensor is not None and name not in OF_SPARSE
    ):  # to what follows the break that made it, it comes in from outside
        return Claim("a sparse tensor, according to its use: a graph cannot contain it", "medium")
    return None


RULE = Rule(
    code="TCR211",
    name="sparse-or-nested-tensor",
    effect="graph_break",
    level="error",
    gb_ids=("GB0277", "GB0015", "GB0090", "GB0016", "GB0007"),
    facts=(Call, Sparse),
    check=check,
    no_rewrite="A dense layout needs another algorithm.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        weight = y.to_sparse()  # BAD
        return y + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        rows = torch.nested.nested_tensor([y[0], y[1]])  # BAD
        return y + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, adjacency, x):
        y = x * 2
        return torch.sparse.mm(adjacency, y) + 1  # BAD
""",
            inputs="(torch.eye(4).to_sparse(), torch.randn(4, 8))",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, adjacency):
        y = x * 2
        y = torch.spmm(adjacency, y)  # BAD
        return y + 1
""",
            inputs="(torch.randn(4, 8), torch.eye(4).to_sparse())",
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("adjacency", torch.eye(4).to_sparse())

    def forward(self, x):
        y = x * 2
        places = self.adjacency.coalesce().indices()  # BAD
        return y[places[0]]
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        weight = y * (y > 0)
        return y + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = torch.stack([x[0], x[1]]).to_dense()
        return y.to(torch.float32)
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        return torch.sparse.mm(y, y.t())
"""
        ),
    ),
)
