"""How many models `tcready sweep` works through, against one `tcready check` after the other, and what kills do to it.

Models are parametrised from those of fixtures/models that only need torch: each is a copy whose inputs, and where that is
easy widths, are others. Then:

- some of them are checked one at a time, each in a process of its own (`--singles`);
- all are swept, undisturbed, while the resident memory of the sweep and of all its processes is looked at;
- all are swept again into a store of its own, and the sweep is killed with SIGKILL `--kills` times on the way. Its last
  table has to equal the undisturbed one but for times, and no result that was finished may have been made twice.

    python benchmarks/sweep.py --count 1000 --singles 40 --kills 5 [--out FOLDER]

Exits 1 if the throughput is below `--bar` times that of the singles, memory grows, or the tables differ.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MODELS = HERE.parent / "fixtures" / "models"
SEEDS = (
    "clean_vit",
    "clean_dense_moe",
    "clean_lookalikes",
    "adaptive_halting",
    "configured_blocks",
    "deepcopy_teacher",
    "detector_head",
    "ema_tracker",
    "feature_recorder",
    "kv_cache_decoder",
    "lengths_loop",
    "linear_loop_prints",
    "moe_router",
    "retrieval_index",
    "super_chain",
    "vq_logging",
)
"""Models whose file alone says all: no extension to build, no other file."""
VARIED = """

_inputs_as_shipped = get_inputs


def get_inputs():
    torch.manual_seed({seed})
    return _inputs_as_shipped()
"""
PAUSE = 0.5
"""Seconds between two looks at the memory."""
TIMES = ("time_share", "compile_seconds", "seconds", "stored", "reason")
"""What no two sweeps have alike in a row of the table."""


def made(folder: Path, count: int) -> list[Path]:
    """`count` files with a model each: the shipped ones in turn, no two alike."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number in range(count):
        name = SEEDS[number % len(SEEDS)]
        path = folder / f"{name}_{number:04}.py"
        path.write_text((MODELS / f"{name}.py").read_text("utf-8") + VARIED.format(seed=number), "utf-8")
        files.append(path)
    return files


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tcready", *arguments]


def singles(files: list[Path], root: Path) -> list[float]:
    """Seconds of a check of each file, in a process of its own, without a cache."""
    found = []
    for path in files:
        began = time.monotonic()
        done = subprocess.run(
            command("check", str(path.relative_to(root)), "--no-cache", "-q", "--output-format", "json"),
            cwd=root,
            capture_output=True,
            text=True,
        )
        found.append(time.monotonic() - began)
        if done.returncode not in (0, 1):
            raise SystemExit(f"{path.name} cannot be checked: {done.stderr.strip()[-300:]}")
    return found


class Memory(threading.Thread):
    """Looks at the resident memory of a process and of all that descend from it, until it is gone."""

    def __init__(self, process: int) -> None:
        super().__init__(daemon=True)
        self.process = process
        self.own: list[float] = []
        """Megabytes of the process itself."""
        self.server: list[float] = []
        """Of the largest of its direct children: what runs are copies of."""
        self.all: list[float] = []

    def run(self) -> None:
        while True:
            sizes = resident(self.process)
            if self.process not in sizes:
                return
            self.own.append(sizes[self.process][0])
            children = [size for size, parent in sizes.values() if parent == self.process]
            self.server.append(max(children, default=0.0))
            self.all.append(sum(size for size, _ in sizes.values()))
            time.sleep(PAUSE)


def resident(root: int) -> dict[int, tuple[float, int]]:
    """Megabytes and parent of a process and all below it."""
    table: dict[int, tuple[float, int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            pages = int((entry / "statm").read_text().split()[1])
        except (OSError, IndexError):
            continue
        table[int(entry.name)] = (pages * os.sysconf("SC_PAGE_SIZE") / 1e6, int(fields[1]))
    found: dict[int, tuple[float, int]] = {}
    wanted = [root] if root in table else []
    while wanted:
        process = wanted.pop()
        found[process] = table[process]
        wanted += [each for each, (_, parent) in table.items() if parent == process]
    return found


def sweep(root: Path, store: Path, output: Path, jobs: int, *more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command(
            *("sweep", "models", "--store", str(store), "--jobs", str(jobs), "--no-cache", "-q", "--exit-zero"),
            *("--output-format", "json", "-o", str(output), *more),
        ),
        cwd=root,
        start_new_session=True,
    )


def table(output: Path) -> Any:
    """What a sweep found, without times."""
    found = json.loads(output.read_text("utf-8"))["sweep"]
    rows = [{key: value for key, value in row.items() if key not in TIMES} for row in found["models"]]
    sites = [{key: value for key, value in site.items() if key != "seconds"} for site in found["sites"]]
    return rows, sorted(sites, key=lambda site: (site["path"], site["line"]))


def finished(store: Path) -> dict[str, tuple[int, float]]:
    """By key, how often the task of a finished result was begun, and when."""
    if not store.exists():
        return {}
    base = sqlite3.connect(store, timeout=60)
    try:
        rows = base.execute("SELECT key, tries, began FROM results WHERE status = 'done'").fetchall()
    finally:
        base.close()
    return {key: (tries, began) for key, tries, began in rows}


def growth(sizes: list[float]) -> float:
    """Megabytes between the medians of the second and the last quarter."""
    quarter = max(len(sizes) // 4, 1)
    return statistics.median(sizes[-quarter:]) - statistics.median(sizes[quarter : 2 * quarter] or sizes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--singles", type=int, default=20, help="checked one at a time; 0: none")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--bar", type=float, default=3.0)
    parser.add_argument("--growth", type=float, default=30.0, help="megabytes that memory may grow by")
    parser.add_argument("--peak", type=float, default=0.5, help="megabytes of the sweep for each model, beside 150")
    parser.add_argument("--out", type=Path, help="where models, stores and reports are left")
    given = parser.parse_args()
    root = given.out or Path(tempfile.mkdtemp(prefix="sweep-"))
    root.mkdir(parents=True, exist_ok=True)
    failures = []
    try:
        files = made(root / "models", given.count)
        chosen = random.Random(0).sample(files, min(given.singles, len(files)))
        alone = singles(chosen, root) if chosen else []

        store, output = root / "whole.sqlite", root / "whole.json"
        began = time.monotonic()
        process = sweep(root, store, output, given.jobs)
        memory = Memory(process.pid)
        memory.start()
        if (code := process.wait()) not in (0, 1):
            failures.append(f"the sweep ended with {code}")
        whole = time.monotonic() - began
        print(
            f"{given.count} models swept in {whole:.0f} s: {whole / given.count:.2f} s a model, {given.jobs} at a time"
        )
        if alone:
            each = statistics.mean(alone)
            factor = each / (whole / given.count)
            print(
                f"{len(alone)} checked alone: {each:.2f} s each (median {statistics.median(alone):.2f}); "
                f"factor {factor:.1f}"
            )
            if factor < given.bar:
                failures.append(f"the throughput is {factor:.1f} times that of single checks, not {given.bar:g}")
        for name, sizes in (
            ("the sweep", memory.own),
            ("what runs are copied from", memory.server),
            ("all", memory.all),
        ):
            print(f"memory of {name}: at most {max(sizes):.0f} MB, growth {growth(sizes):+.0f} MB")
        for name, sizes in (("the sweep", memory.own[:-10]), ("the server", memory.server[:-10])):
            if len(sizes) > 40 and growth(sizes) > given.growth:
                failures.append(f"the memory of {name} grew by {growth(sizes):.0f} MB")
        if max(memory.own) > 150 + given.peak * given.count:  # all results come together in its report
            failures.append(f"the sweep took {max(memory.own):.0f} MB")

        killed, final = root / "killed.sqlite", root / "killed.json"
        twice, known = 0, finished(killed)
        every = len(finished(store))
        for number in range(given.kills):
            process = sweep(root, killed, final, given.jobs)
            wanted = every * (number + 0.5 + random.Random(number).random()) / (given.kills + 1)
            while len(finished(killed)) < wanted and process.poll() is None:
                time.sleep(PAUSE)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            now = finished(killed)
            twice += sum(now.get(key) != row for key, row in known.items())
            known = now
            print(f"killed with {len(now)} of {every} results in the store")
        process = sweep(root, killed, final, given.jobs)
        if (code := process.wait()) not in (0, 1):
            failures.append(f"the sweep that was killed ended with {code}")
        at_end = finished(killed)
        twice += sum(at_end.get(key) != row for key, row in known.items())
        if given.kills:
            same = table(output) == table(final)
            again = sum(tries > 1 for tries, _ in at_end.values())
            print(
                f"{given.kills} kills: tables {'equal' if same else 'differ'}; {twice} finished results made twice; "
                f"{again} tasks begun again"
            )
            if not same:
                failures.append(f"the tables differ: compare {output} and {final}")
            if twice:
                failures.append(f"{twice} results that were finished were made again")
    finally:
        if given.out is None and not failures:
            shutil.rmtree(root, ignore_errors=True)
    for failure in failures:
        print(f"FAILED: {failure}")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
