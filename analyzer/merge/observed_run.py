"""One observation, indexed by place."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tcready.merge.source_lines import Code, Lines
from tcready.schema.capture_failures import CaptureFailures, logged_sites
from tcready.schema.enums import Mode, StageName, StageState
from tcready.schema.observation import Observation

if TYPE_CHECKING:
    from tcready.schema.run import BreakSite, SkippedFrame


class Run:
    """One observation, indexed by place."""

    def __init__(self, observation: Observation, code: Code, mode: Mode | None) -> None:
        self.observation = observation
        self.mode = mode
        """The run's mode if the target was run in several, else None."""
        self.target = observation.target
        self.modules = observation.modules
        self.recompiles = observation.recompiles
        self.stages = {stage.stage: stage for stage in observation.stages}
        self.executed = Lines(observation.executed)
        self.traced = Lines(observation.traced)
        self.skipped = tuple(
            frame if frame.end_line else dataclasses.replace(frame, end_line=_end(frame, code))
            for frame in observation.skipped_frames
            if not frame.benign
        )
        logged = logged_sites(observation)
        self.sites = tuple(map(self._comparable, logged))
        known = {(site.path, site.line) for site in observation.break_sites}
        self.alone = tuple(
            trial
            for trial in (observation.plan.regions if observation.plan else ())
            if trial.site is not None and (trial.site.path, trial.site.line) not in known
        )
        """Regions that were refuted at a place where the whole model did not break because it never got there."""
        self.captured = self.state("capture") == "pass" and not self.nothing_compiled
        self.troubles = CaptureFailures.of(observation)
        self._own = {(frame.path, frame.line) for frame in self.troubles.frames}
        self._unlogged = {(site.path, site.line): site for site in observation.break_sites if site not in logged}

    def _comparable(self, site: BreakSite) -> BreakSite:
        """Return a site without the time that it costs if repeated calls do not agree on times: findings are then
        ranked by operations."""
        cover = self.observation.coverage
        if site.cost is None or cover is None or cover.times_agree:
            return site
        return dataclasses.replace(site, cost=dataclasses.replace(site.cost, seconds=None))

    @property
    def nothing_compiled(self) -> bool:
        """Return True if operations ran, none of them in a graph, and no break explains it: compilation is disabled."""
        seen = self.observation
        skipped = seen.break_sites or self.skipped
        return seen.coverage is not None and not seen.graphs and seen.coverage.ops_captured == 0 and not skipped

    @property
    def nothing_to_compile(self) -> bool:
        """Return True if the calls ran without any operations, and no break kept any from running in a graph."""
        seen = self.observation
        quiet = not (seen.break_sites or self.skipped or seen.graphs)
        counted = self.state("capture") == "pass" and seen.trace is None  # a trace counts no operation
        return counted and seen.coverage is None and quiet

    def by_a_break(self, frame: SkippedFrame) -> bool:
        """Return True if a frame was skipped because of a break."""
        return (frame.path, frame.line) not in self._own

    def ids_of(self, frame: SkippedFrame) -> tuple[str, ...]:
        """Return the IDs of Dynamo's reasons for giving up a frame silently."""
        site = self._unlogged.get((frame.path, frame.line))
        return ids_of_site(site) if site else ()

    def state(self, stage: StageName) -> StageState:
        found = self.stages.get(stage)
        return found.state if found else "not_run"

    def detail(self, stage: StageName) -> str:
        found = self.stages.get(stage)
        return found.detail if found else ""

    def skipped_around(self, path: str, line: int) -> SkippedFrame | None:
        """Return the innermost frame around a line that Dynamo gave up."""
        around = [frame for frame in self.skipped if in_frame(frame, path, line)]
        return max(around, key=lambda frame: frame.line, default=None)


def _end(frame: SkippedFrame, code: Code) -> int | None:
    function = code.function(frame.path, frame.line)
    return function.last if function else None


def in_frame(frame: SkippedFrame, path: str, line: int) -> bool:
    return frame.path == path and frame.line <= line <= (frame.end_line or frame.line)


def skips(site: BreakSite) -> bool:
    return site.action != "resume"


def ids_of_site(site: BreakSite) -> tuple[str, ...]:
    return tuple(dict.fromkeys(i for i in (site.gb_id, *site.gb_ids) if i))
