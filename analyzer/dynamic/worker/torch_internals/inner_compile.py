"""Watch the calls of `torch.compile` that user code makes while a model is built, and what each compiled then runs."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from tcready.dynamic.worker.torch_internals.compile_calls import compile_callable
from tcready.dynamic.worker.torch_internals.dynamo import is_compiled_module
from tcready.portable.events.record import RecompileEvent, Record, SkipEvent

OF_A_BACKEND = ("backend", "mode", "options")
"""Options of torch.compile that say how graphs are compiled, not which."""


@dataclass
class InnerCall:
    """One call of `torch.compile`, and what was recorded while the result of it ran."""

    subject: Any
    """A module, a method of one (`module.compile()` passes its `_call_impl`), or a function."""
    stack: tuple[tuple[str, int, str], ...]
    """File, line and function of each frame that led to it, outermost first."""
    called: int = 0
    """Calls of the result."""
    graphs: int = 0
    """Graphs that ran in these calls."""
    recompiles: list[RecompileEvent] = field(default_factory=list)
    skips: list[SkipEvent] = field(default_factory=list)

    @property
    def module(self) -> Any:
        """The module that is compiled, or the owner of the method; the function itself if there is none."""
        return getattr(self.subject, "__self__", self.subject)

    @property
    def is_in_place(self) -> bool:
        """Whether it is `module.compile()`."""
        return getattr(self.subject, "__name__", "") == "_call_impl"


@dataclass
class InnerCalls:
    """All calls of `torch.compile` in some code. Events of a record belong to the innermost call that is running."""

    calls: list[InnerCall] = field(default_factory=list)
    record: Record = field(default_factory=Record)
    """What Dynamo is doing now; set before each call of the model."""
    _running: list[InnerCall] = field(default_factory=list)
    _seen: tuple[int, int] = (0, 0)

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Note the calls in the context, without a change of what they do."""
        with self._in_place_of_compile(lambda call, options: compile_callable(call.subject, **options)):
            yield

    @contextlib.contextmanager
    def watched(self, **further: Any) -> Iterator[None]:
        """Note the calls in the context, and let their results run graphs unchanged; `further` are options for each."""

        def compiled(call: InnerCall, options: dict[str, Any]) -> Any:
            of_dynamo = {name: value for name, value in options.items() if name not in OF_A_BACKEND}
            made = compile_callable(call.subject, **{**of_dynamo, **further, "backend": self._backend})
            if is_compiled_module(made):
                made.forward = self._wrapped(call, made.forward)
                return made
            return self._wrapped(call, made)

        with self._in_place_of_compile(compiled):
            yield

    def next_record(self) -> Record:
        """Begin a new record, and count the calls anew."""
        self.record, self._seen = Record(), (0, 0)
        for call in self.calls:
            call.called = call.graphs = 0
        return self.record

    @contextlib.contextmanager
    def _in_place_of_compile(self, compiled: Callable[[InnerCall, dict[str, Any]], Any]) -> Iterator[None]:
        original = torch.compile

        def noting(model: Any = None, **options: Any) -> Any:
            if model is None:
                return functools.partial(noting, **options)
            call = InnerCall(model, _frames())
            self.calls.append(call)
            return compiled(call, options)

        torch.compile = noting
        try:
            yield
        finally:
            torch.compile = original

    def _backend(self, module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        def run(*inputs: Any) -> Any:
            if self._running:
                self._running[-1].graphs += 1
            return module.forward(*inputs)

        return run

    def _wrapped(self, call: InnerCall, compiled: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(compiled)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():  # a call of compiled code around it traces it
                return compiled(*args, **kwargs)
            self._settle()
            self._running.append(call)
            call.called += 1
            try:
                return compiled(*args, **kwargs)
            finally:
                self._settle()
                self._running.pop()

        return watched

    def _settle(self) -> None:
        """Give the events since the last time to the call that is running."""
        recompiles, skips = self._seen
        if self._running:
            self._running[-1].recompiles += self.record.recompiles[recompiles:]
            self._running[-1].skips += self.record.skips[skips:]
        self._seen = len(self.record.recompiles), len(self.record.skips)


def _frames() -> tuple[tuple[str, int, str], ...]:
    found: list[tuple[str, int, str]] = []
    frame: Any = sys._getframe(2)
    while frame is not None:
        found.insert(0, (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return tuple(found)
