"""Calls: from a callee of any kind and its arguments to the result."""

from __future__ import annotations

import ast
import dataclasses
from contextlib import nullcontext
from types import MappingProxyType

from tcready.schema.enums import RESOLVED
from tcready.static.domain import constant_text, priors
from tcready.static.domain import facts as F  # noqa: N812 - the facts are many and their names common words
from tcready.static.domain.mro import Mro
from tcready.static.domain.scope import Frame, positional
from tcready.static.domain.values import (
    FLOATING,
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
    Method,
    Partial,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    comes_of_tensors,
    holds_tensor,
    is_captured,
    is_none,
    join,
    likely,
    members_of,
    options,
    prefer,
    tensor_of,
)
from tcready.static.frontend.index import ClassInfo, FunctionInfo
from tcready.static.interp.interfaces import HOOKS, HOOKS_BEFORE, CallSite, Component
from tcready.static.library import argparse_options, constructors, functions, iteration, shape_semantics
from tcready.static.library import semantics as K  # noqa: N812
from tcready.static.library.dtype_tests import bytes_of_value, read_type
from tcready.static.library.torch_operations import Reads
from tcready.static.summaries import call_statistics

CALLED = (Function, Class, Instance, External, ExternalInstance)
HOOK_STORES = MappingProxyType({"register_forward_hook": HOOKS, "register_forward_pre_hook": HOOKS_BEFORE})
LIKE_MODULE_LISTS = frozenset("append extend insert __getitem__ __setitem__ __iter__".split())
"""Methods of lists that work like those of `nn.ModuleList`."""
OF_REGISTERED = MappingProxyType(
    {"register_buffer": "tensor", "register_parameter": "param", "add_module": "module", "register_module": "module"}
)
"""Methods of nn.Module that set an attribute, and the name of the argument with its value."""
CONTEXT = "torch.autograd.function.FunctionCtx"
"""The class in which an autograd function stores values for its backward."""
TAKE_UNRESOLVED = frozenset(
    {
        "callable",
        "dict",
        "functools.partial",
        "getattr",
        "hasattr",
        "id",
        "isinstance",
        "issubclass",
        "super",
        "torch.is_tensor",
        "type",
    }
)
"""Functions that accept an attribute Dynamo has not looked up without a break, or store it unchanged."""
TENSOR_COPIED = "GB4198"
"""The break of a deep copy of an object that holds a tensor."""
TENSOR_CALLED = "GB0147"
"""The break of a call of a tensor with a `__call__` in its class."""
RECURRENT = "torch.nn.LSTM"
OF_RECURRENT = (frozenset({"hidden_size", "num_layers"}), frozenset({"hidden_size", "bidirectional"}))
"""Keywords that only recurrent classes take together, if the class is passed in."""
OF_RECURRENT_OF_TORCH = (
    *OF_RECURRENT,
    frozenset({"bidirectional"}),
    frozenset({"num_layers", "batch_first"}),
    frozenset({"num_layers", "dropout"}),
)
"""Keywords that only recurrent modules of torch.nn take together."""
MANY = 4
"""Candidates of a call; with more, each is unlikely."""
WITH_SOURCE = (Function, Class, Instance, Partial)
FACTORIES = ("from_", "build", "create", "make")
"""The prefixes of class methods that make an object."""


class CallComponent(Component):
    """Evaluates calls: from a callee of any kind and its arguments to the result."""

    def call(self, function: Value, site: CallSite) -> Value:
        """Return the value of a call; several candidates are followed one by one, with less confidence each."""
        if not self.engine.untraced and site.frame.function is not None:
            if site.frame.function.name == "__init__" and getattr(site.node.func, "attr", "") == "__init__":
                self._emit_super_init(site, site.frame.function)
        if isinstance(function, Choice) and function.likely:
            self.engine.unresolved.emit_unresolved(site.node, site.frame, function)
            path = self.engine.forks.pass_by(site.frame)
            usual = self.call(likely(function), site)
            if path is None:
                return prefer(usual, UNKNOWN)
            with site.frame.on(path):
                rest = join(*(v for v in function.options[function.likely :] if v != NONE))
                return prefer(usual, self.call(rest, site))
        candidates = [function]
        if isinstance(function, Choice):
            candidates = [c for c in function.options if not is_none(c)] or candidates
        # what is kept in a row to be called by its place has its turn, however many there are
        many = len(candidates) > MANY and not isinstance(site.node.func, ast.Subscript)
        several = sum(isinstance(each, WITH_SOURCE) for each in candidates) > 1
        results = []
        became: str | None = None
        for candidate in candidates:
            prior = priors.RECURRENT if self._is_supposed(candidate, candidates) else None
            if several and isinstance(candidate, WITH_SOURCE):
                prior = priors.MANY_CANDIDATES if many else priors.CANDIDATE
            with site.frame.against(prior):
                result = self.call_one(candidate, site)
            if result is None and became in (None, *RESOLVED):
                became = call_statistics.unresolved(candidate, site.node.func)
            if _makes_recurrent(candidate, site):
                result = join(self.call_one(External(RECURRENT), site) or UNKNOWN, UNKNOWN)
            if result is None:
                given = (*site.args, *site.keywords.values())
                result = TAINTED if any(map(comes_of_tensors, given)) else UNKNOWN
                if isinstance(candidate, Method) and candidate.receiver == TAINTED:
                    result = TAINTED
            results.append(result)
        if not self.engine.untraced:
            self._note(site, became or call_statistics.resolved(candidates[0]))
        return join(*results)

    def _is_supposed(self, candidate: Value, candidates: list[Value]) -> bool:
        """Return whether a recurrent module may as well be something else."""
        recurrent = isinstance(candidate, ExternalInstance) and self.engine.operations.is_recurrent(candidate.name)
        return recurrent and any(isinstance(other, Unknown) for other in candidates)

    def _note(self, site: CallSite, became: str) -> None:
        """Record the outcome of a call; of several situations one that was not understood wins."""
        key = (str(site.frame.module.path), site.node.lineno, site.node.col_offset)
        if self.engine.call_outcomes.get(key) in (None, *RESOLVED):
            self.engine.call_outcomes[key] = became
        if self.engine.replay is not None:
            info = site.frame.function
            if info is None:
                self.engine.replay.outside += 1
            else:
                self.engine.replay.called(info, site.node.lineno - info.node.lineno, site.node.col_offset, became)

    def _emit_super_init(self, site: CallSite, info: FunctionInfo) -> None:
        """Emit that the constructor of a module made in compiled code calls that of its base."""
        name = next((arg.arg for arg, _ in positional(info.node.args)), "")
        made = site.frame.env.get(name)
        if isinstance(made, Instance) and not self.engine.heap[made].escaping and self.engine.classes.is_module(made):
            if self.engine.replay is not None:
                self.engine.replay.read(info)
            before = (
                node
                for node in info.nodes
                if isinstance(node, ast.Name) and node.id == name and node.lineno < site.node.lineno
            )
            first = min(before, key=lambda node: (node.lineno, node.col_offset), default=site.node)
            self.engine.emit(F.Initialised(self.engine.where(site.frame), first))

    def call_one(self, function: Value, site: CallSite) -> Value | None:
        if isinstance(function, Function):
            if function.breaks:
                self._emit_call(site, function, f"{function.breaks}()", None, None, None)
            if "try" in site.frame.path.enclosing and not self.engine.functions.takes(function, site):
                self.engine.emit(F.Misfit(self.engine.where(site.frame), site.node, function))
                return None
            self.engine.sparse.emit_sparse_argument(function, site)
            self.engine.recurrent.touch_handed(site)
            with self.engine.outside_trace() if function.constant else nullcontext():
                given_back = self.engine.functions.invoke(function, site.args, site.keywords, site.frame, site.rest)
            self.engine.functions.give_back(function, site)
            factory = isinstance(function.bound, Class) and function.info.name.lstrip("_").startswith(FACTORIES)
            if all(isinstance(v, Unknown) for v in options(given_back)):
                made = self.engine.objects.resolve_registered(site) if factory and self.engine.untraced else None
                return made or self.engine.objects.made_of_text(site) or given_back
            return given_back
        if isinstance(function, Class):
            return self.engine.objects.instantiate(function, site)
        if isinstance(function, Partial):
            args = (*(v for k, v in function.given if isinstance(k, int)), *site.args)
            keywords = {**{k: v for k, v in function.given if isinstance(k, str)}, **site.keywords}
            filled = dataclasses.replace(site, args=args, keywords=keywords)
            return self.call_one(function.function, filled)
        if isinstance(function, (Instance, ExternalInstance)):
            self.engine.recurrent.touch(function, site.node, site.frame, "called")
        if isinstance(function, Instance):
            site = self._run_hooks_before(function, site)
            return self._run_hooks(function, site, self._call_object(function, site))
        site = site.spread()
        if isinstance(function, Tensor):
            return self._call_tensor(function, site)
        if isinstance(function, External) and function.name.startswith("torch."):
            made = self.engine.overrides.by_object(function.name, site.args, site.keywords, site.frame)
            if made is not None:
                surely = any(isinstance(v, Instance) for v in (*site.args, *site.keywords.values()))
                other = None if surely else self._call_foreign(function, site)
                return made if other is None else join(made, other)
        own = self._call_override(function, site)
        if own is None:
            return self._call_foreign(function, site)
        with self.engine.outside_trace():
            result = self._call_foreign(function, site)
        if isinstance(own, Tensor) and isinstance(result, Tensor):
            return dataclasses.replace(result, subclass=own.subclass)
        return result

    def _call_override(self, function: Value, site: CallSite) -> Value | None:
        """Return the result of a `__torch_function__` with source for an operation of torch, if there is one."""
        if isinstance(function, Method) and isinstance(function.receiver, Tensor):
            operation, args = f"torch.Tensor.{function.name}", (function.receiver, *site.args)
        elif isinstance(function, External) and function.name.startswith("torch."):
            operation, args = function.name, site.args
        else:
            return None
        return self.engine.overrides.call_override(External(operation), args, site.keywords, site.frame)

    def _call_foreign(self, function: Value, site: CallSite) -> Value | None:
        """Call a function without source."""
        self.engine.sparse.emit_sparse_use(site.node, site.frame, *site.args, *site.keywords.values())
        if not self.engine.untraced and _looks_at_arguments(function):
            self.engine.unresolved.emit_unresolved(site.node, site.frame, *site.args, *site.keywords.values())
        if isinstance(function, External):
            if function.name == "torch.Tensor.__torch_function__":
                return self._operation_called(site)
            unbound = function.name.removeprefix("torch.Tensor.")
            if unbound != function.name and site.args and tensor_of(site.args[0]):
                inner = site.giving(site.args[1:], site.keywords)
                return self._call_method(Method(site.args[0], unbound), inner)
            result = functions.call(self.engine, function.name, site)
            if function.name.startswith("torch."):
                result = shape_semantics.laid_out(function.name, site.args, result, site.keywords)
                if not self.engine.overrides.is_overriding():
                    result = _result_of_operands(result, site.args)
            self._emit_call(site, function, function.name, None, None, result)
            if any(map(is_captured, site.args)):
                site.frame.resume()  # most functions read the number
            return result
        if isinstance(function, ExternalInstance):
            return self._call_external_object(function, site)
        if isinstance(function, Method):
            return self._call_method(function, site)
        return None

    def _emit_call(
        self,
        site: CallSite,
        function: Value,
        name: str | None,
        receiver: Value | None,
        method: str | None,
        result: Value | None,
        gb_id: str = "",
    ) -> None:
        if not self.engine.untraced:
            keywords = tuple(site.keywords.items())
            where = self.engine.where(site.frame)
            known = self.engine.operations
            operation, operands = name or "", site.args
            if isinstance(receiver, Tensor):
                operation, operands = f"torch.Tensor.{method}", (receiver, *site.args)
            self.engine.enums.emit_member_call(site, receiver, operation, operands)
            numbers: tuple[Value, ...] = ()
            reads: Reads = ""
            specified_by: tuple[str, ...] = ()
            parameters: Value = UNKNOWN
            if operation.startswith("torch."):
                parameters = constructors.parameters(self.engine, result or UNKNOWN, operation)
                numbers = known.read_as_numbers(operation, operands, site.keywords)
                reads, specified_by = known.reads(operation, operands, site.keywords)
            elif operation.startswith("numpy."):
                reads = known.reads_of_arrays(operation, operands)
            if operation and not gb_id:
                gb_id = known.break_of(operation, operands, site.keywords)
            if operation == "copy.deepcopy" and operands and self._keeps_tensor(operands[0]):
                gb_id = TENSOR_COPIED
            if operation == "torch.Tensor.requires_grad_" and self._leaks_nothing(receiver, site.frame):
                gb_id = F.LEAKED_FLAG
            self.engine.emit(
                F.Call(
                    where,
                    site.node,
                    function,
                    name,
                    receiver,
                    method,
                    site.args,
                    keywords,
                    result or UNKNOWN,
                    numbers,
                    isinstance(function, External) and self.engine.program.is_native(function.name),
                    gb_id,
                    known.traced_since(operation) if operation else None,
                    reads,
                    specified_by,
                    parameters,
                )
            )

    def _keeps_tensor(self, value: Value, depth: int = 3) -> bool:
        """Return whether it is an object with source that holds a tensor and has no copy method of its own, or a row with
        one."""
        for option in options(value):
            inside: tuple[Value, ...] = ()
            if isinstance(option, Instance) and not self.engine.classes.mro(option.cls).functions("__deepcopy__"):
                inside = (*self.engine.heap[option].attributes.values(),)
                if any(map(holds_tensor, inside)):
                    return True
            elif isinstance(option, Sequence):
                inside = members_of(option)
            if depth and any(self._keeps_tensor(each, depth - 1) for each in inside):
                return True
        return False

    def _leaks_nothing(self, tensor: Value | None, frame: Frame) -> bool:
        """Return whether a flag set on a tensor affects that tensor alone: a torch that traces it breaks only if results
        of the tensor leave the graph with gradients, and without them nothing but the tensor itself would."""
        made_here = isinstance(tensor, Tensor) and not tensor.graph_input and not tensor.leaf
        off = self.engine.training is False and not frame.path.gradients
        return made_here and off and F.LEAKED_FLAG in self.engine.operations.tables.registry

    def call_each(self, function: Value, site: CallSite) -> Value | None:
        """Return the joined results of calling each alternative of `function`; None if nothing is known of any."""
        results = [self.call_one(option, site) for option in options(function)]
        known = [r for r in results if r is not None]
        return join(*known) if known else None

    def _call_tensor(self, tensor: Tensor, site: CallSite) -> Value | None:
        """Call a tensor with a `__call__` with source: Dynamo calls no tensor, so Python does."""
        if tensor.subclass is None:
            return None
        called = self.engine.classes.mro(tensor.subclass).functions("__call__")
        if not called:
            return None
        name = f"{tensor.subclass.node.name}.__call__"
        result = self.call_each(self.engine.attributes.attribute(tensor, "__call__", site.frame), site)
        self._emit_call(site, tensor, name, None, None, result, gb_id=TENSOR_CALLED)
        return result

    def _call_object(self, made: Instance, site: CallSite) -> Value | None:
        mro = self.engine.classes.mro(made.cls)
        for name in ("__call__", "forward"):
            if mro.functions(name) or (not mro.is_module and mro.holder(name) is not None):
                return self.call_each(self.engine.attributes.member(made, name, site.frame), site)
            if name == "__call__" and not mro.is_module:
                return None
        set_to = self.engine.attributes.member(made, "forward", site.frame)
        if any(isinstance(option, Function) for option in options(set_to)):
            return self.call_each(set_to, site)
        return self._inherited_forward(made, site)

    def _inherited_forward(self, made: Instance, site: CallSite) -> Value | None:
        mro = self.engine.classes.mro(made.cls)
        if mro.container == "torch.nn.Sequential":
            return self._chain(made, site)
        bases = [name for name in mro.external if K.is_module_class(name)]
        base = next((name for name in bases if self.engine.operations.is_recurrent(name)), bases[0] if bases else None)
        if base is None or base == "torch.nn.Module":
            return None
        result = self._call_submodules(made, base, site)
        if result is None:
            result = self.engine.operations.module_call(base, site.args)
        weights = (self.engine.heap[made].attributes.get(name) for name in sorted(K.MODULE_TENSORS))
        result = _result_of_operands(result, (*site.args, *(weight for weight in weights if weight is not None)))
        self._emit_call(site, made, f"{base}.__call__", made, "__call__", result)
        return result

    def _chain(self, made: Instance | ExternalInstance, site: CallSite) -> Value | None:
        """Call an `nn.Sequential`: each member with the result of the one before."""
        value = site.args[0] if site.args else UNKNOWN
        members = self.engine.heap[made].members
        if members is None or made.ident in self.engine.chained:  # built in a loop around itself: one object to us
            return None
        self.engine.chained.add(made.ident)
        try:
            return self._through(members, value, site)
        finally:
            self.engine.chained.discard(made.ident)

    def _through(self, members: Value, value: Value, site: CallSite) -> Value:
        steps: tuple[Value, ...]
        if isinstance(members, Mapping):
            steps = tuple(v for _, v in members.entries) + ((members.element,) if members.element else ())
        else:
            steps = members_of(members) if isinstance(members, Sequence) else (members,)
        for step in steps:
            results = [self.call_one(option, site.giving((value,))) for option in options(step)]
            value = join(*(r if r is not None else (TAINTED if comes_of_tensors(value) else UNKNOWN) for r in results))
        return value

    def _call_external_object(self, made: ExternalInstance, site: CallSite) -> Value | None:
        result: Value | None = None
        if made.name in iteration.GETTERS:
            result = iteration.call_getter(self.engine, made, site)
            if not self.engine.heap[made].escaping:
                return result  # one made where it is used is traced
        elif made.name == "torch.nn.Sequential":
            result = self._chain(made, site)
        elif K.is_module_class(made.name):
            site = self._run_hooks_before(made, site)
            set_to = self.engine.heap[made].attributes.get("forward") if made.ident else None
            if set_to is not None:
                return self._run_hooks(made, site, self.call_each(set_to, site))
            self._read_parametrised(made, site.frame)
            result = self._call_submodules(made, made.name, site)
            if result is None:
                result = self.engine.operations.module_call(made.name, site.args)
                result = shape_semantics.module_result(made.name, site.args, result)
        elif made.name.startswith("einops.layers."):
            result = K.einops_call(made.name.rpartition(".")[2].lower(), site.args)
        elif site.args and self.engine.operations.context_of(made.name) is not None:
            decorated = (self.engine.operations.decorated(made.name, v) for v in options(site.args[0]))
            return join(*decorated)  # a context manager used as a decorator
        self._emit_call(site, made, f"{made.name}.__call__", made, "__call__", result)
        return self._run_hooks(made, site, result)

    def _call_submodules(self, made: Instance | ExternalInstance, name: str, site: CallSite) -> Value | None:
        """Call the modules with source that a module of torch.nn calls, with its first arguments."""
        called = self.engine.heap[made].attributes.get(K.CALLED.get(name, "")) if made.ident else None
        modules = [
            v
            for option in options(called or UNKNOWN)
            for v in (*options(self.engine.containers.element(option)), option)
        ]
        own = dict.fromkeys(v for v in modules if isinstance(v, Instance))
        results = [self.call_one(module, site.giving(site.args[:1])) for module in own]
        return join(*(UNKNOWN if result is None else result for result in results)) if results else None

    def _read_parametrised(self, made: ExternalInstance, frame: Frame) -> None:
        """Read the parametrized tensors that the forward of a torch module reads."""
        known = self.engine.heap[made].attributes.get(K.PARAMETRISED) if made.ident else None
        for name, _ in known.entries if isinstance(known, Mapping) else ():
            self.engine.attributes.attribute(made, str(name), frame)

    def _run_hooks(self, made: Instance | ExternalInstance, site: CallSite, result: Value | None) -> Value | None:
        """Return the result of a module call after its hooks."""
        for hook in self._registered_hooks(made, HOOKS):
            given = (made, Sequence("tuple", site.args, UNKNOWN), UNKNOWN if result is None else result)
            changed = self.call_each(hook, site.giving(given))
            if changed is not None and changed != NONE and result is not None:
                result = join(result, *(v for v in options(changed) if v != NONE))
        return result

    def _run_hooks_before(self, made: Instance | ExternalInstance, site: CallSite) -> CallSite:
        """Return a call of a module with the arguments changed by its hooks."""
        for hook in self._registered_hooks(made, HOOKS_BEFORE):
            given = site.giving((made, Sequence("tuple", site.args, UNKNOWN)))
            for changed in options(self.call_each(hook, given) or NONE):
                if isinstance(changed, Sequence) and changed.items is not None:
                    site = site.giving(changed.items, site.keywords)
                elif isinstance(changed, Tensor):
                    site = site.giving((changed,), site.keywords)
        return site

    def _registered_hooks(self, made: Instance | ExternalInstance, where: str) -> tuple[Value, ...]:
        """Return the hooks that a module calls beside its forward."""
        if not made.ident or self.engine.untraced:
            return ()
        hooks = self.engine.heap[made].attributes.get(where)
        return tuple(members_of(hooks)) if isinstance(hooks, Sequence) else ()

    def _module_method(self, made: Instance | ExternalInstance, name: str, site: CallSite) -> Value | None:
        """Call a method that a module inherits from nn.Module."""
        # what fills a module that is made without its sizes is registered for that alone
        for_some = name != "register_forward_hook" and (
            "with_kwargs" in site.keywords or site.frame.path.conditional or bool(site.frame.path.conditions)
        )
        if name in HOOK_STORES and site.args and self.engine.untraced and made.ident and not for_some:
            known = self.engine.heap[made].attributes.get(HOOK_STORES[name])
            before = members_of(known) if isinstance(known, Sequence) else ()
            if site.args[0] not in before:
                hooks = Sequence("list", (*before, site.args[0]), UNKNOWN)
                self.engine.heap[made].update(HOOK_STORES[name], hooks, strong=True)
        if name == "__getattr__":
            wanted = site.first("name")
            own = self.engine.heap[made].attributes if made.ident else {}
            found = own.get(str(wanted.value)) if isinstance(wanted, Const) else None
            if found is not None:
                self.engine.recurrent.touch(found, site.node, site.frame)
            return found
        if name == "get_submodule":
            return self._submodule(made, site.first("target"))
        if name in ("children", "named_children"):
            children = self.engine.containers.children(made)
            return self.engine.containers.mapping_method(children, "values" if name == "children" else "items", site)
        return K.module_method(name, made)

    def _submodule(self, made: Instance | ExternalInstance, path: Value | None) -> Value:
        """Return the module at the end of a dotted path, if the source decides it."""
        found: Value = made
        if not isinstance(path, Const) or not isinstance(path.value, str):
            return UNKNOWN
        for name in path.value.split(".") if path.value else ():
            if not isinstance(found, (Instance, ExternalInstance)):
                return UNKNOWN
            children = self.engine.containers.children(found)
            known = dict(children.entries).get(name, children.element)
            found = UNKNOWN if known is None else known
        return found

    def _call_method(self, method: Method, site: CallSite) -> Value | None:
        receiver, name = method.receiver, method.name
        of_tensors = K.TENSOR_ONLY_METHODS if receiver == TAINTED else K.OF_NOTHING_BUT_TENSORS
        if name in of_tensors and isinstance(receiver, (Unknown, Plain)):
            receiver = Tensor(sure=False)
        dotted: str | None = None
        result: Value | None = None
        if name == "__getitem__" and len(site.args) == 1 and not isinstance(receiver, Instance):
            return self.engine.protocols.index_called(site.giving((receiver, site.args[0])))
        if isinstance(receiver, Tensor) and not self.engine.operations.is_method_of_tensor(name):
            pass  # it is something else, taken for a tensor
        elif isinstance(receiver, Tensor):
            known = K.tensor_method(name, receiver, site.args, site.keywords)
            sure = Tensor(receiver.dtype) if name in K.TENSOR_ONLY_METHODS else receiver  # its use says so
            result = self.engine.operations.better(f"torch.Tensor.{name}", (sure, *site.args), site.keywords, known)
            plain = self.engine.overrides.is_overriding() and name != "as_subclass"
            result = result if plain else _result_of_class(result, receiver, name, site.args)
            result = shape_semantics.laid_out(name, (receiver, *site.args), result, site.keywords)
            if name == "element_size":
                result = bytes_of_value(read_type(receiver, self.engine.dtype, self.engine.autocast))
            result = K.ADDRESS if name == "data_ptr" and not self.engine.untraced else result
        elif isinstance(receiver, Sequence):
            result = self.engine.containers.sequence_method(receiver, name, site)
        elif isinstance(receiver, Mapping):
            result = self.engine.containers.mapping_method(receiver, name, site)
        elif K.is_number_of_numpy(receiver):
            result = K.method_of_number(receiver, name, site.first("dtype"))
        elif isinstance(receiver, Plain) and name == "astype":  # of a number of numpy, which is an array from here on
            result = K.NUMBER if self.engine.untraced else K.ARRAY
        elif isinstance(receiver, (Const, Plain)):
            result = self._call_text_method(constant_text.method(receiver, name, site.args))
        elif isinstance(receiver, Unknown) and name in constant_text.METHODS:
            result = self._call_text_method(constant_text.method(Plain("str"), name, site.args))
        elif isinstance(receiver, ExternalInstance):
            self.engine.recurrent.touch_by_walk(receiver, name, site)
            dotted = f"{receiver.name}.{name}"
            result = self._external_object_method(receiver, name, site)
        elif isinstance(receiver, Instance):
            self.engine.recurrent.touch_by_walk(receiver, name, site)
            result = self._inherited_method(receiver, name, site)
            base = next(iter(self.engine.classes.mro(receiver.cls).external), None)
            dotted = f"{base}.{name}" if base else None
        elif isinstance(receiver, Class):
            result = self._class_method(receiver, name, site)
        elif isinstance(receiver, Partial):
            result = self._property_method(receiver, name, site)
        self._emit_call(site, method, dotted, receiver, name, result)
        return result

    def _property_method(self, read: Partial, name: str, site: CallSite) -> Value | None:
        """Call `Class.name.fget(made)` or similar: Python calls the getter, or the setter."""
        made = dict(read.given)
        getter = made.get(0)
        if name == "fget":
            return None if getter is None else self.call_one(getter, site)
        setter = made.get(1)
        if setter is None and isinstance(getter, Function) and getter.info.owner is not None:
            beside = getter.info.owner.functions.get(getter.info.name, ())
            setter = next((Function(info) for info in beside if info.is_setter), None)
        if setter is not None and name in ("fset", "__set__"):
            self.call_one(setter, site)
        return NONE

    def _call_text_method(self, value: Value) -> Value:
        return value if self.engine.untraced else constant_text.constant(value)

    def _external_object_method(self, receiver: ExternalInstance, name: str, site: CallSite) -> Value | None:
        if receiver.name == "logging.Logger":
            return _is_enabled(site) if name == "isEnabledFor" else NONE
        if receiver.name == "torch.nn.Sequential" and name in ("forward", "__call__"):
            return self._chain(receiver, site)
        if receiver.name in K.CONTAINERS and receiver.ident:
            if name in ("children", "named_children", "get_submodule"):
                return self._module_method(receiver, name, site)
            return self.engine.containers.container_method(receiver, name, site.args)
        if K.is_module_class(receiver.name):
            return self._module_method(receiver, name, site)
        if receiver.name == "torch.Generator" and name == "manual_seed":
            return receiver
        if receiver.name == argparse_options.PARSER and receiver.ident:
            return argparse_options.method(self.engine, receiver, name, site)
        if receiver.name == CONTEXT:
            if name == "save_for_backward":
                saved = Sequence("tuple", site.args, UNKNOWN)
                self.engine.heap[receiver].update("saved_tensors", saved, strong=False)
            return NONE
        if receiver.name == "contextlib.ExitStack" and name == "enter_context" and site.args:
            return self.engine.protocols.enter_context(site.args[0], site.frame)
        if receiver == K.ARRAY:
            return Plain(None, "tensor") if name in ("item", "tolist") else receiver
        if receiver in K.GENERATORS.values():
            return functions.call(self.engine, f"numpy.random.{name}", site)
        if receiver.name.startswith(("torch.distributions", "torch.utils.cpp_extension")):
            return Tensor(None, sure=False)
        return None

    def _inherited_method(self, made: Instance, name: str, site: CallSite) -> Value | None:
        mro = self.engine.classes.mro(made.cls)
        if name == "__setattr__" and len(site.args) == 2 and isinstance(site.args[0], Const):
            self.engine.heap[made].update(str(site.args[0].value), site.args[1], strong=bool(self.engine.untraced))
            return NONE
        if mro.is_dictionary:
            return self.engine.containers.dictionary_method(made, name, site.args, site.keywords)
        if mro.is_list and name in LIKE_MODULE_LISTS:
            return self.engine.containers.container_method(made, name, site.args)
        if name == "__init__":
            if mro.container or mro.is_list:
                self.engine.containers.fill_container(made, mro.container or "list", site.args, site.node)
            for base in mro.external:
                constructors.inherit(self.engine, made, base, site)
            return NONE
        if name in ("forward", "__call__"):
            if name == "__call__" and mro.functions("forward"):
                return self.call_each(self.engine.attributes.member(made, "forward", site.frame), site)
            return self._inherited_forward(made, site)
        if name in ("register_buffer", "register_parameter", "add_module", "register_module"):
            self._register(made, name, site)
            if not (mro.container and name in ("add_module", "register_module")):
                return NONE
        if mro.container:
            return self.engine.containers.container_method(made, name, _modules_last(site))
        if mro.is_module:
            inside = site.frame.function
            if name == "eval" and self.engine.untraced and inside is not None and inside.name == "train":
                self._freeze(made, set())
            return self._module_method(made, name, site)
        return self.engine.records.record_method(made, name, site)

    def _register(self, made: Instance, method: str, site: CallSite) -> None:
        """Evaluate `register_buffer(name, tensor)` and similar."""
        name, value = site.first("name"), site.first(OF_REGISTERED[method], 1)
        if name is None or value is None:
            return
        tensor = tensor_of(value)
        if tensor is not None:
            parameter = tensor.parameter
            # a buffer is cast with the model
            dtype = "float" if tensor.dtype in FLOATING else tensor.dtype
            value = Tensor(dtype, leaf=True, sparse=tensor.sparse, rank=tensor.rank, parameter=parameter)
        if not isinstance(name, Const):
            written = next((k.value for k in site.node.keywords if k.arg == "name"), None)
            self.engine.heap[made].put_dynamic(constant_text.name_pattern(written or site.node.args[0]), value)
            return
        self.engine.heap[made].update(str(name.value), value, strong=True)
        if method in ("add_module", "register_module"):
            self.engine.containers.note(made, str(name.value))

    def _freeze(self, made: Instance, done: set[Instance]) -> None:
        """Put a module, and all its submodules, in evaluation mode."""
        done.add(made)
        thing = self.engine.heap[made]
        thing.update("training", Const(False), strong=True)
        values = [
            *thing.attributes.values(),
            *(members_of(thing.members) if isinstance(thing.members, Sequence) else ()),
        ]
        for option in (option for value in values for option in options(value)):
            if isinstance(option, Instance) and option not in done and self.engine.classes.is_module(option):
                self._freeze(option, done)

    def _class_method(self, cls: Class, name: str, site: CallSite) -> Value | None:
        mro = self.engine.classes.mro(cls.info)
        if name == "__call__" and site.args and mro.is_module and self._is_one_of(site.args[0], cls.info):
            return self.call_each(site.args[0], site.giving(site.args[1:], site.keywords))
        if name == "__call__":  # as a metaclass says it: `super().__call__(...)`
            return self.engine.objects.instantiate(cls, site, by_type=True)
        if name == "__torch_function__":
            return self._operation_called(site)
        if name == "__subclasses__":
            below = [
                c
                for c in self.engine.objects.derived_classes(cls.info)
                if self.engine.classes.mro(c).classes[1] is cls.info
            ]
            return Sequence("list", tuple(map(Class, below)), UNKNOWN)
        if name == "apply" and "torch.autograd.Function" in mro.external:
            return self._call_apply(cls, mro, site)
        return None

    def _is_one_of(self, value: Value, cls: ClassInfo) -> bool:
        """Return whether it is an object of a class, or of one that derives from it."""
        return all(isinstance(v, Instance) and cls in self.engine.classes.mro(v.cls).classes for v in options(value))

    def _operation_called(self, site: CallSite) -> Value | None:
        """Return the result of `torch.Tensor.__torch_function__(func, types, args, kwargs)`: that of the operation."""
        given = site.args[2] if len(site.args) > 2 else site.keywords.get("args")
        named = site.args[3] if len(site.args) > 3 else site.keywords.get("kwargs")
        if not site.args or not isinstance(given, Sequence) or given.items is None:
            return None
        entries = named.entries if isinstance(named, Mapping) else ()
        result = self.call_each(site.args[0], site.giving(given.items, {str(k): v for k, v in entries}))
        tensor = next(filter(None, map(tensor_of, given.items)), None)
        if isinstance(result, Tensor) and tensor is not None and result.subclass is None:
            return dataclasses.replace(result, subclass=tensor.subclass)
        return result

    def _call_apply(self, cls: Class, mro: Mro, site: CallSite) -> Value | None:
        """Return the result of `apply` of an autograd function: that of its forward. One that prepares for the backward
        pass by itself has a forward without a context, and prepares only if gradients are wanted."""
        ident = self.engine.heap.ident(CONTEXT, site.node, site.frame.context, escaping=False)
        context = ExternalInstance(CONTEXT, ident)
        forward = self.engine.attributes.class_member(cls, "forward", site.frame)
        if not mro.functions("setup_context"):
            result = self.call_each(forward, site.giving((context, *site.args), site.keywords))
        else:
            result = self.call_each(forward, site)
            if self.engine.training:
                prepare = self.engine.attributes.class_member(cls, "setup_context", site.frame)
                given = (context, Sequence("tuple", site.args, UNKNOWN), UNKNOWN if result is None else result)
                self.call_each(prepare, site.giving(given, {}))
        if self.engine.training and mro.functions("backward"):
            self._walked_back(cls, context, result, site)
        return result

    def _walked_back(self, cls: Class, context: ExternalInstance, result: Value | None, site: CallSite) -> None:
        """Trace the backward with the call, as Dynamo does if a gradient is needed: none is for inputs of the model."""
        given = [tensor for tensor in map(tensor_of, site.args) if tensor is not None]
        if site.frame.path.gradients is False or all(tensor.graph_input for tensor in given):
            return
        given_back = result.items if isinstance(result, Sequence) else None
        gradients = [Tensor()] * (1 if given_back is None else len(given_back))
        backward = self.engine.attributes.class_member(cls, "backward", site.frame)
        # somebody who calls may have turned gradients off
        with site.frame.against(priors.BACKWARD):
            self.call_each(backward, site.giving((context, *gradients)))


def _makes_recurrent(function: Value, site: CallSite) -> bool:
    """Return whether a class that is passed, or named in `getattr(nn, name)`, gets the arguments of a recurrent
    module."""
    if function == External("torch.nn.Module"):
        return any(site.keywords.keys() >= names for names in OF_RECURRENT_OF_TORCH)
    unknown = isinstance(function, Unknown) or (isinstance(function, Plain) and function.kind is None)
    return unknown and any(site.keywords.keys() >= names for names in OF_RECURRENT)


def _modules_last(site: CallSite) -> tuple[Value, ...]:
    """Return the arguments of a method of a module container, in order: `add_module(module=part, name="part")`."""
    by_name = sorted(site.keywords.items(), key=lambda given: given[0] in ("module", "modules"))
    return (*site.args, *(value for _, value in by_name))


def _looks_at_arguments(function: Value) -> bool:
    """Return whether a call of code without source depends on its arguments: a container takes all."""
    if isinstance(function, External):
        return function.name not in TAKE_UNRESOLVED
    return isinstance(function, Method) and isinstance(function.receiver, (Tensor, ExternalInstance))


def _result_of_class(result: Value | None, receiver: Tensor, name: str, args: tuple[Value, ...]) -> Value | None:
    """Return the result of a method of a user-defined tensor class: one of the same class, or of the requested one."""
    subclass = receiver.subclass
    if name == "as_subclass":
        subclass = next((v.info for value in args for v in options(value) if isinstance(v, Class)), None)
    if subclass is None or not isinstance(result, Tensor):
        return result
    return dataclasses.replace(result, subclass=subclass)


def _result_of_operands(result: Value | None, operands: tuple[Value, ...]) -> Value | None:
    """Return the result of a torch function on tensors of a user-defined class: one of that class."""
    tensors = (tensor_of(value) for value in operands)
    subclass = next((t.subclass for t in tensors if t is not None and t.subclass is not None), None)
    if subclass is None or not isinstance(result, Tensor) or result.subclass is not None:
        return result
    return dataclasses.replace(result, subclass=subclass)


def _is_enabled(site: CallSite) -> Value:
    """Return whether a logger writes messages of a level: not for DEBUG and INFO, unless it is configured."""
    level = site.first("level")
    if level in (External("logging.DEBUG"), External("logging.INFO")) or level in (Const(10), Const(20)):
        return prefer(Const(False), Plain("bool"))
    return Plain("bool")
