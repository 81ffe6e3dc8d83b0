"""The comparison of what the static pass finds before and after a change: the same bytes each time, and what differs."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from reading import BREAKING, HELPER, NET

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "oracle.py"
spec = importlib.util.spec_from_file_location("benchmarks_oracle", SCRIPT)
assert spec is not None
assert spec.loader is not None
oracle = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = oracle  # where dataclasses look
spec.loader.exec_module(oracle)


def dump(folder: Path, out: str, *options: str, seed: str = "0") -> tuple[Path, str]:
    """The dump of a folder, and what is printed about it."""
    command = [sys.executable, str(SCRIPT), "dump", str(folder.parent / out), ".", *options]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return folder.parent / out, done.stderr


def diff(*arguments: object) -> int:
    """The exit code of a diff."""
    with pytest.raises(SystemExit) as ended:
        oracle.main(["diff", *map(str, arguments)])
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three fixture models, and a model whose helper is another file."""
    found = tmp_path_factory.mktemp("oracle") / "models"
    found.mkdir()
    for name in ("ema_tracker.py", "nan_guard.py", "clean_unet.py"):
        shutil.copy(ROOT / "fixtures" / "models" / name, found)
    (found / "net.py").write_text(NET, encoding="utf-8")
    (found / "helper.py").write_text(HELPER, encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def before(folder: Path) -> Path:
    return dump(folder, "before.jsonl", "--jobs", "1", seed="1")[0]


@pytest.mark.slow
def test_a_dump_has_the_same_bytes_each_time(folder: Path, before: Path) -> None:
    again, _ = dump(folder, "again.jsonl", "--jobs", "3", seed="2")
    assert again.read_bytes() == before.read_bytes()
    assert diff(before, again) == 0


def test_a_dump_has_verdicts_findings_and_facts(before: Path) -> None:
    _, *lines = before.read_text("utf-8").splitlines()
    items = {read["name"]: read["items"] for read in map(json.loads, lines)}
    assert list(items) == ["clean_unet.py", "ema_tracker.py", "helper.py", "nan_guard.py", "net.py"]
    found = {(kind, head): fields for kind, head, fields in items["nan_guard.py"]}
    assert found["verdict", "nan_guard.py::Model"]["verdict"] == "breaks (high)"
    finding = found["finding", "TCR101 nan_guard.py:30:20"]
    assert (finding["effect"], finding["confidence"]) == ("graph_break", "high")
    assert found["fact", "Test nan_guard.py:30:20"]["value"].startswith("Tensor(")
    call = found["fact", "Call nan_guard.py:31:17"]
    assert call["conditions"].startswith("[Condition(test='finite', holds=False, ")
    assert not any(kind == "finding" for kind, _, _ in items["clean_unet.py"])
    assert str(before.parent) not in before.read_text("utf-8"), "names do not depend on where the files are"


def test_a_diff_shows_what_changed(folder: Path, before: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The helper breaks after an edit: the text of the model that calls it is the same, and is compared."""
    changed = folder.parent / "changed" / "models"
    shutil.copytree(folder, changed)
    (changed / "helper.py").write_text(BREAKING, encoding="utf-8")
    after, _ = dump(changed, "after.jsonl")
    assert diff(before, after) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "net.py"
    assert any(line.startswith("  + finding TCR201 helper.py:2:") for line in lines)
    assert any(line.startswith("  ~ verdict net.py::Net  places: TCR101@net.py:") for line in lines)
    assert "not compared, another text: 1 (helper.py)" in lines
    assert lines[-1].startswith("4 inputs compared, 1 differ: ")


def test_words_and_new_names_can_be_left_out(before: Path, tmp_path: Path) -> None:
    after = tmp_path / "after.jsonl"
    text = before.read_text("utf-8")
    after.write_text(text.replace("the graph ends here", "the graph breaks here"), "utf-8")
    assert diff(before, after) == 1
    assert diff(before, after, "--ignore", "message") == 0
    after.write_text(text.replace('"Test ', '"TruthTest '), "utf-8")
    assert diff(before, after) == 1
    assert diff(before, after, "--rename", "Test=TruthTest") == 0


def test_dumps_of_other_inputs_cannot_be_compared(before: Path, tmp_path: Path) -> None:
    after = tmp_path / "after.jsonl"
    after.write_text(before.read_text("utf-8").replace('"name": "', '"name": "other/'), "utf-8")
    assert diff(before, after) == 2


@pytest.mark.slow
def test_what_takes_too_long_is_named(tmp_path: Path) -> None:
    """The inputs that follow are read by another process."""
    folder = tmp_path / "models"
    folder.mkdir()
    body = "".join(f"        x = x + self.a{n}.sum() * {n}\n" for n in range(20_000))
    head, _, _ = NET.partition("        if")
    (folder / "long.py").write_text(f"{head}{body}        return x\n", encoding="utf-8")
    (folder / "net.py").write_text(NET, encoding="utf-8")
    out, printed = dump(folder, "out.jsonl", "--jobs", "1", "--seconds", "0")
    _, long, net = map(json.loads, out.read_text("utf-8").splitlines())
    assert long["error"] == "takes more than 0 s of CPU time"
    assert "no result for long.py: takes more than 0 s of CPU time" in printed
    assert any(kind == "finding" for kind, _, _ in net["items"])
    fast = tmp_path / "fast.jsonl"
    fast.write_text(out.read_text("utf-8").replace('"error": "takes more', '"items": [], "_": "takes more'))
    assert diff(out, fast) == 1, "a result that one dump lacks is a difference"


def test_installed_files_have_a_package_and_a_version(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    about = site / "some_nets-1.2.dist-info"
    (site / "nets").mkdir(parents=True)
    about.mkdir()
    (site / "nets" / "net.py").write_text(NET, encoding="utf-8")
    (site / "nets" / "helper.py").write_text(HELPER, encoding="utf-8")
    (about / "METADATA").write_text(
        dedent("""\
        Metadata-Version: 2.1
        Name: some-nets
        Version: 1.2
    """),
        "utf-8",
    )
    (about / "RECORD").write_text("nets/net.py,,\nnets/helper.py,,\n", encoding="utf-8")
    alone, followed = oracle.list_installed([site])
    assert (alone.name, alone.package, alone.version) == ("nets/net.py", "some-nets", "1.2")
    assert (followed.name, followed.follow) == ("nets/net.py with its imports", True)
    reached = [{head for kind, head, _ in oracle.find_items(t, t.root) if kind == "reached"} for t in (alone, followed)]
    assert reached == [{"nets/net.py::Net.forward"}, {"nets/net.py::Net.forward", "nets/helper.py::scaled"}]


def test_every_kind_of_input_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SCRIPT.parent)  # as for a script
    tasks = list(oracle.list_all([]))
    names = [task.name for task in tasks]
    assert len(set(names)) == len(names)
    assert {"fixtures/models/nan_guard.py", "sample rule TCR101 bad0", "sample data_dep: for row in tensor"} <= {*names}
    assert sum(name.startswith("fixtures/tricky/") for name in names) >= 400
