"""What a serving engine's compile pipeline does with a report's findings, read from its sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcready.schema.frame import Frame
from tcready.schema.words import Engine

ServedState = Literal["handled", "hit", "not_read", "not_compiled"]
"""`handled`: the pipeline keeps it out of what Dynamo traces, or makes it harmless; `hit`: it stands in what the pipeline
compiles; `not_read`: whether a class on the way to it is compiled is decided as it runs; `not_compiled`: nothing on the
way to it is compiled there."""
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
"""Why: it stands in the code of a registered operator, or of one at which graphs are split; it calls an operator that is
registered there with an implementation for fake tensors, or one at which graphs are split; it stands in a forward of a
custom operator's class that is not compiled by default; it makes a constant of a size that is marked as dynamic; guards
are dropped, so that nothing is compiled again and what the first call found holds for all; no break is allowed; it is as
under any torch.compile; no class on the way is decorated; the one that is, is not compiled; how one is decorated was
not read."""


@dataclass(frozen=True)
class ServedClass:
    """A class that the engine compiles, because it or a base class has a decorator."""

    name: str
    path: str
    line: int
    dynamic: tuple[tuple[str, str], ...] = ()
    """Arguments of its forward with dimensions that are marked as dynamic, and these dimensions as written in the
    source."""
    enable_if: str = ""
    """The condition under which it is compiled, as it is written; empty if it always is."""
    ignored: bool = False
    """Whether another decorator reverses it."""
    inherits: str = ""
    """The class above it that has the decorator; empty if it has its own."""
    bases: tuple[str, ...] = ()
    """The classes above it, as far as the files that were read have them."""
    dynamic_unread: str = ""
    """The source text that gives the dynamic dimensions, if it could not be evaluated."""
    unread: str = ""
    """The source text that decides whether it is compiled, if it could not be evaluated."""


@dataclass(frozen=True)
class ServedOperator:
    """An operator that the engine, or the user's code, registers: Dynamo does not trace into it."""

    name: str
    """`vllm::unified_attention`."""
    code: Frame | None
    """The function behind it, by its first line; None if the registration does not name one that is found."""
    end_line: int | None
    fake: bool
    """Whether an implementation for fake tensors is given with it: without one it cannot be traced past."""
    splits: bool
    """Whether graphs are split at it."""


@dataclass(frozen=True)
class ServedFinding:
    """What the pipeline does about one finding."""

    fingerprint: str
    state: ServedState
    reason: ServedReason
    by: str = ""
    """The class or the operator that decides it."""


@dataclass(frozen=True)
class Serving:
    """What a serving engine's pipeline does with a report's findings. Its sources were read, and nothing was run."""

    engine: Engine
    version: str | None
    """As its metadata says; None if that is not known."""
    installed: bool
    """Whether its sources were found; else nothing of it was read, and there is nothing more here."""
    whole_graph: bool | None = None
    """Whether it compiles with `fullgraph=True`; None if the call was not found."""
    drops_guards: bool = False
    splitting: tuple[str, ...] = ()
    """Operators at which its graphs are split."""
    classes: tuple[ServedClass, ...] = ()
    """Decorated classes that this report's findings and targets meet."""
    decorated: int = 0
    """How many classes are decorated in all."""
    operators: tuple[ServedOperator, ...] = ()
    """Those at which graphs are split, those without a fake implementation, and those that findings meet."""
    registered: int = 0
    """How many operators are registered in all."""
    unread: tuple[str, ...] = ()
    """Files that could not be parsed, and settings that were not found, in a few words each."""
    findings: tuple[ServedFinding, ...] = ()
