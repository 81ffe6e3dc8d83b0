"""Repeat calls in a wide dtype, in which rounding becomes small and a mistake does not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.measure.precision import call_in, case_in, computed_in, eps_of, wide_dtype, widen_in_place
from tcready.dynamic.worker.proof.behaviour import Behaviour
from tcready.dynamic.worker.proof.variations import IN_DOUBLE
from tcready.dynamic.worker.torch_internals.dispatch import WideningMode


@dataclass(frozen=True)
class WideCall:
    """One call in a wide dtype."""

    seen: Behaviour
    dtype: torch.dtype
    coarsest: torch.dtype
    """The least precise dtype that it still uses: code may name a dtype."""
    own: torch.dtype
    """The least precise dtype that it uses otherwise."""
    casts: int
    """The number of its casts to a more precise dtype than that of the model."""


class Widening:
    """Makes calls in a wide dtype, and records how the last one was made."""

    dtype: torch.dtype
    own: torch.dtype
    mode: WideningMode

    @contextlib.contextmanager
    def widened(
        self, context: Context, model: Any, args: Any, kwargs: Any, variation: str
    ) -> Iterator[tuple[Any, Any]]:
        """Convert the arguments to a wide dtype, and the model within the context. Raises NotWideError if there is no
        such dtype."""
        case = Case(None, args, kwargs)
        if variation == IN_DOUBLE:
            self.dtype, narrow = torch.float64, frozenset({torch.float32})
        else:
            self.dtype, narrow = wide_dtype(context, model, (case,))
        self.own = computed_in(context, narrow)
        self.mode = WideningMode(narrow, self.dtype, max(narrow, key=eps_of))
        with widen_in_place(model, self.dtype), call_in(context, self.dtype):
            wide = case_in(case, self.dtype)
            yield wide.args, wide.kwargs

    def within(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, computing in the wide dtype even if it names another one."""

        def widely(*args: Any, **kwargs: Any) -> Any:
            with self.mode:
                return function(*args, **kwargs)

        return widely

    def made(self, seen: Behaviour) -> WideCall:
        """Return the last call."""
        coarsest = max(self.mode.found or {self.dtype}, key=eps_of)
        return WideCall(seen, self.dtype, coarsest, self.own, self.mode.casts)
