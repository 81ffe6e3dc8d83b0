"""Track small values that are known on the device `meta`: those of the inputs, and values computed only from them.

Lengths, positions and masks of a call are such values, and decide on shapes. Each is a small tensor on the CPU beside
the one on `meta`; views of the one are views of the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from tcready.dynamic.worker.torch_internals import pytree

VALUES_ATTRIBUTE = "_tcready_values"
"""The attribute of a tensor on `meta` with the tensor that has its values."""
MANY = 4096
"""The number of elements from which on no values are stored."""
CPU = torch.device("cpu")
UNSET = frozenset({"aten::empty", "aten::empty_like", "aten::new_empty", "aten::empty_strided"})
"""Operators that return uninitialised memory."""


@dataclass(frozen=True)
class Given:
    """The arguments of an operator, with values."""

    args: Any
    kwargs: Any


@dataclass(frozen=True)
class Result:
    value: Any


@dataclass
class KnownValues:
    """The values that are known in one call."""

    stale: set[int] = field(default_factory=set)
    """Memory of values into which something unknown was written since."""

    def value_of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        known_value: torch.Tensor | None = getattr(tensor, VALUES_ATTRIBUTE, None)
        return None if known_value is None or _memory(known_value) in self.stale else known_value

    def known_arguments(self, func: Any, args: Any, kwargs: Any) -> Given | None:
        """Return the arguments of an operator with their values; None unless all are known and decide its result.

        Values of tensors that it writes to are not known afterwards.
        """
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        values = {id(tensor): self.value_of(tensor) for tensor in tensors if tensor.is_meta}
        known = None not in values.values() and (bool(values) or (not tensors and _makes_on_meta(kwargs)))
        if known and _is_determined(func):
            return Given(*pytree.tree_map_only(torch.Tensor, lambda each: values.get(id(each), each), (args, kwargs)))
        if any(known_value is not None for known_value in values.values()):
            for tensor in _written_tensors(func, args, kwargs):
                known_value = values.get(id(tensor))
                if known_value is not None:
                    self.stale.add(_memory(known_value))
        return None

    def compute_on_cpu(self, func: Any, given: Given) -> Result | None:
        """Return the operator's result on the CPU; None if that raises."""
        kwargs = {**given.kwargs, "device": CPU} if given.kwargs.get("device") is not None else given.kwargs
        try:
            with torch.no_grad():
                return Result(func(*given.args, **kwargs))
        except Exception:  # `meta` may accept arguments that the CPU does not
            return None

    def store(self, result: Any, func: Any, given: Given) -> None:
        """Store the values of a result on `meta` of those arguments, if they are few."""
        made = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        if not all(tensor.is_meta and tensor.numel() <= MANY for tensor in made):
            for tensor in _written_tensors(func, given.args, given.kwargs):
                self.stale.add(_memory(tensor))
            return
        computed = self.compute_on_cpu(func, given)
        if computed is None:
            return
        values = [leaf for leaf in pytree.tree_leaves(computed.value) if isinstance(leaf, torch.Tensor)]
        for one, other in zip(made, values, strict=False):
            keep_values(one, other)


def keep_values(tensor: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Store the values of a tensor on `meta`, if they are few; return the tensor."""
    if tensor.is_meta and values.device == CPU and tensor.shape == values.shape and values.numel() <= MANY:
        setattr(tensor, VALUES_ATTRIBUTE, values.detach())
    return tensor


def moved_to_meta(value: Any) -> Any:
    """Move the tensors in a value to `meta`, with their values if they are few."""
    return pytree.tree_map_only(torch.Tensor, lambda tensor: keep_values(tensor.to("meta"), tensor), value)


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _makes_on_meta(kwargs: Any) -> bool:
    device = kwargs.get("device")
    return device is not None and torch.device(device).type == "meta"


def _is_determined(func: Any) -> bool:
    """Return whether the arguments decide the operator's result."""
    return (
        func.namespace in ("aten", "prims")
        and torch.Tag.nondeterministic_seeded not in func.tags
        and func._schema.name not in UNSET
    )


def _written_tensors(func: Any, args: Any, kwargs: Any) -> Iterator[torch.Tensor]:
    """Return the tensors to which the operator writes, by its schema."""
    for place, each in enumerate(func._schema.arguments):
        if each.alias_info is not None and each.alias_info.is_write:
            value = args[place] if place < len(args) else kwargs.get(each.name)
            if isinstance(value, torch.Tensor):
                yield value
