"""Compare two texts of a file: changed functions, branch tests that are removed or added, and where each line went."""

from __future__ import annotations

import ast
import bisect
import copy
import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, fields
from difflib import SequenceMatcher
from itertools import chain
from types import MappingProxyType

from tcready.fixes.rewriting.branch_structure import (
    FUNCTIONS,
    BlockScope,
    BranchTest,
    RunBlock,
    compared_of,
    header_of,
    scope_of,
)
from tcready.fixes.rewriting.equivalence import canonical_text, with_constants_on_the_right
from tcready.schema.enums import lines_of
from tcready.schema.proof import FunctionPlace, Span
from tcready.static.diagnostics.cst_view import name_of_torch
from tcready.static.frontend.source import Source

_IMPORTS = (ast.Import, ast.ImportFrom)
NUMBERS = 12
"""Maximum number of numbers in changed code at which inputs are tried."""
STRINGS = 8
"""Maximum number of strings in changed code that are passed as arguments."""
LEAST = 2
"""The largest whole number that is not worth trying inputs at."""


@dataclass(frozen=True)
class Changed:
    """Differences between two texts of one file."""

    functions: tuple[FunctionPlace, ...]
    """Functions, except nested ones, with code that differs between the texts."""
    tests: tuple[Span, ...]
    """Branch conditions of the first text that the function does not have any more: tests, the operands of `and` and
    `or`, the links of a chain of comparisons."""
    gone: tuple[Span, ...] = ()
    """Statements of the first text that its functions do not have any more, or have elsewhere; also bodies of
    lambdas and parts of comprehensions."""
    written: tuple[Span, ...] = ()
    """Those of the second text that are new in its functions."""
    turned: tuple[Span, ...] = ()
    """Tests of the first text that have their operands in another order in the second: they are true in the same
    cases."""
    conditions: tuple[Span, ...] = ()
    """Branch conditions of the second text that the first does not have."""
    compiled: tuple[Span, ...] = ()
    """Those of `written` that run depending on whether code is being compiled."""
    once: tuple[Span, ...] = ()
    """Code that runs once, at import, and changes the value of names of the first text, or of others."""
    takes: tuple[Span, ...] = ()
    """Functions of the first text that cannot be called in all the ways that they could before."""
    declared: tuple[Span, ...] = ()
    """Declarations that changed or are gone, without any effect that a call must show: classes and their bases,
    decorators, functions that are gone or defined more than once, `global` and `nonlocal`."""
    unread: tuple[Span, ...] = ()
    """Functions that no longer read a parameter, an attribute that a constructor sets to one, or a method: calls
    with other values of it, or of a subclass with another method, would differ."""
    constants: tuple[float | str, ...] = ()
    """From tests and statements that differ: numbers in comparisons, then other numbers. From functions that differ:
    numbers and strings in comparisons, and keys of dicts."""


def joined(parts: Iterable[Changed]) -> Changed:
    """Return the differences of several files as one value."""
    each = [*parts]
    return Changed(
        **{f.name: tuple(chain.from_iterable(getattr(one, f.name) for one in each)) for f in fields(Changed)}
    )


def changed(path: str, before: Source, after: Source) -> Changed:
    """Return what the second text of the file `path` (absolute) does not have in the same way as the first."""
    trees = _as_blocks(with_constants_on_the_right(before.tree), with_constants_on_the_right(after.tree))
    defined = [*_functions(trees[0])], [*_functions(trees[1])]
    earlier, later = map(dict, defined)
    often = {name for each in defined for name, count in Counter(name for name, _ in each).items() if count > 1}
    functions: list[FunctionPlace] = []
    tests: list[Span] = []
    gone: list[Span] = []
    written: list[Span] = []
    turned: list[Span] = []
    added: list[Span] = []
    compiled: list[Span] = []
    once: list[Span] = []
    takes: list[Span] = []
    unread: list[Span] = []
    settable = (_set_to_parameters(trees[0]) & _set_to_parameters(trees[1])) | {
        function.name for function in earlier.values() if not function.name.startswith("_")
    } & {function.name for function in later.values()}
    still_read = _attributes_read(trees[1])
    declared = [_span(path, before, each, 1) for each in _classes_otherwise(*trees)]
    numbers: list[float] = []
    more: list[float] = []
    around: list[float] = []
    strings: list[str] = []
    nothing = BlockScope([], [], [], [])
    pairs: list[tuple[BlockScope, BlockScope]] = []
    for name, function in earlier.items():
        other = later.get(name)
        if name in often and _dumped(name, defined[0]) != _dumped(name, defined[1]):
            declared.append(_span(path, before, function, 1))
        if other is not None and (
            ast.dump(other) == ast.dump(function) or canonical_text(other) == canonical_text(function)
        ):
            continue
        functions.append(FunctionPlace(path, name))
        strings += [text for node in (function, other) if node is not None for text in _strings(node)]
        around += _compared_with(each for each in (function, other) if each is not None)
        if other is not None:
            tests += [_span(path, before, each) for each in _tests_crossed(function, other)]
        pairs.append((scope_of(function), nothing if other is None else scope_of(other)))
        if other is not None and _defaults(function) != _defaults(other):
            once.append(_span(path, before, function, 1))
        if other is None or _declaration(other) != _declaration(function):
            declared.append(_span(path, before, function, 1))
        if other is not None and not _is_private(name) and not _accepts(other, function):
            takes.append(_span(path, before, function, 1))
        if other is not None and (
            (_parameters_read(function) - _parameters_read(other)) & _parameters(other)
            or settable & _attributes_read(function) - still_read
        ):
            unread.append(_span(path, before, function, 1))
    # what an operator does in its kernel is seen by those that call it where it is compiled
    pairs += [
        (nothing, scope_of(function))
        for name, function in later.items()
        if name not in earlier and all(map(_is_of_python, function.decorator_list))
    ]
    ahead, behind = map(scope_of, trees)
    for one, two in [*pairs, (ahead, behind)]:
        found = compared_of(one, two)
        tests += [_test_span(path, before, each) for each in found.tests]
        turned += [_test_span(path, before, each) for each in found.turned]
        added += [_test_span(path, after, each) for each in found.conditions]
        gone += [
            _span(path, before, _worked_out(each.node))
            for each in found.gone
            if not (one is ahead and _is_import(each))
        ]
        registered = [each.node for each in found.written if one is ahead and isinstance(each.node, ast.Expr)]
        new = [
            (_span(path, after, _worked_out(each.node)), each.arm)
            for each in found.written
            if not (one is ahead and _is_import(each)) and not any(_is_inside(each.node, other) for other in registered)
        ]
        written += [span for span, _ in new]
        compiled += [span for span, arm in new if arm is not None]
        differs = [*(each.part or each.node for each in (*found.tests, *found.conditions))]
        statements = [each.node for each in (*found.gone, *found.written)]
        numbers += _compared_with([*differs, *statements])
        strings += [text for node in (*differs, *statements) for text in _strings(node)]
        more += [number for node in (*differs, *statements) for number in _constants(node)]
        if one is ahead:
            known = {name for each in one.statements for name in _bound(each.node)} | {*earlier}
            once += [_span(path, before, each.node) for each in found.gone if _gives_value(each.node)]
            once += [
                _span(path, after, each.node)
                for each in found.written
                if _gives_value(each.node) and _reaches_others(each.node, known)
            ]
            numbers += [
                number
                for each in (*found.gone, *found.written)
                if isinstance(each.node, ast.Assign)
                for number in _numbers(each.node.value)
            ]
    return Changed(
        tuple(functions),
        _each(tests),
        _each(gone),
        _each(written),
        _each(turned),
        _each(added),
        _each(compiled),
        _each(once),
        _each(takes),
        _each(declared),
        _each(unread),
        (*[*dict.fromkeys((*numbers, *more, *around))][:NUMBERS], *[*dict.fromkeys(strings)][:STRINGS]),
    )


def _tests_crossed(one: ast.AST, two: ast.AST) -> Iterator[ast.expr]:
    """Return the tests in `one` that are kept in `two`, but decide other statements there: one that was behind the test
    runs always, or the other way round."""
    later = {ast.dump(test): branches for test, branches in _branches(two)}
    every = [Counter(ast.dump(each) for each in ast.walk(tree) if isinstance(each, ast.stmt)) for tree in (one, two)]
    for test, branches in _branches(one):
        for mine, others in zip(branches, later.get(ast.dump(test), branches), strict=True):
            outside = every[0] - mine, every[1] - others
            left, came = mine - others, others - mine
            if left & (outside[1] - outside[0]) or came & (outside[0] - outside[1]):
                yield test
                break


def _branches(tree: ast.AST) -> Iterator[tuple[ast.expr, tuple[Counter[str], Counter[str]]]]:
    """Yield each test with the statements that run if it is true, and those that run if it is false."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.While)):
            true, false = (
                Counter(ast.dump(each) for outer in block for each in ast.walk(outer) if isinstance(each, ast.stmt))
                for block in (node.body, node.orelse)
            )
            yield node.test, (true, false)


def _as_blocks(one: ast.Module, two: ast.Module) -> tuple[ast.Module, ast.Module]:
    """Return the trees of both texts. If `@torch.no_grad()` of a function in one is a block around its body in the
    other, both get that block, since they are equivalent."""
    around = f"{name_of_torch(one)}.no_grad()"
    first, second = dict(_functions(one)), dict(_functions(two))
    names = {
        name
        for name in first.keys() & second.keys()
        if _forms(first[name], around) ^ _forms(second[name], around) == {"decorator", "block"}
    }
    return (_with_blocks(one, names), _with_blocks(two, names)) if names else (one, two)


def _forms(node: ast.AST, context: str) -> frozenset[str]:
    """Return the context managers that are the only decorator of a function that is not a generator, or that are
    entered around the whole body of a function without decorators."""
    if not isinstance(node, ast.FunctionDef):
        return frozenset()
    body = node.body[int(ast.get_docstring(node) is not None) :]
    if not body or any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in ast.walk(node)):
        return frozenset()
    if [*map(ast.unparse, node.decorator_list)] == [context]:
        return frozenset({"decorator"})
    is_block = len(body) == 1 and isinstance(body[0], ast.With) and not node.decorator_list
    entered = [ast.unparse(item) for item in body[0].items] if isinstance(body[0], ast.With) else []
    return frozenset({"block"}) if is_block and entered == [context] else frozenset()


def _with_blocks(tree: ast.Module, names: Set[str]) -> ast.Module:
    tree = copy.deepcopy(tree)
    for name, node in _functions(tree):
        if name in names and node.decorator_list:
            first = int(ast.get_docstring(node) is not None)
            (entered,) = node.decorator_list
            block = ast.With([ast.withitem(entered)], node.body[first:])
            node.body[first:] = [ast.copy_location(block, entered)]
            node.decorator_list = []
    return tree


def _each(spans: Iterable[Span]) -> tuple[Span, ...]:
    return tuple(dict.fromkeys(spans))


def _is_inside(node: ast.AST, other: ast.AST) -> bool:
    """Return True if an expression is inside a statement. Functions passed to torch at import are called when code
    is compiled."""
    return isinstance(node, ast.expr) and any(each is node for each in ast.walk(other))


def _is_import(each: RunBlock) -> bool:
    return isinstance(each.node, _IMPORTS)


def _worked_out(node: ast.stmt | ast.expr) -> ast.stmt | ast.expr:
    """Yield the parts of it that are executed, perhaps later or never."""
    if isinstance(node, ast.Lambda):
        return node.body
    if isinstance(node, ast.DictComp):
        return node.value
    return node.elt if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)) else node


def _defaults(node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, str]:
    """Return the default values of parameters."""
    args = node.args
    positional = [*args.posonlyargs, *args.args]
    given = zip(positional[len(positional) - len(args.defaults) :], args.defaults, strict=True)
    named = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    return {arg.arg: _value_text(value) for arg, value in (*given, *named) if value is not None}


def _value_text(node: ast.expr) -> str:
    """Return equal text for expressions of the same number."""
    number = _folded(node)
    return ast.dump(node) if number is None else f"{type(number).__name__} {number!r}"


def _declaration(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Return a function's declaration apart from its body and parameters. Callers do not see whether it is excluded
    from compilation."""
    decorators = [each for each in map(ast.unparse, node.decorator_list) if not each.endswith("compiler.disable")]
    stored = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)}
    outer = [
        f"{type(each).__name__} {name}"
        for each in ast.walk(node)
        if isinstance(each, (ast.Global, ast.Nonlocal))
        for name in each.names
        if name in stored  # a name that is only read is found without it
    ]
    inner = [each for each in ast.walk(node) if isinstance(each, FUNCTIONS) and each is not node]
    defaults = [f"{name} = {value}" for each in inner for name, value in _defaults(each).items()]
    decorators = [each.replace("lru_cache(maxsize=None)", "cache") for each in decorators]
    return [type(node).__name__, *decorators, *sorted(outer), *defaults]


def _dumped(name: str, functions: Iterable[tuple[str, ast.AST]]) -> list[str]:
    return [ast.dump(function) for each, function in functions if each == name]


def _classes_otherwise(before: ast.Module, after: ast.Module) -> list[ast.ClassDef]:
    """Return classes of the first text that are gone, or have other bases, decorators or fields without a value."""
    others = Counter(map(_class_text, _classes(after)))
    return [each for each in _classes(before) if not others[_class_text(each)]]


def _classes(tree: ast.Module) -> list[ast.ClassDef]:
    return [each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)]


def _class_text(node: ast.ClassDef) -> str:
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign) and each.value is None]
    return " ".join([header_of(node), *map(ast.dump, fields)])


def _accepts(after: ast.FunctionDef | ast.AsyncFunctionDef, before: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True if `after` accepts every call that `before` accepts."""
    one, two = before.args, after.args
    in_order = [each.arg for each in (*one.posonlyargs, *one.args)]
    positional = [each.arg for each in (*two.posonlyargs, *two.args)]
    by_name = {each.arg for each in (*two.args, *two.kwonlyargs)}
    named = {each.arg for each in (*one.args, *one.kwonlyargs)}
    added = {*positional, *by_name} - {*in_order} - named
    return (
        (positional[: len(in_order)] == in_order or (two.vararg is not None and not positional))
        and (named <= by_name or two.kwarg is not None)
        and (one.vararg is None or two.vararg is not None)
        and (one.kwarg is None) == (two.kwarg is None)  # a name that is misspelt would be taken
        and added <= {*_defaults(after)}
    )


def _is_private(name: str) -> bool:
    """Return True if a function is private to its file, by its name."""
    last = name.rpartition(".")[2]
    return last.startswith("_") and not last.startswith("__")


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    taken = function.args
    return {each.arg for each in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)}


def _parameters_read(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the parameters that a function reads."""
    names = {
        node.id
        for statement in function.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    return names & _parameters(function)


_OF_PYTHON = frozenset(
    {"staticmethod", "classmethod", "property", "cache", "lru_cache", "cached_property", "wraps", "contextmanager"}
)


def _is_of_python(decorator: ast.expr) -> bool:
    """Return True if a decorator does not register the function with torch and leaves it to its callers."""
    return ast.unparse(decorator).partition("(")[0].removeprefix("functools.").removeprefix("contextlib.") in _OF_PYTHON


def _attributes_read(tree: ast.AST) -> set[str]:
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}


def _set_to_parameters(tree: ast.Module) -> set[str]:
    """Return the attributes of `self` that constructors set to one of their parameters."""
    return {
        target.attr
        for _, function in _functions(tree)
        if function.name == "__init__"
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
        if node.value.id in _parameters(function)
        for target in node.targets
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    }


def _gives_value(node: ast.AST) -> bool:
    """Return True if a statement that runs at import does more than import, or name a lambda."""
    if isinstance(node, (ast.expr, *_IMPORTS)):
        return False
    return not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda) and any(_bound(node)))


def _reaches_others(node: ast.AST, known: Iterable[str]) -> bool:
    """Return True if new code at import may affect existing code: not if it only assigns a name of its own, or
    registers something with torch."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return False
    names = list(_bound(node))
    return not names or any(name in known for name in names)


def _bound(node: ast.AST) -> Iterator[str]:
    """Return the names that an assignment binds, if it assigns nothing else."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        targets = [node.target]
    flat = [inner for each in targets for inner in (each.elts if isinstance(each, ast.Tuple) else [each])]
    if all(isinstance(each, ast.Name) for each in flat):
        yield from (each.id for each in flat if isinstance(each, ast.Name))


def _numbers(node: ast.AST) -> Iterator[float]:
    """Return the number that a constant expression evaluates to."""
    value = _folded(node)
    if value is not None and math.isfinite(value):
        yield value


_OPERATIONS: Mapping[type[ast.AST], Callable[..., float]] = MappingProxyType(
    {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.Div: operator.truediv,
        ast.FloorDiv: operator.floordiv,
        ast.Mod: operator.mod,
        ast.USub: operator.neg,
        ast.UAdd: operator.pos,
    }
)


def _folded(node: ast.AST) -> float | None:
    """Return the number that an expression evaluates to; None if it is not arithmetic of numbers alone."""
    if isinstance(node, ast.Constant):
        value = node.value
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    operands = (
        [_folded(node.operand)]
        if isinstance(node, ast.UnaryOp)
        else [_folded(node.left), _folded(node.right)]
        if isinstance(node, ast.BinOp)
        else []
    )
    known = _OPERATIONS.get(type(node.op)) if isinstance(node, (ast.UnaryOp, ast.BinOp)) else None
    if known is None or any(each is None for each in operands):
        return None
    try:
        return known(*operands)
    except (ArithmeticError, ValueError):
        return None


def _compared_with(nodes: Iterable[ast.AST]) -> Iterator[float]:
    """Return the numbers in comparisons, without zero, which is always tried."""
    for node in (each for outer in nodes for each in ast.walk(outer)):
        if isinstance(node, ast.Compare):
            for value in (node.left, *node.comparators):
                yield from (number for number in _numbers(value) if number)


def _strings(node: ast.AST) -> Iterator[str]:
    """Return the strings in comparisons and match statements, and the keys of dict displays."""
    for each in ast.walk(node):
        found: list[ast.AST | None] = []
        if isinstance(each, ast.Compare):
            found = [each.left, *each.comparators]
            found += [item for side in found if isinstance(side, (ast.Tuple, ast.List, ast.Set)) for item in side.elts]
        elif isinstance(each, ast.MatchValue):
            found = [each.value]
        elif isinstance(each, ast.Dict):
            found = [*each.keys]
        for constant in found:
            if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                yield constant.value


def _constants(node: ast.AST) -> Iterator[float]:
    """Return every number in an expression or statement, evaluated. Small whole ones are left out: they are tried
    anyway, as indices and sizes."""
    value = next(_numbers(node), None)
    if value is not None:
        if abs(value) > LEAST or value != int(value):
            yield float(value)
        return
    for child in ast.iter_child_nodes(node):
        yield from _constants(child)


def _functions(tree: ast.AST, around: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Return the functions of a module and of its classes, by qualified name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, FUNCTIONS):
            yield around + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{around}{node.name}.")
        elif isinstance(node, ast.stmt):
            yield from _functions(node, around)


def _test_span(path: str, source: Source, test: BranchTest) -> Span:
    return _span(path, source, test.node)


def _span(path: str, source: Source, node: ast.expr | ast.stmt, lines: int = 0) -> Span:
    """Return the location of a node, or of its first `lines`, if given."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    if lines:
        line = node.lineno + lines - 1
        return Span(path, node.lineno, 1, line, len(source.lines[line - 1]) + 1)
    return Span(
        path,
        node.lineno,
        source.column(node.lineno, node.col_offset),
        node.end_lineno,
        source.column(node.end_lineno, node.end_col_offset),
    )


class LineMap:
    """Maps lines of one text to those of another."""

    def __init__(self, before: str, after: str) -> None:
        blocks = SequenceMatcher(None, lines_of(before), lines_of(after), autojunk=False).get_opcodes()
        self._blocks = [(i1, i2, j1, j2, tag == "equal") for tag, i1, i2, j1, j2 in blocks]
        self._starts = [block[2] for block in self._blocks]

    def came_from(self, line: int) -> int | None:
        """Return the line (1-based) of the first text that became this one of the second; None if it is new."""
        at = bisect.bisect_right(self._starts, line - 1) - 1
        # an empty block starts where the next one does
        begin, _, first, last, same = self._blocks[at]
        return begin + line - first if same and first < line <= last else None

    def replaced_line(self, line: int) -> int:
        """Return the same; for a new line, the first of the lines that it replaces."""
        begin = self._blocks[bisect.bisect_right(self._starts, line - 1) - 1][0]
        return self.came_from(line) or begin + 1
