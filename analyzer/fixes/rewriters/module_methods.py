"""Distinguish tensors from modules: `float`, `cpu` and others return another tensor, but change a module in place."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import libcst as cst
from tcready.fixes.rewriters.conditions import walk
from tcready.fixes.rewriters.hidden_effects import OF_MODULES, PURE, PURE_METHODS
from tcready.fixes.rewriters.statements import full_name, imported_names, text

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located
    from tcready.static.frontend.source import Source

CHANGES = "`{}` changes its object in place if that is a module"
CALLED = "`{}` may be a module or a stored function, and compiled code would not call it"
OF_TEXTS = frozenset("format join keys values items isEnabledFor".split())
OF_TENSORS = frozenset("T bias data grad imag mT real weight".split())
"""Attributes that are tensors, unless the file assigns the name."""
NOT_TENSORS = frozenset("torch.compile torch.load".split())


def changes_module(place: Located, *nodes: cst.CSTNode) -> str | None:
    """Return why a method that is called there may change a module, which is stored, or call one."""
    for each in (inner for node in nodes for inner in walk(node)):
        if not isinstance(each, cst.Call) or not isinstance(each.func, cst.Attribute):
            continue
        owner = each.func.value
        if each.func.attr.value in OF_MODULES and not _is_no_module(place, owner):
            return CHANGES.format(text(each.func))
        if _may_be_called(place, each, each.func):
            return CALLED.format(text(each.func))
    return None


def _may_be_called(place: Located, call: cst.Call, func: cst.Attribute) -> bool:
    """Return True if an attribute with the name of a tensor's method may be a module: `self.norm(x)`,
    `block.norm(x)`."""
    if text(func.value) in ("self", "cls"):
        return func.attr.value not in place.source.derive(_functions)
    root = func.value
    while isinstance(root, cst.Attribute):
        root = root.value
    is_imported = isinstance(root, cst.Name) and root.value in place.source.derive(_imported)
    if func.attr.value in OF_TEXTS or is_imported:
        return False
    # A method of a tensor takes numbers there, a module takes tensors.
    given = any(not isinstance(arg.value, (cst.BaseNumber, cst.UnaryOperation, cst.Tuple)) for arg in call.args)
    return given and not _is_no_module(place, func.value)


def _is_no_module(place: Located, node: cst.BaseExpression, deep: int = 4) -> bool:
    """Return True if it is a tensor or a number according to the file."""
    if not deep:
        return False
    if isinstance(node, (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.BaseNumber)):
        return True
    if isinstance(node, cst.Subscript):
        return _is_no_module(place, node.value, deep - 1)
    if isinstance(node, cst.IfExp):
        return all(_is_no_module(place, each, deep - 1) for each in (node.body, node.orelse))
    if isinstance(node, cst.Name):
        return _is_known(place, node.value, deep)
    if isinstance(node, cst.Attribute):
        return _is_registered(place, node.attr.value)
    return isinstance(node, cst.Call) and _gives_tensor(place, node, deep)


def _gives_tensor(place: Located, call: cst.Call, deep: int) -> bool:
    made = ast.parse(f"({text(call.func)})", mode="eval").body
    if _is_of_torch(full_name(made, imported_names(place.source.nodes))):
        return True
    if isinstance(call.func, cst.Name):
        return call.func.value in PURE
    if not isinstance(call.func, cst.Attribute):
        return False
    name = call.func.attr.value
    if name in OF_MODULES:  # a module gives itself back
        return _is_no_module(place, call.func.value, deep - 1)
    if name in PURE_METHODS:
        return True
    # A module that is called: `self.head(x)`
    of_self = text(call.func.value) == "self" and bool(call.args)
    return of_self and name not in place.source.derive(_functions)


def _functions(source: Source) -> frozenset[str]:
    """Return the names of a file's functions and methods."""
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(each.name for each in source.nodes if isinstance(each, definitions))


def _imported(source: Source) -> frozenset[str]:
    """Return the names that its imports bind."""
    return frozenset(
        (alias.asname or alias.name).partition(".")[0]
        for node in source.nodes
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    )


def _is_known(place: Located, name: str, deep: int) -> bool:
    """Return True if the function assigns only tensors to a name: an argument of `forward` counts as one, as does
    any that is annotated as one."""
    found: list[bool] = []
    for node in place.piece.parents:
        if isinstance(node, cst.Assign):
            for target in node.targets:
                if isinstance(target.target, cst.Name):
                    if target.target.value == name:
                        found.append(_is_no_module(place, node.value, deep - 1))
                elif _names(target.target, name):
                    found.append(isinstance(node.value, cst.Call) and _is_no_module(place, node.value, deep - 1))
        elif isinstance(node, (cst.AnnAssign, cst.NamedExpr)) and _names(node.target, name):
            found.append(node.value is not None and _is_no_module(place, node.value, deep - 1))
        elif isinstance(node, (cst.For, cst.CompFor)) and _names(node.target, name):
            found.append(_is_no_module(place, node.iter, deep - 1) and not isinstance(node.iter, cst.Call))
        elif isinstance(node, cst.AsName) and _names(node.name, name):
            found.append(False)
        elif isinstance(node, cst.Param) and node.name.value == name:
            function: cst.CSTNode = node
            while not isinstance(function, (cst.FunctionDef, cst.Lambda)):
                function = place.piece.parents[function]
            is_annotated = node.annotation is not None and "Tensor" in text(node.annotation.annotation)
            of_forward = isinstance(function, cst.FunctionDef) and function.name.value == "forward"
            found.append(is_annotated or of_forward)
    return bool(found) and all(found)


def _names(target: cst.CSTNode, name: str) -> bool:
    return any(isinstance(each, cst.Name) and each.value == name for each in walk(target))


def _is_registered(place: Located, name: str) -> bool:
    """Return True if an attribute is a buffer, a parameter, or made by a function of torch, wherever the file
    creates it."""
    known = imported_names(place.source.nodes)
    found: list[bool] = []
    for node in place.source.nodes:
        if isinstance(node, ast.Assign):
            if any(isinstance(to, ast.Attribute) and to.attr == name for to in node.targets):
                found.append(_is_tensor(node.value, known))
            elif any(
                isinstance(each, ast.Attribute) and each.attr == name and isinstance(each.ctx, ast.Store)
                for to in node.targets
                for each in ast.walk(to)
            ):
                found.append(False)
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.target) in (name, f"self.{name}"):
            found.append("Tensor" in ast.unparse(node.annotation))
        elif isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Attribute):
            first = node.args[0]
            if isinstance(first, ast.Constant) and first.value == name:
                if node.func.attr in ("register_buffer", "register_parameter"):
                    found.append(True)
                elif node.func.attr in ("add_module", "register_module"):
                    found.append(False)
    return all(found) if found else name in OF_TENSORS


def _is_tensor(node: ast.expr, known: dict[str, str]) -> bool:
    while isinstance(node, ast.Call):
        if _is_of_torch(full_name(node.func, known)):
            return True
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in PURE_METHODS | OF_MODULES:
            return False
        node = node.func.value
    return isinstance(node, ast.Constant)


def _is_of_torch(name: str) -> bool:
    """Return True if a function with that full name returns a tensor."""
    owner, _, last = name.rpartition(".")
    if owner in ("torch", "torch.nn.functional", "torch.linalg", "torch.special", "torch.fft"):
        return (last.islower() and name not in NOT_TENSORS) or last in ("Tensor", "FloatTensor")
    return name in ("torch.nn.Parameter", "torch.nn.Buffer", "torch.nn.parameter.Parameter")
