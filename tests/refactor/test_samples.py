"""The BAD samples of every rule, written anew by its own rewrite, under the real Dynamo."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from reading import RULES
from sample_runner import eager, run
from tcready import api
from tcready.installed import page_of
from tcready.refactor.example import example, rewritten
from tcready.static.rule import Rule, Sample

REWRITING = [rule for rule in RULES if rule.rewrite is not None]

OTHER_NUMBERS = frozenset({"TCR306"})
"""Rules whose rewrite draws other random numbers, and is told to be unsafe for that."""


def samples() -> Iterator[object]:
    for rule in REWRITING:
        for number, sample in enumerate(rule.bad):
            yield pytest.param(rule, sample, id=f"{rule.code}-bad{number}")


@pytest.mark.dynamo
@pytest.mark.parametrize(("rule", "sample"), [*samples()])
def test_a_sample_written_anew_gives_the_same_and_does_not_show_the_hazard(
    rule: Rule, sample: Sample, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Only what the rule finds in it still, because its rewrite declines that, breaks."""
    import torch

    made = rewritten(rule, sample)
    if made is None or rule.recorded or rule.unproved or rule.effect not in ("graph_break", "frame_skip"):
        pytest.skip("the rule declines, or shows something else than a break")
    name = re.sub(r"\W", "_", request.node.callspec.id)
    before, after = tmp_path / f"{name}_before.py", tmp_path / f"{name}_after.py"
    anew = replace(sample, source=made.after, setup="", raises="")
    expected = eager(sample, before)
    if rule.code not in OTHER_NUMBERS:
        torch.testing.assert_close(eager(anew, after), expected)
    seen = run(anew, after, calls=1)
    if rule.code not in OTHER_NUMBERS:
        torch.testing.assert_close(seen.outputs[0], expected[0])
    found = api.check([after.name], run=False, root=tmp_path).findings
    left = {each.line for each in found if each.rule == rule.code}
    assert {each.line for each in seen.breaks} == left


@pytest.mark.parametrize("rule", REWRITING, ids=lambda rule: rule.code)
def test_a_rule_with_a_rewrite_writes_a_sample_anew(rule: Rule) -> None:
    made = example(rule)
    assert made is not None
    assert rule.no_rewrite is None
    shown = "\n".join(f"    {line}".rstrip() for line in made.after.splitlines())
    assert shown in page_of(rule)


def test_a_rule_without_says_why_where_it_does() -> None:
    rule = next(rule for rule in RULES if rule.no_rewrite)
    assert page_of(rule).endswith(f"## Rewrite\n\n{rule.no_rewrite}\n")


def test_each_rule_has_a_rewrite_or_says_why_not() -> None:
    wrong = [rule.code for rule in api.load_rules() if (rule.rewrite is None) != bool(rule.no_rewrite)]
    assert wrong == []
