"""Names: what a module binds, what an import provides, and how certain it is that code runs by default."""

from __future__ import annotations

import ast
import builtins
import sys
from typing import cast

from tcready.static.domain.scope import Frame
from tcready.static.domain.values import (
    NONE,
    UNKNOWN,
    Class,
    Const,
    External,
    ExternalInstance,
    Function,
    Instance,
    Mapping,
    Module,
    Sequence,
    Unknown,
    Value,
    brought_in,
    escaped,
    join,
    options,
    prefer,
)
from tcready.static.frontend.index import Binding, ClassInfo, FunctionInfo, Guard, Import, ModuleInfo
from tcready.static.frontend.module_search import is_opaque
from tcready.static.interp.interfaces import Component, Engine
from tcready.static.library import semantics as K  # noqa: N812
from tcready.static.summaries import call_statistics

BUILTINS = frozenset(vars(builtins))
IMPORT_DEPTH = 8
"""The call level at which code run at import starts, so that few calls are followed there."""


class NameComponent(Component):
    """Names: what a module binds, what an import brings."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._module_frames: dict[ModuleInfo, Frame] = {}
        self._globals: dict[tuple[ModuleInfo, str], Value] = {}
        self._busy: set[tuple[ModuleInfo, str]] = set()
        """Names that are being evaluated."""
        self._starred: dict[tuple[ModuleInfo, str], ModuleInfo | None] = {}

    def module_frame(self, module: ModuleInfo) -> Frame:
        """Return the frame of the code that a module runs at import."""
        if module not in self._module_frames:
            self._module_frames[module] = Frame(module, None, -1, {}, depth=IMPORT_DEPTH)
        return self._module_frames[module]

    def ask(self, module: ModuleInfo) -> None:
        """A model that a module makes at import was requested: it is followed as deep as any other."""
        self._module_frames[module] = Frame(module, None, -1, {})

    def resolve_name(self, name: str, frame: Frame) -> Value:
        """Return the value of a bare name: a variable, a name of the module, a builtin."""
        env = frame.env
        found = env[name] if name in env and not frame.outside else frame.lookup(name)
        if found is None:
            found = self.global_value(frame.module, name)
        if found is None and name == "__name__":
            found = Const(frame.module.name)
        if found is None and name == "__package__":
            module = frame.module
            found = Const(module.name if module.is_package else module.name.rpartition(".")[0])
        if found is None:
            found = External(name) if name in BUILTINS else UNKNOWN
        return found

    def global_value(self, module: ModuleInfo, name: str) -> Value | None:
        """Return the value of a top-level name of a module; None if the module has no such name."""
        key = (module, name)
        if self.engine.replay is not None:
            self.engine.replay.named(module, name)
        known = self._globals.get(key)
        if known is not None:
            return known
        if key in self._busy:
            return External(name) if name in BUILTINS else UNKNOWN  # `str = str`
        found = module.bindings.get(name) or module.switched.get(name)
        if found is None:
            source = self._by_stub(module, name) or self._through_stars(module, name)
            value = self.global_value(source, name) if source is not None else None
            if value is not None:
                self._globals[key] = value
                return value
            outside = self._outside_stars(module, name) if name not in BUILTINS else None
            if outside is not None:
                self._globals[key] = outside
                return outside
            if any(not self.engine.program.reads(star) for star in module.stars) and name not in BUILTINS:
                return UNKNOWN
            annotation = module.annotations.get(name)
            return UNKNOWN if annotation is not None else None
        self._busy.add(key)
        try:
            with self.engine.outside_trace():
                value = self._bound_to(module, self._reached_bindings(module, name, found))
                if self.engine.forks.pass_by(self.module_frame(module)) is not None:
                    value = prefer(value, self._bound_to(module, found))  # elsewhere it goes the other way
        finally:
            self._busy.discard(key)
        for binding in module.switched.get(name, ()):
            value = prefer(value, self._binding(module, binding) or UNKNOWN)
        self._globals[key] = value
        if isinstance(value, (Mapping, Sequence, Instance, ExternalInstance)):
            self.engine.classes.register_into(module, name, value)
        return self._globals[key]

    def _bound_to(self, module: ModuleInfo, found: list[Binding]) -> Value:
        """Return the value of a name with one of these bindings."""
        values = [v for v in (self._binding(module, b) for b in found) if v is not None]
        sure = [v for v in values if not isinstance(v, Unknown)]
        callables = [v for v in sure if v != NONE]
        value = join(*(callables or sure or values or [UNKNOWN]))
        if NONE in sure and any(isinstance(b, Import) and self.is_missing(b.module) for b in found):
            return join(value, NONE)
        return value

    def _reached_bindings(self, module: ModuleInfo, name: str, found: list[Binding]) -> list[Binding]:
        """Return the possible bindings of a module's name that its import reaches: not those in the other branch of a
        decided test, nor after the import of a missing package. All if none is left."""
        guards = module.guards.get(name, [])
        if len(found) < 2 or not any(guards):
            return found
        under = [*guards, *((),) * (len(found) - len(guards))]
        left = [
            binding
            for binding, each in zip(found, under, strict=True)
            if all(self._may_hold(guard, module) for guard in each)
        ]
        return left or found

    def _may_hold(self, guard: Guard, module: ModuleInfo) -> bool:
        if guard.test is None:
            return not guard.holds or not any(map(self.is_missing, guard.imports))
        answer = self.engine.truth.answer(self.engine.expressions.eval(guard.test, self.module_frame(module)))
        usual = answer.likely if answer.decided is None else answer.decided
        return usual is None or usual == guard.holds

    def is_missing(self, module: str) -> bool:
        """Return whether a package is not installed with torch: its absence is expected."""
        program = self.engine.program
        if module.partition(".")[0] in sys.stdlib_module_names or program.package_of(module) is not None:
            return False
        return program.find("torch") is not None

    def rebind(self, module: ModuleInfo, name: str, value: Value) -> None:
        """Bind a top-level name to another value while the module is imported."""
        if not self.engine.untraced or (module, name) not in self._globals:
            return
        self.engine.heap.changes.count += 1
        self.engine.heap.changes.elsewhere += 1
        places = [(module, name)]
        for place in places:
            self._globals[place] = escaped(value)
            # what is imported is the very table of the other module
            if isinstance(value, (Mapping, Sequence)):
                origins = map(self._origin, place[0].bindings.get(place[1], ()))
                places += [each for each in origins if each in self._globals and each not in places]

    def _origin(self, binding: Binding) -> tuple[ModuleInfo, str] | None:
        """Return the name of another module that a name is imported from."""
        if not isinstance(binding, Import) or binding.name is None:
            return None
        module = self.engine.program.module(binding.module)
        return None if module is None else (module, binding.name)

    def _by_stub(self, module: ModuleInfo, name: str) -> ModuleInfo | None:
        """Return the stub that binds a name which a package imports on demand."""
        stub = self.engine.program.stub(module)
        return stub if stub is not None and name in stub.bindings else None

    def _through_stars(self, module: ModuleInfo, name: str) -> ModuleInfo | None:
        """Return the module that binds a name which another imports by `from ... import *`, through any number of
        stars."""
        key = module, name
        if key not in self._starred:
            program = self.engine.program
            seen = {module}
            pending = list(reversed(module.stars))
            found: ModuleInfo | None = None
            while pending and found is None:
                star = pending.pop()
                source = program.module(star) if program.mentions(star, name) else None
                if source is None or source in seen:
                    continue
                seen.add(source)
                if not source.exports(name):
                    continue
                found = source if name in source.bindings else self._by_stub(source, name)
                pending.extend(reversed(source.stars))
            self._starred[key] = found
        return self._starred[key]

    def _outside_stars(self, module: ModuleInfo, name: str) -> External | None:
        """Return the value that `from torch.nn import *` binds, through any number of stars: a name in torch's tables. A
        name that no known star binds comes from the only star over a compiled module, if there is one."""
        program = self.engine.program
        seen = {module}
        pending = list(reversed(module.stars))
        compiled: dict[str, None] = {}
        while pending:
            star = pending.pop()
            if self.engine.operations.is_known(f"{star}.{name}"):
                return External(f"{star}.{name}")
            if not name.startswith("_") and not program.reads(star) and program.is_native(f"{star}.{name}"):
                compiled[star] = None
            source = program.module(star) if program.mentions(star, name) else None
            if source is not None and source not in seen and source.exports(name):
                seen.add(source)
                pending.extend(reversed(source.stars))
        return External(f"{next(iter(compiled))}.{name}") if len(compiled) == 1 else None

    def _binding(self, module: ModuleInfo, binding: object) -> Value | None:
        frame = self.module_frame(module)
        if isinstance(binding, FunctionInfo):
            return self.engine.functions.apply_decorators(binding, frame)
        if isinstance(binding, ClassInfo):
            self.engine.classes.decorate_class(binding)
            return Class(binding)
        if isinstance(binding, Import):
            return self.resolve_import(binding, module)
        return escaped(self.engine.expressions.eval(cast(ast.expr, binding), frame))

    def resolve_import(self, item: Import, module: ModuleInfo) -> Value:
        """Return the value that an import of `module` binds; an external name if its source is not read."""
        found = self.engine.program.module(item.module)
        if found is None:
            self._note_missing(item.module, module)
        return self._bound(item, found)

    def _note_missing(self, name: str, importer: ModuleInfo) -> None:
        root = name.partition(".")[0]
        if not root or is_opaque(root) or self.engine.program.package_of(name) is not None:
            return
        if self.engine.replay is not None and not self._busy:  # else it is emitted again when that name is read
            self.engine.replay.outside += 1
        self.engine.gaps[str(importer.path), importer.imported_at.get(root, 1), 0] = call_statistics.missing(root)

    def _bound(self, item: Import, module: ModuleInfo | None) -> Value:
        if item.name is None:
            return Module(module) if module else External(item.module)
        value = self.module_member(module, item.name) if module is not None else None
        if value is not None:
            return value
        inner = self.engine.program.module(f"{item.module}.{item.name}") if module is None else None
        if inner is not None:
            return Module(inner)
        if module is not None:
            return UNKNOWN
        return K.external_attribute(f"{item.module}.{item.name}", self.engine.operations.tables.version)

    def module_member(self, module: ModuleInfo, name: str) -> Value | None:
        """`module.name`: what the module binds, else its submodule, else what its star imports bring.

        A star over the submodule itself that brings that name comes before: it takes the place of the submodule."""
        own = Import(module.name, name)  # `from . import name` in the package itself
        if module.is_package and all(binding == own for binding in module.bindings.get(name, ())):
            inner = self.engine.program.module(f"{module.name}.{name}")
            if inner is not None and not (
                inner.name in module.stars and name in inner.bindings and inner.exports(name)
            ):
                return Module(inner)
        value = self.global_value(module, name)
        return self._module_getattr(module, name) if value is None else value

    def _module_getattr(self, module: ModuleInfo, name: str) -> Value | None:
        """Return the result of a module's `__getattr__` for a name that it does not bind."""
        key = (module, name)
        if "__getattr__" not in module.bindings or key in self._busy or name.startswith("__"):
            return None
        if key not in self._globals:
            getter = self.global_value(module, "__getattr__")
            self._busy.add(key)
            try:
                with self.engine.outside_trace():
                    found = [
                        self.engine.functions.invoke(option, (Const(name),), {}, self.module_frame(module))
                        for option in options(getter or UNKNOWN)
                        if isinstance(option, Function)
                    ]
            finally:
                self._busy.discard(key)
            self._globals[key] = brought_in(join(*found)) if found else UNKNOWN
        return self._globals[key]
