"""Statements: control flow, and the values known where branches join."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import Any, Literal, cast

from tcready.static.domain import facts as F  # noqa: N812 - the facts are many and their names common words
from tcready.static.domain.heap import BranchEffects
from tcready.static.domain.scope import Env, Frame, ReturnedValue, join_envs, positional
from tcready.static.domain.values import (
    NONE,
    UNKNOWN,
    UNROLL,
    Answer,
    Choice,
    Class,
    External,
    ExternalInstance,
    Function,
    Instance,
    Mapping,
    Plain,
    Sequence,
    Unknown,
    Value,
    holds_tensor,
    join,
    likely,
    members_of,
    options,
    prefer,
    tensor_of,
    widen,
)
from tcready.static.frontend.index import imports_of
from tcready.static.interp.interfaces import ASSUMED_DEPTH, Component, Engine
from tcready.static.interp.match_lowering import Fits, chain_of, subject_key, values_test
from tcready.static.library import semantics as K  # noqa: N812
from tcready.static.library.torch_tables import ContextEntry

MAX_ROUNDS = 8
"""The rounds of a loop, beside one for each name that it assigns: a limit if widening does not end it."""
WIDEN_AFTER = 3
OF_ENTRY = 1
"""The depth of calls of the function that is compiled."""


class Statements(Component):
    """Interprets statements: control flow, and the values known where branches join."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._handlers: dict[type, Callable[[Any, Frame], bool | None]] = {}
        self._filling: dict[ast.If, bool] = {}
        self._last: dict[ast.AST, frozenset[ast.If]] = {}
        """The last tests of a function before it raises."""
        self._chains: dict[ast.Match, list[ast.stmt]] = {}
        """The statements equivalent to match statements."""
        self._demanded: dict[int, frozenset[str]] = {}
        """The attributes that a constructor requires of an outside object: they are not None."""

    def block(self, body: list[ast.stmt], frame: Frame) -> bool:
        """Interpret statements in order; False if control does not fall out of their end."""
        walked = self.engine.walked
        for statement in body:
            if walked is not None and self._runs_by_default(frame):
                walked.add(id(statement))
            frame.line = statement.lineno
            kind = type(statement)
            if kind not in self._handlers:
                self._handlers[kind] = getattr(self, f"do_{kind.__name__.lower()}", _pass_over)
            if self._handlers[kind](statement, frame) is False:
                return False
        return True

    def _runs_by_default(self, frame: Frame) -> bool:
        return not self.engine.untraced and frame.confidence == "high" and not frame.conditional

    def do_expr(self, node: ast.Expr, frame: Frame) -> None:
        self.engine.expressions.eval(node.value, frame)

    def do_return(self, node: ast.Return, frame: Frame) -> bool:
        value = self.engine.expressions.eval(node.value, frame) if node.value else NONE
        frame.returned.append(ReturnedValue(value, frame.confidence != "low"))
        frame.end()
        if frame.key:
            frame.left.append(frame.env)
        if node.value is not None and frame.depth == OF_ENTRY and not self.engine.untraced:
            holds = self._unreproducible_member(value)
            if holds is not None:
                self.engine.emit(F.Returned(self.engine.where(frame), node.value, holds))
        return False

    def _unreproducible_member(self, value: Value, depth: int = 2) -> Literal["method", "default"] | None:
        """Return the kind of member of an object with source, or of one in a container, that no code can recreate."""
        chosen = likely(value)
        if isinstance(chosen, (Sequence, Mapping)):
            members = members_of(chosen) if isinstance(chosen, Sequence) else (v for _, v in chosen.entries)
            found = (self._unreproducible_member(member, depth - 1) for member in members if depth)
            return next((holds for holds in found if holds is not None), None)
        if (
            not isinstance(chosen, Instance)
            or self.engine.heap[chosen].escaping
            or self.engine.classes.is_module(chosen)
        ):
            return None
        for attribute in map(likely, self.engine.heap[chosen].attributes.values()):
            if not isinstance(attribute, Function):
                continue
            if isinstance(attribute.bound, Instance) and not self.engine.heap[attribute.bound].escaping:
                return "method"
            if self._is_default(attribute, chosen):
                return "default"
        return None

    def _is_default(self, function: Function, owner: Instance) -> bool:
        """Return whether a function is a lambda that is a default of the class's `__init__`."""
        inits = [info.node.args for info in self.engine.classes.mro(owner.cls).functions("__init__")[:1]]
        return any(d is function.info.node for spec in inits for d in (*spec.defaults, *spec.kw_defaults))

    def do_raise(self, node: ast.Raise, frame: Frame) -> bool:
        if node.exc is not None and not self.engine.untraced:
            self.engine.expressions.eval(node.exc, frame)
        return False

    def do_break(self, node: ast.Break, frame: Frame) -> bool:
        frame.exits.append(frame.env)
        return False

    def do_continue(self, node: ast.Continue, frame: Frame) -> bool:
        frame.exits.append(frame.env)
        return False

    def do_assign(self, node: ast.Assign, frame: Frame) -> None:
        value = self.engine.expressions.eval(node.value, frame)
        for target in node.targets:
            self.engine.assignment.assign(target, value, frame, node.value)

    def do_annassign(self, node: ast.AnnAssign, frame: Frame) -> None:
        if node.value is not None:
            value = self.engine.expressions.eval(node.value, frame)
            if isinstance(value, Unknown):
                declared = self.engine.annotations.annotation(node.annotation, frame.module, sure=True)
                value = value if isinstance(declared, Unknown) else declared
            self.engine.assignment.assign(node.target, value, frame, node.value)

    def do_augassign(self, node: ast.AugAssign, frame: Frame) -> None:
        target = node.target
        old = self.engine.expressions.eval(self.engine.assignment.load_of(target), frame)
        value = self.engine.expressions.eval(node.value, frame)
        self.engine.sparse.emit_sparse_use(target, frame, old, value)
        self.engine.unresolved.emit_unresolved(target, frame, old, value, walked=True)
        result = self.engine.protocols.apply_operator(type(node.op).__name__, old, value, target, frame, in_place=True)
        if isinstance(old, Sequence) and isinstance(node.op, ast.Add) and old.escaping:
            result = Sequence(
                "list", None, join(self.engine.containers.element(old), self.engine.containers.element(value)), True
            )
        self.engine.assignment.assign(target, result, frame, node.value, augmented=True, old=old)

    def _fills_what_is_missing(self, node: ast.If) -> bool:
        """Return whether state is made unless it exists: `if self.cache.get(key) is None: ... self.cache[key] = ...`."""
        if node not in self._filling:
            place = _missing_place(node.test)
            self._filling[node] = place is not None and any(
                isinstance(inner, (ast.Attribute, ast.Subscript))
                and isinstance(inner.ctx, ast.Store)
                and ast.unparse(inner) == place
                for inner in ast.walk(node)
            )
        return self._filling[node]

    def _sets_what_is_missing(self, body: list[ast.stmt], frame: Frame) -> bool:
        """Return whether an object under construction gets an attribute here that it lacks: one of the branches that set
        that attribute runs, however unlikely each is."""
        if not self.engine.untraced:
            return False
        nodes = (inner for statement in body for inner in ast.walk(statement))
        stored = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
        owners = (
            (self.engine.names.resolve_name(place.value.id, frame), place.attr)
            for place in stored
            if isinstance(place.value, ast.Name)
        )
        return any(
            isinstance(owner, Instance) and name not in self.engine.heap[owner].attributes for owner, name in owners
        )

    def _is_filled_before(self, node: ast.If, frame: Frame) -> bool:
        """Return whether a test reads state of the whole process that is made unless it exists, below the test or (if the
        function returns when it exists) after it. The first use makes it permanently for all models, mostly while one is
        built or called without being compiled."""
        if self.engine.untraced or node.orelse or frame.function is None:
            return False
        missing = _place_if_missing(node.test)
        place = _place_if_present(node.test) if missing is None else missing
        if missing is None and not isinstance(node.body[-1], ast.Return):
            return False
        if missing is not None and not isinstance(node.body[-1], (ast.Assign, ast.AnnAssign)):
            return False
        nodes = frame.function.nodes if missing is None else ast.walk(node)
        return self._is_process_global(place, frame) and any(
            isinstance(inner, (ast.Name, ast.Attribute))
            and isinstance(inner.ctx, ast.Store)
            and place is not None
            and ast.unparse(inner) == ast.unparse(place)
            for inner in nodes
        )

    def _is_process_global(self, place: ast.expr | None, frame: Frame) -> bool:
        """Return whether it is a global of the file, a variable that a function stores for its inner one (`print_once =
        once(print)`), or an attribute of an object made at import."""
        if isinstance(place, ast.Name):
            return frame.outside.get(place.id) in ("global", "nonlocal")
        if not isinstance(place, ast.Attribute) or not isinstance(place.value, ast.Name):
            return False
        owner = self.engine.names.resolve_name(place.value.id, frame)
        return all(isinstance(v, Instance) and self.engine.heap[v].process_global for v in options(owner))

    def do_if(self, node: ast.If, frame: Frame) -> bool:
        if self._is_filled_before(node, frame):
            self.engine.truth.test(node.test, "if", frame)
            if _place_if_missing(node.test) is None:
                self.block(node.body, frame)
                frame.confidence = "low"
                return True
            with frame.no_surer_than("low"):
                return self.block(node.body, frame)
        frame.decided_by = None
        frame.guarding = isinstance(node.body[0], ast.Raise) and not node.orelse
        frame.asker = node
        answer = self.engine.truth.test(node.test, "if", frame)
        frame.guarding = False
        undecided = answer.decided is None and frame.decided_by in F.DECIDED_OUTSIDE
        guess = answer.likely
        untold = (
            answer.decided is None and guess is None and self.engine.truth.reads_unknown_attribute(node.test, frame)
        )
        goes_on = self._goes_on(node, frame)
        one_of_many = undecided and guess is None and goes_on is None and _is_single_case(node.test)
        if one_of_many and self._is_walked(node.test, frame):
            one_of_many = False
        elif one_of_many and not node.orelse and not self._sets_what_is_missing(node.body, frame):
            guess = False
        if answer.decided is None and guess is None and not self.engine.untraced and _is_outgrown(node):
            guess = False
        if guess is not None and _gives_up(node.body if guess else node.orelse):
            guess = None  # a default that raises is none
        if answer.decided is not None and _gives_up(node.body if answer.decided else node.orelse):
            # the object was made, and the call comes back: what decides the test is not as it seems
            other = node.orelse if answer.decided else node.body
            self._take_for_granted(node.test, not answer.decided, frame)
            return self.block(other, frame)
        arms = [
            (taken, body)
            for taken, body in ((True, node.body), (False, node.orelse))
            if answer.decided in (None, taken)
        ]
        if guess is False:  # the default comes first: what the other way stores is what it may be as well
            arms.reverse()
        lower = self.engine.names.unlikely(frame, answer.types if guess == answer.likely else ())
        followed = [taken for taken, _ in arms if lower is not None or guess in (None, taken)]
        # of what a constructor chooses from, each is as likely
        rare = one_of_many and guess is None and not self.engine.untraced and _arms_by_literal(node) > 2
        conditions = frame.conditions
        usual = answer
        filling = answer.decided is None and answer.likely is None and self._fills_what_is_missing(node)
        if filling:
            usual = Answer(None, True)  # a first call finds nothing there
        if goes_on is not None and answer.decided is None and guess is None:
            usual = Answer(None, goes_on)  # a usual call raises nothing
        first = self.engine.truth.in_first_call(node.test, frame) if undecided and guess is None else None
        under = {taken: self.engine.truth.condition(node.test, taken, usual, frame.decided_by) for taken, _ in arms}
        ends: dict[bool, Env | None] = {}
        assumed: dict[bool, Env] = {}
        ways: list[BranchEffects] = []
        start = frame.env
        for taken, body in arms:
            if self.engine.untraced and _gives_up(body):
                ends[taken] = None  # nothing is emitted for it, and none of its effects last
                continue
            passed_by = guess is not None and guess != taken
            if passed_by and lower is None:
                continue
            frame.env = start
            with frame.preserve("conditional", "conditions", "confidence", "multi_path"):
                of_size = bool(under[taken]) and under[taken][0].decided_by == "size"
                if passed_by or rare:
                    frame.confidence = lower or "low"
                elif answer.decided is None and _gives_up(body):
                    frame.confidence = "low"  # a usual call raises nothing
                elif (of_size or untold) and frame.confidence == "high":
                    frame.confidence = "medium"  # who knows what sizes it is given
                frame.conditional |= (
                    undecided
                    and guess is None
                    and not (filling and taken)
                    and goes_on is not taken
                    and first is not taken
                )
                frame.multi_path |= len(followed) > 1
                if _gives_up(node.orelse if taken else node.body):
                    self._take_for_granted(node.test, taken, frame)
                else:
                    frame.env = dict(self.engine.truth.narrow(node.test, taken, frame))
                assumed[taken] = dict(frame.env)
                frame.conditions = (*conditions, *under[taken])
                with self.engine.heap.way() as stored:
                    ends[taken] = frame.env if self.block(body, frame) else None
            if ends[taken] is not None or not _gives_up(body):
                ways.append(stored)
        if answer.decided is not None and ways:
            self.engine.heap.follow(ways[0])
        elif ways:
            self.engine.heap.join(*ways, *([set()] if len(ends) < 2 else []))
        # `frame.env` is replaced by assignments inside the blocks, so each end was read after its block
        merged = join_envs(*ends.values())
        if merged is None:
            return False
        if len(ends) == 2 and None not in ends.values():
            if guess is not None:
                _prefer_usual(merged, cast(Env, ends[guess]), cast(Env, ends[not guess]))
            _forget(start, merged, [(assumed[taken], cast(Env, ends[taken])) for taken in ends])
        if guess is not None and answer.decided is None and ends.get(guess) is None and lower is not None:
            frame.confidence = lower  # by default the function has ended
        left = [taken for taken, end in ends.items() if end is not None]
        if len(left) == 1 < len(ends) and not _gives_up(dict(arms)[not left[0]]):
            frame.conditions = (*conditions, *under[left[0]])  # on the other way the function has ended
        frame.env = merged
        return True

    def _goes_on(self, node: ast.If, frame: Frame) -> bool | None:
        """Return the result of a test if the other branch only raises; None if neither does, or both."""
        raises = _gives_up(node.body), _gives_up(node.orelse)
        if raises == (False, False) and not node.orelse and _leaves(node.body) and frame.function is not None:
            whole = frame.function.node
            if whole not in self._last:
                body = [] if isinstance(whole, ast.Lambda) else whole.body
                self._last[whole] = frozenset(_last_before_raise(body))
            raises = False, node in self._last[whole]
        return None if raises[0] == raises[1] else raises[1]

    def _is_walked(self, test: ast.expr, frame: Frame) -> bool:
        """Return whether a test compares with one of the constants that a loop of this function goes through: each has
        its turn."""
        left = test.left if isinstance(test, ast.Compare) else None
        if not isinstance(left, ast.Name) or frame.function is None:
            return False
        if not all(isinstance(v, Plain) and v.origin == "constant" for v in options(frame.env.get(left.id, NONE))):
            return False
        return any(
            isinstance(inner, ast.Name) and inner.id == left.id
            for loop in frame.function.nodes
            if isinstance(loop, (ast.For, ast.comprehension))
            for inner in ast.walk(loop.target)
        )

    def _loop(
        self,
        frame: Frame,
        kind: F.Enclosing,
        rounds: Iterable[Value | None],
        node: ast.For | ast.AsyncFor | ast.While,
        *,
        known: int = 0,
        usual: int = 0,
    ) -> bool:
        """Interpret a loop's body round by round, until nothing new is learnt.

        `known`: so many rounds are those that the loop has, and all of them run. Else what still changes after
        WIDEN_AFTER rounds is widened, so that few more suffice. `usual`: so many rounds are those that it has by default,
        and others are improbable.
        """
        leaving: list[Env] = []
        fell = True
        ways: list[BranchEffects] = []
        with frame.preserve("exits", "conditional", "confidence"), frame.inside(kind):
            for number, member in enumerate(rounds):
                start = frame.env
                if usual and number == usual:
                    lower = self.engine.names.unlikely(frame)
                    if lower is None:
                        break
                    frame.confidence = lower
                frame.env, frame.exits = dict(start), []
                if isinstance(node, ast.While):
                    frame.asker = node
                    if self.engine.truth.test(node.test, "while", frame).decided is False:
                        break
                    frame.env = dict(self.engine.truth.narrow(node.test, True, frame))
                elif member is not None:
                    self.engine.assignment.assign(node.target, member, frame)
                with self.engine.heap.way() as stored:
                    fell = self.block(node.body, frame)
                ways.append(stored)
                leaving.extend(frame.exits)
                if known and fell and not leaving:
                    continue  # what a round assigns is assigned
                merged = join_envs(start, frame.env if fell else None, *frame.exits)
                assert merged is not None
                for name, value in merged.items():  # what a way out of the loop has only asked is what it was
                    if value != start.get(name) and _is_rearranged(start.get(name), value):
                        merged[name] = start[name]
                if not known and number >= WIDEN_AFTER:
                    merged = {n: v if v == start.get(n) else widen(v) for n, v in merged.items()}
                frame.env = merged
                if merged == start and number + 1 >= usual:
                    break
        if known == len(ways) and fell and not leaving:
            for stored in ways:
                self.engine.heap.follow(stored)
        elif ways:
            self.engine.heap.join(*ways, set())
        return self.block(node.orelse, frame)

    def do_for(self, node: ast.For | ast.AsyncFor, frame: Frame) -> bool:
        value = self.engine.protocols.iterate(self.engine.expressions.eval(node.iter, frame), frame)
        self.engine.expressions.emit_loop(node.iter, value, False, frame)
        members = self.engine.containers.walked_members(value)
        source = members if members is not None else value
        if self.engine.untraced:
            source = likely(source)  # while a model is built, what its defaults list
        if isinstance(source, Sequence) and source.items is not None and not (source.escaping and not source.items):
            items = source.items
            if not items:
                return self.block(node.orelse, frame)
            if len(items) <= UNROLL or (self.engine.untraced and _sets_by_name(node.body)):
                if len(items) > 1:
                    return self._loop(frame, "for", items, node, known=len(items))
                return self._loop(frame, "for", items * 2, node)
        element = self.engine.containers.element(value)
        if members is not None and isinstance(element, Choice):
            with frame.no_surer_than("medium"):  # each kind of member has its turn, in an order nobody knows
                turns = (*element.options, element)
                return self._loop(frame, "for", turns, node, known=len(turns))
        usual = likely(source)
        if usual is not source and isinstance(usual, Sequence) and usual.items and len(usual.items) <= UNROLL:
            rounds = itertools.chain(usual.items, _rounds(element, node))
            return self._loop(frame, "for", rounds, node, usual=len(usual.items))
        return self._loop(frame, "for", _rounds(element, node), node)

    do_asyncfor = do_for

    def do_while(self, node: ast.While, frame: Frame) -> bool:
        return self._loop(frame, "while", _rounds(None, node), node)

    def do_try(self, node: ast.Try, frame: Frame) -> bool:
        before = dict(frame.env)
        known, left = len(frame.returned), len(frame.exits)
        around, frame.caught = frame.caught, not all(_gives_up(handler.body) for handler in node.handlers)
        with frame.inside("try"):
            fell = self.block(node.body, frame)
        frame.caught = around
        raises = not fell and (known, left) == (len(frame.returned), len(frame.exits))
        after = frame.env
        made = [v for name, v in after.items() if before.get(name) is not v]
        made += [each.value for each in frame.returned[known:]]
        if any(map(tensor_of, made)):
            for handler in node.handlers:
                caught = None if handler.type is None else self.engine.expressions.eval(handler.type, frame)
                reraises = isinstance(handler.body[-1], ast.Raise)
                self.engine.emit(F.Handler(self.engine.where(frame), _header(handler), caught, reraises))
        if fell and node.orelse:
            fell = self.block(node.orelse, frame)
        completes = fell or len(frame.returned) > known
        end, returned = frame.env, list(frame.returned)
        at_raise = join_envs(before, after) or before
        for handler in node.handlers:
            frame.env = dict(at_raise)
            if handler.name:
                frame.env[handler.name] = UNKNOWN
            sure = frame.confidence if raises else "low"  # an exception has to be raised first
            with frame.no_surer_than(sure), self.engine.heap.way() as stored:
                handled = self.block(handler.body, frame)
            self.engine.heap.join(stored, set())
            if handled and not completes:
                fell, end = True, frame.env
        gave = returned[known:]
        if completes and not (gave and all(each.value == UNKNOWN for each in gave)):
            frame.returned = returned  # what is known afterwards is what holds when nothing was raised
        frame.env = end
        if not self.block(node.finalbody, frame):
            return False
        return fell

    do_trystar = do_try

    def do_with(self, node: ast.With | ast.AsyncWith, frame: Frame) -> bool:
        with frame.preserve("enclosing", "gradients", "without_gradients"):
            managers: list[Value] = []
            for item in node.items:
                value = self.engine.expressions.eval(item.context_expr, frame)
                managers.append(value)
                builtin = self._builtin(likely(value))
                with self.engine.outside_trace() if builtin else nullcontext():  # entered eagerly
                    own = self.engine.protocols.enter_context(value, frame)
                name = self._context_name(value, item.context_expr, frame)
                context = self._context(name, value) if name else None
                made_before = all(
                    isinstance(v, Instance) and self.engine.heap[v].escaping for v in options(likely(value))
                )
                where = self.engine.where(frame)
                self.engine.emit(F.With(where, item.context_expr, value, name, context, made_before, builtin))
                if item.optional_vars is not None:
                    entered = self.engine.containers.element(value) if isinstance(value, Sequence) else UNKNOWN
                    if name in K.ENTER_THEMSELVES:
                        entered = value
                    entering = item.context_expr
                    if name == "contextlib.nullcontext" and isinstance(entering, ast.Call) and entering.args:
                        with self.engine.outside_trace():
                            entered = self.engine.expressions.eval(entering.args[0], frame)
                    self.engine.assignment.assign(item.optional_vars, entered if own is None else own, frame)
                if context is None or context.gb_id or context.inside != "split":
                    frame.enclosing = (*frame.enclosing, "with")
                frame.gradients = frame.gradients or (name or "").endswith(K.MAY_TURN_GRADIENTS_ON)
                frame.without_gradients = frame.without_gradients or (name or "").endswith(K.TURN_GRADIENTS_OFF)
            fell = self.block(node.body, frame)
            for value in reversed(managers):
                with self.engine.outside_trace() if self._builtin(likely(value)) else nullcontext():
                    self.engine.protocols.exit_context(value, frame)
        return fell

    do_asyncwith = do_with

    def _context(self, name: str, value: Value) -> ContextEntry | None:
        """Return how this torch handles a context manager."""
        managers = [v for v in options(value) if isinstance(v, ExternalInstance) and v.ident]
        escaping = any(self.engine.heap[made].escaping for made in managers)
        return self.engine.operations.context_of(name, made_before=escaping)

    def _builtin(self, value: Value) -> str:
        """Return the Python type for which an object with source is no context manager to Dynamo; empty if it is one."""
        names = self.engine.classes.mro(value.cls).external if isinstance(value, Instance) else ()
        return next((name for name in names if name in K.NO_CONTEXTS), "")

    def _context_name(self, value: Value, node: ast.expr, frame: Frame) -> str | None:
        """Return the external name of a context manager, or of the function that makes it."""
        name = next((v.name for v in options(value) if isinstance(v, (External, ExternalInstance))), None)
        if name is None and isinstance(node, ast.Call):
            called = options(self.engine.expressions.eval(node.func, frame))
            name = next((v.name for v in called if isinstance(v, External)), None)
        return name

    def do_match(self, node: ast.Match, frame: Frame) -> bool:
        subject = self.engine.expressions.eval(node.subject, frame)
        patterns = (p for case in node.cases for p in ast.walk(case.pattern))
        compared = next((p for p in patterns if isinstance(p, ast.MatchValue)), None)
        if compared is not None:  # Python asks whether the subject equals the first value
            self.engine.truth.emit_test(compared.value, "match", subject, frame)
        if node not in self._chains:
            self._chains[node] = chain_of(node)
        key = subject_key(node)
        frame.env = {**frame.env, key: subject}
        fell = self.block(self._chains[node], frame)
        frame.env = {name: value for name, value in frame.env.items() if name != key}
        return fell

    def do_assert(self, node: ast.Assert, frame: Frame) -> None:
        """Interpret `assert`: Dynamo takes `assert t` and `assert t, "text"` into the graph; anything else is a branch to
        it."""
        constant = node.msg is None or isinstance(node.msg, ast.Constant)
        negated = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
        frame.asker = node
        self.engine.truth.test(node.test, "assert" if constant and not negated else "assertion", frame)
        self._take_for_granted(node.test, True, frame)

    def _take_for_granted(self, test: ast.expr, holds: bool, frame: Frame) -> None:
        """Narrow `frame` to the result of a test that lets the code continue. If a constructor tests, its caller passed a
        valid value: its own attribute, or one of an outside object, is valid from then on."""
        before = frame.env
        frame.env = dict(self.engine.truth.narrow(test, holds, frame))
        info = frame.function
        if not self.engine.untraced or info is None or info.name != "__init__":
            return
        first = next((arg.arg for arg, _ in positional(info.node.args)), "")
        made = frame.env.get(first)
        narrowed = [key for key in frame.env if "." in key and frame.env[key] is not before.get(key)]
        for key in narrowed if isinstance(made, Instance) else ():
            assert isinstance(made, Instance)
            name, _, attribute = key.partition(".")
            given = frame.env.get(name)
            if name == first:
                self.engine.heap[made].update(attribute, frame.env[key], strong=True)
            elif isinstance(given, Instance) and self.engine.heap[given].symbolic:
                known = self._require_attribute(given, attribute, frame.env[key], made)
                frame.env = {n: known if value == given else value for n, value in frame.env.items()}
                for attribute_name, value in [*self.engine.heap[made].attributes.items()]:
                    if value == given:
                        self.engine.heap[made].update(attribute_name, known, strong=True)

    def _require_attribute(self, given: Instance, name: str, value: Value, asker: Instance) -> Instance:
        """Return the outside object that `asker` needs, if an attribute of it has to be like `value`."""
        ident = self.engine.heap.ident("demanded", given.ident, asker.ident, name, escaping=True)
        known = Instance(ident, given.cls)
        self.engine.heap[known].take(self.engine.heap[given])
        self._demanded[ident] = self._demanded.get(given.ident, frozenset()) | {name}
        if self.engine.classes.is_module(given) and NONE not in options(value):
            frame = Frame(given.cls.module, None, -1, "high", {}, depth=ASSUMED_DEPTH)
            self.engine.objects.initialise(known, frame, self._demanded[ident])
        else:
            self.engine.heap[known].update(name, value, strong=True)
        return known

    def do_delete(self, node: ast.Delete, frame: Frame) -> None:
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                base = self.engine.expressions.eval(target.value, frame)
                index, parts, slices = self.engine.expressions.index(target.slice, frame)
                self.engine.emit(F.Index(self.engine.where(frame), target, base, index, parts, slices, "del"))
                self.engine.containers.delete_item(target.value, base, index, frame)

    def do_functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> None:
        frame.env[node.name] = self.engine.functions.apply_decorators(
            self.engine.functions.function_info(node, node.name, frame), frame
        )

    do_asyncfunctiondef = do_functiondef

    def do_classdef(self, node: ast.ClassDef, frame: Frame) -> None:
        self.engine.emit(F.Define(self.engine.where(frame), node))
        frame.env[node.name] = Class(self.engine.functions.local_class(node, frame), self.engine.functions.close(frame))

    def do_import(self, node: ast.Import | ast.ImportFrom, frame: Frame) -> bool:
        for local, binding in imports_of(frame.module, node):
            if frame.caught and self.engine.untraced and self.engine.names.is_missing(binding.module):
                return False
            if not self.engine.untraced and "try" in frame.enclosing and self.engine.names.is_missing(binding.module):
                root = binding.module.partition(".")[0]
                self.engine.emit(F.Imported(self.engine.where(frame), node, root))
                return False
            if local != "*":
                frame.env[local] = self.engine.names.resolve_import(binding, frame.module)
        return True

    do_importfrom = do_import

    def do_global(self, node: ast.Global, frame: Frame) -> None:
        frame.outside.update(dict.fromkeys(node.names, "global"))

    def do_nonlocal(self, node: ast.Nonlocal, frame: Frame) -> None:
        frame.outside.update(dict.fromkeys(node.names, "nonlocal"))


def _rounds(member: Value | None, node: ast.For | ast.AsyncFor | ast.While) -> Iterator[Value | None]:
    """Return the values of each round of a loop. A name learnt in a round may affect only one more name in the next."""
    yield from itertools.repeat(member, MAX_ROUNDS)
    stored = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    yield from itertools.repeat(member, len(stored))


def _pass_over(_statement: ast.stmt, _frame: Frame) -> None:
    """Ignore `pass`, and statements that bind or run nothing compiled."""


def _forget(start: Env, merged: Env, ways: list[tuple[Env, Env]]) -> None:
    """Restore after both branches of a test the value of a name that neither assigned, without the narrowing."""
    for name, value in start.items():
        if name in merged and merged[name] is not value:
            if all(end.get(name) is assumed.get(name) for assumed, end in ways):
                merged[name] = value


def _is_single_case(test: ast.expr) -> bool:
    """Return whether it is `x == "name"`, `"name" in x`, `x.dtype == torch.float16` (or a conjunction with one): one case
    of many."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(map(_is_single_case, test.values))
    if isinstance(test, Fits):
        plain = values_test(test)
        return plain is not None and _is_single_case(plain)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    return isinstance(test.ops[0], (ast.Eq, ast.In)) and any(
        _is_text(side) for side in (test.left, test.comparators[0])
    )


def _is_outgrown(node: ast.If) -> bool:
    """Return whether it is `if length > self.size: self.grow(length)`: a buffer made for the usual case is made anew."""
    test = node.test
    conditions = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    return not node.orelse and any(map(_compares_with_self, conditions)) and all(map(_writes_self, node.body))


def _compares_with_self(test: ast.expr) -> bool:
    """Return whether it is `length > self.size` or similar: one side is the object's."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    ordered = isinstance(test.ops[0], (ast.Gt, ast.GtE, ast.Lt, ast.LtE))
    return ordered and _is_of_self(test.left) != _is_of_self(test.comparators[0])


def _is_of_self(node: ast.expr) -> bool:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and node.id == "self"


def _writes_self(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call) and _is_of_self(node.value)
    return isinstance(node, ast.Assign) and all(isinstance(t, ast.Attribute) and _is_of_self(t) for t in node.targets)


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return bool(node.elts) and all(map(_is_text, node.elts))
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _place_if_missing(test: ast.expr) -> ast.expr | None:
    """Return the expression that `not place` or `place is None` tests."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Is):
        other = test.comparators[0]
        return test.left if isinstance(other, ast.Constant) and other.value is None else None
    return None


def _place_if_present(test: ast.expr) -> ast.expr | None:
    """Return the expression that `place` or `place is not None` tests."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.IsNot):
        other = test.comparators[0]
        return test.left if isinstance(other, ast.Constant) and other.value is None else None
    return test if isinstance(test, (ast.Name, ast.Attribute)) else None


def _missing_place(test: ast.expr) -> str | None:
    """Return the attribute or item that a test requires to be missing, as text; None for another test."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.NotIn):
        return f"{ast.unparse(test.comparators[0])}[{ast.unparse(test.left)}]"
    place = _place_if_missing(test)
    if isinstance(place, ast.Call) and isinstance(place.func, ast.Attribute) and place.func.attr == "get":
        return f"{ast.unparse(place.func.value)}[{ast.unparse(place.args[0])}]" if place.args else None
    return ast.unparse(place) if isinstance(place, (ast.Attribute, ast.Subscript)) else None


def _arms_by_literal(node: ast.If) -> int:
    """Return the number of branches of an `if`/`elif` chain that compare with literals; 1 if it is no such chain."""
    return 1 + sum(1 for _ in itertools.takewhile(lambda each: _is_single_case(each.test), _chain(node)))


def _chain(node: ast.If) -> Iterator[ast.If]:
    """Yield an `if` and its `elif`s."""
    yield node
    while len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        node = node.orelse[0]
        yield node


def _sets_by_name(body: list[ast.stmt]) -> bool:
    """Return whether it is `setattr(self, name, value)`, as in a loop over constructor arguments, or `table[name] =
    value`: each name has its own value."""
    return len(body) == 1 and any(
        (isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id == "setattr")
        or (isinstance(inner, ast.Assign) and isinstance(inner.targets[0], ast.Subscript))
        for inner in ast.walk(body[0])
    )


def _is_rearranged(before: Value | None, value: Value) -> bool:
    """Return whether both have the same alternatives, with another order known."""
    if not isinstance(before, Choice) or not before.likely or not isinstance(value, Choice):
        return False
    return len(before.options) == len(value.options) and {*before.options} == {*value.options}


def _prefer_usual(merged: Env, usual: Env, other: Env) -> None:
    """Prefer the values of the usual branch for names that two branches bind differently. For tensors no branch is
    preferred: one of several is known."""
    for name in usual.keys() & other.keys():
        first, second = usual[name], other[name]
        if first != second and not any(map(holds_tensor, (first, second))):
            merged[name] = prefer(first, second)


def _last_before_raise(body: list[ast.stmt]) -> Iterator[ast.If]:
    """Return the last test of each chain of which every branch leaves the function, and after which it raises."""
    for statement, after in itertools.pairwise(body):
        if isinstance(statement, ast.If) and isinstance(after, ast.Raise):
            tests = [*_chain(statement)]
            if not tests[-1].orelse and all(_leaves(test.body) for test in tests):
                yield tests[-1]


def _leaves(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], (ast.Return, ast.Raise))


def _gives_up(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Raise)


def _header(handler: ast.ExceptHandler) -> ast.expr:
    """Return the classes in an `except`; the keyword itself if it has none."""
    if handler.type is not None:
        return handler.type
    word = ast.copy_location(ast.Name("except", ast.Load()), handler)
    word.end_lineno, word.end_col_offset = handler.lineno, handler.col_offset + len("except")
    return word
