"""The smallest call with which a refuted patch differs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tcready import api

FOLDER = Path(__file__).parents[2] / "fixtures" / "prove"
pytestmark = pytest.mark.torch


def test_a_size_is_cut_wherever_it_occurs() -> None:
    import torch
    from tcready.dynamic.worker.proof.smaller_cases import Step, cost_of, simplified, steps_for

    given = ([torch.arange(12.0).view(3, 4), torch.arange(3)], {"n": 10_002, "name": "a", "on": True})
    (one, other), rest = simplified(given, (Step("cut", size=3, first=2, last=3), Step("number", leaf=2, number=9)))
    assert one.tolist() == [[8.0, 9.0, 10.0, 11.0]]
    assert other.tolist() == [2]
    assert rest == {"n": 9, "name": "a", "on": True}
    assert given[0][0].shape == (3, 4), "the given ones stay as they are"
    (one, _), _ = simplified(([torch.tensor([0.26, float("nan")]), 1], {}), (Step("tenths", leaf=0),))
    assert one[0].item() == pytest.approx(0.3)
    assert one[1].isnan()
    steps = [*steps_for(given)]
    assert len(steps) == len(set(steps))
    assert Step("number", leaf=2, number=10_002 // 2**10) in steps
    assert any(cost_of(simplified(given, (step,))) < cost_of(given) for step in steps)


def test_nothing_is_left_to_simplify() -> None:
    import torch
    from tcready.dynamic.worker.proof.smaller_cases import steps_for

    assert [*steps_for(((), {"name": "a", "on": True, "none": None}))] == []
    assert {step.kind for step in steps_for(((torch.zeros(1, dtype=torch.int64),), {}))} == {"zeros", "ones"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "code", "shape", "arguments"),
    [
        ("min_of_int", "value", (1, 1, 8), {"steps": "9"}),  # the limit is 8
        ("thr_vector2", "value", (1, 1, 1), {"x": "[[[0.25]]]"}),  # the first of the thresholds
    ],
)
def test_a_refuted_patch_comes_with_the_smallest_call(
    case: str, code: str, shape: tuple[int, ...], arguments: dict[str, str], tmp_path: Path
) -> None:
    shutil.copytree(FOLDER / case, tmp_path / case)
    patch = (tmp_path / case / "change.patch").read_text("utf-8")
    change = api.prove(patch, "model.py::Model", root=tmp_path / case)
    assert not isinstance(change, str), change
    data = json.loads(api.render(change, "json"))
    assert (data["holds"], data["state"], data["code"]) == (False, "refuted", code)
    found = data["counterexample"]
    assert found["smaller"]
    assert found["tried"] > 0
    values = {each["name"]: each for each in found["arguments"]}
    assert tuple(values["x"]["shape"]) == shape
    assert {name: values[name]["value"] for name in arguments} == arguments
    before, after = found["before"], found["after"]
    assert before["raises"] is after["raises"] is None
    assert before["outputs"][0]["value"] != after["outputs"][0]["value"]
    assert "smallest call of the model that differs" in api.render(change, "text")
