"""A model is built once and copied: what copies share, and when they do not."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from observing import observe_target

torch = pytest.importorskip("torch")

from tcready.dynamic.worker.core.model_store import ModelStore, refers_to_itself  # noqa: E402
from tcready.dynamic.worker.inputs.loading import make_on  # noqa: E402


class Built:
    """Counts how often a model is built."""

    def __init__(self, change: Any = None, share: bool = True, mode: Any = "infer") -> None:
        self.count = 0
        self.change = change
        self.store = ModelStore(self.make, "cpu", mode, share=share)
        self.mode = mode

    def make(self, seed: int) -> torch.nn.Module:
        self.count += 1
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
        if self.change:
            self.change(model)
        return model

    def model(self, seed: int = 0) -> Any:
        return self.store.build(self.mode, seed)


def memory_of(model: Any) -> list[int]:
    return [each.data_ptr() for each in model.parameters()]


def test_copies_share_the_memory_of_parameters_and_own_everything_else() -> None:
    built = Built()
    one, other = built.model(), built.model()
    assert built.count == 1
    assert one is not other
    assert memory_of(one) == memory_of(other)
    assert one[0].weight is not other[0].weight
    assert one[1].running_mean.data_ptr() != other[1].running_mean.data_ptr()
    one.double()
    assert other[0].weight.dtype == built.model()[0].weight.dtype == torch.float32


@pytest.mark.parametrize("mode", ["train", "infer"])
def test_what_trains_has_parameters_of_its_own(mode: Any) -> None:
    built = Built(mode=mode, share=mode == "train")
    assert not set(memory_of(built.model())) & set(memory_of(built.model()))
    assert built.count == 1


@pytest.mark.parametrize(
    "write",
    [
        lambda model: torch.nn.init.zeros_(model[0].weight),
        lambda model: model[0].weight.data.mul_(2),
        lambda model: model[0].bias.data.copy_(torch.ones(3)),
        lambda model: model[0].weight.data.neg_(),
        lambda model: model[0].weight.data.copy_(model[0].weight.roll(1, 0)),
    ],
)
def test_a_write_to_shared_parameters_is_noticed(write: Any) -> None:
    built = Built()
    right = built.model()[0].weight.clone(), built.model()[0].bias.clone()
    write(built.model())
    for _ in range(2):
        model = built.model()
        assert torch.equal(model[0].weight, right[0])
        assert torch.equal(model[0].bias, right[1])
        write(model)
    assert built.count == 2, "nothing is shared from there on"


def test_another_seed_is_built() -> None:
    built = Built()
    first = built.model()
    assert not torch.equal(built.model(seed=1)[0].weight, first[0].weight)
    assert built.count == 2


def refer_by_closure(model: Any) -> None:
    model.act = lambda x: model[0](x)


def refer_by_default(model: Any) -> None:
    def act(x: Any, layer: Any = model[0]) -> Any:
        return layer(x)

    model.act = act


def refer_by_hook(model: Any) -> None:
    model[0].register_forward_hook(lambda module, args, output: model[1].eps)


def refer_by_method(model: Any) -> None:
    forward = model.forward
    model.forward = lambda x: forward(x)


@pytest.mark.parametrize("refer", [refer_by_closure, refer_by_default, refer_by_hook, refer_by_method])
def test_a_model_whose_functions_refer_to_it_is_built_again(refer: Any) -> None:
    built = Built(refer)
    assert refers_to_itself(built.make(0))
    before = built.count
    assert not set(memory_of(built.model())) & set(memory_of(built.model()))
    assert built.count - before >= 2
    assert not built.store.copies


def test_a_model_that_cannot_be_copied_is_built_again() -> None:
    built = Built(lambda model: setattr(model, "lock", threading.Lock()))
    built.model()
    built.model()
    assert built.count >= 2


def test_parameters_over_one_memory_are_built_again() -> None:
    """A deep copy of two views has memory for each."""

    def tie(model: Any) -> None:
        flat = torch.zeros(6)
        model.one, model.other = torch.nn.Parameter(flat[:3]), torch.nn.Parameter(flat[3:])

    built = Built(tie)
    built.model()
    assert not built.store.copies


def test_a_lazy_model_is_copied() -> None:
    built = Built(lambda model: model.append(torch.nn.LazyLinear(2)))
    built.model()
    built.model()
    assert built.store.copies


def test_a_model_that_is_lent_comes_back_as_it_was() -> None:
    built = Built()
    right = [each.clone() for each in built.model().parameters()]
    with built.store.lent() as lent:
        assert lent is not None
        assert lent.shared
        assert built.store.original is lent.model
        for each in lent.model.parameters():
            each.data = each.data.double()
        for each in lent.model.parameters():
            each.data = each.data.float()
    assert all(torch.equal(one, other) for one, other in zip(right, built.model().parameters(), strict=True))
    assert built.count == 1


def test_what_does_not_run_under_the_device_runs_on_the_cpu() -> None:
    """`cpu:0` is a default device, as `cuda` is, which this constructor does not take."""

    def make() -> str:
        device = torch.get_default_device()
        if device.index is not None:
            raise TypeError("can't convert to numpy\nsecond line")
        return str(device)

    assert make_on("cpu", make) == ("cpu", None)
    made, failure = make_on("cpu:0", make)
    assert (made, failure) == ("cpu", "TypeError: can't convert to numpy")
    assert make_on("cpu:0", lambda: str(torch.get_default_device())) == ("cpu:0", None)


def test_the_report_says_that_the_model_was_built_on_the_cpu(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        if torch.get_default_device().index is not None:
            raise TypeError("the constructor converts a tensor to numpy")
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x)


def get_inputs():
    return (torch.ones(1, 2),)
""",
        "utf-8",
    )
    seen = observe_target("model.py::Net", root=tmp_path, device="cpu:0")
    build = next(stage for stage in seen.stages if stage.stage == "build")
    assert build.state == "pass"
    assert build.detail.endswith(
        "built on the CPU and moved: on the device the constructor raises TypeError: the constructor converts a tensor "
        "to numpy"
    )


def test_a_model_that_does_not_fit_is_refused_before_it_is_built(tmp_path: Path) -> None:
    config = ("hidden_size=16384", "intermediate_size=65536", "num_hidden_layers=200", "num_attention_heads=128")
    seen = observe_target(
        "transformers.models.llama.modeling_llama::LlamaModel",
        root=tmp_path,
        model="hf:llama",
        config=config,
        synthesise=True,
        dtype="bfloat16",
    )
    build = next(stage for stage in seen.stages if stage.stage == "build")
    assert build.state == "fail"
    assert "on cpu, which has" in build.detail
    assert "--tiny builds a small one of the same code, --config num_hidden_layers=" in build.detail
    assert build.detail.endswith("--device meta needs no memory")
