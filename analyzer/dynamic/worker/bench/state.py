"""Find and restore what calls change on the model itself: buffers, which can be restored, and attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from tcready.dynamic.worker.measure.output_comparison import DEPTH, seen, written
from tcready.dynamic.worker.measure.precision import OF_EVERY_MODULE
from tcready.dynamic.worker.torch_internals.compile_calls import address_of
from torch import nn

NAMED = 3
"""The most attributes that a note names."""


def marks(model: Any, of: Callable[[torch.Tensor], Any] = written) -> dict[str, list[Any]]:
    """Return a value for each buffer and attribute of a module and its submodules that changes if they do; for a tensor
    in an attribute the result of `of`. Empty for a function."""
    if not isinstance(model, nn.Module):
        return {}
    found = {f"buffer {name}": [written(buffer)] for name, buffer in model.named_buffers()}
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if key not in OF_EVERY_MODULE:
                found[f"{name}.{key}".lstrip(".")] = list(seen(value, DEPTH, set(), of))
    return found


@dataclass(frozen=True)
class Drift:
    """The changes of each call to a model."""

    buffers: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.buffers or self.attributes)

    def __or__(self, other: Drift) -> Drift:
        return Drift(
            tuple(dict.fromkeys(self.buffers + other.buffers)), tuple(dict.fromkeys(self.attributes + other.attributes))
        )

    @property
    def note(self) -> str:
        """Return the note; empty if all changes can be undone."""
        if not self.attributes:
            return ""
        more = f" and {len(self.attributes) - NAMED} more" if len(self.attributes) > NAMED else ""
        return (
            f"each call changes {', '.join(self.attributes[:NAMED])}{more}: all arms are called equally often, but what a"
            " call costs may depend on how many there were before"
        )


def drift(model: Any, call: Callable[[], Any]) -> Drift:
    """Return what a call changes of a model that was called before. A tensor in an attribute counts by its shape, and
    buffers of torch's own modules (statistics of a batch norm) do not count, because the cost of a call does not depend
    on their values. Raises what the call raises."""

    def shape(tensor: torch.Tensor) -> Any:
        return tuple(tensor.shape)

    before = marks(model, shape)
    call()
    changed = [name for name, value in marks(model, shape).items() if before.get(name) != value]
    own = _buffers_of_torch(model)
    buffers = [name.removeprefix("buffer ") for name in changed if name.startswith("buffer ")]
    return Drift(
        tuple(name for name in buffers if name not in own),
        tuple(name for name in changed if not name.startswith("buffer ")),
    )


def _buffers_of_torch(model: Any) -> frozenset[str]:
    if not isinstance(model, nn.Module):
        return frozenset()
    return frozenset(
        f"{name}.{key}".lstrip(".")
        for name, module in model.named_modules()
        if type(module).__module__.startswith("torch.nn.")
        for key, _ in module.named_buffers(recurse=False)
    )


def copy_buffers(model: Any, names: Iterable[str]) -> Mapping[str, torch.Tensor]:
    """Return copies of those buffers, by name."""
    if not isinstance(model, nn.Module):
        return {}
    known = dict(model.named_buffers())
    return {name: known[name].detach().clone() for name in names if name in known}


def as_built(model: Any, other: Any) -> bool:
    """Give a model the weights and buffers of another one, in place. Return whether both have the same ones, so that
    this is possible."""
    if not isinstance(model, nn.Module) or not isinstance(other, nn.Module):
        return False
    mine, others = (dict((*each.named_parameters(), *each.named_buffers())) for each in (model, other))
    if mine.keys() != others.keys() or any(mine[name].shape != others[name].shape for name in mine):
        return False
    with torch.no_grad():
        for name, tensor in mine.items():
            if address_of(tensor) is None or address_of(tensor) != address_of(others[name]):
                tensor.copy_(others[name])
    return True


def put_back(model: Any, buffers: Mapping[str, torch.Tensor]) -> None:
    """Restore buffers, in the same memory if the size allows: CUDA graphs refer to the memory address."""
    for name, value in buffers.items():
        owner, _, key = name.rpartition(".")
        module = model.get_submodule(owner)
        now = module._buffers.get(key)
        if now is not None and now.shape == value.shape and now.dtype == value.dtype:
            with torch.no_grad():
                now.copy_(value)
        else:
            module._buffers[key] = value.clone()
