"""Runs the worker's tests under another torch, and keeps what came of it in `docs/torch_versions.json`.

    python benchmarks/torch_versions.py 2.14.1          in a fresh environment, with everything else as constrained
    python benchmarks/torch_versions.py --here          under the torch of this interpreter

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
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "docs" / "torch_versions.json"
TESTS = ("tests/dynamic",)
FACTS = "import json, platform, torch; print(json.dumps([torch.__version__, platform.python_version()]))"


def environment(folder: Path, version: str) -> Path:
    """Makes an environment with that torch and what the tests need; its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    pins = [
        line
        for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
        if not re.match(r"(torch|sympy|triton|setuptools)==", line)  # torch says which of these it takes
    ]
    (folder / "constraints.txt").write_text("\n".join(pins) + "\n", "utf-8")
    install = [str(python), "-m", "pip", "install", "--quiet", "-c", str(folder / "constraints.txt")]
    subprocess.run([*install, f"torch=={version}", "numpy"], check=True)
    subprocess.run([*install, "-e", f"{ROOT}[test]"], check=True)
    return python


def run(python: Path, workers: str, more: list[str]) -> dict[str, Any]:
    """Runs the tests; versions, counts, and the names of those that failed."""
    shown = subprocess.run([str(python), "-c", FACTS], check=True, capture_output=True, text=True).stdout
    torch, version = json.loads(shown)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [str(python), "-m", "pytest", "-q", "-n", workers, *TESTS, f"--junit-xml={report}", *more]
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
        "passed": counts["tests"] - counts["skipped"] - len(failed),
        "skipped": counts["skipped"],
        "failed": sorted(failed),
    }


def keep(row: dict[str, Any], path: Path = RECORD) -> None:
    """Puts the row in place of what the file has of the same torch."""
    rows = json.loads(path.read_text("utf-8")) if path.exists() else []
    others = [other for other in rows if other["torch"] != row["torch"]]
    rows = sorted([*others, row], key=lambda each: [int(n) for n in re.findall(r"\d+", each["torch"])[:3]])
    path.write_text(json.dumps(rows, indent=2) + "\n", "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("version", nargs="?", help="of torch, from the package index")
    parser.add_argument("--here", action="store_true", help="use the torch of this interpreter")
    parser.add_argument(
        "--python", type=Path, help="use this interpreter, which has torch and the tests' packages"
    )
    parser.add_argument("--workers", default="auto", help="for pytest -n")
    parser.add_argument("--output", type=Path, default=RECORD)
    options, more = parser.parse_known_args()
    if bool(options.version) + options.here + bool(options.python) != 1:
        parser.error("name a version, --here or --python")
    with tempfile.TemporaryDirectory() as folder:
        given = options.python or Path(sys.executable)
        python = environment(Path(folder), options.version) if options.version else given
        row = run(python, options.workers, more)
    keep(row, options.output)
    print(json.dumps(row, indent=2))
    return 1 if row["failed"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
