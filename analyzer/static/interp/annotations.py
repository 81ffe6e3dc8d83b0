"""Infer values from annotations."""

from __future__ import annotations

import ast
import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Mapping as Table
from collections.abc import MutableMapping, MutableSequence
from collections.abc import Sequence as Sequential

from tcready.static.domain.scope import Frame
from tcready.static.domain.values import (
    MAX_ITEMS,
    NONE,
    UNKNOWN,
    Class,
    External,
    ExternalInstance,
    Instance,
    Mapping,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    join,
    likely,
    prefer,
    tensor_of,
)
from tcready.static.frontend import documentation
from tcready.static.frontend.index import ClassInfo, FunctionInfo, Import, ModuleInfo
from tcready.static.interp.interfaces import Component, Engine
from tcready.static.library import semantics as K  # noqa: N812
from tcready.static.library.python_classes import python_class

OF_SPARSE = "torch.sparse."
"""The module with torch's classes of sparse tensors."""
ROWS: frozenset[type] = frozenset({list, tuple, Sequential, MutableSequence})
MAPPINGS: frozenset[type] = frozenset({dict, OrderedDict, defaultdict, Table, MutableMapping})
TYPED_DICTS = frozenset({"typing.TypedDict", "typing_extensions.TypedDict"})


class Annotations(Component):
    """Annotations: what a value is that is only declared."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._documented: dict[tuple[FunctionInfo, str], Value] = {}

    def annotation(self, node: ast.expr | None, module: ModuleInfo, *, sure: bool) -> Value:
        """Return the value of a parameter or attribute annotated with `node`; unknown stays unknown."""
        with self.engine.outside_trace():
            return self._annotation(node, module, sure, 0)

    def documented_value(self, name: str, info: FunctionInfo) -> Value:
        """Return the value of a parameter according to its function's documentation; unknown if that is not stated
        plainly."""
        key = info, name
        if key not in self._documented:
            words = info.documented.get(name)
            node = documentation.as_annotation(words) if words is not None else None
            with self.engine.outside_trace():
                self._documented[key] = UNKNOWN if node is None else self._usual_type(node, info.module)
        return self._documented[key]

    def _usual_type(self, node: ast.expr, module: ModuleInfo) -> Value:
        """Return the usual meaning of a type name: `Tensor` is torch's, whatever the file binds."""
        if isinstance(node, ast.BinOp):
            return _either(self._usual_type(node.left, module), self._usual_type(node.right, module))
        if isinstance(node, (ast.Name, ast.Attribute)) and _last(node).lower() == "tensor":
            found = self._annotation(node, module, False, 0)
            return found if tensor_of(found) is not None else Tensor(sure=False)
        found = self._annotation(node, module, False, 0)
        if isinstance(found, Unknown) and isinstance(node, (ast.Name, ast.Attribute)):
            near = self.engine.objects.near_class(module, _last(node))  # who writes documentation need not import it
            return found if near is None else self._annotated_by(Class(near), False)
        return found

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
            if outer in ("Type", "type"):
                classes = self._classes(node.slice, module)
                return join(*classes) if classes else Plain()
            if outer in ("Literal", "Callable"):
                return UNKNOWN if outer == "Callable" else Plain()
            return self._annotation(node.value, module, sure, depth + 1)
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return UNKNOWN
        alias = self._alias(node.id, module) if isinstance(node, ast.Name) else None
        if alias is not None:
            return self._annotation(alias[0], alias[1], sure, depth + 1)
        return self._annotated_by(self.engine.expressions.eval(node, self.engine.names.module_frame(module)), sure)

    def _classes(self, node: ast.expr, module: ModuleInfo) -> list[Class]:
        """Return the classes of the source that a type names, each of them one that is meant; none if it names another,
        too."""
        if isinstance(node, ast.Subscript) and ast.unparse(node.value).rpartition(".")[2] in ("Union", "Optional"):
            node = node.slice
        parts = [node]
        if isinstance(node, ast.Tuple):
            parts = node.elts
        elif isinstance(node, ast.BinOp):
            parts = [node.left, node.right]
        if len(parts) > 1:
            found = [self._classes(part, module) for part in parts]
            return [cls for each in found for cls in each] if all(found) else []
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return []
        value = self.engine.expressions.eval(node, self.engine.names.module_frame(module))
        return [value] if isinstance(value, Class) and self._can_be_made(value.info) else []

    def _can_be_made(self, cls: ClassInfo) -> bool:
        """Return whether it is a class with a `forward` of its own kind, not one that only others derive from."""
        return bool(self.engine.classes.mro(cls).functions("forward"))

    def _alias(self, name: str, module: ModuleInfo, depth: int = 0) -> tuple[ast.expr, ModuleInfo] | None:
        """Return the type of a name such as `Adj = Union[Tensor, SparseTensor]`, and the module that defines it."""
        for binding in module.bindings.get(name, ()):
            if isinstance(binding, (ast.Subscript, ast.BinOp)):
                return binding, module
            if isinstance(binding, Import) and binding.name is not None and depth < 4:
                source = self.engine.program.module(binding.module)
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
                    return Tensor(K.TENSOR_CLASSES.get(last), sure, sparse=name.startswith(OF_SPARSE))
                if last in ("Size",):
                    return K.SHAPE
                if last in ("device", "dtype", "Generator"):
                    return Plain(last)
                if K.is_module_class(name):
                    return UNKNOWN if last == "Module" else ExternalInstance(name)
                if any(name == cls for cls, _ in K.FIELDS):
                    return ExternalInstance(name)
                return UNKNOWN
            if last in ("Tensor", "LongTensor", "BoolTensor", "FloatTensor") or name.startswith("jaxtyping."):
                return Tensor(None, sure)
            if name in ("int", "float", "bool", "str", "bytes", "complex", "slice", "range"):
                return Plain(name)
            cls = python_class(name)
            if cls in ROWS or name == "List":
                return Sequence("list", None, UNKNOWN)
            if cls in MAPPINGS:
                return Mapping((), UNKNOWN)
            return UNKNOWN
        if isinstance(value, Class):
            mro = self.engine.classes.mro(value.info)
            if TYPED_DICTS & {*mro.external}:
                fields = ((n, a, c.module) for c in reversed(mro.classes) for n, a in c.annotated.items())
                return Mapping(tuple({n: self.annotation(a, m, sure=sure) for n, a, m in fields}.items()), None)
            return Tensor(None, sure, subclass=value.info) if mro.is_tensor else self.symbolic_instance(value.info)
        return UNKNOWN if not isinstance(value, Tensor) else value

    def symbolic_instance(self, cls: ClassInfo) -> Instance:
        """Return an object from outside, of which only its class is known."""
        ident = self.engine.heap.ident("annotated", cls, escaping=True)
        made = Instance(ident, cls)
        if not self.engine.heap[made].symbolic:
            self.engine.heap[made].symbolic, self.engine.heap[made].made = True, False
        return made

    def instance_value(self, node: ast.expr, frame: Frame) -> Value | None:
        """Return x as narrowed by `isinstance(x, node)`; None if the class is not understood."""
        with self.engine.outside_trace():
            return self.instance_of(self.engine.expressions.eval(node, frame))

    def instance_of(self, value: Value) -> Value | None:
        """Return an object of this class, or of one of these classes; None if one of them is not understood."""
        if isinstance(value, Sequence) and value.kind == "tuple" and value.items:
            values = [self.instance_of(item) for item in value.items]
            known = [v for v in values if v is not None]
            return join(*known) if len(known) == len(values) else None
        if isinstance(value, External) and value.name.startswith("torch.nn.") and value.name.endswith("Parameter"):
            return None  # a tensor, though not every tensor is one
        found = self._annotated_by(value, sure=True)
        if isinstance(value, External) and value.name in ("list", "tuple", "set"):
            return Sequence(value.name, None, UNKNOWN)  # type: ignore[arg-type]
        return None if isinstance(found, Unknown) else found


def _last(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def _either(*values: Value) -> Value:
    """One of several types: if a tensor is among them, an object or what comes behind it is the odd case; of a tensor and
    one of the user's own class, the latter."""
    found = join(*values)
    tensor = tensor_of(found)
    if tensor is None:
        return found
    first = next(i for i, v in enumerate(values) if tensor_of(v))
    odd = (Unknown, Instance, ExternalInstance)
    behind = (*odd, Sequence, Mapping)
    usual = [v for i, v in enumerate(values) if not isinstance(v, behind if i > first else odd)]
    plain = [v for v in usual if not (isinstance(v, Tensor) and v.subclass is not None)]
    usual = plain if any(map(tensor_of, plain)) else usual
    if any(isinstance(v, Plain) for v in usual):  # a number is as usual as a tensor
        usual = [dataclasses.replace(v, sure=False) if isinstance(v, Tensor) else v for v in usual]
    return prefer(join(*map(likely, usual)), found)
