"""The content of the trace of a job, in words, if there was no run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tcready.reports.shared.phrases import duration, number
from tcready.reports.shared.wording import PHASE_WORD
from tcready.schema.report import TargetReport

if TYPE_CHECKING:
    from tcready.schema.run import CompileTime, Recompile, RecompileAdvice, Trace, TracedDifference, TracedKernel

DIFFERENCE_WORD = {"collectives": "collectives", "compilations": "compilations", "cache": "caches"}
"""Words for what ranks compiled differently, by kind."""
SHOWN_RANKS = 8
"""Number of ranks of a job that are named."""


def trace_sentence(trace: Trace) -> str:
    """Format `2 processes (ranks 0, 1): 12 compilations in 3.4 s: Dynamo 1.2 s, Inductor 2.2 s`."""
    ranks = sorted({process.rank for process in trace.processes if process.rank is not None})
    some = ", ".join(map(str, ranks[:SHOWN_RANKS])) + (", ..." if len(ranks) > SHOWN_RANKS else "")
    named = f" ({'rank' if len(ranks) == 1 else 'ranks'} {some})" if ranks else ""
    count = sum(process.compilations for process in trace.processes)
    took = f" in {duration(trace.seconds)}" if trace.seconds else ""
    parts = f": {phases_sentence(trace.phases)}" if trace.seconds else ""
    return f"{number(len(trace.processes), 'process', 'processes')}{named}: {number(count, 'compilation')}{took}{parts}"


def phases_sentence(phases: Iterable[tuple[str, float]]) -> str:
    """Format `Dynamo 1.2 s, Inductor 2.2 s`; phases that took no time are left out."""
    return ", ".join(f"{PHASE_WORD.get(name, name)} {duration(seconds)}" for name, seconds in phases if seconds)


def compile_time_sentence(time: CompileTime) -> str:
    """Format `3 compilations, 1.2 s: Dynamo 0.2 s, Inductor 1.0 s`."""
    parts = phases_sentence(time.phases)
    return f"{number(time.compiled, 'compilation')}, {duration(time.seconds)}" + (f": {parts}" if parts else "")


def mode_words(target: TargetReport) -> str:
    """Return `train`, or that the trace of a job does not show it."""
    trace = target.observation.trace
    known = trace is None or trace.mode_known
    return target.mode if known else f"mode unknown, read as {target.mode}"


def advice_words(item: RecompileAdvice) -> str:
    """Yield what to do about recompilations, which was not tried."""
    return f"{item.path}:{item.line} {item.symbol}: {item.text} (not run)"


def difference_sentence(item: TracedDifference) -> str:
    """Format `collectives of net.py:10 Net.forward, version 1: rank 0: ...; rank 1: ...`."""
    about = f"{DIFFERENCE_WORD[item.kind]} of {item.place.path}:{item.place.line} {item.place.symbol}"
    return f"{about}{difference_notes(item)}: {item.words()}"


def difference_notes(item: TracedDifference) -> str:
    """Return what limits a difference, to append: which version it is in, and why it is no finding."""
    notes = [f"version {item.version}"] if item.version is not None else []
    if not item.everywhere:
        notes.append("not on every rank")
    if not item.whole:
        notes.append("from a file that is not whole")
    return "".join(f", {note}" for note in notes)


def kernel_sentence(item: TracedKernel) -> str:
    """Format `net.py:12, net.py:13`, the lines that a kernel computes."""
    return ", ".join(f"{frame.path}:{frame.line}" for frame in item.lines) or "no line of your code"


def recompiled_when(event: Recompile, trace: Trace | None) -> str:
    """Return when a function was recompiled; a trace does not show the arguments of calls."""
    if event.identical_call:
        return "on an identical call"
    if event.on_other_numbers:
        return "on other random numbers, until the limit"
    return "on a new value or shape" if trace is None else "on a later call"
