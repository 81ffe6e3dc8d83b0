"""Make observations of what a job's processes compiled: one for each function that the job compiled."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tcready.portable.events import compile_times, to_schema
from tcready.portable.events.definitions import Definition
from tcready.portable.events.ownership import slashed, within_site
from tcready.portable.events.record import Place
from tcready.schema.capture_failures import CaptureFailures
from tcready.schema.code_line import Frame
from tcready.schema.enums import STAGES, Mode
from tcready.schema.observation import Observation, Stage
from tcready.schema.run import BreakSite, CompileTime, Graph, LineSet, Recompile, SkippedFrame, Trace, TracedProcess
from tcready.traces import kernels, path_mapping, rank_differences, trace_files
from tcready.traces.advice import Behind, advice
from tcready.traces.path_mapping import Sources, TraceNames
from tcready.traces.process_trace import EVAL_FRAME, Compilation, Process, record_of
from tcready.traces.process_trace import read as read_process

NEVER = (
    "which lines ran: a prediction is refuted only on lines of operations in graphs",
    "the share of operations and of time in graphs",
    "whether a call with the same inputs compiles again",
    "frames that are given up before they are compiled: generators, frames without a tensor",
    "outputs compared with eager, and speed",
)
"""What no trace contains."""
NO_MODE = "whether it was training or inference: no graph shows it, so the sources are read as inference"
"""What a trace lacks in addition if AOTAutograd compiled nothing."""
ELSEWHERE = "a trace does not show it"
STACK_TEXT = re.compile(r'^\s*File "([^"\n]+)", line ([1-9]\d{0,8})(?:, in [^\n]*)?\n[ \t]+(\S[^\n]*)$', re.MULTILINE)
"""A frame of a printed traceback with its line of source."""
KERNELS = "kernels"
CALLED = (".forward", ".__call__")
"""Methods that identify a class if torch compiled an instance of it."""


@dataclass(frozen=True)
class Traced:
    """The content of traces."""

    observations: tuple[Observation, ...]
    roots: Mapping[str, tuple[str, Definition]]
    """By target: the file, and the function in it that was compiled; nothing if its source is not here."""
    warnings: tuple[str, ...]


@dataclass
class _Group:
    """The compilations of one function and of everything that it calls, in every process."""

    root: tuple[str, Definition] | None
    found: list[tuple[Process, TraceNames, list[Compilation]]] = field(default_factory=list)


def read(
    named: Sequence[str],
    root: Path,
    moved: Sequence[tuple[str, str]] = (),
    search: Sequence[Path] = (),
    packages: tuple[str, ...] = (),
) -> Traced:
    """Read the files and folders that a job wrote with TORCH_TRACE.

    Args:
        named: Files, or folders of them, all of one job.
        root: The working folder: paths are relative to it.
        moved: Folders of the job, each with the corresponding folder here.
        search: Where packages are installed.
        packages: Installed packages that count as the user's own.

    Raises:
        TcreadyError: A file or folder does not exist, or contains no trace.
    """
    paths = [path for each in named for path in trace_files.find_files(each, root)]
    processes = [read_process(path) for path in dict.fromkeys(paths)]
    known = {path for process in processes for path in _user_paths(process, root)}
    found = path_mapping.find(known, root, moved, search)
    sources: dict[str, str] = {}
    texts = Sources()

    def names_with(here: Mapping[str, str]) -> list[tuple[Process, TraceNames]]:
        return [
            (process, TraceNames(str(root), here, process.torch_folder, packages, frozenset(known), sources, texts))
            for process in processes
        ]

    # A line of the job would be held against another one here: what has changed counts as not here.
    changed: dict[str, str] = {}
    for path, words in _changed(names_with(found.here)):
        changed.setdefault(path, words)
    sources.clear()
    named_by = names_with({path: here for path, here in found.here.items() if path not in changed})
    groups = _groups(named_by)
    if not groups:
        return Traced((_of_nothing(named, processes),), {}, tuple(_conditions(processes)))
    ranks = rank_differences.ranks_of(processes)
    seen = tuple(_observation(target, group, ranks) for target, group in groups.items())
    shown = {path for each in seen for path in _pointed_at(each)}
    warnings = [
        *_conditions(processes),
        *(
            f"{slashed(path)} may be {' or '.join(alike)}: say which with `--trace-root OLD=NEW`"
            for path, alike in sorted(found.ambiguous.items())
            if slashed(path) in shown
        ),
        *_not_here(
            slashed(path) for path in known - found.here.keys() - found.ambiguous.keys() if slashed(path) in shown
        ),
        *changed.values(),
    ]
    roots = {target: group.root for target, group in groups.items() if group.root is not None}
    return Traced(
        tuple(replace(each, sources=tuple(sorted(sources.items()))) for each in seen),
        roots,
        tuple(dict.fromkeys(warnings)),
    )


def _user_paths(process: Process, root: Path) -> Iterator[str]:
    """Return every file of the job's own that the trace names."""
    names = TraceNames(str(root), {}, process.torch_folder)
    given: set[str] = set()
    for each in process.compilations:
        if each.place is not None:
            given.add(each.place.path)
        given.update(path for path, _, _ in each.stack)
        given.update(path for path, _ in each.lines)
        for text in (*each.breaks, each.error):
            given.update(path for path, _, _ in to_schema.parse_stack(text))
    return (path for path in given if path and names.is_user(path))


# Which function a compilation belongs to


def _groups(processes: Sequence[tuple[Process, TraceNames]]) -> dict[str, _Group]:
    """Return the groups by target, in the order in which they were compiled first."""
    groups: dict[str, _Group] = {}
    for process, names in processes:
        targets: dict[tuple[int, Place | None], str] = {}
        roots = _Roots(names)
        parts: dict[str, list[Compilation]] = defaultdict(list)
        for each in process.compilations:
            number = each.id[1]
            if number is None:  # compiled autograd alone: no code of the user's
                continue
            frame = (number, each.place)
            if frame not in targets:
                root = roots.of(each)
                if root is None:
                    continue
                targets[frame] = _target(root, names)
                groups.setdefault(targets[frame], _Group(_begins(root, names)))
            parts[targets[frame]].append(each)
        for target, some in parts.items():
            groups[target].found.append((process, names, some))
    return groups


class _Roots:
    """The functions that one process compiled as roots, by their callers.

    Torch gives the stack of each frame that it compiles, without the last few callers: the compiled function may be
    among these. Its callees are then found by their stacks, which begin as that of the function does.
    """

    def __init__(self, names: TraceNames) -> None:
        self._names = names
        self._known: list[tuple[tuple[tuple[str, str], ...], Frame]] = []

    def of(self, each: Compilation) -> Frame | None:
        """Return the root function of a compilation; None if no code is named. Its path is the job's."""
        stack = each.stack if each.stack and each.stack[-1][0] else ()
        if not stack and each.place is not None:
            stack = ((each.place.path, each.place.line, each.place.name),)
        if not stack:
            return None
        above = stack[:-1]
        wrapped = [index for index, frame in enumerate(above) if slashed(frame[0]).endswith(EVAL_FRAME)]
        inside = above[wrapped[0] + 1 :] if wrapped else ()
        called = next((frame for frame in inside if self._names.is_user(frame[0])), None)
        if called is not None:
            return Frame(*called)
        callers = tuple((path, name) for path, _, name in above)
        if inside or not wrapped:
            longest: tuple[tuple[tuple[str, str], ...], Frame] | None = None
            for known in self._known:
                count = len(known[0])
                if count < len(callers) and callers[:count] == known[0]:
                    longest = known if longest is None or count >= len(longest[0]) else longest
            if longest is not None:
                return longest[1]
        root = Frame(*stack[-1])
        self._known.append((callers, root))
        return root


def _target(root: Frame, names: TraceNames) -> str:
    """Return the target of the compiled function: `models/net.py::Net`, or `pkg.mod::Net` for an installed one."""
    symbol = names.symbol(root.path, root.line, root.symbol)
    for suffix in CALLED:
        symbol = symbol.removesuffix(suffix)
    inside = within_site(root.path)
    if inside is not None:
        place = inside.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    else:
        place = names.path(root.path)
    return f"{place.replace('::', ':').strip(':') or '?'}::{symbol}"


def _begins(root: Frame | None, names: TraceNames) -> tuple[str, Definition] | None:
    """Return the file and the function around a frame; None if its source is not here."""
    around = names.function(root.path, root.line, root.symbol) if root is not None else None
    if root is None or around is None or not around.function:
        return None
    return names.path(root.path), around


# What was seen of one function


def _observation(target: str, group: _Group, ranks: Mapping[int, bool]) -> Observation:
    sites: dict[tuple[str, int], BreakSite] = {}
    skipped: dict[tuple[str, int, str, bool], SkippedFrame] = {}
    again: list[Recompile] = []
    graphs: list[Graph] = []
    lines: dict[str, set[int]] = defaultdict(set)
    compilations = [each for _, _, some in group.found for each in some]
    mode: Mode = "train" if any(each.backward for each in compilations) else "infer"
    for _, names, some in group.found:
        record = record_of(some)
        for site in to_schema.break_sites(record, names, None):
            key = (site.path, site.line)
            sites[key] = to_schema.join_sites(sites[key], site) if key in sites else site
        for frame in to_schema.skipped_frames(record, names, None):
            skipped.setdefault((frame.path, frame.line, frame.symbol, frame.benign), frame)
        again += to_schema.recompiles(record, names, None, False)
        known = {(graph.path, graph.line, graph.symbol) for graph in graphs}
        graphs += [
            graph
            for graph in to_schema.graphs(record, names, mode, None, {})
            if (graph.path, graph.line, graph.symbol) not in known
        ]
        for path, line in record.traced:
            if names.is_user(path):
                lines[names.path(path)].add(line)
    traced = tuple(LineSet(path, to_schema.ranges(found)) for path, found in sorted(lines.items()))
    seen = Observation(
        target=target,
        convention=None,
        mode=mode,
        stages=(),
        environment=_environment(process for process, _, _ in group.found),
        break_sites=tuple(sites.values()),
        skipped_frames=tuple(skipped.values()),
        graphs=tuple(graphs),
        recompiles=to_schema.join_recompiles(tuple(again)),
        traced=traced,
        trace=_trace(group, compilations, to_schema.join_recompiles(tuple(again)), ranks),
    )
    return replace(seen, stages=tuple(_stages(seen, group)))


def _environment(processes: Iterable[Process]) -> Mapping[str, Any]:
    """Return the environment of the first process that has it; of several devices the one that is not a CPU."""
    found: dict[str, Any] = {}
    for process in processes:
        for name, value in process.environment.items():
            if found.get(name) in (None, "cpu"):
                found[name] = value
    return {name: found[name] for name in ("torch", "python", "device") if name in found}


def _trace(
    group: _Group, compilations: Sequence[Compilation], again: Sequence[Recompile], ranks: Mapping[int, bool]
) -> Trace:
    mode_known = any(each.backward or each.inference for each in compilations)
    phases = compile_times.phases((row for each in compilations for row in each.rows), KERNELS)
    return Trace(
        processes=tuple(
            TracedProcess(process.file, process.rank, len(some), _seconds(some), process.lacks())
            for process, _, some in group.found
        ),
        seconds=_seconds(compilations),
        phases=phases,
        compile_times=tuple(_compile_times(group)),
        lacks=NEVER if mode_known else (NO_MODE, *NEVER),
        mode_known=mode_known,
        advice=tuple(advice(again, _behind(group))),
        differences=tuple(rank_differences.find(group.found, ranks)),
        kernels=kernels.find(group.found),
    )


def _behind(group: _Group) -> Mapping[tuple[str, int, str], Behind]:
    """Return other facts about recompiled functions, by file, line and symbol."""
    found: dict[tuple[str, int, str], Behind] = {}
    for _, names, some in group.found:
        for each in some:
            place = each.place
            if place is None:
                continue
            key = names.path(place.path), place.line, names.symbol(place.path, place.line, place.name)
            needed = {name: f"{names.path(path)}:{line}" if path else "" for name, (path, line) in each.needed.items()}
            before = found.get(key, Behind())
            found[key] = Behind({**needed, **before.needed}, before.settings or each.settings)
    return found


def _seconds(some: Iterable[Compilation]) -> float:
    phases = compile_times.phases((row for each in some for row in each.rows), KERNELS)
    return round(sum((seconds for _, seconds in phases), 0.0), 4)


def _compile_times(group: _Group) -> list[CompileTime]:
    """Return compile times by function, the longest first; a part that was resumed after a break counts for its
    function."""
    by_frame: dict[Frame, list[Compilation]] = defaultdict(list)
    for _, names, some in group.found:
        for each in some:
            if each.place is not None:
                by_frame[names.whole_function(each.place)].append(each)
    found = [
        CompileTime(
            frame.path,
            frame.line,
            frame.symbol,
            len(some),
            _seconds(some),
            compile_times.phases((row for each in some for row in each.rows), KERNELS),
        )
        for frame, some in by_frame.items()
    ]
    return sorted(found, key=lambda time: (-time.seconds, time.path, time.line, time.symbol))


def _stages(seen: Observation, group: _Group) -> Iterator[Stage]:
    for name in STAGES:
        if name == "parse" and group.root is not None:
            yield Stage(name, "pass", "read, not executed")
        elif name == "capture":
            yield _capture(seen, group)
        elif name == "backend" and (inductor := dict(seen.trace.phases if seen.trace else ()).get("inductor")):
            detail = f"the job compiled with Inductor in {inductor:.2f} s; its outputs were not compared"
            yield Stage(name, "not_run", detail, reason="not_asked")
        else:
            yield Stage(name, "not_run", ELSEWHERE, reason="not_asked")


def _capture(seen: Observation, group: _Group) -> Stage:
    for _, names, some in group.found:
        for each in some:
            if each.raised is not None:
                return Stage("capture", "fail", _failure(each, names), reason="compile_error")
    if not any(each.row is not None for _, _, some in group.found for each in some):
        return Stage("capture", "not_run", "the trace holds the end of no compilation", reason="not_asked")
    apart = next((each for each in seen.trace.differences if each.hangs), None) if seen.trace else None
    if apart is not None:
        detail = f"ranks compile different collectives, in which they hang or die: {apart.words()}"
        return Stage("capture", "fail", detail, reason="mismatch")
    count = len(seen.graphs)
    words = f"{count} graph{'' if count == 1 else 's'}, {CaptureFailures.of(seen).summary()}, by the trace of a job"
    return Stage("capture", "pass", words)


def _failure(each: Compilation, names: TraceNames) -> str:
    """Return the error of a compilation, and the user's line that raised it."""
    row = each.row or {}
    path, line = row.get("fail_user_frame_filename"), row.get("fail_user_frame_lineno")
    words = to_schema.ADDRESS.sub("", each.raised or "")
    return f"{words} ({names.path(path)}:{line})" if isinstance(path, str) and isinstance(line, int) else words


def _of_nothing(named: Sequence[str], processes: Sequence[Process]) -> Observation:
    """Return the result for a trace in which no code was compiled, or that is too incomplete."""
    detail = "the trace holds no compilation"
    stages = tuple(
        Stage(name, "not_run", detail if name == "capture" else ELSEWHERE, reason="not_asked") for name in STAGES
    )
    listed = tuple(TracedProcess(process.file, process.rank, 0, 0.0, process.lacks()) for process in processes)
    trace = Trace(listed, 0.0, lacks=(NO_MODE, *NEVER), mode_known=False)
    return Observation(named[0], None, "infer", stages, _environment(processes), trace=trace)


# What to say of the files


def _conditions(processes: Iterable[Process]) -> Iterator[str]:
    for process in processes:
        if lacks := process.lacks():
            yield f"{process.file}: {lacks}: this report may be incomplete"


def _pointed_at(seen: Observation) -> Iterator[str]:
    """Return the display paths of the places in a report."""
    yield from (site.path for site in seen.break_sites if site.origin == "own")
    yield from (frame.path for frame in seen.skipped_frames if not frame.benign and frame.origin == "own")
    yield from (event.path for event in seen.recompiles if event.origin == "own")
    yield from (graph.path for graph in seen.graphs)


def _not_here(paths: Iterable[str]) -> Iterator[str]:
    """Return a warning about the job's own files that are not here."""
    for path in sorted(paths):
        folder = path.rpartition("/")[0] or "/"
        yield (
            f"the source of {path} is not here: call this in the project's folder, or say where it is with "
            f"`--trace-root {folder}=FOLDER`"
        )


def _changed(processes: Iterable[tuple[Process, TraceNames]]) -> Iterator[tuple[str, str]]:
    """Return files of the job with a different source here, as far as the trace has lines of them, each with a
    warning."""
    apart = (
        "what the job shows of it stands under the job's path: take the version that the job ran to see both together"
    )
    for process, names in processes:
        for each in process.compilations:
            place = each.place
            if place is not None and names.is_user(place.path) and not names.fits(place):
                where = f"there {place.name} begins at line {place.line}"
                yield place.path, f"{names.path(place.path)} is not what the job ran: {where}; {apart}"
            for text in (*each.breaks, each.error):
                for path, line, source in STACK_TEXT.findall(text):
                    here = names.text(path, int(line)) if names.is_user(path) else None
                    if here is not None and here != source.strip():
                        where = f"line {line} was `{source.strip()[:80]}` there"
                        yield path, f"{names.path(path)} is not what the job ran: {where}; {apart}"
