"""The files of `fixtures/tricky/` and where each version of torch breaks in them.

A line that breaks in a cold call has `# breaks: GB0170` beside it, with every id that Dynamo gives there under the torch
of the constraints. `marks_by_version.json` has the lines and ids of each file in which another version breaks elsewhere
or with other ids; `benchmarks/tricky_marks.py` writes it. Ahead of the docstring may stand `# mode: train`, or
`# python: <3.12` where a newer Python breaks elsewhere.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from fixture_markers import ROOT
from reading import PINNED

FOLDER = ROOT / "fixtures" / "tricky"
BY_VERSION = FOLDER / "marks_by_version.json"
Marks = dict[int, frozenset[str]]
"""The ids that Dynamo gives at each line that breaks."""
Version = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Tricky:
    path: Path
    text: str
    marks: dict[Version, Marks | None]
    """The lines that break under each version of torch that was recorded; None if compiling raises there."""

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def train(self) -> bool:
        return self.text.startswith("# mode: train\n")

    @property
    def below(self) -> tuple[int, ...] | None:
        """The first Python version for which the marks do not hold."""
        match = re.match(r"# python: <(\d+)\.(\d+)\n", self.text)
        return (int(match[1]), int(match[2])) if match else None

    @property
    def entry(self) -> str:
        return "Model" if "\nclass Model(" in self.text else "model"


def read_marks(path: Path, text: str) -> Marks:
    """Raises ValueError where a mark is misspelt."""
    marks = {}
    for number, line in enumerate(text.splitlines(), 1):
        if "# break" in line:
            match = re.search(r"  # breaks: ((?:GB\d{4}|-)(?:; (?:GB\d{4}|-))*)$", line)
            if match is None:
                raise ValueError(f"{path.name}:{number}: misspelt mark")
            marks[number] = frozenset(match[1].split("; "))
    return marks


def _recorded() -> dict[Version, dict[str, Marks | None]]:
    """The files in which another version breaks elsewhere."""
    recorded = json.loads(BY_VERSION.read_text("utf-8")) if BY_VERSION.exists() else {}
    return {
        tuple(map(int, version.split("."))): {
            name: None if marks is None else {int(line): frozenset(ids) for line, ids in marks.items()}
            for name, marks in files.items()
        }
        for version, files in recorded.items()
    }


def tricky_files() -> tuple[Tricky, ...]:
    """Every file; raises ValueError where a mark is misspelt."""
    recorded = _recorded()
    files = []
    for path in sorted(FOLDER.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        marks = read_marks(path, text)
        others = {version: names.get(path.name, marks) for version, names in recorded.items()}
        files.append(Tricky(path, text, {PINNED: marks, **others}))
    return tuple(files)
