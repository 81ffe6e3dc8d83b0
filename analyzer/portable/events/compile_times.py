"""Read where the compile time went from the rows that torch stores of each compilation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

MICRO = 1e-6
KERNELS = ("triton_compile_time_us", "runtime_triton_autotune_time_us", "compile_time_autotune_time_us")
"""Waiting for the compilers of kernels (Triton, on a CPU the C++ compiler), and autotuning."""
ENTIRE = "dynamo_cumulative_compile_time_us"
"""Time of a whole compilation, the forward's backend included."""
FIELDS = (
    ENTIRE,
    "aot_autograd_cumulative_compile_time_us",
    "backward_cumulative_compile_time_us",
    "inductor_cumulative_compile_time_us",
    "runtime_cudagraphify_time_us",
    *KERNELS,
)
"""The fields of a row that are read here."""


def phases(rows: Iterable[Mapping[str, Any]], kernels: str) -> tuple[tuple[str, float], ...]:
    """Return the seconds of all rows together, each phase without those that it contains; those of kernels under the
    name `kernels`.

    Empty for a torch that does not count them.
    """
    dynamo = aot = inductor = compilers = recorded = 0.0
    for row in rows:
        forward = seconds(row, "aot_autograd_cumulative_compile_time_us")
        backward = seconds(row, "backward_cumulative_compile_time_us")
        graphs = seconds(row, "inductor_cumulative_compile_time_us")
        waited = seconds(row, "triton_compile_time_us") + seconds(row, "compile_time_autotune_time_us")
        dynamo += max(0.0, seconds(row, ENTIRE) - forward)
        # A graph from a cache is loaded, and its kernels are compiled if need be, without Inductor.
        aot += max(0.0, forward + backward - max(graphs, waited))
        inductor += max(0.0, graphs - waited)
        compilers += sum(seconds(row, name) for name in KERNELS)
        recorded += seconds(row, "runtime_cudagraphify_time_us")
    found = [("dynamo", dynamo), ("aot_autograd", aot), ("inductor", inductor), (kernels, compilers)]
    if recorded:
        found.append(("cudagraphs", recorded))
    return tuple((name, round(value, 4)) for name, value in found) if any(s for _, s in found) else ()


def seconds(row: Mapping[str, Any], name: str) -> float:
    """The value of a field that counts microseconds; 0 if it is missing, not a number, or impossible for a clock."""
    value = row.get(name)
    return value * MICRO if isinstance(value, (int, float)) and 0 <= value < 1e18 else 0.0
