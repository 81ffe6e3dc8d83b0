"""Records: dataclasses, named tuples and the members of enums, with the methods that Python generates."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from types import MappingProxyType

from tcready.static.domain.mro import Mro
from tcready.static.domain.values import (
    UNKNOWN,
    Class,
    Const,
    External,
    Function,
    Instance,
    Mapping,
    Plain,
    Sequence,
    Unknown,
    Value,
    options,
)
from tcready.static.frontend.index import ClassInfo
from tcready.static.interp.interfaces import CallSite, Component, Engine

NAMED_TUPLES = frozenset({"typing.NamedTuple", "typing_extensions.NamedTuple", "collections.namedtuple"})
FIELD_MAKERS = ("dataclasses.field", "attr.ib", "attrs.field", "attr.field")
DATACLASSES = MappingProxyType(dict.fromkeys(("dataclasses.dataclass", "attr.s", "attrs.define"), True))


@dataclass(frozen=True)
class Field:
    """A field of a record, and the expression that gives what it holds if nothing is given."""

    name: str
    annotation: ast.expr
    cls: ClassInfo
    default: ast.expr | None
    factory: bool = False
    """The default is called."""
    given: bool = True
    """The call that makes the record may give it."""
    by_name: bool = False
    is_attribute: bool = True
    """It becomes an attribute: `InitVar` does not."""


class Records(Component):
    """Records: dataclasses, named tuples and the members of enums."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._fields: dict[ClassInfo, tuple[Field, ...]] = {}
        self._made: dict[int, ast.ClassDef] = {}
        """The classes that calls of `namedtuple` make."""
        self._dataclasses: dict[ClassInfo, bool] = {}

    def record_fields(self, cls: ClassInfo) -> tuple[Field, ...]:
        """Return the annotated fields of a class, those of its bases first."""
        if cls not in self._fields:
            found: dict[str, Field] = {}
            for above in reversed(self.engine.classes.mro(cls).classes):
                by_name = False
                for name, annotation in above.annotated.items():
                    written = ast.unparse(annotation)
                    if "KW_ONLY" in written:
                        by_name = True
                    elif not written.startswith(("ClassVar", "typing.ClassVar", "'ClassVar")):
                        found[name] = self._field(above, name, by_name, "InitVar" not in written)
            self._fields[cls] = tuple(found.values())
        return self._fields[cls]

    def _field(self, cls: ClassInfo, name: str, by_name: bool, is_attribute: bool) -> Field:
        annotation, default = cls.annotated[name], cls.assigned.get(name)
        if isinstance(default, ast.Call):
            called = self.engine.expressions.peek(default.func, self.engine.names.module_frame(cls.module))
            if isinstance(called, External) and called.name in FIELD_MAKERS:
                words = {keyword.arg: keyword.value for keyword in default.keywords}
                factory = words.get("default_factory", words.get("factory"))
                return Field(
                    name,
                    annotation,
                    cls,
                    factory or words.get("default"),
                    factory is not None,
                    not _is_false(words.get("init")),
                    by_name or _is_true(words.get("kw_only")),
                    is_attribute,
                )
        return Field(name, annotation, cls, default, by_name=by_name, is_attribute=is_attribute)

    def fill_record(self, made: Instance, site: CallSite) -> None:
        """Set the fields of an object of a class without `__init__`, as given or by default."""
        thing = self.engine.heap[made]
        fields = self.record_fields(made.cls)
        spread = site.spread()
        places = [field.name for field in fields if field.given and not field.by_name]
        given = {**dict(zip(places, spread.args, strict=False)), **site.keywords}
        passed: list[Value] = []
        for field in fields:
            value = given.pop(field.name, None)
            if value is None:
                value = self._default(field, site)
            elif isinstance(value, Unknown):
                declared = self.engine.annotations.annotation(field.annotation, field.cls.module, sure=True)
                value = value if isinstance(declared, Unknown) else declared
            if value is None:
                continue
            if field.is_attribute:
                thing.update(field.name, value, strong=True)
            else:
                passed.append(value)
        for name, value in given.items():
            thing.update(name, value, strong=True)
        if self.is_dataclass(made.cls):
            for info in self.engine.classes.mro(made.cls).functions("__post_init__")[:1]:
                self.engine.functions.invoke(Function(info, made), tuple(passed), {}, site.frame)

    def _default(self, field: Field, site: CallSite) -> Value | None:
        if field.default is None:
            return None
        frame = self.engine.names.module_frame(field.cls.module)
        value = self.engine.expressions.peek(field.default, frame)
        return self.engine.calls.call(value, site.giving(())) if field.factory else value

    def is_dataclass(self, cls: ClassInfo) -> bool:
        """Return whether a decorator of the class, or of one of its bases, is `dataclass` or similar."""
        if cls not in self._dataclasses:
            self._dataclasses[cls] = any(
                isinstance(value, External) and value.name in DATACLASSES
                for above in self.engine.classes.mro(cls).classes
                for node in above.node.decorator_list
                for value in self._named(node.func if isinstance(node, ast.Call) else node, above)
            )
        return self._dataclasses[cls]

    def _named(self, node: ast.expr, cls: ClassInfo) -> tuple[Value, ...]:
        return options(self.engine.expressions.peek(node, self.engine.names.module_frame(cls.module)))

    def row(self, value: Value) -> Sequence | None:
        """Return the fields of a named tuple, place by place; None for anything else."""
        if not isinstance(value, Instance) or NAMED_TUPLES.isdisjoint(self.engine.classes.mro(value.cls).external):
            return None
        return self._in_order(value)

    def _in_order(self, value: Instance) -> Sequence:
        thing = self.engine.heap[value]
        names = [field.name for field in self.record_fields(value.cls) if field.is_attribute]
        if thing.symbolic:  # its fields are as they are declared
            frame = self.engine.names.module_frame(value.cls.module)
            return Sequence(
                "tuple", tuple(self.engine.attributes.attribute(value, name, frame) for name in names), UNKNOWN
            )
        return Sequence("tuple", tuple(thing.attributes.get(name, UNKNOWN) for name in names), UNKNOWN)

    def compared_fields(self, value: Value) -> Sequence | None:
        """Return the fields that `==` of a record compares, in order; None if it has no such generated method."""
        if isinstance(value, Instance) and self.is_dataclass(value.cls):
            return self._in_order(value)
        return self.row(value)

    def record_method(self, made: Instance, name: str, site: CallSite) -> Value | None:
        """Return the result of a generated named tuple method; None if it is none of them."""
        row = self.row(made)
        if row is None:
            return None
        if name == "_replace":
            return self.replace_fields(made, site)
        if name == "_asdict":
            return self.as_mapping(made)
        if name in ("index", "count"):
            return Plain("int")
        return None

    def replace_fields(self, made: Instance, site: CallSite) -> Instance:
        """Return a copy of a record with other values for some of its fields."""
        ident = self.engine.heap.ident(
            "replaced", made.ident, site.node, site.frame.context, escaping=self.engine.untraced > 0
        )
        other = Instance(ident, made.cls)
        self.engine.heap[other].take(self.engine.heap[made])
        for name, value in site.keywords.items():
            self.engine.heap[other].update(name, value, strong=True)
        if self.is_dataclass(made.cls):
            for info in self.engine.classes.mro(made.cls).functions("__post_init__")[:1]:
                self.engine.functions.invoke(Function(info, other), (), {}, site.frame)
        return other

    def as_mapping(self, made: Value) -> Value | None:
        """`asdict(made)`."""
        if not isinstance(made, Instance):
            return None
        attributes = self.engine.heap[made].attributes
        names = [field.name for field in self.record_fields(made.cls) if field.is_attribute]
        return Mapping(tuple((name, attributes.get(name, UNKNOWN)) for name in names), None)

    def record_class(self, site: CallSite) -> Value | None:
        """Return the class that `namedtuple("N", "a b")` or `NamedTuple("N", [("a", int)])` makes."""
        node = site.node
        if id(node) not in self._made:
            pairs = _pairs(site.first("field_names", 1) or site.first("fields", 1), node)
            if pairs is None:
                return None
            words = {keyword.arg: keyword.value for keyword in node.keywords}
            defaults = words.get("defaults")
            last = list(defaults.elts) if isinstance(defaults, (ast.Tuple, ast.List)) else []
            bare = len(pairs) - len(last)
            body: list[ast.stmt] = [
                ast.AnnAssign(ast.Name(name, ast.Store()), annotation, last[i - bare] if i >= bare else None, 1)
                for i, (name, annotation) in enumerate(pairs)
            ]
            name = site.first("typename")
            title = str(name.value) if isinstance(name, Const) else "namedtuple"
            made = ast.ClassDef(name=title, bases=[node.func], keywords=[], body=body, decorator_list=[])
            self._made[id(node)] = ast.fix_missing_locations(ast.copy_location(made, node))
        return Class(self.engine.functions.local_class(self._made[id(node)], site.frame))

    def field_names(self, cls: ClassInfo) -> tuple[str, ...]:
        """Return the names of the fields of a dataclass, those of its bases first."""
        return tuple(field.name for field in self.record_fields(cls) if field.is_attribute)

    def is_enum(self, mro: Mro) -> bool:
        """Return whether a class is an enum: calling it looks a member up, represented by its value here."""
        return any(name.startswith("enum.") for name in mro.external)

    def enum_members(self, cls: ClassInfo) -> Sequence | None:
        """Return the members of an enum in order; None for another class."""
        if not self.is_enum(self.engine.classes.mro(cls)):
            return None
        names = [name for name, node in cls.assigned.items() if node is not None and not name.startswith("_")]
        members = [
            self.enum_member(Class(cls), name, self.engine.classes.class_attribute(cls, name, None)) for name in names
        ]
        apart = (m for n, m in enumerate(members) if not isinstance(m, Const) or m not in members[:n])
        return Sequence("iterator", tuple(apart), UNKNOWN)

    def enum_member(self, enum: Class, name: str, value: Value) -> Value:
        """Return the enum member with that value: a constant, or a class, represents its member; other values, or those
        of the enum's own constructor, are unknown."""
        if any(self.engine.classes.mro(enum.info).functions(made) for made in ("__init__", "__new__")):
            return UNKNOWN
        if not isinstance(value, Const):
            return UNKNOWN if isinstance(value, (Sequence, Mapping)) else value
        for first in enum.info.assigned:  # another name of one value is no other member
            if first == name or first.startswith("_"):
                break
            if self.engine.classes.class_attribute(enum.info, first, None) == value:
                return Const(value.value, first, enum)
        return Const(value.value, name, enum)

    def auto_value(self, holder: ClassInfo, name: str) -> Value:
        """`auto()` in an enum: one more than the number of the member before, twice it in a flag, and in an enum of texts
        the name."""
        mro = self.engine.classes.mro(holder)
        if mro.functions("_generate_next_value_"):
            return UNKNOWN
        if "enum.StrEnum" in mro.external:
            return Const(name.lower())
        flags = not {"enum.Flag", "enum.IntFlag"}.isdisjoint(mro.external)
        number = 0
        for other, node in holder.assigned.items():
            constant = node.value if isinstance(node, ast.Constant) else None
            after = max(1, number * 2) if flags else number + 1
            number = constant if isinstance(constant, int) else after
            if other == name:
                break
        return Const(number)


def _pairs(fields: Value | None, node: ast.Call) -> list[tuple[str, ast.expr]] | None:
    """Return the names of the fields and their annotations; None if the source does not decide them."""
    anything = ast.copy_location(ast.Name("object", ast.Load()), node)
    if isinstance(fields, Const) and isinstance(fields.value, str):
        return [(name, anything) for name in fields.value.replace(",", " ").split()]
    if not isinstance(fields, Sequence) or fields.items is None:
        return None
    written = node.args[1] if len(node.args) > 1 else None
    annotations = written.elts if isinstance(written, (ast.List, ast.Tuple)) else []
    found: list[tuple[str, ast.expr]] = []
    for place, item in enumerate(fields.items):
        name: Value = item
        annotation: ast.expr = anything
        if isinstance(item, Sequence) and item.items is not None and len(item.items) == 2:
            name = item.items[0]
            pair = annotations[place] if place < len(annotations) else None
            if isinstance(pair, (ast.Tuple, ast.List)) and len(pair.elts) == 2:
                annotation = pair.elts[1]
        if not isinstance(name, Const) or not isinstance(name.value, str):
            return None
        found.append((name.value, annotation))
    return found


def _is_false(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True
