"""Leave findings out of a report that are already known, or that are on unchanged lines. Pure."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tcready.portable.options import ReportOptions
from tcready.portable.target import Target
from tcready.schema.codec import as_json, from_json
from tcready.schema.display_paths import display_path
from tcready.schema.enums import Mode, Origin, TcreadyError
from tcready.schema.report import Narrowed, Reading, Report
from tcready.schema.static import Finding

Covers: TypeAlias = "Callable[[BaselineEntry], bool]"
"""A predicate: would this check have found an entry if it still existed?"""
VERSION = 1
"""Version of the baseline's file. A change in how fingerprints are made needs a new one."""
Lines = Mapping[str, Sequence[tuple[int, int]]]
"""Display path -> changed lines as inclusive (first, last); (n + 1, n) if lines after line n were deleted."""


@dataclass(frozen=True, order=True)
class BaselineEntry:
    """A known finding. Its line number is not part of it."""

    path: str
    rule: str
    """Empty for findings that only a run shows."""
    symbol: str
    fingerprint: str
    message: str
    """For human readers of the file."""
    origin: Origin = "own"


@dataclass(frozen=True)
class Baseline:
    """The content of a baseline file."""

    entries: tuple[BaselineEntry, ...] = ()
    readings: tuple[Reading, ...] = ()
    """The settings with which the sources were read; empty if the file does not have them."""
    runs: tuple[Mode, ...] = ()
    """The modes of the runs that the entries come from."""


def entries(report: Report) -> tuple[BaselineEntry, ...]:
    """Return the entries of a baseline of `report`, sorted: one for each finding and for each that it represents."""
    return tuple(
        sorted(
            {
                print_: BaselineEntry(found.path, found.rule or "", found.symbol, print_, found.message, found.origin)
                for found in report.findings
                for print_ in (*found.also, found.fingerprint)
            }.values()
        )
    )


def renew_baseline(report: Report, known: Baseline, covers: Covers) -> Baseline:
    """Return the baseline of `report` plus those entries of an earlier one that `covers` cannot decide."""
    found = entries(report)
    there = {entry.fingerprint for entry in found}
    undecided = [entry for entry in known.entries if entry.fingerprint not in there and not covers(entry)]
    # What was kept was found otherwise, and a later check must read as widely before it may call it gone.
    readings = (*report.readings, *(known.readings if undecided else ()))
    runs = {*run_modes(report), *(known.runs if undecided else ())}
    return Baseline(
        tuple(sorted({*found, *undecided})),
        tuple(sorted(set(readings), key=lambda one: (one.mode, one.low, one.plain_call, one.torch))),
        tuple(sorted(runs)),
    )


def run_modes(report: Report) -> frozenset[Mode]:
    """Return the modes in which lines of some target were executed."""
    return frozenset(target.mode for target in report.targets if target.observation.executed)


def format_baseline(known: Baseline) -> str:
    """Return the text of the file: JSON with one line for each entry, in order, so that a changed entry is a
    one-line diff."""
    lines = [f"    {json.dumps(dataclasses.asdict(entry))}" for entry in sorted(set(known.entries))]
    inner = ",\n".join(lines)
    return '{\n  "tcready_baseline": %d,\n  "findings": [%s],\n  "readings": %s,\n  "runs": %s\n}\n' % (  # noqa: UP031 - braces
        VERSION,
        f"\n{inner}\n  " if lines else "",
        json.dumps(as_json(known.readings)),
        json.dumps(known.runs),
    )


def parse_baseline(text: str, named: str) -> Baseline:
    """Parse the text of a file. Raises TcreadyError, with `named`, if it is not a baseline or is a newer one."""
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
    names = [field.name for field in dataclasses.fields(BaselineEntry)]  # each a string
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
    return Baseline(tuple(BaselineEntry(*(item[name] for name in names)) for item in found), read, tuple(runs))


@dataclass(frozen=True)
class BaselineScope:
    """Decides which entries of a baseline a check would have found again."""

    read: frozenset[str]
    """Display paths of files that were read as a whole."""
    skipped: frozenset[str]
    ran: frozenset[str]
    """Files with executed lines."""
    named: frozenset[str]
    """Display paths of the files and folders that the user named."""
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    hidden: frozenset[str]
    """Fingerprints of findings that comments hide."""
    read_alike: bool
    """The sources were read at least as widely as for the baseline."""
    run_alike: bool
    """Targets were run in every mode in which the baseline was made."""

    @classmethod
    def of(
        cls, report: Report, known: Baseline, targets: Iterable[str], options: ReportOptions, root: str
    ) -> BaselineScope:
        """Return the scope of a report. `targets` are those that the user named, relative to `root`."""
        parsed_targets = map(Target.parse, targets)
        return cls(
            read=frozenset(source.path for source in report.sources),
            skipped=frozenset(item.path for item in report.skipped),
            ran=frozenset(lines.path for target in report.targets for lines in target.observation.executed),
            named=frozenset(
                display_path(os.path.join(root, target.place), root) for target in parsed_targets if target.name is None
            ),
            select=_upper(options.select),
            ignore=_upper(options.ignore),
            hidden=frozenset(report.hidden),
            read_alike=not any(now.differs(then) for then in known.readings for now in report.readings),
            run_alike=run_modes(report) >= {*known.runs},
        )

    def covers(self, entry: BaselineEntry, ignored: Sequence[str], *, exists: bool) -> bool:
        """Return True if the check would have found the entry if it still existed: its rule was selected and no comment
        hides it, its file was read as a whole (or does not exist any more) and as widely as for the baseline, and ran
        in the same modes if only a run shows it.

        `ignored`: the codes that are not reported in its file; `exists`: the file exists.
        """
        path, rule = entry.path, entry.rule
        folders = ("",) if "." in self.named else tuple(f"{name}/" for name in self.named)
        if path in self.skipped or not (path in self.named or path.startswith(folders)):
            return False
        if rule and rule.startswith((*self.ignore, *_upper(ignored))):
            return False
        if rule and self.select and not rule.startswith(self.select):
            return False
        if entry.fingerprint in self.hidden or (rule and not self.read_alike):
            return False
        if not rule and not (self.run_alike and path in self.ran):
            return False
        return path in self.read or (entry.origin == "own" and not exists)


def _upper(prefixes: Sequence[str]) -> tuple[str, ...]:
    return tuple(prefix.strip().upper() for prefix in prefixes)


def without_known(report: Report, known: Collection[BaselineEntry], named: str, covers: Covers) -> Report:
    """Return `report` without the findings in a baseline. `covers` decides for which entries this report shows that
    they are gone.

    A finding that represents several is known if each of them is.
    """
    prints = {entry.fingerprint for entry in known}
    new = tuple(found for found in report.findings if not prints.issuperset((found.fingerprint, *found.also)))
    narrowed = dataclasses.replace(
        report.narrowed or Narrowed(),
        baseline=named,
        known=len(report.findings) - len(new),
        gone=len(gone(report, known, covers)),
    )
    return _with(report, new, narrowed)


def gone(report: Report, known: Iterable[BaselineEntry], covers: Covers) -> tuple[BaselineEntry, ...]:
    """Entries that the report could have found and did not."""
    there = {print_ for found in report.findings for print_ in (found.fingerprint, *found.also)}
    return tuple(entry for entry in known if entry.fingerprint not in there and covers(entry))


def on_changed_lines(report: Report, changed: Lines, named: str, commit: str) -> Report:
    """Return `report` with only the findings that have a changed or deleted line in their span."""
    new = tuple(found for found in report.findings if _touched(found, changed))
    narrowed = dataclasses.replace(
        report.narrowed or Narrowed(), diff_base=named, commit=commit, unchanged=len(report.findings) - len(new)
    )
    return _with(report, new, narrowed)


def _touched(found: Finding, changed: Lines) -> bool:
    begin, end = found.line, max(found.end_line, found.also_until or 0)
    if found.cell is not None:  # git knows the lines of the file
        begin, end = found.cell.file_line, found.cell.file_line + end - begin
    return any(first <= end and begin <= last for first, last in changed.get(found.path, ()))


def _with(report: Report, findings: tuple[Finding, ...], narrowed: Narrowed) -> Report:
    named = {code for found in findings for code in (found.rule, found.advice)}
    rules, advice = (tuple(text for text in texts if text.code in named) for texts in (report.rules, report.advice))
    return dataclasses.replace(report, findings=findings, rules=rules, advice=advice, narrowed=narrowed)
