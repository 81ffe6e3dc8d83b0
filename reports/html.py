"""The report as one self-contained page: no request leaves it, and it reads without JavaScript.

Whatever the report says reaches the page through jinja2's autoescape, with control characters spelled out
and absolute paths reduced to file names; a content security policy lets only this module's own style and
script through.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup, escape
from tcready.reports import json_, view
from tcready.reports.paths import is_absolute, without_absolute_paths
from tcready.schema import (
    Finding,
    LineSet,
    ModuleShare,
    Report,
    RuleText,
    SkippedFrame,
    Stage,
    TargetReport,
)

GB_PAGE = "https://meta-pytorch.github.io/compile-graph-break-site/gb/{}.html"
"""Where Dynamo's own page of a graph break id stands (named in Dynamo's messages)."""
CONTEXT_LINES = 2
LONG_LINE = 400
"""Characters of one source line that are shown; a snippet keeps those around its span."""
MANY_MODULES = 300
DEEP = 12
"""Levels of the module hierarchy that are nested; what is deeper hangs on the last of them."""
MANY_STATIC_TARGETS = 3


def render(report: Report) -> str:
    """The page, with a trailing newline; the report itself is in it as JSON (`#tcready-report`)."""
    report = without_absolute_paths(report)
    style, script = _asset("page.css"), _asset("page.js")
    return _template().render(
        page=_page(report),
        style=Markup(style),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        style_hash=_csp_hash(style),
        script_hash=_csp_hash(script),
        data=embedded(report),
        view=view,
        gb_link=_gb_link,
    )


@functools.cache
def _template() -> Template:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "percent": view.percent,
        "number": view.number,
        "first_line": view.first_line,
        "duration": view.duration,
        "prose": _prose,
    }
    return environment.from_string(_asset("page.html.jinja"))


def embedded(report: Report) -> Markup:
    """The report's JSON, fit for a script element: no `<`, `>` or `&` in it, so nothing can end it."""
    text = json.dumps(json.loads(json_.render(report)), sort_keys=True, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - escaped for where it stands


@dataclass(frozen=True)
class SnippetLine:
    """A line in three parts, the middle one marked; `hit` where the span touches the line."""

    number: int
    before: str
    marked: str
    after: str
    hit: bool


@dataclass(frozen=True)
class FindingView:
    anchor: str
    finding: Finding
    rule: RuleText | None
    phrase: str
    first_of_rule: bool
    snippet: tuple[SnippetLine, ...]
    shown: view.Shown
    said_static: tuple[str, ...]
    said_run: tuple[str, ...]

    @property
    def recorded(self) -> bool:
        """Whether the record of a run speaks of this very place."""
        return bool(self.shown.sites or self.shown.frames or self.shown.recompiles)

    @property
    def run_sentence(self) -> str:
        """What the status says of the run; empty where what the run recorded here says it already."""
        if view.was_shown(self.finding) and self.recorded:
            return ""
        said = self.phrase.removeprefix("predicted; ")
        return said[0].upper() + said[1:] + "."


@dataclass(frozen=True)
class Group:
    """Findings of one rule in one installed file."""

    path: str
    first: Finding
    items: tuple[FindingView, ...]


@dataclass(frozen=True)
class ActionView:
    """One change to make, and every place it is due."""

    advice: str
    rule: RuleText | None
    items: tuple[FindingView, ...]
    statuses: str


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
    name: str
    ran: bool
    word: str
    sentence: str
    ladder: tuple[Stage, ...]
    sites: tuple[view.Site, ...]
    frames: tuple[SkippedFrame, ...]
    benign: int
    explain: str | None
    disagrees: bool
    tree: tuple[Node, ...]
    modules_left: int
    environment: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Mark:
    kind: str
    text: str
    href: str


@dataclass(frozen=True)
class SourceLine:
    number: int
    text: str
    cut: int
    ran: bool
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class SourceView:
    number: int
    path: str
    lines: tuple[SourceLine, ...]
    runs_known: bool


@dataclass(frozen=True)
class Page:
    title: str
    report: Report
    targets: tuple[TargetView, ...]
    brief: tuple[TargetView, ...]
    """Targets that are only listed: many, and nothing was run for them."""
    own: tuple[FindingView, ...]
    notes: tuple[FindingView, ...]
    foreign: tuple[Group, ...]
    foreign_count: int
    actions: tuple[ActionView, ...]
    sources: tuple[SourceView, ...]
    statistics: tuple[tuple[str, str], ...]
    anchors: Mapping[str, int]

    def anchor(self, path: str, line: int) -> str:
        """The link to a line of an annotated source; empty where that file is not on the page."""
        number = self.anchors.get(path)
        return f"#src-{number}-L{line}" if number is not None else ""

    @property
    def ran(self) -> bool:
        return any(target.ran for target in self.targets)


def _page(report: Report) -> Page:
    lines = {source.path: view.lines_of(source.text) for source in report.sources}
    ran = any(view.was_run(target) for target in report.targets)
    rules = view.rules_by_code(report)
    ordered = view.in_order(report.findings)
    firsts = {finding.rule: number for number, finding in reversed(list(enumerate(ordered, 1)))}
    views = tuple(
        FindingView(
            anchor=f"f-{number}",
            finding=finding,
            rule=rules.get(finding.rule or ""),
            phrase=view.status_phrase(finding, ran),
            first_of_rule=firsts[finding.rule] == number,
            snippet=_snippet(finding, lines.get(finding.path, [])),
            shown=view.shown_by_runs(finding, report.targets),
            said_static=view.static_evidence(finding),
            said_run=view.run_evidence(finding),
        )
        for number, finding in enumerate(ordered, 1)
    )
    own = [item for item in views if item.finding.origin == "own"]
    loud = tuple(item for item in own if item.finding.level != "note")
    foreign = [item for item in views if item.finding.origin == "third_party"]
    targets = tuple(
        _target(f"t-{number}", target, report.targets) for number, target in enumerate(report.targets, 1)
    )
    static = [target for target in targets if not target.ran]
    brief = tuple(static) if len(static) > MANY_STATIC_TARGETS else ()
    shown = tuple(target for target in targets if target not in brief)
    sources = _sources(report, views, targets, lines)
    return Page(
        title=_title(targets),
        report=report,
        targets=shown,
        brief=brief,
        own=loud,
        notes=tuple(item for item in own if item.finding.level == "note"),
        foreign=_groups(foreign),
        foreign_count=len(foreign),
        actions=_actions(loud),
        sources=sources,
        statistics=_pairs(report.statistics),
        anchors={source.path: source.number for source in sources},
    )


def _title(targets: Sequence[TargetView]) -> str:
    if not targets:
        return "Nothing to judge: no target"
    if len(targets) == 1:
        return f"{targets[0].name}: {targets[0].word}"
    words = [target.word for target in targets]
    counted = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    return f"{len(targets)} targets: {counted}"


def _snippet(finding: Finding, lines: Sequence[str]) -> tuple[SnippetLine, ...]:
    if not 1 <= finding.line <= len(lines):
        return ()
    first = max(finding.line - CONTEXT_LINES, 1)
    last = min(min(finding.end_line, finding.line + 8) + CONTEXT_LINES, len(lines))
    return tuple(_snippet_line(finding, number, lines[number - 1]) for number in range(first, last + 1))


def _snippet_line(finding: Finding, number: int, line: str) -> SnippetLine:
    if not finding.line <= number <= finding.end_line:
        return SnippetLine(number, _cut(line, LONG_LINE), "", "", False)
    begin = finding.column - 1 if number == finding.line else len(line) - len(line.lstrip())
    end = finding.end_column - 1 if number == finding.end_line else len(line)
    begin = min(max(begin, 0), len(line))
    end = min(max(end, begin), len(line))
    before, after = line[:begin], line[end:]
    if len(before) > LONG_LINE // 2:
        before = "…" + before[-LONG_LINE // 2 :]
    return SnippetLine(number, before, _cut(line[begin:end], LONG_LINE), _cut(after, LONG_LINE // 2), True)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[:room] + "…"


def _groups(foreign: Iterable[FindingView]) -> tuple[Group, ...]:
    grouped: dict[tuple[str, str, str], list[FindingView]] = {}
    for item in foreign:
        key = (item.finding.path, item.finding.rule or "", item.finding.name)
        grouped.setdefault(key, []).append(item)
    return tuple(Group(path, items[0].finding, tuple(items)) for (path, _, _), items in grouped.items())


_WEIGHT = {
    "confirmed": 0,
    "runtime_only": 1,
    "not_traced": 2,
    "predicted": 3,
    "not_reached": 4,
    "not_observed": 5,
}


def _actions(loud: Iterable[FindingView]) -> tuple[ActionView, ...]:
    """The distinct changes that own findings ask for: what a run confirmed first, errors first."""
    grouped: dict[tuple[str, str], list[FindingView]] = {}
    for item in loud:
        if item.finding.effect != "intent" and item.finding.status != "not_observed":
            advice = item.rule.instead if item.rule else item.finding.message
            grouped.setdefault((item.finding.rule or "", advice), []).append(item)

    def weight(entry: tuple[tuple[str, str], list[FindingView]]) -> tuple[bool, int, int, str]:
        found = [item.finding for item in entry[1]]
        warn = all(finding.level != "error" for finding in found)
        return warn, min(_WEIGHT[finding.status] for finding in found), -len(found), entry[0][0]

    return tuple(
        ActionView(advice, items[0].rule, tuple(items), view.status_counts(item.finding for item in items))
        for (_, advice), items in sorted(grouped.items(), key=weight)
    )


def _target(anchor: str, target: TargetReport, targets: Sequence[TargetReport]) -> TargetView:
    frames = tuple(view.lost_frames(target))
    tree, left = _tree(target.modules)
    return TargetView(
        anchor=anchor,
        report=target,
        name=view.named_target(target, targets),
        ran=view.was_run(target),
        word=view.VERDICT_WORD[target.verdict],
        sentence=view.verdict_sentence(target),
        ladder=view.ladder(target),
        sites=tuple(view.distinct_sites(target)),
        frames=frames,
        benign=len(target.skipped_frames) - len(frames),
        explain=view.explain_sentence(target),
        disagrees=view.explain_disagrees(target),
        tree=tree,
        modules_left=left,
        environment=_pairs(target.environment or {}),
    )


def _tree(modules: Sequence[ModuleShare]) -> tuple[tuple[Node, ...], int]:
    """The hierarchy as nodes, and how many of the deepest modules were left out."""
    measured = [module for module in modules if module.ops is not None]
    if not measured:
        return (), 0
    total = max(module.ops or 0 for module in measured) or 1
    kept = sorted(modules, key=lambda module: _depth(module.name))[:MANY_MODULES]
    names = {module.name for module in kept}
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

    return tuple(node(module, None) for module in children.get(None, [])), len(modules) - len(kept)


def _depth(name: str) -> int:
    return len(name.split(".")) if name else 0


def _parent(name: str, names: set[str]) -> str | None:
    """The nearest enclosing module on the page, no deeper than DEEP; None for the root."""
    if not name:
        return None
    parts = name.split(".")[:-1][:DEEP]
    while parts and ".".join(parts) not in names:
        parts.pop()
    enclosing = ".".join(parts)
    return enclosing if enclosing in names else None


def _sources(
    report: Report,
    findings: Sequence[FindingView],
    targets: Sequence[TargetView],
    lines: Mapping[str, list[str]],
) -> tuple[SourceView, ...]:
    """Every own file with something to say of it, by path."""
    marks = _marks(findings, targets)
    executed = _line_numbers(line_set for target in report.targets for line_set in target.executed)
    foreign = {item.finding.path for item in findings if item.finding.origin == "third_party"}
    foreign |= {site.path for t in report.targets for site in t.break_sites if site.origin == "third_party"}
    foreign |= {f.path for t in report.targets for f in t.skipped_frames if f.origin == "third_party"}
    own = [
        path
        for path in sorted(lines)
        if path not in foreign and not is_absolute(path) and (path in marks or path in executed)
    ]
    return tuple(
        SourceView(
            number,
            path,
            tuple(
                SourceLine(
                    at,
                    line[:LONG_LINE],
                    max(len(line) - LONG_LINE, 0),
                    at in executed.get(path, ()),
                    tuple(marks.get(path, {}).get(at, ())),
                )
                for at, line in enumerate(_body(lines[path]), 1)
            ),
            path in executed,
        )
        for number, path in enumerate(own, 1)
    )


def _body(lines: Sequence[str]) -> Sequence[str]:
    """Without the empty piece behind the last line's end."""
    return lines[:-1] if lines and not lines[-1] else lines


def _marks(
    findings: Sequence[FindingView], targets: Sequence[TargetView]
) -> dict[str, dict[int, list[Mark]]]:
    marks: dict[str, dict[int, list[Mark]]] = {}

    def add(path: str, line: int, mark: Mark) -> None:
        at = marks.setdefault(path, {}).setdefault(line, [])
        if mark not in at:
            at.append(mark)

    for item in findings:
        found = item.finding
        add(
            found.path,
            found.line,
            Mark(found.level, f"{view.code_of(found)} {found.level}", f"#{item.anchor}"),
        )
    for target in targets:
        for site in target.sites:
            text = f"break {site.first.gb_id or ''}".rstrip() + f" x{site.hits}"
            add(site.first.path, site.first.line, Mark("break", text, f"#{target.anchor}-breaks"))
        for frame in target.frames:
            add(frame.path, frame.line, Mark("frame", "skipped frame", f"#{target.anchor}-frames"))
    return marks


def _line_numbers(line_sets: Iterable[LineSet]) -> dict[str, set[int]]:
    numbers: dict[str, set[int]] = {}
    for line_set in line_sets:
        for first, last in line_set.ranges:
            numbers.setdefault(line_set.path, set()).update(range(first, last + 1))
    return numbers


def _pairs(mapping: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Key and value as text, sorted; a nested value as JSON."""
    return tuple(
        (str(key), value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str))
        for key, value in sorted(mapping.items())
    )


def _asset(name: str) -> str:
    return resources.files("tcready.reports").joinpath(name).read_text(encoding="utf-8")


def _csp_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _finalize(value: Any) -> Any:
    """What every expression of the template passes through before it is escaped."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return view.visible(value, keep="\n\t")
    return value


def _gb_link(gb_id: str) -> str:
    return GB_PAGE.format(gb_id.lower()) if re.fullmatch(r"GB[0-9]{4}", gb_id) else ""


def _prose(text: str) -> Markup:
    """Escaped text, reflowed, in which what stands between backticks is code."""
    parts = re.split(r"`([^`\n]+)`", view.visible(view.reflowed(text), keep="\n\t"))
    marked = Markup("").join(
        Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts)
    )
    return marked.replace("\n", Markup("<br>"))
