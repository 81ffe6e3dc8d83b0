"""Entries: the arguments that a user passes to compiled code."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

from tcready.static.domain.mro import Mro
from tcready.static.domain.scope import Frame, last_name, positional
from tcready.static.domain.values import (
    FLOATS,
    NONE,
    TAINTED,
    UNKNOWN,
    Choice,
    Const,
    External,
    Function,
    Instance,
    Mapping,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    holds_tensor,
    join,
    lift,
    likely,
    members_of,
    options,
    prefer,
    without_none,
)
from tcready.static.frontend.index import FunctionInfo, ModuleInfo
from tcready.static.interp.argument_roles import ArgumentRoles
from tcready.static.interp.interfaces import HOOKS, HOOKS_BEFORE, CallSite, Case, Component, Context, Engine
from tcready.static.interp.usage_inference import UsageInference, is_named
from tcready.static.library import semantics as K  # noqa: N812

OF_ANYTHING = tuple(map(External, ("typing.Any", "typing_extensions.Any", "object")))
OF_DICTS = frozenset({"keys", "values", "items", "get", "setdefault", "update"})
OF_LISTS = frozenset({"append", "extend", "insert", "pop", "sort", "reverse", "index", "copy"})
OF_COPIES = frozenset({"dict", "OrderedDict"})
"""Functions that make a dict of a dict."""
WALKING = frozenset({"max", "min", "sorted", "sum", "set"})
DYNAMIC = ("__getattr__", "__getattribute__", "__setattr__")
FOLLOWED = 3
"""The depth of modules through which a parameter is followed that is passed on."""


class Entries(Component):
    """Creates the arguments that a user passes to compiled code."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._roles = ArgumentRoles(engine)
        self._uses = UsageInference(engine)

    def run_forward(self, root: Value, cases: tuple[Case, ...] = ()) -> int | None:
        """Interpret `forward` of a module object as the compiled entry; its context, None if it has none.

        `cases` are the calls that its file gives; without, a usual call is assumed.
        """
        if not isinstance(root, Instance):
            return None
        mro = self.engine.classes.mro(root.cls)
        defined = mro.functions("forward") or (mro.functions("__call__") if mro.is_module else [])
        if not defined:
            context = self._run_set(root, cases)
            return self._run_inherited(root, mro) if context is None else context
        name = "__call__" if mro.functions("__call__") else "forward"
        called = self.engine.attributes.member(root, name, self.engine.names.module_frame(root.cls.module))
        return self.run_function(called, defined[0], 1, root, cases)

    def _run_set(self, root: Instance, cases: tuple[Case, ...]) -> int | None:
        """Run a module with a `forward` that its constructor or its class assigns."""
        set_to = self.engine.attributes.member(root, "forward", self.engine.names.module_frame(root.cls.module))
        for option in options(set_to):
            if isinstance(option, Function):
                return self.run_function(set_to, option.info, int(option.bound is not None), root, cases)
        return None

    def _run_inherited(self, root: Instance, mro: Mro) -> int | None:
        """Run a module that inherits the `forward` of a torch.nn class: the user's code in it are the members of a
        Sequential, and properties that replace its tensors."""
        base = next((name for name in mro.external if K.is_module_class(name)), "torch.nn.Module")
        if base == "torch.nn.Module" or (mro.container and mro.container != "torch.nn.Sequential"):
            return None
        frame = self._entry_frame(root.cls.module)
        if mro.container:
            given = (Tensor(sure=False, graph_input=True),)
            self.engine.calls.call(root, CallSite.unwritten(root.cls.name, root.cls.node, given, frame, {}))
        for name in sorted(K.MODULE_TENSORS):
            if mro.functions(name):
                self.engine.attributes.member(root, name, frame)
        return frame.context

    def run_called(self, model: Value, at: ast.AST, module: ModuleInfo) -> int:
        """Interpret a call, with a tensor, of a torch.nn module (a Sequential) as the compiled entry; return its context.

        `at` is the code that makes it. Nothing is found in a model without source.
        """
        frame = self._entry_frame(module)
        if self.engine.classes.is_module(model):
            given = (Tensor(sure=False, graph_input=True),)
            self.engine.calls.call(model, CallSite.unwritten("model", at, given, frame, {}))
        return frame.context

    def _entry_frame(self, module: ModuleInfo) -> Frame:
        frame = Frame(module, None, len(self.engine.contexts), {})
        self.engine.entry = frame.context
        if self.engine.replay is not None:
            self.engine.replay.begin_entry(str(module.path))
        self.engine.contexts.append(Context(frame.context, None, None, "<entry>", str(module.path)))
        return frame

    def run_function(
        self,
        value: Value,
        parameters: FunctionInfo,
        skip: int = 0,
        root: Instance | None = None,
        cases: tuple[Case, ...] = (),
    ) -> int | None:
        """Interpret a function as the compiled entry; `parameters` has its signature."""
        if cases and all(_fits(case, parameters.node.args, skip) for case in cases):
            args, keywords = self._arguments_given(parameters, skip, root, cases)
        else:
            cases = ()
            args, keywords = self._entry_arguments(parameters, skip, root)
        self.engine.switched = frozenset()
        frame = self._entry_frame(parameters.module)
        rest = Tensor(sure=False) if parameters.node.args.vararg is not None and not cases else None
        self._run_hooks(root, HOOKS_BEFORE, (Sequence("tuple", args, UNKNOWN),), frame)
        for option in options(value):
            if isinstance(option, Function):
                result = self.engine.functions.invoke(option, args, keywords, frame, rest)
                self._run_hooks(root, HOOKS, (Sequence("tuple", args, UNKNOWN), result), frame)
        return frame.context

    def _run_hooks(self, root: Instance | None, kind: str, given: tuple[Value, ...], frame: Frame) -> None:
        """Call the hooks of the model itself."""
        hooks = None if root is None else self.engine.heap[root].attributes.get(kind)
        if root is None or not isinstance(hooks, Sequence):
            return
        site = CallSite.unwritten(root.cls.name, root.cls.node, (root, *given), frame, {})
        for hook in members_of(hooks):
            self.engine.calls.call_each(hook, site)

    def _entry_arguments(
        self, info: FunctionInfo, skip: int, root: Instance | None
    ) -> tuple[tuple[Value, ...], dict[str, Value]]:
        """Return the arguments that a user passes: by position those without a default, by name those with one, as calls
        are written."""
        node = info.node
        pairs = positional(node.args)[skip:]
        names = [arg.arg for arg in (*(pair[0] for pair in pairs), *node.args.kwonlyargs)]
        targets = self._roles.parameters_for("target", info, root)
        overrides = self._roles.parameters_for("override", info, root)
        inputs = self._inputs(info, root) | {name for name in names if name.endswith("attention_mask")}
        if targets and not self.engine.plain_call:
            usual = frozenset(names) - overrides | inputs
        else:
            inputs |= {"decoder_input_ids"}
            others = [pair for pair in pairs if pair[0].arg not in targets]
            usual = self._usually_given(info, others, inputs) - overrides | inputs
            targets = frozenset()
        return _place_parameters(
            node.args,
            skip,
            lambda arg, default: self._entry_parameter(arg, default, info, usual, inputs, targets, root),
        )

    def _arguments_given(
        self, info: FunctionInfo, skip: int, root: Instance | None, cases: tuple[Case, ...]
    ) -> tuple[tuple[Value, ...], dict[str, Value]]:
        """Return the arguments of the calls in the file: an omitted one has its default, and an unknown property of an
        argument is assumed as for any call."""
        takes = info.node.args
        pairs = positional(takes)[skip:]
        names = [arg.arg for arg, _ in pairs]
        passed = [{**dict(zip(names, case.args, strict=False)), **dict(case.keywords)} for case in cases]
        usual = frozenset(name for each in passed for name in each)

        def parameter(arg: ast.arg, default: ast.expr | None) -> Value:
            without = self._entry_parameter(arg, default, info, usual, usual, frozenset(), root)
            values = [each[arg.arg] for each in passed if arg.arg in each]
            if not values:
                return without
            entered = self._convert_argument(join(*values), without)
            if len(values) == len(passed):
                return entered
            # a flag that is true in one call counts as given; of others both that one and the default are read
            flags = all(isinstance(v, (Const, Plain)) and v != NONE for v in options(entered))
            other = join(entered, likely(without))
            return prefer(likely(entered), other) if flags else other

        more = max((case.args[len(pairs) :] for case in cases), key=len)
        args, by_name = _place_parameters(takes, skip, parameter, by_position=bool(more))
        others = {name: value for each in passed for name, value in each.items()}
        known = {*names, *(arg.arg for arg in takes.kwonlyargs)}
        by_name.update(
            {name: self._convert_argument(value, UNKNOWN) for name, value in others.items() if name not in known}
        )
        return (*args, *(self._convert_argument(value, UNKNOWN) for value in more)), by_name

    def _convert_argument(self, value: Value, otherwise: Value) -> Value:
        """Convert an argument in a file to what the compiled call takes; `otherwise` is that of any call."""
        if any(isinstance(option, Unknown) for option in options(value)):
            return otherwise
        if isinstance(value, Instance) and any(map(self.engine.classes.mro(value.cls).functions, DYNAMIC)):
            return otherwise  # what its attributes are its own code decides
        if isinstance(value, Choice):
            return lift(lambda option: self._convert_argument(option, otherwise), value)
        if isinstance(value, Const):
            others = otherwise if value == NONE else Plain(type(value.value).__name__, "call")
            return prefer(value, others)
        if isinstance(value, Plain):
            return replace(value, origin="call")
        if isinstance(value, Sequence):
            items = (
                None if value.items is None else tuple(self._convert_argument(item, UNKNOWN) for item in value.items)
            )
            return Sequence(value.kind, items, self._convert_argument(value.element, UNKNOWN))
        if isinstance(value, Mapping):
            entries = tuple((key, self._convert_argument(item, UNKNOWN)) for key, item in value.entries)
            return Mapping(entries, None if value.element is None else self._convert_argument(value.element, UNKNOWN))
        return given(value)

    def _inputs(self, info: FunctionInfo, root: Instance | None) -> frozenset[str]:
        """Return the parameters with a default that every call passes: those named as the model's main input."""
        if root is None:
            return frozenset()
        with self.engine.outside_trace():
            main = self.engine.attributes.member(root, "main_input_name", self.engine.names.module_frame(info.module))
        return frozenset(str(v.value) for v in options(main) if isinstance(v, Const))

    def _usually_given(
        self, info: FunctionInfo, pairs: list[tuple[ast.arg, ast.expr | None]], inputs: frozenset[str]
    ) -> frozenset[str]:
        """Return the optional parameters that a plain call passes: the inputs, masks, and as often as not the first
        optional tensor."""
        given = set(inputs)
        optional = (a.arg for a, d in pairs if d is not None and self._may_be_tensor(a, d, info))
        given.update(islice(optional, 1))
        return frozenset(given)

    def _may_be_tensor(self, arg: ast.arg, default: ast.expr, info: FunctionInfo) -> bool:
        if not isinstance(default, ast.Constant) or default.value is not None:
            return False
        declared = self.engine.annotations.annotation(arg.annotation, info.module, sure=True)
        if arg.annotation is None:
            declared = self.engine.annotations.documented_value(arg.arg, info)
        return holds_tensor(declared) or (arg.annotation is None and isinstance(declared, Unknown))

    def _entry_parameter(
        self,
        arg: ast.arg,
        default: ast.expr | None,
        info: FunctionInfo,
        usual: frozenset[str],
        inputs: frozenset[str],
        targets: frozenset[str],
        root: Instance | None,
    ) -> Value:
        """Return a tensor for a parameter without default and without other annotation: with medium confidence until its
        use decides."""
        written = arg.annotation is not None and not self._says_nothing(arg.annotation, info)
        declared = given(self.engine.annotations.annotation(arg.annotation, info.module, sure=True))
        if not written:
            declared = self._documented_parameter(arg.arg, info)
            written = not isinstance(declared, Unknown)
        if default is None:
            if self._is_batch(declared) and _is_used_like_a_dict(arg.arg, info):
                return Mapping((), Tensor(sure=False, graph_input=True))
            if written:
                return declared
            if self._is_flag(arg.arg, info, root, FOLLOWED):
                return Plain(None, "call")
            number = self._uses.number(arg.arg, info, root)
            if number is not None:
                return number
            attributes = self._object_attributes(arg.arg, info)
            if attributes:
                return self._object_with(attributes, info) or TAINTED
            handed = self._callee_attributes(arg.arg, info, root, FOLLOWED - 1)
            found = self._object_with(handed, info) if len(handed) > 1 else None
            return found or self._taken_for(arg.arg, info, root)
        value = self.engine.expressions.peek(default, self.engine.names.module_frame(info.module))
        if isinstance(value, Const) and value.value is not None:
            return prefer(value, Plain(type(value.value).__name__, "call"))
        if arg.arg in targets:
            if not written and not self._object_attributes(arg.arg, info):
                return join(value, self._taken_for(arg.arg, info, root))
            return join(value, _tensor_targets(without_none(declared)))
        # an optional tensor as often as not: its use decides
        declared = without_none(declared) if written else TAINTED
        optional = arg.arg not in usual
        if value == NONE and (optional or not (holds_tensor(declared) or declared == TAINTED)):
            return prefer(value, declared)
        return prefer(declared, value) if arg.arg in inputs else join(value, declared)

    def _says_nothing(self, annotation: ast.expr, info: FunctionInfo) -> bool:
        """Return whether it is `Any` or `object`: as good as no annotation."""
        if not isinstance(annotation, (ast.Name, ast.Attribute)):
            return False
        named = self.engine.expressions.peek(annotation, self.engine.names.module_frame(info.module))
        return named in OF_ANYTHING

    def _documented_parameter(self, name: str, info: FunctionInfo) -> Value:
        """Return the documented value of a parameter that is not known otherwise; it is assumed to be a tensor anyway,
        and the values of a dict are assumed to be tensors."""
        found = self.engine.annotations.documented_value(name, info)
        if isinstance(found, Tensor) and found.subclass is None:
            return UNKNOWN
        if isinstance(found, Mapping) and not found.entries and found.element == UNKNOWN:
            return Mapping((), Tensor(sure=False, graph_input=True))
        return given(found)

    def _is_batch(self, declared: Value) -> bool:
        """Return whether an annotation is a data set: a model gets a batch drawn from it."""
        return isinstance(declared, Instance) and any(
            name.startswith("torch.utils.data.") for name in self.engine.classes.mro(declared.cls).external
        )

    def _taken_for(self, name: str, info: FunctionInfo, owner: Value | None) -> Value:
        """Return the value of a parameter without annotation and default: a tensor, unless it is used like a dict or a
        list."""
        if _is_used_like_a_dict(name, info) or self._is_handed_as_a_dict(name, info, owner, FOLLOWED - 1):
            return Mapping((), Tensor(sure=False, graph_input=True))
        if _is_used_like_a_list(name, info):
            return Sequence("list", None, TAINTED)
        return Tensor(sure=False, graph_input=True)

    def _is_handed_as_a_dict(self, name: str, info: FunctionInfo, owner: Value | None, depth: int) -> bool:
        """Return whether its callees use it like a dict, and do not test its type."""
        return any(
            not _is_isinstance_check(parameter, function)
            and (
                _is_used_like_a_dict(parameter, function)
                or (depth > 1 and self._is_handed_as_a_dict(parameter, function, owner_node, depth - 1))
            )
            for parameter, function, owner_node in self._receiving_parameters(name, info, owner)
        )

    def _receiving_parameters(
        self, name: str, info: FunctionInfo, owner: Value | None
    ) -> Iterator[tuple[str, FunctionInfo, Value | None]]:
        """Return the parameters of functions, methods and parts that receive this one, with their owners."""
        for call in (node for node in info.nodes if isinstance(node, ast.Call)):
            for place in (n for n, arg in enumerate(call.args) if is_named(arg, name)):
                for function, taken, owner_node in self._uses.called(call.func, info, owner, imported=True):
                    if place < len(taken):
                        yield taken[place], function, owner_node

    def _object_attributes(self, name: str, info: FunctionInfo) -> set[str]:
        """Return the attributes read of a parameter that no tensor, dict or list has, if its name is not rebound."""
        found: set[str] = set()
        for node in info.nodes:
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
                return set()
            if isinstance(node, ast.Attribute) and is_named(node.value, name):
                common = node.attr in OF_DICTS | OF_LISTS or self.engine.operations.is_of_tensors(node.attr)
                found |= set() if common else {node.attr}
        return found

    def _is_flag(self, name: str, info: FunctionInfo, owner: Instance | None, depth: int) -> bool:
        """Return whether a parameter is only tested for truth, or compared with constants, here or in the modules that it
        is passed on to: nobody passes a tensor for that."""
        covered: set[ast.expr] = set()
        for node in info.nodes:
            if isinstance(node, (ast.If, ast.While, ast.IfExp)):
                operands = _truth_operands(node.test)
                covered.update(operands)
                compared = (test for test in operands if isinstance(test, ast.Compare))
                covered.update(test.left for test in compared if self._compares_with_constant(test, info))
            elif isinstance(node, ast.Call) and owner is not None and depth:
                covered.update(self._passed_as_flag(name, node, info, owner, depth))
        uses = [node for node in info.nodes if isinstance(node, ast.Name) and node.id == name]
        return bool(uses) and covered.issuperset(uses)

    def _compares_with_constant(self, test: ast.Compare, info: FunctionInfo) -> bool:
        """Return whether a value is compared with a constant."""
        which = (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)
        return all(isinstance(op, which) for op in test.ops) and all(
            self._is_constant(node, info) for node in test.comparators
        )

    def _is_constant(self, node: ast.expr, info: FunctionInfo) -> bool:
        """Return whether it is a literal number, string or similar, or read from a module or a class, or several."""
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            return all(self._is_constant(each, info) for each in node.elts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self._is_constant(node.operand, info)
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return isinstance(node, ast.Constant)
        return isinstance(self.engine.expressions.peek(node, self.engine.names.module_frame(info.module)), Const)

    def _passed_as_flag(
        self, name: str, call: ast.Call, info: FunctionInfo, owner: Instance, depth: int
    ) -> set[ast.expr]:
        """Return the arguments of `self.part(x, flag)` that are the parameter, if the part only tests its truth."""
        own = positional(info.node.args)[:1]
        owner_node = call.func.value if isinstance(call.func, ast.Attribute) else None
        places = [place for place, arg in enumerate(call.args) if is_named(arg, name)]
        if not places or not own or owner_node is None or not is_named(owner_node, own[0][0].arg):
            return set()
        assert isinstance(call.func, ast.Attribute)
        with self.engine.outside_trace():
            part = self.engine.attributes.member(owner, call.func.attr, self.engine.names.module_frame(info.module))
        forwards = self.engine.classes.mro(part.cls).functions("forward") if isinstance(part, Instance) else []
        if not forwards or not isinstance(part, Instance):
            return set()
        there = [arg.arg for arg, _ in positional(forwards[0].node.args)[1:]]
        return {
            call.args[place]
            for place in places
            if place < len(there) and self._is_flag(there[place], forwards[0], part, depth - 1)
        }

    def _callee_attributes(self, name: str, info: FunctionInfo, owner: Value | None, depth: int) -> set[str]:
        """Return the same for the functions and parts that receive it."""
        found: set[str] = set()
        for parameter, function, owner_node in self._receiving_parameters(name, info, owner):
            found |= self._object_attributes(parameter, function)
            if depth > 1:
                found |= self._callee_attributes(parameter, function, owner_node, depth - 1)
        return found

    def _object_with(self, names: set[str], info: FunctionInfo) -> Value | None:
        """Return a tensor of the package's only tensor class with these attributes; another object, if it has more than
        one of the attributes, or one that is a method."""
        found = self.engine.objects.imported_with(info.module, names)
        if len(found) == 1 and self.engine.classes.mro(found[0]).is_tensor:
            return Tensor(sure=False, graph_input=True, subclass=found[0])
        found = self.engine.objects.imported_with(info.module, names, own=True)
        found = [c for c in found if not self.engine.classes.mro(c).is_module]
        if len(found) == 1 and (len(names) > 1 or self.engine.classes.mro(found[0]).functions(min(names))):
            return self.engine.annotations.symbolic_instance(found[0])
        return None


def _truth_operands(test: ast.expr) -> list[ast.expr]:
    """Return the parts of a test that are evaluated for truth."""
    if isinstance(test, ast.BoolOp):
        return [part for value in test.values for part in _truth_operands(value)]
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _truth_operands(test.operand)
    return [test]


def _is_used_like_a_dict(name: str, info: FunctionInfo, *, of_copies: bool = True) -> bool:
    """Return whether it is used as `batch["mask"]`, `"mask" in batch`, `{**batch}`, `batch.items()`, or a copy is: no
    tensor allows that; a sparse one has `values()`."""
    used: set[str] = set()
    copies: set[str] = set()
    for node in info.nodes:
        if isinstance(node, ast.Subscript) and is_named(node.value, name):
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                return True
        elif isinstance(node, ast.Dict):
            spread = (value for key, value in zip(node.keys, node.values, strict=True) if key is None)
            if any(is_named(value, name) for value in spread):
                return True
        elif isinstance(node, ast.Call):
            called = last_name(node.func)
            if any(each.arg is None and is_named(each.value, name) for each in node.keywords):
                return True
            given = any(is_named(arg, name) for arg in node.args)
            if given and called in OF_COPIES:
                return True
            if given and called == "update" and isinstance(node.func, ast.Attribute):
                copy = node.func.value
                copies |= {copy.id} if isinstance(copy, ast.Name) else set()
        elif isinstance(node, ast.Assign) and _is_copy(node.value, name):
            copies |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            text = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
            if text and is_named(node.comparators[0], name):
                return True
        elif isinstance(node, ast.Attribute) and is_named(node.value, name):
            used.add(node.attr)
    if of_copies and any(_is_used_like_a_dict(copy, info, of_copies=False) for copy in copies):
        return True
    return bool(used & OF_DICTS) and used <= OF_DICTS | OF_LISTS


def _is_used_like_a_list(name: str, info: FunctionInfo) -> bool:
    """Return whether it is iterated as a whole, and never used as only a tensor can be."""
    walked = False
    for node in info.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in WALKING:
            walked = walked or any(is_named(arg, name) for arg in node.args)
        elif isinstance(node, ast.Attribute) and is_named(node.value, name) and node.attr not in OF_LISTS:
            return False
        elif isinstance(node, (ast.BinOp, ast.UnaryOp)):
            sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.operand,)
            if any(is_named(side, name) for side in sides):
                return False
    return walked


def _is_copy(node: ast.expr, name: str) -> bool:
    """Return whether it is `name.copy()` or `copy.copy(name)`."""
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and node.func.attr == "copy" and is_named(node.func.value, name):
        return True
    return last_name(node.func) in ("copy", "deepcopy") and any(is_named(arg, name) for arg in node.args)


def _is_isinstance_check(name: str, info: FunctionInfo) -> bool:
    """Return whether it is `isinstance(name, ...)`."""
    return any(
        isinstance(node, ast.Call)
        and last_name(node.func) == "isinstance"
        and any(is_named(arg, name) for arg in node.args)
        for node in info.nodes
    )


def _tensor_targets(value: Value) -> Value:
    """Return the targets that a model predicts: tensors, in whatever container."""
    if isinstance(value, Unknown):
        return TAINTED
    if isinstance(value, Sequence):
        items = None if value.items is None else tuple(map(_tensor_targets, value.items))
        return Sequence(value.kind, items, _tensor_targets(value.element))
    if isinstance(value, Mapping) and value.element is not None:
        return Mapping(value.entries, _tensor_targets(value.element))
    return value


def _place_parameters(
    takes: ast.arguments,
    skip: int,
    parameter: Callable[[ast.arg, ast.expr | None], Value],
    *,
    by_position: bool = False,
) -> tuple[tuple[Value, ...], dict[str, Value]]:
    """Return the result of `parameter` for each parameter: by position those without a default, by name those with one,
    as calls are written, or all that may be `by_position`."""
    args: list[Value] = []
    keywords: dict[str, Value] = {}
    only_position = len(takes.posonlyargs) - skip
    for index, (arg, default) in enumerate(positional(takes)[skip:]):
        if default is None or index < only_position or by_position:
            args.append(parameter(arg, default))
        else:
            keywords[arg.arg] = parameter(arg, default)
    for arg, default in zip(takes.kwonlyargs, takes.kw_defaults, strict=True):
        keywords[arg.arg] = parameter(arg, default)
    return tuple(args), keywords


def _fits(case: Case, takes: ast.arguments, skip: int) -> bool:
    """Return whether a function can be called like that; else the inputs are meant for another one."""
    pairs = positional(takes)[skip:]
    only_position = {arg.arg for arg in takes.posonlyargs}
    named = [arg.arg for arg, _ in pairs]
    by_name = {*named[len(case.args) :], *(arg.arg for arg in takes.kwonlyargs)} - only_position
    keywords = {name for name, _ in case.keywords}
    required = {arg.arg for arg, default in pairs[len(case.args) :] if default is None}
    required |= {a.arg for a, d in zip(takes.kwonlyargs, takes.kw_defaults, strict=True) if d is None}
    return (
        (len(case.args) <= len(named) or takes.vararg is not None)
        and (keywords <= by_name or (takes.kwarg is not None and not keywords & {*named[: len(case.args)]}))
        and required <= keywords
    )


def given(value: Value) -> Value:
    """Return a parameter's value, with its tensors marked as graph inputs."""
    if isinstance(value, Tensor):
        # a floating input of the default type is cast with the model
        dtype = "float" if value.dtype == FLOATS[0] else value.dtype
        return replace(value, dtype=dtype, leaf=False, buffer=False, graph_input=True)
    if isinstance(value, Choice):
        return Choice(tuple(map(given, value.options)), value.likely)
    if isinstance(value, Sequence) and value.items is None and value.element == UNKNOWN:
        return Sequence(value.kind, None, TAINTED)
    if isinstance(value, Mapping) and not value.entries and value.element == UNKNOWN:
        return Mapping((), TAINTED)
    return value
