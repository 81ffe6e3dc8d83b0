"""Complete JSON of older tcready versions with the same schema version: derive missing values from the sentences that
they wrote instead.

No other code parses such sentences; the codec calls this for each value of a class in `COMPLETED`. Plain JSON in, plain
JSON out.
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
"""The launcher's wording for ends of a run that say nothing about the model."""
_BEFORE = r"(?:case [^\n]*?: |on rank \d+: )*"
_COMPILING = ("capture", "fullgraph", "backend")
_MADE_UP = "synthesised: "


def _stage(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the reason of a failed stage as a keyword."""
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
    """Add the source of the inputs of a run as a keyword."""
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
"""Name of a class of this package -> the function that completes its JSON."""
