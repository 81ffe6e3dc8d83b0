"""The values for the HTML page: the template only lays them out."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tcready.reports.bench.bench_page import BenchView, bench_page
from tcready.reports.html import highlighting
from tcready.reports.html.editor_links import Editor, OpensLines
from tcready.reports.html.pictures import Picture, SourcePicture, pictures, source_picture
from tcready.reports.html.side_by_side import Sides, sides
from tcready.reports.shared import phrases, wording
from tcready.reports.shared.anonymous_paths import in_address, is_absolute
from tcready.reports.shared.urgency import needs_change, operations, seconds, urgency
from tcready.schema.capture_failures import CaptureFailures
from tcready.schema.enums import LEVELS, OF_THE_MODEL
from tcready.schema.observation import ModuleShare, Observation, Stage
from tcready.schema.report import Region, Report, TargetReport, covers
from tcready.schema.run import BreakSite, LineSet
from tcready.schema.static import Finding, RuleText

MANY_MODULES = 300
DEEP = 12
"""Maximum nesting of the module hierarchy; deeper modules are attached to the last level."""
MANY_STATIC_TARGETS = 3
MANY_FINDINGS = 200
MANY_LINES = 600
"""Maximum lines of own source that are shown whole; of more, only those around marked lines."""
MANY_DIFFS = 3
"""Number of diffs of one change that are unfolded."""
MANY_COLOURED = 6000
"""Maximum lines of own source with colored words; coloring takes as long as the rest of a large page."""
AROUND = 12
"""Number of lines shown on either side of a marked one, if not all are."""


@dataclass(frozen=True)
class HintView:
    """A hint of Dynamo itself, once, and every place where it was given."""

    anchor: str
    number: int
    text: str
    places: tuple[tuple[str, int, str], ...]
    """Path, line, and cases and targets in words; the words are empty if there is only one."""


@dataclass(frozen=True)
class BreakView:
    """A break at one line, for one reason, on one path, with all cases and targets in which it occurred."""

    site: BreakSite
    events: str
    """Format `3 events in prefill, 1 event in decode`."""
    hints: tuple[HintView, ...]


@dataclass(frozen=True)
class FindingView:
    anchor: str
    finding: Finding
    rule: RuleText | None
    phrase: str
    change: Sides | None
    """The suggested change, before and after; None if there is none."""
    snippet: tuple[highlighting.SnippetLine, ...]
    shown: wording.Shown
    breaks: tuple[BreakView, ...]
    static_evidence: tuple[str, ...]
    run_evidence: tuple[str, ...]

    @property
    def recorded(self) -> bool:
        """Return True if the record of a run has this place."""
        return bool(self.shown.sites or self.shown.frames or self.shown.recompiles)

    @property
    def run_sentence(self) -> str:
        """Return the statement of the status about the run; empty if the record of the run has it already."""
        if wording.was_shown(self.finding) and self.recorded:
            return ""
        phrase = self.phrase.removeprefix("predicted; ")
        return phrase[0].upper() + phrase[1:] + "."

    @property
    def weight(self) -> int:
        """Return the weight of its level, highest for errors."""
        return LEVELS.index(self.finding.level)

    @property
    def seconds(self) -> float:
        """Return the seconds of a warm call that it causes outside of graphs; 0 if nothing was measured."""
        return (self.finding.cost or {}).get("seconds", 0.0)


@dataclass(frozen=True)
class RowGroup:
    """Findings of one rule in one installed file."""

    path: str
    first: Finding
    items: tuple[FindingView, ...]


@dataclass(frozen=True)
class ActionView:
    """One change, and every place where it is needed."""

    advice: str
    """The advice of the rule, or for the type of break; empty if there is none."""
    hints: tuple[HintView, ...]
    """Dynamo's suggestions, if there is no rule."""
    rule: RuleText | None
    items: tuple[FindingView, ...]
    statuses: str
    operations: int
    """Operations that these places cause outside of graphs, in a warm call; 0 if none was measured."""
    seconds: float

    @property
    def changed(self) -> tuple[FindingView, ...]:
        """Return the places with a known change that no run refuted."""
        return tuple(
            item
            for item in self.items
            if item.change is not None and item.finding.fix is not None and item.finding.fix.verified is not False
        )

    @property
    def buys(self) -> str:
        """Return the gain, in words; empty if nothing was measured."""
        if not self.operations:
            return ""
        return (
            f"{phrases.number(self.operations, 'operation')}, {phrases.duration(self.seconds)} of a warm call, "
            f"run outside of graphs on {'its' if len(self.items) == 1 else 'their'} account"
        )


@dataclass(frozen=True)
class Node:
    """A module with its children; shares are of the whole call, in percent."""

    module: ModuleShare
    label: str
    captured: float
    eager: float
    children: tuple[Node, ...]


@dataclass(frozen=True)
class TargetView:
    anchor: str
    report: TargetReport
    seen: Observation
    name: str
    ran: bool
    word: str
    sentence: str
    ladder: tuple[Stage, ...]
    time: str
    """How the time of the run was spent; empty if unknown."""
    troubles: CaptureFailures
    explain: str | None
    disagrees: bool
    pictures: tuple[Picture, ...]
    by_source: SourcePicture | None
    tree: tuple[Node, ...]
    modules_left: int
    environment: tuple[tuple[str, str], ...]
    bench: BenchView | None

    @property
    def stopped(self) -> Stage | None:
        """Return the stage that failed for a reason unrelated to the model, if there is one."""
        failed = (stage for stage in self.ladder if stage.state == "fail")
        return next((stage for stage in failed if stage.reason not in OF_THE_MODEL), None)

    @property
    def differs(self) -> str:
        """Return how compiled code differs from eager code; empty if it does not, or if that was not compared."""
        failed = (stage for stage in self.ladder if stage.stage == "parity" and stage.state == "fail")
        return next((stage.detail or "" for stage in failed), "")


@dataclass(frozen=True)
class Mark:
    kind: str
    text: str
    href: str


@dataclass(frozen=True)
class SourceLine:
    number: int
    anchor: str
    line: highlighting.Line
    cut: int
    ran: bool
    skipped: bool
    """It is in a function that Dynamo gave up."""
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class SourceView:
    anchor: str
    path: str
    parts: tuple[tuple[SourceLine, ...], ...]
    """Runs of consecutive lines; all lines except in a large report."""
    left: int
    """Number of lines that are not shown."""
    runs_known: bool


@dataclass(frozen=True)
class Page(OpensLines):
    title: str
    report: Report
    targets: tuple[TargetView, ...]
    brief: tuple[TargetView, ...]
    """Targets that are only listed: many that were not run."""
    own: tuple[FindingView, ...]
    notes: tuple[FindingView, ...]
    foreign: tuple[RowGroup, ...]
    foreign_count: int
    actions: tuple[ActionView, ...]
    foreign_actions: tuple[ActionView, ...]
    hints: tuple[HintView, ...]
    sources: tuple[SourceView, ...]
    statistics: tuple[tuple[str, str], ...]
    anchors: Mapping[tuple[str, int], str]
    editor: Editor | None

    @property
    def above(self) -> frozenset[str]:
        """Anchors of the findings with their change in the next steps at the top."""
        actions = (*self.actions, *self.foreign_actions)
        return frozenset(item.anchor for action in actions for item in action.changed)

    def anchor(self, path: str, line: int) -> str:
        """Return the link to a line of an annotated source; empty if that line is not on the page."""
        anchor = self.anchors.get((path, line))
        return f"#{anchor}" if anchor is not None else ""

    def committed(self, path: str, line: int) -> str:
        """Return the link to a line at its commit, on the pages of the repository; empty if there is none."""
        checkout = self.report.checkout
        if checkout is None or checkout.link is None or path not in checkout.files:
            return ""
        return checkout.link.replace("{path}", in_address(path)).replace("{line}", str(line))

    @property
    def ran(self) -> bool:
        return any(target.ran for target in self.targets)

    @property
    def stopped(self) -> tuple[TargetView, ...]:
        """Return targets with a run that ended before it could show whether they compile."""
        return tuple(target for target in self.targets if target.stopped is not None)

    @property
    def differing(self) -> tuple[TargetView, ...]:
        """Return targets with compiled results that differ from those of eager code."""
        return tuple(target for target in self.targets if target.differs)

    @property
    def refused(self) -> bool:
        """Return True if compiling a target failed, so that no part of it is recommended."""
        return any(
            stage.state == "fail" and stage.reason in OF_THE_MODEL and stage.stage != "fullgraph"
            for target in self.targets
            for stage in target.ladder
        )

    @property
    def advises_regions(self) -> bool:
        regions = (region for target in (*self.targets, *self.brief) for region in target.report.regions)
        return any(region.state != "refuted" for region in regions)

    @property
    def planned(self) -> tuple[TargetView, ...]:
        """Return targets for which parts to compile were tried."""
        return tuple(target for target in self.targets if target.seen.plan is not None)

    @property
    def benched(self) -> tuple[TargetView, ...]:
        """Return targets with a bench."""
        return tuple(target for target in self.targets if target.bench is not None)

    @property
    def compiled(self) -> bool:
        """Return True if Dynamo captured any target."""
        return any(s.stage == "capture" and s.state == "pass" for t in self.targets for s in t.ladder)

    @property
    def many(self) -> bool:
        """Return True if the browser should lay out only the visible part."""
        return len(self.own) + len(self.notes) > MANY_FINDINGS

    @property
    def commit(self) -> str:
        """Return the commit, and whether the files that were read are as committed; empty outside of a checkout."""
        checkout = self.report.checkout
        if checkout is None:
            return ""
        own = [source.path for source in self.sources if source.path not in checkout.files]
        return checkout.commit + (f", with changes in {', '.join(own)}" if own else "")


def page(report: Report, editor: Editor | None = None) -> Page:
    """Return the page for `report`, in which paths of the machine are already removed; its lines open in `editor`."""
    own_files = own_paths(report)
    lines = {source.path: highlighting.plain(source.text) for source in report.sources}
    if sum(len(lines[path]) for path in own_files) <= MANY_COLOURED:
        lines |= {s.path: highlighting.tokenize_lines(s.text) for s in report.sources if s.path in own_files}
    hints = _hints(report.targets)
    views = _findings(report, lines, hints)
    own = [item for item in views if item.finding.origin == "own"]
    loud = tuple(item for item in own if item.finding.level != "note")
    foreign = [item for item in views if item.finding.origin == "third_party"]
    targets = tuple(_target(f"t-{number}", target, report.targets) for number, target in enumerate(report.targets, 1))
    static = [target for target in targets if not target.ran]
    brief = tuple(static) if len(static) > MANY_STATIC_TARGETS else ()
    sources = _sources(own_files, views, targets, lines)
    return Page(
        title=_title(targets),
        report=report,
        targets=tuple(target for target in targets if target not in brief),
        brief=brief,
        own=loud,
        notes=tuple(item for item in own if item.finding.level == "note"),
        foreign=_groups(foreign),
        foreign_count=len(foreign),
        actions=_actions(loud),
        foreign_actions=_actions(item for item in foreign if item.finding.level != "note"),
        hints=tuple(hints.values()),
        sources=sources,
        statistics=tuple((str(key), _words(value)) for key, value in sorted(_counted(report.statistics).items())),
        anchors={
            (source.path, line.number): line.anchor for source in sources for part in source.parts for line in part
        },
        editor=editor,
    )


def _title(targets: Sequence[TargetView]) -> str:
    if not targets:
        return "Nothing to judge: no target"
    if len(targets) == 1:
        (target,) = targets
        return f"{target.name}: {target.bench.word if target.bench is not None else target.word}"
    words = Counter(target.word for target in targets)
    return f"{len(targets)} targets: {', '.join(f'{count} {word}' for word, count in words.items())}"


# Findings, and the changes that they ask for


def _hints(targets: Sequence[TargetReport]) -> dict[str, HintView]:
    """Return each hint of Dynamo once, with its places, in the order in which they were given."""
    places: dict[str, dict[tuple[str, int], list[str]]] = {}
    several = len({(phrases.named_target(t, targets), site.case) for t in targets for site in t.break_sites}) > 1
    for target in targets:
        for site in target.break_sites:
            for hint in dict.fromkeys(map(phrases.reflow, site.hints)):
                found = places.setdefault(hint, {}).setdefault((site.path, site.line), [])
                name = _named_run(target, site, targets) if several else ""
                if name and name not in found:
                    found.append(name)
    return {
        hint: HintView(
            f"hint-{number}",
            number,
            hint,
            tuple((path, line, ", ".join(names)) for (path, line), names in sorted(found.items())),
        )
        for number, (hint, found) in enumerate(places.items(), 1)
    }


def _named_run(target: TargetReport, site: BreakSite, targets: Sequence[TargetReport]) -> str:
    """Return the case in which a break occurred, with the target if there are several; empty if there is one of
    each."""
    names = [site.case] if site.case else []
    names += [phrases.named_target(target, targets)] if len(targets) > 1 else []
    return " of ".join(names)


def _breaks(finding: Finding, targets: Sequence[TargetReport], hints: Mapping[str, HintView]) -> tuple[BreakView, ...]:
    """Return the breaks on a finding's lines, merged if they differ only in the case or the target."""
    alike: dict[tuple[object, ...], list[tuple[str, BreakSite]]] = {}
    for target in targets:
        for site in target.break_sites:
            if site.path == finding.path and finding.line <= site.line <= finding.end_line:
                key = (site.line, site.reason, site.gb_ids or site.gb_id, site.stack)
                alike.setdefault(key, []).append((_named_run(target, site, targets), site))
    return tuple(
        BreakView(
            site=sites[0][1],
            events=", ".join(
                phrases.number(site.hits, "event") + (f" in {name}" if name else "") for name, site in sites
            ),
            hints=tuple(dict.fromkeys(hints[phrases.reflow(hint)] for _, site in sites for hint in site.hints)),
        )
        for sites in alike.values()
    )


def _findings(
    report: Report, lines: Mapping[str, Sequence[highlighting.Line]], hints: Mapping[str, HintView]
) -> tuple[FindingView, ...]:
    ran = any(target.was_run for target in report.targets)
    rules = wording.rules_by_code(report)
    ordered = wording.in_order(report.findings)
    seen: Counter[str] = Counter()

    def anchor(finding: Finding) -> str:
        """Return the same anchor in each report on the same finding, so that links remain valid."""
        name = f"f-{_slug(finding.fingerprint)[:16]}"
        seen[name] += 1
        return name if seen[name] == 1 else f"{name}-{seen[name]}"

    return tuple(
        FindingView(
            anchor=anchor(finding),
            finding=finding,
            rule=wording.advice_on(finding, rules),
            phrase=wording.status_phrase(finding, ran),
            change=sides(finding.fix.diff) if finding.fix is not None and finding.fix.diff else None,
            snippet=highlighting.snippet(
                lines.get(finding.path, ()), (finding.line, finding.column), (finding.end_line, finding.end_column)
            ),
            shown=wording.shown_by_runs(finding, report.targets),
            breaks=_breaks(finding, report.targets, hints),
            static_evidence=wording.static_evidence(finding),
            run_evidence=wording.run_evidence(finding),
        )
        for finding in ordered
    )


def _groups(foreign: Iterable[FindingView]) -> tuple[RowGroup, ...]:
    grouped: dict[tuple[str, str, str], list[FindingView]] = {}
    for item in foreign:
        key = (item.finding.path, item.finding.rule or "", item.finding.name)
        grouped.setdefault(key, []).append(item)
    return tuple(RowGroup(path, items[0].finding, tuple(items)) for (path, _, _), items in grouped.items())


def _actions(loud: Iterable[FindingView]) -> tuple[ActionView, ...]:
    """Return the distinct changes for the findings, the most urgent first."""
    grouped: dict[tuple[str, str], list[FindingView]] = {}
    for item in loud:
        if needs_change(item.finding):
            key = (item.rule.code, "") if item.rule else ("", item.finding.message)
            grouped.setdefault(key, []).append(item)
    ordered = sorted(grouped.values(), key=lambda items: urgency([item.finding for item in items]))
    return tuple(map(_action, ordered))


def _action(items: Sequence[FindingView]) -> ActionView:
    findings = [item.finding for item in items]
    rule = items[0].rule
    hints = dict.fromkeys(hint for item in items for found in item.breaks for hint in found.hints)
    return ActionView(
        advice=rule.instead if rule else "",
        hints=() if findings[0].rule else tuple(hints),
        rule=rule,
        items=tuple(items),
        statuses=wording.status_counts(findings),
        operations=operations(findings),
        seconds=seconds(findings),
    )


# Targets and their modules


def _target(anchor: str, target: TargetReport, targets: Sequence[TargetReport]) -> TargetView:
    seen = target.observation
    troubles = CaptureFailures.of(seen)
    tree, left = _tree(seen.modules)
    clock = target.coverage.clock if target.coverage else None
    return TargetView(
        anchor=anchor,
        report=target,
        seen=seen,
        name=phrases.named_target(target, targets),
        ran=target.was_run,
        word=wording.VERDICT_WORD[target.verdict],
        sentence=wording.verdict_sentence(target),
        ladder=phrases.ladder(target),
        time=wording.time_sentence(target),
        troubles=troubles,
        explain=wording.explain_sentence(target),
        disagrees=wording.explain_disagrees(target),
        pictures=pictures(seen.modules, clock),
        by_source=source_picture(seen.modules, seen.break_sites, clock),
        tree=tree,
        modules_left=left,
        environment=_environment(target.environment or {}),
        bench=bench_page(seen.bench) if seen.bench is not None else None,
    )


_FIRST = ("torch", "python", "device", "gpu", "cuda", "driver", "cpu", "threads", "platform", "dtype", "autocast")
"""Entries of the environment that come first, in this order; the rest follows by name."""


def _environment(found: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the environment of the run, in words; defaults (no autocast) are left out."""
    keys = [*(key for key in _FIRST if key in found), *sorted(key for key in found if key not in _FIRST)]
    return tuple((key, _words(found[key])) for key in keys if found[key] not in (None, {}, ""))


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_words(item)}" for key, item in sorted(value.items()))
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)


def _tree(modules: Sequence[ModuleShare]) -> tuple[tuple[Node, ...], int]:
    """Return the hierarchy as nodes, and how many of the deepest modules were left out."""
    measured = [module for module in modules if module.ops is not None]
    if not measured:
        return (), 0
    total = max(module.ops or 0 for module in measured) or 1
    shown = sorted(modules, key=lambda module: _depth(module.name))[:MANY_MODULES]
    names = {module.name for module in shown}
    children: dict[str | None, list[ModuleShare]] = {}
    for module in (module for module in modules if module.name in names):
        children.setdefault(_parent(module.name, names), []).append(module)

    def node(module: ModuleShare, parent: str | None) -> Node:
        ops, captured = module.ops or 0, module.ops_captured or 0
        label = module.name[len(parent) + 1 :] if parent else module.name
        below = children.get(module.name, []) if module.name in names else []
        return Node(
            module,
            label or "(the whole)",
            min(100 * captured / total, 100),
            max(min(100 * (ops - captured) / total, 100), 0),
            tuple(node(child, module.name) for child in below),
        )

    return tuple(node(module, None) for module in children.get(None, [])), len(modules) - len(shown)


def _depth(name: str) -> int:
    return len(name.split(".")) if name else 0


def _parent(name: str, names: set[str]) -> str | None:
    """Return the nearest enclosing module on the page, no deeper than DEEP; None for the root."""
    if not name:
        return None
    parts = name.split(".")[:-1][:DEEP]
    while parts and ".".join(parts) not in names:
        parts.pop()
    enclosing = ".".join(parts)
    return enclosing if enclosing in names else None


# Annotated source


def own_paths(report: Report) -> frozenset[str]:
    """Return the files of the report that are the user's own and can be named to others."""
    foreign = {finding.path for finding in report.findings if finding.origin == "third_party"}
    foreign |= {site.path for t in report.targets for site in t.break_sites if site.origin == "third_party"}
    foreign |= {
        frame.path for t in report.targets for frame in t.observation.skipped_frames if frame.origin == "third_party"
    }
    return frozenset(s.path for s in report.sources if s.path not in foreign and not is_absolute(s.path))


def _sources(
    own: frozenset[str],
    findings: Sequence[FindingView],
    targets: Sequence[TargetView],
    lines: Mapping[str, Sequence[highlighting.Line]],
) -> tuple[SourceView, ...]:
    """Return every own file with marks, by path."""
    marks = _marks(findings, targets, own)
    executed = _line_numbers((each for target in targets for each in target.seen.executed), lines)
    skipped = _skipped_lines(targets, lines)
    paths = sorted(path for path in own if path in marks or path in executed)
    whole = sum(len(lines[path]) for path in paths) <= MANY_LINES
    names = {path: _slug(path) for path in paths}
    taken = Counter(names.values())

    def source(number: int, path: str) -> SourceView:
        name = names[path] if taken[names[path]] == 1 else f"{names[path]}~{number}"
        marked, ran, given_up = marks.get(path, {}), executed.get(path, set()), skipped.get(path, set())

        def line(at: int) -> SourceLine:
            text = lines[path][at - 1]
            return SourceLine(
                number=at,
                anchor=f"{name}:{at}",
                line=highlighting.part(text, 0, highlighting.LONG_LINE),
                cut=max(highlighting.length(text) - highlighting.LONG_LINE, 0),
                ran=at in ran,
                skipped=at in given_up,
                marks=tuple(marked.get(at, ())),
            )

        numbers = range(1, len(lines[path]) + 1)
        shown = numbers if whole else sorted(_near(marked).intersection(numbers))
        return SourceView(
            anchor=f"src-{number}",
            path=path,
            parts=tuple(tuple(map(line, part)) for part in _stretches(shown)),
            left=len(numbers) - len(shown),
            runs_known=path in executed,
        )

    return tuple(source(number, path) for number, path in enumerate(paths, 1))


def _near(marked: Iterable[int]) -> set[int]:
    return {line for at in marked for line in range(at - AROUND, at + AROUND + 1)}


def _stretches(numbers: Iterable[int]) -> list[list[int]]:
    """Split ascending numbers into runs without a gap."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def _slug(text: str) -> str:
    """Return `text` as a part of an anchor: characters that an address would have to escape become a dash."""
    return re.sub(r"[^\w./+-]", "-", text, flags=re.ASCII)


def _marks(
    findings: Sequence[FindingView], targets: Sequence[TargetView], own: frozenset[str]
) -> dict[str, dict[int, list[Mark]]]:
    marks: dict[str, dict[int, list[Mark]]] = {}

    def add(path: str, line: int, mark: Mark) -> None:
        at = marks.setdefault(path, {}).setdefault(line, [])
        if mark not in at:
            at.append(mark)

    for shown in findings:
        found = shown.finding
        add(found.path, found.line, Mark(found.level, f"{wording.code_of(found)} {found.level}", f"#{shown.anchor}"))
    for target in targets:
        for item in target.troubles.breaks:
            text = f"break {item.first.gb_id or ''}".rstrip() + f" x{item.hits}"
            add(item.first.path, item.first.line, Mark("break", text, f"#{target.anchor}-breaks"))
            for frame in item.skipped:
                add(frame.path, frame.line, Mark("frame", "skipped frame", f"#{target.anchor}-breaks"))
        for frame in target.troubles.frames:
            add(frame.path, frame.line, Mark("frame", "skipped frame", f"#{target.anchor}-frames"))
        for (path, line), count in _ways(target, own).items():
            text = f"leads to {phrases.number(count, 'break')} in installed packages"
            add(path, line, Mark("way", text, f"#{target.anchor}-breaks"))
        for region, module in _region_code(target.report):
            text = f"compile region {region.name or '(the whole)'}"
            add(module.path or "", module.line or 0, Mark("region", text, f"#{target.anchor}-regions"))
        for region in target.report.regions:
            if region.path and region.line:
                text = f"predicted to compile: {region.name}"
                add(region.path, region.line, Mark("region", text, f"#{target.anchor}-regions"))
    return marks


def _ways(target: TargetView, own: frozenset[str]) -> Counter[tuple[str, int]]:
    """Return the own line below which each break of an installed package occurred."""
    found: Counter[tuple[str, int]] = Counter()
    for item in target.troubles.breaks:
        if item.first.origin == "third_party":
            way = next((frame for frame in reversed(item.first.stack) if frame.path in own), None)
            found.update([(way.path, way.line)] if way else ())
    return found


def _region_code(target: TargetReport) -> list[tuple[Region, ModuleShare]]:
    """Return each region that may be compiled with the first of its modules, if the code of its forward is known."""
    found = []
    for region in (region for region in target.regions if region.state != "refuted"):
        module = next((m for m in target.observation.modules if covers(region.name, m.name)), None)
        if module is not None and module.path is not None and module.line is not None:
            found.append((region, module))
    return found


def _skipped_lines(
    targets: Sequence[TargetView], lines: Mapping[str, Sequence[highlighting.Line]]
) -> dict[str, set[int]]:
    frames = (frame for target in targets for frame in wording.skipped_frames(target.report))
    ranges = (LineSet(frame.path, ((frame.line, frame.end_line or frame.line),)) for frame in frames)
    return _line_numbers(ranges, lines)


def _line_numbers(
    line_sets: Iterable[LineSet], lines: Mapping[str, Sequence[highlighting.Line]]
) -> dict[str, set[int]]:
    """Return the lines by path, only of files that are shown and no more than they have: a report may claim any
    number."""
    numbers: dict[str, set[int]] = {}
    for line_set in line_sets:
        end = len(lines.get(line_set.path, ()))
        for first, last in line_set.ranges:
            numbers.setdefault(line_set.path, set()).update(range(max(first, 1), min(last, end) + 1))
    return numbers


def _counted(statistics: Mapping[str, Any]) -> dict[str, Any]:
    """Return how much was read, and each construct that was not understood in a few words."""
    unresolved = {row["construct"]: row["count"] for row in statistics.get("unresolved", ())}
    return {**statistics, **({"unresolved": unresolved} if unresolved else {})}
