"""`tcready.check(model, inputs)`: objects of this process, and of a real kernel, with what Dynamo makes of them."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import tcready
from tcready import TcreadyError, api
from tcready.dynamic.schedule import NEED_PROCESSES

torch = pytest.importorskip("torch")
from tcready.dynamic.worker.bench import copies  # noqa: E402
from torch import nn  # noqa: E402

pytestmark = pytest.mark.torch


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Any, scale: float = 1.0) -> Any:
        x = self.drop(self.norm(self.lin(x))) * scale
        if x.sum() > 100:
            x = x + 1
        return x


class Clean(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * 2


def doubled(x):  # type: ignore[no-untyped-def]
    return x.tolist()


LINE = next(at for at, line in enumerate(Path(__file__).read_text().splitlines(), 1) if "x.sum() > 100" in line)


def places(found: Any) -> list[tuple[str | None, int, str]]:
    return [(f.rule, f.line, f.status) for f in found.report.findings]


def test_source_and_run_meet_in_one_report(capsys: pytest.CaptureFixture[str]) -> None:
    found = tcready.check(Net(), torch.randn(8, 4))
    assert places(found) == [("TCR101", LINE, "confirmed")]
    assert found.verdict == "not_ready"
    assert found.target.target == "tests/pipeline/test_live.py::Net"
    assert f"tests/pipeline/test_live.py:{LINE}:12: TCR101" in repr(found)
    assert "(confirmed) " in str(found)
    assert "confirmed by Dynamo: GB0170" in found.to_text(verbose=True)
    assert "--run" not in found.to_text()
    assert json.loads(found.to_json())["targets"][0]["verdict"] == "not_ready"
    assert found.to_html().startswith("<!DOCTYPE html>")
    assert capsys.readouterr() == ("", "")


def test_clean_model_is_ready() -> None:
    found = tcready.check(Clean(), torch.randn(8, 4))
    assert found.verdict == "ready"
    stages = {stage.stage: stage.state for stage in found.target.stages}
    assert stages["fullgraph"] == "pass", "as of a target"


@pytest.mark.parametrize("mode", ["infer", "train"])
@pytest.mark.sampled(2)
def test_everything_is_left_as_it_was(mode: Any) -> None:
    import random

    import numpy as np

    net = Net()
    calls: list[int] = []
    net.lin.register_forward_hook(lambda *_: calls.append(1))
    x = torch.randn(8, 4, requires_grad=True)
    net(x).sum().backward()
    net.eval()
    net.drop.train()
    state = copy.deepcopy(net.state_dict())
    grads = {name: p.grad.clone() for name, p in net.named_parameters()}
    given = x.detach().clone(), x.grad.clone()
    flags = [module.training for module in net.modules()]
    hooks = dict(net.lin._forward_hooks)
    identity = [id(p) for p in net.parameters()]
    torch.manual_seed(3), random.seed(3), np.random.seed(3)
    expected = torch.rand(1), random.random(), np.random.rand()
    torch.manual_seed(3), random.seed(3), np.random.seed(3)
    torch._dynamo.utils.counters.clear()  # of other tests in this process

    tcready.check(net, x, mode=mode, plan=mode == "infer")

    assert (torch.rand(1), random.random(), np.random.rand()) == expected
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())
    assert all(torch.equal(p.grad, grads[name]) for name, p in net.named_parameters())
    assert torch.equal(x, given[0])
    assert torch.equal(x.grad, given[1])
    assert [module.training for module in net.modules()] == flags
    assert dict(net.lin._forward_hooks) == hooks
    assert [id(p) for p in net.parameters()] == identity
    assert torch.is_grad_enabled()
    assert not torch._dynamo.utils.counters["graph_break"]


def test_training_runs_as_on_the_command_line() -> None:
    found = tcready.check(Net(), torch.randn(8, 4), mode="train")
    assert found.target.observation.training is not None


def test_plan_is_executed() -> None:
    plan = tcready.check(Net(), torch.randn(8, 4), plan=True).target.observation.plan
    assert plan is not None
    assert plan.code


@pytest.mark.parametrize(
    ("inputs", "options"),
    [
        ({"x": torch.randn(8, 4)}, {}),
        (((torch.randn(8, 4),), {"scale": 2.0}), {}),
        ((torch.randn(8, 4), 2.0), {}),
        ({"cases": {"a": torch.randn(8, 4), "b": (torch.randn(2, 4), 2.0)}}, {"weights": {"a": 3}}),
    ],
)
def test_inputs_are_those_of_the_command(inputs: Any, options: Any) -> None:
    found = tcready.check(Net(), inputs, **options)
    assert places(found) == [("TCR101", LINE, "confirmed")]


def test_named_cases() -> None:
    x = torch.randn(8, 4)
    found = tcready.check(Net(), cases={"small": x, "large": x.repeat(2, 1)})
    assert {entry.case for entry in found.report.findings[0].targets} == {"small", "large"}
    with pytest.raises(TcreadyError, match="give one of them"):
        tcready.check(Net(), x, cases={"a": x})


@pytest.mark.parametrize("value", [doubled, Net().forward, nn.Sequential(Clean(), Net())])
def test_other_callables(value: Any) -> None:
    found = tcready.check(value, torch.randn(8, 4))
    assert [finding.status for finding in found.report.findings] == ["confirmed"]


def test_a_class_that_code_made_is_told_by_the_run_alone() -> None:
    scope: dict[str, Any] = {"nn": nn}
    exec("class Made(nn.Module):\n    def forward(self, x):\n        return x.tolist()", scope)
    found = tcready.check(scope["Made"](), torch.randn(2))
    assert any("Made" in text and "not known" in text for text in found.report.warnings)
    assert found.target.was_run


def test_a_class_of_a_function() -> None:
    class Inner(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.tolist()

    found = tcready.check(Inner(), torch.randn(2))
    assert [finding.status for finding in found.report.findings] == ["runtime_only"]
    assert any("is defined in a function" in text for text in found.report.warnings)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"timeout": 3}, "nothing can end a run in this process"),
        ({"device": "cuda"}, r"move it and its inputs with `\.to\(\)`"),
        ({"bench": {"loader": "a.py::b"}}, "tcready bench --loader"),
        ({"bench": {"arm": ["eager"]}}, "add another --arm"),
        ({"bench": {"arm": ["plan=1 +"]}}, "invalid syntax"),
        ({"bench": {"budget": -1}}, "a number of seconds above 0"),
        ({"mode": "both"}, "'infer' or 'train'"),
    ],
)
def test_what_cannot_be_done_here_is_said(options: Any, why: str) -> None:
    with pytest.raises(TcreadyError, match=why):
        tcready.check(Clean(), torch.randn(2), **options)


def test_mistakes() -> None:
    with pytest.raises(TypeError, match="takes no option planned: it takes inputs, cases, mode, bench"):
        api.check_object(Clean(), torch.randn(2), planned=True)
    with pytest.raises(TypeError, match="did you mean quick"):
        tcready.check(Clean(), torch.randn(2), bench={"quik": True})
    with pytest.raises(TcreadyError, match="NoneType"):
        tcready.check(Clean(), None)
    failed = tcready.check(Clean(), (1, 2, 3))
    assert failed.verdict == "unknown"
    assert "takes 2 positional arguments" in str(failed)


CAPTURED = {"quick": True, "budget": 100, "processes": 2, "arm": ["captured=torch.compile(model, backend='eager')"]}
"""A bench that needs no C++ compiler."""


@dataclass(frozen=True)
class Benched:
    found: Any
    net: nn.Module
    x: Any
    before: Any


def everything_of(net: nn.Module, x: Any) -> list[Any]:
    """What a bench must leave as it is, tensors as lists of numbers."""
    return [
        {name: value.tolist() for name, value in net.state_dict().items()},
        {name: p.grad.tolist() for name, p in net.named_parameters()},
        [id(p) for p in net.parameters()],
        [module.training for module in net.modules()],
        [dict(module._forward_hooks) for module in net.modules()],
        torch.get_rng_state().tolist(),
        x.tolist(),
        {name: dict(counter) for name, counter in torch._dynamo.utils.counters.items() if counter},
        torch._dynamo.config.save_config() if hasattr(torch._dynamo.config, "save_config") else None,
        torch.get_num_threads(),
        {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
    ]


@pytest.fixture(scope="module")
def benched() -> Benched:
    net, x = Net(), torch.randn(8, 4)
    torch.mm(torch.randn(600, 600), torch.randn(600, 600))  # the threads that a copy does not have
    net(x).sum().backward()
    net.lin.register_forward_hook(lambda *_: None)
    net.drop.eval()
    before = everything_of(net, x)
    with _in_no_group():
        return Benched(tcready.check(net, x, bench=CAPTURED), net, x, before)


@contextlib.contextmanager
def _in_no_group() -> Iterator[None]:
    """Samples of other tests put this process into a group of torch.distributed, once for all of them."""
    distributed = torch.distributed
    group = {"store": distributed.HashStore(), "rank": 0, "world_size": 1} if distributed.is_initialized() else None
    if group is not None:
        distributed.destroy_process_group()
    yield
    if group is not None:
        distributed.init_process_group("gloo", **group)


def test_a_bench_measures_in_copies_of_this_process(benched: Benched) -> None:
    bench = benched.found.target.observation.bench
    eager, captured = bench.cases[-1].arms
    assert (eager.arm, captured.arm) == ("eager", "captured")
    assert len(captured.blocks) == 2, "a row for each process"
    assert captured.speedup.n == 2, "the interval is that of processes"
    assert "in one process alone" not in captured.reason
    assert captured.graphs == 1
    assert captured.breaks == 1, "the tensor `if`"
    assert captured.parity is True
    assert captured.cold_seconds.median > 0
    assert captured.memory_peak_bytes > 0
    assert captured.kernel_launches
    assert bench.cut == ()
    assert any("its weights are its own" in note for note in bench.notes)
    assert bench.command == f"tcready.check(model, inputs, bench={CAPTURED!r})"
    (stability,) = (item for item in bench.checklist if item.item == "stability")
    (named,) = CAPTURED["arm"]
    assert stability.detail == f'tcready.check(model, inputs, bench={{"arm": [{named!r}], "soak": 600}})'


def test_a_bench_leaves_everything_as_it_was(benched: Benched) -> None:
    assert everything_of(benched.net, benched.x) == benched.before


def test_a_bench_is_shown(benched: Benched, tmp_path: Path) -> None:
    page = benched.found._repr_html_()
    tags = _Tags()
    tags.feed(page)
    assert "Bench: <b>" in page
    assert '<th scope="row">captured</th>' in page
    assert tags.links == []
    assert "\nSPEED   " in str(benched.found)
    path = tmp_path / "kept.json"
    path.write_text(benched.found.to_json())
    again = tcready.load(path)
    assert again.targets[0].observation.bench == benched.found.target.observation.bench


@pytest.fixture
def alone() -> Iterator[None]:
    with _in_no_group():
        yield


@pytest.mark.usefixtures("alone")
@pytest.mark.release
def test_a_bench_where_no_process_can_be_copied_says_what_was_not_run() -> None:
    distributed = torch.distributed
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    net, x = Net(), torch.randn(8, 4)
    net(x).sum().backward()
    torch._dynamo.utils.counters.clear()  # of other tests in this process
    before = everything_of(net, x)
    try:
        bench = tcready.check(net, x, bench=CAPTURED).target.observation.bench
    finally:
        distributed.destroy_process_group()
    captured = bench.cases[-1].arms[1]
    assert bench.verdict.startswith("likely_") or bench.verdict == "inconclusive"
    assert "in this process" in captured.reason
    assert len(captured.blocks) == 1
    assert captured.parity is True
    assert captured.cold_seconds is None
    assert bench.processes == 1
    assert [text.split(": not run: ")[0] for text in bench.cut] == list(NEED_PROCESSES)
    assert all("belongs to a torch.distributed group" in text for text in bench.cut)
    assert everything_of(net, x) == before


def test_a_copy_that_does_not_end_well() -> None:
    assert copies.run_in_copy(lambda: None, 20) == copies.CopyEnding()
    assert copies.run_in_copy(lambda: os.kill(os.getpid(), 9), 20) == copies.CopyEnding("it died by SIGKILL")
    assert copies.run_in_copy(lambda: sys.exit(3), 20) == copies.CopyEnding("it ended with code 1")
    assert copies.run_in_copy(lambda: time.sleep(60), 0.2).late


def test_a_copy_ends_with_whoever_waits_for_it(tmp_path: Path) -> None:
    """Ctrl-C reaches the one who waits; the copy, and what it started, must not outlive that."""
    noted = tmp_path / "pids"

    def work() -> None:
        child = subprocess.Popen(["sleep", "60"])
        noted.write_text(f"{os.getpid()} {child.pid}")
        child.wait()

    def interrupt() -> None:
        while not noted.exists() or not noted.read_text():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # other tests in this process may leave another
    threading.Thread(target=interrupt).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            copies.run_in_copy(work, 30)
    finally:
        signal.signal(signal.SIGINT, before)
    until = time.monotonic() + 10
    while any(Path(f"/proc/{pid}/cmdline").exists() for pid in noted.read_text().split()):
        states = [
            Path(f"/proc/{pid}/stat").read_text().split()[2]
            for pid in noted.read_text().split()
            if Path(f"/proc/{pid}/stat").exists()
        ]
        if set(states) <= {"Z"}:  # who inherits it has not looked yet
            break
        assert time.monotonic() < until
        time.sleep(0.02)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "style") or name[:2] == "on"]


def test_what_a_notebook_shows_is_escaped_and_needs_no_network() -> None:
    class Named(nn.Module):
        def forward(self, x: Any) -> Any:
            raise ValueError("<script>alert(1)</script><img src=x>")

    shown = tcready.check(Named(), torch.randn(2))._repr_html_()
    tags = _Tags()
    tags.feed(shown)
    assert not {"script", "img", "link", "iframe"} & set(tags.tags)
    assert tags.links == []
    assert "&lt;script&gt;" in shown
    style = shown.partition("<style>")[2].partition("</style>")[0]
    assert all(
        part.strip().startswith(".tcready-result")
        for rule in style.split("}")
        if rule.strip()
        for part in rule.partition("{")[0].split(",")
    )


@pytest.mark.release
def test_a_script_is_read_from_its_own_file(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import sys
            import torch, tcready
            from torch import nn

            class Net(nn.Module):
                def forward(self, x):
                    return x.tolist()

            if __name__ == "__main__":
                found = tcready.check(Net(), torch.randn(3))
                print([(f.path, f.rule, f.line, f.status) for f in found.report.findings])
        """)
    )
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "[('script.py', 'TCR202', 8, 'confirmed')]\n"
    assert done.stderr == ""


CELLS = (
    dedent("""\
        import torch
        from torch import nn
        import tcready
        %load_ext tcready"""),
    "class Net(nn.Module):\n    def forward(self, x):\n        return x.item()  # outdated",
    dedent("""\
        class Net(nn.Module):
            def forward(self, x):
                if x.sum() > 100:
                    x = x + 1
                return helper(x)"""),
    "def helper(y):\n    print('hello')\n    return y",
    "net = Net(); x = torch.randn(2, 4)\nfound = tcready.check(net, x)\nfound",
    "print([(f.path, f.cell.number, f.cell.line, f.rule, f.status) for f in found.report.findings])",
    "print(found)",
    dedent("""\
        %%tcready
        class Two(nn.Module):
            def forward(self, x):
                return helper(x).tolist()"""),
    "%%tcready net, x, mode='train'\nnet = nn.Sequential(net)",
    "%%tcready net,, x\nz = 1",
    "%%tcready\n1 / 0",
    "z",
    dedent("""\
        %%tcready
        class Three(nn.Module):
            def forward(self, x):
                return x.tolist()"""),
    "print(_.verdict); print(_)",
)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The cells, run by a real kernel."""
    import os

    from ipykernel.kernelspec import install
    from nbclient import NotebookClient
    from nbformat import v4

    folder = tmp_path_factory.mktemp("kernel")
    install(prefix=str(folder), kernel_name="here")
    before = os.environ.get("JUPYTER_PATH")
    os.environ["JUPYTER_PATH"] = str(folder / "share" / "jupyter")
    notebook = v4.new_notebook(cells=[v4.new_code_cell(text) for text in CELLS])
    try:
        client = NotebookClient(
            notebook, timeout=300, allow_errors=True, kernel_name="here", resources={"metadata": {"path": str(folder)}}
        )
        client.execute()
    finally:
        os.environ.pop("JUPYTER_PATH") if before is None else os.environ.update(JUPYTER_PATH=before)
    return notebook.cells


def shown(cell: Any, kind: str = "text/plain") -> str:
    return "".join(o.get("text", "") or o.get("data", {}).get(kind, "") or o.get("evalue", "") for o in cell.outputs)


@pytest.mark.filterwarnings("ignore")
def test_in_a_notebook(ran: Any) -> None:
    page = shown(ran[4], "text/html")
    assert "hello" not in page, "what the model prints is not shown"
    assert "notebook:cell 3:3" in page
    assert "confirmed by Dynamo: GB0170" in page
    assert "outdated" not in page
    assert shown(ran[5]).strip() == (
        "[('notebook', 3, 3, 'TCR101', 'confirmed'), ('notebook', 4, 2, 'TCR301', 'confirmed')]"
    )
    assert "notebook:cell 3:3:12: TCR101" in shown(ran[6])
    assert "    3 |         if x.sum() > 100:" in shown(ran[6])
    assert "notebook:cell 4:2:" in shown(ran[6])


@pytest.mark.filterwarnings("ignore")
def test_the_magic(ran: Any) -> None:
    read = shown(ran[7], "text/html")
    assert "notebook:cell 8:4" in read
    assert "cell 3" not in read, "only this cell's findings"
    assert "confirmed" in shown(ran[8], "text/html")
    assert "write a model and its inputs" in shown(ran[9])
    assert "division by zero" in shown(ran[10])
    assert shown(ran[11]) == "1"
    text = shown(ran[13])
    assert text.startswith("unknown\n")
    assert "notebook:cell 13:4:" in text
    assert "`to_text(verbose=True)` of this result" in " ".join(text.split())
    assert "tcready explain" not in text
    assert "--run" not in text


def test_nothing_is_shown_but_the_result(capfd: pytest.CaptureFixture[str]) -> None:
    class Noisy(nn.Module):
        def forward(self, x: Any) -> Any:
            print(x.max().item())  # Dynamo logs a warning
            return x + 1

    tcready.check(Noisy(), torch.randn(3))
    assert capfd.readouterr() == ("", "")


class Keeps(nn.Module):
    """It has a norm, whose buffers and parameters a call in this process changes."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Any) -> Any:
        self.calls = getattr(self, "calls", 0) + 1
        torch.set_default_dtype(torch.float64)
        return self.norm(x)


NAMED = Keeps()
AROUND: dict[str, Any] = {"net": [NAMED]}
AROUND["again"] = AROUND


def of_a_global(x: Any) -> Any:
    return helper_of_it(x) * 2


def helper_of_it(x: Any) -> Any:
    return AROUND["net"][0](x)


@pytest.mark.parametrize("mode", ["infer", "train"])
@pytest.mark.parametrize("kind", ["partial", "argument", "closure", "global"])
@pytest.mark.sampled(4)
def test_a_module_that_a_function_knows_is_left_as_it_was(kind: str, mode: Any) -> None:
    net = NAMED if kind == "global" else Keeps()
    value: Any = {
        "partial": functools.partial(net),
        "argument": functools.partial(lambda x, model: model(x), model=net),
        "closure": lambda x: net(x),
        "global": of_a_global,
    }[kind]
    net.norm.weight.grad = torch.full((4,), 3.0)
    state = copy.deepcopy(net.state_dict())
    buffer, grad = net.norm.running_mean, net.norm.weight.grad

    found = tcready.check(value, torch.randn(8, 4), mode=mode)

    stages = {stage.stage: stage.state for stage in found.target.stages}
    assert stages["eager"] == stages["capture"] == "pass"
    assert all(torch.equal(each, state[name]) for name, each in net.state_dict().items())
    assert net.norm.running_mean is buffer
    assert net.norm.weight.grad is grad
    assert torch.equal(grad, torch.full((4,), 3.0))
    assert net.norm.bias.grad is None
    assert not hasattr(net, "calls")
    assert net.training
    assert torch.get_default_dtype() == torch.float32


def test_tensors_of_a_partial_get_no_gradients() -> None:
    weight = torch.randn(4, 4, requires_grad=True)
    for other in (weight, weight * 2):
        found = tcready.check(functools.partial(torch.matmul, other=other), torch.randn(2, 4), mode="train")
        assert found.verdict == "ready"
        assert weight.grad is None


def test_default_device_is_put_back() -> None:
    def moving(x: Any) -> Any:
        torch.set_default_device("meta")
        return x + 1

    tcready.check(moving, torch.randn(2))
    assert torch.get_default_device() == torch.device("cpu")


def test_what_is_no_model_is_said_in_a_line() -> None:
    with pytest.raises(TcreadyError, match=r"^Clean is a class: give an instance, Clean\(\.\.\.\)$"):
        tcready.check(Clean, torch.randn(2))
    with pytest.raises(TcreadyError, match="is a class"):
        api.observe_live(Clean, [torch.randn(2)])
    with pytest.raises(TcreadyError, match="int is none of these"):
        tcready.check(3, torch.randn(2))  # type: ignore[call-overload]


class Asynchronous(nn.Module):
    async def forward(self, x: Any) -> Any:
        return x + 1


async def yielding(x: Any) -> Any:
    yield x + 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [Asynchronous(), Asynchronous().forward, yielding])
def test_asynchronous_code_is_not_called_ready(value: Any) -> None:
    found = tcready.check(value, torch.randn(2))
    assert found.verdict == "unknown"
    stages = {stage.stage: stage for stage in found.target.stages}
    assert stages["eager"].state == "fail"
    assert "its code did not run" in stages["eager"].detail


def test_what_cannot_be_copied_is_named() -> None:
    net = nn.Sequential(Clean(), Net())
    net[1].last = net(torch.randn(8, 4))
    text = tcready.check(net, torch.randn(8, 4)).target.stages
    (build,) = (stage.detail for stage in text if stage.stage == "build")
    assert "its attribute 1.last cannot be: it is the result of an earlier call" in build
    model = Clean()
    model.lock = threading.Lock()
    text = tcready.check(model, torch.randn(2)).target.stages
    (build,) = (stage.detail for stage in text if stage.stage == "build")
    assert "its attribute lock cannot be: TypeError" in build
    assert "`tcready check tests/pipeline/test_live.py::Clean`" in build


def test_a_report_of_an_object_tells_how_to_see_more() -> None:
    found = tcready.check(Net(), torch.randn(8, 4))
    assert "`tcready explain" not in found.to_text()
    assert "`to_text(verbose=True)` of this result" in found.to_text(width=200)
