"""Objects during inference: their contents, and what each branch stores."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tcready.static.engine.values import ExternalInstance, Instance, Unknown, Value, join, prefer


@dataclass
class Changes:
    """Counts what was put anywhere: into objects, tables, names that outlive the function that puts."""

    count: int = 0
    attributes: list[tuple[int, str]] = field(default_factory=list)
    """The attributes among them, one after the other: the `id` of what is known of the object, and the name."""
    loose: int = 0
    """Counts the attributes that were put of whose names the source gives a part at most; no others count these."""
    elsewhere: int = 0
    """Counts those that went into no object: a class, a table, a name of the file or of a function around."""


@dataclass
class Object:
    """What is known of one object: its attributes so far. `outer`: it outlives the compiled call."""

    outer: bool
    attributes: dict[str, Value] = field(default_factory=dict)
    loose: dict[str, Value] = field(default_factory=dict)
    """Attributes of whose names the source gives a part at most: by a regular expression."""
    assumed: bool = False
    """It comes from outside: what its class gives it are defaults."""
    made: bool = True
    """Whether what its class does on making one has been looked at."""
    members: Value | None = None
    """What a ModuleList, Sequential, ModuleDict or ParameterList holds."""

    uncounted: bool = False
    """The source does not tell how many members there are: it shows some of those that `members` lists in a branch or
    a loop, or with `*`."""
    sure: set[str] = field(default_factory=set)
    """Modules that it holds whichever way its making went, by attribute."""
    stored: bool = False
    """Whether its making has been looked at."""
    closure: int = 0
    """Of an object of a class that is defined in a function: the key of the scope around that class."""
    of_process: bool = False
    """It is made as its file is imported, so that all models share it."""
    version: int = 0
    """Counts what was put."""
    changes: Changes = field(default_factory=Changes)
    """Of all objects together."""

    def stamp(self) -> tuple[object, ...]:
        """Another value once something was put here."""
        state = self.made, self.stored, self.uncounted, len(self.sure), len(self.loose)
        return self.version, self.members, state

    def copied(self) -> Object:
        """The object as it is now."""
        return replace(self, attributes=dict(self.attributes), loose=dict(self.loose), sure=set(self.sure))

    def restore(self, before: Object) -> None:
        """Is again as it was when it was `copied`."""
        vars(self).update(vars(before))

    def is_like(self, other: Object) -> bool:
        """Whether the same is known of both, in the same order."""
        return (
            self.attributes == other.attributes
            and [*self.attributes] == [*other.attributes]
            and self.loose == other.loose
            and [*self.loose] == [*other.loose]
            and self.members == other.members
            and (self.outer, self.assumed, self.made, self.uncounted, self.stored, self.closure)
            == (other.outer, other.assumed, other.made, other.uncounted, other.stored, other.closure)
            and self.sure == other.sure
        )

    def take(self, other: Object) -> None:
        """Becomes a copy of `other`."""
        self.attributes, self.loose = dict(other.attributes), dict(other.loose)
        self.assumed, self.made, self.members = other.assumed, other.made, other.members
        self.uncounted, self.sure, self.closure = other.uncounted, set(other.sure), other.closure
        self.version += 1
        self.changes.count += 1

    def update(self, name: str, value: Value, *, strong: bool, unusual: bool = False) -> None:
        """Stores an attribute. A strong update replaces what it was; a weak one joins that, as it may be either:
        by default what it was, if the new one is `unusual`."""
        if self.assumed and name in self.attributes and isinstance(value, Unknown):
            return  # what could not be worked out says nothing against a default
        self.version += 1
        self.changes.count += 1
        self.changes.attributes.append((id(self), name))
        if strong or name not in self.attributes:
            self.attributes[name] = value
        else:
            self.attributes[name] = (prefer if unusual else join)(self.attributes[name], value)

    def put_loose(self, pattern: str, value: Value) -> None:
        """Stores an attribute whose name only fits a pattern."""
        self.version += 1
        self.changes.loose += 1
        self.loose[pattern] = join(self.loose[pattern], value) if pattern in self.loose else value

    def named_like(self, pattern: str) -> list[Value]:
        """The attributes of whose names a part is known, if a name may fit both that and `pattern`."""
        return [
            value
            for known, value in self.loose.items()
            if re.fullmatch(known, _example(pattern)) or re.fullmatch(pattern, _example(known))
        ]


def _example(pattern: str) -> str:
    """A name that fits a pattern in which nothing but `\\w*` stands for more than itself."""
    return re.sub(r"\\(.)", r"\1", pattern.replace(r"\w*", "0"))


Way: TypeAlias = "set[tuple[int, str | None]]"
"""What one way through a branch stores: (object, attribute); None for an attribute: a member of a container."""


class Heap:
    """The objects of one analysis; the identity of an object is where and for whom it was made."""

    def __init__(self) -> None:
        self.changes = Changes()
        self._objects: dict[int, Object] = {}
        self._idents: dict[tuple[object, ...], int] = {}
        self.reads: list[int] | None = None
        """The objects that are asked for, if anybody notes them."""
        self.met: list[tuple[tuple[object, ...], int]] | None = None
        """Allocation keys and what they gave, if anybody notes them."""
        self._ways: list[Way] = []
        """The ways that are being followed and may not be taken, outermost first."""

    def ident(self, *key: object, outer: bool) -> int:
        """The identity for an allocation key; the same key gives the same object again."""
        if key not in self._idents:
            self._idents[key] = len(self._idents) + 1
            self._objects[self._idents[key]] = Object(outer, changes=self.changes)
        if self.met is not None:
            self.met.append((key, self._idents[key]))
        return self._idents[key]

    def ident_of(self, key: tuple[object, ...]) -> int | None:
        """The identity that was given for an allocation key, None if none was."""
        return self._idents.get(key)

    def put_back(self, ident: int, key: tuple[object, ...]) -> None:
        """Gives an identity as it was given by another analysis at the same point."""
        self._idents[key] = ident

    def put_at(self, ident: int, thing: Object) -> None:
        """Makes that the object with this identity."""
        self._objects[ident] = replace(thing, changes=self.changes)

    def at(self, ident: int) -> Object:
        """What is known of the object with this identity."""
        if ident not in self._objects:
            self._objects[ident] = Object(True, changes=self.changes)
        return self._objects[ident]

    @property
    def count(self) -> int:
        """The last identity that was given."""
        return len(self._idents)

    def known(self, idents: Iterable[int]) -> list[Object]:
        """The objects with these identities."""
        return [self._objects[ident] for ident in idents]

    def __getitem__(self, value: Instance | ExternalInstance) -> Object:
        if self.reads is not None:
            self.reads.append(value.ident)
        if value.ident not in self._objects:
            self._objects[value.ident] = Object(True, changes=self.changes)
        return self._objects[value.ident]

    def note(self, value: Instance | ExternalInstance, name: str | None) -> None:
        """An attribute is stored (None: a member is added) while things are built."""
        self.changes.count += 1
        if value.ident in self._objects:
            self._keep(value.ident, name)

    @contextmanager
    def way(self) -> Iterator[Way]:
        """What is stored inside is told to the caller, who says with `join` what of it is certain."""
        self._ways.append(set())
        try:
            yield self._ways[-1]
        finally:
            self._ways.pop()

    @contextmanager
    def making(self) -> Iterator[Way]:
        """An object is made inside; what is certain there is told to the caller, who says `made` of it."""
        outside, self._ways = self._ways, []
        try:
            with self.way() as stored:
                yield stored
        finally:
            self._ways = outside

    def made(self, value: Instance, stored: Way, modules: Collection[str]) -> None:
        """The making of an object has stored this. One made at the same place before is the same object to us: what
        it surely has is what each of them got. Of its attributes, only `modules` are asked for."""
        own = {name for name in modules if (value.ident, name) in stored}
        thing = self[value]
        if stored:  # nothing where the very call was followed before
            thing.sure = own if not thing.stored else thing.sure & own
            thing.stored = True
        self.follow({entry for entry in stored if entry[0] != value.ident})

    def join(self, *ways: Way) -> None:
        """One of several ways is taken: certain is what each of them stores; no member that one adds can be counted."""
        for ident, name in set().union(*ways):
            if name is None:
                self._objects[ident].uncounted = True
        for ident, name in set.intersection(*ways):
            if name is not None:
                self._keep(ident, name)

    def follow(self, way: Way) -> None:
        """The way is taken for sure."""
        for ident, name in way:
            self._keep(ident, name)

    def _keep(self, ident: int, name: str | None) -> None:
        if self._ways:
            self._ways[-1].add((ident, name))
        elif name is not None:
            self._objects[ident].sure.add(name)
