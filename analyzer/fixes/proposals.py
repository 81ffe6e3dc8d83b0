"""Find changes that let Dynamo compile the code, and verify each: `tcready fix` and `tcready prove`.

A round tries every change alone against the unmodified code, then those that passed together. What is behind a removed
break shows in the next round.
"""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tcready.config.resolution import Settings
from tcready.fixes.candidates import Candidate, Files, counted, identity_of, names_of, next_ones, why_none
from tcready.fixes.candidates import FixOptions as FixOptions
from tcready.fixes.multi_target import Done, join_results
from tcready.fixes.multi_target import Fixed as Fixed
from tcready.fixes.patching import ChangedFile, apply_patch
from tcready.fixes.rewriting.fake_kernel_registration import LACKS
from tcready.fixes.rewriting.judgement import (
    breaks,
    captured_share,
    captures_more,
    compiled_again,
    is_captured,
    why_spoiled,
)
from tcready.fixes.rewriting.suggestions import Proposal, for_finding
from tcready.fixes.rounds import Announce, FixRounds, Prove
from tcready.pipeline import observations, run_selection
from tcready.pipeline.run_selection import PlannedRun
from tcready.portable.options import ReadOptions, RunOptions
from tcready.portable.target import Target, quote
from tcready.schema.display_paths import is_installed
from tcready.schema.edit import Edit
from tcready.schema.enums import TcreadyError
from tcready.schema.fix import Fix
from tcready.schema.notebook_cells import path_in, place_in
from tcready.schema.observation import Observation
from tcready.schema.progress import Progressing
from tcready.schema.proof import FixChange, FixResult, NoFix, setting_of
from tcready.schema.report import Report
from tcready.schema.static import Finding, Skipped
from tcready.source.edits import between, patch
from tcready.static import driver
from tcready.static.diagnostics.cst_view import Concrete
from tcready.static.diagnostics.rule import Rule
from tcready.static.driver import RuleSet
from tcready.static.frontend import source
from tcready.static.library import torch_tables, torch_versions
from tcready.static.session import Session

if TYPE_CHECKING:
    from tcready.dynamic import ForkServer

BREAKS = ("graph_break", "frame_skip", "compile_error")
"""Effects that keep code out of graphs."""
ROUNDS = 10
_SETTING = re.compile(
    r"(?:torch\._dynamo\.config\.)?([a-z]\w*)(?:\s*=\s*(True|[0-9]{1,9}|(?:[a-z]\w*\.)*[a-z]\w*))?", re.ASCII
)
"""A setting as `fix` writes it, or its name alone."""
OVERLAPS = "it overlaps another change: run fix again"
NOTHING_GAINED = "it gains nothing: Dynamo breaks the graph at a later line instead, and captures no more operations"


def reject_notebooks(names: Iterable[str]) -> None:
    """Raise TcreadyError if a notebook was named: its code is text inside of JSON."""
    for name in names:
        if Target.parse(name).is_notebook:
            raise TcreadyError(
                f"{name}: tcready fix changes .py files, not notebooks: `tcready check` shows what to change, and why"
            )


def find_and_prove(
    names: Sequence[str],
    settings: Settings,
    torch: tuple[int, int],
    rules: RuleSet,
    wanted: FixOptions,
    announce: Announce,
    progress: Progressing,
) -> Fixed:
    """Return every change to the code of targets that passes, found and verified round by round for each target alone,
    then tried on all of them.

    `torch` is the version for which Dynamo is predicted. Targets that cannot be run are reported; raises TcreadyError
    if the only named one cannot.
    """
    root = settings.root
    run_selection.validate_options(names, settings, True, ())
    failures: list[tuple[str, str]] = []
    due: dict[str, PlannedRun] = {}
    for name in dict.fromkeys(names):
        try:
            runs, unread = _runs(name, settings, rules)
        except TcreadyError as error:
            if len(names) == 1:
                raise
            failures.append((name, str(error)))
        else:
            due |= {run.target: run for run in runs}
            failures += [(each.path, _unread(each)) for each in unread if each.path != name]
    for _, why in failures:
        announce(f"left out: {why}")
    done: list[Done] = []
    with observations.fork_server() as server:
        for run in due.values():
            options = run.options(settings)[0].without_studies()
            reading = dataclasses.replace(
                settings.read, mode=options.mode, torch=torch, third_party=wanted.third_party or None
            )
            announce(f"running {run.target} with {run.inputs_from}")
            first = _first_run(run.target, options, root, progress, server)
            if isinstance(first, str):
                failures.append((run.target, first))
            else:
                done.append(_in_rounds(first, options, reading, rules, wanted, announce, progress, server))

        def again(each: Done, texts: Mapping[str, str], own: bool) -> FixResult | str:
            announce(f"{each.target}: tried with the changes for all targets")
            with _proof_session(each.target, each.options, root, progress, server) as prove:
                work = FixRounds(each.target, root, Files(root, each.first.sources), wanted, announce, prove)
                return _with_others(work, each, texts, own=own)

        fixed = join_results(done, failures, again)
    return Fixed(with_patches(fixed.result, fixed.files, root), fixed.files)


def _with_others(work: FixRounds, each: Done, texts: Mapping[str, str], *, own: bool) -> FixResult | str:
    """Run a target with changes that were made for others too, with its `own` among them or not; return why they
    fail in it, in one line."""
    result, before = (each.fixed.result, each.after) if own else (each.untouched, each.first)
    flags = tuple(dict.fromkeys(name for change in result.changes for name in names_of(change)))
    found, _, _ = work.tried([("the changes for all targets", texts, flags)], ())
    if found.failure is not None:
        return found.failure
    trial = found.trials[0]
    reason = why_spoiled(before, trial)
    if reason is None and trial.raises is not None and not work.wanted.unsafe:
        reason = f"another exception: {trial.raises}"
    may_assert = trial.only_asserts and any(change.only_asserts for change in result.changes)
    if reason is None and trial.holding_back and not may_assert and not work.wanted.unsafe:
        reason = f"it fails {trial.holding_back}"
    if reason is not None:
        return reason
    seen = trial.observation
    work.files.now.update(texts)
    left = work.unmodified_lines((site.path, site.line) for site in seen.break_sites)
    return dataclasses.replace(
        result,
        no_fix=tuple(item for item in result.no_fix if (item.path, item.line) in left),
        breaks_after=breaks(seen),
        share_after=captured_share(seen),
        left=left,
    )


def _in_rounds(
    first: Observation,
    options: RunOptions,
    reading: ReadOptions,
    rules: RuleSet,
    wanted: FixOptions,
    announce: Announce,
    progress: Progressing,
    server: ForkServer | None = None,
) -> Done:
    """Search round by round until nothing is left, or nothing helps; `first` is the run of the unmodified code."""
    target, root = first.target, reading.root
    by_code = {rule.code: rule for rule in rules.load()}
    files = Files(root, first.sources)
    run = options.without_studies()
    with _proof_session(target, run, root, progress, server) as prove:
        work = FixRounds(target, root, files, wanted, announce, prove, by_code, operators=first.custom_ops)
        fixed, after = _worked(work, first, reading, rules)
    result = fixed.result
    breaking = [(site.path, site.line) for site in first.break_sites if files.path(site.path) is not None]
    untouched = dataclasses.replace(
        result,
        changes=(),
        edits=(),
        patch="",
        third_party_patch="",
        breaks_after=result.breaks_before,
        share_after=result.share_before,
        left=tuple(dict.fromkeys(breaking)),
        kept_out=(),
    )
    return Done(target, run, first, after, fixed, untouched)


def _worked(work: FixRounds, first: Observation, reading: ReadOptions, rules: RuleSet) -> tuple[Fixed, Observation]:
    """Return what was found, and the run with it."""
    target, root, wanted, announce = work.target, work.root, work.wanted, work.announce
    session = Session(reading, rules)
    seen = first
    changes: list[FixChange] = []
    refused: list[FixChange] = []
    no_fix: dict[tuple[str, int, tuple[str, ...]], NoFix] = {}
    flags: tuple[str, ...] = ()
    failure: str | None = None
    for each in work.fake_kernels(1) if not is_captured(first) else ():
        announce("an operator without a fake kernel ends the capture: 1 change")
        accepted, left, seen, failure = work.round(seen, [each], ())
        changes += accepted
        refused += left
        if accepted or failure is not None:
            break
    if not is_captured(seen):
        failure = failure or _why_not(seen)
    number = 1
    for _ in range(ROUNDS):
        if failure is not None:
            break
        for _ in range(ROUNDS):
            sites = work.wanted_sites(seen)
            if not sites:
                break
            found = session.check([target], {Path(path): text for path, text in work.files.now.items()}).result
            every = list(work.candidates(sites, found.findings, flags, no_fix, number))
            offered = tuple(dict.fromkeys(name for each in every for name in each.change.settings))
            tried = {identity_of(change) for change in refused}
            candidates = next_ones((each for each in every if work.is_promising(each.change, tried)), tried)
            if not candidates and not wanted.select:
                candidates = next_ones(work.called_before(sites, flags, number), tried)
            if not candidates:
                break
            announce(f"round {number}: {counted(candidates, 'change')} for {counted(sites, 'break')}")
            accepted, left, after, failure = work.round(seen, candidates, flags, offered)
            number += 1
            refused += left
            if failure is not None:
                break  # what holds already holds without the rest
            if not accepted:
                continue
            changes += accepted
            refused = work.without_retried(refused)
            flags = tuple(dict.fromkeys([*flags, *(name for each in accepted for name in names_of(each))]))
            seen = after
        compiles_less = False
        for _ in range(ROUNDS):
            if failure is not None or not seen.recompiles:
                break
            found = session.check([target], {Path(path): text for path, text in work.files.now.items()}).result
            tried = {identity_of(change) for change in refused}
            candidates = next_ones(work.compiled_again(seen, found.findings, flags, number), tried)
            if not candidates:
                break
            announce(f"compiled again: {counted(candidates, 'change')}")
            accepted, left, seen, failure = work.round(seen, candidates, flags)
            number += 1
            changes += accepted
            refused += left
            compiles_less |= bool(accepted)
            flags = tuple(dict.fromkeys([*flags, *(name for each in accepted for name in names_of(each))]))
        if not compiles_less:
            break
        refused = work.without_retried(refused)  # a setting may last now
    if changes and failure is None:
        changes, needless, seen = work.without_needless(seen, changes)
        refused += needless
        flags = tuple(dict.fromkeys(name for each in changes for name in names_of(each)))
    # leaving more out does not fix a break that costs nothing but itself
    frames_lost = any(not frame.benign for frame in seen.skipped_frames)
    sites = work.wanted_sites(seen) if frames_lost else []
    candidates = next_ones(work.disabled_functions(sites, ROUNDS), {identity_of(change) for change in refused})
    lost: tuple[tuple[str, int], ...] = ()
    if candidates and failure is None and not wanted.select:
        announce(f"last round: {counted(candidates, 'function')} kept out for {counted(sites, 'break')}")
        broke = work.unmodified_lines((site.path, site.line) for site in seen.break_sites)
        accepted, left, seen, failure = work.round(seen, candidates, flags)
        changes += accepted
        refused += left
        lines = ((t.path, line) for t in seen.traced for a, b in t.ranges for line in range(a, b + 1))
        compiled = set(work.unmodified_lines(lines))
        lost = tuple(place for place in broke if place not in compiled)
    if changes and not _is_gained(first, seen):
        refused += [
            dataclasses.replace(each, state="refuted", reason=NOTHING_GAINED, keeps_out=False) for each in changes
        ]
        changes, seen, lost = [], first, ()
        work.files.now.clear()
    left_over = work.unmodified_lines((site.path, site.line) for site in seen.break_sites)
    files = work.files.changed()
    result = FixResult(
        changes=tuple(changes),
        refused=tuple(refused),
        no_fix=tuple(each for each in no_fix.values() if (each.path, each.line) in left_over),
        breaks_before=breaks(first),
        breaks_after=breaks(seen),
        share_before=captured_share(first),
        share_after=captured_share(seen),
        left=left_over,
        kept_out=tuple(place for place in lost if place not in left_over),
        failure=f"{target}: {failure}" if failure is not None else None,
    )
    return Fixed(with_patches(result, files, root), files), seen


def _is_gained(before: Observation, after: Observation) -> bool:
    """Return True if fewer lines break, more of a forward is captured, or less is recompiled."""
    if not is_captured(before) and is_captured(after):
        return True
    if compiled_again(after) < compiled_again(before) and breaks(after) <= breaks(before):
        return True
    return captures_more(before, after) or breaks(after) < breaks(before)


def verify_report(
    report: Report,
    settings: Settings,
    torch: tuple[int, int],
    rules: RuleSet,
    announce: Announce,
    progress: Progressing,
) -> Report:
    """Return the report of runs made here, with the result of verification for each break and each recompile."""
    known: dict[tuple[str, int], FixChange | NoFix] = {}
    again: list[FixChange] = []
    warnings: list[str] = []
    for target in report.targets:
        seen = target.observation
        if seen is None or _why_not_tried(seen) is not None:
            continue
        if not seen.break_sites and not seen.recompiles and LACKS not in _lacks(seen):
            continue
        options = dataclasses.replace(settings.run, mode=seen.mode, trace_out=None)
        reading = dataclasses.replace(settings.read, mode=seen.mode, torch=torch)
        found = _in_rounds(seen, options, reading, rules, FixOptions(), announce, progress).fixed.result
        warnings += [f"changes were not proved: {found.failure}"] if found.failure else []
        tried = (*reversed(found.refused), *found.changes)
        known |= {(each.path, each.line): each for each in found.no_fix}
        known |= {(each.path, each.line): each for each in tried if not each.fewer_compiles}
        again = [*(each for each in reversed(tried) if each.fewer_compiles), *again]
    texts = {source.path: source.text for source in report.sources}

    def of(finding: Finding) -> FixChange | NoFix | None:
        if finding.effect in BREAKS:
            return known.get((finding.path, finding.line))
        lines = range(finding.line, finding.end_line + 1) if finding.effect == "recompile" else ()
        return next((each for each in again if each.path == finding.path and each.line in lines), None)

    findings = tuple(
        dataclasses.replace(finding, fix=_fix(finding.fix, change, texts.get(finding.path)))
        if (change := of(finding)) is not None
        else finding
        for finding in report.findings
    )
    return dataclasses.replace(report, findings=findings, warnings=(*report.warnings, *warnings))


def _fix(fix: Fix | None, change: FixChange | NoFix, text: str | None) -> Fix:
    """Return the fix of a finding after verification."""
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
    """Return the changes from the source alone; nothing is run. If there are several for one place, the first is
    used, and the changed text is read again for the others."""
    root = settings.root
    reading = dataclasses.replace(settings.read, torch=torch, third_party=wanted.third_party or None)
    read = driver.read(names, reading, rules, settings.report, cache=settings.work.cache, jobs=settings.work.jobs)
    static, there = read.result, [name for name in names if name not in read.missing]
    files = Files(root, ())
    found = latest = _proposed(static.findings, files, rules, wanted)
    changes = list(found.changes)
    session = Session(reading, rules)
    for number in range(2, ROUNDS + 1):
        anew = {edit.path for change in latest.changes for edit in change.edits}
        if not anew:
            break
        texts = {Path(path): text for path, text in files.now.items()}
        again = session.check([*_files_to_reread(there, texts, root)], texts, report=settings.report)
        left = [finding for finding in again.result.findings if finding.path in anew]
        latest = _proposed(left, files, rules, wanted)
        changes += [dataclasses.replace(change, round=number) for change in latest.changes]
        found = found.renewed(anew, latest)
    left_out = [dataclasses.replace(each, reason=OVERLAPS) for each in found.overlapping]
    changed_files = files.changed()
    unread = "; ".join(map(_unread, static.skipped))
    # several operators of one test are several findings with one change, or none, for the same reason
    result = FixResult(
        changes=tuple(dict.fromkeys(changes)),
        refused=tuple(dict.fromkeys([*found.refused, *left_out])),
        no_fix=tuple(dict.fromkeys(found.no_fix)),
        failure=unread or None,
    )
    return Fixed(with_patches(result, changed_files, root), changed_files)


def _files_to_reread(names: Sequence[str], changed: Collection[Path], root: Path) -> Iterator[str]:
    """Return what to read again: in place of each folder, the changed files below it."""
    for name in names:
        folder = (root / name).resolve()
        if folder.is_dir():
            yield from (str(path) for path in changed if path.is_relative_to(folder))
        else:
            yield name


@dataclass
class _Found:
    """Changes from one reading, and what it leaves; line numbers are those before any change."""

    changes: list[FixChange] = field(default_factory=list)
    refused: list[FixChange] = field(default_factory=list)
    no_fix: list[NoFix] = field(default_factory=list)
    overlapping: list[FixChange] = field(default_factory=list)
    """Left out because another change has the same place."""

    def renewed(self, paths: Set[str], other: _Found) -> _Found:
        """Return what is left after some files were read again: for these files, the result of the new reading."""
        return _Found(
            [],
            [*(each for each in self.refused if each.path not in paths), *other.refused],
            [*(each for each in self.no_fix if each.path not in paths), *other.no_fix],
            [*(each for each in self.overlapping if each.path not in paths), *other.overlapping],
        )


def _unread(file: Skipped) -> str:
    return f"{file.path} cannot be judged: {file.reason}"


def _proposed(findings: Sequence[Finding], files: Files, rules: RuleSet, wanted: FixOptions) -> _Found:
    """Return the changes found by a reading of the current files; they are applied in `files`."""
    by_code = {rule.code: rule for rule in rules.load()}
    found = _Found()
    concrete: dict[str, Concrete] = {}
    texts = dict(files.now)
    maps = files.maps()

    def original_line(path: Path | None, line: int) -> int:
        known = maps.get(str(path))
        return line if known is None else known.replaced_line(line)

    for finding in findings:
        rule = by_code.get(finding.rule or "")
        path = files.path(finding.path)
        if rule is None or path is None or (finding.origin != "own" and not wanted.third_party):
            continue
        if wanted.select and not rule.code.startswith(wanted.select):
            continue
        if finding.path not in concrete:
            concrete[finding.path] = Concrete(files.source(str(path)))
        line = original_line(path, finding.line)
        cell = place_in(concrete[finding.path].source.cells, finding.line)
        if cell is not None:
            place = path_in(finding.path, cell)
            found.no_fix.append(
                NoFix(
                    place,
                    cell.line,
                    rule.code,
                    finding.gb_ids,
                    "The code is in a notebook, and `tcready fix` changes only .py files.",
                )
            )
            continue
        ways = list(wanted.filter_output(for_finding(concrete[finding.path], rule, finding)))
        proposals = [way for way in ways if isinstance(way, Proposal)]
        base = FixChange(finding.path, line, finding.symbol, rule.code, finding.gb_ids, "", (), (), None, "not_run")
        made = [
            dataclasses.replace(base, how=p.how, edits=p.edits, unsafe=p.unsafe, settings=p.settings) for p in proposals
        ]
        usable = [change for change in made if change.unsafe is None or wanted.unsafe]
        try:
            texts |= files.with_edits([e for each in (*found.changes, *usable[:1]) for e in each.edits])
        except TcreadyError:
            found.overlapping += usable[:1]
            continue
        found.changes += usable[:1]
        if not usable:
            found.refused += [dataclasses.replace(change, reason=f"not safe: {change.unsafe}") for change in made[:1]]
        if not made and finding.effect in BREAKS and finding.confidence != "low":
            found.no_fix.append(NoFix(finding.path, line, rule.code, finding.gb_ids, why_none(ways, [rule])))
    # what is written anew there takes the rest of the line along: another reading shows what is left of it
    anew = {
        (each.path, original_line(files.path(each.path), line))
        for each in found.changes
        for e in each.edits
        for line in range(e.start_line, e.end_line + 1)
    }
    found.no_fix = [each for each in found.no_fix if (each.path, each.line) not in anew]
    files.now |= texts
    return found


def describe_change(finding: Finding, rule: Rule, text: str) -> str:
    """Return what `fix` offers for a finding in a file with this text, or why it offers nothing."""
    ways = [*for_finding(Concrete(source.of_text(Path(finding.path), text)), rule, finding)]
    offered = next((way for way in ways if isinstance(way, Proposal)), None)
    if offered is None:
        return why_none(ways, [rule])
    return f"{offered.how}: run `tcready fix {quote(finding.path)} --verify`"


def proved_patch(
    name: str,
    settings: Settings,
    rules: RuleSet,
    patch_and_name: tuple[str, str],
    announce: Announce,
    progress: Progressing,
    beside: Sequence[str] = (),
) -> FixChange | str:
    """Verify any patch; return as text, in one line, why that was not possible.

    `beside` are settings of `torch._dynamo.config` that belong to the patch. Raises TcreadyError for an unknown
    setting, a patch that does not apply, and if nothing, or several things, can be run.
    """
    flags = tuple(dict.fromkeys(map(_setting, beside)))
    root = settings.root
    text, named = patch_and_name
    files = Files(root, ())
    changed_files = apply_patch(text, named, files.path)
    target, options = _one_run(name, settings, rules, announce)
    run = options.without_studies()
    edits = tuple(edit for each in changed_files for edit in between(each.shown, each.before, each.after))
    whole = FixChange(named, 0, "", None, (), named, edits, flags, None, "not_run")
    sources = {str(each.path): each.after for each in changed_files}
    with observations.fork_server() as server:
        first = _first_run(target, run, root, progress, server)
        if isinstance(first, str):
            return first
        with _proof_session(target, run, root, progress, server) as prove:
            work = FixRounds(target, root, files, FixOptions(), announce, prove)
            result, request, gone = work.tried([(named, sources, flags)], (), seeks_smallest=True)
    failure = result.failure or result.trials[0].unanswered
    if failure is not None:
        return f"{target}: {failure}"
    return work.judged(first, Candidate(whole, sources), result.trials[0], result, request, gone[0])


def _setting(text: str) -> str:
    """Return a setting in the form of changes. Raises TcreadyError for an unknown setting."""
    match = _SETTING.fullmatch(text.strip())
    if match is None:
        raise TcreadyError(
            f"{text!r} is no setting of torch._dynamo.config that can be made: give a name, `capture_scalar_outputs`, "
            "which becomes True, a name and a whole number, `recompile_limit=64`, or a name and a function that is put "
            "into it"
        )
    name, value = match.groups()
    takes = {
        type(table.data["config"][name])
        for table in map(torch_tables.load, torch_versions.with_tables())
        if name in table.data["config"]
    }
    if not takes:
        raise TcreadyError(f"torch._dynamo.config has no setting {name!r}, in no version of torch that is known here")
    given = bool if value is None or value == "True" else int if value.isdecimal() else list
    if given not in takes and type(None) not in takes:  # what is None by default may take anything
        wanted = {
            bool: f"True, as in `{name}`",
            int: f"a whole number, as in `{name}=64`",
            list: f"a function, as in `{name}=print`",
        }
        may = " or ".join(text for kind, text in wanted.items() if kind in takes) or "nothing of these kinds"
        raise TcreadyError(f"the setting {name} takes {may}, not {text.strip()!r}")
    return name if given is bool else f"{name}={value}"


@contextlib.contextmanager
def _proof_session(
    target: str, options: RunOptions, root: Path, progress: Progressing, server: ForkServer | None
) -> Iterator[Prove]:
    """Return the function that tries changes of a target, in one process for all of them."""
    from tcready import dynamic

    with dynamic.Prover(observations.run_request(target, options, root, server=server), progress) as prover:
        yield prover.prove


def _one_run(name: str, settings: Settings, rules: RuleSet, announce: Announce) -> tuple[str, RunOptions]:
    """Return the only run that is due. Raises TcreadyError if there is none, or several."""
    run_selection.validate_options((name,), settings, True, ())
    found, _ = _runs(name, settings, rules)
    if len(found) > 1:
        every = ", ".join(each.target for each in found)
        raise TcreadyError(f"{name}: a proof takes one target: name one of {every}")
    announce(f"running {found[0].target} with {found[0].inputs_from}")
    return found[0].target, found[0].options(settings)[0]


def _runs(name: str, settings: Settings, rules: RuleSet) -> tuple[list[PlannedRun], tuple[Skipped, ...]]:
    """Return the runs that are due, and the files that could not be read. Raises TcreadyError if no run is due."""
    read = driver.read((name,), settings.read, rules, settings.report, cache=settings.work.cache)
    found = list(run_selection.due((name,), True, settings, settings.tables or (), read.result))
    if not found or found[0].impossible:
        raise TcreadyError(f"{name}: {found[0].impossible if found else 'nothing here can be run'}")
    return found, read.result.skipped


def _first_run(
    target: str, options: RunOptions, root: Path, progress: Progressing, server: ForkServer
) -> Observation | str:
    """Run the unmodified code; if it shows nothing, return why, in one line."""
    seen = observations.launch(target, options, root, progress, server=server)
    why = _why_not_tried(seen)
    return seen if why is None else f"{target}: {why}"


def _why_not_tried(seen: Observation) -> str | None:
    """Return why changes cannot be tried, in one line: the run showed too little, and the reason is not an operator
    without a fake kernel."""
    return None if LACKS in _lacks(seen) and _ends_at(seen) == "capture" else _why_not(seen)


def _lacks(seen: Observation) -> set[str]:
    """Return the operators of others without a fake kernel."""
    return {each for operator in seen.custom_ops for each in operator.lacks}


def _ends_at(seen: Observation) -> str | None:
    """Return the stage that failed; None if all passed."""
    # Code that raises for other values than these shows all that changes are judged by.
    wrong = [
        s
        for s in seen.stages
        if s.state == "fail" and s.stage != "fullgraph" and (s.stage, s.reason) != ("parity", "compile_error")
    ]
    wrong += [s for s in seen.stages if s.state == "not_run" and seen.coverage is None]
    return wrong[0].stage if wrong else None


def _why_not(seen: Observation) -> str | None:
    """Return why a run shows too little, in one line."""
    stage = next((s for s in seen.stages if s.stage == _ends_at(seen)), None)
    return None if stage is None else f"{stage.stage}: {stage.detail}"


def _as_bytes_stand(file: ChangedFile) -> str:
    """Return the patch of one file with the bytes of the file: its byte order mark, and bytes that are not UTF-8."""
    mark = "\ufeff" if file.path.read_bytes().startswith(codecs.BOM_UTF8) else ""
    before = mark + file.before
    text = patch({file.shown: before}, between(file.shown, before, mark + file.after))
    with contextlib.suppress(UnicodeError):
        return text.encode(source.declared(file.before)).decode("utf-8", "surrogateescape")
    return text


def with_patches(result: FixResult, files: Iterable[ChangedFile], root: Path) -> FixResult:
    """Return the result with all changes as patches: those of the user's files, and those of installed ones."""
    texts: dict[bool, list[str]] = {True: [], False: []}
    edits: list[Edit] = []
    for file in files:
        is_own = file.path.is_relative_to(root) and not is_installed(str(file.path))
        edits += between(file.shown, file.before, file.after)
        texts[is_own].append(_as_bytes_stand(file))
    own, third = ("".join(texts[key]) for key in (True, False))
    return dataclasses.replace(result, edits=tuple(edits), patch=own, third_party_patch=third)
