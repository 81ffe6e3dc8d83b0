"""The compile pipeline of vLLM, read from its sources: what it decorates, where it splits, which operators it
registers.

Nothing is imported or executed. Definitions are searched by name, not by path, because files move between versions.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tcready.integrations.vllm.decorators import DECORATOR, IGNORED, Text, find_decorated
from tcready.schema.code_line import Frame
from tcready.schema.display_paths import display_path, import_name
from tcready.schema.serving import ServedClass, ServedOperator
from tcready.static.domain.scope import last_name
from tcready.static.frontend.module_search import default_search_path, find_module

PACKAGE = "vllm"
REGISTERING = "direct_register_custom_op"
SETTINGS = "CompilationConfig"
SPLITTING = "splitting_ops"
CUSTOM_OP = "CustomOp"
DROPPING = ("guard_filter_fn", "register_bytecode_hook")
"""Signs that guards are dropped: by a filter, or by calling what was compiled first in place of checking them."""
MARKS = (REGISTERING, SETTINGS, CUSTOM_OP, *DROPPING)
OPERATOR = re.compile(r"^(\w+)(?:::|\.)(\w+)$")
VERSION = re.compile(r"^(?:__version__ = )?version = ['\"]([^'\"]+)['\"]", re.MULTILINE)
OF_BACKENDS = "forward_"
NATIVE = "forward_native"
"""The forward of a custom operator's class that is compiled; the others are kernels."""


@dataclass(frozen=True)
class OperatorClass:
    """A class with several implementations of forward, one of which is compiled."""

    name: str
    path: str
    methods: tuple[tuple[str, int, int], ...]
    """Its forwards for devices: name, first and last line."""


@dataclass(frozen=True)
class Pipeline:
    """How an engine's sources, and the user's own, compile models."""

    version: str | None
    whole_graph: bool | None = None
    drops_guards: bool = False
    splitting: tuple[str, ...] = ()
    classes: tuple[ServedClass, ...] = ()
    operators: tuple[ServedOperator, ...] = ()
    operator_classes: tuple[OperatorClass, ...] = ()
    unread: tuple[str, ...] = ()


@dataclass(frozen=True)
class _File:
    """The findings in one file."""

    operators: tuple[ServedOperator, ...] = ()
    operator_classes: tuple[OperatorClass, ...] = ()
    splitting: tuple[str, ...] = ()
    whole_graph: tuple[str, ...] = ()
    """`fullgraph` of each torch.compile, as source text."""
    drops_guards: bool = False


def engine_in(root: Path) -> Path | None:
    """Return the folder of the installed package; None if there is none."""
    found = find_module(PACKAGE, default_search_path(root))
    return found.parent if found is not None and found.name == "__init__.py" else None


def read_engine(folder: Path, own: Mapping[str, str], root: Path) -> Pipeline:
    """Return the pipeline of the package in `folder`, with additions from the user's own files (`own`: display path to
    text).

    Files that name nothing of the pipeline are searched and not parsed.
    """
    files: list[_File] = []
    unread: list[str] = []
    texts: dict[str, Text] = {}
    read: set[str] = set()
    for path in sorted(folder.rglob("*.py")):
        shown = display_path(str(path), str(root))
        try:
            text = path.read_text("utf-8", errors="replace")
        except OSError as error:
            unread.append(f"{shown}: {error.strerror or error}")
            continue
        read.add(shown)
        name = ".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__")
        texts[name] = Text(shown, name, text)
        _add(files, unread, shown, text)
    engine_files = len(files)
    for shown, text in sorted(own.items()):
        if shown in read:
            continue
        name = import_name(root / shown)[0]
        texts.setdefault(name, Text(shown, name, text))
        _add(files, [], shown, text)  # the report itself says which of the user's files cannot be parsed
    engine = files[:engine_files]
    found = find_decorated(texts)
    # Other files compile small functions of their own; the one that drops guards compiles models.
    whole = [text for each in engine if each.drops_guards for text in each.whole_graph]
    splitting = tuple(dict.fromkeys(name for each in engine for name in each.splitting))
    if not splitting:
        unread.append(f"no list of splitting operators was found in a class {SETTINGS}")
    decided = next((text for text in whole if text not in ("True", "False")), None)
    if not whole:
        unread.append("no call of torch.compile with fullgraph was found")
    elif decided is not None:
        unread.append(f"whether it compiles with fullgraph is decided as it runs: {decided}")
    return Pipeline(
        _version(folder),
        None if decided is not None or not whole else "True" in whole,
        any(each.drops_guards for each in engine),
        splitting,
        found.classes,
        tuple(replace(each, splits=each.name in splitting) for file in files for each in file.operators),
        tuple(each for file in files for each in file.operator_classes),
        (*unread, *found.unread),
    )


def _add(files: list[_File], unread: list[str], shown: str, text: str) -> None:
    if not any(mark in text for mark in (*MARKS, DECORATOR, IGNORED)):
        return
    try:
        files.append(_read(ast.parse(text), shown))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        unread.append(f"{shown}: {type(error).__name__}")


def _read(tree: ast.Module, shown: str) -> _File:
    functions = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    found = _File()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            found = replace(
                found,
                operator_classes=(*found.operator_classes, *_operator_class(node, shown)),
                splitting=(*found.splitting, *(_splitting(node) if node.name == SETTINGS else ())),
            )
        elif isinstance(node, ast.Call):
            name = last_name(node.func)
            if name == REGISTERING:
                found = replace(found, operators=(*found.operators, *_registered(node, functions, shown)))
            elif name == "compile" and (whole := _argument(node, "fullgraph")) is not None:
                found = replace(found, whole_graph=(*found.whole_graph, ast.unparse(whole)))
        elif (isinstance(node, ast.Attribute) and node.attr in DROPPING) or (
            isinstance(node, ast.Constant) and node.value in DROPPING
        ):
            found = replace(found, drops_guards=True)
    return found


# Operators


def _registered(
    node: ast.Call, functions: Mapping[str, ast.FunctionDef | ast.AsyncFunctionDef], shown: str
) -> Iterator[ServedOperator]:
    name = _argument(node, "op_name", 0)
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        return
    code = _argument(node, "op_func", 1)
    function = functions.get(code.id) if isinstance(code, ast.Name) else None
    fake = _argument(node, "fake_impl", 3)
    library = _argument(node, "target_lib")
    space = PACKAGE if library is None else ast.unparse(library)
    yield ServedOperator(
        name.value if "::" in name.value else f"{space}::{name.value}",
        Frame(shown, function.lineno, function.name) if function is not None else None,
        function.end_lineno if function is not None else None,
        fake is not None and not (isinstance(fake, ast.Constant) and fake.value is None),
        False,
    )


def _operator_class(node: ast.ClassDef, shown: str) -> Iterator[OperatorClass]:
    """Return a class that is registered as a custom operator, or derived from one, with forwards for several
    devices."""
    registered = any(
        isinstance(each, ast.Call)
        and isinstance(each.func, ast.Attribute)
        and each.func.attr.startswith("register")
        and last_name(each.func.value) == CUSTOM_OP
        for each in node.decorator_list
    )
    if not registered and CUSTOM_OP not in map(last_name, node.bases):
        return
    methods = tuple(
        (each.name, each.lineno, each.end_lineno or each.lineno)
        for each in node.body
        if isinstance(each, ast.FunctionDef) and each.name.startswith(OF_BACKENDS)
    )
    if any(name == NATIVE for name, _, _ in methods):
        yield OperatorClass(node.name, shown, tuple(each for each in methods if each[0] != NATIVE))


def _splitting(settings: ast.ClassDef) -> Iterator[str]:
    """Yield names of operators in the lists that a class of settings assigns to `splitting_ops`, or to what it is
    set to."""
    lists: dict[str, tuple[str, ...]] = {}
    taken = {SPLITTING}
    for node in ast.walk(settings):
        targets: list[ast.expr] = []
        value: ast.expr | None = None
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign):
            targets, value = [node.target], node.value
        if value is None:
            continue
        for target in targets:
            name = last_name(target)
            lists[name] = (*lists.get(name, ()), *_operators_in(value))
            if name == SPLITTING:
                taken |= {last_name(each) for each in ast.walk(value) if isinstance(each, (ast.Name, ast.Attribute))}
    for name in lists:
        if name in taken:
            yield from lists[name]


def _operators_in(value: ast.expr) -> Iterator[str]:
    for node in ast.walk(value):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = OPERATOR.match(node.value)
            if match is not None:
                yield f"{match[1]}::{match[2]}"


# Small


def _argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    for each in call.keywords:
        if each.arg == name:
            return each.value
    if position is not None and position < len(call.args):
        return call.args[position]
    return None


def _version(folder: Path) -> str | None:
    """Return the version from the metadata beside the package, or from the file that its build wrote; None if there
    is neither."""
    for name in sorted(os.listdir(folder.parent)):
        if name.startswith(f"{PACKAGE}-") and name.endswith(".dist-info"):
            return name.removeprefix(f"{PACKAGE}-").removesuffix(".dist-info")
    written = folder / "_version.py"
    match = VERSION.search(written.read_text("utf-8", errors="replace")) if written.is_file() else None
    return match[1] if match else None
