"""A model on several processes: how they share it, the results of each, and where they differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcready.schema.code_line import Frame
from tcready.schema.enums import Origin, Parallelism, StageState


@dataclass(frozen=True)
class DdpPart:
    """One part of a graph that DDPOptimizer split: its parameters fill one bucket of gradients."""

    parameters: tuple[str, ...]
    """Their dotted names, in the order of the forward."""
    start: Frame | None
    """The user's line with the first operation of this part; None if the graph has none."""


@dataclass(frozen=True)
class DdpSplit:
    """One graph below DistributedDataParallel, as Dynamo's DDPOptimizer split it along gradient buckets.

    It is split on purpose, so that gradients are sent while others are still computed. It is not a break of the user's
    code.
    """

    buckets: tuple[int, ...]
    """Bytes of the parameters of each part, in the order of the forward; one entry: it was not split."""
    case: str | None = None
    parts: tuple[DdpPart, ...] = ()
    """One for each of `buckets`; empty if unknown."""

    @property
    def subgraphs(self) -> int:
        return len(self.buckets)


@dataclass(frozen=True)
class Ddp:
    """A run over several processes."""

    processes: int
    backend: str
    """Backend of torch.distributed: gloo, nccl."""
    wrapped: Literal["target", "here", "no"]
    """What wrapped the module in DistributedDataParallel: the target itself, the run, or nothing."""
    reason: str = ""
    """Why it is not wrapped."""
    optimize: str | None = None
    """`torch._dynamo.config.optimize_ddp` in words; DDPOptimizer splits graphs only with `ddp_optimizer` or True."""
    splits: tuple[DdpSplit, ...] = ()


@dataclass(frozen=True)
class BlocksRun:
    """The results of one rank with each sharded block compiled alone, in place of the whole model."""

    state: StageState
    detail: str
    """Why it failed, or its result."""
    graphs: int = 0
    breaks: tuple[Frame, ...] = ()
    """Lines of the user's code, without those that FSDP itself keeps out of graphs."""
    recompiles: tuple[Frame, ...] = ()
    """First lines of the functions that recompiled."""
    share: float | None = None
    """Share of operations of the user's code in graphs, in the third call."""


@dataclass(frozen=True)
class RankRun:
    """The results of one process of several."""

    rank: int
    state: StageState
    """State of capture: `pass` if this rank compiled the model and its calls returned."""
    detail: str
    """Why it failed, or its result."""
    graphs: int = 0
    breaks: tuple[Frame, ...] = ()
    """Lines of the user's code at which Dynamo broke, or gave up a function."""
    recompiles: tuple[Frame, ...] = ()
    """First lines of the functions that recompiled."""
    share: float | None = None
    """Share of operations in graphs, in the third call."""
    time_share: float | None = None
    blocks: BlocksRun | None = None
    """None if there are none, or it did not get that far."""


@dataclass(frozen=True)
class RankSide:
    """The result of one rank where ranks differ."""

    rank: int
    text: str
    """The operation and the shapes of its results, or the number of graphs."""
    place: Frame | None = None
    """The user's line that causes it, if known."""


@dataclass(frozen=True)
class RankDifference:
    """The first place in a graph at which ranks that were called with the same inputs compiled different code."""

    graph: int
    """The number of the graph, from 1 in the order in which they were compiled."""
    case: str | None
    collectives: bool
    """Collectives in the graphs differ as well: ranks hang or die in them."""
    sides: tuple[RankSide, ...]
    """One for each rank that was compared, in order."""
    place: Frame | None = None
    """The line to look at: of the rank with an additional operation, if known; None if the graphs have none."""
    origin: Origin = "own"
    """Origin of `place`."""

    def words(self) -> str:
        """Format `rank 0: mul float32[2, 16] (model.py:40); rank 1: sum float32[16] (model.py:41)`."""
        return "; ".join(
            f"rank {side.rank}: {side.text}"
            + (f" ({side.place.path}:{side.place.line})" if side.place is not None else "")
            for side in self.sides
        )


@dataclass(frozen=True)
class ParallelRun:
    """A model on several processes: the results of each, and where they differ."""

    kind: Parallelism
    ranks: tuple[RankRun, ...] = ()
    """In order, including ranks without results."""
    differences: tuple[RankDifference, ...] = ()
    """Differences between graphs that all ranks compiled, and between the numbers of graphs."""
    sharded: tuple[str, ...] = ()
    """FSDP: dotted names of the modules that `fully_shard` was called on before the whole; tensor parallel: of those
    that hold parts of a parameter."""
    plan: tuple[tuple[str, str], ...] = ()
    """Tensor parallel: names of modules, with patterns, and the style of each."""
    plan_from: str = ""
    """The source of the plan, or of the shards: `--tp-plan ...`, `the model's own`, `the target`, `the run`."""
    hooks: tuple[Frame, ...] = ()
    """FSDP: lines of the user's code that call a sharded module. Graphs end there on purpose, because its hooks
    gather the parameters outside of graphs. They are not breaks of the user's code."""
