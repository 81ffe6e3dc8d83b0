"""Special methods of the user's classes (operators, comparisons, truth, length, iteration, text, `with`, descriptors),
interpreted at the place that calls them."""

from __future__ import annotations

import ast
import itertools
from functools import partial
from types import MappingProxyType

from tcready.static.domain import facts as F  # noqa: N812 - the facts are many and their names common words
from tcready.static.domain.folding import binary, compared
from tcready.static.domain.scope import Frame
from tcready.static.domain.values import (
    FLOATS,
    NONE,
    TAINTED,
    UNKNOWN,
    Choice,
    Class,
    Const,
    External,
    Function,
    Instance,
    Module,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    is_surely_tensor,
    join,
    keep,
    lift,
    likely,
    members_of,
    options,
    tensor_of,
)
from tcready.static.frontend.index import ClassInfo
from tcready.static.interp.interfaces import CallSite, Component, Engine
from tcready.static.library import semantics as K  # noqa: N812
from tcready.static.library.dtype_tests import compare, float_type

ARITHMETIC = MappingProxyType(
    {
        "Add": "add",
        "Sub": "sub",
        "Mult": "mul",
        "Div": "truediv",
        "FloorDiv": "floordiv",
        "Mod": "mod",
        "Pow": "pow",
        "MatMult": "matmul",
        "BitAnd": "and",
        "BitOr": "or",
        "BitXor": "xor",
        "LShift": "lshift",
        "RShift": "rshift",
    }
)
"""Operators as `ast` calls them, and the stem of the methods that overload them."""
COMPARISONS: MappingProxyType[type[ast.cmpop], tuple[str, str]] = MappingProxyType(
    {
        ast.Eq: ("__eq__", "__eq__"),
        ast.NotEq: ("__ne__", "__ne__"),
        ast.Lt: ("__lt__", "__gt__"),
        ast.LtE: ("__le__", "__ge__"),
        ast.Gt: ("__gt__", "__lt__"),
        ast.GtE: ("__ge__", "__le__"),
    }
)
"""The method of the left operand, and the one of the right that is asked if that has none."""
UNARY = MappingProxyType({ast.USub: "__neg__", ast.UAdd: "__pos__", ast.Invert: "__invert__"})
CONSTANTS = frozenset({"str", "bytes", "int", "float", "tuple"})
"""Types that make objects of their subclasses constants to Dynamo, or may do so."""
NUMBERS = CONSTANTS - {"tuple"}
"""Types that make objects of their subclasses plain numbers or strings in a graph."""
NOT_IMPLEMENTED = External("NotImplemented")


class Protocols(Component):
    """Objects of the user's own classes where Python asks them."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._named_attributes: set[tuple[ClassInfo, str]] = set()
        """Class attributes after their `__set_name__` has run."""
        self._subscripts: dict[int, ast.Subscript] = {}

    def special(self, owner: Value, name: str, args: tuple[Value, ...], frame: Frame) -> Value | None:
        """Call the method `name` of an object's class; None if no class with source defines it."""
        if not isinstance(owner, Instance):
            return None
        mro = self.engine.classes.mro(owner.cls)
        holder = next((c for c in mro.classes if name in c.functions or name in c.assigned), None)
        if holder is None:
            return None
        alias = holder.assigned.get(name)
        if name not in holder.functions and isinstance(alias, ast.Name):  # `__radd__ = __add__`
            name = alias.id
        defined = mro.functions(name)[:1]
        found = [
            self.engine.functions.invoke(Function(value.info, owner, value.closure, value.given), args, {}, frame)
            for info in defined
            for value in options(
                self.engine.functions.apply_decorators(info, self.engine.names.module_frame(info.module))
            )
            if isinstance(value, Function)
        ]
        return join(*found) if found else None

    def _call_binary_method(self, owner: Value, name: str, other: Value, frame: Frame) -> tuple[Value | None, bool]:
        """Return the result of a binary method, and whether it is complete: False if it may be `NotImplemented`."""
        made = self.special(owner, name, (other,), frame)
        if made is None or made == NOT_IMPLEMENTED:
            return None, False
        whole = NOT_IMPLEMENTED not in options(made)
        return (made if whole else keep(made, lambda v: v != NOT_IMPLEMENTED)), whole

    def apply_operator(
        self, op: str, left: Value, right: Value, node: ast.expr, frame: Frame, *, in_place: bool = False
    ) -> Value:
        """Return `left op right`, or `left op= right`, at `node`."""
        if not self.engine.untraced and (_has_object(left) or _has_object(right)):
            self._emit_overloaded(op, left, right, node, frame)
        made = self._apply_overload(op, left, right, frame, in_place)
        before = self.engine.untraced and K.ARRAY not in (*options(left), *options(right))
        return K.NUMBER if made == K.ARRAY and before else made  # numbers of numpy, before anything is traced

    def _apply_overload(self, op: str, left: Value, right: Value, frame: Frame, in_place: bool) -> Value:
        contained = op == "Add" and any(self.engine.containers.container_members(v) is not None for v in options(left))
        if not contained and not _has_object(left) and not _has_object(right):
            text = any(isinstance(v := likely(side), Const) and isinstance(v.value, str) for side in (left, right))
            return lift(partial(binary, op), left, right) if text else binary(op, left, right)

        def apply(left: Value, right: Value) -> Value:
            pairs = ((one, other) for one in options(left) for other in options(right))
            return join(*(self._apply_methods(op, one, other, frame, in_place) for one, other in pairs))

        return lift(apply, left, right)

    def _emit_overloaded(self, op: str, left: Value, right: Value, node: ast.expr, frame: Frame) -> None:
        """Emit an operator of a tensor and an object: Dynamo puts that of tensors into its graph; it knows no other
        `@`."""
        stem = ARITHMETIC.get(op, "")
        for owner, name, other in ((left, f"__{stem}__", right), (right, f"__r{stem}__", left)):
            usual, tensor = options(likely(owner)), tensor_of(likely(other))
            fitting = tensor.subclass is None if tensor is not None else op == "MatMult"
            overloading = [v for v in usual if isinstance(v, Instance) and self._overloads(v, name)]
            if overloading and fitting:
                sure = len(overloading) == len(usual)
                written = not isinstance(node, ast.Call)
                self.engine.emit(F.Overloaded(self.engine.where(frame), node, other, sure, written))
                return

    def _overloads(self, value: Instance, name: str) -> bool:
        """Return whether an object has its own method for an operator, and is none that Dynamo computes with."""
        mro = self.engine.classes.mro(value.cls)
        if not any(name in c.functions or name in c.assigned for c in mro.classes):
            return False
        constant = not NUMBERS.isdisjoint(mro.external) or self.engine.records.is_enum(mro)
        return not (constant or self.engine.records.row(value) is not None or mro.functions("__torch_function__"))

    def _apply_methods(self, op: str, left: Value, right: Value, frame: Frame, in_place: bool) -> Value:
        stem = ARITHMETIC.get(op)
        candidates = [(left, f"__{stem}__", right), (right, f"__r{stem}__", left)]
        if in_place:
            candidates.insert(0, (left, f"__i{stem}__", right))
        made = self._first_of(candidates, frame)
        if made is None and op == "Add":
            made = self.engine.containers.container_sum(left, right, in_place=in_place)
        if made is not None:
            return made
        left, right = self.engine.records.row(left) or left, self.engine.records.row(right) or right
        objects = isinstance(left, Instance) or isinstance(right, Instance)
        return UNKNOWN if objects and not tensor_of(join(left, right)) else binary(op, left, right)

    def _first_of(self, candidates: list[tuple[Value, str, Value]], frame: Frame) -> Value | None:
        """Return the result of the first of several methods that implements an operator; None if none does."""
        found: list[Value] = []
        for owner, name, other in candidates:
            made, whole = self._call_binary_method(owner, name, other, frame)
            if made is not None:
                found.append(made)
            if whole:
                break
        return join(*found) if found else None

    def apply_unary(self, op: ast.unaryop, value: Value, frame: Frame) -> Value | None:
        """Return `-value`, `+value`, `~value` of an object; None if no class with source defines it."""
        name = UNARY.get(type(op))
        found = [self.special(v, name, (), frame) for v in options(value)] if name else []
        return join(*(v for v in found if v is not None)) if any(v is not None for v in found) else None

    def compare(self, op: ast.cmpop, left: Value, right: Value, node: ast.expr, frame: Frame) -> Value:
        """Evaluate the comparison `left op right`; emit at `node` that it evaluates the truth of members."""
        if isinstance(op, (ast.Is, ast.IsNot)):
            return lift(partial(self._compared, op), left, right)
        if not _has_object(left) and not _has_object(right):
            for one, other in itertools.product(options(left), options(right)):
                self._ask_members(op, one, other, node, frame)
            return lift(partial(self._compared, op), left, right)

        def apply(left: Value, right: Value) -> Value:
            pairs = ((one, other) for one in options(left) for other in options(right))
            return join(*(self._compare_methods(op, one, other, node, frame) for one, other in pairs))

        return lift(apply, left, right)

    def _compared(self, op: ast.cmpop, left: Value, right: Value) -> Value:
        """`left op right` of values without objects, in the type that the model computes in."""
        dtype = self.engine.dtype
        usual = None if self.engine.autocast is not None else FLOATS[0] if dtype is None else float_type(dtype)
        of_type = compare(op, left, right, usual, fixed=dtype is not None)
        return compared(op, left, right) if of_type is None else of_type

    def _ask_members(self, op: ast.cmpop, left: Value, right: Value, node: ast.expr, frame: Frame) -> None:
        """Sequences are equal if their members are: of two tensors, Python asks for the truth of `==`."""
        if not isinstance(op, (ast.Eq, ast.NotEq)):
            return
        if not isinstance(left, Sequence) or not isinstance(right, Sequence) or left.kind != right.kind:
            return
        if left.kind not in ("list", "tuple"):
            return
        if left.items is None and right.items is None and not _has_object(left.element):
            return
        # where one length is known alone, they are taken to be equally long: two shapes, more often than not
        known = max(len(left.items or ()), len(right.items or ()), 1)
        ones = left.items if left.items is not None else (left.element,) * known
        others = right.items if right.items is not None else (right.element,) * known
        if len(ones) != len(others):
            return
        for one, other in zip(ones, others, strict=True):
            same = self._same(one, other, node, frame)
            if one is not other and (is_surely_tensor(same) or same == K.ARRAY):
                self.engine.truth.emit_test(node, "members", same, frame)
            if self.engine.truth.answer(same).decided is not True:
                return

    def _same(self, one: Value, other: Value, node: ast.expr, frame: Frame) -> Value:
        """`one == other` of two members: the methods of objects are asked, but of an object and itself."""
        if one == other or not (_has_object(one) and _has_object(other)):
            return compared(ast.Eq(), one, other)
        return self.compare(ast.Eq(), one, other, node, frame)

    def _compare_methods(self, op: ast.cmpop, left: Value, right: Value, node: ast.expr, frame: Frame) -> Value:
        if isinstance(op, (ast.In, ast.NotIn)):
            made = self.special(right, "__contains__", (left,), frame)
            if made is not None:
                truth = self.truth_operand(made, frame)
                answer = self.engine.truth.answer(truth).decided
                if answer is not None:
                    return Const(answer == isinstance(op, ast.In))
                return Plain("bool", truth.origin if isinstance(truth, Plain) else "config")
            walked = self.iterate(right, frame)
            if isinstance(walked, Sequence):
                for member in members_of(walked):
                    if self.engine.truth.answer(self._same(left, member, node, frame)).decided is True:
                        break
            return compared(op, left, walked)
        own, reflected = COMPARISONS[type(op)]
        made = self._first_of([(left, own, right), (right, reflected, left)], frame)
        if made is not None:
            return made
        if isinstance(op, ast.NotEq):
            same = self._first_of([(left, "__eq__", right), (right, "__eq__", left)], frame)
            if same is not None:
                answer = self.engine.truth.answer(same).decided
                return same if answer is None else Const(not answer)
        one, other = self.engine.records.compared_fields(left), self.engine.records.compared_fields(right)
        if one is not None and other is not None:
            self._ask_members(op, one, other, node, frame)
        return compared(op, one or left, other or right)

    def truth_operand(self, value: Value, frame: Frame) -> Value:
        """Return the value that Python tests for truth: the result of `__bool__` or `__len__`, else `value` itself."""
        if not _has_object(value):
            return value
        return lift(lambda v: join(*(self._truth_operand(option, frame) for option in options(v))), value)

    def _truth_operand(self, value: Value, frame: Frame) -> Value:
        for name in ("__bool__", "__len__"):
            made = self.special(value, name, (), frame)
            if made is not None:
                return made
        row = self.engine.records.row(value)
        return value if row is None else row

    def iterate(self, value: Value, frame: Frame) -> Value:
        """Return the value that Python iterates over: the result of `__iter__`, else the value itself."""
        if isinstance(value, Class):
            return self.engine.records.enum_members(value.info) or value
        if not _has_object(value):
            return value
        return lift(lambda v: join(*(self._iterate_object(option, frame) for option in options(v))), value)

    def _iterate_object(self, value: Value, frame: Frame) -> Value:
        row = self.engine.records.row(value)
        if row is not None:
            return row
        walker = self.special(value, "__iter__", (), frame)
        if walker is not None:
            return join(*(self._step_members(option, frame) or option for option in options(walker)))
        own = self._step_members(value, frame)
        if own is not None:
            return own
        if isinstance(value, Instance) and self.engine.containers.container_members(value) is None:
            item = self.special(value, "__getitem__", (Plain("int"),), frame)
            if item is not None:
                return Sequence("iterator", None, item)
        return value

    def _step_members(self, value: Value, frame: Frame) -> Value | None:
        """Return the members that `__next__` of an object gives, one after the other."""
        step = self.special(value, "__next__", (), frame)
        return None if step is None else Sequence("iterator", None, step)

    def subscript(self, base: Value, index: Value, node: ast.expr, frame: Frame) -> Value:
        """`base[index]`."""
        members = self.engine.records.enum_members(base.info) if isinstance(base, Class) else None
        if isinstance(base, Class) and members is not None and members.items:
            return lift(lambda v: self._member(base, members, v, frame), index)
        picks = self.engine.classes.mro(base.info).functions("__class_getitem__") if isinstance(base, Class) else []
        if picks:
            return self.engine.functions.invoke(Function(picks[0], base), (index,), {}, frame)
        if base == External("sys.modules") and isinstance(index, Const):
            module = self.engine.program.module(str(index.value))
            return UNKNOWN if module is None else Module(module)
        if not _has_object(base):
            return self.engine.containers.item(base, index, node)
        return lift(lambda v: join(*(self._call_getitem(option, index, node, frame) for option in options(v))), base)

    def _member(self, enum: Class, members: Sequence, name: Value, frame: Frame) -> Value:
        """`Enum[name]`: one of its members where the name is not known."""
        named = options(name)
        if all(isinstance(v, Const) for v in named):
            return join(
                *(self.engine.attributes.class_member(enum, str(v.value), frame) for v in named if isinstance(v, Const))
            )
        return join(*(members.items or ()))

    def _call_getitem(self, base: Value, index: Value, node: ast.expr, frame: Frame) -> Value:
        made = self.special(base, "__getitem__", (index,), frame)
        if made is not None and not self.engine.untraced and self._comes_from_outside(base):
            # what compiled code picks out of an object that it is given is what it computes with
            made = join(*(TAINTED if isinstance(v, Unknown) else v for v in options(made)))
        row = self.engine.records.row(base) if made is None else None
        return made if made is not None else self.engine.containers.item(row or base, index, node)

    def _comes_from_outside(self, value: Value) -> bool:
        """Return whether an object is known by its class alone."""
        return isinstance(value, Instance) and self.engine.heap[value].symbolic

    def enter_context(self, manager: Value, frame: Frame) -> Value | None:
        """Return the value that `with manager as name` binds; None if no class with source defines it."""
        found = [self.special(option, "__enter__", (), frame) for option in options(manager)]
        return join(*(v for v in found if v is not None)) if any(v is not None for v in found) else None

    def exit_context(self, manager: Value, frame: Frame) -> None:
        """Leave a `with`."""
        for option in options(manager):
            self.special(option, "__exit__", (NONE, NONE, NONE), frame)

    def call_first_method(self, value: Value, frame: Frame, *names: str) -> Value | None:
        """Call the first of these methods that the class of an object has; None if it has none."""
        for option in options(value):
            if "__repr__" in names and not self._is_own(option):
                continue
            for name in names:
                made = self.special(option, name, (Const(""),) if name == "__format__" else (), frame)
                if made is not None:
                    return made
        return None

    def _is_own(self, value: Value) -> bool:
        """Return whether it is an object of a class of the project: how a package writes its own as text matters to
        nobody."""
        return isinstance(value, Instance) and self.engine.program.is_own(value.cls.module.path)

    def ask_order(self, walked: Value, key: Value | None, site: CallSite) -> None:
        """Emit the comparisons of a sort: the truth of `<` between any two members, or between their keys."""
        element = self.engine.containers.element(walked)
        if key is not None and key != NONE:
            element = self.engine.calls.call_each(key, site.giving((element,))) or UNKNOWN
        if isinstance(walked, Sequence) and walked.items == ():
            return
        odd = self._no_constant(element)
        if odd is not None:
            first = self._compared_first(element)
            kind = "order" if self._no_constant(first) is not None else "order of parts"
            self.engine.truth.emit_test(site.node, kind, odd, site.frame)
            return
        less = self.truth_operand(self.compare(ast.Lt(), element, element, site.node, site.frame), site.frame)
        if tensor_of(less):
            self.engine.truth.emit_test(site.node, "order", less, site.frame)

    def _compared_first(self, value: Value) -> Value:
        """Return the first member of each item, which `<` compares first; the item itself if it has no members."""
        row = likely(self.engine.records.row(likely(value)) or value)
        while isinstance(row, Sequence) and row.items:
            row = likely(row.items[0])
        return row

    def _no_constant(self, value: Value) -> Value | None:
        """Return a tensor, a module or an object in what is sorted by: Dynamo sorts by constants alone."""
        for option in options(value):
            row = self.engine.records.row(option) or option
            if isinstance(row, Tensor) or row == K.ARRAY or self.engine.classes.is_module(row):
                return row
            doubtful = UNKNOWN in options(value) or TAINTED in options(value)
            if isinstance(row, Instance) and not doubtful:
                if not CONSTANTS & {*self.engine.classes.mro(row.cls).external}:
                    return row
            if isinstance(row, Sequence):
                found = (self._no_constant(member) for member in members_of(row))
                odd = next((v for v in found if v is not None), None)
                if odd is not None:
                    return odd
        return None

    def index_called(self, site: CallSite) -> Value:
        """Evaluate `operator.getitem(base, index)` as the subscript that it is."""
        base, index = site.args
        node = self._subscripts.get(id(site.node))
        if node is None:
            written = (*site.node.args, site.node, site.node)
            node = ast.copy_location(ast.Subscript(written[0], written[1], ast.Load()), site.node)
            self._subscripts[id(site.node)] = node
        parts = index.items if isinstance(index, Sequence) and index.kind == "tuple" and index.items else (index,)
        where = self.engine.where(site.frame)
        self.engine.emit(F.Index(where, node, base, index, parts, (), "load"))
        return self.subscript(base, index, site.node, site.frame)

    def read_descriptor(self, value: Value, owner: Instance | Class, name: str, frame: Frame) -> Value:
        """Return the value of reading a class attribute: that of its descriptor if it is one."""
        if isinstance(value, Choice):
            return join(*(self.read_descriptor(option, owner, name, frame) for option in value.options))
        if K.is_property(value) and not isinstance(owner, Class):
            getter = value.given[0][1]
            read = [
                self.engine.functions.invoke(option.bound_to(owner), (), {}, frame)
                for option in options(getter)
                if isinstance(option, Function)
            ]
            return join(*read) if read else UNKNOWN
        if not isinstance(value, Instance):
            return value
        self._call_set_name(value, owner, name, frame)
        instance = owner if isinstance(owner, Instance) else NONE
        cls = owner if isinstance(owner, Class) else Class(owner.cls)
        made = self.special(value, "__get__", (instance, cls), frame)
        return value if made is None else made

    def set_through(self, value: Value, owner: Instance, name: str, new: Value, frame: Frame) -> bool:
        """Assign an attribute through a descriptor; False if the class attribute is none."""
        self._call_set_name(value, owner, name, frame)
        return self.special(value, "__set__", (owner, new), frame) is not None

    def _call_set_name(self, value: Value, owner: Instance | Class, name: str, frame: Frame) -> None:
        """`__set_name__`, which the class statement called."""
        cls = owner.info if isinstance(owner, Class) else owner.cls
        holder = self.engine.classes.mro(cls).holder(name)
        if holder is not None and (holder, name) not in self._named_attributes:
            self._named_attributes.add((holder, name))
            with self.engine.outside_trace():
                self.special(value, "__set_name__", (Class(holder), Const(name)), frame)


def _has_object(value: Value) -> bool:
    return any(isinstance(option, Instance) for option in options(value))
