"""The results of several processes for one model, in words: a row for each rank, and where they differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tcready.reports.shared.phrases import number, percent
from tcready.reports.shared.wording import STAGE_WORD, ddp_sentence
from tcready.schema.code_line import Frame
from tcready.schema.observation import Observation

if TYPE_CHECKING:
    from tcready.schema.parallel import Ddp, DdpPart, DdpSplit, ParallelRun, RankDifference, RankRun

WORDS = {"ddp": "DistributedDataParallel", "fsdp": "FSDP2", "tp": "tensor parallel"}
MANY = 6
"""Number of names that are listed; the rest is counted."""


def shared_sentence(found: ParallelRun) -> str:
    """Describe how the processes share the model: `FSDP2: sharded by themselves are blocks.0, blocks.1`; the keyword
    alone if no model was shared."""
    if not found.plan_from:
        return WORDS[found.kind]
    if found.kind == "fsdp":
        return f"{WORDS['fsdp']}: " + (
            f"sharded by themselves are {_some(found.sharded)}"
            if found.sharded
            else "no blocks were found, so the model is sharded as a whole"
        )
    if found.kind == "tp":
        styles = _some([f"{name or 'the model'} {style}" for name, style in found.plan])
        return f"{WORDS['tp']}, by {found.plan_from}: {styles}"
    return WORDS["ddp"]


def rows(seen: Observation, most: int, more: str) -> Iterator[tuple[str, str]]:
    """Yield lines with their labels, `most` of a kind; `more` says how to see the rest. None for a run of one
    process."""
    ddp, shared = seen.ddp, seen.parallel
    if ddp is not None:
        yield "processes", ddp_sentence(ddp)
    splits = split_rows(ddp) if ddp is not None else ()
    if len(splits) > 1:
        about = [f"{name}, {size} bytes, {what}" for name, size, what in splits]
        yield from _labelled("DDP's splits", about, most, more)
        yield "", "deliberate, along the buckets of gradients: no breaks of your code"
    if shared is None:
        return
    if shared.kind != "ddp":
        yield "shared by", shared_sentence(shared)
    for rank in shared.ranks[:most]:
        yield f"rank {rank.rank}", rank_sentence(rank)
        if by_block := blocks_sentence(rank):
            yield "", f"block by block: {by_block}"
    if len(shared.ranks) > most:
        yield "", f"... and {len(shared.ranks) - most} more ({more})"
    if hooks := hooks_sentence(shared):
        yield "", hooks
    yield from _labelled("ranks differ", [difference_sentence(each) for each in shared.differences], most, more)


def _labelled(label: str, texts: Sequence[str], most: int, more: str) -> Iterator[tuple[str, str]]:
    for index, text in enumerate(texts[:most]):
        yield "" if index else label, text
    if len(texts) > most:
        yield "", f"... and {len(texts) - most} more ({more})"


def rank_cells(rank: RankRun) -> tuple[str, ...]:
    """Return state, graphs, captured share, breaks, recompiles of one rank."""
    return (
        STAGE_WORD[rank.state],
        str(rank.graphs),
        "not known" if rank.share is None else percent(rank.share),
        places(rank.breaks),
        places(rank.recompiles),
    )


def rank_sentence(rank: RankRun) -> str:
    """Format `2 graphs, 86 % of the operations in them, no break, no recompile`, or why there is nothing."""
    if rank.state != "pass":
        return f"{STAGE_WORD[rank.state]}: {rank.detail}"
    return _counts(rank.graphs, rank.share, rank.breaks, rank.recompiles)


def blocks_sentence(rank: RankRun) -> str:
    """Return the same with each sharded block compiled alone; empty if none was."""
    blocks = rank.blocks
    if blocks is None:
        return ""
    if blocks.state != "pass":
        return f"{STAGE_WORD[blocks.state]}: {blocks.detail}"
    return _counts(blocks.graphs, blocks.share, blocks.breaks, blocks.recompiles)


def difference_sentence(found: RankDifference) -> str:
    """Format `graph 1 (model.py:40 Net.forward): rank 0: ...; rank 1: ...`."""
    place = f" ({_place(found.place)})" if found.place is not None else ""
    case = f" in {found.case}" if found.case else ""
    waits = "; the collectives differ: ranks hang or die in them" if found.collectives else ""
    return f"graph {found.graph}{case}{place}: {found.words()}{waits}"


def hooks_sentence(found: ParallelRun) -> str:
    """Describe where FSDP ends graphs on purpose; empty if nowhere."""
    if not found.hooks:
        return ""
    return (
        f"FSDP's hooks gather parameters outside of graphs at {places(found.hooks)}: deliberate, no break of your code"
    )


def split_rows(ddp: Ddp) -> tuple[tuple[str, str, str], ...]:
    """Yield each part of each graph that DDPOptimizer split: its name, its bytes, where it begins and its content."""
    return tuple(
        (_named(split, number_, index), f"{size:,}", _part(part))
        for number_, split in enumerate(ddp.splits, 1)
        for index, (size, part) in enumerate(
            zip(split.buckets, split.parts, strict=False)
        )  # a forged run may have fewer of either
    )


def _named(split: DdpSplit, graph: int, index: int) -> str:
    case = f" in {split.case}" if split.case else ""
    return f"graph {graph}{case}, part {index + 1} of {split.subgraphs}"


def _part(part: DdpPart) -> str:
    start = f"from {_place(part.start)}: " if part.start is not None else ""
    return f"{start}{_some(part.parameters)}"


def _counts(graphs: int, share: float | None, breaks: Sequence[Frame], recompiles: Sequence[Frame]) -> str:
    in_them = "" if share is None else f", {percent(share)} of the operations in them"
    broken = f"breaks at {places(breaks)}" if breaks else "no break"
    again = f"compiles again {places(recompiles)}" if recompiles else "no recompile"
    return f"{number(graphs, 'graph')}{in_them}, {broken}, {again}"


def places(frames: Sequence[Frame]) -> str:
    """Format `model.py:3, model.py:9`; `none`."""
    return _some([f"{frame.path}:{frame.line}" for frame in frames]) if frames else "none"


def _place(frame: Frame) -> str:
    return f"{frame.path}:{frame.line} {frame.symbol}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    return ", ".join(names[:MANY]) + more
