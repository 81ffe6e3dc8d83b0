"""`itertools`, `functools`, `operator` and `collections`: their results, member by member."""

from __future__ import annotations

import ast
import dataclasses
import itertools
from types import MappingProxyType

from tcready.static.domain.folding import binary
from tcready.static.domain.values import (
    NONE,
    UNKNOWN,
    UNROLL,
    Class,
    Const,
    ExternalInstance,
    Function,
    Instance,
    Mapping,
    Partial,
    Plain,
    Sequence,
    Unknown,
    Value,
    join,
    lift,
    options,
    partial_of,
    tensor_of,
)
from tcready.static.interp.interfaces import CallSite, Engine
from tcready.static.library import builtins
from tcready.static.library.builtins import NAMESPACES, Handler, few_items, filtered, iterator, known_items, row


def _chain(engine: Engine, site: CallSite) -> Value:
    return _join(engine, site.args)


def _chain_from_iterable(engine: Engine, site: CallSite) -> Value | None:
    if not site.args:
        return None
    parts = known_items(engine, site.args[0])
    return _join(engine, parts if parts is not None else (engine.containers.element(site.args[0]),))


def _join(engine: Engine, parts: tuple[Value, ...]) -> Value:
    known = [known_items(engine, part) for part in parts]
    items = [item for found in known if found is not None for item in found]
    if all(found is not None for found in known) and len(items) <= UNROLL:
        return iterator(tuple(items))
    return iterator(None, join(*map(engine.containers.element, parts)) if parts else UNKNOWN)


def _zip_longest(engine: Engine, site: CallSite) -> Value:
    fill = site.keywords.get("fillvalue", NONE)
    known = [few_items(engine, a) for a in site.args]
    columns = [items for items in known if items is not None]
    if columns and len(columns) == len(site.args):
        rows = range(max(map(len, columns)))
        return iterator(tuple(row(*(c[i] if i < len(c) else fill for c in columns)) for i in rows))
    return iterator(None, row(*(join(engine.containers.element(a), fill) for a in site.args)))


def _product(engine: Engine, site: CallSite) -> Value:
    return iterator(None, row(*map(engine.containers.element, site.args)))


def _combinations(engine: Engine, site: CallSite) -> Value | None:
    """`combinations`, `permutations`: rows of so many of the members as the second argument says."""
    if not site.args:
        return None
    element = engine.containers.element(site.args[0])
    count = site.first("r", 1)
    if isinstance(count, Const) and isinstance(count.value, int) and 0 < count.value <= UNROLL:
        return iterator(None, row(*(element for _ in range(count.value))))
    return iterator(None, Sequence("tuple", None, element))


def _pairwise(engine: Engine, site: CallSite) -> Value | None:
    if not site.args:
        return None
    items = few_items(engine, site.args[0])
    if items is not None:
        return iterator(tuple(row(a, b) for a, b in itertools.pairwise(items)))
    element = engine.containers.element(site.args[0])
    return iterator(None, row(element, element))


def _some(engine: Engine, site: CallSite) -> Value | None:
    """`islice`, `cycle`: members of what is walked, who knows how many."""
    return iterator(None, engine.containers.element(site.args[0])) if site.args else None


def _repeat(_engine: Engine, site: CallSite) -> Value | None:
    return iterator(None, site.args[0]) if site.args else None


def _count(_engine: Engine, _site: CallSite) -> Value:
    return Sequence("range", None, Plain("int"))


def _starmap(engine: Engine, site: CallSite) -> Value | None:
    if len(site.args) < 2:
        return None
    given = engine.containers.element(site.args[1])
    items = given.items if isinstance(given, Sequence) and given.items is not None else None
    inner = site.giving(items if items is not None else (engine.containers.element(given),) * 2)
    return iterator(None, engine.calls.call_each(site.args[0], inner) or UNKNOWN)


def _accumulate(engine: Engine, site: CallSite) -> Value | None:
    if not site.args:
        return None
    element = engine.containers.element(site.args[0])
    function = site.first("func", 1)
    if function is None or function == NONE:
        return iterator(None, binary("Add", element, element))
    made = engine.calls.call_each(function, site.giving((element, element))) or UNKNOWN
    return iterator(None, join(element, made))


def _groupby(engine: Engine, site: CallSite) -> Value | None:
    if not site.args:
        return None
    element = engine.containers.element(site.args[0])
    key = site.first("key", 1)
    made = engine.calls.call_each(key, site.giving((element,))) if key is not None and key != NONE else element
    if made is not None and tensor_of(made):
        engine.truth.emit_test(site.node, "members", made, site.frame)  # each with the one before
    return iterator(None, row(made or UNKNOWN, iterator(None, element)))


def _tee(engine: Engine, site: CallSite) -> Value | None:
    if not site.args:
        return None
    count = site.first("n", 1) or Const(2)
    each = iterator(known_items(engine, site.args[0]), engine.containers.element(site.args[0]))
    if isinstance(count, Const) and isinstance(count.value, int) and 0 < count.value <= UNROLL:
        return row(*(each for _ in range(count.value)))
    return Sequence("tuple", None, each)


def _reduce(engine: Engine, site: CallSite) -> Value | None:
    """Call the function with its last result and the next member: with each that is known, or else until nothing
    new comes of it."""
    if len(site.args) < 2:
        return None
    items = few_items(engine, site.args[1])
    if items:
        known = [*site.args[2:3], *items]
        value = known[0]
        for item in known[1:]:
            value = engine.calls.call_each(site.args[0], site.giving((value, item))) or UNKNOWN
        return value
    element = engine.containers.element(site.args[1])
    value = site.args[2] if len(site.args) > 2 else element
    for _ in range(3):
        after = join(value, engine.calls.call_each(site.args[0], site.giving((value, element))) or UNKNOWN)
        if after == value:
            break
        value = after
    return value


def _partial(_engine: Engine, site: CallSite) -> Value | None:
    """Return the same callable with arguments filled in."""
    return lift(lambda function: _filled(function, site), site.args[0]) if site.args else None


def _filled(function: Value, site: CallSite) -> Value:
    found: list[Value] = []
    for option in options(function):
        if isinstance(option, Function):
            filled = sum(isinstance(k, int) for k, _ in option.given)
            given = (*option.given, *enumerate(site.args[1:], filled), *site.keywords.items())
            found.append(dataclasses.replace(option, given=given))
        elif isinstance(option, Partial):
            filled = sum(isinstance(k, int) for k, _ in option.given)
            given = (*option.given, *enumerate(site.args[1:], filled), *site.keywords.items())
            found.append(partial_of(option.function, given))
        elif isinstance(option, Unknown):
            found.append(option)
        else:
            found.append(partial_of(option, (*enumerate(site.args[1:]), *site.keywords.items())))
    return join(*found)


def _binary(name: str, *, in_place: bool = False) -> Handler:
    def handler(engine: Engine, site: CallSite) -> Value | None:
        if len(site.args) != 2:
            return None
        return engine.protocols.apply_operator(
            name, site.args[0], site.args[1], site.node, site.frame, in_place=in_place
        )

    return handler


def _compare(kind: type[ast.cmpop]) -> Handler:
    def handler(engine: Engine, site: CallSite) -> Value | None:
        if len(site.args) != 2:
            return None
        return engine.protocols.compare(kind(), site.args[0], site.args[1], site.node, site.frame)

    return handler


def _getitem(engine: Engine, site: CallSite) -> Value | None:
    if len(site.args) != 2:
        return None
    return engine.protocols.index_called(site)


def _getter(name: str) -> Handler:
    """Return an object of `operator` that picks from what it is called with."""

    def handler(engine: Engine, site: CallSite) -> Value:
        ident = engine.heap.ident(name, site.node, site.frame.context, escaping=engine.untraced > 0)
        made = ExternalInstance(name, ident)
        engine.heap[made].members = row(*site.args)
        engine.heap[made].attributes = dict(site.keywords)
        return made

    return handler


def call_getter(engine: Engine, made: ExternalInstance, site: CallSite) -> Value | None:
    """`itemgetter(0, 2)(rows)`, `attrgetter("a.b")(x)`, `methodcaller("sum", 0)(x)`."""
    picks = engine.heap[made].members
    if not isinstance(picks, Sequence) or picks.items is None or not site.args:
        return None
    subject = site.args[0]
    if made.name == "operator.methodcaller":
        name = picks.items[0] if picks.items else UNKNOWN
        if not isinstance(name, Const):
            return None
        inner = site.giving(picks.items[1:], dict(engine.heap[made].attributes))
        return engine.calls.call_each(engine.attributes.attribute(subject, str(name.value), site.frame), inner)
    found: list[Value] = []
    for wanted in picks.items:
        if made.name == "operator.itemgetter":
            found.append(engine.protocols.index_called(site.giving((subject, wanted))))
            continue
        value = subject
        for part in str(wanted.value).split(".") if isinstance(wanted, Const) else ():
            value = engine.attributes.attribute(value, part, site.frame)
        found.append(value if isinstance(wanted, Const) else UNKNOWN)
    return found[0] if len(found) == 1 else row(*found)


def _namespace(name: str) -> Handler:
    """Return an object that holds what it is given by name."""
    return lambda engine, site: builtins.named_values(engine, name, site, site.keywords)


def _named_tuple(engine: Engine, site: CallSite) -> Value | None:
    return engine.records.record_class(site)


def _fields(engine: Engine, site: CallSite) -> Value | None:
    """Return the result of `dataclasses.fields(made)`: a field is represented by its name here."""
    given = site.args[0] if site.args else UNKNOWN
    cls = given.info if isinstance(given, Class) else given.cls if isinstance(given, Instance) else None
    if cls is None or not engine.records.is_dataclass(cls):
        return None
    return row(*(Const(name, name) for name in engine.records.field_names(cls)))


def _replace(engine: Engine, site: CallSite) -> Value | None:
    """`dataclasses.replace(made, ...)`."""
    found = (
        [engine.records.replace_fields(v, site) for v in options(site.args[0]) if isinstance(v, Instance)]
        if site.args
        else []
    )
    return join(*found) if found else None


def _as_mapping(engine: Engine, site: CallSite) -> Value | None:
    return engine.records.as_mapping(site.args[0]) if site.args else None


def _as_row(engine: Engine, site: CallSite) -> Value | None:
    return engine.records.compared_fields(site.args[0]) if site.args else None


def _builtin(name: str) -> Handler:
    return lambda engine, site: builtins.call(engine, name, site)


def _deque(engine: Engine, site: CallSite) -> Value:
    if not site.args:
        return Sequence("list", (), UNKNOWN)
    return Sequence("list", known_items(engine, site.args[0]), engine.containers.element(site.args[0]))


def _defaultdict(engine: Engine, site: CallSite) -> Value:
    made = engine.calls.call_each(site.args[0], site.giving(())) if site.args and site.args[0] != NONE else None
    return Mapping((), made if made is not None else UNKNOWN)


def _counter(_engine: Engine, _site: CallSite) -> Value:
    return Mapping((), Plain("int"))


ARITHMETIC = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mult",
    "truediv": "Div",
    "floordiv": "FloorDiv",
    "mod": "Mod",
    "pow": "Pow",
    "and_": "BitAnd",
    "or_": "BitOr",
    "xor": "BitXor",
    "matmul": "MatMult",
    "concat": "Add",
}
GETTERS = ("operator.itemgetter", "operator.attrgetter", "operator.methodcaller")
COMPARISONS = {"eq": ast.Eq, "ne": ast.NotEq, "lt": ast.Lt, "le": ast.LtE, "gt": ast.Gt, "ge": ast.GtE}

HANDLERS: MappingProxyType[str, Handler] = MappingProxyType(
    {
        "itertools.chain": _chain,
        "itertools.chain.from_iterable": _chain_from_iterable,
        "itertools.zip_longest": _zip_longest,
        "itertools.product": _product,
        **{f"itertools.{n}": _combinations for n in ("combinations", "permutations")},
        "itertools.pairwise": _pairwise,
        **{f"itertools.{n}": _some for n in ("islice", "cycle")},
        **{f"itertools.{n}": filtered for n in ("takewhile", "dropwhile", "filterfalse")},
        "itertools.repeat": _repeat,
        "itertools.count": _count,
        "itertools.starmap": _starmap,
        "itertools.accumulate": _accumulate,
        "itertools.groupby": _groupby,
        "itertools.tee": _tee,
        "functools.reduce": _reduce,
        "functools.partial": _partial,
        **{f"operator.{n}": _binary(op) for n, op in ARITHMETIC.items()},
        **{f"operator.i{n.rstrip('_')}": _binary(op, in_place=True) for n, op in ARITHMETIC.items()},
        **{f"operator.{n}": _compare(op) for n, op in COMPARISONS.items()},
        "operator.getitem": _getitem,
        **{name: _getter(name) for name in GETTERS},
        **{name: _namespace(name) for name in NAMESPACES},
        **dict.fromkeys(("collections.namedtuple", "typing.NamedTuple"), _named_tuple),
        **dict.fromkeys(("dataclasses.replace", "copy.replace"), _replace),
        "dataclasses.fields": _fields,
        "dataclasses.asdict": _as_mapping,
        "dataclasses.astuple": _as_row,
        "operator.index": _builtin("int"),
        "math.prod": _builtin("sum"),
        "torch.Size": _builtin("tuple"),
        "operator.truth": _builtin("bool"),
        "operator.abs": _builtin("abs"),
        "collections.OrderedDict": _builtin("dict"),
        "collections.deque": _deque,
        "collections.defaultdict": _defaultdict,
        "collections.Counter": _counter,
    }
)
