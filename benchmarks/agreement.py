"""Compares what the worker records of real models with an independent record of the same runs.

A record is one JSON object a line: `target`, `package`, `spec` (`build`: `module:function` of the --zoo folder, whose
call with `kwargs` gives (module, args, kwargs)), `break_sites` (path below site-packages, line, gb_ids, hits),
`skipped_frames` and `coverage`. Each model is built and run by tcready's worker in the interpreter --python.

    python benchmarks/agreement.py RECORDS.jsonl --zoo FOLDER --python ENV/bin/python [--every N] [--breaking] [--list]
                                   [--sweep FOLDER]

With --sweep, one `tcready sweep` over all of them takes the place of single runs; its list, store and report are left in
that folder, and the sites are those of its report.

A site is (path, line). `ours` and `theirs` count sites over all models, `both` those that both name; `invented` are
ours that the record does not have, `missing` the record's that ours does not have. Verdict: models for which both
say "it breaks" or both that it does not. Exits 1 below --floor SHARE of the record's sites, and where one is invented.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recorded import source_of
from tcready.dynamic import RunRequest, observe
from tcready.portable.options import RunOptions
from tcready.schema.codec import from_json
from tcready.schema.observation import Observation
from tcready.schema.report import Report

Site = tuple[str, int]


@dataclass
class Compared:
    """One model: the sites of the record and ours, and what else is told of both."""

    target: str
    package: str
    theirs: set[Site] = field(default_factory=set)
    ours: set[Site] = field(default_factory=set)
    ids_differ: list[tuple[Site, set[str], set[str]]] = field(default_factory=list)
    coverage: tuple[float | None, float | None] = (None, None)
    failed: str = ""
    seconds: float = 0.0


def compared(record: dict[str, Any], zoo: str, python: str, mode: str, timeout: float) -> Compared:
    """Runs one record's model and lays both records side by side."""
    result = Compared(record["target"], record["package"])
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "target_of_record.py").write_text(source_of(record, zoo), "utf-8")
        seen = observe(
            RunRequest(
                "target_of_record.py::model",
                RunOptions(
                    inputs="target_of_record.py::inputs",
                    python=python,
                    mode=mode,  # type: ignore[arg-type]
                    timeout=timeout,
                    budget=0.0,  # of a training run the parts behind the gradients are not compared
                ),
                folder,
            )
        )
    result.seconds = time.perf_counter() - start
    _lay_beside(result, record, seen)
    return result


def _lay_beside(result: Compared, record: dict[str, Any], seen: Observation) -> None:
    result.theirs = {(site["path"], site["line"]) for site in record["break_sites"]}
    result.ours = {(site.path, site.line) for site in seen.break_sites}
    known = {(site["path"], site["line"]): set(site["gb_ids"]) for site in record["break_sites"]}
    for site in seen.break_sites:
        place, ids = (site.path, site.line), set(site.gb_ids)
        if place in known and ids != known[place]:
            result.ids_differ.append((place, known[place], ids))
    result.coverage = (record.get("coverage"), seen.coverage.share if seen.coverage else None)
    failed = next((stage for stage in seen.stages if stage.state == "fail" and stage.stage != "fullgraph"), None)
    if failed is not None:
        result.failed = f"{failed.stage}: {failed.detail}"


def swept(records: list[dict[str, Any]], zoo: str, args: argparse.Namespace) -> list[Compared]:
    """What one sweep over all records found of each."""
    folder: Path = args.sweep
    folder.mkdir(parents=True, exist_ok=True)
    tables = []
    for number, record in enumerate(records):
        (folder / f"record_{number:04}.py").write_text(source_of(record, zoo), "utf-8")
        names = (f"record_{number:04}.py::{each}" for each in ("model", "inputs"))
        tables.append("[targets.record_{:04}]\ntarget = {!r}\ninputs = {!r}\n".format(number, *names))
    (folder / "records.toml").write_text("\n".join(tables), "utf-8")
    options = ["--python", args.python, "--mode", args.mode, "--timeout", f"{args.timeout:g}", "--budget", "1"]
    written = ["--store", "records.sqlite", "--output-format", "json", "-o", "records.json", "--exit-zero"]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tcready", "sweep", "records.toml", "--jobs", str(args.jobs)),
            *("--no-fullgraph", *options, *written),
        ],
        cwd=folder,
    )
    if done.returncode not in (0, 2):
        raise SystemExit(f"the sweep ended with {done.returncode}")
    report = from_json(Report, json.loads((folder / "records.json").read_text("utf-8")))
    found = {target.target: target.observation for target in report.targets}
    assert report.sweep is not None
    seconds = {row.target: row.seconds for row in report.sweep.models}
    models = []
    for number, record in enumerate(records):
        name = f"record_{number:04}.py::model"
        result = Compared(record["target"], record["package"], seconds=seconds.get(name) or 0.0)
        _lay_beside(result, record, found[name])
        models.append(result)
    return models


def row(name: str, models: list[Compared]) -> str:
    theirs = sum(len(m.theirs) for m in models)
    both = sum(len(m.theirs & m.ours) for m in models)
    invented = sum(len(m.ours - m.theirs) for m in models)
    verdicts = sum(bool(m.theirs) == bool(m.ours) for m in models)
    pairs = [m.coverage for m in models if None not in m.coverage]
    near = sum(abs(a - b) < 0.005 for a, b in pairs)  # type: ignore[operator]
    share = f"{both / theirs:7.1%}" if theirs else "      -"
    return (
        f"{name:28} {len(models):6} {theirs:7} {both:6} {share} {theirs - both:8} {invented:9} "
        f"{verdicts:6}/{len(models):<4} {near:5}/{len(pairs)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path)
    parser.add_argument("--zoo", required=True, help="the folder whose modules build the models")
    parser.add_argument("--python", required=True, help="the interpreter with torch and the packages")
    parser.add_argument("--mode", default="infer", choices=["infer", "train"])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--breaking", action="store_true", help="only models that break in the record")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for a model")
    parser.add_argument("--list", action="store_true", help="list every difference")
    parser.add_argument("--sweep", type=Path, metavar="FOLDER", help="sweep them, and leave all of it there")
    parser.add_argument("--floor", type=float, default=0.99)
    args = parser.parse_args()
    records = [json.loads(line) for line in args.records.read_text("utf-8").splitlines() if line]
    records = [r for r in records if r["break_sites"] or not args.breaking][:: args.every]
    zoo = str(Path(args.zoo).resolve())
    models: list[Compared] = []
    with ThreadPoolExecutor(args.jobs) as pool:
        jobs = (
            [pool.submit(compared, r, zoo, args.python, args.mode, args.timeout) for r in records]
            if args.sweep is None
            else []
        )
        for model in swept(records, zoo, args) if args.sweep is not None else (job.result() for job in jobs):
            models.append(model)
            if args.list:
                for place in sorted(model.theirs - model.ours):
                    print(f"missing   {place[0]}:{place[1]} [{model.target}]")
                for place in sorted(model.ours - model.theirs):
                    print(f"invented  {place[0]}:{place[1]} [{model.target}]")
                for place, theirs, ours in model.ids_differ:
                    print(f"ids       {place[0]}:{place[1]} {sorted(theirs)} {sorted(ours)} [{model.target}]")
                if None not in model.coverage and abs(model.coverage[0] - model.coverage[1]) >= 0.005:  # type: ignore[operator]
                    print(f"coverage  {model.coverage[0]:.3f} {model.coverage[1]:.3f} [{model.target}]")
                if model.failed:
                    print(f"failed    {model.failed} [{model.target}]")
                sys.stdout.flush()
    print(
        f"{'package':28} models  theirs   both   share  missing  invented    verdict   coverage within half a percent"
    )
    packages: dict[str, list[Compared]] = defaultdict(list)
    for model in models:
        packages[model.package].append(model)
    for name in sorted(packages):
        print(row(name, packages[name]))
    print(row("all", models))
    known = sum(len(m.theirs) for m in models)
    both = sum(len(m.theirs & m.ours) for m in models)
    invented = sum(len(m.ours - m.theirs) for m in models)
    took = sum(m.seconds for m in models) / max(len(models), 1)
    print(f"failed: {sum(bool(m.failed) for m in models)}; seconds a model: {took:.1f}")
    if invented or (known and both / known < args.floor):
        sys.exit(1)


if __name__ == "__main__":
    main()
