"""The measured constructs of `fixtures/constructs/` as programs: one for each row of the table they come from.

A section file starts with what all its samples import; then one block for each row:

    # row: t.item()
    # inputs: (torch.randn(4, 8),)
    def model(x: Tensor) -> Tensor:
        n = x.sum().item()  # expect: TCR201
        return x * n

Keys before the code: `inputs`, `again` (one more call, with other values), `mode: train`, `config: name=value,
...` (of torch._dynamo.config), `like: row` (the code of another row, for a row that only configuration tells apart).
`# expect: TCR201; TCR311` beside a line: the static pass says it there, and a run shows it. `# expect-run: GB0059`:
only a run shows something there. A block is a file of its own in which lines keep their numbers. Needs the standard
library alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynamo_runs import Program

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "constructs"
KEYS = frozenset({"inputs", "again", "mode", "config", "like"})


@dataclass(frozen=True)
class Construct:
    """The sample of one row; `where` is its file and the line of its `# row:`."""

    section: str
    row: str
    where: str
    text: str
    keys: dict[str, str]

    @property
    def key(self) -> tuple[str, str]:
        return self.section, self.row

    @property
    def options(self) -> dict[str, Any]:
        """The fields of a `dynamo_runs.Program`."""
        found: dict[str, Any] = {"text": self.text, "train": self.keys.get("mode") == "train"}
        return found | {n: self.keys[n] for n in ("inputs", "again", "config") if n in self.keys}

    @property
    def program(self) -> Program:
        from dynamo_runs import Program

        return Program(**self.options)

    @property
    def expected(self) -> frozenset[tuple[int, str]]:
        """(line, code) of what the static pass must say."""
        return self._markers("expect")

    @property
    def only_run(self) -> frozenset[tuple[int, str]]:
        """(line, GB id) of what only a run shows."""
        return self._markers("expect-run")

    def _markers(self, kind: str) -> frozenset[tuple[int, str]]:
        found = set()
        for number, line in enumerate(self.text.splitlines(), 1):
            if match := re.search(rf"# {kind}: (.*)$", line):
                for code in re.split(r";\s*", match[1].strip()):
                    if not re.fullmatch(r"TCR\d{3}" if kind == "expect" else r"GB\d{4}|-", code):
                        raise ValueError(f"{self.where}: misspelt marker {code!r}")
                    found.add((number, code))
        return frozenset(found)


def rows() -> list[dict[str, Any]]:
    """The measured table: what each row did when it was measured."""
    found: list[dict[str, Any]] = json.loads((FOLDER / "rows.json").read_text(encoding="utf-8"))
    return found


def samples() -> list[Construct]:
    """Every sample, by file and line. Raises ValueError where a header is misspelt."""
    found = [sample for path in sorted(FOLDER.glob("*.py")) for sample in _of(path)]
    code = {sample.key: sample for sample in found}
    return [_filled(sample, code) for sample in found]


def _of(path: Path) -> Iterator[Construct]:
    section = path.stem
    lines = path.read_text(encoding="utf-8").splitlines()
    starts = [n for n, line in enumerate(lines) if line.startswith("# row: ")]
    head = lines[: starts[0]] if starts else lines
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        where = f"{path.name}:{start + 1}"
        keys: dict[str, str] = {}
        first = start + 1
        while first < end and (match := re.match(r"# ([a-z]+): (.*)$", lines[first])):
            if match[1] not in KEYS:
                raise ValueError(f"{where}: no such key {match[1]!r}")
            keys[match[1]] = match[2].strip()
            first += 1
        padding = [""] * (start - len(head))
        text = "\n".join([*head, *padding, *lines[start:end]]).rstrip() + "\n"
        yield Construct(section, lines[start].removeprefix("# row: ").strip(), where, text, keys)


def _filled(sample: Construct, code: dict[tuple[str, str], Construct]) -> Construct:
    """A sample that is like another one, with that one's text and what it leaves unsaid of its keys."""
    if "like" not in sample.keys:
        return sample
    other = code[sample.section, sample.keys["like"]]
    return Construct(sample.section, sample.row, sample.where, other.text, other.keys | sample.keys)


def untold() -> dict[tuple[str, str], str]:
    """Rows that the static pass does not tell rightly, with the reason. One that starts with `engine:` says what is
    still to be built; the others cannot be told from a source."""
    return _by_row("untold")


def elsewhere() -> dict[tuple[str, str], str]:
    """Rows whose sample needs a compiler: the code of the rule that has it among its own samples."""
    return _by_row("elsewhere")


def _by_row(part: str) -> dict[tuple[str, str], str]:
    listed = json.loads((FOLDER / "untold.json").read_text(encoding="utf-8"))[part]
    return {(section, row): reason for section, rows in listed.items() for row, reason in rows.items()}
