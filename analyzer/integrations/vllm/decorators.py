"""Find the classes that an engine's decorators compile, from sources: applied in any spelling, and inherited.

`support_torch_compile` replaces `__init__` and `__call__` of a class, so that its children are compiled too;
`ignore_torch_compile` sets an attribute that children inherit, and that a later `support_torch_compile` undoes. Uses of
either that cannot be read are reported as such. Only files that name a decorator, or a decorated class, are parsed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tcready.schema.serving import ServedClass
from tcready.static.domain.mro import linearise
from tcready.static.domain.scope import last_name
from tcready.static.frontend.index import (
    Binding,
    ClassInfo,
    FunctionInfo,
    Import,
    ModuleInfo,
    build_class,
    build_module,
)
from tcready.static.frontend.source import Source

DECORATOR, IGNORED = "support_torch_compile", "ignore_torch_compile"
DIMENSIONS, CONDITION = "dynamic_arg_dims", "enable_if"
TENSORS = ("Tensor", "IntermediateTensors")
"""Types of arguments with a first dimension that is dynamic by default."""
LOCAL = "<locals>."
"""Prefix of the symbol of a class inside a function."""
SPREAD = "**"
"""The key of options that are given as a mapping."""
Options = Mapping[str, ast.expr]
Bound = tuple[ModuleInfo, Binding]


@dataclass(frozen=True)
class Text:
    """A file: its display path, the name by which it is imported, and its content."""

    shown: str
    name: str
    text: str


@dataclass(frozen=True)
class Decorated:
    """The classes that are compiled, excluded, or not readable, and other decorations that were not read."""

    classes: tuple[ServedClass, ...]
    unread: tuple[str, ...]


@dataclass(frozen=True)
class _Reading:
    """The effect of an expression on the class that it is applied to."""

    kind: Literal["compiles", "ignores", "unread"]
    text: str
    options: tuple[tuple[str, ast.expr], ...] = ()
    home: ModuleInfo | None = None
    """The module that contains the options."""


def find_decorated(texts: Mapping[str, Text]) -> Decorated:
    """Return the classes that the named decorators compile in these files."""
    reader = _Reader(texts)
    reader.read()
    return Decorated(tuple(reader.served()), tuple(dict.fromkeys(reader.unread())))


class _Reader:
    """The modules that were parsed, and the known names of decorators and decorated classes."""

    def __init__(self, texts: Mapping[str, Text]) -> None:
        self.texts = texts
        self.modules: dict[str, ModuleInfo | None] = {}
        self.infos: dict[ast.ClassDef, ClassInfo] = {}
        self.local: dict[tuple[str, str], list[ClassInfo]] = {}
        """Classes inside functions, by their module and name."""
        self.decorators = {DECORATOR, IGNORED}
        self.classes: set[str] = set()
        self.later: dict[ast.ClassDef, list[_Reading]] = {}
        """Effects that are applied to classes by a call that is not a decoration."""
        self.applied: set[ast.AST] = set()
        """The calls that apply them."""
        self.busy: set[ast.AST] = set()

    def read(self) -> None:
        """Parse files that name a known decorator or class, until no file adds another."""
        looked_for: set[str] = set()
        while new := (self.decorators | self.classes) - looked_for:
            for name, file in self.texts.items():
                if name not in self.modules and any(word in file.text for word in new):
                    self.module(name)
            looked_for |= new
            self._learn()

    def module(self, name: str) -> ModuleInfo | None:
        """Return the module of that name, None if it is not among the files or does not parse."""
        if name not in self.modules:
            self.modules[name] = None
            file = self.texts.get(name)
            if file is not None:
                try:
                    tree = ast.parse(file.text)
                    # Relative imports start from a package, which its file name shows.
                    path = Path(file.shown)
                    self.modules[name] = module = build_module(Source(path, file.text, tree, ""), name)
                    for info in _all_classes(module):
                        self.infos[info.node] = info
                        if info.symbol.startswith(LOCAL):
                            self.local.setdefault((name, info.name), []).append(info)
                except (SyntaxError, ValueError, RecursionError, MemoryError):
                    pass  # whoever reads the file for its operators says so
        return self.modules[name]

    def _parsed(self) -> list[ModuleInfo]:
        return [module for module in self.modules.values() if module is not None]

    def _learn(self) -> None:
        """Add the names under which other modules know decorators, and classes to which they were applied."""
        self.later, self.applied = {}, set()
        for module in self._parsed():
            for local, bindings in module.bindings.items():
                for binding in bindings:
                    if _names(binding, self.decorators):
                        self.decorators.add(local)
                    if not isinstance(binding, FunctionInfo) and _names(binding, self.classes):
                        self.classes.add(local)
        for module in self._parsed():
            self._apply(module)
        for info in list(self.infos.values()):
            if info.name not in self.classes and self._decoration(info) is not None:
                self.classes.add(info.name)

    # What names and expressions mean

    def _bound(self, module: ModuleInfo, name: str, seen: frozenset[tuple[str, str]] = frozenset()) -> Iterator[Bound]:
        """Return what a top-level name of a module is bound to, through imports if the files exist."""
        if (module.name, name) in seen:
            return
        seen |= {(module.name, name)}
        for binding in module.bindings.get(name, ()):
            if isinstance(binding, Import) and binding.name not in (None, DECORATOR, IGNORED):
                home = self.module(binding.module)
                found = list(self._bound(home, str(binding.name), seen)) if home is not None else []
                yield from found or [(module, binding)]
            else:
                yield module, binding
        if name not in module.bindings:
            for star in module.stars:
                if (home := self.module(star)) is not None:
                    yield from self._bound(home, name, seen)

    def _lookup(self, node: ast.expr, module: ModuleInfo) -> Iterator[Bound]:
        """Return what a dotted name is bound to."""
        parts = _dotted(node)
        for home, binding in self._bound(module, parts[0]) if parts else ():
            if len(parts) == 1:
                yield home, binding
            elif isinstance(binding, ClassInfo):
                inner: ClassInfo | None = binding
                for part in parts[1:]:
                    inner = inner.inner.get(part) if inner is not None else None
                if inner is not None:
                    yield home, inner
            elif isinstance(binding, Import):
                prefix = binding.module if binding.name is None else f"{binding.module}.{binding.name}"
                package = self.module(".".join([prefix, *parts[1:-1]]))
                if package is not None:
                    yield from self._bound(package, parts[-1])

    def _reading(self, node: ast.expr, module: ModuleInfo) -> _Reading | None:
        """Return the effect of an expression on a class, None if it is not one of the decorators."""
        if node in self.busy or not _mentions(node, self.decorators):
            return None
        self.busy.add(node)
        try:
            text = ast.unparse(node)
            unread = _Reading("unread", text)
            if isinstance(node, (ast.Name, ast.Attribute)):
                return self._of_name(node, module, unread)
            if not isinstance(node, ast.Call):
                return unread
            partial = last_name(node.func) == "partial" and bool(node.args)
            inner = self._reading(node.args[0] if partial else node.func, module)
            if inner is None:
                return None if self._is_application(node, module) else unread
            if len(node.args) > partial:
                return None if self._is_application(node, module) else unread
            if inner.kind != "compiles":
                return unread
            options = {**dict(inner.options), **{each.arg or SPREAD: each.value for each in node.keywords}}
            return _Reading("compiles", text, tuple(options.items()), module)
        finally:
            self.busy.discard(node)

    def _of_name(self, node: ast.Name | ast.Attribute, module: ModuleInfo, unread: _Reading) -> _Reading | None:
        name = last_name(node)
        found = list(self._lookup(node, module))
        imported = {b.name for _, b in found if isinstance(b, Import)} & {DECORATOR, IGNORED}
        if len(imported) == 1:  # whatever stands in for it where the engine is not installed
            name = str(imported.pop())
        if name in (DECORATOR, IGNORED):
            return _Reading("compiles" if name == DECORATOR else "ignores", unread.text, (), module)
        readings: list[_Reading | None] = []
        for home, binding in found:
            if isinstance(binding, FunctionInfo):
                readings.append(unread if _mentions(binding.node, self.decorators) else None)
            elif isinstance(binding, ast.expr):
                readings.append(self._reading(binding, home))
        some = [each for each in readings if each is not None]
        return some[0] if len(some) == len(readings) == 1 else unread if some else None

    def _is_application(self, node: ast.Call, module: ModuleInfo) -> bool:
        """Return True if a call passes a class to a decorator: its result is that class, not a decorator."""
        return len(node.args) == 1 and any(isinstance(b, ClassInfo) for _, b in self._lookup(node.args[0], module))

    def _apply(self, module: ModuleInfo) -> None:
        """Record the calls that pass a class to a decorator; conditional ones are not read."""
        straight = {
            each.value for each in module.source.tree.body if isinstance(each, (ast.Assign, ast.AnnAssign, ast.Expr))
        }
        for node in ast.walk(module.source.tree):
            if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
                continue
            reading = self._reading(node.func, module)
            if reading is None:
                continue
            for _, cls in self._lookup(node.args[0], module):
                if isinstance(cls, ClassInfo):
                    sure = reading if node in straight else _Reading("unread", ast.unparse(node))
                    self.later.setdefault(cls.node, []).append(sure)
                    self.applied.add(node)

    # Classes

    def _order(self, info: ClassInfo, every: bool = False) -> tuple[list[ClassInfo], str]:
        """Return the classes above one, itself first, as far as these files contain them; and a base that is not
        read. Unless `every` is set, bases with a name that nothing decorated has are skipped."""
        bases: dict[ClassInfo, list[ClassInfo | str]] = {}
        unread, pending = "", [info]
        while pending:
            current = pending.pop()
            if current in bases:
                continue
            bases[current] = []
            for node in current.node.bases:
                named = node.value if isinstance(node, ast.Subscript) else node
                if not every and not _mentions(named, self.classes):
                    continue
                found = [b for _, b in self._lookup(named, current.module) if isinstance(b, ClassInfo)]
                found = found or self.local.get((current.module.name, last_name(named)), [])
                dynamic = not isinstance(named, (ast.Name, ast.Attribute)) and _mentions(named, self.classes)
                if not found and dynamic:
                    unread = unread or ast.unparse(node)
                bases[current] += found[-1:]
                pending += found[-1:]
        return linearise(info, bases)[0], unread

    def _own(self, info: ClassInfo) -> list[_Reading]:
        """Return what is applied to a class, the last first."""
        readings = [self._reading(each, info.module) for each in reversed(info.node.decorator_list)]
        return [*filter(None, readings), *self.later.get(info.node, ())][::-1]

    def _decoration(self, info: ClassInfo) -> tuple[_Reading, ClassInfo, bool] | None:
        """Return what compiles a class, or was not read, the class that it is on, and whether compiling is undone."""
        order, unread_base = self._order(info)
        ignored: bool | None = None
        for cls in order:
            for reading in self._own(cls):
                if reading.kind == "ignores":
                    ignored = True if ignored is None else ignored
                else:
                    return reading, cls, bool(ignored)
        return (_Reading("unread", unread_base), info, bool(ignored)) if unread_base else None

    def served(self) -> Iterator[ServedClass]:
        """Return the classes that are compiled, excluded, or not readable."""
        for info in list(self.infos.values()):
            found = self._decoration(info)
            if found is None:
                continue
            reading, home, ignored = found
            order = self._order(info, every=True)[0]
            dims, unread_dims = self._dimensions(reading, home, order)
            options = dict(reading.options)
            condition = options.get(CONDITION, options.get(SPREAD))
            yield ServedClass(
                info.name,
                str(info.module.path),
                info.node.lineno,
                dims,
                "" if condition is None or _is_none(condition) else ast.unparse(condition),
                ignored,
                home.name if home is not info else "",
                tuple(each.name for each in order[1:]),
                unread_dims,
                reading.text if reading.kind == "unread" else "",
            )

    def unread(self) -> Iterator[str]:
        """Return what was not read of decorations, in a few words each."""
        for each in self.served():
            place = f"{each.path}:{each.line} {each.name}"
            if each.unread and not each.inherits:
                yield f"{place}: whether it is compiled is decided as it runs: {each.unread}"
            if each.dynamic_unread and not each.inherits:
                yield f"{place}: {DIMENSIONS} is decided as it runs: {each.dynamic_unread}"
        for module in self._parsed():
            tops = [*self.applied]
            tops += [each for info in self.infos.values() if info.module is module for each in info.node.decorator_list]
            for bindings in module.bindings.values():
                for binding in bindings:
                    if isinstance(binding, ast.expr) and (reading := self._reading(binding, module)) is not None:
                        tops += [binding] if reading.kind != "unread" else []
            understood = {node for top in tops for node in ast.walk(top)}
            for node in ast.walk(module.source.tree):
                if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
                    continue
                if node in understood or last_name(node) not in self.decorators:
                    continue
                imported = {b.name for _, b in self._lookup(node, module) if isinstance(b, Import)}
                if {DECORATOR, IGNORED} & {last_name(node), *imported}:
                    yield f"{module.path}:{node.lineno}: what {ast.unparse(node)} is used for"

    # Dimensions

    def _dimensions(
        self, reading: _Reading, home: ClassInfo, order: list[ClassInfo]
    ) -> tuple[tuple[tuple[str, str], ...], str]:
        """Return arguments with their dynamic dimensions, and those that were not read. A child's arguments of other
        names are not marked."""
        if reading.kind == "unread":
            return (), ""
        options = dict(reading.options)
        given = options.get(DIMENSIONS, options.get(SPREAD))
        if given is None or _is_none(given):
            found = _inferred(_forward(self._order(home, every=True)[0]))
        else:
            read = self._items(given, reading.home or home.module) if DIMENSIONS in options else None
            if read is None:
                return (), ast.unparse(given)
            found = read
        forward = _forward(order)
        if forward is None or home is order[0]:
            return found, ""
        names = {each.arg for each in _arguments(forward)}
        return tuple(each for each in found if each[0] in names), ""

    def _items(self, node: ast.expr, module: ModuleInfo) -> tuple[tuple[str, str], ...] | None:
        """Return the entries of a mapping display; None if it is not one."""
        if isinstance(node, ast.Dict):
            pairs = list(zip(node.keys, node.values, strict=True))
            if all(isinstance(key, ast.Constant) for key, _ in pairs):
                return tuple((str(getattr(key, "value", "")), ast.unparse(value)) for key, value in pairs)
        elif isinstance(node, ast.Call) and last_name(node.func) == "dict" and not node.args:
            if all(each.arg for each in node.keywords):
                return tuple((str(each.arg), ast.unparse(each.value)) for each in node.keywords)
        elif isinstance(node, (ast.Name, ast.Attribute)) and node not in self.busy:
            self.busy.add(node)
            found = list(self._lookup(node, module))
            read = None
            if len(found) == 1 and isinstance(found[0][1], ast.expr):
                read = self._items(found[0][1], found[0][0])
            self.busy.discard(node)
            return read
        return None


def _all_classes(module: ModuleInfo) -> Iterator[ClassInfo]:
    """Return every class of a module, including those in functions."""
    known: dict[ast.ClassDef, ClassInfo] = {}
    pending = [b for bindings in module.bindings.values() for b in bindings if isinstance(b, ClassInfo)]
    while pending:
        info = pending.pop()
        known[info.node] = info
        pending += info.inner.values()
    for node in ast.walk(module.source.tree):
        if isinstance(node, ast.ClassDef):
            yield known.get(node) or build_class(module, node, f"{LOCAL}{node.name}")


def _names(binding: Binding, words: set[str]) -> bool:
    """Return True if a name may be bound to something with one of these names."""
    if isinstance(binding, Import):
        return binding.name in words
    if isinstance(binding, FunctionInfo):
        return _mentions(binding.node, words)
    kinds = (ast.Name, ast.Attribute, ast.Call, ast.Lambda, ast.IfExp, ast.BoolOp)
    return isinstance(binding, kinds) and _mentions(binding, words)


def _mentions(node: ast.AST, words: set[str]) -> bool:
    return any(isinstance(each, ast.expr) and last_name(each) in words for each in ast.walk(node))


def _dotted(node: ast.expr) -> list[str]:
    """Return the parts of `a.b.c`; empty if it is not such a name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else []


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _forward(order: list[ClassInfo]) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    for info in order:
        for function in info.functions.get("forward", ())[-1:]:
            if not isinstance(function.node, ast.Lambda):
                return function.node
    return None


def _arguments(forward: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    return [*forward.args.posonlyargs, *forward.args.args, *forward.args.kwonlyargs]


def _inferred(forward: ast.FunctionDef | ast.AsyncFunctionDef | None) -> tuple[tuple[str, str], ...]:
    """Return the first dimension of each argument that is annotated as a tensor, or as an optional one."""
    arguments = _arguments(forward) if forward is not None else []
    return tuple((each.arg, "0") for each in arguments if each.annotation and _is_tensor(each.annotation))


def _is_tensor(annotation: ast.expr) -> bool:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            return _is_tensor(ast.parse(annotation.value, mode="eval").body)
        except SyntaxError:
            return False
    if isinstance(annotation, ast.Subscript) and last_name(annotation.value) in ("Optional", "Union"):
        inside = annotation.slice
        parts = inside.elts if isinstance(inside, ast.Tuple) else [inside]
    elif isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        parts = [annotation.left, annotation.right]
    else:
        return last_name(annotation) in TENSORS
    kinds = [each for each in parts if not _is_none(each)]
    return len(kinds) == 1 and _is_tensor(kinds[0])
