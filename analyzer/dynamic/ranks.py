"""What the processes of one run left, put together: what each showed, and where their graphs differ.

The first one observes for all. What only another saw is added to its observation, and a rank that failed, hung or died
fails the stage it was in: a run of several processes passes if all of them did.
"""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tcready.dynamic.worker.request import (
    NOT_OURS,
    RankGraph,
    RankOperation,
    State,
    graphs_path,
    read_graphs,
    read_state,
)
from tcready.schema.frame import Frame
from tcready.schema.observation import Observation, Stage
from tcready.schema.parallel import BlocksRun, ParallelRun, RankDifference, RankRun, RankSide
from tcready.schema.run import BreakSite
from tcready.schema.troubles import CaptureFailures, is_fsdp_hook
from tcready.schema.words import STAGES, Origin, Parallelism, StageReason

MANY = 20
"""Differences that are told; one graph that differs has others follow it."""
FAILURES = re.compile(r"^\s*rank\s*:\s*(\d+)[^\n]*\n\s*exitcode\s*:\s*(-?\d+)", re.MULTILINE)
"""What `torch.distributed.run` prints of each process that ended with an error; the root cause comes last."""


@dataclass(frozen=True)
class Left:
    """What one rank left behind."""

    rank: int
    state: State | None
    graphs: tuple[RankGraph, ...]
    place: str | None
    """Where it stood when the run was ended, if it could say so."""

    @property
    def failed(self) -> Stage | None:
        """The first stage that it says failed."""
        stages = self.state.observation.stages if self.state is not None else ()
        return next((stage for stage in stages if stage.state == "fail"), None)

    @property
    def captured(self) -> bool:
        stages = self.state.observation.stages if self.state is not None else ()
        return any(stage.stage == "capture" and stage.state == "pass" for stage in stages)


def left_in(room: Path, processes: int, places: Mapping[str, str | None]) -> tuple[Left, ...]:
    """What each rank left in the folder of a run; `places` are where each stood, by the end of its files' names."""
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
    """How the names of a rank's files end."""
    return f".rank{rank}" if rank else ""


def first_dead(output: str) -> tuple[int, int] | None:
    """The rank that died of a signal, else the one that ended first, and its exit code (negative: the signal), by what
    the agent printed. It ends the others by SIGTERM itself, and others end since the first is gone."""
    found = _failures(output)
    killed = [each for each in found if each[1] < 0 and each[1] != -signal.SIGTERM]
    return next(reversed(killed or found), None)


def exits_in(output: str) -> Mapping[int, int]:
    """The ranks that ended with an error, each with its exit code, by what the agent printed."""
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
    """Whether a rank that came to no end of its own ended with exit code 0: the agent names those that ended with an
    error, as others do which wait for that one."""
    return bool(exits) and rank not in exits


def ended_by(dead: State | None, first: State | None) -> State | None:
    """What the first rank shows of a run that a rank ended by dying: no more than that one came to, for the agent gives
    the others half a minute. None where nothing died, or the first rank came to its own end."""
    if dead is None or dead.doing is None or (first is not None and first.doing is None):
        return None
    at = STAGES.index(dead.doing)
    if first is None or first.doing is None or STAGES.index(first.doing) < at:
        return dead
    return replace(
        first, doing=dead.doing, settled=tuple(name for name in first.settled if STAGES.index(name) < at)
    )


def where(places: Sequence[tuple[int, str | None]]) -> str:
    """`at model.py:3`; where ranks stood at different lines: `rank 0 at model.py:3, rank 1 at model.py:7`."""
    known = [(rank, place) for rank, place in places if place is not None]
    if len({place for _, place in known}) == 1 and len(known) == len(places):
        return f"at {known[0][1]}"
    return ", ".join(f"rank {rank} at {place}" for rank, place in known)


def together(
    seen: Observation,
    left: Sequence[Left],
    ended: str,
    reason: StageReason | None,
    origin: Callable[[str], Origin],
    kind: Parallelism,
    exits: Mapping[int, int],
) -> Observation:
    """The first rank's observation with what the others showed.

    `ended` and `reason` say how the run ended, if it did not end by itself: what a rank that says nothing came to.
    `origin` says whose code a file of this machine is; `kind` is how the model was to be shared. `exits` are the ranks
    that ended with an error, and their exit codes.
    """
    others = [each.state.observation for each in left[1:] if each.state is not None]
    for other in others:
        seen = _with(seen, other)
    hooks = dict.fromkeys(_frame(site) for site in seen.break_sites if is_fsdp_hook(site))
    shared = next(
        (each.state.observation.parallel for each in left if each.state and each.state.observation.parallel),
        None,
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


def _with(seen: Observation, other: Observation) -> Observation:
    """What only another rank saw is joined to what the first one saw."""
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
            *(
                each
                for each in other.recompiles
                if (each.path, each.line, each.symbol, each.case) not in again
            ),
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
    """The stages of the first rank, failed where another one failed or ended, or where collectives differ; what another
    one did not run did not pass."""
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
                detail += f"; then {stages[doing].detail}"  # which only tells that it is gone
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
    """How a rank ended that says nothing of it."""
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
    """What a rank says of its blocks; it stands for itself alone in what it left."""
    return own.ranks[0].blocks if own is not None and own.ranks else None


def _frame(site: BreakSite) -> Frame:
    return Frame(site.path, site.line, site.symbol)


def _differences(left: Sequence[Left]) -> tuple[RankDifference, ...]:
    """Where the graphs of ranks differ, graph by graph; their number counts only if every rank came to its end."""
    found: list[RankDifference] = []
    if len(left) < 2:
        return ()
    whole = all(each.captured for each in left)
    for case in dict.fromkeys(graph.case for each in left for graph in each.graphs):
        by_rank = [[graph for graph in each.graphs if graph.case == case] for each in left]
        numbers = {len(graphs) for graphs in by_rank}
        for index in range(max(numbers) if whole else min(numbers)):
            graphs = [each[index].operations if index < len(each) else None for each in by_rank]
            if (difference := _in_one(graphs, index + 1, case, left)) is not None:
                found.append(difference)
                if len(numbers) > 1:
                    break  # from here on one rank's next graph is another's last
    return tuple(found[:MANY])


def _in_one(
    graphs: Sequence[tuple[RankOperation, ...] | None],
    number: int,
    case: str | None,
    left: Sequence[Left],
) -> RankDifference | None:
    """The first operation at which the ranks' graphs of one number differ; None if they do not."""
    texts = [None if graph is None else [(each.text, each.inputs) for each in graph] for graph in graphs]
    if all(each == texts[0] for each in texts):
        return None
    lengths = [len(each) if each is not None else 0 for each in texts]
    at = next(
        (
            index
            for index in range(min(lengths))
            if len({each[index] for each in texts if each is not None}) > 1
        ),
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
    return RankDifference(number, case, apart, tuple(shown), _odd_one(graphs, at, shown))


def _odd_one(
    graphs: Sequence[tuple[RankOperation, ...] | None], at: int, shown: Sequence[RankSide]
) -> Frame | None:
    """The line that is to blame: of the rank that goes on, behind it, as another does here, or goes on where others end;
    else the first that is known."""
    for graph, side in zip(graphs, shown, strict=True):
        rest = {operation.text for operation in graph[at + 1 :]} if graph is not None else set()
        if side.place is not None and any(other.text in rest for other in shown if other.text != side.text):
            return side.place
    return next((side.place for side in shown if side.place is not None), None)
