"""Compare a bench with a stored one: what is slower beyond noise, and what else differs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tcready.bench.repeat_comparison import again, noise_of

if TYPE_CHECKING:
    from tcready.schema.bench import ArmBench, Bench, Figure

_CHANGES_BY_ITSELF = frozenset({"clock", "clocks", "git", "commit", "date", "temperature", "load", "seed", "peak"})
"""Words in names of stack entries that may differ: they change from run to run, or with the code that is compared."""

_PLAN = "plan"
"""The arm with code that is generated for the measured code, so it may differ."""


def is_compared(name: str) -> bool:
    """Return True if two benches are comparable only with equal values of this entry of the stack."""
    return _CHANGES_BY_ITSELF.isdisjoint(words_of(name))


@dataclass(frozen=True)
class ArmChanged:
    """How one arm changed in one case."""

    case: str
    arm: str
    before: Figure | None
    """Seconds of one call."""
    after: Figure | None
    ratio: Figure | None
    """`after` divided by `before`: above 1 is slower."""
    regressed: bool
    reason: str = ""
    why_not: str = ""
    """Why it is unknown whether it changed."""


@dataclass(frozen=True)
class StackChange:
    """A stack entry that differs. None: not recorded."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Regressions:
    """The result of comparing a bench with a stored one."""

    comparable: bool
    """Both have the same machine and stack, and an arm and case in common."""
    reason: str
    changes: tuple[ArmChanged, ...] = ()
    """One entry for each arm and case that both have, changed or not."""
    stack: tuple[StackChange, ...] = ()

    @property
    def regressed(self) -> bool:
        """Return True if an arm is slower, or newly fails. Only meaningful if `comparable`."""
        return any(change.regressed for change in self.changes)


def find_regressions(before: Bench, after: Bench, threshold: float) -> Regressions:
    """Find arms that are slower in `after` than in `before`, beyond noise and by more than `threshold` (0.05 for 5 %).

    `again` decides what is beyond noise. If the machine or the stack differs, the changes are returned too, but they do
    not show anything about the code.
    """
    changes = tuple(_changes(before, after, threshold))
    if not any(arm.seconds is not None for case in after.cases for arm in case.arms):
        return Regressions(False, "nothing that could be compared was timed: use a larger --budget", changes)
    stack = tuple(_stack(before, after))
    if stack:
        names = ", ".join(f"{each.name} ({each.before or '-'}, now {each.after or '-'})" for each in stack)
        return Regressions(False, f"the benches differ, so they cannot be compared: {names}", changes, stack)
    if not before.stack:
        return Regressions(False, "the stored bench does not record its machine and stack", changes)
    if not changes:
        return Regressions(False, "the benches have no arm and case in common", changes)
    slower = [change for change in changes if change.regressed]
    missing = tuple(_missing(before, after))
    if missing and not slower:
        return Regressions(False, f"not timed this time: {', '.join(missing)}", changes)
    reason = "; ".join(change.reason for change in slower) or "nothing is slower beyond noise"
    return Regressions(True, reason, changes)


def _missing(before: Bench, after: Bench) -> Iterator[str]:
    """Yield each arm and case that was timed before but not now, without having failed."""
    now = {(case.case, arm.arm): arm for case in after.cases for arm in case.arms}
    for case in before.cases:
        for arm in case.arms:
            other = now.get((case.case, arm.arm))
            if arm.seconds is not None and (other is None or (other.seconds is None and other.verdict != "failed")):
                yield f"{arm.arm} in {case.case}"


def words_of(name: str) -> frozenset[str]:
    """Return the words in the name of a stack entry."""
    return frozenset(re.findall(r"[a-z]+", name.lower()))


def _stack(before: Bench, after: Bench) -> Iterator[StackChange]:
    then, now = dict(before.stack), dict(after.stack)
    for name in dict.fromkeys((*then, *now)):
        if then.get(name) != now.get(name) and is_compared(name):
            yield StackChange(name, then.get(name), now.get(name))
    first, second = ({case.case: case.weight for case in each.cases} for each in (before, after))
    for name in sorted(first.keys() & second.keys()):
        if first[name] != second[name]:
            yield StackChange(f"weight of {name}", _number(first[name]), _number(second[name]))
    first_codes, second_codes = (
        {arm.arm: arm.code for case in each.cases for arm in case.arms} for each in (before, after)
    )
    for arm in sorted(first_codes.keys() & second_codes.keys() - {_PLAN}):
        if first_codes[arm] != second_codes[arm]:
            yield StackChange(f"code of {arm}", first_codes[arm], second_codes[arm])


def _number(weight: float | None) -> str | None:
    return None if weight is None else f"{weight:g}"


def _changes(before: Bench, after: Bench, threshold: float) -> Iterator[ArmChanged]:
    noise = noise_of(before, after)
    then = {(case.case, arm.arm): arm for case in before.cases for arm in case.arms}
    for case in after.cases:
        for arm in case.arms:
            if (case.case, arm.arm) in then:
                yield _change(case.case, then[case.case, arm.arm], arm, threshold, noise)


def _change(case: str, then: ArmBench, now: ArmBench, threshold: float, noise: float) -> ArmChanged:
    name = f"{now.arm} in {case}"
    found = again(then, now, noise)
    seconds = then.seconds, now.seconds
    if now.verdict == "failed" and then.verdict != "failed":
        return ArmChanged(case, now.arm, *seconds, found.ratio, True, f"{name} fails now: {now.reason}")
    if found.ratio is None or not found.slower or found.ratio.median <= 1 + threshold:
        why = found.why_not
        if not why and found.ratio is not None and found.ratio.median > 1 + threshold:
            times = f"{found.ratio.median:.3f} times as long ({found.ratio.low:.3f} to {found.ratio.high:.3f})"
            why = f"it takes {times}, which noise alone could explain: use more --processes, on a quiet machine"
        why = f"{name}: {why}" if why else ""
        return ArmChanged(case, now.arm, *seconds, found.ratio, False, why_not=why)
    bounds = f"{found.ratio.low:.3f} to {found.ratio.high:.3f}"
    reason = f"{name} takes {found.ratio.median:.3f} times as long ({bounds})"
    return ArmChanged(case, now.arm, *seconds, found.ratio, True, reason)
