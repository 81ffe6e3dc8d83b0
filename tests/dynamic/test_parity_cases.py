"""Hand-made cases for the comparison of traced and eager code: planted mistakes, and other formulas for the same values.

The first test measures each case by torch alone; the second holds what tcready says of it.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from observing import observe_target

FOLDER = Path(__file__).parents[2] / "fixtures" / "parity"
CASES = sorted(FOLDER.glob("*/*.py"))
DTYPES = ("float32", "bfloat16", "float16")
SAME = 1e-9
"""The largest relative difference in float64 that is rounding, unless the case has its own FLOAT64_RELATIVE."""
LESS_EXACT = 3.0
"""So many times eager code's error against float64, the traced code's error is a mistake."""
AS_EXACT = 2.0
"""So many times eager code's error, it is still rounding."""
QUICK = {
    ("mistakes/one_row_in_a_hundred", "bfloat16"),
    ("mistakes/lost_cast_softmax", "float16"),
    ("mistakes/nan_zero_over_zero", "float32"),
    ("mistakes/train_gradient_scaled", "bfloat16"),
    ("rounding/attention_fused_traced", "bfloat16"),
    ("rounding/cancelling_sums", "float16"),
    ("rounding/argmax_tied", "bfloat16"),
    ("rounding/train_attention_kernels", "float32"),
}
"""What every run of the tests asks of tcready; the others are `long`."""

pytestmark = pytest.mark.torch


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"parity_{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def results(case: ModuleType, dtype: str, *, traced: bool, wide: bool = False) -> dict[str, torch.Tensor]:
    """The outputs by name, in training the gradients too; `wide`: the values are of `dtype`, the arithmetic float64."""
    torch.manual_seed(0)
    model = case.Model()
    inputs = case.get_inputs()
    for kind in (getattr(torch, dtype), *([torch.float64] if wide else ())):
        model.to(kind)
        inputs = tuple(part.to(kind) if part.is_floating_point() else part for part in inputs)
    trains = getattr(case, "MODE", "infer") == "train"
    model.train(trains)
    torch._dynamo.reset()
    call = torch.compile(model, backend="eager", fullgraph=True) if traced else model
    with torch.set_grad_enabled(trains):
        outputs = call(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        found = {f"output {index}": output.detach() for index, output in enumerate(outputs)}
        if trains:
            (output,) = outputs
            weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).reshape(output.shape)
            (output if output.dim() == 0 else (output * weights).sum()).backward()
            for name, parameter in model.named_parameters():
                grad = parameter.grad
                found[f"gradient of {name}"] = torch.zeros_like(parameter) if grad is None else grad
    return found


def rms(value: torch.Tensor) -> float:
    return value.double().square().mean().sqrt().item()


def distances(ones: dict[str, torch.Tensor], others: dict[str, torch.Tensor]) -> Iterator[tuple[str, float]]:
    """Per tensor, the root of the mean squared difference over that of `others`. A gradient that is zero but for rounding
    is measured by a thousandth of the largest one."""
    sizes = {name: rms(torch.nan_to_num(value.double(), 0, 0, 0)) for name, value in others.items()}
    largest = max((size for name, size in sizes.items() if name.startswith("gradient")), default=0.0)
    for name, one in ones.items():
        other = others[name]
        if one.shape != other.shape:
            yield name, math.inf
            continue
        same = (one == other) | (one.isnan() & other.isnan())
        apart = torch.where(same, 0.0, one.double() - other.double())
        size = max(sizes[name], largest / 1000)
        apart_by = rms(apart) if apart.isfinite().all() else math.inf
        yield name, apart_by / size if apart_by and size else apart_by


def furthest(ones: dict[str, torch.Tensor], others: dict[str, torch.Tensor]) -> float:
    return max(distance for _, distance in distances(ones, others))


def same_bits(ones: dict[str, torch.Tensor], others: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(one, others[name]) for name, one in ones.items())


def kinds(found: dict[str, torch.Tensor]) -> list[tuple[torch.dtype, torch.Size]]:
    return [(value.dtype, value.shape) for value in found.values()]


def dtypes_of(case: ModuleType) -> tuple[str, ...]:
    return getattr(case, "DTYPES", DTYPES)


def measured(case: ModuleType, dtype: str) -> dict[str, float]:
    """The relative errors of eager and traced code against eager code in float64, and how far they are apart."""
    exact = results(case, dtype, traced=False, wide=True)
    eager, traced = results(case, dtype, traced=False), results(case, dtype, traced=True)
    return {
        "eager": furthest(eager, exact),
        "traced": furthest(traced, exact),
        "apart": furthest(traced, eager),
        "float64": furthest(results(case, dtype, traced=True, wide=True), exact),
        "bits": float(same_bits(eager, traced)),
        "kinds": float(kinds(eager) == kinds(traced)),
    }


@pytest.mark.parametrize("path", CASES, ids=name_of)
@pytest.mark.sampled(4)
def test_each_case_is_what_it_says(path: Path) -> None:
    case = load(path)
    found = {dtype: measured(case, dtype) for dtype in dtypes_of(case)}
    for dtype, each in found.items():
        limit = getattr(case, "FLOAT64_RELATIVE", SAME)
        if path.parent.name == "rounding":
            assert each["kinds"], dtype
            assert each["float64"] < limit, dtype
            if not hasattr(case, "MAY_BE_UNDECIDED"):
                as_exact = max(AS_EXACT * each["eager"], torch.finfo(getattr(torch, dtype)).eps)
                assert each["traced"] <= as_exact, dtype
        elif path.stem.startswith("lost_cast"):
            assert each["traced"] >= LESS_EXACT * each["eager"], dtype
        else:
            assert not each["kinds"] or each["float64"] > 1000 * limit, dtype
            assert not each["bits"] or not each["kinds"], dtype
    # Indices with a wide margin are the same: there the kernels differ and the outputs must not.
    if path.parent.name == "rounding" and path.stem != "argmax_wide_margin":
        assert not all(each["bits"] for each in found.values())


@pytest.mark.parametrize("path", [path for path in CASES if path.stem.startswith("train_")], ids=name_of)
def test_a_mistake_in_the_backward_is_in_no_output(path: Path) -> None:
    case = load(path)
    assert case.MODE == "train"
    if path.parent.name == "mistakes":
        for dtype in dtypes_of(case):
            traced = results(case, dtype, traced=True)
            eager = results(case, dtype, traced=False)
            assert torch.equal(traced["output 0"], eager["output 0"]), dtype


def _matrix() -> Iterator[Any]:
    for path in CASES:
        for dtype in dtypes_of(load(path)):
            marks = () if (name_of(path), dtype) in QUICK else (pytest.mark.release,)
            yield pytest.param(path, dtype, id=f"{name_of(path)}-{dtype}", marks=marks)


@pytest.mark.parametrize(("path", "dtype"), list(_matrix()))
def test_tcready_judges_each_case(path: Path, dtype: str) -> None:
    case = load(path)
    mode = getattr(case, "MODE", "infer")
    seen = observe_target(f"{path.name}::Model", root=path.parent, dtype=dtype, mode=mode)
    parity = next(stage for stage in seen.stages if stage.stage == "parity")
    expected = {("pass", None)} if path.parent.name == "rounding" else {("fail", "mismatch")}
    if getattr(case, "MAY_BE_UNDECIDED", False):
        expected.add(("not_run", "not_comparable"))
    if dtype in getattr(case, "MAY_HIDE", ()):
        expected.add(("pass", None))
    assert (parity.state, parity.reason) in expected, parity.detail


ENCODER = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)

    def forward(self, x):
        found = self.layer(x)
        return {found}

def get_inputs():
    return (torch.randn(2, 8, 32),)
"""


@pytest.mark.parametrize(
    ("found", "state"), [("found", "pass"), ("found.float() if torch.compiler.is_compiling() else found", "fail")]
)
def test_a_fast_path_that_modes_rule_out(tmp_path: Path, found: str, state: str) -> None:
    # Under autocast, the fused encoder layer returns bfloat16, and the code that replaces it under a mode float32.
    (tmp_path / "model.py").write_text(ENCODER.replace("{found}", found))
    seen = observe_target("model.py::Model", root=tmp_path, autocast="bfloat16")
    parity = next(stage for stage in seen.stages if stage.stage == "parity")
    assert parity.state == state, parity.detail
