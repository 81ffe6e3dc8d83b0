"""Write the fake kernel of an operator that is implemented in Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst
from tcready.fixes.rewriters.conditions import walk
from tcready.fixes.rewriters.rewrites import Decline, Ways, torch_of
from tcready.fixes.rewriters.statements import text
from tcready.static.diagnostics.cst_view import first_line
from tcready.static.diagnostics.rule import Change, Rewrite

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located

ASKING = frozenset(
    """
    item tolist numpy data_ptr nonzero argwhere masked_select unique unique_consecutive bincount repeat_interleave equal
    allclose is_nonzero to_sparse storage untyped_storage from_numpy from_dlpack as_tensor tensor frombuffer
    """.split()
)
"""Functions that need the data of a tensor, or return a tensor with data."""
PLAIN = (
    ast.BinOp, ast.UnaryOp, ast.Compare, ast.Name, ast.Constant, ast.Attribute, ast.Call, ast.keyword, ast.Tuple,
    ast.List, ast.Starred, ast.operator, ast.unaryop, ast.cmpop, ast.expr_context,
)  # fmt: skip
SEEN = "With `--verify`, tcready derives a fake kernel from observed calls."
NOT_SEEN = f"The implementation of the operator is not in this file. {SEEN}"
NEEDS_DATA = f"The implementation of the operator may read data, or may return its argument. {SEEN}"


@dataclass(frozen=True)
class _Kernel:
    """An implementation of an operator, and the statement that registers it."""

    function: ast.Lambda | ast.FunctionDef
    registered: ast.stmt


def fake_kernel(place: Located) -> Ways:
    """Return the fake kernel for `torch.ops.ns.op(x)` with an implementation registered in the file, or for a call
    of a `custom_op`: the same function computes the shape."""
    if not isinstance(place.node, cst.Call):
        return
    torch = torch_of(place)
    called = text(place.node.func)
    parts = called.split(".")
    if parts[:2] == [torch[0], "ops"] and len(parts) >= 4 and parts[4:] in ([], ["default"]):
        name = "::".join(parts[2:4])
        kernel = next(_kernels(place.source.tree, name, torch[0]), None)
    elif len(parts) == 1:
        name, kernel = called, _made(place.source.tree, called)
    else:
        return
    if kernel is None:
        raise Decline(NOT_SEEN)
    if not _needs_no_data(kernel.function, torch[0]):
        raise Decline(NEEDS_DATA)
    first = first_line(kernel.registered)
    piece = place.file.piece(first)
    lines = [] if piece is None else [n for n in walk(piece.tree) if isinstance(n, cst.BaseStatement)]
    line = next((each for each in lines if piece is not None and piece.lines(each)[0] == first), None)
    if line is None or (isinstance(line, cst.SimpleStatementLine) and len(line.body) != 1):
        raise Decline(
            "The implementation of the operator shares its line with other statements. Put each on its own line."
        )
    statement = (
        _defined_twice(line, name)
        if name == called and isinstance(line, cst.FunctionDef)
        else _registered_twice(line, kernel.function, f'{torch[0]}.library.register_fake("{name}"')
    )
    yield Rewrite(
        "The implementation also computes the shape, so it is registered as the fake kernel of its operator",
        (Change((line,), statement, piece),),
        "only a run shows how its implementation behaves with fake tensors",
    )


def _registered_twice(
    line: cst.BaseStatement, function: ast.Lambda | ast.FunctionDef, register: str
) -> tuple[cst.BaseStatement, ...]:
    """Return the statement that registers an implementation, with the same as a fake kernel."""
    if isinstance(line, cst.FunctionDef):  # `torch.library.impl` may leave None of what it decorates
        return (line.with_changes(decorators=[*line.decorators, cst.Decorator(cst.parse_expression(f"{register})"))]),)
    code = ast.unparse(function) if isinstance(function, ast.Lambda) else function.name
    return line, cst.parse_statement(f"{register}, {code})")


def _defined_twice(line: cst.FunctionDef, name: str) -> tuple[cst.BaseStatement, ...]:
    """Return the function of an operator, and the same again as its fake kernel."""
    fake = line.with_changes(
        name=cst.Name(f"fake_{name}"),
        decorators=[cst.Decorator(cst.parse_expression(f"{name}.register_fake"))],
        leading_lines=[cst.EmptyLine(indent=False)] * 2,
    )
    return line, fake


def _made(tree: ast.Module, name: str) -> _Kernel | None:
    """Return the top-level function from which `custom_op` made an operator."""
    for each in tree.body:
        if isinstance(each, ast.FunctionDef) and each.name == name:
            made = [ast.unparse(d.func) for d in each.decorator_list if isinstance(d, ast.Call)]
            if len(made) == len(each.decorator_list) == 1 and made[0].rpartition(".")[2] == "custom_op":
                return _Kernel(each, each)
    return None


def _kernels(tree: ast.Module, name: str, torch: str) -> Iterator[_Kernel]:
    """Return the top-level functions of the file that it registers as an implementation of the operator."""
    space, _, short = name.partition("::")
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    libraries = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == f"{torch}.library.Library"
        and node.value.args
        and ast.unparse(node.value.args[0]) == repr(space)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def names(call: ast.Call) -> bool:
        """Return True if `impl(...)` is of the operator."""
        given = [ast.unparse(each) for each in call.args[:2]]
        func = ast.unparse(call.func)
        if func == f"{torch}.library.impl":
            of_library = len(given) == 2 and given[0] in libraries and given[1] == repr(short)
            return of_library or given[:1] == [repr(name)]
        owner, _, method = func.rpartition(".")
        return method == "impl" and owner in libraries and given[:1] == [repr(short)]

    for statement in _statements(tree.body):
        if isinstance(statement, ast.FunctionDef):
            if any(isinstance(each, ast.Call) and names(each) for each in statement.decorator_list):
                yield _Kernel(statement, statement)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and names(statement.value):
            for each in statement.value.args:
                if isinstance(each, ast.Lambda):
                    yield _Kernel(each, statement)
                elif isinstance(each, ast.Name) and each.id in functions:
                    yield _Kernel(functions[each.id], statement)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the top-level statements, including those below an `if`."""
    for each in body:
        yield each
        if isinstance(each, ast.If):
            yield from _statements(each.body)


def _needs_no_data(function: ast.Lambda | ast.FunctionDef, torch: str) -> bool:
    """Return True if it does nothing but arithmetic and calls of torch, by its form: no branch, no item, no in-place
    work, and no return of its own argument."""
    if isinstance(function, ast.Lambda):
        return not isinstance(function.body, ast.Name) and _is_plain(function.body, torch, _parameters(function))
    known = _parameters(function)
    for number, each in enumerate(function.body):
        is_text = isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
        if number == 0 and is_text:
            continue
        if isinstance(each, ast.Return):
            own = isinstance(each.value, ast.Name) and each.value.id in _parameters(function)
            return each.value is not None and not own and _is_plain(each.value, torch, known)
        if not isinstance(each, ast.Assign) or not all(isinstance(t, ast.Name) for t in each.targets):
            return False
        if not _is_plain(each.value, torch, known):
            return False
        known |= {t.id for t in each.targets if isinstance(t, ast.Name)}
    return False


def _parameters(function: ast.Lambda | ast.FunctionDef) -> set[str]:
    args = function.args
    return {each.arg for each in (*args.posonlyargs, *args.args, *args.kwonlyargs)}


def _is_plain(value: ast.expr, torch: str, known: set[str]) -> bool:
    for node in ast.walk(value):
        if not isinstance(node, PLAIN):
            return False
        if isinstance(node, ast.Name) and node.id not in known | {torch, "F", "math"}:
            return False
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if not name or name in ASKING or name.endswith("_") or ast.unparse(node.func).startswith(f"{torch}.ops"):
                return False
    return True
