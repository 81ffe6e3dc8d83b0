"""Pack the worker into one file, which any interpreter with torch can run."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
"""The folder that is the package `tcready`."""
MAIN = """\
import sys

if sys.argv[1:2] == ["--fork-server"]:
    from tcready.dynamic.worker.fork_server import main
elif len(sys.argv) != 4 or any(argument.startswith("-") for argument in sys.argv[1:]):
    from tcready.dynamic.by_hand import main
else:
    from tcready.dynamic.worker.main import main

raise SystemExit(main())
"""
"""The launcher gives three files, a fork server a socket; a person gives options."""
LAUNCHER = (
    "arms.py",
    "bundle.py",
    "by_hand.py",
    "fork_server.py",
    "launch.py",
    "left_behind.py",
    "process.py",
    "ranks.py",
    "schedule.py",
)
STUB = '"""Part of the worker\'s bundle."""\n'
EPOCH = (1980, 1, 1, 0, 0, 0)


def bundle_files() -> dict[str, bytes]:
    """Name within the bundle to content: the worker, what launches it, the schema, and nothing else of tcready."""
    dynamic = PACKAGE / "dynamic"
    paths = [
        *(dynamic / "worker").rglob("*.py"),
        *(dynamic / name for name in LAUNCHER),
        *(PACKAGE / "schema").glob("*.py"),
        *(PACKAGE / "events").glob("*.py"),
        PACKAGE / "convention.py",
        PACKAGE / "options.py",
        PACKAGE / "placing.py",
        PACKAGE / "quantities.py",
        PACKAGE / "target.py",
    ]
    files = {f"tcready/{path.relative_to(PACKAGE).as_posix()}": path.read_bytes() for path in paths}
    files["tcready/__init__.py"] = files["tcready/dynamic/__init__.py"] = STUB.encode()
    files["__main__.py"] = MAIN.encode()
    return dict(sorted(files.items()))


def build_bundle(path: Path) -> None:
    """Write the bundle to `path`: the same bytes for the same sources, whatever the machine or the hour.

    From within a bundle it is that bundle.
    """
    if PACKAGE.parent.is_file():
        shutil.copyfile(PACKAGE.parent, path)
        return
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in bundle_files().items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), content)
