"""Read the seconds of compiling by phase, and cache hits, as torch counts them."""

from __future__ import annotations

import torch
import torch._dynamo
from tcready.dynamic.worker.torch_internals.inductor import METRICS
from tcready.events import times
from torch._dynamo import utils as dynamo_utils


def begin() -> None:
    """Count anew."""
    dynamo_utils.set_compilation_metrics_limit(METRICS)
    dynamo_utils.clear_compilation_metrics()
    dynamo_utils.counters.clear()


def phases(kernels: str) -> tuple[tuple[str, float], ...]:
    """Seconds since `begin`, each phase without those that it contains; that of kernels under the name `kernels`.

    Empty for a torch that does not count them.
    """
    return times.phases(map(vars, dynamo_utils.get_compilation_metrics()), kernels)


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
