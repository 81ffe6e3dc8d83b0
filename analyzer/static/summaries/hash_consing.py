"""Shared modules: modules that several models build alike become one object, so that their code is interpreted once.

The models of one file may each build the same encoder. Two of these differ in identity alone, so interpreting the second
finds nothing new. Before a model runs, its modules are therefore replaced by equal ones of earlier models. Modules within
one model are never merged: two layers stay two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from tcready.static.domain.heap import BranchEffects, Object
from tcready.static.domain.values import (
    Choice,
    ExternalInstance,
    Function,
    Instance,
    Method,
    Partial,
    Sequence,
    Super,
    Value,
)
from tcready.static.domain.values import Mapping as Dict
from tcready.static.frontend.index import ClassInfo
from tcready.static.interp.interfaces import MAX_UNTRACED_DEPTH, CallSite, Engine

Thing: TypeAlias = "Instance | ExternalInstance"
Given: TypeAlias = "tuple[tuple[str | int, Value], ...]"


@dataclass(frozen=True)
class _Request:
    """A module to be made, and the state before."""

    question: object
    depth: int
    contexts: int
    count: int
    shared: int
    attributes: int
    elsewhere: int
    left_out: int


@dataclass(frozen=True)
class _Making:
    """A module that was made, with all that was made for it or lent to it."""

    made: Instance
    idents: tuple[int, ...]
    """The identities of all that."""
    stamps: list[tuple[object, ...]]
    """The stamps of these objects after the making."""
    levels: int
    """Levels of calls that its making took: where fewer are left, it would come to something else."""


@dataclass(frozen=True)
class _Shared:
    """A module that was lent to the model that is being built."""

    making: _Making
    before: list[Object]
    """The state of all of it before."""
    depth: int
    """The call depth at which it would have been made."""


class SharedModules:
    """The modules of the models built so far."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._heap = engine.heap
        self._modules: dict[ClassInfo, list[Instance]] = {}
        self._idents: set[int] = set()
        self._makings: dict[object, list[_Making]] = {}
        self._sharing = False
        self._new: list[tuple[object, _Making]] = []
        """The modules that the current model has made."""
        self._shared: list[_Shared] = []
        """The modules that were shared with it."""

    @contextmanager
    def building(self) -> Iterator[Callable[[], bool]]:
        """Build a model in this context and share modules of earlier models with it. Afterwards, return whether all of
        these are unchanged; if not, the changes are undone, and the model must be built without sharing."""
        self._sharing, self._new = True, []
        shared: list[_Shared] = []
        self._shared = shared
        try:
            yield lambda: self._is_unchanged(shared)
        finally:
            self._sharing = False

    def _is_unchanged(self, shared: list[_Shared]) -> bool:
        changed = [each for each in shared if not self._holds(each.making)]
        for each in changed:
            for thing, copy in zip(self._objects_of(each.making), each.before, strict=True):
                thing.restore(copy)
        if not changed:
            for each in shared:
                self._engine.functions.count_again({*each.making.idents}, making=True)
        return not changed

    def _objects_of(self, making: _Making) -> list[Object]:
        return self._heap.known(making.idents)

    def _holds(self, making: _Making) -> bool:
        """Return whether the made object is unchanged."""
        return [thing.stamp() for thing in self._objects_of(making)] == making.stamps

    def request(self, cls: ClassInfo, site: CallSite) -> _Request | None:
        """Return the inputs of an object's construction, and the state before; None if no model is built, or if an
        argument was made for this one."""
        given = (*site.args, *site.keywords.values(), *(() if site.rest is None else (site.rest,)))
        outside = [*_objects_in(given)] if self._sharing else []
        if not self._sharing or not all(self._heap[each].symbolic for each in outside):
            return None
        frame = site.frame
        how = frame.path.confidence, frame.path.conditional, self._engine.switched
        stamps = tuple(self._heap[each].stamp() for each in outside)
        question = cls, site.args, tuple(site.keywords.items()), site.rest, stamps, how
        changes = self._heap.changes
        before = len(changes.attributes), changes.elsewhere, self._engine.left_out
        contexts = len(self._engine.contexts)
        return _Request(question, frame.depth, contexts, self._heap.count, len(self._shared), *before)

    def shared(self, request: _Request) -> Instance | None:
        """Return an equal module of an earlier model, if it is unchanged and not yet shared with this one."""
        known = self._makings.get(request.question)
        if known is None:
            return None
        taken = {ident for each in self._shared for ident in each.making.idents}
        left = MAX_UNTRACED_DEPTH - request.depth
        for making in known:
            if making.levels <= left and taken.isdisjoint(making.idents) and self._holds(making):
                before = [thing.copied() for thing in self._objects_of(making)]
                self._shared.append(_Shared(making, before, request.depth))
                return making.made
        return None

    def keep(self, request: _Request, made: Instance, stored: BranchEffects) -> None:
        """Make a new module available to later models if its construction changed no existing object, and was followed to
        its end."""
        changes = self._heap.changes
        span = range(request.count + 1, self._heap.count + 1)
        if made.ident != span.start or any(ident != made.ident for ident, _ in stored):
            return
        if (changes.elsewhere, self._engine.left_out) != (request.elsewhere, request.left_out):
            return
        objects = self._heap.known(span)
        own = {*map(id, objects)}
        if all(ident in own for ident, _ in changes.attributes[request.attributes :]):
            shared = self._shared[request.shared :]
            idents = (*span, *(ident for each in shared for ident in each.making.idents))
            stamps = [thing.stamp() for thing in objects]
            stamps += [stamp for each in shared for stamp in each.making.stamps]
            ends = [each.depth + each.making.levels for each in shared]
            ends += [each.depth for each in self._engine.contexts[request.contexts :] if not each.compiled]
            levels = max(ends, default=request.depth) - request.depth
            self._new.append((request.question, _Making(made, idents, stamps, levels)))

    def unite(self, root: Instance) -> None:
        """Put modules of earlier models in the place of those below `root` that are like them as they are now."""
        made_so = [(question, making) for question, making in self._new if self._holds(making)]
        below = self._below(root)
        pairs = _Pairs()
        for ident in below:
            if ident in self._idents:  # both hold it as it is
                pairs.add(ident, ident)
        if self._idents:
            for made in below.values():
                if made is not root and isinstance(made, Instance) and made.ident not in pairs.old_of:
                    any(self._is_like(made, other, pairs) for other in self._modules.get(made.cls, ()))
        renamed = {new: old for new, old in pairs.old_of.items() if new != old}
        for ident, made in below.items():
            if ident in renamed:
                continue
            if renamed:
                _rename(self._heap[made], renamed)
            if ident in self._idents:
                continue
            self._idents.add(ident)
            if isinstance(made, Instance) and self._engine.classes.is_module(made):
                self._modules.setdefault(made.cls, []).append(made)
        self._engine.functions.count_again({*renamed.values()}, making=False)
        for question, making in made_so:
            if not renamed.keys().isdisjoint(making.idents):
                making = self._merge_making(renamed, making)
            self._makings.setdefault(question, []).append(making)

    def _merge_making(self, renamed: Mapping[int, int], making: _Making) -> _Making:
        """Return the made objects, some of which are replaced by shared ones."""
        made = Instance(renamed.get(making.made.ident, making.made.ident), making.made.cls)
        idents = tuple(i for i, member in self._below(made).items() if not self._heap[member].symbolic)
        stamps = [thing.stamp() for thing in self._heap.known(idents)]
        return _Making(made, idents, stamps, making.levels)

    def _below(self, root: Instance) -> dict[int, Thing]:
        """Return the objects reachable from an object, itself included, in the order of its attributes."""
        found: dict[int, Thing] = {}
        pending: list[Value] = [root]
        while pending:
            value = pending.pop()
            if not isinstance(value, (Instance, ExternalInstance)):
                pending.extend(reversed(_inside(value)))
            elif value.ident and value.ident not in found:
                found[value.ident] = value
                pending.extend(reversed(_values_of(self._heap[value])))
        return found

    def _is_like(self, new: Instance, old: Instance, pairs: _Pairs) -> bool:
        """Return whether all objects reachable from two modules differ in identity alone; if so, `pairs` has them."""
        known = pairs.count
        pending: list[tuple[Value, Value]] = [(new, old)]
        while pending:
            one, other = pending.pop()
            if not isinstance(one, (Instance, ExternalInstance)):
                inner = _alike(one, other)
            elif isinstance(other, (Instance, ExternalInstance)) and _kind(one) == _kind(other):
                if not one.ident or pairs.old_of.get(one.ident) == other.ident:
                    continue
                inner = None
                if pairs.add(one.ident, other.ident):
                    inner = _alike_objects(self._heap[one], self._heap[other])
            else:
                inner = None
            if inner is None:
                pairs.back_to(known)
                return False
            pending.extend(inner)
        return True


class _Pairs:
    """New objects and the old ones that they are like: one of either for each of the other."""

    def __init__(self) -> None:
        self.old_of: dict[int, int] = {}
        self._old: set[int] = set()

    @property
    def count(self) -> int:
        return len(self.old_of)

    def add(self, new: int, old: int) -> bool:
        """Return whether the two can be a pair."""
        if new in self.old_of or old in self._old:
            return self.old_of.get(new) == old
        self.old_of[new] = old
        self._old.add(old)
        return True

    def back_to(self, count: int) -> None:
        """Forget all pairs but the first `count`."""
        while len(self.old_of) > count:
            self._old.discard(self.old_of.popitem()[1])


def _kind(made: Thing) -> tuple[object, bool]:
    return made.cls if isinstance(made, Instance) else made.name, bool(made.ident)


def _values_of(thing: Object) -> list[Value]:
    members = () if thing.members is None else (thing.members,)
    return [*thing.attributes.values(), *thing.dynamic.values(), *members]


def _alike_objects(one: Object, other: Object) -> list[tuple[Value, Value]] | None:
    """Return the parts of two objects that must be alike for them to be; None if they cannot be alike."""
    if (
        (one.escaping, one.symbolic, one.made, one.uncounted, one.stored)
        != (other.escaping, other.symbolic, other.made, other.uncounted, other.stored)
        or one.sure != other.sure
        or [*one.attributes] != [*other.attributes]
        or [*one.dynamic] != [*other.dynamic]
        or (one.members is None) != (other.members is None)
    ):
        return None
    return [*zip(_values_of(one), _values_of(other), strict=True)]


def _inside(value: Value) -> tuple[Value, ...]:
    """Return the values that a value is made of and that may lead to objects."""
    if isinstance(value, Choice):
        return value.options
    if isinstance(value, Sequence):
        return (*(value.items or ()), value.element)
    if isinstance(value, Dict):
        return (*(v for _, v in value.entries), *(() if value.element is None else (value.element,)))
    if isinstance(value, Function):
        bound = () if value.bound is None else (value.bound,)
        return (*bound, *(v for _, v in value.given))
    if isinstance(value, Partial):
        return (value.function, *(v for _, v in value.given))
    if isinstance(value, Method):
        return (value.receiver,)
    return (value.instance,) if isinstance(value, Super) else ()


def _frame(value: Value) -> object:
    """Return a value without the values `_inside` it."""
    if isinstance(value, Choice):
        return value.likely
    if isinstance(value, Sequence):
        return value.kind, value.items is None, value.escaping, value.constant
    if isinstance(value, Dict):
        return tuple(key for key, _ in value.entries), value.element is None, value.escaping, value.extra
    if isinstance(value, Function):
        given = tuple(key for key, _ in value.given)
        return value.info, value.bound is None, value.closure, given, value.breaks, value.constant
    if isinstance(value, Partial):
        return tuple(key for key, _ in value.given)
    if isinstance(value, Method):
        return value.name
    return value.after if isinstance(value, Super) else value


def _alike(one: Value, other: Value) -> list[tuple[Value, Value]] | None:
    """As `_alike_objects`, of values that are no objects."""
    if one is other and not _inside(one):
        return []
    if type(one) is not type(other) or _frame(one) != _frame(other):
        return None
    inner, others = _inside(one), _inside(other)
    return [*zip(inner, others, strict=True)] if len(inner) == len(others) else None


def _objects_in(values: Iterable[Value]) -> Iterator[Thing]:
    """Yield the objects in the values themselves, not those that these objects hold."""
    for value in values:
        if isinstance(value, (Instance, ExternalInstance)):
            if value.ident:
                yield value
        else:
            yield from _objects_in(_inside(value))


def _rename(thing: Object, renamed: Mapping[int, int]) -> None:
    for table in (thing.attributes, thing.dynamic):
        for name, value in table.items():
            table[name] = _replace_objects(value, renamed)
    if thing.members is not None:
        thing.members = _replace_objects(thing.members, renamed)


def _replace_objects(value: Value, renamed: Mapping[int, int]) -> Value:
    """Return the value with objects replaced by equal ones."""

    def inner(value: Value) -> Value:
        return _replace_objects(value, renamed)

    def given(pairs: Given) -> Given:
        return tuple((key, inner(v)) for key, v in pairs)

    if isinstance(value, Instance):
        return Instance(renamed.get(value.ident, value.ident), value.cls)
    if isinstance(value, ExternalInstance):
        return ExternalInstance(value.name, renamed.get(value.ident, value.ident))
    if not _inside(value):
        return value
    if isinstance(value, Choice):
        return Choice(tuple(map(inner, value.options)), value.likely)
    if isinstance(value, Sequence):
        items = None if value.items is None else tuple(map(inner, value.items))
        return Sequence(value.kind, items, inner(value.element), value.escaping, value.constant)
    if isinstance(value, Dict):
        entries = tuple((key, inner(v)) for key, v in value.entries)
        element = None if value.element is None else inner(value.element)
        return Dict(entries, element, value.escaping, value.extra)
    if isinstance(value, Function):
        bound = None if value.bound is None else inner(value.bound)
        return Function(value.info, bound, value.closure, given(value.given), value.breaks, value.constant)
    if isinstance(value, Partial):
        return Partial(inner(value.function), given(value.given))
    if isinstance(value, Method):
        return Method(inner(value.receiver), value.name)
    return Super(inner(value.instance), value.after) if isinstance(value, Super) else value
