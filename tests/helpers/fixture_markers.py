"""Expectations that stand as comments beside the lines of the fixture models.

`# expect: TCR101` says that the static pass predicts TCR101 on this line and that a run confirms it;
`# expect: TCR303 not_reached` names another status; `;` separates several. `# expect-run: GB0007` says that
only a run shows something here: the break's GB id, or the effect where it is no break (`recompile`). `# markers-also: parts/bases.py` in a model file says that markers of that
file count for the model too. A line is the first line of the finding's span.
"""

from __future__ import annotations

import io
import re
import tokenize
import typing
from dataclasses import dataclass
from pathlib import Path

from tcready.schema.enums import Status

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "fixtures" / "models"
BROKEN = ROOT / "fixtures" / "broken"
TARGETS = ROOT / "fixtures" / "targets"

_STATUSES = frozenset(typing.get_args(Status))
_RULE = re.compile(r"(TCR\d{3})(?:\s+(\w+))?")


@dataclass(frozen=True, order=True)
class Marker:
    path: str
    """Relative to the repository, with forward slashes: as reports name it when run from there."""
    line: int
    code: str
    """A rule's code; a GB id or an effect where the status is `runtime_only`."""
    status: str


def models() -> tuple[Path, ...]:
    """Every runnable model file, by name."""
    return tuple(sorted(MODELS.glob("*.py")))


def markers_of(model: Path) -> frozenset[Marker]:
    """What a check of the file `model` must find: its own markers and those of the files it names."""
    marks, also = _read(model)
    for other in also:
        more, deeper = _read(MODELS / other)
        if deeper:
            raise ValueError(f"{other}: markers-also belongs in model files alone")
        marks = marks | more
    return marks


def _read(path: Path) -> tuple[frozenset[Marker], tuple[str, ...]]:
    """Markers and `markers-also` files of `path`. Raises ValueError where a marker is misspelt."""
    shown = path.relative_to(ROOT).as_posix()
    marks: list[Marker] = []
    also: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type != tokenize.COMMENT:
            continue
        key, _, text = token.string.lstrip("# ").partition(":")
        line = token.start[0]
        if key == "expect":
            marks += (_static(shown, line, part.strip()) for part in text.split(";"))
        elif key == "expect-run":
            marks += (Marker(shown, line, part.strip(), "runtime_only") for part in text.split(";"))
        elif key == "markers-also":
            also += text.split()
        elif key.startswith("expect") and "TCR" in token.string:
            raise ValueError(f"{shown}:{line}: misspelt marker {token.string!r}")
    if len(set(marks)) != len(marks):
        raise ValueError(f"{shown}: a marker stands twice on one line")
    return frozenset(marks), tuple(also)


def _static(path: str, line: int, text: str) -> Marker:
    match = _RULE.fullmatch(text)
    status = (match.group(2) or "confirmed") if match else ""
    if match is None or status not in _STATUSES:
        raise ValueError(f"{path}:{line}: misspelt marker {text!r}")
    return Marker(path, line, match.group(1), status)
