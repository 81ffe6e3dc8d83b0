"""Compare two measurements of one arm in one case: does the time differ beyond noise?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tcready.schema.bench import Figure

if TYPE_CHECKING:
    from tcready.schema.bench import ArmBench, Bench


@dataclass(frozen=True)
class Again:
    """How an arm changed between two benches."""

    ratio: Figure | None
    """Time of a call now divided by the time before: above 1 is slower. None if one of them was not timed."""
    differs: bool
    """The times differ beyond noise: 1 is outside the interval, and eager differed less from itself in both benches."""
    why_not: str = ""
    """Why it is unknown whether they differ."""

    @property
    def slower(self) -> bool:
        return self.differs and self.ratio is not None and self.ratio.median > 1


def again(before: ArmBench, after: ArmBench, noise: float) -> Again:
    """Compare an arm of one bench with the same arm of another. `noise` is `noise_of` both benches.

    The interval of the ratio combines those of both times as independent errors. If an arm was timed in only one
    process, no difference is claimed, because its interval does not cover differences between processes.
    """
    one, two = before.seconds, after.seconds
    if one is None or two is None or min(one.median, one.low, two.median, two.low) <= 0:
        return Again(None, False, "not timed in both benches")
    ratio = two.median / one.median
    down = math.hypot(math.log(two.median / two.low), math.log(one.high / one.median))
    up = math.hypot(math.log(two.high / two.median), math.log(one.median / one.low))
    found = Figure(ratio, ratio * math.exp(-down), ratio * math.exp(up), min(one.n, two.n))
    alone = [name for name, arm in (("then", before), ("now", after)) if len(arm.blocks) == 1]
    beyond = abs(math.log(ratio)) > noise and not found.low <= 1 <= found.high
    why_not = f"timed in only one process {' and '.join(alone)}: use a larger --budget" if alone else ""
    return Again(found, beyond and not alone, why_not)


def noise_of(*benches: Bench) -> float:
    """Return by how much eager differed from itself: the largest distance of an interval end from 1, as a logarithm."""
    ends = [end for bench in benches if bench.noise for end in (bench.noise.ratio.low, bench.noise.ratio.high)]
    return max((abs(math.log(end)) for end in ends if 0 < end < math.inf), default=0.0)
