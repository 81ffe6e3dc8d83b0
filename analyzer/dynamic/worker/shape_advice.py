"""What follows from the calls with other sizes: which setting to take, and the line to write."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tcready.schema import InputDimension, ShapeAdvice, ShapeCall, ShapeSetting, ShapeTrial

PLACE = re.compile(r" \(([^()]+:\d+)\)$")


def changed(trial: ShapeTrial) -> list[ShapeCall]:
    """The calls with another size, or another case, that recompiled."""
    return [call for call in trial.calls if not call.identical and call.recompiled]


def settles_never(trial: ShapeTrial) -> bool:
    """Whether the identical call recompiled: then it is not the sizes that do it."""
    return any(call.identical and call.recompiled for call in trial.calls)


def every_size(trial: ShapeTrial) -> bool:
    """Whether each of several other sizes, 1 aside, was compiled anew, up to the recompile limit."""
    others = [call for call in trial.calls if call.size not in (None, 1)]
    gave_up = next((index for index, call in enumerate(others) if call.limit), len(others))
    before = others[:gave_up]
    return len(before) > 1 and not settles_never(trial) and all(call.recompiled for call in before)


def advise(
    varied: str,
    trials: Sequence[ShapeTrial],
    dimensions: Sequence[InputDimension],
    limit: int,
    ranks: Mapping[str, int] | None = None,
) -> ShapeAdvice:
    """What the trials of one axis (or of the cases) bear out; a setting is recommended only where it measured less.

    `limit` is the recompile limit, `ranks` the number of dimensions of each argument.
    """
    by = {trial.setting: trial for trial in trials}
    usual = by["default"]
    counts = ", ".join(f"{name} {_count(trial)}" for name, trial in by.items())
    if usual.error:
        return ShapeAdvice(varied, "unknown", f"no advice: the compiled call raised {usual.error}")
    if settles_never(usual):
        events = [event for call in usual.calls if call.identical for event in call.recompiles]
        why = next((f" ({reason})" for event in events for reason in event.reasons), "")
        return ShapeAdvice(
            varied,
            "mend",
            f"an identical call recompiles{why}: mend that first, it hides what the sizes cost",
        )
    if not changed(usual):
        return ShapeAdvice(varied, "none", f"nothing recompiles ({counts})")
    names: tuple[ShapeSetting, ...] = ("mark_dynamic", "dynamic=True")
    sound = [by[name] for name in names if name in by and not by[name].error]
    best = min(sound, key=_weight, default=usual)
    better = _weight(best) < _weight(usual)
    if not better and every_size(usual):
        return _pad(varied, by, dimensions, limit, ranks or {}, counts)
    one = any(call.size == 1 for call in changed(best if better else usual))
    apart = "; a size of 1 is compiled apart" if one else ""
    if not better:
        why = "no setting recompiled less" if usual.recompiled > 1 else "it recompiles once and then is quiet"
        return ShapeAdvice(varied, "keep", f"leave the default: {why} ({counts}){apart}")
    if best.setting == "dynamic=True":
        code = "model = torch.compile(model, dynamic=True)"
        return ShapeAdvice(varied, "dynamic=True", f"dynamic=True recompiled less ({counts}){apart}", code)
    marks = [f"torch._dynamo.mark_dynamic({place.argument}, {place.dimension})" for place in dimensions]
    text = f"mark it dynamic, which recompiled less ({counts}){apart}"
    return ShapeAdvice(varied, "mark_dynamic", text, "\n".join(marks))


def _pad(
    varied: str,
    by: Mapping[ShapeSetting, ShapeTrial],
    dimensions: Sequence[InputDimension],
    limit: int,
    ranks: Mapping[str, int],
    counts: str,
) -> ShapeAdvice:
    """Every size is compiled anew whatever the setting: have few sizes."""
    usual = by["default"]
    marked = by.get("mark_dynamic")
    # The guards name where the tensor is first used; what makes its size a constant, only this error tells.
    place = PLACE.search(marked.error) if marked is not None and marked.error else None
    at = f", a constant at {place[1]}" if place else ""
    text = f"every size is compiled anew{at}: pad or bucket to at most {limit} sizes ({counts})"
    gave_up = next((call for call in usual.calls if call.limit), None)
    if gave_up is not None:
        who = ", ".join(frame.symbol for frame in gave_up.limit)
        text += f"; from {gave_up.label} on {who} ran eagerly, at the recompile limit of {limit}"
    static = by.get("dynamic=False")
    if static is not None and not static.error and _weight(static) <= _weight(usual):
        text += "; for a fixed list of sizes dynamic=False recompiled no more"
    code = "\n".join(_padding(item, ranks[item.argument]) for item in dimensions if item.argument in ranks)
    return ShapeAdvice(varied, "pad", text, code or None)


def _padding(place: InputDimension, rank: int) -> str:
    """The statement that pads one dimension to the next multiple of 8 with zeros."""
    name = place.argument
    zeros = "0, 0, " * (rank - 1 - place.dimension)
    return f"{name} = torch.nn.functional.pad({name}, ({zeros}0, -{name}.shape[{place.dimension}] % 8))"


def _count(trial: ShapeTrial) -> str | int:
    return "raised" if trial.error else trial.recompiled


def _weight(trial: ShapeTrial) -> int:
    return trial.recompiled + sum(len(call.limit) for call in trial.calls)
