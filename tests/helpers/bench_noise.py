"""Times of blocks as real machines give them: what a bench's statistics are tested on."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

Rows = list[list[float]]


@dataclass(frozen=True)
class Trouble:
    """Standard deviations of the logarithm of a time, unless it says otherwise."""

    process: float = 0.01
    """Between processes, in all arms alike."""
    arm: float = 0.01
    """Between processes, in each arm for itself: how code and data happen to lie in memory."""
    drift: float = 0.03
    """From the middle of a process to its end, in a straight line."""
    slow: float = 0.01
    """Of what changes slowly: each block takes over `memory` of it from the one before."""
    memory: float = 0.6
    white: float = 0.005
    outliers: float = 0.05
    """Share of blocks that something else disturbs."""
    size: float = 0.4
    """Mean of what it adds to them."""


def timed(
    lot: random.Random, seconds: Sequence[float], processes: int = 3, blocks: int = 10, trouble: Trouble | None = None
) -> list[Rows]:
    """Blocks of arms that take `seconds`, in rounds of random order: of each arm a row for each process."""
    t = trouble or Trouble()
    found: list[Rows] = [[] for _ in seconds]
    for _ in range(processes):
        common, slope = lot.gauss(0, t.process), lot.gauss(0, t.drift)
        own = [lot.gauss(0, t.arm) for _ in seconds]
        slow = lot.gauss(0, t.slow)
        rows: Rows = [[] for _ in seconds]
        total = blocks * len(seconds)
        for index in range(blocks):
            for place, arm in enumerate(lot.sample(range(len(seconds)), len(seconds))):
                slow = t.memory * slow + math.sqrt(1 - t.memory**2) * lot.gauss(0, t.slow)
                value = math.log(seconds[arm]) + common + own[arm] + slow + lot.gauss(0, t.white)
                value += slope * (2 * (index * len(seconds) + place) / total - 1)
                value += lot.expovariate(1 / t.size) if lot.random() < t.outliers else 0.0
                rows[arm].append(math.exp(value))
        for arm, row in enumerate(rows):
            found[arm].append(row)
    return found
