"""Does a bench agree with the way PyTorch's own benchmark runner measures? Shares no code with tcready.

Each case of a stored report is measured anew in one process: eager and compiled calls in turn, each synchronised, the
ratio of the medians. That is a ratio of single calls, so it is compared with the bench's interval of single calls, and
with that of blocks where the bench has no other. It agrees if it lies within it, or within 2 % of it: it is of one
process, and the interval is of the mean of several.

    python benchmarks/speed_check.py REPORT.json FILE.py::MODEL FILE.py::INPUTS [--device cuda] [--dtype bfloat16]

Exit 1 if a case disagrees.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

ROUNDS = 40
WARM = 12
SLACK = 1.02
"""How far processes differ from their mean."""


def named(text: str) -> Any:
    path, _, name = text.partition("::")
    spec = importlib.util.spec_from_file_location("target", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["target"] = module
    spec.loader.exec_module(module)
    return getattr(module, name)


def moved(value: Any, device: str, dtype: torch.dtype | None) -> Any:
    if isinstance(value, torch.Tensor):
        value = value.to(device)
        return value.to(dtype) if dtype is not None and value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: moved(item, device, dtype) for key, item in value.items()}
    return type(value)(moved(item, device, dtype) for item in value) if isinstance(value, (list, tuple)) else value


def ratio(eager: Any, compiled: Any, given: Any, device: str) -> float:
    """Median seconds of eager calls over those of compiled ones, in turn."""

    def seconds(model: Any) -> float:
        inputs = copy.deepcopy(given)
        args, kwargs = ((), inputs) if isinstance(inputs, dict) else (inputs, {})
        args = args if isinstance(args, (list, tuple)) else (args,)
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        began = time.perf_counter()
        model(*args, **kwargs)
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        return time.perf_counter() - began

    for _ in range(WARM):
        seconds(eager), seconds(compiled)
    pairs = [(seconds(eager), seconds(compiled)) for _ in range(ROUNDS)]
    return statistics.median(one for one, _ in pairs) / statistics.median(other for _, other in pairs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report")
    parser.add_argument("model")
    parser.add_argument("inputs")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype")
    options = parser.parse_args()
    dtype = getattr(torch, options.dtype) if options.dtype else None
    bench = json.loads(Path(options.report).read_text("utf-8"))["targets"][0]["bench"]
    torch.manual_seed(0)
    built = named(options.model)().to(options.device).eval()
    eager = built.to(dtype) if dtype is not None else built
    given = moved(named(options.inputs)(), options.device, dtype)
    cases = given["cases"] if isinstance(given, dict) and "cases" in given else {None: given}
    apart = 0
    with torch.no_grad():
        for case in bench["cases"]:
            name = case["case"] if case["case"] in cases else None
            arm = next(arm for arm in case["arms"] if arm["arm"] == "default")
            if name not in cases or arm["speedup"] is None:
                continue
            torch.compiler.reset()
            found = ratio(eager, torch.compile(eager), cases[name], options.device)
            single = arm.get("speedup_single")
            of, known = ("single calls", single) if single else ("blocks", arm["speedup"])
            agrees = known["low"] / SLACK <= found <= known["high"] * SLACK
            apart += not agrees
            print(
                f"{case['case']}: {found:.3f}, the bench has {known['low']:.3f} to {known['high']:.3f} of {of}: "
                f"{'agrees' if agrees else 'APART'}"
            )
    return 1 if apart else 0


if __name__ == "__main__":
    sys.exit(main())
