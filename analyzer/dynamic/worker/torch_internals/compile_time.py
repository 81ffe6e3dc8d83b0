"""Where the seconds of compiling went, and what the caches had, by torch's own count."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch._dynamo
from tcready.dynamic.worker.torch_internals.inductor import METRICS
from torch._dynamo import utils as dynamo_utils

MICRO = 1e-6
KERNELS = (
    "triton_compile_time_us",
    "runtime_triton_autotune_time_us",
    "compile_time_autotune_time_us",
)
"""Waiting for the compilers of kernels (Triton, on a CPU the C++ compiler), and autotuning."""


def begin() -> None:
    """Count anew."""
    dynamo_utils.set_compilation_metrics_limit(METRICS)
    dynamo_utils.clear_compilation_metrics()
    dynamo_utils.counters.clear()


def phases(kernels: str) -> tuple[tuple[str, float], ...]:
    """Seconds since `begin`, each phase without those that it contains; that of kernels under the name `kernels`.

    Empty for a torch that does not count them.
    """
    dynamo = aot = inductor = compilers = recorded = 0.0
    for row in dynamo_utils.get_compilation_metrics():
        of = functools.partial(_seconds, row)
        forward, backward = (
            of("aot_autograd_cumulative_compile_time_us"),
            of("backward_cumulative_compile_time_us"),
        )
        graphs = of("inductor_cumulative_compile_time_us")
        waited = of("triton_compile_time_us") + of("compile_time_autotune_time_us")
        dynamo += max(0.0, of("dynamo_cumulative_compile_time_us") - forward)
        # A graph from a cache is loaded, and its kernels are compiled if need be, without Inductor.
        aot += max(0.0, forward + backward - max(graphs, waited))
        inductor += max(0.0, graphs - waited)
        compilers += sum(of(name) for name in KERNELS)
        recorded += of("runtime_cudagraphify_time_us")
    found = [("dynamo", dynamo), ("aot_autograd", aot), ("inductor", inductor), (kernels, compilers)]
    if recorded:
        found.append(("cudagraphs", recorded))
    return tuple((name, round(seconds, 4)) for name, seconds in found) if any(s for _, s in found) else ()


def _seconds(row: Any, name: str) -> float:
    return (getattr(row, name, None) or 0) * MICRO


def graphs() -> int:
    """Distinct graphs that Dynamo gave to a backend since `begin`."""
    return int(dynamo_utils.counters["stats"]["unique_graphs"])


def breaks() -> int:
    """Distinct reasons of graph breaks since `begin`."""
    return len(dynamo_utils.counters["graph_break"])


def cache_counts() -> tuple[int, int]:
    """Graphs that the caches had since `begin`, and those that they had not.

    The cache of AOTAutograd is asked first, and that of Inductor if it has nothing, or for what it only refers to.
    """
    found = [
        (counter[f"{name}_cache_hit"], counter[f"{name}_cache_miss"])
        for counter, name in (
            (dynamo_utils.counters["inductor"], "fxgraph"),
            (dynamo_utils.counters["aot_autograd"], "autograd"),
        )
    ]
    return max(hits for hits, _ in found), max(misses for _, misses in found)


def has_artifacts() -> bool:
    """Whether what was compiled can be carried to another machine as one file."""
    return hasattr(torch.compiler, "save_cache_artifacts")


def saved_artifacts() -> bytes | None:
    """What was compiled in this process, None if nothing can be carried."""
    found = torch.compiler.save_cache_artifacts()
    return None if found is None else bytes(found[0])


def load_artifacts(data: bytes) -> None:
    torch.compiler.load_cache_artifacts(data)
