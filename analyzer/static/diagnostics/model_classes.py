"""The models in a module: named, not interpreted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tcready.portable.options import ReadOptions
from tcready.schema.enums import TcreadyError
from tcready.static.frontend import module_search
from tcready.static.frontend.index import ClassInfo, Library, Program
from tcready.static.frontend.interpreter_settings import SHARED
from tcready.static.interp.interpreter import Interpreter


def module_classes(name: str, options: ReadOptions) -> tuple[str, ...]:
    """Return the nn.Module classes with a `forward`, of their own or of a base, that the module of that dotted name
    defines, in the order of the file; one within a class as `Outer.Inner`.

    Bases are followed through the sources of its own package and to torch.nn alone. A class that defines a `forward`,
    with an unknown base elsewhere, counts. Raises TcreadyError for a module that is not there, or cannot be read.
    """
    search_path = options.search_path or module_search.default_search_path(options.root)
    with SHARED.reading():
        program = Program(options.root, search_path, (name.partition(".")[0],), third_party=False, library=Library())
        module = program.module(name)
        if module is None:
            reason = next(iter(program.skipped.values()), "there is no such module on the search path")
            raise TcreadyError(f"{name}: {reason}")
        interpreter = Interpreter(program, None, False, torch=options.torch)
        return tuple(
            name
            for name, cls in _all((cls.name, cls) for cls in module.classes())
            if (mro := interpreter.classes.mro(cls)).is_module and mro.has_forward
        )


def _all(classes: Iterable[tuple[str, ClassInfo]]) -> Iterator[tuple[str, ClassInfo]]:
    """Return classes with their names, and all nested ones."""
    for name, cls in classes:
        yield name, cls
        yield from _all((f"{name}.{inner.name}", inner) for inner in cls.inner.values())
