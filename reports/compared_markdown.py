"""Two reports held against each other, as Markdown for a comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tcready.reports.compared_text import counted, verdict, what, where
from tcready.reports.markdown import code, plain
from tcready.reports.paths import is_absolute
from tcready.schema import Comparison


def render(comparison: Comparison) -> str:
    """The comment: what is new and what is fixed in a table each, and a line for each target."""
    return "\n".join(_lines(comparison)) + "\n"


def _short(path: str) -> str:
    """No folder of the machine leaves it."""
    return re.split(r"[\\/]", path)[-1] if is_absolute(path) else path


def _lines(comparison: Comparison) -> Iterator[str]:
    yield "### tcready: what changed"
    yield ""
    yield f"{code(_short(comparison.before))} → {code(_short(comparison.after))}: {plain(counted(comparison))}."
    for kind, title in (("new", "New"), ("fixed", "Fixed")):
        rows = [change for change in comparison.findings if change.kind == kind]
        if rows:
            yield from ("", f"**{title}**", "", "| where | what | why |", "|---|---|---|")
        for change in rows:
            yield f"| {code(_short(where(change)))} | {plain(what(change))} | {plain('; '.join(change.because))} |"
    yield ""
    for target in comparison.targets:
        yield f"- {code(target.target)}: {plain(verdict(target))}"
        for site in target.sites:
            place = code(f"{_short(site.site.path)}:{site.site.line}")
            yield f"  - {site.kind} break site {place}: {plain(site.site.reason.partition(chr(10))[0])}"
