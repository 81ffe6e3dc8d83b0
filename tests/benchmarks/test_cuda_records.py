"""Runs recorded on NVIDIA GPUs (torch 2.11, CUDA 13.0), merged and rendered where there is no GPU.

The records of an H200 were made with the standalone worker from `fixtures/cuda/models.py` and two fixture models, those of
two H200s by `benchmarks/two_gpus.sh`; only the folders of the machines were taken out of them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tcready import api, merge, reports
from tcready.reports.shared.phrases import duration
from tcready.schema.codec import from_json
from tcready.schema.observation import Observation
from tcready.schema.report import Report, Tool
from tcready.schema.static import StaticResult

FOLDER = Path(__file__).parents[2] / "fixtures" / "cuda"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
STATIC = StaticResult((), (), (), (), (), {})


def seen(name: str) -> Observation:
    return from_json(Observation, json.loads((FOLDER / f"{name}.json").read_text("utf-8")))


def merged(name: str) -> Report:
    return merge.merge(STATIC, [seen(name)], {}, Tool("tcready", "0"))


def test_the_records_are_of_a_gpu_and_of_each_kind_of_model() -> None:
    assert {"bert", "moe", "vit", "detector", "unet", "whisper"} <= set(NAMES)
    for name in NAMES:
        environment = seen(name).environment
        assert environment is not None
        assert environment["gpu"] == "NVIDIA H200"
        assert environment["device"] == "cuda"
        assert environment["torch"].startswith("2.11.0")


@pytest.mark.parametrize("name", NAMES)
def test_time_is_the_devices(name: str) -> None:
    coverage = seen(name).coverage
    assert coverage is not None
    assert coverage.clock == "cuda"
    assert coverage.seconds is not None
    assert coverage.time_share is not None
    assert 0 < coverage.seconds < 1
    spent = sum(site.cost.seconds for site in seen(name).break_sites if site.cost)
    assert spent <= coverage.seconds * (1 - coverage.time_share) * 1.001


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", sorted(reports.FORMATS))
def test_every_format_holds_a_gpus_record(name: str, form: str) -> None:
    text = reports.render(merged(name), form)
    assert "/site-packages" not in text or form == "json"
    if form in ("text", "html"):
        assert "NVIDIA H200" in text
        assert "reduce-overhead" in text


def test_what_breaks_costs_device_time() -> None:
    report = merged("moe")
    (found,) = [f for f in report.findings if f.line == 268]
    assert found.cost is not None
    assert found.cost["operations"] > 100
    (target,) = report.targets
    assert target.verdict in ("ready_by_region", "not_ready")
    assert target.coverage is not None
    assert target.coverage.time_share != target.coverage.share


def test_the_backend_stage_on_cuda() -> None:
    whole = {entry.mode: entry for entry in seen("bert").backend}
    assert set(whole) == {"default", "reduce-overhead"}
    assert whole["default"].kernels > 10
    assert whole["default"].cold_seconds is not None
    assert whole["default"].warm_seconds is not None
    assert whole["default"].cold_seconds > whole["default"].warm_seconds
    assert whole["reduce-overhead"].cudagraphs == 1
    detector = next(entry for entry in seen("detector").backend if entry.mode == "reduce-overhead")
    assert {skip.path for skip in detector.cudagraph_skips} == {"torchvision/models/detection/anchor_utils.py"}
    assert "DeviceCopy" in detector.cudagraph_skips[0].reason
    broken = next(entry for entry in seen("moe").backend if entry.mode == "reduce-overhead")
    assert broken.error.startswith("InductorError")
    assert "InductorError" in reports.render(merged("moe"), "text")


def test_a_training_run_on_cuda() -> None:
    record = seen("clean_unet")
    assert record.mode == "train"
    assert record.training is not None
    assert {graph.phase for graph in record.graphs} >= {"forward"}
    parity = next(stage for stage in record.stages if stage.stage == "parity")
    assert parity.state == "pass"
    assert "gradients" in parity.detail


def test_a_record_from_elsewhere_is_merged_with_what_the_source_says_here() -> None:
    models = FOLDER.parent / "models"
    report = api.check(["moe_router.py"], observations=[FOLDER / "moe_router.json"], root=models)
    states = {(f.line, f.status) for f in report.findings if f.rule is not None and f.effect == "graph_break"}
    assert "confirmed" in {status for _, status in states}
    assert "predicted" not in {status for _, status in states}
    (target,) = report.targets
    assert target.environment is not None
    assert target.environment["gpu"] == "NVIDIA H200"
    assert not [w for w in report.warnings if "changed" in w or "differ" in w], report.warnings


def test_a_record_of_another_target_than_was_named_is_told() -> None:
    models, record = FOLDER.parent / "models", FOLDER / "moe_router.json"
    apart = "moe_router.py was run elsewhere and is not what was named here"
    for named in ("moe_router.py", "moe_router.py::Model", str(models / "moe_router.py"), "."):
        report = api.check([named], observations=[record], root=models)
        assert not [w for w in report.warnings if "named" in w], named
    report = api.check(["clean_dense_moe.py"], observations=[record], root=models)
    assert [w for w in report.warnings if w.startswith(apart)]


@pytest.mark.parametrize("name", ["plan_bert", "plan_unet", "plan_moe"])
def test_a_plan_was_measured_with_inductor_on_the_device(name: str) -> None:
    plan = seen(name).plan
    assert plan is not None
    sound = {item.name: item for item in reversed(plan.alternatives) if item.sound}
    assert plan.recommended in sound
    assert all(item.backend == "inductor" for item in sound.values())
    assert all(item.parity for item in sound.values())
    assert (plan.share or 0.0) >= (sound["whole"].share or 0.0)
    assert (sound["repeated_blocks"].graphs or 0) >= 1


def test_blocks_compiled_once_are_quicker_to_compile_than_the_whole_model() -> None:
    plan = seen("plan_bert").plan
    assert plan is not None
    seconds = {item.name: item.compile_seconds or 0.0 for item in plan.alternatives}
    assert seconds["repeated_blocks"] < seconds["whole"] / 4
    assert plan.quickest is not None
    assert plan.quickest.name == "repeated_blocks"


BENCHES = sorted((FOLDER / "bench").glob("*.json"))
H100_BENCHES = sorted((FOLDER / "bench_h100").glob("*.json"))
PAGE = (Path(__file__).parents[2] / "docs" / "pages" / "benchmarks.md").read_text("utf-8")


def test_benches_are_of_five_kinds_of_models_in_two_precisions() -> None:
    kinds = ("cnn", "decoder", "encoder", "policy", "unet")
    assert [path.stem for path in BENCHES] == [f"{kind}_{dtype}" for kind in kinds for dtype in ("bf16", "fp32")]


@pytest.mark.parametrize("path", [*BENCHES, *H100_BENCHES], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_bench_of_a_gpu_is_shown_as_it_was_measured(path: Path) -> None:
    recorded = from_json(Observation, json.loads(path.read_text("utf-8")))
    bench = recorded.bench
    assert bench is not None
    gpu = "NVIDIA H100 80GB HBM3" if path in H100_BENCHES else "NVIDIA H200"
    assert dict(bench.stack)["gpu"] == gpu
    report = merge.merge(STATIC, [recorded], {}, Tool("tcready", "0"))
    for form in ("text", "html", "markdown", "json"):
        assert gpu in reports.render(report, form)
    for case in bench.cases:
        for arm in case.arms:
            if arm.arm == "eager":
                continue
            assert arm.speedup is not None
            assert arm.kernel_seconds is not None
            shown = f"{arm.speedup.median:.3f} ({arm.speedup.low:.3f} to {arm.speedup.high:.3f})"
            (row,) = (line for line in PAGE.splitlines() if shown in line)
            assert row.endswith(f"| {arm.verdict.replace('_', ' ')} |")
            if path in H100_BENCHES:
                assert arm.seconds is not None
                assert arm.seconds.p99 is not None
                assert arm.cold_seconds is not None
                assert f"| {duration(arm.seconds.p99)} | {duration(arm.cold_seconds.median)} |" in row


SEVERAL = sorted((FOLDER / "several").glob("*.json"))
MODELS = (FOLDER.parent / "several" / "models.py").read_text("utf-8").splitlines()


def over_nccl(name: str) -> Observation:
    return from_json(Observation, json.loads((FOLDER / "several" / f"{name}.json").read_text("utf-8")))


def line_of(text: str) -> int:
    (found,) = (number for number, line in enumerate(MODELS, 1) if text in line)
    return found


@pytest.mark.parametrize("path", SEVERAL, ids=lambda path: path.stem)
def test_a_record_over_nccl_in_every_format(path: Path) -> None:
    recorded = over_nccl(path.stem)
    assert recorded.environment is not None
    assert recorded.environment["gpu"] == "NVIDIA H200"
    assert recorded.parallel is not None
    assert [rank.rank for rank in recorded.parallel.ranks] == [0, 1]
    report = merge.merge(STATIC, [recorded], {}, Tool("tcready", "0"))
    for form in sorted(reports.FORMATS):
        text = reports.render(report, form)
        if form in ("text", "html", "json"):
            assert "NVIDIA H200" in text


@pytest.mark.parametrize(
    ("name", "share", "graphs"),
    [("ddp", 1.0, 1), ("fsdp", 6 / 7, 1), ("fsdp-train", 0.875, 2), ("tp", 1.0, 1), ("tp-own", 1.0, 1)],
)
def test_two_gpus_capture_what_two_processes_on_a_cpu_do(name: str, share: float, graphs: int) -> None:
    recorded = over_nccl(name)
    assert recorded.ddp is not None
    assert (recorded.ddp.processes, recorded.ddp.backend) == (2, "nccl")
    assert recorded.parallel is not None
    assert recorded.parallel.differences == ()
    for rank in recorded.parallel.ranks:
        assert (rank.share, rank.graphs) == (share, graphs)
    assert {stage.stage: stage.state for stage in recorded.stages}["parity"] == "pass"


def test_the_parts_of_a_graph_over_nccl() -> None:
    recorded = over_nccl("ddp")
    assert recorded.ddp is not None
    assert [split.buckets for split in recorded.ddp.splits] == [(3151872, 1050624)]


@pytest.mark.parametrize(
    ("name", "text", "collectives"), [("uneven", "x = x * 2", False), ("apart", "total = total[:8]", True)]
)
def test_ranks_that_compile_different_graphs_over_nccl(name: str, text: str, collectives: bool) -> None:
    recorded = over_nccl(name)
    assert recorded.parallel is not None
    (difference,) = recorded.parallel.differences
    assert difference.collectives is collectives
    assert difference.place is not None
    assert difference.place.line == line_of(text)
    capture = next(stage for stage in recorded.stages if stage.stage == "capture")
    assert capture.state == ("fail" if collectives else "pass")


@pytest.mark.parametrize(
    ("name", "detail"),
    [("dies", "rank 1 died by SIGKILL"), ("waits", "(rank 0 at models.py:80, rank 1 at models.py:84)")],
)
def test_a_rank_that_dies_or_hangs_over_nccl_fails_its_stage(name: str, detail: str) -> None:
    recorded = over_nccl(name)
    failed = [stage for stage in recorded.stages if stage.state == "fail"]
    assert [stage.stage for stage in failed] == ["eager"]
    assert detail in failed[0].detail
    report = merge.merge(STATIC, [recorded], {}, Tool("tcready", "0"))
    assert report.targets[0].verdict not in ("ready", "ready_by_region")
