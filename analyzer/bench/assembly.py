"""Combine the answers of all processes of a bench into one Bench."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Literal, TypeVar

from tcready.bench.checklist import Ran, checklist, longer_command
from tcready.bench.figures import Rows, break_even, figure, noise, ratio, spread, weighted, within
from tcready.bench.remedies import DEFAULT, RISKS
from tcready.bench.request_parts import BenchWanted
from tcready.bench.verdicts import ALL_CASES, BenchEvidence, overall, recommended_of, verdict_of
from tcready.schema.bench import (
    Arm,
    ArmBench,
    ArmMeasured,
    Bench,
    BenchCase,
    BenchProcess,
    BenchPurpose,
    CarriedCode,
    CarryWay,
    ColdStart,
    Figure,
    Items,
    MemoryUse,
    Noise,
    Profile,
    Remedy,
    Throughput,
)
from tcready.schema.enums import EAGER

_T = TypeVar("_T")
_WAY_BACK = 'eager: remove these lines; without an edit: torch.compiler.set_stance("force_eager")'
LIMITS: Mapping[CarryWay, str] = MappingProxyType(
    {
        "cache_artifacts": "Dynamo traces the code again; a graph that differs from the saved one is compiled",
        "aot_compile": "a call that fails a guard (another size, another value of an attribute) raises; nothing is "
        "compiled for it",
        "precompile": "a prototype of torch: sizes, dtypes, devices and layouts are checked, but not the values and "
        "branches of Python code, which stay as in the saved call",
    }
)
"""What is not as with `torch.compile`, by the way to carry code."""
ON_CPU = "; on a CPU, the C++ kernels are not saved and compiled again"
_NEAR = 1.5
"""The factor by which an interval is widened to see whether a verdict is close."""


def assemble_bench(
    processes: Sequence[BenchProcess],
    arms: Sequence[Arm],
    wanted: BenchWanted,
    *,
    seconds: float = 0.0,
    cut: Sequence[str] = (),
) -> Bench:
    """Return the bench that follows from all measurements. `seconds`: the time that all of them took; `cut`: what was
    left out, and why. Raises TcreadyError without scipy.
    """
    if all(arm.name != EAGER for arm in arms):
        arms = (Arm(EAGER, ""), *arms)
    names = _case_names(processes)
    items = _first(process.answer.items or None for process in processes) or ()
    given = dict(_first(process.answer.weights or None for process in processes) or ())
    weights = {name: given.get(name or "", 1.0) for name in names}
    total = sum(weights.values())
    weights = {name: weight / total for name, weight in weights.items()}
    # Cold starts are measured over all cases, so they belong to the case that combines all.
    cases = [
        _case(
            processes,
            arms,
            {name: weights[name]},
            wanted,
            weights[name] if name in given else None,
            _items_of(items, {name: 1.0}),
            cold=len(names) == 1,
        )
        for name in names
    ]
    if len(names) > 1:
        cases.append(_case(processes, arms, weights, wanted, None, _items_of(items, weights), cold=True))
    loader = _first(process.answer.loader for process in processes)
    soak = _first(process.answer.soak for process in processes)
    failures = tuple(_failures(processes))
    remedies = tuple(_remedies(processes, weights))
    verdict, reason, recommended = overall(cases, loader, wanted.limits)
    if not cases and failures:
        reason = f"{reason}: {failures[0]}"
    chosen = next((arm for arm in arms if arm.name == recommended and arm.name != EAGER), None)
    rollback = dict(wanted.rollbacks).get(chosen.name, _WAY_BACK) if chosen else ""
    stack = _stack(processes)
    ran = Ran(
        cases=tuple(cases),
        recommended=recommended,
        parities=tuple((row.arm, row.parity) for row in _parities(processes) if row.parity),
        soak=soak,
        stack=stack,
        on_device=_on_device(processes),
        rollback=rollback,
        was_cut=bool(cut) or any(process.answer.timed_out for process in processes),
    )
    items_to_check = checklist(ran, wanted)
    return Bench(
        verdict=verdict,
        reason=reason,
        cases=tuple(cases),
        recommended=recommended,
        code=chosen.code if chosen else "",
        rollback=rollback,
        checklist=items_to_check,
        loader=loader,
        carried=tuple(_carried(processes)),
        remedies=remedies,
        soak=soak,
        noise=cases[-1].noise if cases else None,
        stack=stack,
        command=wanted.command,
        processes=sum(process.purpose != "remedies" for process in processes),
        seconds=seconds,
        cut=(*cut, *failures),
        notes=_notes(processes),
        longer=longer_command(items_to_check, wanted, was_cut=ran.was_cut),
        device_peak_bytes=_most(process.answer.device_peak_bytes for process in processes),
    )


def more_processes(bench: Bench, min_effect: float) -> bool:
    """Return whether a verdict is close: the interval of an arm's ratio to eager, widened by half, contains a ratio at
    which the verdict changes. `min_effect` is that of the bench."""
    bounds = (1 + min_effect, 1 / (1 + min_effect))
    ratios = (
        arm.speedup for case in bench.cases for arm in case.arms if arm.verdict != "failed" and arm.speedup is not None
    )
    return any(
        found.median * (found.low / found.median) ** _NEAR
        <= bound
        <= found.median * (found.high / found.median) ** _NEAR
        for found in ratios
        for bound in bounds
    )


# Measurements of the processes


def _first(found: Iterable[_T | None]) -> _T | None:
    return next((value for value in found if value is not None), None)


def _rows(processes: Iterable[BenchProcess], purpose: BenchPurpose) -> Iterator[ArmMeasured]:
    return (row for process in processes if process.purpose == purpose for row in process.answer.measured)


def _case_names(processes: Sequence[BenchProcess]) -> tuple[str | None, ...]:
    """Return the names of the cases in the order of measurement; None for inputs without named cases."""
    rows = [row for process in processes for row in process.answer.measured]
    named = tuple(dict.fromkeys(row.case for row in rows if row.case is not None))
    return named or ((None,) if rows else ())


def _stack(processes: Sequence[BenchProcess]) -> tuple[tuple[str, str], ...]:
    """Return the stack. Each entry has the value of the first process that names it."""
    found: dict[str, str] = {}
    for process in processes:
        found = {**dict(process.answer.stack), **found}
    return tuple(found.items())


def _remedies(processes: Sequence[BenchProcess], weights: Mapping[str | None, float]) -> Iterator[Remedy]:
    """Yield the remedies that were tried, each compared with eager code and the arm `default` of its process."""
    for process in processes:
        if process.purpose != "remedies":
            continue
        alone = [replace(process, purpose="steady")]
        others = [arm for arm in process.request.arms if arm.name not in (EAGER, DEFAULT)]
        for arm in others:
            error = _error(alone, arm.name, weights)
            yield Remedy(
                arm.name,
                arm.code,
                RISKS.get(arm.name, ""),
                None if error else _ratio_in(alone, arm.name, weights),
                _ratio_in(alone, DEFAULT, weights),
                error,
            )


def _carried(processes: Sequence[BenchProcess]) -> Iterator[CarriedCode]:
    """Yield the ways to carry compiled code, each from the process that saved it and the one that loaded it. Those that
    are not possible come last."""
    found: dict[tuple[CarryWay, str], CarriedCode] = {}
    on_device = _on_device(processes)
    for process in processes:
        for each in process.answer.carried:
            key = each.way, each.arm
            known = found.get(key, each)
            found[key] = replace(
                each,
                save_seconds=each.save_seconds or known.save_seconds,
                bytes=each.bytes or known.bytes,
                save_code=each.save_code or known.save_code,
                load_code=each.load_code or known.load_code,
                limit=LIMITS[each.way] + ("" if on_device else ON_CPU),
            )
    failed = {
        (each.way, each.arm): process.answer.failure
        for process in processes
        if process.purpose == "carry_load" and process.answer.failure and process.request.way is not None
        for each in found.values()
        if each.way == process.request.way and each.seconds is None
    }
    rows = [replace(each, error=each.error or failed.get(key) or "") for key, each in found.items()]
    measured = [each for each in rows if each.seconds is not None or not each.error]
    yield from measured
    yield from (each for each in rows if each not in measured)


def _ratio_in(processes: Sequence[BenchProcess], arm: str, weights: Mapping[str | None, float]) -> Figure | None:
    """Return the speedup of an arm over eager code in the processes that timed both; None if none did."""
    both = _beside_eager(processes, arm, weights)
    if not both:
        return None
    before, after = (weighted(cases, list(weights.values())) for cases in zip(*both, strict=True))
    return ratio(before, after)


def _beside_eager(
    processes: Sequence[BenchProcess],
    arm: str,
    weights: Mapping[str | None, float],
    of: Literal["blocks", "latencies"] = "blocks",
) -> list[tuple[Rows, Rows]]:
    """Return the times of eager code and of an arm for each process that timed both."""
    timed = zip(*(_timed(processes, name, weights, of) for name in (EAGER, arm)), strict=True)
    return [(before, after) for before, after in timed if before is not None and after is not None]


def _on_device(processes: Sequence[BenchProcess]) -> bool:
    rows = (*_rows(processes, "cold"), *_rows(processes, "steady"))
    return any(row.memory and row.memory.device_steady is not None for row in rows)


def _notes(processes: Sequence[BenchProcess]) -> tuple[str, ...]:
    """Return the first note of each kind, and how many calls are timed as one."""
    found: dict[str, str] = {}
    calls = max((process.request.calls for process in processes), default=1)
    if calls > 1:
        found["steps"] = f"one call stands for {calls} calls in a row"
    for answer in (process.answer for process in processes):
        for note in (*answer.notes, *(note for row in answer.measured for note in row.notes)):
            found.setdefault(note.partition(":")[0], note)
    return tuple(found.values())


def _failures(processes: Sequence[BenchProcess]) -> Iterator[str]:
    for process in processes:
        if process.answer.failure:
            names = ", ".join(arm.name for arm in process.request.arms)
            purpose = process.purpose.replace("_", " ")
            yield f"{purpose}{f' of {names}' if names else ''}: {process.answer.failure}"


def _timed(
    processes: Sequence[BenchProcess],
    arm: str,
    cases: Iterable[str | None],
    of: Literal["blocks", "latencies"] = "blocks",
) -> list[Rows | None]:
    """Return the blocks, or the single calls, of each case for each steady process; None if it lacks a case.

    A process that was ended by its time limit or by an arm counts only if all were, because it may have timed only a
    block or two.
    """
    steady = [process for process in processes if process.purpose == "steady"]
    whole = [p for p in steady if not p.answer.timed_out and p.answer.ended_in is None]
    found: list[Rows | None] = []
    for process in steady:
        if process in whole or not whole:
            times = {row.case: getattr(row, of) for row in process.answer.measured if row.arm == arm}
            rows = {case: values for case, values in times.items() if values}
            found.append([rows[case] for case in cases] if rows.keys() >= {*cases} else None)
    return found


def _noise(processes: Sequence[BenchProcess], weights: Mapping[str | None, float], wanted: BenchWanted) -> Noise | None:
    """Return the noise of eager in the case with the largest weighted time."""
    timed = {case: [cases[0] for cases in _timed(processes, EAGER, [case]) if cases is not None] for case in weights}
    heaviest = max(
        (case for case in timed if timed[case]),
        key=lambda case: weights[case] * statistics.median(timed[case][0]),
        default=None,
    )
    return noise(timed[heaviest], wanted.limits.min_effect) if timed.get(heaviest) else None


# One arm in one case, or in all cases


def _case(
    processes: Sequence[BenchProcess],
    arms: Sequence[Arm],
    weights: Mapping[str | None, float],
    wanted: BenchWanted,
    weight: float | None,
    items: tuple[Items, ...],
    *,
    cold: bool,
) -> BenchCase:
    """Return one case. `weights`: those of the cases that it combines. `items`: what one call processes. `cold`: whether
    it shows the cold starts."""
    name = _together(weights) if len(weights) > 1 else next(iter(weights)) or ALL_CASES
    plain = {arm.name: _figures(processes, arm, weights, cold=cold) for arm in arms}
    for arm_name, how in wanted.differing:
        if arm_name in plain:
            plain[arm_name] = replace(plain[arm_name], parity=False, parity_detail=f"{how}, as the check found")
    own = _noise(processes, weights, wanted)
    judged = tuple(
        replace(
            _judge_arm(
                processes,
                plain[arm.name],
                plain[EAGER],
                weights,
                wanted,
                own,
                _unpatched(processes, arm, arms, plain, weights),
            ),
            rates=_rates(plain[arm.name].seconds, items),
        )
        for arm in arms
    )
    return BenchCase(name, judged, weight, recommended_of(judged), own, items)


def _unpatched(
    processes: Sequence[BenchProcess],
    patched: Arm,
    arms: Sequence[Arm],
    plain: Mapping[str, ArmBench],
    weights: Mapping[str | None, float],
) -> ArmMeasured | None:
    """Return the measurements of the arm with the same code but no patch; None if there is none, or no patch."""
    last = patched.code.splitlines()[-1:]
    alike = (each for each in arms if not each.sources and each.code.splitlines() == last)
    if not patched.sources or (arm := next(alike, None)) is None:
        return None
    known = plain[arm.name]
    return ArmMeasured(
        arm.name, graphs=known.graphs, breaks=known.breaks, profile=_profile(processes, arm.name, weights)
    )


def _items_of(items: Sequence[Items], weights: Mapping[str | None, float]) -> tuple[Items, ...]:
    """Return what one call processes in the cases of `weights`, with shares that add up to 1.

    For several cases, return the weighted mean for each unit that all of them have, in the order of the first case.
    """
    counts = [{each.unit: each for each in items if each.case == case} for case in weights]
    if len(counts) == 1:
        return tuple(replace(each, case=None) for each in counts[0].values())
    return tuple(
        Items(
            unit,
            sum(share * found[unit].count for share, found in zip(weights.values(), counts, strict=True)),
            f"{unit}: weighted mean of the cases",
        )
        for unit in counts[0]
        if all(unit in found for found in counts)
    )


def _rates(seconds: Figure | None, items: Sequence[Items]) -> tuple[Throughput, ...]:
    if seconds is None:
        return ()
    return tuple(Throughput(each.unit, each.count / seconds.median) for each in items)


def _together(names: Iterable[str | None]) -> str:
    """Return a name for all cases together that no case has."""
    name, taken = ALL_CASES, {*names}
    while name in taken:
        name += " together"
    return name


def _figures(
    processes: Sequence[BenchProcess], arm: Arm, weights: Mapping[str | None, float], *, cold: bool
) -> ArmBench:
    """Return the measurements of an arm that need no comparison with eager."""
    name, shares = arm.name, list(weights.values())
    rows = weighted([cases for cases in _timed(processes, name, weights) if cases is not None], shares)
    steady = [row for row in _rows(processes, "steady") if row.arm == name and row.case in weights]
    latencies = [value for row in steady for value in row.latencies] if len(weights) == 1 else []
    seconds = figure(rows, latencies)
    memory = _memory(processes, name, weights)
    profile = _profile(processes, name, weights)
    kernel_seconds = [profile.kernel_seconds] if profile and profile.kernel_seconds else []
    parity, detail = _parity(processes, name, weights)
    graphs = [row.graphs for row in steady if row.graphs is not None]
    unsettled = [row for row in steady if row.blocks and not row.settled]
    return ArmBench(
        arm=name,
        verdict="baseline",
        seconds=seconds,
        cold_seconds=_cold(processes, "cold", name) if cold else None,
        cold_warm_cache_seconds=_cold(processes, "cold_warm_cache", name) if cold else None,
        cold_carried_seconds=_cold(processes, "cold_carried", name) if cold else None,
        cache_hits=_cache_hits(processes, name) if cold else None,
        cold_phases=_phases(processes, name) if cold else (),
        memory_peak_bytes=_most(use.resident_peak if use.device_peak is None else use.device_peak for use in memory),
        memory_steady_bytes=_most(
            use.resident_steady if use.device_steady is None else use.device_steady for use in memory
        ),
        resident_peak_bytes=_most(use.resident_peak for use in memory),
        resident_steady_bytes=_most(use.resident_steady for use in memory),
        kernel_seconds=figure([kernel_seconds]),
        kernel_launches=profile.kernels if profile else None,
        dynamo_seconds=profile.dynamo_seconds if profile else None,
        guards=profile.guards if profile else None,
        python_guards=profile.python_guards if profile else None,
        expensive_guards=profile.expensive_guards if profile else (),
        changing_floats=profile.changing_floats if profile else None,
        host_seconds=profile.host_seconds if profile else None,
        cpu_seconds=profile.cpu_seconds if profile else None,
        energy_joules=profile.energy_joules if profile else None,
        energy_reason=profile.energy_reason if profile else "",
        throughput=1 / seconds.median if seconds else None,
        graphs=(max(graphs) if all(graphs) else 0) if graphs else None,
        breaks=_most(row.breaks for row in steady),
        recompiles=_most(row.recompiles for row in steady),
        parity=parity,
        parity_detail=detail,
        code=arm.code,
        blocks=tuple(map(tuple, rows)),
        single_calls=spread(latencies),
        settled=not unsettled if rows else None,
        warm_calls=_most(row.warm_calls for row in unsettled or steady if row.blocks),
    )


def _judge_arm(
    processes: Sequence[BenchProcess],
    arm: ArmBench,
    eager: ArmBench,
    weights: Mapping[str | None, float],
    wanted: BenchWanted,
    own: Noise | None,
    unpatched: ArmMeasured | None = None,
) -> ArmBench:
    """Add the verdict and everything else that follows from a comparison with eager. `own`: eager compared with itself;
    `unpatched`: for an arm with a patch, the measurements of the same code without it."""
    error = _error(processes, arm.arm, weights)
    if arm.arm == EAGER:
        if error:
            return replace(arm, verdict="failed", reason=error)
        if arm.seconds is None:
            why = _untimed(processes, EAGER)
            return replace(arm, verdict="inconclusive", reason=f"it was not timed{why and ': '}{why}")
        return arm
    speedup, count, each = _speedup(processes, arm, eager, weights)
    single = _single_call_speedup(processes, arm.arm, weights)
    if speedup is not None:
        speedup = replace(speedup, p50=single.median if single else _overall_speedup(arm.seconds, eager.seconds))
    seen = BenchEvidence(
        speedup=speedup,
        single=single,
        processes=count,
        within=each,
        error=error,
        untimed=_untimed(processes, arm.arm),
        blocks=min(
            (len(blocks) for cases in _timed(processes, arm.arm, weights) for blocks in cases or ()), default=None
        ),
        graphs=arm.graphs,
        recompiles=arm.recompiles,
        breaks=arm.breaks,
        seconds=arm.seconds.median if arm.seconds is not None else None,
        settled=arm.settled,
        warm_calls=arm.warm_calls,
        profile=_profile(processes, arm.arm, weights),
        eager_profile=_profile(processes, EAGER, weights),
        unpatched=unpatched,
        memory=arm.memory_steady_bytes,
        eager_memory=eager.memory_steady_bytes,
        on_device=_on_device(processes),
        parity=arm.parity,
        parity_detail=arm.parity_detail,
        seeds=min(
            (row.parity.seeds for row in _compare_outputs(processes, arm.arm, weights) if row.parity), default=None
        ),
        noise=own,
    )
    verdict, reason = verdict_of(seen, wanted.limits)
    return replace(
        arm,
        verdict=verdict,
        reason=reason,
        speedup=speedup,
        speedup_single=single,
        break_even_calls=_won_back(arm.cold_seconds, eager, speedup),
        break_even_warm_calls=_won_back(arm.cold_warm_cache_seconds, eager, speedup),
    )


def _speedup(
    processes: Sequence[BenchProcess], arm: ArmBench, eager: ArmBench, weights: Mapping[str | None, float]
) -> tuple[Figure | None, int, tuple[Figure, ...]]:
    """Return the ratio to eager, the number of processes that measured it, and the ratio in each. The ratio is computed
    round by round in processes that timed both; if there are none, from different processes."""
    shares = list(weights.values())
    both = _beside_eager(processes, arm.arm, weights)
    if both:
        found, count = _ratio_in(processes, arm.arm, weights), len(both)
        alone = [[weighted([rows], shares)[0] for rows in pair] for pair in both]
        each = within([one for one, _ in alone], [other for _, other in alone])
    else:
        found = ratio(eager.blocks, arm.blocks, paired=False)
        count, each = min(len(eager.blocks), len(arm.blocks)), ()
    return found, count, each


def _single_call_speedup(
    processes: Sequence[BenchProcess], arm: str, weights: Mapping[str | None, float]
) -> Figure | None:
    """Return the speedup of single calls, with a synchronization after each, in the processes that timed both arms.

    Return None for several cases together, and for a single process, which has one ratio without bounds.
    """
    if len(weights) > 1:
        return None
    both = [(one[0], two[0]) for one, two in _beside_eager(processes, arm, weights, "latencies")]
    if len(both) < 2:
        return None
    before, after = ([[statistics.median(calls)] for calls in rows] for rows in zip(*both, strict=True))
    return ratio(before, after)


def _overall_speedup(arm: Figure | None, eager: Figure | None) -> float | None:
    """Return the same ratio from the medians over all processes, without bounds."""
    return eager.p50 / arm.p50 if arm and eager and arm.p50 and eager.p50 else None


def _won_back(cold: Figure | None, eager: ArmBench, speedup: Figure | None) -> Figure | None:
    """Return the number of calls that recover a cold start, as far as it is longer than that of eager."""
    if cold is None or eager.cold_seconds is None or eager.seconds is None or speedup is None:
        return None
    own = eager.cold_seconds.median
    longer = Figure(cold.median - own, cold.low - own, cold.high - own, cold.n)
    return break_even(longer, eager.seconds, speedup)


def _error(processes: Sequence[BenchProcess], arm: str, weights: Mapping[str | None, float]) -> str:
    """Return in one line why an arm cannot be used or was not timed; empty if it ran in all cases."""
    steady = [process for process in processes if process.purpose == "steady"]
    with_arm = [process for process in steady if any(each.name == arm for each in process.request.arms)]
    for case in weights:
        rows = [row for process in with_arm for row in process.answer.measured if (row.arm, row.case) == (arm, case)]
        errors = [row.error for row in rows if row.error]
        if errors:
            where = f"in {case}: " if len(weights) > 1 else ""
            some = f"in {len(errors)} of {len(rows)} processes: " if len(errors) < len(rows) else ""
            return f"{where}{some}{errors[0]}"
    if _most(len(cases) for cases in _timed(processes, arm, weights) if cases is not None) is not None:
        return ""
    # An error without a case, such as that of an arm with code that does not run.
    errors = [row.error for row in _rows(processes, "steady") if row.arm == arm and row.error]
    failures = [each.answer.failure for each in with_arm if each.answer.failure and not each.answer.timed_out]
    return next(iter((*errors, *failures)), "")


def _untimed(processes: Sequence[BenchProcess], arm: str) -> str:
    """Return why its process was ended, if that was its time limit; else empty."""
    return next(
        (
            f"{each.answer.failure}: use a larger --budget"
            for each in processes
            if each.purpose == "steady" and each.answer.timed_out and any(of.name == arm for of in each.request.arms)
        ),
        "",
    )


def _cold(processes: Sequence[BenchProcess], purpose: BenchPurpose, arm: str) -> Figure | None:
    """Return the cold start over all processes. Each process has one, over all cases."""
    return figure([[start.seconds] for start in _starts(processes, purpose, arm) if start.seconds > 0])


def _starts(processes: Sequence[BenchProcess], purpose: BenchPurpose, arm: str) -> list[ColdStart]:
    starts = (
        _first(row.cold for row in process.answer.measured if row.arm == arm)
        for process in processes
        if process.purpose == purpose
    )
    return [start for start in starts if start is not None]


def _cache_hits(processes: Sequence[BenchProcess], arm: str) -> int | None:
    return _most(start.cache_hits for start in _starts(processes, "cold_warm_cache", arm))


def _phases(processes: Sequence[BenchProcess], arm: str) -> tuple[tuple[str, float], ...]:
    """Return the median seconds of each phase."""
    starts = [dict(start.phases) for start in _starts(processes, "cold", arm)]
    names = dict.fromkeys(name for start in starts for name in start)
    return tuple((name, statistics.median(start.get(name, 0.0) for start in starts)) for name in names)


def _memory(processes: Sequence[BenchProcess], arm: str, weights: Mapping[str | None, float]) -> list[MemoryUse]:
    """Return memory measured in cold starts, else in processes that timed the arm; of all cases if not known by case."""
    alone, timed = (
        [row for row in _rows(processes, purpose) if row.arm == arm and row.memory is not None]
        for purpose in ("cold", "steady")
    )
    rows = alone or timed
    own = [row for row in rows if row.case in weights] or rows
    return [row.memory for row in own if row.memory is not None]


def _profile(processes: Sequence[BenchProcess], arm: str, weights: Mapping[str | None, float]) -> Profile | None:
    """Return the weighted mean of the profiles of all cases; None unless every case was profiled."""
    found = []
    for case in weights:
        rows = [
            row.profile
            for row in (*_rows(processes, "steady"), *_rows(processes, "profile"))
            if row.arm == arm and row.case == case and row.profile is not None
        ]
        if not rows:
            return None
        found.append(rows)
    shares = [weight / sum(weights.values()) for weight in weights.values()]

    def mean(of: Callable[[Profile], float | None]) -> float | None:
        values = [[value for row in rows if (value := of(row)) is not None] for rows in found]
        if not all(values):
            return None
        return sum(share * statistics.fmean(some) for share, some in zip(shares, values, strict=True))

    kernels = mean(lambda row: row.kernels)
    most = max((row for rows in found for row in rows), key=lambda row: row.guards or 0)
    return Profile(
        kernel_seconds=mean(lambda row: row.kernel_seconds),
        kernels=None if kernels is None else round(kernels),
        host_seconds=mean(lambda row: row.host_seconds),
        cpu_seconds=mean(lambda row: row.cpu_seconds),
        dynamo_seconds=mean(lambda row: row.dynamo_seconds),
        guards=most.guards,
        python_guards=most.python_guards,
        expensive_guards=most.expensive_guards,
        changing_floats=most.changing_floats,
        energy_joules=mean(lambda row: row.energy_joules),
        energy_reason=next((row.energy_reason for rows in found for row in rows if row.energy_reason), ""),
    )


def _compare_outputs(
    processes: Sequence[BenchProcess], arm: str, weights: Mapping[str | None, float]
) -> list[ArmMeasured]:
    """Return the parity results of an arm in these cases, or in all cases together, from processes that did not end in
    the code of another arm."""
    own = [process for process in processes if process.answer.ended_in in (None, arm)]
    return [row for row in _parities(own) if row.arm == arm and (row.case is None or row.case in weights)]


def _parities(processes: Sequence[BenchProcess]) -> list[ArmMeasured]:
    """Return the parity results, one row for each arm and case. Results for further seeds replace that of the first seed,
    unless that already shows a difference."""
    rows = {(row.arm, row.case): row for row in _rows(processes, "parity")}
    for row in _rows(processes, "more_parity"):
        known = rows.get((row.arm, row.case))
        differed = known is not None and known.parity is not None and known.parity.same is False
        if row.parity is not None and row.parity.same is not None and not differed:
            rows[row.arm, row.case] = row
    return list(rows.values())


def _parity(
    processes: Sequence[BenchProcess], arm: str, weights: Mapping[str | None, float]
) -> tuple[bool | None, str]:
    """Return whether outputs agree in all cases, and if not, or if a case could not be compared, the reason."""
    rows = _compare_outputs(processes, arm, weights)
    differs = next((row.parity for row in rows if row.parity and row.parity.same is False), None)
    if differs is not None:
        return False, differs.detail
    ended = next(
        (
            p.answer
            for p in processes
            if p.purpose == "parity"
            and p.answer.failure
            and p.answer.ended_in in (None, EAGER, arm)
            and any(each.name == arm for each in p.request.arms)
        ),
        None,
    )
    if ended is not None and (not ended.timed_out or any(row.error or row.parity is None for row in rows)):
        return None, ended.failure or ""
    unknown = next((row for row in rows if row.error or row.parity is None or row.parity.same is None), None)
    if unknown is not None:
        return None, unknown.error or (unknown.parity.detail if unknown.parity else "")
    compared = {row.case for row in rows}
    return (True, "") if None in compared or compared == {*weights} else (None, "")


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
