"""From planted answers of processes to verdicts, reasons, checklist and recommendation."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from bench_noise import Trouble, timed
from tcready.bench.assembly import assemble_bench, more_processes
from tcready.bench.regression import find_regressions
from tcready.bench.remedies import RISKS, remedies_for
from tcready.bench.request_parts import BenchWanted
from tcready.bench.verdicts import Limits
from tcready.pipeline.comparison import compare_benches
from tcready.reports.bench.bench_view import carried_in_short, carried_sentences, ways
from tcready.schema.bench import (
    Arm,
    ArmBench,
    ArmMeasured,
    Bench,
    BenchAnswer,
    BenchKind,
    BenchProcess,
    BenchPurpose,
    BenchRequest,
    CarriedCode,
    CheckItem,
    ColdStart,
    Figure,
    Items,
    LoaderShare,
    MemoryUse,
    ParityMeasured,
    Profile,
    Soak,
)
from tcready.schema.codec import as_json, from_json
from tcready.schema.enums import EAGER

QUIET = Trouble(process=0.01, arm=0.001, drift=0.001, slow=0.001, white=0.001, outliers=0.02)
ARMS = (
    Arm(EAGER, ""),
    Arm("default", "model = torch.compile(model)"),
    Arm("reduce-overhead", "model = torch.compile(model, mode='reduce-overhead')"),
)
WANTED = BenchWanted(target="m.py::Net", command="tcready bench m.py::Net --seed 0", inputs_from="option")
STACK = (("torch", "2.13.0"), ("cpu", "planted"), ("clock of the CPU", "3.1 GHz"), ("git commit", "abc"))
MS = 1e-3


def process(
    purpose: BenchPurpose, measured: Sequence[ArmMeasured], arms: Sequence[Arm] = ARMS, **answer: object
) -> BenchProcess:
    kinds: Mapping[BenchPurpose, BenchKind] = {"cold_warm_cache": "cold", "cold_carried": "cold", "carry_save": "carry"}
    kind = kinds.get(purpose, "carry" if purpose == "carry_load" else purpose)
    return BenchProcess(BenchRequest(kind, tuple(arms)), BenchAnswer(kind, tuple(measured), **answer), purpose)


def steady(
    seconds: Mapping[str, float],
    *,
    case: str | None = None,
    processes: int = 3,
    seed: int = 0,
    trouble: Trouble = QUIET,
    **more: object,
) -> list[BenchProcess]:
    """`seconds` of each arm's call; `more` are fields of what is measured of compiled arms."""
    rows = timed(random.Random(seed), list(seconds.values()), processes, 10, trouble)
    return [
        process(
            "steady",
            [
                ArmMeasured(
                    name,
                    case,
                    graphs=None if name == EAGER else 1,
                    settled=True,
                    warm_calls=10,
                    block_calls=5,
                    blocks=tuple(rows[arm][index]),
                )
                if name == EAGER
                else replace(
                    ArmMeasured(name, case, graphs=1, breaks=0, recompiles=0, settled=True, warm_calls=10),
                    **{"blocks": tuple(rows[arm][index]), **more},
                )
                for arm, name in enumerate(seconds)
            ],
            [arm for arm in ARMS if arm.name in seconds],
            stack=STACK,
        )
        for index in range(processes)
    ]


def colds(
    seconds: Mapping[str, float], memory: Mapping[str, int], purpose: BenchPurpose = "cold"
) -> list[BenchProcess]:
    return [
        process(
            purpose,
            [
                ArmMeasured(
                    name,
                    cold=ColdStart(value * (1 + 0.01 * index), (("dynamo", value / 4), ("inductor", value / 2))),
                    memory=MemoryUse(resident_steady=memory[name], resident_peak=2 * memory[name]),
                )
            ],
            [arm for arm in ARMS if arm.name == name],
        )
        for name, value in seconds.items()
        for index in range(2)
    ]


def profiles(kernels: Mapping[str, int], case: str | None = None) -> BenchProcess:
    return process(
        "profile", [ArmMeasured(name, case, profile=Profile(None, count, 0.01)) for name, count in kernels.items()]
    )


def parities(same: Mapping[str, bool | None], case: str | None = None) -> BenchProcess:
    return process(
        "parity",
        [
            ArmMeasured(
                name,
                case,
                parity=ParityMeasured(value, "" if value else "output 0 differs by 3", 3, 1e-6, 1e-6, False, 1e-3),
            )
            for name, value in same.items()
        ],
    )


MEMORY = {EAGER: 10**9, "default": 11 * 10**8}
GAIN = (
    *steady({EAGER: 20 * MS, "default": 10 * MS}),
    *colds({EAGER: 0.5, "default": 30.5}, MEMORY),
    *colds({"default": 3.5}, MEMORY, "cold_warm_cache"),
    *colds({"default": 5.0}, MEMORY, "cold_carried"),
    profiles({EAGER: 120, "default": 30}),
    parities({"default": True}),
)


def of(ran: Sequence[BenchProcess], wanted: BenchWanted = WANTED, arms: Sequence[Arm] = ARMS[:2]) -> Bench:
    return assemble_bench(ran, arms, wanted, seconds=60.0)


def arm(bench: Bench, name: str = "default", case: int = -1) -> ArmBench:
    return next(each for each in bench.cases[case].arms if each.arm == name)


def without(ran: Sequence[BenchProcess], *purposes: BenchPurpose) -> list[BenchProcess]:
    return [each for each in ran if each.purpose not in purposes]


def box(bench: Bench, name: str) -> CheckItem:
    return next(each for each in bench.checklist if each.item == name)


# Verdicts


def test_code_that_another_process_saved_is_put_together_by_way() -> None:
    saved = (
        CarriedCode("aot_compile", "default", save_seconds=4.0, bytes=100, save_code="save it", load_code="load it"),
        CarriedCode("precompile", "default", error="this torch has none"),
    )
    loaded = CarriedCode("aot_compile", "default", 0.5, 0.4, same=True)
    from_caches = CarriedCode("cache_artifacts", "default", 5.0, 0.1, bytes=7, same=None, detail="it draws")
    ran = [
        *GAIN,
        process("cold_carried", (), ARMS[1:2], carried=(from_caches,)),
        process("carry_save", (), ARMS[1:2], carried=saved),
        process("carry_load", (), ARMS[1:2], carried=(loaded,)),
    ]
    bench = of(ran)
    caches, function, none = bench.carried
    assert (caches.way, caches.seconds, caches.same) == ("cache_artifacts", 5.0, None)
    assert (function.seconds, function.load_seconds, function.save_seconds) == (0.5, 0.4, 4.0)
    assert (function.bytes, function.same, function.save_code, function.load_code) == (100, True, "save it", "load it")
    assert none.error == "this torch has none"
    assert all("C++ kernels are not saved" in each.limit for each in bench.carried)
    texts = list(carried_sentences(bench))
    assert texts[0].startswith(
        "save_cache_artifacts: 5.00 s; 100 ms of it to load 7.00 B; not known whether outputs agree"
    )
    assert texts[1].startswith(
        "aot_compile: 500 ms; 400 ms of it to load 100 B; 4.00 s to compile and save; outputs agree"
    )
    assert texts[2] == "precompile: not possible: this torch has none"
    assert [what for what, _ in ways(bench)][-2:] == [
        "aot_compile: save in one process",
        "aot_compile: start in another",
    ]
    assert carried_in_short(bench) == "save_cache_artifacts 5.00 s, aot_compile 500 ms"


@pytest.mark.parametrize(("failure", "why"), [("it crashed", "not possible: it crashed"), (None, "not measured")])
def test_code_that_was_saved_and_not_loaded_says_why(failure: str | None, why: str) -> None:
    saved = process("carry_save", (), ARMS[1:2], carried=(CarriedCode("precompile", "default", save_seconds=1.0),))
    loading = replace(
        saved,
        purpose="carry_load",
        request=replace(saved.request, way="precompile"),
        answer=BenchAnswer("carry", failure=failure),
    )
    (found,) = carried_sentences(of([*GAIN, saved, *([loading] if failure else [])]))
    assert found == f"precompile: {why}"


def test_code_with_other_outputs_has_no_lines_to_paste() -> None:
    wrong = CarriedCode("aot_compile", "default", 0.5, 0.4, same=False, detail="output 0 differs", load_code="load it")
    bench = of([*GAIN, process("carry_load", (), ARMS[1:2], carried=(wrong,))])
    assert "outputs differ from eager: output 0 differs" in next(iter(carried_sentences(bench)))
    assert not [what for what, _ in ways(bench) if "aot_compile" in what]


def test_a_real_gain_with_all_that_goes_with_it() -> None:
    bench = of(GAIN)
    assert (bench.verdict, bench.recommended, bench.code) == ("real_gain", "default", ARMS[1].code)
    assert "30 operators and kernels instead of 120" in bench.reason
    assert bench.rollback.startswith("eager: remove these lines")
    found, eager = arm(bench), arm(bench, EAGER)
    assert (found.verdict, eager.verdict, eager.reason) == ("real_gain", "baseline", "")
    assert found.speedup is not None
    assert found.speedup.low < 2 < found.speedup.high
    assert found.speedup.n == 3
    assert found.throughput == pytest.approx(100, rel=0.05)
    # 30 s more than eager's own first call, 10 ms saved in each.
    assert found.break_even_calls is not None
    assert found.break_even_calls.low < 3000 < found.break_even_calls.high
    assert found.break_even_warm_calls is not None
    assert found.break_even_warm_calls.median == pytest.approx(300, rel=0.05)
    assert found.cold_carried_seconds is not None
    assert found.cold_phases == (("dynamo", pytest.approx(7.625)), ("inductor", pytest.approx(15.25)))
    assert (found.memory_steady_bytes, found.memory_peak_bytes) == (11 * 10**8, 22 * 10**8)
    assert bench.noise is not None
    assert bench.noise.verdict in ("no_gain", "inconclusive")
    assert bench.noise.spread == pytest.approx(0.01, abs=0.01)
    assert (bench.stack, bench.processes, bench.cut, bench.cases[0].case) == (STACK, len(GAIN), (), "all cases")
    assert from_json(Bench, as_json(bench)) == bench


@pytest.mark.parametrize(
    ("ran", "verdict", "words"),
    [
        (without(GAIN, "profile"), "likely_gain", "no profile was made to explain it"),
        ([*without(GAIN, "profile"), profiles({EAGER: 30, "default": 30})], "likely_gain", "nothing in the profile"),
        (
            [*without(GAIN, "parity"), parities({"default": False})],
            "failed",
            "differ from eager: output 0 differs by 3",
        ),
        (without(GAIN, "parity"), "likely_gain", "outputs were not compared: not measured"),
        ([*without(GAIN, "parity"), parities({"default": None})], "likely_gain", "outputs were not compared: output 0"),
        (without(GAIN, "cold"), "real_gain", "memory not measured"),
        (
            [*without(GAIN, "cold"), *colds({EAGER: 1, "default": 9}, {EAGER: 10**9, "default": 2 * 10**9})],
            "no_gain",
            "2.00 times eager's memory (limit 1.5)",
        ),
        (steady({EAGER: 20 * MS, "default": 20 * MS}), "no_gain", "less than 2.0% faster"),
        (steady({EAGER: 20 * MS, "default": 25 * MS}), "regression", "0.80"),
        (
            steady({EAGER: 20 * MS, "default": 19 * MS}, trouble=replace(QUIET, arm=0.02)),
            "inconclusive",
            "would probably decide",
        ),
        (steady({EAGER: 20 * MS, "default": 10 * MS}, processes=1), "likely_gain", "in this process"),
        (steady({EAGER: 20 * MS, "default": 30 * MS}, processes=1), "likely_regression", "0.66"),
        (steady({EAGER: 20 * MS, "default": 20 * MS}, processes=1), "likely_no_gain", "in this process"),
        (steady({EAGER: 20 * MS, "default": 10 * MS}, graphs=0), "failed", "compiled nothing"),
        (steady({EAGER: 20 * MS, "default": 30 * MS}, recompiles=7), "regression", "7 recompilations"),
        (steady({EAGER: 20 * MS, "default": 30 * MS}, settled=False), "regression", "not settled after 10 calls"),
        (steady({EAGER: 20 * MS, "default": 9}, blocks=(), error="no time left"), "failed", "no time left"),
        (steady({EAGER: 20 * MS}), "inconclusive", "too few blocks"),
    ],
)
def test_every_verdict_has_its_reason(ran: Sequence[BenchProcess], verdict: str, words: str) -> None:
    found = arm(of(ran))
    assert found.verdict == verdict
    assert words in found.reason


def test_calls_waited_for_one_by_one_are_held_against_those_of_a_block() -> None:
    def with_single_calls(compiled: float, spread: float = 0.0) -> str:
        # `spread`: how much slower compiled calls are in each process than in the one before it.
        turn = {id(each): at for at, each in enumerate(GAIN)}

        def singles(name: str, each: BenchProcess) -> tuple[float, ...]:
            by = 1 + spread * turn[id(each)]
            return ((21 * MS,) if name == EAGER else (compiled * by,)) * 20

        ran = [
            replace(
                each,
                answer=replace(
                    each.answer,
                    measured=tuple(replace(one, latencies=singles(one.arm, each)) for one in each.answer.measured),
                ),
            )
            if each.purpose == "steady"
            else each
            for each in GAIN
        ]
        found = arm(of(ran))
        assert found.speedup is not None
        assert found.speedup_single is not None
        assert found.speedup.p50 == found.speedup_single.median
        if not spread:
            assert found.speedup.p50 == pytest.approx(21 * MS / compiled)
        else:
            assert found.speedup_single.low < found.speedup.p50 < found.speedup_single.high
        return found.reason

    # A graph that waits for its caller gains less; one call like those of a block needs no word.
    assert "; 1.400 times (1.400 to 1.400) if calls are timed one by one" in with_single_calls(15 * MS)
    assert re.search(r"times \(1\.[23]\d\d to 1\.[34]\d\d\) if calls are timed", with_single_calls(15 * MS, 0.02))
    assert "one by one" not in with_single_calls(10.5 * MS)


def test_the_memory_of_the_compiler_itself_is_no_growth() -> None:
    small = {EAGER: 300 * 10**6, "default": 700 * 10**6}
    ran = [*without(GAIN, "cold"), *colds({EAGER: 1, "default": 9}, small)]
    assert arm(of(ran)).verdict == "real_gain"


def test_device_memory_comes_before_resident_memory() -> None:
    def cold(name: str, device: int) -> BenchProcess:
        memory = MemoryUse(device, 2 * device, 10**9, 10**9)
        return process("cold", [ArmMeasured(name, cold=ColdStart(2.0), memory=memory)], [Arm(name, "")])

    found = arm(of([*without(GAIN, "cold"), cold(EAGER, 2 * 10**8), cold("default", 4 * 10**8)]))
    assert (found.verdict, found.memory_steady_bytes) == ("no_gain", 4 * 10**8)


def test_the_process_that_times_tells_memory_until_arms_ran_alone() -> None:
    memory = {EAGER: MemoryUse(2 * 10**8), "default": MemoryUse(4 * 10**8)}
    ran = [
        replace(
            each,
            answer=replace(
                each.answer, measured=tuple(replace(row, memory=memory[row.arm]) for row in each.answer.measured)
            ),
        )
        if each.purpose == "steady"
        else each
        for each in without(GAIN, "cold")
    ]
    found = arm(of(ran))
    assert (found.verdict, found.memory_steady_bytes) == ("no_gain", 4 * 10**8)
    alone = colds({EAGER: 0.5, "default": 30.5}, MEMORY)
    assert arm(of([*ran, *alone])).memory_steady_bytes == MEMORY["default"]


def test_kernel_time_and_launches_explain_a_gain_on_a_device() -> None:
    def profile(eager: Profile, compiled: Profile) -> BenchProcess:
        return process("profile", [ArmMeasured(EAGER, profile=eager), ArmMeasured("default", profile=compiled)])

    ran = without(GAIN, "profile")
    faster = arm(of([*ran, profile(Profile(9 * MS, 50, 20 * MS), Profile(4 * MS, 50, 20 * MS))]))
    assert "4.00 ms in kernels instead of 9.00 ms" in faster.reason
    assert faster.kernel_seconds is not None
    fewer = arm(of([*ran, profile(Profile(9 * MS, 50, 20 * MS), Profile(9 * MS, 50, 2 * MS))]))
    assert "2.00 ms in Python and launches instead of 20.0 ms" in fewer.reason
    neither = arm(of([*ran, profile(Profile(9 * MS, 50, 20 * MS), Profile(9 * MS, 50, 20 * MS))]))
    assert neither.verdict == "likely_gain"
    # On a CPU the thread that calls is all of the call: that it took less says nothing.
    host = arm(of([*ran, profile(Profile(None, 50, 20 * MS), Profile(None, 50, 10 * MS))]))
    assert host.verdict == "likely_gain"


def test_what_makes_compiled_code_slower_is_named() -> None:
    ran = steady({EAGER: 20 * MS, "default": 30 * MS})

    def profiled(dynamo_seconds: float, kernels: int) -> str:
        own = Profile(None, kernels, 30 * MS, dynamo_seconds=dynamo_seconds)
        rows = [ArmMeasured(EAGER, profile=Profile(None, 50, 20 * MS)), ArmMeasured("default", profile=own)]
        found = arm(of([*ran, process("profile", rows)]))
        assert found.verdict == "regression"
        return found.reason

    assert "Dynamo's guards take 9.00 ms of a call of 30." in profiled(9 * MS, 20)
    assert "guards" not in profiled(1 * MS, 20)
    assert "no fewer operators and kernels than eager (50, eager 50)" in profiled(1 * MS, 50)
    on_device = [
        ArmMeasured(EAGER, profile=Profile(1 * MS, 7, 20 * MS)),
        ArmMeasured("default", profile=Profile(1 * MS, 7, 29 * MS)),
    ]
    found = arm(of([*ran, process("profile", on_device)]))
    assert "29.0 ms in Python and launches against eager's 20.0 ms" in found.reason


def test_a_regression_without_a_profile_says_that_its_cause_was_not_measured() -> None:
    found = arm(of(steady({EAGER: 20 * MS, "default": 30 * MS}, processes=1)))
    assert found.verdict == "likely_regression"
    assert "there was no time to measure why: use a larger --budget" in found.reason


def test_guards_are_counted_where_they_are_the_cause() -> None:
    costs = ("L['x'] == 1  # f(x)  # m.py:3 in forward", 2e-7)
    own = Profile(None, 20, 30 * MS, dynamo_seconds=9 * MS, guards=55, python_guards=2, expensive_guards=(costs,))
    rows = [ArmMeasured(EAGER, profile=Profile(None, 50, 20 * MS)), ArmMeasured("default", profile=own)]
    found = arm(of([*steady({EAGER: 20 * MS, "default": 30 * MS}), process("profile", rows)]))
    assert "Dynamo's guards (55, 2 of them in Python) take 9.00 ms of a call of" in found.reason
    assert (found.guards, found.python_guards, found.expensive_guards) == (55, 2, (costs,))


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({}, []),
        ({"dynamo_seconds": 0.5}, ["no module guards", "no attribute guards", "tensor guards alone"]),
        ({"host_seconds": 0.9, "kernel_seconds": Figure(0.1, 0.1, 0.1, 1)}, ["CUDA graphs"]),
        ({"host_seconds": 0.9}, []),
        ({"breaks": 2}, ["blocks"]),
        ({"breaks": 2, "graphs": 3}, ["blocks"]),
        ({"breaks": 2, "graphs": 4}, ["nested breaks", "blocks"]),
        ({"recompiles": 1}, ["dynamic sizes"]),
        ({"changing_floats": 1}, ["constant floats"]),
    ],
)
def test_remedies_follow_the_cause(change: dict[str, object], names: list[str]) -> None:
    slow = of(steady({EAGER: 0.5, "default": 1.0}))
    (summary,) = slow.cases
    arms = tuple(
        replace(each, **{"breaks": 0, "recompiles": 0, **change}) if each.arm == "default" else each
        for each in summary.arms
    )
    changed = replace(slow, cases=(replace(summary, arms=arms),))
    assert [each.name for each in remedies_for(changed)] == names
    assert all(RISKS[each.name] for each in remedies_for(changed))


def test_a_patch_that_changes_no_launch_is_inert() -> None:
    patched = Arm("patched", "# after: git apply own.patch\nmodel = torch.compile(model)", (("/m.py", "..."),))
    ran = steady({EAGER: 20 * MS, "default": 10 * MS})
    (rows,) = timed(random.Random(1), [10 * MS], 3, 10, QUIET)

    def reason(kernels: int) -> str:
        own = [ArmMeasured("patched", graphs=1, breaks=0, settled=True, blocks=tuple(row)) for row in rows]
        counts = {EAGER: 50, "default": 20, "patched": kernels}
        every = [*ran, *(process("steady", [each], [patched]) for each in own), profiles(counts)]
        return arm(of(every, arms=(*ARMS[:2], patched)), "patched").reason

    assert "the patch is inert: as many graphs, breaks and kernels as `default`" in reason(20)
    assert "inert" not in reason(19)


def test_an_error_in_one_process_of_several_fails_the_arm() -> None:
    first, *others = steady({EAGER: 20 * MS, "default": 10 * MS})
    broken = replace(first.answer.measured[1], blocks=(), error="CUDA error")
    answer = replace(first.answer, measured=(first.answer.measured[0], broken))
    bench = of([replace(first, answer=answer), *others])
    assert (arm(bench).verdict, arm(bench).reason) == ("failed", "in 1 of 3 processes: CUDA error")
    assert (bench.verdict, bench.recommended) == ("no_gain", EAGER)


def test_a_process_that_gave_nothing_is_said() -> None:
    dead = process("steady", (), failure="killed after 60 s")
    bench = of([*steady({EAGER: 20 * MS, "default": 10 * MS}), dead])
    assert bench.cut == ("steady of eager, default, reduce-overhead: killed after 60 s",)
    assert arm(bench).speedup is not None
    bench = of([dead])
    assert (bench.verdict, bench.cases, bench.recommended) == ("not_run", (), None)
    assert bench.reason.endswith("killed after 60 s")
    only = process(
        "steady", [ArmMeasured(EAGER, error="ValueError: no"), ArmMeasured("default", error="ValueError: no")]
    )
    bench = of([only])
    assert (bench.verdict, bench.recommended) == ("not_run", None)
    assert "ValueError: no" in bench.reason


def test_an_arm_of_a_patch_is_held_against_other_processes() -> None:
    patched = Arm("patched", "model = torch.compile(model)", (("/m.py", "..."),))
    rows = timed(random.Random(1), [10 * MS], 3, 10, QUIET)[0]
    ran = [
        *steady({EAGER: 20 * MS}),
        *(
            process("steady", [ArmMeasured("patched", graphs=1, settled=True, blocks=tuple(row))], [patched])
            for row in rows
        ),
    ]
    bench = of(ran, arms=(ARMS[0], patched))
    found = arm(bench, "patched")
    assert found.speedup is not None
    assert found.speedup.low < 2 < found.speedup.high
    assert "in 3 processes" in found.reason


def test_the_fastest_real_gain_is_recommended() -> None:
    times = {EAGER: 20 * MS, "default": 12 * MS, "reduce-overhead": 8 * MS}
    same = {"default": True, "reduce-overhead": True}
    kernels = profiles({EAGER: 120, "default": 30, "reduce-overhead": 30})
    assert of([*steady(times), kernels, parities(same)], arms=ARMS).recommended == "reduce-overhead"
    differs = parities({**same, "reduce-overhead": False})
    bench = of([*steady(times), kernels, differs], arms=ARMS)
    assert (bench.verdict, bench.recommended) == ("real_gain", "default")
    wanted = replace(WANTED, rollbacks=(("default", "model = model._orig_mod"),))
    assert of([*steady(times), kernels, differs], wanted, ARMS).rollback == "model = model._orig_mod"


# Cases and weights


def merged(*cases: Sequence[BenchProcess], weights: Sequence[tuple[str, float]] = ()) -> list[BenchProcess]:
    """Cases that the same processes measured."""
    return [
        replace(
            same[0],
            answer=replace(
                same[0].answer,
                measured=tuple(row for each in same for row in each.answer.measured),
                weights=tuple(weights),
            ),
        )
        for same in zip(*cases, strict=True)
    ]


def test_cases_are_judged_alone_and_by_their_weights() -> None:
    ran = [
        *merged(
            steady({EAGER: 100 * MS, "default": 100 * MS}, case="prefill"),
            steady({EAGER: 10 * MS, "default": 5 * MS}, case="decode", seed=1),
            weights=(("prefill", 1.0), ("decode", 100.0)),
        ),
        *colds({EAGER: 0.5, "default": 30.5}, MEMORY),
        *(profiles({EAGER: 90, "default": 30}, case) for case in ("prefill", "decode")),
        *(parities({"default": True}, case) for case in ("prefill", "decode")),
    ]
    bench = of(ran)
    assert [(case.case, case.weight, case.recommended) for case in bench.cases] == [
        ("prefill", pytest.approx(1 / 101), EAGER),
        ("decode", pytest.approx(100 / 101), "default"),
        ("all cases", None, "default"),
    ]
    assert bench.verdict == "real_gain"
    found = arm(bench)
    assert found.speedup is not None
    assert found.speedup.median == pytest.approx(1100 / 600, rel=0.01)  # (100 + 100 * 10) / (100 + 100 * 5)
    # What compiling took, it took for all cases.
    assert (arm(bench, case=1).cold_seconds, arm(bench, case=1).break_even_calls) == (None, None)
    assert found.break_even_calls is not None
    assert found.break_even_calls.median == pytest.approx(30 / (500 * MS / 101), rel=0.1)
    assert box(bench, "separate prefill and decode").state == "pass"
    assert box(bench, "representative inputs").detail.startswith("2 cases, with weights")


def test_an_arm_that_fails_in_one_case_fails_in_all_of_them() -> None:
    good = steady({EAGER: 20 * MS, "default": 10 * MS}, case="small")
    bad = steady({EAGER: 20 * MS, "default": 10 * MS}, case="large", blocks=(), error="out of memory")
    bench = of([*merged(good, bad), profiles({EAGER: 9, "default": 3}, "small"), parities({"default": True}, "small")])
    assert arm(bench).reason == "in large: out of memory"
    assert [case.recommended for case in bench.cases] == ["default", EAGER, EAGER]
    assert bench.recommended == EAGER
    assert "a gain only with default in small" in bench.reason


def test_all_cases_together_are_told_from_a_case_of_that_name() -> None:
    times = {EAGER: 20 * MS, "default": 10 * MS}
    bench = of(merged(steady(times, case="all cases"), steady(times, case="small", seed=1)))
    assert [case.case for case in bench.cases] == ["all cases", "small", "all cases together"]


def test_eager_is_held_against_itself_in_each_case() -> None:
    cases = (
        steady({EAGER: 20 * MS, "default": 10 * MS}, case="quiet"),
        steady({EAGER: MS, "default": MS}, case="noisy", seed=1, trouble=Trouble(white=0.2)),
    )
    bench = of(merged(*cases))
    quiet, noisy, whole = (case.noise for case in bench.cases)
    assert quiet is not None
    assert noisy is not None
    assert noisy.ratio.high - noisy.ratio.low > 5 * (quiet.ratio.high - quiet.ratio.low)
    assert bench.noise == whole == quiet, "it takes the most time"


def test_the_headline_names_what_failed_and_why() -> None:
    ran = [*without(GAIN, "parity"), parities({"default": False})]
    bench = of(ran)
    assert bench.verdict == "no_gain"
    assert bench.reason == "default failed: its outputs differ from eager: output 0 differs by 3"
    times = {EAGER: 20 * MS, "default": 20 * MS, "reduce-overhead": 8 * MS}
    both = of([*steady(times), parities({"default": True, "reduce-overhead": False})], arms=ARMS)
    assert both.reason.startswith("default: ")
    assert both.reason.endswith("; reduce-overhead failed: its outputs differ from eager: output 0 differs by 3")


def test_throughput_is_in_the_units_that_every_case_has() -> None:
    def tokens(count: int, case: str | None = None) -> Items:
        return Items("tokens", count, f"tokens: {count}", case)

    def counted(ran: Sequence[BenchProcess], *items: Items) -> list[BenchProcess]:
        return [replace(each, answer=replace(each.answer, items=items)) for each in ran]

    one = of(counted(steady({EAGER: 20 * MS, "default": 10 * MS}), tokens(2048), Items("samples", 4, "samples: 4")))
    assert one.cases[0].items[0] == tokens(2048)
    assert {each.unit: each.per_second for each in arm(one).rates} == {
        "tokens": pytest.approx(204_800, rel=0.05),
        "samples": pytest.approx(400, rel=0.05),
    }
    assert arm(one, EAGER).rates[0].per_second == pytest.approx(102_400, rel=0.05)
    prefill = steady({EAGER: 20 * MS, "default": 10 * MS}, case="prefill")
    decode = steady({EAGER: 10 * MS, "default": 5 * MS}, case="decode")
    both = [
        replace(
            one,
            answer=replace(
                one.answer,
                measured=(*one.answer.measured, *other.answer.measured),
                weights=(("prefill", 1.0), ("decode", 3.0)),
                items=(tokens(800, "prefill"), Items("samples", 4, "", "prefill"), tokens(4, "decode")),
            ),
        )
        for one, other in zip(prefill, decode, strict=True)
    ]
    bench = of(both)
    assert [[each.unit for each in case.items] for case in bench.cases] == [
        ["tokens", "samples"],
        ["tokens"],
        ["tokens"],
    ]
    # (800 + 3 * 4) tokens in (20 + 3 * 10) ms
    assert arm(bench, EAGER).rates[0].per_second == pytest.approx(812 / 0.05, rel=0.05)
    assert from_json(Bench, as_json(bench)) == bench
    assert arm(of(GAIN)).rates == ()


def test_of_notes_of_one_kind_the_first_stands() -> None:
    first, second, third = steady({EAGER: 20 * MS, "default": 10 * MS})
    busy = [
        replace(each, answer=replace(each.answer, notes=(f"busy: {share} of 2",)))
        for each, share in ((first, 1.5), (second, 1.9))
    ]
    row = replace(third.answer.measured[0], notes=("each call changes kept",))
    noted = replace(third, answer=replace(third.answer, measured=(row, third.answer.measured[1])))
    assert of([*busy, noted]).notes == ("busy: 1.5 of 2", "each call changes kept")


def test_what_waits_for_its_data_gains_nothing() -> None:
    waits = LoaderShare("m.py::loader", 50, 2.0, 0.0, 0.02, bound=1.01)
    bench = of([*GAIN, process("loader", (), loader=waits)])
    assert (bench.verdict, bench.recommended) == ("no_gain", EAGER)
    assert "waits 99% of the time for data" in bench.reason
    busy = LoaderShare("m.py::loader", 50, 0.01, 0.0, 0.02, bound=1 / (1 - 2 / 3))
    bench = of([*GAIN, process("loader", (), loader=busy)])
    assert (bench.verdict, bench.recommended) == ("real_gain", "default")
    assert "at most 3.00 times as fast" in bench.reason


def test_eager_against_itself_is_no_gain_whatever_explains_it() -> None:
    harmless = 0
    for seed in range(200):
        ran = steady({EAGER: 20 * MS, "default": 20 * MS}, seed=seed, trouble=Trouble())
        bench = of([*ran, profiles({EAGER: 90, "default": 30})])
        harmless += bench.verdict in ("no_gain", "likely_no_gain", "inconclusive")
    assert harmless >= 190


@pytest.mark.parametrize("processes", [1, 2])
def test_eager_against_itself_is_rarely_likely_to_gain(processes: int) -> None:
    harmless = 0
    for seed in range(200):
        ran = steady({EAGER: 20 * MS, "default": 20 * MS}, seed=seed, trouble=Trouble(), processes=processes)
        harmless += of(ran).verdict in ("no_gain", "likely_no_gain", "inconclusive")
    assert harmless >= 190


def test_processes_that_disagree_leave_it_open() -> None:
    faster, slower = (steady({EAGER: 20 * MS, "default": seconds}, processes=1) for seconds in (10 * MS, 30 * MS))
    assert arm(of([*faster, *slower])).verdict == "inconclusive"


def test_a_process_that_was_cut_short_does_not_decide() -> None:
    faster, slower = (steady({EAGER: 20 * MS, "default": seconds}, processes=1) for seconds in (10 * MS, 30 * MS))
    cut = [
        replace(
            each,
            answer=replace(
                each.answer, measured=tuple(replace(row, blocks=row.blocks[:3]) for row in each.answer.measured)
            ),
        )
        for each in slower
    ]
    assert arm(of([*faster, *cut])).verdict == "likely_gain"


def test_a_verdict_that_hangs_by_little_wants_more_processes() -> None:
    near = of(steady({EAGER: 20 * MS, "default": 19.5 * MS}, trouble=replace(QUIET, arm=0.01)))
    assert more_processes(near, 0.02)
    assert not more_processes(of(GAIN), 0.02)
    assert more_processes(of(GAIN), 1.0)
    assert not more_processes(of(steady({EAGER: 20 * MS, "default": 25 * MS})), 0.02)


def test_limits_are_arguments() -> None:
    assert arm(of(GAIN, replace(WANTED, limits=Limits(min_effect=1.5)))).verdict == "no_gain"
    twice = [*without(GAIN, "cold"), *colds({EAGER: 1, "default": 9}, {EAGER: 10**9, "default": 2 * 10**9})]
    assert arm(of(twice, replace(WANTED, limits=Limits(memory_growth=2.5)))).verdict == "real_gain"


# The checklist


def test_the_checklist_says_what_ran() -> None:
    soak = Soak("default", 600.0, 40_000, state="pass")
    wanted = replace(WANTED, dtype="bfloat16", autocast=None)
    bench = of([*GAIN, process("soak", (), soak=soak)], wanted)
    states = {each.item: each.state for each in bench.checklist}
    assert states == {
        "representative inputs": "pass",
        "separate prefill and decode": "not_measured",
        "memory": "pass",
        "parity": "pass",
        "profile of the gain": "pass",
        "stability": "pass",
        "stack logged": "pass",
        "warm-up": "pass",
        "cold start": "pass",
        "precision": "pass",
        "rollback": "pass",
    }
    assert box(bench, "cold start").detail.startswith("30.7 s; 3.52 s with a warm cache; recovered after")
    assert box(bench, "precision").detail == "bfloat16: error against float64 1e-06, eager's 1e-06"
    assert box(bench, "stability").detail == "default: 40000 calls in 600 s"


def test_an_empty_box_names_the_command_that_fills_it() -> None:
    bench = of(steady({EAGER: 20 * MS, "default": 10 * MS}), replace(WANTED, inputs_from=None))
    unfilled = {each.item: each.detail for each in bench.checklist if each.state == "not_measured"}
    assert unfilled.keys() == {
        "representative inputs",
        "separate prefill and decode",
        "memory",
        "parity",
        "profile of the gain",
        "stability",
        "cold start",
        "precision",
    }
    assert all("tcready bench m.py::Net" in detail for detail in unfilled.values())
    assert unfilled["stability"] == "tcready bench m.py::Net --soak 600"


@pytest.mark.parametrize(("kept", "said"), [(10, False), (3, True)])
def test_fewer_blocks_than_are_asked_for_are_said(kept: int, said: bool) -> None:
    rows = [
        replace(
            each,
            answer=replace(
                each.answer, measured=tuple(replace(row, blocks=row.blocks[:kept]) for row in each.answer.measured)
            ),
        )
        for each in GAIN
    ]
    (_, arm) = of(rows).cases[-1].arms
    assert ("3 of 10 blocks in a process" in arm.reason) is said
    assert arm.verdict == "real_gain"


def test_a_box_of_an_arm_that_failed_says_so_before_the_command() -> None:
    bench = of(steady({EAGER: 20 * MS, "default": 10 * MS}, graphs=0))
    for item in ("memory", "parity", "profile of the gain", "stability", "cold start", "precision"):
        assert "default failed; once it works: tcready bench m.py::Net" in box(bench, item).detail, item
    assert box(bench, "separate prefill and decode").detail.startswith("no cases")


@pytest.mark.parametrize(("seeds", "state"), [(3, "pass"), (1, "not_measured")])
def test_parity_of_fewer_seeds_than_are_asked_for_ticks_no_box(seeds: int, state: str) -> None:
    (process_of,) = (parities({"default": True}),)
    (row,) = process_of.answer.measured
    assert row.parity is not None
    row = replace(row, parity=replace(row.parity, seeds=seeds))
    bench = of([*without(GAIN, "parity"), replace(process_of, answer=replace(process_of.answer, measured=(row,)))])
    assert box(bench, "parity").state == state
    assert state == "pass" or box(bench, "parity").detail.startswith("default agrees with eager for 1 of 3 seeds")


@pytest.mark.parametrize(
    ("first", "further", "state"),
    [(True, True, "pass"), (True, False, "fail"), (False, True, "fail"), (True, None, "not_measured")],
)
def test_further_seeds_add_to_the_first_one(first: bool, further: bool | None, state: str) -> None:
    both = [parities({"default": same}) for same in (first, further)]
    (row,) = both[0].answer.measured
    assert row.parity is not None
    one_seed = replace(row, parity=replace(row.parity, seeds=1))
    ran = [
        replace(both[0], answer=replace(both[0].answer, measured=(one_seed,))),
        replace(both[1], purpose="more_parity"),
    ]
    bench = of([*without(GAIN, "parity"), *ran])
    assert box(bench, "parity").state == state


@pytest.mark.parametrize(
    ("names", "state"),
    [
        (("prefill", "decode 1"), "pass"),
        (("prefill and decode", "decode"), "not_measured"),
        (("prefill and decode", "other"), "not_measured"),
        (("prefill and decode",), "not_measured"),
    ],
)
def test_prefill_and_decode_are_apart_in_two_cases(names: Sequence[str], state: str) -> None:
    times = {EAGER: 20 * MS, "default": 10 * MS}
    bench = of(merged(*(steady(times, case=name, seed=n) for n, name in enumerate(names))))
    assert box(bench, "separate prefill and decode").state == state


def test_a_soak_of_another_arm_is_none_of_this_one() -> None:
    soaks = {state: Soak(EAGER, 600.0, 9, state=state, reason="it grows") for state in ("pass", "fail")}
    passed, failed = (box(of([*GAIN, process("soak", (), soak=soaks[each])]), "stability") for each in soaks)
    assert (passed.state, passed.detail.partition(";")[0]) == ("not_measured", "the soak ran eager, not default")
    assert (failed.state, failed.detail) == ("fail", "eager: it grows")


def test_without_a_cold_start_of_eager_nothing_is_won_back() -> None:
    compiled_alone = [*steady({EAGER: 20 * MS, "default": 10 * MS}), *colds({"default": 30.5}, MEMORY)]
    assert arm(of(compiled_alone)).break_even_calls is None


def test_too_few_seeds_are_named() -> None:
    one_seed = [
        replace(
            each,
            answer=replace(
                each.answer,
                measured=tuple(
                    replace(row, parity=replace(row.parity, seeds=1)) if row.parity else row
                    for row in each.answer.measured
                ),
            ),
        )
        for each in GAIN
    ]
    assert "outputs compared for 1 of 3 seeds" in arm(of(one_seed)).reason
    assert "seeds" not in arm(of(GAIN)).reason


def test_boxes_fail() -> None:
    memory = {EAGER: 10**9, "default": 3 * 10**9}
    ran = [
        *steady({EAGER: 20 * MS, "default": 10 * MS}, settled=False),
        *colds({EAGER: 1, "default": 9}, memory),
        profiles({EAGER: 30, "default": 30}),
        parities({"default": False}),
        process("soak", (), soak=Soak("default", 600.0, 9, state="fail", reason="memory grows by 1 GB an hour")),
    ]
    bench = of(ran, replace(WANTED, inputs_from="made_up"))
    assert {each.item for each in bench.checklist if each.state == "fail"} == {
        "representative inputs",
        "memory",
        "parity",
        "profile of the gain",
        "stability",
        "warm-up",
        "precision",
    }


# Held against a stored bench


def stored(seconds: float, seed: int, stack: tuple[tuple[str, str], ...] = STACK, **more: object) -> Bench:
    bench = of(steady({EAGER: 20 * MS, "default": seconds}, seed=seed, trouble=replace(QUIET, process=0.005), **more))
    return replace(bench, stack=stack)


def test_what_became_slower_beyond_noise() -> None:
    found = find_regressions(stored(10 * MS, 1), stored(12 * MS, 2), 0.05)
    assert found.comparable
    assert [change.arm for change in found.changes if change.regressed] == ["default"]
    assert "default in all cases takes 1.2" in found.reason
    assert not find_regressions(stored(10 * MS, 1), stored(12 * MS, 2), 0.3).regressed, "less than the threshold"
    assert not find_regressions(stored(10 * MS, 1), stored(10.02 * MS, 2), 0.0001).regressed, "within noise"
    assert not find_regressions(stored(12 * MS, 1), stored(10 * MS, 2), 0.05).regressed, "faster"


def test_both_ways_to_compare_benches_agree() -> None:
    for seed in range(60):
        before, after = stored(10 * MS, seed), stored(10.4 * MS, seed + 100)
        change = compare_benches(before, after)
        assert change is not None
        states = {(each.case, each.arm): each.state for each in change.arms}
        slower = {(each.case, each.arm) for each in find_regressions(before, after, 0.0).changes if each.regressed}
        assert slower == {key for key, state in states.items() if state == "slower"}


def test_what_others_used_of_the_machine_is_no_difference_of_two_benches() -> None:
    first, second = (
        replace(stored(10 * MS, 1), stack=(*STACK, ("load_average", load), ("driver", driver)))
        for load, driver in (("0.1", "580"), ("2.4", "581"))
    )
    change = compare_benches(first, second)
    assert change is not None
    assert [each.name for each in change.differences] == ["driver"]


def test_a_process_that_its_limit_ended_does_not_count_beside_whole_ones() -> None:
    whole = steady({EAGER: 20 * MS, "default": 10 * MS}, processes=2)
    cut = steady({EAGER: 20 * MS, "default": 800 * MS}, processes=1)
    ended = [replace(each, answer=replace(each.answer, timed_out=True, failure="no answer within 9 s")) for each in cut]
    found = arm(of([*whole, *ended])).seconds
    assert found is not None
    assert (found.n, found.median) == (2, pytest.approx(10 * MS, rel=0.05))
    alone = arm(of(ended)).seconds
    assert alone is not None
    assert alone.median == pytest.approx(800 * MS, rel=0.05), "better than nothing"


def test_what_was_cut_for_time_has_not_failed() -> None:
    late = process("steady", [], (ARMS[2],), timed_out=True, failure="no answer within 51 s")
    found = of([*GAIN, late], arms=ARMS)
    assert found.verdict == "real_gain"
    patched = arm(found, "reduce-overhead")
    assert (patched.verdict, patched.reason) == (
        "inconclusive",
        "it was not timed: no answer within 51 s: use a larger --budget",
    )
    assert "--budget 1200" in box(of([late], arms=ARMS), "memory").detail


def test_inputs_that_were_given_are_not_asked_for_again() -> None:
    nothing = of([process("steady", [], timed_out=True, failure="no answer within 9 s")])
    assert box(nothing, "representative inputs").detail == (
        "given, but nothing was timed: tcready bench m.py::Net --budget 1200"
    )
    assert box(nothing, "separate prefill and decode").detail.startswith("nothing was timed")
    assert "name them in your inputs" in box(of(GAIN), "separate prefill and decode").detail


def test_a_bench_that_timed_nothing_is_not_one_of_another_machine() -> None:
    nothing = of([process("steady", [], timed_out=True, failure="no answer within 9 s")])
    found = find_regressions(stored(10 * MS, 1), nothing, 0.05)
    assert not found.comparable
    assert found.reason == "nothing that could be compared was timed: use a larger --budget"


def test_one_process_shows_no_regression() -> None:
    before, after = (of(steady({EAGER: 20 * MS, "default": value}, processes=1)) for value in (10 * MS, 20 * MS))
    found = find_regressions(replace(before, stack=STACK), replace(after, stack=STACK), 0.05)
    assert not found.regressed
    assert all("one process" in change.why_not for change in found.changes)
    change = compare_benches(replace(before, stack=STACK), replace(after, stack=STACK))
    assert change is not None
    assert {each.state for each in change.arms} == {"not_judged"}


def test_what_noise_alone_may_do_is_no_pass() -> None:
    """Slower by more than allowed, but the processes of both benches differ by more than that."""
    noisy = replace(QUIET, process=0.3)
    before, after = (
        replace(of(steady({EAGER: 20 * MS, "default": value}, seed=seed, trouble=noisy)), stack=STACK)
        for value, seed in ((10 * MS, 1), (14 * MS, 2))
    )
    found = find_regressions(before, after, 0.05)
    assert not found.regressed
    unsure = [change for change in found.changes if change.why_not]
    assert "default" in {change.arm for change in unsure}
    assert "which noise alone could explain" in unsure[0].why_not


def test_other_code_under_the_same_name_is_not_compared() -> None:
    before, after = stored(10 * MS, 1), stored(12 * MS, 2)
    case = after.cases[0]
    arms = tuple(replace(arm, code="model.compile()") if arm.arm == "default" else arm for arm in case.arms)
    other = replace(after, cases=(replace(case, arms=arms), *after.cases[1:]))
    found = find_regressions(before, other, 0.05)
    assert not found.comparable
    assert "code of default" in found.reason


def test_what_is_not_timed_now_is_no_pass() -> None:
    before, after = stored(10 * MS, 1), stored(10 * MS, 2)
    gone = replace(after, cases=tuple(replace(case, arms=case.arms[:1]) for case in after.cases))
    found = find_regressions(before, gone, 0.05)
    assert (found.comparable, found.reason) == (False, "not timed this time: default in all cases")
    slower = stored(20 * MS, 2)
    one_more = replace(before, cases=(*before.cases, replace(before.cases[0], case="long")))
    assert find_regressions(one_more, slower, 0.05).regressed, "what is slower is told, whatever is missing"


def test_another_weight_of_a_case_is_another_bench() -> None:
    before, after = stored(10 * MS, 1), stored(10 * MS, 2)
    first, second = (
        replace(each, cases=(replace(each.cases[0], case="long", weight=weight), *each.cases))
        for each, weight in ((before, 10.0), (after, 90.0))
    )
    found = find_regressions(first, second, 0.05)
    assert (found.comparable, found.reason) == (
        False,
        "the benches differ, so they cannot be compared: weight of long (10, now 90)",
    )


def test_an_arm_that_fails_now_has_regressed() -> None:
    found = find_regressions(stored(10 * MS, 1), stored(10 * MS, 1, blocks=(), error="RuntimeError: x"), 0.05)
    assert found.regressed
    assert found.reason == "default in all cases fails now: RuntimeError: x"


def test_another_stack_is_named_and_not_compared() -> None:
    other = (
        ("torch", "2.14.0"),
        ("cpu", "planted"),
        ("clock of the CPU", "2.9 GHz"),
        ("git commit", "def"),
        ("LD_PRELOAD", "x.so"),
    )
    found = find_regressions(stored(10 * MS, 1), stored(12 * MS, 2, other), 0.05)
    assert not found.comparable
    assert (
        found.reason
        == "the benches differ, so they cannot be compared: torch (2.13.0, now 2.14.0), LD_PRELOAD (-, now x.so)"
    )
    assert [each.name for each in found.stack] == ["torch", "LD_PRELOAD"]
    code = (*STACK[:2], ("clock of the CPU", "2.9 GHz"), ("git commit", "def"))
    assert find_regressions(stored(10 * MS, 1), stored(12 * MS, 2, code), 0.05).comparable, (
        "the code is what is compared"
    )
    assert not find_regressions(replace(stored(10 * MS, 1), cases=()), stored(12 * MS, 2), 0.05).comparable
    assert not find_regressions(stored(10 * MS, 1, ()), stored(12 * MS, 2, ()), 0.05).comparable


def test_the_number_of_calls_that_are_timed_as_one_is_noted() -> None:
    def notes(calls: int) -> tuple[str, ...]:
        ran = [replace(each, request=replace(each.request, calls=calls)) for each in GAIN]
        return of(ran).notes

    assert "one call stands for 8 calls in a row" in notes(8)
    assert notes(1) == ()
