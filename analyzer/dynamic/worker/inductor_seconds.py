"""How long a placement takes to compile with Inductor, and what a warm call takes then."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tcready.dynamic.worker.calling import call, compile_error
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.placements import fresh, steady_seconds
from tcready.dynamic.worker.toolchain import cache_folder, missing_toolchain, shared_folder
from tcready.dynamic.worker.torch_internals import inductor
from tcready.dynamic.worker.torch_internals.placement import executed
from tcready.schema.run import Placement


@dataclass(frozen=True)
class InductorClock:
    """Every placement compiles into an empty cache; what Inductor makes once for all models is in `tools`."""

    tools: str

    @staticmethod
    @contextlib.contextmanager
    def of(context: Context) -> Iterator[InductorClock | None]:
        """None where Inductor cannot compile for the device."""
        with shared_folder(context, context.work.toolchain) as tools:
            with inductor.inductor_cache(tools):
                missing = missing_toolchain(context.work.options.device, context)
            yield None if missing else InductorClock(tools)

    def timed(self, context: Context, placement: Placement) -> Placement:
        """With the seconds of Inductor, from an empty cache; what it raises puts the placement out."""
        cold = steady = 0.0
        try:
            for case in context.cases:
                with (
                    cache_folder(context) as folder,
                    inductor.inductor_cache(folder, headers_in=self.tools),
                    fresh(context) as model,
                ):
                    placed = executed(placement.code, model, None)
                    started = time.perf_counter()
                    call(context, placed, case)
                    first = time.perf_counter() - started
                    call(context, placed, case)
                    warm = steady_seconds(context, placed, case)
                cold += max(0.0, first - warm)
                steady += warm
        except Exception as error:
            why = f"raised with Inductor: {compile_error(error, context)}"
            return replace(placement, sound=False, reason=why, backend="inductor")
        return replace(
            placement,
            compile_seconds=round(cold, 3),
            steady_seconds=round(steady, 6),
            backend="inductor",
        )
