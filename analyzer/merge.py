"""What the source predicts and what the runs showed, put together into one Report. Pure.

Each finding is judged against each observation, a break that nobody predicted becomes a finding of its own,
and every target gets its verdict and its regions.
"""

from __future__ import annotations

import ast
import dataclasses
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tcready import regions
from tcready.identity import fingerprint, spelled, statement_at
from tcready.schema import (
    BREAKING,
    FATES,
    INTENDED,
    LEVELS,
    STAGES,
    SYNTHESISED,
    BreakEffect,
    BreakSite,
    Cost,
    Effect,
    Finding,
    FindingTarget,
    Frame,
    FrameFate,
    Intent,
    Level,
    LineSet,
    Mode,
    ModuleShare,
    Noqa,
    Observation,
    Origin,
    Recompile,
    Region,
    Report,
    RuleText,
    SkippedFrame,
    Stage,
    StageName,
    StageState,
    StaticResult,
    StaticTarget,
    Status,
    TargetReport,
    Tool,
    Verdict,
)

STRENGTH: tuple[Status, ...] = (
    "predicted",
    "not_reached",
    "not_traced",
    "not_observed",
    "confirmed",
    "runtime_only",
)
"""How much a status knows, rising: over several targets a finding has the one that knows most.

One target in which Dynamo broke outweighs another that traced the line unharmed; and a target that traced it
outweighs one that never came by.
"""

_COMPILE_STAGES = frozenset({"capture", "fullgraph", "backend", "parity"})
"""A failure of one of these speaks of the model; a failure of any other leaves the verdict open."""
_FAILING = frozenset({"capture", "backend", "parity"})
"""`fullgraph` asks for more than compiling does: a model with breaks fails it."""
_LATER_STAGES: tuple[StageName, ...] = ("fullgraph", "backend", "parity", "speed")
_HALF = 0.5
"""Share of the operations that break-free regions must hold for `ready_by_region`."""
_CUT_SHORT = re.compile(r"no answer within|memory: |the process (died|exited)|.* cannot be started")
"""The launcher's words for a stage that ended for a reason that says nothing of compiling."""
_LIMIT = re.compile(r"recompile[_ ]limit|cache[_ ]size[_ ]limit|recompilation limit", re.IGNORECASE)
_MODE_ONLY: Mapping[Mode | None, str] = {
    "train": "; in training mode only",
    "infer": "; in inference mode only",
}
_GUARDED = re.compile(r"(?:\.|\[['\"])([A-Za-z_]\w*)")
"""Attribute and key names in a guard: `len(L['self'].cache) == 2` guards `self` and `cache`."""

Key = tuple[str, int, str | None]
"""A finding's (path, line, rule): there is one finding for each."""


def merge(
    static: StaticResult, observations: Sequence[Observation], rules: Sequence[RuleText], tool: Tool
) -> Report:
    """One report of what was predicted and what was seen.

    Findings are sorted by place; targets that ran come first, in the order given, then those that only the
    source speaks of. `static.sources` should hold the sources of observed files too, where they are to be
    shown; a run-only finding spans its source line where the source is there, one character where not.
    `rules` keeps those that a finding names.
    """
    code = _Code({source.path: source.text for source in static.sources})
    modes: dict[str, set[Mode]] = defaultdict(set)
    for observation in observations:
        modes[observation.target].add(observation.mode)
    runs = tuple(
        _Run(seen, code, seen.mode if len(modes[seen.target]) > 1 else None) for seen in observations
    )
    predictions = _distinct((*static.findings, *static.hidden))
    hidden = {_key(finding) for finding in static.hidden} - {_key(finding) for finding in static.findings}
    proofs: dict[Key, list[_Proof]] = defaultdict(list)
    unpredicted: dict[Key, list[_Event]] = defaultdict(list)
    for run in runs:
        for key, proof in _proofs(run, predictions, code):
            proofs[key].append(dataclasses.replace(proof, mode=run.mode))
        for event in _unpredicted(run, predictions, code):
            unpredicted[event.path, event.line, None].append(dataclasses.replace(event, mode=run.mode))
    waiting = _waiting(static.targets, runs)
    judged = [
        finding if finding.path in waiting else _judged(finding, runs, proofs[_key(finding)])
        for finding in predictions
    ]
    seen = [_runtime_finding(events, code, _only_mode(events, runs)) for events in unpredicted.values()]
    static = dataclasses.replace(static, warnings=(*static.warnings, *_unused(static.unused, seen, rules)))
    known = tuple(sorted(_numbered([*judged, *seen]), key=_order))
    findings = tuple(finding for finding in known if _key(finding) not in hidden)
    named = {finding.rule for finding in findings}
    return Report(
        tool=tool,
        findings=findings,
        targets=_targets(static.targets, runs, known, code),
        rules=tuple(rule for rule in rules if rule.code in named),
        sources=static.sources,
        skipped=static.skipped,
        warnings=(*static.warnings, *(f"{_named(r)}: {w}" for r in runs for w in r.observation.warnings)),
        statistics=static.statistics,
        predicted=static.targets,
        hidden=tuple(sorted({p for f in known if _key(f) in hidden for p in (f.fingerprint, *f.also)})),
    )


def _unused(unused: Iterable[Noqa], seen: Iterable[Finding], rules: Sequence[RuleText]) -> Iterator[str]:
    """What to say of each `# noqa` that hides nothing; not where a run saw what no rule predicts."""
    surprising = {(f.path, line) for f in seen for line in range(f.line, f.end_line + 1)}
    for noqa in unused:
        if (noqa.path, noqa.line) not in surprising:
            known = any(rule.code.startswith(noqa.code) for rule in rules)
            why = "" if known else ": there is no such rule"
            yield f"{noqa.path}:{noqa.line}: unused noqa {noqa.code}{why}"


def _named(run: _Run) -> str:
    """The run's target, with the mode where it was run in several."""
    return f"{run.target} ({run.mode})" if run.mode else run.target


def exit_code(report: Report, *, fail_on: Level = "warning", third_party: bool = False) -> int:
    """2 where something due could not be established, else 1 where a finding fails, else 0.

    Due and not established: a file that could not be parsed, or a target that was run whose verdict is
    `unknown`. Third-party findings fail only with `third_party`. A compile error fails as a finding does.
    """
    if report.skipped or any(was_run(target) and target.verdict == "unknown" for target in report.targets):
        return 2
    weight = LEVELS.index(fail_on)
    failing = any(
        LEVELS.index(finding.level) >= weight and (third_party or finding.origin == "own")
        for finding in report.findings
    )
    return 1 if failing or any(_failed_to_compile(target.stages) for target in report.targets) else 0


def was_run(target: TargetReport) -> bool:
    """Whether anything beyond reading the target's source was tried."""
    return target.environment is not None or any(
        stage.state == "fail" or (stage.stage != "parse" and stage.state == "pass") for stage in target.stages
    )


class _Code:
    """The sources by display path, and where functions begin and end in them."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._lines: dict[str, list[str]] = {}
        self._texts = texts
        self._functions: dict[str, tuple[_Function, ...]] = {}
        self._trees: dict[str, ast.Module] = {}

    def line(self, path: str, line: int) -> str:
        """The text of one line; empty where the source is not there."""
        if path not in self._lines:
            text = self._texts.get(path)
            self._lines[path] = [] if text is None else re.split(r"\r\n|\r|\n", text)
        lines = self._lines[path]
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def function(self, path: str, line: int) -> _Function | None:
        """The function whose code begins at `line`, be it told by its `def` or by its first decorator."""
        if path not in self._functions:
            self._functions[path] = tuple(_functions(self._tree(path)))
        return next((f for f in self._functions[path] if line in (f.first, f.line)), None)

    def statement(self, path: str, line: int) -> str | None:
        """What is written on a line, however it is laid out; None where the source is not there."""
        found = statement_at(self._tree(path), line)
        return spelled(found) if found is not None else None

    def _tree(self, path: str) -> ast.Module:
        if path not in self._trees:
            try:
                self._trees[path] = ast.parse(self._texts.get(path, ""))
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                self._trees[path] = ast.Module([], [])
        return self._trees[path]

    def place(self, path: str | None, line: int | None) -> regions.Place | None:
        """Where a function's code begins, as Python counts it: at its first decorator."""
        if path is None or line is None:
            return None
        function = self.function(path, line)
        return path, function.first if function else line

    def ends(self, places: Iterable[regions.Place]) -> dict[regions.Place, int]:
        """The last lines of the functions that begin at `places`, where the source is there."""
        return {place: found.last for place in places if (found := self.function(*place)) is not None}


@dataclass(frozen=True)
class _Function:
    first: int
    line: int
    last: int


def _functions(tree: ast.Module) -> Iterator[_Function]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield _Function(first, node.lineno, node.end_lineno or node.lineno)


class _Lines:
    """Which lines of which files, out of LineSets."""

    def __init__(self, sets: Iterable[LineSet]) -> None:
        self._ranges: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for lines in sets:
            self._ranges[lines.path].extend(lines.ranges)

    def __bool__(self) -> bool:
        return any(self._ranges.values())

    def meets(self, path: str, first: int, last: int) -> bool:
        return any(begin <= last and first <= end for begin, end in self._ranges.get(path, ()))


class _Run:
    """One observation, ready to be asked about places."""

    def __init__(self, observation: Observation, code: _Code, mode: Mode | None) -> None:
        self.observation = observation
        self.mode = mode
        """The run's mode where the target was run in several, else None."""
        self.target = observation.target
        self.modules = observation.modules
        self.recompiles = observation.recompiles
        self.stages = {stage.stage: stage for stage in observation.stages}
        self.captured = self.state("capture") == "pass" and not self.nothing_compiled
        self.executed = _Lines(observation.executed)
        self.traced = _Lines(observation.traced)
        self.lost = tuple(
            frame if frame.end_line else dataclasses.replace(frame, end_line=_end(frame, code))
            for frame in observation.skipped_frames
            if not frame.benign
        )
        given_up = {(frame.path, frame.line): frame for frame in self.lost}
        # A frame given up without a word is told twice, as a frame and as a site at its `def`.
        self.sites = tuple(
            site
            for site in observation.break_sites
            if site.action != "skip_frame_unlogged" or (site.path, site.line) not in given_up
        )
        self._silent = {
            (site.path, site.line): site for site in observation.break_sites if site not in self.sites
        }

    @property
    def nothing_compiled(self) -> bool:
        """Operations ran, none of them in a graph, and no break says why: compilation is switched off."""
        seen = self.observation
        lost = seen.break_sites or any(not frame.benign for frame in seen.skipped_frames)
        return seen.coverage is not None and not seen.graphs and seen.coverage.ops_captured == 0 and not lost

    def ids_of(self, frame: SkippedFrame) -> tuple[str, ...]:
        """The ids by which Dynamo knows why it gave up a frame without a word."""
        site = self._silent.get((frame.path, frame.line))
        return _ids(site) if site else ()

    def state(self, stage: StageName) -> StageState:
        found = self.stages.get(stage)
        return found.state if found else "not_run"

    def detail(self, stage: StageName) -> str:
        found = self.stages.get(stage)
        return found.detail if found else ""

    def lost_around(self, path: str, line: int) -> SkippedFrame | None:
        """The innermost frame Dynamo gave up on that a line stands in."""
        around = [frame for frame in self.lost if _in_frame(frame, path, line)]
        return max(around, key=lambda frame: frame.line, default=None)


def _end(frame: SkippedFrame, code: _Code) -> int | None:
    function = code.function(frame.path, frame.line)
    return function.last if function else None


def _in_frame(frame: SkippedFrame, path: str, line: int) -> bool:
    return frame.path == path and frame.line <= line <= (frame.end_line or frame.line)


@dataclass(frozen=True)
class _Proof:
    """That Dynamo did, in one case of one target, what a finding claims."""

    target: str
    case: str | None
    evidence: str
    gb_ids: tuple[str, ...] = ()
    level: Level = "error"
    frames: tuple[FrameFate, ...] = ()
    """What became of the functions around."""
    cost: Cost | None = None
    mode: Mode | None = None


@dataclass(frozen=True)
class _Event:
    """Something a run showed that no finding claims; the event of one case of one target."""

    target: str
    case: str | None
    path: str
    line: int
    symbol: str
    origin: Origin
    effect: Effect
    name: str
    message: str
    evidence: str
    gb_ids: tuple[str, ...] = ()
    cost: Cost | None = None
    mode: Mode | None = None


def _key(finding: Finding) -> Key:
    return finding.path, finding.line, finding.rule


def _order(finding: Finding) -> tuple[str, int, int, str, str]:
    return finding.path, finding.line, finding.column, finding.rule or "", finding.fingerprint


def _distinct(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """One finding for each (path, line, rule): the surest, then the leftmost, told for the others too."""
    sure = ("high", "medium", "low")
    alike: dict[Key, list[Finding]] = defaultdict(list)
    for finding in sorted(findings, key=lambda f: (sure.index(f.confidence), f.column, f.fingerprint)):
        alike[_key(finding)].append(finding)
    return tuple(best if not others else _for_all(best, others) for best, *others in alike.values())


def _for_all(best: Finding, others: Sequence[Finding]) -> Finding:
    prints = {print_ for each in (best, *others) for print_ in (each.fingerprint, *each.also)}
    until = max(last for each in (best, *others) for last in (each.end_line, each.also_until or 0))
    return dataclasses.replace(best, also=tuple(sorted(prints - {best.fingerprint})), also_until=until)


# What the runs say of the findings


def _proofs(run: _Run, findings: Sequence[Finding], code: _Code) -> Iterator[tuple[Key, _Proof]]:
    """Every event of `run` that does what a finding claims, with that finding's key."""
    for site in run.sites:
        for finding in _claimants(site, findings):
            evidence = _site_evidence(site)
            level: Level = "note" if _effect(site) == "intent" else "error"
            yield (
                _key(finding),
                _Proof(run.target, site.case, evidence, _ids(site), level, site.frames, site.cost),
            )
    for frame in run.lost:
        for finding in _skip_claimants(frame, run, findings):
            lost = FrameFate(frame.path, frame.line, frame.symbol, "whole_frame")
            evidence = _skip_evidence(frame)
            yield _key(finding), _Proof(run.target, frame.case, evidence, run.ids_of(frame), frames=(lost,))
    for recompile in run.recompiles:
        for finding in _recompile_claimants(recompile, run, findings, code):
            steady = recompile.identical_call or _limit_of(recompile, run) is not None
            level = "error" if steady else "warning"
            yield (
                _key(finding),
                _Proof(run.target, recompile.case, _recompile_evidence(recompile), level=level),
            )
    case = run.observation.shapes.case if run.observation.shapes else None
    for finding in findings:
        if finding.effect == "recompile" and (said := _size_evidence(run, finding)):
            yield _key(finding), _Proof(run.target, case, said, level="warning")
    if run.state("capture") == "fail":
        detail = run.detail("capture")
        for finding in findings:
            if finding.effect == "compile_error" and _names_place(detail, finding):
                yield _key(finding), _Proof(run.target, None, f"Dynamo: {_first_line(detail)}")


def _size_evidence(run: _Run, finding: Finding) -> str | None:
    """What the shape study says of the finding's lines: with a dimension marked dynamic, code that stands there made
    it a constant, or a guard from there failed for another size. The other settings name only a tensor's first use;
    so does the guard against a size of 1.
    """
    study = run.observation.shapes
    for trial in study.trials if study else ():
        if trial.setting != "mark_dynamic":
            continue
        if trial.error and _names_place(trial.error, finding):
            return f"Dynamo: with {trial.varied} marked dynamic: {trial.error}"
        for call in trial.calls:
            for event in call.recompiles if call.size not in (None, 1) else ():
                if any(
                    f.path == finding.path and finding.line <= f.line <= finding.end_line for f in event.lines
                ):
                    reasons = "; ".join(map(_first_line, event.reasons))
                    return f"Dynamo: recompiled {event.symbol} for {call.label}, marked dynamic: {reasons}"
    return None


def _claimants(site: BreakSite, findings: Iterable[Finding]) -> list[Finding]:
    """The findings that a break site proves: those on its line that speak of its kind.

    Where ids tell several findings on one line apart, only those that claim the site's ids; where none
    does (ids differ between versions, and some breaks have none), all that claim a break there.
    """
    here = [
        finding
        for finding in findings
        if finding.path == site.path
        and finding.line <= site.line <= finding.end_line
        and (finding.effect in BREAKING or finding.effect == "intent")
    ]
    ids = set(_ids(site))
    return [finding for finding in here if ids.intersection(finding.gb_ids)] or here


def _skip_claimants(frame: SkippedFrame, run: _Run, findings: Iterable[Finding]) -> list[Finding]:
    """The findings that say the frame they stand in is skipped, where no break site in it says why."""
    if _LIMIT.search(frame.reason) or _sites_behind(frame, run):
        return []
    return [f for f in findings if f.effect == "frame_skip" and _in_frame(frame, f.path, f.line)]


def _recompile_claimants(
    recompile: Recompile, run: _Run, findings: Iterable[Finding], code: _Code
) -> list[Finding]:
    """The recompile findings at a place that the failed guards name.

    A claim of level `error` (recompiles on every call) is proved by a recompile on an identical call, or by
    one that went on until Dynamo gave the frame up.
    """
    steady = recompile.identical_call or _limit_of(recompile, run) is not None
    return [
        finding
        for finding in findings
        if finding.effect == "recompile"
        and (steady or finding.level != "error")
        and _guard_names(recompile, finding, code)
    ]


def _guard_names(recompile: Recompile, finding: Finding, code: _Code) -> bool:
    """Whether the guards that failed name the finding's lines, or in its file what its line names."""
    if any(f.path == finding.path and finding.line <= f.line <= finding.end_line for f in recompile.lines):
        return True
    if any(_names_place(reason, finding) for reason in recompile.reasons):
        return True
    if recompile.path != finding.path:
        return False
    guards = (reason.split("#")[0] for reason in recompile.reasons)
    names = {name for guard in guards for name in _GUARDED.findall(guard)} - {"self"}
    text = " ".join(code.line(finding.path, n) for n in range(finding.line, finding.end_line + 1))
    return not names.isdisjoint(re.findall(r"\w+", text))


def _names_place(text: str, finding: Finding) -> bool:
    """Whether a message says `PATH:LINE` of one of the finding's lines."""
    lines = re.findall(rf"{re.escape(finding.path)}:(\d+)\b", text)
    return any(finding.line <= int(line) <= finding.end_line for line in lines)


def _limit_of(recompile: Recompile, run: _Run) -> SkippedFrame | None:
    """The skipped frame that says this recompiling went on until Dynamo gave up."""
    for frame in run.lost:
        if (frame.path, frame.line) == (recompile.path, recompile.line) and _LIMIT.search(frame.reason):
            return frame
    return None


def _sites_behind(frame: SkippedFrame, run: _Run) -> list[BreakSite]:
    """The break sites whose stack passes through a skipped frame: why it was given up."""
    return [
        site
        for site in run.sites
        if any(
            _in_frame(frame, f.path, f.line) or (frame.end_line is None and _same_function(frame, f))
            for f in (*site.stack, Frame(site.path, site.line, site.symbol))
        )
    ]


def _same_function(frame: SkippedFrame, other: Frame) -> bool:
    return (frame.path, frame.symbol) == (other.path, other.symbol)


def _judged(finding: Finding, runs: Sequence[_Run], proofs: Sequence[_Proof]) -> Finding:
    """The finding with its status in each run, and what follows for its level."""
    placed: list[tuple[FindingTarget, str]] = []
    for run in runs:
        own = [proof for proof in proofs if (proof.target, proof.mode) == (run.target, run.mode)]
        if own:
            placed += [
                (FindingTarget(run.target, case, "confirmed", run.mode), "")
                for case in dict.fromkeys(p.case for p in own)
            ]
        else:
            status, why = _status(finding, run)
            placed.append((FindingTarget(run.target, None, status, run.mode), why))
    ran = {target.target for target, _ in placed}
    static_only = tuple(target for target in finding.targets if target.target not in ran)
    targets = (*(target for target, _ in placed), *static_only)
    status = max((target.status for target in targets), key=STRENGTH.index, default=finding.status)
    only = _only_mode(proofs, runs)
    said = [proof.evidence + _MODE_ONLY.get(only, "") for proof in proofs] or [
        why for target, why in placed if target.status == status and why
    ]
    return dataclasses.replace(
        finding,
        status=status,
        level=_level(finding, status, proofs),
        confidence="high" if status == "confirmed" else finding.confidence,
        targets=targets,
        gb_ids=tuple(dict.fromkeys(i for proof in proofs for i in proof.gb_ids)) or finding.gb_ids,
        evidence=tuple(dict.fromkeys([*map(_static_line, finding.evidence), *said])),
        break_effect=_seen(finding.break_effect, proofs),
        cost=_cost(proofs),
    )


def _only_mode(told: Sequence[_Proof | _Event], runs: Iterable[_Run]) -> Mode | None:
    """The one mode in which something was seen, where all runs of its targets in the other captured and did not."""
    modes = {item.mode for item in told}
    targets = {item.target for item in told}
    if len(modes) != 1 or not all(run.captured for run in runs if run.target in targets):
        return None
    return modes.pop()


def _cost(told: Iterable[_Proof | _Event]) -> Mapping[str, float] | None:
    """What ran outside of graphs on account of a finding, over all cases in which that was counted."""
    costs = [item.cost for item in told if item.cost is not None]
    if not costs:
        return None
    return {"operations": sum(c.ops for c in costs), "seconds": sum(c.seconds for c in costs)}


def _seen(shape: BreakEffect | None, proofs: Iterable[_Proof]) -> BreakEffect | None:
    """The prediction with what the runs showed beside it: a function that was ever given up counts as that."""
    if shape is None:
        return None
    frames: dict[regions.Place, FrameFate] = {}
    for frame in (frame for proof in proofs for frame in proof.frames):
        known = frames.get((frame.path, frame.line), frame)
        frames[frame.path, frame.line] = max(known, frame, key=lambda f: FATES.index(f.fate))
    return dataclasses.replace(shape, seen=tuple(frames.values()))


def _waiting(targets: Iterable[StaticTarget], runs: Sequence[_Run]) -> frozenset[str]:
    """Files with targets of their own that no run was about or came by: no run says anything of them."""
    asked = {target.target.partition("::")[0] for target in targets}
    ran = {run.target.partition("::")[0] for run in runs}
    whole = (1, sys.maxsize)
    return frozenset(
        path
        for path in asked - ran
        if not any(run.executed.meets(path, *whole) or run.traced.meets(path, *whole) for run in runs)
    )


def _static_line(text: str) -> str:
    return text if text.startswith("static: ") else f"static: {text}"


def _level(finding: Finding, status: Status, proofs: Sequence[_Proof]) -> Level:
    """A refuted prediction is a note; a proved one weighs what its effect weighs, however unsure it was."""
    if status == "not_observed":
        return "note"
    if status != "confirmed" or finding.effect == "intent":
        return finding.level
    return max(finding.level, *(proof.level for proof in proofs), key=LEVELS.index)


def _status(finding: Finding, run: _Run) -> tuple[Status, str]:
    """What a run without proof says of a finding, and in which words."""
    if not run.captured or not _showable(finding):
        return "predicted", ""
    if not _in_mode(finding, run.observation.mode):
        return "predicted", "Dynamo: the run was in the other mode"
    if finding.effect == "recompile" and any(recompile.identical_call for recompile in run.recompiles):
        return (
            "predicted",
            "Dynamo: recompiles on an identical call, and the guards that failed do not name this line",
        )
    place = (finding.path, finding.line, finding.end_line)
    if not run.executed.meets(*place) and not run.traced.meets(*place):
        return "not_reached", "Dynamo: the line did not run for these inputs"
    ended = any(
        s.path == finding.path and finding.line <= s.line <= finding.end_line for s in run.sites if _skips(s)
    )
    lost = run.lost_around(finding.path, finding.line)
    covered = run.traced.meets(*place) and not ended if run.traced else lost is None
    if covered:
        return "not_observed", "Dynamo: traced this line and it did not show"
    inside = f"{lost.symbol} (line {lost.line})" if lost else "a frame"
    return "not_traced", f"Dynamo: the line ran, but inside {inside}, which Dynamo had given up on"


def _in_mode(finding: Finding, mode: Mode) -> bool:
    """Whether a finding is predicted in the mode of a run."""
    return mode in finding.modes or not finding.modes


def _showable(finding: Finding) -> bool:
    """Whether calls with one set of inputs can show the effect."""
    return finding.effect in BREAKING or (finding.effect == "recompile" and finding.level == "error")


def _skips(site: BreakSite) -> bool:
    return site.action != "resume"


# What nobody predicted


def _unpredicted(run: _Run, findings: Sequence[Finding], code: _Code) -> Iterator[_Event]:
    """The events of a run that no finding claims: break sites, lost frames, steady recompiles."""
    for site in run.sites:
        if not _claimants(site, findings):
            yield _site_event(site, run)
    told: set[regions.Place] = set()
    for frame in run.lost:
        if _sites_behind(frame, run) or _skip_claimants(frame, run, findings):
            continue
        behind = [r for r in run.recompiles if (r.path, r.line) == (frame.path, frame.line)]
        if any(_recompile_claimants(r, run, findings, code) for r in behind):
            continue
        told.add((frame.path, frame.line))
        yield _skip_event(frame, run, behind)
    for recompile in run.recompiles:
        if not recompile.identical_call or (recompile.path, recompile.line) in told:
            continue
        if not _recompile_claimants(recompile, run, findings, code):
            yield _recompile_event(recompile, run)


def _site_event(site: BreakSite, run: _Run) -> _Event:
    return _Event(
        target=run.target,
        case=site.case,
        path=site.path,
        line=site.line,
        symbol=site.symbol,
        origin=site.origin,
        effect=_effect(site),
        name=_slug(site.reason) or ("frame-skip" if _skips(site) else "graph-break"),
        message=_first_line(site.reason),
        evidence=_site_evidence(site),
        gb_ids=_ids(site),
        cost=site.cost,
    )


def _effect(site: BreakSite) -> Effect:
    if _ids(site) and INTENDED.issuperset(_ids(site)):
        return "intent"
    return "frame_skip" if _skips(site) else "graph_break"


def _skip_event(frame: SkippedFrame, run: _Run, recompiles: Sequence[Recompile]) -> _Event:
    why = _first_line(frame.reason)
    guards = "; ".join(dict.fromkeys(_first_line(reason) for r in recompiles for reason in r.reasons))
    limit = bool(_LIMIT.search(frame.reason))
    return _Event(
        target=run.target,
        case=frame.case,
        path=frame.path,
        line=frame.line,
        symbol=frame.symbol,
        origin=frame.origin,
        effect="frame_skip",
        name="recompile-limit" if limit else "frame-skip",
        message=f"Dynamo gave up on the whole of {frame.symbol}: {why}",
        evidence=_skip_evidence(frame) + (f"; recompiled before because {guards}" if guards else ""),
        gb_ids=run.ids_of(frame),
    )


def _recompile_event(recompile: Recompile, run: _Run) -> _Event:
    place = next(
        (f for f in recompile.lines if f.path == recompile.path),
        Frame(recompile.path, recompile.line, recompile.symbol),
    )
    reasons = "; ".join(dict.fromkeys(map(_first_line, recompile.reasons)))
    return _Event(
        target=run.target,
        case=recompile.case,
        path=place.path,
        line=place.line,
        symbol=place.symbol,
        origin=recompile.origin,
        effect="recompile",
        name="recompile",
        message=f"{recompile.symbol} compiles again on an identical call"
        + (f": {reasons}" if reasons else ""),
        evidence=_recompile_evidence(recompile),
    )


def _runtime_finding(events: Sequence[_Event], code: _Code, only: Mode | None) -> Finding:
    """The one finding of all that happened at a line; the heaviest effect names it. `only`: the one mode it is of."""
    weight: tuple[Effect, ...] = ("intent", "recompile", "graph_break", "frame_skip")
    first = max(events, key=lambda event: weight.index(event.effect))
    text = code.line(first.path, first.line)
    stripped = text.strip()
    column = len(text) - len(text.lstrip()) + 1 if stripped else 1
    same = code.statement(first.path, first.line) or stripped
    prints = [fingerprint(e.path, e.symbol, e.effect, e.name, same) for e in (first, *events)]
    return Finding(
        rule=None,
        name=first.name,
        effect=first.effect,
        level="note" if first.effect == "intent" else "error",
        confidence="high",
        message=first.message,
        path=first.path,
        line=first.line,
        column=column,
        end_line=first.line,
        end_column=column + max(len(stripped), 1),
        symbol=first.symbol,
        origin=first.origin,
        status="runtime_only",
        gb_ids=tuple(dict.fromkeys(i for event in events for i in event.gb_ids)),
        targets=tuple(dict.fromkeys(FindingTarget(e.target, e.case, "runtime_only", e.mode) for e in events)),
        fingerprint=prints[0],
        evidence=tuple(dict.fromkeys(event.evidence + _MODE_ONLY.get(only, "") for event in events)),
        cost=_cost(events),
        modes=(only,) if only else (),
        also=tuple(dict.fromkeys(print_ for print_ in prints if print_ != prints[0])),
    )


def _numbered(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Equal fingerprints of equal lines told apart by their order in the file."""
    seen: Counter[str] = Counter()
    for finding in sorted(findings, key=_order):
        number = seen[finding.fingerprint]
        seen[finding.fingerprint] += 1
        if number:
            yield dataclasses.replace(finding, fingerprint=f"{finding.fingerprint}-{number + 1}")
        else:
            yield finding


def _ids(site: BreakSite) -> tuple[str, ...]:
    return tuple(dict.fromkeys(i for i in (site.gb_id, *site.gb_ids) if i))


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")


def _slug(reason: str) -> str:
    """The kind of a break as a name (`data-dependent-branching`), where its first line is short enough."""
    words = re.findall(r"[a-z0-9]+", _first_line(reason).split(":")[0].lower())
    return "-".join(words) if words and len(words) <= 6 else ""


def _hits(count: int) -> str:
    return f"{count} hit{'' if count == 1 else 's'}"


def _site_evidence(site: BreakSite) -> str:
    after = "; the whole frame went eager" if _skips(site) else ""
    return f"Dynamo: {_first_line(site.reason)} ({', '.join([*_ids(site), _hits(site.hits)])}){after}"


def _skip_evidence(frame: SkippedFrame) -> str:
    return f"Dynamo: skipped the frame {frame.symbol} (line {frame.line}): {_first_line(frame.reason)}"


def _recompile_evidence(recompile: Recompile) -> str:
    when = "on an identical call" if recompile.identical_call else "on a later call"
    reasons = "; ".join(dict.fromkeys(map(_first_line, recompile.reasons))) or "no reason given"
    return f"Dynamo: recompiled {recompile.symbol} {when}: {reasons}"


# Targets: verdict and regions


def _targets(
    static: Sequence[StaticTarget], runs: Sequence[_Run], findings: Sequence[Finding], code: _Code
) -> tuple[TargetReport, ...]:
    by_code: dict[regions.Place, set[str]] = defaultdict(set)
    for target in static if runs else ():  # finding where code begins means parsing it
        for module in target.modules:
            place = code.place(module.path, module.line)
            if place is not None:
                by_code[place].update(module.breaks)
    # A file that by a convention says what its model is asks about that model: its other classes are parts.
    files = {run.target.partition("::")[0] for run in runs if _by_file(run.observation.convention)}
    covered = {target.target for target in static if target.target.partition("::")[0] in files}
    reports = []
    for run in runs:
        ran = {place for m in run.modules if (place := code.place(m.path, m.line)) is not None}
        own = next((target for target in static if _is_target(target, run, code)), None)
        told = own.modules if own else ()
        ran |= {place for m in told if (place := code.place(m.path, m.line)) is not None}
        covered.update(t.target for t in static if t is own or _root(t, code) in ran)
        reports.append(_observed_target(run, own, findings, by_code, code))
    alone = (_static_target(target, findings) for target in static if target.target not in covered)
    return (*reports, *alone)


def _by_file(convention: str | None) -> bool:
    """Whether the file itself says what its model is and what it takes."""
    return convention is not None and not convention.startswith(("--inputs", "[tool.", SYNTHESISED))


def _root(target: StaticTarget, code: _Code) -> regions.Place | None:
    """Where the forward of the target's root stands."""
    root = next((module for module in target.modules if module.name == ""), None)
    return code.place(root.path, root.line) if root else None


def _is_target(target: StaticTarget, run: _Run, code: _Code) -> bool:
    """Whether both speak of one target: by name, or in one file by where the root's forward stands."""
    if target.target == run.target:
        return True
    if target.target.partition("::")[0] != run.target.partition("::")[0]:
        return False
    root = next((module for module in run.modules if module.name == ""), None)
    place = code.place(root.path, root.line) if root else None
    return place is not None and _root(target, code) == place


def _observed_target(
    run: _Run,
    static: StaticTarget | None,
    findings: Sequence[Finding],
    breaks_by_code: Mapping[regions.Place, Iterable[str]],
    code: _Code,
) -> TargetReport:
    seen = run.observation
    clean = run.captured and not _troubles(run)
    told = (
        (*(m.breaks for m in static.modules), *breaks_by_code.values()) if static else breaks_by_code.values()
    )
    breaking = frozenset() if clean else _breaking(findings, seen.target, told, seen.mode)
    places = {(m.path, m.line) for m in seen.modules if m.path is not None and m.line is not None}
    found = regions.predicted(
        seen.modules,
        static.modules if static else (),
        breaking,
        sites=seen.break_sites,
        skipped=run.lost,
        recompiles=seen.recompiles,
        breaks_by_code={place: tuple(prints) for place, prints in breaks_by_code.items()},
        code_ends=code.ends(places),
    )
    verdict, reason = _verdict(run, found)
    if (seen.convention or "").startswith(SYNTHESISED) and run.state("eager") == "pass":
        reason += "; the inputs were made up"
    found = tuple(_as_compiled(region, seen.intents) for region in found)
    return TargetReport(
        target=seen.target,
        convention=seen.convention,
        mode=seen.mode,
        verdict=verdict,
        verdict_reason=reason,
        stages=_ladder(seen.stages),
        environment=seen.environment,
        break_sites=seen.break_sites,
        skipped_frames=seen.skipped_frames,
        graphs=seen.graphs,
        recompiles=seen.recompiles,
        coverage=seen.coverage,
        explain=seen.explain,
        regions=found,
        modules=seen.modules,
        backend=seen.backend,
        custom_ops=seen.custom_ops,
        executed=seen.executed,
        traced=seen.traced,
        digests=seen.digests,
        intents=seen.intents,
        training=seen.training,
        ddp=seen.ddp,
        waist=regions.waist(run.sites),
        shapes=seen.shapes,
    )


def _as_compiled(region: Region, intents: Iterable[Intent]) -> Region:
    """A region that its author compiles already is left as it is: no code is suggested for it."""
    for intent in intents:
        if region.name in intent.modules:
            return dataclasses.replace(
                region, code="", reason=f"compiled already by {intent.how}; {region.reason}"
            )
    return region


def _static_target(target: StaticTarget, findings: Sequence[Finding]) -> TargetReport:
    stages = tuple(
        Stage(name, "pass", "read, not executed")
        if name == "parse"
        else Stage(name, "not_run", "nothing was run")
        for name in STAGES
    )
    found = regions.predicted(
        (), target.modules, _breaking(findings, target.target, (m.breaks for m in target.modules))
    )
    modules = tuple(ModuleShare(m.name, m.type, path=m.path, line=m.line) for m in target.modules)
    return TargetReport(
        target=target.target,
        convention=None,
        mode=target.modes[0],
        verdict="unknown",
        verdict_reason="nothing was run; the regions are what the source predicts"
        + (", over both modes" if len(target.modes) > 1 else ""),
        stages=stages,
        environment=None,
        break_sites=(),
        skipped_frames=(),
        graphs=(),
        recompiles=(),
        coverage=None,
        explain=None,
        regions=found,
        modules=modules,
    )


def _breaking(
    findings: Iterable[Finding], target: str, told: Iterable[Iterable[str]], mode: Mode | None = None
) -> frozenset[str]:
    """Of the predicted breaks in `told` (fingerprints), those that count against a target's regions.

    A run that traced the line, or never came by, has shown that these inputs do not break there; a break of
    the other mode is none in the run's `mode` (None: nothing was run). A break whose finding is hidden, by a
    comment or by the choice of rules, is a break all the same.
    """
    spared = {
        print_
        for finding in findings
        for print_ in (finding.fingerprint, *finding.also)
        for entry in finding.targets
        if entry.target == target
        and entry.mode in (None, mode)
        and entry.status in ("not_observed", "not_reached")
    } | {
        print_
        for finding in findings
        for print_ in (finding.fingerprint, *finding.also)
        if mode is not None and finding.status != "confirmed" and not _in_mode(finding, mode)
    }
    return frozenset(fingerprint for some in told for fingerprint in some if fingerprint not in spared)


def _ladder(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Every stage once, in the order of climbing; one that nobody spoke of did not run."""
    known = {stage.stage: stage for stage in stages}
    return tuple(known.get(name, Stage(name, "not_run", "")) for name in STAGES)


def _failed_to_compile(stages: Iterable[Stage]) -> bool:
    return any(stage.stage in _FAILING and stage.state == "fail" for stage in stages)


def _verdict(run: _Run, found: Sequence[Region]) -> tuple[Verdict, str]:
    """The verdict and its reason in one sentence, which names the stages that did not run."""
    for stage in run.stages.values():
        if stage.state == "fail" and (stage.stage not in _COMPILE_STAGES or _cut_short(stage)):
            return "unknown", f"{stage.stage} failed, which says nothing of compiling"
    if run.state("capture") == "not_run":
        return "unknown", f"nothing was compiled: {_first_line(run.detail('capture'))}"
    if run.nothing_compiled:
        return (
            "unknown",
            "no operation ran in a graph and nothing says why: does the code switch compilation off?",
        )
    troubles = ", ".join(_troubles(run))
    missing = _missing(run)
    if not troubles:
        return "ready", f"captured whole{missing}"
    failed = _failed_to_compile(run.stages.values())
    share = sum(region.ops_share or 0.0 for region in found if regions.worth_compiling(region, run.modules))
    free = (
        f"regions free of breaks (single modules of torch aside) hold {share:.0%} of the operations"
        if run.modules
        else "no module tree was seen"
    )
    verdict: Verdict = "ready_by_region" if share >= _HALF and not failed else "not_ready"
    return verdict, f"{troubles}; {free}{missing}"


def _cut_short(stage: Stage) -> bool:
    """Whether a stage ended for a reason that says nothing of compiling: time, memory, a signal, an exit."""
    return bool(_CUT_SHORT.match(stage.detail))


def _troubles(run: _Run) -> list[str]:
    """What keeps the target from being `ready`, in words; nothing where it is."""
    sites = len({(site.path, site.line) for site in run.sites})
    frames = len({(frame.path, frame.line) for frame in run.lost})
    steady = len(
        {(recompile.path, recompile.line) for recompile in run.recompiles if recompile.identical_call}
    )
    counted = [
        (sites, "break site"),
        (frames, "skipped frame"),
        (steady, "function that compiles again on every call"),
    ]
    failed = [s for s in run.stages.values() if s.stage in _FAILING and s.state == "fail"]
    return [
        *(f"{stage.stage} failed: {_first_line(stage.detail)}" for stage in failed),
        *(f"{count} {_plural(words, count)}" for count, words in counted if count),
    ]


def _plural(words: str, count: int) -> str:
    head, _, tail = words.partition(" that compiles")
    return words if count == 1 else f"{head}s" + (f" that compile{tail}" if tail else "")


def _missing(run: _Run) -> str:
    """`; fullgraph and backend not run`, for the stages after capture."""
    names = [stage for stage in _LATER_STAGES if run.state(stage) == "not_run"]
    refused = "; fullgraph=True fails" if run.state("fullgraph") == "fail" else ""
    trained = run.observation.training
    parts = trained.parts if trained else ()
    if any(part.state == "fail" and part.phase in ("forward", "backward") for part in parts):
        refused += "; AOTAutograd fails in training"
    if not names:
        return refused
    return f"{refused}; {', '.join(names[:-1])}{' and ' if names[:-1] else ''}{names[-1]} not run"
