"""Targets as people name them: a src layout, namespace packages, methods, and what was meant by a name that is not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from tcready import TcreadyError, check
from tcready.schema.display_paths import import_name, origin_of

MODEL = """\
from torch import nn
from ..common import widen


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        return widen(self.lin(x))

    def generate(self, x, n):
        for _ in range(n):
            x = self(x)
        return x.argmax().item()
"""
COMMON = dedent("""\
    def widen(x):
        if x.sum() > 0:
            return x * 2
        return x
""")
DATA = """\
import torch
from .sizes import N


def example():
    return torch.randn(N, 4)


def generating():
    return torch.randn(N, 4), 2
"""


@pytest.fixture(params=["package", "namespace"])
def project(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a src layout; `acme` is a package, or a namespace package."""
    package = tmp_path / "src" / "acme"
    (package / "gpt").mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    (package / "gpt" / "__init__.py").touch()
    if request.param == "package":
        (package / "__init__.py").touch()
    (package / "common.py").write_text(COMMON)
    (package / "gpt" / "model.py").write_text(MODEL)
    (package / "gpt" / "data.py").write_text(DATA)
    (package / "gpt" / "sizes.py").write_text("N = 3\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("target", ["acme.gpt.model::GPT", "src/acme/gpt/model.py::GPT", "src"])
def test_src_layout_is_read(project: Path, target: str) -> None:
    (found,) = {(f.rule, f.path, f.line) for f in check(target, run=False).findings} - {
        ("TCR201", "src/acme/gpt/model.py", 16)  # of `generate`, which a folder's check does not enter
    }
    assert found == ("TCR101", "src/acme/common.py", 2)


@pytest.mark.torch
@pytest.mark.parametrize("target", ["acme.gpt.model::GPT", "src/acme/gpt/model.py::GPT"])
@pytest.mark.parametrize(
    "inputs", ["acme.gpt.data::example", pytest.param("src/acme/gpt/data.py::example", marks=pytest.mark.release)]
)
def test_src_layout_is_run_with_inputs_that_import_relatively(project: Path, target: str, inputs: str) -> None:
    report = check(target, inputs=inputs)
    assert [(f.path, f.line, f.status) for f in report.findings] == [("src/acme/common.py", 2, "confirmed")]


@pytest.mark.torch
@pytest.mark.release
def test_inputs_of_another_package_import_relatively(project: Path) -> None:
    """Its folder is on nobody's path, and its target's package is another one."""
    other = project / "tests" / "helpers"
    other.mkdir(parents=True)
    (other / "__init__.py").touch()
    (other / "data.py").write_text(DATA)
    (other / "sizes.py").write_text("N = 5\n")
    report = check("acme.gpt.model::GPT", inputs="tests/helpers/data.py::example")
    assert [f.status for f in report.findings] == ["confirmed"]


@pytest.mark.torch
def test_method_is_a_target(project: Path) -> None:
    static = check("acme.gpt.model::GPT.generate", run=False)
    assert {("TCR101", "src/acme/common.py"), ("TCR201", "src/acme/gpt/model.py")} <= {
        (f.rule, f.path) for f in static.findings
    }
    report = check("acme.gpt.model::GPT.generate", inputs="src/acme/gpt/data.py::generating")
    assert "TCR101" in {f.rule for f in report.findings if f.status == "confirmed"}
    stages = {stage.stage: stage for stage in report.targets[0].stages}
    assert stages["eager"].state == "pass"
    assert stages["build"].detail == "method GPT.generate"


def test_inputs_of_a_file_are_for_forward(project: Path) -> None:
    """They would not fit a method."""
    path = project / "one.py"
    path.write_text(
        dedent("""\
            import torch
            from torch import nn


            class Model(nn.Module):
                def forward(self, x):
                    return x

                def step(self, x, y):
                    return x


            def get_inputs():
                return [torch.ones(2)]
        """)
    )
    said: list[str] = []
    report = check("one.py::Model.step", announce=said.append)
    assert not report.targets[0].was_run
    assert said == []


HINTS = {
    "src/acme/gpt/model.py:GPT": "did you mean src/acme/gpt/model.py::GPT?",
    "src/acme/gpt/modle.py": "did you mean src/acme/gpt/model.py?",
    "src/acme/gpt/modle.py::GPT": "did you mean src/acme/gpt/model.py::GPT?",
    "src/acme/gpt/model.py::gtp": "did you mean GPT?",
    "src/acme/gpt/model.py::GPT.genrate": "did you mean GPT.generate?",
    "acme.gpt.model:GPT": "did you mean acme.gpt.model::GPT?",
    "acme.gpt.model.GPT": "did you mean acme.gpt.model::GPT?",
    "acme.gpt.model": "acme.gpt.model is a module; name a class or function of it",
    "acme.gpt.modle::GPT": "did you mean acme.gpt.model::GPT?",
    "other.mod::widen": "vendor/lib/other/mod.py is there, but its package is neither installed nor on the search path",
    "nowhere.mod::Net": "is its package installed here?",
    "transformers.BertModel": "did you mean transformers::BertModel?",
}


@pytest.mark.parametrize("named", HINTS)
def test_what_was_meant(project: Path, named: str) -> None:
    if named.startswith("transformers"):
        pytest.importorskip("transformers")
    if "namespace" in str(project) and named == "acme.gpt.modle::GPT":
        pytest.skip("a namespace package has no file that says what it holds")
    (project / "vendor" / "lib" / "other").mkdir(parents=True)
    (project / "vendor" / "lib" / "other" / "mod.py").write_text(COMMON)
    with pytest.raises(TcreadyError) as error:
        check(named, run=False)
    assert HINTS[named] in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("named", ["os.path", "os:path", "json.decoder", "json", "modle", "src/acme/gpt/mode.tx"])
def test_what_can_be_no_target_is_not_what_was_meant(project: Path, named: str) -> None:
    """Python's own modules, a link that leads to itself or to the folder around it, a file of another kind."""
    (project / "modlee").symlink_to("modlee")
    (project / "modles").symlink_to(".")
    (project / "src" / "acme" / "gpt" / "mode.txt").touch()
    with pytest.raises(TcreadyError, match=rf"^{named}: no such file or folder$"):
        check(named, run=False)


def test_a_folder_src_that_is_in_no_project_says_nothing(tmp_path: Path) -> None:
    """Many keep their projects in `~/src`, and images their code in `/usr/src/app`."""
    path = tmp_path / "src" / "app" / "model.py"
    path.parent.mkdir(parents=True)
    path.touch()
    assert import_name(path) == ("model", path.parent)
    (tmp_path / "setup.py").touch()
    assert import_name(path) == ("app.model", tmp_path / "src")


@pytest.mark.slow
@pytest.mark.release
def test_editable_installs_of_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A namespace package in a src layout, which pip makes a `.pth` for, and one that it makes a finder for."""
    from tcready.static.frontend import module_search

    for name, where, more in (
        (
            "acme-one",
            "src/acme/one",
            dedent("""\
            [tool.setuptools.packages.find]
            where = ["src"]
            namespaces = true
        """),
        ),
        ("acme-two", "acme/two", '[tool.setuptools]\npackages = ["acme.two"]\n'),
    ):
        (tmp_path / name / where).mkdir(parents=True)
        (tmp_path / name / where / "__init__.py").touch()
        (tmp_path / name / where / "net.py").write_text(COMMON)
        (tmp_path / name / "pyproject.toml").write_text(
            '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
            f'[project]\nname = "{name}"\nversion = "1"\n{more}'
        )
    site = tmp_path / "lib" / "site-packages"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--target", str(site)]
        + [part for name in ("acme-one", "acme-two") for part in ("-e", str(tmp_path / name))],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"pip cannot: {done.stderr.strip().splitlines()[-1]}")
    for name in ("acme.one.net", "acme.two.net"):
        found = module_search.find_module(name, (site,))
        assert found is not None, name
        assert found.read_text() == COMMON


def test_a_package_that_was_named_is_own_wherever_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an editable install does; what else is found on the path is not."""
    for name in ("mine", "others"):
        (tmp_path / "src" / name).mkdir(parents=True)
        (tmp_path / "src" / name / "__init__.py").touch()
        (tmp_path / "src" / name / "common.py").write_text(COMMON)
    monkeypatch.syspath_prepend(str(tmp_path / "src"))
    (tmp_path / "work").mkdir()
    for target, origins in (("mine.common::widen", ["own"]), ("others.common::widen", ["own"])):
        report = check((target,), run=False, root=tmp_path / "work")
        assert [found.origin for found in report.findings] == origins
    assert origin_of(str(tmp_path / "src/others/common.py"), str(tmp_path / "work"), ("mine",)) == "third_party"
