"""Combine the results of the processes of one run: what each observed, and where their graphs differ.

The first rank observes for all. Findings of other ranks are added to its observation, and a rank that failed, hung or
died fails the stage it was in: a run of several processes passes only if all of them did.
"""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tcready.dynamic.worker.core.request import (
    NOT_OURS,
    RankGraph,
    RankOperation,
    State,
    graphs_path,
    read_graphs,
    read_state,
)
from tcready.schema.capture_failures import CaptureFailures, is_fsdp_hook
from tcready.schema.code_line import Frame
from tcready.schema.enums import STAGES, Origin, Parallelism, StageReason
from tcready.schema.observation import Observation, Stage
from tcready.schema.parallel import BlocksRun, ParallelRun, RankDifference, RankRun, RankSide
from tcready.schema.run import BreakSite

MANY = 20
"""The most differences that are reported; one graph that differs causes others."""
FAILURES = re.compile(r"^\s*rank\s*:\s*(\d+)[^\n]*\n\s*exitcode\s*:\s*(-?\d+)", re.MULTILINE)
"""Output of `torch.distributed.run` for each process that ended with an error; the root cause comes last."""


@dataclass(frozen=True)
class Left:
    """The results of one rank."""

    rank: int
    state: State | None
    graphs: tuple[RankGraph, ...]
    place: str | None
    """The place of the rank when the run was ended, if it could report that."""

    @property
    def failed(self) -> Stage | None:
        """The first stage that this rank reports as failed."""
        stages = self.state.observation.stages if self.state is not None else ()
        return next((stage for stage in stages if stage.state == "fail"), None)

    @property
    def captured(self) -> bool:
        stages = self.state.observation.stages if self.state is not None else ()
        return any(stage.stage == "capture" and stage.state == "pass" for stage in stages)


def left_in(room: Path, processes: int, places: Mapping[str, str | None]) -> tuple[Left, ...]:
    """The results of each rank in the folder of a run. `places` says where each rank was, by the suffix of its files."""
    found: list[Left] = []
    for rank in range(processes):
        ending = suffix(rank)
        path = str(room / f"state.json{ending}")
        state = None
        with contextlib.suppress(*NOT_OURS):
            state = read_state(path)
        found.append(Left(rank, state, read_graphs(graphs_path(path)), places.get(ending)))
    return tuple(found)


def suffix(rank: int) -> str:
    """Return the suffix of the names of a rank's files."""
    return f".rank{rank}" if rank else ""


def first_dead(output: str) -> tuple[int, int] | None:
    """The rank that died of a signal, else the first one that ended, and its exit code (negative: the signal), from the
    output of the agent. The agent itself ends the others by SIGTERM, and others end because the first is gone."""
    found = _failures(output)
    killed = [each for each in found if each[1] < 0 and each[1] != -signal.SIGTERM]
    return next(reversed(killed or found), None)


def exits_in(output: str) -> Mapping[int, int]:
    """Return the ranks that ended with an error and their exit codes, from the output of the agent."""
    return dict(_failures(output))


def _failures(output: str) -> list[tuple[int, int]]:
    return [(int(rank), int(code)) for rank, code in FAILURES.findall(output)]


def exit_words(rank: int, code: int) -> str:
    """`rank 1 died by SIGKILL`, `rank 1 exited with code 1`."""
    return f"rank {rank} died by {signal_name(-code)}" if code < 0 else f"rank {rank} exited with code {code}"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def without_a_word(rank: int, exits: Mapping[int, int]) -> bool:
    """Return whether a rank without a reported end has exit code 0: the agent names ranks that ended with an error, and
    also those that wait for them."""
    return bool(exits) and rank not in exits


def ended_by(dead: State | None, first: State | None) -> State | None:
    """Return the observation of the first rank for a run that ended because a rank died: only what that rank reached,
    since the agent gives the others half a minute. None if no rank died, or if the first rank ended by itself."""
    if dead is None or dead.doing is None or (first is not None and first.doing is None):
        return None
    at = STAGES.index(dead.doing)
    if first is None or first.doing is None or STAGES.index(first.doing) < at:
        return dead
    return replace(first, doing=dead.doing, settled=tuple(name for name in first.settled if STAGES.index(name) < at))


def describe_places(places: Sequence[tuple[int, str | None]]) -> str:
    """Describe a place as `at model.py:3`; if ranks were at different lines, `rank 0 at model.py:3, rank 1 at
    model.py:7`."""
    known = [(rank, place) for rank, place in places if place is not None]
    if len({place for _, place in known}) == 1 and len(known) == len(places):
        return f"at {known[0][1]}"
    return ", ".join(f"rank {rank} at {place}" for rank, place in known)


def combine_ranks(
    seen: Observation,
    left: Sequence[Left],
    ended: str,
    reason: StageReason | None,
    origin: Callable[[str], Origin],
    kind: Parallelism,
    exits: Mapping[int, int],
) -> Observation:
    """Return the first rank's observation with the findings of the others.

    `ended` and `reason` describe how the run ended, if it did not end by itself: they apply to a rank that reports
    nothing. `origin` maps a file of this machine to the owner of its code; `kind` is how the model is distributed.
    `exits` holds the ranks that ended with an error, and their exit codes.
    """
    others = [each.state.observation for each in left[1:] if each.state is not None]
    for other in others:
        seen = _join_findings(seen, other)
    hooks = dict.fromkeys(_frame(site) for site in seen.break_sites if is_fsdp_hook(site))
    shared = next(
        (each.state.observation.parallel for each in left if each.state and each.state.observation.parallel), None
    )
    files = dict(seen.sources)
    differences = tuple(
        replace(each, origin=origin(files.get(each.place.path, each.place.path))) if each.place else each
        for each in _differences(left)
    )
    seen = replace(seen, stages=_stages(seen, left, differences, ended, reason, exits))
    shared = shared or ParallelRun(kind)
    ranks = tuple(_rank_run(each, ended) for each in left)
    return replace(seen, parallel=replace(shared, ranks=ranks, differences=differences, hooks=tuple(hooks)))


def _join_findings(seen: Observation, other: Observation) -> Observation:
    """Add the findings that only another rank has to those of the first one."""
    sites = {(site.path, site.line, site.case) for site in seen.break_sites}
    frames = {(frame.path, frame.line, frame.symbol, frame.case) for frame in seen.skipped_frames}
    again = {(each.path, each.line, each.symbol, each.case) for each in seen.recompiles}
    return replace(
        seen,
        break_sites=(
            *seen.break_sites,
            *(site for site in other.break_sites if (site.path, site.line, site.case) not in sites),
        ),
        skipped_frames=(
            *seen.skipped_frames,
            *(
                frame
                for frame in other.skipped_frames
                if (frame.path, frame.line, frame.symbol, frame.case) not in frames
            ),
        ),
        recompiles=(
            *seen.recompiles,
            *(each for each in other.recompiles if (each.path, each.line, each.symbol, each.case) not in again),
        ),
        sources=tuple(sorted({*seen.sources, *other.sources})),
        digests=tuple(sorted({*seen.digests, *other.digests})),
    )


def _stages(
    seen: Observation,
    left: Sequence[Left],
    differences: Sequence[RankDifference],
    ended: str,
    reason: StageReason | None,
    exits: Mapping[int, int],
) -> tuple[Stage, ...]:
    """Return the stages of the first rank. A stage fails if another rank failed or ended in it, or if collectives
    differ; a stage that another rank did not run does not pass."""
    stages = {stage.stage: stage for stage in seen.stages}
    for each in left[1:]:
        failed = each.failed
        if each.state is None and stages["capture"].state == "pass":
            detail = f"rank {each.rank} left nothing" + (f": {ended}" if ended else "")
            stages["capture"] = Stage("capture", "fail", detail, reason=reason or "exit")
        if failed is not None and stages[failed.stage].state == "pass":
            stages[failed.stage] = replace(failed, detail=f"on rank {each.rank}: {failed.detail}")
        elif failed is None and each.state is not None and each.state.doing is not None:
            doing = each.state.doing
            detail = _end_of(each.rank, ended, exits)
            if stages[doing].state == "pass":
                stages[doing] = Stage(doing, "fail", detail, reason=reason or "exit")
            elif stages[doing].state == "fail" and without_a_word(each.rank, exits):
                detail += f"; then {stages[doing].detail}"  # which only reports that it has ended
                stages[doing] = replace(stages[doing], detail=detail, reason="exit")
        for stage in each.state.observation.stages if each.state is not None else ():
            if stage.state == "not_run" and stages[stage.stage].state == "pass":
                stages[stage.stage] = replace(stage, detail=f"on rank {each.rank}: {stage.detail}")
    capture = stages["capture"]
    apart = next((each for each in differences if each.collectives), None)
    if capture.state != "not_run" and apart is not None:
        detail = f"ranks compile different collectives, in which they hang or die: {apart.words()}"
        if capture.state == "fail":
            detail = f"{capture.detail}; {detail}"
        stages["capture"] = replace(capture, state="fail", detail=detail, reason="mismatch")
    return tuple(stages.values())


def _end_of(rank: int, ended: str, exits: Mapping[int, int]) -> str:
    """Return how a rank ended that does not report it."""
    code = exits.get(rank)
    if without_a_word(rank, exits):
        return exit_words(rank, 0)
    if code == -signal.SIGTERM:
        return f"rank {rank} was stopped, since {ended}"
    return exit_words(rank, code) if code is not None else f"on rank {rank}: {ended or 'its process ended'}"


def _rank_run(each: Left, ended: str) -> RankRun:
    seen = each.state.observation if each.state is not None else None
    if each.state is None or seen is None:
        return RankRun(each.rank, "fail", f"it left nothing: {ended}" if ended else "it left nothing")
    capture = next(stage for stage in seen.stages if stage.stage == "capture")
    failed = each.failed
    detail = capture.detail
    if failed is not None and not each.captured:
        detail = f"{failed.stage} failed: {failed.detail}"
    elif not each.captured and each.state.doing is not None:
        detail = f"it ended in stage {each.state.doing}" + (f", at {each.place}" if each.place else "")
    troubles = CaptureFailures.of(seen)
    breaks = [item.first for item in troubles.breaks if not is_fsdp_hook(item.first)]
    frames = [Frame(frame.path, frame.line, frame.symbol) for frame in troubles.frames]
    cover = seen.coverage
    return RankRun(
        each.rank,
        "pass" if each.captured else "fail",
        detail,
        len(seen.graphs),
        (*map(_frame, breaks), *frames),
        tuple(dict.fromkeys(Frame(again.path, again.line, again.symbol) for again in seen.recompiles)),
        cover.share if cover is not None else None,
        cover.time_share if cover is not None else None,
        _blocks(seen.parallel),
    )


def _blocks(own: ParallelRun | None) -> BlocksRun | None:
    """Return what a rank reports about its blocks, which is only about itself."""
    return own.ranks[0].blocks if own is not None and own.ranks else None


def _frame(site: BreakSite) -> Frame:
    return Frame(site.path, site.line, site.symbol)


def _differences(left: Sequence[Left]) -> tuple[RankDifference, ...]:
    """Return where the graphs of ranks differ, graph by graph. Their number counts only if every rank ended normally."""
    found: list[RankDifference] = []
    if len(left) < 2:
        return ()
    whole = all(each.captured for each in left)
    for case in dict.fromkeys(graph.case for each in left for graph in each.graphs):
        by_rank = [[graph for graph in each.graphs if graph.case == case] for each in left]
        numbers = {len(graphs) for graphs in by_rank}
        for index in range(max(numbers) if whole else min(numbers)):
            graphs = [each[index].operations if index < len(each) else None for each in by_rank]
            if (difference := _first_difference(graphs, index + 1, case, left)) is not None:
                found.append(difference)
                if len(numbers) > 1:
                    break  # from here on one rank's next graph is another's last
    return tuple(found[:MANY])


def _first_difference(
    graphs: Sequence[tuple[RankOperation, ...] | None], number: int, case: str | None, left: Sequence[Left]
) -> RankDifference | None:
    """Return the first operation at which the graphs of one number differ between ranks; None if they do not."""
    texts = [None if graph is None else [(each.text, each.inputs) for each in graph] for graph in graphs]
    if all(each == texts[0] for each in texts):
        return None
    lengths = [len(each) if each is not None else 0 for each in texts]
    at = next(
        (index for index in range(min(lengths)) if len({each[index] for each in texts if each is not None}) > 1),
        min(lengths),
    )
    alike = len({graph[at].text if graph is not None and at < len(graph) else "" for graph in graphs}) == 1
    shown = []
    for each, graph in zip(left, graphs, strict=True):
        operation = graph[at] if graph is not None and at < len(graph) else None
        words = "no such graph" if graph is None else "the graph ends"
        if graph is not None and operation is not None:
            taken = [graph[place].text for place in operation.inputs] or ["an input"]
            words = operation.text + (f" of {', '.join(taken)}" if alike else "")
        shown.append(RankSide(each.rank, words, operation.place if operation is not None else None))
    sent = [[operation.text for operation in graph or () if operation.collective] for graph in graphs]
    apart = any(each != sent[0] for each in sent)
    return RankDifference(number, case, apart, tuple(shown), _blamed_line(graphs, at, shown))


def _blamed_line(
    graphs: Sequence[tuple[RankOperation, ...] | None], at: int, shown: Sequence[RankSide]
) -> Frame | None:
    """Return the line to blame: of the rank that continues later like another rank, or that continues if the others
    end; else the first known line."""
    for graph, side in zip(graphs, shown, strict=True):
        rest = {operation.text for operation in graph[at + 1 :]} if graph is not None else set()
        if side.place is not None and any(other.text in rest for other in shown if other.text != side.text):
            return side.place
    return next((side.place for side in shown if side.place is not None), None)
