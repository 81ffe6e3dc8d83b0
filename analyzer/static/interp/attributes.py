"""Attributes: `owner.name`, for every kind of owner."""

from __future__ import annotations

import ast
import dataclasses
import re
from types import NoneType

from tcready.static.domain.constant_text import ANY_NAME, OF_TEXT
from tcready.static.domain.mro import PATCHED, Mro
from tcready.static.domain.scope import Frame, narrowing_key, positional
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
    Method,
    Module,
    Partial,
    Plain,
    Sequence,
    Super,
    Tensor,
    Unknown,
    Value,
    escaped,
    join,
    join_answers,
    keep,
    lift,
    likely,
    options,
    prefer,
    tensor_of,
    whole,
    without_none,
)
from tcready.static.frontend.index import ClassInfo, FunctionInfo
from tcready.static.interp.interfaces import ASSUMED_DEPTH, Component, Engine
from tcready.static.library import constructors
from tcready.static.library import semantics as K  # noqa: N812
from tcready.static.library.builtins import namespace
from tcready.static.library.config_registries import class_known_as
from tcready.static.library.dtype_tests import bytes_of_value, limit, read_type

OF_CLASSES = frozenset({"__name__", "__qualname__", "__module__"})
"""The attributes with the name of a class."""
VIEWS = frozenset({"keys", "values", "items"})
"""Methods that only a dict has: they return views of its contents."""
ABSTRACT = frozenset({"abstractmethod", "abstractproperty"})
PLAIN_BASES = frozenset({"object", "abc.ABC", "typing.Generic", "typing.Protocol", "torch.nn.Module"})
"""Bases without attributes that could be meant."""
MAX_DERIVING = 4
"""The number of classes deriving from an argument's annotated one beyond which they decide nothing."""


class Attributes(Component):
    """Evaluates attributes: `owner.name`, for every kind of owner."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._later: dict[tuple[ClassInfo, str], Value] = {}
        """The values that methods give to attributes of a class that are None after construction."""

    def attribute(self, owner: Value, name: str, frame: Frame) -> Value:
        """Return `owner.name`."""
        if not isinstance(owner, Choice):
            return self._attribute_of(owner, name, frame)
        owner = without_none(owner)  # it has no attributes worth knowing: who reads one has ruled it out
        if name in OF_TEXT:
            owner = keep(owner, lambda v: not isinstance(v, Tensor) and v != K.ARRAY)
        if tensor_of(owner):
            of_tensors = self.engine.operations.is_of_tensors(name)
            plain = Tensor if not of_tensors else Unknown
            owner = keep(
                owner, lambda v: not isinstance(v, plain) or (isinstance(v, Tensor) and v.subclass is not None)
            )
        return lift(lambda o: join(*(self._attribute_of(option, name, frame) for option in options(o))), owner)

    def _attribute_of(self, owner: Value, name: str, frame: Frame) -> Value:
        if isinstance(owner, Tensor):
            own = self._subclass_attribute(owner, name, frame) if owner.subclass is not None else None
            if own is not None:
                return own
            if name == "shape":
                if owner.subclass is not None:
                    self.engine.overrides.call_override(K.GETTER, (owner,), {}, frame)
                return K.SHAPE
            if name in ("real", "imag"):
                return Tensor("float", owner.sure)
            if name == "grad":
                some = join(NONE, Tensor("float", owner.sure))
                # a call without training comes by no backward: there is none but by hand
                return some if self.engine.training else prefer(NONE, some)
            kind = self.engine.operations.tables.tensor_attribute(name)
            if kind is not None and owner.subclass is not None:
                self.engine.overrides.call_override(K.GETTER, (owner,), {}, frame)
            if kind == "T" or name in K.NAMED_FIELDS:
                return Tensor(owner.dtype, owner.sure, sparse=owner.sparse)
            if name == "ndim":
                return K.dimensions_of(owner)
            if name == "_version" and not self.engine.untraced:
                return Tensor("int", owner.sure, rank=0)  # a symbolic number that says nothing of its value
            if kind is not None:
                without_gradients = name == "requires_grad" and self.engine.training is False and not owner.leaf
                if name in K.UNUSUAL_KINDS or without_gradients:
                    return prefer(Const(False), Plain("bool"))
                if name == "dtype":
                    return read_type(owner, self.engine.dtype, self.engine.autocast)
                return Plain(kind if kind in ("dtype", "layout", "device", "bool", "int") else None)
            return Method(owner, name) if self.engine.operations.is_of_tensors(name) else TAINTED
        if isinstance(owner, Instance):
            return self.member(owner, name, frame)
        if isinstance(owner, Super) and isinstance(owner.instance, Tensor):
            above = self._subclass_attribute(owner.instance, name, frame, owner.after)
            plain = Tensor(owner.instance.dtype, owner.instance.sure)
            return self._attribute_of(plain, name, frame) if above is None else above
        if isinstance(owner, Super) and isinstance(owner.instance, Class):
            if owner.after not in self.engine.classes.mro(owner.instance.info).classes:
                return Method(owner.instance, name)  # what a metaclass has from `type`
            return self.class_member(owner.instance, name, frame, owner.after)
        if isinstance(owner, Super):
            found = self.member(owner.instance, name, frame, owner.after)
            statistic = self._statistic(owner.instance, name, found)
            found = found if statistic is None else statistic
            left = statistic is not None or self._is_left_unresolved(owner, name, found)
            left = left and not self.engine.untraced
            return prefer(found, K.UNRESOLVED) if left else found
        if isinstance(owner, Class):
            found = self.class_member(owner, name, frame)
            left = not self.engine.untraced and self._is_left_of_function(owner, name)
            return prefer(found, K.OF_FUNCTION) if left else found
        if isinstance(owner, Module) and name == "__dict__":
            return owner  # what is asked of it is an item, by name
        if isinstance(owner, Module):
            value = self.engine.names.module_member(owner.info, name)
            if value is None and name in VIEWS:  # of `vars(module)` or `module.__dict__`
                return Method(namespace(self.engine, owner.info), name)
            return UNKNOWN if value is None else value
        if isinstance(owner, External):
            if name in OF_CLASSES and owner.name.rpartition(".")[2][:1].isupper():
                return _class_name_attribute(owner.name, name)
            if name == "value" and owner.name.rpartition(".")[2][:1].isupper():
                return owner
            inner = self.engine.program.module(f"{owner.name}.{name}")
            return (
                Module(inner)
                if inner
                else K.external_attribute(f"{owner.name}.{name}", self.engine.operations.tables.version)
            )
        if isinstance(owner, ExternalInstance):
            if K.is_left(owner):
                return owner
            if K.is_module_class(owner.name):
                if name == "training":
                    return self._training()
                if name == "_modules":
                    return self.engine.containers.children(owner)
                attribute = self.engine.heap[owner].attributes.get(name) if owner.ident else None
                if name in K.MODULE_TENSORS:
                    known = attribute is not None and not isinstance(attribute, Unknown)
                    tensor = attribute if known and attribute is not None else Tensor("float", leaf=True)
                    return self._parametrized_tensor(owner, name, tensor, frame)
                if attribute is None:
                    attribute = self._member_attribute(owner, name)
                if attribute is None:
                    attribute = constructors.common_attribute(self.engine, name)
                part = K.PARTS.get(owner.name, {}).get(name)
                if attribute is None and part is not None:
                    return ExternalInstance(f"torch.nn.{part}")
                return attribute if attribute is not None else Method(owner, name)
            if owner.ident and name in self.engine.heap[owner].attributes:
                value = self.engine.heap[owner].attributes[name]
                return escaped(value) if self.engine.heap[owner].escaping else value
            if owner.name == "logging.Logger" and name in K.LOGGER_ATTRIBUTES:
                found = K.LOGGER_ATTRIBUTES[name]
                return found if self.engine.untraced else prefer(found, K.OF_LOGGER)
            if (owner.name, name) in K.FIELDS:
                return K.FIELDS[owner.name, name]
            if owner.name.startswith("torch.distributions.") and name not in K.DISTRIBUTION_METHODS:
                return K.distribution_attribute(owner, name)
            return _array_attribute(owner, name) if owner == K.ARRAY else Method(owner, name)
        if K.is_number_of_numpy(owner):
            return _array_attribute(owner, name)
        if isinstance(owner, Plain) and owner.kind == "finfo":
            return limit(owner, name)
        if isinstance(owner, Plain) and owner.kind == "dtype" and name == "itemsize":
            return bytes_of_value(owner)
        if isinstance(owner, Plain):
            is_method = owner.kind == "str" and hasattr(str, name)
            is_method = is_method or (owner.kind in (None, "dict") and name in VIEWS)
            is_method = is_method or (owner.kind is None and name in K.OF_NOTHING_BUT_TENSORS)
            return Method(owner, name) if is_method or owner.origin == "shape" else Plain(None, owner.origin)
        if isinstance(owner, Sequence):
            if name in ("values", "indices") and owner.kind == "tuple" and owner.items and len(owner.items) == 2:
                return owner.items[0 if name == "values" else 1]
            tensors = owner.kind == "tuple" and owner.items and all(map(tensor_of, owner.items))
            of_others = hasattr(tuple, name) or self.engine.operations.tables.tensor_attribute(name) is not None
            if tensors and owner.items and not of_others:
                # what operations give has names: `torch.linalg.eigh(x).eigenvalues`
                return join(*owner.items)
            return Method(owner, name)
        if isinstance(owner, Const) and name in ("value", "name"):  # of a member of an enum
            if name == "value":
                return Const(owner.value)
            return Const(owner.member) if owner.member else Plain("str")
        if isinstance(owner, Const) and owner.enum is not None:
            defined = self.engine.classes.mro(owner.enum.info).functions(name)
            if defined:
                return self._bind(defined, owner, owner.enum.info, frame)
        if isinstance(owner, (Mapping, Const)):
            if isinstance(owner, Mapping):
                for key, value in owner.entries:
                    if key == name and name not in ("keys", "values", "items", "get", "pop", "update", "copy"):
                        return value  # attribute access of ModelOutput-like dicts
            return Method(owner, name)
        if isinstance(owner, Function):
            if name == "__code__":
                return owner
            if name == "co_varnames":
                if self.engine.replay is not None:
                    self.engine.replay.read(owner.info)
                return Sequence("tuple", tuple(map(Const, local_names(owner.info))), UNKNOWN)
            return Const(owner.info.name) if name == "__name__" else UNKNOWN
        if isinstance(owner, Partial):
            if K.is_property(owner) and name in K.OF_PROPERTIES:
                return Method(owner, name)
            return owner.function if name == "func" else UNKNOWN
        if isinstance(owner, Unknown):
            if name == "shape":
                return K.SHAPE
            if name in ("dtype", "device", "ndim", "is_cuda", "requires_grad"):
                return Plain("device" if name == "device" else None)
            return Method(owner, name)
        return UNKNOWN

    def _statistic(self, owner: Value, name: str, found: Value) -> Value | None:
        """Return the value of a distribution attribute that no class with source has: it is a property of torch."""
        if not isinstance(owner, Instance) or not isinstance(found, Method):
            return None
        if name in K.DISTRIBUTION_METHODS or (name.startswith("_") and name != "_validate_args"):
            return None
        bases = (b for b in self.engine.classes.mro(owner.cls).external if b.startswith("torch.distributions."))
        base = next(bases, None)
        given = UNKNOWN if base is None else K.distribution_attribute(ExternalInstance(base), name)
        return None if given == UNKNOWN else given

    def _is_left_unresolved(self, owner: Super, name: str, found: Value) -> bool:
        """Return whether Dynamo does not look up an attribute that is read by `super()` unless it is called."""
        if not isinstance(owner.instance, Instance):
            return False
        mro = self.engine.classes.mro(owner.instance.cls)
        defined = mro.functions(name, owner.after)
        if defined:
            return _method_kind(defined[0]) == "property"
        return mro.holder(name, owner.after) is not None and isinstance(found, (Mapping, Class))

    def _is_left_of_function(self, owner: Class, name: str) -> bool:
        """Return whether Dynamo does not look up a value read from a class of `torch.autograd.Function`: all but
        methods."""
        mro = self.engine.classes.mro(owner.info)
        if "torch.autograd.Function" not in mro.external:
            return False
        return not mro.functions(name) and (mro.holder(name) is not None or name in OF_CLASSES)

    def _subclass_attribute(
        self, owner: Tensor, name: str, frame: Frame, after: ClassInfo | None = None
    ) -> Value | None:
        """Return the attribute that a user-defined tensor class adds; None if any tensor has it."""
        if owner.subclass is None:
            return None
        mro = self.engine.classes.mro(owner.subclass)
        defined = mro.functions(name, after)
        if defined:
            return self._bind(defined, owner, owner.subclass, frame)
        holder = mro.holder(name, after)
        if holder is not None:
            return self.engine.classes.class_attribute(holder, name, owner)
        return self._container_assigned(mro, name) if name in self.engine.classes.assigned_attributes(mro) else None

    def _container_assigned(self, mro: Mro, name: str) -> Value | None:
        """Return an attribute that methods assign a literal dict or list: its contents are unknown."""
        functions = (f for cls in mro.classes for found in cls.functions.values() for f in found)
        found: list[Value] = []
        for info in functions:
            for node in info.nodes if name in info.attributes[0] else ():
                targets = node.targets if isinstance(node, ast.Assign) else ()
                if any(isinstance(t, ast.Attribute) and t.attr == name for t in targets):
                    assert isinstance(node, ast.Assign)
                    if isinstance(node.value, (ast.Dict, ast.DictComp)):
                        found.append(Mapping((), UNKNOWN, escaping=True))
                    elif isinstance(node.value, (ast.List, ast.ListComp)):
                        found.append(Sequence("list", None, UNKNOWN, escaping=True))
        return join(*found) if found else None

    def _parametrized_tensor(self, owner: Instance | ExternalInstance, name: str, value: Value, frame: Frame) -> Value:
        """Return a parametrized tensor of a module, made of others each time it is read."""
        made = self.engine.heap[owner].attributes.get(K.PARAMETRISED) if owner.ident else None
        steps = dict(made.entries).get(name) if isinstance(made, Mapping) else None
        if self.engine.untraced or not isinstance(steps, Sequence):
            return value
        for step in steps.items or ():
            value = self.engine.protocols.special(step, "forward", (value,), frame) or value
        return value

    def _member_attribute(self, owner: Instance | ExternalInstance, name: str) -> Value | None:
        """Return a member of a container, which is an attribute of it too: `self.parts.first`."""
        members = self.engine.containers.container_members(owner)
        value = dict(members.entries).get(name) if isinstance(members, Mapping) else None
        modules = [v for v in options(value) if self.engine.classes.is_module(v)] if value is not None else []
        return join(*modules) if modules else None

    def _training(self) -> Value:
        return Plain("bool") if self.engine.training is None else Const(self.engine.training)

    def member(self, owner: Value, name: str, frame: Frame, after: ClassInfo | None = None) -> Value:
        """Return an attribute of an object of a class with source; `after` starts behind that class (super)."""
        if not isinstance(owner, Instance):
            return UNKNOWN
        mro = self.engine.classes.mro(owner.cls)
        thing = self.engine.heap[owner]
        if not thing.made:
            thing.made = True
            self._make(owner, mro)
        typed = self._typed_by_table(mro, name) if thing.symbolic else None
        if typed is not None:
            return typed
        if after is None and name in thing.attributes:
            value = self._parametrized_tensor(owner, name, thing.attributes[name], frame)
            changed = (
                self.engine.classes.reassigned_attributes(mro).get(name)
                if thing.escaping and not thing.symbolic
                else None
            )
            usual = likely(value)
            if changed is False and isinstance(usual, Const) and isinstance(usual.value, (bool, NoneType)):
                # a switch, or what is there unless it is given; a number may count something
                return prefer(value, self._set_later(owner, mro, name, value)) if isinstance(value, Const) else value
            if changed and isinstance(usual, Const) and isinstance(usual.value, (bool, NoneType, str)):
                # the first call finds what the constructor has set
                return prefer(usual, join(whole(value), self._set_later(owner, mro, name, usual)))
            if changed is not None:
                value = whole(value)
                if isinstance(value, Const):
                    value = join(value, self._set_later(owner, mro, name, value))
            if thing.symbolic and isinstance(value, Const):
                return prefer(value, _vague(value))
            return escaped(value) if thing.escaping else value
        if name == "training" and mro.is_module:
            return self._training()
        if name == "__class__":
            return Class(owner.cls, thing.closure)
        if name == "__dict__":
            attributes = (*thing.attributes.items(),)
            open_ended = mro.is_module or thing.symbolic or bool(thing.dynamic)
            return Mapping(attributes, UNKNOWN if open_ended else None, thing.escaping)
        if name in PATCHED:
            replaced = self.engine.classes.replacement(mro, name, after)
            if replaced is not None:
                return replaced.bound_to(owner)
        defined = mro.functions(name, after)
        below = self._attribute_of_derived(owner, name, frame) if thing.symbolic and after is None else None
        if below is not None:
            return below
        if defined:
            return self._bind(defined, owner, owner.cls, frame)
        holder = mro.holder(name, after)
        if holder is not None:
            value = self.engine.protocols.read_descriptor(
                self.engine.classes.class_attribute(holder, name, owner), owner, name, frame
            )
            if not thing.symbolic or not isinstance(value, Const):
                return value
            annotation = holder.annotated.get(name)
            other = _vague(value)
            if value == NONE and annotation is not None:
                other = self.engine.annotations.annotation(annotation, holder.module, sure=False)
            return join(value, other) if name in self.engine.classes.assigned_attributes(mro) else prefer(value, other)
        if mro.container and name == "_parameters":
            return Method(owner, name)
        member_value = self._member_attribute(owner, name) if mro.container and after is None else None
        if member_value is not None:
            return member_value
        if mro.is_module and name == "_modules":
            return self.engine.containers.children(owner)
        if mro.is_module and name in ("_parameters", "_buffers"):
            leaves = ((n, v) for n, v in thing.attributes.items() if _is_leaf(v))
            return Mapping(tuple(leaves), None, thing.escaping)
        of_every = constructors.common_attribute(self.engine, name) if mro.is_module else None
        if of_every is not None:
            return of_every
        if mro.is_module:
            if name in K.MODULE_TENSORS and mro.external:
                return Tensor("float", leaf=True)
            if K.module_method(name, owner) is not None or name in ("register_buffer", "add_module", "register_module"):
                return Method(owner, name)
        if after is not None or name in ("__init__", "forward", "__call__"):
            return Method(owner, name)
        if thing.dynamic:
            fitting = [v for known, v in thing.dynamic.items() if known != ANY_NAME and re.fullmatch(known, name)]
            if fitting:
                return escaped(join(*fitting)) if thing.escaping else join(*fitting)
        getter = mro.functions("__getattr__")
        if getter and name != "__getattr__":
            return self.engine.functions.invoke(Function(getter[0], owner), (Const(name),), {}, frame)
        annotated = next((c.annotated[name] for c in mro.classes if name in c.annotated), None)
        if annotated is not None:
            return self.engine.annotations.annotation(annotated, owner.cls.module, sure=False)
        if mro.is_dictionary and not hasattr(dict, name):
            return self._dict_attribute(owner, name)
        unnamed = thing.dynamic.get(ANY_NAME, NONE)
        if PLAIN_BASES.issuperset(mro.external) and any(
            isinstance(v, Tensor) or self.engine.classes.is_module(v) for v in options(unnamed)
        ):
            return unnamed  # values set under names that the source does not decide
        if mro.external and mro.external != ("object",):
            statistic = self._statistic(owner, name, Method(owner, name))
            return Method(owner, name) if statistic is None else statistic
        return UNKNOWN

    def read_by(self, owner: Instance, name: str) -> str:
        """Return the Python code that finds the attribute: the method that a class of dicts has for `__getattr__`, or a
        cached property without a value yet."""
        mro = self.engine.classes.mro(owner.cls)
        if self._is_cached(mro, name):
            return "" if name in self.engine.heap[owner].attributes else K.CACHED_PROPERTY
        if not mro.is_dictionary or hasattr(dict, name):
            return ""
        thing, holder = self.engine.heap[owner], mro.holder("__getattr__")
        if holder is None or mro.functions(name) or mro.holder(name) or not (thing.escaping or thing.symbolic):
            return ""
        found = self.engine.classes.class_attribute(holder, "__getattr__", owner)
        return found.name if isinstance(found, External) else ""

    def _is_cached(self, mro: Mro, name: str) -> bool:
        """Return whether the attribute is a cached property."""
        for info in mro.functions(name)[:1]:
            for decorator in info.decorators:
                if ast.unparse(decorator).endswith("cached_property"):
                    found = self.engine.expressions.peek(decorator, self.engine.names.module_frame(info.module))
                    return found == External(K.CACHED_PROPERTY)
        return False

    def _set_later(self, owner: Instance, mro: Mro, name: str, value: Const) -> Value:
        """Return the possible values if a constant is only the default: of None, the results of the methods that set the
        attribute."""
        if value != NONE:
            return _vague(value)
        key = owner.cls, name
        if key not in self._later:
            self._later[key] = UNKNOWN  # who makes it may ask for it
            self._later[key] = self._made_later(owner, mro, name)
        return self._later[key]

    def _made_later(self, owner: Instance, mro: Mro, name: str) -> Value:
        """Return the join of the values that methods other than `__init__` assign to an attribute, evaluated by
        itself."""
        found: list[Value] = []
        methods = (f for cls in mro.classes for named, fs in cls.functions.items() for f in fs if named != "__init__")
        for info in methods:
            if name not in info.attributes[0] or not positional(info.node.args):
                continue
            if self.engine.replay is not None:
                self.engine.replay.read(info)
            first = positional(info.node.args)[0][0].arg
            for node in info.nodes:
                if isinstance(node, ast.Assign) and any(_is_attribute(t, first, name) for t in node.targets):
                    frame = Frame(info.module, info, -1, {first: owner}, depth=ASSUMED_DEPTH)
                    with self.engine.outside_trace():
                        made = self.engine.expressions.eval(_written_for(node.value, info), frame)
                    found += (v for v in options(made) if not isinstance(v, (Const, Plain)))
        return join(*found) if found else UNKNOWN

    def _attribute_of_derived(self, owner: Instance, name: str, frame: Frame) -> Value | None:
        """Return the value of a name in the classes that derive from an argument's annotated one, if it leaves the name
        to them; None if it does not, or if they are many."""
        mro = self.engine.classes.mro(owner.cls)
        defined = mro.functions(name)
        left = all(map(_is_left_to_others, defined)) if defined else self._lacks(owner, mro, name)
        if not left:
            return None
        found = [c for c in self.engine.objects.derived_classes(owner.cls) if self._gives(c, name)]
        found = [c for c in found if not {*self.engine.classes.mro(c).classes[1:]} & {*found}]
        if not 0 < len(found) <= MAX_DERIVING:
            return None
        return join(*(self.member(self.engine.annotations.symbolic_instance(c), name, frame) for c in found))

    def _lacks(self, owner: Instance, mro: Mro, name: str) -> bool:
        """Return whether nothing in a class says what an attribute is that no method sets."""
        inherited = hasattr(object, name) or not PLAIN_BASES.issuperset(mro.external)
        of_modules = mro.is_module and name != "forward" and K.module_method(name, owner) is not None
        return not (inherited or of_modules or name.startswith("__") or mro.holder(name) is not None)

    def _gives(self, cls: ClassInfo, name: str) -> bool:
        """Return whether a class has a method or an attribute of that name, and leaves it to no other."""
        mro = self.engine.classes.mro(cls)
        defined = mro.functions(name)
        if defined:
            return not all(map(_is_left_to_others, defined))
        return mro.holder(name) is not None or name in self.engine.classes.assigned_attributes(mro)

    def _dict_attribute(self, owner: Instance, name: str) -> Value:
        """Return an attribute of a dict-like object that is as often as not one of its keys."""
        members = self.engine.containers.container_members(owner)
        assert isinstance(members, Mapping)
        found = dict(members.entries).get(name, members.element)
        return UNKNOWN if found is None else found

    def _make(self, owner: Instance, mro: Mro) -> None:
        """Run what a class does when it is called without arguments, if that is possible; a module is made with
        arguments nobody knows."""
        if mro.is_module or mro.container:
            self.engine.objects.initialise(owner, Frame(owner.cls.module, None, -1, {}, depth=ASSUMED_DEPTH))
            return
        for name in ("__init__", "__post_init__"):
            for info in mro.functions(name)[:1]:
                given = self._required_arguments(info)
                with self.engine.outside_trace():
                    frame = self.engine.names.module_frame(info.module)
                    self.engine.functions.invoke(Function(info, owner), (), given, frame)

    def _required_arguments(self, info: FunctionInfo) -> dict[str, Value]:
        """Return the arguments that a method needs, as far as annotations say. An object that compiled code uses first
        came in with the inputs; one used during construction holds settings."""
        spec = info.node.args
        needed = [arg for arg, default in positional(spec)[1:] if default is None]
        needed += [a for a, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if default is None]
        other = UNKNOWN if self.engine.untraced else TAINTED
        declared = ((a.arg, self.engine.annotations.annotation(a.annotation, info.module, sure=False)) for a in needed)
        return {name: other if isinstance(value, Unknown) else value for name, value in declared}

    def _typed_by_table(self, mro: Mro, name: str) -> Value | None:
        """Return an attribute with its class in a table of the class body: `parts = {"vision": VisionConfig}`, or is
        named in the table: `{"vision": Part(kind="vit")}` beside a class with `kind = "vit"`."""
        for cls in mro.classes:
            for table in cls.assigned.values():
                if not isinstance(table, ast.Dict):
                    continue
                for key, item in zip(table.keys, table.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == name:
                        found = self._class_of(item, cls)
                        if found is not None:
                            return self.engine.annotations.symbolic_instance(found)
        return None

    def _class_of(self, item: ast.expr, cls: ClassInfo) -> ClassInfo | None:
        if isinstance(item, ast.Name):
            value = self.engine.expressions.peek(item, self.engine.names.module_frame(cls.module))
            return value.info if isinstance(value, Class) else None
        for word in item.keywords if isinstance(item, ast.Call) else ():
            if word.arg in cls.assigned and isinstance(word.value, ast.Constant):
                found = class_known_as(word.arg, str(word.value.value), cls, self.engine)
                if found is not None:
                    return found
        return None

    def _bind(
        self, defined: list[FunctionInfo], owner: Instance | Tensor | Const, cls: ClassInfo, frame: Frame
    ) -> Value:
        kind = _method_kind(defined[0])
        if kind == "property":
            value = self.engine.functions.invoke(Function(defined[0], owner), (), {}, frame)
            if isinstance(owner, Instance) and self._is_cached(self.engine.classes.mro(cls), defined[0].name):
                self.engine.heap[owner].update(defined[0].name, value, strong=True)
            return value
        values: list[Value] = []
        for info in defined if kind == "plain" else defined[:1]:
            for value in options(
                self.engine.functions.apply_decorators(info, self.engine.names.module_frame(info.module))
            ):
                if isinstance(value, Function) and kind != "static":
                    closure = self.engine.heap[owner].closure if isinstance(owner, Instance) else 0
                    bound: Value = Class(cls, closure) if kind == "class" else owner
                    values.append(value.bound_to(bound))
                elif isinstance(owner, Instance):
                    values.append(self.engine.protocols.read_descriptor(value, owner, info.name, frame))
                else:
                    values.append(value)
        return join(*values)

    def class_member(self, owner: Class, name: str, frame: Frame, after: ClassInfo | None = None) -> Value:
        """`Class.name`; `after` starts behind that class (super)."""
        mro = self.engine.classes.mro(owner.info)
        defined = mro.functions(name, after)
        if defined:
            kind = _method_kind(defined[0])
            value = self.engine.functions.apply_decorators(
                defined[0], self.engine.names.module_frame(defined[0].module)
            )
            if isinstance(value, Function) and kind == "class":
                return value.bound_to(owner)
            local = owner.closure and defined[0].owner is owner.info
            if isinstance(value, Function) and local and not value.closure:
                return dataclasses.replace(value, closure=owner.closure)
            return value
        holder = mro.holder(name, after)
        if self.engine.switched:
            for above in mro.classes:
                for cls, switch, value in self.engine.switched:
                    if cls is above and switch == name:
                        return value
        if holder is not None:
            value = self.engine.protocols.read_descriptor(
                self.engine.classes.class_attribute(holder, name, None), owner, name, frame
            )
            if self.engine.records.is_enum(mro) and not name.startswith("_"):
                return self.engine.records.enum_member(owner, name, value)
            if isinstance(value, Const) and name in self.engine.classes.assigned_attributes(mro):
                return prefer(value, _vague(value))  # it may be set before the call
            return value
        if name in ("__name__", "__qualname__"):
            return Const(owner.info.name)
        if name in ("__module__", "__doc__"):
            return Plain("str")
        if name == "__subclasses__":
            return Method(owner, name)
        if name == "value":  # it is a member of an enum, represented by its value here
            return owner
        if name == "apply" and "torch.autograd.Function" in mro.external:
            return Method(owner, name)
        if mro.external:
            return Method(owner, name)
        return UNKNOWN

    def get_attribute(self, owner: Value, name: Value, default: Value | None, frame: Frame) -> Value:
        """`getattr(owner, name, default)`: the default of an attribute that nothing is known to set is likely."""
        chosen = likely(name)
        if isinstance(chosen, Choice) and all(isinstance(v, Const) for v in chosen.options):
            return join(*(self.get_attribute(owner, v, default, frame) for v in chosen.options))
        if isinstance(chosen, Const) and isinstance(chosen.value, str):
            found = self.attribute(owner, chosen.value, frame)
            seldom = isinstance(owner, Instance) and chosen.value in self.engine.heap[owner].seldom
            if default is None or not (seldom or all(map(_is_not_known, options(found)))):
                return found
        else:
            found = self._some_attribute(owner)
            if default is None:
                return found
        if isinstance(default, Const):
            return prefer(default, found)
        return join(found, default)

    def has_attribute(self, value: Value, name: str) -> Value:
        """`hasattr(value, name)`."""
        return lift(lambda each: join_answers(self._has_attribute(option, name) for option in options(each)), value)

    def _has_attribute(self, value: Value, name: str) -> Value:
        if isinstance(value, Tensor) and value.subclass is None:
            own = self.engine.operations.is_of_tensors(name)
            return Const(True) if own and value.sure else prefer(Const(own), Plain("bool", "call"))
        if isinstance(value, Const) and value.enum is None:
            return Const(hasattr(value.value, name))
        if isinstance(value, External) and self.engine.operations.is_known(f"{value.name}.{name}"):
            return Const(True)
        if K.is_property(value) and hasattr(property, name):
            return Const(True)
        if isinstance(value, Instance):
            mro = self.engine.classes.mro(value.cls)
            if name in self.engine.heap[value].seldom:
                return prefer(Const(False), Plain("bool"))
            if name in self.engine.heap[value].attributes or mro.functions(name) or mro.holder(name):
                if name not in self.engine.heap[value].attributes:
                    return Const(True)
                return prefer(Const(True), Plain("bool")) if _is_always_set(mro, name) else Plain("bool")
            if self.engine.heap[value].named_like(re.escape(name)):
                return Plain("bool")
            if not self.engine.heap[value].symbolic and name not in self.engine.classes.assigned_attributes(mro):
                return prefer(Const(False), Plain("bool"))  # nothing in sight gives it that
        return Plain("bool")

    def _some_attribute(self, owner: Value) -> Value:
        """Return `getattr(self, name)` with a name only known at run time: any of its modules; those set under such a
        name, if there are any."""
        modules: list[Value] = []
        for option in options(owner):
            if isinstance(option, Instance):
                thing = self.engine.heap[option]
                attributes = thing.dynamic if ANY_NAME in thing.dynamic else thing.attributes
                modules.extend(
                    v for v in attributes.values() if any(self.engine.classes.is_module(o) for o in options(v))
                )
        return join(*modules) if modules else UNKNOWN


def _is_always_set(mro: Mro, name: str) -> bool:
    """Return whether the source of a constructor sets the attribute for all arguments."""
    for info in mro.functions("__init__"):
        for statement in [] if isinstance(info.node, ast.Lambda) else info.node.body:
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            if isinstance(statement, ast.AnnAssign) and statement.value is not None:
                targets = [statement.target]
            if any(isinstance(t, ast.Attribute) and _is_attribute(t, "self", name) for t in targets):
                return True
    return False


def _is_attribute(node: ast.expr, owner: str, name: str) -> bool:
    """Return whether it is `owner.name`."""
    return isinstance(node, ast.Attribute) and node.attr == name and narrowing_key(node) == f"{owner}.{name}"


def _written_for(value: ast.expr, info: FunctionInfo) -> ast.expr:
    """Return the expression assigned to a name that a function assigns once; anything else unchanged."""
    if not isinstance(value, ast.Name):
        return value
    given = [
        node.value
        for node in info.nodes
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == value.id for t in node.targets)
    ]
    return given[0] if len(given) == 1 else value


def _is_not_known(value: Value) -> bool:
    """Return whether nothing is known of an attribute: it may be missing."""
    return isinstance(value, (Unknown, Method)) or (isinstance(value, Plain) and value.kind is None)


def _is_left_to_others(info: FunctionInfo) -> bool:
    """Return whether it is an abstract method, or one that only raises NotImplementedError."""
    if any(ast.unparse(d).rpartition(".")[2] in ABSTRACT for d in info.decorators):
        return True
    body = info.node.body if isinstance(info.node.body, list) else []
    rest = [n for n in body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
    if len(rest) != 1 or not isinstance(rest[0], ast.Raise) or rest[0].exc is None:
        return False
    raised = rest[0].exc.func if isinstance(rest[0].exc, ast.Call) else rest[0].exc
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"


def _is_leaf(value: Value) -> bool:
    """Return whether it is a parameter or a buffer."""
    tensor = tensor_of(value)
    return tensor is not None and tensor.leaf


def _array_attribute(array: ExternalInstance | Plain, name: str) -> Value:
    """Return an attribute of a numpy array that is made while Dynamo traces."""
    if name == "shape":
        return K.SHAPE
    if name in K.ARRAY_SIZES:
        return Plain("int")
    if name == "dtype":
        return Plain("dtype")
    return array if name in ("T", "mT", "real", "imag") else Method(array, name)


def _method_kind(info: FunctionInfo) -> str:
    for decorator in info.decorators:
        name = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator).rpartition(".")[2]
        if name in ("property", "cached_property", "getter"):
            return "property"
        if name == "staticmethod":
            return "static"
        if name == "classmethod":
            return "class"
    return "plain"


def _vague(value: Const) -> Value:
    """Return the possible values if a constant is only the default."""
    return UNKNOWN if value == NONE else Plain(type(value.value).__name__)


def local_names(info: FunctionInfo) -> tuple[str, ...]:
    """Return the parameters of a function and the names it assigns: CPython's `co_varnames`, nearly in order."""
    spec = info.node.args
    named = [a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
    named += [a.arg for a in (spec.vararg, spec.kwarg) if a is not None]
    stored = (n.id for n in info.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return tuple(dict.fromkeys((*named, *stored)))


def _class_name_attribute(dotted: str, name: str) -> Value:
    """`__name__` or `__module__` of a class of a library: `torch.Tensor.__module__` is `torch`."""
    module, _, last = K.public_name(dotted).rpartition(".")
    if name == "__module__":
        return Const(module) if dotted == "torch.Tensor" else Plain("str")
    return Const(last)
