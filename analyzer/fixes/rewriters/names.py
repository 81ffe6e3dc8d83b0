"""Queries that several rules share."""

from __future__ import annotations

from collections.abc import Iterator

from tcready.static.domain.facts import Call
from tcready.static.domain.values import ExternalInstance, Sequence, Value, members_of, options, tensor_of
from tcready.static.library.semantics import ARRAY

RECURRENT = frozenset({"GB0014", "GB0148"})
"""The breaks of a call of a recurrent module: until torch 2.14, and since."""
SELECTING = ("nonzero", "flatnonzero", "argwhere", "masked_select", "where")
"""Operations that select items by value."""
FACTORIES = frozenset("zeros ones empty rand randn arange".split())
RESIZING = tuple("view reshape expand repeat narrow split roll new_zeros new_ones new_empty unflatten".split())
"""Methods of a tensor that take sizes."""
RESAMPLING = ("interpolate", *(f"adaptive_{kind}_pool{n}d" for kind in ("avg", "max") for n in (1, 2, 3)))
"""Functions that make a tensor of another size."""


def method_of_tensor(call: Call, *names: str) -> bool:
    """Match `x.NAME(...)` on a tensor."""
    return call.method in names and call.receiver is not None and tensor_of(call.receiver) is not None


def operands(call: Call, *names: str) -> tuple[Value, ...] | None:
    """Return positional arguments, the tensor first, if the call is `torch.NAME(x, ...)`, `x.NAME(...)`, or the same
    in numpy: Dynamo traces its arrays as tensors."""
    if method_of_tensor(call, *names) or (call.receiver == ARRAY and call.method in names):
        assert call.receiver is not None
        return (call.receiver, *call.args)
    module, _, last = (call.name or "").rpartition(".")
    if last in names and module == "numpy" and any(v == ARRAY or tensor_of(v) for v in call.args[:1]):
        return call.args
    if last in names and module in ("torch", "torch.Tensor", "torch.functional", "torch.nn.functional"):
        return call.args
    return None


def argument(call: Call, operands: tuple[Value, ...], position: int, name: str) -> Value | None:
    """Return the operand at `position`, or the one given by `name`; None if neither exists."""
    return operands[position] if len(operands) > position else call.keyword(name)


def instance_called(call: Call) -> str:
    """Return the class of the external object that is called (`self.lstm(x)`), "" if there is none."""
    return next((v.name for v in options(call.function) if isinstance(v, ExternalInstance)), "")


def receiver_class(call: Call) -> str:
    """Return the class of the external object with the called method, "" if there is none."""
    if call.receiver is None:
        return ""
    return next((v.name for v in options(call.receiver) if isinstance(v, ExternalInstance)), "")


def sizes(call: Call) -> Iterator[Value]:
    """Return the sizes in a call of a factory, a method of a tensor or `F.pad`, those in a tuple one by one."""
    name = call.constructed.removeprefix("torch.").removeprefix("nn.functional.")
    if name in FACTORIES:
        given = call.args
    elif name == "full":
        given = call.args[:1]
    else:
        given = (operands(call, *RESIZING, "pad") or operands(call, *RESAMPLING) or ())[1:]
    by_name = call.keyword("size") if name in (*FACTORIES, "full", *RESAMPLING) else None
    given = given if by_name is None else (*given, by_name)
    while given:
        value, *rest = given
        rows = [members_of(v) for v in options(value) if isinstance(v, Sequence)]
        if not rows:
            yield value
        given = (*(item for row in rows for item in row), *rest)


def is_recurrent_call(fact: Call) -> bool:
    """Return True if the call is of a recurrent module of torch.nn, which Dynamo leaves to Python."""
    owner, _, method = (fact.name or "").rpartition(".")
    return fact.gb_id in RECURRENT and owner.startswith("torch.nn.") and method in ("__call__", "forward")
