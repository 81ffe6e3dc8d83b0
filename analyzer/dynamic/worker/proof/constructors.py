"""Build models with other arguments of the user's own constructors."""

from __future__ import annotations

import contextlib
import functools
import inspect
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.inputs.loading import SEED_BUILD
from tcready.dynamic.worker.proof.input_changes import VaryOne
from tcready.dynamic.worker.proof.variations import built_with
from tcready.schema.enums import Mode

_PLAIN = (bool, int, float, str, type(None))
MOST_SECONDS = 1.0
"""The longest build that is repeated for each variation, in seconds."""


def build_with(context: Context, mode: Mode, modules: Sequence[ModuleType], change: VaryOne) -> Any:
    """Build a model while the constructors of classes in `modules` get changed arguments.

    An integer may be a size on which other modules depend: integers change in the outermost constructor alone. Raises
    whatever the constructors raise.
    """
    under_way: list[int] = []

    def construct(known: Callable[..., None], self: Any, *args: Any, **kwargs: Any) -> None:
        if id(self) in under_way:  # the constructor of a base class gets the arguments that a changed one passes on
            known(self, *args, **kwargs)
            return
        with contextlib.suppress(TypeError, ValueError):
            bound = inspect.signature(known).bind(self, *args, **kwargs)
            bound.apply_defaults()
            for name, value in [*bound.arguments.items()]:
                if type(value) in _PLAIN and not (type(value) is int and under_way):
                    bound.arguments[name] = change(value)
            args, kwargs = bound.args[1:], bound.kwargs
        under_way.append(id(self))
        try:
            known(self, *args, **kwargs)
        finally:
            under_way.pop()

    with contextlib.ExitStack() as stack:
        for each in _classes(modules):
            known = vars(each)["__init__"]
            method = functools.partialmethod(functools.partial(construct, known))
            type.__setattr__(each, "__init__", method)
            stack.callback(type.__setattr__, each, "__init__", known)
        return context.build_as(mode, SEED_BUILD + 1)


def _classes(modules: Sequence[ModuleType]) -> list[type]:
    """Return the classes of modules that have a constructor of their own."""
    found = {
        each: None
        for module in modules
        for each in vars(module).values()
        if isinstance(each, type) and each.__module__ == module.__name__ and "__init__" in vars(each)
    }
    return [*found]


def fitting_builds(
    context: Context, modules: Sequence[ModuleType], constants: tuple[float | str, ...]
) -> tuple[str, ...]:
    """Return the names of the variations that change an argument of a constructor; none if a build takes long."""
    passed: list[Any] = []

    def note(value: Any) -> Any:
        passed.append(value)
        return value

    began = time.monotonic()
    with contextlib.suppress(Exception):  # whatever the constructors raise
        build_with(context, "infer", modules, note)
    if time.monotonic() - began > MOST_SECONDS:
        return ()
    return tuple(
        name
        for name, change in built_with(constants).items()
        if any(change(value) is not value and change(value) != value for value in passed)
    )
