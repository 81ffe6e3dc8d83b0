"""The BAD samples of every rule, written anew by its own rewrite, under the real Dynamo."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from reading import RULES
from sample_runner import eager, run
from tcready import api
from tcready.fixes.rewriting.page_example import example, rewritten
from tcready.fixes.rewriting.suggestions import at_line
from tcready.pipeline.registry import page_of
from tcready.static.diagnostics.cst_view import Concrete
from tcready.static.diagnostics.rule import Rule
from tcready.static.diagnostics.rule_page import Sample
from tcready.static.frontend import source

REWRITING = [rule for rule in RULES if rule.rewriters]

OTHER_NUMBERS = frozenset({"TCR306"})
"""Rules whose rewrite draws other random numbers, and is told to be unsafe for that."""


FLOATS = ("x.abs()", "-x.abs()", "x * 0", "x * 300", "x.abs() / x.abs().max()")
"""What a tensor of floats is varied to: branches of a sample go one way with some of these and the other way with others."""
MASKS = ("m", "~m", "m | ~m", "m & ~m")
"""The same of a mask."""


def varied(sample: Sample) -> Iterator[str]:
    """Arguments that take other sides of its branches, as expressions."""
    given = "lambda x, *rest: ({x}, *({m} if m.dtype == torch.bool else m for m in rest))"
    for x in FLOATS:
        for m in MASKS if "True" in sample.inputs else MASKS[:1]:
            yield f"({given.format(x=x, m=m)})(*{sample.inputs})"


def outcome(calls: Callable[[], Any]) -> Any:
    """What comes out, or what is raised."""
    try:
        return calls()
    except Exception as error:
        return error


def samples(short: int | None = None) -> Iterator[object]:
    """Every sample; those with more than `short` marked lines are `long`, because Dynamo resumes after each line."""
    for rule in REWRITING:
        for number, sample in enumerate(rule.bad):
            is_long = short is not None and sample.source.count("# BAD") > short
            yield pytest.param(
                rule, sample, id=f"{rule.code}-bad{number}", marks=pytest.mark.release if is_long else ()
            )


@pytest.mark.torch
@pytest.mark.parametrize(("rule", "sample"), [*samples()])
def test_a_sample_written_anew_gives_the_same_and_does_not_show_the_hazard(
    rule: Rule, sample: Sample, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Only what the rule finds in it still, because its rewrite declines that, breaks."""
    import torch

    made = rewritten(rule, sample)
    if made is None or sample.torch or rule.unproved or rule.effect not in ("graph_break", "frame_skip"):
        pytest.skip("the rule declines, or shows something else than a break")
    name = re.sub(r"\W", "_", request.node.callspec.id)
    before, after = tmp_path / f"{name}_before.py", tmp_path / f"{name}_after.py"
    # an operator is defined once in a process: the one that is told of needs a name of its own
    anew = replace(sample, source=made.after.replace("tcready_bare", "tcready_told_of"), setup="", raises="")
    expected = eager(sample, before)
    if rule.code not in OTHER_NUMBERS:
        torch.testing.assert_close(eager(anew, after), expected)
    seen = run(anew, after, calls=1)
    if rule.code not in OTHER_NUMBERS:
        torch.testing.assert_close(seen.outputs[0], expected[0])
    found = api.check([after.name], run=False, root=tmp_path).findings
    left = {each.line for each in found if each.rule == rule.code}
    assert {each.line for each in seen.breaks} == left


@pytest.mark.torch
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("rule", "sample"), [*samples(short=8)])
def test_a_sample_written_anew_gives_the_same_on_both_sides_of_its_branches(
    rule: Rule, sample: Sample, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Eager code before the rewrite against eager and compiled code after it, what is raised among it."""
    import torch

    made = rewritten(rule, sample)
    if made is None or sample.torch or rule.unproved or rule.code in OTHER_NUMBERS:
        pytest.skip("the rule declines, or draws other numbers")
    if rule.effect not in ("graph_break", "frame_skip"):
        pytest.skip("it shows something else than a break")
    name = re.sub(r"\W", "_", request.node.callspec.id)
    before, after = tmp_path / f"{name}_before.py", tmp_path / f"{name}_after.py"
    for inputs in varied(sample):
        old = replace(sample, inputs=inputs, again=None)
        new = replace(old, source=made.after, setup="", raises="")
        expected = outcome(lambda old=old: eager(old, before)[:1])
        given = outcome(lambda new=new: eager(new, after)[:1])
        compiled = outcome(lambda new=new: run(new, after, calls=1).outputs)
        if isinstance(expected, Exception):
            assert type(given) is type(expected)
            assert str(given) == str(expected) or not re.search(r"\b(raise|assert) ", sample.source)
            assert isinstance(compiled, Exception)  # of which type, is told of a rewrite as not safe
        else:  # what is near zero beside numbers 300 times as large is rounded as these are
            torch.testing.assert_close(given, expected, equal_nan=True, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(compiled, expected, equal_nan=True, rtol=1e-4, atol=1e-5)


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
    wrong = [rule.code for rule in api.load_rules() if bool(rule.rewriters) == bool(rule.no_rewrite)]
    assert wrong == []


@pytest.mark.slow
def test_no_rewrite_raises_on_any_line() -> None:
    """Dynamo may break on lines for which no rule was written: `read()` of a method that is kept."""
    folder = Path(__file__).resolve().parents[2] / "fixtures" / "tricky"
    rules = [rule for rule in api.load_rules() if rule.rewriters]
    ways = 0
    for path in [folder / "hidden_bound_method_kept.py", *sorted(folder.glob("*.py"))[::12]]:
        text = path.read_text("utf-8")
        concrete = Concrete(source.of_text(path, text))
        for line in range(1, text.count("\n") + 1):
            ways += len(list(at_line(concrete, path.name, line, rules)))
    assert ways > 1000
