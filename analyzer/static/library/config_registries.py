"""Modules that a registry creates from a configuration object: `AutoModel.from_config(config.vision_config)`.

Such a registry is a table of strings, filled while packages are imported, so no source shows what it gives. Types
do: a module that takes a certain configuration says so in its class body (`config: VisionConfig`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tcready.static.domain.mro import Mro
from tcready.static.domain.values import Class, External, Value
from tcready.static.frontend.index import ClassInfo, ModuleInfo
from tcready.static.interp.interfaces import Engine
from tcready.static.library.semantics import is_module_class


def modules_for(config: ClassInfo, engine: Engine) -> list[ClassInfo]:
    """Return the modules beside a configuration class that are typed with it, those that hold another one left out.

    A model with a head is typed with the same configuration as the model it builds inside; a registry that is
    given no more than a configuration gives the latter.
    """
    found = [cls for cls in _beside(config, engine) if _takes(engine.classes.mro(cls), config)]
    names = {cls.name for cls in found}
    return [cls for cls in found if not _built(cls, engine) & (names - {cls.name})]


def class_known_as(attribute: str, name: str, like: ClassInfo, engine: Engine) -> ClassInfo | None:
    """Return the class that a registry knows by a text: `kind = "vit_encoder"` in the body, as `like` has another.

    It is next to `like`, or in a package next to that of `like` with a name that the text begins with, the longest first.
    """
    base, _, here = like.module.name.rpartition(".")[0].rpartition(".")
    folder = like.module.path.parent
    words = name.replace("-", "_").split("_")
    starts = ["_".join(words[:count]) for count in range(len(words), 0, -1)]
    for package in dict.fromkeys((here, *starts)):
        for path in engine.program.files_in(folder.parent / package) if base else ():
            full = f"{base}.{package}.{path.stem}"
            if path.stem == "__init__" or not engine.program.mentions(full, name):
                continue
            module = engine.program.module(full)
            for cls in module.classes() if module is not None else ():
                known = cls.assigned.get(attribute)
                if isinstance(known, ast.Constant) and known.value == name:
                    return cls
    return None


def class_registered_as(name: str, module: ModuleInfo, engine: Engine) -> Value | None:
    """Return the module class that is registered under a text, in a file or in those of the same folder: by a decorator
    with that text, or without one if that is what the class is called; by a statement that is given the text and the
    class."""
    if not name.isidentifier():
        return None
    found = _registered_in(module, name, engine)
    package = module.name.rpartition(".")[0]
    for path in () if found is not None or not package else engine.program.files_in(module.path.parent):
        full = f"{package}.{path.stem}"
        if found is None and path.stem != "__init__" and engine.program.mentions(full, name):
            beside = engine.program.module(full)
            found = _registered_in(beside, name, engine) if beside is not None else None
    return found


def _registered_in(module: ModuleInfo, name: str, engine: Engine) -> Value | None:
    for cls in module.classes():
        decorators = [node for node in cls.node.decorator_list if isinstance(node, ast.Call)]
        if decorators and name in (_texts(decorators) & {name} or {cls.name}) and engine.classes.mro(cls).is_module:
            return Class(cls)
    for statement in module.source.tree.body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and name in _texts([call]):
            given = (*call.args, *(keyword.value for keyword in call.keywords))
            values = [engine.expressions.peek(node, engine.names.module_frame(module)) for node in given]
            found = [v for v in values if _is_class_of_modules(v, engine)]
            if len(found) == 1:
                return found[0]
    return None


def _texts(nodes: Iterable[ast.AST]) -> set[object]:
    return {n.value for node in nodes for n in ast.walk(node) if isinstance(n, ast.Constant)}


def _is_class_of_modules(value: Value, engine: Engine) -> bool:
    if isinstance(value, Class):
        return engine.classes.mro(value.info).is_module
    return isinstance(value, External) and is_module_class(value.name)


def _beside(config: ClassInfo, engine: Engine) -> Iterator[ClassInfo]:
    """Yield the modules with a `forward` in the files of the same folder that name the configuration."""
    package = config.module.name.rpartition(".")[0]
    for path in engine.program.files_in(config.module.path.parent):
        name = f"{package}.{path.stem}" if package else path.stem
        if path.stem == "__init__" or not engine.program.mentions(name, config.name):
            continue
        module = engine.program.module(name)
        for cls in module.classes() if module is not None else ():
            mro = engine.classes.mro(cls)
            made = mro.functions("__init__")
            # what another file's mixin makes asks a registry itself
            if mro.is_module and mro.functions("forward") and made and made[0].module is module:
                yield cls


def _takes(mro: Mro, config: ClassInfo) -> bool:
    for cls in mro.classes:
        declared = cls.annotated.get("config") or cls.assigned.get("config_class")
        if declared is not None:
            return isinstance(declared, ast.Name) and declared.id == config.name
    return False


def _built(cls: ClassInfo, engine: Engine) -> set[str]:
    """Names that a class calls while it is built."""
    inits = cls.functions.get("__init__", [])
    if engine.replay is not None:
        for info in inits:
            engine.replay.read(info)
    nodes = (n for info in inits for n in info.nodes)
    return {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
