"""Results of the last run in a folder, and whether the code has changed since."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tcready.integrations.lsp.line_states import LineRange, states_of
from tcready.schema.display_paths import contents
from tcready.schema.report import Report, TargetReport
from tcready.schema.static import Finding, StaticModule
from tcready.static.frontend.source import encoded


@dataclass(frozen=True)
class Share:
    """How much of a class ran in graphs, within one target."""

    target: TargetReport
    operations: int
    captured: int


@dataclass(frozen=True)
class FileRun:
    """How a file ran in the last runs."""

    runs: tuple[TargetReport, ...]
    """The runs that include the file and are fresh."""
    changed: tuple[str, ...]
    """Files that have changed since another run that includes the file."""
    lines: tuple[LineRange, ...]
    """By line, over the fresh runs."""


class LastRun:
    """A report that holds runs, made in the folder `root`."""

    def __init__(self, report: Report, root: Path) -> None:
        self.report = report
        self._root = root
        self._by_print = {print_: found for found in report.findings for print_ in (*found.also, found.fingerprint)}
        self._runs = tuple(target for target in report.targets if target.was_run)
        self._read = {source.path: source.sha256 for source in report.sources}
        ran = {path for run in self._runs for path in self._then(run)}
        self._own = {path for path in ran if (root / path).is_file()}
        self._own |= {found.path for found in report.findings if found.origin == "own"}

    def finding(self, found: Finding) -> Finding | None:
        """Return what the report of the run says about a finding of the source."""
        return self._by_print.get(found.fingerprint)

    def seen_at(self, path: str, line: int) -> tuple[Finding, ...]:
        """Return the findings on a 1-based line that only a run shows."""
        return tuple(
            found
            for found in self.report.findings
            if found.status == "runtime_only" and found.path == path and found.line <= line <= found.end_line
        )

    def runs_of(self, found: Finding) -> tuple[TargetReport, ...]:
        """Return the runs with results for one of the report's findings."""
        named = {entry.target for entry in found.targets}
        return tuple(target for target in self._runs if target.target in named)

    def has_fresh_result(self, found: Finding, texts: Mapping[str, str]) -> bool:
        """Return True if a run has results for one of the report's findings, and all runs that do are fresh."""
        runs = self.runs_of(found)
        return bool(runs) and all(self.is_fresh(run, texts) for run in runs)

    def runs_from(self, target: str, root: StaticModule) -> tuple[TargetReport, ...]:
        """Return the runs of a target of the source, with outermost module `root`."""
        return tuple(
            run
            for run in self._runs
            if run.target == target
            or any(not m.name and (m.path, m.type) == (root.path, root.type) for m in run.observation.modules)
        )

    def shares_of(self, module: StaticModule) -> tuple[Share, ...]:
        """Return how much of a class's modules ran in graphs, for runs in which they are parts."""
        found = []
        for run in self._runs:
            parts = [m for m in run.observation.modules if m.name and m.ops]
            alike = [m for m in parts if (m.path, m.type) == (module.path, module.type)]
            if alike:
                captured = sum(m.ops_captured or 0 for m in alike)
                found.append(Share(run, sum(m.ops or 0 for m in alike), captured))
        return tuple(found)

    def of_file(self, path: str, texts: Mapping[str, str]) -> FileRun | None:
        """Return how a file ran, as far as nothing that ran has changed since; None if no run includes it."""
        among = tuple(run for run in self._runs if path in self._then(run))
        if not among:
            return None
        old = self.out_of_date(path, texts)
        outdated = [run for run, _ in old]
        fresh = tuple(run for run in among if run not in outdated)
        changed = dict.fromkeys(name for _, names in old for name in names)
        return FileRun(fresh, tuple(changed), states_of(fresh, path))

    def is_fresh(self, run: TargetReport, texts: Mapping[str, str]) -> bool:
        """Return True if no file that ran has changed; `texts` replace the content of files, by the report's paths.

        Files outside of the folder, such as installed packages, are assumed unchanged.
        """
        return next(self._changed(run, texts), None) is None

    def out_of_date(self, path: str, texts: Mapping[str, str]) -> tuple[tuple[TargetReport, tuple[str, ...]], ...]:
        """Return the outdated runs that include a file, each with the files that changed since."""
        among = ((run, tuple(self._changed(run, texts))) for run in self._runs if path in self._then(run))
        return tuple((run, changed) for run, changed in among if changed)

    def _then(self, run: TargetReport) -> Mapping[str, str]:
        """Return the digests of the files that ran."""
        return dict(run.observation.digests) or self._read

    def _changed(self, run: TargetReport, texts: Mapping[str, str]) -> Iterator[str]:
        for path, digest in self._then(run).items():
            now = self._now(path, texts)
            if now != digest and (now is not None or path in self._own):
                yield path

    def _now(self, path: str, texts: Mapping[str, str]) -> str | None:
        """Return the digest of the current file; None if it is not below the folder."""
        if path in texts:
            data = encoded(texts[path])
        else:
            try:
                data, _ = contents(self._root / path)
            except (OSError, ValueError):
                return None
        return hashlib.sha256(data).hexdigest()
