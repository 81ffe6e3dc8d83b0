"""The effect of a serving engine's own compile pipeline on a report's findings, according to its sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcready.schema.code_line import Frame
from tcready.schema.enums import Engine

ServedState = Literal["handled", "hit", "not_read", "not_compiled"]
"""`handled`: the pipeline keeps it out of what Dynamo traces, or makes it harmless; `hit`: it is in code that the
pipeline compiles; `not_read`: whether a class on the path to it is compiled is decided at run time; `not_compiled`:
nothing on the path to it is compiled there."""
ServedReason = Literal[
    "custom_operator",
    "splitting_operator",
    "calls_registered",
    "calls_splitting",
    "other_forward",
    "sizes_marked",
    "guards_dropped",
    "whole_graph",
    "as_elsewhere",
    "not_decorated",
    "not_enabled",
    "decoration_unread",
]
"""Reason: it is in the code of a registered operator, or of one at which graphs are split; it calls an operator that
is registered there with an implementation for fake tensors, or one at which graphs are split; it is in a forward of
a custom operator's class that is not compiled by default; it makes a constant of a size that is marked as dynamic;
guards are dropped, so that nothing recompiles and what the first call found applies to all; no break is allowed; it
is as with any torch.compile; no class on the path is decorated; the decorated one is not compiled; its decoration
was not read."""


@dataclass(frozen=True)
class ServedClass:
    """A class that the engine compiles because of a decorator on it, or on a class above it."""

    name: str
    path: str
    line: int
    dynamic: tuple[tuple[str, str], ...] = ()
    """Arguments of its forward with dimensions that are marked as dynamic, and these dimensions as source text."""
    enable_if: str = ""
    """The condition under which it is compiled, as source text; empty if it always is."""
    ignored: bool = False
    """Another decorator undoes it."""
    inherits: str = ""
    """The class above it that has the decorator; empty if it has its own."""
    bases: tuple[str, ...] = ()
    """The classes above it, as far as they are in the files that were read."""
    dynamic_unread: str = ""
    """The expression for the dynamic dimensions, as source text, if it was not read."""
    unread: str = ""
    """The expression that decides whether it is compiled, as source text, if it was not read."""


@dataclass(frozen=True)
class ServedOperator:
    """An operator that the engine, or the user's code, registers: Dynamo does not trace into it."""

    name: str
    """`vllm::unified_attention`."""
    code: Frame | None
    """The first line of the function behind it; None if the registration does not name one that is found."""
    end_line: int | None
    fake: bool
    """It has an implementation for fake tensors: without one, it cannot be traced."""
    splits: bool
    """Graphs are split at it."""


@dataclass(frozen=True)
class ServedFinding:
    """The effect of the pipeline on one finding."""

    fingerprint: str
    state: ServedState
    reason: ServedReason
    by: str = ""
    """The class or the operator that decides it."""


@dataclass(frozen=True)
class Serving:
    """The effect of a serving engine's pipeline on a report's findings; its sources were read, nothing was run."""

    engine: Engine
    version: str | None
    """From its metadata; None if unknown."""
    installed: bool
    """Its sources were found; otherwise nothing was read, and the other fields are empty."""
    whole_graph: bool | None = None
    """It compiles with `fullgraph=True`; None if the call was not found."""
    drops_guards: bool = False
    splitting: tuple[str, ...] = ()
    """Operators at which its graphs are split."""
    classes: tuple[ServedClass, ...] = ()
    """Decorated classes on paths to this report's findings and targets."""
    decorated: int = 0
    """Number of all decorated classes."""
    operators: tuple[ServedOperator, ...] = ()
    """Those at which graphs are split, those without a fake implementation, and those of findings."""
    registered: int = 0
    """Number of all registered operators."""
    unread: tuple[str, ...] = ()
    """Files that could not be parsed, and settings that were not found, in a few words each."""
    findings: tuple[ServedFinding, ...] = ()
