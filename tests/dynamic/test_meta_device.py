"""The device `meta`: no values, no memory; the same breaks as on the CPU."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from fixture_markers import ROOT, models
from observing import observe_target, report_of, torch_between
from tcready.schema.observation import Observation, Stage

pytestmark = pytest.mark.torch

HEAD = """\
import torch
from torch import nn


def get_inputs():
    return [torch.randn(4, 8)]


"""


def run(root: Path, body: str, **options: object) -> Observation:
    (root / "model.py").write_text(HEAD + body, "utf-8")
    return observe_target("model.py", root=str(root), **{"device": "meta", **options})


def stage(seen: Observation, name: str) -> Stage:
    return next(stage for stage in seen.stages if stage.stage == name)


def sites(seen: Observation) -> set[tuple[str, int, str | None]]:
    return {(site.path, site.line, site.gb_id) for site in seen.break_sites}


def line_of(text: str, body: str) -> int:
    return (HEAD + body)[: (HEAD + body).index(text)].count("\n") + 1


CLEAN = """\
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("scale", torch.tensor([2.0]))

    def forward(self, x):
        return torch.cat([self.layer(x) * self.scale, torch.zeros(1, 8, device=x.device), x.new_tensor([[1.0] * 8])])
"""


def test_a_clean_model_is_ready_and_the_verdict_names_what_did_not_run(tmp_path: Path) -> None:
    seen = run(tmp_path, CLEAN, backend=True, shapes=True, plan=True)
    (target,) = report_of(seen).targets
    assert (target.verdict, target.verdict_reason) == (
        "ready",
        "captured whole; backend, parity and speed not run; holds for the device meta: shapes only, no values",
    )
    assert stage(seen, "fullgraph").state == "pass"
    for name in ("parity", "backend", "shapes", "plan"):
        assert (stage(seen, name).state, stage(seen, name).reason) == ("not_run", "no_values")
    assert not seen.warnings
    assert seen.coverage is not None
    assert (seen.coverage.share, seen.coverage.time_share, seen.coverage.seconds) == (1.0, None, None)
    assert {module.seconds for module in seen.modules} == {None}
    assert seen.environment is not None
    assert seen.environment["device"] == "meta"


READS = {
    "item": "y = y * y.sum().item()",
    "int": "y = y * int(y.abs().max())",
    "branch": "y = y + 1 if y.sum() > 0 else y - 1",
    "guard": "if not torch.isfinite(y).all():\n            raise ValueError('not finite')",
    "loop": "while y.sum() < 1:\n            y = y + 1",
    "tolist": "y = y * y.sum(0).tolist()[0]",
    "equal": "y = y + torch.equal(y, x)",
    "nonzero": "y = y.sum() + y.nonzero()",
    "mask": "y = y[y > 0]",
    "masked_select": "y = y.masked_select(y > 0) * 2",
    "unique": "y = torch.unique(y) + 1",
    "repeat": "y = y.repeat_interleave((y[:, 0] > 0).long() + 1, 0)",
    "print": "print(y)",
    "format": "print(f'{y.mean():.3f}')",
    "numpy": "y = torch.from_numpy(y.numpy()).sum().item()",
    "cond": "y = torch.cond(y.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (y,))",
}


@pytest.mark.parametrize("name", READS)
def test_what_reads_values_breaks_where_it_does_on_the_cpu(name: str, tmp_path: Path) -> None:
    body = CLEAN.replace("return torch", f"y = self.layer(x)\n        {READS[name]}\n        return y, torch")
    seen, expected = (run(tmp_path, body, device=device) for device in ("meta", "cpu"))
    assert stage(seen, "capture").state == "pass", stage(seen, "capture").detail
    assert sites(seen) == sites(expected)
    assert seen.skipped_frames == expected.skipped_frames
    if name not in ("print", "cond"):
        assert sites(seen)
    assert report_of(seen).targets[0].verdict == report_of(expected).targets[0].verdict


def test_a_stand_in_is_a_warning_with_its_line(tmp_path: Path) -> None:
    body = CLEAN.replace("return torch", "y = self.layer(x).sum().item()\n        return y, torch")
    (warning,) = run(tmp_path, body).warnings
    assert warning == (
        "tensors on meta have no values: a tensor that is read as a number at "
        f"model.py:{line_of('y = ', body)} was assumed to be 1.0; code that depends on it was not checked with real values"
    )


def test_values_that_follow_from_inputs_are_known(tmp_path: Path) -> None:
    body = """\
class Model(nn.Module):
    def forward(self, x):
        lengths = torch.arange(4, device=x.device) + x.isfinite().all()
        parts = x.new_ones(10, 3).split(lengths.tolist())
        mask = torch.arange(4, device=x.device)[None] < lengths[:, None]
        return [part.sum(0) for part in parts], x.new_ones(4, 4)[mask].view(10, 1)
"""
    seen = run(tmp_path, body)
    assert stage(seen, "capture").state == "pass", stage(seen, "capture").detail
    assert not seen.warnings
    assert sites(seen) == sites(run(tmp_path, body, device="cpu"))


def test_a_value_that_was_written_over_is_not_known(tmp_path: Path) -> None:
    body = """\
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.number = nn.Parameter(torch.tensor(3.0))

    def forward(self, x):
        view = x[0]
        x[0, 0] = self.number
        return x * view[0].item()
"""
    (warning,) = run(tmp_path, body).warnings
    assert f"model.py:{line_of('return x *', body)} was assumed to be 1.0" in warning


def test_an_assertion_is_taken_to_hold(tmp_path: Path) -> None:
    body = CLEAN.replace(
        "return torch", "y = self.layer(x)\n        assert bool((y > 0).any()), y\n        return y, torch"
    )
    seen = run(tmp_path, body)
    assert stage(seen, "eager").state == "pass"
    assert "was assumed to be True" in seen.warnings[0]


NO_FAKE = """\
library = torch.library.Library("meta_test", "FRAGMENT")
library.define("widen(Tensor x) -> Tensor")
library.impl("widen", lambda x: torch.cat([x, x]), "CPU")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return torch.ops.meta_test.widen(self.layer(x)).view(8, 8) + 1
"""


def test_an_operator_without_a_fake_kernel_breaks_and_gives_its_shapes(tmp_path: Path) -> None:
    seen, expected = (run(tmp_path, NO_FAKE, device=device) for device in ("meta", "cpu"))
    assert stage(seen, "capture").state == "pass", stage(seen, "capture").detail
    assert sites(seen) == sites(expected)
    assert [op.lacks for op in seen.custom_ops] == [op.lacks for op in expected.custom_ops] == [("fake kernel",)]
    assert "meta_test::widen, which has no kernel on meta" in seen.warnings[0]


def test_a_constructor_that_reads_values_fails_the_build(tmp_path: Path) -> None:
    body = CLEAN.replace("self.layer =", "self.rates = torch.linspace(0, 1, 3).tolist()\n        self.layer =")
    seen = run(tmp_path, body)
    assert (stage(seen, "build").state, stage(seen, "build").reason) == ("fail", "no_values")
    detail = stage(seen, "build").detail
    assert detail.startswith("the constructor reads values, and the device meta holds no values: ")
    assert detail.endswith(f"(model.py:{line_of('self.rates', body)})")
    assert report_of(seen).targets[0].verdict == "unknown"


DOES_NOT_FIT = """\
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        y = self.layer(x)
        FIRST
        n = int(y.argmax()) + 2
        return y[:3].view(n, -1) + 1
"""


SELECTS = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, lengths):
        mask = torch.arange(8)[None] < lengths[:, None]
        y = self.layer(x)
        return y[mask].view(17, 4), torch.masked_select(y, mask[..., None]).view(17, 4)


def get_inputs():
    return torch.randn(4, 8, 4), torch.tensor([8, 3, 5, 1])
"""


@torch_between((2, 12), (3, 0), "torch 2.11 does not capture it")
def test_a_known_mask_selects_as_many_unknown_values_as_it_does(tmp_path: Path) -> None:
    seen = run(tmp_path, SELECTS)
    assert (stage(seen, "eager").state, stage(seen, "capture").state) == ("pass", "pass")
    assert not [warning for warning in seen.warnings if "selects" in warning]
    for finding in report_of(seen).findings:
        assert "seconds" not in (finding.cost or {})


def test_a_shape_that_does_not_fit_says_from_where_on_nothing_is_known(tmp_path: Path) -> None:
    body = DOES_NOT_FIT.replace("FIRST", "print(y)").replace("+ 2", "+ 4")
    seen = run(tmp_path, body)
    last = line_of("return y[:3]", body)
    for name in ("eager", "capture"):
        assert (stage(seen, name).state, stage(seen, name).reason) == ("fail", "no_values")
        assert stage(seen, name).detail.endswith(f"nothing was checked from model.py:{last} on")
    assert {site.line for site in seen.break_sites} == {line_of("print", body), line_of("n = int", body)}
    assert seen.graphs
    (target,) = report_of(seen).targets
    assert target.verdict == "not_ready"
    assert "nothing was checked" in target.verdict_reason


def test_nothing_is_ready_where_nothing_is_known(tmp_path: Path) -> None:
    """Under this setting Dynamo takes `item` into the graph: no break says that a value was read."""
    body = DOES_NOT_FIT.replace("FIRST", "pass").replace("+ 2", "+ 4")
    seen = run(tmp_path, f"torch._dynamo.config.capture_scalar_outputs = True\n{body}")
    (target,) = report_of(seen).targets
    assert stage(seen, "eager").state == "fail"
    assert target.verdict != "ready"


def test_a_mistake_of_the_model_is_not_laid_on_missing_values(tmp_path: Path) -> None:
    body = CLEAN.replace("nn.Linear(8, 8)", "nn.Linear(7, 8)")
    seen = run(tmp_path, body)
    assert (stage(seen, "eager").state, stage(seen, "eager").reason) == ("fail", "error")
    assert stage(seen, "capture").reason == "earlier_stage"


@torch_between((2, 13), (9, 9), "torch.tensor on meta was looked at in 2.13")
def test_a_large_model_by_name_takes_no_memory(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    sizes = ("hidden_size=8192", "intermediate_size=28672", "num_hidden_layers=4", "num_attention_heads=64")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    seen = observe_target(
        "transformers.models.llama.modeling_llama::LlamaModel",
        root=str(tmp_path),
        server=None,
        model="hf:llama",
        config=sizes,
        dtype="bfloat16",
        device="meta",
        synthesise=True,
    )
    peak = max(before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    assert "GB" in stage(seen, "build").detail
    (target,) = report_of(seen).targets
    assert target.verdict == "ready", seen.stages
    assert peak < 4e6  # in kB: the parameters would take 8 GB


KNOWN_TO_DIFFER = {"nan_guard"}
"""It takes the branch of what is not finite, and prints there."""


@pytest.mark.release
@pytest.mark.parametrize(
    "model", [model for model in models() if model.stem != "inline_cpp_extension"], ids=lambda model: model.stem
)
def test_the_models_break_where_they_do_on_the_cpu(model: Path) -> None:
    path = model.relative_to(ROOT).as_posix()
    seen, expected = (observe_target(path, root=ROOT, device=device) for device in ("meta", "cpu"))
    if model.stem in KNOWN_TO_DIFFER:
        assert sites(seen) > sites(expected)
    else:
        assert sites(seen) == sites(expected)
    assert stage(seen, "capture").state == "pass", stage(seen, "capture").detail
