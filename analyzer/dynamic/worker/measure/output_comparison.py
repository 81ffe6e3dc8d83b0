"""Compare two outputs."""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from tcready.dynamic.worker.measure.call_outcome import CallOutcome, kind_of
from tcready.dynamic.worker.torch_internals import pytree
from tcready.dynamic.worker.torch_internals.compile_calls import writes

DEPTH = 6
"""The nesting depth of objects that are searched."""


@dataclass(frozen=True)
class OutputComparison:
    """The result of a comparison. `difference` is the first one found, in one line, or None; `tensors` counts those of
    the first output."""

    tensors: int
    difference: str | None


def compare(expected: Any, actual: Any, tolerance: tuple[float, float] | None = None) -> OutputComparison:
    """Compare two pytrees of outputs by `tolerance` (relative, absolute).

    None: by the tolerances of `torch.testing.assert_close` for their dtype.
    """
    one, other = outcome_of(expected), outcome_of(actual)
    return OutputComparison(tensors_in(one), by_tolerance(one, other, tolerance) or None)


def by_tolerance(expected: CallOutcome, actual: CallOutcome, tolerance: tuple[float, float] | None = None) -> str:
    """Return the first difference of two outcomes, in one line; empty if there is none."""
    if expected.structure != actual.structure or len(expected.leaves) != len(actual.leaves):
        return "the compiled output has a different structure from the eager one"
    for (label, one), (_, other) in zip(expected.leaves, actual.leaves, strict=True):
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
            difference = _tensors(one, other, tolerance)
        elif isinstance(one, (bool, int, float, str)) and type(one) is type(other):
            same = one == other or (isinstance(one, float) and math.isclose(one, float(other), rel_tol=1e-5))
            difference = None if same or (one != one and other != other) else f"{one!r} became {other!r}"
        else:
            difference = None if type(one) is type(other) else f"{type(one).__name__} became {type(other).__name__}"
        if difference:
            return f"{label}: {difference}"
    return ""


def attributes_of(value: Any) -> dict[str, Any] | None:
    """Return the attributes of an object, in `__dict__` and in slots; None if it has neither. Slots of the standard
    library's types are excluded, since some are caches."""
    found: dict[str, Any] = {}
    kind = type(value)
    slots = [] if kind.__module__.split(".")[0] in sys.stdlib_module_names else kind.__mro__
    names = [name for each in slots for name in _slots(each) if hasattr(value, name)]
    inner = getattr(value, "__dict__", None)
    if not names and not isinstance(inner, dict):
        return None
    found = {name: getattr(value, name) for name in names}
    return found | inner if isinstance(inner, dict) else found


def _inside(value: Any) -> dict[str, Any] | None:
    """Return the attributes of an object, and its items if its class is a dict or list that pytree does not know."""
    found = attributes_of(value)
    if isinstance(value, dict):
        return {**(found or {}), "": [*map(list, dict.items(value))]}
    if isinstance(value, (list, tuple)) and found is not None:
        return {**found, "": [*value]}
    return found


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    named = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in named if not name.startswith("__"))


def flatten(value: Any) -> tuple[list[Any], list[str]]:
    """Return the leaves and the structure. Objects that pytree does not know are opened by their attributes, each once,
    and so are those in them (a cache of keys holds layers, and these the tensors). A strided nested tensor is a list of
    tensors."""
    flat: list[Any] = []
    shape: list[str] = []
    opened: set[int] = set()

    def opening(value: Any, depth: int) -> None:
        leaves, spec = pytree.tree_flatten(value)
        shape.append(str(spec))
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor) and leaf.is_nested and leaf.layout == torch.strided:
                shape.append("nested tensor")  # torch has no comparison for it
                opening([*leaf.unbind()], depth)
                continue
            opaque = isinstance(leaf, (torch.Tensor, torch.nn.Module)) or callable(leaf)
            inner = None if opaque or not depth or id(leaf) in opened else _inside(leaf)
            if inner is None:
                flat.append(leaf)
                continue
            opened.add(id(leaf))
            shape.append(type(leaf).__name__)
            opening(dict(sorted(inner.items())), depth - 1)  # compiled code may set them in another order

    opening(value, DEPTH)
    return flat, shape


def outcome_of(value: Any) -> CallOutcome:
    """Return the leaves of a pytree of outputs, named `output 0` and so on."""
    leaves, structure = flatten(value)
    return CallOutcome(tuple((f"output {index}", leaf) for index, leaf in enumerate(leaves)), tuple(structure))


def tensors_in(outcome: CallOutcome) -> int:
    """Return how many tensors the outputs hold."""
    return sum(isinstance(leaf, torch.Tensor) and kind_of(label) == "output" for label, leaf in outcome.leaves)


def written(tensor: torch.Tensor) -> Any:
    """Return a value that changes if the tensor is replaced or written to."""
    return id(tensor), tuple(tensor.shape), writes(tensor)


def seen(value: Any, depth: int, opened: set[int], of: Callable[[torch.Tensor], Any] = written) -> Iterator[Any]:
    """Return everything in a value that a call could change, in a fixed order; for a tensor the result of `of`."""
    if isinstance(value, torch.Tensor):
        yield of(value)
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        yield value
    elif depth and id(value) not in opened:
        opened.add(id(value))
        yield type(value).__name__
        if isinstance(value, Mapping):
            for key, item in value.items():
                yield from seen(key, 1, opened, of)
                yield from seen(item, depth - 1, opened, of)
        elif isinstance(value, (set, frozenset)):
            yield len(value)
        elif isinstance(value, (list, tuple, deque)):
            for item in value:
                yield from seen(item, depth - 1, opened, of)
        elif not isinstance(value, type) and not callable(value):
            for name, item in sorted((attributes_of(value) or {}).items()):
                yield name
                yield from seen(item, depth - 1, opened, of)


def _tensors(one: torch.Tensor, other: torch.Tensor, tolerance: tuple[float, float] | None) -> str | None:
    rtol, atol = tolerance or (None, None)
    try:
        torch.testing.assert_close(other, one, rtol=rtol, atol=atol, equal_nan=True, check_stride=False)
    except AssertionError as error:
        return " ".join(line.strip() for line in str(error).splitlines() if line.strip())[:300]
    except Exception as error:  # a sparse or nested layout that assert_close does not know
        return f"cannot be compared: {type(error).__name__}"
    return None
