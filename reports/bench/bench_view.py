"""Texts on a bench that readable formats share: units, words, and the columns of its tables.

Pure functions over `tcready.schema`; no markup and no layout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from tcready.portable.quantities import (
    DIGITS,
    UNKNOWN,
    decimals,
    guards_text,
    plain_number,
    size_text,
    time_text,
    unit_of_time,
)
from tcready.reports.shared.phrases import number, percent, sentence
from tcready.reports.shared.wording import PHASE_WORD, visible
from tcready.schema.enums import EAGER

if TYPE_CHECKING:
    from tcready.schema.bench import (
        ArmBench,
        ArmVerdict,
        Bench,
        BenchCase,
        BenchVerdict,
        CarriedCode,
        CarryWay,
        CheckState,
        Figure,
        LoaderShare,
        Noise,
        Remedy,
        Soak,
    )

BENCH_WORD: Mapping[ArmVerdict | BenchVerdict, str] = MappingProxyType(
    {
        "baseline": "baseline",
        "real_gain": "real gain",
        "likely_gain": "likely gain",
        "no_gain": "no gain",
        "likely_no_gain": "likely no gain",
        "regression": "regression",
        "likely_regression": "likely regression",
        "inconclusive": "inconclusive",
        "failed": "failed",
        "not_run": "not run",
    }
)
CHECK_WORD: Mapping[CheckState, str] = MappingProxyType(
    {"pass": "pass", "fail": "fail", "not_measured": "not measured"}
)
CARRY_WORD: Mapping[CarryWay, str] = MappingProxyType(
    {"cache_artifacts": "save_cache_artifacts", "aot_compile": "aot_compile", "precompile": "precompile"}
)
REST = "the rest"
"""The part of a cold start that no phase accounts for."""
MANY_CASES = 4
LONGEST_UNIT = 30
"""Maximum characters of a unit in a heading; a worker accepts no longer one, but a file may contain any text."""
_FAR = 10.0
"""The ratio of a bound to the median above which it gets its own unit."""
_FAR_APART = 100.0
"""The ratio of upper to lower bound above which the bounds are not informative."""
REPEAT = "repeat it"
"""The label of the command that repeats the bench."""
_LOOKED_AT_FIRST = ("torch", "gpu", "cpu", "device", "cuda", "cudnn", "driver", "triton", "python", "threads")


# Numbers with their units


def _places(value: float, figure: Figure) -> int:
    """Return the number of decimal places for `value`: up to five digits if its interval is that narrow."""
    places, wide = decimals(value), figure.high - figure.low
    if not places and (not math.isfinite(value) or value == 0):
        return 0
    if not math.isfinite(wide) or wide <= 0:
        return places
    return max(places, min(-math.floor(math.log10(wide)), places + 2))


def _interval(figure: Figure, size: float, after: str, alone: Callable[[float], str]) -> str:
    """Format bounds in the unit of the median; each in its own (`alone`) if they are too far from it."""
    scaled = replace(figure, median=figure.median / size, low=figure.low / size, high=figure.high / size)
    median = float(f"{scaled.median:.{DIGITS}g}") if math.isfinite(scaled.median) else scaled.median
    if figure.low == figure.high:
        return f"{plain_number(scaled.median, decimals(median))}{after}"
    if figure.high > _FAR_APART * figure.low:
        return f"{plain_number(scaled.median, decimals(median))}{after} (far apart)"
    if not figure.median / _FAR <= figure.low <= figure.high <= figure.median * _FAR:
        middle = plain_number(scaled.median, decimals(median))
        return f"{middle}{after} ({alone(figure.low)}\u2013{alone(figure.high)})"
    places = _places(median, scaled)
    low, high = (plain_number(each, places) for each in (scaled.low, scaled.high))
    return f"{plain_number(scaled.median, places)}{after} ({low}\u2013{high})"


def time_interval(figure: Figure) -> str:
    """Format `1.92 ms (1.90\u20131.95)`; the median alone without an interval."""
    size, name = unit_of_time(figure.median) if figure.median else (1.0, "s")
    return _interval(figure, size, f" {name}", time_text)


def ratio_interval(figure: Figure) -> str:
    """Format `1.31x (1.29\u20131.33)`."""
    return _interval(figure, 1.0, "x", lambda ratio: plain_number(round(ratio, DIGITS)))


def calls_interval(figure: Figure) -> str:
    """Format `1,230 (1,100\u20131,400)`: whole calls, with three digits."""
    median, low, high = map(_calls, (figure.median, figure.low, figure.high))
    return median if low == high else f"{median} ({low}\u2013{high})"


def _calls(count: float) -> str:
    return plain_number(float(f"{count:.{DIGITS}g}"), 0)


def relative(now: float, before: float) -> str:
    """Format `+12 %`, `-3.0 %`, `0 %`."""
    value = 100 * (now / before - 1)
    if abs(value) < 0.05:
        return "0 %"
    return f"{value:+.1f} %" if abs(value) < 9.95 else f"{value:+.0f} %"


# The tables


@dataclass(frozen=True)
class Column:
    heading: str
    cell: Callable[[ArmBench, ArmBench | None], str]
    """Returns the text for an arm and eager's in the same case; `UNKNOWN` if nothing was measured."""


@dataclass(frozen=True)
class BenchRow:
    arm: str
    recommended: bool
    verdict: ArmVerdict
    cells: tuple[str, ...]


@dataclass(frozen=True)
class BenchTable:
    """Some columns of a case, without columns and arms that were not measured."""

    headings: tuple[str, ...]
    rows: tuple[BenchRow, ...]


def _of(value: object, words: Callable[..., str]) -> str:
    return UNKNOWN if value is None else words(value)


def _bytes(now: int | None, eager: int | None) -> str:
    against = f" ({relative(now, eager)})" if now and eager else ""
    return _of(now, lambda count: size_text(count) + against)


def pays_after(arm: ArmBench, calls: Figure | None, cold: Figure | None) -> str:
    """Format the calls until `cold` is recovered. `never`: an arm that is surely no faster; `not sure`: one that may
    be."""
    if calls is not None:
        return calls_interval(calls)
    if arm.arm == EAGER or cold is None or arm.speedup is None:
        return UNKNOWN
    return "never" if arm.speedup.high <= 1 else "not sure"


def _single(name: str) -> Callable[[ArmBench, ArmBench | None], str]:
    """Return a quantile of single calls."""
    return lambda arm, _: _of(getattr(arm.seconds, name, None), time_text)


def _other(eager: ArmBench | None, arm: ArmBench) -> ArmBench | None:
    return None if eager is arm else eager


VERDICT = Column("verdict", lambda arm, _: BENCH_WORD[arm.verdict])
CALL = Column("one call", lambda arm, _: _of(arm.seconds, time_interval))
SPEEDUP = Column("speedup", lambda arm, _: _of(arm.speedup, ratio_interval))
P50, P95, P99 = (Column(name, _single(name)) for name in ("p50", "p95", "p99"))
COLD = Column("cold start", lambda arm, _: _of(arm.cold_seconds, time_interval))
WARM_CACHE = Column("warm cache", lambda arm, _: _of(arm.cold_warm_cache_seconds, time_interval))
PAYS = Column("pays after calls", lambda arm, _: pays_after(arm, arm.break_even_calls, arm.cold_seconds))
PEAK = Column(
    "memory peak", lambda arm, eager: _bytes(arm.memory_peak_bytes, eager.memory_peak_bytes if eager else None)
)
STEADY = Column(
    "memory steady", lambda arm, eager: _bytes(arm.memory_steady_bytes, eager.memory_steady_bytes if eager else None)
)
RESIDENT = Column(
    "resident memory",
    lambda arm, eager: (
        UNKNOWN  # without a device it is the memory of the other column
        if arm.resident_steady_bytes == arm.memory_steady_bytes
        else _bytes(arm.resident_steady_bytes, eager.resident_steady_bytes if eager else None)
    ),
)
LAUNCHES = Column("launches", lambda arm, _: _of(arm.kernel_launches, lambda count: f"{count:,}"))
BREAKS = Column("breaks", lambda arm, _: _of(arm.breaks, str))
RECOMPILES = Column("later recompiles", lambda arm, _: _of(arm.recompiles, str))
PARITY = Column("parity", lambda arm, _: _of(arm.parity, lambda same: "same" if same else "differs"))
CALLS = Column("calls a second", lambda arm, _: _of(arm.throughput, plain_number))
TIMES = (VERDICT, CALL, SPEEDUP, P50, P95, P99)
WORK = (
    Column("kernel time", lambda arm, _: _of(arm.kernel_seconds, time_interval)),
    LAUNCHES,
    Column("host time", lambda arm, _: _of(arm.host_seconds, time_text)),
    Column("guards", lambda arm, _: _of(arm.dynamo_seconds, time_text)),
    Column("CPU time", lambda arm, _: _of(arm.cpu_seconds, time_text)),
    Column("energy", lambda arm, _: _of(arm.energy_joules, lambda joules: f"{plain_number(joules)} J")),
    Column("graphs", lambda arm, _: _of(arm.graphs, str)),
    BREAKS,
    RECOMPILES,
    PARITY,
)
COSTS = (
    COLD,
    WARM_CACHE,
    Column("cache hits", lambda arm, _: _of(arm.cache_hits, str)),
    Column("carried artifacts", lambda arm, _: _of(arm.cold_carried_seconds, time_interval)),
    PAYS,
    Column(
        "with a warm cache, after",
        lambda arm, _: pays_after(arm, arm.break_even_warm_calls, arm.cold_warm_cache_seconds),
    ),
    PEAK,
    STEADY,
    RESIDENT,
)
FOR_A_TERMINAL = (
    (VERDICT, CALL, SPEEDUP, P95, P99),
    (COLD, WARM_CACHE, PAYS, PEAK, STEADY, LAUNCHES, BREAKS, RECOMPILES, PARITY),
)
IN_SHORT = (VERDICT, CALL, SPEEDUP, P99, COLD, PAYS, PEAK, PARITY)
"""The columns in a comment on a pull request."""


def table(case: BenchCase, columns: Sequence[Column]) -> BenchTable:
    """Return `columns` of a case, a row for each arm, without columns and rows in which nothing was measured."""
    eager = next((arm for arm in case.arms if arm.arm == EAGER), None)
    cells = [[column.cell(arm, _other(eager, arm)) for column in columns] for arm in case.arms]
    measured = [at for at in range(len(columns)) if any(row[at] != UNKNOWN for row in cells)]
    return BenchTable(
        tuple(columns[at].heading for at in measured),
        tuple(
            BenchRow(arm.arm, arm.arm == case.recommended, arm.verdict, tuple(row[at] for at in measured))
            for arm, row in zip(case.arms, cells, strict=True)
            if any(cell != UNKNOWN for cell in row)
        ),
    )


def case_title(case: BenchCase) -> str:
    """Format `prefill, 25 % of the weight; tokens: 4 x 512 input_ids`: the unit is the one that tables show first."""
    weight = f", {percent(case.weight)} of the weight" if case.weight is not None else ""
    return case.case + weight + (f"; {case.items[0].label}" if case.items else "")


def throughput_columns(case: BenchCase) -> tuple[Column, ...]:
    """Return a column for each unit of a case, the main one first: `tokens/s`."""

    def column(unit: str) -> Column:
        def cell(arm: ArmBench, _: ArmBench | None) -> str:
            return next((plain_number(each.per_second) for each in arm.rates if each.unit == unit), UNKNOWN)

        shown = visible(unit)
        return Column(f"{shown if len(shown) <= LONGEST_UNIT else f'{shown[: LONGEST_UNIT - 1]}…'}/s", cell)

    return tuple(column(each.unit) for each in case.items)


def with_throughput(case: BenchCase, columns: Sequence[Column]) -> tuple[Column, ...]:
    """Insert the main throughput of the case next to the time of one call, if that is one of the columns."""
    if CALL not in columns:
        return tuple(columns)
    at = columns.index(CALL) + 1
    return (*columns[:at], *throughput_columns(case)[:1], *columns[at:])


def columns_of_times(case: BenchCase) -> tuple[Column, ...]:
    """Return the columns of a warm call, with every unit of the case. In training calls are steps."""
    calls = () if any(each.unit == "steps" for each in case.items) else (CALLS,)
    return (*TIMES, *calls, *throughput_columns(case))


def summary(bench: Bench) -> BenchCase | None:
    """Return the case that represents all, if there are too many to show each at length; else None."""
    if len(bench.cases) <= MANY_CASES:
        return None
    return bench.cases[-1]


# Sentences


def answer(bench: Bench) -> str:
    """Return the verdict in words: `failed` if no compiled arm is left, whatever its times were."""
    return BENCH_WORD["failed" if bench.failed else bench.verdict]


def noise_of(bench: Bench, case: BenchCase) -> str:
    """Return how eager compares with itself in one of several cases; empty if that is shown for the whole bench."""
    if case.noise is None or case is bench.cases[-1]:
        return ""
    return noise_sentence(case.noise)


def phases(arm: ArmBench) -> tuple[tuple[str, float], ...]:
    """Return the parts of a cold start with their seconds, and the unaccounted rest."""
    if not arm.cold_phases:
        return ()
    known = [(PHASE_WORD.get(name, name), seconds) for name, seconds in arm.cold_phases]
    rest = (arm.cold_seconds.median if arm.cold_seconds else 0.0) - sum(seconds for _, seconds in known)
    return (*known, (REST, rest)) if rest > 0 else tuple(known)


def arm_notes(arm: ArmBench) -> Iterator[str]:
    """Yield notes on an arm that are in no column: why the verdict, what differs, phases of a cold start, the
    warm-up."""
    if arm.reason:
        yield arm.reason
    if arm.parity_detail:
        yield f"parity: {arm.parity_detail}"
    if parts := phases(arm):
        yield "cold start: " + ", ".join(f"{name} {time_text(seconds)}" for name, seconds in parts)
    if arm.settled is False:
        after = f" after {number(arm.warm_calls, 'call')}" if arm.warm_calls is not None else ""
        yield f"its times had not settled{after} of warm-up"


def noise_sentence(noise: Noise) -> str:
    """Format `1.002x (0.994-1.010), no gain; processes differ by 0.4 %`."""
    return (
        f"eager against itself {ratio_interval(noise.ratio)}, {BENCH_WORD[noise.verdict]}; "
        f"processes differ by {percent(noise.spread)}"
    )


def loader_sentence(loader: LoaderShare) -> str:
    """Format `your pipeline waits 62 % of the time for data; compile can gain at most 1.2x`."""
    whole = loader.loader_seconds + loader.copy_seconds + loader.model_seconds
    if whole <= 0:
        return f"{loader.loader}: nothing measured"
    text = f"your pipeline waits {percent(loader.loader_seconds / whole)} of the time for data"
    if loader.copy_seconds:
        text += f" and {percent(loader.copy_seconds / whole)} for its copy to the device"
    if loader.bound is not None:
        text += f"; compile can gain at most {plain_number(loader.bound)}x"
    return f"{text} ({loader.loader}, {number(loader.batches, 'batch', 'batches')})"


def soak_sentence(soak: Soak) -> str:
    """Return the results of a long run of one arm, its state first."""
    facts = [f"{CHECK_WORD[soak.state]}: {soak.reason}" if soak.reason else CHECK_WORD[soak.state]]
    facts.append(f"{soak.arm} for {time_text(soak.seconds)}, {soak.calls:,} calls")
    facts.append(number(soak.recompiles, "recompile"))
    if soak.growth_bytes_per_hour is not None:
        grew = soak.growth_bytes_per_hour
        facts.append(f"memory {'grows' if grew >= 0 else 'shrinks'} by {size_text(abs(grew))} an hour")
    if soak.drift is not None:
        slower = "slower" if soak.drift >= 0 else "faster"
        facts.append(f"the last quarter {percent(abs(soak.drift))} {slower} than the first")
    return "; ".join(facts)


def stack_in_short(bench: Bench) -> str:
    """Format `torch 2.13.0, gpu NVIDIA H100, ...`: the most important entries; all if none of those are known."""
    known = dict(bench.stack)
    shown = [name for name in _LOOKED_AT_FIRST if name in known] or list(known)[: len(_LOOKED_AT_FIRST)]
    more = len(known) - len(shown)
    return ", ".join(f"{name} {known[name]}" for name in shown) + (f", and {more} more" if more else "")


def made_sentence(bench: Bench) -> str:
    """Format `15 processes in 4.2 min`; empty if unknown."""
    if not bench.processes:
        return ""
    took = f" in {time_text(bench.seconds)}" if bench.seconds else ""
    return number(bench.processes, "process", "processes") + took


def new_notes(bench: Bench) -> tuple[tuple[BenchCase, tuple[tuple[str, str], ...]], ...]:
    """Return the notes on the arms of each case, without those that an earlier case has for the arm already."""
    listed: set[tuple[str, str]] = set()
    found = []
    for case in bench.cases:
        notes = [(arm.arm, note) for arm in case.arms for note in arm_notes(arm)]
        found.append((case, tuple(note for note in notes if note not in listed)))
        listed.update(notes)
    return tuple(found)


def facts(bench: Bench) -> Iterator[tuple[str, str]]:
    """Yield the facts next to the tables, each with a label."""
    if bench.recommended == EAGER:
        yield "take", "eager: leave it as it is"
    for note in bench.notes:
        yield "note", note
    if bench.noise is not None:
        yield "noise", noise_sentence(bench.noise)
    elif bench.cases:
        yield "noise", "not measured: eager is compared with itself where two processes timed it"
    arms = bench.cases[-1].arms if bench.cases else ()
    yield from (("tried", remedy_sentence(remedy)) for remedy in bench.remedies)
    for arm in arms:
        if arm.guards:
            costs = [f"{text}: {time_text(seconds)}" for text, seconds in arm.expensive_guards]
            most = f"; the most expensive: {'; '.join(costs)}" if costs else ""
            yield "guards", f"{arm.arm}: {guards_text(arm.guards, arm.python_guards)}{most}"
    reasons = [arm.energy_reason for arm in arms if arm.energy_reason]
    if reasons and all(arm.energy_joules is None for arm in arms):
        yield "energy", reasons[0]
    for text in carried_sentences(bench):
        yield "saved code", text
    if bench.loader is not None:
        yield "data", loader_sentence(bench.loader)
    if bench.soak is not None:
        yield "soak", soak_sentence(bench.soak)
    if bench.stack:
        yield "stack", stack_in_short(bench)
    if made := made_sentence(bench):
        yield "made by", made
    if bench.command:
        yield REPEAT, bench.command


def remedy_sentence(remedy: Remedy) -> str:
    """Return the gain of a remedy, and its risk."""
    if remedy.speedup is None:
        return f"{remedy.name}: {remedy.error or 'it was not timed'}"
    against = ""
    if remedy.without is not None:
        overlap = max(remedy.speedup.low, remedy.without.low) <= min(remedy.speedup.high, remedy.without.high)
        against = f", {ratio_interval(remedy.without)} without it{': no clear difference' if overlap else ''}"
    return f"{remedy.name}: {ratio_interval(remedy.speedup)} of eager's speed{against}; but {remedy.risk}"


def carried_name(carried: CarriedCode) -> str:
    """Return the name of a way to carry code, with the arm if that is not `default`."""
    name = CARRY_WORD[carried.way]
    return name if carried.arm == "default" else f"{name} of {carried.arm}"


def carried_in_short(bench: Bench) -> str:
    """Format `save_cache_artifacts 2.10 s, aot_compile 310 ms (outputs differ)`; empty if no saved code was loaded."""
    return ", ".join(
        f"{carried_name(each)} {time_text(each.seconds)}{' (outputs differ)' if each.same is False else ''}"
        for each in bench.carried
        if each.seconds is not None and not each.error
    )


def carried_sentences(bench: Bench) -> Iterator[str]:
    """Yield the start with each way to carry code, and what it does not check; or why it is not possible."""
    for each in bench.carried:
        if each.error:
            yield f"{carried_name(each)}: not possible: {each.error}"
            continue
        if each.seconds is None:
            yield f"{carried_name(each)}: not measured"
            continue
        parts = [f"{carried_name(each)}: {time_text(each.seconds)}"]
        if each.load_seconds is not None:
            parts.append(f"{time_text(each.load_seconds)} of it to load {size_text(each.bytes or 0)}")
        if each.save_seconds is not None:
            parts.append(f"{time_text(each.save_seconds)} to compile and save")
        if each.same is None:
            parts.append(f"not known whether outputs agree with eager{f': {each.detail}' if each.detail else ''}")
        else:
            parts.append("outputs agree with eager" if each.same else f"outputs differ from eager: {each.detail}")
        yield "; ".join((*parts, each.limit))


def ways(bench: Bench) -> Iterator[tuple[str, str]]:
    """Yield code with its purpose: what selects the recommended arm, the rollback, and what carries compiled code to
    another process."""
    if bench.code:
        yield f"recommended arm: {bench.recommended}" if bench.recommended else "recommended", bench.code
    if bench.rollback:
        yield "back to eager", bench.rollback
    for each in bench.carried:
        if not each.error and each.same is not False and each.load_code:
            yield f"{carried_name(each)}: save in one process", each.save_code
            yield f"{carried_name(each)}: start in another", each.load_code


def sentences(texts: Iterable[str]) -> str:
    """Join texts, each with a capital and a full stop."""
    return " ".join(f"{sentence(text)}." for text in texts)
