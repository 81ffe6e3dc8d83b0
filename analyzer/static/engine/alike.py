"""Share one object between equal modules of several models, so that each is interpreted once.

The models of one file build the same encoder, each its own. What differs between two of them is their identity alone,
and interpreting the second tells nothing that the first did not. So before a model runs, what it holds and an earlier
model holds just so is put in its place. Within one model nothing becomes one: two layers stay two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from tcready.static.engine.contract import MAX_QUIET_DEPTH, CallSite, Engine
from tcready.static.engine.heap import Object, Way
from tcready.static.engine.values import (
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
from tcready.static.engine.values import Mapping as Dict
from tcready.static.index import ClassInfo

Thing: TypeAlias = "Instance | ExternalInstance"
Given: TypeAlias = "tuple[tuple[str | int, Value], ...]"


@dataclass(frozen=True)
class _Asked:
    """A module that is to be made, and where things stand before."""

    question: object
    depth: int
    contexts: int
    count: int
    lent: int
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
    """Of these objects, when it was done."""
    levels: int
    """Levels of calls that its making took: where fewer are left, it would come to something else."""


@dataclass(frozen=True)
class _Lent:
    """A module that was lent to the model that is being built."""

    making: _Making
    before: list[Object]
    """How all of it was then."""
    depth: int
    """Where it would have been made."""


class Alike:
    """What the models hold that were built so far."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._heap = engine.heap
        self._modules: dict[ClassInfo, list[Instance]] = {}
        self._idents: set[int] = set()
        self._makings: dict[object, list[_Making]] = {}
        self._lending = False
        self._new: list[tuple[object, _Making]] = []
        """What the model made that is being built."""
        self._lent: list[_Lent] = []
        """What was lent to it."""

    @contextmanager
    def building(self) -> Iterator[Callable[[], bool]]:
        """While it is entered, a model is built: what earlier models had made is lent to it. Then tells whether all of
        that is as it was; what this model has changed is put back, and it must be built without."""
        self._lending, self._new = True, []
        lent: list[_Lent] = []
        self._lent = lent
        try:
            yield lambda: self._is_unchanged(lent)
        finally:
            self._lending = False

    def _is_unchanged(self, lent: list[_Lent]) -> bool:
        changed = [each for each in lent if not self._holds(each.making)]
        for each in changed:
            for thing, copy in zip(self._objects_of(each.making), each.before, strict=True):
                thing.restore(copy)
        if not changed:
            for each in lent:
                self._engine.count_again({*each.making.idents}, making=True)
        return not changed

    def _objects_of(self, making: _Making) -> list[Object]:
        return self._heap.known(making.idents)

    def _holds(self, making: _Making) -> bool:
        """Whether what was made is as it was then."""
        return [thing.stamp() for thing in self._objects_of(making)] == making.stamps

    def asked(self, cls: ClassInfo, site: CallSite) -> _Asked | None:
        """What decides how an object is made, and where things stand; None if no model is built, or if an object is
        given that was made for this one."""
        given = (*site.args, *site.keywords.values(), *(() if site.rest is None else (site.rest,)))
        outside = [*_objects_in(given)] if self._lending else []
        if not self._lending or not all(self._heap[each].assumed for each in outside):
            return None
        frame = site.frame
        how = site.confidence, frame.conditional, self._engine.switched
        stamps = tuple(self._heap[each].stamp() for each in outside)
        question = cls, site.args, tuple(site.keywords.items()), site.rest, stamps, how
        changes = self._heap.changes
        before = len(changes.attributes), changes.elsewhere, self._engine.left_out
        contexts = len(self._engine.contexts)
        return _Asked(question, frame.depth, contexts, self._heap.count, len(self._lent), *before)

    def lent(self, asked: _Asked) -> Instance | None:
        """What an earlier model had made alike, if it is as it was then and was not lent to this one yet."""
        known = self._makings.get(asked.question)
        if known is None:
            return None
        taken = {ident for each in self._lent for ident in each.making.idents}
        left = MAX_QUIET_DEPTH - asked.depth
        for making in known:
            if making.levels <= left and taken.isdisjoint(making.idents) and self._holds(making):
                before = [thing.copied() for thing in self._objects_of(making)]
                self._lent.append(_Lent(making, before, asked.depth))
                return making.made
        return None

    def keep(self, asked: _Asked, made: Instance, stored: Way) -> None:
        """What was made can be lent to later models if its making has put nothing into what was there before, and was
        followed to its end."""
        changes = self._heap.changes
        span = range(asked.count + 1, self._heap.count + 1)
        if made.ident != span.start or any(ident != made.ident for ident, _ in stored):
            return
        if (changes.elsewhere, self._engine.left_out) != (asked.elsewhere, asked.left_out):
            return
        objects = self._heap.known(span)
        own = {*map(id, objects)}
        if all(ident in own for ident, _ in changes.attributes[asked.attributes :]):
            lent = self._lent[asked.lent :]
            idents = (*span, *(ident for each in lent for ident in each.making.idents))
            stamps = [thing.stamp() for thing in objects]
            stamps += [stamp for each in lent for stamp in each.making.stamps]
            ends = [each.depth + each.making.levels for each in lent]
            ends += [each.depth for each in self._engine.contexts[asked.contexts :] if not each.compiled]
            levels = max(ends, default=asked.depth) - asked.depth
            self._new.append((asked.question, _Making(made, idents, stamps, levels)))

    def unite(self, root: Instance) -> None:
        """Puts modules of earlier models in the place of those below `root` that are like them as they are now."""
        made_so = [(question, making) for question, making in self._new if self._holds(making)]
        kept = self._below(root)
        pairs = _Pairs()
        for ident in kept:
            if ident in self._idents:  # both hold it as it is
                pairs.add(ident, ident)
        if self._idents:
            for made in kept.values():
                if made is not root and isinstance(made, Instance) and made.ident not in pairs.old_of:
                    any(self._is_like(made, other, pairs) for other in self._modules.get(made.cls, ()))
        renamed = {new: old for new, old in pairs.old_of.items() if new != old}
        for ident, made in kept.items():
            if ident in renamed:
                continue
            if renamed:
                _rename(self._heap[made], renamed)
            if ident in self._idents:
                continue
            self._idents.add(ident)
            if isinstance(made, Instance) and self._engine.is_module(made):
                self._modules.setdefault(made.cls, []).append(made)
        self._engine.count_again({*renamed.values()}, making=False)
        for question, making in made_so:
            if not renamed.keys().isdisjoint(making.idents):
                making = self._with(renamed, making)
            self._makings.setdefault(question, []).append(making)

    def _with(self, renamed: Mapping[int, int], making: _Making) -> _Making:
        """What was made, some of which another now stands for."""
        made = Instance(renamed.get(making.made.ident, making.made.ident), making.made.cls)
        idents = tuple(i for i, kept in self._below(made).items() if not self._heap[kept].assumed)
        stamps = [thing.stamp() for thing in self._heap.known(idents)]
        return _Making(made, idents, stamps, making.levels)

    def _below(self, root: Instance) -> dict[int, Thing]:
        """What an object leads to, itself included, in the order of its attributes."""
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
        """Whether all that two modules lead to differs in identity alone; if so, `pairs` has it."""
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
        """Whether the two can be a pair."""
        if new in self.old_of or old in self._old:
            return self.old_of.get(new) == old
        self.old_of[new] = old
        self._old.add(old)
        return True

    def back_to(self, count: int) -> None:
        """Forgets all pairs but the first `count`."""
        while len(self.old_of) > count:
            self._old.discard(self.old_of.popitem()[1])


def _kind(made: Thing) -> tuple[object, bool]:
    return made.cls if isinstance(made, Instance) else made.name, bool(made.ident)


def _values_of(thing: Object) -> list[Value]:
    members = () if thing.members is None else (thing.members,)
    return [*thing.attributes.values(), *thing.loose.values(), *members]


def _alike_objects(one: Object, other: Object) -> list[tuple[Value, Value]] | None:
    """What of two objects must be alike for them to be; None if they are not whatever that is."""
    if (
        (one.outer, one.assumed, one.made, one.uncounted, one.stored)
        != (other.outer, other.assumed, other.made, other.uncounted, other.stored)
        or one.sure != other.sure
        or [*one.attributes] != [*other.attributes]
        or [*one.loose] != [*other.loose]
        or (one.members is None) != (other.members is None)
    ):
        return None
    return [*zip(_values_of(one), _values_of(other), strict=True)]


def _inside(value: Value) -> tuple[Value, ...]:
    """The values that a value is made of and that may lead to objects."""
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
    """A value but for what is `_inside` of it."""
    if isinstance(value, Choice):
        return value.likely
    if isinstance(value, Sequence):
        return value.kind, value.items is None, value.outer, value.constant
    if isinstance(value, Dict):
        return tuple(key for key, _ in value.entries), value.element is None, value.outer, value.extra
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
    """The objects that are given by values themselves, not by what these objects hold."""
    for value in values:
        if isinstance(value, (Instance, ExternalInstance)):
            if value.ident:
                yield value
        else:
            yield from _objects_in(_inside(value))


def _rename(thing: Object, renamed: Mapping[int, int]) -> None:
    for table in (thing.attributes, thing.loose):
        for name, value in table.items():
            table[name] = _renamed(value, renamed)
    if thing.members is not None:
        thing.members = _renamed(thing.members, renamed)


def _renamed(value: Value, renamed: Mapping[int, int]) -> Value:
    """The value with objects put in the place of those that are like them."""

    def inner(value: Value) -> Value:
        return _renamed(value, renamed)

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
        return Sequence(value.kind, items, inner(value.element), value.outer, value.constant)
    if isinstance(value, Dict):
        entries = tuple((key, inner(v)) for key, v in value.entries)
        element = None if value.element is None else inner(value.element)
        return Dict(entries, element, value.outer, value.extra)
    if isinstance(value, Function):
        bound = None if value.bound is None else inner(value.bound)
        return Function(value.info, bound, value.closure, given(value.given), value.breaks, value.constant)
    if isinstance(value, Partial):
        return Partial(inner(value.function), given(value.given))
    if isinstance(value, Method):
        return Method(inner(value.receiver), value.name)
    return Super(inner(value.instance), value.after) if isinstance(value, Super) else value
