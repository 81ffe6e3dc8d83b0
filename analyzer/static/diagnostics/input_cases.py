"""The calls implied by inputs that a file gives its model: read like any other source, nothing is run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tcready.portable.input_conventions import GIVING, Convention, convention_in
from tcready.static.domain.values import Const, Instance, Mapping, Sequence, Unknown, Value, likely, options
from tcready.static.frontend.index import ModuleInfo
from tcready.static.interp.interfaces import Case
from tcready.static.interp.interpreter import Interpreter
from tcready.static.library.semantics import DICTIONARIES

MAPPINGS = DICTIONARIES | {"collections.abc.Mapping"}
"""The bases of classes with objects that a run takes for keyword arguments."""


@dataclass(frozen=True)
class Giving:
    """A file that gives its model inputs, and by which convention."""

    module: ModuleInfo
    convention: Convention


def giving(module: ModuleInfo, name: str | None) -> Giving | None:
    """Return the inputs that the file of the module gives its model, or the object `name`; None if it does not."""
    if not any(each in module.source.text for each in GIVING):  # the text is quick to search
        return None
    convention = convention_in(module.source.tree, name)
    return None if convention is None else Giving(module, convention)


def cases_in(value: Value, interpreter: Interpreter) -> tuple[Case, ...]:
    """Return the calls for inputs of this value, as a run takes them (`worker.loading.cases`); none if the inputs are
    unknown."""
    found = [case for option in options(likely(value)) for case in _cases(option, interpreter)]
    return () if None in found else tuple(case for case in found if case is not None)


def _cases(value: Value, interpreter: Interpreter) -> Iterator[Case | None]:
    if isinstance(value, Mapping):
        named = dict(value.entries).get("cases")
        if isinstance(named, Mapping) and {key for key, _ in value.entries} <= {"cases", "weights", "items"}:
            for _, each in named.entries:
                yield from (_case(option, interpreter) for option in options(each))
            if named.element is not None:
                yield None
            return
    yield _case(value, interpreter)


def _case(value: Value, interpreter: Interpreter) -> Case | None:
    if isinstance(value, Sequence) and value.kind in ("tuple", "list"):
        items = value.items
        if items is not None and len(items) == 2 and value.kind == "tuple":
            first, second = items
            keywords = _by_name(second)
            if isinstance(first, Sequence) and keywords is not None:
                return None if first.items is None else Case(first.items, keywords)
        return None if items is None else Case(items)
    keywords = _by_name(value)
    if keywords is not None:
        return Case((), keywords)
    if isinstance(value, Mapping) and value.element is not None:
        return None
    if isinstance(value, Unknown) or (isinstance(value, Const) and isinstance(value.value, (str, bytes, type(None)))):
        return None
    if isinstance(value, Instance) and MAPPINGS & set(interpreter.classes.mro(value.cls).external):
        return None
    return Case((value,))


def _by_name(value: Value) -> tuple[tuple[str, Value], ...] | None:
    """Return the entries of a dict as keyword arguments; None if it may have others, or is no dict."""
    if not isinstance(value, Mapping):
        return None
    named = tuple((key, each) for key, each in value.entries if isinstance(key, str))
    return named if value.element is None and len(named) == len(value.entries) else None
