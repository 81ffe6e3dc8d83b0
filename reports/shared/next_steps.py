"""The first steps for a target, and their known gain. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tcready.portable.target import LibraryModel
from tcready.reports.shared.phrases import duration, first_line, number, percent, shorten
from tcready.reports.shared.trace_wording import advice_words
from tcready.reports.shared.urgency import WEIGHT, needs_change, operations, seconds, urgency
from tcready.reports.shared.wording import code_of, parity_cause_words, region_word, time_words, which_calls
from tcready.schema.capture_failures import CaptureFailures
from tcready.schema.enums import EAGER, OF_THE_MODEL, PLACEMENT_WORDS
from tcready.schema.observation import holds_for
from tcready.schema.report import Region, Report, TargetReport
from tcready.schema.static import Finding
from tcready.schema.value_class import dataclass

MOST = 0.5
"""The share of the time above which a region is named first."""
_CHANGE = {True: "; a change is proved", None: "; a change is suggested, not tried", False: ""}
"""Texts by `verified` of the finding's fix."""


@dataclass(frozen=True)
class NextStep:
    """Something to do: in words, and the lines to paste if there are any."""

    words: str
    code: str = ""


def verdict_words(target: TargetReport) -> str:
    """Return what keeps the target from being captured whole, and the captured share, by time if measured; empty if
    the verdict's own reason is needed: for a failed run, or without one."""
    cover = target.coverage
    failed = any(stage.state == "fail" and stage.stage != "fullgraph" for stage in target.stages) or (
        target.observation.training is not None and target.observation.training.failed
    )
    if target.verdict == "unknown" or cover is None or failed:
        return ""
    found = CaptureFailures.of(target.observation)
    by_torch = found.words_by_torch()
    whole = "captured whole" if cover.ops_captured == cover.ops_total and not by_torch else "no break"
    own = found.words_of_own_compiles()
    troubles = "; ".join(filter(None, [own, ", ".join(found.words()) or ("" if own else whole), by_torch]))
    ops = f"{percent(cover.share)} of the operations ({cover.ops_captured} of {cover.ops_total})"
    share = ops if cover.time_share is None else f"{time_words(cover)} of the time, {ops}"
    if found.recompiling:
        share += f"; {which_calls(cover)}" if which_calls(cover) else " in the first calls"
    made_up = "; the inputs were made up" if target.observation.inputs_from == "made_up" else ""
    limits = holds_for(target.observation)
    parity = next((stage for stage in target.stages if stage.stage == "parity"), None)
    compared = ""
    if parity is not None and (parity.state, parity.reason) == ("not_run", "not_comparable"):
        compared = f"; outputs not compared: {parity.detail}"
    where = "in graphs if compiled as a whole" if own else "in graphs"
    return f"{troubles}; {where}: {share}{compared}{made_up}" + (f"; holds for {limits}" if limits else "")


def steps(target: TargetReport, report: Report, names: Mapping[str, str]) -> Iterator[NextStep]:
    """Yield what to do about a target, best first. `names` are the short names of findings by fingerprint.

    If the run failed, first get it to pass. Otherwise, compile as a bench measured or as a plan recommends, or
    compile regions without breaks if they hold enough. Then fix the break that costs most.
    """
    if target.was_run and target.verdict == "unknown":
        yield from _what_failed(target, report)
        return
    # The verdict says how: there is no need to say it twice.
    trained = target.observation.training
    if any(stage.stage in ("parity", "backend") and stage.reason == "mismatch" for stage in target.stages):
        cause = target.observation.parity_cause
        known = f": {parity_cause_words(cause)}" if cause is not None else ""
        yield NextStep(f"find out why compiled code gives a different result{known}")
    elif trained is not None and trained.failed:
        yield NextStep(f"find out why the compiled model fails in training, in its {trained.failed[0].phase}")
    compiling = _by_bench(target) or _by_plan(target) or _undecided_step(target) or _by_region(target)
    if compiling is not None:
        yield compiling
    mending = _fix_step(target, report, names)
    if mending is not None:
        yield mending
    trace = target.observation.trace
    for item in trace.advice if trace is not None else ():
        yield NextStep(advice_words(item), item.code or "")


def _what_failed(target: TargetReport, report: Report) -> Iterator[NextStep]:
    """The failed stage, if it failed for a reason unrelated to compiling: until it passes, nothing else is known."""
    for stage in target.stages:
        if stage.state == "fail" and stage.reason not in OF_THE_MODEL:
            why = shorten(first_line(stage.detail)) if stage.detail else "it failed"
            made = "; say how it is made: --model 'module.Net(...)' in its place, or get_init_inputs() in its file"
            # known already, or the message names the option that is to blame
            known = report.in_process or _is_named_model(target) or "--" in why
            how = made if stage.reason == "not_built" and not known else ""
            yield NextStep(f"{stage.stage} has to pass: {why}{how}")
            return


def _is_named_model(target: TargetReport) -> bool:
    """Return True if the target was given as `hf:bert`, or as an expression."""
    arguments = target.observation.asked
    return "--model" in arguments or any(LibraryModel.parse(word) is not None for word in arguments[:1])


def _by_bench(target: TargetReport) -> NextStep | None:
    """The arm that a bench found worthwhile, or to stay eager if every recommended arm was measured."""
    bench = target.observation.bench
    if bench is None or bench.recommended is None:
        return None
    if bench.recommended != EAGER:
        verdicts = {arm.verdict for arm in bench.cases[-1].arms if arm.arm == bench.recommended}
        sure = "probably pays" if "likely_gain" in verdicts else "was measured to pay"
        return NextStep(f"compile it like the arm {bench.recommended}, which {sure}", bench.code)
    plan = target.observation.plan
    arms = {arm.arm for case in bench.cases for arm in case.arms}
    as_it_is = {each.code for each in plan.alternatives if each.name == "whole"} if plan is not None else set()
    if plan is not None and plan.code and plan.code not in as_it_is and "plan" not in arms:
        return None
    compiled = [arm for case in bench.cases for arm in case.arms if arm.arm != EAGER]
    if all(arm.verdict == "failed" for arm in compiled):
        return NextStep("leave it eager: every compiled arm failed")
    probably = "probably " if bench.verdict.startswith("likely") else ""
    return NextStep(f"leave it eager: no arm that was measured {probably}pays")


def _by_plan(target: TargetReport) -> NextStep | None:
    """The placement that the plan recommends, compared with the unchanged model if the plan found that to work."""
    plan = target.observation.plan
    if plan is None or not plan.code or plan.share is None:
        return None
    whole = next((each for each in plan.alternatives if each.name == "whole"), None)
    beside = whole if whole is not None and whole.sound and whole.code != plan.code else None
    shares = [_gain(plan.share, beside.share if beside else None, "operations")]
    if plan.time_share is not None:
        shares.insert(0, _gain(plan.time_share, beside.time_share if beside else None, "time"))
    by = f"; chosen {plan.chosen_by.partition(':')[0]}" if plan.chosen_by else ""
    return NextStep(
        f"compile {PLACEMENT_WORDS[plan.recommended]}, as planned; in graphs: {', '.join(shares)}{by}", plan.code
    )


def _undecided_step(target: TargetReport) -> NextStep | None:
    """Return what to do after a bench without an answer."""
    bench = target.observation.bench
    if bench is None or bench.recommended is not None:
        return None
    if bench.verdict == "not_run" and bench.cut:
        return NextStep("nothing was measured within the budget: repeat it with more time (--budget SECONDS)")
    if bench.verdict == "not_run":
        return NextStep(f"get the bench to measure: {shorten(first_line(bench.reason))}")
    how = "with more time (--budget SECONDS)" if bench.cut else "on a quiet machine"
    return NextStep(f"the bench did not decide whether compiling pays: repeat it {how}")


def _gain(planned: float, as_it_is: float | None, of: str) -> str:
    """`98 % of the time (now 92 %)`."""
    beside = "" if as_it_is is None else f" (now {percent(as_it_is)})"
    return f"{percent(planned)} of the {of}{beside}"


def _by_region(target: TargetReport) -> NextStep | None:
    if target.verdict not in ("ready", "ready_by_region"):
        return _main_region(target)
    free = [region for region in target.regions if region.state != "refuted" and region.code]
    if not free:
        return None
    if free[0].name == "":
        # the user's code compiles it already
        return None if target.observation.compiled_at is not None else NextStep("compile it whole", free[0].code)
    region, others = free[0], len(free) - 1
    more = f"; {number(others, 'more region')} named" if others else ""
    return NextStep(f"compile {region.name} ({region_word(region, target)}){_holds(region)}{more}", region.code)


def _main_region(target: TargetReport) -> NextStep | None:
    """The region that holds most of the time of a model that is not ready; None if none does."""
    timed = [each for each in target.regions if each.state != "refuted" and each.code and each.time_share is not None]
    region = max(timed, key=lambda each: each.time_share or 0.0, default=None)
    if target.verdict != "not_ready" or region is None or (region.time_share or 0.0) <= MOST:
        return None
    return NextStep(f"compile {region.name} ({region_word(region, target)}){_holds(region)}", region.code)


def _holds(region: Region) -> str:
    shares = [
        f"{percent(share)} of the {of}"
        for share, of in ((region.time_share, "time"), (region.ops_share, "operations"))
        if share is not None
    ]
    return f": {', '.join(shares)}" if shares else ""


def _fix_step(target: TargetReport, report: Report, names: Mapping[str, str]) -> NextStep | None:
    """Fix the rule with the findings that cost most in the run; without a run, the most severe and most certain one."""
    if target.verdict == "ready":
        return None
    alone = len({each.target for each in report.targets}) == 1
    ours = [
        finding
        for finding in report.findings
        if alone or any(entry.target == target.target for entry in finding.targets)
        if target.observation.trace is None or not _shown_elsewhere(finding, target.target)
    ]
    group = _most_urgent(ours)
    return _step(group, names, _cost(target, report, group)) if group else None


def _shown_elsewhere(finding: Finding, target: str) -> bool:
    """Return True if only other targets showed something of it. In a trace, any line may have run."""
    shown = {entry.target for entry in finding.targets if entry.status != "predicted"}
    return bool(shown) and target not in shown


def steps_for_source(report: Report, names: Mapping[str, str]) -> NextStep | None:
    """Return what to fix first in sources with several targets, if none was run."""
    group = _most_urgent(report.findings)
    return _step(group, names, "") if group else None


def _most_urgent(findings: Iterable[Finding]) -> Sequence[Finding]:
    """The findings of one rule in the user's own code; empty if there is nothing to fix."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.level != "note" and needs_change(finding) and finding.origin == "own":
            groups.setdefault(finding.rule or finding.message, []).append(finding)
    return min(groups.values(), key=urgency, default=())


def _step(group: Sequence[Finding], names: Mapping[str, str], cost: str) -> NextStep:
    first = min(group, key=lambda finding: (-seconds([finding]), WEIGHT[finding.status]))
    others = len({(each.path, each.line) for each in group}) - 1
    places = f"{first.path}:{first.line}" + (f" and {number(others, 'more place')}" if others else "")
    change = _CHANGE[first.fix.verified] if first.fix is not None and first.fix.diff else ""
    what = f"fix {code_of(first)} at {places} ({names[first.fingerprint]}): "
    return NextStep(what + (cost or first.message) + change)


def _cost(target: TargetReport, report: Report, group: Sequence[Finding]) -> str:
    """Return what these findings force to run eagerly; as a share of the time if exactly one run was timed."""
    if all(finding.cost is None for finding in group) or any(each.effect == "compile_error" for each in group):
        return ""
    lost, count, cover = seconds(group), operations(group), target.coverage
    if not count:
        return "it ends a graph, but no operation runs eagerly because of it"
    alone = sum(each.was_run for each in report.targets) == 1 and cover is not None and len(cover.cases) < 2
    whole = cover.seconds if alone and cover is not None else None
    share = f"{percent(min(lost / whole, 1.0))} of the time" if whole else duration(lost)
    is_timed = any(finding.cost.get("seconds") is not None for finding in group if finding.cost is not None)
    runs = sum(each.was_run for each in report.targets)
    over = f", over all {runs} runs" if runs > 1 else ""
    return f"it makes {number(count, 'operation')}{f' ({share})' if is_timed else ''} run eagerly{over}"
