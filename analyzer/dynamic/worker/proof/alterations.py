"""Temporary changes around a call: modes and weights of modules, numbers that they store, settings of the process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from types import NoneType
from typing import Any

import torch
from tcready.dynamic.worker.proof.copied_values import is_plain
from tcready.dynamic.worker.proof.effects_of_call import user_loggers
from tcready.dynamic.worker.proof.input_changes import VaryOne
from tcready.dynamic.worker.proof.variations import (
    AFTER_OTHER_MODE,
    APART_BY_FIRST,
    DOUBLE_BY_DEFAULT,
    FLAGS_ALONE,
    FROZEN,
    GRADIENTS_LEFT,
    IN_MODULES,
    INFINITE,
    LARGE_WEIGHTS,
    LOGGED,
    OF_MODULES,
    OF_PYTHON,
    OTHER_MODE_INSIDE,
    OTHER_NUMBERS,
    OTHER_WEIGHTS,
    each_apart,
    set_to,
    turned_alone,
)
from torch import nn

COPIED = 50_000_000
"""The most numbers of a model that are copied."""


def changes_to_arguments(variation: str, constants: tuple[float | str, ...]) -> VaryOne | None:
    """Return the change to numbers, flags and strings among the arguments; None if they do not change."""
    if variation in APART_BY_FIRST:
        return each_apart(APART_BY_FIRST[variation])
    if variation in FLAGS_ALONE:
        return turned_alone(FLAGS_ALONE[variation])
    at = set_to(constants).get(variation) if not variation.endswith(IN_MODULES) else None
    return OF_PYTHON.get(variation) or at


@contextlib.contextmanager
def altered(
    model: Any, variation: str, constants: tuple[float | str, ...], draw: torch.Generator, change: VaryOne | None
) -> Iterator[None]:
    """Apply a variation to the model for one call. `change` is the change to the arguments."""
    with contextlib.ExitStack() as stack:
        if variation in OF_PYTHON and variation != INFINITE and change is not None:
            own = variation in OTHER_NUMBERS  # these are compiled: torch's modules would be, for each value
            stack.enter_context(other_plain_values(plain_values(model, float, own=own), change))
        if variation in FLAGS_ALONE and change is not None:
            stack.enter_context(other_plain_values(plain_values(model, bool), change))
        if variation in APART_BY_FIRST and change is not None:
            stack.enter_context(other_plain_values(plain_values(model, int, bool, float), change))
        if of_modules := OF_MODULES.get(variation):
            stack.enter_context(other_plain_values(plain_values(model, int, bool, NoneType), of_modules))
        if variation.endswith(IN_MODULES) and (at := set_to(constants).get(variation)):
            stack.enter_context(other_plain_values(plain_values(model, int, str, float, own=True), at))
        if variation == OTHER_MODE_INSIDE:
            stack.enter_context(modes_inside_turned(model))
        if variation == FROZEN:
            stack.enter_context(frozen(model))
        if variation == GRADIENTS_LEFT:
            stack.enter_context(gradients_left(model))
        if variation == OTHER_WEIGHTS:
            stack.enter_context(other_weights(model, lambda each: each + 0.25 * _noise(each, draw)))
        if variation == AFTER_OTHER_MODE:  # it is given its weights again
            stack.enter_context(other_weights(model, lambda each: each))
        if variation == LARGE_WEIGHTS:
            stack.enter_context(other_weights(model, lambda each: each * 100))
        yield


@contextlib.contextmanager
def modes_inside_turned(model: Any) -> Iterator[None]:
    inside = [*model.modules()][1:] if isinstance(model, nn.Module) else []
    modes = [(module, module.training) for module in inside]
    for module, mode in modes:
        module.training = not mode
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextlib.contextmanager
def frozen(model: Any) -> Iterator[None]:
    parameters = [*model.parameters()][::2] if isinstance(model, nn.Module) else []
    known = [(each, each.requires_grad) for each in parameters]
    for each in parameters:
        each.requires_grad_(False)
    try:
        yield
    finally:
        for each, trained in known:
            each.requires_grad_(trained)


@contextlib.contextmanager
def gradients_left(model: Any) -> Iterator[None]:
    """Give parameters the gradients of an earlier step."""
    parameters = [*model.parameters()] if isinstance(model, nn.Module) else []
    for each in parameters:
        each.grad = torch.ones_like(each) if each.requires_grad else None
    try:
        yield
    finally:
        for each in parameters:
            each.grad = None


@contextlib.contextmanager
def setting(variation: str) -> Iterator[None]:
    """Change the setting of the process that a variation names, for one call."""
    dtype = torch.get_default_dtype()
    level = LOGGED.get(variation)
    levels = {logger: logger.level for logger in user_loggers()} if level is not None else {}
    if variation == DOUBLE_BY_DEFAULT:
        torch.set_default_dtype(torch.float64)
    if level is not None:
        for logger in levels:
            logger.setLevel(level)
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        for logger, known in levels.items():
            logger.setLevel(known)


def plain_values(model: Any, *types: type, own: bool = False) -> list[tuple[Any, str, Any]]:
    """Return the values of these types (of numbers, flags, strings and None) that modules keep, as (owner, name, value):
    in attributes, in buffers without dimensions (a counter may be in either) and in configuration objects. Of torch's own
    modules, only floats are returned, because their integers are sizes; with `own`, nothing is."""
    found: list[tuple[Any, str, Any]] = []
    for module in model.modules() if isinstance(model, nn.Module) else ():
        if type(module).__module__.startswith("torch.") and (own or types != (float,)):
            continue
        current = [(name, value) for name, value in vars(module).items() if not name.startswith("_")]
        current += [
            (name, buffer.item())
            for name, buffer in module._buffers.items()
            if buffer is not None and not buffer.dim() and buffer.device.type != "meta"
        ]
        found += [(module, name, value) for name, value in current if type(value) in types and name != "training"]
        for _, value in current:  # a configuration
            if _is_record(value):
                found += [(value, name, each) for name, each in vars(value).items() if type(each) in types]
    return found


def _is_record(value: Any) -> bool:
    """Return whether a value is an object of a user class that holds nothing but plain values."""
    attributes = getattr(value, "__dict__", None)
    is_own = type(value).__module__.partition(".")[0] not in ("builtins", "torch", "numpy")
    return isinstance(attributes, dict) and is_own and not isinstance(value, (nn.Module, type)) and is_plain(attributes)


def _current_value(module: Any, name: str) -> Any:
    value = getattr(module, name, None)
    return value.item() if isinstance(value, torch.Tensor) and not value.dim() else value


def _set_value(module: Any, name: str, value: Any) -> None:
    """Set a value of a module or a configuration, in place if it is a buffer."""
    buffer = module._buffers.get(name) if isinstance(module, nn.Module) else None
    if buffer is not None:
        with torch.no_grad():
            buffer.fill_(value)
    elif isinstance(module, nn.Module):
        setattr(module, name, value)
    else:
        object.__setattr__(module, name, value)  # it may be frozen


@contextlib.contextmanager
def other_plain_values(current: Sequence[tuple[Any, str, Any]], change: VaryOne) -> Iterator[None]:
    changed = [change(value) for _, _, value in current]
    for (module, name, _), value in zip(current, changed, strict=True):
        _set_value(module, name, value)
    try:
        yield
    finally:
        for (module, name, before), value in zip(current, changed, strict=True):
            if _current_value(module, name) == value:
                _set_value(module, name, before)


def weights_of(model: Any) -> list[torch.Tensor]:
    """Return the parameters that may get other values for a call."""
    found = [*model.parameters()] if isinstance(model, nn.Module) else []
    if any(isinstance(each, nn.parameter.UninitializedTensorMixin) for each in found):
        return []
    kinds = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
    found = [each for each in found if each.dtype in kinds and each.layout == torch.strided]
    return found if sum(each.numel() for each in found) <= COPIED else []


def _noise(weights: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
    return torch.randn(weights.shape, generator=draw).to(weights)


@contextlib.contextmanager
def other_weights(model: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    current = [(each, each.detach().clone()) for each in weights_of(model)]
    for each, value in current:
        each.data.copy_(change(value))
    try:
        yield
    finally:
        for each, value in current:
            each.data.copy_(value)
