"""What the static pass knows of a Python value: the lattice used for inference.

Unknown is not a tensor: no rule may treat it as one.
"""

from __future__ import annotations

import ast
from dataclasses import field, replace
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast, get_args

from tcready.schema.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tcready.static.frontend.index import ClassInfo, FunctionInfo, ModuleInfo

NumberKind = Literal["bool", "int", "float"]
FloatType = Literal["float32", "float16", "bfloat16", "float64"]
FLOATS: tuple[FloatType, ...] = get_args(FloatType)
"""The distinguished floating types; the first is the one that a model computes in by default."""
DType = Literal["bool", "int", "float", "float32", "float16", "bfloat16", "float64", "floating"]
"""The data type of a tensor. `float`: the type that the model computes in, as its parameters and its floating inputs do;
`float32` and the other three: exactly that type, whatever the model computes in; `floating`: any floating type."""
FLOATING: frozenset[DType] = frozenset({"float", "floating", *FLOATS})
Kind = Literal["list", "tuple", "set", "range", "iterator", "view", "keys"]
"""`range`: counted numbers, also by `itertools.count`; `view`: of a dict's contents, `keys`: of its keys alone."""
LAZY: frozenset[Kind] = frozenset({"iterator", "view", "keys"})
"""Kinds that produce their members on demand; a `range` is as good as the numbers themselves."""
Origin = Literal["constant", "config", "call", "shape", "random", "drawn", "tensor"]
"""From the weakest: of joined numbers, the strongest origin applies."""
ORIGINS: tuple[Origin, ...] = get_args(Origin)
DATA: tuple[Origin, ...] = ("tensor", "drawn", "random", "shape")
"""Origins that the author's configuration does not decide; a number made of several has the first of theirs."""


Layout = Literal["", "empty", "non-contiguous"]
"""The memory layout of a tensor: it has no elements, or they are not contiguous; "" if unknown."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor; `sure` is False if only a convention says so (an unannotated parameter of `forward`)."""

    dtype: DType | None = None
    sure: bool = True
    leaf: bool = False
    """A parameter or buffer of a module."""
    graph_input: bool = False
    """An input of the compiled function: small integers may be guarded by value."""
    buffer: bool = False
    """Made by `nn.Buffer`."""
    subclass: ClassInfo | None = None
    """The user-defined class; None for torch's, and if unknown."""
    sparse: bool = False
    """It has a sparse layout, which no graph accepts; False if unknown."""
    rank: int | None = None
    """Its number of dimensions, up to five; None if unknown or above."""
    parameter: bool = False
    """An nn.Parameter; False if unknown."""
    from_python_scalar: bool = False
    """One element, made from Python numbers alone while tracing: Dynamo keeps its value."""
    layout: Layout = ""


@dataclass(frozen=True, slots=True, eq=False)
class Const:
    """A Python constant with a value that the source decides; `1`, `1.0` and `True` are three."""

    value: bool | int | float | complex | str | bytes | EllipsisType | None
    member: str = ""
    """The name of the enum member that this value represents; it is no part of the constant's identity."""
    enum: Class | None = None
    """The enum, if it is a member of one."""

    @property
    def opaque(self) -> bool:
        """Return whether it is a member of an enum that is no number and no string: it is true, and equal to itself
        alone."""
        return self.enum is not None and all(
            ast.unparse(base).rpartition(".")[2] == "Enum" for base in self.enum.info.node.bases
        )

    def defines(self, method: str) -> bool:
        """Return whether it is a member of an enum that defines a method."""
        return self.enum is not None and method in self.enum.info.functions

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Const):
            return NotImplemented
        return type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


@dataclass(frozen=True, slots=True)
class Plain:
    """A Python value that is no tensor: `kind` is the name of its type if known, `origin` its source.

    `constant`: one of several in the source.
    `tensor`: a number read from a tensor (`.item()`); `shape`: from sizes; `config`: from arguments of
    `__init__`, configuration or module state; `random`: from Python's or numpy's generator; `drawn`: the same, by a
    call that Dynamo captures, so that the number is symbolic; `call`: from how the function is called (whether an
    argument is None, of which class it is).
    """

    kind: str | None = None
    origin: Origin = "config"
    size: bool = False
    """A size of a tensor, unchanged: a usual call passes no tensor without members."""
    types: tuple[FloatType, ...] = ()
    """For a data type, or its limits (`finfo`): the types that the model may compute in, the usual one first. For a truth
    value: the types in which it is true. Empty if the type does not decide it."""
    limit: str = ""
    """The attribute of `torch.finfo` with this number, if it is a limit of one of `types`."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list, tuple or set: `items` if the length is known, else None with `element` for every member."""

    kind: Kind
    items: tuple[Value, ...] | None
    element: Value
    escaping: bool = False
    """Held by a module, a global or an enclosing function, so that changing it is a side effect."""
    constant: bool = False
    """The result of a string method while Dynamo traces: a constant to it, list or not."""
    depth: int = field(init=False, compare=False, repr=False)
    """The nesting of containers from here down; beyond MAX_NESTING the members are unknown."""
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        depth = 1 + max(map(_depth, self.items or (self.element,)))
        if depth > MAX_NESTING:
            depth = 1
            object.__setattr__(self, "items", None)
            object.__setattr__(self, "element", UNKNOWN)
        object.__setattr__(self, "depth", depth)
        object.__setattr__(self, "_hash", hash((self.kind, self.items, self.element, self.escaping, self.constant)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class Mapping:
    """A dict: `entries` by `key_of` of their keys; `element` is any other value, None if there is none."""

    entries: tuple[tuple[object, Value], ...]
    element: Value | None
    escaping: bool = False
    extra: bool = False
    """Its further entries are not passed as a rule: the `**kwargs` of a function."""
    depth: int = field(init=False, compare=False, repr=False)
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        depth = 1 + max((_depth(v) for _, v in self.entries), default=0)
        depth = max(depth, 1 + _depth(self.element)) if self.element is not None else depth
        if depth > MAX_NESTING:
            depth = 1
            object.__setattr__(self, "entries", ())
            object.__setattr__(self, "element", UNKNOWN)
        object.__setattr__(self, "depth", depth)
        object.__setattr__(self, "_hash", hash((self.entries, self.element, self.escaping, self.extra)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class Instance:
    """An object of a class with source; its attributes are in the interpreter's heap."""

    ident: int
    cls: ClassInfo


@dataclass(frozen=True, slots=True)
class External:
    """A name of a package that is not read: `torch.nn.functional.relu`, `print`, `numpy.mean`."""

    name: str


@dataclass(frozen=True, slots=True)
class ExternalInstance:
    """An object made by calling an external name: `torch.nn.Linear`, `logging.Logger`."""

    name: str
    ident: int = 0
    """Distinguishes module instances; 0 if it does not matter."""


@dataclass(frozen=True, slots=True)
class Class:
    """A class with source."""

    info: ClassInfo
    closure: int = 0
    """The key of its enclosing scope, as a Function's."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function with source, bound or not."""

    info: FunctionInfo
    bound: Value | None = None
    closure: int = 0
    """Key of the enclosing scope in the interpreter, 0 for none."""
    given: tuple[tuple[str | int, Value], ...] = ()
    """Arguments that `functools.partial` filled in, by position or name."""
    breaks: str = ""
    """The decorator that makes Dynamo break at a call of the function, and compile it by itself."""
    constant: bool = False
    """Dynamo calls it while tracing and treats the result as a constant: nothing in it is traced."""

    def bound_to(self, owner: Value | None) -> Function:
        """Return the function as a method of `owner`."""
        return Function(self.info, owner, self.closure, self.given, self.breaks, self.constant)


@dataclass(frozen=True, slots=True)
class Partial:
    """`functools.partial` of a callable without source: a class, an external name, an object."""

    function: Value
    given: tuple[tuple[str | int, Value], ...]
    """As a Function's."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a value without source: `x.sum`, `logger.info`, `items.append`."""

    receiver: Value
    name: str


@dataclass(frozen=True, slots=True)
class Module:
    """A Python module with source."""

    info: ModuleInfo


@dataclass(frozen=True, slots=True)
class Super:
    """`super()`: the members of `instance` that come after `after` in its method resolution order."""

    instance: Value
    after: ClassInfo


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several values; never nested, never of one."""

    options: tuple[Value, ...]
    likely: int = 0
    """The number of first options that are most likely (a default); 0: all are equal."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Anything. `tainted`: the result of an unresolved call with tensors as arguments."""

    tainted: bool = False
    alone: bool = False
    """It represents more values than are distinguished: a join keeps no other option beside it."""


Value: TypeAlias = (
    Tensor
    | Const
    | Plain
    | Sequence
    | Mapping
    | Instance
    | External
    | ExternalInstance
    | Class
    | Function
    | Partial
    | Method
    | Module
    | Super
    | Choice
    | Unknown
)

NONE = Const(None)
UNKNOWN = Unknown()
TAINTED = Unknown(tainted=True)
MAX_OPTIONS = 8
"""Alternatives of one value; with more it is unknown."""
MAX_ENTRIES = 64
"""The entries of a mapping that a view of it distinguishes."""
UNROLL = 8
"""Known members of a sequence that inference distinguishes when a `for` iterates over them."""
MAX_ITEMS = 32
"""Longer literal sequences have only a joined element."""
MAX_PLACES = 16
"""Longer sequences of known length lose their places when they are joined with another."""
MAX_NESTING = 6
"""The nesting of containers: a program that wraps a value in a loop or by recursion has no deepest one, and every
comparison visits all of it."""
WHOLE = frozenset({Plain, Tensor, Mapping, Unknown})
"""Classes of which all values join to one."""


def _depth(value: Value) -> int:
    if isinstance(value, (Sequence, Mapping)):
        return value.depth
    if isinstance(value, Choice):
        return max(map(_depth, value.options))
    if isinstance(value, Partial):
        return 1 + max(map(_depth, (value.function, *(v for _, v in value.given))))
    return 0


def partial_of(function: Value, given: tuple[tuple[str | int, Value], ...]) -> Value:
    """Return a callable with bound arguments; UNKNOWN if it nests others so deeply that only a loop does it."""
    made = Partial(function, given)
    return UNKNOWN if _depth(made) > MAX_NESTING else made


def is_key(value: Value) -> bool:
    """Return whether the source decides which entry of a dict it selects: a constant, a class, a named function, or a
    tuple of such."""
    if isinstance(value, Sequence):
        return value.kind == "tuple" and value.items is not None and all(map(is_key, value.items))
    return isinstance(value, (Const, Class, External)) or (isinstance(value, Function) and value.bound is None)


def key_of(value: Value) -> object:
    """Return the key under which a dict stores the entry of a known key."""
    if isinstance(value, Sequence):
        return Sequence(value.kind, value.items, UNKNOWN)
    return value.value if isinstance(value, Const) else value


def value_of_key(key: object) -> Value:
    """Return the key value for a stored key of a dict."""
    return key if isinstance(key, (Class, External, Function, Sequence)) else Const(cast("Any", key))


def options(value: Value) -> tuple[Value, ...]:
    """Return the alternatives of a value: itself alone unless it is a Choice."""
    return value.options if isinstance(value, Choice) else (value,)


def join(*values: Value) -> Value:
    """Return what is known of a value that is one of `values`."""
    if len(values) == 1:
        return values[0]
    preferred = same = bool(values)
    for value in values:
        if type(value) is Choice:
            if value.likely:
                break
            same = False
        elif same and value is not values[0] and value != values[0]:
            same = False
    else:
        preferred = False
    if same and not preferred:
        return values[0]
    if preferred:
        return prefer(join(*map(likely, values)), _union(option for value in values for option in options(value)))
    return _union(values)


def _union(values: Iterable[Value]) -> Value:
    """Return the join of values without a preferred one: one alternative of each sort (`_sort`)."""
    found: dict[object, Value] = {}
    for value in values:
        for option in value.options if type(value) is Choice else (value,):
            sort = _sort(option)
            known = found.get(sort)
            if known is None:
                found[sort] = option
            elif known is not option:
                found[sort] = _merge_options(known, option)
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        return UNKNOWN
    for kind in [key[1] for key in found if isinstance(key, tuple) and key[2] is None]:
        _shorten(found, kind)
    unknown = found.get(Unknown)
    if len(found) > MAX_OPTIONS or (isinstance(unknown, Unknown) and unknown.alone):
        return Unknown(isinstance(unknown, Unknown) and unknown.tainted, alone=True)
    return Choice(tuple(found.values())) if len(found) > 1 else next(iter(found.values()))


def _sort(value: Value) -> object:
    """Return the sort of a value: values of one sort join to one value, those of different sorts stay separate."""
    kind = type(value)
    if isinstance(value, Tensor) and value.subclass is not None:
        return Tensor, value.subclass, ""
    if kind in WHOLE:
        return kind
    if isinstance(value, Const):
        return value if value.value is None else Plain
    if isinstance(value, Sequence):
        # what a function returns with and without an extra: tuples of different lengths keep their places
        return (Sequence, value.kind, len(value.items) if value.items is not None and value.kind == "tuple" else None)
    return value


def _shorten(found: dict[object, Value], kind: str) -> None:
    """Return a sequence of unknown length without the alternatives of known length that it covers."""
    whole: tuple[object, ...] = (Sequence, kind, None)
    for sort in [key for key in found if isinstance(key, tuple) and key[1] == kind and key != whole]:
        found[whole] = _merge_options(found[whole], found.pop(sort))


def prefer(first: Value, other: Value) -> Value:
    """Return a value that is most likely `first`, else `other`."""
    chosen = options(likely(first))
    rest = tuple(v for v in options(_union((*options(first), *options(other)))) if v not in chosen)
    if len(chosen) + len(rest) > MAX_OPTIONS:
        rest = (Unknown(alone=True),)
    return Choice((*chosen, *rest), len(chosen)) if rest else likely(first)


def likely(value: Value) -> Value:
    """Return the most likely value: with the defaults of parameters and of configuration."""
    if not isinstance(value, Choice) or not value.likely:
        return value
    return value.options[0] if value.likely == 1 else Choice(value.options[: value.likely])


def whole(value: Value) -> Value:
    """Return everything a value may be, with nothing preferred."""
    return _union(options(value)) if isinstance(value, Choice) and value.likely else value


def lift(apply: Callable[..., Value], *values: Value) -> Value:
    """Return `apply(*values)`, its result for the likely values first."""
    for value in values:
        if type(value) is Choice and value.likely:
            break
    else:
        return apply(*values)
    result = apply(*map(whole, values))
    guess = apply(*map(likely, values))
    return result if guess == result else prefer(guess, result)


def brought_in(value: Value) -> Value:
    """Return a tensor of one number from before the trace: it is an input, an integer with its value (measured: a
    fraction is read where torch takes a number)."""
    if not any(isinstance(option, Tensor) and _is_number(option) for option in options(value)):
        return value
    if isinstance(value, Choice):
        return lift(lambda each: join(*map(brought_in, options(each))), value)
    assert isinstance(value, Tensor)
    return replace(value, from_python_scalar=False, graph_input=value.dtype not in FLOATING)


def number_kind(dtype: DType | None) -> NumberKind | None:
    """Return the kind of number of a tensor, of any precision."""
    if dtype == "bool" or dtype == "int" or dtype is None:
        return dtype
    return "float"


def join_dtypes(one: DType | None, other: DType | None) -> DType | None:
    """Return the type of a tensor that is of one of two types."""
    if one == other:
        return one
    return "floating" if one in FLOATING and other in FLOATING else None


def promote_dtypes(one: DType | None, other: DType | None) -> DType | None:
    """Return the type to which tensors of two types are promoted, neither being a single number."""
    if one == other or one not in FLOATING or other not in FLOATING:
        return one if one == other else None
    both = {one, other}
    if "float64" in both:
        return "float64"
    if "floating" in both or ("float" in both and "float32" not in both):
        return "floating"
    return "float32"


def _is_number(tensor: Tensor) -> bool:
    whole = tensor.rank == 0 and tensor.dtype in ("int", None)
    return tensor.from_python_scalar or (whole and not tensor.leaf and not tensor.graph_input)


def keep(value: Value, wanted: Callable[[Value], bool]) -> Value:
    """Return the alternatives of `value` for which `wanted` holds; unknown if there is none."""
    if not isinstance(value, Choice):
        return value if wanted(value) else UNKNOWN
    rest = [v for v in value.options if wanted(v)]
    if not rest:
        return UNKNOWN
    if len(rest) == len(value.options):
        return value
    first = [v for v in options(likely(value)) if wanted(v)]
    return prefer(join(*first), join(*rest)) if first else join(*rest)


def _merge_options(a: Value, b: Value) -> Value:
    """Return the join of two values of one sort."""
    if a == b:
        return a
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return Tensor(
            join_dtypes(a.dtype, b.dtype),
            a.sure and b.sure,
            a.leaf and b.leaf,
            a.graph_input and b.graph_input,
            subclass=a.subclass if a.subclass is b.subclass else None,
            sparse=a.sparse and b.sparse,
            rank=a.rank if a.rank == b.rank else None,
            parameter=a.parameter and b.parameter,
            from_python_scalar=a.from_python_scalar and b.from_python_scalar,
            layout=a.layout if a.layout == b.layout else "",
        )
    if isinstance(a, Unknown) and isinstance(b, Unknown):
        return Unknown(a.tainted or b.tainted, a.alone or b.alone)
    if isinstance(a, Sequence) and isinstance(b, Sequence):
        return _merged_sequences(a, b)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return _merged_mappings(a, b)
    one, other = _as_plain(a), _as_plain(b)
    return Plain(
        one.kind if one.kind == other.kind else None,
        max(one.origin, other.origin, key=ORIGINS.index),
        one.size and other.size,
        one.types if one.types == other.types else (),
        one.limit if one.limit == other.limit else "",
    )


def _as_plain(value: Value) -> Plain:
    if isinstance(value, Const):
        return Plain(type(value.value).__name__, "constant")
    assert isinstance(value, Plain)
    return value


def _merged_sequences(a: Sequence, b: Sequence) -> Sequence:
    escaping, constant = a.escaping or b.escaping, a.constant and b.constant
    if a.items is not None and b.items is not None and len(a.items) == len(b.items) <= MAX_PLACES:
        return Sequence(a.kind, tuple(map(join, a.items, b.items)), UNKNOWN, escaping, constant)
    members = (*members_of(a), *members_of(b))
    return Sequence(a.kind, None, join_members(*members) if members else UNKNOWN, escaping, constant)


def _merged_mappings(a: Mapping, b: Mapping) -> Mapping:
    entries: dict[object, Value] = dict(a.entries)
    for key, value in b.entries:
        entries[key] = join(entries[key], value) if key in entries else value
    rest = [v for v in (a.element, b.element) if v is not None]
    return Mapping(
        tuple(entries.items()), join_members(*rest) if rest else None, a.escaping or b.escaping, a.extra and b.extra
    )


def one_of(values: Iterable[Value]) -> Value:
    """Return the result of a look-up with an unknown key: unknown if tensors and others mix."""
    found = list(values)
    tensors = sum(any(isinstance(v, Tensor) for v in options(value)) for value in found)
    if 0 < tensors < len(found):
        return TAINTED
    return join(*found) if found else UNKNOWN


def join_members(*values: Value) -> Value:
    """Return the join of the members of a container. If there are more objects than a value has alternatives, one of each
    class represents all: members of one container are alike."""
    found = join(*values)
    if not (isinstance(found, Unknown) and found.alone):
        return found
    each = [option for value in values for option in options(value)]
    if any(isinstance(option, Unknown) for option in each):
        return found
    kinds: dict[object, Value] = {}
    for option in each:
        kinds.setdefault(_class_of(option), option)
    return join(*kinds.values())


def _class_of(value: Value) -> object:
    if isinstance(value, Instance):
        return value.cls
    return (ExternalInstance, value.name) if isinstance(value, ExternalInstance) else value


def members_of(value: Sequence) -> tuple[Value, ...]:
    """Return every value that may come out of iterating over a sequence."""
    return value.items if value.items is not None else (value.element,)


def tensor_of(value: Value) -> Tensor | None:
    """Return the tensor a value is, or surely may be: a Choice with one tensor among non-tensors counts."""
    if not isinstance(value, Choice):
        return value if isinstance(value, Tensor) else None
    found = [v for v in value.options if isinstance(v, Tensor)]
    if not found:
        return None
    merged: Value = found[0]
    for other in found[1:]:
        merged = _merge_options(merged, other)
    assert isinstance(merged, Tensor)
    return merged


def is_compared_by_members(value: Value) -> bool:
    """Return whether it is a list, a tuple, a set or a dict."""
    return isinstance(value, Mapping) or (isinstance(value, Sequence) and value.kind in ("list", "tuple", "set"))


def is_word(value: Value) -> bool:
    """Return whether it is any string."""
    return all(
        (isinstance(v, Const) and isinstance(v.value, str)) or (isinstance(v, Plain) and v.kind == "str")
        for v in options(value)
    )


def tensors_in(value: Value) -> Iterator[Tensor]:
    """Return the tensor that a value is, or those in a sequence."""
    found = tensor_of(value)
    if found is not None:
        yield found
    elif isinstance(value, Sequence):
        yield from (tensor for member in members_of(value) if (tensor := tensor_of(member)))


def is_sparse(value: Value) -> bool:
    """Return whether it is a tensor of a sparse layout, if it is a tensor at all."""
    tensor = tensor_of(value)
    return tensor is not None and tensor.sparse


def is_place(value: Value) -> bool:
    """Return whether it is a computed tensor of one integer, alone or in a row with others: as an index, its value is
    read. A tensor of a module is an input."""
    if isinstance(value, Sequence) and value.kind in ("list", "tuple"):
        return any(isinstance(member, Tensor) and is_place(member) for member in members_of(value))
    return (
        isinstance(value, Tensor) and (value.rank, value.dtype) == (0, "int") and not (value.graph_input or value.leaf)
    )


def is_captured(value: Value) -> bool:
    """Return whether it is a number that Dynamo draws anew in each call."""
    return isinstance(value, Plain) and value.origin == "drawn"


def is_surely_tensor(value: Value) -> bool:
    """Return whether every alternative is a tensor."""
    return all(isinstance(v, Tensor) for v in options(value))


def is_answer(value: Value) -> bool:
    """Return whether it is True or False, known or not."""
    return isinstance(value, Const) and type(value.value) is bool


def is_flag(value: Value) -> bool:
    """Return whether it is a bool that the source does not decide."""
    return isinstance(value, Plain) and value.kind == "bool"


def is_member(value: Value) -> bool:
    """Return whether it is any member of an enum."""
    return all(isinstance(v, Const) and v.enum is not None for v in options(value))


def is_member_of(container: Value) -> bool:
    """Return whether it is a row of enum members only."""
    return isinstance(container, Sequence) and bool(container.items) and all(map(is_member, container.items or ()))


def holds_number(members: Value) -> bool:
    """Return whether it is an enum member that is also a number, or a row with one."""
    return any(
        isinstance(v, Const) and not v.opaque and isinstance(v.value, (int, float))
        for v in (members_of(members) if isinstance(members, Sequence) else options(members))
    )


def is_surely_mask(value: Value) -> bool:
    """Return whether every alternative is known to be a tensor of booleans."""
    return all(isinstance(v, Tensor) and v.sure and v.dtype == "bool" for v in options(value))


def holds_tensor(value: Value, depth: int = 3) -> bool:
    """Return whether it is a tensor, or a container with one in it."""
    for v in options(value):
        if isinstance(v, Tensor):
            return True
        if depth and isinstance(v, Sequence) and any(holds_tensor(m, depth - 1) for m in members_of(v)):
            return True
        if depth and isinstance(v, Mapping):
            inner: Iterable[Value] = [e for _, e in v.entries] + ([v.element] if v.element is not None else [])
            if any(holds_tensor(m, depth - 1) for m in inner):
                return True
    return False


def comes_of_tensors(value: Value) -> bool:
    """Return whether it holds a tensor, or is an unknown result of tensors."""
    return holds_tensor(value) or TAINTED in options(value)


def number_from_tensor(value: Value) -> bool:
    """Return whether it is a Python number that was read from a tensor."""
    return any(isinstance(v, Plain) and v.origin == "tensor" for v in options(value))


def is_none(value: Value) -> bool:
    return type(value) is Const and value.value is None


def without_none(value: Value) -> Value:
    """Return the value after `is not None`."""
    return keep(value, lambda v: not (isinstance(v, Const) and v.value is None))


class Answer(NamedTuple):
    """The result of a test: `decided` for certain, or only the most `likely` one."""

    decided: bool | None
    likely: bool | None
    types: tuple[FloatType, ...] = ()
    """The types in which it may differ from `likely`, if it depends on nothing but the type that the model computes
    in."""

    def __invert__(self) -> Answer:
        decided, usual = (None if part is None else not part for part in self[:2])
        return Answer(decided, usual, self.types)


def combine_answers(answers: Iterable[bool | None], decides: bool) -> bool | None:
    """Return `any` or `all` of answers; one member that is `decides` is enough."""
    found = {*answers}
    if decides in found:
        return decides
    return None if None in found else not decides


def may_change(value: Value) -> bool:
    """Return whether an object that outlives the call holds a row or a dict: items may be added to it before."""
    is_tuple = isinstance(value, Sequence) and value.kind == "tuple"
    return isinstance(value, (Sequence, Mapping)) and value.escaping and not is_tuple


def common_answer(answers: set[bool | None]) -> Value:
    """Return the common answer of all alternatives, else an undecided one."""
    (answer,) = answers if len(answers) == 1 else (None,)
    return Plain("bool", "call") if answer is None else Const(answer)


def join_answers(answers: Iterable[Value]) -> Value:
    """Return what a question has as its answer for any of several values; usual is what all of them usually are."""
    found = [*answers]
    usual, *others = {*map(likely, found)}
    made = join(*map(whole, found))
    return made if others else prefer(usual, made)


def truth(value: Value) -> bool | None:
    """`bool(value)` if the source decides it, else None."""
    answers = {_truth(v) for v in options(value)}
    return answers.pop() if len(answers) == 1 else None


def _truth(value: Value) -> bool | None:
    if isinstance(value, Const):
        if value.defines("__bool__"):
            return None
        return value.opaque or bool(value.value)
    if isinstance(value, Sequence) and value.items is not None and not value.escaping:
        return bool(value.items)
    if isinstance(value, Mapping) and value.element is None and not value.escaping:
        return bool(value.entries)
    if is_open(value):
        return None
    if isinstance(value, (Class, Function, Partial, Method, Module, External)):
        return True
    return None


def is_open(value: Value) -> bool:
    """Return whether it is an attribute from another package, or one set on a class: a method, or anything else."""
    return isinstance(value, Method) and isinstance(value.receiver, (Instance, ExternalInstance, Unknown))


def without_falsy(value: Value) -> Value:
    """Return the value after a test that it is true."""
    return keep(value, lambda v: not (isinstance(v, Const) and _truth(v) is False))


def truth_value(answer: Answer) -> Value:
    if answer.decided is not None:
        return Const(answer.decided)
    return Plain("bool") if answer.likely is None else prefer(Const(answer.likely), Plain("bool"))


def escaped(value: Value) -> Value:
    """Return the value as read from an object that outlives the call."""
    if isinstance(value, Sequence) and not value.escaping:
        return replace(_escape_iterators(value), escaping=True)
    if isinstance(value, Mapping) and not value.escaping:
        return Mapping(value.entries, value.element, True)
    return value


def _escape_iterators(value: Sequence) -> Sequence:
    """Mark iterators in a list or a tuple that outlives the call: they outlive it too."""
    if not any(isinstance(member, Sequence) for member in members_of(value)):
        return value
    items = None if value.items is None else tuple(map(_hold_in_sequence, value.items))
    return replace(value, items=items, element=_hold_in_sequence(value.element))


def _hold_in_sequence(value: Value) -> Value:
    if isinstance(value, Sequence) and value.kind in LAZY:
        return escaped(value)
    return _escape_iterators(value) if isinstance(value, Sequence) and value.kind == "tuple" else value


def widen(value: Value) -> Value:
    """Return the value without details that differ between calls."""
    if isinstance(value, Const) and value.value is not None:
        return Plain(type(value.value).__name__, "constant")
    if isinstance(value, Sequence):
        return Sequence(
            value.kind,
            None,
            join(*(widen(m) for m in members_of(value))) if members_of(value) else UNKNOWN,
            value.escaping,
            value.constant,
        )
    if isinstance(value, Mapping):
        values = [widen(v) for _, v in value.entries] + ([value.element] if value.element is not None else [])
        return Mapping((), join(*values) if values else None, value.escaping)
    return value
