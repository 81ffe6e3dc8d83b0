"""Findings that are known already, or that stand on unchanged lines, left out of a report. Pure."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tcready.schema import (
    Finding,
    Mode,
    Narrowed,
    Origin,
    Reading,
    Report,
    TcreadyError,
    as_json,
    from_json,
)

VERSION = 1
"""Of the baseline's file; a change of what makes a fingerprint is a new one."""
Lines = Mapping[str, Sequence[tuple[int, int]]]
"""By display path, the changed lines as inclusive (first, last); (n + 1, n) if lines after line n are gone."""


@dataclass(frozen=True, order=True)
class Entry:
    """A finding that is known. Its line is no part of it."""

    path: str
    rule: str
    """Empty for what only a run showed."""
    symbol: str
    fingerprint: str
    message: str
    """For whoever reads the file."""
    origin: Origin = "own"


@dataclass(frozen=True)
class Baseline:
    """What a baseline's file holds."""

    entries: tuple[Entry, ...] = ()
    readings: tuple[Reading, ...] = ()
    """How the sources were read that the entries come from; none if the file does not say."""
    runs: tuple[Mode, ...] = ()
    """The modes of the runs that they come from."""


def entries(report: Report) -> tuple[Entry, ...]:
    """What a baseline of `report` holds, sorted: an entry for each finding, and for what it is told for besides."""
    return tuple(
        sorted(
            {
                print_: Entry(found.path, found.rule or "", found.symbol, print_, found.message, found.origin)
                for found in report.findings
                for print_ in (*found.also, found.fingerprint)
            }.values()
        )
    )


def renewed(report: Report, known: Baseline, covered: Callable[[Entry], bool]) -> Baseline:
    """The baseline of `report`, with those entries of an earlier one that `covered` says it cannot speak of."""
    found = entries(report)
    there = {entry.fingerprint for entry in found}
    kept = [entry for entry in known.entries if entry.fingerprint not in there and not covered(entry)]
    # What was kept was found otherwise, and a later check must read as widely before it may call it gone.
    readings = (*report.readings, *(known.readings if kept else ()))
    runs = {*run_modes(report), *(known.runs if kept else ())}
    return Baseline(
        tuple(sorted({*found, *kept})),
        tuple(sorted(set(readings), key=lambda one: (one.mode, one.low, one.plain_call, one.torch))),
        tuple(sorted(runs)),
    )


def run_modes(report: Report) -> frozenset[Mode]:
    """The modes in which some target's lines were executed."""
    return frozenset(target.mode for target in report.targets if target.observation.executed)


def written(known: Baseline) -> str:
    """The file: JSON with one line for each entry, in order, so that a change of one is a diff of one."""
    lines = [f"    {json.dumps(dataclasses.asdict(entry))}" for entry in sorted(set(known.entries))]
    inner = ",\n".join(lines)
    return '{\n  "tcready_baseline": %d,\n  "findings": [%s],\n  "readings": %s,\n  "runs": %s\n}\n' % (  # noqa: UP031 - braces
        VERSION,
        f"\n{inner}\n  " if lines else "",
        json.dumps(as_json(known.readings)),
        json.dumps(known.runs),
    )


def parsed(text: str, named: str) -> Baseline:
    """What a file's text holds. Raises TcreadyError, with `named`, if it is no baseline or a newer one."""
    no_baseline = f"--baseline {named} is no baseline that --write-baseline wrote"
    try:
        data = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise TcreadyError(f"{no_baseline}: {error}") from None
    version = data.get("tcready_baseline") if isinstance(data, dict) else None
    if not isinstance(version, int) or isinstance(version, bool):
        raise TcreadyError(f"{no_baseline}: tcready_baseline is missing")
    if version < 1:
        raise TcreadyError(f"{no_baseline}: there is no version {version}")
    if version > VERSION:
        raise TcreadyError(f"--baseline {named} is of a newer tcready (version {version}): update this one")
    found = data.get("findings")
    if not isinstance(found, list):
        raise TcreadyError(f"{no_baseline}: findings is no list")
    names = [field.name for field in dataclasses.fields(Entry)]  # each a string
    for number, item in enumerate(found, 1):
        if not isinstance(item, dict) or not all(isinstance(item.get(name), str) for name in names):
            raise TcreadyError(f"{no_baseline}: entry {number} does not hold {', '.join(names)}")
    readings, runs = data.get("readings", []), data.get("runs", [])
    if not isinstance(readings, list):
        raise TcreadyError(f"{no_baseline}: readings is no list")
    if not isinstance(runs, list) or any(mode not in ("infer", "train") for mode in runs):
        raise TcreadyError(f"{no_baseline}: runs is no list of modes")
    try:
        read = tuple(from_json(Reading, item) for item in readings)
    except TcreadyError as error:
        raise TcreadyError(f"{no_baseline}: {error}") from None
    return Baseline(tuple(Entry(*(item[name] for name in names)) for item in found), read, tuple(runs))


def without_known(
    report: Report, known: Collection[Entry], named: str, covered: Callable[[Entry], bool]
) -> Report:
    """`report` without the findings that a baseline holds. `covered` says for which entries this report can tell
    whether they are gone.

    A finding that is told for several is known if each of them is.
    """
    prints = {entry.fingerprint for entry in known}
    new = tuple(found for found in report.findings if not prints.issuperset((found.fingerprint, *found.also)))
    narrowed = dataclasses.replace(
        report.narrowed or Narrowed(),
        baseline=named,
        known=len(report.findings) - len(new),
        gone=len(gone(report, known, covered)),
    )
    return _with(report, new, narrowed)


def gone(report: Report, known: Iterable[Entry], covered: Callable[[Entry], bool]) -> tuple[Entry, ...]:
    """The entries that the report could have told of and does not."""
    there = {print_ for found in report.findings for print_ in (found.fingerprint, *found.also)}
    return tuple(entry for entry in known if entry.fingerprint not in there and covered(entry))


def on_changed_lines(report: Report, changed: Lines, named: str, commit: str) -> Report:
    """`report` with the findings alone that have a changed line in their span, or from whose span lines are gone."""
    new = tuple(found for found in report.findings if _touched(found, changed))
    narrowed = dataclasses.replace(
        report.narrowed or Narrowed(),
        diff_base=named,
        commit=commit,
        unchanged=len(report.findings) - len(new),
    )
    return _with(report, new, narrowed)


def _touched(found: Finding, changed: Lines) -> bool:
    end = max(found.end_line, found.also_until or 0)
    return any(first <= end and found.line <= last for first, last in changed.get(found.path, ()))


def _with(report: Report, findings: tuple[Finding, ...], narrowed: Narrowed) -> Report:
    named = {found.rule for found in findings}
    rules = tuple(rule for rule in report.rules if rule.code in named)
    return dataclasses.replace(report, findings=findings, rules=rules, narrowed=narrowed)
