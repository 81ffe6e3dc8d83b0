"""Runs the tests of the run and of the claims under another torch, and keeps the result in `docs/torch_versions.json`.

    python benchmarks/torch_versions.py 2.15.0             in a fresh environment, with everything else as constrained
    python benchmarks/torch_versions.py 2.16.0 --derive    first derives what the static pass knows of that version
    python benchmarks/torch_versions.py --here             under the torch of this interpreter

`--derive` writes the version's table (`torch_tables.py`), records what it does with every sample (`constructs.py`) and
derives which claims hold (`claims.py`): read the diff. With `--environment FOLDER` the environment and each finished
part of the table stay there, and a second run goes on from them.

`--all` runs the whole suite, of which the tests of pages need Chromium. `--failed` runs only the tests that failed in
the recorded run, and merges their results.

README and metadata name the versions of that file and no others. It exits 1 if a test failed.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "docs" / "torch_versions.json"
ALL = ("tests",)
TESTS = ("tests/dynamic", "tests/rules/test_rules.py", "tests/rules/test_constructs.py", "tests/rules/test_versions.py")
OF_SAMPLES = ("numpy", "scipy", "einops", "tqdm")
"""What samples import."""
FACTS = "import json, platform, torch; print(json.dumps([torch.__version__, platform.python_version()]))"


def environment(folder: Path, version: str) -> Path:
    """Makes an environment with that torch and what the tests need; its interpreter."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pins = [
        line
        for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
        if not re.match(r"(torch|sympy|triton|setuptools)==", line)  # torch says which of these it takes
    ]
    (folder / "constraints.txt").write_text("\n".join(pins) + "\n", "utf-8")
    install = [str(python), "-m", "pip", "install", "--quiet", "-c", str(folder / "constraints.txt")]
    subprocess.run([*install, f"torch=={version}", *OF_SAMPLES], check=True)
    subprocess.run([*install, "-e", f"{ROOT}[test]"], check=True)
    return python


def derive(python: Path, folder: Path) -> None:
    """Writes what the static pass knows of the torch of `python`: its table, its record and the claims."""
    samples, shown = folder / "samples.json", folder / "shown.json"
    script = {name: str(ROOT / "benchmarks" / f"{name}.py") for name in ("torch_tables", "constructs", "claims")}
    subprocess.run([str(python), script["torch_tables"], "--parts", str(folder / "parts")], check=True)
    subprocess.run([sys.executable, script["constructs"], "--export", str(samples)], check=True)
    run_samples = [str(python), script["constructs"], "--run", str(samples), "-o", str(shown)]
    subprocess.run(run_samples, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run([sys.executable, script["constructs"], "--record", str(shown)], check=True)
    subprocess.run([sys.executable, script["claims"]], check=True)


def facts_of(python: Path) -> tuple[str, str]:
    """The versions of torch and Python."""
    shown = subprocess.run([str(python), "-c", FACTS], check=True, capture_output=True, text=True).stdout
    torch, version = json.loads(shown)
    return torch, version


def run(python: Path, workers: str, tests: Sequence[str], more: list[str]) -> dict[str, Any]:
    """Runs the tests; versions, counts, and the names of those that failed."""
    torch, version = facts_of(python)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            str(python),
            "-m",
            "pytest",
            "-q",
            "-m",
            "not release",
            "-n",
            workers,
            *tests,
            f"--junit-xml={report}",
            *more,
        ]
        subprocess.run(command, cwd=ROOT, check=False)
        suite = next(ET.parse(report).iter("testsuite"))
    failed = [
        f"{case.get('classname')}::{case.get('name')}"
        for case in suite.iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    ]
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    counts = {name: int(suite.get(name, 0)) for name in ("tests", "skipped")}
    return {
        "torch": torch,
        "python": version,
        "commit": commit or None,
        "platform": f"{platform.system()} {platform.machine()}",
        "tests": list(tests),
        "passed": counts["tests"] - counts["skipped"] - len(failed),
        "skipped": counts["skipped"],
        "failed": sorted(failed),
    }


def failed_before(torch: str, path: Path) -> dict[str, Any]:
    """The recorded run under that torch. Raises StopIteration if there is none."""
    return next(row for row in json.loads(path.read_text("utf-8")) if row["torch"] == torch)


def node_id(name: str) -> str:
    """`tests/dynamic/test_plan.py::test_x[infer]`, of `tests.dynamic.test_plan::test_x[infer]`."""
    module, _, test = name.partition("::")
    return f"{module.replace('.', '/')}.py::{test}"


def merged(before: dict[str, Any], again: dict[str, Any]) -> dict[str, Any]:
    """A recorded run after the tests that failed in it ran again."""
    counts = {name: before[name] + again[name] for name in ("passed", "skipped")}
    return {**before, **counts, "commit": again["commit"], "failed": again["failed"]}


def keep(row: dict[str, Any], path: Path = RECORD) -> None:
    """Puts the row in place of what the file has of the same torch."""
    rows = json.loads(path.read_text("utf-8")) if path.exists() else []
    others = [other for other in rows if other["torch"] != row["torch"]]
    rows = sorted([*others, row], key=lambda each: [int(n) for n in re.findall(r"\d+", each["torch"])[:3]])
    path.write_text(json.dumps(rows, indent=2) + "\n", "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", nargs="?", help="of torch, from the package index")
    parser.add_argument("--here", action="store_true", help="use the torch of this interpreter")
    parser.add_argument("--python", type=Path, help="use this interpreter, which has torch and the tests' packages")
    parser.add_argument("--derive", action="store_true", help="derive table, record and claims before the tests")
    parser.add_argument("--all", action="store_true", help="run the whole suite")
    parser.add_argument("--failed", action="store_true", help="run only what failed in the recorded run")
    parser.add_argument("--environment", type=Path, help="make the environment there, and keep it")
    parser.add_argument("--workers", default="auto", help="for pytest -n")
    parser.add_argument("--output", type=Path, default=RECORD)
    options, more = parser.parse_known_args()
    if bool(options.version) + options.here + bool(options.python) != 1:
        parser.error("name a version, --here or --python")
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.environment or Path(temporary)).resolve()
        given = options.python or Path(sys.executable)
        python = environment(folder, options.version) if options.version else given
        if options.derive:
            derive(python, folder)
        if options.failed:
            before = failed_before(facts_of(python)[0], options.output)
            if not before["failed"]:
                return 0
            row = merged(before, run(python, options.workers, [*map(node_id, before["failed"])], more))
        else:
            row = run(python, options.workers, ALL if options.all else TESTS, more)
    keep(row, options.output)
    print(json.dumps(row, indent=2))
    return 1 if row["failed"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
