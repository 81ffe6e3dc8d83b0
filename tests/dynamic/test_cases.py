"""What one named case does, fails or hangs, leaves the others' results."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from observing import observe_target, report_of
from tcready import exit_code
from tcready.schema.observation import Observation, Stage

pytestmark = pytest.mark.torch

SOURCE = """\
import os
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, how: int):
        y = x * 2
        if how == 1:
            {what}
        if y.sum() > 0:  # breaks
            y = y + how
        return y


def get_inputs():
    cases = {{name: (torch.ones(2), how) for how, name in enumerate(("good", "bad", "other"))}}
    return {{"cases": cases}}
"""


def run(root: Path, what: str, **options: object) -> Observation:
    (root / "model.py").write_text(SOURCE.format(what=what), "utf-8")
    return observe_target("model.py::Model", inputs="model.py::get_inputs", root=root, **options)


def stage(seen: Observation, name: str) -> Stage:
    return next(stage for stage in seen.stages if stage.stage == name)


@pytest.mark.parametrize(
    ("what", "why", "reason"),
    [
        pytest.param("os._exit(7)", "case bad: the process exited with code 7", "exit", marks=pytest.mark.release),
        ("import ctypes; ctypes.string_at(0)", "case bad: the process died by SIGSEGV", "crash"),
        ("raise ValueError('no such thing')", "case bad: ValueError: no such thing (model.py:10)", "error"),
    ],
)
def test_a_case_that_ends_leaves_the_others(tmp_path: Path, what: str, why: str, reason: str) -> None:
    seen = run(tmp_path, what)
    assert stage(seen, "eager").reason == reason
    assert stage(seen, "eager").state == "fail"
    assert stage(seen, "eager").detail.startswith(why)
    assert stage(seen, "capture").state == "pass"
    assert {site.case for site in seen.break_sites} == {"good", "other"}
    assert seen.coverage is not None


@pytest.mark.release
def test_a_case_that_hangs_has_its_share_of_the_time(tmp_path: Path) -> None:
    seen = run(tmp_path, "__import__('time').sleep(999)", timeout=60.0)
    detail = stage(seen, "eager").detail
    assert stage(seen, "eager").reason == "timeout"
    assert detail.startswith("case bad: no answer within 20 s, its share of 60 s")
    assert "model.py:10" in detail
    assert {site.case for site in seen.break_sites} == {"good", "other"}


def test_a_stage_that_ended_the_process_has_its_seconds(tmp_path: Path) -> None:
    seen = run(tmp_path, "import time; time.sleep(0.5); os.kill(os.getpid(), 9)")
    took = stage(seen, "eager").seconds
    assert stage(seen, "eager").reason == "crash"
    assert took is not None
    assert took > 0.5
    # Two workers: the second one ran the cases that were left, and is what the other stages are of.
    assert seen.seconds is not None
    assert seen.seconds > sum(each.seconds or 0.0 for each in seen.stages)


@pytest.mark.parametrize(
    ("items", "why"),
    [
        ("2048", "items is 2048: expected {'unit': 'tokens', 'count': 2048}, or one such mapping for each case"),
        ("{'unit': 'tokens'}", "items: the keys are unit: expected unit and count"),
        ("{'unit': '', 'count': 1}", "items: the unit is '': expected a short text such as 'tokens'"),
        ("{'unit': 'tokens', 'count': True}", "items: the count is True: expected a number above 0"),
        (
            "{'one': {'unit': 'tokens', 'count': torch.ones(1)}}",
            "items of the case one: the count is a Tensor: expected a number above 0",
        ),
        (
            "{'on': {'unit': 'tokens', 'count': 1}}",
            "items names the case on, which the inputs do not: did you mean one?",
        ),
    ],
)
def test_items_that_say_nothing_are_refused_in_one_line(items: str, why: str) -> None:
    import torch
    from tcready.dynamic.worker.core.case import RunError
    from tcready.dynamic.worker.core.request import Work
    from tcready.dynamic.worker.inputs.loading import cases
    from tcready.portable.options import RunOptions

    given = {"cases": {"one": torch.ones(2)}, "items": eval(items, {"torch": torch})}
    with pytest.raises(RunError) as raised:
        cases(given, "--inputs", Work("model.py", RunOptions(), "/"))
    assert str(raised.value) == why


def test_items_are_of_all_cases_or_of_each() -> None:
    import torch
    from tcready.dynamic.worker.core.request import Work
    from tcready.dynamic.worker.inputs.loading import cases
    from tcready.portable.options import RunOptions
    from tcready.schema.bench import Items

    def found(items: object) -> list[Items | None]:
        given = {"cases": {"one": torch.ones(2), "two": torch.ones(3)}, "items": items}
        return [case.items for case in cases(given, "--inputs", Work("model.py", RunOptions(), "/"))]

    tokens = Items("tokens", 2048, "tokens: 2,048, given with the inputs")
    assert found({"unit": "tokens", "count": 2048}) == [tokens, tokens]
    assert found({"two": {"unit": "tokens", "count": 2048}}) == [None, tokens]


@pytest.mark.slow
@pytest.mark.release
def test_a_case_that_hangs_while_it_is_compiled_says_nothing_of_compiling(tmp_path: Path) -> None:
    seen = run(tmp_path, "torch.compiler.is_compiling() and __import__('time').sleep(999)", timeout=60.0)
    assert stage(seen, "eager").state == "pass"
    capture = stage(seen, "capture")
    assert capture.detail.startswith("case bad: no answer within 20 s")
    assert (capture.state, capture.reason) == ("fail", "timeout")
    report = report_of(seen)
    assert [target.verdict for target in report.targets] == ["unknown"]
    assert exit_code(report) == 2


def test_what_gave_the_inputs(tmp_path: Path) -> None:
    assert run(tmp_path, "pass").inputs_from == "option"
    found = observe_target("model.py::Model", root=tmp_path)
    assert found.inputs_from == "convention"
    (tmp_path / "bare.py").write_text(
        dedent("""\
        from torch import nn


        class Net(nn.Identity):
            pass
    """)
    )
    bare = observe_target("bare.py::Net", root=tmp_path, synthesise=True)
    assert bare.inputs_from == "made_up"
    assert {item.stage: item.reason for item in bare.stages} == {
        "parse": None,
        "import": None,
        "build": None,
        "eager": None,
        "capture": None,
        "fullgraph": None,
        "shapes": "not_asked",
        "plan": "not_asked",
        "backend": "not_asked",
        "parity": None,
        "speed": "not_asked",
    }


DRAWN = """\
import random
import numpy as np
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * random.random() + float(np.random.rand())


def get_inputs():
    return [torch.ones(2)]
"""


def test_random_numbers_of_python_and_numpy_begin_anew_with_each_call(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(DRAWN, "utf-8")
    seen = observe_target("model.py::Model", inputs="model.py::get_inputs", root=tmp_path)
    assert (stage(seen, "parity").state, stage(seen, "parity").detail) == ("pass", "1 tensor within tolerance")
