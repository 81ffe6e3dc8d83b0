"""Write torch's structured trace of a part of the run, as `TORCH_TRACE` does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from tcready.dynamic.worker.torch_internals import logs


@contextlib.contextmanager
def traced_into(folder: str | None) -> Iterator[None]:
    """Torch writes into a new file of `folder` what it compiles meanwhile; nothing if that is None.

    `TORCH_TRACE` itself holds for a whole process, in which a run compiles much else. Names of files are written once,
    where they come first: torch is made to forget which it wrote, so that this file has them all.
    """
    if folder is None:
        yield
        return
    handler = torch._logging._internal.LazyTraceHandler(folder)
    handler.setFormatter(torch._logging._internal.TorchLogsFormatter(trace=True))
    trace = logs.structured()
    torch._logging.structured.INTERN_TABLE.clear()
    trace.addHandler(handler)
    try:
        yield
    finally:
        trace.removeHandler(handler)
        handler.close()
