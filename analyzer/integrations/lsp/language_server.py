"""The language server: receives messages from the editor, sends what to show, and decides when to read.

Handlers run in one thread, which reads nothing; another thread reads one project after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import os
import signal
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path, urlparse
from tcready.config import pyproject
from tcready.integrations.lsp import hover_text, protocol_values
from tcready.integrations.lsp.line_states import models_in
from tcready.integrations.lsp.open_files import CellText, Document, OpenFilesReader, Read, SettingsAt, notebook
from tcready.integrations.lsp.protocol_values import Actions, Capable, Places
from tcready.pipeline import registry
from tcready.portable.target import NOTEBOOK
from tcready.reports.shared.wording import rules_by_code
from tcready.schema.enums import TcreadyError
from tcready.static.frontend.cancellation import StoppedError

PAUSE = 0.2
"""Seconds without a change after which the text is read."""
WAITED_FOR = 1.5
"""Seconds that a hover or a code action waits for a reading: editors repeat requests, and the user waits for the
answer."""
LONGEST = 10_000
"""Maximum lines of a document that is read while the user types: longer ones take seconds, and are read when saved."""
WATCHED = ("**/*.py", "**/pyproject.toml", "**/.tcready_cache/*.json")
"""Files that may affect what is shown; the last run is stored in the cache."""
PYTHON = "python"
UNSAVED = "untitled"
"""The scheme of documents that were never saved."""
LAST_RUN = "tcready/lastRun"
"""The request for how the lines of a document ran in the last run."""
MODELS = "tcready/models"
"""The request for the models of a document, and the folder in which to run `tcready check` for them."""
LAST = 4
"""Number of lines of a traceback that are logged."""


def serve(settings_at: SettingsAt) -> None:
    """Serve one editor over stdin and stdout until it leaves."""
    for ending in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, ending):  # a thread waits for the editor's next line, and an exception would wait for that
            signal.signal(getattr(signal, ending), signal.SIG_DFL)
    # With whole texts the server need not know where the editor ends a line: pygls also ends it at a form feed.
    server = LanguageServer(
        "tcready",
        registry.version(),
        text_document_sync_kind=types.TextDocumentSyncKind.Full,
        notebook_document_sync=types.NotebookDocumentSyncOptions(
            [types.NotebookDocumentFilterWithCells(cells=[types.NotebookCellLanguage(PYTHON)])], save=True
        ),
    )
    editing = Editing(server, settings_at)
    editing.connect()
    # Garbage is collected after each reading instead of during the next: then nobody waits for it. What is loaded stays.
    gc.disable()
    registry.load_rules()
    gc.freeze()
    try:
        server.start_io()
    finally:
        editing.end()


class _Project:
    """The open documents of a project, and the results for them."""

    def __init__(self, reader: OpenFilesReader) -> None:
        self.reader = reader
        self.documents: dict[str, Document] = {}
        """By URI; the last edited one is last."""
        self.put_off: dict[str, Document] = {}
        """The last reading of long documents that are being edited and not saved yet."""
        self.files_changed = False
        """Files changed outside of the editor since a reading began."""
        self.read: Read | None = None
        self.stop = threading.Event()
        """Stops the last requested reading."""
        self.task: asyncio.Task[None] | None = None
        """The last requested reading."""

    @property
    def is_reading(self) -> bool:
        """Return True if a reading is in progress, or waits for its pause to end."""
        return self.task is not None and not self.task.done()

    def texts(self) -> tuple[Document, ...]:
        """Return the texts to read."""
        return tuple(self.put_off.get(uri, document) for uri, document in self.documents.items())


class Editing:
    """The documents that one editor has open, and what was published to it."""

    def __init__(self, server: LanguageServer, settings_at: SettingsAt) -> None:
        self._server = server
        self._settings_at = settings_at
        self._rules = registry.rule_set()
        self._pool = ThreadPoolExecutor(1, "reading")
        self._projects: dict[Path, _Project] = {}
        self._where: dict[str, Path] = {}
        """The folder of the project of each open document, by URI."""
        self._published: dict[str, tuple[int | None, list[types.Diagnostic]]] = {}
        """The diagnostics that the editor shows for each open document, by URI."""
        self._logged: dict[Path, tuple[str, ...]] = {}
        """The problems with each project's options that were logged last."""

    def connect(self) -> None:
        """Register the handlers below with the server."""
        notices: dict[str, Callable[[Any], None]] = {
            types.INITIALIZE: self.begun,
            types.INITIALIZED: self.connected,
            types.TEXT_DOCUMENT_DID_OPEN: self.opened,
            types.TEXT_DOCUMENT_DID_CHANGE: self.changed,
            types.TEXT_DOCUMENT_DID_SAVE: self.saved,
            types.TEXT_DOCUMENT_DID_CLOSE: self.closed,
            types.NOTEBOOK_DOCUMENT_DID_OPEN: self.notebook_opened,
            types.NOTEBOOK_DOCUMENT_DID_CHANGE: self.notebook_changed,
            types.NOTEBOOK_DOCUMENT_DID_SAVE: self.notebook_saved,
            types.NOTEBOOK_DOCUMENT_DID_CLOSE: self.notebook_closed,
            types.WORKSPACE_DID_CHANGE_WATCHED_FILES: self.files_changed,
            types.SHUTDOWN: lambda _params: self._stop_all(),
        }
        requests: dict[str, tuple[Callable[[Any], Awaitable[Any]], Any]] = {
            types.TEXT_DOCUMENT_HOVER: (self.hover, None),
            types.TEXT_DOCUMENT_CODE_ACTION: (
                self.actions,
                types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix]),
            ),
            types.TEXT_DOCUMENT_CODE_LENS: (self.lenses, types.CodeLensOptions()),
            LAST_RUN: (self.last_run, None),
            MODELS: (self.models, None),
        }
        for method, handler in notices.items():
            self._server.feature(method)(_function(handler))
        for method, (kind, options) in requests.items():
            self._server.feature(method, options)(_coroutine(kind))
        self._server.report_server_error = lambda error, _source: self._log(str(error))

    def end(self) -> None:
        """Stop all readings."""
        self._stop_all()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _stop_all(self) -> None:
        for each in self._projects.values():
            each.stop.set()

    # Notifications of the editor

    def begun(self, params: types.InitializeParams) -> None:
        self._server.protocol.trace = params.trace or types.TraceValue.Off

    def connected(self, _params: types.InitializedParams) -> None:
        """Request notifications about files that change outside of the editor, if it supports them."""
        if self._can("workspace.did_change_watched_files.dynamic_registration"):
            watched = [types.FileSystemWatcher(pattern) for pattern in WATCHED]
            how = types.DidChangeWatchedFilesRegistrationOptions(watched)
            method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
            self._server.client_register_capability(
                types.RegistrationParams([types.Registration("files", method, how)])
            )

    def opened(self, params: types.DidOpenTextDocumentParams) -> None:
        item = params.text_document
        path = self._path(item.uri, item.language_id)
        if path is not None:
            self._opened(Document(item.uri, path, item.version, item.text))

    def _opened(self, document: Document) -> None:
        root = self._root_of(document.path)
        if root not in self._projects:
            self._projects[root] = _Project(OpenFilesReader(root, self._settings_at, self._rules))
        self._where[document.uri] = root
        self._projects[root].documents[document.uri] = document
        self._ask(self._projects[root])

    def changed(self, params: types.DidChangeTextDocumentParams) -> None:
        uri = params.text_document.uri
        found = self._project_of(uri)
        if found is not None:
            now = self._server.workspace.get_text_document(uri)
            before = found.documents.pop(uri)
            found.documents[uri] = Document(uri, before.path, now.version, now.source)
            if now.source.count("\n") <= LONGEST:
                found.put_off.pop(uri, None)
                self._ask(found, PAUSE)
                return
            found.put_off.setdefault(uri, before)
            if found.is_reading:  # of this text nobody sees the findings any more, of the others they do
                self._ask(found, PAUSE)

    def saved(self, params: types.DidSaveTextDocumentParams) -> None:
        uri = params.text_document.uri
        found = self._project_of(uri)
        if found is not None:
            found.put_off.pop(uri, None)
            self._ask(found)

    def closed(self, params: types.DidCloseTextDocumentParams) -> None:
        self._closed(params.text_document.uri)

    def _closed(self, uri: str) -> None:
        root = self._where.pop(uri, None)
        if root is None:
            return
        self._forget(_texts_of(self._taken_from(root, uri)))

    def _taken_from(self, root: Path, uri: str) -> Document:
        """Remove a document from a project that it does not belong to any more."""
        found = self._projects[root]
        document = found.documents.pop(uri)
        found.put_off.pop(uri, None)
        if found.documents:
            self._ask(found)  # the others may import it, and now mean the file
        else:
            found.stop.set()
            del self._projects[root]
        return document

    def _forget(self, uris: Iterable[str]) -> None:
        """Clear the diagnostics of closed texts."""
        for uri in uris:
            if self._published.pop(uri, (None, []))[1]:
                self._server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def notebook_opened(self, params: types.DidOpenNotebookDocumentParams) -> None:
        uri = params.notebook_document.uri
        path = self._notebook_path(uri)
        if path is not None:
            self._opened(self._notebook(uri, path))

    def notebook_changed(self, params: types.DidChangeNotebookDocumentParams) -> None:
        uri = params.notebook_document.uri
        found = self._project_of(uri)
        if found is not None:
            before = found.documents[uri]
            now = found.documents[uri] = self._notebook(uri, before.path)
            current = set(_texts_of(now))
            self._forget(gone for gone in _texts_of(before) if gone not in current)
            self._ask(found, PAUSE)

    def notebook_saved(self, params: types.DidSaveNotebookDocumentParams) -> None:
        found = self._project_of(params.notebook_document.uri)
        if found is not None:
            self._ask(found)

    def notebook_closed(self, params: types.DidCloseNotebookDocumentParams) -> None:
        self._closed(params.notebook_document.uri)

    def _notebook(self, uri: str, path: Path) -> Document:
        """Return the current notebook of the editor."""
        workspace = self._server.workspace
        known = workspace.get_notebook_document(notebook_uri=uri)
        cells = []
        for cell in known.cells if known is not None else ():
            text = workspace.get_text_document(cell.document)
            is_code = cell.kind == types.NotebookCellKind.Code and text.language_id in (PYTHON, None)
            cells.append(CellText(cell.document, text.version, text.source, is_code))
        return notebook(uri, path, known.version if known is not None else None, cells)

    def files_changed(self, params: types.DidChangeWatchedFilesParams) -> None:
        if any(urlparse(each.uri)[2].endswith(f"/{pyproject.FILE}") for each in params.changes):
            for uri in list(self._where):
                self._project_of(uri)
        for each in self._projects.values():
            if each.is_reading:  # it ends first: events may come faster than anything is read
                each.files_changed = True
            else:
                self._ask(each, PAUSE, lenses=True)

    # What the editor asks

    async def hover(self, params: types.HoverParams) -> types.Hover | None:
        uri = params.text_document.uri
        around = self._server.workspace.get_notebook_document(cell_uri=uri)
        known = await self._known(uri if around is None else around.uri, WAITED_FOR)
        if known is None or known[0].report is None:
            return None
        read, document, places = known
        at = types.Range(params.position, params.position)
        if around is not None:
            return self._hover_in_cell(read, document, uri, at)
        found = protocol_values.findings_at(read.findings(document), at, places)
        texts, rules = read.texts(), rules_by_code(known[0].report)
        last = read.last_run
        if last is not None:
            rules = {**rules_by_code(last.report), **rules}
            seen = last.seen_at(read.shown(document), params.position.line + 1)
            found += [each for each in seen if last.has_fresh_result(each, texts)]
        if not found:
            return None
        paragraphs = [hover_text.about(each, rules, last, texts) for each in found]
        return self._hover(paragraphs, places.of(found[0]))

    def _hover_in_cell(self, read: Read, document: Document, uri: str, at: types.Range) -> types.Hover | None:
        """Return the results for findings in a cell, without the last run, which was not of the notebook."""
        own = [each for each in protocol_values.in_cells(read, document) if each.cell.uri == uri]
        if not own or read.report is None:
            return None
        places, rules = self._places_in(own[0].cell.text), rules_by_code(read.report)
        touched = protocol_values.findings_at([each.shown for each in own], at, places)
        paragraphs = [hover_text.about(each.found, rules, None, read.texts()) for each in own if each.shown in touched]
        return self._hover(paragraphs, places.of(touched[0])) if touched else None

    def _hover(self, paragraphs: Iterable[str], where: types.Range) -> types.Hover:
        kinds = self._can("text_document.hover.content_format") or ()
        text = "\n\n---\n\n".join(paragraphs)
        if types.MarkupKind.Markdown in kinds:
            return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text), where)
        return types.Hover(types.MarkupContent(types.MarkupKind.PlainText, hover_text.as_text(text)), where)

    async def actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        wanted = params.context.only
        quick = types.CodeActionKind.QuickFix.value
        if wanted is not None and not any(quick == kind or kind == "" for kind in map(_word, wanted)):
            return []
        known = await self._known(params.text_document.uri, WAITED_FOR)
        if known is None:
            return []
        read, document, places = known
        capable = Capable(
            versions=bool(self._can("workspace.workspace_edit.document_changes")),
            disabled=bool(self._can("text_document.code_action.disabled_support")),
        )
        found = protocol_values.findings_at(read.findings(document), params.range, places)
        return Actions(read, document, places, registry.load_rules(), capable).of(found)

    async def lenses(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        known = await self._known(params.text_document.uri)
        if known is None or known[0].report is None:
            return []
        read, document, places = known
        lines = hover_text.above(read.targets, read.shown(document), read.last_run, read.texts())
        return protocol_values.lenses(lines, places)

    async def last_run(self, params: Any) -> dict[str, Any] | None:
        """Return how the lines of a document ran in the last run; None if no run includes it, or it is a notebook."""
        known = await self._known(params.textDocument.uri)
        if known is None or known[1].cells or known[0].last_run is None:
            return None
        read, document, _ = known
        last = read.last_run
        found = last.of_file(read.shown(document), read.texts()) if last is not None else None
        return protocol_values.line_states(found, last.report.targets) if found and last is not None else None

    async def models(self, params: Any) -> dict[str, Any] | None:
        """Return the models of a document, and the folder of its project; None if the document is not read."""
        known = await self._known(params.textDocument.uri)
        if known is None:
            return None
        read, document, _ = known
        path = read.shown(document)
        return protocol_values.models(read.root, path, models_in(read.targets, path, document.text))

    async def _known(self, uri: str, longest: float | None = None) -> tuple[Read, Document, Places] | None:
        """Return the results for the current document, once it is read; None if it is not one of ours.

        With `longest`, the request is about a position in the current text: return None if the text changes meanwhile,
        or is not read within so many seconds.
        """
        found = self._project_of(uri)
        opened_document = found.documents.get(uri) if found is not None else None
        end = None if longest is None else time.monotonic() + longest
        while found is not None and found.task is not None and not found.task.done():
            left = None if end is None else end - time.monotonic()
            if left is not None and (left <= 0 or found.documents.get(uri) is not opened_document):
                return None
            await asyncio.wait((found.task,), timeout=left)
        if found is None or found.read is None:
            return None
        await self._with_last_run(found)
        read = found.read
        if read is None or read.documents.get(uri) is not found.documents.get(uri):
            return None
        document = read.documents.get(uri)
        return (read, document, self._places(document)) if document is not None else None

    async def _with_last_run(self, found: _Project) -> None:
        """Add a run that was stored since the reading: not every editor sends notifications about changed files."""
        if found.read is not None and found.reader.has_new_run():
            loop = asyncio.get_running_loop()
            last = await loop.run_in_executor(self._pool, found.reader.last_run)
            if found.read is not None:
                found.read = dataclasses.replace(found.read, last_run=last)

    # Reading

    def _ask(self, wanted: _Project, pause: float = 0.0, *, lenses: bool = False) -> None:
        """Read a project again after a pause; stop a reading in progress."""
        wanted.stop.set()
        wanted.stop = threading.Event()
        wanted.task = asyncio.get_running_loop().create_task(self._reading(wanted, wanted.stop, pause, lenses))

    async def _reading(self, wanted: _Project, stop: threading.Event, pause: float, lenses: bool) -> None:
        await asyncio.sleep(pause)
        if stop.is_set():
            return
        lenses, wanted.files_changed = lenses or wanted.files_changed, False
        documents = wanted.texts()
        began = time.perf_counter()
        loop = asyncio.get_running_loop()
        try:
            read = await loop.run_in_executor(self._pool, wanted.reader.read, documents, stop.is_set)
            if stop.is_set():
                raise StoppedError
            self._trace(f"read in {time.perf_counter() - began:.3f} s")
            wanted.read = read
            self._publish(read, [each for each in documents if each.uri not in wanted.put_off])
        except StoppedError:
            wanted.files_changed |= lenses
            self._trace("stopped reading: there is a later change")
        except Exception:  # a mistake of ours: the next change is read all the same
            wanted.read = None
            self._log("".join(traceback.format_exc(limit=-LAST)))
        # What waited for this reading is answered first: while garbage is collected, nothing else is done.
        loop.call_later(PAUSE / 4, self._collect)
        if lenses and not stop.is_set() and self._can("workspace.code_lens.refresh_support"):
            self._server.workspace_code_lens_refresh(None)
        if wanted.files_changed and not stop.is_set():
            self._ask(wanted, PAUSE, lenses=True)

    def _collect(self) -> None:
        with contextlib.suppress(RuntimeError):  # the server has ended
            self._pool.submit(gc.collect)

    def _publish(self, read: Read, documents: Iterable[Document]) -> None:
        """Publish the results that the editor does not show yet."""
        for document in documents:
            known = read.documents.get(document.uri)
            found = protocol_values.by_uri(read, known, self._places_in) if known is not None else {}
            versions = {cell.uri: cell.version for cell in document.cells} or {document.uri: document.version}
            for uri, version in versions.items():
                shown = version, found.get(uri, [])
                if self._published.get(uri) != shown:
                    self._published[uri] = shown
                    self._server.text_document_publish_diagnostics(
                        types.PublishDiagnosticsParams(uri, shown[1], version)
                    )
        if self._logged.get(read.root, ()) != read.problems:
            self._logged[read.root] = read.problems
            for problem in read.problems:
                self._log(problem)

    # Documents and their locations

    def _path(self, uri: str, language: str) -> Path | None:
        """Return the path of a Python document, saved or not; None for any other."""
        scheme, _, named, *_ = urlparse(uri)
        if scheme == UNSAVED and language == PYTHON:
            path = Path(named) if os.path.isabs(named) else self._tops()[0] / f"{Path(named).name}.py"
        else:
            path = Path(to_fs_path(uri) or "")
            if not path.is_absolute() or (language != PYTHON and path.suffix != ".py"):
                return None
            if path.suffix == NOTEBOOK:  # as a text it is JSON; cells come with their notebook
                return None
        return _real(path)

    def _notebook_path(self, uri: str) -> Path | None:
        """Return the path of a notebook, saved or not."""
        scheme, _, named, *_ = urlparse(uri)
        if scheme == UNSAVED:
            return _real(self._tops()[0] / f"{Path(named).stem}{NOTEBOOK}")
        path = Path(to_fs_path(uri) or "")
        return _real(path) if path.is_absolute() and path.suffix == NOTEBOOK else None

    def _root_of(self, path: Path) -> Path:
        """Return the folder in which to run `tcready check`: the nearest with a pyproject.toml that has a table of
        tcready, else the folder that was opened, else the file's own."""
        holding = [top for top in self._tops() if path.is_relative_to(top)]
        top = max(holding, key=lambda each: len(each.parts), default=None)
        for folder in path.parents:
            try:
                speaks = pyproject.has_table(folder)
            except TcreadyError:  # it is reported once it is read
                speaks = True
            if speaks or folder == top:
                return folder
        return path.parent

    def _tops(self) -> list[Path]:
        """Return the open folders; the working folder if there are none."""
        opened = [folder.uri for folder in self._server.workspace.folders.values()]
        opened = opened or [self._server.workspace.root_uri or ""]
        found = [Path(os.path.realpath(path)) for uri in opened if (path := to_fs_path(uri))]
        return found or [Path.cwd()]

    def _project_of(self, uri: str) -> _Project | None:
        """Return the project of an open document. It changes if a nearer pyproject.toml is created or removed."""
        before = self._where.get(uri)
        if before is None:
            return None
        root = self._root_of(self._projects[before].documents[uri].path)
        if root != before:
            self._opened(self._taken_from(before, uri))
        return self._projects[root]

    def _places(self, document: Document) -> Places:
        return self._places_in(document.text)

    def _places_in(self, text: str) -> Places:
        return Places(text, self._server.workspace.position_codec.client_num_units)

    # What is said beside that

    def _can(self, capability: str) -> Any:
        """Return the editor's value of one of its capabilities; None if it has none."""
        return get_capability(self._server.client_capabilities, capability, None)

    def _log(self, text: str) -> None:
        self._server.window_log_message(types.LogMessageParams(types.MessageType.Error, f"tcready: {text}"))

    def _trace(self, text: str) -> None:
        if self._server.protocol.trace != types.TraceValue.Off:
            self._server.log_trace(types.LogTraceParams(text))


def _real(path: Path) -> Path | None:
    """Return the real path; None if a file cannot have that name."""
    with contextlib.suppress(OSError, ValueError):
        return Path(os.path.realpath(path))
    return None


def _texts_of(document: Document) -> list[str]:
    """Return the URIs with diagnostics of a document: for a notebook, those of its cells."""
    return [cell.uri for cell in document.cells] or [document.uri]


def _word(kind: types.CodeActionKind | str) -> str:
    return kind.value if isinstance(kind, types.CodeActionKind) else kind


def _function(handler: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a function for a method: pygls sets attributes on handlers, which methods do not allow."""

    def handle(params: Any) -> None:
        handler(params)

    return handle


def _coroutine(handler: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
    async def handle(params: Any) -> Any:
        return await handler(params)

    return handle
