"""Files that a careless linter would call breaking: the static pass is never sure where Dynamo does not break.

`fixtures/tricky/` holds small models. `clean_*` have no break, `mixed_*` one or two among look-alikes, `hidden_*` one
that is easily missed. A line that breaks in a cold call has `# breaks: GB0170` beside it, with every id that Dynamo
gives there: the marks are Dynamo's, not ours. Ahead of the docstring may stand `# mode: train`, or `# python: <3.12`
where a newer Python breaks elsewhere.

`known_false.json` lists what is still said with high confidence of lines that do not break; what is no longer said
must leave it.
"""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from fixture_markers import ROOT
from reading import PINNED, read
from tcready.portable.options import ReadOptions
from tcready.schema.enums import Confidence
from tcready.schema.static import Finding

FOLDER = ROOT / "fixtures" / "tricky"
KNOWN_FALSE: dict[str, list[dict[str, str | int]]] = json.loads(
    (FOLDER / "known_false.json").read_text(encoding="utf-8")
)
BREAKING = ("graph_break", "frame_skip")
MEDIUM_RIGHT = 0.8
"""At least this share of what is said with medium confidence stands on lines that break; 0.75 is the aim."""
RECALL = 0.9
"""At least this share of the lines that break is told with high or medium confidence."""


@dataclass(frozen=True, eq=False)
class Tricky:
    path: Path
    text: str
    marks: dict[int, frozenset[str]]
    """The ids Dynamo gives at each line that breaks."""

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


def _tricky(path: Path) -> Tricky:
    """Raises ValueError where a mark is misspelt."""
    text = path.read_text(encoding="utf-8")
    marks = {}
    for number, line in enumerate(text.splitlines(), 1):
        if "# break" in line:
            match = re.search(r"  # breaks: ((?:GB\d{4}|-)(?:; (?:GB\d{4}|-))*)$", line)
            if match is None:
                raise ValueError(f"{path.name}:{number}: misspelt mark")
            marks[number] = frozenset(match[1].split("; "))
    return Tricky(path, text, marks)


FILES = tuple(_tricky(path) for path in sorted(FOLDER.glob("*.py")))
each_file = pytest.mark.parametrize("tricky", FILES, ids=lambda tricky: tricky.path.stem)


# the files


def test_files_are_named_for_what_they_hold() -> None:
    counts = {"clean": 0, "mixed": 0, "hidden": 0}
    for tricky in FILES:
        kind = tricky.path.stem.partition("_")[0]
        counts[kind] += 1
        assert bool(tricky.marks) == (kind != "clean"), tricky.name
        assert "def get_inputs()" in tricky.text, tricky.name
    assert counts["clean"] >= 100
    assert counts["mixed"] >= 50
    assert counts["hidden"] >= 40


# Dynamo


@pytest.mark.torch
@pytest.mark.slow
@each_file
@pytest.mark.sampled(5)
def test_dynamo_breaks_where_it_is_marked_and_nowhere_else(tricky: Tricky, tmp_path: Path) -> None:
    if tricky.below is not None and sys.version_info >= tricky.below:
        pytest.skip("another Python breaks elsewhere")
    import dynamo_runs
    import torch

    program = dynamo_runs.Program(tricky.text, "tuple(get_inputs())", train=tricky.train)
    with _own_settings(), torch.set_grad_enabled(tricky.train):
        seen = dynamo_runs.run(program, tmp_path / tricky.name, calls=1)
    shown: dict[int | None, frozenset[str]] = {}
    for broken in seen.breaks:
        shown[broken.line] = shown.get(broken.line, frozenset()) | set(broken.gb_ids or ("-",))
    assert shown == tricky.marks, [(b.line, b.text[:300]) for b in seen.breaks]


@contextmanager
def _own_settings() -> Iterator[None]:
    """What a file sets in Dynamo's configuration ends with it."""
    import torch

    config = torch._dynamo.config
    names = ("capture_scalar_outputs", "capture_dynamic_output_shape_ops", "allow_rnn")
    with config.patch({name: getattr(config, name) for name in names}):
        ignored = set(config.ignore_logging_functions)
        try:
            yield
        finally:
            config.ignore_logging_functions.clear()
            config.ignore_logging_functions.update(ignored)


# the static pass


@functools.cache
def _told(tricky: Tricky) -> tuple[Finding, ...]:
    """What breaks, as the static pass has it, in what the file's entry compiles."""
    options = ReadOptions(root=FOLDER, mode="train" if tricky.train else "infer", third_party=False, torch=PINNED)
    result = read([f"{tricky.path}::{tricky.entry}"], options)
    assert not result.skipped
    return tuple(found for found in result.findings if found.effect in BREAKING)


def _right(confidence: Confidence) -> list[bool]:
    """For all that is said with that confidence, whether its line breaks."""
    return [found.line in tricky.marks for tricky in FILES for found in _told(tricky) if found.confidence == confidence]


@each_file
def test_what_is_said_with_high_confidence_is_true(tricky: Tricky) -> None:
    """Except for what is listed, all of which is still said: the list shrinks with what is mended."""
    false = {
        (found.line, found.rule)
        for found in _told(tricky)
        if found.confidence == "high" and found.line not in tricky.marks
    }
    known = {(each["line"], each["rule"]) for each in KNOWN_FALSE.get(tricky.name, ())}
    assert false == known


def test_what_is_listed_is_there() -> None:
    assert KNOWN_FALSE.keys() <= {tricky.name for tricky in FILES}
    assert all(KNOWN_FALSE.values())


def test_what_is_said_with_medium_confidence_is_often_true() -> None:
    right = _right("medium")
    assert sum(right) / len(right) >= MEDIUM_RIGHT, f"{sum(right)} of {len(right)}"


def test_what_breaks_is_told() -> None:
    told = {
        (tricky.name, found.line)
        for tricky in FILES
        for found in _told(tricky)
        if found.confidence in ("high", "medium")
    }
    marked = {(tricky.name, line) for tricky in FILES for line in tricky.marks}
    missed = sorted(marked - told)
    assert 1 - len(missed) / len(marked) >= RECALL, missed
