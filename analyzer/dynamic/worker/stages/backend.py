"""The target under Inductor, on its device: does it compile, how long does that take, what comes of it.

Every compilation here has a cache folder of its own, new for each run: `cold` is cold, and the user's cache is left
as it is. Inductor is loaded only if this is asked for.
"""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from tcready.dynamic.worker import narrate
from tcready.dynamic.worker.budget import spent
from tcready.dynamic.worker.calling import call, compile_error
from tcready.dynamic.worker.case import Case
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.frames import is_user_file
from tcready.dynamic.worker.journal import BUDGET_SPENT, counted
from tcready.dynamic.worker.loading import dtype_of
from tcready.dynamic.worker.loss import NotTrainedError, loss_of
from tcready.dynamic.worker.outcome import Outcome, difference
from tcready.dynamic.worker.parity import flatten
from tcready.dynamic.worker.step import Step
from tcready.dynamic.worker.toolchain import PREFIX, missing_toolchain
from tcready.dynamic.worker.torch_internals import dynamo, inductor
from tcready.dynamic.worker.torch_internals.placement import compile_callable
from tcready.schema import Backend, CudaGraphSkip, Fallback

CALLS = 3
"""Calls of what was compiled: CUDA graphs are recorded on the second one, so the last is the one without compiling."""
TOLERANCES = {torch.float64: 1e-6, torch.complex128: 1e-6, torch.float32: 1e-3, torch.complex64: 1e-3}
"""The largest difference allowed, over the largest value of its tensor: fused kernels add in another order."""
LOW_PRECISION = 2e-2
"""For every other floating dtype: Inductor keeps float32 between fused operations where eager code rounds."""
CUDA_GRAPHS = "reduce-overhead"
"""The mode of torch.compile that replays CUDA graphs."""


class _MismatchError(Exception):
    """The outputs differ from eager; the message says how."""


def run(context: Context) -> None:
    """Whatever happens, it ends the stage and not the run; each step is in the journal before the next begins."""
    journal = context.journal
    journal.begin("backend", "backend: loading Inductor")
    if spent(context):
        journal.end("not_run", f"{BUDGET_SPENT} before it began", "budget")
        return
    try:
        # Beside the state file, so that the launcher clears it away even if this process dies.
        room = os.path.dirname(os.path.abspath(journal.state_path)) if journal.state_path else None
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(prefix=PREFIX, dir=room, ignore_cleanup_errors=True)
            )
            stack.enter_context(inductor.inductor_cache(folder))
            missing = missing_toolchain(context.work.options.device, context)
            if missing:
                journal.end("not_run", missing, "no_toolchain")
                return
            details = [_case(context, case) for case in context.cases]
            journal.end("pass", "; ".join(details))
    except _MismatchError as error:
        journal.end("fail", str(error), "mismatch")
    except Exception as error:
        journal.end("fail", compile_error(error, context), "compile_error")
    finally:
        dynamo.reset()


def _put(context: Context, found: Backend) -> None:
    """Into the observation, in place of what stands there of its case and mode."""
    key = (found.case, found.mode)
    others = [item for item in context.journal.observation.backend if (item.case, item.mode) != key]
    context.journal.add(backend=(*others, found))


def _case(context: Context, case: Case) -> str:
    """Everything about one case; what it came to, in a few words. Raises _MismatchError, or what compiling raises."""
    expected, draws = _eager(context, case)
    found, outcome = _compiled(context, case, "default")
    parts = [f"cold {_seconds(found.cold_seconds)}"]
    cut: list[str] = []

    def keep(changed: Backend) -> Backend:
        _put(context, changed)
        context.journal.write(f"backend{case.label}")
        return changed

    found = keep(found)
    if spent(context):
        cut.append("the warm compilation")
    else:
        warm, _ = _compiled(context, case, "default", "warm")
        found = keep(
            replace(
                found,
                warm_seconds=warm.cold_seconds,
                cache_hits=warm.cache_hits,
                cache_misses=warm.cache_misses,
            )
        )
        parts.append(f"warm {_seconds(found.warm_seconds)}")
    parts.append(_counted(found))
    if draws and spent(context):
        cut.append("the comparison with eager")
    else:
        if draws:
            # Inductor's own generator gives other numbers: to compare, it has to draw those of eager code.
            with inductor.eager_random():
                _, outcome = _compiled(context, case, "default", "drawing eager's random numbers")
        found = keep(_compared(context, case, expected, outcome, found, parts))
    if torch.device(context.work.options.device).type == "cuda":
        if spent(context):
            cut.append(f"mode={CUDA_GRAPHS!r}")
        else:
            try:
                graphs, _ = _compiled(context, case, CUDA_GRAPHS)
            except Exception as error:
                keep(Backend(CUDA_GRAPHS, case.name, error=compile_error(error, context)))
                parts.append(f"mode={CUDA_GRAPHS!r} fails")
            else:
                keep(graphs)
                kept_out = (
                    f", {counted(len(graphs.cudagraph_skips), 'reason')} for none"
                    if graphs.cudagraph_skips
                    else ""
                )
                parts.append(counted(graphs.cudagraphs or 0, "CUDA graph") + kept_out)
    cut_text = f"; {' and '.join(cut)} not run: {BUDGET_SPENT}" if cut else ""
    return ", ".join(parts) + cut_text + case.label


def _seconds(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.2f} s"


def _counted(found: Backend) -> str:
    fallbacks = sum(item.count for item in found.fallbacks)
    numbers = (
        (found.kernels, "kernel"),
        (found.extern_calls, "extern call"),
        (fallbacks, "fallback operator"),
    )
    return ", ".join(counted(*each) for each in numbers)


def _step(context: Context, function: Callable[..., Any], model: Any, case: Case) -> Outcome:
    """One call, in training with its backward. The leaves are copies: a CUDA graph writes over its outputs."""
    result = call(context, function, case)
    gradients: dict[str, torch.Tensor] = {}
    if context.work.options.mode == "train":
        with contextlib.suppress(NotTrainedError):
            loss_of(result)(result).backward()
        if isinstance(model, torch.nn.Module):
            for name, parameter in model.named_parameters():
                if parameter.grad is not None:
                    gradients[f"gradient of {name}"] = parameter.grad
                    parameter.grad = None
    leaves, structure = flatten(result)
    labels = [f"output {index}" for index in range(len(leaves))]
    copied = [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    copied += [gradient.detach().clone() for gradient in gradients.values()]
    return Outcome(tuple(zip(labels + list(gradients), copied, strict=True)), tuple(structure))


def _eager(context: Context, case: Case) -> tuple[Outcome, bool]:
    """What eager code gives, and whether it draws random numbers."""
    model = context.build()
    with torch.compiler.set_stance("force_eager"):
        outcome = _step(context, model, model, case)
    after = _generators(context.work.options.device)
    call(context, lambda *_args, **_kwargs: None, case)  # seeds, and does nothing else
    draws = any(
        not torch.equal(one, other)
        for one, other in zip(after, _generators(context.work.options.device), strict=True)
    )
    return outcome, draws


def _generators(device: str) -> list[torch.Tensor]:
    states = [torch.get_rng_state()]
    if torch.device(device).type == "cuda":
        states.append(torch.cuda.get_rng_state(torch.device(device)))
    return states


def _compiled(context: Context, case: Case, mode: str, note: str = "cold") -> tuple[Backend, Outcome]:
    """Compile anew (from what the cache folder holds) and call; `cold_seconds` is what the first call took longer."""
    context.journal.write(f"backend, {mode}, {note}{case.label}")
    inductor.forget_compiled()
    model = context.build()
    compiled = compile_callable(model, backend="inductor", mode=mode)
    record = inductor.InductorRecord()
    times: list[float] = []
    outcome: Outcome | None = None
    with inductor.inductor_recording(record):
        for _ in range(CALLS):
            _wait(context.work.options.device)
            start = time.perf_counter()
            given = _step(context, compiled, model, case)
            _wait(context.work.options.device)
            times.append(time.perf_counter() - start)
            outcome = outcome or given
    assert outcome is not None
    graphs = mode != "default"
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


def _wait(device: str) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(torch.device(device))


def _skips(texts: list[str], context: Context) -> tuple[CudaGraphSkip, ...]:
    """Distinct reasons with the user's line, in order."""
    found: Counter[CudaGraphSkip] = Counter()
    for text in texts:
        stack = [frame for frame in narrate.parse_stack(text) if is_user_file(frame[0])]
        reason = text.split("\n")[0].split(". Found from")[0].strip()
        path, line = (context.names.path(stack[-1][0]), stack[-1][1]) if stack else (None, None)
        found[CudaGraphSkip(reason, 1, path, line)] += 1
    return tuple(replace(skip, count=count) for skip, count in found.items())


def _compared(
    context: Context, case: Case, expected: Outcome, outcome: Outcome, found: Backend, parts: list[str]
) -> Backend:
    """The value with its difference from eager; raises _MismatchError where that is beyond the tolerance."""
    tolerance = _tolerance(context, expected)
    result = difference(expected, outcome, tolerance)
    if result.text is not None and difference(expected, _eager(context, case)[0], tolerance).text is not None:
        parts.append("not compared: eager differs from eager under the same seeds")
        return found
    known_share = result.share is not None and math.isfinite(result.share)
    found = replace(
        found, difference=result.share if known_share else None, tolerance=tolerance if known_share else None
    )
    if result.text is not None:
        _put(context, found)
        raise _MismatchError(f"differs from eager: {result.text}{case.label}")
    if result.share is None:
        parts.append("no tensor to compare")
    else:
        parts.append(f"within {result.share:.1e} of eager" if result.share else "equal to eager")
    return found


def _tolerance(context: Context, expected: Outcome) -> float:
    """By the coarsest dtype that the outputs, the parameters or autocast have: outputs may be cast up at the end."""
    model = context.build()
    kinds = {leaf.dtype for _, leaf in expected.leaves if isinstance(leaf, torch.Tensor)}
    if isinstance(model, torch.nn.Module):
        kinds |= {parameter.dtype for parameter in model.parameters()}
    if context.work.options.autocast:
        kinds.add(dtype_of(context.work.options.autocast))
    floating = [kind for kind in kinds if kind.is_floating_point or kind.is_complex]
    return max((TOLERANCES.get(kind, LOW_PRECISION) for kind in floating), default=TOLERANCES[torch.float32])


STEP = Step("backend", run, requires=("capture",), asked=lambda context: context.work.options.backend)
