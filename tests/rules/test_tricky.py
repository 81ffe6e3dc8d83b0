"""Files that a careless linter would call breaking: the static pass is never sure where Dynamo does not break.

`fixtures/tricky/` holds small models. `clean_*` have no break, `mixed_*` one or two among look-alikes, `hidden_*` one
that is easily missed. The marks are Dynamo's, not ours, and the predictions for a version are compared with its own.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from reading import PINNED, read
from tcready.portable.options import ReadOptions
from tcready.schema.enums import Confidence
from tcready.schema.static import Finding
from tricky_files import FOLDER, Tricky, Version, tricky_files

BREAKING = ("graph_break", "frame_skip")
MEDIUM_RIGHT = 0.8
"""At least this share of what is said with medium confidence stands on lines that break; 0.75 is the aim."""
DEVIATIONS: dict[str, Any] = json.loads((FOLDER / "deviations.json").read_text("utf-8"))
"""For each version, lines that are said with high confidence to break and do not, and why."""
RECALL = 0.9
"""At least this share of the lines that break is told with high or medium confidence."""

FILES = tricky_files()
VERSIONS = tuple(FILES[0].marks)
each_file = pytest.mark.parametrize("tricky", FILES, ids=lambda tricky: tricky.path.stem)
each_version = pytest.mark.parametrize("version", VERSIONS, ids="{0[0]}.{0[1]}".format)


# the files


def test_files_are_named_for_what_they_hold() -> None:
    counts = {"clean": 0, "mixed": 0, "hidden": 0}
    for tricky in FILES:
        kind = tricky.path.stem.partition("_")[0]
        counts[kind] += 1
        assert bool(tricky.marks[PINNED]) == (kind != "clean"), tricky.name
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

    major, minor = torch.__version__.split(".")[:2]
    version = (int(major), int(minor))
    if version not in tricky.marks:
        pytest.skip(f"torch {major}.{minor} was not recorded")
    marks = tricky.marks[version]
    program = dynamo_runs.Program(tricky.text, "tuple(get_inputs())", train=tricky.train)
    raises = pytest.raises(torch._dynamo.exc.TorchDynamoException) if marks is None else contextlib.nullcontext()
    with torch.set_grad_enabled(tricky.train), raises:
        seen = dynamo_runs.run(program, tmp_path / tricky.name, calls=1)
        assert seen.ids_by_line == marks, [(b.line, b.text[:300]) for b in seen.breaks]


# the static pass


@functools.cache
def _predicted(tricky: Tricky, version: Version) -> tuple[Finding, ...]:
    """What breaks in what the file's entry compiles, as the static pass has it."""
    options = ReadOptions(root=FOLDER, mode="train" if tricky.train else "infer", third_party=False, torch=version)
    result = read([f"{tricky.path}::{tricky.entry}"], options)
    assert not result.skipped
    return tuple(found for found in result.findings if found.effect in BREAKING)


def _right(confidence: Confidence, version: Version) -> list[bool]:
    """For all that is said with that confidence, whether its line breaks."""
    return [
        found.line in marks
        for tricky in FILES
        if (marks := tricky.marks[version]) is not None
        for found in _predicted(tricky, version)
        if found.confidence == confidence
    ]


@each_version
@each_file
def test_what_is_said_with_high_confidence_is_true(tricky: Tricky, version: Version) -> None:
    marks = tricky.marks[version]
    if marks is None:
        pytest.skip("compiling raises there")
    said = {found.line for found in _predicted(tricky, version) if found.confidence == "high"}
    known = DEVIATIONS.get("{}.{}".format(*version), {}).get(tricky.name, {"lines": []})["lines"]
    assert said - marks.keys() == set(known)


@each_version
def test_what_is_said_with_medium_confidence_is_often_true(version: Version) -> None:
    right = _right("medium", version)
    assert sum(right) / len(right) >= MEDIUM_RIGHT, f"{sum(right)} of {len(right)}"


@each_version
def test_what_breaks_is_predicted(version: Version) -> None:
    predicted = {
        (tricky.name, found.line)
        for tricky in FILES
        for found in _predicted(tricky, version)
        if found.confidence in ("high", "medium")
    }
    marked = {(tricky.name, line) for tricky in FILES for line in tricky.marks[version] or ()}
    missed = sorted(marked - predicted)
    assert 1 - len(missed) / len(marked) >= RECALL, missed
