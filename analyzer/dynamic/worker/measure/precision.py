"""Call a model in its own dtype and in wider ones, and choose the tolerances of a comparison."""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from tcready.dynamic.worker.core import memory
from tcready.dynamic.worker.core.calling import call
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.generators import Generators
from tcready.dynamic.worker.inputs.loading import default_dtype, dtype_of, fresh
from tcready.dynamic.worker.inputs.loss import Loss, NotTrainedError, loss_of
from tcready.dynamic.worker.measure.call_outcome import CallOutcome
from tcready.dynamic.worker.measure.output_comparison import DEPTH, flatten, seen
from tcready.dynamic.worker.torch_internals import compile_calls
from tcready.dynamic.worker.torch_internals.layers import CONVOLUTION
from torch import nn

TOLERANCES: dict[torch.dtype, tuple[float, float]] = {
    torch.float64: (1e-6, 1e-6),
    torch.complex128: (1e-6, 1e-6),
    torch.float32: (1e-4, 1e-3),
    torch.complex64: (1e-4, 1e-3),
}
"""The largest difference allowed in inference and in training, relative to the largest value of the tensor: fused
kernels add in a different order. PyTorch's benchmark runner (`benchmarks/dynamo/torchbench.py`) uses these tolerances
for float32."""
LOW_PRECISION = (1e-2, 2e-2)
"""For every other floating dtype. This is the loosest tolerance of that runner: between fused operations Inductor keeps
float32, while eager code rounds."""
SMALL = 1 << 28
"""A float64 copy of up to this many bytes is allowed even if it takes more than twice the memory of the model."""
MAX_VALUES_OF_EVERY_CALL = 1 << 26
"""All repeated calls are kept if one call returns at most this many values; otherwise only the last call is."""


@dataclass(frozen=True)
class Repeats:
    """The number and the kind of repeated calls."""

    number: int = 1
    in_a_row: bool = False
    """True if each call gets the inputs as the previous one left them, like a growing cache; else each gets a fresh
    copy."""
    after: bool = False
    """True if the arguments and the model's buffers after a call are part of its outcome."""


ONE_CALL = Repeats()


@dataclass(frozen=True)
class Called:
    """The result of one or more calls."""

    outcome: CallOutcome
    """The outcome of all calls; of the last one only, if a call returns more than MAX_VALUES_OF_EVERY_CALL values."""
    loss: Loss | None
    """The loss from which the backward started; None if there was no backward."""
    draws: bool
    """True if a call drew random numbers."""
    random: tuple[Generators, ...]
    """The states of the random number generators after each call."""
    wrote: bool = False
    """True if a call changed its arguments."""
    gradients: int = 0
    """The number of gradients of one call."""


def called(
    context: Context,
    function: Callable[..., Any],
    model: Any,
    case: Case,
    loss: Loss | None = None,
    how: Repeats = ONE_CALL,
) -> Called:
    """Call `function`, which is `model` or its compiled form; in training, a backward follows each call.

    The leaves are copies, because a CUDA graph overwrites its outputs. `loss`: None for the loss of the output. Each
    call starts with the same seeds for torch, Python and numpy.
    """
    one = fresh(case) if how.in_a_row else None
    named: list[tuple[str, Any]] = []
    structure: list[str] = []
    draws = wrote = False
    states: list[Generators] = []
    gradients: dict[str, torch.Tensor] = {}
    each = how.number > 1
    for number in range(1, how.number + 1):
        before = Generators.now()
        given: tuple[Any, Any] = ((), {})
        written: list[Any] = []

        def seeded(*args: Any, **kwargs: Any) -> Any:
            nonlocal before, given, written
            given = (one.args, one.kwargs) if one is not None else (args, kwargs)
            written = _written(given)
            before = Generators.now()
            return function(*given[0], **given[1])

        result = call(context, seeded, case)
        loss, gradients = _gradients(context, model, result, given, loss)
        after = Generators.now()
        leaves, shape = flatten(result)
        own = [(f"output {index}", _copied(leaf)) for index, leaf in enumerate(leaves)]
        own += [(name, gradient.detach().clone()) for name, gradient in gradients.items()]
        if how.after:
            arguments, others = flatten(given)
            keep = _copied if how.in_a_row else _detached  # else a copy made for this call only
            own += [(f"argument {index}", keep(leaf)) for index, leaf in enumerate(arguments)]
            buffers = model.named_buffers() if isinstance(model, nn.Module) else ()
            own += [(f"buffer {name}", buffer.detach().clone()) for name, buffer in buffers]
            shape = [*shape, *others]
        each = each and (number > 1 or _values(own) <= MAX_VALUES_OF_EVERY_CALL)
        if each:
            named += [(f"{label} of call {number}", leaf) for label, leaf in own]
            structure += shape
        else:
            named, structure = own, [*shape]
        draws |= before != after
        wrote |= _written(given) != written
        states.append(after)
    return Called(CallOutcome(tuple(named), tuple(structure)), loss, draws, tuple(states), wrote, len(gradients))


def _gradients(
    context: Context, model: Any, result: Any, given: tuple[Any, Any], loss: Loss | None
) -> tuple[Loss | None, dict[str, torch.Tensor]]:
    """In training, run the backward. Return the loss and the gradients, which are cleared so that they do not
    accumulate."""
    found: dict[str, torch.Tensor] = {}
    if context.work.options.mode != "train":
        return loss, found
    with contextlib.suppress(NotTrainedError):
        loss = loss or loss_of(result)
        loss(result).backward()
    named = model.named_parameters() if isinstance(model, nn.Module) else ()
    leaves = [(f"gradient of {name}", parameter) for name, parameter in named]
    leaves += [
        (f"gradient of argument {index}", leaf)
        for index, leaf in enumerate(flatten(given)[0])
        if isinstance(leaf, torch.Tensor) and leaf.is_leaf
    ]
    for name, leaf in leaves:
        if leaf.grad is not None:
            found[name] = leaf.grad
    for _, leaf in leaves:
        leaf.grad = None
    return loss, found


def _values(named: list[tuple[str, Any]]) -> int:
    return sum(leaf.numel() for _, leaf in named if isinstance(leaf, torch.Tensor))


def _copied(leaf: Any) -> Any:
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf


def _detached(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, torch.Tensor) else leaf


def _written(value: Any) -> list[Any]:
    """Return a fingerprint that changes if the value is modified: its structure, the identity and write count of each
    tensor, and all other leaves."""
    leaves, structure = flatten(value)
    return [
        structure,
        *((id(leaf), compile_calls.writes(leaf)) if isinstance(leaf, torch.Tensor) else repr(leaf) for leaf in leaves),
    ]


def called_eagerly(context: Context, build: Callable[[], Any], case: Case, how: Repeats = ONE_CALL) -> Called:
    """Like `called`, in eager mode; `build` returns the model, which the calls may change."""
    model = build()
    with torch.compiler.set_stance("force_eager"):
        return called(context, model, model, case, how=how)


def _round_otherwise(tensor: torch.Tensor, seed: int) -> None:
    """Change each value in place by one rounding, up or down. Whole numbers do not change, since they may be a mask or
    an index."""
    if not tensor.is_floating_point():
        return
    generator = torch.Generator(tensor.device).manual_seed(seed)
    signs = torch.randint(0, 2, tensor.shape, generator=generator, device=tensor.device) * 2 - 1
    with torch.no_grad():
        moved = tensor * (1 + torch.finfo(tensor.dtype).eps * signs).to(tensor.dtype)
        tensor.copy_(torch.where(tensor == tensor.round(), tensor, moved))


def in_float64(model: Any) -> Any:
    """Return a float64 copy of the model: other models may share parts of it, such as a cached module. A model that
    cannot be copied is converted in place; a function is returned unchanged."""
    if not isinstance(model, nn.Module):
        return model
    with contextlib.suppress(Exception):
        model = copy.deepcopy(model)
    return model.double()


def case_in_float64(case: Case) -> Case:
    return case_in(case, torch.float64)


def case_in(case: Case, dtype: torch.dtype) -> Case:
    """Copy the inputs with floating tensors in a wider dtype, also inside objects such as a KV cache. Raises if copying
    fails."""
    tensors: list[torch.Tensor] = []
    list(seen((case.args, case.kwargs), DEPTH, set(), tensors.append))

    def wide(tensor: torch.Tensor) -> torch.Tensor:
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return tensor.detach().clone()
        kind = wide_of(tensor, dtype)
        return tensor.detach().to(kind, copy=True).requires_grad_(tensor.requires_grad)

    copies = {id(tensor): wide(tensor) for tensor in tensors}
    for sharing in _memory_groups(tensors):
        copies |= zip(map(id, sharing), _views_in(sharing, dtype), strict=True)
    args, kwargs = copy.deepcopy((case.args, case.kwargs), copies)
    return replace(case, args=args, kwargs=kwargs)


def wide_of(tensor: torch.Tensor, dtype: torch.dtype) -> torch.dtype:
    """Return the dtype for a floating or complex tensor: `dtype`, or the complex dtype that corresponds to it."""
    if not tensor.is_complex():
        return dtype
    return torch.complex128 if dtype == torch.float64 else torch.complex64


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Return every tensor in a value, each once; for a module its parameters, its buffers and those in its attributes."""
    found: dict[int, torch.Tensor] = {}

    def add(tensor: torch.Tensor) -> None:
        found[id(tensor)] = tensor

    if not isinstance(value, nn.Module):
        list(seen(value, DEPTH, set(), add))
        return list(found.values())
    for tensor in itertools.chain(value.parameters(), value.buffers()):
        add(tensor)
    for module in value.modules():
        for name, attribute in vars(module).items():
            if name not in OF_EVERY_MODULE:
                list(seen(attribute, DEPTH, set(), add))
    return list(found.values())


def bytes_of(model: Any) -> int:
    """Return the memory of the parameters, buffers and tensors in attributes of a model; 0 for a function."""
    owner = getattr(model, "__self__", model)
    return _bytes(tensors_of(owner)) if isinstance(owner, nn.Module) else 0


def _bytes(tensors: Sequence[torch.Tensor]) -> int:
    return sum(each.numel() * each.element_size() for each in tensors)


OF_EVERY_MODULE = frozenset(vars(nn.Module()))
"""Attributes that every module has."""


@contextlib.contextmanager
def call_in(context: Context, dtype: torch.dtype) -> Iterator[None]:
    """Make calls compute in a wide dtype: it is the default dtype, and autocast and TF32 are off."""
    work, matmul = context.work, torch.get_float32_matmul_precision()
    convolution = torch.backends.cudnn.allow_tf32
    before = torch.get_default_dtype()
    context.work = replace(work, options=replace(work.options, autocast=None))
    torch.set_default_dtype(dtype)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        context.work = work
        torch.set_default_dtype(before)
        torch.set_float32_matmul_precision(matmul)
        torch.backends.cudnn.allow_tf32 = convolution


class NotWideError(Exception):
    """The model cannot be converted to a wider dtype; the message says why."""


@contextlib.contextmanager
def widen_in_place(model: Any, dtype: torch.dtype, *, set_aside: bool = False) -> Iterator[None]:
    """Convert the floating tensors of a model to a wider dtype within the context. No value is lost.

    `set_aside`: move the original parameter memory to the host within the context. Models that share it must not be
    called there.
    """
    owner = getattr(model, "__self__", model)
    tensors = [
        (each, each.dtype)
        for each in (tensors_of(owner) if isinstance(owner, nn.Module) else ())
        if each.is_floating_point() or each.is_complex()
    ]
    aside: list[tuple[torch.Tensor, torch.Tensor, torch.UntypedStorage]] = []
    try:
        for each, own in tensors:
            narrow = each.data
            each.data = narrow.to(wide_of(each, dtype))
            if set_aside and isinstance(each, nn.Parameter) and each.dtype != own:
                memory = narrow.untyped_storage()
                aside.append((each, narrow, memory.clone() if memory.device.type == "cpu" else memory.cpu()))
                memory.resize_(0)
        yield
    finally:
        for each, narrow, values in aside:
            each.data = narrow
            memory = narrow.untyped_storage()
            memory.resize_(values.nbytes())
            memory.copy_(values)
        for each, own in tensors:
            each.data = each.data.to(own)


def wide_dtype(context: Context, model: Any, cases: Sequence[Case]) -> tuple[torch.dtype, frozenset[torch.dtype]]:
    """Choose the dtype in which calls with these inputs run again, and the dtypes that it replaces: float64 if that
    takes at most twice the memory (or at most SMALL bytes), else float32 if the calls compute in half precision.
    Raises NotWideError."""
    owner = getattr(model, "__self__", model)
    tensors = tensors_of(owner) if isinstance(owner, nn.Module) else []
    if any(type(each) not in (torch.Tensor, nn.Parameter) for each in tensors):
        raise NotWideError("the model has parameters, buffers or attributes of a tensor subclass")
    own = _bytes(tensors)
    floating = sum(each.numel() for each in tensors if each.is_floating_point() or each.is_complex())
    inputs = [each for case in cases for each in tensors_of((case.args, case.kwargs))]
    floating_inputs = sum(each.numel() for each in inputs if each.is_floating_point())
    shared = [each.untyped_storage().data_ptr() for each in tensors if not isinstance(each, nn.Parameter)]
    if len(set(filter(None, shared))) < len(list(filter(None, shared))):
        raise NotWideError("buffers of the model share memory")
    narrow = {each.dtype for each in (*tensors, *inputs) if each.is_floating_point()}
    kinds = [torch.float64]
    least = computed_in(context, narrow)
    if least not in (torch.float32, torch.float64):
        kinds.append(torch.float32)
    elif narrow == {torch.float64}:
        raise NotWideError("there is no wider dtype than float64")
    device = torch.device(context.work.options.device).type
    if device == "mps":
        kinds = [kind for kind in kinds if kind != torch.float64]
    free = memory.free_bytes(context.work.options.device)
    call = context.call_bytes or 0
    for kind in kinds:
        wide_call = call * kind.itemsize // least.itemsize
        size = kind.itemsize * floating + wide_call
        fits = free is None or size + 3 * kind.itemsize * floating_inputs <= free + own
        if fits and size <= max(SMALL, 2 * (own + call)):
            return kind, frozenset(narrow | {torch.float32})
    raise NotWideError("a copy in a wider dtype may not fit into memory")


def computed_in(context: Context, dtypes: Collection[torch.dtype]) -> torch.dtype:
    """Return the least precise dtype of a model, its inputs and autocast."""
    autocast = context.work.options.autocast
    every = {*dtypes, dtype_of(autocast)} if autocast else {*dtypes}
    return max(every or {torch.float32}, key=eps_of)


def eps_of(dtype: torch.dtype) -> float:
    return float(torch.finfo(dtype).eps)


def moved_by_rounding(tensors: Sequence[torch.Tensor], seed: int) -> None:
    """Change floating tensors in place by one rounding, up or down."""
    for number, tensor in enumerate(tensors):
        with contextlib.suppress(Exception):  # such as an expanded tensor, which has no memory of its own
            _round_otherwise(tensor, seed * len(tensors) + number)


def _memory_groups(tensors: list[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Return groups of tensors of one dtype that share memory: a write to one is visible in the others."""
    found: dict[tuple[int, torch.dtype], dict[int, torch.Tensor]] = {}
    for tensor in tensors:
        if tensor.layout == torch.strided and tensor.is_floating_point() and not tensor.requires_grad:
            key = tensor.untyped_storage().data_ptr(), tensor.dtype
            found.setdefault(key, {})[id(tensor)] = tensor
    yield from (list(each.values()) for each in found.values() if len(each) > 1)


def _views_in(tensors: list[torch.Tensor], dtype: torch.dtype) -> list[torch.Tensor]:
    first = tensors[0]
    whole = torch.empty(0, dtype=first.dtype, device=first.device).set_(first.untyped_storage())
    wide = whole.to(dtype)
    return [wide.as_strided(each.shape, each.stride(), each.storage_offset()) for each in tensors]


def loss_in_float64(loss: Loss) -> Loss:
    return replace(loss, weights=tuple(weight.double() for weight in loss.weights))


def created_in_float64() -> contextlib.AbstractContextManager[None]:
    """Make float64 the default dtype for new tensors within the context."""
    return default_dtype(torch.float64)


def tolerance(context: Context, model: Any, outcome: CallOutcome, *, exact: bool = True) -> float:
    """The tolerance of the coarsest dtype of the outputs, the parameters or autocast: outputs may be cast up at the end.

    `exact`: whether the error of eager code is known from float64. If not, TF32 counts as one of these dtypes.
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
    """Return whether float32 products may be computed in TF32. On CUDA, convolutions do so by default."""
    if torch.device(context.work.options.device).type != "cuda":
        return False
    if torch.get_float32_matmul_precision() != "highest":
        return True
    modules = model.modules() if isinstance(model, nn.Module) else ()
    convolves = any(isinstance(module, CONVOLUTION) for module in modules)
    return convolves and bool(torch.backends.cudnn.allow_tf32)
