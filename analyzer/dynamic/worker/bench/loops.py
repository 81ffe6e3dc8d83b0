"""Timed calls that are not one call of the model: several consecutive calls, or a loop of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tcready.dynamic.worker.bench.variants import Unmeasured
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.inputs.loading import named
from tcready.schema.bench import BenchRequest

Loop = Callable[..., Any]
"""Takes the model, compiled or not, and the inputs of a case."""


def loop_of(context: Context, request: BenchRequest) -> Loop | None:
    """Return the requested loop; None if calls are timed one by one.

    Raises Unmeasured if the name is not that of a function, and whatever importing it raises.
    """
    if request.loop is not None:
        found = named(request.loop, "--loop", context.work)
        if not callable(found) or isinstance(found, (type, torch.nn.Module)):
            raise Unmeasured(f"--loop {request.loop}: not a function")
        loop: Loop = found
        return loop
    if request.calls <= 1:
        return None

    def repeat(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        output = None
        for _ in range(request.calls):
            output = model(*args, **kwargs)
        return output

    return repeat
