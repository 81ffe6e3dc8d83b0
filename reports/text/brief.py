"""The short report: verdict and next steps, then a line or two for each finding."""

from __future__ import annotations

import shlex
from dataclasses import replace

from tcready.reports.shared import wording
from tcready.reports.shared.next_steps import NextStep, verdict_words
from tcready.reports.shared.phrases import duration, ladder, named_target, number, percent
from tcready.reports.shared.trace_wording import mode_words
from tcready.reports.text.column_width import cell_len
from tcready.reports.text.full import (
    LEVEL_STYLE,
    MANY_STATIC_TARGETS,
    MANY_TARGETS,
    STAGE_STYLE,
    LongText,
    environment_words,
)
from tcready.reports.text.terminal_layout import Write
from tcready.schema.enums import in_words, lines_of
from tcready.schema.report import Report, TargetReport
from tcready.schema.static import Finding
from tcready.schema.value_class import dataclass

SHOWN_REGIONS = 4
SHOWN_PLACES = 6
"""Maximum lines of findings in installed packages, of skipped files and of warnings, each."""
MANY_CELLS = 32
"""A longer name of a region moves its text to the next line."""
SHOWN_FRAMES = 4
"""Maximum number of functions of a job's trace that are shown with their times."""
SHOWN_RANKS = 8
"""Maximum number of processes that share a model, and of parts that DDPOptimizer made."""
SHOWN_SERVED = 6
"""Maximum number of classes, of operators and of findings of a serving engine."""
SHOWN_CODE = 6
"""Maximum number of lines to paste for one step."""


@dataclass(frozen=True)
class BriefLayout:
    """What is shown in addition to verdicts and a line for each finding."""

    code: bool
    """Show each finding's line of source."""
    details: bool
    """Show the tables of requested studies and the regions of each run."""
    findings: int | None = None
    """Maximum number of findings that are shown one by one."""

    @property
    def is_short(self) -> bool:
        """Return True if stages and findings in installed packages are left out."""
        return self.findings is not None


LAYOUTS = (
    BriefLayout(code=True, details=True),
    BriefLayout(code=False, details=True),
    BriefLayout(code=True, details=False),
    BriefLayout(code=False, details=False),
    BriefLayout(code=False, details=False, findings=5),
    BriefLayout(code=False, details=False, findings=0),
)
"""The most complete first."""


class BriefText(LongText):
    """Writes one report, line by line, as short as possible."""

    def __init__(
        self,
        write: Write,
        width: int,
        report: Report,
        third_party: bool,
        layout: BriefLayout,
        stored: str | None = None,
        *,
        of_a_result: bool = False,
    ) -> None:
        super().__init__(write, width, report, third_party, of_a_result=of_a_result)
        self.of_a_result = of_a_result
        self.has_verdicts = self.ran  # without a run, all are unknown: one sentence at the end says so
        self.stored = f" {shlex.quote(stored)}" if stored is not None else ""
        """The arguments with which `tcready explain` finds the report."""
        self.layout = layout
        self.parted = True
        """Nothing was written since the last empty line."""

    def line(self, *parts: str | tuple[str, str]) -> None:
        """Write a line as in the long form, but only the first of several empty lines."""
        if parts or not self.parted:
            super().line(*parts)
        self.parted = not parts

    def report(self) -> None:
        report = self.given
        self.summaries()
        self.line()
        single = [f for f in report.findings if f.origin == "own" or self.third_party]
        loud = wording.in_order(f for f in single if f.level != "note")
        last_on_line = {(finding.path, finding.line): finding for finding in loud}
        notes = wording.in_order(f for f in single if f.level == "note")
        for finding in [*loud, *notes][: self.layout.findings]:
            is_last = last_on_line.get((finding.path, finding.line)) is finding
            self.brief(finding, code=self.layout.code and is_last)
        if self.layout.findings and len(single) > self.layout.findings:
            hidden = number(len(single) - self.layout.findings, "more finding")
            self.line((f"... and {hidden} ({self.in_full})", "dim"))
        if single:
            self.line()
        if not self.third_party and not self.layout.is_short:
            self.installed([f for f in report.findings if f.origin == "third_party"], SHOWN_PLACES)
        ran = [target for target in report.targets if target.was_run]
        for target in ran:
            if target.observation.bench is not None:
                self.bench(target)
            if len(ran) <= MANY_TARGETS:
                self.details(target)
        read = [target for target in report.targets if not target.was_run]
        calls = ((target, target.observation.compiled_at) for target in read)
        judged = [f"{named_target(each, report.targets)}, at {call.words}" for each, call in calls if call is not None]
        if self.layout.details:
            self.listing("compiled by your code", judged, SHOWN_PLACES)
        if self.layout.details and len(read) <= MANY_STATIC_TARGETS:
            for target in read:
                self.regions(target)
        self.serving(SHOWN_SERVED)
        skipped = [f"{item.path}: {item.reason}" for item in report.skipped]
        self.listing("skipped files", skipped, SHOWN_PLACES)
        self.listing("warnings", list(report.warnings), SHOWN_PLACES)
        if single and not self.layout.is_short:
            named = f"{self.names[(loud or notes)[0].fingerprint]}{wording.visible(self.stored)}"
            more = f"`tcready explain {named}` explains that finding; `-v` shows the full report."
            if self.of_a_result:
                more = f"`{self.in_full}` of this result (`_` in IPython) is all of the report."
            self.wrapped("", more, "dim")
        if read and not ran and not self.stored and not self.of_a_result:
            how = "`--run` runs a model, with generated inputs unless `--inputs` names some."
            more = f"Nothing was run{wording.predicted_for(report)}: {how}"
            self.wrapped("", more, "dim")
        self.counts()

    # The verdicts, and what to do first

    def reason(self, target: TargetReport) -> str:
        """Return the reason in fewer words than in the long form."""
        return verdict_words(target) or wording.verdict_sentence(target)

    def step(self, lead: str, step: NextStep) -> None:
        """Write a step with no more than a few of its lines."""
        code = lines_of(step.code) if step.code else []
        super().step(lead, replace(step, code="\n".join(code[:SHOWN_CODE])))
        if len(code) > SHOWN_CODE:
            self.line((f"      ... and {number(len(code) - SHOWN_CODE, 'more line')} ({self.in_full})", "dim"))

    # A finding

    def brief(self, finding: Finding, *, code: bool) -> None:
        if any(target.observation.bench is not None for target in self.given.targets):
            place = f"{finding.path}:{finding.line}:{finding.column}:"
            what = f"{wording.code_of(finding)} {finding.level} {finding.message}"
            name = self.names[finding.fingerprint]
            self.wrapped("", f"{place} {what} ({_known(finding)}) {name}", LEVEL_STYLE[finding.level])
            if code:
                self.source(finding, caret=False)
            return
        self.line(
            (f"{wording.visible(finding.path)}:{finding.line}:{finding.column}:", "bold"),
            " ",
            (f"{wording.visible(wording.code_of(finding))} {finding.level}", LEVEL_STYLE[finding.level]),
            f" {wording.visible(finding.message)} ",
            (f"({_known(finding)}) {wording.visible(self.names[finding.fingerprint])}", "dim"),
        )
        if code:
            self.source(finding, caret=False)

    # What a run showed

    def bench(self, target: TargetReport) -> None:
        """Write the bench. The headline has the verdict, and the first step the lines to paste."""
        bench = target.observation.bench
        if bench is not None:
            from tcready.reports.bench import bench_text

            self.laid_out(bench_text.brief(bench, self.width))

    def details(self, target: TargetReport) -> None:
        seen = target.observation
        if not self.layout.is_short:
            self.wrapped("", named_target(target, self.given.targets), style="bold underline")
        about = [mode_words(target), *(f"{key} {value}" for key, value in environment_words(target))]
        if seen.convention:
            about.append(f"inputs: {seen.convention}")
        if seen.compiled_at is not None:
            about.append(f"compiled at {seen.compiled_at.words}")
        self.wrapped("  ", " · ".join(about), style="dim")
        if self.layout.is_short:
            return
        self.stages(target)
        if seen.coverage is not None and (note := wording.times_note(seen.coverage)):
            self.row("times", note)
        for index, line in enumerate(wording.training_rows(seen.training) if seen.training else ()):
            self.row("" if index else "training", line)
        self.line()
        if not self.layout.details:
            return
        if seen.trace is not None:
            self.recompiles(target, SHOWN_FRAMES)
            self.trace(target, SHOWN_FRAMES)
        if seen.parallel is not None:
            self.ranks(target, SHOWN_RANKS)
            self.line()
        self.backend(target)
        self.custom_ops(target)
        self.shapes(target)
        if seen.plan is not None:
            self.placements(seen.plan)
        self.regions(target)

    def stages(self, target: TargetReport) -> None:
        """Write passed stages and those that did not run in a line each; failed ones with their message. After a
        bench, the stages that did not run are left to the long form: the bench says itself what it lacks."""
        stages = ladder(target)
        words_of = {"pass": ""} if target.observation.bench is not None else {"pass": "", "not_run": "not run: "}
        for state, words in words_of.items():
            names = ", ".join(stage.stage for stage in stages if stage.state == state)
            if names:
                self.wrapped(
                    f"  {wording.STAGE_SIGN[state]} ", words + names, style="dim", lead_style=STAGE_STYLE[state]
                )
        for stage in stages:
            if stage.state == "fail":
                took = f" ({duration(stage.seconds)})" if stage.seconds is not None else ""
                lead = f"  {wording.STAGE_SIGN['fail']} {stage.stage}: "
                self.wrapped(lead, (stage.detail or "failed") + took, lead_style=STAGE_STYLE["fail"])

    def regions(self, target: TargetReport) -> None:
        """Write parts of the model that can be compiled, a line each, and how to see more."""
        modules = [region for region in target.regions if region.kind != "lines" and region.name]
        if not modules:
            return
        about = "" if target.was_run else f" of {named_target(target, self.given.targets)}"
        self.wrapped("  compile regions", about, style="dim", lead_style="bold")
        shown = modules[:SHOWN_REGIONS]
        names = [wording.visible(region.name) for region in shown]
        wide = min(max(map(cell_len, names)), MANY_CELLS)
        for name, region in zip(names, shown, strict=True):
            shares = ((region.time_share, "time"), (region.ops_share, "operations"))
            facts = [wording.region_word(region, target)]
            facts += [number(region.instances, "instance")] if region.instances else []
            facts += [f"{percent(share)} of the {of}" for share, of in shares if share is not None]
            self.wrapped(f"    {name}{' ' * (wide - cell_len(name))}  ", ", ".join(facts), lead_style="")
        if len(modules) > SHOWN_REGIONS:
            self.line((f"    ... and {len(modules) - SHOWN_REGIONS} more ({self.in_full})", "dim"))
        if proof := wording.how_to_prove(target, self.given):
            self.wrapped("    ", proof, style="dim")
        self.line()


def _known(finding: Finding) -> str:
    """Describe how a finding is known, and the types to which it is limited."""
    status = finding.status.replace("_", " ")
    return f"{status} in {in_words(finding.dtypes)} only" if finding.dtypes and status == "predicted" else status
