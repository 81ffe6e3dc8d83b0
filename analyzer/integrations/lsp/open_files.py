"""Read the open files of one project again after each change, like `tcready check`."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tcready.config import pyproject
from tcready.config.resolution import Settings, resolve
from tcready.integrations.lsp.last_run import LastRun
from tcready.merge import merge
from tcready.pipeline import explanation, filtering, registry
from tcready.portable.options import ReadOptions
from tcready.schema.display_paths import display_path, is_installed
from tcready.schema.enums import TcreadyError
from tcready.schema.report import Reading, Report
from tcready.schema.static import Finding, SourceText, StaticTarget
from tcready.static.diagnostics.rule_texts import RuleTexts
from tcready.static.driver import Question, RuleSet
from tcready.static.frontend.cancellation import Stop, never
from tcready.static.frontend.globs import is_excluded
from tcready.static.session import Session
from tcready.static.units import Unit, holds

SettingsAt: TypeAlias = "Callable[[Path], Settings]"
"""Returns the settings of the project in a folder. Raises TcreadyError for an invalid pyproject.toml."""
MOST_CLOSED = 100
"""Number of closed files for which the reading is cached; beyond it, the cache is cleared."""


@dataclass(frozen=True)
class CellText:
    """A cell of a notebook in the editor."""

    uri: str
    version: int | None
    text: str
    is_code: bool
    """The cell contains Python."""


@dataclass(frozen=True)
class Document:
    """A file in the editor."""

    uri: str
    path: Path
    """Its real path; a path without a file if it was never saved."""
    version: int | None
    text: str
    cells: tuple[CellText, ...] = ()
    """The cells of a notebook, in order; `text` is then that of the file."""


def notebook(uri: str, path: Path, version: int | None, cells: Sequence[CellText]) -> Document:
    """Return a notebook, with the file made of its cells."""
    made: list[dict[str, object]] = [
        {
            "cell_type": "code" if cell.is_code else "markdown",
            "metadata": {},
            "source": cell.text,
            **({"outputs": [], "execution_count": None} if cell.is_code else {}),
        }
        for cell in cells
    ]
    file = {"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    return Document(uri, path, version, json.dumps(file), tuple(cells))


@dataclass(frozen=True)
class Read:
    """Results of reading some documents."""

    root: Path
    documents: Mapping[str, Document]
    """The documents that were read, by URI."""
    report: Report | None
    """Everything except the targets; None if the project's options are invalid."""
    targets: tuple[StaticTarget, ...]
    """The models in the documents."""
    last_run: LastRun | None
    """The last run in this folder; None if there is none."""
    problems: tuple[str, ...]
    """Problems with the project's options."""

    def shown(self, document: Document) -> str:
        """Return the name of the document in the report."""
        return display_path(str(document.path), str(self.root))

    def findings(self, document: Document) -> tuple[Finding, ...]:
        """Return the findings in the document."""
        path = self.shown(document)
        return tuple(found for found in self.report.findings if found.path == path) if self.report else ()

    def source(self, document: Document) -> SourceText | None:
        """Return the source of the document; None if nothing was read."""
        path = self.shown(document)
        sources = self.report.sources if self.report is not None else ()
        return next((source for source in sources if source.path == path), None)

    def texts(self) -> dict[str, str]:
        """Return the texts of the documents by their paths in the report."""
        return {self.shown(document): document.text for document in self.documents.values()}


Stamp: TypeAlias = "tuple[int, int] | None"


@dataclass(frozen=True)
class _ProjectSettings:
    """The settings of the project, valid as long as the files that define them do not change."""

    stamps: Mapping[Path, Stamp]
    settings: Settings
    session: Session
    options: ReadOptions
    known: filtering.Known
    problems: tuple[str, ...]


class OpenFilesReader:
    """Reads a project repeatedly and reuses what did not change. Not thread-safe."""

    def __init__(self, root: Path, settings_at: SettingsAt, rules: RuleSet) -> None:
        """`root`: the folder that paths are relative to, and that has the pyproject.toml."""
        self._root = root
        self._settings_at = settings_at
        self._rules = rules
        self._texts = RuleTexts((rule.code for rule in rules.load()), rules.load)
        self._current: _ProjectSettings | None = None
        self._last: tuple[Stamp, LastRun | None] = None, None
        self._seen: set[Unit] = set()

    def read(self, documents: Iterable[Document], stop: Stop = never) -> Read:
        """Return what `tcready check` would report if the documents were saved; documents that it skips are left out.

        If documents are one file under several names, only the last is read.

        Raises StoppedError soon after `stop` returns True.
        """
        current = self._renewed()
        by_path = {each.path: each for each in documents if self._is_read(each.path, current.options)}
        chosen = {each.uri: each for each in by_path.values()}
        report: Report | None = None
        targets: tuple[StaticTarget, ...] = ()
        problems = current.problems
        try:
            report, targets = self._report(current, list(chosen.values()), stop)
        except TcreadyError as error:
            problems += (str(error),)
        return Read(self._root, chosen, report, targets, self.last_run(), problems)

    def _report(
        self, current: _ProjectSettings, documents: Sequence[Document], stop: Stop
    ) -> tuple[Report, tuple[StaticTarget, ...]]:
        units = [Unit(display_path(str(d.path), str(self._root)), d.path, None) for d in documents]
        self._seen.update(units)
        if len(self._seen) > len(units) + MOST_CLOSED:
            current.session.forget()
            self._seen = set(units)
        texts = {document.path: document.text for document in documents}
        options = current.settings.report
        found = current.session.check(list(dict.fromkeys(units)), texts, stop, options)
        # nothing is shown of regions, which would be made of the targets
        report = merge(dataclasses.replace(found.result, targets=()), (), found.rules, found.tool)
        read = current.options
        version = ".".join(map(str, read.torch or ()))
        how = Reading(current.settings.values["mode"], read.low, read.plain_call, version)
        report = dataclasses.replace(report, readings=(how,))
        names = [unit.target for unit in units]
        return filtering.filter_report(report, current.known, options, names, self._root)[0], found.result.targets

    def _is_read(self, path: Path, options: ReadOptions) -> bool:
        """Return True if a check of the project would read the file; a file outside of its folder counts as named."""
        if is_installed(str(path)) or is_excluded(path, options.exclude, self._root):
            return False
        return holds(self._root, path) or not path.is_relative_to(self._root)

    def _renewed(self) -> _ProjectSettings:
        """Return the current settings of the project; if they are invalid, the previous ones, else the defaults."""
        current = self._current
        if current is not None and all(_stamp(path) == then for path, then in current.stamps.items()):
            return current
        problems = []
        file = self._root / pyproject.FILE
        stamps = {file: _stamp(file)}
        try:
            settings = self._settings_at(self._root)
            Question(self._texts, self._rules.tool(), settings.report, self._root)  # a code may be of no rule
        except TcreadyError as error:
            problems.append(str(error))
            settings = current.settings if current is not None else resolve({}, root=self._root, at_command=True)
        known = filtering.Known()
        if settings.report.baseline is not None:
            file = self._root / settings.report.baseline
            stamps[file] = _stamp(file)
            try:
                known = filtering.load_known(settings.report, self._root)
            except TcreadyError as error:
                problems.append(str(error))
        options = dataclasses.replace(
            settings.read,
            torch=registry.torch_for(settings.read.torch, self._root),
            lenient=True,  # other tools report code that does not parse and does not name torch
        )
        same = current is not None and current.options == options
        session = current.session if current is not None and same else Session(options, self._rules)
        self._current = _ProjectSettings(stamps, settings, session, options, known, tuple(problems))
        return self._current

    def has_new_run(self) -> bool:
        """Return True if another run was stored since the last one was loaded."""
        return explanation.stored_stamp(self._root) != self._last[0]

    def last_run(self) -> LastRun | None:
        """Return the last run, loaded again if another one was stored since."""
        stamp = explanation.stored_stamp(self._root)
        if stamp != self._last[0]:
            report = explanation.stored_report(self._root)
            self._last = stamp, LastRun(report, self._root) if report is not None else None
        return self._last[1]


def _stamp(path: Path) -> Stamp:
    """Return a value that changes whenever the file is written; None if it does not exist."""
    try:
        stat = os.stat(path)
    except (OSError, ValueError):
        return None
    return stat.st_mtime_ns, stat.st_size
