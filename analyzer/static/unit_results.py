"""Results of single units, and how they combine to one StaticResult. Plain values, no syntax."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from tcready.portable.options import ReportOptions
from tcready.schema.break_effect import BreakEffect, worst_fates
from tcready.schema.enums import RESOLVED, Confidence, Mode, TcreadyError
from tcready.schema.static import Evidence, Finding, Noqa, Skipped, SourceText, StaticModule, StaticResult, StaticTarget
from tcready.schema.value_class import dataclass
from tcready.static.frontend.globs import ignored_in

CONFIDENCES: tuple[Confidence, ...] = ("low", "medium", "high")
FAMILIES = frozenset({"TCR", *(f"TCR{family}" for family in range(1, 7))})
"""Prefixes that may be asked for even if a family holds no rule yet."""
BOTH: tuple[Mode, Mode] = ("infer", "train")
MODE_WORD: dict[Mode, str] = {"infer": "inference", "train": "training"}
Key = tuple[str, int, int, str]
"""A finding's (path, line, column, rule)."""


@dataclass(frozen=True)
class UnitResult:
    """The result of one unit, before `select` and `ignore` are applied."""

    findings: tuple[Finding, ...]
    """In order of place; fingerprints of equals are numbered in that order."""
    silenced: tuple[int, ...]
    """Positions of findings that a comment hides; what they say of regions holds all the same."""
    targets: tuple[StaticTarget, ...]
    sources: tuple[SourceText, ...]
    """The texts of the files with findings, and of the unit's own."""
    named: str
    """The unit's own file, as it is shown."""
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]
    files: tuple[str, ...]
    """The files that were read."""
    reached: tuple[str, ...]
    """`path::symbol` of every function that is compiled."""
    calls: Mapping[str, Any]
    """For each file its call sites, `line:column`, and what became of them: one of RESOLVED, or why not, in words."""
    cut: int
    """Calls not followed because a limit was reached."""
    gaps: Mapping[str, Any] = field(default_factory=dict)
    """For each file the places, `line:column`, of what else was not understood, in words."""
    idle: tuple[Noqa, ...] = ()
    """Comments in the unit's own file, if all of it was judged, that hide nothing this unit finds."""
    hiding: tuple[Noqa, ...] = ()
    """Comments in the user's files at places with a claim, whatever its confidence."""


def key_of(finding: Finding) -> Key:
    return finding.path, finding.line, finding.column, finding.rule or ""


def codes(prefixes: Iterable[str], rules: Collection[str]) -> tuple[str, ...]:
    """Codes of `rules` or prefixes of them as given, upper-case. Raises TcreadyError for one that fits none."""
    found = tuple(prefix.strip().upper() for prefix in prefixes)
    for prefix in found:
        if prefix not in FAMILIES and not any(code.startswith(prefix) for code in rules):
            raise TcreadyError(f"{prefix}: no rule has a code like that; `tcready rules` lists them")
    return found


def ignoring(options: ReportOptions, rules: Collection[str], root: Path) -> Callable[[str], tuple[str, ...]]:
    """Return the `per_file_ignores` of the options for a file, for `combine`. Raises TcreadyError as `codes`."""
    per_file = [(glob, codes(prefixes, rules)) for glob, prefixes in options.per_file_ignores]
    ignored_in("", per_file, root)  # report an unreadable glob even if there are no findings
    return lambda path: ignored_in(path, per_file, root)


def combine(
    parts: Sequence[UnitResult],
    select: tuple[str, ...] = (),
    ignore: tuple[str, ...] = (),
    rules: Collection[str] = (),
    ignored: Callable[[str], tuple[str, ...]] = lambda _path: (),
) -> StaticResult:
    """Combine the results of several units: a finding of several is reported once, with the highest confidence.

    `rules` are all codes; `ignored` returns the codes, or prefixes, that are ignored in a file.
    """

    def is_requested(path: str, code: str) -> bool:
        return (not select or code.startswith(select)) and not code.startswith((*ignore, *ignored(path)))

    found: dict[Key, Finding] = {}
    hidden: set[Key] = set()
    for part in parts:
        for finding in part.findings:
            key = key_of(finding)
            known = found.get(key)
            found[key] = finding if known is None else _one(known, finding)
        hidden.update(key_of(part.findings[position]) for position in part.silenced)
    hidden.update(key for key in found if not is_requested(key[0], key[3]))
    numbered = _number_fingerprints(found)
    reported = tuple(_set_mode(numbered[key]) for key in sorted(numbered) if key not in hidden)
    shown = {finding.path for finding in reported} | {part.named for part in parts}
    sources = {source.path: source for part in parts for source in part.sources if source.path in shown}
    skipped = {item.path: item for part in parts for item in part.skipped}
    return StaticResult(
        findings=reported,
        targets=tuple(dict.fromkeys(target for part in parts for target in _renumber_breaks(part, numbered))),
        sources=tuple(sources[path] for path in sorted(sources)),
        skipped=tuple(skipped[path] for path in sorted(skipped)),
        warnings=tuple(dict.fromkeys(warning for part in parts for warning in part.warnings)),
        statistics=_statistics(parts),
        hidden=tuple(_set_mode(numbered[key]) for key in sorted(numbered) if key in hidden),
        unused=tuple(
            noqa
            for noqa in _idle(parts)
            if any(is_requested(noqa.path, code) for code in _matching_codes(noqa.code, rules) or (noqa.code,))
        ),
    )


def _idle(parts: Sequence[UnitResult]) -> list[Noqa]:
    """Return the comments that hide nothing in their own file, nor for another that reaches it; in order of place."""
    hiding = {noqa for part in parts for noqa in part.hiding}
    found = {noqa for part in parts for noqa in part.idle} - hiding
    return sorted(found, key=lambda noqa: (noqa.path, noqa.line, noqa.code))


def _matching_codes(prefix: str, rules: Collection[str]) -> list[str]:
    return [code for code in rules if code.startswith(prefix)]


def _one(first: Finding, second: Finding) -> Finding:
    """One finding of two for the same place: as the surer says, over the ways there and the modes of both."""
    best = max(first, second, key=_weight)
    modes = tuple(mode for mode in BOTH if mode in (*first.modes, *second.modes))
    if first.break_effect == second.break_effect and best.modes == modes:
        return best
    return dataclasses.replace(best, modes=modes, break_effect=_one_effect(first.break_effect, second.break_effect))


def _one_effect(first: BreakEffect | None, second: BreakEffect | None) -> BreakEffect | None:
    """Return the combined effect over the call paths of two; a path that both have, function by function, counts once."""
    if first is None or second is None or first == second:
        return first or second
    fates = worst_fates((*first.above, first.frame, *second.above, second.frame))
    frames = {(frame.path, frame.line): frame for frame in fates}
    own = frames.pop((first.frame.path, first.frame.line))
    alike = {(f.path, f.line) for f in first.above} == {(f.path, f.line) for f in second.above}
    return BreakEffect(
        frame=own,
        above=tuple(frames.values()),
        levels=min(first.levels, second.levels),
        chains=max(first.chains, second.chains) if alike else first.chains + second.chains,
    )


def _set_mode(finding: Finding) -> Finding:
    """Return the finding, with the only mode it is found in if both were requested."""
    if len(finding.modes) != 1:
        return finding
    only = Evidence("static", f"only in {MODE_WORD[finding.modes[0]]} mode")
    return dataclasses.replace(finding, evidence=(*finding.evidence, only))


def in_both_modes(infer: UnitResult, train: UnitResult) -> UnitResult:
    """Combine the results of a unit in inference mode and in training mode, each finding with its modes."""
    found: dict[Key, Finding] = {}
    known = [{key_of(finding): finding for finding in part.findings} for part in (infer, train)]
    for key in known[0] | known[1]:
        both = [findings[key] for findings in known if key in findings]
        if len(both) == 2:
            found[key] = dataclasses.replace(_one(*both), modes=BOTH)
        else:
            found[key] = dataclasses.replace(both[0], modes=(BOTH[key not in known[0]],))
    numbered = _number_fingerprints(found)
    order = sorted(numbered)
    hidden = {key_of(part.findings[position]) for part in (infer, train) for position in part.silenced}
    targets: dict[str, StaticTarget] = {}
    for target in (*_renumber_breaks(infer, numbered), *_renumber_breaks(train, numbered)):
        known_target = targets.get(target.target, target)
        modules = _join_modules((*known_target.modules, *target.modules))
        targets[target.target] = dataclasses.replace(target, modules=modules, modes=BOTH)
    return dataclasses.replace(
        infer,
        findings=tuple(numbered[key] for key in order),
        silenced=tuple(position for position, key in enumerate(order) if key in hidden),
        targets=tuple(targets.values()),
        sources=tuple(dict.fromkeys((*infer.sources, *train.sources))),
        warnings=tuple(dict.fromkeys((*infer.warnings, *train.warnings))),
        files=tuple(sorted({*infer.files, *train.files})),
        reached=tuple(sorted({*infer.reached, *train.reached})),
        calls=_places(part.calls for part in (infer, train)),
        gaps=_places(part.gaps for part in (infer, train)),
        cut=infer.cut + train.cut,
        hiding=tuple(dict.fromkeys((*infer.hiding, *train.hiding))),
    )


def _join_modules(modules: Iterable[StaticModule]) -> tuple[StaticModule, ...]:
    """One module for each name, with the breaks of all of that name."""
    joined: dict[str, StaticModule] = {}
    for module in modules:
        known = joined.setdefault(module.name, module)
        joined[module.name] = dataclasses.replace(
            known,
            breaks=tuple(sorted({*known.breaks, *module.breaks})),
            unknown=tuple(dict.fromkeys((*known.unknown, *module.unknown))),
            sure=known.sure and module.sure,
        )
    return tuple(joined.values())


def _weight(finding: Finding) -> tuple[bool, int, bool]:
    return finding.origin == "own", CONFIDENCES.index(finding.confidence), finding.raises_at is not None


def _number_fingerprints(found: Mapping[Key, Finding]) -> dict[Key, Finding]:
    """Return the findings with their fingerprints numbered if several would have one."""
    repeats: dict[str, int] = {}
    numbered: dict[Key, Finding] = {}
    for key in sorted(found):
        finding = found[key]
        base = finding.fingerprint.partition("-")[0]
        count = repeats[base] = repeats.get(base, 0) + 1
        print_ = base if count == 1 else f"{base}-{count}"
        numbered[key] = finding if finding.fingerprint == print_ else dataclasses.replace(finding, fingerprint=print_)
    return numbered


def _renumber_breaks(part: UnitResult, numbered: Mapping[Key, Finding]) -> tuple[StaticTarget, ...]:
    """Return the targets of a unit, with the breaks named by the combined fingerprints of the findings."""
    new = {f.fingerprint: numbered[key_of(f)].fingerprint for f in part.findings}
    if all(old == now for old, now in new.items()):
        return part.targets
    return tuple(
        dataclasses.replace(
            target,
            modules=tuple(
                dataclasses.replace(m, breaks=tuple(sorted(new[b] for b in m.breaks))) if m.breaks else m
                for m in target.modules
            ),
        )
        for target in part.targets
    )


def _statistics(parts: Sequence[UnitResult]) -> dict[str, Any]:
    """Combine the statistics: a function or a call that several units reach counts once; it is resolved if it is in
    each."""
    reached = sorted({name for part in parts for name in part.reached})
    calls = _places(part.calls for part in parts)
    gaps = _places(part.gaps for part in parts)
    became = Counter(word for sites in calls.values() for word in sites.values())
    resolved = {word: became[word] for word in RESOLVED}
    return {
        "files": len({path for part in parts for path in part.files}),
        "functions": len(reached),
        "calls": sum(became.values()),
        "calls_resolved": sum(resolved.values()),
        **{f"calls_to_{word}": count for word, count in resolved.items()},
        "calls_unresolved": sum(became.values()) - sum(resolved.values()),
        "calls_cut": sum(part.cut for part in parts),
        "unresolved": _constructs(calls, gaps),
        "reached": reached,
    }


def _places(each: Iterable[Mapping[str, Mapping[str, str]]]) -> dict[str, dict[str, str]]:
    """By file and place what became of it; resolved if all say so."""
    found: dict[str, dict[str, str]] = {}
    for places in each:
        for path, sites in places.items():
            known = found.setdefault(path, {})
            for site, became in sites.items():
                if known.get(site) in (None, *RESOLVED):
                    known[site] = became
    return found


def _constructs(*places: Mapping[str, Mapping[str, str]]) -> list[dict[str, Any]]:
    """Return the constructs that were not understood, most frequent first, and the first place of each."""
    found: dict[str, list[tuple[str, int, int]]] = {}
    for files in places:
        for path, sites in files.items():
            for site, became in sites.items():
                if became not in RESOLVED:
                    line, _, column = site.partition(":")
                    found.setdefault(became, []).append((path, int(line), int(column)))
    rows = sorted(found.items(), key=lambda row: (-len(row[1]), row[0]))
    return [
        {"construct": construct, "count": len(at), "path": min(at)[0], "line": min(at)[1]} for construct, at in rows
    ]
