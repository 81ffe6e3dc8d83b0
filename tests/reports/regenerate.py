"""Writes the golden reports anew: `python tests/reports/regenerate.py`, then read the diff."""

from __future__ import annotations

from pathlib import Path

from report_samples import sample
from tcready.reports import render

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "fixtures" / "reports"
ASSETS = ("page.css", "page.js")
"""Files that every page contains: golden pages have their names instead."""
GOLDEN = ("benched", "broken", "hostile", "planned", "static")
ENDING = {"json": "json", "text": "txt", "html": "html", "long": "long.txt"}
OPTIONS = {"text": {"width": 88}, "long": {"width": 88, "verbose": True}}


def golden(name: str, form: str) -> tuple[Path, bytes]:
    """Return the path of a golden file and its expected content. Raises ValueError if a page lacks an asset."""
    text = render(sample(name), "text" if form == "long" else form, **OPTIONS.get(form, {}))
    for asset in ASSETS if form == "html" else ():
        before, whole, after = text.partition((ROOT / "reports" / "html" / asset).read_text("utf-8"))
        if not whole:
            raise ValueError(f"{name}.html does not contain {asset}")
        text = f"{before}/* {asset} */\n{after}"
    return FOLDER / f"{name}.{ENDING[form]}", text.encode("utf-8")


if __name__ == "__main__":
    for name in GOLDEN:
        for form in ENDING:
            path, content = golden(name, form)
            path.write_bytes(content)
            print(path.name, len(content))
