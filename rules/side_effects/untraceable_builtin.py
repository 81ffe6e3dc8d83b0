"""A builtin is called that Dynamo does not trace, such as `breakpoint`, `exec`, `globals` or `dir`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tcready.fixes.rewriters.names import instance_called
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Attribute, Call
from tcready.static.domain.values import (
    LAZY,
    UNKNOWN,
    Const,
    ExternalInstance,
    Instance,
    Method,
    Partial,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    likely,
    members_of,
    options,
    tensor_of,
)
from tcready.static.library.semantics import CACHED_PROPERTY, GETTER, OF_PROPERTIES

WALKING = frozenset({"math.prod", "math.fsum"})
"""Functions of `math` that walk what they are given."""
OF_OTHER_RULES = frozenset({"print", "open", "__import__"})

LOOKED_UP_ON_THE_TYPE = ("object.__getattribute__", "list.", "collections.deque.")
"""How the names of methods begin that Dynamo does not call by way of their type (measured on torch 2.13); those of
`dict`, `set`, `tuple` and `str` it does."""
ARITHMETIC = (ast.UnaryOp, ast.UAdd, ast.USub, ast.Invert, ast.BinOp, ast.Add, ast.Sub, ast.Mult,
              ast.Div, ast.FloorDiv, ast.Mod, ast.BitOr, ast.BitXor, ast.BitAnd)  # fmt: skip
"""What Dynamo works out itself in the text of an `eval` that is no literal; not powers and shifts, comparisons, and
`1 if a else b` (measured on torch 2.13)."""
GETTERS = frozenset({"operator.itemgetter", "operator.attrgetter", "operator.methodcaller"})


def check(fact: Call | Attribute) -> Claim | None:
    if isinstance(fact, Attribute):
        message = f"an attribute that `{fact.by}` finds: the function runs eagerly"
        return Claim(message, effect="frame_skip") if fact.by not in ("", CACHED_PROPERTY) else None
    name = fact.constructed
    builtin = name and "." not in name and fact.gb_id and fact.traced_since is None and name not in OF_OTHER_RULES
    folded = name != "eval" or _is_folded(fact)
    if folded is None and not builtin:
        return Claim("`eval` of a string that may contain names: the graph ends here", confidence="medium")
    if name == "dir" and fact.args and not any(map(_is_object, options(fact.args[0]))):
        return None  # a module of Python, a class, a number or a container is looked up while tracing (measured)
    if builtin or not folded or name == "dir" or (name == "pow" and any(tensor_of(arg) for arg in fact.args)):
        return Claim(f"`{name}` in compiled code: the graph ends here", form=name)
    walks = name in WALKING or (name in ("max", "min") and bool({"key", "default"} & dict(fact.keywords).keys()))
    if walks and fact.args and _is_walked_once(fact.args[0]):
        return Claim(
            f"`{name}` of a generator, an iterator or a view in compiled code: the graph ends here",
            form=f"{name} of a generator",
        )
    if name == "callable" and any(_is_method_of_tensor(v) for v in options(fact.args[0] if fact.args else UNKNOWN)):
        return Claim(
            "`callable` of a tensor's method in compiled code: the graph ends here",
            form="callable of a tensor's method",
        )
    if name in ("max", "min") and any(isinstance(v, Instance) for v in _compared(fact)):
        return Claim(f"`{name}` of instances of your own classes in compiled code: the graph ends here")
    if name == "getattr" and any(Plain("str", "tensor") in options(arg) for arg in fact.args[1:2]):
        return Claim("`getattr` with a name that is computed from a tensor: the graph ends here")
    if name == "hasattr" and GETTER in fact.args[:1]:
        return Claim(
            "`hasattr` of the function that a `__torch_function__` receives: the graph ends if an attribute is read",
            form="hasattr of a function of torch",
        )
    if name.startswith(LOOKED_UP_ON_THE_TYPE):
        return Claim(f"`{name}` is called through the type in compiled code: the graph ends here")
    if fact.method == "__getattribute__" and isinstance(fact.receiver, Instance) and not _by_super(fact.node):
        return Claim("`__getattribute__` is called by name in compiled code: the graph ends here")
    if isinstance(fact.receiver, Partial) and fact.method in OF_PROPERTIES:
        return Claim(
            f"`{fact.method}` of a property in compiled code: the graph ends here", form=f"{fact.method} of a property"
        )
    if instance_called(fact) in GETTERS:
        return Claim(f"an `{instance_called(fact)}` that was created before the call is called: the graph ends here")
    return None


def _is_object(value: Value) -> bool:
    """An object with attributes of its own, or what may be one."""
    return isinstance(value, (Instance, ExternalInstance, Tensor, Unknown)) or (
        isinstance(value, Plain) and value.kind is None
    )


def _is_method_of_tensor(value: Value) -> bool:
    return isinstance(value, Method) and isinstance(value.receiver, Tensor)


def _compared(fact: Call) -> Iterator[Value]:
    """What `max` or `min` compares: its arguments, or what the only one holds."""
    alone = options(fact.args[0]) if len(fact.args) == 1 else ()
    members_inside = (member for each in alone if isinstance(each, Sequence) for member in members_of(each))
    for value in (*fact.args, *members_inside):
        yield from options(value)


def _is_folded(fact: Call) -> bool | None:
    """An `eval` that Dynamo calls itself, which it does of constant text alone; None if the text is not known."""
    if len(fact.args) != 1 or fact.keywords:
        return False
    written = likely(fact.args[0])
    if not isinstance(written, Const):
        return None
    return isinstance(written.value, str) and _is_worked_out(written.value)


def _is_worked_out(text: str) -> bool:
    """A literal, or arithmetic on numbers that are written out. What is no expression raises either way."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return True
    nodes = [*ast.walk(tree.body)]
    if any(isinstance(node, ast.Call) for node in nodes):  # `set()` is a literal to Python
        return False
    try:
        ast.literal_eval(tree)
    except ValueError:
        return all(isinstance(node, ARITHMETIC) or _is_number(node) for node in nodes)
    except (TypeError, MemoryError, RecursionError):
        return True
    return True


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float, complex))


def _by_super(node: ast.Call) -> bool:
    """`super().name(...)`, which Dynamo looks up as Python does."""
    return isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call)


def _is_walked_once(value: Value) -> bool:
    """A generator, an iterator or a view: neither a list nor a range."""
    found = likely(value)
    return isinstance(found, Sequence) and found.kind in LAZY


RULE = Rule(
    code="TCR308",
    gb_ids=("GB0055", "GB0059", "GB0150", "GB0156", "GB0190", "GB0193", "GB0256", "GB0088", "GB4818"),
    facts=(Call, Attribute),
    check=check,
    rewriters=("state.power",),
    may_autofix=True,
    module=__name__,
)
