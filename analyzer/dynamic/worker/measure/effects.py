"""Record the output of a call and its effects on the model and on the arguments, as one outcome."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from tcready.dynamic.worker.core.calling import call
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.measure.call_outcome import CallOutcome
from tcready.dynamic.worker.measure.output_comparison import attributes_of, outcome_of, written
from tcready.dynamic.worker.measure.precision import OF_EVERY_MODULE
from tcready.dynamic.worker.torch_internals.compile_calls import address_of, memory_of, writes
from tcready.dynamic.worker.torch_internals.dynamo import WRAPPED, is_compiled_module
from torch import nn
from torch.nn.parameter import is_lazy

DEPTH = 4
"""The nesting depth of containers and objects that are searched."""
LARGEST = 1000
"""The most items of a container that is searched: a larger one is a vocabulary or a dataset, not state of a call."""
Part = tuple[str, Any]
"""A tensor or a number, with its name."""
_OPAQUE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)


class EffectRecorder:
    """A callable that records what its last call changed in the arguments and in `model`.

    Only tensors that the model has before the first call are compared. A tensor that a call allocates for later calls may
    contain uninitialised memory.
    """

    def __init__(self, context: Context, model: Any, function: Callable[..., Any]) -> None:
        self._context = context
        self._model = model
        self._function = function
        self._arguments: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
        self._before: list[Any] = []
        self._known = frozenset(name for name, _ in _state_of(model))
        self._writes: dict[str, int] = {}
        """The number of writes to each parameter before the call."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._arguments = args, kwargs
        self._before = self._fingerprint()
        self._writes = {label: writes(tensor) for label, tensor in _parameters_of(self._model)}
        return self._function(*args, **kwargs)

    def outcome(self, output: Any) -> CallOutcome:
        """Return the output and the tensors that the call may have written to.

        These are the tensors and numbers in the arguments and, in inference, buffers, tensors in attributes of the
        model, and the parameters that it did write to. A training step compares buffers itself, after its backward.
        """
        found = outcome_of(output)
        if self._context.stand_ins is not None:  # no tensor has values
            return found
        state = [*_state_of(self._model)]
        places = {address_of(tensor) for _, tensor in state} - {None}
        # A later call may write to outputs that are part of the state; arguments belong to one call only.
        leaves = [(label, _detach_from_memory(leaf, places)) for label, leaf in found.leaves]
        leaves += _arguments_in(self._arguments)
        if self._context.work.options.mode == "infer":
            changed = [
                (label, tensor)
                for label, tensor in _parameters_of(self._model)
                if writes(tensor) != self._writes.get(label)
            ]
            own = [(label, part) for label, part in state if label in self._known]
            leaves += ((label, tensor.detach().clone()) for label, tensor in [*own, *changed])
        return CallOutcome(tuple(leaves), found.structure)

    @property
    def changed(self) -> bool:
        """Return whether the call changed the model or its arguments, so that the next one may return something else."""
        return self._before != self._fingerprint()

    def _fingerprint(self) -> list[Any]:
        owner = _owner(self._model)
        modules = owner.modules() if isinstance(owner, nn.Module) else ()
        plain = [
            (name, value)
            for module in modules
            for name, value in vars(module).items()
            if value is None or isinstance(value, (bool, int, float, str))
        ]
        tensors = [*_arguments_in(self._arguments), *_state_of(self._model), *_parameters_of(self._model)]
        return [*plain, *((name, written(part) if isinstance(part, torch.Tensor) else part) for name, part in tensors)]


def outcome_of_call(
    context: Context,
    model: Any,
    function: Callable[..., Any],
    case: Case,
    *watchers: contextlib.AbstractContextManager[Any],
) -> CallOutcome:
    """Call `function`, which is `model` or its compiled form; return its output and effects."""
    observed = EffectRecorder(context, model, function)
    return observed.outcome(call(context, observed, case, *watchers))


def _state_of(model: Any) -> Iterator[Part]:
    """Return buffers and tensors in attributes by name, which is the same for compiled and other modules."""
    owner = _owner(model)
    if not isinstance(owner, nn.Module):
        return
    opened = {id(module) for module in owner.modules()}
    for prefix, module in owner.named_modules():
        if is_compiled_module(module):  # the wrapped function comes next
            continue
        for name, buffer in module.named_buffers(recurse=False):
            if not is_lazy(buffer):
                yield f"buffer {_path(prefix, name)}", buffer
        for name, value in [*vars(module).items()]:
            if name not in OF_EVERY_MODULE:
                for label, part in _parts(f"attribute {_path(prefix, name)}", value, opened):
                    if isinstance(part, torch.Tensor):
                        yield label, part


def _parts(name: str, value: Any, opened: set[int] | None = None, depth: int = DEPTH) -> Iterator[Part]:
    """Yield tensors and numbers in a value: in containers, in attributes of objects, and in buffers of modules.
    Unreadable values are left out, because reading must not fail a call that works."""
    opened = set() if opened is None else opened
    if isinstance(value, (torch.Tensor, bool, int, float)):
        if not is_lazy(value):
            yield name, value
        return
    if not depth or id(value) in opened or value is None or isinstance(value, (str, bytes, *_OPAQUE)):
        return
    opened.add(id(value))
    inside: list[tuple[str, Any]] = []
    with contextlib.suppress(Exception):  # code of the user's own class runs here
        inside = [*_inside(value)]
    for part, item in inside:
        yield from _parts(f"{name}{part}", item, opened, depth - 1)


def _arguments_in(arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> Iterator[Part]:
    opened: set[int] = set()
    for name, value in [*enumerate(arguments[0]), *arguments[1].items()]:
        yield from _parts(f"argument {name}", value, opened)


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, nn.Module):
        yield from ((f".{name}", buffer) for name, buffer in value.named_buffers())
        return
    if isinstance(value, (Mapping, list, tuple)) and len(value) <= LARGEST:
        pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
        yield from ((f"[{key}]", item) for key, item in pairs if isinstance(key, (int, str)))
    yield from ((f".{name}", item) for name, item in (attributes_of(value) or {}).items())


def _parameters_of(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    owner = _owner(model)
    if isinstance(owner, nn.Module):
        for name, parameter in owner.named_parameters():
            if not is_lazy(parameter):
                yield f"parameter {_path(name)}", parameter


def _path(*parts: str) -> str:
    """Return the dotted name of a tensor in a model, without the parts that compiling a module adds."""
    return ".".join(part for part in ".".join(parts).split(".") if part and part != WRAPPED)


def _detach_from_memory(leaf: Any, places: set[int | None]) -> Any:
    """Return the leaf. Copy a tensor that uses one of these memory addresses, or a small part of a larger tensor, such
    as the logits of the last token: otherwise it would keep all of that memory alive."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return leaf.detach().clone() if address_of(leaf) in places or _is_small_part(leaf) else leaf


def _is_small_part(tensor: torch.Tensor) -> bool:
    return bool(memory_of(tensor) > 2 * tensor.numel() * tensor.element_size())


def _owner(model: Any) -> Any:
    return getattr(model, "__self__", model)
