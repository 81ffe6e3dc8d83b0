"""A collective that Dynamo does not trace is called: `barrier`, `broadcast`, object collectives.

## What it does
Finds `torch.distributed` calls that have no traceable form, asynchronous collectives, and the collectives of
Python objects, in compiled code.

## Why it hurts torch.compile
`all_reduce`, `all_gather`, `all_gather_into_tensor` and `reduce_scatter_tensor` become operators of the
graph. Dynamo skips the others, so the graph ends there. Collectives of Python objects fail while Dynamo
traces them, and the compiled call raises an error.

## Use instead
The traceable collectives, or `torch.distributed._functional_collectives`. Synchronize and exchange objects
outside of the compiled region.

## Limits
The rule does not know whether a process group is initialized. Without one, these calls raise an error in
eager code too.
"""

from tcready.static.engine.facts import Call
from tcready.static.engine.values import Const
from tcready.static.rule import Claim, Rule, Sample

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
    name="untraceable-collective",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB0007",
        "GB0172",
        "GB0156",
    ),
    facts=(Call,),
    check=check,
    no_rewrite="Another collective needs another protocol between the processes.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        dist.barrier()  # BAD
        y = y * 2
        dist.broadcast(y, 0)  # BAD
        return y * 3
""",
            setup="""
import torch.distributed as dist

if not dist.is_initialized():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        work = dist.all_reduce(y, async_op=True)  # BAD
        return y * 3
""",
            setup="""
import torch.distributed as dist

if not dist.is_initialized():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        gathered = [None]
        dist.all_gather_object(gathered, {"a": 1})  # BAD
        return y * 3
""",
            setup="""
import torch.distributed as dist

if not dist.is_initialized():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
""",
            raises="unregistered member on an OpaqueObject",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        dist.all_reduce(y)
        return y * 3
""",
            setup="""
import torch.distributed as dist

if not dist.is_initialized():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        gathered = [torch.empty_like(y)]
        dist.all_gather(gathered, y)
        if dist.is_initialized() and dist.get_world_size() > 1:
            y = y + dist.get_rank()
        return gathered[0] * 3
""",
            setup="""
import torch.distributed as dist

if not dist.is_initialized():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
""",
        ),
    ),
)
