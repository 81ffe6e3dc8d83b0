"""Interfaces shared by the components of the engine: calls, call-graph nodes, and the methods that components call on
each other."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from collections.abc import Sequence as Sequential
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias, TypeVar

from tcready.schema.enums import Confidence
from tcready.schema.value_class import dataclass
from tcready.static.domain import facts as F  # noqa: N812 - the facts are many and their names common words
from tcready.static.domain.heap import Heap
from tcready.static.domain.mro import Mro
from tcready.static.domain.scope import Env, Frame
from tcready.static.domain.values import (
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
from tcready.static.frontend.index import ClassInfo, FunctionInfo, Import, ModuleInfo, Program
from tcready.static.library.torch_operations import Operations
from tcready.static.summaries.call_summaries import EntryState, Met, SummaryStep, Switch

Generic: TypeAlias = "tuple[FunctionInfo, bool, Value | None, int]"
"""A function, whether the code before the compiled call is meant, the object that it is bound to, and the model."""
Arguments: TypeAlias = "tuple[tuple[Value, ...], dict[str, Value]]"
HOOKS = "_forward_hooks"
"""The attribute in which a module stores its forward hooks, called with its output."""
HOOKS_BEFORE = "_forward_pre_hooks"
"""The attribute in which a module stores its forward pre-hooks, called with its arguments."""
MAX_UNTRACED_DEPTH = 12
"""Call levels of code that runs before the compiled call: building modules needs few."""
ASSUMED_DEPTH = 4
"""The call level at which building a module starts if only its class is known."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Context:
    """A node of the call graph: a function with certain arguments."""

    number: int
    function: FunctionInfo | None
    module: int | None
    """The nn.Module instance that this method belongs to, by heap identity."""
    symbol: str
    path: str
    compiled: bool = True
    """False for code that runs before: module level, `__init__`."""
    arguments: tuple[Value, ...] = ()
    around: Frame | None = None
    """The enclosing function's frame, for a nested function."""
    depth: int = 0
    """The call level."""


@dataclass(frozen=True, slots=True, eq=False)
class CallSite:
    """One call under evaluation: its position, its arguments, and the confidence that it runs."""

    node: ast.Call
    args: tuple[Value, ...]
    keywords: dict[str, Value]
    frame: Frame
    confidence: Confidence
    rest: Value | None = None
    """Any number of further positional arguments: `*args` of unknown length."""

    @classmethod
    def unwritten(
        cls, name: str, at: ast.AST, args: tuple[Value, ...], frame: Frame, keywords: dict[str, Value]
    ) -> CallSite:
        """Return a call of `name` that is in no source and certain to run, at the position of other code."""
        node = ast.copy_location(ast.Call(ast.Name(name, ast.Load()), [], []), at)
        return cls(node, args, keywords, frame, "high")

    def giving(self, args: tuple[Value, ...], keywords: dict[str, Value] | None = None) -> CallSite:
        """Return the same place with other arguments; without keyword arguments by default."""
        return CallSite(self.node, args, keywords or {}, self.frame, self.confidence)

    def spread(self) -> CallSite:
        """Return the call with so many arguments that each unread parameter of a callee has one."""
        return self if self.rest is None else self.giving((*self.args, *[self.rest] * 3), self.keywords)

    def first(self, name: str, position: int = 0) -> Value | None:
        """Return the argument given by position or by name, or None."""
        return self.args[position] if len(self.args) > position else self.keywords.get(name)


@dataclass(frozen=True, slots=True)
class Case:
    """The arguments of one call of a model in its file."""

    args: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...] = ()


class Notes(Protocol):
    """Receives what an interpretation does, for incremental replay."""

    outside: int
    """Counts events that belong to no single compiled call: contexts entered since cannot be replayed."""

    def called(self, info: FunctionInfo, line: int, column: int, became: str) -> None:
        """Record the outcome of a call, by its function, the line relative to the function's start, and the column."""

    def missed(self, info: FunctionInfo, line: int, column: int, what: str) -> None:
        """Record code that was not understood, by position as in `called`."""

    def marked(self, call: ast.Call, *, first: bool) -> None:
        """Record a call with an iterable of unknown length as argument, or (`first`) of which only the first member
        counts."""

    def named(self, module: ModuleInfo, name: str) -> None:
        """Record that a name of a file is read."""

    def linked(self, caller: int, callee: int) -> None:
        """Record that one context calls another for the first time."""

    def closed(self, frame: Frame) -> None:
        """Record that functions defined in a frame keep its variables."""

    def used(self, closure: int) -> None:
        """Record that the variables around a function are read."""

    def generalised(self, key: Generic, before: Env | None, after: Env) -> None:
        """Record that a further situation of a function was merged with others."""

    def read(self, info: FunctionInfo) -> None:
        """Record that the text of a function decides something without a call."""

    def meet(
        self,
        situation_key: tuple[object, ...],
        around: tuple[object, ...],
        caller: tuple[object, ...],
        function: FunctionInfo | None,
    ) -> None:
        """Record that a context is about to be entered, the next one."""

    def step(self) -> SummaryStep | None:
        """Return the step that starts with the context entered last, if it can be replayed."""

    def take(self, step: SummaryStep) -> Sequential[Met]:
        """Replay what was recorded then, except call results cached by functions; return the contexts it entered."""

    def enter(self) -> EntryState:
        """Return the state at the start of a compiled call, for `leave`."""

    def leave(self, context: int, gave: Value, entry_state: EntryState | None) -> None:
        """End the call; `entry_state` is the result of `enter` if the call may be replayed."""

    def begin_entry(self, path: str) -> None:
        """Record that another model is about to run, a context of its own; building it may have changed objects
        unseen."""


class Engine(Protocol):
    """The methods and state that a component may use of the others."""

    program: Program
    heap: Heap
    operations: Operations
    """The results of torch operations, according to the tables."""
    training: bool | None
    """The value of `self.training`; None for both."""
    low: bool
    """Also follow code in an installed package that only non-default options enable."""
    plain_call: bool
    dtype: str | None
    """The type that the model and its floating inputs are cast to, as torch names it; None if there is no cast."""
    autocast: str | None
    """The type of `torch.autocast` around the call; None: there is none."""
    facts: list[F.Fact]
    contexts: list[Context]
    edges: dict[tuple[int, int], dict[tuple[F.Enclosing, ...], None]]
    """(caller, callee), and the statements that enclose each position of the call."""
    under: dict[tuple[int, int], tuple[F.Condition, ...]]
    """(caller, callee), and the conditions at the place of the call with the fewest."""
    lines: dict[tuple[int, int], int]
    """(caller, callee), and the first line of the caller on which a statement calls it."""
    calls: dict[tuple[str, int, int], str]
    """Call sites reached, by file and position, and their outcome, in the words of `reach`."""
    gaps: dict[tuple[str, int, int], str]
    """Other code that is not understood, by file and position, in the words of `reach`."""
    spread: set[ast.Call]
    """Calls that unpack a sequence of unknown length, member by member."""
    firsts: set[ast.Call]
    """Calls of which Python takes only the first result: `next(self.parameters())`."""
    unknown_callees: dict[int, dict[ast.expr, None]]
    """The callees of each context that cannot be resolved."""
    computing: set[int]
    """The contexts in which an expression other than a name results in a tensor: an operation of it may be traced."""
    walked: set[int] | None
    """The `id` of each statement that compiled code reaches by default; None if not requested."""
    switched: frozenset[Switch]
    """Class attributes set by compiled code so far: `cls.flag = value`, as a context manager does."""
    cut: int
    """The number of calls not followed because of a limit."""
    entry: int
    """The context in which the interpretation starts, another for each model."""
    left_out: int
    """The same number, including calls that run before the compiled call."""
    closures: dict[int, Frame]
    """The variables of enclosing functions, by the key of the scope."""
    generic: dict[Generic, Env]
    """The merged environment for further situations of a function, separate for each object and for each model with
    it."""
    chained: set[int]
    """Sequentials that are being called."""
    untraced: int
    """Above 0 while code runs that is not compiled: module level, `__init__` of objects built before."""

    @property
    def replay(self) -> Notes | None:
        """Record what is done, and what of it can be found again; None if nobody asks."""

    def outside_trace(self) -> AbstractContextManager[None]:
        """Evaluate code that runs before the compiled call, or only look at it: emit no fact."""

    def is_strong(self, frame: Frame) -> bool:
        """Return whether a store replaces the old value: while a model is built, on the single path that is taken."""

    def where(self, frame: Frame) -> F.Where:
        """Return the position of `frame`, for a fact."""

    def emit(self, fact: F.Fact) -> None:
        """Keep a fact, unless what runs is not compiled."""

    def note_call(self, info: FunctionInfo, line: int, column: int, became: str) -> None:
        """Record what became of a call; `line` counts from where its function begins."""

    def module_frame(self, module: ModuleInfo) -> Frame:
        """Return the frame of the code that a module runs at import."""

    def resolve_name(self, name: str, frame: Frame) -> Value:
        """Return the value of a bare name: a variable, a name of the module, a builtin."""

    def global_value(self, module: ModuleInfo, name: str) -> Value | None:
        """Return the value of a top-level name of a module; None if the module has no such name."""

    def resolve_import(self, item: Import, module: ModuleInfo) -> Value:
        """Return the value that an import of `module` binds; an external name if its source is not read."""

    def module_member(self, module: ModuleInfo, name: str) -> Value | None:
        """Return `module.name`: a binding of the module, else its submodule, else a name of its star imports."""

    def is_missing(self, module: str) -> bool:
        """Return whether a package is not installed with torch: its absence is expected."""

    def unlikely(self, frame: Frame, types: tuple[FloatType, ...] = ()) -> Confidence | None:
        """Return the confidence that code runs which the defaults skip; None to ignore it.

        A project's own options are meant to be used, so code that they enable is judged. Most options of an installed
        package are never used, so code that they enable says nothing about the model at hand. Code that runs if the model
        computes in one of `types` is always followed: any model may be cast."""

    def decorate_class(self, cls: ClassInfo) -> None:
        """Run the decorators of a class that put other functions in the place of its methods."""

    def rebind(self, module: ModuleInfo, name: str, value: Value) -> None:
        """Bind a top-level name to another value while the module is imported."""

    def reset(self, cls: ClassInfo, name: str, value: Value) -> None:
        """Assign `Class.name` another value while its module is imported."""

    def register_into(self, module: ModuleInfo, name: str, value: Value) -> None:
        """Run what a module runs at import to fill a table: decorators that speak of `name`, `__init_subclass__`, and
        statements that change it, or call a function that speaks of it. If it is empty, and a function stores there what
        it is given, the modules that come along with it, and with what is read, do so as well."""

    def metaclass_methods(self, mro: Mro, name: str) -> list[FunctionInfo]:
        """Return a method of the metaclass of a class, if it has source."""

    def patch(self, cls: ClassInfo, name: str, value: Value) -> None:
        """Assign `cls.name = value` while its decorators run."""

    def replacement(self, mro: Mro, name: str, after: ClassInfo | None = None) -> Function | None:
        """Return the function by which a decorator replaced the method that the nearest class defines."""

    def initialisers(self, mro: Mro) -> list[Function]:
        """Return the functions that act as `__init__`."""

    def mro(self, cls: ClassInfo) -> Mro:
        """Return the method resolution order of a class, with bases without source by name."""

    def is_module(self, value: Value) -> bool:
        """Return whether it is an nn.Module object."""

    def assigned_attributes(self, mro: Mro) -> frozenset[str]:
        """Return the attributes that any method assigns, including `__init__` and `__post_init__`."""

    def reassigned_attributes(self, mro: Mro) -> dict[str, bool]:
        """Attributes that methods assign which run after `__init__`: what that gave them decides nothing.

        A method that `__init__` alone speaks of is part of it."""

    def class_attribute(self, holder: ClassInfo, name: str, owner: Value | None) -> Value:
        """Return the value that a class body assigns, read on the class or, with `owner`, on an object."""

    def annotation(self, node: ast.expr | None, module: ModuleInfo, *, sure: bool) -> Value:
        """Return the value of a parameter or attribute annotated with `node`; unknown stays unknown."""

    def documented_value(self, name: str, info: FunctionInfo) -> Value:
        """Return the value of a parameter according to its function's documentation; unknown if that is not stated
        plainly."""

    def symbolic_instance(self, cls: ClassInfo) -> Instance:
        """Return an object from outside, of which only its class is known."""

    def instance_of(self, value: Value) -> Value | None:
        """Return an object of this class, or of one of these classes; None if one of them is not understood."""
        ...

    def instance_value(self, node: ast.expr, frame: Frame) -> Value | None:
        """Return x as narrowed by `isinstance(x, node)`; None if the class is not understood."""

    def attribute(self, owner: Value, name: str, frame: Frame) -> Value:
        """Return `owner.name`."""

    def read_by(self, owner: Instance, name: str) -> str:
        """Return the Python code that finds an attribute; empty if code with source does."""

    def member(self, owner: Value, name: str, frame: Frame, after: ClassInfo | None = None) -> Value:
        """Return an attribute of an object of a class with source; `after` starts behind that class (super)."""

    def class_member(self, owner: Class, name: str, frame: Frame, after: ClassInfo | None = None) -> Value:
        """`Class.name`; `after` starts behind that class (super)."""

    def get_attribute(self, owner: Value, name: Value, default: Value | None, frame: Frame) -> Value:
        """`getattr(owner, name, default)`: the default of an attribute that nothing is known to set is likely."""

    def has_attribute(self, value: Value, name: str) -> Value:
        """`hasattr(value, name)`."""

    def test(self, node: ast.expr, kind: str, frame: Frame) -> Answer:
        """Return the truth of `node` as far as the source decides it, and emit a Test fact of `kind`."""

    def truthy(self, node: ast.expr, kind: str, frame: Frame) -> Value:
        """Evaluate an operand and its truth; emit the test in it."""

    def emit_test(self, node: ast.expr, kind: str, value: Value, frame: Frame) -> None:
        """Emit a fact: Python evaluates the truth of `value`."""

    def evaluate_with_cause(self, frame: Frame, ask: Callable[[], T]) -> tuple[T, F.DecidedBy | None]:
        """Evaluate part of a condition; return its result and what decides this part alone."""

    def reads_unknown_attribute(self, test: ast.expr, frame: Frame) -> bool:
        """Return whether a test reads an attribute of a torch module that may have any value."""

    def in_first_call(self, test: ast.expr, frame: Frame) -> bool | None:
        """Return the result of a test in the first call, if it depends on numbers that methods change; else None."""

    def follow(self, test: ast.expr, taken: bool, answer: Answer, about: F.DecidedBy | None, frame: Frame) -> None:
        """Narrow `frame` to code that runs only if a part of an expression evaluated to `taken`."""

    def condition(
        self, test: ast.expr, taken: bool, answer: Answer, about: F.DecidedBy | None
    ) -> tuple[F.Condition, ...]:
        """Return the conditions that hold if a test evaluated to `taken`; `about` is what decides it. None if the source
        decides it."""

    def answer(self, value: Value) -> Answer:
        """Return `bool(value)` as far as the source decides it."""

    def narrow(self, node: ast.expr, assume: bool, frame: Frame) -> dict[str, Value]:
        """Return the environment in which `node` has the truth value `assume`."""

    def is_instance(self, value: Value, node: ast.expr, frame: Frame) -> Value:
        """`isinstance(value, node)`."""

    def fits(self, pattern: ast.pattern, subject: Value, frame: Frame) -> Value:
        """Return whether a subject fits a pattern of `match`, as a value to be tested for truth."""

    def capture_names(self, pattern: ast.pattern, subject: Value, frame: Frame) -> dict[str, Value]:
        """Return the values that a pattern captures if a subject fits it."""

    def special(self, owner: Value, name: str, args: tuple[Value, ...], frame: Frame) -> Value | None:
        """Call the method `name` of an object's class; None if no class with source defines it."""

    def apply_operator(
        self, op: str, left: Value, right: Value, node: ast.expr, frame: Frame, *, in_place: bool = False
    ) -> Value:
        """Return `left op right`, or `left op= right`, at `node`."""

    def apply_unary(self, op: ast.unaryop, value: Value, frame: Frame) -> Value | None:
        """Return `-value`, `+value`, `~value` of an object; None if no class with source defines it."""

    def compare(self, op: ast.cmpop, left: Value, right: Value, node: ast.expr, frame: Frame) -> Value:
        """Evaluate the comparison `left op right`; emit at `node` that it evaluates the truth of members."""

    def truth_operand(self, value: Value, frame: Frame) -> Value:
        """Return the value that Python tests for truth: the result of `__bool__` or `__len__`, else `value` itself."""

    def iterate(self, value: Value, frame: Frame) -> Value:
        """Return the value that Python iterates over: the result of `__iter__`, else the value itself."""

    def subscript(self, base: Value, index: Value, node: ast.expr, frame: Frame) -> Value:
        """Return `base[index]`, by the method of an object if it has one."""

    def enter_context(self, manager: Value, frame: Frame) -> Value | None:
        """Return the value that `with manager as name` binds; None if no class with source defines it."""

    def exit_context(self, manager: Value, frame: Frame) -> None:
        """Leave a `with`."""

    def call_first_method(self, value: Value, frame: Frame, *names: str) -> Value | None:
        """Call the first of these methods that the class of an object has; None if it has none."""

    def ask_order(self, walked: Value, key: Value | None, site: CallSite) -> None:
        """Emit the comparisons of a sort: the truth of `<` between any two members, or between their keys."""

    def index_called(self, site: CallSite) -> Value:
        """Evaluate `operator.getitem(base, index)` as the subscript that it is."""

    def read_descriptor(self, value: Value, owner: Instance | Class, name: str, frame: Frame) -> Value:
        """Return the value of reading a class attribute: that of its descriptor if it is one."""

    def set_member(self, container: Instance | ExternalInstance, name: str, value: Value) -> None:
        """Make a module that a constructor sets on a container a member of it: it replaces one of that name."""

    def set_through(self, value: Value, owner: Instance, name: str, new: Value, frame: Frame) -> bool:
        """Assign an attribute through a descriptor; False if the class attribute is none."""

    def fill_record(self, made: Instance, site: CallSite) -> None:
        """Set the fields of an object of a class without `__init__`, as given or by default."""

    def field_names(self, cls: ClassInfo) -> tuple[str, ...]:
        """Return the names of the fields of a dataclass, those of its bases first."""

    def is_dataclass(self, cls: ClassInfo) -> bool:
        """Return whether a decorator of the class, or of one of its bases, is `dataclass` or similar."""

    def row(self, value: Value) -> Sequence | None:
        """Return the fields of a named tuple, place by place; None for anything else."""

    def compared_fields(self, value: Value) -> Sequence | None:
        """Return the fields that `==` of a record compares, in order; None if it has no such generated method."""

    def record_method(self, made: Instance, name: str, site: CallSite) -> Value | None:
        """Return the result of a generated named tuple method; None if it is none of them."""

    def replace_fields(self, made: Instance, site: CallSite) -> Instance:
        """Return a copy of a record with other values for some of its fields."""

    def as_mapping(self, made: Value) -> Value | None:
        """`asdict(made)`."""

    def record_class(self, site: CallSite) -> Value | None:
        """Return the class that `namedtuple("N", "a b")` or `NamedTuple("N", [("a", int)])` makes."""

    def is_enum(self, mro: Mro) -> bool:
        """Return whether a class is an enum: calling it looks a member up, represented by its value here."""

    def enum_member(self, enum: Class, name: str, value: Value) -> Value:
        """Return the member of an enum with that name and value."""

    def enum_members(self, cls: ClassInfo) -> Sequence | None:
        """Return the members of an enum in order; None for another class."""

    def auto_value(self, holder: ClassInfo, name: str) -> Value:
        """`auto()` in an enum: one more than the number of the member before."""

    def touch(self, value: Value, node: ast.expr, frame: Frame, use: F.UseOfModule = "held") -> None:
        """Emit a use of `value` if it may be a recurrent module."""

    def touch_attribute(self, owner: Value, value: Value, node: ast.expr, frame: Frame) -> None:
        """Emit such a use of `owner.name`, which has the value `value`."""

    def give_back(self, function: Function, site: CallSite) -> None:
        """Hand the caller what the last call of a function stored in the tables that it got as arguments."""

    def touch_handed(self, site: CallSite) -> None:
        """Emit the same for the variables that a call passes on."""

    def touch_by_walk(self, module: Instance | ExternalInstance, name: str, site: CallSite) -> None:
        """Emit the same for the method `name` of a module, which iterates over its parts."""

    def call_override(
        self, operation: Value, args: tuple[Value, ...], keywords: dict[str, Value], frame: Frame
    ) -> Value | None:
        """Return the result of `__torch_function__` of a class with source for an operation on its tensors; None if no
        argument is such a tensor."""

    def by_object(
        self, operation: str, args: tuple[Value, ...], keywords: dict[str, Value], frame: Frame
    ) -> Value | None:
        """Return the same for objects that are no tensors, passed to an operation of torch that takes them."""

    def is_overriding(self) -> bool:
        """Return whether such a method is running: torch returns plain tensors in it."""

    def emit_unresolved(self, node: ast.expr, frame: Frame, *values: Value, walked: bool = False) -> None:
        """Emit a use of an attribute that Dynamo has not looked up; `walked` if it is iterated."""

    def member_compared(
        self, op: ast.cmpop, node: ast.Compare, sides: tuple[Value, Value], frame: Frame, of: ast.expr | None
    ) -> Value | None:
        """Return the result of comparing a member of an enum, if it is no tensor; `of` is the expression read from it as
        from a tensor."""

    def emit_answer_read(self, node: ast.Attribute, owner: Value, frame: Frame) -> None:
        """Emit an attribute read as of a tensor from the result of such a comparison."""

    def emit_member_call(
        self, site: CallSite, receiver: Value | None, operation: str, operands: tuple[Value, ...]
    ) -> None:
        """Emit a method call on a member, a conversion of one, and a bool passed to an operation that takes none."""

    def emit_member_index(self, node: ast.expr, base: Value, index: Value, frame: Frame) -> None:
        """Emit a sequence indexed by a member."""

    def emit_member_walk(self, node: ast.expr, value: Value, frame: Frame) -> None:
        """Emit an iteration over the characters of a member."""

    def emit_member_sum(self, node: ast.BinOp, left: Value, frame: Frame) -> None:
        """Emit a string appended to a member."""

    def emit_truth_test(self, node: ast.expr, frame: Frame, value: Value) -> None:
        """Emit a truth test of such an attribute if it ends the graph."""

    def emit_sparse_use(self, node: ast.expr, frame: Frame, *values: Value) -> None:
        """Emit a use of sparse tensors."""

    def emit_sparse_argument(self, function: Function, site: CallSite) -> None:
        """Emit a sparse tensor passed to a function with source."""

    def lay_out(self, info: FunctionInfo, env: Env) -> None:
        """Make inputs sparse if the function's documentation says so."""

    def eval(self, node: ast.expr, frame: Frame) -> Value:
        """Evaluate an expression; emit every fact in it."""

    def emit_loop(self, node: ast.expr, value: Value, comprehension: bool, frame: Frame) -> None:
        """Emit the iteration; see through `enumerate`, `zip` and `reversed` to the iterated values."""

    def index(self, node: ast.expr, frame: Frame) -> tuple[Value, tuple[Value, ...], tuple[Value, ...]]:
        """Return (value, items of a tuple index, bounds of slices) of the expression in the brackets."""

    def element(self, value: Value) -> Value:
        """Return the value that iterating over `value` yields."""

    def container_members(self, value: Value) -> Value | None:
        """Return the Sequence or Mapping of modules that a torch.nn container holds, or None."""

    def walked_members(self, value: Value) -> Value | None:
        """Return the values that a loop over a torch.nn container visits, or None: the modules of an nn.Sequential that
        was made of a dict, the keys of any other mapping."""

    def children(self, made: Instance | ExternalInstance) -> Mapping:
        """Return the direct submodules of a module, by name."""

    def item(self, base: Value, index: Value, node: ast.expr) -> Value:
        """`base[index]`."""

    def item_of(self, base: Value, index: Value, node: ast.expr) -> Value:
        """`base[index]` for a value that is no choice."""

    def fill_container(
        self, made: Instance | ExternalInstance, kind: str, args: tuple[Value, ...], node: ast.Call
    ) -> None:
        """Set the members of a torch.nn container when it is made."""

    def dictionary_method(
        self, made: Instance, name: str, args: tuple[Value, ...], keywords: dict[str, Value]
    ) -> Value | None:
        """Return the result of a method that an object of a class of dicts inherits from Python."""

    def container_method(self, made: Instance | ExternalInstance, name: str, args: tuple[Value, ...]) -> Value | None:
        """Return the result of a torch.nn container method; None if it is no method of one."""

    def container_sum(self, left: Value, right: Value, *, in_place: bool) -> Value | None:
        """`left + right`, or `left += right`, of a container of torch.nn; None if `left` is none."""

    def sequence_method(self, receiver: Sequence, name: str, site: CallSite) -> Value | None:
        """Return the result of a method of a list, tuple or set."""

    def mapping_method(self, receiver: Mapping, name: str, site: CallSite) -> Value | None:
        """Return the result of a method of a dict."""

    def put_back(self, node: ast.expr, value: Value, frame: Frame) -> None:
        """Store the value of the expression `node` after `x.append(v)` or `x[k] = v`."""

    def delete_item(self, holder: ast.expr, base: Value, index: Value, frame: Frame) -> None:
        """Evaluate `del base[index]`, `holder` being the expression of `base`."""

    def put_item(self, holder: ast.expr, base: Value, index: Value, value: Value, frame: Frame) -> None:
        """Store `value` as an item of a dict, list or tuple, `holder` being the expression of `base`."""

    def note(self, made: Instance | ExternalInstance, name: str) -> None:
        """Note that `forward` stores this attribute: it does not exist before that has run."""

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
        """Bind `value` to a target; emit a Store for a write to an object that outlives the call."""

    def set_by_class(self, owner: Instance, name: str, value: Value, frame: Frame) -> bool:
        """Run what the class of an object does where an attribute is set; False if the object holds it after that."""

    def load_of(self, target: ast.Name | ast.Attribute | ast.Subscript) -> ast.expr:
        """Return the read that `target += ...` starts with, one node for each target."""

    def block(self, body: list[ast.stmt], frame: Frame) -> bool:
        """Interpret statements in order; False if control does not fall out of their end."""

    def call(self, function: Value, site: CallSite) -> Value:
        """Return the value of a call; several candidates are followed one by one, with less confidence each."""

    def call_each(self, function: Value, site: CallSite) -> Value | None:
        """Return the joined results of calling each alternative of `function`; None if nothing is known of any."""

    def initialise(self, made: Instance, frame: Frame, given: frozenset[str] = frozenset()) -> None:
        """Run `__init__` of an object with arguments nobody knows; those in `given` are not None."""

    def instantiate(self, cls: Class, site: CallSite, *, by_type: bool = False) -> Value:
        """Return an object made by calling a class; `by_type`: its metaclass has been called already."""

    def imported_with(self, module: ModuleInfo, names: set[str], *, own: bool = False) -> list[ClassInfo]:
        """Return the classes near a file that have all of `names`, without those derived from another one of them."""

    def derived_classes(self, cls: ClassInfo) -> list[ClassInfo]:
        """Return the classes in the file of a class, and in those of the same folder, that derive from it."""

    def near_class(self, module: ModuleInfo, name: str) -> ClassInfo | None:
        """Return the one class of that name near a file; None if there is none, or several."""

    def resolve_registered(self, site: CallSite) -> Value | None:
        """Return the result of a factory for a configuration object if its own code does not decide it."""

    def made_of_text(self, site: CallSite) -> Value | None:
        """Return the result of a function for a text that a class is registered under near the call, or for a dict with
        such a text, if the function's own code does not decide it."""

    def copy_object(self, value: Value, node: ast.Call, frame: Frame, *, deep: bool) -> Value:
        """Return a copy of an object of plain attributes, independent of it, a `deep` one with its members; anything else
        unchanged."""

    def apply_decorators(self, info: FunctionInfo, frame: Frame) -> Value:
        """Return the value that a `def` binds, with its decorators applied."""

    def close(self, frame: Frame) -> int:
        """Return the key by which functions made in `frame` refer to it."""

    def enclosed_values(self, function: Function) -> list[Value]:
        """Return the values that a function reads of its enclosing functions' variables; none if it is defined in
        none."""

    def invoke(
        self,
        function: Function,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        frame: Frame,
        confidence: Confidence,
        rest: Value | None = None,
    ) -> Value:
        """Interpret a call of a function with source; look up a situation already seen. `rest` is any number of further
        positional arguments."""

    def takes(self, function: Function, site: CallSite) -> bool:
        """Return whether a function has parameters for all its arguments; missing arguments are not checked."""

    def count_again(self, modules: Collection[int], *, making: bool) -> None:
        """Count once more what the methods of these modules ran, and their `making`: each is shared with one that is not
        interpreted."""

    def function_info(
        self, node: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef, name: str, frame: Frame
    ) -> FunctionInfo:
        """Return the one FunctionInfo of a function that is defined inside another."""

    def local_class(self, node: ast.ClassDef, frame: Frame) -> ClassInfo:
        """Return the class that a `class` statement inside a function defines."""


class Component:
    """A component of the engine; it calls the others through the engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
