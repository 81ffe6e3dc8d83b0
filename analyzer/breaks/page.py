"""A page on types of graph breaks: why each happens, what to write instead, and an example that is run.

A file of this folder holds a docstring (its page) and `PAGE = Page(...)`. The page's first line is the summary; then the
sections `## Why it hurts torch.compile` and `## Use instead`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tcready.schema.static import RuleText

NEWER = "Newer than torch 2.13, which runs the examples."
UNRAISED = "Listed in the registry of torch 2.13, but not raised by any code there."


@dataclass(frozen=True)
class Break:
    """A type of break that a program leads to.

    `bad` and `good` stand below `import torch`, `from torch import nn` and `import torch.nn.functional as F`, and define
    `class Model(nn.Module)` or `def model(...)`. In `bad` the line that breaks ends in `# BAD`; without such a line
    Dynamo raises an error that names the type. Both are None for a type that a rule's own samples show.
    """

    gb_id: str
    what: str
    """What leads to it: a sentence."""
    cure: str = ""
    """What to do about this very type; empty where its page says it."""
    bad: str | None = None
    good: str | None = None
    inputs: str = "(torch.randn(4, 8),)"
    """The expression of the argument tuple."""
    good_inputs: str | None = None
    """That of `good`, if it is called with others."""
    config: str = ""
    """Keyword arguments of `torch._dynamo.config.patch`: the settings it breaks under."""
    fullgraph: bool = False
    """Whether only `fullgraph=True` names it; without, Dynamo leaves the code to Python and reports nothing."""


@dataclass(frozen=True)
class Unshown:
    """Types without an example."""

    reason: str
    gb_ids: tuple[str, ...]


@dataclass(frozen=True)
class Page:
    """Types of breaks of one kind."""

    name: str
    page: str
    breaks: tuple[Break, ...] = ()
    unshown: tuple[Unshown, ...] = ()
    findings: tuple[str, ...] = ()
    """Names of findings of a run that are of no type in the registry, and that it speaks of."""

    @property
    def summary(self) -> str:
        return self.page.strip().splitlines()[0]

    @property
    def why(self) -> str:
        return self._section("Why it hurts torch.compile")

    @property
    def instead(self) -> str:
        return self._section("Use instead")

    @property
    def gb_ids(self) -> tuple[str, ...]:
        """The types it speaks of, in order; none if it speaks of what has no type."""
        unshown = (gb_id for each in self.unshown for gb_id in each.gb_ids)
        return tuple(sorted((*(each.gb_id for each in self.breaks), *unshown)))

    def find(self, gb_id: str) -> Break | None:
        """What it says of one type, None if that is no more than why there is no example."""
        return next((each for each in self.breaks if each.gb_id == gb_id), None)

    def text(self, gb_id: str) -> RuleText:
        """What people are told of one type, or of a finding that is of none."""
        found = self.find(gb_id)
        return RuleText(
            code=gb_id,
            name=self.name,
            summary=found.what if found else self.summary,
            why=f"{found.what} {self.why}" if found else self.why,
            instead=f"{found.cure} {self.instead}" if found and found.cure else self.instead,
            before=without_mark(found.bad) if found and found.bad else None,
            after=found.good.strip("\n") if found and found.good else None,
        )

    def document(self, gb_id: str) -> str:
        """What it says of one type as text: the prose, and the example, or why there is none."""
        found = self.find(gb_id)
        what = f"{found.what} {found.cure}".strip() + "\n\n" if found else ""
        return f"{self.name}: {self.page.strip()}\n\n## This type\n\n{what}{self.example(gb_id, _indented)}\n"

    def example(self, gb_id: str, code: Callable[[str], str]) -> str:
        """The example of one type, or why there is none; `code` lays out code."""
        found = self.find(gb_id)
        if found is None:
            reason = next(each.reason for each in self.unshown if gb_id in each.gb_ids)
            return f"There is no example. {reason}"
        if found.bad is None or found.good is None:
            return "See the samples of the rules that predict it."
        where = "Before (the marked line breaks)" if "# BAD" in found.bad else "Before (raises an error)"
        settings = ", ".join(filter(None, (found.config, "fullgraph=True" if found.fullgraph else "")))
        under = f", under `{settings}`" if settings else ""
        marked = re.sub(r"# BAD\b", f"# {gb_id}", found.bad).strip("\n")
        after = found.good.strip("\n")
        return f"{where}{under}:\n\n{code(marked)}\n\nAfter:\n\n{code(after)}"

    def _section(self, title: str) -> str:
        match = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", self.page, re.M | re.S)
        if match is None:
            raise KeyError(f"{self.name}: the page has no section {title!r}")
        return match[1].strip()


def _indented(code: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in code.splitlines())


def without_mark(code: str) -> str:
    """An example as people see it."""
    return re.sub(r"[ ]*# BAD\b", "", code).strip("\n")
