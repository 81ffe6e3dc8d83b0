"""The target under Inductor, on its device: does it compile, how long does that take, what comes of it.

Every compilation here has a cache folder of its own, new for each run: `cold` is cold, and the user's cache is left
as it is. Inductor is loaded only where this is asked for.
"""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from tcready.dynamic.worker import narrate
from tcready.dynamic.worker.frames import is_user_file
from tcready.dynamic.worker.journal import BUDGET_SPENT, counted, told
from tcready.dynamic.worker.originals import compile_callable
from tcready.dynamic.worker.parity import flatten
from tcready.dynamic.worker.target import Case, dtype_of
from tcready.dynamic.worker.torch_internals import dynamo, inductor
from tcready.dynamic.worker.training import NotTrainedError, loss_of
from tcready.schema import Backend, CudaGraphSkip, Fallback

if TYPE_CHECKING:
    from tcready.dynamic.worker.run import Run

Call = Callable[[Callable[..., Any], Case], Any]
"""`run.call` of this run: one call with fresh inputs and the seed of every call."""

CALLS = 3
"""Calls of what was compiled: CUDA graphs are recorded on the second one, so the last is the one without compiling."""
TOLERANCES = {torch.float64: 1e-6, torch.complex128: 1e-6, torch.float32: 1e-3, torch.complex64: 1e-3}
"""The largest difference allowed, over the largest value of its tensor: fused kernels add in another order."""
LOW_PRECISION = 2e-2
"""For every other floating dtype: Inductor keeps float32 between fused operations where eager code rounds."""
FLOOR = 1e-3
"""A tensor is not held to less than this part of the largest value of all: what should be zero is noise twice."""
CUDA_GRAPHS = "reduce-overhead"
"""The mode of torch.compile that replays CUDA graphs."""
PREFIX = "torchinductor_tcready_"
"""Of the cache folder: by it `frames.is_user_file` knows generated code."""


@dataclass(frozen=True)
class Outcome:
    """What one call gave: flat, copied, and in training the gradients of the parameters behind it."""

    leaves: tuple[tuple[str, Any], ...]
    structure: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """`share`: the largest difference over the largest value; `text` says which, where it is beyond the tolerance."""

    share: float | None
    text: str | None


class _FailedError(Exception):
    """The stage ended; the message is its detail."""


def stage(this: Run, call: Call, reason: Callable[[BaseException], str]) -> None:
    """The stage `backend`. `reason` puts an exception of compiled code into one line, with the user's line.

    Whatever happens, it ends the stage and not the run; each step is in the journal before the next begins.
    """
    journal = this.journal
    journal.begin("backend", "backend: loading Inductor")
    if this.spent():
        journal.end("not_run", f"{BUDGET_SPENT} before it began")
        return
    try:
        # Beside the state file, so that the launcher clears it away even if this process dies.
        room = os.path.dirname(os.path.abspath(journal.state_path)) if journal.state_path else None
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(prefix=PREFIX, dir=room, ignore_cleanup_errors=True)
            )
            stack.enter_context(inductor.inductor_cache(folder))
            missing = missing_toolchain(this.work.options.device, this)
            if missing:
                journal.end("not_run", missing)
                return
            details = [_case(this, call, case, reason) for case in this.cases]
            journal.end("pass", "; ".join(details))
    except _FailedError as error:
        journal.end("fail", str(error))
    except Exception as error:
        journal.end("fail", reason(error))
    finally:
        dynamo.reset()


def missing_toolchain(device: str, this: Run) -> str | None:
    """Why Inductor cannot compile anything for the device here, or None.

    Proved by compiling one addition: headers, drivers and old GPUs fail in many ways, each of which would be blamed
    on the model otherwise. What a machine needs once (the choice of vector instructions) is done by it.
    """
    kind = torch.device(device).type
    if kind == "cpu" and inductor.cpp_compiler() is None:
        named = os.environ.get("CXX")
        asked = f"CXX={named}" if named else "CXX is not set, and there is no default one"
        return f"Inductor needs a C++ compiler for the CPU and none was found ({asked})"
    if kind in ("cuda", "xpu") and not inductor.has_triton_package():
        return f"Inductor needs Triton for {kind}, and it is not installed"
    this.journal.write("backend: the toolchain")
    try:
        compile_callable(_add_one, backend="inductor")(torch.ones(8, device=device))
    except Exception as error:
        return f"Inductor cannot compile one addition for {device} here: {told(error, this.work.root)}"
    return None


def _add_one(tensor: torch.Tensor) -> torch.Tensor:
    return tensor + 1


def _put(this: Run, found: Backend) -> None:
    """Into the observation, in place of what stands there of its case and mode."""
    key = (found.case, found.mode)
    others = [item for item in this.journal.observation.backend if (item.case, item.mode) != key]
    this.journal.add(backend=(*others, found))


def _case(this: Run, call: Call, case: Case, reason: Callable[[BaseException], str]) -> str:
    """Everything about one case; what it came to, in a few words. Raises _FailedError, or what compiling raises."""
    expected, draws = _eager(this, call, case)
    found, outcome = _compiled(this, call, case, "default")
    parts = [f"cold {_seconds(found.cold_seconds)}"]
    cut: list[str] = []

    def keep(changed: Backend) -> Backend:
        _put(this, changed)
        this.journal.write(f"backend{case.label}")
        return changed

    found = keep(found)
    if this.spent():
        cut.append("the warm compilation")
    else:
        warm, _ = _compiled(this, call, case, "default", "warm")
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
    if draws and this.spent():
        cut.append("the comparison with eager")
    else:
        if draws:
            # Inductor's own generator gives other numbers: to compare, it has to draw those of eager code.
            with inductor.eager_random():
                _, outcome = _compiled(this, call, case, "default", "drawing eager's random numbers")
        found = keep(_compared(this, call, case, expected, outcome, found, parts))
    if torch.device(this.work.options.device).type == "cuda":
        if this.spent():
            cut.append(f"mode={CUDA_GRAPHS!r}")
        else:
            try:
                graphs, _ = _compiled(this, call, case, CUDA_GRAPHS)
            except Exception as error:
                keep(Backend(CUDA_GRAPHS, case.name, error=reason(error)))
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


def _step(this: Run, call: Call, function: Callable[..., Any], model: Any, case: Case) -> Outcome:
    """One call, in training with its backward. The leaves are copies: a CUDA graph writes over its outputs."""
    result = call(function, case)
    gradients: dict[str, torch.Tensor] = {}
    if this.work.options.mode == "train":
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


def _eager(this: Run, call: Call, case: Case) -> tuple[Outcome, bool]:
    """What eager code gives, and whether it draws random numbers."""
    model = this.build()
    with torch.compiler.set_stance("force_eager"):
        outcome = _step(this, call, model, model, case)
    after = _generators(this.work.options.device)
    call(lambda *_args, **_kwargs: None, case)  # seeds, and does nothing else
    draws = any(
        not torch.equal(one, other)
        for one, other in zip(after, _generators(this.work.options.device), strict=True)
    )
    return outcome, draws


def _generators(device: str) -> list[torch.Tensor]:
    states = [torch.get_rng_state()]
    if torch.device(device).type == "cuda":
        states.append(torch.cuda.get_rng_state(torch.device(device)))
    return states


def _compiled(this: Run, call: Call, case: Case, mode: str, note: str = "cold") -> tuple[Backend, Outcome]:
    """Compile anew (from what the cache folder holds) and call; `cold_seconds` is what the first call took longer."""
    this.journal.write(f"backend, {mode}, {note}{case.label}")
    inductor.forget_compiled()
    model = this.build()
    compiled = compile_callable(model, backend="inductor", mode=mode)
    record = inductor.InductorRecord()
    times: list[float] = []
    outcome: Outcome | None = None
    with inductor.inductor_recording(record):
        for _ in range(CALLS):
            _wait(this.work.options.device)
            start = time.perf_counter()
            given = _step(this, call, compiled, model, case)
            _wait(this.work.options.device)
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
            cudagraph_skips=_skips(record.skips, this) if graphs else (),
        ),
        outcome,
    )


def _wait(device: str) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(torch.device(device))


def _skips(texts: list[str], this: Run) -> tuple[CudaGraphSkip, ...]:
    """Distinct reasons with the user's line, in order."""
    found: Counter[CudaGraphSkip] = Counter()
    for text in texts:
        stack = [frame for frame in narrate.parse_stack(text) if is_user_file(frame[0])]
        reason = text.split("\n")[0].split(". Found from")[0].strip()
        path, line = (this.names.path(stack[-1][0]), stack[-1][1]) if stack else (None, None)
        found[CudaGraphSkip(reason, 1, path, line)] += 1
    return tuple(replace(skip, count=count) for skip, count in found.items())


# Parity


def _compared(
    this: Run, call: Call, case: Case, expected: Outcome, outcome: Outcome, found: Backend, parts: list[str]
) -> Backend:
    """The value with its difference from eager; raises _FailedError where that is beyond the tolerance."""
    tolerance = _tolerance(this, expected)
    result = difference(expected, outcome, tolerance)
    if (
        result.text is not None
        and difference(expected, _eager(this, call, case)[0], tolerance).text is not None
    ):
        parts.append("not compared: eager differs from eager under the same seeds")
        return found
    known_share = result.share is not None and math.isfinite(result.share)
    found = replace(
        found, difference=result.share if known_share else None, tolerance=tolerance if known_share else None
    )
    if result.text is not None:
        _put(this, found)
        raise _FailedError(f"differs from eager: {result.text}{case.label}")
    if result.share is None:
        parts.append("no tensor to compare")
    else:
        parts.append(f"within {result.share:.1e} of eager" if result.share else "equal to eager")
    return found


def _tolerance(this: Run, expected: Outcome) -> float:
    """By the coarsest dtype that the outputs, the parameters or autocast have: outputs may be cast up at the end."""
    model = this.build()
    kinds = {leaf.dtype for _, leaf in expected.leaves if isinstance(leaf, torch.Tensor)}
    if isinstance(model, torch.nn.Module):
        kinds |= {parameter.dtype for parameter in model.parameters()}
    if this.work.options.autocast:
        kinds.add(dtype_of(this.work.options.autocast))
    floating = [kind for kind in kinds if kind.is_floating_point or kind.is_complex]
    return max((TOLERANCES.get(kind, LOW_PRECISION) for kind in floating), default=TOLERANCES[torch.float32])


def difference(expected: Outcome, actual: Outcome, tolerance: float) -> Difference:
    """The largest difference between two outcomes, each tensor held against its own largest value.

    Integers, booleans and other values must be equal; so must the places of NaN and infinity.
    """
    if expected.structure != actual.structure or len(expected.leaves) != len(actual.leaves):
        return Difference(None, "the outputs have another structure")
    pairs = list(zip(expected.leaves, actual.leaves, strict=True))
    floor = FLOOR * max(
        (_largest(one) for (_, one), _ in pairs if isinstance(one, torch.Tensor)), default=0.0
    )
    worst: float | None = None
    for (label, one), (_, other) in pairs:
        if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
            if isinstance(one, (bool, int, str)) and one != other:
                return Difference(worst, f"{label}: {one!r} became {other!r}")
            continue
        text, share, size = _tensor_difference(one, other, floor)
        worst = share if worst is None else max(worst, share)
        if text or share > tolerance:
            of = f"by {size:.3g}, {share:.2%} of its largest value ({tolerance:.2%} allowed)"
            return Difference(worst, f"{label}: {text or of}")
    return Difference(worst, None)


def _tensor_difference(
    one: torch.Tensor, other: torch.Tensor, floor: float
) -> tuple[str | None, float, float]:
    """Words for what is no matter of size; else the difference, as a share and as it is."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{one.dtype} {tuple(one.shape)} became {other.dtype} {tuple(other.shape)}", math.inf, math.inf
    if one.layout != torch.strided or other.layout != torch.strided or one.is_quantized:
        return None, 0.0, 0.0
    if not (one.is_floating_point() or one.is_complex()):
        wrong = int((one != other).sum())
        text = f"{wrong} of {one.numel()} values of {one.dtype} differ" if wrong else None
        return text, float(bool(wrong)), float(wrong)
    left, right = _wide(one), _wide(other)
    finite = torch.isfinite(left)
    same = torch.equal(finite, torch.isfinite(right)) and torch.equal(
        torch.nan_to_num(left[~finite]), torch.nan_to_num(right[~finite])
    )
    if not same:
        return "NaN or infinity stand elsewhere", math.inf, math.inf
    size = float((left[finite] - right[finite]).abs().max()) if bool(finite.any()) else 0.0
    return None, size / max(_largest(one), floor, torch.finfo(torch.float32).tiny), size


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    flat = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    kind = torch.float32 if flat.device.type == "mps" else torch.float64  # MPS has no float64
    return flat.to(kind)


def _largest(tensor: torch.Tensor) -> float:
    """The largest finite value, 0 where there is none."""
    if tensor.layout != torch.strided or not (tensor.is_floating_point() or tensor.is_complex()):
        return 0.0
    wide = _wide(tensor).abs()
    wide = wide[torch.isfinite(wide)]
    return float(wide.max()) if wide.numel() else 0.0
