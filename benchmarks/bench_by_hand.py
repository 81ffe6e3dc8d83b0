"""Compare `tcready bench` with two scripts on the same machine: the results, and how soon they are available.

    python benchmarks/bench_by_hand.py compare [NAME ...] [--device cuda] [--budget SECONDS] [--methods hand]
    python benchmarks/bench_by_hand.py hand NAME [--device cuda]      a script that a user would write
    python benchmarks/bench_by_hand.py runner NAME [--device cuda]    the method of PyTorch's benchmark runner

The script by hand alternates blocks of eager and of compiled calls, three times. The runner (`speedup_experiment` in
PyTorch's `benchmarks/dynamo/common.py`) alternates single calls and takes the ratio of the medians. Both print one JSON
object per line. `docs/pages/real_size.md` has the results and the machines.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import os
import re
import runpy
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT / "fixtures" / "real_size"
FIRST = re.compile(r"^\[(\d+) s\] eager .+ in this process")
"""Matches the line with the first answer."""
NEAR = 0.05
"""How far outside the interval the ratio of the script may lie, as a share of the bound."""
WARM, CALLS, ROUNDS, REPEATS = 15, 60, 3, 30


@dataclass(frozen=True)
class Job:
    """A target with the options of a run on a GPU. `inputs` names the function that returns its inputs."""

    file: Path
    model: str = "Model"
    inputs: str = "get_inputs"
    dtype: str = ""
    autocast: str = ""
    mode: str = "infer"

    def options(self, device: str) -> list[str]:
        found = ["--device", device, "--mode", self.mode]
        found += ["--inputs", f"{self.file}::{self.inputs}"] if self.inputs != "get_inputs" else []
        if device != "cpu":
            found += ["--dtype", self.dtype] if self.dtype else []
            found += ["--autocast", self.autocast] if self.autocast else []
        return found


MADE = ROOT / "benchmarks" / "speed_models.py"
JOBS = {
    "resnet50": Job(MODELS / "resnet50.py", dtype="float16"),
    "bert-training": Job(MODELS / "bert_training.py", autocast="bfloat16", mode="train"),
    "llama-1b": Job(MODELS / "llama_1b.py", dtype="bfloat16"),
    "unet": Job(MADE, "UNet", "unet_inputs", dtype="float16"),
    "policy": Job(MADE, "Policy", "policy_inputs"),
    "clean-vit": Job(ROOT / "fixtures" / "models" / "clean_vit.py"),
}


# By hand


def measure(name: str, device: str, method: Callable[[Any, Any], list[float]]) -> None:
    """Print the speedup of each case, as `method` measures it, and the seconds since the start."""
    began = time.time()
    import torch

    job, on_gpu = JOBS[name], device != "cpu"
    module = runpy.run_path(str(job.file))
    inputs = module[job.inputs]()
    cases = inputs["cases"] if isinstance(inputs, dict) and "cases" in inputs else {"": inputs}
    dtype = getattr(torch, job.dtype) if job.dtype and on_gpu else None
    arguments = module["get_init_inputs"]() if "get_init_inputs" in module else ((), {})
    if not (isinstance(arguments, tuple) and len(arguments) == 2 and isinstance(arguments[1], dict)):
        arguments = (arguments, {})

    def built() -> Any:
        torch.manual_seed(0)
        if dtype is not None:
            torch.set_default_dtype(dtype)
        with torch.device(device):
            model = module[job.model](*arguments[0], **arguments[1])
        torch.set_default_dtype(torch.float32)
        return model.train(job.mode == "train")

    def moved(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(device, dtype if value.is_floating_point() else None)
        if isinstance(value, dict):
            return {key: moved(each) for key, each in value.items()}
        return tuple(map(moved, value)) if isinstance(value, (tuple, list)) else copy.deepcopy(value)

    def stepping(model: Any, function: Any, case: Any) -> Callable[[], None]:
        given = moved(case)
        args, kwargs = (
            ((), given) if isinstance(given, dict) else ((given,) if isinstance(given, torch.Tensor) else given, {})
        )
        cast = torch.autocast(device, torch.bfloat16, enabled=bool(job.autocast) and on_gpu)
        if job.mode != "train":

            def call() -> None:
                with torch.no_grad(), cast:
                    function(*args, **kwargs)

            return call
        optimizer = torch.optim.AdamW(model.parameters())

        def step() -> None:
            with cast:
                loss = function(*args, **kwargs)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        return step

    for case_name, case in cases.items():
        torch._dynamo.reset()
        eager, model = built(), built()
        one, two = stepping(eager, eager, case), stepping(model, torch.compile(model), case)
        ratios = method(timer(one, device), timer(two, device))
        seconds = round(time.time() - began, 1)
        row = {"name": name, "case": case_name, "speedup": [round(each, 3) for each in ratios]}
        peak = torch.cuda.max_memory_allocated() if on_gpu else 0
        print(json.dumps({**row, "seconds": seconds, "peak_gb": round(peak / 1e9, 2)}), flush=True)


def timer(call: Callable[[], None], device: str) -> Callable[[], float]:
    """Return a function that runs one call, waits for it and returns its seconds."""
    import torch

    def timed() -> float:
        if device == "cpu":
            began = time.perf_counter()
            call()
            return time.perf_counter() - began
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1000

    return timed


def in_blocks(eager: Callable[[], float], compiled: Callable[[], float]) -> list[float]:
    """Return the ratio of the medians for each round of blocks."""

    def block(timed: Callable[[], float]) -> float:
        for _ in range(WARM):
            timed()
        return statistics.median(timed() for _ in range(CALLS))

    return [block(eager) / block(compiled) for _ in range(ROUNDS)]


def in_turn(eager: Callable[[], float], compiled: Callable[[], float]) -> list[float]:
    """Return the ratio of the medians of single calls."""
    for _ in range(WARM):
        eager(), compiled()
    pairs = [(eager(), compiled()) for _ in range(REPEATS)]
    return [statistics.median(one for one, _ in pairs) / statistics.median(two for _, two in pairs)]


# Compare with tcready


def compare(names: list[str], device: str, budget: str, methods: list[str]) -> None:
    """Print one line per model and case: the ratios of all three methods, and when each was available."""
    for name in names:
        rows: dict[str, dict[str, Any]] = {}
        memory: dict[str, float | None] = {}
        for method in methods:
            with watch_memory(memory, f"{method}_gb"):
                done = subprocess.run(
                    [sys.executable, __file__, method, name, "--device", device],
                    capture_output=True,
                    text=True,
                    check=False,
                )
            if done.returncode:
                print(json.dumps({"name": name, "method": method, "error": done.stderr[-300:]}), flush=True)
            for line in done.stdout.splitlines():
                row = json.loads(line)
                rows.setdefault(row["case"], {})[method] = row["speedup"]
                rows[row["case"]][f"{method}_s"] = row["seconds"]
                memory[f"{method}_allocated_gb"] = row["peak_gb"]
        with watch_memory(memory, "bench_gb"):
            report, first, seconds = bench(name, device, budget)
        found = report["targets"][0].get("bench") or {}
        for case in found.get("cases") or [{"case": "", "arms": []}]:
            by_hand = rows.get(case["case"], rows.get("", {}) if len(rows) <= 1 else {})
            arm = next((each for each in case["arms"] if each["arm"] != "eager"), {})
            speedup = arm.get("speedup") or {}
            row = {"name": name, "case": case["case"], "device": device, **by_hand, "bench_s": seconds}
            row |= {"first_s": first, "verdict": arm.get("verdict"), "reason": arm.get("reason", "")[:160]}
            row["speedup"] = [round(speedup[key], 3) for key in ("median", "low", "high")] if speedup else None
            if speedup and by_hand.get("hand"):
                hand = statistics.median(by_hand["hand"])
                row["agrees"] = speedup["low"] * (1 - NEAR) <= hand <= speedup["high"] * (1 + NEAR)
            print(json.dumps(row), flush=True)
        print(
            json.dumps(
                {
                    "name": name,
                    "processes": found.get("processes"),
                    "cut": found.get("cut"),
                    "remedies": [
                        [each["name"], (each["speedup"] or {}).get("median"), each["error"]]
                        for each in found.get("remedies", ())
                    ],
                    **memory,
                    "bench_allocated_gb": round((found.get("device_peak_bytes") or 0) / 1e9, 2),
                }
            ),
            flush=True,
        )


@contextlib.contextmanager
def watch_memory(into: dict[str, float | None], key: str) -> Iterator[None]:
    """Write the peak memory of all processes on the first GPU to `into[key]`, in GB. nvidia-smi reads it twice a second.
    None without nvidia-smi."""
    done, most = threading.Event(), [0]
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]

    def read() -> None:
        while not done.wait(0.5):
            with contextlib.suppress(OSError, ValueError):
                told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
                most[0] = max(most[0], int(told))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        done.set()
        reader.join()
        into[key] = round(most[0] * 2**20 / 1e9, 2) if most[0] else None


def bench(name: str, device: str, budget: str) -> tuple[dict[str, Any], int | None, float]:
    """Return the report, the seconds until the first answer, and the seconds of the whole command."""
    job = JOBS[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        command = [sys.executable, "-m", "tcready", "bench", f"{job.file}::{job.model}", *job.options(device)]
        command += ["--output-format", "json", "-o", str(path), *(["--budget", budget] if budget else [])]
        began = time.time()
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        seconds = round(time.time() - began, 1)
        first = next((int(m[1]) for line in done.stderr.splitlines() if (m := FIRST.match(line))), None)
        log = [line for line in done.stderr.splitlines() if line.startswith("[")]
        print(json.dumps({"name": name, "log": log}), flush=True)
        if not path.exists():
            return {"targets": [{"bench": {"cut": [done.stderr[-500:]]}}]}, first, seconds
        return json.loads(path.read_text("utf-8")), first, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("compare", "hand", "runner"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--budget", default="")
    parser.add_argument("--methods", default="hand,runner", help="methods to compare with")
    asked = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with contextlib.suppress(KeyboardInterrupt):
        if asked.what == "compare":
            compare(asked.names or list(JOBS), asked.device, asked.budget, asked.methods.split(","))
        else:
            measure(asked.names[0], asked.device, in_blocks if asked.what == "hand" else in_turn)


if __name__ == "__main__":
    main()
