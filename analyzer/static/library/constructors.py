"""Attributes of modules of torch.nn, from the arguments of their constructors."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from collections.abc import Mapping as Table
from functools import lru_cache

from tcready.static.domain.values import (
    NONE,
    UNKNOWN,
    Const,
    ExternalInstance,
    Instance,
    Mapping,
    Plain,
    Sequence,
    Tensor,
    Value,
    join,
    lift,
    prefer,
    tensor_of,
)
from tcready.static.interp.interfaces import CallSite, Engine
from tcready.static.library import semantics as K  # noqa: N812
from tcready.static.library.torch_tables import AttributeEntry, Constructor

MODULE = "torch.nn.Module"


def fill(engine: Engine, made: ExternalInstance, site: CallSite) -> None:
    """Set the attributes that a torch.nn module's constructor sets. One made at the same place before, which is the same
    object here, keeps its own too."""
    stack(engine, made, made.name, site)
    thing = engine.heap[made]
    for name, value in _attributes(engine, made.name, site):
        before = thing.attributes.get(name)
        value = value if before is None else join(before, value)
        if value != before:
            thing.update(name, value, strong=True)


def inherit(engine: Engine, made: Instance, base: str, site: CallSite) -> None:
    """Set the known attributes of the torch.nn base's constructor on a module of a derived class: its own definitions are
    found there."""
    stack(engine, made, base, site)
    if base == MODULE:
        return
    mro, thing = engine.classes.mro(made.cls), engine.heap[made]
    for name, value in _attributes(engine, base, site):
        if value != UNKNOWN and not mro.functions(name):
            thing.update(name, value, strong=True)


def _attributes(engine: Engine, name: str, site: CallSite) -> Iterator[tuple[str, Value]]:
    """Return the attributes that the torch.nn module constructor called at `site` sets."""
    constructor = engine.operations.tables.constructor_of(name)
    if constructor is None:
        return
    given = _given(constructor, site)
    spread = [engine.expressions.peek(word.value, site.frame) for word in site.node.keywords if word.arg is None]
    tables = [value for value in spread if isinstance(value, Mapping)]
    if len(tables) < len(spread) or any(t.element is not None and not t.extra for t in tables):
        given = None
    whole = not any(table.extra for table in tables)
    for attribute in constructor.attributes:
        value = _value_of(attribute, constructor, given)
        passed = given is not None and attribute.passed in given
        yield attribute.name, value if whole or passed else prefer(value, UNKNOWN)


def parameters(engine: Engine, made: Value, name: str) -> Value:
    """Return whether a torch.nn module gets parameters of its own; unknown for a class that is not known to make any
    itself."""
    constructor = engine.operations.tables.constructor_of(name)
    if constructor is None or not isinstance(made, ExternalInstance):
        return UNKNOWN
    attributes = engine.heap[made].attributes
    values = [
        attributes.get(attribute.name, UNKNOWN)
        for attribute in constructor.attributes
        if "Parameter" in (attribute.value, attribute.otherwise)
    ]
    if not values:
        return UNKNOWN

    def one_of(*values: Value) -> Value:
        found = [tensor_of(value) for value in values]
        sure = [
            tensor is not None and tensor.parameter and value == tensor
            for tensor, value in zip(found, values, strict=True)
        ]
        return Const(True) if any(sure) else Const(False) if not any(found) else Plain("bool")

    return lift(one_of, *values)


def stack(engine: Engine, made: ExternalInstance | Instance, name: str, site: CallSite) -> None:
    """Set the copies of a module that a torch.nn module, or one of a derived class, is made of."""
    copied = site.first(K.STACKS[name]) if name in K.STACKS else None
    if copied is not None:
        engine.heap[made].update("layers", Sequence("list", None, copied, escaping=True), strong=True)


def common_attribute(engine: Engine, name: str) -> Value | None:
    """Return an attribute that each module has from nn.Module."""
    constructor = engine.operations.tables.constructor_of(MODULE)
    found = constructor.attributes if constructor is not None else ()
    return next((_literal(attribute.value) for attribute in found if attribute.name == name), None)


def unwrap_parameters(engine: Engine, made: ExternalInstance) -> None:
    """Mark that code which changes a module in place may make its parameters plain tensors."""
    thing = engine.heap[made]
    for name, value in [*thing.attributes.items()]:
        if isinstance(value, Tensor) and value.parameter:
            thing.update(name, Tensor(value.dtype, leaf=True), strong=True)


def _given(constructor: Constructor, site: CallSite) -> dict[str, Value] | None:
    """Return the arguments that differ from their defaults; None if their effect is unknown."""
    if site.rest is not None:
        return None
    given = {**dict(zip(constructor.parameters, site.args, strict=False)), **site.keywords}
    given = {n: v for n, v in given.items() if v != _literal(constructor.parameters.get(n, "?"))}
    return None if constructor.untold & given.keys() else given


def _value_of(attribute: AttributeEntry, constructor: Constructor, given: Table[str, Value] | None) -> Value:
    if attribute.passed and given is not None:
        return given.get(attribute.passed, _literal(constructor.parameters[attribute.passed]))
    usual, otherwise = _literal(attribute.value), _literal(attribute.otherwise)
    deciding = [name for name in attribute.unless if given is None or name in given]
    if not deciding and given is not None:
        return usual
    if given is None or len(deciding) > 1 or not attribute.otherwise:
        return join(NONE, usual) if deciding and isinstance(usual, Tensor) else UNKNOWN
    default = _literal(constructor.parameters[deciding[0]])

    def chosen(argument: Value) -> Value:
        if isinstance(argument, Const):
            return usual if argument == default else otherwise
        return join(usual, otherwise)

    return lift(chosen, given[deciding[0]])


@lru_cache(1024)
def _literal(text: str) -> Value:
    """Return the value that a table has as text."""
    if text in ("", "?"):
        return UNKNOWN
    if text in ("Parameter", "Buffer"):
        return Tensor("float", leaf=True, parameter=text == "Parameter")
    if text == "{}":  # until something is put there
        return prefer(Mapping((), None), Mapping((), UNKNOWN, True))
    value = ast.literal_eval(text)
    return Sequence("tuple", tuple(map(Const, value)), UNKNOWN) if isinstance(value, tuple) else Const(value)
