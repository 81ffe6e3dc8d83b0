"""Changes put to the proof in real workers: what differs is seen, what does the same is not refused."""

from __future__ import annotations

import ast
import dataclasses
import functools
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent
from types import MappingProxyType
from typing import Any

import pytest
from observing import torch_between
from tcready.dynamic import Prover, RunRequest, prove
from tcready.dynamic.worker.core.request import Work
from tcready.dynamic.worker.proof import fork_pool
from tcready.dynamic.worker.proof.branch_coverage import BranchCoverage
from tcready.fixes.rewriting.changes import changed
from tcready.fixes.rewriting.judgement import Judgement, judge_trial
from tcready.portable.options import RunOptions
from tcready.schema.enums import Mode
from tcready.schema.progress import Progress
from tcready.schema.proof import ProofRequest, ProofResult, Span, Trial, Variant
from tcready.static.frontend import source

MODEL = """\
import logging
import random
import sys
import time
import warnings

import numpy
import torch
from torch import nn


CALLS = []
SEEN = {}


STATS = {"a": {"n": 0}}


class Config:
    uses = 0


METER = Config()


class Model(nn.Module):
    passed = 0

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)
        self.calls = 0
        self._hidden = 0
        self.config = Config()
        self.kept = []
        self.begun = 0.0
        self.register_buffer("seen", torch.zeros(()))
        self.gain = nn.Parameter(torch.ones(()), requires_grad=False)

    def scaled(self, x):
        if x.sum() > 1000:
            x = x * 2
        return x

    def divided(self, x, d):
        if (d > 0).all():
            return x / d
        return x + d

    def forward(self, x, notes=None):
        CALLS.append(1)
        notes.append(2)
        warnings.warn("careful")
        logging.getLogger("model").warning("slow")
        if len(x) == 0:
            raise ValueError("rows are needed")
        logging.getLogger("model").info("step")
        STATS["a"]["n"] += 1
        METER.uses += 1
        self.calls += 1
        self.seen += 1
        self.gain.mul_(1.5)
        self._hidden += 1
        self.config.uses += 1
        self.kept.append(x)
        self.begun = time.perf_counter()
        Model.passed += 1
        SEEN[len(x)] = x
        random.random()
        numpy.random.rand()
        print("error", file=sys.stderr)
        print(f"begun at {self.begun}")
        x = self.scaled(self.lin(x))
        print("forward")
        return self.divided(x, x)


def get_inputs():
    return (torch.randn(4, 8),), {"notes": []}
"""
SAME = {
    "where": (
        "        if x.sum() > 1000:\n            x = x * 2\n",
        "        x = torch.where(x.sum() > 1000, x * 2, x)\n",
    ),
    "where that is safe for gradients": (
        "        if (d > 0).all():\n            return x / d\n        return x + d\n",
        "        positive = (d > 0).all()\n"
        "        return torch.where(positive, x / torch.where(positive, d, 1.0), x + d)\n",
    ),
}
DIFFERENT = {
    "another bound": ("value", "x.sum() > 1000", "x.sum() > 5"),
    "another dtype": ("value", "self.scaled(self.lin(x))", "self.scaled(self.lin(x)).double()"),
    "a dtype that is written": ("value", "self.scaled(self.lin(x))", "self.scaled(self.lin(x)).to(torch.float32)"),
    "a view of what is not contiguous": (
        "exception",
        "x = self.scaled(self.lin(x))",
        "x = self.scaled(self.lin(x.view(-1).view(x.shape)))",
    ),
    "no gradient": ("gradient", "            x = x * 2\n", "            x = x.detach() * 2\n"),
    "a gradient that is not a number": (
        "gradient",
        "        if (d > 0).all():\n            return x / d\n        return x + d\n",
        "        return torch.where((d > 0).all(), x / d, x + d)\n",
    ),
    "an argument that is changed": (
        "state",
        "x = self.scaled(self.lin(x))",
        "x = self.scaled(self.lin(x.mul_(1.5).div(1.5)))",
    ),
    "a global list that stays": ("state", "        CALLS.append(1)\n", ""),
    "an argument that stays": ("state", "        notes.append(2)\n", ""),
    "no warning": ("state", '        warnings.warn("careful")\n', ""),
    "no log": ("state", '        logging.getLogger("model").warning("slow")\n', ""),
    "no log below the level": ("state", '        logging.getLogger("model").info("step")\n', ""),
    "no counter in nested tables": ("state", '        STATS["a"]["n"] += 1\n', ""),
    "no counter in a global object": ("state", "        METER.uses += 1\n", ""),
    "other strides": ("value", "return self.divided(x, x)", "return self.divided(x, x).t().contiguous().t()"),
    "a hook": (
        "state",
        "        self.calls += 1\n",
        "        self.calls += 1\n        self.lin.register_forward_hook(lambda *_: None)\n",
    ),
    "no counter": ("state", "        self.calls += 1\n", ""),
    "no buffer": ("state", "        self.seen += 1\n", ""),
    "no write to a parameter": ("state", "        self.gain.mul_(1.5)\n", ""),
    "no hidden counter": ("state", "        self._hidden += 1\n", ""),
    "no counter in an object": ("state", "        self.config.uses += 1\n", ""),
    "no list of tensors": ("state", "        self.kept.append(x)\n", ""),
    "no counter of the class": ("state", "        Model.passed += 1\n", ""),
    "no global table of tensors": ("state", "        SEEN[len(x)] = x\n", ""),
    "no random number of Python": ("state", "        random.random()\n", ""),
    "no random number of numpy": ("state", "        numpy.random.rand()\n", ""),
    "nothing printed as an error": ("state", '        print("error", file=sys.stderr)\n', ""),
    "nothing printed": ("state", '        print("forward")\n', ""),
    "random numbers": ("state", "        self.calls += 1\n", "        self.calls += 1\n        torch.rand(())\n"),
    "an exception less": (
        "exception",
        '            raise ValueError("rows are needed")\n',
        "            return self.divided(self.lin(x), self.lin(x))\n",
    ),
    "a gradient that the next call spoils": (
        "exception",
        "x = self.scaled(self.lin(x))",
        "x = self.scaled(self.lin(x).mul(self.seen).div(self.seen.clone()))",
    ),
    "other compiled code": (
        "compiled",
        "        self.seen += 1\n",
        "        self.seen += 1\n        if torch.compiler.is_compiling():\n            x = x + 1\n",
    ),
    "other weights": ("state", "nn.Linear(8, 8)", "nn.Linear(8, 8, bias=False)"),
}
OTHER_EXCEPTION = ("raise ValueError(", "raise RuntimeError(")
ENDINGS = {
    "an exit": ("        self.calls += 1\n", "        import os; os._exit(3)\n"),
    "an import that fails": ("import random\n", "import no_such_module\n"),
    "a syntax error of its own making": ("import random\n", "import random; eval('1 +')\n"),
}


def variant(name: str, path: Path, change: tuple[str, str]) -> Variant:
    assert MODEL.count(change[0]) == 1, name
    text = MODEL.replace(*change)
    differs = changed(str(path), source.of_text(path, MODEL), source.of_text(path, text))
    return Variant(name, ((str(path), text),), (), differs.functions)


@dataclasses.dataclass(frozen=True)
class Shown:
    result: ProofResult
    trials: Mapping[str, Trial]


@pytest.fixture(scope="module", params=[10, pytest.param(1, marks=pytest.mark.release)], ids=["some", "all"])
def shown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    path = tmp_path_factory.mktemp("proof") / "model.py"
    path.write_text(MODEL)
    every: dict[str, tuple[str, str]] = {**SAME, **{name: each[1:] for name, each in DIFFERENT.items()}, **ENDINGS}
    names = [*every][:: request.param]
    changes = {**{name: every[name] for name in names}, "exception": OTHER_EXCEPTION}
    variants = tuple(variant(name, path, change) for name, change in changes.items())
    before = source.of_text(path, MODEL)
    texts = [MODEL.replace(*each) for each in [*SAME.values()][:2]]
    gone = [changed(str(path), before, source.of_text(path, text)) for text in texts]
    asked = ProofRequest(
        variants,
        tuple(dict.fromkeys(place for each in (*variants, *gone) for place in each.functions)),
        tuple(test for each in gone for test in each.tests),
    )
    # Each change gets its share of the limit; one that holds takes 25 s of a quiet machine.
    options = RunOptions(inputs="model.py::get_inputs", timeout=120.0 * len(variants))
    result = prove(RunRequest("model.py::Model", options, str(path.parent)), asked)
    assert path.read_text() == MODEL
    return Shown(result, MappingProxyType({trial.name: trial for trial in result.trials}))


@pytest.mark.torch
def test_a_trial_shows_what_a_change_does(shown: Shown, subtests: pytest.Subtests) -> None:
    """One test, because every worker would make the trials again."""
    assert shown.result.failure is None
    for name in shown.trials.keys() & SAME.keys():
        with subtests.test("does the same", name=name):
            _agrees(shown.trials[name], MODEL.replace(*SAME[name]))
    for name in shown.trials.keys() & DIFFERENT.keys():
        with subtests.test("does something else", name=name):
            found = shown.trials[name].differs, bool(shown.trials[name].difference)
            assert found == (DIFFERENT[name][0], True)
    for name in shown.trials.keys() & ENDINGS.keys():
        with subtests.test("ends its process", name=name):
            trial = shown.trials[name]
            failed = [stage.detail for stage in trial.observation.stages if stage.state == "fail"]
            assert trial.difference or failed
    assert [*shown.trials][-1] == "exception"
    with subtests.test("raises another exception"):
        trial = shown.trials["exception"]
        assert trial.difference is None
        assert (trial.raises or "").startswith(
            "it raises RuntimeError: rows are needed instead of ValueError: rows are needed"
        )
    with subtests.test("takes both sides of each test"):
        for side in shown.result.sides:
            assert side.true + side.alone_true > 0
            assert side.false + side.alone_false > 0


def _agrees(trial: Trial, text: str) -> None:
    assert trial.difference is None
    assert trial.raises is None
    assert trial.calls > 60
    assert trial.compiled_calls >= 3
    lines = text.splitlines()
    broken = {lines[site.line - 1].strip() for site in trial.observation.break_sites}
    assert 'warnings.warn("careful")' in broken
    assert not [line for line in broken if "torch.where" in line], "the one is gone"


MARKED = """\
def f(a, b):
    if (-b
        > -a): return 'é' if b else [c for c in (a, b) if c]
    assert a < b < 9 and a, 'é'
    kept = lambda: a + 1
"""


def test_what_is_asked_and_run_is_told_by_the_tree_that_is_compiled() -> None:
    after = "def f(a, b):\n    return None\n"
    differs = changed("f", *(source.of_text(Path("f.py"), text) for text in (MARKED, after)))
    sides = BranchCoverage(differs.tests, differs.gone)
    lines = MARKED.splitlines()

    def written(span: Span) -> str:
        return lines[span.line - 1][span.column - 1 : span.end_column - 1 if span.end_line == span.line else None]

    tree = sides.marked({"f": MARKED}, "f", ast.parse(MARKED))
    names: dict[str, Any] = {}
    exec(compile(tree, "f", "exec"), names)
    with sides:
        assert names["f"](3, 0) == [3]
        assert names["f"](1, 2) is None
        sides.settle(counts=True, raised=False)
        with pytest.raises(AssertionError):
            names["f"](9, 9)
        sides.settle(counts=True, raised=True)
    assert {written(each.test): (each.true, each.false) for each in sides.taken()} == {
        "-b": (1, 1),
        "a < b < 9 and a": (1, 1),
        "b": (0, 1),
        "c": (1, 1),
        "a < b < 9": (1, 1),
        "a < b": (1, 1),
        "a": (1, 0),
    }
    assert [written(each) for each in sides.not_run] == ["'é'", "a + 1"]


CASES = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x, scale=1.0):
        y = self.lin(x)
        if y.sum() > 5:
            y = y * 2
        return y.float() * scale


def get_inputs():
    return {"cases": {f"case {i}": {"x": -torch.ones(4, 8), "scale": float(i)} for i in range(9)}}
"""
BRANCH = "        if y.sum() > 5:\n            y = y * 2\n"
OF_CASES = {
    "under autocast": (
        "value",
        BRANCH,
        f"{BRANCH}        if torch.is_autocast_enabled('cpu'):\n            y = y + 1\n",
    ),
    "one side, compiled": (
        "compiled",
        BRANCH,
        "        if torch.compiler.is_compiling():\n            y = torch.where(y.sum() > 5, y * 3, y)\n"
        "        elif y.sum() > 5:\n            y = y * 2\n",
    ),
}


@pytest.mark.torch
@pytest.mark.release
def test_each_side_is_compiled_in_the_mode_of_the_run(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(CASES)
    before = source.of_text(path, CASES)
    variants = []
    for name, (_, old, new) in OF_CASES.items():
        text = CASES.replace(old, new)
        differs = changed(str(path), before, source.of_text(path, text))
        variants.append(Variant(name, ((str(path), text),), (), differs.functions))
    result = prove(
        RunRequest(
            "model.py::Model",
            RunOptions(inputs="model.py::get_inputs", mode="train", autocast="bfloat16"),
            str(tmp_path),
        ),
        ProofRequest(tuple(variants), variants[0].functions, differs.tests),
    )
    assert result.failure is None
    assert [trial.differs for trial in result.trials] == [each[0] for each in OF_CASES.values()], result


@pytest.mark.torch
def test_an_imported_function_is_called_alone(tmp_path: Path) -> None:
    before = dedent("""\
        def gate(x):
            if x.sum() > 1000:
                x = x * 2
            return x
    """)
    after = dedent("""\
        import torch


        def gate(x):
            return torch.where(x.sum() > 1000, x * 2, x)
    """)
    path = tmp_path / "gates.py"
    path.write_text(before)
    (tmp_path / "model.py").write_text(
        dedent("""\
            import torch
            from gates import gate as limited


            class Model(torch.nn.Module):
                def forward(self, x):
                    return limited(x.sigmoid() * 10)


            def get_inputs():
                return [torch.randn(4, 8)]
        """)
    )
    differs = changed(str(path), source.of_text(path, before), source.of_text(path, after))
    variant = Variant("where", ((str(path), after),), (), differs.functions)
    result = prove(
        RunRequest("model.py::Model", RunOptions(inputs="model.py::get_inputs"), str(tmp_path)),
        ProofRequest((variant,), differs.functions, differs.tests),
    )
    assert result.failure is None
    (side,) = result.sides
    assert (side.true, side.false > 0, side.alone_true > 0) == (0, True, True)
    assert result.trials[0].difference is None


IN_PLACE = {
    "a leaf that is written to raises before and after": (
        "    if y.sum() != 0:\n        y += x\n    return y * 2\n",
        "    y += torch.where(y.sum() != 0, x, 0)\n    return y * 2\n",
        ("gradient", "NoneType became Tensor"),
    ),
    "only where the mask is true and the values are not above zero": (
        "    if not m.all():\n        y = x * m\n    if x.mean() > 0 and m.any():\n        y += x\n    return y\n",
        "    if not m.all():\n        y = x * m\n"
        "    y += torch.where(torch.logical_and(x.mean() > 0, m.any()), x, 0)\n    return y\n",
        ("gradient", "NoneType became Tensor"),
    ),
    "only where a value is zero and the mask is not": (
        "    y = x = torch.sqrt(x.abs())\n    if (x != 0).all():\n        y = y + 1\n"
        "    if m.any():\n        y *= 0\n    return torch.log(x)\n",
        "    y = x = torch.sqrt(x.abs())\n    if (x != 0).all():\n        y = y + 1\n"
        "    y = torch.where(m.any(), y * 0, y)\n    return torch.log(x)\n",
        ("value", ""),
    ),
    "only where no integer is zero and values are large": (
        "    if (k == 0).any():\n        x += torch.exp(x + x)\n    return x\n",
        "    x += torch.where((k == 0).any(), torch.exp(x + x), 0)\n    return x\n",
        ("gradient", ""),
    ),
}
"""Each before, after, and what differs, how."""


@pytest.mark.torch
@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", IN_PLACE)
def test_work_in_place_is_compared_in_a_function_alone(name: str, tmp_path: Path) -> None:
    """What is passed must be no leaf, and masks, integers and values go every way together."""
    old, new, (differs_in, how) = IN_PLACE[name]
    before, after = (f"import torch\n\n\ndef add(x, y, m, k):\n{body}" for body in (old, new))
    path = tmp_path / "sums.py"
    path.write_text(before)
    (tmp_path / "model.py").write_text(
        dedent("""\
            import torch
            from sums import add


            class Model(torch.nn.Module):
                def forward(self, x, m, k):
                    return add(x.clone(), x.clone(), m, k) + x


            def get_inputs():
                return [torch.randn(4, 8), torch.rand(4, 8) > 0.5, torch.arange(32).view(4, 8) % 3]
        """)
    )
    differs = changed(str(path), source.of_text(path, before), source.of_text(path, after))
    variant = Variant("where", ((str(path), after),), (), differs.functions)
    result = prove(
        RunRequest("model.py::Model", RunOptions(inputs="model.py::get_inputs"), str(tmp_path)),
        ProofRequest((variant,), differs.functions, differs.tests),
    )
    assert result.failure is None
    (trial,) = result.trials
    assert (trial.differs, how in (trial.difference or "")) == (differs_in, True), trial


FIRST = """\
import logging
import threading

import torch
from torch import nn

LOCK = threading.Lock()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)
        self.drop = nn.Dropout(0.5)
        self.table = None
        self.calls = 0

    def begin(self):
        with LOCK:
            logging.getLogger("model").warning("begun")
            self.table = torch.arange(8.0)
            self.more = nn.Linear(8, 8).weight.detach()

    def forward(self, x):
        if self.table is None:
            self.begin()
        return self.drop(self.lin(x)) * self.table


def get_inputs():
    return (torch.randn(4, 8),)
"""
NOT_AT_THE_FIRST_CALL_ALONE = {
    "it counts": ("        return self.drop", "        self.calls += 1\n        return self.drop"),
    "the first answer is another": ("            self.begin()\n", "            self.begin()\n            return x\n"),
    "what the first call was given stays": (
        "            self.begin()\n",
        "            self.begin()\n            self.table = x[0]\n",
    ),
    "every call draws": (
        "        return self.drop",
        "        self.table = self.table + torch.rand(8)\n        return self.drop",
    ),
}


def called_before(folder: Path, text: str) -> Trial:
    (folder / "model.py").write_text(text)
    request = ProofRequest((Variant("called before", called_before=True),))
    options = RunOptions(inputs="model.py::get_inputs")
    result = prove(RunRequest("model.py::Model", options, str(folder)), request)
    assert result.failure is None
    return result.trials[0]


@pytest.mark.torch
@pytest.mark.parametrize(
    "changes",
    [(), (("nn.Linear(8, 8).weight.detach()", "0"), ("nn.Dropout(0.5)", "nn.BatchNorm1d(8)"))],
    ids=["draws", "notes what it saw"],
)
def test_what_the_first_call_makes_is_there_when_it_is_compiled(
    changes: tuple[tuple[str, str], ...], tmp_path: Path
) -> None:
    text = FIRST
    for old, new in changes:
        text = text.replace(old, new)
    trial = called_before(tmp_path, text)
    assert trial.difference is None
    assert trial.observation.break_sites == ()
    assert trial.observation.coverage is not None
    assert trial.compiled_calls >= 3


@pytest.mark.torch
@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", NOT_AT_THE_FIRST_CALL_ALONE)
def test_a_call_before_that_later_calls_notice_is_refused(name: str, tmp_path: Path) -> None:
    old, new = NOT_AT_THE_FIRST_CALL_ALONE[name]
    assert FIRST.count(old) == 1
    assert called_before(tmp_path, FIRST.replace(old, new)).difference is not None


@pytest.mark.torch
@pytest.mark.release
def test_one_process_answers_one_request_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    run = RunRequest("model.py::Model", RunOptions(inputs="model.py::get_inputs"), str(tmp_path))
    notes: list[Progress] = []
    same = variant("same", path, SAME["where"])
    with Prover(run, notes.append) as prover:
        first = prover.prove(ProofRequest((same,), same.functions))
        again = prover.prove(ProofRequest((same,), same.functions))
        other = variant("other", path, DIFFERENT["no counter"][1:])
        third = prover.prove(ProofRequest((other, same), (*same.functions, *other.functions)))
        ended = prover.prove(ProofRequest((variant("ended", path, ENDINGS["an exit"]), same), same.functions))
    steps = [doing for doing, _ in itertools.groupby(note.doing for note in notes)]
    assert sum("import of torch" in doing for doing in steps) == 1
    assert sum("calls of the code as it stands" in doing for doing in steps) == 2  # not for what is known
    assert [trial.difference for result in (first, again) for trial in result.trials] == [None, None]
    assert again.calls == first.calls
    assert [trial.differs for trial in third.trials] == ["state", None]
    assert ended.trials[0].difference is not None
    assert ended.trials[1].difference is None


@pytest.mark.torch
def test_one_thread_is_taken_only_if_it_rounds_as_several_do() -> None:
    import torch
    from tcready.dynamic.worker.proof.behaviour import Behaviour
    from tcready.dynamic.worker.proof.behaviour_differences import same_digits

    def seen(number: float, gradient: float | None = 1.0) -> Behaviour:
        found = None if gradient is None else torch.tensor(gradient)
        return Behaviour(outputs=[torch.tensor([number, torch.nan]), 3], gradients={"parameter w": found})

    assert same_digits(seen(1.0), seen(1.0))
    assert not same_digits(seen(1.0), seen(1.0 + 1e-7))
    assert not same_digits(seen(1.0), seen(1.0, 1.0 + 1e-7))
    assert not same_digits(seen(1.0), seen(1.0, None))
    assert same_digits(seen(1.0, None), seen(1.0, None))


def test_integers_of_few_bits_are_tried_at_their_end() -> None:
    import torch
    from tcready.dynamic.worker.proof.input_changes import LARGE
    from tcready.dynamic.worker.proof.variations import every, fitting

    name = "with a large number"
    for dtype, most in ((torch.uint8, 255), (torch.int16, 32_767), (torch.int64, LARGE)):
        value = torch.zeros(3, dtype=dtype)
        assert name in fitting(value)
        assert every()[name](value, torch.Generator()).tolist() == [most, 0, 0]


def test_a_trial_that_is_ended_for_time_is_not_run_and_one_that_dies_is_refuted(tmp_path: Path) -> None:
    work, variant = Work("model.py::Model", RunOptions(), str(tmp_path)), Variant("a change")

    def trial(doing: Callable[[], Trial]) -> Judgement:
        ended = fork_pool._in_child(
            Trial,
            tmp_path / "trial.json",
            doing,
            str(tmp_path),
            0.3,
            functools.partial(fork_pool._without_answer, work, variant),
        )
        return judge_trial(ended.observation, ended, ProofResult(), ProofRequest((variant,)), (), {}, {})

    def late() -> Trial:
        time.sleep(60)
        raise AssertionError("it was not ended")

    def dies() -> Trial:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("it was not ended")

    ended = trial(late)
    assert (ended.state, ended.proof) == ("not_run", None)
    assert ended.reason == "no answer within 0 s; --timeout SECONDS gives more"
    assert (trial(dies).state, trial(dies).reason) == ("refuted", "the process died by SIGKILL")


TRANSLATED = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x, rows):
        x = self.lin(x)
        kept = x[x > 0]
        try:
            return kept.sum() + x.index_select(0, rows)
        except IndexError as error:
            raise ValueError("rows of something else") from error


def get_inputs():
    return [torch.randn(4, 8), torch.tensor([0, 3])]
"""


@pytest.mark.torch
@pytest.mark.release
def test_what_compiled_code_raises_before_the_change_too_is_not_its_fault(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(TRANSLATED)
    settings = ("capture_dynamic_output_shape_ops",)
    text = TRANSLATED.replace("x > 0", "0 < x")
    differs = changed(str(path), source.of_text(path, TRANSLATED), source.of_text(path, text))
    variants = (
        Variant("a setting", settings=settings),
        Variant("an edit", ((str(path), text),), settings, differs.functions),
    )
    found = prove(
        RunRequest("model.py::Model", RunOptions(inputs="model.py::get_inputs"), str(tmp_path)),
        ProofRequest(variants, differs.functions),
    )
    assert [(trial.difference, trial.raises) for trial in found.trials] == [(None, None), (None, None)]
    assert [trial.observation.break_sites for trial in found.trials] == [(), ()]


SQUEEZING = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x, count):
        x = self.lin(x)
        BODY
        return x * y.dim() + y.sum()


def get_inputs():
    return [torch.randn(4, 8), torch.tensor(3)]
"""


@pytest.mark.torch
@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("body", "refused"),
    [
        ("y = (x[:, 0] > -9).nonzero().squeeze()", True),
        ("y = torch.squeeze(x[x > -9])", True),
        ("y = torch.zeros(int(count * 1), 8).squeeze(dim=0)", True),
        ("y = x[None, x[:, 0] > -9].squeeze((0, 1))", True),
        ("y = (x[:, 0] > -9).nonzero().squeeze(1)", False),
        ("y = torch.zeros(1, int(count * 1)).squeeze(0)", False),
        ("y = x[x > -9].sum().squeeze()", False),
    ],
)
def test_a_size_that_data_decides_is_not_squeezed_by_a_setting(body: str, refused: bool, tmp_path: Path) -> None:
    """Of one item compiled code keeps the dimension that eager code drops, and no call shows it that has more."""
    (tmp_path / "model.py").write_text(SQUEEZING.replace("BODY", body))
    settings = ("capture_dynamic_output_shape_ops", "capture_scalar_outputs")
    found = prove(
        RunRequest("model.py::Model", RunOptions(inputs="model.py::get_inputs"), str(tmp_path)),
        ProofRequest((Variant("settings", settings=settings),)),
    )
    (trial,) = found.trials
    assert trial.observation.break_sites == ()
    assert (trial.difference is not None) == refused, trial.difference


@pytest.mark.torch
@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("body", "mode", "difference", "notice"),
    [
        ("y = x[x > 0].std()", "train", "compiled with `aot_eager`, it raises", None),
        ("y = x[x > 0].std()", "infer", None, "compiled in training, it raises"),
        ("y = x[x > 0].sum()", "infer", None, None),
    ],
)
def test_a_setting_works_with_a_backend_that_works_on_operators_too(
    body: str, mode: Mode, difference: str | None, notice: str | None, tmp_path: Path
) -> None:
    """The gradient of `std` asks for a size that data decides: inductor raises, `eager` does not."""
    (tmp_path / "model.py").write_text(SQUEEZING.replace("BODY", body))
    found = prove(
        RunRequest("model.py::Model", RunOptions(inputs="model.py::get_inputs", mode=mode), str(tmp_path)),
        ProofRequest((Variant("settings", settings=("capture_dynamic_output_shape_ops",)),)),
    )
    (trial,) = found.trials
    assert trial.observation.break_sites == ()
    for text, words in ((trial.difference, difference), (trial.notice, notice)):
        assert (text is None) == (words is None)
        assert (text or "").startswith(f"{words} BackendCompilerFailed: " if words else "")


ONE_ROW = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x, rows, valid):
        return self.lin(x) + rows[valid]


def get_inputs():
    return [torch.randn(2, 8), torch.randn(4, 8), torch.tensor([True, False, False, True])]
"""


@pytest.mark.torch
def test_a_setting_is_tried_with_a_mask_of_one_item(tmp_path: Path) -> None:
    """One row broadcasts; a graph that was made for a size that data decides takes two rows alone from then on."""
    (tmp_path / "model.py").write_text(ONE_ROW)
    found = prove(
        RunRequest("model.py::Model", RunOptions(inputs="model.py::get_inputs"), str(tmp_path)),
        ProofRequest((Variant("settings", settings=("capture_dynamic_output_shape_ops",)),)),
    )
    (trial,) = found.trials
    assert trial.observation.break_sites == ()
    assert "inputs masks with one true" in (trial.difference or "")


REPLACED = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(8, 8)) for _ in range(6))
        self.made = False

    def forward(self, x):
        if not self.made:
            for number, layer in enumerate(self.layers):
                made = nn.Sequential(layer[0]).train(self.training)
                self.layers[number] = made
            self.made = True
        for layer in self.layers:
            x = layer(x)
        print("done")
        return x


def get_inputs():
    return [torch.randn(4, 8)]
"""


@pytest.mark.torch
def test_of_a_list_of_times_no_item_is_compared() -> None:
    from tcready.dynamic.worker.proof.behaviour import Behaviour
    from tcready.dynamic.worker.proof.behaviour_differences import difference, restless

    def seen(**state: object) -> Behaviour:
        return Behaviour(state={name.replace("_", "[") + "]" * ("_" in name): each for name, each in state.items()})

    ignored = restless(seen(times_0=0.25, n_0=1), seen(times_0=0.125, n_0=1))
    assert difference(seen(times_1=0.5, n_1=2), seen(times_1=0.75, n_1=2), ignored) is None
    for other in (seen(times_1="0.5", n_1=2), seen(times_1=0.5, n_1=3), seen(times_1=0.5)):
        assert difference(seen(times_1=0.5, n_1=2), other, ignored) is not None


@pytest.mark.torch
def test_modules_that_a_call_makes_for_itself_count_if_they_have_hooks() -> None:
    import torch
    from tcready.dynamic.worker.proof.effects_of_call import observe_call
    from torch import nn

    class Made(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own = nn.ReLU()

        def forward(self, x: torch.Tensor, hooked: bool) -> torch.Tensor:
            norm = nn.LayerNorm(4)
            if hooked:
                norm.register_forward_hook(lambda *_: None)
            norm_of = self.own(norm(x))
            assert isinstance(norm_of, torch.Tensor)
            return norm_of

    model = Made()
    seen = [observe_call(model, model, (torch.ones(2, 4), hooked), {}).modules for hooked in (False, True)]
    assert seen == [{"<Made>": 1, "own": 1}, {"<Made>": 1, "own": 1, "<LayerNorm>": 1}]


@pytest.mark.torch
@pytest.mark.release
def test_modules_that_a_first_call_makes_are_counted_by_their_names(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(REPLACED)
    before = source.of_text(path, REPLACED)
    text = REPLACED.replace('        print("done")\n', "")
    differs = changed(str(path), before, source.of_text(path, text))
    quiet = REPLACED.replace("                made = ", "                made = junk = ")
    same = changed(str(path), before, source.of_text(path, quiet))
    found = prove(
        RunRequest("model.py::Model", RunOptions(inputs="model.py::get_inputs"), str(tmp_path)),
        ProofRequest(
            (
                Variant("before", functions=same.functions, called_before=True),
                Variant("a name more", ((str(path), quiet),), (), same.functions),
                Variant("no print", ((str(path), text),), (), differs.functions),
            ),
            differs.functions,
        ),
    )
    assert found.failure is None
    assert [trial.difference for trial in found.trials][:2] == [None, None]
    assert found.trials[2].differs == "state"


WIDE = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(512, 512)

    def forward(self, x):
        x = self.lin(x)
        print("done")
        return x


def get_inputs():
    return [torch.randn(256, 512)]
"""


@pytest.mark.torch
@pytest.mark.release
def test_other_processes_make_no_change_slow(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(WIDE)
    done = '        print("done")\n'
    quiet = WIDE.replace(done, f"        if not torch.compiler.is_compiling():\n    {done}")
    slow = WIDE.replace(done, f"        self.lin(self.lin(x))\n{done}")
    differs = changed(str(path), source.of_text(path, WIDE), source.of_text(path, quiet))
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(6)]
    try:
        found = prove(
            RunRequest("model.py::Model", RunOptions(inputs="model.py::get_inputs"), str(tmp_path)),
            ProofRequest(
                tuple(
                    Variant(name, ((str(path), text),), (), differs.functions)
                    for name, text in (("quiet", quiet), ("slow", slow))
                ),
                differs.functions,
            ),
        )
    finally:
        for each in busy:
            each.kill()
            each.wait()
    assert found.seconds is not None
    same, more = (trial.seconds or 0.0 for trial in found.trials)
    assert same < found.seconds * 1.5
    assert more > found.seconds * 2


NUMBERS = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.rate = 2.0

    def forward(self, x, power: float = 3.0):
        while x.abs().max() > 4:
            x = x * 0.5
        y = self.norm(x).abs()
        if x.mean() > 0:
            y = y ** power
        return y * self.rate


def get_inputs():
    return [torch.randn(4, 8)]
"""
CHOSEN = """\
        if torch.compiler.is_compiling():
            y = torch.cond(x.mean() > 0, lambda y: y**power, lambda y: y.clone(), (y,))
        elif x.mean() > 0:
            y = y ** power
"""


BRANCH_OF_POWERS = "        if x.mean() > 0:\n            y = y ** power\n"


def of_numbers(
    tmp_path: Path, before: str, *changes: tuple[str, str], alone: bool = False, **options: Any
) -> ProofResult:
    path = tmp_path / "model.py"
    path.write_text(before)
    variants = []
    constants: dict[float | str, None] = {}
    for change in changes:
        assert before.count(change[0]) == 1
        text = before.replace(*change)
        differs = changed(str(path), source.of_text(path, before), source.of_text(path, text))
        variants.append(Variant(change[1], ((str(path), text),), (), differs.functions))
        constants |= dict.fromkeys(differs.constants)
    run = RunRequest("model.py::Model", RunOptions(inputs="model.py::get_inputs", **options), str(tmp_path))
    functions = tuple(dict.fromkeys(place for each in variants for place in each.functions)) if alone else ()
    return prove(run, ProofRequest(tuple(variants), functions, constants=tuple(constants)))


@pytest.mark.torch
@pytest.mark.release
def test_numbers_are_others_and_what_does_not_end_is_left_out(tmp_path: Path) -> None:
    result = of_numbers(
        tmp_path,
        NUMBERS,
        ("y * self.rate", "self.rate * y"),
        ("y * self.rate", "y * 2.0"),
        ("y ** power", "y ** 3.0"),
        (BRANCH_OF_POWERS, CHOSEN),
    )
    assert result.failure is None
    assert "with a NaN" in result.variations
    assert "with an infinity" not in result.variations
    same, kept, given, chosen = result.trials
    assert (same.difference, same.notice) == (None, None)
    for trial in (kept, given, chosen):
        assert "with other numbers" in (trial.difference or "")
    assert (kept.differs, given.differs, chosen.differs) == ("value", "value", "compiled")


READS_A_CLOCK = """\
import time

import torch
from torch import nn


class Model(nn.Module):
    def timed(self, x):
        return time.perf_counter(), x * 2

    def forward(self, x):
        self.begun, y = self.timed(x)
        return y + 1


def get_inputs():
    return [torch.randn(4, 8)]
"""


@pytest.mark.torch
def test_a_clock_that_a_function_returns_is_not_compared(tmp_path: Path) -> None:
    """Two calls of the unmodified function return other times as well."""
    result = of_numbers(
        tmp_path,
        READS_A_CLOCK,
        ("return time.perf_counter(), x * 2", "return time.perf_counter(), x + x"),
        ("return time.perf_counter(), x * 2", "return time.perf_counter(), x * 2.001"),
        alone=True,
    )
    same, other = result.trials
    assert same.difference is None
    assert other.differs == "value"


SIZES = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, mask, count=2):
        length, width = x.shape[1], x.shape[2]
        if x.sum() > 0:
            x = x * length
        return (x + mask.sum(1)[:, :, None])[:, :, :count] / width


def get_inputs():
    return torch.randn(2, 6, 5), torch.ones(2, 6, 6)
"""


@pytest.mark.torch
def test_sizes_and_integers_are_others(tmp_path: Path) -> None:
    result = of_numbers(
        tmp_path,
        SIZES,
        ("x * length", "length * x"),
        ("x * length", "x * 6"),
        ("x.shape[2]\n", "5\n"),
        (":count]", ":2]"),
    )
    assert result.failure is None
    same, length, width, count = (trial.difference for trial in result.trials)
    assert same is None
    assert "longer in dimension 1" in (length or "")
    assert "longer in dimension 2" in (width or "")
    assert "with other numbers" in (count or "")


PARTLY = """\
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Batch:
    x: torch.Tensor
    keep: torch.Tensor


class Model(nn.Module):
    def forward(self, batch, context, labels, count=6, doubled=False):
        x, keep = batch.x, batch.keep
        rows, length = x.shape[0], context.shape[1]
        x = x.masked_fill(~keep[..., None], 0.0)
        seen = (labels != -100).float().mean()
        share = keep.float().mean(1)
        x = x[:, x.shape[1] - count :]
        if doubled:
            x = x * 2
        return x.sum(1) / rows + context.nan_to_num().sum() / length + seen + share[:, None]


def get_inputs():
    keep = torch.ones(3, 6, dtype=torch.bool)
    return Batch(torch.randn(3, 6, 5), keep), torch.randn(3, 7), torch.tensor([1, 2, 3])
"""
PATCHED = {
    "masks inverted, with an infinity": ("x.masked_fill(~keep[..., None], 0.0)", "x * keep[..., None]"),
    "longer in dimension 0": ("batch.x, batch.keep", "batch.x[:3], batch.keep[:3]"),
    "longer in dimension 1 of the last": ("context.shape[1]", "7"),
    "with some -100": ("(labels != -100).float().mean()", "(labels != -100).all().float()"),
    "masks partly true": ("keep.float().mean(1)", "keep.all(1).float()"),
    "with other numbers": ("x.shape[1] - count :", "-count :"),
    "numbers that are zero": ("- count :]", "- (count or 6) :]"),
    "flags inverted": ("        if doubled:\n            x = x * 2\n", ""),
}


@pytest.mark.torch
@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.release)])
def test_what_inputs_as_given_do_not_show(step: int, tmp_path: Path) -> None:
    patched = dict([*PATCHED.items()][::step])
    result = of_numbers(tmp_path, PARTLY, *patched.values())
    assert result.failure is None
    shown = [trial.difference or "" for trial in result.trials]
    assert [name for name, words in zip(patched, shown, strict=True) if name not in words] == []


def test_one_of_three_values_is_the_number() -> None:
    import torch
    from tcready.dynamic.worker.proof.variations import every

    value = (torch.ones(40, dtype=torch.int64), {"x": torch.ones(2, 40), "none": None})
    some, named = every((-100.0,))["with some values -100"](value, torch.Generator().manual_seed(0))
    for found in (some, named["x"]):
        assert 0 < (found == -100).sum() < (found == 1).sum()


def test_masks_of_padding_end_row_by_row() -> None:
    import torch
    from tcready.dynamic.worker.proof.variations import every

    found = every()["padding masks"](torch.zeros(4, 3, dtype=torch.bool), torch.Generator())
    assert found.sum(1).tolist() == [3, 2, 1, 3]
    assert found[:, 0].all()


def test_what_is_as_long_as_a_dimension_becomes_longer_with_it() -> None:
    import torch
    from tcready.dynamic.worker.proof.variations import LONGER, every, fitting

    value = (torch.zeros(2, 4, 4), {"mask": torch.zeros(4), "other": torch.zeros(2, 7)})
    found = every()["longer in dimension 1"](value, torch.Generator())
    assert [each.shape for each in (found[0], *found[1].values())] == [(2, 5, 5), (5,), (2, 7)]
    assert [name for name in fitting(value) if name in LONGER] == [
        "longer in dimension 0",
        "longer in dimension 1",
        "longer in dimension 1 of the last",
        "twice as long in dimension 1",
        "longer in dimension 1 alone",
        "longer in dimension 2 alone",
        "of length one in dimension 1",
        "empty in dimension 1",
        "of length one in dimension 1 of the last",
        "empty in dimension 1 of the last",
        "of length one in dimension 2 of the last, and in no other",
        "empty in dimension 2 of the last, and in no other",
    ]
    for name, shape in (
        ("twice as long in dimension 1", (2, 8, 8)),
        ("longer in dimension 2 alone", (2, 4, 5)),
        ("of length one in dimension 1", (2, 1, 1)),
    ):
        assert every()[name](value, torch.Generator())[0].shape == shape
    index, flag = torch.tensor([3, 0]), torch.tensor([True, False])
    found = every()["longer in dimension 0"]((index, flag), torch.Generator())
    assert [each.tolist() for each in found] == [[3, 0, 2], [True, False, False]]


def test_inner_dimensions_of_the_last_tensor_are_of_length_one_and_empty() -> None:
    import torch
    from tcready.dynamic.worker.proof.variations import every, fitting

    value = torch.zeros(2, 5, 6), torch.zeros(2, 3, 3)
    assert [name for name in fitting(value) if name.endswith(("of the last", "in no other"))] == [
        "longer in dimension 1 of the last",
        "of length one in dimension 1 of the last",
        "empty in dimension 1 of the last",
        "of length one in dimension 1 of the last, and in no other",
        "of length one in dimension 2 of the last, and in no other",
        "empty in dimension 1 of the last, and in no other",
        "empty in dimension 2 of the last, and in no other",
    ]
    first, last = every()["empty in dimension 1 of the last, and in no other"](value, torch.Generator())
    assert (first.shape, last.shape) == ((2, 5, 6), (2, 0, 3))


def test_a_list_with_an_item_for_each_row_has_as_many_as_there_are_rows() -> None:
    import torch
    from tcready.dynamic.worker.proof.variations import every

    value = torch.zeros(3, 4), [5, 2, 7], {"words": ["a", "b", "c"]}, [1, 2], (8, 8, 8)
    for name, rows in (("of length one", 1), ("empty", 0), ("longer in dimension 0", 4)):
        found, lengths, words, other, size = every()[name](value, torch.Generator())
        assert (len(found), lengths) == (rows, [5, 2, 7, 5][:rows])
        assert (words["words"], other, size) == (["a", "b", "c", "a"][:rows], [1, 2], (8, 8, 8))
    assert value[1] == [5, 2, 7]


def test_values_of_objects_and_arrays_are_changed_as_others_are() -> None:
    from collections import UserDict
    from types import SimpleNamespace

    import numpy as np
    import torch
    from tcready.dynamic.worker.proof.input_changes import map_plain
    from tcready.dynamic.worker.proof.variations import every

    batch, encoding = SimpleNamespace(x=torch.ones(2), n=3), UserDict(ids=torch.ones(2))
    holder = SimpleNamespace(inner=batch)
    value = batch, encoding, np.ones(2, dtype=np.float32), holder
    changed = every()["zeros"](value, torch.Generator())
    assert [changed[0].x.sum(), changed[1]["ids"].sum(), changed[2].sum()] == [0, 0, 0]
    assert type(changed[2]) is np.ndarray
    assert [batch.x.sum(), encoding["ids"].sum(), value[2].sum()] == [2, 2, 2]
    assert changed[3] is holder  # it may be an object with a state of its own
    assert map_plain(lambda leaf: leaf + 1 if type(leaf) is int else leaf, batch).n == 4


def test_a_row_of_each_tensor_is_zero_or_not_a_number() -> None:
    import torch
    from tcready.dynamic.worker.proof.variations import every

    value = torch.ones(2, 3, 4), torch.ones(1, 4), torch.ones(4)
    for name, gone in (("with a row of zeros", 0), ("with a row of NaN", torch.nan)):
        first, *others = every()[name](value, torch.Generator())
        assert first[:, :2].eq(1).all()
        assert torch.equal(torch.nan_to_num(first[:, 2], 9), torch.full((2, 4), 9.0 if gone else 0.0))
        assert all(each.eq(1).all() for each in others)


def test_numbers_in_the_code_are_lengths_and_one_less_is_too() -> None:
    import torch
    from tcready.dynamic.worker.proof.variations import every

    lengths = {
        every((4.0,))[f"{n} long in dimension 1"](torch.zeros(2, 9), torch.Generator()).shape[1] for n in (3, 4, 8)
    }
    assert lengths == {3, 4, 8}


@pytest.mark.torch
@pytest.mark.release
def test_a_choice_that_raises_in_training_alone_is_refused(tmp_path: Path) -> None:
    """In training a norm writes to its statistics, which `torch.cond` does not take."""
    before, after = (text.replace("y ** power", "self.norm(y)") for text in (BRANCH_OF_POWERS, CHOSEN))
    after = after.replace("y**power", "self.norm(y)")
    text = NUMBERS.replace(BRANCH_OF_POWERS, before)
    result = of_numbers(tmp_path, text, (before, after))
    assert result.failure is None
    (trial,) = result.trials
    assert trial.differs == "compiled"
    assert "only compiled code raises UncapturedHigherOrderOpError" in (trial.difference or "")
    assert "(training, seed 0, given inputs)" in (trial.difference or "")


@pytest.mark.torch
@pytest.mark.release
def test_what_counts_before_an_exception_is_no_difference_of_compiled_code(tmp_path: Path) -> None:
    """A norm refuses one row in training, and has counted the call by then."""
    result = of_numbers(tmp_path, NUMBERS, ("y * self.rate", "self.rate * y"), mode="train")
    assert result.failure is None
    assert "of length one" in result.variations
    (trial,) = result.trials
    assert trial.difference is None


LOST = """\
import torch
from torch import nn


class Model(nn.Module):
    lost = False

    def forward(self, x):
        if Model.lost or (x < 0).all() or x.isnan().any():
            Model.lost = True
            raise torch.AcceleratorError("CUDA error: device-side assert triggered")
        if x.sum() > 4:
            x = x * 2
        return x + 1


def get_inputs():
    return [torch.rand(4, 8)]
"""
"""What a GPU does once a kernel has failed, in the words that torch has for it: nothing works there any more."""


@pytest.mark.torch
def test_inputs_with_which_a_kernel_fails_are_left_out(tmp_path: Path) -> None:
    result = of_numbers(
        tmp_path,
        LOST,
        ("x = x * 2", "x = 2 * x"),
        ("x = x * 2", "x = x * 3"),
        ("x = x * 2", "x = x * 2 if x.sum() < 9 else -x.abs() - 1\n            self(x)"),
    )
    assert result.failure is None
    assert not {"negated", "with a NaN"} & set(result.variations)
    assert {"given", "large", "shifted up", "zeros"} <= set(result.variations)
    same, wrong, lost = result.trials
    assert same.difference is None
    assert "differs by" in (wrong.difference or "")
    assert "AcceleratorError" in (lost.difference or "")


@pytest.mark.torch
def test_a_model_whose_kernels_fail_is_not_tried(tmp_path: Path) -> None:
    result = of_numbers(tmp_path, LOST.replace("lost = False", "lost = True"), ("x = x * 2", "x = 2 * x"))
    assert "a kernel failed on the device, with inputs given" in (result.failure or "")


CUDA = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        if x.sum() > 4:
            x = x * 2
        return x[(x * 3).long().sum(1)]


def get_inputs():
    return [torch.rand(64, 8)]
"""


@pytest.mark.torch
@pytest.mark.skipif("not __import__('torch').cuda.is_available()", reason="needs a GPU")
def test_a_failed_kernel_on_a_gpu_leaves_the_other_inputs(tmp_path: Path) -> None:
    result = of_numbers(tmp_path, CUDA, ("x = x * 2", "x = 2 * x"), ("x = x * 2", "x = x * 3"), device="cuda")
    assert result.failure is None
    assert "large" not in result.variations
    assert {"given", "zeros", "small"} <= set(result.variations)
    same, wrong = result.trials
    assert same.difference is None
    assert wrong.difference is not None


BUILT = """\
import torch
from torch import nn


class Model(nn.Module):
    total = 0.0

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(8))
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        Model.total += float(x.detach().sum()) / 3
        h = self.norm(x) * self.norm.weight
        return h * self.scale.exp()


def get_inputs():
    return [torch.randn(4, 8)]
"""


@pytest.mark.torch
@torch_between((2, 13), (2, 99), "Dynamo raises AssertionError at a class attribute that is added to after a break")
def test_weights_are_others_than_those_of_the_build(tmp_path: Path) -> None:
    result = of_numbers(
        tmp_path,
        BUILT,
        ("h * self.scale.exp()", "self.scale.exp() * h"),
        ("h * self.scale.exp()", "h * (1 + self.scale)"),
        ("self.norm(x) * self.norm.weight", "self.norm(x)"),
    )
    assert result.failure is None
    same, built, ones = result.trials
    assert same.difference is None
    for trial in (built, ones):
        assert "weights" in (trial.difference or "")


@pytest.mark.torch
def test_a_sum_that_grows_is_no_clock(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(BUILT)
    without = BUILT.replace("        Model.total += float(x.detach().sum()) / 3\n", "")
    functions = changed(str(path), source.of_text(path, BUILT), source.of_text(path, without)).functions
    result = prove(
        RunRequest("model.py::Model", RunOptions(inputs="model.py::get_inputs"), str(tmp_path)),
        ProofRequest((Variant("without", ((str(path), without),), (), functions),), functions),
    )
    assert result.failure is None
    assert "model.Model.total exists in one of the two calls only" in (result.trials[0].difference or "")


UNSTEADY = """\
import os

import torch
from torch import nn


@torch.compiler.disable
def noise(x, size):
    generator = torch.Generator().manual_seed(int.from_bytes(os.urandom(4), "big"))
    return 1 + size * torch.rand(x.shape, generator=generator)


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * noise(x, SIZE)

    @staticmethod
    def backward(ctx, grad):
        return grad * noise(grad, SIZE)


class Model(nn.Module):
    def forward(self, x):
        if x.sum() > 4:
            x = x * 2
        y = Sum.apply(x + 1)
        return y, x * 3


def get_inputs():
    return [torch.rand(64, 8).requires_grad_()]
"""


@pytest.mark.torch
@pytest.mark.release
def test_what_each_call_rounds_otherwise_may_be_rounded_otherwise(tmp_path: Path) -> None:
    same = ("x = x * 2", "x = 2 * x")
    others = (
        ("y = Sum.apply(x + 1)", "y = Sum.apply(x + 1) * 1.001"),
        ("return y, x * 3", "return y, x * 3.00003"),
        ("return grad * noise", "return 1.001 * grad * noise"),
    )
    result = of_numbers(tmp_path, UNSTEADY.replace("SIZE", "1e-5"), same, *others)
    assert result.failure is None
    assert [trial.difference is None for trial in result.trials] == [True, False, False, False]
    far = of_numbers(tmp_path, UNSTEADY.replace("SIZE", "1e-2"), same)
    assert "two calls of the unmodified model with the same seed differ" in (far.failure or "")
