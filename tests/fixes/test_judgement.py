"""What a trial says of a change: each way in which one may fail to hold."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import pytest
from tcready.fixes.rewriting.changes import LineMap
from tcready.fixes.rewriting.judgement import Judgement, judge_trial
from tcready.schema.enums import StageState
from tcready.schema.observation import Observation, Stage
from tcready.schema.proof import ProofRequest, ProofResult, SidesTaken, Span, Trial
from tcready.schema.run import BreakSite, Coverage, LineSet, Recompile

BEFORE = dedent("""\
    a
    if t:
        b
    c
    d
""")
AFTER = dedent("""\
    a
    where
    c
    d
""")
TEST = Span("/m.py", 2, 4, 2, 5)


def observation(lines: tuple[int, ...], share: float = 0.5, fullgraph: StageState = "not_run") -> Observation:
    sites = tuple(BreakSite("m.py", line, "f", "why", "GB0170", 1, "own", ()) for line in lines)
    stages = (Stage("capture", "pass", ""), Stage("fullgraph", fullgraph, ""))
    coverage = Coverage(10, int(10 * share), share)
    traced = (LineSet("m.py", ((1, 4),)),)
    return Observation("m.py", None, "infer", stages, {}, sites, coverage=coverage, traced=traced)


def of(
    after: Observation,
    before: Observation | None = None,
    trial: Trial | None = None,
    taken: tuple[int, int, int, int] = (1, 1, 0, 0),
    keeps_out: bool = False,
    fewer_compiles: bool = False,
) -> Judgement:
    result = ProofResult(sides=(SidesTaken(TEST, *taken),), seconds=1e-3)
    return judge_trial(
        before or observation((2, 5)),
        replace(trial or Trial("x", after, calls=3), observation=after),
        result,
        ProofRequest(()),
        (TEST,),
        {"m.py": LineMap(BEFORE, AFTER)},
        {"/m.py": ("m.py", BEFORE)},
        keeps_out=keeps_out,
        fewer_compiles=fewer_compiles,
    )


def test_less_compiling_is_a_gain_if_no_line_breaks_that_did_not() -> None:
    def again(seen: Observation, *reasons: str) -> Observation:
        return replace(seen, recompiles=(Recompile("m.py", 1, "f", reasons),) if reasons else ())

    before, broken = again(observation((5,)), "n == 0", "n == 1"), observation((4,))
    found = of(again(broken, "n == 0"), before, fewer_compiles=True)
    assert (found.state, found.reason) == ("proved", None)
    assert found.proof is not None
    assert (found.proof.compiled_again_before, found.proof.compiled_again_after) == (2, 1)
    for reasons in (("n == 0", "n == 1"), ("n == 0", "n == 1", "n == 2")):
        found = of(again(broken, *reasons), before, fewer_compiles=True)
        assert found.reason == f"functions recompile {len(reasons)} times, 2 times before the change"
    found = of(again(observation((1, 4))), before, fewer_compiles=True)
    assert found.reason == "Dynamo breaks the graph at a line where it did not before (m.py:1)"
    found = of(again(observation((4,), 0.4)), before, fewer_compiles=True)
    assert (found.reason or "").startswith("fewer operations are captured")


def test_a_break_that_is_gone_is_proved_though_another_is_left() -> None:
    found = of(observation((4,), 0.6))
    assert (found.state, found.reason, found.unsafe) == ("proved", None, None)
    assert (found.proof.breaks_before, found.proof.breaks_after) == (2, 1)
    assert [(side.text, side.true, side.false, side.alone) for side in found.proof.sides] == [("t", 1, 1, False)]


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (observation((2, 4)), "Dynamo breaks the graph in the new code (m.py:2)"),
        (observation((1, 4)), "Dynamo breaks the graph at a line where it did not before (m.py:1)"),
        (observation((4,), 0.4), "fewer operations are captured in graphs: 40.0%, 50.0% before the change"),
        (replace(observation((4,)), stages=(Stage("capture", "fail", "no", reason="error"),)), "capture: no"),
        (replace(observation((4,)), stages=()), "Dynamo did not capture the changed code"),
    ],
)
def test_a_change_that_does_not_hold_says_why(after: Observation, words: str) -> None:
    assert (of(after).state, of(after).reason) == ("refuted", words)


def test_a_break_that_stays_and_a_fullgraph_that_is_lost() -> None:
    assert of(observation((4,)), observation((5,))).reason == "Dynamo still breaks the graph there"
    whole = observation((), 1.0, "pass")
    assert (
        of(observation((), 1.0, "fail"), whole).reason
        == "`fullgraph=True` compiles before the change, and fails with it"
    )


def test_what_lay_behind_a_break_was_not_traced_and_is_no_new_break() -> None:
    assert of(observation((4,)), observation((2,))).state == "proved", "line 5 was never traced"


def test_a_side_that_no_inputs_took() -> None:
    assert of(observation((4,)), taken=(0, 9, 0, 0)).reason == "no inputs were found that make `t` true (line 2)"
    assert of(observation((4,)), taken=(9, 0, 0, 0)).state == "one_side"
    alone = of(observation((4,)), taken=(0, 9, 2, 0))
    assert (alone.state, alone.proof.sides[0].alone) == ("proved", True)


def test_what_a_caller_notices_all_the_same() -> None:
    slow = Trial("x", observation(()), seconds=1.2e-3)
    assert of(observation((4,)), trial=slow).unsafe == "an eager call takes 1.20 times as long"
    raising = Trial("x", observation(()), raises="A became B")
    assert of(observation((4,)), trial=raising).unsafe == "another exception: A became B"
    differs = Trial("x", observation(()), difference="other values", differs="value")
    assert (of(observation((4,)), trial=differs).state, of(observation((4,)), trial=differs).reason) == (
        "refuted",
        "other values",
    )


def test_what_keeps_a_function_out_must_win_something() -> None:
    assert of(observation((1, 2, 4), 0.9), keeps_out=True).state == "proved"
    kept = of(observation((1, 2, 4), 0.5), keeps_out=True)
    assert kept.reason == "no more operations are captured in graphs: 50.0%, 50.0% before the change"
