"""The frame filter: Dynamo's quick check of a function before it compiles it, whether anything in it is of torch."""

from __future__ import annotations

from collections.abc import Iterable

from tcready.static.domain.values import Class, Mapping, Sequence, Tensor, Unknown, Value, members_of, options
from tcready.static.frontend.index import Import
from tcready.static.interp.interfaces import Engine

TORCH_MODULES = frozenset({"torch", "torch.nn", "torch.nn.functional", "numpy"})
"""Dynamo compiles a function without tensors if it names one of these, or a module of torch by `import`."""
NESTING = 3
"""Containers in one another in which Dynamo's look for tensors is followed."""


def is_of_torch(engine: Engine, value: Value, *, vague: bool, depth: int = NESTING) -> bool:
    """Return whether the check finds something in a value that a function holds; `vague`: unknown values count too."""
    for option in options(value):
        if isinstance(option, Unknown) and (vague or option.tainted):
            return True
        if isinstance(option, Tensor) or engine.classes.is_module(option):
            return True
        if isinstance(option, Class) and engine.classes.mro(option.info).is_module:
            return True
        inner: Iterable[Value] = ()
        if isinstance(option, Sequence) and option.kind in ("list", "tuple"):
            inner = members_of(option)
        elif isinstance(option, Mapping):
            inner = [*(v for _, v in option.entries), *([option.element] if option.element else [])]
        if depth and any(is_of_torch(engine, member, vague=vague, depth=depth - 1) for member in inner):
            return True
    return False


def is_torch(found: Iterable[object]) -> bool:
    """Return whether a name of a file may be a module of torch or numpy."""
    for binding in found:
        if isinstance(binding, Import):
            whole = f"{binding.module}.{binding.name}" if binding.name else binding.module
            if whole in TORCH_MODULES or (binding.name is None and whole.startswith(("torch.", "numpy."))):
                return True
    return False
