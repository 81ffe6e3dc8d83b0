"""The lines that put eager back, and those for production: what the report prints is tried here."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Sequence
from typing import Any

from tcready.dynamic.worker.calling import call
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.journal import one_line
from tcready.dynamic.worker.ops import CountingBackend
from tcready.dynamic.worker.parity import compare
from tcready.dynamic.worker.placements import fresh
from tcready.dynamic.worker.torch_internals.placement import executed, logs_as_before, stance

SWITCH = "TCREADY_EAGER"
ROLLBACK = f"""\
import os
if os.environ.get("{SWITCH}") == "1":  # set it, and nothing compiled is called any more
    torch.compiler.set_stance("force_eager")"""
LOGGING = "torch._logging.set_logs(graph_breaks=True, recompiles=True)"
WARM = 'torch.compiler.set_stance("eager_on_recompile")'
SECONDS = "print(torch._dynamo.utils.compile_times())"
PRODUCTION = f"""\
{LOGGING}  # log each break and each recompilation
# here: call the model twice with each size that it must take
{SECONDS}  # seconds of compiling
{WARM}  # from now on run eagerly what would compile again"""


def rollback_fails(context: Context, code: str) -> str | None:
    """Why the lines do not put eager back; None if no operation runs in a graph under them."""
    case = context.cases[0]
    try:
        with fresh(context) as model, stance("default"), _environment(SWITCH, "1"):
            backend = CountingBackend(model, context.work.options.device)
            placed = executed(f"{code}\n{ROLLBACK}", model, backend)
            call(context, placed, case, backend.count())
    except Exception as error:
        return one_line(error, context.work.root)
    captured = backend.counts.captured.ops.total()
    return f"{captured} operations still ran in graphs" if captured else None


def production_fails(context: Context, code: str, expected: Sequence[Any] | None) -> str | None:
    """What goes wrong with the lines for production; None if nothing does, and a warm call gives what eager gives."""
    case = context.cases[0]
    try:
        with (
            fresh(context) as model,
            logs_as_before(),
            stance("default"),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            backend = CountingBackend(model, context.work.options.device)
            placed = executed(f"{code}\n{LOGGING}", model, backend)
            first = call(context, placed, case)
            call(context, placed, case)
            executed(f"{SECONDS}\n{WARM}", model, backend)
            call(context, placed, case, backend.count())
    except Exception as error:
        return one_line(error, context.work.root)
    if not backend.counts.captured.ops.total():
        return "nothing ran in graphs"
    return None if expected is None else compare(expected[0], first, context.tolerance).difference


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
