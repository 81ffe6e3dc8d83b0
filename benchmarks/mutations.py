"""Mutates sources, notebooks, reports and traces, edits open files: does tcready do with each what it must?

    python benchmarks/mutations.py --out FOLDER --minutes 20 [--kinds source fix] [--seed 0] [--site SITE_PACKAGES ...]
    python benchmarks/mutations.py --case fix:1234 [--site ...]

Kinds, each described where it is checked (tests/helpers/mutated.py): source, silenced, edit, fix, notebook, report,
trace. With --site the files below these folders that name torch are mutated too, beside the fixtures. The kinds take
turns in batches; the numbers of a seed begin at a million times it, so that another seed makes other cases.

A failure is something wrong that the check names, an exception, a process that dies, and a case that takes more than
--limit seconds of CPU time. Failures are lines of FOLDER/failures.jsonl, with what is said of them; `--case` does one
again and prints it. FOLDER/done.json has the counts, over all runs with the same FOLDER. Exits 1 where something failed.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "helpers"))
BATCH = 300
"""Cases that one kind does before the next takes its turn."""
MEMORY = 8 << 30
"""Bytes a worker may map."""
PATIENCE = 4
"""A case that has not ended after that many times the limit, on the clock, hangs."""


def work(kind: str, first: int, last: int, sites: list[Path], limit: float) -> None:
    """Does the cases, and prints a line of JSON before and after each."""
    import mutated

    corpus = mutated.Corpus(tuple(sites))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, last):
            print(json.dumps({"begun": number}), flush=True)
            room = Path(folder) / str(number)
            room.mkdir()
            faulthandler.dump_traceback_later(PATIENCE * limit, exit=True)
            began = time.process_time()
            try:
                wrong = mutated.wrong_with_case(kind, number, room, corpus)
            except Exception:
                wrong = [traceback.format_exc()]
            faulthandler.cancel_dump_traceback_later()
            seconds = time.process_time() - began
            if seconds > limit:
                wrong.append(f"took {seconds:.1f} s of CPU time")
            print(json.dumps({"done": number, "seconds": round(seconds, 3), "wrong": wrong}), flush=True)


def batch(kind: str, first: int, sites: list[Path], limit: float) -> tuple[list[dict[str, object]], float]:
    """What came of a batch of cases, whatever became of the processes that did them; CPU seconds of all."""
    found: list[dict[str, object]] = []
    total, at = 0.0, first
    while at < first + BATCH:
        places = [part for site in sites for part in ("--site", str(site))]
        command = [
            sys.executable,
            __file__,
            "--work",
            kind,
            str(at),
            str(first + BATCH),
            "--limit",
            str(limit),
            *places,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        begun = None
        for line in done.stdout.splitlines():
            told = json.loads(line)
            if "begun" in told:
                begun = told["begun"]
                continue
            begun, at = None, told["done"] + 1
            total += told["seconds"]
            found.append(told)
        if begun is not None:
            words = f"the process ended with {done.returncode}\n{done.stderr[-3000:]}"
            found.append({"done": begun, "seconds": 0.0, "wrong": [words]})
            at = begun + 1
        elif done.returncode:
            raise SystemExit(done.stderr)
    return found, total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--kinds", nargs="+")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--site", type=Path, action="append", default=[])
    parser.add_argument("--limit", type=float, default=20.0, help="CPU seconds a case may take")
    parser.add_argument("--case", help="KIND:NUMBER")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    sites = [site.resolve() for site in args.site]
    if args.work is not None:
        work(args.work[0], int(args.work[1]), int(args.work[2]), sites, args.limit)
        return
    import mutated

    if args.case is not None:
        kind, _, number = args.case.partition(":")
        with tempfile.TemporaryDirectory() as folder:
            wrong = mutated.wrong_with_case(kind, int(number), Path(folder), mutated.Corpus(tuple(sites)))
        print("\n".join(wrong) or "nothing is wrong")
        raise SystemExit(1 if wrong else 0)
    if args.out is None:
        parser.error("--out, or --case")
    args.out.mkdir(parents=True, exist_ok=True)
    counts_in = args.out / "done.json"
    counts: dict[str, dict[str, float]] = json.loads(counts_in.read_text()) if counts_in.exists() else {}
    kinds = args.kinds or list(mutated.KINDS)
    ends = time.monotonic() + 60 * args.minutes
    failed: Counter[str] = Counter()
    while time.monotonic() < ends:
        for kind in kinds:
            count = counts.setdefault(f"{kind} {args.seed}", {"cases": 0, "seconds": 0.0, "slowest": 0.0})
            first = args.seed * 1_000_000 + int(count["cases"])
            found, seconds = batch(kind, first, sites, args.limit)
            count["cases"] += len(found)
            count["seconds"] = round(count["seconds"] + seconds, 1)
            slowest = max(found, key=lambda each: float(str(each["seconds"])))
            if float(str(slowest["seconds"])) > count["slowest"]:
                count["slowest"], count["which"] = float(str(slowest["seconds"])), int(str(slowest["done"]))
            with (args.out / "failures.jsonl").open("a", encoding="utf-8") as log:
                for each in found:
                    if each["wrong"]:
                        failed[kind] += 1
                        log.write(json.dumps({"kind": kind, **each}) + "\n")
                        print(f"FAILED {kind}:{each['done']}", flush=True)
            counts_in.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
            if time.monotonic() >= ends:
                break
    for name, count in counts.items():
        print(f"{name}: {count['cases']:.0f} cases, {count['seconds']:.0f} s, slowest {count['slowest']:.2f} s")
    print(f"failures of this run: {dict(failed) or 'none'}")
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
