"""What operations of torch give, read from the tables that were derived from a version of torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tcready.static.engine import knowledge as K  # noqa: N812
from tcready.static.engine.values import (
    NONE,
    UNKNOWN,
    Const,
    DType,
    External,
    ExternalInstance,
    Function,
    Instance,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    join,
    members_of,
    options,
    tensor_of,
)
from tcready.static.torch_tables import Argument, Context, Member, Result, Tables

LETTERS = {"bool": "b", "int": "i", "float": "f", "str": "s", "dtype": "d", "device": "v", "Size": "I"}
"""How the tables call the types of Python."""
OF_SIZES = frozenset({"Size", "int"})

FOLLOWED_BY_NOBODY = ("functools.singledispatch", "triton.jit")
"""Decorators that the tables do not tell of: what a call dispatches to is not followed (a rule speaks of the call), and
a kernel of Triton is no Python function."""

ALSO_WHILE_TRACING = {
    "torch._dynamo.is_compiling": True,
    "torch.overrides.is_tensor_method_or_property": False,
}
"""Names that the tables do not have (measured on torch 2.13)."""
OF_PYTHON = frozenset("bool complex dict float frozenset int list object set str tuple type".split())
OF_ITS_ARGUMENT = frozenset({"torch.overrides.is_tensor_like"})
"""What the tables give one answer of that hangs on what it is asked of: it was tried with a tensor."""


class Operations:
    """The operations of one version of torch; what they were asked once is kept."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._known: dict[object, tuple[Result, ...]] = {}

    def results(
        self, operation: str, args: tuple[Value, ...], keywords: Mapping[str, Value]
    ) -> tuple[Result, ...]:
        """What a call may give, as the tables have it; none if nothing is known of it."""
        positional = tuple(map(argument_of, args))
        named = tuple((name, argument_of(value)) for name, value in sorted(keywords.items()))
        question = operation, positional, named
        if question not in self._known:
            self._known[question] = self.tables.results_of(operation, positional, dict(named))
        return self._known[question]

    def while_tracing(self, name: str) -> Const | None:
        """The one answer of a function while Dynamo traces, whatever it is given; None if there is none."""
        known = self.tables.data["while_tracing"]
        if name in ALSO_WHILE_TRACING:
            return Const(ALSO_WHILE_TRACING[name])
        return Const(known[name]) if name in known and name not in OF_ITS_ARGUMENT else None

    def read_as_numbers(
        self, operation: str, args: tuple[Value, ...], keywords: Mapping[str, Value]
    ) -> tuple[Value, ...]:
        """Tensors that are given where an operation takes a number, so that their values are read."""
        if not any(tensor_of(value) for value in (*args, *keywords.values())):
            return ()
        positional = tuple(map(argument_of, args))
        named = {name: argument_of(value) for name, value in keywords.items()}
        places = self.tables.read_as_numbers(operation, positional, named)
        return tuple(args[place] if isinstance(place, int) else keywords[place] for place in places)

    def break_of(self, name: str) -> str:
        """The id of the break that a call of a dotted name gives whatever it is given; empty if none is known.

        Functions of torch that go into the graph, those of numpy, those that Dynamo has a handler for and methods of
        Python's types were tried with arguments that may not have suited them: of these only what it skips counts.
        """
        if name.endswith("()"):
            known = self.tables.decorator_of(K.public_name(name.removesuffix("()")))
            return known.gb_id if known is not None else ""
        call = self.tables.call_of(name)
        if call is None or not call.breaks or call.rule in ("special", "polyfill"):
            return ""
        if name.partition(".")[0] in OF_PYTHON:
            return ""
        if name.startswith("numpy."):
            return call.gb_id if call.gb_id == "GB0294" else ""
        if name.startswith("torch."):
            return call.gb_id if (call.rule, call.gb_id) == ("skip", "GB0007") else ""
        return call.gb_id

    def is_method_of_tensor(self, name: str) -> bool:
        """Whether a tensor has such a method; of private ones nobody keeps a list."""
        dotted = f"torch.Tensor.{name}"
        return (
            name.startswith("_")
            or self.tables.call_of(dotted) is not None
            or self.tables.tensor_attribute(name) is not None
            or bool(self.tables.forms_of(dotted))
        )

    def context_of(self, name: str, *, made_before: bool = False) -> Context | None:
        """What Dynamo makes of a `with` over what a dotted name gives; `made_before`: ahead of the compiled call."""
        known = self.tables.context_of(K.public_name(name))
        if made_before and known is not None and known.made_before:
            return replace(known, gb_id=known.made_before, inside="whole")
        return known

    def decorated(self, name: str, function: Value) -> Value:
        """What a function is, to a call of it, that an external name decorates."""
        known = self.tables.decorator_of(K.public_name(name))
        if name.startswith(FOLLOWED_BY_NOBODY) or (known is not None and known.body in ("opaque", "eager")):
            return External(f"{name}()")
        if known is not None and known.gb_id and isinstance(function, Function):
            return replace(function, breaks=name)
        return function

    def manager(self, name: str, args: tuple[Value, ...]) -> Value | None:
        """What is made by calling a context manager, or a decorator of torch; None if the name stands for neither."""
        known = self.tables.decorator_of(K.public_name(name)) if name.startswith("torch.") else None
        if known is not None and args and isinstance(args[0], (Function, Instance)):
            return self.decorated(name, args[0])
        if known is not None or self.context_of(name) is not None:
            return ExternalInstance(name)
        return None

    def better(
        self, operation: str, args: tuple[Value, ...], keywords: Mapping[str, Value], known: Value | None
    ) -> Value | None:
        """What a call gives: as the tables tell it, else what is `known` of it otherwise."""
        if K.has_own_words(operation):
            return known
        told = self.value(operation, args, keywords)
        if told is None or (isinstance(told, Tensor) and told.dtype is None and isinstance(known, Tensor)):
            return known
        return told

    def value(self, operation: str, args: tuple[Value, ...], keywords: Mapping[str, Value]) -> Value | None:
        """The value of a call; None if the tables do not tell it."""
        results = self.results(operation, args, keywords)
        if not results:
            return None
        # a function of torch takes tensors alone; who has such a method may be something else
        sure = not operation.startswith("torch.Tensor.") or all(t.sure for v in args[:1] for t in _tensors(v))
        values = [_value(result, args, keywords, sure) for result in results]
        known = [value for value in values if value is not None]
        return join(*known) if len(known) == len(values) else None


def argument_of(value: Value) -> Argument:
    """A value as the tables ask for arguments."""
    found = {_argument(option) for option in options(value)}
    if len(found) == 1:
        return found.pop()
    kinds = {each.kind for each in found}
    return Argument(kinds.pop() if len(kinds) == 1 else "?")


def _argument(value: Value) -> Argument:
    if isinstance(value, Tensor):
        return Argument("T")
    if value == NONE:
        return Argument("N")
    if isinstance(value, Const):
        return Argument(LETTERS.get(type(value.value).__name__, "?"), value.value)
    if isinstance(value, Plain):
        kind = value.kind or ("int" if value.origin == "shape" else "")
        return Argument(LETTERS.get(kind, "?"))
    if isinstance(value, External) and K.dtype_of(value) and value.name.startswith("torch."):
        return Argument("d")
    if isinstance(value, Sequence):
        members = {argument_of(member).kind for member in members_of(value)}
        if members and members <= {"i", "b"}:
            return Argument("I")
        return Argument("L" if members == {"T"} else "?")
    return Argument("?")


def _value(
    result: Result, args: tuple[Value, ...], keywords: Mapping[str, Value], sure: bool
) -> Value | None:
    tensors = [tensor for value in (*args, *keywords.values()) for tensor in _tensors(value)]
    members = [_member(result, member, tensors, keywords, sure) for member in result.members]
    if any(isinstance(member, Unknown) for member in members) or not members:
        return None
    if not result.container:
        return None if result.varies else members[0]
    if result.varies:
        return Sequence("list" if result.container == "list" else "tuple", None, members[0])
    return Sequence("list" if result.container == "list" else "tuple", tuple(members), UNKNOWN)


def _tensors(value: Value) -> Iterable[Tensor]:
    found = tensor_of(value)
    if found is not None:
        yield found
    elif isinstance(value, Sequence):
        yield from (tensor for member in members_of(value) if (tensor := tensor_of(member)))


def _member(
    result: Result, member: Member, tensors: list[Tensor], keywords: Mapping[str, Value], sure: bool
) -> Value:
    if member.kind == "tensor":
        return Tensor(_dtype(result, member, tensors, keywords), sure)
    if member.kind == "number":
        kind = _dtype(result, member, tensors, keywords)
        return Plain(kind, "tensor" if result.needs_data else "config")
    if member.kind == "Size":
        return K.SHAPE
    if member.kind == "None":
        return NONE
    if member.kind in ("dtype", "device", "layout", "str", "bool", "int", "float"):
        return Plain(member.kind)
    return UNKNOWN


def _dtype(
    result: Result, member: Member, tensors: list[Tensor], keywords: Mapping[str, Value]
) -> DType | None:
    """The data type of a result; None if it is not known, or complex."""
    asked = keywords.get("dtype")
    if result.takes_dtype and asked is not None and asked != NONE:
        return K.dtype_of(asked)
    leading = tensors[result.leading] if result.leading < len(tensors) else None
    if leading is None:
        found = member.dtype(without_tensor=not tensors)
    else:
        if result.promotes and len({tensor.dtype for tensor in tensors}) > 1:
            return None
        found = member.dtype(leading.dtype)
    return None if found == "complex" else found
