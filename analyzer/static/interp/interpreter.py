"""The interpreter: it combines the components of the engine, and collects the results of a program.

Starting at the `forward` of a module, every function that can be reached is interpreted under the arguments
its callers give, each distinct situation once. Limits keep that finite; what they cut is counted.
"""

from __future__ import annotations

from types import TracebackType

from tcready.schema.enums import RESOLVED
from tcready.static.domain import facts as F  # noqa: N812 - the facts are many and their names common words
from tcready.static.domain.heap import Heap
from tcready.static.domain.scope import Frame
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
from tcready.static.interp.forks import Forks
from tcready.static.interp.functions import Functions
from tcready.static.interp.interfaces import Engine
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


class Interpreter(Engine):
    """One analysis of one program; `facts`, `contexts`, `edges` and `call_outcomes` are its results. `interfaces.Engine`
    documents the attributes."""

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
        self.facts = []
        self._emitted: set[F.Fact] = set()
        self.contexts = []
        self.under = {}
        self.lines = {}
        self.edges = {}
        self.call_outcomes = {}
        self.gaps = {}
        self.spread = set()
        self.firsts = set()
        self.unknown_callees = {}
        self.computing = set()
        self.walked = walked
        self.cut = 0
        self.left_out = 0
        self.entry = 0
        self.untraced = 0
        self.switched = frozenset()
        self.chained = set()
        self.closures = {}
        self.generic = {}
        self._outside_trace = _OutsideTrace(self)
        self.replay = Replay(self, before) if edited else None
        if self.replay is not None:
            log = self.replay.log
            self.facts, self.heap.reads, self.heap.met = log.facts, log.reads, log.idents

        self.names = NameComponent(self)
        self.classes = Classes(self)
        self.annotations = Annotations(self)
        self.attributes = Attributes(self)
        self.truth = Questions(self)
        self.forks = Forks(self)
        self.patterns = Matching(self)
        self.protocols = Protocols(self)
        self.records = Records(self)
        self.recurrent = RecurrentModules(self)
        self.sparse = SparseTensors(self)
        self.overrides = Overrides(self)
        self.unresolved = UnresolvedAttributes(self)
        self.enums = Members(self)
        self.expressions = Expressions(self)
        self.containers = Containers(self)
        self.assignment = Assignment(self)
        self.statements = Statements(self)
        self.calls = CallComponent(self)
        self.objects = Objects(self)
        self.functions = Functions(self)
        self.entries = Entries(self)

    def take_apart(self) -> None:
        """Drop every reference, after the last use: components and interpreter refer to each other, so everything would
        wait for the garbage collector otherwise, which takes several times as long."""
        self.__dict__.clear()

    def outside_trace(self) -> _OutsideTrace:
        return self._outside_trace

    def is_strong(self, frame: Frame) -> bool:
        return bool(self.untraced) and not (frame.path.conditional or frame.path.multi_path)

    def where(self, frame: Frame) -> F.Where:
        path = frame.path
        if frame.where is None or frame.where[0] is not path:
            state = path.enclosing, path.confidence, path.conditional, path.conditions
            frame.where = path, F.Where(str(frame.module.path), frame.symbol, frame.context, *state)
        return frame.where[1]

    def emit(self, fact: F.Fact) -> None:
        if not self.untraced:
            known = len(self._emitted)
            self._emitted.add(fact)
            if len(self._emitted) > known:
                self.facts.append(fact)

    def note_call(self, info: FunctionInfo, line: int, column: int, became: str) -> None:
        key = str(info.module.path), info.node.lineno + line, column
        if self.call_outcomes.get(key) in (None, *RESOLVED):
            self.call_outcomes[key] = became
