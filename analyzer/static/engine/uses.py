"""Infer a parameter without other information from the functions that it is passed to.

A size, or a bound of a slice, is a whole number: nobody passes a tensor where torch and Python would have to read it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tcready.static.engine.contract import Engine
from tcready.static.engine.scope import positional
from tcready.static.engine.values import (
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
from tcready.static.index import FunctionInfo, Import

NUMBER = Plain("int", "call")
ASKED = Tensor(sure=False, given=True)
"""Stands for the parameter, as a tensor."""
ROUNDING = frozenset({"numpy.ceil", "numpy.floor", "numpy.trunc"})
FOLLOWED = 3
"""How many modules deep a parameter is followed that is handed on."""


class Uses:
    """What parameters are by what is done with them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def number(
        self, name: str, info: FunctionInfo, owner: Value | None, depth: int = FOLLOWED
    ) -> Value | None:
        """The whole number that a parameter of a method of `owner` is by its uses, or the row of them that it is unpacked
        into, here or in the modules that it is handed on to; None if they do not say so."""
        uses = _before_it_is_set(name, info)
        if _is_asked(name, uses):
            return None
        parts = _unpacked(name, uses) or _picked(name, uses)
        if not parts and self._is_size(name, uses, info):
            return NUMBER
        if parts and not any(_is_asked(part, info.nodes) for part in parts):
            if any(self._is_size(part, info.nodes, info) for part in parts):
                return Sequence("tuple", (NUMBER,) * len(parts), UNKNOWN)
        return self._number_elsewhere(name, uses, info, owner, depth) if depth else None

    def _number_elsewhere(
        self, name: str, uses: Iterable[ast.AST], info: FunctionInfo, owner: Value | None, depth: int
    ) -> Value | None:
        for call in uses:
            places = (
                [n for n, arg in enumerate(call.args) if is_named(arg, name)]
                if isinstance(call, ast.Call)
                else []
            )
            if places and isinstance(call, ast.Call):
                for function, taken, whose in self.called(call.func, info, owner):
                    for place in places:
                        found = (
                            self.number(taken[place], function, whose, depth - 1)
                            if place < len(taken)
                            else None
                        )
                        if found is not None:
                            return found
        return None

    def called(
        self, function: ast.expr, info: FunctionInfo, owner: Value | None, *, imported: bool = False
    ) -> Iterator[tuple[FunctionInfo, list[str], Value | None]]:
        """What a call runs, what that takes by position, and whose method it is: of the module that `self.part(...)`
        calls, or `part(...)` in a loop over `self.parts`, or a function of the file, or an `imported` one if asked."""
        place: ast.AST = function
        if isinstance(function, ast.Name):
            for binding in info.module.bindings.get(function.id, ()):
                if isinstance(binding, FunctionInfo):
                    yield binding, [arg.arg for arg, _ in positional(binding.node.args)], None
                elif imported and isinstance(binding, Import):
                    with self._engine.quietly():
                        value = self._engine.imported(binding, info.module)
                    if isinstance(value, Function):
                        yield value.info, [arg.arg for arg, _ in positional(value.info.node.args)], None
            loops = (node for node in info.nodes if isinstance(node, ast.For))
            place = next((loop.iter for loop in loops if is_named(loop.target, function.id)), function)
        own = positional(info.node.args)[:1]
        if owner is None or not own or not isinstance(place, ast.Attribute):
            return
        if not is_named(place.value, own[0][0].arg):
            return
        with self._engine.quietly():
            held = self._engine.member(owner, place.attr, self._engine.module_frame(info.module))
            members = self._engine.container_members(held) if place is not function else held
        for value in members_of(members) if isinstance(members, Sequence) else [members or UNKNOWN]:
            for module in options(value):
                if isinstance(module, Function) and module.bound is not None:  # `self.method`
                    yield module.info, [arg.arg for arg, _ in positional(module.info.node.args)[1:]], owner
                forwards = (
                    self._engine.mro(module.cls).functions("forward") if isinstance(module, Instance) else []
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
        """Whether a call of torch is given it where that takes numbers, or one of `math` or `range`."""
        if not any(_holds(arg, name) for arg in call.args):
            return False
        operation = self._operation(call.func, info)
        if operation == "range" or operation in ROUNDING or operation.startswith("math."):
            return True
        given = [_reading(arg, name) for arg in call.args]
        of_tensors = operation.startswith("torch.Tensor.")
        readings = [[Tensor(), *given]] if of_tensors else [given, [Tensor(), *given[1:]]]
        return any(
            value == ASKED
            for reading in readings
            for value in self._engine.operations.read_as_numbers(operation, tuple(reading), {})
        )

    def _operation(self, function: ast.expr, info: FunctionInfo) -> str:
        """The name of what is called; what is asked of no module is asked of a tensor."""
        root = function
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id in info.module.bindings and not _is_local(root.id, info):
            with self._engine.quietly():
                value = self._engine.eval(function, self._engine.module_frame(info.module))
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


def _reading(node: ast.expr, name: str) -> Value:
    """An argument as it would be if the parameter were a tensor and all else numbers."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return Sequence("tuple", tuple(_reading(member, name) for member in node.elts), UNKNOWN)
    return ASKED if _is_made_of(node, name) else NUMBER


def _is_asked(name: str, uses: Iterable[ast.AST]) -> bool:
    """Whether something is asked of it that a number does not have."""
    return any(
        isinstance(node, (ast.Attribute, ast.Subscript))
        and is_named(node.value, name)
        and not (isinstance(node, ast.Subscript) and _is_place(node.slice))
        for node in uses
    )


def _is_local(name: str, info: FunctionInfo) -> bool:
    """A parameter or a variable of the function."""
    spec = info.node.args
    if any(arg.arg == name for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)):
        return True
    names = (node for node in info.nodes if isinstance(node, ast.Name) and node.id == name)
    return any(isinstance(node.ctx, ast.Store) for node in names)


def _before_it_is_set(name: str, info: FunctionInfo) -> list[ast.AST]:
    """The nodes of a function down to the line on which a parameter is given another value."""
    lines = (
        node.lineno
        for node in info.nodes
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    )
    end = min(lines, default=None)
    return [node for node in info.nodes if end is None or getattr(node, "lineno", end) <= end]


def _unpacked(name: str, uses: Iterable[ast.AST]) -> list[str]:
    """The variables that `height, width = size` makes of it."""
    for node in uses:
        if isinstance(node, ast.Assign) and is_named(node.value, name):
            for target in node.targets:
                names = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
                if names and all(isinstance(each, ast.Name) for each in names):
                    return [each.id for each in names if isinstance(each, ast.Name)]
    return []


def _picked(name: str, uses: Iterable[ast.AST]) -> list[str]:
    """Its items that are asked for by their place: `size[0]`, `size[1]`."""
    asked = (node for node in uses if isinstance(node, ast.Subscript) and is_named(node.value, name))
    texts = {ast.unparse(node) for node in asked if _is_place(node.slice)}
    wanted = [f"{name}[{place}]" for place in range(len(texts))]
    return wanted if {*wanted} == texts else []


def _is_place(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)
