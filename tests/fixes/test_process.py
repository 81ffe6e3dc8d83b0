"""Suggestions of a process of their own are those that are made here, whatever becomes of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tcready.fixes.rewriting import suggestion_process
from tcready.fixes.rewriting.suggestions import suggest
from tcready.pipeline import registry
from tcready.portable.options import ReadOptions
from tcready.schema.edit import Edit
from tcready.static import driver
from tcready.static.diagnostics.rule import FixCandidate
from tcready.static.driver import RuleSet
from tcready.static.frontend import source

PROGRAM = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        print("été", x.shape)  # is kept
        x = x + 1
        print("out")
        return x
"""


@pytest.fixture
def suspects(tmp_path: Path) -> list[FixCandidate]:
    (tmp_path / "net.py").write_text(PROGRAM, encoding="utf-8")
    read = source.read(tmp_path / "net.py")
    spans = [(7, 9, 7, 30), (9, 9, 9, 21), (8, 13, 8, 18)]
    return [FixCandidate("net.py", registry.rule_named("TCR301"), read, span) for span in spans]


def edits_of(suspects: list[FixCandidate], likely: Path | None) -> list[tuple[Edit, ...]]:
    with suggestion_process.suggest_in_process(registry.load_rules, likely) as ask:
        return list(ask(suspects))


def test_it_answers_as_this_process_does(suspects: list[FixCandidate]) -> None:
    here = suggest(suspects)
    assert [len(edits) for edits in here] == [1, 1, 0], "two that are written anew, and one that is not"
    assert edits_of(suspects, None) == here
    assert edits_of(suspects, suspects[0].source.path) == here


def test_it_goes_by_the_text_it_is_sent(suspects: list[FixCandidate]) -> None:
    path = suspects[0].source.path
    here = suggest(suspects)
    path.write_text("x = (", encoding="utf-8")
    assert edits_of(suspects, path) == here


def test_it_is_asked_several_times(suspects: list[FixCandidate]) -> None:
    with suggestion_process.suggest_in_process(registry.load_rules, None) as ask:
        assert [list(ask([each])) for each in suspects] == [suggest([each]) for each in suspects]


def test_what_it_does_not_do_is_done_here(suspects: list[FixCandidate], monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def popen(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(*arguments, **options))  # type: ignore[call-overload]
        return started[-1]

    class Started:
        PIPE, DEVNULL, Popen = subprocess.PIPE, subprocess.DEVNULL, staticmethod(popen)

    monkeypatch.setattr(suggestion_process, "subprocess", Started)
    here = suggest(suspects)
    with suggestion_process.suggest_in_process(registry.load_rules, None) as ask:
        started[-1].kill()
        started[-1].wait()
        assert list(ask(suspects)) == here, "it was dead before it was asked"
    with suggestion_process.suggest_in_process(registry.load_rules, None) as ask:
        answers = ask(suspects)
        started[-1].kill()
        assert list(answers) == here, "it died before it answered, or answered"
    assert all(each.returncode is not None for each in started), "none is left behind"
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert edits_of(suspects, None) == here, "it cannot be started"


def test_it_loads_nothing_of_the_working_folder(
    suspects: list[FixCandidate], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "libcst", "tcready", "contextlib"):
        (tmp_path / f"{name}.py").write_text("open('loaded', 'w').close()", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    assert edits_of(suspects, None) == suggest(suspects)
    assert not (tmp_path / "loaded").exists()


def _ends_at_once(*_: object) -> None:
    os._exit(3)


@pytest.mark.parametrize("load", [registry.load_rules, _ends_at_once])
def test_a_check_shows_the_same_with_it(
    suspects: list[FixCandidate], load: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_has_idle_processor", lambda: True)
    path = suspects[0].source.path
    rules = registry.rule_set()
    beside = RuleSet(
        rules.load, rules.tool, rules.suggest, lambda likely: suggestion_process.suggest_in_process(load, likely)
    )  # type: ignore[arg-type]
    options = ReadOptions(path.parent)
    found = driver.read([str(path)], options, beside, jobs=None).result
    assert found == driver.read([str(path)], options, rules, jobs=1).result
    assert sum(finding.fix.safe for finding in found.findings) == 2


def test_what_is_printed_when_python_starts_is_no_answer(
    suspects: list[FixCandidate], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "sitecustomize.py").write_text("print('hello')\nprint('[1, 2]')\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "first"))
    assert edits_of(suspects, None) == suggest(suspects)
