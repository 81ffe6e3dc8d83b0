"""Build the worker as one file, which any interpreter with torch can run."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
"""The folder of the package `tcready`."""
MAIN = """\
import sys

if sys.argv[1:2] == ["--fork-server"]:
    from tcready.dynamic.worker.core.fork_server import main
elif len(sys.argv) != 4 or any(argument.startswith("-") for argument in sys.argv[1:]):
    from tcready.dynamic.standalone import main
else:
    from tcready.dynamic.worker.core.main import main

raise SystemExit(main())
"""
"""The launcher passes three files, a fork server a socket, a person options."""
LAUNCHER = (
    "bench_variants.py",
    "bundle.py",
    "standalone.py",
    "fork_client.py",
    "launch.py",
    "recovery.py",
    "worker_process.py",
    "ranks.py",
    "schedule.py",
)
STUB = '"""Part of the worker\'s bundle."""\n'
EPOCH = (1980, 1, 1, 0, 0, 0)


def bundle_files() -> dict[str, bytes]:
    """Map names within the bundle to contents: the worker, its launcher and the schema, and nothing else of tcready."""
    dynamic = PACKAGE / "dynamic"
    paths = [
        *(dynamic / "worker").rglob("*.py"),
        *(dynamic / name for name in LAUNCHER),
        *(PACKAGE / "schema").glob("*.py"),
        *(PACKAGE / "portable").rglob("*.py"),
    ]
    files = {f"tcready/{path.relative_to(PACKAGE).as_posix()}": path.read_bytes() for path in paths}
    files["tcready/__init__.py"] = files["tcready/dynamic/__init__.py"] = STUB.encode()
    files["__main__.py"] = MAIN.encode()
    return dict(sorted(files.items()))


def build_bundle(path: Path) -> None:
    """Write the bundle to `path`: the same bytes for the same sources on every machine, at any time.

    Called from within a bundle, copy that bundle.
    """
    if PACKAGE.parent.is_file():
        shutil.copyfile(PACKAGE.parent, path)
        return
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in bundle_files().items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), content)
