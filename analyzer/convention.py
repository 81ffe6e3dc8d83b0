"""Find the convention by which a file gives its model inputs, from the source alone."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Source = Literal["function", "method", "attribute"]
Functions: TypeAlias = "dict[str, ast.FunctionDef | ast.AsyncFunctionDef]"
FACTORIES = ("get_model", "model")
"""Module-level names that stand for the model where no class `Model` does; small on purpose."""
GIVING = ("get_inputs", "get_example_inputs", "example_input_array")
"""The names that give inputs: a text without them has no convention."""


@dataclass(frozen=True)
class Convention:
    """`label` is what reports say; `target` is the module-level name to build.

    `inputs` is the name that gives the inputs: a module-level function (`source` "function"), a method of
    the target ("method"), or an attribute of the built instance ("attribute"). With `init`, the class is
    called with what the file's `get_init_inputs()` returns.
    """

    label: str
    target: str
    source: Source
    inputs: str
    init: bool


def find_convention(path: Path, name: str | None) -> Convention | None:
    """The convention by which `path` (or its member `name`) gives inputs without being asked, or None.

    Nothing is executed. None as well where the file cannot be read or parsed.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    return convention_in(tree, name)


def convention_in(tree: ast.Module, name: str | None) -> Convention | None:
    """The convention by which a file of this tree (or its member `name`) gives inputs, or None. In this order:
    `get_inputs()` and `get_example_inputs()` of the module, `get_example_inputs()` of the class, Lightning's
    `example_input_array`. Without `name` the target is the class `Model`, else a module-level `get_model` or
    `model`, else the file's only nn.Module class that no other class of the file uses; otherwise None.
    """
    functions, classes = _defined(tree)
    target = name or _target(tree, functions, classes)
    if target is None or _is_method(target, classes):  # what a file gives is for `forward`
        return None
    init = target in classes and _callable_bare(functions.get("get_init_inputs"))
    init_label = "/get_init_inputs()" if init else ""
    for function in ("get_inputs", "get_example_inputs"):
        if _callable_bare(functions.get(function)):
            label = f"{function}(){init_label} with {target}"
            return Convention(label, target, "function", function, init)
    for owner in _lineage(target, classes):
        if any(
            isinstance(node, ast.FunctionDef) and node.name == "get_example_inputs" for node in owner.body
        ):
            return Convention(f"{target}.get_example_inputs()", target, "method", "get_example_inputs", init)
    for owner in _lineage(target, classes):
        if _assigns(owner, "example_input_array"):
            return Convention(
                f"{target}.example_input_array", target, "attribute", "example_input_array", init
            )
    return None


def find_target(path: Path) -> str | None:
    """The name of the model that the file is about, inputs or none; None where the file does not say."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    return _target(tree, *_defined(tree))


def find_functions(path: Path) -> tuple[str, ...]:
    """The module-level functions of a file that could be checked by name: public ones that give neither a model nor
    inputs. None where the file cannot be read or parsed."""
    try:
        functions, _ = _defined(ast.parse(path.read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return ()
    others = {*GIVING, *FACTORIES, "get_init_inputs", "main"}
    return tuple(name for name in functions if not name.startswith("_") and name not in others)


def _defined(tree: ast.Module) -> tuple[Functions, dict[str, ast.ClassDef]]:
    """The functions and classes of a file that are there once it has run: what it deletes is not."""
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


def _is_method(name: str, classes: dict[str, ast.ClassDef]) -> bool:
    """Whether it names a method of a class that stands in the file."""
    owner, _, method = name.rpartition(".")
    return any(
        isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == method
        for each in _lineage(owner, classes)
        for node in each.body
    )


def _callable_bare(node: ast.FunctionDef | ast.AsyncFunctionDef | None) -> bool:
    """Whether the function can be called without an argument."""
    if not isinstance(node, ast.FunctionDef):
        return False
    args = node.args
    positional = len(args.posonlyargs) + len(args.args) - len(args.defaults)
    return positional <= 0 and all(default is not None for default in args.kw_defaults)


def _target(
    tree: ast.Module,
    functions: Functions,
    classes: dict[str, ast.ClassDef],
) -> str | None:
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
    """The class and those of its bases that stand in the same file, nearest first."""
    found: list[ast.ClassDef] = []
    queue = [name]
    while queue:
        node = classes.get(queue.pop(0))
        if node is not None and node not in found:
            found.append(node)
            queue.extend(_base_name(base) for base in node.bases)
    return found


def _is_module(name: str, classes: dict[str, ast.ClassDef]) -> bool:
    """By its bases: one ends in "Module" (nn.Module, LightningModule), or it defines a `forward`."""
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
            if (
                isinstance(target, ast.Attribute)
                and target.attr == attribute
                and _base_name(target.value) == "self"
            ):
                return True
    return False
