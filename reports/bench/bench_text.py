"""A bench for a terminal: the verdict with its reason, what to paste, a table for each case, and further facts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import set_cell_size
from tcready.portable.quantities import UNKNOWN
from tcready.reports.bench import bench_view
from tcready.reports.shared.wording import STAGE_SIGN, visible
from tcready.reports.text.column_width import cell_len
from tcready.schema.bench import GENERATION_ITEM, PARITY_ITEM
from tcready.schema.enums import lines_of

if TYPE_CHECKING:
    from tcready.schema.bench import Bench, BenchCase, CheckItem, CheckState

ALWAYS = (bench_view.VERDICT, bench_view.CALL, bench_view.SPEEDUP)
IN_BRIEF = (*ALWAYS, bench_view.PARITY, bench_view.LAUNCHES, bench_view.STEADY)
MANY_CELLS = 24
"""A longer name of an arm has its own line."""
ARM_STYLE = {"real_gain": "green", "likely_gain": "green", "regression": "red", "failed": "red"}
BENCH_STYLE = {"real gain": "bold green", "regression": "bold red", "failed": "bold red"}
"""Styles by the answer in words."""
_CHECK_SIGN: dict[CheckState, str] = {
    "pass": STAGE_SIGN["pass"],
    "fail": STAGE_SIGN["fail"],
    "not_measured": STAGE_SIGN["not_run"],
}
_CHECK_STYLE: dict[CheckState, str] = {"pass": "green", "fail": "red", "not_measured": "dim"}
_ARGUMENT = re.compile(r"""(?:"[^"]*"|'[^']*'|[^ ])+""")
"""An argument of a shell command, with its quotes."""


@dataclass(frozen=True)
class TableLine:
    """One line: `body` is wrapped beside `lead`, unless it is `whole`."""

    lead: str
    body: str
    style: str = ""
    lead_style: str = "dim"
    whole: bool = False


def lines(bench: Bench, about: str, width: int) -> Iterator[TableLine]:
    """Yield the lines on the bench of a target in a report `width` columns wide; `about` is the target's name."""
    yield TableLine("  is it worth compiling ", about, "dim", "bold")
    yield TableLine(
        "    ", f"{bench_view.answer(bench)}: {bench.reason}", BENCH_STYLE.get(bench_view.answer(bench), "bold")
    )
    for what, code in bench_view.ways(bench):
        yield TableLine("    ", f"{what}:")
        yield from (TableLine("      > ", line, whole=True) for line in lines_of(code))
    whole = bench_view.summary(bench)
    for case, notes in bench_view.new_notes(bench):
        yield TableLine("", "")
        yield TableLine("    ", bench_view.case_title(case), "bold")
        for columns in bench_view.FOR_A_TERMINAL if whole in (None, case) else bench_view.FOR_A_TERMINAL[:1]:
            yield from _table(bench_view.table(case, _that_fit(case, columns, width)), width)
        if own := bench_view.noise_of(bench, case):
            yield TableLine("      ", own, "dim")
        failed = {arm.arm for arm in case.arms if arm.verdict in ("failed", "regression")}
        for arm, note in notes:
            yield TableLine("      ", f"{arm}: {note}", "red" if arm in failed else "dim")
    yield TableLine("", "")
    for label, text in bench_view.facts(bench):
        parts = _command_parts(text, width - 15) if label == bench_view.REPEAT else [text]
        for number, part in enumerate(parts):
            yield TableLine(f"    {'' if number else label:<10} ", part, whole=label == bench_view.REPEAT)
    for text in bench.cut:
        yield TableLine("    not done   ", text)
    if bench.checklist:
        yield TableLine("", "")
        yield TableLine("    ", "before adopting it", "bold")
    for item in bench.checklist:
        lead = f"    {_CHECK_SIGN[item.state]} {bench_view.CHECK_WORD[item.state]:<13}"
        body = f"{item.item}: {item.detail}" if item.detail else item.item
        yield TableLine(lead, body, "dim" if item.state == "not_measured" else "", _CHECK_STYLE[item.state])


def _command_parts(command: str, width: int) -> list[str]:
    """Split a shell command into lines of at most `width` columns that can be pasted together: all but the last end in a
    backslash. An argument is never split."""
    parts: list[str] = []
    for argument in _ARGUMENT.findall(command):
        if parts and cell_len(visible(f"{parts[-1]} {argument} \\")) <= width:
            parts[-1] += f" {argument}"
        else:
            parts.append(argument)
    return [f"{part} \\" for part in parts[:-1]] + parts[-1:]


def brief(bench: Bench, width: int) -> Iterator[TableLine]:
    """Yield the same in a few lines, below a headline that has the verdict: a table for each case, what failed, and
    one command for what was not measured."""
    whole = bench_view.summary(bench)
    for case in bench.cases if whole is None else (whole,):
        yield TableLine("  ", bench_view.case_title(case), "bold")
        yield from _table(bench_view.table(case, _in_one_table(case, width)), width)
    arms = bench.cases[-1].arms if bench.cases else ()
    started = [each for each in arms if each.cold_seconds and each.speedup]
    arm = next((each for each in started if each.arm == bench.recommended), next(iter(started), None))
    if arm is not None and arm.cold_seconds is not None:
        pays = bench_view.pays_after(arm, arm.break_even_calls, arm.cold_seconds)
        after = f"pays after {pays} calls" if arm.break_even_calls is not None else f"pays: {pays}"
        yield TableLine("  cold start   ", f"{arm.arm} {bench_view.time_interval(arm.cold_seconds)}, {after}", "dim")
    if saved := bench_view.carried_in_short(bench):
        yield TableLine("  saved code   ", f"a start that loads it: {saved}; -v has the lines", "dim")
    for remedy in bench.remedies:
        yield TableLine("  tried        ", bench_view.remedy_sentence(remedy), "dim")
    for note in bench.notes:
        yield TableLine("  note         ", note, "dim")
    for item in bench.checklist:
        if item.state == "fail" and item.detail not in bench.reason:
            yield TableLine("  failed       ", f"{item.item}: {item.detail}", "", "red")
    missing = [_missing(item, bench) for item in bench.checklist if item.state == "not_measured"]
    missing = [each for each in missing if each]
    if missing and bench.cases and not bench.failed:
        how = f": {bench.longer}" if bench.longer else "; -v has a command for each"
        yield TableLine("  not measured ", f"{', '.join(missing)}{how}", "dim")


def _missing(item: CheckItem, bench: Bench) -> str:
    """Return the name of an item that was not measured, in one line; empty if more time would not measure it."""
    if item.item == GENERATION_ITEM and len(bench.cases) < 2:
        return ""
    agrees = any(arm.parity for case in bench.cases[-1:] for arm in case.arms)
    return "parity of further seeds" if item.item == PARITY_ITEM and agrees else item.item


def _in_one_table(case: BenchCase, width: int) -> Sequence[bench_view.Column]:
    """Return as many columns as fit side by side: the rightmost ones are dropped first, except verdict, time and
    speedup."""
    columns = list(bench_view.with_throughput(case, IN_BRIEF))
    while len(columns) > len(ALWAYS):
        _, widths, room = _layout(bench_view.table(case, columns), width)
        if len(list(_parts(widths, room))) == 1:
            break
        columns.remove(next(column for column in reversed(columns) if column not in ALWAYS))
    return columns


def _that_fit(case: BenchCase, columns: Sequence[bench_view.Column], width: int) -> Sequence[bench_view.Column]:
    """Return the columns with the throughput of the case, in no more lines than without it: percentiles are dropped
    if there is no room."""

    def count_parts(shown: Sequence[bench_view.Column]) -> int:
        _, widths, room = _layout(bench_view.table(case, shown), width)
        return len(list(_parts(widths, room)))

    most = count_parts(columns)
    for left_out in ((), (bench_view.P95,), (bench_view.P95, bench_view.P99)):
        shown = [column for column in bench_view.with_throughput(case, columns) if column not in left_out]
        if count_parts(shown) <= most:
            break
    return shown


def _layout(shown: bench_view.BenchTable, width: int) -> tuple[int, list[int], int]:
    """Return the cells of the names of arms, of each column, and the room for all columns together."""
    names = [cell_len(visible(row.arm)) for row in shown.rows]
    name_wide = max((wide for wide in names if wide <= MANY_CELLS), default=0)
    widths = [
        max(cell_len(heading), *(cell_len(row.cells[at]) for row in shown.rows))
        for at, heading in enumerate(shown.headings)
    ]
    return name_wide, widths, width - name_wide - 8


def _table(shown: bench_view.BenchTable, width: int) -> Iterator[TableLine]:
    """Return the table, split into several below each other if it is too wide, each with the arms on the left."""
    names = [visible(row.arm) for row in shown.rows]
    name_wide, widths, room = _layout(shown, width)
    for part in _parts(widths, room):

        def laid_out(cells: Sequence[str], part: range = part) -> str:
            return "  ".join(f"{cells[at]:>{widths[at]}}" for at in part)

        yield TableLine(f"{'':{name_wide + 8}}", laid_out(shown.headings), "dim")
        for name, row in zip(names, shown.rows, strict=True):
            if all(row.cells[at] == UNKNOWN for at in part):
                continue
            lead = "    * " if row.recommended else "      "
            style = ARM_STYLE.get(row.verdict, "")
            if cell_len(name) > name_wide:
                yield TableLine(lead, name, style, style)
                lead, name = "      ", ""
            yield TableLine(f"{lead}{set_cell_size(name, name_wide)}  ", laid_out(row.cells), lead_style=style)


def _parts(widths: Sequence[int], room: int) -> Iterator[range]:
    """Split columns into neighbours that fit into `room` together; one that is too wide is alone."""
    first, used = 0, 0
    for at, wide in enumerate(widths):
        if at > first and used + 2 + wide > room:
            yield range(first, at)
            first, used = at, 0
        used += wide + (2 if at > first else 0)
    yield range(first, len(widths))
