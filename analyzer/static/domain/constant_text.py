"""Evaluate methods of `str` and searches in constant text."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import cast

from tcready.static.domain.const_eval import worked_out
from tcready.static.domain.values import (
    NONE,
    UNKNOWN,
    Const,
    ExternalInstance,
    Kind,
    Mapping,
    Plain,
    Sequence,
    Value,
    holds_tensor,
    join,
    lift,
    likely,
    options,
)

MAX_LENGTH = 20_000
"""Longer constant text is only known to be text."""
BUILTIN_TYPES = frozenset({"str", "dict", "set", "frozenset", "list", "tuple", "object"})
PURE = frozenset(
    "lower upper title capitalize strip lstrip rstrip removeprefix removesuffix replace startswith endswith split "
    "isdigit isalnum isidentifier isalpha isdecimal islower isupper rsplit casefold partition rpartition join count "
    "find rfind index rindex splitlines swapcase isspace istitle isnumeric isascii".split()
)
"""Methods of text that are worked out if everything is constant."""
METHODS = frozenset(
    "lower upper title capitalize strip lstrip rstrip removeprefix removesuffix startswith endswith splitlines "
    "isdigit isalnum isidentifier isalpha isdecimal islower isupper encode casefold zfill rsplit partition".split()
)
"""Methods that text alone has."""
OF_TEXT = frozenset(name for name in vars(str) if not name.startswith("_")) - {"split"}
"""Methods of text that no tensor has."""
PLACES = re.compile(r"\{\d?\}")
"""Places of `str.format` that take a whole argument."""
WORDS = re.compile(r"[\w|()^$-]*")
"""Patterns without anything that repeats."""


def match(name: str, args: tuple[Value, ...]) -> Value:
    """Return a search in constant text for a constant pattern that only lists words: it cannot run long."""
    pattern, text = (likely(v) for v in (*args, UNKNOWN, UNKNOWN)[:2])
    if isinstance(pattern, Const) and isinstance(text, Const) and len(args) == 2:
        words, within = pattern.value, text.value
        if isinstance(words, str) and isinstance(within, str) and WORDS.fullmatch(words):
            found = getattr(re, name)(words, within)
            if name != "findall":
                return NONE if found is None else ExternalInstance("re.Match")
            return Sequence("list", tuple(Const(f) if isinstance(f, str) else UNKNOWN for f in found), UNKNOWN)
    return Sequence("list", None, Plain("str")) if name == "findall" else join(NONE, ExternalInstance("re.Match"))


def type_method(kind: str, name: str, args: tuple[Value, ...]) -> Value:
    """`str.join(a, b)`, `dict.fromkeys(keys)`, `set.difference(a, b)`."""
    if kind == "str":
        return method(args[0] if args and isinstance(args[0], Const) else Plain("str"), name, args[1:])
    if name == "fromkeys":
        return Mapping((), args[1] if len(args) > 1 else NONE)
    if kind in ("set", "frozenset", "list", "tuple"):
        first = args[0] if args else UNKNOWN
        return first if isinstance(first, Sequence) else Sequence("set" if "set" in kind else "list", None, UNKNOWN)
    return NONE if name in ("__setattr__", "__init__", "__delattr__") else UNKNOWN


def method(receiver: Const | Plain, name: str, args: tuple[Value, ...]) -> Value:
    """Return the result of a method of a Python value that is no container; of a constant string, if all arguments are
    constant."""
    if isinstance(receiver, Plain) and receiver.kind != "str":
        member = Plain(None, receiver.origin)
        if name == "items":
            return Sequence("view", None, Sequence("tuple", (Plain("str"), member), UNKNOWN))
        if name == "keys":
            return Sequence("keys", None, Plain("str"))
        if name == "values":
            return Sequence("view", None, member)
        return member
    text = receiver.value if isinstance(receiver, Const) else None
    if name == "format":
        return lift(lambda *given: _format(text, given), *args)
    if name in PURE and text is not None:
        known = worked_out(getattr(str, name), receiver, *args)
        if known is not None:
            return known
    if isinstance(text, str) and name == "join" and args and isinstance(args[0], (Sequence, Mapping)):
        members = _texts(args[0])
        if members is not None and len(text) + sum(map(len, members)) < MAX_LENGTH:
            return Const(text.join(members))
    if isinstance(text, str) and name in PURE and all(isinstance(a, Const) for a in args) and len(text) < MAX_LENGTH:
        try:
            found = getattr(text, name)(*(cast(Const, a).value for a in args))
        except (TypeError, ValueError):
            return UNKNOWN
        if isinstance(found, (list, tuple)):
            kind: Kind = "list" if isinstance(found, list) else "tuple"
            return Sequence(kind, tuple(map(Const, found)), UNKNOWN)
        return Const(found) if not isinstance(found, str) or len(found) < MAX_LENGTH else Plain("str")
    if name in ("split", "rsplit", "splitlines", "partition", "rpartition"):
        return Sequence("list", None, Plain("str"))
    if name.startswith("is") or name in ("startswith", "endswith"):
        return Plain("bool")
    return Plain("int") if name in ("find", "rfind", "index", "rindex", "count") else Plain("str")


def constant(value: Value) -> Value:
    """Return the result of a string method while Dynamo traces: a list in it cannot be changed."""
    return lift(
        lambda found: join(*(replace(v, constant=True) if isinstance(v, Sequence) else v for v in options(found))),
        value,
    )


def _format(text: object, args: tuple[Value, ...]) -> Value:
    """`text.format(*args)`, if the places in it are plain."""
    given = [v.value for v in args if isinstance(v, Const) and isinstance(v.value, (str, int))]
    if isinstance(text, str) and len(given) == len(args) and not PLACES.sub("", text).count("{"):
        try:
            return Const(text.format(*given))
        except (IndexError, ValueError):
            return UNKNOWN
    return Plain("str", "tensor" if any(map(holds_tensor, args)) else "config")


def _texts(value: Sequence | Mapping) -> list[str] | None:
    """Return the members of a joined container, if all of them are constant strings."""
    if isinstance(value, Mapping):
        found: list[object] = [key for key, _ in value.entries] if value.element is None else [None]
    else:
        found = [v.value if isinstance(v, Const) else None for v in value.items or (NONE,)]
    return cast("list[str]", found) if all(isinstance(v, str) for v in found) else None


ANY_NAME = r"\w*"


def name_pattern(node: ast.expr) -> str:
    """Return a regular expression for a name of which the source decides some parts."""
    return "".join(ANY_NAME if part is None else re.escape(part) for part in _parts_of_text(node))


def _parts_of_text(node: ast.expr) -> list[str | None]:
    """Return the pieces of a string built by an f-string, `format`, `%` or `+`; None for an unknown one."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        return [str(v.value) if isinstance(v, ast.Constant) else None for v in node.values]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_parts_of_text(node.left), *_parts_of_text(node.right)]
    template: ast.expr | None = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        template, place = node.func.value, r"\{\w*\}"
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        template, place = node.left, r"%[sd]"
    if not isinstance(template, ast.Constant) or not isinstance(template.value, str):
        return [None]
    pieces = re.split(place, template.value)
    return [part for piece in pieces for part in (piece, None)][:-1]
