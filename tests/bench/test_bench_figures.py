"""Intervals that hold what they promise, on times as noisy as real ones."""

from __future__ import annotations

import math
import random
import subprocess
import sys

import pytest
from bench_noise import Trouble, timed
from tcready.bench.figures import break_even, figure, likely, more_needed, noise, ratio, shown, spread, weighted, within
from tcready.schema.bench import Figure

RUNS = 500
SECONDS = 0.02
NOISES = {
    "usual": Trouble(),
    "one per cent between processes alone": Trouble(arm=0.01, drift=0, slow=0, outliers=0, white=0.002),
    "arms alike in each process": Trouble(arm=0),
    "much disturbed": Trouble(outliers=0.2, size=0.8),
    "slow changes": Trouble(arm=0.005, drift=0.05, memory=0.9, slow=0.02),
}


def covered(true: float, processes: int, trouble: Trouble, paired: bool, blocks: int = 10) -> float:
    """Share of runs whose interval holds the ratio."""
    lot = random.Random(f"{true} {processes} {trouble} {paired}")
    count = 0
    for _ in range(RUNS):
        eager, arm = timed(lot, (SECONDS, SECONDS / true), processes, blocks, trouble)
        if not paired:  # an arm that had processes of its own
            _, arm = timed(lot, (SECONDS, SECONDS / true), processes, blocks, trouble)
        found = ratio(eager, arm, paired)
        assert found is not None
        count += found.low <= true <= found.high
    return count / RUNS


@pytest.mark.parametrize("true", [1.05, 1.3, 0.9])
@pytest.mark.parametrize("processes", [3, 5])
def test_the_interval_of_a_ratio_covers_it_as_often_as_it_says(true: float, processes: int) -> None:
    assert 0.93 <= covered(true, processes, NOISES["usual"], paired=True) <= 0.97


@pytest.mark.parametrize("name", list(NOISES)[1:])
def test_so_it_does_on_other_noise(name: str) -> None:
    assert 0.93 <= covered(1.3, 3, NOISES[name], paired=True) <= 0.97


@pytest.mark.parametrize("true", [1.05, 1.3])
def test_so_does_that_of_different_processes(true: float) -> None:
    assert 0.93 <= covered(true, 5, NOISES["usual"], paired=False) <= 0.97


def test_the_bounds_of_one_process_are_those_of_the_median_of_its_blocks() -> None:
    ranked = [2.0, 2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.7, 2.8, 2.9]
    for values, low, high in ((ranked, 2.1, 2.8), ([2.0, 2.2, 2.0], 2.0 * (2.0 / 2.2) ** 2, 2.0 * 1.1**2)):
        for found in (figure([values]), ratio([values], [[1.0] * len(values)])):
            assert found is not None
            assert (found.low, found.high, found.n) == (*map(pytest.approx, (low, high)), len(values))


@pytest.mark.parametrize("name", NOISES)
def test_eager_held_against_eager_gains_nothing(name: str) -> None:
    lot = random.Random(name)
    harmless, alone = 0, 0
    for _ in range(RUNS // 2):
        eager, other = timed(lot, (SECONDS, SECONDS), 3, 10, NOISES[name])
        harmless += shown(ratio(eager, other)) in ("no_gain", "inconclusive")
        found = noise(eager)
        assert found is not None
        alone += found.verdict in ("no_gain", "inconclusive")
    assert harmless >= 0.95 * (RUNS // 2)
    assert alone >= 0.95 * (RUNS // 2)


def test_a_figure_is_the_centre_of_the_medians_of_processes() -> None:
    found = figure([[1.0, 1.0, 9.0], [4.0, 4.0, 4.0]])
    assert found is not None
    assert found.median == pytest.approx(2.0)
    assert found.n == 2
    # By hand: the logarithms differ by log 4, and t(0.975, 1) = 12.706.
    assert found.high / found.median == pytest.approx(4 ** (12.7062 / 2), rel=1e-3)


def test_figures_without_an_interval() -> None:
    assert figure([]) is None
    assert figure([[], []]) is None
    assert figure([[0.5]]) == Figure(pytest.approx(0.5), pytest.approx(0.5), pytest.approx(0.5), 1)
    assert ratio([[1.0]], [[2.0]]) is None
    assert ratio([[1.0]], [[2.0], [2.0]], paired=False) is None
    assert noise([[1.0, 2.0, 1.0]]) is None
    same = ratio([[1.0, 1.0], [1.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]])
    assert same is not None
    assert (same.low, same.median, same.high, same.n) == (*[pytest.approx(2.0)] * 3, 2)


def test_a_round_that_was_cut_short_does_not_count() -> None:
    found = ratio([[1.0, 2.0, 9.0], [1.0, 2.0]], [[0.5, 1.0], [0.5, 1.0, 0.1]])
    assert found is not None
    assert found.low == pytest.approx(2.0) == found.high


def test_percentiles_of_single_calls() -> None:
    few, many = (figure([[1.0]], [1.0 * call for call in range(1, count + 1)]) for count in (199, 201))
    assert few is not None
    assert many is not None
    assert (few.p50, few.p95, few.p99) == (100.0, pytest.approx(189.1), None)
    assert (many.p50, many.p95, many.p99) == (101.0, pytest.approx(191.0), pytest.approx(199.0))


def test_a_ratio_shows_a_gain_beyond_the_least_effect_alone() -> None:
    assert shown(Figure(1.03, 1.021, 1.04, 3)) == "real_gain"
    assert shown(Figure(1.03, 1.01, 1.05, 3)) == "inconclusive"
    assert shown(Figure(1.00, 0.99, 1.01, 3)) == "no_gain"
    assert shown(Figure(0.98, 0.95, 1.01, 3)) == "no_gain"
    assert shown(Figure(0.90, 0.88, 0.92, 3)) == "regression"
    assert shown(Figure(0.98, 0.90, 1.05, 3)) == "inconclusive"
    assert shown(Figure(1.08, 1.06, 1.09, 3), min_effect=0.05) == "real_gain"
    assert shown(Figure(1.08, 1.06, 1.09, 3), min_effect=0.10) == "no_gain"
    assert shown(None) == "inconclusive"


def test_the_processes_that_would_tell() -> None:
    near, nearer = Figure(1.05, 1.01, 1.0916, 3), Figure(1.0201, 1.01, 1.03, 3)
    more = more_needed(near, 3)
    assert more is not None
    assert 1 <= more <= 3
    assert more_needed(nearer, 3) is None
    # With so many, and values that scatter alike, the half-width falls short of the distance to the threshold.
    half, t_of_3, t_then = math.log(near.high / near.low) / 2, 4.3027, {1: 3.1824, 2: 2.7764, 3: 2.5706}
    distance = math.log(near.median / 1.02)
    spread = half * math.sqrt(3) / t_of_3
    assert spread * t_then[more] / math.sqrt(3 + more) < distance
    assert more == 1 or spread * t_then[more - 1] / math.sqrt(2 + more) >= distance


def test_cases_by_their_weights() -> None:
    long, short = [1.0, 1.0, 7.0], [0.1, 0.1, 0.1]
    two = weighted([(long, short), (long, short)], [1.0, 9.0])
    assert two == ((pytest.approx(0.19),), (pytest.approx(0.19),))
    (one,) = weighted([(long, short)], [1.0, 9.0])
    assert one == pytest.approx((0.19, 0.19, 0.79))
    assert weighted([(long,)], [5.0]) == ((1.0, 1.0, 7.0),)


def test_break_even_is_where_what_was_saved_is_what_compiling_took() -> None:
    sure = Figure(0.02, 0.02, 0.02, 3)
    found = break_even(Figure(30.0, 30.0, 30.0, 3), sure, Figure(2.0, 2.0, 2.0, 3))
    assert found is not None
    assert (found.low, found.median, found.high) == pytest.approx((3000, 3000, 3000))
    assert break_even(Figure(30.0, 29.0, 31.0, 3), sure, Figure(1.1, 0.99, 1.2, 3)) is None
    assert break_even(Figure(30.0, 29.0, 31.0, 3), sure, Figure(0.9, 0.8, 0.95, 3)) is None
    at_once = break_even(Figure(-0.1, -0.2, 0.1, 3), sure, Figure(2.0, 1.9, 2.1, 3))
    assert at_once is not None
    assert at_once.median == 0


def test_the_interval_of_break_even_covers_it() -> None:
    lot, noise_ = random.Random(3), Trouble(outliers=0.02)
    count = 0
    for _ in range(RUNS // 2):
        eager, arm = timed(lot, (SECONDS, SECONDS / 1.3), 5, 10, noise_)
        cold = figure([[30 * lot.lognormvariate(0, 0.05)] for _ in range(5)])
        base, faster = figure(eager), ratio(eager, arm)
        assert cold is not None
        assert base is not None
        assert faster is not None
        found = break_even(cold, base, faster)
        assert found is not None
        count += found.low <= 30 / (SECONDS - SECONDS / 1.3) <= found.high
    assert 0.92 <= count / (RUNS // 2) <= 0.99


def test_a_missing_scipy_is_said_in_one_line() -> None:
    script = """
import sys
sys.modules["scipy"] = None
from tcready.bench.figures import figure
from tcready.schema.enums import TcreadyError
try:
    figure([[1.0], [2.0]])
except TcreadyError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "the bench needs scipy: pip install 'tcready[bench]'\n"


def test_single_calls_are_parted_by_what_they_take() -> None:
    assert spread([float(number) for number in range(19)]) == ()
    found = spread([float(number) for number in reversed(range(101))])
    assert found == tuple(float(number) for number in range(0, 101, 5))


@pytest.mark.parametrize(
    ("rounds", "verdict"),
    [
        ((1.175, 1.207, 5.752), "inconclusive"),  # of eager code against itself, on a busy machine
        ((0.2, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 6.7, 0.005), "inconclusive"),
        ((1.20, 1.21, 1.22), "likely_gain"),
        ((1.20, 1.21, 1.22, 1.2, 1.21, 1.2, 1.21, 1.2, 1.21, 1.9), "likely_gain"),
        ((0.80, 0.81, 0.80, 0.8, 0.82, 0.8, 0.81, 0.8, 0.81, 1.05), "likely_regression"),
    ],
)
def test_one_process_is_believed_as_far_as_its_rounds_agree(rounds: tuple[float, ...], verdict: str) -> None:
    base, other = [list(rounds)], [[1.0] * len(rounds)]
    assert likely(within(base, other)) == verdict
    found = ratio(base, other)
    (by_itself,) = within(base, other)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((by_itself.low, by_itself.high))
