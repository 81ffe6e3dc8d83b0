"""Whether one graph holds it all."""

from __future__ import annotations

from tcready.dynamic.worker.calling import call, compile_error
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.step import Step
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.dynamic.worker.torch_internals.placement import compile_callable


def run(context: Context) -> None:
    """Where the default run broke, only if that was asked for."""
    seen = context.journal.observation
    broke = seen.break_sites or any(not frame.benign for frame in seen.skipped_frames)
    if broke and not context.work.options.fullgraph:
        context.journal.skip(
            "fullgraph", "the default run has breaks (--fullgraph tries all the same)", "not_asked"
        )
        return
    context.journal.begin("fullgraph")
    try:
        for case in context.cases:
            dynamo.reset()
            whole = compile_callable(
                context.build(), backend="eager", fullgraph=True, **context.compile_options
            )
            call(context, whole, case)
    except Exception as error:
        context.journal.end("fail", compile_error(error, context), "compile_error")
    else:
        context.journal.end("pass")
    finally:
        dynamo.reset()


def _asked(context: Context) -> bool:
    return not context.given or context.as_a_target or context.work.options.fullgraph


STEP = Step("fullgraph", run, requires=("capture", "in_turn"), asked=_asked)
