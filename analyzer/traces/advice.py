"""What might end the recompilations of a job, as far as the guards that failed tell what differs. Nothing is run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tcready.schema import Recompile, RecompileAdvice

REPEATED = 2
"""Of one cause so many guards have to fail: a size that changed once is dynamic from then on."""
NUMBER = re.compile(r"^(?:\d+/\d+: )?([\w.\[\]']+) == (-?\d+)$")
"""As Dynamo writes the guard on an int's value (`EQUALS_MATCH`)."""
SIZE = re.compile(r"^(?:\d+/\d+: )?tensor '([^']+)' (size|stride) mismatch at index (\d+)\.")
"""As Dynamo writes the guard on a tensor (`torch/csrc/dynamo/guards.cpp`)."""
OF_A_CALL = re.compile(r"L\['(\w+)'\]")
"""How it names an argument or another local."""


def advice(recompiles: Iterable[Recompile]) -> Iterator[RecompileAdvice]:
    """For each function and each cause that was met again and again, what to do about it."""
    for event in recompiles:
        causes: dict[tuple[str, int | None], set[str]] = {}
        for reason in event.reasons:
            if match := NUMBER.match(reason):
                causes.setdefault((_plain(match[1]), None), set()).add(match[2])
            elif (match := SIZE.match(reason)) and match[2] == "size":
                causes.setdefault((_plain(match[1]), int(match[3])), set()).add(reason)
        for (name, dimension), seen in causes.items():
            if len(seen) >= REPEATED:
                text, code = _for_number(name) if dimension is None else _for_size(name, dimension)
                yield RecompileAdvice(event.path, event.line, event.symbol, text, code)


def _plain(name: str) -> str:
    return OF_A_CALL.sub(r"\1", name)


def _for_number(name: str) -> tuple[str, str | None]:
    if "." in name or "[" in name:
        text = (
            f"{name} is an int that is compiled in, each value anew: hold it in a tensor (of a module, a buffer), count "
            "outside of what is compiled, or, if it stands on a module, set the line"
        )
        return text, "torch._dynamo.config.allow_unspec_int_on_nn_module = True"
    return (
        f"{name} is an int that is compiled in, each value anew: pass a tensor, or compile with dynamic=True",
        None,
    )


def _for_size(name: str, dimension: int) -> tuple[str, str | None]:
    what = f"dimension {dimension} of {name} is compiled in, each size anew"
    if not name.isidentifier():
        return f"{what}: compile with dynamic=True", None
    return (
        f"{what}: compile with dynamic=True, or mark it before each call",
        f"torch._dynamo.mark_dynamic({name}, {dimension})",
    )
