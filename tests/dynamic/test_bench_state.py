"""What must not differ between arms, or be lost: settings of the process, state of the model, what the code compiles."""

from __future__ import annotations

import functools
from collections import deque
from pathlib import Path
from textwrap import dedent
from typing import Any, cast

import pytest
import torch
import torch._inductor.config
from measuring import CAPTURED, measure
from observing import needs_isolation
from tcready.dynamic.worker.bench import steady
from tcready.dynamic.worker.bench.machine_load import Moment, busy_note, others_between
from tcready.dynamic.worker.bench.measurement_loop import Lane
from tcready.dynamic.worker.bench.state import as_built, copy_buffers, drift, put_back
from tcready.dynamic.worker.bench.timed_inputs import DEPTH, Feed, seen
from tcready.dynamic.worker.bench.variants import RunningVariant
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.frames import FrameNames
from tcready.dynamic.worker.core.journal import Journal
from tcready.dynamic.worker.core.request import Work
from tcready.dynamic.worker.measure.output_comparison import compare, flatten
from tcready.dynamic.worker.torch_internals.global_settings import changed_meanwhile, put_after, put_before
from tcready.portable.options import RunOptions
from tcready.schema.bench import Arm, ArmMeasured, BenchAnswer
from tcready.schema.enums import EAGER
from torch import nn

CODE = """\
import functools

import torch
from torch import nn


class Writes(nn.Module):
    \"\"\"It writes into a cache with each call, and compiles a part of itself.\"\"\"

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(8))
        self.kept = []
        self.part = torch.compile(nn.Linear(8, 8), backend="eager", dynamic=False)

    def forward(self, x):
        self.note()
        self.cache += x[0]
        return self.part(x) + self.cache

    @torch.compiler.disable
    def note(self):
        self.kept.append(1)


class SeesSettings(nn.Module):
    def forward(self, x):
        if torch.get_num_threads() != SeesSettings.threads:
            raise RuntimeError(f"{torch.get_num_threads()} threads")
        return x + 1

    threads = torch.get_num_threads()


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x, what):
        if what == "argument":
            x.add_(2 if torch.compiler.is_compiling() else 1)
            return torch.ones(2)
        if what == "buffer":
            if not torch.compiler.is_compiling():
                self.calls += 1
            return x * 1
        if what == "nan":
            return x * float("nan"), x[:0]
        self.calls += 1
        return self.layer(x) * self.calls


@functools.lru_cache
def shared():
    return Shared()


def wrong_gradient(x):
    out = x * x
    return out + 0.1 * (out - out.detach()) if torch.compiler.is_compiling() else out


def x():
    return torch.ones(2, 8)


def needs_grad():
    return torch.ones(2, 8, requires_grad=True)


def cases():
    return {"cases": {what: (torch.ones(2, 8), what) for what in ("counts", "argument", "buffer", "nan", "again")}}
"""


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("state")
    (root / "m.py").write_text(CODE)
    return root


def ask(kind: Any, name: str, code: Path, *arms: Arm, inputs: str = "x", **more: Any) -> BenchAnswer:
    return measure(kind, f"m.py::{name}", *arms, root=code, inputs=f"m.py::{inputs}", **more)


STEADY = {"blocks": 2, "latencies": 4, "seconds": 1.0, "warm_least": 5, "warm_most": 12}


# Settings


def test_settings_are_put_back_and_known() -> None:
    inductor = torch._inductor.config
    before = inductor.max_autotune, torch.get_num_threads(), torch.get_float32_matmul_precision()
    graphs = inductor.triton.cudagraphs
    with changed_meanwhile() as changed:
        inductor.max_autotune = not before[0]
        inductor.triton.cudagraphs = not graphs
        torch.set_num_threads(before[1] + 1)
        torch.set_float32_matmul_precision("high")
        torch.use_deterministic_algorithms(True)
        torch.set_autocast_enabled("cpu", True)
        torch._dynamo.config.capture_scalar_outputs = True

    def now() -> tuple[Any, ...]:
        return inductor.max_autotune, torch.get_num_threads(), torch.get_float32_matmul_precision()

    assert (*now(), inductor.triton.cudagraphs) == (*before, graphs)
    assert not torch.are_deterministic_algorithms_enabled()
    names = {each.name for each in changed}
    assert {"max_autotune", "triton.cudagraphs", "threads", "matmul precision", "deterministic"} <= names
    assert {"autocast cpu", "capture_scalar_outputs"} <= names
    put_after(changed)
    assert now() == (not before[0], before[1] + 1, "high")
    put_before(changed)
    assert now() == before
    with changed_meanwhile() as unchanged:
        pass
    assert unchanged == []


def _set_and_raise(threads: int) -> None:
    torch.set_num_threads(threads)
    raise RuntimeError


def test_settings_are_put_back_if_the_lines_raise() -> None:
    threads = torch.get_num_threads()
    with pytest.raises(RuntimeError), changed_meanwhile():
        _set_and_raise(threads + 1)
    assert torch.get_num_threads() == threads


@pytest.mark.torch
@pytest.mark.release
def test_what_one_arm_sets_does_not_hold_for_the_others(code: Path) -> None:
    threads = Arm("threads", "torch.set_num_threads(torch.get_num_threads() + 1)\n" + CAPTURED.code)
    answer = ask("steady", "SeesSettings", code, Arm(EAGER, ""), threads, CAPTURED, asked=STEADY)
    eager, other, captured = answer.measured
    assert not eager.error
    assert not captured.error
    assert "threads" in other.error  # its own calls see what it set


# State


class Stateful(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("steps", torch.zeros(()))
        self.kept: list[int] = []
        self.last = torch.zeros(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        self.kept.append(1)
        self.last = self.norm(x)
        return self.last


def test_what_calls_change_is_named_and_buffers_are_put_back() -> None:
    model = Stateful()
    x = torch.ones(2, 4)
    model(x)
    found = drift(model, functools.partial(model, x))
    assert (found.buffers, found.attributes) == (("steps",), ("kept",))
    assert found.note.startswith("each call changes kept: all arms are called equally often")
    start = copy_buffers(model, found.buffers)
    place = model.steps.data_ptr()
    model(x)
    put_back(model, start)
    assert (int(model.steps), model.steps.data_ptr()) == (2, place)
    model.steps = torch.zeros(3)
    put_back(model, start)
    assert int(model.steps) == 2
    assert not drift(nn.Linear(4, 4), lambda: None)


@pytest.mark.torch
@needs_isolation
def test_arms_begin_with_the_same_state_and_are_called_equally_often(
    code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Arm(
        "slow",
        dedent("""\
            import time
            inner = model
            def model(x):
                time.sleep(0.02)
                return inner(x)
            model = torch.compile(model, backend="eager")"""),
    )
    monkeypatch.setenv("TORCHINDUCTOR_FREEZING", "1")
    monkeypatch.setenv("TORCH_LOGS", "dynamo")
    answer = ask("steady", "Writes", code, Arm(EAGER, ""), CAPTURED, slow, asked=STEADY)
    assert answer.failure is None
    eager = answer.measured[0]
    kinds = [note.partition(":")[0] for note in eager.notes]
    assert kinds == ["the code compiles parts of itself", "each call changes kept"]
    assert not any(each.error for each in answer.measured)
    assert len({(each.block_calls, each.warm_calls) for each in answer.measured}) == 1
    # Settings in the environment are part of what is measured.
    stack = dict(answer.stack)
    assert {"load_average", "load_cpu", "cpus"} <= stack.keys()
    assert stack["env.TORCHINDUCTOR_FREEZING"] == "1"
    assert "env.TORCH_LOGS" not in stack
    assert any(note.endswith(": TORCH_LOGS") for note in answer.notes)


def test_a_busy_machine_is_noted() -> None:
    assert busy_note(0.2, 2) == []
    assert "others used 1.3 of 2 CPUs" in busy_note(1.3, 2)[0]


@pytest.mark.parametrize(
    ("own", "busy", "seconds", "words"),
    [
        (1.0, 1.1, 1.0, ""),
        (1.0, 2.5, 1.0, "others used 1.5 of 2 CPUs"),
        (0.0, 2.0, 4.0, "others used 0.5 of 2 CPUs"),
        (8.0, 8.0, 4.0, ""),
        (0.0, 0.2, 0.1, ""),
    ],
)
def test_what_others_used_between_two_moments(own: float, busy: float, seconds: float, words: str) -> None:
    first, last = Moment(10.0, 3.0, 100.0, 2), Moment(10.0 + seconds, 3.0 + own, 100.0 + busy, 2)
    assert others_between(first, last) == words
    assert others_between(None, last) == others_between(first, None) == ""


# Parity


@pytest.mark.torch
def test_parity_looks_at_what_a_call_leaves_and_begins_each_case_anew(code: Path) -> None:
    answer = ask("parity", "shared", code, CAPTURED, inputs="cases", asked={"seconds": 0.0})
    assert answer.failure is None
    found = {row.case: row.parity for row in answer.measured if row.parity}
    shown = {
        case: (parity.same, parity.detail.partition(" differs")[0].partition(":")[0]) for case, parity in found.items()
    }
    assert shown == {
        "counts": (True, ""),
        "argument": (False, "argument 0"),
        "buffer": (False, "buffer calls"),
        "nan": (None, "nothing was compared"),
        "again": (True, ""),
    }


@pytest.mark.torch
@pytest.mark.release
def test_gradients_of_what_a_function_is_given_are_compared(code: Path) -> None:
    more = {"inputs": "needs_grad", "mode": "train", "asked": {"seconds": 0.0}}
    (row,) = ask("parity", "wrong_gradient", code, CAPTURED, **more).measured
    assert row.parity is not None, row.error
    assert row.parity.same is False
    assert row.parity.detail.startswith("gradient of argument 0")


def test_memory_of_an_arm_is_its_model_what_its_calls_left_and_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work("net.py::Net", RunOptions(), "/")
    context = Context(work, Journal(work, None, None), FrameNames("/", ()))
    model = nn.Linear(4, 4)
    running = RunningVariant(Arm("default", "x"), context, model, model, None, retained_bytes=1000)
    calls: list[torch.Tensor] = []
    lane = Lane(ArmMeasured("default"), running, lambda inputs: calls.append(next(inputs)[0][0]))
    lane.feed = Feed(Case(None, (torch.ones(1, 4),), {}), "never")
    monkeypatch.setattr(steady.process_memory, "allocated", lambda _context: 500)
    monkeypatch.setattr(steady.process_memory, "device_peak", lambda _context: 500 + 30 * len(calls))
    assert steady.memory_of_call(context, lane).device_steady == 4 * (16 + 4) + 1000 + 30


def test_weights_in_the_same_memory_are_not_written_to() -> None:
    one, other = nn.Linear(4, 4), nn.Linear(4, 4)
    one.weight = nn.Parameter(other.weight.detach())
    writes = one.weight._version
    assert as_built(one, other)
    assert torch.equal(one.bias, other.bias)
    assert one.weight._version == writes


class Slotted:
    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


def test_slots_and_deques_are_opened() -> None:
    assert compare(Slotted(torch.ones(2)), Slotted(torch.zeros(2))).difference is not None
    assert compare(deque([torch.ones(2)]), deque([torch.zeros(2)])).difference is not None
    for value, change in (
        (Slotted(torch.ones(2)), lambda it: it.tensor.add_(1)),
        (deque([1]), lambda it: it.append(2)),
        ({1}, lambda it: it.add(2)),
    ):
        before = list(seen(value, DEPTH, set()))
        change(value)  # type: ignore[no-untyped-call]
        assert list(seen(value, DEPTH, set())) != before


class _Layer:
    def __init__(self, keys: torch.Tensor, calls: int = 1) -> None:
        self.keys, self.calls = keys, calls


class _Cache:
    """As those of libraries: no pytree, and tensors two objects down."""

    def __init__(self, *layers: _Layer) -> None:
        self.layers = [*layers]
        self.first = layers[0]


def test_tensors_in_objects_within_objects_are_compared() -> None:
    one = _Cache(_Layer(torch.ones(2)), _Layer(torch.zeros(2)))
    assert compare(one, _Cache(_Layer(torch.ones(2)), _Layer(torch.zeros(2)))).tensors == 2
    other = compare((1, one), (1, _Cache(_Layer(torch.ones(2)), _Layer(torch.ones(2)))))
    assert other.difference is not None
    assert "Tensor-likes are not close" in other.difference
    assert "1 became 2" in str(compare(one, _Cache(_Layer(torch.ones(2)), _Layer(torch.zeros(2), 2))).difference)
    assert compare(one, _Cache(_Layer(torch.ones(2)))).difference is not None
    # Attributes in another order are the same, and an object that holds itself has an end.
    turned = _Cache(_Layer(torch.ones(2)), _Layer(torch.zeros(2)))
    turned.layers = turned.__dict__.pop("layers")
    assert compare(one, turned).difference is None
    one.first.keys = one  # type: ignore[assignment]
    assert flatten(one)[0].count(one) == 1


@pytest.mark.parametrize(
    ("name", "cases"), [("llama::LlamaForCausalLM", ["prefill", "decode"]), ("bert::BertModel", [None])]
)
@pytest.mark.sampled(2)
def test_a_causal_language_model_of_a_library_prefills_and_decodes(name: str, cases: list[str | None]) -> None:
    pytest.importorskip("transformers")
    kind = name.partition("::")[0]
    target = f"transformers.models.{kind}.modeling_{name}"
    asked = {"blocks": 1, "warm_least": 1, "warm_most": 1}
    options = {"model": f"hf:{name.partition('::')[2]}", "tiny": True, "synthesise": True}
    answer = measure("steady", target, Arm(EAGER, ""), asked=asked, **options)
    assert [found.case for found in answer.measured] == cases
    assert not any(found.error for found in answer.measured)
    if cases != [None]:
        assert dict(answer.weights) == {"prefill": 1.0, "decode": 128.0}
        assert [(each.case, each.unit, each.count) for each in answer.items] == [
            ("prefill", "tokens", 512),
            ("decode", "tokens", 1.0),
        ]
        assert "first token" in answer.items[0].label


def test_consecutive_calls_of_a_causal_language_model_decode_with_both_caches() -> None:
    pytest.importorskip("transformers")
    asked = {"blocks": 1, "warm_least": 1, "warm_most": 1, "calls": 3}
    options = {"model": "hf:LlamaForCausalLM", "tiny": True, "synthesise": True}
    target = "transformers.models.llama.modeling_llama::LlamaForCausalLM"
    answer = measure("steady", target, Arm(EAGER, ""), CAPTURED, asked=asked, **options)
    assert not any(found.error for found in answer.measured)
    found = {row.case: row for row in answer.measured if row.arm != EAGER}
    assert list(found) == ["decode", "growing cache"]
    assert [(each.case, each.unit, each.count) for each in answer.items] == [
        ("decode", "tokens", 3.0),
        ("growing cache", "tokens", 3.0),
    ]


GUARDED = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.scale = 2.0

    def forward(self, x):
        return self.layer(x) * self.scale


def get_inputs():
    return (torch.randn(2, 8),)
"""


def test_guards_are_counted_and_the_most_expensive_are_named(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(GUARDED)
    answer = measure("profile", "net.py::Net", Arm(EAGER, ""), CAPTURED, root=tmp_path)
    eager, compiled = (found.profile for found in answer.measured)
    assert eager is not None
    assert compiled is not None
    assert (eager.guards, eager.expensive_guards) == (None, ())
    assert compiled.guards is not None
    assert compiled.guards > 5
    assert compiled.python_guards is not None
    assert compiled.python_guards < compiled.guards
    assert all(0 < seconds < 1e-3 for _, seconds in compiled.expensive_guards)
    assert (eager.changing_floats, compiled.changing_floats) == (None, 0)


@pytest.mark.release
def test_floats_that_change_between_calls_are_counted(tmp_path: Path) -> None:
    changing = GUARDED.replace(
        "return self.layer(x)", "self.scale = 0.5 if self.scale == 2.0 else 2.0\n        return self.layer(x)"
    )
    (tmp_path / "net.py").write_text(changing)
    answer = measure("profile", "net.py::Net", Arm(EAGER, ""), CAPTURED, root=tmp_path)
    assert [found.profile and found.profile.changing_floats for found in answer.measured] == [None, 1]


LOOPS = """\
import torch
from torch import nn


class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x, cache):
        keys = cache["keys"] = torch.cat([cache["keys"], self.layer(x)], 1)
        return x @ keys.transpose(1, 2)


def growing():
    return {"x": torch.randn(1, 1, 8), "cache": {"keys": torch.zeros(1, 4, 8)}}


def batches(model, x, cache):
    for length in (3, 5, 7, 9):
        model(x, {"keys": torch.zeros(1, length, 8)})


def train(model, x, cache):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for rate in (0.1, 0.01):
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        model(x, {"keys": torch.zeros(1, 4, 8)}).sum().backward()
        optimizer.step()
"""


@pytest.fixture(name="loops", scope="module")
def loops_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loops")
    (folder / "net.py").write_text(LOOPS)
    return folder


def timed_loop(loops: Path, asked: dict[str, Any], **options: Any) -> BenchAnswer:
    """Eager and compiled calls of the model in `loops`, in three short blocks."""
    short = {"blocks": 3, "warm_least": 1, "warm_most": 2, "seconds": 2.0}
    arms = Arm(EAGER, ""), CAPTURED
    inputs = "net.py::growing"
    return measure("steady", "net.py::Attends", *arms, root=loops, asked={**asked, **short}, inputs=inputs, **options)


@pytest.mark.parametrize("asked", [{"calls": 6}, {"loop": "net.py::batches"}])
@pytest.mark.sampled(2)
def test_calls_in_a_row_show_what_is_compiled_again(loops: Path, asked: dict[str, Any]) -> None:
    answer = timed_loop(loops, asked)
    eager, compiled = answer.measured
    assert not eager.error
    assert not compiled.error
    assert compiled.graphs == 2  # of the first size, and of any
    (note,) = (note for note in compiled.notes if note.startswith("compiled again"))
    assert note.startswith("compiled again: 1 time: net.py:10 Attends.forward (")
    assert "keys" in note
    assert compiled.recompiles == 0
    assert len(compiled.blocks) == 3
    assert [each.count for each in answer.items] == ([6.0] if "calls" in asked else [])


def test_a_training_loop_makes_its_own_steps(loops: Path) -> None:
    answer = timed_loop(loops, {"loop": "net.py::train"}, mode="train")
    assert [found.error for found in answer.measured] == ["", ""]
    assert all(len(found.blocks) == 3 for found in answer.measured)


def test_a_loop_that_is_no_function_is_told(loops: Path) -> None:
    answer = timed_loop(loops, {"loop": "net.py::Attends"})
    assert answer.failure == "--loop net.py::Attends: not a function"


COUNTS = """\
import torch
from torch import nn

class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0

    def forward(self, x):
        self.n += 1
        return x * self.n

def get_inputs():
    return (torch.randn(4, 8),)
"""


def test_every_recompilation_up_to_the_limit_is_counted_and_named(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(COUNTS)
    short = {"blocks": 3, "warm_least": 12, "warm_most": 12, "seconds": 2.0}
    arms = Arm(EAGER, ""), CAPTURED
    _, compiled = measure("steady", "net.py::Counts", *arms, root=tmp_path, asked=short).measured
    (note,) = (note for note in compiled.notes if note.startswith("compiled again"))
    assert note.startswith("compiled again: 7 times: net.py:9 Counts.forward (")
    assert note.count("n == ") == 3, "the guards of the first three"
    assert note.endswith("; and 4 more)")


@pytest.mark.parametrize(
    ("ratios", "told"),
    [((8.0, 7.7, 29.7), "8.00 times (0.58 to 110.26 in this process)"),
     ((2.0, 2.0, 2.1), "2.00 times (1.81 to 2.21 in this process)")],
)  # fmt: skip
def test_the_first_answer_is_no_surer_than_its_rounds(ratios: tuple[float, ...], told: str) -> None:
    eager = Lane(ArmMeasured(EAGER, None, blocks=ratios), arm=cast("RunningVariant", object()))
    compiled = Lane(ArmMeasured("default", None, blocks=(1.0, 1.0, 1.0)), arm=cast("RunningVariant", object()))
    assert told in steady.first_answer([eager, compiled], 1)
