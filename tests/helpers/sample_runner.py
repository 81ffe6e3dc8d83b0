"""Runs one rule sample under the real Dynamo and says what it did, in plain values."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcready.static.diagnostics.rule import PRELUDE
from tcready.static.diagnostics.rule_page import Sample

if TYPE_CHECKING:  # `dynamo_runs` loads torch, and what is read of a sample needs none
    from dynamo_runs import Program, Run


def source_of(sample: Sample) -> str:
    """The file a sample stands in, as lint and Dynamo see it."""
    setup = sample.setup.strip("\n")
    return PRELUDE + (setup + "\n\n\n" if setup else "") + sample.source.strip("\n") + "\n"


def bad_lines(sample: Sample) -> set[int | None]:
    """1-based lines of the file that end in `# BAD`."""
    return _marked(sample, "BAD")


def following_lines(sample: Sample) -> set[int | None]:
    """Lines that end in `# FOLLOWS`: they break only because another line did, so nothing is told of them."""
    return _marked(sample, "FOLLOWS")


def cause_lines(sample: Sample) -> set[int | None]:
    """Lines that end in `# CAUSE`: another rule's, and what the claims of this one follow from."""
    return _marked(sample, "CAUSE")


def _marked(sample: Sample, word: str) -> set[int | None]:
    return {n for n, line in enumerate(source_of(sample).splitlines(), 1) if re.search(rf"# {word}\b", line)}


def program_of(sample: Sample) -> Program:
    """The sample as a program to run."""
    from dynamo_runs import Program

    return Program(source_of(sample), sample.inputs, sample.again)


def run(sample: Sample, path: Path, calls: int | None = None, **settings: Any) -> Run:
    """Three calls of the compiled model with the same arguments, then one with `again` where there is one; or
    the first `calls` of these. Raises what the compiled model raises."""
    import dynamo_runs

    return dynamo_runs.run(program_of(sample), path, calls, **settings)


def eager(sample: Sample, path: Path) -> tuple[Any, ...]:
    """The outputs of the same calls without torch.compile."""
    import dynamo_runs

    return dynamo_runs.eager(program_of(sample), path)
