"""The fixture `compile_ready` as another project meets it: real pytest, real torch, a scratch project."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch

NET = """\
import torch
import thirdlib
from torch import nn


class Clean(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.5)

    def forward(self, x, scale=1.0):
        x = self.drop(self.norm(self.layer(x))) * scale
        return x.add_(1)


class Broken(Clean):
    def forward(self, x):
        x = super().forward(x)
        if x.sum() > 0:
            x = x + 1
        print("a message")
        return x


class Foreign(nn.Module):
    def forward(self, x):
        return thirdlib.noisy(x) + 1


class Intended(nn.Module):
    @torch.compiler.disable
    def inner(self, x):
        return x * 2

    def forward(self, x):
        return self.inner(x + 1) + 1


class Given(nn.Module):
    def forward(self, x):
        for _ in range(2):
            x = thirdlib.noisy(x) + 1
        return x


class AllIntended(nn.Module):
    @torch.compiler.disable
    def forward(self, x):
        return x + 1


class Wrong(nn.Module):
    def forward(self, x):
        return x * 1.01 if torch.compiler.is_compiling() else x


class WrongInTurn(nn.Module):
    def __init__(self):
        super().__init__()
        self.size = 0

    def forward(self, x):
        differs, self.size = self.size not in (0, len(x)), len(x)
        return x * 2 if torch.compiler.is_compiling() and differs else x
"""
THIRD = """\
from torch import nn


def noisy(x):
    print("from a library")
    return x * 2


class Noisy(nn.Module):
    def forward(self, x):
        return noisy(x)
"""
BESIDE = """\
from torch import nn


class Beside(nn.Module):
    def forward(self, x):
        print("a message")
        return x * 2


def function(x):
    print("a message")
    return x * 2
"""
TESTS = """\
import warnings

import beside
import pytest
import thirdlib
import torch
from net import AllIntended, Broken, Clean, Foreign, Given, Intended, Wrong, WrongInTurn

X = torch.randn(4, 8)
Y = torch.randn(5, 8)


def test_leaves_everything_as_it_was(compile_ready):
    net, x = Clean(), X.clone()
    state = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    metrics = torch._dynamo.utils._compilation_metrics
    torch._dynamo.utils.counters["frames"]["total"] = 41
    counters = {name: dict(counter) for name, counter in torch._dynamo.utils.counters.items()}
    with torch.no_grad(), torch.compiler.set_stance("force_eager"), torch.random.fork_rng():
        torch.manual_seed(7)
        before = torch.get_rng_state()
        seen = compile_ready(net, x, scale=2.0)
        assert torch.equal(before, torch.get_rng_state())
        assert not torch.is_grad_enabled()
    assert torch._dynamo.utils._compilation_metrics is metrics
    after = {name: dict(counter) for name, counter in torch._dynamo.utils.counters.items() if counter}
    assert after == counters
    assert net.training
    assert torch.equal(x, X)
    assert all(torch.equal(tensor, state[name]) for name, tensor in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())
    assert seen.coverage.share == 1.0
    assert len(seen.graphs) == 1


def test_broken(compile_ready):
    compile_ready(Broken(), X)


@pytest.mark.parametrize("allow", [["TCR101", "print"], ["GB0170", "GB0059"], "net.py:*", ["net.py:21", "net.py"]])
def test_allowed(compile_ready, allow):
    assert len({site.line for site in compile_ready(Broken(), X, allow=allow).break_sites}) == 2


def test_allowed_in_part(compile_ready):
    compile_ready(Broken(), X, allow=["net.py:21"])


@pytest.mark.compile_ready(mode="train", max_recompiles=1, dynamic=True)
class TestMarked:
    def test_defaults_come_from_the_marker(self, compile_ready):
        assert compile_ready(Clean(), X).training.gradients == 4

    @pytest.mark.compile_ready(mode="infer")
    def test_the_closest_marker_wins(self, compile_ready):
        assert compile_ready(Clean(), X, also=[Y, torch.randn(6, 8)]).training is None


def test_recompiles(compile_ready):
    compile_ready(Clean().forward, X, also=[Y])


def test_recompiles_as_often_as_allowed(compile_ready):
    compile_ready(torch.compile(Clean(), backend="eager"), also=[X, {"x": Y}], max_recompiles=1)


def test_wrong(compile_ready):
    compile_ready(Wrong(), torch.ones(3))


def test_wrong_within_tolerance(compile_ready):
    compile_ready(Wrong(), X, rtol=0.1, atol=0)
    compile_ready(Wrong(), X, parity=False)


def test_wrong_in_turn(compile_ready):
    compile_ready(WrongInTurn(), torch.ones(3), also=[torch.ones(4)])


def test_foreign_and_intended_breaks_are_not_counted(compile_ready):
    assert compile_ready(Foreign(), X).break_sites
    assert compile_ready(Intended(), X).break_sites


def test_foreign(compile_ready):
    compile_ready(Foreign(), X, third_party=True)


def test_own_package(compile_ready):
    compile_ready(Foreign(), X, own="thirdlib")


def test_own_package_in_a_wrapper(compile_ready):
    compile_ready(torch.nn.Sequential(thirdlib.Noisy()), X)


@pytest.mark.parametrize("module", [beside.Beside(), torch.nn.Sequential(beside.Beside()), beside.function])
def test_beside(compile_ready, module):
    compile_ready(module, X)


def test_given_up(compile_ready):
    compile_ready(torch.nn.Sequential(Given(), Clean()), X)


def test_given_up_as_allowed(compile_ready):
    compile_ready(torch.nn.Sequential(Given(), Clean()), X, allow="thirdlib/*", own=None)


def test_all_intended(compile_ready):
    compile_ready(AllIntended(), X)


def test_script(compile_ready):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.trace(Clean().eval(), (X,))
    compile_ready(scripted, X)


def test_whole(compile_ready):
    compile_ready(Intended(), X, fullgraph=True, min_coverage=0.9)


def test_switched_off(compile_ready):
    with torch._dynamo.config.patch(disable=True):
        compile_ready(Clean(), X)


def test_no_call(compile_ready):
    compile_ready(Clean(), torch.randn(4, 7))


def test_interrupted(compile_ready):
    def function(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compile_ready(function, X)


@pytest.mark.compile_ready(coverage=1)
def test_misspelt(compile_ready):
    compile_ready(Clean(), X)


def test_ambiguous(compile_ready):
    compile_ready(lambda mode: mode, mode="train")
"""
FAILED = {
    "test_broken": """\
compile_ready: Broken is not ready for torch.compile
  net.py:21: Data-dependent branching (GB0170, in Broken.forward)
  net.py:23: Failed to trace builtin operator: *print* (GB0059, in Broken.forward)""",
    "test_allowed_in_part": """\
compile_ready: Broken is not ready for torch.compile
  net.py:23: Failed to trace builtin operator: *""",
    "test_recompiles": """\
compile_ready: Clean.forward is not ready for torch.compile
  1 recompilation, max_recompiles=0:
  net.py:13: recompiled Clean.forward (call 2): 0/0: tensor 'x' size mismatch at index 0. expected 4, actual 5""",
    "test_wrong": """\
compile_ready: Wrong is not ready for torch.compile
  parity: output 0 differs by 1 %, and by 1 % in float64 too""",
    "test_wrong_in_turn": """\
compile_ready: WrongInTurn is not ready for torch.compile
*
  parity: output 0 (case call 2) *, called in turn""",
    "test_foreign": """\
compile_ready: Foreign is not ready for torch.compile
  thirdlib/__init__.py:5: Failed to trace builtin operator: *""",
    "test_own_package": """\
compile_ready: Foreign is not ready for torch.compile
  thirdlib/__init__.py:5: Failed to trace builtin operator: *""",
    "test_own_package_in_a_wrapper": """\
compile_ready: Sequential is not ready for torch.compile
  thirdlib/__init__.py:5: Failed to trace builtin operator: *""",
    "test_beside[module0]": """\
compile_ready: Beside is not ready for torch.compile
  beside/beside.py:6: Failed to trace builtin operator: *""",
    "test_beside[module1]": """\
compile_ready: Sequential is not ready for torch.compile
  beside/beside.py:6: Failed to trace builtin operator: *""",
    "test_beside[function]": """\
compile_ready: function is not ready for torch.compile
  beside/beside.py:11: Failed to trace builtin operator: *""",
    "test_given_up": """\
compile_ready: Sequential is not ready for torch.compile
  net.py:*: Given.forward runs eagerly as a whole: thirdlib/__init__.py:5: Failed to trace builtin operator: *
  (1 break in installed packages not counted; third_party=True counts them)""",
    "test_all_intended": """\
compile_ready: AllIntended is not ready for torch.compile
  nothing was compiled: *""",
    "test_script": """\
compile_ready: this is TorchScript, which torch.compile does not take: *""",
    "test_whole": """\
compile_ready: Intended is not ready for torch.compile
  67% of operations in graphs, below min_coverage=0.9
  fullgraph=True: *disable* (net.py:*)""",
    "test_switched_off": """\
compile_ready: Clean is not ready for torch.compile
  nothing was compiled: no operation of torch ran, or compilation is switched off""",
    "test_no_call": """\
compile_ready: Clean is not ready for torch.compile
  eager code raised: RuntimeError: *mat1 and mat2 shapes cannot be multiplied (4x7 and 8x8) (net.py:14)""",
    "test_misspelt": "compile_ready: the marker takes no coverage: its options are mode, also, *",
    "test_ambiguous": "compile_ready: `mode` is an option here and a parameter of what is called: *",
}
"""The whole message of each test that must fail; `*` stands for anything."""


def run(project: Path, *arguments: str) -> tuple[dict[str, str | None], str]:
    """Each test's failure message, None where it passed; and what pytest printed."""
    report = project / "report.xml"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--strict-markers",
            "-Werror",
            "-p",
            "no:asyncio",
            f"--junitxml={report}",
            *arguments,
        ],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[str, str | None] = {}
    for case in ET.parse(report).iter("testcase"):
        problem = next((child for child in case if child.tag in ("failure", "error")), None)
        found[str(case.get("name"))] = None if problem is None else problem.text
    return found, done.stdout


def matches(text: str | None, pattern: str) -> bool:
    import re

    return text is not None and bool(
        re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text.strip(), re.DOTALL)
    )


@pytest.mark.torch
@pytest.mark.slow
def test_the_fixture(tmp_path: Path) -> None:
    """Under xdist, with warnings as errors; the library is installed, the project is not."""
    library = tmp_path / "lib" / "site-packages" / "thirdlib"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text(THIRD)
    project = tmp_path / "project"
    for path, text in {
        tmp_path / "beside" / "beside.py": BESIDE,
        project / "net.py": NET,
        project / "test_net.py": TESTS,
        project / "pytest.ini": "[pytest]\npythonpath = . ../beside ../lib/site-packages\n",
    }.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    found, printed = run(project, "-n", "1")
    failed = {name: text for name, text in found.items() if text is not None}
    assert failed.keys() == FAILED.keys(), printed
    assert {name: text for name, text in failed.items() if not matches(text, FAILED[name])} == {}
    assert len(found) > len(FAILED)
    assert "torch.__trace" not in printed, "pytest shows what every logger tells of a test that failed"


UNUSED = """\
import sys

import pytest


@pytest.mark.compile_ready(min_coverage=0.9)
def test_loads_nothing():
    ours = {name for name in sys.modules if name.partition(".")[0] == "tcready"}
    assert ours == {"tcready", "tcready.integrations", "tcready.integrations.pytest_plugin"}
    assert not {"torch", "numpy", "libcst", "networkx", "rich", "click", "jinja2"} & sys.modules.keys()


def test_without_torch(compile_ready, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    compile_ready(lambda x: x, 1)
"""


def test_it_costs_nothing_unused_and_fails_without_torch(tmp_path: Path) -> None:
    (tmp_path / "test_unused.py").write_text(UNUSED)
    found, printed = run(tmp_path)
    assert found["test_loads_nothing"] is None, printed
    assert matches(found["test_without_torch"], "compile_ready: torch is not installed in *: nothing was compiled")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"mode": "both"}, "mode='both': expected 'infer' or 'train'"),
        ({"min_coverage": 90}, "min_coverage=90: expected a share from 0 to 1"),
        ({"also": {"x": 1}}, "also is a dict: expected a list of calls"),
        ({"max_recompiles": None}, "max_recompiles=None: expected a whole number from 0 on"),
        ({"min_coverage": "0.9"}, "min_coverage='0.9': expected a share from 0 to 1"),
        ({"allow": [101]}, "allow holds 101: expected a string or a list of strings"),
        ({"allow": ["GB0059", " "]}, "allow holds an empty pattern"),
        ({"own": 1}, "own=1: expected a string or a list of strings"),
        ({"rtol": -1}, "rtol=-1: expected a number from 0 on"),
        ({"rtol": "a"}, "rtol='a': expected a number from 0 on"),
        ({"rtol": 0.1}, "atol is missing: give both rtol and atol, or neither"),
        ({"allow": "TCR999", "also": [1]}, "allow names TCR999, and there is no such rule: *"),
    ],
)
def test_options_are_checked(compile_ready: object, options: dict[str, object], told: str) -> None:
    assert callable(compile_ready)
    with pytest.raises(pytest.fail.Exception) as failed:
        compile_ready(abs, **options)
    assert matches(failed.value.msg, f"compile_ready: {told}")
