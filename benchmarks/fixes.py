"""How many graph breaks of real models are gone with proof: `tcready fix --verify --third-party` over records.

A record is one JSON object a line: `id`, `target`, `spec` (`build`: `module:function` of the --zoo folder, whose call
with `kwargs` gives (module, args, kwargs)) and `break_sites`. The packages must be importable here (PYTHONPATH) and in
the interpreter --python, in which the models are run.

    python benchmarks/fixes.py RECORDS.jsonl --zoo FOLDER --python ENV/bin/python [--every N] [--part K/N] [--out FILE]
                               [--sites fixtures/accuracy/fixed-sites.jsonl] [--judge] [--device cuda]

What became of each site is kept in the --sites file, a line a model, the last run of each; the sums are over all of them.

A site is (path, line); distinct sites count once over all models, and one is gone if it is gone in each model that shows
it. Sites cured by an edit, by a setting, by both and by a call before are counted apart; what is kept out of what is
compiled is not gone.

With --judge each model is called anew with the changes and without, as `fixed_files.py` does it, on seeds that no proof
has seen; exit 1 if one is changed wrongly.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fixed_files import held_against
from recorded import source_of
from tcready import api
from tcready.fixes.multi_target import Fixed
from tcready.schema.codec import as_json
from tcready.schema.proof import FixResult


@contextlib.contextmanager
def written(record: dict[str, Any], zoo: str) -> Iterator[Path]:
    """The target file of a record, in a folder of its own that is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "target.py"
        target.write_text(source_of(record, zoo), "utf-8")
        yield target


def fixed(target: Path, python: str | None, seconds: float, unsafe: bool, device: str) -> Fixed:
    """The changes that pass in a target file, also those of installed packages."""
    return api.fix(
        f"{target.name}::model",
        verify=True,
        unsafe=unsafe,
        third_party=True,
        root=target.parent,
        inputs=f"{target.name}::inputs",
        python=python,
        timeout=seconds,
        device=device,
        announce=lambda line: print(f"  {time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True),
    )


def judged(found: Fixed, target: Path, python: str | None, device: str) -> str:
    """What an independent comparison says: `changed`, or `wrong` or `failed` and why; "" if there are no changes."""
    return " ".join(held_against(found, target, python or sys.executable, device)) if found.result.changes else ""


def tried(
    record: dict[str, Any], zoo: str, python: str | None, seconds: float, unsafe: bool, judge: bool, device: str
) -> tuple[FixResult, str]:
    """What became of a model, and of its changes: "" if nobody judged them."""
    with written(record, zoo) as target:
        found = fixed(target, python, seconds, unsafe, device)
        return found.result, judged(found, target, python, device) if judge else ""


GONE = ("edit", "setting", "edit and setting", "call before", "gone with another")


def kind(result: FixResult) -> dict[tuple[str, int], str]:
    """What became of each site that was met and is left, or that has a change of its own."""
    found: dict[tuple[str, int], str] = {}
    for change in result.changes:
        what = "edit and setting" if change.edits and change.settings else "setting" if change.settings else "edit"
        what = "call before" if change.called_before else "kept out" if change.keeps_out else what
        found[change.path, change.line] = what
    left = dict.fromkeys(result.left, "no change")
    left |= {(change.path, change.line): change.state for change in result.refused}
    found |= dict.fromkeys(result.kept_out, "kept out")
    return found | {place: left[place] for place in result.left}


def outcomes(
    record: dict[str, Any], became: dict[tuple[str, int], str], failure: str | None
) -> list[tuple[str, int, str, str]]:
    """Path, line, type of break, and what became of it, of each site of a model."""
    return [
        (path, line, types[0], became.get((path, line), failure or "gone with another"))
        for path, line, types in ((site["path"], site["line"], site["gb_types"]) for site in record["break_sites"])
    ]


def tell(runs: list[dict[str, Any]]) -> None:
    """How many of the distinct sites of all models are gone, and how."""
    sites: dict[tuple[str, int], set[str]] = {}
    types: dict[tuple[str, int], str] = {}
    for path, line, name, how in (site for run in runs for site in run["sites"]):
        types[path, line] = name
        sites.setdefault((path, line), set()).add(how)
    gone = {place for place, how in sites.items() if how <= set(GONE)}
    by = Counter(min(sites[place], key=GONE.index) for place in gone)
    print(
        f"{len(gone)} of {len(sites)} sites of {len(runs)} models are gone with proof: "
        + ", ".join(f"{count} {how}" for how, count in by.most_common())
    )
    for name, count in Counter(types.values()).most_common():
        of_it = sum(types[place] == name for place in gone)
        print(f"{of_it:6}/{count:<4} {name}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("records")
    parser.add_argument("--zoo", required=True)
    parser.add_argument("--python")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--part", default="0/1", help="K/N: every N-th record from the K-th on")
    parser.add_argument("--timeout", type=float, default=400.0)
    parser.add_argument("--unsafe", action="store_true", help="as fix --unsafe: other exceptions, one side alone")
    parser.add_argument("--judge", action="store_true", help="hold what is changed against itself on fresh seeds")
    parser.add_argument("--device", default="cpu", help="where the models run, and what judges them")
    parser.add_argument("--out", help="append one JSON line a model there")
    parser.add_argument("--sites", help="the file with what became of each site, of these models and others")
    options = parser.parse_args()
    first, step = map(int, options.part.split("/"))
    lines = Path(options.records).read_text("utf-8").splitlines()
    records = [record for record in map(json.loads, lines) if record["break_sites"]][:: options.every][first::step]
    known = Path(options.sites) if options.sites else None
    runs = [json.loads(line) for line in known.read_text("utf-8").splitlines()] if known and known.exists() else []
    wrong = 0
    for number, record in enumerate(records, 1):
        began = time.monotonic()
        try:
            result, verdict = tried(
                record, options.zoo, options.python, options.timeout, options.unsafe, options.judge, options.device
            )
        except Exception as error:  # one model must not end the measurement
            result, verdict = FixResult((), failure=f"{type(error).__name__}: {error}"), ""
        wrong += verdict.startswith("wrong")
        became = kind(result)
        story = ", ".join(f"{Path(path).name}:{line} {how}" for (path, line), how in became.items())
        counts = f"breaks {result.breaks_before} -> {result.breaks_after}"
        print(f"{number}/{len(records)} {record['target']}: {counts}; {story} {result.failure or ''}"
              f"{'; judged anew: ' if verdict else ''}{verdict}"
              f" ({time.monotonic() - began:.0f} s)", flush=True)  # fmt: skip
        if options.out:
            with Path(options.out).open("a") as file:
                file.write(json.dumps({"target": record["target"], "result": as_json(result)}) + "\n")
        runs = [run for run in runs if run["id"] != record["id"]]
        sites = outcomes(record, became, result.failure)
        runs.append({"id": record["id"], "target": record["target"], "sites": sites})
        if known:
            known.write_text("".join(json.dumps(run) + "\n" for run in runs), encoding="utf-8")
    tell(runs)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
