"""Markdown for a comment on a pull request: the verdict and next steps, the rest folded."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tcready.reports.bench import bench_view
from tcready.reports.shared import wording
from tcready.reports.shared.anonymous_paths import without_absolute_paths
from tcready.reports.shared.phrases import ladder, percent, sentence, shorten
from tcready.reports.sweep.sweep_view import by_urgency, changes, fix_words, headline, laid_out, site_words, why
from tcready.schema.report import Report, TargetReport
from tcready.schema.static import Finding

if TYPE_CHECKING:
    from tcready.schema.bench import Bench
    from tcready.schema.run import Plan, ShapeStudy
    from tcready.schema.sweep import Sweep

FIRST = 10
"""Number of findings in the comment that are not folded."""
SWEPT = 30
"""Number of models of a sweep that are shown."""
LIMIT = 60_000
"""Maximum characters; GitHub allows 65,536 in a comment."""
SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~<>@-])")


def render(report: Report, *, third_party: bool = False) -> str:
    """Return the comment. Findings in installed packages are counted, and listed only with `third_party`."""
    shown = without_absolute_paths(report)
    own = wording.findings_to_list(shown, third_party)
    heavy = [f for f in own if f.level != "note"]
    ran = [target for target in shown.targets if target.was_run]
    verdicts = _sweep(shown.sweep) if shown.sweep is not None else [_verdict(target) for target in ran]
    parts = ["### tcready", *verdicts]
    nothing = "No findings in your code." if shown.targets else "Nothing was checked."
    parts.append(f"**{wording.level_counts(own)}** in your code." if own else nothing)
    if in_other_types := wording.types_sentence(shown):
        parts.append(plain(f"{in_other_types[0].upper()}{in_other_types[1:]}."))
    if hidden := wording.narrowed_sentence(shown):
        parts.append(plain(f"{hidden[0].upper()}{hidden[1:]}."))
    other = [f for f in shown.findings if f.origin == "third_party"]
    if other and not third_party:
        parts.append(f"In installed packages: {wording.level_counts(other)}.")
    if heavy:
        parts.append(_table(heavy[:FIRST]))
    rest = [*heavy[FIRST:], *(f for f in own if f.level == "note")]
    if rest:
        parts.append(_folded(f"{len(rest)} more", _table(rest)))
    for target in ran:
        if target.observation.bench is not None:
            parts += _bench(target, target.observation.bench)
        if target.observation.plan is not None:
            parts += _plan(target, target.observation.plan)
    for target in ran if shown.sweep is None else ():
        stages = "\n".join(
            f"- {wording.STAGE_SIGN[stage.state]} {stage.stage}{': ' + plain(stage.detail) if stage.detail else ''}"
            for stage in ladder(target)
        )
        parts.append(_folded(f"Stages of {plain(target.target)}", stages))
        study = target.observation.shapes
        if study is not None and (study.trials or study.axes):
            parts.append(_folded(f"Other sizes of {plain(target.target)}", _shapes(study)))
    if shown.skipped:
        skipped = "\n".join(f"- {code(item.path)}: {plain(item.reason)}" for item in shown.skipped)
        parts.append(_folded(f"{len(shown.skipped)} skipped", skipped))
    text = "\n\n".join(parts) + "\n"
    if len(text) > LIMIT:  # cut between lines; a fold that stays open ends with the comment
        text = text[:LIMIT].rsplit("\n", 1)[0] + "\n\n... cut: the HTML report has all of it.\n"
    return text


def _sweep(sweep: Sweep) -> list[str]:
    """Yield the number of models by result, the worst of them, where most break, and changes since the last sweep."""
    parts = [f"**{plain(headline(sweep))}**"]
    models = by_urgency(sweep.models)
    layout = laid_out(sweep)
    heads = layout.columns
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for each in models[:SWEPT]:
        first, *others = layout.cells(each)
        rows.append(f"| {code(first)} | {' | '.join(map(plain, others))} |")
    parts.append("\n".join(rows))
    if len(models) > SWEPT:
        parts.append(f"and {len(models) - SWEPT} more.")
    reasons = [f"- {code(layout.named(each))}: {plain(reason)}" for each in models[:SWEPT] if (reason := why(each))]
    if reasons:
        parts.append("\n".join(reasons))
    if sweep.sites:
        sites = ["| where models break | what | |", "|---|---|---|"]
        for site in sweep.sites[:FIRST]:
            what = f"{plain(site.what)} {plain(site.message)}"
            sites.append(f"| {code(f'{site.path}:{site.line}')} | {what} | {plain(site_words(site))} |")
        parts.append("\n".join(sites))
    if sweep.fixes:
        parts.append(f"First {plain(fix_words(sweep.fixes[0]))} (as the rules say, not tried).")
    changed = [f"- {code(name)}: {plain(text)}" for name, text in changes(sweep)]
    if changed:
        parts.append(_folded(f"{len(changed)} changed since the last sweep", "\n".join(changed)))
    elif sweep.has_last:
        parts.append("Nothing changed since the last sweep.")
    return parts


def _verdict(target: TargetReport) -> str:
    sign = {"ready": "✅", "ready_by_region": "🟡", "not_ready": "❌", "unknown": "⚪"}[target.verdict]
    covered = f" {percent(target.coverage.share)} of operations in graphs." if target.coverage else ""
    return (
        f"{sign} {code(target.target)} **{wording.VERDICT_WORD[target.verdict]}**: {plain(target.verdict_reason)}."
        + covered
    )


def _plan(target: TargetReport, plan: Plan) -> list[str]:
    """Yield what to compile; other placements are folded."""
    advice = f"{wording.plan_title(plan)}: {plain(wording.plan_reason(plan))}"
    shown = [f"**Which parts to compile** of {code(target.target)}: {advice}."]
    if plan.code:
        shown += [_block(plan.code), plain(sentence(f"{wording.keys_sentence(plan)}."))]
    folded = []
    if plan.alternatives:
        rows = [
            f"| placement | {' | '.join(wording.PLACEMENT_COLUMNS)} | |",
            "|---" * (len(wording.PLACEMENT_COLUMNS) + 2) + "|",
        ]
        for row in wording.placement_rows(plan):
            name = f"**{row.name}**" if row.recommended else row.name
            rows.append(f"| {name} | {' | '.join(map(plain, row.cells))} | {plain(shorten(row.note))} |")
        folded.append("\n".join(rows))
    for what, placement in wording.beside_the_plan(plan):
        folded += [plain(f"{sentence(what)}: {wording.placement_sentence(placement)}."), _block(placement.code)]
    for what, lines in wording.further_lines(plan):
        folded += [f"{sentence(what)}:", _block(lines)]
    folded += [plain(f"Not done: {text}.") for text in plan.cut]
    return [*shown, _folded("Placements that were tried", "\n\n".join(folded))] if folded else shown


def _bench(target: TargetReport, bench: Bench) -> list[str]:
    """Yield the verdict, a table for each case, and the checklist; code, notes and the rest are folded."""
    shown = [f"**Is it worth compiling** {code(target.target)}: **{bench_view.answer(bench)}**: {plain(bench.reason)}."]
    folded: list[str] = []
    whole = bench_view.summary(bench)
    for case, notes in bench_view.new_notes(bench):
        found = bench_view.table(case, bench_view.with_throughput(case, bench_view.IN_SHORT))
        rows = [
            f"| {plain(bench_view.case_title(case))} | {' | '.join(map(plain, found.headings))} |",
            "|---" * (len(found.headings) + 1) + "|",
        ]
        for row in found.rows:
            name = f"**{plain(row.arm)}**" if row.recommended else plain(row.arm)
            rows.append(f"| {name} | {' | '.join(map(plain, row.cells))} |")
        (shown if whole in (None, case) else folded).append("\n".join(rows))
        if own := bench_view.noise_of(bench, case):
            notes = (*notes, ("noise", own))
        if notes:
            of_case = "\n".join(f"- {plain(f'{arm}: {note}')}" for arm, note in notes)
            folded.append(f"{plain(sentence(case.case))}:\n\n{of_case}")
    for what, lines in bench_view.ways(bench):
        folded += [f"{plain(sentence(what))}:", _block(lines)]
    beside = [(label, text) for label, text in bench_view.facts(bench) if label != "repeat it"]
    beside += [("not done", text) for text in bench.cut]
    if beside:
        folded.append("\n".join(f"- {label}: {plain(text)}" for label, text in beside))
    if bench.command:
        folded.append(f"Again:\n\n{_block(wording.visible(bench.command), 'sh')}")
    if bench.checklist:
        boxes = "\n".join(
            f"- [{'x' if item.state == 'pass' else ' '}] {plain(item.item)}: {bench_view.CHECK_WORD[item.state]}"
            + (f": {plain(item.detail)}" if item.detail else "")
            for item in bench.checklist
        )
        done = sum(item.state == "pass" for item in bench.checklist)
        folded.append(f"Before adopting it, {done} of {len(bench.checklist)}:\n\n{boxes}")
    return [*shown, _folded("What was measured, and what is left to do", "\n\n".join(folded))] if folded else shown


def _block(text: str, language: str = "python") -> str:
    """Return a fenced block that nothing in the text can end."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{wording.visible(text, keep=chr(10))}\n{fence}"


def _table(findings: Sequence[Finding]) -> str:
    rows = ["| where | what | status |", "|---|---|---|"]
    for finding in findings:
        cost = f"<br>{plain(wording.cost_sentence(finding))}" if finding.cost else ""
        rows.append(
            f"| {code(f'{finding.path}:{finding.line}')} | {finding.level} {plain(wording.code_of(finding))} "
            f"{plain(finding.message)}{cost} | {finding.status.replace('_', ' ')} |"
        )
    return "\n".join(rows)


def _shapes(study: ShapeStudy) -> str:
    """Yield the conclusion for each axis, and below it the settings, the best first."""
    parts: list[str] = []
    for row in wording.shape_rows(study):
        axis = row.axis
        follows = f"fixed: {axis.fixed}" if axis and axis.fixed else row.advice.text if row.advice else "-"
        parts.append(f"**{plain(row.varied)}** {plain(row.sizes)}: {plain(follows)}")
        if row.advice and row.advice.code:
            parts.append("\n".join(code(line) for line in row.advice.code.splitlines()))
        if row.trials:
            rows = [f"| {' | '.join(wording.SHAPE_HEADINGS)} |", "|---" * len(wording.SHAPE_HEADINGS) + "|"]
            rows += [f"| {' | '.join(map(plain, wording.shape_cells(trial)))} |" for trial in row.ranked]
            parts.append("\n".join(rows))
    parts += [plain(f"not done: {text}") for text in study.cut]
    return "\n\n".join(parts)


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def plain(text: str) -> str:
    """Return one line without Markdown, HTML or mentions."""
    return SPECIAL.sub(r"\\\1", html.escape(wording.visible(text), quote=False))


def code(text: str) -> str:
    """Return inline code without bars, which end a table's cell, and backticks, which end the code."""
    return "`" + wording.visible(text).replace("`", "'").replace("|", "\\|") + "`"
