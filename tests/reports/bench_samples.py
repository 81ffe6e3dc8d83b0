"""A bench made from data: several arms and cases, one arm failed and one undecided, and all that stands beside."""

from __future__ import annotations

import dataclasses

from tcready.schema.bench import (
    ArmBench,
    Bench,
    BenchCase,
    CarriedCode,
    CheckItem,
    Figure,
    Items,
    LoaderShare,
    Noise,
    Soak,
    SoakPoint,
    Throughput,
)

VENDOR = 'torch.compile(model, backend="<vendor & co>")'
_STEPS = (0.0, 0.4, -0.3, 0.9, -0.6, 0.2, 0.1, -0.2, 0.5, 2.1)
"""Of blocks in a process, from its mean, in percent."""


def _single_calls(seconds: float) -> tuple[float, ...]:
    return tuple(seconds * (0.97 + 0.08 * (at / 20) ** 3) for at in range(21))


def _blocks(seconds: float) -> tuple[tuple[float, ...], ...]:
    return tuple(
        tuple(seconds * (1 + process / 100) * (1 + step / 100) for step in _STEPS) for process in (-0.4, 0.0, 0.5)
    )


def _seconds(median: float) -> Figure:
    return Figure(median, median * 0.992, median * 1.009, 3, median * 0.998, median * 1.04, median * 1.21)


def _eager(seconds: float, launches: int) -> ArmBench:
    return ArmBench(
        "eager",
        "baseline",
        _seconds(seconds),
        memory_peak_bytes=812_000_000,
        memory_steady_bytes=790_400_000,
        kernel_seconds=Figure(seconds * 0.58, seconds * 0.57, seconds * 0.59, 3),
        kernel_launches=launches,
        host_seconds=seconds * 0.97,
        throughput=1 / seconds,
        blocks=_blocks(seconds),
        single_calls=_single_calls(seconds),
        settled=True,
        warm_calls=10,
    )


def _calls(median: float) -> Figure:
    return Figure(median, median * 0.94, median * 1.07, 3)


def _default(seconds: float, ratio: float, launches: int) -> ArmBench:
    won = seconds * (ratio - 1)
    return ArmBench(
        "default",
        "real_gain",
        _seconds(seconds),
        reason=f"{launches} kernels where eager launches {launches * 5}",
        speedup=Figure(ratio, ratio * 0.985, ratio * 1.016, 3),
        cold_seconds=Figure(14.2, 13.7, 14.9, 3),
        cold_warm_cache_seconds=Figure(4.11, 3.9, 4.4, 3),
        cold_carried_seconds=Figure(5.02, 5.02, 5.02, 1),
        cold_phases=(("dynamo", 3.1), ("aot_autograd", 2.4), ("inductor", 7.2), ("triton", 0.9)),
        memory_peak_bytes=1_010_000_000,
        memory_steady_bytes=771_000_000,
        kernel_seconds=Figure(seconds * 0.81, seconds * 0.8, seconds * 0.82, 3),
        kernel_launches=launches,
        host_seconds=seconds * 0.4,
        energy_joules=0.214,
        throughput=1 / seconds,
        graphs=1,
        breaks=0,
        recompiles=0,
        parity=True,
        break_even_calls=_calls(14.2 / won),
        break_even_warm_calls=_calls(4.11 / won),
        code="model = torch.compile(model)",
        blocks=_blocks(seconds),
        single_calls=_single_calls(seconds),
        settled=True,
        warm_calls=12,
    )


def _undecided(seconds: float) -> ArmBench:
    return ArmBench(
        "reduce-overhead",
        "inconclusive",
        _seconds(seconds),
        reason="the interval of the ratio holds 1: 4 more processes would tell",
        speedup=Figure(1.012, 0.961, 1.066, 3),
        cold_seconds=Figure(15.8, 15.1, 16.9, 3),
        cold_phases=(("dynamo", 3.0), ("inductor", 8.9)),
        memory_peak_bytes=1_460_000_000,
        memory_steady_bytes=1_210_000_000,
        kernel_launches=3,
        graphs=2,
        breaks=1,
        recompiles=4,
        parity=False,
        parity_detail="output 0 differs by 3.1e-02 of its largest value where 1.0e-03 is allowed",
        code='model = torch.compile(model, mode="reduce-overhead")',
        blocks=_blocks(seconds),
        single_calls=_single_calls(seconds),
        settled=False,
        warm_calls=50,
    )


def _failed() -> ArmBench:
    return ArmBench(
        VENDOR, "failed", None, reason='InvalidBackend: "<vendor & co>" is not known', code=f"model = {VENDOR}"
    )


def _case(name: str, eager: float, launches: int, weight: float | None, items: tuple[Items, ...] = ()) -> BenchCase:
    compiled = eager / 1.43
    arms = (_eager(eager, launches * 5), _default(compiled, 1.43, launches), _undecided(eager / 1.012), _failed())
    counted = tuple(
        dataclasses.replace(arm, rates=tuple(Throughput(each.unit, each.count / arm.seconds.median) for each in items))
        if arm.seconds is not None
        else arm
        for arm in arms
    )
    return BenchCase(name, counted, weight, "default", items=items)


def _tokens(batch: int, length: int) -> tuple[Items, ...]:
    return (
        Items("tokens", batch * length, f"tokens: {batch} x {length} input_ids"),
        Items("samples", batch, f"samples: {batch}, the first dimension of input_ids"),
    )


def _point(at: int) -> SoakPoint:
    return SoakPoint(
        at * 60.0,
        31_000,
        0.00132 * (1 + at / 900),
        0.0019 * (1 + (at % 3) / 40) if at else None,
        2_100_000_000 + 4_000_000 * at,
        None if at == 2 else 771_000_000,
        1 if at == 1 else 0,
    )


def full_bench() -> Bench:
    """A bench in which everything was asked for."""
    return Bench(
        "real_gain",
        "default is 1.43x as fast as eager over all cases (1.41 to 1.45), with a fifth of its kernels",
        (
            _case("prefill", 0.00412, 96, 0.25, _tokens(4, 512)),
            _case("decode <step>", 0.000731, 74, 0.75, _tokens(4, 1)),
            _case(
                "all cases",
                0.00158,
                80,
                None,
                (
                    Items("tokens", 515.0, "tokens: weighted mean of the cases"),
                    Items("samples", 4.0, "samples: weighted mean of the cases"),
                ),
            ),
        ),
        "default",
        "model = torch.compile(model)",
        'import os\nif os.environ.get("TCREADY_EAGER") == "1":\n    torch.compiler.set_stance("force_eager")',
        (
            CheckItem("representative inputs", "pass", "12 shapes from lengths.csv, with their counts"),
            CheckItem("memory", "fail", "peak 1.01 GB against 812 MB: +24 %, 20 % allowed"),
            CheckItem("stability", "pass", "soak of 600 s: no growth"),
            CheckItem("precision", "not_measured", "tcready bench model.py::Net --dtype bf16"),
            CheckItem("rollback", "pass"),
        ),
        LoaderShare("data.py::loader", 200, 0.00372, 0.00012, 0.00216, 1.56),
        Soak(
            "default",
            600.0,
            310_000,
            tuple(_point(at) for at in range(11)),
            1,
            24_000_000.0,
            0.011,
            "pass",
            "no growth beyond 5 % an hour, no recompile after the first minute",
        ),
        Noise(Figure(1.002, 0.994, 1.010, 3), "no_gain", 0.0045),
        (
            ("torch", "2.13.0+cu126"),
            ("cuda", "12.6"),
            ("driver", "565.57.01"),
            ("triton", "3.5.0"),
            ("python", "3.11.7"),
            ("cpu", "AMD EPYC 9554"),
            ("gpu", "NVIDIA H200"),
            ("TORCHINDUCTOR_MAX_AUTOTUNE", "<unset> & empty"),
            ("git commit", "0f31c2b"),
        ),
        "tcready bench model.py::Net --inputs model.py::get_inputs --arm eager --arm default --soak 600",
        21,
        412.0,
        ("max-autotune was not asked for", "the fifth process of decode: the budget was spent"),
        carried=(
            CarriedCode(
                "cache_artifacts",
                "default",
                5.02,
                0.04,
                bytes=923_431,
                same=True,
                limit="Dynamo traces the code again",
                save_code="with torch.no_grad():\n    output = model(*args, **kwargs)",
                load_code="model = torch.compile(model)",
            ),
            CarriedCode(
                "aot_compile",
                "default",
                0.113,
                0.085,
                16.1,
                1_398_976,
                same=False,
                detail="output 0 of call 1 differs by 40 %",
                limit="a call that fails a guard raises",
            ),
            CarriedCode("precompile", "default", error="this torch has no <capture> & load"),
        ),
    )


def hostile_bench(everything: str) -> Bench:
    """Every string is `everything`, and one number is none."""
    figure = Figure(1.0, 0.9, 1.1, 3)
    arm = ArmBench(
        everything,
        "regression",
        figure,
        everything,
        figure,
        cold_seconds=figure,
        cold_phases=((everything, 0.5),),
        throughput=float("nan"),
        rates=(Throughput(everything, 2.0),),
        parity=False,
        parity_detail=everything,
        break_even_calls=figure,
        code=everything,
        blocks=((1.0, 1.1), (0.9,)),
    )
    eager = ArmBench("eager", "baseline", figure, blocks=((1.0,),))
    return Bench(
        "regression",
        everything,
        (BenchCase(everything, (eager, arm), 1.0, everything, items=(Items(everything, 1.0, everything),)),),
        everything,
        everything,
        everything,
        (CheckItem(everything, "fail", everything),),
        LoaderShare(everything, 1, 1.0, 1.0, 1.0, 2.0),
        Soak(everything, 1.0, 1, (SoakPoint(0.0, 1, 1.0, None, 1, None, 0),), reason=everything),
        Noise(figure, "no_gain", 0.0),
        ((everything, everything),),
        everything,
        1,
        1.0,
        (everything,),
        carried=(
            CarriedCode("aot_compile", everything, 1.0, detail=everything, limit=everything, load_code=everything),
            CarriedCode("precompile", everything, error=everything),
        ),
    )
