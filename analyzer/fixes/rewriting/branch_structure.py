"""Branches, loops and calls of a function, and how two versions of it differ in them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

from tcready.fixes.rewriting.equivalence import mirror

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


Arm: TypeAlias = 'Literal["compiled", "eager", "either"] | None'
"""Whether code runs only while compiling or only while not compiling; None if it does not ask."""


@dataclass(frozen=True)
class BranchTest:
    """An expression that decides a branch."""

    node: ast.expr
    arm: Arm
    part: ast.Compare | None = None
    """The whole chain, if `node` is its first links."""

    @property
    def is_constant(self) -> bool:
        return isinstance(self.node, ast.Constant)


@dataclass(frozen=True)
class RunBlock:
    """A statement, or an expression that is not always evaluated when its statement runs."""

    node: ast.stmt | ast.expr
    arm: Arm
    text: str = ""
    """The part that is compared, if not all: the header of a loop, a handler, a function."""


@dataclass
class BlockScope:
    """Branch conditions and executed code of a function, or of a module and its classes."""

    tests: list[BranchTest]
    """Whole tests."""
    parts: list[BranchTest]
    """Operands of combined tests, and of `and` and `or` elsewhere, which are evaluated separately."""
    statements: list[RunBlock]
    inner: list[RunBlock]
    """Lambdas and comprehensions, the sides of conditional expressions, and the operands of `and` and `or` except
    the first."""


@dataclass
class _Differences:
    tests: list[BranchTest]
    turned: list[BranchTest]
    conditions: list[BranchTest]
    gone: list[RunBlock]
    written: list[RunBlock]


def compared_of(one: BlockScope, two: BlockScope) -> _Differences:
    found = _Differences([], [], [], [], [])
    available = Counter((_test_text(each), each.arm) for each in two.tests)
    as_they_were = {_written(each) for each in two.tests}
    unmatched: list[BranchTest] = []
    for each in one.tests:
        if _takes(available, _test_text(each), each.arm):
            if _written(each) not in as_they_were:
                found.turned.append(each)
        else:
            found.tests.append(each)
            unmatched.append(each)
    if not unmatched:  # the same tests, perhaps in another order: then the first that is true is another one
        order, later = ([_test_text(each) for each in tests] for tests in (one.tests, two.tests))
        if Counter(order) == Counter(later):
            for tag, i1, i2, *_ in SequenceMatcher(None, order, later, autojunk=False).get_opcodes():
                found.tests += one.tests[i1:i2] if tag != "equal" else []
    # of a test that is kept as a whole the operands are kept too
    inside = {id(part.node) for test in unmatched for part in _operands_of(test)}
    whole = {id(part.node) for test in one.tests for part in _operands_of(test)} - inside
    left = Counter((_operand_text(each.node), each.arm) for each in (*two.parts, *two.tests))
    for each in one.parts:
        if id(each.node) in whole or each.is_constant:
            continue
        if not _takes(left, _operand_text(each.node), each.arm):
            found.tests.append(each)
    before = {_operand_text(each.node) for each in (*one.parts, *one.tests)}
    compound = {id(each.node) for each in two.tests if _is_joined(each.node)}
    for each in (*two.parts, *two.tests):
        is_new = _operand_text(each.node) not in before and id(each.node) not in compound
        if is_new and not each.is_constant and not _tests_compiling(each.node):
            found.conditions.append(each)
    same = SequenceMatcher(None, [*map(_run, one.statements)], [*map(_run, two.statements)], autojunk=False)
    for tag, i1, i2, j1, j2 in same.get_opcodes():
        if tag != "equal":
            found.gone += one.statements[i1:i2]
            found.written += two.statements[j1:j2]
    for mine, others, to in ((one, two, found.gone), (two, one, found.written)):
        known = Counter(map(_run, others.inner))
        decide = {_operand_text(each.node) for each in (*others.parts, *others.tests)}
        for inner in mine.inner:
            if isinstance(inner.node, ast.expr) and _operand_text(inner.node) in decide:
                continue  # it is watched as a test
            if known[_run(inner)]:
                known[_run(inner)] -= 1
            else:
                to.append(inner)
    return found


def _takes(available: Counter[tuple[str, Arm]], key: str, arm: Arm) -> bool:
    """Remove an equal one if there is one: in the same place, or both in compiled and in uncompiled code."""
    for arms in ((arm,), ("compiled", "eager")):
        if all(available[key, each] for each in arms):
            for each in arms:
                available[key, each] -= 1
            return True
    return False


def _written(test: BranchTest) -> str:
    return f"{test.arm} {ast.dump(test.node)}"


def _run(each: RunBlock) -> str:
    return f"{each.arm is not None} {each.text or ast.dump(each.node)}"


def _test_text(test: BranchTest) -> str:
    """Return equal text for tests that are true in the same cases: the order of operands without effects is ignored."""
    node = test.node
    if isinstance(node, ast.Compare) and (mirrored := mirror(node)) and _is_without_effect(node):
        return min(ast.dump(node), ast.dump(mirrored))
    if not isinstance(node, ast.BoolOp) or not all(map(_is_without_effect, ast.walk(node))):
        return ast.dump(node)
    return f"{type(node.op).__name__} {sorted(_operands(node, type(node.op)))}"


_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.IsNot: ast.Is, ast.NotIn: ast.In}


def _operand_text(node: ast.expr) -> str:
    """Return equal text for expressions that are true in the same cases, or in the opposite ones, and for `bool` of
    them."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _operand_text(node.operand)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "bool":
        return _operand_text(node.args[0]) if len(node.args) == 1 else ast.dump(node)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPPOSITE:
        turned = _OPPOSITE[type(node.ops[0])]()
        return ast.dump(ast.Compare(node.left, [turned], node.comparators))
    return ast.dump(node)


def _operands(node: ast.expr, kind: type[ast.boolop]) -> Iterator[str]:
    """Return the operands of `and`, or of `or`, as text."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, kind):
        for each in node.values:
            yield from _operands(each, kind)
    else:
        yield ast.dump(node)


_QUESTIONS = frozenset(
    "callable hasattr isinstance issubclass dim is_complex is_floating_point numel is_compiling is_dynamo_compiling "
    "is_scripting is_tracing".split()
)
"""Functions and methods without effects."""


def _is_without_effect(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2] in _QUESTIONS
    return not isinstance(node, (ast.Await, ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Subscript))


_WITHOUT_CODE = (ast.Pass, ast.Global, ast.Nonlocal)


def scope_of(node: ast.AST) -> BlockScope:
    """Return the scope of a function with its nested functions; of a module with its classes, without its functions."""
    scope = BlockScope([], [], [], [])
    body = getattr(node, "body", [])
    if isinstance(node, FUNCTIONS):
        for each in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            _look_into(each, None, scope)
    _block(body, None, scope, isinstance(node, FUNCTIONS))
    return scope


def _block(body: Sequence[ast.stmt], arm: Arm, scope: BlockScope, in_function: bool) -> None:
    for statement in body:
        _statement(statement, arm, scope, in_function)
        if isinstance(statement, ast.If) and not statement.orelse and _leaves(statement.body):
            arm = _arms(statement.test, arm)[1]


def _leaves(body: Sequence[ast.stmt]) -> bool:
    return isinstance(body[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break))


def _statement(node: ast.stmt, arm: Arm, scope: BlockScope, in_function: bool) -> None:
    """Add the content of a statement."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        if in_function:
            scope.statements.append(RunBlock(node, arm, header_of(node)))
        if in_function or isinstance(node, ast.ClassDef):
            _block(node.body, arm, scope, in_function)
        if in_function or isinstance(node, ast.ClassDef):
            for each in node.decorator_list:
                _look_into(each, arm, scope)
        return
    if isinstance(node, _WITHOUT_CODE) or _is_text(node):
        return
    if isinstance(node, ast.If) and ast.unparse(node.test).rpartition(".")[2] == "TYPE_CHECKING":
        _block(node.orelse, arm, scope, in_function)
        return
    inside: Arm = arm
    otherwise: Arm = arm
    if isinstance(node, (ast.If, ast.While, ast.Assert)):
        _test(node.test, arm, scope)
        inside, otherwise = _arms(node.test, arm)
    if not hasattr(node, "body") and not isinstance(node, ast.Match):
        scope.statements.append(RunBlock(node, arm))
    elif text := header_of(node):
        # the header says nothing about a loop over nothing
        shows = node.body[0] if isinstance(node, (ast.For, ast.AsyncFor)) else node
        scope.statements.append(RunBlock(shows, arm, text))
    for name, value in ast.iter_fields(node):
        if name == "test":
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.stmt):
                continue
            if isinstance(each, (ast.ExceptHandler, ast.match_case)):
                if isinstance(each, ast.match_case) and each.guard is not None:
                    _test(each.guard, arm, scope)
                scope.statements.append(RunBlock(each.body[0], inside, header_of(each)))
                _block(each.body, inside, scope, in_function)
            elif isinstance(each, ast.AST):
                _look_into(each, inside if name == "msg" else arm, scope)
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            _block(value, otherwise if name == "orelse" else inside, scope, in_function)


def _look_into(node: ast.AST, arm: Arm, scope: BlockScope) -> None:
    """Add the conditions in an expression, and what it evaluates later or never."""
    if isinstance(node, ast.IfExp):
        _test(node.test, arm, scope)
        inside, otherwise = _arms(node.test, arm)
        for side, where in ((node.body, inside), (node.orelse, otherwise)):
            scope.inner.append(RunBlock(side, where))
            _look_into(side, where, scope)
        return
    if isinstance(node, ast.BoolOp):
        _joined(node, arm, scope, is_test=False)
        return
    if isinstance(node, ast.Compare):
        scope.parts += _links(node, arm)
    elif isinstance(node, ast.comprehension):
        for each in node.ifs:
            _test(each, arm, scope)
        _look_into(node.target, arm, scope)
        _look_into(node.iter, arm, scope)
        return
    elif isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        scope.inner.append(RunBlock(node, arm))
    for child in ast.iter_child_nodes(node):
        _look_into(child, arm, scope)


def _test(node: ast.expr, arm: Arm, scope: BlockScope) -> None:
    """Add a test, and its operands if it has several."""
    scope.tests.append(BranchTest(node, arm))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        whole: ast.expr = node
        while isinstance(whole, ast.UnaryOp) and isinstance(whole.op, ast.Not):
            whole = whole.operand
        if isinstance(whole, ast.BoolOp):
            _joined(whole, arm, scope, is_test=True)
            return
    if isinstance(node, ast.BoolOp):
        _joined(node, arm, scope, is_test=True)
    else:
        _look_into(node, arm, scope)


def _joined(node: ast.BoolOp, arm: Arm, scope: BlockScope, *, is_test: bool) -> None:
    """Add the operands of `and` and `or`. The last one is no condition if the value is used otherwise."""
    for number, value in enumerate(node.values):
        if number:
            scope.inner.append(RunBlock(value, arm))
        inner: ast.expr = value
        while isinstance(inner, ast.UnaryOp) and isinstance(inner.op, ast.Not):
            inner = inner.operand
        decides = is_test or number < len(node.values) - 1
        if isinstance(inner, ast.BoolOp):
            _joined(inner, arm, scope, is_test=decides)
        else:
            if decides:
                scope.parts.append(BranchTest(value, arm))
            _look_into(value, arm, scope)
        following, otherwise = _arms(value, arm)
        arm = following if isinstance(node.op, ast.And) else otherwise


def _links(node: ast.Compare, arm: Arm) -> list[BranchTest]:
    """Yield the first links of a chain of comparisons: `0 < x < 1` evaluates `0 < x` first."""
    found = []
    for number in range(1, len(node.ops)):
        part = ast.Compare(node.left, node.ops[:number], node.comparators[:number])
        ast.copy_location(part, node)
        part.end_lineno = node.comparators[number - 1].end_lineno
        part.end_col_offset = node.comparators[number - 1].end_col_offset
        found.append(BranchTest(part, arm, node))
    return found


def _operands_of(test: BranchTest) -> list[BranchTest]:
    """Yield the operands of a test that are evaluated separately."""
    found = BlockScope([], [], [], [])
    _test(test.node, test.arm, found)
    return found.parts


def _is_joined(node: ast.expr) -> bool:
    while isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node = node.operand
    return isinstance(node, ast.BoolOp)


_COMPILING = ("is_compiling", "is_dynamo_compiling")


def _tests_compiling(node: ast.expr) -> bool:
    return any(
        (isinstance(each, ast.Attribute) and each.attr in _COMPILING)
        or (isinstance(each, ast.Name) and each.id in _COMPILING)
        for each in ast.walk(node)
    )


def _arms(test: ast.expr, arm: Arm) -> tuple[Arm, Arm]:
    """Return whether code behind a test runs only while compiling, if the test is true and if it is false."""
    if not _tests_compiling(test):
        return arm, arm
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inside, otherwise = _arms(test.operand, arm)
        return otherwise, inside
    if isinstance(test, ast.BoolOp):
        ways = [_arms(each, None) for each in test.values if _tests_compiling(each)]
        sure = next(iter(ways))
        return (sure[0], "either") if isinstance(test.op, ast.And) else ("either", sure[1])
    return ("compiled", "eager") if isinstance(test, ast.Call) else ("either", "either")


def _is_text(statement: ast.stmt) -> bool:
    """Return True for statements without code: a string as a statement, an annotation."""
    alone = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return alone or (isinstance(statement, ast.AnnAssign) and statement.value is None)


def header_of(node: ast.AST) -> str:
    """Return the header of a compound statement without its test; "" if there is nothing else."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        inside: list[ast.AST]
        if isinstance(node, ast.ClassDef):  # every class is an `object`
            bases = [each for each in node.bases if not isinstance(each, ast.Name) or each.id != "object"]
            inside = [*bases, *node.keywords]
        else:
            inside = [node.args]
        return " ".join([f"def {node.name}", *map(ast.dump, (*inside, *node.decorator_list))])
    parts = {
        ast.With: ("items",),
        ast.AsyncWith: ("items",),
        ast.For: ("target", "iter"),
        ast.AsyncFor: ("target", "iter"),
        ast.Match: ("subject",),
        ast.ExceptHandler: ("type", "name"),
        ast.match_case: ("pattern",),
    }.get(type(node), ())
    values = [getattr(node, part) for part in parts]
    flat = [each for value in values for each in (value if isinstance(value, list) else [value])]
    texts = [ast.dump(each) if isinstance(each, ast.AST) else str(each) for each in flat]
    return " ".join([type(node).__name__, *texts]) if parts else ""
