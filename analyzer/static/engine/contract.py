"""The interfaces between the components of the engine: call contexts, nodes of the call graph, and queries."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from collections.abc import Sequence as Sequential
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias, TypeVar

from tcready.schema.frozen import dataclass
from tcready.schema.words import Confidence
from tcready.static.engine import facts as F  # noqa: N812 - the facts are many and their names common words
from tcready.static.engine.heap import Heap
from tcready.static.engine.lineage import Mro
from tcready.static.engine.models.operations import Operations
from tcready.static.engine.scope import Env, Frame
from tcready.static.engine.steps import Met, Standing, Step, Switch
from tcready.static.engine.values import (
    Answer,
    Class,
    ExternalInstance,
    FloatType,
    Function,
    Instance,
    Mapping,
    Sequence,
    Value,
)
from tcready.static.index import ClassInfo, FunctionInfo, Import, ModuleInfo, Program

Generic: TypeAlias = "tuple[FunctionInfo, bool, Value | None, int]"
"""A function, whether what runs before the compiled call is meant, the object that it is bound to, and the model."""
Arguments: TypeAlias = "tuple[tuple[Value, ...], dict[str, Value]]"
HOOKS = "_forward_hooks"
"""Where a module keeps what is called with its output."""
HOOKS_BEFORE = "_forward_pre_hooks"
"""Where it keeps what is called with its arguments."""
MAX_QUIET_DEPTH = 12
"""Levels of calls of what runs before the compiled call: building modules needs few."""
ASSUMED_DEPTH = 4
"""Where the count of call levels starts for the making of a module of which only the class is known."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Context:
    """A node of the call graph: a function under certain arguments."""

    number: int
    function: FunctionInfo | None
    module: int | None
    """The nn.Module instance whose method this is, by heap identity."""
    symbol: str
    path: str
    compiled: bool = True
    """False for what runs before: module level, `__init__`."""
    arguments: tuple[Value, ...] = ()
    around: Frame | None = None
    """The function around it, for one that is defined inside another."""
    depth: int = 0
    """Its level of calls."""


@dataclass(frozen=True, slots=True, eq=False)
class CallSite:
    """One call under evaluation: where it stands, what it is given, how sure it is that it runs."""

    node: ast.Call
    args: tuple[Value, ...]
    keywords: dict[str, Value]
    frame: Frame
    confidence: Confidence
    rest: Value | None = None
    """Stands for any number of further positional arguments: `*args` of unknown length."""

    @classmethod
    def unwritten(
        cls, name: str, at: ast.AST, args: tuple[Value, ...], frame: Frame, keywords: dict[str, Value]
    ) -> CallSite:
        """A call that stands in no source and is sure to run: of `name`, at the place of other code."""
        node = ast.copy_location(ast.Call(ast.Name(name, ast.Load()), [], []), at)
        return cls(node, args, keywords, frame, "high")

    def giving(self, args: tuple[Value, ...], keywords: dict[str, Value] | None = None) -> CallSite:
        """The same place with other arguments; none by keyword unless said."""
        return CallSite(self.node, args, keywords or {}, self.frame, self.confidence)

    def spread(self) -> CallSite:
        """The same with so many arguments that each of a callee's that is not read has one."""
        return self if self.rest is None else self.giving((*self.args, *[self.rest] * 3), self.keywords)

    def first(self, name: str, position: int = 0) -> Value | None:
        """The argument that is given by position or by name, or None."""
        return self.args[position] if len(self.args) > position else self.keywords.get(name)


@dataclass(frozen=True, slots=True)
class Case:
    """The arguments of one call of a model that its file gives."""

    args: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...] = ()


class Notes(Protocol):
    """What is told to who notes what a reading does."""

    outside: int
    """Counts what happened that is told of no compiled call alone: what was met then cannot be found again."""

    def called(self, info: FunctionInfo, line: int, column: int, became: str) -> None:
        """What became of a call, by its function, the line counted from where that begins, and the column."""

    def missed(self, info: FunctionInfo, line: int, column: int, what: str) -> None:
        """What was not understood, by place as `called`."""

    def marked(self, call: ast.Call, *, first: bool) -> None:
        """Only the first that a call gives counts; or it is given a sequence of unknown length."""

    def named(self, module: ModuleInfo, name: str) -> None:
        """A name of a file is asked for."""

    def linked(self, caller: int, callee: int) -> None:
        """One context calls another for the first time."""

    def closed(self, frame: Frame) -> None:
        """The variables of a frame are kept for the functions that are defined in it."""

    def used(self, closure: int) -> None:
        """The variables around a function are asked for."""

    def generalised(self, key: Generic, before: Env | None, after: Env) -> None:
        """A further situation of a function was taken into one with others."""

    def read(self, info: FunctionInfo) -> None:
        """The text of a function decides something without its being called."""

    def meet(
        self,
        asked: tuple[object, ...],
        around: tuple[object, ...],
        caller: tuple[object, ...],
        function: FunctionInfo | None,
    ) -> None:
        """A context is about to be entered, the next one."""

    def step(self) -> Step | None:
        """What the context that was met last begins with, if it can be found again."""

    def take(self, step: Step) -> Sequential[Met]:
        """Tells again what was told then, but for what functions know of their calls; the contexts that were met."""

    def enter(self) -> Standing:
        """Where things stand as a compiled call begins, for `leave`."""

    def leave(self, context: int, gave: Value, stood: Standing | None) -> None:
        """The call is done; `stood` is what `enter` gave if it is to be found again."""

    def begin_entry(self, path: str) -> None:
        """Another model is about to run, a context of its own; building it may have changed objects unseen."""


class Engine(Protocol):
    """What a room may ask of the others."""

    program: Program
    heap: Heap
    operations: Operations
    """What operations of torch give, as its tables tell it."""
    training: bool | None
    """What `self.training` is; None for both."""
    low: bool
    """Follow what only other than the defaults would run in an installed package too."""
    plain_call: bool
    dtype: str | None
    """The type that the model and its floating inputs are cast to, as torch names it; None: they are not cast."""
    autocast: str | None
    """The type of `torch.autocast` around the call; None: there is none."""
    facts: list[F.Fact]
    contexts: list[Context]
    edges: dict[tuple[int, int], dict[tuple[F.Enclosing, ...], None]]
    """(caller, callee), and what stands around each place of the call."""
    under: dict[tuple[int, int], tuple[F.Condition, ...]]
    """(caller, callee), and what must hold at the place of the call where least must."""
    lines: dict[tuple[int, int], int]
    """(caller, callee), and the first line of the caller on which a statement calls it."""
    calls: dict[tuple[str, int, int], str]
    """Call sites reached, by file and position, and what became of them, in the words of `reach`."""
    gaps: dict[tuple[str, int, int], str]
    """What else was met that is not understood, by file and position, in the words of `reach`."""
    spread: set[ast.Call]
    """Calls that are given a sequence of unknown length, member by member."""
    firsts: set[ast.Call]
    """Calls of which Python takes the first alone that they give: `next(self.parameters())`."""
    unknown_callees: dict[int, dict[ast.expr, None]]
    """What each context calls although nothing in sight tells what it is."""
    computing: set[int]
    """The contexts in which an expression other than a name gives a tensor: an operation of it may be traced."""
    walked: set[int] | None
    """The `id` of each statement that compiled code comes by by default; None if nobody asks."""
    switched: frozenset[Switch]
    """Class attributes as compiled code has set them so far: `cls.flag = value`, as a context manager does."""
    cut: int
    """Calls not followed because a limit was reached."""
    entry: int
    """The context that what is interpreted starts from: of each model another."""
    left_out: int
    """The same, with those that run before the compiled call."""
    closures: dict[int, Frame]
    """The variables around functions that are defined inside others, by the key that these have."""
    generic: dict[Generic, Env]
    """What further situations of a function are taken for, those of each object apart, and of each model with it."""
    chained: set[int]
    """Sequentials being called."""
    quiet: int
    """Above 0 while code runs that is not compiled: module level, `__init__` of what is built before."""

    @property
    def again(self) -> Notes | None:
        """Notes what is done, and what of it can be found again; None if nobody asks."""

    def quietly(self) -> AbstractContextManager[None]:
        """What is evaluated inside runs before the compiled call, or only looks: no fact is told."""

    def is_strong(self, frame: Frame) -> bool:
        """Whether what is stored here replaces what was there: while a model is built, on the one way that is taken."""

    def where(self, frame: Frame) -> F.Where:
        """The place where `frame` stands, for a fact."""

    def tell(self, fact: F.Fact) -> None:
        """Keeps a fact, unless what runs is not compiled."""

    def note_call(self, info: FunctionInfo, line: int, column: int, became: str) -> None:
        """Notes what became of a call; `line` counts from where its function begins."""

    def module_frame(self, module: ModuleInfo) -> Frame:
        """The frame of what a module runs at import."""

    def named(self, name: str, frame: Frame) -> Value:
        """What a bare name stands for: a variable, a name of the module, a builtin."""

    def global_value(self, module: ModuleInfo, name: str) -> Value | None:
        """What a top-level name of a module is; None if the module has no such name."""

    def imported(self, item: Import, module: ModuleInfo) -> Value:
        """What an import of `module` binds; an external name if its source is not read."""

    def module_member(self, module: ModuleInfo, name: str) -> Value | None:
        """`module.name`: what the module binds, else its submodule, else what its star imports bring."""

    def is_missing(self, module: str) -> bool:
        """A package that is not where torch is: its absence is to be expected."""

    def improbable(self, frame: Frame, types: tuple[FloatType, ...] = ()) -> Confidence | None:
        """How sure code runs that the defaults pass by; None if it is not followed.

        A project's own options are there to be used, so what they switch on is judged. Of an installed package's
        nobody uses most, and what they switch on says nothing of the model at hand. What runs if the model computes in
        one of `types` is always followed: any model may be cast."""

    def decorate_class(self, cls: ClassInfo) -> None:
        """Runs the decorators of a class that put other functions in the place of its methods."""

    def rebind(self, module: ModuleInfo, name: str, value: Value) -> None:
        """A top-level name is given another value while the module is imported."""

    def reset(self, cls: ClassInfo, name: str, value: Value) -> None:
        """`Class.name` is given another value while its module is imported."""

    def register_into(self, module: ModuleInfo, name: str, value: Value) -> None:
        """Runs what a module runs at import to fill a table: decorators that speak of `name`, `__init_subclass__`, and
        statements that change it, or call a function that speaks of it. If it is empty, and a function stores there what
        it is given, the modules that come along with it, and with what is read, do so as well."""

    def of_metaclass(self, mro: Mro, name: str) -> list[FunctionInfo]:
        """A method of the metaclass of a class, if its source is in sight."""

    def patch(self, cls: ClassInfo, name: str, value: Value) -> None:
        """`cls.name = value` while its decorators run."""

    def replacement(self, mro: Mro, name: str, after: ClassInfo | None = None) -> Function | None:
        """What a decorator put in the place of the method that the nearest class defines."""

    def initialisers(self, mro: Mro) -> list[Function]:
        """The functions that stand for `__init__`."""

    def mro(self, cls: ClassInfo) -> Mro:
        """The method resolution order of a class, its unseen bases by name."""

    def is_module(self, value: Value) -> bool:
        """An nn.Module object."""

    def assigned(self, mro: Mro) -> frozenset[str]:
        """Attributes that some method assigns, `__init__` and `__post_init__` too."""

    def rewritten(self, mro: Mro) -> dict[str, bool]:
        """Attributes that methods assign which run after `__init__`: what that gave them decides nothing.

        A method that `__init__` alone speaks of is part of it."""

    def class_attribute(self, holder: ClassInfo, name: str, owner: Value | None) -> Value:
        """What a class body assigns, read on the class or, with `owner`, on an object."""

    def annotation(self, node: ast.expr | None, module: ModuleInfo, *, sure: bool) -> Value:
        """What a parameter or attribute annotated with `node` holds; unknown stays unknown."""

    def documented(self, name: str, info: FunctionInfo) -> Value:
        """What a parameter holds as the documentation of its function has it; unknown if that is not said plainly."""

    def assumed(self, cls: ClassInfo) -> Instance:
        """An object of a class that comes from outside, as nobody said more of it than its class."""

    def instance_of(self, value: Value) -> Value | None:
        """What an object is of this class, or one of these classes; None if one of them is not understood."""
        ...

    def instance_value(self, node: ast.expr, frame: Frame) -> Value | None:
        """What `isinstance(x, node)` makes of x; None if the class is not understood."""

    def attribute(self, owner: Value, name: str, frame: Frame) -> Value:
        """`owner.name`."""

    def read_by(self, owner: Instance, name: str) -> str:
        """The code of Python's that finds an attribute; empty if that of the source does."""

    def member(self, owner: Value, name: str, frame: Frame, after: ClassInfo | None = None) -> Value:
        """An attribute of an object whose class is in sight; `after` starts behind that class (super)."""

    def class_member(self, owner: Class, name: str, frame: Frame, after: ClassInfo | None = None) -> Value:
        """`Class.name`; `after` starts behind that class (super)."""

    def get_attribute(self, owner: Value, name: Value, default: Value | None, frame: Frame) -> Value:
        """`getattr(owner, name, default)`: the default of an attribute that nothing is known to set is likely."""

    def has_attribute(self, value: Value, name: str) -> Value:
        """`hasattr(value, name)`."""

    def test(self, node: ast.expr, kind: str, frame: Frame) -> Answer:
        """Whether `node` is true, as far as the source tells; the question is told as a fact of `kind`."""

    def truthy(self, node: ast.expr, kind: str, frame: Frame) -> Value:
        """The value of an operand whose truth is asked; the test inside it is told."""

    def tell_test(self, node: ast.expr, kind: str, value: Value, frame: Frame) -> None:
        """Tells that Python asks for the truth of `value`."""

    def asked_apart(self, frame: Frame, ask: Callable[[], T]) -> tuple[T, F.About | None]:
        """What a question gives that is a part of another, and what decides this part alone."""

    def asks_what_nothing_tells(self, test: ast.expr, frame: Frame) -> bool:
        """Whether a test asks for an attribute of a module of torch that may be anything."""

    def in_first_call(self, test: ast.expr, frame: Frame) -> bool | None:
        """The result of a test in the first call, if numbers decide it that methods change; else None."""

    def follow(
        self, test: ast.expr, taken: bool, answer: Answer, about: F.About | None, frame: Frame
    ) -> None:
        """What stands behind a part of an expression holds only if that came out as `taken`."""

    def condition(
        self, test: ast.expr, taken: bool, answer: Answer, about: F.About | None
    ) -> tuple[F.Condition, ...]:
        """What is known to hold where a test came out as `taken`, of which `about` says what decides it; nothing if the
        source does."""

    def answer(self, value: Value) -> Answer:
        """`bool(value)`, as far as the source tells."""

    def narrow(self, node: ast.expr, assume: bool, frame: Frame) -> dict[str, Value]:
        """The environment once `node` is known to be `assume`."""

    def is_instance(self, value: Value, node: ast.expr, frame: Frame) -> Value:
        """`isinstance(value, node)`."""

    def fits(self, pattern: ast.pattern, subject: Value, frame: Frame) -> Value:
        """Whether a subject fits a pattern of `match`, as a value whose truth is asked."""

    def captured(self, pattern: ast.pattern, subject: Value, frame: Frame) -> dict[str, Value]:
        """What the names in a pattern are where a subject fits it."""

    def special(self, owner: Value, name: str, args: tuple[Value, ...], frame: Frame) -> Value | None:
        """What the method `name` of an object's class gives; None if nothing in sight defines it."""

    def operated(
        self, op: str, left: Value, right: Value, node: ast.expr, frame: Frame, *, in_place: bool = False
    ) -> Value:
        """`left op right`, or `left op= right`, as `node` has it."""

    def negated(self, op: ast.unaryop, value: Value, frame: Frame) -> Value | None:
        """`-value`, `+value`, `~value` of an object; None if no class in sight says what that is."""

    def related(self, op: ast.cmpop, left: Value, right: Value, node: ast.expr, frame: Frame) -> Value:
        """`left op right` of a comparison; that it asks for the truth of members is told of `node`."""

    def asked(self, value: Value, frame: Frame) -> Value:
        """The value whose truth Python looks at: what `__bool__` or `__len__` of an object gives, else it itself."""

    def iterated(self, value: Value, frame: Frame) -> Value:
        """What Python walks over: what `__iter__` of an object gives, else the value itself."""

    def picked(self, base: Value, index: Value, node: ast.expr, frame: Frame) -> Value:
        """`base[index]`, by the method of an object if it has one."""

    def entered(self, manager: Value, frame: Frame) -> Value | None:
        """What `with manager as name` binds; None if no class in sight says so."""

    def exited(self, manager: Value, frame: Frame) -> None:
        """The end of a `with`."""

    def answered(self, value: Value, frame: Frame, *names: str) -> Value | None:
        """What the first of the methods gives that the class of an object has; None if it has none."""

    def ask_order(self, walked: Value, key: Value | None, site: CallSite) -> None:
        """What is sorted: Python asks for the truth of `<` between any two members, or what a key makes of them."""

    def index_called(self, site: CallSite) -> Value:
        """`operator.getitem(base, index)`: the subscript that it stands for."""

    def got(self, value: Value, owner: Instance | Class, name: str, frame: Frame) -> Value:
        """A class attribute as it is read: a descriptor says what it is."""

    def set_member(self, container: Instance | ExternalInstance, name: str, value: Value) -> None:
        """A module that a constructor sets on a container is a member of it: in the place of one, if it has that name."""

    def set_through(self, value: Value, owner: Instance, name: str, new: Value, frame: Frame) -> bool:
        """Assigns an attribute through a descriptor; False if the class attribute is none."""

    def fill_record(self, made: Instance, site: CallSite) -> None:
        """What an object of a class without `__init__` holds: its fields, as they are given or by default."""

    def field_names(self, cls: ClassInfo) -> tuple[str, ...]:
        """The names of the fields of a dataclass, those of its bases first."""

    def is_dataclass(self, cls: ClassInfo) -> bool:
        """Whether a decorator of the class, or of one above it, is `dataclass` or its like."""

    def row(self, value: Value) -> Sequence | None:
        """The fields of a named tuple, place by place; None for anything else."""

    def compared_fields(self, value: Value) -> Sequence | None:
        """What `==` of a record compares: its fields in order; None if it has no such method of its own."""

    def record_method(self, made: Instance, name: str, site: CallSite) -> Value | None:
        """A method that Python makes for a named tuple; None if it is none of them."""

    def replaced(self, made: Instance, site: CallSite) -> Instance:
        """A copy of a record with other values for some of its fields."""

    def as_mapping(self, made: Value) -> Value | None:
        """`asdict(made)`."""

    def record_class(self, site: CallSite) -> Value | None:
        """The class that `namedtuple("N", "a b")` or `NamedTuple("N", [("a", int)])` makes."""

    def is_enum(self, mro: Mro) -> bool:
        """Whether a class is an enum: calling it looks a member up, which stands for its value here."""

    def enum_member(self, enum: Class, name: str, value: Value) -> Value:
        """The member of an enum with that name and value."""

    def enum_members(self, cls: ClassInfo) -> Sequence | None:
        """The members of an enum in order; None for another class."""

    def numbered(self, holder: ClassInfo, name: str) -> Value:
        """`auto()` in an enum: one more than the number of the member before."""

    def touch(self, value: Value, node: ast.expr, frame: Frame, use: F.UseOfModule = "held") -> None:
        """Tells that something is asked of `value`, if that may be a recurrent module."""

    def touch_attribute(self, owner: Value, value: Value, node: ast.expr, frame: Frame) -> None:
        """The same of `owner.name`, whose value is `value`."""

    def give_back(self, function: Function, site: CallSite) -> None:
        """What the last call of a function has put into the tables that it was given is there for who called it."""

    def touch_handed(self, site: CallSite) -> None:
        """The same of what a call hands on by the name of a variable."""

    def touch_by_walk(self, module: Instance | ExternalInstance, name: str, site: CallSite) -> None:
        """The same of the method `name` of a module, which goes through its parts."""

    def overridden(
        self, operation: Value, args: tuple[Value, ...], keywords: dict[str, Value], frame: Frame
    ) -> Value | None:
        """What the `__torch_function__` that a class of the source has gives for what is done to its tensors; None if
        none of the arguments is such a tensor."""

    def by_object(
        self, operation: str, args: tuple[Value, ...], keywords: dict[str, Value], frame: Frame
    ) -> Value | None:
        """The same of objects that are no tensors, for an operation of torch that may be given them."""

    def is_overriding(self) -> bool:
        """Whether such a method is being run: what torch gives in it is a plain tensor."""

    def tell_unresolved(self, node: ast.expr, frame: Frame, *values: Value, walked: bool = False) -> None:
        """Tells that something is asked of an attribute that Dynamo has not looked up; `walked`: it is gone through."""

    def member_compared(
        self, op: ast.cmpop, node: ast.Compare, sides: tuple[Value, Value], frame: Frame, of: ast.expr | None
    ) -> Value | None:
        """What a comparison with a member of an enum gives, if that is no tensor; `of` is read of it as of one."""

    def tell_answer(self, node: ast.Attribute, owner: Value, frame: Frame) -> None:
        """Tells what is read of the answer of such a comparison as of a tensor."""

    def tell_member_called(
        self, site: CallSite, receiver: Value | None, operation: str, operands: tuple[Value, ...]
    ) -> None:
        """Tells a method of a member, a conversion of one, and a bool that is given where an operation takes none."""

    def tell_member_index(self, node: ast.expr, base: Value, index: Value, frame: Frame) -> None:
        """Tells a member that a row is indexed by."""

    def tell_member_walk(self, node: ast.expr, value: Value, frame: Frame) -> None:
        """Tells a walk through the letters of a member."""

    def tell_member_sum(self, node: ast.BinOp, left: Value, frame: Frame) -> None:
        """Tells a text that is put behind a member."""

    def tell_truth(self, node: ast.expr, frame: Frame, value: Value) -> None:
        """Tells that the truth of such an attribute is asked, if that ends the graph."""

    def tell_sparse(self, node: ast.expr, frame: Frame, *values: Value) -> None:
        """Tells that something is asked of sparse tensors."""

    def tell_handed(self, function: Function, site: CallSite) -> None:
        """Tells that a function with source is given a sparse tensor."""

    def lay_out(self, info: FunctionInfo, env: Env) -> None:
        """What comes in from outside is sparse where the function's documentation says so."""

    def eval(self, node: ast.expr, frame: Frame) -> Value:
        """The value of an expression; every fact inside it is told."""

    def tell_loop(self, node: ast.expr, value: Value, comprehension: bool, frame: Frame) -> None:
        """Tells the iteration; `enumerate`, `zip` and `reversed` are looked through to what they walk."""

    def index(self, node: ast.expr, frame: Frame) -> tuple[Value, tuple[Value, ...], tuple[Value, ...]]:
        """(value, items of a tuple index, bounds of slices) of what stands between the brackets."""

    def element(self, value: Value) -> Value:
        """What iterating over `value` yields."""

    def container_members(self, value: Value) -> Value | None:
        """The Sequence or Mapping of modules that a torch.nn container holds, or None."""

    def walked_members(self, value: Value) -> Value | None:
        """What a loop over a torch.nn container goes through, or None: of an nn.Sequential that was made of a dict what
        that holds, of any other mapping its keys."""

    def children(self, made: Instance | ExternalInstance) -> Mapping:
        """The modules that a module holds itself, by name."""

    def item(self, base: Value, index: Value, node: ast.expr) -> Value:
        """`base[index]`."""

    def item_of(self, base: Value, index: Value, node: ast.expr) -> Value:
        """`base[index]` for a value that is no choice."""

    def fill_container(
        self, made: Instance | ExternalInstance, kind: str, args: tuple[Value, ...], node: ast.Call
    ) -> None:
        """What a container of torch.nn holds once it is made."""

    def dictionary_method(
        self, made: Instance, name: str, args: tuple[Value, ...], keywords: dict[str, Value]
    ) -> Value | None:
        """A method that an object of a class of dicts has from Python."""

    def container_method(
        self, made: Instance | ExternalInstance, name: str, args: tuple[Value, ...]
    ) -> Value | None:
        """A method of a container of torch.nn; None if it is no method of one."""

    def container_sum(self, left: Value, right: Value, *, in_place: bool) -> Value | None:
        """`left + right`, or `left += right`, of a container of torch.nn; None if `left` is none."""

    def sequence_method(self, receiver: Sequence, name: str, site: CallSite) -> Value | None:
        """A method of a list, tuple or set."""

    def mapping_method(self, receiver: Mapping, name: str, site: CallSite) -> Value | None:
        """A method of a dict."""

    def put_back(self, node: ast.expr, value: Value, frame: Frame) -> None:
        """After `x.append(v)` or `x[k] = v`: what the place `node` holds now."""

    def delete_item(self, holder: ast.expr, base: Value, index: Value, frame: Frame) -> None:
        """`del base[index]`, where `base` stands as `holder`."""

    def put_item(self, holder: ast.expr, base: Value, index: Value, value: Value, frame: Frame) -> None:
        """What a dict, a list or a tuple, `base`, that stands as `holder` is holds once its item is `value`."""

    def note(self, made: Instance | ExternalInstance, name: str) -> None:
        """What `forward` stores is not there before it has run."""

    def assign(
        self,
        target: ast.expr,
        value: Value,
        frame: Frame,
        source: ast.expr | None = None,
        *,
        augmented: bool = False,
        old: Value | None = None,
    ) -> None:
        """Binds `value` to a target; a write to what outlives the call is told as a Store."""

    def set_by_class(self, owner: Instance, name: str, value: Value, frame: Frame) -> bool:
        """Runs what the class of an object does where an attribute is set; False if the object holds it after that."""

    def load_of(self, target: ast.Name | ast.Attribute | ast.Subscript) -> ast.expr:
        """The read that `target += ...` starts with, one node for each target."""

    def block(self, body: list[ast.stmt], frame: Frame) -> bool:
        """Interprets statements in order; False if control does not fall out of their end."""

    def call(self, function: Value, site: CallSite) -> Value:
        """The value of a call; a choice of callees is followed one by one, with less confidence each."""

    def call_each(self, function: Value, site: CallSite) -> Value | None:
        """The joined results of calling each of the values that `function` may be; None if nothing is known of any."""

    def initialise(self, made: Instance, frame: Frame, given: frozenset[str] = frozenset()) -> None:
        """Runs `__init__` of an object with arguments nobody knows; those in `given` are not None."""

    def instantiate(self, cls: Class, site: CallSite, *, by_type: bool = False) -> Value:
        """An object made by calling a class; `by_type`: its metaclass has been asked."""

    def imported_with(self, module: ModuleInfo, names: set[str], *, own: bool = False) -> list[ClassInfo]:
        """The classes near a file that have all of `names`; of a class and one that derives from it the first."""

    def deriving(self, cls: ClassInfo) -> list[ClassInfo]:
        """The classes in the file of a class, and in those of the same folder, that derive from it."""

    def near_class(self, module: ModuleInfo, name: str) -> ClassInfo | None:
        """The one class of that name near a file; None if there is none, or several."""

    def registered(self, site: CallSite) -> Value | None:
        """What a factory makes of a configuration object if its own code does not tell."""

    def made_of_text(self, site: CallSite) -> Value | None:
        """What a function makes of a text that a class is registered under beside the place of the call, or of a dict
        that holds one, if the function's own code does not tell."""

    def copied(self, value: Value, node: ast.Call, frame: Frame, *, deep: bool) -> Value:
        """A copy of an object of plain attributes, which is changed apart from it, a `deep` one with what it holds;
        anything else as it is."""

    def decorated(self, info: FunctionInfo, frame: Frame) -> Value:
        """The value a `def` binds once its decorators have been applied."""

    def close(self, frame: Frame) -> int:
        """The key by which functions made in `frame` remember it."""

    def enclosed(self, function: Function) -> list[Value]:
        """What a function reads of the variables of those around it; nothing if it is defined in none."""

    def invoke(
        self,
        function: Function,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        frame: Frame,
        confidence: Confidence,
        rest: Value | None = None,
    ) -> Value:
        """Interprets a call of a function with source; a situation already seen is looked up. `rest` stands for any
        number of further positional arguments."""

    def takes(self, function: Function, site: CallSite) -> bool:
        """Whether a function has parameters for all that it is given; what it lacks is not looked at."""

    def count_again(self, modules: Collection[int], *, making: bool) -> None:
        """What the methods of these modules ran counts once more, with what their `making` ran: each stands for one that
        is not interpreted."""

    def function_info(
        self, node: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef, name: str, frame: Frame
    ) -> FunctionInfo:
        """The one FunctionInfo of a function that is defined inside another."""

    def local_class(self, node: ast.ClassDef, frame: Frame) -> ClassInfo:
        """The class a `class` statement inside a function defines."""


class Room:
    """A part of the engine; what it needs of the others it asks the engine for."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
