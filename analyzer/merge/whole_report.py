"""Merge the predictions from the source and the results of runs into one Report."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from tcready.merge.findings import (
    add_advice,
    by_file,
    distinct,
    files_not_run,
    found_by_run,
    judge_finding,
    number_fingerprints,
    only_mode,
    place_order,
)
from tcready.merge.match import Event, Key, MatchProof, key_of, proofs_of, unclaimed_events
from tcready.merge.observed_run import Run
from tcready.merge.source_lines import Code
from tcready.merge.target_reports import reports_of
from tcready.schema.enums import Mode
from tcready.schema.notebook_cells import Cell, path_in, place_in
from tcready.schema.observation import Observation
from tcready.schema.report import Report, Tool
from tcready.schema.static import Finding, Noqa, RuleText, StaticResult


def merge(
    static: StaticResult,
    observations: Sequence[Observation],
    rules: Mapping[str, RuleText],
    tool: Tool,
    advice: Mapping[str, RuleText] = MappingProxyType({}),
) -> Report:
    """Return one report of predictions and observations.

    Findings are sorted by place. Targets that ran come first, in the given order, then those known from the source
    only. `static.sources` should include the sources of observed files, if they are to be shown; a run-only finding
    spans its source line if the source exists, one character if not. The report's `rules` keep those that a finding
    names, and those entries of `advice` (by ID of the type of break, or by name of a finding without a type) that apply
    to findings that only a run showed.
    """
    code = Code({source.path: source.text for source in static.sources})
    modes: dict[str, set[Mode]] = defaultdict(set)
    for observation in observations:
        modes[observation.target].add(observation.mode)
    runs = tuple(Run(seen, code, seen.mode if len(modes[seen.target]) > 1 else None) for seen in observations)
    predictions = distinct((*static.findings, *static.hidden))
    hidden = {key_of(finding) for finding in static.hidden} - {key_of(finding) for finding in static.findings}
    proofs: dict[Key, list[MatchProof]] = defaultdict(list)
    events: dict[Key, list[Event]] = defaultdict(list)
    for run in runs:
        for key, proof in proofs_of(run, predictions, code):
            proofs[key].append(dataclasses.replace(proof, mode=run.mode))
        for event in unclaimed_events(run, predictions, code):
            events[event.path, event.line, None].append(dataclasses.replace(event, mode=run.mode))
    about = by_file(runs, proofs, {finding.path for finding in predictions})
    not_run = files_not_run(static.targets, about)
    predicted = [
        finding
        if finding.path in not_run
        else judge_finding(finding, about.get(finding.path, runs), proofs[key_of(finding)])
        for finding in predictions
    ]
    calls = {run.target: call for run in runs if (call := run.observation.compiled_at) is not None}
    strict = {target: call for target, call in calls.items() if call.is_fullgraph}
    unpredicted = [
        add_advice(found_by_run(same, code, only_mode(same, runs), strict), advice) for same in events.values()
    ]
    cells = {source.path: source.cells for source in static.sources if source.cells}
    known = tuple(
        dataclasses.replace(finding, cell=place_in(cells[finding.path], finding.line))
        if finding.path in cells
        else finding
        for finding in sorted(number_fingerprints([*predicted, *unpredicted]), key=place_order)
    )
    findings = tuple(finding for finding in known if key_of(finding) not in hidden)
    silenced = tuple(finding for finding in known if key_of(finding) in hidden)
    named = {code for finding in findings for code in (finding.rule, finding.advice)}
    texts = {code: rules[code] for code in rules if code in named}
    texts |= {text.code: text for text in advice.values() if text.code in named}
    on_breaks = advice.keys() - rules.keys()
    return Report(
        tool=tool,
        findings=findings,
        targets=reports_of(static.targets, runs, known, code),
        rules=tuple(text for code, text in texts.items() if code not in on_breaks),
        sources=static.sources,
        skipped=static.skipped,
        warnings=(
            *static.warnings,
            *_unused(static.unused, unpredicted, rules, cells),
            *(f"{_named(run)}: {warning}" for run in runs for warning in run.observation.warnings),
        ),
        statistics=static.statistics,
        predicted=static.targets,
        hidden=tuple(sorted({print_ for found in silenced for print_ in (found.fingerprint, *found.also)})),
        silenced=silenced,
        unused=static.unused,
        static_warnings=static.warnings,
        advice=tuple(text for code, text in texts.items() if code in on_breaks),
    )


def _unused(
    unused: Iterable[Noqa], seen: Iterable[Finding], rules: Iterable[str], cells: Mapping[str, tuple[Cell, ...]]
) -> Iterator[str]:
    """Return a warning for each `# noqa` that hides nothing; none if a run saw something that no rule predicts."""
    surprising = {(f.path, line) for f in seen for line in range(f.line, f.end_line + 1)}
    for noqa in unused:
        if (noqa.path, noqa.line) not in surprising:
            known = any(code.startswith(noqa.code) for code in rules)
            why = "" if known else ": there is no such rule"
            within = place_in(cells.get(noqa.path, ()), noqa.line)
            place = f"{path_in(noqa.path, within)}:{within.line}" if within else f"{noqa.path}:{noqa.line}"
            yield f"{place}: unused noqa {noqa.code}{why}"


def _named(run: Run) -> str:
    """Return the name of the run's target, with the mode if it was run in several."""
    return f"{run.target} ({run.mode})" if run.mode else run.target
