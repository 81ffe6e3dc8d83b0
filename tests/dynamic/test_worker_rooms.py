"""Which file of the worker may know what."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

WORKER = Path(__file__).resolve().parents[2] / "analyzer" / "dynamic" / "worker"
OUTSIDE = sorted(path for path in WORKER.rglob("*.py") if path.parent.name != "torch_internals")


def hidden(dotted: str) -> bool:
    """Whether a part of the name is private; `__version__` is not."""
    return any(part.startswith("_") and not part.startswith("__") for part in dotted.split("."))


def private_names(source: str) -> Iterator[str]:
    """Every private name of torch that the source imports, or reaches from what it imports of torch."""
    tree = ast.parse(source)
    roots: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "torch":
                    roots[alias.asname or "torch"] = alias.name if alias.asname else "torch"
                    if hidden(alias.name):
                        yield alias.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            for alias in node.names:
                dotted = f"{node.module}.{alias.name}"
                roots[alias.asname or alias.name] = dotted
                if hidden(dotted):
                    yield dotted
    for node in ast.walk(tree):
        parts: list[str] = []
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute):
            parts.insert(0, inner.attr)
            inner = inner.value
        if parts and isinstance(inner, ast.Name) and inner.id in roots and hidden(".".join(parts)):
            yield ".".join((roots[inner.id], *parts))


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: path.relative_to(WORKER).as_posix())
def test_private_names_of_torch_stand_in_their_room(path: Path) -> None:
    assert sorted(set(private_names(path.read_text("utf-8")))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import torch._dynamo",
        "from torch.utils import _pytree as pytree",
        "import torch\ntorch._dynamo.reset()",
        "from torch import nn\nnn.modules.conv._ConvNd",
        "def f():\n    from torch._inductor import config",
    ],
)
def test_private_names_are_found(source: str) -> None:
    assert list(private_names(source))


def test_public_names_are_no_private_ones() -> None:
    assert not list(private_names("import torch\nfrom torch import nn\nself._x = torch.__version__"))


def imported(path: Path) -> set[str]:
    """What a file of the worker imports of the worker, by its name below it; type checkers' imports count."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tcready.dynamic.worker"):
            below = (node.module or "").removeprefix("tcready.dynamic.worker").lstrip(".")
            found |= {f"{below}.{alias.name}".lstrip(".") for alias in node.names}
    return found


def test_no_stage_imports_another_and_only_the_pipeline_knows_them() -> None:
    knowing = {
        path.relative_to(WORKER).as_posix()
        for path in WORKER.rglob("*.py")
        if any(name.split(".")[0] == "stages" for name in imported(path))
    }
    assert knowing == {"core/pipeline.py", "core/main.py"}
    assert {name for name in imported(WORKER / "core" / "main.py") if name.startswith("stages")} == {"stages.parse"}


def test_no_stage_or_helper_imports_the_pipeline() -> None:
    knowing = {path.name for path in WORKER.rglob("*.py") if "core.pipeline" in imported(path)}
    assert knowing == {"main.py", "live_pipeline.py", "fork_server.py"}


def test_torch_internals_know_nothing_of_the_worker() -> None:
    names = {name for path in (WORKER / "torch_internals").glob("*.py") for name in imported(path)}
    assert {name.split(".")[0] for name in names} == {"torch_internals"}


def test_what_runs_before_torch_is_found_loads_no_torch() -> None:
    code = "import sys, tcready.dynamic.worker.core.main; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_pipeline_is_in_the_order_of_what_it_requires() -> None:
    pytest.importorskip("torch")
    from tcready.dynamic.worker.core.pipeline import OF_AN_OBJECT, ORDER

    names = [step.name for step in ORDER]
    assert set(names) >= OF_AN_OBJECT
    for index, step in enumerate(ORDER):
        assert set(step.requires) <= set(names[:index]), step.name
