"""Find what the ranks of a job compiled differently, function by function.

Each rank compiles for itself. A rank that compiles again, or that misses a cache, keeps the others waiting in their
next collective; ranks with other collectives in their graphs wait for each other until the job is ended.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from tcready.schema.code_line import Frame
from tcready.schema.enums import Origin
from tcready.schema.parallel import RankSide
from tcready.schema.run import TracedDifference
from tcready.traces.path_mapping import TraceNames
from tcready.traces.process_trace import Compilation, Process

SHOWN = 6
"""Maximum number of compilations that are named."""
CACHE_WORDS = {"fx_graph": "Inductor's cache", "aotautograd": "AOTAutograd's cache"}
Found = Sequence[tuple[Process, TraceNames, list[Compilation]]]
Versions = Mapping[int, Sequence[Compilation]]
"""By rank, the compilations of one function."""
_Compare = Callable[[Versions], Iterator[tuple[Mapping[int, str], int | None]]]
"""A comparison: it yields the result of each rank, and the number of the compilation if one of them differs."""


def ranks_of(processes: Iterable[Process]) -> Mapping[int, bool]:
    """Return the ranks with a file, and True for those with files that are not truncated or damaged."""
    whole: dict[int, bool] = {}
    for process in processes:
        if process.rank is not None:
            whole[process.rank] = whole.get(process.rank, True) and not process.condition.words()
    return dict(sorted(whole.items()))


def find(found: Found, ranks: Mapping[int, bool]) -> Iterator[TracedDifference]:
    """Yield what the ranks compiled differently, of the code of one target: the collectives first.

    Args:
        found: The compilations of the target, by process.
        ranks: Every rank of the job, with True if its files are whole.
    """
    if len(ranks) < 2:
        return
    functions: dict[Frame, dict[int, list[Compilation]]] = {}
    origins: dict[Frame, Origin] = {}
    for process, names, some in found:
        for each in some:
            if each.place is None or process.rank is None:
                continue
            place = names.whole_function(each.place)
            origins.setdefault(place, names.origin(each.place.path))
            functions.setdefault(place, {rank: [] for rank in ranks})[process.rank].append(each)
    kinds: tuple[tuple[Literal["compilations", "collectives", "cache"], _Compare], ...] = (
        ("collectives", _collectives),
        ("compilations", _compilations),
        ("cache", _caches),
    )
    for kind, compare in kinds:
        for place, versions in functions.items():
            for sides, version in compare(versions):
                yield TracedDifference(
                    kind=kind,
                    place=place,
                    sides=tuple(RankSide(rank, text) for rank, text in sides.items()),
                    version=version,
                    everywhere=all(versions.values()),
                    whole=all(ranks.values()),
                    origin=origins[place],
                )


def _compilations(versions: Versions) -> Iterator[tuple[Mapping[int, str], None]]:
    """Compare how often ranks compiled a function."""
    if len({len(some) for some in versions.values()}) > 1:
        yield {rank: _counted(some) for rank, some in versions.items()}, None


def _counted(some: Sequence[Compilation]) -> str:
    if not some:
        return "not compiled"
    names = ", ".join(each.name for each in some[:SHOWN]) + (", ..." if len(some) > SHOWN else "")
    times = "once" if len(some) == 1 else f"{len(some)} times"
    return f"compiled {times} ({names})" + ("" if some[-1].row is not None else ", the last without an end")


def _in_common(versions: Versions) -> Iterator[tuple[int, Mapping[int, Compilation]]]:
    """Yield the number of each compilation that every rank made, from 1, and the compilation of each rank."""
    for number, some in enumerate(zip(*versions.values(), strict=False), 1):
        yield number, dict(zip(versions, some, strict=True))


def _collectives(versions: Versions) -> Iterator[tuple[Mapping[int, str], int]]:
    """Compare the collectives in the graphs of each version, and the order in which Inductor runs them."""
    for number, some in _in_common(versions):
        sides = {rank: each.collectives for rank, each in some.items()}
        cached = any((cache, "hit") in each.caches for each in some.values() for cache in CACHE_WORDS)
        if _alike(sides) and not cached and all(each.row is not None for each in some.values()):
            sides = {rank: each.schedule for rank, each in some.items()}
        if not _alike(sides):
            yield _first_apart(sides), number


def _alike(sides: Mapping[int, Sequence[str]]) -> bool:
    return len({tuple(side) for side in sides.values()}) == 1


def _first_apart(sides: Mapping[int, Sequence[str]]) -> Mapping[int, str]:
    """Return how many collectives each rank has, and the first that differs."""
    shortest = min(len(side) for side in sides.values())
    index = next((at for at in range(shortest) if len({side[at] for side in sides.values()}) > 1), shortest)

    def words(side: Sequence[str]) -> str:
        count = f"{len(side)} collective{'' if len(side) == 1 else 's'}" if side else "no collective"
        return f"{count}, number {index + 1} is {side[index]}" if index < len(side) else count

    return {rank: words(side) for rank, side in sides.items()}


def _caches(versions: Versions) -> Iterator[tuple[Mapping[int, str], None]]:
    """Compare the caches in which ranks found the versions that all of them compiled."""
    common = [some for _, some in _in_common(versions)]
    found: dict[int, list[tuple[tuple[str, str], ...]]] = defaultdict(list)
    for some in common:
        if all(each.caches for each in some.values()):
            for rank, each in some.items():
                found[rank].append(tuple(each.caches))
    if len({tuple(each) for each in found.values()}) > 1:
        yield {rank: _searched(search for each in some for search in each) for rank, some in found.items()}, None


def _searched(searches: Iterable[tuple[str, str]]) -> str:
    """Format `Inductor's cache: 1 hit, 2 misses`."""
    counts = Counter(searches)
    return "; ".join(
        f"{words}: "
        + ", ".join(
            f"{count} {state if count == 1 else state + ('es' if state != 'hit' else 's')}"
            for (named, state), count in sorted(counts.items())
            if named == cache
        )
        for cache, words in CACHE_WORDS.items()
        if any(named == cache for named, _ in counts)
    )
