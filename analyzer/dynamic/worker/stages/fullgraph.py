"""Whether one graph holds it all."""

from __future__ import annotations

from tcready.dynamic.worker import distributed
from tcready.dynamic.worker.calling import call, compile_error
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.step import Step, failing
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.dynamic.worker.torch_internals.placement import compile_callable


def run(context: Context) -> None:
    """Where the default run broke, only if that was asked for."""
    journal, asked = context.journal, context.work.options.fullgraph
    seen = journal.observation
    broke = bool(seen.break_sites) or any(not frame.benign for frame in seen.skipped_frames)
    with failing(context, "fullgraph"):
        elsewhere = distributed.on_any(broke, context.work)
    if elsewhere and not asked:
        whose = "" if broke else "of another rank "
        why = f"the default run {whose}has breaks (--fullgraph tries all the same)"
        journal.end("not_run", why, "not_asked")
        return
    try:
        for case in context.cases:
            dynamo.reset()
            whole = compile_callable(
                context.build(), backend="eager", fullgraph=True, **context.compile_options
            )
            call(context, whole, case)
    except Exception as error:
        journal.end("fail", compile_error(error, context), "compile_error")
    else:
        journal.end("pass")
    finally:
        dynamo.reset()


def _asked(context: Context) -> bool:
    return not context.given or context.as_a_target or context.work.options.fullgraph


STEP = Step("fullgraph", run, requires=("capture", "in_turn"), asked=_asked)
