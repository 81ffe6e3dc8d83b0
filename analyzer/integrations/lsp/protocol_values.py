"""Convert results to values of the protocol: lines and columns from 0, columns in the editor's units."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsprotocol import types
from tcready.fixes.rewriting.suggestions import Proposal, for_finding
from tcready.integrations.lsp.hover_text import HoverLine
from tcready.integrations.lsp.last_run import FileRun
from tcready.integrations.lsp.line_states import ModelPlace
from tcready.integrations.lsp.open_files import CellText, Document, Read
from tcready.reports.shared.phrases import named_target
from tcready.schema.edit import Edit
from tcready.schema.enums import Level, lines_of, visible
from tcready.schema.notebook_cells import place_in
from tcready.schema.report import TargetReport
from tcready.schema.static import Finding, Noqa, SourceText
from tcready.static.diagnostics.cst_view import Concrete
from tcready.static.diagnostics.rule import Rule
from tcready.static.frontend.noqa import NOQA, hiding_edit
from tcready.static.frontend.source import UnreadableError, of_text

SEVERITY: Mapping[Level, types.DiagnosticSeverity] = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}
SOURCE = "tcready"


class Places:
    """Positions in a text in the editor's units. Lines end as in Python."""

    def __init__(self, text: str, units: Callable[[str], int]) -> None:
        """`units` counts the units of a piece of a line as the editor does: UTF-16 unless negotiated otherwise."""
        self.lines = lines_of(text)
        self._units = units

    def position(self, line: int, column: int) -> types.Position:
        """Return the position of a 1-based line and character; the end of the text if it is beyond that."""
        if line > len(self.lines):
            line, column = len(self.lines), len(self.lines[-1]) + 1
        return types.Position(line - 1, self._units(self.lines[line - 1][: max(column - 1, 0)]))

    def span(self, line: int, column: int, end_line: int, end_column: int) -> types.Range:
        return types.Range(self.position(line, column), self.position(end_line, end_column))

    def of(self, found: Finding) -> types.Range:
        return self.span(found.line, found.column, found.end_line, found.end_column)

    def whole(self, line: int) -> types.Range:
        """Return the range of a line without its indent."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return self.span(line, len(text) - len(text.lstrip()) + 1, line, len(text) + 1)


def diagnostics(read: Read, document: Document, places: Places) -> list[types.Diagnostic]:
    """Return the diagnostics of a document: its findings, why it cannot be read, and comments that hide nothing."""
    if read.report is None:
        return []
    path = read.shown(document)
    found = [_of_finding(each, places) for each in read.findings(document)]
    found += [_skipped(item.reason, _broken(document)[1], places) for item in read.report.skipped if item.path == path]
    return found + [_idle(noqa, places) for noqa in read.report.unused if noqa.path == path]


@dataclass(frozen=True)
class InCell:
    """A finding of a notebook, and its position in the editor."""

    cell: CellText
    found: Finding
    """As read: lines count through all code cells."""
    shown: Finding
    """With the position in the cell."""


def in_cells(read: Read, document: Document) -> Iterator[InCell]:
    """Return the findings of a notebook, each with the cell that it begins in."""
    source = read.source(document)
    if source is None:
        return
    for found in read.findings(document):
        cell, within = _cell_of(document, source, found.line)
        if cell is None:
            continue
        lines = lines_of(cell.text)
        last = min(within + found.end_line - found.line, len(lines))
        shown = dataclasses.replace(
            found,
            line=within,
            end_line=last,
            column=found.column + _left_out(source, found.line, lines[within - 1]),
            end_column=found.end_column + _left_out(source, found.end_line, lines[last - 1]),
        )
        yield InCell(cell, found, shown)


def _cell_of(document: Document, source: SourceText, line: int) -> tuple[CellText | None, int]:
    """Return the cell of a line of the program, and the line within it; no cell if it has changed since."""
    place = place_in(source.cells, line)
    if place is None or place.number > len(document.cells):
        return None, 1
    cell = document.cells[place.number - 1]
    return (cell, place.line) if place.line <= len(lines_of(cell.text)) else (None, 1)


def _left_out(source: SourceText, line: int, written: str) -> int:
    """Return how many characters at the beginning of a cell's line are not part of the program: a prompt, the cell's
    indent."""
    lines = lines_of(source.text)
    read = lines[line - 1] if line <= len(lines) else written
    return len(written) - len(read) if written.endswith(read) else 0


def by_uri(read: Read, document: Document, places: Callable[[str], Places]) -> dict[str, list[types.Diagnostic]]:
    """Return the diagnostics of each text of a document: of the cells of a notebook, or of the only text."""
    if not document.cells:
        return {document.uri: diagnostics(read, document, places(document.text))}
    found: dict[str, list[types.Diagnostic]] = {cell.uri: [] for cell in document.cells}
    if read.report is None:
        return found
    path, source = read.shown(document), read.source(document)
    for each in in_cells(read, document):
        found[each.cell.uri].append(_of_finding(each.shown, places(each.cell.text)))
    for noqa in read.report.unused if source is not None else ():
        if noqa.path == path and source is not None:
            cell, line = _cell_of(document, source, noqa.line)
            if cell is not None:
                found[cell.uri].append(_idle(dataclasses.replace(noqa, line=line), places(cell.text)))
    for item in read.report.skipped:
        if item.path == path:
            number, place = _broken(document)
            cell = document.cells[min(number, len(document.cells)) - 1]
            found[cell.uri].append(_skipped(item.reason, place, places(cell.text)))
    return found


def _of_finding(found: Finding, places: Places) -> types.Diagnostic:
    return types.Diagnostic(
        range=places.of(found), message=found.message, severity=SEVERITY[found.level], code=found.rule, source=SOURCE
    )


def _broken(document: Document) -> tuple[int, tuple[int, int, int, int]]:
    """Return the position of the syntax error, after the number of a notebook's cell; default: the beginning."""
    try:
        of_text(document.path, document.text)
    except UnreadableError as error:
        return error.cell or 1, error.span or (1, 1, 1, 1)
    return 1, (1, 1, 1, 1)


def _skipped(reason: str, place: tuple[int, int, int, int], places: Places) -> types.Diagnostic:
    return types.Diagnostic(
        range=places.span(*place), message=reason, severity=types.DiagnosticSeverity.Error, source=SOURCE
    )


def _idle(noqa: Noqa, places: Places) -> types.Diagnostic:
    text = places.lines[noqa.line - 1]
    there = NOQA.search(text)
    begin, end = there.span() if there is not None else (0, len(text))
    return types.Diagnostic(
        range=places.span(noqa.line, begin + 1, noqa.line, end + 1),
        message=f"unused noqa {noqa.code}",
        severity=types.DiagnosticSeverity.Information,
        source=SOURCE,
        tags=[types.DiagnosticTag.Unnecessary],
    )


def findings_at(found: Iterable[Finding], selected: types.Range, places: Places) -> list[Finding]:
    """Return the findings that a range, or a cursor, touches."""
    first, last = _pair(selected.start), _pair(selected.end)
    spans = ((each, places.of(each)) for each in found)
    return [each for each, span in spans if _pair(span.start) <= last and first <= _pair(span.end)]


def _pair(position: types.Position) -> tuple[int, int]:
    return position.line, position.character


def lenses(lines: Iterable[HoverLine], places: Places) -> list[types.CodeLens]:
    """Return code lenses. They are text only, without a command."""
    return [
        types.CodeLens(range=places.whole(each.line), command=types.Command(title=each.text, command=""))
        for each in lines
    ]


def line_states(found: FileRun, targets: Sequence[TargetReport]) -> dict[str, Any]:
    """Return the answer to `tcready/lastRun`: lines count from 0, and `end` is the last of them."""
    return {
        "targets": [named_target(run, targets) for run in found.runs],
        "changed": list(found.changed),
        "lines": [
            {"start": each.first - 1, "end": each.last - 1, "state": each.state, "text": visible(each.text)}
            for each in found.lines
        ],
    }


def models(root: Path, path: str, places: Iterable[ModelPlace]) -> dict[str, Any]:
    """Return the answer to `tcready/models`; `target` and `path` are relative to `root`."""
    return {
        "root": str(root),
        "path": path,
        "models": [{"target": each.target, "start": each.first - 1, "end": each.last - 1} for each in places],
    }


@dataclass(frozen=True)
class Capable:
    """Capabilities of the editor."""

    versions: bool
    """Changes may name the version of their document."""
    disabled: bool
    """Disabled actions are shown with the reason."""


class Actions:
    """Code actions for findings of a document."""

    def __init__(self, read: Read, document: Document, places: Places, rules: Sequence[Rule], capable: Capable) -> None:
        self._path, self._document, self._places = read.shown(document), document, places
        self._rules = {rule.code: rule for rule in rules}
        self._capable = capable

    def of(self, found: Sequence[Finding]) -> list[types.CodeAction]:
        """Return changes first, the preferred one marked, then comments that hide. Return None if the text cannot be
        parsed, or if Python would decode it differently, because positions then differ from those in the editor."""
        try:
            source = of_text(self._document.path, self._document.text)
        except UnreadableError:
            return []
        if source.text != self._document.text:  # a byte order mark, or what the declared encoding does not have
            return []
        concrete = Concrete(source)
        changes = [action for each in found for action in self._changes(each, concrete)]
        return changes + [action for each in found for action in self._hiding(each, concrete)]

    def _changes(self, found: Finding, concrete: Concrete) -> Iterator[types.CodeAction]:
        rule = self._rules.get(found.rule or "")
        ways = for_finding(concrete, rule, found) if rule is not None else ()
        proposals = [way for way in ways if isinstance(way, Proposal) and way.edits]
        safe = [way for way in proposals if way.unsafe is None]
        for way in safe:
            yield self._action(found, f"{found.rule}: {way.how}", way.edits, preferred=way is safe[0])
        if self._capable.disabled and not safe:
            for way in proposals[:1]:
                why = f"not safe: {way.unsafe}; `tcready fix --unsafe` makes this change"
                yield types.CodeAction(
                    title=f"{found.rule}: {way.how}",
                    kind=types.CodeActionKind.QuickFix,
                    diagnostics=[_of_finding(found, self._places)],
                    disabled=types.CodeActionDisabled(why),
                )

    def _hiding(self, found: Finding, concrete: Concrete) -> Iterator[types.CodeAction]:
        if found.rule is None:
            return
        last = max(found.end_line, found.line)
        edit = hiding_edit(concrete.source, self._path, found.line, last, found.rule)
        if edit is not None:
            yield self._action(found, f"{found.rule}: hide it with `# noqa: {found.rule}`", (edit,))

    def _action(
        self, found: Finding, title: str, edits: Iterable[Edit], *, preferred: bool = False
    ) -> types.CodeAction:
        made: list[types.TextEdit] = [
            types.TextEdit(self._places.span(e.start_line, e.start_column, e.end_line, e.end_column), e.new_text)
            for e in dict.fromkeys(edits)
        ]
        document = self._document
        if self._capable.versions:
            named = types.OptionalVersionedTextDocumentIdentifier(document.uri, document.version)
            change = types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(named, made)])
        else:
            change = types.WorkspaceEdit(changes={document.uri: made})
        return types.CodeAction(
            title=title,
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[_of_finding(found, self._places)],
            is_preferred=preferred or None,
            edit=change,
        )
