"""A run over several processes: what one of the ranks that `torch.distributed.run` started has to do.

Every rank climbs the same stages and makes the same calls, so that the collectives of the model meet; the first one
observes for all.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

import torch
from tcready.dynamic.worker.request import Work, with_device
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.schema import Ddp, DdpSplit
from torch import distributed, nn


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


def wrapped(model: Any, work: Work) -> Any:
    """The model in DistributedDataParallel where it is a module, not in it already, and has something to reduce.

    Gradients are not reduced: calls follow each other without a backward, which its reducer would not take.
    """
    if not work.options.processes or not isinstance(model, nn.Module) or _unwrapped(model):
        return model
    device = torch.device(work.options.device)
    found = nn.parallel.DistributedDataParallel(
        model, device_ids=[device.index] if device.type == "cuda" else None
    )
    found.require_backward_grad_sync = False
    return found


def splitting(
    splits: list[tuple[str | None, tuple[int, ...]]], case: str | None, work: Work
) -> contextlib.AbstractContextManager[None]:
    """Adds to `splits`, with the case, the bytes of each bucket of each graph that is compiled meanwhile."""
    if not work.options.processes:
        return contextlib.nullcontext()
    return dynamo.ddp_splits(lambda buckets: splits.append((case, buckets)))


def observed(model: Any, work: Work, splits: list[tuple[str | None, tuple[int, ...]]]) -> Ddp | None:
    """What is reported of the ranks; `splits` are the bytes of each bucket of each graph, by case."""
    if not work.options.processes:
        return None
    reason = _unwrapped(model)
    is_ddp = isinstance(model, nn.Module) and _has_ddp(model)
    return Ddp(
        distributed.get_world_size(),
        str(distributed.get_backend()),
        "target" if is_ddp else "no" if reason else "here",
        "" if is_ddp else reason,
        dynamo.optimize_ddp(),
        tuple(DdpSplit(buckets, case) for case, buckets in splits),
    )


def _unwrapped(model: Any) -> str:
    """Why the model is not put into DistributedDataParallel here; empty where it is."""
    if not isinstance(model, nn.Module):
        return "a function"
    if _has_ddp(model):
        return "it is in it already"
    if not any(parameter.requires_grad for parameter in model.parameters()):
        return "no parameter has a gradient"
    return ""


def _has_ddp(model: nn.Module) -> bool:
    return any(isinstance(module, nn.parallel.DistributedDataParallel) for module in model.modules())
