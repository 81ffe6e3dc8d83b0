"""A model that several processes share: how they share it, what each showed, and where they differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcready.schema.frame import Frame
from tcready.schema.words import Origin, Parallelism, StageState


@dataclass(frozen=True)
class DdpPart:
    """One part of a graph that DDPOptimizer split: its parameters fill one bucket of gradients."""

    parameters: tuple[str, ...]
    """Their dotted names, in the order of the forward."""
    start: Frame | None
    """The user's line with the first operation of this part; None if the graph names none."""


@dataclass(frozen=True)
class DdpSplit:
    """One graph below DistributedDataParallel, as Dynamo's DDPOptimizer split it along gradient buckets.

    It is split on purpose, so that gradients are sent while others are still computed. This is not a break of the
    user's code.
    """

    buckets: tuple[int, ...]
    """Bytes of the parameters of each part, in the order of the forward; one entry if it was not split."""
    case: str | None = None
    parts: tuple[DdpPart, ...] = ()
    """One for each of `buckets`; empty if that is not known."""

    @property
    def subgraphs(self) -> int:
        return len(self.buckets)


@dataclass(frozen=True)
class Ddp:
    """A run over several processes."""

    processes: int
    backend: str
    """Of torch.distributed: gloo, nccl."""
    wrapped: Literal["target", "here", "no"]
    """Who put the module into DistributedDataParallel: the target itself, the run, or nobody."""
    reason: str = ""
    """Why it is in none."""
    optimize: str | None = None
    """`torch._dynamo.config.optimize_ddp` in words; DDPOptimizer splits graphs only under `ddp_optimizer` or True."""
    splits: tuple[DdpSplit, ...] = ()


@dataclass(frozen=True)
class BlocksRun:
    """What one rank showed when each sharded block was compiled by itself, in place of the whole model."""

    state: StageState
    detail: str
    """Why it failed, or its result."""
    graphs: int = 0
    breaks: tuple[Frame, ...] = ()
    """Lines of the user's code; what FSDP keeps out of graphs itself is none."""
    recompiles: tuple[Frame, ...] = ()
    """First lines of the functions that were compiled again."""
    share: float | None = None
    """Operations of the user's code in graphs over all of them, in the third call."""


@dataclass(frozen=True)
class RankRun:
    """What one process of several showed."""

    rank: int
    state: StageState
    """Of capture: `pass` if this rank compiled the model and its calls came back."""
    detail: str
    """Why it did not pass, or its result."""
    graphs: int = 0
    breaks: tuple[Frame, ...] = ()
    """Lines of the user's code at which Dynamo broke, or gave up a function."""
    recompiles: tuple[Frame, ...] = ()
    """First lines of the functions that were compiled again."""
    share: float | None = None
    """Operations in graphs over all, in the third call."""
    time_share: float | None = None
    blocks: BlocksRun | None = None
    """None if there are none, or the run ended before."""


@dataclass(frozen=True)
class RankSide:
    """What one rank has where ranks differ."""

    rank: int
    text: str
    """The operation and the shapes that it gives, or the number of graphs."""
    place: Frame | None = None
    """The user's line behind it, if one is named."""


@dataclass(frozen=True)
class RankDifference:
    """The first place at which ranks that were called with the same inputs compiled something else, in one graph."""

    graph: int
    """Which of the graphs, from 1 in the order in which they were compiled."""
    case: str | None
    collectives: bool
    """Whether the collectives in the graphs differ as well: ranks hang or die in them."""
    sides: tuple[RankSide, ...]
    """One for each rank that was compared, in order."""
    place: Frame | None = None
    """The line to look at: of the rank that does something more, if that is seen; None if the graphs name none."""
    origin: Origin = "own"
    """Of `place`."""

    def words(self) -> str:
        """`rank 0: mul float32[2, 16] (model.py:40); rank 1: sum float32[16] (model.py:41)`."""
        return "; ".join(
            f"rank {side.rank}: {side.text}"
            + (f" ({side.place.path}:{side.place.line})" if side.place is not None else "")
            for side in self.sides
        )


@dataclass(frozen=True)
class ParallelRun:
    """A model that several processes share: what each of them showed, and where they differ."""

    kind: Parallelism
    ranks: tuple[RankRun, ...] = ()
    """In order; a rank that left nothing is there, too."""
    differences: tuple[RankDifference, ...] = ()
    """Of graphs that all ranks compiled, and of their number."""
    sharded: tuple[str, ...] = ()
    """FSDP: dotted names of the modules that `fully_shard` was called on before the whole; tensor parallel: of those that
    hold a parameter in parts."""
    plan: tuple[tuple[str, str], ...] = ()
    """Tensor parallel: names of modules, with patterns, and the style of each."""
    plan_from: str = ""
    """What gave the plan, or the shards: `--tp-plan ...`, `the model's own`, `the target`, `the run`."""
    hooks: tuple[Frame, ...] = ()
    """FSDP: lines of the user's code that call a sharded module, at which graphs end on purpose: its hooks gather the
    parameters outside of graphs. They are no breaks of the user's code."""
