"""Render reports, changes and rules for an assistant: verdicts, next steps, and lines with stable IDs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tcready.integrations.mcp.answer import AnswerPiece, Section, ToolAnswer
from tcready.reports.bench.bench_view import IN_SHORT, answer, case_title, facts, table
from tcready.reports.machine.fix_output import CALL, SET, settings_code
from tcready.reports.shared import wording
from tcready.reports.shared.next_steps import steps, steps_for_source, verdict_words
from tcready.reports.shared.phrases import first_line, named_target, number, percent, shorten
from tcready.reports.shared.trace_wording import mode_words
from tcready.reports.text.notebook_places import by_cell
from tcready.schema.bench import ArmBench, Bench, Figure
from tcready.schema.codec import as_json
from tcready.schema.enums import LEVELS, TcreadyError
from tcready.schema.proof import FixChange, FixResult, NoFix, setting_line
from tcready.schema.report import Region, Report, TargetReport
from tcready.schema.run import Plan
from tcready.schema.short_ids import short_names
from tcready.schema.static import Finding

MANY_TARGETS = 4
"""With more targets than this, the verdicts of targets that were not run are left out: they say nothing else."""


def render_check(report: Report, *, third_party: bool, skip: int) -> ToolAnswer:
    """Return verdicts, next steps, and the findings from number `skip` on, notes last.

    Findings in installed packages are only counted unless `third_party`.
    """
    shown = by_cell(report)
    names = short_names(finding.fingerprint for finding in shown.findings)
    every = wording.findings_to_list(shown, third_party)
    found = [*(f for f in every if f.level != "note"), *(f for f in every if f.level == "note")]
    others = [f for f in shown.findings if f.origin == "third_party"]
    counts = wording.level_counts(found) or "no findings"
    head = [f"{counts} in {'the code' if third_party else 'your code'}"]
    if others and not third_party:
        head.append(f"{wording.level_counts(others)} in installed packages (third_party=true lists them)")
    head += [sentence] if (sentence := wording.narrowed_sentence(shown)) else []
    ran = any(target.was_run for target in shown.targets)
    head.append("the model was run" if ran else "read only, nothing was executed")
    after = "\n`rule` with a code or an id of these says why it hurts and what to write instead." if found else ""
    data = {
        "executed": ran,
        "counts": {level: sum(f.level == level for f in found) for level in reversed(LEVELS)},
        "in_installed_packages": len(others),
        "skipped_findings": skip,
    }
    return ToolAnswer(
        f"{'; '.join(head)}.{after}",
        data,
        (
            Section("targets", "target", tuple(_verdicts(shown))),
            Section("first", "step", tuple(_steps(shown, names))),
            Section("files_not_read", "file", tuple(_strings("not read", _unread(shown)))),
            Section("warnings", "warning", tuple(_strings("warning", shown.warnings))),
            Section("findings", "finding", tuple(_finding(f, names) for f in found[skip:]), skipped=skip),
        ),
    )


def _verdicts(report: Report) -> Iterator[AnswerPiece]:
    unread = [target for target in report.targets if not target.was_run]
    for target in report.targets:
        if target.was_run or len(unread) <= MANY_TARGETS:
            yield _verdict(target, report)
    if len(unread) > MANY_TARGETS:
        yield AnswerPiece(f"VERDICT unknown for {len(unread)} targets: nothing was run", {"not_run": len(unread)})


def _verdict(target: TargetReport, report: Report) -> AnswerPiece:
    words = verdict_words(target) or wording.verdict_sentence(target)
    named = named_target(target, report.targets)
    cover = target.coverage
    data = {
        "target": target.target,
        "mode": target.mode,
        "verdict": target.verdict,
        "reason": shorten(words),
        "executed": target.was_run,
    }
    if cover is not None:
        data |= {"share_of_operations": cover.share, "share_of_time": cover.time_share}
        data |= {"breaks": sorted({name for site in target.break_sites for name in site.gb_ids})}
    return AnswerPiece(f"VERDICT {named}: {wording.VERDICT_WORD[target.verdict].upper()}: {shorten(words)}", data)


def _steps(report: Report, names: Mapping[str, str]) -> Iterator[AnswerPiece]:
    """Return the next steps for a single target, or for the targets that were run if they are few."""
    ran = [target for target in report.targets if target.was_run]
    reported = ran if 0 < len(ran) <= MANY_TARGETS else report.targets if len(report.targets) == 1 else ()
    found = [step for target in reported for step in steps(target, report, names)]
    if not ran and len(report.targets) > 1 and (step := steps_for_source(report, names)):
        found.append(step)
    for step in found:
        code = f"\n{_indented(step.code)}" if step.code else ""
        yield AnswerPiece(f"DO {step.words}{code}", {"do": step.words} | ({"code": step.code} if step.code else {}))


def _unread(report: Report) -> list[str]:
    return [f"{item.path}: {item.reason}" for item in report.skipped]


def _strings(what: str, texts: Sequence[str]) -> Iterator[AnswerPiece]:
    return (AnswerPiece(f"{what}: {text}", text) for text in texts)


def _finding(finding: Finding, names: Mapping[str, str]) -> AnswerPiece:
    place = f"{finding.path}:{finding.line}:{finding.column}"
    what = f"{wording.code_of(finding)} {finding.level} {finding.message}"
    data: dict[str, Any] = {
        "id": finding.fingerprint,
        "rule": finding.rule,
        "breaks": list(finding.gb_ids),
        **_fields(finding, "level message path line status"),
        "has_change": bool(finding.fix and finding.fix.diff),
    }
    words = f"({finding.status.replace('_', ' ')}) {names[finding.fingerprint]}"
    return AnswerPiece(f"{place}: {what} {words}", _without_nothing(data))


def _fields(value: object, names: str) -> dict[str, Any]:
    """Return attributes of a value by their names."""
    return {name: getattr(value, name) for name in names.split()}


def _without_nothing(data: Mapping[str, Any]) -> dict[str, Any]:
    """Drop empty fields, to save room."""
    return {key: value for key, value in data.items() if value not in (None, False, "", [])}


def describe_run(report: Report, when: str | None) -> str:
    """Describe which run the results of Dynamo are from, and when it was; empty if nothing was run."""
    ran = [
        f"{each.target} ({mode_words(each)})"
        for each in report.targets
        if each.was_run or each.observation.trace is not None
    ]
    if not ran:
        return ""
    more = f" and {len(ran) - MANY_TARGETS} more" if len(ran) > MANY_TARGETS else ""
    return f"of the stored run of {', '.join(ran[:MANY_TARGETS])}{more}" + (f", made {when}" if when else "")


def render_text(text: str) -> ToolAnswer:
    """Return a page, or everything about one finding: text only."""
    first, *rest = text.rstrip("\n").split("\n")
    return ToolAnswer(first, None, (Section("", "line", tuple(map(AnswerPiece, rest))),))


# Which parts to compile


def render_plan(report: Report) -> ToolAnswer:
    """Return what the plan of the only target recommends, with the code, and what else was tried.

    Raises TcreadyError, with the reason, if there is no plan.
    """
    target = _the_run(report)
    plan = target.observation.plan
    if plan is None:
        raise TcreadyError(f"{target.target}: nothing was planned: {_why_unknown(target)}")
    head = f"PLAN {wording.plan_title(plan)}: {shorten(plan.reason)}"
    by = f"chosen {plan.chosen_by}" if plan.chosen_by else ""
    keys = wording.keys_sentence(plan)
    verdict = _verdict(target, report)
    data = {
        **verdict.data,
        "recommended": plan.recommended,
        "planned_share_of_operations": plan.share,
        "planned_share_of_time": plan.time_share,
        "chosen_by": plan.chosen_by,
    }
    return ToolAnswer(
        "\n".join(filter(None, (verdict.text, head, by, keys))),
        data,
        (
            _code("code", "code to paste", plan.code),
            Section("placements", "placement", tuple(_placements(plan))),
            Section("regions", "region", tuple(_regions(target))),
            Section("not_done", "trial", tuple(_strings("not done", plan.cut))),
            _code("rollback", "back to eager", plan.rollback),
            _code("production", "in production", plan.production),
        ),
    )


def _code(name: str, noun: str, code: str) -> Section:
    pieces = (AnswerPiece(f"{noun}:\n{_indented(code)}", code),) if code else ()
    return Section(name, noun, pieces, single=True)


def _indented(code: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in code.rstrip("\n").split("\n"))


def _placements(plan: Plan) -> Iterator[AnswerPiece]:
    for row, placement in zip(wording.placement_rows(plan), plan.alternatives, strict=True):
        cells = ", ".join(f"{what}: {cell}" for what, cell in zip(wording.PLACEMENT_COLUMNS, row.cells, strict=True))
        lead = "* " if row.recommended else "- "
        note = f" ({shorten(row.note)})" if row.note else ""
        yield AnswerPiece(
            f"{lead}{row.name}: {cells}{note}",
            {
                "name": placement.name,
                "recommended": row.recommended,
                "sound": placement.sound,
                "share_of_operations": placement.share,
                "share_of_time": placement.time_share,
                **_fields(placement, "graphs recompiles compile_seconds parity"),
                "note": shorten(row.note),
            },
        )


def _regions(target: TargetReport) -> Iterator[AnswerPiece]:
    for region in target.regions:
        if region.kind != "lines" and region.name:
            shares = {"share_of_operations": region.ops_share, "share_of_time": region.time_share}
            data = {**_fields(region, "name state instances"), **shares, "code": region.code}
            yield AnswerPiece(_region_line(region, target), data)


def _region_line(region: Region, target: TargetReport) -> str:
    shares = ((region.time_share, "time"), (region.ops_share, "operations"))
    known = [wording.region_word(region, target), number(region.instances, "instance")]
    known += [f"{percent(share)} of the {of}" for share, of in shares if share is not None]
    known += [shorten(first_line(region.reason))] if region.state == "refuted" and region.reason else []
    return f"region {region.name}: {', '.join(known)}"


def _the_run(report: Report) -> TargetReport:
    """Return the target that was run. Raises TcreadyError, with the reason, if there is none."""
    ran = [target for target in report.targets if target.was_run]
    if not ran:
        why = wording.verdict_sentence(report.targets[0]) if report.targets else "there is nothing to run"
        raise TcreadyError(f"nothing was run: {why}")
    return ran[0]


def require_results(report: Report) -> None:
    """Raise TcreadyError, with the first reason, if no run established anything."""
    if not report.targets:
        raise TcreadyError("there is nothing here to run: name a file or a class with a `forward`")
    if all(target.verdict == "unknown" for target in report.targets):
        first = next((target for target in report.targets if target.was_run), report.targets[0])
        raise TcreadyError(
            f"{first.target}: {_why_unknown(first)} (`check` without `run` reports what the source shows)"
        )


def _why_unknown(target: TargetReport) -> str:
    """Return the stage that failed, and why; for a run that never began, the reason of the verdict."""
    failed = next((stage for stage in target.stages if stage.state == "fail"), None)
    return f"{failed.stage}: {first_line(failed.detail)}" if failed else wording.verdict_sentence(target)


# Changes


def render_fix(result: FixResult, ids: Mapping[tuple[str, int, str | None], str]) -> ToolAnswer:
    """Return the changes as one patch, a description of each, and what is left. `ids`: fingerprints by path, line
    and rule."""
    head = f"{number(len(result.changes), 'change')} proposed; nothing is written"
    data: dict[str, Any] = {"changes_proposed": len(result.changes), "proved": result.breaks_before is not None}
    if result.breaks_before is not None:
        shares = f"{wording.share_words(result.share_before)} -> {wording.share_words(result.share_after)}"
        head += f". Runs before and after: breaks {result.breaks_before} -> {result.breaks_after}"
        head += f", captured {shares}" if len(result.targets) < 2 else ""
        data |= {"breaks_before": result.breaks_before, "breaks_after": result.breaks_after}
        data |= {"share_before": result.share_before, "share_after": result.share_after}
    else:
        head += ", and nothing was executed (prove=true puts each change to the proof)"
    if any(change.called_before for change in result.changes):
        head += f". {CALL}"
        data["called_before"] = True
    patch = result.patch.rstrip("\n")
    whole = (AnswerPiece(f"{patch}\n", f"{patch}\n"),) if patch else ()
    failure = (AnswerPiece(result.failure, result.failure),) if result.failure else ()
    return ToolAnswer(
        f"{head}.",
        data,
        (
            Section("failure", "failure", failure, single=True),
            Section("patch", "patch", whole, single=True, exact=True),
            Section(
                "settings", "setting", tuple(AnswerPiece(f"{SET}: {line}", line) for line in settings_code(result))
            ),
            Section("changes", "change", tuple(_change(each, ids) for each in result.changes)),
            Section("refused", "refused change", tuple(_change(each, ids) for each in result.refused)),
            Section("no_change", "unmended break", tuple(_no_fix(each, ids) for each in result.no_fix)),
        ),
    )


def _change(change: FixChange, ids: Mapping[tuple[str, int, str | None], str]) -> AnswerPiece:
    place = f"{change.path}:{change.line} {change.rule or ' '.join(change.gb_ids)}"
    known = {
        "proved": f"proved: {wording.proof_words(change.proof)}" if change.proof else "proved",
        "one_side": "not fully covered by the calls",
        "refuted": "does not hold",
        "not_run": "not run",
    }[change.state]
    unsafe = f"not safe by construction: {change.unsafe}" if change.unsafe else ""
    why = change.reason or unsafe
    data = {
        **_place(change, ids),
        **_fields(change, "how state"),
        "unsafe_by_construction": change.unsafe is not None,
        "why": why,
    }
    return AnswerPiece(f"{place}: {change.how} ({'; '.join(filter(None, (known, why)))})", _without_nothing(data))


def _place(item: FixChange | NoFix, ids: Mapping[tuple[str, int, str | None], str]) -> dict[str, Any]:
    known = ids.get((item.path, item.line, item.rule))
    return {"id": known, "rule": item.rule, "breaks": list(item.gb_ids), "path": item.path, "line": item.line}


def _no_fix(item: NoFix, ids: Mapping[tuple[str, int, str | None], str]) -> AnswerPiece:
    data = {**_place(item, ids), "why": item.reason}
    named = item.rule or " ".join(item.gb_ids)
    return AnswerPiece(f"{item.path}:{item.line} {named}: no change: {item.reason}", _without_nothing(data))


def render_proof(change: FixChange, text: str, *, holds: bool) -> ToolAnswer:
    """Return the result of verifying a patch; `text` is the same in words."""
    data: dict[str, Any] = {"holds": holds, "state": change.state}
    data |= {"reason": shorten(change.reason)} if change.reason else {}
    data |= {"code": change.code} if change.code else {}
    data |= {"counterexample": _without_nothing(as_json(change.counterexample))} if change.counterexample else {}
    data |= {"another_outcome": shorten(change.unsafe)} if change.unsafe else {}
    data |= {"settings": list(map(setting_line, change.settings))} if change.settings else {}
    proof = change.proof
    if proof is not None:
        data |= {
            **_fields(proof, "calls compiled_calls left_out"),
            "modes": list(proof.modes),
            **_fields(proof, "breaks_before breaks_after share_before share_after fullgraph"),
        }
    sides = () if proof is None else proof.sides
    pieces = tuple(
        AnswerPiece(
            f"{side.path}:{side.line} `{side.text}`: true {side.true} times, false {side.false} times",
            {"path": side.path, "line": side.line, "test": side.text, "true": side.true, "false": side.false},
        )
        for side in sides
    )
    return ToolAnswer(text.rstrip("\n"), data, (Section("branches_taken_away", "branch test", pieces),))


# Speed


def render_bench(report: Report) -> ToolAnswer:
    """Return whether compiling pays off, the measured arms, and the command that repeats the bench.

    Raises TcreadyError, with the reason, if nothing was measured.
    """
    target = _the_run(report)
    bench = target.observation.bench
    if bench is None or bench.verdict == "not_run":
        raise TcreadyError(f"{target.target}: {bench.reason if bench else _why_unknown(target)}")
    data = {
        "target": target.target,
        "verdict": "failed" if bench.failed else bench.verdict,
        "reason": shorten(bench.reason),
        "recommended": bench.recommended,
    }
    beside = [*facts(bench), *(("not done", text) for text in bench.cut)]
    return ToolAnswer(
        f"SPEED {target.target}: {answer(bench).upper()}: {shorten(bench.reason)}",
        data,
        (
            _code("code", "code of the recommended arm", bench.code),
            _code("rollback", "back to eager", bench.rollback),
            Section("arms", "arm", tuple(_arms(bench))),
            Section(
                "beside", "fact", tuple(AnswerPiece(f"{what}: {text}", f"{what}: {text}") for what, text in beside)
            ),
        ),
    )


def _arms(bench: Bench) -> Iterator[AnswerPiece]:
    for case in bench.cases:
        by_name: dict[str, ArmBench] = {arm.arm: arm for arm in case.arms}
        shown = table(case, IN_SHORT)
        for row in shown.rows:
            cells = ", ".join(f"{what} {cell}" for what, cell in zip(shown.headings, row.cells, strict=True))
            yield AnswerPiece(f"{case_title(case)}, {row.arm}: {cells}", _arm(case.case, by_name[row.arm]))


def _arm(case: str, arm: ArmBench) -> dict[str, Any]:
    return {
        "case": case,
        "arm": arm.arm,
        "verdict": arm.verdict,
        "seconds": _figure(arm.seconds),
        "speedup": _figure(arm.speedup),
        "cold_seconds": _figure(arm.cold_seconds),
        "parity": arm.parity,
    }


def _figure(figure: Figure | None) -> list[float] | None:
    """Return the median and the bounds of its interval, with four digits."""
    return None if figure is None else [float(f"{each:.4g}") for each in (figure.median, figure.low, figure.high)]
