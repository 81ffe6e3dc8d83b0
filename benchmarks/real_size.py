"""What `tcready check` costs and says at real size, beside a script that does the same by hand.

    python benchmarks/real_size.py time [NAME ...] [--device cuda]   wall time and memory of both
    python benchmarks/real_size.py models [--device cuda]            verdicts of models of transformers, four layers each
    python benchmarks/real_size.py planted [--device cuda]           the cases of fixtures/parity, each in each dtype
    python benchmarks/real_size.py hand NAME [--device cuda]         the script alone

Each prints one JSON object a line. `docs/pages/real_size.md` has the results and the machine of each.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import os
import resource
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT / "fixtures" / "real_size"


@dataclass(frozen=True)
class Job:
    """One model, in the dtype it is run in. `autocast` takes the place of `dtype`."""

    file: str
    dtype: str = ""
    autocast: str = ""
    mode: str = "infer"

    def options(self, device: str) -> list[str]:
        found = ["--device", device, "--mode", self.mode]
        on_gpu = device != "cpu"
        if self.dtype and on_gpu:
            found += ["--dtype", self.dtype]
        if self.autocast and on_gpu:
            found += ["--autocast", self.autocast]
        return found


JOBS = {
    "resnet50": Job("resnet50.py", "bfloat16"),
    "bert": Job("bert_base.py", "bfloat16"),
    "bert-training": Job("bert_training.py", autocast="bfloat16", mode="train"),
    "llama-1b": Job("llama_1b.py", "bfloat16"),
    "llama-7b": Job("llama_7b.py", "bfloat16"),
}
NAMES = (
    *"vit bert roberta wav2vec2 llama phi3 qwen3 gpt2 t5 bart whisper mistral gemma deit opt gpt_neox".split(),
    "clip_vision_model",
)
"""Model types of transformers. The first seven were called not ready for rounding alone."""
LAYERS = {
    "gpt2": ("n_layer",),
    "t5": ("num_layers", "num_decoder_layers"),
    "bart": ("encoder_layers", "decoder_layers"),
    "whisper": ("encoder_layers", "decoder_layers"),
}
PARALLEL = max(2, (os.cpu_count() or 2) - 2)


# By hand


def run_by_hand(name: str, device: str) -> None:
    """What a check does, as a user would write it: import, build, eager call, explain, fullgraph, compare."""
    began = time.time()
    import torch

    job = JOBS[name]
    on_gpu = device != "cpu"
    steps: dict[str, float] = {}

    def step(what: str) -> None:
        if on_gpu:
            torch.cuda.synchronize()
        steps[what] = round(time.time() - began, 2)

    module = runpy.run_path(str(MODELS / job.file))
    step("import")
    if job.dtype and on_gpu:
        torch.set_default_dtype(getattr(torch, job.dtype))
    with torch.device(device):
        model = module["Model"]().train(job.mode == "train")
        inputs = module["get_inputs"]()
    torch.set_default_dtype(torch.float32)
    step("build")
    autocast = torch.autocast(device, getattr(torch, job.autocast or "bfloat16"), enabled=bool(job.autocast) and on_gpu)
    difference = 0.0
    for case in (inputs["cases"] if isinstance(inputs, dict) else {"": inputs}).values():

        def call(function: Any, case: Any = case, backward: bool = job.mode == "train") -> Any:
            args, kwargs = ((), _cloned(case)) if isinstance(case, dict) else (_cloned(case), {})
            with autocast, torch.set_grad_enabled(job.mode == "train"):
                output = function(*args, **kwargs)
            if not backward:
                return [output]
            model.zero_grad()
            output.backward()
            gradients = [each.grad for each in model.parameters() if each.grad is not None]
            return [output.detach(), *(each.clone() for each in gradients)]

        eager = call(model)
        call(torch._dynamo.explain(model), backward=False)
        torch._dynamo.reset()
        whole = call(torch.compile(model, backend="eager", fullgraph=True))
        for one, other in zip(eager, whole, strict=True):
            difference = max(difference, float((one.float() - other.float()).abs().max()))
    step("compare")
    memory = torch.cuda.max_memory_allocated() if on_gpu else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"name": name, "steps": steps, "difference": difference, "memory_gb": round(memory / 1e9, 2)}))


def _cloned(case: Any) -> Any:
    import copy

    return copy.deepcopy(case)


# tcready beside it


def time_both(names: list[str], device: str) -> None:
    """One line a model: seconds of both, as a user waits for them, and memory."""
    for name in names:
        hand, hand_seconds = _timed([sys.executable, __file__, "hand", name, "--device", device])
        by_hand = json.loads(hand.stdout.splitlines()[-1]) if hand.returncode == 0 else {"error": hand.stderr[-300:]}
        report, seconds = check([f"{MODELS / JOBS[name].file}::Model", *JOBS[name].options(device)])
        row = {"name": name, "device": device, "by_hand_s": hand_seconds, "check_s": seconds}
        row["ratio"] = round(seconds / hand_seconds, 2)
        row["by_hand_gb"] = by_hand.get("memory_gb", by_hand.get("error"))
        print(json.dumps({**row, **_told(report)}), flush=True)


def _timed(command: list[str]) -> tuple[subprocess.CompletedProcess[str], float]:
    began = time.time()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done, round(time.time() - began, 1)


def check(arguments: list[str]) -> tuple[dict[str, Any], float]:
    """The report of `tcready check`, and the seconds that it took."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        command = [sys.executable, "-m", "tcready", "check", "--no-cache", "--exit-zero", "--timeout", "560"]
        done, seconds = _timed([*command, "--output-format", "json", "-o", str(path), *arguments])
        if not path.exists():
            return {"error": done.stderr[-500:]}, seconds
        return json.loads(path.read_text("utf-8")), seconds


def _told(report: dict[str, Any]) -> dict[str, Any]:
    """What the report says of its only target."""
    if "error" in report:
        return report
    target = report["targets"][0]
    stages = {stage["stage"]: stage for stage in target["stages"]}
    found: dict[str, Any] = {"verdict": target["verdict"], "parity": stages["parity"]["detail"][:160]}
    failed = [f"{name}: {stage['detail'][:120]}" for name, stage in stages.items() if stage["state"] == "fail"]
    environment = target.get("environment") or {}
    found["failed"] = failed
    found["memory_gb"] = round((environment.get("peak_device_bytes") or 0) / 1e9, 2)
    found["host_gb"] = round((environment.get("peak_host_bytes") or 0) / 1e9, 2)
    found["stages"] = {name: stage["seconds"] for name, stage in stages.items() if stage["seconds"]}
    return found


def check_models(names: list[str], device: str) -> None:
    """One line a model and dtype: the verdict, and what parity says."""
    jobs = [(name, dtype) for name in names for dtype in ("bfloat16", "float16")]

    def run(job: tuple[str, str]) -> dict[str, Any]:
        name, dtype = job
        config = [f"--config={key}=4" for key in LAYERS.get(name, ("num_hidden_layers",))]
        report, seconds = check([f"hf:{name}", *config, "--dtype", dtype, "--device", device, "--run"])
        return {"name": name, "dtype": dtype, "seconds": seconds, **_told(report)}

    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        for row in pool.map(run, jobs):
            row.pop("stages", None)
            print(json.dumps(row), flush=True)


def check_planted(device: str, like: str) -> None:
    """Runs every case of fixtures/parity in each of its dtypes; prints those that are judged wrongly, and the counts."""
    from tcready.dynamic import ForkServer, RunRequest, observe
    from tcready.portable.options import RunOptions

    jobs = list(_planted(like))
    servers = [ForkServer() for _ in range(PARALLEL)]

    def run(number: int) -> list[dict[str, Any]]:
        rows = []
        for path, dtype, mode in jobs[number::PARALLEL]:
            options = RunOptions(device=device, dtype=dtype, mode=mode)  # type: ignore[arg-type]
            seen = observe(RunRequest(f"{path.name}::Model", options, str(path.parent), server=servers[number]))
            stage = next(stage for stage in seen.stages if stage.stage == "parity")
            right = stage.state == "pass" if path.parent.name == "rounding" else stage.state == "fail"
            row = {"case": f"{path.parent.name}/{path.stem}", "dtype": dtype, "state": stage.state}
            failed = [f"{each.stage}: {each.detail}" for each in seen.stages if each.state == "fail"]
            rows.append({**row, "right": right, "detail": stage.detail[:200], "failed": failed[:1]})
            if not right:
                print(json.dumps(rows[-1]), flush=True)
        return rows

    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        rows = [row for found in pool.map(run, range(PARALLEL)) for row in found]
    for server in servers:
        server.close()
    print(json.dumps({"device": device, "cases": len(rows), "right": sum(row["right"] for row in rows)}))


def _planted(like: str) -> Iterator[tuple[Path, str, str]]:
    for path in sorted((ROOT / "fixtures" / "parity").glob("*/*.py")):
        case = runpy.run_path(str(path))
        for dtype in case.get("DTYPES", ("float32", "bfloat16", "float16")):
            if like in f"{path.parent.name}/{path.stem}-{dtype}":
                yield path, dtype, case.get("MODE", "infer")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("time", "models", "planted", "hand"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--device", default="cuda")
    asked = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with contextlib.suppress(KeyboardInterrupt):
        if asked.what == "hand":
            run_by_hand(asked.names[0], asked.device)
        elif asked.what == "time":
            time_both(asked.names or list(JOBS), asked.device)
        elif asked.what == "models":
            check_models(asked.names or list(NAMES), asked.device)
        else:
            check_planted(asked.device, asked.names[0] if asked.names else "")


if __name__ == "__main__":
    main()
