"""Create the inputs of timed calls in advance, and again if calls change them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from tcready.dynamic.worker.case import Case
from tcready.dynamic.worker.loading import fresh
from tcready.dynamic.worker.parity import DEPTH, seen

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


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


def feed_of(
    case: Case, step: Callable[[Iterator[Inputs]], Any], accumulate: int = 1, *, is_loop: bool = False
) -> Feed:
    """What calls do to their inputs, seen in two steps of eager code; a loop that changes them begins with new ones each
    time. Raises what the first of them raises."""
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
    """The case with a copy of its inputs: what one arm leaves on them, others do not see."""
    args, kwargs = _copy(case)
    return Case(case.name, args, kwargs, case.weight, case.items)


def _copy(case: Case) -> Inputs:
    copied = fresh(case)
    return copied.args, copied.kwargs
