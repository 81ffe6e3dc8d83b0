"""Decide whether an arm pays off in a case and which arm to recommend, with reasons that name what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcready.bench.figures import MIN_EFFECT, likely, more_needed, shown
from tcready.portable.quantities import guards_text, time_text
from tcready.schema.bench import (
    BLOCKS,
    PARITY_SEEDS,
    ArmBench,
    ArmMeasured,
    ArmVerdict,
    BenchCase,
    BenchVerdict,
    Figure,
    LoaderShare,
    Noise,
    Profile,
    SpeedVerdict,
)
from tcready.schema.enums import EAGER

ALL_CASES = "all cases"
_BEST_FIRST: tuple[SpeedVerdict, ...] = (
    "real_gain",
    "likely_gain",
    "inconclusive",
    "likely_no_gain",
    "no_gain",
    "likely_regression",
    "regression",
)
SLOW = ("no_gain", "regression", "likely_no_gain", "likely_regression")
"""Verdicts for which the reason names what takes the time."""
GAINS = ("real_gain", "likely_gain")
"""Verdicts for which an arm is recommended, the more certain one first."""
FAR_APART = 100.0
"""The ratio of the bounds of an interval above which they are too far apart to be shown."""
NOTICEABLE = 0.1
"""The share of a call above which a cost is named as a cause."""
_UNSTEADY = 2.0
"""The ratio of the bounds of an interval above which more processes would not help."""
_DEVICE_ALLOWANCE = 64 << 20
_RESIDENT_ALLOWANCE = 512 << 20
"""Bytes that compiling may add to the memory of any model: workspaces of kernels, and the code of the compiler."""


@dataclass(frozen=True)
class Limits:
    """Limits that decide whether a gain counts."""

    min_effect: float = MIN_EFFECT
    """The least difference of the ratio to eager from 1: 0.02 for 2 %."""
    memory_growth: float = 1.5
    """The most memory that a warm call may take, as a multiple of that of eager code."""


@dataclass(frozen=True)
class BenchEvidence:
    """Measurements of a compiled arm in one case."""

    speedup: Figure | None
    processes: int
    """The number of processes that timed it."""
    within: tuple[Figure, ...] = ()
    """The ratio to eager in each of these processes alone."""
    single: Figure | None = None
    """The ratio of single calls, with a synchronization after each."""
    error: str = ""
    untimed: str = ""
    """Why the arm was not timed, if the time limit of its process ended it."""
    blocks: int | None = None
    """The number of blocks in the process that timed the fewest."""
    graphs: int | None = None
    recompiles: int | None = None
    breaks: int | None = None
    seconds: float | None = None
    """Seconds of one call."""
    settled: bool | None = None
    warm_calls: int | None = None
    profile: Profile | None = None
    eager_profile: Profile | None = None
    unpatched: ArmMeasured | None = None
    """For an arm with a patch: the measurements of the same code without it."""
    memory: int | None = None
    """Bytes of warm calls."""
    eager_memory: int | None = None
    on_device: bool = False
    """`memory` is device memory; else it is the resident memory of the process."""
    parity: bool | None = None
    parity_detail: str = ""
    seeds: int | None = None
    """The number of seeds for which outputs were compared."""
    noise: Noise | None = None
    """Eager compared with itself, in the same case."""


def verdict_of(seen: BenchEvidence, limits: Limits) -> tuple[ArmVerdict, str]:
    """Return the verdict on an arm in a case, and the reason. Raises TcreadyError without scipy."""
    if seen.error:
        return "failed", seen.error
    if seen.graphs == 0:
        return "failed", "it compiled nothing: every call ran eagerly"
    if seen.parity is False:
        return "failed", f"its outputs differ from eager: {seen.parity_detail or 'no detail'}"
    if seen.speedup is None:
        why = f"it was not timed: {seen.untimed}" if seen.untimed else "too few blocks were timed together with eager"
        return "inconclusive", why
    verdict, reason = _of_times(seen, seen.speedup, limits)
    return verdict, "; ".join([reason, *_remarks(seen, verdict, limits)])


def _bounds(ratio: Figure) -> str:
    """Return the interval of a ratio in words, without figures if they would not be informative."""
    return "far apart" if ratio.high > FAR_APART * ratio.low else f"{ratio.low:.3f} to {ratio.high:.3f}"


def _of_times(seen: BenchEvidence, speedup: Figure, limits: Limits) -> tuple[ArmVerdict, str]:
    probable = likely(seen.within, limits.min_effect)
    if seen.processes < 2:
        times = f"{speedup.median:.3f} times as fast as eager ({_bounds(speedup)} in this process)"
        causes = _causes(seen, limits) if probable == "likely_gain" else ()
        if probable in SLOW:
            causes = slowness(seen, limits.min_effect)
            if not causes and probable == "likely_regression" and seen.profile is None:
                causes = ("there was no time to measure why: use a larger --budget",)
        return probable, f"{times}{': ' if causes else ''}{', '.join(causes)}"
    times = f"{speedup.median:.3f} times as fast as eager ({_bounds(speedup)} in {seen.processes} processes)"
    verdict = shown(speedup, limits.min_effect)
    alike = seen.noise.ratio if seen.noise is not None else None
    if verdict in ("real_gain", "regression") and alike and alike.low <= speedup.median <= alike.high:
        return ("inconclusive", f"{times}, but two measurements of eager differ as much: repeat on a quiet machine")
    if verdict == "inconclusive" and probable != "inconclusive":
        return probable, f"{times}; {seen.processes} processes agree, but they are too few to be sure"
    if verdict == "inconclusive" and speedup.high > _UNSTEADY * speedup.low:
        return verdict, f"{times}; timings were too noisy: repeat on a quiet machine"
    if verdict == "inconclusive":
        more = more_needed(speedup, seen.processes, limits.min_effect)
        many = "more than 100 more" if more is None else f"{more} more"
        return verdict, f"{times}: {many} process{'' if more == 1 else 'es'} would probably decide"
    if verdict in SLOW:
        causes = slowness(seen, limits.min_effect)
        what = [f"less than {limits.min_effect:.1%} faster"] if verdict == "no_gain" else []
        return verdict, f"{times}{': ' if what or causes else ''}{', '.join([*what, *causes])}"
    if seen.profile is None or seen.eager_profile is None:
        return "likely_gain", f"{times}, but no profile was made to explain it"
    if seen.parity is None:
        return ("likely_gain", f"{times}, but its outputs were not compared: {seen.parity_detail or 'not measured'}")
    causes = _causes(seen, limits)
    if not causes:
        return "likely_gain", f"{times}, but nothing in the profile explains it"
    grown = memory_growth(seen.memory, seen.eager_memory, seen.on_device, limits)
    if grown is not None:
        return ("no_gain", f"{times}, but it takes {grown:.2f} times eager's memory (limit {limits.memory_growth:g})")
    return verdict, f"{times}: {', '.join(causes)}"


def _causes(seen: BenchEvidence, limits: Limits) -> tuple[str, ...]:
    if seen.profile is None or seen.eager_profile is None:
        return ()
    return explanation(seen.eager_profile, seen.profile, limits.min_effect)


def explanation(eager: Profile, arm: Profile, min_effect: float = MIN_EFFECT) -> tuple[str, ...]:
    """Return what explains in a profile that an arm is faster than eager code; empty if nothing does.

    Without a device, only the number of operators and kernels counts, because the calling thread does all the work.
    """
    found = []
    on_device = eager.kernel_seconds is not None and arm.kernel_seconds is not None
    if eager.kernels is not None and arm.kernels is not None and arm.kernels * (1 + min_effect) < eager.kernels:
        of_what = (
            ("kernel" if on_device else "operator or kernel")
            if arm.kernels == 1
            else ("kernels" if on_device else "operators and kernels")
        )
        found.append(f"{arm.kernels} {of_what} instead of {eager.kernels}")
    if on_device:
        for words, before, after in (
            ("in kernels", eager.kernel_seconds, arm.kernel_seconds),
            ("in Python and launches", eager.host_seconds, arm.host_seconds),
        ):
            if before is not None and after is not None and after * (1 + min_effect) < before:
                found.append(f"{time_text(after)} {words} instead of {time_text(before)}")
    return tuple(found)


def slowness(seen: BenchEvidence, min_effect: float = MIN_EFFECT) -> tuple[str, ...]:
    """Return the measured causes that keep compiled code from being faster; empty if there are none."""
    found = []
    arm, eager = seen.profile, seen.eager_profile
    if arm is not None and arm.dynamo_seconds and seen.seconds:
        took = min(arm.dynamo_seconds, seen.seconds)  # the profiler adds to it
        if took > NOTICEABLE * seen.seconds:
            guards = f" ({guards_text(arm.guards, arm.python_guards)})" if arm.guards else ""
            found.append(f"Dynamo's guards{guards} take {time_text(took)} of a call of {time_text(seen.seconds)}")
    if seen.breaks:
        found.append(f"{seen.breaks} graph break{'' if seen.breaks == 1 else 's'}")
    if seen.recompiles:
        found.append(
            f"{seen.recompiles} recompilation{'' if seen.recompiles == 1 else 's'} after the first three calls"
        )
    if arm is not None and eager is not None and arm.kernels is not None and eager.kernels is not None:
        fewer = arm.kernels * (1 + min_effect) < eager.kernels
        what = "kernels" if arm.kernel_seconds is not None else "operators and kernels"
        if not fewer:
            found.append(f"no fewer {what} than eager ({arm.kernels}, eager {eager.kernels})")
        before, after = eager.host_seconds, arm.host_seconds
        if before and after and after > before * (1 + min_effect):
            on_cpu = arm.kernel_seconds is None  # the profiler adds to what is not in an operator
            where, how = (
                ("outside of operators", " (with the profiler on)") if on_cpu else ("in Python and launches", "")
            )
            found.append(f"{time_text(after)} {where} against eager's {time_text(before)}{how}")
    return tuple(found)


def memory_growth(arm: int | None, eager: int | None, on_device: bool, limits: Limits) -> float | None:
    """Return the memory of an arm in warm calls as a multiple of that of eager; None if it is within the limit."""
    if arm is None or not eager:
        return None
    allowance = _DEVICE_ALLOWANCE if on_device else _RESIDENT_ALLOWANCE
    growth = arm / eager
    return growth if growth > limits.memory_growth and arm - eager > allowance else None


def _remarks(seen: BenchEvidence, verdict: ArmVerdict, limits: Limits) -> list[str]:
    """Return remarks that a reader needs in addition to the reason."""
    found = []
    if seen.speedup is not None and seen.speedup.p50 is not None and seen.processes > 1:
        alone, slack = seen.speedup.p50, 1 + limits.min_effect
        if not seen.speedup.low / slack <= alone <= seen.speedup.high * slack:
            bounds = f" ({_bounds(seen.single)})" if seen.single else ""
            found.append(f"{alone:.3f} times{bounds} if calls are timed one by one")
    if seen.recompiles and verdict not in SLOW:  # there it is one of the causes
        found.append(
            f"{seen.recompiles} recompilation{'' if seen.recompiles == 1 else 's'} after the first three calls"
        )
    if seen.blocks is not None and seen.blocks < BLOCKS:
        found.append(f"only {seen.blocks} of {BLOCKS} blocks in a process: use a larger --budget")
    if seen.unpatched is not None and _is_inert(seen, seen.unpatched):
        found.append(
            f"the patch is inert: as many graphs, breaks and kernels as `{seen.unpatched.arm}`, which lacks it"
        )
    if seen.settled is False:
        after = "" if seen.warm_calls is None else f" after {seen.warm_calls} calls"
        found.append(f"times had not settled{after}")
    if verdict == "real_gain":
        if seen.seeds is not None and seen.seeds < PARITY_SEEDS:
            found.append(f"outputs compared for {seen.seeds} of {PARITY_SEEDS} seeds")
        if seen.memory is None or seen.eager_memory is None:
            found.append("memory not measured")
    return found


def _is_inert(seen: BenchEvidence, unpatched: ArmMeasured) -> bool:
    """Return True if a patch does not change the numbers of graphs, breaks and kernels."""
    if seen.profile is None or unpatched.profile is None or seen.profile.kernels is None:
        return False
    own = seen.graphs, seen.breaks, seen.profile.kernels
    return own == (unpatched.graphs, unpatched.breaks, unpatched.profile.kernels)


def recommended_of(arms: Sequence[ArmBench]) -> str | None:
    """Return the fastest arm with a real gain, else with a likely gain, else eager. Return None if eager was not
    measured, or if an arm may still turn out to be faster."""
    for verdict in GAINS:
        gains = [arm for arm in arms if arm.verdict == verdict and arm.speedup is not None]
        if gains:
            return max(gains, key=lambda arm: arm.speedup.median if arm.speedup else 0.0).arm
    if any(arm.verdict == "inconclusive" for arm in arms):
        return None
    return EAGER if any(arm.arm == EAGER and arm.seconds for arm in arms) else None


def overall(
    cases: Sequence[BenchCase], loader: LoaderShare | None, limits: Limits
) -> tuple[BenchVerdict, str, str | None]:
    """Return the verdict on compiling this target, the reason, and the recommended arm. The last case combines all
    cases."""
    if not cases:
        return "not_run", "nothing was measured", None
    summary = cases[-1]
    eager = next((arm for arm in summary.arms if arm.arm == EAGER), None)
    if eager is None or eager.seconds is None:
        why = eager.reason if eager and eager.reason else "it was not timed"
        return "not_run", f"eager code: {why}", None
    others = [arm for arm in summary.arms if arm.arm != EAGER]
    if not others:
        return "not_run", "no compiled arm was requested", EAGER
    verdict, arm = _best(others)
    failed = [f"{each.arm} failed: {each.reason}" for each in others if each.verdict == "failed"]
    reason = "; ".join([*([f"{arm.arm}: {arm.reason}"] if arm.verdict != "failed" else []), *failed])
    recommended = summary.recommended
    if loader is not None and loader.bound is not None:
        reason += f"; {_waiting(loader)}"
        gain = _fed(loader, arm.speedup.median) if arm.speedup else 1.0
        if verdict in GAINS and gain < 1 + limits.min_effect:
            return ("no_gain", f"with data loading included, the speedup would be {gain:.3f} times; {reason}", EAGER)
    if verdict not in GAINS:
        alone = [f"{case.recommended} in {case.case}" for case in cases[:-1] if case.recommended not in (None, EAGER)]
        if alone:
            reason += f"; a gain only with {', '.join(alone)}"
    return verdict, reason, recommended


def _best(arms: Sequence[ArmBench]) -> tuple[BenchVerdict, ArmBench]:
    """Return the arm that decides, and its verdict: the fastest arm among those with the best verdict."""

    def fastest(verdict: ArmVerdict) -> ArmBench | None:
        those = [arm for arm in arms if arm.verdict == verdict]
        return max(those, key=lambda arm: arm.speedup.median if arm.speedup else 0.0, default=None)

    for verdict in _BEST_FIRST:
        if (arm := fastest(verdict)) is not None:
            return verdict, arm
    # All failed. An arm that was timed but cannot be used is no gain; without times, nothing is known.
    timed = next((arm for arm in arms if arm.seconds is not None), None)
    return ("no_gain", timed) if timed else ("inconclusive", arms[0])


def _fed(loader: LoaderShare, speedup: float) -> float:
    """Return the speedup of an iteration, loading included, if the model has this speedup."""
    rest = loader.loader_seconds + loader.copy_seconds
    return (rest + loader.model_seconds) / (rest + loader.model_seconds / speedup)


def _waiting(loader: LoaderShare) -> str:
    rest = loader.loader_seconds + loader.copy_seconds
    share = rest / (rest + loader.model_seconds)
    return (
        f"your pipeline waits {share:.0%} of the time for data; compiling can make it at most {loader.bound:.2f}"
        " times as fast"
    )
