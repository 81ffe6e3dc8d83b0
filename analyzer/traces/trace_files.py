"""Read the files of a trace, line by line.

Torch writes one file for each process (`torch/_logging/_internal.py`: LazyTraceHandler, TorchLogsFormatter). An event
is a line with the prefix of a log and a JSON object; the first key is the kind of the event. Its payload, if any,
follows in lines that begin with a tab. A job may write gigabytes, nearly all of it code of graphs and kernels. Payloads
that are not requested are skipped, so memory does not depend on the size of a file.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast

from tcready.schema.enums import TcreadyError

NAMED = "dedicated_log_torch_trace_"
"""Prefix of the file names that torch chooses."""
ENDINGS = (".log", ".log.gz", ".txt", ".txt.gz")
"""Suffixes of files that may be a trace under another name; a tool that collects logs chooses its own."""
PAGES = "compile_directory.json"
"""A file in each folder that tlparse writes: one folder, or, for the pages of all ranks, one for each rank."""
COPY = "raw.log"
"""The copy of the trace beside it."""
FIRST = 50
"""Number of lines of such a file that are searched for an event."""
LONGEST = 32 << 20
"""Maximum bytes of a line. A longer one is not from torch, which keeps them below 1 MB."""
BLOCK = 1 << 20
"""Bytes per read."""
TAB = ord("\t")
NO_PAYLOAD = re.compile(rb"\n(?=[^\t])")
"""End of a line that is not followed by a payload."""
DIGEST = re.compile(rb'"has_payload": ?"([0-9a-f]{32})"')
"""The MD5 digest of the payload in an event's line."""
EVENT = re.compile(rb'(?:\[rank\d+\]:)?[VIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ [^\n]*?:\d+\] (?=\{"([A-Za-z0-9_.-]+)")')
"""The prefix of an event's line, and the name of its first key, which is the event's kind."""


@dataclass(frozen=True)
class TraceEvent:
    """One event: its kind, its JSON object, and the requested part of its payload."""

    kind: str
    data: Mapping[str, Any]
    payload: str | None = None
    """None if it has none, or it was not requested."""
    whole: bool = True
    """The payload is intact, according to the digest in the event."""


@dataclass
class TraceCondition:
    """Problems of a file that is not a trace, or is damaged."""

    events: int = 0
    foreign: int = 0
    """Lines that neither are nor belong to an event."""
    unreadable: int = 0
    """Events with JSON that cannot be read."""
    damaged: int = 0
    """Payloads that differ from what was written."""
    cut: bool = False
    """The last line has no end, or the file cannot be read to its end."""

    def words(self) -> str:
        """Return the problems, in a few words; empty if there are none."""
        if not self.events:
            if self.foreign:
                return "no event of a trace is in it"
            return "cut short before the end of its first event" if self.cut else "empty"
        found = ["cut short in the middle of a line"] if self.cut else []
        for count, one, many in (
            (self.foreign, "line that is none of a trace", "lines that are none of a trace"),
            (self.unreadable, "event that cannot be read", "events that cannot be read"),
            (self.damaged, "event whose text is not whole", "events whose texts are not whole"),
        ):
            if count:
                found.append(f"{count} {one if count == 1 else many}")
        return ", ".join(found)


def find_files(named: str, root: Path) -> list[Path]:
    """Return the files of a trace: a named file, or those in a folder and below, by name.

    Of a folder that tlparse wrote, these are its copies of the trace; its other files are parts of that.

    Raises TcreadyError if there are none.
    """
    path = root / named
    if path.is_file():
        if not _is_trace(path):
            raise TcreadyError(f"{named} is no trace of torch: name what a job wrote under TORCH_TRACE")
        return [path]
    if not path.is_dir():
        raise TcreadyError(f"there is no file or folder {named}: name the TORCH_TRACE of a job")
    files = sorted(each for each in path.rglob("*") if each.is_file())
    by_name = [each for each in files if each.name.startswith(NAMED)]
    pages = sorted({each.parent for each in files if each.name == PAGES})
    if pages and not by_name:
        return _copies(named, pages)
    traces = by_name or [each for each in files if each.name.endswith(ENDINGS) and _is_trace(each)]
    if not traces:
        raise TcreadyError(
            f"there is no trace of torch in {named}: run the job with TORCH_TRACE={named}, and name that folder"
        )
    return traces


def _copies(named: str, pages: Sequence[Path]) -> list[Path]:
    """Return the copy of the trace in each folder of tlparse. Raises TcreadyError if one has none."""
    copies = [folder / COPY for folder in pages]
    for copy in copies:
        if not copy.is_file() or not _is_trace(copy):
            raise TcreadyError(
                f"{named} was written by tlparse, and no trace is in it ({copy.parent.name}/{COPY}): name the folder "
                "that the job wrote under TORCH_TRACE"
            )
    return copies


def name_of(path: Path) -> str:
    """Return the name of a file for reports: with its folder if tlparse wrote it, because it names each copy alike."""
    return f"{path.parent.name}/{path.name}" if path.name == COPY else path.name


def _is_trace(path: Path) -> bool:
    """Return True if one of the first lines is an event."""
    try:
        with _open(path) as file:
            return path.name.startswith(NAMED) or any(
                EVENT.match(file.readline(LONGEST)) is not None for _ in range(FIRST)
            )
    except (OSError, EOFError, zlib.error):
        return path.name.startswith(NAMED)


def _open(path: Path) -> BufferedIOBase:
    """Open the bytes of a file, decompressed if they are gzip, whatever its name. Raises OSError."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if packed else path.open("rb")


@dataclass
class _Payload:
    """The stored part of the payload that is being read."""

    limit: int
    """Maximum number of bytes to store; the rest only counts for the digest."""
    lines: list[bytes] = field(default_factory=list)
    size: int = 0
    any: bool = False
    """There was a line of it."""
    digest: Any = None

    def add(self, line: bytes) -> None:
        if not self.limit:
            return
        if self.digest is None:
            self.digest = hashlib.md5(usedforsecurity=False)
        self.digest.update(b"\n" + line if self.any else line)
        self.any = True
        if self.size < self.limit:
            self.lines.append(line)
        self.size += len(line) + 1


def events(
    path: Path, wanted: Callable[[str, Mapping[str, Any]], int | None], seen: TraceCondition
) -> Iterator[TraceEvent]:
    """Yield the events of one file, in order.

    Args:
        path: The file.
        wanted: Called with an event's kind and its JSON object (empty in the first call); returns how many bytes of its
            payload to store, or None to skip the event. It is called twice, the first time with the kind alone.
        seen: Collects problems of the file; they are not raised.

    Raises:
        TcreadyError: The file cannot be opened.
    """
    try:
        file = _open(path)
    except OSError as error:
        raise TcreadyError(f"{path}: {error.strerror or error}") from None
    with file:
        yield from _events(_Lines(file, seen), wanted, seen)


class _Lines:
    """The lines of a file, read block by block."""

    def __init__(self, file: BufferedIOBase, seen: TraceCondition) -> None:
        self._file = file
        self._seen = seen
        self._buffer = b""
        self._at = 0
        """Position of the next line in the buffer."""
        self._read = 0

    @property
    def place(self) -> int:
        """Return the number of bytes before the next line."""
        return self._read - len(self._buffer) + self._at

    def digest_from(self, place: int) -> str:
        """Return the digest of a payload that begins there and is the last of the file; nothing can be read
        afterwards."""
        self._at = place - (self._read - len(self._buffer))
        if self._at < 0:  # gone from the buffer; what gzip made is then unpacked again from its beginning
            self._file.seek(place)
            self._buffer, self._at, self._read = b"", 0, place
        payload = _Payload(1)
        while (line := self.next()) is not None:
            payload.add(line[1:])
        return str(payload.digest.hexdigest()) if payload.digest is not None else ""

    def next(self) -> bytes | None:
        """Return the next line without its end; None after the last.

        A line that is longer than any of torch's is returned empty.
        """
        long = False
        while True:
            end = self._buffer.find(b"\n", self._at)
            if end >= 0:
                line = b"" if long else self._buffer[self._at : end]
                self._at = end + 1
                return line.removesuffix(b"\r")
            if len(self._buffer) - self._at > LONGEST:
                long = True
                self._at = len(self._buffer)
            if not self._more():
                rest = self._buffer[self._at :]
                self._at = len(self._buffer)
                self._seen.cut |= bool(rest) or long
                return rest or None

    def skip_payload(self) -> None:
        """Skip the following lines that begin with a tab."""
        if self._at == len(self._buffer) and not self._more():
            return
        if self._buffer[self._at] != TAB:
            return
        while True:
            match = NO_PAYLOAD.search(self._buffer, self._at)
            if match:
                self._at = match.end()
                return
            whole = self._buffer.endswith(b"\n")
            self._at = len(self._buffer) - whole  # the byte behind a line's end decides what the next line is
            if not self._more():
                self._at = len(self._buffer)
                self._seen.cut |= not whole
                return

    def _more(self) -> bool:
        """Read another block; return False after the last."""
        block = b"".join(self._parts())
        if not block:
            return False
        self._buffer, self._at = self._buffer[self._at :] + block, 0
        self._read += len(block)
        return True

    def _parts(self) -> Iterator[bytes]:
        """Yield the parts of a block as they are decompressed: for a truncated archive, everything before the cut."""
        left = BLOCK
        while left:
            try:
                part = self._file.read1(left)
            except (OSError, EOFError, zlib.error):
                self._seen.cut = True
                return
            if not part:
                return
            yield part
            left -= len(part)


def _events(
    lines: _Lines, wanted: Callable[[str, Mapping[str, Any]], int | None], seen: TraceCondition
) -> Iterator[TraceEvent]:
    line = lines.next()
    passed_by: tuple[bytes, int] | None = None
    while line is not None:
        match = EVENT.match(line)
        passed_by = None
        if match is None:
            seen.foreign += not seen.cut  # the last line then has no end
            line = lines.next()
            continue
        seen.events += 1
        kind = match[1].decode("ascii")
        data = _object(line[match.end() :], seen) if wanted(kind, {}) is not None else None
        limit = wanted(kind, data) if data is not None else None
        if not limit:
            passed_by = line, lines.place
            lines.skip_payload()
        if data is None or limit is None:
            line = lines.next()
            continue
        payload = _Payload(limit)
        line = lines.next()
        while line is not None and line.startswith(b"\t"):
            payload.add(line[1:])
            line = lines.next()
        yield _closed(kind, data, payload, seen)
    # A file that was cut at the end of a line of its last text ends like a whole one.
    if passed_by is not None and not seen.cut:
        known = DIGEST.search(passed_by[0])
        seen.damaged += known is not None and lines.digest_from(passed_by[1]) != known[1].decode("ascii")


def _object(text: bytes, seen: TraceCondition) -> Mapping[str, Any] | None:
    """Return the JSON object of an event; None if it cannot be read."""
    try:
        data: Mapping[str, Any] = json.loads(text)
        return cast("Mapping[str, Any]", _without_surrogates(data)) if b"\\u" in text else data
    except (ValueError, RecursionError):
        seen.unreadable += not seen.cut
        return None


def _without_surrogates(value: Any) -> Any:
    """Replace lone surrogates, which JSON can represent and files cannot."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(name): _without_surrogates(item) for name, item in value.items()}
    return value


def _closed(kind: str, data: Mapping[str, Any], payload: _Payload, seen: TraceCondition) -> TraceEvent:
    """Return the event once its payload has ended."""
    if not payload.limit:
        return TraceEvent(kind, data)
    known = data.get("has_payload")
    whole = known is None or (payload.digest is not None and payload.digest.hexdigest() == known)
    seen.damaged += not whole
    text = b"\n".join(payload.lines)[: payload.limit].decode("utf-8", "replace") if payload.any else None
    return TraceEvent(kind, data, text, whole)
