"""A sparse or nested tensor is created or used in compiled code."""

from tcready.fixes.rewriters.names import method_of_tensor
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call, Sparse
from tcready.static.domain.values import is_sparse, tensor_of

NAMES = frozenset({"torch.sparse_coo_tensor", "torch.nested.nested_tensor", "torch.nested.as_nested_tensor"})

OF_SPARSE = frozenset(f"torch.sparse.{name}" for name in ("mm", "sum", "softmax", "log_softmax")) | {"torch.spmm"}
"""Functions that are called for the sake of a sparse first argument."""
SPARSE_METHODS = tuple(
    """
    coalesce is_coalesced _indices _values _nnz crow_indices col_indices ccol_indices row_indices sparse_dim
    dense_dim
    """.split()
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
    if tensor is not None and name not in OF_SPARSE:  # to what follows the break that made it, it comes in from outside
        return Claim("a sparse tensor, according to its use: a graph cannot contain it", "medium")
    return None


RULE = Rule(
    code="TCR211",
    gb_ids=("GB0277", "GB0015", "GB0090", "GB0016", "GB0007"),
    facts=(Call, Sparse),
    check=check,
    no_rewrite="A dense layout needs another algorithm.",
    module=__name__,
)
