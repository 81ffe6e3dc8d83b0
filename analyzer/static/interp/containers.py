"""Sequences, mappings and the containers of torch.nn: their members, and the methods that change them."""

from __future__ import annotations

import ast
import dataclasses
import operator
from itertools import takewhile
from typing import Any, cast

from tcready.static.domain.const_eval import worked_out
from tcready.static.domain.folding import compared
from tcready.static.domain.scope import Frame, narrowing_key, same_objects
from tcready.static.domain.values import (
    MAX_ENTRIES,
    NONE,
    TAINTED,
    UNKNOWN,
    UNROLL,
    Choice,
    Class,
    Const,
    External,
    ExternalInstance,
    Function,
    Instance,
    Mapping,
    Module,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    escaped,
    is_key,
    is_surely_tensor,
    join,
    join_members,
    keep,
    key_of,
    lift,
    likely,
    members_of,
    one_of,
    options,
    prefer,
    value_of_key,
    without_none,
)
from tcready.static.interp.interfaces import CallSite, Component
from tcready.static.library import semantics as K  # noqa: N812
from tcready.static.library import shape_semantics

GROWING = frozenset({"append", "add", "insert", "extend", "appendleft", "extendleft"})


class Containers(Component):
    """Sequences, mappings and the containers of torch.nn: their members, and the methods that change them."""

    def element(self, value: Value) -> Value:
        """Return the value that iterating over `value` yields."""
        return lift(self._element, value)

    def _element(self, value: Value) -> Value:
        found: list[Value] = []
        for option in options(value):
            if isinstance(option, Tensor):
                found.append(Tensor(option.dtype, option.sure, rank=option.rank - 1 if option.rank else None))
            elif isinstance(option, Sequence):
                found.extend(members_of(option))
            elif isinstance(option, Mapping):
                found.extend(value_of_key(key) for key, _ in option.entries)
                if option.element is not None or not option.entries:
                    found.append(Plain("str"))
            elif isinstance(option, (ExternalInstance, Instance)) and self.container_members(option) is not None:
                found.append(self.element(cast(Value, self.walked_members(option))))
            elif option == K.ARRAY:
                found.append(K.NUMBER if self.engine.untraced else K.ARRAY)
            elif isinstance(option, Plain):
                found.append(Plain(None, option.origin))
            elif isinstance(option, Unknown):
                found.append(option)
            elif isinstance(option, Const) and isinstance(option.value, str):
                found.append(Plain("str"))
        return join_members(*found) if found else UNKNOWN

    def container_members(self, value: Value) -> Value | None:
        """Return the Sequence or Mapping of modules that a torch.nn container holds, or None."""
        if isinstance(value, ExternalInstance) and value.name in K.CONTAINERS and value.ident:
            return self.engine.heap[value].members
        if not isinstance(value, Instance):
            return None
        mro = self.engine.classes.mro(value.cls)
        return self.engine.heap[value].members if mro.container or mro.is_list else self._entries(value)

    def walked_members(self, value: Value) -> Value | None:
        """Return the values that a loop over a torch.nn container visits, or None: the modules of an nn.Sequential that
        was made of a dict, the keys of any other mapping."""
        members = self.container_members(value)
        if not isinstance(members, Mapping):
            return members
        kind = value.name if isinstance(value, ExternalInstance) else None
        if isinstance(value, Instance):
            kind = self.engine.classes.mro(value.cls).container
        if kind != "torch.nn.Sequential":
            return members
        items = tuple(member for _, member in members.entries)
        if members.element is None:
            return Sequence("list", items, UNKNOWN, members.escaping)
        return Sequence("list", None, join_members(*items, members.element), members.escaping)

    def _entries(self, made: Instance) -> Mapping | None:
        """Return the items of an object of a class of dicts by key; None for any other. A record that is one has its
        fields; of one from outside nothing is known."""
        if not self.engine.classes.mro(made.cls).is_dictionary:
            return None
        thing = self.engine.heap[made]
        if isinstance(thing.members, Mapping):
            return thing.members
        fields = tuple((name, value) for name, value in thing.attributes.items() if value != NONE)
        other = UNKNOWN if self.engine.untraced else TAINTED  # settings, if it is asked while things are built
        return Mapping(fields, other if thing.symbolic else None, thing.escaping)

    def _as_dict(self, value: Value) -> Value:
        """Return an object of a class of dicts as a dict; anything else unchanged."""
        known = self._entries(value) if isinstance(value, Instance) else None
        return value if known is None else known

    def dictionary_method(
        self, made: Instance, name: str, args: tuple[Value, ...], keywords: dict[str, Value]
    ) -> Value | None:
        """Return the result of a method that an object of a class of dicts inherits from Python."""
        inside = self._entries(made)
        if inside is None:
            return None
        thing = self.engine.heap[made]
        if name == "__init__":
            inside = Mapping((), None, thing.escaping)
        if name in ("__init__", "update"):
            for given in map(self._as_dict, map(likely, args[:1])):
                rest = [e for e in (inside.element, getattr(given, "element", None)) if e is not None]
                added = given.entries if isinstance(given, Mapping) else ()
                element = join(*rest) if rest else None
                inside = Mapping(tuple(dict((*inside.entries, *added)).items()), element, thing.escaping)
            inside = Mapping(tuple(dict((*inside.entries, *keywords.items())).items()), inside.element, thing.escaping)
        elif name in ("__setitem__", "setdefault") and len(args) == 2:
            inside = self._update_entries(inside, name, args[0], args[1], UNKNOWN)
        elif name == "copy":
            return Mapping(inside.entries, inside.element)
        elif name == "__contains__":
            return Plain("bool")
        else:
            return _mapping_view(inside, name, args)
        thing.members = inside
        self.engine.heap.changes.count += 1
        self.engine.heap.changes.elsewhere += 1
        return args[1] if name == "setdefault" and len(args) == 2 else NONE

    def children(self, made: Instance | ExternalInstance) -> Mapping:
        """Return the direct submodules of a module, by name."""
        members = self.container_members(made)
        if isinstance(members, Mapping):
            return members
        if isinstance(members, Sequence):
            if members.items is None:
                return Mapping((), members.element, True)
            return Mapping(tuple((str(i), v) for i, v in enumerate(members.items)), None, True)
        attributes = self.engine.heap[made].attributes.items() if isinstance(made, Instance) else ()
        modules = tuple((n, v) for n, v in attributes if any(map(self.engine.classes.is_module, options(v))))
        dynamic = self.engine.heap[made].dynamic.values() if isinstance(made, Instance) else ()
        others = [v for v in dynamic if any(map(self.engine.classes.is_module, options(v)))]
        if others:  # those with names that are generated while it is built
            return Mapping(modules, join_members(*others), True)
        return Mapping(modules, None if modules else UNKNOWN, True)

    def item(self, base: Value, index: Value, node: ast.expr) -> Value:
        """`base[index]`; what is too short for a constant index is ruled out, and so is None: who picks an item of an
        argument that may be left out gives it."""
        base = base if base == NONE else without_none(base)
        if isinstance(base, Choice) and isinstance(index, Const) and isinstance(index.value, int):
            place = index.value
            base = keep(base, lambda v: not _too_short(v, place))
        return lift(lambda b, i: self._item(b, i, node), base, index)

    def _item(self, base: Value, index: Value, node: ast.expr) -> Value:
        return join(*(self.item_of(option, index, node) for option in options(base)))

    def item_of(self, base: Value, index: Value, node: ast.expr) -> Value:
        """`base[index]` for a value that is no choice."""
        if isinstance(base, Tensor):
            parts = index.items if isinstance(index, Sequence) and index.kind == "tuple" else None
            rank = shape_semantics.indexed(base, (index,) if parts is None else parts)
            layout = shape_semantics.sliced(base, node)
            return Tensor(base.dtype, base.sure, rank=rank, from_python_scalar=base.from_python_scalar, layout=layout)
        members = self.walked_members(base)
        if members is not None:
            if isinstance(node, ast.Slice):
                return base
            if isinstance(base, (Instance, ExternalInstance)) and self.engine.heap[base].uncounted:
                place = index.value if isinstance(index, Const) and isinstance(index.value, int) else 0
                if _too_short(members, place):  # what a loop adds is known once or twice
                    return self.element(members)
            return self.item_of(members, index, node)
        if isinstance(base, Sequence):
            if isinstance(node, ast.Slice):
                part = _part(node)
                if base.items is not None and part is not None:
                    return Sequence(base.kind, base.items[part], UNKNOWN, constant=base.constant)
                return Sequence(base.kind, None, self.element(base), constant=base.constant)
            if base.items is not None and isinstance(index, Const) and isinstance(index.value, int):
                if -len(base.items) <= index.value < len(base.items):
                    return base.items[index.value]
                return UNKNOWN
            return self.element(base)
        if isinstance(base, Const) and isinstance(base.value, str):
            if isinstance(node, ast.Slice):
                part = _part(node)
                return Plain("str") if part is None else Const(base.value[part])
            known = worked_out(operator.getitem, base, index)
            return Plain("str") if known is None else known
        if isinstance(base, Mapping):
            if is_key(index):
                found = dict(base.entries).get(key_of(index))
                if found is not None:
                    return found
                if base.extra and base.element == UNKNOWN and not self.engine.untraced:
                    return TAINTED  # `**kwargs` of what computes with tensors, which must hold it
                return base.element if base.element is not None else UNKNOWN
            return one_of([v for _, v in base.entries] + ([base.element] if base.element is not None else []))
        if isinstance(base, Module):  # `module.__dict__["name"]`
            wanted = index.value if isinstance(index, Const) else None
            member = self.engine.names.module_member(base.info, wanted) if isinstance(wanted, str) else None
            return UNKNOWN if member is None else member
        if isinstance(base, External) and base.name in K.MADE_BY_INDEX:
            return K.ARRAY
        if isinstance(base, (Plain, Class, External)):
            return base if not isinstance(base, Plain) else Plain(None, base.origin)
        if base == K.ARRAY:
            one = isinstance(index, (Const, Plain)) and not isinstance(node, ast.Slice)
            return K.NUMBER if self.engine.untraced and one else base
        if isinstance(base, Unknown):
            return base
        return UNKNOWN

    def fill_container(
        self, made: Instance | ExternalInstance, kind: str, args: tuple[Value, ...], node: ast.Call
    ) -> None:
        """Set the members of a torch.nn container when it is made."""
        thing = self.engine.heap[made]
        thing.uncounted = thing.uncounted or node in self.engine.spread
        members: Value
        if kind == "torch.nn.Sequential" and not (len(args) == 1 and isinstance(args[0], Mapping)):
            members = Sequence("list", args, UNKNOWN, True)
        elif args:
            first = likely(args[0])  # what defaults list
            if isinstance(first, Sequence):
                members = Sequence("list", first.items, first.element, True)
            elif isinstance(first, Mapping):
                members = Mapping(first.entries, first.element, True)
            else:
                members = Sequence("list", None, self.element(args[0]), True)
        else:
            empty_map = kind in ("torch.nn.ModuleDict", "torch.nn.ParameterDict")
            members = Mapping((), None, True) if empty_map else Sequence("list", (), UNKNOWN, True)
        thing.members = members
        self.engine.heap.changes.count += 1

    def container_method(self, made: Instance | ExternalInstance, name: str, args: tuple[Value, ...]) -> Value | None:
        """Return the result of a torch.nn container method; None if it is no method of one."""
        thing = self.engine.heap[made]
        members = thing.members
        if name in ("append", "extend", "insert", "add_module", "__setitem__", "update") and args:
            self.engine.heap.note(made, None)
            given = self.container_members(args[-1]) or likely(args[-1])
            if isinstance(members, Sequence):
                new: tuple[Value, ...] | None = (_check_member(args[-1]),)
                if name == "extend":
                    new = given.items if isinstance(given, Sequence) else None
                known = (
                    new is not None
                    and members.items is not None
                    and name in ("append", "extend", "add_module")
                    and len(members.items) + len(new) <= UNROLL
                    and self.engine.untraced
                )
                items = (*members.items, *new) if known and members.items is not None and new else None
                more = new if new is not None else (self.element(given),)
                thing.members = Sequence("list", items, join_members(*members_of(members), *more), True)
            elif isinstance(members, Mapping):
                thing.members = self._update_entries(members, name, args[0], _check_member(args[-1]), given)
            return NONE
        members = self.walked_members(made)
        if isinstance(members, Mapping) and name in ("items", "values", "keys", "__getitem__", "get"):
            return _mapping_view(members, name, args)
        if name == "__iter__" and isinstance(members, Mapping):
            return _mapping_view(members, "keys", ())
        if name == "__iter__" and isinstance(members, Sequence):
            return Sequence("iterator", members.items, members.element)
        if name == "__getitem__" and members is not None and args:
            return self.item_of(members, args[0], ast.Constant(None))
        return K.module_method(name, made)

    def _update_entries(self, members: Mapping, name: str, key: Value, new: Value, given: Value) -> Mapping:
        """Return a mapping of modules after `update(given)`, or with `new` under `key`."""
        entries, element = dict(members.entries), members.element
        added: dict[object, Value] = {}
        if name in ("update", "extend"):
            if isinstance(given, Mapping):
                added = dict(given.entries)
                new = given.element if given.element is not None else UNKNOWN
            else:
                new = self.element(given)
            element = new if element is None and not added else element
        elif is_key(key):
            added = {key_of(key): new}
        elif element is None:
            element = new
        else:
            element = join_members(element, new)
        for place, value in added.items():
            entries[place] = join(entries[place], value) if place in entries else value
        return Mapping(tuple(entries.items()), element, True)

    def container_sum(self, left: Value, right: Value, *, in_place: bool) -> Value | None:
        """`left + right`, or `left += right`, of a container of torch.nn; None if `left` is none."""
        members = self.container_members(left)
        if members is None or not isinstance(left, (Instance, ExternalInstance)):
            return None
        if not in_place:
            ident = self.engine.heap.ident("sum", left.ident, right, escaping=self.engine.untraced > 0)
            left = dataclasses.replace(left, ident=ident)
            self.engine.heap[left].members = members
        self.container_method(left, "extend", (right,))
        return left

    def sequence_method(self, receiver: Sequence, name: str, site: CallSite) -> Value | None:
        """Return the result of a method of a list, tuple or set."""
        if name in GROWING and site.args:
            new = self.element(site.args[-1]) if name.startswith("extend") else site.args[-1]
            items = None
            if receiver.items is not None and name == "append" and len(receiver.items) < 4 * UNROLL:
                items = (*receiver.items, new)
            elif (
                receiver.items is not None
                and name == "extend"
                and isinstance(site.args[0], Sequence)
                and site.args[0].items
            ):
                items = (*receiver.items, *site.args[0].items) if len(receiver.items) < UNROLL else None
            members = [m for m in members_of(receiver) if m != UNKNOWN or receiver.items is None]
            element = UNKNOWN if items is not None else join_members(*members, new)
            self._rebind(site.node.func, Sequence(receiver.kind, items, element, receiver.escaping), site.frame)
            return NONE
        if name in ("pop", "popleft"):
            place = 0 if name == "popleft" else site.args[0] if site.args else -1
            gone = place.value if isinstance(place, Const) else place
            left = without_item(receiver, gone)
            taken = (
                receiver.items[gone] if left.items is not None and isinstance(gone, int) and receiver.items else None
            )
            self._rebind(site.node.func, left, site.frame)
            return self.element(receiver) if taken is None else taken
        if name in ("index", "remove") and site.args:
            sought = site.args[0]
            # an identical object is found without a comparison, and later ones are not compared
            ahead = takewhile(lambda member: member is not sought, (receiver.items or ())[:-1])
            candidates = (receiver.element,) if receiver.items is None else ahead
            same = [compared(ast.Eq(), member, sought) for member in candidates]
            if any(map(is_surely_tensor, same)):
                self.engine.truth.emit_test(site.node, "members", Tensor("bool"), site.frame)
        if name == "sort":
            self.engine.protocols.ask_order(receiver, site.keywords.get("key"), site)
        if name in ("index", "count"):
            known = worked_out(getattr(list, name), dataclasses.replace(receiver, kind="list"), *site.args)
            return Plain("int") if known is None else known
        if name == "numel":
            return K.SHAPE_INT
        if name == "copy":
            return Sequence(receiver.kind, receiver.items, receiver.element)
        if name in ("sort", "reverse", "clear", "remove", "discard"):
            self._rebind(site.node.func, _rearrange(receiver, name, site), site.frame)
            return NONE
        if name in ("union", "intersection", "difference"):
            return receiver
        return UNKNOWN

    def mapping_method(self, receiver: Mapping, name: str, site: CallSite) -> Value | None:
        """Return the result of a method of a dict."""
        if name == "update":
            extra = _spread(self._as_dict(site.args[0])) if site.args else Mapping((), None)
            entries: dict[object, Value] = dict((*receiver.entries, *extra.entries, *site.keywords.items()))
            rest = [each for each in (receiver, extra) if each.element is not None]
            merged = Mapping(
                tuple(entries.items()),
                join(*(each.element for each in rest if each.element is not None)) if rest else None,
                receiver.escaping,
                bool(rest) and all(each.extra for each in rest),
            )
            self._rebind(site.node.func, merged, site.frame)
            return NONE
        if name == "setdefault" and site.args and is_key(site.args[0]):
            key = key_of(site.args[0])
            if key not in dict(receiver.entries):
                value = site.first("default", 1) or NONE
                if receiver.element is not None:  # it may be there already
                    value = prefer(value, receiver.element) if receiver.extra else join(value, receiver.element)
                entries = {**dict(receiver.entries), key: value}
                changed = Mapping(tuple(entries.items()), receiver.element, receiver.escaping, receiver.extra)
                self._rebind(site.node.func, changed, site.frame)
                return value
        elif name == "setdefault" and site.args:
            value = join(site.first("default", 1) or NONE, *([receiver.element] if receiver.element else []))
            changed = Mapping(receiver.entries, value, receiver.escaping)
            self._rebind(site.node.func, changed, site.frame)
            return join(value, *(v for _, v in receiver.entries))
        if name == "clear":
            self._rebind(site.node.func, Mapping((), None, receiver.escaping), site.frame)
            return NONE
        if name == "pop" and site.args and is_key(site.args[0]):
            left = {key: value for key, value in receiver.entries if key != key_of(site.args[0])}
            changed = Mapping(tuple(left.items()), receiver.element, receiver.escaping, receiver.extra)
            self._rebind(site.node.func, changed, site.frame)
        if name == "popitem":
            values = [value for _, value in receiver.entries]
            every = join_members(*values, *([receiver.element] if receiver.element is not None else []))
            self._rebind(
                site.node.func, Mapping((), every if values else receiver.element, receiver.escaping), site.frame
            )
        if name == "copy":
            return Mapping(receiver.entries, receiver.element, extra=receiver.extra)
        return _mapping_view(receiver, name, site.args)

    def delete_item(self, holder: ast.expr, base: Value, index: Value, frame: Frame) -> None:
        """Evaluate `del base[index]`, `holder` being the expression of `base`."""
        if isinstance(base, Mapping) and is_key(index):
            entries = tuple((key, value) for key, value in base.entries if key != key_of(index))
            self.put_back(holder, Mapping(entries, base.element, base.escaping, base.extra), frame)
        elif isinstance(base, Mapping) and (base.entries or base.element is not None):
            self.put_back(holder, Mapping((), self.element(base), base.escaping), frame)
        elif isinstance(base, Sequence):
            place = index.value if isinstance(index, Const) else None
            self.put_back(holder, without_item(base, place), frame)

    def _rebind(self, function: ast.expr, value: Value, frame: Frame) -> None:
        """After `x.append(v)`: what `x` holds now."""
        if isinstance(function, ast.Attribute):
            self.put_back(function.value, value, frame)

    def put_back(self, node: ast.expr, value: Value, frame: Frame) -> None:
        """Store the value of the expression `node` after `x.append(v)` or `x[k] = v`."""
        for other in self._same_object(node, frame):
            self._put(other, value, frame)
        self._put(node, value, frame)

    def _same_object(self, node: ast.expr, frame: Frame) -> list[ast.expr]:
        """Return the other names and attributes of the object in `node`, before it is changed."""
        key = narrowing_key(node)
        if frame.function is None or key is None:
            return []
        others = same_objects(frame.function).get(key)
        before = self._found_as(node, frame) if others else None
        if not others or not isinstance(before, (Sequence, Mapping)):
            return []
        return [each for each in others if self._found_as(each, frame) == before]

    def _found_as(self, node: ast.expr, frame: Frame) -> Value | None:
        """Return the value of a name or an attribute of one."""
        value = frame.env.get(narrowing_key(node) or "")
        if value is None and isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = frame.env.get(node.value.id)
            value = self.engine.heap[owner].attributes.get(node.attr) if isinstance(owner, Instance) else None
        return None if value is None else escaped(value)

    def _put(self, node: ast.expr, value: Value, frame: Frame) -> None:
        if isinstance(node, ast.Name):
            inner: Frame | None = frame
            while inner is not None:
                if node.id in inner.env:
                    inner.env = {**inner.env, node.id: value}
                    self.engine.heap.changes.count += inner is not frame
                    self.engine.heap.changes.elsewhere += inner is not frame
                    return
                inner = inner.parent
            self.engine.names.rebind(frame.module, node.id, value)
        elif isinstance(node, ast.Attribute):
            owner = self.engine.expressions.peek(node.value, frame)
            if node.attr == "__dict__":
                self._put_attributes(owner, value, frame)
                return
            key = narrowing_key(node)
            if key in frame.env:  # what was assigned there before in this function
                frame.env = {**frame.env, key: value}
            for option in options(owner):
                if isinstance(option, Class):
                    self.engine.classes.reset(option.info, node.attr, value)
                if isinstance(option, Instance):
                    self.engine.heap[option].update(node.attr, value, strong=self.engine.is_strong(frame))

        elif isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
            with self.engine.outside_trace():
                base = self.engine.expressions.eval(node.value, frame)
                index, *_ = self.engine.expressions.index(node.slice, frame)
            self.put_item(node.value, base, index, value, frame)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            if node.func.attr == "setdefault":  # `groups.setdefault(key, []).append(x)`
                with self.engine.outside_trace():
                    base = self.engine.expressions.eval(node.func.value, frame)
                    index = self.engine.expressions.eval(node.args[0], frame)
                self.put_item(node.func.value, base, index, value, frame)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "vars":
            with self.engine.outside_trace():
                for arg in node.args:
                    self._put_attributes(self.engine.expressions.eval(arg, frame), value, frame)

    def put_item(self, holder: ast.expr, base: Value, index: Value, value: Value, frame: Frame) -> None:
        """Store `value` as an item of a dict, list or tuple, `holder` being the expression of `base`."""
        new: Value
        if isinstance(base, Mapping):
            if is_key(index):
                entries = {**dict(base.entries), key_of(index): value}
                new = Mapping(tuple(entries.items()), base.element, base.escaping, base.extra)
            else:
                element = join_members(base.element, value) if base.element else value
                new = Mapping(base.entries, element, base.escaping)
        elif isinstance(base, Sequence):
            items = base.items
            if items is not None and isinstance(index, Const) and isinstance(index.value, int):
                place = index.value
                if not -len(items) <= place < len(items):
                    return
                place %= len(items)
                new = Sequence(base.kind, (*items[:place], value, *items[place + 1 :]), UNKNOWN, base.escaping)
            else:
                new = Sequence(base.kind, None, join_members(self.element(base), value), base.escaping)
        else:
            return
        self.put_back(holder, new, frame)

    def _put_attributes(self, owner: Value, value: Value, frame: Frame) -> None:
        """Set the attributes of an object after `__dict__` is assigned `value`."""
        entries = value.entries if isinstance(value, Mapping) else ()
        strong = self.engine.is_strong(frame)
        for option in options(owner):
            if not isinstance(option, Instance):
                continue
            thing = self.engine.heap[option]
            for key, new in entries:
                if isinstance(key, str) and thing.attributes.get(key) is not new:
                    thing.update(key, new, strong=strong)
                    self.note(option, key)

    def note(self, made: Instance | ExternalInstance, name: str) -> None:
        """Note that `forward` stores this attribute: it does not exist before that has run."""
        if self.engine.untraced:
            self.engine.heap.note(made, name)


def _check_member(value: Value) -> Value:
    """Return the value stored as a member: torch raises for a class, or anything else that is no module."""
    return keep(value, lambda v: not isinstance(v, (Class, Function)))


def _too_short(value: Value, index: int) -> bool:
    if not isinstance(value, Sequence) or value.items is None:
        return False
    return not -len(value.items) <= index < len(value.items)


def _part(node: ast.Slice) -> slice | None:
    """Return the slice, if its bounds are written out."""
    bounds = [_literal(b) for b in (node.lower, node.upper, node.step)]
    return None if Ellipsis in bounds or bounds[2] == 0 else slice(*cast(Any, bounds))


def _literal(node: ast.expr | None) -> object:
    """Return the int of a slice bound, None for none, Ellipsis if it is no literal."""
    if node is None:
        return None
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return Ellipsis
    return value if isinstance(value, int) and value != 0 else (0 if value == 0 else Ellipsis)


def without_item(row: Sequence, place: object) -> Sequence:
    """Return a row once the item at a place is gone; who knows how long it is if the place is not known."""
    items = row.items
    if items is None or not isinstance(place, int) or not -len(items) <= place < len(items):
        return Sequence(row.kind, None, join_members(*members_of(row)) if members_of(row) else UNKNOWN, row.escaping)
    place %= len(items)
    return Sequence(row.kind, (*items[:place], *items[place + 1 :]), UNKNOWN, row.escaping)


def _rearrange(row: Sequence, name: str, site: CallSite) -> Sequence:
    """Return a row after a method that changes it and returns None."""
    items = row.items
    if name == "clear":
        return Sequence(row.kind, (), UNKNOWN, row.escaping)
    if items is None or (name == "sort" and len(items) < 2):
        return row
    if name == "reverse":
        return Sequence(row.kind, items[::-1], UNKNOWN, row.escaping)
    sought = site.args[0] if site.args else None
    if name in ("remove", "discard") and isinstance(sought, Const) and all(isinstance(v, Const) for v in items):
        return without_item(row, items.index(sought)) if sought in items else row
    ordered = (
        worked_out(sorted, dataclasses.replace(row, kind="list")) if name == "sort" and not site.keywords else None
    )
    if isinstance(ordered, Sequence):
        return dataclasses.replace(ordered, kind=row.kind, escaping=row.escaping)
    return Sequence(row.kind, None, join_members(*items) if items else UNKNOWN, row.escaping)


def _spread(value: Value) -> Mapping:
    """Return the items that `table.update(value)` stores."""
    usual = likely(value)
    if isinstance(value, Mapping) or not isinstance(usual, Mapping):
        return value if isinstance(value, Mapping) else Mapping((), UNKNOWN)
    return Mapping(usual.entries, UNKNOWN if usual.element is None else usual.element, extra=True)


def _mapping_view(mapping: Mapping, name: str, args: tuple[Value, ...]) -> Value:
    if name in ("keys", "values", "items") and mapping.extra and mapping.element is not None:
        given = Mapping(mapping.entries, None, mapping.escaping)
        whole = Mapping(mapping.entries, mapping.element, mapping.escaping)
        return prefer(_mapping_view(given, name, args), _mapping_view(whole, name, args))
    values = [v for _, v in mapping.entries] + ([mapping.element] if mapping.element is not None else [])
    keys: list[Value] = [value_of_key(k) for k, _ in mapping.entries]
    if mapping.element is not None:
        keys.append(Plain("str"))
    complete = mapping.element is None and len(mapping.entries) <= MAX_ENTRIES
    if name == "values":
        return Sequence("view", tuple(values) if complete else None, join_members(*values) if values else UNKNOWN)
    if name == "keys":
        return Sequence("keys", tuple(keys) if complete else None, join(*keys) if keys else UNKNOWN)
    if name == "items":
        pairs = tuple(Sequence("tuple", (k, v), UNKNOWN) for k, v in zip(keys, values, strict=True))
        joined = Sequence("tuple", (join(*keys), join_members(*values)), UNKNOWN) if pairs else UNKNOWN
        return Sequence("view", pairs if complete else None, joined)
    if name in ("get", "pop", "setdefault", "__getitem__"):
        if args and isinstance(args[0], Choice):
            return lift(
                lambda key: join(*(_mapping_view(mapping, name, (k, *args[1:])) for k in options(key))), args[0]
            )
        default = args[1] if len(args) > 1 else NONE
        if args and is_key(args[0]):
            found = dict(mapping.entries).get(key_of(args[0]))
            if found is not None:
                return found
            if mapping.element is None:
                return default
            return prefer(default, mapping.element) if mapping.extra else join(mapping.element, default)
        found = one_of(values)
        if mapping.extra:
            return prefer(default, found)
        return found if isinstance(found, Unknown) else join(found, default)
    return UNKNOWN
