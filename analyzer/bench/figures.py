"""Compute figures with 95 % confidence intervals from the times of blocks. Only this module needs scipy.

Calls of one process are not independent samples: processes differ by about 1 % in memory layout and clocks, however
well their own calls agree. Each process therefore contributes one value, the median of its blocks, and the interval is
Student's t over the logarithms of these values. Ratios are computed round by round before the median is taken, because
the blocks of a round are timed one after the other and share drift.
"""

from __future__ import annotations

import math
import random
import statistics
import warnings
from collections.abc import Sequence
from typing import Any

from tcready.schema.bench import ArmVerdict, Figure, Noise
from tcready.schema.enums import TcreadyError

LEVEL = 0.95
MIN_EFFECT = 0.02
"""The least difference of a ratio from 1 that matters."""
FROM_P99 = 200
"""The least number of calls for a 99th percentile; with fewer, it is one of the slowest two."""
LEAST_ROUNDS, FEW_ROUNDS = 3, 6
"""Rounds of blocks in one process: with fewer than the first, it is left out; with fewer than the second, there is no
interval by ranks."""
FAR_APART = 2.0
"""The ratio of the largest to the smallest round of a process beyond which ranks give no interval."""
PROCESS_SPREAD = 1.03
"""The largest ratio that is plausible between two processes, however steady each of them is."""
TWENTIETHS = 20
"""The number of quantiles of the times of single calls."""
_MOST_MORE = 100

Rows = Sequence[Sequence[float]]
"""One row for each process: the mean seconds of a call in each block, in the order of measurement."""


def require_scipy() -> None:
    """Raise TcreadyError if scipy is missing. Call it before anything is measured."""
    _stats()


def _stats() -> Any:
    try:
        from scipy import stats
    except ImportError as missing:
        raise TcreadyError("the bench needs scipy: pip install 'tcready[bench]'") from missing
    return stats


def figure(rows: Rows, latencies: Sequence[float] = ()) -> Figure | None:
    """Return the geometric mean of the medians of all processes, in seconds; None if there are no blocks.

    A single process does not give an interval over processes: the bounds are those of the median of its blocks, and `n`
    is the number of its blocks. `latencies`: seconds of single calls. Raises TcreadyError without scipy.
    """
    logs = [[math.log(value) for value in row] for row in rows if row]
    if not logs:
        return None
    centre, low, high = _centre_and_bounds(logs)
    p50, p95, p99 = _percentiles(latencies)
    n = len(logs) if len(logs) > 1 else len(logs[0])
    return Figure(math.exp(centre), math.exp(low), math.exp(high), n, p50, p95, p99)


def ratio(base: Rows, other: Rows, paired: bool = True) -> Figure | None:
    """Return `base` divided by `other`: above 1, `other` is faster. None if there are too few values for bounds.

    If `paired`, rows with the same index are from the same process, and blocks with the same index from the same round.
    For one process, the bounds are those of the median of its rounds. If not paired, rows are from different processes
    (Welch's interval). Raises TcreadyError without scipy.
    """
    if paired:
        rounds = [
            [math.log(one / two) for one, two in zip(ours, theirs, strict=False)]
            for ours, theirs in zip(base, other, strict=True)
        ]
        rounds = [row for row in rounds if row]
        if not rounds or rounds == [rounds[0][:1]]:
            return None
        centre, low, high = _centre_and_bounds(rounds)
        n = len(rounds) if len(rounds) > 1 else len(rounds[0])
    else:
        one, two = ([[math.log(value) for value in row] for row in rows if row] for rows in (base, other))
        if len(one) < 2 or len(two) < 2:
            return None
        ours, theirs = ([statistics.median(row) for row in rows] for rows in (one, two))
        centre = statistics.fmean(ours) - statistics.fmean(theirs)
        low, high = _welch(ours, theirs, centre)
        n = min(len(one), len(two))
    return Figure(math.exp(centre), math.exp(low), math.exp(high), n)


def _centre_and_bounds(logs: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Return the mean of the medians of processes with a t interval; for a single process, see `_interval_of_one`."""
    if len(logs) == 1:
        return _interval_of_one(logs[0])
    values = [statistics.median(row) for row in logs]
    centre, error = statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))
    if error == 0:
        return centre, centre, centre
    low, high = _stats().t.interval(LEVEL, df=len(values) - 1, loc=centre, scale=error)
    return centre, float(low), float(high)


def _interval_of_one(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median of the values of one process, with a 95 % interval by ranks. If there are few values, or if they
    are far apart, ranks say little: the interval is then twice as wide as needed to hold all of them."""
    ordered = sorted(values)
    centre, least, most = statistics.median(ordered), ordered[0], ordered[-1]
    if len(ordered) < LEAST_ROUNDS:
        return centre, least, most
    if len(ordered) < FEW_ROUNDS or most - least > math.log(FAR_APART):
        half = 2 * max(centre - least, most - centre)
        return centre, centre - half, centre + half
    rank = _rank(len(ordered))
    return centre, ordered[rank], ordered[-1 - rank]


def _welch(ours: Sequence[float], theirs: Sequence[float], centre: float) -> tuple[float, float]:
    if statistics.pstdev(ours) == statistics.pstdev(theirs) == 0:
        return centre, centre
    with warnings.catch_warnings():  # values may agree to the last digits
        warnings.simplefilter("ignore", RuntimeWarning)
        found = _stats().ttest_ind(ours, theirs, equal_var=False).confidence_interval(LEVEL)
    return float(found.low), float(found.high)


def _percentiles(latencies: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    if len(latencies) < 2:
        return None, None, None
    cuts = statistics.quantiles(latencies, n=100, method="inclusive")
    return cuts[49], cuts[94], cuts[98] if len(latencies) >= FROM_P99 else None


def spread(latencies: Sequence[float]) -> tuple[float, ...]:
    """Return the 0th, 5th, 10th, ... 100th percentile of single calls, in seconds; empty for fewer than 20 calls."""
    if len(latencies) < TWENTIETHS:
        return ()
    cuts = statistics.quantiles(latencies, n=TWENTIETHS, method="inclusive")
    return min(latencies), *cuts, max(latencies)


def weighted(processes: Sequence[Rows], weights: Sequence[float]) -> Rows:
    """Return the weighted seconds of a call over several cases, one row for each process. `processes` holds the blocks
    of each case.

    With several processes, a row has one value, computed from the medians of the cases, so that one slow block does not
    affect all of them. With a single process, it has one value for each round. For one case, it holds its blocks.
    """
    if len(weights) == 1:
        return tuple(tuple(blocks) for (blocks,) in processes)
    shares = [weight / sum(weights) for weight in weights]

    def sum_of(values: Sequence[float]) -> float:
        return sum(share * value for share, value in zip(shares, values, strict=True))

    if len(processes) == 1:
        return tuple(tuple(map(sum_of, zip(*cases, strict=False))) for cases in processes)
    return tuple((sum_of([statistics.median(blocks) for blocks in cases]),) for cases in processes)


def shown(found: Figure | None, min_effect: float = MIN_EFFECT) -> ArmVerdict:
    """Return the verdict that follows from the interval of a ratio to eager alone."""
    if found is None:
        return "inconclusive"
    if found.low > 1 + min_effect:
        return "real_gain"
    if found.high < 1 / (1 + min_effect):
        return "regression"
    return "no_gain" if found.high <= 1 + min_effect else "inconclusive"


def within(base: Rows, other: Rows) -> tuple[Figure, ...]:
    """Return `base` divided by `other` for each process alone, with the bounds of the median of its rounds."""
    found = []
    for ours, theirs in zip(base, other, strict=True):
        rounds = [math.log(one / two) for one, two in zip(ours, theirs, strict=False)]
        if len(rounds) < LEAST_ROUNDS:
            continue
        centre, low, high = _interval_of_one(rounds)
        found.append(Figure(math.exp(centre), math.exp(low), math.exp(high), len(rounds)))
    return tuple(found)


def _rank(count: int) -> int:
    """Return how many of `count` sorted values lie on each side of an interval of at least 95 % for their median."""
    below = 0.0
    for rank in range(count):
        below += math.comb(count, rank) / 2**count  # the chance that as many or fewer are below the median
        if below > (1 - LEVEL) / 2:
            return max(rank - 1, 0)
    return 0


def likely(found: Sequence[Figure], min_effect: float = MIN_EFFECT) -> ArmVerdict:
    """Return the likely verdict that all processes show individually; "inconclusive" if they disagree. Processes with
    less than half of the rounds, which the end of the budget cut short, do not count."""
    most = max((each.n for each in found), default=0)
    seen = {_likely_of_one(each, min_effect) for each in found if 2 * each.n >= most}
    return seen.pop() if len(seen) == 1 else "inconclusive"


def _likely_of_one(found: Figure, min_effect: float) -> ArmVerdict:
    if found.low > (1 + min_effect) * PROCESS_SPREAD:
        return "likely_gain"
    if found.high < 1 / ((1 + min_effect) * PROCESS_SPREAD):
        return "likely_regression"
    if found.median <= 1 + min_effect and found.high <= (1 + min_effect) * PROCESS_SPREAD:
        return "likely_no_gain"
    return "inconclusive"


def more_needed(found: Figure, processes: int, min_effect: float = MIN_EFFECT) -> int | None:
    """Estimate how many more processes would decide whether a gain exceeds `min_effect`, for a ratio that was measured in
    `processes` (at least two). Return None for more than 100. Raises TcreadyError without scipy."""
    stats = _stats()
    half = math.log(found.high / found.low) / 2
    spread = half * math.sqrt(processes) / stats.t.ppf((1 + LEVEL) / 2, processes - 1)
    distance = abs(math.log(found.median / (1 + min_effect)))
    for more in range(1, _MOST_MORE + 1):
        count = processes + more
        if stats.t.ppf((1 + LEVEL) / 2, count - 1) * spread / math.sqrt(count) < distance:
            return more
    return None


def noise(rows: Rows, min_effect: float = MIN_EFFECT, seed: int = 0) -> Noise | None:
    """Compare eager with itself: two neighbouring blocks are assigned to two halves at random.

    Both halves use the same object, so the memory layout of different objects has no influence. Return None with fewer
    than two processes of at least two blocks. Raises TcreadyError without scipy.
    """
    lot = random.Random(seed)  # noqa: S311  not a secret: which block is in which half
    one: list[list[float]] = []
    two: list[list[float]] = []
    for row in rows:
        pairs = [lot.sample(pair, 2) for pair in zip(row[::2], row[1::2], strict=False)]
        if pairs:
            one.append([first for first, _ in pairs])
            two.append([second for _, second in pairs])
    if len(one) < 2:
        return None
    found = ratio(one, two)
    assert found is not None
    spread = statistics.stdev(math.log(statistics.median(row)) for row in rows if row)
    return Noise(found, shown(found, min_effect), spread)


def break_even(cold: Figure, baseline: Figure, speedup: Figure) -> Figure | None:
    """Return the number of calls that recover `cold` extra seconds of a cold start; None unless the lower bound of
    `speedup` is above 1.

    `baseline`: seconds of an eager call. The bounds combine those of all three as independent errors.
    """
    if speedup.low <= 1:
        return None
    saved = [1 - 1 / value for value in (speedup.low, speedup.median, speedup.high)]
    if cold.median <= 0:
        return Figure(0.0, 0.0, 0.0, cold.n)
    calls = cold.median / (baseline.median * saved[1])
    fewer = math.hypot(
        math.log(cold.median / max(cold.low, cold.median * _LEAST)),
        math.log(baseline.high / baseline.median),
        math.log(saved[2] / saved[1]),
    )
    more = math.hypot(
        math.log(cold.high / cold.median), math.log(baseline.median / baseline.low), math.log(saved[1] / saved[0])
    )
    return Figure(calls, calls * math.exp(-fewer), calls * math.exp(more), cold.n)


_LEAST = 1e-3
"""The least lower bound of `cold`, as a share of its median: minus eager's cold start, the bound may be negative."""
