"""Narrow down why compiled code returns something else than eager code."""

from __future__ import annotations

import contextlib
import functools
import operator
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.frames import is_user_file
from tcready.dynamic.worker.measure.agreement import ComparedCalls, Prepare, judge
from tcready.dynamic.worker.measure.call_outcome import CallOutcome
from tcready.dynamic.worker.measure.effects import outcome_of_call
from tcready.dynamic.worker.measure.outcome_structure import differs
from tcready.dynamic.worker.torch_internals import backend_bisection, dynamo, inductor
from tcready.dynamic.worker.torch_internals.compile_calls import compile_callable
from tcready.dynamic.worker.torch_internals.compiling_checks import CompilingCheck, answered_checks
from tcready.schema.code_line import Frame
from tcready.schema.run import ParityCause
from torch import nn

SECONDS = 20.0
"""The time after which the search ends with what it has found."""
BACKEND_SECONDS = 90.0
"""The same for the search among backends, of which each call compiles with Inductor."""
CUSTOM = "custom"
"""In the name of a pass that is not torch's: it is set by user code."""
HOOKS = ("_forward_pre_hooks", "_forward_hooks")


def find_cause(context: Context, case: Case, expected: CallOutcome) -> ParityCause | None:
    """Return what makes compiled code differ from eager code in the first call with the inputs of a case.

    Tried are, in this order: eager calls in which `torch.compiler.is_compiling()` is true, calls without the hooks of
    modules, and calls in which one module alone is compiled. None if nothing was found in time, and in a run over
    several processes. `expected` is the outcome of eager code.
    """
    if context.work.options.processes:
        return None
    search = _Search(context, case, expected, time.monotonic() + SECONDS)
    try:
        return search.of_checks() or search.of_hooks() or search.of_modules()
    except Exception:  # code that is run in a way its author did not foresee may raise anything
        return None
    finally:
        dynamo.reset()


def find_backend_cause(context: Context, case: Case, expected: CallOutcome) -> ParityCause | None:
    """Return which backend changes the result that Inductor returns, in which part of it, and the smallest module that
    shows it; a script if a graph of torch's own operators shows it. None if nothing was found, and in a run over several
    processes. `expected` is the outcome of eager code.
    """
    if context.work.options.processes:
        return None
    until = time.monotonic() + BACKEND_SECONDS
    try:
        for backend in backend_bisection.LAYERS:
            search = _Search(context, case, expected, until, backend)
            if search.is_mistake_whole():
                if backend == backend_bisection.LAYERS[0]:
                    return find_cause(context, case, expected)
                return search.of_backend()
    except Exception:  # see find_cause
        return None
    finally:
        inductor.forget_compiled()
    return None


@dataclass(frozen=True)
class _Search:
    context: Context
    case: Case
    expected: CallOutcome
    until: float
    backend: str = "eager"

    def is_mistake_whole(self) -> bool:
        """Return whether the model compiled with the backend differs from eager code."""
        return self._is_mistake(self.expected, functools.partial(_compiled, backend=self.backend))

    def of_backend(self) -> ParityCause:
        """Return the part of the backend that changes the result, and the smallest module that shows it."""
        suspect = backend_bisection.bisected(lambda: not self.is_mistake_whole(), self._has_time)
        module = self.of_modules()
        name = module.module if module is not None else None
        script = ""
        if suspect is None or CUSTOM not in suspect.detail:
            script = self._reproducer(name)
        return ParityCause(
            "backend",
            module.place if module is not None else None,
            module=name,
            backend=self.backend,
            part=suspect.part if suspect is not None else "",
            detail=suspect.detail if suspect is not None else "",
            reproducer=script,
        )

    def _reproducer(self, name: str | None) -> str:
        model = self.context.build()

        def called(compiled: Callable[..., Any]) -> None:
            if name is not None:
                model.get_submodule(name).forward = compiled
            outcome_of_call(self.context, model, compiled if name is None else model, self.case)

        function = model if name is None else model.get_submodule(name).forward
        with contextlib.suppress(Exception):  # it is additional
            return backend_bisection.reproducer(function, called, self.backend)
        return ""

    def of_checks(self) -> ParityCause | None:
        """Return the line with a check whether code is compiled that changes the result of eager code."""
        checks: dict[CompilingCheck, None] = {}

        def note(check: CompilingCheck) -> bool:
            checks[check] = None
            return True

        if not self._answered_differs(note) or not checks:
            return None
        places = sorted(checks, key=lambda check: self._origin(check) != "own")
        for place in places:
            if len(places) > 1 and not self._has_time():
                break
            if len(places) == 1 or self._answered_differs(functools.partial(operator.eq, place)):
                return ParityCause("compiling_check", self._frame(place.path, place.line), caller=self._caller(place))
        return ParityCause("compiling_check", None)  # all of them together

    def _answered_differs(self, answer: Callable[[CompilingCheck], bool]) -> bool:
        """Return whether eager code with these answers to its checks returns something else."""
        model = self.context.build()
        with torch.compiler.set_stance("force_eager"), answered_checks(answer):
            found = outcome_of_call(self.context, model, model, self.case)
        return differs(self.expected, found)

    def of_hooks(self) -> ParityCause | None:
        """Return the hook without which compiled and eager code agree."""
        looked_up = self.context.build()
        hooks = [*_hooks(looked_up)]
        if not hooks or self._differs(functools.partial(_remove, hooks=hooks)):
            return None
        for module, kind, number in hooks:
            if len(hooks) > 1 and (
                not self._has_time() or self._differs(functools.partial(_remove, hooks=[(module, kind, number)]))
            ):
                continue
            hook = _hook(looked_up, module, kind, number)
            code = getattr(getattr(hook, "__func__", hook), "__code__", None)
            place = None if code is None else self._frame(code.co_filename, code.co_firstlineno)
            return ParityCause("hook", place, module=module)
        return ParityCause("hook", None)

    def _differs(self, prepare: Callable[[Any], None]) -> bool:
        """Return whether compiled and eager code differ in models that are prepared in this way."""

        def build() -> Any:
            model = self.context.build()
            prepare(model)
            return model

        model = build()
        expected = outcome_of_call(self.context, model, model, self.case)
        return self._is_mistake(expected, functools.partial(_compiled, backend=self.backend), build)

    def of_modules(self) -> ParityCause | None:
        """Return the smallest module that changes the result if it alone is compiled."""
        looked_up = self.context.build()
        found: str | None = None
        inside = True
        while inside:
            inside = False
            for name in _children(looked_up, found or ""):
                if not self._has_time():
                    break
                if self._is_mistake(self.expected, functools.partial(_with_compiled, name=name, backend=self.backend)):
                    found, inside = name, True
                    break
        if found is None:
            return None
        forward = type(looked_up.get_submodule(found)).forward
        code = getattr(forward, "__code__", None)
        known = code is not None and is_user_file(code.co_filename)
        place = self._frame(code.co_filename, code.co_firstlineno) if code is not None and known else None
        return ParityCause("module", place, module=found)

    def _is_mistake(
        self,
        expected: CallOutcome,
        compiling: Callable[[Any], Callable[..., Any]],
        build: Callable[[], Any] | None = None,
    ) -> bool:
        """Return whether a model compiled in this way differs from the outcome of eager code by more than rounding."""
        context = self.context
        build = build or context.build
        is_fused = self.backend != "eager"

        def run(model: Any, prepare: Prepare, is_compiled: bool) -> CallOutcome:
            if is_compiled:
                inductor.forget_compiled() if is_fused else dynamo.reset()
            return outcome_of_call(context, model, compiling(model) if is_compiled else model, prepare(self.case))

        actual = run(build(), lambda case: case, True)
        if not differs(expected, actual):
            return False
        return (
            judge(context, expected, actual, ComparedCalls(run, build, (self.case,), fused=is_fused)).verdict
            == "mistake"
        )

    def _has_time(self) -> bool:
        return time.monotonic() < self.until

    def _origin(self, check: CompilingCheck) -> str:
        return self.context.names.origin(check.path)

    def _caller(self, check: CompilingCheck) -> Frame | None:
        """Return the place that called the function with the check, if that is in another file."""
        if check.caller is None or check.caller[0] == check.path or not is_user_file(check.caller[0]):
            return None
        return self._frame(*check.caller)

    def _frame(self, path: str, line: int) -> Frame:
        return self.context.names.frame(path, line, "")


def _compiled(function: Any, backend: str) -> Callable[..., Any]:
    compiled: Callable[..., Any] = compile_callable(function, backend=backend)
    return compiled


def _with_compiled(model: Any, name: str, backend: str) -> Any:
    model.get_submodule(name).compile(backend=backend)
    return model


def _children(model: Any, name: str) -> Iterator[str]:
    """Yield the names of modules below one, nearest first; those of a list or dict in place of it, since it is not
    called."""
    if not isinstance(model, nn.Module):
        return
    for child, module in model.get_submodule(name).named_children():
        path = f"{name}.{child}" if name else child
        if isinstance(module, (nn.ModuleList, nn.ModuleDict)):
            yield from _children(model, path)
        else:
            yield path


def _hooks(model: Any) -> Iterator[tuple[str, str, int]]:
    """Yield the hooks of calls: the name of the module, the attribute with the hooks, and the position in it."""
    for name, module in model.named_modules() if isinstance(model, nn.Module) else ():
        for kind in HOOKS:
            for number in range(len(getattr(module, kind))):
                yield name, kind, number


def _hook(model: Any, module: str, kind: str, number: int) -> Any:
    return [*getattr(model.get_submodule(module), kind).values()][number]


def _remove(model: Any, hooks: list[tuple[str, str, int]]) -> None:
    for module, kind, number in sorted(hooks, reverse=True):
        registered = getattr(model.get_submodule(module), kind)
        del registered[[*registered][number]]
