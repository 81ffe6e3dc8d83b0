"""Scores the static pass against a public sweep of transformers: does a class compile with `fullgraph=True`?

    pip install --no-deps --target FOLDER transformers==5.5.4
    python benchmarks/corpus.py RESULTS.jsonl --site FOLDER [--site MORE ...] [--list] [--draw 200 --seed 1]

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


def main() -> None:
    """Score the command line's records and print a line a mode."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--site", type=Path, action="append", required=True, help="the first one holds transformers")
    parser.add_argument("--list", action="store_true", help="print each wrong prediction")
    parser.add_argument("--draw", type=int, help="score so many classes, drawn at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--torch", default="2.13")
    parser.add_argument("--save", action="store_true", help="save the figures of each mode in docs/results")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    given = parser.parse_args()
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


if __name__ == "__main__":
    main()
