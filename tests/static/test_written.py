"""What is written out is worked out as Python does it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from reading import read
from settled import Program, words_of
from tcready.portable.options import ReadOptions
from tcready.static.domain.const_eval import worked_out
from tcready.static.domain.values import UNKNOWN, Const, Mapping, Plain, Sequence, Value, prefer


def _row(*items: object, kind: Any = "list", escaping: bool = False) -> Sequence:
    return Sequence(kind, tuple(map(Const, items)), UNKNOWN, escaping)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("function", "args", "given"),
    [
        (sum, (_row(1, 2, 3),), Const(6)),
        (sorted, (_row(3, 1, 2),), _row(1, 2, 3)),
        (all, (_row(),), Const(True)),
        (max, (_row(1, None),), None),
        (sum, (Sequence("list", None, Plain("int")),), None),
        (sum, (_row(1, kind="set"),), Const(1)),
        (str.split, (Const("a-b"), Const("-")), _row("a", "b")),
        (str.replace, (Const("x" * 900), Const("x"), Const("y" * 900)), None),
        (str.join, (Const(","), _row(*["a" * 900] * 9)), None),
        (len, (Mapping((("a", Const(1)),), None),), Const(1)),
        (len, (Mapping((("a", Const(1)),), UNKNOWN),), None),
        (abs, (Const(10**12),), None),
    ],
)
def test_a_function_gives_what_it_gives_or_nothing(
    function: Callable[..., object], args: tuple[Value, ...], given: Value | None
) -> None:
    assert worked_out(function, *args) == given


@pytest.mark.parametrize(
    "row", [_row(1, 2, escaping=True), Sequence("list", (prefer(Const(1), Plain("int")), Const(2)), UNKNOWN)]
)
def test_what_may_be_another_gives_what_it_gives_by_default(row: Value) -> None:
    assert worked_out(sum, row) == prefer(Const(3), Plain("int"))


def test_what_python_settles_is_settled(tmp_path: Path) -> None:
    """Of what is passed by nothing is told, but where a test that is not settled has a break on either side: one of the
    two runs, and is told as well. What runs is told with high confidence, but for few places."""
    pytest.importorskip("torch")
    runs: dict[Path, set[str]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        for seed in range(160):
            text = Program(seed).text()
            words = words_of(text)
            if words is not None:
                path = tmp_path / f"model_{seed}.py"
                path.write_text(text, encoding="utf-8")
                runs[path] = words
        options = ReadOptions(root=tmp_path, mode="infer", search_path=(tmp_path,))
        found = read([path.name for path in runs], options).findings
    told = {(each.path, each.line): each for each in found if each.rule == "TCR301"}
    reached, high, false = 0, 0, []
    met: set[tuple[str, str]] = set()
    passed: list[tuple[str, int, set[tuple[str, str]]]] = []
    for path, words in runs.items():
        for line, code in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            mark = re.search(r'print\("(mark\d+)"\)', code)
            if mark is None:
                continue
            finding = told.get((path.name, line))
            told_by = " ".join(each.text for each in finding.evidence) if finding else ""
            tests = {(path.name, test) for test in re.findall(r"reached (?:only if|unless) `(.*?)`", told_by)}
            if mark[1] in words:
                reached += 1
                high += finding is not None and finding.confidence == "high"
                met |= tests
            elif finding is not None and finding.confidence == "medium":
                passed.append((path.name, line, tests))
            elif finding is not None:
                false.append((path.name, line, tests))
    false += [place for place in passed if not place[2] & met]
    assert len(runs) > 120
    assert false == []
    assert reached > 300
    assert high / reached > 0.9
