"""How many graph breaks of the classes that break in a public sweep `tcready fix --verify --third-party` fixes.

    python benchmarks/corpus.py fix RESULTS.jsonl --site FOLDER/site-packages --out OUT.jsonl [--jobs N] [--limit SECONDS]
                                [--minutes M] [--part K/N] [--only NAME] [--device cuda]
    python benchmarks/corpus.py table OUT.jsonl ... [--list] [--save]

Of RESULTS.jsonl (see corpus.py) the classes are taken that break in evaluation. `zoo_transformers.py` builds a small
model of each; one that cannot be built is recorded with the reason. Each class runs in a process group of its own, at
most --limit seconds, in four steps: build, check (the lines at which Dynamo breaks), fix, and a comparison of the changed
model with the original by `fixed_files.py`, which shares no code with the proofs.

OUT.jsonl gets a line a class. A run continues where the last one ended: a class is not run again, unless it ran out of
time and --limit is longer now. After --minutes, classes that are still running are ended and not recorded.

The folder of transformers must be called site-packages, because third-party changes are written below such a folder.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from fixes import GONE, fixed, judged, kind, written
from saved_results import save_row, save_rows
from tcready import api
from tcready.schema.proof import Differs, FixResult

HERE = Path(__file__).resolve().parent
OUT_OF_TIME = "out of time"
DECLINED = ("no change", "differs", "gains nothing", "one_side", "not_run", "kept out")
"""What is said of a site that is left: what `fixes.kind` returns, with the two ways to be refuted apart."""


@dataclass(frozen=True)
class Limits:
    """How the classes are run."""

    seconds: float
    device: str


# One class, in a process of its own


def run_class(target: str, limits: Limits, out: Path) -> None:
    """Run all steps for one class; what is known after each step replaces the file `out`."""
    import torch
    import transformers
    from zoo_transformers import NotBuiltError, find_recipe  # it imports torch, which sums of records do not need

    known: dict[str, Any] = {
        "target": target,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": limits.device,
        "limit": limits.seconds,
        "step": "build",
        "seconds": {},
    }

    @contextlib.contextmanager
    def step(name: str) -> Iterator[None]:
        known["step"] = name
        _replace(out, known)
        began = time.monotonic()
        yield
        known["seconds"][name] = round(time.monotonic() - began, 1)

    try:
        with step("build"):
            recipe = find_recipe(target)
        known["recipe"] = recipe
        record = {"spec": {"build": "zoo_transformers:build", "kwargs": recipe}}
        with written(record, str(HERE)) as file:
            with step("check"):
                known["sites"] = break_sites(file, limits)
            if known["sites"]:
                with step("fix"):
                    found = fixed(file, None, limits.seconds, False, limits.device)
                known |= outcome(found.result, known["sites"])
                with step("judge"):
                    known["judged"] = judged(found, file, None, limits.device)
        known["step"] = "done"
    except NotBuiltError as error:
        known["failure"] = f"not built: {error}"
    except Exception as error:  # whatever a model raises: the step and the reason are the result
        known["failure"] = f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
    _replace(out, known)


def _replace(path: Path, value: dict[str, Any]) -> None:
    fresh = path.with_suffix(".fresh")
    fresh.write_text(json.dumps(value), "utf-8")
    fresh.replace(path)


def break_sites(file: Path, limits: Limits) -> list[dict[str, Any]]:
    """Return the lines at which Dynamo breaks in a run of a target file."""
    report = api.check(
        f"{file.name}::model", run=True, root=file.parent, inputs=f"{file.name}::inputs",
        timeout=limits.seconds, device=limits.device,
    )  # fmt: skip
    if not report.targets or not report.targets[0].was_run:
        raise RuntimeError("; ".join(report.warnings) or "it was not run")
    failed = [each for each in report.targets[0].stages if each.state == "fail"]
    if failed and failed[0].stage in ("import", "build", "eager"):
        raise RuntimeError(f"{failed[0].stage} failed: {failed[0].detail}")
    return [
        {"path": each.path, "line": each.line, "gb_id": each.gb_id, "reason": each.reason.strip().splitlines()[0][:120]}
        for each in report.targets[0].break_sites
    ]


def outcome(result: FixResult, sites: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what became of each site, and the numbers of a verified fix."""
    became = kind(result)
    whys = {(each.path, each.line): each.reason for each in result.no_fix}
    refused = {(each.path, each.line): each for each in result.refused}
    whys |= {place: f"{each.code or each.state}: {each.reason}" for place, each in refused.items()}
    for site in sites:
        place = site["path"], site["line"]
        how = became.get(place, "failed" if result.failure else "gone with another")
        if how == "no change" and place not in whys and result.failure:
            how = "not_run"
        if how == "refuted":
            how = "differs" if refused[place].code in get_args(Differs) else "gains nothing"
        site["outcome"] = how
        if how not in GONE:
            site["why"] = whys.get(place) or result.failure or ""
    return {
        "breaks": [result.breaks_before, result.breaks_after],
        "share": [result.share_before, result.share_after],
        "left": [[path, line] for path, line in result.left],
        "changes": [
            {"path": each.path, "line": each.line, "how": each.how, "settings": each.settings, "edits": len(each.edits)}
            for each in result.changes
        ],
        "patch": result.third_party_patch,
        "fix_failure": result.failure,
    }


# All classes


def breaking_classes(results: Path, classes: dict[str, str]) -> dict[str, str | None]:
    """Return the target of each class that breaks in evaluation; None for one that no modeling file defines."""
    records = [json.loads(line) for line in results.read_text("utf-8").splitlines()]
    return {each["name"]: classes.get(each["name"]) for each in records if each["mode"] == "eval" and each["breaks"]}


def read_records(paths: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """Return the last record of each class; one that ended counts more than one that ran out of time."""
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        for line in path.read_text("utf-8").splitlines() if path.exists() else []:
            record = json.loads(line)
            before = found.get(record["name"])
            if before is None or record.get("failure") != OUT_OF_TIME or before.get("failure") == OUT_OF_TIME:
                found[record["name"]] = record
    return found


def run_all(
    due: dict[str, str], site: Path, limits: Limits, out: Path, jobs: int, until: float | None
) -> tuple[int, list[str]]:
    """Run classes, `jobs` at a time, and append a line for each to `out`; return how many ended, and the names of
    those that did not before `until`, a time of the monotonic clock."""
    ended, unfinished = 0, []
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        running = {
            pool.submit(run_apart, name, target, site, limits, Path(scratch) / f"{name}.json", until): name
            for name, target in due.items()
        }
        for each in concurrent.futures.as_completed(running):
            record = each.result()
            if record is None:
                unfinished.append(running[each])
                continue
            ended += 1
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            print(f"{ended}/{len(due)} {describe(record)}", flush=True)
    return ended, unfinished


def run_apart(
    name: str, target: str, site: Path, limits: Limits, out: Path, until: float | None
) -> dict[str, Any] | None:
    """Run one class in a process group of its own and return its record; None if `until` came first."""
    began = time.monotonic()
    if until is not None and began >= until:
        return None
    out.unlink(missing_ok=True)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")])),
        "HF_HUB_OFFLINE": "1",
    }
    environment.setdefault("OMP_NUM_THREADS", "1")
    command = [
        sys.executable, str(HERE / "corpus.py"), "one", target, "--limit", str(limits.seconds),
        "--device", limits.device, "--out", str(out),
    ]  # fmt: skip
    log = out.with_suffix(".log")
    with log.open("w", encoding="utf-8") as said:
        process = subprocess.Popen(command, env=environment, stdout=said, stderr=said, start_new_session=True)
        seconds = limits.seconds if until is None else min(limits.seconds, until - began)
        try:
            process.wait(seconds)
            failure = None if process.returncode == 0 else f"ended with {process.returncode}"
        except subprocess.TimeoutExpired:
            failure = OUT_OF_TIME
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if failure == OUT_OF_TIME and seconds < limits.seconds:
        return None
    record = json.loads(out.read_text("utf-8")) if out.exists() else {"target": target, "step": "start", "seconds": {}}
    if failure and record["step"] != "done":
        tail = log.read_text("utf-8", "replace").strip().splitlines()[-1:]
        record["failure"] = failure if failure == OUT_OF_TIME else f"{failure}: {' '.join(tail)[:300]}"
    if record.get("failure"):
        record["log"] = log.read_text("utf-8", "replace")[-2000:]
    return {"name": name, "limit": limits.seconds, **record, "all_seconds": round(time.monotonic() - began, 1)}


# What is printed and saved


def describe(record: dict[str, Any]) -> str:
    """Return what became of a class, in one line."""
    sites = record.get("sites") or []
    counts = Counter(outcome_of(record, site) for site in sites)
    story = ", ".join(f"{count} {what}" for what, count in counts.most_common())
    failure = f"; {record['step']}: {record['failure']}" if record.get("failure") else ""
    verdict = f"; judged anew: {record['judged']}" if record.get("judged") else ""
    return f"{record['name']}: {len(sites)} breaks: {story}{verdict}{failure} ({record['all_seconds']:.0f} s)"


def outcome_of(record: dict[str, Any], site: dict[str, Any]) -> str:
    """Return what became of a site; nothing is fixed if the comparison anew did not pass."""
    how: str = site.get("outcome") or (OUT_OF_TIME if record.get("failure") == OUT_OF_TIME else "failed")
    if how not in GONE:
        return how
    verdict = record.get("judged", "").partition(" ")[0]
    return how if verdict == "changed" else verdict or f"not judged: {record.get('failure', '')}".rstrip(": ")


@dataclass(frozen=True)
class Summary:
    """What became of the classes and of their break sites."""

    classes: int
    built: int
    breaking: int
    clean: int
    """Classes in which no break is left."""
    by_class: Counter[str]
    """Sites by outcome; one counts for each class that shows it."""
    by_line: Counter[str]
    """The same with each line once: it is gone if it is gone in each class that shows it."""
    wrong: tuple[str, ...]
    seconds: float

    @property
    def gone(self) -> int:
        return sum(self.by_class[each] for each in GONE)

    @property
    def sites(self) -> int:
        return self.by_class.total()


def summarize(records: Sequence[dict[str, Any]]) -> Summary:
    """Count classes and sites by what became of them."""
    by_class: Counter[str] = Counter()
    lines: dict[tuple[str, int], list[str]] = {}
    clean = 0
    for record in records:
        outcomes = [outcome_of(record, site) for site in record.get("sites") or []]
        by_class.update(outcomes)
        clean += bool(outcomes) and all(each in GONE for each in outcomes)
        for site, how in zip(record.get("sites") or [], outcomes, strict=True):
            lines.setdefault((site["path"], site["line"]), []).append(how)
    by_line = Counter(next((each for each in hows if each not in GONE), hows[0]) for hows in lines.values())
    return Summary(
        len(records),
        sum("recipe" in each for each in records),
        sum(bool(each.get("sites")) for each in records),
        clean,
        by_class,
        by_line,
        tuple(each["name"] for each in records if each.get("judged", "").startswith("wrong")),
        sum(each["all_seconds"] for each in records),
    )


def share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / max(whole, 1):.1f} %)"


def rows_of(summary: Summary) -> list[list[str]]:
    """Return the rows of the table of outcomes: what, in each class, and each line once."""

    def row(what: str, *names: str) -> list[str]:
        return [what, *(str(sum(by[name] for name in names)) for by in (summary.by_class, summary.by_line))]

    total = [f"**{each.total()}**" for each in (summary.by_class, summary.by_line)]
    rest = {*summary.by_class} - {*GONE, *DECLINED, OUT_OF_TIME, "wrong"}
    return [
        ["**break sites**", *total],
        row("fixed with proof, and confirmed by the comparison", *GONE),
        row("— by an edit", "edit"),
        row("— by a setting", "setting"),
        row("— by an edit and a setting", "edit and setting"),
        row("— by a call before compiling", "call before"),
        row("— by the change for another site", "gone with another"),
        row("declined: no change is known", "no change"),
        row("declined: with a change, results, gradients, exceptions or state differ", "differs"),
        row("declined: with a change, no more is captured, or another line breaks", "gains nothing"),
        row("declined: a change without proof: one side of a branch only", "one_side"),
        row("declined: a change without proof: no result", "not_run"),
        row("declined: excluding a function from compiling is all that helps", "kept out"),
        row("out of time", OUT_OF_TIME),
        row("a step failed", *sorted(rest)),
        row("changed wrongly", "wrong"),
    ]


def table(paths: Sequence[Path], is_listed: bool, is_saved: bool) -> int:
    """Print what records say, and save it in docs/results; return 1 if a change was wrong."""
    records = [*read_records(paths).values()]
    summary = summarize(records)
    print(
        f"{summary.classes} classes, {summary.built} built, {summary.breaking} break here, {summary.clean} of these "
        f"without a break after the changes; {share(summary.gone, summary.sites)} sites fixed with proof; "
        f"wrong: {', '.join(summary.wrong) or 'none'}; {summary.seconds / 60:.0f} minutes"
    )
    for row in rows_of(summary):
        print("  " + " | ".join(row))
    whys = Counter(
        f"{outcome_of(record, site)}: {site.get('why', '')}"[:200]
        for record in records
        for site in record.get("sites") or []
        if outcome_of(record, site) not in GONE
    )
    for why, count in whys.most_common(40 if is_listed else 8):
        print(f"{count:4} {why}")
    for record in records:
        if is_listed or record.get("failure"):
            print(f"  {describe(record)}")
    if is_saved:
        save_rows("corpus_classes", class_rows(records, summary))
        save_rows("corpus_sites", rows_of(summary))
        save_row("corpus_rates", rate_row(records, summary))
    return 1 if summary.wrong else 0


def class_rows(records: Sequence[dict[str, Any]], summary: Summary) -> list[list[str]]:
    """Return the rows of the table of classes: what, and how many."""
    times = sorted(each["all_seconds"] for each in records)
    return [
        ["tried, of those that break in the sweep", str(summary.classes)],
        ["built here, with inputs with which they run", str(summary.built)],
        ["break here as well", str(summary.breaking)],
        ["without a break after the changes", str(summary.clean)],
        ["changed wrongly", str(len(summary.wrong))],
        ["ran out of time", str(sum(each.get("failure") == OUT_OF_TIME for each in records))],
        ["seconds for a class: median, longest", f"{times[len(times) // 2]:.0f}, {times[-1]:.0f}"],
    ]


def rate_row(records: Sequence[dict[str, Any]], summary: Summary) -> list[str]:
    """Return the row of tcready in the table of published rates."""
    versions = sorted({each["torch"].partition("+")[0] for each in records if "torch" in each})
    where = f"{summary.breaking} classes that break here, torch {', '.join(versions)}"
    return [
        "`tcready fix --verify`",
        where,
        share(summary.gone, summary.sites),
        "for each change, in the proof and again by other code",
    ]
