"""Convert Dynamo's logs to values of the schema. Pure, except that a Naming reads the named sources."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from tcready.portable.events.definitions import Definition, plain_name
from tcready.portable.events.ownership import slashed
from tcready.portable.events.record import DDP_OWN, BreakEvent, Place, RecompileEvent, Record, SkipEvent
from tcready.schema.break_effect import FrameFate, worst_fates
from tcready.schema.code_line import Frame
from tcready.schema.enums import INTENDED, Action, Fate, Origin
from tcready.schema.run import BreakSite, Graph, LineSet, Recompile, SkippedFrame

STACK_LINE = re.compile(r'^\s*File "(.+?)", line ([1-9]\d{0,8})(?:, in (.+))?$', re.MULTILINE)
HEADING = re.compile(r"^(\S[^\n]*)\n  Explanation: ([^\n]*)", re.MULTILINE)
HINT = re.compile(r"^  Hint: ([^\n]*)", re.MULTILINE)
GB_LINK = re.compile(r"/gb(\d{4})\.html")
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
"""The memory address in a repr: it has no meaning, and differs from run to run."""
FORCE_SKIPPED = re.compile(r"skip reason: file is force-skipped \((.+?\.py)\)")
"""The file in Dynamo's reason to skip a function, if it is listed in FORCE_SKIP_FILES of torch/_dynamo/trace_rules.py."""
GUARD_PLACE = re.compile(r"# ([^#\s][^#\n]*?\.py):([1-9]\d{0,8}) in (\S+)")
FIRST_USE = " (user code shown is first use of this value"
"""Dynamo's addition to the line of a guard that no user code requires."""
WEIGHT: tuple[Action, ...] = ("resume", "skip_rest", "skip_frame_unlogged", "skip_frame")
"""If several actions apply to one site, the last of these is reported: it costs most."""

RawFrame = tuple[str, int, str]
"""File, line and function, as in a traceback."""


class Naming(Protocol):
    """Names files and places, and knows the owner of a file: on the machine that runs the code, or that reads its
    trace."""

    def is_user(self, path: str) -> bool:
        """Return whether frames of this file count as the user's."""

    def is_ours(self, path: str) -> bool:
        """Return whether the file is tcready's own: its callers are not part of a stack."""

    def path(self, path: str) -> str:
        """Return how the file is shown."""

    def origin(self, path: str) -> Origin: ...

    def around(self, path: str, line: int) -> Definition | None:
        """The innermost function around the line, or else the innermost class; None if the source is not available."""

    def symbol(self, path: str, line: int, name: str = "") -> str:
        """Return the qualified name, such as `Model.forward`; for code outside of definitions the plain name."""

    def frame(self, path: str, line: int, name: str) -> Frame: ...

    def guard_file(self, shown: str, place: Place) -> str | None:
        """Return the file that a guard of a frame names, which lacks the common prefix with torch's folder."""

    def break_id(self, kind: str) -> str | None:
        """Return the id ("GB0170") of a kind of break that no message contains; None if it is not known."""


def parse_stack(text: str) -> list[RawFrame]:
    """Return the frames of a printed traceback, outermost first."""
    return [(path, int(line), name or "") for path, line, name in STACK_LINE.findall(text)]


def user_stack(
    stack: list[RawFrame], is_user: Callable[[str], bool], is_ours: Callable[[str], bool]
) -> tuple[RawFrame, list[RawFrame]] | None:
    """Return the innermost user frame, and the frames to show: user frames down to it, then all below it.

    If no frame is the user's (a module of torch itself is the target) the innermost frame is used. Callers of the
    worker (a test) are not part of it. `is_user` and `is_ours` are those of a Naming.
    """
    ours = [index for index, frame in enumerate(stack) if is_ours(frame[0])]
    stack = stack[ours[-1] + 1 :] if ours and ours[-1] + 1 < len(stack) else stack
    if not stack:
        return None
    users = [index for index, frame in enumerate(stack) if is_user(frame[0])]
    if not users:
        return stack[-1], [stack[-1]]
    last = users[-1]
    return stack[last], [stack[index] for index in users] + stack[last + 1 :]


def break_sites(record: Record, names: Naming, case: str | None) -> tuple[BreakSite, ...]:
    """Return distinct sites in order of their first event; `hits` counts the events of this record."""
    sites: dict[tuple[str, int], BreakSite] = {}
    found = [_logged_site(event, names, case) for event in record.breaks]
    found += [_unlogged_site(event, names, case) for event in record.skips]
    for site in found:
        if site is None:
            continue
        key = (site.path, site.line)
        sites[key] = join_sites(sites[key], site) if key in sites else site
    return tuple(sites.values())


def refusal(error: BaseException, names: Naming) -> BreakSite | None:
    """Return the break that compiled code raised if breaks are refused; None if the error names no place."""
    return _logged_site(BreakEvent(str(error), None, False, False), names, None)


def join_sites(first: BreakSite, second: BreakSite) -> BreakSite:
    """Join two events of one place: the text of the first is used, the second adds its ids, hints and hits."""
    action = max(first.action, second.action, key=WEIGHT.index)
    ids = tuple(dict.fromkeys(first.gb_ids + second.gb_ids))
    hints = tuple(dict.fromkeys(first.hints + second.hints))
    return replace(
        first,
        action=action,
        hits=first.hits + second.hits,
        gb_ids=ids,
        hints=hints,
        by_torch=first.by_torch and second.by_torch,
        frames=worst_fates(first.frames + second.frames),
    )


def union_sites(cold: tuple[BreakSite, ...], others: tuple[BreakSite, ...]) -> tuple[BreakSite, ...]:
    """Return the sites of both runs; hits and reasons are those of the cold run if it saw the place."""
    seen = {(site.path, site.line, site.case) for site in cold}
    return cold + tuple(site for site in others if (site.path, site.line, site.case) not in seen)


def broken_at(event: BreakEvent, names: Naming) -> tuple[RawFrame, list[RawFrame]] | None:
    """Return the user's line of a logged break, and the stack to show."""
    # The text ends in the traceback of Dynamo's own code; the user's stack precedes it.
    head = event.text.split("\nTraceback (most recent call last)")[0]
    _, marker, below = head.partition("User code traceback:")
    if not marker:
        _, marker, below = head.partition("in the following user code:")
    found = user_stack(parse_stack(below or head), names.is_user, names.is_ours) or _from_place(event, event.text)
    inside_torch = found is not None and not names.is_user(found[0][0])
    return None if inside_torch and any(text in event.text for text in DDP_OWN) else found


def _logged_site(event: BreakEvent, names: Naming, case: str | None) -> BreakSite | None:
    found = broken_at(event, names)
    if found is None:
        return None
    (path, line, name), stack = found
    text = ADDRESS.sub("", event.text)
    head = text.split("\nTraceback (most recent call last)")[0]
    message = head.partition("Graph Break Reason:")[2].partition("User code traceback:")[0] or text
    headings = list(dict.fromkeys(HEADING.findall(message)))
    ids = tuple(dict.fromkeys(f"GB{number}" for number in GB_LINK.findall(message)))
    action: Action = "skip_frame" if event.skipped else "skip_rest" if event.rest else "resume"
    return BreakSite(
        names.path(path),
        line,
        names.symbol(path, line, name),
        reason_line(message),
        ids[0] if ids else None,
        1,
        names.origin(path),
        tuple(names.frame(*frame) for frame in stack),
        action,
        case,
        ids or tuple(filter(None, (names.break_id(kind) for kind, _ in headings))),
        tuple(dict.fromkeys(HINT.findall(message))),
        _fates(event, "split" if action == "resume" else "whole_frame", names),
        by_torch=_is_by_torch(message, ids, stack[-1][0], names),
    )


def _is_by_torch(message: str, ids: tuple[str, ...], innermost: str, names: Naming) -> bool:
    """Return whether torch's own code asks for a break: it calls `graph_break()` or a function that it disables, or
    Dynamo always skips the file of torch that is called."""
    if ids and INTENDED.issuperset(ids):
        return _is_of_torch(innermost, names)
    return any(_is_of_torch(path, names) for path in FORCE_SKIPPED.findall(message))


def _is_of_torch(path: str, names: Naming) -> bool:
    return not names.is_user(path) and slashed(names.path(path)).startswith("torch/")


def _fates(event: BreakEvent, fate: Fate, names: Naming) -> tuple[FrameFate, ...]:
    """Return the outcome for the functions that a break leads through: the frame under compilation and, with nested graph
    breaks, functions that were inlined in it. All of them are split except the last, in which the break was handled."""
    inlined = () if event.skipped else event.inlined
    *above, own = (event.place, *inlined)
    split = [frame for place in above for frame in _fate(place, "split", names)]
    return worst_fates((*split, *_fate(own, fate, names)))


def _fate(place: Place | None, fate: Fate, names: Naming) -> tuple[FrameFate, ...]:
    """Return the outcome for the function under compilation; empty for a part of one (a comprehension)."""
    if place is None or not names.is_user(place.path):
        return ()
    if place.name == "<lambda>":
        symbol = f"{names.symbol(place.path, place.line, place.name)}.<lambda>"
        return (FrameFate(names.path(place.path), place.line, symbol, fate),)
    around = names.around(place.path, place.line)
    if around is None or not around.function or plain_name(place.name).startswith("<"):
        return ()
    return (FrameFate(names.path(place.path), around.first, around.symbol, fate),)


def _from_place(event: BreakEvent, text: str) -> tuple[RawFrame, list[RawFrame]] | None:
    match = re.search(r"Graph break in user code at (.+?):([1-9]\d{0,8})\b", text)
    if match:
        frame = (match[1], int(match[2]), event.place.name if event.place else "")
        return frame, [frame]
    return None


def reason_line(message: str) -> str:
    """Return the root cause in one line: kind and explanation, else the first meaningful line."""
    heading = HEADING.search(message)
    if heading:
        kind, explanation = heading.groups()
        return f"{kind}: {explanation}" if explanation else kind
    lines = [line.strip() for line in message.splitlines()]
    words = [line for line in lines if line and not line.startswith(("Encountered graph", "Failed to handle"))]
    return words[0] if words else "graph break"


def _unlogged_site(event: SkipEvent, names: Naming, case: str | None) -> BreakSite | None:
    """A site at the `def` of a frame that Dynamo gave up without a log message (a generator, the recompile limit)."""
    place = event.place
    if not is_silent(event, names):
        return None
    kind = event.gb_type or event.reason
    gb_id = names.break_id(kind)
    frame = names.frame(place.path, place.line, place.name)
    return BreakSite(
        frame.path,
        frame.line,
        frame.symbol,
        f"{kind}: the whole frame runs eagerly, and Dynamo's log does not say so",
        gb_id,
        1,
        names.origin(place.path),
        (frame,),
        "skip_frame_unlogged",
        case,
        (gb_id,) if gb_id else (),
        frames=_fate(place, "whole_frame", names),
    )


def is_silent(event: SkipEvent, names: Naming) -> bool:
    """Return whether Dynamo gave up a user frame without a log message."""
    return not event.benign and not event.logged and names.is_user(event.place.path)


def skipped_frames(record: Record, names: Naming, case: str | None) -> tuple[SkippedFrame, ...]:
    """Return user frames that Dynamo gave up, each once; a resumed part of a frame counts from where it resumes."""
    found: dict[tuple[str, int, str, bool], SkippedFrame] = {}
    for event in record.skips:
        place = event.place
        if not names.is_user(place.path):
            continue
        around = names.around(place.path, place.line)
        skipped = SkippedFrame(
            names.path(place.path),
            place.line,
            names.symbol(place.path, place.line, place.name),
            event.gb_type or event.reason.split("\n")[0],
            event.benign,
            around.last if around else None,
            names.origin(place.path),
            case,
        )
        key = (skipped.path, skipped.line, plain_name(place.name), event.benign)
        found.setdefault(key, skipped)
    return tuple(found.values())


def graphs(
    record: Record, names: Naming, mode: str, case: str | None, owned: Mapping[str, Iterable[str]]
) -> tuple[Graph, ...]:
    """Return one graph per compiled frame that holds an operation; `owned` maps each compile id to its modules."""
    return tuple(
        Graph(
            frame.compile_id,
            names.path(frame.place.path),
            frame.place.line,
            frame.ops,
            frame.guards,
            "inference" if mode == "infer" else "forward",
            case,
            names.symbol(frame.place.path, frame.place.line, frame.place.name)
            if names.is_user(frame.place.path)
            else plain_name(frame.place.name),
            tuple(owned.get(frame.compile_id, ())),
            frame.seconds,
        )
        for frame in record.compiled
        if frame.ops
    )


def recompiles(record: Record, names: Naming, case: str | None, identical: bool) -> tuple[Recompile, ...]:
    return tuple(_recompile(event, names, case, identical) for event in record.recompiles)


def _recompile(event: RecompileEvent, names: Naming, case: str | None, identical: bool) -> Recompile:
    place = event.place
    lines: dict[Frame, None] = {}
    for reason in event.reasons:
        stack = [frame for frame in parse_stack(reason) if names.is_user(frame[0])]
        found = user_stack(stack, names.is_user, names.is_ours)
        if found:
            lines[names.frame(*found[0])] = None
            continue
        for shown, line, symbol in _guard_places(reason):
            if path := names.guard_file(shown, place):
                lines[names.frame(path, line, symbol)] = None
    return Recompile(
        names.path(place.path),
        place.line,
        names.symbol(place.path, place.line, place.name),
        tuple(guard_text(reason) for reason in event.reasons),
        case,
        identical,
        names.origin(place.path),
        tuple(lines),
        caller=_caller(event, names),
    )


def _caller(event: RecompileEvent, names: Naming) -> Frame | None:
    """Return the user's line that led to a recompiled function of torch's own."""
    if not _is_of_torch(event.place.path, names):
        return None
    found = next((frame for frame in reversed(event.callers) if names.is_user(frame[0])), None)
    return names.frame(*found) if found is not None else None


def _guard_places(reason: str) -> list[RawFrame]:
    """Return the lines that a guard names. The line of a value's first use, which Dynamo marks as such, counts only if
    there is no other."""
    found = list(GUARD_PLACE.finditer(reason))
    code = [match for match in found if not reason.startswith(FIRST_USE, match.end())]
    return [(match[1], int(match[2]), match[3]) for match in code or found]


def join_recompiles(found: tuple[Recompile, ...]) -> tuple[Recompile, ...]:
    """Return one value per frame and case: every reason and line, and whether the warm call recompiled it."""
    joined: dict[tuple[str, int, str, str | None], Recompile] = {}
    for item in found:
        key = (item.path, item.line, item.symbol, item.case)
        before = joined.get(key, item)
        joined[key] = replace(
            before,
            reasons=tuple(dict.fromkeys(before.reasons + item.reasons)),
            lines=tuple(dict.fromkeys(before.lines + item.lines)),
            identical_call=before.identical_call or item.identical_call,
            on_other_numbers=before.on_other_numbers or item.on_other_numbers,
            caller=before.caller or item.caller,
        )
    return tuple(joined.values())


def guard_text(reason: str) -> str:
    """Return the failed guard in one line: `0/0: self.step == 0`."""
    first = reason.split("\n")[0]
    return re.split(r"\s{2,}#", first)[0].strip()


def line_sets(lines: Iterable[tuple[str, int]], names: Naming) -> tuple[LineSet, ...]:
    """Return only user lines, as ascending ranges by file."""
    by_file: dict[str, set[int]] = {}
    for path, line in lines:
        if line > 0 and names.is_user(path):
            by_file.setdefault(path, set()).add(line)
    shown = sorted((names.path(path), found) for path, found in by_file.items())
    return tuple(LineSet(path, ranges(found)) for path, found in shown)


def ranges(lines: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return lines as inclusive ranges, ascending."""
    found: list[tuple[int, int]] = []
    for line in sorted(lines):
        if found and found[-1][1] == line - 1:
            found[-1] = (found[-1][0], line)
        else:
            found.append((line, line))
    return tuple(found)
