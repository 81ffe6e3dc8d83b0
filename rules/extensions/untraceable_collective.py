"""A collective that Dynamo does not trace is called: `barrier`, `broadcast`, object collectives."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call
from tcready.static.domain.values import Const

SKIPPED = frozenset("barrier broadcast reduce gather scatter all_to_all new_group".split())
"""Measured in a group of one process."""
OBJECTS = frozenset("all_gather_object gather_object broadcast_object_list".split())
TRACED = frozenset("all_reduce all_gather all_gather_into_tensor reduce_scatter_tensor".split())


def check(fact: Call) -> Claim | None:
    name = fact.constructed
    module, _, last = name.rpartition(".")
    if module not in ("torch.distributed", "torch.distributed.distributed_c10d"):
        return None
    if last in OBJECTS:
        return Claim(f"`{name}` in compiled code: tracing it raises an error", effect="compile_error")
    if last in SKIPPED or (last in TRACED and fact.keyword("async_op") == Const(True)):
        return Claim(f"`{name}` is not traced with these arguments: the graph ends here")
    return None


RULE = Rule(
    code="TCR414",
    gb_ids=("GB0007", "GB0172", "GB0156"),
    facts=(Call,),
    check=check,
    no_rewrite="Another collective needs another protocol between the processes.",
    module=__name__,
)
