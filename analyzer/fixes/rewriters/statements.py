"""Reads, bindings and effects of statements."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import libcst as cst
from tcready.fixes.rewriters.conditions import walk

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import CstRegion, Located
    from tcready.static.frontend.source import Source


def text(node: cst.CSTNode) -> str:
    """Return the source text without differences in blanks and parentheses."""
    code = cst.Module([]).code_for_node(node)
    try:
        return ast.unparse(ast.parse(f"({code})", mode="eval"))
    except SyntaxError:
        return code


def imported_names(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Return the full names of imported modules and members by the file's own names: of the imports among these
    nodes."""
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return found


def full_name(node: ast.expr, known: Mapping[str, str]) -> str:
    """Return the full name of a module's function; `known` has the full names of the file's imports by their own
    names."""
    first, dot, rest = ast.unparse(node).partition(".")
    return f"{known.get(first, first)}{dot}{rest}"


def assignments(source: Source) -> tuple[ast.Assign | ast.AnnAssign, ...]:
    """Return the assignments of a file, for `Source.derive`."""
    return tuple(node for node in source.nodes if isinstance(node, (ast.Assign, ast.AnnAssign)))


def values_given(
    nodes: Iterable[ast.AST], written: str | None, kinds: tuple[type[ast.Assign | ast.AnnAssign], ...] = (ast.Assign,)
) -> Iterator[ast.expr]:
    """Yield the values that assignments of these kinds give the target with the text `written`."""
    last = (written or "").rpartition(".")[2]
    for node in nodes:
        if isinstance(node, kinds) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(_is_written(target, written, last) for target in targets):
                yield node.value


def _is_written(target: ast.expr, written: str | None, last: str) -> bool:
    """Return True if a target has this text, with the last part `last`; formatting each target would take long."""
    if isinstance(target, ast.Name):
        return target.id == written
    if isinstance(target, ast.Attribute) and target.attr != last:
        return False
    return ast.unparse(target) == written


def is_torch(node: cst.BaseExpression) -> bool:
    return text(node) in ("torch", "F", "nn.functional", "torch.nn.functional", "torch.special", "torch.linalg")


NOT_PURE = frozenset({"print", "append", "extend", "update", "pop", "insert", "remove", "clear", "setdefault", "warn"})


RANDOM = frozenset(
    """
    alpha_dropout bernoulli dropout exponential feature_dropout gumbel_softmax multinomial normal poisson rand rand_like
    randint randint_like randn randn_like random randperm uniform
    """.split()
)
"""Functions of torch that draw random numbers, also in place."""
QUOTED = 50
"""The most characters of code that a message quotes."""


def quote(node: cst.CSTNode) -> str:
    """Return code for a message, on one line."""
    code = " ".join(text(node).split())
    return f"`{code if len(code) <= QUOTED else code[: QUOTED - 3] + '...'}`"


def describe_effect(node: cst.CSTNode) -> str:
    """Quote code that has, or may have, an effect, and name the effect."""
    code = quote(node)
    if isinstance(node, cst.Call):
        name = text(node.func).rpartition(".")[2]
        in_place = name.endswith("_") and not name.endswith("__")
        if name.rstrip("_") in RANDOM:
            return f"{code} draws random numbers" + (" into a tensor" if in_place else "")
        if in_place:
            return f"{code} changes a tensor in place"
        return f"{code} has a side effect" if name in NOT_PURE else f"{code} may have a side effect"
    if isinstance(node, (cst.Assign, cst.AugAssign, cst.AnnAssign)):
        targets = [each.target for each in node.targets] if isinstance(node, cst.Assign) else [node.target]
        if any(isinstance(each, cst.Subscript) for each in targets):
            return f"{code} writes to a part of an object"
        if isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Name):
            return f"{code} may change a tensor in place"
        return f"{code} sets an attribute"
    if isinstance(node, cst.NamedExpr):
        return f"{code} assigns a name within an expression"
    return f"{code} may have a side effect"


def has_effect(node: cst.CSTNode) -> bool:
    """Return True if it writes to anything but local names, as far as its form shows."""
    return effect_in(node) is not None


def effect_in(node: cst.CSTNode, in_place: bool = False) -> cst.CSTNode | None:
    """Return the first code in it that has such an effect. `in_place`: names may be changed so."""
    for each in walk(node):
        if isinstance(each, (cst.Await, cst.Yield, cst.NamedExpr, cst.Raise, cst.Global, cst.Nonlocal, cst.Del)):
            return each
        if isinstance(each, (cst.Assign, cst.AugAssign, cst.AnnAssign)):
            targets = [t.target for t in each.targets] if isinstance(each, cst.Assign) else [each.target]
            for target in targets:
                if any(isinstance(inner, (cst.Attribute, cst.Subscript)) for inner in walk(target)):
                    return each
            if isinstance(each, cst.AugAssign) and not in_place:
                return each
        if isinstance(each, cst.Call):
            name = text(each.func).rpartition(".")[2]
            if name in NOT_PURE or (name.endswith("_") and not name.endswith("__")):
                return each
    return None


def block_of(suite: cst.BaseSuite) -> tuple[cst.BaseStatement, ...]:
    if isinstance(suite, cst.IndentedBlock):
        return tuple(suite.body)
    assert isinstance(suite, cst.SimpleStatementSuite)
    return (cst.SimpleStatementLine(suite.body),)


def else_of(branch: cst.If) -> tuple[cst.BaseStatement, ...]:
    if branch.orelse is None:
        return ()
    return block_of(branch.orelse.body) if isinstance(branch.orelse, cst.Else) else (branch.orelse,)


def rest_of(place: Located, branch: cst.If) -> tuple[cst.BaseStatement, ...]:
    """Return the statements after it in its block."""
    block = place.piece.parents.get(branch)
    body = block.body if isinstance(block, (cst.IndentedBlock, cst.Module)) else ()
    position = next((i for i, each in enumerate(body) if each is branch), len(body))
    return tuple(body[position + 1 :])


def ends_in_return(statements: Sequence[cst.BaseStatement]) -> bool:
    last = statements[-1] if statements else None
    if isinstance(last, cst.If):
        return ends_in_return(block_of(last.body)) and ends_in_return(else_of(last))
    return isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Return)


def times_read(node: cst.CSTNode, name: str) -> int:
    """Return how often a name (`x`, `self.x`) is read in it."""
    if "." in name:
        return sum(isinstance(each, cst.Attribute) and text(each) == name for each in walk(node))
    found = 0
    pending = [node]
    while pending:
        each = pending.pop()
        if isinstance(each, cst.Name):
            found += each.value == name
        elif isinstance(each, (cst.Attribute, cst.Arg)):
            pending.append(each.value)
        else:
            pending += each.children
    return found


def names_written(statements: Iterable[cst.CSTNode]) -> set[str]:
    """Return names of tensors that statements write into."""
    found: set[str] = set()
    for node in (each for statement in statements for each in walk(statement)):
        targets: list[cst.CSTNode] = [t.target for t in node.targets] if isinstance(node, cst.Assign) else []
        if isinstance(node, cst.AugAssign):
            targets = [node.target]
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value.endswith("_"):
            targets = [node.func.value]
        for target in targets:
            of = target
            while isinstance(of, cst.Subscript):
                of = of.value
            found.add(text(of))
    return found


def assigned_in(statements: Iterable[cst.CSTNode]) -> set[str]:
    """Return names and attributes of self that are assigned."""
    found: set[str] = set()
    for statement in statements:
        for node in walk(statement):
            targets: list[cst.CSTNode] = []
            if isinstance(node, cst.Assign):
                targets = [t.target for t in node.targets]
            elif isinstance(node, (cst.AugAssign, cst.AnnAssign, cst.For, cst.NamedExpr, cst.CompFor)):
                targets = [node.target]
            elif isinstance(node, cst.AsName):
                targets = [node.name]
            for target in targets:
                pending = [target]
                while pending:
                    each = pending.pop()
                    if isinstance(each, cst.Name):
                        found.add(each.value)
                    elif isinstance(each, cst.Attribute):
                        found.add(text(each))
                    elif not isinstance(each, cst.Subscript):
                        pending += each.children
    return found


def may_read(place: Located, branch: cst.If | cst.While, node: cst.Name) -> bool:
    """Return True if a name at a place may have the value from a branch: not as an attribute or an assignment
    target, nor after an assignment on every path to it."""
    parents = place.piece.parents
    if _is_attribute_name(place, node) or isinstance(parents.get(node), cst.AssignTarget):
        return False
    around = {id(each) for each in (branch, *upwards(place.piece, branch))}
    if any(each is branch for each in upwards(place.piece, node)):
        return True
    inside: cst.CSTNode = node
    for parent in upwards(place.piece, node):
        if isinstance(parent, cst.IndentedBlock):
            position = next((i for i, each in enumerate(parent.body) if each is inside), 0)
            for each in reversed(parent.body[:position]):
                if id(each) in around:
                    return True
                if isinstance(each, cst.SimpleStatementLine) and node.value in assigned_in([each]):
                    return False
        inside = parent
    return True


def upwards(piece: CstRegion, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield what is around a node, innermost first."""
    while node in piece.parents:
        node = piece.parents[node]
        yield node


def _is_attribute_name(place: Located, node: cst.Name) -> bool:
    parent = place.piece.parents.get(node)
    return (isinstance(parent, cst.Attribute) and parent.attr is node) or (
        isinstance(parent, cst.Arg) and parent.keyword is node
    )


def is_bound(place: Located, branch: cst.CSTNode, name: str) -> bool:
    """Return True if a name has a value before the branch: a parameter, or assigned above it in a block around it."""
    if "." in name:
        return True
    node: cst.CSTNode = branch
    parents = place.piece.parents
    while node in parents:
        parent = parents[node]
        if isinstance(parent, (cst.IndentedBlock, cst.Module)):
            for each in parent.body:
                if each is node:
                    break
                if isinstance(each, cst.SimpleStatementLine) and name in assigned_in([each]):
                    return True
                if isinstance(each, cst.With) and name in assigned_in([each]):
                    return True
                if isinstance(each, cst.If) and _on_all_sides(each, name):
                    return True
        if isinstance(parent, cst.For) and name in assigned_in([parent.with_changes(body=cst.IndentedBlock([]))]):
            return True
        if isinstance(parent, cst.FunctionDef):
            return any(isinstance(each, cst.Param) and each.name.value == name for each in walk(parent.params))
        node = parent
    return False


def is_none_before(place: Located, branch: cst.CSTNode, name: str) -> bool:
    """Return True if the assignment above the branch sets a name to None."""
    inside = branch
    for parent in upwards(place.piece, branch):
        if isinstance(parent, cst.IndentedBlock):
            position = next((i for i, each in enumerate(parent.body) if each is inside), 0)
            for each in reversed(parent.body[:position]):
                if name in assigned_in([each]):
                    values = last_values([each]) if isinstance(each, cst.SimpleStatementLine) else {}
                    value = values.get(name)
                    return value is not None and text(value) == "None"
        inside = parent
    return False


def _on_all_sides(branch: cst.If, name: str) -> bool:
    if not any(name in assigned_in([each]) for each in block_of(branch.body)):
        return False
    if isinstance(branch.orelse, cst.If):
        return _on_all_sides(branch.orelse, name)
    return isinstance(branch.orelse, cst.Else) and name in assigned_in(block_of(branch.orelse.body))


def last_values(side: Sequence[cst.BaseStatement]) -> dict[str, cst.BaseExpression | None]:
    found: dict[str, cst.BaseExpression | None] = dict.fromkeys(assigned_in(side))
    for statement in side:
        for part in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            if isinstance(part, cst.Assign) and isinstance(part.targets[0].target, cst.Name):
                found[part.targets[0].target.value] = part.value
    return found


def is_read_after(place: Located, branch: cst.If | cst.While, name: str) -> bool:
    """Return True if a name is read outside of the branch, after it or, in a loop, before it."""
    within = {id(each) for each in walk(branch)}
    end = place.piece.positions[branch].end
    in_loop = any(isinstance(each, (cst.For, cst.While)) for each in upwards(place.piece, branch))
    for each in place.piece.parents:
        if isinstance(each, cst.Name) and each.value == name and id(each) not in within:
            if each not in place.piece.positions or not may_read(place, branch, each):
                continue
            start = place.piece.positions[each].start
            if in_loop or (start.line, start.column) >= (end.line, end.column):
                return True
    return False
