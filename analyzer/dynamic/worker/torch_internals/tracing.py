"""Write torch's structured trace, like `TORCH_TRACE`, of the code in a context."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from tcready.dynamic.worker.torch_internals import logs


@contextlib.contextmanager
def traced_into(folder: str | None) -> Iterator[None]:
    """Make torch write what it compiles in the context into a new file of `folder`; nothing if that is None.

    `TORCH_TRACE` itself applies to a whole process, in which a run compiles much else. Names of files are written
    once, at their first use: torch is made to forget which it wrote, so that this file has them all.
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
