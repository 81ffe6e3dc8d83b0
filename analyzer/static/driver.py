"""The only entry to the static pass: targets to a StaticResult, with the cache and several processes.

Production, tests, fuzzing and benchmarks all go through `read`. Units that the cache does not know are examined here or
in a pool of processes.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tcready.portable.options import ReadOptions, ReportOptions
from tcready.portable.target import Target
from tcready.schema.enums import TcreadyError
from tcready.schema.progress import Progress
from tcready.schema.report import Tool
from tcready.schema.static import RuleText, Skipped, StaticResult
from tcready.schema.value_class import dataclass
from tcready.static.cache import About, Cache, cache_key
from tcready.static.diagnostics.rule_texts import RuleTexts
from tcready.static.frontend.file_cache import Disk
from tcready.static.frontend.interpreter_settings import SHARED
from tcready.static.unit_results import UnitResult, codes, combine, ignoring
from tcready.static.units import Unit, units

if TYPE_CHECKING:
    from tcready.static.diagnostics.diagnose import Suggest
    from tcready.static.diagnostics.rule import Rule
    from tcready.static.frontend.index import Library

CHUNK = 1_000_000
"""Bytes of source that share one reading of what they import: what was read is dropped after each chunk."""
LEAST = 150_000
"""Fewer than so many are not worth a reading of their own."""
NAMED = 300_000
"""A class of an installed package counts for so many bytes: what it reaches."""
GARBAGE = 300_000
"""Objects since the last collection: a chunk leaves 60,000 that hold each other, some 10 MB."""
WORTH_A_PROCESS = 1_000_000
"""Bytes of source that take longer to analyse than a process takes to start."""
MAX_JOBS = 8


@dataclass(frozen=True)
class RuleSet:
    """The sources of rules and edits. They are passed in: the static half imports neither. All can be pickled."""

    load: Callable[[], tuple[Rule, ...]]
    """Every rule, by code."""
    tool: Callable[[], Tool]
    suggest: Suggest | None = None
    suggesting: Callable[[Path | None], AbstractContextManager[Suggest]] | None = None
    """Returns the same suggestions from a separate process, which loads its modules before anything is read: given a file
    that will be read, if one is known."""
    packages: tuple[str, ...] = ()
    """Packages with code that decides results: a change there makes every cache entry invalid. `a.b.*` is a package with
    all that is below it."""


@dataclass(frozen=True)
class ReadResult:
    """The static result, the rules that were applied, and the tool."""

    result: StaticResult
    rules: Mapping[str, RuleText]
    """By code. The text of a rule that found nothing is read when it is asked for."""
    tool: Tool
    missing: tuple[str, ...] = ()
    """Targets, of several, that are not there, as they were named: each is in `result.skipped`, too."""


def read(
    targets: Sequence[str],
    options: ReadOptions,
    rules: RuleSet,
    report: ReportOptions | None = None,
    *,
    cache: bool = False,
    jobs: int | None = 1,
    progress: Callable[[Progress], None] | None = None,
) -> ReadResult:
    """Read files, folders, `path.py::Name` and `pkg.mod::Name`; nothing of theirs is executed.

    With `cache`, results are kept in `.tcready_cache` below the root. `jobs` processes read, None for as many as pay;
    more than one needs a main module that can be imported. A file that cannot be read, or that is not there, and a name
    that is not there, is in `skipped`; the others are still analysed. Raises TcreadyError if nothing that was named is
    there, and for a rule code that matches no rule. `progress` is called after each unit that was read, or group of units
    if several processes read.
    """
    report = report or ReportOptions()
    key = cache_key(options, rules.packages) if cache else None
    store = _open_cache(options, key)
    known = store.about() if store is not None else None
    about = known or About(tuple(rule.code for rule in rules.load()), (), rules.tool())
    texts = RuleTexts(about.codes, rules.load, about.texts)
    question = Question(texts, about.tool, report, options.root)
    wanted, missing = _resolve_targets(targets, options)
    found = {unit: store.part(unit) if store is not None else None for unit in wanted}
    unknown = [unit for unit, part in found.items() if part is None]
    shown = _ProgressCounter(progress, len(wanted), len(wanted) - len(unknown)) if progress is not None else None
    parts: dict[Unit, UnitResult | TcreadyError | None] = {
        **found,
        **dict(_read_units(unknown, options, rules, key, jobs, shown)),
    }
    missing |= {unit.target: part for unit, part in parts.items() if isinstance(part, TcreadyError)}
    read = [part for part in parts.values() if isinstance(part, UnitResult)]
    if missing and not read:
        raise next(iter(missing.values()))
    found_there = question.result(read)
    if store is not None:
        named = {finding.rule for finding in (*found_there.result.findings, *found_there.result.hidden)}
        named |= {text.code for text in about.texts}
        needed = tuple(texts[code] for code in texts if code in named)
        if known is None or len(needed) > len(about.texts):
            store.keep_about(replace(about, texts=needed))
    skipped = (Skipped(target, _why_missing(target, error)) for target, error in missing.items())
    return replace(
        found_there,
        result=replace(found_there.result, skipped=(*found_there.result.skipped, *skipped)),
        missing=tuple(missing),
    )


def _resolve_targets(targets: Sequence[str], options: ReadOptions) -> tuple[list[Unit], dict[str, TcreadyError]]:
    """Return the units of all targets, and the errors of those that do not exist."""
    found: list[Unit] = []
    missing: dict[str, TcreadyError] = {}
    for target in targets:
        try:
            found += units([target], options.root, options.exclude)
        except TcreadyError as error:
            missing[target] = error
    return list(dict.fromkeys(found)), missing


def _why_missing(target: str, error: TcreadyError) -> str:
    """Return the message without the name of the target, or of its file, in front."""
    named = (f"{target}: ", f"{Target.parse(target).place}: ")
    return next((str(error).removeprefix(each) for each in named if str(error).startswith(each)), str(error))


class _ProgressCounter:
    """Counts the units that are read, and reports each change."""

    def __init__(self, progress: Callable[[Progress], None], of: int, done: int) -> None:
        self._progress, self._of, self._done = progress, of, done

    def add(self, count: int) -> None:
        self._done += count
        self._progress(Progress("reading", "reading the sources", self._done, self._of))


class Question:
    """The report's options, resolved before anything is read. Raises TcreadyError for an unknown rule code."""

    def __init__(self, texts: Mapping[str, RuleText], tool: Tool, report: ReportOptions, root: Path) -> None:
        self._texts, self._tool = texts, tool
        self._there = list(texts)
        self._select, self._ignore = codes(report.select, self._there), codes(report.ignore, self._there)
        self._ignored = ignoring(report, self._there, root)

    def result(self, parts: Sequence[UnitResult]) -> ReadResult:
        """Return the parts as one result."""
        found = combine(parts, self._select, self._ignore, self._there, self._ignored)
        return ReadResult(found, self._texts, self._tool)


def _open_cache(options: ReadOptions, key: str | None) -> Cache | None:
    return Cache(options.root, key, Disk()) if key is not None else None


def _read_units(
    units: Sequence[Unit],
    options: ReadOptions,
    rules: RuleSet,
    key: str | None,
    jobs: int | None,
    shown: _ProgressCounter | None,
) -> Iterator[tuple[Unit, UnitResult | TcreadyError]]:
    """Yield each unit with its result, or the error if it does not exist, in order."""
    sizes = [_size(unit) for unit in units]
    paying = min(sum(sizes) // WORTH_A_PROCESS + 1, _processors(), MAX_JOBS)
    processes = min(jobs if jobs is not None else paying, len(units))
    chunks = list(_chunks(units, sizes, processes))
    if processes <= 1 or len(chunks) <= 1:
        beside = rules.suggesting if chunks and jobs != 1 and _has_idle_processor() else None
        with beside(chunks[0][0].path) if beside is not None else nullcontext(rules.suggest) as suggest:
            for chunk in chunks:
                last = chunk is chunks[-1]
                found = _examine(chunk, options, replace(rules, suggest=suggest), key, last=last, shown=shown)
                yield from zip(chunk, found, strict=True)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    before = multiprocessing.active_children()
    executor = ProcessPoolExecutor(min(processes, len(chunks)), context, _prepare)
    try:
        waiting = [(chunk, executor.submit(_examine, chunk, options, rules, key)) for chunk in chunks]
        for chunk, future in waiting:
            try:
                parts = future.result()
            except BrokenProcessPool:  # one was killed, or cannot start: a main module that must not be imported
                parts = _examine(chunk, options, rules, key)
            if shown is not None:
                shown.add(len(chunk))
            yield from zip(chunk, parts, strict=True)
    except BaseException:  # interrupted, or a name is not there: nobody waits for the rest
        for process in multiprocessing.active_children():
            if process not in before:
                process.terminate()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


def _processors() -> int:
    """Return the number of processors that this process may use, if the system reports it."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _has_idle_processor() -> bool:
    """Return whether a second process would not take this one's time, as far as the system reports it: Linux counts
    running processes."""
    if _processors() < 2:
        return False
    try:
        running = int(Path("/proc/loadavg").read_text("ascii").split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return True
    return running < (os.cpu_count() or 1)  # with this process


def _size(unit: Unit) -> int:
    try:
        return unit.path.stat().st_size if unit.path is not None else NAMED
    except OSError:
        return 0


def _chunks(units: Sequence[Unit], sizes: Sequence[int], processes: int) -> Iterator[tuple[Unit, ...]]:
    """Run of units, each of CHUNK bytes or of half a process's share of what is left if that is less, so that all
    processes end at about the same time."""
    chunk: list[Unit] = []
    size_so_far, left = 0, sum(sizes)
    for unit, size in zip(units, sizes, strict=True):
        share = left if processes <= 1 else max(left // (2 * processes), LEAST)
        if chunk and size_so_far + size > min(CHUNK, share):
            yield tuple(chunk)
            left -= size_so_far
            chunk, size_so_far = [], 0
        chunk.append(unit)
        size_so_far += size
    if chunk:
        yield tuple(chunk)


def _prepare() -> None:
    """A process of the pool leaves interrupts to its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _examine(
    units: Sequence[Unit],
    options: ReadOptions,
    rules: RuleSet,
    key: str | None,
    *,
    last: bool = False,
    shown: _ProgressCounter | None = None,
) -> list[UnitResult | TcreadyError]:
    """Analyze some units, over one library of shared sources; store the results if there is a cache.

    Garbage is collected only if there is much of it, and not if these units are the last: all sources stay in memory to
    the end, and traversing them repeatedly took a third of the time.
    """
    from tcready.static.frontend.index import Library

    library = Library()
    with SHARED.reading():
        try:
            return _read_units_here(units, options, rules, key, library, shown)
        finally:
            if not last:
                library.take_apart()
                if gc.get_count()[0] > GARBAGE:
                    gc.collect()


def _read_units_here(
    units: Sequence[Unit],
    options: ReadOptions,
    rules: RuleSet,
    key: str | None,
    library: Library,
    shown: _ProgressCounter | None,
) -> list[UnitResult | TcreadyError]:
    from tcready.static.unit_analysis import analyze_unit

    all_rules = rules.load()
    store = _open_cache(options, key)
    parts: list[UnitResult | TcreadyError] = []
    for unit in units:
        try:
            part, reading = analyze_unit(unit, all_rules, options, rules.suggest, library)
        except TcreadyError as error:  # what the unit names is not there
            parts.append(error)
        else:
            parts.append(part)
            if store is not None:
                store.keep(unit, part, reading, library.disk)
        if shown is not None:
            shown.add(1)
    return parts
