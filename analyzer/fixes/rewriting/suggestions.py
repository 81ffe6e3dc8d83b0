"""The changes that a rule suggests, as edits of the current file."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import libcst as cst
from tcready.fixes.rewriters.rewrites import rewrites_of
from tcready.fixes.rewriting.imports import line_of_import
from tcready.schema.edit import Edit
from tcready.schema.enums import TcreadyError
from tcready.schema.static import Finding
from tcready.source.edits import apply_edits
from tcready.static.diagnostics.cst_view import Concrete, CstRegion, Located, comments, first_line
from tcready.static.diagnostics.rule import Change, Declined, FixCandidate, Rewrite, Rule
from tcready.static.frontend.source import Source


@dataclass(frozen=True)
class Proposal:
    """A change that nobody has tried yet."""

    rule: str
    """Its code; empty if no rule made it."""
    how: str
    """One sentence: what the change does."""
    edits: tuple[Edit, ...]
    unsafe: str | None
    """Why it may change behavior; None if it is equivalent by construction."""
    settings: tuple[str, ...] = ()
    """Names of `torch._dynamo.config` settings without which Dynamo breaks in the new code; without new code,
    settings alone."""
    silences: bool = False
    """Output, logs or warnings are left out of compiled code."""
    asserts: bool = False
    """A check of the user becomes an assertion in compiled code: it raises RuntimeError there."""


def suggest(suspects: Iterable[FixCandidate]) -> list[tuple[Edit, ...]]:
    """Return for each the edits of the first change that is safe by construction; empty if there is none."""
    files: dict[Path, Concrete] = {}
    found = []
    for suspect in suspects:
        concrete = files.setdefault(suspect.source.path, Concrete(suspect.source))
        place = concrete.locate(*suspect.span)
        ways = proposals(suspect.path, suspect.rule, place) if place is not None else ()
        found.append(next((p.edits for p in ways if isinstance(p, Proposal) and not p.unsafe), ()))
    return found


def for_finding(concrete: Concrete, rule: Rule, finding: Finding) -> Iterator[Proposal | Declined]:
    """Return the proposals for a finding of `rule` in the file that `concrete` reads."""
    place = concrete.locate(finding.line, finding.column, finding.end_line, finding.end_column)
    if place is None:
        yield Declined("The code is only a part of an expression.")
    else:
        yield from proposals(finding.path, rule, place)


def at_line(concrete: Concrete, path: str, line: int, rules: Iterable[Rule]) -> Iterator[Proposal | Declined]:
    """Yield the proposals of rules for everything that begins on a 1-based line, outermost first: Dynamo broke there
    without a prediction."""
    places = list(concrete.expressions_at(line))
    for rule in rules:
        for place in places:
            yield from proposals(path, rule, place)


def proposals(path: str, rule: Rule, place: Located) -> Iterator[Proposal | Declined]:
    """Return the rewrites of `place` by `rule`, the preferred one first, and why others are left out.

    Only the statements around the place are rewritten. Every comment is kept: comments in replaced code go above it. A
    rewrite that does not parse is declined, and so are all if the file is nested deeper than Python's stack.
    """
    try:
        yield from _proposals(path, rule, place)
    except RecursionError:
        yield Declined("The code of the file is nested too deeply to rewrite it.")


def _proposals(path: str, rule: Rule, place: Located) -> Iterator[Proposal | Declined]:
    for way in rewrites_of(rule, place):
        if isinstance(way, Declined):
            yield way
            continue
        changed = tuple(_edits(path, place, way))
        edits = (*changed, *add_imports(path, place.source, way.imports))
        alone = bool(changed) and edits == changed and _parses(*_around(place.source, changed))
        if not alone and not _parses(place.source.text, edits):
            yield Declined("The rewritten code would not parse.")
            continue
        yield Proposal(rule.code, way.how, edits, way.unsafe, way.settings, way.silences, way.asserts)


def _edits(path: str, place: Located, way: Rewrite) -> Iterator[Edit]:
    for change in way.changes:
        piece = change.piece or place.piece
        if isinstance(change.old[0], cst.BaseExpression):
            yield from _of_expression(path, place.source, piece, change)
        else:
            yield _of_statements(path, place.source, piece, change)


def _parses(text: str, edits: Iterable[Edit]) -> bool:
    """Return True if a text with some edits applied is Python."""
    try:
        ast.parse(apply_edits(text, edits))
    except (SyntaxError, ValueError, TcreadyError):
        return False
    return True


def _around(source: Source, edits: Sequence[Edit]) -> tuple[str, list[Edit]]:
    """Return the top-level statements around the edits, and the edits relative to them: if these parse, the file
    does, and they are much faster to parse."""
    first, last = min(e.start_line for e in edits), max(e.end_line for e in edits)
    for statement in source.tree.body:
        begin, end = first_line(statement), statement.end_lineno or statement.lineno
        if begin <= last and first <= end:
            first, last = min(first, begin), max(last, end)
    above = first - 1
    ends = source.offset(last + 1, 1) if last < len(source.lines) else len(source.text)
    inside = [replace(e, start_line=e.start_line - above, end_line=e.end_line - above) for e in edits]
    return source.text[source.offset(first, 1) : ends], inside


def _of_expression(path: str, source: Source, piece: CstRegion, change: Change) -> Iterator[Edit]:
    """Return the edit of the expression alone, and of the comments in it, which go above its statement."""
    (old,), (new,) = change.old, change.new
    span = piece.positions[old]
    above = piece.first - 1
    first, last = span.start.line + above, span.end.line + above
    column, end = span.start.column + 1, span.end.column + 1
    # written as a statement, so that lines in brackets are indented as deep as those around them
    margin = _margin(source, piece.lines(piece.statement_of(old))[0])
    text = "\n".join(_written(cst.SimpleStatementLine([cst.Expr(new)]), margin, piece.tree.default_indent))
    text = text.removeprefix(margin)
    if _needs_parentheses(piece.parents[old], old, new):
        text = f"({text})"
    before = source.text[source.offset(first, column) : source.offset(last, end)]
    lost = _lost(before, text)
    if lost:
        top, _ = piece.lines(piece.statement_of(old))
        margin = _margin(source, top)
        yield Edit(path, top, 1, top, 1, "".join(f"{margin}{c}{source.line_end(top)}" for c in lost))
    yield Edit(path, first, column, last, end, text.replace("\n", source.line_end(first)))


_TIGHT = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.BaseNumber, cst.BaseString, cst.List, cst.Dict, cst.Set)


def _needs_parentheses(parent: cst.CSTNode, old: cst.BaseExpression, new: cst.BaseExpression) -> bool:
    """Return True if an expression needs parentheses in its context."""
    if old.lpar or new.lpar or isinstance(new, _TIGHT):
        return False
    if isinstance(parent, cst.BooleanOperation) and isinstance(new, (cst.Comparison, cst.UnaryOperation)):
        return False
    return isinstance(parent, (cst.BaseExpression, cst.ComparisonTarget))


def _of_statements(path: str, source: Source, piece: CstRegion, change: Change) -> Edit:
    """Return the lines of the statements."""
    first, last = piece.lines(change.old[0])[0], piece.lines(change.old[-1])[1]
    margin = _margin(source, first)
    new = list(change.new)
    if new:  # lines above the first of the old ones stay there
        new[0] = new[0].with_changes(leading_lines=())
    written = [line for each in new for line in _written(each, margin, piece.tree.default_indent)]
    before = "\n".join(source.lines[first - 1 : last])
    written = [*(f"{margin}{comment}" for comment in _lost(before, "\n".join(written))), *written]
    if not written:
        after = last + 1 <= len(source.lines)
        end = (last + 1, 1) if after else (last, len(source.lines[last - 1]) + 1)
        return Edit(path, first, 1, *end, "")
    line_end = source.line_end(first)
    new_text = line_end.join(written).removeprefix(margin)
    above = source.lines[first - 2].strip() if first > 1 else ""
    if new and isinstance(new[0], cst.FunctionDef) and above and not above.endswith(":"):
        new_text = f"{line_end}{margin}{new_text}"
        return Edit(path, first, 1, last, len(source.lines[last - 1]) + 1, new_text)
    return Edit(path, first, len(margin) + 1, last, len(source.lines[last - 1]) + 1, new_text)


def _lost(before: str, after: str) -> list[str]:
    """Return the comments of the one text that the other lacks."""

    def of(text: str) -> list[str]:
        # A part of a file may be indented, and its brackets open, which a tokenizer does not mind in brackets.
        return [comment for _, comment in comments(f"(\n{text}\n)", 1)] if "#" in text else []

    left = Counter(of(after))
    lost = []
    for comment in of(before):
        if left[comment]:
            left[comment] -= 1
        else:
            lost.append(comment)
    return lost


def _margin(source: Source, line: int) -> str:
    indent = re.match(r"\s*", source.lines[line - 1])
    return indent[0] if indent else ""


def _written(statement: cst.BaseStatement, indent: str, step: str) -> list[str]:
    """Return the lines of a statement at `indent`, with the comments above it."""
    block = cst.IndentedBlock(body=[statement], indent=indent or step)
    code = cst.Module(body=[cst.If(test=cst.Name("x"), body=block)], default_indent=step).code
    lines = code.removesuffix("\n").split("\n")[1:]
    return lines if indent else [line.removeprefix(step) for line in lines]


def add_imports(path: str, source: Source, imports: Iterable[str]) -> Iterator[Edit]:
    """Return edits that add import statements in order among the first imports of packages, else after the imports,
    or above the first statement; other definitions go after the imports."""
    needed = list(imports)
    while needed and (module := needed[0].removeprefix("import ")) != needed[0]:
        line = line_of_import(source, module)
        if line is None or line > len(source.lines):
            break
        yield Edit(path, line, 1, line, 1, f"{needed.pop(0)}{source.line_end(line)}")
    if not needed:
        return
    last, first = 0, 1
    for number, statement in enumerate(source.tree.body):
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not isinstance(statement, (ast.Import, ast.ImportFrom)) and (number or not is_text):
            first = first_line(statement)
            break
        last = statement.end_lineno or statement.lineno
    line = last + 1 if last else first
    if line > len(source.lines):
        line = len(source.lines)
    yield Edit(path, line, 1, line, 1, "".join(f"{each}{source.line_end(line)}" for each in needed))
