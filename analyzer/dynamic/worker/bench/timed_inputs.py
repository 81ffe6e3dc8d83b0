"""Prepare inputs of timed calls in advance, and again if calls change them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.inputs.loading import fresh
from tcready.dynamic.worker.measure.output_comparison import DEPTH, seen

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Feed:
    """The inputs of the calls of one case."""

    case: Case
    anew: Literal["never", "block", "call"]
    """When inputs are copied: `never` if calls do not change them; before each `block` if calls change them and accept
    them again, like a growing cache; else before each `call`."""

    def take(self, calls: int) -> Iterator[Inputs]:
        """Return the inputs of that many calls; all copies are made here."""
        if self.anew == "call":
            return iter([_copy(self.case) for _ in range(calls)])
        once = _copy(self.case) if self.anew == "block" else (self.case.args, self.case.kwargs)
        return itertools.repeat(once)


def feed_of(case: Case, step: Callable[[Iterator[Inputs]], Any], accumulate: int = 1, *, is_loop: bool = False) -> Feed:
    """Find out how calls change their inputs, from two steps of eager code. A loop that changes them gets new ones each
    time. Raises what the first step raises."""
    inputs = _copy(case)
    before = list(seen(inputs, DEPTH, set()))
    step(itertools.repeat(inputs, accumulate))
    if list(seen(inputs, DEPTH, set())) == before:
        return Feed(case_of(case), "never")
    if is_loop:
        return Feed(case, "call")
    try:
        step(itertools.repeat(inputs, accumulate))
    except Exception:
        return Feed(case, "call")
    return Feed(case, "block")


def case_of(case: Case) -> Case:
    """Return the case with a copy of its inputs, so that other arms do not see the changes of one arm."""
    args, kwargs = _copy(case)
    return Case(case.name, args, kwargs, case.weight, case.items)


def _copy(case: Case) -> Inputs:
    copied = fresh(case)
    return copied.args, copied.kwargs
