"""What a run is put through by its surroundings: links, names, full and read-only disks, poisoned caches, forged reports.

benchmarks/abuse.py does what takes longer. Its figures, and those of fuzzing, stand in docs/pages/reliability.md.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import resource
import shutil
import stat
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mutated
import pytest
from commands import run
from fixture_markers import ROOT
from tcready import api
from tcready.pipeline import report_loading
from tcready.schema.codec import as_json, from_json
from tcready.schema.enums import TcreadyError
from tcready.schema.observation import Observation
from tcready.schema.report import Report
from tcready.static import cache
from trace_events import Job

MODEL = """\
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        return x
"""
PLANTED = "\n::error::planted\x1b[2J\u202e"
SLICE = {"source": 12, "silenced": 12, "edit": 12, "fix": 6, "notebook": 8, "report": 12, "trace": 6}
"""Cases of each kind that the tests do; benchmarks/mutations.py does thousands."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "model.py").write_text(MODEL)
    (tmp_path / "outside.txt").write_text("mine")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("kind", mutated.KINDS)
def test_mutated_input_is_refused_or_told(kind: str, tmp_path: Path) -> None:
    for number in range(SLICE[kind]):
        room = tmp_path / str(number)
        room.mkdir()
        assert mutated.wrong_with_case(kind, number, room, mutated.Corpus()) == [], f"{kind}:{number}"


def test_each_report_that_is_mutated_is_one_that_is_read(tmp_path: Path) -> None:
    """And one of each kind is there; else all that comes of a change is a refusal."""
    read = [report_loading.parse_report(json.dumps(value), "it") for value in mutated.reports()]
    whole = [each for each in read if isinstance(each, Report)]
    assert any(each.sweep is not None for each in whole)
    assert any(each.serving is not None for each in whole)
    seen = [each for each in read if isinstance(each, Observation)]
    assert any(each.parallel is not None for each in seen)
    assert len(whole) + len(seen) == len(read)


# where results are written

WRITES: dict[str, Callable[[str], tuple[str, ...]]] = {
    "-o": lambda name: ("check", "model.py", "--no-run", "-o", name),
    "--html": lambda name: ("check", "model.py", "--no-run", "--html", name),
    "--timeline": lambda name: ("check", "model.py", "--no-run", "--timeline", name),
    "--write-baseline": lambda name: ("check", "model.py", "--no-run", "--write-baseline", name),
    "--patch-dir": lambda name: ("fix", "model.py", "--unsafe", "--patch-dir", name),
    "--trace-out": lambda name: ("check", "model.py", "--no-run", "--trace-out", name),
    "report -o": lambda name: ("report", "stored.json", "-o", name),
    "report --html": lambda name: ("report", "stored.json", "--html", name),
    "worker -o": lambda name: ("worker", "-o", name),
}


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command says that exits 2 with one line."""
    capsys.readouterr()
    assert run(*arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith("tcready: error: ")
    return line


@pytest.mark.parametrize("option", WRITES)
def test_nothing_is_written_through_a_link_that_leads_out(
    option: str, project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("check", "model.py", "--no-run", "--output-format", "json", "-o", "stored.json") == 1
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    is_folder = option in ("--patch-dir", "--trace-out")
    (project / "link").symlink_to("../elsewhere" if is_folder else "../outside.txt")
    (project / "dangling").symlink_to("../nothing-yet")
    (project / "folder").symlink_to("../elsewhere")
    for name in ("link", "dangling", "folder/there"):
        line = refused(capsys, *WRITES[option](name))
        assert "is a link that leads out of the working folder" in line
    assert (tmp_path / "outside.txt").read_text() == "mine"
    assert not (tmp_path / "nothing-yet").exists()
    assert list(elsewhere.iterdir()) == []


def test_files_of_a_patch_are_not_written_through_links_either(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "out").mkdir()
    (project / "out" / "own.patch").symlink_to(tmp_path / "outside.txt")
    assert "leads out of the working folder" in refused(capsys, *WRITES["--patch-dir"]("out"))
    assert (tmp_path / "outside.txt").read_text() == "mine"


@pytest.mark.parametrize("option", [name for name in WRITES if name not in ("--patch-dir", "--trace-out")])
def test_code_is_never_written_over(option: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "model.py", "--no-run", "--output-format", "json", "-o", "stored.json") == 1
    (project / "other.py").write_text("x = 1\n")
    (project / "book.ipynb").write_text("{}")
    (project / "link").symlink_to("other.py")
    for name in ("model.py", "other.py", "book.ipynb", "link", str(project / "model.py")):
        assert "holds code, which would be lost" in refused(capsys, *WRITES[option](name))
    assert (project / "model.py").read_text() == MODEL
    assert (project / "other.py").read_text() == "x = 1\n"


def test_a_target_without_an_ending_is_not_written_over(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "model.py").rename(project / "script")
    for option in ("-o", "--html", "--write-baseline"):
        line = refused(capsys, "check", "script", "--no-run", option, "script")
        assert "is what is to be read, and would be lost" in line
    assert (project / "script").read_text() == MODEL


def test_a_file_outside_is_written_if_it_is_named_as_what_it_is(project: Path, tmp_path: Path) -> None:
    assert run("check", "model.py", "--no-run", "-o", "../outside.txt") == 1
    assert "TCR101" in (tmp_path / "outside.txt").read_text()
    (project / "reports").mkdir()
    (project / "latest").symlink_to("reports")
    assert run("check", "model.py", "--no-run", "-o", "latest/report.txt") == 1
    assert "TCR101" in (project / "reports" / "report.txt").read_text()


def test_a_link_outside_is_not_followed(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As in a folder that everybody may write to, /tmp."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "report.txt").symlink_to("../outside.txt")
    refused(capsys, "check", "model.py", "--no-run", "-o", str(shared / "report.txt"))
    assert (tmp_path / "outside.txt").read_text() == "mine"


def test_fix_writes_through_no_link_that_leads_out(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "theirs.py").write_text(MODEL)
    (project / "model.py").unlink()
    (project / "model.py").symlink_to("../theirs.py")
    assert run("fix", "model.py", "--unsafe", "--apply", "--allow-dirty") == 2
    assert "outside the working folder" in capsys.readouterr().err
    assert (tmp_path / "theirs.py").read_text() == MODEL


# disks


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))


@pytest.mark.parametrize("option", ["-o", "--html", "--write-baseline"])
def test_what_cannot_be_written_whole_is_not_written(option: str, project: Path) -> None:
    (project / "before").write_text("as it was")
    command = [sys.executable, "-m", "tcready", "check", "model.py", "--no-run", "-v", "-q", option, "before"]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=_limited, timeout=60)
    where = f"{project}/" if option == "--write-baseline" else ""
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.splitlines() == [f"tcready: error: cannot write {where}before: File too large"]
    assert (project / "before").read_text() == "as it was"
    assert {path.name for path in project.iterdir()} <= {"before", "model.py", cache.FOLDER}
    again = subprocess.run([*command[:-2]], capture_output=True, text=True, timeout=60)
    assert again.returncode == 1, "an entry that was cut short is none"


def _in_namespace(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A shell script in a mount and network namespace of its own, with an empty disk of 64 KB at $1."""
    unshare = shutil.which("unshare")
    mount = 'mount -t tmpfs -o size=64k,nr_inodes=64 none "$1" || exit 99; '
    command = [unshare or "unshare", "-rmn", "sh", "-c", mount + script, "sh", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120) if unshare else None
    if done is None or done.returncode in (1, 99):
        pytest.skip("this system gives no namespaces")
    return done


@pytest.mark.slow
def test_a_full_disk_and_one_that_is_read_only(project: Path, tmp_path: Path) -> None:
    """The check is made, and what cannot be left there is told in one line."""
    disk = tmp_path / "disk"
    disk.mkdir()
    script = (
        'cp model.py "$1/" && cd "$1" && echo kept > out.txt && { cat /dev/zero > filler; true; } 2>/dev/null; '
        '"$2" -m tcready check model.py --no-run -q; echo "full: $?"; '
        '"$2" -m tcready check model.py --no-run -q --html page.html; echo "page: $?"; '
        '"$2" -m tcready sweep . --no-run -q; echo "full, sweep: $?"; '
        'cat out.txt; rm filler; mount -o remount,ro "$1"; '
        '"$2" -m tcready check model.py --no-run -q; echo "read-only: $?"; '
        '"$2" -m tcready check model.py --no-run -q -o out.txt; echo "report: $?"; '
        '"$2" -m tcready fix model.py --unsafe --apply --allow-dirty -q; echo "fix: $?"; cat out.txt; '
        '"$2" -m tcready sweep . --no-run -q; echo "read-only, sweep: $?"; '
        '"$2" -m tcready sweep . --no-run -q --store "$1/../elsewhere.sqlite"; echo "elsewhere, sweep: $?"; ls; exit 0'
    )
    done = _in_namespace(script, str(disk), sys.executable)
    lines = done.stdout.splitlines()
    codes = [line for line in lines if re.fullmatch(r"[a-z-]+(, sweep)?: \d", line)]
    of_checks = ["full: 1", "page: 2", "read-only: 1", "report: 2", "fix: 2"]
    of_sweeps = ["full, sweep: 2", "read-only, sweep: 2", "elsewhere, sweep: 1"]
    assert codes == [*of_checks[:2], *of_sweeps[:1], *of_checks[2:], *of_sweeps[1:]], done.stdout + done.stderr
    refused = [line for line in done.stderr.splitlines() if "the store" in line]
    assert len(refused) == 2
    assert all(line.endswith("; --store names another place") for line in refused)
    assert lines.count("kept") == 2
    assert "page.html" not in lines
    assert "Traceback" not in done.stderr
    assert "cannot write page.html: No space left on device" in done.stderr
    assert "Read-only file system" in done.stderr


# names and links


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not take such names")
def test_names_of_files_move_no_cursor_and_end_no_line(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [b"a\nTCR999.py", b"b\x1b[2J.py", b"c<img src=x>.py", b"d\xff.py", "e\u202e.py".encode(), b"--f.py"]
    for name in names:
        with open(name, "w") as file:
            file.write(MODEL)
    (project / "model.py").unlink()
    for name in api.FORMATS:
        assert run("check", ".", "--no-run", "--output-format", name, "--html", "page.html") == 1, name
        said = capsys.readouterr()
        assert mutated.MOVING.search(said.err) is None
        if name in (*mutated.FOR_PEOPLE, "github"):
            assert not [line for line in said.out.splitlines() if line.startswith("TCR999")], name
        if name in mutated.FOR_PEOPLE:
            assert mutated.MOVING.search(said.out) is None, name
    assert "<img src=x>" not in (project / "page.html").read_text(errors="surrogateescape").partition("<script")[0]
    assert mutated.MOVING.search(refused(capsys, "check", "gone\x1b[2J\n.py")) is None


def test_links_that_lead_in_circles_or_out_of_the_tree(project: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "b.py").write_text(MODEL)
    (project / "circle").symlink_to(".")
    (project / "up").symlink_to("..")
    (project / "self.py").symlink_to("self.py")
    (project / "out").symlink_to("../theirs")
    (project / "theirs.py").symlink_to("../theirs/b.py")
    os.mkfifo(project / "pipe.py")
    os.mkfifo(project / "pyproject.toml.bak")
    report = api.check(["."], run=False, root=project)
    assert {finding.path for finding in report.findings} == {"model.py"}
    assert {skip.path for skip in report.skipped} == {"pipe.py", "self.py"}
    named = api.check(["theirs.py"], run=False, root=project)
    assert named.findings, "a link that is named is read"


# the cache


def _checked(project: Path) -> Any:
    settings = api.check(["model.py"], run=False, root=project, cache=True)
    return as_json(settings)["findings"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_what_stands_in_the_cache_is_never_waited_for_nor_believed(project: Path, tmp_path: Path) -> None:
    assert run("check", "model.py", "--no-run", "-q") == 1
    entries = sorted((project / cache.FOLDER).glob("*.json"))
    expected = [finding.line for finding in api.check(["model.py"], run=False, root=project).findings]
    poisons: list[Callable[[Path], object]] = [
        lambda path: os.mkfifo(path),
        lambda path: path.mkdir(),
        lambda path: path.symlink_to(tmp_path / "outside.txt"),
        lambda path: path.symlink_to(path.name),
        lambda path: (path.touch(), os.truncate(path, 1 << 40)),
        lambda path: path.write_bytes(b"0" * 64 + b"\n" + b"[" * 100_000),
    ]
    for poison in poisons:
        for path in entries:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
            poison(path)
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, "-m", "tcready", "check", "model.py", "--no-run", "-q", "--output-format", "concise"],
                capture_output=True,
                text=True,
                timeout=30,
            )
            assert (done.returncode, done.stderr) == (1, "")
            assert [int(line.split(":")[1]) for line in done.stdout.splitlines()] == expected
    assert (tmp_path / "outside.txt").read_text() == "mine"


def test_a_cache_that_is_a_link_is_none(project: Path, tmp_path: Path) -> None:
    """A checkout may bring one."""
    (tmp_path / "theirs").mkdir()
    (project / cache.FOLDER).symlink_to("../theirs")
    assert run("check", "model.py", "--no-run", "-q") == 1
    assert list((tmp_path / "theirs").iterdir()) == []
    (project / cache.FOLDER).unlink()
    (project / cache.FOLDER).mkdir()
    for name in (".gitignore", "CACHEDIR.TAG"):
        (project / cache.FOLDER / name).symlink_to(tmp_path / "made")
    assert run("check", "model.py", "--no-run", "-q") == 1
    assert not (tmp_path / "made").exists()


def test_a_cache_is_written_to_by_several_at_once(project: Path) -> None:
    command = [sys.executable, "-m", "tcready", "check", "model.py", "--no-run", "-q", "--output-format", "concise"]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    said = {process.communicate(timeout=60) for process in started}
    assert len(said) == 1
    entries = sorted((project / cache.FOLDER).iterdir())
    assert not [path for path in entries if path.suffix not in (".json", ".TAG", "")]
    assert all(stat.S_ISREG(path.lstat().st_mode) for path in entries)


# forged reports


def _planted(value: Any, names: frozenset[str]) -> Any:
    """The same JSON with PLANTED behind every text that is free: no word of a fixed set, and nothing that is looked up."""
    if isinstance(value, dict):
        return {key: item if key in names else _planted(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_planted(item, names) for item in value]
    return value + PLANTED if isinstance(value, str) else value


FIXED = frozenset(
    "schema_version status level confidence origin state stage reason mode verdict effect fate action kind phase device "
    "inputs_from way speaker sha256 fingerprint text library where tool of resolved chosen name recommended code production rollback".split()
)
"""Keys of words of fixed sets, of what is looked up by it, and of code, whose lines are lines."""


@pytest.mark.parametrize("name", ["broken", "planned", "benched", "static"])
def test_what_a_forged_report_names_stays_in_its_line(name: str) -> None:
    data = json.loads((ROOT / "fixtures" / "reports" / f"{name}.json").read_text(encoding="utf-8"))
    forged = from_json(Report, _planted(data, FIXED))
    for format_ in mutated.FOR_PEOPLE:
        for options in ({"verbose": True}, {"verbose": False}) if format_ == "text" else ({},):
            text = api.render(forged, format_, **options)
            moving = mutated.MOVING.search(text)
            assert moving is None, text[max(moving.start() - 200, 0) : moving.end() + 20]
            assert not [line for line in text.splitlines() if line.startswith("::error::planted")]
    github = api.render(forged, "github").splitlines()
    assert not [line for line in github if line.startswith("::error::planted")]


def test_a_finding_of_more_lines_than_there_are_fills_no_memory() -> None:
    data = json.loads((ROOT / "fixtures" / "reports" / "static.json").read_text(encoding="utf-8"))
    for each in data["findings"]:
        each["end_line"] = 1 << 62
    limit = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, limit[1]))
    try:
        page = api.render(from_json(Report, data), "html")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)
    assert str(1 << 62) in page


def test_a_forged_run_has_fewer_parts_than_buckets(project: Path) -> None:
    data = json.loads((ROOT / "fixtures" / "cuda" / "several" / "ddp.json").read_text(encoding="utf-8"))
    for split in data["ddp"]["splits"]:
        assert len(split["parts"]) == 2
        split["buckets"].append(7)
    (project / "seen.json").write_text(json.dumps(data))
    page = api.render(api.combine(["seen.json"], root=project), "html")
    assert "part 2 of 3" in page
    assert "part 3 of 3" not in page


def test_a_share_that_is_no_number_is_refused_in_a_line(project: Path) -> None:
    """JSON of a report has null for it, which would not be read back; where a report may have null, it is read."""
    seen = json.loads((ROOT / "fixtures" / "cuda" / "bert.json").read_text(encoding="utf-8"))
    seen["coverage"]["time_share"] = float("inf")
    (project / "seen.json").write_text(json.dumps(seen))
    api.combine(["seen.json"], root=project)
    seen["coverage"]["share"] = float("nan")
    (project / "seen.json").write_text(json.dumps(seen))
    with pytest.raises(TcreadyError, match="share: expected a number"):
        api.combine(["seen.json"], root=project)


def test_names_of_a_trace_stay_in_their_line(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = f"/job/app/net{PLANTED}.py"
    job = Job()
    ids = job.start(0, 0, odd, 10, f"forward{PLANTED}")
    job.broke(ids, odd, 12, f"if x{PLANTED}:")
    job.end(ids, odd, 10, f"forward{PLANTED}", seconds=1.5)
    folder = job.written(tmp_path / f"trace{PLANTED}")
    for more in ((), ("-v",), ("--output-format", "concise"), ("--output-format", "markdown")):
        assert run("report", "--trace", str(folder), *more) == 0
        said = capsys.readouterr()
        for text in (said.out, said.err):
            assert mutated.MOVING.search(text) is None
            assert not [line for line in text.splitlines() if line.startswith("::error::planted")]


def test_a_forged_run_brings_in_no_file_that_holds_no_code(project: Path, tmp_path: Path) -> None:
    """What a run names is read here and shown: a file of settings often parses as Python."""
    (project / "secret.env").write_text('TOKEN = "not yours"\n')
    seen = json.loads((ROOT / "fixtures" / "cuda" / "bert.json").read_text(encoding="utf-8"))
    for name in ("secret.env", str(project / "secret.env")):
        for site in seen["break_sites"]:
            site["path"] = name
        seen["sources"] = [[name, name]]
        seen["digests"] = []
        (project / "seen.json").write_text(json.dumps(seen))
        page = api.render(api.combine(["seen.json"], root=project), "html")
        assert "not yours" not in page


def test_a_working_folder_that_is_gone_is_one_line(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = (
        "import os, sys; from tcready.cli import main; os.rmdir(os.getcwd()); "
        "main(['check', 'model.py', '--no-run', '-o', sys.argv[1]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "out.txt")], cwd=gone, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "tcready: error: the working folder no longer exists\n"


class Draws:
    """A generator of random numbers that says when each kill comes: far too late first."""

    def __init__(self, _: str) -> None:
        self.after = iter((9.0, 0.05, 0.05))

    def random(self) -> float:
        return 1.0

    def uniform(self, _: float, lasts: float) -> float:
        return next(self.after) * lasts


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
def test_a_kill_that_came_too_late_counts_as_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location("benchmarks_abuse", ROOT / "benchmarks" / "abuse.py")
    assert spec is not None
    assert spec.loader is not None
    abuse = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, abuse)
    spec.loader.exec_module(abuse)
    monkeypatch.setattr(abuse, "random", types.SimpleNamespace(Random=Draws))
    version = abuse.Victim("version", ("--version",), (), ("--version",))
    assert list(abuse.kill(version, 2, 0)) == []
    assert "| 2 | {'done before': 1, " in (said := capsys.readouterr().out)
    assert "'killed': 2" in said
