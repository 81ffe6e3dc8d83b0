"""The report for a terminal: short by default, complete on request.

Every string of the report is written with its control characters escaped, and is passed to rich, which only adds
colors, as a `Text`, never as markup: the content of a model file cannot color, move or hide the output.
"""

from __future__ import annotations

import io

from tcready.reports.text.brief import LAYOUTS, BriefText
from tcready.reports.text.column_width import cell_len
from tcready.reports.text.full import LongText
from tcready.reports.text.terminal_layout import Write, coloured, plain
from tcready.schema.report import Report
from tcready.schema.static import Finding

LINES = 60
"""Maximum rows of the short form, if findings and targets are not too many."""
BENCH_LINES, CASE_LINES = 25, 6
"""The same for the bench of a target with one case, and the addition for each further case. Findings are shortened
there."""
NARROWEST = 40


def render(
    report: Report,
    *,
    color: bool = False,
    width: int = 100,
    third_party: bool = False,
    verbose: bool = False,
    stored: str | None = None,
    of_a_result: bool = False,
) -> str:
    """Return the report as terminal text, `width` columns wide, with a trailing newline.

    First the verdict of each target and what to do about it, then a line or two for each finding; `verbose` shows
    everything about each finding and each run, the verdicts last with what to do. For a sweep its tables are shown, and
    the rest only with `verbose`. Lines that a tool or a click may use (`path:line:col: ...`) are never wrapped, except
    in the report of a bench, which is about other things. `third_party` shows findings in installed packages one by one
    instead of one line for each file and rule. `stored` is the file that holds the report, if it was not just made;
    `of_a_result`: the report is shown by a value of a Python process, which has `to_text`.
    """
    width = max(width, NARROWEST)
    swept = ""
    if report.sweep is not None:
        from tcready.reports.sweep import sweep_text

        swept = sweep_text.render(report, report.sweep, whole=verbose)
    if verbose:
        out = io.StringIO()
        LongText(_write(out, width, color), width, report, third_party, of_a_result=of_a_result).report()
        return f"{swept}\n{out.getvalue()}" if swept else out.getvalue()
    if swept:
        return swept
    benches = [each.observation.bench for each in report.targets if each.observation.bench is not None]
    most = sum(BENCH_LINES + CASE_LINES * max(len(bench.cases) - 2, 0) for bench in benches) or LINES
    for layout in LAYOUTS if benches else [each for each in LAYOUTS if not each.is_short]:
        out = io.StringIO()
        BriefText(plain(out), width, report, third_party, layout, stored, of_a_result=of_a_result).report()
        if _rows(out.getvalue(), width) <= most:
            break
    if color:
        out = io.StringIO()
        BriefText(coloured(out, width), width, report, third_party, layout, stored, of_a_result=of_a_result).report()
    return out.getvalue()


def render_finding(report: Report, finding: Finding, *, color: bool = False, width: int = 100, here: str = "") -> str:
    """Return everything that the report knows about one of its findings, as `render` shows it with `verbose`; `here` is
    what can be changed on its line, or why nothing can."""
    width = max(width, NARROWEST)
    out = io.StringIO()
    LongText(_write(out, width, color), width, report, third_party=True).finding(finding, set(), here)
    return out.getvalue()


def _write(out: io.StringIO, width: int, color: bool) -> Write:
    return coloured(out, width) if color else plain(out)


def _rows(text: str, width: int) -> int:
    """Return the number of terminal rows that it takes."""
    return sum(max(-(-cell_len(line) // width), 1) for line in text.splitlines())
