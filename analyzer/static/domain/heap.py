"""Objects as inference sees them: the attributes of each, and the stores of each branch."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tcready.static.domain.values import ExternalInstance, Instance, Unknown, Value, join, prefer


@dataclass
class Changes:
    """Counts all stores: into objects, tables, names that outlive the storing function."""

    count: int = 0
    attributes: list[tuple[int, str]] = field(default_factory=list)
    """The attributes among them, in order: the `id` of the object's state, and the name."""
    dynamic: int = 0
    """The number of attributes set under names that the source decides only in part; no other counter includes these."""
    elsewhere: int = 0
    """The number of stores outside of objects: into a class, a table, a name of the file or of an enclosing function."""


@dataclass
class Object:
    """The known state of one object: its attributes so far. `outer`: it outlives the compiled call."""

    escaping: bool
    attributes: dict[str, Value] = field(default_factory=dict)
    dynamic: dict[str, Value] = field(default_factory=dict)
    """Attributes with names that the source decides only in part: by a regular expression."""
    seldom: set[str] = field(default_factory=set)
    """Attributes that only unusual stores set: most objects have none of that name."""
    symbolic: bool = False
    """It comes from outside: the attributes from its class are defaults."""
    made: bool = True
    """Whether the code that its class runs on construction has been read."""
    members: Value | None = None
    """The members of a ModuleList, Sequential, ModuleDict or ParameterList."""

    uncounted: bool = False
    """The number of members is unknown: the source adds some of those in `members` in a branch or a loop, or with `*`."""
    sure: set[str] = field(default_factory=set)
    """Modules that it holds in every branch of its construction, by attribute."""
    stored: bool = False
    """Whether its construction has been read."""
    closure: int = 0
    """For an object of a class defined in a function: the key of the scope around that class."""
    process_global: bool = False
    """It is made as its file is imported, so that all models share it."""
    version: int = 0
    """The number of stores."""
    changes: Changes = field(default_factory=Changes)
    """The changes of all objects together."""

    def stamp(self) -> tuple[object, ...]:
        """Return a value that changes with each store."""
        state = self.made, self.stored, self.uncounted, len(self.sure), len(self.dynamic)
        return self.version, self.members, state

    def copied(self) -> Object:
        """Return the current state of the object."""
        return replace(
            self,
            attributes=dict(self.attributes),
            dynamic=dict(self.dynamic),
            seldom=set(self.seldom),
            sure=set(self.sure),
        )

    def restore(self, before: Object) -> None:
        """Restore the state of `copied`."""
        vars(self).update(vars(before))

    def is_like(self, other: Object) -> bool:
        """Return whether the same is known of both, in the same order."""
        return (
            self.attributes == other.attributes
            and [*self.attributes] == [*other.attributes]
            and self.dynamic == other.dynamic
            and [*self.dynamic] == [*other.dynamic]
            and self.members == other.members
            and (self.escaping, self.symbolic, self.made, self.uncounted, self.stored, self.closure)
            == (other.escaping, other.symbolic, other.made, other.uncounted, other.stored, other.closure)
            and (self.sure, self.seldom) == (other.sure, other.seldom)
        )

    def take(self, other: Object) -> None:
        """Become a copy of `other`."""
        self.attributes, self.dynamic = dict(other.attributes), dict(other.dynamic)
        self.seldom = set(other.seldom)
        self.symbolic, self.made, self.members = other.symbolic, other.made, other.members
        self.uncounted, self.sure, self.closure = other.uncounted, set(other.sure), other.closure
        self.version += 1
        self.changes.count += 1

    def update(self, name: str, value: Value, *, strong: bool, unusual: bool = False) -> None:
        """Store an attribute. A strong update replaces what it was; a weak one joins that, as it may be either:
        by default what it was, if the new one is `unusual`."""
        if self.symbolic and name in self.attributes and isinstance(value, Unknown):
            return  # what could not be worked out says nothing against a default
        self.version += 1
        self.changes.count += 1
        self.changes.attributes.append((id(self), name))
        if unusual and name not in self.attributes:
            self.seldom.add(name)
        elif not unusual:
            self.seldom.discard(name)
        if strong or name not in self.attributes:
            self.attributes[name] = value
        else:
            self.attributes[name] = (prefer if unusual else join)(self.attributes[name], value)

    def put_dynamic(self, pattern: str, value: Value) -> None:
        """Store an attribute with a name that only fits a pattern."""
        self.version += 1
        self.changes.dynamic += 1
        self.dynamic[pattern] = join(self.dynamic[pattern], value) if pattern in self.dynamic else value

    def named_like(self, pattern: str) -> list[Value]:
        """Return the attributes with partly known names, if a name may fit both these and `pattern`."""
        return [
            value
            for known, value in self.dynamic.items()
            if re.fullmatch(known, _example(pattern)) or re.fullmatch(pattern, _example(known))
        ]


def _example(pattern: str) -> str:
    r"""Return a name that fits a pattern in which only `\w*` is variable."""
    return re.sub(r"\\(.)", r"\1", pattern.replace(r"\w*", "0"))


BranchEffects: TypeAlias = "set[tuple[int, str | None]]"
"""The stores in one branch: (object, attribute); None for an attribute: a member of a container."""


class Heap:
    """The objects of one analysis; the identity of an object is the place and the owner of its construction."""

    def __init__(self) -> None:
        self.changes = Changes()
        self._objects: dict[int, Object] = {}
        self._idents: dict[tuple[object, ...], int] = {}
        self.reads: list[int] | None = None
        """The objects that are read, if recorded."""
        self.met: list[tuple[tuple[object, ...], int]] | None = None
        """Allocation keys and their identities, if recorded."""
        self._ways: list[BranchEffects] = []
        """The branches that are being followed and may not run, outermost first."""

    def ident(self, *key: object, escaping: bool) -> int:
        """Return the identity for an allocation key; the same key returns the same object again."""
        if key not in self._idents:
            self._idents[key] = len(self._idents) + 1
            self._objects[self._idents[key]] = Object(escaping, changes=self.changes)
        if self.met is not None:
            self.met.append((key, self._idents[key]))
        return self._idents[key]

    def ident_of(self, key: tuple[object, ...]) -> int | None:
        """Return the identity of an allocation key, None if it has none."""
        return self._idents.get(key)

    def put_back(self, ident: int, key: tuple[object, ...]) -> None:
        """Restore an identity that another analysis assigned at the same point."""
        self._idents[key] = ident

    def put_at(self, ident: int, thing: Object) -> None:
        """Make that the object with this identity."""
        self._objects[ident] = replace(thing, changes=self.changes)

    def at(self, ident: int) -> Object:
        """Return the state of the object with this identity."""
        if ident not in self._objects:
            self._objects[ident] = Object(True, changes=self.changes)
        return self._objects[ident]

    @property
    def count(self) -> int:
        """The last identity that was assigned."""
        return len(self._idents)

    def known(self, idents: Iterable[int]) -> list[Object]:
        """Return the objects with these identities."""
        return [self._objects[ident] for ident in idents]

    def __getitem__(self, value: Instance | ExternalInstance) -> Object:
        if self.reads is not None:
            self.reads.append(value.ident)
        if value.ident not in self._objects:
            self._objects[value.ident] = Object(True, changes=self.changes)
        return self._objects[value.ident]

    def note(self, value: Instance | ExternalInstance, name: str | None) -> None:
        """Record that an attribute is stored (None: a member is added) during construction."""
        self.changes.count += 1
        if value.ident in self._objects:
            self._keep(value.ident, name)

    @contextmanager
    def way(self) -> Iterator[BranchEffects]:
        """Collect the stores in this context for the caller, who passes the certain ones to `join`."""
        self._ways.append(set())
        try:
            yield self._ways[-1]
        finally:
            self._ways.pop()

    @contextmanager
    def making(self) -> Iterator[BranchEffects]:
        """Collect the certain stores while an object is made, for the caller, who passes them to `made`."""
        outside, self._ways = self._ways, []
        try:
            with self.way() as stored:
                yield stored
        finally:
            self._ways = outside

    def made(self, value: Instance, stored: BranchEffects, modules: Collection[str]) -> None:
        """Record the stores of an object's construction. One made at the same place before is the same object here: it
        certainly has what each of them got. Of its attributes, only `modules` are needed."""
        own = {name for name in modules if (value.ident, name) in stored}
        thing = self[value]
        if stored:  # nothing where the very call was followed before
            thing.sure = own if not thing.stored else thing.sure & own
            thing.stored = True
        self.follow({entry for entry in stored if entry[0] != value.ident})

    def join(self, *ways: BranchEffects) -> None:
        """Join branches of which one runs: a store is certain if each of them has it; a member that one adds cannot be
        counted."""
        for ident, name in set().union(*ways):
            if name is None:
                self._objects[ident].uncounted = True
        for ident, name in set.intersection(*ways):
            if name is not None:
                self._keep(ident, name)

    def follow(self, way: BranchEffects) -> None:
        """Record that the branch certainly runs."""
        for ident, name in way:
            self._keep(ident, name)

    def _keep(self, ident: int, name: str | None) -> None:
        if self._ways:
            self._ways[-1].add((ident, name))
        elif name is not None:
            self._objects[ident].sure.add(name)
