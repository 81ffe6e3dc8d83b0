"""Classes: their bases, the effects of decorators, and what their bodies and methods assign."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from tcready.static.domain.mro import PATCHED, Mro, behind_module, linearise
from tcready.static.domain.scope import Env, Frame, first_name
from tcready.static.domain.values import (
    UNKNOWN,
    Class,
    Const,
    External,
    ExternalInstance,
    Function,
    Instance,
    Mapping,
    Sequence,
    Value,
    escaped,
    options,
)
from tcready.static.frontend.index import CLASSES, FUNCTIONS, ClassInfo, FunctionInfo, ModuleInfo, mentioned_names
from tcready.static.frontend.source import nodes_in
from tcready.static.interp.interfaces import CallSite, Component, Engine
from tcready.static.library import semantics as K  # noqa: N812

BUILDING = frozenset({"__init__", "__post_init__", "__set_name__", "__setstate__"})
"""Methods that run while an object is made."""
DEFINING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
FILLING = (ast.Assign, ast.Expr, ast.For, ast.If, ast.Try, ast.With)
EMPTY = Mapping((), None)
STORING = frozenset({"append", "add", "insert", "setdefault"})
"""Methods of tables that store what they are given."""


@dataclass(frozen=True)
class Filler:
    """A statement that runs at import, the names of the tables or objects that it changes, and the functions it calls for
    no value."""

    statement: ast.stmt
    changed: frozenset[str]
    called: tuple[ast.expr, ...]


@dataclass(frozen=True)
class Part:
    """A statement of a class body, the names that it binds or changes, and all that it speaks of."""

    statement: ast.stmt
    made: frozenset[str]
    names: frozenset[str]


class Classes(Component):
    """Classes: their order, what their decorators change, what their bodies and methods assign."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._busy: set[tuple[ClassInfo, str]] = set()
        """Attributes that are being evaluated."""
        self._patched: dict[ClassInfo, dict[str, Function]] = {}
        """Methods that decorators of their class put in the place of what it defines."""
        self._patching: dict[FunctionInfo, bool] = {}
        self._filling: dict[ModuleInfo, tuple[Filler, ...]] = {}
        self._with: dict[ModuleInfo, list[str]] = {}
        """The modules that come along with what is read and with this one."""
        self._registered: set[tuple[ModuleInfo, str]] = set()
        """Tables that what is run at import has filled, as far as it is in sight."""
        self._parts: dict[ClassInfo, tuple[tuple[Part, ...], frozenset[str]]] = {}
        """The statements of class bodies that may bind or change a name, from the last to the first, and all that the
        bodies bind."""
        self._bodies: dict[tuple[ClassInfo, str], tuple[frozenset[str], tuple[ast.stmt, ...]]] = {}
        """Names of a class body that another one hangs on, and the statements that make it, if it takes several."""
        self._values: dict[tuple[ClassInfo, str], Value] = {}
        """Class attributes that were changed at import."""
        self._mros: dict[ClassInfo, Mro] = {}
        self._stores: dict[Mro, frozenset[str]] = {}
        self._changing: dict[Mro, dict[str, bool]] = {}

    def decorate_class(self, cls: ClassInfo) -> None:
        """Run the decorators of a class that put other functions in the place of its methods."""
        if cls in self._patched:
            return
        self._patched[cls] = {}
        frame = self.engine.names.module_frame(cls.module)
        for node in reversed(cls.node.decorator_list):
            named = self.engine.expressions.eval(node.func if isinstance(node, ast.Call) else node, frame)
            if not isinstance(named, Function) or not self._patches(named.info):
                continue
            for decorator in options(self.engine.expressions.eval(node, frame)):
                if isinstance(decorator, Function):
                    self.engine.functions.invoke(decorator, (Class(cls),), {}, frame)

    def _patches(self, info: FunctionInfo) -> bool:
        """Return whether a decorator, or a function inside it, assigns a method to something."""
        if self.engine.replay is not None:
            self.engine.replay.read(info)
        if info not in self._patching:
            self._patching[info] = any(
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Name)
                and any(isinstance(t, ast.Attribute) and t.attr in PATCHED for t in node.targets)
                for node in info.nodes
            )
        return self._patching[info]

    def patch(self, cls: ClassInfo, name: str, value: Value) -> None:
        """Assign `cls.name = value` while its decorators run."""
        if self.engine.untraced and isinstance(value, Function):
            self._patched.setdefault(cls, {})[name] = value
            self.engine.heap.changes.count += 1
            self.engine.heap.changes.elsewhere += 1

    def replacement(self, mro: Mro, name: str, after: ClassInfo | None = None) -> Function | None:
        """Return the function by which a decorator replaced the method that the nearest class defines."""
        for cls in mro.after(after):
            if name in self._patched.get(cls, {}):
                return self._patched[cls][name]
            if name in cls.functions:
                return None
        return None

    def initialisers(self, mro: Mro) -> list[Function]:
        """Return the functions that act as `__init__`."""
        replaced = self.replacement(mro, "__init__")
        if replaced is not None:
            return [replaced]
        defined = mro.functions("__init__")[:1]
        found = (
            options(self.engine.functions.apply_decorators(info, self.engine.names.module_frame(info.module)))
            for info in defined
        )
        return [value for values in found for value in values if isinstance(value, Function)]

    def mro(self, cls: ClassInfo) -> Mro:
        """Return the method resolution order of a class, with bases without source by name."""
        if cls not in self._mros:
            bases: dict[ClassInfo, list[ClassInfo | str]] = {}
            self._collect_bases(cls, bases)
            order, external = linearise(cls, bases)
            self._mros[cls] = Mro(tuple(order), tuple(external), behind_module(order, bases))
        return self._mros[cls]

    def _collect_bases(self, cls: ClassInfo, bases: dict[ClassInfo, list[ClassInfo | str]]) -> None:
        if cls in bases:
            return
        bases[cls] = []
        with self.engine.outside_trace():
            frame = self.engine.names.module_frame(cls.module)
            for place, node in enumerate(cls.node.bases):
                base = (
                    self.engine.expressions.eval(node, frame)
                    if cls.derives is None
                    else cast("Value", cls.derives[place])
                )
                for value in options(base):
                    if isinstance(value, Class):
                        bases[cls].append(value.info)
                        self._collect_bases(value.info, bases)
                    elif isinstance(value, External):
                        bases[cls].append(K.public_name(value.name))
                    else:
                        bases[cls].append("?" + ast.unparse(node))

    def is_module(self, value: Value) -> bool:
        """Return whether it is an nn.Module object."""
        if isinstance(value, Instance):
            return self.mro(value.cls).is_module
        return isinstance(value, ExternalInstance) and K.is_module_class(value.name)

    def assigned_attributes(self, mro: Mro) -> frozenset[str]:
        """Return the attributes that any method assigns, including `__init__` and `__post_init__`."""
        if mro not in self._stores:
            self._stores[mro] = frozenset(
                attr
                for cls in mro.classes
                for found in cls.functions.values()
                for info in found
                for attr in info.attributes[0]
            )
        return self._stores[mro]

    def reassigned_attributes(self, mro: Mro) -> dict[str, bool]:
        """Attributes that methods assign which run after `__init__`: what that gave them decides nothing. For each,
        whether a call comes by such a method; else it is there for whoever wants to change the default.

        A method that `__init__` alone speaks of is part of it.
        """
        if mro not in self._changing:
            stored: dict[str, set[str]] = {}
            named: dict[str, set[str]] = {}
            setters: list[FunctionInfo] = []
            for cls in mro.classes:
                for name, found in cls.functions.items():
                    for info in found:
                        if info.is_setter:
                            setters.append(info)
                            continue
                        stores, names = info.attributes
                        stored.setdefault(name, set()).update(stores)
                        named.setdefault(name, set()).update(names)
            for info in setters:  # who sets a property runs its setter; who reads it does not
                for name in [name for name, attrs in stored.items() if info.name in attrs]:
                    stored[name].update(info.attributes[0])
                    named[name].update(info.attributes[1])
            later = {attr for name, attrs in named.items() if name != "__init__" for attr in attrs}
            building = {*BUILDING, *(named.get("__init__", set()) - later)}
            called = _named_from({"forward", "__call__"}, named)
            changed: dict[str, bool] = {}
            for name, attrs in stored.items():
                for attr in attrs if name not in building else ():
                    changed[attr] = changed.get(attr, False) or name in called or "forward" not in named
            for info in setters:
                for attr in info.attributes[0]:
                    changed.setdefault(attr, False)
            self._changing[mro] = changed
        return self._changing[mro]

    def register_into(self, module: ModuleInfo, name: str, value: Value) -> None:
        """Run what a module runs at import to fill a table: decorators that speak of `name`, `__init_subclass__`,
        and statements that change it, or call a function that speaks of it. If it is empty, and a function stores there
        what it is given, the modules that come along with it, and with what is read, do so as well."""
        if (module, name) in self._registered:
            return
        self._registered.add((module, name))
        with self.engine.outside_trace():
            elsewhere = self._is_registry(module, name, value)
            self._fill_from(module, name)
            if elsewhere:
                words = self._fillers_of(module, name)
                for other in self._along(module):
                    if any(self.engine.program.speaks_of(other, word) for word in words):
                        found = self.engine.program.module(other)
                        if found is not None and found is not module:
                            self._fill_from(found, name)

    def _is_registry(self, module: ModuleInfo, name: str, value: Value) -> bool:
        """Return whether `value` is, or holds, an empty table in which a function of the module, or a method of the
        object, stores its arguments."""
        if isinstance(value, Instance):
            attributes = self.engine.heap[value].attributes
            tables = frozenset(each for each, found in attributes.items() if _is_empty(found))
            classes = self.mro(value.cls).classes if tables else ()
            infos = [info for cls in classes for methods in cls.functions.values() for info in methods]
        elif _is_empty(value):
            tables = frozenset({name})
            infos = [info for _, info in _functions_of(module) if name in info.mentions]
        else:
            return False
        if self.engine.replay is not None:
            for info in infos:
                self.engine.replay.read(info)
        return any(_stores_given(info.node, tables) for info in infos)

    def _along(self, module: ModuleInfo) -> list[str]:
        """Return the modules imported along with a module and with those read."""
        if module not in self._with:
            entries = (each.name for each in self.engine.program.entries())
            self._with[module] = self.engine.program.come_along(*entries, module.name)
        return self._with[module]

    def _fillers_of(self, module: ModuleInfo, name: str) -> list[str]:
        """Return the names in another module that mean it fills a table: of the table, or of a function or class that
        does so."""
        words = [name]
        for word, info in _functions_of(module):
            if self._speaks(info, name):
                words.append(word)
        for word, found in module.bound(CLASSES).items():  # and by what their metaclass does
            metas = (k.value for b in found if isinstance(b, ClassInfo) for k in b.node.keywords)
            if any(isinstance(meta, ast.Name) and meta.id in words for meta in metas):
                words.append(word)
        return list(dict.fromkeys(words))

    def _fill_from(self, module: ModuleInfo, name: str) -> None:
        """Run what a module runs at import to fill a table that it calls `name`, or has filled by what speaks of it."""
        frame = self.engine.names.module_frame(module)
        for found in list(module.bound(CLASSES, FUNCTIONS).values()):
            for binding in found:
                if isinstance(binding, FunctionInfo) and any(
                    self._fills(node, name, frame) for node in binding.decorators
                ):
                    self.engine.functions.apply_decorators(binding, frame)
                elif isinstance(binding, ClassInfo):
                    self._register(binding, name, frame)
                    for info in (f for found in binding.functions.values() for f in found):
                        if any(self._fills(node, name, frame) for node in info.decorators):
                            self.engine.functions.apply_decorators(info, frame)
        for filler in self._fillers(module):
            if name in filler.changed or any(self._fills(node, name, frame) for node in filler.called):
                self.engine.statements.block([filler.statement], Frame(module, None, -1, {}, depth=frame.depth))

    def _fillers(self, module: ModuleInfo) -> tuple[Filler, ...]:
        """Statements of a module that may change a table while it is imported."""
        if module not in self._filling:
            body = module.source.tree.body
            found = (_filler(node) for node in body if isinstance(node, FILLING) and not _is_main(node))
            self._filling[module] = tuple(filler for filler in found if filler.changed or filler.called)
        return self._filling[module]

    def _register(self, cls: ClassInfo, name: str, frame: Frame) -> None:
        for node in reversed(cls.node.decorator_list):
            if self._fills(node, name, frame):
                site = ast.copy_location(ast.Call(node, [], []), node)
                self.engine.calls.call(
                    self.engine.expressions.eval(node, frame), CallSite(site, (Class(cls),), {}, frame)
                )
        mro = self.mro(cls)
        for info in mro.functions("__init_subclass__", cls)[:1]:
            if self._speaks(info, name):
                self.engine.functions.invoke(Function(info, Class(cls)), (), self._keywords(cls, frame), frame)
        for info in self.metaclass_methods(mro, "__init__")[:1]:
            if self._speaks(info, name):
                body = [(each, self.class_attribute(cls, each, None)) for each in cls.assigned]
                body += [(each, UNKNOWN) for each in cls.functions]
                made = (Const(cls.name), Sequence("tuple", None, UNKNOWN), Mapping(tuple(body), None))
                self.engine.functions.invoke(Function(info, Class(cls)), made, self._keywords(cls, frame), frame)

    def _speaks(self, info: FunctionInfo, name: str) -> bool:
        if self.engine.replay is not None:
            self.engine.replay.read(info)
        return name in info.mentions

    def _keywords(self, cls: ClassInfo, frame: Frame) -> dict[str, Value]:
        """Return the keyword arguments of a class statement, except the metaclass."""
        given = {k.arg: self.engine.expressions.eval(k.value, frame) for k in cls.node.keywords if k.arg is not None}
        given.pop("metaclass", None)
        return given

    def metaclass_methods(self, mro: Mro, name: str) -> list[FunctionInfo]:
        """Return a method of the metaclass, if it has source."""
        for cls in mro.classes:
            given = next((k.value for k in cls.node.keywords if k.arg == "metaclass"), None)
            if given is not None:
                meta = self.engine.expressions.peek(given, self.engine.names.module_frame(cls.module))
                return self.mro(meta.info).functions(name) if isinstance(meta, Class) else []
        return []

    def _fills(self, decorator: ast.expr, name: str, frame: Frame) -> bool:
        called = self.engine.expressions.eval(decorator.func if isinstance(decorator, ast.Call) else decorator, frame)
        if self.engine.replay is not None and isinstance(called, Function):
            self.engine.replay.read(called.info)
        return isinstance(called, Function) and (
            name in called.info.mentions or name in mentioned_names(nodes_in(decorator))
        )

    def reset(self, cls: ClassInfo, name: str, value: Value) -> None:
        """Assign `Class.name` another value while its module is imported."""
        holder = self.mro(cls).holder(name)
        if self.engine.untraced and holder is not None:
            self._values[holder, name] = value
            self.engine.heap.changes.count += 1
            self.engine.heap.changes.elsewhere += 1

    def class_attribute(self, holder: ClassInfo, name: str, owner: Value | None) -> Value:
        """Return the value that a class body assigns, read on the class or, with `owner`, on an object."""
        if name in holder.inner:
            return Class(holder.inner[name])
        node = holder.assigned[name]
        key = (holder, name)
        if isinstance(node, (ast.Dict, ast.List)) and not (node.keys if isinstance(node, ast.Dict) else node.elts):
            self.register_into(holder.module, name, EMPTY)
        if key in self._values:
            return escaped(self._values[key])
        if node is None or key in self._busy:
            return UNKNOWN
        self._busy.add(key)
        try:
            with self.engine.outside_trace():
                value = self._made_by_body(holder, name)
                frame = self._body_frame(holder, name, node)
                value = self.engine.expressions.eval(node, frame) if value is None else value
                called = self.engine.expressions.eval(node.func, frame) if isinstance(node, ast.Call) else None
        finally:
            self._busy.discard(key)
        if called == External("enum.auto"):
            return self.engine.records.auto_value(holder, name)
        if called == External("staticmethod"):
            return escaped(value)
        if isinstance(value, Function) and owner is not None:
            return value.bound_to(owner)
        return escaped(value)

    def _body_frame(self, holder: ClassInfo, name: str, node: ast.expr) -> Frame:
        """Return the frame in which a class body assigns a name: the body's other names are visible."""
        frame = self.engine.names.module_frame(holder.module)
        env: Env = {}
        for used in {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} - {name}:
            if used in holder.functions:
                env[used] = self.engine.functions.apply_decorators(holder.functions[used][-1], frame)
            elif holder.assigned.get(used) is not None or used in holder.inner:
                env[used] = self.class_attribute(holder, used, None)
        return dataclasses.replace(frame, env=env) if env else frame

    def _made_by_body(self, holder: ClassInfo, name: str) -> Value | None:
        """Return the value of a name that a class body sets in several statements: one that uses other names of the body,
        `sizes["large"] = 3`, `parts.append(...)`, a loop. None if one statement is enough."""
        key = holder, name
        if holder not in self._parts:
            self._parts[holder] = _parts_of(holder)
        if key not in self._bodies:
            self._bodies[key] = _statements_for(name, *self._parts[holder])
        needed, statements = self._bodies[key]
        for other in needed:  # who binds one of these in the class changes this one
            holder.assigned.get(other)
        if not statements:
            return None
        frame = Frame(holder.module, None, -1, {}, depth=self.engine.names.module_frame(holder.module).depth)
        around = self.engine.names.module_frame(holder.module)
        methods = ((other, found[-1]) for other in needed if (found := holder.functions.get(other)))
        frame.env.update({other: self.engine.functions.apply_decorators(info, around) for other, info in methods})
        inner = ((other, holder.inner.get(other)) for other in needed)
        frame.env.update({other: Class(info) for other, info in inner if info is not None})
        self.engine.statements.block([*statements], frame)
        return frame.env.get(name)


def _named_from(first: set[str], named: dict[str, set[str]]) -> set[str]:
    """These methods, and those that they name, and so on."""
    found: set[str] = set()
    pending = list(first)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(named.get(name, set()) & named.keys())
    return found


def _parts_of(cls: ClassInfo) -> tuple[tuple[Part, ...], frozenset[str]]:
    """As `Classes._parts`."""
    body = cls.node.body
    parts = [_part(node) for node in body if isinstance(node, (*FILLING, ast.AnnAssign, ast.AugAssign))]
    defined = {node.name for node in body if isinstance(node, DEFINING)}
    return tuple(reversed(parts)), frozenset(defined.union(*(part.made for part in parts)))


def _part(statement: ast.stmt) -> Part:
    names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return Part(statement, frozenset(bound | _filler(statement).changed), frozenset(node.id for node in names))


def _statements_for(
    name: str, parts: tuple[Part, ...], own: frozenset[str]
) -> tuple[frozenset[str], tuple[ast.stmt, ...]]:
    """Return the names that what a class body binds to `name` hangs on, and the statements that make it, in order: none
    if one assignment does."""
    needed = {name}
    found: list[ast.stmt] = []
    for part in parts:
        if not needed.isdisjoint(part.made):
            found.append(part.statement)
            needed |= part.names
    needed.discard(name)
    alone = len(found) == 1 and isinstance(found[0], (ast.Assign, ast.AnnAssign)) and not needed & own
    return frozenset(needed), () if alone else tuple(reversed(found))


def _is_empty(value: Value) -> bool:
    """Return whether it is a dict or a list that is known to be empty."""
    if isinstance(value, Mapping):
        return not value.entries and value.element is None
    return isinstance(value, Sequence) and value.kind == "list" and value.items == ()


def _functions_of(module: ModuleInfo) -> Iterator[tuple[str, FunctionInfo]]:
    """Yield the functions of a module, and the methods of its classes, with the name on the top level."""
    for name, found in module.bound(CLASSES, FUNCTIONS).items():
        for binding in found:
            if isinstance(binding, FunctionInfo):
                yield name, binding
            elif isinstance(binding, ClassInfo):
                yield from ((name, info) for methods in binding.functions.values() for info in methods)


def _stores_given(function: ast.AST, tables: frozenset[str]) -> bool:
    """Return whether a function, or a nested one, stores its arguments in one of these tables, which it uses by that name
    or as an attribute."""
    given = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}

    def is_table(node: ast.expr) -> bool:
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        return name in tables or (isinstance(node, ast.Subscript) and is_table(node.value))

    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            targets = [each.value for each in node.targets if isinstance(each, ast.Subscript)]
            stored = [node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in STORING:
            targets, stored = [node.func.value], node.args
        else:
            continue
        if any(map(is_table, targets)) and any(isinstance(e, ast.Name) and e.id in given for e in stored):
            return True
    return False


def _filler(statement: ast.stmt) -> Filler:
    changed: set[str] = set()
    called: list[ast.expr] = []
    for node in ast.walk(statement):
        if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            changed.add(first_name(node.value))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            function, args = node.value.func, node.value.args
            if isinstance(function, ast.Attribute):
                changed.add(first_name(function.value))
            elif isinstance(function, ast.Name) and function.id == "setattr" and args:
                changed.add(first_name(args[0]))
            called.append(function)
    return Filler(statement, frozenset(changed - {""}), tuple(called))


def _is_main(node: ast.stmt) -> bool:
    """`if __name__ == "__main__":`"""
    return isinstance(node, ast.If) and "__name__" in mentioned_names(nodes_in(node.test))
