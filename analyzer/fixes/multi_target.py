"""Combine the changes for several targets into one patch that must pass in each of them.

The changes for one target are included or left out together, because they were verified together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tcready.fixes.patching import ChangedFile
from tcready.portable.options import RunOptions
from tcready.schema.edit import Edit
from tcready.schema.enums import TcreadyError
from tcready.schema.observation import Observation
from tcready.schema.proof import FixChange, FixedTarget, FixResult
from tcready.source.edits import apply_edits, between

OVERLAPS = "it overlaps a change for another target: run fix again"
_Key = TypeVar("_Key")


@dataclass(frozen=True)
class Fixed:
    """The changes that were found, and the changed files."""

    result: FixResult
    files: tuple[ChangedFile, ...] = ()


@dataclass(frozen=True)
class Done:
    """The changes that were found for one target alone, with its runs before and after them."""

    target: str
    options: RunOptions
    first: Observation
    after: Observation
    fixed: Fixed
    untouched: FixResult
    """The report on it if its changes are left out."""


Again = Callable[[Done, Mapping[str, str], bool], "FixResult | str"]
"""Runs a target with these texts of files, by absolute path; returns the run, or as text, in one line, why they
fail. The last argument is True if the target's own changes are included."""


@dataclass(frozen=True)
class _Whole:
    """The files after changes for several targets, and the run of each target with them."""

    files: tuple[ChangedFile, ...]
    results: Mapping[str, FixResult]


def join_results(found: Sequence[Done], failures: Sequence[tuple[str, str]], again: Again) -> Fixed:
    """Combine what was found for several targets into one result, without patches.

    All changes are tried at once. If they do not pass in every target, they are added target by target, and those
    that conflict with earlier ones are left out.

    Args:
        found: One for each target that was run.
        failures: Targets that could not be run, each with the reason in one line.
        again: Runs a target again.
    """
    changing = [each.target for each in found if each.fixed.files]
    outcomes: dict[object, FixResult | str] = {}

    def once(each: Done, texts: Mapping[str, str], own: bool) -> FixResult | str:
        key = (each.target, own, tuple(sorted(texts.items())))
        if key not in outcomes:
            outcomes[key] = again(each, texts, own)
        return outcomes[key]

    out: dict[str, str] = {}
    whole = _together(found, set(), once)
    if isinstance(whole, str):
        left = set(changing)
        taken = _Whole((), {each.target: _alone(each, left) for each in found})
        for name in changing:
            tried = _together(found, left - {name}, once)
            if isinstance(tried, str):
                out[name] = tried
            else:
                taken, left = tried, left - {name}
        whole = taken
    return Fixed(_result(found, failures, whole.results, out), whole.files)


def _alone(each: Done, left: set[str]) -> FixResult:
    return each.untouched if each.target in left else each.fixed.result


def _together(found: Sequence[Done], left: set[str], again: Again) -> _Whole | str:
    """Combine the changes for all targets except `left`; return why they fail, in one line."""
    chosen = [each for each in found if each.target not in left]
    try:
        files = _merge_edits(chosen)
    except TcreadyError:
        return OVERLAPS
    texts = {str(file.path): file.after for file in files}
    results: dict[str, FixResult] = {}
    for each in found:
        shown: FixResult | str = _alone(each, left)
        own = {} if each.target in left else {str(file.path): file.after for file in each.fixed.files}
        if texts != own:  # it was proved with nothing but its own
            shown = again(each, texts, each.target not in left)
        if isinstance(shown, str):
            return f"in {each.target}: {shown}"
        results[each.target] = shown
    return _Whole(files, results)


def _merge_edits(chosen: Iterable[Done]) -> tuple[ChangedFile, ...]:
    """Return each file with the edits for all of these. Raises TcreadyError if two overlap, or a file changed
    meanwhile."""
    files: dict[str, ChangedFile] = {}
    edits: dict[str, list[Edit]] = {}
    for file in (file for each in chosen for file in each.fixed.files):
        path = str(file.path)
        if files.setdefault(path, file).before != file.before:
            raise TcreadyError(f"{file.shown} changed since it was read")
        edits.setdefault(path, []).extend(between(file.shown, file.before, file.after))
    return tuple(dataclasses.replace(file, after=apply_edits(file.before, edits[path])) for path, file in files.items())


def _result(
    found: Sequence[Done], failures: Sequence[tuple[str, str]], results: Mapping[str, FixResult], out: Mapping[str, str]
) -> FixResult:
    changes: dict[object, FixChange] = {}
    refused: dict[object, FixChange] = {}
    for each in found:
        for change in results[each.target].changes:
            _add(changes, _text_of(change), change, each.target)
    for each in found:
        left_out = [
            dataclasses.replace(change, reason=out[each.target])
            for change in each.fixed.result.changes
            if each.target in out
        ]
        for change in (*left_out, *results[each.target].refused):
            if _text_of(change) not in changes:
                _add(refused, (_text_of(change), change.reason), change, each.target)
    ran = [_of_target(each.target, results[each.target]) for each in found]
    dropped = [*(FixedTarget(target, failure=reason) for target, reason in failures), *ran]
    every = [results[each.target] for each in found]
    one = every[0] if len(dropped) == len(every) == 1 else None
    return FixResult(
        changes=tuple(changes.values()),
        refused=tuple(refused.values()),
        no_fix=_once(item for result in every for item in result.no_fix),
        breaks_before=sum(each.breaks_before or 0 for each in ran) if ran else None,
        breaks_after=sum(each.breaks_after or 0 for each in ran) if ran else None,
        share_before=one.share_before if one else None,
        share_after=one.share_after if one else None,
        left=_once(place for result in every for place in result.left),
        kept_out=_once(place for result in every for place in result.kept_out),
        failure="; ".join(each.failure for each in dropped if each.failure) or None,
        targets=tuple(dropped),
    )


def _of_target(target: str, result: FixResult) -> FixedTarget:
    return FixedTarget(
        target, result.breaks_before, result.breaks_after, result.share_before, result.share_after, result.failure
    )


def _add(known: dict[object, FixChange], key: object, change: FixChange, target: str) -> None:
    """Add a change to the known ones; if it is already there, add this target to it."""
    first = known.setdefault(key, change)
    known[key] = dataclasses.replace(first, targets=_once((*first.targets, target)))


def _text_of(change: FixChange) -> object:
    """Return a text that identifies a change across targets."""
    return (change.path, change.line, change.how, change.edits, change.settings, change.called_before, change.keeps_out)


def _once(items: Iterable[_Key]) -> tuple[_Key, ...]:
    return tuple(dict.fromkeys(items))
