"""Which backend changes a result, and in which part of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from textwrap import dedent

import pytest
from tcready import api
from tcready.reports.shared.wording import parity_cause_words
from tcready.schema.run import ParityCause

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler for the CPU"),
]
MODEL = """

class Act(nn.Module):
    def forward(self, x):
        return ACT(x) * 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.act = Act()

    def forward(self, x):
        return self.act(self.linear(x)).sin()


def get_inputs():
    return [torch.randn(4, 8)]
"""
PASS = """\
    import torch
    from torch import nn
    from torch._inductor import config


    def swap(graph):
        for node in graph.nodes:
            if node.target is torch.ops.aten.relu.default:
                node.target = torch.ops.aten.sigmoid.default


    config.post_grad_custom_post_pass = swap
"""
JOINT = PASS.replace("post_grad_custom_post_pass", "joint_custom_post_pass")
LOWERING = """\
    import torch
    from torch import nn
    from torch._inductor import lowering

    lowering.lowerings[torch.ops.aten.relu.default] = lowering.lowerings[torch.ops.aten.sigmoid.default]
"""
DECOMPOSED = """\
    import torch
    from torch import nn
    from torch._decomp import decomposition_table
    from torch._inductor.decomposition import decompositions


    def wrong(x):
        return torch.sigmoid(x) + 0.5


    for table in (decomposition_table, decompositions):
        table[torch.ops.aten.silu.default] = wrong
"""
UNDECLARED = """\
    import torch
    from torch import nn


    @torch.library.custom_op("causes::act", mutates_args=())
    def act(x: torch.Tensor) -> torch.Tensor:
        x.relu_()  # not declared, so AOTAutograd drops the call
        return x.new_zeros(())


    @act.register_fake
    def _(x):
        return x.new_zeros(())


    def in_place(x):
        y = x.clone()
        act(y)
        return y
"""


def cause_in(folder: Path, head: str, act: str) -> ParityCause | None:
    (folder / "model.py").write_text(dedent(head) + MODEL.replace("ACT", act))
    (target,) = api.check(["model.py::Model"], root=folder, run=True, backend=True).targets
    assert [stage.stage for stage in target.stages if stage.reason == "mismatch"] == ["backend"]
    return target.observation.parity_cause


@pytest.mark.parametrize(
    ("head", "act", "backend", "part", "detail", "script"),
    [
        pytest.param(LOWERING, "torch.relu", "inductor", "lowerings", "relu", True, id="lowering"),
        pytest.param(
            PASS,
            "torch.relu",
            "inductor",
            "post_grad_passes",
            "post_grad_custom_post_pass",
            False,
            id="pass",
            marks=pytest.mark.release,
        ),
        pytest.param(
            JOINT,
            "torch.relu",
            "inductor",
            "joint_graph_passes",
            "joint_custom_post_pass",
            False,
            id="joint pass",
            marks=pytest.mark.release,
        ),
        pytest.param(
            DECOMPOSED,
            "nn.functional.silu",
            "aot_eager_decomp_partition",
            "decomposition",
            "aten.silu",
            True,
            id="decomposition",
            marks=pytest.mark.release,
        ),
        pytest.param(UNDECLARED, "in_place", "aot_eager", "", "", False, id="operator", marks=pytest.mark.release),
    ],
)
def test_the_backend_is_named(
    tmp_path: Path, head: str, act: str, backend: str, part: str, detail: str, script: bool
) -> None:
    """A script is left for graphs of torch's own operators, unless the pass is the user's."""
    cause = cause_in(tmp_path, head, act)
    assert cause is not None
    assert (cause.kind, cause.backend, cause.part, cause.module) == ("backend", backend, part, "act")
    assert detail in cause.detail
    assert ("class Repro" in cause.reproducer) is script
    words = parity_cause_words(cause)
    assert "changes the result" in words
    assert "; compiling `act` alone shows it" in words
    assert ("`parity_cause.reproducer`" in words) is script
