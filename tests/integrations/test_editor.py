"""`tcready lsp`, driven by a real client over stdin and stdout: what an editor shows, and when."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import itertools
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import pytest_lsp
from commands import run
from lsprotocol import types
from pygls.protocol import default_converter
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities
from pytest_lsp.client import DEFAULT_CLIENT_FEATURES, register_lsp_features
from reading import BREAKING, HELPER, NET
from tcready import api
from tcready.cli.arguments import settings_at
from tcready.integrations.lsp.language_server import LAST_RUN, LONGEST, MODELS, PAUSE, WAITED_FOR
from tcready.integrations.lsp.open_files import MOST_CLOSED, Document, OpenFilesReader
from tcready.pipeline import explanation, registry
from tcready.schema.code_line import Frame
from tcready.schema.observation import Observation, Stage
from tcready.schema.run import BreakSite, Coverage, LineSet, Recompile, SkippedFrame
from tcready.source.edits import apply_edits
from tcready.static.frontend.noqa import hiding_edit
from tcready.static.frontend.source import of_text

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SERVER = [sys.executable, "-m", "tcready", "lsp"]
PATIENCE = 60.0
"""Seconds to wait for what must come: a loaded machine is slow."""
in_one_loop = pytest.mark.asyncio(loop_scope="module")
PRINTING = """\
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        print("seen", x.shape)
        return x + 1
"""
SPLITTING = """\
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x + 1
        return x
"""
CLEAN = dedent("""\
    from torch import nn


    class Net(nn.Module):
        def forward(self, x):
            return x + 1
""")


def new_client() -> LanguageClient:
    """A client that keeps all that it is told, in order."""
    client = LanguageClient(converter_factory=default_converter)
    client.published = []
    client.traced = []
    client.refreshed = []
    client.watched = []

    def published(params: types.PublishDiagnosticsParams) -> None:
        client.published.append(params)

    def traced(params: types.LogTraceParams) -> None:
        client.traced.append(params.message)

    def refreshed(_params: None) -> None:
        client.refreshed.append(time.monotonic())

    def registered(params: types.RegistrationParams) -> None:
        client.watched += params.registrations

    register_lsp_features(
        client,
        {
            **DEFAULT_CLIENT_FEATURES,
            types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS: published,
            types.LOG_TRACE: traced,
            types.WORKSPACE_CODE_LENS_REFRESH: refreshed,
            types.CLIENT_REGISTER_CAPABILITY: registered,
        },
    )
    return client


@pytest_lsp.fixture(scope="module", config=ClientServerConfig(server_command=SERVER, client_factory=new_client))
async def vscode(lsp_client: LanguageClient, tmp_path_factory: pytest.TempPathFactory):
    """An editor that can do all that is asked of one, with a folder open."""
    folder = tmp_path_factory.mktemp("workspace").resolve()
    lsp_client.folder = folder
    await lsp_client.initialize_session(
        types.InitializeParams(
            capabilities=client_capabilities("visual-studio-code"),
            workspace_folders=[types.WorkspaceFolder(folder.as_uri(), "workspace")],
            trace=types.TraceValue.Messages,
        )
    )
    yield
    await lsp_client.shutdown_session()


@pytest_lsp.fixture(scope="module", config=ClientServerConfig(server_command=SERVER, client_factory=new_client))
async def plain(lsp_client: LanguageClient, tmp_path_factory: pytest.TempPathFactory):
    """An editor that can do the least, and counts columns in characters."""
    lsp_client.folder = tmp_path_factory.mktemp("plain").resolve()
    encodings = [types.PositionEncodingKind.Utf32, types.PositionEncodingKind.Utf16]
    await lsp_client.initialize_session(
        types.InitializeParams(
            capabilities=types.ClientCapabilities(
                general=types.GeneralClientCapabilities(position_encodings=encodings)
            ),
            root_uri=lsp_client.folder.as_uri(),
        )
    )
    yield
    await lsp_client.shutdown_session()


NUMBERS = itertools.count()


class Project:
    """A folder of its own below the one that an editor has open, and what somebody does with its files there."""

    def __init__(self, client: LanguageClient, settings: str = "") -> None:
        self.client = client
        self.folder = client.folder / f"project_{next(NUMBERS)}"
        self.folder.mkdir()
        self.configure(settings)
        self.versions: dict[str, int] = {}
        self.texts: dict[str, str] = {}

    def configure(self, settings: str) -> None:
        (self.folder / "pyproject.toml").write_text(f'[tool.tcready]\nfail-on = "error"\n{settings}')

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str, *, saved: bool = True, uri: str = "", language: str = "python") -> str:
        """Opens a file, which is there if it is `saved`; gives its URI."""
        if saved:
            (self.folder / name).write_bytes(text.encode())
        uri = uri or self.uri(name)
        self.versions[uri], self.texts[uri] = 1, text
        item = types.TextDocumentItem(uri, language, 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return uri

    def type(self, uri: str, text: str) -> int:
        """Changes a text; gives its version."""
        self.versions[uri] += 1
        self.texts[uri] = text
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(uri=uri, version=self.versions[uri]),
                [types.TextDocumentContentChangeWholeDocument(text)],
            )
        )
        return self.versions[uri]

    def save(self, uri: str) -> None:
        document = types.TextDocumentIdentifier(uri)
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(document))

    def close(self, uri: str) -> None:
        document = types.TextDocumentIdentifier(uri)
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(document))

    def changed_on_disk(self, name: str) -> None:
        event = types.FileEvent(self.uri(name), types.FileChangeType.Changed)
        self.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))

    async def told(self, uri: str) -> list[types.Diagnostic]:
        """What is shown of the text as it stands, once that was read."""
        return list((await until(lambda: self._last(uri, self.versions[uri]))).diagnostics)

    def _last(self, uri: str, version: int) -> types.PublishDiagnosticsParams | None:
        about = [each for each in self.client.published if each.uri == uri]
        return about[-1] if about and about[-1].version == version else None

    async def codes(self, uri: str) -> list[str]:
        return [str(each.code) for each in await self.told(uri)]

    async def _read(self, uri: str) -> None:
        """Waits until a text was read as it stands, if it is one that is read: on a loaded machine that may take longer than
        a hover or an action waits."""
        if any(each.uri == uri for each in self.client.published):
            await self.told(uri)

    async def hover(self, uri: str, line: int, character: int) -> types.Hover | None:
        await self._read(uri)
        document = types.TextDocumentIdentifier(uri)
        position = types.Position(line, character)
        return await self.client.text_document_hover_async(types.HoverParams(document, position))

    async def actions(
        self, uri: str, line: int, character: int, only: Sequence[str] | None = None
    ) -> Sequence[types.CodeAction]:
        cursor = types.Position(line, character)
        await self._read(uri)
        return (
            await self.client.text_document_code_action_async(
                types.CodeActionParams(
                    types.TextDocumentIdentifier(uri),
                    types.Range(cursor, cursor),
                    types.CodeActionContext([], only=only),
                )
            )
            or []
        )

    async def ask(self, method: str, uri: str) -> dict[str, Any] | None:
        """What the server answers to a request of its own about a document."""
        answer = await self.client.protocol.send_request_async(method, {"textDocument": {"uri": uri}})
        return plain_values(answer)

    async def states(self, uri: str) -> dict[int, str]:
        """How each line ran, 1-based."""
        answer = await self.ask(LAST_RUN, uri)
        return {line + 1: each["state"] for each in answer["lines"] for line in range(each["start"], each["end"] + 1)}

    async def lenses(self, uri: str) -> dict[int, str]:
        """What stands above each line, 1-based."""
        document = types.TextDocumentIdentifier(uri)
        found = await self.client.text_document_code_lens_async(types.CodeLensParams(document))
        return {each.range.start.line + 1: each.command.title for each in found or () if each.command}


def plain_values(answer: Any) -> Any:
    """An answer as dicts and lists: pygls makes named tuples of objects that the protocol does not know."""
    if hasattr(answer, "_asdict"):
        return {name: plain_values(value) for name, value in answer._asdict().items()}
    return [plain_values(each) for each in answer] if isinstance(answer, list) else answer


async def until(found: Callable[[], object]):
    """What `found` gives as soon as it gives something."""
    end = time.monotonic() + PATIENCE
    while not (value := found()):
        assert time.monotonic() < end, "nothing came"
        await asyncio.sleep(0.005)
    return value


def with_edits(text: str, edits: Sequence[types.TextEdit], encoding: str = "utf-16-le", unit: int = 2) -> str:
    """A text after edits, as an editor carries them out: places are those of `text`, columns in UTF-16."""
    lines = text.split("\n")

    def index(place: types.Position) -> int:
        before = sum(len(line) + 1 for line in lines[: place.line])
        inside = lines[place.line].encode(encoding)[: place.character * unit] if place.line < len(lines) else b""
        return before + len(inside.decode(encoding))

    for edit in sorted(edits, key=lambda each: pairs(each.range)[:2])[::-1]:
        text = text[: index(edit.range.start)] + edit.new_text + text[index(edit.range.end) :]
    return text


def pairs(span: types.Range) -> tuple[int, int, int, int]:
    return span.start.line, span.start.character, span.end.line, span.end.character


# what is shown


@in_one_loop
async def test_what_is_shown_is_what_a_check_tells(
    vscode: LanguageClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    severity = {"error": 1, "warning": 2, "note": 3}
    project = Project(vscode, "low = true\n")
    monkeypatch.chdir(project.folder)
    seen = 0
    for name in ("vq_logging.py", "moe_router.py", "kv_cache_decoder.py", "clean_unet.py"):
        uri = project.open(name, (FIXTURES / "models" / name).read_text("utf-8"))
        shown = await project.told(uri)
        run("check", name, "--no-run", "--no-cache", "--output-format", "json")
        report = json.loads(capsys.readouterr().out)
        expected = [
            (
                *(f["rule"], f["message"], severity[f["level"]]),
                *(f["line"] - 1, f["column"] - 1, f["end_line"] - 1, f["end_column"] - 1),
            )
            for f in report["findings"]
            if f["path"] == name
        ]
        assert [(d.code, d.message, d.severity, *pairs(d.range)) for d in shown] == expected
        assert all(d.source == "tcready" for d in shown)
        seen += len(expected)
        project.close(uri)
    assert seen > 5


@in_one_loop
async def test_typing_and_saving(vscode: LanguageClient) -> None:
    project = Project(vscode)
    uri = project.open("net.py", CLEAN)
    assert await project.codes(uri) == []
    project.type(uri, PRINTING)
    assert await project.codes(uri) == ["TCR301"]
    project.type(uri, SPLITTING)
    project.save(uri)
    assert await project.codes(uri) == ["TCR101"]
    assert sorted(path.name for path in project.folder.iterdir()) == ["net.py", "pyproject.toml"]
    assert (project.folder / "net.py").read_text() == CLEAN, "the server writes nothing"


@in_one_loop
async def test_a_change_of_a_helper_shows_where_it_is_used(vscode: LanguageClient) -> None:
    project = Project(vscode)
    helper = project.open("helper.py", HELPER)
    net = project.open("net.py", NET)
    assert await project.codes(net) == ["TCR101"]
    assert await project.codes(helper) == []
    project.type(helper, BREAKING)
    assert await project.codes(helper) == ["TCR201"]
    project.close(net)
    project.type(helper, BREAKING + "\n")
    assert await project.codes(helper) == [], "no open file calls it"
    (project.folder / "helper.py").write_text(BREAKING)
    project.close(helper)
    net = project.open("net.py", NET.replace("x.sum() > 0", "x is None"))
    assert await project.codes(net) == []  # what it finds stands in a file that is not open
    assert (await project.lenses(net))[7] == "tcready: not run; 1 break predicted"


@in_one_loop
async def test_of_many_quick_changes_only_the_last_is_read(vscode: LanguageClient) -> None:
    project = Project(vscode)
    uri = project.open("net.py", CLEAN)
    await project.told(uri)
    before = len(vscode.published)
    for number in range(40):
        project.type(uri, (PRINTING if number % 2 else SPLITTING) + "\n" * number)
    last = project.versions[uri]
    assert await project.codes(uri) == ["TCR301"]
    await asyncio.sleep(0.4)
    told = [each.version for each in vscode.published[before:] if each.uri == uri]
    assert told[-1] == last
    assert len(told) <= 2, "a loaded machine may let one pause end in between"


def deep(width: int) -> str:
    """A file that takes seconds: every function calls the next ones under several situations."""
    functions = [
        f"def f{n}(x, a, b):\n"
        + "".join(
            f"    if a == {k}:\n        x = f{n + 1}(x, {k}, b)\n    else:\n        x = f{n + 1}(x, b, {k})\n"
            for k in range(6)
        )
        + "    return x\n"
        for n in range(width)
    ]
    last = f"def f{width}(x, a, b):\n    return x\n"
    return "\n".join([*functions, last, CLEAN.replace("x + 1", "f0(x, x.shape, self.k)")])


@in_one_loop
async def test_a_reading_that_a_change_makes_stale_is_stopped(vscode: LanguageClient) -> None:
    project = Project(vscode)
    before = len(vscode.traced)
    uri = project.open("net.py", deep(40))
    await asyncio.sleep(0.3)  # it is being read
    project.type(uri, PRINTING)
    project.save(uri)
    assert await project.codes(uri) == ["TCR301"]
    assert [each.version for each in vscode.published if each.uri == uri] == [2]
    assert any(text.startswith("stopped reading") for text in vscode.traced[before:])


@in_one_loop
async def test_a_broken_text_keeps_telling_where_it_breaks(vscode: LanguageClient) -> None:
    project = Project(vscode)
    uri = project.open("net.py", PRINTING)
    assert await project.codes(uri) == ["TCR301"]
    project.type(uri, PRINTING.replace("x + 1", "(x + 1"))
    (broken,) = await project.told(uri)
    assert broken.message == "syntax error in line 7: '(' was never closed"
    assert broken.severity == types.DiagnosticSeverity.Error
    assert pairs(broken.range)[:2] == (6, 15)
    assert await project.hover(uri, 5, 10) is None
    assert await project.actions(uri, 5, 10) == []
    assert await project.lenses(uri) == {}
    for odd in ("\0", "def", "x = '\ud800'", "\ufeff" + PRINTING, "# coding: no-such\nimport torch\n", ""):
        project.type(uri, odd)
        await project.told(uri)
    project.type(uri, "an unfinished (sentence")
    assert await project.told(uri) == [], "it does not name torch: others tell of its syntax"
    project.type(uri, PRINTING)
    assert await project.codes(uri) == ["TCR301"]


@in_one_loop
async def test_a_comment_that_hides_nothing_is_shown(vscode: LanguageClient) -> None:
    project = Project(vscode)
    uri = project.open("net.py", CLEAN.replace("x + 1", "x + 1  # noqa: TCR301"))
    (idle,) = await project.told(uri)
    assert idle.message == "unused noqa TCR301"
    assert pairs(idle.range) == (5, 22, 5, 36)
    assert list(idle.tags) == [types.DiagnosticTag.Unnecessary]


# what can be done


@in_one_loop
async def test_a_safe_change_is_offered_carried_out_and_read_clean(vscode: LanguageClient) -> None:
    project = Project(vscode)
    uri = project.open("net.py", PRINTING)
    (shown,) = await project.told(uri)
    change, hide = await project.actions(uri, 5, 10)
    assert change.title.startswith("TCR301: Runs in eager mode only")
    assert change.kind == types.CodeActionKind.QuickFix
    assert change.is_preferred
    assert list(change.diagnostics) == [shown]
    for action in (change, hide):
        (edit,) = action.edit.document_changes
        assert edit.text_document == types.OptionalVersionedTextDocumentIdentifier(uri, 1)
        after = with_edits(PRINTING, edit.edits)
        assert after != PRINTING
        project.type(uri, after)
        assert await project.told(uri) == []
    assert "# noqa: TCR301" in after
    project.type(uri, PRINTING)
    assert len(await project.actions(uri, 5, 10, only=["quickfix"])) == 2
    assert await project.actions(uri, 5, 10, only=["refactor"]) == []
    assert await project.actions(uri, 0, 0) == []


@in_one_loop
async def test_a_change_that_is_not_safe_says_why_it_is_not_made(vscode: LanguageClient) -> None:
    project = Project(vscode)
    uri = project.open("net.py", SPLITTING)
    unsafe, hide = await project.actions(uri, 5, 12)
    assert unsafe.edit is None
    assert unsafe.disabled.reason.startswith("not safe: ")
    assert hide.title == "TCR101: hide it with `# noqa: TCR101`"


HIDDEN = [
    ("print(x)", "print(x)  # noqa: TCR301"),
    ("print(x)  ", "print(x)  # noqa: TCR301"),
    ("print(x)  # why", "print(x)  # why  # noqa: TCR301"),
    ("print(x)  # noqa: TCR201", "print(x)  # noqa: TCR201, TCR301"),
    ("print(x)  # noqa: E501  # why", "print(x)  # noqa: E501, TCR301  # why"),
    ('print("# noqa: E501")', 'print("# noqa: E501")  # noqa: TCR301'),
    ('print("""a\nb""")', 'print("""a\nb""")  # noqa: TCR301'),
    ("print(\n    x)", "print(  # noqa: TCR301\n    x)"),
    ("print(x), \\\n    x", "print(x), \\\n    x  # noqa: TCR301"),
    ('x = """\nprint(x)\n"""', None),
]
CONTINUED = """\
from torch import nn


class Net(nn.Module):
    def forward(self, x, y):
        if x.sum() > 1 and \\
                y.sum() > 2:
            x = x + 1
        for row in x.tolist() \\
                \\
                :
            x = x + row
        while x.sum() > 3 \\
                and (y.sum() > 4 and
                     y.sum() > 5):
            x = x - 1
        return x
"""


@pytest.mark.parametrize(("text", "expected"), HIDDEN, ids=range(len(HIDDEN)))
def test_a_comment_goes_where_it_hides(text: str, expected: str | None) -> None:
    source = of_text(Path("net.py"), text + "\n")
    first = 2 if expected is None else 1
    edit = hiding_edit(source, "net.py", first, max(first, text.count("\n") + (expected is not None)), "TCR301")
    if expected is None:
        assert edit is None
    else:
        assert edit is not None
        assert apply_edits(text + "\n", (edit,)) == expected + "\n"


def test_a_comment_behind_a_header_that_goes_on_after_a_backslash_hides(tmp_path: Path) -> None:
    """What the editor offers makes the finding go, whichever of its operands it is about."""
    path = tmp_path / "net.py"
    path.write_text(CONTINUED)
    left = {found.line for found in api.check([str(path)], run=False, root=tmp_path).findings}
    assert left == {6, 9, 13}
    for line in sorted(left):
        (found,) = (f for f in api.check([str(path)], run=False, root=tmp_path).findings if f.line == line)
        source = of_text(path, path.read_text())
        edit = hiding_edit(source, "net.py", line, max(found.end_line, line), found.rule or "")
        assert edit is not None
        path.write_text(apply_edits(path.read_text(), (edit,)))
        left.discard(line)
        report = api.check([str(path)], run=False, root=tmp_path)
        assert {each.line for each in report.findings} == left
        assert report.unused == ()


def test_a_comment_that_ends_in_a_backslash_goes_on_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text(PRINTING.replace("x.shape)", "x.shape)  # C:\\\n        y = 1  # noqa: TCR301"))
    assert "# C:\\\n        y = 1  # noqa" in path.read_text()
    assert [found.rule for found in api.check([str(path)], run=False, root=tmp_path).findings] == ["TCR301"]


@in_one_loop
async def test_what_python_would_read_otherwise_is_not_changed(vscode: LanguageClient) -> None:
    project = Project(vscode)
    for text in ("\ufeff" + PRINTING, "# coding: latin-1\n" + PRINTING.replace("seen", "\U0001f600")):
        uri = project.open("net.py", text, saved=False)
        (shown,) = await project.told(uri)
        assert await project.actions(uri, shown.range.start.line, 10) == []
        project.close(uri)


# notebooks


class Notebook:
    """A notebook that an editor has open, and what somebody does with its cells."""

    def __init__(self, project: Project, name: str, cells: Sequence[tuple[str, str]]) -> None:
        """`cells`: the language of each, and its text."""
        self.project, self.name, self.version = project, name, 1
        self.uri = project.uri(name)
        self.numbers = itertools.count()
        self.items = [self._item(language, text) for language, text in cells]
        project.client.notebook_document_did_open(
            types.DidOpenNotebookDocumentParams(
                types.NotebookDocument(self.uri, "jupyter-notebook", 1, [self._cell(i) for i in self.items]), self.items
            )
        )

    def _item(self, language: str, text: str) -> types.TextDocumentItem:
        uri = self.uri.replace("file:", "vscode-notebook-cell:") + f"#W{next(self.numbers)}"
        self.project.versions[uri] = 1
        return types.TextDocumentItem(uri, language, 1, text)

    @staticmethod
    def _cell(item: types.TextDocumentItem) -> types.NotebookCell:
        code = item.language_id == "python"
        kind = types.NotebookCellKind.Code if code else types.NotebookCellKind.Markup
        return types.NotebookCell(kind, item.uri)

    def _changed(self, cells: types.NotebookDocumentCellChanges) -> None:
        self.version += 1
        self.project.client.notebook_document_did_change(
            types.DidChangeNotebookDocumentParams(
                types.VersionedNotebookDocumentIdentifier(version=self.version, uri=self.uri),
                types.NotebookDocumentChangeEvent(cells=cells),
            )
        )

    def type(self, at: int, text: str) -> None:
        item = self.items[at]
        self.project.versions[item.uri] += 1
        document = types.VersionedTextDocumentIdentifier(uri=item.uri, version=self.project.versions[item.uri])
        change = types.NotebookDocumentCellContentChanges(
            document, [types.TextDocumentContentChangeWholeDocument(text)]
        )
        self._changed(types.NotebookDocumentCellChanges(text_content=[change]))

    def put(self, at: int, delete: int, cells: Sequence[tuple[str, str]]) -> list[types.TextDocumentItem]:
        """Puts cells in place of so many others; gives those that are gone."""
        new = [self._item(language, text) for language, text in cells]
        gone = self.items[at : at + delete]
        self.items[at : at + delete] = new
        self._changed(
            types.NotebookDocumentCellChanges(
                structure=types.NotebookDocumentCellChangeStructure(
                    array=types.NotebookCellArrayChange(at, delete, [self._cell(i) for i in new]),
                    did_open=new,
                    did_close=[types.TextDocumentIdentifier(i.uri) for i in gone],
                )
            )
        )
        return gone

    async def told(self) -> list[list[tuple[str, int, int]]]:
        """The code, the line and the character of what is shown in each cell, once that is of the cell as it is."""
        found = [await self.project.told(item.uri) for item in self.items]
        return [[(str(d.code), d.range.start.line, d.range.start.character) for d in each] for each in found]

    async def becomes(self, expected: list[list[tuple[str, int, int]]]) -> None:
        async def settled() -> bool:
            return await self.told() == expected

        end = time.monotonic() + PATIENCE
        while not await settled():
            assert time.monotonic() < end, await self.told()
            await asyncio.sleep(0.02)


CELL = dedent("""\
    class Net(nn.Module):
        def forward(self, x):
            print(helper(x))
            return x""")


@in_one_loop
async def test_a_notebook_is_one_program_and_each_cell_shows_its_own(vscode: LanguageClient) -> None:
    project = Project(vscode)
    notebook = Notebook(
        project,
        "nb.ipynb",
        [
            ("markdown", "# print(x) in words"),
            ("python", "%matplotlib inline\nfrom torch import nn"),
            ("python", "def helper(y):\n    return y.item()"),
            ("python", CELL),
        ],
    )
    await notebook.becomes([[], [], [("TCR201", 1, 11)], [("TCR301", 2, 8)]])
    hovered = await project.hover(notebook.items[3].uri, 2, 10)
    assert hovered is not None
    assert "TCR301" in hovered.contents.value
    assert hovered.range is not None
    assert hovered.range.start.line == 2
    assert await project.hover(notebook.items[2].uri, 0, 1) is None

    notebook.type(2, "# one line more\ndef helper(y):\n    return y + 1")
    await notebook.becomes([[], [], [], [("TCR301", 2, 8)]])
    notebook.type(2, "def helper(y:\n    return y")
    broken = await until(
        lambda: [
            each.diagnostics
            for each in vscode.published
            if each.uri == notebook.items[2].uri
            and each.diagnostics
            and "syntax error in cell 3, line 1" in each.diagnostics[0].message
        ]
    )
    assert broken[-1][0].range.start.line == 0
    await notebook.becomes([[], [], [("None", 0, 10)], []])

    (gone,) = notebook.put(2, 1, [("python", "def helper(y):\n    return y.tolist()  # noqa: TCR202")])
    assert [each.diagnostics for each in vscode.published if each.uri == gone.uri][-1]
    await notebook.becomes([[], [], [], [("TCR301", 2, 8)]])
    assert not [each.diagnostics for each in vscode.published if each.uri == gone.uri][-1]
    notebook.put(0, 0, [("python", "if True:\n    pass")])
    await notebook.becomes([[], [], [], [], [("TCR301", 2, 8)]])
    notebook.type(4, ">>> " + CELL.replace("\n", "\n... "))
    await notebook.becomes([[], [], [], [], [("TCR301", 2, 12)]])

    vscode.notebook_document_did_close(
        types.DidCloseNotebookDocumentParams(
            types.NotebookDocumentIdentifier(notebook.uri),
            [types.TextDocumentIdentifier(item.uri) for item in notebook.items],
        )
    )
    last = notebook.items[4].uri
    await until(lambda: not [each.diagnostics for each in vscode.published if each.uri == last][-1])
    # and what a file is told is as before
    assert await project.codes(project.open("net.py", PRINTING)) == ["TCR301"]


# what is said of it


@in_one_loop
async def test_hover_tells_of_a_finding(vscode: LanguageClient) -> None:
    project = Project(vscode)
    uri = project.open("net.py", PRINTING)
    found = await project.hover(uri, 5, 10)
    assert found.contents.kind == types.MarkupKind.Markdown
    said = found.contents.value
    for words in ("**TCR301** print-call (error, graph break, high confidence)", "**Why it hurts:** Printing is"):
        assert words in said
    assert "`print` in compiled code" in said
    assert "`tcready rule TCR301`" in said
    assert "last run" not in said
    assert len(said) < 3000
    assert await project.hover(uri, 0, 0) is None


@in_one_loop
async def test_what_stands_in_the_source_is_no_markup(vscode: LanguageClient) -> None:
    project = Project(vscode)
    odd = '"![a](https://example.org/x.png) <b>*`"'
    uri = project.open("net.py", SPLITTING.replace("x.sum() > 0", f"x.sum() > len({odd})"))
    said = (await project.hover(uri, 5, 12)).contents.value
    assert "example.org" in said
    assert "![a](https" not in said
    assert "<b>" not in said


@pytest.fixture
def ran(vscode: LanguageClient, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with a run that was made elsewhere, kept as the last one."""
    project = Project(vscode)
    for name in ("model.py", "seen.json"):
        shutil.copy(FIXTURES / "many" / name, project.folder)
    monkeypatch.chdir(project.folder)
    run("check", "model.py", "--observation", "seen.json", "-o", "report.txt")
    return project


@in_one_loop
async def test_the_last_run_is_told_as_long_as_the_code_is_the_same(ran: Project) -> None:
    text = (ran.folder / "model.py").read_text()
    uri = ran.open("model.py", text)
    above = await ran.lenses(uri)
    forwards = [n for n, line in enumerate(text.splitlines(), 1) if "def forward" in line]
    assert sorted(above) == forwards
    assert above[77] == "tcready: ready by region; in graphs: 60 % of the operations, 72 % of their time"
    assert above[34] == "tcready: 15 % of its operations in graphs, in model.py::Model"
    said = (await ran.hover(uri, 40, 20)).contents.value
    assert "**In the last run** of `model.py::Model`: confirmed by Dynamo: GB0170" in said
    assert "in a warm call" in said
    ran.type(uri, text + "\n")
    assert (await ran.lenses(uri))[77].endswith("of their time (the code changed since)")
    said = (await ran.hover(uri, 40, 20)).contents.value
    assert "**The last run** of `model.py::Model` was of other code: `model.py` changed since." in said
    assert "In the last run" not in said
    assert "confirmed" not in said
    assert "in a warm call" not in said
    ran.type(uri, text)
    said = (await ran.hover(uri, 40, 20)).contents.value
    assert "**In the last run**" in said
    assert "was of other code" not in said


@in_one_loop
async def test_hover_tells_what_only_the_run_showed(vscode: LanguageClient) -> None:
    project = Project(vscode)
    report = api.load(FIXTURES / "reports" / "planned.json")
    (alone,) = [found for found in report.findings if found.status == "runtime_only"]
    (source,) = [each for each in report.sources if each.path == alone.path]
    explanation.keep(report, project.folder)
    uri = project.open(alone.path, source.text)
    said = (await project.hover(uri, alone.line - 1, 0)).contents.value
    assert said.startswith(f"**{alone.gb_ids[0]}** {alone.name} ")
    assert "seen only in the run" in said
    project.type(uri, source.text + "\n")
    assert await project.hover(uri, alone.line - 1, 0) is None


@in_one_loop
async def test_lines_show_how_they_ran_as_long_as_the_code_is_the_same(ran: Project) -> None:
    text = (ran.folder / "model.py").read_text()
    uri = ran.open("model.py", text)
    answer = await ran.ask(LAST_RUN, uri)
    assert (answer["targets"], answer["changed"]) == (["model.py::Model"], [])
    report = explanation.stored_report(ran.folder)
    assert report is not None
    (seen,) = [target.observation for target in report.targets]
    states = await ran.states(uri)
    broke = {line for line, state in states.items() if state == "broke"}
    assert broke == {site.line for site in seen.break_sites if site.path == "model.py"} != set()
    (ranges,) = [each.ranges for each in seen.executed if each.path == "model.py"]
    executed = {line for first, last in ranges for line in range(first, last + 1)}
    assert {line for line, state in states.items() if state in ("graph", "eager")} <= executed
    assert {"graph", "eager"} <= {*states.values()}
    texts = {line: each["text"] for each in answer["lines"] for line in range(each["start"] + 1, each["end"] + 2)}
    assert texts[41].startswith("graph break GB0170"), texts
    ran.type(uri, text + "\n")
    answer = await ran.ask(LAST_RUN, uri)
    assert answer == {"targets": [], "changed": ["model.py"], "lines": []}
    ran.type(uri, text)
    assert await ran.states(uri) == states


@in_one_loop
async def test_a_line_shows_the_worst_of_what_several_runs_saw(vscode: LanguageClient) -> None:
    project = Project(vscode)
    text = "\n".join(["def f(x):", *["    x = x + 1"] * 8, "    return x", ""])
    frame, digest = Frame("net.py", 5, "f"), hashlib.sha256(text.encode()).hexdigest()
    site = BreakSite("torch/_dynamo/any.py", 3, "g", "a reason\nand more", "GB0001", 2, "third_party", (frame,))
    failed = Recompile("net.py", 1, "f", ("x differs",), lines=(Frame("net.py", 7, "f"), frame))
    seen = Observation(
        "net.py::f",
        None,
        "infer",
        (Stage("capture", "pass", ""),),
        {},
        coverage=Coverage(4, 3, 0.75),
        digests=(("net.py", digest),),
        executed=(LineSet("net.py", ((2, 10),)),),
        traced=(LineSet("net.py", ((1, 8), (10, 10))),),
    )
    other = dataclasses.replace(
        seen,
        target="net.py::g",
        break_sites=(site,),
        recompiles=(failed,),
        skipped_frames=(
            SkippedFrame("net.py", 3, "h", "", benign=False, end_line=4),
            SkippedFrame("net.py", 8, "k", "", benign=True, end_line=8),
        ),
        executed=(LineSet("net.py", ((2, 8),)),),
    )
    report = api.load(FIXTURES / "reports" / "planned.json")
    (target, *_) = report.targets
    targets = tuple(dataclasses.replace(target, observation=each) for each in (seen, other))
    explanation.keep(dataclasses.replace(report, targets=targets, findings=()), project.folder)
    uri = project.open("net.py", text)
    shown = "recompiled graph eager eager broke graph recompiled graph eager graph".split()
    assert await project.states(uri) == dict(enumerate(shown, 1))
    answer = await project.ask(LAST_RUN, uri)
    assert {each["text"] for each in answer["lines"]} == {
        "ran in a graph",
        "ran eagerly: Dynamo gave up `h`",
        "ran eagerly: Dynamo did not trace it",
        "graph break GB0001 (2 events): a reason",
        "`f` was recompiled: x differs",
    }


@in_one_loop
async def test_what_was_not_run_has_no_lines(vscode: LanguageClient) -> None:
    project = Project(vscode)
    uri = project.open("net.py", CLEAN)
    assert await project.ask(LAST_RUN, uri) is None
    assert await project.ask(LAST_RUN, project.uri("never_opened.py")) is None
    assert await project.ask(MODELS, project.uri("never_opened.py")) is None


@in_one_loop
async def test_the_models_of_a_file_are_named_as_a_check_names_them(vscode: LanguageClient) -> None:
    project = Project(vscode)
    other = PRINTING.partition("\n\n\n")[2].replace("Net", "Other")
    text = f"{PRINTING}\n\n@final\n{other}\n\nclass Plain:\n    pass\n"
    uri = project.open("net.py", text)
    answer = await project.ask(MODELS, uri)
    assert answer == {
        "root": str(project.folder),
        "path": "net.py",
        "models": [{"target": "net.py::Net", "start": 3, "end": 6}, {"target": "net.py::Other", "start": 9, "end": 13}],
    }
    project.type(uri, text + "(")
    assert (await project.ask(MODELS, uri))["models"] == []


@in_one_loop
async def test_a_new_run_shows_without_an_edit(ran: Project) -> None:
    cache = ran.folder / ".tcready_cache"
    cache.rename(ran.folder / "elsewhere")
    uri = ran.open("model.py", (ran.folder / "model.py").read_text())
    assert "not run; " in (await ran.lenses(uri))[77]
    (ran.folder / "elsewhere").rename(cache)
    assert {each.method for each in ran.client.watched} == {"workspace/didChangeWatchedFiles"}
    before = len(ran.client.refreshed)
    ran.changed_on_disk(".tcready_cache/any.json")
    await until(lambda: len(ran.client.refreshed) > before)
    assert "ready by region" in (await ran.lenses(uri))[77]


@in_one_loop
async def test_a_new_run_shows_to_an_editor_that_watches_no_files(
    plain: LanguageClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(plain)
    for name in ("model.py", "seen.json"):
        shutil.copy(FIXTURES / "many" / name, project.folder)
    text = (project.folder / "model.py").read_text()
    uri = project.open("model.py", text)
    await project.told(uri)
    assert "not run; " in (await project.lenses(uri))[77]
    assert "last run" not in (await project.hover(uri, 40, 20)).contents.value
    monkeypatch.chdir(project.folder)
    run("check", "model.py", "--observation", "seen.json", "-o", "report.txt")
    assert "ready by region" in (await project.lenses(uri))[77]
    assert "In the last run" in (await project.hover(uri, 40, 20)).contents.value
    report = explanation.stored_report(project.folder)
    assert report is not None
    explanation.keep(dataclasses.replace(report, findings=()), project.folder)
    assert "last run" not in (await project.hover(uri, 40, 20)).contents.value


@in_one_loop
async def test_a_run_of_a_file_that_is_gone_is_not_fresh(ran: Project) -> None:
    text = (ran.folder / "model.py").read_text()
    report = explanation.stored_report(ran.folder)
    assert report is not None
    (target,) = report.targets
    helper, installed_file = b"# of the project\n", "package/of/others.py"
    digests = (("gone.py", hashlib.sha256(helper).hexdigest()), (installed_file, "0" * 64))
    seen = dataclasses.replace(target.observation, digests=(*target.observation.digests, *digests))
    (ran.folder / "gone.py").write_bytes(helper)
    explanation.keep(dataclasses.replace(report, targets=(dataclasses.replace(target, observation=seen),)), ran.folder)
    uri = ran.open("model.py", text)
    assert "changed since" not in (await ran.lenses(uri))[77]
    (ran.folder / "gone.py").unlink()
    assert (await ran.lenses(uri))[77].endswith("(the code changed since)")
    assert "`gone.py` changed since" in (await ran.hover(uri, 40, 20)).contents.value


@in_one_loop
async def test_nobody_waits_for_a_text_that_takes_long_to_read(vscode: LanguageClient) -> None:
    project = Project(vscode)
    uri, *others = [project.open(f"net_{number}.py", deep(40)) for number in range(8)]  # together they take seconds
    document, place = types.TextDocumentIdentifier(uri), types.Position(5, 10)
    began = time.monotonic()
    asked = types.CodeActionParams(document, types.Range(place, place), types.CodeActionContext([]))
    assert not await vscode.text_document_code_action_async(asked)
    took = time.monotonic() - began
    assert WAITED_FOR - 0.5 < took < WAITED_FOR + 3
    assert not [each for each in vscode.published if each.uri == uri], "it is still being read"
    for other in others:
        project.close(other)
    hovering = asyncio.create_task(vscode.text_document_hover_async(types.HoverParams(document, place)))
    await asyncio.sleep(0.05)
    began = time.monotonic()
    while not hovering.done() and time.monotonic() < began + PATIENCE:
        project.type(uri, f"{PRINTING}# {time.monotonic()}")  # somebody types on: the reading waits for a pause
        await asyncio.sleep(PAUSE / 4)
    assert await hovering is None, "it asked about another text"
    assert await project.codes(uri) == ["TCR301"]


@in_one_loop
async def test_a_very_long_file_is_read_when_it_is_saved(vscode: LanguageClient) -> None:
    project = Project(vscode)
    uri = project.open("long.py", PRINTING + "#\n" * LONGEST)
    assert await project.codes(uri) == ["TCR301"]
    version = project.type(uri, CLEAN + "#\n" * LONGEST)
    short = project.open("short.py", CLEAN)
    assert await project.codes(short) == []
    project.type(uri, SPLITTING + "#\n" * LONGEST)
    await asyncio.sleep(4 * PAUSE)
    assert not [each for each in vscode.published if each.uri == uri and (each.version or 0) > version]
    project.save(uri)
    assert await project.codes(uri) == ["TCR101"]


@in_one_loop
async def test_typing_in_a_very_long_file_leaves_the_others_to_be_read(vscode: LanguageClient) -> None:
    project = Project(vscode)
    long = project.open("long.py", PRINTING + "#\n" * LONGEST)
    short = project.open("short.py", CLEAN)
    assert await project.codes(long) == ["TCR301"]
    assert await project.codes(short) == []
    project.type(short, SPLITTING)
    project.type(long, CLEAN + "#\n" * LONGEST)
    assert await project.codes(short) == ["TCR101"]
    assert project._last(long, 2) is None
    project.save(long)
    assert await project.codes(long) == []


@in_one_loop
async def test_files_that_keep_changing_do_not_keep_a_text_from_being_read(vscode: LanguageClient) -> None:
    project = Project(vscode)
    uri = project.open("net.py", CLEAN)
    assert await project.codes(uri) == []

    async def change_files() -> None:
        while True:
            project.changed_on_disk("other.py")
            await asyncio.sleep(PAUSE / 4)

    changing = asyncio.create_task(change_files())
    try:
        for text, code in ((PRINTING, "TCR301"), (SPLITTING, "TCR101")):
            project.type(uri, text)
            assert await project.codes(uri) == [code]
    finally:
        changing.cancel()


@in_one_loop
async def test_a_file_under_two_names_shows_its_findings_in_the_text_that_was_edited_last(
    vscode: LanguageClient,
) -> None:
    project = Project(vscode)
    (project.folder / "net.py").write_text(PRINTING)
    (project.folder / "link.py").symlink_to("net.py")
    uri, link = project.open("net.py", PRINTING), project.open("link.py", CLEAN, saved=False)
    assert await project.codes(link) == []
    project.type(uri, SPLITTING)
    assert await project.codes(uri) == ["TCR101"]
    assert await project.codes(link) == []
    project.type(link, PRINTING)
    assert await project.codes(link) == ["TCR301"]
    await until(lambda: not project._last(uri, 2).diagnostics)


# the project


@in_one_loop
@pytest.mark.parametrize("tells", [True, False], ids=["tells", "does not"])
async def test_a_nearer_pyproject_may_come_and_go(vscode: LanguageClient, tells: bool) -> None:
    project = Project(vscode)
    (project.folder / "sub").mkdir()
    uri = project.open("sub/net.py", PRINTING)
    assert await project.codes(uri) == ["TCR301"]
    near = project.folder / "sub" / "pyproject.toml"
    for text, expected in (('[tool.tcready]\nignore = ["TCR3"]\n', []), ("[tool.other]\n", ["TCR301"])):
        near.write_text(text)
        if tells:
            project.changed_on_disk("sub/pyproject.toml")
        else:
            project.type(uri, PRINTING + f"# {text[:6]}\n")
        version = project.versions[uri]
        await until(
            lambda version=version, expected=expected: (
                (shown := project._last(uri, version)) is not None
                and [each.code for each in shown.diagnostics] == expected
            )
        )


@in_one_loop
async def test_the_project_decides_what_is_told_and_may_change_its_mind(vscode: LanguageClient) -> None:
    project = Project(vscode, 'ignore = ["TCR3"]\nexclude = ["vendored"]\n')
    uri = project.open("net.py", PRINTING)
    assert await project.codes(uri) == []
    (project.folder / "vendored").mkdir()
    other = project.open("vendored/net.py", SPLITTING)
    assert await project.codes(other) == []
    project.configure('select = ["TCR3"]\n')
    project.changed_on_disk("pyproject.toml")
    await until(lambda: project._last(uri, 1).diagnostics)
    before = len(vscode.log_messages)
    for wrong in ("ignore = 3\n", "no-such-key = 1\n", "[broken", 'select = ["TCR999"]\n'):
        project.configure(wrong)
        project.save(uri)
        await until(lambda before=before: len(vscode.log_messages) > before)
        assert vscode.log_messages[-1].type == types.MessageType.Error
        before = len(vscode.log_messages)
        assert await project.actions(uri, 5, 10), wrong  # what held before goes on holding
        assert [shown.code for shown in project._last(uri, 1).diagnostics] == ["TCR301"], wrong
    (project.folder / "pyproject.toml").write_bytes(b"\0" * 40)
    project.save(uri)
    await until(lambda: any("it holds NUL bytes" in each.message for each in vscode.log_messages))
    project.configure("")
    project.save(uri)
    await until(lambda: [d.code for d in project._last(uri, 1).diagnostics] == ["TCR301"])
    await until(lambda: [d.code for d in project._last(other, 1).diagnostics] == ["TCR101"])


@in_one_loop
async def test_a_pyproject_that_is_no_file_is_passed_by(vscode: LanguageClient) -> None:
    project = Project(vscode)
    uri = project.open("net.py", PRINTING)
    assert await project.codes(uri) == ["TCR301"]
    place = project.folder / "pyproject.toml"
    for make in (os.mkfifo, os.mkdir, lambda path: path.symlink_to(path)):
        place.unlink()
        make(place)
        project.type(uri, f"{PRINTING}# {place.is_dir()}")
        assert await project.codes(uri) == ["TCR301"]
        if place.is_dir():
            place.rmdir()
            place.touch()


@in_one_loop
async def test_a_baseline_holds_in_the_editor_too(vscode: LanguageClient, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(vscode, 'baseline = "known.json"\n')
    (project.folder / "net.py").write_text(PRINTING)
    monkeypatch.chdir(project.folder)
    run("check", "net.py", "--no-run", "--write-baseline", "known.json")
    uri = project.open("net.py", PRINTING)
    assert await project.codes(uri) == []
    project.type(uri, PRINTING + SPLITTING.partition("\n\n\n")[2].replace("Net", "Other"))
    assert await project.codes(uri) == ["TCR101"]
    if sys.platform != "win32":  # a pipe that nobody writes to holds nothing up
        (project.folder / "known.json").unlink()
        os.mkfifo(project.folder / "known.json")
        project.type(uri, PRINTING)
        assert await project.codes(uri) == ["TCR301"]


# documents of every kind


@in_one_loop
async def test_documents_that_are_nowhere(vscode: LanguageClient) -> None:
    project = Project(vscode)
    for number, (uri, language) in enumerate(
        [("untitled:Untitled-1", "python"), (project.uri("never saved.py"), "python")]
    ):
        project.open("", PRINTING, saved=False, uri=uri, language=language)
        assert await project.codes(uri) == ["TCR301"], number
        assert len(await project.actions(uri, 5, 10)) == 2
        project.close(uri)
        await until(lambda uri=uri: not [e for e in vscode.published if e.uri == uri][-1].diagnostics)
    before = len(vscode.published)
    strange = ["git:/net.py?ref", "file:///a%00b.py", "untitled:x", "http://example.org/net.py", "net.py", ""]
    for uri in strange:
        project.open(
            "", PRINTING, saved=False, uri=uri or "x:", language="plaintext" if uri == "untitled:x" else "python"
        )
        assert await project.hover(uri or "x:", 5, 10) is None
    assert await project.lenses(project.uri("not open.py")) == {}
    project.close(project.uri("not open.py"))
    uri = project.open("net.py", PRINTING)
    await project.told(uri)
    assert {each.uri for each in vscode.published[before:]} == {uri}
    (project.folder / "net.py").unlink()
    project.type(uri, SPLITTING)
    assert await project.codes(uri) == ["TCR101"]
    shutil.rmtree(project.folder)
    project.type(uri, PRINTING)
    assert await project.codes(uri) == ["TCR301"]


@in_one_loop
async def test_what_is_open_is_never_executed(vscode: LanguageClient) -> None:
    project = Project(vscode)
    touched = project.folder / "touched"
    text = f"import helper\nopen({str(touched)!r}, 'w')\n" + PRINTING
    (project.folder / "helper.py").write_text(f"open({str(touched)!r}, 'w')\n")
    uri = project.open("net.py", text)
    assert await project.codes(uri) == ["TCR301"]
    assert not touched.exists()


@in_one_loop
async def test_a_mistake_of_the_editor_is_logged_and_nothing_ends(vscode: LanguageClient) -> None:
    project = Project(vscode)
    before = len(vscode.log_messages)
    uri = project.uri("not open.py")
    project.versions[uri] = 1
    project.type(uri, PRINTING)
    await until(lambda: len(vscode.log_messages) > before)
    assert vscode.log_messages[-1].message.startswith("tcready: ")
    uri = project.open("net.py", PRINTING)
    assert await project.codes(uri) == ["TCR301"]


# columns


WIDE = PRINTING.replace("        print(", '        "\U0001f600\u00e9"; print(')


@in_one_loop
async def test_columns_are_counted_in_utf_16(vscode: LanguageClient) -> None:
    project = Project(vscode)
    uri = project.open("net.py", WIDE)
    (shown,) = await project.told(uri)
    assert pairs(shown.range) == (5, 15, 5, 37)
    assert await project.hover(uri, 5, 16) is not None
    for action in await project.actions(uri, 5, 16):
        (edit,) = action.edit.document_changes
        project.type(uri, with_edits(WIDE, edit.edits))
        assert await project.told(uri) == []
        project.type(uri, WIDE)
    project.type(uri, "x = '\u2028\x0c\x0b'\n" + PRINTING)
    (shown,) = await project.told(uri)
    assert pairs(shown.range)[:2] == (6, 8), "only what ends a line of Python ends a line"
    project.type(uri, PRINTING.replace("\n", "\r\n"))
    (shown,) = await project.told(uri)
    assert pairs(shown.range) == (5, 8, 5, 30)


@in_one_loop
async def test_an_editor_may_count_characters_and_do_little(plain: LanguageClient) -> None:
    project = Project(plain)
    uri = project.open("net.py", WIDE)
    (shown,) = await project.told(uri)
    assert pairs(shown.range) == (5, 14, 5, 36)
    change, hide = await project.actions(uri, 5, 15)
    for action in (change, hide):
        assert list(action.edit.changes) == [uri]
        project.type(uri, with_edits(WIDE, action.edit.changes[uri], "utf-32-le", 4))
        assert await project.told(uri) == []
    assert (await project.hover(uri, 5, 15)) is None
    project.type(uri, SPLITTING)
    hovered = (await project.hover(uri, 5, 12)).contents
    assert hovered.kind == types.MarkupKind.PlainText
    assert hovered.value.startswith("TCR")
    assert not set("`\\*") & set(hovered.value.split("Use instead:")[0])
    assert [each.disabled for each in await project.actions(uri, 5, 12)] == [None]
    assert plain.traced == []
    assert plain.watched == []


# for long


def resident(client: LanguageClient) -> float:
    """MB that the server holds."""
    pages = int(Path(f"/proc/{client._server.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells it there")
@pytest.mark.release
@in_one_loop
async def test_a_thousand_edits_leave_nothing_behind(plain: LanguageClient) -> None:
    project = Project(plain)
    text = (FIXTURES / "models" / "vq_logging.py").read_text("utf-8")
    uri = project.open("net.py", text)
    held = []
    for number in range(1000):
        project.type(uri, f"{text}\n_EDITED = {number}\n" if number % 7 else text[: number * 5 % len(text)])
        project.save(uri)
        await project.told(uri)
        held.append(resident(plain))
    assert max(held[200:]) - max(held[50:200]) < 3.0, held[::20]


def test_what_was_read_of_files_that_were_closed_is_not_kept_for_ever(tmp_path: Path) -> None:
    reader = OpenFilesReader(tmp_path, settings_at, registry.rule_set())
    stays = Document("stays", tmp_path / "stays.py", 1, PRINTING)
    held = []
    for number in range(MOST_CLOSED + 60):
        other = Document(f"{number}", tmp_path / f"net_{number}.py", 1, CLEAN)
        read = reader.read([stays, other])
        assert [found.rule for found in read.findings(stays)] == ["TCR301"]
        held.append(len(reader._current.session._known))
    assert max(held) <= MOST_CLOSED + 2
    assert held[-1] < 80


# the command


def test_without_its_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    assert run("lsp") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "tcready: error: the language server needs pygls: pip install 'tcready[lsp]'\n"
