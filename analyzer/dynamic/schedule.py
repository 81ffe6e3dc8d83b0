"""Run the processes that a bench needs, in order, within its budget. Their answers are evaluated elsewhere.

This module is part of the standalone worker: a machine with only Python and torch can measure, and another machine
evaluates the result.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tcready.dynamic.launch import StayingWorker, bench
from tcready.dynamic.worker_process import RunRequest
from tcready.portable.options import BenchOptions, RunOptions
from tcready.schema.bench import Arm, BenchAnswer, BenchKind, BenchProcess, BenchPurpose, BenchRequest
from tcready.schema.enums import EAGER
from tcready.schema.progress import Progress, Progressing

BUDGET, QUICK_BUDGET = 300.0, 120.0
TIMED, LATER_TIMED, QUICK_TIMED = 20.0, 10.0, 8.0
"""The most seconds of timed calls in one process: the first one, a later one, and with `--quick`. Processes differ more
than the blocks of one process, so three short processes decide sooner than long ones."""
EXTRA = 2
"""The number of additional processes if the verdict is near a threshold."""
LEAST = 20.0
"""The least seconds left for another process to start, unless previous ones took less."""
CARRIED = "artifacts.bin"
PARITY_SHARE = 0.07
"""The share of the budget for comparing outputs with further seeds and layouts, after everything else."""
LOADER_SECONDS = 20.0
REMEDY_BLOCKS = 5
"""The number of timed blocks of each remedy. It is small because remedies do not affect the verdict."""
SAVED = "saved"
"""The folder of compiled code that a process loads."""
NEED_PROCESSES = (
    "steady state in further processes",
    "cold start, and memory",
    "cold start with a warm cache",
    "start with saved code",
)
"""Measurements that need more than one process."""
NEED_TIMES = ("profile", "outputs against eager", "cold start, and memory")
"""Measurements that are skipped if the first process timed nothing."""
OF_THE_FIRST: frozenset[BenchKind] = frozenset({"steady", "profile", "parity"})
"""Kinds that the process of the check measures, with the model that it built."""
OF_A_SPARE: frozenset[BenchKind] = frozenset({"steady", "cold", "parity"})
"""Kinds that spare processes measure, one after the other."""
SPARE_PROCESSORS, SPARE_BYTES = 8, 8 << 30
"""The processors and free memory that are needed for a spare process beside one that measures."""
NOTHING_TIMED = "not run: the first process timed nothing"


@dataclass
class Schedule:
    """A bench that is running."""

    run: Callable[[BenchRequest, float, Progressing], BenchAnswer]
    """Runs one process for at most the given seconds."""
    wanted: BenchOptions
    arms: tuple[Arm, ...]
    room: Path
    announce: Progressing
    """Called with the next measurement."""
    progress: Progressing
    """Called with the progress of a process."""
    ends: float
    alone: str = ""
    """The reason to measure everything in one process; empty if each request gets its own."""
    decided: Callable[[Schedule], bool] = lambda _: False
    """Returns whether the results so far are decisive, so that no further process is needed."""
    remedies: Callable[[Schedule], tuple[Arm, ...]] = lambda _: ()
    """Returns the remedies to try if, by the results so far, compiling does not pay off."""
    differing: frozenset[str] = frozenset()
    """Names of arms that are known to differ from eager code."""
    done: list[BenchProcess] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    longest: float = 0.0
    """Seconds of the longest process that timed calls; 0 before the first one."""

    @property
    def step(self) -> dict[str, Any]:
        """The fields of a request that define one timed step."""
        return {"accumulate": self.wanted.accumulate, "calls": self.wanted.steps, "loop": self.wanted.loop}

    @property
    def compiled(self) -> tuple[Arm, ...]:
        """The compiled arms without a patch."""
        return tuple(arm for arm in self.remaining_arms if arm.code and not arm.sources)

    @property
    def patched(self) -> tuple[Arm, ...]:
        return tuple(arm for arm in self.remaining_arms if arm.sources)

    @property
    def remaining_arms(self) -> tuple[Arm, ...]:
        """The arms to measure: those that did not fail in every case of a process. Empty if no arm but eager is left."""
        rows: dict[str, list[bool]] = {}
        for process in self.done:
            if process.purpose == "steady":
                for name in {row.arm for row in process.answer.measured}:
                    errors = [row.error for row in process.answer.measured if row.arm == name]
                    rows.setdefault(name, []).append(all(errors))
        left = tuple(arm for arm in self.arms if not any(rows.get(arm.name, ())))
        return left if left[:1] == self.arms[:1] and len(left) > 1 else ()

    @property
    def shares(self) -> bool:
        """Return whether compiled arms share one recompile limit in this torch; False if not known yet."""
        return any(dict(each.answer.stack).get("isolate_recompiles") == "no" for each in self.done)

    def left(self) -> float:
        return self.ends - time.monotonic()

    def ask(self, purpose: BenchPurpose, request: BenchRequest, words: str, *, more: float = 0.0) -> BenchAnswer | None:
        """Run one process and return its answer. Return None, and add a line to `cut`, if the budget does not allow it.
        `more`: seconds in addition to the budget."""
        if self.done and self.left() + more < min(self.longest or LEAST, LEAST):
            self.cut.append(f"{words}: the budget was spent")
            return None
        self.announce(Progress("bench", f"bench: {words}", left=max(self.left(), 0.0)))
        began = time.monotonic()
        answer = self.run(request, max(self.left(), LEAST) + more, self._report_progress)
        self.longest = max(self.longest, time.monotonic() - began) if purpose == "steady" else self.longest
        self.ends += more
        self.done.append(BenchProcess(request, answer, purpose))
        return answer

    def _report_progress(self, now: Progress) -> None:
        """Report the progress of a process, with the time that is left of the whole budget."""
        self.progress(dataclasses.replace(now, stage="bench", left=max(self.left(), 0.0)))

    def cache_of(self, arms: Sequence[Arm]) -> str:
        """Return the folder for Inductor's files. Each set of sources has its own."""
        number = self.arms.index(arms[0]) if arms[0].sources else 0
        return str(self.room / f"warm-{number}")

    def groups(self) -> tuple[tuple[Arm, ...], ...]:
        """Return the arms of each process: all in one, unless compiled arms share one recompile limit in this torch."""
        eager = self.remaining_arms[:1]
        together = [(*eager, arm) for arm in self.compiled] if self.shares else [(*eager, *self.compiled)]
        return (*(each for each in together if each), *((arm,) for arm in self.patched))


def measurement_options(options: RunOptions, wanted: BenchOptions) -> dict[str, str]:
    """Return the options that decide what is measured, by their names in the stack."""
    return {
        "inputs": options.inputs or "",
        "lengths": wanted.lengths or "",
        "dtype": options.dtype or "",
        "autocast": options.autocast or "",
        "accumulate": str(wanted.accumulate),
        "steps": str(wanted.steps) if wanted.steps > 1 else "",
        "loop": wanted.loop or "",
    }


def budget_of(wanted: BenchOptions) -> float:
    """Return the seconds for everything except a soak."""
    return wanted.bench_budget or (QUICK_BUDGET if wanted.quick else BUDGET)


def measure(work: Schedule) -> bool:
    """Run the processes that the arms need, within the budget. Return whether anything was timed."""
    wanted, budget = work.wanted, max(work.left(), LEAST)
    if not _steady(work, 0):
        requested = [*([f"loader {wanted.loader}"] if wanted.loader is not None else []), *NEED_TIMES]
        work.cut += [f"{words}: {NOTHING_TIMED}" for words in requested]
        return False
    if wanted.loader is not None:
        _fed(work, wanted.loader)
    # A verdict needs both of these: they come before processes that only narrow the interval.
    _profile(work)
    _parity(work, budget if work.alone else None)
    if work.alone:
        work.cut += [f"{words}: not run: {work.alone}" for words in NEED_PROCESSES]
        return True
    for number in range(1, wanted.at_least):
        if number > 1 and wanted.at_least == BenchOptions().at_least and work.decided(work):
            break
        _steady(work, number)
    _try_remedies(work, work.remedies(work))
    _cold(work)
    if not wanted.quick:
        _warm(work)
    _more_parity(work, budget)
    return True


def measure_more(work: Schedule) -> None:
    """Run further processes, for a verdict that is near a threshold."""
    first = 1 + max((each.request.seed for each in work.done if each.purpose == "steady"), default=0)
    for number in range(first, work.wanted.at_least + EXTRA):
        _steady(work, number)


def carry(work: Schedule) -> None:
    """Measure starts with code that another process compiled and saved, in every way of this torch. Only the code of the
    arm `default` is saved: these ways compile with their own lines. It does nothing if that was not requested."""
    arms = tuple(arm for arm in work.remaining_arms if arm.name == "default")
    if not arms or not work.wanted.carry or work.wanted.quick or work.alone:
        return
    base = BenchRequest("carry", arms, **work.step, carried=str(work.room / SAVED))
    answer = work.ask("carry_save", base, "saving compiled code")
    for saved in answer.carried if answer is not None else ():
        if not saved.error:
            loading = dataclasses.replace(base, way=saved.way)
            work.ask("carry_load", loading, f"first call of {arms[0].name}, loaded as saved by {saved.way}")


def soak(work: Schedule, arm: Arm, seconds: float) -> None:
    """Run one arm for `seconds`, which do not count towards the budget."""
    request = BenchRequest("soak", (arm,), seconds=seconds, **work.step, cache=work.cache_of((arm,)))
    work.ask("soak", request, f"{arm.name} for {seconds:.0f} s", more=seconds + LEAST)


class Spares:
    """A spare process that imports torch while another process measures, and then becomes the next one. Use it as a
    context manager.

    `is_allowed`: whether the machine can run two processes at once without disturbing the measurement.
    """

    def __init__(self, is_allowed: bool) -> None:
        self._is_allowed = is_allowed
        self._waiting: StayingWorker | None = None

    def __enter__(self) -> Spares:
        return self

    def __exit__(self, *_: object) -> None:
        if self._waiting is not None:
            self._waiting.__exit__()
            self._waiting = None

    @staticmethod
    def are_allowed(device: str) -> bool:
        """Return whether this machine can run a spare process, for a model on `device`."""
        if device == "cpu" or not hasattr(os, "sched_getaffinity"):
            return False
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return len(os.sched_getaffinity(0)) >= SPARE_PROCESSORS and free >= SPARE_BYTES

    def prepare(self, request: RunRequest) -> None:
        """Start a spare process, unless one is waiting or none is allowed."""
        if self._is_allowed and self._waiting is None:
            self._waiting = StayingWorker()
            self._waiting.prepare(request)

    def take(self) -> StayingWorker | None:
        """Return the waiting process, which the caller must close; None if there is none."""
        waiting, self._waiting = self._waiting, None
        return waiting


def process_of(
    request: RunRequest, first: StayingWorker | None = None, spares: Spares | None = None
) -> Callable[[BenchRequest, float, Progressing], BenchAnswer]:
    """Return a function that runs one process of a bench of this target. `first`: the process of the check, which answers
    the first requests if it can. `spares`: provides later processes, if one is waiting."""

    def run(wanted: BenchRequest, seconds: float, announce: Progressing) -> BenchAnswer:
        is_plain = not any(arm.sources for arm in wanted.arms)
        if first is not None and first.is_of(request):
            if wanted.kind in OF_THE_FIRST and wanted.seed == 0 and is_plain:
                if wanted.kind != "steady" and spares is not None:
                    spares.prepare(request)
                return first.bench(wanted, seconds, announce)
            first.close()  # frees its memory and its processor for the next one
        if wanted.kind in OF_A_SPARE and is_plain and spares is not None and (spare := spares.take()):
            with spare:
                spares.prepare(request)  # it imports torch while this one builds and compiles
                if spare.is_of(request):
                    return spare.bench(wanted, min(request.options.timeout, seconds), announce)
        # a soak may take longer than any run, so the timeout of a run does not apply
        limit = seconds if wanted.kind == "soak" else min(request.options.timeout, seconds)
        options = dataclasses.replace(request.options, timeout=round(limit))
        return bench(dataclasses.replace(request, options=options), wanted, announce)

    return run


def _steady(work: Schedule, number: int) -> bool:
    """Run the `number`-th process that times the arms in turn. Return whether anything was timed."""
    most = QUICK_TIMED if work.wanted.quick else TIMED if number == 0 else LATER_TIMED
    timed = min(most, max(work.left(), LEAST) / 4)

    def request_of(arms: tuple[Arm, ...]) -> BenchRequest:
        return BenchRequest(
            "steady",
            arms,
            seed=number,
            latencies=50 if work.wanted.quick else 100,
            seconds=timed,
            **work.step,
            cache=work.cache_of(arms),
            profile=number == 0,
            works=number > 0,
        )

    any_timed = False
    ended = False
    for arms in _each_group(work):
        request = request_of(arms)
        answer = work.ask("steady", request, f"steady state of {_named(arms)}, process {number + 1}")
        if answer is None:
            continue
        any_timed |= any(each.blocks for each in answer.measured)
        ended |= answer.ended_in not in (None, EAGER)
        if len(arms) > 2 and work.shares:
            # Only now is it known that arms share a limit: all compiled arms but the first get their own processes.
            first = arms[:2]
            measured_first = tuple(each for each in answer.measured if each.arm in {arm.name for arm in first})
            work.done[-1] = BenchProcess(
                dataclasses.replace(request, arms=first), dataclasses.replace(answer, measured=measured_first), "steady"
            )
    if ended and not any_timed:  # each compiled arm ended its process, and eager code with it
        eager = work.arms[:1]
        answer = work.ask("steady", request_of(eager), f"steady state of {_named(eager)}, process {number + 1}")
        any_timed = answer is not None and any(each.blocks for each in answer.measured)
    return any_timed


def _try_remedies(work: Schedule, remedies: tuple[Arm, ...]) -> None:
    """Time each remedy together with eager code and the arm `default`; or with eager code only, in an older torch in
    which compiled arms share one recompile limit."""
    known = tuple(arm for arm in work.remaining_arms if arm.name in (EAGER, "default"))
    if not remedies or not known:
        return
    groups = [(*known[:1], each) for each in remedies] if work.shares else [(*known, *remedies)]
    for arms in groups:
        request = BenchRequest(
            "steady",
            arms,
            seed=1,
            blocks=REMEDY_BLOCKS,
            seconds=min(QUICK_TIMED, max(work.left(), LEAST) / 4),
            **work.step,
            cache=work.cache_of(arms),
            works=True,
        )
        work.ask("remedies", request, f"remedies: {_named([arm for arm in arms if arm in remedies])}")


def _each_group(work: Schedule, but: frozenset[str] = frozenset()) -> Iterator[tuple[Arm, ...]]:
    """Yield groups of arms, without those in `but`. If a process ends in the code of an arm, yield the others again
    without it."""
    done: set[str] = {*but}
    ended: set[str] = set()
    while waiting := [arms for arms in work.groups() if any(a.code and a.name not in done for a in arms)]:
        arms = tuple(arm for arm in waiting[0] if arm.name not in ended | but)
        before = len(work.done)
        yield arms
        last = work.done[-1] if len(work.done) > before else None
        if last is not None and last.answer.ended_in not in (None, EAGER):
            ended.add(str(last.answer.ended_in))
            done |= ended
        else:
            done |= {arm.name for arm in (last.request.arms if last is not None else arms)}


def _profile(work: Schedule) -> None:
    """Profile the arms that the process that timed them did not profile."""
    seen = {each.arm for process in work.done for each in process.answer.measured if each.profile is not None}
    for arms in _each_group(work):
        if seen >= {arm.name for arm in arms}:
            continue
        request = BenchRequest("profile", arms, **work.step, cache=work.cache_of(arms))
        work.ask("profile", request, f"{_named(arms)} under the profiler")


def _parity(work: Schedule, budget: float | None) -> None:
    """Compare outputs with those of eager code of the same sources: `tcready prove` verifies what a patch changes. With a
    budget, compare further seeds and layouts in the same process."""
    for arms in _each_group(work, work.differing):
        request = BenchRequest("parity", arms, cache=work.cache_of(arms), first_seed_only=budget is None)
        if budget is not None:
            request = dataclasses.replace(request, seconds=budget * PARITY_SHARE)
        work.ask("parity", request, f"outputs of {_named_compiled(arms)} against eager")


def _more_parity(work: Schedule, budget: float) -> None:
    """Compare outputs for all seeds and layouts in separate processes, for arms that agree for the first seed."""
    rows = [row for each in work.done if each.purpose == "parity" for row in each.answer.measured]
    agree = {row.arm for row in rows if row.parity is not None and row.parity.same and not row.error}
    for group in work.groups():
        arms = tuple(arm for arm in group if not arm.code or arm.name in agree)
        if names := _named_compiled(arms):
            request = BenchRequest(
                "parity", arms, seed=1, seconds=budget * PARITY_SHARE, cache=work.cache_of(arms), works=True
            )
            work.ask("more_parity", request, f"outputs of {names} against eager from further seeds")


def _cold(work: Schedule) -> None:
    """Measure the cold start of each arm with an empty cache."""
    for arm in reversed(work.remaining_arms):
        request = BenchRequest(
            "cold",
            (arm,),
            **work.step,
            cache=str(work.room / f"cold-{arm.name}"),
            artifacts=str(work.room / f"{arm.name}-{CARRIED}") if arm.code and not work.wanted.quick else None,
        )
        work.ask("cold", request, f"first call of {arm.name}, nothing cached")


def _fed(work: Schedule, loader: str) -> None:
    request = BenchRequest("loader", work.arms[:1], loader=loader, seconds=LOADER_SECONDS)
    work.ask("loader", request, f"eager, fed by {loader}")


def _named(arms: Sequence[Arm]) -> str:
    return ", ".join(arm.name for arm in arms)


def _named_compiled(arms: Sequence[Arm]) -> str:
    return _named([arm for arm in arms if arm.code])


def _warm(work: Schedule) -> None:
    """Measure first calls in processes that find the cache files of an earlier process, or only its artifacts."""
    for arm in (*work.compiled, *work.patched):
        base = BenchRequest("cold", (arm,), **work.step)
        cached = dataclasses.replace(base, cache=str(work.room / f"cold-{arm.name}"))
        work.ask("cold_warm_cache", cached, f"first call of {arm.name}, with a warm cache")
        artifacts = work.room / f"{arm.name}-{CARRIED}"
        if artifacts.exists():
            carried = dataclasses.replace(base, artifacts=str(artifacts))
            work.ask("cold_carried", carried, f"first call of {arm.name}, with saved artifacts")
