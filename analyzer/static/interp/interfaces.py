"""Interfaces shared by the components of the engine: calls, call-graph nodes, and the methods that components call on
each other."""

from __future__ import annotations

import ast
from collections.abc import Collection
from collections.abc import Sequence as Sequential
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from tcready.schema.value_class import dataclass
from tcready.static.domain import facts as F  # noqa: N812 - the facts are many and their names common words
from tcready.static.domain.heap import Heap
from tcready.static.domain.mro import Mro
from tcready.static.domain.path_state import Fork, PathState
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
    """One call under evaluation: its position and its arguments."""

    node: ast.Call
    args: tuple[Value, ...]
    keywords: dict[str, Value]
    frame: Frame
    rest: Value | None = None
    """Any number of further positional arguments: `*args` of unknown length."""

    @classmethod
    def unwritten(
        cls, name: str, at: ast.AST, args: tuple[Value, ...], frame: Frame, keywords: dict[str, Value]
    ) -> CallSite:
        """Return a call of `name` that is in no source and certain to run, at the position of other code."""
        node = ast.copy_location(ast.Call(ast.Name(name, ast.Load()), [], []), at)
        return cls(node, args, keywords, frame)

    def giving(self, args: tuple[Value, ...], keywords: dict[str, Value] | None = None) -> CallSite:
        """Return the same place with other arguments; without keyword arguments by default."""
        return CallSite(self.node, args, keywords or {}, self.frame)

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


class NamesInterface(Protocol):
    """What other components call of `names.NameComponent`, which documents it."""

    def module_frame(self, module: ModuleInfo) -> Frame: ...
    def ask(self, module: ModuleInfo) -> None: ...
    def resolve_name(self, name: str, frame: Frame) -> Value: ...
    def global_value(self, module: ModuleInfo, name: str) -> Value | None: ...
    def resolve_import(self, item: Import, module: ModuleInfo) -> Value: ...
    def module_member(self, module: ModuleInfo, name: str) -> Value | None: ...
    def is_missing(self, module: str) -> bool: ...
    def rebind(self, module: ModuleInfo, name: str, value: Value) -> None: ...


class ClassesInterface(Protocol):
    """What other components call of `class_bodies.Classes`, which documents it."""

    def decorate_class(self, cls: ClassInfo) -> None: ...
    def reset(self, cls: ClassInfo, name: str, value: Value) -> None: ...
    def register_into(self, module: ModuleInfo, name: str, value: Value) -> None: ...
    def metaclass_methods(self, mro: Mro, name: str) -> list[FunctionInfo]: ...
    def patch(self, cls: ClassInfo, name: str, value: Value) -> None: ...
    def replacement(self, mro: Mro, name: str, after: ClassInfo | None = None) -> Function | None: ...
    def initialisers(self, mro: Mro) -> list[Function]: ...
    def mro(self, cls: ClassInfo) -> Mro: ...
    def is_module(self, value: Value) -> bool: ...
    def assigned_attributes(self, mro: Mro) -> frozenset[str]: ...
    def reassigned_attributes(self, mro: Mro) -> dict[str, bool]: ...
    def class_attribute(self, holder: ClassInfo, name: str, owner: Value | None) -> Value: ...


class AnnotationsInterface(Protocol):
    """What other components call of `annotations.Annotations`, which documents it."""

    def annotation(self, node: ast.expr | None, module: ModuleInfo, *, sure: bool) -> Value: ...
    def documented_value(self, name: str, info: FunctionInfo) -> Value: ...
    def symbolic_instance(self, cls: ClassInfo) -> Instance: ...
    def instance_of(self, value: Value) -> Value | None: ...
    def instance_value(self, node: ast.expr, frame: Frame) -> Value | None: ...


class AttributesInterface(Protocol):
    """What other components call of `attributes.Attributes`, which documents it."""

    def attribute(self, owner: Value, name: str, frame: Frame) -> Value: ...
    def read_by(self, owner: Instance, name: str) -> str: ...
    def member(self, owner: Value, name: str, frame: Frame, after: ClassInfo | None = None) -> Value: ...
    def class_member(self, owner: Class, name: str, frame: Frame, after: ClassInfo | None = None) -> Value: ...
    def get_attribute(self, owner: Value, name: Value, default: Value | None, frame: Frame) -> Value: ...
    def has_attribute(self, value: Value, name: str) -> Value: ...


class TruthInterface(Protocol):
    """What other components call of `truth.Questions`, which documents it."""

    def test(self, node: ast.expr, kind: str, frame: Frame) -> Answer: ...
    def truthy(self, node: ast.expr, kind: str, frame: Frame) -> Value: ...
    def emit_test(self, node: ast.expr, kind: str, value: Value, frame: Frame) -> None: ...
    def answer(self, value: Value) -> Answer: ...
    def narrow(self, node: ast.expr, assume: bool, frame: Frame) -> dict[str, Value]: ...
    def is_instance(self, value: Value, node: ast.expr, frame: Frame) -> Value: ...


class ForksInterface(Protocol):
    """What other components call of `forks.Forks`, which documents it."""

    def ask(self, test: ast.expr, kind: str, frame: Frame, asker: F.Asker | None = None) -> Fork: ...
    def ask_value(self, operand: ast.expr, kind: str, frame: Frame) -> tuple[Value, Fork]: ...
    def enter(self, fork: Fork, taken: bool, frame: Frame) -> bool: ...
    def ask_if(self, node: ast.If, frame: Frame) -> Fork: ...
    def is_filled_before(self, node: ast.If, frame: Frame) -> bool: ...
    def pass_by(self, frame: Frame, types: tuple[FloatType, ...] = ()) -> PathState | None: ...
    def conditions(self, fork: Fork, taken: bool) -> tuple[F.Condition, ...]: ...


class PatternsInterface(Protocol):
    """What other components call of `match_patterns.Matching`, which documents it."""

    def fits(self, pattern: ast.pattern, subject: Value, frame: Frame) -> Value: ...
    def capture_names(self, pattern: ast.pattern, subject: Value, frame: Frame) -> dict[str, Value]: ...


class ProtocolsInterface(Protocol):
    """What other components call of `protocols.Protocols`, which documents it."""

    def special(self, owner: Value, name: str, args: tuple[Value, ...], frame: Frame) -> Value | None: ...
    def apply_operator(
        self, op: str, left: Value, right: Value, node: ast.expr, frame: Frame, *, in_place: bool = False
    ) -> Value: ...
    def apply_unary(self, op: ast.unaryop, value: Value, frame: Frame) -> Value | None: ...
    def compare(self, op: ast.cmpop, left: Value, right: Value, node: ast.expr, frame: Frame) -> Value: ...
    def truth_operand(self, value: Value, frame: Frame) -> Value: ...
    def iterate(self, value: Value, frame: Frame) -> Value: ...
    def subscript(self, base: Value, index: Value, node: ast.expr, frame: Frame) -> Value: ...
    def enter_context(self, manager: Value, frame: Frame) -> Value | None: ...
    def exit_context(self, manager: Value, frame: Frame) -> None: ...
    def call_first_method(self, value: Value, frame: Frame, *names: str) -> Value | None: ...
    def ask_order(self, walked: Value, key: Value | None, site: CallSite) -> None: ...
    def index_called(self, site: CallSite) -> Value: ...
    def read_descriptor(self, value: Value, owner: Instance | Class, name: str, frame: Frame) -> Value: ...
    def set_through(self, value: Value, owner: Instance, name: str, new: Value, frame: Frame) -> bool: ...


class RecordsInterface(Protocol):
    """What other components call of `records.Records`, which documents it."""

    def fill_record(self, made: Instance, site: CallSite) -> None: ...
    def field_names(self, cls: ClassInfo) -> tuple[str, ...]: ...
    def is_dataclass(self, cls: ClassInfo) -> bool: ...
    def row(self, value: Value) -> Sequence | None: ...
    def compared_fields(self, value: Value) -> Sequence | None: ...
    def record_method(self, made: Instance, name: str, site: CallSite) -> Value | None: ...
    def replace_fields(self, made: Instance, site: CallSite) -> Instance: ...
    def as_mapping(self, made: Value) -> Value | None: ...
    def record_class(self, site: CallSite) -> Value | None: ...
    def is_enum(self, mro: Mro) -> bool: ...
    def enum_member(self, enum: Class, name: str, value: Value) -> Value: ...
    def enum_members(self, cls: ClassInfo) -> Sequence | None: ...
    def auto_value(self, holder: ClassInfo, name: str) -> Value: ...


class RecurrentInterface(Protocol):
    """What other components call of `recurrent_modules.RecurrentModules`, which documents it."""

    def touch(self, value: Value, node: ast.expr, frame: Frame, use: F.UseOfModule = "held") -> None: ...
    def touch_attribute(self, owner: Value, value: Value, node: ast.expr, frame: Frame) -> None: ...
    def touch_handed(self, site: CallSite) -> None: ...
    def touch_by_walk(self, module: Instance | ExternalInstance, name: str, site: CallSite) -> None: ...


class SparseInterface(Protocol):
    """What other components call of `sparse_tensors.SparseTensors`, which documents it."""

    def emit_sparse_use(self, node: ast.expr, frame: Frame, *values: Value) -> None: ...
    def emit_sparse_argument(self, function: Function, site: CallSite) -> None: ...
    def lay_out(self, info: FunctionInfo, env: Env) -> None: ...


class OverridesInterface(Protocol):
    """What other components call of `torch_function.Overrides`, which documents it."""

    def call_override(
        self, operation: Value, args: tuple[Value, ...], keywords: dict[str, Value], frame: Frame
    ) -> Value | None: ...
    def by_object(
        self, operation: str, args: tuple[Value, ...], keywords: dict[str, Value], frame: Frame
    ) -> Value | None: ...
    def is_overriding(self) -> bool: ...


class UnresolvedInterface(Protocol):
    """What other components call of `unresolved_attributes.UnresolvedAttributes`, which documents it."""

    def emit_unresolved(self, node: ast.expr, frame: Frame, *values: Value, walked: bool = False) -> None: ...
    def emit_truth_test(self, node: ast.expr, frame: Frame, value: Value) -> None: ...


class EnumsInterface(Protocol):
    """What other components call of `enum_semantics.Members`, which documents it."""

    def member_compared(
        self, op: ast.cmpop, node: ast.Compare, sides: tuple[Value, Value], frame: Frame, of: ast.expr | None
    ) -> Value | None: ...
    def emit_answer_read(self, node: ast.Attribute, owner: Value, frame: Frame) -> None: ...
    def emit_member_call(
        self, site: CallSite, receiver: Value | None, operation: str, operands: tuple[Value, ...]
    ) -> None: ...
    def emit_member_index(self, node: ast.expr, base: Value, index: Value, frame: Frame) -> None: ...
    def emit_member_walk(self, node: ast.expr, value: Value, frame: Frame) -> None: ...
    def emit_member_sum(self, node: ast.BinOp, left: Value, frame: Frame) -> None: ...


class ExpressionsInterface(Protocol):
    """What other components call of `expressions.Expressions`, which documents it."""

    def eval(self, node: ast.expr, frame: Frame) -> Value: ...
    def peek(self, node: ast.expr, frame: Frame) -> Value: ...
    def emit_loop(self, node: ast.expr, value: Value, comprehension: bool, frame: Frame) -> None: ...
    def index(self, node: ast.expr, frame: Frame) -> tuple[Value, tuple[Value, ...], tuple[Value, ...]]: ...


class ContainersInterface(Protocol):
    """What other components call of `containers.Containers`, which documents it."""

    def element(self, value: Value) -> Value: ...
    def container_members(self, value: Value) -> Value | None: ...
    def walked_members(self, value: Value) -> Value | None: ...
    def children(self, made: Instance | ExternalInstance) -> Mapping: ...
    def item(self, base: Value, index: Value, node: ast.expr) -> Value: ...
    def item_of(self, base: Value, index: Value, node: ast.expr) -> Value: ...
    def fill_container(
        self, made: Instance | ExternalInstance, kind: str, args: tuple[Value, ...], node: ast.Call
    ) -> None: ...
    def dictionary_method(
        self, made: Instance, name: str, args: tuple[Value, ...], keywords: dict[str, Value]
    ) -> Value | None: ...
    def container_method(
        self, made: Instance | ExternalInstance, name: str, args: tuple[Value, ...]
    ) -> Value | None: ...
    def container_sum(self, left: Value, right: Value, *, in_place: bool) -> Value | None: ...
    def sequence_method(self, receiver: Sequence, name: str, site: CallSite) -> Value | None: ...
    def mapping_method(self, receiver: Mapping, name: str, site: CallSite) -> Value | None: ...
    def put_back(self, node: ast.expr, value: Value, frame: Frame) -> None: ...
    def delete_item(self, holder: ast.expr, base: Value, index: Value, frame: Frame) -> None: ...
    def put_item(self, holder: ast.expr, base: Value, index: Value, value: Value, frame: Frame) -> None: ...
    def note(self, made: Instance | ExternalInstance, name: str) -> None: ...


class AssignmentInterface(Protocol):
    """What other components call of `assignment.Assignment`, which documents it."""

    def set_member(self, container: Instance | ExternalInstance, name: str, value: Value) -> None: ...
    def assign(
        self,
        target: ast.expr,
        value: Value,
        frame: Frame,
        source: ast.expr | None = None,
        *,
        augmented: bool = False,
        old: Value | None = None,
    ) -> None: ...
    def set_by_class(self, owner: Instance, name: str, value: Value, frame: Frame) -> bool: ...
    def load_of(self, target: ast.Name | ast.Attribute | ast.Subscript) -> ast.expr: ...


class StatementsInterface(Protocol):
    """What other components call of `statements.Statements`, which documents it."""

    def block(self, body: list[ast.stmt], frame: Frame) -> bool: ...


class CallsInterface(Protocol):
    """What other components call of `calls.CallComponent`, which documents it."""

    def call(self, function: Value, site: CallSite) -> Value: ...
    def call_each(self, function: Value, site: CallSite) -> Value | None: ...


class ObjectsInterface(Protocol):
    """What other components call of `objects.Objects`, which documents it."""

    def build(self, cls: ClassInfo) -> Instance: ...
    def initialise(self, made: Instance, frame: Frame, given: frozenset[str] = frozenset()) -> None: ...
    def instantiate(self, cls: Class, site: CallSite, *, by_type: bool = False) -> Value: ...
    def imported_with(self, module: ModuleInfo, names: set[str], *, own: bool = False) -> list[ClassInfo]: ...
    def derived_classes(self, cls: ClassInfo) -> list[ClassInfo]: ...
    def near_class(self, module: ModuleInfo, name: str) -> ClassInfo | None: ...
    def resolve_registered(self, site: CallSite) -> Value | None: ...
    def made_of_text(self, site: CallSite) -> Value | None: ...
    def copy_object(self, value: Value, node: ast.Call, frame: Frame, *, deep: bool) -> Value: ...


class FunctionsInterface(Protocol):
    """What other components call of `functions.Functions`, which documents it."""

    def give_back(self, function: Function, site: CallSite) -> None: ...
    def apply_decorators(self, info: FunctionInfo, frame: Frame) -> Value: ...
    def close(self, frame: Frame) -> int: ...
    def enclosed_values(self, function: Function) -> list[Value]: ...
    def invoke(
        self,
        function: Function,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        frame: Frame,
        rest: Value | None = None,
    ) -> Value: ...
    def takes(self, function: Function, site: CallSite) -> bool: ...
    def count_again(self, modules: Collection[int], *, making: bool) -> None: ...
    def function_info(
        self, node: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef, name: str, frame: Frame
    ) -> FunctionInfo: ...
    def local_class(self, node: ast.ClassDef, frame: Frame) -> ClassInfo: ...


class Engine(Protocol):
    """The state of an analysis, and its components by the part of the work that each does."""

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
    call_outcomes: dict[tuple[str, int, int], str]
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
    replay: Notes | None
    """Records what is done, and what of it can be found again; None if nobody asks."""
    untraced: int
    """Above 0 while code runs that is not compiled: module level, `__init__` of objects built before."""

    names: NamesInterface
    classes: ClassesInterface
    annotations: AnnotationsInterface
    attributes: AttributesInterface
    truth: TruthInterface
    forks: ForksInterface
    patterns: PatternsInterface
    protocols: ProtocolsInterface
    records: RecordsInterface
    recurrent: RecurrentInterface
    sparse: SparseInterface
    overrides: OverridesInterface
    unresolved: UnresolvedInterface
    enums: EnumsInterface
    expressions: ExpressionsInterface
    containers: ContainersInterface
    assignment: AssignmentInterface
    statements: StatementsInterface
    calls: CallsInterface
    objects: ObjectsInterface
    functions: FunctionsInterface

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


class Component:
    """A component of the engine; it calls the others through the engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
