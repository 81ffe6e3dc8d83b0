"""Whether compiled code is as exact as eager code: what calls give in the model's own precision, and in float64."""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from tcready.dynamic.worker.calling import call
from tcready.dynamic.worker.case import Case
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.loading import dtype_of
from tcready.dynamic.worker.loss import Loss, NotTrainedError, loss_of
from tcready.dynamic.worker.outcome import EXACT, Outcome
from tcready.dynamic.worker.parity import DEPTH, flatten, seen
from tcready.dynamic.worker.torch_internals import placement, pytree
from tcready.dynamic.worker.torch_internals.layers import CONVOLUTION
from torch import nn

TOLERANCES: dict[torch.dtype, tuple[float, float]] = {
    torch.float64: (1e-6, 1e-6),
    torch.complex128: (1e-6, 1e-6),
    torch.float32: (1e-4, 1e-3),
    torch.complex64: (1e-4, 1e-3),
}
"""The largest difference allowed in inference and in training, over the largest value of its tensor: fused kernels add
in another order. These are the tolerances by which PyTorch's benchmark runner (`benchmarks/dynamo/torchbench.py`)
compares float32."""
LOW_PRECISION = (1e-2, 2e-2)
"""For every other floating dtype, as for the models of which that runner asks least: Inductor keeps float32 between fused
operations where eager code rounds."""
COPIES = 3
"""A model in float64 with its inputs and what it computes is taken to need so many times the bytes of its weights and
inputs."""


@dataclass(frozen=True)
class Called:
    """What calls gave."""

    outcome: Outcome
    """Of the last one."""
    loss: Loss | None
    """What the backward began from; None if there was none."""
    draws: bool
    """Whether the call drew random numbers."""
    random: tuple[torch.Tensor, ...]
    """The states of the generators after it."""
    wrote: bool = False
    """Whether it changed its arguments."""


def called(
    context: Context,
    function: Callable[..., Any],
    model: Any,
    case: Case,
    loss: Loss | None = None,
    calls: int = 1,
    after: bool = False,
) -> Called:
    """Calls of `function`, which is `model` or its compiled form, in training each with its backward.

    The leaves are copies: a CUDA graph writes over its outputs. `loss`: None for that of the output. `after`: whether
    the arguments and the model's buffers, as the last call leaves them, are part of what it gave.
    """
    for _ in range(calls):
        before: tuple[torch.Tensor, ...] = ()
        given: tuple[Any, Any] = ((), {})
        written: list[Any] = []

        def seeded(*args: Any, **kwargs: Any) -> Any:
            nonlocal before, given, written
            given, written = (args, kwargs), _written((args, kwargs))
            before = _generators(context.work.options.device)
            return function(*args, **kwargs)

        result = call(context, seeded, case)
        random = _generators(context.work.options.device)
        gradients: dict[str, torch.Tensor] = {}
        if context.work.options.mode == "train":
            with contextlib.suppress(NotTrainedError):
                loss = loss or loss_of(result)
                loss(result).backward()
            if isinstance(model, nn.Module):
                for name, parameter in model.named_parameters():
                    if parameter.grad is not None:
                        gradients[f"gradient of {name}"] = parameter.grad
                        parameter.grad = None
            for index, leaf in enumerate(flatten(given)[0]):
                if isinstance(leaf, torch.Tensor) and leaf.is_leaf and leaf.grad is not None:
                    gradients[f"gradient of argument {index}"] = leaf.grad
    leaves, structure = flatten(result)
    labels = [f"output {index}" for index in range(len(leaves))]
    copied = [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    copied += [gradient.detach().clone() for gradient in gradients.values()]
    named = [*zip(labels + list(gradients), copied, strict=True)]
    if after:
        arguments, shape = flatten(given)  # of this call alone: nobody else has them
        named += [(f"argument {index}", _detached(leaf)) for index, leaf in enumerate(arguments)]
        buffers = model.named_buffers() if isinstance(model, nn.Module) else ()
        named += [(f"buffer {name}", buffer.detach().clone()) for name, buffer in buffers]
        structure = [*structure, *shape]
    outcome = Outcome(tuple(named), tuple(structure))
    draws = any(not torch.equal(one, other) for one, other in zip(before, random, strict=True))
    return Called(outcome, loss, draws, random, _written(given) != written)


def _detached(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, torch.Tensor) else leaf


def _written(value: Any) -> list[Any]:
    """What tells whether a value was changed meanwhile: its structure, which tensors are in it, how often each was
    written to, and every other leaf."""
    leaves, structure = flatten(value)
    return [
        structure,
        *(
            (id(leaf), placement.writes(leaf)) if isinstance(leaf, torch.Tensor) else repr(leaf)
            for leaf in leaves
        ),
    ]


def _generators(device: str) -> tuple[torch.Tensor, ...]:
    states = [torch.get_rng_state()]
    if torch.device(device).type == "cuda":
        states.append(torch.cuda.get_rng_state(torch.device(device)))
    return tuple(states)


def called_eagerly(
    context: Context, build: Callable[[], Any], case: Case, calls: int = 1, after: bool = False
) -> Called:
    """The same of eager code; `build` gives the model, which every call changes if it likes."""
    model = build()
    with torch.compiler.set_stance("force_eager"):
        return called(context, model, model, case, calls=calls, after=after)


def exactly(
    context: Context,
    build: Callable[[], Any],
    case: Case,
    eager: Called,
    calls: int = 1,
    after: bool = False,
) -> tuple[Outcome | None, str]:
    """What eager code gives in float64 for the same weights and inputs; None with the reason if that cannot be had."""
    if eager.draws:
        return None, "it draws random numbers, and would draw others in float64"
    try:
        model = build()
        if not _fits(context, model, case):
            return None, "a copy in float64 may not fit into memory"
        wide = in_float64(model)
        loss = None if eager.loss is None else loss_in_float64(eager.loss)
        with torch.compiler.set_stance("force_eager"), created_in_float64():
            outcome = called(context, wide, wide, case_in_float64(case), loss, calls, after).outcome
    except Exception as error:  # an operation that has no float64, a dtype that the code names, memory
        return None, f"in float64 it raises {type(error).__name__}"
    gave = (leaf for label, leaf in outcome.leaves if not label.startswith(("argument", "buffer")))
    if not any(isinstance(leaf, torch.Tensor) and leaf.dtype in EXACT for leaf in gave):
        return None, "its outputs are of less than float64 whatever it is given"
    return outcome, ""


def in_float64(model: Any) -> Any:
    """A copy of the model, its parameters and buffers in float64: others may share parts of it, as of what a target
    caches. The model itself if it cannot be copied; a function stays as it is."""
    if not isinstance(model, nn.Module):
        return model
    with contextlib.suppress(Exception):
        model = copy.deepcopy(model)
    return model.double()


def case_in_float64(case: Case) -> Case:
    """Copies of the inputs, also of tensors that stand in objects, as in a cache of keys and values. Raises what copying
    them raises."""
    tensors: list[torch.Tensor] = []
    list(seen((case.args, case.kwargs), DEPTH, set(), tensors.append))

    def wide(tensor: torch.Tensor) -> torch.Tensor:
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return tensor.detach().clone()
        kind = torch.complex128 if tensor.is_complex() else torch.float64
        return tensor.detach().to(kind, copy=True).requires_grad_(tensor.requires_grad)

    copies = {id(tensor): wide(tensor) for tensor in tensors}
    for sharing in _sharing(tensors):
        copies |= zip(map(id, sharing), _views_in_float64(sharing), strict=True)
    args, kwargs = copy.deepcopy((case.args, case.kwargs), copies)
    return replace(case, args=args, kwargs=kwargs)


def _sharing(tensors: list[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Those that are over the same memory, as values of one dtype: what is written to one is read from another."""
    found: dict[tuple[int, torch.dtype], dict[int, torch.Tensor]] = {}
    for tensor in tensors:
        if tensor.layout == torch.strided and tensor.is_floating_point() and not tensor.requires_grad:
            key = tensor.untyped_storage().data_ptr(), tensor.dtype
            found.setdefault(key, {})[id(tensor)] = tensor
    yield from (list(each.values()) for each in found.values() if len(each) > 1)


def _views_in_float64(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    first = tensors[0]
    whole = torch.empty(0, dtype=first.dtype, device=first.device).set_(first.untyped_storage())
    wide = whole.double()
    return [wide.as_strided(each.shape, each.stride(), each.storage_offset()) for each in tensors]


def loss_in_float64(loss: Loss) -> Loss:
    return replace(loss, weights=tuple(weight.double() for weight in loss.weights))


@contextlib.contextmanager
def created_in_float64() -> Iterator[None]:
    """Tensors that code makes without naming a dtype are of float64 meanwhile."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _fits(context: Context, model: Any, case: Case) -> bool:
    tensors = [
        leaf for leaf in pytree.tree_leaves((case.args, case.kwargs)) if isinstance(leaf, torch.Tensor)
    ]
    if isinstance(model, nn.Module):
        tensors += [*model.parameters(), *model.buffers()]
    values: int = sum(tensor.numel() for tensor in tensors if tensor.is_floating_point())
    bytes_needed = COPIES * 8 * values
    device = torch.device(context.work.options.device)
    if device.type == "mps":
        return False  # it has no float64
    if device.type == "cuda":
        return bytes_needed <= int(torch.cuda.mem_get_info(device)[0])
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):  # not known here
        return True
    return bytes_needed <= free


def tolerance(context: Context, model: Any, outcome: Outcome, *, exact: bool = True) -> float:
    """By the coarsest dtype that the outputs, the parameters or autocast have: outputs may be cast up at the end.

    `exact`: whether float64 tells how far eager code is off. Without it TF32 counts as such a dtype.
    """
    kinds = {leaf.dtype for _, leaf in outcome.leaves if isinstance(leaf, torch.Tensor)}
    if isinstance(model, nn.Module):
        kinds |= {parameter.dtype for parameter in model.parameters()}
    if context.work.options.autocast:
        kinds.add(dtype_of(context.work.options.autocast))
    train = context.work.options.mode == "train"
    floating = [kind for kind in kinds if kind.is_floating_point or kind.is_complex]
    found = [TOLERANCES.get(kind, LOW_PRECISION)[train] for kind in floating]
    if not exact and torch.float32 in kinds and _uses_tf32(context, model):
        found.append(LOW_PRECISION[train])
    return max(found, default=TOLERANCES[torch.float32][train])


def _uses_tf32(context: Context, model: Any) -> bool:
    """Whether products of float32 may be made of rounded factors: on CUDA convolutions, unless they are told not to."""
    if torch.device(context.work.options.device).type != "cuda":
        return False
    if torch.get_float32_matmul_precision() != "highest":
        return True
    modules = model.modules() if isinstance(model, nn.Module) else ()
    convolves = any(isinstance(module, CONVOLUTION) for module in modules)
    return convolves and bool(torch.backends.cudnn.allow_tf32)
