"""Operations of torch on classes with a `__torch_function__` in the source, which Dynamo traces."""

from __future__ import annotations

from tcready.static.domain.scope import Frame
from tcready.static.domain.values import (
    UNKNOWN,
    Class,
    External,
    Function,
    Instance,
    Mapping,
    Sequence,
    Tensor,
    Value,
    members_of,
    options,
)
from tcready.static.frontend.index import ClassInfo
from tcready.static.interp.interfaces import Component, Engine
from tcready.static.library import semantics as K  # noqa: N812

OVERRIDE = "__torch_function__"


class Overrides(Component):
    """Operations of torch on tensors of classes that override them."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._inside = False
        """An override is being run: what it does to its tensors is torch's own, or would have no end."""

    def call_override(
        self, operation: Value, args: tuple[Value, ...], keywords: dict[str, Value], frame: Frame
    ) -> Value | None:
        """Return the result of `__torch_function__` of a class with source for an operation on its tensors; None if no
        argument is such a tensor."""
        if self._inside or self.engine.untraced:
            return None
        given = (*args, *keywords.values())
        classes = dict.fromkeys(cls for value in given for cls in _classes(value))
        found = [cls for cls in classes if self.engine.classes.mro(cls).functions(OVERRIDE)]
        if not found:
            return None
        types = Sequence("tuple", tuple(map(Class, found)), UNKNOWN)
        passed = Sequence("tuple", args, UNKNOWN)
        named = Mapping(tuple(keywords.items()), None)
        self._inside = True
        try:
            function = Function(self.engine.classes.mro(found[0]).functions(OVERRIDE)[0], Class(found[0]))
            return self.engine.functions.invoke(function, (operation, types, passed, named), {}, frame)
        finally:
            self._inside = False

    def by_object(
        self, operation: str, args: tuple[Value, ...], keywords: dict[str, Value], frame: Frame
    ) -> Value | None:
        """Return the result of `__torch_function__` of an object that is no tensor for an operation on it; None if there
        is none. If it may be a tensor as well, that is one more alternative."""
        if not self.engine.operations.tables.forms_of(K.public_name(operation)):
            return None
        given = (*args, *keywords.values())
        classes = dict.fromkeys(v.cls for value in given for v in options(value) if isinstance(v, Instance))
        for cls in classes:
            for info in self.engine.classes.mro(cls).functions(OVERRIDE)[:1]:
                passed = (
                    External(operation),
                    Sequence("tuple", (Class(cls),), UNKNOWN),
                    Sequence("tuple", args, UNKNOWN),
                    Mapping(tuple(keywords.items()), None),
                )
                function = Function(info, Class(cls))
                return self.engine.functions.invoke(function, passed, {}, frame)
        return None

    def is_overriding(self) -> bool:
        """Return whether an override is running: torch returns plain tensors in it."""
        return self._inside


def _classes(value: Value) -> list[ClassInfo]:
    """Return the classes of the tensors that a value is or holds."""
    if isinstance(value, Tensor):
        return [value.subclass] if value.subclass is not None else []
    if isinstance(value, Sequence) and value.items:
        return [cls for member in members_of(value) for cls in _classes(member)]
    return []
