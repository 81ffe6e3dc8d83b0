"""Writes .ci/requirements.txt: of every package of constraints.txt the very file that was tested, by its hash.

    python .ci/pin.py > .ci/requirements.txt

For CPython 3.11 on Linux (x86_64), with which it must be called. It asks the package index that pip is set up with, and
installs nothing. torch and torchvision are left out: there are builds of them for the CPU and for CUDA, and which one is
taken is up to whoever sets the index. `.ci/run` takes what is here, and torch by its version.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNHASHED = re.compile(r"torch(vision)?==")


def pinned() -> dict[str, tuple[str, str]]:
    """The version and the SHA-256 of each package."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    wanted = [line for line in lines if line.strip() and not line.startswith("#") and not UNHASHED.match(line)]
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "asked.txt"
        asked.write_text("\n".join(wanted) + "\n", encoding="utf-8")
        command = "install --quiet --dry-run --ignore-installed --no-deps --only-binary :all: --report -".split()
        done = subprocess.run(  # noqa: S603  pip, with arguments of ours
            [sys.executable, "-m", "pip", *command, "-r", str(asked)], stdout=subprocess.PIPE, check=True
        )
    return packages(json.loads(done.stdout))


def packages(report: dict[str, list[dict[str, dict[str, dict[str, dict[str, str]]]]]]) -> dict[str, tuple[str, str]]:
    """The same of a report that pip wrote."""
    return {
        str(each["metadata"]["name"]): (
            str(each["metadata"]["version"]),
            each["download_info"]["archive_info"]["hashes"]["sha256"],
        )
        for each in report["install"]
    }


def written(found: dict[str, tuple[str, str]]) -> str:
    """As pip reads it, by name."""
    head = "# Made by `python .ci/pin.py` of constraints.txt, for CPython 3.11 on Linux (x86_64); not to be edited.\n"
    rows = sorted(found.items(), key=lambda row: row[0].lower())
    return head + "".join(f"{name}=={version} --hash=sha256:{digest}\n" for name, (version, digest) in rows)


if __name__ == "__main__":
    sys.stdout.write(written(pinned()))
