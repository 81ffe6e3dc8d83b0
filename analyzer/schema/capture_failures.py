"""What keeps a run from being captured whole, each cause once: the basis of verdict, reports and counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tcready.schema.code_line import Frame
from tcready.schema.enums import counted
from tcready.schema.observation import Observation
from tcready.schema.value_class import dataclass

if TYPE_CHECKING:
    from tcready.schema.run import BreakSite, OwnCompile, Recompile, ShapeCall, SkippedFrame

_LIMIT = re.compile(r"recompile[_ ]limit|cache[_ ]size[_ ]limit|recompilation limit", re.IGNORECASE)
"""Dynamo's messages, over its versions, about a frame that was compiled too often."""


@dataclass(frozen=True)
class Break:
    """A source line at which Dynamo broke, over all cases, with the frames that it skipped because of it."""

    first: BreakSite
    hits: int
    """Events, over all cases."""
    cases: tuple[str, ...]
    skipped: tuple[SkippedFrame, ...]


@dataclass(frozen=True)
class CaptureFailures:
    """Break sites, skipped frames without a break site, and functions that recompile on every call."""

    breaks: tuple[Break, ...]
    """By place."""
    frames: tuple[SkippedFrame, ...]
    """By place, each function once."""
    recompiling: tuple[Recompile, ...]
    benign: int
    """Skipped frames without tensor work, which do no harm."""
    resized: tuple[BreakSite, ...] = ()
    """Break sites that only calls with other sizes reached, by place, each line once."""
    by_torch: tuple[Break, ...] = ()
    """Lines below which torch ends a graph on purpose in its own code, by place; not among `breaks`."""
    own_compiles: tuple[OwnCompile, ...] = ()
    """Lines of the model's own code that compile parts of it up to the recompile limit."""

    @classmethod
    def of(cls, seen: Observation) -> CaptureFailures:
        skipped = _by_place(frame for frame in seen.skipped_frames if not frame.benign)
        sites = logged_sites(seen)
        steady = {(event.path, event.line): event for event in seen.recompiles if event.on_every_call}
        drawing = {(event.path, event.line) for event in seen.recompiles if event.on_other_numbers}
        return cls(
            breaks=_join([site for site in sites if not is_by_torch(site)], sites, skipped),
            frames=tuple(
                frame
                for frame in skipped
                if not any(explains(site, frame) for site in sites if not is_by_torch(site))
                and not (at_recompile_limit(frame) and (frame.path, frame.line) in drawing)
            ),
            recompiling=tuple(steady.values()),
            benign=sum(frame.benign for frame in seen.skipped_frames),
            resized=_resized(seen),
            by_torch=_join([site for site in sites if is_by_torch(site)], sites, skipped),
            own_compiles=tuple(each for each in seen.own_compiles if each.limit),
        )

    @property
    def skipped_by_breaks(self) -> int:
        """Return functions that were skipped because of a break."""
        return len({(frame.path, frame.line) for item in self.breaks for frame in item.skipped})

    def words(self) -> list[str]:
        """Return the number of each kind: `2 break sites (skipping 1 frame)`, `1 other skipped frame`. Deliberate
        breaks of FSDP are separate: `1 break site (of FSDP's hooks)`."""
        found = [self._breaks()] if self.breaks else []
        if self.frames:
            found.append(self._frames())
        if self.recompiling:
            one = len(self.recompiling) == 1
            found.append(
                counted(len(self.recompiling), "function")
                + f" that {'compiles' if one else 'compile'} again on every call"
            )
        if self.resized:
            first, *others = [f"{site.path}:{site.line}" for site in self.resized]
            more = f" and at {counted(len(others), 'other line')}" if others else ""
            found.append(f"with other sizes it breaks at {first}{more}")
        return found

    def words_of_own_compiles(self) -> str:
        """Return `4 of 12 parts that the model compiles itself run eagerly`; empty if none does."""
        eager = sum(len(each.eager) for each in self.own_compiles)
        of = sum(len(each.parts) for each in self.own_compiles)
        return f"{eager} of {counted(of, 'part')} that the model compiles itself run eagerly" if of else ""

    def words_by_torch(self) -> str:
        """Return `torch ends the graph on purpose at 2 lines`; empty if it does so nowhere."""
        count = len(self.by_torch)
        return f"torch ends the graph on purpose at {counted(count, 'line')}" if count else ""

    def summary(self) -> str:
        """Return the numbers of break sites and skipped frames, even if zero."""
        none_left = self.skipped_by_breaks and not self.frames
        return self._breaks() if none_left else f"{self._breaks()}, {self._frames()}"

    def _breaks(self) -> str:
        hooks, caused = sum(is_fsdp_hook(item.first) for item in self.breaks), self.skipped_by_breaks
        notes = [f"{hooks} of FSDP's hooks" if hooks < len(self.breaks) else "of FSDP's hooks"] if hooks else []
        notes += [f"skipping {counted(caused, 'frame')}"] if caused else []
        return counted(len(self.breaks), "break site") + (f" ({', '.join(notes)})" if notes else "")

    def _frames(self) -> str:
        return counted(len(self.frames), "other skipped frame" if self.skipped_by_breaks else "skipped frame")


def _join(some: Iterable[BreakSite], sites: Sequence[BreakSite], skipped: Sequence[SkippedFrame]) -> tuple[Break, ...]:
    """Return some of the sites by line, each with the frames that it skipped."""
    lines: dict[tuple[str, int], list[BreakSite]] = {}
    for site in sorted(some, key=lambda site: (site.path, site.line)):
        lines.setdefault((site.path, site.line), []).append(site)
    return tuple(
        Break(
            first=alike[0],
            hits=sum(site.hits for site in alike),
            cases=tuple(dict.fromkeys(site.case for site in alike if site.case)),
            skipped=tuple(frame for frame in skipped if any(_causes(site, frame, sites) for site in alike)),
        )
        for alike in lines.values()
    )


def logged_sites(seen: Observation) -> tuple[BreakSite, ...]:
    """Return the break sites without those that repeat a skipped frame: a frame that Dynamo gave up silently is
    recorded twice, as a frame and as a site at its `def`."""
    skipped = {(frame.path, frame.line) for frame in seen.skipped_frames if not frame.benign}
    return tuple(
        site
        for site in seen.break_sites
        if site.action != "skip_frame_unlogged" or (site.path, site.line) not in skipped
    )


def calls_by_size(seen: Observation) -> tuple[tuple[str, ShapeCall], ...]:
    """Return each call of the shape study with the default setting, and its size or case."""
    trials = seen.shapes.trials if seen.shapes is not None else ()
    return tuple((trial.at(call), call) for trial in trials if trial.setting == "default" for call in trial.calls)


def _resized(seen: Observation) -> tuple[BreakSite, ...]:
    lines: dict[tuple[str, int], BreakSite] = {}
    for _, call in calls_by_size(seen):
        for site in call.break_sites:
            if not is_by_torch(site):
                lines.setdefault((site.path, site.line), site)
    return tuple(lines[place] for place in sorted(lines))


FSDP = "torch/distributed/fsdp/"


def is_fsdp_hook(site: BreakSite) -> bool:
    """Return True if Dynamo broke in FSDP's own hooks, below the user's line that calls a sharded module: they
    gather parameters outside of graphs on purpose."""
    return any(frame.path.startswith(FSDP) for frame in site.stack)


def is_by_torch(site: BreakSite) -> bool:
    """Return True if torch's own code ends the graph on purpose and the function around continues behind it. Breaks in
    FSDP's hooks are counted by themselves."""
    return site.by_torch and site.action == "resume" and not is_fsdp_hook(site)


def at_recompile_limit(frame: SkippedFrame) -> bool:
    """Return True if a frame was skipped because it was compiled too often."""
    return _LIMIT.search(frame.reason) is not None


def _causes(site: BreakSite, frame: SkippedFrame, sites: Iterable[BreakSite]) -> bool:
    """Return the sort key of a frame for a break; frames with their own record that they were given up there come
    first."""
    recorded = [other for other in sites if _gave_up(other, frame)]
    return explains(site, frame) and (not recorded or site in recorded)


def _gave_up(site: BreakSite, frame: SkippedFrame) -> bool:
    return any((f.path, f.line, f.fate) == (frame.path, frame.line, "whole_frame") for f in site.frames)


def explains(site: BreakSite, frame: SkippedFrame) -> bool:
    """Return True if a frame was skipped because of a break: the break was in that frame, or in a callee."""
    if at_recompile_limit(frame):
        return False
    if _gave_up(site, frame):
        return True
    return any(_inside(frame, place) for place in (*site.stack, Frame(site.path, site.line, site.symbol)))


def _inside(frame: SkippedFrame, place: Frame) -> bool:
    if frame.path != place.path:
        return False
    if frame.end_line is None:
        return frame.symbol == place.symbol or frame.line == place.line
    return frame.line <= place.line <= frame.end_line


def _by_place(frames: Iterable[SkippedFrame]) -> Sequence[SkippedFrame]:
    found: dict[tuple[str, int], SkippedFrame] = {}
    for frame in sorted(frames, key=lambda f: (f.path, f.line, f.symbol, f.case or "", f.reason)):
        found.setdefault((frame.path, frame.line), frame)
    return tuple(found.values())
