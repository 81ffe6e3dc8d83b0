"""The results of the last run in a folder, and whether the code has changed since."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tcready.schema.paths import contents
from tcready.schema.report import Report, TargetReport
from tcready.schema.static import Finding, StaticModule
from tcready.static.source import encoded


@dataclass(frozen=True)
class Share:
    """What of a class ran in graphs, within one target."""

    target: TargetReport
    operations: int
    captured: int


class LastRun:
    """A report that holds runs, made in the folder `root`."""

    def __init__(self, report: Report, root: Path) -> None:
        self.report = report
        self._root = root
        self._by_print = {
            print_: found for found in report.findings for print_ in (*found.also, found.fingerprint)
        }
        self._runs = tuple(target for target in report.targets if target.was_run)
        self._read = {source.path: source.sha256 for source in report.sources}
        ran = {path for run in self._runs for path in self._then(run)}
        self._own = {path for path in ran if (root / path).is_file()}
        self._own |= {found.path for found in report.findings if found.origin == "own"}

    def finding(self, found: Finding) -> Finding | None:
        """What the report tells of a finding of the source."""
        return self._by_print.get(found.fingerprint)

    def seen_at(self, path: str, line: int) -> tuple[Finding, ...]:
        """What only a run showed on a 1-based line."""
        return tuple(
            found
            for found in self.report.findings
            if found.status == "runtime_only" and found.path == path and found.line <= line <= found.end_line
        )

    def runs_of(self, found: Finding) -> tuple[TargetReport, ...]:
        """The runs that say something of one of the report's findings."""
        named = {entry.target for entry in found.targets}
        return tuple(target for target in self._runs if target.target in named)

    def is_told(self, found: Finding, texts: Mapping[str, str]) -> bool:
        """Whether some run says something of one of the report's findings, and all that do are fresh."""
        runs = self.runs_of(found)
        return bool(runs) and all(self.is_fresh(run, texts) for run in runs)

    def runs_from(self, target: str, root: StaticModule) -> tuple[TargetReport, ...]:
        """The runs of a target of the source, whose outermost module is `root`."""
        return tuple(
            run
            for run in self._runs
            if run.target == target
            or any(not m.name and (m.path, m.type) == (root.path, root.type) for m in run.observation.modules)
        )

    def shares_of(self, module: StaticModule) -> tuple[Share, ...]:
        """What ran in graphs of all that modules of its class did, where they are parts of what was run."""
        found = []
        for run in self._runs:
            parts = [m for m in run.observation.modules if m.name and m.ops]
            alike = [m for m in parts if (m.path, m.type) == (module.path, module.type)]
            if alike:
                captured = sum(m.ops_captured or 0 for m in alike)
                found.append(Share(run, sum(m.ops or 0 for m in alike), captured))
        return tuple(found)

    def is_fresh(self, run: TargetReport, texts: Mapping[str, str]) -> bool:
        """Whether every file that ran is as it was; `texts` stand in the place of files, by the report's paths.

        What was never below the folder, as installed packages are, is taken to be.
        """
        return next(self._changed(run, texts), None) is None

    def out_of_date(
        self, path: str, texts: Mapping[str, str]
    ) -> tuple[tuple[TargetReport, tuple[str, ...]], ...]:
        """The runs that a file was part of and that are not fresh, each with the files that changed since."""
        among = ((run, tuple(self._changed(run, texts))) for run in self._runs if path in self._then(run))
        return tuple((run, changed) for run, changed in among if changed)

    def _then(self, run: TargetReport) -> Mapping[str, str]:
        """The digests of the files that ran."""
        return dict(run.observation.digests) or self._read

    def _changed(self, run: TargetReport, texts: Mapping[str, str]) -> Iterator[str]:
        for path, digest in self._then(run).items():
            now = self._now(path, texts)
            if now != digest and (now is not None or path in self._own):
                yield path

    def _now(self, path: str, texts: Mapping[str, str]) -> str | None:
        """The digest of a file as it is; None if it is not below the folder."""
        if path in texts:
            data = encoded(texts[path])
        else:
            try:
                data, _ = contents(self._root / path)
            except (OSError, ValueError):
                return None
        return hashlib.sha256(data).hexdigest()
