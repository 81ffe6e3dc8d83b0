"""The values for a bench on the HTML page: the template only lays them out."""

from __future__ import annotations

from dataclasses import dataclass

from tcready.reports.bench import bench_view
from tcready.reports.bench.charts import case_charts, charts
from tcready.reports.html.drawing import Chart
from tcready.schema.bench import Bench, BenchCase, CheckItem


@dataclass(frozen=True)
class CaseView:
    title: str
    tables: tuple[tuple[str, bench_view.BenchTable], ...]
    """Each with its caption."""
    notes: tuple[tuple[str, str], ...]
    """Notes on an arm that are in none of its columns."""
    charts: tuple[Chart, ...]
    noise: str = ""
    """Eager compared with itself in this case, if it is given by case."""


@dataclass(frozen=True)
class BenchView:
    bench: Bench
    word: str
    ways: tuple[tuple[str, str], ...]
    cases: tuple[CaseView, ...]
    charts: tuple[Chart, ...]
    facts: tuple[tuple[str, str], ...]
    checklist: tuple[tuple[CheckItem, str], ...]
    """Each item with its state in words."""
    arms: tuple[tuple[str, str], ...]
    """The code of each arm that has some."""


def bench_page(bench: Bench) -> BenchView:
    def tables(case: BenchCase) -> tuple[tuple[str, bench_view.BenchTable], ...]:
        named = (
            ("A warm call", bench_view.columns_of_times(case)),
            ("Its work", bench_view.WORK),
            ("What compiling costs", bench_view.COSTS),
        )
        return tuple((name, shown) for name, columns in named if (shown := bench_view.table(case, columns)).headings)

    return BenchView(
        bench=bench,
        word=bench_view.answer(bench),
        ways=tuple(bench_view.ways(bench)),
        cases=tuple(
            CaseView(
                bench_view.case_title(case), tables(case), notes, case_charts(case), bench_view.noise_of(bench, case)
            )
            for case, notes in bench_view.new_notes(bench)
        ),
        charts=charts(bench),
        facts=tuple((label, text) for label, text in bench_view.facts(bench) if label != "stack"),
        checklist=tuple((item, bench_view.CHECK_WORD[item.state]) for item in bench.checklist),
        arms=tuple({arm.arm: arm.code for case in bench.cases for arm in case.arms if arm.code}.items()),
    )
