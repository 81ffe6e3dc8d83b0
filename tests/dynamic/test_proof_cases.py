"""Patches that were written to deceive a proof, and right ones that it refused: each in a folder of `fixtures/prove`,
those that are right in folders that begin with `r_` or `r` and a number."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tcready import api

FOLDER = Path(__file__).parents[2] / "fixtures" / "prove"
pytestmark = [pytest.mark.torch, pytest.mark.slow]

CONDITIONS = {
    "r05_numpy_abs_mean": "for empty inputs: other text is printed",
    "r06_stack_loop": "for empty inputs: it no longer raises RuntimeError: stack expects a non-empty TensorList",
    "r08_constant_hoisted": "with float64 as the default dtype: output 0",
    "r_guarded_print_of_max": "for empty inputs: compiled code differs from eager code",
    "r14_check_as_assert": "that compiled code raises RuntimeError where eager code raises ValueError",
}
"""What the right ones hold except for."""


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", sorted(path.name for path in FOLDER.iterdir()))
def test_a_patch_is_judged_as_its_name_says(case: str, tmp_path: Path) -> None:
    shutil.copytree(FOLDER / case, tmp_path / case)
    patch = (tmp_path / case / "change.patch").read_text("utf-8")
    change = api.prove(patch, "model.py::Model", root=tmp_path / case)
    assert not isinstance(change, str), change
    is_right = re.match(r"r[_\d]", case) is not None
    assert api.holds(change) is is_right, change.reason
    if case in CONDITIONS:
        assert CONDITIONS[case] in (change.condition or "")


def test_calls_that_differ_in_the_same_way_are_described_together() -> None:
    from tcready.dynamic.worker.proof.trace import describe_conditions

    assert describe_conditions({}) is None
    assert (
        describe_conditions({"for empty inputs": "a", "in train mode": "b"}) == "for empty inputs: a; in train mode: b"
    )
    many = {f"for inputs {number}": "a warning" for number in range(9)}
    assert describe_conditions(many) == "for inputs 0, for inputs 1, in 7 other kinds of calls: a warning"
    three = {f"for inputs {number}": "a warning" for number in range(3)}
    assert describe_conditions(three) == "for inputs 0, for inputs 1, for inputs 2: a warning"
