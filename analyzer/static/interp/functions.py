"""Functions: decorators, parameters, and the interpretation of a body, each situation once."""

from __future__ import annotations

import ast
import copy
import dataclasses
from collections.abc import Collection

from tcready.static.domain.facts import Alone, undecided
from tcready.static.domain.path_state import PathState
from tcready.static.domain.scope import Env, Frame, ReturnedValue, positional
from tcready.static.domain.values import (
    NONE,
    TAINTED,
    UNKNOWN,
    Choice,
    Class,
    Const,
    External,
    ExternalInstance,
    Function,
    Instance,
    Mapping,
    Partial,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    comes_of_tensors,
    join,
    keep,
    likely,
    options,
    partial_of,
    prefer,
    tensor_of,
    widen,
    without_none,
)
from tcready.static.frontend.index import ClassInfo, FunctionInfo, build_class
from tcready.static.interp.interfaces import MAX_UNTRACED_DEPTH, CallSite, Component, Context, Engine
from tcready.static.library import semantics as K  # noqa: N812
from tcready.static.summaries import call_statistics
from tcready.static.summaries.call_summaries import SummaryStep, Switch

MAX_CONTEXTS = 12
"""Situations in which one function is interpreted before its arguments are generalised."""
SHORT_CONTEXTS = 4 * MAX_CONTEXTS
"""The limit for a function that does no more than return: a helper that all of a program calls (`exists(x)`,
`divisible_by(a, b)`) soon means nothing, and costs little."""
MAX_DEPTH = 48
MAX_DERIVED = 8
"""Classes that one `class` statement in a function defines, one for each tuple of bases."""
DECORATOR_DEPTH = 2
"""Call levels followed in a decorator: its result is made near its surface, and the rest of it writes documentation or
checks its argument."""
FEWER = ((5_000, MAX_CONTEXTS // 4), (3_000, MAX_CONTEXTS), (0, SHORT_CONTEXTS))
"""From this total number of interpretations on, each function gets this many: minutes become seconds, and all code is
still reached."""
MAX_CALLS = 60_000
LOCAL = ".<locals>."
"""Part of the dotted name of a definition inside a function."""
CONSTANT_MARK = "_dynamo_marked_constant"
"""The attribute of a function that `torch.compiler.assume_constant_result` decorates."""
INNER = "_defined"
"""The attribute of a node with its definition, if it is in no function."""


class Functions(Component):
    """Functions: decorators, parameters, and the interpretation of a body, each situation once."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._decorated: dict[FunctionInfo, Value] = {}
        self._calls: dict[ast.expr, ast.Call] = {}
        """The calls represented by decorators that are classes."""
        self._closures = engine.closures
        self._counts: dict[tuple[FunctionInfo, bool], int] = {}
        """Situations of each function, separate for code before the compiled call."""
        self._again: dict[tuple[FunctionInfo, bool], int] = {}
        """Situations that would have been met again in modules replaced by shared ones."""
        self._situations: dict[tuple[object, ...], int] = {}
        """Situations by number (the function, its arguments, and the enclosing scope): these values are slow to hash."""
        self._memo: dict[tuple[object, ...], tuple[int, Value | None, frozenset[Switch]]] = {}
        """The context of a situation, its result, and the class attributes after it."""
        self._changed_tables: dict[int, dict[str, tuple[Value, Value]]] = {}
        """The changes that calls made to tables among their arguments: by the parameter, the value before and after."""
        self._last = -1
        """The situation of the call that ended last."""
        self._given: dict[int, Value] = {}
        """The results of compiled calls, with any confidence that they run: a repeated query gets the same."""
        self._idle: dict[tuple[object, ...], int] = {}
        """The contexts of checks that changed nothing during construction: they stay idle whatever their object
        becomes."""
        self._followed: int = 0
        self._generic = engine.generic
        """The merged environment for further situations of a function, separate for each object and for each model with
        it."""

    def apply_decorators(self, info: FunctionInfo, frame: Frame) -> Value:
        """Return the value that a `def` binds, with its decorators applied."""
        if frame.function is None and info in self._decorated:
            return self._decorated[info]
        value: Value = Function(info, None, self.close(frame) if frame.function else 0)
        if frame.function is None:
            self._decorated[info] = value  # a decorator that asks for its own function gets it bare
        for node in reversed(info.decorators):
            decorator = self.engine.expressions.peek(node, frame)
            if frame.function is not None and not self.engine.untraced:
                self._emit_decorator(node, value, frame)
            with self.engine.outside_trace():
                value = self._decorate(decorator, value, node, info, frame)
        if frame.function is None:
            self._decorated[info] = value
        return value

    def _emit_decorator(self, node: ast.expr, value: Value, frame: Frame) -> None:
        """Emit the effect of a decorator on a function that is defined while tracing, if it has no source."""
        inner = node.func if isinstance(node, ast.Call) else node
        decorator = self.engine.expressions.peek(inner, frame)
        if isinstance(decorator, External):
            if isinstance(node, ast.Call):
                self.engine.expressions.eval(node, frame)
            self.engine.calls.call(decorator, CallSite(self._call_of(inner), (value,), {}, frame))

    def _decorate(self, decorator: Value, value: Value, node: ast.expr, info: FunctionInfo, frame: Frame) -> Value:
        """Return the function after `decorator`, the value of the expression `node`, is applied to it."""
        if isinstance(decorator, External) and decorator.name in K.PROPERTIES:
            return partial_of(K.PROPERTY, ((0, value),))
        if isinstance(decorator, (External, ExternalInstance)):
            operator = _operator_made(decorator.name, node)
            if operator and not self.engine.program.registers_fake(operator):
                return External(f"{K.CUSTOM_OP}.{operator.replace('::', '.')}")
            return self.engine.operations.decorated(decorator.name, value)
        near = dataclasses.replace(frame, depth=max(frame.depth, MAX_UNTRACED_DEPTH - DECORATOR_DEPTH))
        result: Value | None = None
        if isinstance(decorator, Function):
            if self.engine.replay is not None:
                self.engine.replay.read(decorator.info)
            if _wraps_for_scripting(decorator.info):
                return value
            if isinstance(value, Function) and _marks_as_constant(decorator.info):
                return dataclasses.replace(value, constant=True)
            result = self.invoke(decorator, (value,), {}, near)
        elif isinstance(decorator, Class):
            result = self._made_by(decorator, value, node, near)
        elif isinstance(decorator, Instance):
            result = self.engine.protocols.special(decorator, "__call__", (value,), near)
            if result is None and isinstance(value, Function):
                external = self.engine.classes.mro(decorator.cls).external
                return self.engine.operations.decorated_by_object(external, value)
        if result is not None:
            wrapped = [v for v in options(result) if isinstance(v, (Function, Instance, Partial))]
            return join(*wrapped) if wrapped else value
        if isinstance(decorator, Unknown):
            if self.engine.replay is not None:
                self.engine.replay.outside += 1
            self.engine.gaps[str(info.module.path), info.node.lineno, info.node.col_offset] = call_statistics.DECORATOR
        return value

    def _made_by(self, cls: Class, value: Value, node: ast.expr, frame: Frame) -> Value | None:
        """Return the object that a class makes of a function it decorates, if it is callable or a descriptor."""
        mro = self.engine.classes.mro(cls.info)
        descriptors = mro.functions("__get__")
        if not descriptors and K.PROPERTIES.intersection(mro.external):
            return partial_of(K.PROPERTY, ((0, value),))
        if not descriptors and not mro.functions("__call__"):
            return None
        return self.engine.objects.instantiate(cls, CallSite(self._call_of(node), (value,), {}, frame))

    def _call_of(self, decorator: ast.expr) -> ast.Call:
        """Return the call that Python makes when a function is defined."""
        if decorator not in self._calls:
            self._calls[decorator] = ast.copy_location(ast.Call(decorator, [], []), decorator)
        return self._calls[decorator]

    def close(self, frame: Frame) -> int:
        """Return the key by which functions made in `frame` refer to it."""
        if not frame.key:
            frame.key = len(self._closures) + 1
            self._closures[frame.key] = frame
            if self.engine.replay is not None:
                self.engine.replay.closed(frame)
        return frame.key

    def enclosed_values(self, function: Function) -> list[Value]:
        """Return the values that a function reads of its enclosing functions' variables; none if it is defined in
        none."""
        around = self._closures.get(function.closure)
        if self.engine.replay is not None:
            self.engine.replay.used(function.closure)
        if around is None or around.function is None:
            return []
        if self.engine.replay is not None:
            self.engine.replay.read(function.info)
        spec = function.info.node.args
        own = {arg.arg for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)}
        read = {node.id for node in function.info.nodes if isinstance(node, ast.Name)} - own
        return [value for name in sorted(read) if (value := around.lookup(name)) is not None]

    def invoke(
        self,
        function: Function,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        frame: Frame,
        rest: Value | None = None,
    ) -> Value:
        """Interpret a call of a function with source; look up a situation already seen. `rest` is any number of further
        positional arguments."""
        info = function.info
        if info.owner is not None and not function.closure:
            function = self._bind_scope(function, info.owner)
        if function.given:
            args = (*(v for k, v in function.given if isinstance(k, int)), *args)
            keywords = {**{k: v for k, v in function.given if isinstance(k, str)}, **keywords}
        if function.bound is not None:
            args = (function.bound, *args)
        env = self._parameters(info, args, keywords, rest, function.closure)
        self.engine.sparse.lay_out(info, env)
        counted = info, bool(self.engine.untraced)
        loud: object = bool(self.engine.untraced)
        alone = len(args) == 1 and not keywords and info.name != "__init__"
        if self.engine.untraced and alone and isinstance(args[0], Instance):
            # while things are built, what a property gives changes; a tuple, for version 0 would be as good as False
            loud = True, self.engine.heap[args[0]].version
        before = self.engine.switched
        situation_key = self._situation_key(function, env)
        situation = self._situation(situation_key)
        around = (frame.path.confidence, loud, frame.path.conditional)
        replay = self.engine.replay
        if replay is not None and function.closure:
            replay.used(function.closure)
        few = SHORT_CONTEXTS if info.is_short else MAX_CONTEXTS
        if self._counts.get(counted, 0) >= few and (situation, *around) not in self._memo:
            model = self.engine.entry if function.bound is not None else 0
            env = self._generalised((*counted, function.bound, model), env)
            situation_key = self._situation_key(function, env)
            situation = self._situation(situation_key)
        self._last = situation
        if self.engine.untraced and situation in self._given and self._is_compiled(frame):
            return self._given[situation]
        key = (situation, *around)
        if key in self._memo:
            context, known, self.engine.switched = self._memo[key]
            self._link(frame, context)
            return known if known is not None else UNKNOWN
        idle = (situation, frame.path.confidence, frame.path.conditional)
        if loud and idle in self._idle:
            self._link(frame, self._idle[idle])
            return NONE
        limit = MAX_UNTRACED_DEPTH if self.engine.untraced else MAX_DEPTH
        most = next(most for calls, most in FEWER if self._followed >= calls)
        often = self._counts.get(counted, 0) + self._again.get(counted, 0) >= most
        if often or frame.depth >= limit or self._followed >= MAX_CALLS:
            self.engine.cut += not self.engine.untraced
            self.engine.left_out += 1
            if replay is not None:
                replay.outside += 1
            return TAINTED if any(map(comes_of_tensors, env.values())) else UNKNOWN
        self.engine.program.library.go_on()
        if replay is not None:
            caller = (frame.context, frame.depth, *sorted(self.engine.chained))
            replay.meet(situation_key, around, caller, info)
            replay.outside += bool(self.engine.untraced)
            step = replay.step() if not (self.engine.untraced or function.closure) else None
            if step is not None:
                return self._found_again(step, frame)
        self._followed += 1
        self._counts[counted] = self._counts.get(counted, 0) + 1
        owner = function.bound
        module = owner.ident if isinstance(owner, Instance) and self.engine.classes.is_module(owner) else None
        context = len(self.engine.contexts)
        self.engine.contexts.append(
            Context(
                context,
                info,
                module,
                info.symbol,
                str(info.module.path),
                not self.engine.untraced,
                tuple(env.values()),
                self._closures.get(function.closure),
                frame.depth + 1,
            )
        )
        self._link(frame, context)
        entry_state = replay.enter() if replay is not None else None
        self._memo[key] = (context, None, before)
        changes = self.engine.heap.changes.count
        inner = Frame(
            info.module,
            info,
            context,
            env,
            PathState(frame.path.confidence, frame.path.conditional),
            self._closures.get(function.closure),
            depth=frame.depth + 1,
            filled=_tables(info, env),
        )
        eager = False
        if info.is_generator and isinstance(info.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = next(iter(info.decorators), info.node)
            eager = not self.engine.untraced and frame.context == self.engine.entry and not info.decorators
            self.engine.emit(Alone(self.engine.where(inner), first, entry=eager))
        try:
            result = UNKNOWN if eager else self._body(info, inner)
        except RecursionError:  # nested deeper than the interpreter's own stack
            self.engine.cut += not self.engine.untraced
            result = UNKNOWN
            if replay is not None:
                replay.outside += 1
        self._memo[key] = (context, result, self.engine.switched)
        self._last = situation
        filled = _changed_tables(env, inner.ends)
        if filled:
            self._changed_tables[situation] = filled
        if not self.engine.untraced:
            self._given[situation] = result
        if loud and changes == self.engine.heap.changes.count and info.only_looks:
            self._idle[idle] = context
        if replay is not None:
            apart = self.engine.untraced or function.closure or filled
            replay.leave(context, result, None if apart else entry_state)
        return result

    def give_back(self, function: Function, site: CallSite) -> None:
        """Hand the caller what the last call of a function stored in the tables that it got as arguments."""
        filled = self._changed_tables.get(self._last)
        if filled is None or len(site.node.args) != len(site.args):
            return
        taken = sum(isinstance(name, int) for name, _ in function.given) + (function.bound is not None)
        names = [arg.arg for arg, _ in positional(function.info.node.args)][taken:]
        placed = zip(names, site.node.args, strict=False)  # `*args` takes more than there are names
        given = [*placed, *((k.arg, k.value) for k in site.node.keywords)]
        for name, node in given:
            if name in filled and isinstance(node, (ast.Name, ast.Attribute)):
                before, after = filled[name]
                is_it = self.engine.expressions.peek(node, site.frame) == before
                if is_it:
                    self.engine.containers.put_back(node, after, site.frame)

    def _bind_scope(self, function: Function, owner: ClassInfo) -> Function:
        """Give a method of a class defined in a function the variables of that function."""
        bound, closure = function.bound, 0
        if isinstance(bound, Class):
            closure = bound.closure
        elif isinstance(bound, Instance) and LOCAL in owner.symbol:
            closure = self.engine.heap[bound].closure
        around = self._closures.get(closure)
        if around is None or around.function is None or owner not in around.function.inner.values():
            return function
        return dataclasses.replace(function, closure=closure)

    def _found_again(self, step: SummaryStep, frame: Frame) -> Value:
        """Return the result of a call in an unchanged situation."""
        assert self.engine.replay is not None
        met = self.engine.replay.take(step)
        for number, each in enumerate(met, step.first):
            assert each.function is not None
            assert each.gave is not None
            counted = each.function, False
            self._followed += 1
            self._counts[counted] = self._counts.get(counted, 0) + 1
            situation = self._situation(each.situation_key)
            key = (situation, *each.around)
            self._memo[key] = number, each.gave, each.switched
            self._given[situation] = each.gave
        self._link(frame, step.first)
        first = met[0]
        assert first.gave is not None
        self.engine.switched = first.switched
        return first.gave

    def count_again(self, modules: Collection[int], *, making: bool) -> None:
        """Count once more what the methods of these modules ran, and their `making`: each is shared with one that is not
        interpreted. So all models of a file are followed as far as if each were read by itself."""
        for context in self.engine.contexts:
            if context.module in modules and context.function is not None and (making or context.compiled):
                counted = context.function, not context.compiled
                self._again[counted] = self._again.get(counted, 0) + 1

    def _situation_key(self, function: Function, env: Env) -> tuple[object, ...]:
        return (function.info, function.closure, tuple(env.items()), self.engine.switched)

    def _situation(self, situation_key: tuple[object, ...]) -> int:
        return self._situations.setdefault(situation_key, len(self._situations))

    def _is_compiled(self, frame: Frame) -> bool:
        return frame.context >= 0 and self.engine.contexts[frame.context].compiled

    def _link(self, frame: Frame, callee: int) -> None:
        """Record a call, the blocks around it, and its conditions."""
        edge = frame.context, callee
        if self.engine.replay is not None and edge not in self.engine.edges:
            self.engine.replay.linked(*edge)
        self.engine.edges.setdefault(edge, {})[frame.path.enclosing] = None
        self.engine.lines[edge] = min(self.engine.lines.get(edge, frame.line), frame.line)
        known = self.engine.under.get(edge)
        if known is None or len(undecided(frame.path.conditions)) < len(undecided(known)):
            self.engine.under[edge] = frame.path.conditions

    def _body(self, info: FunctionInfo, frame: Frame) -> Value:
        node = info.node
        if isinstance(node, ast.Lambda):
            return self.engine.expressions.eval(node.body, frame)
        if self.engine.statements.block(node.body, frame):
            frame.returned.append(ReturnedValue(NONE, frame.path.confidence != "low"))
            frame.end()
        if frame.yielded:
            return Sequence("iterator", None, join(*frame.yielded))
        returned = _join_returns(frame.returned)
        vague = isinstance(returned, Unknown) or (
            isinstance(returned, Sequence)
            and any(isinstance(v, Unknown) for member in returned.items or () for v in options(member))
        )
        if vague and node.returns is not None:
            return _complete(returned, self.engine.annotations.annotation(node.returns, info.module, sure=True))
        return returned

    def _generalised(self, key: tuple[FunctionInfo, bool, Value | None, int], env: Env) -> Env:
        # a constant that every call gives stays one: the second that differs makes it any
        wide = {n: v if isinstance(v, Const) else widen(v) for n, v in env.items()}
        known = self._generic.get(key)
        if known is not None:
            wide = {name: join(known[name], value) if name in known else value for name, value in wide.items()}
        self._generic[key] = wide
        if self.engine.replay is not None:
            self.engine.replay.generalised(key, known, wide)
        return wide

    def _parameters(
        self, info: FunctionInfo, args: tuple[Value, ...], keywords: dict[str, Value], rest: Value | None, closure: int
    ) -> Env:
        """Bind arguments to names as Python does; what is not given takes its default, else what its annotation says.

        Of `rest`, any number of further positional arguments, parameters without default are given one. Who has a
        default keeps it: passing on `*args` says nothing of what is in them.
        """
        spec = info.node.args
        env: Env = {}
        named = positional(spec)
        left = dict(keywords)
        home = self._closures.get(closure) or self.engine.names.module_frame(info.module)
        for index, (arg, default) in enumerate(named):
            if index < len(args):
                left.pop(arg.arg, None)
                env[arg.arg] = self._argument(args[index], arg, info, default is None)
            elif arg.arg in left:
                env[arg.arg] = self._argument(left.pop(arg.arg), arg, info, default is None)
            elif rest is not None and default is None:
                env[arg.arg] = self._argument(rest, arg, info)
            else:
                env[arg.arg] = self._default(arg, default, info, home)
                if rest is not None and env[arg.arg] == NONE:
                    env[arg.arg] = prefer(NONE, self._argument(rest, arg, info))
        for arg, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            if arg.arg in left:
                env[arg.arg] = self._argument(left.pop(arg.arg), arg, info)
            else:
                env[arg.arg] = self._default(arg, default, info, home)
        if spec.vararg is not None:
            env[spec.vararg.arg] = self._further(info, spec.vararg, args[len(named) :], rest, len(named))
        if spec.kwarg is not None:
            env[spec.kwarg.arg] = Mapping(tuple(left.items()), UNKNOWN, extra=True)
        return env

    def _further(
        self, info: FunctionInfo, vararg: ast.arg, extra: tuple[Value, ...], rest: Value | None, named: int
    ) -> Value:
        """Return the value of `*args`: the arguments that no other parameter takes."""
        declared = self.engine.annotations.annotation(vararg.annotation, info.module, sure=True)
        extra = tuple(declared if isinstance(v, Unknown) and not isinstance(declared, Unknown) else v for v in extra)
        known = Sequence("tuple", extra, UNKNOWN)
        if rest is None:
            return known
        some = Sequence("tuple", None, join(*extra, rest))
        return prefer(known, some) if named > (info.owner is not None) else some

    def _argument(self, value: Value, arg: ast.arg, info: FunctionInfo, required: bool = False) -> Value:
        if required and arg.annotation is not None and isinstance(value, Choice) and NONE in value.options:
            declared = self.engine.annotations.annotation(arg.annotation, info.module, sure=True)
            if isinstance(declared, Instance):  # who calls this with nothing has seen to it that it is there
                value = without_none(value)
        vague = isinstance(value, Unknown) or (
            isinstance(value, Plain) and value.kind is None and value.origin in ("config", "constant")
        )
        if isinstance(value, Unknown) and arg.annotation is None:
            documented = self.engine.annotations.documented_value(arg.arg, info)
            return value if isinstance(documented, Unknown) else documented
        odd = (Unknown, Plain) if tensor_of(value) else Unknown
        partly = isinstance(value, Choice) and any(isinstance(v, odd) for v in value.options)
        if not (vague or partly) or arg.annotation is None:
            return value
        declared = self.engine.annotations.annotation(arg.annotation, info.module, sure=True)
        if isinstance(declared, Unknown) or vague:
            return value if isinstance(declared, Unknown) else declared
        odd = odd if isinstance(declared, Tensor) else Unknown
        known = keep(value, lambda v: not isinstance(v, odd))
        return prefer(known, declared) if likely(value) != value else join(known, declared)

    def _default(self, arg: ast.arg, default: ast.expr | None, info: FunctionInfo, home: Frame) -> Value:
        if default is None and arg.annotation is None:
            return self.engine.annotations.documented_value(arg.arg, info)
        if default is None:
            return self.engine.annotations.annotation(arg.annotation, info.module, sure=True)
        return self.engine.expressions.peek(default, home)

    def takes(self, function: Function, site: CallSite) -> bool:
        """Return whether a function has parameters for all its arguments; missing arguments are not checked."""
        spec = function.info.node.args
        named = positional(spec)
        filled = [key for key, _ in function.given if isinstance(key, int)]
        count = len(site.args) + len(filled) + (function.bound is not None)
        if spec.vararg is None and count > len(named):
            return False
        names = {arg.arg for arg, _ in named[len(spec.posonlyargs) :]} | {arg.arg for arg in spec.kwonlyargs}
        return spec.kwarg is not None or names.issuperset(site.keywords)

    def function_info(
        self, node: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef, name: str, frame: Frame
    ) -> FunctionInfo:
        """Return the one FunctionInfo of a function that is defined inside another."""
        inner = frame.function.inner if frame.function else vars(node).setdefault(INNER, {})
        found = inner.get(node)
        if not isinstance(found, FunctionInfo):
            prefix = f"{frame.symbol}{LOCAL}" if frame.function else ""
            found = inner[node] = FunctionInfo(name, prefix + name, frame.module, node, None)
        return found

    def local_class(self, node: ast.ClassDef, frame: Frame) -> ClassInfo:
        """Return the class that a `class` statement inside a function defines."""
        inner = frame.function.inner if frame.function else vars(node).setdefault(INNER, {})
        symbol = f"{frame.symbol}{LOCAL}{node.name}"
        found = inner.get(node)
        if not isinstance(found, ClassInfo):
            found = inner[node] = build_class(frame.module, node, symbol)
        names = {n.id for base in node.bases for n in ast.walk(base) if isinstance(n, ast.Name)}
        if frame.function is None or names.isdisjoint(frame.env):
            return found
        # each call may derive it from another class
        bases = tuple(self.engine.expressions.peek(base, frame) for base in node.bases)
        made = [each for each in inner.values() if isinstance(each, ClassInfo) and each.node.body is node.body]
        known = next((each for each in made if each.derives == bases), None)
        if known is not None or len(made) > MAX_DERIVED:
            return known or found
        variant = copy.copy(node)
        inner[variant] = derived = build_class(frame.module, variant, symbol, derives=bases)
        return derived


def _operator_made(decorator: str, node: ast.expr) -> str:
    """Return the `namespace::name` of the operator that a decorator makes of a function; empty if it makes none by
    name."""
    if decorator != K.CUSTOM_OP or not isinstance(node, ast.Call) or not node.args:
        return ""
    name = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
    return name if isinstance(name, str) and name.count("::") == 1 else ""


def _wraps_for_scripting(info: FunctionInfo) -> bool:
    """Return whether a decorator marks its wrapper as `torch.jit.script_if_tracing` does: Dynamo then calls the wrapped
    function."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == "__script_if_tracing_wrapper"
        and isinstance(node.ctx, ast.Store)
        for node in info.nodes
    )


def _marks_as_constant(info: FunctionInfo) -> bool:
    """Return whether a decorator marks its argument as `torch.compiler.assume_constant_result` does."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr == CONSTANT_MARK and isinstance(node.ctx, ast.Store))
        or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "setattr"
            and any(isinstance(each, ast.Constant) and each.value == CONSTANT_MARK for each in node.args)
        )
        for node in info.nodes
    )


def _complete(value: Value, declared: Value) -> Value:
    """Return an unknown value, or its unknown members, according to the annotation."""
    if isinstance(value, Unknown):
        return value if isinstance(declared, Unknown) else declared
    if isinstance(value, Sequence) and value.items and isinstance(declared, Sequence) and declared.items:
        if value.kind == declared.kind and len(value.items) == len(declared.items):
            items = tuple(map(_complete, value.items, declared.items))
            return Sequence(value.kind, items, UNKNOWN, value.escaping)
    if isinstance(value, Choice) and not isinstance(declared, Unknown):
        known = [v for v in value.options if not isinstance(v, Unknown)]
        numbers = any(isinstance(v, (Const, Plain)) and v != NONE for v in known)
        if len(known) == len(value.options) or (numbers and tensor_of(declared) is not None):
            return value  # an annotation that says a tensor of what may be a number is not true
        return join(*known, declared)
    return value


def _join_returns(returned: list[ReturnedValue]) -> Value:
    """Return the joined result of several returns: preferably that of a usual call."""
    if not returned:
        return UNKNOWN
    every = join(*(each.value for each in returned))
    usual = [each.value for each in returned if each.usual]
    return prefer(join(*usual), every) if 0 < len(usual) < len(returned) else every


def _tables(info: FunctionInfo, env: Env) -> tuple[str, ...]:
    """Return the parameters that are dicts or lists, and that a function does not rebind."""
    found = [
        name
        for name, value in env.items()
        if isinstance(value, Mapping) or (isinstance(value, Sequence) and value.kind == "list")
    ]
    return tuple(name for name in found if name not in info.rebound) if found else ()


def _changed_tables(env: Env, ends: list[Env]) -> dict[str, tuple[Value, Value]]:
    """Return the tables at the ends of a function that have changed."""
    names = ends[0] if ends else {}
    after = {name: join(*(end[name] for end in ends if name in end)) for name in names}
    return {name: (env[name], value) for name, value in after.items() if value != env[name]}
