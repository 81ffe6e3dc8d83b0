"""What a whole `tcready check` with its run costs, against a bare script that does what anybody would do by hand.

The bare script imports torch and the model's file, builds the model, runs it eagerly and once under
`torch.compile(backend="eager")`. Both are whole processes and run in turn, so that a busy moment hits both; the
ratio is that of the medians. Exits 1 where the median ratio over the models is above --bar.

    python benchmarks/overhead.py [MODEL.py ...] [--runs 5] [--bar 1.5]
    python benchmarks/overhead.py --records RECORDS.jsonl --zoo FOLDER --python ENV/bin/python [--every N]

A MODEL.py has `Model`, `get_inputs` and, where the model takes arguments, `get_init_inputs`. A record is one of
benchmarks/agreement.py. By default: fixture models with and without breaks.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODELS = HERE.parent / "fixtures" / "models"
DEFAULT = ("clean_vit", "clean_dense_moe", "moe_router", "helper_two_deep", "kv_cache_decoder", "detector_head")
BARE = """\
import importlib.util
import sys

import torch

spec = importlib.util.spec_from_file_location("model_of_bare", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules["model_of_bare"] = module
sys.path.insert(0, sys.argv[2])
spec.loader.exec_module(module)
inputs = module.get_inputs()
args, kwargs = inputs if isinstance(inputs, tuple) and len(inputs) == 2 and isinstance(inputs[1], dict) else (inputs, {})
model = module.Model(*getattr(module, "get_init_inputs", list)()).eval()
with torch.no_grad():
    model(*args, **kwargs)
    torch.compile(model, backend="eager")(*args, **kwargs)
"""
TARGET = """\
import importlib
import sys

sys.path.insert(0, {zoo!r})


def _made():
    module, function = {build!r}.split(":")
    return getattr(importlib.import_module(module), function)(**{kwargs!r})


def Model():
    return _made()[0]


def get_inputs():
    _, args, kwargs = _made()
    return tuple(args), dict(kwargs)
"""


def seconds(command: list[str], folder: Path) -> float:
    """Wall time of a process that ends well (0, or 1: findings). Raises RuntimeError with what it said elsewhere."""
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{command}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return time.perf_counter() - start


def ratio(model: Path, python: str, runs: int) -> float:
    """Prints one model's row, and gives the ratio of the medians."""
    folder = model.parent
    bare = [python, "-c", BARE, str(model), str(folder)]
    check = [sys.executable, "-m", "tcready", "check", model.name, "--inputs", f"{model.name}::get_inputs"]
    check += ["--no-cache", "-o", ".report.txt", "--python", python]
    if "def Model()" in model.read_text("utf-8"):
        check[4] = f"{model.name}::Model"
    elif "def get_inputs" in model.read_text("utf-8"):
        check = [c for c in check if c not in ("--inputs", f"{model.name}::get_inputs")]
    times: dict[str, list[float]] = {"bare": [], "check": []}
    for command in (bare, check):
        seconds(command, folder)  # bytecode is written once
    for _ in range(runs):
        times["bare"].append(seconds(bare, folder))
        times["check"].append(seconds(check, folder))
    medians = {name: statistics.median(found) for name, found in times.items()}
    found = medians["check"] / medians["bare"]
    print(f"{model.stem:40} bare {medians['bare']:6.2f} s   check {medians['check']:6.2f} s   {found:5.2f}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL.py")
    parser.add_argument("--records", type=Path)
    parser.add_argument("--zoo")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--every", type=int, default=40)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--bar", type=float, default=1.5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = []
        for path in args.models or [] if args.records else args.models or [MODELS / f"{m}.py" for m in DEFAULT]:
            copied = folder / path.name
            copied.write_text(path.read_text("utf-8"), "utf-8")
            models.append(copied)
        if args.records:
            records = [json.loads(line) for line in args.records.read_text("utf-8").splitlines() if line]
            for number, record in enumerate(records[:: args.every]):
                kind = record["target"].rpartition("::")[2].lower()
                path = folder / f"target_{number}_{kind}.py"
                spec = record["spec"]
                text = TARGET.format(zoo=str(Path(args.zoo).resolve()), build=spec["build"], kwargs=spec["kwargs"])
                path.write_text(text, "utf-8")
                models.append(path)
        found = []
        for model in models:
            try:
                found.append(ratio(model, args.python, args.runs))
            except RuntimeError as error:
                print(f"{model.stem:40} left out: {str(error).splitlines()[-1]}", flush=True)
    middle = statistics.median(found)
    print(f"median ratio {middle:.2f}, worst {max(found):.2f}; the bar is {args.bar}")
    sys.exit(middle > args.bar)


if __name__ == "__main__":
    main()
