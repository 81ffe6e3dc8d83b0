"""Interpretation of functions over Values: statements, calls, objects, and the call graph they draw.

Starting at the `forward` of a module, every function that can be reached is interpreted under the arguments
its callers give, each distinct situation once. Limits keep that finite; what they cut is counted.
"""

from __future__ import annotations

import ast
import dataclasses
from itertools import islice
from typing import cast

from tcready.schema import Confidence
from tcready.static import facts as F  # noqa: N812
from tcready.static import knowledge as K  # noqa: N812
from tcready.static import text
from tcready.static.evaluate import Context, Evaluator, names_in
from tcready.static.index import ClassInfo, FunctionInfo, Program, imports_of
from tcready.static.objects import Way
from tcready.static.registries import modules_for
from tcready.static.scope import Env, Frame, join_envs
from tcready.static.values import (
    DATA,
    MAX_OPTIONS,
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
    Kind,
    Mapping,
    Method,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    holds_tensor,
    join,
    keep,
    lift,
    likely,
    members_of,
    one_of,
    options,
    prefer,
    tensor_of,
    without_none,
)

MAX_CONTEXTS = 12
"""Situations in which one function is interpreted before its arguments are generalised."""
MAX_DEPTH = 48
MAX_QUIET_DEPTH = 12
"""Of what runs before the compiled call: building modules needs few levels."""
MAX_CALLS = 60_000
UNROLL = 8
"""Known members of a sequence that a `for` walks one by one."""

OPAQUE_DECORATORS = (
    "functools.singledispatch",
    "torch.compiler.disable",
    "torch._dynamo.disable",
    "torch._disable_dynamo",
    "torch.jit.script",
    "torch.jit.ignore",
    "torch.jit.unused",
    "torch.library.custom_op",
    "torch.library.triton_op",
    "triton.jit",
)
"""Decorators whose function Dynamo does not trace: its body tells nothing about the region around a call."""
CALLS_FIRST_ARGUMENT = frozenset(
    {
        "torch.utils.checkpoint.checkpoint",
        "torch.utils.checkpoint.checkpoint_sequential",
        "torch.cuda.amp.custom_fwd",
    }
)
FACTORIES = ("from_", "build", "create", "make")
"""How names of class methods begin that make an object."""
TARGETS = frozenset({"labels", "label", "targets", "target"})
"""Names under which a model takes what it is to predict."""
GROWING = frozenset({"append", "add", "insert", "extend", "appendleft", "extendleft"})


class Interpreter(Evaluator):
    """One analysis of one program; `facts`, `contexts`, `edges` and `calls` hold what it found."""

    def __init__(
        self, program: Program, training: bool | None, low: bool = False, *, plain_call: bool = False
    ) -> None:
        super().__init__(program, training, low)
        self.plain_call = plain_call
        self.cut = 0
        """Calls not followed because a limit was reached."""
        self._memo: dict[tuple[object, ...], tuple[int, Value | None]] = {}
        self._counts: dict[FunctionInfo, int] = {}
        self._generic: dict[FunctionInfo, Env] = {}
        self._decorated: dict[FunctionInfo, Value] = {}
        self._closures: dict[int, Frame] = {}
        self._followed = 0
        self._registries: dict[ClassInfo, list[ClassInfo]] = {}
        self._loads: dict[int, ast.expr] = {}
        self._chained: set[int] = set()
        """Sequentials being called."""

    # entries

    def build(self, cls: ClassInfo) -> Instance:
        """An object of `cls` made with arguments nobody knows: configuration."""
        frame = Frame(cls.module, None, -1, "high", {})
        ident = self.heap.ident("entry", cls, outer=True)
        root = Instance(ident, cls)
        self.quiet += 1
        try:
            mro = self.mro(cls)
            for init in self.initialisers(mro):
                args, keywords = self._configuration(mro.functions("__init__")[0], cls)
                self.invoke(Function(init.info, root, init.closure), args, keywords, frame, "high")
        finally:
            self.quiet -= 1
        return root

    def _configuration(
        self, info: FunctionInfo, cls: ClassInfo
    ) -> tuple[tuple[Value, ...], dict[str, Value]]:
        node = info.node
        frame = self.module_frame(info.module)
        # `config: Config` in the class body tells what the argument of that name is, which becomes the attribute
        annotated: dict[str, ast.expr] = {}
        for above in reversed(self.mro(cls).classes):
            if above.module is info.module:
                annotated.update(above.annotated)

        def unknown(arg: ast.arg, default: ast.expr | None) -> Value:
            declared = self.annotation(arg.annotation or annotated.get(arg.arg), info.module, sure=True)
            if isinstance(declared, (Tensor, Unknown)) or not options(declared):
                declared = Plain()
            if default is None:
                return declared
            self.quiet += 1
            try:
                value = self.eval(default, frame)
            finally:
                self.quiet -= 1
            if isinstance(value, Const):
                return prefer(value, declared if value == NONE else Plain(type(value.value).__name__))
            return join(value, declared)

        args = tuple(unknown(arg, default) for arg, default in _positional(node.args)[1:])
        keywords = {
            arg.arg: unknown(arg, default)
            for arg, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        }
        return args, keywords

    def run_forward(self, root: Value) -> int | None:
        """Interprets `forward` of a module object as the compiled entry; its context, None if it has none."""
        if not isinstance(root, Instance):
            return None
        mro = self.mro(root.cls)
        defined = mro.functions("forward")
        if not defined:
            return None
        name = "__call__" if mro.functions("__call__") else "forward"
        called = self.member(root, name, self.module_frame(root.cls.module))
        return self.run_function(called, defined[0], 1, root)

    def run_function(
        self, value: Value, parameters: FunctionInfo, skip: int = 0, root: Instance | None = None
    ) -> int | None:
        """Interprets a function as the compiled entry; `parameters` is where its signature stands."""
        args, keywords = self._entry_arguments(parameters, skip, root)
        frame = Frame(parameters.module, None, len(self.contexts), "high", {})
        self.contexts.append(Context(frame.context, None, None, "<entry>", str(parameters.module.path)))
        for option in options(value):
            if isinstance(option, Function):
                self.invoke(option, args, keywords, frame, "high")
        return frame.context

    def _entry_arguments(
        self, info: FunctionInfo, skip: int, root: Instance | None
    ) -> tuple[tuple[Value, ...], dict[str, Value]]:
        """What a user passes: by position what has no default, by name what has one, as calls are written."""
        node = info.node
        pairs = _positional(node.args)[skip:]
        usual = self._usually_given(info, pairs, root)
        only_position = len(node.args.posonlyargs) - skip
        args = tuple(
            self._entry_parameter(arg, default, info, usual)
            for index, (arg, default) in enumerate(pairs)
            if default is None or index < only_position
        )
        if node.args.vararg is not None:
            args = (*args, Tensor(sure=False), Tensor(sure=False), Tensor(sure=False))
        keywords = {
            arg.arg: self._entry_parameter(arg, default, info, usual)
            for arg, default in (
                *(pair for index, pair in enumerate(pairs) if pair[1] is not None and index >= only_position),
                *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
            )
        }
        return args, keywords

    def _usually_given(
        self, info: FunctionInfo, pairs: list[tuple[ast.arg, ast.expr | None]], root: Instance | None
    ) -> frozenset[str] | None:
        """The optional parameters that a plain call gives; None for all of them alike.

        A model that takes its targets is called with all it takes. Any other gets its main input, a mask, and as
        often as not the first tensor that may be left out.
        """
        names = [arg.arg for arg, _ in (*pairs, *((a, None) for a in info.node.args.kwonlyargs))]
        if TARGETS.intersection(names) and not self.plain_call:
            return None
        given = {name for name in names if name.endswith(("attention_mask", "decoder_input_ids"))}
        if root is not None:
            main = self.member(root, "main_input_name", self.module_frame(info.module))
            given |= {str(v.value) for v in options(main) if isinstance(v, Const)}
        optional = (a.arg for a, d in pairs if d is not None and self._may_be_tensor(a, d, info))
        given.update(islice(optional, 1))
        return frozenset(given)

    def _may_be_tensor(self, arg: ast.arg, default: ast.expr, info: FunctionInfo) -> bool:
        if not isinstance(default, ast.Constant) or default.value is not None:
            return False
        return arg.annotation is None or holds_tensor(self.annotation(arg.annotation, info.module, sure=True))

    def _entry_parameter(
        self, arg: ast.arg, default: ast.expr | None, info: FunctionInfo, usual: frozenset[str] | None
    ) -> Value:
        """Without default and non-tensor annotation a tensor: with medium confidence until its use says so."""
        declared = given(self.annotation(arg.annotation, info.module, sure=True))
        if default is None:
            return Tensor(sure=False, given=True) if arg.annotation is None else declared
        self.quiet += 1
        try:
            value = self.eval(default, self.module_frame(info.module))
        finally:
            self.quiet -= 1
        if isinstance(value, Const) and value.value is not None:
            return prefer(value, Plain(type(value.value).__name__, "call"))
        if usual is None and arg.arg in TARGETS:
            return join(value, _of_tensors(without_none(declared)))
        # an optional tensor as often as not: what is done with it tells
        declared = TAINTED if arg.annotation is None else without_none(declared)
        optional = usual is not None and arg.arg not in usual
        if value == NONE and (optional or not (holds_tensor(declared) or declared == TAINTED)):
            return prefer(value, declared)
        return join(value, declared)

    # functions

    def decorated(self, info: FunctionInfo, frame: Frame) -> Value:
        """The value a `def` binds once its decorators have been applied."""
        if frame.function is None and info in self._decorated:
            return self._decorated[info]
        value: Value = Function(info, None, self.close(frame) if frame.function else 0)
        if frame.function is None:
            self._decorated[info] = value  # a decorator that asks for its own function gets it bare
        self.quiet += 1
        try:
            for node in reversed(info.decorators):
                value = self._decorate(self.eval(node, frame), value, info, frame)
        finally:
            self.quiet -= 1
        if frame.function is None:
            self._decorated[info] = value
        return value

    def _decorate(self, decorator: Value, value: Value, info: FunctionInfo, frame: Frame) -> Value:
        if isinstance(decorator, (External, ExternalInstance)):
            if decorator.name.startswith(OPAQUE_DECORATORS):
                return External(f"{decorator.name}()")
            return value
        if isinstance(decorator, Function):
            result = self.invoke(decorator, (value,), {}, frame, "high")
            wrapped = [v for v in options(result) if isinstance(v, (Function, Instance))]
            return join(*wrapped) if wrapped else value
        return value

    def close(self, frame: Frame) -> int:
        if not frame.key:
            frame.key = len(self._closures) + 1
            self._closures[frame.key] = frame
        return frame.key

    def invoke(
        self,
        function: Function,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        frame: Frame,
        confidence: Confidence,
    ) -> Value:
        """Interprets a call of a function with source; a situation already seen is looked up."""
        info = function.info
        if function.given:
            args = (*(v for k, v in function.given if isinstance(k, int)), *args)
            keywords = {**{k: v for k, v in function.given if isinstance(k, str)}, **keywords}
        if function.bound is not None:
            args = (function.bound, *args)
        env = self._parameters(info, args, keywords, function.closure)
        if self._counts.get(info, 0) >= MAX_CONTEXTS:
            env = self._generalised(info, env)
        loud: object = bool(self.quiet)
        if self.quiet and len(args) == 1 and isinstance(args[0], Instance):
            loud = self.heap[args[0]].version  # while things are built, what a property gives changes
        key = (info, function.closure, confidence, loud, frame.conditional, tuple(env.items()))
        if key in self._memo:
            context, known = self._memo[key]
            self.edges.setdefault((frame.context, context), {})[frame.enclosing] = None
            return known if known is not None else UNKNOWN
        limit = MAX_QUIET_DEPTH if self.quiet else MAX_DEPTH
        often = self._counts.get(info, 0) >= 4 * MAX_CONTEXTS
        if often or frame.depth >= limit or self._followed >= MAX_CALLS:
            self.cut += not self.quiet
            return TAINTED if any(holds_tensor(v) for v in env.values()) else UNKNOWN
        self._followed += 1
        self._counts[info] = self._counts.get(info, 0) + 1
        owner = function.bound
        module = owner.ident if isinstance(owner, Instance) and self.is_module(owner) else None
        context = len(self.contexts)
        self.contexts.append(
            Context(
                context, info, module, info.symbol, str(info.module.path), not self.quiet, tuple(env.values())
            )
        )
        self.edges.setdefault((frame.context, context), {})[frame.enclosing] = None
        self._memo[key] = (context, None)
        inner = Frame(
            info.module,
            info,
            context,
            confidence,
            env,
            self._closures.get(function.closure),
            conditional=frame.conditional,
            depth=frame.depth + 1,
        )
        try:
            result = self._body(info, inner)
        except RecursionError:  # nested deeper than the interpreter's own stack
            self.cut += not self.quiet
            result = UNKNOWN
        self._memo[key] = (context, result)
        return result

    def _body(self, info: FunctionInfo, frame: Frame) -> Value:
        node = info.node
        if isinstance(node, ast.Lambda):
            return self.eval(node.body, frame)
        if self.block(node.body, frame):
            frame.returned.append(NONE)
        if frame.yielded:
            return Sequence("iterator", None, join(*frame.yielded))
        returned = join(*frame.returned) if frame.returned else UNKNOWN
        if isinstance(returned, Unknown) and node.returns is not None:
            declared = self.annotation(node.returns, info.module, sure=True)
            return returned if isinstance(declared, Unknown) else declared
        return returned

    def _generalised(self, info: FunctionInfo, env: Env) -> Env:
        wide = {name: _widen(value) for name, value in env.items()}
        known = self._generic.get(info)
        if known is not None:
            wide = {
                name: join(known[name], value) if name in known else value for name, value in wide.items()
            }
        self._generic[info] = wide
        return wide

    def _parameters(
        self, info: FunctionInfo, args: tuple[Value, ...], keywords: dict[str, Value], closure: int
    ) -> Env:
        """Binds arguments to names; what is not given takes its default, else what its annotation says."""
        spec = info.node.args
        env: Env = {}
        named = _positional(spec)
        rest = dict(keywords)
        home = self._closures.get(closure) or self.module_frame(info.module)
        for index, (arg, default) in enumerate(named):
            if index < len(args):
                rest.pop(arg.arg, None)
                env[arg.arg] = self._argument(args[index], arg, info)
            elif arg.arg in rest:
                env[arg.arg] = self._argument(rest.pop(arg.arg), arg, info)
            else:
                env[arg.arg] = self._default(arg, default, info, home)
        for arg, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            if arg.arg in rest:
                env[arg.arg] = self._argument(rest.pop(arg.arg), arg, info)
            else:
                env[arg.arg] = self._default(arg, default, info, home)
        if spec.vararg is not None:
            extra = args[len(named) :]
            declared = self.annotation(spec.vararg.annotation, info.module, sure=True)
            extra = tuple(
                declared if isinstance(v, Unknown) and not isinstance(declared, Unknown) else v for v in extra
            )
            env[spec.vararg.arg] = Sequence("tuple", extra, UNKNOWN)
        if spec.kwarg is not None:
            env[spec.kwarg.arg] = Mapping(tuple(rest.items()), UNKNOWN, extra=True)
        return env

    def _argument(self, value: Value, arg: ast.arg, info: FunctionInfo) -> Value:
        vague = isinstance(value, Unknown) or (
            isinstance(value, Plain) and value.kind is None and value.origin == "config"
        )
        odd = (Unknown, Plain) if tensor_of(value) else Unknown
        partly = isinstance(value, Choice) and any(isinstance(v, odd) for v in value.options)
        if not (vague or partly) or arg.annotation is None:
            return value
        declared = self.annotation(arg.annotation, info.module, sure=True)
        if isinstance(declared, Unknown) or vague:
            return value if isinstance(declared, Unknown) else declared
        odd = odd if isinstance(declared, Tensor) else Unknown
        known = keep(value, lambda v: not isinstance(v, odd))
        return prefer(known, declared) if likely(value) != value else join(known, declared)

    def _default(self, arg: ast.arg, default: ast.expr | None, info: FunctionInfo, home: Frame) -> Value:
        if default is None:
            return self.annotation(arg.annotation, info.module, sure=True)
        self.quiet += 1
        try:
            return self.eval(default, home)
        finally:
            self.quiet -= 1

    # calls

    def call_one(
        self,
        function: Value,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        frame: Frame,
        node: ast.Call,
        confidence: Confidence,
    ) -> Value | None:
        if isinstance(function, Function):
            given_back = self.invoke(function, args, keywords, frame, confidence)
            factory = isinstance(function.bound, Class) and function.info.name.lstrip("_").startswith(
                FACTORIES
            )
            if self.quiet and factory and all(isinstance(v, Unknown) for v in options(given_back)):
                return self._registered(args, frame, node, confidence) or given_back
            return given_back
        if isinstance(function, Class):
            return self._instantiate(function, args, keywords, frame, node, confidence)
        if isinstance(function, Instance):
            return self._call_object(function, args, keywords, frame, node, confidence)
        if isinstance(function, External):
            result = self._call_external(function.name, args, keywords, frame, node, confidence)
            self._tell_call(frame, node, function, function.name, None, None, args, keywords, result)
            return result
        if isinstance(function, ExternalInstance):
            return self._call_external_object(function, args, keywords, frame, node, confidence)
        if isinstance(function, Method):
            return self._call_method(function, args, keywords, frame, node, confidence)
        return None

    def _registered(
        self, args: tuple[Value, ...], frame: Frame, node: ast.Call, confidence: Confidence
    ) -> Value | None:
        """What a factory makes of a configuration object if its own code does not tell."""
        for value in args[:1]:
            for option in options(likely(value)):
                if isinstance(option, Instance) and self.heap[option].assumed:
                    cls = option.cls
                    if cls not in self._registries:
                        self._registries[cls] = modules_for(cls, self)
                    made = [
                        self._instantiate(Class(c), (option,), {}, frame, node, confidence)
                        for c in self._registries[cls][:MAX_OPTIONS]
                    ]
                    return join(*made) if made else None
        return None

    def _tell_call(
        self,
        frame: Frame,
        node: ast.Call,
        function: Value,
        name: str | None,
        receiver: Value | None,
        method: str | None,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        result: Value | None,
    ) -> None:
        if self.quiet:
            return
        where = self.where(frame)
        self.tell(
            F.Call(
                where,
                node,
                function,
                name,
                receiver,
                method,
                args,
                tuple(keywords.items()),
                result or UNKNOWN,
            )
        )

    def _instantiate(
        self,
        cls: Class,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        frame: Frame,
        node: ast.Call,
        confidence: Confidence,
    ) -> Value:
        mro = self.mro(cls.info)
        ident = self.heap.ident(cls.info, node, frame.context, outer=self.quiet > 0)
        made = Instance(ident, cls.info)
        if mro.functions("__init__"):
            with self.heap.making() as stored:
                for option in self.initialisers(mro):
                    self.invoke(
                        Function(option.info, made, option.closure), args, keywords, frame, confidence
                    )
            held = self.heap[made].attributes.items()
            self.heap.made(made, stored, {name for name, v in held if all(map(self.is_module, options(v)))})
            return made
        if mro.container:
            self._fill_container(made, mro.container, args, node)
            return made
        thing = self.heap[made]
        fields = [name for c in reversed(mro.classes) for name in c.annotated]
        for name, value in (*zip(dict.fromkeys(fields), args, strict=False), *keywords.items()):
            thing.put(name, value, replace=True)
        return made

    def _call_object(
        self,
        made: Instance,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        frame: Frame,
        node: ast.Call,
        confidence: Confidence,
    ) -> Value | None:
        mro = self.mro(made.cls)
        for name in ("__call__", "forward"):
            if mro.functions(name):
                return self._call_each(
                    self.member(made, name, frame), args, keywords, frame, node, confidence
                )
            if name == "__call__" and not mro.is_module:
                return None
        return self._inherited_forward(made, args, keywords, frame, node, confidence)

    def _call_each(
        self,
        function: Value,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        frame: Frame,
        node: ast.Call,
        confidence: Confidence,
    ) -> Value | None:
        results = [
            self.call_one(option, args, keywords, frame, node, confidence) for option in options(function)
        ]
        known = [r for r in results if r is not None]
        return join(*known) if known else None

    def _inherited_forward(
        self,
        made: Instance,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        frame: Frame,
        node: ast.Call,
        confidence: Confidence,
    ) -> Value | None:
        mro = self.mro(made.cls)
        if mro.container == "torch.nn.Sequential":
            return self._chain(made, args, frame, node, confidence)
        base = next((name for name in mro.external if K.is_module_class(name)), None)
        if base is None or base == "torch.nn.Module":
            return None
        result = K.module_call(base, args)
        self._tell_call(frame, node, made, f"{base}.__call__", made, "__call__", args, keywords, result)
        return result

    def _chain(
        self,
        made: Instance | ExternalInstance,
        args: tuple[Value, ...],
        frame: Frame,
        node: ast.Call,
        confidence: Confidence,
    ) -> Value | None:
        """`nn.Sequential`: each member is called with what the one before gave."""
        value = args[0] if args else UNKNOWN
        members = self.heap[made].members
        if members is None or made.ident in self._chained:  # built in a loop around itself: one object to us
            return None
        self._chained.add(made.ident)
        try:
            return self._through(members, value, frame, node, confidence)
        finally:
            self._chained.discard(made.ident)

    def _through(
        self, members: Value, value: Value, frame: Frame, node: ast.Call, confidence: Confidence
    ) -> Value:
        steps: tuple[Value, ...]
        if isinstance(members, Mapping):
            steps = tuple(v for _, v in members.entries) + ((members.element,) if members.element else ())
        else:
            steps = members_of(members) if isinstance(members, Sequence) else (members,)
        for step in steps:
            results = [
                self.call_one(option, (value,), {}, frame, node, confidence) for option in options(step)
            ]
            value = join(
                *(r if r is not None else (TAINTED if holds_tensor(value) else UNKNOWN) for r in results)
            )
        return value

    def _call_external(
        self,
        name: str,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        frame: Frame,
        node: ast.Call,
        confidence: Confidence,
    ) -> Value | None:
        if "." not in name:
            return self._call_builtin(name, args, keywords, frame, node, confidence)
        if name in K.CONTAINERS:
            made = ExternalInstance(name, self.heap.ident(name, node, frame.context, outer=self.quiet > 0))
            self._fill_container(made, name, args, node)
            return made
        if name in ("re.findall", "re.search", "re.match", "re.fullmatch"):
            return text.match(name.removeprefix("re."), args)
        if name == "torch.is_grad_enabled" and self.training is not None:
            return prefer(Const(self.training), Plain("bool"))
        if name.startswith(("einops.", "einx.")):
            return K.einops_call(name, args)
        if name in CALLS_FIRST_ARGUMENT and args:
            rest = {
                k: v
                for k, v in keywords.items()
                if k not in ("use_reentrant", "context_fn", "preserve_rng_state")
            }
            enclosing = frame.enclosing
            frame.enclosing = (*enclosing, "checkpoint")
            result = self._call_each(args[0], args[1:], rest, frame, node, confidence)
            frame.enclosing = enclosing
            return result
        if name == "collections.OrderedDict":
            return self._call_builtin("dict", args, keywords, frame, node, confidence)
        if name == "functools.partial" and args:
            return self._partial(args, keywords)
        if name in ("torch.cond", "torch.ops.higher_order.cond") and len(args) >= 3:
            operands = members_of(args[3]) if len(args) > 3 and isinstance(args[3], Sequence) else ()
            return join(
                *(self._call_each(f, operands, {}, frame, node, confidence) or UNKNOWN for f in args[1:3])
            )
        if name in ("torch.vmap", "torch.func.vmap", "torch.compile") and args:
            return args[0]
        if name == "functools.reduce" and args:
            element = self.element(args[1]) if len(args) > 1 else UNKNOWN
            return self._call_each(args[0], (element, element), {}, frame, node, confidence)
        if name in ("copy.copy", "copy.deepcopy") and args:
            return join(*(self._copied(v, node, frame) for v in options(args[0])))
        root, _, method = name.partition(".")
        if root in text.BUILTIN_TYPES:
            return text.type_method(root, method, args)
        if name.startswith("torch.ops."):
            namespace, _, operator = name.removeprefix("torch.ops.").partition(".")
            return Tensor(sure=self.program.registers_fake(f"{namespace}::{operator.partition('.')[0]}"))
        if name in ("torch.jit.script", "torch.jit.trace", "torch.jit.load", "torch.jit.freeze"):
            scripted = bool(args) and not any(self.is_module(v) for v in options(args[0]))
            kind = "torch.jit.TracedModule" if name == "torch.jit.trace" else "torch.jit.ScriptModule"
            return args[0] if scripted and name != "torch.jit.load" else ExternalInstance(kind)
        result = K.external_call(name, args, keywords)
        if self.quiet:  # drawn before the compiled call: one number, the same in every call
            result = K.drawn_before(result)
        if result == K.ARRAY and self.quiet:
            return K.numpy_built(name)
        if isinstance(result, ExternalInstance) and K.is_module_class(result.name) and not result.ident:
            return ExternalInstance(
                result.name, self.heap.ident(result.name, node, frame.context, outer=self.quiet > 0)
            )
        return result

    def _copied(self, value: Value, node: ast.Call, frame: Frame) -> Value:
        """A copy of an object of plain attributes, which is changed apart from it; anything else as it is."""
        if isinstance(value, (Sequence, Mapping)):
            return dataclasses.replace(value, outer=False)
        if not isinstance(value, Instance) or self.mro(value.cls).is_module:
            return value
        key = ("copy", node, frame.context, value.ident)
        made = Instance(self.heap.ident(*key, outer=self.quiet > 0), value.cls)
        self.heap[made].take(self.heap[value])
        return made

    def _partial(self, args: tuple[Value, ...], keywords: dict[str, Value]) -> Value:
        found: list[Value] = []
        for option in options(args[0]):
            if isinstance(option, Function):
                filled = sum(isinstance(k, int) for k, _ in option.given)
                given = (*option.given, *enumerate(args[1:], filled), *keywords.items())
                found.append(Function(option.info, option.bound, option.closure, given))
            else:
                found.append(option)
        return join(*found)

    def _fill_container(
        self, made: Instance | ExternalInstance, kind: str, args: tuple[Value, ...], node: ast.Call
    ) -> None:
        thing = self.heap[made]
        thing.uncounted = thing.uncounted or node in self.spread
        members: Value
        if kind == "torch.nn.Sequential" and not (len(args) == 1 and isinstance(args[0], Mapping)):
            members = Sequence("list", args, UNKNOWN, True)
        elif args:
            found = options(args[0])
            first = found[0] if len(found) == 1 else args[0]
            if isinstance(first, Sequence):
                members = Sequence("list", first.items, first.element, True)
            elif isinstance(first, Mapping):
                members = Mapping(first.entries, first.element, True)
            else:
                members = Sequence("list", None, self.element(args[0]), True)
        else:
            empty_map = kind in ("torch.nn.ModuleDict", "torch.nn.ParameterDict")
            members = Mapping((), None, True) if empty_map else Sequence("list", (), UNKNOWN, True)
        thing.members = members

    def _call_external_object(
        self,
        made: ExternalInstance,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        frame: Frame,
        node: ast.Call,
        confidence: Confidence,
    ) -> Value | None:
        result: Value | None = None
        if made.name == "torch.nn.Sequential":
            result = self._chain(made, args, frame, node, confidence)
        elif K.is_module_class(made.name):
            result = K.module_call(made.name, args)
        elif made.name.startswith(("torch.no_grad", "torch.autocast", "torch.inference_mode")) and args:
            return args[0]  # a context manager used as a decorator
        self._tell_call(frame, node, made, f"{made.name}.__call__", made, "__call__", args, keywords, result)
        return result

    def _call_method(
        self,
        method: Method,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        frame: Frame,
        node: ast.Call,
        confidence: Confidence,
    ) -> Value | None:
        receiver, name = method.receiver, method.name
        if receiver == TAINTED and name in K.TENSOR_ONLY_METHODS:
            receiver = Tensor(sure=False)
        dotted: str | None = None
        result: Value | None = None
        if isinstance(receiver, Tensor):
            result = K.tensor_method(name, receiver, args, keywords)
        elif isinstance(receiver, Sequence):
            result = self._sequence_method(receiver, name, args, frame, node)
        elif isinstance(receiver, Mapping):
            result = self._mapping_method(receiver, name, args, keywords, frame, node)
        elif isinstance(receiver, (Const, Plain)):
            result = text.method(receiver, name, args)
        elif isinstance(receiver, Unknown) and name in text.METHODS:
            result = text.method(Plain("str"), name, args)
        elif isinstance(receiver, ExternalInstance):
            dotted = f"{receiver.name}.{name}"
            result = self._external_object_method(receiver, name, args, keywords)
        elif isinstance(receiver, Instance):
            result = self._inherited_method(receiver, name, args, keywords, frame, node, confidence)
            base = next(iter(self.mro(receiver.cls).external), None)
            dotted = f"{base}.{name}" if base else None
        elif isinstance(receiver, Class):
            result = self._class_method(receiver, name, args, keywords, frame, node, confidence)
        self._tell_call(frame, node, method, dotted, receiver, name, args, keywords, result)
        return result

    def _external_object_method(
        self, receiver: ExternalInstance, name: str, args: tuple[Value, ...], keywords: dict[str, Value]
    ) -> Value | None:
        if receiver.name == "logging.Logger":
            return Plain("bool") if name == "isEnabledFor" else NONE
        if receiver.name in K.CONTAINERS and receiver.ident:
            return self._container_method(receiver, name, args)
        if K.is_module_class(receiver.name):
            return K.module_method(name, receiver)
        if receiver == K.ARRAY:
            return Plain(None, "tensor") if name in ("item", "tolist") else receiver
        if receiver.name.startswith(("torch.distributions", "torch.utils.cpp_extension")):
            return Tensor(None, sure=False)
        return None

    def _container_method(
        self, made: Instance | ExternalInstance, name: str, args: tuple[Value, ...]
    ) -> Value | None:
        thing = self.heap[made]
        members = thing.members
        if name in ("append", "extend", "insert", "add_module", "__setitem__", "update") and args:
            new = self.element(args[-1]) if name in ("extend", "update") else args[-1]
            self.heap.note(made, None)
            if isinstance(members, Sequence):
                known = (
                    members.items is not None
                    and name == "append"
                    and len(members.items) < UNROLL
                    and self.quiet
                )
                items = (*members.items, new) if known and members.items is not None else None
                thing.members = Sequence("list", items, join(*members_of(members), new), True)
            elif isinstance(members, Mapping):
                thing.members = Mapping(
                    members.entries, join(*([members.element] if members.element else []), new), True
                )
            return NONE
        if isinstance(members, Mapping) and name in ("items", "values", "keys", "__getitem__", "get"):
            return _mapping_view(members, name, args)
        return K.module_method(name, made)

    def _inherited_method(
        self,
        made: Instance,
        name: str,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        frame: Frame,
        node: ast.Call,
        confidence: Confidence,
    ) -> Value | None:
        mro = self.mro(made.cls)
        if name == "__init__":
            if mro.container:
                self._fill_container(made, mro.container, args, node)
            return NONE
        if name in ("forward", "__call__"):
            if name == "__call__" and mro.functions("forward"):
                return self._call_each(
                    self.member(made, "forward", frame), args, keywords, frame, node, confidence
                )
            return self._inherited_forward(made, args, keywords, frame, node, confidence)
        if name == "register_buffer" and args and isinstance(args[0], Const):
            value = args[1] if len(args) > 1 else keywords.get("tensor", UNKNOWN)
            tensor = tensor_of(value)
            self.heap[made].put(
                str(args[0].value), Tensor(tensor.dtype, leaf=True) if tensor else value, replace=True
            )
            return NONE
        if name in ("add_module", "register_module") and len(args) > 1 and isinstance(args[0], Const):
            self.heap[made].put(str(args[0].value), args[1], replace=True)
            self._note(made, str(args[0].value))
            return NONE
        if mro.container:
            return self._container_method(made, name, args)
        if mro.is_module:
            return K.module_method(name, made)
        return None

    def _class_method(
        self,
        cls: Class,
        name: str,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        frame: Frame,
        node: ast.Call,
        confidence: Confidence,
    ) -> Value | None:
        mro = self.mro(cls.info)
        if name == "apply" and "torch.autograd.Function" in mro.external:
            context = ExternalInstance("torch.autograd.function.FunctionCtx")
            forward = self._class_member(cls, "forward", frame)
            return self._call_each(forward, (context, *args), keywords, frame, node, confidence)
        return None

    # builtins

    def _call_builtin(
        self,
        name: str,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        frame: Frame,
        node: ast.Call,
        confidence: Confidence,
    ) -> Value | None:
        first = args[0] if args else UNKNOWN
        if name in ("int", "float", "bool", "complex", "round"):
            return lift(lambda v: _number(name, v, self.answer(v).decided if args else False), first)
        if name == "len":
            return lift(_length, first)
        if name == "isinstance" and len(node.args) == 2:
            return lift(lambda v: self._isinstance(v, node.args[1], frame), first)
        if name == "range":
            if any(tensor_of(a) for a in args):
                return Sequence("iterator", None, Plain("int", "tensor"))
            for origin in DATA:
                if any(isinstance(v, Plain) and v.origin == origin for a in args for v in options(a)):
                    return Sequence("iterator", None, Plain("int", K.computed(origin)))
            if (
                len(args) == 1
                and isinstance(first, Const)
                and isinstance(first.value, int)
                and first.value <= 0
            ):
                return Sequence("iterator", (), UNKNOWN)
            return Sequence("iterator", None, Plain("int"))
        if name in ("list", "tuple", "set", "sorted", "reversed", "iter", "frozenset"):
            kinds: dict[str, Kind] = {"tuple": "tuple", "set": "set"}
            kind = kinds.get(name, "list")
            if not args:
                return Sequence(kind, (), UNKNOWN)
            members = self.container_members(first)
            source = members if members is not None else first
            if (
                isinstance(source, Sequence)
                and source.items is not None
                and name in ("list", "tuple", "iter")
            ):
                return Sequence(kind, source.items, UNKNOWN)
            return Sequence(kind, None, self.element(first))
        if name == "enumerate":
            return self._enumerate(first, args[1] if len(args) > 1 else keywords.get("start", Const(0)))
        if name == "zip":
            return self._zip(args)
        if name == "map" and len(args) > 1:
            inner = tuple(self.element(a) for a in args[1:])
            return Sequence(
                "iterator", None, self._call_each(first, inner, {}, frame, node, confidence) or UNKNOWN
            )
        if name == "filter" and len(args) > 1:
            if first != NONE:
                kept = (
                    self._call_each(first, (self.element(args[1]),), {}, frame, node, confidence) or UNKNOWN
                )
                self._tell_test(node, "filter", kept, frame)
            return Sequence("iterator", None, self.element(args[1]))
        if name == "next":
            element = self.element(first)
            return join(element, args[1]) if len(args) > 1 else element
        if name in ("max", "min", "sum"):
            return self._reduce(name, args)
        if name in ("abs", "pow", "divmod"):
            tensor = tensor_of(first)
            return (
                Tensor(tensor.dtype, tensor.sure)
                if tensor
                else (first if isinstance(first, Plain) else Plain())
            )
        if name == "dict":
            base = first if isinstance(first, Mapping) else self._mapping_of_pairs(first, bool(args))
            return Mapping((*base.entries, *keywords.items()), base.element)
        if name == "getattr" and len(args) >= 2:
            return self._getattr(first, args[1], args[2] if len(args) > 2 else None, frame)
        if name == "setattr" and len(args) == 3 and isinstance(first, Instance):
            if isinstance(args[1], Const):
                self.heap[first].put(str(args[1].value), args[2], replace=False)
                self._note(first, str(args[1].value))
            return NONE
        if name == "hasattr" and len(args) == 2 and isinstance(args[1], Const):
            return self._hasattr(first, str(args[1].value))
        if name in ("any", "all"):
            tensor = tensor_of(first)
            return Plain("bool", "tensor") if tensor else Plain("bool")
        if name == "type":
            return Class(first.cls) if isinstance(first, Instance) else Plain("type")
        if name in ("print", "delattr", "breakpoint", "exec"):
            return NONE
        if name in ("str", "repr", "format", "chr", "ascii", "bin", "hex", "input"):
            return Plain("str")
        if name in ("id", "hash", "ord", "callable", "issubclass"):
            return Plain()
        if name == "slice":
            return Plain("slice")
        if name in (
            "super",
            "vars",
            "locals",
            "globals",
            "dir",
            "open",
            "eval",
            "compile",
            "__import__",
            "object",
        ):
            return UNKNOWN
        if name.endswith(("Error", "Exception", "Warning")) or name in ("StopIteration", "property"):
            return ExternalInstance(name)
        return UNKNOWN

    def _getattr(self, owner: Value, name: Value, default: Value | None, frame: Frame) -> Value:
        """`getattr(owner, name, default)`: the default of an attribute that nothing is known to set is likely."""
        chosen = likely(name)
        if isinstance(chosen, Const) and isinstance(chosen.value, str):
            found = self.attribute(owner, chosen.value, frame)
            if default is None or not isinstance(found, (Unknown, Method)):
                return found
        else:
            found = self._some_attribute(owner)
            if default is None:
                return found
        if isinstance(default, Const):
            return prefer(default, found)
        return join(found, default)

    def _mapping_of_pairs(self, source: Value, given: bool) -> Mapping:
        """`dict(source)` of (key, value) pairs."""
        if isinstance(source, Sequence) and source.items is not None:
            pairs = [
                p.items for p in source.items if isinstance(p, Sequence) and p.items and len(p.items) == 2
            ]
            keys = [p[0] for p in pairs]
            if len(pairs) == len(source.items) and all(isinstance(k, Const) for k in keys):
                return Mapping(
                    tuple((cast(Const, k).value, p[1]) for k, p in zip(keys, pairs, strict=True)), None
                )
        pair = self.element(source)
        if isinstance(pair, Sequence) and pair.items and len(pair.items) == 2:
            return Mapping((), pair.items[1])
        return Mapping((), UNKNOWN if given else None)

    def _isinstance(self, value: Value, node: ast.expr, frame: Frame) -> Value:
        wanted = self._instance_value(node, frame)
        if wanted is None:
            known = (Tensor, Sequence, Mapping, Const)
            if all(isinstance(v, known) for v in options(value)):  # of a class that is not in sight
                return prefer(Const(False), Plain("bool", "call"))
            return Plain("bool")
        answers: set[bool | None] = set()
        for option in options(value):
            if option == NONE:
                answers.add(False)
            elif isinstance(option, (Plain, Const)):
                kind = option.kind if isinstance(option, Plain) else type(option.value).__name__
                answers.add(_is_kind(kind, wanted))
            elif isinstance(option, Unknown):
                answers.add(None)
            elif isinstance(option, Instance) and isinstance(wanted, Instance):
                answers.add(True if wanted.cls in self.mro(option.cls).classes else None)
            else:
                same = any(type(option) is type(w) for w in options(wanted))
                if same and isinstance(option, (Sequence, ExternalInstance)):
                    kinds = {w.kind for w in options(wanted) if isinstance(w, Sequence)}
                    answers.add(True if isinstance(option, Sequence) and option.kind in kinds else None)
                elif same:
                    answers.add(True)
                else:
                    answers.add(False if not isinstance(option, (Instance, External)) else None)
        answer = answers.pop() if len(answers) == 1 else None
        return Plain("bool", "call") if answer is None else Const(answer)

    def _hasattr(self, value: Value, name: str) -> Value:
        if isinstance(value, Instance):
            mro = self.mro(value.cls)
            if name in self.heap[value].attributes or mro.functions(name) or mro.holder(name):
                return Plain("bool") if name in self.heap[value].attributes else Const(True)
            if not self.heap[value].assumed and name not in self.assigned(mro):
                return prefer(Const(False), Plain("bool"))  # nothing in sight gives it that
        return Plain("bool")

    def _some_attribute(self, owner: Value) -> Value:
        """`getattr(self, name)` with a name only known at run time: any module it holds."""
        modules: list[Value] = []
        for option in options(owner):
            if isinstance(option, Instance):
                modules.extend(
                    v
                    for v in self.heap[option].attributes.values()
                    if any(self.is_module(o) for o in options(v))
                )
        return join(*modules) if modules else UNKNOWN

    def _enumerate(self, first: Value, start: Value) -> Value:
        begin = start.value if isinstance(start, Const) and isinstance(start.value, int) else None
        members = self.container_members(first)
        source = members if members is not None else first
        if isinstance(source, Sequence) and source.items is not None and len(source.items) <= UNROLL:
            pairs = tuple(
                Sequence("tuple", (Plain("int") if begin is None else Const(begin + i), v), UNKNOWN)
                for i, v in enumerate(source.items)
            )
            return Sequence("iterator", pairs, UNKNOWN)
        return Sequence("iterator", None, Sequence("tuple", (Plain("int"), self.element(first)), UNKNOWN))

    def _zip(self, args: tuple[Value, ...]) -> Value:
        sources = [self.container_members(a) or a for a in args]
        known = [s.items for s in sources if isinstance(s, Sequence) and s.items is not None]
        if sources and len(known) == len(sources) and all(len(k) <= UNROLL for k in known):
            rows = tuple(Sequence("tuple", row, UNKNOWN) for row in zip(*known, strict=False))
            return Sequence("iterator", cast("tuple[Value, ...]", rows), UNKNOWN)
        return Sequence("iterator", None, Sequence("tuple", tuple(self.element(a) for a in args), UNKNOWN))

    def _reduce(self, name: str, args: tuple[Value, ...]) -> Value:
        values = members_of(args[0]) if len(args) == 1 and isinstance(args[0], Sequence) else args
        if len(args) == 1 and isinstance(args[0], Tensor):
            values = args
        joined = join(*values) if values else UNKNOWN
        tensor = tensor_of(joined)
        if tensor:
            return Tensor(tensor.dtype, tensor.sure)
        if isinstance(joined, (Plain, Const)):
            return joined if isinstance(joined, Plain) else Plain(type(joined.value).__name__)
        for option in options(joined):
            if isinstance(option, Plain):
                return option
        return joined

    # methods of containers

    def _sequence_method(
        self, receiver: Sequence, name: str, args: tuple[Value, ...], frame: Frame, node: ast.Call
    ) -> Value | None:
        if name in GROWING and args:
            new = self.element(args[-1]) if name.startswith("extend") else args[-1]
            items = None
            if receiver.items is not None and name == "append" and len(receiver.items) < 4 * UNROLL:
                items = (*receiver.items, new)
            elif (
                receiver.items is not None
                and name == "extend"
                and isinstance(args[0], Sequence)
                and args[0].items
            ):
                items = (*receiver.items, *args[0].items) if len(receiver.items) < UNROLL else None
            members = [m for m in members_of(receiver) if m != UNKNOWN or receiver.items is None]
            element = UNKNOWN if items is not None else join(*members, new)
            self._rebind(node.func, Sequence(receiver.kind, items, element, receiver.outer), frame)
            return NONE
        if name in ("pop", "popleft"):
            return self.element(receiver)
        if name in ("index", "count"):
            return Plain("int")
        if name == "numel":
            return K.SHAPE_INT
        if name == "copy":
            return Sequence(receiver.kind, receiver.items, receiver.element)
        if name in ("sort", "reverse", "clear", "remove", "discard"):
            return NONE
        if name in ("union", "intersection", "difference"):
            return receiver
        return UNKNOWN

    def _mapping_method(
        self,
        receiver: Mapping,
        name: str,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        frame: Frame,
        node: ast.Call,
    ) -> Value | None:
        if name == "update":
            extra = (
                args[0] if args and isinstance(args[0], Mapping) else Mapping((), UNKNOWN if args else None)
            )
            entries: dict[object, Value] = dict((*receiver.entries, *extra.entries, *keywords.items()))
            rest = [e for e in (receiver.element, extra.element) if e is not None]
            merged = Mapping(
                tuple(entries.items()), join(*rest) if rest else None, receiver.outer, receiver.extra
            )
            self._rebind(node.func, merged, frame)
            return NONE
        if name == "clear":
            self._rebind(node.func, Mapping((), None, receiver.outer), frame)
            return NONE
        if name == "pop" and args and isinstance(args[0], Const):
            left = {key: value for key, value in receiver.entries if key != args[0].value}
            kept = Mapping(tuple(left.items()), receiver.element, receiver.outer, receiver.extra)
            self._rebind(node.func, kept, frame)
        if name == "copy":
            return Mapping(receiver.entries, receiver.element, extra=receiver.extra)
        return _mapping_view(receiver, name, args)

    def _rebind(self, function: ast.expr, value: Value, frame: Frame) -> None:
        """After `x.append(v)`: what `x` holds now."""
        if isinstance(function, ast.Attribute):
            self._put_back(function.value, value, frame)

    def _put_back(self, node: ast.expr, value: Value, frame: Frame) -> None:
        if isinstance(node, ast.Name):
            inner: Frame | None = frame
            while inner is not None:
                if node.id in inner.env:
                    inner.env = {**inner.env, node.id: value}
                    return
                inner = inner.parent
        elif isinstance(node, ast.Attribute):
            self.quiet += 1
            try:
                owner = self.eval(node.value, frame)
            finally:
                self.quiet -= 1
            for option in options(owner):
                if isinstance(option, Instance):
                    self.heap[option].put(
                        node.attr, value, replace=bool(self.quiet) and not (frame.conditional or frame.parted)
                    )

    def _note(self, made: Instance | ExternalInstance, name: str) -> None:
        """What `forward` stores is not there before it has run."""
        if self.quiet:
            self.heap.note(made, name)

    # statements

    def block(self, body: list[ast.stmt], frame: Frame) -> bool:
        """Interprets statements in order; False if control does not fall out of their end."""
        for statement in body:
            method = getattr(self, f"do_{type(statement).__name__.lower()}", None)
            if method is not None and method(statement, frame) is False:
                return False
        return True

    def do_expr(self, node: ast.Expr, frame: Frame) -> None:
        self.eval(node.value, frame)

    def do_return(self, node: ast.Return, frame: Frame) -> bool:
        frame.returned.append(self.eval(node.value, frame) if node.value else NONE)
        return False

    def do_raise(self, node: ast.Raise, frame: Frame) -> bool:
        if node.exc is not None:
            self.eval(node.exc, frame)
        return False

    def do_break(self, node: ast.Break, frame: Frame) -> bool:
        frame.exits.append(frame.env)
        return False

    def do_continue(self, node: ast.Continue, frame: Frame) -> bool:
        frame.exits.append(frame.env)
        return False

    def do_assign(self, node: ast.Assign, frame: Frame) -> None:
        value = self.eval(node.value, frame)
        for target in node.targets:
            self.assign(target, value, frame, node.value)

    def do_annassign(self, node: ast.AnnAssign, frame: Frame) -> None:
        if node.value is not None:
            value = self.eval(node.value, frame)
            if isinstance(value, Unknown):
                declared = self.annotation(node.annotation, frame.module, sure=True)
                value = value if isinstance(declared, Unknown) else declared
            self.assign(node.target, value, frame, node.value)

    def do_augassign(self, node: ast.AugAssign, frame: Frame) -> None:
        target = node.target
        old = self.eval(self._load_of(target), frame)
        value = self.eval(node.value, frame)
        result = self.binary(type(node.op).__name__, old, value)
        if isinstance(old, Sequence) and isinstance(node.op, ast.Add) and old.outer:
            result = Sequence("list", None, join(self.element(old), self.element(value)), True)
        self.assign(target, result, frame, node.value, augmented=True, old=old)

    def _load_of(self, target: ast.Name | ast.Attribute | ast.Subscript) -> ast.expr:
        """The read that `target += ...` starts with, one node for each target."""
        if id(target) not in self._loads:
            self._loads[id(target)] = ast.copy_location(_as_load(target), target)
        return self._loads[id(target)]

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
        if isinstance(target, ast.Name):
            self._assign_name(target, value, frame, source, augmented, old)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target.elts, value, frame)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, Sequence("list", None, self.element(value)), frame)
        elif isinstance(target, ast.Attribute):
            self._assign_attribute(target, value, frame, source, augmented, old)
        elif isinstance(target, ast.Subscript):
            self._assign_item(target, value, frame, augmented)

    def _assign_name(
        self,
        target: ast.Name,
        value: Value,
        frame: Frame,
        source: ast.expr | None,
        augmented: bool,
        old: Value | None,
    ) -> None:
        scope = frame.outside.get(target.id)
        if scope is None:
            env = frame.env
            for key in [k for k in env if k.startswith(target.id + ".")]:
                del env[key]
            env[target.id] = value
            return
        reads = augmented or (source is not None and target.id in names_in(source))
        if scope == "global":
            known = self.global_value(frame.module, target.id)
            self.tell(F.Store(self.where(frame), target, "global", None, target.id, value, known, reads))
            return
        inner = frame.parent
        while inner is not None:
            if target.id in inner.env:
                if not self.contexts[inner.context].compiled:  # else it lives no longer than the call does
                    self.tell(
                        F.Store(
                            self.where(frame),
                            target,
                            "nonlocal",
                            None,
                            target.id,
                            value,
                            inner.env[target.id],
                            reads,
                        )
                    )
                inner.env[target.id] = join(inner.env[target.id], value)
                return
            inner = inner.parent

    def _unpack(self, elements: list[ast.expr], value: Value, frame: Frame) -> None:
        starred = next((i for i, e in enumerate(elements) if isinstance(e, ast.Starred)), None)
        if isinstance(value, Sequence) and value.items is not None:
            items = value.items
            if starred is None and len(items) == len(elements):
                for element, item in zip(elements, items, strict=True):
                    self.assign(element, item, frame)
                return
            if starred is not None and len(items) >= len(elements) - 1:
                tail = len(elements) - starred - 1
                middle = items[starred : len(items) - tail]
                rest = (*items[:starred], Sequence("list", middle, UNKNOWN), *items[len(items) - tail :])
                for element, item in zip(elements, rest, strict=True):
                    inner = element.value if isinstance(element, ast.Starred) else element
                    self.assign(inner, item, frame)
                return
        rows = [
            v for v in options(value) if isinstance(v, Sequence) and v.items and len(v.items) == len(elements)
        ]
        if rows and starred is None:
            for index, element in enumerate(elements):
                self.assign(element, join(*(cast("tuple[Value, ...]", r.items)[index] for r in rows)), frame)
            return
        member = self.element(value)
        for element in elements:
            self.assign(element, member, frame)

    def _assign_attribute(
        self,
        target: ast.Attribute,
        value: Value,
        frame: Frame,
        source: ast.expr | None,
        augmented: bool,
        old: Value | None,
    ) -> None:
        owner = self.eval(target.value, frame)
        reads = augmented or (source is not None and _reads(source, target))
        for option in options(owner):
            before = old
            if isinstance(option, Instance) and self._set_property(option, target.attr, value, frame):
                continue
            if isinstance(option, Instance):
                if before is None and not self.quiet:
                    before = self._before(option, target.attr, frame)
                if not self.quiet and (self.heap[option].outer or frame.function is None):
                    self.tell(
                        F.Store(
                            self.where(frame),
                            target,
                            "attribute",
                            option,
                            target.attr,
                            value,
                            before,
                            reads,
                            self.is_module(option),
                            source,
                        )
                    )
                self.heap[option].put(
                    target.attr, value, replace=bool(self.quiet) and not (frame.conditional or frame.parted)
                )
                self._note(option, target.attr)
            elif isinstance(option, ExternalInstance):
                if option.ident:
                    self.heap[option].put(target.attr, value, replace=False)
                    self._note(option, target.attr)
                self.tell(
                    F.Store(
                        self.where(frame),
                        target,
                        "attribute",
                        option,
                        target.attr,
                        value,
                        before,
                        reads,
                        self.is_module(option),
                    )
                )
            elif isinstance(option, (Tensor, Class, Function, External)):
                if isinstance(option, Class):
                    self.patch(option.info, target.attr, value)
                self.tell(
                    F.Store(self.where(frame), target, "attribute", option, target.attr, value, before, reads)
                )
        if isinstance(target.value, ast.Name):
            frame.env[f"{target.value.id}.{target.attr}"] = value

    def _set_property(self, owner: Instance, name: str, value: Value, frame: Frame) -> bool:
        """Runs the setter of a property if its class has one."""
        for info in self.mro(owner.cls).functions(name)[1:]:
            if any(isinstance(d, ast.Attribute) and d.attr == "setter" for d in info.decorators):
                self.invoke(Function(info, owner), (value,), {}, frame, frame.confidence)
                return True
        return False

    def _before(self, owner: Instance, name: str, frame: Frame) -> Value | None:
        if name in self.heap[owner].attributes:
            return self.heap[owner].attributes[name]
        holder = self.mro(owner.cls).holder(name)
        if holder is None:
            return None
        return self._class_attribute(holder, name, owner)

    def _assign_item(self, target: ast.Subscript, value: Value, frame: Frame, augmented: bool) -> None:
        base = self.eval(target.value, frame)
        index, parts, slices = self.index(target.slice, frame)
        self.tell(F.Index(self.where(frame), target, base, index, parts, slices, "store", value))
        for option in options(base):
            if isinstance(option, (External, ExternalInstance)) or (
                isinstance(option, (Sequence, Mapping)) and option.outer
            ):
                old = self._item_of(option, index, target.slice) if isinstance(option, Mapping) else None
                name = ast.unparse(target.value)
                self.tell(F.Store(self.where(frame), target, "item", option, name, value, old, augmented))
        if isinstance(base, Mapping):
            if isinstance(index, Const):
                entries = {**dict(base.entries), index.value: value}
                new: Value = Mapping(tuple(entries.items()), base.element, base.outer, base.extra)
            else:
                new = Mapping(base.entries, join(base.element, value) if base.element else value, base.outer)
            self._put_back(target.value, new, frame)
        elif isinstance(base, Sequence) and not isinstance(target.slice, ast.Slice):
            if base.items is not None and isinstance(index, Const) and isinstance(index.value, int):
                if -len(base.items) <= index.value < len(base.items):
                    items = list(base.items)
                    items[index.value] = value
                    self._put_back(
                        target.value, Sequence(base.kind, tuple(items), UNKNOWN, base.outer), frame
                    )
                return
            self._put_back(
                target.value, Sequence(base.kind, None, join(self.element(base), value), base.outer), frame
            )
        elif self.container_members(base) is not None and isinstance(base, (Instance, ExternalInstance)):
            self._container_method(base, "__setitem__", (index, value))

    def do_if(self, node: ast.If, frame: Frame) -> bool:
        frame.config_tested = None
        frame.guarding = isinstance(node.body[0], ast.Raise) and not node.orelse
        answer = self.test(node.test, "if", frame)
        frame.guarding = False
        undecided = answer.decided is None and frame.config_tested is True
        guess = answer.likely
        if undecided and guess is None and not node.orelse and _asks_for_one(node.test):
            guess = False
        if answer.decided is None and guess is None and _outgrown(node):
            guess = False
        if guess is not None and _gives_up(node.body if guess else node.orelse):
            guess = None  # a default that raises is none
        arms = [
            (taken, body)
            for taken, body in ((True, node.body), (False, node.orelse))
            if answer.decided in (None, taken)
        ]
        lower = self.improbable(frame)
        confidence, before, parted = frame.confidence, frame.conditional, frame.parted
        followed = [taken for taken, _ in arms if lower is not None or guess in (None, taken)]
        rare = undecided and guess is None and _arms_by_literal(node) > 2
        ends: dict[bool, Env | None] = {}
        assumed: dict[bool, Env] = {}
        ways: list[Way] = []
        start = frame.env
        for taken, body in arms:
            passed_by = guess is not None and guess != taken
            frame.env = start
            frame.conditional = before or (undecided and guess is None)
            frame.parted = parted or len(followed) > 1
            if passed_by or rare:
                if passed_by and lower is None:
                    continue
                frame.confidence = lower or "low"
            frame.env = dict(self.narrow(node.test, taken, frame))
            assumed[taken] = dict(frame.env)
            with self.heap.way() as stored:
                ends[taken] = frame.env if self.block(body, frame) else None
            if ends[taken] is not None or not _gives_up(body):
                ways.append(stored)
            frame.confidence = confidence
        frame.conditional, frame.parted = before, parted
        if answer.decided is not None and ways:
            self.heap.follow(ways[0])
        elif ways:
            self.heap.join(*ways, *([set()] if len(ends) < 2 else []))
        # `frame.env` is replaced by assignments inside the blocks, so each end was read after its block
        merged = join_envs(*ends.values())
        if merged is None:
            return False
        if len(ends) == 2 and None not in ends.values():
            _forget(start, merged, [(assumed[taken], cast(Env, ends[taken])) for taken in ends])
        if guess is not None and answer.decided is None and ends.get(guess) is None and lower is not None:
            frame.confidence = lower  # by default the function has ended
        frame.env = merged
        return True

    def _branches(self, branches: list[tuple[Env, list[ast.stmt]]], frame: Frame, *, undecided: bool) -> bool:
        before = frame.conditional
        ends: list[Env | None] = []
        ways: list[Way] = []
        for env, body in branches:
            frame.env = env
            frame.conditional = before or undecided
            with self.heap.way() as stored:
                ends.append(frame.env if self.block(body, frame) else None)
            ways.append(stored)
        frame.conditional = before
        self.heap.join(*ways, set())
        merged = join_envs(*ends)
        if merged is None:
            return False
        frame.env = merged
        return True

    def _loop(
        self,
        frame: Frame,
        kind: F.Enclosing,
        rounds: list[Value | None],
        node: ast.For | ast.AsyncFor | ast.While,
        *,
        known: bool = False,
    ) -> bool:
        """Interprets a loop's body for each round, until nothing new is learnt if members are not known.

        `known`: the rounds are those that the loop has.
        """
        outer_exits, outer_enclosing, outer_conditional = frame.exits, frame.enclosing, frame.conditional
        frame.enclosing = (*outer_enclosing, kind)
        if len(rounds) < 2:
            frame.conditional = True
        leaving: list[Env] = []
        fell = True
        ways: list[Way] = []
        for member in rounds:
            start = frame.env
            frame.env, frame.exits = dict(start), []
            if isinstance(node, ast.While):
                if self.test(node.test, "while", frame).decided is False:
                    break
                frame.env = dict(self.narrow(node.test, True, frame))
            elif member is not None:
                self.assign(node.target, member, frame)
            with self.heap.way() as stored:
                fell = self.block(node.body, frame)
            ways.append(stored)
            leaving.extend(frame.exits)
            merged = join_envs(start, frame.env if fell else None, *frame.exits)
            assert merged is not None
            frame.env = merged
            if merged == start:
                break
        if known and len(ways) == len(rounds) and fell and not leaving:
            for stored in ways:
                self.heap.follow(stored)
        elif ways:
            self.heap.join(*ways, set())
        frame.exits, frame.enclosing, frame.conditional = outer_exits, outer_enclosing, outer_conditional
        return self.block(node.orelse, frame)

    def do_for(self, node: ast.For | ast.AsyncFor, frame: Frame) -> bool:
        value = self.eval(node.iter, frame)
        self.tell_loop(node.iter, value, False, frame)
        members = self.container_members(value)
        source = members if members is not None else value
        if (
            isinstance(source, Sequence)
            and source.items is not None
            and not (source.outer and not source.items)
        ):
            items: list[Value | None] = list(source.items)
            if not items:
                return self.block(node.orelse, frame)
            if len(items) <= UNROLL:
                several = len(items) > 1
                return self._loop(frame, "for", items if several else items * 2, node, known=several)
        element = self.element(value)
        return self._loop(frame, "for", [element, element], node)

    do_asyncfor = do_for

    def do_while(self, node: ast.While, frame: Frame) -> bool:
        return self._loop(frame, "while", [None, None], node)

    def do_try(self, node: ast.Try, frame: Frame) -> bool:
        before, enclosing, confidence = dict(frame.env), frame.enclosing, frame.confidence
        known = len(frame.returned)
        frame.enclosing = (*enclosing, "try")
        fell = self.block(node.body, frame)
        after = frame.env
        frame.enclosing = enclosing
        made = [v for name, v in after.items() if before.get(name) is not v] + frame.returned[known:]
        if any(map(tensor_of, made)):
            for handler in node.handlers:
                caught = None if handler.type is None else self.eval(handler.type, frame)
                reraises = isinstance(handler.body[-1], ast.Raise)
                self.tell(F.Handler(self.where(frame), _header(handler), caught, reraises))
        if fell and node.orelse:
            fell = self.block(node.orelse, frame)
        completes = fell or len(frame.returned) > known
        end, returned = frame.env, list(frame.returned)
        at_raise = join_envs(before, after) or before
        for handler in node.handlers:
            frame.env = dict(at_raise)
            if handler.name:
                frame.env[handler.name] = UNKNOWN
            frame.confidence = "low"  # an exception has to be raised first
            with self.heap.way() as stored:
                handled = self.block(handler.body, frame)
            self.heap.join(stored, set())
            if handled and not completes:
                fell, end = True, frame.env
            frame.confidence = confidence
        if completes:
            frame.returned = returned  # what is known afterwards is what holds when nothing was raised
        frame.env = end
        if not self.block(node.finalbody, frame):
            return False
        return fell

    do_trystar = do_try

    def do_with(self, node: ast.With | ast.AsyncWith, frame: Frame) -> bool:
        enclosing = frame.enclosing
        for item in node.items:
            value = self.eval(item.context_expr, frame)
            name = next((v.name for v in options(value) if isinstance(v, (External, ExternalInstance))), None)
            self.tell(F.With(self.where(frame), item.context_expr, value, name))
            if item.optional_vars is not None:
                entered = self.element(value) if isinstance(value, Sequence) else UNKNOWN
                if name in K.ENTER_THEMSELVES:
                    entered = value
                self.assign(item.optional_vars, entered, frame)
            if name is None and isinstance(item.context_expr, ast.Call):
                called = options(self.eval(item.context_expr.func, frame))
                name = next((v.name for v in called if isinstance(v, External)), None)
            if name is None or not name.startswith(K.SPLITTING_CONTEXTS):
                frame.enclosing = (*frame.enclosing, "with")
        fell = self.block(node.body, frame)
        frame.enclosing = enclosing
        return fell

    do_asyncwith = do_with

    def do_match(self, node: ast.Match, frame: Frame) -> bool:
        subject = self.eval(node.subject, frame)
        patterns = (p for case in node.cases for p in ast.walk(case.pattern))
        compared = next((p for p in patterns if isinstance(p, ast.MatchValue)), None)
        if compared is not None:  # Python asks whether the subject equals the first value
            self._tell_test(compared.value, "match", subject, frame)
        branches: list[tuple[Env, list[ast.stmt]]] = [(dict(frame.env), [])]
        before = frame.env
        for case in node.cases:
            frame.env = dict(before)
            for pattern in ast.walk(case.pattern):
                bound = getattr(pattern, "name", None) or getattr(pattern, "rest", None)
                if isinstance(bound, str):
                    frame.env[bound] = UNKNOWN
            if case.guard is not None:
                self.test(case.guard, "if", frame)
            branches.append((frame.env, case.body))
        return self._branches(branches, frame, undecided=True)

    def do_assert(self, node: ast.Assert, frame: Frame) -> None:
        """Dynamo takes `assert t` and `assert t, "text"` into the graph; anything else is a branch to it."""
        constant = node.msg is None or isinstance(node.msg, ast.Constant)
        negated = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
        self.test(node.test, "assert" if constant and not negated else "assertion", frame)
        frame.env = dict(self.narrow(node.test, True, frame))

    def do_delete(self, node: ast.Delete, frame: Frame) -> None:
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                base = self.eval(target.value, frame)
                index, parts, slices = self.index(target.slice, frame)
                self.tell(F.Index(self.where(frame), target, base, index, parts, slices, "del"))

    def do_functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> None:
        frame.env[node.name] = self.decorated(self.function_info(node, node.name, frame), frame)

    do_asyncfunctiondef = do_functiondef

    def do_classdef(self, node: ast.ClassDef, frame: Frame) -> None:
        self.tell(F.Define(self.where(frame), node))
        frame.env[node.name] = Class(self.local_class(node, frame))

    def do_import(self, node: ast.Import | ast.ImportFrom, frame: Frame) -> None:
        for local, binding in imports_of(frame.module, node):
            if local != "*":
                frame.env[local] = self.imported(binding)

    do_importfrom = do_import

    def do_global(self, node: ast.Global, frame: Frame) -> None:
        frame.outside.update(dict.fromkeys(node.names, "global"))

    def do_nonlocal(self, node: ast.Nonlocal, frame: Frame) -> None:
        frame.outside.update(dict.fromkeys(node.names, "nonlocal"))


def _is_kind(kind: str | None, wanted: Value) -> bool | None:
    """Whether a Python value of type `kind` (None: not known) is an instance of what `wanted` stands for."""
    plain = [v for v in options(wanted) if isinstance(v, Plain)]
    if (
        kind is None
        or any(v.kind is None for v in plain)
        or any(isinstance(v, Unknown) for v in options(wanted))
    ):
        return None if plain or kind is None else False
    kinds = {v.kind for v in plain}
    return kind in kinds or (kind == "bool" and "int" in kinds)


def _forget(start: Env, merged: Env, ways: list[tuple[Env, Env]]) -> None:
    """After both ways of a test: a name that neither assigned is what it was, not what each way took it for."""
    for name, value in start.items():
        if name in merged and merged[name] is not value:
            if all(end.get(name) is assumed.get(name) for assumed, end in ways):
                merged[name] = value


def _asks_for_one(test: ast.expr) -> bool:
    """`x == "name"`, `"name" in x`, `x.dtype == torch.float16` (or a conjunction with one): one case of many."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(map(_asks_for_one, test.values))
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    return isinstance(test.ops[0], (ast.Eq, ast.In)) and any(
        _is_text(side) for side in (test.left, test.comparators[0])
    )


def _outgrown(node: ast.If) -> bool:
    """`if length > self.size: self.grow(length)`: what was made in time for the usual case is made anew."""
    test = node.test
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or node.orelse:
        return False
    ordered = isinstance(test.ops[0], (ast.Gt, ast.GtE, ast.Lt, ast.LtE))
    return (
        ordered
        and (_of_self(test.left) != _of_self(test.comparators[0]))
        and all(map(_writes_self, node.body))
    )


def _of_self(node: ast.expr) -> bool:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and node.id == "self"


def _writes_self(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call) and _of_self(node.value)
    return isinstance(node, ast.Assign) and all(
        isinstance(t, ast.Attribute) and _of_self(t) for t in node.targets
    )


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return bool(node.elts) and all(map(_is_text, node.elts))
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _arms_by_literal(node: ast.If) -> int:
    """How many ways an `if`/`elif` chain has that compares with literals; 1 if it is none."""
    ways = 1
    current: ast.If | None = node
    while current is not None and _asks_for_one(current.test):
        ways += 1
        inner = current.orelse
        current = inner[0] if len(inner) == 1 and isinstance(inner[0], ast.If) else None
    return ways


def _gives_up(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Raise)


def _of_tensors(value: Value) -> Value:
    """What a model is to predict: tensors, in whatever container."""
    if isinstance(value, Unknown):
        return TAINTED
    if isinstance(value, Sequence):
        items = None if value.items is None else tuple(map(_of_tensors, value.items))
        return Sequence(value.kind, items, _of_tensors(value.element))
    if isinstance(value, Mapping) and value.element is not None:
        return Mapping(value.entries, _of_tensors(value.element))
    return value


def given(value: Value) -> Value:
    """A parameter's value, its tensors marked as coming in from outside."""
    if isinstance(value, Tensor):
        return Tensor(value.dtype, value.sure, given=True)
    if isinstance(value, Choice):
        return Choice(tuple(map(given, value.options)), value.likely)
    return value


def _positional(spec: ast.arguments) -> list[tuple[ast.arg, ast.expr | None]]:
    """The parameters that can be given by position, each with its default or None."""
    named = [*spec.posonlyargs, *spec.args]
    bare = len(named) - len(spec.defaults)
    return [(arg, spec.defaults[index - bare] if index >= bare else None) for index, arg in enumerate(named)]


def _widen(value: Value) -> Value:
    """The value with what distinguishes one call from another left out."""
    if isinstance(value, Const) and value.value is not None:
        return Plain(type(value.value).__name__)
    if isinstance(value, Sequence):
        return Sequence(
            value.kind,
            None,
            join(*(_widen(m) for m in members_of(value))) if members_of(value) else UNKNOWN,
            value.outer,
        )
    if isinstance(value, Mapping):
        values = [_widen(v) for _, v in value.entries] + (
            [value.element] if value.element is not None else []
        )
        return Mapping((), join(*values) if values else None, value.outer)
    return value


def _reads(source: ast.expr, target: ast.Attribute) -> bool:
    wanted = ast.unparse(target)
    return any(
        isinstance(n, ast.Attribute) and n.attr == target.attr and ast.unparse(n) == wanted
        for n in ast.walk(source)
    )


def _as_load(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Name):
        return ast.Name(node.id, ast.Load())
    if isinstance(node, ast.Attribute):
        return ast.Attribute(node.value, node.attr, ast.Load())
    assert isinstance(node, ast.Subscript)
    return ast.Subscript(node.value, node.slice, ast.Load())


def _number(name: str, value: Value, answer: bool | None) -> Value:
    """`int(value)` and its like."""
    kind = name if name != "round" else "int"
    if tensor_of(value):
        return Plain(kind, "tensor")
    if name == "bool" and answer is not None:
        return Const(answer)
    if isinstance(value, Const) and isinstance(value.value, (int, float)) and name in ("int", "float"):
        try:
            return Const(int(value.value) if name == "int" else float(value.value))
        except (ValueError, OverflowError):
            return Plain(kind)
    for option in options(value):
        if isinstance(option, Plain):
            return Plain(kind, K.computed(option.origin))
    return Plain(kind)


def _length(value: Value) -> Value:
    if isinstance(value, Sequence) and value.items is not None and not value.outer:
        return Const(len(value.items))
    if isinstance(value, Mapping) and value.element is None and not value.outer:
        return Const(len(value.entries))
    return K.SHAPE_INT if tensor_of(value) else Plain("int")


def _mapping_view(mapping: Mapping, name: str, args: tuple[Value, ...]) -> Value:
    values = [v for _, v in mapping.entries] + ([mapping.element] if mapping.element is not None else [])
    keys: list[Value] = [Const(cast("str", k)) for k, _ in mapping.entries]
    if mapping.element is not None:
        keys.append(Plain("str"))
    complete = mapping.element is None and len(mapping.entries) <= UNROLL
    if name == "values":
        return Sequence("iterator", tuple(values) if complete else None, join(*values) if values else UNKNOWN)
    if name == "keys":
        return Sequence("iterator", tuple(keys) if complete else None, join(*keys) if keys else UNKNOWN)
    if name == "items":
        pairs = tuple(Sequence("tuple", (k, v), UNKNOWN) for k, v in zip(keys, values, strict=True))
        joined = Sequence("tuple", (join(*keys), join(*values)), UNKNOWN) if pairs else UNKNOWN
        return Sequence("iterator", pairs if complete else None, joined)
    if name in ("get", "pop", "setdefault", "__getitem__"):
        default = args[1] if len(args) > 1 else NONE
        if args and isinstance(args[0], Const):
            found = dict(mapping.entries).get(args[0].value)
            if found is not None:
                return found
            if mapping.element is None:
                return default
            return prefer(default, mapping.element) if mapping.extra else join(mapping.element, default)
        found = one_of(values)
        if mapping.extra:
            return prefer(default, found)
        return found if isinstance(found, Unknown) else join(found, default)
    return UNKNOWN


def _header(handler: ast.ExceptHandler) -> ast.expr:
    """The classes that an `except` names; the word itself if it names none."""
    if handler.type is not None:
        return handler.type
    word = ast.copy_location(ast.Name("except", ast.Load()), handler)
    word.end_lineno, word.end_col_offset = handler.lineno, handler.col_offset + len("except")
    return word
