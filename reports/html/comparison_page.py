"""A comparison of two reports as one self-contained page, in the style of a report's page."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tcready.reports.bench.bench_view import BENCH_WORD, time_interval
from tcready.reports.html.document import laid_out
from tcready.reports.html.editor_links import Editor, WithoutSource, editor_of
from tcready.reports.shared import comparison_text, wording
from tcready.reports.shared.anonymous_paths import file_name, paths_in, without_absolute_paths
from tcready.schema.comparison import Comparison, Difference, FindingChange, SiteChange, TargetChange
from tcready.schema.enums import FindingKind


@dataclass(frozen=True)
class ChangeGroup:
    """Findings with the same change."""

    anchor: str
    title: str
    about: str
    changes: tuple[FindingChange, ...]
    sites: tuple[tuple[str, SiteChange], ...]
    """Break sites of the same kind, each with its target."""
    folded: bool


@dataclass(frozen=True)
class ComparedPage(WithoutSource):
    """The content of the page."""

    comparison: Comparison
    counts: tuple[tuple[FindingKind, int], ...]
    groups: tuple[ChangeGroup, ...]
    editor: Editor | None
    many: bool = False

    @property
    def benched(self) -> tuple[TargetChange, ...]:
        return tuple(target for target in self.comparison.targets if target.bench is not None)

    def uncompared(self, target: TargetChange) -> bool:
        """Return True if a target is in both reports, and was not run in both."""
        judged = {target.before, target.after} - {"unknown"}
        return bool(target.before and target.after and judged and not target.ran)


KINDS: tuple[FindingKind, ...] = ("new", "fixed", "moved", "unchanged", "not_compared")


def render(comparison: Comparison, editor: str = "none", root: Path | None = None) -> str:
    """Return the page, with a trailing newline. `editor` and `root` are those of a report's page."""
    opens = editor_of(editor, root, paths_in(comparison))
    shown = without_absolute_paths(
        dataclasses.replace(comparison, before=file_name(comparison.before), after=file_name(comparison.after))
    )
    return laid_out(
        "compared.html.jinja",
        page=_page(shown, opens),
        wording=comparison_text,
        BENCH_WORD=BENCH_WORD,
        time_interval=time_interval,
        status=_status,
        difference=_difference,
    )


def _page(comparison: Comparison, editor: Editor | None) -> ComparedPage:
    counts = Counter(change.kind for change in comparison.findings)
    sites = [(target.target, site) for target in comparison.targets for site in target.sites]

    def group(anchor: str, title: str, about: str, kinds: Sequence[FindingKind], folded: bool = False) -> ChangeGroup:
        return ChangeGroup(
            anchor,
            title,
            about,
            tuple(change for change in comparison.findings if change.kind in kinds),
            tuple((target, site) for target, site in sites if site.kind in kinds),
            folded,
        )

    return ComparedPage(
        comparison,
        tuple((kind, counts[kind]) for kind in KINDS),
        (
            group(
                "new",
                "What appeared",
                "Findings that the earlier report does not show, and other differences.",
                ["new"],
            ),
            group(
                "fixed", "What went", "Findings that the later report could have shown, and does not show.", ["fixed"]
            ),
            group(
                "not_compared",
                "Not compared",
                "Findings that the later report does not show and could not have shown.",
                ["not_compared"],
            ),
            group("stayed", "What stayed", "On the same line, or moved.", ["moved", "unchanged"], folded=True),
        ),
        editor,
    )


def _status(change: FindingChange) -> str:
    """Return the status, with the previous one if it differs."""
    now = wording.STATUS_WORD[change.finding.status]
    if change.kind in ("new", "fixed", "not_compared") or change.before_status in (None, change.finding.status):
        return now
    return f"{wording.STATUS_WORD[change.before_status]} before, {now} now"


def _difference(found: Difference) -> str:
    return f"{found.before or 'none'} → {found.after or 'none'}"
