"""Changes that let Dynamo take the code, each put to the proof: what `tcready fix` and `tcready prove` do.

A round tries every change alone against the code as it was before any, then those that hold together; what stands behind
a break that is gone shows in the next round.
"""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set, Sized
from dataclasses import dataclass, field
from pathlib import Path

from tcready import observations, plan
from tcready.applying import Changed as ChangedFile
from tcready.applying import patched
from tcready.edits import applied, between, patch
from tcready.options import ReadOptions, RunOptions
from tcready.refactor.changed import Changed, LineMap, changed
from tcready.refactor.disable import disabled
from tcready.refactor.judgement import Judgement, breaks
from tcready.refactor.judgement import judged as judgement_of
from tcready.refactor.suggest import Proposal, at_line, for_finding
from tcready.resolve import Settings
from tcready.schema import (
    BreakSite,
    Edit,
    Finding,
    Fix,
    FixChange,
    FixResult,
    FunctionPlace,
    NoFix,
    Observation,
    Progress,
    ProofRequest,
    ProofResult,
    Report,
    Span,
    TcreadyError,
    Trial,
    Variant,
    display_path,
    is_installed,
    path_in,
    place_in,
    setting_of,
)
from tcready.static import driver, locate, source
from tcready.static.concrete import Concrete
from tcready.static.driver import RuleSet
from tcready.static.rule import Declined, Rule
from tcready.static.session import Session
from tcready.static.source import Source
from tcready.target import Target

BREAKS = ("graph_break", "frame_skip", "compile_error")
"""Effects that keep code out of graphs."""
Tell = Callable[[str], None]
Progressing = Callable[[Progress], None]
Prove = Callable[[ProofRequest], ProofResult]
ROUNDS = 10
ALTERNATIVES = 3
"""Changes that are tried for one break in one round."""
CALLED_BEFORE = "(called before)"
"""Stands among the settings that hold, where the model is called once before it is compiled."""
SETTINGS_OF_BREAKS = {"GB0039": ("recompile_limit=64",)}
"""Settings for breaks that no rule predicts: a function that is compiled once for each of many layers."""
OF_VALUES = frozenset({"GB0033", "GB0036", "GB0124", "GB0170", "GB7000"})
"""Breaks on what tensors hold, and what follows from them: at the second call they are there as at the first."""


@dataclass(frozen=True)
class FixOptions:
    """What is asked for."""

    unsafe: bool = False
    third_party: bool = False
    select: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fixed:
    """What was found, and the files as they would be."""

    result: FixResult
    files: tuple[ChangedFile, ...] = ()


@dataclass(frozen=True)
class _Candidate:
    """A change of the code as it stands in this round, and the break that it is to cure."""

    change: FixChange
    sources: Mapping[str, str]
    """Whole new text of each file that differs from the code before any change, by absolute path."""


class Files:
    """The files of one run as they were before any change, and as they are after those accepted so far."""

    def __init__(self, root: Path, sources: Iterable[tuple[str, str]]) -> None:
        """`sources`: path as shown, and where the file stands, of files that a run named."""
        self.root = root
        self._named = dict(sources)
        self._search = locate.default_search_path(root)
        self._before: dict[str, Source] = {}
        self.now: dict[str, str] = {}
        """Text by absolute path, of files that differ."""

    def path(self, shown: str) -> Path | None:
        """Where a file stands that a report names; None if it is nowhere."""
        places = [Path(self._named[shown])] if shown in self._named else []
        places += [self.root / shown, *(folder / shown for folder in self._search)]
        return next((Path(place).resolve() for place in places if place.is_file()), None)

    def before(self, path: str) -> Source:
        if path not in self._before:
            self._before[path] = source.read(Path(path))
        return self._before[path]

    def text(self, path: str) -> str:
        return self.now.get(path, self.before(path).text)

    def original_line(self, path: str, line: int) -> int:
        """The line that a line of the text as it is now was; the line itself if it was written anew."""
        if path not in self.now:
            return line
        return LineMap(self.before(path).text, self.now[path]).came_from(line) or line

    def with_edits(self, edits: Sequence[Edit], *, anew: bool = False) -> dict[str, str]:
        """Every file that differs from what it was, once these are carried out: on top of what was accepted, or `anew`.

        Raises TcreadyError if two overlap.
        """
        texts = {} if anew else dict(self.now)
        for shown in dict.fromkeys(edit.path for edit in edits):
            path = str(self.path(shown))
            text = self.before(path).text if anew else self.text(path)
            texts[path] = applied(text, [edit for edit in edits if edit.path == shown])
        return texts

    def changed(self) -> tuple[ChangedFile, ...]:
        """The files that differ."""
        return tuple(
            ChangedFile(Path(path), display_path(path, str(self.root)), self.before(path).text, text)
            for path, text in self.now.items()
            if text != self.before(path).text
        )


def refuse_notebooks(names: Iterable[str]) -> None:
    """Raises TcreadyError if a notebook was named: what would change there is text inside of JSON."""
    for name in names:
        if Target.parse(name).is_notebook:
            raise TcreadyError(
                f"{name}: tcready fix changes .py files, not notebooks: `tcready check` shows what to change, and why"
            )


def proved(
    names: Sequence[str],
    settings: Settings,
    torch: tuple[int, int],
    rules: RuleSet,
    wanted: FixOptions,
    tell: Tell,
    progress: Progressing,
) -> Fixed:
    """Every change to the code of the one target of `names` that holds, found and proved round by round.

    `torch` is the version whose Dynamo is predicted. Raises TcreadyError if nothing, or several things, can be run.
    """
    root = settings.root
    target, options = _one_run(names, settings, rules, tell)
    reading = dataclasses.replace(
        settings.read, mode=options.mode, torch=torch, third_party=wanted.third_party or None
    )
    first = _first_run(target, options.without_studies(), root, progress)
    if isinstance(first, str):
        return Fixed(FixResult((), failure=first))
    return _in_rounds(first, options, reading, rules, wanted, tell, progress)


def _in_rounds(
    first: Observation,
    options: RunOptions,
    reading: ReadOptions,
    rules: RuleSet,
    wanted: FixOptions,
    tell: Tell,
    progress: Progressing,
) -> Fixed:
    """Round by round until nothing is left, or nothing helps; `first` is the run of the code as it stands."""
    target, root = first.target, reading.root
    by_code = {rule.code: rule for rule in rules.load()}
    files = Files(root, first.sources)
    with _proving(target, options.without_studies(), root, progress) as prove:
        work = _Work(target, root, files, wanted, tell, prove, by_code)
        return _worked(work, first, reading, rules)


def _worked(work: _Work, first: Observation, reading: ReadOptions, rules: RuleSet) -> Fixed:
    target, root, wanted, tell = work.target, work.root, work.wanted, work.tell
    session = Session(reading, rules)
    seen = first
    changes: list[FixChange] = []
    refused: list[FixChange] = []
    no_fix: dict[tuple[str, int, tuple[str, ...]], NoFix] = {}
    flags: tuple[str, ...] = ()
    failure: str | None = None
    for number in range(1, ROUNDS + 1):
        sites = work.wanted_sites(seen)
        if not sites:
            break
        found = session.check([target], {Path(path): text for path, text in work.files.now.items()}).result
        every = list(work.candidates(sites, found.findings, flags, no_fix, number))
        offered = tuple(dict.fromkeys(name for each in every for name in each.change.settings))
        candidates = _next_ones(every, {_what(change) for change in refused})
        if not candidates and not wanted.select:
            candidates = _next_ones(
                work.called_before(sites, flags, number), {_what(change) for change in refused}
            )
        if not candidates:
            break
        tell(f"round {number}: {_counted(candidates, 'change')} for {_counted(sites, 'break')}")
        accepted, left, after, failure = work.round(seen, candidates, flags, offered)
        refused += left
        if failure is not None:
            break  # what holds already holds without the rest
        if not accepted:
            continue
        changes += accepted
        # what could not be done beside breaks that are gone now may be done without them
        refused = [each for each in refused if not each.settings and _what(each) not in work.held_up]
        flags = tuple(dict.fromkeys([*flags, *(name for each in accepted for name in _names(each))]))
        seen = after
    # a break that costs nothing but itself is not mended by leaving more out
    frames_lost = any(not frame.benign for frame in seen.skipped_frames)
    sites = work.wanted_sites(seen) if frames_lost else []
    candidates = _next_ones(work.kept_out(sites, ROUNDS), {_what(change) for change in refused})
    if candidates and failure is None and not wanted.select:
        tell(f"last round: {_counted(candidates, 'function')} kept out for {_counted(sites, 'break')}")
        accepted, left, seen, failure = work.round(seen, candidates, flags)
        changes += accepted
        refused += left
    left_over = dict.fromkeys(
        (site.path, work.files.original_line(str(path), site.line))
        for site in seen.break_sites
        if (path := work.files.path(site.path)) is not None
    )
    files = work.files.changed()
    result = FixResult(
        changes=tuple(changes),
        refused=tuple(refused),
        no_fix=tuple(each for each in no_fix.values() if (each.path, each.line) in left_over),
        breaks_before=breaks(first),
        breaks_after=breaks(seen),
        share_before=first.coverage.share if first.coverage else None,
        share_after=seen.coverage.share if seen.coverage else None,
        left=tuple(left_over),
        failure=f"{target}: {failure}" if failure is not None else None,
    )
    return Fixed(with_patches(result, files, root), files)


def verified(
    report: Report,
    settings: Settings,
    torch: tuple[int, int],
    rules: RuleSet,
    tell: Tell,
    progress: Progressing,
) -> Report:
    """The report of runs that were made here, with what a proof says of a change for each break that was met."""
    known: dict[tuple[str, int], FixChange | NoFix] = {}
    warnings: list[str] = []
    for target in report.targets:
        seen = target.observation
        if seen is None or seen.coverage is None or not seen.break_sites:
            continue
        options = dataclasses.replace(settings.run, mode=seen.mode)
        reading = dataclasses.replace(settings.read, mode=seen.mode, torch=torch)
        found = _in_rounds(seen, options, reading, rules, FixOptions(), tell, progress).result
        warnings += [f"changes were not proved: {found.failure}"] if found.failure else []
        every: list[FixChange | NoFix] = [*found.no_fix, *reversed(found.refused), *found.changes]
        known |= {(each.path, each.line): each for each in every}
    texts = {source.path: source.text for source in report.sources}
    findings = tuple(
        dataclasses.replace(finding, fix=_fix(finding.fix, change, texts.get(finding.path)))
        if finding.effect in BREAKS and (change := known.get((finding.path, finding.line))) is not None
        else finding
        for finding in report.findings
    )
    return dataclasses.replace(report, findings=findings, warnings=(*report.warnings, *warnings))


def _fix(fix: Fix | None, change: FixChange | NoFix, text: str | None) -> Fix:
    """What a finding's fix says once a proof was tried."""
    title = fix.title if fix is not None else ""
    if isinstance(change, NoFix):
        known = fix or Fix(title, safe=False, diff=None, verified=None)
        return dataclasses.replace(known, declined=change.reason)
    # what a later round found is an edit of another text than the report shows
    edits = change.edits if change.round == 1 else ()
    return Fix(
        title=change.how,
        safe=change.unsafe is None,
        diff=patch({change.path: text}, edits) or None if text is not None and edits else None,
        verified={"proved": True, "refuted": False}.get(change.state),
        edits=edits,
        settings=dict(map(setting_of, change.settings)),
        unsafe_because=change.unsafe,
        evidence=change.proof,
        declined=change.reason,
    )


def read_only(
    names: Sequence[str], settings: Settings, torch: tuple[int, int], rules: RuleSet, wanted: FixOptions
) -> Fixed:
    """The changes to what the source alone shows; nothing is run. Of several for one place the first stands."""
    root = settings.root
    reading = dataclasses.replace(settings.read, torch=torch, third_party=wanted.third_party or None)
    read = driver.read(
        names, reading, rules, settings.report, cache=settings.work.cache, jobs=settings.work.jobs
    )
    static = read.result
    by_code = {rule.code: rule for rule in rules.load()}
    files = Files(root, ())
    changes: list[FixChange] = []
    refused: list[FixChange] = []
    no_fix: list[NoFix] = []
    concrete: dict[str, Concrete] = {}
    for finding in static.findings:
        rule = by_code.get(finding.rule or "")
        path = files.path(finding.path)
        if rule is None or path is None or (finding.origin != "own" and not wanted.third_party):
            continue
        if wanted.select and not rule.code.startswith(wanted.select):
            continue
        if finding.path not in concrete:
            concrete[finding.path] = Concrete(files.before(str(path)))
        cell = place_in(concrete[finding.path].source.cells, finding.line)
        if cell is not None:
            place = path_in(finding.path, cell)
            no_fix.append(NoFix(place, cell.line, rule.code, finding.gb_ids, "it stands in a notebook"))
            continue
        ways = list(for_finding(concrete[finding.path], rule, finding))
        proposals = [way for way in ways if isinstance(way, Proposal)]
        base = FixChange(
            finding.path, finding.line, finding.symbol, rule.code, finding.gb_ids, "", (), (), None, "not_run"
        )
        made = [dataclasses.replace(base, how=p.how, edits=p.edits, unsafe=p.unsafe) for p in proposals]
        usable = [change for change in made if change.unsafe is None or wanted.unsafe]
        try:
            files.now.update(
                files.with_edits([e for each in (*changes, *usable[:1]) for e in each.edits], anew=True)
            )
        except TcreadyError:
            refused.append(dataclasses.replace(usable[0], reason="it overlaps another change: run fix again"))
            continue
        changes += usable[:1]
        if not usable:
            refused += [
                dataclasses.replace(change, reason=f"not safe: {change.unsafe}") for change in made[:1]
            ]
        if not made and finding.effect in BREAKS and finding.confidence != "low":
            no_fix.append(NoFix(finding.path, finding.line, rule.code, finding.gb_ids, _why_none(ways)))
    changed_files = files.changed()
    unread = "; ".join(f"{item.path} cannot be judged: {item.reason}" for item in static.skipped)
    result = FixResult(tuple(changes), tuple(refused), tuple(no_fix), failure=unread or None)
    return Fixed(with_patches(result, changed_files, root), changed_files)


def proved_patch(
    name: str,
    settings: Settings,
    rules: RuleSet,
    patch_and_name: tuple[str, str],
    tell: Tell,
    progress: Progressing,
) -> FixChange | str:
    """A patch of anybody's put to the proof; why it could not be, in one line, as text.

    Raises TcreadyError for a patch that does not apply, and if nothing, or several things, can be run.
    """
    root = settings.root
    text, named = patch_and_name
    files = Files(root, ())
    changed_files = patched(text, named, files.path)
    target, options = _one_run((name,), settings, rules, tell)
    run = options.without_studies()
    first = _first_run(target, run, root, progress)
    if isinstance(first, str):
        return first
    edits = tuple(edit for each in changed_files for edit in between(each.shown, each.before, each.after))
    whole = FixChange(named, 0, "", None, (), named, edits, (), None, "not_run")
    sources = {str(each.path): each.after for each in changed_files}
    with _proving(target, run, root, progress) as prove:
        work = _Work(target, root, files, FixOptions(), tell, prove)
        result, request, gone = work.tried([(named, sources, ())], ())
    if result.failure is not None:
        return f"{target}: {result.failure}"
    return work.judged(first, _Candidate(whole, sources), result.trials[0], result, request, gone[0])


@contextlib.contextmanager
def _proving(target: str, options: RunOptions, root: Path, progress: Progressing) -> Iterator[Prove]:
    """What tries changes of a target, in one process for all of them."""
    from tcready import dynamic

    with dynamic.Prover(observations.run_request(target, options, root), progress) as prover:
        yield prover.prove


def _one_run(names: Sequence[str], settings: Settings, rules: RuleSet, tell: Tell) -> tuple[str, RunOptions]:
    """The one run that is due. Raises TcreadyError if there is none, or several."""
    plan.refuse_contradictions(names, settings, True, ())
    read = driver.read(names, settings.read, rules, settings.report, cache=settings.work.cache)
    found = list(plan.due(names, True, settings, settings.tables or (), read.result))
    shown = " ".join(names)
    if not found or found[0].impossible:
        raise TcreadyError(f"{shown}: {found[0].impossible if found else 'nothing here can be run'}")
    if len(found) > 1:
        every = ", ".join(each.target for each in found)
        raise TcreadyError(f"{shown}: a proof takes one target: name one of {every}")
    tell(f"running {found[0].target} with {found[0].inputs_from}")
    return found[0].target, found[0].options(settings)[0]


def _why_none(ways: Iterable[Proposal | Declined]) -> str:
    """Why none of these ways writes the code anew."""
    reasons = dict.fromkeys(way.reason for way in ways if isinstance(way, Declined))
    return "; ".join(reasons) or "no rewrite is known for it"


def _counted(items: Sized, noun: str) -> str:
    return f"{len(items)} {noun}{'' if len(items) == 1 else 's'}"


def _what(change: FixChange) -> tuple[object, ...]:
    """What tells one change from another, wherever it has moved: a setting is the same wherever it is wanted."""
    if _names(change):
        return (*_names(change), *(edit.new_text for edit in change.edits))
    return change.path, change.line, change.how, tuple(edit.new_text for edit in change.edits)


def _next_ones(candidates: Iterable[_Candidate], tried: Set[tuple[object, ...]]) -> list[_Candidate]:
    """For each break the first change that was not tried yet."""
    found: dict[object, _Candidate] = {}
    for each in candidates:
        if _what(each.change) not in tried:
            found.setdefault(_names(each.change) or (each.change.path, each.change.line), each)
    places = {(c.change.path, c.change.line) for c in found.values() if not c.change.settings}
    # what an edit may cure is not put below a setting as well, before the edit was tried
    return [
        c for c in found.values() if not c.change.settings or (c.change.path, c.change.line) not in places
    ]


def line_of(setting: str) -> str:
    """The line of code that makes a setting."""
    return "torch._dynamo.config.{} = {}".format(*setting_of(setting))


def _names(change: FixChange) -> tuple[str, ...]:
    """The settings of a change, and the mark of one that calls the model before."""
    return (*change.settings, CALLED_BEFORE) if change.called_before else change.settings


def _named(change: FixChange) -> str:
    """What is tried, in a few words."""
    return f"{change.path}:{change.line} {', '.join(_names(change)) or change.rule or ''}".strip()


def _first_run(target: str, options: RunOptions, root: Path, progress: Progressing) -> Observation | str:
    """What the code as it stands shows; why it shows nothing, in one line."""
    seen = observations.launch(target, options, root, progress)
    wrong = [s for s in seen.stages if s.state == "fail" and s.stage != "fullgraph"]
    wrong += [s for s in seen.stages if s.state == "not_run" and seen.coverage is None]
    return f"{target}: {wrong[0].stage}: {wrong[0].detail}" if wrong else seen


@dataclass(frozen=True)
class _Gone:
    """What a change takes away."""

    tests: tuple[Span, ...]
    statements: tuple[Span, ...]
    turned: tuple[Span, ...] = ()
    """Tests whose operands it puts in another order."""


@dataclass(frozen=True)
class _Work:
    target: str
    root: Path
    files: Files
    wanted: FixOptions
    tell: Tell
    prove: Prove
    rules: Mapping[str, Rule] = field(default_factory=dict)
    """By their codes."""
    held_up: set[tuple[object, ...]] = field(default_factory=set)
    """Changes with which every call agreed, and that were refused for where Dynamo broke then."""
    joined: set[frozenset[object]] = field(default_factory=set)
    """What was tried as one change."""

    def wanted_sites(self, seen: Observation) -> list[BreakSite]:
        return [site for site in seen.break_sites if self.wanted.third_party or site.origin == "own"]

    def candidates(
        self,
        sites: Sequence[BreakSite],
        findings: Sequence[Finding],
        settings: tuple[str, ...],
        no_fix: dict[tuple[str, int, tuple[str, ...]], NoFix],
        number: int,
    ) -> Iterator[_Candidate]:
        """What might cure each break; breaks for which there is nothing go to `no_fix`."""
        rules = self.rules
        concrete: dict[Path, Concrete] = {}
        offered: set[str] = set(settings)
        flags: list[FixChange] = []
        for shown, line, path, here in self._places(sites):
            if path not in concrete:
                concrete[path] = Concrete(source.of_text(path, self.files.text(str(path))))
            ids = tuple(dict.fromkeys(name for site in here for name in site.gb_ids))
            covering = [
                f for f in findings if f.path == shown and f.line <= line <= f.end_line and f.rule in rules
            ]
            of_the_break = [rule for rule in rules.values() if set(rule.gb_ids) & set(ids)]
            ways: list[Proposal | Declined] = []
            for finding in covering:
                ways += for_finding(concrete[path], rules[finding.rule or ""], finding)
            if not any(isinstance(way, Proposal) for way in ways):
                ways += at_line(concrete[path], shown, line, of_the_break)
            found_there = {way.edits: way for way in reversed(ways) if isinstance(way, Proposal)}
            proposals = list(reversed(found_there.values()))[:ALTERNATIVES]
            rule = covering[0].rule if covering else proposals[0].rule if proposals else None
            if self.wanted.select and not (rule or "").startswith(self.wanted.select):
                continue
            named = [name for f in covering if f.fix is not None for name in f.fix.settings]
            named += [name for rule in of_the_break for name in rule.settings]
            named += [name for gb_id in ids for name in SETTINGS_OF_BREAKS.get(gb_id, ())]
            stands = self.files.original_line(str(path), line)
            base = FixChange(
                shown, stands, here[0].symbol, rule, ids, "", (), (), None, "not_run", round=number
            )
            for each in proposals:
                change = dataclasses.replace(
                    base, how=each.how, edits=each.edits, unsafe=each.unsafe, rule=each.rule
                )
                yield _Candidate(change, self.files.with_edits(change.edits))
            for name in [each for each in dict.fromkeys(named) if each not in offered]:
                offered.add(name)
                flags.append(dataclasses.replace(base, how=f"`{line_of(name)}`", settings=(name,)))
                yield _Candidate(flags[-1], dict(self.files.now))
            if not proposals and not named:
                no_fix[shown, stands, ids] = NoFix(shown, stands, rule, ids, _why_none(ways))
        if len(flags) > 1:  # one may take into the graph what leads to a break without the other
            names = tuple(name for change in flags for name in change.settings)
            how = " and ".join(change.how for change in flags)
            yield _Candidate(dataclasses.replace(flags[0], how=how, settings=names), dict(self.files.now))

    def called_before(
        self, sites: Sequence[BreakSite], settings: tuple[str, ...], number: int
    ) -> Iterator[_Candidate]:
        """One eager call before the model is compiled, for breaks in what it does at its first call alone."""
        others = [site for site in sites if not OF_VALUES.issuperset(site.gb_ids)]
        if CALLED_BEFORE not in settings and others:
            site = others[0]
            path = self.files.path(site.path)
            line = self.files.original_line(str(path), site.line) if path is not None else site.line
            how = "One eager call before the model is compiled: what the first call makes is there then"
            change = FixChange(
                site.path, line, site.symbol, None, tuple(site.gb_ids), how, (), (), None, "not_run",
                round=number, called_before=True,
            )  # fmt: skip
            yield _Candidate(change, dict(self.files.now))

    def kept_out(self, sites: Sequence[BreakSite], number: int) -> Iterator[_Candidate]:
        """The functions around breaks that nothing cures, each left out of what is compiled."""
        for shown, line, path, here in self._places(sites):
            way = disabled(shown, source.of_text(path, self.files.text(str(path))), line)
            if isinstance(way, Proposal):
                stands = self.files.original_line(str(path), line)
                ids = tuple(dict.fromkeys(name for site in here for name in site.gb_ids))
                change = FixChange(
                    shown, stands, here[0].symbol, None, ids, way.how, way.edits, (), way.unsafe, "not_run",
                    round=number, keeps_out=True,
                )  # fmt: skip
                yield _Candidate(change, self.files.with_edits(change.edits))

    def _places(self, sites: Sequence[BreakSite]) -> Iterator[tuple[str, int, Path, list[BreakSite]]]:
        """Each line that breaks, the file it stands in, and its breaks."""
        for shown, line in dict.fromkeys((site.path, site.line) for site in sites):
            path = self.files.path(shown)
            if path is not None:
                yield shown, line, path, [site for site in sites if (site.path, site.line) == (shown, line)]

    def round(
        self,
        before: Observation,
        candidates: Sequence[_Candidate],
        settings: tuple[str, ...],
        offered: tuple[str, ...] = (),
    ) -> tuple[list[FixChange], list[FixChange], Observation, str | None]:
        """Each candidate alone, then those that hold together.

        What is accepted, what is not, the run of all that is accepted, and why nothing could be tried. `offered` are the
        settings that may be needed besides.
        """
        result, request, gone = self.tried(
            [(_named(c.change), c.sources, _names(c.change)) for c in candidates], settings
        )
        if result.failure is not None:
            return [], [], before, result.failure
        held: list[_Candidate] = []
        left: list[FixChange] = []
        runs: list[Observation] = []
        short: list[tuple[_Candidate, Trial]] = []  # every call agrees, and Dynamo breaks elsewhere
        for candidate, trial, own in zip(candidates, result.trials, gone, strict=True):
            change = self.judged(before, candidate, trial, result, request, own)
            place = (change.path, change.line)
            if change.called_before:
                change = self._of_what_is_gone(change, before, trial.observation)
            if not self._counts(change):
                left.append(change)
                if trial.difference is None and change.state == "refuted":
                    self.held_up.add(_what(change))
                    short.append((candidate, trial))
            elif any((other.change.path, other.change.line) == place for other in held):
                continue  # the break has a cure already
            else:
                held.append(dataclasses.replace(candidate, change=change))
                runs.append(trial.observation)
        joint = self._jointly(before, held, [candidate for candidate, _ in short], settings, offered)
        if joint is not None:
            changes, run = joint
            return changes, left, run, None
        for candidate, trial in short:
            more, refused, after = self._with_more(before, candidate, trial, settings)
            left += refused
            place = (candidate.change.path, candidate.change.line)
            if (
                more is not None
                and after is not None
                and all((other.change.path, other.change.line) != place for other in held)
            ):
                held.append(more)
                runs.append(after)
        if len(held) > 1:
            return self._together(before, held, left, settings, runs)
        if held:
            self.files.now.update(held[0].sources)
            return [held[0].change], left, runs[0], None
        return [], left, before, None

    def _jointly(
        self,
        before: Observation,
        held: Sequence[_Candidate],
        short: Sequence[_Candidate],
        settings: tuple[str, ...],
        offered: tuple[str, ...],
    ) -> tuple[list[FixChange], Observation] | None:
        """What holds alone, with edits that fall `short` alone and the settings `offered`, as one change: behind each of
        these lines break that the others cure. With the run of all of it; None if it does not hold.

        All such edits are tried first, then each by itself.
        """
        edits = [each for each in short if each.change.edits and not each.change.keeps_out]
        known = {*settings, *(name for each in held for name in _names(each.change))}
        names = tuple(name for name in offered if name not in known)
        groups = [edits, *([[each] for each in edits] if len(edits) > 1 else [])]
        for members in groups:
            chosen: list[_Candidate] = [*held]
            for each in members:
                try:
                    self.files.with_edits([edit for c in (*chosen, each) for edit in c.change.edits])
                except TcreadyError:  # it overlaps another
                    continue
                chosen.append(each)
            rest = [each.change for each in chosen[len(held) :]]
            what = frozenset((*map(_what, rest), *names, *map(_what, (each.change for each in held))))
            if not rest or len(chosen) + len(names) < 2 or what in self.joined:
                continue
            self.joined.add(what)
            sources = self.files.with_edits([edit for each in chosen for edit in each.change.edits])
            reasons = dict.fromkeys(each.change.unsafe for each in chosen if each.change.unsafe)
            ways = dict.fromkeys([*(each.how for each in rest), *(f"`{line_of(name)}`" for name in names)])
            one = dataclasses.replace(
                rest[0],
                how=". ".join(ways),
                edits=tuple(edit for each in chosen for edit in each.change.edits),
                settings=tuple(dict.fromkeys(name for c in chosen for name in _names(c.change))) + names,
                unsafe="; ".join(reasons) or None,
            )
            whole = _Candidate(one, sources)
            self.tell(
                f"{_named(one)}: tried with {_counted(chosen[1:], 'change')} and {_counted(names, 'setting')} more"
            )
            result, request, gone = self.tried([(f"{_named(one)}, jointly", sources, one.settings)], settings)
            if result.failure is not None:
                return None
            change = self.judged(before, whole, result.trials[0], result, request, gone[0])
            if self._counts(change):
                self.files.now.update(sources)
                own = tuple(edit for each in rest for edit in each.edits)
                joint = dataclasses.replace(change, edits=own, settings=names)
                return [*(each.change for each in held), joint], result.trials[0].observation
            self.tell(f"jointly they do not hold: {change.reason}")
        return None

    def _with_more(
        self, before: Observation, candidate: _Candidate, trial: Trial, settings: tuple[str, ...]
    ) -> tuple[_Candidate | None, list[FixChange], Observation | None]:
        """A change together with another for the lines that break only because of it, and the run of both; with those
        that do not hold.

        Both are one change: what is asked of it is asked of the two together.
        """
        refused: list[FixChange] = []
        uncovered = [
            site for site in self.wanted_sites(trial.observation) if self._is_new(site, before, candidate)
        ]
        if not uncovered or candidate.change.keeps_out:
            return None, refused, None
        files = Files(self.root, before.sources)
        files.now = dict(candidate.sources)
        there = dataclasses.replace(self, files=files)
        change = candidate.change
        flags = (*settings, *_names(change))
        found: list[_Candidate] = []
        for each in there.candidates(uncovered, (), flags, {}, change.round):
            edits = [
                edit
                for path, text in each.sources.items()
                for edit in between(self._shown(path), self.files.text(path), text)
            ]
            reasons = dict.fromkeys(why for why in (change.unsafe, each.change.unsafe) if why)
            both = dataclasses.replace(
                change,
                how=f"{change.how}. {each.change.how}",
                edits=tuple(edits),
                settings=(*change.settings, *each.change.settings),
                unsafe="; ".join(reasons) or None,
                rule=change.rule or each.change.rule,
            )
            found.append(_Candidate(both, each.sources))
        found = found[:ALTERNATIVES]
        if not found:
            return None, refused, None
        self.tell(f"{_named(change)}: tried with {_counted(found, 'change')} for what breaks behind it")
        result, request, gone = self.tried(
            [(f"{_named(each.change)}, with more", each.sources, _names(each.change)) for each in found],
            settings,
        )
        for each, made, own in zip(found, result.trials, gone, strict=False):
            judged = self.judged(before, each, made, result, request, own)
            if self._counts(judged):
                return dataclasses.replace(each, change=judged), refused, made.observation
            refused.append(judged)
        return None, refused, None

    def _is_new(self, site: BreakSite, before: Observation, candidate: _Candidate) -> bool:
        """Whether a line breaks after a change that did not break before it."""
        path = str(self.files.path(site.path))
        line: int | None = site.line
        if path in candidate.sources:
            line = LineMap(self.files.text(path), candidate.sources[path]).came_from(site.line)
        return not any((each.path, each.line) == (site.path, line) for each in before.break_sites)

    def _together(
        self,
        before: Observation,
        held: Sequence[_Candidate],
        left: list[FixChange],
        settings: tuple[str, ...],
        runs: Sequence[Observation],
    ) -> tuple[list[FixChange], list[FixChange], Observation, str | None]:
        """All at once, as far as they do not touch the same lines; the first alone if together they do not hold."""
        chosen: list[_Candidate] = []
        for candidate in held:
            edits = [edit for each in (*chosen, candidate) for edit in each.change.edits]
            try:
                self.files.with_edits(edits)
            except TcreadyError:  # they overlap: the next round finds this one again
                continue
            chosen.append(candidate)
        edits = [edit for each in chosen for edit in each.change.edits]
        names = tuple(dict.fromkeys(name for each in chosen for name in _names(each.change)))
        sources = self.files.with_edits(edits)
        whole = FixChange("", 0, "", None, (), "all together", tuple(edits), names, None, "not_run")
        whole = dataclasses.replace(whole, keeps_out=any(each.change.keeps_out for each in chosen))
        result, request, gone = self.tried([("all together", sources, names)], settings)
        if result.failure is None:
            together = _Candidate(whole, sources)
            change = self.judged(before, together, result.trials[0], result, request, gone[0])
            if change.state != "refuted":
                self.files.now.update(sources)
                return [each.change for each in chosen], left, result.trials[0].observation, None
            self.tell(f"together they do not hold: {change.reason}")
        self.files.now.update(chosen[0].sources)
        return [chosen[0].change], left, runs[held.index(chosen[0])], None

    def tried(
        self, variants: Sequence[tuple[str, Mapping[str, str], tuple[str, ...]]], settings: tuple[str, ...]
    ) -> tuple[ProofResult, ProofRequest, list[_Gone]]:
        """Puts variants to the proof; what each takes away."""
        asked: list[Variant] = []
        gone: list[_Gone] = []
        functions: dict[FunctionPlace, None] = {}
        for name, sources, names in variants:
            differs = [self._changed(path, text) for path, text in sources.items()]
            own = tuple(dict.fromkeys(place for each in differs for place in each.functions))
            functions |= dict.fromkeys(own)
            tests = tuple(span for each in differs for span in each.tests)
            turned = tuple(span for each in differs for span in each.turned)
            gone.append(_Gone(tests, tuple(span for each in differs for span in each.gone), turned))
            written = tuple(span for each in differs for span in each.written)
            every = dict.fromkeys([*settings, *names])
            flags = tuple(each for each in every if each != CALLED_BEFORE)
            asked.append(
                Variant(
                    name, tuple(sources.items()), flags, own, written, called_before=CALLED_BEFORE in every
                )
            )
        every_test = tuple(dict.fromkeys(test for each in gone for test in (*each.tests, *each.turned)))
        every_statement = tuple(dict.fromkeys(span for each in gone for span in each.statements))
        request = ProofRequest(tuple(asked), tuple(functions), every_test, every_statement)
        return self.prove(request), request, gone

    def _changed(self, path: str, text: str) -> Changed:
        return changed(path, self.files.before(path), source.of_text(Path(path), text))

    def judged(
        self,
        before: Observation,
        candidate: _Candidate,
        trial: Trial,
        result: ProofResult,
        request: ProofRequest,
        gone: _Gone,
    ) -> FixChange:
        """The change with what its trial says; `before` is the run of what it was made to."""
        change = candidate.change
        lines = {
            shown: LineMap(self.files.text(path), candidate.sources[path])
            for shown in dict.fromkeys(edit.path for edit in change.edits)
            if (path := str(self.files.path(shown))) in candidate.sources
        }
        paths = dict.fromkeys(test.path for test in gone.tests)
        shown = {path: (self._shown(path), self.files.before(path).text) for path in paths}
        judgement: Judgement = judgement_of(
            before, trial, result, request, gone.tests, lines, shown, keeps_out=change.keeps_out,
            not_run=self._not_run(trial, result, gone),
        )  # fmt: skip
        return dataclasses.replace(
            change,
            state=judgement.state,
            reason=judgement.reason,
            unsafe=judgement.unsafe or change.unsafe,
            proof=judgement.proof,
        )

    def _not_run(self, trial: Trial, result: ProofResult, gone: _Gone) -> str | None:
        """Which statement no call ran that the change takes away or writes, in one line."""
        taken = {
            side.test
            for side in result.sides
            if side.true or side.false or side.alone_true or side.alone_false
        }
        for span in gone.turned:
            if span not in taken:
                return f"no call asks {self._shown(span.path)}:{span.line}, which is changed"
        for span in result.not_run:
            if span in gone.statements:
                return f"no call runs {self._shown(span.path)}:{span.line}, which is changed"
        traced = {each.path: each.ranges for each in trial.observation.traced}
        for span in trial.not_run:  # what only compiled code does is compared there
            ranges = traced.get(self._shown(span.path), ())
            if not any(first <= span.end_line and span.line <= last for first, last in ranges):
                return f"no call runs what is written anew for line {span.line} of {self._shown(span.path)}"
        return None

    def _of_what_is_gone(self, change: FixChange, before: Observation, after: Observation) -> FixChange:
        """A change that was tried for whatever it cures, put to the first break that it does."""
        left = {(site.path, site.line) for site in after.break_sites}
        for site in before.break_sites:
            path = self.files.path(site.path)
            if path is not None and (site.path, site.line) not in left:
                line = self.files.original_line(str(path), site.line)
                return dataclasses.replace(
                    change, path=site.path, line=line, symbol=site.symbol, gb_ids=tuple(site.gb_ids)
                )
        return change

    def _shown(self, path: str) -> str:
        return display_path(path, str(self.root))

    def _counts(self, change: FixChange) -> bool:
        """Whether a change is to be proposed, as far as it was shown to hold."""
        if change.state == "one_side" or (change.unsafe or "").startswith("another exception"):
            return self.wanted.unsafe
        return change.state == "proved"


def _as_bytes_stand(file: ChangedFile) -> str:
    """The patch of one file with the bytes that the file has: its byte order mark, and those that are not UTF-8."""
    mark = "\ufeff" if file.path.read_bytes().startswith(codecs.BOM_UTF8) else ""
    before = mark + file.before
    text = patch({file.shown: before}, between(file.shown, before, mark + file.after))
    with contextlib.suppress(UnicodeError):
        return text.encode(source.declared(file.before)).decode("utf-8", "surrogateescape")
    return text


def with_patches(result: FixResult, files: Iterable[ChangedFile], root: Path) -> FixResult:
    """The result with all changes as patches: those of the user's files, and those of installed ones."""
    texts: dict[bool, list[str]] = {True: [], False: []}
    edits: list[Edit] = []
    for file in files:
        is_own = file.path.is_relative_to(root) and not is_installed(str(file.path))
        edits += between(file.shown, file.before, file.after)
        texts[is_own].append(_as_bytes_stand(file))
    own, third = ("".join(texts[key]) for key in (True, False))
    return dataclasses.replace(result, edits=tuple(edits), patch=own, third_party_patch=third)
