"""Targets, findings and what they are called: read() over real rules and small trees."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

import pytest
from reading import read
from tcready.portable.options import ReadOptions, ReportOptions
from tcready.schema.enums import TcreadyError
from tcready.schema.static import Finding, StaticResult

HEAD = dedent("""\
    import torch
    from torch import nn


""")
NET = """\
class Net(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        return x
"""


def _write(folder: Path, name: str, text: str, *, head: str = HEAD) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + textwrap.dedent(text), encoding="utf-8")
    return path


def _lint(root: Path, *targets: str, **options: object) -> StaticResult:
    report = ReportOptions(**{name: options.pop(name) for name in ("select", "ignore") if name in options})  # type: ignore[arg-type]
    settings = ReadOptions(root=root, search_path=(root,))
    return read(targets, dataclasses.replace(settings, **options), report=report)  # type: ignore[arg-type]


def _places(result: StaticResult) -> list[tuple[str, int, str | None]]:
    return [(finding.path, finding.line, finding.rule) for finding in result.findings]


# targets


def test_a_finding_says_exactly_where(tmp_path: Path) -> None:
    _write(tmp_path, "net.py", NET)
    (finding,) = _lint(tmp_path, "net.py").findings
    assert (finding.rule, finding.path, finding.symbol) == ("TCR101", "net.py", "Net.forward")
    assert (finding.line, finding.column, finding.end_line, finding.end_column) == (7, 12, 7, 23)
    assert (finding.status, finding.origin, finding.effect) == ("predicted", "own", "graph_break")
    assert finding.reached_by == ("Net.forward",)
    assert "x.sum() > 0" in finding.evidence[0].text


def test_columns_count_characters_before_the_span(tmp_path: Path) -> None:
    body = dedent("""\
        class Net(nn.Module):
            def forward(self, x):
                return '漢🎉é' if x.sum() > 0 else x
    """)
    _write(tmp_path, "net.py", body)
    (finding,) = _lint(tmp_path, "net.py").findings
    line = (HEAD + body).splitlines()[finding.line - 1]
    assert line[finding.column - 1 : finding.end_column - 1] == "x.sum() > 0"


def test_a_file_is_every_module_of_it(tmp_path: Path) -> None:
    second = NET.replace("Net", "Second")
    _write(
        tmp_path, "net.py", NET + "\n\n" + second + "\n\nclass Plain:\n    def forward(self, x):\n        print(x)\n"
    )
    result = _lint(tmp_path, "net.py")
    assert [target.target for target in result.targets] == ["net.py::Net", "net.py::Second"]
    assert [finding.symbol for finding in result.findings] == ["Net.forward", "Second.forward"]


def test_a_name_is_what_it_reaches(tmp_path: Path) -> None:
    _write(
        tmp_path,
        "net.py",
        NET + "\n\n" + NET.replace("Net", "Other") + "\n\ndef helper(y):\n    return y.item()\n\n\n"
        "class Third(nn.Module):\n    def forward(self, x):\n        return helper(x)\n",
    )
    assert [f.symbol for f in _lint(tmp_path, "net.py::Other").findings] == ["Other.forward"]
    (finding,) = _lint(tmp_path, "net.py::Third").findings
    assert (finding.symbol, finding.reached_by) == ("helper", ("Third.forward", "helper"))
    (finding,) = _lint(tmp_path, "net.py::helper").findings
    assert (finding.symbol, finding.reached_by) == ("helper", ("helper",))


def test_an_instance_and_a_builder(tmp_path: Path) -> None:
    _write(tmp_path, "net.py", NET + "\n\nnet = Net()\n\n\ndef build():\n    return Net()\n")
    for name in ("net", "build"):
        result = _lint(tmp_path, f"net.py::{name}")
        assert _places(result) == [("net.py", 7, "TCR101")]
        assert result.targets[0].target == f"net.py::{name}"
        assert result.targets[0].modules[0].type == "Net"


def test_a_folder_is_all_its_files(tmp_path: Path) -> None:
    for name in ("b.py", "a.py", "sub/c.py", "venv/d.py", ".hidden/e.py", "build/f.py", "x.egg-info/g.py"):
        _write(tmp_path, name, NET)
    (tmp_path / "notes.txt").write_text("class Net", encoding="utf-8")
    (tmp_path / "folder.py").mkdir()
    _write(tmp_path, "folder.py/h.py", NET)
    result = _lint(tmp_path, ".")
    assert [finding.path for finding in result.findings] == ["a.py", "b.py", "folder.py/h.py", "sub/c.py"]


def test_a_module_by_its_dotted_name(tmp_path: Path) -> None:
    _write(tmp_path, "pkg/__init__.py", "from .nets import Net as Public\n", head="")
    _write(tmp_path, "pkg/nets.py", NET)
    for target in ("pkg.nets::Net", "pkg::Public"):
        result = _lint(tmp_path, target)
        assert _places(result) == [("pkg/nets.py", 7, "TCR101")]
        assert [t.target for t in result.targets] == [target]


def test_an_installed_module_is_own_when_it_is_asked_for(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "site-packages"
    _write(site, "dist/__init__.py", "", head="")
    _write(
        site,
        "dist/nets.py",
        dedent("""\
        from other.base import Base


    """)
        + NET.replace("nn.Module", "Base"),
    )
    _write(
        site,
        "other/base.py",
        dedent("""\
        class Base(nn.Module):
            def forward(self, x):
                return x
    """),
    )
    work = tmp_path / "work"
    work.mkdir()
    result = _lint(work, "dist.nets::Net", search_path=(work, site))
    (finding,) = result.findings
    assert (finding.path, finding.origin) == ("dist/nets.py", "own")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("none.py", ["none.py", "no such file"]),
        ("none.py::Net", ["none.py", "no such file"]),
        ("net.py::Missing", ["net.py", "'Missing'", "Net"]),
        ("net.py::Net.missing", ["net.py::Net.missing"]),
        ("net.py::nn", ["net.py::nn"]),
        ("net.py::torch.relu", ["net.py::torch.relu"]),
        ("pkg::Net", ["pkg", "no module"]),
        ("./pkg::Net", ["folder", "Net"]),
        ("nothing.here::Net", ["nothing.here", "no module"]),
        ("pkg.mod::Missing", ["pkg.mod::Missing", "mod.py"]),
        ("pkg.bad::Net", ["pkg.bad::Net", "syntax error in line 1"]),
        ("torch.nn::Linear", ["torch.nn::Linear"]),
    ],
)
def test_what_is_not_there_is_told_in_one_line(target: str, words: Sequence[str], tmp_path: Path) -> None:
    _write(tmp_path, "net.py", NET)
    _write(tmp_path, "pkg/mod.py", NET)
    _write(tmp_path, "pkg/bad.py", "if:\n", head="")
    with pytest.raises(TcreadyError) as raised:
        _lint(tmp_path, target)
    message = str(raised.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_sources_of_torch_are_not_read(tmp_path: Path) -> None:
    _write(tmp_path, "torch/__init__.py", "", head="")
    _write(tmp_path, "torch/nn.py", NET)
    with pytest.raises(TcreadyError, match=r"torch\.nn::Net: the sources of torch, and what is no"):
        _lint(tmp_path, "torch.nn::Net")


# files that cannot be read


def test_a_syntax_error_leaves_the_others(tmp_path: Path) -> None:
    _write(tmp_path, "a.py", "if:  # torch\n", head="")
    _write(tmp_path, "b.py", NET)
    (tmp_path / "c.py").write_bytes("# torch\n".encode("utf-16"))
    result = _lint(tmp_path, ".")
    assert _places(result) == [("b.py", 7, "TCR101")]
    assert [(skipped.path, skipped.reason.partition(":")[0]) for skipped in result.skipped] == [
        ("a.py", "syntax error in line 1"),
        ("c.py", "cannot be decoded"),
    ]


def test_a_file_that_cannot_be_read_and_does_not_name_torch_is_left_out(tmp_path: Path) -> None:
    _write(tmp_path, "a.py", "{{ template }}\nif:\n", head="")
    (tmp_path / "b.py").write_bytes(b"\xff\xfe")
    result = _lint(tmp_path, ".")
    assert result.skipped == ()
    told = "is left out: syntax error in line 2: invalid syntax; it does not name torch"
    assert result.warnings[0] == f"a.py {told}"
    assert [warning.partition(" ")[0] for warning in result.warnings] == ["a.py", "b.py"]


def test_a_file_that_was_named_and_cannot_be_read_is_skipped(tmp_path: Path) -> None:
    """Whoever names a file asks about it; a hook, which names every file that changed, may be lenient."""
    _write(tmp_path, "a.py", "{{ template }}\nif:\n", head="")
    result = _lint(tmp_path, "a.py")
    assert [skipped.path for skipped in result.skipped] == ["a.py"]
    assert result.warnings == ()
    result = _lint(tmp_path, "a.py", lenient=True)
    assert result.skipped == ()
    assert [warning.partition(" ")[0] for warning in result.warnings] == ["a.py"]
    _write(tmp_path, "b.py", "if:  # torch\n", head="")
    assert [skipped.path for skipped in _lint(tmp_path, "b.py", lenient=True).skipped] == ["b.py"]


def test_a_broken_import_is_skipped_and_the_file_still_analysed(tmp_path: Path) -> None:
    _write(tmp_path, "broken.py", "def (:\n", head="")
    _write(
        tmp_path,
        "net.py",
        dedent("""\
        from broken import thing


    """)
        + NET.replace("x + 1", "thing(x)"),
    )
    result = _lint(tmp_path, "net.py")
    assert len(result.findings) == 1
    assert [skipped.path for skipped in result.skipped] == ["broken.py"]


SILENCES = {
    "# noqa": True,
    "#noqa": True,
    "# NOQA": True,
    "# noqa: TCR101": True,
    "# noqa:TCR101": True,
    "# noqa: tcr101": True,
    "# noqa: TCR1": True,
    "# noqa: TCR": True,
    "# noqa: E501, TCR101": True,
    "# noqa: E501 TCR101": True,
    "# type: ignore  # noqa: TCR101": True,
    "# noqa: TCR102": False,
    "# noqa: E501": False,
    "# noqa: TCR1011": False,
    "# noqabc": False,
    "# no qa": False,
}


@pytest.mark.parametrize("comment", SILENCES)
def test_noqa(comment: str, tmp_path: Path) -> None:
    _write(tmp_path, "net.py", NET.replace("> 0:", f"> 0:  {comment}"))
    assert (not _lint(tmp_path, "net.py").findings) is SILENCES[comment]


def test_noqa_in_a_string_silences_nothing(tmp_path: Path) -> None:
    _write(tmp_path, "net.py", NET.replace("x.sum() > 0", "x.sum() > len('# noqa')"))
    assert len(_lint(tmp_path, "net.py").findings) == 1


@pytest.mark.parametrize("line", [0, 1, 2, 3])
def test_noqa_anywhere_on_a_call_of_several_lines(line: int, tmp_path: Path) -> None:
    call = ["x = torch.unique(", "    x,", "    sorted=True,", ")"]
    marked = [text + ("  # noqa: TCR2" if line == number else "") for number, text in enumerate(call)]

    def body(lines: list[str]) -> str:
        return NET.split("        if")[0] + textwrap.indent("\n".join(lines), " " * 8) + "\n        return x\n"

    _write(tmp_path, "net.py", body(call))
    assert [finding.rule for finding in _lint(tmp_path, "net.py").findings] != []
    _write(tmp_path, "net.py", body(marked))
    assert not _lint(tmp_path, "net.py").findings


def test_noqa_on_another_line_silences_nothing(tmp_path: Path) -> None:
    _write(tmp_path, "net.py", NET.replace("x = x + 1", "x = x + 1  # noqa"))
    assert len(_lint(tmp_path, "net.py").findings) == 1


def test_a_file_with_windows_lines_is_silenced_too(tmp_path: Path) -> None:
    text = (HEAD + NET).replace("> 0:", "> 0:  # noqa").replace("\n", "\r\n")
    (tmp_path / "net.py").write_bytes(text.encode())
    assert not _lint(tmp_path, "net.py").findings


def test_noqa_behind_a_statement_that_starts_where_another_ends(tmp_path: Path) -> None:
    _write(tmp_path, "net.py", "z = (1,\n2); model = lambda x: x.item()\n")
    assert len(_lint(tmp_path, "net.py::model").findings) == 1
    _write(tmp_path, "net.py", "z = (1,\n2); model = lambda x: x.item()  # noqa: TCR201\n")
    assert not _lint(tmp_path, "net.py::model").findings


# fingerprints

TWICE = NET.replace("        return x\n", "        if x.sum() > 0:\n            x = x + 2\n        return x\n")


def _prints(root: Path, text: str, name: str = "net.py") -> list[str]:
    _write(root, name, text)
    return [finding.fingerprint for finding in _lint(root, name).findings]


@pytest.mark.parametrize(
    "changed",
    [
        "\n\n# moved\n\n" + TWICE,
        TWICE.replace("x.sum() > 0", "x.sum()>0"),
        TWICE.replace("x.sum() > 0", "(x  .sum( )  # why\n            > 0)"),
        TWICE.replace("def forward(self, x):", "def forward(self, x):\n        '''Said.'''\n"),
        "x = 1; y = 2\n" + TWICE,
    ],
)
def test_fingerprints_survive_moving_and_reformatting(changed: str, tmp_path: Path) -> None:
    before = _prints(tmp_path, TWICE)
    assert len(set(before)) == 2
    assert _prints(tmp_path, changed) == before


def test_fingerprints_tell_symbols_files_and_words_apart(tmp_path: Path) -> None:
    (one,) = _prints(tmp_path, NET)
    others = [
        *_prints(tmp_path, NET.replace("Net", "Other")),
        *_prints(tmp_path, NET, "other.py"),
        *_prints(tmp_path, NET.replace("> 0", "> 1")),
    ]
    assert len({one, *others}) == 4


# what is installed makes no difference to own findings


def _install(site: Path) -> None:
    _write(site, "friend/__init__.py", "from .layers import Layer, helper\n", head="")
    _write(
        site,
        "friend/layers.py",
        """\
        class Layer(nn.Module):
            def forward(self, x):
                if x.sum() > 0:
                    x = x.argmax()
                return x


        def helper(x):
            print(x)
            return x.shape[0]
        """,
    )


USES_A_FRIEND = """\
from friend import Layer, helper


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Layer()

    def forward(self, x):
        n = helper(x)
        if n > 3:
            x = self.layer(x)
        if x.sum() > 0:
            x = x + n
        return x.item()


class Derived(Layer):
    def forward(self, x):
        return super().forward(x).item()
"""


@pytest.mark.parametrize("target", ["net.py", "net.py::Net", "net.py::Derived"])
def test_own_findings_do_not_depend_on_what_is_installed(target: str, tmp_path: Path) -> None:
    work, full, empty = tmp_path / "work", tmp_path / "a" / "site-packages", tmp_path / "b" / "site-packages"
    empty.mkdir(parents=True)
    _install(full)
    _write(work, "net.py", USES_A_FRIEND)
    with_it = _lint(work, target, search_path=(work, full), low=True)
    without = _lint(work, target, search_path=(work, empty), low=True)

    def own(result: StaticResult) -> list[Finding]:
        return [finding for finding in result.findings if finding.origin == "own"]

    assert own(with_it) == own(without)
    assert own(without)
    assert {finding.origin for finding in without.findings} == {"own"}


def test_other_peoples_code_is_followed_from_a_named_class(tmp_path: Path) -> None:
    work, site = tmp_path / "work", tmp_path / "site-packages"
    _install(site)
    _write(work, "net.py", USES_A_FRIEND)
    theirs = [f for f in _lint(work, "net.py::Net", search_path=(work, site)).findings if f.origin == "third_party"]
    assert {(f.path, f.rule) for f in theirs} >= {("friend/layers.py", "TCR101")}
    assert all(f.reached_by[0] == "Net.forward" for f in theirs)
    for target, option in (("net.py", None), ("net.py::Net", False)):
        result = _lint(work, target, search_path=(work, site), third_party=option)
        assert {f.origin for f in result.findings} == {"own"}


# order, options, statistics, the tree


def test_findings_are_ordered_and_do_not_depend_on_the_order_of_targets(tmp_path: Path) -> None:
    for name in ("b.py", "a.py", "c.py"):
        _write(tmp_path, name, TWICE)
    expected = [(name, line, "TCR101") for name in ("a.py", "b.py", "c.py") for line in (7, 9)]
    for targets in (("a.py", "b.py", "c.py"), ("c.py", "a.py", "b.py"), (".",), ("c.py", ".", "c.py")):
        assert _places(_lint(tmp_path, *targets)) == expected
    assert _lint(tmp_path, ".").findings == _lint(tmp_path, "c.py", "b.py", "a.py").findings


def test_select_and_ignore_take_prefixes(tmp_path: Path) -> None:
    _write(tmp_path, "net.py", NET.replace("return x\n", "return x.item()\n"))

    def codes(**options: object) -> list[str | None]:
        return [finding.rule for finding in _lint(tmp_path, "net.py", **options).findings]

    assert codes() == ["TCR101", "TCR201"]
    assert codes(select=("TCR1",)) == ["TCR101"]
    assert codes(ignore=("TCR1",)) == ["TCR201"]
    assert codes(select=("TCR1", "TCR201"), ignore=("TCR101",)) == ["TCR201"]
    assert codes(select=("tcr1",)) == ["TCR101"]
    assert codes(select=("TCR6",)) == []
    for wrong in ("TCR9", "TCR199", "E501"):
        with pytest.raises(TcreadyError, match="no rule has a code like that"):
            codes(ignore=(wrong,))


def test_what_a_comment_hides_still_breaks_its_region(tmp_path: Path) -> None:
    _write(tmp_path, "net.py", NET.replace("return x\n", "return x.item()  # noqa: TCR201\n"))
    result = _lint(tmp_path, "net.py", select=("TCR2",))
    assert result.findings == ()
    assert [len(module.breaks) for target in result.targets for module in target.modules if not module.name] == [2]


def test_mode_decides_what_training_is(tmp_path: Path) -> None:
    _write(tmp_path, "net.py", NET.replace("if x.sum() > 0", "if self.training and x.sum() > 0"))
    assert [len(_lint(tmp_path, "net.py", mode=mode).findings) for mode in ("infer", "train", None)] == [0, 1, 1]


MODES = NET.replace(
    "return x\n",
    dedent("""\
        return (x.tolist() if self.training else self.half(x), x.item())

            def half(self, x):
                return [x.item(), x.item()]
    """),
)


def test_both_modes_are_read_and_what_is_in_one_alone_says_so(tmp_path: Path) -> None:
    _write(tmp_path, "net.py", MODES)
    infer, train, both = (_lint(tmp_path, "net.py", mode=mode) for mode in ("infer", "train", "both"))
    assert set(_places(both)) == set(_places(infer)) | set(_places(train))
    assert {finding.modes for finding in (*infer.findings, *train.findings)} == {()}
    modes = {finding.rule: finding.modes for finding in both.findings if finding.symbol == "Net.forward"}
    assert modes == {"TCR101": ("infer", "train"), "TCR201": ("infer", "train"), "TCR202": ("train",)}
    alone = {f.rule: f.evidence[-1].text for f in both.findings if f.symbol == "Net.half" or f.rule == "TCR202"}
    assert alone == {"TCR201": "only in inference mode", "TCR202": "only in training mode"}


def test_a_finding_has_the_fingerprint_it_has_in_its_mode(tmp_path: Path) -> None:
    _write(tmp_path, "net.py", MODES)
    infer, train, both = (_lint(tmp_path, "net.py", mode=mode).findings for mode in ("infer", "train", "both"))
    prints = {finding.fingerprint for finding in both}
    assert len(prints) == len(both)
    assert prints == {finding.fingerprint for finding in (*infer, *train)}


def test_over_both_modes_a_module_has_the_breaks_of_either(tmp_path: Path) -> None:
    _write(tmp_path, "net.py", MODES)
    targets = {mode: _lint(tmp_path, "net.py", mode=mode).targets[0] for mode in ("infer", "train", "both")}
    infer, train, both = ({*t.modules[0].breaks} for t in targets.values())
    assert both == infer | train
    assert infer - train
    assert train - infer
    assert [target.modes for target in targets.values()] == [("infer",), ("train",), ("infer", "train")]


def test_a_function_of_two_files_has_the_modes_of_both(tmp_path: Path) -> None:
    _write(tmp_path, "helper.py", "def helper(x):\n    return x.item()\n")
    for name, test in (("one.py", "self.training"), ("two.py", "not self.training")):
        body = f"        return helper(x) if {test} else x\n"
        net = f"class Net(nn.Module):\n    def forward(self, x):\n{body}"
        _write(tmp_path, name, f"from helper import helper\n\n\n{net}")
    assert [f.modes for f in _lint(tmp_path, "one.py", mode="both").findings] == [("train",)]
    (finding,) = _lint(tmp_path, "one.py", "two.py", mode="both").findings
    assert finding.modes == ("infer", "train")
    assert not any("only in" in line.text for line in finding.evidence)


TREE = """\
class Leaf(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        return x


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.leaf = Leaf()
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(self.leaf(x))


class Net(nn.Module):
    def __init__(self, n, kind):
        super().__init__()
        self.stem = nn.Linear(4, 4)
        self.blocks = nn.ModuleList([Block() for _ in range(n)])
        self.pair = nn.Sequential(nn.ReLU(), Leaf())
        self.table = nn.ModuleDict({"a": Leaf()})
        self.head = Leaf() if kind else nn.Identity()

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(self.table["a"](self.pair(self.stem(x))))
"""


def test_the_module_tree_names_members_of_lists_with_a_star(tmp_path: Path) -> None:
    _write(tmp_path, "net.py", TREE)
    (target,) = _lint(tmp_path, "net.py::Net").targets
    assert {module.name: module.type for module in target.modules} == {
        "": "Net",
        "stem": "Linear",
        "blocks": "ModuleList",
        "blocks.*": "Block",
        "blocks.*.leaf": "Leaf",
        "blocks.*.norm": "LayerNorm",
        "pair": "Sequential",
        "pair.0": "ReLU",
        "pair.1": "Leaf",
        "table": "ModuleDict",
        "table.a": "Leaf",
        "head": "Leaf | Identity",
    }
    names = [module.name for module in target.modules]
    for name in names[1:]:
        assert names.index(name.rpartition(".")[0]) < names.index(name)


def test_breaks_stand_at_the_modules_that_run_them(tmp_path: Path) -> None:
    _write(tmp_path, "net.py", TREE)
    result = _lint(tmp_path, "net.py::Net")
    (finding,) = result.findings
    (target,) = result.targets
    leaves = {"blocks.*.leaf", "pair.1", "table.a", "head"}
    assert {module.name for module in target.modules if module.breaks} == leaves
    assert {print_ for module in target.modules for print_ in module.breaks} == {finding.fingerprint}
    assert {module.name: module.line for module in target.modules if module.path} == {
        "": 31,
        "blocks.*": 18,
        **dict.fromkeys(leaves, 6),
    }


def test_a_module_in_a_circle_is_told_once(tmp_path: Path) -> None:
    _write(
        tmp_path,
        "net.py",
        """\
        class Child(nn.Module):
            def __init__(self, parent):
                super().__init__()
                self.parent = parent

            def forward(self, x):
                return x


        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.child = Child(self)

            def forward(self, x):
                return self.child(x)
        """,
    )
    (target,) = _lint(tmp_path, "net.py::Net").targets
    assert [module.name for module in target.modules] == ["", "child"]


def test_statistics_count_what_was_resolved(tmp_path: Path) -> None:
    _write(
        tmp_path,
        "net.py",
        """\
        from elsewhere import mystery
        from helper import known


        class Net(nn.Module):
            def forward(self, x):
                return mystery(known(torch.relu(x)))
        """,
    )
    _write(
        tmp_path,
        "helper.py",
        dedent("""\
        def known(x):
            return x


        def unused(x):
            return x
    """),
    )
    statistics = _lint(tmp_path, "net.py").statistics
    unresolved = statistics.pop("unresolved")
    assert [(row["construct"], row["line"]) for row in unresolved] == [
        ("call of elsewhere.mystery, whose source is not read", 11),
        ("import of elsewhere, which is not found", 5),
    ]
    assert statistics == {
        "files": 2,
        "functions": 2,
        "calls": 3,
        "calls_resolved": 2,
        "calls_to_source": 1,
        "calls_to_library": 1,
        "calls_to_value": 0,
        "calls_unresolved": 1,
        "calls_cut": 0,
        "reached": ["helper.py::known", "net.py::Net.forward"],
    }


def test_sources_are_those_named_and_those_with_findings(tmp_path: Path) -> None:
    _write(
        tmp_path,
        "net.py",
        dedent("""\
        from one import f
        from two import g


        def model(x):
            return f(g(x))
    """),
    )
    _write(tmp_path, "one.py", "def f(x):\n    return x.item()\n")
    _write(tmp_path, "two.py", "def g(x):\n    return x\n")
    sources = {source.path: source.text for source in _lint(tmp_path, "net.py").sources}
    assert sources.keys() == {"net.py", "one.py"}
    assert sources["one.py"] == (tmp_path / "one.py").read_text(encoding="utf-8")


def test_a_disabled_function_is_no_entry(tmp_path: Path) -> None:
    _write(
        tmp_path,
        "net.py",
        dedent("""\
        @torch.compiler.disable
        def f(x):
            return x.item()
    """),
    )
    assert not _lint(tmp_path, "net.py").findings
    _write(
        tmp_path,
        "net.py",
        dedent("""\
        @torch.compile(fullgraph=True)
        def f(x):
            return x.item()
    """),
    )
    assert [finding.symbol for finding in _lint(tmp_path, "net.py").findings] == ["f"]


@pytest.mark.parametrize(
    "text", ["", "x = 1\n", "class Net: pass\n", "from torch import nn\nclass N(nn.Module): pass\n"]
)
def test_a_file_without_a_model_has_nothing_to_say(text: str, tmp_path: Path) -> None:
    _write(tmp_path, "net.py", text, head="")
    result = _lint(tmp_path, "net.py")
    assert (result.findings, result.targets, result.skipped) == ((), (), ())


def test_a_class_named_in_a_comment_is_still_read(tmp_path: Path) -> None:
    """A base that speaks of its subclass in words does not build it."""
    (tmp_path / "m.py").write_text(
        "from torch import nn\n"
        "class Base(nn.Module):\n"
        "    '''Subclasses (Model) override step.'''\n"
        "    def forward(self, x):\n"
        "        return self.step(x)  # overridden in Model\n"
        "class Model(Base):\n"
        "    def step(self, x):\n"
        "        print('1')\n"
        "        return x\n"
    )
    result = read(["m.py"], ReadOptions(root=tmp_path))
    assert [(f.rule, f.line) for f in result.findings] == [("TCR301", 8)]


def test_an_import_that_no_file_can_be_named_after(tmp_path: Path) -> None:
    long = "b" + "0" * 400
    (tmp_path / "m.py").write_text(
        f"import {long}.x\n"
        "from torch import nn\n"
        "class M(nn.Module):\n"
        "    def forward(self, x):\n"
        f"        return {long}.x.f(x)\n"
    )
    assert not read(["m.py::M"], ReadOptions(root=tmp_path)).findings


@pytest.mark.parametrize(
    ("open_tests", "own", "installed"),
    [
        *((number, "high", "high") for number in range(3)),
        (3, "medium", "medium"),
        (4, "medium", "medium"),
        (5, "medium", None),
    ],
)
def test_the_more_must_hold_the_less_sure_a_claim_is(
    open_tests: int, own: str, installed: str | None, tmp_path: Path
) -> None:
    """Tests count along the calls; of an installed package what five decide is told to nobody."""
    flags = [f"flag_{number}" for number in range(5)]
    nested = "".join(f"{'    ' * (2 + n)}if self.{flag}:\n" for n, flag in enumerate(flags[1:open_tests]))
    first = "        if self.flag_0:\n            return self.inner(x)\n        return x\n"
    source = (
        "from torch import nn\nclass Model(nn.Module):\n"
        f"    def __init__(self, {', '.join(flags)}):\n        super().__init__()\n"
        + "".join(f"        self.{flag} = {flag}\n" for flag in flags)
        + "    def forward(self, x):\n"
        + (first if open_tests else "        return self.inner(x)\n")
        + "    def inner(self, x):\n"
        + nested
        + f"{'    ' * (1 + max(open_tests, 1))}x = x * x.sum().item()\n        return x\n"
    )
    for folder, expected in (("work", own), ("site-packages", installed)):
        path = tmp_path / folder / "model.py"
        path.parent.mkdir()
        path.write_text(source, encoding="utf-8")
        found = read([f"{path}::Model"], ReadOptions(root=tmp_path)).findings
        told = {f.confidence for f in found if f.rule == "TCR201"}
        assert told == ({expected} if expected else set()), source


def test_a_generator_of_code_that_runs_eagerly_is_not_traced(tmp_path: Path) -> None:
    """It is compiled as part of what goes through it alone, a function by itself, too."""
    _write(
        tmp_path,
        "net.py",
        """
        def rows(x):
            yield x * x.max().item()


        def row(x):
            return x + x.sum().item()


        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.lstm = nn.LSTM(8, 8)

            def forward(self, x):
                x, _ = self.lstm(x)
                for each in rows(x):
                    x = x + each
                return row(x)
        """,
    )
    found = _lint(tmp_path, "net.py", low=True, torch=(2, 14)).findings
    assert [(each.rule, each.confidence) for each in found if each.rule == "TCR201"] == [
        ("TCR201", "low"),
        ("TCR201", "high"),
    ]
