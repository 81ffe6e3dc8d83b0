"""Texts that readable formats share: the words for a status, what counts, which line is meant.

Pure functions over `tcready.schema`; no markup and no layout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from tcready.portable.target import NOTEBOOK, Target, quote
from tcready.reports.shared.phrases import duration, first_line, ladder, list_some, named_target, number, percent
from tcready.schema.break_effect import BreakEffect, FrameFate
from tcready.schema.capture_failures import Break, CaptureFailures
from tcready.schema.enums import (
    LEVELS,
    PLACEMENT_WORDS,
    RegionState,
    StageName,
    Status,
    TrainingPhase,
    Verdict,
    in_words,
)
from tcready.schema.enums import visible as visible
from tcready.schema.fix import Fix
from tcready.schema.observation import device_kind
from tcready.schema.report import Region, Report, TargetReport
from tcready.schema.static import Finding, RuleText
from tcready.schema.value_class import dataclass

if TYPE_CHECKING:
    from tcready.schema.fix import Proof
    from tcready.schema.parallel import Ddp
    from tcready.schema.run import (
        Backend,
        BreakSite,
        Coverage,
        CudaGraphSkip,
        CustomOp,
        ParityCause,
        Placement,
        Plan,
        Recompile,
        ShapeAdvice,
        ShapeAxis,
        ShapeStudy,
        ShapeTrial,
        SkippedFrame,
        Training,
        TrainingPart,
    )

STAGE_SIGN = {"pass": "✅", "fail": "❌", "not_run": "⚪"}
STAGE_WORD = {"pass": "passed", "fail": "failed", "not_run": "not run"}
VERDICT_WORD: dict[Verdict, str] = {
    "ready": "ready",
    "ready_by_region": "ready by region",
    "not_ready": "not ready",
    "unknown": "unknown",
}
STATUS_WORD: dict[Status, str] = {
    "confirmed": "confirmed",
    "not_observed": "not observed",
    "not_traced": "not traced",
    "not_reached": "not reached",
    "runtime_only": "seen only in the run",
    "predicted": "predicted",
}
EFFECT_WORD = {
    "graph_break": "graph break",
    "frame_skip": "skipped frame",
    "recompile": "recompile",
    "compile_error": "compile error",
    "wrong_result": "wrong result",
    "sync": "host-device sync",
    "cudagraph_skip": "no CUDA graph",
    "slow": "slow when compiled",
    "intent": "intended",
}
_NOT_SHOWN: dict[Status, str] = {
    "not_observed": "the line was traced and it did not show",
    "not_traced": "the line ran inside a frame that Dynamo had given up on",
    "not_reached": "the line did not run for these inputs",
}
_AROUND: dict[str | None, str] = {
    None: "",
    "construct": "",
    "generator": "a generator",
    "property": "reads a property",
    "iterator": "in a generator or iterator",
    "checkpoint": "below a checkpoint",
    "no tensor": "no tensor goes in",
}
"""Why a function is not split, if the reason is not a statement around the place."""
_TRAINING_ROWS: tuple[tuple[TrainingPhase, ...], ...] = (
    ("loss", "gradients"),
    ("forward", "backward"),
    ("optimizer",),
    ("step",),
)
TIME_GROUPS: tuple[tuple[str, tuple[StageName, ...]], ...] = (
    ("import", ("import",)),
    ("build", ("build",)),
    ("eager", ("eager",)),
    ("Dynamo", ("capture", "fullgraph", "shapes", "plan")),
    ("comparison", ("parity",)),
    ("Inductor", ("backend",)),
)
"""Uses of the time of a run, and the stages that belong to each. A training step belongs to Dynamo too; the rest is
`other`: the start and the end of the process, and the time between stages."""
_REGION_WORD: dict[RegionState, str] = {"predicted": "predicted, not run", "proved": "proved", "refuted": "refuted"}
PLACEMENT_COLUMNS = ("of ops", "of time", "graphs", "recompiles", "cold compile", "parity")
_PARITY_WORD = {True: "same", False: "differs", None: "unknown"}
_UNKNOWN = "\u2013"
"""A dash."""
_FALLBACK: dict[Verdict, str] = {
    "ready": "captured whole",
    "ready_by_region": "it breaks, but regions with at least half of its operations or of their time do not",
    "not_ready": "it breaks, and no regions with half of its operations or of their time are free of breaks",
    "unknown": "nothing ran",
}


PHASE_WORD: Mapping[str, str] = MappingProxyType(
    {
        "dynamo": "Dynamo",
        "aot_autograd": "AOTAutograd",
        "inductor": "Inductor",
        "triton": "Triton",
        "cpp": "the C++ compiler",
        "kernels": "compilers of kernels",
    }
)
"""Names of the phases of compiling, for people."""


def training_rows(training: Training) -> list[str]:
    """Yield the parts of a training step in a few lines; one line with the reason if there was nothing to train."""
    parts = {part.phase: part for part in training.parts}
    if training.loss is None and "loss" in parts:
        return [_part(parts["loss"])]
    rows = ([_part(parts[phase]) for phase in row if phase in parts] for row in _TRAINING_ROWS)
    return ["; ".join(row) for row in rows if row]


def _part(part: TrainingPart) -> str:
    word = "" if part.state == "pass" else f"{STAGE_WORD[part.state]}: "
    return f"{part.phase}: {word}{part.detail}"


def kind_of(reason: str) -> str:
    """Return the kind of a break: its reason's first line up to the colon, if that is short."""
    line = first_line(reason)
    kind, _, _ = line.partition(": ")
    return kind if len(kind) <= 60 else line


def offers_change(fix: Fix | None) -> bool:
    """Return True if a fix has more than the rule's own example: a diff, or the result of a run."""
    return fix is not None and (fix.diff is not None or fix.verified is not None or fix.declined is not None)


def fix_words(fix: Fix) -> str:
    """Return whether a change is equivalent, and what a run showed of it."""
    proof = {True: "verified by a run", False: "a run refuted it", None: "not verified by a run"}[fix.verified]
    return f"{'safe by construction' if fix.safe else 'read it first'}; {proof}"


def time_sentence(target: TargetReport) -> str:
    """Format `12.3 s: import 30 %, Dynamo 50 %, other 20 %`: the time of a run with the shares of its stages by
    TIME_GROUPS.

    Empty if the time is unknown.
    """
    seen = target.observation
    if not seen.seconds:
        return ""
    spent = {stage.stage: stage.seconds or 0.0 for stage in target.stages}
    # These parts of a training step follow the stage `parity`, which has the others in it.
    parts = seen.training.parts if seen.training else ()
    training = sum(part.seconds or 0.0 for part in parts if part.phase not in ("loss", "gradients"))
    groups = [(name, sum(spent.get(stage, 0.0) for stage in stages)) for name, stages in TIME_GROUPS]
    groups = [(name, seconds + (training if name == "Dynamo" else 0.0)) for name, seconds in groups]
    other = seen.seconds - sum(seconds for _, seconds in groups)
    shares = [
        f"{name} {percent(seconds / seen.seconds)}" for name, seconds in (*groups, ("other", other)) if seconds > 0
    ]
    return f"{duration(seen.seconds)}: {', '.join(shares)}"


def region_word(region: Region, target: TargetReport) -> str:
    """Return the certainty of a region; the whole of a model that a run captured is not a prediction."""
    found = CaptureFailures.of(target.observation)
    captured = target.verdict == "ready" or (bool(found.own_compiles) and not found.words())
    whole = region.name == "" and region.state == "predicted" and captured
    return "captured whole" if whole else _REGION_WORD[region.state]


def how_to_prove(target: TargetReport, report: Report) -> str:
    """Return the result of `proving` as a sentence; empty if there is none."""
    found = proving(target, report)
    return "{} `{}`{}".format(*found) if found else ""


def predicted_for(report: Report) -> str:
    """Return ` (predictions for torch 2.13)`; empty if an older tcready did not record the version."""
    versions = dict.fromkeys(reading.torch for reading in report.readings if reading.torch)
    return f" (predictions for torch {' and '.join(versions)})" if versions else ""


def proving(target: TargetReport, report: Report) -> tuple[str, str, str] | None:
    """Return how to try the predicted regions: words before, the command, words after it; None if no region is
    predicted, or a plan has tried all it could.

    No command tries lines between breaks.
    """
    predicted = any(
        region.kind != "lines" and region_word(region, target).startswith("predicted") for region in target.regions
    )
    seen = target.observation
    if not predicted or seen.plan is not None or device_kind(seen) == "meta":
        return None
    if report.in_process or Target.place_in(target.target).endswith(NOTEBOOK):
        behind = ": it compiles each of these regions alone."
        return "To prove what is predicted, call", "tcready.check(model, inputs, plan=True)", behind
    words = [word for word in seen.asked if word not in ("--plan", "--no-plan")] or [target.target]
    if seen.brought_from:  # its machine is not this one
        command = f"python worker.pyz --target {' '.join(map(quote, words))} --plan -o {quote(seen.brought_from)}"
        behind = ", and give that file with `--observation` again: it compiles each of these regions alone."
        return "To prove what is predicted, where it was run call", command, behind
    command = f"tcready check {' '.join(map(quote, words))} --run --plan"
    # an older tcready did not write down what was asked
    inputs = " with the same `--inputs`" if seen.inputs_from == "option" and not seen.asked else ""
    lines = any(region.kind == "lines" for region in target.regions)
    aside = ", except regions that are lines of a function" if lines else ""
    behind = f"{inputs}: it compiles each of these regions alone{aside}."
    return "To prove what is predicted, run", command, behind


def again_sentence(region: Region) -> str:
    """Return why instances recompile, and the fix that was tried; empty if neither is known."""
    parts = [f"instances compile again on {list_some(region.guards)}"] if region.guards else []
    if region.cure:
        parts.append(f"tried: {region.cure}")
    return "; ".join(parts)


def captured_phrase(region: Region) -> str:
    """Return how much of a region's own operations ran in graphs, and when; empty if nothing was measured."""
    if region.ops_captured_share is None:
        return ""
    return f"{percent(region.ops_captured_share)} {'alone' if region.state == 'proved' else 'as it is'}"


def plan_title(plan: Plan) -> str:
    """Return the recommendation; `plan_reason` has the reason."""
    word = PLACEMENT_WORDS[plan.recommended]
    return f"recommended: {word}" if plan.code else word


def plan_reason(plan: Plan) -> str:
    """Return the reason of the recommendation: what it captures, and how it was chosen."""
    return f"{plan.reason}; chosen {plan.chosen_by}" if plan.chosen_by else plan.reason


@dataclass(frozen=True)
class PlacementRow:
    """One line of a plan's table, in words."""

    name: str
    recommended: bool
    sound: bool
    cells: tuple[str, ...]
    """One for each of PLACEMENT_COLUMNS."""
    note: str
    """Why it is excluded, or a remark; may be empty."""


def placement_rows(plan: Plan) -> list[PlacementRow]:
    """Return every placement that was tried, in order."""
    seen_reasons: set[str] = set()
    return [
        PlacementRow(
            PLACEMENT_WORDS[item.name],
            (item.name, item.code) == (plan.recommended, plan.code),
            item.sound,
            (
                _UNKNOWN if item.share is None else percent(item.share),
                _UNKNOWN if item.time_share is None else percent(item.time_share),
                _UNKNOWN if item.graphs is None else str(item.graphs),
                _UNKNOWN if item.recompiles is None else str(item.recompiles),
                compile_phrase(item) or _UNKNOWN,
                _UNKNOWN if item.share is None else _PARITY_WORD[item.parity],
            ),
            item.reason if item.sound else f"out: {_reason_once(item.reason, seen_reasons)}",
        )
        for item in plan.alternatives
    ]


def _reason_once(reason: str, seen_reasons: set[str]) -> str:
    """Return the reason, only once; it is then added to the set."""
    if reason in seen_reasons:
        return "for the same reason"
    seen_reasons.add(reason)
    return reason


def compile_phrase(placement: Placement) -> str:
    """Format `0.7 s (eager)`: the compile time, and the backend; empty if unknown."""
    if placement.compile_seconds is None:
        return ""
    return duration(placement.compile_seconds) + (f" ({placement.backend})" if placement.backend else "")


def beside_the_plan(plan: Plan) -> list[tuple[str, Placement]]:
    """Yield the smallest placement and the quickest to compile, each with a label, unless it is the recommended one."""
    found = [("smallest that holds 80 % of the time", plan.smallest), ("quickest to compile", plan.quickest)]
    words: dict[str, list[str]] = {}
    placements: dict[str, Placement] = {}
    for word, placement in found:
        if placement is not None and placement.code != plan.code:
            words.setdefault(placement.code, []).append(word)
            placements.setdefault(placement.code, placement)
    return [(", and ".join(words[code]), placement) for code, placement in placements.items()]


def placement_sentence(placement: Placement) -> str:
    """Format `regions: 91 % of operations, 90 % of their time, compiled in 0.2 s (eager)`."""
    facts = [] if placement.share is None else [f"{percent(placement.share)} of operations"]
    if placement.time_share is not None:
        facts.append(f"{percent(placement.time_share)} of their time")
    if taken := compile_phrase(placement):
        facts.append(f"compiled in {taken}")
    return f"{PLACEMENT_WORDS[placement.name]}: {', '.join(facts)}"


def keys_sentence(plan: Plan) -> str:
    """Return the effect of the recommended code on the keys of the state_dict; empty if none is recommended."""
    if not plan.code:
        return ""
    tried = f"; {plan.checkpoint}" if plan.checkpoint else ""
    if not plan.state_dict_changes:
        return f"state_dict keys stay as they are{tried}"
    return f"state_dict keys that change: {', '.join(plan.state_dict_changes)}{tried}"


def further_lines(plan: Plan) -> list[tuple[str, str]]:
    """Yield the rollback to eager and the lines for production, each with a label, if they were tried."""
    found = [("back to eager", plan.rollback), ("in production", plan.production)]
    return [(what, lines) for what, lines in found if lines]


def verdict_sentence(target: TargetReport) -> str:
    """Return the verdict's reason; if the report has none, one that names the stages that did not run."""
    if target.verdict_reason:
        return target.verdict_reason
    missing = ", ".join(stage.stage for stage in ladder(target) if stage.state == "not_run")
    return _FALLBACK[target.verdict] + (f"; not run: {missing}" if missing else "")


def code_of(finding: Finding) -> str:
    """Return the rule's code; for what only a run showed the ID of PyTorch's registry, or a dash if it has none."""
    return finding.rule or next(iter(finding.gb_ids), "-")


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by place: path, line, column, rule."""

    def key(finding: Finding) -> tuple[object, ...]:
        path, number = finding.path, 0
        if finding.cell is not None:  # cell 10 after cell 9
            path, number = path.partition(":cell ")[0], finding.cell.number
        return path, number, finding.line, finding.column, finding.rule or "", finding.fingerprint

    return sorted(findings, key=key)


def findings_to_list(report: Report, third_party: bool) -> list[Finding]:
    """Return the findings that a format lists one by one, by place: those in installed packages only on request."""
    return in_order(f for f in report.findings if third_party or f.origin == "own")


def heaviest_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by level, errors first; those of one level keep their order."""
    return sorted(findings, key=lambda f: -LEVELS.index(f.level))


def rules_by_code(report: Report) -> dict[str, RuleText]:
    """Return the texts that findings name: rules, and advice on types of breaks."""
    return {text.code: text for text in (*report.rules, *report.advice)}


def advice_on(finding: Finding, rules: Mapping[str, RuleText]) -> RuleText | None:
    """Return the text on why it happens and what to do: its rule, or the advice on the type of break that a run
    showed."""
    return rules.get(finding.rule or finding.advice or "")


def status_phrase(finding: Finding, ran: bool) -> str:
    """Describe how the finding is known, in a few words; `ran`: the report contains a run."""
    seen = f": {', '.join(finding.gb_ids)}" if finding.gb_ids else ""
    if finding.status == "confirmed":
        return f"confirmed by Dynamo{seen}"
    if finding.status == "runtime_only":
        return f"seen only in the run{seen}; no rule predicts it"
    if finding.status == "predicted":
        types = f" in {in_words(finding.dtypes)} only" if finding.dtypes else ""
        return f"predicted{types}; " + ("this run could not show it" if ran else "no run")
    lines = run_evidence(finding)
    return f"predicted; {lines[0] if lines else _NOT_SHOWN[finding.status]}"


def was_shown(finding: Finding) -> bool:
    """Return True if a run showed it."""
    return finding.status in ("confirmed", "runtime_only")


def level_counts(findings: Iterable[Finding]) -> str:
    """Format `2 errors, 1 note`; empty if there is none."""
    count = Counter(finding.level for finding in findings)
    return ", ".join(number(count[level], level) for level in ("error", "warning", "note") if count[level])


def status_counts(findings: Iterable[Finding]) -> str:
    """Format `2 confirmed, 1 predicted`, in the order of STATUS_WORD."""
    count = Counter(finding.status for finding in findings)
    return ", ".join(f"{count[status]} {word}" for status, word in STATUS_WORD.items() if count[status])


def skipped_frames(target: TargetReport) -> list[SkippedFrame]:
    """Return skipped frames with tensor work, by place, whatever the reason."""
    skipped = (frame for frame in target.observation.skipped_frames if not frame.benign)
    return sorted(skipped, key=lambda f: (f.path, f.line, f.symbol, f.case or "", f.reason))


def then_sentence(item: Break) -> str:
    """Return Dynamo's action at a break: `resume`, `skip frame: Net.forward`."""
    did = item.first.action.replace("_", " ")
    return f"{did}: {list_some([frame.symbol for frame in item.skipped])}" if item.skipped else did


@dataclass(frozen=True)
class ShapeRow:
    """One axis of a shape study, or the cases (`axis` None): its trials by setting, and the conclusion."""

    varied: str
    axis: ShapeAxis | None
    trials: tuple[ShapeTrial, ...]
    advice: ShapeAdvice | None

    @property
    def places(self) -> str:
        """Format `x dimension 0, mask dimension 0`; empty for the cases."""
        dimensions = self.axis.dimensions if self.axis else ()
        return ", ".join(f"{place.argument} dimension {place.dimension}" for place in dimensions)

    @property
    def sizes(self) -> str:
        """Return the calls, in order: `4, then 5, 6, 7, 1`, or the names of the cases."""
        calls = max((trial.calls for trial in self.trials), key=len, default=())
        if self.axis is None:
            return ", ".join(call.label for call in calls if not call.identical)
        others = [call.size for call in calls if call.size is not None] or list(self.axis.sizes)
        return f"{self.axis.size}, then {', '.join(map(str, others))}" if others else str(self.axis.size)

    @property
    def ranked(self) -> tuple[ShapeTrial, ...]:
        """Return the trials, the best first; excluded ones last."""
        order = self.advice.ranking if self.advice else ()
        best = [trial for setting in order for trial in self.trials if trial.setting == setting]
        return (*best, *(trial for trial in self.trials if trial not in best))


SHAPE_HEADINGS = ("setting", "captured", "breaks", "recompiles", "compiling")


def shape_cells(trial: ShapeTrial) -> tuple[str, ...]:
    """Return one row below `SHAPE_HEADINGS`; for an excluded setting, the reason."""
    if not trial.sound:
        return trial.setting, "raised" if trial.error else "differs", "", "", ""
    share = "-" if trial.share is None else percent(trial.share)
    seconds = "-" if trial.compile_seconds is None else f"{trial.compile_seconds:.2f} s"
    return trial.setting, share, str(trial.break_sites), str(trial.recompiled), seconds


def shape_rows(study: ShapeStudy) -> list[ShapeRow]:
    """Return the cases first, if there are several, then each axis, then those that were varied together."""
    axes = {axis.name: axis for axis in study.axes}
    advice = {item.varied: item for item in study.advice}
    varied = [trial.varied for trial in study.trials]
    first = next((number for number, name in enumerate(varied) if name in axes), len(varied))
    names = dict.fromkeys([*varied[:first], *axes, *varied[first:]])
    return [
        ShapeRow(name, axes.get(name), tuple(t for t in study.trials if t.varied == name), advice.get(name))
        for name in names
    ]


def trial_phrase(trial: ShapeTrial) -> str:
    """Format `2 recompiles`, and other results."""
    count = number(trial.recompiled, "recompile")
    if trial.error:
        return f"{count}, then raised {trial.error}"
    if trial.difference:
        return f"{count}; differs from eager: {trial.difference}"
    return count + (", then the recompile limit" if trial.limit else "")


def cases_sentence(coverage: Coverage) -> str:
    """Return the share in graphs of each named case, with its weight if they differ."""
    weighed = len({case.weight for case in coverage.cases}) > 1
    return "; ".join(
        f"{case.case} {percent(case.share)} ({case.ops_captured} of {case.ops_total}"
        + (f", weight {case.weight:g})" if weighed else ")")
        for case in coverage.cases
    )


def which_calls(cover: Coverage) -> str:
    """Return the calls to which the shares in graphs apply; empty if there is only one share, or an older tcready
    did not record it."""
    if cover.time_share is None or cover.timed_calls is None:
        return ""
    if not cover.timed_calls:
        return "operations and times of the third call"
    times = f"the median of the {cover.timed_calls} calls" if cover.timed_calls > 1 else "those of the call"
    return f"operations of the third call, times {times} after it"


def time_words(cover: Coverage) -> str:
    """Return the share of the time in graphs as far as it is known: `93 %`, or `80 % to 95 %` if repeated calls differ;
    empty if no time was measured."""
    if cover.time_share is None:
        return ""
    if cover.known_range is None:
        return percent(cover.time_share)
    return " to ".join(f"{share * 100:.0f} %" for share in cover.known_range)


def times_note(cover: Coverage) -> str:
    """Return whether the machine was busy while times were measured, and what follows if the times do not agree; empty
    if neither was so."""
    busy = f"the machine was busy: {cover.busy}" if cover.busy else ""
    ranked = "" if cover.times_agree else "repeated calls do not agree on times, so findings are ranked by operations"
    return "; ".join(filter(None, (busy, ranked)))


def ddp_sentence(ddp: Ddp) -> str:
    """Return how many processes ran, and into how many parts DDPOptimizer split each graph."""
    spread = f"{number(ddp.processes, 'process', 'processes')} over {ddp.backend}"
    if ddp.wrapped == "no":
        return f"{spread}; not in DistributedDataParallel: {ddp.reason}"
    by = "in DistributedDataParallel by itself" if ddp.wrapped == "target" else "put into DistributedDataParallel"
    if ddp.optimize != "ddp_optimizer":
        return f"{spread}; {by}; optimize_ddp is {ddp.optimize}: graphs are not parted"
    parts = "; ".join(
        f"{split.case + ': ' if split.case else ''}a graph in {number(split.subgraphs, 'part')} of "
        f"{', '.join(f'{size:,}' for size in split.buckets)} bytes of parameters"
        for split in ddp.splits
    )
    return f"{spread}; {by}; DDPOptimizer saw {parts or 'no graph'}"


def explain_sentence(target: TargetReport) -> str | None:
    """Return the result of `torch._dynamo.explain`, next to the complete record; None if it was not requested."""
    explained = target.observation.explain
    if explained is None:
        return None
    troubles = CaptureFailures.of(target.observation)
    events = sum(item.hits for item in troubles.breaks)
    caused = troubles.skipped_by_breaks
    other = "other skipped frame" if caused else "skipped frame"
    return (
        f"torch._dynamo.explain said {number(explained.graph_count, 'graph')}, "
        f"{number(explained.graph_break_count, 'break')}, {number(len(explained.reasons), 'reason')}; "
        f"the complete record has {number(len(target.observation.graphs), 'graph')}, "
        f"{number(len(troubles.breaks), 'distinct break site')} ({number(events, 'event')}"
        + (f", skipping {number(caused, 'frame')})" if caused else ")")
        + ("" if caused and not troubles.frames else f", {number(len(troubles.frames), other)}")
    )


def explain_disagrees(target: TargetReport) -> bool:
    """Return True if explain's counts differ from the record's distinct sites or graphs, or miss a skipped frame."""
    explained = target.observation.explain
    if explained is None:
        return False
    troubles = CaptureFailures.of(target.observation)
    return explained.graph_break_count != len(troubles.breaks) or (not troubles.breaks and bool(troubles.frames))


@dataclass(frozen=True)
class Shown:
    """The results of a report's runs at one finding's place."""

    sites: tuple[tuple[str, BreakSite], ...]
    """(target, site)"""
    frames: tuple[tuple[str, SkippedFrame], ...]
    recompiles: tuple[tuple[str, Recompile], ...]


def shown_by_runs(finding: Finding, targets: Sequence[TargetReport]) -> Shown:
    """Return the break sites on the finding's lines, and the skipped frames and recompiles that concern it."""

    def at(path: str, line: int) -> bool:
        return path == finding.path and finding.line <= line <= finding.end_line

    def around(frame: SkippedFrame) -> bool:
        last = frame.end_line or frame.line
        return frame.path == finding.path and frame.line <= finding.line <= last

    return Shown(
        tuple((named_target(t, targets), site) for t in targets for site in t.break_sites if at(site.path, site.line)),
        tuple((named_target(t, targets), frame) for t in targets for frame in skipped_frames(t) if around(frame)),
        tuple(
            (named_target(t, targets), event)
            for t in targets
            for event in t.observation.recompiles
            if finding.effect == "recompile"
            and (at(event.path, event.line) or any(at(frame.path, frame.line) for frame in event.lines))
        ),
    )


def run_evidence(finding: Finding) -> tuple[str, ...]:
    """Return the evidence from runs."""
    return tuple(line.text for line in finding.evidence if line.speaker == "dynamo")


def static_evidence(finding: Finding) -> tuple[str, ...]:
    """Return the evidence from the static pass."""
    return tuple(line.text for line in finding.evidence if line.speaker == "static")


def narrowed_sentence(report: Report) -> str:
    """Return what was found and is left out, and why; empty if nothing is."""
    left_out = report.narrowed
    parts = []
    if left_out is not None and left_out.baseline is not None:
        again = f" ({number(left_out.gone, 'entry', 'entries')} of it gone: write it again)" if left_out.gone else ""
        parts.append(f"{number(left_out.known, 'finding')} known from {left_out.baseline}{again}")
    if left_out is not None and left_out.diff_base is not None:
        parts.append(f"{number(left_out.unchanged, 'finding')} on lines unchanged since {left_out.diff_base}")
    return f"not shown: {'; '.join(parts)}" if parts else ""


def types_sentence(report: Report) -> str:
    """Return how many places break only in types other than those in which the models were read or run; empty if
    none does."""
    counts: Counter[tuple[str, ...]] = Counter()
    for finding in report.findings:
        if finding.dtypes and not was_shown(finding):
            counts[finding.dtypes] += 1
    return "; ".join(
        f"breaks in {in_words(types)} only: {number(count, 'place')} (--dtype {types[0]} follows "
        f"{'it' if count == 1 else 'them'})"
        for types, count in sorted(counts.items())
    )


def cost_sentence(finding: Finding) -> str:
    """Return what it causes outside of graphs; empty if nothing was counted."""
    if finding.cost is None:
        return ""
    count = number(int(finding.cost.get("operations", 0)), "operation")
    seconds = finding.cost.get("seconds")
    return f"{count} outside of graphs{'' if seconds is None else f', {duration(seconds)}'} in a warm call"


def shape_sentence(finding: Finding) -> str:
    """Return the effect of the break on the functions around it, outermost first, and whether a run showed it.

    `splits Net.forward, Block.forward (2 call levels); so it was in the run`; empty for other findings.
    """
    shape = finding.break_effect
    if shape is None:
        return ""
    counts = [f"{shape.levels} call levels"] if shape.levels > 1 else []
    counts += [f"{shape.chains} call chains"] if shape.chains > 1 else []
    predicted = _fates((*shape.above, shape.frame))
    parts = [predicted + (f" ({', '.join(counts)})" if counts else "")]
    if shape.seen:
        parts.append(_seen(shape))
    return "; ".join(parts)


def _seen(shape: BreakEffect) -> str:
    """Return the observed effects. A function above is not reached again if another break of the one below comes
    first."""
    predicted = {(f.path, f.line): f.fate for f in (*shape.above, shape.frame) if f.fate != "not_compiled"}
    seen = {(f.path, f.line): f.fate for f in shape.seen}
    if seen == predicted:
        return "so it was in the run"
    if seen.items() <= predicted.items():
        return f"in the run so seen of {list_some([frame.symbol for frame in shape.seen])}"
    return f"otherwise in the run: {_fates(shape.seen)}"


def _fates(frames: Sequence[FrameFate]) -> str:
    """Format `splits A, B; runs all of C eagerly (in a for)`."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for frame in frames:
        around = _AROUND.get(frame.because, f"in a `{frame.because}`")
        why = f" ({around})" if around else ""
        if frame.fate == "split":
            words = "splits ", ""
        elif frame.fate == "whole_frame":
            words = "runs all of ", f" eagerly{why}"
        else:
            words = "", f" not compiled anyway{why}"
        grouped.setdefault(words, []).append(frame.symbol)
    return "; ".join(f"{before}{list_some(names)}{after}" for (before, after), names in grouped.items())


def backend_sentence(found: Backend) -> str:
    """Return Inductor's result for one case in one mode: times, kernels, fallbacks, difference from eager."""
    if found.error:
        return found.error
    cold, warm = found.cold_seconds, found.warm_seconds
    parts = [f"compiled in {duration(cold)}"] if cold is not None else []
    if warm is not None:
        cached = f", {number(found.cache_hits, 'cache hit')}" if found.cache_hits is not None else ""
        parts.append(f"{duration(warm)} with a warm cache{cached}")
    parts += [number(found.kernels, "kernel"), number(found.extern_calls, "extern call")]
    if found.fallbacks:
        names = [f"{item.operator} x{item.count}" if item.count > 1 else item.operator for item in found.fallbacks]
        parts.append(f"eager fallbacks: {list_some(names)}")
    if found.difference is not None:
        parts.append(f"{found.difference:.1e} from eager" if found.difference else "equal to eager")
    if found.cudagraphs is not None:
        parts.append(number(found.cudagraphs, "CUDA graph"))
    return ", ".join(parts)


def skip_sentence(skip: CudaGraphSkip) -> str:
    """Return why CUDA graphs were skipped, and the user's line separately."""
    return skip.reason + (f" (x{skip.count})" if skip.count > 1 else "")


def lacks_sentence(found: CustomOp) -> str:
    """Format `no fake kernel and no autograd formula`; if nothing is missing: `registered`, and which test of opcheck
    fails.

    If something is missing, tests fail for that reason and are left to the whole list.
    """
    if found.lacks:
        return " and ".join(f"no {what}" for what in found.lacks)
    failed = [test for test in found.checks if test.state == "fail"]
    if not failed:
        return "registered"
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    return f"registered, but opcheck fails {failed[0].name}: {failed[0].detail}{more}"


def is_wanting(found: CustomOp) -> bool:
    """Return True if something is missing, or a test of opcheck failed."""
    return bool(found.lacks) or any(test.state == "fail" for test in found.checks)


def proof_words(proof: Proof) -> str:
    """Return what was compared, in one line."""
    words = [f"{proof.calls} calls before and after agree, {proof.compiled_calls} compiled ones"]
    for side in proof.sides:
        alone = ", its function called alone" if side.alone else ""
        words.append(f"`{side.text}` was true {side.true} and false {side.false} times{alone}")
    words.append(f"breaks {proof.breaks_before} -> {proof.breaks_after}")
    if proof.share_after != proof.share_before:
        words.append(f"captured {share_words(proof.share_before)} -> {share_words(proof.share_after)}")
    if proof.compiled_again_after != proof.compiled_again_before:
        words.append(f"compiled again {proof.compiled_again_before} -> {proof.compiled_again_after} times")
    if proof.left_out:
        words.append(f"{proof.left_out} calls with other inputs were left out, for lack of time")
    if proof.recompiled:
        words.append(f"still compiles again at every call: {proof.recompiled}")
    return "; ".join(words)


def share_words(share: float | None) -> str:
    """Return a share of operations, `?` if none was measured."""
    return "?" if share is None else f"{share:.1%}"


NOT_TRIED = "not tried on this code"
"""Beside the advice of a rule, which no run tried."""
_BACKENDS = MappingProxyType(
    {"aot_eager": "AOTAutograd", "aot_eager_decomp_partition": "a decomposition of AOTAutograd", "inductor": "Inductor"}
)


def parity_cause_words(cause: ParityCause) -> str:
    """Return what makes compiled code give another result, as a sentence without its period."""
    place = "" if cause.place is None else f" at {cause.place.path}:{cause.place.line}"
    if cause.kind == "compiling_check":
        called = "" if cause.caller is None else f", called at {cause.caller.path}:{cause.caller.line},"
        if cause.place is None:
            return "eager code gives another result, too, if all checks of `is_compiling()` are true"
        return f"eager code gives another result, too, if the check `is_compiling()`{place}{called} is true"
    module = f"`{cause.module}`" if cause.module else "the model"
    if cause.kind == "hook":
        hook = f"the hook{place} of {module}" if cause.module is not None else "the hooks of its modules"
        return f"without {hook}, compiled and eager code agree"
    if cause.kind == "backend":
        part = f", in its {cause.part.replace('_', ' ')}" if cause.part else ""
        detail = f" ({cause.detail})" if cause.detail else ""
        alone = f"; compiling {module} alone shows it" if cause.module is not None else ""
        script = "; `parity_cause.reproducer` of the JSON is a script that shows it" if cause.reproducer else ""
        return f"{_BACKENDS.get(cause.backend, cause.backend)} changes the result{part}{detail}{alone}{script}"
    return f"compiling {module} alone changes the result" + (f" (its forward is{place})" if place else "")
