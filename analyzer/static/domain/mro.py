"""Classes and their bases: the method resolution order."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property

from tcready.static.frontend.index import ClassInfo, FunctionInfo
from tcready.static.library.semantics import CONTAINERS, DICTIONARIES, LISTS, is_module_class

PATCHED = ("forward", "__call__", "__init__")
"""Methods that class decorators are known to replace."""

WITHOUT_FORWARD = (CONTAINERS - {"torch.nn.Sequential"}) | {"torch.nn.Module"}
"""Classes of torch.nn that cannot be called as they are."""
TENSORS = frozenset({"torch.Tensor", "torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.Buffer"})
"""The bases of classes of tensors."""


@dataclass(frozen=True, eq=False)
class Mro:
    """A class's method resolution order: classes with source, and the external names above them."""

    classes: tuple[ClassInfo, ...]
    external: tuple[str, ...]
    behind_module: frozenset[ClassInfo] = frozenset()
    """Classes after nn.Module in the order: `class Net(nn.Module, Callable)` is called as a module is."""

    @cached_property
    def is_module(self) -> bool:
        """An nn.Module; if a base is out of sight, a class with its own `forward` is taken for one."""
        if any(is_module_class(name) for name in self.external):
            return True
        unseen = [
            name for name in self.external if name not in ("object", "abc.ABC", "typing.Generic", "typing.Protocol")
        ]
        return (
            bool(unseen)
            and any("forward" in c.functions for c in self.classes)
            and not any(name.startswith("torch.") for name in unseen)
        )

    @property
    def has_forward(self) -> bool:
        """A `forward` is defined or assigned in a class in sight, or comes with one of torch.nn, as nn.Sequential's."""
        return (
            bool(self.functions("forward"))
            or self.assigns("forward")
            or self.sets("forward")
            or any(is_module_class(name) and name not in WITHOUT_FORWARD for name in self.external)
        )

    def sets(self, name: str) -> bool:
        """Return whether a method sets the attribute on its own object, as in `self.forward = self.first_phase`."""
        methods = (each for cls in self.classes for found in cls.functions.values() for each in found)
        return any(
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and node.attr == name
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
            for method in methods
            for node in method.nodes
        )

    def assigns(self, name: str) -> bool:
        """Return whether the nearest class that binds `name` assigns it, as in `forward = Other.forward`; None is
        nothing."""
        cls = next((cls for cls in self.classes if name in cls.functions or name in cls.assigned), None)
        value = None if cls is None or name in cls.functions else cls.assigned[name]
        return value is not None and not (isinstance(value, ast.Constant) and value.value is None)

    @cached_property
    def container(self) -> str | None:
        """The torch.nn container this class derives from, or None."""
        return next((name for name in self.external if name in CONTAINERS), None)

    @property
    def is_tensor(self) -> bool:
        """Its objects are tensors."""
        return any(name in TENSORS for name in self.external)

    @property
    def is_list(self) -> bool:
        """Its objects are lists, with whatever methods of their own."""
        return any(name in LISTS for name in self.external)

    @property
    def is_dictionary(self) -> bool:
        """Its objects are dicts, with whatever methods of their own."""
        return any(name in DICTIONARIES for name in self.external)

    def functions(self, name: str, after: ClassInfo | None = None) -> list[FunctionInfo]:
        """Return the definitions of a method, nearest class first found; none if a nearer one assigns something of that
        name."""
        for cls in self.after(after):
            if name in cls.functions and not (name == "__call__" and cls in self.behind_module):
                return cls.functions[name]
            if cls.assigned.get(name) is not None:
                break
        return []

    def after(self, after: ClassInfo | None) -> tuple[ClassInfo, ...]:
        """Return the classes after one (None: all of them)."""
        if after is None or after not in self.classes:
            return self.classes
        return self.classes[self.classes.index(after) + 1 :]

    def holder(self, name: str, after: ClassInfo | None = None) -> ClassInfo | None:
        """Return the nearest class that assigns or nests `name`; an annotation alone makes no attribute."""
        for cls in self.after(after):
            if cls.assigned.get(name) is not None or name in cls.inner:
                return cls
        return None


def behind_module(order: list[ClassInfo], bases: dict[ClassInfo, list[ClassInfo | str]]) -> frozenset[ClassInfo]:
    """Return the classes of an order after nn.Module: no modules themselves, and named after one as a base."""
    modules: set[ClassInfo] = set()
    for cls in reversed(order):
        if any(is_module_class(b) if isinstance(b, str) else b in modules for b in bases.get(cls, [])):
            modules.add(cls)
    behind: set[ClassInfo] = set()
    for cls in order:
        past = cls in behind
        for base in bases.get(cls, []):
            if isinstance(base, str):
                past = past or is_module_class(base)
            elif base in modules:
                past = True
            elif past:
                behind.add(base)
    return frozenset(behind)


def linearise(cls: ClassInfo, bases: dict[ClassInfo, list[ClassInfo | str]]) -> tuple[list[ClassInfo], list[str]]:
    """C3 if it exists, depth first if it does not; external names in the order met.

    A base that is still being linearised (a circle) is left out. Bases come first by a walk of their own, so
    that neither a long chain nor many diamonds cost more than their classes.
    """
    done: dict[ClassInfo, tuple[list[ClassInfo], list[str]]] = {}
    pending: list[tuple[ClassInfo, bool]] = [(cls, False)]
    started: set[ClassInfo] = set()
    while pending:
        current, ready = pending.pop()
        if ready:
            done[current] = _merge_orders(current, bases, done)
        elif current not in started:
            started.add(current)
            pending.append((current, True))
            pending.extend((base, False) for base in bases.get(current, []) if not isinstance(base, str))
    return done[cls]


def _merge_orders(
    cls: ClassInfo,
    bases: dict[ClassInfo, list[ClassInfo | str]],
    done: dict[ClassInfo, tuple[list[ClassInfo], list[str]]],
) -> tuple[list[ClassInfo], list[str]]:
    """Return the order of `cls` from the orders of its bases that are `done`."""
    sequences: list[list[ClassInfo]] = []
    external: list[str] = []
    direct: list[ClassInfo] = []
    for base in bases.get(cls, []):
        if isinstance(base, str):
            external.append(base)
        elif base in done:
            direct.append(base)
            above, names = done[base]
            sequences.append(above)
            external.extend(name for name in names if name not in external)
    if len(sequences) < 2:
        return [cls, *(sequences[0] if sequences else [])], external
    sequences.append(direct)
    order = [cls]
    pending = [list(s) for s in sequences if s]
    while pending:
        head = next((s[0] for s in pending if not any(s[0] in other[1:] for other in pending)), pending[0][0])
        if head not in order:
            order.append(head)
        pending = [rest for s in pending if (rest := [c for c in s if c is not head])]
    return order, external
