"""What a dict or a list holds once it was changed in place is what Python says, or nothing."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from probing import HEAD
from reading import read
from tcready.portable.options import ReadOptions

CHANGES = {
    "del of a key": ("d = {'a': True, 'b': 1}\ndel d['a']", "'a' in d", "'b' in d", "len(d) == 1"),
    "popitem": ("d = {'a': True}\nd.popitem()", "'a' in d", "len(d) == 0"),
    "pop of a list": ("d = [1, 2]\nlast = d.pop()", "2 in d", "last == 2", "len(d) == 1"),
    "pop at a place": ("d = [1, 2]\nfirst = d.pop(0)", "1 in d", "first == 1", "d[0] == 2"),
    "del of an item": ("d = [1, 2]\ndel d[0]", "1 in d", "d[0] == 2"),
    "del of a slice": ("d = [1, 2]\ndel d[:]", "1 in d", "len(d) == 0"),
    "remove": ("d = ['conv', 'norm']\nd.remove('conv')", "'conv' in d", "d[0] == 'norm'"),
    "sort": ("d = [1, 3, 2]\nd.sort(reverse=True)", "d[0] == 1", "d[0] == 3"),
    "sort by itself": ("d = [3, 1]\nd.sort()", "d[0] == 1", "d[0] == 3"),
    "reverse": ("d = [1, 3]\nd.reverse()", "d[0] == 3", "d[0] == 1"),
    "clear": ("d = [1]\nd.clear()", "1 in d", "len(d) == 0"),
    "discard": ("d = {1, 2}\nd.discard(1)", "1 in d", "2 in d"),
}
HELPERS = {
    "del": (
        dedent("""\
        def change(d):
            del d['a']
        d = {'a': 1}
        change(d)"""),
        "'a' in d",
    ),
    "sort": (
        dedent("""\
        def change(d):
            d.sort()
        d = [2, 1]
        change(d)"""),
        "d[0] == 1",
    ),
    "append": (
        dedent("""\
        def change(d, n):
            d.append(n)
        d = []
        change(d, 3)"""),
        "d[0] == 3",
        "len(d) == 0",
    ),
}


@pytest.mark.parametrize("case", [*CHANGES, *(f"{name} in a helper" for name in HELPERS)])
def test_a_question_about_what_was_changed(case: str, tmp_path: Path) -> None:
    made, *questions = HELPERS[case.partition(" in a h")[0]] if case.endswith("helper") else CHANGES[case]
    for question in questions:
        names: dict[str, object] = {}
        exec(made, names)
        told = {}
        for asked in (question, f"not ({question})"):
            lines = "".join(f"        {line}\n" for line in made.splitlines())
            (tmp_path / "model.py").write_text(
                f"{HEAD}class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n{lines}"
                f"        self.flag = {asked}\n    def forward(self, x):\n        if self.flag:\n"
                "            x = x / x.max().item()\n        return x\n",
                encoding="utf-8",
            )
            found = read(["model.py"], ReadOptions(root=tmp_path)).findings
            told[bool(eval(asked, names))] = any(f.confidence == "high" for f in found)
        assert told[True] or not told[False], f"{question}: decided, and wrongly"
