"""Derive advice from the calls with other sizes: which setting to use, and the line to write, which a trial executed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tcready.schema.enums import ShapeCure, ShapeSetting
from tcready.schema.run import InputDimension, ShapeAdvice, ShapeCall, ShapeTrial

SAME_SHARE = 0.01
"""Captured shares with at most this difference count as equal."""
SAME_SECONDS = 0.5
"""Compile times with at most this relative difference count as equal,"""
FEW_SECONDS = 0.5
"""or with at most this difference in seconds: each was measured once."""
SIMPLEST: tuple[ShapeSetting, ...] = (
    "default", "mark_dynamic", "dynamic=True", "dynamic_shapes", "dynamic=False", "pad",
)  # fmt: skip
"""If settings measured the same, the first of these is used."""
MULTIPLE = 8
"""Sizes are padded to a multiple of this."""


def changed(trial: ShapeTrial) -> list[ShapeCall]:
    """Return the calls with another size, or another case, that recompiled."""
    return [call for call in trial.calls if not call.identical and call.recompiled]


def settles_never(trial: ShapeTrial) -> bool:
    """Return whether the identical call recompiled: then sizes are not the cause."""
    return any(call.identical and call.recompiled for call in trial.calls)


def every_size(trial: ShapeTrial) -> bool:
    """Return whether each of several other sizes, except 1, was compiled again, up to the recompile limit."""
    others = [call for call in trial.calls if call.size not in (None, 1)]
    gave_up = next((index for index, call in enumerate(others) if call.limit), len(others))
    before = others[:gave_up]
    return trial.sound and len(before) > 1 and not settles_never(trial) and all(call.recompiled for call in before)


def rank_trials(trials: Sequence[ShapeTrial]) -> list[ShapeTrial]:
    """Return the sound trials, the best first: without settings that raised or had other outputs than eager."""
    left = sorted((trial for trial in trials if trial.sound), key=lambda trial: SIMPLEST.index(trial.setting))
    found: list[ShapeTrial] = []
    while left:
        best = _best(left)
        found.append(best)
        left.remove(best)
    return found


def _best(trials: Sequence[ShapeTrial]) -> ShapeTrial:
    """Order trials by the highest captured share, then the fewest break sites, the fewest recompiles, the least compile
    time."""
    most = max(trial.share or 0.0 for trial in trials)
    left = [trial for trial in trials if (trial.share or 0.0) >= most - SAME_SHARE]
    fewest = min(trial.break_sites for trial in left)
    left = [trial for trial in left if trial.break_sites == fewest]
    least = min(map(_weight, left))
    left = [trial for trial in left if _weight(trial) == least]
    quickest = min(trial.compile_seconds or 0.0 for trial in left)
    return next(trial for trial in left if _as_quick(trial, quickest))


def _as_quick(trial: ShapeTrial, seconds: float) -> bool:
    return (trial.compile_seconds or 0.0) <= max(seconds * (1 + SAME_SECONDS), seconds + FEW_SECONDS)


def _weight(trial: ShapeTrial) -> int:
    return trial.recompiled + sum(len(call.limit) for call in trial.calls)


def mark_code(dimensions: Sequence[InputDimension]) -> str:
    """Return the statements that mark the dimensions dynamic, to run before each call."""
    return "\n".join(f"torch._dynamo.mark_dynamic({item.argument}, {item.dimension})" for item in dimensions)


def spec_code(axes: Mapping[str, Sequence[InputDimension]], ranks: Mapping[str, int]) -> str | None:
    """Return the statements that compile with one variable for the dimensions of each axis, and all others as in a call;
    None if one is in a part of an argument. `ranks`: the number of dimensions of each argument."""
    if not all(item.argument.isidentifier() for dimensions in axes.values() for item in dimensions):
        return None
    sizes = iter(("size", *(f"size{number}" for number in range(2, len(axes) + 1))))
    names = {axis: axis if axis.isidentifier() else next(sizes) for axis in axes}
    marked = {(item.argument, item.dimension): names[axis] for axis, items in axes.items() for item in items}
    specs = ", ".join(
        f'"{argument}": TensorSpec([{", ".join(marked.get((argument, d), "None") for d in range(rank))}])'
        for argument, rank in ranks.items()
    )
    return "\n".join(
        (
            "from torch.fx.experimental.dynamic_spec import ShapeVar, TensorSpec",
            *(f'{name} = ShapeVar("{name}")' for name in names.values()),
            f"model = torch.compile(model, dynamic_shapes={{{specs}}})",
        )
    )


def pad_code(dimensions: Sequence[InputDimension], ranks: Mapping[str, int]) -> str:
    """Return the statements that pad each dimension with zeros. `ranks`: the number of dimensions of each argument."""
    return "\n".join(_padding(item, ranks[item.argument]) for item in dimensions)


def _padding(place: InputDimension, rank: int) -> str:
    name = place.argument
    zeros = "0, 0, " * (rank - 1 - place.dimension)
    return f"{name} = torch.nn.functional.pad({name}, ({zeros}0, -{name}.shape[{place.dimension}] % {MULTIPLE}))"


def advise(varied: str, trials: Sequence[ShapeTrial], limit: int, size: int | None = None) -> ShapeAdvice:
    """The advice from the trials of one axis (or of the cases). `limit` is the recompile limit, `size` the given one."""
    order = rank_trials(trials)
    action, text, code = _follows(trials, order, limit, f"tried with {_sizes(trials, size)}")
    return ShapeAdvice(varied, action, text, code, tuple(trial.setting for trial in order))


Advice = tuple[ShapeCure, str, str | None]
"""The action, its reason, and the line to write."""


def _follows(trials: Sequence[ShapeTrial], order: Sequence[ShapeTrial], limit: int, tried: str) -> Advice:
    by = {trial.setting: trial for trial in trials}
    usual = by["default"]
    if settles_never(usual):
        events = [event for call in usual.calls if call.identical for event in call.recompiles]
        why = next((f" ({reason})" for event in events for reason in event.reasons), "")
        return ("mend", f"an identical call recompiles{why}: fix that first, it hides what the sizes cost", None)
    if not order:
        text = f"no advice: the default {_describe_failure(usual)}; no other setting is right for all sizes ({tried})"
        return "unknown", text, None
    best = order[0]
    apart = "; a size of 1 is compiled apart" if any(call.size == 1 for call in changed(best)) else ""
    if best is usual and not changed(usual) and not usual.limit:
        return "none", f"nothing recompiles ({tried})", None
    if "pad" in by:
        return _pad(by, best, limit, tried)
    if best is usual:
        why = _reason(usual, order[1]) if len(order) > 1 else "no other setting is right for all sizes"
        return "keep", f"leave the default: {why} ({tried}){apart}", None
    why = f"{_reason(best, usual)} ({tried}){apart}"
    if best.setting == "mark_dynamic":
        return "mark_dynamic", f"mark it dynamic: {why}", best.code
    if best.setting == "dynamic=True":
        return "dynamic=True", f"dynamic=True: {why}", best.code
    if best.setting == "dynamic_shapes":
        return "dynamic_shapes", f"give torch.compile a variable for it: {why}", best.code
    fixed = f"; each size is compiled by itself, up to the recompile limit of {limit}"
    return "dynamic=False", f"dynamic=False: {why}{fixed}", best.code


def _pad(by: Mapping[ShapeSetting, ShapeTrial], best: ShapeTrial, limit: int, tried: str) -> Advice:
    """Advise few sizes: every size is compiled again, with every setting."""
    usual, padded, marked = by["default"], by["pad"], by.get("mark_dynamic")
    # The guards name the first use of the tensor; only this error names the code that makes its size a constant.
    place = next((call.place for call in marked.calls if call.error), None) if marked is not None else None
    at = f", a constant at {place.path}:{place.line}" if place is not None else ""
    text = f"every size is compiled anew{at}: "
    if best is padded:
        text += f"pad to a multiple of {MULTIPLE}, and mask what is added: {_reason(padded, usual)}"
    else:
        did = _describe_failure(padded) if not padded.sound else f"did not help: {_reason(best, padded)}"
        text += f"have at most {limit} sizes (not run); padding to a multiple of {MULTIPLE} {did}"
    text += f" ({tried})"
    gave_up = next((call for call in usual.calls if call.limit), None)
    if gave_up is not None:
        who = ", ".join(frame.symbol for frame in gave_up.limit)
        text += f"; by default from {gave_up.label} on {who} ran eagerly, at the recompile limit of {limit}"
    return "pad", text, padded.code if best is padded else None


def _reason(best: ShapeTrial, other: ShapeTrial) -> str:
    """Return why the first trial is better than the other."""
    name = _name(other)
    if not other.sound:
        return f"{name} {_describe_failure(other)}"
    one, two = best.share or 0.0, other.share or 0.0
    if abs(one - two) > SAME_SHARE:
        return f"captures {_percent(one)} of the operations, {name} {_percent(two)}"
    if best.break_sites != other.break_sites:
        return f"breaks at {_lines(best.break_sites)}, {name} at {_lines(other.break_sites)}"
    if _weight(best) != _weight(other):
        return f"recompiled {_times(best.recompiled)}, {name} {_times(other.recompiled)}" + (
            " up to the recompile limit" if other.limit else ""
        )
    if not _as_quick(other, best.compile_seconds or 0.0):
        return f"{best.compile_seconds:.2g} s of compiling, {name} {other.compile_seconds:.2g} s"
    return "no setting did better"


def _name(trial: ShapeTrial) -> str:
    return {"default": "the default", "pad": "padding"}.get(trial.setting, trial.setting)


def _describe_failure(trial: ShapeTrial) -> str:
    """Return why a trial is not sound."""
    for call in trial.calls:
        if call.error:
            return f"raised at {trial.at(call)}: {call.error}"
        if call.difference:
            return f"differs from eager at {trial.at(call)}"
    return f"raised {trial.error}"


def _sizes(trials: Sequence[ShapeTrial], size: int | None) -> str:
    """Format sizes as `batch 4, 5, 6, 1`, or the names of the cases."""
    calls = max((trial.calls for trial in trials), key=len)
    if size is None:
        return ", ".join(call.label for call in calls if not call.identical)
    others = [call.size for call in calls if call.size is not None]
    return f"{trials[0].varied} {', '.join(map(str, (size, *others)))}"


def _percent(share: float) -> str:
    return f"{math.floor(share * 1000) / 10:g}%"


def _lines(count: int) -> str:
    return f"{count} line{'' if count == 1 else 's'}"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
