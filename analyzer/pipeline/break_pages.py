"""Pages on types of graph breaks: why each happens, what to write instead, and an example that is run.

Every type of PyTorch's registry is on one page, or is claimed by exactly one rule. A type that several rules claim is on
a page too, because a run does not show which of them fits. Each Markdown file in `rules/break_pages/` is the page of its
name; `read_page` defines what it may contain.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from textwrap import indent
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, cast

from tcready.schema.static import RuleText

if TYPE_CHECKING:
    from importlib.abc import Traversable

WHY = "Why it hurts torch.compile"
INSTEAD = "Use instead"
WITHOUT_EXAMPLE = "Without an example"


@dataclass(frozen=True)
class BreakType:
    """A type of break that a program leads to.

    `bad` and `good` follow `import torch`, `from torch import nn` and `import torch.nn.functional as F`, and define
    `class Model(nn.Module)` or `def model(...)`. In `bad` the line that breaks ends in `# BAD`; without such a line
    Dynamo raises an error that names the type. Both are None for a type that a rule's own samples show.
    """

    gb_id: str
    what: str
    """What leads to it: a sentence."""
    remedy: str = ""
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
class BreakPage:
    """Types of breaks of one kind."""

    name: str
    page: str
    breaks: tuple[BreakType, ...] = ()
    unshown: tuple[Unshown, ...] = ()
    findings: tuple[str, ...] = ()
    """Names of findings of a run that are of no type in the registry, and that it speaks of."""

    @property
    def summary(self) -> str:
        return self.page.strip().splitlines()[0]

    @property
    def why(self) -> str:
        return self._section(WHY)

    @property
    def instead(self) -> str:
        return self._section(INSTEAD)

    @property
    def gb_ids(self) -> tuple[str, ...]:
        """The types it speaks of, in order; none if it speaks of what has no type."""
        unshown = (gb_id for each in self.unshown for gb_id in each.gb_ids)
        return tuple(sorted((*(each.gb_id for each in self.breaks), *unshown)))

    def find(self, gb_id: str) -> BreakType | None:
        """What it says of one type, None if that is no more than why there is no example."""
        return next((each for each in self.breaks if each.gb_id == gb_id), None)

    def text(self, gb_id: str) -> RuleText:
        """The text on one type, or on a finding that has no type."""
        found = self.find(gb_id)
        return RuleText(
            code=gb_id,
            name=self.name,
            summary=found.what if found else self.summary,
            why=f"{found.what} {self.why}" if found else self.why,
            instead=f"{found.remedy} {self.instead}" if found and found.remedy else self.instead,
            before=re.sub(r"[ ]*# BAD\b", "", found.bad).strip("\n") if found and found.bad else None,
            after=found.good.strip("\n") if found and found.good else None,
        )

    def document(self, gb_id: str) -> str:
        """What it says of one type as text: the prose, and the example, or why there is none."""
        found = self.find(gb_id)
        what = f"{found.what} {found.remedy}".strip() + "\n\n" if found else ""
        example = self.example(gb_id, lambda code: indent(code, "    "))
        return f"{self.name}: {self.page.strip()}\n\n## This type\n\n{what}{example}\n"

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


# reading the pages


@functools.cache
def load() -> tuple[BreakPage, ...]:
    """Every page, by name. Raises ValueError for a mistake in a file, or if two pages speak of one type."""
    from importlib.resources import files

    from tcready import rules

    return read_pages(files(rules) / "break_pages")


def texts() -> tuple[RuleText, ...]:
    """Return the text on each type, with its ID as the code, and on each finding of a run that has no type, with its name
    as the code."""
    return tuple(page.text(code) for page in load() for code in (*page.gb_ids, *page.findings))


def read_pages(folder: Traversable) -> tuple[BreakPage, ...]:
    """The page of every Markdown file in `folder`, by name."""
    files = {each.name.removesuffix(".md"): each for each in folder.iterdir() if each.name.endswith(".md")}
    pages = tuple(read_page(name, files[name].read_text(encoding="utf-8")) for name in sorted(files))
    seen: dict[str, str] = {}
    for page in pages:
        for gb_id in page.gb_ids:
            if gb_id in seen:
                raise ValueError(f"{gb_id} is on two pages: {seen[gb_id]} and {page.name}")
            seen[gb_id] = page.name
    return pages


def read_page(name: str, text: str) -> BreakPage:
    """The page that a Markdown file contains. Raises ValueError, with the file and the line, for anything else than:

    - the summary as the title; then `**Findings:**`, if the page speaks of findings that are of no type;
    - the sections `## Why it hurts torch.compile` and `## Use instead`, with paragraphs;
    - a section `## GB0123` for each type: a sentence on what leads to it, then fields that `_FIELDS` lists;
    - `## Without an example`, if there are such types: for each reason, a sentence and `**Types:**`.

    Blank lines separate blocks. A field is a paragraph that starts with its name: `**Remedy:** Pass a tensor.` A program
    is a block of code below its field.
    """
    return _Reader(name, text).page()


_Kind: TypeAlias = Literal["title", "heading", "paragraph", "program", "end"]
_BLOCK = re.compile(
    r"""(?: \#[ ](?P<title>.+)\n
          | \#\#[ ](?P<heading>.+)\n
          | ```python\n(?P<program>(?:.*\n)*?)```\n
          | (?P<paragraph>(?:(?!\#|```).+\n)+)
        )(?:\n+|\Z)""",
    re.X,
)
_FIELDS = MappingProxyType(
    {
        "Remedy": "remedy",
        "Inputs": "inputs",
        "Inputs of the good program": "good_inputs",
        "Settings": "config",
        "Compiled with": "fullgraph",
        "Bad": "bad",
        "Good": "good",
    }
)
"""The attribute of `BreakType` that each field of a section on a type sets."""
_FIELD = re.compile(r"\*\*(.+?):\*\*\s*")
_GB_ID = r"GB\d{4}"


@dataclass(frozen=True)
class _Block:
    kind: _Kind
    line: int
    text: str


class _Reader:
    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._blocks = self._split(text)
        self._next = next(self._blocks)

    def page(self) -> BreakPage:
        text = f"{self._take('title').text}\n"
        findings = self._listed("Findings", "`[a-z-]+`") if self._next.kind == "paragraph" else ()
        for title in (WHY, INSTEAD):
            heading = self._take("heading")
            if heading.text != title:
                self._fail(heading, f"expected the section {title!r}")
            text += f"\n## {title}\n{self._prose()}"
        breaks: list[BreakType] = []
        unshown: list[Unshown] = []
        while self._next.kind != "end":
            heading = self._take("heading")
            if re.fullmatch(_GB_ID, heading.text) and not unshown:
                breaks.append(self._break(heading.text))
            elif heading.text == WITHOUT_EXAMPLE and not unshown:
                while not unshown or self._next.kind == "paragraph":
                    unshown.append(Unshown(self._sentence(), self._listed("Types", _GB_ID)))
            else:
                self._fail(heading, "unknown or misplaced heading")
        return BreakPage(self._name, text, tuple(breaks), tuple(unshown), tuple(each.strip("`") for each in findings))

    def _prose(self) -> str:
        paragraphs = [self._take("paragraph").text]
        while self._next.kind == "paragraph":
            paragraphs.append(self._take("paragraph").text)
        return "\n".join(paragraphs)

    def _sentence(self) -> str:
        block = self._take("paragraph")
        if _FIELD.match(block.text):
            self._fail(block, "expected a sentence before the fields")
        return _unwrapped(block.text)

    def _field(self) -> tuple[_Block, str, str]:
        """A field: its block, name and text."""
        block = self._take("paragraph")
        match = _FIELD.match(block.text)
        if match is None:
            self._fail(block, "expected a field, as `**Remedy:** ...`")
        return block, match[1], _unwrapped(block.text[match.end() :])

    def _listed(self, wanted: str, item: str) -> tuple[str, ...]:
        """The items of a field that is a list."""
        block, name, text = self._field()
        items = tuple(text.split(", "))
        if name != wanted or not all(re.fullmatch(item, each) for each in items):
            self._fail(block, f"expected the field {wanted!r}, a list with commas")
        return items

    def _break(self, gb_id: str) -> BreakType:
        what = self._sentence()
        found: dict[str, Any] = {}
        while self._next.kind == "paragraph":
            block, name, text = self._field()
            attribute = _FIELDS.get(name)
            if attribute is None or attribute in found:
                self._fail(block, f"unknown or repeated field {name!r}")
            if attribute in ("bad", "good") and not text:
                found[attribute] = f"\n{self._take('program').text}"
            elif attribute == "remedy" and text:
                found[attribute] = text
            elif attribute == "fullgraph" and text == "`fullgraph=True`":
                found[attribute] = True
            elif attribute in ("inputs", "good_inputs", "config") and re.fullmatch("`[^`]+`", text):
                found[attribute] = text.strip("`")
            else:
                self._fail(block, f"the field {name!r} cannot have this value")
        return BreakType(gb_id, what, **found)

    def _take(self, kind: _Kind) -> _Block:
        block = self._next
        if block.kind != kind:
            self._fail(block, f"expected a {kind}, found the {block.kind}")
        self._next = next(self._blocks)
        return block

    def _fail(self, block: _Block, problem: str) -> NoReturn:
        shown = f": {block.text.splitlines()[0]}" if block.text else ""
        raise ValueError(f"{self._name}.md, line {block.line}: {problem}{shown}")

    def _split(self, text: str) -> Iterator[_Block]:
        """The blocks in order; the last one is the end of the file."""
        place, line = 0, 1
        while place < len(text):
            match = _BLOCK.match(text, place)
            if match is None:
                self._fail(_Block("end", line, text[place:].strip()), "unknown block")
            kind = cast(_Kind, match.lastgroup)
            yield _Block(kind, line, match[kind])
            place, line = match.end(), line + match[0].count("\n")
        yield _Block("end", line, "")


def _unwrapped(text: str) -> str:
    return " ".join(text.split())
