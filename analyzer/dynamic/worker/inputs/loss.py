"""Find the loss of a training step: the output's own loss, or one that is computed from the output."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

SEED_PROJECTION = 2

PathStep = tuple[str, Any]
"""One step from an output to a tensor in it: `attribute` or `item`, and which."""


class NotTrainedError(Exception):
    """The reason why there is nothing to train, in one line."""


@dataclass(frozen=True)
class Loss:
    """A scalar computed from an output. It is also called under compilation, so it holds nothing that Dynamo cannot
    trace."""

    how: str
    paths: tuple[tuple[PathStep, ...], ...]
    weights: tuple[torch.Tensor, ...]
    """A fixed random projection for each path, with the shape of its tensor; none if the tensors are losses."""

    def tensors(self, output: Any) -> list[torch.Tensor]:
        """Return the tensors from which the scalar is computed."""
        found = []
        for path in self.paths:
            value = output
            for kind, key in path:
                value = getattr(value, key) if kind == "attribute" else value[key]
            found.append(value)
        return found

    def __call__(self, output: Any) -> torch.Tensor:
        """Return the scalar, with its graph."""
        return self.combine(self.tensors(output))

    def combine(self, tensors: list[torch.Tensor]) -> torch.Tensor:
        """Compute the scalar from its tensors."""
        if not self.weights:
            return torch.stack([tensor.reshape(()) for tensor in tensors]).sum() if len(tensors) > 1 else tensors[0]
        parts = [
            (_real(tensor).to(weight.dtype) * weight).mean()
            for tensor, weight in zip(tensors, self.weights, strict=True)
        ]
        return torch.stack(parts).sum() if len(parts) > 1 else parts[0]


def with_terms_apart(loss: Loss) -> Loss:
    """Return the sum of several scalars with another weight for each, so that exchanged terms change gradients."""
    if loss.weights or len(loss.paths) < 2:
        return loss
    return replace(loss, weights=tuple(torch.tensor(1 + 0.25 * number) for number in range(len(loss.paths))))


def loss_of(output: Any) -> Loss:
    """Return the loss of this output: its `loss`, its scalars, else a deterministic replacement.

    Raises NotTrainedError if no tensor of the output carries a gradient.
    """
    given = _own_loss(output)
    if given is not None:
        return Loss(f"output.{given[1]}" if given[0] == "attribute" else f"output[{given[1]!r}]", ((given,),), ())
    found = [(path, tensor) for path, tensor in _tensors(output, ()) if _carries_gradient(tensor)]
    if not found:
        raise NotTrainedError(
            "no tensor of the output requires grad: the forward runs without gradients, or detaches what it gives"
        )
    paths = tuple(path for path, _ in found)
    if all(tensor.numel() == 1 and not tensor.is_complex() for _, tensor in found):
        names = ", ".join(_spelled(path) for path in paths)
        return Loss(names if len(paths) == 1 else f"the sum of {names}", paths, ())
    generator = torch.Generator().manual_seed(SEED_PROJECTION)
    weights = tuple(_projection(_real(tensor), generator) for _, tensor in found)
    count = f"{len(found)} tensors" if len(found) > 1 else _spelled(paths[0])
    return Loss(f"synthesised: mean of the output times a fixed random projection ({count})", paths, weights)


def _own_loss(output: Any) -> PathStep | None:
    """Return the output's own loss: a scalar with a gradient, as an item or an attribute."""
    if isinstance(output, Mapping) and "loss" in output:
        return ("item", "loss") if _is_loss(output["loss"]) else None
    if isinstance(output, (torch.Tensor, nn.Module)):
        return None
    return ("attribute", "loss") if _is_loss(getattr(output, "loss", None)) else None


def _is_loss(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() == 1 and _carries_gradient(value)


def _carries_gradient(tensor: torch.Tensor) -> bool:
    """Return whether a loss can be computed from a tensor: strided, not empty, floating or complex, with a gradient."""
    return tensor.requires_grad and tensor.layout is torch.strided and not tensor.is_nested and tensor.numel() > 0


def _tensors(value: Any, path: tuple[PathStep, ...]) -> Iterator[tuple[tuple[PathStep, ...], torch.Tensor]]:
    """Yield every tensor in mappings, sequences and dataclasses; an output that is another object is opened too."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _tensors(item, (*path, ("item", key)))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _tensors(item, (*path, ("item", index)))
    elif isinstance(value, nn.Module) or callable(value):
        return
    elif dataclasses.is_dataclass(value) or not path:
        for name, item in getattr(value, "__dict__", {}).items():
            yield from _tensors(item, (*path, ("attribute", name)))


def _spelled(path: tuple[PathStep, ...]) -> str:
    return "output" + "".join(f".{key}" if kind == "attribute" else f"[{key!r}]" for kind, key in path)


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _projection(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return a projection that is drawn on the host in float32, so that it is the same on every device and in every
    dtype; half precision is summed in single."""
    dtype = tensor.dtype if tensor.dtype in (torch.float32, torch.float64) else torch.float32
    return torch.randn(tensor.shape, generator=generator, dtype=torch.float32).to(tensor.device, dtype)
