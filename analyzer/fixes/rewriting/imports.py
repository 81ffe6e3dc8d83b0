"""Find imports of a file that a change makes unused or needs."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence

from tcready.schema.edit import Edit
from tcready.schema.enums import lines_of
from tcready.source.edits import apply_edits
from tcready.static.frontend.source import Source, nodes_in

DYNAMIC = frozenset({"__getattr__", "eval", "exec", "globals", "locals", "vars"})
"""Names of functions that may read any name without spelling it."""
_WORD = re.compile(r"\w+")


def remove_unused(before: str, after: str, file: str) -> str:
    """Return the changed text of a file without the top-level imports that `before` uses and `after` does not.

    An `__init__.py` keeps all of them, because others import from it. Also kept are names in strings (`__all__`,
    annotations), names that the file binds elsewhere, `import a as a`, and lines with a `noqa`.
    """
    if before == after or file.rpartition("/")[2] == "__init__.py":
        return after
    old, new = ast.parse(before), ast.parse(after)
    used, bound = _used(new), _bound(new)
    if used & DYNAMIC:
        return after
    candidates = _used(old) - used
    edits: list[Edit] = []
    lines = lines_of(after)
    for statement, following in zip(new.body, [*new.body[1:], None], strict=True):
        if not isinstance(statement, (ast.Import, ast.ImportFrom)):
            continue
        last = statement.end_lineno or statement.lineno
        remaining = [
            alias
            for alias in statement.names
            if (name := _name(alias)) not in candidates or bound.count(name) > 1 or alias.asname == alias.name
        ]
        shares = following is not None and following.lineno == last
        has_noqa = any("noqa" in line for line in lines[statement.lineno - 1 : last])
        if len(remaining) == len(statement.names) or shares or statement.col_offset or has_noqa:
            continue
        edits += _without(statement, remaining) if remaining else [_gone(statement, lines)]
    return apply_edits(after, edits)


def _used(tree: ast.Module) -> set[str]:
    """Return the names that a file reads, and the words in its strings, except docstrings."""
    found: set[str] = set()
    texts: set[int] = set()
    for node in nodes_in(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            texts.add(id(node.value))
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef) and node.name in DYNAMIC:
            found.add(node.name)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            found.update(node.names)
    for node in nodes_in(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
            found.update(_WORD.findall(node.value))
    return found


def _bound(tree: ast.Module) -> list[str]:
    """Return the names that imports and assignments of a file bind, each as often as they do."""
    found: list[str] = []
    for node in nodes_in(tree):
        if isinstance(node, ast.alias):
            found.append(_name(node))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.append(node.id)
    return found


def _name(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _without(statement: ast.Import | ast.ImportFrom, remaining: Sequence[ast.alias]) -> Iterator[Edit]:
    """Remove some names of an import, with the commas behind them."""
    names = statement.names
    for number, alias in enumerate(names):
        if alias in remaining:
            continue
        if number + 1 < len(names):
            follows = names[number + 1]
            yield _cut(alias.lineno, alias.col_offset, follows.lineno, follows.col_offset)
        else:
            last = next(each for each in reversed(names) if each in remaining)
            begin = last.col_offset + len(ast.unparse(last))
            yield _cut(last.lineno, begin, alias.end_lineno, alias.end_col_offset)


def _cut(line: int, column: int, end_line: int | None, end_column: int | None) -> Edit:
    """Remove the text at a position given by ast."""
    assert end_line is not None
    assert end_column is not None
    return Edit("", line, column + 1, end_line, end_column + 1, "")


def _gone(statement: ast.Import | ast.ImportFrom, lines: Sequence[str]) -> Edit:
    """Return the lines of an import; with a blank line below it if there is one above it, with all blank lines below
    if it comes first."""
    last = statement.end_lineno or statement.lineno
    is_first = statement.lineno == 1
    if is_first or not lines[statement.lineno - 2].strip():
        while last + 1 < len(lines) and not lines[last].strip():
            last += 1
            if not is_first:
                break
    return Edit("", statement.lineno, 1, last + 1, 1, "")


def line_of_import(source: Source, module: str) -> int | None:
    """Return the line above which `import module` belongs, among the first imports of packages in a file; None if
    there are none."""
    groups: list[list[ast.Import | ast.ImportFrom]] = []
    last = 0
    for number, statement in enumerate(source.tree.body):
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not isinstance(statement, (ast.Import, ast.ImportFrom)):
            if number or not is_text:
                break
            continue
        if statement.lineno == last + 1 and groups:
            groups[-1].append(statement)
        else:
            groups.append([statement])
        last = statement.end_lineno or statement.lineno
    of_packages = [group for group in groups if any(map(_is_of_package, group))]
    if not of_packages:
        return None
    group = of_packages[0]
    plain = [each for each in group if isinstance(each, ast.Import)]
    later = next((each for each in plain if each.names[0].name > module), None)
    if later is not None:
        return later.lineno
    if plain:
        return (plain[-1].end_lineno or plain[-1].lineno) + 1
    return group[0].lineno


def _is_of_package(statement: ast.Import | ast.ImportFrom) -> bool:
    """Return True if it imports from a package that is neither in the standard library nor relative."""
    if isinstance(statement, ast.ImportFrom):
        names = [statement.module or ""] if not statement.level else []
    else:
        names = [alias.name for alias in statement.names]
    return any(name.partition(".")[0] not in sys.stdlib_module_names for name in names)
