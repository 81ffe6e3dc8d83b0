"""Writes the golden reports anew: `python tests/reports/regenerate.py`, then read the diff."""

from __future__ import annotations

from pathlib import Path

from report_samples import sample
from tcready.reports import render

FOLDER = Path(__file__).parents[2] / "fixtures" / "reports"
GOLDEN = ("benched", "broken", "hostile", "planned", "static")
ENDING = {"json": "json", "text": "txt", "html": "html", "long": "long.txt"}
OPTIONS = {"text": {"width": 88}, "long": {"width": 88, "verbose": True}}


def golden(name: str, form: str) -> tuple[Path, bytes]:
    """A golden file and what it should hold."""
    text = render(sample(name), "text" if form == "long" else form, **OPTIONS.get(form, {}))
    return FOLDER / f"{name}.{ENDING[form]}", text.encode("utf-8")


if __name__ == "__main__":
    for name in GOLDEN:
        for form in ENDING:
            path, content = golden(name, form)
            path.write_bytes(content)
            print(path.name, len(content))
