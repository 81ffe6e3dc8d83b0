"""Does a whole `tcready bench` say what is the matter with models in which something was planted, and never crash?

    python benchmarks/planted_benches.py [NAME ...]

The models are those of `fixtures/bench/`. Printed is a row for each; the exit is 1 if one did not get its verdict.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tcready import api
from tcready.portable.options import BenchOptions
from tcready.schema.bench import Bench
from tcready.schema.enums import TcreadyError

MODELS = Path(__file__).resolve().parent.parent / "fixtures" / "bench"
SLACK = 45.0
"""Seconds that a bench may take beyond its budget: the process under way is waited for, or ended."""


@dataclass(frozen=True)
class Planted:
    """A model, how it is benched, and what must come of it."""

    wanted: BenchOptions
    shows: Callable[[Bench], bool]
    words: str


def _box(bench: Bench, name: str) -> str:
    return next(f"{item.state}: {item.detail}" for item in bench.checklist if item.item == name)


def _failed(bench: Bench, words: str) -> bool:
    arms = [arm for arm in bench.cases[-1].arms if arm.code]
    return bench.verdict != "real_gain" and all(
        arm.verdict == "failed" and words in arm.reason and f"{arm.arm} failed: " in bench.reason for arm in arms
    )


PLANTED = {
    "differs": Planted(
        BenchOptions(quick=True),
        lambda bench: _failed(bench, "its outputs differ from eager: output 0"),
        "failed: its outputs differ",
    ),
    "leaks": Planted(
        BenchOptions(quick=True, soak=20.0),
        lambda bench: (
            _box(bench, "stability").startswith("fail: default: resident memory grows steadily")
            and any(note.startswith("each call changes kept") for note in bench.notes)
        ),
        "stability fails: memory grows steadily",
    ),
    "recompiles": Planted(
        BenchOptions(quick=True), lambda bench: _failed(bench, "recompile limit"), "failed: the recompile limit"
    ),
    "slow_compile": Planted(
        BenchOptions(quick=True, bench_budget=30.0),
        lambda bench: bench.verdict in ("inconclusive", "not_run") and bool(bench.cut),
        "inconclusive or not run, and what was cut",
    ),
    "loader_bound": Planted(
        BenchOptions(quick=True, loader="loader_bound.py::make_loader"),
        lambda bench: (
            bench.verdict in ("no_gain", "regression", "inconclusive")
            and "of the time for data" in bench.reason
            and bench.recommended in ("eager", None)
        ),
        "no gain, and the share of the time that it waits",
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[[], *PLANTED], default=[])
    wrong = 0
    for name in parser.parse_args().names or PLANTED:
        planted = PLANTED[name]
        began = time.monotonic()
        try:
            report = api.bench(f"{name}.py", wanted=planted.wanted, root=MODELS)
            bench = next(each.observation.bench for each in report.targets if each.observation.bench)
        except TcreadyError as error:
            print(f"{name}: WRONG: {error}", flush=True)
            wrong += 1
            continue
        seconds = time.monotonic() - began
        budget = (planted.wanted.bench_budget or 120.0) + (planted.wanted.soak or 0.0)
        right = planted.shows(bench) and seconds < budget + SLACK
        wrong += not right
        word = "right" if right else f"WRONG, expected {planted.words}"
        print(f"{name}: {word}; {seconds:.0f} s; {bench.verdict}: {bench.reason}", flush=True)
        for line in (*bench.notes, *bench.cut, *([] if bench.soak is None else [_box(bench, "stability")])):
            print(f"    {line}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
