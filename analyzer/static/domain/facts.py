"""Facts that the engine establishes at one place, for rules to query. All frozen; no traversal state.

A fact is emitted once for each distinct set of values that reaches its place, so a rule judges one situation at a time
and never joins.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import field
from types import MappingProxyType
from typing import Literal, TypeAlias

from tcready.schema.enums import Confidence
from tcready.schema.value_class import dataclass
from tcready.static.domain.values import UNKNOWN, External, FloatType, Value, options
from tcready.static.library.torch_tables import ContextEntry
from tcready.static.library.torch_versions import Version

Enclosing = Literal["for", "while", "try", "with", "comprehension", "function", "iterator", "checkpoint"]
"""`function`: a comprehension that Dynamo compiles by itself if the code around it runs eagerly: a function of its own to
Python, with something of torch in it; `iterator`: a generator expression, or a comprehension over a value that Dynamo
cannot pass on across a break; `checkpoint`: a call that `torch.utils.checkpoint` makes."""
INLINED = (3, 12)
"""The Python version from which a comprehension is part of its enclosing function."""


DecidedBy = Literal["argument", "configuration", "unknown", "size", "data"]
"""The origin of a test's result if the source does not decide it, from the weakest: the call's arguments, the object's
configuration, unknown, the size of a tensor, the values in one."""


DECIDED_OUTSIDE: tuple[DecidedBy, ...] = ("argument", "configuration", "unknown")
"""Origins that depend on the setup, not on computed values."""
LEAKED_FLAG = "GB8985"
"""The break of a tensor made in the graph that leaves it with the flag that `requires_grad_()` gave it."""

Asker: TypeAlias = "ast.If | ast.While | ast.Assert | ast.IfExp"
"""The statement that evaluates the truth of its test."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition for a place to be reached: a test that the source does not decide."""

    test: str
    """Its text on one line."""
    holds: bool
    decided_by: DecidedBy
    usual: bool | None
    """Whether that is the most likely result; None if nothing decides it."""
    types: tuple[FloatType, ...] = ()
    """The types in which it holds, if it depends on nothing but the type that the model computes in."""


def undecided(conditions: Iterable[Condition]) -> frozenset[Condition]:
    """Return the conditions without a usual result. Those decided by a tensor do not count: Dynamo breaks there, and
    resumes in either branch."""
    return frozenset(c for c in conditions if c.usual is None and c.decided_by != "data")


@dataclass(frozen=True, slots=True)
class Where:
    """The function and the situation of a fact."""

    path: str
    """The file, absolute."""
    symbol: str
    """Dotted name inside the module: `Model.forward`."""
    context: int
    """Node of the call graph: this function under these arguments."""
    enclosing: tuple[Enclosing, ...] = ()
    """Statements of the same function around the place that decide the effect of a break on the frame; outermost first.
    Loops that the source shows to be unrolled count too: a break in them skips the frame all the same."""
    confidence: Confidence = "high"
    """The confidence that this code runs at all: `low` below a call with several candidates."""
    conditional: bool = False
    """Inside a branch taken by a Python value that the source does not decide."""
    conditions: tuple[Condition, ...] = ()
    """Tests of the same function that the source does not decide and that must have this result; outermost first."""
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.context, self.path, self.enclosing, self.conditions)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class Test:
    """Python evaluates the truth of `value`. Operands of `and`/`or`/`not` carry the kind of the enclosing test: `if a and
    b` gives two tests of kind `if`; outside a statement's test they are `and`, `or`, `not`, and so are all but the last
    of an `assert`, which alone is an assertion to Dynamo. `members`: two sequences are compared member by member;
    `order`: items are sorted by it; `order of parts`: it is a later member of the sorted items, and Python compares the
    first member first."""

    where: Where
    node: ast.expr
    kind: Literal[
        "if",
        "while",
        "ifexp",
        "assert",
        "assertion",
        "comprehension",
        "and",
        "or",
        "not",
        "compare",
        "match",
        "filter",
        "members",
        "order",
        "order of parts",
    ]
    value: Value
    guards: bool = False
    """In an `if` that only raises."""
    asker: Asker | None = None
    """The statement with this in its test, at its start on a line above: Python counts the branch as that line's, at
    least before 3.12."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call. `name` is the dotted external name (`torch.unique`, `print`, `logging.Logger.info`, `copy.deepcopy`) or
    None; `receiver` and `method` are set for a method of a tensor, a container or an external object (`x.item()`);
    `function` is the called value. `result` is the inferred result."""

    where: Where
    node: ast.Call
    function: Value
    name: str | None
    receiver: Value | None
    method: str | None
    args: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]
    result: Value
    numbers: tuple[Value, ...] = ()
    """Tensors passed to an operation of torch that takes a number there."""
    native: bool = False
    """The name is in a compiled extension module of an installed package."""
    gb_id: str = ""
    """The break that this torch was seen to make at such a call; empty if there is none, or if it depends on the values
    of tensors."""
    traced_since: Version | None = None
    """The first later torch that was seen to trace such a call."""
    reads: Literal["", "size", "values", "number"] = ""
    """Why an operation of torch needs the values of its tensors: for the size of its result, a tensor otherwise, or the
    number that it returns."""
    specified_by: tuple[str, ...] = ()
    """Arguments that could specify it instead."""
    parameters: Value = UNKNOWN
    """For a module of torch.nn that is made: whether it gets parameters, according to its constructor's arguments."""
    constructed: str = field(init=False, compare=False, repr=False)
    """The external name of the class or function that is called itself, "" for a method or an instance."""

    def __post_init__(self) -> None:
        names = (v.name for v in options(self.function) if isinstance(v, External))
        object.__setattr__(self, "constructed", next(names, ""))

    def keyword(self, name: str) -> Value | None:
        """Return the value given to keyword `name`, or None."""
        return next((value for key, value in self.keywords if key == name), None)


@dataclass(frozen=True, slots=True)
class Loop:
    """Iteration over `value` by `for` or a comprehension; `node` is the iterable expression."""

    where: Where
    node: ast.expr
    value: Value
    comprehension: bool


@dataclass(frozen=True, slots=True)
class Index:
    """`base[index]`; `stored` is the assigned value for a store, None for a read or `del`."""

    where: Where
    node: ast.Subscript
    base: Value
    index: Value
    parts: tuple[Value, ...]
    """The items of a tuple index, and the bounds of slices in it."""
    slices: tuple[Value, ...]
    """The bounds of slices alone."""
    mode: Literal["load", "store", "del"]
    stored: Value | None = None


@dataclass(frozen=True, slots=True)
class Store:
    """State that outlives the call is written: an attribute, a global, a name of an enclosing function, an item of a
    container held outside. `owner` is the object (attribute) or container (item)."""

    where: Where
    node: ast.expr
    kind: Literal["attribute", "global", "nonlocal", "item"]
    owner: Value | None
    name: str
    value: Value
    old: Value | None
    """The value before, None if nothing is known."""
    augmented: bool
    """`+=` and similar, or an assignment with the old value on its right side."""
    own_module: bool = False
    """The owner is an nn.Module with source."""
    source: ast.expr | None = None
    """The expression that is assigned to an attribute, if there is one."""
    read_elsewhere: bool = True
    """Whether a function of the module reads a global in another statement."""


@dataclass(frozen=True, slots=True)
class Format:
    """`value` is formatted: in an f-string when the text is used, by `%` at once."""

    where: Where
    node: ast.expr
    value: Value
    spec: str | None = None
    """The format specification of an f-string, if it has one that is known."""
    argument: bool = False
    """It is an argument of the target."""
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class With:
    """A context manager is entered; `name` is its dotted external name or None."""

    where: Where
    node: ast.expr
    value: Value
    name: str | None
    context: ContextEntry | None = None
    """How this torch handles it, as measured; None if nothing is known."""
    made_before: bool = False
    """It is an object with source that was made before the compiled call, in every alternative."""
    builtin: str = ""
    """The Python type that the object's class derives from, if Dynamo enters none of that type."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of a tensor is read, or one that an object has `by` code of Python's: `__getattr__ = dict.get` of a
    class of dicts, a cached property without a value yet."""

    where: Where
    node: ast.Attribute
    owner: Value
    name: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class Contains:
    """`item in container`."""

    where: Where
    node: ast.Compare
    item: Value
    container: Value


@dataclass(frozen=True, slots=True)
class Define:
    """A class is defined inside a function."""

    where: Where
    node: ast.ClassDef


@dataclass(frozen=True, slots=True)
class Imported:
    """A package that is not installed with torch is imported inside a function: the import raises."""

    where: Where
    node: ast.Import | ast.ImportFrom
    package: str


@dataclass(frozen=True, slots=True)
class Handler:
    """An `except` clause of a `try` that makes tensors in its body; `caught` are its classes, None for a bare one."""

    where: Where
    node: ast.expr
    caught: Value | None
    reraises: bool
    """It ends in a `raise`: eager code does not continue from here either."""


UseOfModule: TypeAlias = Literal["held", "called", "read", "inspected", "walked", "traversed"]
"""The use of a module: store it or pass it on, call it, read an attribute of it, pass it to a built-in that inspects it
(`isinstance`, `hasattr`), iterate over the parts of a module that holds it, or call a method of that module that does."""


@dataclass(frozen=True, slots=True)
class Recurrent:
    """Code uses a recurrent module of torch.nn, or an object of a derived class: it reads it from a module, uses it, or
    iterates over the parts of a module that holds one."""

    where: Where
    node: ast.expr
    value: Value
    confidence: Confidence | None
    """The confidence that the value is one; None if it can be nothing else."""
    use: UseOfModule


@dataclass(frozen=True, slots=True)
class Sparse:
    """A sparse tensor is used, or passed (`handed`) to a function with source that uses it."""

    where: Where
    node: ast.expr
    handed: bool


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """An operator between two numbers one of which Dynamo captured as it was drawn."""

    where: Where
    node: ast.BinOp


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a tensor (`data_ptr()`) is compared for equality, looked up in a dict or a set, used in arithmetic
    or in another comparison, or tested for truth."""

    where: Where
    node: ast.expr
    use: Literal["compared", "looked up", "worked with", "tested"]


@dataclass(frozen=True, slots=True)
class Initialised:
    """The constructor of a module that is made in compiled code reads it before the base's constructor has set anything,
    mostly to call that. It breaks only if Python runs the constructor, and so only if something else breaks."""

    where: Where
    node: ast.expr


@dataclass(frozen=True, slots=True)
class Alone:
    """Code that Dynamo traces as part of the surrounding code but cannot compile by itself, which it tries if Python runs
    that code: a generator expression, a generator function (the place is then in it), or a comprehension that Dynamo
    would enter, over anything but a tuple. The node is the first that Python counts to it: of a function a decorator, if
    there is one."""

    where: Where
    node: ast.expr | ast.FunctionDef | ast.AsyncFunctionDef
    by_its_own: bool = False
    """A break in the comprehension itself makes Python run it: it iterates over an iterator that the trace cannot turn
    into a tuple, as it does with a list."""
    compiled: bool = True
    """Dynamo tries to compile it if Python runs it; else it only iterates over something that the trace cannot pass on at
    a break."""
    entry: bool = False
    """It is the generator function that the user compiles."""


@dataclass(frozen=True, slots=True)
class Consumed:
    """A generator expression is passed to a function that Dynamo traces and that consumes it at once. If the call breaks,
    Python needs the generator again, and Dynamo cannot reconstruct it (measured)."""

    where: Where
    node: ast.Call
    used_up: bool = False
    """Its iterable cannot be iterated over again. If False, the reason is another: the generator holds a variable that
    nothing reads after the call, which Dynamo has dropped."""


@dataclass(frozen=True, slots=True)
class Overloaded:
    """An operator that the class of an object overloads, between that and a tensor (`other`), or `@` with anything;
    `written` as an operator, or called as a function."""

    where: Where
    node: ast.expr
    other: Value
    sure: bool
    """It can be no other operator."""
    written: bool


Use: TypeAlias = str
"""The use of a member of an enum, as named in the tables; or `attribute`, `argument`: of Dynamo's result for a comparison
of a tensor with one."""
DIFFERS = "differs"
"""The result differs from that of eager code."""
RAISES = "raises"
"""Tracing raises an error other than a break."""
OF_ANSWERS = MappingProxyType({"attribute": "GB0088", "argument": RAISES})


@dataclass(frozen=True, slots=True)
class OfMember:
    """A member of an enum is used as the number or string that it also is, and Dynamo does not do the same as Python:
    `outcome` is the id of a break, `RAISES` or `DIFFERS`."""

    where: Where
    node: ast.expr
    use: Use
    outcome: str
    sure: bool
    """It is certainly a member, in a use of that kind."""


@dataclass(frozen=True, slots=True)
class Extremum:
    """`max` or `min` with a key that gives no tensor, over `value`, which holds tensors."""

    where: Where
    node: ast.Call
    value: Value


@dataclass(frozen=True, slots=True)
class Misfit:
    """A function with source gets arguments that it does not take, inside a `try`: the call raises."""

    where: Where
    node: ast.Call
    function: Value


@dataclass(frozen=True, slots=True)
class NoMember:
    """An enum is called inside a `try` with a value of no member: the call raises."""

    where: Where
    node: ast.Call
    value: Value


@dataclass(frozen=True, slots=True)
class CheckMessage:
    """`torch._check` gets a message that Dynamo does not accept: one not made by a function of the code, or made by one
    from an object or a tensor around it."""

    where: Where
    node: ast.Call
    made: Literal["elsewhere", "of objects"]


@dataclass(frozen=True, slots=True)
class Returned:
    """The compiled function returns an object made in it that Dynamo cannot recreate: it holds a `method` of such an
    object, or a function that is the `default` of a parameter."""

    where: Where
    node: ast.expr
    holds: Literal["method", "default"]


@dataclass(frozen=True, slots=True)
class OfNew:
    """A method is called on an object that the function has made itself, or got back from `making`. If the call breaks,
    the trace cannot pass the method on, which is bound to an object nobody else knows yet."""

    where: Where
    node: ast.Call
    making: ast.expr


@dataclass(frozen=True, slots=True)
class InArguments:
    """A method of a tensor, a container or a string is looked up, and then its arguments are evaluated. If one of these
    breaks, the code compiled after the break gets the method alone, and a tensor beside it."""

    where: Where
    node: ast.Call
    above: int
    """The number of lines between the start of its statement and the call."""
    called: frozenset[str]
    """The last names of functions called in the arguments."""
    of_tensor: bool
    """It is a method of a tensor, not of a container or a string."""


@dataclass(frozen=True, slots=True)
class Unresolved:
    """An attribute that Dynamo has not looked up is used; `gives_up` means that the whole function then runs eagerly.
    `value` is the kind of attribute: `UNRESOLVED`, `OF_FUNCTION` or `OF_LOGGER` of knowledge.py."""

    where: Where
    node: ast.expr
    gives_up: bool
    value: Value


Fact: TypeAlias = (
    Test
    | Call
    | Loop
    | Index
    | Store
    | Format
    | With
    | Attribute
    | Contains
    | Define
    | Imported
    | Handler
    | Recurrent
    | Sparse
    | Arithmetic
    | Address
    | Initialised
    | Alone
    | Overloaded
    | OfMember
    | Extremum
    | Misfit
    | NoMember
    | CheckMessage
    | Returned
    | OfNew
    | Consumed
    | InArguments
    | Unresolved
)


def extent(fact: Fact) -> tuple[ast.stmt | ast.expr, ast.stmt | ast.expr]:
    """Return the first and the last line of a fact."""
    if isinstance(fact, Test) and fact.asker is not None:
        return fact.asker, fact.asker.test
    return fact.node, fact.node
