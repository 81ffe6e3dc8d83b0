"""Extract statements of a function into a compiled function, if that is mechanical.

If inputs and outputs are not certain, there are no edits. The lines are moved unchanged.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterable
from dataclasses import field

from tcready.merge.source_lines import Code, SourceFunction
from tcready.schema.edit import Edit

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_LATE = (*_SCOPES, ast.GeneratorExp)
"""Nodes that may read a name after it was rebound."""
_NOT_MOVED: tuple[type[ast.AST], ...] = (
    *_LATE,
    ast.Return,
    ast.Yield,
    ast.YieldFrom,
    ast.Await,
    ast.AsyncFor,
    ast.AsyncWith,
    ast.With,
    ast.Try,
    getattr(ast, "TryStar", ast.Try),  # from Python 3.11 on
    ast.Delete,
    ast.Import,
    ast.ImportFrom,
    ast.NamedExpr,
)
_NEVER = (ast.Global, ast.Nonlocal, ast.Match)
"""Nothing is extracted from a function that contains one of these."""
_BY_FRAME = frozenset({"locals", "vars", "dir", "eval", "exec"})
"""The results of these depend on the names in the function around them."""
_UNBOUND = frozenset({"staticmethod", "classmethod"})


def extraction(path: str, function: SourceFunction, begin: int, end: int, code: Code) -> tuple[Edit, ...]:
    """Return the edits that extract the statements `begin` to `end` (one past the last) of a function's body; empty
    if that is not mechanical."""
    statements = function.node.body[begin:end]
    flow = _flow(function, begin, end) if _is_movable(function, statements) else None
    first, last = statements[0].lineno, statements[-1].end_lineno or statements[-1].lineno
    name = f"_{function.node.name.strip('_')}_lines_{first}_{last}"
    alone = _alone_on_lines(statements, code.line(path, first), code.line(path, last))
    if flow is None or not alone or name in code.text(path) or not _has_torch(path, function, code):
        return ()
    inputs, outputs = flow
    owner = _owner(function)
    if owner is not None:
        inputs = [owner, *(name for name in inputs if name != owner)]
    line_end = found[0] if (found := re.search(r"\r\n|\r|\n", code.text(path))) else "\n"
    outer, inner = _indent(code.line(path, function.line)), _indent(code.line(path, first))
    new = [
        f"{outer}@torch.compile",
        f"{outer}def {name}({', '.join(inputs)}):",
        *(code.line(path, line) for line in range(first, last + 1)),
        *([f"{inner}return {', '.join(outputs)}"] if outputs else []),
        *([""] if outer else ["", ""]),
    ]
    called = f"{owner}.{name}({', '.join(inputs[1:])})" if owner else f"{name}({', '.join(inputs)})"
    result = f"{', '.join(outputs)} = " if outputs else ""
    above = function.first
    while code.line(path, above - 1).lstrip().startswith("#"):
        above -= 1
    return (
        Edit(path, above, 1, above, 1, "".join(line + line_end for line in new)),
        Edit(path, first, 1, last, len(code.line(path, last)) + 1, f"{inner}{result}{called}"),
    )


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _owner(function: SourceFunction) -> str | None:
    """Return the name of a method's object; None for a plain function."""
    parameters = function.node.args
    named = [*parameters.posonlyargs, *parameters.args]
    return named[0].arg if function.owners and named else None


def _is_movable(function: SourceFunction, statements: Iterable[ast.stmt]) -> bool:
    node = function.node
    inside = [*ast.walk(node)]
    decorators = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
    return (
        all(isinstance(owner, ast.ClassDef) for owner in function.owners)
        and not (function.owners and (_owner(function) is None or decorators & _UNBOUND))
        and not getattr(node, "type_params", ())
        and not any(isinstance(each, _NEVER) for each in inside)
        and not any(isinstance(each, ast.Name) and each.id in _BY_FRAME for each in inside)
        and not any(isinstance(each, _NOT_MOVED) for statement in statements for each in ast.walk(statement))
    )


def _alone_on_lines(statements: list[ast.stmt], first: str, last: str) -> bool:
    """Return True if nothing else is on the first and the last line, by their text."""
    before = first.encode()[: statements[0].col_offset]
    after = last.encode()[statements[-1].end_col_offset :].strip()
    return not before.strip() and (not after or after.startswith(b"#"))


def _has_torch(path: str, function: SourceFunction, code: Code) -> bool:
    """Return True if `import torch` is at the top of the module, above the function."""
    return any(
        isinstance(statement, ast.Import)
        and statement.lineno < function.first
        and any(alias.name == "torch" and alias.asname in (None, "torch") for alias in statement.names)
        for statement in code.tree(path).body
    )


def _flow(function: SourceFunction, begin: int, end: int) -> tuple[list[str], list[str]] | None:
    """Return the names that are inputs, and those that are outputs; None if that is not certain."""
    body = function.node.body
    before, inside, after = (_names(part) for part in (body[:begin], body[begin:end], body[end:]))
    bound = _surely(body[:begin])
    if bound is None:
        return None
    parameters = {each.arg for each in ast.walk(function.node.args) if isinstance(each, ast.arg)}
    bound |= parameters
    maybe = parameters | before.bound.keys()
    local = {*maybe, *inside.bound, *after.bound}
    own: set[str] = set()
    read: dict[str, None] = {}
    for statement in body[begin:end]:
        read |= dict.fromkeys(name for name in _names([statement]).read if name in local and name not in own)
        more = _surely([statement])
        if more is None:
            return None
        own |= more
    outputs = [name for name in inside.bound if name in after.read]
    inputs = [name for name in read if name in maybe]
    # What is bound on some ways only keeps its value on the others.
    inputs += [name for name in outputs if name not in own and name not in inputs]
    never_bound = any(name not in maybe and name not in inside.bound for name in read)
    unsure = (before.unsure | after.unsure) & {*inputs, *inside.bound}
    rebound = _owner(function) in {*before.bound, *inside.bound, *after.bound}
    late = before.late & inside.bound.keys()
    if never_bound or unsure or rebound or late or not bound.issuperset(inputs):
        return None
    return inputs, outputs


@dataclasses.dataclass
class _Names:
    """Names that some statements read and bind in their function, in order."""

    read: dict[str, None] = field(default_factory=dict)
    bound: dict[str, None] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)
    """Read by a function, a class or a generator that is created there."""
    unsure: set[str] = field(default_factory=set)
    """Unbound somewhere, or not plain values."""

    def add(self, node: ast.AST, hidden: frozenset[str] = frozenset()) -> None:
        """Add names. `hidden`: the names of enclosing comprehensions."""
        if isinstance(node, ast.Name) and node.id not in hidden:
            (self.read if isinstance(node.ctx, ast.Load) else self.bound)[node.id] = None
            if isinstance(node.ctx, ast.Del):
                self.unsure.add(node.id)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            self.read[node.target.id] = None
        elif isinstance(node, ast.ExceptHandler) and node.name:
            self._bind(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                self._bind(alias.asname or alias.name.partition(".")[0])
        if isinstance(node, _LATE):
            names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} - hidden
            self.late |= names
            self.read |= dict.fromkeys(sorted(names))
        if isinstance(node, _SCOPES):
            if not isinstance(node, ast.Lambda):
                self._bind(node.name)
            return
        if isinstance(node, _COMPREHENSIONS):
            self.add(node.generators[0].iter, hidden)
            hidden |= {
                each.id
                for generator in node.generators
                for each in ast.walk(generator.target)
                if isinstance(each, ast.Name)
            }
        for child in ast.iter_child_nodes(node):
            self.add(child, hidden)

    def _bind(self, name: str) -> None:
        self.bound[name] = None
        self.unsure.add(name)


def _names(statements: Iterable[ast.stmt]) -> _Names:
    names = _Names()
    for statement in statements:
        names.add(statement)
    return names


def _surely(statements: Iterable[ast.stmt]) -> set[str] | None:
    """Return the names that are bound on every path to the end of some statements; None if no path leads there."""
    bound: set[str] = set()
    for statement in statements:
        if isinstance(statement, (ast.Return, ast.Raise)):
            return None
        if isinstance(statement, ast.If):
            ways = [way for part in (statement.body, statement.orelse) if (way := _surely(part)) is not None]
            if not ways:
                return None
            bound |= set.intersection(*ways)
        elif isinstance(statement, (ast.Assign, ast.AugAssign)) or (
            isinstance(statement, ast.AnnAssign) and statement.value is not None
        ):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            bound |= {name for target in targets for name in _bound_by(target)}
    return bound


def _bound_by(target: ast.expr) -> dict[str, None]:
    names = _Names()
    names.add(target)
    return names.bound
