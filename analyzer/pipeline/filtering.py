"""Filter a report: leave out findings that are in a baseline, or on unchanged lines."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tcready.portable.options import ReportOptions
from tcready.schema.display_paths import contents
from tcready.schema.enums import TcreadyError
from tcready.schema.report import Report
from tcready.schema.value_class import dataclass

if TYPE_CHECKING:
    from tcready.pipeline.baseline import Baseline, BaselineEntry, Covers


@dataclass(frozen=True)
class Known:
    """Facts that filter the report, known before anything is read or run."""

    baseline: Baseline | None = None
    """None: no baseline filters the report."""
    commit: str = ""
    """The commit that changed lines are relative to."""
    changed: Mapping[str, Sequence[tuple[int, int]]] | None = None
    """Display path -> changed lines; None: all lines count."""


def load_known(options: ReportOptions, root: Path) -> Known:
    """Read the baseline and ask git, before anything runs.

    Raises TcreadyError if the baseline cannot be read, or if git does not know the revision.
    """
    file = options.baseline
    found = _read(file, root, missing_ok=options.write_baseline is not None) if file is not None else None
    if options.diff_base is None:
        return Known(found)
    from tcready.pipeline import git

    return Known(found, *git.changed_lines(root, options.diff_base))


def _read(file: str, root: Path, *, missing_ok: bool) -> Baseline:
    """Read a baseline file; with `missing_ok`, a missing file is empty."""
    from tcready.pipeline import baseline

    try:
        # a pyproject.toml may name a pipe, which may never answer, or a device, which may never end
        text = contents(root / file)[0].decode("utf-8")
    except FileNotFoundError:
        if missing_ok:
            return baseline.Baseline()
        raise TcreadyError(f"--baseline {file}: no such file; --write-baseline {file} makes it") from None
    except OSError as error:
        raise TcreadyError(f"--baseline {file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise TcreadyError(f"--baseline {file} is no baseline: {error}") from None
    return baseline.parse_baseline(text, file)


def filter_report(
    report: Report, before: Known, options: ReportOptions, targets: Sequence[str], root: Path
) -> tuple[Report, tuple[str, ...]]:
    """Return the filtered report, and a message about a baseline that was written.

    `targets` are those that the user named.
    """
    if options.write_baseline is None and options.baseline is None and before.changed is None:
        return report, ()
    from tcready.pipeline import baseline

    notes = []
    if options.write_baseline is not None or options.baseline is not None:
        known_before = before.baseline or baseline.Baseline()
        covers = _covers(report, known_before, options, targets, root)
        if options.write_baseline is not None:
            from tcready.source import files

            renewed = baseline.renew_baseline(report, known_before, covers)
            files.write(str(root / options.write_baseline), baseline.format_baseline(renewed))
            notes.append(f"{options.write_baseline} is written; entries: {len(renewed.entries)}")
        if options.baseline is not None:
            report = baseline.without_known(report, known_before.entries, options.baseline, covers)
    if before.changed is not None and options.diff_base is not None:
        from tcready.pipeline import git

        unwatched = git.unwatched_files(root, {finding.path for finding in report.findings})
        lines = {**{path: [(1, sys.maxsize)] for path in unwatched}, **before.changed}
        report = baseline.on_changed_lines(report, lines, options.diff_base, before.commit)
    return report, tuple(notes)


def _covers(report: Report, known: Baseline, options: ReportOptions, targets: Sequence[str], root: Path) -> Covers:
    from tcready.pipeline.baseline import BaselineScope
    from tcready.static.frontend.globs import ignored_in

    def is_covered(entry: BaselineEntry) -> bool:
        ignored = ignored_in(entry.path, options.per_file_ignores, root)
        return scope.covers(entry, ignored, exists=(root / entry.path).exists())

    scope = BaselineScope.of(report, known, targets, options, str(root))
    return is_covered
