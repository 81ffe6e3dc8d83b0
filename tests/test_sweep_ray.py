"""`tcready sweep --engine ray`: a real cluster of two nodes on this machine, one of which is lost on the way."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest
from tcready import api
from tcready.options import SweepOptions
from tcready.schema import TcreadyError
from tcready.sweeping import engine

MODEL = "from torch import nn\n\n\nclass Net{n}(nn.Module):\n    def forward(self, x):\n        {line}return x + {n}\n"
GIVEN = "\n\ndef get_inputs():\n    import torch\n\n    return [torch.ones(2)]\n"
COUNT = 4


def test_without_ray_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(TcreadyError, match=r"install tcready\[ray\]"):
        engine.opened("ray", None, ())


@pytest.mark.dynamo
def test_a_node_that_is_lost_costs_its_tasks_another_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not os.environ.get("CI"):
        pytest.importorskip("ray")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    for n in range(COUNT):
        line = "print(x)\n        " if n % 2 else ""
        (tmp_path / f"m{n}.py").write_text(MODEL.format(n=n, line=line) + GIVEN)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        lost = cluster.add_node(num_cpus=1)
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        once = threading.Lock()

        def progress(_: object) -> None:
            if once.acquire(blocking=False):  # the first result is there: tasks are under way on both nodes
                cluster.remove_node(lost, allow_graceful=False)

        report = api.sweep(".", root=tmp_path, wanted=SweepOptions(engine="ray"), progress=progress)
    finally:
        cluster.shutdown()
    assert report.sweep is not None
    assert once.locked()
    found = {
        each.target: (each.outcome.state, each.outcome.verdict, each.outcome.own_sites)
        for each in report.sweep.models
    }
    assert found == {
        f"m{n}.py::Net{n}": ("run", *(("not_ready", 1) if n % 2 else ("ready", 0))) for n in range(COUNT)
    }
