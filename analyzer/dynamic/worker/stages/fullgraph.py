"""Check whether one graph holds the whole model."""

from __future__ import annotations

from collections import Counter

from tcready.dynamic.worker.core import distributed
from tcready.dynamic.worker.core.calling import call, compile_error
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.step import Step, failing
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.dynamic.worker.torch_internals.compile_calls import compile_callable


def run(context: Context) -> None:
    """Run the stage. If the default run had breaks, only on request or if the user's code compiles that way."""
    journal, is_requested = context.journal, _is_required(context)
    seen = journal.observation
    broke = bool(seen.break_sites) or any(not frame.benign for frame in seen.skipped_frames)
    with failing(context, "fullgraph"):
        elsewhere = distributed.on_any(broke, context.work)
    if elsewhere and not is_requested:
        owner = "" if broke else "of another rank "
        why = f"the default run {owner}has breaks (--fullgraph tries all the same)"
        journal.end("not_run", why, "not_asked")
        return
    if not is_requested and not distributed.on_any(not _captured_whole(context), context.work):
        journal.end("pass", "as captured: one graph, no break")
        return
    try:
        for case in context.cases:
            dynamo.reset()
            whole = compile_callable(context.build(), backend="eager", fullgraph=True, **context.compile_options)
            call(context, whole, case)
    except Exception as error:
        journal.end("fail", compile_error(error, context), "compile_error")
    else:
        journal.end("pass")
    finally:
        dynamo.reset()


def _captured_whole(context: Context) -> bool:
    """Return whether the default run already has the result of `fullgraph=True`: each case in one graph, which holds
    every operation, and nothing that Dynamo skipped."""
    seen = context.journal.observation
    graphs = Counter(graph.case for graph in seen.graphs)
    return (
        not seen.break_sites
        and not seen.skipped_frames
        and seen.coverage is not None
        and seen.coverage.ops_total == seen.coverage.ops_captured
        and all(graphs[case.name] == 1 for case in context.cases)
    )


def _is_required(context: Context) -> bool:
    """Return whether the options request the stage, or the call of the user's code that compiles the target does."""
    options = context.work.options
    return options.fullgraph or (options.compile_call is not None and options.compile_call.is_fullgraph)


def _is_requested(context: Context) -> bool:
    return not context.given or context.as_a_target or context.work.options.fullgraph


STEP = Step("fullgraph", run, requires=("capture", "in_turn"), is_requested=_is_requested)
