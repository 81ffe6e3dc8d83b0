"""Compile the whole model, with `torch.compiler.disable` on the functions that break."""

from __future__ import annotations

import inspect
import os
import types
from collections.abc import Iterator
from typing import Any

from tcready.dynamic.worker.core.context import Context
from tcready.portable.compile_code import accessor
from torch import nn

TOO_MUCH = 0.2
"""A module that holds more than this share of the operations is not excluded."""


def disabling_code(context: Context, whole: str) -> str | None:
    """Return lines that disable each function in which a break was seen, then compile the model with `whole`.

    None if some break is in no function that lines can name, or in one that holds much of the model.
    """
    observed = context.journal.observation
    model = context.build()
    if not isinstance(model, nn.Module) or not observed.break_sites:
        return None
    types_of = {name: type(module).__name__ for name, module in model.named_modules()}
    total = max((module.ops or 0 for module in observed.modules), default=0)
    heavy = {module.name for module in observed.modules if (module.ops or 0) > TOO_MUCH * total}
    lines: dict[str, None] = {}
    for site in observed.break_sites:
        path = context.names.sources.get(site.path)
        found = [*_owners(model, path, site.line)] if path else []
        if not found:
            return None
        for module, name, is_method in found:
            if is_method and name == "forward" and module in heavy:
                return None
            owner = accessor(module, types_of)
            if is_method:
                lines[f"{owner}.{name} = torch.compiler.disable({owner}.{name})"] = None
            else:
                scope = f"type({owner}).forward.__globals__"
                lines[f'{scope}["{name}"] = torch.compiler.disable({scope}["{name}"])'] = None
    return "\n".join([*lines, whole])


def _owners(model: nn.Module, path: str, line: int) -> Iterator[tuple[str, str, bool]]:
    """Return the modules that have the innermost function around a line as a method, with its name and True; or one
    that finds it among the globals of its forward, and False."""
    methods = [
        (name, attribute, True)
        for name, module in model.named_modules()
        for attribute, function in _methods(type(module))
        if _innermost_function(function, path, line)
    ]
    yield from methods
    if methods:
        return
    for name, module in model.named_modules():
        scope = getattr(type(module).forward, "__globals__", {})  # as the line looks it up
        for attribute, function in scope.items():
            # Dynamo adds the code that it makes of a function to its globals
            plain = isinstance(function, types.FunctionType) and function.__name__ == attribute
            if plain and _innermost_function(function, path, line):
                yield name, attribute, False
                return


def _methods(cls: type) -> Iterator[tuple[str, Any]]:
    seen: set[str] = set()
    for owner in cls.__mro__:
        if owner is nn.Module:
            return
        for name, value in vars(owner).items():
            # a dunder is looked up on the class: a line that sets it on an instance changes nothing
            if isinstance(value, types.FunctionType) and name not in seen and not name.startswith("__"):
                seen.add(name)
                yield name, value


def _innermost_function(function: Any, path: str, line: int) -> bool:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or os.path.realpath(code.co_filename) != path:
        return False
    lines = [number for _, _, number in code.co_lines() if number]
    return bool(code.co_firstlineno <= line <= max(lines, default=0))
