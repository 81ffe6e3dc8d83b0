"""What each sample of the rules and of fixtures/constructs shows under the Dynamo of this interpreter.

    python benchmarks/constructs.py --export samples.json                   where tcready is installed
    python benchmarks/constructs.py --run samples.json -o shown.json        where torch is
    python benchmarks/constructs.py --compare shown-a.json shown-b.json
    python benchmarks/constructs.py --record shown-a.json shown-b.json      into fixtures/constructs/shown.json

The second needs torch, this file and tests/helpers/dynamo_runs.py alone. It says of each sample at which lines graphs
break and with which ids, which frames are skipped, what recompiles, what is raised and whether results are eager's.

`--record` keeps what several versions of torch showed, one entry for all versions that showed the same. What is known
of a version that is not given stays, unless the sample has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "fixtures" / "constructs" / "shown.json"
sys.path.insert(0, str(ROOT / "tests" / "helpers"))


def exported() -> list[dict[str, Any]]:
    """Every sample as plain values: what it is called, and the fields of its `dynamo_runs.Program`."""
    import construct_samples
    from sample_runner import source_of
    from tcready.rules import load

    found = []
    for rule in load():
        for kind, group in (("bad", rule.bad), ("good", rule.good)):
            for number, sample in enumerate(group):
                program = {"text": source_of(sample), "inputs": sample.inputs, "again": sample.again}
                found.append({"name": f"rule {rule.code} {kind}{number}", "program": program})
    constructs = construct_samples.samples()
    return found + [{"name": f"{c.section}: {c.row}", "program": c.options} for c in constructs]


def shown(program: dict[str, Any], path: Path) -> dict[str, Any]:
    """What one sample did."""
    import dynamo_runs
    import torch

    made = dynamo_runs.Program(**program)
    found: dict[str, Any] = {}
    try:
        seen = dynamo_runs.run(made, path, dynamic=True if made.again else None)
    except BaseException as error:  # whatever a sample raises on another torch is the answer
        if isinstance(error, KeyboardInterrupt):
            raise
        return {"raises": f"{type(error).__name__}: {error}"[:300]}
    found["breaks"] = sorted({(b.line or 0, b.gb_id or "-") for b in seen.breaks})
    found["events"] = len(seen.breaks)
    found["generators"] = sorted(seen.generators)
    found["skipped"] = [[line, reason[:120]] for line, reason in seen.skipped]
    found["recompiles"] = [[reason[:160] for reason in reasons] for reasons in seen.recompiles]
    try:
        expected = dynamo_runs.eager(made, path)
        torch.testing.assert_close(seen.outputs, expected)
        found["same"] = True
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        found["same"] = f"{type(error).__name__}: {error}"[:200]
    return found


def run(samples: list[dict[str, Any]], out: Path | None) -> dict[str, Any]:
    """Runs every sample; `out` is written after each, so that a crash leaves what came before it."""
    import torch

    results: dict[str, Any] = {}
    report = {"torch": torch.__version__, "python": sys.version.split()[0], "samples": results}
    with tempfile.TemporaryDirectory() as folder:
        for number, sample in enumerate(samples):
            found = shown(sample["program"], Path(folder) / f"shown_{number}.py")
            results[sample["name"]] = {"digest": digest_of(sample["program"]), **found}
            if out is not None and number % 20 == 0:
                out.write_text(json.dumps(report, indent=1), encoding="utf-8")
    if out is not None:
        out.write_text(json.dumps(report, indent=1), encoding="utf-8")
    return report


def digest_of(program: dict[str, Any]) -> str:
    """Tells one version of a sample from another."""
    return hashlib.sha256(json.dumps(program, sort_keys=True).encode()).hexdigest()[:8]


def merged(record: dict[str, Any], reports: list[dict[str, Any]]) -> dict[str, Any]:
    """The record with what was shown under other versions; without samples that are gone or have changed since."""
    samples = {sample["name"]: digest_of(sample["program"]) for sample in exported()}
    versions = dict(record["torch"])
    found: dict[str, dict[str, Any]] = {}
    for name, digest in samples.items():
        known = record["samples"].get(name, {})
        outcomes = known.get("outcomes", []) if known.get("digest") == digest else []
        by_version = {v: {k: o[k] for k in o if k != "torch"} for o in outcomes for v in o["torch"]}
        for report in reports:
            one = report["samples"].get(name)
            if one is None or one["digest"] != digest:
                continue
            # What a missing package kept from running showed nothing.
            if not one.get("raises", "").startswith("ModuleNotFoundError"):
                by_version[_minor(report)] = packed(one)
        found[name] = {"digest": digest, "outcomes": _grouped(by_version)}
    versions |= {_minor(report): f"{report['torch']}, Python {report['python']}" for report in reports}
    return {"torch": dict(sorted(versions.items())), "samples": found}


def _minor(report: dict[str, Any]) -> str:
    return ".".join(report["torch"].split(".")[:2])


def packed(one: dict[str, Any]) -> dict[str, Any]:
    """What claims and tests ask of a sample's run."""
    if "raises" in one:
        return {"raises": one["raises"].partition(":")[0]}
    return {
        "breaks": [list(each) for each in one["breaks"]],
        "generators": one["generators"],
        "skipped": sorted({line for line, _ in one["skipped"]}),
        "recompiles": [int(bool(reasons)) for reasons in one["recompiles"]],
        "same": one["same"] is True,
    }


def _grouped(by_version: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry for all versions that showed the same, the oldest first."""
    found: list[dict[str, Any]] = []
    for version, outcome in sorted(by_version.items()):
        same = next((e for e in found if {k: e[k] for k in e if k != "torch"} == outcome), None)
        if same is not None:
            same["torch"].append(version)
        else:
            found.append({"torch": [version], **outcome})
    return found


def text_of(record: dict[str, Any]) -> str:
    """The record as JSON with a line for each sample."""
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(known)}" for name, known in sorted(record["samples"].items()))
    return f'{{"torch": {json.dumps(record["torch"])},\n"samples": {{\n{rows}\n}}}}\n'


def differences(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    """One line for each sample that broke, skipped, recompiled or raised otherwise in `b` than in `a`."""
    found = []
    for name in a["samples"]:
        one, other = a["samples"][name], b["samples"].get(name)
        if other is None:
            found.append(f"{name}: not in the second")
        elif _told(one) != _told(other):
            found.append(f"{name}: {_told(one)} -> {_told(other)}")
    return found


def _told(one: dict[str, Any]) -> str:
    if "raises" in one:
        return f"raises {one['raises'].partition(':')[0]}"
    said = [" ".join(f"{gb}@{line}" for line, gb in one["breaks"]) or "no break"]
    said += ["frame skipped"] if one["skipped"] else []
    said += ["recompiles"] if any(map(bool, one["recompiles"])) else []
    return ", ".join(said)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--export", type=Path)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--compare", type=Path, nargs=2)
    parser.add_argument("--record", type=Path, nargs="+")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    if given.export:
        given.export.write_text(json.dumps(exported(), indent=1), encoding="utf-8")
    elif given.run:
        report = run(json.loads(given.run.read_text(encoding="utf-8")), given.output)
        for name, result in report["samples"].items():
            print(f"{name}: {_told(result)}")
    elif given.compare:
        first, second = (json.loads(path.read_text(encoding="utf-8")) for path in given.compare)
        print("\n".join(differences(first, second)))
    elif given.record:
        empty = {"torch": {}, "samples": {}}
        known = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else empty
        reports = [json.loads(path.read_text(encoding="utf-8")) for path in given.record]
        RECORD.write_text(text_of(merged(known, reports)), encoding="utf-8")
    else:
        parser.error("one of --export, --run, --compare, --record")


if __name__ == "__main__":
    main()
