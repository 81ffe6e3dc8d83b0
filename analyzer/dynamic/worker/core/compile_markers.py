"""Find the author's decisions about compiling: code that is compiled already, and code that is excluded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from tcready.dynamic.worker.core.frames import FrameNames, enclosing, is_user_file
from tcready.dynamic.worker.torch_internals.dynamo import compiled_in_place, decided
from tcready.schema.run import Intent
from torch import nn

HOW = {"compiled": "torch.compile", "disabled": "torch.compiler.disable"}


def find_intents(model: Any, ran: set[tuple[str, int]], names: FrameNames) -> tuple[Intent, ...]:
    """Return every decision about code that ran (`ran`: file and line), in order of file and line.

    Searched are the model, its submodules and their classes, and the functions of the user's modules.
    """
    found: dict[tuple[str, int], Intent] = {}

    def add(value: Any, how: str | None = None, kind: str | None = None, module: str | None = None) -> None:
        known = decided(value)
        kind = kind or (known.kind if known else None)
        if kind is None:  # who holds this may raise anything for a name that it does not have
            return
        code = known.code if known else getattr(getattr(value, "forward", None), "__code__", None)
        if code is None or not is_user_file(code.co_filename):
            return
        around = enclosing(code.co_filename, code.co_firstlineno)
        last = around.last if around else code.co_firstlineno
        if any((code.co_filename, line) in ran for line in range(code.co_firstlineno, last + 1)):
            path, line = names.path(code.co_filename), code.co_firstlineno
            symbol = names.symbol(code.co_filename, line, code.co_name)
            before = found[path, line].modules if (path, line) in found else ()
            modules = before if module is None else (*before, module)
            found[path, line] = Intent(path, line, symbol, kind, how or HOW[kind], modules)  # type: ignore[arg-type]

    for name, module in model.named_modules() if isinstance(model, nn.Module) else ():
        if compiled_in_place(module):
            add(module, "module.compile()", "compiled", name)
        for owner in (module, *type(module).__mro__):
            for value in list(vars(owner).values()):
                add(value)
    add(model)
    for owner in _modules({path for path, _ in ran}):
        for value in list(vars(owner).values()):
            add(value)
    return tuple(found[key] for key in sorted(found))


def _modules(paths: set[str]) -> Iterator[ModuleType]:
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and getattr(module, "__file__", None) in paths:
            yield module
