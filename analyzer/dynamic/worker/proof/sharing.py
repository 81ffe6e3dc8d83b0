"""Find which tensors that a caller has after a call share memory."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import torch
from tcready.dynamic.worker.proof.copied_values import inside
from torch import nn

Pair = tuple[str, str]
DEPTH = 3


def shared(outputs: Iterable[Any], inputs: Iterable[Any], model: Any) -> frozenset[Pair]:
    """Return pairs, by name, of tensors that share memory: outputs with each other, with inputs and with tensors of the
    model, and tensors of the model, except parameters, with inputs."""
    came = [*_tensors("output", outputs)]
    passed = [*_tensors("input", inputs)]
    own = {name: _memory(tensor) for name, tensor in _tensors_of_model(model)}
    non_parameters = {name: each for name, each in own.items() if not name.startswith("parameter ")}
    found = {
        (name, other)
        for number, (name, one) in enumerate(came)
        for other, two in (*came[number + 1 :], *passed, *own.items())
        if one is not None and one == two
    }
    found |= {
        (name, other) for name, one in non_parameters.items() for other, two in passed if one is not None and one == two
    }
    return frozenset(found)


def same_containers(given: Any, passed: Any, model: Any) -> frozenset[Pair]:
    """Return pairs, by name, of lists, dicts, sets and deques that are one object: in the output, and between output,
    arguments and model."""
    came = [*_containers("output", given, DEPTH, set())]
    came_in = [*_containers("input", passed, DEPTH, set())]
    containers: list[tuple[str, Any]] = []
    opened: set[int] = set()
    for name, module in model.named_modules() if isinstance(model, nn.Module) else ():
        for key, value in vars(module).items():
            if key not in _OF_EVERY_MODULE:
                containers += _containers(f"{name}.{key}".lstrip("."), value, DEPTH, opened)
    pairs = [*itertools.combinations(came, 2), *itertools.product(came, (*came_in, *containers))]
    pairs += itertools.product(containers, came_in)
    return frozenset((name, other) for (name, one), (other, two) in pairs if one is two)


def _containers(name: str, value: Any, depth: int, opened: set[int]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, MUTABLE):
        yield name, value
    if depth and id(value) not in opened and (items := inside(value)):
        opened.add(id(value))
        for key, item in items:
            yield from _containers(name + key, item, depth - 1, opened)


MUTABLE = (list, dict, set, deque)


def _tensors(kind: str, leaves: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for number, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            yield f"{kind} {number}", _memory(leaf)


def _tensors_of_model(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if not isinstance(model, nn.Module):
        return
    yield from ((f"parameter {name}", each) for name, each in model.named_parameters())
    yield from ((f"buffer {name}", each) for name, each in model.named_buffers())
    opened: set[int] = set()
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if key not in _OF_EVERY_MODULE:
                yield from _tensors_in(f"{name}.{key}".lstrip("."), value, DEPTH, opened)


_OF_EVERY_MODULE = frozenset(vars(nn.Module()))


def _tensors_in(name: str, value: Any, depth: int, opened: set[int]) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value
    elif depth and id(value) not in opened and (items := inside(value)):
        opened.add(id(value))
        for key, item in items:
            yield from _tensors_in(name + key, item, depth - 1, opened)


def _memory(tensor: torch.Tensor) -> Any:
    """Return the address of its memory; None if it has none that others may have."""
    if tensor.layout != torch.strided or not tensor.numel():
        return None
    try:
        return (str(tensor.device), tensor.untyped_storage().data_ptr()) if tensor.device.type != "meta" else None
    except (RuntimeError, NotImplementedError):  # a class of its own, without memory
        return None


def described(pair: Pair) -> str:
    """Format a pair for messages."""
    return f"{pair[0]} and {pair[1]}"


_What = TypeVar("_What")


def always(seen: Iterable[tuple[_What, frozenset[Pair]]]) -> dict[_What, frozenset[Pair]]:
    """Return the pairs that share memory in every one of the calls, by what was called."""
    found: dict[_What, frozenset[Pair]] = {}
    for what, pairs in seen:
        found[what] = found[what] & pairs if what in found else pairs
    return found
