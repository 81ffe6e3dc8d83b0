"""The adoption checklist: what a team should know before a compiled model goes into production."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tcready.bench.request_parts import BenchWanted
from tcready.bench.verdicts import GAINS, explanation, memory_growth
from tcready.portable.quantities import size_text, time_text
from tcready.schema.bench import (
    GENERATION_ITEM,
    PARITY_ITEM,
    PARITY_SEEDS,
    ArmBench,
    BenchCase,
    CheckItem,
    CheckState,
    ParityMeasured,
    Profile,
    Soak,
)
from tcready.schema.enums import EAGER

_PHASES_OF_GENERATION = ("prefill", "decode")
STABILITY = "stability"
_SOAK_SECONDS = 600
_LONG_BUDGET = 1200


@dataclass(frozen=True)
class Ran:
    """The results that the checklist is based on."""

    cases: tuple[BenchCase, ...]
    """The last one combines all cases."""
    recommended: str | None = None
    parities: tuple[tuple[str, ParityMeasured], ...] = ()
    """Pairs of an arm and a parity result."""
    soak: Soak | None = None
    stack: tuple[tuple[str, str], ...] = ()
    on_device: bool = False
    """Memory was measured on a device."""
    rollback: str = ""
    was_cut: bool = False
    """Something was left out because time ran out."""


def checklist(ran: Ran, wanted: BenchWanted) -> tuple[CheckItem, ...]:
    """Return the items in the order in which to check them. They are about the recommended arm, or about the fastest
    other arm if eager is recommended."""
    return tuple(_items(ran, wanted))


def longer_command(items: Sequence[CheckItem], wanted: BenchWanted, *, was_cut: bool) -> str:
    """Return a command that measures what is missing; empty if a longer bench would measure nothing more."""
    missing = {each.item for each in items if each.state == "not_measured"}
    options = {"budget": _LONG_BUDGET} if was_cut and missing else {}
    if STABILITY in missing:
        options["soak"] = _SOAK_SECONDS
    return wanted.again(**options) if options else ""


def _items(ran: Ran, wanted: BenchWanted) -> Iterator[CheckItem]:
    longer = {"budget": _LONG_BUDGET} if ran.was_cut else {}
    again = wanted.again(**longer)
    eager, arm = _subject(ran)
    with_inputs = wanted.again(**longer, inputs="FILE.py::NAME")
    first = f"{arm.arm} failed; once it works: " if arm is not None and arm.verdict == "failed" else ""
    yield _inputs(ran, wanted, again, with_inputs)
    yield _apart(ran, wanted, again, with_inputs)
    of_arm = first + again
    yield _memory(ran, wanted, eager, arm, of_arm)
    yield _parity(ran, arm, of_arm, first + wanted.again(budget=_LONG_BUDGET))
    yield _profile(eager, arm, wanted, of_arm)
    yield _stability(ran, arm, first + wanted.again(**longer, soak=_SOAK_SECONDS))
    stack = f"{len(ran.stack)} entries" if ran.stack else again
    yield CheckItem("stack logged", "pass" if ran.stack else "not_measured", stack)
    yield _warm_up(arm, of_arm)
    yield _cold_start(arm, of_arm)
    yield _precision(ran, wanted, arm, of_arm)
    yield _rollback(ran, again)


def _subject(ran: Ran) -> tuple[ArmBench | None, ArmBench | None]:
    """Return eager, and the arm that the items are about, over all cases."""
    arms = ran.cases[-1].arms if ran.cases else ()
    eager = next((arm for arm in arms if arm.arm == EAGER), None)
    others = [arm for arm in arms if arm.arm != EAGER]
    chosen = next((arm for arm in others if arm.arm == ran.recommended), None)
    running = [arm for arm in others if arm.verdict != "failed"] or others
    fastest = max(running, key=lambda arm: arm.speedup.median if arm.speedup else 0.0, default=None)
    return eager, chosen or fastest


def _inputs(ran: Ran, wanted: BenchWanted, again: str, instead: str) -> CheckItem:
    item = "representative inputs"
    if wanted.inputs_from is None:
        return CheckItem(item, "not_measured", instead)
    if wanted.inputs_from == "made_up":
        return CheckItem(item, "fail", f"generated, not given; {instead}")
    if not ran.cases:
        return CheckItem(item, "not_measured", f"given, but nothing was timed: {again}")
    count = max(1, len(ran.cases) - 1)
    weights = "with weights" if len({case.weight for case in ran.cases[:-1]}) > 1 else "with equal weights"
    given = "given" if count == 1 else f"{count} cases, {weights}"
    return CheckItem(item, "pass", f"{given}, not generated; only you can say whether they represent production")


def _apart(ran: Ran, wanted: BenchWanted, again: str, with_inputs: str) -> CheckItem:
    item = GENERATION_ITEM
    if not ran.cases:
        return CheckItem(item, "not_measured", f"nothing was timed: {again}")
    names = [case.case for case in ran.cases[:-1]]
    phases = [[phase for phase in _PHASES_OF_GENERATION if phase in name.lower()] for name in names]
    if all([phase] in phases for phase in _PHASES_OF_GENERATION):
        return CheckItem(item, "pass", ", ".join(names))
    given = wanted.inputs_from in ("option", "project")
    where = " in your inputs" if given else " as `cases`" if wanted.in_process else f": {with_inputs}"
    detail = f"no cases `prefill` and `decode`; if the model generates, name them{where}"
    return CheckItem(item, "not_measured", detail)


def _memory(ran: Ran, wanted: BenchWanted, eager: ArmBench | None, arm: ArmBench | None, again: str) -> CheckItem:
    before, after = (each.memory_steady_bytes if each else None for each in (eager, arm))
    if not before or after is None:
        return CheckItem("memory", "not_measured", again)
    beyond = memory_growth(after, before, ran.on_device, wanted.limits)
    what = "device memory" if ran.on_device else "resident memory"
    peak = arm.memory_peak_bytes if arm else None
    detail = f"{what} {size_text(after)}, eager {size_text(before)}" + (
        "" if peak is None else f"; peak {size_text(peak)}"
    )
    return CheckItem("memory", "pass" if beyond is None else "fail", detail)


def _parity(ran: Ran, arm: ArmBench | None, again: str, longer: str) -> CheckItem:
    if arm is None or arm.parity is None:
        why = f"{arm.parity_detail}; " if arm and arm.parity_detail else ""
        return CheckItem(PARITY_ITEM, "not_measured", why + again)
    seeds = min((parity.seeds for name, parity in ran.parities if name == arm.arm), default=0)
    if arm.parity and seeds < PARITY_SEEDS:
        why = f"{arm.arm} agrees with eager for {seeds} of {PARITY_SEEDS} seeds: there was no time for more"
        return CheckItem(PARITY_ITEM, "not_measured", f"{why}; {longer}")
    detail = f"{arm.arm} agrees with eager" if arm.parity else arm.parity_detail
    return CheckItem(PARITY_ITEM, "pass" if arm.parity else "fail", detail)


def _profile(eager: ArmBench | None, arm: ArmBench | None, wanted: BenchWanted, again: str) -> CheckItem:
    item = "profile of the gain"
    before, after = _profile_in(eager), _profile_in(arm)
    if arm is None or before is None or after is None:
        return CheckItem(item, "not_measured", again)
    if arm.verdict not in GAINS and (arm.speedup is None or arm.speedup.low <= 1):
        return CheckItem(item, "pass", "there is no gain to explain")
    causes = explanation(before, after, wanted.limits.min_effect)
    if causes:
        return CheckItem(item, "pass", ", ".join(causes))
    return CheckItem(item, "fail", "nothing in the profile explains why it is faster")


def _profile_in(arm: ArmBench | None) -> Profile | None:
    if arm is None or (arm.kernel_launches is None and arm.kernel_seconds is None):
        return None
    seconds = arm.kernel_seconds.median if arm.kernel_seconds else None
    return Profile(seconds, arm.kernel_launches, arm.host_seconds)


def _stability(ran: Ran, arm: ArmBench | None, to_soak: str) -> CheckItem:
    soak = ran.soak
    if soak is None or soak.state == "not_measured":
        why = f"{soak.reason}; " if soak and soak.reason else ""
        return CheckItem(STABILITY, "not_measured", f"{why}{to_soak}")
    if arm is not None and soak.arm != arm.arm and soak.state == "pass":
        why = f"the soak ran {soak.arm}, not {arm.arm}"
        return CheckItem(STABILITY, "not_measured", f"{why}; {to_soak}")
    calls = f"{soak.arm}: {soak.calls} calls in {soak.seconds:.0f} s"
    return CheckItem(STABILITY, soak.state, f"{soak.arm}: {soak.reason}" if soak.reason else calls)


def _warm_up(arm: ArmBench | None, again: str) -> CheckItem:
    if arm is None or arm.settled is None:
        return CheckItem("warm-up", "not_measured", again)
    calls = f"{arm.warm_calls} calls" if arm.warm_calls is not None else "calls"
    if arm.settled:
        return CheckItem("warm-up", "pass", f"times had settled after {calls}")
    return CheckItem("warm-up", "fail", f"times had not settled after {calls}")


def _cold_start(arm: ArmBench | None, again: str) -> CheckItem:
    if arm is None or arm.cold_seconds is None:
        return CheckItem("cold start", "not_measured", again)
    parts = [time_text(arm.cold_seconds.median)]
    if arm.cold_warm_cache_seconds is not None:
        parts.append(f"{time_text(arm.cold_warm_cache_seconds.median)} with a warm cache")
    if arm.break_even_calls is not None:
        parts.append(f"recovered after {arm.break_even_calls.median:,.0f} calls")
    return CheckItem("cold start", "pass", "; ".join(parts))


def _precision(ran: Ran, wanted: BenchWanted, arm: ArmBench | None, again: str) -> CheckItem:
    kind = wanted.dtype or "the model's own dtypes"
    if wanted.autocast:
        kind += f", autocast to {wanted.autocast}"
    found = [parity for name, parity in ran.parities if arm and name == arm.arm and parity.error is not None]
    if arm is None or not found:
        return CheckItem("precision", "not_measured", f"{kind}; error against float64 not measured: {again}")
    worst = max(found, key=lambda parity: parity.error or 0.0)
    detail = f"{kind}: error against float64 {worst.error:.2g}"
    if worst.eager_error is not None:
        detail += f", eager's {worst.eager_error:.2g}"
    state: CheckState = "fail" if any(parity.same is False for parity in found) else "pass"
    return CheckItem("precision", state, detail)


def _rollback(ran: Ran, again: str) -> CheckItem:
    if ran.recommended == EAGER:
        return CheckItem("rollback", "pass", "not needed: eager is recommended")
    if ran.recommended is None:
        return CheckItem("rollback", "pass", "not needed: no arm is recommended")
    return CheckItem("rollback", "pass" if ran.rollback else "not_measured", ran.rollback or again)
