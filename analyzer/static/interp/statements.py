"""Statements: control flow, and the values known where branches join."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal, cast

from tcready.static.domain import facts as F  # noqa: N812 - the facts are many and their names common words
from tcready.static.domain import priors
from tcready.static.domain.heap import BranchEffects
from tcready.static.domain.scope import Env, Frame, ReturnedValue, join_envs, positional
from tcready.static.domain.values import (
    NONE,
    UNKNOWN,
    UNROLL,
    Choice,
    Class,
    External,
    ExternalInstance,
    Function,
    Instance,
    Mapping,
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
from tcready.static.interp.forks import gives_up, place_if_missing
from tcready.static.interp.interfaces import ASSUMED_DEPTH, Component, Engine
from tcready.static.interp.match_lowering import chain_of, subject_key
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
        return not self.engine.untraced and frame.path.confidence == "high" and not frame.path.conditional

    def do_expr(self, node: ast.Expr, frame: Frame) -> None:
        self.engine.expressions.eval(node.value, frame)

    def do_return(self, node: ast.Return, frame: Frame) -> bool:
        value = self.engine.expressions.eval(node.value, frame) if node.value else NONE
        frame.returned.append(ReturnedValue(value, frame.path.confidence != "low"))
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

    def do_break(self, node: ast.Break | ast.Continue, frame: Frame) -> bool:
        frame.exits.append(frame.env)
        return False

    do_continue = do_break

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

    def do_if(self, node: ast.If, frame: Frame) -> bool:
        if self.engine.forks.is_filled_before(node, frame):
            self.engine.truth.test(node.test, "if", frame)
            if place_if_missing(node.test) is None:
                self.block(node.body, frame)
                frame.path = frame.path.against(priors.MADE_ONCE)
                return True
            with frame.against(priors.MADE_ONCE):
                return self.block(node.body, frame)
        fork = self.engine.forks.ask_if(node, frame)
        arms = {True: node.body, False: node.orelse}
        if fork.decided in fork.raises:
            # the object was made, and the call comes back: what decides the test is not as it seems
            self._take_for_granted(node.test, not fork.decided, frame)
            return self.block(arms[not fork.decided], frame)
        start = frame.env
        ends: dict[bool, Env | None] = {}
        assumed: dict[bool, Env] = {}
        ways: list[BranchEffects] = []
        # the default comes first: what the other way stores is what it may be as well
        for taken in (False, True) if fork.default is False else (True, False):
            if self.engine.untraced and taken in fork.raises and fork.decided is None:
                ends[taken] = None  # nothing is emitted for it, and none of its effects last
                continue
            frame.env = start
            with frame.on(frame.path):
                if not self.engine.forks.enter(fork, taken, frame):
                    continue
                if (not taken) in fork.raises:
                    self._demand(start, frame)
                assumed[taken], frame.env = frame.env, dict(frame.env)
                with self.engine.heap.way() as stored:
                    ends[taken] = frame.env if self.block(arms[taken], frame) else None
            if ends[taken] is not None or taken not in fork.raises:
                ways.append(stored)
        if fork.decided is not None:
            self.engine.heap.follow(ways[0])
        elif ways:
            self.engine.heap.join(*ways, *([set()] if len(ends) < 2 else []))
        # `frame.env` is replaced by assignments inside the blocks, so each end was read after its block
        merged = join_envs(*ends.values())
        if merged is None:
            return False
        if len(ends) == 2 and None not in ends.values():
            if fork.default is not None:
                _prefer_usual(merged, cast(Env, ends[fork.default]), cast(Env, ends[not fork.default]))
            _forget(start, merged, [(assumed[taken], cast(Env, ends[taken])) for taken in ends])
        if fork.default is not None and ends.get(fork.default) is None:
            frame.path = frame.path.against(priors.DEFAULT)  # by default the function has ended
        left = [taken for taken, end in ends.items() if end is not None]
        if len(left) == 1 < len(ends) and (not left[0]) not in fork.raises:
            conditions = self.engine.forks.conditions(fork, left[0])
            frame.path = frame.path.below(conditions)  # on the other way the function has ended
        frame.env = merged
        return True

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
        around, exits = frame.path, frame.exits
        with frame.on(around.inside(kind)):
            for number, member in enumerate(rounds):
                start = frame.env
                if usual and number == usual:
                    path = self.engine.forks.pass_by(frame)
                    if path is None:
                        break
                    frame.path = path
                frame.env, frame.exits = dict(start), []
                if isinstance(node, ast.While):
                    if self.engine.forks.ask(node.test, "while", frame, node).decided is False:
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
            conditions = frame.path.conditions
        frame.path, frame.exits = replace(around, conditions=conditions), exits
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
            with frame.against(priors.MEMBER):  # each kind of member has its turn
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
        around, frame.caught = frame.caught, not all(gives_up(handler.body) for handler in node.handlers)
        with frame.on(frame.path.inside("try")):
            fell = self.block(node.body, frame)
            conditions = frame.path.conditions
        frame.path = replace(frame.path, conditions=conditions)
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
            with frame.against(None if raises else priors.HANDLER), self.engine.heap.way() as stored:
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
        around = frame.path
        managers: list[Value] = []
        for item in node.items:
            value = self.engine.expressions.eval(item.context_expr, frame)
            managers.append(value)
            builtin = self._builtin(likely(value))
            with self.engine.outside_trace() if builtin else nullcontext():  # entered eagerly
                own = self.engine.protocols.enter_context(value, frame)
            name = self._context_name(value, item.context_expr, frame)
            context = self._context(name, value) if name else None
            made_before = all(isinstance(v, Instance) and self.engine.heap[v].escaping for v in options(likely(value)))
            where = self.engine.where(frame)
            self.engine.emit(F.With(where, item.context_expr, value, name, context, made_before, builtin))
            if item.optional_vars is not None:
                entered = self.engine.containers.element(value) if isinstance(value, Sequence) else UNKNOWN
                if name in K.ENTER_THEMSELVES:
                    entered = value
                entering = item.context_expr
                if name == "contextlib.nullcontext" and isinstance(entering, ast.Call) and entering.args:
                    entered = self.engine.expressions.peek(entering.args[0], frame)
                self.engine.assignment.assign(item.optional_vars, entered if own is None else own, frame)
            if context is None or context.gb_id or context.inside != "split":
                frame.path = frame.path.inside("with")
            for names, on in ((K.TURN_GRADIENTS_OFF, False), (K.MAY_TURN_GRADIENTS_ON, True)):
                if (name or "").endswith(names):
                    frame.path = replace(frame.path, gradients=on)
        fell = self.block(node.body, frame)
        for value in reversed(managers):
            with self.engine.outside_trace() if self._builtin(likely(value)) else nullcontext():
                self.engine.protocols.exit_context(value, frame)
        frame.path = frame.path.out_of(around)
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
        self.engine.forks.ask(node.test, "assert" if constant and not negated else "assertion", frame, node)
        self._take_for_granted(node.test, True, frame)

    def _take_for_granted(self, test: ast.expr, holds: bool, frame: Frame) -> None:
        """Narrow `frame` to the result of a test that lets the code continue."""
        before = frame.env
        frame.env = dict(self.engine.truth.narrow(test, holds, frame))
        self._demand(before, frame)

    def _demand(self, before: Env, frame: Frame) -> None:
        """Keep what a test requires since `before`. If a constructor tests, its caller passed a valid value: its own
        attribute, or one of an outside object, is valid from then on."""
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
            frame = Frame(given.cls.module, None, -1, {}, depth=ASSUMED_DEPTH)
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
            if (
                not self.engine.untraced
                and "try" in frame.path.enclosing
                and self.engine.names.is_missing(binding.module)
            ):
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


def _header(handler: ast.ExceptHandler) -> ast.expr:
    """Return the classes in an `except`; the keyword itself if it has none."""
    if handler.type is not None:
        return handler.type
    word = ast.copy_location(ast.Name("except", ast.Load()), handler)
    word.end_lineno, word.end_col_offset = handler.lineno, handler.col_offset + len("except")
    return word
