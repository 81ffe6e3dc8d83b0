"""The model runs without compiling: its outputs, the lines that run, its operations by module."""

from __future__ import annotations

import contextlib

import torch
from tcready.dynamic.worker import custom_ops
from tcready.dynamic.worker.calling import call
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.frames import line_sets
from tcready.dynamic.worker.intents import intents
from tcready.dynamic.worker.journal import one_line
from tcready.dynamic.worker.lines import executed_lines
from tcready.dynamic.worker.ops import Counts, counted_eager, module_tree
from tcready.dynamic.worker.step import Step, failing


def run(context: Context) -> None:
    """Leaves the outputs of one eager call per case."""
    lines: set[tuple[str, int]] = set()
    counts = Counts()
    context.eager_outputs = []
    with failing(context, "eager"):
        for case in context.cases:
            model = context.build()
            with torch.compiler.set_stance("force_eager"):
                context.eager_outputs.append(call(context, model, case, _watching(context, lines)))
                try:
                    counting = counted_eager(model, counts)
                    call(
                        context,
                        model,
                        case,
                        _watching(context, lines),
                        counting,
                        custom_ops.watching(context.custom_ops, case),
                    )
                except Exception as error:
                    context.journal.warn(
                        f"operations were not counted by module: {one_line(error, context.work.root)}"
                    )
        context.journal.add(
            executed=line_sets(lines, context.names),
            modules=module_tree(model, counts, context.names, False),
            intents=intents(model, lines, context.names),
        )
        context.journal.end("pass")
    custom_ops.tell(context)


def _watching(context: Context, lines: set[tuple[str, int]]) -> contextlib.AbstractContextManager[None]:
    return executed_lines(lines) if context.watches_lines else contextlib.nullcontext()


STEP = Step("eager", run, requires=("build",))
