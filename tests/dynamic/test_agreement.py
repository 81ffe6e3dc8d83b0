"""Whether two outcomes agree up to rounding, on small functions in place of compiled code."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tcready.dynamic.worker.core.calling import autocast  # noqa: E402
from tcready.dynamic.worker.core.case import Case  # noqa: E402
from tcready.dynamic.worker.core.context import Context  # noqa: E402
from tcready.dynamic.worker.core.frames import FrameNames  # noqa: E402
from tcready.dynamic.worker.core.journal import Journal  # noqa: E402
from tcready.dynamic.worker.core.model_store import Lent, copied  # noqa: E402
from tcready.dynamic.worker.core.request import Work  # noqa: E402
from tcready.dynamic.worker.measure import agreement, precision  # noqa: E402
from tcready.dynamic.worker.measure.agreement import Agreement, ComparedCalls, Prepare, judge  # noqa: E402
from tcready.dynamic.worker.measure.call_outcome import CallOutcome, sharing  # noqa: E402
from tcready.dynamic.worker.measure.outcome_structure import differs  # noqa: E402
from tcready.dynamic.worker.measure.output_comparison import outcome_of  # noqa: E402
from tcready.dynamic.worker.torch_internals.compile_calls import memory_of  # noqa: E402
from tcready.portable.options import RunOptions  # noqa: E402

Function = Callable[..., Any]
LOW = ("float32", "bfloat16", "float16")


class Model(torch.nn.Module):
    def __init__(self, function: Function, compiled: Function, dtype: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(64, 64)
        self.functions = (function, compiled)
        self.to(getattr(torch, dtype))

    def forward(self, x: torch.Tensor, is_compiled: bool) -> Any:
        return self.functions[is_compiled](self.layer, x)


def compare(
    eager: Function,
    compiled: Function,
    dtype: str = "float32",
    call_bytes: int | None = None,
    original: Model | None = None,
    **options: Any,
) -> Agreement:
    """What the judge says of two functions of a layer and 256 vectors; `call_bytes`: what a call held on the device.
    `original`: what the models are copies of, which share its parameters."""
    model = Model(eager, compiled, dtype)
    work = Work("net.py::Net", RunOptions(**options), "/")
    context = Context(work, Journal(work, None, None), FrameNames("/", ()), build=lambda: Model(eager, compiled, dtype))
    context.call_bytes = call_bytes
    build = None
    if original is not None:
        context.lent = lambda: contextlib.nullcontext(Lent(original, True))
        build = context.build = lambda: copied(original, share=True)
    torch.manual_seed(1)
    case = Case(None, (torch.randn(256, 64).to(getattr(torch, dtype)),), {})

    def run(made: Any, prepare: Prepare, is_compiled: bool) -> CallOutcome:
        with torch.no_grad(), autocast(context):
            return outcome_of(made(*prepare(case).args, is_compiled))

    def unchanged(given: Case) -> Case:
        return given

    outcomes = run(model, unchanged, False), run(model, unchanged, True)
    return judge(context, *outcomes, ComparedCalls(run, build, (case,)))


def refuse_wide_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test if the calls are made again in a wider dtype."""
    monkeypatch.setattr(agreement, "_in_wide_dtype", lambda *_: pytest.fail("the calls were made again"))


def plain(layer: Any, x: torch.Tensor) -> torch.Tensor:
    return layer(x)


def split(layer: Any, x: torch.Tensor) -> torch.Tensor:
    """The same product in two parts, which are added up afterwards."""
    one, other = x[:, :32] @ layer.weight[:, :32].T, x[:, 32:] @ layer.weight[:, 32:].T
    return one + other + layer.bias.to(one.dtype)


@pytest.mark.parametrize("dtype", LOW)
def test_another_order_of_the_same_sum_is_rounding(dtype: str) -> None:
    found = compare(plain, split, dtype)
    assert (found.verdict, found.text) == ("rounding", "")
    assert found.compared is not None
    assert (found.compared.name, found.compared.dtype, found.compared.reference) == ("output 0", dtype, "float64")
    assert 0 < found.compared.difference < 0.02
    assert found.compared.remaining is not None
    assert found.compared.remaining < 1e-12
    assert found.compared.eager_error is not None
    assert found.compared.compiled_error is not None
    assert found.compared.compiled_error < 2.5 * found.compared.eager_error


def one_row(layer: Any, x: torch.Tensor) -> torch.Tensor:
    found = layer(x).clone()
    found[7] *= 1.03
    return found


@pytest.mark.parametrize("dtype", LOW)
@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(lambda layer, x: torch.nn.functional.linear(x, layer.weight), id="bias left out"),
        pytest.param(lambda layer, x: layer(x) * 1.03, id="scale 3 % off"),
        pytest.param(one_row, id="one row wrong"),
        pytest.param(lambda layer, x: layer(x) + 1e-3, id="small offset"),
    ],
)
def test_a_mistake_remains_in_float64(mistake: Function, dtype: str) -> None:
    found = compare(plain, mistake, dtype)
    assert found.verdict == "mistake"
    assert found.text.endswith("in float64 too")


@pytest.mark.parametrize(("dtype", "verdict"), [("float32", "mistake"), ("bfloat16", "equal")])
def test_rounding_on_the_way_is_a_mistake_of_a_more_precise_model(dtype: str, verdict: str) -> None:
    found = compare(plain, lambda layer, x: layer(x).bfloat16().to(x.dtype), dtype)
    assert found.verdict == verdict


LARGE = 2 << 30
"""Bytes of a call that is made again in float32 if it computes in half precision."""


def normed(layer: Any, x: torch.Tensor) -> torch.Tensor:
    y = layer(x).float()
    return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True))).to(x.dtype)


def normed_in_low_precision(layer: Any, x: torch.Tensor) -> torch.Tensor:
    y = layer(x)
    return y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True))


@pytest.mark.parametrize("call_bytes", [None, LARGE])
def test_a_lost_cast_is_a_mistake(call_bytes: int | None) -> None:
    assert compare(normed, normed_in_low_precision, "float32", call_bytes).verdict == "equal"
    found = compare(normed, normed_in_low_precision, "bfloat16", call_bytes)
    assert found.verdict == "mistake"
    assert "omits casts" in found.text
    more_precise = compare(normed_in_low_precision, normed, "bfloat16", call_bytes)
    assert more_precise.verdict == "rounding"


@pytest.mark.parametrize(
    ("dtype", "autocast", "reference"),
    [("bfloat16", None, "float32"), ("float32", "bfloat16", "float32"), ("float32", None, "float64")],
)
def test_a_large_call_takes_at_most_twice_its_memory(dtype: str, autocast: str | None, reference: str) -> None:
    found = compare(plain, split, dtype, LARGE, autocast=autocast)
    assert found.verdict == "rounding"
    assert found.compared is not None
    assert found.compared.reference == reference


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    ("eager", "compiled", "words"),
    [
        (lambda layer, x: 1.0, lambda layer, x: 1000.0, "output 0"),
        (lambda layer, x: 1, lambda layer, x: 2, "1 became 2"),
        (lambda layer, x: "a", lambda layer, x: "b", "'a' became 'b'"),
        (lambda layer, x: x, lambda layer, x: None, "Tensor in eager code, None in compiled code"),
        (lambda layer, x: x, lambda layer, x: x.double(), "torch.float32 (256, 64) became torch.float64"),
        (lambda layer, x: x, lambda layer, x: (x, x), "different structure"),
        (lambda layer, x: torch.eye(2).to_sparse(), lambda layer, x: torch.eye(2), "became torch.strided"),
        (lambda layer, x: torch.eye(2).to_sparse(), lambda layer, x: (torch.eye(2) * 2).to_sparse(), "output 0"),
        (plain, lambda layer, x: layer(x) / (torch.arange(64) > 0), "256 of 16384 finite values became NaN"),
        (
            lambda layer, x: torch.nested.nested_tensor([x[:2], x]),
            lambda layer, x: torch.nested.nested_tensor([x[:2], x * 1.03]),
            "output 1 differs by 3 %",
        ),
        (
            lambda layer, x: torch.nested.nested_tensor([x[:2], x]),
            lambda layer, x: torch.nested.nested_tensor([x[:3], x]),
            "torch.float32 (2, 64) became torch.float32 (3, 64)",
        ),
    ],
)
def test_every_kind_of_output_is_compared(eager: Function, compiled: Function, words: str) -> None:
    found = compare(eager, compiled)
    assert found.verdict == "mistake"
    assert words in found.text


@pytest.mark.parametrize(
    "same",
    [
        lambda layer, x: float("nan"),
        lambda layer, x: layer(x) / 0,
        lambda layer, x: torch.eye(2).to_sparse(),
        lambda layer, x: torch.zeros(0),
        lambda layer, x: (layer(x) * 1j).conj(),
        lambda layer, x: {"a": [x, None, "text", 3]},
    ],
)
def test_what_is_equal_costs_no_call(same: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_wide_runs(monkeypatch)
    assert compare(same, same).verdict == "equal"


def test_an_index_may_flip_where_two_values_are_tied_and_nowhere_else() -> None:
    def top(layer: Any, x: torch.Tensor) -> torch.Tensor:
        return layer(x).argmax(-1)

    def top_of_split(layer: Any, x: torch.Tensor) -> torch.Tensor:
        return split(layer, x).argmax(-1)

    def another(layer: Any, x: torch.Tensor) -> torch.Tensor:
        found = layer(x).argmax(-1)
        found[3] = (found[3] + 1) % 64
        return found

    assert compare(top, top_of_split, "bfloat16").ok
    assert compare(top, another, "float32").verdict == "mistake"
    assert compare(top, another, "bfloat16").verdict == "mistake"


def only_in_its_own_dtype(function: Function, dtype: torch.dtype) -> Function:
    def checked(layer: Any, x: torch.Tensor) -> torch.Tensor:
        if x.dtype != dtype:
            raise RuntimeError("this kernel takes one dtype")
        return function(layer, x)

    return checked


def test_without_a_wider_dtype_the_sensitivity_of_eager_code_decides() -> None:
    own = torch.bfloat16
    eager = only_in_its_own_dtype(plain, own)
    found = compare(eager, only_in_its_own_dtype(split, own), "bfloat16")
    assert found.verdict == "rounding"
    assert found.compared is not None
    assert found.compared.reference == ""
    assert found.compared.why == "in a wider dtype eager code raises RuntimeError"
    wrong = only_in_its_own_dtype(lambda layer, x: layer(x) * 1.1, own)
    assert compare(eager, wrong, "bfloat16").verdict == "mistake"


def test_what_eager_code_does_not_repeat_cannot_be_compared() -> None:
    counter = iter(range(100))

    def counting(layer: Any, x: torch.Tensor) -> torch.Tensor:
        return layer(x) + next(counter)

    assert compare(counting, counting).verdict == "not_comparable"


@pytest.mark.parametrize("seed", range(12, 28))
def test_one_repeat_that_comes_close_by_chance_does_not_make_a_mistake(seed: int) -> None:
    generator = random.Random(seed)

    def unseeded(layer: Any, x: torch.Tensor) -> torch.Tensor:
        return layer(x) + 1000 * generator.random()

    assert compare(unseeded, unseeded).verdict == "not_comparable"


def with_noise(scale: float) -> Function:
    """Return a layer whose result differs in each call, like that of a kernel that sums in no fixed order."""
    generator = torch.Generator().manual_seed(0)

    def noisy(layer: Any, x: torch.Tensor) -> torch.Tensor:
        found = layer(x)
        return found * (1 + scale * torch.randn(found.shape, generator=generator, dtype=found.dtype))

    return noisy


def test_noise_of_repeated_calls_needs_no_wider_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_wide_runs(monkeypatch)
    noisy = with_noise(5e-7)
    assert compare(noisy, noisy).verdict == "equal"


@pytest.mark.parametrize("seed", range(10))
def test_sums_in_no_fixed_order_are_noise(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the gradient of an embedding is summed on a GPU: a few elements differ by more than three repeats of eager code
    do."""

    refuse_wide_runs(monkeypatch)
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(1024, 768, generator=generator)

    def summed(layer: Any, x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(768)
        for at in torch.randperm(len(values), generator=generator):
            total += values[at]
        return total

    assert compare(summed, summed).verdict == "equal"


@pytest.mark.parametrize(
    ("eager", "compiled"),
    [
        pytest.param(plain, split, id="eager code repeats"),
        pytest.param(with_noise(5e-7), with_noise(3e-6), id="too large"),
        pytest.param(with_noise(2e-7), with_noise(1e-6), id="larger than that of eager code"),
        pytest.param(with_noise(5e-7), lambda layer, x: one_row(layer, x), id="one row wrong"),
    ],
)
def test_what_repeated_calls_do_not_show_is_compared_in_a_wider_dtype(
    eager: Function, compiled: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []
    widened = agreement._in_wide_dtype

    def noting(*arguments: Any) -> Any:
        compared.append(True)
        return widened(*arguments)

    monkeypatch.setattr(agreement, "_in_wide_dtype", noting)
    compare(eager, compiled)
    assert compared


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        pytest.param(lambda found: found - 1.0, "differs by", id="a bias left out"),
        pytest.param(lambda found: found * float("nan"), "became NaN", id="all NaN"),
    ],
)
@pytest.mark.parametrize("scale", [1e-6, 0.1])
def test_noise_of_eager_code_hides_no_larger_mistake(
    scale: float, mistake: Callable[[torch.Tensor], torch.Tensor], words: str
) -> None:
    noisy = with_noise(scale)
    found = compare(noisy, lambda layer, x: mistake(noisy(layer, x)))
    assert found.verdict == "mistake"
    assert words in found.text


def test_noise_of_large_elements_hides_no_mistake_in_small_ones() -> None:
    noisy = with_noise(5e-7)

    def totals_and_shares(layer: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
        return torch.cat([1e6 * noisy(layer, x), factor * layer(x)])

    found = compare(
        lambda layer, x: totals_and_shares(layer, x, 0.5), lambda layer, x: totals_and_shares(layer, x, 0.25)
    )
    assert found.verdict != "equal"


def test_small_gradients_are_not_lost_beside_large_outputs() -> None:
    def of(gradient: float) -> CallOutcome:
        return CallOutcome((("output 0", torch.tensor([1e6])), ("gradient of a", torch.tensor([gradient]))), ())

    assert differs(of(1e-3), of(2e-3))
    work = Work("net.py::Net", RunOptions(), "/")
    context = Context(work, Journal(work, None, None), FrameNames("/", ()), build=torch.nn.Identity)
    calls = ComparedCalls(lambda model, prepare, is_compiled: of(2e-3 if is_compiled else 1e-3))
    found = judge(context, of(1e-3), of(2e-3), calls)
    assert found.text.startswith("gradient of a")


def test_float32_is_the_wider_dtype_where_float64_needs_too_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "SMALL", 0)
    found = compare(plain, split, "bfloat16")
    assert found.verdict == "rounding"
    assert found.compared is not None
    assert found.compared.reference == "float32"
    assert compare(plain, lambda layer, x: layer(x) * 1.03, "bfloat16").verdict == "mistake"


def attention(layer: Any, x: torch.Tensor, is_precise: bool) -> Any:
    scores = layer(x) @ x.t() / 8
    return (scores.float() if is_precise else scores).softmax(-1).float() @ x.float()


def variance(layer: Any, x: torch.Tensor, by_squares: bool) -> Any:
    y = layer(x).float() + 8.0
    mean = y.mean(-1, keepdim=True)
    squares = (y * y).mean(-1, keepdim=True) - mean * mean
    spread = squares if by_squares else (y - mean).square().mean(-1, keepdim=True)
    return ((y - mean) * torch.rsqrt(spread + 1e-5)).to(x.dtype)


def rotated(layer: Any, x: torch.Tensor, is_precise: bool) -> Any:
    cos = torch.linspace(0, 3, 64).cos()
    return (layer(x) * (cos if is_precise else cos.to(x.dtype))).float()


def test_a_lost_cast_is_found_and_float32_within_a_model_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """In float32 a cast to float32 is no operation, and what computes in float32 anyway gets no more precise."""

    def of(function: Callable[..., Any], sides: tuple[bool, bool]) -> Agreement:
        eager, compiled = (lambda layer, x, side=side: function(layer, x, side) for side in sides)
        return compare(eager, compiled, "bfloat16")

    assert "omits casts" in of(rotated, (True, False)).text
    monkeypatch.setattr(precision, "SMALL", 0)
    assert "omits casts" in of(attention, (True, False)).text
    assert of(variance, (False, True)).verdict == "rounding"


def test_the_original_of_a_large_copy_is_set_aside_while_that_is_widened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "SMALL", 0)
    seen: list[int] = []
    original = Model(plain, split, "bfloat16")
    before = original.layer.weight.detach().clone()

    def looking(layer: Any, x: torch.Tensor) -> torch.Tensor:
        seen.append(memory_of(original.layer.weight))
        return plain(layer, x)

    original.functions = looking, split
    assert compare(looking, split, "bfloat16", original=original).verdict == "rounding"
    size = before.numel() * before.element_size()
    assert seen[:2] == [size, 0]  # the call that is compared, and the same in a wide dtype
    assert {*seen[2:]} <= {size}
    assert torch.equal(original.layer.weight, before)
    wrong = Model(plain, lambda layer, x: layer(x) * 1.03, "bfloat16")
    assert compare(*wrong.functions, "bfloat16", original=wrong).verdict == "mistake"


def test_equal_tensors_of_two_calls_are_kept_once() -> None:
    cache, other = torch.ones(4, 4), torch.tensor([1.0, float("nan")])
    first = CallOutcome((("output 0", torch.ones(2)), ("argument cache", cache), ("argument n", 1)), ())
    second = CallOutcome((("output 0", torch.zeros(2)), ("argument cache", torch.ones(4, 4)), ("argument n", 2)), ())
    found = dict(sharing(second, first).leaves)
    assert found["argument cache"] is cache
    assert torch.equal(found["output 0"], torch.zeros(2))
    assert found["argument n"] == 2
    known = CallOutcome((("output 0", other), ("output 1", torch.ones(2).double())), ())
    kept = CallOutcome((("output 0", other.clone()), ("output 1", torch.ones(2))), ())
    assert sharing(kept, known).leaves[1][1].dtype == torch.float32
