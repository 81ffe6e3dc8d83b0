"""A session gives what a cold reading of the same texts gives, reads again only what an edit can have changed, and can
be stopped."""

from __future__ import annotations

import gc
import json
import random
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from programs import damaged
from reading import BREAKING, HELPER, NET, RULES, read
from tcready.pipeline import registry
from tcready.portable.options import ReadOptions, ReportOptions
from tcready.schema.codec import as_json
from tcready.schema.enums import TcreadyError
from tcready.schema.static import StaticResult
from tcready.static import unit_analysis
from tcready.static.frontend import index
from tcready.static.frontend.cancellation import StoppedError
from tcready.static.session import Session

MODELS = Path(__file__).parents[2] / "fixtures" / "models"
OTHER = dedent("""\
    from torch import nn


    class Other(nn.Module):
        def forward(self, x):
            return x.tolist()
""")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "other.py").write_text(OTHER)
    (tmp_path / "helper.py").write_text(HELPER)
    return tmp_path


def options(root: Path) -> ReadOptions:
    return ReadOptions(root=root, search_path=(root,), mode="both")


def session(root: Path) -> Session:
    return Session(options(root), registry.rule_set())


def cold(root: Path, *targets: str) -> bytes:
    return written(read(targets, options(root), RULES, suggest=registry.rule_set().suggest))


def written(result: StaticResult) -> bytes:
    return json.dumps(as_json(result), sort_keys=True).encode()


def lines_of(result: StaticResult) -> set[tuple[str, int]]:
    return {(finding.path, finding.line) for finding in result.findings}


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is parsed and examined, as it is; nothing is replaced but the count added."""
    seen: list[str] = []
    real_parse, real_examine = index.parse, unit_analysis._Examination.whole

    def parse(path: Path, data: bytes, digest: str) -> object:
        seen.append(path.name)
        return real_parse(path, data, digest)

    def whole(self: unit_analysis._Examination) -> object:
        seen.append(f"unit {self.unit.target}")
        return real_examine(self)

    monkeypatch.setattr(index, "parse", parse)
    monkeypatch.setattr(unit_analysis._Examination, "whole", whole)
    return seen


# the same as a cold reading


def edited(text: str, dice: random.Random) -> str:
    """A text after an edit as a hand makes it: a line gone, doubled, moved, deeper, or characters anywhere."""
    lines = text.splitlines(keepends=True) or ["\n"]
    at = dice.randrange(len(lines))
    match dice.randrange(6):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[at])
        case 2:
            lines.insert(dice.randrange(len(lines)), lines.pop(at))
        case 3:
            lines[at] = "    " + lines[at]
        case 4:
            indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
            lines.insert(at, f"{indent}print(x)\n")
        case _:
            cut = damaged(text.encode(), dice.randrange(10**6)).decode("utf-8", "replace")
            return cut.replace("coding:", "coded:")  # an editor's text has no bytes to decode
    return "".join(lines)


@pytest.mark.parametrize("seed", range(4))
def test_after_any_edit_the_result_is_that_of_a_cold_reading(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    saved, mirror = tmp_path / "saved", tmp_path / "mirror"
    names = [*dice.sample(sorted(path.name for path in MODELS.glob("*.py")), 4), "base_elsewhere.py"]
    for folder in (saved, mirror):
        shutil.copytree(MODELS / "parts", folder / "parts")
        for name in dict.fromkeys(names):
            shutil.copy(MODELS / name, folder / name)
    files = sorted(path.relative_to(saved) for path in saved.rglob("*.py"))
    warm = session(saved)
    texts: dict[Path, str] = {}
    differing = set()
    for _ in range(12):
        file = dice.choice(files)
        text = texts.get(saved / file) or (saved / file).read_text("utf-8")
        text = edited(text, dice) or "\n"
        if dice.random() < 0.2:  # saved, and closed
            (saved / file).write_bytes(text.encode())
            texts.pop(saved / file, None)
        else:
            texts[saved / file] = text
        (mirror / file).write_bytes(text.encode())
        target = dice.choice([".", *dict.fromkeys(names)])
        found = written(warm.check([target], texts).result)
        assert found == cold(mirror, target), (file, target)
        differing.add(found)
    assert len(differing) > 3  # the edits show


def test_a_text_that_is_not_saved_is_read_in_the_place_of_its_file(project: Path) -> None:
    warm = session(project)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in project.iterdir()}
    assert lines_of(warm.check(["net.py"]).result) == {("net.py", 8)}
    unsaved = {project / "helper.py": BREAKING}
    assert lines_of(warm.check(["net.py"], unsaved).result) == {("net.py", 8), ("helper.py", 2)}
    assert lines_of(warm.check(["net.py"]).result) == {("net.py", 8)}  # the editor's text is dropped
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in project.iterdir()} == before


def test_a_file_that_was_never_saved_can_be_asked_for_and_imported(project: Path) -> None:
    warm = session(project)
    with pytest.raises(TcreadyError, match="no such file"):
        warm.check(["new.py"])
    (project / "net.py").write_text(NET.replace("helper", "new"))
    texts = {project / "new.py": BREAKING + OTHER}
    assert lines_of(warm.check(["net.py"], texts).result) == {("net.py", 8), ("new.py", 2)}
    assert lines_of(warm.check(["new.py"], texts).result) == {("new.py", 8)}
    assert not (project / "new.py").exists()


def test_a_text_is_read_in_the_encoding_it_declares(project: Path) -> None:
    text = "# -*- coding: latin-1 -*-\n" + OTHER.replace("x.tolist()", 'x.tolist(), "\xe9"')
    (project / "other.py").write_bytes(text.encode("latin-1"))
    expected = cold(project, "other.py")
    (project / "other.py").write_text(OTHER)
    assert written(session(project).check(["other.py"], {project / "other.py": text}).result) == expected


def test_what_is_hidden_is_asked_each_time(project: Path) -> None:
    warm = session(project)
    (code,) = {str(finding.rule) for finding in warm.check(["other.py"]).result.findings}
    assert not warm.check(["other.py"], report=ReportOptions(ignore=(code,))).result.findings
    assert warm.check(["other.py"]).result.findings


# nothing is read twice


def test_an_edit_costs_its_file_and_the_units_that_opened_it(project: Path, work: list[str]) -> None:
    warm = session(project)
    warm.check(["."])
    assert sorted(work) == sorted(["helper.py", "net.py", "other.py", "unit helper.py", "unit net.py", "unit other.py"])
    work.clear()
    warm.check(["."])
    assert work == []
    warm.check(["."], {project / "helper.py": BREAKING})
    assert sorted(work) == ["helper.py", "unit helper.py", "unit net.py"]
    work.clear()
    warm.check(["."], {project / "helper.py": BREAKING, project / "other.py": OTHER})
    assert work == []  # the text is what the file holds


def test_a_module_that_appears_and_goes_is_seen(project: Path) -> None:
    warm = session(project)
    (project / "helper.py").unlink()
    without = written(warm.check(["net.py"]).result)
    (project / "helper.py").write_text(BREAKING)
    assert lines_of(warm.check(["net.py"]).result) == {("net.py", 8), ("helper.py", 2)}
    (project / "helper.py").unlink()
    assert written(warm.check(["net.py"]).result) == without


def test_a_file_that_changes_twice_in_a_moment_is_read_twice(project: Path) -> None:
    """Its time and its size may stay."""
    warm = session(project)
    calls = []
    for text in (HELPER, HELPER.replace("x * 2", "x * 3"), BREAKING, HELPER):
        (project / "helper.py").write_text(text)
        calls.append(lines_of(warm.check(["net.py"]).result))
    assert calls[0] == calls[1] == calls[3] != calls[2]


# stopped


def asking(count: int) -> Iterator[bool]:
    """No so many times, then yes."""
    yield from [False] * count
    while True:
        yield True


def test_a_reading_is_stopped_wherever_it_is(project: Path) -> None:
    """Each time one question further; whatever was read by then, the next answer is right."""
    expected = cold(project, ".")
    warm = session(project)
    stopped = 0
    for count in range(200):
        answers = asking(count)
        try:
            result = warm.check(["."], stop=lambda answers=answers: next(answers)).result
        except StoppedError:
            stopped += 1
            continue
        assert written(result) == expected
        break
    assert stopped > 5
    fresh = session(project)
    with pytest.raises(StoppedError):
        fresh.check(["."], stop=lambda: True)
    assert written(fresh.check(["."]).result) == expected


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
    return "\n".join([*functions, last, OTHER.replace("x.tolist()", "f0(x, x.shape, self.k)")])


def test_another_thread_stops_a_reading_at_once(project: Path) -> None:
    (project / "deep.py").write_text(deep(40))
    warm = session(project)
    stop = threading.Event()
    ended: list[float | str] = []

    def reading() -> None:
        try:
            warm.check(["deep.py"], stop=stop.is_set)
            ended.append("was done")
        except StoppedError:
            ended.append(time.perf_counter())

    thread = threading.Thread(target=reading)
    thread.start()
    time.sleep(0.2)
    stop.set()
    asked = time.perf_counter()
    thread.join()
    assert isinstance(ended[0], float)
    assert ended[0] - asked < 2.0  # a loaded machine; some milliseconds on an idle one
    assert written(warm.check(["net.py"]).result) == cold(project, "net.py")


# side by side


def test_sessions_in_threads_do_not_disturb_one_another(tmp_path: Path) -> None:
    names = ["kv_cache_decoder.py", "detector_head.py", "moe_router.py"]
    nested = (
        "x = "
        + "(" * 80
        + "1"
        + ")" * 80
        + "\n"
        + OTHER.replace("return", "y = " + " + ".join(["x"] * 900) + "\n        return")
    )
    roots = []
    for number in range(3):
        roots.append(tmp_path / str(number))
        roots[-1].mkdir()
        shutil.copy(MODELS / names[number], roots[-1] / "model.py")
        (roots[-1] / "nested.py").write_text(nested)
    expected = [cold(root, ".") for root in roots]
    limit, collecting, interval = sys.getrecursionlimit(), gc.isenabled(), sys.getswitchinterval()
    found: list[list[bytes]] = [[] for _ in roots]

    def reading(number: int) -> None:
        warm = session(roots[number])
        for _ in range(4):
            warm.forget()
            found[number].append(written(warm.check(["."]).result))

    threads = [threading.Thread(target=reading, args=(number,)) for number in range(len(roots))]
    sys.setswitchinterval(1e-4)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert found == [[each] * 4 for each in expected]
    assert (sys.getrecursionlimit(), gc.isenabled()) == (limit, collecting)


def test_one_session_answers_two_threads_in_turn(project: Path) -> None:
    warm = session(project)
    texts = [{project / "helper.py": HELPER}, {project / "helper.py": BREAKING}]
    expected = [written(warm.check(["."], text).result) for text in texts]
    wrong: list[int] = []

    def reading(number: int) -> None:
        given = (written(warm.check(["."], texts[number]).result) for _ in range(8))
        wrong.extend(number for each in given if each != expected[number])

    threads = [threading.Thread(target=reading, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert expected[0] != expected[1]
