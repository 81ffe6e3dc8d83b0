"""Suggest how to stop the recompilations of a job, from the guards that failed. Nothing is run.

The suggestions were measured with torch 2.13: `tests/dynamic/test_recompile_advice.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tcready.schema.run import Recompile, RecompileAdvice

REPEATED = 2
"""Minimum number of failed guards with one cause: a size that changed once is dynamic from then on."""
NUMBER = re.compile(r"^(?:\d+/\d+: )?([\w.\[\]']+) == (-?\d+)$")
"""Dynamo's guard on an int's value (`EQUALS_MATCH`)."""
SIZE = re.compile(r"^(?:\d+/\d+: )?tensor '([^']+)' (size|stride) mismatch at index (\d+)\.")
"""Dynamo's guard on a tensor (`torch/csrc/dynamo/guards.cpp`)."""
OF_A_CALL = re.compile(r"L\['(\w+)'\]")
"""Dynamo's name for an argument or another local."""
OF_A_FILE = re.compile(r"G\['(\w+)'\]")
"""Dynamo's name for a global."""
OPEN_ON_MODULES = "allow_unspec_int_on_nn_module"
COMPILED_IN = "specialize_int"
OPENED_LATER = "automatic_dynamic_shapes"


@dataclass(frozen=True)
class Behind:
    """Other facts in a trace about a function that was recompiled."""

    needed: Mapping[str, str] = field(default_factory=dict)
    """Numbers with values that the code requires, as guards name them, and the place, if known."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """The `torch._dynamo.config` settings; empty if the trace has none."""


def advice(recompiles: Iterable[Recompile], behind: Mapping[tuple[str, int, str], Behind]) -> Iterator[RecompileAdvice]:
    """Return what to do about each function and each repeated cause.

    `behind` has functions by file, line and symbol.
    """
    for event in recompiles:
        causes: dict[tuple[str, int | None], set[str]] = {}
        for reason in event.reasons:
            if match := NUMBER.match(reason):
                causes.setdefault((_plain(match[1]), None), set()).add(match[2])
            elif (match := SIZE.match(reason)) and match[2] == "size":
                causes.setdefault((_plain(match[1]), int(match[3])), set()).add(reason)
        known = behind.get((event.path, event.line, event.symbol), Behind())
        needed = {_plain(name): where for name, where in known.needed.items()}
        for (name, dimension), seen in causes.items():
            if len(seen) < REPEATED:
                continue
            if dimension is None:
                text, code = _for_number(name, needed.get(name), known.settings)
            else:
                text, code = _for_size(name, dimension, needed.get(f"{name}.size()[{dimension}]"))
            yield RecompileAdvice(event.path, event.line, event.symbol, text, code)


def _plain(name: str) -> str:
    return OF_A_CALL.sub(r"\1", name)


def _for_number(name: str, needed: str | None, settings: Mapping[str, object]) -> tuple[str, str | None]:
    what = f"{_written(name)} is an int that is compiled in, each value anew"
    if needed is not None:
        return f"{what}: {_requirer(needed)}, and no setting changes that: {_FEW}", None
    if settings.get(COMPILED_IN) is True:
        return (f"{what}, as the job set {COMPILED_IN}: set it back", f"torch._dynamo.config.{COMPILED_IN} = False")
    if OF_A_FILE.search(name):
        return f"{what}, as numbers of a file are: pass it as an argument, or hold it in a tensor", None
    if "." in name:
        text = f"{what}: hold it in a tensor (of a module, a buffer), or count outside of what is compiled"
        if settings.get(OPEN_ON_MODULES) is True:
            return text, None
        return (
            f"{text}; if it only goes into computations on tensors, the line may do",
            f"torch._dynamo.config.{OPEN_ON_MODULES} = True",
        )
    if settings.get(OPENED_LATER) is False:
        return f"{what}, as the job unset {OPENED_LATER}: compile with dynamic=True, or pass a tensor", None
    return f"{what}: pass a tensor, if it only goes into computations on tensors; else {_FEW}", None


_FEW = "call with few values, or keep what needs the number out of what is compiled"


def _requirer(where: str) -> str:
    """Return what requires a value."""
    return f"the code at {where} needs its value" if where else "the code needs its value"


def _written(name: str) -> str:
    return OF_A_FILE.sub(r"\1", name)


def _for_size(name: str, dimension: int, needed: str | None) -> tuple[str, str | None]:
    what = f"dimension {dimension} of {name} is compiled in, each size anew"
    if needed is not None:
        return f"{what}: {_requirer(needed)}, and marking it dynamic is an error: {_FEW}", None
    if not name.isidentifier():
        return f"{what}: compile with dynamic=True", None
    return (
        f"{what}: compile with dynamic=True, or mark it before each call",
        f"torch._dynamo.mark_dynamic({name}, {dimension})",
    )
