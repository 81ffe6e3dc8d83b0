"""A public sweep of transformers as a benchmark: does a class compile with `fullgraph=True`, and what fixes it?

    pip install --no-deps --target FOLDER/site-packages transformers==5.5.4
    python benchmarks/corpus.py score RESULTS.jsonl --site FOLDER/site-packages [--site MORE ...] [--list]
                                [--draw 200 --seed 1]
    python benchmarks/corpus.py fix RESULTS.jsonl --site FOLDER/site-packages --out OUT.jsonl
    python benchmarks/corpus.py table OUT.jsonl ... [--save]

`score` compares the predictions of the static pass with the sweep; corpus_fixes.py describes `fix` and `table`.

A line of RESULTS.jsonl is an object with `name` (of a class), `mode` (`eval` or `train`), `breaks`, `error` and
`explanation`, as in the OSS Model Graph Break Corpus. A class is predicted to break if a finding of effect `graph_break`
or `frame_skip` has high or medium confidence.

Verdict: the share of classes that were predicted correctly. Precision and recall are those of "breaks".
"""

from __future__ import annotations

import argparse
import ast
import gc
import json
import multiprocessing
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saved_results import save_row

MODES = {"eval": "infer", "train": "train"}
Prediction = tuple[dict[str, Any], list[str], str | None, float]


def find_classes(site: Path) -> dict[str, str]:
    """Return the target of each class that the modeling files below `site` define, by the name of the class."""
    found: dict[str, str] = {}
    for path in sorted((site / "transformers" / "models").glob("*/modeling_*.py")):
        module = ".".join(path.relative_to(site).with_suffix("").parts)
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, f"{module}::{node.name}")
    return found


def predict(job: tuple[dict[str, Any], str, tuple[Path, ...], tuple[int, int]]) -> Prediction:
    """Return a record with the predicted places of breaks, the error if there was one, and the seconds."""
    record, target, sites, torch = job
    from tcready import rules
    from tcready.portable.options import ReadOptions
    from tcready.schema.enums import BREAKING
    from tcready.schema.report import Tool
    from tcready.static.driver import RuleSet, read

    began = time.perf_counter()
    options = ReadOptions(root=Path("/"), mode=MODES[record["mode"]], search_path=sites, torch=torch)  # type: ignore[arg-type]
    try:
        findings = read([target], options, RuleSet(rules.load, lambda: Tool("tcready", "0"))).result.findings
    except Exception as error:
        return record, [], f"{type(error).__name__}: {error}", time.perf_counter() - began
    gc.collect()  # one process reads many classes
    places = [
        f"{Path(each.path).name}:{each.line} {each.rule} {each.confidence}"
        for each in findings
        if each.effect in BREAKING and each.confidence != "low"
    ]
    return record, places, None, time.perf_counter() - began


@dataclass(frozen=True)
class Tally:
    """Numbers of classes in one mode."""

    classes: int
    broke: int
    predicted: int
    both: int
    """Those that broke, and were predicted to."""
    right: int

    @classmethod
    def of(cls, predictions: list[Prediction]) -> Tally:
        return cls(
            classes=len(predictions),
            broke=sum(record["breaks"] for record, _, _, _ in predictions),
            predicted=sum(bool(places) for _, places, _, _ in predictions),
            both=sum(bool(places) and record["breaks"] for record, places, _, _ in predictions),
            right=sum(bool(places) == record["breaks"] for record, places, _, _ in predictions),
        )


def score(predictions: list[Prediction]) -> str:
    """Return verdict, precision and recall of one mode as a line of text."""
    tally = Tally.of(predictions)
    times = sorted(seconds for _, _, _, seconds in predictions)
    return (
        f"{tally.classes} classes: verdict {tally.right / tally.classes:.3f}, "
        f"breaks found {tally.both} of {tally.broke}, of those predicted {tally.both} of {tally.predicted} right; "
        f"median {times[len(times) // 2]:.2f} s"
    )


def cells(predictions: list[Prediction]) -> list[str]:
    """Return recall, precision and verdict of one mode, as the cells of a table."""
    tally = Tally.of(predictions)
    return [
        f"{tally.both / max(tally.broke, 1):.2f} ({tally.both} of {tally.broke})",
        f"{tally.both / max(tally.predicted, 1):.2f} ({tally.both} of {tally.predicted})",
        f"{tally.right / max(tally.classes, 1):.2f}",
    ]


def run_score(given: argparse.Namespace) -> int:
    """Score the records of the command line and print a line a mode."""
    classes = find_classes(given.site[0])
    records = [json.loads(line) for line in given.results.read_text("utf-8").splitlines()]
    names = sorted({each["name"] for each in records if each["name"] in classes})
    absent = sorted({each["name"] for each in records} - set(names))
    if given.draw:
        names = sorted(random.Random(given.seed).sample(names, given.draw))
    major, minor = (int(part) for part in given.torch.split("."))
    sites = tuple(each.resolve() for each in given.site)
    jobs = [(each, classes[each["name"]], sites, (major, minor)) for each in records if each["name"] in set(names)]
    with multiprocessing.get_context("fork").Pool(given.jobs, maxtasksperchild=40) as pool:
        predictions = pool.map(predict, jobs, chunksize=4)
    for mode in MODES:
        of_mode = [each for each in predictions if each[0]["mode"] == mode]
        print(f"{mode}: {score(of_mode)}")
        if given.save:
            save_row("sweep", [{"eval": "inference", "train": "training"}[mode], *cells(of_mode)])
        for record, places, error, _ in of_mode:
            if given.list and (error or bool(places) != record["breaks"]):
                why = error or (f"missed: {record['error']} {record['explanation']}" if record["breaks"] else "false")
                print(f"  {record['name']}: {why[:200]} {'; '.join(places[:3])}")
    if absent:
        print(f"{len(absent)} classes are not in the modeling files: {', '.join(absent[:8])}")
    return 0


def run_fix(given: argparse.Namespace) -> int:
    """Run `check` and `fix --verify` over the classes that break, and print the sums of all records."""
    from corpus_fixes import OUT_OF_TIME, Limits, breaking_classes, read_records, run_all, table

    site = given.site[0].resolve()
    targets = breaking_classes(given.results, find_classes(site))
    for name in [name for name, target in targets.items() if target is None]:
        print(f"{name}: no modeling file defines it")
    first, step = map(int, given.part.split("/"))
    names = sorted(name for name, target in targets.items() if target and (not given.only or name in given.only))
    known = read_records([given.out])
    due = {
        name: targets[name] or ""
        for name in names[first::step]
        if name not in known or (known[name].get("failure") == OUT_OF_TIME and known[name]["limit"] < given.limit)
    }
    until = time.monotonic() + 60 * given.minutes if given.minutes else None
    _, unfinished = run_all(due, site, Limits(given.limit, given.device), given.out, given.jobs, until)
    if unfinished:
        print(f"{len(unfinished)} classes are left for another run: {', '.join(unfinished)}")
    return table([given.out], False, False)


def run_table(given: argparse.Namespace) -> int:
    """Print the sums of records, and save them."""
    from corpus_fixes import table

    return table(given.records, given.list, given.save)


def run_one(given: argparse.Namespace) -> int:
    """Run one class in this process."""
    from corpus_fixes import Limits, run_class

    run_class(given.target, Limits(given.limit, given.device), given.out)
    return 0


def main() -> int:
    """Run a command and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    scored = commands.add_parser("score", help="score the static pass")
    scored.add_argument("--list", action="store_true", help="print each wrong prediction")
    scored.add_argument("--draw", type=int, help="score so many classes, drawn at random")
    scored.add_argument("--seed", type=int, default=1)
    scored.add_argument("--torch", default="2.13")
    scored.add_argument("--save", action="store_true", help="save the figures of each mode in docs/results")
    scored.set_defaults(run=run_score)
    fixing = commands.add_parser("fix", help="fix the classes that break, and verify it")
    fixing.add_argument("--out", type=Path, required=True, help="the records, a line a class: it continues there")
    fixing.add_argument("--limit", type=float, default=600.0, help="seconds for one class")
    fixing.add_argument("--minutes", type=float, help="end after so many minutes")
    fixing.add_argument("--part", default="0/1", help="K/N: every N-th class from the K-th on")
    fixing.add_argument("--only", action="append", help="only classes of this name")
    fixing.add_argument("--device", default="cpu")
    fixing.set_defaults(run=run_fix)
    for command in (scored, fixing):
        command.add_argument("results", type=Path)
        command.add_argument("--site", type=Path, action="append", required=True, help="the first holds transformers")
        command.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    printing = commands.add_parser("table", help="print and save what the records of `fix` say")
    printing.add_argument("records", type=Path, nargs="+")
    printing.add_argument("--list", action="store_true", help="print each class, and more reasons")
    printing.add_argument("--save", action="store_true", help="save the tables in docs/results")
    printing.set_defaults(run=run_table)
    alone = commands.add_parser("one")
    alone.add_argument("target")
    alone.add_argument("--limit", type=float, required=True)
    alone.add_argument("--device", required=True)
    alone.add_argument("--out", type=Path, required=True)
    alone.set_defaults(run=run_one)
    given = parser.parse_args()
    code: int = given.run(given)
    return code


if __name__ == "__main__":
    sys.exit(main())
