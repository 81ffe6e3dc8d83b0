"""Find code of a file that may run without being named: properties, operators, conversions of an object to text,
number or truth, methods with the name of a tensor's method, and handlers of logging."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst
from tcready.fixes.rewriters.conditions import in_order
from tcready.fixes.rewriters.numbers import function_name
from tcready.static.diagnostics.cst_view import names_in

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located
    from tcready.static.frontend.source import Source

PURE = frozenset("len str repr type format int float bool round range tuple list min max sum abs id isinstance".split())
PURE_METHODS = frozenset(
    """
    item tolist size dim numel mean sum min max std var norm any all abs detach cpu float double int long bool isnan isinf
    isfinite format join keys values items isEnabledFor get_device argmax argmin unique nonzero count_nonzero sqrt
    """.split()
)
"""Methods of tensors, texts and dicts without effects."""
OF_MODULES = frozenset("bfloat16 cpu cuda double float half to type".split())
"""Methods of tensors that change a module in place, if called on one."""
TAKING_ITEMS = frozenset("join list max min sorted sum tuple".split())
NOT_CALLED = frozenset(
    """
    __aenter__ __aexit__ __annotations__ __call__ __class__ __class_getitem__ __copy__ __deepcopy__ __defaults__ __del__
    __delattr__ __delete__ __delitem__ __dict__ __doc__ __enter__ __exit__ __getitem__ __getnewargs__ __getstate__
    __init__ __init_subclass__ __module__ __name__ __new__ __post_init__ __prepare__ __qualname__ __reduce__
    __reduce_ex__ __set__ __set_name__ __setattr__ __setitem__ __setstate__ __signature__ __slots__ __wrapped__
    """.split()
)
"""Special names that reading, comparing, computing and printing do not call."""
OF_TEXTS = frozenset({"extra_repr", "_get_name"})
"""Special methods for the text of a module."""
OF_ACCESS = frozenset({"__getattr__", "__getattribute__", "__get__"})
OF_LOGGING = frozenset("emit handle filter format makeRecord callHandlers log _log".split())
"""Methods of loggers, handlers, filters and formatters that a message passes through."""
MESSAGES = ("logging", "warnings", "pprint")
HIDDEN = "`{}` in this file may run there, and does more than return a value"
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def hidden_effect(place: Located, *nodes: cst.CSTNode, called: cst.BaseExpression | None = None) -> str | None:
    """Return why evaluating `nodes`, or passing them to `called`, which prints, logs or warns, may run a function of
    the file that has an effect."""
    members = place.source.derive(_Members)
    inside = [each for node in nodes for each in in_order(node)]
    for call in inside:
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value in members.given:
            return HIDDEN.format(call.func.value)
    if isinstance(called, cst.Name) and called.value in members.given - members.messages:
        return HIDDEN.format(called.value)
    if called is not None and function_name(called) in ("warn", "warn_explicit"):
        if any(members.is_made(each.value) for each in inside if isinstance(each, cst.Name)):
            return HIDDEN.format("__init__")
    read = [*inside, *(in_order(called) if isinstance(called, cst.Attribute) else ())]
    attributes = {each.attr.value for each in read if isinstance(each, cst.Attribute)}
    if isinstance(called, cst.Attribute):
        attributes |= {*OF_ACCESS, *OF_LOGGING}
    # a format string may name items: `"%(name)s"`, `"{0[name]}"`
    if any(isinstance(each, cst.SimpleString) and ("%(" in each.value or "[" in each.value) for each in inside):
        attributes.add("__getitem__")
    # what has a name may be an object
    name = members.effect(attributes, any(isinstance(each, cst.Name) for each in inside))
    return None if name is None else HIDDEN.format(name)


def _is_special(name: str) -> bool:
    return (name.startswith("__") and name.endswith("__") and name not in NOT_CALLED) or name in OF_TEXTS


class _Members:
    """The members that the classes of a file define. Code counts as having an effect unless it only returns a value,
    by its form."""

    def __init__(self, source: Source) -> None:
        self.given = source.derive(names_in)
        self.messages = {
            alias.asname or alias.name
            for node in source.nodes
            if isinstance(node, ast.ImportFrom) and node.module in MESSAGES
            for alias in node.names
        }
        self.classes = {each.name: each for each in source.classes}
        self.members: list[tuple[str, _Function | ast.expr]] = []
        for each in source.classes:
            self.members += _defined(each.body)
        self.functions = [each for _, each in self.members if isinstance(each, _Function)]
        self.functions += [each for each in source.tree.body if isinstance(each, _Function)]
        self.members += _set_later(source)

    def is_made(self, name: str) -> bool:
        """Return True if creating an instance of a class of that name runs code of the file: a warning creates one
        of its category."""
        found = self.classes.get(name)
        return found is not None and any(each in ("__init__", "__new__") for each, _ in _defined(found.body))

    def effect(self, attributes: set[str], of_objects: bool) -> str | None:
        """Return the first member that may have an effect, of those that reading these attributes may run."""
        left = list(self.members)
        while True:
            run = [each for each in left if each[0] in attributes or (of_objects and _is_special(each[0]))]
            if not run:
                return None
            left = [each for each in left if each not in run]
            for name, member in run:
                if not self._only_gives(name, member):
                    return name
                attributes = attributes | {each.attr for each in ast.walk(member) if isinstance(each, ast.Attribute)}
                of_objects = of_objects or isinstance(member, _Function)

    def _only_gives(self, name: str, member: _Function | ast.expr) -> bool:
        if isinstance(member, ast.FunctionDef):
            return all(map(_is_harmless, member.decorator_list)) and self._body(name, member.body)
        if isinstance(member, ast.AsyncFunctionDef):
            return False
        if isinstance(member, ast.Lambda):
            return self._plain(name, member.body)
        if isinstance(member, (ast.Name, ast.Attribute)):
            other = member.id if isinstance(member, ast.Name) else member.attr
            found = [each for each in self.functions if each.name == other]
            if not found:  # a value, or what Python or a library defines for the same purpose
                return not _is_special(name) or _is_special(other)
            return all(self._only_gives(name, each) for each in found)
        if isinstance(member, ast.Call):
            maker = last_name(member.func)
            if maker == "property" and not member.keywords:
                return all(self._only_gives(name, each) for each in member.args[:1])
            if maker in self.classes or maker in ("field", "getLogger"):
                return True  # a descriptor has special methods of its own
        return self._plain(name, member)

    def _body(self, name: str, body: list[ast.stmt]) -> bool:
        for each in body:
            if isinstance(each, ast.If):
                known = self._plain(name, each.test) and self._body(name, each.body + each.orelse)
            elif isinstance(each, ast.Assign):
                known = all(isinstance(to, ast.Name) for to in each.targets) and self._plain(name, each.value)
            elif isinstance(each, ast.Return):
                known = each.value is None or self._plain(name, each.value)
            elif isinstance(each, ast.Raise):
                known = isinstance(each.exc, ast.Name)
            else:
                known = isinstance(each, ast.Pass) or (
                    isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
                )
            if not known:
                return False
        return True

    def _plain(self, name: str, node: ast.expr) -> bool:
        """Return True if an expression in a function of that name only returns a value."""
        if isinstance(node, ast.Call):
            return self._call(name, node)
        if isinstance(node, ast.Subscript) and not _is_size(node.value):
            return False  # an item may be made by being asked for
        if isinstance(node, ast.Compare) and any(isinstance(each, (ast.In, ast.NotIn)) for each in node.ops):
            if any(_may_be_used_up(each) for each in node.comparators):
                return False
        if not isinstance(node, _PLAIN):
            return False
        return all(self._plain(name, each) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))

    def _call(self, name: str, call: ast.Call) -> bool:
        if any(each.arg in ("key", "out") for each in call.keywords):
            return False
        for each in (*call.args, *(keyword.value for keyword in call.keywords)):
            if not self._plain(name, each):
                return False
        func = call.func
        if isinstance(func, ast.Name):
            if func.id == "next" and "next" not in self.given:
                return len(call.args) == 1 and last_name(getattr(call.args[0], "func", None)) in OF_WEIGHTS
            known = func.id in PURE_OF_FILES and func.id not in self.given
        elif isinstance(func, ast.Attribute):
            if isinstance(func.value, ast.Call) and last_name(func.value.func) == "super":
                return func.attr == name  # a class of the file that has it too is asked as well
            known = func.attr in (PURE_METHODS | OF_WEIGHTS) - OF_MODULES or func.attr == "getLogger"
            known = known and self._plain(name, func.value) and not self._may_be_module(call, func)
            known = known and (func.attr != "join" or isinstance(func.value, (ast.Constant, ast.JoinedStr)))
        else:
            return False
        takes = last_name(func) in TAKING_ITEMS and len(call.args) == 1
        return known and not (takes and _may_be_used_up(call.args[0]))

    def _may_be_module(self, call: ast.Call, func: ast.Attribute) -> bool:
        """Return True if an attribute with the name of a tensor's method may be a module: `self.norm(x)`."""
        if func.attr in OF_WEIGHTS or func.attr in ("format", "join", "getLogger"):
            return False
        if isinstance(func.value, ast.Name) and func.value.id in ("self", "cls"):
            return all(each.name != func.attr for each in self.functions)
        return not all(isinstance(each, ast.Constant) for each in call.args)


PURE_OF_FILES = PURE | {"getLogger", "hash", "sorted"}
OF_WEIGHTS = frozenset({"buffers", "parameters"})
"""Methods of modules that return a new iterator each time."""
_PLAIN = (
    ast.Constant,
    ast.Name,
    ast.Attribute,
    ast.Subscript,
    ast.Slice,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
    ast.JoinedStr,
    ast.FormattedValue,
    ast.Tuple,
    ast.List,
    ast.Set,
    ast.Dict,
)


def _defined(body: list[ast.stmt]) -> Iterator[tuple[str, _Function | ast.expr]]:
    """Return the members that a class defines, by name: its functions, and its assignments, including conditional
    ones."""
    for each in body:
        if isinstance(each, _Function):
            if not any(last_name(one) in ("setter", "deleter") for one in each.decorator_list):
                yield each.name, each
        elif isinstance(each, ast.Assign):
            names = (name for target in each.targets for name in ast.walk(target))
            yield from ((name.id, each.value) for name in names if isinstance(name, ast.Name))
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and each.value is not None:
            yield each.target.id, each.value
        elif not isinstance(each, ast.ClassDef):
            for part in ("body", "orelse", "finalbody", "handlers", "cases"):
                yield from _defined(getattr(each, part, []))


def _set_later(source: Source) -> Iterator[tuple[str, ast.expr]]:
    """Yield special methods and properties that are added to a class outside of its definition."""
    for node in source.nodes:
        if not isinstance(node, ast.Assign):
            continue
        of_property = isinstance(node.value, ast.Call) and last_name(node.value.func) == "property"
        for target in node.targets:
            if isinstance(target, ast.Attribute) and (_is_special(target.attr) or of_property):
                yield target.attr, node.value


def last_name(node: ast.AST | None) -> str:
    """Return the last part of a name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_harmless(decorator: ast.expr) -> bool:
    return last_name(decorator) in ("property", "staticmethod", "classmethod", "abstractmethod", "override")


def _is_size(node: ast.expr) -> bool:
    func = node.func if isinstance(node, ast.Call) else node
    return isinstance(func, ast.Attribute) and func.attr in ("shape", "size", "stride")


def _may_be_used_up(node: ast.expr) -> bool:
    """Return True if it may be an iterator created elsewhere."""
    return isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and not _is_size(node)
