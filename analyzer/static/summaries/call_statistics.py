"""The outcomes of calls, in words: the resolved target, or the reason. They measure how far the source was understood."""

from __future__ import annotations

import ast

from tcready.schema.enums import Resolved
from tcready.static.domain.values import (
    Class,
    Const,
    External,
    ExternalInstance,
    Function,
    Instance,
    Mapping,
    Method,
    Partial,
    Plain,
    Sequence,
    Super,
    Tensor,
    Unknown,
    Value,
)

STAR = "arguments that `*` gives, of unknown length"
DECORATOR = "a decorator that is not known"


def resolved(callee: Value) -> Resolved:
    """Return the words for a resolved call."""
    if isinstance(callee, (Function, Class, Instance, Partial)):
        return "source"
    return "value" if isinstance(callee, Method) and _is_plain(callee.receiver) else "library"


def unresolved(callee: Value, written: ast.expr) -> str:
    """Return the words for a kind of unresolved call; `written` is the callee's expression."""
    if isinstance(callee, External):
        return f"call of {callee.name}, whose source is not read"
    if isinstance(callee, ExternalInstance):
        return f"call of an object of {callee.name}, whose source is not read"
    if isinstance(callee, Instance):
        return "call of an object whose class has no `__call__` in sight"
    if isinstance(callee, Method):
        return _method(callee)
    if isinstance(callee, Plain):
        return "call of a value that configuration decides"
    return _expression(written)


def missing(module: str) -> str:
    """Return the words for a module without source."""
    return f"import of {module.partition('.')[0]}, which is not found"


def _method(callee: Method) -> str:
    receiver = callee.receiver
    if isinstance(receiver, Tensor):
        return f"method of a tensor: {callee.name}"
    if isinstance(receiver, ExternalInstance):
        return f"method of an object of {receiver.name}, whose source is not read"
    if isinstance(receiver, (Instance, Class, Super)):
        return f"method of a base class whose source is not read: {callee.name}"
    if isinstance(receiver, Unknown):
        return "method of an object that is not known"
    if isinstance(receiver, (Const, Plain)):
        return f"method of a value of Python: {callee.name}"
    if isinstance(receiver, (Sequence, Mapping)):
        return f"method of a container: {callee.name}"
    return "method of an object that is not known"


def _expression(written: ast.expr) -> str:
    for kind, words in _WORDS:
        if isinstance(written, kind):
            return f"call of {words}"
    return "call of an expression that is not known"


_WORDS: tuple[tuple[type[ast.expr], str], ...] = (
    (ast.Name, "a name whose value is not known"),
    (ast.Attribute, "an attribute whose value is not known"),
    (ast.Subscript, "an item that is not known"),
    (ast.Call, "what another call gives, which is not known"),
)


def _is_plain(value: Value) -> bool:
    return isinstance(value, (Const, Plain, Sequence, Mapping))
