"""Variations of inputs: scaled, shifted, zero, not finite, masks of one value and of both, empty, shorter, longer."""

from __future__ import annotations

import functools
import itertools
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import torch
from tcready.dynamic.worker.proof.input_changes import (
    WHICH,
    InDimension,
    Vary,
    VaryOne,
    all_of,
    as_long_as,
    at_place,
    change_layout,
    containers_of,
    convert_floats,
    counts_of,
    draw_values,
    each_apart_of,
    first_alone_of,
    first_of,
    floats_of,
    is_dtype_of_floats,
    is_finite,
    kinds,
    last_row_of,
    map_tensors,
    masks_in_part,
    member_behind,
    more_of,
    none_of,
    on_cpu,
    one_more,
    one_tensor_of,
    one_true,
    other_valid_values,
    padding_mask,
    resize_rows,
    reverse_layout,
    same_of,
    same_twice,
    shape_of,
    some_of,
    tensors_of,
    then_of,
    three_more,
    twice_of,
    with_a_large_number,
    with_defaults,
)

GIVEN = "given"
ONES = "ones"
ONE_TRUE = "masks with one true"
OF_MASKS: dict[str, Vary] = {
    "masks all true": kinds(same_of, same_of, torch.ones_like),
    "masks all false": kinds(same_of, same_of, torch.zeros_like),
    "masks inverted": kinds(same_of, same_of, torch.logical_not),
    "masks partly true": masks_in_part,
    "padding masks": kinds(same_of, same_of, padding_mask),
    ONE_TRUE: kinds(same_of, same_of, one_true),
}
VARIATIONS: dict[str, Vary] = {
    GIVEN: lambda value, _draw: value,
    "drawn again": draw_values,
    "negated": floats_of(torch.neg),
    "large": floats_of(lambda t: t * 100),
    "small": floats_of(lambda t: t * 0.01),
    "shifted up": floats_of(lambda t: t + 3),
    "shifted down": floats_of(lambda t: t - 3),
    "shifted far": floats_of(lambda t: t + 1e4),
    "subnormal": floats_of(lambda t: t * torch.finfo(t.dtype).tiny * 0.01),
    "negative zeros": floats_of(lambda t: torch.full_like(t, -0.0)),
    ONES: kinds(torch.ones_like, torch.ones_like, torch.ones_like),
    "zeros": kinds(torch.zeros_like, torch.zeros_like, torch.zeros_like),
    **OF_MASKS,
}
"""All variations by name, in the order in which they are tried."""
EMPTY = "empty"
IN_DIMENSIONS = tuple(
    InDimension(what, change, dimension, of=of, alone=alone)
    for what, change, first, of, alone in (
        ("longer", one_more, 0, 0, False),
        ("longer", one_more, 0, -1, False),
        ("longer", one_more, 0, 1, False),
        ("twice as long", twice_of, 1, 0, False),
        ("longer", one_more, 1, 0, True),
        ("of length one", first_alone_of, 1, 0, False),
        (EMPTY, none_of, 1, 0, False),
        ("of length one", first_alone_of, 0, -1, False),
        (EMPTY, none_of, 0, -1, False),
        ("of length one", first_alone_of, 0, -1, True),
        (EMPTY, none_of, 0, -1, True),
    )
    for dimension in range(first, 4)
)
OF_ONE_TENSOR: dict[str, Vary] = {
    each.name: each.vary
    for of in WHICH
    for dimension in range(3)
    for each in (InDimension("longer", one_more, dimension, of=of, only=True),)
}
"""One tensor is longer, if the code accepts that."""
LONGER = {each.name: each.vary for each in IN_DIMENSIONS}
"""Detects a hard-coded length; some models require a multiple of the given size."""
EMPTY_INSIDE = frozenset(each.name for each in IN_DIMENSIONS if each.what == EMPTY)
"""Those that are empty, but not in the first dimension."""
LONGER_COMPILED = InDimension("longer", one_more, 1).name
"""The one that is also compiled: Dynamo compiles again for each size, which takes time."""
NO_NUMBERS = {"with an infinity": floats_of(first_of(float("inf"))), "with a NaN": floats_of(first_of(float("nan")))}
NAN, INFINITY = float("nan"), float("inf")
NO_NUMBERS_ELSEWHERE: dict[str, Vary] = {
    "with a NaN in the second place": floats_of(at_place(NAN, 1)),
    "with a NaN in the last place": floats_of(at_place(NAN, -1)),
    "with a negative infinity in the last place": floats_of(at_place(-INFINITY, -1)),
    "with a row of NaN": floats_of(last_row_of(NAN)),
    "with some NaN": lambda value, draw: some_of(floats_of(lambda t: torch.full_like(t, NAN)), 1 / 8)(value, draw),
}
"""Code that compares one part of an input with another may detect it only there."""
ZERO_ROW: dict[str, Vary] = {"with a row of zeros": floats_of(last_row_of(0.0))}
"""Rows of zeros are padding for some models."""
MASKED_OUT = {
    **{
        f"masks inverted, {floats}": then_of(VARIATIONS["masks inverted"], change)
        for floats, change in NO_NUMBERS.items()
    },
    **{
        f"{masks}, with some NaN": then_of(OF_MASKS[masks], NO_NUMBERS_ELSEWHERE["with some NaN"])
        for masks in ("masks partly true", "padding masks")
    },
}
"""For inputs with masks: values that are not numbers in masked-out places; multiplied by zero they are not numbers
either."""
LAST = {
    "of length one": resize_rows(1),
    EMPTY: resize_rows(0),
    **NO_NUMBERS,
    **ZERO_ROW,
    **NO_NUMBERS_ELSEWHERE,
    **MASKED_OUT,
    **LONGER,
}
"""Tried after the others, since they may spoil state of the model."""
APART = {
    "large": VARIATIONS["large"],
    "shifted up": VARIATIONS["shifted up"],
    "shifted down": VARIATIONS["shifted down"],
    "with a zero": floats_of(first_of(0.0)),
}
"""Floats at which an operation that a branch had excluded returns no number, or no gradient."""
WITH_MASKS = {
    f"{masks}, {floats}": then_of(VARIATIONS[masks], change)
    for masks in ("masks all true", "masks all false")
    for floats, change in APART.items()
}
"""For inputs with masks: two successive tests, of a mask and of values, take every combination of branches."""
MASKS = (*OF_MASKS, *WITH_MASKS, *MASKED_OUT)


def _some_integers(number: int) -> Vary:
    return lambda value, draw: some_of(kinds(same_of, on_cpu(all_of(number)), same_of))(value, draw)


WITH_NUMBERS: dict[str, Vary] = {
    "with a large number": kinds(same_of, with_a_large_number, same_of),
    "with some -1": _some_integers(-1),
    "with some -100": _some_integers(-100),
    "with -1 alone": kinds(same_of, on_cpu(all_of(-1)), same_of),
    "with -100 alone": kinds(same_of, on_cpu(all_of(-100)), same_of),
}
"""For inputs with integers: labels and indices out of range, which checks reject and losses ignore."""
WITH_BOTH = {
    f"integers {number}, {floats}": then_of(kinds(same_of, all_of(number), same_of), change)
    for number in (0, 1)
    for floats, change in APART.items()
}
"""For inputs with integers and floats: a test of integers takes each branch with such floats."""
LEFT_OUT_BY_NUMBER = {
    f"{name}, with some NaN": then_of(change, NO_NUMBERS_ELSEWHERE["with some NaN"])
    for name, change in {
        "integers 1": kinds(same_of, all_of(1), same_of),
        **{name: WITH_NUMBERS[name] for name in ("with some -1", "with some -100")},
    }.items()
}
"""The same: a length or a label excludes values that are not numbers."""


OF_SEVERAL: dict[str, Vary] = {
    "with each tensor changed differently": each_apart_of,
    "with the same tensor again": same_twice,
}
"""For inputs with several tensors: exchanged tensors are detected if they differ, or if they are one object."""
RESIZED = ("of length one", EMPTY)
OTHER_WEIGHTS = "given, with other weights"
"""Parameters get other values than their initial ones: zeros and ones hide operations on them."""
LARGE_WEIGHTS = "given, with weights 100 times as large"
FINITE = ("drawn again", "negated", "large", "small", "shifted up", "shifted down", LONGER_COMPILED, OTHER_WEIGHTS)
"""Those with equal results in kernels that treat a mask differently, as some compiled ones do."""
OF_OTHER_STRIDES = "with other strides"
OF_REVERSED_STRIDES = "with dimensions in reverse order in memory"
IN_DOUBLE = "in double precision"
"""Floats of 32 bits, and the parameters of models, become 64 bits: a type that is written in the code then differs from
theirs."""
IN_BFLOAT16 = "in bfloat16"
"""The same with 16 bits: code may treat small types in its own way. Only a few digits of the outputs of such a call are
compared."""
INFINITE_IN_FLOAT16 = "with an infinity, in float16"
"""Code may look for values that are not finite only in small types."""
IN_FLOAT16 = "1000 times as large, in float16"
"""Numbers that overflow in a small type if they are squared or added first."""
DTYPES = MappingProxyType(
    {
        IN_DOUBLE: torch.float64,
        IN_BFLOAT16: torch.bfloat16,
        IN_FLOAT16: torch.float16,
        INFINITE_IN_FLOAT16: torch.float16,
    }
)
"""The type that replaces float32 in inputs and parameters, by variation."""
LARGEST_FLOATS = "as large as floats can be"
"""Sums of such numbers are infinite."""
IN_FEW_DIGITS = frozenset({IN_BFLOAT16, IN_FLOAT16, INFINITE_IN_FLOAT16})
OTHER_TYPES_AND_STRIDES: dict[str, Vary] = {
    OF_OTHER_STRIDES: kinds(change_layout, change_layout, change_layout),
    OF_REVERSED_STRIDES: kinds(reverse_layout, reverse_layout, reverse_layout),
    **{name: convert_floats(dtype) for name, dtype in DTYPES.items()},
    IN_FLOAT16: then_of(floats_of(lambda t: t * 1000), convert_floats(torch.float16)),
    LARGEST_FLOATS: floats_of(lambda t: t * (torch.finfo(t.dtype).max / 4 / t.abs().max().clamp(min=1.0))),
    INFINITE_IN_FLOAT16: then_of(NO_NUMBERS["with an infinity"], convert_floats(torch.float16)),
}
WITH_GRADIENTS = "given, with their gradients"
"""In training: inputs require gradients, where otherwise parameters alone do."""
SECOND_ORDER = "given, with gradients of their gradients"
"""In training: a user's backward may not have a gradient itself."""
TWICE = "given, with two forward calls before their gradients"
"""In training: in-place changes of a call spoil the gradients of the call before."""
AFTER_INFERENCE: Mapping[str, Vary] = MappingProxyType(
    {
        f"longer by three in dimension {dimension}, after the same call in inference mode": InDimension(
            "longer by three", three_more, dimension
        ).vary
        for dimension in (1, 0)
    }
)
"""In training, with a length that no other call has: a tensor that a call in inference mode stores has no part in
autograd."""
AFTER_OTHER_MODE = "given, after calls with other weights in either mode"
"""State computed from the weights that a model may drop when a mode is set."""
IN_TURN = "given, followed by calls with other inputs"
"""Three calls with outputs that are compared after the last: state that a call stores affects the next ones, and they
may write to its outputs."""
OTHER_NUMBERS: Mapping[str, VaryOne] = MappingProxyType(
    {"given, with other numbers": more_of(1.25, 1), "given, with still other numbers": more_of(1.5, 2)}
)
"""Changes to Python floats, among the arguments and in modules, and to integers among the arguments: they may change
from call to call, and code that is compiled for two values is compiled for any value from the third on."""
INFINITE = "given, with infinite floats among the arguments"
"""A limit that is infinite is none."""
LARGER = "given, with larger numbers"
"""Python floats are larger by one: a relative change of a small one, such as an epsilon, affects no result."""
OF_PYTHON: Mapping[str, VaryOne] = MappingProxyType(
    {
        **OTHER_NUMBERS,
        "given, with numbers that are zero": lambda leaf: type(leaf)(0) if type(leaf) in (int, float) else leaf,
        "given, with flags inverted": lambda leaf: not leaf if type(leaf) is bool else leaf,
        "given, with integers larger by 10,000": lambda leaf: leaf + 10_000 if type(leaf) is int else leaf,
        "given, with float64 for dtypes": lambda leaf: torch.float64 if is_dtype_of_floats(leaf) else leaf,
        "given, with bfloat16 for dtypes": lambda leaf: torch.bfloat16 if is_dtype_of_floats(leaf) else leaf,
        "given, with the next members of enums": lambda leaf: member_behind(leaf, 1),
        "given, with the members of enums before": lambda leaf: member_behind(leaf, -1),
        "given, with every second item of slices": lambda leaf: (
            slice(leaf.start, leaf.stop, 2) if isinstance(leaf, slice) and leaf.step is None else leaf
        ),
        LARGER: lambda leaf: leaf + 1.0 if type(leaf) is float else leaf,
        INFINITE: lambda leaf: math.inf if type(leaf) is float else leaf,
        "given, with integers for floats": lambda leaf: math.ceil(leaf) if is_finite(leaf) else leaf,
        "given, with numbers negated": lambda leaf: -leaf if type(leaf) in (int, float) else leaf,
        "given, with numbers negated and less by one": lambda leaf: -leaf - 1 if type(leaf) in (int, float) else leaf,
    }
)
"""The same with zeros, with inverted Python flags among the arguments, and with larger numbers."""
FOR_NONE_IN_MODULES: Mapping[str, VaryOne] = MappingProxyType(
    {
        "given, with 0.5 for None in modules": lambda leaf: 0.5 if leaf is None else leaf,
        "given, with 2 for None in modules": lambda leaf: 2 if leaf is None else leaf,
    }
)
"""After a change, modules may hold a value that was None until the first call."""
OF_MODULES: Mapping[str, VaryOne] = MappingProxyType(
    {
        "given, with other integers in modules": lambda leaf: leaf + 1 if type(leaf) is int else leaf,
        "given, with large integers in modules": lambda leaf: leaf + 10_000 if type(leaf) is int else leaf,
        "given, with flags of modules inverted": lambda leaf: not leaf if type(leaf) is bool else leaf,
        **FOR_NONE_IN_MODULES,
    }
)
"""Changes to integers, flags and None in modules: a counter after many calls is large."""
FLAGS_ALONE: Mapping[str, int] = MappingProxyType(
    {f"given, with flag {number} alone inverted": number - 1 for number in range(1, 9)}
)
"""Flags among the arguments, and then those in modules, by their position."""
EACH_APART = "given, with each number changed differently"
OTHERS_APART = "given, with each number changed differently, and the other flags inverted"
APART_BY_FIRST: Mapping[str, int] = MappingProxyType({EACH_APART: 1, OTHERS_APART: 2})
"""Numbers and flags among the arguments, and those in modules, each change in another way, so that exchanged values are
detected. The change of the first number decides which flags are inverted."""


def turned_alone(place: int) -> VaryOne:
    """Return a change that inverts the flag at this position among those with which it is called."""
    order = itertools.count()
    return lambda leaf: not leaf if type(leaf) is bool and next(order) == place else leaf


def each_apart(first: int) -> VaryOne:
    """Return a change of numbers and flags, each in another way, by their order, counted from `first`."""
    order = itertools.count(first)

    def change(leaf: Any) -> Any:
        if type(leaf) is bool:
            return leaf if next(order) % 2 else not leaf
        if type(leaf) is int:
            return leaf + next(order)
        return leaf * (1 + next(order) / 4) + 0.25 if type(leaf) is float else leaf

    return change


AS_PYTHON = "with Python numbers for 0-d tensors"
AS_NUMPY = "as arrays of NumPy"
LEFT_OUT = "with None for optional arguments"
BY_DEFAULT = "with the default values of numbers and flags"
TENSORS_FOR_NONE = "with tensors for arguments that are None"
MASKS_FOR_NONE = "with masks for arguments that are None"
FALSE_FOR_NONE = "with masks of False for arguments that are None"
MASKS_AND_FLAGS = "with masks for arguments that are None, and flags inverted"
"""An option and an optional mask that are both off by default affect the same values."""
NUMBERS_FOR_NONE = {"with 1 for arguments that are None": 1, "with 0 for arguments that are None": 0}
STRINGS: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {"with other strings": lambda text: f"{text}_2", "with strings in the other case": str.swapcase}
)
ONE_LEFT_OUT: Mapping[str, int] = MappingProxyType(
    {f"without optional argument {number}": number - 1 for number in range(1, 7)}
)
"""Of several optional arguments that are given, one is left out, by its position among them."""
MORE_ARGUMENTS, FEWER_ARGUMENTS = "with one argument more than given", "with one argument less than given"
"""For functions that take any number of arguments (`*args`, `**kwargs`)."""
AS_TENSORS = "with tensors for floats"
"""Python floats among the arguments become tensors that require gradients, as a learned temperature does."""
RETYPED = (
    AS_PYTHON, LEFT_OUT, *ONE_LEFT_OUT, BY_DEFAULT, TENSORS_FOR_NONE, MASKS_FOR_NONE, FALSE_FOR_NONE, MASKS_AND_FLAGS,
    *NUMBERS_FOR_NONE,
    *STRINGS, MORE_ARGUMENTS, FEWER_ARGUMENTS, AS_TENSORS,
)  # fmt: skip
"""Other arguments, or arguments of another type if the function does not declare that it accepts only tensors."""
IN_SHORT = "with 16-bit integers, one of them the largest"
IN_BYTES = "with 8-bit integers for floats"
COMPLEX = "with complex numbers for floats"
SOFT_MASKS = "with masks of fractions"
OF_OTHER_TYPES: dict[str, Vary] = {
    "with 32-bit integers": kinds(same_of, lambda t: t.int() if t.dtype == torch.int64 else t, same_of),
    "with integer masks": kinds(same_of, same_of, lambda t: t.long()),
    "with 64-bit floats": floats_of(lambda t: t.double() if t.dtype == torch.float32 else t),
    **{
        f"with 64-bit floats in {which} tensor": one_tensor_of(
            lambda t: t.double() if t.dtype == torch.float32 else t, position
        )
        for which, position in (("the first", 0), ("the last", -1))
    },
}
LONGER_LISTS = "with longer lists"
LISTS_OF_ONE = "with lists of one tensor"
EMPTY_LISTS = "with empty lists"
TUPLES_FOR_LISTS, LISTS_FOR_TUPLES = "with tuples for lists", "with lists for tuples"
FIELDS_BY_DEFAULT = "with fields of objects by default"
ONE_MORE_DIMENSION = "with one more dimension"
OF_OTHER_RANK: dict[str, Vary] = {
    ONE_MORE_DIMENSION: kinds(*[lambda t: t.unsqueeze(0) if t.dim() else t] * 3),
    "with one dimension fewer": kinds(*[lambda t: t[0].clone() if t.dim() > 1 and len(t) else t] * 3),
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
        LISTS_OF_ONE,
        EMPTY_LISTS,
        TUPLES_FOR_LISTS,
        LISTS_FOR_TUPLES,
        FIELDS_BY_DEFAULT,
        *OF_ONE_TENSOR,
    }
)
"""Variations that the code may not support: exceptions with them mean nothing."""
OTHER_TYPES = frozenset(
    {
        IN_FLOAT16,
        IN_SHORT,
        IN_BYTES,
        COMPLEX,
        SOFT_MASKS,
        LARGEST_FLOATS,
        AS_NUMPY,
        AS_TENSORS,
        INFINITE,
        TUPLES_FOR_LISTS,
        LISTS_FOR_TUPLES,
        *OF_OTHER_RANK,
        *OF_ONE_TENSOR,
    }
)
"""Inputs of other types, sizes or magnitudes than the given ones: a difference with them limits a change, and `fix`
still proposes it."""
BY_CHANCE = frozenset({AS_NUMPY, *OF_OTHER_RANK, *OF_ONE_TENSOR})
"""Those of them that code supports only by chance: an exception with them after a change means nothing either."""
GRADIENTS_TURNED = {"infer": "given, in eval mode with gradients", "train": "given, in train mode without gradients"}
"""By mode: gradients are on if they are off otherwise, or off."""
IN_INFERENCE_MODE = "given, in inference mode"
UNDER_AUTOCAST = "given, under autocast"
"""Only the types of the outputs of such a call are compared, because values have fewer digits."""
ON_META = "given, on the meta device"
"""Only the types of the outputs of such a call are compared, because there are no values. A device that is written in
the code differs from that of the inputs."""
DOUBLE_BY_DEFAULT = "given, with float64 as the default dtype"
OTHER_MODE_INSIDE = "given, with the modules inside in the other mode"
FROZEN = "given, with every other parameter frozen"
GRADIENTS_LEFT = "given, with gradients left on the parameters"
"""In inference, to compare gradients that a call leaves: it may clear them."""
ENVIRONMENT = {f"given, with environment variables that are {value or 'empty'}": value for value in ("0", "2", "")}
"""Values of the environment variables that the code reads."""


def environments(constants: Iterable[float | str]) -> dict[str, str]:
    """Return the values of these variables by variation: strings of the changed code as well."""
    texts = [each for each in constants if isinstance(each, str) and "\0" not in each]
    return ENVIRONMENT | {f"given, with environment variables that are {text!r}": text for text in texts}


LOGGED = {"given, with loggers at DEBUG": logging.DEBUG, "given, with loggers at CRITICAL": logging.CRITICAL}
"""Levels of all loggers except torch's during a call."""
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
SEEDED = (GIVEN, "drawn again")
"""Those that are tried with every seed; the others only with the first."""


@functools.cache
def every(constants: tuple[float | str, ...] = ()) -> Mapping[str, Vary]:
    """Return all variations, in the order in which they are tried; `constants` are numbers and strings of the changed
    code."""
    numbers = _numbers(constants)
    at = {
        f"{where} {number:g}": _at(number, way)
        for number in numbers
        for where, way in (("all", 0), ("just above", 1), ("just below", -1))
    }
    some = {f"with some values {number:g}": some_of(_at(number, 0)) for number in numbers}
    one = {
        f"with one value {where}{number:g} and zeros otherwise": _one(number, way)
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
            **OTHER_TYPES_AND_STRIDES,
            **halves,
            **OF_OTHER_TYPES,
            **OF_LISTS,
            **OF_DICTS,
            **_UNCHANGED,
            **LAST,
            **LEFT_OUT_BY_NUMBER,
            **{each.name: each.vary for each in _length_variations(constants)},
            **OF_ONE_TENSOR,
            **AFTER_INFERENCE,
            **OF_OTHER_RANK,
            **dict.fromkeys((*set_to(constants), *built_with(constants), *environments(constants)), VARIATIONS[GIVEN]),
        }
    )


def _numbers(constants: Iterable[float | str]) -> tuple[float, ...]:
    return tuple(each for each in constants if not isinstance(each, str) and math.isfinite(each))


SHORTEST, LONGEST = 2, 20_000
"""Numbers that are tried as lengths."""


def _length_variations(constants: Iterable[float | str]) -> Iterator[InDimension]:
    """Return variations with each number, one less, and one and two more, as the length of a dimension: up to there, a
    slice with this end cuts nothing, and a distance of two places does not reach it. With one less, a slice that begins
    so far from the end begins before the first item."""
    for number in _numbers(constants):
        if number == int(number) and SHORTEST <= number <= LONGEST:
            for length in (*range(int(number) - 1, int(number) + 3), 2 * int(number)):
                for dimension in range(4):
                    yield InDimension(f"{length} long", as_long_as(length), dimension)


def set_to(constants: tuple[float | str, ...]) -> dict[str, VaryOne]:
    """Return, by name, changes that set integers to a number or one more, and strings to a string: those among the
    arguments, or those in modules (`IN_MODULES`)."""

    def at(constant: float | str) -> VaryOne:
        return lambda leaf: constant if type(leaf) is type(constant) else leaf

    numbers = _numbers(constants)
    whole = [int(number) for number in numbers if number == int(number)]
    values: list[tuple[str, float | str]] = [(f"integers set to {n}", n) for each in whole for n in (each, each + 1)]
    values += [(f"floats set to {number:g}", float(number)) for number in numbers]
    values += [(f"strings set to {text!r}", text) for text in constants if isinstance(text, str)]
    return {f"given, with {what}{where}": at(constant) for where in ("", IN_MODULES) for what, constant in values}


IN_MODULES = " in modules"
BUILT = "given, with a model built with "


def built_with(constants: tuple[float | str, ...]) -> dict[str, VaryOne]:
    """Return, by name, changes to plain arguments of constructors."""

    def text(to: str) -> VaryOne:
        return lambda leaf: to if type(leaf) is str else leaf

    return {
        f"{BUILT}larger integers": lambda leaf: leaf + 1 if type(leaf) is int else leaf,
        f"{BUILT}larger floats": lambda leaf: leaf * 1.25 + 0.25 if type(leaf) is float else leaf,
        f"{BUILT}flags inverted": lambda leaf: not leaf if type(leaf) is bool else leaf,
        f"{BUILT}2 for None": lambda leaf: 2 if leaf is None else leaf,
        f"{BUILT}0.5 for None": lambda leaf: 0.5 if leaf is None else leaf,
        **{f"{BUILT}strings set to {each!r}": text(each) for each in constants if isinstance(each, str)},
    }


def size_variations(constants: tuple[float | str, ...]) -> frozenset[str]:
    """Return the names of variations with longer inputs, and with more or fewer dimensions."""
    lengths = (each.name for each in _length_variations(constants))
    return frozenset((*LONGER, *AFTER_INFERENCE, *OF_ONE_TENSOR, *OF_OTHER_RANK, *lengths))


def late(constants: tuple[float | str, ...]) -> frozenset[str]:
    """Return the names of variations that may spoil state of the model: they are tried last."""
    return size_variations(constants) | LAST.keys() | LEFT_OUT_BY_NUMBER.keys() | {ON_META, *FOR_NONE_IN_MODULES}


def _one(number: float, way: int) -> Vary:
    """Return a change to zeros except one value, which is this number, or (`way`) the next one above: the sum then has
    this value."""
    change = _at(number, way)

    def vary(value: Any, draw: torch.Generator) -> Any:
        def first_alone(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.dtype == torch.bool or not tensor.numel():
                return tensor
            changed = change(tensor, draw)
            return first_of(changed.view(-1)[0].item())(torch.zeros_like(tensor))

        return map_tensors(value, first_alone)

    return vary


def _halves(number: float) -> Vary:
    """Return a change to floats in the middle between two whole numbers after multiplication with a number, so that
    rounding decides."""
    return floats_of(lambda t: (torch.round(t) + 0.5) / number)


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


def with_one_more_tensor(items: list[Any]) -> list[Any]:
    """Return a list with one more tensor, like its last one but for the values."""
    return [*items, other_valid_values(items[-1])] if items and isinstance(items[-1], torch.Tensor) else items


def _without_tensors(items: list[Any]) -> list[Any]:
    """Return an empty list if all items are tensors."""
    return [] if all(isinstance(each, torch.Tensor) for each in items) else items


def _with_the_first_tensor(items: list[Any]) -> list[Any]:
    """Return the first item if all are tensors."""
    return items[:1] if all(isinstance(each, torch.Tensor) for each in items) else items


def _exchanged(one: type, other: type) -> Vary:
    """Return a variation that passes containers of the type `other` in place of those of the type `one`."""

    def changed(value: Any) -> Any:
        if type(value) in (list, tuple):
            return (other if type(value) is one else type(value))(map(changed, value))
        return {key: changed(each) for key, each in value.items()} if type(value) is dict else value

    def vary(value: Any, _draw: torch.Generator) -> Any:
        match value:
            case (tuple() as args, dict() as kwargs):
                return tuple(map(changed, args)), {key: changed(each) for key, each in kwargs.items()}
        return changed(value)

    return vary


OF_LISTS: dict[str, Vary] = {
    LONGER_LISTS: _in_lists(with_one_more_tensor),
    LISTS_OF_ONE: _in_lists(_with_the_first_tensor),
    EMPTY_LISTS: _in_lists(_without_tensors),
    TUPLES_FOR_LISTS: _exchanged(list, tuple),
    LISTS_FOR_TUPLES: _exchanged(tuple, list),
    FIELDS_BY_DEFAULT: lambda value, _draw: with_defaults(value),
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


def with_one_more_item(items: dict[Any, Any]) -> dict[Any, Any]:
    """Return a dict with one more tensor, like its last one but for the values, if its keys are strings."""
    key, last = next(reversed(items.items()), (None, None))
    if not isinstance(key, str) or not isinstance(last, torch.Tensor):
        return items
    return {**items, f"{key}_2": other_valid_values(last)}


def _without_item(position: int) -> Vary:
    """Return a variation that leaves out one item of dicts, counted from the end if `position` is negative."""
    return _in_dicts(lambda items: {key: items[key] for key in items if key not in [*items][position:][:1]})


FEWER_ITEMS: dict[str, Vary] = {
    "without the last item of dicts": _without_item(-1),
    **{f"without item {number} of dicts": _without_item(number - 1) for number in range(1, 6)},
}
OF_DICTS: dict[str, Vary] = {
    **FEWER_ITEMS,
    "with one more item in dicts": _in_dicts(with_one_more_item),
    "with dicts in reverse order": _in_dicts(lambda items: dict(reversed(items.items()))),
}
"""For inputs with dicts: code with hard-coded keys, or a hard-coded order, differs from code that iterates over them."""


def _is_another(value: Any, change: Vary) -> bool:
    """Return whether inputs have other types, sizes or containers after a change."""
    changed = change(value, torch.Generator())
    one, other = ([(x.dtype, x.shape) for x in tensors_of(each)] for each in (value, changed))
    return one != other or containers_of(value) != containers_of(changed)


def _sizes(value: Any) -> Iterator[str]:
    """Return the names of the variations in one dimension that differ from those before them."""
    known: set[tuple[str, int]] = set()
    rows = next(iter(shape_of(value, 0) or ()), None)
    for each in IN_DIMENSIONS:
        shape = each.shape(value)
        if shape is None or not shape[each.dimension]:
            continue
        length = shape[each.dimension]
        if each.of and each.what != "longer" and length == rows:
            continue  # that is tried with the rows of all tensors
        if each.alone:
            if shape.count(length) > 1:
                yield each.name
        elif (each.what, length) not in known:
            known.add((each.what, length))
            if length > 1 or each.what == "longer":
                yield each.name


def _at(number: float, way: int) -> Vary:
    """Return a change of every value to a number, in the value's type, or (`way`) to the next one above or below."""

    def floats(tensor: torch.Tensor) -> torch.Tensor:
        made = torch.full_like(tensor, number)
        if not way:
            return made
        if made.dtype in (torch.float32, torch.float64):
            return torch.nextafter(made, torch.full_like(made, way * math.inf))
        return made + way * torch.finfo(made.dtype).eps * max(abs(number), torch.finfo(made.dtype).tiny)

    def integers(tensor: torch.Tensor) -> torch.Tensor:
        if not counts_of(tensor) or number != int(number) or tensor.device.type != "cpu":
            return tensor
        ends = torch.iinfo(tensor.dtype)
        return torch.full_like(tensor, min(max(int(number) + way, ends.min), ends.max))

    return kinds(floats, integers, same_of)


def _dicts_in(value: Any) -> bool:
    """Return whether a variation of dicts may change a value."""
    found: list[bool] = []

    def seen(items: dict[Any, Any]) -> dict[Any, Any]:
        found.append(len(items) > 0)
        return items

    _in_dicts(seen)(value, torch.Generator())
    return any(found)


def fitting(value: Any, constants: tuple[float | str, ...] = ()) -> tuple[str, ...]:
    """Return the names of the variations that apply to the inputs; the function decides which arguments can have
    another type."""
    tensors = [*tensors_of(value)]
    masks = any(tensor.dtype == torch.bool for tensor in tensors)
    counts = any(counts_of(tensor) for tensor in tensors)
    floats = any(tensor.is_floating_point() for tensor in tensors)
    sizes = {*_sizes(value)}
    others = {**OF_OTHER_TYPES, **OF_ONE_TENSOR, **OF_LISTS}
    unchanged = {
        *_UNCHANGED, *AFTER_INFERENCE, *set_to(constants), *built_with(constants), *environments(constants),
    }  # fmt: skip
    lengths = {each.name: each for each in _length_variations(constants)}
    shape = shape_of(value, 0) or ()
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
        and (name not in FEWER_ITEMS or _is_another(value, FEWER_ITEMS[name]))
        and (name not in LONGER or name in sizes)
        and (name not in OF_ONE_TENSOR or len(tensors) > 1)
        and (name not in lengths or name in fitting_lengths)
        and name not in unchanged
    )
