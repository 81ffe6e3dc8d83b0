"""What the language server costs: a file read again after an edit, and what a long session leaves behind.

relint   CPU time, in one process, of reading one open file again after an edit and making what is published of it,
         against `libcst.parse_module` of that file: a file of 1,500 lines made of the fixture models, and some of
         transformers. Edited are, one after the other, the end of the file, its imports, the longest class and the
         longest function of the file; the edit that takes longest counts. With --functions N also N functions of each
         file, drawn at random
session  a real server, over stdin and stdout: edits that are each saved and waited for, every tenth of them a text
         that does not parse; how long each takes, and what the server holds

python benchmarks/editor.py [relint] [session] [--site SITE_PACKAGES] [--edits 1000] [--functions 25]
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import gc
import os
import random
import statistics
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import libcst
from lsprotocol import types
from pygls.lsp.client import LanguageClient
from speed import FILES, FIXTURES, generated
from tcready.cli.arguments import settings_at
from tcready.integrations.lsp import protocol_values
from tcready.integrations.lsp.open_files import Document, OpenFilesReader
from tcready.pipeline import registry

RELINT = 1.5
"""Times `libcst.parse_module`, at most."""
GROWTH = 5.0
"""MB that a session may hold more at its end than after its first tenth."""
PATIENCE = 60.0
"""Seconds that one edit may take."""
SESSION = FIXTURES / "moe_router.py"


def models() -> list[Path]:
    """The fixture models that stand alone."""
    return [path for path in sorted(FIXTURES.glob("*.py")) if "from parts" not in path.read_text("utf-8")]


def relint(site: Path, functions: int) -> bool:
    """Prints the ratio for each file; whether all keep to the bar, those apart that are of so many further functions."""
    files = {"made of the fixture models": generated(models())}
    found = sorted((site / "transformers").rglob("modeling_*.py"))
    files |= {path.name: path.read_text("utf-8") for path in found[:: max(1, len(found) // FILES)]}
    print("a file again after an edit, with what is published of it: CPU seconds, the least of three edits of a kind\n")
    ratios = {}
    further: list[tuple[float, str]] = []
    registry.load_rules()
    gc.freeze()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        path = root / "model.py"
        reader = OpenFilesReader(root, settings_at, registry.rule_set())
        for name, text in files.items():
            reader.read([Document(path.as_uri(), path, 0, text)])
            parsing = min(_parsing(text) for _ in range(5))
            took = {what: min(_reading(reader, path, edited) for edited in each) for what, each in edits(text)}
            for what, each in edits_in_functions(text, functions):
                least = min(_reading(reader, path, edited) for edited in each)
                further.append((least / parsing, f"{name}, {what}"))
            slowest = max(took, key=lambda what: took[what])
            ratios[name] = took[slowest] / parsing
            lines = text.count("\n")
            print(f"  {name:40}{lines:7} lines{parsing:8.3f} s{took[slowest]:8.3f} s{ratios[name]:8.2f}  {slowest}")
    median, worst = statistics.median(ratios.values()), max(ratios, key=lambda name: ratios[name])
    met = ratios[worst] <= RELINT
    within = sum(ratio <= RELINT for ratio in ratios.values())
    print(
        f"  {'met   ' if met else 'MISSED'} median {median:.2f} times, worst {ratios[worst]:.2f} ({worst}); "
        f"{within} of {len(ratios)} keep to {RELINT} times libcst's parse\n"
    )
    if further:
        over = sorted((each for each in further if each[0] > RELINT), reverse=True)
        print(
            f"  {len(further)} edits in functions drawn at random: median "
            f"{statistics.median(ratio for ratio, _ in further):.2f} times, "
            f"{len(further) - len(over)} keep to {RELINT}"
        )
        for ratio, what in over:
            print(f"    {ratio:.2f}  {what}")
    return met


def edits(text: str) -> Iterator[tuple[str, list[str]]]:
    """What is edited, and three texts, each after another such edit."""
    lines = text.splitlines(keepends=True)
    nodes = [*ast.walk(ast.parse(text))]
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module != "__future__"]
    places = {"end": (len(lines), 0), "imports": (imports[0].lineno - 1, 0)}
    for what, kinds in (("class", ast.ClassDef), ("function", ast.FunctionDef)):
        found = [node for node in nodes if isinstance(node, kinds)]
        longest = max(found, key=lambda node: (node.end_lineno or 0) - node.lineno)
        places[what] = _before_last(longest)
    for what, place in places.items():
        new = "from math import tau as _edited_{}\n" if what == "imports" else "_edited = {}\n"
        yield what, _edited(lines, place, new)


def edits_in_functions(text: str, count: int) -> Iterator[tuple[str, list[str]]]:
    """The same of so many functions of several lines, drawn at random. The name is another: of one that any text of this
    path has asked for, an edit at the top costs all."""
    lines = text.splitlines(keepends=True)
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    several = [node for node in functions if node.body[-1].lineno > node.lineno]
    for node in random.Random(1).sample(several, min(count, len(several))):
        yield f"{node.name}, line {node.lineno}", _edited(lines, _before_last(node), "_within = {}\n")


def _before_last(node: ast.ClassDef | ast.FunctionDef) -> tuple[int, int]:
    """The line and column before the last statement of a body."""
    last = node.body[-1]
    return last.lineno - 1 - len(getattr(last, "decorator_list", ())), last.col_offset


def _edited(lines: list[str], place: tuple[int, int], new: str) -> list[str]:
    line, column = place
    return ["".join([*lines[:line], " " * column, new.format(n), *lines[line:]]) for n in range(3)]


def _parsing(text: str) -> float:
    gc.collect()
    started = time.process_time()
    libcst.parse_module(text.encode())
    return time.process_time() - started


def _reading(reader: OpenFilesReader, path: Path, text: str) -> float:
    document = Document(path.as_uri(), path, 1, text)
    gc.collect()
    gc.disable()  # as in the server, which collects between readings
    started = time.process_time()
    read = reader.read([document])
    protocol_values.diagnostics(read, document, protocol_values.Places(text, len))
    took = time.process_time() - started
    gc.enable()
    return took


async def session(edits: int) -> bool:
    """Prints how long edits took and what the server held; whether that keeps to the bar."""
    client = LanguageClient("benchmark", "1")
    shown: dict[int, asyncio.Event] = {}

    def published(params: types.PublishDiagnosticsParams) -> None:
        if params.version in shown:
            shown[params.version].set()

    client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(published)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder).resolve() / "model.py"
        text = SESSION.read_text("utf-8")
        uri = path.as_uri()
        await client.start_io(sys.executable, "-m", "tcready", "lsp")
        await client.initialize_async(types.InitializeParams(types.ClientCapabilities(), root_uri=path.parent.as_uri()))
        client.initialized(types.InitializedParams())
        shown[0] = asyncio.Event()
        client.text_document_did_open(types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "python", 0, text)))
        await shown[0].wait()
        took, held = [], []
        for version in range(1, edits + 1):
            now = f"{text}\n_EDITED = {version}\n" if version % 10 else text[: len(text) * version // edits]
            shown[version] = asyncio.Event()
            started = time.perf_counter()
            client.text_document_did_change(
                types.DidChangeTextDocumentParams(
                    types.VersionedTextDocumentIdentifier(uri=uri, version=version),
                    [types.TextDocumentContentChangeWholeDocument(now)],
                )
            )
            client.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri)))
            await asyncio.wait_for(shown[version].wait(), PATIENCE)
            took.append(time.perf_counter() - started)
            held.append(_resident(client))
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()
    first, last = max(held[: edits // 10]), max(held[-edits // 10 :])
    met = last - first <= GROWTH
    print(
        f"{edits} edits of {SESSION.name} in one session, each saved\n\n"
        f"  median {statistics.median(took) * 1000:.0f} ms from the edit to what is shown of it, "
        f"the slowest {max(took) * 1000:.0f} ms\n"
        f"  {'met   ' if met else 'MISSED'} at most {first:.0f} MB in the first tenth, {last:.0f} MB in the last; "
        f"at most {GROWTH:.0f} MB more\n"
    )
    return met


def _resident(client: LanguageClient) -> float:
    """MB that the server holds."""
    pages = int(Path(f"/proc/{client._server.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="relint, session; both by default")
    parser.add_argument("--site", type=Path, default=Path(sysconfig.get_path("purelib")))
    parser.add_argument("--edits", type=int, default=1000)
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="edit N further functions of each file")
    options = parser.parse_args()
    if not set(options.parts) <= {"relint", "session"}:
        parser.error("the parts are relint and session")
    parts = set(options.parts) or {"relint", "session"}
    met = [relint(options.site, options.functions)] if "relint" in parts else []
    met += [asyncio.run(session(options.edits))] if "session" in parts else []
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
