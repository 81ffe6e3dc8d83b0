"""Index of definitions: modules, classes, functions, imports, found without executing anything.

A Program reads a module the first time something asks for it and never twice.
"""

from __future__ import annotations

import ast
import dataclasses
import os
import re
import sys
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from tcready.schema.display_paths import import_name, is_installed
from tcready.static.frontend import documentation, module_search, tree_reuse
from tcready.static.frontend.cancellation import Stop, StoppedError, never
from tcready.static.frontend.file_cache import Disk, files_in
from tcready.static.frontend.import_scan import imports_in, imports_its_files, with_packages
from tcready.static.frontend.source import Source, UnreadableError, names_checkers, nodes_in, parse, read
from tcready.static.library import torch_tables
from tcready.static.library.torch_versions import Version
from tcready.static.units import holds

AnyFunction: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda"
_V = TypeVar("_V")


IMPORTED, SPEAKS = "import", "speaks of "
"""Queries on whole texts: no module has such a name."""
ALONG = 150
"""The number of modules that are searched for imports."""
ANY, CLASSES, FUNCTIONS, IMPORTS = "*", "* class", "* def", "* import "
"""Reads of a table: of everything, or of all bindings of a kind; imports of the package named after it."""


class SymbolTable(dict[str, _V]):
    """A table that records which names are read: a change to an unread name affects no result."""

    def __init__(self) -> None:
        super().__init__()
        self.requested: set[str] = set()

    def __getitem__(self, name: str) -> _V:
        self.requested.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.requested.add(name)
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        self.requested.add(str(name))
        return super().__contains__(name)

    def untracked_items(self) -> dict[str, _V]:
        """Return the items without recording the read."""
        return dict(super().items())

    def __iter__(self) -> Iterator[str]:
        self.requested.add(ANY)
        return super().__iter__()

    def keys(self) -> Any:
        self.requested.add(ANY)
        return super().keys()

    def values(self) -> Any:
        self.requested.add(ANY)
        return super().values()

    def items(self) -> Any:
        self.requested.add(ANY)
        return super().items()


@dataclass(frozen=True, eq=False)
class FunctionInfo:
    """A function of a source; compared by identity. In an edited file it stays the same object with another `node`."""

    name: str
    symbol: str
    module: ModuleInfo
    node: AnyFunction
    owner: ClassInfo | None
    inner: dict[ast.AST, FunctionInfo | ClassInfo] = field(default_factory=dict)
    """The definitions inside it, as far as they were requested."""

    @property
    def decorators(self) -> list[ast.expr]:
        return [] if isinstance(self.node, ast.Lambda) else self.node.decorator_list

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """As of `nodes_in`."""
        return nodes_in(self.node)

    @cached_property
    def mentions(self) -> frozenset[str]:
        """The names and attributes in it."""
        return mentioned_names(self.nodes)

    @cached_property
    def seen(self) -> str:
        """The parts visible without calling it: its signature, documentation, and the attributes that a method
        assigns."""
        lines, node = self.module.source.lines, self.node
        if isinstance(node, ast.Lambda):
            return ""
        head = tree_reuse.seen(node, lines)
        if self.owner is None:
            return "\n".join(head)
        stores = [
            "\n".join(lines[each.lineno - 1 : each.end_lineno])
            for each in self.nodes
            if isinstance(each, (ast.Assign, ast.AnnAssign, ast.AugAssign))
            and any(isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) for n in ast.walk(each))
        ]
        return "\n".join([*head, *stores, *sorted(self.attributes[0])])

    @cached_property
    def rebound(self) -> frozenset[str]:
        """The names that it assigns, so that they may differ from its arguments."""
        return frozenset(n.id for n in self.nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))

    @cached_property
    def is_generator(self) -> bool:
        """Its own body has a `yield`."""
        yields = (ast.Yield, ast.YieldFrom)
        return (
            self.module.source.has_yield
            and any(isinstance(node, yields) for node in self.nodes)
            and any(isinstance(node, yields) for node in own_nodes(self.node))
        )

    @cached_property
    def only_looks(self) -> bool:
        """It has no `return` with a value, no `yield`, and assigns no attribute: by its own body, a check."""
        return not (isinstance(self.node, ast.Lambda) or self.attributes[0]) and not any(
            isinstance(node, (ast.Yield, ast.YieldFrom)) or (isinstance(node, ast.Return) and node.value)
            for node in self.nodes
        )

    @cached_property
    def is_short(self) -> bool:
        """It only returns the value of one expression."""
        if isinstance(self.node, ast.Lambda):
            return True
        body = self.node.body[ast.get_docstring(self.node, clean=False) is not None :]
        return bool(body) and isinstance(body[0], ast.Return)

    @cached_property
    def is_setter(self) -> bool:
        """`@name.setter`: it runs when the property is assigned."""
        return any(isinstance(d, ast.Attribute) and d.attr == "setter" for d in self.decorators)

    @cached_property
    def documented(self) -> dict[str, str]:
        """The documented types of parameters; for `__init__` including those of the class."""
        spec = self.node.args
        names = frozenset(arg.arg for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs))
        places: list[ast.AST] = [] if isinstance(self.node, ast.Lambda) else [self.node]
        if self.name == "__init__" and self.owner is not None:
            places.append(self.owner.node)
        texts = (ast.get_docstring(place, clean=False) for place in places)  # type: ignore[arg-type]
        return documentation.types_in("\n".join(filter(None, texts)), names)

    @cached_property
    def attributes(self) -> tuple[frozenset[str], frozenset[str]]:
        """The attributes that it assigns, and the others that it names, of any object."""
        stored: set[str] = set()
        named: set[str] = set()
        for node in self.nodes:
            if isinstance(node, ast.Attribute):
                (stored if isinstance(node.ctx, ast.Store) else named).add(node.attr)
        return frozenset(stored), frozenset(named)


@dataclass(frozen=True, eq=False)
class ClassInfo:
    """A class of a source; compared by identity. `members` are its methods, assignments and inner classes."""

    name: str
    symbol: str
    module: ModuleInfo
    node: ast.ClassDef
    functions: dict[str, list[FunctionInfo]] = field(default_factory=dict)
    """By name; several if a property has a setter or a branch chooses."""
    assigned: dict[str, ast.expr | None] = field(default_factory=dict)
    annotated: dict[str, ast.expr] = field(default_factory=dict)
    inner: dict[str, ClassInfo] = field(default_factory=dict)
    derives: tuple[object, ...] | None = None
    """The values of base names that are variables of the enclosing function; None if none is one."""

    def tables(self) -> tuple[dict[str, Any], ...]:
        """Return all its bindings."""
        return self.functions, self.assigned, self.annotated, self.inner

    def take_apart(self) -> None:
        """Break the reference cycles with its methods, as it is not needed any more."""
        self.functions.clear()
        for cls in self.inner.values():
            cls.take_apart()
        self.inner.clear()


@dataclass(frozen=True)
class Import:
    """`import module` (name None) or `from module import name`."""

    module: str
    name: str | None


Binding: TypeAlias = "FunctionInfo | ClassInfo | Import | ast.expr"


@dataclass(frozen=True, eq=False)
class Guard:
    """A condition for a top-level statement to run."""

    test: ast.expr | None
    """None for a `try`: its import succeeds, or not."""
    holds: bool
    imports: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ModuleInfo:
    """A module, and the bindings of its top level."""

    name: str
    source: Source
    is_package: bool
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    """Every top-level name with its possible bindings, in source order."""
    guards: dict[str, list[tuple[Guard, ...]]] = field(default_factory=dict)
    """The conditions for each of `bindings`; there are none for the last ones, bound by functions."""
    switched: dict[str, list[Binding]] = field(default_factory=dict)
    """The values that public functions which nothing in the module calls give to names."""
    stars: list[str] = field(default_factory=list)
    """Modules imported with `*`."""
    annotations: dict[str, ast.expr] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return self.source.path

    def exports(self, name: str) -> bool:
        """Return whether `from module import *` brings that name, if the module or one that it star-imports has it."""
        if self._exported is None:
            return not name.startswith("_")
        return name in self._exported

    @cached_property
    def _exported(self) -> frozenset[str] | None:
        """The names in `__all__`; None if there is none, or not all of it is literal."""
        found = self.bindings.get("__all__", [])
        if not found or "__all__." in self.source.text or "__all__[" in self.source.text:
            return None
        names: set[str] = set()
        for listed in found:
            items = listed.elts if isinstance(listed, (ast.List, ast.Tuple)) else [None]
            for item in items:
                if not isinstance(item, ast.Constant):
                    return None
                names.add(str(item.value))
        return frozenset(names)

    @cached_property
    def called(self) -> dict[str, list[int]]:
        """The names followed by a bracket, as in a call, and their lines. A name after `class` does not count."""
        found: dict[str, list[int]] = {}
        for number, line in enumerate(self.source.lines, 1):
            if "(" in line:
                for name in _CALLED.findall(line):
                    found.setdefault(name, []).append(number)
        return found

    @cached_property
    def imported_at(self) -> dict[str, int]:
        """The first segments of modules that a line begins to import, and the first such line."""
        found: dict[str, int] = {}
        for number, line in enumerate(self.source.lines, 1):
            if "import" in line or "from" in line:
                match = _IMPORTED.match(line)
                if match is not None:
                    found.setdefault(match[1], number)
        return found

    def classes(self) -> Iterator[ClassInfo]:
        """Yield the top-level classes in source order."""
        for found in self.bound(CLASSES).values():
            yield from (binding for binding in found if isinstance(binding, ClassInfo))

    def bound(self, *kinds: str) -> Mapping[str, list[Binding]]:
        """Return the bindings; only those of these kinds count as read. Without kinds, they make no difference to the
        interpretation."""
        if not isinstance(self.bindings, SymbolTable):
            return self.bindings
        self.bindings.requested.update(kinds)
        return self.bindings.untracked_items()

    def absolute(self, module: str | None, level: int) -> str:
        """Return the absolute name of an import written with `level` dots."""
        if not level:
            return module or ""
        parts = self.name.split(".")
        if not self.is_package:
            parts = parts[:-1]
        parts = parts[: len(parts) - (level - 1)]
        return ".".join([*parts, module] if module else parts)


_Known: TypeAlias = "Mapping[ast.AST, FunctionInfo | ClassInfo]"
"""Earlier definitions before an edit, by the current node."""
_NONE_KNOWN: _Known = {}
_GLOBAL = re.compile(r"(?:^|[;:])\s*global\b")
"""A position where a `global` statement is possible."""
_IMPORTED = re.compile(r"\s*(?:from|import)\s+(\w+)")
_CALLED = re.compile(r"(?<!class )\b(\w+)[ \t]*\(")


def mentioned_names(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Return the names and attributes among nodes."""
    named = (each for each in nodes if isinstance(each, (ast.Name, ast.Attribute)))
    return frozenset(each.id if isinstance(each, ast.Name) else each.attr for each in named)


def own_nodes(function: AnyFunction) -> Iterator[ast.AST]:
    """Return the nodes in the body of a function, without those of nested functions."""
    body = function.body
    pending: list[ast.AST] = list(body) if isinstance(body, list) else [body]
    while pending:
        node = pending.pop()
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            yield node
            pending.extend(ast.iter_child_nodes(node))


def build_module(source: Source, name: str) -> ModuleInfo:
    """Return the index of one parsed file."""
    module = ModuleInfo(name, source, source.path.stem == "__init__")
    _bind(module, {})
    return module


def build_edited(source: Source, name: str, before: ModuleInfo | None) -> ModuleInfo:
    """Return the index of an edited file: that from `before` the edit, updated. Earlier definitions stay the same
    objects, and unchanged ones keep their trees."""
    if before is None:
        module = ModuleInfo(name, source, source.path.stem == "__init__", SymbolTable())
        _bind(module, {})
        return module
    known: dict[ast.AST, FunctionInfo | ClassInfo] = {
        info.node: info for found in before.bound().values() for b in found for info in _infos(b)
    }
    for info in [*known.values()]:
        if isinstance(info, FunctionInfo) and info.inner:
            known.update((each.node, each) for each in _defined_in(info))
    old = before.source
    came_of = tree_reuse.graft(
        tree_reuse.EditedText(source.tree, source.lines), tree_reuse.EditedText(old.tree, old.lines)
    )
    earlier = {node: known[was] for node, was in came_of.items() if was in known}
    for info in earlier.values():
        if isinstance(info, ClassInfo):
            for table in info.tables():
                table.clear()
    before.bindings.clear()
    before.guards.clear()
    before.switched.clear()
    before.annotations.clear()
    before.stars.clear()
    _become(before, source=source)
    _bind(before, earlier)
    return before


def _infos(binding: Binding) -> Iterator[FunctionInfo | ClassInfo]:
    """Return a definition, and for a class its members."""
    if isinstance(binding, FunctionInfo):
        yield binding
    elif isinstance(binding, ClassInfo):
        yield binding
        for found in dict.values(binding.functions):
            yield from found
        for cls in dict.values(binding.inner):
            yield from _infos(cls)


def _defined_in(info: FunctionInfo) -> Iterator[FunctionInfo]:
    """Yield the functions that are defined inside a function, at any depth."""
    for each in info.inner.values():
        if isinstance(each, FunctionInfo):
            yield each
            yield from _defined_in(each)


def _become(info: FunctionInfo | ClassInfo | ModuleInfo, **changed: object) -> None:
    """Replace its fields, and forget the values derived from the old ones."""
    fields = {each.name for each in dataclasses.fields(info)}
    for name in vars(info).keys() - fields:
        del vars(info)[name]
    vars(info).update(changed)


@dataclass(frozen=True)
class Outline:
    """Two texts of one file with equal outlines differ only in what their functions do when called."""

    bound: Mapping[tuple[str, str], str]
    """The bindings of the file, by the symbol of the class and the name; for functions their parts visible without a
    call. The remaining code is under the name ""."""
    named: Mapping[FunctionInfo, frozenset[str]]
    """The attributes that methods name: those that are methods too are visible without a call."""


def outline(module: ModuleInfo) -> Outline:
    """Return the outline of a file."""
    found: dict[tuple[str, str], list[str]] = {}
    source = module.source
    infos: dict[ast.AST, FunctionInfo | ClassInfo] = {
        info.node: info for each in module.bound().values() for b in each for info in _infos(b)
    }
    _outline_block(source.tree.body, "", source.lines, infos, found)
    for name, value, is_switch in _given_by_functions(source):
        # an edit may be the first to name a switch
        text = f"switch {name} {ast.dump(value)}" if is_switch else f"global {ast.dump(value)}"
        found.setdefault(("", "" if is_switch else name), []).append(text)
    named = {
        info: info.attributes[1] for info in infos.values() if isinstance(info, FunctionInfo) and info.owner is not None
    }
    return Outline({key: "\n".join(texts) for key, texts in found.items()}, named)


def _outline_block(
    body: list[ast.stmt],
    symbol: str,
    lines: list[str],
    infos: Mapping[ast.AST, FunctionInfo | ClassInfo],
    found: dict[tuple[str, str], list[str]],
) -> None:
    for node in body:
        info = infos.get(node)
        names = [""]
        text = ""
        if isinstance(info, FunctionInfo):
            names, text = [info.name], f"def {info.seen}"
        elif isinstance(info, ClassInfo) and isinstance(node, ast.ClassDef):
            names = [node.name]
            head = lines[tree_reuse.first_line(node) - 1 : tree_reuse.last_of_head(node, lines)]
            text = "class " + "\n".join(head)
            _outline_block(node.body, info.symbol, lines, infos, found)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.asname or alias.name.partition(".")[0] for alias in node.names]
            names = [""] if "*" in names else names
        elif isinstance(node, ast.Assign) and all(isinstance(t, ast.Name) for t in node.targets):
            names = [t.id for t in node.targets if isinstance(t, ast.Name)]
            text = f"= {tree_reuse.statement_text(node, lines)}"
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        for name in names:
            found.setdefault((symbol, name), []).append(text or tree_reuse.statement_text(node, lines))


def _bind(module: ModuleInfo, earlier: _Known) -> None:
    source = module.source
    _bind_block(module, source.tree.body, earlier)
    for name, value, is_switch in _given_by_functions(source):
        (module.switched if is_switch else module.bindings).setdefault(name, []).append(value)


def _given_by_functions(source: Source) -> Iterator[tuple[str, ast.Constant, bool]]:
    """Return the constants that functions assign to `global` names, a flag may be either; whether a switch does."""
    if "global" not in source.text:
        return
    likely = ((number, line) for number, line in enumerate(source.lines, 1) if "global" in line)
    lines = [number for number, line in likely if _GLOBAL.search(line)]
    for function in _functions_around(source.tree.body, lines) if lines else ():
        nodes = nodes_in(function)
        names = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
        is_switch = bool(names) and function in source.tree.body and _is_switch(function, source)
        for node in nodes if names else ():
            if isinstance(node, (ast.Assign, ast.AugAssign)) and isinstance(node.value, ast.Constant):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name) and target.id in names:
                        yield target.id, node.value, is_switch


def _functions_around(body: list[ast.stmt], lines: list[int]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the outermost functions that contain one of the lines: traversing whole files costs more than parsing
    them."""
    for node in body:
        if not any(node.lineno <= line <= (node.end_lineno or node.lineno) for line in lines):
            continue
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node
            continue
        for block in ("body", "orelse", "finalbody"):
            yield from _functions_around(getattr(node, block, []), lines)
        for inner in (*getattr(node, "handlers", []), *getattr(node, "cases", [])):
            yield from _functions_around(inner.body, lines)


def _is_switch(function: ast.FunctionDef | ast.AsyncFunctionDef, source: Source) -> bool:
    """Take nothing and is named nowhere else in its file: until a user calls it, all is as the module has it."""
    counts = any(isinstance(node, ast.AugAssign) for node in function.body)
    if counts or function.decorator_list or ast.unparse(function.args):
        return False
    return len(re.findall(rf"\b{re.escape(function.name)}\b", source.text)) == 1


def _is_overload(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """`@overload` and `@torch.jit._overload`: a signature for type checkers that is never called."""
    return any(
        str(getattr(d, "attr", getattr(d, "id", ""))).lstrip("_") in ("overload", "overload_method")
        for d in node.decorator_list
    )


def _function(
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    symbol: str,
    module: ModuleInfo,
    owner: ClassInfo | None,
    earlier: _Known,
) -> FunctionInfo:
    known = earlier.get(node)
    if not isinstance(known, FunctionInfo):
        return FunctionInfo(node.name, symbol, module, node, owner)
    if known.node is not node:
        _edit(known, node, earlier)
    return known


def _edit(info: FunctionInfo, node: AnyFunction, earlier: _Known) -> None:
    """Give a function another tree. Its nested functions stay the same objects if they still exist; a
    class does not: what it is made of may be a variable of the function."""
    before = info.inner
    functions = {each for each in before.values() if isinstance(each, FunctionInfo)}
    _become(info, node=node, inner={})
    for each in nodes_in(node) if functions else ():
        known = before.get(each) or earlier.get(each)
        if isinstance(known, FunctionInfo) and known in functions:
            info.inner[each] = known
            _edit(known, each, earlier)  # type: ignore[arg-type]


def _bind_block(module: ModuleInfo, body: list[ast.stmt], earlier: _Known, guards: tuple[Guard, ...] = ()) -> None:
    """Bind the names of a block that runs at import; both sides of an `if` or `try` count, with what must hold."""

    def bind(name: str, binding: Binding) -> None:
        module.bindings.setdefault(name, []).append(binding)
        module.guards.setdefault(name, []).append(guards)

    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if _is_overload(node):
                continue
            bind(node.name, _function(node, node.name, module, None, earlier))
        elif isinstance(node, ast.ClassDef):
            bind(node.name, build_class(module, node, node.name, earlier))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for local, binding in imports_of(module, node):
                if local == "*":
                    module.stars.append(binding.module)
                else:
                    bind(local, binding)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                for local, value in _targets(target, node.value):
                    bind(local, value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            bind(node.target.id, node.value)
        elif isinstance(node, ast.Match):
            for case in node.cases:
                _bind_block(module, case.body, earlier, guards)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            module.annotations[node.target.id] = node.annotation
            if node.value is not None:
                bind(node.target.id, node.value)
        elif isinstance(node, ast.If):
            for block, holds in ((node.body, True), (node.orelse, False)):
                # what is there for type checkers alone says what annotations mean
                under = guards if _is_for_checkers(node.test) else (*guards, Guard(node.test, holds))
                _bind_block(module, block, earlier, under)
        elif isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
            _bind_try(module, cast(ast.Try, node), earlier, guards)
        elif isinstance(node, (ast.For, ast.While, ast.With)):
            _bind_block(module, [*node.body, *getattr(node, "orelse", [])], earlier, guards)


def _is_for_checkers(test: ast.expr) -> bool:
    """`TYPE_CHECKING`, or a test with it."""
    return any(map(names_checkers, ast.walk(test)))


def _bind_try(module: ModuleInfo, node: ast.Try, earlier: _Known, guards: tuple[Guard, ...]) -> None:
    """Bind a `try` with the import of an optional module: if it is missing, only a handler runs after that import."""
    imports: tuple[str, ...] = ()
    for statement in node.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            imports += tuple(binding.module for _, binding in imports_of(module, statement))
        _bind_block(module, [statement], earlier, (*guards, Guard(None, True, imports)) if imports else guards)
    _bind_block(module, node.orelse, earlier, (*guards, Guard(None, True, imports)) if imports else guards)
    for handler in node.handlers:
        _bind_block(module, handler.body, earlier, (*guards, Guard(None, False, imports)) if imports else guards)
    _bind_block(module, node.finalbody, earlier, guards)


def _targets(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
        if len(target.elts) == len(value.elts):
            for inner, item in zip(target.elts, value.elts, strict=True):
                yield from _targets(inner, item)


def imports_of(module: ModuleInfo, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Import]]:
    """(local name, what it is bound to) of an import statement; the local name of a star is `*`."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.asname:
                yield alias.asname, Import(alias.name, None)
            else:
                root = alias.name.partition(".")[0]
                yield root, Import(root, None)
    else:
        base = module.absolute(node.module, node.level)
        for alias in node.names:
            yield alias.asname or alias.name, Import(base, alias.name)


def build_class(
    module: ModuleInfo,
    node: ast.ClassDef,
    symbol: str,
    earlier: _Known = _NONE_KNOWN,
    derives: tuple[object, ...] | None = None,
) -> ClassInfo:
    """Return the index of one class statement."""
    known = earlier.get(node)
    if isinstance(known, ClassInfo):
        info = known
        _become(info, node=node)
    elif isinstance(module.bindings, SymbolTable):
        info = ClassInfo(
            node.name, symbol, module, node, SymbolTable(), SymbolTable(), SymbolTable(), SymbolTable(), derives
        )
    else:
        info = ClassInfo(node.name, symbol, module, node, derives=derives)
    _fill_class(info, node.body, earlier)
    return info


def _fill_class(info: ClassInfo, body: list[ast.stmt], earlier: _Known) -> None:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if _is_overload(node):
                continue
            function = _function(node, f"{info.symbol}.{node.name}", info.module, info, earlier)
            info.functions.setdefault(node.name, []).append(function)
        elif isinstance(node, ast.ClassDef):
            info.inner[node.name] = build_class(info.module, node, f"{info.symbol}.{node.name}", earlier)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                for local, value in _targets(target, node.value):
                    info.assigned[local] = value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            info.annotated[node.target.id] = node.annotation
            info.assigned[node.target.id] = node.value
        elif isinstance(node, (ast.If, ast.Try)):
            for block in ("body", "orelse", "finalbody"):
                inner: list[ast.stmt] = getattr(node, block, [])
                if isinstance(node, ast.If) and _is_left_out(node.test, block == "body"):
                    for each in inner:
                        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                            info.annotated[each.target.id] = each.annotation
                    continue
                _fill_class(info, inner, earlier)


def _is_left_out(test: ast.expr, body: bool) -> bool:
    """Return whether no run enters the body of `if TYPE_CHECKING`, or the `else` of `if not TYPE_CHECKING`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _is_left_out(test.operand, not body)
    return body and names_checkers(test)


def _names_of_operator(source: Source, operator: str) -> Iterator[str]:
    """Return the names in a file of the operator `namespace::name` made by `torch.library.custom_op`."""
    if operator not in source.text or "custom_op" not in source.text:
        return
    for node in source.derive(_makers):
        if isinstance(node, ast.FunctionDef) and any(_makes(each, operator) for each in node.decorator_list):
            yield node.name
        elif isinstance(node, ast.Assign) and _makes(node.value, operator):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _makers(source: Source) -> tuple[ast.FunctionDef | ast.Assign, ...]:
    """Return the statements that may make an operator: assignments of call results, and functions with decorators that
    are calls."""
    return tuple(
        node
        for node in source.nodes
        if (isinstance(node, ast.FunctionDef) and node.decorator_list)
        or (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call))
    )


def _makes(call: ast.expr, operator: str) -> bool:
    return (
        isinstance(call, ast.Call)
        and ast.unparse(call.func).rpartition(".")[2] == "custom_op"
        and bool(call.args)
        and isinstance(call.args[0], ast.Constant)
        and call.args[0].value == operator
    )


@dataclass(eq=False)
class Library:
    """The modules of one reading of the disk; the Programs over it read no file twice."""

    disk: Disk = field(default_factory=Disk)
    stop: Stop = never
    _modules: dict[tuple[Path, str], tuple[str, ModuleInfo | str]] = field(default_factory=dict)
    """By file and its import name, with the digest of the file's contents; the reason if it cannot be read."""
    _tables: dict[Version | None, torch_tables.Tables] = field(default_factory=dict)
    edited: bool = False
    """Whether its files are edited: the index of a file is then updated, not rebuilt."""
    _before: dict[tuple[Path, str], ModuleInfo] = field(default_factory=dict)
    """The last index of each file that could be read, if they are edited."""

    def tables(self, torch: Version | None) -> torch_tables.Tables:
        """Return the tables of that version of torch; the newest if None."""
        if torch not in self._tables:
            self._tables[torch] = torch_tables.load(torch)
        return self._tables[torch]

    def over(self, disk: Disk, stop: Stop) -> Library:
        """Return the library for another state of the disk: unchanged files are not read again."""
        return dataclasses.replace(self, disk=disk, stop=stop)

    def go_on(self) -> None:
        """Raise StoppedError if nobody waits for this reading any more."""
        if self.stop():
            raise StoppedError

    def take_apart(self) -> None:
        """Break the reference cycles of the modules, as nothing more is read."""
        for _, module in self._modules.values():
            if isinstance(module, ModuleInfo):
                for binding in [b for found in module.bindings.values() for b in found]:
                    if isinstance(binding, ClassInfo):
                        binding.take_apart()
                module.bindings.clear()
        self._modules.clear()

    def module(self, path: Path, name: str) -> ModuleInfo:
        """Return the index of a file that is imported as `name`. Raises UnreadableError."""
        self.go_on()
        key = path, name
        stamp = self.disk.stamp(path)
        digest = stamp.sha256 if stamp is not None else ""
        if key not in self._modules or self._modules[key][0] != digest or not digest:
            found: ModuleInfo | str
            try:
                source = parse(path, self.disk.text(path), digest) if digest else read(path)
                if self.edited and not source.cells:
                    found = build_edited(source, name, self._before.pop(key, None))
                    self._before[key] = found
                else:
                    found = build_module(source, name)
            except UnreadableError as error:
                found = str(error)
            except RecursionError:
                found = "cannot be analysed: nested too deeply"
            self._modules[key] = digest, found
        _, found = self._modules[key]
        if isinstance(found, str):
            raise UnreadableError(found)
        return found


LAZY = "attach_stub"
"""The functions of `lazy_loader` by which a package exports the imports of the stub next to it."""


class Program:
    """The modules that one unit reads, and access to the others.

    `third_party` False leaves every package that is not the user's own opaque, so that findings in own code do not depend
    on the installed packages. Files below `folder`, which the user named, are own code.
    """

    def __init__(
        self,
        root: Path,
        search_path: tuple[Path, ...],
        own_packages: tuple[str, ...] = (),
        *,
        third_party: bool,
        folder: Path | None = None,
        library: Library | None = None,
    ) -> None:
        self.root = root
        self.search_path = search_path
        self.own_packages = own_packages
        self.third_party = third_party
        self.folder = Path(os.path.realpath(folder)) if folder is not None else None
        self.library = library or Library()
        self.skipped: dict[Path, str] = {}
        self.named: set[Path] = set()
        """Files that the user named: own code, wherever they are."""
        self.opened: dict[Path, None] = {}
        """Every file that was read, or only searched."""
        self.lookups: dict[str, Path | None] = {}
        """Every module that was looked up on the search path, and its file."""
        self.answers: dict[tuple[str, str], bool | tuple[str, ...]] = {}
        """Results of queries on whole texts: whether a module mentions a word, with "" whether any registers an operator,
        with IMPORTED the modules that a module imports."""
        self.folders: dict[Path, tuple[str, ...]] = {}
        """The folders that were listed, and the names of their Python files."""
        self._by_name: dict[str, ModuleInfo | None] = {}
        self._by_path: dict[Path, ModuleInfo] = {}
        self._stubs: dict[ModuleInfo, ModuleInfo | None] = {}
        self._places: dict[str, Path | None] = {}
        self._native: dict[str, bool] = {}

    def widened(self) -> Program:
        """Return the same program with third-party packages; nothing is read again."""
        wide = Program(
            self.root, self.search_path, self.own_packages, third_party=True, folder=self.folder, library=self.library
        )
        wide._by_path.update(self._by_path)
        wide.named |= self.named
        return wide

    def shown(self, path: Path) -> str:
        """Return the path of a file as shown in every output."""
        return self.library.disk.shown(str(path), self.root)

    def is_own(self, path: Path) -> bool:
        disk = self.library.disk
        if path in self.named or disk.origin_of(path, self.root, self.own_packages) == "own":
            return True
        return self.folder is not None and holds(self.folder, path)

    def file(self, path: Path) -> ModuleInfo:
        """Return the module of a file the user named. Raises UnreadableError."""
        path = Path(os.path.realpath(path))  # unlike `resolve`, it takes a link to itself
        self.named.add(path)
        if path not in self._by_path:
            name, folder = import_name(path)
            if folder not in self.search_path:
                self.search_path = (folder, *self.search_path)
            if path.parent not in self.search_path:
                self.search_path = (*self.search_path, path.parent)
            self.opened[path] = None
            self._by_path[path] = self.library.module(path, name)
            self._by_name.setdefault(name, self._by_path[path])
        return self._by_path[path]

    def look_beside(self, module: ModuleInfo) -> None:
        """Look for modules in the folder of that one too, after all others: it may be run as a script, or put
        its folder on Python's path."""
        folder = module.path.parent
        if folder not in self.search_path:
            self.search_path = (*self.search_path, folder)

    def module(self, name: str) -> ModuleInfo | None:
        """Return the module of that dotted name, or None if its source is not read or not found."""
        if name not in self._by_name:
            self._by_name[name] = self._load(name)
        return self._by_name[name]

    def reads(self, name: str) -> bool:
        """Return whether a module of that name would be read, without reading it."""
        return self._place(name) is not None

    def files_in(self, folder: Path) -> list[Path]:
        """Return the Python files in a folder."""
        if folder not in self.folders:
            self.folders[folder] = files_in(folder)
        return [folder / name for name in self.folders[folder]]

    def is_package(self, name: str) -> bool:
        """Return whether a dotted name is a package that may be read."""
        path = self._place(name)
        return path is not None and path.name == "__init__.py"

    def imports(self, name: str) -> tuple[str, ...]:
        """Return the modules that module `name` may import, by its text; for a package that imports modules of its
        folder, all of those."""
        text = self.text(name)
        if text is None:
            return ()
        package = self.is_package(name)
        found = [*imports_in(text, name if package else name.rpartition(".")[0], self.is_package)]
        if package and imports_its_files(text):
            files = self.files_in(cast(Path, self._place(name)).parent)
            found += [f"{name}.{each.stem}" for each in files]
        self.answers[IMPORTED, name] = imported = tuple(dict.fromkeys(found))
        return imported

    def come_along(self, *starts: str) -> list[str]:
        """Return the modules imported with `starts`, and the packages around them, except those of installed packages
        without a start. At most ALONG are searched."""
        tops = {each.partition(".")[0] for each in starts}
        found: dict[str, None] = {}
        pending = deque(each for start in starts for each in with_packages(start))
        while pending and len(found) < ALONG:
            name = pending.popleft()
            if name not in found and self._is_near(name, tops) and self.reads(name):
                found[name] = None
                pending.extend(self.imports(name))
        return list(found)

    def _is_near(self, name: str, tops: Collection[str]) -> bool:
        top = name.partition(".")[0]
        if top in tops:
            return True
        path = None if top in sys.stdlib_module_names else self.find(top)
        return path is not None and not is_installed(str(path))

    def text(self, name: str) -> bytes | None:
        """Return the text of a module without parsing it; None if it may not be read."""
        path = self._place(name)
        if path is None:
            return None
        self.opened[path] = None
        return self.library.disk.text(path)

    def mentions(self, name: str, identifier: str) -> bool:
        """Return whether module `name` may bind `identifier`: its text has the word, or passes names on with a star.

        Cheap against parsing: a lazy package stars hundreds of files.
        """
        text = self.text(name)
        if text is None:
            return False
        found = identifier.encode() in text or b"import *" in text or LAZY.encode() in text
        self.answers[name, identifier] = found
        return found

    def speaks_of(self, name: str, word: str) -> bool:
        """Return whether a word occurs in the text of module `name`."""
        found = re.search(rb"\b%s\b" % re.escape(word.encode()), self.text(name) or b"") is not None
        self.answers[SPEAKS + name, word] = found
        return found

    def stub(self, module: ModuleInfo) -> ModuleInfo | None:
        """Return the stub next to a package by which `lazy_loader` imports on demand: it has only imports."""
        if module not in self._stubs:  # asked for each name that a module does not bind, builtins among them
            self._stubs[module] = self._load_stub(module) if LAZY in module.source.text else None
        return self._stubs[module]

    def _load_stub(self, module: ModuleInfo) -> ModuleInfo | None:
        path = module.path.with_suffix(".pyi")
        if not self.library.disk.is_file(path):
            return None
        if path not in self._by_path:
            self.opened[path] = None
            try:
                self._by_path[path] = self.library.module(path, module.name)
            except UnreadableError as error:
                self.skipped[path] = str(error)
        return self._by_path.get(path)

    def find(self, name: str) -> Path | None:
        """Return the file of a module on the search path, own code or not; None if it is not found."""
        if name not in self.lookups:
            self.lookups[name] = self.library.disk.find(name, self.search_path)
        return self.lookups[name]

    def package_of(self, name: str) -> Path | None:
        """Return the file of the outermost package that a module is in; of a namespace package, which has no file, that
        of the module itself. None if neither is found."""
        return self.find(name.partition(".")[0]) or self.find(name)

    def is_native(self, name: str) -> bool:
        """Return whether a dotted name belongs to a compiled extension module of a package that may be read."""
        if name not in self._native:
            self._native[name] = not module_search.is_opaque(name) and self._is_compiled(name.split("."))
        return self._native[name]

    def _is_compiled(self, parts: list[str]) -> bool:
        for count in range(len(parts) - 1, 0, -1):
            package = self._place(".".join(parts[:count]))
            if package is not None:
                return package.name == "__init__.py" and module_search.is_native(package.parent, parts[count:])
        return False

    def _place(self, name: str) -> Path | None:
        """Return the file of a module that may be read, or None."""
        if name not in self._places:
            path = None if not name or module_search.is_opaque(name) else self.find(name)
            self._places[name] = path if path is None or self.third_party or self.is_own(path) else None
        return self._places[name]

    def _load(self, name: str) -> ModuleInfo | None:
        path = self._place(name)
        if path is None:
            return None
        if path in self._by_path:
            return self._by_path[path]
        self.opened[path] = None
        try:
            module = self.library.module(path, name.removesuffix(".__init__"))
        except UnreadableError as error:
            self.skipped[path] = str(error)
            return None
        self._by_path[path] = module
        return module

    def registers_fake(self, operator: str) -> bool:
        """Return whether a module read so far registers a fake kernel of `namespace::name`."""
        registration = re.compile(
            r"(?:register_fake|impl_abstract|triton_op)\(\s*[\"']" + re.escape(operator) + r"[\"']"
        )
        texts = [module.source.text for module in self.modules()]
        found = any(map(registration.search, texts))
        names = [] if found else [name for m in self.modules() for name in _names_of_operator(m.source, operator)]
        if names:  # the name of the function identifies the result of `custom_op`
            any_name = rf"(?:{'|'.join(names)})\b"
            by_object = re.compile(rf"\b{any_name}\.register_fake\b|\bregister_fake\(\s*(?:[\w.]+\.)?{any_name}")
            found = any(map(by_object.search, texts))
        self.answers["", operator] = found
        return found

    def answer(self, name: str, wanted: str) -> bool | tuple[str, ...]:
        """Return the current value of such an entry of `answers`."""
        if name == IMPORTED:
            return self.imports(wanted)
        if name.startswith(SPEAKS):
            return self.speaks_of(name.removeprefix(SPEAKS), wanted)
        return self.mentions(name, wanted) if name else self.registers_fake(wanted)

    def modules(self) -> list[ModuleInfo]:
        """Return every module read so far."""
        return list(self._by_path.values())

    def entries(self) -> list[ModuleInfo]:
        """Return the modules that are read for their own sake: those of named files, else the first."""
        named = [module for path, module in self._by_path.items() if path in self.named]
        return named or self.modules()[:1]
