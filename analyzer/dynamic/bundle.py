"""The worker as one file, to be run by any interpreter that has torch."""

from __future__ import annotations

import zipfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
"""The folder that is the package `tcready`."""
MAIN = "from tcready.dynamic.worker.main import main\n\nraise SystemExit(main())\n"
STUB = '"""Part of the worker\'s bundle."""\n'
EPOCH = (1980, 1, 1, 0, 0, 0)


def bundle_files() -> dict[str, bytes]:
    """Name within the bundle to content: the worker, the schema, and nothing else of tcready."""
    worker = PACKAGE / "dynamic" / "worker"
    files = {f"tcready/dynamic/worker/{path.name}": path.read_bytes() for path in sorted(worker.glob("*.py"))}
    files["tcready/schema.py"] = (PACKAGE / "schema.py").read_bytes()
    files["tcready/__init__.py"] = files["tcready/dynamic/__init__.py"] = STUB.encode()
    files["__main__.py"] = MAIN.encode()
    return dict(sorted(files.items()))


def build_bundle(path: Path) -> None:
    """Write the bundle to `path`: the same bytes for the same sources, whatever the machine or the hour."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in bundle_files().items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), content)
