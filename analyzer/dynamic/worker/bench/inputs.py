"""Inputs of calls that are timed: made before, and anew where calls change them."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from tcready.dynamic.worker.case import Case
from tcready.dynamic.worker.loading import fresh
from tcready.dynamic.worker.parity import attributes_of
from tcready.dynamic.worker.torch_internals.placement import writes

Inputs = tuple[tuple[Any, ...], dict[str, Any]]
DEPTH = 6
"""Objects within objects that are looked into."""


@dataclass(frozen=True)
class Feed:
    """How the calls of one case get their inputs."""

    case: Case
    anew: Literal["never", "block", "call"]
    """When they are copied: `never` if calls leave them as they are; before each `block` if they change them and take
    them again, as a cache that grows; else before each `call`."""

    def take(self, calls: int) -> Iterator[Inputs]:
        """Of so many calls, in turn; all copies are made here."""
        if self.anew == "call":
            return iter([_copy(self.case) for _ in range(calls)])
        once = _copy(self.case) if self.anew == "block" else (self.case.args, self.case.kwargs)
        return itertools.repeat(once)


def feed_of(case: Case, step: Callable[[Iterator[Inputs]], Any], accumulate: int = 1) -> Feed:
    """What calls do to their inputs, seen in two steps of eager code. Raises what the first of them raises."""
    inputs = _copy(case)
    before = list(seen(inputs, DEPTH, set()))
    step(itertools.repeat(inputs, accumulate))
    if list(seen(inputs, DEPTH, set())) == before:
        return Feed(case_of(case), "never")
    try:
        step(itertools.repeat(inputs, accumulate))
    except Exception:
        return Feed(case, "call")
    return Feed(case, "block")


def case_of(case: Case) -> Case:
    """The case with a copy of its inputs: what one arm leaves on them, others do not see."""
    args, kwargs = _copy(case)
    return Case(case.name, args, kwargs, case.weight)


def _copy(case: Case) -> Inputs:
    copied = fresh(case)
    return copied.args, copied.kwargs


def written(tensor: torch.Tensor) -> Any:
    """What is another if it is another tensor, or was written to."""
    return id(tensor), tuple(tensor.shape), writes(tensor)


def seen(
    value: Any, depth: int, opened: set[int], of: Callable[[torch.Tensor], Any] = written
) -> Iterator[Any]:
    """All that a call could change of a value, in an order that is always the same; of a tensor what `of` gives."""
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
