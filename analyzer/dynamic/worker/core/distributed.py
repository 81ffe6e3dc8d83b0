"""A run over several processes: the part of one of the ranks that `torch.distributed.run` started.

Every rank runs the same stages and makes the same calls, so that the collectives of the model match. The first one
observes for all; the launcher reads the results of the others, and compares the graphs that each wrote down.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from tcready.dynamic.worker.core.case import RunError
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.frames import is_user_file, user_stack
from tcready.dynamic.worker.core.request import RankGraph, RankOperation, Work, graphs_path, with_device
from tcready.dynamic.worker.inputs.loading import named
from tcready.dynamic.worker.torch_internals import dynamo, graphs
from tcready.portable.events import to_schema
from tcready.schema.code_line import Frame
from tcready.schema.codec import as_json
from tcready.schema.parallel import BlocksRun, Ddp, DdpPart, DdpSplit, ParallelRun, RankRun
from torch import distributed, nn

OWN_STYLES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "colwise": ("ColwiseParallel", {}),
    "rowwise": ("RowwiseParallel", {}),
    "colwise_rep": ("ColwiseParallel", {"output_layouts": "Replicate"}),
    "colwise_gather_output": ("ColwiseParallel", {"output_layouts": "Replicate"}),
    "rowwise_rep": ("RowwiseParallel", {"input_layouts": "Replicate"}),
    "rowwise_split_input": ("RowwiseParallel", {"input_layouts": "Replicate"}),
    "sequence_parallel": ("SequenceParallel", {}),
}
"""The words of a plan that transformers writes into its models (`tp_plan`), as styles of torch with their layouts."""
Spread = Callable[[Any], Any]


def place_work(work: Work) -> Work:
    """Return the work of this rank: if the device is plain `cuda`, on a GPU of its own."""
    if work.options.processes and work.options.device == "cuda":
        return with_device(work, f"cuda:{os.environ['LOCAL_RANK']}")
    return work


def begin(work: Work) -> None:
    """Join the other ranks, unless the import of the target's module did that. Raises what joining raises."""
    if not work.options.processes:
        return
    device = torch.device(work.options.device)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if not distributed.is_initialized():
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")


def end(work: Work) -> None:
    if work.options.processes and distributed.is_initialized():
        distributed.destroy_process_group()


def agree_on_seconds(seconds: float, work: Work) -> float:
    """Return the first rank's seconds: decisions based on them would differ if each rank used its own clock."""
    if not work.options.processes:
        return seconds
    first = torch.tensor([seconds], device=work.options.device)
    distributed.broadcast(first, 0)
    return float(first.item())


def on_any(flag: bool, work: Work) -> bool:
    """Return whether the flag is set on any rank. Every rank has to call this: a rank that went on alone would wait in
    its next collective."""
    if not work.options.processes:
        return flag
    flags = torch.tensor([int(flag)], device=work.options.device)
    distributed.all_reduce(flags, distributed.ReduceOp.MAX)
    return bool(flags.item())


# How the model is spread over the ranks


def make_distributor(context: Context) -> Spread:
    """Return a function that distributes a new model over the ranks, in place: sharded, or parallel by a plan.

    DistributedDataParallel is not included: it wraps the model when that is compiled (`wrap_in_ddp`). Raises RunError if
    there is no plan, or if it names no module of the model.
    """
    work = context.work
    if work.options.parallel == "fsdp":
        return lambda model: _shard(model, work)
    if work.options.parallel == "tp":
        given = named(work.options.tp_plan, "--tp-plan", work) if work.options.tp_plan else None
        return lambda model: _parallelise(model, given, context)
    return lambda model: model


def blocks_of(model: nn.Module) -> tuple[str, ...]:
    """Return dotted names of the repeated parts of a model: the modules with parameters in its outermost ModuleLists;
    without any, those in its outermost Sequentials and ModuleDicts, except modules that hold no other."""
    for kinds in ((nn.ModuleList,), (nn.Sequential, nn.ModuleDict)):
        found: list[str] = []
        holders: list[str] = []
        for name, module in model.named_modules():
            if any(name.startswith(f"{holder}.") for holder in holders) or not isinstance(module, kinds):
                continue
            holders.append(name or "")
            found += [
                f"{name}.{key}" if name else key
                for key, child in module.named_children()
                if next(child.parameters(), None) is not None
                and (nn.ModuleList in kinds or any(True for _ in child.children()))
            ]
        if found:
            return tuple(found)
    return ()


def _shard(model: Any, work: Work) -> Any:
    from torch.distributed.fsdp import FSDPModule, fully_shard

    if not isinstance(model, nn.Module):
        raise RunError(f"--parallel fsdp: {work.target} is no module: fully_shard takes one")
    if any(isinstance(module, FSDPModule) for module in model.modules()):
        return model
    mesh = _mesh(work)
    for name in blocks_of(model):
        fully_shard(model.get_submodule(name), mesh=mesh)
    return fully_shard(model, mesh=mesh)


def _parallelise(model: Any, given: Any, context: Context) -> Any:
    from torch.distributed.tensor.parallel import parallelize_module

    work = context.work
    if not isinstance(model, nn.Module):
        raise RunError(f"--parallel tp: {work.target} is no module: parallelize_module takes one")
    if _in_parts(model):
        return model
    plan = plan_of(model, given)
    if not plan:
        raise RunError(
            f"--parallel tp: {type(model).__name__} has no plan of its own (tp_plan): "
            "name one, as in --tp-plan path.py::plan"
        )
    with warnings.catch_warnings(record=True) as unmatched:
        warnings.simplefilter("always")
        parallelize_module(model, _mesh(work), plan)
    lost = [key for key in plan if any(f"'{key}' could not be resolved" in str(each.message) for each in unmatched)]
    if len(lost) == len(plan):
        raise RunError(f"--parallel tp: the plan names no module of {type(model).__name__}: {', '.join(lost[:5])}")
    text = f"the tensor-parallel plan names modules that are not there: {', '.join(lost)}"
    if lost and text not in context.journal.observation.warnings:
        context.journal.warn(text)
    return model


def plan_of(model: nn.Module, given: Any) -> dict[str, Any]:
    """Return the dict for parallelize_module: the given plan, or what it returns for the model, or the model's own;
    empty if there is none. Raises RunError for an invalid plan."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import style as styles

    plan = given
    if callable(given) and not isinstance(given, Mapping):
        plan = given(model) if inspect.signature(given).parameters else given()
    if plan is None:
        plan = getattr(model, "tp_plan", None) or getattr(model, "_tp_plan", None) or {}
    if not isinstance(plan, Mapping):
        raise RunError(f"--tp-plan: expected a dict of module names to styles, got a {type(plan).__name__}")
    made: dict[str, Any] = {}
    for name, style in plan.items():
        if isinstance(style, styles.ParallelStyle):
            made[name] = style
        elif isinstance(style, str) and style in OWN_STYLES:
            kind, layouts = OWN_STYLES[style]
            made[name] = getattr(styles, kind)(**{key: Replicate() for key in layouts})
        else:
            word = repr(style) if isinstance(style, str) else f"an object of type {type(style).__name__}"
            other = "it stands in that of --tp-plan" if given is not None else "name a plan with --tp-plan"
            raise RunError(f"--parallel tp: {name}: {word} is no style of torch's; {other}")
    return made


def _mesh(work: Work) -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(torch.device(work.options.device).type, (distributed.get_world_size(),))


def _in_parts(model: nn.Module) -> tuple[str, ...]:
    """Return dotted names of the modules that hold a part of a parameter."""
    from torch.distributed.tensor import DTensor

    return tuple(
        name
        for name, module in model.named_modules()
        if any(isinstance(parameter, DTensor) for parameter in module.parameters(recurse=False))
    )


def wrap_in_ddp(model: Any, work: Work) -> Any:
    """Wrap the model in DistributedDataParallel if it is a module, is not wrapped already, and has something to reduce.

    Gradients are not reduced: calls follow each other without a backward, which its reducer does not support.
    """
    if not work.options.processes or not isinstance(model, nn.Module) or _reason_not_wrapped(model, work):
        return model
    device = torch.device(work.options.device)
    found = nn.parallel.DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)
    found.require_backward_grad_sync = False
    return found


def _reason_not_wrapped(model: Any, work: Work) -> str:
    """Return why the model is not wrapped in DistributedDataParallel; empty if it is."""
    if not isinstance(model, nn.Module):
        return "a function"
    if work.options.parallel == "fsdp":
        return "sharded by FSDP2"
    if work.options.parallel == "tp":
        return "parallel by a tensor-parallel plan"
    if _has_ddp(model):
        return "it is in it already"
    if not any(parameter.requires_grad for parameter in model.parameters()):
        return "no parameter has a gradient"
    return ""


def _has_ddp(model: nn.Module) -> bool:
    return any(isinstance(module, nn.parallel.DistributedDataParallel) for module in model.modules())


# Files that this rank writes


Splits = list[tuple[str | None, tuple[graphs.Bucket, ...]]]
"""The parts of each graph that DDPOptimizer compiled, with the case."""


def watching(splits: Splits, case: str | None, context: Context) -> contextlib.AbstractContextManager[None]:
    """Add to `splits` what DDPOptimizer does within the context, and write down each graph that this rank compiles."""
    if not context.work.options.processes:
        return contextlib.nullcontext()
    return _watching(splits, case, context)


@contextlib.contextmanager
def _watching(splits: Splits, case: str | None, context: Context) -> Iterator[None]:
    state_path = context.journal.state_path

    def seen(found: tuple[graphs.Operation, ...]) -> None:
        if state_path is None:
            return
        graph = RankGraph(case, tuple(_operation(each, context) for each in found))
        # Each immediately: if the rank then hangs, this shows how far it got.
        with open(graphs_path(state_path), "a", encoding="utf-8") as file:
            file.write(json.dumps(as_json(graph)) + "\n")

    with graphs.ddp_splits(lambda buckets: splits.append((case, buckets))), graphs.graphs_seen(seen):
        yield


def _operation(found: graphs.Operation, context: Context) -> RankOperation:
    text = f"{found.name} {found.shapes}".rstrip()
    return RankOperation(text, _place(found.stack, context), found.collective, found.inputs)


def _place(stack: str, context: Context) -> Frame | None:
    """Return the innermost user line of a stack."""
    found = user_stack(to_schema.parse_stack(stack))
    return context.names.frame(*found[0]) if found is not None and is_user_file(found[0][0]) else None


def describe_parallel(model: Any, work: Work, splits: Splits, context: Context) -> Ddp | None:
    """Return the reported values of the group, and of DistributedDataParallel."""
    if not work.options.processes:
        return None
    reason = _reason_not_wrapped(model, work)
    is_ddp = isinstance(model, nn.Module) and _has_ddp(model)
    return Ddp(
        distributed.get_world_size(),
        str(distributed.get_backend()),
        "target" if is_ddp else "no" if reason else "here",
        "" if is_ddp else reason,
        dynamo.optimize_ddp(),
        tuple(
            DdpSplit(
                tuple(bucket.size for bucket in buckets),
                case,
                tuple(DdpPart(bucket.parameters, _place(bucket.stack, context)) for bucket in buckets),
            )
            for case, buckets in splits
        ),
    )


def shared_as(model: Any, context: Context) -> ParallelRun | None:
    """Return how the ranks share the model; the launcher combines the results of the ranks."""
    work = context.work
    if not work.options.processes:
        return None
    kind, option = work.options.parallel or "ddp", work.options.tp_plan
    if not isinstance(model, nn.Module) or kind == "ddp":
        return ParallelRun(kind)
    if kind == "fsdp":
        from torch.distributed.fsdp import FSDPModule

        whole = [name for name, module in model.named_modules() if isinstance(module, FSDPModule)]
        return ParallelRun(kind, sharded=tuple(filter(None, whole)), plan_from="fully_shard on each block")
    given = named(option, "--tp-plan", work) if option else None
    plan = tuple((name, type(style).__name__) for name, style in plan_of(model, given).items())
    origin = f"--tp-plan {option}" if option else "the model's own"
    return ParallelRun(kind, sharded=_in_parts(model), plan=plan, plan_from=origin)


def with_blocks(found: ParallelRun | None, blocks: BlocksRun) -> ParallelRun | None:
    """Return the value with this rank's results from compiling each block by itself."""
    if found is None:
        return None
    rank = RankRun(distributed.get_rank(), "pass", "", blocks=blocks)
    return ParallelRun(found.kind, (rank,), (), found.sharded, found.plan, found.plan_from, found.hooks)
