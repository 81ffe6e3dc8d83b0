"""How long a placement takes to compile with Inductor, and what a warm call takes then."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass, replace

from tcready.dynamic.worker.calling import call, compile_error
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.placements import fresh, steady_seconds
from tcready.dynamic.worker.toolchain import PREFIX, missing_toolchain
from tcready.dynamic.worker.torch_internals import inductor
from tcready.dynamic.worker.torch_internals.placement import executed
from tcready.schema import Placement


@dataclass(frozen=True)
class InductorClock:
    """Beside the state file, so that the launcher clears away what a process that died left behind."""

    room: str | None

    @staticmethod
    def of(context: Context) -> InductorClock | None:
        """None where Inductor cannot compile for the device."""
        state = context.journal.state_path
        clock = InductorClock(os.path.dirname(os.path.abspath(state)) if state else None)
        with clock._folder() as folder, inductor.inductor_cache(folder):
            return None if missing_toolchain(context.work.options.device, context) else clock

    def _folder(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix=PREFIX, dir=self.room, ignore_cleanup_errors=True)

    def timed(self, context: Context, placement: Placement) -> Placement:
        """With the seconds of Inductor, from an empty cache; what it raises puts the placement out."""
        cold = steady = 0.0
        try:
            for case in context.cases:
                with self._folder() as folder, inductor.inductor_cache(folder), fresh(context) as model:
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
