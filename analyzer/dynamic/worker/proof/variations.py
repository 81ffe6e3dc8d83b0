"""Vary inputs: scaled, shifted, zero, not finite, masks of one value and of both, empty, shorter, longer."""

from __future__ import annotations

import copy
import dataclasses
import enum
import functools
import itertools
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from tcready.dynamic.worker.torch_internals import pytree

Vary = Callable[[Any, torch.Generator], Any]
VaryOne = Callable[[Any], Any]


def _floats(change: Callable[[torch.Tensor], torch.Tensor]) -> Vary:
    return lambda value, _draw: _mapped(
        value, lambda tensor: change(tensor) if tensor.is_floating_point() else tensor
    )


def _kinds(
    floats: Callable[[torch.Tensor], torch.Tensor],
    numbers: Callable[[torch.Tensor], torch.Tensor],
    flags: Callable[[torch.Tensor], torch.Tensor],
) -> Vary:
    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype == torch.bool:
            return flags(tensor)
        return floats(tensor) if tensor.is_floating_point() else numbers(tensor)

    return lambda value, _draw: _mapped(value, change)


def _same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _at_place(number: float, place: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """One value of a tensor is another: that at `place`, counted from the end if it is negative."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.numel() > max(place, 0):
            tensor.view(-1)[place] = number
        return tensor

    return change


def _first(number: float) -> Callable[[torch.Tensor], torch.Tensor]:
    return _at_place(number, 0)


def _all(number: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: torch.full_like(tensor, number)


def _drawn(value: Any, draw: torch.Generator) -> Any:
    """Other values of the same spread; integers and flags in another order."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.numel():
            return tensor
        if tensor.is_floating_point():
            noise = torch.randn(tensor.shape, generator=draw).to(tensor)
            spread = tensor.float().std() if tensor.numel() > 1 else tensor.float().abs().sum()
            return noise * torch.nan_to_num(spread, 1.0).to(tensor) + tensor.mean()
        order = torch.randperm(tensor.numel(), generator=draw).to(tensor.device)
        return tensor.reshape(-1)[order].reshape(tensor.shape)

    return _mapped(value, change)


def drawn(value: Any, seed: int) -> Any:
    """Inputs of the same shapes with other values: floats of the same mean and spread, integers and flags in another
    order."""
    return _drawn(value, torch.Generator().manual_seed(seed))


def other_values(value: Any, number: int) -> Any:
    """Return inputs of the same shapes with other values: on a CPU integers larger by `number`, other flags true."""
    draw = torch.Generator().manual_seed(abs(number))
    shifted = _kinds(_same, _on_cpu(lambda tensor: tensor + number), _same)
    return shifted(_masks_in_part(_drawn(value, draw), draw), draw)


def other_integers(value: Any, number: int) -> Any:
    """Return inputs with Python's integers larger by `number`."""
    return pytree.tree_map(lambda leaf: leaf + number if type(leaf) is int else leaf, value)


def has_integers(value: Any) -> bool:
    """Whether inputs hold integers of Python's."""
    return any(type(leaf) is int for leaf in pytree.tree_leaves(value))


def longer(value: Any, dimension: int) -> Any:
    """Return inputs that are longer by one in each dimension as long as this one of the first tensor."""
    return InDimension("longer", _one_more, dimension).vary(value, torch.Generator())


def dimensions(value: Any) -> int:
    """Return how many dimensions the first tensor has."""
    return next((tensor.dim() for tensor in _tensors(value)), 0)


def of_rows(value: Any, rows: int) -> Any:
    """Return inputs with only the first rows of each tensor that is as long as the first one."""
    return _resized(rows)(value, torch.Generator())


def _resized(rows: int) -> Vary:
    """Every tensor as long as the first one keeps so many of its rows."""

    def vary(value: Any, _draw: torch.Generator) -> Any:
        shape = _shape(value, 0)
        return _mapped(
            value, lambda t: t[:rows].clone() if shape and t.dim() and t.shape[0] == shape[0] else t
        )

    return vary


@dataclass(frozen=True)
class InDimension:
    """Every dimension as long as one of the first tensor that has it, or of another one, is changed; `alone`: this one,
    of tensors of that shape."""

    what: str
    change: Callable[[torch.Tensor, int], torch.Tensor]
    dimension: int
    of: int = 0
    """Which of the tensors that have such a dimension: -1 is the last."""
    alone: bool = False
    only: bool = False
    """Whether this tensor alone is changed."""

    @property
    def name(self) -> str:
        words = f" of {WHICH[self.of]}" if self.of or self.only else " alone" if self.alone else ""
        words += " alone" if self.only else ""
        return f"{self.what} in dimension {self.dimension}{words}"

    def shape(self, value: Any) -> torch.Size | None:
        """That of the tensor whose dimension it is."""
        return _shape(value, self.dimension, self.of)

    def vary(self, value: Any, _draw: torch.Generator) -> Any:
        shape = self.shape(value)
        having = [tensor for tensor in _tensors(value) if tensor.dim() > self.dimension]
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

        return _mapped(value, changed)


def _one_more(tensor: torch.Tensor, dimension: int) -> torch.Tensor:
    """The first entry once more, with other values."""
    first = tensor.narrow(dimension, 0, min(tensor.shape[dimension], 1))
    return torch.cat((tensor, _otherwise(first)), dimension)


def _three_more(tensor: torch.Tensor, dimension: int) -> torch.Tensor:
    for _ in range(3):
        tensor = _one_more(tensor, dimension)
    return tensor


def _twice(tensor: torch.Tensor, dimension: int) -> torch.Tensor:
    return torch.cat((tensor, _otherwise(tensor)), dimension)


def _first_alone(tensor: torch.Tensor, dimension: int) -> torch.Tensor:
    return tensor.narrow(dimension, 0, min(tensor.shape[dimension], 1)).contiguous()


MOST_NUMBERS = 1 << 22
"""The number of values of a tensor beyond which it is not made longer."""


def _as_long_as(length: int) -> Callable[[torch.Tensor, int], torch.Tensor]:
    """Makes a dimension so long: cut, or repeated with other values."""

    def change(tensor: torch.Tensor, dimension: int) -> torch.Tensor:
        size = tensor.shape[dimension]
        if not size or tensor.numel() // size * length > MOST_NUMBERS:
            return tensor
        parts = [tensor, *[_otherwise(tensor)] * (math.ceil(length / size) - 1)]
        return torch.cat(parts, dimension).narrow(dimension, 0, length).contiguous()

    return change


def _otherwise(tensor: torch.Tensor) -> torch.Tensor:
    """Other values that fit as well: an index stays one."""
    if tensor.dtype == torch.bool:
        return ~tensor
    return torch.where(tensor > 0, tensor - 1, tensor) if _counts(tensor) else tensor * -0.5


WHICH = {0: "the first", 1: "the second", -1: "the last"}


def _shape(value: Any, dimension: int, of: int = 0) -> torch.Size | None:
    """That of one of the tensors that have such a dimension."""
    shapes = [tensor.shape for tensor in _tensors(value) if tensor.dim() > dimension]
    return shapes[of] if len(shapes) > max(of, 0) else None


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif _is_record(leaf):
            yield from _tensors([getattr(leaf, each.name, None) for each in dataclasses.fields(leaf)])


def _is_record(leaf: Any) -> bool:
    return dataclasses.is_dataclass(leaf) and not isinstance(leaf, type)


def _mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same with every tensor changed, those in dataclasses too."""

    def each(leaf: Any) -> Any:
        if _is_record(leaf):
            copied = copy.copy(leaf)
            for field in dataclasses.fields(leaf):
                if hasattr(leaf, field.name):
                    object.__setattr__(copied, field.name, _mapped(getattr(leaf, field.name), change))
            return copied
        if type(leaf) is not torch.Tensor or leaf.layout != torch.strided:
            return leaf
        copied = leaf.detach().clone(memory_format=torch.contiguous_format)
        return change(copied).requires_grad_(leaf.requires_grad)

    return pytree.tree_map(each, value)


def _masks_in_part(value: Any, draw: torch.Generator) -> Any:
    """Flags that are true in two of three places."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype != torch.bool:
            return tensor
        return (torch.rand(tensor.shape, generator=draw) < 2 / 3).to(tensor.device)

    return _mapped(value, change)


def _padded(tensor: torch.Tensor) -> torch.Tensor:
    """Flags that are true at the beginning of each row: of the first row all, of the next one less, ..."""
    if not tensor.dim() or not tensor.numel():
        return tensor
    length = tensor.shape[-1]
    row = torch.arange(tensor.numel() // length, device=tensor.device)
    return (torch.arange(length, device=tensor.device) < length - row[:, None] % length).reshape(tensor.shape)


def _one_true(tensor: torch.Tensor) -> torch.Tensor:
    """Flags of which the first alone is true."""
    return _first(1)(torch.zeros_like(tensor))


def _turned(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, in memory in another order."""
    if tensor.dim() == 4:
        return tensor.contiguous(memory_format=torch.channels_last)
    return tensor.transpose(-1, -2).contiguous().transpose(-1, -2) if tensor.dim() > 1 else tensor


def _then(first: Vary, second: Vary) -> Vary:
    return lambda value, draw: second(first(value, draw), draw)


def _more(times: float, by: int) -> VaryOne:
    """Floats so many times as large, zero as much above it as one gets; integers larger by so many."""

    def change(leaf: Any) -> Any:
        if type(leaf) is int:
            return leaf + by
        return (leaf * times or times - 1) if type(leaf) is float else leaf

    return change


GIVEN = "given"
ONES = "ones"
ONE_TRUE = "masks with one true"
OF_MASKS: dict[str, Vary] = {
    "masks true": _kinds(_same, _same, torch.ones_like),
    "masks false": _kinds(_same, _same, torch.zeros_like),
    "masks turned": _kinds(_same, _same, torch.logical_not),
    "masks in part": _masks_in_part,
    "masks of padding": _kinds(_same, _same, _padded),
    ONE_TRUE: _kinds(_same, _same, _one_true),
}
VARIATIONS: dict[str, Vary] = {
    GIVEN: lambda value, _draw: value,
    "drawn": _drawn,
    "negated": _floats(torch.neg),
    "large": _floats(lambda t: t * 100),
    "small": _floats(lambda t: t * 0.01),
    "shifted up": _floats(lambda t: t + 3),
    "shifted down": _floats(lambda t: t - 3),
    "shifted far": _floats(lambda t: t + 1e4),
    "subnormal": _floats(lambda t: t * torch.finfo(t.dtype).tiny * 0.01),
    "negative zeros": _floats(lambda t: torch.full_like(t, -0.0)),
    ONES: _kinds(torch.ones_like, torch.ones_like, torch.ones_like),
    "zeros": _kinds(torch.zeros_like, torch.zeros_like, torch.zeros_like),
    **OF_MASKS,
}
"""By name, in the order they are tried."""
IN_DIMENSIONS = tuple(
    InDimension(what, change, dimension, of=of, alone=alone)
    for what, change, first, of, alone in (
        ("longer", _one_more, 0, 0, False),
        ("longer", _one_more, 0, -1, False),
        ("longer", _one_more, 0, 1, False),
        ("twice as long", _twice, 1, 0, False),
        ("longer", _one_more, 1, 0, True),
        ("of length one", _first_alone, 1, 0, False),
    )
    for dimension in range(first, 4)
)
OF_ONE_TENSOR: dict[str, Vary] = {
    each.name: each.vary
    for of in WHICH
    for dimension in range(3)
    for each in (InDimension("longer", _one_more, dimension, of=of, only=True),)
}
"""One tensor is longer, where the code takes that."""
LONGER = {each.name: each.vary for each in IN_DIMENSIONS}
"""A length that is written down where it was read shows there; some models take a multiple of what they were given."""
LONGER_COMPILED = InDimension("longer", _one_more, 1).name
"""The one that is compiled too: for each size Dynamo compiles anew, which takes its time."""
NO_NUMBERS = {
    "with an infinity": _floats(_first(float("inf"))),
    "with a NaN": _floats(_first(float("nan"))),
}
NAN, INFINITY = float("nan"), float("inf")
NO_NUMBERS_ELSEWHERE: dict[str, Vary] = {
    "with a NaN in the second place": _floats(_at_place(NAN, 1)),
    "with a NaN in the last place": _floats(_at_place(NAN, -1)),
    "with a negative infinity in the last place": _floats(_at_place(-INFINITY, -1)),
    "with some NaN": lambda value, draw: _some(_floats(lambda t: torch.full_like(t, NAN)), 1 / 8)(
        value, draw
    ),
}
"""Code that compares one part of an input with another may see it there alone."""
MASKED_OUT = {
    **{
        f"masks turned, {floats}": _then(VARIATIONS["masks turned"], change)
        for floats, change in NO_NUMBERS.items()
    },
    **{
        f"{masks}, with some NaN": _then(OF_MASKS[masks], NO_NUMBERS_ELSEWHERE["with some NaN"])
        for masks in ("masks in part", "masks of padding")
    },
}
"""For inputs that hold masks: what is no number stands where it is left out; times zero it is none either."""
EMPTY = "empty"
LAST = {
    "of length one": _resized(1),
    EMPTY: _resized(0),
    **NO_NUMBERS,
    **NO_NUMBERS_ELSEWHERE,
    **MASKED_OUT,
    **LONGER,
}
"""Behind the others, as they may spoil what a model keeps."""
APART = {
    "large": VARIATIONS["large"],
    "shifted up": VARIATIONS["shifted up"],
    "shifted down": VARIATIONS["shifted down"],
    "with a zero": _floats(_first(0.0)),
}
"""Floats at which an operation that a branch had kept apart gives no number, or no gradient."""
WITH_MASKS = {
    f"{masks}, {floats}": _then(VARIATIONS[masks], change)
    for masks in ("masks true", "masks false")
    for floats, change in APART.items()
}
"""For inputs that hold masks: two tests one after the other, of a mask and of values, go every way together."""
MASKS = (*OF_MASKS, *WITH_MASKS, *MASKED_OUT)
LARGE = 999
"""More than there are labels in a model that is tried, and no size that takes long."""
NARROW = 2**15
"""An integer type that ends below this is tried at its end: there sums wrap round that Python's do not."""


def _with_a_large_number(tensor: torch.Tensor) -> torch.Tensor:
    """On an accelerator an index out of range ends the process: there it stays as it is."""
    if tensor.device.type != "cpu" or not _counts(tensor):
        return tensor
    most = torch.iinfo(tensor.dtype).max
    return _first(most if most < NARROW else LARGE)(tensor)


def _counts(tensor: torch.Tensor) -> bool:
    """Whether it holds integers."""
    return tensor.dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def _on_cpu(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Changes signed integers on a CPU alone, where an index out of range does not end the process."""
    return lambda tensor: change(tensor) if tensor.device.type == "cpu" and tensor.dtype.is_signed else tensor


def _converted(dtype: torch.dtype) -> Vary:
    return _floats(lambda tensor: tensor.to(dtype) if tensor.dtype == torch.float32 else tensor)


def _some_integers(number: int) -> Vary:
    return lambda value, draw: _some(_kinds(_same, _on_cpu(_all(number)), _same))(value, draw)


WITH_NUMBERS: dict[str, Vary] = {
    "with a large number": _kinds(_same, _with_a_large_number, _same),
    "with some -1": _some_integers(-1),
    "with some -100": _some_integers(-100),
    "with -1 alone": _kinds(_same, _on_cpu(_all(-1)), _same),
    "with -100 alone": _kinds(_same, _on_cpu(_all(-100)), _same),
}
"""For inputs that hold integers: labels and indices out of range are what checks refuse, and what losses ignore."""
WITH_BOTH = {
    f"integers {number}, {floats}": _then(_kinds(_same, _all(number), _same), change)
    for number in (0, 1)
    for floats, change in APART.items()
}
"""For inputs that hold integers and floats: a test of integers goes each way with such floats."""
LEFT_OUT_BY_NUMBER = {
    f"{name}, with some NaN": _then(change, NO_NUMBERS_ELSEWHERE["with some NaN"])
    for name, change in {
        "integers 1": _kinds(_same, _all(1), _same),
        **{name: WITH_NUMBERS[name] for name in ("with some -1", "with some -100")},
    }.items()
}
"""The same: a length or a label leaves out what is no number."""


def _each_apart(value: Any, _draw: torch.Generator) -> Any:
    """Changes each tensor in another way: floats by sign and size, flags of every other one."""
    order = itertools.count()

    def change(tensor: torch.Tensor) -> torch.Tensor:
        number = next(order)
        if tensor.is_floating_point():
            return tensor * (-1.0, 2.0, -0.5, 3.0)[number % 4]
        return tensor.logical_not() if tensor.dtype == torch.bool and number % 2 else tensor

    return _mapped(value, change)


def _same_twice(value: Any, _draw: torch.Generator) -> Any:
    """Gives a tensor again in place of the next one of its shape and dtype."""
    leaves, tree = pytree.tree_flatten(value)
    known: dict[tuple[torch.dtype, torch.Size], torch.Tensor] = {}
    found = [
        known.setdefault((leaf.dtype, leaf.shape), leaf) if isinstance(leaf, torch.Tensor) else leaf
        for leaf in leaves
    ]
    return pytree.tree_unflatten(found, tree)


OF_SEVERAL: dict[str, Vary] = {
    "with each tensor apart": _each_apart,
    "with the same tensor again": _same_twice,
}
"""For inputs of several tensors: what is taken for another shows where they differ, or are one object."""
RESIZED = ("of length one", EMPTY)
OTHER_WEIGHTS = "given, with other weights"
"""Parameters are moved away from what they are built with: zeros and ones hide what is done with them."""
LARGE_WEIGHTS = "given, with weights 100 times as large"
FINITE = ("drawn", "negated", "large", "small", "shifted up", "shifted down", LONGER_COMPILED, OTHER_WEIGHTS)
"""Those by which kernels that take another way for a mask, as some do where it is compiled, still give the same."""
OF_OTHER_STRIDES = "of other strides"
IN_DOUBLE = "in double precision"
"""Floats of 32 bits, and the parameters of models, have 64: a type that is written in the code is another than theirs."""
IN_BFLOAT16 = "in bfloat16"
"""The same with 16 bits: code may treat types of few bits in its own way. Of such a call a few digits of the outputs are
compared."""
INFINITE_IN_FLOAT16 = "with an infinity, in float16"
"""Code may look for what is not finite in types of few bits alone."""
IN_FLOAT16 = "1000 times as large, in float16"
"""Numbers that overflow in a type of few bits if they are squared or added first."""
DTYPES = MappingProxyType(
    {
        IN_DOUBLE: torch.float64,
        IN_BFLOAT16: torch.bfloat16,
        IN_FLOAT16: torch.float16,
        INFINITE_IN_FLOAT16: torch.float16,
    }
)
"""The type that replaces float32 in inputs and parameters, by variation."""
LARGEST_FLOATS = "as large as floats are"
"""Sums of such numbers are infinite."""
IN_FEW_DIGITS = frozenset({IN_BFLOAT16, IN_FLOAT16, INFINITE_IN_FLOAT16})
OTHERWISE_KEPT: dict[str, Vary] = {
    OF_OTHER_STRIDES: _kinds(_turned, _turned, _turned),
    **{name: _converted(dtype) for name, dtype in DTYPES.items()},
    IN_FLOAT16: _then(_floats(lambda t: t * 1000), _converted(torch.float16)),
    LARGEST_FLOATS: _floats(lambda t: t * (torch.finfo(t.dtype).max / 4 / t.abs().max().clamp(min=1.0))),
    INFINITE_IN_FLOAT16: _then(NO_NUMBERS["with an infinity"], _converted(torch.float16)),
}
WITH_GRADIENTS = "given, with their gradients"
"""In training: inputs require gradients, where otherwise parameters alone do."""
SECOND_ORDER = "given, with gradients of their gradients"
"""In training: a backward of the user's own may not have a gradient itself."""
TWICE = "given, twice before their gradients"
"""In training: what a call changes in place spoils the gradients of the call before."""
AFTER_INFERENCE: Mapping[str, Vary] = MappingProxyType(
    {
        f"longer by three in dimension {dimension}, after the same call in inference mode": InDimension(
            "longer by three", _three_more, dimension
        ).vary
        for dimension in (1, 0)
    }
)
"""In training, of a length that no other call has: a tensor that a call in inference mode keeps has no part in
autograd."""
AFTER_OTHER_MODE = "given, after calls with other weights in either mode"
"""What a model keeps of its weights, it may drop when a mode is set."""
IN_TURN = "given, and then other inputs"
"""Three calls, of which the outputs are compared after the last: what a call keeps shows in the next ones, and what it
gave may be written to by them."""
OTHER_NUMBERS: Mapping[str, VaryOne] = MappingProxyType(
    {"given, with other numbers": _more(1.25, 1), "given, with numbers other than those": _more(1.5, 2)}
)
"""What becomes of floats of Python's, among the arguments and kept in modules, and of integers among the arguments: they
may change from call to call, and what is compiled for two is compiled for any from the third on."""
LARGER = "given, with larger numbers"
"""Floats of Python's are larger by one: a part of a small one, as of an epsilon, shows in no result."""


def _member_behind(leaf: Any, steps: int) -> Any:
    """The member of an enum so many steps behind this one, from the first on after the last; anything else as it is."""
    if not isinstance(leaf, enum.Enum):
        return leaf
    members = [*type(leaf)]
    return members[(members.index(leaf) + steps) % len(members)] if leaf in members else leaf


def map_plain(change: VaryOne, value: Any) -> Any:
    """Change numbers, flags, strings and members of enums in containers, dataclasses and slices."""

    def each(leaf: Any) -> Any:
        if _is_record(leaf):
            copied = copy.copy(leaf)
            for field in dataclasses.fields(leaf):
                if hasattr(leaf, field.name):
                    object.__setattr__(copied, field.name, map_plain(change, getattr(leaf, field.name)))
            return copied
        if isinstance(leaf, slice):
            return slice(change(leaf.start), change(leaf.stop), change(leaf.step))
        return change(leaf)

    return pytree.tree_map(each, value)


def plain_leaves(value: Any) -> list[Any]:
    """What `map_plain` changes."""
    found: list[Any] = []

    def note(leaf: Any) -> Any:
        if type(leaf) in (bool, int, float, str) or isinstance(leaf, enum.Enum):
            found.append(leaf)
        return leaf

    map_plain(note, value)
    return found


def _is_finite(leaf: Any) -> bool:
    return type(leaf) is float and math.isfinite(leaf)


OF_PYTHON: Mapping[str, VaryOne] = MappingProxyType(
    {
        **OTHER_NUMBERS,
        "given, with numbers that are zero": lambda leaf: (
            type(leaf)(0) if type(leaf) in (int, float) else leaf
        ),
        "given, with flags turned": lambda leaf: not leaf if type(leaf) is bool else leaf,
        "given, with integers larger by 10,000": lambda leaf: leaf + 10_000 if type(leaf) is int else leaf,
        "given, with the next members of enums": lambda leaf: _member_behind(leaf, 1),
        "given, with the members of enums before": lambda leaf: _member_behind(leaf, -1),
        LARGER: lambda leaf: leaf + 1.0 if type(leaf) is float else leaf,
        "given, with integers for floats": lambda leaf: math.ceil(leaf) if _is_finite(leaf) else leaf,
        "given, with numbers negated": lambda leaf: -leaf if type(leaf) in (int, float) else leaf,
        "given, with numbers negated and less by one": lambda leaf: (
            -leaf - 1 if type(leaf) in (int, float) else leaf
        ),
    }
)
"""The same with zeros, with flags of Python's among the arguments turned, and with larger numbers."""
FOR_NONE_IN_MODULES: Mapping[str, VaryOne] = MappingProxyType(
    {
        "given, with 0.5 for None in modules": lambda leaf: 0.5 if leaf is None else leaf,
        "given, with 2 for None in modules": lambda leaf: 2 if leaf is None else leaf,
    }
)
"""After a change, modules may hold a value where they held None until the first call."""
OF_MODULES: Mapping[str, VaryOne] = MappingProxyType(
    {
        "given, with other integers in modules": lambda leaf: leaf + 1 if type(leaf) is int else leaf,
        "given, with large integers in modules": lambda leaf: leaf + 10_000 if type(leaf) is int else leaf,
        "given, with flags of modules turned": lambda leaf: not leaf if type(leaf) is bool else leaf,
        **FOR_NONE_IN_MODULES,
    }
)
"""What becomes of integers, flags and None that modules keep: a counter after many calls is large."""
FLAGS_ALONE: Mapping[str, int] = MappingProxyType(
    {f"given, with flag {number} turned alone": number - 1 for number in range(1, 9)}
)
"""Flags among the arguments, and then those that modules keep, by their place."""
EACH_APART = "given, with each number apart"
OTHERS_APART = "given, with each number apart, and the other flags turned"
APART_BY_FIRST: Mapping[str, int] = MappingProxyType({EACH_APART: 1, OTHERS_APART: 2})
"""Numbers and flags among the arguments, and those that modules keep, change each in another way: what is taken for
another shows. The numbers of the first one decide which flags are turned."""


def turned_alone(place: int) -> VaryOne:
    """Turns the flag at this place, of those that it is called with."""
    order = itertools.count()
    return lambda leaf: not leaf if type(leaf) is bool and next(order) == place else leaf


def each_apart(first: int) -> VaryOne:
    """Changes the numbers and flags that it is called with each in another way, by their order, counted from `first`."""
    order = itertools.count(first)

    def change(leaf: Any) -> Any:
        if type(leaf) is bool:
            return leaf if next(order) % 2 else not leaf
        if type(leaf) is int:
            return leaf + next(order)
        return leaf * (1 + next(order) / 4) + 0.25 if type(leaf) is float else leaf

    return change


AS_PYTHON = "with numbers of Python's"
AS_NUMPY = "as arrays of NumPy"
LEFT_OUT = "with what may be left out"
BY_DEFAULT = "with numbers and flags by default"
TENSORS_FOR_NONE = "with tensors for arguments that are None"
MASKS_FOR_NONE = "with masks for arguments that are None"
FALSE_FOR_NONE = "with masks of False for arguments that are None"
NUMBERS_FOR_NONE = {"with 1 for arguments that are None": 1, "with 0 for arguments that are None": 0}
STRINGS: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {"with other strings": lambda text: f"{text}_2", "with strings in the other case": str.swapcase}
)
RETYPED = (
    AS_PYTHON, LEFT_OUT, BY_DEFAULT, TENSORS_FOR_NONE, MASKS_FOR_NONE, FALSE_FOR_NONE, *NUMBERS_FOR_NONE, *STRINGS,
)  # fmt: skip
"""Arguments of another type, where the function does not say that it takes tensors alone."""
IN_SHORT = "with integers of 16 bits, one of them the largest"
IN_BYTES = "with floats as integers of 8 bits"
COMPLEX = "with complex numbers for floats"
SOFT_MASKS = "with masks of fractions"
OF_OTHER_TYPES: dict[str, Vary] = {
    "with integers of 32 bits": _kinds(_same, lambda t: t.int() if t.dtype == torch.int64 else t, _same),
    "with masks of integers": _kinds(_same, _same, lambda t: t.long()),
    "with floats of 64 bits": _floats(lambda t: t.double() if t.dtype == torch.float32 else t),
    IN_SHORT: _kinds(
        _same, lambda t: _with_a_large_number(t.short() if t.dtype == torch.int64 else t), _same
    ),
    IN_BYTES: _floats(lambda t: (t * 60 + 128).clamp(0, 255).nan_to_num().to(torch.uint8)),
    COMPLEX: _floats(
        lambda t: torch.complex(t, t.flip(tuple(range(t.dim())))) if t.dtype == torch.float32 else t
    ),
    SOFT_MASKS: lambda value, draw: _mapped(
        value,
        lambda t: torch.rand(t.shape, generator=draw).to(t.device) if t.dtype == torch.bool else t,
    ),
}
LONGER_LISTS = "with longer lists"
EMPTY_LISTS = "with empty lists"
OF_OTHER_RANK: dict[str, Vary] = {
    "with one more dimension": _kinds(*[lambda t: t.unsqueeze(0) if t.dim() else t] * 3),
    "with one dimension less": _kinds(*[lambda t: t[0].clone() if t.dim() > 1 and len(t) else t] * 3),
}
MAY_NOT_FIT = frozenset(
    {
        SECOND_ORDER,
        *AFTER_INFERENCE,
        *IN_FEW_DIGITS,
        *RETYPED,
        AS_NUMPY,
        *OF_OTHER_RANK,
        *OF_MODULES,
        *OF_OTHER_TYPES,
        *APART_BY_FIRST,
        *FLAGS_ALONE,
        AFTER_OTHER_MODE,
        LARGEST_FLOATS,
        LONGER_LISTS,
        EMPTY_LISTS,
        *OF_ONE_TENSOR,
    }
)
"""Variations that the code may not take: what raises with them says nothing."""
OTHER_TYPES = frozenset(
    {
        IN_FLOAT16,
        IN_SHORT,
        IN_BYTES,
        COMPLEX,
        SOFT_MASKS,
        LARGEST_FLOATS,
        AS_NUMPY,
        *OF_OTHER_RANK,
        *OF_ONE_TENSOR,
    }
)
"""Inputs of other types, sizes or magnitudes than those given: with them a difference limits a change, and `fix` still
proposes it."""
BY_CHANCE = frozenset({AS_NUMPY, *OF_OTHER_RANK, *OF_ONE_TENSOR})
"""Of these, such as code takes by chance: what raises with them after a change says nothing either."""
GRADIENTS_TURNED = {
    "infer": "given, in eval mode with gradients",
    "train": "given, in train mode without gradients",
}
"""By mode: gradients are on where they are off otherwise, or off."""
IN_INFERENCE_MODE = "given, in inference mode"
UNDER_AUTOCAST = "given, under autocast"
"""Of such a call the types of what it gives are compared: values have fewer digits."""
ON_META = "given, on the meta device"
"""Of such a call the types of the outputs are compared: there are no values. A device that is written in the code is
another one than that of the inputs."""
DOUBLE_BY_DEFAULT = "given, with float64 as the default dtype"
OTHER_MODE_INSIDE = "given, with the modules inside in the other mode"
FROZEN = "given, with every other parameter frozen"
GRADIENTS_LEFT = "given, with gradients left on the parameters"
"""In inference, where what a call leaves of them is compared: a call may clear them."""
ENVIRONMENT = {
    f"given, with environment variables that are {value or 'empty'}": value for value in ("0", "2", "")
}
"""Values of the variables that the code reads."""
LOGGED = {"given, with loggers at DEBUG": logging.DEBUG, "given, with loggers at CRITICAL": logging.CRITICAL}
"""Levels that all loggers but torch's have during a call."""
OF_SETTINGS = (
    *GRADIENTS_TURNED.values(),
    IN_INFERENCE_MODE,
    UNDER_AUTOCAST,
    ON_META,
    DOUBLE_BY_DEFAULT,
    OTHER_MODE_INSIDE,
    FROZEN,
    GRADIENTS_LEFT,
    *ENVIRONMENT,
    *LOGGED,
)
"""The inputs as given, with other settings of the process."""
_UNCHANGED: dict[str, Vary] = dict.fromkeys(
    (
        WITH_GRADIENTS,
        SECOND_ORDER,
        TWICE,
        IN_TURN,
        OTHER_WEIGHTS,
        LARGE_WEIGHTS,
        *OF_PYTHON,
        *OF_MODULES,
        *APART_BY_FIRST,
        *FLAGS_ALONE,
        AFTER_OTHER_MODE,
        *OF_SETTINGS,
        *RETYPED,
        AS_NUMPY,
    ),
    VARIATIONS[GIVEN],
)
SEEDED = (GIVEN, "drawn")
"""Those that are tried with every seed; the others with the first alone."""


@functools.cache
def every(constants: tuple[float | str, ...] = ()) -> Mapping[str, Vary]:
    """All of them, in the order they are tried; `constants` are numbers and strings of the code that changes."""
    numbers = _numbers(constants)
    at = {
        f"{where} {number:g}": _at(number, way)
        for number in numbers
        for where, way in (("all", 0), ("just above", 1), ("just below", -1))
    }
    some = {f"some {number:g}": _some(_at(number, 0)) for number in numbers}
    one = {
        f"one {where}{number:g}, zeros otherwise": _one(number, way)
        for number in numbers
        for where, way in (("", 0), ("just above ", 1))
    }
    halves = {f"halves of {1 / number:g}": _halves(number) for number in (1.0, *numbers) if number}
    return MappingProxyType(
        {
            **VARIATIONS,
            **WITH_MASKS,
            **WITH_NUMBERS,
            **WITH_BOTH,
            **OF_SEVERAL,
            **at,
            **some,
            **one,
            **OTHERWISE_KEPT,
            **halves,
            **OF_OTHER_TYPES,
            **OF_LISTS,
            **OF_DICTS,
            **_UNCHANGED,
            **LAST,
            **LEFT_OUT_BY_NUMBER,
            **{each.name: each.vary for each in _of_lengths(constants)},
            **OF_ONE_TENSOR,
            **AFTER_INFERENCE,
            **OF_OTHER_RANK,
            **dict.fromkeys((*set_to(constants), *built_with(constants)), VARIATIONS[GIVEN]),
        }
    )


def _numbers(constants: Iterable[float | str]) -> tuple[float, ...]:
    return tuple(each for each in constants if not isinstance(each, str) and math.isfinite(each))


SHORTEST, LONGEST = 2, 20_000
"""Numbers that are tried as lengths."""


def _of_lengths(constants: Iterable[float | str]) -> Iterator[InDimension]:
    """Each number as the length of a dimension, and one and two more: a slice that ends there cuts nothing before, nor
    does a distance of two places reach it."""
    for number in _numbers(constants):
        if number == int(number) and SHORTEST <= number <= LONGEST:
            for length in (*range(int(number), int(number) + 3), 2 * int(number)):
                for dimension in range(4):
                    yield InDimension(f"{length} long", _as_long_as(length), dimension)


def set_to(constants: tuple[float | str, ...]) -> dict[str, VaryOne]:
    """By name, changes that set integers to a number or one more, and strings to a string: those among the arguments, or
    those that modules keep (`IN_MODULES`)."""

    def at(constant: float | str) -> VaryOne:
        return lambda leaf: constant if type(leaf) is type(constant) else leaf

    numbers = _numbers(constants)
    whole = [int(number) for number in numbers if number == int(number)]
    values: list[tuple[str, float | str]] = [(f"integers {n}", n) for each in whole for n in (each, each + 1)]
    values += [(f"floats {number:g}", float(number)) for number in numbers]
    values += [(f"strings {text!r}", text) for text in constants if isinstance(text, str)]
    return {
        f"given, with {what}{where}": at(constant) for where in ("", IN_MODULES) for what, constant in values
    }


IN_MODULES = " in modules"
BUILT = "given, built with "


def built_with(constants: tuple[float | str, ...]) -> dict[str, VaryOne]:
    """By name, what becomes of plain arguments of constructors."""

    def text(to: str) -> VaryOne:
        return lambda leaf: to if type(leaf) is str else leaf

    return {
        f"{BUILT}larger integers": lambda leaf: leaf + 1 if type(leaf) is int else leaf,
        f"{BUILT}larger floats": lambda leaf: leaf * 1.25 + 0.25 if type(leaf) is float else leaf,
        f"{BUILT}flags turned": lambda leaf: not leaf if type(leaf) is bool else leaf,
        f"{BUILT}2 for None": lambda leaf: 2 if leaf is None else leaf,
        f"{BUILT}0.5 for None": lambda leaf: 0.5 if leaf is None else leaf,
        **{f"{BUILT}strings {each!r}": text(each) for each in constants if isinstance(each, str)},
    }


def of_other_sizes(constants: tuple[float | str, ...]) -> frozenset[str]:
    """The names of variations with longer inputs, and with more or fewer dimensions."""
    lengths = (each.name for each in _of_lengths(constants))
    return frozenset((*LONGER, *AFTER_INFERENCE, *OF_ONE_TENSOR, *OF_OTHER_RANK, *lengths))


def late(constants: tuple[float | str, ...]) -> frozenset[str]:
    """The names of variations that may spoil what a model keeps: they are tried behind the others."""
    return (
        of_other_sizes(constants) | LAST.keys() | LEFT_OUT_BY_NUMBER.keys() | {ON_META, *FOR_NONE_IN_MODULES}
    )


def _one(number: float, way: int) -> Vary:
    """Zeros but for one value, which is this number, or (`way`) the next one above: so a sum is."""
    change = _at(number, way)

    def vary(value: Any, draw: torch.Generator) -> Any:
        def first_alone(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.dtype == torch.bool or not tensor.numel():
                return tensor
            changed = change(tensor, draw)
            return _first(changed.view(-1)[0].item())(torch.zeros_like(tensor))

        return _mapped(value, first_alone)

    return vary


def _halves(number: float) -> Vary:
    """Floats that lie in the middle between two whole ones, once they are multiplied with a number: rounding decides."""
    return _floats(lambda t: (torch.round(t) + 0.5) / number)


def _in_lists(change: Callable[[list[Any]], list[Any]]) -> Vary:
    """Return a variation of every list in a value."""

    def changed(value: Any) -> Any:
        if isinstance(value, list):
            return change([changed(each) for each in value])
        if type(value) is tuple:
            return tuple(map(changed, value))
        if type(value) is dict:
            return {key: changed(each) for key, each in value.items()}
        return value

    return lambda value, _draw: changed(value)


def _with_one_more_tensor(items: list[Any]) -> list[Any]:
    """Return a list with one more tensor, like its last one but for the values."""
    return [*items, _otherwise(items[-1])] if items and isinstance(items[-1], torch.Tensor) else items


def _without_tensors(items: list[Any]) -> list[Any]:
    """Return an empty list if all items are tensors."""
    return [] if all(isinstance(each, torch.Tensor) for each in items) else items


OF_LISTS: dict[str, Vary] = {
    LONGER_LISTS: _in_lists(_with_one_more_tensor),
    EMPTY_LISTS: _in_lists(_without_tensors),
}


def _in_dicts(change: Callable[[dict[Any, Any]], dict[Any, Any]]) -> Vary:
    """Return a variation of every dict in a value, but not of `kwargs` itself in `(args, kwargs)`."""

    def changed(value: Any) -> Any:
        if isinstance(value, list) or type(value) is tuple:
            return type(value)(map(changed, value))
        if type(value) is dict:
            return change({key: changed(each) for key, each in value.items()})
        return value

    def vary(value: Any, _draw: torch.Generator) -> Any:
        match value:
            case (args, dict() as kwargs):
                return changed(args), {key: changed(each) for key, each in kwargs.items()}
        return changed(value)

    return vary


def _with_one_more(items: dict[Any, Any]) -> dict[Any, Any]:
    """Return a dict with one more tensor, like its last one but for the values, if its keys are strings."""
    key, last = next(reversed(items.items()), (None, None))
    if not isinstance(key, str) or not isinstance(last, torch.Tensor):
        return items
    return {**items, f"{key}_2": _otherwise(last)}


FEWER_ITEMS: dict[str, Vary] = {
    "without the last item of dicts": _in_dicts(lambda items: dict([*items.items()][:-1])),
    "without the first item of dicts": _in_dicts(lambda items: dict([*items.items()][1:])),
}
OF_DICTS: dict[str, Vary] = {
    **FEWER_ITEMS,
    "with one more item in dicts": _in_dicts(_with_one_more),
    "with dicts in reverse order": _in_dicts(lambda items: dict(reversed(items.items()))),
}
"""For inputs with dicts: code that writes down the keys, or their order, differs from code that iterates over them."""


def _is_another(value: Any, change: Vary) -> bool:
    """Whether inputs have other types or sizes after a change."""
    one, other = (
        [(x.dtype, x.shape) for x in _tensors(each)] for each in (value, change(value, torch.Generator()))
    )
    return one != other


def _some(change: Vary, share: float = 1 / 3) -> Vary:
    """Some values of each tensor are changed, drawn by lot."""

    def vary(value: Any, draw: torch.Generator) -> Any:
        def mixed(tensor: torch.Tensor) -> torch.Tensor:
            chosen = (torch.rand(tensor.shape, generator=draw) < share).to(tensor.device)
            return torch.where(chosen, change(tensor, draw), tensor)

        return _mapped(value, mixed)

    return vary


def _sizes(value: Any) -> Iterator[str]:
    """The names of the variations in one dimension that differ from those before them."""
    known: set[tuple[str, int]] = set()
    for each in IN_DIMENSIONS:
        shape = each.shape(value)
        if shape is None or not shape[each.dimension]:
            continue
        length = shape[each.dimension]
        if each.alone:
            if shape.count(length) > 1:
                yield each.name
        elif (each.what, length) not in known:
            known.add((each.what, length))
            if length > 1 or each.what == "longer":
                yield each.name


def _at(number: float, way: int) -> Vary:
    """Every value is a number as its type has it, or (`way`) the next one above or below."""

    def floats(tensor: torch.Tensor) -> torch.Tensor:
        made = torch.full_like(tensor, number)
        if not way:
            return made
        if made.dtype in (torch.float32, torch.float64):
            return torch.nextafter(made, torch.full_like(made, way * math.inf))
        return made + way * torch.finfo(made.dtype).eps * max(abs(number), torch.finfo(made.dtype).tiny)

    def integers(tensor: torch.Tensor) -> torch.Tensor:
        if not _counts(tensor) or number != int(number) or tensor.device.type != "cpu":
            return tensor
        ends = torch.iinfo(tensor.dtype)
        return torch.full_like(tensor, min(max(int(number) + way, ends.min), ends.max))

    return _kinds(floats, integers, _same)


def _dicts_in(value: Any) -> bool:
    """Whether a variation of dicts may change a value."""
    found: list[bool] = []

    def seen(items: dict[Any, Any]) -> dict[Any, Any]:
        found.append(len(items) > 0)
        return items

    _in_dicts(seen)(value, torch.Generator())
    return any(found)


def fitting(value: Any, constants: tuple[float | str, ...] = ()) -> tuple[str, ...]:
    """The names of those that inputs can be varied by; which can be of another type their function says."""
    tensors = [*_tensors(value)]
    masks = any(tensor.dtype == torch.bool for tensor in tensors)
    counts = any(_counts(tensor) for tensor in tensors)
    floats = any(tensor.is_floating_point() for tensor in tensors)
    sizes = {*_sizes(value)}
    others = {
        **OF_OTHER_TYPES,
        **OF_ONE_TENSOR,
        **OF_LISTS,
    }
    unchanged = {*_UNCHANGED, *AFTER_INFERENCE, *set_to(constants), *built_with(constants)}
    lengths = {each.name: each for each in _of_lengths(constants)}
    shape = _shape(value, 0) or ()
    fitting_lengths = {
        name
        for name, each in lengths.items()
        if each.dimension < len(shape) and shape.index(shape[each.dimension]) == each.dimension
    }
    return tuple(
        name
        for name in every(constants)
        if (masks or name not in MASKS)
        and (counts or name not in WITH_NUMBERS)
        and (name not in others or _is_another(value, others[name]))
        and ((counts and floats) or name not in (*WITH_BOTH, *LEFT_OUT_BY_NUMBER))
        and (name not in OF_SEVERAL or len(tensors) > 1)
        and (name not in OF_DICTS or _dicts_in(value))
        and (name not in LONGER or name in sizes)
        and (name not in OF_ONE_TENSOR or len(tensors) > 1)
        and (name not in lengths or name in fitting_lengths)
        and name not in unchanged
    )
