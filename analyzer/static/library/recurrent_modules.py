"""Recurrent modules of torch.nn: Dynamo gives up a function that uses one.

Read off a module one is wrapped at once; one that comes out of a container, or in as an argument, if something is asked
of it, or a function is called with it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from tcready.schema.enums import Confidence
from tcready.static.domain import facts as F  # noqa: N812 - the facts are many and their names common words
from tcready.static.domain.scope import Frame
from tcready.static.domain.values import (
    NONE,
    Const,
    ExternalInstance,
    Function,
    Instance,
    Mapping,
    Sequence,
    Super,
    Tensor,
    Value,
    likely,
    members_of,
    options,
)
from tcready.static.frontend.index import ClassInfo
from tcready.static.interp.interfaces import CallSite, Component, Engine
from tcready.static.library import semantics as K  # noqa: N812

ITERATED = frozenset("parameters named_parameters buffers named_buffers modules named_modules".split())
"""Methods of nn.Module that return an iterator over all its parts."""
TRAVERSING = frozenset("state_dict train eval requires_grad_ zero_grad".split())
"""Methods that go through all its parts themselves: a break in them does not give up their caller."""
OF_CHILDREN = frozenset({"children", "named_children"})
OF_PARAMETERS = frozenset({"parameters", "named_parameters"})


class RecurrentModules(Component):
    """Recurrent modules of torch.nn: Dynamo wraps none, and gives up the function that gets hold of one."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._recurrent: dict[ClassInfo, bool] = {}

    def touch(self, value: Value, node: ast.expr, frame: Frame, use: F.UseOfModule = "held") -> None:
        """Emit a use of `value` if it may be a recurrent module."""
        if self.engine.untraced or not any(map(self._is_recurrent, options(value))):
            return
        usual = [self._is_recurrent(option) for option in options(likely(value)) if option != NONE]
        sure: Confidence | None = None if all(usual) else "medium" if any(usual) else "low"
        self.engine.emit(F.Recurrent(self.engine.where(frame), node, value, sure if usual else "low", use))

    def touch_attribute(self, owner: Value, value: Value, node: ast.expr, frame: Frame) -> None:
        """Emit such a use of `owner.name`, which has the value `value`."""
        if self.engine.untraced:
            return
        objects = [v for v in options(owner) if isinstance(v, (Instance, ExternalInstance, Super))]
        if not objects:
            return
        if any(map(self._is_recurrent, objects)):
            self.touch(owner, node, frame, "read")
        elif any(map(self.engine.classes.is_module, objects)) and not self._found_by_python(
            objects, value, node, frame
        ):
            self.touch(value, node, frame)

    def _found_by_python(self, owners: Collection[Value], value: Value, node: ast.expr, frame: Frame) -> bool:
        """Return whether a `__getattr__` with source finds the recurrent module, which is wrapped in it: the parts of a
        module are no attributes of its own."""
        owner = next(iter(owners))
        if not isinstance(node, ast.Attribute) or not isinstance(owner, Instance) or len(owners) > 1:
            return False
        getter = self.engine.classes.mro(owner.cls).functions("__getattr__")
        if not getter or not any(map(self._is_recurrent, options(value))):
            return False
        self.engine.functions.invoke(Function(getter[0], owner), (Const(node.attr),), {}, frame)
        return True

    def touch_handed(self, site: CallSite) -> None:
        """The same of what a call hands on by the name of a variable, to a parameter (measured: what goes into `**kwargs`
        is not looked at)."""
        if self.engine.untraced or len(site.node.args) != len(site.args):
            return
        for node, value in zip(site.node.args, site.args, strict=True):
            if isinstance(node, ast.Name):
                self.touch(value, site.node, site.frame)

    def touch_by_walk(self, module: Instance | ExternalInstance, name: str, site: CallSite) -> None:
        """Emit the same for the method `name` of a module, which iterates over its parts."""
        if self.engine.untraced:
            return
        found: Value | None = None
        if site.node in self.engine.firsts:
            if name in OF_PARAMETERS:
                found = self._before_a_parameter(module, set())
        elif name in TRAVERSING and self.engine.operations.break_of(
            f"torch.nn.Module.{name}", site.args, site.keywords
        ):
            return  # whatever the parts are
        elif name in ITERATED | TRAVERSING | OF_CHILDREN:
            found = self._inside(module, set(), deep=name not in OF_CHILDREN)
        if found is not None:
            self.touch(found, site.node, site.frame, "traversed" if name in TRAVERSING else "walked")

    def _is_recurrent(self, value: Value) -> bool:
        if isinstance(value, Super):
            return any(map(self._is_recurrent, options(value.instance)))
        if isinstance(value, Instance):
            known = self._recurrent.get(value.cls)
            if known is None:
                external = self.engine.classes.mro(value.cls).external
                known = self._recurrent[value.cls] = any(map(self.engine.operations.is_recurrent, external))
            return known
        return isinstance(value, ExternalInstance) and self.engine.operations.is_recurrent(value.name)

    def _parts(self, module: Value) -> list[Value]:
        """Return the members of a module, in order."""
        members = self.engine.containers.container_members(module)
        if isinstance(members, Sequence):
            return list(members_of(members))
        if isinstance(members, Mapping):
            return [v for _, v in members.entries] + ([members.element] if members.element else [])
        if isinstance(module, Instance):
            thing = self.engine.heap[module]
            return [*thing.attributes.values(), *thing.dynamic.values()]
        return []

    def _inside(self, module: Value, done: set[Value], *, deep: bool) -> Value | None:
        """Return a recurrent module among the parts of a module; None if there is none."""
        done.add(module)
        for part in self._parts(module):
            found = [v for v in options(likely(part)) if self.engine.classes.is_module(v)]
            if any(map(self._is_recurrent, found)):
                return part
            for option in found if deep else ():
                inner = self._inside(option, done, deep=True) if option not in done else None
                if inner is not None:
                    return inner
        return None

    def _before_a_parameter(self, module: Value, done: set[Value]) -> Value | None:
        """Return a recurrent module that the search for the first parameter of a module comes by; None if it finds one
        before, which ends it."""
        pending = [module]
        while pending:
            current = pending.pop()
            if self._is_recurrent(current):
                return current
            parts = [v for part in self._parts(current) for v in options(likely(part))[:1]]
            own = any(isinstance(v, Tensor) and v.leaf for v in parts)
            if own or (isinstance(current, ExternalInstance) and K.has_parameters(current.name)):
                return None
            done.add(current)
            pending.extend(v for v in reversed(parts) if self.engine.classes.is_module(v) and v not in done)
        return None
