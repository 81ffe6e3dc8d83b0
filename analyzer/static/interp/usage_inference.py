"""Usage-based inference: the value of an otherwise unknown parameter, according to the calls that receive it.

A size, or a bound of a slice, is a whole number: nobody passes a tensor where torch and Python would have to read it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tcready.static.domain.scope import positional
from tcready.static.domain.values import (
    UNKNOWN,
    External,
    Function,
    Instance,
    Plain,
    Sequence,
    Tensor,
    Value,
    members_of,
    options,
)
from tcready.static.frontend.index import FunctionInfo, Import
from tcready.static.interp.interfaces import Engine

NUMBER = Plain("int", "call")
PARAMETER = Tensor(sure=False, graph_input=True)
"""The parameter, as a tensor."""
ROUNDING = frozenset({"numpy.ceil", "numpy.floor", "numpy.trunc"})
FOLLOWED = 3
"""The depth of modules through which a parameter is followed that is passed on."""


class UsageInference:
    """Infers parameters from their uses."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def number(self, name: str, info: FunctionInfo, owner: Value | None, depth: int = FOLLOWED) -> Value | None:
        """Return the whole number that a parameter of a method of `owner` is by its uses, or the row of them that it is
        unpacked into, here or in the modules that it is handed on to; None if they do not say so."""
        uses = _before_it_is_set(name, info)
        if _is_not_number(name, uses):
            return None
        parts = _unpacked_names(name, uses) or _picked_items(name, uses)
        if not parts and self._is_size(name, uses, info):
            return NUMBER
        if parts and not any(_is_not_number(part, info.nodes) for part in parts):
            if any(self._is_size(part, info.nodes, info) for part in parts):
                return Sequence("tuple", (NUMBER,) * len(parts), UNKNOWN)
        return self._number_elsewhere(name, uses, info, owner, depth) if depth else None

    def _number_elsewhere(
        self, name: str, uses: Iterable[ast.AST], info: FunctionInfo, owner: Value | None, depth: int
    ) -> Value | None:
        for call in uses:
            places = [n for n, arg in enumerate(call.args) if is_named(arg, name)] if isinstance(call, ast.Call) else []
            if places and isinstance(call, ast.Call):
                for function, taken, owner_node in self.called(call.func, info, owner):
                    for place in places:
                        found = (
                            self.number(taken[place], function, owner_node, depth - 1) if place < len(taken) else None
                        )
                        if found is not None:
                            return found
        return None

    def called(
        self, function: ast.expr, info: FunctionInfo, owner: Value | None, *, imported: bool = False
    ) -> Iterator[tuple[FunctionInfo, list[str], Value | None]]:
        """Return the functions that a call runs, their positional parameters, and their owner: the module of
        `self.part(...)`, or of `part(...)` in a loop over `self.parts`, or for a function of the file, or an `imported`
        one if requested."""
        place: ast.AST = function
        if isinstance(function, ast.Name):
            for binding in info.module.bindings.get(function.id, ()):
                if isinstance(binding, FunctionInfo):
                    yield binding, [arg.arg for arg, _ in positional(binding.node.args)], None
                elif imported and isinstance(binding, Import):
                    with self._engine.outside_trace():
                        value = self._engine.names.resolve_import(binding, info.module)
                    if isinstance(value, Function):
                        yield value.info, [arg.arg for arg, _ in positional(value.info.node.args)], None
            loops = (node for node in info.nodes if isinstance(node, ast.For))
            place = next((loop.iter for loop in loops if is_named(loop.target, function.id)), function)
        own = positional(info.node.args)[:1]
        if owner is None or not own or not isinstance(place, ast.Attribute):
            return
        if not is_named(place.value, own[0][0].arg):
            return
        with self._engine.outside_trace():
            member = self._engine.attributes.member(owner, place.attr, self._engine.names.module_frame(info.module))
            members = self._engine.containers.container_members(member) if place is not function else member
        for value in members_of(members) if isinstance(members, Sequence) else [members or UNKNOWN]:
            for module in options(value):
                if isinstance(module, Function) and module.bound is not None:  # `self.method`
                    yield module.info, [arg.arg for arg, _ in positional(module.info.node.args)[1:]], owner
                forwards = (
                    self._engine.classes.mro(module.cls).functions("forward") if isinstance(module, Instance) else []
                )
                for forward in forwards[:1]:
                    yield forward, [arg.arg for arg, _ in positional(forward.node.args)[1:]], module

    def _is_size(self, name: str, uses: Iterable[ast.AST], info: FunctionInfo) -> bool:
        for node in uses:
            if isinstance(node, ast.Slice):
                if any(b is not None and _is_made_of(b, name) for b in (node.lower, node.upper)):
                    return True
            elif isinstance(node, ast.Subscript):
                shape = isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
                if shape and _is_made_of(node.slice, name):
                    return True
            elif isinstance(node, ast.Call) and self._takes_number(node, name, info):
                return True
        return False

    def _takes_number(self, call: ast.Call, name: str, info: FunctionInfo) -> bool:
        """Return whether it is an argument of a call of torch that takes numbers there, or of `math` or `range`."""
        if not any(_holds(arg, name) for arg in call.args):
            return False
        operation = self._operation(call.func, info)
        if operation == "range" or operation in ROUNDING or operation.startswith("math."):
            return True
        given = [_as_reading(arg, name) for arg in call.args]
        of_tensors = operation.startswith("torch.Tensor.")
        readings = [[Tensor(), *given]] if of_tensors else [given, [Tensor(), *given[1:]]]
        return any(
            value == PARAMETER
            for reading in readings
            for value in self._engine.operations.read_as_numbers(operation, tuple(reading), {})
        )

    def _operation(self, function: ast.expr, info: FunctionInfo) -> str:
        """Return the name of the callee; a method of no module is one of a tensor."""
        root = function
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id in info.module.bindings and not _is_local(root.id, info):
            with self._engine.outside_trace():
                value = self._engine.expressions.eval(function, self._engine.names.module_frame(info.module))
            return value.name if isinstance(value, External) else ""
        if isinstance(function, ast.Name):
            return function.id
        return f"torch.Tensor.{function.attr}" if isinstance(function, ast.Attribute) else ""


def is_named(node: ast.AST, name: str) -> bool:
    """The variable, or an item of one by its place, as `size[0]`."""
    while isinstance(node, ast.Subscript) and name.endswith("]"):
        name, _, place = name[:-1].rpartition("[")
        if not _is_place(node.slice) or ast.unparse(node.slice) != place:
            return False
        node = node.value
    return isinstance(node, ast.Name) and node.id == name


def _is_made_of(node: ast.expr, name: str) -> bool:
    """It itself, or a size that is made of it."""
    if isinstance(node, ast.BinOp):
        return _is_made_of(node.left, name) or _is_made_of(node.right, name)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _is_made_of(node.operand, name)
    return is_named(node, name)


def _holds(node: ast.expr, name: str) -> bool:
    members = node.elts if isinstance(node, (ast.Tuple, ast.List)) else (node,)
    return any(_is_made_of(member, name) for member in members)


def _as_reading(node: ast.expr, name: str) -> Value:
    """Return an argument as it would be if the parameter were a tensor and all else numbers."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return Sequence("tuple", tuple(_as_reading(member, name) for member in node.elts), UNKNOWN)
    return PARAMETER if _is_made_of(node, name) else NUMBER


def _is_not_number(name: str, uses: Iterable[ast.AST]) -> bool:
    """Return whether it is used in a way that a number does not allow."""
    return any(
        isinstance(node, (ast.Attribute, ast.Subscript))
        and is_named(node.value, name)
        and not (isinstance(node, ast.Subscript) and _is_place(node.slice))
        for node in uses
    )


def _is_local(name: str, info: FunctionInfo) -> bool:
    """Return whether it is a parameter or a variable of the function."""
    spec = info.node.args
    if any(arg.arg == name for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)):
        return True
    names = (node for node in info.nodes if isinstance(node, ast.Name) and node.id == name)
    return any(isinstance(node.ctx, ast.Store) for node in names)


def _before_it_is_set(name: str, info: FunctionInfo) -> list[ast.AST]:
    """Return the nodes of a function down to the line on which a parameter is given another value."""
    lines = (
        node.lineno
        for node in info.nodes
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    )
    end = min(lines, default=None)
    return [node for node in info.nodes if end is None or getattr(node, "lineno", end) <= end]


def _unpacked_names(name: str, uses: Iterable[ast.AST]) -> list[str]:
    """Return the variables that `height, width = size` makes of it."""
    for node in uses:
        if isinstance(node, ast.Assign) and is_named(node.value, name):
            for target in node.targets:
                names = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
                if names and all(isinstance(each, ast.Name) for each in names):
                    return [each.id for each in names if isinstance(each, ast.Name)]
    return []


def _picked_items(name: str, uses: Iterable[ast.AST]) -> list[str]:
    """Return its items that are read by position: `size[0]`, `size[1]`."""
    items = (node for node in uses if isinstance(node, ast.Subscript) and is_named(node.value, name))
    texts = {ast.unparse(node) for node in items if _is_place(node.slice)}
    wanted = [f"{name}[{place}]" for place in range(len(texts))]
    return wanted if {*wanted} == texts else []


def _is_place(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)
