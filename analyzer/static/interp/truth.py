"""Truth evaluation and narrowing: the result of a test according to the source, and the values known after it."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable
from collections.abc import Sequence as Sequential
from dataclasses import replace
from types import MappingProxyType
from typing import TypeGuard

from tcready.static.domain import facts as F  # noqa: N812 - the facts are many and their names common words
from tcready.static.domain import priors
from tcready.static.domain.facts import DecidedBy
from tcready.static.domain.scope import Frame, narrowing_key
from tcready.static.domain.values import (
    FLOATING,
    FLOATS,
    MAX_OPTIONS,
    NONE,
    TAINTED,
    Answer,
    Choice,
    Class,
    Const,
    DType,
    External,
    ExternalInstance,
    FloatType,
    Function,
    Instance,
    Mapping,
    Origin,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    common_answer,
    join,
    likely,
    members_of,
    number_kind,
    options,
    prefer,
    tensor_of,
    truth,
    truth_value,
    without_falsy,
    without_none,
)
from tcready.static.frontend.source import holds_chain
from tcready.static.interp.forks import OF_LAYOUT, foremost
from tcready.static.interp.interfaces import Component
from tcready.static.interp.match_lowering import Fits, values_test
from tcready.static.library import semantics as K  # noqa: N812
from tcready.static.library.dtype_tests import float_type, other_types
from tcready.static.library.python_classes import is_object_of, python_class
from tcready.static.library.semantics import PROPERTY, dtype_of, is_module_class, is_property, public_name
from tcready.static.library.torch_classes import derives

OFF = frozenset("torch.is_autocast_enabled torch.is_autocast_cpu_enabled torch.distributed.is_initialized".split())
"""States that a user has to switch on around the model."""
OF_ORIGIN: MappingProxyType[Origin, DecidedBy] = MappingProxyType(
    {
        "constant": "configuration",
        "config": "configuration",
        "call": "argument",
        "shape": "size",
        "random": "data",
        "drawn": "data",
        "tensor": "data",
    }
)
OF_ASKERS = frozenset({"if", "while", "ifexp", "assert", "assertion"})
"""Kinds of tests in a statement, or in `a if b else c`."""
TYPE = External("type")
PARAMETER = "torch.nn.Parameter"
CALLABLE = python_class("collections.abc.Callable")
COUNTING = frozenset({"numel", "nelement", "dim", "ndimension", "size"})
"""Methods of a tensor that count its members, its dimensions, or what there is along one."""
OF_COUNTS: MappingProxyType[tuple[type[ast.cmpop], int], bool] = MappingProxyType(
    {
        (ast.Eq, 0): False,
        (ast.NotEq, 0): True,
        (ast.Gt, 0): True,
        (ast.LtE, 0): False,
        (ast.GtE, 1): True,
        (ast.Lt, 1): False,
    }
)
"""The results of comparing a count with a number unless it is 0."""


class Questions(Component):
    """Evaluates tests: their result according to the source, and the values known after them."""

    def test(self, node: ast.expr, kind: str, frame: Frame) -> Answer:
        """Return the truth of `node` as far as the source decides it, and emit a Test fact of `kind`."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ~self.test(node.operand, kind, frame)
        if isinstance(node, ast.BoolOp):
            return self._test_all(node, kind, frame)
        value = self.engine.protocols.truth_operand(self.engine.expressions.eval(node, frame), frame)
        self.emit_test(node, kind, value, frame)
        if isinstance(node, ast.Name):
            self.engine.recurrent.touch(value, node, frame)
        answer = self.answer(value)
        if answer.decided is not None:
            return answer
        usual = self._by_dtype(node, frame)
        if usual is None and answer.types:
            return answer
        if usual is None:
            usual = answer.likely if answer.likely is not None else self._usually(node, frame)
        return Answer(None, usual)

    def _by_dtype(self, node: ast.expr, frame: Frame) -> bool | None:
        """Return the usual result of a test of `x.dtype`: by the kind of numbers that the tensor is known to hold."""
        if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not _is_dtype_read(node.left):
            return None
        if not isinstance(node.ops[0], (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)):
            return None
        owner = self.engine.expressions.peek(node.left.value, frame)
        dtypes = self._dtypes(node.comparators[0], frame)
        if not isinstance(owner, Tensor) or owner.dtype is None or not dtypes or None in dtypes:
            return None
        kind, kinds = number_kind(owner.dtype), set(map(number_kind, dtypes))
        if kind in kinds and kinds != {"bool"}:
            return None  # there are several kinds of floats, and of integers
        return (kind in kinds) == isinstance(node.ops[0], (ast.Eq, ast.Is, ast.In))

    def _usually(self, node: ast.expr, frame: Frame) -> bool | None:
        """Return the usual result of a test of whether a tensor has members, or dimensions; None for any other."""
        if isinstance(node, ast.Call) and not (node.args or node.keywords):
            usual = self._usual_state(node.func, frame)
            if usual is not None:
                return usual
        if not isinstance(node, ast.Compare):
            return True if self._counts(node, frame) else None
        bound = node.comparators[0]
        if isinstance(bound, ast.Tuple) and not bound.elts and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            subject = _shape_owner(node.left)
            return isinstance(node.ops[0], ast.NotEq) if subject and self._is_no_number(subject, frame) else None
        if len(node.ops) != 1 or not isinstance(bound, ast.Constant) or type(bound.value) is not int:
            return None
        usual = OF_COUNTS.get((type(node.ops[0]), bound.value))
        return usual if usual is not None and self._counts(node.left, frame) else None

    def _usual_state(self, function: ast.expr, frame: Frame) -> bool | None:
        """Return the usual result of a test of an argument's memory layout, or of what is switched on around the
        model."""
        if not isinstance(function, ast.Attribute):
            return None
        with self.engine.outside_trace():
            subject = self.engine.expressions.eval(function.value, frame)
            called = self.engine.expressions.eval(function, frame)
        if isinstance(subject, Tensor) and subject.graph_input:
            return OF_LAYOUT.get(function.attr)
        return False if isinstance(called, External) and called.name in OFF else None

    def _counts(self, node: ast.expr, frame: Frame) -> bool:
        """Return whether it is `x.numel()`, `x.dim()`, `x.shape`, `x.shape[0]`, `x.size(0)`, `len(x)`, `len(x.shape)` of
        a tensor, or a name with a size."""
        subject: ast.expr | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            subject = node.func.value if node.func.attr in COUNTING else None
        elif isinstance(node, ast.Call) and _dotted_name(node.func) == "len" and len(node.args) == 1:
            subject = _shape_owner(node.args[0]) or node.args[0]
        elif isinstance(node, ast.Subscript):
            subject = _shape_owner(node.value)
        elif isinstance(node, ast.Attribute) and node.attr in ("ndim", "shape"):
            subject = node.value
        if subject is None:
            return self._is_size(node, frame)
        return self._is_no_number(subject, frame)

    def _is_size(self, node: ast.expr, frame: Frame) -> bool:
        value = likely(self.engine.expressions.peek(node, frame))
        return isinstance(value, Plain) and value.size

    def _is_no_number(self, node: ast.expr, frame: Frame) -> bool:
        """Return whether it is a tensor that may have dimensions."""
        value = self.engine.expressions.peek(node, frame)
        return isinstance(value, Tensor) and value.rank != 0

    def _test_all(self, node: ast.BoolOp, kind: str, frame: Frame) -> Answer:
        conjunction = isinstance(node.op, ast.And)
        decided: bool | None = conjunction
        guess: bool | None = conjunction
        parts: list[Answer] = []
        with frame.scoped(node):
            for operand in node.values:
                # an assert is traced, but of a condition in parts only the last is what it asserts
                part = (
                    kind
                    if kind not in ("assert", "assertion") or operand is node.values[-1]
                    else "and"
                    if conjunction
                    else "or"
                )
                fork = self.engine.forks.ask(operand, part, frame)
                if fork.decided is (not conjunction):
                    decided = fork.decided
                    break
                parts.append(Answer(fork.decided, fork.usual, fork.types))
                if fork.decided is None:
                    decided = None
                if guess == conjunction or fork.usual is (not conjunction):
                    guess = fork.usual  # one that ends the chain does, whatever the others say
                if fork.decided is None and _is_none_check(operand):
                    frame.path = frame.path.against(priors.GIVEN)  # what was not given ends the test here
                if not self.engine.forks.enter(fork, conjunction, frame):
                    break
        if decided is not None:
            return Answer(decided, decided)
        return Answer(None, guess, _types_of_all(parts, guess, conjunction))

    def truthy(self, node: ast.expr, kind: str, frame: Frame) -> Value:
        """Evaluate an operand and its truth; emit the test in it."""
        if isinstance(node, ast.BoolOp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
            return truth_value(self.test(node, kind, frame))
        value = self.engine.expressions.eval(node, frame)
        self.emit_test(node, kind, self.engine.protocols.truth_operand(value, frame), frame)
        return value

    def emit_test(self, node: ast.expr, kind: str, value: Value, frame: Frame) -> None:
        """Emit a fact: Python evaluates the truth of `value`."""
        if not isinstance(value, Const):
            frame.decided_by = foremost((frame.decided_by, *map(_cause_of_truth, options(value))))
            if self.engine.untraced or isinstance(node, Fits):
                return
            self.engine.unresolved.emit_truth_test(node, frame, value)
            if K.ADDRESS in options(value):
                self.engine.emit(F.Address(self.engine.where(frame), node, "tested"))
            asker = frame.asker if kind in OF_ASKERS else None
            alone = asker is not None and asker.test is node and isinstance(node, ast.Compare)
            if alone or (asker is not None and asker.lineno == node.lineno):
                asker = None  # a comparison alone is counted as its own line's
            statement = frame.asker
            guarding = (
                isinstance(statement, ast.If) and isinstance(statement.body[0], ast.Raise) and not statement.orelse
            )
            self.engine.emit(F.Test(self.engine.where(frame), node, kind, value, guarding, asker))  # type: ignore[arg-type]

    def answer(self, value: Value) -> Answer:
        """Return `bool(value)` as far as the source decides it."""
        decided = self._truth(value)
        if decided is not None:
            return Answer(decided, decided)
        usual = self._usual_truth(likely(value))
        others = options(value)[value.likely :] if isinstance(value, Choice) and value.likely else ()
        types = other_types(others[0], usual) if usual is not None and len(others) == 1 else ()
        return Answer(None, usual, types)

    def _usual_truth(self, value: Value) -> bool | None:
        """Return the usual `bool(value)`: a `**kwargs` is not empty if a call that was read passes something for it, nor
        is a list, or a dict, that a constructor fills."""
        if isinstance(value, Mapping) and value.entries and (value.extra or value.element is None):
            return True
        if isinstance(value, Sequence) and value.items:
            return True
        if isinstance(value, Plain) and value.size:
            return True
        if isinstance(value, Instance) and self.engine.classes.mro(value.cls).is_list:
            members = self.engine.containers.container_members(value)
            answered = any(self.engine.classes.mro(value.cls).functions(name) for name in ("__bool__", "__len__"))
            return None if answered or members is None else self._usual_truth(members)
        return self._truth(value)

    def _truth(self, value: Value) -> bool | None:
        answer = truth(value)
        if answer is None and isinstance(value, Instance):
            mro = self.engine.classes.mro(value.cls)
            if not mro.functions("__bool__") and not mro.functions("__len__") and not mro.external:
                return True
        return answer

    def _only_open(self, node: ast.BoolOp, frame: Frame) -> ast.expr | None:
        """Return the one operand that decides a chain, if the source decides that all others continue it. None for a
        chain that contains one with a third: evaluating each again at every level would take twice the time a level."""
        if any(holds_chain(operand) for operand in node.values):
            return None
        goes_on = isinstance(node.op, ast.And)
        left: list[ast.expr] = []
        before = frame.env
        with self.engine.outside_trace():
            for operand in node.values:
                value = self.engine.expressions.eval(operand, frame)
                if self.answer(value).decided is not goes_on:
                    left.append(operand)
                if len(left) > 1:
                    break
                frame.env = self.narrow(operand, goes_on, frame)
        frame.env = before
        return left[0] if len(left) == 1 else None

    def narrow(self, node: ast.expr, assume: bool, frame: Frame) -> dict[str, Value]:
        """Return the environment in which `node` has the truth value `assume`."""
        env = frame.env
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.narrow(node.operand, not assume, frame)
        if isinstance(node, ast.BoolOp):
            if isinstance(node.op, ast.And) == assume:
                for operand in node.values:
                    frame.env = self.narrow(operand, assume, frame)
                env, frame.env = frame.env, env
                return env
            open_one = self._only_open(node, frame)
            return env if open_one is None else self.narrow(open_one, assume, frame)
        if isinstance(node, Fits):
            return self._narrow_case(node, assume, frame)
        if isinstance(node, ast.NamedExpr):
            node = node.target
        key = narrowing_key(node)
        subject: ast.expr = node
        change: Callable[[Value], Value] | None = None
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            right = node.comparators[0]
            is_none = isinstance(right, ast.Constant) and right.value is None
            if is_none and isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
                subject = node.left.target if isinstance(node.left, ast.NamedExpr) else node.left
                key = narrowing_key(subject)
                same = isinstance(node.ops[0], (ast.Is, ast.Eq)) == assume
                change = (lambda _: NONE) if same else without_none
            elif isinstance(node.left, ast.Attribute) and node.left.attr == "dtype":
                subject = node.left.value
                key = narrowing_key(subject)
                operators = (ast.Is, ast.Eq, ast.In) if assume else (ast.IsNot, ast.NotEq, ast.NotIn)
                dtype = self._dtype(right, frame)
                same = isinstance(node.ops[0], operators)
                change = None if dtype is None else lambda v: _narrow_dtype(v, dtype if same else None)
            elif isinstance(node.ops[0], (ast.Eq, ast.In) if assume else (ast.NotEq, ast.NotIn)):
                subject = node.left
                key = narrowing_key(subject)
                texts = _texts(right, several=isinstance(node.ops[0], (ast.In, ast.NotIn)))
                change = (lambda v: _one_of(v, texts)) if texts else None
        elif isinstance(node, ast.Call) and node.args:
            test = _dotted_name(node.func)
            subject = node.args[0]
            key = narrowing_key(subject)
            if test == "isinstance" and len(node.args) == 2:
                wanted = self.engine.annotations.instance_value(node.args[1], frame)
                change = lambda v: _narrow_to(self._narrow_class(v, wanted, assume), wanted, assume)  # noqa: E731
            elif test in ("torch.is_tensor", "is_tensor"):
                change = lambda v: _narrow_to(v, Tensor(), assume)  # noqa: E731
        elif key is not None:
            change = without_falsy if assume else None
        if key is None or change is None:
            return env
        current = self.engine.expressions.peek(subject, frame)
        narrowed = change(current)
        return env if narrowed == current else {**env, key: narrowed}

    def _narrow_case(self, node: Fits, assume: bool, frame: Frame) -> dict[str, Value]:
        """Narrow to a case of a match statement, with the names that its pattern captures if it matches."""
        comparison = values_test(node)
        env = frame.env if comparison is None else self.narrow(comparison, assume, frame)
        if not assume:
            return env
        return {**env, **self.engine.patterns.capture_names(node.pattern, frame.env[node.key], frame)}

    def _narrow_class(self, value: Value, wanted: Value | None, assume: bool) -> Value:
        """Return `value` with each object of known class only as one of the class that isinstance names, if that derives
        from its own; without the objects that isinstance excludes."""
        members = [w for w in options(wanted) if isinstance(w, Instance)] if wanted is not None else []
        if not members:
            return value
        found = [self._as_one_of(option, members, assume) for option in options(value)]
        usual = [self._as_one_of(option, members, assume) for option in options(likely(value))]
        left, first = (join(*(v for v in each if v is not None)) for each in (found, usual))
        if all(v is None for v in found):
            return value
        return left if all(v is None for v in usual) or first == left else prefer(first, left)

    def _as_one_of(self, option: Value, wanted_members: list[Instance], assume: bool) -> Value | None:
        """Return one alternative, as an object of one of these classes or not; None if it is excluded."""
        if not isinstance(option, Instance):
            return option
        above = self.engine.classes.mro(option.cls).classes
        if any(w.cls in above for w in wanted_members):
            return option if assume else None
        if not assume or not self.engine.heap[option].symbolic:
            return option
        below = [w for w in wanted_members if option.cls in self.engine.classes.mro(w.cls).classes]
        return join(*below) if below else option

    def _dtypes(self, node: ast.expr, frame: Frame) -> set[DType | None]:
        """Return the kinds of number of a data type, or of several; None among them for an unknown one."""
        value = self.engine.expressions.peek(node, frame)
        return {dtype_of(v) for v in (members_of(value) if isinstance(value, Sequence) else (value,))}

    def _dtype(self, node: ast.expr, frame: Frame) -> DType | None:
        """Return the kind of number of a data type, or of several: of floating types the model's own, unless that is cast
        to another."""
        types = self._dtypes(node, frame)
        kinds = set(map(number_kind, types))
        kind = kinds.pop() if len(kinds) == 1 else None
        own = self.engine.dtype is None or float_type(self.engine.dtype) in types
        return kind if kind != "float" or own else types.pop() if len(types) == 1 else "floating"

    def is_instance(self, value: Value, node: ast.expr, frame: Frame) -> Value:
        """`isinstance(value, node)`."""
        classes = self.engine.expressions.peek(node, frame)
        answer = self._is_of_class(value, classes)
        if answer is not None:
            return answer
        if isinstance(classes, External) and public_name(classes.name) == PARAMETER:
            answers = {_is_parameter(option) for option in options(value)}
            if answers == {True} or answers == {False}:
                return common_answer(answers)
        if isinstance(node, ast.Name) and node.id == "type" and self.engine.names.resolve_name("type", frame) == TYPE:
            return common_answer({_is_type(option) for option in options(value)})
        if is_property(value) and isinstance(node, ast.Name):
            if self.engine.names.resolve_name(node.id, frame) == PROPERTY:
                return Const(True)
        answers_to_each = self._answers_to_each(value, node, classes, frame)
        for answer in answers_to_each:  # one that is in sight may do
            if likely(answer) == Const(True):
                return answer
        if answers_to_each and all(answer == Const(False) for answer in answers_to_each):
            return Const(False)
        if all(isinstance(v, Const) for v in options(value)) and _is_foreign(classes):
            return Const(False)
        known = all(isinstance(v, (Tensor, Sequence, Mapping, Const)) for v in options(value))
        if known or (not self.engine.untraced and all(map(_is_foreign, _each_class(classes)))):
            return prefer(Const(False), Plain("bool", "call"))  # of a class that is not in sight
        return Plain("bool")

    def _is_of_python(self, value: Value, cls: type) -> Value:
        """Return whether a value is of one of Python's own classes. A dict may be of a subclass, as an OrderedDict: code
        that tests for it usually made it so."""
        answers = {
            self._is_below(option, cls) if isinstance(option, Instance) else is_object_of(option, cls)
            for option in options(value)
        }
        if len(answers) == 1 and None not in answers:
            return common_answer(answers)
        if issubclass(cls, dict) and all(isinstance(option, Mapping) for option in options(value)):
            return prefer(Const(True), Plain("bool", "call"))
        return common_answer(answers)

    def _is_of_torch(self, value: Value, name: str) -> bool | None:
        """Return whether a value is a module of a class of torch.nn, or of one that derives from it."""
        if isinstance(value, ExternalInstance) and is_module_class(value.name):
            return derives(value.name, name)
        if isinstance(value, Instance):
            mro = self.engine.classes.mro(value.cls)
            answers = {derives(base, name) for base in mro.external if is_module_class(base)}
            if True in answers or None in answers:
                return True if True in answers else None
            return None if self.engine.heap[value].symbolic else False
        return False if isinstance(value, (Tensor, Const, Sequence, Mapping, Function, Class)) else None

    def _is_below(self, made: Instance, cls: type) -> bool | None:
        """Return whether the class of an object derives from one of Python's own, or has the methods that this requires;
        None if unknown."""
        mro = self.engine.classes.mro(made.cls)
        if any((above := python_class(name)) is not None and issubclass(above, cls) for name in mro.external):
            return True
        return True if cls is CALLABLE and (mro.is_module or mro.functions("__call__")) else None

    def _answers_to_each(self, value: Value, node: ast.expr, classes: Value, frame: Frame) -> list[Value]:
        """Return whether a value is of each class of a tuple, literal or named; none if it is no tuple."""
        if isinstance(node, ast.Tuple) and not any(isinstance(each, ast.Starred) for each in node.elts):
            return [self.is_instance(value, item, frame) for item in node.elts]
        if not isinstance(classes, Sequence):
            return []
        return [self._is_of_class(value, each) or Plain("bool") for each in _each_class(classes)]

    def _is_of_class(self, value: Value, cls: Value) -> Value | None:
        """Return whether a value is of a class, or of one of several; None if one of them is not understood."""
        of_python = python_class(cls.name) if isinstance(cls, External) else None
        if of_python is not None and not hasattr(builtins, of_python.__name__):
            return self._is_of_python(value, of_python)
        if isinstance(cls, External) and is_module_class(name := public_name(cls.name)):
            return common_answer({self._is_of_torch(option, name) for option in options(value)})
        wanted = self.engine.annotations.instance_of(cls)
        return None if wanted is None else self._is_among(value, wanted)

    def _is_among(self, value: Value, wanted: Value) -> Value:
        """Return whether a value is of the classes in `wanted`."""
        answers: set[bool | None] = set()
        for option in options(value):
            if option == NONE:
                answers.add(False)
            elif isinstance(option, (Plain, Const)):
                kind = option.kind if isinstance(option, Plain) else type(option.value).__name__
                answers.add(_is_kind(kind, wanted))
            elif isinstance(option, Unknown):
                answers.add(None)
            elif isinstance(option, Tensor) and tensor_of(wanted):
                answers.add(self._is_of_tensors(option, wanted))
            elif isinstance(option, Instance) and any(isinstance(w, Instance) for w in options(wanted)):
                answers.add(self._is_of(option, wanted))
            else:
                same = any(type(option) is type(w) for w in options(wanted))
                if isinstance(option, ExternalInstance) and any(_is_one(option, w) for w in options(wanted)):
                    answers.add(True)
                elif same and isinstance(option, (Sequence, ExternalInstance)):
                    kinds = {w.kind for w in options(wanted) if isinstance(w, Sequence)}
                    answers.add(True if isinstance(option, Sequence) and option.kind in kinds else None)
                elif same:
                    answers.add(True)
                else:
                    answers.add(False if not isinstance(option, (Instance, External)) else None)
        of_own = all(isinstance(w, Tensor) and w.subclass is not None for w in options(wanted))
        if answers <= {None, False} and None in answers and (of_own or self._is_no_text(value, wanted)):
            return prefer(Const(False), Plain("bool", "call"))
        return common_answer(answers)

    def _is_of_tensors(self, tensor: Tensor, wanted: Value) -> bool:
        """Return whether a tensor is of one of these classes; by default, it is of none of the user's own."""
        above = self.engine.classes.mro(tensor.subclass).classes if tensor.subclass is not None else ()
        classes = [w.subclass for w in options(wanted) if isinstance(w, Tensor)]
        return any(cls is None or cls in above for cls in classes)

    def _is_of(self, made: Instance, wanted: Value) -> bool | None:
        """Return whether an object is of one of the classes in `wanted`."""
        above = self.engine.classes.mro(made.cls).classes
        if any(isinstance(w, Instance) and w.cls in above for w in options(wanted)):
            return True
        own = all(isinstance(w, Instance) for w in options(wanted))
        return False if own and not self.engine.heap[made].symbolic else None

    def _is_no_text(self, value: Value, wanted: Value) -> bool:
        """Return whether the test is for a string: arguments of compiled calls are rarely strings."""
        text = all(isinstance(w, Plain) and w.kind in ("str", "bytes") for w in options(wanted))
        return text and not self.engine.untraced and not any(isinstance(v, Plain) for v in options(value))


def _each_class(classes: Value) -> tuple[Value, ...]:
    """Return the classes that `isinstance` is given."""
    return members_of(classes) if isinstance(classes, Sequence) else (classes,)


def _is_foreign(value: Value) -> bool:
    """Return whether it is a class of an unread package, torch aside: no constant is an object of it, and a compiled call
    passes no object of it."""
    if not isinstance(value, External) or "." not in value.name:
        return False
    return value.name.partition(".")[0] not in (*sys.stdlib_module_names, "torch", "typing_extensions")


def _is_one(made: ExternalInstance, wanted: Value) -> bool:
    """Return whether it is an object of exactly that class."""
    return isinstance(wanted, ExternalInstance) and wanted.name == made.name


def _is_type(value: Value) -> bool | None:
    """Return whether a value is a class; None if unknown."""
    if isinstance(value, (Class, Function, Instance, Tensor, Const, Sequence, Mapping)):
        return isinstance(value, Class)
    return None


def _is_parameter(value: Value) -> bool | None:
    """Return whether a value is an nn.Parameter; None if unknown: a tensor may be one."""
    if isinstance(value, Tensor):
        return True if value.parameter else None
    return False if isinstance(value, (Const, Sequence, Mapping)) else None


def _types_of_all(parts: Sequential[Answer], guess: bool | None, conjunction: bool) -> tuple[FloatType, ...]:
    """Return the types in which a chain of tests may differ from its usual result, if nothing else prevents that."""
    if guess is None:
        return ()
    undecided = [part for part in parts if part.decided is None]
    if guess != conjunction:  # each of those that end the chain keeps it from coming out otherwise
        ending = [part.types for part in undecided if part.likely == guess]
        return tuple(name for name in FLOATS if ending and all(name in types for types in ending))
    if not all(part.types for part in undecided):
        return ()
    return tuple(name for name in FLOATS if any(name in part.types for part in undecided))


def _cause_of_truth(value: Value) -> DecidedBy:
    """Return what decides the truth of one value."""
    if isinstance(value, Tensor):
        return "data"
    if isinstance(value, Plain):
        return OF_ORIGIN[value.origin]
    return "unknown" if isinstance(value, Unknown) else "configuration"


def _shape_owner(node: ast.expr) -> ast.expr | None:
    """Return the `x` of `x.shape`."""
    return node.value if isinstance(node, ast.Attribute) and node.attr == "shape" else None


def _dotted_name(node: ast.expr) -> str:
    """`a.b.c` as it is written; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return f"{inner}.{node.attr}" if (inner := _dotted_name(node.value)) else ""
    return node.id if isinstance(node, ast.Name) else ""


def _is_none_check(node: ast.expr) -> bool:
    """Return whether it is `x is None` or `x is not None`."""
    return isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot))


def _narrow_to(value: Value, wanted: Value | None, assume: bool) -> Value:
    """Return `value` narrowed by isinstance with the classes in `wanted` having the result `assume`."""
    if wanted is None:
        return value
    fits = [v for option in options(value) if (v := _narrow_option(option, wanted, assume)) is not None]
    if not fits:
        return value
    first = [v for option in options(likely(value)) if (v := _narrow_option(option, wanted, assume)) is not None]
    return prefer(join(*first), join(*fits)) if first else join(*fits)


def _narrow_option(option: Value, wanted: Value, assume: bool) -> Value | None:
    """Return one alternative with the isinstance result `assume`; None if it is excluded."""
    if isinstance(option, Unknown):
        return wanted if assume else option
    if isinstance(option, Plain) and option.kind is None and assume and isinstance(wanted, Tensor):
        return replace(wanted, sure=False)  # a setting that may be a tensor
    if isinstance(option, Plain) and option.kind is None and assume:
        if all(isinstance(w, Instance) for w in options(wanted)):
            return wanted  # one that may be an object of the source
    if isinstance(option, Const) and option != NONE:
        named = type(option.value).__name__
        fitting = {v.kind for v in options(wanted) if isinstance(v, Plain)}
        return option if (named in fitting or (named == "bool" and "int" in fitting)) == assume else None
    if isinstance(option, Tensor) and (of_own := [w for w in options(wanted) if isinstance(w, Tensor) and w.subclass]):
        return replace(option, subclass=of_own[0].subclass) if assume else option
    if isinstance(option, tuple(type(v) for v in options(wanted))):
        same = not isinstance(option, (Plain, Instance, ExternalInstance)) or option in options(wanted)
        return option if assume or not same or isinstance(option, (Plain, Instance)) else None
    return option if not assume or isinstance(option, (Plain, Instance)) else None


def _is_dtype_read(node: ast.expr) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and node.attr == "dtype"


def _narrow_dtype(value: Value, dtype: DType | None) -> Value:
    """Return the value after a test of its data type: of that kind of number, if one is given."""
    found = [
        Tensor(dtype, sure=False)
        if v == TAINTED
        else replace(v, dtype=dtype)
        if isinstance(v, Tensor) and dtype is not None and not {v.dtype, dtype} <= FLOATING
        else v
        for v in options(value)
    ]
    return Choice(tuple(found), value.likely) if isinstance(value, Choice) else found[0]


def _texts(node: ast.expr, *, several: bool) -> tuple[Const, ...]:
    """Return the literal string, or each of `several` in a list, a tuple or a set; nothing for anything else."""
    parts: Sequential[ast.expr] = (node,)
    if several:
        parts = node.elts if isinstance(node, (ast.List, ast.Tuple, ast.Set)) else ()
    found = tuple(Const(n.value) for n in parts if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return found if len(found) == len(parts) <= MAX_OPTIONS else ()


def _one_of(value: Value, texts: tuple[Const, ...]) -> Value:
    """Return a value that was found to be one of these strings."""

    def among(option: Value) -> tuple[Value, ...]:
        unsaid = isinstance(option, Unknown) or (isinstance(option, Plain) and option.kind in (None, "str"))
        return texts if unsaid else (option,) if option in texts else ()

    found = [v for option in options(value) for v in among(option)]
    usual = [v for option in options(likely(value)) for v in among(option)]
    if not found:
        return value
    every = Choice(tuple(dict.fromkeys(found))) if len({*found}) > 1 else found[0]
    return prefer(usual[0], every) if len({*usual}) == 1 and usual[0] != every else every


def _is_kind(kind: str | None, wanted: Value) -> bool | None:
    """Return whether a Python value of type `kind` (None: unknown) is an instance of the classes in `wanted`."""
    plain = [v for v in options(wanted) if isinstance(v, Plain)]
    if kind is None or any(v.kind is None for v in plain) or any(isinstance(v, Unknown) for v in options(wanted)):
        return None if plain or kind is None else False
    kinds = {v.kind for v in plain}
    return kind in kinds or (kind == "bool" and "int" in kinds)
