"""`tcready mcp`, as the client of the official package meets it over stdio."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tcready import api
from tcready.schema.enums import TcreadyError
from tcready.schema.proof import FixChange
from tcready.schema.report import Report

pytest.importorskip("mcp")  # an extra, as is what it brings
from anyio import create_task_group, sleep
from anyio.from_thread import start_blocking_portal
from mcp import StdioServerParameters
from mcp.client import Client
from tcready.integrations.mcp import rendering
from tcready.integrations.mcp.answer import LEAST, ROOM, AnswerPiece, Section, ToolAnswer, fit_answer
from tcready.integrations.mcp.arguments import parse_arguments, schema_of
from tcready.integrations.mcp.protocol_server import OFTEN
from tcready.integrations.mcp.tools import TOOLS
from tcready.reports.shared.wording import visible

ROOT = Path(__file__).resolve().parents[2]
BREAKS = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        x = self.lin(x)
        if x.sum() > 0:
            x = x * 2
        return x


def get_inputs():
    return [torch.randn(2, 4)]
"""
HANGS = """\
import time

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        time.sleep(300)
        return x


def get_inputs():
    return [torch.randn(2)]
"""
PATCH = """\
--- a/breaks.py
+++ b/breaks.py
@@ -10,5 +10,4 @@
     def forward(self, x):
         x = self.lin(x)
-        if x.sum() > 0:
-            x = x * 2
+        x = torch.where(x.sum() > 0, x * 2, x)
         return x
"""


@dataclass(frozen=True)
class Told:
    """What a tool answered."""

    text: str
    data: Any
    is_error: bool
    size: int
    """Characters of the whole answer, as it is sent."""


@dataclass(frozen=True)
class Server:
    """A server that runs, and the client that talks to it."""

    portal: Any
    client: Client

    def __call__(self, tool: str, /, **arguments: Any) -> Told:
        return told(self.portal.call(self.client.call_tool, tool, arguments))

    def tools(self) -> dict[str, Any]:
        return {tool.name: tool for tool in self.portal.call(self.client.list_tools).tools}


def told(result: Any) -> Told:
    (content,) = result.content
    size = len(result.model_dump_json(by_alias=True, exclude_none=True))
    return Told(content.text, result.structured_content, result.is_error, size)


@contextlib.contextmanager
def serving(folder: Path, *more: str) -> Iterator[Server]:
    command = [sys.executable, "-m", "tcready", "mcp", "--root", str(folder), *more]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=environment, cwd=folder.parent)
    with start_blocking_portal() as portal:
        client = Client(parameters)
        with portal.wrap_async_context_manager(client):
            yield Server(portal, client)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("mcp")
    found = base / "project"
    found.mkdir()
    (base / "outside.py").write_text(BREAKS)
    (found / "breaks.py").write_text(BREAKS)
    (found / "hangs.py").write_text(HANGS)
    (found / "link.py").symlink_to(base / "outside.py")
    shutil.copy(ROOT / "fixtures" / "many" / "model.py", found / "many.py")
    return found


@pytest.fixture(scope="module")
def torchless(folder: Path) -> str:
    """An interpreter that has Python alone."""
    venv.create(folder.parent / "env", with_pip=False, symlinks=True)
    return str(folder.parent / "env" / "bin" / "python")


@pytest.fixture(scope="module")
def reading(folder: Path, torchless: str) -> Iterator[Server]:
    """A server whose models would run where there is no torch: whatever it answers needs none."""
    with serving(folder, "--python", torchless) as server:
        yield server


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[Server]:
    with serving(folder) as server:
        yield server


def digests(folder: Path) -> dict[str, str]:
    """What stands in the user's files."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.py")}


# what reads alone


def test_the_tools_say_what_they_take_and_what_executes_code(reading: Server) -> None:
    tools = reading.tools()
    assert list(tools) == ["check", "rule", "plan", "fix", "prove", "bench"]
    for tool in tools.values():
        properties = tool.input_schema["properties"]
        assert all(each["description"] for each in properties.values())
        assert tool.input_schema["additionalProperties"] is False
        assert "xecutes" in tool.description, "whether it executes the user's code is said of each"
    assert tools["prove"].input_schema["required"] == ["patch", "target"]
    assert [name for name, tool in tools.items() if tool.annotations.read_only_hint] == ["rule"]


def documented(tool: str) -> set[str]:
    """The fields of a tool's data that the docs name."""
    page = (ROOT / "docs" / "pages" / "assistants.md").read_text("utf-8")
    table = page.partition("| tool | data")[2]
    (row,) = [line for line in table.splitlines() if line.startswith(f"| `{tool}` |")]
    return set(re.findall(r"`(\w+)`", row)) | {"left_out", "characters_for_all"}


def test_the_page_has_every_tool_and_whether_it_executes(reading: Server) -> None:
    page = (ROOT / "docs" / "pages" / "assistants.md").read_text("utf-8")
    table = page.partition("| tool | answer")[2].partition("\n\n")[0]
    rows = {name: line for line in table.splitlines() for name in re.findall(r"^\| `(\w+)` \|", line)}
    assert list(rows) == list(reading.tools())
    assert {name for name, line in rows.items() if line.endswith("| yes |")} == {
        tool.name for tool in TOOLS if tool.executes
    }
    for tool in reading.tools():
        assert documented(tool)


def test_check_reads_and_names_findings_by_stable_ids(reading: Server, folder: Path) -> None:
    found = reading("check", target="breaks.py")
    assert not found.is_error
    (finding,) = found.data["findings"]
    assert finding["rule"] == "TCR101"
    assert "GB0170" in finding["breaks"]
    assert (finding["path"], finding["line"], finding["status"]) == ("breaks.py", 12, "predicted")
    assert found.data["executed"] is False
    assert found.data["targets"][0]["verdict"] == "unknown"
    assert "breaks.py:12:12: TCR101 error" in found.text
    report = api.check(["breaks.py"], run=False, root=folder)
    assert [each.fingerprint for each in report.findings] == [finding["id"]]
    page = reading("rule", code=finding["id"][:7], target="breaks.py")
    assert f"id {finding['id']}" in page.text
    assert "use instead:" in page.text


def test_an_answer_is_short_says_what_it_lacks_and_goes_on(reading: Server, folder: Path) -> None:
    every = [f.fingerprint for f in api.check(["many.py"], run=False, root=folder).findings]
    assert len(every) > 12
    found, seen = reading("check", target="many.py"), []
    assert f"of {len(every)} findings" in found.text
    assert reading("check", target="many.py", max_characters=found.data["characters_for_all"]).size > ROOM
    more = reading("check", target="many.py", max_characters=found.data["characters_for_all"])
    assert {each["id"] for each in more.data["findings"]} == set(every)
    assert "left_out" not in more.data
    for _ in every:
        assert found.size < ROOM
        seen += [each["id"] for each in found.data["findings"]]
        if "left_out" not in found.data:
            break
        found = reading("check", target="many.py", skip=len(seen))
    assert sorted(seen) == sorted(every), "each once"


def test_rule_explains_codes_breaks_and_lists(reading: Server) -> None:
    page = reading("rule", code="TCR101")
    assert "## Use instead" in page.text
    assert page.data is None
    assert page.size < ROOM
    assert reading("rule", code="data-dependent-if").text == page.text
    assert "GB0170" in reading("rule", code="gb0170").text
    listed = reading("rule", max_characters=50_000)
    assert [each["code"] for each in listed.data["rules"]] == [rule.code for rule in api.load_rules()]


def test_what_a_link_in_a_folder_names_outside_is_not_looked_at(reading: Server) -> None:
    found = reading("check", target=".", max_characters=20_000)
    assert "breaks.py" in found.text
    assert "outside.py" not in found.text
    assert found.text.count("link.py") == 1, "named as left out"


def test_fix_proposes_a_patch_and_writes_nothing(reading: Server, folder: Path) -> None:
    before = digests(folder)
    found = reading("fix", target="breaks.py", unsafe=True)
    assert not found.is_error, found.text
    assert digests(folder) == before
    (change,) = found.data["changes"]
    (finding,) = reading("check", target="breaks.py").data["findings"]
    assert change["id"] == finding["id"]
    assert change["state"] == "not_run"
    assert found.data["patch"] in found.text
    applied = folder.parent / "applied"
    applied.mkdir()
    shutil.copy(folder / "breaks.py", applied)
    subprocess.run(["git", "apply"], input=found.data["patch"], text=True, cwd=applied, check=True)
    assert api.check(["breaks.py"], run=False, root=applied).findings == ()


def test_a_file_that_cannot_be_read_keeps_no_other_from_being_changed(reading: Server, folder: Path) -> None:
    part = folder / "part"
    part.mkdir()
    shutil.copy(folder / "breaks.py", part)
    (part / "torn.py").write_text("import torch\nclass (\n")
    found = reading("fix", target="part", unsafe=True)
    assert not found.is_error, found.text
    assert "torn.py cannot be judged" in found.data["failure"]
    assert "part/breaks.py" in found.data["patch"]
    shutil.rmtree(part)


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("check", {"target": "../outside.py"}, "outside of"),
        ("check", {"target": "link.py"}, "outside of"),
        ("check", {"target": "lightning:../outside.py::Model"}, "outside of"),
        ("check", {"target": "breaks.py", "run": True, "inputs": "../outside.py::get_inputs"}, "outside of"),
        ("plan", {"target": "/"}, "outside of"),
        (
            "prove",
            {
                "target": "breaks.py",
                "patch": dedent("""\
                --- a/link.py
                +++ b/link.py
                @@ -1 +1 @@
                -a
                +b
            """),
            },
            "outside of",
        ),
        ("check", {"target": "breaks.py\0"}, "a path holds no NUL"),
        ("prove", {"patch": PATCH.replace("breaks.py", "../outside.py"), "target": "breaks.py"}, "../outside.py"),
        ("check", {"target": "nowhere.py"}, "nowhere.py: no such file"),
        ("check", {"target": "x" * 300 + ".py"}, "no such file"),
        ("rule", {"code": "TCR\x1b[31m\u202e9"}, r"TCR\x1b[31m\u202e9"),
        ("check", {"target": "breaks.py::Nte"}, "Nte"),
        ("check", {"target": "breaks.py", "plan": True}, "takes no argument plan"),
        ("check", {}, "target: Field required"),
        ("check", {"target": "breaks.py", "device": "cuda"}, "device belongs to a run"),
        ("check", {"target": "breaks.py", "select": ["TCR9"]}, "TCR9"),
        ("fix", {"target": "breaks.py", "inputs": "breaks.py::get_inputs"}, "inputs belongs to a run"),
        ("rule", {"code": "TCR999"}, "there is no rule TCR999"),
        ("rule", {"code": "ffffff"}, "there is no finding ffffff"),
        ("prove", {"patch": "nothing", "target": "breaks.py"}, "is no patch"),
        ("explain", {}, "there is no tool explain"),
        ("check", {"target": "breaks.py", "run": True}, "torch is not installed"),
        ("plan", {"target": "breaks.py"}, "torch is not installed"),
        ("fix", {"target": "breaks.py", "prove": True}, "torch is not installed"),
        ("prove", {"patch": PATCH, "target": "breaks.py"}, "torch is not installed"),
        ("bench", {"target": "breaks.py"}, "torch is not installed"),
    ],
)
def test_errors_are_answers_of_one_line(reading: Server, tool: str, arguments: dict[str, Any], said: str) -> None:
    found = reading(tool, **arguments)
    assert found.is_error, found.text
    assert said in found.text
    assert "\n" not in found.text
    assert found.size < LEAST
    assert found.data is None


def test_a_server_may_be_started_to_execute_nothing(folder: Path) -> None:
    with serving(folder, "--no-run") as server:
        tools = server.tools()
        assert list(tools) == ["check", "rule", "fix"]
        assert all(tool.annotations.read_only_hint for tool in tools.values())
        assert server("check", target="breaks.py").data["findings"]
        for tool, arguments in (("check", {"run": True}), ("fix", {"prove": True})):
            found = server(tool, target="breaks.py", **arguments)
            assert found.is_error
            assert "executes nothing" in found.text
        assert "there is no tool plan" in server("plan", target="breaks.py").text


def test_stdout_holds_the_protocol_alone_and_the_end_of_stdin_ends_it(folder: Path) -> None:
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "check", "arguments": {"target": "breaks.py"}}},
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "tcready", "mcp", "--root", str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("this is no JSON\n" + "".join(json.dumps(line) + "\n" for line in lines))
    process.stdin.flush()
    answers: dict[int, Any] = {}
    while 2 not in answers:
        answer = json.loads(process.stdout.readline())
        assert answer["jsonrpc"] == "2.0"
        answers[answer.get("id") or 0] = answer
    assert answers[1]["result"]["serverInfo"]["name"] == "tcready"
    assert "prove" in answers[1]["result"]["instructions"]
    assert "TCR101" in answers[2]["result"]["content"][0]["text"]
    rest, _ = process.communicate(timeout=20)
    assert rest == ""
    assert process.returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals are asked of the process there is")
def test_a_signal_ends_it_though_stdin_is_open(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tcready", "mcp", "--root", str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.terminate()
        assert process.wait(20) == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--root", "nowhere"], "--root nowhere: there is no such folder"), ([], "pip install 'tcready[mcp]'")],
)
def test_a_server_that_cannot_start_says_why(tmp_path: Path, arguments: list[str], said: str) -> None:
    script = "import sys; sys.modules['mcp'] = None; from tcready.cli import main; main(['mcp', *sys.argv[1:]])"
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert said in line
    assert done.stdout == ""


# how answers are made


STORED = sorted((ROOT / "fixtures" / "reports").glob("*.json"))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
@pytest.mark.parametrize("room", [LEAST, ROOM, 200_000])
def test_every_report_fits(path: Path, room: int) -> None:
    report = api.load(path)
    assert isinstance(report, Report)
    answers = [rendering.render_check(report, third_party=third, skip=0) for third in (False, True)]
    for make in (rendering.render_plan, rendering.render_bench):
        with contextlib.suppress(TcreadyError):  # nothing was planned, or measured
            answers.append(make(report))
    for answer in answers:
        found = fit_answer(answer, room)
        assert size_of(found.text, found.data) < room
        assert room < 200_000 or "left out" not in found.text
        assert visible(found.text, keep="\n\t") == found.text, "nothing moves or hides what is read"
        assert not re.search(r"\\u00[01]", json.dumps(found.data))


def size_of(text: str, data: Any) -> int:
    return len(json.dumps(text, ensure_ascii=False)) + len(json.dumps(data, ensure_ascii=False))


def test_a_stored_plan_and_bench_are_told_with_what_to_paste() -> None:
    (planned,) = [api.load(path) for path in STORED if path.stem == "planned"]
    assert isinstance(planned, Report)
    answer = fit_answer(rendering.render_plan(planned), 200_000)
    assert answer.data is not None
    assert answer.data.keys() <= documented("plan")
    whole = fit_answer(rendering.render_check(planned, third_party=True, skip=0), 200_000).data
    assert whole is not None
    assert whole.keys() <= documented("check")
    plan = next(target.observation.plan for target in planned.targets if target.observation.plan)
    assert answer.data is not None
    assert answer.data["code"] == plan.code
    assert [row["name"] for row in answer.data["placements"]] == [each.name for each in plan.alternatives]
    (benched,) = [api.load(path) for path in STORED if path.stem == "benched"]
    assert isinstance(benched, Report)
    bench = next(target.observation.bench for target in benched.targets if target.observation.bench)
    answer = fit_answer(rendering.render_bench(benched), 200_000)
    assert answer.data is not None
    assert answer.data.keys() <= documented("bench")
    assert answer.data is not None
    assert answer.data["verdict"] == bench.verdict
    assert {row["arm"] for row in answer.data["arms"]} >= {arm.arm for arm in bench.cases[-1].arms if arm.seconds}


def test_a_patch_that_does_not_hold_is_an_answer_and_no_error() -> None:
    change = FixChange(
        "the patch", 0, "", None, (), "the patch", (), (), None, "refuted", "call 3: value differs by 2.0"
    )
    found = fit_answer(rendering.render_proof(change, api.render(change, "text"), holds=api.holds(change)), ROOM)
    assert found.text == "the patch does not hold: call 3: value differs by 2.0"
    assert found.data == {"holds": False, "state": "refuted", "reason": "call 3: value differs by 2.0"}


def test_of_what_there_is_no_room_for_the_first_lines_are_told(reading: Server) -> None:
    found = reading("check", target="many.py", max_characters=LEAST)
    assert found.size <= LEAST
    assert "findings" not in found.data
    assert re.search(r"^many\.py:\d+:\d+: TCR\d+ ", found.text, re.MULTILINE), found.text
    assert found.data["left_out"]["findings"] > 12, "heads are no findings"


texts = st.builds(lambda text, times: text * times, st.text(max_size=8), st.integers(1, 60))


@given(
    head=st.text(max_size=40),
    rows=st.lists(st.tuples(texts, texts), max_size=12),
    patch=texts,
    room=st.integers(LEAST, 6000),
    structured=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_an_answer_never_has_more_than_its_room(
    head: str, rows: list[tuple[str, str]], patch: str, room: int, structured: bool
) -> None:
    sections = (
        Section("patch", "patch", (AnswerPiece(patch, patch),), single=True, exact=True),
        Section("findings", "finding", tuple(AnswerPiece(text, {"id": data}) for text, data in rows), skipped=0),
    )
    found = fit_answer(ToolAnswer(head, {"n": len(rows)} if structured else None, sections), room)
    assert size_of(found.text, found.data) <= room
    found.text.encode("utf-8")
    if structured and found.data is not None:
        left = found.data.get("left_out", {})
        assert len(found.data.get("findings", ())) + left.get("findings", 0) == len(rows)
        assert ("patch" in found.data) != ("patch" in left)


def test_arguments_that_clients_send_as_text_are_understood() -> None:
    check = next(tool for tool in TOOLS if tool.name == "check")
    assert parse_arguments(
        check.arguments, "check", {"target": "a.py", "run": "true", "timeout": "60"}
    ) == check.arguments(target="a.py", run=True, timeout=60.0)
    assert schema_of(check.arguments)["required"] == ["target"]


# what executes the user's code


def workers_in(folder: Path) -> list[int]:
    """Live workers of models in a folder, where the system tells; none elsewhere."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_worker = b"worker.pyz" in (entry / "cmdline").read_bytes()
            if is_worker and (entry / "cwd").readlink() == folder.resolve():
                found.append(int(entry.name))
    return found


@pytest.mark.torch
def test_plan_executes_and_tells_what_to_paste(running: Server, folder: Path) -> None:
    before = digests(folder)
    notes: list[tuple[float, float | None, str | None]] = []

    async def note(done: float, of: float | None, message: str | None) -> None:
        notes.append((done, of, message))

    call = functools.partial(running.client.call_tool, progress_callback=note)
    found = told(running.portal.call(call, "plan", {"target": "breaks.py"}))
    assert not found.is_error, found.text
    assert found.size < ROOM
    assert found.data["executed"] is True
    assert found.data["breaks"] == ["GB0170"]
    assert {row["name"] for row in found.data["placements"]} >= {"whole"}
    assert found.data["code"] in found.text.replace("\n    ", "\n").replace("    ", "", 1)
    # What a note names is what goes on at that moment: a stage shorter than the second between two may never be named.
    assert any(message and not message.startswith("reading") for *_, message in notes), "the run is told of"
    seconds = [done for done, *_ in notes]
    assert all(later - earlier >= OFTEN for earlier, later in itertools.pairwise(seconds)), "it grows, seldom"
    # the run is kept: what it showed of a finding is found again by its id
    (finding,) = running("check", target="breaks.py").data["findings"]
    explained = running("rule", code=finding["id"]).text
    assert "confirmed by Dynamo" in explained
    assert re.search(r"of the stored run of breaks\.py::Model \(infer\), made \d{4}-\d\d-\d\d \d\d:\d\d UTC", explained)
    assert digests(folder) == before


@pytest.mark.torch
@pytest.mark.release
def test_bench_measures_and_says_what_it_could_not(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a C++ compiler eager code alone is timed, which is short."""
    monkeypatch.setenv("CXX", str(folder / "no-such-compiler"))
    before = digests(folder)
    with serving(folder) as server:
        found = server("bench", target="breaks.py")
    assert not found.is_error, found.text
    assert found.size < ROOM
    rows = {row["arm"]: row for row in found.data["arms"]}
    median, low, high = rows["eager"]["seconds"]
    assert 0 < low <= median <= high < 1
    assert found.data["verdict"] == "failed"
    assert found.data["recommended"] == "eager"
    assert "default failed: Inductor needs a C++ compiler" in found.text
    assert digests(folder) == before


@pytest.mark.torch
def test_a_patch_that_holds_is_told_so_with_both_sides(running: Server, folder: Path) -> None:
    before = digests(folder)
    held = running("prove", patch=PATCH, target="breaks.py", settings=["capture_scalar_outputs"])
    assert held.data["holds"] is True, held.text
    assert held.data["settings"] == ["torch._dynamo.config.capture_scalar_outputs = True"]
    assert held.data.keys() <= documented("prove")
    assert (held.data["breaks_before"], held.data["breaks_after"]) == (1, 0)
    (side,) = held.data["branches_taken_away"]
    assert side["true"] > 0
    assert side["false"] > 0
    assert digests(folder) == before


@pytest.mark.torch
def test_a_call_that_is_cancelled_ends_its_run(running: Server, folder: Path) -> None:
    """The next call is answered at once: nothing of the one that hangs for five minutes is left."""
    started: list[str] = []

    async def note(_done: float, _of: float | None, message: str | None) -> None:
        started.append(message or "")

    async def cancelled() -> None:
        async with create_task_group() as tasks:
            call = functools.partial(running.client.call_tool, progress_callback=note)
            tasks.start_soon(call, "check", {"target": "hangs.py", "run": True})
            while not any(message.startswith("eager") for message in started):
                await sleep(0.05)
            tasks.cancel_scope.cancel()

    running.portal.call(cancelled)
    began = time.monotonic()
    assert running("check", target="breaks.py").data["findings"]
    assert time.monotonic() - began < 20
    assert workers_in(folder) == []


@pytest.mark.torch
def test_a_run_that_takes_too_long_is_an_error_in_one_line(running: Server) -> None:
    found = running("check", target="hangs.py", run=True, timeout=2)
    assert found.is_error
    assert "no answer within 2 s" in found.text
    assert "\n" not in found.text
