"""Processes that share a model compile different graphs for the same inputs.

## Why it hurts torch.compile
Each process compiles on its own, and nothing compares the results. If the collectives in the graphs differ in number,
order or shape, each process waits for a partner that never arrives, and the job hangs until a time limit ends it. If
other operations differ, the processes compile at different times and take different times for a step. The others then
wait for the slowest one in the next collective. Usual causes are a branch on the rank, sizes that depend on the rank,
and data that differs between processes if Dynamo treats a size or a number as a constant.

## Use instead
Run the same code in every process. Move what only one rank does (logging, checkpoints, metrics) out of the compiled
function, and pad shards to one size. If sizes differ between processes because of their data, mark them with
`torch._dynamo.mark_dynamic` in all processes.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, Page, Unshown

PAGE = Page(
    name="ranks-differ",
    page=__doc__,
    findings=("ranks-differ",),
    unshown=(Unshown(NEWER, ("GB5210",)),),
)
