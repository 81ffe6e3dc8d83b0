"""Find the dimensions of the inputs that may vary together, and make inputs of another size."""

from __future__ import annotations

import contextlib
import inspect
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.torch_internals import pytree

IMAGE, SERIES, TABLE = 4, 3, 2
"""The numbers of dimensions of a float input that is assumed to be images, a series of vectors, or vectors."""

Places = tuple[tuple[int, int], ...]
"""Dimensions that are varied together: (index of the leaf among the inputs, dimension)."""


@dataclass(frozen=True)
class Input:
    """A tensor among the inputs: the index of its leaf, and its name as the caller would write it."""

    leaf: int
    name: str
    tensor: torch.Tensor

    @property
    def counts(self) -> bool:
        """True if it holds token ids, indices or a mask instead of features."""
        return not self.tensor.is_floating_point() and not self.tensor.is_complex()


@dataclass(frozen=True)
class AxisCandidate:
    """Dimensions of one size. `groups`: which of them vary together, the most likely first; the eager model decides."""

    name: str
    size: int
    groups: tuple[Places, ...]
    instead_of: str | None = None
    """The candidate that must have turned out fixed before this one is tried."""


def inputs_of(case: Case, names: Sequence[str]) -> list[Input]:
    """Return the strided tensors with a dimension among the inputs; `names` are those of the positional parameters."""
    found = []
    leaves, _ = pytree.tree_flatten_with_path((case.args, case.kwargs))
    for number, (path, leaf) in enumerate(leaves):
        if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided and leaf.dim() and leaf.numel():
            key = path[1].idx if isinstance(path[1], pytree.SequenceKey) else path[1].key
            if isinstance(key, int):
                key = names[key] if key < len(names) else f"args[{key}]"
            found.append(Input(number, f"{key}{pytree.keystr(path[2:])}", leaf))
    return found


def parameter_names(model: Any) -> list[str]:
    """Return the positional parameters of the target; none if its signature cannot be read."""
    function = model.forward if isinstance(model, torch.nn.Module) else model
    with contextlib.suppress(TypeError, ValueError):
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return [p.name for p in inspect.signature(function).parameters.values() if p.kind in kinds]
    return []


def candidates(inputs: Sequence[Input]) -> list[AxisCandidate]:
    """Return groups of dimensions that may vary together, by kind and size.

    The first dimension that most inputs share is the batch. The further dimensions of integer and boolean inputs,
    with those of the same size elsewhere, are sequences. For float inputs alone: height and width of images, the
    dimensions of a series or a vector; never the channels of an image.
    """
    if not inputs:
        return []
    # Of equally frequent sizes, Counter gives the one met first.
    size = Counter(item.tensor.size(0) for item in inputs).most_common(1)[0][0]
    batch = tuple((item.leaf, 0) for item in inputs if item.tensor.size(0) == size)
    everywhere = _of_size(inputs, size, ())
    found = [AxisCandidate("batch", size, tuple(dict.fromkeys((batch, everywhere))))]
    taken = set(batch)
    found += _sequences(inputs, taken)
    found += _features(inputs, taken)
    return found


def _of_size(inputs: Iterable[Input], size: int, taken: Iterable[tuple[int, int]]) -> Places:
    return tuple(
        (item.leaf, dimension)
        for item in inputs
        for dimension, length in enumerate(item.tensor.shape)
        if length == size and (item.leaf, dimension) not in taken
    )


def _sequences(inputs: Sequence[Input], taken: set[tuple[int, int]]) -> Iterator[AxisCandidate]:
    """Yield the sizes of the further dimensions of integer and boolean inputs; add them to `taken`."""
    sizes: dict[int, str] = {}
    for item in inputs:
        if item.counts and item.tensor.dim() > 1:
            for length in item.tensor.shape[1:]:
                # A mask is [batch, 1, length, length]: its 1 is no size.
                if length > 1 or item.tensor.dim() == TABLE:
                    sizes.setdefault(length, item.name)
    batch = frozenset(taken)
    for length, name in sizes.items():
        everywhere = _of_size(inputs, length, batch)
        tokens = {item.leaf for item in inputs if item.counts}
        narrow = tuple(place for place in everywhere if place[0] in tokens or place[1] == 1)
        taken.update(everywhere)
        label = "sequence" if len(sizes) == 1 else f"sequence of {name}"
        yield AxisCandidate(label, length, tuple(dict.fromkeys((everywhere, narrow))))


def _features(inputs: Sequence[Input], taken: set[tuple[int, int]]) -> Iterator[AxisCandidate]:
    """Yield sizes of float inputs that no integer input shares."""
    floats = [item for item in inputs if not item.counts]
    for item in floats:
        if item.tensor.dim() == IMAGE and (item.leaf, 2) not in taken:
            height, width = item.tensor.shape[2:]
            images = [other for other in floats if other.tensor.shape[2:] == item.tensor.shape[2:]]
            images = [other for other in images if other.tensor.dim() == IMAGE]
            taken.update((other.leaf, dimension) for other in images for dimension in (2, 3))
            rows, columns = (tuple((other.leaf, dimension) for other in images) for dimension in (2, 3))
            if height == width:
                yield AxisCandidate("height and width", height, ((*rows, *columns),))
            else:
                yield AxisCandidate("height", height, (rows,))
                yield AxisCandidate("width", width, (columns,))
        elif item.tensor.dim() in (TABLE, SERIES) and (item.leaf, 1) not in taken:
            alike = [other for other in floats if other.tensor.dim() == item.tensor.dim()]
            for dimension in range(1, item.tensor.dim()):
                size = item.tensor.size(dimension)
                places = tuple((o.leaf, dimension) for o in alike if o.tensor.size(dimension) == size)
                taken.update(places)
                before = f"dimension {dimension - 1} of {item.name}" if dimension > 1 else None
                yield AxisCandidate(f"dimension {dimension} of {item.name}", size, (places,), before)


def resize_inputs(case: Case, places: Places, size: int) -> Case:
    """The inputs with each of `places` repeated or cut to `size` along its dimension, so that every value is a given one.

    A tensor that is passed twice remains one tensor.
    """
    leaves, spec = pytree.tree_flatten((case.args, case.kwargs))
    made: dict[int, torch.Tensor] = {}
    for tensor, dimensions in _by_tensor(leaves, places).values():
        new = tensor.detach()
        for dimension in dimensions:
            order = torch.arange(size, device=tensor.device) % tensor.size(dimension)
            new = new.index_select(dimension, order)
        if (
            tensor.dim() == IMAGE
            and not tensor.is_contiguous()
            and tensor.is_contiguous(memory_format=torch.channels_last)
        ):
            new = new.contiguous(memory_format=torch.channels_last)
        made[id(tensor)] = new.requires_grad_(tensor.requires_grad)
    args, kwargs = pytree.tree_unflatten([made.get(id(leaf), leaf) for leaf in leaves], spec)
    return replace(case, args=args, kwargs=kwargs)


def _by_tensor(leaves: Sequence[Any], places: Places) -> dict[int, tuple[torch.Tensor, list[int]]]:
    found: dict[int, tuple[torch.Tensor, list[int]]] = {}
    for leaf, dimension in places:
        tensor = leaves[leaf]
        dimensions = found.setdefault(id(tensor), (tensor, []))[1]
        if dimension not in dimensions:
            dimensions.append(dimension)
    return found
