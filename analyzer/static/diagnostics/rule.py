"""The Rule type: one hazard, its claim, its page and its samples.

A rule is two files in a folder of `rules/`: a module with `RULE = Rule(...)`, and beside it the Markdown file with the
page and the samples (`rule_page.py` describes it).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from textwrap import indent
from typing import Any, TypeAlias

from tcready.schema.enums import Confidence, Effect, Level
from tcready.schema.static import RuleText
from tcready.static.diagnostics.rule_page import RulePage, Sample, read_page
from tcready.static.domain.facts import Fact
from tcready.static.frontend.source import Source

PRELUDE = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n\n\n"
"""Prepended to every sample's source for linting and running."""


@dataclass(frozen=True)
class Claim:
    """The claim of a rule on one fact. `confidence` None: as certain as the values are."""

    message: str
    confidence: Confidence | None = None
    effect: Effect | None = None
    level: Level | None = None
    suppressed_by_config: str | None = None
    """A name of `torch._dynamo.config`: if that is set, Dynamo takes this into the graph (measured)."""
    computes: bool = False
    """Code that a rule for side output claims computes something all the same, so that it is no likelier to be left out
    than other code below a branch."""
    form: str = ""
    """The kind of code, if claims of the rule hold under different versions of torch: `tables/claims.json` lists the
    versions by rule and form."""
    of_size: bool = False
    """A tensor has another size in each call: under `dynamic=True` nothing recompiles, under `dynamic=False` each call
    does (torch 2.13)."""
    regardless: bool = False
    """A call breaks whatever it is given, so that it is as sure as that it is made."""


@dataclass(frozen=True)
class Change:
    """Nodes of libcst's tree and what takes their place: one expression for one, or statements that follow each other in
    one block for statements, none of which takes them away."""

    old: tuple[Any, ...]
    new: tuple[Any, ...]
    piece: Any = None
    """The `cst_view.CstRegion` with `old`, if it is not the one of the place."""


@dataclass(frozen=True)
class Rewrite:
    """One way to write code anew so that Dynamo takes it."""

    how: str
    """One sentence: what is done."""
    changes: tuple[Change, ...]
    """No change is inside another."""
    unsafe: str | None
    """Why it might not do what the code did, as the end of "not safe: ..."; None if it does so by construction."""
    imports: tuple[str, ...] = ()
    """Statements that the file needs at its top."""
    settings: tuple[str, ...] = ()
    """Names of `torch._dynamo.config` without which Dynamo breaks in what is written; alone, where nothing is."""
    silences: bool = False
    """Whether prints, logs and warnings are left out of compiled code."""
    asserts: bool = False
    """Whether a check of the user's becomes an assertion in compiled code: it raises RuntimeError there."""


@dataclass(frozen=True)
class Declined:
    """Why the code stays as it is."""

    reason: str
    """Whole sentences: what is in the way, and what a user can do."""
    rewrite: str = ""
    """The function of torch that the code would be rewritten with, if the reason is about that alone."""


@dataclass(frozen=True)
class Rule:
    """The facts that a rule checks, and its claims."""

    code: str
    facts: tuple[type[Fact], ...]
    check: Callable[[Any], Claim | Iterable[Claim] | None] = field(compare=False)
    """Called with every fact of a type in `facts`."""
    module: str
    """The rule's module, as its `__name__` has it. The Markdown file beside it is read when it is first needed."""
    effect: Effect = "graph_break"
    level: Level = "error"
    gb_ids: tuple[str, ...] = ()
    side_output_only: bool = False
    """Says something rather than computes something (printing, logging, warnings): if configuration decides
    whether it runs at all, confidence falls: to medium in the user's files, to low in an installed package."""
    fallback: bool = False
    """Speaks of what no other rule speaks of: where another claims a break, it claims nothing."""
    follows: bool = False
    """Speaks of what breaks only where Python runs it itself, a constructor as an example: claimed where another break
    makes it do so."""
    rewriters: tuple[str, ...] = ()
    """Functions of `tcready.fixes.rewriters`, as `module.function`. Each yields ways to rewrite what is found, the one
    to be preferred first, and why others are left out."""
    no_rewrite: str | None = None
    """Why there is no way to write it anew, as a sentence; nothing is said if None."""
    may_autofix: bool = False
    """Whether its rewrite is often safe by construction: required by `check`, which shows no other."""
    settings: tuple[str, ...] = ()
    """Names of `torch._dynamo.config` that its claims name as what takes this into the graph."""
    unproved: str | None = None
    """Why no CPU run can show the effect; such a rule stays a note."""

    @cached_property
    def _file(self) -> RulePage:
        return read_page(self.module)

    @property
    def name(self) -> str:
        """The last part of the module's name, with dashes."""
        return self.module.rpartition(".")[2].replace("_", "-")

    @property
    def page(self) -> str:
        """The summary and the sections on the hazard."""
        return self._file.text

    @property
    def bad(self) -> tuple[Sample, ...]:
        return self._file.bad

    @property
    def good(self) -> tuple[Sample, ...]:
        return self._file.good

    @property
    def summary(self) -> str:
        return self.page.strip().splitlines()[0].strip()

    @property
    def why(self) -> str:
        return self.section("Why it hurts torch.compile")

    @property
    def instead(self) -> str:
        return self.section("Use instead")

    @property
    def before(self) -> str:
        return re.sub(r"[ ]*# (BAD|FOLLOWS|CAUSE)\b.*", "", self.bad[0].source).strip("\n")

    @property
    def after(self) -> str:
        return self.good[0].source.strip("\n")

    @property
    def document(self) -> str:
        """The whole page as text: what the rule claims, its prose, and the example before and after."""
        ids = ", ".join(self.gb_ids)
        claim = f"{self.code} {self.name} ({self.level}, {self.effect.replace('_', ' ')}{f'; {ids}' if ids else ''})"
        before, after = (indent(self.shown(samples[0]), "    ") for samples in (self.bad, self.good))
        example = f"## Example\n\nBefore:\n\n{before}\n\nAfter:\n\n{after}\n"
        return f"{claim}\n\n{self.page.strip()}\n\n{example}"

    def shown(self, sample: Sample) -> str:
        """Return a sample as shown on a page: with the imports it needs, and the rule's code at each claimed line."""
        source = re.sub(r"# BAD\b.*", f"# {self.code}", re.sub(r"[ ]*# (FOLLOWS|CAUSE)\b.*", "", sample.source))
        return "\n\n\n".join(part.strip("\n") for part in (sample.setup, source) if part.strip())

    def section(self, title: str) -> str:
        """Return the text below a heading of the page. Raises KeyError if the page has no such heading."""
        match = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", self.page, re.M | re.S)
        if match is None:
            raise KeyError(f"{self.code}: the page has no section {title!r}")
        return match[1].strip()

    def text(self) -> RuleText:
        return RuleText(self.code, self.name, self.summary, self.why, self.instead, self.before, self.after)


Span: TypeAlias = "tuple[int, int, int, int]"
"""First line and column, last line and the column one past the end, 1-based, in characters."""


@dataclass(frozen=True)
class FixCandidate:
    """An expression that a rule would write anew."""

    path: str
    """As the file is named in every output."""
    rule: Rule
    source: Source
    span: Span
