"""From a unit's names to the interpreted code: the compiled entries, and one interpretation of them over a program."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import cast

from tcready.portable.input_conventions import FACTORIES
from tcready.portable.target import Target
from tcready.schema.compile_call import CompileCall
from tcready.schema.enums import TcreadyError
from tcready.static.diagnostics import suggestions
from tcready.static.diagnostics.break_effect import BreakEffects
from tcready.static.diagnostics.call_graph import CallGraph, CallPath
from tcready.static.diagnostics.compile_calls import Compiled, compiled_values
from tcready.static.diagnostics.cst_view import Concrete
from tcready.static.diagnostics.dynamo_settings import NESTED, DynamoSettings, settings_of
from tcready.static.diagnostics.input_cases import Giving, cases_in, giving
from tcready.static.diagnostics.shadowed_breaks import ShadowedBreaks, Site
from tcready.static.domain.values import UNKNOWN, Class, Function, Instance, Unknown, Value, join, lift, options
from tcready.static.frontend import module_search
from tcready.static.frontend.index import ClassInfo, FunctionInfo, ModuleInfo, Program
from tcready.static.frontend.source import UnreadableError, check_compiles, nodes_in
from tcready.static.interp.interfaces import CallSite, Case
from tcready.static.interp.interpreter import Interpreter
from tcready.static.units import Unit

NAMES = "_names"
"""The attribute of a class's node that holds the bare names in it."""
LIGHTNING_STEPS = ("training_step", "validation_step", "test_step", "predict_step")
NOT_READ = "the sources of torch, and what is no Python, are not read: name code of another package"
_INNER_CLASS = re.compile(r"^[ \t]+class\b", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """One thing to analyse: a class or function as the user would compile it."""

    target: str
    module: ModuleInfo
    name: str | None
    """None for every nn.Module of the file."""
    is_in_folder: bool = False
    """It was not named itself, but found in a folder."""


@dataclass(frozen=True)
class Analysis:
    """An interpreted entry: where it starts, and the module object it starts from."""

    target: str
    entry: int
    root: Instance | None
    is_read: bool = True
    """Whether the source of the compiled code was found."""
    compiled_at: CompileCall | None = None
    """The call of the user's code that compiles it; None if there is none."""


def entries(unit: Unit, program: Program, skipped: dict[Path, str]) -> Iterator[Entry]:
    """Yield the unit's entry; none if its file cannot be read, which is then in `skipped` with the reason."""
    if unit.path is not None:
        try:
            module = program.file(unit.path)
            check_compiles(module.source)
        except UnreadableError as error:
            skipped[unit.path] = str(error)
            return
        whole = Entry(unit.target, module, None, is_in_folder=unit.folder is not None)
        yield whole if unit.name is None else _resolve_name(unit, module)
        return
    found = program.module(unit.module)
    if found is not None:
        program.look_beside(found)
    if found is None:
        if program.find(unit.module) is None:
            hint = suggestions.for_module(unit.module, unit.name or "", program.root)
            raise TcreadyError(f"{unit.target}: no module {unit.module!r} on the search path; {hint}")
        reason = next(iter(program.skipped.values()), NOT_READ)
        raise TcreadyError(f"{unit.target}: {reason}")
    yield _resolve_name(unit, found)


def _resolve_name(unit: Unit, module: ModuleInfo) -> Entry:
    name = unit.name or ""
    makers = [function for function, cls in makers_of(module) if cls.name == name]
    if name.split(".")[0] not in module.bindings and len(makers) == 1:
        return Entry(unit.target, module, makers[0].name)
    if name.split(".")[0] not in module.bindings and not module.stars:
        known = [n for n, b in module.bound().items() if any(isinstance(x, (ClassInfo, FunctionInfo)) for x in b)]
        shown = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
        more = [suggestions.near_name(name.split(".")[0], known), f"it has {shown}" if shown else ""]
        raise TcreadyError("; ".join([f"{unit.target}: no {name!r} in {module.path.name}", *filter(None, more)]))
    return Entry(unit.target, module, name)


def near_method(name: str, module: ModuleInfo) -> str:
    """`; did you mean GPT.generate?`, if a class of the module has a method that is called almost as `name` says."""
    owner, _, method = name.rpartition(".")
    found = (binding for binding in module.bindings.get(owner, ()) if isinstance(binding, ClassInfo))
    hint = suggestions.near_name(method, [each for cls in found for each in cls.functions])
    return f"; {hint.replace('did you mean ', f'did you mean {owner}.')}" if hint else ""


def makers_of(module: ModuleInfo) -> Iterator[tuple[FunctionInfo, ast.ClassDef]]:
    """Yield the top-level functions that a class with a `forward` is defined in, each with that class."""
    if not _INNER_CLASS.search(module.source.text):  # the text is quick to search
        return
    for found in module.bound().values():
        for binding in found:
            if isinstance(binding, FunctionInfo):
                for node in nodes_in(binding.node):
                    if isinstance(node, ast.ClassDef) and any(
                        isinstance(each, ast.FunctionDef) and each.name == "forward" for each in node.body
                    ):
                        yield binding, node


def uses_third_party(program: Program) -> bool:
    """Return whether the code imports an installed package, not the user's own, that can be followed."""
    imported = {
        name
        for module in program.modules()
        for found in module.bound().values()
        for binding in found
        if (name := getattr(binding, "module", None)) and isinstance(name, str)
    }.union(*(module.stars for module in program.modules()))
    return any(
        not module_search.is_opaque(name)
        and (path := program.package_of(name)) is not None
        and not program.is_own(path)
        for name in sorted(imported)
    )


class Interpretation:
    """Every entry interpreted over one Program, and what follows from it."""

    def __init__(self, interpreter: Interpreter, entries: Sequence[Entry]) -> None:
        self.interpreter = interpreter
        self.analyses: list[Analysis] = []
        self.warnings: list[str] = []
        self._concrete: dict[str, Concrete] = {}
        for entry in entries:
            try:
                self.analyses.extend(self._analyse(entry))
            except RecursionError:
                self.warnings.append(f"{entry.target}: nested too deeply to be analysed whole")

    @cached_property
    def graph(self) -> CallGraph:
        return CallGraph(self.interpreter)

    @cached_property
    def settings(self) -> DynamoSettings:
        """Return the Dynamo settings of the files that were read."""
        return settings_of(self.interpreter, [analysis.root for analysis in self.analyses])

    @cached_property
    def break_effects(self) -> BreakEffects:
        entries = [analysis.entry for analysis in self.analyses]
        return BreakEffects(self.interpreter, entries, nested=NESTED in self.settings.flags)

    @cached_property
    def ways(self) -> tuple[Mapping[int, CallPath], ...]:
        """For every analysis, a shortest way to each context that it reaches; several may reach one."""
        return tuple(self.graph.ways(analysis.entry) for analysis in self.analyses)

    def compile_calls(self, contexts: Iterable[int]) -> tuple[CompileCall | None, ...]:
        """Return the calls of the user's code that compile what runs in one of these contexts, each once; None for
        entries that it does not compile."""
        wanted = set(contexts)
        return tuple(
            dict.fromkeys(
                analysis.compiled_at
                for analysis, reached in zip(self.analyses, self.ways, strict=True)
                if not wanted.isdisjoint(reached)
            )
        )

    def shadowed(self, sites: Iterable[Site]) -> ShadowedBreaks:
        """Return those of these breaks that Dynamo does not reach."""
        return ShadowedBreaks(self.interpreter, self.break_effects, [a.entry for a in self.analyses], sites)

    def concrete(self, path: str) -> Concrete:
        """Return the concrete syntax of an analysed file."""
        if path not in self._concrete:
            sources = (m.source for m in self.interpreter.program.modules() if str(m.path) == path)
            self._concrete[path] = Concrete(next(sources))
        return self._concrete[path]

    def _analyse(self, entry: Entry) -> Iterator[Analysis]:
        if entry.name is None:
            yield from list(self._whole_file(entry)) or self._unknown(entry)
            return
        resolved = self._resolve(entry)
        by = giving(entry.module, entry.name)
        place = Target.place_in(entry.target)
        for value in options(resolved):
            if isinstance(value, Class):
                owned = self._compiled(entry.module, value.info)
                if not self.interpreter.classes.mro(value.info).is_module:
                    found = list(self._analyse_compiled(owned, place, entry.module))
                    yield from found or self._unknown(entry, value.info)
                    continue
                own = self._call_of(entry, value.info)
                others = (each for each in owned if each.code is not value.info)
                yield from self._analyse_compiled(others, place, entry.module)
                yield from self._class(value.info, entry.target, by, own)
            elif isinstance(value, Instance) and self.interpreter.classes.is_module(value):
                yield from self._object(value, entry.target, by, self._call_of(entry, value.cls))
            elif isinstance(value, Function) and isinstance(value.bound, Instance):
                called = self.interpreter.entries.run_function(value, value.info, 1, value.bound)
                call = self._call_of(entry, value.info)
                yield Analysis(entry.target, called or 0, None, compiled_at=call)
            elif isinstance(value, Function):
                yield from self._function(value, entry.target, by, self._call_of(entry, value.info))
            elif self.interpreter.classes.is_module(value) or isinstance(value, Unknown):
                made = [b for b in entry.module.bindings.get(entry.name, ()) if isinstance(b, ast.AST)]
                yield self._call_model(value, entry.target, entry.module, made[-1] if made else None)

    def _call_of(self, entry: Entry, code: FunctionInfo | ClassInfo) -> CompileCall | None:
        """Return the call in a file that compiles the entry: by its name, else the first for the same code."""
        compiled = self._compiled(entry.module)
        same = [each for each in compiled if each.name == entry.name] or [
            each for each in compiled if each.code is code
        ]
        return next((each.call for each in same), None)

    def _compiled(self, module: ModuleInfo, owner: ClassInfo | None = None) -> list[Compiled]:
        """Return what a file, or one of its classes, compiles of the user's code."""
        own = self.interpreter.program.is_own
        compiled = self._every_compiled(module, owner)
        return [each for each in compiled if each.code is not None and own(each.code.module.path)]

    def _every_compiled(self, module: ModuleInfo, owner: ClassInfo | None = None) -> Iterator[Compiled]:
        owners = self.interpreter.classes.mro(owner).classes if owner is not None else None
        return compiled_values(self.interpreter, module, owners)

    def _unknown(self, entry: Entry, owner: ClassInfo | None = None) -> Iterator[Analysis]:
        """Yield the entry of a file or a class in which nothing was found to read, if it compiles something."""
        for each in self._every_compiled(entry.module, owner) if not entry.is_in_folder else ():
            found = self._call_model(UNKNOWN, entry.target, entry.module, None)
            yield replace(found, compiled_at=each.call)
            return

    def _resolve(self, entry: Entry) -> Value:
        assert entry.name is not None
        first, *rest = entry.name.split(".")
        interpreter = self.interpreter
        if any(isinstance(binding, ast.AST) for binding in entry.module.bindings.get(first, ())):
            interpreter.names.ask(entry.module)
        value = interpreter.names.global_value(entry.module, first)
        for name in rest:
            if isinstance(value, Class) and not {name} & {*value.info.assigned, *value.info.inner}:
                # a method, or what `__init__` sets: somebody has built one
                value = interpreter.objects.build(value.info)
            if value is not None:
                value = interpreter.attributes.attribute(value, name, interpreter.names.module_frame(entry.module))
        if value is None:
            raise TcreadyError(f"{entry.target}: no {entry.name!r} in {entry.module.path.name}")
        return value

    def _class(
        self, cls: ClassInfo, target: str, by: Giving | None, call: CompileCall | None = None
    ) -> Iterator[Analysis]:
        built = self._built_as_given(cls, by) if by is not None and by.convention.init else None
        yield from self._object(built or self.interpreter.objects.build(cls), target, by, call)

    def _built_as_given(self, cls: ClassInfo, by: Giving) -> Instance | None:
        """Return an object of the class made with what the `get_init_inputs()` of the file gives; None if that is not
        known."""
        interpreter = self.interpreter
        cases = cases_in(self._called_bare(by.module, "get_init_inputs"), interpreter)
        if len(cases) != 1:
            return None
        frame = replace(interpreter.names.module_frame(cls.module), depth=0)
        site = CallSite.unwritten(cls.name, cls.node, cases[0].args, frame, dict(cases[0].keywords))
        with interpreter.outside_trace():
            made = interpreter.calls.call(Class(cls), site)
        return made if isinstance(made, Instance) else None

    def _cases(self, by: Giving | None, root: Instance | None) -> tuple[Case, ...]:
        """Return the calls that a file gives by its convention; none if it gives none, or none that are known."""
        if by is None:
            return ()
        of = None if by.convention.source == "function" else root
        return cases_in(self._called_bare(by.module, by.convention.inputs, of), self.interpreter)

    def _called_bare(self, module: ModuleInfo, name: str, root: Instance | None = None) -> Value:
        """Return the value of a name of a module, or an attribute of an object, called without arguments if it is a
        function."""
        interpreter = self.interpreter
        if root is None:
            found = interpreter.names.global_value(module, name) or UNKNOWN
        else:
            found = interpreter.attributes.attribute(root, name, interpreter.names.module_frame(module))

        def given(value: Value) -> Value:
            each = options(value)
            return join(*(self._call_without_arguments(one) if isinstance(one, Function) else one for one in each))

        return lift(given, found)

    def _object(
        self, root: Instance, target: str, by: Giving | None, call: CompileCall | None = None
    ) -> Iterator[Analysis]:
        context = self.interpreter.entries.run_forward(root, self._cases(by, root))
        if context is not None:
            yield Analysis(target, context, root, compiled_at=call)

    def _function(
        self, value: Function, target: str, by: Giving | None, call: CompileCall | None = None
    ) -> Iterator[Analysis]:
        """Yield the entry of a callable: one that returns a module builds it; any other is compiled itself."""
        made = self._call_without_arguments(value)
        roots = self._modules(made)
        takes = value.info.node.args
        takes_none = not (takes.vararg or takes.kwarg or _requires_argument(takes))
        if not roots and takes_none:  # it is given no tensor
            roots = [each for each in options(made) if isinstance(each, (Unknown, Instance))]
        for root in roots:
            called = self.interpreter.classes.mro(root.cls).functions("__call__") if isinstance(root, Instance) else []
            if isinstance(root, Instance) and self.interpreter.classes.is_module(root):
                yield from self._object(root, target, by)
            elif called:  # what is around a module, and is called in its place
                method = Function(called[0], root)
                context = self.interpreter.entries.run_function(method, called[0], 1, cases=self._cases(by, None))
                yield Analysis(target, context or 0, None)
            else:
                yield self._call_model(root, target, value.info.module, value.info.node)
        if not roots:
            cases = self._cases(by, None)
            entry = self.interpreter.entries.run_function(value, value.info, cases=cases)
            yield Analysis(target, entry or 0, None, compiled_at=call)

    def _call_model(self, model: Value, target: str, module: ModuleInfo, at: ast.AST | None) -> Analysis:
        """Return a torch.nn module, which calls its members, or a model without source."""
        entry = self.interpreter.entries.run_called(model, at or module.source.tree, module)
        return Analysis(target, entry, None, not isinstance(model, Unknown))

    def _call_without_arguments(self, value: Function) -> Value:
        """Return the result of calling a callable without arguments."""
        interpreter = self.interpreter
        # objects that a module makes at import are followed less deep than a requested model
        frame = replace(interpreter.names.module_frame(value.info.module), depth=0)
        with interpreter.outside_trace():
            return interpreter.functions.invoke(value, (), {}, frame)

    def _modules(self, made: Value) -> list[Value]:
        return [each for each in options(made) if self.interpreter.classes.is_module(each)]

    def _whole_file(self, entry: Entry) -> Iterator[Analysis]:
        """Yield what a file compiles, then every other nn.Module of it: first those that no other class uses, then those
        not reached."""
        interpreter = self.interpreter
        by = giving(entry.module, None)
        given = by.convention.target if by is not None else None
        compiled = self._compiled(entry.module)
        others = (each for each in compiled if each.code is not None and each.code.name != given)
        yield from self._analyse_compiled(others, entry.target, entry.module)
        calls = {each.code: each.call for each in reversed(compiled)}
        classes = [c for c in entry.module.classes() if interpreter.classes.mro(c).is_module]
        classes = [c for c in classes if interpreter.classes.mro(c).has_forward]
        used = _names_in_other_files(classes)
        made = self._made_as_said(entry, by) if by is not None else None
        for cls in sorted(classes, key=lambda c: c.name in used):
            forward = interpreter.classes.mro(cls).functions("forward")[:1]
            if cls in calls and cls.name != given:
                continue
            if cls.name in used and (not forward or any(c.function is forward[0] for c in interpreter.contexts)):
                continue
            target = f"{entry.target}::{cls.name}"
            if made is not None and made.cls is cls:
                yield from self._object(made, target, by)
                continue
            yield from self._class(cls, target, by if given == cls.name else None, calls.get(cls))
        if made is not None and made.cls not in classes and by is not None:  # its class is of another file
            yield from self._object(made, f"{entry.target}::{by.convention.target}", by)
        for maker in dict.fromkeys(function for function, _ in makers_of(entry.module)):
            if any(context.function is maker for context in interpreter.contexts):
                continue  # a model that was read builds it
            for root in self._modules(self._call_without_arguments(Function(maker))):
                if isinstance(root, Instance):
                    yield from self._object(root, f"{entry.target}::{maker.name}", None)
        if not classes and (made is None or given != FACTORIES[1]):
            for binding in entry.module.bound().get(FACTORIES[1], ()):
                if isinstance(binding, FunctionInfo) and binding not in calls:
                    yield from self._entry_function(Function(binding), f"{entry.target}::{binding.name}")

    def _entry_function(self, value: Function, target: str, call: CompileCall | None = None) -> Iterator[Analysis]:
        """Yield the entry of a function of the file, or of the model that it makes."""
        if value.bound is None and not _requires_argument(value.info.node.args):
            yield from self._function(value, target, None, call)
            return
        bound = value.bound if isinstance(value.bound, Instance) else None
        called = self.interpreter.entries.run_function(value, value.info, int(value.bound is not None), bound)
        yield Analysis(target, called or 0, None, compiled_at=call)

    def _analyse_compiled(self, compiled: Iterable[Compiled], place: str, module: ModuleInfo) -> Iterator[Analysis]:
        """Yield the functions, methods, and models of any file, that a file compiles. `place` is its name in targets."""
        known: set[str] = set()
        for each in compiled:
            target = f"{self._place_of(each, place, module)}::{each.name}"
            if target in known:
                continue
            known.add(target)
            if isinstance(each.value, Function):
                yield from self._entry_function(each.value, target, each.call)
            elif each.value is not None:
                yield from self._object(each.value, target, None, each.call)
                for method in self._methods_beside_forward(each.value):
                    yield from self._entry_function(method, f"{target}.{method.info.name}", each.call)

    def _place_of(self, compiled: Compiled, place: str, module: ModuleInfo) -> str:
        """Return the file in which a target finds what a module at `place` compiles: that of its class, if the module
        does not bind the class."""
        code = compiled.code
        elsewhere = isinstance(code, ClassInfo) and compiled.name == code.symbol and code.module is not module
        if code is None or not elsewhere or not place.endswith(".py") or module.stars:
            return place
        is_bound = compiled.name.partition(".")[0] in module.bindings
        return place if is_bound else self.interpreter.program.shown(code.module.path)

    def _methods_beside_forward(self, model: Instance) -> Iterator[Function]:
        """Yield the methods that `torch.compile` of a LightningModule compiles besides forward: its trainer does that
        (lightning 2.6)."""
        mro = self.interpreter.classes.mro(model.cls)
        if any(name.endswith(".LightningModule") for name in mro.external):
            for name in LIGHTNING_STEPS:
                yield from (Function(found, model) for found in mro.functions(name)[:1])

    def _made_as_said(self, entry: Entry, by: Giving) -> Instance | None:
        """Return the model that a file makes by its convention, if that is an object of a class: what its `get_model()`
        gives, or its `model` is."""
        if by.convention.target not in FACTORIES:
            return None
        found = self._modules(self._called_bare(entry.module, by.convention.target))
        return found[0] if len(found) == 1 and isinstance(found[0], Instance) else None


def _requires_argument(takes: ast.arguments) -> bool:
    """Return whether a call has to pass an argument."""
    positional = len(takes.posonlyargs) + len(takes.args)
    return positional > len(takes.defaults) or any(default is None for default in takes.kw_defaults)


def _names_in_other_files(classes: Sequence[ClassInfo]) -> set[str]:
    """Names of classes that the code of another of them uses; comments and strings say nothing."""
    if not classes:
        return set()
    names = re.compile(r"\b(?:" + "|".join(re.escape(c.name) for c in classes) + r")\b")
    found: set[str] = set()
    for cls in classes:
        body = cls.module.source.lines[cls.node.lineno - 1 : cls.node.end_lineno]
        written = set(names.findall("\n".join(body))) - {cls.name} - found
        if written:  # the text is quick to search, the tree is right
            found |= written & _names_in(cls.node)
    return found


def _names_in(node: ast.ClassDef) -> frozenset[str]:
    """Return the bare names in a class, gathered once for each tree of it."""
    known = vars(node).get(NAMES)
    if known is None:
        known = frozenset(each.id for each in nodes_in(node) if isinstance(each, ast.Name))
        setattr(node, NAMES, known)
    return cast("frozenset[str]", known)
