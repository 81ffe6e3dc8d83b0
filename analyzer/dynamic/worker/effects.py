"""The outcome of a call: what it returns, and what it leaves in the model and in its arguments."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from tcready.dynamic.worker.calling import call
from tcready.dynamic.worker.case import Case
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.outcome import Outcome
from tcready.dynamic.worker.parity import outcome_of, seen
from tcready.dynamic.worker.precision import OF_EVERY_MODULE, tensors_of
from tcready.dynamic.worker.torch_internals.dynamo import WRAPPED, is_compiled_module
from tcready.dynamic.worker.torch_internals.placement import writes
from torch import nn

DEPTH = 6
"""How deep nested objects are searched."""


class ObservedCall:
    """A callable that keeps the arguments of its last call, to report what the call changed in them and in
    `model`."""

    def __init__(self, context: Context, model: Any, function: Callable[..., Any]) -> None:
        self._context = context
        self._model = model
        self._function = function
        self._arguments: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
        self._before: list[Any] = []
        self._writes: dict[str, int] = {}
        """How often each parameter had been written to before the call."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._arguments = args, kwargs
        self._before = self._state()
        self._writes = {label: writes(tensor) for label, tensor in _parameters_of(self._model)}
        return self._function(*args, **kwargs)

    def outcome(self, output: Any) -> Outcome:
        """The output, then every tensor that the call may have written to: those of its arguments and, in inference,
        the model's buffers, tensors in its attributes, and the parameters that the call did write to. A training step
        compares buffers separately, after its backward."""
        found = outcome_of(output)
        if self._context.stand_ins is not None:  # no tensor has values
            return found
        state = [*_state_of(self._model)]
        places = {_memory(tensor) for _, tensor in state}
        # Copy outputs that share memory with the state: a later call may write to it. Arguments are not shared.
        leaves = [(label, _kept(leaf, places)) for label, leaf in found.leaves]
        leaves += ((f"argument {at}", tensor) for at, tensor in enumerate(tensors_of(self._arguments)))
        if self._context.work.options.mode == "infer":
            written = [
                (label, tensor)
                for label, tensor in _parameters_of(self._model)
                if writes(tensor) != self._writes.get(label)
            ]
            leaves += ((label, tensor.detach().clone()) for label, tensor in [*state, *written])
        return Outcome(tuple(leaves), found.structure)

    @property
    def changed(self) -> bool:
        """Whether the call changed the model or its arguments, so that the next one may give something else."""
        return self._before != self._state()

    def _state(self) -> list[Any]:
        owner = _owner(self._model)
        modules = owner.modules() if isinstance(owner, nn.Module) else ()
        own = [{name: value for name, value in vars(each).items() if name != "_modules"} for each in modules]
        return [*seen([self._arguments, *own], DEPTH, set())]


def outcome_of_call(
    context: Context,
    model: Any,
    function: Callable[..., Any],
    case: Case,
    *watchers: contextlib.AbstractContextManager[Any],
) -> Outcome:
    """The outcome of one call of `function`, which is `model` or its compiled form."""
    observed = ObservedCall(context, model, function)
    return observed.outcome(call(context, observed, case, *watchers))


def _state_of(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Buffers and tensors in attributes by name, which is the same whether modules are compiled or not."""
    owner = _owner(model)
    if not isinstance(owner, nn.Module):
        return
    for prefix, module in owner.named_modules():
        if is_compiled_module(module):  # what it wraps comes next
            continue
        for name, buffer in module.named_buffers(recurse=False):
            yield f"buffer {_path(prefix, name)}", buffer
        for name, value in sorted(vars(module).items()):
            if name not in OF_EVERY_MODULE:
                tensors = tensors_of(value)
                for at, tensor in enumerate(tensors):
                    part = f"[{at}]" if len(tensors) > 1 else ""
                    yield f"attribute {_path(prefix, name)}{part}", tensor


def _parameters_of(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    owner = _owner(model)
    if isinstance(owner, nn.Module):
        for name, parameter in owner.named_parameters():
            yield f"parameter {_path(name)}", parameter


def _path(*parts: str) -> str:
    """The dotted name of a tensor in a model, without what compiling a module adds to it."""
    return ".".join(part for part in ".".join(parts).split(".") if part and part != WRAPPED)


def _kept(leaf: Any, places: set[int]) -> Any:
    """The leaf, as a copy if it is a tensor over one of these places in memory."""
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) and _memory(leaf) in places - {0} else leaf


def _memory(tensor: torch.Tensor) -> int:
    """Where the memory of a tensor begins; 0 if it has none of its own, as a sparse one."""
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (NotImplementedError, RuntimeError):
        return 0


def _owner(model: Any) -> Any:
    return getattr(model, "__self__", model)
