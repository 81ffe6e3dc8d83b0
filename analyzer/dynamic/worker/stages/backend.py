"""Compile the target with Inductor on its device: check whether it compiles, how long that takes, and what it returns.

Every compilation here has its own new cache folder: `cold` is cold, and the user's cache is not changed. Inductor is
loaded only if this stage is requested.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import torch
from tcready.dynamic.worker.core.budget import begins, spent
from tcready.dynamic.worker.core.calling import compile_error, settle
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.frames import is_user_file
from tcready.dynamic.worker.core.journal import BUDGET_SPENT, counted
from tcready.dynamic.worker.core.step import Step
from tcready.dynamic.worker.core.toolchain import cache_folder, compiler_cache, missing_toolchain
from tcready.dynamic.worker.measure.agreement import UNSTEADY_WORDS, ComparedCalls, Prepare, judge, rounding_words
from tcready.dynamic.worker.measure.call_outcome import CallOutcome
from tcready.dynamic.worker.measure.output_comparison import tensors_in
from tcready.dynamic.worker.measure.parity_causes import find_backend_cause
from tcready.dynamic.worker.measure.precision import Called, called, called_eagerly
from tcready.dynamic.worker.torch_internals import dynamo, inductor, tracing
from tcready.dynamic.worker.torch_internals.compile_calls import compile_callable
from tcready.portable.events import to_schema
from tcready.schema.run import Backend, CudaGraphSkip, Fallback

COMPILED_CALLS = 3
"""The number of compiled calls: CUDA graphs are recorded in the second one, so the last one includes no compiling."""
COLD = "cold"
"""The compilation with an empty cache."""
DEFAULT = "default"
CUDA_GRAPHS = "reduce-overhead"
"""The mode of torch.compile that replays CUDA graphs."""


class _MismatchError(Exception):
    """The outputs differ from eager; the message says how."""


def run(context: Context) -> None:
    """Run the stage. Errors end the stage but not the run; each step is in the journal before the next begins."""
    journal = context.journal
    if not begins(context, "backend", "backend: loading Inductor"):
        return
    try:
        if missing := missing_toolchain(context.work.options.device, context):
            journal.end("not_run", missing, "no_toolchain")
            return
        with cache_folder(context) as folder, compiler_cache(context, folder):
            details = [_case(context, case) for case in context.cases]
        journal.end("pass", "; ".join(details))
    except _MismatchError as error:
        journal.end("fail", str(error), "mismatch")
    except Exception as error:
        journal.end("fail", compile_error(error, context), "compile_error")
    finally:
        dynamo.reset()


def _store(context: Context, found: Backend) -> None:
    """Put the value into the observation, in place of the earlier one of its case and mode."""
    key = (found.case, found.mode)
    others = [item for item in context.journal.observation.backend if (item.case, item.mode) != key]
    context.journal.add(backend=(*others, found))


def _case(context: Context, case: Case) -> str:
    """Run one case and describe the result in a few words. Raises _MismatchError, or what compiling raises."""
    eager = called_eagerly(context, context.build, case)
    mode = _mode(context)
    found, outcome = _compile_and_call(context, case, mode)
    parts = [f"cold {_seconds(found.cold_seconds)}"]
    cut: list[str] = []

    def keep(changed: Backend) -> Backend:
        _store(context, changed)
        context.journal.write(f"backend{case.label}")
        return changed

    found = keep(found)
    if spent(context):
        cut.append("the warm compilation")
    else:
        warm, _ = _compile_and_call(context, case, mode, "warm")
        found = keep(
            replace(found, warm_seconds=warm.cold_seconds, cache_hits=warm.cache_hits, cache_misses=warm.cache_misses)
        )
        parts.append(f"warm {_seconds(found.warm_seconds)}")
    parts.append(_counted(found))
    if eager.draws and spent(context):
        cut.append("the comparison with eager")
    else:
        if eager.draws:
            # Inductor's own generator gives other numbers: to compare, it has to draw those of eager code.
            with inductor.eager_random():
                _, outcome = _compile_and_call(context, case, mode, "drawing eager's random numbers")
        found = keep(_add_difference(context, case, eager, outcome, found, parts))
    if torch.device(context.work.options.device).type == "cuda" and mode != CUDA_GRAPHS:
        if spent(context):
            cut.append(f"mode={CUDA_GRAPHS!r}")
        else:
            try:
                graphs, _ = _compile_and_call(context, case, CUDA_GRAPHS)
            except Exception as error:
                keep(Backend(CUDA_GRAPHS, case.name, error=compile_error(error, context)))
                parts.append(f"mode={CUDA_GRAPHS!r} fails")
            else:
                keep(graphs)
                excluded = (
                    f", {counted(len(graphs.cudagraph_skips), 'reason')} for none" if graphs.cudagraph_skips else ""
                )
                parts.append(counted(graphs.cudagraphs or 0, "CUDA graph") + excluded)
    cut_text = f"; {' and '.join(cut)} not run: {BUDGET_SPENT}" if cut else ""
    return ", ".join(parts) + cut_text + case.label


def _mode(context: Context) -> str:
    """Return the mode in which the user's code compiles the target; the default one if that is not known."""
    call = context.work.options.compile_call
    return str(call.value("mode") or DEFAULT) if call is not None else DEFAULT


def _options(context: Context, mode: str) -> dict[str, Any]:
    """Return the arguments of `torch.compile` in a mode; in the default one with the options of Inductor in the user's
    code. Torch refuses what it does not know."""
    call = context.work.options.compile_call
    given = call.value("options") if call is not None and mode == DEFAULT else None
    return {**context.compile_options, **({"options": given} if isinstance(given, dict) else {"mode": mode})}


def _seconds(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.2f} s"


def _counted(found: Backend) -> str:
    fallbacks = sum(item.count for item in found.fallbacks)
    numbers = ((found.kernels, "kernel"), (found.extern_calls, "extern call"), (fallbacks, "fallback operator"))
    return ", ".join(counted(*each) for each in numbers)


def _compile_and_call(context: Context, case: Case, mode: str, note: str = COLD) -> tuple[Backend, CallOutcome]:
    """Compile again (with the content of the cache folder) and call; `cold_seconds` is the additional time of the first
    call."""
    context.journal.write(f"backend, {mode}, {note}{case.label}")
    inductor.forget_compiled()
    model = context.build()
    compiled = compile_callable(model, backend="inductor", **_options(context, mode))
    record = inductor.InductorRecord()
    times: list[float] = []
    outcome: CallOutcome | None = None
    folder = context.work.options.trace_out if (mode, note) == (_mode(context), COLD) else None
    with inductor.inductor_recording(record), tracing.traced_into(folder):
        for _ in range(COMPILED_CALLS):
            settle(context)
            start = time.perf_counter()
            given = called(context, compiled, model, case).outcome
            settle(context)
            times.append(time.perf_counter() - start)
            outcome = outcome or given
    assert outcome is not None
    graphs = mode != DEFAULT
    return (
        Backend(
            mode,
            case.name,
            round(max(times[0] - times[-1], 0.0), 4),
            None,
            record.cache_hits,
            record.cache_misses,
            record.kernels,
            record.extern_calls,
            tuple(Fallback(name, count) for name, count in sorted(record.fallbacks.items())),
            cudagraphs=record.cudagraphs if graphs else None,
            cudagraph_skips=_skips(record.skips, context) if graphs else (),
        ),
        outcome,
    )


def _skips(texts: list[str], context: Context) -> tuple[CudaGraphSkip, ...]:
    """Return distinct reasons with the user's line, in order."""
    found: Counter[CudaGraphSkip] = Counter()
    for text in texts:
        stack = [frame for frame in to_schema.parse_stack(text) if is_user_file(frame[0])]
        reason = text.split("\n")[0].split(". Found from")[0].strip()
        path, line = (context.names.path(stack[-1][0]), stack[-1][1]) if stack else (None, None)
        found[CudaGraphSkip(reason, 1, path, line)] += 1
    return tuple(replace(skip, count=count) for skip, count in found.items())


def _add_difference(
    context: Context, case: Case, eager: Called, outcome: CallOutcome, found: Backend, parts: list[str]
) -> Backend:
    """Return the value with its difference from eager; raises _MismatchError if that is more than rounding."""

    def run(model: Any, prepare: Prepare, is_compiled: bool) -> CallOutcome:
        function = model
        if is_compiled:
            inductor.forget_compiled()
            function = compile_callable(model, backend="inductor", **_options(context, _mode(context)))
        return called(context, function, model, prepare(case), eager.loss).outcome

    with inductor.eager_random() if eager.draws else contextlib.nullcontext():
        result = judge(context, eager.outcome, outcome, ComparedCalls(run, cases=(case,), fused=True))
    if tensors_in(eager.outcome):
        found = replace(found, difference=result.compared.difference if result.compared is not None else 0.0)
    if result.verdict == "not_comparable":
        parts.append(f"not compared: {UNSTEADY_WORDS}")
    elif result.verdict == "mistake":
        _store(context, found)
        if context.journal.observation.parity_cause is None and not eager.draws:
            context.journal.write(f"backend, looking for what changes the result{case.label}")
            context.journal.add(parity_cause=find_backend_cause(context, case, eager.outcome))
        raise _MismatchError(f"differs from eager: {result.text}{case.label}")
    elif result.compared is not None:
        parts.append(rounding_words(result.compared))
    else:
        parts.append("equal to eager" if tensors_in(eager.outcome) else "no tensor to compare")
    return found


STEP = Step(
    "backend", run, requires=("capture",), is_requested=lambda context: context.work.options.backend, needs_values=True
)
