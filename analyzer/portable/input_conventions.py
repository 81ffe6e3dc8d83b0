"""Find the convention by which a file provides inputs for its model, from the source alone."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Source = Literal["function", "method", "attribute"]
Functions: TypeAlias = "dict[str, ast.FunctionDef | ast.AsyncFunctionDef]"
FACTORIES = ("get_model", "model")
"""Module-level names that are taken for the model if no class `Model` exists; few on purpose."""
GIVING = ("get_inputs", "get_example_inputs", "example_input_array")
"""The names that provide inputs: a text without them follows no convention."""


@dataclass(frozen=True)
class Convention:
    """`label` is the name in reports; `target` is the module-level name to build.

    `inputs` is the name that provides the inputs: a module-level function (`source` "function"), a method of the target
    ("method"), or an attribute of the built instance ("attribute"). With `init`, the class is called with the result of
    the file's `get_init_inputs()`.
    """

    label: str
    target: str
    source: Source
    inputs: str
    init: bool


def find_convention(path: Path, name: str | None) -> Convention | None:
    """Return the convention by which `path` (or its member `name`) provides inputs, or None.

    Nothing is executed. Also returns None if the file cannot be read or parsed.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    return convention_in(tree, name)


def convention_in(tree: ast.Module, name: str | None) -> Convention | None:
    """Return the convention by which a file with this tree (or its member `name`) provides inputs, or None. In this
    order: `get_inputs()` and `get_example_inputs()` of the module, `get_example_inputs()` of the class, Lightning's
    `example_input_array`. Without `name` the target is the class `Model`, else a module-level `get_model` or
    `model`, else the only nn.Module class of the file that no other class of it uses; otherwise None."""
    functions, classes = _defined(tree)
    target = name or _target(tree, functions, classes)
    if target is None or _is_method_of_module(target, classes):  # what a file gives is for `forward`
        return None
    built = target.rpartition(".")[0] or target
    init = built in classes and _callable_bare(functions.get("get_init_inputs"))
    init_label = "/get_init_inputs()" if init else ""
    for function in ("get_inputs", "get_example_inputs"):
        if _callable_bare(functions.get(function)):
            label = f"{function}(){init_label} with {target}"
            return Convention(label, target, "function", function, init)
    for owner in _lineage(target, classes):
        if any(isinstance(node, ast.FunctionDef) and node.name == "get_example_inputs" for node in owner.body):
            return Convention(f"{target}.get_example_inputs()", target, "method", "get_example_inputs", init)
    for owner in _lineage(target, classes):
        if _assigns(owner, "example_input_array"):
            return Convention(f"{target}.example_input_array", target, "attribute", "example_input_array", init)
    return None


def find_target(path: Path) -> str | None:
    """Return the name of the main model of the file, with inputs or without; None if it is ambiguous."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    return _target(tree, *_defined(tree))


def find_functions(path: Path) -> tuple[str, ...]:
    """Return the module-level functions of a file that could be checked by name: public ones that return neither a
    model nor inputs. None if the file cannot be read or parsed."""
    try:
        functions, _ = _defined(ast.parse(path.read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return ()
    others = {*GIVING, *FACTORIES, "get_init_inputs", "main"}
    return tuple(name for name in functions if not name.startswith("_") and name not in others)


def _defined(tree: ast.Module) -> tuple[Functions, dict[str, ast.ClassDef]]:
    """Return the functions and classes that exist once the file has run, without those that it deletes."""
    functions: Functions = {}
    classes: dict[str, ast.ClassDef] = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            functions[node.name] = node
        elif isinstance(node, ast.ClassDef):
            classes[node.name] = node
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    functions.pop(target.id, None)
                    classes.pop(target.id, None)
    return functions, classes


def _is_method_of_module(name: str, classes: dict[str, ast.ClassDef]) -> bool:
    """Return True if it names a method of an nn.Module class in this file."""
    owner, _, method = name.rpartition(".")
    return _is_module(owner, classes) and any(
        isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == method
        for each in _lineage(owner, classes)
        for node in each.body
    )


def _callable_bare(node: ast.FunctionDef | ast.AsyncFunctionDef | None) -> bool:
    """Return True if the function can be called without arguments."""
    if not isinstance(node, ast.FunctionDef):
        return False
    args = node.args
    positional = len(args.posonlyargs) + len(args.args) - len(args.defaults)
    return positional <= 0 and all(default is not None for default in args.kw_defaults)


def _target(tree: ast.Module, functions: Functions, classes: dict[str, ast.ClassDef]) -> str | None:
    if "Model" in classes:
        return "Model"
    variables = {
        target.id
        for node in tree.body
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for factory in FACTORIES:
        if factory in variables or _callable_bare(functions.get(factory)):
            return factory
    modules = [name for name in classes if _is_module(name, classes)]
    used = {
        node.id
        for owner in classes.values()
        for node in ast.walk(owner)
        if isinstance(node, ast.Name) and node.id != owner.name
    }
    roots = [name for name in modules if name not in used]
    return roots[0] if len(roots) == 1 else None


def _base_name(base: ast.expr) -> str:
    if isinstance(base, ast.Subscript):
        return _base_name(base.value)
    if isinstance(base, ast.Attribute):
        return base.attr
    return base.id if isinstance(base, ast.Name) else ""


def _lineage(name: str, classes: dict[str, ast.ClassDef]) -> list[ast.ClassDef]:
    """Return the class and those of its bases that are in the same file, nearest first."""
    found: list[ast.ClassDef] = []
    queue = [name]
    while queue:
        node = classes.get(queue.pop(0))
        if node is not None and node not in found:
            found.append(node)
            queue.extend(_base_name(base) for base in node.bases)
    return found


def _is_module(name: str, classes: dict[str, ast.ClassDef]) -> bool:
    """Return True if a base ends in "Module" (nn.Module, LightningModule), or if it defines a `forward`."""
    lineage = _lineage(name, classes)
    return any(_base_name(base).endswith("Module") for node in lineage for base in node.bases) or any(
        isinstance(item, ast.FunctionDef) and item.name == "forward" for node in lineage for item in node.body
    )


def _assigns(owner: ast.ClassDef, attribute: str) -> bool:
    for node in ast.walk(owner):
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        if isinstance(node, ast.FunctionDef) and node.name == attribute:
            return True
        for target in targets:
            if isinstance(target, ast.Name) and target.id == attribute and node in owner.body:
                return True
            if isinstance(target, ast.Attribute) and target.attr == attribute and _base_name(target.value) == "self":
                return True
    return False
