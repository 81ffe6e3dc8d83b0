"""Remove a lock around code that needs none in compiled code."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import libcst as cst
from tcready.fixes.rewriters.conditions import walk
from tcready.fixes.rewriters.messages import unknown_call
from tcready.fixes.rewriters.rewrites import Decline, Ways, expression, torch_of
from tcready.fixes.rewriters.statements import (
    NOT_PURE,
    effect_in,
    full_name,
    has_effect,
    imported_names,
    quote,
    text,
    values_given,
)
from tcready.static.diagnostics.cst_view import is_module
from tcready.static.diagnostics.rule import Change, Rewrite

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located

LOCKS = frozenset({"threading.Lock", "threading.RLock"})
WRITES = (
    "The block of the lock {}, and compiled code does that after the graph has run, without the lock. Keep the "
    "block out of the compiled code."
)


def is_lock(place: Located) -> bool:
    """Return True if a `with` enters a lock created in the file: in `__init__`, or at its top level."""
    made = [*_values(place)]
    known = imported_names(place.source.tree.body)
    return bool(made) and all(isinstance(each, ast.Call) and full_name(each.func, known) in LOCKS for each in made)


def rewrite_lock(place: Located) -> Ways:
    """Rewrite `with self.lock:` so that only eager code enters it, if what it guards is not written to."""
    item = place.piece.parents[place.node]
    block = place.piece.parents[item]
    torch = torch_of(place)
    known = imported_names(place.source.tree.body)
    name = next((own for own, full in known.items() if full == "contextlib"), "contextlib")
    if not isinstance(item, cst.WithItem) or not isinstance(block, cst.With) or item.asname is not None:
        raise Decline("The value of the lock is used (`as`). Enter the lock without `as`.")
    if name in place.piece.bound or (name == "contextlib" and not is_module(place.source, name)):
        raise Decline(f"The name `{name}` is assigned to something else here. Rename that.")
    fills = list(_fills(block.body))
    reason = _why_needed(place, block, fills)
    if reason is not None:
        raise Decline(reason)
    made = expression(f"{name}.nullcontext() if {torch[0]}.compiler.is_compiling() else lock", lock=place.node)
    unsafe = "compiled code does not wait for the holder of the lock"
    if fills:
        unsafe += ": two threads may fill at once what is filled there once"
    yield Rewrite(
        "Only eager code acquires the lock: what it guards is filled there once, or not written to at all",
        (Change((place.node,), (made,)),),
        unsafe,
        (*torch[1], *(() if name in known else ("import contextlib",))),
    )


def _values(place: Located) -> Iterator[ast.expr]:
    """Return the values that the file assigns to the name, or the attribute of self, that is entered."""
    node = place.node
    nodes: Iterable[ast.AST] = place.source.nodes
    if isinstance(node, cst.Attribute) and text(node.value) == "self":
        around = place.class_around
        nodes = () if around is None else ast.walk(around)
    elif not isinstance(node, cst.Name) or node.value in place.piece.bound:
        return
    yield from values_given(nodes, text(node))


def _why_needed(place: Located, block: cst.With, fills: list[cst.CSTNode]) -> str | None:
    """Return why the lock is needed in compiled code."""
    if (effect := effect_in(_without(block.body, fills))) is not None:
        return WRITES.format(f"runs {quote(effect)}")
    for each in fills:
        assert isinstance(each, cst.Assign)
        if (effect := effect_in(each.value)) is not None:
            return WRITES.format(f"runs {quote(effect)}")
    for call in _calls(block.body):
        if any(arg.keyword is not None and arg.keyword.value in ("out", "inplace") for arg in call.args):
            return WRITES.format(f"writes to an argument of {quote(call)}")
        method = text(call.func).removeprefix("self.")
        known = place.method(method) if text(call.func).startswith("self.") else None
        if known is not None and not any(
            has_effect(each) for each in walk(known[1].tree) if isinstance(each, cst.SimpleStatementLine)
        ):
            continue
        if unknown_call(call.with_changes(args=())) is not None:
            return (
                f"`{text(call.func)}` is called with the lock, and may write to what it protects. Call it outside "
                "of the compiled code."
            )
    return _written_elsewhere(place, block)


def _written_elsewhere(place: Located, block: cst.With) -> str | None:
    """Return what is read there, of self or of the module, and written by other code of the file."""
    tree = place.source.tree
    of_module = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    } - place.piece.bound
    read = {
        text(each)
        for each in walk(block.body)
        if (isinstance(each, cst.Attribute) and text(each.value) == "self")
        or (isinstance(each, cst.Name) and each.value in of_module)
    }
    first, last = place.piece.lines(block)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or function.name == "__init__":
            continue
        shared = {name for node in ast.walk(function) if isinstance(node, ast.Global) for name in node.names}
        for node in ast.walk(function):
            name = f"self.{node.attr}" if isinstance(node, ast.Attribute) else getattr(node, "id", None)
            if name not in read or first <= getattr(node, "lineno", first) <= last:
                continue
            is_local = isinstance(node, ast.Name) and name not in shared
            if _is_written(node, parents, is_local=is_local):
                return (
                    f"The block of the lock reads `{ast.unparse(node)}`, which `{function.name}` changes. Read it "
                    "before the compiled code."
                )
    return None


def _is_written(node: ast.AST, parents: dict[ast.AST, ast.AST], *, is_local: bool) -> bool:
    """Return True if an attribute or a name is assigned, or its content is changed in place."""
    if not isinstance(getattr(node, "ctx", None), ast.Load):
        return not is_local
    while isinstance(parent := parents[node], ast.Subscript) and parent.value is node:
        if not isinstance(parent.ctx, ast.Load):
            return True
        node = parent
    if not isinstance(parent, ast.Attribute):
        return False
    in_place = parent.attr.endswith("_") and not parent.attr.endswith("__")
    return not isinstance(parent.ctx, ast.Load) or parent.attr in NOT_PURE or in_place


def _calls(node: cst.CSTNode) -> Iterator[cst.Call]:
    for each in walk(node):
        if isinstance(each, cst.Call):
            yield each


def _fills(body: cst.BaseSuite) -> Iterator[cst.CSTNode]:
    """Return the assignments of an `if` that tests whether there is a value yet: `if n not in self.c: self.c[n] =
    ...`."""
    for branch in walk(body):
        if not isinstance(branch, cst.If) or branch.orelse is not None:
            continue
        missing = _missing_value(branch.test)
        for line in branch.body.body:
            for each in line.body if isinstance(line, cst.SimpleStatementLine) else ():
                if isinstance(each, cst.Assign) and all(text(t.target) == missing for t in each.targets):
                    yield each


def _missing_value(test: cst.BaseExpression) -> str | None:
    """Return what has no value yet if a test is true."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return None
    (target,) = test.comparisons
    if isinstance(target.operator, cst.Is) and text(target.comparator) == "None":
        return text(test.left)
    if isinstance(target.operator, cst.NotIn):
        return f"{text(target.comparator)}[{text(test.left)}]"
    return None


class _Left(cst.CSTTransformer):
    def __init__(self, taken: list[cst.CSTNode]) -> None:
        super().__init__()
        self.taken = taken

    def leave_Assign(  # noqa: N802
        self, original_node: cst.Assign, updated_node: cst.Assign
    ) -> cst.BaseSmallStatement:
        return cst.Pass() if any(original_node is each for each in self.taken) else updated_node


def _without(body: cst.BaseSuite, taken: list[cst.CSTNode]) -> cst.CSTNode:
    made = body.visit(_Left(taken))
    assert isinstance(made, cst.CSTNode)
    return made
