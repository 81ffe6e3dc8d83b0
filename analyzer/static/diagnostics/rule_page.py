"""Read the Markdown file beside a rule: its page, and its BAD and GOOD samples.

The file begins with the summary. The sections *What it does*, *Why it hurts torch.compile*, *Use instead* and *Limits*
are the page; *Bad* and *Good* hold the samples. A sample is a block of `python`. Above it are its other fields, one a
line (``- inputs: `(torch.randn(2),)` ``), and a block of `python setup` if it needs one.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from tcready.static.library.torch_versions import Version

SECTIONS = ("What it does", "Why it hurts torch.compile", "Use instead", "Limits", "Bad", "Good")
FENCE = "```"
CODE = {f"{FENCE}python": "source", f"{FENCE}python setup": "setup"}
"""The field of a sample that a block holds, by the line that opens the block."""
FIELDS = ("inputs", "again", "torch", "raises")
FIELD = re.compile(r"- (\w+): `([^`]+)`")


@dataclass(frozen=True)
class Sample:
    """A model that shows a hazard (BAD) or its fix (GOOD), run under Dynamo by the tests.

    `source` defines `class Model(nn.Module)` or `def model(...)`; in a BAD sample each claimed line ends in the
    comment `# BAD`, a line that breaks only because another did in `# FOLLOWS`, and the break that a claim follows from
    in `# CAUSE`. `inputs` is the expression of the argument tuple; `again` that of a second call, for a claim that needs
    other values or lengths.
    """

    source: str
    inputs: str = "(torch.randn(4, 8),)"
    again: str | None = None
    setup: str = ""
    """Statements run before the model is built, after the prelude (a file to write, an op to register)."""
    torch: Version | None = None
    """The version that shows what the markers say, if the pinned one does not; `fixtures/constructs/shown.json` has the
    record."""
    raises: str = ""
    """A regular expression for Dynamo's error message, if the compiled model raises one and eager code does not."""


@dataclass(frozen=True)
class RulePage:
    """The contents of the Markdown file."""

    text: str
    """The summary and the sections before the samples."""
    bad: tuple[Sample, ...]
    good: tuple[Sample, ...]


def read_page(module: str) -> RulePage:
    """Read the file beside a module, also in a zip file.

    Raises OSError if there is none, and ValueError, with a line, if it is not written as a rule's page.
    """
    package, _, stem = module.rpartition(".")
    data = pkgutil.get_data(package, f"{stem}.md")
    if data is None:
        raise FileNotFoundError(f"{module}: its package cannot read files")
    return parse_page(data.decode("utf-8").replace("\r\n", "\n"), f"{module.replace('.', '/')}.md")


def parse_page(text: str, name: str) -> RulePage:
    """Parse the text of the file called `name`. Raises ValueError, with the name and a line, if it has another form."""
    lines = text.split("\n")
    starts = _find_sections(lines, name)
    bad, good = starts[-2:]
    return RulePage(
        "\n".join(lines[:bad]),
        tuple(_parse_samples(lines, bad, good, name)),
        tuple(_parse_samples(lines, good, len(lines), name)),
    )


def _find_sections(lines: Sequence[str], name: str) -> list[int]:
    """Indexes of the headings. Raises ValueError unless they are those of SECTIONS."""
    starts = []
    is_code = False
    for index, line in enumerate(lines):
        is_code ^= line.startswith(FENCE)
        if line.startswith("## ") and not is_code:
            starts.append(index)
    for start, title in zip_longest(starts, SECTIONS):
        if start is None:
            raise _error(name, len(lines) - 1, f"the section {title!r} is missing")
        if lines[start] != f"## {title}":
            wanted = f"expected the section {title!r}" if title else "there is no such section"
            raise _error(name, start, f"{wanted}: {lines[start]}")
    return starts


def _parse_samples(lines: Sequence[str], start: int, end: int, name: str) -> Iterator[Sample]:
    """Return the samples of the section with the heading at `start`."""
    fields: dict[str, Any] = {}
    index, begin, count = start + 1, start, 0
    while index < end:
        line = lines[index]
        if line and not fields:
            begin = index
        if line in CODE:
            key, opening = CODE[line], index
            index = next((i for i in range(index, end) if lines[i] == FENCE), end)
            if index == end:
                raise _error(name, opening, "the block is not closed")
            _add(fields, key, "\n".join(("", *lines[opening + 1 : index], "")), name, opening)
        elif field := FIELD.fullmatch(line):
            if field[1] not in FIELDS:
                raise _error(name, index, f"a sample has no field {field[1]!r}, only {', '.join(FIELDS)}")
            value = _version(field[2], name, index) if field[1] == "torch" else field[2]
            _add(fields, field[1], value, name, index)
        elif line:
            raise _error(name, index, f"neither a field (- inputs: `(x,)`) nor a block of code: {line}")
        if "source" in fields:
            yield Sample(**fields)
            fields, count = {}, count + 1
        index += 1
    if fields:
        raise _error(name, begin, "the sample has no block of python")
    if not count:
        raise _error(name, start, "the section has no sample")


def _add(fields: dict[str, Any], key: str, value: Any, name: str, index: int) -> None:
    if key in fields:
        raise _error(name, index, f"the sample has two fields {key!r}")
    fields[key] = value


def _version(text: str, name: str, index: int) -> Version:
    if not re.fullmatch(r"\d+\.\d+", text):
        raise _error(name, index, f"not a version such as 2.15: {text}")
    major, minor = text.split(".")
    return int(major), int(minor)


def _error(name: str, index: int, message: str) -> ValueError:
    return ValueError(f"{name}:{index + 1}: {message}")
