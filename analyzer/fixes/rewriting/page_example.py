"""The rewrites of a rule for its own BAD samples, for its page."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tcready.fixes.rewriting.suggestions import Proposal, proposals
from tcready.source.edits import apply_edits
from tcready.static.diagnostics.cst_view import Concrete
from tcready.static.diagnostics.rule import PRELUDE, Rule
from tcready.static.diagnostics.rule_page import Sample
from tcready.static.frontend.source import Source

NAME = "sample.py"


@dataclass(frozen=True)
class Example:
    """A sample and its rewrite, for each line that the rule finds."""

    before: str
    after: str
    how: tuple[str, ...]
    """One sentence for each kind of rewrite, in the order of the lines."""


def example(rule: Rule) -> Example | None:
    """Return the first BAD sample that the rule rewrites; None if there is none."""
    return next((made for sample in rule.bad if (made := rewritten(rule, sample)) is not None), None)


def rewritten(rule: Rule, sample: Sample) -> Example | None:
    """Return a sample with the first rewrite of the rule for each of its BAD lines; None if there is none for any."""
    setup = sample.setup.strip("\n")
    before = PRELUDE + (setup + "\n\n\n" if setup else "") + sample.source.strip("\n") + "\n"
    lines = [n for n, line in enumerate(before.splitlines(), 1) if re.search(r"# BAD\b", line)]
    text = before = re.sub(r"[ ]*# (BAD|FOLLOWS)\b.*", "", before)
    how: list[str] = []
    while lines:
        line = lines.pop()  # the last: lines above stay where they are, except for an import at the top
        found = next(_of_line(rule, text, line), None)
        if found is not None:
            text = apply_edits(text, found.edits)
            how = [found.how, *how]
            above = [edit for edit in found.edits if lines and edit.start_line < lines[0]]
            lines = [each + sum(edit.new_text.count("\n") for edit in above) for each in lines]
    if not how:
        return None
    return Example(_shown(before), _shown(text), tuple(dict.fromkeys(how)))


def _of_line(rule: Rule, text: str, line: int) -> Iterator[Proposal]:
    """Return the proposals of the rule, without settings, for the expressions that begin on a line, outermost first."""
    for place in Concrete(Source(Path(NAME), text, ast.parse(text), "")).expressions_at(line):
        for each in proposals(NAME, rule, place):
            if isinstance(each, Proposal) and not each.settings:
                yield each


def _shown(text: str) -> str:
    """Remove the imports that every sample has."""
    return text.removeprefix(PRELUDE).strip("\n")
