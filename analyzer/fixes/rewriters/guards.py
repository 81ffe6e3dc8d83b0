"""Rewrite checks that raise, an `if` that ends in `raise` and an `assert`, as assertions that stay in the graph."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import libcst as cst
from tcready.fixes.rewriters.conditions import (
    MIXED,
    Joined,
    Tree,
    as_tensor,
    in_python,
    is_of_python,
    is_of_tensor,
    opposite,
    overridable,
    owner_of,
    split_by_python,
    tree_of,
)
from tcready.fixes.rewriters.operators import raising_operator
from tcready.fixes.rewriters.rewrites import (
    Decline,
    Ways,
    expression,
    in_place_of,
    is_compiling,
    line_of,
    torch_of,
    where_compiled,
)
from tcready.fixes.rewriters.statements import block_of, else_of
from tcready.static.diagnostics.rule import Change, Rewrite

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located

Leaves = Callable[["Tree"], "list[cst.BaseStatement]"]

CAUGHT = (
    "A `try` around the check may catch its error, but an assertion in the graph raises later. Move the check "
    "out of it."
)
CAUGHT_THERE = (
    "A `try` in this file calls the function and may catch the error of the check, but an assertion in the graph raises "
    "later. Do the check in front of that `try`."
)
LATER = "on a GPU it is raised later than in eager code"


def rewrite_raise(place: Located) -> Ways:
    """Rewrite `if t: raise E(...)` as an assertion of the opposite."""
    branch = owner_of(place)
    if not isinstance(branch, cst.If):
        return
    raised, negated = _raised(branch.body), False
    if raised is None and isinstance(branch.orelse, cst.Else):
        raised, negated = _raised(branch.orelse.body), True
    if raised is None:
        return
    name, imports = torch_of(place)
    text, kind = _text(raised), _kind(raised)
    bad = _checked(place, branch, kind, negated)
    body = branch.orelse.body if negated and isinstance(branch.orelse, cst.Else) else branch.body
    after = block_of(branch.body) if negated else else_of(branch)
    if kind == "AssertionError" and isinstance(branch.body if not negated else body, cst.IndentedBlock):
        made = _required(opposite(bad), lambda part: [line_of(cst.Assert(as_tensor(place, name, part), text))], body)
        if made is not None:
            how = "The check becomes an `assert`, which Dynamo captures in the graph"
            unsafe = "the compiled model raises RuntimeError instead of AssertionError"
            yield Rewrite(how, (in_place_of(place, branch, (*made, *after)),), unsafe, imports)
    made = _required(opposite(bad), lambda part: [_asserted(name, as_tensor(place, name, part), text)], body)
    if made is None:
        raise Decline(MIXED)
    alone = Rewrite(
        "The check becomes an assertion inside the graph",
        (in_place_of(place, branch, (*made, *after)),),
        f"it raises RuntimeError{'' if kind == 'RuntimeError' else f' instead of {kind}'}; {LATER}",
        imports,
    )
    if kind == "RuntimeError":
        yield alone
        return
    as_it_is = cst.If(test=in_python(bad) if negated else branch.test, body=body)
    both = cst.If(test=is_compiling(name), body=cst.IndentedBlock(body=made), orelse=as_it_is)
    yield Rewrite(
        "In compiled code, the check becomes an assertion inside the graph",
        (in_place_of(place, branch, (both, *after)),),
        f"the compiled model raises RuntimeError instead of {kind}; {LATER}",
        imports,
        asserts=True,
    )
    yield alone
    operator = raising_operator(place, name, kind)
    if operator is not None:
        same = _required(opposite(bad), lambda part: [_called(operator[0], as_tensor(place, name, part), text)], body)
        assert same is not None
        graph = cst.If(test=is_compiling(name), body=cst.IndentedBlock(body=same), orelse=as_it_is)
        yield Rewrite(
            f"In compiled code, the check becomes a custom operator, which raises {kind} too",
            (in_place_of(place, branch, (graph, *after)),),
            "the compiled model writes no values into the message, and no backend looks into the operator",
            (*imports, *operator[1]),
        )


def rewrite_assert(place: Located) -> Ways:
    """Rewrite an `assert` that Dynamo does not put into the graph as one that it does."""
    found = owner_of(place)
    if not isinstance(found, cst.Assert):
        return
    name, imports = torch_of(place)
    line = place.statement
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        raise Decline("Another statement is on the line of the `assert`. Put the `assert` on a line of its own.")
    tree = _checked(place, found, "AssertionError")
    message = found.msg
    constant = message is None or (
        isinstance(message, (cst.SimpleString, cst.ConcatenatedString)) and not _is_made(message)
    )
    text = message if constant else _constant(message)

    def checks(part: Tree) -> list[cst.BaseStatement]:
        return [line_of(cst.Assert(in_python(part), message))]

    made = _required(tree, lambda part: [line_of(cst.Assert(as_tensor(place, name, part), text))], checks)
    if made is None:
        raise Decline(MIXED)
    if not constant:
        in_graph = _required(tree, lambda part: [_asserted(name, as_tensor(place, name, part), text)], checks)
        both = where_compiled(name, in_graph or made, line)
        yield Rewrite(
            "In compiled code, the check becomes an assertion inside the graph, with a message that is constant",
            (Change((line,), (both,)),),
            f"the compiled model raises RuntimeError instead of AssertionError, and no values in its message; {LATER}",
            imports,
        )
    lost = "" if constant else ", and no values are in its message"
    yield Rewrite(
        "The check becomes an `assert` of one tensor, which Dynamo captures in the graph",
        (Change((line,), tuple(made)),),
        f"the compiled model raises RuntimeError instead of AssertionError{lost}",
        imports,
    )


def _checked(place: Located, check: cst.If | cst.Assert, kind: str, negated: bool = False) -> Tree:
    """Return the test of a check that raises `kind`. Raises Decline if code may catch that, or an operand may be no
    tensor."""
    if _in_try(place, check):
        raise Decline(CAUGHT)
    if _tried_by_callers(place, kind):
        raise Decline(CAUGHT_THERE)
    tree = tree_of(place, check.test, negated)
    if (why := overridable(place, tree)) is not None:
        raise Decline(why)
    return tree


def _required(tree: Tree, of_tensor: Leaves, of_python: Leaves | cst.BaseSuite) -> list[cst.BaseStatement] | None:
    """Return statements that raise unless a test is true; None if tensors and Python values are mixed too much.

    `of_python`: what checks a part that Python decides, or the block that raises.
    """
    if is_of_tensor(tree):
        return of_tensor(tree)
    if is_of_python(tree):
        if callable(of_python):
            return of_python(tree)
        return [cst.If(test=in_python(opposite(tree)), body=of_python)]
    assert isinstance(tree, Joined)
    if tree.every:
        found: list[cst.BaseStatement] = []
        for part in tree.parts:
            made = _required(part, of_tensor, of_python)
            if made is None:
                return None
            found += made
        return found
    # `p or t`: where Python's part is false, the tensors' must be true
    parts = split_by_python(opposite(tree))
    if parts is None or parts[0] is None:
        return None
    return [cst.If(test=parts[0], body=cst.IndentedBlock(body=of_tensor(opposite(parts[1]))))]


def _raised(body: cst.BaseSuite) -> cst.Raise | None:
    """Return the `raise` that ends a block, if nothing before it leaves or changes anything but local names."""
    lines = body.body
    last = lines[-1] if lines else None
    if isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    if not isinstance(last, cst.Raise) or last.exc is None:
        return None
    for line in lines[:-1]:
        parts = line.body if isinstance(line, cst.SimpleStatementLine) else (line,)
        for part in parts:
            if not isinstance(part, cst.Assign) or not all(isinstance(t.target, cst.Name) for t in part.targets):
                return None
    return last


def _kind(raised: cst.Raise) -> str:
    """Return the name of the class."""
    made = raised.exc.func if isinstance(raised.exc, cst.Call) else raised.exc
    if isinstance(made, cst.Attribute):
        return made.attr.value
    return made.value if isinstance(made, cst.Name) else "the exception"


def _text(raised: cst.Raise) -> cst.BaseExpression | None:
    if not isinstance(raised.exc, cst.Call) or not raised.exc.args:
        return None
    return _constant(raised.exc.args[0].value)


def _is_made(text: cst.BaseExpression) -> bool:
    """Return True if a part of a text is computed."""
    if isinstance(text, cst.ConcatenatedString):
        return _is_made(text.left) or _is_made(text.right)
    return isinstance(text, cst.FormattedString)


def _constant(text: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """Return a message without its computed parts; None if it has no constant text."""
    if isinstance(text, (cst.SimpleString, cst.ConcatenatedString)) and not _is_made(text):
        return text
    if isinstance(text, cst.BinaryOperation) and isinstance(text.operator, cst.Modulo):
        return _constant(text.left)
    if isinstance(text, cst.Call) and isinstance(text.func, cst.Attribute) and text.func.attr.value == "format":
        return _constant(text.func.value)
    if text is None or not _is_made(text):
        return None
    words = re.sub(r"\s+", " ", _words(text)).strip()
    return cst.SimpleString(repr(words) if '"' in words or "\\" in words else f'"{words}"')


def _words(text: cst.BaseExpression) -> str:
    if isinstance(text, cst.ConcatenatedString):
        return _words(text.left) + _words(text.right)
    if isinstance(text, cst.FormattedString):
        return "".join(
            part.value.replace("{{", "{").replace("}}", "}") if isinstance(part, cst.FormattedStringText) else "..."
            for part in text.parts
        )
    value = text.evaluated_value if isinstance(text, cst.SimpleString) else ""
    return value if isinstance(value, str) else ""


def _in_try(place: Located, node: cst.CSTNode) -> bool:
    """Return True if a `try` with an `except` is around it in the same function."""
    parents = place.piece.parents
    while node in parents and not isinstance(node, cst.FunctionDef):
        parent = parents[node]
        if isinstance(parent, (cst.Try, cst.TryStar)) and parent.handlers and node is parent.body:
            return True
        node = parent
    return False


def _tried_by_callers(place: Located, kind: str) -> bool:
    """Return True if a `try` of this file that catches such an exception calls the function around, by name,
    directly or through functions of the file."""
    line = place.piece.lines(place.node)[0]
    functions: dict[str, list[ast.AST]] = {}
    around = ""
    tried: list[ast.AST] = []
    for node in place.source.nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            functions.setdefault(node.name, []).append(node)
            if node.lineno <= line <= (node.end_lineno or 0):
                around = node.name  # the innermost comes last
        elif isinstance(node, ast.Try) and any(_catches(each, kind) for each in node.handlers):
            tried += node.body
    seen: set[str] = set()
    while tried:
        for node in ast.walk(tried.pop()):
            func = node.func if isinstance(node, ast.Call) else None
            name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
            if name in functions and name not in seen:
                seen.add(name)
                tried += functions[name]
    return around in seen


def _catches(handler: ast.ExceptHandler, kind: str) -> bool:
    """Return True if it may catch an exception of that name, or that of an assertion in the graph."""
    if handler.type is None:
        return True
    raised = [getattr(builtins, name, None) for name in (kind, "RuntimeError")]
    for each in handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]:
        caught = getattr(builtins, each.id, None) if isinstance(each, ast.Name) else None
        if not isinstance(caught, type):
            return True
        if any(not isinstance(one, type) or issubclass(one, caught) for one in raised):
            return True
    return False


def _asserted(torch: str, test: cst.BaseExpression, text: cst.BaseExpression | None) -> cst.BaseStatement:
    if text is None:
        made = expression(f"{torch}._assert_async(a)", a=test)
    else:
        made = expression(f"{torch}._assert_async(a, b)", a=test, b=text)
    return line_of(cst.Expr(made))


def _called(operator: str, test: cst.BaseExpression, text: cst.BaseExpression | None) -> cst.BaseStatement:
    made = expression(f"{operator}(a, b)", a=test, b=text or cst.SimpleString('""'))
    return line_of(cst.Expr(made))
