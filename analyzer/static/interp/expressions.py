"""Expressions: evaluate a node with the names around it to a Value, and emit facts on the way."""

from __future__ import annotations

import ast
import itertools
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

from tcready.static.domain import facts as F  # noqa: N812 - the facts are many and their names common words
from tcready.static.domain import priors
from tcready.static.domain.constant_text import MAX_LENGTH
from tcready.static.domain.scope import Frame, last_name, narrowing_key, positional
from tcready.static.domain.values import (
    LAZY,
    MAX_ENTRIES,
    MAX_ITEMS,
    NONE,
    TAINTED,
    UNKNOWN,
    UNROLL,
    Answer,
    Choice,
    Class,
    Const,
    External,
    ExternalInstance,
    Function,
    Instance,
    Kind,
    Mapping,
    Method,
    Plain,
    Sequence,
    Super,
    Tensor,
    Unknown,
    Value,
    combine_answers,
    holds_tensor,
    is_captured,
    is_compared_by_members,
    is_flag,
    is_key,
    is_none,
    is_place,
    is_surely_mask,
    is_word,
    join,
    keep,
    key_of,
    lift,
    likely,
    may_change,
    members_of,
    options,
    prefer,
    tensor_of,
    truth_value,
    value_of_key,
    whole,
    without_falsy,
)
from tcready.static.frontend.index import FunctionInfo
from tcready.static.frontend.source import holds_chain
from tcready.static.interp.frame_filter import is_of_torch, is_torch
from tcready.static.interp.interfaces import CallSite, Component, Engine
from tcready.static.interp.match_lowering import Fits
from tcready.static.library import semantics as K  # noqa: N812
from tcready.static.summaries import call_statistics

Comprehension: TypeAlias = "ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp"
Round: TypeAlias = "tuple[Value, ...]"
"""The values that the targets of a comprehension get at once, one for each `for`."""
FILLED = frozenset({"dict", "collections.OrderedDict"})
"""Types that Dynamo builds by functions of its own that it traces (measured)."""
COMPUTING = frozenset({ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript, ast.Call})
"""Expressions with an operation that may be traced, if they result in a tensor."""
AFRESH = frozenset({"range", "view", "keys"})
"""Iterables that Dynamo recreates for a generator that has been exhausted (measured)."""
PASSED_ON = frozenset({"range", "zip", "map", "filter", "reversed"})
"""Iterators that Dynamo passes on to the code that resumes after a break (measured)."""


class Expressions(Component):
    """Evaluates expressions: from a node and the names around it to a Value, emitting facts on the way."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._expressions: dict[type, Callable[[Any, Frame], Value]] = {}

    def eval(self, node: ast.expr, frame: Frame) -> Value:
        """Evaluate an expression; emit every fact in it."""
        kind = type(node)
        if kind not in self._expressions:
            self._expressions[kind] = getattr(self, f"_{kind.__name__.lower()}", self._other)
        value = self._expressions[kind](node, frame)
        if kind in COMPUTING and isinstance(value, (Tensor, Choice)) and tensor_of(value) is not None:
            self.engine.computing.add(frame.context)
        return value

    def peek(self, node: ast.expr, frame: Frame) -> Value:
        """Evaluate an expression as code outside of the trace: emit no fact."""
        with self.engine.outside_trace():
            return self.eval(node, frame)

    def _other(self, node: ast.expr, frame: Frame) -> Value:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.eval(child, frame)
        return UNKNOWN

    def _constant(self, node: ast.Constant, frame: Frame) -> Value:
        return Const(node.value)

    def _name(self, node: ast.Name, frame: Frame) -> Value:
        return self.engine.names.resolve_name(node.id, frame)

    def _namedexpr(self, node: ast.NamedExpr, frame: Frame) -> Value:
        value = self.eval(node.value, frame)
        frame.env[node.target.id] = value
        return value

    def _fits(self, node: Fits, frame: Frame) -> Value:
        return self.engine.patterns.fits(node.pattern, frame.env[node.key], frame)

    def _attribute(self, node: ast.Attribute, frame: Frame, *, called: bool = False) -> Value:
        key = narrowing_key(node)
        if key is not None and key in frame.env:
            return frame.env[key]
        if isinstance(node.value, ast.Compare):
            owner = self._compare(node.value, frame, None if hasattr(bool, node.attr) else node)
        else:
            owner = self.eval(node.value, frame)
        if not self.engine.untraced and isinstance(owner, (Tensor, Choice)) and tensor_of(owner) is not None:
            self.engine.emit(F.Attribute(self.engine.where(frame), node, owner, node.attr))
            self.engine.sparse.emit_sparse_use(node, frame, owner)
        elif not self.engine.untraced and owner == K.ARRAY:
            self.engine.emit(F.Attribute(self.engine.where(frame), node, owner, node.attr))
        elif not isinstance(node.value, ast.Compare):
            self.engine.enums.emit_answer_read(node, owner, frame)
        by = (
            ""
            if self.engine.untraced or type(owner) is not Instance
            else self.engine.attributes.read_by(owner, node.attr)
        )
        if by:
            self.engine.emit(F.Attribute(self.engine.where(frame), node, owner, node.attr, by))
        value = self.engine.attributes.attribute(owner, node.attr, frame)
        self.engine.recurrent.touch_attribute(owner, value, node, frame)
        if (
            type(owner) is Unknown
            and owner == TAINTED
            and not called
            and not self.engine.operations.is_of_tensors(node.attr)
        ):
            return TAINTED  # a field of an object that is not known
        return value

    def _binop(self, node: ast.BinOp, frame: Frame) -> Value:
        left, right = self.eval(node.left, frame), self.eval(node.right, frame)
        self.engine.sparse.emit_sparse_use(node, frame, left, right)
        self.engine.unresolved.emit_unresolved(node, frame, left, right)
        self.engine.enums.emit_member_sum(node, left, frame)
        if _is_address(left) or _is_address(right):
            self.engine.emit(F.Address(self.engine.where(frame), node, "worked with"))
        numbers = all(isinstance(v, (Plain, Const)) for v in (left, right))
        if numbers and (is_captured(left) or is_captured(right)):
            self.engine.emit(F.Arithmetic(self.engine.where(frame), node))
            frame.resume()
        if isinstance(node.op, ast.Mod) and _is_text(left) and holds_tensor(right):
            self.engine.emit(F.Format(self.engine.where(frame), node, right, at_once=True))
        result = self.engine.protocols.apply_operator(type(node.op).__name__, left, right, node, frame)
        subclass = next((v.subclass for v in (left, right) if isinstance(v, Tensor) and not v.leaf), None)
        if subclass is None or self.engine.overrides.is_overriding():
            return result
        operation = External(f"torch.Tensor.__{type(node.op).__name__.lower()}__")
        own = self.engine.overrides.call_override(operation, (left, right), {}, frame)
        if isinstance(result, Tensor) and result.subclass is None:
            return replace(result, subclass=own.subclass if isinstance(own, Tensor) else subclass)
        return result

    def _unaryop(self, node: ast.UnaryOp, frame: Frame) -> Value:
        if isinstance(node.op, ast.Not):
            return truth_value(~self.engine.truth.test(node.operand, "not", frame))
        value = self.eval(node.operand, frame)
        self.engine.unresolved.emit_unresolved(node, frame, value)
        own = self.engine.protocols.apply_unary(node.op, value, frame)
        if own is not None:
            return own
        if isinstance(value, Const) and isinstance(value.value, (int, float)) and isinstance(node.op, ast.USub):
            return Const(-value.value)
        tensor = tensor_of(value)
        if tensor:
            return Tensor(
                tensor.dtype,
                tensor.sure,
                sparse=tensor.sparse,
                rank=tensor.rank,
                from_python_scalar=tensor.from_python_scalar,
            )
        if isinstance(value, Plain):
            return Plain(value.kind, K.computed(value.origin))
        if K.ARRAY in options(value) or K.NUMBER in options(value):
            return K.NUMBER if self.engine.untraced and K.ARRAY not in options(value) else K.ARRAY
        if isinstance(value, Unknown):
            return value
        return TAINTED if TAINTED in options(value) else UNKNOWN

    def _boolop(self, node: ast.BoolOp, frame: Frame) -> Value:
        kind = "and" if isinstance(node.op, ast.And) else "or"
        short = kind == "or"
        values: list[Value] = []
        first: list[Value] = []
        """Its most likely values."""
        guess: Value | None = None
        with frame.scoped(node):
            for operand in node.values[:-1]:
                value, fork = self.engine.forks.ask_value(operand, kind, frame)
                if isinstance(operand, ast.BoolOp) and not holds_chain(operand):
                    # its truth was asked; what it gives is one of its operands. Not of those nested deeper: each level
                    # would be worked out twice
                    value = self.peek(operand, frame)
                if fork.decided == short:
                    values.append(value)
                    break
                if fork.decided is None:
                    values.append(without_falsy(whole(value)) if kind == "or" else whole(value))
                    if fork.usual == short and guess is None:
                        guess = join(*first, likely(value))
                    elif fork.usual is None:
                        bare = values[-1]  # it is the result only if it ends the chain
                        first.append(Const(short) if is_flag(bare) else bare)
                if not self.engine.forks.enter(fork, kind == "and", frame):
                    values.append(UNKNOWN)
                    break
            else:
                values.append(self.eval(node.values[-1], frame))
        if guess is None:
            guess = join(*first, likely(values[-1]))
        if any(map(tensor_of, values)):  # of a flag, only what ends the chain is a result
            values = [Const(short) if is_flag(value) else value for value in values]
        found = join(*values)
        return found if guess == found else prefer(guess, found)

    def _ifexp(self, node: ast.IfExp, frame: Frame) -> Value:
        fork = self.engine.forks.ask(node.test, "ifexp", frame, node)
        values: list[Value] = []
        guess: Value | None = None
        for taken, side in ((True, node.body), (False, node.orelse)):
            if fork.decided is (not taken):
                continue
            with frame.scoped(side):
                followed = self.engine.forks.enter(fork, taken, frame)
                values.append(self.eval(side, frame) if followed else UNKNOWN)
            if fork.decided is None and fork.usual == taken:
                guess = likely(values[-1])
        return join(*values) if guess is None else prefer(guess, join(*map(whole, values)))

    def _compare(self, node: ast.Compare, frame: Frame, of: ast.expr | None = None) -> Value:
        """`of` is the attribute read from the result, which no bool has."""
        left = self.eval(node.left, frame)
        results: list[Value] = []
        for index, (op, comparator) in enumerate(zip(node.ops, node.comparators, strict=True)):
            right = self.eval(comparator, frame)
            self.engine.sparse.emit_sparse_use(node, frame, left, right)
            if not isinstance(op, (ast.Is, ast.IsNot)) and (_is_address(left) or _is_address(right)):
                before = node.comparators[index - 1] if index else node.left
                if ast.dump(before) != ast.dump(comparator):  # that a tensor is where it is, Dynamo knows
                    same = isinstance(op, (ast.Eq, ast.NotEq, ast.In, ast.NotIn))
                    hashed = isinstance(op, (ast.In, ast.NotIn)) and all(map(_is_hashed, options(right)))
                    use: Any = "looked up" if hashed else "compared" if same else "worked with"
                    if not hashed or isinstance(before, ast.Call):  # it finds what one variable holds
                        self.engine.emit(F.Address(self.engine.where(frame), node, use))
            if isinstance(op, (ast.Is, ast.IsNot)):
                if isinstance(node.left, ast.Name):
                    self.engine.recurrent.touch(left, node.left, frame)
            else:
                self.engine.unresolved.emit_unresolved(
                    node, frame, left, right, walked=isinstance(op, (ast.In, ast.NotIn))
                )
            result = self.engine.protocols.compare(op, left, right, comparator, frame)
            answer = self.engine.enums.member_compared(op, node, (left, right), frame, of)
            results.append(result if answer is None else answer)
            if isinstance(op, (ast.In, ast.NotIn)) and not self.engine.untraced:
                self.engine.emit(F.Contains(self.engine.where(frame), node, left, right))
            if index < len(node.ops) - 1 and tensor_of(result):
                self.engine.emit(F.Test(self.engine.where(frame), node, "compare", result))
            left = right
        if len(results) > 1 and not any(tensor_of(each) for each in results):
            return lift(_all_of, *results)
        return results[-1]

    def _tuple(self, node: ast.Tuple, frame: Frame) -> Value:
        return self._display("tuple", node.elts, frame)

    def _list(self, node: ast.List, frame: Frame) -> Value:
        return self._display("list", node.elts, frame)

    def _set(self, node: ast.Set, frame: Frame) -> Value:
        return self._display("set", node.elts, frame)

    def _display(self, kind: str, elements: list[ast.expr], frame: Frame) -> Value:
        items: list[Value] = []
        known = len(elements) <= MAX_ITEMS
        for element in elements:
            if isinstance(element, ast.Starred):
                value = self._starred_walk(element, frame)
                if isinstance(value, Sequence) and value.items is not None:
                    items.extend(value.items)
                else:
                    known = False
                    items.append(self.engine.containers.element(value))
            else:
                items.append(self.eval(element, frame))
        if known and len(items) <= MAX_ITEMS:
            return Sequence(kind, tuple(items), UNKNOWN)  # type: ignore[arg-type]
        return Sequence(kind, None, join(*items))  # type: ignore[arg-type]

    def _starred_walk(self, node: ast.Starred, frame: Frame) -> Value:
        """Return the values that a starred expression unpacks."""
        value = self.eval(node.value, frame)
        self.engine.unresolved.emit_unresolved(node, frame, value, walked=True)
        return self.engine.protocols.iterate(value, frame)

    def _dict(self, node: ast.Dict, frame: Frame) -> Value:
        entries: dict[object, Value] = {}
        rest: list[Value] = []
        given = True
        """Its further values come from the `**kwargs` of a function alone."""
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.eval(item, frame)
            if key is None:
                self.engine.unresolved.emit_unresolved(item, frame, value, walked=True)
                table = self._table_of(keep(value, lambda option: not K.is_left(option)), frame)
                if table is not None:
                    entries.update(table.entries)
                    if table.element is not None:
                        rest.append(table.element)
                        given = given and table.extra
                else:
                    rest.append(UNKNOWN)
                    given = False
                continue
            name = self.eval(key, frame)
            if is_key(name):
                entries[key_of(name)] = value
            else:
                rest.append(value)
                given = False
        if len(entries) > 4 * MAX_ITEMS:
            return Mapping((), join(*entries.values(), *rest))
        return Mapping(tuple(entries.items()), join(*rest) if rest else None, extra=bool(rest) and given)

    def _starred(self, node: ast.Starred, frame: Frame) -> Value:
        return self.engine.containers.element(self.eval(node.value, frame))

    def _joinedstr(self, node: ast.JoinedStr, frame: Frame) -> Value:
        written = False
        text: list[str] | None = []
        guess: list[str] | None = []
        """The most likely one, by the values."""
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                value = self.eval(part.value, frame)
                if K.UNRESOLVED in options(value):  # of others Dynamo says nothing
                    self.engine.unresolved.emit_unresolved(part.value, frame, value, walked=True)
                if guess is not None or not self.engine.untraced:  # while things are built, only the text matters
                    value = (
                        self.engine.protocols.call_first_method(value, frame, "__format__", "__str__", "__repr__")
                        or value
                    )
                written = written or tensor_of(value) is not None
                spec = self._specification(part, frame)
                argument = _is_argument(part.value, frame)
                if argument or not isinstance(value, Const):
                    self.engine.emit(F.Format(self.engine.where(frame), part.value, value, spec, argument))
                plain = part.format_spec is None and part.conversion == -1
            else:
                value, plain = self.eval(part, frame), True
            text = _concatenate(text, value) if plain else None
            guess = _concatenate(guess, likely(value)) if plain else None
        every = Plain("str", "tensor" if written else "config")
        if guess is None or sum(map(len, guess)) >= MAX_LENGTH:
            return every
        return Const("".join(guess)) if text is not None else prefer(Const("".join(guess)), every)

    def _specification(self, part: ast.FormattedValue, frame: Frame) -> str | None:
        """Return how the value itself is formatted; None without a specification, for one that is not known, and for
        one of its `str()` or `repr()`."""
        if part.format_spec is None:
            return None
        spec = self.eval(part.format_spec, frame)
        if not isinstance(spec, Const) or not isinstance(spec.value, str) or part.conversion != -1:
            return None
        return spec.value

    def _lambda(self, node: ast.Lambda, frame: Frame) -> Value:
        return Function(
            self.engine.functions.function_info(node, "<lambda>", frame), None, self.engine.functions.close(frame)
        )

    def _yield(self, node: ast.Yield, frame: Frame) -> Value:
        frame.yielded.append(self.eval(node.value, frame) if node.value else NONE)
        return UNKNOWN

    def _yieldfrom(self, node: ast.YieldFrom, frame: Frame) -> Value:
        frame.yielded.append(self.engine.containers.element(self.eval(node.value, frame)))
        return UNKNOWN

    def _await(self, node: ast.Await, frame: Frame) -> Value:
        return self.eval(node.value, frame)

    def _listcomp(self, node: ast.ListComp, frame: Frame) -> Value:
        return self._collected("list", node, frame)

    def _setcomp(self, node: ast.SetComp, frame: Frame) -> Value:
        return self._collected("set", node, frame)

    def _generatorexp(self, node: ast.GeneratorExp, frame: Frame) -> Value:
        self.engine.emit(F.Alone(self.engine.where(frame), node))
        return self._collected("iterator", node, frame)

    def _collected(self, kind: Kind, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, frame: Frame) -> Value:
        rounds, ordered = self._rounds(node.generators, frame)
        if rounds is not None:
            with frame.against(None if ordered or len(node.generators) > 1 else priors.MEMBER):
                return self._collect_rounds(kind, node, rounds, ordered, frame)
        by_default = self._usual_rounds(node.generators, frame)
        usual = None if by_default is None else self._collect_rounds(kind, node, by_default, True, frame)
        with frame.against(None if usual is None else priors.REST):
            found, filtered = self._comprehension(node, [node.elt], frame, lazy=kind == "iterator")
        every = Sequence(kind, None, found[0])
        if filtered.likely is False:
            return prefer(Sequence(kind, (), UNKNOWN), every)
        return every if usual is None else prefer(usual, every)

    def _collect_rounds(
        self,
        kind: Kind,
        node: ast.ListComp | ast.SetComp | ast.GeneratorExp,
        rounds: tuple[Round, ...],
        ordered: bool,
        frame: Frame,
    ) -> Value:
        """Return the result of a comprehension from its rounds."""
        known: dict[Round, tuple[Value, Answer]] = {}
        # a variable that is given a value in it (`:=`) has that of the last round
        for each in rounds if frame.module.source.has_walrus else dict.fromkeys(rounds):
            (value,), filtered = self._comprehension(node, [node.elt], frame, lazy=kind == "iterator", members=each)
            known[each] = value, filtered
        made = [known[each] for each in rounds]
        some = [value for value, filtered in made if filtered.decided is not False]
        every = Sequence(kind, None, join(*some) if some else UNKNOWN)
        if not ordered or any(filtered.likely is None for _, filtered in made):
            return every
        items = tuple(value for value, filtered in made if filtered.likely)
        if kind == "set":
            if not all(isinstance(each, Const) for each in items):
                return every  # nothing decides which are equal
            items = tuple(dict.fromkeys(items))
        usual = Sequence(kind, items, UNKNOWN)
        return usual if all(filtered.decided is not None for _, filtered in made) else prefer(usual, every)

    def _usual_rounds(self, generators: list[ast.comprehension], frame: Frame) -> tuple[Round, ...] | None:
        """Return the most likely members that a comprehension iterates over, one by one; None if nothing decides them."""
        walked = self._iterable_of(generators, frame)
        usual = likely(walked)
        return None if usual is walked else self._few(_rounds_of(usual))

    def _few(self, walked: tuple[Value, ...] | None) -> tuple[Round, ...] | None:
        """Return the rounds of one `for`, if they are few enough to distinguish: while a model is built as many as a
        table may hold."""
        most = MAX_ENTRIES if self.engine.untraced else UNROLL
        return tuple((each,) for each in walked) if walked is not None and len(walked) <= most else None

    def _dictcomp(self, node: ast.DictComp, frame: Frame) -> Value:
        known = self._table(node, self._known_rounds(node.generators, frame), frame)
        if known is not None:
            return known
        usual = self._table(node, self._usual_rounds(node.generators, frame), frame)
        with frame.against(None if usual is None else priors.REST):
            found, filtered = self._comprehension(node, [node.key, node.value], frame)
        every = Mapping((), found[1])
        if filtered.likely is False:
            return prefer(Mapping((), None), every)
        return every if usual is None else prefer(usual, every)

    def _table(self, node: ast.DictComp, rounds: tuple[Round, ...] | None, frame: Frame) -> Mapping | None:
        """Return the dict that a comprehension makes of these rounds; None without any, or if the filtered items or their
        keys are unknown."""
        entries: dict[object, Value] = {}
        for each in rounds or ():
            (key, value), filtered = self._comprehension(node, [node.key, node.value], frame, members=each)
            if filtered.decided is None and _is_foreign(each[0]):
                continue  # an imported module has no table of the module's own
            if filtered.decided is None or (filtered.decided and not is_key(key)):
                return None
            if filtered.decided:
                entries[key_of(key)] = value
        return None if rounds is None else Mapping(tuple(entries.items()), None)

    def _rounds(self, generators: list[ast.comprehension], frame: Frame) -> tuple[tuple[Round, ...] | None, bool]:
        """Return the members that a comprehension iterates over, and whether in that order; for modules in a container
        one of each kind. None if they are unknown."""
        if len(generators) > 1:
            return self._rounds_of_several(generators, frame)
        value = self._iterable_of(generators, frame)
        members = self.engine.containers.walked_members(value)
        rounds = _rounds_of(value if members is None else members)
        if rounds is not None:
            empty = not rounds and may_change(value)
            return (tuple((each,) for each in rounds), True) if len(rounds) <= UNROLL and not empty else (None, True)
        element = self.engine.containers.element(value) if members is not None and not generators[0].ifs else UNKNOWN
        if isinstance(element, Choice) and not element.likely:
            return tuple((each,) for each in element.options), False
        return None, True

    def _rounds_of_several(
        self, generators: list[ast.comprehension], frame: Frame
    ) -> tuple[tuple[Round, ...] | None, bool]:
        """Return the rows that several `for` iterate over together, if none depends on another, and whether they are all
        in order; one member represents all of an unknown iterable. None if no row is known."""
        bound: set[str] = set()
        rows: list[tuple[Value, ...]] = []
        whole = 0
        for generator in generators:
            if any(isinstance(n, ast.Name) and n.id in bound for n in ast.walk(generator.iter)):
                return None, True
            bound.update(n.id for n in ast.walk(generator.target) if isinstance(n, ast.Name))
            value = self._iterable_of([generator], frame)
            row = _rounds_of(value)
            whole += bool(row)
            rows.append(row or (self.engine.containers.element(value),))
        if not whole or math.prod(map(len, rows)) > UNROLL:
            return None, True
        return tuple(itertools.product(*rows)), whole == len(rows)

    def _known_rounds(self, generators: list[ast.comprehension], frame: Frame) -> tuple[Round, ...] | None:
        """Return the members that a comprehension iterates over, one by one; None if they are unknown."""
        value = self._iterable_of(generators, frame)
        rounds = self._few(_rounds_of(value))
        return None if not rounds and may_change(value) else rounds

    def _iterable_of(self, generators: list[ast.comprehension], frame: Frame) -> Value:
        """Return the iterable of a comprehension; unknown if there are several."""
        if len(generators) > 1:
            return UNKNOWN
        with self.engine.outside_trace():
            return self.engine.protocols.iterate(self.eval(generators[0].iter, frame), frame)

    def _comprehension(
        self, node: Comprehension, parts: list[ast.expr], frame: Frame, lazy: bool = False, members: Round | None = None
    ) -> tuple[list[Value], Answer]:
        """Return the values of `parts`, and whether the filters accept any; of one round only, with `members` for it."""
        filtered = Answer(True, True)
        generators = node.generators
        apart = not self.engine.untraced and sys.version_info < F.INLINED
        holds = apart and self._holds_torch(node, frame)
        around: F.Enclosing = "function" if holds else "comprehension"
        with frame.scoped(node):
            frame.env = dict(frame.env)
            for number, generator in enumerate(generators):
                given = self.eval(generator.iter, frame)
                if holds and generator is generators[0] and not isinstance(node, ast.GeneratorExp):
                    self._emit_comprehension(node, given, frame)
                value = self.engine.protocols.iterate(given, frame)
                self.emit_loop(generator.iter, value, True, frame)
                member = self.engine.containers.element(value) if members is None else members[number]
                self.engine.assignment.assign(generator.target, member, frame)
                if generator is generators[0] and not lazy and self._blocks_resume(value, generator.iter):
                    lazy = True
                    if apart and not holds and not self._counts_modules(generator.iter, frame):
                        self.engine.emit(F.Alone(self.engine.where(frame), node, by_its_own=True, compiled=False))
                frame.path = frame.path.inside("iterator" if lazy else around)
                for condition in generator.ifs:
                    fork = self.engine.forks.ask(condition, "comprehension", frame)
                    filtered = Answer(
                        combine_answers((filtered.decided, fork.decided), False),
                        combine_answers((filtered.likely, fork.usual), False),
                    )
                    if not self.engine.forks.enter(fork, True, frame):
                        return [UNKNOWN for _ in parts], filtered
            return [self.eval(part, frame) for part in parts], filtered

    def _emit_comprehension(self, node: Comprehension, given: Value, frame: Frame) -> None:
        """Emit a comprehension that Dynamo cannot compile by itself (measured: it iterates over a tuple, a tensor and a
        `range` alone) but tries to, as it contains something of torch. From Python 3.12 on none has a frame of its
        own."""
        walked = node.generators[0].iter
        if not all(map(self._is_walked_alone, options(given))):
            return
        if isinstance(walked, ast.List) or (isinstance(walked, ast.Call) and ast.unparse(walked.func) == "range"):
            return  # Python makes a tuple of a list that is written there
        iterates = any(map(self._stays_an_iterator, options(given))) and not self._counts_modules(walked, frame)
        self.engine.emit(F.Alone(self.engine.where(frame), node, by_its_own=iterates))

    def _holds_torch(self, node: Comprehension, frame: Frame) -> bool:
        """Return whether a comprehension, as a function of its own, contains what Dynamo looks for: something of
        torch."""
        inside = _inside(node)
        captured = [value for name in _captured_names(node) if (value := frame.lookup(name)) is not None]
        names = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        names |= {n.attr for n in inside if isinstance(n, ast.Attribute)}
        return any(is_of_torch(self.engine, value, vague=False) for value in captured) or any(
            is_torch(frame.module.bindings.get(name, ())) for name in names
        )

    def _stays_an_iterator(self, value: Value) -> bool:
        """Return whether Python gets an iterator over this if the comprehension that iterates over it breaks: for a list
        that the trace has met it gets a tuple's (measured)."""
        return not isinstance(value, Const) and not (isinstance(value, Sequence) and value.kind == "list")

    def _counts_modules(self, node: ast.expr, frame: Frame) -> bool:
        """Return whether it is `enumerate(modules)` or `reversed(...)`, for which Dynamo reports no break (measured)."""
        called = ast.unparse(node.func) if isinstance(node, ast.Call) and node.args else ""
        if called != "enumerate":
            return called == "reversed"
        assert isinstance(node, ast.Call)
        counted = self.peek(node.args[0], frame)
        return any(self.engine.classes.is_module(option) for option in options(counted))

    def _is_walked_alone(self, value: Value) -> bool:
        """Return whether Dynamo cannot iterate over the iterator that a separately compiled comprehension gets."""
        if isinstance(value, Sequence):
            return value.kind != "tuple"
        if isinstance(value, Const):
            return isinstance(value.value, str)
        return isinstance(value, Mapping) or (
            isinstance(value, (Instance, ExternalInstance))
            and self.engine.containers.container_members(value) is not None
        )

    def _blocks_resume(self, value: Value, node: ast.expr) -> bool:
        """Return whether Dynamo cannot pass an iterator over this to the code that resumes after a break (measured)."""
        passed_on = isinstance(node, ast.Call) and ast.unparse(node.func) in PASSED_ON
        for option in options(value):
            members = members_of(option) if isinstance(option, Sequence) else (option,)
            if isinstance(option, Mapping) or any(map(self.engine.classes.is_module, members)):
                return True
            if isinstance(option, Sequence) and (option.kind == "set" or option.kind in LAZY) and not passed_on:
                return True
        return False

    def emit_loop(self, node: ast.expr, value: Value, comprehension: bool, frame: Frame) -> None:
        """Emit the iteration; see through `enumerate`, `zip` and `reversed` to the iterated values."""
        self.engine.unresolved.emit_unresolved(node, frame, value, walked=True)
        self.engine.enums.emit_member_walk(node, value, frame)
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("enumerate", "zip", "reversed")
        ):
            walked = [(arg, self.peek(arg, frame)) for arg in node.args if not isinstance(arg, ast.Starred)]
            for arg, inner in walked:
                self.engine.emit(F.Loop(self.engine.where(frame), arg, inner, comprehension))
        else:
            self.engine.emit(F.Loop(self.engine.where(frame), node, value, comprehension))

    def _subscript(self, node: ast.Subscript, frame: Frame) -> Value:
        base = self.eval(node.value, frame)
        index, parts, slices = self.index(node.slice, frame)
        if isinstance(base, Unknown) and is_surely_mask(index):
            base = Tensor(sure=False)  # nothing else is read through one
        self.engine.emit(F.Index(self.engine.where(frame), node, base, index, parts, slices, "load"))
        self.engine.unresolved.emit_unresolved(node, frame, base, *parts, *slices)
        self.engine.enums.emit_member_index(node, base, index, frame)
        if isinstance(base, Tensor) and any(is_place(v) or is_captured(v) for v in (*parts, *slices)):
            frame.resume()
        return self.engine.protocols.subscript(base, index, node.slice, frame)

    def index(self, node: ast.expr, frame: Frame) -> tuple[Value, tuple[Value, ...], tuple[Value, ...]]:
        """Return (value, items of a tuple index, bounds of slices) of the expression in the brackets."""
        items = node.elts if isinstance(node, ast.Tuple) else [node]
        values: list[Value] = []
        bounds: list[Value] = []
        for item in items:
            if isinstance(item, ast.Slice):
                bounds.extend(self.eval(b, frame) for b in (item.lower, item.upper, item.step) if b is not None)
                values.append(Plain("slice"))
            elif isinstance(item, ast.Starred):
                values.append(self.engine.containers.element(self.eval(item.value, frame)))
            else:
                values.append(self.eval(item, frame))
        if isinstance(node, ast.Tuple):
            return Sequence("tuple", tuple(values), UNKNOWN), tuple(values), tuple(bounds)
        row = values[0]
        if isinstance(row, Sequence) and row.kind == "tuple" and row.items is not None:
            return row, row.items, tuple(bounds)
        return row, tuple(values), tuple(bounds)

    def _call(self, node: ast.Call, frame: Frame) -> Value:
        if isinstance(node.func, ast.Attribute):
            function = self._attribute(node.func, frame, called=True)
            self._emit_method_of_new(node, node.func.value, function, frame)
        else:
            function = self.eval(node.func, frame)
        name = function.name if isinstance(function, External) else ""
        if name == "next" or (name == "iter" and node in self.engine.firsts):
            for arg in node.args[:1]:
                if isinstance(arg, ast.Call):
                    self.engine.firsts.add(arg)
                    if self.engine.replay is not None:
                        self.engine.replay.marked(arg, first=True)
        args, rest = self._positional(node, frame)
        keywords = self._keywords(node, frame, function, len(args))
        if name == "super":
            return self._super(args, frame)
        callees = [value for value in options(function) if not is_none(value)]
        if callees and not self.engine.untraced and all(isinstance(value, (Unknown, Plain)) for value in callees):
            self.engine.unknown_callees.setdefault(frame.context, {})[node.func] = None
        stored = self.engine.heap.changes.attributes
        before = len(stored)
        made = self.engine.calls.call(function, CallSite(node, args, keywords, frame, rest))
        if len(stored) > before and any(isinstance(value, (Function, Instance)) for value in callees):
            self._forget({*stored[before:]}, frame)
        if not self.engine.untraced and any(isinstance(arg, ast.GeneratorExp) for arg in node.args):
            self._emit_consumed(node, function, made, frame)
        if not self.engine.untraced and len(node.args) == 1 and isinstance(node.args[0], ast.Starred):
            self._emit_spread(node, node.args[0].value, function, frame)
        if isinstance(node.func, ast.Attribute) and not (self.engine.untraced or frame.path.enclosing):
            self._emit_in_arguments(node, function, made, (*args, *keywords.values()), frame)
        return made

    def _emit_method_of_new(self, node: ast.Call, owner: ast.expr, function: Value, frame: Frame) -> None:
        """Emit the call of a method of an object that was made in this function, or by a function that it called."""
        if self.engine.untraced or frame.function is None or frame.path.enclosing:
            return
        bound = {value.bound for value in options(likely(function)) if isinstance(value, Function)}
        given = self.engine.contexts[frame.context].arguments
        for made in bound:
            if not isinstance(made, Instance) or self.engine.heap[made].escaping or made in given:
                return
        making = _making_call(owner, frame.function) if bound else None
        if making is not None:
            self.engine.emit(F.OfNew(self.engine.where(frame), node, making))

    def _emit_in_arguments(
        self, node: ast.Call, function: Value, made: Value, given: tuple[Value, ...], frame: Frame
    ) -> None:
        """Emit the call of a method of a tensor, a container or a string with calls in its arguments, if the code that
        resumes after a break in one of them gets a tensor."""
        if frame.function is None or not isinstance(function, Method):
            return
        of_tensor = tensor_of(function.receiver) is not None
        if of_tensor and tensor_of(made) is None:
            return
        if not of_tensor and not _is_of_builtin(function.receiver):
            return
        inside = [each for part in (*node.args, *node.keywords) for each in ast.walk(part)]
        names = {last_name(each.func) for each in inside if isinstance(each, ast.Call)}
        called = frozenset(name for name in names if not self.engine.operations.is_of_tensors(name))
        calls = called if of_tensor else any(isinstance(each, (ast.Call, ast.Subscript)) for each in inside)
        if calls and (any(map(holds_tensor, given)) or self._is_tensor_read(node, frame.function, frame)):
            above = node.lineno - frame.line
            self.engine.emit(F.InArguments(self.engine.where(frame), node, above, called, of_tensor))

    def _is_tensor_read(self, node: ast.Call, info: FunctionInfo, frame: Frame) -> bool:
        """Return whether something of torch is read after a call, or elsewhere in the same statement."""
        beside = (frame.env.get(name, UNKNOWN) for name in _read_beside(node, info))
        return any(is_of_torch(self.engine, value, vague=False) for value in beside)

    def _emit_consumed(self, node: ast.Call, function: Value, made: Value, frame: Frame) -> None:
        """Emit the call that consumes a generator expression, if that holds a variable that nothing reads afterwards."""
        usual = likely(function)
        if isinstance(usual, External):
            called = self.engine.operations.tables.call_of(usual.name)
            followed = usual.name in FILLED or (called is not None and called.rule == "polyfill")
        else:
            followed = isinstance(usual, Function)
        later = isinstance(made, Sequence) and made.kind == "iterator"
        if not followed or later or frame.function is None or not {*frame.path.enclosing} <= {"with"}:
            return
        generators = [each for each in node.args if isinstance(each, ast.GeneratorExp)]
        if _lacks(generators, node, frame, frame.function):
            self.engine.emit(F.Consumed(self.engine.where(frame), node))

    def _emit_spread(self, node: ast.Call, generator: ast.expr, function: Value, frame: Frame) -> None:
        """Emit a call that unpacks a generator expression as its only argument, if Dynamo cannot recreate that: its
        iterable is exhausted, or nothing reads a variable of it afterwards. (Measured: a range and the values of a dict
        or a container of modules are iterated anew.)"""
        if not isinstance(generator, ast.GeneratorExp) or isinstance(likely(function), External):
            return
        if frame.function is None or not {*frame.path.enclosing} <= {"with"}:
            return
        walked = likely(self.peek(generator.generators[0].iter, frame))
        afresh = isinstance(walked, (Mapping, Instance, ExternalInstance, Unknown)) or (
            isinstance(walked, Sequence) and walked.kind in AFRESH
        )
        if not afresh or _lacks([generator], node, frame, frame.function):
            self.engine.emit(F.Consumed(self.engine.where(frame), node, not afresh))

    def _forget(self, stored: set[tuple[int, str]], frame: Frame) -> None:
        """Forget the known values of attributes that a call has set."""
        for key in [key for key in frame.env if "." in key]:
            name, _, attribute = key.partition(".")
            for option in options(frame.lookup(name) or UNKNOWN):
                if isinstance(option, Instance) and (id(self.engine.heap[option]), attribute) in stored:
                    frame.env = {k: v for k, v in frame.env.items() if k != key}
                    break

    def _positional(self, node: ast.Call, frame: Frame) -> tuple[tuple[Value, ...], Value | None]:
        """Return the positional arguments, and the value of any number of further ones: `*args` of unknown length."""
        args: list[Value] = []
        rest: list[Value] = []
        for arg in node.args:
            if not isinstance(arg, ast.Starred):
                (rest if rest else args).append(self.eval(arg, frame))
                continue
            value = self._starred_walk(arg, frame)
            usual = likely(value)
            if isinstance(usual, Sequence) and usual.items is not None:
                (rest if rest else args).extend(usual.items)
            if usual != value or not isinstance(usual, Sequence) or usual.items is None:
                rest.append(self.engine.containers.element(value))
                self.engine.spread.add(node)
                if not self.engine.untraced:
                    place = str(frame.module.path), arg.lineno, arg.col_offset
                    self.engine.gaps[place] = call_statistics.STAR
                if self.engine.replay is not None:
                    self.engine.replay.marked(node, first=False)
                    if frame.function is None:
                        self.engine.replay.outside += 1
                    elif not self.engine.untraced:
                        line = arg.lineno - frame.function.node.lineno
                        self.engine.replay.missed(frame.function, line, arg.col_offset, call_statistics.STAR)
        return tuple(args), join(*rest) if rest else None

    def _keywords(self, node: ast.Call, frame: Frame, function: Value, taken: int) -> dict[str, Value]:
        """Return the arguments by name: the known items of a mapping, and if it has others, the required parameters of
        `function` that the call does not pass, `taken` being the number passed by position."""
        keywords: dict[str, Value] = {}
        others: list[Value] = []
        for keyword in node.keywords:
            value = self.eval(keyword.value, frame)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
                continue
            self.engine.unresolved.emit_unresolved(keyword.value, frame, value, walked=True)
            usual = likely(value)
            found = [self._table_of(option, frame) for option in options(usual)]
            tables = [dict(table.entries) for table in found if table is not None]
            for key in dict.fromkeys(key for table in tables for key in table):
                item = join(*(table[key] for table in tables if key in table))
                keywords[str(key)] = item if usual == value else prefer(item, UNKNOWN)
            others += [t.element for t in found if t is not None and t.element is not None and not t.extra]
        rest = join(*others) if others else NONE
        if holds_tensor(rest):
            for required in self._required_parameters(likely(function), taken):
                keywords.setdefault(required, rest)
        return keywords

    def _required_parameters(self, function: Value, taken: int) -> list[str]:
        """Return the names of the required parameters of a function, a class or a module after so many positional
        arguments."""
        found: list[FunctionInfo] = []
        bound = True
        if isinstance(function, Function):
            found, bound = [function.info], function.bound is not None
        elif isinstance(function, (Class, Instance)):
            mro = self.engine.classes.mro(function.info if isinstance(function, Class) else function.cls)
            called = "forward" if mro.is_module else "__call__"
            found = mro.functions("__init__" if isinstance(function, Class) else called)
        named = positional(found[0].node.args)[taken + bound :] if found else []
        return [arg.arg for arg, default in named if default is None]

    def _table_of(self, value: Value, frame: Frame) -> Mapping | None:
        """Return the mapping that `**value` unpacks: of an object with `keys()` its items."""
        if isinstance(value, Mapping) or not isinstance(value, Instance):
            return value if isinstance(value, Mapping) else None
        members = self.engine.containers.container_members(value)
        if isinstance(members, Mapping):
            return members
        keys = self.engine.protocols.special(value, "keys", (), frame)
        attributes = self.engine.attributes.attribute(value, "__dict__", frame)
        if keys is None or not isinstance(attributes, Mapping):
            return None
        usual = likely(keys)
        named = usual.items if isinstance(usual, Sequence) else None
        if named is None:
            return Mapping(attributes.entries, UNKNOWN)
        known = dict(attributes.entries)
        entries: dict[object, Value] = {}
        for key in named:
            if is_key(key):
                item = known.get(key_of(key)) or self.engine.protocols.special(value, "__getitem__", (key,), frame)
                entries[key_of(key)] = UNKNOWN if item is None else item
        return Mapping(tuple(entries.items()), attributes.element)

    def _super(self, args: tuple[Value, ...], frame: Frame) -> Value:
        if len(args) == 2 and isinstance(args[0], Class):
            return Super(args[1], args[0].info)
        inner: Frame | None = frame
        while inner is not None:
            function = inner.function
            if function is not None and function.owner is not None and not isinstance(function.node, ast.Lambda):
                names = [a.arg for a in (*function.node.args.posonlyargs, *function.node.args.args)]
                if names and names[0] in inner.env:
                    return Super(inner.env[names[0]], function.owner)
            inner = inner.parent
        return UNKNOWN


def _is_hashed(value: Value) -> bool:
    """Return whether it is a dict or a set."""
    return isinstance(value, Mapping) or (isinstance(value, Sequence) and value.kind == "set")


def _is_address(value: Value) -> bool:
    return K.ADDRESS in options(value)


def _concatenate(text: list[str] | None, value: Value) -> list[str] | None:
    """Return constant text followed by a value; None if one of them is unknown."""
    if text is None or not isinstance(value, Const) or not isinstance(value.value, (str, int)):
        return None
    return [*text, str(value.value)]


def _is_text(value: Value) -> bool:
    if isinstance(value, Const):
        return isinstance(value.value, str)
    return isinstance(value, Plain) and value.kind == "str"


def _inside(node: Comprehension) -> list[ast.AST]:
    """Return the parts that a comprehension evaluates as a function of its own: all but the first iterable."""
    before = {id(each) for each in ast.walk(node.generators[0].iter)}
    return [each for each in ast.walk(node) if id(each) not in before]


def _captured_names(node: Comprehension) -> list[str]:
    """Return the enclosing variables that a comprehension reads as a function of its own, sorted."""
    names = [each for each in _inside(node) if isinstance(each, ast.Name)]
    stored = {each.id for each in names if isinstance(each.ctx, ast.Store)}
    return sorted({each.id for each in names if isinstance(each.ctx, ast.Load)} - stored)


def _lacks(generators: list[ast.GeneratorExp], node: ast.Call, frame: Frame, function: FunctionInfo) -> bool:
    """Return whether generator expressions of a call hold a variable that nothing in its function reads afterwards."""
    captured = {name for each in generators for name in _captured_names(each) if name in frame.env}
    return bool(captured - _read_later(node, function))


def _rounds_of(walked: Value) -> tuple[Value, ...] | None:
    """Return the items of an iterable if the source decides all of them: the members of a sequence, the keys of a
    dict."""
    if isinstance(walked, Mapping):
        return None if walked.element is not None else tuple(value_of_key(key) for key, _ in walked.entries)
    return walked.items if isinstance(walked, Sequence) else None


def _is_foreign(member: Value) -> bool:
    """Return whether a value is known by an external name alone, or is a row that ends with such."""
    last = member.items[-1] if isinstance(member, Sequence) and member.items else member
    return isinstance(last, External)


def _all_of(*answers: Value) -> Value:
    """Return the result of a chain of comparisons: the first that is false, else the last."""
    for answer in answers[:-1]:
        if answer != Const(True):
            return answer if answer == Const(False) or Const(False) not in answers else Const(False)
    return answers[-1]


def _read_later(node: ast.expr, info: FunctionInfo) -> set[str]:
    """Return the variables that a function reads after an expression, before it assigns them."""
    end = _end(node)
    if any(isinstance(each, ast.Return) for each in _around(node, info)):
        return set()
    assigned = {
        id(name): _end(each)  # what is assigned is read first
        for each in info.nodes
        if isinstance(each, ast.Assign)
        for target in each.targets
        for name in ast.walk(target)
    }
    names = [each for each in info.nodes if isinstance(each, ast.Name)]
    live: set[str] = set()
    given: set[str] = set()
    for place, name in sorted(
        ((assigned.get(id(name), _begin(name)), name) for name in names), key=lambda each: each[0]
    ):
        if place >= end and isinstance(name.ctx, ast.Load):
            live |= {name.id} - given
        elif place >= end:
            given.add(name.id)
    return live


def _read_beside(node: ast.expr, info: FunctionInfo) -> set[str]:
    """Return the variables that a function reads after an expression, or elsewhere in its statement."""
    inside = {id(each) for each in ast.walk(node)}
    return _read_later(node, info) | {
        name.id
        for statement in _around(node, info)
        for name in ast.walk(statement)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load) and id(name) not in inside
    }


def _around(node: ast.expr, info: FunctionInfo) -> Iterator[ast.stmt]:
    """Return the simple statement that contains an expression."""
    for each in info.nodes:
        if isinstance(each, (ast.Return, ast.Assign, ast.AugAssign, ast.Expr)):
            if _begin(each) <= _begin(node) and _end(node) <= _end(each):
                yield each


def _begin(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def _is_of_builtin(value: Value) -> bool:
    """Return whether it is a list, a tuple, a set, a dict or a string, with methods written in C."""
    return all(is_compared_by_members(v) or is_word(v) for v in options(likely(value)))


def _making_call(owner: ast.expr, info: FunctionInfo) -> ast.expr | None:
    """Return the call from which a function gets an object, directly or by an attribute or variable. None if it has it
    otherwise."""
    whole = owner
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    if isinstance(owner, ast.Call):
        return None if isinstance(owner.func, ast.Name) and owner.func.id == "super" else owner
    return _assigned_call(whole, info) or _assigned_call(owner, info)


def _assigned_call(place: ast.expr, info: FunctionInfo) -> ast.expr | None:
    """Return the call that a function assigns last to a variable, or an attribute, before it is read at `place`; None if
    there is none."""
    if not isinstance(place, (ast.Name, ast.Attribute)):
        return None
    name = ast.unparse(place)
    stored = [
        node
        for node in info.nodes
        if isinstance(node, type(place)) and isinstance(node.ctx, ast.Store) and ast.unparse(node) == name
    ]
    assigned: list[ast.expr] = []
    for node in info.nodes:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(target in stored for target in targets):
                assigned.append(node.value)
    before = [value for value in assigned if value.lineno < place.lineno]
    if len(assigned) < len(stored) or not before:
        return None
    last = max(before, key=lambda value: value.lineno)
    made = [last.body, last.orelse] if isinstance(last, ast.IfExp) else [last]
    return last if all(isinstance(value, ast.Call) for value in made) else None


def _is_argument(node: ast.expr, frame: Frame) -> bool:
    """Return whether it is a parameter of the target's entry that is assigned nowhere in it, or is computed with one."""
    if isinstance(node, ast.BinOp):
        return _is_argument(node.left, frame) or _is_argument(node.right, frame)
    function = frame.function.node if frame.function is not None and frame.depth <= 1 else None
    if not isinstance(node, ast.Name) or not isinstance(function, ast.FunctionDef):
        return False
    names = {each.arg for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    return node.id in names and not any(
        isinstance(each, ast.Name) and each.id == node.id and not isinstance(each.ctx, ast.Load)
        for each in ast.walk(function)
    )
