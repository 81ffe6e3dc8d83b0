"""Describe the setup to which the figures of a bench apply: versions, device, clocks, settings."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import subprocess
from pathlib import Path

import torch
from tcready.dynamic.worker.bench import process_memory
from tcready.dynamic.worker.bench.nvml import Gpu, NvmlError
from tcready.dynamic.worker.core.calling import SEED_CALL
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.inputs.loading import SEED_BUILD
from tcready.dynamic.worker.measure.output_comparison import flatten
from tcready.dynamic.worker.torch_internals import compile_calls, inductor
from tcready.schema.bench import BenchRequest

VARIABLES = (
    "OMP_",
    "MKL_",
    "KMP_",
    "GOMP_",
    "CUDA_",
    "NVIDIA_TF32",
    "TORCH",
    "PYTORCH_",
    "TRITON_",
    "NCCL_",
    "CUBLAS_",
)
"""Prefixes of environment variables that change how fast a model runs."""
NAMED = ("CC", "CXX", "LD_PRELOAD", "MALLOC_ARENA_MAX", "MALLOC_CONF")
"""Other such variables."""
OUR_OWN = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
"""Folders of this process only."""
LONGEST = 120
"""The maximum number of characters of an entry."""
GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
CLOCK = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")


def stack_of(context: Context, request: BenchRequest) -> tuple[tuple[str, str], ...]:
    """Return the entries by name, each as text; unknown values are left out."""
    known = context.journal.observation.environment or {}
    everything = {**known, **known.get("packages", {})}
    found = {name: str(value) for name, value in everything.items() if isinstance(value, (str, int, float))}
    found["interop_threads"] = str(torch.get_num_interop_threads())
    with contextlib.suppress(AttributeError):
        found["cores"] = str(len(os.sched_getaffinity(0)))
    with contextlib.suppress(OSError):
        found["governor"] = GOVERNOR.read_text().strip()
    with contextlib.suppress(OSError, ValueError):
        found["clock_cpu"] = f"{int(CLOCK.read_text()) // 1000} MHz"
    if process_memory.is_cuda(context):
        found["cudnn"] = str(torch.backends.cudnn.version())
        found["tf32_matmul"] = str(torch.get_float32_matmul_precision())
        found["tf32_cudnn"] = str(torch.backends.cudnn.allow_tf32)
        found["cudnn_benchmark"] = str(torch.backends.cudnn.benchmark)
        with contextlib.suppress(NvmlError):
            found |= dict(Gpu.of(context.work.options.device).settings())
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found["triton"] = importlib.metadata.version("triton")
    elif compiler := inductor.cpp_compiler():
        found["cpp_compiler"] = _version(compiler)
    found["input_shapes"] = _shapes(context)
    found["isolate_recompiles"] = "yes" if compile_calls.isolates_recompiles() else "no"
    found["seeds"] = f"build {SEED_BUILD}, call {SEED_CALL}, order {request.seed}"
    found |= {f"inductor.{name}": value for name, value in inductor.changed_settings()}
    found |= {
        f"env.{name}": value
        for name, value in sorted(os.environ.items())
        if (name.startswith(VARIABLES) or name in NAMED) and name not in OUR_OWN
    }
    return tuple(found.items())


def _shapes(context: Context) -> str:
    """Return the types and sizes of the tensors with which each case is called; if there are many, a digest of them."""
    cases = []
    for case in context.cases:
        tensors = (leaf for leaf in flatten((case.args, case.kwargs))[0] if isinstance(leaf, torch.Tensor))
        sizes = (f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}" for leaf in tensors)
        cases.append(f"{case.name}: {', '.join(sizes)}" if case.name else ", ".join(sizes))
    text = "; ".join(cases)
    return text if len(text) <= LONGEST else hashlib.sha256(text.encode()).hexdigest()[:16]


def _version(compiler: str) -> str:
    """Return the first line of the compiler's version output."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = [compiler, "--version"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)  # noqa: S603
        return answer.stdout.partition("\n")[0] or compiler
    return compiler
