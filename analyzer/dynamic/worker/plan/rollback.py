"""Try the printed lines that return to eager, and those for production."""

from __future__ import annotations

import contextlib
import copy
import io
import os
from collections.abc import Iterator, Sequence

import torch
from tcready.dynamic.worker.core.calling import call
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.journal import one_line
from tcready.dynamic.worker.measure.agreement import case_calls, judge
from tcready.dynamic.worker.measure.call_outcome import CallOutcome
from tcready.dynamic.worker.measure.dispatch_counts import CountingBackend
from tcready.dynamic.worker.measure.effects import outcome_of_call
from tcready.dynamic.worker.plan.placements import fresh
from tcready.dynamic.worker.torch_internals.compile_calls import execute, logs_as_before, stance
from torch import nn

LARGEST = 4 << 30
"""The size of a state_dict in bytes above which no checkpoint is saved."""
SWITCH = "TCREADY_EAGER"
ROLLBACK = f"""\
import os
if os.environ.get("{SWITCH}") == "1":  # set it, and nothing compiled is called any more
    torch.compiler.set_stance("force_eager")"""
LOGGING = "torch._logging.set_logs(graph_breaks=True, recompiles=True)"
WARM = 'torch.compiler.set_stance("eager_on_recompile")'
SECONDS = "print(torch._dynamo.utils.compile_times())"
PRODUCTION = f"""\
{LOGGING}  # before the first call: log each break and each recompilation
# here: call the model twice with each size that it must take
{SECONDS}  # seconds of compiling, by phase
{WARM}  # once warm: a call that would compile again runs eagerly, and no line is logged for it"""


def rollback_fails(context: Context, code: str) -> str | None:
    """Return why the lines do not restore eager; None if no operation runs in a graph under them."""
    case = context.cases[0]
    try:
        with fresh(context) as model, stance("default"), _environment(SWITCH, "1"):
            backend = CountingBackend(model, context.work.options.device)
            placed = execute(f"{code}\n{ROLLBACK}", model, backend)
            call(context, placed, case, backend.count())
    except Exception as error:
        return one_line(error, context.work.root)
    captured = backend.counts.captured.ops.total()
    return f"{captured} operations still ran in graphs" if captured else None


def production_fails(context: Context, code: str, expected: Sequence[CallOutcome] | None) -> str | None:
    """Return what goes wrong with the lines for production; None if nothing does, and a warm call has the output of
    eager."""
    case = context.cases[0]
    try:
        with fresh(context) as model, logs_as_before(), stance("default"), contextlib.redirect_stdout(io.StringIO()):
            backend = CountingBackend(model, context.work.options.device)
            placed = execute(f"{code}\n{LOGGING}", model, backend)
            first = outcome_of_call(context, model, placed, case)
            call(context, placed, case)
            execute(f"{SECONDS}\n{WARM}", model, backend)
            call(context, placed, case, backend.count())
    except Exception as error:
        return one_line(error, context.work.root)
    if not backend.counts.captured.ops.total():
        return "nothing ran in graphs"
    if expected is None:
        return None

    calls = case_calls(context, case, lambda model: execute(code, model, "eager"))
    found = judge(context, expected[0], first, calls)
    return None if found.ok else found.text


def checkpoint(context: Context, code: str) -> str:
    """The result of saving and loading: a checkpoint of the compiled model into an eager one, and the other way round.

    In one line; empty for a function, and for a model that is too large to be copied for it.
    """
    with fresh(context) as model:
        if not isinstance(model, nn.Module) or _bytes(model) > LARGEST:
            return ""
        placed = execute(code, model, CountingBackend(model, context.work.options.device))
        call(context, placed, context.cases[0])
        saved = _saved(placed)
    eager = copy.deepcopy(context.build())  # a model may share its parameters with others
    failures = [_try_loading(eager, saved, "saved compiled, loaded in eager", context)]
    with fresh(context) as model:
        placed = execute(code, model, CountingBackend(model, context.work.options.device))
        failures.append(_try_loading(placed, _saved(eager), "saved in eager, loaded compiled", context))
    return "; ".join(filter(None, failures)) or "saved and loaded both ways between eager and compiled"


def _bytes(model: nn.Module) -> int:
    tensors = (value for value in model.state_dict().values() if isinstance(value, torch.Tensor))
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _saved(model: nn.Module) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    return buffer


def _try_loading(model: nn.Module, saved: io.BytesIO, what: str, context: Context) -> str:
    """Return why it failed, in one line; empty if it did not."""
    try:
        model.load_state_dict(torch.load(saved, map_location=context.work.options.device, weights_only=False))
    except Exception as error:
        return f"{what}: {one_line(error, context.work.root)}"
    return ""


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
