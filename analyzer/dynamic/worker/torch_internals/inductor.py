"""Record what Inductor compiles, and set where it stores files."""

from __future__ import annotations

import contextlib
import logging
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch._dynamo
from tcready.dynamic.worker.torch_internals import logs, version_differences
from tcready.dynamic.worker.torch_internals.logs import listening
from torch._dynamo import utils as dynamo_utils


@dataclass
class InductorRecord:
    """The actions of Inductor within `inductor_recording`."""

    kernels: int = 0
    extern_calls: int = 0
    fallbacks: Counter[str] = field(default_factory=Counter)
    """Operators for which Inductor has no code of its own; unknown for a graph that came from the cache."""
    cache_hits: int = 0
    cache_misses: int = 0
    cudagraphs: int = 0
    """The number of recorded CUDA graphs."""
    skips: list[str] = field(default_factory=list)
    """Logged reasons for skipping CUDA graphs; each may end in the stack of the operation behind it."""


METRICS = 1_000_000
"""The number of rows of metrics that torch stores; by default the last 64."""
COUNTED = {"extern_calls": "extern_calls", "cache_hits": "fxgraph_cache_hit", "cache_misses": "fxgraph_cache_miss"}
"""Fields of InductorRecord by their names in `counters["inductor"]`."""
CUDAGRAPH_LOGGERS = (
    "torch._inductor.cudagraph_utils",
    "torch._inductor.cudagraph_trees",
    "torch._inductor.compile_fx",
    "torch._inductor.scheduler",
)
UNCAPTURED_NODE, UNCAPTURED_STACK = "    %s: %s", "         %s"
"""Formats of the scheduler's log lines for an operation that it excludes from CUDA graphs, and for its stack."""


class _CudaGraphs(logging.Handler):
    """Collects skips and recordings from the `cudagraphs` log."""

    def __init__(self, record: InductorRecord) -> None:
        super().__init__(logging.DEBUG)
        self.found = record

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno >= logging.WARNING or (record.msg == UNCAPTURED_NODE and "reason=" in text):
            self.found.skips.append(text.strip())
        elif record.msg == UNCAPTURED_STACK and self.found.skips:
            self.found.skips[-1] += f"\n{text}"
        elif "Recording function" in text:
            self.found.cudagraphs += 1


@contextlib.contextmanager
def inductor_recording(record: InductorRecord) -> Iterator[None]:
    """Write into `record` what Inductor compiles in the context.

    No log names fallbacks, so `FallbackKernel.create`, through which each goes, is wrapped.
    """
    from torch._inductor import ir, metrics

    counters = dynamo_utils.counters["inductor"]
    before = {name: counters[name] for name in COUNTED.values()}
    kernels = metrics.generated_kernel_count
    create = ir.FallbackKernel.__dict__["create"]

    def watched(cls: Any, kernel: Any, *args: Any, **kwargs: Any) -> Any:
        record.fallbacks[str(kernel).removesuffix(".default")] += 1
        return create.__func__(cls, kernel, *args, **kwargs)

    dynamo_utils.set_compilation_metrics_limit(METRICS)
    dynamo_utils.clear_compilation_metrics()
    with contextlib.ExitStack() as stack:
        for name in CUDAGRAPH_LOGGERS:
            logger = logs.artifact(name, "cudagraphs")
            stack.enter_context(listening(logger, _CudaGraphs(record), quiet=True))
        ir.FallbackKernel.create = classmethod(watched)
        stack.callback(setattr, ir.FallbackKernel, "create", create)
        try:
            yield
        finally:
            record.kernels += metrics.generated_kernel_count - kernels
            for field_name, name in COUNTED.items():
                setattr(record, field_name, getattr(record, field_name) + counters[name] - before[name])
            rows = dynamo_utils.get_compilation_metrics()
            reasons = (getattr(row, "cudagraph_skip_reason", None) for row in rows)
            record.skips += [reason for reason in reasons if reason and reason not in record.skips]


@contextlib.contextmanager
def inductor_cache(folder: str) -> Iterator[None]:
    """Make Inductor and Triton store files of models in `folder`, and leave none of their worker processes behind.

    Precompiled headers stay in the folder that torch sets at import, and serve later processes as well.
    """
    from torch._inductor import async_compile
    from torch._inductor.utils import clear_caches

    values = {"TORCHINDUCTOR_CACHE_DIR": folder, "TRITON_CACHE_DIR": os.path.join(folder, "triton")}
    # If it is set, Inductor downloads a compiler if there is none.
    values_before = {name: os.environ.pop(name, None) for name in (*values, "TORCH_INDUCTOR_INSTALL_GXX")}
    os.environ.update(values)
    clear_caches()
    try:
        yield
    finally:
        with contextlib.suppress(Exception):
            async_compile.shutdown_compile_workers()
        clear_caches()
        for name, value in values_before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def choose_vector_instructions() -> None:
    """Have Inductor test which vector instructions its C++ compiler supports. The result stays in its default cache,
    since the test takes about eight seconds (two cores), and is the same for all models."""
    from torch._inductor import cpu_vec_isa

    with contextlib.suppress(Exception):  # whatever is wrong with the compiler fails the first compilation
        cpu_vec_isa.pick_vec_isa()


def forget_compiled() -> None:
    """Drop everything that Dynamo and Inductor compiled, except the files of the cache."""
    from torch._inductor.utils import clear_caches

    torch._dynamo.reset()
    clear_caches()


def cpp_compiler() -> str | None:
    """Return the C++ compiler that Inductor would call; None if there is none."""
    from torch._inductor import cpp_builder

    try:
        return str(cpp_builder.get_cpp_compiler())
    except (RuntimeError, OSError):  # InvalidCxxCompiler is a RuntimeError
        return None


def has_triton_package() -> bool:
    from torch.utils import _triton

    return bool(_triton.has_triton_package())


def eager_random() -> contextlib.AbstractContextManager[Any]:
    """Make Inductor draw the random numbers that eager code draws, at the price of a fallback for each."""
    from torch._inductor import config

    found: contextlib.AbstractContextManager[Any] = config.patch(fallback_random=True)
    return found


def kernels_in_profiles() -> contextlib.AbstractContextManager[Any]:
    """Make code compiled for the CPU in the context pass the names of its kernels to the profiler."""
    from torch._inductor import config

    found: contextlib.AbstractContextManager[Any] = config.patch({"cpp.enable_kernel_profile": True})
    return found


def is_kernel_name(name: str) -> bool:
    """Return whether a name in a profile is that of a compiled kernel of the CPU (`graph_0_cpp_fused_add_0`)."""
    return "cpp_fused" in name or (name.startswith("graph_") and "cpp_" in name)


def changed_settings() -> tuple[tuple[str, str], ...]:
    """Return settings of Inductor that differ from their defaults, as texts; empty if this torch does not provide
    them."""
    from torch._inductor import config

    if not version_differences.has("setting_is_default"):
        return ()
    names = sorted(config.get_config_copy())
    return tuple((name, repr(getattr(config, name))) for name in names if not config._is_default(name))
