"""`tcready sweep --engine ray`: a real cluster of two nodes on this machine, one of which is lost on the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tcready.schema import TcreadyError
from tcready.sweeping import engine

MODEL = "from torch import nn\n\n\nclass Net{n}(nn.Module):\n    def forward(self, x):\n        {line}return x + {n}\n"
GIVEN = "\n\ndef get_inputs():\n    import torch\n\n    return [torch.ones(2)]\n"
COUNT = 3


def test_without_ray_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(TcreadyError, match=r"install tcready\[ray\]"):
        engine.opened("ray", None, ())


def test_one_gpu_of_several_is_no_device_of_a_task() -> None:
    """Ray says which one a task sees, and that is its `cuda`: nothing would run."""
    with pytest.raises(TcreadyError, match="--engine ray: device cuda:1: Ray gives each run a GPU"):
        engine.opened("ray", None, ("cuda", "cuda:1"))


SCRIPT = """
import json, os, sys, threading
from ray.cluster_utils import Cluster
from tcready import api
from tcready.options import SweepOptions

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
lost = cluster.add_node(num_cpus=1)
os.environ["RAY_ADDRESS"] = cluster.address
once = threading.Lock()

def progress(_):
    if once.acquire(blocking=False):  # the first result is there: tasks are under way on both nodes
        cluster.remove_node(lost, allow_graceful=False)

found = api.sweep(".", wanted=SweepOptions(engine="ray"), progress=progress).sweep.models
print(json.dumps([once.locked(), {m.target: [m.outcome.state, m.outcome.verdict, m.outcome.own_sites] for m in found}]))
cluster.shutdown()
"""
"""In a process of its own: Ray puts a `print` of its own in the place of Python's."""


@pytest.mark.dynamo
def test_a_node_that_is_lost_costs_its_tasks_another_try(tmp_path: Path) -> None:
    if not os.environ.get("CI"):
        pytest.importorskip("ray")
    for n in range(COUNT):
        line = "print(x)\n        " if n % 2 else ""
        (tmp_path / f"m{n}.py").write_text(MODEL.format(n=n, line=line) + GIVEN)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lost, found = json.loads(done.stdout.splitlines()[-1])
    assert lost
    assert found == {
        f"m{n}.py::Net{n}": ["run", *(("not_ready", 1) if n % 2 else ("ready", 0))] for n in range(COUNT)
    }
