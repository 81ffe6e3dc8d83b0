"""The interpreter: it combines the components of the engine, and collects the results of a program.

Starting at the `forward` of a module, every function that can be reached is interpreted under the arguments
its callers give, each distinct situation once. Limits keep that finite; what they cut is counted.
"""

from __future__ import annotations

import ast
from types import TracebackType

from tcready.schema.enums import RESOLVED
from tcready.static.domain import facts as F  # noqa: N812 - the facts are many and their names common words
from tcready.static.domain.heap import Heap
from tcready.static.domain.scope import Env, Frame
from tcready.static.frontend.index import FunctionInfo, Program
from tcready.static.interp.annotations import Annotations
from tcready.static.interp.assignment import Assignment
from tcready.static.interp.attributes import Attributes
from tcready.static.interp.calls import CallComponent
from tcready.static.interp.class_bodies import Classes
from tcready.static.interp.containers import Containers
from tcready.static.interp.entries import Entries
from tcready.static.interp.enum_semantics import Members
from tcready.static.interp.expressions import Expressions
from tcready.static.interp.functions import Functions
from tcready.static.interp.interfaces import Context, Generic
from tcready.static.interp.match_patterns import Matching
from tcready.static.interp.names import NameComponent
from tcready.static.interp.objects import Objects
from tcready.static.interp.protocols import Protocols
from tcready.static.interp.records import Records
from tcready.static.interp.statements import Statements
from tcready.static.interp.torch_function import Overrides
from tcready.static.interp.truth import Questions
from tcready.static.interp.unresolved_attributes import UnresolvedAttributes
from tcready.static.library import torch_versions
from tcready.static.library.recurrent_modules import RecurrentModules
from tcready.static.library.sparse_tensors import SparseTensors
from tcready.static.library.torch_operations import Operations
from tcready.static.library.torch_versions import Version
from tcready.static.summaries.call_summaries import Switch
from tcready.static.summaries.incremental_replay import Recorded, Replay


class _OutsideTrace:
    """While it is entered, what is evaluated is not compiled code."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter

    def __enter__(self) -> None:
        self._interpreter.untraced += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._interpreter.untraced -= 1


class Interpreter:
    """One analysis of one program; `facts`, `contexts`, `edges` and `calls` are its results. The attributes are
    documented in `contract.Engine`."""

    def __init__(
        self,
        program: Program,
        training: bool | None,
        low: bool = False,
        *,
        plain_call: bool = False,
        dtype: str | None = None,
        autocast: str | None = None,
        walked: set[int] | None = None,
        torch: Version | None = None,
        edited: bool = False,
        before: Recorded | None = None,
    ) -> None:
        """Cast the model to `dtype` and run it under `autocast`, if these are given. `torch` is the version that runs the
        code; None for the newest known one. For an `edited` program, record the results for the reading
        after the next edit; `before` are those of the last one."""
        self.operations = Operations(
            program.library.tables(torch), program.library.tables, torch_versions.with_tables()
        )
        self.program, self.training, self.low, self.plain_call = program, training, low, plain_call
        self.dtype, self.autocast = dtype, autocast
        self.heap = Heap()
        self.facts: list[F.Fact] = []
        self._emitted: set[F.Fact] = set()
        self.contexts: list[Context] = []
        self.under: dict[tuple[int, int], tuple[F.Condition, ...]] = {}
        self.lines: dict[tuple[int, int], int] = {}
        self.edges: dict[tuple[int, int], dict[tuple[F.Enclosing, ...], None]] = {}
        self.calls: dict[tuple[str, int, int], str] = {}
        self.gaps: dict[tuple[str, int, int], str] = {}
        self.spread: set[ast.Call] = set()
        self.firsts: set[ast.Call] = set()
        self.unknown_callees: dict[int, dict[ast.expr, None]] = {}
        self.computing: set[int] = set()
        self.walked = walked
        self.cut = 0
        self.left_out = 0
        self.entry = 0
        self.untraced = 0
        self.switched: frozenset[Switch] = frozenset()
        self.chained: set[int] = set()
        self.closures: dict[int, Frame] = {}
        self.generic: dict[Generic, Env] = {}
        self._outside_trace = _OutsideTrace(self)
        self.replay = Replay(self, before) if edited else None
        if self.replay is not None:
            log = self.replay.log
            self.facts, self.heap.reads, self.heap.met = log.facts, log.reads, log.idents

        names = NameComponent(self)
        classes = Classes(self)
        annotations = Annotations(self)
        attributes = Attributes(self)
        questions = Questions(self)
        matching = Matching(self)
        protocols = Protocols(self)
        records = Records(self)
        recurrent = RecurrentModules(self)
        sparse = SparseTensors(self)
        overrides = Overrides(self)
        self.call_override, self.is_overriding = overrides.call_override, overrides.is_overriding
        self.by_object = overrides.by_object
        unresolved = UnresolvedAttributes(self)
        self.emit_unresolved, self.emit_truth_test = unresolved.emit_unresolved, unresolved.emit_truth_test
        members = Members(self)
        self.member_compared, self.emit_answer_read = members.member_compared, members.emit_answer_read
        self.emit_member_call, self.emit_member_index = (members.emit_member_call, members.emit_member_index)
        self.emit_member_walk, self.emit_member_sum = members.emit_member_walk, members.emit_member_sum
        expressions = Expressions(self)
        containers = Containers(self)
        assignment = Assignment(self)
        statements = Statements(self)
        calls = CallComponent(self)
        objects = Objects(self)
        functions = Functions(self)
        entries = Entries(self)
        self.module_frame, self.ask = names.module_frame, names.ask
        self.resolve_name, self.global_value = names.resolve_name, names.global_value
        self.resolve_import = names.resolve_import
        self.module_member = names.module_member
        self.unlikely, self.is_missing = names.unlikely, names.is_missing
        self.decorate_class = classes.decorate_class
        self.patch = classes.patch
        self.rebind, self.reset, self.register_into = names.rebind, classes.reset, classes.register_into
        self.metaclass_methods = classes.metaclass_methods
        self.replacement = classes.replacement
        self.initialisers = classes.initialisers
        self.mro = classes.mro
        self.is_module = classes.is_module
        self.assigned_attributes = classes.assigned_attributes
        self.reassigned_attributes = classes.reassigned_attributes
        self.class_attribute = classes.class_attribute
        self.annotation, self.documented_value = annotations.annotation, annotations.documented_value
        self.symbolic_instance = annotations.symbolic_instance
        self.instance_value, self.instance_of = annotations.instance_value, annotations.instance_of
        self.attribute = attributes.attribute
        self.member, self.read_by = attributes.member, attributes.read_by
        self.class_member = attributes.class_member
        self.get_attribute = attributes.get_attribute
        self.has_attribute = attributes.has_attribute
        self.test = questions.test
        self.truthy = questions.truthy
        self.emit_test = questions.emit_test
        self.evaluate_with_cause = questions.evaluate_with_cause
        self.follow = questions.follow
        self.reads_unknown_attribute = questions.reads_unknown_attribute
        self.in_first_call = questions.in_first_call
        self.condition = questions.condition
        self.answer = questions.answer
        self.narrow = questions.narrow
        self.is_instance = questions.is_instance
        self.fits, self.capture_names = matching.fits, matching.capture_names
        self.apply_operator, self.apply_unary = protocols.apply_operator, protocols.apply_unary
        self.compare = protocols.compare
        self.special = protocols.special
        self.truth_operand = protocols.truth_operand
        self.iterate = protocols.iterate
        self.subscript = protocols.subscript
        self.enter_context, self.exit_context = protocols.enter_context, protocols.exit_context
        self.call_first_method = protocols.call_first_method
        self.ask_order, self.index_called = protocols.ask_order, protocols.index_called
        self.read_descriptor, self.set_through = protocols.read_descriptor, protocols.set_through
        self.fill_record = records.fill_record
        self.is_dataclass = records.is_dataclass
        self.row = records.row
        self.compared_fields = records.compared_fields
        self.record_method = records.record_method
        self.replace_fields = records.replace_fields
        self.as_mapping = records.as_mapping
        self.record_class = records.record_class
        self.is_enum, self.enum_member = records.is_enum, records.enum_member
        self.field_names = records.field_names
        self.enum_members, self.auto_value = records.enum_members, records.auto_value
        self.touch, self.touch_attribute = recurrent.touch, recurrent.touch_attribute
        self.touch_by_walk, self.touch_handed = recurrent.touch_by_walk, recurrent.touch_handed
        self.emit_sparse_use, self.emit_sparse_argument = sparse.emit_sparse_use, sparse.emit_sparse_argument
        self.lay_out = sparse.lay_out
        self.eval = expressions.eval
        self.emit_loop = expressions.emit_loop
        self.index = expressions.index
        self.element = containers.element
        self.container_members = containers.container_members
        self.walked_members = containers.walked_members
        self.dictionary_method = containers.dictionary_method
        self.children = containers.children
        self.item = containers.item
        self.item_of = containers.item_of
        self.fill_container = containers.fill_container
        self.container_method, self.container_sum = containers.container_method, containers.container_sum
        self.sequence_method = containers.sequence_method
        self.mapping_method = containers.mapping_method
        self.put_back, self.put_item = containers.put_back, containers.put_item
        self.delete_item = containers.delete_item
        self.note = containers.note
        self.assign, self.set_by_class = assignment.assign, assignment.set_by_class
        self.set_member = assignment.set_member
        self.load_of = assignment.load_of
        self.block = statements.block
        self.call = calls.call
        self.call_each = calls.call_each
        self.instantiate, self.initialise = objects.instantiate, objects.initialise
        self.made_of_text = objects.made_of_text
        self.resolve_registered, self.imported_with = objects.resolve_registered, objects.imported_with
        self.near_class, self.derived_classes = objects.near_class, objects.derived_classes
        self.copy_object = objects.copy_object
        self.apply_decorators = functions.apply_decorators
        self.close = functions.close
        self.enclosed_values = functions.enclosed_values
        self.invoke, self.give_back = functions.invoke, functions.give_back
        self.count_again = functions.count_again
        self.function_info, self.takes = functions.function_info, functions.takes
        self.local_class = functions.local_class
        self.build, self.run_forward, self.run_function, self.run_called = (
            objects.build,
            entries.run_forward,
            entries.run_function,
            entries.run_called,
        )

    def take_apart(self) -> None:
        """Nothing more is asked: what was built goes at once. Rooms know the interpreter and it knows them, so else all
        of it would wait for garbage to be collected, which takes several times as long."""
        self.__dict__.clear()

    def outside_trace(self) -> _OutsideTrace:
        """Evaluate code that runs before the compiled call, or only look at it: emit no fact."""
        return self._outside_trace

    def is_strong(self, frame: Frame) -> bool:
        """Return whether a store replaces the old value: while a model is built, on the single path that is taken."""
        return bool(self.untraced) and not (frame.conditional or frame.multi_path)

    def where(self, frame: Frame) -> F.Where:
        """Return the position of `frame`, for a fact."""
        known = frame.where
        if (
            known is None
            or known.enclosing is not frame.enclosing
            or known.conditions is not frame.conditions
            or known.confidence != frame.confidence
            or known.conditional != frame.conditional
        ):
            known = frame.where = F.Where(
                str(frame.module.path),
                frame.symbol,
                frame.context,
                frame.enclosing,
                frame.confidence,
                frame.conditional,
                frame.conditions,
            )
        return known

    def emit(self, fact: F.Fact) -> None:
        """Keep a fact, unless what runs is not compiled."""
        if not self.untraced:
            known = len(self._emitted)
            self._emitted.add(fact)
            if len(self._emitted) > known:
                self.facts.append(fact)

    def note_call(self, info: FunctionInfo, line: int, column: int, became: str) -> None:
        """Record what became of a call; `line` counts from where its function begins."""
        key = str(info.module.path), info.node.lineno + line, column
        if self.calls.get(key) in (None, *RESOLVED):
            self.calls[key] = became
