"""Python's built-in functions: a handler for each name, given the engine and the call."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import lru_cache
from types import MappingProxyType
from typing import TypeAlias, cast

from tcready.static.domain import constant_text
from tcready.static.domain import facts as F  # noqa: N812 - the facts are many and their names common words
from tcready.static.domain.const_eval import worked_out
from tcready.static.domain.folding import TYPES, same
from tcready.static.domain.values import (
    DATA,
    LAZY,
    MAX_OPTIONS,
    NONE,
    UNKNOWN,
    UNROLL,
    Class,
    Const,
    External,
    ExternalInstance,
    Function,
    Instance,
    Kind,
    Mapping,
    Method,
    Module,
    Partial,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    combine_answers,
    common_answer,
    holds_tensor,
    join,
    keep,
    lift,
    likely,
    may_change,
    members_of,
    options,
    prefer,
    tensor_of,
    value_of_key,
)
from tcready.static.frontend.index import ClassInfo, FunctionInfo, Import, ModuleInfo
from tcready.static.interp.interfaces import CallSite, Engine
from tcready.static.library import semantics as K  # noqa: N812

Handler: TypeAlias = "Callable[[Engine, CallSite], Value | None]"
"""Returns the result of a call; None if nothing is known of it."""
BY_METHOD: MappingProxyType[str, tuple[str, ...]] = MappingProxyType(
    {
        "len": ("__len__",),
        "int": ("__int__", "__index__"),
        "float": ("__float__", "__index__"),
        "complex": ("__complex__",),
        "abs": ("__abs__",),
        "round": ("__round__",),
        "str": ("__str__", "__repr__"),
        "repr": ("__repr__",),
        "format": ("__format__", "__str__", "__repr__"),
        "hash": ("__hash__",),
        "reversed": ("__reversed__",),
    }
)
"""Functions that ask an object, and the methods that answer."""
ANY_NUMBER = range(1, 100)
WALKING: MappingProxyType[str, range] = MappingProxyType(
    {
        **dict.fromkeys(("enumerate", "zip", "map", "filter", "next"), ANY_NUMBER),
        **dict.fromkeys("list tuple set frozenset dict iter reversed sorted sum max min any all".split(), range(1, 2)),
    }
)
"""Functions that walk over what they are given, and by how many arguments."""
OF_ERRORS = ("Error", "Exception", "Warning", "StopIteration", "property")
"""The endings of builtins that make an object of no interest."""
OF_OBJECTS = frozenset("type isinstance hasattr getattr setattr callable bool".split())
"""Functions for which Python looks at the object itself."""


def call(engine: Engine, name: str, site: CallSite) -> Value:
    """Return the result of the built-in function `name`; unknown if nothing is known of it."""
    if site.args:
        if name in OF_OBJECTS and site.node.args:
            engine.recurrent.touch(site.args[0], site.node.args[0], site.frame, "inspected")
        if name in BY_METHOD:
            own = engine.protocols.call_first_method(site.args[0], site.frame, *BY_METHOD[name])
            if own is not None:
                return own
        if name == "len":
            site = site.giving((engine.records.row(site.args[0]) or site.args[0],))
        if name == "bool":
            site = site.giving(
                (engine.protocols.truth_operand(site.args[0], site.frame), *site.args[1:]), site.keywords
            )
        first = 1 if name in ("map", "filter") else 0
        if name in WALKING and len(site.args) in WALKING[name]:
            walked = tuple(engine.protocols.iterate(arg, site.frame) for arg in site.args[first:])
            site = site.giving((*site.args[:first], *walked), site.keywords)
    known = _worked_out(name, site)
    if known is not None:
        return known
    handler = HANDLERS.get(name)
    result = handler(engine, site) if handler is not None else None
    if result is not None:
        return result
    return ExternalInstance(name) if name.endswith(OF_ERRORS) else UNKNOWN


PURE: MappingProxyType[str, Callable[..., object]] = MappingProxyType(
    {
        **{f.__name__: f for f in (all, any, sum, max, min, abs, round, divmod, repr, sorted, bool)},
        "reversed": lambda given: [*reversed(given)],
    }
)
"""Functions that are worked out for what is written out, and give no more than they are given."""


def _worked_out(name: str, site: CallSite) -> Value | None:
    if name not in PURE or site.rest is not None or not site.args:
        return None
    return worked_out(PURE[name], *site.args, **site.keywords)


def known_items(engine: Engine, value: Value) -> tuple[Value, ...] | None:
    """Return the items of a sequence, or of a torch.nn container, in order; None if unknown."""
    members = engine.containers.walked_members(value)
    source = members if members is not None else value
    if isinstance(source, Mapping) and source.element is None and (source.entries or not source.escaping):
        return tuple(value_of_key(key) for key, _ in source.entries)
    return source.items if isinstance(source, Sequence) else None


def few_items(engine: Engine, value: Value) -> tuple[Value, ...] | None:
    """Return the same, if they are few enough to iterate over one by one."""
    items = known_items(engine, value)
    return items if items is not None and len(items) <= UNROLL else None


def iterator(items: tuple[Value, ...] | None, element: Value = UNKNOWN) -> Sequence:
    """Return an iterator over known items, or else over so many of `element`."""
    return Sequence("iterator", items, UNKNOWN if items is not None else element)


def row(*items: Value) -> Sequence:
    """Return a tuple of these."""
    return Sequence("tuple", items, UNKNOWN)


def _first(site: CallSite) -> Value:
    return site.args[0] if site.args else UNKNOWN


def _constant(value: Value) -> Handler:
    return lambda _engine, _site: value


def _number(name: str) -> Handler:
    def handler(engine: Engine, site: CallSite) -> Value:
        return lift(
            lambda value: _convert(name, value, engine.truth.answer(value).decided if site.args else False),
            _first(site),
        )

    return handler


def _convert(name: str, value: Value, answer: bool | None) -> Value:
    """`int(value)` and its like."""
    kind = name if name != "round" else "int"
    if tensor_of(value):
        return Plain(kind, "tensor")
    if name == "bool" and answer is not None:
        return Const(answer)
    if isinstance(value, Const) and isinstance(value.value, (int, float, str)) and name in ("int", "float"):
        try:
            return Const(int(value.value) if name == "int" else float(value.value))
        except (ValueError, OverflowError):
            return Plain(kind)
    for option in options(value):
        if isinstance(option, Plain):
            return Plain(kind, K.computed(option.origin))
    return Plain(kind)


def _len(_engine: Engine, site: CallSite) -> Value:
    return lift(_length, _first(site))


def _length(value: Value) -> Value:
    if isinstance(value, Sequence) and value.items is not None:
        count = Const(len(value.items))
        if not value.escaping or value.kind in ("tuple", "view"):
            return count
        return prefer(count, Plain("int")) if value.items else Plain("int")
    if isinstance(value, Mapping) and value.element is None and not value.escaping:
        return Const(len(value.entries))
    if isinstance(value, Const) and isinstance(value.value, str):
        return Const(len(value.value))
    return K.SHAPE_INT if tensor_of(value) else Plain("int")


def _isinstance(engine: Engine, site: CallSite) -> Value | None:
    if len(site.node.args) != 2:
        return None
    wanted = site.node.args[1]
    return lift(lambda value: engine.truth.is_instance(value, wanted, site.frame), _first(site))


def _range(_engine: Engine, site: CallSite) -> Value:
    if any(tensor_of(a) for a in site.args):
        return Sequence("range", None, Plain("int", "tensor"))
    for origin in DATA:
        if any(isinstance(v, Plain) and v.origin == origin for a in site.args for v in options(a)):
            return Sequence("range", None, Plain("int", K.computed(origin)))
    first = _first(site)
    if len(site.args) == 1 and isinstance(first, Const) and isinstance(first.value, int) and first.value <= 0:
        return Sequence("range", (), UNKNOWN)
    return Sequence("range", None, Plain("int"))


def _sequence(kind: Kind, *, ordered: bool) -> Handler:
    """`ordered`: in the order of what is walked."""

    def handler(engine: Engine, site: CallSite) -> Value:
        def made(walked: Value) -> Value:
            if kind == "iterator" and isinstance(walked, Sequence) and walked.kind == "range":
                return walked  # as good as the numbers themselves
            items = known_items(engine, walked) if ordered else None
            return Sequence(kind, items, UNKNOWN if items is not None else engine.containers.element(walked))

        return lift(made, site.args[0]) if site.args else Sequence(kind, (), UNKNOWN)

    return handler


def _sorted(engine: Engine, site: CallSite) -> Value:
    if site.args:
        engine.protocols.ask_order(site.args[0], site.keywords.get("key"), site)
    return Sequence("list", None, engine.containers.element(_first(site)))


def _enumerate(engine: Engine, site: CallSite) -> Value:
    start = site.first("start", 1) or Const(0)
    begin = start.value if isinstance(start, Const) and isinstance(start.value, int) else None

    def counted(walked: Value) -> Value:
        items = few_items(engine, walked)
        if items is None:
            return iterator(None, row(Plain("int"), engine.containers.element(walked)))
        places = (Plain("int") if begin is None else Const(begin + place) for place in range(len(items)))
        return iterator(tuple(row(place, item) for place, item in zip(places, items, strict=True)))

    return lift(counted, _first(site))


def _zip(engine: Engine, site: CallSite) -> Value:
    def side_by_side(*walked: Value) -> Value:
        known = [few_items(engine, each) for each in walked]
        columns = [items for items in known if items is not None]
        if columns and len(columns) == len(walked):
            return iterator(tuple(row(*items) for items in zip(*columns, strict=False)))
        return iterator(None, row(*map(engine.containers.element, walked)))

    return lift(side_by_side, *site.args)


def _map(engine: Engine, site: CallSite) -> Value | None:
    if len(site.args) < 2:
        return None
    rows = [few_items(engine, a) for a in site.args[1:]]
    known = [items for items in rows if items is not None]
    if len(known) == len(rows):
        each = zip(*known, strict=False)
        return iterator(tuple(engine.calls.call_each(site.args[0], site.giving(r)) or UNKNOWN for r in each))
    inner = site.giving(tuple(engine.containers.element(a) for a in site.args[1:]))
    return iterator(None, engine.calls.call_each(site.args[0], inner) or UNKNOWN)


def filtered(engine: Engine, site: CallSite) -> Value | None:
    """`filter` and those of `itertools` like it: the predicate is called with each member."""
    if len(site.args) < 2:
        return None
    element = engine.containers.element(site.args[1])
    if site.args[0] != NONE:
        passed = engine.calls.call_each(site.args[0], site.giving((element,))) or UNKNOWN
        engine.truth.emit_test(site.node, "filter", passed, site.frame)
    return iterator(None, element)


def _next(engine: Engine, site: CallSite) -> Value:
    element = engine.containers.element(_first(site))
    return join(element, site.args[1]) if len(site.args) > 1 else element


def _reduce(engine: Engine, site: CallSite) -> Value:
    """`max`, `min`, `sum`. A size among numbers that do not vary may be bounded by them: nothing says it varies."""
    values = site.args
    key = site.keywords.get("key", NONE)
    if key != NONE and values:
        element = engine.containers.element(values[0]) if len(values) == 1 else join(*values)
        compared = engine.calls.call_each(key, site.giving((element,)))
        if compared is not None and tensor_of(compared):
            engine.truth.emit_test(site.node, "order", compared, site.frame)
        elif holds_tensor(values[0]):
            engine.emit(F.Extremum(engine.where(site.frame), site.node, values[0]))
        return element
    if len(values) == 1 and isinstance(values[0], Sequence):
        values = members_of(values[0])
    joined = join(*values) if values else UNKNOWN
    tensor = tensor_of(joined)
    if tensor:
        return Tensor(
            tensor.dtype, tensor.sure, from_python_scalar=isinstance(joined, Tensor) and tensor.from_python_scalar
        )
    if isinstance(joined, Const):
        return Plain(type(joined.value).__name__)
    number = next((option for option in options(joined) if isinstance(option, Plain)), None)
    if number is None:
        return joined
    bounded = number.origin == "shape" and not all(map(_varies, values))
    return Plain(number.kind) if bounded else number


def _varies(value: Value) -> bool:
    return all(isinstance(option, Plain) and option.origin == "shape" for option in options(value))


def _arithmetic(_engine: Engine, site: CallSite) -> Value:
    first = _first(site)
    tensor = tensor_of(first)
    if tensor:
        return Tensor(tensor.dtype, tensor.sure, rank=tensor.rank, from_python_scalar=tensor.from_python_scalar)
    if K.ARRAY in options(first):
        return K.ARRAY
    return first if isinstance(first, Plain) else Plain()


def _dict(engine: Engine, site: CallSite) -> Value:
    first = _first(site)
    usual = likely(first)
    base = usual if isinstance(usual, Mapping) else _dict_of_pairs(engine, usual, bool(site.args))
    entries = (*base.entries, *site.keywords.items())
    if usual is first:
        return Mapping(entries, base.element)
    return Mapping(entries, UNKNOWN if base.element is None else base.element, extra=True)


def _dict_of_pairs(engine: Engine, source: Value, given: bool) -> Mapping:
    """`dict(source)` of (key, value) pairs."""
    if isinstance(source, Sequence) and source.items is not None:
        pairs = [p.items for p in source.items if isinstance(p, Sequence) and p.items and len(p.items) == 2]
        keys = [p[0] for p in pairs]
        if len(pairs) == len(source.items) and all(isinstance(k, Const) for k in keys):
            return Mapping(tuple((cast(Const, k).value, p[1]) for k, p in zip(keys, pairs, strict=True)), None)
    pair = engine.containers.element(source)
    if isinstance(pair, Sequence) and pair.items and len(pair.items) == 2:
        return Mapping((), pair.items[1])
    return Mapping((), UNKNOWN if given else None)


def _getattr(engine: Engine, site: CallSite) -> Value | None:
    if len(site.args) < 2:
        return None
    default = site.args[2] if len(site.args) > 2 else None
    pattern = constant_text.name_pattern(site.node.args[1]) if len(site.node.args) > 1 else constant_text.ANY_NAME
    if pattern != constant_text.ANY_NAME and not isinstance(likely(site.args[1]), Const):
        named = _named_like(engine, site, re.compile(pattern))
        fitting = [engine.attributes.attribute(site.args[0], name, site.frame) for name in named]
        for option in options(site.args[0]):
            if isinstance(option, Instance):
                fitting += engine.heap[option].named_like(pattern)
            elif isinstance(option, External) and option.name.startswith("torch."):
                names = engine.operations.named_like(option.name, re.compile(pattern))
                fitting += [
                    K.external_attribute(f"{option.name}.{name}", engine.operations.tables.version)
                    for name in names[:MAX_OPTIONS]
                ]
        if fitting:
            engine.recurrent.touch_attribute(site.args[0], join(*fitting), site.node, site.frame)
            if isinstance(default, Const):  # nothing says that any of them is meant
                return prefer(default, join(*fitting))
            return join(*fitting, *([default] if default is not None else []))
    name = likely(site.args[1])
    known = all(isinstance(v, Const) and isinstance(v.value, str) for v in options(name))
    if site.args[0] == External("torch.nn") and default is None and not known:
        return External("torch.nn.Module")  # a class of modules, whichever it is
    value = engine.attributes.get_attribute(site.args[0], site.args[1], default, site.frame)
    if default is not None:  # Dynamo asks first whether it is there
        engine.unresolved.emit_unresolved(site.node, site.frame, value)
        value = keep(value, lambda option: not K.is_left(option))
    engine.recurrent.touch_attribute(site.args[0], value, site.node, site.frame)
    return value


def _named_like(engine: Engine, site: CallSite, pattern: re.Pattern[str]) -> list[str]:
    """Return the attributes and methods of an object with matching names; none if there are too many."""
    found: dict[str, None] = {}
    for option in options(site.args[0]):
        if isinstance(option, Instance):
            members = (cls.functions.keys() | cls.assigned.keys() for cls in engine.classes.mro(option.cls).classes)
            names = [*sorted(set().union(*members)), *engine.heap[option].attributes]
            found.update(dict.fromkeys(name for name in names if pattern.fullmatch(name)))
    return list(found) if len(found) <= MAX_OPTIONS else []


def _setattr(engine: Engine, site: CallSite) -> Value | None:
    owner, name, value = site.args if len(site.args) == 3 else (UNKNOWN,) * 3
    if isinstance(owner, Instance) and isinstance(name, Const):
        if engine.assignment.set_by_class(owner, str(name.value), value, site.frame):
            return NONE
    return set_plainly(engine, site)


def set_plainly(engine: Engine, site: CallSite) -> Value | None:
    """`object.__setattr__(made, name, value)`: nothing of its class has a say."""
    owner, name, value = site.args if len(site.args) == 3 else (UNKNOWN,) * 3
    if isinstance(owner, (Instance, ExternalInstance)) and isinstance(name, Const):
        engine.assignment.set_member(owner, str(name.value), value)
    if not isinstance(owner, Instance):
        return None
    if isinstance(name, Const):
        strong = engine.is_strong(site.frame)
        engine.heap[owner].update(str(name.value), value, strong=strong)
        engine.containers.note(owner, str(name.value))
    else:
        engine.heap[owner].put_dynamic(constant_text.name_pattern(site.node.args[1]), value)
    return NONE


def _hasattr(engine: Engine, site: CallSite) -> Value | None:
    if len(site.args) == 2 and isinstance(site.args[1], Const):
        owner, name = site.args[0], str(site.args[1].value)
        if isinstance(owner, Class):
            engine.unresolved.emit_unresolved(
                site.node, site.frame, engine.attributes.attribute(owner, name, site.frame)
            )
        answer = engine.attributes.has_attribute(owner, name)
        if answer != Const(False) and any(map(engine.classes.is_module, options(owner))):
            with engine.outside_trace():
                value = engine.attributes.attribute(owner, name, site.frame)
            engine.recurrent.touch_attribute(owner, value, site.node, site.frame)
        return answer
    return None


NAMESPACES = ("types.SimpleNamespace", "argparse.Namespace")
"""Classes of objects with their keyword arguments as attributes."""


def named_values(engine: Engine, name: str, site: CallSite, values: dict[str, Value]) -> ExternalInstance:
    """Return an object of one of these classes."""
    ident = engine.heap.ident(name, site.node, site.frame.context, escaping=engine.untraced > 0)
    made = ExternalInstance(name, ident)
    for key, value in values.items():
        engine.heap[made].update(key, value, strong=True)
    return made


def _vars(engine: Engine, site: CallSite) -> Value | None:
    """`vars(made)`: what an object of the source holds, or one of named values, or a module."""
    given = _first(site)
    if isinstance(given, Module):
        return given
    if isinstance(given, ExternalInstance) and given.ident and given.name in NAMESPACES:
        thing = engine.heap[given]
        return Mapping(tuple(thing.attributes.items()), None, escaping=thing.escaping)
    objects = [v for v in options(given) if isinstance(v, Instance)]
    return join(*(engine.attributes.attribute(v, "__dict__", site.frame) for v in objects)) if objects else None


def _any_of(decides: bool) -> Handler:
    """`any` or `all`: whether one member of a row is true, or false, which `decides`."""

    def handler(engine: Engine, site: CallSite) -> Value:
        return lift(lambda members: answered(engine, members), _first(site))

    def answered(engine: Engine, members: Value) -> Value:
        if tensor_of(members):
            return Plain("bool", "tensor")
        if isinstance(members, Sequence) and members.items is not None:
            answers = [engine.truth.answer(member) for member in members.items]
            decided = combine_answers((answer.decided for answer in answers), decides)
            guess = combine_answers((answer.likely for answer in answers), decides)
            if decided is not None and not may_change(members):
                return Const(decided)
            if guess is not None:
                return prefer(Const(guess), Plain("bool"))
        return Plain("bool")

    return handler


def _text(_engine: Engine, site: CallSite) -> Value:
    if len(site.args) == 1:
        return lift(_as_text, site.args[0])
    return Plain("str")


def _as_text(value: Value) -> Value:
    """`str(value)`."""
    if isinstance(value, Const) and isinstance(value.value, (str, int)):
        return Const(str(value.value))
    if isinstance(value, Sequence) and value.kind == "tuple" and value.items is not None:
        members = [v.value for v in value.items if isinstance(v, Const)]
        if len(members) == len(value.items):
            return Const(str((*members,)))
    return Plain("str")  # the graph has ended where a tensor is turned into text


def _type(engine: Engine, site: CallSite) -> Value:
    if len(site.args) == 3 and not engine.untraced:
        return UNKNOWN if holds_tensor(site.args[2]) else K.NEW_CLASS  # the graph has ended
    bases = site.args[1] if len(site.args) == 3 else None
    if isinstance(bases, Sequence) and bases.items:  # a class made on the spot does as its first base, but for its name
        return bases.items[0]
    return lift(lambda value: join(*map(_type_of, options(value))), _first(site))


def _type_of(value: Value) -> Value:
    """`type(value)`: a tensor may be of a class above, and so may a dict."""
    if isinstance(value, Instance):
        return Class(value.cls)
    if isinstance(value, Tensor) and not value.leaf:
        return prefer(External("torch.Tensor"), Plain("type"))
    if isinstance(value, Mapping):
        return prefer(External("dict"), Plain("type"))
    if isinstance(value, Sequence) and value.kind not in LAZY:
        return External(value.kind)
    kind = type(value.value).__name__ if isinstance(value, Const) else None
    kind = value.kind if isinstance(value, Plain) else kind
    return External(kind) if kind in TYPES else Plain("type")


def _issubclass(engine: Engine, site: CallSite) -> Value:
    if len(site.args) != 2:
        return Plain("bool")
    return lift(lambda cls, above: _whether_below(engine, cls, above), *site.args)


def _whether_below(engine: Engine, cls: Value, above: Value) -> Value:
    """Evaluate `issubclass(cls, above)`; an object with source by its class."""
    wanted = members_of(above) if isinstance(above, Sequence) else options(above)
    if isinstance(cls, Class):
        mro = engine.classes.mro(cls.info)
        inherited = {*map(Class, mro.classes), *map(External, mro.external)}
        if any(each in inherited for each in wanted):
            return Const(True)
        return Const(False) if all(isinstance(each, Class) for each in wanted) else Plain("bool")
    answers = [same(cls, each) for each in wanted]
    if True in answers:
        return Const(True)
    return Const(False) if answers and None not in answers else Plain("bool")


def _callable(engine: Engine, site: CallSite) -> Value:
    return lift(lambda value: _can_be_called(engine, value), _first(site))


def _can_be_called(engine: Engine, value: Value) -> Value:
    answers: set[bool | None] = set()
    for option in options(value):
        if isinstance(option, (Function, Class, Partial)) or (
            isinstance(option, Method) and isinstance(option.receiver, (Tensor, Sequence, Mapping))
        ):
            answers.add(True)
        elif isinstance(option, Instance):
            mro = engine.classes.mro(option.cls)
            answers.add(True if mro.is_module or mro.functions("__call__") else None)
        else:
            answers.add(False if isinstance(option, (Const, Sequence, Mapping, Tensor)) else None)
    return common_answer(answers)


def is_function(_engine: Engine, site: CallSite) -> Value:
    """`inspect.isfunction`."""
    return lift(lambda value: _is_of_kind(value, lambda v: isinstance(v, Function) and v.bound is None), _first(site))


def is_class(_engine: Engine, site: CallSite) -> Value:
    """`inspect.isclass`."""
    return lift(lambda value: _is_of_kind(value, lambda v: isinstance(v, (Class, External))), _first(site))


def _is_of_kind(value: Value, fits: Callable[[Value], bool]) -> Value:
    """Return whether a value is of a sort of object; an external name may be of any."""

    def open_one(v: Value) -> bool:
        vague = isinstance(v, Plain) and v.kind is None
        return vague or isinstance(v, (Method, Unknown)) or (isinstance(v, External) and not K.is_module_class(v.name))

    answers = {None if open_one(v) else fits(v) for v in options(value)}
    return common_answer(answers)


def namespace(engine: Engine, module: ModuleInfo) -> Mapping:
    """Classes, functions and other names for them, by name; what else a module binds stays unknown."""
    named = (FunctionInfo, ClassInfo, Import, ast.Name, ast.Attribute)
    wanted = [name for name, found in module.bindings.items() if all(isinstance(b, named) for b in found)]
    entries = tuple((name, engine.names.global_value(module, name) or UNKNOWN) for name in wanted)
    return Mapping(entries, UNKNOWN, True, extra=True)


def _globals(engine: Engine, site: CallSite) -> Value:
    return namespace(engine, site.frame.module)


def _dir(_engine: Engine, site: CallSite) -> Value:
    """`dir(module)`: the names that it binds, and those that each module has."""
    given = _first(site)
    names = Sequence("list", None, Plain("str"))
    if not isinstance(given, Module):
        return names
    return prefer(Sequence("list", tuple(map(Const, sorted(given.info.bindings))), UNKNOWN), names)


def got_members(engine: Engine, site: CallSite) -> Value | None:
    """`inspect.getmembers(module, predicate)`: rows of a name and what it names."""
    given = _first(site)
    if not isinstance(given, Module):
        return None
    predicate = site.first("predicate", 1)
    found = []
    for name, value in namespace(engine, given.info).entries:
        accepted = engine.calls.call_each(predicate, site.giving((value,))) if predicate not in (None, NONE) else None
        if accepted is None or accepted == Const(True):
            found.append(row(Const(str(name)), value))
    return prefer(Sequence("list", tuple(found), UNKNOWN), Sequence("list", None, row(Plain("str"), UNKNOWN)))


def _eval(engine: Engine, site: CallSite) -> Value | None:
    """Return an expression in constant text, as long as the model is built: a class or an activation by its name."""
    written = likely(site.args[0]) if site.args else None
    if not isinstance(written, Const) or not isinstance(written.value, str) or not engine.untraced:
        return None
    expression = _expression(written.value)
    return None if expression is None else engine.expressions.eval(expression, site.frame)


@lru_cache(1024)
def _expression(written: str) -> ast.expr | None:
    """Return the same node for the same text: an object is known by the place that makes it."""
    try:
        return ast.parse(written.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def made_by_type(engine: Engine, site: CallSite) -> Value | None:
    """`type.__call__(cls, ...)`, as a metaclass says it."""
    cls = _first(site)
    if not isinstance(cls, Class):
        return None
    return engine.objects.instantiate(cls, site.giving(site.args[1:], site.keywords), by_type=True)


def _wrap(_engine: Engine, site: CallSite) -> Value | None:
    """`staticmethod(function)`, as a class body says it."""
    return site.args[0] if site.args else None


def _locals(_engine: Engine, site: CallSite) -> Value:
    """Return the variables of the function, by name, without narrowed attributes."""
    return Mapping(tuple((name, value) for name, value in site.frame.env.items() if "." not in name), None)


HANDLERS: MappingProxyType[str, Handler] = MappingProxyType(
    {
        **{name: _number(name) for name in ("int", "float", "bool", "complex")},
        "len": _len,
        "isinstance": _isinstance,
        "range": _range,
        "list": _sequence("list", ordered=True),
        "tuple": _sequence("tuple", ordered=True),
        "iter": _sequence("iterator", ordered=True),
        "set": _sequence("set", ordered=False),
        "sorted": _sorted,
        "reversed": _sequence("iterator", ordered=False),
        "frozenset": _sequence("list", ordered=False),
        "enumerate": _enumerate,
        "zip": _zip,
        "map": _map,
        "filter": filtered,
        "next": _next,
        **dict.fromkeys(("max", "min", "sum"), _reduce),
        "abs": _arithmetic,
        "round": _number("round"),
        **dict.fromkeys(("pow", "divmod"), _arithmetic),
        "dict": _dict,
        "getattr": _getattr,
        "setattr": _setattr,
        "hasattr": _hasattr,
        "any": _any_of(True),
        "all": _any_of(False),
        "vars": _vars,
        "dir": _dir,
        "staticmethod": _wrap,
        "globals": _globals,
        "locals": _locals,
        "type": _type,
        "eval": _eval,
        **dict.fromkeys(("print", "delattr", "breakpoint", "exec"), _constant(NONE)),
        "str": _text,
        **dict.fromkeys(("repr", "format", "ascii", "chr", "bin", "hex", "input"), _constant(Plain("str"))),
        **dict.fromkeys(("id", "hash", "ord"), _constant(Plain())),
        "issubclass": _issubclass,
        "callable": _callable,
        "slice": _constant(Plain("slice")),
    }
)
