"""The long report for a terminal: findings in the form of ruff and mypy, then each target, and last the verdict with
next steps.

Every string of the report is written with its control characters escaped, and is passed to rich, which only adds
colors, as a `Text`, never as markup: the content of a model file cannot color, move or hide the output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tcready.reports.shared import phrases, trace_wording, wording
from tcready.reports.shared.next_steps import NextStep, steps, steps_for_source
from tcready.reports.shared.ranks_wording import rows as rank_rows
from tcready.reports.shared.serving_wording import rows as serving_rows
from tcready.reports.text.column_width import cell_len
from tcready.reports.text.terminal_layout import Write, rows_of, source_window
from tcready.schema.capture_failures import CaptureFailures
from tcready.schema.enums import lines_of
from tcready.schema.fix import Fix
from tcready.schema.observation import Stage
from tcready.schema.report import Region, Report, TargetReport
from tcready.schema.short_ids import short_names
from tcready.schema.static import Finding, RuleText

if TYPE_CHECKING:
    from tcready.reports.bench.bench_text import TableLine
    from tcready.schema.run import Plan

EXTRACTED = "the page and the JSON hold a change that takes these lines out into a compiled function"
MANY_TARGETS = 3
"""With more targets that were run than this, only verdicts are shown."""
MANY_STATIC_TARGETS = 3
"""With more targets than this and no run, regions are left to the other formats, to keep the output of a hook short."""
MANY_ROWS = 12
MANY_CELLS = 16
"""A longer name of a placement has its own line."""

LEVEL_STYLE = {"error": "bold red", "warning": "yellow", "note": "cyan"}
VERDICT_STYLE = {"ready": "bold green", "ready_by_region": "bold yellow", "not_ready": "bold red", "unknown": "bold"}
STAGE_STYLE = {"pass": "green", "fail": "red", "not_run": "dim"}


class LongText:
    """Writes one complete report, line by line."""

    def __init__(
        self, write: Write, width: int, report: Report, third_party: bool, *, of_a_result: bool = False
    ) -> None:
        self.write = write
        self.width = width
        self.third_party = third_party
        self.given = report
        self.rules = wording.rules_by_code(report)
        self.texts = {source.path: source.text for source in report.sources}
        self.lines: dict[str, list[str]] = {}
        """Lines of the files that were shown so far."""
        self.ran = any(target.was_run for target in report.targets)
        self.has_verdicts = True
        self.names = short_names(finding.fingerprint for finding in report.findings)
        self.in_full = "to_text(verbose=True)" if of_a_result else "-v"
        """The command that shows the full report."""

    def report(self) -> None:
        report = self.given
        single = [f for f in report.findings if f.origin == "own" or self.third_party]
        explained: set[str] = set()
        for finding in wording.in_order(f for f in single if f.level != "note"):
            self.finding(finding, explained)
        self.notes(wording.in_order(f for f in single if f.level == "note"))
        if not self.third_party:
            self.installed([f for f in report.findings if f.origin == "third_party"])
        for target in report.targets:
            if target.was_run:
                self.target(target)
        self.static_targets([target for target in report.targets if not target.was_run])
        self.serving()
        self.listing("skipped files", [f"{item.path}: {item.reason}" for item in report.skipped])
        self.listing("warnings", list(report.warnings))
        self.counts()
        self.summaries()

    # One line, whole: never wrapped, never cut.
    def line(self, *parts: str | tuple[str, str]) -> None:
        self.write([(part, "") if isinstance(part, str) else part for part in parts])

    def wrapped(self, lead: str, body: str, style: str = "", lead_style: str = "dim", *, prose: bool = False) -> None:
        """Write `lead`, then `body` wrapped beside it; newlines in `prose` are kept."""
        indent = cell_len(lead)
        shown = wording.visible(body, keep="\n\t" if prose else "\t")
        for index, row in enumerate(rows_of(shown, max(self.width - indent, 20))):
            self.line(" " * indent if index else (lead, lead_style), (row, style))

    def header(self, finding: Finding, tail: str = "") -> None:
        style = LEVEL_STYLE[finding.level]
        self.line(
            (f"{wording.visible(finding.path)}:{finding.line}:{finding.column}:", "bold"),
            " ",
            (f"{wording.visible(wording.code_of(finding))} {finding.level}", style),
            (f" [{wording.visible(finding.name)}] ", "dim"),
            wording.visible(finding.message),
            (f"{tail} {wording.visible(self.names[finding.fingerprint])}", "dim"),
        )

    def finding(self, finding: Finding, explained: set[str], here: str = "") -> None:
        self.header(finding)
        self.source(finding)
        rule = wording.advice_on(finding, self.rules)
        if rule is not None:
            if rule.code not in explained:
                self.advice(rule)
            explained.add(rule.code)
        if here:
            self.field("this line", here)
        known = f"{wording.status_phrase(finding, self.ran)} ({finding.confidence} confidence, "
        self.field("status", f"{known}{wording.EFFECT_WORD[finding.effect]})")
        parted = {entry.status for entry in finding.targets}
        if len(parted) > 1:
            for entry in finding.targets:
                self.field("", f"{phrases.named_entry(entry)}: {entry.status.replace('_', ' ')}")
        for label, lines in (
            ("evidence", wording.static_evidence(finding)),
            ("in the run", wording.run_evidence(finding) if wording.was_shown(finding) else ()),
        ):
            for index, line in enumerate(lines):
                self.field("" if index else label, line)
        if finding.break_effect is not None:
            self.field("frames", wording.shape_sentence(finding))
        if finding.cost is not None:
            self.field("cost", wording.cost_sentence(finding))
        if len(finding.reached_by) > 1:
            self.field("reached by", " > ".join(finding.reached_by))
        if finding.fix is not None and wording.offers_change(finding.fix):
            what = "a change that was tried" if finding.fix.verified is False else "suggested change"
            self.field("fix", f"{what} ({wording.fix_words(finding.fix)})")
            for line in _fix_evidence(finding.fix):
                self.field("", line)
            for line in changed_lines(finding.fix):
                self.line((f"      {wording.visible(line)}", "green" if line.startswith("+") else "red"))
        self.line()

    def source(self, finding: Finding, *, caret: bool = True) -> None:
        if finding.path not in self.lines:
            text = self.texts.get(finding.path)
            self.lines[finding.path] = lines_of(text) if text is not None else []
        lines = self.lines[finding.path]
        if not 1 <= finding.line <= len(lines):
            return
        line = lines[finding.line - 1]
        # Of a span over several lines the caret marks the first.
        end = finding.end_column if finding.end_line == finding.line else len(line) + 1
        gutter = f"{finding.line:>5} | "
        window = source_window(line, finding.column, end, self.width - len(gutter))
        self.line((gutter, "dim"), window.text)
        if not caret:
            return
        self.line((f"{'':>5} | ", "dim"), " " * window.caret, ("^" * window.length, LEVEL_STYLE[finding.level]))

    def advice(self, rule: RuleText) -> None:
        self.field("why", phrases.reflow(rule.why))
        self.field("use instead", phrases.reflow(rule.instead), style="green")
        self.field("", wording.NOT_TRIED, style="dim")

    def field(self, label: str, body: str, style: str = "") -> None:
        self.wrapped(f"{'':6}{label + ':' if label else '':13}", body, style=style, prose=True)

    def notes(self, notes: list[Finding]) -> None:
        for finding in notes:
            self.header(finding, tail=f" ({wording.status_phrase(finding, self.ran)})")
        if notes:
            self.line()

    def installed(self, findings: list[Finding], most: int | None = None) -> None:
        if not findings:
            return
        self.line((f"In installed packages: {wording.level_counts(findings)}", "bold"))
        groups: dict[tuple[str, str, str, str], list[Finding]] = {}
        for finding in wording.in_order(findings):
            key = (finding.path, wording.code_of(finding), finding.level, finding.name)
            groups.setdefault(key, []).append(finding)
        for (path, code, level, name), group in list(groups.items())[:most]:
            self.line(
                f"  {wording.visible(path)}: ",
                (f"{wording.visible(code)} {level}", LEVEL_STYLE[level]),
                (f" [{wording.visible(name)}] ", "dim"),
                f"{_some_lines(sorted({finding.line for finding in group}))}: {wording.status_counts(group)}",
            )
        self.left_out(len(groups), most)
        self.line()

    def target(self, target: TargetReport) -> None:
        seen = target.observation
        self.line((wording.visible(phrases.named_target(target, self.given.targets)), "bold underline"))
        about: list[str] = [trace_wording.mode_words(target)]
        about += [f"{key} {value}" for key, value in environment_words(target)]
        if seen.convention:
            about.append(f"inputs: {seen.convention}")
        self.wrapped("  ", " · ".join(about), style="dim")
        climbed, rest = _climbed(target)
        for stage in climbed:
            detail = stage.detail or wording.STAGE_WORD[stage.state]
            if stage.state == "not_run" and stage.detail:
                bench = target.observation.bench if stage.stage == "speed" else None
                detail = f"{'not decided' if bench and bench.cases else 'not run'}: {stage.detail}"
            took = f" ({phrases.duration(stage.seconds)})" if stage.seconds is not None else ""
            lead = f"  {wording.STAGE_SIGN[stage.state]} {stage.stage:<9} "
            style = STAGE_STYLE[stage.state]
            self.wrapped(lead, detail + took, style="" if stage.state == "fail" else "dim", lead_style=style)
        if rest:
            lead = f"  {wording.STAGE_SIGN['not_run']} not run   "
            self.wrapped(lead, ", ".join(stage.stage for stage in rest), style="dim", lead_style="dim")
        if took := wording.time_sentence(target):
            self.wrapped("  time        ", took, style="dim")
        self.line()
        self.trace(target, MANY_ROWS)
        self.measured(target)
        self.backend(target)
        self.custom_ops(target)
        self.shapes(target)
        self.plan(target)
        self.regions(target)
        self.bench(target)

    def measured(self, target: TargetReport) -> None:
        seen = target.observation
        row = self.row
        if seen.coverage is None and not seen.graphs and not _passed(target, "capture"):
            return
        if seen.coverage is not None:
            cover = seen.coverage
            time = f"; {wording.time_words(cover)} of their time" if cover.time_share is not None else ""
            counted = f"({cover.ops_captured} of {cover.ops_total})"
            row("coverage", f"{phrases.percent(cover.share)} of operations in graphs {counted}{time}")
            if calls := wording.which_calls(cover):
                row("", calls)
            if note := wording.times_note(cover):
                row("", note)
            if cover.cases:
                row("", f"by case: {wording.cases_sentence(cover)}")
        row("graphs", f"{len(seen.graphs)}, {phrases.number(sum(g.ops for g in seen.graphs), 'operation')}")
        self.troubles(target)
        for index, line in enumerate(wording.training_rows(seen.training) if seen.training else ()):
            row("" if index else "training", line)
        self.recompiles(target)
        for index, intent in enumerate(seen.intents):
            place = f"{intent.path}:{intent.line} {intent.symbol}"
            row("" if index else "intended", f"{place}: {intent.kind} by {intent.how}, left as it is")
        self.ranks(target, MANY_ROWS)
        if wording.explain_disagrees(target):
            row("explain", wording.explain_sentence(target) or "")
        self.line()

    def recompiles(self, target: TargetReport, most: int | None = None) -> None:
        """Write each recompiled function, and the guards that failed."""
        seen = target.observation
        for index, event in enumerate(seen.recompiles[:most]):
            same = trace_wording.recompiled_when(event, seen.trace)
            reasons = "; ".join(event.reasons) or "no reason recorded"
            place = f"{event.path}:{event.line} {event.symbol}".rstrip()
            self.row("" if index else "recompiles", f"{place} {same}: {reasons}")
        self.left_out(len(seen.recompiles), most)

    def ranks(self, target: TargetReport, most: int) -> None:
        """Write a run over several processes: how they share the model, the results of each, and where they differ."""
        for label, text in rank_rows(target.observation, most, self.in_full):
            self.row(label, text)

    def trace(self, target: TargetReport, most: int) -> None:
        """Write the trace of a job: its processes, where compiling took longest, and what it does not contain."""
        trace = target.observation.trace
        if trace is None:
            return
        self.row("trace", trace_wording.trace_sentence(trace))
        for process in trace.processes:
            if process.lacks:
                self.row("", f"{process.file}: {process.lacks}")
        for index, time in enumerate(trace.compile_times[:most]):
            place = f"{time.path}:{time.line} {time.symbol}"
            self.row("" if index else "compiling", f"{place}: {trace_wording.compile_time_sentence(time)}")
        self.left_out(len(trace.compile_times), most)
        for index, found in enumerate(trace.differences[:most]):
            self.row("" if index else "ranks differ", trace_wording.difference_sentence(found))
        self.left_out(len(trace.differences), most)
        for index, kernel in enumerate(trace.kernels[:most]):
            self.row("" if index else "kernels", f"{kernel.name}: {trace_wording.kernel_sentence(kernel)}")
        self.left_out(len(trace.kernels), most)
        for index, item in enumerate(trace.advice[:most]):
            self.row("" if index else "to try", trace_wording.advice_words(item))
            if item.code is not None:
                self.row("", f"> {item.code}")
        self.left_out(len(trace.advice), most)
        for index, text in enumerate(trace.lacks):
            self.row("" if index else "not in a trace", text)
        self.line()

    def backend(self, target: TargetReport) -> None:
        """Write one line for each case and mode of Inductor, then why CUDA graphs were skipped."""
        seen = target.observation
        for found in seen.backend:
            named = " in ".join(filter(None, [found.mode if found.mode != "default" else "", found.case or ""]))
            self.row("inductor", (f"{named}: " if named else "") + wording.backend_sentence(found))
            for skip in found.cudagraph_skips[:MANY_ROWS]:
                place = f"{skip.path}:{skip.line} " if skip.path else ""
                self.row("", f"{place}no CUDA graph: {wording.skip_sentence(skip)}")
            self.more(len(found.cudagraph_skips))
        if seen.backend:
            self.line()

    def custom_ops(self, target: TargetReport) -> None:
        """Write operators and functions of others that lack something, and the number of the rest."""
        seen = target.observation
        if not seen.custom_ops:
            return
        wanting = [found for found in seen.custom_ops if wording.is_wanting(found)]
        others = len(seen.custom_ops) - len(wanting)
        count = f"{len(wanting)} not fully registered" + (f", {others} registered" if others else "")
        self.row("custom ops", count + ("; --html shows the code to add" if wanting else ""))
        for found in wanting[:MANY_ROWS]:
            self.row("", f"{found.path}:{found.line} {found.name}: {wording.lacks_sentence(found)}")
        self.more(len(wanting))
        self.line()

    def shapes(self, target: TargetReport) -> None:
        """Write the effect of other sizes: one line for each axis, the recommended code, and the settings, the best
        first."""
        seen = target.observation
        if seen.shapes is None:
            return
        label = "shapes"
        for row in wording.shape_rows(seen.shapes):
            places = f" ({row.places})" if row.places else ""
            if row.axis is not None and row.axis.fixed:
                result = f"fixed: {row.axis.fixed}"
            elif row.advice is not None:
                result = row.advice.text
            else:
                result = (
                    ", ".join(f"{t.setting}: {wording.trial_phrase(t)}" for t in row.trials) or "not run under Dynamo"
                )
            self.row(label, f"{row.varied}{places} {row.sizes}: {result}")
            for line in lines_of((row.advice and row.advice.code) or ""):
                if line:
                    self.line(f"{'':17}> ", wording.visible(line))
            table = [wording.SHAPE_HEADINGS, *map(wording.shape_cells, row.ranked)] if row.trials else []
            width = max((len(setting) for setting, *_ in table), default=0)
            for setting, *cells in table:
                self.line(f"{'':17}{setting:<{width}}" + "".join(f"{cell:>11}" for cell in cells).rstrip())
            label = ""
        for text in seen.shapes.cut:
            self.row(label, f"not done: {text}")
            label = ""
        self.line()

    def row(self, label: str, body: str) -> None:
        self.wrapped(f"  {label:<14} ", body)

    def troubles(self, target: TargetReport) -> None:
        """Write break sites, each with the frames it had skipped, then frames skipped for another reason."""
        found = CaptureFailures.of(target.observation)
        events = sum(item.hits for item in found.breaks)
        above = target.dominator
        self.row(
            "break sites",
            f"{len(found.breaks)} distinct"
            + (f" ({phrases.number(events, 'event')})" if events else "")
            + (f", every way to them through {above.symbol}" if above else ""),
        )
        own = [item for item in found.breaks if item.first.origin == "own" or self.third_party]
        for item in own[:MANY_ROWS]:
            first = item.first
            case = f" in {', '.join(item.cases)}" if item.cases else ""
            known = f"{first.gb_id} " if first.gb_id else ""
            place = f"{first.path}:{first.line} {first.symbol}"
            names = [frame.symbol for frame in item.skipped]
            eager = f"; all of {', '.join(names)} run{'s' if len(names) == 1 else ''} eagerly"
            self.row(
                "",
                f"{place} x{item.hits}{case}: {known}{wording.kind_of(first.reason)}" + (eager if item.skipped else ""),
            )
        self.more(len(own))
        foreign: dict[str, list[int]] = {}
        for item in found.breaks:
            if item not in own:
                foreign.setdefault(item.first.path, []).append(item.first.line)
        for path, lines in foreign.items():
            self.row("", f"{path} (installed): {_some_lines(lines)}")
        for each in target.observation.own_compiles[:MANY_ROWS]:
            eager = f", {len(each.eager)} of them run eagerly" if each.limit else ""
            self.row(
                "its own calls",
                f"{each.place.path}:{each.place.line} {each.how}: {phrases.number(len(each.parts), 'part')}{eager}; "
                f"{phrases.number(each.compiled_again, 'recompilation')}",
            )
        self.more(len(target.observation.own_compiles))
        for item in found.by_torch[:MANY_ROWS]:
            first = item.first
            cost = first.cost.ops if first.cost is not None else 0
            eager = (
                f"; {phrases.number(cost, 'operation')} run{'s' if cost == 1 else ''} eagerly because of it"
                if cost
                else ""
            )
            self.row("by torch", f"{first.path}:{first.line} {first.symbol} x{item.hits}: on purpose{eager}")
        self.more(len(found.by_torch))
        if found.frames:
            other = "other " if found.skipped_by_breaks else ""
            self.row("skipped frames", f"{len(found.frames)} {other}that held tensor work")
        for frame in found.frames[:MANY_ROWS]:
            self.row("", f"{frame.path}:{frame.line} {frame.symbol}: {phrases.first_line(frame.reason)}")
        self.more(len(found.frames))

    def more(self, count: int) -> None:
        if count > MANY_ROWS:
            self.row("", f"... and {count - MANY_ROWS} more (the JSON and the HTML list all)")

    def plan(self, target: TargetReport) -> None:
        """Write what to compile and why, the placements that were tried, the rollback, and the lines for production."""
        plan = target.observation.plan
        if plan is None:
            return
        about = f"of {phrases.named_target(target, self.given.targets)}"
        self.wrapped("  which parts to compile ", about, style="dim", lead_style="bold")
        self.wrapped("    ", f"{wording.plan_title(plan)}: {wording.plan_reason(plan)}", style="bold")
        self.code(plan.code)
        if keys := wording.keys_sentence(plan):
            self.wrapped("      ", keys, style="dim")
        self.placements(plan)
        for what, placement in wording.beside_the_plan(plan):
            self.wrapped(f"    {what}: ", wording.placement_sentence(placement))
            self.code(placement.code)
        for what, lines in wording.further_lines(plan):
            self.line(f"    {what}:")
            self.code(lines)
        for text in plan.cut:
            self.wrapped("    not done: ", text)
        self.line()

    def bench(self, target: TargetReport) -> None:
        bench = target.observation.bench
        if bench is None:
            return
        from tcready.reports.bench import bench_text

        about = phrases.named_target(target, self.given.targets)
        self.laid_out(bench_text.lines(bench, about, self.width))

    def laid_out(self, lines: Iterable[TableLine]) -> None:
        """Write the lines of a bench."""
        for line in lines:
            if line.whole:
                self.line((line.lead, line.lead_style), (wording.visible(line.body, keep="\t"), line.style))
            else:
                self.wrapped(line.lead, line.body, line.style, line.lead_style)
        self.line()

    def placements(self, plan: Plan) -> None:
        """Write the table; a name that is too long for its column has its own line."""
        rows = wording.placement_rows(plan)
        if not rows:
            return
        name_wide = max([len(row.name) for row in rows if len(row.name) <= MANY_CELLS], default=0)
        table = [wording.PLACEMENT_COLUMNS, *(row.cells for row in rows)]
        widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]

        def laid_out(cells: Sequence[str]) -> str:
            return "  ".join(f"{cell:>{wide}}" for cell, wide in zip(cells, widths, strict=True))

        self.line()
        self.wrapped(f"{'':{name_wide + 6}}", laid_out(wording.PLACEMENT_COLUMNS), style="dim")
        for row in rows:
            lead, style = ("  * ", "green") if row.recommended else ("    ", "")
            name = row.name
            if len(name) > name_wide:
                self.line((lead, style), (name, style))
                lead, name = "    ", ""
            self.wrapped(f"{lead}{name:<{name_wide}}  ", laid_out(row.cells), lead_style=style)
            if row.note:
                self.wrapped("      ", phrases.shorten(row.note), style="dim" if row.sound else "red")
        self.line()

    def regions(self, target: TargetReport) -> None:
        if not target.regions:
            return
        about = f"of {phrases.named_target(target, self.given.targets)}"
        self.wrapped("  compile regions ", about, style="dim", lead_style="bold")
        shown = target.regions[:MANY_ROWS]
        wide = min(max(cell_len(wording.visible(region.name or "(whole)")) for region in shown), 32)
        state_wide = max(len(wording.region_word(region, target)) for region in shown)
        for region in shown:
            self.region(region, wide, f"{wording.region_word(region, target):<{state_wide}}")
        self.more(len(target.regions))
        if proof := wording.how_to_prove(target, self.given):
            self.wrapped("    ", proof, style="dim")
        self.line()

    def region(self, region: Region, wide: int, state: str) -> None:
        style = {"proved": "green", "refuted": "red", "predicted": ""}[region.state]
        facts = [phrases.number(region.instances, "instance") if region.instances else "number of instances not known"]
        if region.ops_share is not None:
            facts.append(f"{phrases.percent(region.ops_share)} of ops")
        if region.time_share is not None:
            facts.append(f"{phrases.percent(region.time_share)} of time")
        if region.parameter_share is not None:
            facts.append(f"{phrases.percent(region.parameter_share)} of parameters")
        if region.compilations:
            facts.append(phrases.number(region.compilations, "compilation"))
        if region.state == "predicted" and region.ops_captured_share is not None:
            facts.append(f"{phrases.percent(region.ops_captured_share)} in graphs as it is")
        name = wording.visible(region.name or "(whole)")
        if cell_len(name) > wide:
            self.wrapped("    ", name)
            name = ""
        lead = f"    {name}{' ' * (wide - cell_len(name))}  {state}  "
        self.wrapped(lead, ", ".join(facts), lead_style=style)
        if region.reason:
            self.wrapped("      ", region.reason, style="dim")
        if again := wording.again_sentence(region):
            self.wrapped("      ", again, style="dim")
        self.code(region.code)
        if region.diff:
            self.wrapped("      ", EXTRACTED, style="dim")

    def code(self, text: str) -> None:
        for line in lines_of(text) if text else ():
            self.line("      > ", wording.visible(line, keep="\t"))

    def static_targets(self, targets: list[TargetReport]) -> None:
        if not targets:
            return
        if not self.ran:
            self.line((f"static only: nothing was run{wording.predicted_for(self.given)}", "dim"))
        else:
            names = ", ".join(wording.visible(target.target) for target in targets)
            self.wrapped("", f"static only, not run: {names}", style="dim")
        self.line()
        if len(targets) <= MANY_STATIC_TARGETS:
            for target in targets:
                self.regions(target)

    def serving(self, most: int | None = None) -> None:
        """Write the effect of a serving engine on the findings, if requested."""
        if self.given.serving is None:
            return
        self.line(("serving", "bold"))
        for label, text in serving_rows(self.given, self.given.serving, most, self.in_full):
            self.row(label, text)
        self.line()

    def listing(self, title: str, items: list[str], most: int | None = None) -> None:
        """Write the items below their title, at most `most` of them if given."""
        if not items:
            return
        self.line((title, "bold"))
        for item in items[:most]:
            self.wrapped("  ", item)
        self.left_out(len(items), most)
        self.line()

    def left_out(self, count: int, most: int | None) -> None:
        if most is not None and count > most:
            self.line((f"  ... and {count - most} more ({self.in_full})", "dim"))

    def counts(self) -> None:
        findings = self.given.findings
        own = [finding for finding in findings if finding.origin == "own"]
        foreign = [finding for finding in findings if finding.origin == "third_party"]
        nothing = "no findings in your code"
        if not self.given.targets:
            nothing = "nothing was checked"
        text = f"{wording.level_counts(own)} in your code ({wording.status_counts(own)})" if own else nothing
        if self.given.narrowed is not None:
            text = text.replace("findings", "new findings") if not own else f"new: {text}"
        if foreign:
            text += f"; {wording.level_counts(foreign)} in installed packages"
        if self.given.skipped:
            text += f"; {phrases.number(len(self.given.skipped), 'file')} skipped"
        self.wrapped("", text[0].upper() + text[1:] + ".")
        proofs = [found.fix.verified for found in findings if found.fix and found.fix.verified is not None]
        if proofs:
            holding = f"{sum(proofs)} {'holds' if sum(proofs) == 1 else 'hold'}"
            self.wrapped("", f"Of {phrases.number(len(proofs), 'change')} put to the proof, {holding}.")
        if in_other_types := wording.types_sentence(self.given):
            self.wrapped("", in_other_types[0].upper() + in_other_types[1:] + ".")
        if hidden := wording.narrowed_sentence(self.given):
            self.wrapped("", hidden[0].upper() + hidden[1:] + ".")

    # The verdicts, and what to do first

    def summaries(self) -> None:
        targets = self.given.targets
        ran = [target for target in targets if target.was_run]
        read = [target for target in targets if not target.was_run]
        if not targets:
            why = "nothing was checked" if self.given.skipped else "no model in what was read"
            self.line(("VERDICT", "bold"), f" UNKNOWN: {why}")
        for target in ran:
            self.summary(target, with_steps=len(ran) <= MANY_TARGETS)
        if len(read) <= MANY_STATIC_TARGETS:
            for target in read:
                self.summary(target, with_steps=len(targets) == 1)
        elif self.has_verdicts:
            self.line(("VERDICT", "bold"), f" UNKNOWN for {len(read)} targets: nothing was run")
        if len(read) == len(targets) != 1 and (step := steps_for_source(self.given, self.names)):
            self.step("FIRST   ", step)

    def summary(self, target: TargetReport, *, with_steps: bool) -> None:
        about = phrases.named_target(target, self.given.targets)
        if self.has_verdicts:
            body = f"{about}: {wording.VERDICT_WORD[target.verdict].upper()}: {self.reason(target)}"
            self.wrapped("VERDICT ", body, style=VERDICT_STYLE[target.verdict], lead_style="bold")
        else:
            if target.unresolved:
                self.wrapped(
                    "", f"{about}: the source does not show what these are: {phrases.list_some(target.unresolved)}"
                )
            if target.assumed_dtype:
                self.wrapped("", f"{about}: the findings hold for {target.assumed_dtype}")
        bench = target.observation.bench
        if bench is not None:
            from tcready.reports.bench import bench_text, bench_view

            answer = bench_view.answer(bench)
            style = bench_text.BENCH_STYLE.get(answer, "bold")
            body = f"{about}: {answer.upper()}: {bench.reason}"
            self.wrapped("SPEED   ", body, style=style, lead_style="bold")
        if with_steps:
            for place, step in enumerate(steps(target, self.given, self.names)):
                self.step("THEN    " if place else "FIRST   ", step)

    def reason(self, target: TargetReport) -> str:
        """Write the reason of the verdict."""
        return wording.verdict_sentence(target)

    def step(self, lead: str, step: NextStep) -> None:
        self.wrapped(lead, step.words, lead_style="bold")
        self.code(step.code)


def _passed(target: TargetReport, name: str) -> bool:
    return any(stage.stage == name and stage.state == "pass" for stage in target.stages)


def environment_words(target: TargetReport) -> Iterable[tuple[str, str]]:
    """Describe the parts of the environment that affect the result, in a few words."""
    environment = target.environment or {}
    return [
        (key, str(environment[key]))
        for key in ("torch", "python", "device", "gpu", "dtype", "autocast")
        if environment.get(key)
    ]


def _some_lines(lines: Sequence[int]) -> str:
    """Format `2 lines (4, 9)`, the first few of many."""
    shown = ", ".join(map(str, lines[:MANY_ROWS])) + (", ..." if len(lines) > MANY_ROWS else "")
    return f"{phrases.number(len(lines), 'line')} ({shown})"


def _climbed(target: TargetReport) -> tuple[Sequence[Stage], Sequence[Stage]]:
    """Split the ladder before the last stages, which did not run and have no message."""
    stages = phrases.ladder(target)
    end = len(stages)
    while end and stages[end - 1].state == "not_run" and not stages[end - 1].detail:
        end -= 1
    return stages[:end], stages[end:]


def changed_lines(fix: Fix) -> list[str]:
    """Return the lines that a fix removes and adds, with those between them, without headers and context around."""
    found: list[str] = []
    lines: list[str] = []
    for line in (fix.diff or "").splitlines()[2:]:
        if line.startswith(("+", "-")):
            found += [*(lines if found else ()), line]
            lines = []
        elif line.startswith("@@"):
            lines = ["..."]
        else:
            lines.append(line)
    return found


def _fix_evidence(fix: Fix) -> Iterator[str]:
    """Yield the results of a run for a change, reservations, and settings with the same effect."""
    if fix.evidence is not None and fix.verified:
        yield wording.proof_words(fix.evidence)
    if fix.declined:
        yield fix.declined
    if fix.unsafe_because:
        yield f"not safe by construction: {fix.unsafe_because}"
    if fix.verified is not None:
        yield from (f"torch._dynamo.config.{name} = {value}" for name, value in fix.settings.items())
