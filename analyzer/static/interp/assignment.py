"""Assignments: what a target binds, and which writes outlive the call."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import cast

from tcready.static.domain import facts as F  # noqa: N812 - the facts are many and their names common words
from tcready.static.domain.scope import Frame
from tcready.static.domain.values import (
    UNKNOWN,
    Class,
    Const,
    External,
    ExternalInstance,
    Function,
    Instance,
    Mapping,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    brought_in,
    is_captured,
    is_place,
    join,
    lift,
    likely,
    options,
    widen,
)
from tcready.static.interp.interfaces import Component, Engine
from tcready.static.library import semantics as K  # noqa: N812


class Assignment(Component):
    """Assignments: what a target binds, and which of them write to what outlives the call."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._loads: dict[int, ast.expr] = {}

    def assign(
        self,
        target: ast.expr,
        value: Value,
        frame: Frame,
        source: ast.expr | None = None,
        *,
        augmented: bool = False,
        old: Value | None = None,
    ) -> None:
        """Bind `value` to a target; emit a Store for a write to an object that outlives the call."""
        if isinstance(target, ast.Name):
            self._assign_name(target, value, frame, source, augmented, old)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target.elts, value, frame)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, Sequence("list", None, self.engine.containers.element(value)), frame)
        elif isinstance(target, ast.Attribute):
            self._assign_attribute(target, value, frame, source, augmented, old)
        elif isinstance(target, ast.Subscript):
            self._assign_item(target, value, frame, augmented)

    def _assign_name(
        self, target: ast.Name, value: Value, frame: Frame, source: ast.expr | None, augmented: bool, old: Value | None
    ) -> None:
        scope = frame.outside.get(target.id)
        if scope is None:
            env, inside = frame.env, f"{target.id}."
            for key in [k for k in env if k.startswith(inside)]:
                del env[key]
            env[target.id] = value
            return
        reads = augmented or (source is not None and target.id in names_in(source))
        if scope == "global":
            known = self.engine.names.global_value(frame.module, target.id)
            elsewhere = not reads or _is_read_elsewhere(target, frame)
            where = self.engine.where(frame)
            self.engine.emit(
                F.Store(where, target, "global", None, target.id, value, known, reads, read_elsewhere=elsewhere)
            )
            return
        inner = frame.parent
        while inner is not None:
            if target.id in inner.env:
                if not self.engine.contexts[inner.context].compiled:  # else it lives no longer than the call does
                    self.engine.emit(
                        F.Store(
                            self.engine.where(frame),
                            target,
                            "nonlocal",
                            None,
                            target.id,
                            value,
                            inner.env[target.id],
                            reads,
                        )
                    )
                inner.env[target.id] = join(inner.env[target.id], value)
                self.engine.heap.changes.count += 1
                self.engine.heap.changes.elsewhere += 1
                return
            inner = inner.parent

    def _unpack(self, elements: list[ast.expr], value: Value, frame: Frame) -> None:
        starred = next((i for i, e in enumerate(elements) if isinstance(e, ast.Starred)), None)
        if elements:  # `() = x` has none
            self.engine.unresolved.emit_unresolved(elements[0], frame, value, walked=True)
        value = lift(self._members, self.engine.protocols.iterate(value, frame))
        if isinstance(value, Sequence) and value.items is not None:
            items = value.items
            if starred is None and len(items) == len(elements):
                for element, item in zip(elements, items, strict=True):
                    self.assign(element, item, frame)
                return
            if starred is not None and len(items) >= len(elements) - 1:
                tail = len(elements) - starred - 1
                middle = items[starred : len(items) - tail]
                rest = (*items[:starred], Sequence("list", middle, UNKNOWN), *items[len(items) - tail :])
                for element, item in zip(elements, rest, strict=True):
                    inner = element.value if isinstance(element, ast.Starred) else element
                    self.assign(inner, item, frame)
                return
        rows = [v for v in options(value) if isinstance(v, Sequence) and v.items and len(v.items) == len(elements)]
        if rows and starred is None:
            for index, element in enumerate(elements):
                self.assign(element, join(*(cast("tuple[Value, ...]", r.items)[index] for r in rows)), frame)
            return
        member = self.engine.containers.element(value)
        for element in elements:
            self.assign(element, value if isinstance(element, ast.Starred) else member, frame)

    def _members(self, value: Value) -> Value:
        """Return the members of a torch.nn container, and anything else unchanged."""
        members = [(option, self.engine.containers.walked_members(option)) for option in options(value)]
        return join(*(v if isinstance(v, Sequence) else option for option, v in members))

    def _assign_attribute(
        self,
        target: ast.Attribute,
        value: Value,
        frame: Frame,
        source: ast.expr | None,
        augmented: bool,
        old: Value | None,
    ) -> None:
        owner = self.engine.expressions.eval(target.value, frame)
        value_of = source
        strong = self.engine.is_strong(frame)

        def emit(owner: Value, before: Value | None, own: bool, source: ast.expr | None = None) -> None:
            if self.engine.untraced:
                return
            reads = augmented or (value_of is not None and _reads(value_of, target))
            where, name = self.engine.where(frame), target.attr
            self.engine.emit(F.Store(where, target, "attribute", owner, name, value, before, reads, own, source))

        if target.attr == "__dict__" and isinstance(value, Mapping):
            self.engine.containers.put_back(target, value, frame)
            return
        value = brought_in(value) if self.engine.untraced else value
        for option in options(owner):
            if isinstance(option, Instance):
                if self.set_by_class(option, target.attr, value, frame):
                    continue
                before = old
                if before is None and not self.engine.untraced:
                    before = self._before(option, target.attr, frame)
                if not self.engine.untraced and (self.engine.heap[option].escaping or frame.function is None):
                    emit(option, before, self.engine.classes.is_module(option), source)
                unknown = all(isinstance(v, (Plain, Unknown)) for v in options(value))
                if unknown and self.engine.classes.mro(option.cls).functions(target.attr):
                    continue  # a method that is wrapped, or written anew, does what it did as often as not
                passed_by = bool(self.engine.untraced) and frame.path.confidence == "low"
                self.engine.heap[option].update(target.attr, value, strong=strong, unusual=passed_by)
                self.engine.containers.note(option, target.attr)
                mro = self.engine.classes.mro(option.cls)
                if mro.is_dictionary and mro.functions("__setattr__"):  # an attribute is an item, too
                    self.engine.containers.dictionary_method(option, "__setitem__", (Const(target.attr), value), {})
                self.set_member(option, target.attr, value)
            elif isinstance(option, ExternalInstance):
                if option.ident:
                    self.engine.heap[option].update(target.attr, value, strong=strong)
                    self.engine.containers.note(option, target.attr)
                    self.set_member(option, target.attr, value)
                emit(option, old, self.engine.classes.is_module(option))
            elif isinstance(option, (Tensor, Class, Function, External)):
                if isinstance(option, Class):
                    self.engine.classes.patch(option.info, target.attr, value)
                    self._switch(option, target.attr, value, frame)
                emit(option, old, False)
        if isinstance(target.value, ast.Name):
            frame.env[f"{target.value.id}.{target.attr}"] = value

    def set_member(self, container: Instance | ExternalInstance, name: str, value: Value) -> None:
        """Make a module that a constructor sets on a container a member of it: it replaces one of that name."""
        if not self.engine.untraced or not any(map(self.engine.classes.is_module, options(value))):
            return
        if isinstance(container, Instance):
            holds = bool(self.engine.classes.mro(container.cls).container)
        else:
            holds = bool(container.ident) and container.name in K.CONTAINERS
        if holds:
            key = Const(int(name)) if name.isdecimal() else Const(name)
            method = "__setitem__" if name.isdecimal() else "add_module"
            self.engine.containers.container_method(container, method, (key, value))

    def _switch(self, owner: Class, name: str, value: Value, frame: Frame) -> None:
        """`cls.flag = value` in compiled code: what holds from here on, for whoever reads it."""
        if self.engine.untraced:
            return
        if frame.path.multi_path:
            value = join(self.engine.attributes.class_member(owner, name, frame), value)
        if not isinstance(value, Const) or not isinstance(value.value, (bool, type(None))):
            value = widen(value)  # what counts has no end
        others = [row for row in self.engine.switched if (row[0], row[1]) != (owner.info, name)]
        self.engine.switched = frozenset(others)
        if likely(self.engine.attributes.class_member(owner, name, frame)) != likely(value):
            self.engine.switched |= {(owner.info, name, value)}

    def set_by_class(self, owner: Instance, name: str, value: Value, frame: Frame) -> bool:
        """Run what the class of an object does where an attribute is set; False if the object holds it after that, as
        one that has a `__setattr__` is taken to."""
        for info in self.engine.classes.mro(owner.cls).functions("__setattr__")[:1] if not self.engine.untraced else ():
            self.engine.functions.invoke(Function(info, owner), (Const(name), value), {}, frame)
        return self._set_property(owner, name, value, frame)

    def _set_property(self, owner: Instance, name: str, value: Value, frame: Frame) -> bool:
        """Run the setter of a property if its class has one."""
        for info in self.engine.classes.mro(owner.cls).functions(name)[1:]:
            if info.is_setter:
                self.engine.functions.invoke(Function(info, owner), (value,), {}, frame)
                return True
        holder = self.engine.classes.mro(owner.cls).holder(name)
        if holder is None or not isinstance(holder.assigned.get(name), ast.Call):
            return False
        descriptor = self.engine.classes.class_attribute(holder, name, owner)
        return self.engine.protocols.set_through(descriptor, owner, name, value, frame)

    def _before(self, owner: Instance, name: str, frame: Frame) -> Value | None:
        if name in self.engine.heap[owner].attributes:
            return self.engine.heap[owner].attributes[name]
        holder = self.engine.classes.mro(owner.cls).holder(name)
        if holder is None:
            return None
        return self.engine.classes.class_attribute(holder, name, owner)

    def _assign_item(self, target: ast.Subscript, value: Value, frame: Frame, augmented: bool) -> None:
        base = self.engine.expressions.eval(target.value, frame)
        index, parts, slices = self.engine.expressions.index(target.slice, frame)
        self.engine.emit(F.Index(self.engine.where(frame), target, base, index, parts, slices, "store", value))
        if isinstance(base, Tensor) and any(is_place(v) or is_captured(v) for v in (*parts, *slices)):
            frame.resume()
        for option in options(base):
            if isinstance(option, (External, ExternalInstance)) or (
                isinstance(option, (Sequence, Mapping)) and option.escaping
            ):
                old = (
                    self.engine.containers.item_of(option, index, target.slice) if isinstance(option, Mapping) else None
                )
                name = ast.unparse(target.value)
                self.engine.emit(F.Store(self.engine.where(frame), target, "item", option, name, value, old, augmented))
        if not isinstance(target.slice, ast.Slice):
            self.engine.containers.put_item(target.value, base, index, value, frame)
        for option in options(base):
            if isinstance(option, (Instance, ExternalInstance)):
                self._put_item(option, index, value, frame)

    def _put_item(self, made: Instance | ExternalInstance, index: Value, value: Value, frame: Frame) -> None:
        """`made[index] = value` of an object."""
        if self.engine.protocols.special(made, "__setitem__", (index, value), frame) is not None:
            return
        if isinstance(made, Instance) and self.engine.classes.mro(made.cls).is_dictionary:
            self.engine.containers.dictionary_method(made, "__setitem__", (index, value), {})
        elif self.engine.containers.container_members(made) is not None:
            self.engine.containers.container_method(made, "__setitem__", (index, value))

    def load_of(self, target: ast.Name | ast.Attribute | ast.Subscript) -> ast.expr:
        """Return the read that `target += ...` starts with, one node for each target."""
        if id(target) not in self._loads:
            self._loads[id(target)] = ast.copy_location(_as_load(target), target)
        return self._loads[id(target)]


def names_in(node: ast.AST) -> Iterable[str]:
    """Return every plain name below a node."""
    return (n.id for n in ast.walk(node) if isinstance(n, ast.Name))


def _reads(source: ast.expr, target: ast.Attribute) -> bool:
    wanted = ast.unparse(target)
    return any(
        isinstance(n, ast.Attribute) and n.attr == target.attr and ast.unparse(n) == wanted for n in ast.walk(source)
    )


def _as_load(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Name):
        return ast.Name(node.id, ast.Load())
    if isinstance(node, ast.Attribute):
        return ast.Attribute(node.value, node.attr, ast.Load())
    assert isinstance(node, ast.Subscript)
    return ast.Subscript(node.value, node.slice, ast.Load())


def _is_read_elsewhere(target: ast.Name, frame: Frame) -> bool:
    """Return whether a function of the module reads a global on another line than the one that assigns it."""
    functions = (
        node for node in frame.module.source.nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )
    return any(
        isinstance(node, ast.Name)
        and node.id == target.id
        and isinstance(node.ctx, ast.Load)
        and node.lineno != target.lineno
        for function in functions
        for node in ast.walk(function)
    )
