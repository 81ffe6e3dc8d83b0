"""One round of `tcready fix`: try a change for each break alone, those that need each other as one, then all that
passed together."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from tcready.fixes.candidates import (
    CALLED_BEFORE,
    Candidate,
    Files,
    FixOptions,
    counted,
    describe,
    identity_of,
    names_of,
    why_none,
)
from tcready.fixes.rewriting.changes import Changed, LineMap, changed, joined
from tcready.fixes.rewriting.disabling import disable_function
from tcready.fixes.rewriting.fake_kernel_registration import LACKS, register_fake_kernel
from tcready.fixes.rewriting.judgement import Judgement, compiled_again, why_spoiled, written_at
from tcready.fixes.rewriting.judgement import judge_trial as judgement_of
from tcready.fixes.rewriting.suggestions import Proposal, at_line, for_finding
from tcready.schema.display_paths import display_path
from tcready.schema.edit import Edit
from tcready.schema.enums import TcreadyError
from tcready.schema.observation import Observation
from tcready.schema.proof import (
    FixChange,
    FunctionPlace,
    NoFix,
    ProofRequest,
    ProofResult,
    Trial,
    Variant,
    setting_line,
)
from tcready.schema.run import BreakSite, CustomOp
from tcready.schema.static import Finding
from tcready.source.edits import apply_edits, between
from tcready.static.diagnostics.cst_view import Concrete
from tcready.static.diagnostics.rule import Declined, Rule
from tcready.static.frontend import source
from tcready.static.frontend.source import Source

Announce = Callable[[str], None]
Prove = Callable[[ProofRequest], ProofResult]
ALTERNATIVES = 3
"""Maximum number of changes that are tried for one break in one round."""
SETTINGS_OF_BREAKS = {"GB0039": ("recompile_limit=64",)}
"""Settings for breaks that no rule predicts: a function that is compiled once for each of many layers."""
OPEN_ON_MODULES = "allow_unspec_int_on_nn_module"
"""The setting that keeps an integer attribute of a module symbolic in compiled code."""
OF_A_MODULE = re.compile(r"\.\w+ == -?\d+$")
"""The guard on such an integer."""
NOT_NEEDED = "not needed: the other changes achieve the same without it"
OF_VALUES = frozenset({"GB0033", "GB0036", "GB0124", "GB0170", "GB7000"})
"""Breaks on values of tensors, and their consequences: they occur at the second call as at the first."""

NOT_SHOWN = {
    "once": "{} runs once, at import, so no call shows what depends on its values",
    "takes": "the function at {} takes other parameters, and no call shows what other callers pass",
    "unread": "the function at {} no longer reads a parameter, an attribute set from one, or a method, and no call "
    "varies that",
    "declared": "the declaration at {} is changed or removed, and no call shows what depends on it",
}
"""Changes that no call shows, by the field of Changed, the most severe first."""


def _without_setting(how: str, name: str) -> str:
    """Return the description of a change, without the line of one of its settings."""
    line = f"`{setting_line(name)}`"
    for text in (f". {line}", f" and {line}", f"{line} and "):
        how = how.replace(text, "")
    return how


@dataclass(frozen=True)
class FixRounds:
    target: str
    root: Path
    files: Files
    wanted: FixOptions
    announce: Announce
    prove: Prove
    rules: Mapping[str, Rule] = field(default_factory=dict)
    """The rules by code."""
    refuted_elsewhere: set[tuple[object, ...]] = field(default_factory=set)
    """Changes with which every call agreed, and that were refuted only because Dynamo broke elsewhere."""
    joined: set[frozenset[object]] = field(default_factory=set)
    """Combinations that were tried as one change."""
    operators: tuple[CustomOp, ...] = ()
    """Operators of others that the current code calls."""

    def wanted_sites(self, seen: Observation) -> list[BreakSite]:
        return [site for site in seen.break_sites if self.wanted.third_party or site.origin == "own"]

    def candidates(
        self,
        sites: Sequence[BreakSite],
        findings: Sequence[Finding],
        settings: tuple[str, ...],
        no_fix: dict[tuple[str, int, tuple[str, ...]], NoFix],
        number: int,
    ) -> Iterator[Candidate]:
        """Return the changes that might fix each break; breaks without any are added to `no_fix`."""
        rules = self.rules
        concrete: dict[Path, Concrete] = {}
        offered: set[str] = set(settings)
        flags: list[FixChange] = []
        for shown, line, path, here in self._places(sites):
            if path not in concrete:
                concrete[path] = Concrete(source.of_text(path, self.files.text(str(path))))
            ids = tuple(dict.fromkeys(name for site in here for name in site.gb_ids))
            covering = [f for f in findings if f.path == shown and f.line <= line <= f.end_line and f.rule in rules]
            of_the_break = [rule for rule in rules.values() if set(rule.gb_ids) & set(ids)]
            ways: list[Proposal | Declined] = []
            for finding in covering:
                ways += self.wanted.filter_output(for_finding(concrete[path], rules[finding.rule or ""], finding))
            of_findings = tuple(ways)  # what other rules say of the line is no reason where a finding has one
            if not any(isinstance(way, Proposal) for way in ways):
                ways += self.wanted.filter_output(at_line(concrete[path], shown, line, of_the_break))
            before = self.files.original_line(str(path), line)
            observed = list(self._fake_kernels_at(shown, concrete[path].source, line, before))
            ways += observed
            found_there = {way.edits: way for way in reversed(ways) if isinstance(way, Proposal)}
            proposals = list(reversed(found_there.values()))[:ALTERNATIVES]
            rule = covering[0].rule if covering else proposals[0].rule if proposals else None
            if self.wanted.select and not (rule or "").startswith(self.wanted.select):
                continue
            named = [name for f in covering if f.fix is not None for name in f.fix.settings]
            named += [name for rule in of_the_break for name in rule.settings]
            named += [name for gb_id in ids for name in SETTINGS_OF_BREAKS.get(gb_id, ())]
            base = FixChange(shown, before, here[0].symbol, rule, ids, "", (), (), None, "not_run", round=number)
            for each in proposals:
                needed = tuple(name for name in each.settings if name not in settings)
                if not (each.edits or needed):
                    continue
                how = ". ".join([each.how, *(f"`{setting_line(name)}`" for name in needed)])
                change = dataclasses.replace(
                    base, how=how, edits=each.edits, unsafe=each.unsafe, rule=each.rule, settings=needed
                )
                yield Candidate(change, self.files.with_edits(change.edits), each.asserts)
            for name in [each for each in dict.fromkeys(named) if each not in offered]:
                offered.add(name)
                flags.append(dataclasses.replace(base, how=f"`{setting_line(name)}`", settings=(name,)))
                yield Candidate(flags[-1], dict(self.files.now))
            if not proposals and not named:
                reason = why_none(observed or of_findings or ways, [rules[f.rule or ""] for f in covering])
                no_fix[shown, before, ids] = NoFix(shown, before, rule, ids, reason)
        # one setting may take into the graph what leads to a break without another
        for number in {len(flags), 2} if len(flags) > 1 else ():
            for some in itertools.combinations(flags, number):
                names = tuple(name for change in some for name in change.settings)
                how = " and ".join(change.how for change in some)
                yield Candidate(dataclasses.replace(some[0], how=how, settings=names), dict(self.files.now))

    def without_retried(self, refused: Iterable[FixChange]) -> list[FixChange]:
        """Return refuted changes without those that may pass together with others."""
        return [each for each in refused if not each.settings and identity_of(each) not in self.refuted_elsewhere]

    def is_promising(self, change: FixChange, tried: Set[tuple[object, ...]]) -> bool:
        """Return True if a set of settings may do more than each of them: only if Dynamo still breaks with each
        alone."""
        alone = {(name,) for name in change.settings}
        return bool(change.edits) or len(alone) < 2 or alone & tried <= self.refuted_elsewhere

    def _fake_kernels_at(self, shown: str, now: Source, line: int, before: int) -> Iterator[Proposal | Declined]:
        """Return the missing fake kernels of the operators called on a line, which was the line `before` without
        changes."""
        for each in self.operators:
            if LACKS in each.lacks and (each.path, each.line) == (shown, before):
                yield from register_fake_kernel(shown, now, line, each)

    def fake_kernels(self, number: int) -> list[Candidate]:
        """Return the missing fake kernels of all operators as one change, best first: compiled code raises at
        operators made in Python (`torch.library.custom_op`), so one alone would show nothing."""
        lacking = {each.name: each for each in reversed(self.operators) if LACKS in each.lacks}
        made: list[Candidate] = []
        for way in range(ALTERNATIVES):
            texts = dict(self.files.now)
            edits: list[Edit] = []
            first: tuple[CustomOp, Proposal] | None = None
            for each in reversed(lacking.values()):
                path = self.files.path(each.path)
                if path is None or (each.origin != "own" and not self.wanted.third_party):
                    return made
                text = texts.get(str(path), self.files.text(str(path)))
                line = each.line + text.count("\n") - self.files.text(str(path)).count("\n")
                found = [
                    p
                    for p in register_fake_kernel(each.path, source.of_text(path, text), line, each)
                    if isinstance(p, Proposal)
                ]
                if not found:
                    return made
                chosen = found[min(way, len(found) - 1)]
                first = first or (each, chosen)
                texts[str(path)] = apply_edits(text, chosen.edits)
            for name, text in texts.items():
                edits += between(self._shown(name), self.files.text(name), text)
            if first is None or any(texts == other.sources for other in made):
                continue
            operator, kernel = first
            before = self.files.original_line(str(self.files.path(operator.path)), operator.line)
            change = FixChange(
                operator.path, before, operator.symbol, kernel.rule, (), kernel.how, tuple(edits), (), kernel.unsafe,
                "not_run", round=number,
            )  # fmt: skip
            made.append(Candidate(change, texts))
        return made

    def called_before(self, sites: Sequence[BreakSite], settings: tuple[str, ...], number: int) -> Iterator[Candidate]:
        """Return the change that calls the model once in eager mode before compiling, for breaks in its first call
        only."""
        others = [site for site in sites if not OF_VALUES.issuperset(site.gb_ids)]
        if CALLED_BEFORE not in settings and others:
            site = others[0]
            path = self.files.path(site.path)
            line = self.files.original_line(str(path), site.line) if path is not None else site.line
            how = "One eager call before the model is compiled, for what only the first call creates"
            change = FixChange(
                site.path, line, site.symbol, None, tuple(site.gb_ids), how, (), (), None, "not_run",
                round=number, called_before=True,
            )  # fmt: skip
            yield Candidate(change, dict(self.files.now))

    def compiled_again(
        self, seen: Observation, findings: Sequence[Finding], settings: tuple[str, ...], number: int
    ) -> Iterator[Candidate]:
        """Return changes that might reduce recompiles."""
        for event in seen.recompiles:
            if event.origin != "own" and not self.wanted.third_party:
                continue
            lines = {(each.path, each.line) for each in event.lines} or {(event.path, event.line)}
            for shown, line in sorted(lines):
                path = self.files.path(shown)
                if path is None:
                    continue
                before = self.files.original_line(str(path), line)
                base = FixChange(
                    shown, before, event.symbol, None, (), "", (), (), None, "not_run", round=number,
                    fewer_compiles=True,
                )  # fmt: skip
                concrete = Concrete(source.of_text(path, self.files.text(str(path))))
                for finding in findings:
                    rule = self.rules.get(finding.rule or "")
                    there = finding.path == shown and finding.line <= line <= finding.end_line
                    if rule is None or not there or finding.effect != "recompile":
                        continue
                    if self.wanted.select and not rule.code.startswith(self.wanted.select):
                        continue
                    for way in for_finding(concrete, rule, finding):
                        if isinstance(way, Proposal) and way.edits and not way.settings:
                            change = dataclasses.replace(
                                base, how=way.how, edits=way.edits, unsafe=way.unsafe, rule=way.rule
                            )
                            yield Candidate(change, self.files.with_edits(change.edits))
                is_of_module = any(OF_A_MODULE.search(reason) for reason in event.reasons)
                if is_of_module and OPEN_ON_MODULES not in settings and not self.wanted.select:
                    how = f"`{setting_line(OPEN_ON_MODULES)}`"
                    change = dataclasses.replace(base, how=how, settings=(OPEN_ON_MODULES,))
                    yield Candidate(change, dict(self.files.now))

    def disabled_functions(self, sites: Sequence[BreakSite], number: int) -> Iterator[Candidate]:
        """Return the functions around breaks without another fix, each excluded from compilation."""
        for shown, line, path, here in self._places(sites):
            way = disable_function(shown, source.of_text(path, self.files.text(str(path))), line)
            if isinstance(way, Proposal):
                before = self.files.original_line(str(path), line)
                ids = tuple(dict.fromkeys(name for site in here for name in site.gb_ids))
                change = FixChange(
                    shown, before, here[0].symbol, None, ids, way.how, way.edits, (), way.unsafe, "not_run",
                    round=number, keeps_out=True,
                )  # fmt: skip
                yield Candidate(change, self.files.with_edits(change.edits))

    def unmodified_lines(self, places: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
        """Return lines, by display path, as they were before any change, without those of unknown files."""
        lines: dict[str, set[int]] = {}
        for shown, line in places:
            lines.setdefault(shown, set()).add(line)
        found: dict[tuple[str, int], None] = {}
        for shown, each in lines.items():
            if (path := self.files.path(shown)) is not None:
                found |= dict.fromkeys((shown, line) for line in self.files.original_lines(str(path), each))
        return tuple(found)

    def _places(self, sites: Sequence[BreakSite]) -> Iterator[tuple[str, int, Path, list[BreakSite]]]:
        """Yield each line that breaks, its file, and its breaks."""
        for shown, line in dict.fromkeys((site.path, site.line) for site in sites):
            path = self.files.path(shown)
            if path is not None:
                yield shown, line, path, [site for site in sites if (site.path, site.line) == (shown, line)]

    def round(
        self,
        before: Observation,
        candidates: Sequence[Candidate],
        settings: tuple[str, ...],
        offered: tuple[str, ...] = (),
    ) -> tuple[list[FixChange], list[FixChange], Observation, str | None]:
        """Try each candidate alone, then those that passed together.

        Returns accepted changes, refuted ones, the run with all accepted ones, and why nothing could be tried.
        `offered` are settings that may be needed in addition.
        """
        result, request, gone = self.tried(
            [(describe(c.change), c.sources, names_of(c.change)) for c in candidates], settings
        )
        if result.failure is not None:
            return [], [], before, result.failure
        accepted: list[Candidate] = []
        left: list[FixChange] = []
        runs: list[Observation] = []
        short: list[tuple[Candidate, Trial]] = []  # every call agrees, and Dynamo breaks elsewhere
        for candidate, trial, own in zip(candidates, result.trials, gone, strict=True):
            change = self.judged(before, candidate, trial, result, request, own)
            place = (change.path, change.line)
            if change.called_before:
                change = self._of_what_is_gone(change, before, trial.observation)
            if not self._counts(change, candidate.asserts):
                left.append(change)
                if trial.difference is None and change.state == "refuted":
                    short.append((candidate, trial))
                    if trial.not_lasting is None:
                        self.refuted_elsewhere.add(identity_of(change))
            elif any((other.change.path, other.change.line) == place for other in accepted):
                continue  # the break has a fix already
            else:
                accepted.append(dataclasses.replace(candidate, change=change))
                runs.append(trial.observation)
        joint = self._jointly(before, accepted, [candidate for candidate, _ in short], settings, offered)
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
                and all((other.change.path, other.change.line) != place for other in accepted)
            ):
                accepted.append(more)
                runs.append(after)
        if len(accepted) > 1:
            return self._together(before, accepted, left, settings, runs)
        if accepted:
            self.files.now.update(accepted[0].sources)
            return [accepted[0].change], left, runs[0], None
        return [], left, before, None

    def _jointly(
        self,
        before: Observation,
        accepted: Sequence[Candidate],
        short: Sequence[Candidate],
        settings: tuple[str, ...],
        offered: tuple[str, ...],
    ) -> tuple[list[FixChange], Observation] | None:
        """Combine changes that pass alone, edits that fall `short` alone, and the settings `offered` into one change:
        after each of these lines others break that the rest fixes. Return it with its run; None if it fails.

        All such edits are tried first, then each alone.
        """
        edits = [each for each in short if each.change.edits and not each.change.keeps_out]
        known = {*settings, *(name for each in accepted for name in names_of(each.change))}
        names = tuple(name for name in offered if name not in known)
        groups = [edits, *([[each] for each in edits] if len(edits) > 1 else [])]
        for members in groups:
            chosen: list[Candidate] = [*accepted]
            for each in members:
                try:
                    self.files.with_edits([edit for c in (*chosen, each) for edit in c.change.edits])
                except TcreadyError:  # it overlaps another
                    continue
                chosen.append(each)
            rest = [each.change for each in chosen[len(accepted) :]]
            what = frozenset(
                (*map(identity_of, rest), *names, *settings, *map(identity_of, (each.change for each in accepted)))
            )
            if not rest or len(chosen) + len(names) < 2 or what in self.joined:
                continue
            self.joined.add(what)
            sources = self.files.with_edits([edit for each in chosen for edit in each.change.edits])
            reasons = dict.fromkeys(each.change.unsafe for each in chosen if each.change.unsafe)
            ways = dict.fromkeys(each.how for each in rest)
            own_names = tuple(dict.fromkeys(name for c in chosen for name in names_of(c.change)))
            one = dataclasses.replace(
                rest[0],
                edits=tuple(edit for each in chosen for edit in each.change.edits),
                unsafe="; ".join(reasons) or None,
            )
            self.announce(
                f"{describe(one)}: tried with {counted(chosen[1:], 'change')} and {counted(names, 'setting')} more"
            )
            # without the settings that are offered first: nobody is to set what is not needed
            more = [(), names] if names and len(chosen) > 1 else [names]  # one change alone was tried already
            wholes = [
                dataclasses.replace(
                    one,
                    how=". ".join([*ways, *(f"`{setting_line(name)}`" for name in added)]),
                    settings=(*own_names, *added),
                )
                for added in more
            ]
            result, request, gone = self.tried(
                [(f"{describe(each)}, together", sources, each.settings) for each in wholes], settings
            )
            if result.failure is not None:
                return None
            for added, whole, trial, own in zip(more, wholes, result.trials, gone, strict=False):
                change = self.judged(before, Candidate(whole, sources), trial, result, request, own)
                if self._counts(change):
                    self.files.now.update(sources)
                    edits_of_rest = tuple(edit for each in rest for edit in each.edits)
                    joint = dataclasses.replace(change, edits=edits_of_rest, settings=added)
                    return [*(each.change for each in accepted), joint], trial.observation
                self.announce(f"tried together, they fail: {change.reason or change.unsafe}")
        return None

    def _with_more(
        self, before: Observation, candidate: Candidate, trial: Trial, settings: tuple[str, ...]
    ) -> tuple[Candidate | None, list[FixChange], Observation | None]:
        """Combine a change with another for the lines that break only because of it; return both with the run, and
        those that fail.

        They are one change, and verified together.
        """
        refused: list[FixChange] = []
        uncovered = [site for site in self.wanted_sites(trial.observation) if self._is_new(site, before, candidate)]
        if not uncovered or candidate.change.keeps_out:
            return None, refused, None
        files = Files(self.root, before.sources)
        files.now = dict(candidate.sources)
        there = dataclasses.replace(self, files=files)
        change = candidate.change
        flags = (*settings, *names_of(change))
        found: list[Candidate] = []
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
            found.append(Candidate(both, each.sources))
        found = found[:ALTERNATIVES]
        if not found:
            return None, refused, None
        self.announce(f"{describe(change)}: tried with {counted(found, 'change')} for what breaks behind it")
        result, request, gone = self.tried(
            [(f"{describe(each.change)}, with more", each.sources, names_of(each.change)) for each in found], settings
        )
        for each, made, own in zip(found, result.trials, gone, strict=False):
            judged = self.judged(before, each, made, result, request, own)
            if self._counts(judged):
                return dataclasses.replace(each, change=judged), refused, made.observation
            refused.append(judged)
        return None, refused, None

    def _is_new(self, site: BreakSite, before: Observation, candidate: Candidate) -> bool:
        """Return True if a line breaks after a change that did not break before it."""
        path = str(self.files.path(site.path))
        line: int | None = site.line
        if path in candidate.sources:
            line = LineMap(self.files.text(path), candidate.sources[path]).came_from(site.line)
        return not any((each.path, each.line) == (site.path, line) for each in before.break_sites)

    def _together(
        self,
        before: Observation,
        accepted: Sequence[Candidate],
        left: list[FixChange],
        settings: tuple[str, ...],
        runs: Sequence[Observation],
    ) -> tuple[list[FixChange], list[FixChange], Observation, str | None]:
        """Combine all changes that do not touch the same lines; return only the first if they fail together."""
        chosen: list[Candidate] = []
        for candidate in accepted:
            edits = [edit for each in (*chosen, candidate) for edit in each.change.edits]
            try:
                self.files.with_edits(edits)
            except TcreadyError:  # they overlap: the next round finds this one again
                continue
            chosen.append(candidate)
        edits = [edit for each in chosen for edit in each.change.edits]
        names = tuple(dict.fromkeys(name for each in chosen for name in names_of(each.change)))
        sources = self.files.with_edits(edits)
        whole = FixChange("", 0, "", None, (), "all together", tuple(edits), names, None, "not_run")
        whole = dataclasses.replace(
            whole,
            keeps_out=any(each.change.keeps_out for each in chosen),
            fewer_compiles=any(each.change.fewer_compiles for each in chosen),
        )
        result, request, gone = self.tried([("all together", sources, names)], settings)
        if result.failure is None:
            together = Candidate(whole, sources)
            change = self.judged(before, together, result.trials[0], result, request, gone[0])
            if change.state in ("proved", "one_side"):
                self.files.now.update(sources)
                return [each.change for each in chosen], left, result.trials[0].observation, None
            self.announce(f"tried together, they fail: {change.reason or change.unsafe}")
        self.files.now.update(chosen[0].sources)
        return [chosen[0].change], left, runs[accepted.index(chosen[0])], None

    def without_needless(
        self, seen: Observation, changes: Sequence[FixChange]
    ) -> tuple[list[FixChange], list[FixChange], Observation]:
        """Drop each setting without which the other changes do as much as all of them did in the run `seen`.

        Returns the changes, those that are dropped, and the run without these.
        """
        last = max((change.round for change in changes), default=0)
        # Settings that were tried alone in the last round, or as a pair after each alone, are needed.
        names = dict.fromkeys(
            name
            for change in changes
            for name in change.settings
            if change.edits or len(change.settings) > 2 or change.round < last
        )
        every = tuple(dict.fromkeys(name for change in changes for name in names_of(change)))
        if len(every) == 1 and not any(change.edits for change in changes):
            return [*changes], [], seen
        needless = self._needless(seen, every, [(name,) for name in names])
        if len(needless) > 1:  # each does without the other: not both, unless that is shown
            needless = self._needless(seen, every, [tuple(needless)]) or dict([*needless.items()][:1])
        needed, dropped = [], []
        for change in changes:
            settings = tuple(name for name in change.settings if name not in needless)
            how = functools.reduce(_without_setting, set(change.settings) & needless.keys(), change.how)
            if settings == change.settings or settings or change.edits or change.called_before:
                needed.append(dataclasses.replace(change, how=how, settings=settings))
            else:
                dropped.append(dataclasses.replace(change, state="refuted", reason=NOT_NEEDED))
        return needed, dropped, next(iter(needless.values()), seen)

    def _needless(
        self, seen: Observation, every: tuple[str, ...], sets: Sequence[tuple[str, ...]]
    ) -> dict[str, Observation]:
        """Return the settings in those sets that can be left out, each with the run without its set."""
        if not sets:
            return {}
        self.announce(f"tried without settings: {counted(sets, 'trial')}")
        variants = [
            (f"without {', '.join(some)}", self.files.now, tuple(name for name in every if name not in some))
            for some in sets
        ]
        trials = self.tried(variants, ())[0].trials
        return {
            name: trial.observation
            for some, trial in zip(sets, trials, strict=False)
            if self._does_as_much(seen, trial)
            for name in some
        }

    def _does_as_much(self, seen: Observation, trial: Trial) -> bool:
        """Return True if a trial shows no less than a run with more settings."""
        loses = trial.not_lasting or (trial.holding_back and not self.wanted.unsafe)
        more = compiled_again(trial.observation) > compiled_again(seen)
        return not loses and not more and why_spoiled(seen, trial) is None

    def tried(
        self,
        variants: Sequence[tuple[str, Mapping[str, str], tuple[str, ...]]],
        settings: tuple[str, ...],
        *,
        seeks_smallest: bool = False,
    ) -> tuple[ProofResult, ProofRequest, list[Changed]]:
        """Try variants; return the answer, and what each removes. With `seeks_smallest`, search the smallest inputs
        with which a variant differs."""
        requested: list[Variant] = []
        gone: list[Changed] = []
        functions: dict[FunctionPlace, None] = {}
        constants: dict[float | str, None] = {}
        for name, sources, names in variants:
            differs = joined(self._changed(path, text) for path, text in sources.items())
            gone.append(differs)
            own = tuple(dict.fromkeys(differs.functions))
            functions |= dict.fromkeys(own)
            constants |= dict.fromkeys(differs.constants)
            every = dict.fromkeys([*settings, *names])
            flags = tuple(each for each in every if each != CALLED_BEFORE)
            called_before = CALLED_BEFORE in every
            places = (own, differs.written, differs.conditions)
            requested.append(Variant(name, tuple(sources.items()), flags, *places, called_before=called_before))
        every_test = tuple(dict.fromkeys(test for each in gone for test in (*each.tests, *each.turned)))
        every_statement = tuple(dict.fromkeys(span for each in gone for span in each.gone))
        request = ProofRequest(
            tuple(requested),
            tuple(functions),
            every_test,
            every_statement,
            constants=tuple(constants),
            seeks_smallest=seeks_smallest,
        )
        return self.prove(request), request, gone

    def _changed(self, path: str, text: str) -> Changed:
        return changed(path, self.files.before(path), source.of_text(Path(path), text))

    def judged(
        self,
        before: Observation,
        candidate: Candidate,
        trial: Trial,
        result: ProofResult,
        request: ProofRequest,
        gone: Changed,
    ) -> FixChange:
        """Return the change with the result of its trial; `before` is the run without it."""
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
            not_run=self._not_run(trial, result, gone, candidate.sources), fewer_compiles=change.fewer_compiles,
        )  # fmt: skip
        return dataclasses.replace(
            change,
            state=judgement.state,
            reason=judgement.reason,
            unsafe="; ".join(dict.fromkeys(why for why in (judgement.unsafe, change.unsafe) if why)) or None,
            proof=judgement.proof,
            condition=judgement.condition,
            only_other_types=trial.of_other_types is not None and trial.holding_back is None,
            only_asserts=judgement.only_asserts,
            code=judgement.code,
            counterexample=trial.counterexample,
        )

    def _not_run(self, trial: Trial, result: ProofResult, gone: Changed, sources: Mapping[str, str]) -> str | None:
        """Return which removed or new statement no call ran, or which other change no call shows, in one line."""
        taken = {side.test for side in result.sides if side.true or side.false or side.alone_true or side.alone_false}
        for span in gone.turned:
            if span not in taken:
                return f"no call evaluates the changed test at {self._shown(span.path)}:{span.line}"
        for span in result.not_run:
            if span in gone.gone:
                return f"no call runs the changed code at {self._shown(span.path)}:{span.line}"
        traced = {each.path: each.ranges for each in trial.observation.traced}
        for span in trial.not_run:  # what only compiled code does is compared there
            ranges = traced.get(self._shown(span.path), ())
            seen = any(first <= span.end_line and span.line <= last for first, last in ranges)
            if span not in gone.compiled or not seen:
                return f"no call runs the new code for {self._shown(span.path)}:{span.line}"
        for side in trial.sides:
            true, false = side.true + side.alone_true, side.false + side.alone_false
            if not (true and false):
                text = written_at(sources[side.test.path], side.test)
                never = "true" if false or not true else "false"
                return f"no inputs were found that make the new test `{text}` {never} (line {side.test.line})"
        unshown = ((text, span) for name, text in NOT_SHOWN.items() for span in getattr(gone, name))
        return next((text.format(f"{self._shown(span.path)}:{span.line}") for text, span in unshown), None)

    def _of_what_is_gone(self, change: FixChange, before: Observation, after: Observation) -> FixChange:
        """Assign a change that was tried for any break to the first break that it fixes."""
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

    def _counts(self, change: FixChange, asserts: bool = False) -> bool:
        """Return True if a change should be proposed, given its proof; with `asserts` compiled code may raise
        RuntimeError where eager code raises the exception of a check."""
        raises = (change.unsafe or "").startswith("another exception")
        is_limited = change.condition is not None and not (change.only_other_types or (asserts and change.only_asserts))
        if change.state == "one_side" or raises or is_limited:
            return self.wanted.unsafe
        return change.state == "proved"
