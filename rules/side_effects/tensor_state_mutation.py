"""The state of a tensor itself is changed: `requires_grad`, `.data`, `resize_`, shared memory."""

from tcready.fixes.rewriters.names import method_of_tensor, receiver_class
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import LEAKED_FLAG, Call, Store
from tcready.static.domain.values import Const, tensor_of

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
    facts=(Call, Store),
    check=check,
    no_rewrite="A graph changes the values of a tensor, not its properties. Do it before the call.",
    module=__name__,
)
