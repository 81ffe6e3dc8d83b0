"""A builtin is called that Dynamo does not trace, such as `breakpoint`, `exec`, `globals` or `dir`.

## What it does
Finds calls of `breakpoint`, `exec`, `compile`, `globals`, `bytes`, `bytearray`, `memoryview`, `object`
(before torch 2.14), `dir` of an object or a tensor, and `pow` of a tensor; `getattr` with a name that is
computed from a tensor; calls of an `operator.itemgetter`, `attrgetter` or `methodcaller` that was created
before the compiled call; `__getattribute__` of an object; `list.append(items, x)`, that is, a method called
through the type instead of the list; attributes of a dict whose class defines `__getattr__ = dict.get` or
another builtin method; `hasattr` of the function that a `__torch_function__` receives, if an attribute of a
tensor is read; `fget`, `fset` and similar attributes of a property (`Base.size.fget(self)`); `callable` of a
method of a tensor; and `max` and `min` of instances of your own classes. Also finds `max` and `min` with
`key` or `default`, `math.prod` and `math.fsum`, over a generator, `map`, `zip` or a view of a dict.

## Why it hurts torch.compile
Dynamo does not model these builtins. It ends the graph at the call, and Python runs it.

## Use instead
`super().__getattribute__(name)` instead of `object.__getattribute__(self, name)`, and `super().append(x)`
instead of `list.append(self, x)`. Pass a list to `max(..., default=0)` or `math.prod`. Use `y ** 2` or
`torch.pow` instead of `pow`, and a dict of functions instead of `globals()` and `exec`. Create sentinels
once, at module level. Remove `breakpoint` from code that is compiled.

## Limits
These are traced: `eval` of a constant string that is a literal, or arithmetic on numbers without powers and
shifts; `dir` of a Python module, a class, a number or a container; `locals`, `vars`, other uses of `hasattr`,
`getattr` and `isinstance`. `eval` of a string that the source does not show is reported with medium
confidence.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tcready.rules._names import instance_called
from tcready.static.engine.facts import Attribute, Call
from tcready.static.engine.knowledge import CACHED_PROPERTY, GETTER, OF_PROPERTIES
from tcready.static.engine.values import (
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
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located

WALKING = frozenset({"math.prod", "math.fsum"})
"""Functions of `math` that walk what they are given."""
OF_OTHER_RULES = frozenset({"print", "open", "__import__"})

ASKED_OF_THE_TYPE = ("object.__getattribute__", "list.", "collections.deque.")
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
    builtin = (
        name and "." not in name and fact.gb_id and fact.traced_since is None and name not in OF_OTHER_RULES
    )
    folded = name != "eval" or _is_folded(fact)
    if folded is None and not builtin:
        return Claim("`eval` of a string that may contain names: the graph ends here", confidence="medium")
    if name == "dir" and fact.args and not any(map(_is_object, options(fact.args[0]))):
        return None  # a module of Python, a class, a number or a container is asked while tracing (measured)
    if builtin or not folded or name == "dir" or (name == "pow" and any(tensor_of(arg) for arg in fact.args)):
        return Claim(f"`{name}` in compiled code: the graph ends here", form=name)
    walks = name in WALKING or (
        name in ("max", "min") and bool({"key", "default"} & dict(fact.keywords).keys())
    )
    if walks and fact.args and _is_walked_once(fact.args[0]):
        return Claim(
            f"`{name}` of a generator, an iterator or a view in compiled code: the graph ends here",
            form=f"{name} of a generator",
        )
    if name == "callable" and any(
        _is_method_of_tensor(v) for v in options(fact.args[0] if fact.args else UNKNOWN)
    ):
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
    if name.startswith(ASKED_OF_THE_TYPE):
        return Claim(f"`{name}` is called through the type in compiled code: the graph ends here")
    if fact.method == "__getattribute__" and isinstance(fact.receiver, Instance) and not _by_super(fact.node):
        return Claim("`__getattribute__` is called by name in compiled code: the graph ends here")
    if isinstance(fact.receiver, Partial) and fact.method in OF_PROPERTIES:
        return Claim(
            f"`{fact.method}` of a property in compiled code: the graph ends here",
            form=f"{fact.method} of a property",
        )
    if instance_called(fact) in GETTERS:
        return Claim(
            f"an `{instance_called(fact)}` that was created before the call is called: the graph ends here"
        )
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
    held = (member for each in alone if isinstance(each, Sequence) for member in members_of(each))
    for value in (*fact.args, *held):
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


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._state import power

    return power(place)


RULE = Rule(
    code="TCR308",
    name="untraceable-builtin",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB0055",
        "GB0059",
        "GB0150",
        "GB0156",
        "GB0190",
        "GB0193",
        "GB0256",
        "GB0088",
        "GB4818",
    ),
    facts=(Call, Attribute),
    check=check,
    rewrite=rewrite,
    may_autofix=True,
    page=__doc__,
    bad=(
        Sample(
            """
class Settings(dict):
    __getattr__ = dict.get
    __setattr__ = dict.__setitem__

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.settings = Settings(scale=2, shift=1)

    def forward(self, x):
        y = x * 2
        y = y * self.settings.scale  # BAD
        return y + 1
""",
        ),
        Sample(
            """
class Base(nn.Module):
    @property
    def size(self):
        return 2

class Model(Base):
    @property
    def size(self):
        return Base.size.fget(self) + 1  # BAD

    def forward(self, x):
        y = x * 2
        return y * self.size
"""
        ),
        Sample(
            """
class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = 2

    @property
    def size(self):
        return self.kept

    @size.setter
    def size(self, new):
        self.kept = new

class Model(Base):
    def forward(self, x):
        y = x * 2
        found = getattr(type(self), "size", None)
        if isinstance(found, property):
            found.__set__(self, 3)  # BAD
        return y * self.size
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = []

    def forward(self, x):
        y = x * 2
        list.append(self.rows, 3)  # BAD
        return y + len(self.rows)
"""
        ),
        Sample(
            """
class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.names = ("scale",)

    def __getattr__(self, name):
        if name in object.__getattribute__(self, "names"):  # BAD
            return 2
        return super().__getattr__(name)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lazy = Lazy()

    def forward(self, x):
        y = x * 2
        return y * self.lazy.scale
"""
        ),
        Sample(
            """
import operator

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.pick = operator.itemgetter(0, 2)
        self.layer_0 = nn.Linear(8, 8)

    def forward(self, x):
        y = x * 2
        first, third = self.pick(y.unbind())  # BAD
        name = "layer_{}".format((x.sum() > 1e9).long())
        return getattr(self, name)(y) + first + third  # BAD
"""
        ),
        Sample(
            """
import math

class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        count = math.prod(map(int, y.shape))  # BAD
        longest = max(map(int, y.shape), default=1)  # BAD
        return y + count + longest
"""
        ),
        Sample(
            """
class Rank:
    def __init__(self, value):
        self.value = value

    def __gt__(self, other):
        return self.value > other.value

class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        best = max([Rank(1), Rank(2)])  # BAD
        if callable(getattr(y, "relu", None)):  # BAD
            y = y.relu()
        return y + best.value
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = pow(x, 2)  # BAD
        return y + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        helper = globals()["F"]  # BAD
        names = dir(y)  # BAD
        exec("1")  # BAD
        return helper.relu(y) + len(names)
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * eval("1 + 1")
        y = y * eval("2 ** 3")  # BAD
        y = y * eval("1 if 2 > 1 else 0")  # BAD
        return eval("F.relu")(y)  # BAD
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = (x * 2).as_subclass(Tagged)
        return x * y.shape[0]
""",
            setup="""
class Tagged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        out = super().__torch_function__(func, types, args, kwargs or {})
        if hasattr(func, "__name__"):  # BAD
            return out
        return out
""",
        ),
    ),
    good=(
        Sample(
            """
import operator

class Model(nn.Module):
    def forward(self, x):
        rows = (x * 2).unbind()
        first, third = operator.itemgetter(0, 2)(rows)
        return first + third + operator.methodcaller("sum", 0)(x) + operator.attrgetter("ndim")(x)
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x**2
        return y + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        table = {"a": 1}
        dict.update(table, b=2)
        name = getattr(F, "relu")(y) if hasattr(F, "relu") else y
        if callable(F.relu) and isinstance(y, torch.Tensor) and issubclass(nn.Linear, nn.Module):
            y = y + eval("-(1 + 1) / 2") + eval("[1, {'a': 2}]")[0] + pow(2, 3) + table["b"]
        return y + name
"""
        ),
    ),
)
