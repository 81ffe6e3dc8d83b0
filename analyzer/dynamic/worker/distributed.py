"""The part of a run over several processes that one rank of `torch.distributed.run` executes.

Every rank climbs the same stages and makes the same calls, so that the collectives of the model meet. The first one
observes for all; the launcher reads what the others leave, and compares the graphs that each wrote down.
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
from tcready.dynamic.worker.case import RunError
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.frames import is_user_file, user_stack
from tcready.dynamic.worker.loading import named
from tcready.dynamic.worker.request import RankGraph, RankOperation, Work, graphs_path, with_device
from tcready.dynamic.worker.torch_internals import dynamo, graphs
from tcready.events import narrate
from tcready.schema.codec import as_json
from tcready.schema.frame import Frame
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


def placed(work: Work) -> Work:
    """The work of this rank: where the device is plain `cuda`, on a GPU of its own."""
    if work.options.processes and work.options.device == "cuda":
        return with_device(work, f"cuda:{os.environ['LOCAL_RANK']}")
    return work


def begin(work: Work) -> None:
    """Join the other ranks, unless the target's module did when it was imported. Raises what joining raises."""
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


def agreed(seconds: float, work: Work) -> float:
    """The first rank's seconds: what follows from them would differ where each rank went by its own clock."""
    if not work.options.processes:
        return seconds
    first = torch.tensor([seconds], device=work.options.device)
    distributed.broadcast(first, 0)
    return float(first.item())


def on_any(flag: bool, work: Work) -> bool:
    """Whether it is so on any rank. Each has to ask: a rank that went on alone would wait in its next collective."""
    if not work.options.processes:
        return flag
    flags = torch.tensor([int(flag)], device=work.options.device)
    distributed.all_reduce(flags, distributed.ReduceOp.MAX)
    return bool(flags.item())


# How the model is spread over the ranks


def spreading(context: Context) -> Spread:
    """What makes a fresh model into one that the ranks share, in place: sharded, or parallel by a plan.

    DistributedDataParallel is none of it: it goes around the model where that is compiled (`wrapped`). Raises RunError
    if there is no plan, or it names no module of the model.
    """
    work = context.work
    if work.options.parallel == "fsdp":
        return lambda model: _sharded(model, work)
    if work.options.parallel == "tp":
        given = named(work.options.tp_plan, "--tp-plan", work) if work.options.tp_plan else None
        return lambda model: _parallelised(model, given, context)
    return lambda model: model


def blocks_of(model: nn.Module) -> tuple[str, ...]:
    """Dotted names of what a model repeats: the modules with parameters in its outermost ModuleLists; without any, those
    in its outermost Sequentials and ModuleDicts, but for modules that hold no other."""
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


def _sharded(model: Any, work: Work) -> Any:
    from torch.distributed.fsdp import FSDPModule, fully_shard

    if not isinstance(model, nn.Module):
        raise RunError(f"--parallel fsdp: {work.target} is no module: fully_shard takes one")
    if any(isinstance(module, FSDPModule) for module in model.modules()):
        return model
    mesh = _mesh(work)
    for name in blocks_of(model):
        fully_shard(model.get_submodule(name), mesh=mesh)
    return fully_shard(model, mesh=mesh)


def _parallelised(model: Any, given: Any, context: Context) -> Any:
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
    lost = [
        key
        for key in plan
        if any(f"'{key}' could not be resolved" in str(each.message) for each in unmatched)
    ]
    if len(lost) == len(plan):
        raise RunError(
            f"--parallel tp: the plan names no module of {type(model).__name__}: {', '.join(lost[:5])}"
        )
    text = f"the tensor-parallel plan names modules that are not there: {', '.join(lost)}"
    if lost and text not in context.journal.observation.warnings:
        context.journal.warn(text)
    return model


def plan_of(model: nn.Module, given: Any) -> dict[str, Any]:
    """The dict for parallelize_module: what was given, or what it gives for the model, or the model's own; empty if there
    is none. Raises RunError for what is no plan."""
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
    """Dotted names of the modules that hold a parameter in parts."""
    from torch.distributed.tensor import DTensor

    return tuple(
        name
        for name, module in model.named_modules()
        if any(isinstance(parameter, DTensor) for parameter in module.parameters(recurse=False))
    )


def wrapped(model: Any, work: Work) -> Any:
    """The model in DistributedDataParallel where it is a module, not in it already, and has something to reduce.

    Gradients are not reduced: calls follow each other without a backward, which its reducer would not take.
    """
    if not work.options.processes or not isinstance(model, nn.Module) or _unwrapped(model, work):
        return model
    device = torch.device(work.options.device)
    found = nn.parallel.DistributedDataParallel(
        model, device_ids=[device.index] if device.type == "cuda" else None
    )
    found.require_backward_grad_sync = False
    return found


def _unwrapped(model: Any, work: Work) -> str:
    """Why the model is not put into DistributedDataParallel here; empty where it is."""
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


# What this rank writes down


Splits = list[tuple[str | None, tuple[graphs.Bucket, ...]]]
"""The parts of each graph that DDPOptimizer compiled, with the case."""


def watching(splits: Splits, case: str | None, context: Context) -> contextlib.AbstractContextManager[None]:
    """Adds to `splits` what DDPOptimizer does meanwhile, and writes each graph down that this rank compiles."""
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
        # Each at once: of a rank that then hangs, it is what says how far it came.
        with open(graphs_path(state_path), "a", encoding="utf-8") as file:
            file.write(json.dumps(as_json(graph)) + "\n")

    with graphs.ddp_splits(lambda buckets: splits.append((case, buckets))), graphs.graphs_seen(seen):
        yield


def _operation(found: graphs.Operation, context: Context) -> RankOperation:
    text = f"{found.name} {found.shapes}".rstrip()
    return RankOperation(text, _place(found.stack, context), found.collective, found.inputs)


def _place(stack: str, context: Context) -> Frame | None:
    """The innermost user's line of a stack."""
    found = user_stack(narrate.parse_stack(stack))
    return context.names.frame(*found[0]) if found is not None and is_user_file(found[0][0]) else None


def observed(model: Any, work: Work, splits: Splits, context: Context) -> Ddp | None:
    """What is reported of the group, and of DistributedDataParallel."""
    if not work.options.processes:
        return None
    reason = _unwrapped(model, work)
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
    """How the ranks share the model; what each of them showed is put together by the launcher."""
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
    """The same with what this rank showed when each block was compiled by itself."""
    if found is None:
        return None
    rank = RankRun(distributed.get_rank(), "pass", "", blocks=blocks)
    return ParallelRun(found.kind, (rank,), (), found.sharded, found.plan, found.plan_from, found.hooks)
