"""Complete the JSON of older versions of tcready, from the sentences that it contains.

The one place that reads such sentences; the codec asks it for each value of a class named in `COMPLETED`. Plain JSON
in, plain JSON out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

_ENDINGS = (
    ("timeout", "no answer within"),
    ("memory", "memory: "),
    ("crash", "the process died"),
    ("exit", "the process exited"),
    ("no_torch", "torch is not installed"),
)
"""How the launcher worded an end that says nothing of the model."""
_BEFORE = r"(?:case [^\n]*?: |on rank \d+: )*"
_COMPILING = ("capture", "fullgraph", "backend")
_MADE_UP = "synthesised: "


def _stage(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """A failed stage says why as a word."""
    if data.get("state") != "fail" or data.get("reason") is not None:
        return data
    detail = str(data.get("detail", ""))
    for reason, words in _ENDINGS:
        if re.match(_BEFORE + re.escape(words), detail):
            return {**data, "reason": reason}
    if data.get("stage") == "parity":
        return {**data, "reason": "mismatch"}
    no_program = detail.partition(": ")[0].endswith(" cannot be started")
    compiling = data.get("stage") in _COMPILING and not no_program
    return {**data, "reason": "compile_error" if compiling else "error"}


def _observation(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """A run says what gave its inputs as a word."""
    convention = data.get("convention")
    if data.get("inputs_from") is not None or not isinstance(convention, str):
        return data
    if convention.startswith("--inputs"):
        source = "option"
    elif convention.startswith("[tool."):
        source = "project"
    else:
        source = "made_up" if convention.startswith(_MADE_UP) else "convention"
    return {**data, "inputs_from": source}


COMPLETED: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = MappingProxyType(
    {"Stage": _stage, "Observation": _observation}
)
"""By the name of a class of this package: what completes its JSON."""
