"""The cache: what it keeps from being read again, and everything that makes an entry void. In process and whole."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from reading import BREAKING, HELPER, NET
from tcready import api, schema
from tcready.fixes.rewriting import suggestions
from tcready.pipeline import registry
from tcready.portable.options import ReadOptions
from tcready.rules.side_effects import print_call
from tcready.schema.codec import as_json
from tcready.schema.report import Report
from tcready.static import cache, unit_analysis
from tcready.static.frontend.file_cache import Disk, Stamp
from tcready.static.interp import interpreter
from tcready.static.library import torch_tables


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "helper.py").write_text(HELPER)
    return tmp_path


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The targets that were read and interpreted, as they are; nothing is replaced but the count added."""
    seen: list[str] = []
    real = unit_analysis.analyze_unit

    def counting(unit: Any, *more: Any) -> Any:
        seen.append(unit.target)
        return real(unit, *more)

    monkeypatch.setattr(unit_analysis, "analyze_unit", counting)
    return seen


def check(project: Path, *targets: str, **options: Any) -> Report:
    return api.check(targets or ("net.py",), run=False, cache=True, root=project, **options)


def places(report: Report) -> list[tuple[str, int, str | None]]:
    return [(finding.path, finding.line, finding.rule) for finding in report.findings]


def entries(project: Path) -> list[Path]:
    return sorted((project / cache.FOLDER).glob("*.json"))


def test_a_hit_says_the_same_and_reads_nothing(project: Path, examined: list[str]) -> None:
    cold = check(project)
    assert examined == ["net.py"]
    assert places(cold) == [("net.py", 8, "TCR101")]
    assert cold.findings[0].fix is not None
    warm = check(project)
    assert examined == ["net.py"]
    assert warm == cold
    uncached = api.check(("net.py",), run=False, root=project)
    assert uncached == cold


def test_a_hit_has_the_bytes_of_a_miss_in_every_format(project: Path) -> None:
    cold, warm = check(project), check(project)
    for format_ in ("text", "json", "html"):
        assert api.render(warm, format_) == api.render(cold, format_)


def test_what_is_selected_is_asked_of_the_entry(project: Path, examined: list[str]) -> None:
    check(project)
    assert places(check(project, select=("TCR2",))) == []
    assert places(check(project, ignore=("TCR101",))) == []
    assert len(check(project).findings) == 1
    assert examined == ["net.py"]


def _edit_file(project: Path) -> None:
    (project / "net.py").write_text(NET.replace("x.sum() > 0", "self.training"))


def _edit_helper(project: Path) -> None:
    (project / "helper.py").write_text(BREAKING)


def _edit_helper_within_its_size(project: Path) -> None:
    (project / "helper.py").write_text(HELPER.replace("2", "3"))


def _shadow_helper(project: Path) -> None:
    (project / "helper").mkdir()
    (project / "helper" / "__init__.py").write_text(BREAKING)


def _remove_helper(project: Path) -> None:
    (project / "helper.py").unlink()


def _make_it_a_package(project: Path) -> None:
    (project / "__init__.py").write_text("")


def _break_helper(project: Path) -> None:
    (project / "helper.py").write_text("if:\n")


@pytest.mark.parametrize(
    "change",
    [
        _edit_file,
        _edit_helper,
        _edit_helper_within_its_size,
        _shadow_helper,
        _remove_helper,
        _make_it_a_package,
        _break_helper,
    ],
)
def test_a_change_of_what_it_depends_on_voids_an_entry(
    change: Callable[[Path], None], project: Path, examined: list[str]
) -> None:
    check(project)
    change(project)
    warm = check(project)
    assert examined == ["net.py"] * 2
    assert warm == api.check(("net.py",), run=False, root=project)


def test_a_module_that_was_nowhere_and_appears_voids_an_entry(project: Path, examined: list[str]) -> None:
    (project / "helper.py").unlink()
    assert places(check(project)) == [("net.py", 8, "TCR101")]
    (project / "helper.py").write_text(BREAKING)
    assert [place[:2] for place in places(check(project))] == [("helper.py", 2), ("net.py", 8)]
    assert examined == ["net.py"] * 2


def test_a_module_that_comes_first_on_the_search_path_voids_an_entry(
    tmp_path: Path, examined: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    site, work = tmp_path / "lib" / "site-packages", tmp_path / "work"
    for folder in (site, work):
        folder.mkdir(parents=True)
    (site / "helper.py").write_text(HELPER)
    (work / "net.py").write_text(NET)
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    assert len(check(work, "net.py::Net").findings) == 1
    (work / "helper.py").write_text(BREAKING)
    assert len(check(work, "net.py::Net").findings) == 2
    assert examined == ["net.py::Net"] * 2


def test_a_pth_file_that_leads_elsewhere_voids_an_entry(
    tmp_path: Path, examined: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    site, work = tmp_path / "lib" / "site-packages", tmp_path / "work"
    for folder in (site, work, tmp_path / "one", tmp_path / "two"):
        folder.mkdir(parents=True)
    (tmp_path / "one" / "helper.py").write_text(HELPER)
    (tmp_path / "two" / "helper.py").write_text(BREAKING)
    (work / "net.py").write_text(NET)
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    (site / "way.pth").write_text(f"{tmp_path / 'one'}\n")
    check(work, "net.py::Net")
    (site / "way.pth").write_text(f"{tmp_path / 'two'}\n")
    check(work, "net.py::Net")
    assert examined == ["net.py::Net"] * 2


def test_a_file_that_was_only_touched_is_still_a_hit(project: Path, examined: list[str]) -> None:
    check(project)
    os.utime(project / "helper.py", (1, 1))
    check(project)
    assert examined == ["net.py"]


def test_an_edit_within_one_tick_of_the_clock_is_seen(project: Path, examined: list[str]) -> None:
    file = project / "helper.py"
    check(project)
    before = file.stat()
    file.write_text(HELPER.replace("2", "3"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    check(project)
    assert examined == ["net.py"] * 2


def test_options_that_decide_results_have_entries_of_their_own(project: Path, examined: list[str]) -> None:
    modes = ("infer", "train", "both")
    before = [check(project, mode=mode) for mode in modes]
    assert examined == ["net.py"] * 3
    assert [check(project, mode=mode) for mode in modes] == before
    assert examined == ["net.py"] * 3


def test_a_change_of_the_code_that_judges_asks_differently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "judging"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "rule.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    options = ReadOptions(root=tmp_path)
    before = cache.cache_key(options, ("judging",))
    assert cache.cache_key(options, ("judging",)) == before
    os.utime(package / "rule.py", (1, 1))
    assert cache.cache_key(options, ("judging",)) != before


OTHER: dict[str, Any] = {
    "root": Path("/elsewhere"),
    "mode": "train",
    "search_path": (Path("/elsewhere"),),
    "low": True,
    "plain_call": True,
    "torch": (2, 9),
    "third_party": True,
    "lenient": True,
    "dtype": "float16",
    "autocast": "bfloat16",
}
"""Another value of each option that decides results; `exclude` decides which units there are."""


@pytest.mark.parametrize("name", [f.name for f in dataclasses.fields(ReadOptions) if f.name != "exclude"])
def test_every_option_is_in_the_key(name: str) -> None:
    options = ReadOptions(root=Path("/"), search_path=(Path("/"),))
    other = dataclasses.replace(options, **{name: OTHER[name]})
    assert cache.cache_key(options, ()) != cache.cache_key(other, ())


def test_every_room_that_decides_a_result_is_in_the_key() -> None:
    options = ReadOptions(root=Path("/"))
    key = cache.cache_key(options, registry.rule_set().packages)
    modules = [Path(module.__file__ or "") for module in (schema, interpreter, suggestions, print_call)]
    tables = Path(torch_tables.__file__).parent.with_name("tables")
    for file in (*modules, modules[-1].with_suffix(".md"), tables / "claims.json"):
        before = file.stat()
        try:
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
            assert cache.cache_key(options, registry.rule_set().packages) != key
        finally:
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: b"\xff" + data,
        lambda data: data.replace(b"TCR101", b"TCR102"),
        lambda data: _signed(b"[1, 2]"),
        lambda data: _signed(b'{"home": 3}'),
        lambda data: _signed(b"{}"),
        lambda data: _signed(data.partition(b"\n")[2].replace(b'"line":8', b'"line":"8"')),
        lambda data: _signed(b"[" * 100_000),
    ],
)
def test_a_damaged_entry_is_made_anew(damage: Callable[[bytes], bytes], project: Path, examined: list[str]) -> None:
    cold = check(project)
    for entry in entries(project):
        entry.write_bytes(damage(entry.read_bytes()))
    assert check(project) == cold
    assert check(project) == cold
    assert examined == ["net.py"] * 2


def _signed(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode() + b"\n" + text


def test_without_the_cache_nothing_is_written(project: Path) -> None:
    api.check(("net.py",), run=False, root=project)
    assert not (project / cache.FOLDER).exists()
    run_cli(project, "net.py", "--no-cache")
    assert not (project / cache.FOLDER).exists()


def test_the_folder_is_marked_for_git_and_backups(project: Path) -> None:
    check(project)
    folder = project / cache.FOLDER
    assert (folder / ".gitignore").read_text() == "*\n"
    assert (folder / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")
    assert not [entry for entry in folder.iterdir() if entry.suffix not in (".json", ".TAG", "")]


def test_where_nothing_can_be_written_nothing_is_kept(project: Path) -> None:
    (project / cache.FOLDER).write_text("in the way")  # root may write anywhere, so a mode would not stop it
    assert len(check(project).findings) == 1
    assert (project / cache.FOLDER).read_text() == "in the way"


def test_a_name_that_is_not_there_is_told_and_not_kept(project: Path) -> None:
    for _ in range(2):
        with pytest.raises(api.TcreadyError, match="Missing"):
            check(project, "net.py::Missing")


def test_a_file_that_cannot_be_parsed_is_skipped_again(project: Path, examined: list[str]) -> None:
    (project / "bad.py").write_text("import torch\nif:\n")
    cold = check(project, "bad.py")
    assert [item.path for item in cold.skipped] == ["bad.py"]
    assert check(project, "bad.py") == cold
    assert examined == ["bad.py"]
    (project / "bad.py").write_text("x = 1\n")
    assert [item.reason for item in check(project, "bad.py").skipped] != [item.reason for item in cold.skipped]


def test_what_was_not_used_for_long_goes(project: Path) -> None:
    check(project)
    folder = project / cache.FOLDER
    old = time.time() - (cache.MAX_AGE_DAYS + 1) * cache.DAY
    stale = folder / "stale.json"
    stale.write_text("")
    for path in (stale, folder / "CACHEDIR.TAG"):
        os.utime(path, (old, old))
    (project / "net.py").write_text(NET + "\n")
    check(project)
    assert not stale.exists()
    assert len(entries(project)) >= 2


def test_an_entry_that_is_used_does_not_grow_old(project: Path) -> None:
    check(project)
    old = time.time() - 2 * cache.DAY
    for entry in entries(project):
        os.utime(entry, (old, old))
    check(project)
    assert all(entry.stat().st_mtime > old + cache.DAY for entry in entries(project))


def test_the_disk_answers_as_it_first_did(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("one")
    disk = Disk()
    stamp = disk.stamp(file)
    assert isinstance(stamp, Stamp)
    file.write_text("two!")
    assert disk.text(file) == b"one"
    assert disk.stamp(file) == stamp
    assert not Disk().is_still(file, stamp)
    assert not Disk().is_still(tmp_path / "gone.py", stamp)


# whole processes

LOADED = """
import sys
try:
    from tcready.cli import main
    main(sys.argv[1:])
except SystemExit:
    pass
print("loaded:", *sorted(sys.modules), file=sys.stderr)
"""


def run_cli(project: Path, *arguments: str, seed: str = "0") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LOADED, "check", "--no-run", *arguments],
        cwd=project,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )


def loaded(done: subprocess.CompletedProcess[str]) -> set[str]:
    return set(done.stderr.splitlines()[-1].split()[1:])


def test_a_hit_loads_no_parser_and_nothing_that_interprets(project: Path) -> None:
    (project / "net.py").write_text(NET.replace("if x.sum() > 0:\n            x = x + 1", "print(x)"))
    cold = run_cli(project, "net.py", "--jobs", "1")  # no other process that loads libcst
    assert {"libcst", "tcready.static.interp.interpreter", "tcready.rules"} <= loaded(cold)
    warm = run_cli(project, "net.py")
    assert warm.stdout == cold.stdout
    unwanted = ("libcst", "networkx", "rich.console", "importlib.metadata", "multiprocessing")
    parts = ("interp.interpreter", "domain.values", "library.semantics", "frontend.noqa", "frontend.index")
    judging = ("diagnostics.diagnose", "diagnostics.rule", "diagnostics.cst_view", "unit_analysis")
    ours = {f"tcready.static.{name}" for name in (*parts, *judging)}
    assert loaded(cold) >= ours - {"tcready.static.diagnostics.cst_view"}
    assert not loaded(warm) & {*unwanted, *ours, "tcready.rules"}


def test_the_key_covers_all_code_that_decides_what_is_found(project: Path) -> None:
    (project / "net.py").write_text(NET.replace("if x.sum() > 0:\n            x = x + 1", "n = x.item()"))
    packages = registry.rule_set().packages
    whole = tuple(name.removesuffix("*") for name in packages if name.endswith(".*"))
    later = ("tcready.api", "tcready.cli", "tcready.config.", "tcready.merge", "tcready.reports")
    names = {name for name in loaded(run_cli(project, "net.py", "--jobs", "1")) if name.startswith("tcready.")}
    assert "tcready.static.interp.interpreter" in names
    missing = {
        name
        for name in names
        if not name.startswith((*whole, *later))
        and name not in packages
        and name.rpartition(".")[0] not in packages
        and f"{name}.*" not in packages
    }
    assert missing <= {"tcready.config", "tcready.fixes", "tcready.portable", "tcready.source"}


def test_libcst_is_loaded_for_a_rewrite_alone(project: Path) -> None:
    (project / "net.py").write_text(NET.replace("if x.sum() > 0:\n            x = x + 1", "n = x.item()"))
    done = run_cli(project, "net.py", "--no-cache")
    assert "TCR2" in done.stdout
    assert "libcst" not in loaded(done)


def _many(project: Path) -> list[str]:
    """Files large enough together that two processes each get some; all go through one helper."""
    (project / "helper.py").write_text(BREAKING)
    filler = "".join(f"# {'filler ' * 14}{line}\n" for line in range(1500))
    names = [f"net_{number}.py" for number in range(8)]
    for name in names:
        (project / name).write_text(NET + filler)
    return names


def test_several_processes_say_what_one_says_whatever_the_hash_seed(project: Path) -> None:
    names = _many(project)
    said = {
        run_cli(project, *names, "--no-cache", "--output-format", "json", "--jobs", jobs, seed=seed).stdout
        for jobs, seed in (("1", "0"), ("1", "1"), ("2", "2"), ("3", "3"))
    }
    assert len(said) == 1
    report = json.loads(said.pop())
    assert len(report["findings"]) == len(names) + 1
    assert [f["path"] for f in report["findings"]].count("helper.py") == 1


def test_processes_are_really_started_and_fill_the_cache(project: Path) -> None:
    names = _many(project)
    cold = run_cli(project, *names, "--jobs", "2")
    assert "multiprocessing" in loaded(cold)
    assert "tcready.static.interp.interpreter" not in loaded(cold), "all the reading is done elsewhere"
    warm = run_cli(project, *names, "--jobs", "2")
    assert warm.stdout == cold.stdout
    assert "multiprocessing" not in loaded(warm)


def test_a_name_that_is_not_there_is_one_line_from_a_process_too(project: Path) -> None:
    names = _many(project)
    command = [sys.executable, "-m", "tcready", "check", "--no-run", "--jobs", "2", *names, "net_7.py::Gone"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stderr == ""
    ((line),) = [each for each in done.stdout.splitlines() if "Gone" in each]
    assert line.startswith("  net_7.py::Gone: no 'Gone' in net_7.py")
    assert f"{len(names) + 1} errors" in done.stdout, "the others are read"


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _works(pid: int) -> bool:
    """Whether a process is there and is no empty shell."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are looked up in /proc")
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_ends_the_processes_too(sent: signal.Signals, code: int, project: Path) -> None:
    names = [f"long_{number}.py" for number in range(4)]
    for name in names:
        nets = (NET.partition("class")[2].replace("Net", f"Net{number}", 1) for number in range(3000))
        (project / name).write_text(NET.partition("class")[0] + "\n\n".join(f"class{net}" for net in nets))
    command = [sys.executable, "-m", "tcready", "check", "--no-run", "--no-cache", "--jobs", "2", *names]

    def answer_interrupts() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background job starts with it ignored

    with subprocess.Popen(
        command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=answer_interrupts
    ) as process:
        deadline = time.monotonic() + 60
        while len(_children(process.pid)) < 3 and time.monotonic() < deadline:  # one of them keeps count
            time.sleep(0.05)
        started = _children(process.pid)
        assert len(started) >= 3
        time.sleep(1)  # one that is only being started complains of its parent's end
        assert process.poll() is None
        process.send_signal(sent)
        _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in said
    deadline = time.monotonic() + 10
    while any(map(_works, started)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in started if _works(pid)]


def test_what_is_told_of_a_file_does_not_depend_on_its_neighbours(project: Path) -> None:
    names = _many(project)
    alone = {f for name in names for f in map(_bare, api.check([name], run=False, root=project).findings)}
    findings = api.check(names, run=False, root=project).findings
    assert {_bare(f) for f in findings} == alone
    shared = [finding for finding in findings if finding.path == "helper.py"]
    assert shared
    for finding in shared:  # the ways there are those of all
        assert finding.break_effect is not None
        assert {frame.path for frame in finding.break_effect.above} == set(names)
        assert (finding.break_effect.levels, finding.break_effect.chains) == (2, len(names))


def _bare(finding: Any) -> str:
    """What is told of a place, apart from the ways that lead there."""
    return json.dumps(as_json(dataclasses.replace(finding, break_effect=None)), sort_keys=True)
