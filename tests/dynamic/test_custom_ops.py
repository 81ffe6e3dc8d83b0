"""Operators and functions of others, as a run under the real Dynamo meets them; the code that is suggested is run."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from observing import observe_target
from tcready.merge import merge
from tcready.reports.html import document
from tcready.reports.text import summary_or_full
from tcready.schema.codec import as_json, from_json
from tcready.schema.observation import Observation
from tcready.schema.report import Report, Tool
from tcready.schema.run import CustomOp
from tcready.schema.static import StaticResult

pytestmark = pytest.mark.torch

MODEL = """\
import torch
from torch import nn

library = torch.library.Library("tcr_custom", "FRAGMENT")
library.define("twice(Tensor x) -> Tensor")
library.impl("twice", lambda x: x * 2, "CPU")


@torch.library.custom_op("tcr_custom::scale", mutates_args=())
def scale(x: torch.Tensor, factor: int) -> torch.Tensor:
    return x * factor


@scale.register_fake
def _(x, factor):
    return torch.empty_like(x)


@torch.library.custom_op("tcr_custom::when_compiled", mutates_args=())
def when_compiled(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@when_compiled.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("tcr_custom::rows", mutates_args=())
def rows(x: torch.Tensor) -> torch.Tensor:
    return x.sum(-1)


class Around(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.ops.tcr_custom.twice(x)  # twice

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        x = scale(self.layer(x), 2)  # scale
        if torch.compiler.is_compiling():
            x = when_compiled(x)  # when compiled
        else:
            x = rows(x)[:, None] * 0 + x  # rows
        return Around.apply(x)


class Fails(nn.Module):
    def forward(self, x):
        return rows(x)


def example():
    return torch.ones(4, 8)
"""

EXTENSION = """\
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject *scaled(PyObject *self, PyObject *args) {
  PyObject *x, *factor;
  if (!PyArg_ParseTuple(args, "OO", &x, &factor)) return NULL;
  return PyNumber_Multiply(x, factor);
}

static PyObject *grow(PyObject *self, PyObject *x) {
  PyObject *two = PyLong_FromLong(2);
  PyObject *result = PyNumber_InPlaceMultiply(x, two);
  Py_DECREF(two);
  return result;
}

static PyMethodDef methods[] = {
    {"scaled", scaled, METH_VARARGS, ""}, {"grow", grow, METH_O, ""}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "tcr_native", "", -1, methods};
PyMODINIT_FUNC PyInit_tcr_native(void) { return PyModule_Create(&module); }
"""

CALLS_EXTENSION = """\
import ctypes
import torch
import tcr_native
from torch import nn

libc = ctypes.CDLL(None)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.factor = 3.0

    def forward(self, x):
        hidden = self.layer(x)
        grown = tcr_native.scaled(hidden, self.factor)  # extension
        tcr_native.grow(grown)  # in place
        shift = libc.abs(-2)  # ctypes
        return grown + shift


def example():
    return torch.ones(2, 4)
"""


def line_of(source: str, mark: str) -> int:
    return next(n for n, line in enumerate(source.splitlines(), 1) if line.endswith(f"# {mark}"))


def by_name(seen: Observation) -> dict[str, CustomOp]:
    found = {item.name: item for item in seen.custom_ops}
    assert len(found) == len(seen.custom_ops)
    return found


def states(found: CustomOp) -> dict[str, str]:
    return {test.name: test.state for test in found.checks}


def report(seen: Observation) -> Report:
    nothing = StaticResult((), (), (), (), (), {})
    return merge(nothing, [seen], {}, Tool("tcready", "test"))


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Observation]:
    root = tmp_path_factory.mktemp("operators")
    (root / "model.py").write_text(MODEL)

    def run(name: str, **options: Any) -> Observation:
        seen = observe_target(f"model.py::{name}", inputs="model.py::example", root=root, timeout=120, **options)
        assert from_json(Observation, as_json(seen)) == seen
        return seen

    return run


@pytest.fixture(scope="module")
def inference(watch: Callable[..., Observation]) -> Observation:
    return watch("Model")


def test_operators_are_told_with_their_place_and_what_they_lack(inference: Observation) -> None:
    found = by_name(inference)
    assert set(found) == {"tcr_custom::scale", "tcr_custom::when_compiled", "tcr_custom::rows", "tcr_custom::twice"}
    told = {name.partition("::")[2]: (item.line, item.lacks, item.in_graph) for name, item in found.items()}
    assert told == {
        "scale": (line_of(MODEL, "scale"), (), True),
        "when_compiled": (line_of(MODEL, "when compiled"), (), True),
        "rows": (line_of(MODEL, "rows"), ("fake kernel",), False),
        "twice": (line_of(MODEL, "twice"), ("fake kernel",), False),
    }
    twice = found["tcr_custom::twice"]
    assert (twice.path, twice.symbol, twice.around, twice.kind) == ("model.py", "Around.forward", "Around", "operator")
    assert found["tcr_custom::scale"].skeleton == ""


def test_opcheck_runs_on_the_observed_arguments(inference: Observation) -> None:
    found = by_name(inference)
    assert set(states(found["tcr_custom::scale"]).values()) == {"pass"}
    assert len(found["tcr_custom::scale"].checks) == 4
    twice = found["tcr_custom::twice"]
    assert states(twice)["test_schema"] == "pass"
    assert states(twice)["test_faketensor"] == "fail"
    assert all("\n" not in test.detail and test.detail for test in twice.checks if test.state == "fail")


def test_the_suggested_fake_kernel_is_what_was_lacking(inference: Observation) -> None:
    found = by_name(inference)
    library = torch.library.Library("tcr_custom", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    double: Any = torch.compile(lambda x: torch.ops.tcr_custom.twice(x) + 1, backend="eager", fullgraph=True)
    with pytest.raises(torch._dynamo.exc.Unsupported):
        double(torch.ones(3, 2))
    torch._dynamo.reset()
    exec(found["tcr_custom::twice"].skeleton, {})
    assert torch.equal(double(torch.ones(3, 2)), torch.full((3, 2), 3.0))
    torch.library.opcheck(torch.ops.tcr_custom.twice.default, (torch.ones(3, 2),), test_utils="test_faketensor")
    rows = found["tcr_custom::rows"].skeleton
    assert "TODO: observed (4,) for x (4, 8)" in rows
    compile(rows, "rows", "exec")


def test_a_missing_fake_kernel_that_ends_the_capture_is_told_all_the_same(watch: Callable[..., Observation]) -> None:
    seen = watch("Fails")
    stages = {stage.stage: stage.state for stage in seen.stages}
    assert stages["capture"] == "fail"
    (found,) = seen.custom_ops
    assert (found.name, found.lacks) == ("tcr_custom::rows", ("fake kernel",))
    assert states(found)["test_faketensor"] == "fail"
    shown = summary_or_full.render(report(seen))
    assert f"model.py:{found.line} tcr_custom::rows: no fake kernel" in shown


def test_training_asks_for_a_gradient_where_no_autograd_function_gives_one(watch: Callable[..., Observation]) -> None:
    found = by_name(watch("Model", mode="train"))
    assert found["tcr_custom::scale"].lacks == ("autograd formula",)
    assert "register_autograd" in found["tcr_custom::scale"].skeleton
    assert found["tcr_custom::twice"].lacks == ("fake kernel",)
    compile(found["tcr_custom::scale"].skeleton, "scale", "exec")


def test_the_reports_show_them(inference: Observation) -> None:
    whole = report(inference)
    assert whole.targets[0].observation.custom_ops == inference.custom_ops
    shown = summary_or_full.render(whole)
    assert "2 not fully registered, 2 registered" in shown
    assert "tcr_custom::when_compiled" not in shown
    page = document.render(whole)
    assert "@torch.library.register_fake(&#34;tcr_custom::twice&#34;)" in page
    assert "called by the autograd.Function <code>Around</code>" in page


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an extension module written against Python's C API alone."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    include = sysconfig.get_path("include")
    if compiler is None or not os.path.isfile(os.path.join(include, "Python.h")) or os.name != "posix":
        pytest.skip("no C compiler with Python's headers")
    root = tmp_path_factory.mktemp("native")
    (root / "native.c").write_text(EXTENSION)
    library = str(root / f"tcr_native{sysconfig.get_config_var('EXT_SUFFIX')}")
    command = [compiler, "-shared", "-fPIC", f"-I{include}", str(root / "native.c"), "-o", library]
    subprocess.run(command, check=True, timeout=60)
    (root / "model.py").write_text(CALLS_EXTENSION)
    return root


@pytest.fixture(scope="module")
def foreign(native: Path) -> Observation:
    return observe_target("model.py::Model", inputs="model.py::example", root=str(native), timeout=120)


def test_functions_of_extensions_and_ctypes_are_found_where_they_break(foreign: Observation) -> None:
    seen = foreign
    found = by_name(seen)
    assert {(site.line) for site in seen.break_sites} == {item.line for item in seen.custom_ops}
    assert set(found) == {"tcr_native.scaled", "tcr_native.grow", "libc.abs"}
    scaled, absolute = found["tcr_native.scaled"], found["libc.abs"]
    assert (scaled.kind, scaled.line) == ("extension", line_of(CALLS_EXTENSION, "extension"))
    assert scaled.lacks == ("registration",)
    assert scaled.schema == "scaled(hidden: torch.Tensor, factor: float) -> torch.Tensor"
    assert (absolute.kind, absolute.line) == ("ctypes", line_of(CALLS_EXTENSION, "ctypes"))
    assert "No tensor goes into libc.abs" in absolute.skeleton
    assert all(stage.state != "fail" for stage in seen.stages)
    assert seen.warnings == ()


def test_the_suggested_registration_of_an_extension_makes_one_graph(native: Path, foreign: Observation) -> None:
    path = next(native.glob("tcr_native*.so"))
    spec = importlib.util.spec_from_file_location("tcr_native", path)
    assert spec is not None
    assert spec.loader is not None
    extension = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(extension)
    space: dict[str, Any] = {"tcr_native": extension}
    exec(by_name(foreign)["tcr_native.scaled"].skeleton, space)
    scaled = space["scaled"]
    x = torch.randn(2, 4)
    torch.library.opcheck(scaled, (x, 3.0))
    compiled: Any = torch.compile(lambda x: scaled(x, 3.0) + 1, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(x), x * 3.0 + 1)
    in_place = by_name(foreign)["tcr_native.grow"].skeleton
    assert '@torch.library.custom_op("tcr_native::grow", mutates_args=("grown",))' in in_place
    exec(in_place, space)
    torch.library.opcheck(space["grow"], (x.clone(),))


def test_what_is_done_to_look_at_an_operator_is_not_counted(inference: Observation) -> None:
    """The warm compiled call: a transpose and a product for the layer, and the three operators."""
    assert inference.coverage is not None
    assert inference.coverage.ops_total == 5
