"""`tcready sweep --engine ray`: a real cluster of two nodes on this machine, one of which is lost on the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tcready.schema.enums import TcreadyError
from tcready.sweep import engine_choice

MODEL = """\
import os, time
from torch import nn

node = os.environ["RAY_RAYLET_PID"]
with open(f"marks/m{n}.py.{{node}}.{{os.getpid()}}", "w"):
    pass
with open("lost") as file:
    lost = file.read()
until = time.monotonic() + 120
while time.monotonic() < until and (node == lost or not any(f".{{lost}}." in name for name in os.listdir("marks"))):
    time.sleep(0.05)


class Net{n}(nn.Module):
    def forward(self, x):
        {line}return x + {n}


def get_inputs():
    import torch

    return [torch.ones(2)]
"""
"""Leaves a mark of each run. One on the node that is lost does not end before; no other ends until there is one."""
COUNT = 4


def test_without_ray_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(TcreadyError, match=r"install tcready\[ray\]"):
        engine_choice.opened("ray", None, ())


def test_one_gpu_of_several_is_no_device_of_a_task() -> None:
    """Ray says which one a task sees, and that is its `cuda`: nothing would run."""
    with pytest.raises(TcreadyError, match="--engine ray: device cuda:1: Ray gives each run a GPU"):
        engine_choice.opened("ray", None, ("cuda", "cuda:1"))


SCRIPT = """
import json, os, sqlite3
from ray.cluster_utils import Cluster
from tcready import api
from tcready.portable.options import SweepOptions

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
lost = cluster.add_node(num_cpus=1)
os.environ["RAY_ADDRESS"] = cluster.address
with open("lost", "w") as file:
    file.write(str(lost.all_processes["raylet"][0].process.pid))
finished = []

def progress(_):
    if finished:
        return
    store = sqlite3.connect(".tcready_cache/sweep.sqlite")
    query = "SELECT target FROM results WHERE stage = 'run' AND status = 'done'"
    finished.extend(target for (target,) in store.execute(query))
    store.close()
    if finished:  # so one is under way on the other node
        cluster.remove_node(lost, allow_graceful=False)

found = api.sweep(".", wanted=SweepOptions(engine="ray"), progress=progress).sweep
models = {m.target: [m.outcome.state, m.outcome.verdict, m.outcome.own_sites] for m in found.models}
print(json.dumps([finished, found.made, models]))
cluster.shutdown()
"""
"""In a process of its own: Ray puts a `print` of its own in the place of Python's."""


@pytest.mark.torch
def test_a_node_that_is_lost_costs_its_tasks_another_try_and_nothing_else(tmp_path: Path) -> None:
    if not os.environ.get("CI"):
        pytest.importorskip("ray")
    (tmp_path / "marks").mkdir()
    for n in range(COUNT):
        line = "print(x)\n        " if n % 2 else ""
        (tmp_path / f"m{n}.py").write_text(MODEL.format(n=n, line=line))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    finished, made, found = json.loads(done.stdout.splitlines()[-1])
    assert found == {f"m{n}.py::Net{n}": ["run", *(("not_ready", 1) if n % 2 else ("ready", 0))] for n in range(COUNT)}
    assert made == 2 * COUNT  # each was read and run
    lost = (tmp_path / "lost").read_text()
    ran: dict[str, list[bool]] = {f"m{n}.py": [] for n in range(COUNT)}
    for path in sorted((tmp_path / "marks").iterdir(), key=lambda path: path.stat().st_mtime):
        name, node, _ = path.name.rsplit(".", 2)
        ran[name].append(node == lost)
    # what was under way on the node ran there, and again on the other one; all else ran once
    (again,) = [name for name, places in ran.items() if places == [True, False]]
    assert all(places == [False] for name, places in ran.items() if name != again), ran
    assert finished
    assert again not in {target.partition("::")[0] for target in finished}
