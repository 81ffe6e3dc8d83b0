"""The facts that the engine emits for rules. All frozen, without traversal state.

A fact is told once for each distinct set of values that reaches its place, so a rule judges one
situation at a time and never joins.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import field
from types import MappingProxyType
from typing import Literal, TypeAlias

from tcready.schema.frozen import dataclass
from tcready.schema.words import Confidence
from tcready.static.engine.values import UNKNOWN, External, FloatType, Value, options
from tcready.static.torch_tables import Context
from tcready.static.versions import Version

Enclosing = Literal["for", "while", "try", "with", "comprehension", "function", "iterator", "checkpoint"]
"""`function`: a comprehension that Dynamo compiles by itself if what is around it runs eagerly: a function of its own to
Python, which holds something of torch; `iterator`: a generator expression, or a comprehension over what Dynamo cannot
pass on across a break; `checkpoint`: a call that `torch.utils.checkpoint` makes."""
INLINED = (3, 12)
"""The Python from which on a comprehension is part of the function around it."""


About = Literal["argument", "configuration", "unknown", "size", "data"]
"""What decides a test that the source does not: from the weakest, how the function is called, what the object was made
with, nothing in sight, the size of a tensor, the values in one."""


DECIDED_OUTSIDE: tuple[About, ...] = ("argument", "configuration", "unknown")
"""What decides a test by how things are set up, not by what is computed."""
LEAKED_FLAG = "GB8985"
"""The break of a tensor made in the graph that leaves it with the flag that `requires_grad_()` gave it."""

Asker: TypeAlias = "ast.If | ast.While | ast.Assert | ast.IfExp"
"""What asks for the truth of its test."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What must hold for a place to be reached: a test that the source does not decide."""

    test: str
    """As it is written, on one line."""
    holds: bool
    about: About
    usual: bool | None
    """Whether that is what comes of it if nothing else is said; None if nothing tells."""
    types: tuple[FloatType, ...] = ()
    """If it is not, for no other reason than the type that the model computes in: the types in which it is."""


def undecided(conditions: Iterable[Condition]) -> frozenset[Condition]:
    """Those of which nothing says how they usually come out. What a tensor decides counts not: Dynamo ends the graph
    there, and goes on behind it either way."""
    return frozenset(c for c in conditions if c.usual is None and c.about != "data")


@dataclass(frozen=True, slots=True)
class Where:
    """The function and the situation a fact stands in."""

    path: str
    """The file, absolute."""
    symbol: str
    """Dotted name inside the module: `Model.forward`."""
    context: int
    """Node of the call graph: this function under these arguments."""
    enclosing: tuple[Enclosing, ...] = ()
    """Statements of the same function around the place that decide what a break does to the frame; outermost
    first. Loops that the source shows to be unrolled count too: a break in them skips the frame all the same."""
    confidence: Confidence = "high"
    """How sure it is that this code runs at all: `low` below a call with several candidates."""
    conditional: bool = False
    """Stands below a branch that a Python value which the source does not decide takes."""
    conditions: tuple[Condition, ...] = ()
    """Tests of the same function that the source does not decide and that must go this way; outermost first."""
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.context, self.path, self.enclosing, self.conditions)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class Test:
    """The truth of `value` is asked by Python. Operands of `and`/`or`/`not` carry the kind of what asks:
    `if a and b` gives two tests of kind `if`; outside a statement's test they are `and`, `or`, `not`, and so are
    all but the last of an `assert`, which alone is what Dynamo takes for asserted. `members`: two sequences are
    compared member by member; `order`: items are sorted by it; `order of parts`: it is a later member of the items that
    are sorted, and Python compares the first member first."""

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
    """Asked by an `if` that does nothing but raise."""
    asker: Asker | None = None
    """The statement whose test this is a part of, where it begins on a line above: Python counts the branch as that
    line's, before 3.12 at least."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call. `name` is the dotted external name (`torch.unique`, `print`, `logging.Logger.info`,
    `copy.deepcopy`) or None; `receiver` and `method` are set for a method of a tensor, a container or an
    external object (`x.item()`); `function` is the called value. `result` is what inference gives back."""

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
    """Tensors that are given where the operation of torch takes a number."""
    native: bool = False
    """The name stands in a compiled extension module of an installed package."""
    gb_id: str = ""
    """The break that this torch was seen to make of such a call; empty if there is none, or what tensors hold decides."""
    traced_since: Version | None = None
    """The first torch after this one that was seen to trace what breaks here."""
    reads: Literal["", "size", "values", "number"] = ""
    """What an operation of torch needs the values of its tensors for: the size of its result, a tensor otherwise, or the
    number that it gives."""
    told_by: tuple[str, ...] = ()
    """Arguments by which that could be told instead."""
    parameters: Value = UNKNOWN
    """Of a module of torch.nn that is made: whether it gets parameters, by what its constructor is given."""
    constructed: str = field(init=False, compare=False, repr=False)
    """The external name of the class or function that is called itself, "" for a method or an instance."""

    def __post_init__(self) -> None:
        names = (v.name for v in options(self.function) if isinstance(v, External))
        object.__setattr__(self, "constructed", next(names, ""))

    def keyword(self, name: str) -> Value | None:
        """The value given to keyword `name`, or None."""
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
    """The index's items if it is a tuple, and the bounds if an item is a slice."""
    slices: tuple[Value, ...]
    """Bounds of slices alone."""
    mode: Literal["load", "store", "del"]
    stored: Value | None = None


@dataclass(frozen=True, slots=True)
class Store:
    """State that outlives the call is written: an attribute, a global, a name of an enclosing function,
    an item of a container held outside. `owner` is the object (attribute) or container (item)."""

    where: Where
    node: ast.expr
    kind: Literal["attribute", "global", "nonlocal", "item"]
    owner: Value | None
    name: str
    value: Value
    old: Value | None
    """What was there before, None if nothing is known."""
    augmented: bool
    """`+=` and its kind, or an assignment whose right side reads the old value."""
    own_module: bool = False
    """The owner is an nn.Module of the source."""
    source: ast.expr | None = None
    """What an attribute is assigned, if one expression says so."""
    read_elsewhere: bool = True
    """Whether a function of the module reads a global in another statement."""


@dataclass(frozen=True, slots=True)
class Format:
    """`value` is turned into text inside an f-string; `spec` says that a format spec is given. By `%` it is written at
    once, in an f-string where the text is used."""

    where: Where
    node: ast.expr
    value: Value
    spec: bool
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class With:
    """A context manager is entered; `name` is its dotted external name or None."""

    where: Where
    node: ast.expr
    value: Value
    name: str | None
    context: Context | None = None
    """What this torch was seen to make of it; None if nothing is known."""
    kept: bool = False
    """An object of a class of the source that was there before the compiled call, whichever object it is."""
    builtin: str = ""
    """The type of Python's that the class of an object of the source derives from, if Dynamo enters none of that type."""


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
    """A package that is not where torch is, is imported inside a function: the import raises."""

    where: Where
    node: ast.Import | ast.ImportFrom
    package: str


@dataclass(frozen=True, slots=True)
class Handler:
    """An `except` clause of a `try` whose body makes tensors; `caught` are the classes it names, None for a bare one."""

    where: Where
    node: ast.expr
    caught: Value | None
    reraises: bool
    """It ends in a `raise`: eager code does not go on from here either."""


UseOfModule: TypeAlias = Literal["held", "called", "read", "inspected", "walked"]
"""What code does with a module: keeps it or passes it on, calls it, reads an attribute of it, passes it to a built-in
that inspects it (`isinstance`, `hasattr`), or iterates over the parts of a module that holds it."""


@dataclass(frozen=True, slots=True)
class Recurrent:
    """Code gets hold of a recurrent module of torch.nn, or of an object of a class that derives from one: it reads it
    off a module, asks something of it, or goes through the parts of a module that holds one."""

    where: Where
    node: ast.expr
    value: Value
    confidence: Confidence | None
    """How sure it is that the value is one; None if it can be nothing else."""
    use: UseOfModule


@dataclass(frozen=True, slots=True)
class Sparse:
    """Something is asked of a sparse tensor, or it is `handed` to a function with source, which asks."""

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
    """The constructor of a module that is made in compiled code asks for it before the one above has set anything on
    it, mostly to call that. It breaks where Python runs the constructor, and so only if something else breaks."""

    where: Where
    node: ast.expr


@dataclass(frozen=True, slots=True)
class Alone:
    """What Dynamo traces as part of the code around it, and cannot compile by itself, which it is asked to where Python
    runs that code: a generator expression, a generator function, which the place then stands in, or a comprehension over
    what is no tuple, that Dynamo would look into. The node is the first that Python counts to it: of a function a
    decorator, if there is one."""

    where: Where
    node: ast.expr | ast.FunctionDef | ast.AsyncFunctionDef
    by_its_own: bool = False
    """A break in the comprehension itself makes Python run it: it walks an iterator that the trace cannot turn into a
    tuple, as it does with a list."""
    compiled: bool = True
    """Dynamo tries to compile it where Python runs it; else it only walks what the trace cannot pass on at a break."""
    entry: bool = False
    """It is the generator function that the user compiles."""


@dataclass(frozen=True, slots=True)
class Consumed:
    """A generator expression is passed to a function that Dynamo traces and that consumes it at once. If the call breaks,
    Python needs the generator again, and Dynamo cannot reconstruct it (measured)."""

    where: Where
    node: ast.Call
    used_up: bool = False
    """What it iterates over cannot be iterated over again. If False, the reason is another: the generator holds a
    variable that nothing reads after the call, which Dynamo has dropped."""


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
"""What is made of a member of an enum, as the tables call it; or `attribute`, `argument`: of what Dynamo answers to
a comparison of a tensor with one."""
DIFFERS = "differs"
"""What comes out is not what eager code gives."""
RAISES = "raises"
"""Tracing raises an error that is no break."""
OF_ANSWERS = MappingProxyType({"attribute": "GB0088", "argument": RAISES})


@dataclass(frozen=True, slots=True)
class OfMember:
    """A member of an enum is taken for the number or the text that it is, and Dynamo does not do what Python does:
    `outcome` is the id of a break, `RAISES` or `DIFFERS`."""

    where: Where
    node: ast.expr
    use: Use
    outcome: str
    sure: bool
    """It is a member, and what it meets is what it is taken for."""


@dataclass(frozen=True, slots=True)
class Extremum:
    """`max` or `min` with a key that gives no tensor, over `value`, which holds tensors."""

    where: Where
    node: ast.Call
    value: Value


@dataclass(frozen=True, slots=True)
class Misfit:
    """A function of the source is given arguments that it does not take, inside a `try`: the call raises."""

    where: Where
    node: ast.Call
    function: Value


@dataclass(frozen=True, slots=True)
class NoMember:
    """An enum is called inside a `try` with a value that none of its members has: the call raises."""

    where: Where
    node: ast.Call
    value: Value


@dataclass(frozen=True, slots=True)
class CheckMessage:
    """`torch._check` is given a message that Dynamo cannot take: one that no function of the code makes, or one that a
    function makes of an object or a tensor around it."""

    where: Where
    node: ast.Call
    made: Literal["elsewhere", "of objects"]


@dataclass(frozen=True, slots=True)
class Returned:
    """The compiled function returns an object that was made in it and that Dynamo cannot make again: it holds a `method`
    of such an object, or a function that is the `default` of a parameter."""

    where: Where
    node: ast.expr
    kept: Literal["method", "default"]


@dataclass(frozen=True, slots=True)
class OfNew:
    """A method is called of an object that the function has made itself, or been given back, by `making`. If the call
    breaks, the trace cannot hand the method over, which is bound to what nobody else knows yet."""

    where: Where
    node: ast.Call
    making: ast.expr


@dataclass(frozen=True, slots=True)
class InArguments:
    """A method of a tensor, a container or a text is looked up, and then its arguments are worked out. If one of these
    breaks, what is compiled behind the break is given the method alone, and a tensor beside it."""

    where: Where
    node: ast.Call
    above: int
    """So many lines above the call its statement begins."""
    called: frozenset[str]
    """The last names of what is called in the arguments."""
    of_tensor: bool
    """It is a method of a tensor, not of a container or a text."""


@dataclass(frozen=True, slots=True)
class Unresolved:
    """Something is asked of an attribute that Dynamo has not looked up; `gives_up` says that the whole function runs as
    eager code then. `value` is the kind of attribute: `UNRESOLVED`, `OF_FUNCTION` or `OF_LOGGER` of knowledge.py."""

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
    """Where the lines of a fact begin, and where they end."""
    if isinstance(fact, Test) and fact.asker is not None:
        return fact.asker, fact.asker.test
    return fact.node, fact.node
