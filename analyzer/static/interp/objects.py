"""Objects: made by a class that is called, by a factory, by a copy, and the one that an entry starts from."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from tcready.static.domain import facts as F  # noqa: N812 - the facts are many and their names common words
from tcready.static.domain.mro import Mro
from tcready.static.domain.scope import Env, Frame, narrowing_key, positional
from tcready.static.domain.values import (
    MAX_ITEMS,
    MAX_OPTIONS,
    NONE,
    UNKNOWN,
    Class,
    Const,
    External,
    ExternalInstance,
    Function,
    Instance,
    Mapping,
    Partial,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    join,
    keep,
    lift,
    likely,
    members_of,
    options,
    prefer,
    tensor_of,
    without_none,
)
from tcready.static.frontend.index import IMPORTS, ClassInfo, FunctionInfo, Import, ModuleInfo
from tcready.static.frontend.source import nodes_in
from tcready.static.interp.call_site_inference import builders, handed_on, passed
from tcready.static.interp.interfaces import CallSite, Component, Engine
from tcready.static.library import constructors
from tcready.static.library import semantics as K  # noqa: N812
from tcready.static.library.config_registries import class_registered_as, modules_for
from tcready.static.summaries.hash_consing import SharedModules

OF_MODULES = frozenset({"training", "device", "dtype", "forward", "__class__"})
"""Attributes that do not distinguish modules."""
MAX_IMPORTS = 100
"""The number of imported names of a file that are searched for such a class."""
TELLING = 2
"""The number of attributes read from an argument that identify its class, if it is no module."""
MAX_FITTING = 3
"""The number of classes fitting an argument's attributes beyond which they decide nothing."""


class Objects(Component):
    """Makes objects: by a class that is called, by a factory, by a copy, and the one that an entry starts from."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._registries: dict[ClassInfo, list[ClassInfo]] = {}
        self._told_apart: dict[tuple[object, ...], set[tuple[object, ...]]] = {}
        self._near: dict[Path, list[ClassInfo]] = {}
        self._deriving: dict[ClassInfo, list[ClassInfo]] = {}
        self._builders: dict[ClassInfo, Env] = {}
        """The arguments that builders of a class pass to its constructor."""
        self._given: list[tuple[ClassInfo, list[Env]]] = []
        """The classes for which constructor arguments are being collected, and those of the first call."""
        self._given_before: dict[ClassInfo, Env] = {}
        """The arguments that other constructors received meanwhile: a function that ran once does not run again."""
        self._by_text: dict[tuple[str, ModuleInfo], Value | None] = {}
        self._shared_modules = SharedModules(engine)

    def build(self, cls: ClassInfo) -> Instance:
        """Return an object of `cls` made with unknown arguments: configuration."""
        with self._shared_modules.building() as unchanged:
            root = self._built(Instance(self.engine.heap.ident("entry", cls, escaping=True), cls))
        if not unchanged():
            root = self._built(Instance(self.engine.heap.ident("apart", cls, escaping=True), cls))
        self._shared_modules.unite(root)
        return root

    def _built(self, root: Instance) -> Instance:
        cls = root.cls
        self.initialise(root, Frame(cls.module, None, -1, {}))
        if self.engine.training:
            with self.engine.outside_trace():
                self._set_to_train(root, set())
        return root

    def initialise(self, made: Instance, frame: Frame, given: frozenset[str] = frozenset()) -> None:
        """Run `__init__` of an object with arguments nobody knows; those in `given` are not None."""
        with self.engine.outside_trace():
            mro = self.engine.classes.mro(made.cls)
            for written in mro.functions("__init__")[:1]:
                args, keywords = self._configuration(written, made.cls, given)
                vararg, rest = written.node.args.vararg, None
                if vararg is not None and vararg.annotation is not None:
                    rest = self.engine.annotations.annotation(vararg.annotation, written.module, sure=True)
                call = CallSite.unwritten("__init__", written.node, args, frame, keywords)
                self._run_initialisers(made, mro, dataclasses.replace(call, rest=rest))

    def _set_to_train(self, made: Instance, done: set[Instance]) -> None:
        """Run the `train` methods of a module and of what it holds: some keep a part in evaluation."""
        if made in done or not self.engine.classes.is_module(made):
            return
        done.add(made)
        for value in list(self.engine.heap[made].attributes.values()):
            for option in options(value):
                if isinstance(option, Instance):
                    self._set_to_train(option, done)
        for info in self.engine.classes.mro(made.cls).functions("train")[:1]:
            frame = self.engine.names.module_frame(info.module)
            self.engine.functions.invoke(Function(info, made), (Const(True),), {}, frame)

    def _configuration(
        self, info: FunctionInfo, cls: ClassInfo, given: frozenset[str]
    ) -> tuple[tuple[Value, ...], dict[str, Value]]:
        node = info.node
        frame = self.engine.names.module_frame(info.module)
        # `config: Config` in the class body types the argument of that name, which becomes the attribute
        annotated: dict[str, ast.expr] = {}
        for above in reversed(self.engine.classes.mro(cls).classes):
            if above.module is info.module:
                annotated.update(above.annotated)

        def unknown(arg: ast.arg, default: ast.expr | None) -> Value:
            declared = self.engine.annotations.annotation(
                arg.annotation or annotated.get(arg.arg), info.module, sure=True
            )
            if default is None and isinstance(without_none(declared), Unknown):
                place = next((i for i, (a, _) in enumerate(positional(node.args)[1:]) if a is arg), MAX_IMPORTS)
                found = passed(info.module, cls.name, arg.arg, place, self.engine)
                if 0 < len(found) <= MAX_FITTING:
                    return join(*found)
            module = self._module_given(arg.arg, declared, info, cls) if default is None else None
            if module is None and default is None and _says_little(declared):
                module = self._built_with(cls).get(arg.arg)
            if module is not None:
                return module
            if arg.annotation is None and isinstance(declared, Unknown):
                declared = self.engine.annotations.documented_value(arg.arg, info)
                declared = declared if isinstance(declared, (Plain, Instance)) else Plain()
            if isinstance(declared, (Tensor, Unknown)) or not options(declared):
                declared = Plain()
            if default is None:
                return declared
            value = self.engine.expressions.peek(default, frame)
            if value == NONE and arg.arg in given:
                return without_none(declared)
            if isinstance(value, Const):
                return prefer(value, declared if value == NONE else Plain(type(value.value).__name__))
            usual = isinstance(value, (Instance, ExternalInstance, External, Function, Class, Partial))
            usual = usual or _is_filled(value)
            return prefer(value, declared) if usual else join(value, declared)

        args = tuple(unknown(arg, default) for arg, default in positional(node.args)[1:])
        keywords = {
            arg.arg: unknown(arg, default)
            for arg, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        }
        return args, keywords

    def _module_given(self, name: str, declared: Value, info: FunctionInfo, cls: ClassInfo) -> Value | None:
        """Return a module that is passed in without a type: of the classes in the same file with all attributes that are
        read of it, else of those of the same package that the file imports, by themselves or in a module. Any other
        object, if several attributes are read and only one class has them: of many, one in another file of the folder."""
        if not isinstance(without_none(declared), Unknown):
            return None
        read, called = self._uses_of(name, info, cls)
        if not read:
            return None

        def is_module_with(other: ClassInfo) -> bool:
            has_all = other is not cls and self.engine.classes.mro(other).is_module and self._owns(other, read)
            return has_all and not self._copies(other, read, name)

        found = [c for c in info.module.classes() if is_module_with(c)]
        if not found:
            found = [c for c in self.imported_with(info.module, read) if is_module_with(c)]
        if not found and len(read) >= TELLING:
            found = self._first(c for c in info.module.classes() if c is not cls and self._owns(c, read))
            found = found or [c for c in self.imported_with(info.module, read) if c is not cls]
            if not found and len(read) > TELLING:
                found = self._beside_with(info.module, read)
            found = found if len(found) == 1 else []
        if not 0 < len(found) <= MAX_FITTING:
            return None
        module = join(*map(self.engine.annotations.symbolic_instance, found))
        # what is only read a configuration may have as well
        return module if called else join(module, Plain())

    def _built_with(self, cls: ClassInfo) -> Env:
        """Return the modules, classes and functions that a class method, or a function in the same file or in one next to
        it, passes to the constructor of a class, by parameter: `def build(size): return Net(Encoder(size),
        Decoder(size))`."""
        if cls not in self._builders:
            self._builders[cls] = {}
            for builder in self._makers(cls):
                self._given.append((cls, []))
                self._run_builder(builder, cls)
                _, found = self._given.pop()
                if not found and cls in self._given_before:
                    found = [self._given_before[cls]]
                specific = {name: value for env in found[:1] for name, value in env.items() if self._is_specific(value)}
                if specific:
                    self._builders[cls] = specific
                    break
        return self._builders[cls]

    def _run_builder(self, builder: Function, cls: ClassInfo) -> None:
        """Run a builder of a class with unknown arguments; a constructor for an object of its class, unless it cannot
        know more than its own arguments."""
        owner = builder.info.owner
        frame = self.engine.names.module_frame(builder.info.module)
        if owner is not None and builder.bound is None:
            if self._may_specify(cls, builder.info, owner):
                made = Instance(self.engine.heap.ident("around", owner, escaping=True), owner)
                self.initialise(made, frame)
            return
        with self.engine.outside_trace():
            self.engine.functions.invoke(builder, (), {}, frame)

    def _may_specify(self, cls: ClassInfo, constructor: FunctionInfo, owner: ClassInfo) -> bool:
        """Return whether a constructor may pass that of a class a module, a class or a function."""
        handed = handed_on(cls, constructor)
        if not handed:
            return handed is None
        args, keywords = self._configuration(constructor, owner, frozenset())
        names = [arg.arg for arg, _ in positional(constructor.node.args)[1:]]
        known = {**dict(zip(names, args, strict=True)), **keywords}
        return any(not isinstance(v, (Plain, Const)) for name in handed for v in options(known[name]))

    def _makers(self, cls: ClassInfo) -> Iterator[Function]:
        """Yield the functions that make an object of a class."""
        yield from builders(cls, cls.module)
        for beside in self._modules_beside(cls.module, (cls.name,)):
            if cls.name in beside.called and self.engine.names.global_value(beside, cls.name) == Class(cls):
                yield from builders(cls, beside)

    def _is_specific(self, value: Value) -> bool:
        """Return whether a value is, in any case, a module, a class or a function, or a list of such."""
        if isinstance(value, Sequence):
            return value.items != () and all(map(self._is_specific, members_of(value)))
        return all(
            isinstance(v, (Instance, Class, Function, Partial)) or self.engine.classes.is_module(v)
            for v in options(value)
        )

    def _note_given(self, cls: ClassInfo, mro: Mro, site: CallSite) -> None:
        """Record the arguments of a constructor if they are being collected."""
        if not self._given:
            return
        wanted, found = self._given[-1]
        if found if wanted is cls else cls in self._given_before:
            return
        for info in mro.functions("__init__")[:1]:
            names = [arg.arg for arg, _ in positional(info.node.args)[1:]]
            given = {**dict(zip(names, site.args, strict=False)), **site.keywords}
            if wanted is cls:
                found.append(given)
            else:
                self._given_before[cls] = given

    def _beside_with(self, module: ModuleInfo, names: set[str]) -> list[ClassInfo]:
        """Return the classes in other files of the same folder that have all of `names`."""
        return self._first(c for c in self._classes_beside(module, names) if self._owns(c, names))

    def _classes_beside(self, module: ModuleInfo, names: Iterable[str]) -> Iterator[ClassInfo]:
        """Yield the classes in other files of the same folder that mention all of `names`."""
        for beside in self._modules_beside(module, names):
            yield from beside.classes()

    def _modules_beside(self, module: ModuleInfo, names: Iterable[str]) -> Iterator[ModuleInfo]:
        """Yield the other files of the same folder that mention all of `names`."""
        package = module.name.rpartition(".")[0]
        for path in self.engine.program.files_in(module.path.parent)[:MAX_IMPORTS] if package else ():
            full = f"{package}.{path.stem}"
            if path != module.path and all(self.engine.program.mentions(full, name) for name in names):
                beside = self.engine.program.module(full)
                if beside is not None:
                    yield beside

    def derived_classes(self, cls: ClassInfo) -> list[ClassInfo]:
        """Return the classes in the file of a class, and in those of the same folder, that derive from it."""
        if cls not in self._deriving:
            near = (*cls.module.classes(), *self._classes_beside(cls.module, (cls.name,)))
            self._deriving[cls] = [c for c in near if cls in self.engine.classes.mro(c).classes[1:]]
        return self._deriving[cls]

    def _first(self, classes: Iterable[ClassInfo]) -> list[ClassInfo]:
        """Return the classes without those that derive from another one of them."""
        found = [*classes]
        return [c for c in found if not {*self.engine.classes.mro(c).classes[1:]} & {*found}]

    def imported_with(self, module: ModuleInfo, names: set[str], *, own: bool = False) -> list[ClassInfo]:
        """Return the classes near a file that have all of `names`, including its `own` if requested; without those
        derived from another one of them."""
        near = dict.fromkeys((*(module.classes() if own else ()), *self._imported_classes(module)))
        return self._first(c for c in near if self._owns(c, names))

    def near_class(self, module: ModuleInfo, name: str) -> ClassInfo | None:
        """Return the one class of that name near a file; None if there is none, or several."""
        found = [cls for cls in self._imported_classes(module) if cls.name == name]
        return found[0] if len(found) == 1 else None

    def _imported_classes(self, module: ModuleInfo) -> list[ClassInfo]:
        """Return the classes of the package's own files that a file imports from, and those that these import."""
        if module.path not in self._near:
            found: dict[ClassInfo, None] = {}
            for near in self._imported_from(module):
                found.update(dict.fromkeys(near.classes()))
                with self.engine.outside_trace():
                    values = [self.engine.names.resolve_import(binding, near) for binding in self._own_imports(near)]
                found.update((value.info, None) for value in values if isinstance(value, Class))
            self._near[module.path] = list(found)
        return self._near[module.path]

    def _imported_from(self, module: ModuleInfo) -> list[ModuleInfo]:
        """Return the files of the same package that a file imports, or imports from."""
        found: dict[Path, ModuleInfo] = {}
        for binding in self._own_imports(module):
            inner = f"{binding.module}.{binding.name}" if binding.name else binding.module
            near = self.engine.program.module(inner) or self.engine.program.module(binding.module)
            if near is not None:
                found[near.path] = near
        return list(found.values())

    def _own_imports(self, module: ModuleInfo) -> Iterator[Import]:
        package = module.name.partition(".")[0]
        imports = (
            b for bindings in module.bound(f"{IMPORTS}{package}").values() for b in bindings if isinstance(b, Import)
        )
        return islice((b for b in imports if b.module.partition(".")[0] == package), MAX_IMPORTS)

    def _uses_of(self, name: str, info: FunctionInfo, cls: ClassInfo) -> tuple[set[str], bool]:
        """Return the attributes that a class reads of a constructor argument, apart from those of every module, and
        whether it calls the argument or an attribute of it."""
        nodes = nodes_in(info.node)
        stores = (n.targets for n in nodes if isinstance(n, ast.Assign) and narrowing_key(n.value) == name)
        names = {key for targets in stores for t in targets if (key := narrowing_key(t)) and "." in key}
        read = {n.attr for n in nodes if isinstance(n, ast.Attribute) and narrowing_key(n.value) == name}
        for above in self.engine.classes.mro(cls).classes if names else ():
            if above.module is info.module:
                nodes += (n for each in above.functions.values() for f in each for n in f.nodes)
        read |= {n.attr for n in nodes if isinstance(n, ast.Attribute) and narrowing_key(n.value) in names}
        own = {attr for attr in read if attr not in OF_MODULES and K.module_method(attr, UNKNOWN) is None}
        callees = [n.func for n in nodes if isinstance(n, ast.Call)]
        callees += [each.value for each in callees if isinstance(each, ast.Attribute)]
        return own, any(narrowing_key(each) in {name, *names} for each in callees)

    def _copies(self, cls: ClassInfo, names: set[str], argument: str) -> bool:
        """Return whether the constructor of a class copies all of these from an argument of that name (`self.width =
        config.width`): an object of the same name elsewhere is like that argument, not like the class."""
        copied: set[str] = set()
        every = (node for info in self.engine.classes.mro(cls).functions("__init__") for node in info.nodes)
        for node in (node for node in every if isinstance(node, ast.Assign)):
            if isinstance(node.value, ast.Attribute) and narrowing_key(node.value.value) == argument:
                name = node.value.attr
                copied.update(name for t in node.targets if isinstance(t, ast.Attribute) and t.attr == name)
        return names <= copied

    def _owns(self, cls: ClassInfo, names: set[str]) -> bool:
        mro = self.engine.classes.mro(cls)
        assigned = self.engine.classes.assigned_attributes(mro)
        return all(name in assigned or mro.functions(name) or mro.holder(name) is not None for name in names)

    def instantiate(self, cls: Class, site: CallSite, *, by_type: bool = False) -> Value:
        """Return an object made by calling a class: the result of `__call__` of its metaclass (unless that calls `type`),
        the result of `__new__` if that is of another class, else a new one."""
        mro = self.engine.classes.mro(cls.info)
        self._note_given(cls.info, mro, site)
        called = None if by_type else next(iter(self.engine.classes.metaclass_methods(mro, "__call__")), None)
        if called is not None:
            given = self.engine.functions.invoke(Function(called, cls), site.args, site.keywords, site.frame, site.rest)
            made = keep(given, lambda v: isinstance(v, (Instance, Tensor)))
            if not isinstance(made, Unknown):
                return made
        if mro.is_tensor:
            return self._tensor_made(cls, mro, site)
        maker = mro.functions("__new__")[:1]
        if not maker:
            return self._initialise_object(cls, mro, site)
        args = (cls, *site.args)
        given = self.engine.functions.invoke(Function(maker[0]), args, site.keywords, site.frame, site.rest)
        others = keep(given, lambda v: isinstance(v, Instance) and cls.info not in self._above(v))
        if isinstance(others, Unknown):
            return self._initialise_object(cls, mro, site)
        return given if others == given else join(self._initialise_object(cls, mro, site), others)

    def _tensor_made(self, cls: Class, mro: Mro, site: CallSite) -> Tensor:
        """Return an object of a tensor class after its constructors have run. Dynamo passes `__init__` the keywords
        alone, and the constructor of torch.Tensor only a tensor."""
        kinds = [tensor.dtype for value in site.args if (tensor := tensor_of(value)) is not None]
        made = Tensor(kinds[0] if kinds else None, leaf=self.engine.untraced > 0, subclass=cls.info)
        maker, initialiser = (mro.functions(name)[:1] for name in ("__new__", "__init__"))
        spread = any(given.arg is None for given in site.node.keywords)
        by_keywords = spread or all(_is_filled_by(info, site.keywords) for info in initialiser)
        alone = maker or (len(site.args) == 1 and not site.keywords) or site.rest is not None
        wraps = mro.functions("__torch_dispatch__")  # what makes one ends the graph
        if not (by_keywords and alone) and not wraps and not self.engine.untraced:
            node, where = site.node, self.engine.where(site.frame)
            keywords = tuple(site.keywords.items())
            self.engine.emit(F.Call(where, node, cls, "torch.Tensor.__init__", None, None, site.args, keywords, made))
        given = () if by_keywords and not self.engine.untraced else site.args
        for found, args, rest in (
            (maker, (cls, *site.args), site.rest),
            (initialiser, (made, *given), site.rest if given else None),
        ):
            for info in found:
                self.engine.functions.invoke(Function(info), args, site.keywords, site.frame, rest)
        return made

    def _above(self, made: Instance) -> tuple[ClassInfo, ...]:
        return self.engine.classes.mro(made.cls).classes

    def _initialise_object(self, cls: Class, mro: Mro, site: CallSite) -> Value:
        """Return a new object of a class, `__init__` run; while a model is built, an equal one of an earlier model."""
        request = self._shared_modules.request(cls.info, site) if mro.is_module and self.engine.untraced else None
        shared = self._shared_modules.shared(request) if request is not None else None
        if shared is not None:
            return shared
        constants = () if mro.is_module or not self.engine.untraced else self._constants_of(cls, site)
        key = (cls.info, site.node, site.frame.context, *constants)
        made = Instance(self.engine.heap.ident(*key, escaping=self.engine.untraced > 0), cls.info)
        if cls.closure:
            self.engine.heap[made].closure = cls.closure
        if site.frame.context < 0 and site.frame.function is None and not mro.is_module:
            self.engine.heap[made].process_global = True
        if mro.functions("__init__"):
            thing = self.engine.heap[made]
            before = dict(thing.attributes) if thing.stored else {}
            with self.engine.heap.making() as stored:
                self._run_initialisers(made, mro, site)
            for name, value in before.items():  # of one made at the same place before, which is the same to us
                now = thing.attributes.get(name)
                if now is not None and now is not value and now != value:
                    thing.update(name, join(value, now), strong=True)
            attributes = thing.attributes.items()
            self.engine.heap.made(
                made, stored, {name for name, v in attributes if all(map(self.engine.classes.is_module, options(v)))}
            )
            if request is not None:
                self._shared_modules.keep(request, made, stored)
            return made
        if mro.container or mro.is_list:
            self.engine.containers.fill_container(made, mro.container or "list", site.spread().args, site.node)
            return made
        if mro.is_dictionary and not self.engine.records.is_dataclass(cls.info):
            self.engine.containers.dictionary_method(made, "__init__", site.args, site.keywords)
            return made
        if self.engine.records.is_enum(mro) and site.args:
            members = self.engine.records.enum_members(cls.info)
            known = members.items if members is not None and members.items else ()
            self._emit_no_member(mro, known, site)
            return lift(lambda value: next((each for each in known if each == value), value), site.args[0])
        self.engine.records.fill_record(made, site)
        for base in mro.external:
            constructors.inherit(self.engine, made, base, site)
        return made

    def _emit_no_member(self, mro: Mro, known: tuple[Value, ...], site: CallSite) -> None:
        """Emit a call of an enum that raises if a `try` may handle it."""
        value = likely(site.args[0])
        complete = bool(known) and all(isinstance(member, Const) for member in known)
        missing = isinstance(value, Const) and all(
            isinstance(member, Const) and member.value != value.value for member in known
        )
        if complete and missing and "try" in site.frame.path.enclosing and not mro.functions("_missing_"):
            self.engine.emit(F.NoMember(self.engine.where(site.frame), site.node, site.args[0]))

    def _constants_of(self, cls: Class, site: CallSite) -> tuple[object, ...]:
        """Return the constants that an object is made with, which distinguish it from others that a loop makes at the
        same place; nothing distinguishes them if there are many."""
        given = [(str(place), value) for place, value in enumerate(site.args)] + [*site.keywords.items()]
        constants = tuple((name, value) for name, value in sorted(given) if isinstance(value, Const))
        known = self._told_apart.setdefault((cls.info, site.node, site.frame.context), set())
        if constants in known or len(known) < MAX_ITEMS:
            known.add(constants)
            return constants
        return ()

    def _run_initialisers(self, made: Instance, mro: Mro, site: CallSite) -> None:
        """Run the functions that act as `__init__`, or `__init__` itself if its decorator passes arguments on in a way
        that is not understood: nothing is set then."""
        own = mro.functions("__init__")[0]
        found = self.engine.classes.initialisers(mro)
        for option in found:
            self._run_initialiser(Function(option.info, made, option.closure), site)
        if found and own not in [option.info for option in found] and not self.engine.heap[made].attributes:
            self._run_initialiser(Function(own, made), site)

    def _run_initialiser(self, function: Function, site: CallSite) -> None:
        self.engine.functions.invoke(function, site.args, site.keywords, site.frame, site.rest)

    def resolve_registered(self, site: CallSite) -> Value | None:
        """Return the result of a factory for a configuration object if its own code does not decide it."""
        for value in site.args[:1]:
            for option in options(likely(value)):
                if isinstance(option, Instance) and self.engine.heap[option].symbolic:
                    cls = option.cls
                    if cls not in self._registries:
                        self._registries[cls] = modules_for(cls, self.engine)
                    made = [
                        self.instantiate(Class(c), site.giving((option,))) for c in self._registries[cls][:MAX_OPTIONS]
                    ]
                    return join(*made) if made else None
        return None

    def made_of_text(self, site: CallSite) -> Value | None:
        """Return the result of a function for a text that a class is registered under near the call, if the function's
        own code does not decide it: the class; for a dict with such a text, an object of the class, made with the other
        items."""
        for value in map(likely, (*site.args, *site.keywords.values())):
            if isinstance(value, Const):
                cls = self._known_by(value, site)
                if cls is not None:
                    return cls
            table = value.entries if isinstance(value, Mapping) else ()
            for key, text in table:
                cls = self._known_by(likely(text), site)
                if cls is not None:
                    given = {str(k): v for k, v in table if k != key}
                    return self.engine.calls.call(cls, site.giving((), given))
        return None

    def _known_by(self, text: Value, site: CallSite) -> Value | None:
        """Return the class that is registered under a text near a call."""
        if not isinstance(text, Const) or not isinstance(text.value, str):
            return None
        key = text.value, site.frame.module
        if key not in self._by_text:
            self._by_text[key] = class_registered_as(*key, self.engine)
        return self._by_text[key]

    def copy_object(self, value: Value, node: ast.Call, frame: Frame, *, deep: bool) -> Value:
        """Return a copy of an object of plain attributes, independent of it, a `deep` one with its members; anything else
        unchanged."""
        return self._copy_attributes(value, node, frame, {} if deep else None)

    def _copy_attributes(self, value: Value, node: ast.Call, frame: Frame, done: dict[int, Instance] | None) -> Value:
        """Copy the attributes; `done` has the copies made so far by a deep copy; None for one that is not deep."""
        if isinstance(value, Sequence):
            return dataclasses.replace(value, escaping=False, constant=False)
        if isinstance(value, Mapping):
            return dataclasses.replace(value, escaping=False)
        if not isinstance(value, Instance) or self.engine.classes.mro(value.cls).is_module:
            return value
        if done is not None and value.ident in done:
            return done[value.ident]
        key = ("copy", node, frame.context, value.ident)
        made = Instance(self.engine.heap.ident(*key, escaping=self.engine.untraced > 0), value.cls)
        thing = self.engine.heap[made]
        thing.take(self.engine.heap[value])
        if done is not None:
            done[value.ident] = made
            for name, attribute in [*thing.attributes.items()]:
                if isinstance(attribute, Instance):
                    thing.update(name, self._copy_attributes(attribute, node, frame, done), strong=True)
            if isinstance(thing.members, Mapping):
                entries = tuple((k, self._copy_attributes(v, node, frame, done)) for k, v in thing.members.entries)
                thing.members = dataclasses.replace(thing.members, entries=entries)
        return made


def _says_little(declared: Value) -> bool:
    """Return whether a type leaves open what an argument, or each in a list of them, is."""
    declared = without_none(declared)
    if isinstance(declared, Sequence) and declared.items is None:
        declared = declared.element
    return isinstance(declared, Unknown)


def _is_filled_by(info: FunctionInfo, keywords: dict[str, Value]) -> bool:
    """Return whether keywords cover all parameters of a method without a default."""
    spec = info.node.args
    needed = [arg.arg for arg, default in positional(spec)[1:] if default is None]
    needed += [arg.arg for arg, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if default is None]
    return keywords.keys() >= {*needed}


def _is_filled(value: Value) -> bool:
    """Return whether it is a literal list, tuple or dict: a call that passes no other uses it."""
    if isinstance(value, Mapping):
        return bool(value.entries)
    return isinstance(value, Sequence) and bool(value.items)
