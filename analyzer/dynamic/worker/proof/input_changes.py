"""How tensors among inputs are changed: values, sizes, layouts and masks."""

from __future__ import annotations

import copy
import dataclasses
import enum
import itertools
import math
import sys
from collections import UserDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from tcready.dynamic.worker.torch_internals import pytree
from torch import nn

Vary = Callable[[Any, torch.Generator], Any]


VaryOne = Callable[[Any], Any]


def floats_of(change: Callable[[torch.Tensor], torch.Tensor]) -> Vary:
    return lambda value, _draw: map_tensors(
        value, lambda tensor: change(tensor) if tensor.is_floating_point() else tensor
    )


def one_tensor_of(change: Callable[[torch.Tensor], torch.Tensor], position: int) -> Vary:
    """Return a change of one tensor, if there are others: the first (0) or the last (-1)."""

    def vary(value: Any, _draw: torch.Generator) -> Any:
        order = itertools.count()
        count = len([*tensors_of(value)])
        chosen = position % count if count > 1 else -1
        return map_tensors(value, lambda tensor: change(tensor) if next(order) == chosen else tensor)

    return vary


def kinds(
    floats: Callable[[torch.Tensor], torch.Tensor],
    numbers: Callable[[torch.Tensor], torch.Tensor],
    flags: Callable[[torch.Tensor], torch.Tensor],
) -> Vary:
    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype == torch.bool:
            return flags(tensor)
        return floats(tensor) if tensor.is_floating_point() else numbers(tensor)

    return lambda value, _draw: map_tensors(value, change)


def same_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def at_place(number: float, place: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a change of one value of a tensor: that at `place`, counted from the end if it is negative."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.numel() > max(place, 0):
            tensor.view(-1)[place] = number
        return tensor

    return change


def first_of(number: float) -> Callable[[torch.Tensor], torch.Tensor]:
    return at_place(number, 0)


def last_row_of(number: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a change of the last row, which is all that the last dimension holds there, if there are others."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() > 1 and tensor.shape[-2] > 1:
            tensor[..., -1, :] = number
        return tensor

    return change


def all_of(number: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: torch.full_like(tensor, number)


def draw_values(value: Any, draw: torch.Generator) -> Any:
    """Return other values of the same spread; integers and flags in another order."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.numel():
            return tensor
        if tensor.is_floating_point():
            noise = torch.randn(tensor.shape, generator=draw).to(tensor)
            spread = tensor.float().std() if tensor.numel() > 1 else tensor.float().abs().sum()
            return noise * torch.nan_to_num(spread, 1.0).to(tensor) + tensor.mean()
        order = torch.randperm(tensor.numel(), generator=draw).to(tensor.device)
        return tensor.reshape(-1)[order].reshape(tensor.shape)

    return map_tensors(value, change)


def drawn(value: Any, seed: int) -> Any:
    """Return inputs of the same shapes with other values: floats of the same mean and spread, integers and flags in
    another order."""
    return draw_values(value, torch.Generator().manual_seed(seed))


def other_values(value: Any, number: int) -> Any:
    """Return inputs of the same shapes with other values: on a CPU integers larger by `number`, other flags true."""
    draw = torch.Generator().manual_seed(abs(number))
    shifted = kinds(same_of, on_cpu(lambda tensor: tensor + number), same_of)
    return shifted(masks_in_part(draw_values(value, draw), draw), draw)


def other_integers(value: Any, number: int) -> Any:
    """Return inputs with Python's integers larger by `number`."""
    return pytree.tree_map(lambda leaf: leaf + number if type(leaf) is int else leaf, value)


def has_integers(value: Any) -> bool:
    """Return whether inputs hold Python integers."""
    return any(type(leaf) is int for leaf in pytree.tree_leaves(value))


def longer(value: Any, dimension: int) -> Any:
    """Return inputs that are longer by one in each dimension as long as this one of the first tensor."""
    return InDimension("longer", one_more, dimension).vary(value, torch.Generator())


def dimensions(value: Any) -> int:
    """Return how many dimensions the first tensor has."""
    return next((tensor.dim() for tensor in tensors_of(value)), 0)


def with_rows(value: Any, rows: int) -> Any:
    """Return inputs with only the first rows of each tensor that is as long as the first one."""
    return resize_rows(rows)(value, torch.Generator())


def resize_rows(rows: int) -> Vary:
    """Return a change that keeps the given number of rows of every tensor that is as long as the first one."""

    def vary(value: Any, _draw: torch.Generator) -> Any:
        shape = shape_of(value, 0)
        if shape:
            value = _map_lists(value, shape[0], lambda items: items[:rows])
        return map_tensors(value, lambda t: t[:rows].clone() if shape and t.dim() and t.shape[0] == shape[0] else t)

    return vary


def _map_lists(value: Any, rows: int, change: Callable[[list[Any]], list[Any]]) -> Any:
    """Change each list with an item for each row: numbers, strings, or dicts such as the targets of images."""

    def is_one(each: Any) -> bool:
        return type(each) is list and len(each) == rows > 0 and not any(isinstance(x, torch.Tensor) for x in each)

    return pytree.tree_map(lambda each: change(each) if is_one(each) else each, value, is_leaf=is_one)


@dataclass(frozen=True)
class InDimension:
    """Changes every dimension with the size of one of the first tensor that has it, or of another one; `alone`: only
    this one, in tensors of that shape."""

    what: str
    change: Callable[[torch.Tensor, int], torch.Tensor]
    dimension: int
    of: int = 0
    """The index among the tensors that have such a dimension: -1 is the last."""
    alone: bool = False
    only: bool = False
    """True if only this tensor is changed."""

    @property
    def name(self) -> str:
        words = f" of {WHICH[self.of]}" if self.of or self.only else " alone" if self.alone else ""
        words += " alone" if self.only else ", and in no other" if self.alone and self.of else ""
        return f"{self.what} in dimension {self.dimension}{words}"

    def shape(self, value: Any) -> torch.Size | None:
        """Return the shape of the tensor with the dimension."""
        return shape_of(value, self.dimension, self.of)

    def vary(self, value: Any, _draw: torch.Generator) -> Any:
        shape = self.shape(value)
        having = [tensor for tensor in tensors_of(value) if tensor.dim() > self.dimension]
        chosen = self.of % max(len(having), 1)
        met = itertools.count()

        def changed(tensor: torch.Tensor) -> torch.Tensor:
            if self.only:
                is_it = tensor.dim() > self.dimension and next(met) == chosen
                return self.change(tensor, self.dimension) if is_it else tensor
            if shape is None or (self.alone and tensor.shape != shape):
                return tensor
            for each, size in enumerate(tensor.shape):
                if size == shape[self.dimension] and (each == self.dimension or not self.alone):
                    tensor = self.change(tensor, each)
            return tensor

        if shape is not None and not self.dimension and not self.only and self.change is one_more:
            value = _map_lists(value, shape[0], lambda items: [*items, copy.deepcopy(items[0])])
        return map_tensors(value, changed)


def one_more(tensor: torch.Tensor, dimension: int) -> torch.Tensor:
    """Append a copy of the first entry, with other values."""
    first = tensor.narrow(dimension, 0, min(tensor.shape[dimension], 1))
    return torch.cat((tensor, other_valid_values(first)), dimension)


def three_more(tensor: torch.Tensor, dimension: int) -> torch.Tensor:
    for _ in range(3):
        tensor = one_more(tensor, dimension)
    return tensor


def twice_of(tensor: torch.Tensor, dimension: int) -> torch.Tensor:
    return torch.cat((tensor, other_valid_values(tensor)), dimension)


def first_alone_of(tensor: torch.Tensor, dimension: int) -> torch.Tensor:
    return tensor.narrow(dimension, 0, min(tensor.shape[dimension], 1)).contiguous()


def none_of(tensor: torch.Tensor, dimension: int) -> torch.Tensor:
    return tensor.narrow(dimension, 0, 0).contiguous()


MOST_NUMBERS = 1 << 22
"""The number of values of a tensor above which it is not made longer."""


def as_long_as(length: int) -> Callable[[torch.Tensor, int], torch.Tensor]:
    """Return a change to this length: cut, or repeated with other values."""

    def change(tensor: torch.Tensor, dimension: int) -> torch.Tensor:
        size = tensor.shape[dimension]
        if not size or tensor.numel() // size * length > MOST_NUMBERS:
            return tensor
        parts = [tensor, *[other_valid_values(tensor)] * (math.ceil(length / size) - 1)]
        return torch.cat(parts, dimension).narrow(dimension, 0, length).contiguous()

    return change


def other_valid_values(tensor: torch.Tensor) -> torch.Tensor:
    """Return other values that are valid as well: an index remains one."""
    if tensor.dtype == torch.bool:
        return ~tensor
    return torch.where(tensor > 0, tensor - 1, tensor) if counts_of(tensor) else tensor * -0.5


WHICH = {0: "the first", 1: "the second", 2: "the third", -1: "the last"}


def shape_of(value: Any, dimension: int, of: int = 0) -> torch.Size | None:
    """Return the shape of one of the tensors that have such a dimension."""
    shapes = [tensor.shape for tensor in tensors_of(value) if tensor.dim() > dimension]
    return shapes[of] if len(shapes) > max(of, 0) else None


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif (array := _as_tensor(leaf)) is not None:
            yield array
        elif (fields := _fields(leaf)) is not None:
            yield from tensors_of([*fields.values()])


def _as_tensor(leaf: Any) -> torch.Tensor | None:
    """Return the values of an array of NumPy; None for anything else, and for types that torch has not."""
    if type(leaf).__module__ != "numpy" or type(leaf).__name__ != "ndarray":
        return None
    try:
        return torch.from_numpy(leaf.copy())
    except TypeError:
        return None


def _as_array(tensor: torch.Tensor, otherwise: Any) -> Any:
    try:
        return tensor.numpy()
    except TypeError:  # NumPy has no such type
        return otherwise


def _is_record(leaf: Any) -> bool:
    return dataclasses.is_dataclass(leaf) and not isinstance(leaf, type)


NO_RECORDS = (nn.Module, enum.Enum, type, ModuleType, torch.Generator, torch.dtype)


def _fields(leaf: Any) -> dict[str, Any] | None:
    """Return the fields of a dataclass, or the attributes of another object of a user's class, as of a batch or an
    encoding; None for anything else, and for objects that contain objects."""
    if _is_record(leaf):
        return {each.name: getattr(leaf, each.name) for each in dataclasses.fields(leaf) if hasattr(leaf, each.name)}
    own = getattr(leaf, "__dict__", None)
    of = type(leaf).__module__.partition(".")[0]
    if not isinstance(own, dict) or isinstance(leaf, NO_RECORDS) or callable(leaf) or isinstance(leaf, Iterator):
        return None
    if of in ("torch", "numpy") or (of in sys.stdlib_module_names and type(leaf) not in RECORDS):
        return None
    plain = (torch.Tensor, bool, int, float, str, bytes, type(None))
    inside = [each for each in pytree.tree_leaves([*own.values()]) if not isinstance(each, plain)]
    return None if any(hasattr(each, "__dict__") and not _is_record(each) for each in inside) else own


RECORDS = (SimpleNamespace, UserDict)
"""Classes of the standard library with values that a user sets."""


def _with_fields(leaf: Any, change: Callable[[Any], Any]) -> Any:
    """Return a copy of an object with changed fields."""
    copied = copy.copy(leaf)
    for name, value in (_fields(leaf) or {}).items():
        object.__setattr__(copied, name, change(value))
    return copied


def map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return a value with every tensor changed, including those in dataclasses and in other objects that hold
    values."""

    def each(leaf: Any) -> Any:
        if _fields(leaf) is not None:
            return _with_fields(leaf, lambda value: map_tensors(value, change))
        if (array := _as_tensor(leaf)) is not None:
            return _as_array(change(array), leaf)
        if type(leaf) is not torch.Tensor or leaf.layout != torch.strided:
            return leaf
        copied = leaf.detach().clone(memory_format=torch.contiguous_format)
        return change(copied).requires_grad_(leaf.requires_grad)

    return pytree.tree_map(each, value)


def masks_in_part(value: Any, draw: torch.Generator) -> Any:
    """Return flags that are true in two of three places."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype != torch.bool:
            return tensor
        return (torch.rand(tensor.shape, generator=draw) < 2 / 3).to(tensor.device)

    return map_tensors(value, change)


def padding_mask(tensor: torch.Tensor) -> torch.Tensor:
    """Return flags that are true at the beginning of each row: all of the first row, fewer in each next one."""
    if not tensor.dim() or not tensor.numel():
        return tensor
    length = tensor.shape[-1]
    row = torch.arange(tensor.numel() // length, device=tensor.device)
    return (torch.arange(length, device=tensor.device) < length - row[:, None] % length).reshape(tensor.shape)


def one_true(tensor: torch.Tensor) -> torch.Tensor:
    """Return flags of which only the first is true."""
    return first_of(1)(torch.zeros_like(tensor))


def change_layout(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same values in another memory layout."""
    if tensor.dim() == 4:
        return tensor.contiguous(memory_format=torch.channels_last)
    return tensor.transpose(-1, -2).contiguous().transpose(-1, -2) if tensor.dim() > 1 else tensor


def reverse_layout(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same values with the dimensions in reverse order in memory."""
    order = tuple(reversed(range(tensor.dim())))
    return tensor.permute(order).contiguous().permute(order)


def then_of(first: Vary, second: Vary) -> Vary:
    return lambda value, draw: second(first(value, draw), draw)


def more_of(times: float, by: int) -> VaryOne:
    """Return floats multiplied by a factor, with zero replaced by the result for one, and integers increased by a
    number."""

    def change(leaf: Any) -> Any:
        if type(leaf) is int:
            return leaf + by
        return (leaf * times or times - 1) if type(leaf) is float else leaf

    return change


LARGE = 999
"""More than the number of labels in a tried model, and not a size that takes long."""
NARROW = 2**15
"""An integer type that ends below this is tried at its end: there its sums wrap around, but Python's do not."""


def with_a_large_number(tensor: torch.Tensor) -> torch.Tensor:
    """Put a large number into a tensor. On an accelerator an index out of range ends the process, so nothing changes
    there."""
    if tensor.device.type != "cpu" or not counts_of(tensor):
        return tensor
    most = torch.iinfo(tensor.dtype).max
    return first_of(most if most < NARROW else LARGE)(tensor)


def counts_of(tensor: torch.Tensor) -> bool:
    """Return whether a tensor holds integers."""
    return tensor.dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def on_cpu(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Apply a change to signed integers only on a CPU, because an index out of range does not end the process there."""
    return lambda tensor: change(tensor) if tensor.device.type == "cpu" and tensor.dtype.is_signed else tensor


def convert_floats(dtype: torch.dtype) -> Vary:
    return floats_of(lambda tensor: tensor.to(dtype) if tensor.dtype == torch.float32 else tensor)


def each_apart_of(value: Any, _draw: torch.Generator) -> Any:
    """Change each tensor in another way: floats by sign and size, every other flag."""
    order = itertools.count()

    def change(tensor: torch.Tensor) -> torch.Tensor:
        number = next(order)
        if tensor.is_floating_point():
            return tensor * (-1.0, 2.0, -0.5, 3.0)[number % 4]
        return tensor.logical_not() if tensor.dtype == torch.bool and number % 2 else tensor

    return map_tensors(value, change)


def same_twice(value: Any, _draw: torch.Generator) -> Any:
    """Pass a tensor again in place of the next one of its shape and dtype."""
    leaves, tree = pytree.tree_flatten(value)
    known: dict[tuple[torch.dtype, torch.Size], torch.Tensor] = {}
    found = [
        known.setdefault((leaf.dtype, leaf.shape), leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves
    ]
    return pytree.tree_unflatten(found, tree)


def member_behind(leaf: Any, steps: int) -> Any:
    """Return the member of an enum that many steps after this one, continuing with the first after the last; anything
    else unchanged."""
    if not isinstance(leaf, enum.Enum):
        return leaf
    members = [*type(leaf)]
    return members[(members.index(leaf) + steps) % len(members)] if leaf in members else leaf


def map_plain(change: VaryOne, value: Any) -> Any:
    """Change slices, and numbers, flags, strings and members of enums in containers, dataclasses, other objects that hold
    values, and slices."""

    def each(leaf: Any) -> Any:
        if _fields(leaf) is not None:
            return _with_fields(leaf, lambda value: map_plain(change, value))
        changed = change(leaf)
        if isinstance(leaf, slice) and changed is leaf:
            return slice(change(leaf.start), change(leaf.stop), change(leaf.step))
        return changed

    return pytree.tree_map(each, value)


def plain_leaves(value: Any) -> list[Any]:
    """Return the values that `map_plain` changes."""
    found: list[Any] = []

    def note(leaf: Any) -> Any:
        if type(leaf) in (bool, int, float, str, slice) or isinstance(leaf, (enum.Enum, torch.dtype)):
            found.append(leaf)
        return leaf

    map_plain(note, value)
    return found


def is_dtype_of_floats(leaf: Any) -> bool:
    return isinstance(leaf, torch.dtype) and leaf.is_floating_point


def with_defaults(value: Any) -> Any:
    """Return a value in which the fields of dataclasses and named tuples have their default values, if they have any."""

    def each(leaf: Any) -> Any:
        if _is_record(leaf):
            given = [field for field in dataclasses.fields(leaf) if field.default is not dataclasses.MISSING]
            copied = copy.copy(leaf)
            for field in given:
                object.__setattr__(copied, field.name, field.default)
            return copied
        return leaf._replace(**leaf._field_defaults) if hasattr(leaf, "_field_defaults") else leaf

    return pytree.tree_map(each, value, is_leaf=lambda leaf: hasattr(leaf, "_field_defaults"))


def containers_of(value: Any) -> str:
    """Return the structure of a value, with the types of its containers and the values of the fields of dataclasses
    that are None."""
    leaves, tree = pytree.tree_flatten(value)
    empty = [
        [getattr(leaf, field.name, None) is None for field in dataclasses.fields(leaf)]
        for leaf in leaves
        if _is_record(leaf)
    ]
    return f"{tree} {empty}"


def is_finite(leaf: Any) -> bool:
    return type(leaf) is float and math.isfinite(leaf)


def some_of(change: Vary, share: float = 1 / 3) -> Vary:
    """Return a change of some randomly chosen values of each tensor."""

    def vary(value: Any, draw: torch.Generator) -> Any:
        def mixed(tensor: torch.Tensor) -> torch.Tensor:
            chosen = (torch.rand(tensor.shape, generator=draw) < share).to(tensor.device)
            return torch.where(chosen, change(tensor, draw), tensor)

        return map_tensors(value, mixed)

    return vary
