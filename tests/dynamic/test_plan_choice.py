"""Which placement a plan recommends, and by what: made-up shares and times."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tcready.dynamic.worker.plan.choice import PlacementChoice, SteadyTimes, choose, worth_timing
from tcready.schema.run import Placement

WHOLE = Placement(
    "whole", "model.compile()", 1.0, 1, 0, True, "", time_share=1.0, compile_seconds=10.0, backend="inductor"
)
BLOCKS = replace(
    WHOLE, name="repeated_blocks", code="for module in model.blocks:\n    module.compile()", compile_seconds=1.0
)
NESTED = replace(WHOLE, name="nested", code="block = type(model.a)\nmodel.compile()", compile_seconds=5.0)
REGIONS = replace(WHOLE, name="regions", code="model.a.compile()", compile_seconds=1.0)
STEADY = (3.0e-3, 3.1e-3, 3.2e-3, 3.1e-3)


def times(rounds: dict[Placement, tuple[float, ...]], missing: str = "") -> SteadyTimes:
    return SteadyTimes({placement.code: seconds for placement, seconds in rounds.items()}, missing)


def slower(ratio: float) -> tuple[float, ...]:
    return tuple(ratio * seconds for seconds in STEADY)


def choice(placements: list[Placement], measured: SteadyTimes | None = None) -> PlacementChoice:
    found = choose(placements, measured)
    assert found is not None
    return found


@pytest.mark.parametrize("seconds", [(10.0, 1.0, 5.0), (1.0, 10.0, 5.0), (None, 0.1, 0.1)])
def test_seconds_of_compiling_decide_nothing(seconds: tuple[float | None, ...]) -> None:
    placements = [
        replace(placement, compile_seconds=taken)
        for placement, taken in zip((WHOLE, BLOCKS, NESTED), seconds, strict=True)
    ]
    found = choice(placements, SteadyTimes(missing="the machine was busy"))
    assert found.placement.name == "whole"
    assert found.chosen_by == "by simplicity: no time was measured: the machine was busy"
    assert "as with repeated blocks" in found.reason


def test_shares_of_time_within_the_noise_decide_nothing() -> None:
    noisy = [replace(WHOLE, time_share=0.94), replace(REGIONS, share=0.995, time_share=0.98)]
    assert choice(noisy).placement.name == "whole"
    heavy = [replace(WHOLE, share=0.9, time_share=0.5), replace(REGIONS, share=0.905, time_share=0.9)]
    assert choice(heavy).placement.name == "regions"
    assert choice(heavy).reason.endswith("as with others, and it holds the most time")


def test_what_is_faster_in_each_round_is_recommended_with_both_times() -> None:
    found = choice([WHOLE, BLOCKS], times({WHOLE: slower(1.1), BLOCKS: STEADY}))
    assert found.placement.name == "repeated_blocks"
    assert found.chosen_by == "by measured steady time: 3.10 ms against 3.41 ms of model.compile()"


@pytest.mark.parametrize(
    "rounds",
    [{WHOLE: slower(1.04), BLOCKS: STEADY}, {WHOLE: (*slower(1.5)[:3], STEADY[3]), BLOCKS: STEADY}],
    ids=["too little", "not in each round"],
)
def test_what_may_be_noise_leaves_the_simplest(rounds: dict[Placement, tuple[float, ...]]) -> None:
    found = choice([WHOLE, BLOCKS], times(rounds))
    assert found.placement.name == "whole"
    assert found.chosen_by.startswith("by simplicity: ")
    assert found.chosen_by.endswith("3.10 ms of repeated blocks")


def test_two_rounds_say_nothing() -> None:
    found = choice([WHOLE, BLOCKS], times({WHOLE: slower(2.0)[:2], BLOCKS: STEADY[:2]}))
    assert (found.placement.name, found.chosen_by) == ("whole", "by simplicity: no time was measured")


def test_the_simplest_that_is_faster_is_chosen_by_time_too() -> None:
    found = choice([WHOLE, BLOCKS, NESTED], times({WHOLE: STEADY, BLOCKS: slower(2.6), NESTED: slower(1.3)}))
    assert found.placement.name == "whole"
    assert (
        found.chosen_by
        == "by measured steady time: 3.10 ms against 4.03 ms of whole model, repeated blocks traced once"
    )


def test_what_captures_more_is_not_recommended_if_the_whole_model_is_faster() -> None:
    breaking = replace(WHOLE, share=0.8)
    found = choice([breaking, REGIONS], times({breaking: STEADY, REGIONS: slower(2.6)}))
    assert found.placement.name == "whole"
    assert found.reason == "80.0% of the operations run in graphs; regions would have 100.0%, and is slower"
    assert found.chosen_by == "by measured steady time: 3.10 ms against 8.06 ms of model.a.compile()"
    unsure = times({breaking: STEADY, REGIONS: (*slower(1.2)[:3], STEADY[3])})
    assert choice([breaking, REGIONS], unsure).placement.name == "whole", "its median is slower"


def test_what_captures_more_is_recommended_without_a_time() -> None:
    breaking = replace(WHOLE, share=0.8)
    for measured in (None, times({breaking: slower(1.2), REGIONS: STEADY})):
        found = choice([breaking, REGIONS], measured)
        assert found.placement.name == "regions"
        assert found.chosen_by.startswith("by what it captures")


def test_a_placement_without_times_is_compared_with_none() -> None:
    found = choice([WHOLE, BLOCKS, NESTED], times({WHOLE: slower(1.5), NESTED: STEADY}, "it raised"))
    assert found.placement.name == "nested"
    assert "model.compile()" in found.chosen_by
    found = choice([WHOLE, BLOCKS], times({WHOLE: STEADY}, "it raised"))
    assert found.chosen_by == "by simplicity: no time was measured: it raised"


def test_what_is_out_is_neither_timed_nor_recommended() -> None:
    out = replace(BLOCKS, sound=False, reason="raised")
    assert worth_timing([WHOLE, out]) == []
    assert choice([WHOLE, out], times({WHOLE: slower(2.0), BLOCKS: STEADY})).placement.name == "whole"


def test_times_are_taken_of_those_that_capture_alike_and_of_the_whole_model() -> None:
    assert worth_timing([]) == []
    assert worth_timing([WHOLE]) == []
    assert worth_timing([WHOLE, replace(REGIONS, code=WHOLE.code)]) == [], "the same code"
    breaking, little = replace(WHOLE, share=0.8), replace(NESTED, share=0.7)
    assert worth_timing([breaking, REGIONS, BLOCKS, little]) == [REGIONS, BLOCKS, breaking]
