"""How a target and its inputs are found, imported and built."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from textwrap import dedent

import pytest
from observing import observe_target
from tcready.dynamic import build_bundle, find_convention
from tcready.schema.observation import Observation
from tcready.schema.progress import Progress

pytestmark = pytest.mark.torch


def failures(seen: Observation) -> list[str]:
    return [f"{stage.stage}: {stage.detail}" for stage in seen.stages if stage.state == "fail"]


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


FORMS = """\
import torch
from torch import nn


class Takes(nn.Module):
    def forward(self, x, y=None, *, scale=1):
        return x * scale if y is None else x + y


tensor = torch.ones(2)
arguments = (torch.ones(2), torch.ones(2))
keywords = {"x": torch.ones(2), "scale": 3}
both = ((torch.ones(2),), {"scale": 2})
instance = Takes()


def make():
    return Takes()


def computed():
    return torch.ones(2), torch.ones(2)


def every():
    return {
        "cases": {
            "tensor": tensor,
            "arguments": arguments,
            "keywords": keywords,
            "both": both,
            "computed": computed(),
        }
    }


def nothing():
    return None
"""


def test_named_cases_and_every_form_of_inputs(tmp_path: Path) -> None:
    write(tmp_path, forms=FORMS)
    seen = observe_target("forms.py::Takes", inputs="forms.py::every", root=str(tmp_path))
    assert failures(seen) == []
    assert [graph.case for graph in seen.graphs] == ["tensor", "arguments", "keywords", "both", "computed"]
    assert seen.convention == "--inputs"
    assert seen.coverage is not None
    assert seen.coverage.share == 1.0


@pytest.mark.parametrize(
    ("target", "inputs"), [("instance", "computed"), ("make", "both")], ids=["instance", "factory"]
)
def test_instances_and_factories(tmp_path: Path, target: str, inputs: str) -> None:
    write(tmp_path, forms=FORMS)
    seen = observe_target(f"forms.py::{target}", inputs=f"forms.py::{inputs}", root=str(tmp_path))
    assert failures(seen) == []
    assert len(seen.graphs) == 1


@pytest.mark.release
def test_inputs_that_are_none(tmp_path: Path) -> None:
    write(tmp_path, forms=FORMS)
    seen = observe_target("forms.py::Takes", inputs="forms.py::nothing", root=str(tmp_path))
    (failure,) = failures(seen)
    assert failure.startswith("build: --inputs gives a NoneType: expected a tensor, a tuple")


def test_files_of_the_user_shadow_nothing(tmp_path: Path) -> None:
    poison = "raise RuntimeError('shadowed')\n"
    write(tmp_path, schema=poison, json=poison, tcready=poison, dataclasses=poison, worker=poison)
    write(
        tmp_path,
        torch_utils="FACTOR = 3\n",
        model=(
            dedent("""\
                import torch
                import torch_utils
                from torch import nn
                class Model(nn.Module):
                    def forward(self, x):
                        return x * torch_utils.FACTOR
                def get_inputs():
                    return [torch.ones(2)]
            """)
        ),
    )
    seen = observe_target("model.py", root=str(tmp_path))
    assert failures(seen) == []
    assert seen.convention == "get_inputs() with Model"
    assert len(seen.graphs) == 1


@pytest.mark.release
def test_a_target_named_like_a_module_of_the_library(tmp_path: Path) -> None:
    text = dedent("""\
        import torch
        class Model(torch.nn.Module):
            def forward(self, x):
                return x + 1
    """)
    write(tmp_path, json=text + "def get_inputs():\n    return [torch.ones(2)]\n")
    seen = observe_target("json.py", root=str(tmp_path))
    assert failures(seen) == []
    assert [graph.path for graph in seen.graphs] == ["json.py"]


def test_package_relative_and_sibling_imports_and_site_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "src/pkg/sub").mkdir(parents=True)
    (tmp_path / "src/pkg/__init__.py").write_text("")
    (tmp_path / "src/pkg/sub/__init__.py").write_text("")
    (tmp_path / "src/pkg/helpers.py").write_text("def double(x):\n    return x * 2\n")
    (tmp_path / "src/pkg/sub/sibling.py").write_text("ONE = 1\n")
    (tmp_path / "at_root.py").write_text("TWO = 2\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/from_path.py").write_text("THREE = 3\n")
    (tmp_path / "src/pkg/sub/net.py").write_text(
        dedent("""\
            import torch
            from torch import nn
            from ..helpers import double
            from .sibling import ONE
            import sibling
            import at_root
            import from_path
            class Net(nn.Module):
                def forward(self, x):
                    return double(x) + ONE + sibling.ONE + at_root.TWO + from_path.THREE
                def get_example_inputs(self):
                    return torch.ones(2)
        """)
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"))
    seen = observe_target("src/pkg/sub/net.py", root=str(tmp_path))
    assert failures(seen) == []
    assert seen.convention == "Net.get_example_inputs()"
    assert {item.path for item in seen.executed} == {"src/pkg/sub/net.py", "src/pkg/helpers.py"}


def test_dotted_target(tmp_path: Path) -> None:
    (tmp_path / "house").mkdir()
    (tmp_path / "house/__init__.py").write_text("")
    (tmp_path / "house/room.py").write_text(FORMS)
    seen = observe_target("house.room::Takes", inputs="house.room::tensor", root=str(tmp_path))
    assert failures(seen) == []
    assert [graph.path for graph in seen.graphs] == ["house/room.py"]


@pytest.mark.release
def test_kernelbench_and_lightning_conventions_run(tmp_path: Path) -> None:
    write(
        tmp_path,
        bench=(
            dedent("""\
                import torch
                from torch import nn
                class Model(nn.Module):
                    def __init__(self, width):
                        super().__init__()
                        self.lin = nn.Linear(width, 1)
                    def forward(self, x):
                        return self.lin(x)
                def get_inputs():
                    return [torch.rand(2, 5)]
                def get_init_inputs():
                    return [5]
            """)
        ),
        light=(
            dedent("""\
                import torch
                from torch import nn
                class Lit(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.example_input_array = torch.ones(2, 5)
                    def forward(self, x):
                        return x + 1
            """)
        ),
    )
    seen = observe_target("bench.py", root=str(tmp_path))
    assert failures(seen) == []
    assert seen.convention == "get_inputs()/get_init_inputs() with Model"
    seen = observe_target("light.py", root=str(tmp_path))
    assert failures(seen) == []
    assert seen.convention == "Lit.example_input_array"


NET = "class Net(nn.Module):\n    def forward(self, x): return x\n"
GIVES = "def get_inputs(): return []\n"


@pytest.mark.parametrize(
    ("source", "name", "label"),
    [
        (f"class Model(nn.Module): ...\n{GIVES}", None, "get_inputs() with Model"),
        (f"{NET}{GIVES}", None, "get_inputs() with Net"),
        (
            f"{NET}class Outer(nn.Module):\n    def __init__(self): self.n = Net()\n{GIVES}",
            None,
            "get_inputs() with Outer",
        ),
        (f"{NET}class Other(nn.Module): ...\n{GIVES}", None, None),
        (f"{NET}class Other(nn.Module): ...\n{GIVES}", "Other", "get_inputs() with Other"),
        (f"{NET}def get_model(): return Net()\n{GIVES}", None, "get_inputs() with get_model"),
        (f"{NET}model = Net()\n{GIVES}", None, "get_inputs() with model"),
        (f"{NET}def get_inputs(batch): return []\n", None, None),
        (f"{NET}def get_example_inputs(): return []\n", None, "get_example_inputs() with Net"),
        ("class Net(Base):\n    def forward(self, x): return x\n" + GIVES, None, "get_inputs() with Net"),
        ("class Config: ...\n" + GIVES, None, None),
        (NET, None, None),
        ("def f(:\n", None, None),
        (f"raise SystemExit\n{NET}{GIVES}", None, "get_inputs() with Net"),
    ],
)
def test_convention_is_read_not_executed(tmp_path: Path, source: str, name: str | None, label: str | None) -> None:
    path = tmp_path / "model.py"
    path.write_text(source)
    found = find_convention(path, name)
    assert (found.label if found else None) == label


def test_convention_of_a_missing_file(tmp_path: Path) -> None:
    assert find_convention(tmp_path / "none.py", None) is None


def test_bundle_is_deterministic_and_holds_the_worker_alone(tmp_path: Path) -> None:
    build_bundle(tmp_path / "a.pyz")
    build_bundle(tmp_path / "b.pyz")
    assert (tmp_path / "a.pyz").read_bytes() == (tmp_path / "b.pyz").read_bytes()
    names = set(zipfile.ZipFile(tmp_path / "a.pyz").namelist())
    assert {"__main__.py", "tcready/schema/codec.py", "tcready/dynamic/worker/core/main.py"} <= names
    packages = ("tcready/dynamic/worker/", "tcready/portable/", "tcready/schema/")
    launcher = (
        "__init__",
        "bench_variants",
        "bundle",
        "fork_client",
        "launch",
        "ranks",
        "recovery",
        "schedule",
        "standalone",
        "worker_process",
    )
    rest = {name for name in names if not name.startswith(packages)}
    assert rest == {"__main__.py", "tcready/__init__.py", *(f"tcready/dynamic/{name}.py" for name in launcher)}


SLOW = """\
import time

import torch
from torch import nn


class Slow(nn.Module):
    def forward(self, x):
        time.sleep(1)
        return x + 1


def get_inputs():
    return torch.ones(2)
"""


def test_progress_tells_the_stages(tmp_path: Path) -> None:
    """Every stage takes a second: one that ends between two looks at the worker is not shown."""
    write(tmp_path, slow=SLOW)
    notes: list[Progress] = []
    observe_target("slow.py::Slow", root=tmp_path, python=sys.executable, progress=notes.append)
    assert Progress("eager", "eager") in notes
    assert Progress("capture", "capture under torch._dynamo.explain") in notes
