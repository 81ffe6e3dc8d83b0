"""Scores the static pass against records of what Dynamo really did.

A record is one JSON object a line: `target` (`pkg.mod::Class`), `package`, `break_sites` (path below
site-packages, line, gb_types, cascade), `skipped_frames` (path, firstline, reason) and `executed` (path to line
ranges). The packages must be installed in `--site` (their sources are read, never imported).

    python benchmarks/accuracy.py RECORDS.jsonl [...] --site SITE_PACKAGES [--mode infer] [--list] [--markdown]

A site is (path, line); distinct sites count once over all models. Recall: sites that are no cascade and are
covered by a breaking finding of high or medium confidence. Precision: predicted sites on lines that ran,
outside frames, and what is left of them, that Dynamo gave up on, that broke; of a model whose compiled call raised, what
did not break is not judged. Verdict: models for which "a break is predicted" is "it broke".

The figure to watch is what a package gets that was not met. What is known was put in by hand, so a package cannot be
left out of the tuning afterwards; what can be told is how much the figures hang on the packages that were chosen. So
each package is scored alone, and the mean over packages stands beside the sum, with an interval: the one that 95 of 100
draws of as many packages, with repetition, fall into. Of the sum it is also told what becomes of it when any one package
is left out.
"""

from __future__ import annotations

import argparse
import ast
import gc
import json
import multiprocessing
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

Site = tuple[str, int]
Read = Literal["class", "built", "called"]
Measure = Callable[[Sequence["Tally"], int], float | None]


@dataclass
class Model:
    """One record beside what was predicted for it: (path, first line, last line, rule, confidence)."""

    record: dict[str, Any]
    predicted: list[tuple[str, int, int, str, str]] = field(default_factory=list)
    seconds: float = 0.0
    error: str | None = None
    statistics: dict[str, Any] = field(default_factory=dict)


def building(record: dict[str, Any], folder: Path, *, called: bool) -> str:
    """The target that stands for the call by which a record's model was made: a function in a file of its own, with what
    zoo_unseen.py has in sight; if `called`, the file gives the inputs of the record too. Raises KeyError if the record
    is of another zoo."""
    spec = record["spec"]["kwargs"]
    imports, before = (
        [each.strip() for each in spec.get(key, "").split(";") if each.strip()] for key in ("imports", "before")
    )
    lines = ["import torch", "from torch import nn, rand as U, randint as RI, randn as R", *imports, "B = 2"]
    before = [f"    {each}" for each in before]
    lines += ["def model():", *before, f"    return {spec['model']}"]
    if called:
        given = f"({spec['args']},)" if spec.get("args") else "()"
        lines += ["def get_inputs():", *before, f"    return {given}, dict({spec.get('kwargs', '')})"]
    path = folder / "made_as_recorded.py"
    path.write_text("\n".join(lines) + "\n")
    return f"{path}::model"


def analyse(job: tuple[dict[str, Any], str, str, bool, Read]) -> Model:
    """Lints one record's target, or a file that makes it."""
    record, site, mode, plain_call, how = job
    from tcready import rules
    from tcready.portable.options import ReadOptions
    from tcready.schema.enums import BREAKING
    from tcready.schema.report import Tool
    from tcready.static.driver import RuleSet, read
    from tcready.static.library.torch_versions import version_of

    model = Model(record)
    start = time.perf_counter()
    try:
        torch = version_of(record["versions"]["torch"])
        options = ReadOptions(
            root=Path("/"),
            mode=mode,  # type: ignore[arg-type]
            search_path=(Path(site),),
            torch=torch,
            plain_call=plain_call,
        )
        rule_set = RuleSet(rules.load, lambda: Tool("tcready", "0"))
        if how != "class":
            with tempfile.TemporaryDirectory() as folder:
                result = read([building(record, Path(folder), called=how == "called")], options, rule_set).result
        else:
            result = read([record["target"]], options, rule_set).result
    except Exception as error:
        model.error = f"{type(error).__name__}: {error}"
        return model
    finally:
        model.seconds = time.perf_counter() - start
        gc.collect()  # one process reads many models
    for finding in result.findings:
        if finding.effect in BREAKING and finding.confidence != "low":
            model.predicted.append(
                (finding.path, finding.line, finding.end_line, str(finding.rule), finding.confidence)
            )
    model.statistics = {k: v for k, v in result.statistics.items() if k != "reached"}
    return model


def lines_of(ranges: str) -> set[int]:
    """`1,4-6` as {1, 4, 5, 6}."""
    found: set[int] = set()
    for part in filter(None, ranges.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


@cache
def extents(path: str) -> dict[int, int]:
    """First line (of the `def` or its first decorator) to last line, for each function of a file."""
    found: dict[int, int] = {}
    source = Path(path)
    for node in ast.walk(ast.parse(source.read_bytes())) if source.is_file() else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for line in (node.lineno, *(d.lineno for d in node.decorator_list)):
                found[line] = node.end_lineno or node.lineno
    return found


def _around(known: Mapping[int, int], line: int) -> tuple[int, int] | None:
    """First and last line of the innermost function around a line."""
    return max(((start, end) for start, end in known.items() if start <= line <= end), default=None)


def traced_lines(record: dict[str, Any], site: str) -> dict[str, set[int]]:
    """Lines that ran, less those in frames, or in what is left of one, that Dynamo gave up on; none if the compiled call
    raised: what it did not come to is not known."""
    if record.get("compile_error"):
        return {}
    ran = {path: lines_of(text) for path, text in record["executed"].items()}
    for broken in record["break_sites"]:
        if {*broken.get("actions", ())} == {"skip_rest"} and broken["path"] in ran:
            around = _around(extents(str(Path(site) / broken["path"])), broken["line"])
            if around is not None:
                ran[broken["path"]] -= set(range(broken["line"] + 1, around[1] + 1))
    for frame in record["skipped_frames"]:
        path, first = frame["path"], frame["firstline"]
        if "no tensor" in (frame.get("reason") or "").lower() or path not in ran:
            continue
        known = extents(str(Path(site) / path))
        last = known.get(first, first)
        if frame.get("name", "").startswith("torch_dynamo_resume_in"):  # what is left of a function from a line on
            around = _around(known, first)
            last = around[1] if around is not None else first
        ran[path] -= set(range(first, last + 1))
    return ran


@dataclass
class Score:
    sites: set[Site] = field(default_factory=set)
    hit: set[Site] = field(default_factory=set)
    judged: set[Site] = field(default_factory=set)
    right: set[Site] = field(default_factory=set)
    models: int = 0
    verdicts: int = 0

    def line(self, name: str) -> str:
        def share(part: int, whole: int) -> str:
            return f"{part / whole:7.3f} ({part}/{whole})" if whole else f"{'-':>7} (0/0)"

        return (
            f"{name:28} recall {share(len(self.hit), len(self.sites)):20}"
            f" precision {share(len(self.right), len(self.judged)):20}"
            f" verdict {share(self.verdicts, self.models)}"
        )


def score(models: Iterable[Model], site: str) -> tuple[Score, list[tuple[str, Model]]]:
    """The score of some models, and the models whose verdict is wrong."""
    total = Score()
    wrong: list[tuple[str, Model]] = []
    broke: set[Site] = set()
    predicted: set[Site] = set()
    spans: set[tuple[str, int, int]] = set()
    models = list(models)
    for model in models:
        broke |= {(s["path"], s["line"]) for s in model.record["break_sites"]}
        total.sites |= {(s["path"], s["line"]) for s in model.record["break_sites"] if not s["cascade"]}
    for model in models:
        here = {(s["path"], s["line"]) for s in model.record["break_sites"]}
        traced = traced_lines(model.record, site)
        for path, first, last, *_ in model.predicted:
            spans.add((path, first, last))
            if any((path, line) in broke for line in range(first, last + 1)):
                predicted.add((path, first))
            if any((path, line) in here for line in range(first, last + 1)):
                total.judged.add((path, first))
                total.right.add((path, first))
            elif first in traced.get(path, ()):
                total.judged.add((path, first))
        total.models += 1
        breaks = bool(here)
        says = bool(model.predicted)
        total.verdicts += breaks == says
        if breaks != says:
            wrong.append(("missed" if breaks else "false alarm", model))
    total.hit = {(path, line) for path, line in total.sites if any(p == path and a <= line <= b for p, a, b in spans)}
    return total, wrong


@dataclass(frozen=True)
class Tally:
    """The counts of a score: (part, whole) of recall, precision and verdict."""

    counts: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, found: Score) -> Tally:
        return cls(
            ((len(found.hit), len(found.sites)), (len(found.right), len(found.judged)), (found.verdicts, found.models))
        )


FIGURES = ("recall", "precision", "verdict")
DRAWS = 4000


def pooled(tallies: Sequence[Tally], figure: int) -> float | None:
    """One share of all packages together; None if there is nothing to count."""
    part, whole = (sum(tally.counts[figure][side] for tally in tallies) for side in (0, 1))
    return part / whole if whole else None


def mean(tallies: Sequence[Tally], figure: int) -> float | None:
    """The mean of the packages' shares; of those that have something to count."""
    shares = [part / whole for part, whole in (tally.counts[figure] for tally in tallies) if whole]
    return sum(shares) / len(shares) if shares else None


def interval(tallies: Sequence[Tally], measure: Measure, figure: int) -> tuple[float, float] | None:
    """Where 95 of 100 draws of as many packages fall, each drawn from these, with repetition; always the same draws."""
    dice = random.Random(0)
    drawn = (measure(dice.choices(tallies, k=len(tallies)), figure) for _ in range(DRAWS if tallies else 0))
    found = sorted(share for share in drawn if share is not None)
    if not found:
        return None
    return found[int(0.025 * len(found))], found[min(int(0.975 * len(found)), len(found) - 1)]


def left_out(tallies: Mapping[str, Tally], figure: int) -> tuple[tuple[float, str], tuple[float, str]] | None:
    """The sum's share at its lowest and highest when one package is left out, and which that is."""
    found = [
        (share, name)
        for name in tallies
        if (share := pooled([t for other, t in tallies.items() if other != name], figure)) is not None
    ]
    return (min(found), max(found)) if len(tallies) > 1 and found else None


def summary(tallies: Mapping[str, Tally]) -> Iterator[str]:
    """The sum and the mean with their intervals, in lines."""
    measures: tuple[tuple[str, Measure], ...] = (("sum of packages", pooled), ("mean over packages", mean))
    for words, measure in measures:
        parts = []
        for figure, name in enumerate(FIGURES):
            share, around = (measure(list(tallies.values()), figure), interval(list(tallies.values()), measure, figure))
            parts.append(f"{name} -" if share is None or around is None else f"{name} {_with(share, around)}")
        yield f"{words} (95 % by package): {', '.join(parts)}"
    for figure, name in enumerate(FIGURES):
        found = left_out(tallies, figure)
        if found is not None:
            (low, without), (high, without_too) = found
            yield f"{name} with one package left out: {low:.3f} (without {without}) to {high:.3f} (without {without_too})"


def markdown(tallies: Mapping[str, Tally]) -> Iterator[str]:
    """The table of the documentation."""
    yield "| package | models | recall | precision | verdict |"
    yield "|---|---|---|---|---|"
    for name, tally in tallies.items():
        cells = (f"{part / whole:.2f} ({part}/{whole})" if whole else "-" for part, whole in tally.counts)
        yield f"| {name} | {tally.counts[2][1]} | {' | '.join(cells)} |"
    models = sum(tally.counts[2][1] for tally in tallies.values())
    for words, measure in (("sum of packages", pooled), ("mean over packages", mean)):
        cells = []
        for figure in range(len(FIGURES)):
            share = measure(list(tallies.values()), figure)
            around = interval(list(tallies.values()), measure, figure)
            cells.append("-" if share is None or around is None else _with(share, around, 2))
        yield f"| **{words}**, 95 % by package | {models} | {' | '.join(cells)} |"
    ranges = []
    for figure in range(len(FIGURES)):
        found = left_out(tallies, figure)
        ranges.append("-" if found is None else f"{found[0][0]:.2f} to {found[1][0]:.2f}")
    yield f"| sum with one package left out | {models} | {' | '.join(ranges)} |"


def _with(share: float, around: tuple[float, float], digits: int = 3) -> str:
    return f"{share:.{digits}f} ({around[0]:.{digits}f} to {around[1]:.{digits}f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+", type=Path, help="files of records; - for standard input")
    parser.add_argument("--site", required=True, help="the site-packages folder the records were made from")
    parser.add_argument("--mode", default="infer", choices=["infer", "train"])
    parser.add_argument("--plain-call", action="store_true", help="the models were called without targets")
    parser.add_argument(
        "--read",
        default="class",
        choices=get_args(Read),
        help="the class alone; the call that made the model too; or its inputs too, given by `get_inputs()`",
    )
    parser.add_argument("--every", type=int, default=1, help="score only every n-th record")
    parser.add_argument("--package", help="score only this package")
    parser.add_argument("--list", action="store_true", help="list misses, false alarms and wrong verdicts")
    parser.add_argument(
        "--markdown", action="store_true", help="print the table by package alone, for the documentation"
    )
    parser.add_argument(
        "--save",
        metavar="MODELS",
        help="save the figures in docs/results, as the row of the studied models of this name",
    )
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--floor", nargs=3, type=float, metavar=("RECALL", "PRECISION", "VERDICT"))
    args = parser.parse_args()
    site = str(Path(args.site).resolve())
    texts = (sys.stdin.read() if str(path) == "-" else path.read_text("utf-8") for path in args.records)
    records = [json.loads(line) for text in texts for line in text.splitlines() if line]
    records = [r for r in records if not args.package or r["package"] == args.package][:: args.every]
    with multiprocessing.get_context("spawn").Pool(args.jobs, maxtasksperchild=25) as pool:
        models = pool.map(analyse, [(r, site, args.mode, args.plain_call, args.read) for r in records], chunksize=5)
    failed = [m for m in models if m.error]
    packages: dict[str, list[Model]] = defaultdict(list)
    for model in models:
        packages[model.record["package"]].append(model)
    scores = {name: score(found, site)[0] for name, found in sorted(packages.items())}
    tallies = {name: Tally.of(found) for name, found in scores.items()}
    if args.markdown:
        print("\n".join(markdown(tallies)))
        if failed:
            raise SystemExit(f"{len(failed)} failed: {failed[0].record['target']}: {failed[0].error}")
        return
    for name, found in scores.items():
        print(found.line(name))
    total, wrong = score(models, site)
    print(total.line("all"))
    for line in summary(tallies):
        print(line)
    kinds: dict[str, list[bool]] = defaultdict(list)
    for model in models:
        for found in model.record["break_sites"]:
            if not found["cascade"]:
                key = found["gb_types"][0] if found["gb_types"] else "?"
                kinds[key].append((found["path"], found["line"]) in total.hit)
    print("recall by gb type (events):")
    for kind, hits in sorted(kinds.items(), key=lambda item: -len(item[1])):
        print(f"  {sum(hits):4}/{len(hits):<4} {kind}")
    for level in ("high", "medium"):
        judged, right = set(), set()
        for model in models:
            here = {(s["path"], s["line"]) for s in model.record["break_sites"]}
            traced = traced_lines(model.record, site)
            for path, first, last, _, confidence in model.predicted:
                if confidence != level:
                    continue
                if any((path, line) in here for line in range(first, last + 1)):
                    judged.add((path, first))
                    right.add((path, first))
                elif first in traced.get(path, ()):
                    judged.add((path, first))
        print(f"precision of {level}: {len(right)}/{len(judged)}")
    calls = sum(m.statistics.get("calls", 0) for m in models)
    resolved = sum(m.statistics.get("calls_resolved", 0) for m in models)
    print(f"calls resolved: {resolved}/{calls} = {resolved / max(calls, 1):.3f}")
    times = sorted(m.seconds for m in models)
    print(f"seconds a model: median {times[len(times) // 2]:.2f}, worst {times[-1]:.2f}; failed: {len(failed)}")
    for model in failed[:20]:
        print(f"  FAILED {model.record['target']}: {model.error}")
    if args.save:
        from saved_results import save_row

        figures = (
            len(total.hit) / max(len(total.sites), 1),
            len(total.right) / max(len(total.judged), 1),
            total.verdicts / max(total.models, 1),
        )
        save_row("studied", [args.save, str(total.models), *(f"{each:.2f}" for each in figures)])
    if args.list:
        show(models, total, wrong)
    if args.floor:
        got = (
            len(total.hit) / max(len(total.sites), 1),
            len(total.right) / max(len(total.judged), 1),
            total.verdicts / max(total.models, 1),
        )
        if any(have < want for have, want in zip(got, args.floor, strict=True)):
            raise SystemExit(f"below the floor: {got} against {args.floor}")


def show(models: list[Model], total: Score, wrong: list[tuple[str, Model]]) -> None:
    """Misses, false alarms and wrong verdicts, by line."""
    seen: dict[Site, str] = {}
    for model in models:
        for found in model.record["break_sites"]:
            place = (found["path"], found["line"])
            if not found["cascade"] and place not in total.hit:
                seen[place] = f"{(found['gb_types'] or ['?'])[0]} [{model.record['target']}]"
    print(f"\nmisses ({len(seen)}):")
    for (path, line), text in sorted(seen.items()):
        print(f"  {path}:{line}  {text}")
    alarms: dict[Site, str] = {}
    for model in models:
        for path, first, _, rule, confidence in model.predicted:
            if (path, first) in total.judged - total.right:
                alarms[path, first] = f"{rule} {confidence} [{model.record['target']}]"
    print(f"\nfalse alarms ({len(alarms)}):")
    for (path, line), text in sorted(alarms.items()):
        print(f"  {path}:{line}  {text}")
    print(f"\nwrong verdicts ({len(wrong)}):")
    for kind, model in wrong:
        places = ", ".join(f"{p[3]}@{p[0].rpartition('/')[2]}:{p[1]}" for p in model.predicted[:3])
        print(f"  {kind}: {model.record['target']} {places}")


if __name__ == "__main__":
    main()
