"""Read from torch's own counters where the compile time went, and what the caches contained."""

from __future__ import annotations

import torch
import torch._dynamo
from tcready.dynamic.worker.torch_internals import version_differences
from tcready.dynamic.worker.torch_internals.inductor import METRICS
from tcready.portable.events import compile_times
from torch._dynamo import utils as dynamo_utils


def begin() -> None:
    """Reset the counters."""
    dynamo_utils.set_compilation_metrics_limit(METRICS)
    dynamo_utils.clear_compilation_metrics()
    dynamo_utils.counters.clear()


def phases(kernels: str) -> tuple[tuple[str, float], ...]:
    """Return seconds since `begin`, each phase without those that it contains; those of kernels under the name `kernels`.

    Empty for a torch that does not count them.
    """
    return compile_times.phases(map(vars, dynamo_utils.get_compilation_metrics()), kernels)


def graphs() -> int:
    """Return the number of distinct graphs that Dynamo passed to a backend since `begin`."""
    return int(dynamo_utils.counters["stats"]["unique_graphs"])


def breaks() -> int:
    """Return the number of distinct reasons of graph breaks since `begin`."""
    return len(dynamo_utils.counters["graph_break"])


def cache_counts() -> tuple[int, int]:
    """Return the numbers of graphs that were in the caches since `begin`, and of those that were not.

    The cache of AOTAutograd is checked first, and that of Inductor if it has nothing, or for parts to which it only
    refers.
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
    """Return whether compiled code can be transferred to another machine as one file."""
    return version_differences.has("cache_artifacts")


def saved_artifacts() -> bytes | None:
    """Return the code that this process compiled; None if nothing can be transferred."""
    found = torch.compiler.save_cache_artifacts()
    return None if found is None else bytes(found[0])


def load_artifacts(data: bytes) -> None:
    torch.compiler.load_cache_artifacts(data)
