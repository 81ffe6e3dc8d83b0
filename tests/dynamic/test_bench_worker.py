"""Processes that measure, in real workers: what they count, what they leave out, and what a failure leaves of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from observing import needs_isolation
from tcready.dynamic import RunRequest, StayingWorker, bench, observe, schedule
from tcready.dynamic.worker.core.request import DROPPED_PREFIXES
from tcready.portable.options import RunOptions
from tcready.schema.bench import Arm, ArmMeasured, BenchAnswer, BenchRequest, Items

MODEL = """\
import torch
from torch import nn


class Part(nn.Module):
    def forward(self, x):
        return torch.relu(x + 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(16, 16)
        self.part = Part()

    def forward(self, x):
        return self.part(self.lin(x)) * 2 - 1


class Counting(Net):
    \"\"\"Compiles again for each call: a number that changes is part of what is compiled.\"\"\"

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x) * len("x" * self.calls)


class Cached(Net):
    \"\"\"Grows the list that it is given, as a cache of keys and values does, until it is full.\"\"\"

    def forward(self, x, cache, most):
        if len(cache) == most:
            raise RuntimeError("the cache is full")
        cache.append(x)
        return super().forward(torch.stack(list(cache)).sum(0))


def two():
    return {
        "cases": {"small": torch.randn(2, 16), "large": torch.randn(8, 16)},
        "weights": {"small": 3, "large": 1},
    }


def one():
    return torch.randn(4, 16)


class Embedding(Net):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(8, 16)

    def forward(self, ids):
        return super().forward(self.table(ids))


def ids():
    return torch.zeros(4, 8, dtype=torch.long)


def with_items():
    cases = {"counted": torch.randn(2, 16), "derived": torch.randn(8, 16)}
    return {"cases": cases, "items": {"counted": {"unit": "rows", "count": 2}}}


def with_cache():
    return {"cases": {"again": (torch.randn(4, 16), [], 40), "once": (torch.randn(4, 16), [], 1)}}
"""
EAGER = Arm("eager", "")
INDUCTOR = Arm("default", "model = torch.compile(model)")
CAPTURED = Arm("captured", 'model = torch.compile(model, backend="eager")')
"""Dynamo alone: what is counted is the same, and nothing is waited for."""

pytestmark = pytest.mark.torch
Measure = Callable[..., BenchAnswer]


@pytest.fixture
def measure(tmp_path: Path) -> Measure:
    """Runs a process; the target is a class of MODEL, the inputs a function of it."""
    (tmp_path / "net.py").write_text(MODEL, encoding="utf-8")

    def run(name: str, inputs: str, request: BenchRequest, **options: Any) -> BenchAnswer:
        asked = RunOptions(inputs=f"net.py::{inputs}", **options)
        return bench(RunRequest(f"net.py::{name}", asked, str(tmp_path)), request)

    return run


def by_arm(answer: BenchAnswer) -> dict[str, list[ArmMeasured]]:
    found: dict[str, list[ArmMeasured]] = {}
    for each in answer.measured:
        found.setdefault(each.arm, []).append(each)
    return found


@needs_isolation
def test_arms_take_turns_and_one_that_fails_takes_no_other_with_it(measure: Measure) -> None:
    arms = (
        EAGER,
        Arm(
            "disabled", "type(model.part).forward = torch.compiler.disable(type(model.part).forward)\n" + CAPTURED.code
        ),
        CAPTURED,
        Arm("raises", 'model = torch.compile(model, backend="no such backend")'),
        Arm("nothing", 'unused = torch.compile(model, backend="eager")'),
    )
    request = BenchRequest("steady", arms, blocks=3, latencies=12, seconds=4.0)
    answer = measure("Net", "two", request)
    found = by_arm(answer)
    assert answer.failure is None
    assert answer.weights == (("small", 3.0), ("large", 1.0))
    assert {"torch", "cpu", "threads", "isolate_recompiles"} <= {name for name, _ in answer.stack}
    for each in (*found["eager"], *found["disabled"], *found["captured"]):
        assert not each.error
        assert len(each.blocks) == 3
        assert len(each.latencies) == 12
        assert each.block_calls >= 1
        assert each.warm_calls >= 3
        assert 0 < min(each.blocks) < 0.5
    assert [each.case for each in found["eager"]] == ["small", "large"]
    assert {each.graphs for each in found["eager"]} == {None}
    # What its lines changed of a class holds for that arm alone.
    assert found["disabled"][0].breaks == 1
    assert found["captured"][0].breaks == 0
    # The second size is compiled for as one that varies, whatever another arm has met before.
    assert found["captured"][0].graphs == 2
    assert found["captured"][0].recompiles == 0
    assert "no such backend" in found["raises"][0].error
    assert {(each.error, each.graphs) for each in found["nothing"]} == {("compiled nothing", 0)}


@pytest.mark.release
def test_more_arms_than_torch_compiles_one_function_for_all_stay_compiled(measure: Measure) -> None:
    """The limit of recompilations is 8, and all arms compile the same functions."""
    arms = (EAGER, *(Arm(f"arm {number}", CAPTURED.code) for number in range(10)))
    answer = measure("Net", "two", BenchRequest("steady", arms, blocks=3, seconds=8.0))
    assert answer.failure is None
    rows = [row for arm, rows in by_arm(answer).items() if arm != "eager" for row in rows]
    assert len(rows) == 20
    assert {(row.error, row.graphs, row.breaks) for row in rows} == {("", 2, 0)}
    # Ten calls at least, by default, and fifty at most; how many it were is said.
    assert all(10 <= row.warm_calls <= 50 for row in rows)


@pytest.mark.parametrize(
    ("times", "settled"),
    [([1.0] * 10, True), ([1.0] * 9, False), ([2.0] * 5 + [1.0] * 5, False), ([9.0, *[1.0] * 10], True)],
)
def test_calls_have_settled_if_five_take_as_long_as_the_five_before(times: list[float], settled: bool) -> None:
    from tcready.dynamic.worker.bench.measurement_loop import _is_settled

    assert _is_settled(times) is settled


def test_code_that_compiles_again_and_again_is_counted(measure: Measure) -> None:
    request = BenchRequest("steady", (EAGER, CAPTURED), blocks=1, seconds=1.0)
    found = by_arm(measure("Counting", "one", request))["captured"][0]
    assert "recompile limit" in found.error  # behind it nothing is compiled any more
    assert found.recompiles is not None
    assert found.recompiles > 0


def test_calls_that_change_their_inputs_get_others(measure: Measure) -> None:
    request = BenchRequest("steady", (EAGER,), blocks=3, latencies=20, seconds=2.0)
    for found in measure("Cached", "with_cache", request).measured:
        assert not found.error
        assert len(found.blocks) == 3
        assert found.block_calls <= 10


def test_a_training_step_is_measured_and_its_loss_is_made(measure: Measure) -> None:
    request = BenchRequest("steady", (EAGER, CAPTURED), blocks=2, seconds=2.0, accumulate=2)
    found = measure("Net", "one", request, mode="train").measured
    assert [each.error for each in found] == ["", ""]
    assert [len(each.blocks) for each in found] == [2, 2]
    assert found[1].graphs == 1


def test_what_a_call_processes_is_named_by_the_inputs_or_derived_from_them(measure: Measure) -> None:
    request = BenchRequest("steady", (EAGER,), blocks=1, warm_least=1, warm_most=1, seconds=0.5, accumulate=2)
    assert measure("Net", "with_items", request).items == (
        Items("rows", 2, "rows: 2, given with the inputs", "counted"),
        Items("samples", 8, "samples: 8, the first dimension of x", "derived"),
    )
    assert measure("Embedding", "ids", request, mode="train").items == (
        Items("tokens", 64, "tokens: 4 x 8 ids, 2 forwards a step"),
        Items("samples", 8, "samples: 4, the first dimension of ids, 2 forwards a step"),
        Items("steps", 1, "steps: one a call"),
    )


@pytest.mark.slow
@pytest.mark.release
def test_a_second_cold_start_finds_what_the_first_one_left(measure: Measure, tmp_path: Path) -> None:
    request = BenchRequest("cold", (INDUCTOR,), cache=str(tmp_path / "cache"), artifacts=str(tmp_path / "carried"))
    first, second = (measure("Net", "one", request).measured[0] for _ in range(2))
    assert not first.error
    assert first.graphs == 1
    assert first.cold is not None
    assert second.cold is not None
    assert (first.cold.cache_hits, first.cold.cache_misses) == (0, 1)
    assert (second.cold.cache_hits, second.cold.cache_misses) == (1, 0)
    phases = dict(first.cold.phases)
    assert set(phases) == {"dynamo", "aot_autograd", "inductor", "cpp"}
    assert min(phases["dynamo"], phases["cpp"]) > 0
    # None contains another: together they are no more than what the calls took.
    assert sum(phases.values()) <= first.cold.seconds * 1.1
    assert first.memory is not None
    assert first.memory.device_peak is None
    assert first.memory.resident_peak is not None
    assert first.memory.resident_steady is not None
    assert (tmp_path / "carried").stat().st_size > 1000


def test_a_profile_counts_operators_and_compiled_kernels(measure: Measure) -> None:
    request = BenchRequest("profile", (EAGER, INDUCTOR), warm_least=3, warm_most=3)
    eager, compiled = (each.profile for each in measure("Net", "one", request).measured)
    assert eager is not None
    assert compiled is not None
    assert eager.kernels == 5  # linear, add, relu, mul, sub
    assert compiled.kernels == 2  # the multiplication of matrices, and all else
    assert eager.kernel_seconds is None
    assert eager.host_seconds is not None
    assert eager.cpu_seconds is not None
    assert "no NVIDIA GPU" in eager.energy_reason


@pytest.mark.release
def test_a_patched_arm_runs_the_patched_text(measure: Measure, tmp_path: Path) -> None:
    text = MODEL.replace("return self.part(self.lin(x)) * 2 - 1", 'raise RuntimeError("patched")')
    patched = Arm("patched", "", ((str(tmp_path / "net.py"), text),))
    (found,) = measure("Net", "one", BenchRequest("cold", (patched,))).measured
    assert found.error.startswith("RuntimeError: patched")


@pytest.mark.release
def test_a_process_that_ends_leaves_what_it_knew(measure: Measure) -> None:
    ends = Arm("ends", "import os\nos._exit(3)")
    answer = measure("Net", "two", BenchRequest("steady", (EAGER, ends)))
    assert (answer.failure or "").startswith("the process exited with code 3")
    assert answer.weights
    missing = measure("Nest", "two", BenchRequest("steady", (EAGER,)))
    assert missing.failure is not None
    assert "has no 'Nest'" in missing.failure


@pytest.fixture
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the variables that torch sets when it compiles in this process."""
    for name in [name for name in os.environ if name.startswith(DROPPED_PREFIXES)]:
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("plain_environment")
def test_the_process_of_a_check_measures_with_the_model_that_it_built(tmp_path: Path) -> None:
    counted = f"{MODEL}\n\nwith open('imports.txt', 'a') as file:\n    file.write('imported\\n')\n"
    (tmp_path / "net.py").write_text(counted, encoding="utf-8")
    request = RunRequest("net.py::Net", RunOptions(inputs="net.py::two"), str(tmp_path))
    news: list[str] = []
    with StayingWorker() as stays:
        seen = observe(request, stays=stays)
        assert {stage.stage for stage in seen.stages if stage.state == "pass"} >= {"capture", "parity"}
        assert stays.is_of(request)
        steady = BenchRequest("steady", (EAGER, CAPTURED), blocks=4, seconds=2.0)
        answer = stays.bench(steady, 60.0, lambda now: news.append(now.news) if now.news else None)
        parity = stays.bench(BenchRequest("parity", (EAGER, CAPTURED), seconds=2.0), 60.0, lambda _: None)
    assert (tmp_path / "imports.txt").read_text() == "imported\n"
    found = by_arm(answer)
    assert [len(each.blocks) for each in found["captured"]] == [4, 4]
    assert found["captured"][0].graphs == 2
    assert [each.parity.same for each in by_arm(parity)["captured"] if each.parity] == [True, True]
    assert len(news) == 1
    assert news[0].startswith("eager ")
    assert "in this process" in news[0]
    assert not stays.is_of(request)


@pytest.mark.usefixtures("plain_environment")
def test_the_process_of_a_check_that_ends_in_a_bench_says_so(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MODEL, encoding="utf-8")
    request = RunRequest("net.py::Net", RunOptions(inputs="net.py::one"), str(tmp_path))
    ends = Arm("ends", "import os\nos._exit(3)")
    with StayingWorker() as stays:
        observe(request, stays=stays)
        answer = stays.bench(BenchRequest("steady", (EAGER, ends)), 60.0, lambda _: None)
        assert answer.ended_in == "ends"
        assert (answer.failure or "").startswith("the process exited with code 3")
        assert not stays.is_of(request)


@pytest.mark.usefixtures("plain_environment")
@pytest.mark.release
def test_a_process_imports_torch_while_another_one_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.py").write_text(MODEL, encoding="utf-8")
    request = RunRequest("net.py::Net", RunOptions(inputs="net.py::one"), str(tmp_path))
    asked: list[str] = []
    monkeypatch.setattr(schedule, "bench", lambda _request, wanted, _tell: asked.append(wanted.kind))
    steady = BenchRequest("steady", (EAGER, CAPTURED), blocks=3, seconds=2.0)
    with StayingWorker() as first, schedule.Spares(is_allowed=True) as spares:
        observe(request, stays=first)
        run = schedule.process_of(request, first, spares)
        answers = [run(steady, 60.0, lambda _: None)]
        run(BenchRequest("parity", (EAGER, CAPTURED), seconds=2.0), 60.0, lambda _: None)
        answers += [run(replace(steady, seed=number), 60.0, lambda _: None) for number in (1, 2)]
        cold = run(BenchRequest("cold", (CAPTURED,)), 60.0, lambda _: None)
    assert asked == []
    for answer in (*answers, cold):
        assert answer.failure is None
        assert not any(found.error for found in answer.measured)
    assert all(len(found.blocks) == 3 for answer in answers for found in answer.measured)
    assert cold.measured[0].cold is not None
    with schedule.Spares(is_allowed=False) as spares:
        spares.prepare(request)
        assert spares.take() is None
    assert not schedule.Spares.are_allowed("cpu")


@pytest.mark.parametrize("variable", ["TORCHINDUCTOR_MAX_AUTOTUNE", "TORCHDYNAMO_DISABLE"])
@pytest.mark.sampled(2)
def test_a_check_hides_variables_that_a_bench_measures_with(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "0")
    (tmp_path / "net.py").write_text(MODEL, encoding="utf-8")
    request = RunRequest("net.py::Net", RunOptions(inputs="net.py::one"), str(tmp_path))
    with StayingWorker() as stays:
        observe(request, stays=stays)
        assert not stays.is_of(request)
