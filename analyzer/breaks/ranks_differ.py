"""Processes that share a model compile different graphs for the same inputs.

## Why it hurts torch.compile
Each process compiles for itself, and nobody compares what they get. If the collectives in the graphs differ, in number,
order or shape, each process waits for a partner that never comes, and the job hangs until a time limit ends it. If other
operations differ, the processes compile at different times and take different times for a step, and the rest wait for the
slowest one in the next collective. Usual causes are a branch on the rank, sizes that follow from the rank, and data that
differs between processes where Dynamo takes a size or a number for a constant.

## Use instead
Give every process the same code: do what one rank does alone (logging, checkpoints, metrics) outside of the compiled
function, and pad shards to one size. Sizes that differ from process to process by their data are marked with
`torch._dynamo.mark_dynamic` in all of them.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, Page, Unshown

PAGE = Page(
    name="ranks-differ",
    page=__doc__,
    findings=("ranks-differ",),
    unshown=(Unshown(NEWER, ("GB5210",)),),
)
