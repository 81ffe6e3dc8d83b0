"""Expressions: from a node and the names around it to a Value, telling facts on the way."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from tcready.schema import Confidence, is_installed
from tcready.static import facts as F  # noqa: N812 - the facts are many and their names common words
from tcready.static import knowledge as K  # noqa: N812
from tcready.static.index import ClassInfo, FunctionInfo, Import, ModuleInfo, Program, build_class
from tcready.static.objects import Heap, Mro, linearise
from tcready.static.scope import Frame, narrowing_key
from tcready.static.text import MAX_LENGTH
from tcready.static.values import (
    DATA,
    NONE,
    TAINTED,
    UNKNOWN,
    Answer,
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
    Module,
    Plain,
    Sequence,
    Super,
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
    truth,
    whole,
    without_none,
)

BUILTINS = frozenset(vars(builtins))
Arguments = tuple[tuple[Value, ...], dict[str, Value]]
PATCHED = ("forward", "__call__", "__init__")
"""Methods that class decorators are known to replace."""
IMPORT_DEPTH = 8
"""Where the count of call levels starts for what runs at import, so that few are followed there."""
PASSED_ON = frozenset({"range", "zip", "map", "filter", "reversed"})
"""Iterators that Dynamo passes on to what runs behind a break (measured)."""
MAX_ITEMS = 32
"""Longer literal sequences are known by their joined element alone."""


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


class Evaluator:
    """Evaluates expressions; `invoke` and `instantiate` are the interpreter's."""

    def __init__(self, program: Program, training: bool | None, low: bool = False) -> None:
        self.program = program
        self.low = low
        """Follow what only other than the defaults would run in an installed package too."""
        self.training = training
        """What `self.training` is; None for both."""
        self.heap = Heap()
        self.facts: dict[F.Fact, None] = {}
        self.contexts: list[Context] = []
        self.edges: dict[tuple[int, int], dict[tuple[F.Enclosing, ...], None]] = {}
        """(caller, callee), and what stands around each place of the call."""
        self.calls: dict[tuple[str, int, int], bool] = {}
        self.spread: set[ast.Call] = set()
        """Calls that are given a sequence of unknown length, member by member."""
        self.unknown_callees: dict[int, dict[ast.expr, None]] = {}
        """What each context calls although nothing in sight tells what it is."""
        """Call sites reached, and whether every callee was found, by file and position."""
        self.quiet = 0
        """Above 0 while code runs that is not compiled: module level, `__init__` of what is built before."""
        self._globals: dict[tuple[ModuleInfo, str], Value] = {}
        self._busy: set[tuple[ModuleInfo | ClassInfo, str]] = set()
        """Names whose value is being worked out."""
        self._mros: dict[ClassInfo, Mro] = {}
        self._stores: dict[Mro, frozenset[str]] = {}
        self._changing: dict[Mro, frozenset[str]] = {}
        self._functions: dict[int, FunctionInfo] = {}
        self._classes: dict[int, ClassInfo] = {}
        self._module_frames: dict[ModuleInfo, Frame] = {}
        self._patched: dict[ClassInfo, dict[str, Function]] = {}
        """Methods that decorators of their class put in the place of what it defines."""
        self._patching: dict[FunctionInfo, bool] = {}
        self._installed: dict[ModuleInfo, bool] = {}
        self._expressions: dict[type, Callable[[Any, Frame], Value]] = {}

    # to be given by the interpreter

    def invoke(
        self,
        function: Function,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        frame: Frame,
        confidence: Confidence,
    ) -> Value:
        raise NotImplementedError

    def decorated(self, info: FunctionInfo, frame: Frame) -> Value:
        raise NotImplementedError

    # facts

    def where(self, frame: Frame) -> F.Where:
        return F.Where(
            str(frame.module.path),
            frame.symbol,
            frame.context,
            frame.enclosing,
            frame.confidence,
            frame.conditional,
        )

    def tell(self, fact: F.Fact) -> None:
        if not self.quiet:
            self.facts[fact] = None

    # defaults

    def improbable(self, frame: Frame) -> Confidence | None:
        """How sure code runs that the defaults pass by; None if it is not followed.

        A project's own options are there to be used, so what they switch on is judged. Of an installed package's
        nobody uses most, and what they switch on says nothing of the model at hand.
        """
        module = frame.module
        if module not in self._installed:
            self._installed[module] = is_installed(str(module.path))
        if not self._installed[module]:
            return "low" if frame.confidence == "low" else "medium"
        return "low" if self.low else None

    # names

    def module_frame(self, module: ModuleInfo) -> Frame:
        if module not in self._module_frames:
            self._module_frames[module] = Frame(module, None, -1, "high", {}, depth=IMPORT_DEPTH)
        return self._module_frames[module]

    def global_value(self, module: ModuleInfo, name: str) -> Value | None:
        """What a top-level name of a module is; None if the module has no such name."""
        key = (module, name)
        if key in self._globals:
            return self._globals[key]
        if key in self._busy:
            return UNKNOWN
        found = module.bindings.get(name)
        if found is None:
            for star in module.stars:
                source = self.program.module(star) if self.program.mentions(star, name) else None
                if source is None:
                    continue
                value = self.global_value(source, name)
                if value is not None:
                    self._globals[key] = value
                    return value
            if any(not self.program.reads(star) for star in module.stars) and name not in BUILTINS:
                return UNKNOWN
            annotation = module.annotations.get(name)
            return UNKNOWN if annotation is not None else None
        self._busy.add(key)
        self.quiet += 1
        try:
            values = [v for v in (self._binding(module, b) for b in found) if v is not None]
        finally:
            self.quiet -= 1
            self._busy.discard(key)
        known = [v for v in values if not isinstance(v, Unknown)]
        callables = [v for v in known if v != NONE]
        value = join(*(callables or known or values or [UNKNOWN]))
        self._globals[key] = value
        return value

    def _binding(self, module: ModuleInfo, binding: object) -> Value | None:
        frame = self.module_frame(module)
        if isinstance(binding, FunctionInfo):
            return self.decorated(binding, frame)
        if isinstance(binding, ClassInfo):
            self._decorate_class(binding)
            return Class(binding)
        if isinstance(binding, Import):
            return self.imported(binding)
        return _held(self.eval(cast(ast.expr, binding), frame))

    def imported(self, item: Import) -> Value:
        """What an import binds; an external name if its source is not read."""
        if item.name is None:
            module = self.program.module(item.module)
            return Module(module) if module else External(item.module)
        module = self.program.module(item.module)
        value = self._module_member(module, item.name) if module is not None else None
        if value is not None:
            return value
        inner = self.program.module(f"{item.module}.{item.name}") if module is None else None
        if inner is not None:
            return Module(inner)
        return External(f"{item.module}.{item.name}") if module is None else UNKNOWN

    def _module_member(self, module: ModuleInfo, name: str) -> Value | None:
        """`module.name`: what the module binds, else its submodule, else what its star imports bring."""
        if name not in module.bindings and module.is_package:
            inner = self.program.module(f"{module.name}.{name}")
            if inner is not None:
                return Module(inner)
        return self.global_value(module, name)

    # classes

    def _decorate_class(self, cls: ClassInfo) -> None:
        """Runs the decorators of a class that put other functions in the place of its methods."""
        if cls in self._patched:
            return
        self._patched[cls] = {}
        frame = self.module_frame(cls.module)
        for node in reversed(cls.node.decorator_list):
            named = self.eval(node.func if isinstance(node, ast.Call) else node, frame)
            if not isinstance(named, Function) or not self._patches(named.info):
                continue
            for decorator in options(self.eval(node, frame)):
                if isinstance(decorator, Function):
                    self.invoke(decorator, (Class(cls),), {}, frame, "high")

    def _patches(self, info: FunctionInfo) -> bool:
        """Whether a decorator, or a function inside it, assigns a method to something."""
        if info not in self._patching:
            self._patching[info] = any(
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Name)
                and any(isinstance(t, ast.Attribute) and t.attr in PATCHED for t in node.targets)
                for node in ast.walk(info.node)
            )
        return self._patching[info]

    def patch(self, cls: ClassInfo, name: str, value: Value) -> None:
        """`cls.name = value` while its decorators run."""
        if self.quiet and isinstance(value, Function):
            self._patched.setdefault(cls, {})[name] = value

    def _replacement(self, mro: Mro, name: str, after: ClassInfo | None = None) -> Function | None:
        """What a decorator put in the place of the method that the nearest class defines."""
        for cls in mro.after(after):
            if name in self._patched.get(cls, {}):
                return self._patched[cls][name]
            if name in cls.functions:
                return None
        return None

    def initialisers(self, mro: Mro) -> list[Function]:
        """The functions that stand for `__init__`."""
        replaced = self._replacement(mro, "__init__")
        if replaced is not None:
            return [replaced]
        defined = mro.functions("__init__")[:1]
        found = (options(self.decorated(info, self.module_frame(info.module))) for info in defined)
        return [value for values in found for value in values if isinstance(value, Function)]

    def mro(self, cls: ClassInfo) -> Mro:
        """The method resolution order of a class, its unseen bases by name."""
        if cls not in self._mros:
            bases: dict[ClassInfo, list[ClassInfo | str]] = {}
            self._collect_bases(cls, bases)
            order, external = linearise(cls, bases)
            self._mros[cls] = Mro(tuple(order), tuple(external))
        return self._mros[cls]

    def _collect_bases(self, cls: ClassInfo, bases: dict[ClassInfo, list[ClassInfo | str]]) -> None:
        if cls in bases:
            return
        bases[cls] = []
        self.quiet += 1
        try:
            frame = self.module_frame(cls.module)
            for node in cls.node.bases:
                for value in options(self.eval(node, frame)):
                    if isinstance(value, Class):
                        bases[cls].append(value.info)
                        self._collect_bases(value.info, bases)
                    elif isinstance(value, External):
                        bases[cls].append(K.public_name(value.name))
                    else:
                        bases[cls].append("?" + ast.unparse(node))
        finally:
            self.quiet -= 1

    def is_module(self, value: Value) -> bool:
        """An nn.Module object."""
        if isinstance(value, Instance):
            return self.mro(value.cls).is_module
        return isinstance(value, ExternalInstance) and K.is_module_class(value.name)

    # expressions

    def eval(self, node: ast.expr, frame: Frame) -> Value:
        """The value of an expression; every fact inside it is told."""
        kind = type(node)
        if kind not in self._expressions:
            self._expressions[kind] = getattr(self, f"_{kind.__name__.lower()}", self._other)
        return self._expressions[kind](node, frame)

    def _other(self, node: ast.expr, frame: Frame) -> Value:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.eval(child, frame)
        return UNKNOWN

    def _constant(self, node: ast.Constant, frame: Frame) -> Value:
        return Const(node.value)

    def _name(self, node: ast.Name, frame: Frame) -> Value:
        found = frame.lookup(node.id)
        if found is not None:
            return found
        value = self.global_value(frame.module, node.id)
        if value is not None:
            return value
        return External(node.id) if node.id in BUILTINS else UNKNOWN

    def _namedexpr(self, node: ast.NamedExpr, frame: Frame) -> Value:
        value = self.eval(node.value, frame)
        frame.env[node.target.id] = value
        return value

    def _attribute(self, node: ast.Attribute, frame: Frame) -> Value:
        key = narrowing_key(node)
        if key is not None and key in frame.env:
            return frame.env[key]
        owner = self.eval(node.value, frame)
        if any(isinstance(v, Tensor) or K.is_recurrent(v) for v in options(owner)):
            self.tell(F.Attribute(self.where(frame), node, owner, node.attr))
        return self.attribute(owner, node.attr, frame)

    def attribute(self, owner: Value, name: str, frame: Frame) -> Value:
        """`owner.name`."""
        if len(options(owner)) > 1:  # None has no attributes worth knowing: who reads one has ruled it out
            owner = without_none(owner)
            if tensor_of(owner):
                owner = keep(owner, lambda v: not isinstance(v, Unknown))
        return lift(
            lambda o: join(*(self._attribute_of(option, name, frame) for option in options(o))), owner
        )

    def _attribute_of(self, owner: Value, name: str, frame: Frame) -> Value:
        if isinstance(owner, Tensor):
            if name == "shape":
                return K.SHAPE
            if name in K.TENSOR_ATTRIBUTES:
                return (
                    Tensor(owner.dtype, owner.sure)
                    if name not in ("real", "imag")
                    else Tensor("float", owner.sure)
                )
            if name == "grad":
                return join(NONE, Tensor("float", owner.sure))
            if name == "ndim":
                return Plain("int")
            if name in K.PLAIN_ATTRIBUTES:
                without_gradients = name == "requires_grad" and self.training is False and not owner.leaf
                if name in K.UNUSUAL_KINDS or without_gradients:
                    return prefer(Const(False), Plain("bool"))
                return Plain(name if name in ("dtype", "layout") else None)
            return Method(owner, name)
        if isinstance(owner, Instance):
            return self.member(owner, name, frame)
        if isinstance(owner, Super):
            return self.member(owner.instance, name, frame, owner.after)
        if isinstance(owner, Class):
            return self._class_member(owner, name, frame)
        if isinstance(owner, Module):
            value = self._module_member(owner.info, name)
            return UNKNOWN if value is None else value
        if isinstance(owner, External):
            inner = self.program.module(f"{owner.name}.{name}")
            return Module(inner) if inner else K.external_attribute(f"{owner.name}.{name}")
        if isinstance(owner, ExternalInstance):
            if K.is_module_class(owner.name):
                if name == "training":
                    return self._training()
                if name in K.MODULE_TENSORS:
                    return Tensor("float", leaf=True)
                attribute = self.heap[owner].attributes.get(name) if owner.ident else None
                return attribute if attribute is not None else Method(owner, name)
            return Method(owner, name)
        if isinstance(owner, Plain):
            return Plain(None, owner.origin) if owner.origin != "shape" else Method(owner, name)
        if isinstance(owner, Sequence):
            if (
                name in ("values", "indices")
                and owner.kind == "tuple"
                and owner.items
                and len(owner.items) == 2
            ):
                return owner.items[0 if name == "values" else 1]
            return Method(owner, name)
        if isinstance(owner, (Mapping, Const)):
            if isinstance(owner, Mapping):
                for key, value in owner.entries:
                    if key == name and name not in (
                        "keys",
                        "values",
                        "items",
                        "get",
                        "pop",
                        "update",
                        "copy",
                    ):
                        return value  # attribute access of ModelOutput-like dicts
            return Method(owner, name)
        if isinstance(owner, Function):
            if name == "__code__":
                return owner
            if name == "co_varnames":
                return Sequence("tuple", tuple(map(Const, local_names(owner.info))), UNKNOWN)
            return Const(owner.info.name) if name == "__name__" else UNKNOWN
        if isinstance(owner, Unknown):
            if name == "shape":
                return K.SHAPE
            if name in ("dtype", "device", "ndim", "is_cuda", "requires_grad"):
                return Plain()
            return Method(owner, name)
        return UNKNOWN

    def _training(self) -> Value:
        return Plain("bool") if self.training is None else Const(self.training)

    def member(self, owner: Value, name: str, frame: Frame, after: ClassInfo | None = None) -> Value:
        """An attribute of an object whose class is in sight; `after` starts behind that class (super)."""
        if not isinstance(owner, Instance):
            return UNKNOWN
        mro = self.mro(owner.cls)
        thing = self.heap[owner]
        if not thing.made:
            thing.made = True
            self._make(owner, mro)
        typed = self._typed_by_table(mro, name) if thing.assumed else None
        if typed is not None:
            return typed
        if after is None and name in thing.attributes:
            value = thing.attributes[name]
            if thing.outer and not thing.assumed and name in self._rewritten(mro):
                value = whole(value)
                if isinstance(value, Const):
                    value = join(value, _vague(value))
            if thing.assumed and isinstance(value, Const):
                return prefer(value, _vague(value))
            return _held(value) if thing.outer else value
        if name == "training" and mro.is_module:
            return self._training()
        if name == "__class__":
            return Class(owner.cls)
        if name in PATCHED:
            replaced = self._replacement(mro, name, after)
            if replaced is not None:
                return Function(replaced.info, owner, replaced.closure, replaced.given)
        defined = mro.functions(name, after)
        if defined:
            return self._bind(defined, owner, frame)
        holder = mro.holder(name, after)
        if holder is not None:
            value = self._class_attribute(holder, name, owner)
            if not thing.assumed or not isinstance(value, Const):
                return value
            annotation = holder.annotated.get(name)
            other = _vague(value)
            if value == NONE and annotation is not None:
                other = self.annotation(annotation, holder.module, sure=False)
            return join(value, other) if name in self.assigned(mro) else prefer(value, other)
        if mro.container and name in ("_modules", "_parameters"):
            return Method(owner, name)
        if mro.is_module:
            if name in K.MODULE_TENSORS and mro.external:
                return Tensor("float", leaf=True)
            if K.module_method(name, owner) is not None or name in (
                "register_buffer",
                "add_module",
                "register_module",
            ):
                return Method(owner, name)
        if after is not None or name in ("__init__", "forward", "__call__"):
            return Method(owner, name)
        getter = mro.functions("__getattr__")
        if getter and not mro.is_module:
            return self.invoke(Function(getter[0], owner), (Const(name),), {}, frame, frame.confidence)
        annotated = next((c.annotated[name] for c in mro.classes if name in c.annotated), None)
        if annotated is not None:
            return self.annotation(annotated, owner.cls.module, sure=False)
        if mro.external and mro.external != ("object",):
            return Method(owner, name)
        return UNKNOWN

    def _make(self, owner: Instance, mro: Mro) -> None:
        """Runs what a class does when it is called without arguments, if that is possible."""
        if mro.is_module or mro.container:
            return
        for name in ("__init__", "__post_init__"):
            for info in mro.functions(name)[:1]:
                spec = info.node.args
                needed = len(spec.posonlyargs) + len(spec.args) - len(spec.defaults) - 1
                if needed > 0 or any(default is None for default in spec.kw_defaults):
                    return
                self.quiet += 1
                try:
                    frame = self.module_frame(info.module)
                    self.invoke(Function(info, owner), (), {}, frame, "high")
                finally:
                    self.quiet -= 1

    def _typed_by_table(self, mro: Mro, name: str) -> Value | None:
        """An attribute whose class a table in the class body gives: `parts = {"vision": VisionConfig}`."""
        for cls in mro.classes:
            for table in cls.assigned.values():
                if not isinstance(table, ast.Dict):
                    continue
                for key, item in zip(table.keys, table.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == name and isinstance(item, ast.Name):
                        self.quiet += 1
                        try:
                            value = self.eval(item, self.module_frame(cls.module))
                        finally:
                            self.quiet -= 1
                        if isinstance(value, Class):
                            return self.assumed(value.info)
        return None

    def assigned(self, mro: Mro) -> frozenset[str]:
        """Attributes that some method assigns, `__init__` and `__post_init__` too."""
        if mro not in self._stores:
            self._stores[mro] = frozenset(
                node.attr
                for cls in mro.classes
                for found in cls.functions.values()
                for info in found
                for node in ast.walk(info.node)
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
            )
        return self._stores[mro]

    def _rewritten(self, mro: Mro) -> frozenset[str]:
        """Attributes that methods assign which run after `__init__`: what that gave them decides nothing.

        A method that `__init__` alone speaks of is part of it.
        """
        if mro not in self._changing:
            stored: dict[str, set[str]] = {}
            named: dict[str, set[str]] = {}
            for cls in mro.classes:
                for name, found in cls.functions.items():
                    for node in (
                        n for info in found for n in ast.walk(info.node) if isinstance(n, ast.Attribute)
                    ):
                        kind = stored if isinstance(node.ctx, ast.Store) else named
                        kind.setdefault(name, set()).add(node.attr)
            later = {attr for name, attrs in named.items() if name != "__init__" for attr in attrs}
            building = {"__init__", "__setstate__", *(named.get("__init__", set()) - later)}
            self._changing[mro] = frozenset(
                attr for name, attrs in stored.items() if name not in building for attr in attrs
            )
        return self._changing[mro]

    def _class_attribute(self, holder: ClassInfo, name: str, owner: Value | None) -> Value:
        if name in holder.inner:
            return Class(holder.inner[name])
        node = holder.assigned[name]
        key = (holder, name)
        if node is None or key in self._busy:
            return UNKNOWN
        self._busy.add(key)
        self.quiet += 1
        try:
            value = self.eval(node, self.module_frame(holder.module))
        finally:
            self.quiet -= 1
            self._busy.discard(key)
        if isinstance(value, Function) and owner is not None:
            return Function(value.info, owner, value.closure)
        return _held(value)

    def _bind(self, defined: list[FunctionInfo], owner: Instance, frame: Frame) -> Value:
        kind = _method_kind(defined[0])
        if kind == "property":
            return self.invoke(Function(defined[0], owner), (), {}, frame, frame.confidence)
        values: list[Value] = []
        for info in defined if kind == "plain" else defined[:1]:
            for value in options(self.decorated(info, self.module_frame(info.module))):
                if isinstance(value, Function) and kind != "static":
                    bound: Value = Class(owner.cls) if kind == "class" else owner
                    values.append(Function(value.info, bound, value.closure, value.given))
                else:
                    values.append(value)
        return join(*values)

    def _class_member(self, owner: Class, name: str, frame: Frame) -> Value:
        mro = self.mro(owner.info)
        defined = mro.functions(name)
        if defined:
            kind = _method_kind(defined[0])
            value = self.decorated(defined[0], self.module_frame(defined[0].module))
            if isinstance(value, Function) and kind == "class":
                return Function(value.info, owner, value.closure)
            return value
        holder = mro.holder(name)
        if holder is not None:
            return self._class_attribute(holder, name, None)
        if name in ("__name__", "__qualname__"):
            return Const(owner.info.name)
        if name in ("__module__", "__doc__"):
            return Plain("str")
        if name == "apply" and "torch.autograd.Function" in mro.external:
            return Method(owner, name)
        if mro.external:
            return Method(owner, name)
        return UNKNOWN

    # annotations

    def annotation(self, node: ast.expr | None, module: ModuleInfo, *, sure: bool) -> Value:
        """What a parameter or attribute annotated with `node` holds; unknown stays unknown."""
        self.quiet += 1
        try:
            return self._annotation(node, module, sure, 0)
        finally:
            self.quiet -= 1

    def _annotation(self, node: ast.expr | None, module: ModuleInfo, sure: bool, depth: int) -> Value:
        if node is None or depth > 6:
            return UNKNOWN
        if isinstance(node, ast.Constant):
            if node.value is None:
                return NONE
            if isinstance(node.value, str):
                try:
                    parsed = ast.parse(node.value, mode="eval").body
                except (SyntaxError, ValueError):
                    return UNKNOWN
                return self._annotation(parsed, module, sure, depth + 1)
            return UNKNOWN
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return _either(
                self._annotation(node.left, module, sure, depth + 1),
                self._annotation(node.right, module, sure, depth + 1),
            )
        if isinstance(node, ast.Subscript):
            outer = ast.unparse(node.value).rpartition(".")[2]
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            values = [
                self._annotation(i, module, sure, depth + 1)
                for i in inner
                if not (isinstance(i, ast.Constant) and i.value is Ellipsis)
            ]
            if outer == "Optional":
                return _either(*values, NONE)
            if outer == "Union":
                return _either(*values)
            if outer in ("list", "List", "Sequence", "Iterable", "Collection", "Iterator"):
                return Sequence("list", None, values[0] if values else UNKNOWN)
            if outer in ("tuple", "Tuple"):
                if len(inner) == len(values) and len(values) < MAX_ITEMS:
                    return Sequence("tuple", tuple(values), UNKNOWN)
                return Sequence("tuple", None, values[0] if values else UNKNOWN)
            if outer in ("dict", "Dict", "Mapping", "OrderedDict"):
                return Mapping((), values[-1] if values else UNKNOWN)
            if outer in ("Annotated", "Final", "ClassVar"):
                return values[0] if values else UNKNOWN
            if outer in ("Literal", "Callable", "Type", "type"):
                return UNKNOWN if outer == "Callable" else Plain()
            return self._annotation(node.value, module, sure, depth + 1)
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return UNKNOWN
        alias = self._alias(node.id, module) if isinstance(node, ast.Name) else None
        if alias is not None:
            return self._annotation(alias[0], alias[1], sure, depth + 1)
        return self._annotated_by(self.eval(node, self.module_frame(module)), sure)

    def _alias(self, name: str, module: ModuleInfo, depth: int = 0) -> tuple[ast.expr, ModuleInfo] | None:
        """The type that a name such as `Adj = Union[Tensor, SparseTensor]` stands for, and where it is written."""
        for binding in module.bindings.get(name, ()):
            if isinstance(binding, (ast.Subscript, ast.BinOp)):
                return binding, module
            if isinstance(binding, Import) and binding.name is not None and depth < 4:
                source = self.program.module(binding.module)
                found = self._alias(binding.name, source, depth + 1) if source is not None else None
                if found is not None:
                    return found
        return None

    def _annotated_by(self, value: Value, sure: bool) -> Value:
        if isinstance(value, External):
            name = value.name
            last = name.rpartition(".")[2]
            if name.startswith("torch."):
                if last.endswith("Tensor") or last == "Parameter":
                    return Tensor(K.TENSOR_CLASSES.get(last), sure)
                if last in ("Size",):
                    return K.SHAPE
                if last in ("device", "dtype", "Generator"):
                    return Plain(last)
                if K.is_module_class(name):
                    return UNKNOWN if last == "Module" else ExternalInstance(name)
                return UNKNOWN
            if last in ("Tensor", "LongTensor", "BoolTensor", "FloatTensor") or name.startswith("jaxtyping."):
                return Tensor(None, sure)
            if name in ("int", "float", "bool", "str", "bytes", "complex"):
                return Plain(name)
            if name in ("list", "List", "typing.List", "tuple", "typing.Tuple"):
                return Sequence("list", None, UNKNOWN)
            if name in ("dict", "typing.Dict"):
                return Mapping((), UNKNOWN)
            return UNKNOWN
        if isinstance(value, Class):
            return self.assumed(value.info)
        return UNKNOWN if not isinstance(value, Tensor) else value

    # operators

    def _binop(self, node: ast.BinOp, frame: Frame) -> Value:
        left, right = self.eval(node.left, frame), self.eval(node.right, frame)
        return self.binary(type(node.op).__name__, left, right)

    def assumed(self, cls: ClassInfo) -> Instance:
        """An object of a class that comes from outside, as nobody said more of it than its class."""
        ident = self.heap.ident("annotated", cls, outer=True)
        made = Instance(ident, cls)
        if not self.heap[made].assumed:
            self.heap[made].assumed, self.heap[made].made = True, False
        return made

    def binary(self, op: str, left: Value, right: Value) -> Value:
        """`left op right`; constants are folded if that is small and cannot fail oddly."""
        return self._binary(op, whole(left), whole(right))

    def _binary(self, op: str, left: Value, right: Value) -> Value:
        for one, other in ((left, right), (right, left)):
            absorbing = (one == Const(True) and op == "BitOr") or (one == Const(False) and op == "BitAnd")
            if absorbing and isinstance(one, Const) and isinstance(one.value, bool) and not tensor_of(other):
                return one
        if isinstance(left, Const) and isinstance(right, Const):
            return _fold(op, left.value, right.value)
        if isinstance(left, Const) and isinstance(left.value, str) and op == "Mod":
            return Plain("str")
        if isinstance(left, Sequence) and isinstance(right, Sequence) and op == "Add":
            if (
                left.items is not None
                and right.items is not None
                and len(left.items + right.items) <= MAX_ITEMS
            ):
                return Sequence(left.kind, left.items + right.items, UNKNOWN)
            if left.kind == "tuple" and left.items and right.items is None and len(left.items) < MAX_ITEMS:
                # what a function always returns, with what it sometimes adds
                more = Sequence("tuple", (*left.items, right.element), UNKNOWN)
                return join(Sequence("tuple", left.items, UNKNOWN), more)
            members = (*members_of(left), *members_of(right))
            return Sequence(left.kind, None, join(*members) if members else UNKNOWN)
        if op == "Mult":
            for one, other in ((left, right), (right, left)):
                if isinstance(one, Sequence) and not tensor_of(other):
                    return Sequence(one.kind, None, join(*members_of(one)) if members_of(one) else UNKNOWN)
        return K.binary(op, left, right)

    def _unaryop(self, node: ast.UnaryOp, frame: Frame) -> Value:
        if isinstance(node.op, ast.Not):
            return _truth_value(~self.test(node.operand, "not", frame))
        value = self.eval(node.operand, frame)
        if (
            isinstance(value, Const)
            and isinstance(value.value, (int, float))
            and isinstance(node.op, ast.USub)
        ):
            return Const(-value.value)
        tensor = tensor_of(value)
        if tensor:
            return Tensor(tensor.dtype, tensor.sure)
        if isinstance(value, Plain):
            return Plain(value.kind, K.computed(value.origin))
        return value if isinstance(value, Unknown) else UNKNOWN

    def _boolop(self, node: ast.BoolOp, frame: Frame) -> Value:
        kind = "and" if isinstance(node.op, ast.And) else "or"
        short = kind == "or"
        values: list[Value] = []
        first: list[Value] = []
        """The values it may have if nothing else is said."""
        guess: Value | None = None
        before, confidence = frame.env, frame.confidence
        for operand in node.values[:-1]:
            value = self._truthy(operand, kind, frame)
            answer = self.answer(value)
            if answer.decided == short:
                values.append(value)
                break
            if answer.decided is None:
                values.append(without_falsy(whole(value)) if kind == "or" else whole(value))
                if answer.likely == short and guess is None:
                    guess = join(*first, likely(value))
                    lower = self.improbable(frame)
                    if lower is None:
                        values.append(UNKNOWN)
                        break
                    frame.confidence = lower
                elif answer.likely is None:
                    bare = values[-1]  # it is the result only if it ends the chain
                    first.append(Const(short) if isinstance(bare, Plain) and bare.kind == "bool" else bare)
            frame.env = self.narrow(operand, kind == "and", frame)
        else:
            values.append(self.eval(node.values[-1], frame))
        frame.env, frame.confidence = _with_walrus(before, node, frame.env), confidence
        if guess is None:
            guess = join(*first, likely(values[-1]))
        found = join(*values)
        return found if guess == found else prefer(guess, found)

    def _truthy(self, node: ast.expr, kind: str, frame: Frame) -> Value:
        """The value of an operand whose truth is asked; the test inside it is told."""
        if isinstance(node, (ast.BoolOp, ast.UnaryOp)) and (
            isinstance(node, ast.BoolOp) or isinstance(node.op, ast.Not)
        ):
            return _truth_value(self.test(node, kind, frame))
        value = self.eval(node, frame)
        self._tell_test(node, kind, value, frame)
        return value

    def _tell_test(self, node: ast.expr, kind: str, value: Value, frame: Frame) -> None:
        if not isinstance(value, Const):
            set_up = not any(
                isinstance(v, Tensor) or (isinstance(v, Plain) and v.origin in DATA) for v in options(value)
            )
            frame.config_tested = set_up if frame.config_tested is None else frame.config_tested and set_up
        if not isinstance(value, Const):
            self.tell(F.Test(self.where(frame), node, kind, value, frame.guarding))  # type: ignore[arg-type]

    def answer(self, value: Value) -> Answer:
        """`bool(value)`, as far as the source tells."""
        decided = self._truth(value)
        return Answer(decided, self._truth(likely(value)) if decided is None else decided)

    def _truth(self, value: Value) -> bool | None:
        answer = truth(value)
        if answer is None and isinstance(value, Instance):
            mro = self.mro(value.cls)
            if not mro.functions("__bool__") and not mro.functions("__len__") and not mro.external:
                return True
        return answer

    def test(self, node: ast.expr, kind: str, frame: Frame) -> Answer:
        """Whether `node` is true, as far as the source tells; the question is told as a fact of `kind`."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ~self.test(node.operand, kind, frame)
        if isinstance(node, ast.BoolOp):
            return self._test_all(node, kind, frame)
        value = self.eval(node, frame)
        self._tell_test(node, kind, value, frame)
        return self.answer(value)

    def _test_all(self, node: ast.BoolOp, kind: str, frame: Frame) -> Answer:
        conjunction = isinstance(node.op, ast.And)
        decided: bool | None = conjunction
        guess: bool | None = conjunction
        before, confidence = frame.env, frame.confidence
        for operand in node.values:
            # an assert is traced, but of a condition in parts only the last is what it asserts
            part = (
                kind
                if kind not in ("assert", "assertion") or operand is node.values[-1]
                else "and"
                if conjunction
                else "or"
            )
            answer = self.test(operand, part, frame)
            if answer.decided is not None and answer.decided != conjunction:
                decided = answer.decided
                break
            if answer.decided is None:
                decided = None
            if guess == conjunction:
                guess = answer.likely
            elif answer.likely is not None and answer.likely != conjunction:
                guess = answer.likely  # whatever the others say
            if answer.decided is None and answer.likely is not None and answer.likely != conjunction:
                lower = self.improbable(frame)
                if lower is None:
                    break
                frame.confidence = lower
            elif answer.decided is None and frame.confidence == "high" and _asks_whether_given(operand):
                frame.confidence = "medium"  # what was not given ends the test here
            frame.env = self.narrow(operand, conjunction, frame)
        frame.env, frame.confidence = _with_walrus(before, node, frame.env), confidence
        return Answer(decided, guess if decided is None else decided)

    def narrow(self, node: ast.expr, assume: bool, frame: Frame) -> dict[str, Value]:
        """The environment once `node` is known to be `assume`."""
        env = frame.env
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.narrow(node.operand, not assume, frame)
        if isinstance(node, ast.BoolOp):
            if isinstance(node.op, ast.And) == assume:
                for operand in node.values:
                    frame.env = self.narrow(operand, assume, frame)
                env, frame.env = frame.env, env
            return env
        if isinstance(node, ast.NamedExpr):
            node = node.target
        key = narrowing_key(node)
        subject: ast.expr = node
        change: Callable[[Value], Value] | None = None
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            right = node.comparators[0]
            is_none = isinstance(right, ast.Constant) and right.value is None
            if is_none and isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
                subject = node.left.target if isinstance(node.left, ast.NamedExpr) else node.left
                key = narrowing_key(subject)
                same = isinstance(node.ops[0], (ast.Is, ast.Eq)) == assume
                change = (lambda _: NONE) if same else without_none
        elif isinstance(node, ast.Call) and node.args:
            test = ast.unparse(node.func)
            subject = node.args[0]
            key = narrowing_key(subject)
            if test == "isinstance" and len(node.args) == 2:
                wanted = self._instance_value(node.args[1], frame)
                change = lambda v: _narrow_to(v, wanted, assume)  # noqa: E731
            elif test in ("torch.is_tensor", "is_tensor"):
                change = lambda v: _narrow_to(v, Tensor(), assume)  # noqa: E731
        elif key is not None:
            change = without_falsy if assume else None
        if key is None or change is None:
            return env
        quiet, self.quiet = self.quiet, 1
        try:
            current = self.eval(subject, frame)
        finally:
            self.quiet = quiet
        narrowed = change(current)
        return env if narrowed == current else {**env, key: narrowed}

    def _instance_value(self, node: ast.expr, frame: Frame) -> Value | None:
        """What `isinstance(x, node)` makes of x; None if the class is not understood."""
        if isinstance(node, ast.Tuple):
            values = [self._instance_value(item, frame) for item in node.elts]
            known = [v for v in values if v is not None]
            return join(*known) if len(known) == len(values) else None
        self.quiet += 1
        try:
            value = self.eval(node, frame)
        finally:
            self.quiet -= 1
        if (
            isinstance(value, External)
            and value.name.startswith("torch.nn.")
            and value.name.endswith("Parameter")
        ):
            return None  # a tensor, though not every tensor is one
        found = self._annotated_by(value, sure=True)
        if isinstance(value, External) and value.name in ("list", "tuple", "set"):
            return Sequence(value.name, None, UNKNOWN)  # type: ignore[arg-type]
        return None if isinstance(found, Unknown) else found

    def _ifexp(self, node: ast.IfExp, frame: Frame) -> Value:
        answer = self.test(node.test, "ifexp", frame)
        before, confidence = frame.env, frame.confidence
        values: list[Value] = []
        guess: Value | None = None
        for taken, side in ((True, node.body), (False, node.orelse)):
            if answer.decided not in (None, taken):
                continue
            if answer.likely is not None and answer.likely != taken:
                lower = self.improbable(frame)
                if lower is None:
                    values.append(UNKNOWN)
                    continue
                frame.confidence = lower
            frame.env = self.narrow(node.test, taken, frame)
            values.append(self.eval(side, frame))
            frame.env, frame.confidence = before, confidence
            if answer.decided is None and answer.likely == taken:
                guess = likely(values[-1])
        return join(*values) if guess is None else prefer(guess, join(*map(whole, values)))

    def _compare(self, node: ast.Compare, frame: Frame) -> Value:
        left = self.eval(node.left, frame)
        result: Value = UNKNOWN
        for index, (op, comparator) in enumerate(zip(node.ops, node.comparators, strict=True)):
            right = self.eval(comparator, frame)
            result = lift(partial(self._compared, op), left, right)
            if isinstance(op, (ast.In, ast.NotIn)):
                self.tell(F.Contains(self.where(frame), node, left, right))
            if index < len(node.ops) - 1 and tensor_of(result):
                self.tell(F.Test(self.where(frame), node, "compare", result))
            left = right
        return result

    def _compared(self, op: ast.cmpop, left: Value, right: Value) -> Value:
        if isinstance(op, (ast.Is, ast.IsNot)):
            same = _identity(left, right)
            return Plain("bool", "call") if same is None else Const(same == isinstance(op, ast.Is))
        if any(v in (left, right) for v in (Plain("dtype"), Plain("layout"))):
            unusual = any(map(K.is_unusual, (left, right)))
            if unusual and isinstance(op, (ast.Eq, ast.Is, ast.In)):
                return prefer(Const(False), Plain("bool"))
            if unusual:
                return prefer(Const(True), Plain("bool"))
        if isinstance(op, (ast.In, ast.NotIn)):
            if tensor_of(left) and holds_tensor(right):
                return Tensor("bool")  # `==` with each member, left for whoever asks
            inside = _contains(left, right)
            if inside is None:
                return Plain("bool")
            found = Const(inside == isinstance(op, ast.In))
            changeable = isinstance(right, (Sequence, Mapping)) and right.outer
            return prefer(found, Plain("bool")) if changeable else found
        if isinstance(left, Const) and isinstance(right, Const):
            return _fold_compare(op, left.value, right.value)
        if Const("default") in (left, right) and isinstance(op, (ast.Eq, ast.NotEq)):
            return prefer(Const(isinstance(op, ast.Eq)), Plain("bool"))  # as the word says
        for one, other in ((left, right), (right, left)):
            if one == NONE and isinstance(op, (ast.Eq, ast.NotEq)):
                same = _identity(other, NONE)
                return Plain("bool", "call") if same is None else Const(same == isinstance(op, ast.Eq))
        lt, rt = tensor_of(left), tensor_of(right)
        if lt or rt:
            sure = all(t.sure for t in (lt, rt) if t)
            whole = all(
                isinstance(v, (Tensor, type(NONE))) for v in (*options(left), *options(right)) if v != NONE
            )
            other_plain = not any(
                isinstance(v, (Plain, Unknown)) and not isinstance(v, Const) for v in options(left)
            )
            return Tensor("bool", sure and (whole or other_plain or (lt is not None and rt is None)))
        values = (*options(left), *options(right))
        if K.ARRAY in values or K.NUMBER in values:
            return K.ARRAY  # even of known numbers: a comparison gives an array of one
        if any(isinstance(v, Unknown) for v in values):
            return TAINTED if any(v == TAINTED for v in values) else UNKNOWN
        for origin in DATA:
            if any(isinstance(v, Plain) and v.origin == origin for v in values):
                return Plain("bool", origin)
        return Plain("bool")

    # containers

    def _tuple(self, node: ast.Tuple, frame: Frame) -> Value:
        return self._display("tuple", node.elts, frame)

    def _list(self, node: ast.List, frame: Frame) -> Value:
        return self._display("list", node.elts, frame)

    def _set(self, node: ast.Set, frame: Frame) -> Value:
        return self._display("set", node.elts, frame)

    def _display(self, kind: str, elements: list[ast.expr], frame: Frame) -> Value:
        items: list[Value] = []
        known = len(elements) <= MAX_ITEMS
        for element in elements:
            if isinstance(element, ast.Starred):
                value = self.eval(element.value, frame)
                if isinstance(value, Sequence) and value.items is not None:
                    items.extend(value.items)
                else:
                    known = False
                    items.append(self.element(value))
            else:
                items.append(self.eval(element, frame))
        if known and len(items) <= MAX_ITEMS:
            return Sequence(kind, tuple(items), UNKNOWN)  # type: ignore[arg-type]
        return Sequence(kind, None, join(*items))  # type: ignore[arg-type]

    def _dict(self, node: ast.Dict, frame: Frame) -> Value:
        entries: dict[object, Value] = {}
        rest: list[Value] = []
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.eval(item, frame)
            if key is None:
                if isinstance(value, Mapping):
                    entries.update(value.entries)
                    if value.element is not None:
                        rest.append(value.element)
                else:
                    rest.append(UNKNOWN)
                continue
            name = self.eval(key, frame)
            if isinstance(name, Const):
                entries[name.value] = value
            else:
                rest.append(value)
        if len(entries) > 4 * MAX_ITEMS:
            return Mapping((), join(*entries.values(), *rest))
        return Mapping(tuple(entries.items()), join(*rest) if rest else None)

    def _starred(self, node: ast.Starred, frame: Frame) -> Value:
        return self.element(self.eval(node.value, frame))

    def _joinedstr(self, node: ast.JoinedStr, frame: Frame) -> Value:
        written = False
        text: list[str] | None = []
        for part in node.values:
            if isinstance(part, ast.Constant):
                if text is not None:
                    text.append(str(part.value))
            elif isinstance(part, ast.FormattedValue):
                value = self.eval(part.value, frame)
                written = written or tensor_of(value) is not None
                if part.format_spec is not None:
                    self.eval(part.format_spec, frame)
                plain = part.format_spec is None and part.conversion == -1
                if isinstance(value, Const) and isinstance(value.value, (str, int)) and plain:
                    if text is not None:
                        text.append(str(value.value))
                else:
                    text = None
                if not isinstance(value, Const):
                    self.tell(F.Format(self.where(frame), part.value, value, part.format_spec is not None))
        joined = "".join(text) if text is not None else ""
        if text is not None and len(joined) < MAX_LENGTH:
            return Const(joined)
        return Plain("str", "tensor" if written else "config")

    def _lambda(self, node: ast.Lambda, frame: Frame) -> Value:
        return Function(self.function_info(node, "<lambda>", frame), None, self.close(frame))

    def _yield(self, node: ast.Yield, frame: Frame) -> Value:
        frame.yielded.append(self.eval(node.value, frame) if node.value else NONE)
        return UNKNOWN

    def _yieldfrom(self, node: ast.YieldFrom, frame: Frame) -> Value:
        frame.yielded.append(self.element(self.eval(node.value, frame)))
        return UNKNOWN

    def _await(self, node: ast.Await, frame: Frame) -> Value:
        return self.eval(node.value, frame)

    def close(self, frame: Frame) -> int:
        """The key by which functions made in `frame` remember it. The interpreter's."""
        raise NotImplementedError

    def function_info(
        self, node: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef, name: str, frame: Frame
    ) -> FunctionInfo:
        """The one FunctionInfo of a function that is defined inside another."""
        if id(node) not in self._functions:
            prefix = f"{frame.symbol}.<locals>." if frame.function else ""
            self._functions[id(node)] = FunctionInfo(name, prefix + name, frame.module, node, None)
        return self._functions[id(node)]

    def local_class(self, node: ast.ClassDef, frame: Frame) -> ClassInfo:
        """The class a `class` statement inside a function defines."""
        if id(node) not in self._classes:
            self._classes[id(node)] = build_class(frame.module, node, f"{frame.symbol}.<locals>.{node.name}")
        return self._classes[id(node)]

    def _listcomp(self, node: ast.ListComp, frame: Frame) -> Value:
        return self._collected("list", node, frame)

    def _setcomp(self, node: ast.SetComp, frame: Frame) -> Value:
        return self._collected("set", node, frame)

    def _generatorexp(self, node: ast.GeneratorExp, frame: Frame) -> Value:
        return self._collected("iterator", node, frame)

    def _collected(
        self, kind: Kind, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, frame: Frame
    ) -> Value:
        found, kept = self._comprehension(node.generators, [node.elt], frame, lazy=kind == "iterator")
        every = Sequence(kind, None, found[0])
        return every if kept.likely is not False else prefer(Sequence(kind, (), UNKNOWN), every)

    def _dictcomp(self, node: ast.DictComp, frame: Frame) -> Value:
        found, kept = self._comprehension(node.generators, [node.key, node.value], frame)
        every = Mapping((), found[1])
        return every if kept.likely is not False else prefer(Mapping((), None), every)

    def _comprehension(
        self, generators: list[ast.comprehension], parts: list[ast.expr], frame: Frame, lazy: bool = False
    ) -> tuple[list[Value], Answer]:
        """The values of `parts`, and whether the conditions keep anything."""
        before, enclosing, confidence = frame.env, frame.enclosing, frame.confidence
        frame.env = dict(before)
        kept = Answer(None, None)
        try:
            for generator in generators:
                value = self.eval(generator.iter, frame)
                self.tell_loop(generator.iter, value, True, frame)
                self.assign(generator.target, self.element(value), frame)
                lazy = lazy or (generator is generators[0] and self._is_held_back(value, generator.iter))
                frame.enclosing = (*frame.enclosing, "iterator" if lazy else "comprehension")
                for condition in generator.ifs:
                    answer = self.test(condition, "comprehension", frame)
                    if answer.likely is False:
                        kept = Answer(answer.decided, False)
                        lower = self.improbable(frame)
                        if answer.decided is False or lower is None:
                            return [UNKNOWN for _ in parts], kept
                        frame.confidence = lower
                    frame.env = self.narrow(condition, True, frame)
            return [self.eval(part, frame) for part in parts], kept
        finally:
            frame.env, frame.enclosing, frame.confidence = before, enclosing, confidence

    def _is_held_back(self, value: Value, node: ast.expr) -> bool:
        """Whether Dynamo cannot pass an iterator over this on to what runs behind a break (measured)."""
        passed_on = isinstance(node, ast.Call) and ast.unparse(node.func) in PASSED_ON
        for option in options(value):
            members = members_of(option) if isinstance(option, Sequence) else (option,)
            if isinstance(option, Mapping) or any(map(self.is_module, members)):
                return True
            if isinstance(option, Sequence) and option.kind in ("set", "iterator") and not passed_on:
                return True
        return False

    def assign(self, target: ast.expr, value: Value, frame: Frame) -> None:
        """Binds a target. The interpreter's."""
        raise NotImplementedError

    def tell_loop(self, node: ast.expr, value: Value, comprehension: bool, frame: Frame) -> None:
        """Tells the iteration; `enumerate`, `zip` and `reversed` are looked through to what they walk."""
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("enumerate", "zip", "reversed")
        ):
            quiet, self.quiet = self.quiet, 1
            try:
                walked = [
                    (arg, self.eval(arg, frame)) for arg in node.args if not isinstance(arg, ast.Starred)
                ]
            finally:
                self.quiet = quiet
            for arg, inner in walked:
                self.tell(F.Loop(self.where(frame), arg, inner, comprehension))
        else:
            self.tell(F.Loop(self.where(frame), node, value, comprehension))

    def element(self, value: Value) -> Value:
        """What iterating over `value` yields."""
        found: list[Value] = []
        for option in options(value):
            if isinstance(option, Tensor):
                found.append(Tensor(option.dtype, option.sure))
            elif isinstance(option, Sequence):
                found.extend(members_of(option))
            elif isinstance(option, Mapping):
                found.extend(Const(cast(Any, key)) for key, _ in option.entries)
                if option.element is not None or not option.entries:
                    found.append(Plain("str"))
            elif (
                isinstance(option, (ExternalInstance, Instance))
                and self.container_members(option) is not None
            ):
                found.append(self.element(cast(Value, self.container_members(option))))
            elif isinstance(option, Plain):
                found.append(Plain(None, option.origin))
            elif isinstance(option, Unknown):
                found.append(option)
            elif isinstance(option, Const) and isinstance(option.value, str):
                found.append(Plain("str"))
        return join(*found) if found else UNKNOWN

    def container_members(self, value: Value) -> Value | None:
        """The Sequence or Mapping of modules that a torch.nn container holds, or None."""
        if isinstance(value, ExternalInstance) and value.name in K.CONTAINERS and value.ident:
            return self.heap[value].members
        if isinstance(value, Instance) and self.mro(value.cls).container:
            return self.heap[value].members
        return None

    def _subscript(self, node: ast.Subscript, frame: Frame) -> Value:
        base = self.eval(node.value, frame)
        index, parts, slices = self.index(node.slice, frame)
        self.tell(F.Index(self.where(frame), node, base, index, parts, slices, "load"))
        return self.item(base, index, node.slice)

    def index(self, node: ast.expr, frame: Frame) -> tuple[Value, tuple[Value, ...], tuple[Value, ...]]:
        """(value, items of a tuple index, bounds of slices) of what stands between the brackets."""
        items = node.elts if isinstance(node, ast.Tuple) else [node]
        values: list[Value] = []
        bounds: list[Value] = []
        for item in items:
            if isinstance(item, ast.Slice):
                bounds.extend(
                    self.eval(b, frame) for b in (item.lower, item.upper, item.step) if b is not None
                )
                values.append(Plain("slice"))
            elif isinstance(item, ast.Starred):
                values.append(self.element(self.eval(item.value, frame)))
            else:
                values.append(self.eval(item, frame))
        if isinstance(node, ast.Tuple):
            return Sequence("tuple", tuple(values), UNKNOWN), tuple(values), tuple(bounds)
        return values[0], tuple(values), tuple(bounds)

    def item(self, base: Value, index: Value, node: ast.expr) -> Value:
        """`base[index]`."""
        return lift(lambda b, i: self._item(b, i, node), base, index)

    def _item(self, base: Value, index: Value, node: ast.expr) -> Value:
        if isinstance(base, Choice) and isinstance(index, Const) and isinstance(index.value, int):
            place = index.value
            base = keep(base, lambda v: not _too_short(v, place))
        return join(
            *(
                self._item_of(option, index, node)
                for option in options(base)
                if option != NONE or base == NONE
            )
        )

    def _item_of(self, base: Value, index: Value, node: ast.expr) -> Value:
        if isinstance(base, Tensor):
            return Tensor(base.dtype, base.sure)
        members = self.container_members(base)
        if members is not None:
            return base if isinstance(node, ast.Slice) else self._item_of(members, index, node)
        if isinstance(base, Sequence):
            if isinstance(node, ast.Slice):
                if base.items is not None:
                    bounds = [_literal(b) for b in (node.lower, node.upper, node.step)]
                    if all(b is not Ellipsis for b in bounds):
                        return Sequence(base.kind, base.items[slice(*cast(Any, bounds))], UNKNOWN)
                return Sequence(base.kind, None, self.element(base))
            if base.items is not None and isinstance(index, Const) and isinstance(index.value, int):
                if -len(base.items) <= index.value < len(base.items):
                    return base.items[index.value]
                return UNKNOWN
            return self.element(base)
        if isinstance(base, Mapping):
            if isinstance(index, Const):
                found = dict(base.entries).get(index.value)
                if found is not None:
                    return found
                return base.element if base.element is not None else UNKNOWN
            return one_of([v for _, v in base.entries] + ([base.element] if base.element is not None else []))
        if isinstance(base, (Plain, Class, External)):
            return base if not isinstance(base, Plain) else Plain(None, base.origin)
        if base == K.ARRAY:
            return base
        if isinstance(base, Unknown):
            return base
        return UNKNOWN

    # calls

    def _call(self, node: ast.Call, frame: Frame) -> Value:
        function = self.eval(node.func, frame)
        args, keywords = self.arguments(node, frame)
        if isinstance(function, External) and function.name == "super":
            return self._super(args, frame)
        callees = [value for value in options(function) if value != NONE]
        if callees and not self.quiet and all(isinstance(value, (Unknown, Plain)) for value in callees):
            self.unknown_callees.setdefault(frame.context, {})[node.func] = None
        return self.call(function, args, keywords, frame, node)

    def arguments(self, node: ast.Call, frame: Frame) -> Arguments:
        """Evaluated arguments; a starred one of unknown length gives its element three times."""
        args: list[Value] = []
        keywords: dict[str, Value] = {}
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                value = self.eval(arg.value, frame)
                if isinstance(value, Sequence) and value.items is not None:
                    args.extend(value.items)
                else:
                    args.extend([self.element(value)] * 3)
                    self.spread.add(node)
            else:
                args.append(self.eval(arg, frame))
        for keyword in node.keywords:
            value = self.eval(keyword.value, frame)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif isinstance(value, Mapping):
                keywords.update({str(key): item for key, item in value.entries})
        return tuple(args), keywords

    def _super(self, args: tuple[Value, ...], frame: Frame) -> Value:
        if len(args) == 2 and isinstance(args[0], Class):
            return Super(args[1], args[0].info)
        inner: Frame | None = frame
        while inner is not None:
            function = inner.function
            if (
                function is not None
                and function.owner is not None
                and not isinstance(function.node, ast.Lambda)
            ):
                names = [a.arg for a in (*function.node.args.posonlyargs, *function.node.args.args)]
                if names and names[0] in inner.env:
                    return Super(inner.env[names[0]], function.owner)
            inner = inner.parent
        return UNKNOWN

    def call(
        self,
        function: Value,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        frame: Frame,
        node: ast.Call,
    ) -> Value:
        """The value of a call; a choice of callees is followed one by one, with less confidence each."""
        if isinstance(function, Choice) and function.likely:
            lower = self.improbable(frame)
            usual = self.call(likely(function), args, keywords, frame, node)
            if lower is None:
                return prefer(usual, UNKNOWN)
            confidence, frame.confidence = frame.confidence, lower
            try:
                rest = join(*(v for v in function.options[function.likely :] if v != NONE))
                return prefer(usual, self.call(rest, args, keywords, frame, node))
            finally:
                frame.confidence = confidence
        candidates = [c for c in options(function) if c != NONE] or [function]
        confidence = frame.confidence
        if sum(isinstance(c, (Function, Class, Instance)) for c in candidates) > 1:
            confidence = "low" if len(candidates) > 3 else ("medium" if confidence == "high" else confidence)
        results = []
        resolved = True
        for candidate in candidates:
            result = self.call_one(candidate, args, keywords, frame, node, confidence)
            resolved = resolved and result is not None
            if result is None:
                result = TAINTED if any(holds_tensor(v) for v in (*args, *keywords.values())) else UNKNOWN
                if isinstance(candidate, Method) and candidate.receiver == TAINTED:
                    result = TAINTED
            results.append(result)
        if not self.quiet:
            key = (str(frame.module.path), node.lineno, node.col_offset)
            self.calls[key] = self.calls.get(key, True) and resolved
        return join(*results)

    def call_one(
        self,
        function: Value,
        args: tuple[Value, ...],
        keywords: dict[str, Value],
        frame: Frame,
        node: ast.Call,
        confidence: Confidence,
    ) -> Value | None:
        """The result of calling one candidate, or None if nothing is known of it. The interpreter's."""
        raise NotImplementedError


def _asks_whether_given(node: ast.expr) -> bool:
    """`x is None`, `x is not None`."""
    return isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot))


def _with_walrus(before: dict[str, Value], node: ast.expr, after: dict[str, Value]) -> dict[str, Value]:
    """`before` with the names that `:=` bound while `node` was evaluated; what narrowing learnt is left out."""
    bound = {n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)}
    return {**before, **{name: after[name] for name in bound if name in after}} if bound else before


def _held(value: Value) -> Value:
    """The value as read off something that outlives the call."""
    if isinstance(value, Sequence) and not value.outer:
        return Sequence(value.kind, value.items, value.element, True)
    if isinstance(value, Mapping) and not value.outer:
        return Mapping(value.entries, value.element, True)
    return value


def _method_kind(info: FunctionInfo) -> str:
    for decorator in info.decorators:
        name = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator).rpartition(".")[
            2
        ]
        if name in ("property", "cached_property", "getter"):
            return "property"
        if name == "staticmethod":
            return "static"
        if name == "classmethod":
            return "class"
    return "plain"


def without_falsy(value: Value) -> Value:
    """The value once it is known to be true."""
    return keep(value, lambda v: not (isinstance(v, Const) and not v.value))


def _either(*values: Value) -> Value:
    """One of several types: if a tensor is among them, an object or what comes behind it is the odd case."""
    found = join(*values)
    tensor = tensor_of(found)
    if tensor is None:
        return found
    first = next(i for i, v in enumerate(values) if tensor_of(v))
    odd = (Unknown, Instance, ExternalInstance)
    behind = (*odd, Sequence, Mapping)
    usual = [v for i, v in enumerate(values) if not isinstance(v, behind if i > first else odd)]
    return prefer(join(*map(likely, usual)), found)


def _too_short(value: Value, index: int) -> bool:
    if not isinstance(value, Sequence) or value.items is None:
        return False
    return not -len(value.items) <= index < len(value.items)


def _vague(value: Const) -> Value:
    """What may stand where a constant is only the default."""
    return UNKNOWN if value == NONE else Plain(type(value.value).__name__)


def _truth_value(answer: Answer) -> Value:
    if answer.decided is not None:
        return Const(answer.decided)
    return Plain("bool") if answer.likely is None else prefer(Const(answer.likely), Plain("bool"))


def _narrow_to(value: Value, wanted: Value | None, assume: bool) -> Value:
    """`value` once isinstance says `assume` about what `wanted` stands for."""
    if wanted is None:
        return value
    fits = [v for option in options(value) if (v := _fitting(option, wanted, assume)) is not None]
    if not fits:
        return value
    first = [v for option in options(likely(value)) if (v := _fitting(option, wanted, assume)) is not None]
    return prefer(join(*first), join(*fits)) if first else join(*fits)


def _fitting(option: Value, wanted: Value, assume: bool) -> Value | None:
    """One alternative once isinstance says `assume`; None if it is ruled out."""
    if isinstance(option, Unknown):
        return wanted if assume else option
    if isinstance(option, Const) and option != NONE:
        named = type(option.value).__name__
        fitting = {v.kind for v in options(wanted) if isinstance(v, Plain)}
        return option if (named in fitting or (named == "bool" and "int" in fitting)) == assume else None
    if isinstance(option, tuple(type(v) for v in options(wanted))):
        same = not isinstance(option, (Plain, Instance, ExternalInstance)) or option in options(wanted)
        return option if assume or not same or isinstance(option, (Plain, Instance)) else None
    return option if not assume or isinstance(option, (Plain, Instance)) else None


def _identity(left: Value, right: Value) -> bool | None:
    """`left is right` if the source decides it."""
    if isinstance(left, Const) and isinstance(right, Const):
        return left.value is right.value or (
            left.value == right.value and type(left.value) is type(right.value)
        )
    for one, other in ((left, right), (right, left)):
        if one == NONE:
            known = (
                Tensor,
                Sequence,
                Mapping,
                Instance,
                External,
                ExternalInstance,
                Class,
                Function,
                Method,
                Module,
            )
            if all(
                isinstance(v, known) or (isinstance(v, Const) and v.value is not None) for v in options(other)
            ):
                return False
    return None


def _contains(item: Value, container: Value) -> bool | None:
    if not isinstance(item, Const):
        return None
    if isinstance(container, Mapping) and container.element is None:
        return any(key == item.value for key, _ in container.entries)
    if isinstance(container, Sequence) and container.items is not None:
        if all(isinstance(v, Const) for v in container.items):
            return any(v == item for v in container.items)
    if isinstance(container, Const) and isinstance(container.value, str) and isinstance(item.value, str):
        return item.value in container.value
    return None


def _literal(node: ast.expr | None) -> object:
    """The int of a slice bound, None for none, Ellipsis if it is no literal."""
    if node is None:
        return None
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return Ellipsis
    return value if isinstance(value, int) and value != 0 else (0 if value == 0 else Ellipsis)


def _fold(op: str, left: Any, right: Any) -> Value:
    numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
    try:
        if numbers and abs(left) < 1e9 and abs(right) < 1e9:
            if op == "Add":
                return Const(left + right)
            if op == "Sub":
                return Const(left - right)
            if op == "Mult":
                return Const(left * right)
            if op == "FloorDiv":
                return Const(left // right)
            if op == "Mod":
                return Const(left % right)
            if op == "Div":
                return Const(left / right)
        if isinstance(left, str) and isinstance(right, str) and op == "Add" and len(left) + len(right) < 500:
            return Const(left + right)
    except (ZeroDivisionError, OverflowError, ValueError):
        return UNKNOWN
    if isinstance(left, bool) and isinstance(right, bool) and op in ("BitAnd", "BitOr", "BitXor"):
        return Const({"BitAnd": left & right, "BitOr": left | right, "BitXor": left ^ right}[op])
    if numbers:
        return Plain("int" if isinstance(left, int) and isinstance(right, int) and op != "Div" else "float")
    return Plain("str") if isinstance(left, str) else Plain()


def _fold_compare(op: ast.cmpop, left: Any, right: Any) -> Value:
    try:
        if isinstance(op, ast.Eq):
            return Const(left == right)
        if isinstance(op, ast.NotEq):
            return Const(left != right)
        if isinstance(op, ast.Lt):
            return Const(left < right)
        if isinstance(op, ast.LtE):
            return Const(left <= right)
        if isinstance(op, ast.Gt):
            return Const(left > right)
        if isinstance(op, ast.GtE):
            return Const(left >= right)
    except TypeError:
        return UNKNOWN
    return UNKNOWN


def local_names(info: FunctionInfo) -> tuple[str, ...]:
    """The parameters of a function and the names it assigns: CPython's `co_varnames`, nearly in order."""
    spec = info.node.args
    named = [a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
    named += [a.arg for a in (spec.vararg, spec.kwarg) if a is not None]
    stored = (n.id for n in ast.walk(info.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return tuple(dict.fromkeys((*named, *stored)))


def names_in(node: ast.AST) -> Iterable[str]:
    """Every plain name below a node."""
    return (n.id for n in ast.walk(node) if isinstance(n, ast.Name))
