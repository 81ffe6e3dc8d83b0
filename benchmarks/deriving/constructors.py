"""What the constructors of modules of torch.nn set: attributes, and which arguments these hang on."""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Iterator
from typing import Any

import torch

from deriving import trying

NEEDED = 4
"""What is given for each parameter that has no default: a size that others divide."""
OTHERS: tuple[Any, ...] = (
    *(8, 2, 1, 0.25, True, "sum", "reflect", "relu", "tanh", "cpu", torch.float64),
    torch.ones(NEEDED),
)
"""What is given in turn for one parameter, to see what becomes another; numbers divide NEEDED, or are divided by it."""


def _text(value: Any) -> str | None:
    """An attribute's value as the table has it: a literal, or the kind of a tensor; None for anything else."""
    if isinstance(value, torch.nn.Parameter):
        return "Parameter"
    if isinstance(value, torch.Tensor):
        return "Buffer" if value.is_floating_point() else None
    if isinstance(value, dict) and not value:
        return "{}"
    if isinstance(value, tuple):
        return repr(value) if value and all(_is_plain(v) for v in value) else None
    return repr(value) if _is_plain(value) else None


def _is_plain(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or type(value) in (bool, int, str)


def _attributes(made: torch.nn.Module) -> dict[str, str | None]:
    """Every attribute that an object has of its own, tensors among them."""
    found = {**vars(made), **made._parameters, **made._buffers}
    return {name: _text(value) for name, value in found.items() if name != "training"}


class Trials:
    """Objects of one class, made with one argument after the other."""

    def __init__(self, cls: Any) -> None:
        self.cls = cls
        self.parameters = [*inspect.signature(cls).parameters.values()] if cls is not torch.nn.Module else []
        self.needed = {p.name: NEEDED for p in self.parameters if p.default is p.empty}
        self.usual = self.made()

    def made(self, **given: Any) -> dict[str, str | None]:
        with trying.quiet(), torch.device("meta"):  # large ones need no memory there
            return _attributes(self.cls(**{**self.needed, **given}))

    def others(self, parameter: inspect.Parameter) -> Iterator[tuple[Any, dict[str, str | None]]]:
        """What a parameter may be given that is not its default, and the attributes then."""
        usual = self.needed.get(parameter.name, parameter.default)
        fitting: tuple[Any, ...] = (not usual,) if isinstance(usual, bool) else OTHERS
        for other in fitting:
            if repr(other) != repr(usual):
                try:
                    yield other, self.made(**{parameter.name: other})
                except Exception:  # what does not fit is refused by any kind of error: it shows nothing
                    continue


def _of_attribute(
    name: str, usual: str, trials: Trials, tried: dict[str, list[tuple[Any, dict[str, str | None]]]]
) -> str | None:
    """`=size` for what is passed as `size`, a value, or `value unless size shape`, which is what it is if these are left
    out; behind that `else value`, if it hangs on switches alone. None if it is something else each time."""
    deciding = [p for p in trials.parameters if any(made.get(name) != usual for _, made in tried[p.name])]
    if len(deciding) == 1:
        (parameter,) = deciding
        default = trials.needed.get(parameter.name, parameter.default)
        if repr(default) == usual and all(made.get(name) == _text(other) for other, made in tried[parameter.name]):
            return f"={parameter.name}"
    if any(parameter.name in trials.needed for parameter in deciding):
        return None
    if not deciding:
        return usual
    what = " ".join([usual, "unless", *(p.name for p in deciding)])
    others = {made.get(name) for p in deciding for _, made in tried[p.name]}
    switches = all(isinstance(p.default, bool) for p in deciding)
    return f"{what} else {other}" if switches and len(others) == 1 and (other := others.pop()) else what


def _registered() -> set[str]:
    """The containers of a module in which constructors put what they register."""
    made = torch.nn.Sequential(torch.nn.BatchNorm1d(1))
    return {name for each in (made, made[0]) for name, held in vars(each).items() if isinstance(held, dict) and held}


def constructor(cls: Any) -> list[str] | None:
    """The parameters of a constructor, each as `>name default`, with `!` for `>` if nothing is known once it is given;
    behind them `name what` for each attribute that an object is given."""
    trials = Trials(cls)
    inherited = _registered() if cls is torch.nn.Module else _attributes(torch.nn.Module())
    tried = {p.name: [*trials.others(p)] for p in trials.parameters}
    words = [f"{'>' if tried[p.name] else '!'}{p.name} {_text(p.default) or '?'}" for p in trials.parameters]
    for name, usual in trials.usual.items():
        what = _of_attribute(name, usual, trials, tried) if usual and name not in inherited else None
        if what is not None:
            words.append(f"{name} {what}")
    return words if len(words) > len(trials.parameters) else None


def constructors(only: Collection[str] | None = None) -> dict[str, list[str]]:
    """The classes of torch.nn that can be made of sizes alone; not those that the first call makes another."""
    lazy = torch.nn.modules.lazy.LazyModuleMixin
    found = {}
    for last in sorted(dir(torch.nn)):
        cls, name = getattr(torch.nn, last), f"torch.nn.{last}"
        module = inspect.isclass(cls) and issubclass(cls, torch.nn.Module) and not issubclass(cls, lazy)
        if module and (only is None or name in only):
            try:
                words = constructor(cls)
            except Exception:  # more than sizes is needed: nothing is known of that class
                continue
            if words:
                found[name] = words
    return found
