"""How far the source was understood: what became of each call, and what else was met that is not known."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from probing import HEAD, forward
from reading import read
from tcready import api
from tcready.merge.combine import _constructs
from tcready.portable.options import ReadOptions
from tcready.schema.enums import RESOLVED

OWN = dedent("""\
    class Own:
        def method(self): return 1
    class Part(nn.Module):
        def forward(self, x): return x
""")


def statistics(folder: Path, *sources: str) -> dict[str, Any]:
    for number, source in enumerate(sources):
        (folder / f"model_{number}.py").write_text(HEAD + source)
    names = [f"model_{number}.py" for number in range(len(sources))]
    return dict(read(names, ReadOptions(root=folder, search_path=(folder,), mode="infer")).statistics)


RESOLVED_TO = {
    "helper(x)": "source",
    "Own()": "source",
    "self.part(x)": "source",
    "torch.relu(x)": "library",
    "x.sum()": "library",
    "len([x])": "library",
    "[x].append(x)": "value",
    "'a'.upper()": "value",
}


@pytest.mark.parametrize("call", RESOLVED_TO)
def test_what_a_call_was_resolved_to(call: str, tmp_path: Path) -> None:
    head = OWN + "def helper(x): return x\n"
    found = statistics(tmp_path, head + forward(call, "self.part = Part()"))
    counts = {word: found[f"calls_to_{word}"] for word in RESOLVED}
    assert counts == {word: int(word == RESOLVED_TO[call]) for word in RESOLVED}
    assert found["calls_resolved"] == found["calls"] == 1
    assert found["unresolved"] == []


CONSTRUCTS = {
    "absent(x)": "call of a name whose value is not known",
    "absent.inner(x)": "method of an object that is not known",
    "self.table[x.shape[0]](x)": "call of an item that is not known",
    "Own().method()()": "call of what another call gives, which is not known",
    "elsewhere.other(x)": "call of elsewhere.other, whose source is not read",
    "Own().other()": "call of an attribute whose value is not known",
    "Own()(x)": "call of an object whose class has no `__call__` in sight",
    "helper(*absent)": "arguments that `*` gives, of unknown length",
    "decorated(x)": "a decorator that is not known",
    "elsewhere.helper(x)": "import of elsewhere, which is not found",
}


@pytest.mark.parametrize("body", CONSTRUCTS)
def test_what_was_not_understood_is_named(body: str, tmp_path: Path) -> None:
    head = (
        "import elsewhere\n"
        + OWN
        + dedent("""\
        def helper(*x): return x
        @absent
        def decorated(x): return x
    """)
    )
    found = statistics(tmp_path, head + forward(f"y = x\n{body}", "self.table = kwargs"))
    (row,) = [row for row in found["unresolved"] if row["construct"] == CONSTRUCTS[body]]
    assert row["count"] == 1
    line = (tmp_path / "model_0.py").read_text().splitlines()[row["line"] - 1]
    assert row["path"] == "model_0.py"
    assert body in line or line.startswith(("@", "def decorated", "import elsewhere"))


def test_the_most_frequent_comes_first_and_files_are_counted_together(tmp_path: Path) -> None:
    one = forward("absent(x)\nabsent(x)\ny = x.lost()")
    found = statistics(tmp_path, one, forward("absent(x)"))["unresolved"]
    names = [(row["construct"], row["count"], row["path"]) for row in found]
    first = CONSTRUCTS["absent(x)"]
    assert names[0] == (first, 3, "model_0.py")
    assert [count for _, count, _ in names] == sorted((count for _, count, _ in names), reverse=True)
    assert _constructs([*found, *found])[0] == {**found[0], "count": 6}


def test_what_breaks_a_model_is_known_where_its_file_imports_what_is_installed(tmp_path: Path) -> None:
    """Such a file is read twice, alone and with the package: the second reading says which module runs what."""
    (tmp_path / "net.py").write_text(
        dedent("""\
            import click
            from torch import nn


            class Net(nn.Module):
                def forward(self, x):
                    print('x')
                    return x * 2
        """)
    )
    report = api.check("net.py::Net", run=False, root=tmp_path)
    (finding,) = report.findings
    assert report.predicted[0].modules[0].breaks == (finding.fingerprint,)
