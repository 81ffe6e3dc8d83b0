"""`tcready sweep`: what is swept, what is kept, what a kill or a second sweep does to it, and what it says."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import jsonschema
import pytest
from commands import run
from tcready import api
from tcready.config.resolution import resolve
from tcready.pipeline import run_selection
from tcready.portable.options import RunOptions, SweepOptions
from tcready.schema.codec import as_json, from_json
from tcready.schema.enums import TcreadyError
from tcready.schema.report import Report
from tcready.schema.sweep import SweptModel
from tcready.sweep import aggregate, cache_key, engine_choice, local_engine, matrix, runner, target_expansion
from tcready.sweep.cache_key import Ground, PythonInterpreter, Surveyor
from tcready.sweep.local_engine import LocalEngine
from tcready.sweep.store import ResultStore
from tcready.sweep.task import Result, Task, TaskPlace

ROOT = Path(__file__).resolve().parents[2]
READY = """\
import torch
from torch import nn

from helper import double


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return double(self.linear(x))


def get_inputs():
    return [torch.randn(2, 4)]
"""
HELPER = "def double(x):\n    return x * 2\n"
BREAKS = READY.replace("return double(self.linear(x))", "print(x.sum().item())\n        return double(x)")
KILLS = READY.replace("return double(self.linear(x))", "import os, time; os.kill(os.getppid(), 9); time.sleep(60)")
"""It takes along what all runs are copies of, and the others that are under way."""
UNKNOWN = """\
from torch import nn


class Wants(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return self.linear(x)
"""
PLAIN = dedent("""\
    from torch import nn


    class Net{n}(nn.Module):
        def forward(self, x):
            return x + {n}
""")
PRINTS = PLAIN.format(n=1).replace("return", "print(x)\n        return")
STORE = ".tcready_cache/sweep.sqlite"
FILES = 14
DEEP = "[" * 800 + "]" * 800
READ = (".", "--no-run", "-q", "--no-cache", "--jobs", "1")


def rows(report: Report) -> dict[str, SweptModel]:
    assert report.sweep is not None
    return {each.target: each for each in report.sweep.models}


def kept(store: Path) -> dict[tuple[str, str], tuple[str, int]]:
    """Of each stage of each target in a store its status, and how often it was begun; one of each kind."""
    base = sqlite3.connect(store)
    found = base.execute("SELECT stage, target, status, tries FROM results").fetchall()
    base.close()
    assert len({row[:2] for row in found}) == len(found)
    return {(stage, target): (status, tries) for stage, target, status, tries in found}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tcready", "sweep", *arguments]


# Real runs


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zoo")
    files = {"ready": READY, "helper": HELPER, "breaks": BREAKS, "kills": KILLS, "wants": UNKNOWN}
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "broken.py").write_text("import torch\ndef (\n")
    return folder


@pytest.mark.torch
def test_models_are_swept_and_after_an_edit_that_one_alone_again(zoo: Path) -> None:
    """One test: what it looks at are two sweeps, which take their time."""
    first = api.sweep(".", root=zoo, wanted=SweepOptions(workers=2), checkout=False)
    every_model_has_a_row_and_what_was_not_established_is_no_pass(first)
    the_report_holds_all_targets_and_is_one_of_version_1(first)
    sites_stand_over_all_models_with_what_removes_them(first)
    text = (zoo / "breaks.py").read_text()
    (zoo / "breaks.py").write_text(text.replace("print(x.sum().item())", "x = x + 1"))
    second = api.sweep(".", root=zoo, wanted=SweepOptions(workers=2), checkout=False)
    the_edited_model_ran_again_and_no_other(first, second)


def every_model_has_a_row_and_what_was_not_established_is_no_pass(first: Report) -> None:
    found = {name: (row.outcome.state, row.outcome.verdict, row.word) for name, row in rows(first).items()}
    assert found == {
        "ready.py::Net": ("run", "ready", None),
        "breaks.py::Net": ("run", "not_ready", None),
        "kills.py::Net": ("failed", "unknown", "crash"),
        "wants.py::Wants": ("inputs_unknown", "unknown", "no_inputs"),
        "broken.py": ("unread", "unknown", None),
    }
    ready, breaks = rows(first)["ready.py::Net"], rows(first)["breaks.py::Net"]
    assert (ready.outcome.share, ready.outcome.own_sites, ready.device) == (1.0, 0, "cpu")
    assert breaks.outcome.own_sites == 1
    assert ready.compile_seconds
    assert api.exit_code(first) == 2


def the_report_holds_all_targets_and_is_one_of_version_1(first: Report) -> None:
    text = api.render(first, "json")
    for path in ("fixtures/report.schema.json", "docs/schema/report.schema.json"):
        jsonschema.validate(json.loads(text), json.loads((ROOT / path).read_text()))
    assert from_json(Report, json.loads(text)) == first
    assert {each.target for each in first.targets if each.was_run} == {
        name for name in rows(first) if name != "broken.py"
    }
    assert [item.path for item in first.skipped] == ["broken.py"]


def sites_stand_over_all_models_with_what_removes_them(first: Report) -> None:
    assert first.sweep is not None
    (site,) = first.sweep.sites
    assert (site.path, site.models, site.observed) == ("breaks.py", ("breaks.py::Net",), True)
    assert (site.line, site.what) == (13, "TCR301")
    assert site.fingerprint in {finding.fingerprint for finding in first.findings}
    text = api.render(first, "text")
    assert "SWEEP   5 models: 1 ready, 1 not ready, 1 inputs unknown, 1 failed, 1 cannot be read" in text
    assert "breaks.py:13: TCR301 " in text
    assert "wants.py::Wants: inputs unknown: build: TypeError: Wants.__init__() missing 1" in text
    assert "CHANGED" not in text


def the_edited_model_ran_again_and_no_other(first: Report, second: Report) -> None:
    assert first.sweep is not None
    assert second.sweep is not None
    assert (first.sweep.made, first.sweep.taken) == (10, 0)
    assert (second.sweep.made, second.sweep.taken) == (2, 8)  # it is read and run
    again = {name: row.stored for name, row in rows(second).items() if row.device}
    assert again == {"breaks.py::Net": False, "ready.py::Net": True, "kills.py::Net": True, "wants.py::Wants": True}
    was, now = rows(first)["breaks.py::Net"], rows(second)["breaks.py::Net"]
    assert now.before == was.outcome
    assert [(cause.kind, cause.what) for cause in now.causes] == [("own", "breaks.py")]
    assert rows(second)["ready.py::Net"].causes == ()
    text = api.render(second, "text")
    assert "CHANGED since the last sweep: 1 model\n" in text
    assert "breaks.py::Net: not ready -> ready, of ops" in text
    assert "own sites 1 -> 0; changed: own code breaks.py" in text


@pytest.mark.torch
@pytest.mark.release
def test_a_matrix_runs_a_model_in_every_cell_that_a_file_lists(zoo: Path) -> None:
    (zoo / "zoo.toml").write_text(
        dedent("""\
        [targets.one]
        target = "ready.py::Net"
        inputs = "data.py::mine"
    """)
    )
    (zoo / "data.py").write_text(
        dedent("""\
        import torch


        def mine():
            return torch.ones(3, 4)
    """)
    )
    wanted = SweepOptions(matrix=("mode=infer,train",), workers=2, store="matrix.sqlite")
    report = api.sweep("zoo.toml", root=zoo, wanted=wanted, checkout=False)
    assert report.sweep is not None
    assert [(each.mode, each.outcome.verdict) for each in report.sweep.models] == [
        ("infer", "ready"),
        ("train", "ready"),
    ]
    assert {each.observation.convention for each in report.targets} == {"[targets.one]"}
    assert " infer  " in api.render(report, "text")


BOXED = (
    PLAIN.format(n=1)
    .replace("return", "if BOXED:\n            print(x)\n        return")
    .replace("\n\n\nclass", "\n\nimport os\n\nBOXED = 'BOX' in os.environ\n\n\nclass")
    + "\n\ndef get_inputs():\n    import torch\n\n    return [torch.ones(2)]\n"
)


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="the interpreter is a shell script")
def test_an_interpreter_of_a_matrix_may_be_a_script_that_becomes_one(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(BOXED)
    for name, how in (("box", "exec "), ("between", "")):
        (tmp_path / name).write_text(f'#!/bin/sh\nexport BOX=1\n{how}"{sys.executable}" "$@"\n')
        (tmp_path / name).chmod(0o755)
    wanted = SweepOptions(matrix=(f"python={sys.executable},{tmp_path}/box,{tmp_path}/between",), workers=2)
    report = api.sweep("net.py", root=tmp_path, wanted=wanted, checkout=False)
    assert report.sweep is not None
    found = sorted((each.outcome.verdict, each.outcome.own_sites) for each in report.sweep.models)
    assert found == [("not_ready", 1), ("ready", 0), ("unknown", 0)]
    (failed,) = [each.reason for each in report.sweep.models if each.outcome.verdict == "unknown"]
    assert "an interpreter that is a script has to become Python: `exec python`" in failed
    verdicts = {each.interpreter: each.outcome.verdict for each in report.sweep.models}
    assert verdicts[f"{tmp_path}/box"] == "not_ready"
    assert f" {tmp_path}/box " in api.render(report, "text")  # their versions are equal


@pytest.mark.torch
@pytest.mark.skipif(sys.platform != "linux", reason="runs are copied on Linux alone")
def test_a_second_interrupt_does_not_keep_the_first_from_ending_all_runs(tmp_path: Path) -> None:
    hangs = READY.replace("return double(", "open('under-way', 'w'); import time; time.sleep(100); return (")
    (tmp_path / "net.py").write_text(hangs.replace("from helper import double\n", ""))

    def answer_interrupts() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background job starts with it ignored

    process = subprocess.Popen(
        command(".", "-q"), cwd=tmp_path, stderr=subprocess.PIPE, text=True, preexec_fn=answer_interrupts
    )
    until = time.monotonic() + 120
    while time.monotonic() < until and not (tmp_path / "under-way").exists():
        time.sleep(0.05)
    began = time.monotonic()
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    _, error = process.communicate(timeout=90)
    assert (process.returncode, error.strip()) == (130, "tcready: interrupted")
    assert time.monotonic() - began < 30


def test_who_ended_all_runs_wants_no_more(tmp_path: Path) -> None:
    place = TaskPlace()
    place.close()
    result = place.run(Task("run", "key", "net.py::Net", str(tmp_path)))
    assert (result.value, result.failure.endswith("the work was ended")) == ("", True)


# Kept, whoever is killed and whoever else is there


@pytest.fixture
def many(tmp_path: Path) -> Path:
    for number in range(FILES):
        (tmp_path / f"net{number:02}.py").write_text(PLAIN.format(n=number))
    return tmp_path


def swept(root: Path) -> Any:
    """What the table says after a sweep that only reads."""
    output = root / "report.json"
    done = subprocess.run(
        command(*READ, "--output-format", "json", "-o", str(output)),
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(output.read_text())["sweep"]
    return [(row["target"], row["outcome"]) for row in found["models"]], found["made"], found["taken"]


def test_a_sweep_that_was_killed_goes_on_and_does_nothing_twice(many: Path) -> None:
    store = many / STORE
    process = subprocess.Popen(command(*READ), cwd=many)
    until = time.monotonic() + 60
    while time.monotonic() < until and sum(state == "done" for state, _ in _look(store).values()) < 3:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = {key: row for key, row in _look(store).items() if row[0] == "done"}
    assert 3 <= len(before) < FILES, "it was to be killed on the way"
    table, made, taken = swept(many)
    assert (made, taken) == (FILES - len(before), len(before))
    after = kept(store)
    assert {key: after[key] for key in before} == before
    assert {state for state, _ in after.values()} == {"done"}
    assert [name for name, _ in table] == [f"net{n:02}.py::Net{n}" for n in range(FILES)]


def _look(store: Path) -> dict[tuple[str, str], tuple[str, int]]:
    try:
        return kept(store)
    except sqlite3.Error:
        return {}


def test_two_sweeps_at_once_share_what_they_do(many: Path) -> None:
    outputs = [many / "one.json", many / "two.json"]
    both = [
        subprocess.Popen(command(*READ, "--output-format", "json", "-o", str(output)), cwd=many) for output in outputs
    ]
    assert [each.wait(120) for each in both] == [0, 0]
    one, two = (json.loads(output.read_text())["sweep"] for output in outputs)
    assert set(kept(many / STORE).values()) == {("done", 1)}
    assert one["made"] + two["made"] == FILES
    assert [row["outcome"] for row in one["models"]] == [row["outcome"] for row in two["models"]]


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Task("read", "key", "net.py", str(tmp_path))


NOTHING = Ground({}, {}, "", "", "", {})


def test_what_one_sweep_claims_another_waits_for_until_it_is_gone(tmp_path: Path, task: Task) -> None:
    with ResultStore(tmp_path / "s", "s") as mine, ResultStore(tmp_path / "s", "s") as other:
        mine.begin([])
        other.begin([])
        assert (mine.claim(task, NOTHING), other.claim(task, NOTHING)) == ("mine", "theirs")
        mine.finish(Result("key", "1", time.time(), 0.5))
        assert other.claim(task, NOTHING) == "done"
    with ResultStore(tmp_path / "s", "s") as later:
        later.begin([])
        assert later.claim(task, NOTHING) == "done"
        assert later.claim(task, NOTHING, fresh=True) == "mine"
    script = dedent("""\
            import sys; from pathlib import Path; from tcready.sweep.store import ResultStore
            from tcready.sweep.task import Task; from tcready.sweep.cache_key import Ground; import os
            store = ResultStore(Path('s'), 's'); store.begin([])
            store.claim(Task('read', 'dead', 'net.py', '.'), Ground({}, {}, '', '', '', {})); os._exit(0)""")
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, timeout=60)
    with ResultStore(tmp_path / "s", "s") as after:
        after.begin([])
        assert after.claim(dataclasses.replace(task, key="dead"), NOTHING) == "mine"


def test_what_says_of_the_machine_holds_for_one_sweep(tmp_path: Path, task: Task) -> None:
    with ResultStore(tmp_path / "s", "s") as store:
        store.begin([])
        store.claim(task, NOTHING)
        store.finish(Result("key", "1", time.time(), 0.5, passing=True))
        assert store.result("key") is not None
    with ResultStore(tmp_path / "s", "s") as store:
        store.begin([])
        assert store.claim(task, NOTHING) == "mine"


def test_a_file_that_is_no_store_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(PLAIN.format(n=1))
    (tmp_path / "s.sqlite").write_text("this is not a database at all, it is a text\n" * 40)
    assert run("sweep", "net.py", "--no-run", "--store", "s.sqlite") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("tcready: error: the store s.sqlite cannot be used: ")


# What a result rests on


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(
        dedent("""\
        from pkg.inner import part
        import installed
        from torch import nn
    """)
    )
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "inner.py").write_text("from . import other\npart = 1\n")
    (tmp_path / "pkg" / "other.py").write_text("")
    (tmp_path / "alone.py").write_text("")
    site = tmp_path / "env" / "site-packages"
    for name, requires in (("installed", "needed>=1"), ("needed", ""), ("apart", "")):
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").write_text("")
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        line = f"Requires-Dist: {requires}\n" if requires else ""
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{line}")
    return tmp_path


def ground_of(root: Path, **options: Any) -> Ground:
    python = PythonInterpreter(None, "3.11.7", "2.13.0", (str(root / "env" / "site-packages"),))
    task = Task("run", "", "net.py::Net", str(root), run=RunOptions(**options))
    return Surveyor(root, python, "code").ground(task)


def test_a_result_rests_on_own_files_and_on_versions_of_what_is_installed(project: Path) -> None:
    found = ground_of(project)
    assert set(found.files) == {"net.py", "pkg/__init__.py", "pkg/inner.py", "pkg/other.py"}
    assert dict(found.distributions) == {"installed": "1.0", "needed": "1.0"}
    assert from_json(Ground, json.loads(json.dumps(as_json(found)))) == found
    (project / "data.py").write_text("import alone\n")
    with_inputs = ground_of(project, inputs="data.py::mine")
    assert set(with_inputs.files) - set(found.files) == {"data.py", "alone.py"}


def test_what_changes_the_key_and_what_does_not(project: Path) -> None:
    def key(**options: Any) -> str:
        return ground_of(project, **options).key("run", "net.py::Net")

    before = key()
    (project / "alone.py").write_text("x = 1\n")
    os.utime(project / "net.py")
    site = project / "env" / "site-packages"
    (site / "apart-1.0.dist-info").rename(site / "apart-2.0.dist-info")
    assert key() == before
    (project / "pkg" / "other.py").write_text("x = 1\n")
    edited = key()
    assert edited != before
    metadata = site / "needed-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("Version: 1.0", "Version: 1.1"))
    assert key() != edited
    assert len({key(), key(mode="train"), key(device="cuda"), key(timeout=5.0)}) == 4


def test_a_task_and_its_result_can_travel(tmp_path: Path) -> None:
    task = Task("run", "key", "net.py::Net", str(tmp_path), run=RunOptions(weights=(("one", 2.0),)))
    assert pickle.loads(pickle.dumps(task)) == task
    assert from_json(Task, json.loads(json.dumps(as_json(task)))) == task
    result = Result("key", "{}", 1.0, 2.0)
    assert from_json(Result, json.loads(json.dumps(as_json(result)))) == result


# What is swept


def test_a_package_gives_every_class_of_its_modules_and_a_glob_what_matches(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "base.py").write_text(PLAIN.format(n=1))
    (tmp_path / "pkg" / "more.py").write_text(
        dedent("""\
            from .base import Net1


            class More(Net1):
                pass


            class Plain:
                def forward(self, x): ...


            class Outer:
                class Inner(Net1):
                    pass
        """)
    )
    report = api.sweep("pkg", run=False, root=tmp_path / "pkg" / "..", checkout=False)
    assert set(rows(report)) == {"pkg/base.py::Net1", "pkg/more.py::More"}  # the folder is there
    (tmp_path / "src").mkdir()
    (tmp_path / "pkg").rename(tmp_path / "src" / "pkg")
    report = api.sweep("pkg", run=False, root=tmp_path, checkout=False)
    assert set(rows(report)) == {"pkg.base::Net1", "pkg.more::More", "pkg.more::Outer.Inner"}
    (tmp_path / "src" / "space" / "inner").mkdir(parents=True)  # a package without an __init__.py
    (tmp_path / "src" / "space" / "inner" / "net.py").write_text(PLAIN.format(n=2))
    for name in ("space", "space.inner"):
        report = api.sweep(name, run=False, root=tmp_path, checkout=False)
        assert set(rows(report)) == {"space.inner.net::Net2"}
    (tmp_path / "src" / "empty").mkdir()
    with pytest.raises(TcreadyError, match="empty: there is no such file, folder, glob or package"):
        api.sweep("empty", run=False, root=tmp_path, checkout=False)
    settings = resolve({}, root=tmp_path)
    found = target_expansion.resolve_targets(["src/*/*.py", "src/pkg/base.py"], settings)
    assert [each.target for each in found] == ["src/pkg/__init__.py", "src/pkg/base.py", "src/pkg/more.py"]


ASSIGNED = """\
from torch import nn


class Noisy(nn.Module):
    def forward(self, x):
        print(x.sum().item())
        return x + 1


class Same(nn.Module):
    forward = Noisy.forward


class Below(Same):
    pass


class Renamed(nn.Module):
    def run(self, x):
        print(x.sum().item())
        return x * 2

    forward = run


class Nearer(Noisy):
    forward = Renamed.forward


class Row(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, 4), Noisy())


class Wide(nn.Linear):
    def __init__(self):
        super().__init__(4, 4)


class Taken(Noisy):
    forward = None


class Members(nn.ModuleList):
    pass


class Empty(nn.Module):
    pass
"""
FOUND = {"Same", "Below", "Renamed", "Nearer", "Row", "Wide"}


def test_a_class_whose_forward_is_assigned_or_comes_with_torch_is_swept(tmp_path: Path) -> None:
    (tmp_path / "src" / "pkg").mkdir(parents=True)
    (tmp_path / "src" / "pkg" / "__init__.py").write_text(ASSIGNED)
    (tmp_path / "net.py").write_text(ASSIGNED)
    found = rows(api.sweep("pkg", run=False, root=tmp_path, checkout=False))
    assert set(found) == {f"pkg::{name}" for name in FOUND | {"Noisy"}}
    sites = {name.partition("::")[2]: each.outcome.own_sites for name, each in found.items()}
    assert sites == {name: int(name != "Wide") for name in FOUND | {"Noisy"}}
    found = rows(api.sweep("net.py", run=False, root=tmp_path, checkout=False))
    assert set(found) == {f"net.py::{name}" for name in ("Below", "Nearer", "Row", "Wide")}  # that no other names


@pytest.mark.torch
def test_what_a_run_shows_of_a_forward_that_is_assigned(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(ASSIGNED)
    names = [f"net.py::{name}" for name in ("Nearer", "Row")]
    report = api.sweep(names, root=tmp_path, checkout=False)
    assert {name: each.outcome.own_sites for name, each in rows(report).items()} == dict.fromkeys(names, 1)
    assert {(each.path, each.line, each.status) for each in report.findings} == {
        ("net.py", line, "confirmed") for line in (6, 20)
    }


def test_the_change_that_comes_first_is_of_the_first_site_of_its_kind(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(PRINTS + "\n\n" + PRINTS.replace("Net1", "Net2"))
    found = api.sweep(".", run=False, root=tmp_path, checkout=False).sweep
    assert found is not None
    assert [each.line for each in found.sites] == [6, 15]
    guarded = "Guard it with `if not torch.compiler.is_compiling():`"
    assert len(found.fixes) == 2
    for fix, line in zip(found.fixes, (6, 15), strict=True):
        assert fix.what.startswith(f"TCR301 at a.py:{line}: {guarded}")


def test_a_glob_goes_round_in_no_circles_and_leaves_no_tree(tmp_path: Path) -> None:
    inner = tmp_path / "models" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "outside.py").write_text("")
    for name in ("models/a.py", "models/inner/b.py", "models/inner/note.txt"):
        (tmp_path / name).write_text("")
    for name in ("round", "again"):
        (inner / name).symlink_to("..")
    (inner / "itself").symlink_to("itself")
    (inner / "alias.py").symlink_to("b.py")
    (inner / "outside.py").symlink_to("../../outside.py")
    settings = resolve({}, root=tmp_path)

    def found(*patterns: str) -> list[str]:
        return [each.target for each in target_expansion.resolve_targets(patterns, settings)]

    every = ["models/a.py", "models/inner/alias.py", "models/inner/b.py"]
    for pattern in ("models/**/*.py", f"{tmp_path}/models/**/*.py", "./models/**/**/*.py"):
        assert [each.removeprefix(f"{tmp_path}/") for each in found(pattern)] == every, pattern
    below = ["models/a.py", "models/inner/b.py", "outside.py"]  # a link ends there, within the project
    assert found("models/*") == found("m*/inner/../*") == below
    named = "models/inner/round/"  # it is followed
    assert found(f"{named}[a].py") == [f"{named}a.py"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[targets.x]\ntarget = 3\n", "zoo.toml: [targets.x] target = 3: it takes a string"),
        ("[targets.x]\ntarget = 'gone.py::Net'\n", "zoo.toml: [targets.x] gone.py::Net: there is no file gone.py"),
        (
            dedent("""\
            [targets.x]
            target = 'net.py::Net'
            moed = 'train'
        """),
            "has no key moed: did you mean mode?",
        ),
        ("[targets.x\n", "zoo.toml cannot be read: "),
        ("[target.x]\n", "zoo.toml lists no target: write [targets.NAME]"),
        (
            dedent("""\
                [targets.x]
                target = 'net.py'
                mode = 'train'
            """),
            "zoo.toml: [targets.x] mode goes with one model: name it, as net.py::Name",
        ),
        ("[targets.x]\ntarget = 'zoo.toml'\n", "zoo.toml: [targets.x] names another list"),
        ("[targets.x]\ntarget = 'no*.py'\n", "zoo.toml: [targets.x] no*.py: nothing matches"),
        (
            dedent("""\
                [targets.x]
                target = 'net.py'
                [tragets.y]
                target = 'net.py'
            """),
            "zoo.toml: [tragets] is no table of a list: write [targets.NAME]",
        ),
        ("[targets.x]\0", "zoo.toml cannot be read: it holds NUL bytes"),
    ],
)
def test_a_list_of_targets_that_is_wrong_is_one_line(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(PLAIN.format(n=1))
    (tmp_path / "zoo.toml").write_text(text)
    assert run("sweep", "zoo.toml") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error


def test_a_list_holds_files_and_folders_and_what_is_named_twice_counts_once(tmp_path: Path) -> None:
    (tmp_path / "nets").mkdir()
    for number in (1, 2):
        (tmp_path / "nets" / f"net{number}.py").write_text(PLAIN.format(n=number))
    (tmp_path / "zoo.toml").write_text(
        dedent("""\
        [targets.all]
        target = 'nets/'
        [targets.one]
        target = './nets/net1.py'
    """)
    )
    report = api.sweep(("zoo.toml", "nets/net2.py", "./nets"), root=tmp_path, run=False)
    assert sorted(rows(report)) == ["nets/net1.py::Net1", "nets/net2.py::Net2"]
    assert report.sweep is not None
    assert report.sweep.made == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere",), "nowhere: there is no such file, folder, glob or package"),
        (("no*.py",), "no*.py: nothing matches"),
        ((".", "--matrix", "speed=1"), "--matrix speed=1: write AXIS=VALUE,VALUE"),
        ((".", "--matrix", "mode=both"), "a mode is one of infer, train"),
        ((".", "--matrix", "torch=1.0"), "--matrix torch=1.0: no interpreter with that torch is known"),
        (
            ("nowhere", "--matrix", "python=/bin/false"),
            "the interpreter /bin/false cannot be asked for its version: it exits with code 1\n",
        ),
        ((".", "--matrix", "python=/nowhere/python"), "--python /nowhere/python: no such program"),
        ((".", "--matrix", "torch=2.13", "--matrix", "python=python3"), "both name interpreters"),
        ((".", "--matrix", "torch=2.13", "device=cpu", "python=python3"), "both name interpreters"),
        ((), "name what to sweep: a folder"),
    ],
)
def test_what_cannot_be_swept_is_refused_in_one_line(
    arguments: tuple[str, ...],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("sweep", *arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error


def test_a_version_of_torch_is_found_among_the_interpreters_of_the_project(tmp_path: Path) -> None:
    settings = resolve({}, project={"interpreters": ("old", "new")}, root=tmp_path)
    have = {None: "2.13.0+cpu", "old": "2.11.0", "new": "2.14.1"}
    given = matrix.axes(["torch=2.14,2.13.0", "device=cpu,cuda"])
    found = matrix.cells(given, settings, lambda python: have[python])
    assert [(cell.python, cell.device) for cell in found] == [
        ("new", "cpu"),
        ("new", "cuda"),
        (None, "cpu"),
        (None, "cuda"),
    ]
    with pytest.raises(TcreadyError, match=r"torch=2\.1: .*there is 2\.13\.0\+cpu, 2\.11\.0, 2\.14\.1"):
        matrix.cells({"torch": ("2.1",)}, settings, lambda python: have[python])


def test_every_engine_is_there_and_gives_one_result_for_a_task_that_cannot_be_done(tmp_path: Path) -> None:
    with pytest.raises(TcreadyError, match="--engine steam: use one of local"):
        engine_choice.opened("steam", None, ())
    opened = engine_choice.opened("local", 1, ("cpu",))
    try:
        opened.submit(Task("read", "key", "nowhere.py", str(tmp_path)))
        result = opened.completed(60)
        assert result is not None
        assert (result.key, result.value) == ("key", "")
        assert "nowhere.py: no such file" in result.failure
        assert opened.completed(0.01) is None
    finally:
        opened.close()


def test_an_interpreter_is_asked_what_it_is(tmp_path: Path) -> None:
    mine, asked = cache_key.interpreter(None, tmp_path), cache_key.interpreter(sys.executable, tmp_path)
    assert (mine.version, mine.torch) == (asked.version, asked.torch)
    with pytest.raises(TcreadyError, match=r"the interpreter \./no cannot be asked"):
        cache_key.interpreter("./no", tmp_path)


def test_an_export_without_pyarrow_is_refused_before_anything_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "net.py").write_text(PLAIN.format(n=1))
    assert run("sweep", "net.py", "--no-run", "--export", "all.parquet") == 2
    assert "--export needs pyarrow: install tcready[parquet]" in capsys.readouterr().err
    assert not (tmp_path / STORE).exists()


def pyarrow(name: str) -> Any:
    """CI has it, and does not skip what needs it."""
    return importlib.import_module(name) if os.environ.get("CI") else pytest.importorskip(name)


def test_an_export_holds_every_finished_result(tmp_path: Path, task: Task) -> None:
    parquet = pyarrow("pyarrow.parquet")
    with ResultStore(tmp_path / "s.sqlite", "s.sqlite") as store:
        store.begin([])
        store.claim(task, NOTHING)
        store.finish(Result("key", '{"a": 1}', 5.0, 0.5))
        store.claim(dataclasses.replace(task, key="other"), NOTHING)
        api.export_sweeps("s.sqlite", tmp_path / "all.parquet", root=tmp_path)
    (row,) = parquet.read_table(tmp_path / "all.parquet").to_pylist()
    assert (row["key"], row["target"], row["seconds"], row["value"]) == ("key", "net.py", 0.5, '{"a": 1}')
    with pytest.raises(TcreadyError, match=r"--store none\.sqlite: there is no such file"):
        api.export_sweeps("none.sqlite", tmp_path / "all.parquet", root=tmp_path)


@pytest.mark.parametrize("named", [STORE, "link", f"{STORE}-wal"])
def test_an_export_never_takes_the_place_of_the_store(
    named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(PLAIN.format(n=1))
    (tmp_path / "link").symlink_to(STORE)
    assert run("sweep", *READ) == 0
    before = kept(tmp_path / STORE)
    capsys.readouterr()
    assert run("sweep", "--export", named) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert kept(tmp_path / STORE) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_an_export_goes_through_a_pipe_and_a_link_and_replaces_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyarrow("pyarrow")
    monkeypatch.chdir(tmp_path)
    with ResultStore(tmp_path / "s.sqlite", "s.sqlite"):
        pass
    (tmp_path / "link").symlink_to("all.parquet")
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", "pipe"], cwd=tmp_path, stdout=subprocess.PIPE)
    for name in ("link", "pipe"):
        api.export_sweeps("s.sqlite", name)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "pipe").is_fifo()
    assert reader.communicate(timeout=60)[0] == (tmp_path / "all.parquet").read_bytes()


def test_what_lists_a_target_says_how_it_is_read_and_run(tmp_path: Path) -> None:
    """The tables of a list are no business of a check: its command line has to say what they say."""
    (tmp_path / "net.py").write_text(PLAIN.format(n=1))
    (tmp_path / "zoo.toml").write_text(
        dedent("""\
            [targets.one]
            target = "net.py::Net1"
            mode = "train"
            device = "cuda"
            [targets.two]
            target = "net.py::Net1"
        """)
    )
    settings = resolve({"timeout": 5.0}, root=tmp_path)
    one, two = target_expansion.resolve_targets(["zoo.toml", "zoo.toml"], settings)
    assert [each.table.name for each in (one, two) if each.table] == ["one", "two"]
    (planned,) = target_expansion.runs(one, None, settings)
    said = runner.with_list_settings(settings.with_table(planned.table), one)
    assert run_selection.command_arguments(planned.target, None, said) == (
        *("net.py::Net1", "--mode", "train", "--device", "cuda", "--timeout", "5"),
    )
    (options,) = dataclasses.replace(planned, table=None).options(settings.with_table(planned.table))
    assert (options.mode, options.device, options.synthesise) == ("train", "cuda", True)
    report = api.sweep(["zoo.toml"], root=tmp_path, run=False, checkout=False)
    assert [(each.target, each.mode) for each in report.targets] == [
        ("net.py::Net1", "train"),
        ("net.py::Net1", "infer"),
    ]


def test_gpus_are_those_that_the_environment_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, 5")
    assert local_engine.gpus() == ("3", "5")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert local_engine.gpus() == ()


@pytest.mark.parametrize(
    ("devices", "slots"),
    [
        (("cuda",), 3),
        (("auto", "cuda:1"), 3),
        (("cuda:0", "cuda:1"), 2),
        (("cuda:1",), 1),
        (("cuda:1", "cpu"), 16),
        (("cuda:7",), 16),
        ((), 16),
    ],
)
def test_there_are_as_many_workers_as_runs_on_cuda_use_gpus(
    devices: tuple[str, ...], slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5,6")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(16), raising=False)
    opened = local_engine.opened(None, devices)
    assert opened.slots == slots
    opened.close()


class Busy:
    """Runs nothing for a moment, and knows what was under way at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.now: list[tuple[str, str]] = []
        self.seen: set[tuple[str, str]] = set()
        self.clashes: set[frozenset[tuple[str, str]]] = set()

    def run(self, task: Task, variables: Mapping[str, str]) -> Result:
        mine = (task.run.device, variables.get("CUDA_VISIBLE_DEVICES", "all"))
        with self.lock:
            self.clashes |= {frozenset((mine, other)) for other in self.now if CARDS[mine] & CARDS[other]}
            self.seen.add(mine)
            self.now.append(mine)
        time.sleep(0.02)
        with self.lock:
            self.now.remove(mine)
        return Result(task.key, "{}", 0.0, 0.0)


CARDS = {
    ("cuda", "3"): {"3"},
    ("cuda", "5"): {"5"},
    ("cuda", "3,5"): {"3", "5"},
    ("cuda:0", "all"): {"3"},
    ("cuda:1", "all"): {"5"},
    ("cuda:9", "all"): set(),
    ("cpu", "all"): set(),
}
"""What a run on a device takes if it sees these."""


@pytest.mark.parametrize("asked", [("cpu",), ("cuda",), ("cuda:1", "cpu")])
def test_no_two_runs_have_one_gpu(asked: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the sweep is on, a table may put a model on another device."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    opened, busy = local_engine.opened(8, asked), Busy()
    monkeypatch.setattr(opened._place, "run", busy.run)
    runs = [RunOptions(device=device) for device in ("cuda", "cuda:1", "cuda:0", "cpu", "cuda:9")]
    runs += [RunOptions(device="cuda", processes=count) for count in (2, 3)]
    tasks = [Task("run", str(n), "net.py", str(tmp_path), run=each) for n, each in enumerate(runs * 8)]
    for task in tasks:
        opened.submit(task)
    results = [opened.completed(60) for _ in tasks]
    opened.close()
    assert sorted(each.failure for each in results if each is not None) == [""] * len(tasks)
    assert not busy.clashes
    # Which of the cards that are free a run gets depends on what ends first: the test below has both used.
    either = {("cuda", "3"), ("cuda", "5")}
    assert busy.seen & either
    assert busy.seen | either == set(CARDS)


def test_runs_on_any_gpu_use_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run waits for the other: with one card for both, neither would end."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    opened, both = local_engine.opened(2, ("cuda",)), threading.Barrier(2, timeout=60)
    seen: list[str] = []

    def run(task: Task, variables: Mapping[str, str]) -> Result:
        seen.append(variables["CUDA_VISIBLE_DEVICES"])
        both.wait()
        return Result(task.key, "{}", 0.0, 0.0)

    monkeypatch.setattr(opened._place, "run", run)
    for number in range(2):
        opened.submit(Task("run", str(number), "net.py", str(tmp_path), run=RunOptions(device="cuda")))
    results = [opened.completed(120) for _ in range(2)]
    opened.close()
    assert [each.failure for each in results if each is not None] == ["", ""]
    assert sorted(seen) == ["3", "5"]


def test_reading_executes_nothing_that_the_checkout_names(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(READY)
    (tmp_path / "helper.py").write_text(HELPER)
    program = tmp_path / "python.sh"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/executed\n")
    program.chmod(0o755)
    (tmp_path / "pyproject.toml").write_text('[tool.tcready]\npython = "./python.sh"\n')
    report = api.sweep("net.py", root=tmp_path, run=False)
    assert [each.state for each in (row.outcome for row in rows(report).values())] == ["read"]
    assert not (tmp_path / "executed").exists()


def test_an_interpreter_is_asked_without_the_modules_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('executed')\n")
    assert cache_key.interpreter(sys.executable, tmp_path).version == ".".join(map(str, sys.version_info[:3]))


def test_the_packages_of_a_file_are_what_its_result_rests_on(tmp_path: Path) -> None:
    package = tmp_path / "pkg" / "inner"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("")
    (package / "net.py").write_text(READY)
    surveyor = Surveyor(tmp_path, cache_key.interpreter(None, tmp_path), "0")
    found = surveyor.ground(Task("run", "", "pkg/inner/net.py::Net", str(tmp_path)))
    assert {"pkg/__init__.py", "pkg/inner/__init__.py"} <= set(found.files)


def test_what_changes_while_it_is_worked_out_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.py").write_text(READY)
    (tmp_path / "helper.py").write_text(HELPER)
    submit = LocalEngine.submit

    def edited(self: LocalEngine, given: Task) -> None:
        (tmp_path / "helper.py").write_text(BREAKS)
        submit(self, given)

    with monkeypatch.context() as patched:
        patched.setattr(LocalEngine, "submit", edited)
        api.sweep("net.py", root=tmp_path, run=False)
    (tmp_path / "helper.py").write_text(HELPER)
    counts = [api.sweep("net.py", root=tmp_path, run=False).sweep for _ in range(2)]
    assert [(each.made, each.taken) for each in counts if each is not None] == [(1, 0), (0, 1)]


def test_what_a_claim_that_was_given_up_found_before_stands_again(tmp_path: Path, task: Task) -> None:
    path = tmp_path / "s.sqlite"
    with ResultStore(path, "s") as store:
        store.begin([])
        assert store.claim(task, NOTHING) == "mine"
        store.finish(Result("key", "{}", 0.0, 1.0))
    with ResultStore(path, "s") as store:
        store.begin([])
        assert store.claim(task, NOTHING, fresh=True) == "mine"
        store.give_up("key")
    with ResultStore(path, "s") as store:
        store.begin([])
        assert store.claim(task, NOTHING) == "done"


def test_a_result_that_was_cut_short_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        (tmp_path / f"net{number}.py").write_text(PLAIN.format(n=number))
    assert run("sweep", *READ) == 0
    base = sqlite3.connect(STORE)
    for damage in ("substr(value, 1, 40)", f"'{'[' * 200_000}{']' * 200_000}'"):
        base.execute(f"UPDATE results SET value = {damage} WHERE target = 'net1.py'")
        base.commit()
        capsys.readouterr()
        assert run("sweep", *READ) == 0
        assert "1 result computed" in capsys.readouterr().out
    base.execute("UPDATE results SET ground = '{'")
    base.commit()
    base.close()
    assert run("sweep", *READ) == 2
    assert f"the store {STORE} cannot be used" in capsys.readouterr().err


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE results SET value = '3'",
        "UPDATE results SET value = '{}'",
        "UPDATE results SET ground = '3'",
        "UPDATE members SET row = '[]'",
        f"UPDATE results SET value = '{DEEP}'",
        f"UPDATE results SET ground = '{DEEP}'",
        f"UPDATE members SET row = '{DEEP}'",
        "UPDATE members SET row = json_set(row, '$.share', json('1e999'))",
        *(f"UPDATE members SET setting = {text}" for text in ("'notjson'", "'[1]'", "5", "x'ff'")),
        *(f"UPDATE results SET seconds = {text}" for text in ("'abc'", "9e999", "x'00'")),
        *(
            f"DROP TABLE results; CREATE VIEW results AS WITH RECURSIVE c(n) AS (SELECT 1 {more}) SELECT n AS key, n AS"
            " stage, n AS target, n AS status, n AS owner, n AS sweep, n AS tries, n AS began, n AS ended, n AS seconds,"
            " n AS ground, n AS value FROM c"
            for more in ("", "UNION ALL SELECT n FROM c")
        ),
        "CREATE TRIGGER t AFTER INSERT ON sweeps BEGIN DELETE FROM results; END",
        "INSERT INTO owners VALUES ('x', 'x', 1, 'x', 'x'); UPDATE results SET status = 'claimed', owner = 'x'",
    ],
)
def test_a_store_with_values_of_another_kind_is_refused_in_one_line(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(PLAIN.format(n=1))
    assert run("sweep", *READ) == 0
    base = sqlite3.connect(STORE)
    base.executescript(change)
    base.close()
    capsys.readouterr()
    assert run("sweep", *READ) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith(f"tcready: error: the store {STORE} cannot be used: ")
    assert error.endswith("; delete it, or name another with --store\n")


def test_formats_of_findings_alone_name_files_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text("def (\n")
    assert run("sweep", *READ, "--output-format", "concise") == 2
    assert "tcready: error: broken.py cannot be judged" in capsys.readouterr().err


def test_each_table_of_a_list_has_a_row_in_its_mode_and_so_has_each_name_that_is_not_there(tmp_path: Path) -> None:
    text = "if self.training:\n            print(x.sum().item())\n        return x"
    (tmp_path / "net.py").write_text(PLAIN.format(n=1).replace("return x", text))
    names = {"one": ("Net1", "infer"), "two": ("Net1", "train"), "three": ("Net1", "train")}
    names |= {"four": ("Nope", "infer"), "five": ("Nada", "infer")}
    (tmp_path / "zoo.toml").write_text(
        "".join(f"[targets.{key}]\ntarget = 'net.py::{name}'\nmode = '{mode}'\n" for key, (name, mode) in names.items())
    )
    report = api.sweep("zoo.toml", root=tmp_path, run=False)
    assert report.sweep is not None
    assert sorted((each.target, each.table, each.outcome.own_sites) for each in report.sweep.models) == [
        ("net.py::Nada", "", 0),
        ("net.py::Net1", "[targets.one]", 0),
        ("net.py::Net1", "[targets.three]", 1),
        ("net.py::Net1", "[targets.two]", 1),
        ("net.py::Nope", "", 0),
    ]
    assert api.exit_code(report) == 2
    assert "net.py::Nada: cannot be read: net.py::Nada: no 'Nada' in net.py" in api.render(report, "text")


@pytest.mark.parametrize(
    ("changed", "causes"),
    [
        ({}, []),
        ({"files": {"net.py": "2", "new.py": "1"}}, [("own", "net.py", "", ""), ("own", "new.py", "not there", "")]),
        ({"files": {}}, [("own", "net.py", "", "not there")]),
        ({"distributions": {"timm": "1.1", "numpy": "2.0"}}, [("dependency", "timm", "1.0", "1.1")]),
        (
            {"distributions": {"timm": "1.0", "einops": "0.8"}},
            [("dependency", "einops", "not there", "0.8"), ("dependency", "numpy", "2.0", "not there")],
        ),
        ({"torch": "2.14.1"}, [("torch", "", "2.13.0", "2.14.1")]),
        ({"python": "3.12.1"}, [("python", "", "3.11.7", "3.12.1")]),
        ({"tcready": "def"}, [("tcready", "", "", "")]),
        ({"options": {"mode": "infer", "fullgraph": True}}, [("options", "fullgraph", "False", "True")]),
        (
            {"torch": "2.14.1", "distributions": {"timm": "1.0", "numpy": "2.4"}, "files": {"net.py": "2"}},
            [("own", "net.py", "", ""), ("dependency", "numpy", "2.0", "2.4"), ("torch", "", "2.13.0", "2.14.1")],
        ),
    ],
)
def test_what_changed_is_put_down_to_what_a_result_rests_on(
    changed: dict[str, Any], causes: list[tuple[str, str, str, str]]
) -> None:
    before = Ground(
        files={"net.py": "1"},
        distributions={"timm": "1.0", "numpy": "2.0"},
        torch="2.13.0",
        python="3.11.7",
        tcready="abc",
        options={"mode": "infer", "fullgraph": False},
    )
    found = aggregate.causes(before, dataclasses.replace(before, **changed))
    assert [(each.kind, each.what, each.was, each.now) for each in found] == causes


def test_models_that_are_all_new_have_changed_since_the_last_sweep(tmp_path: Path) -> None:
    (tmp_path / "net1.py").write_text(PLAIN.format(n=1))
    assert "CHANGED" not in api.render(api.sweep(".", root=tmp_path, run=False), "text")
    (tmp_path / "net1.py").rename(tmp_path / "net2.py")
    text = api.render(api.sweep(".", root=tmp_path, run=False), "text")
    assert "CHANGED since the last sweep: 2 models" in text
    assert "net1.py::Net1: not there any more" in text
    assert "net2.py::Net1: new: unknown" in text


def test_the_database_of_another_program_is_no_store(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE theirs (a)")
    base.commit()
    base.close()
    before = path.read_bytes()
    with pytest.raises(TcreadyError, match="another program"):
        ResultStore(path, "other.sqlite")
    assert path.read_bytes() == before


def test_a_store_is_no_file_that_is_read_or_written_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text("")
    assert run("sweep", "net.py", "--no-run", "--store", "net.py") == 2
    assert run("sweep", "net.py", "--no-run", "--store", "new.py") == 2
    assert not (tmp_path / "new.py").exists()
    assert run("sweep", "net.py", "--no-run", "--store", "s.sqlite", "-o", "s.sqlite") == 2
    (tmp_path / "empty").mkdir()
    assert run("sweep", "empty") == 2
    errors = capsys.readouterr().err.splitlines()
    parts = ("holds code", "would be taken for code", "both name", "nothing is named")
    assert [part in error for part, error in zip(parts, errors, strict=True)] == [True] * 4


def test_a_folder_for_pages_that_leads_out_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    (inside / "net.py").write_text(PLAIN.format(n=1))
    (inside / "all_models").symlink_to("..")
    (inside / "file_models").write_text("mine")
    for name, why in (("all", "leads out of the working folder"), ("file", "file_models, which is a file")):
        assert run("sweep", *READ, "--html", f"{name}.html") == 2
        error = capsys.readouterr().err
        assert (error.count("\n"), why in error) == (1, True)
    assert not (inside / STORE).exists()


def test_pages_of_models_that_are_gone_are_removed_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net1.py").write_text(PLAIN.format(n=1))
    assert run("sweep", *READ, "--html", "all.html") == 0
    (before,) = (tmp_path / "all_models").iterdir()
    mine = [tmp_path / "all_models" / name for name in ("mine-01234567.html", "mine.html")]
    mine[0].write_text("mine")
    mine[1].write_bytes(before.read_bytes())
    (tmp_path / "net1.py").rename(tmp_path / "net2.py")
    assert run("sweep", *READ, "--html", "all.html") == 0
    left = set((tmp_path / "all_models").iterdir())
    assert (before in left, left >= set(mine), len(left)) == (False, True, 3)


def test_a_sweep_that_finds_no_model_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text("x = 1\n")
    assert run("sweep", *READ) == 2
    assert capsys.readouterr() == (
        "",
        "tcready: error: no model was found in what was named: there is no nn.Module class with a forward\n",
    )


def test_a_stored_bench_gives_a_model_of_a_sweep_its_gain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(PLAIN.format(n=1) + PLAIN.format(n=2))
    assert run("sweep", *READ, "--output-format", "json", "-o", "sweep.json") == 0
    bench = json.loads((ROOT / "fixtures" / "cuda" / "bench" / "cnn_fp32.json").read_text())

    def gains(target: str, device: str = "", **other: object) -> list[float | None] | None:
        (tmp_path / "bench.json").write_text(json.dumps({**bench, "target": target, **other}))
        swept = json.loads((tmp_path / "sweep.json").read_text())
        for row in swept["sweep"]["models"]:
            row["device"] = device
        (tmp_path / "swept.json").write_text(json.dumps(swept))
        both = api.combine(["swept.json", "bench.json"])
        text = api.render(both, "text")
        if both.sweep is not None:
            assert (" gain\n" in text) == any(row.gain is not None for row in both.sweep.models)
        return both.sweep and [row.gain for row in both.sweep.models]

    last = bench["bench"]["cases"][-1]["arms"]
    best = max(arm["speedup"]["median"] for arm in last if arm["verdict"] not in ("baseline", "failed"))
    assert best > 1
    assert gains("net.py::Net2") == gains("net.py::Net2", "cuda:0") == [None, best]
    assert gains("net.py::Net2", "cpu") == gains("net.py::Net2", mode="train") == [None, None]
    assert gains("other.py::Net") is gains("net.py::Net2", bench=None) is None


def test_a_name_that_is_no_text_is_swept(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/b\xff.py", "wb") as file:
        file.write(READY.encode())
    assert len(rows(api.sweep(".", root=tmp_path, run=False))) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not take such names")
def test_a_pipe_and_names_that_no_target_can_have_end_no_sweep(tmp_path: Path) -> None:
    """A pipe would be waited for until somebody writes into it."""
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "loop.py").symlink_to("loop.py")
    for name in ("net.py", "::error::x.py", "a::b.py", "new\nline.py", "-o.py"):
        (tmp_path / name).write_text("import pipe, loop\n" + PLAIN.format(n=1))
    for named in (".", "*.py"):
        done = subprocess.run(
            command(named, "--no-run", "-q", "--no-cache", "-o", "found.json", "--output-format", "json"),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 2
        sweep = json.loads((tmp_path / "found.json").read_text())["sweep"]
        found = {each["target"]: each["outcome"]["state"] for each in sweep["models"]}
        unread = dict.fromkeys(["::error::x.py", "a::b.py", "loop.py", "pipe.py"], "unread")
        assert found == {**unread, **dict.fromkeys(["net.py::Net1", "new\nline.py::Net1", "-o.py::Net1"], "read")}, (
            named
        )
        assert "a::b.py cannot be judged: its name holds `::`" in done.stderr
