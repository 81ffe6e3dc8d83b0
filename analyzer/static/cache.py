"""The cache of unit results on disk, each valid until something it depends on changes.

The key of an entry is the unit, the options, tcready's own code, and the Python. The entry lists every file that was
opened and every module that was looked up. It is valid as long as each file has the same contents, and each module is
found in the same place, or still missing. So a new file earlier on the search path invalidates it, as do another `.pth`
file and a removed package. Validation costs some `stat`s and repeats exactly the look-ups of the reading.

Entries are JSON below a checksum, never pickled: a file from a stranger can be wrong, but it runs no code. An unreadable
file is no entry; if nothing can be written, nothing is stored. Loading this module loads nothing that parses or
interprets.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.util
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tcready.portable.options import ReadOptions
from tcready.schema.codec import as_json, from_json
from tcready.schema.display_paths import contents, import_name
from tcready.schema.enums import TcreadyError
from tcready.schema.report import Tool
from tcready.schema.static import RuleText
from tcready.schema.value_class import dataclass
from tcready.static.frontend import module_search
from tcready.static.frontend.file_cache import Disk, Stamp, files_in
from tcready.static.unit_results import UnitResult
from tcready.static.units import Unit

FOLDER = ".tcready_cache"
FORMAT = 2
DAY = 86_400.0
MAX_AGE_DAYS = 30
MAX_ENTRIES = 20_000
"""Entries; the least lately used go first."""
LARGEST = 256 << 20
"""Bytes of an entry; a larger file is none of ours."""
TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# Made by tcready; it may be deleted at any time.\n"


@dataclass(frozen=True)
class CachedReading:
    """The inputs of a unit's result besides its key."""

    files: tuple[Path, ...]
    lookups: Mapping[str, Path | None]
    """The modules looked up on the search path, and their files."""
    search_path: tuple[Path, ...]
    folders: Mapping[Path, tuple[str, ...]]
    """The folders that were listed, and the names of their Python files."""


@dataclass(frozen=True)
class CacheInputs:
    """The inputs of a unit's result: it is valid as long as all of them are unchanged."""

    home: Sequence[str]
    files: tuple[tuple[Path, Stamp], ...]
    lookups: Mapping[str, Path | None]
    search_path: tuple[Path, ...]
    folders: Mapping[Path, tuple[str, ...]]

    @classmethod
    def of(cls, unit: Unit, reading: CachedReading, disk: Disk) -> CacheInputs | None:
        """None if a file that was asked for could not be opened: it may be the next time."""
        stamps = [(path, disk.stamp(path)) for path in reading.files]
        known = tuple((path, stamp) for path, stamp in stamps if stamp is not None)
        if len(known) < len(stamps):
            return None
        return cls(_home(unit), known, reading.lookups, reading.search_path, reading.folders)

    def holds(self, unit: Unit, disk: Disk, but: Path | None = None) -> bool:
        """Return whether all of it is unchanged on `disk`, `but` for the contents of one file."""
        but = Path(os.path.realpath(but)) if but is not None else None
        if list(self.home) != _home(unit):
            return False
        if not all(disk.is_still(path, stamp) for path, stamp in self.files if path != but):
            return False
        if not all(files_in(folder) == then for folder, then in self.folders.items()):
            return False
        return all(disk.find(name, self.search_path) == then for name, then in self.lookups.items())


def cache_key(options: ReadOptions, packages: Iterable[str]) -> str:
    """Return one digest of all that results depend on apart from the units and the files.

    `packages` are the packages with code that decides results; `a.b.*` is a package with all that is below it. Of the
    options only `exclude` is left out: it decides which units there are.
    """
    search_path = options.search_path or module_search.default_search_path(options.root)
    decisive = dataclasses.replace(options, search_path=search_path, exclude=())
    parts = [
        *(FORMAT, sys.version),
        *((field.name, getattr(decisive, field.name)) for field in dataclasses.fields(decisive)),
        *(row for name in sorted({*packages, "libcst", "nbformat"}) for row in _code_of(name)),
    ]
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def _code_of(package: str) -> list[tuple[str, int, int]]:
    """Return the Python files, tables and pages of a package, or a module, with times and sizes: any may change in an
    editable install."""
    spec = importlib.util.find_spec(package.removesuffix(".*"))
    if spec is None or spec.origin is None:
        return []
    files = [spec.origin]
    if spec.submodule_search_locations:
        files = []
        for folder, below, names in os.walk(os.path.dirname(spec.origin)):
            files += [os.path.join(folder, name) for name in names if name.endswith((".py", ".json", ".md"))]
            below[:] = [name for name in below if name != "__pycache__"] if package.endswith(".*") else []
    return sorted((path, (found := os.stat(path)).st_mtime_ns, found.st_size) for path in files)


@dataclass(frozen=True)
class About:
    """What a report needs beside the parts."""

    codes: tuple[str, ...]
    """Of all rules."""
    texts: tuple[RuleText, ...]
    """Of the rules that found something so far."""
    tool: Tool


class Cache:
    """The entries below one working folder, for one way of asking."""

    def __init__(self, root: Path, key: str, disk: Disk) -> None:
        self._top = root / FOLDER
        self._key = key
        self._disk = disk

    def about(self) -> About | None:
        """Return the codes and texts of rules and tcready's version, None if they are not stored."""
        entry = self._read("about")
        try:
            return from_json(About, entry["about"]) if entry else None
        except (TcreadyError, LookupError, TypeError):
            return None

    def keep_about(self, about: About) -> None:
        self._write("about", {"about": as_json(about)})

    def part(self, unit: Unit) -> UnitResult | None:
        """Return the result of a unit, None if it is not stored or not valid any more."""
        entry = self._read(_question(unit))
        try:
            return from_json(UnitResult, entry["part"]) if entry and self._is_valid(unit, entry) else None
        except (TcreadyError, LookupError, TypeError, ValueError):
            return None

    def keep(self, unit: Unit, part: UnitResult, reading: CachedReading, disk: Disk) -> None:
        """Keep what was found on `disk`; not if a file that was asked for could not be opened."""
        inputs = CacheInputs.of(unit, reading, disk)
        if inputs is None:
            return
        entry = {
            "home": inputs.home,
            "files": [[str(path), s.modified, s.size, s.sha256] for path, s in inputs.files],
            "lookups": {name: str(path) if path else None for name, path in inputs.lookups.items()},
            "search_path": [str(folder) for folder in inputs.search_path],
            "folders": {str(folder): names for folder, names in inputs.folders.items()},
            "part": as_json(part),
        }
        self._write(_question(unit), entry)

    def keep_last(self, report: Any, *, ran: bool = True) -> None:
        """Keep a report, as JSON data, in place of the one that was kept before: of a run, or of sources alone."""
        self._write("last" if ran else "last read", report)

    def forget_last_read(self) -> None:
        """Drop the report of sources alone that was kept, if there is one and it can be."""
        with contextlib.suppress(OSError):
            self._place("last read").unlink(missing_ok=True)

    def last(self, *, ran: bool = True) -> Any:
        """Return the last stored report of a run, or of sources alone, None if there is none."""
        return self._read("last" if ran else "last read")

    def when_last(self) -> tuple[int, int] | None:
        """Another value whenever another report is kept; None if there is none."""
        try:
            found = self._place("last").stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size

    def _is_valid(self, unit: Unit, entry: Mapping[str, Any]) -> bool:
        inputs = CacheInputs(
            entry["home"],
            tuple((Path(path), Stamp(*stamp)) for path, *stamp in entry["files"]),
            {name: Path(then) if then else None for name, then in entry["lookups"].items()},
            tuple(map(Path, entry["search_path"])),
            {Path(folder): tuple(names) for folder, names in entry["folders"].items()},
        )
        return inputs.holds(unit, self._disk)

    def _place(self, question: str) -> Path:
        return self._top / f"{hashlib.sha256(f'{self._key} {question}'.encode()).hexdigest()}.json"

    def _read(self, question: str) -> Any:
        place = self._place(question)
        try:
            checksum, _, text = contents(place, LARGEST)[0].partition(b"\n")
            if hashlib.sha256(text).hexdigest().encode() != checksum:
                return None
            if time.time() - place.stat().st_mtime > DAY:
                os.utime(place)  # it was used: what is not goes first
            return json.loads(text)
        except (OSError, ValueError, RecursionError):
            return None

    def _write(self, question: str, entry: Any) -> None:
        """Whole or not at all, whoever else writes; silently not if nothing may be written."""
        text = json.dumps(entry, separators=(",", ":")).encode()
        place = self._place(question)
        partial = place.with_suffix(f".{os.getpid()}-{time.monotonic_ns()}")
        with contextlib.suppress(OSError):
            make_folder(self._top)
            # Never into an existing file: others may write to the folder too.
            opened = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            try:
                with os.fdopen(opened, "wb") as file:
                    file.write(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
                os.replace(partial, place)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise


def make_folder(top: Path) -> None:
    """The folder of a cache, marked as one for git and for backups; once a day what is old in it goes.

    Raises OSError if it cannot be made, or is a link: a checkout may bring one that leads anywhere.
    """
    tag = top / "CACHEDIR.TAG"
    if top.is_symlink():
        raise OSError("no folder of ours")
    try:
        age = time.time() - tag.lstat().st_mtime
    except OSError:
        top.mkdir(exist_ok=True)
        for path, text in ((top / ".gitignore", "*\n"), (tag, TAG)):
            with contextlib.suppress(FileExistsError), path.open("x", encoding="utf-8") as file:
                file.write(text)
        return
    if age > DAY:
        os.utime(tag, follow_symlinks=False)
        _prune(top)


def _prune(top: Path) -> None:
    entries = []
    for entry in os.scandir(top):
        # the store of sweeps has been asked for by somebody who wants it to be there the next time
        if entry.name.startswith(".") or entry.name == "CACHEDIR.TAG" or ".sqlite" in entry.name:
            continue
        with contextlib.suppress(OSError):  # somebody else may be tidying too
            entries.append((entry.stat().st_mtime, entry.path))
    oldest = time.time() - MAX_AGE_DAYS * DAY
    entries.sort(reverse=True)
    for position, (used, path) in enumerate(entries):
        if position >= MAX_ENTRIES or used < oldest:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _question(unit: Unit) -> str:
    return json.dumps([unit.target, str(unit.path), unit.name, str(unit.folder)])


def _home(unit: Unit) -> list[str]:
    """Return the path that decides how a file is imported: the real one, and the packages around it."""
    if unit.path is None:
        return []
    path = Path(os.path.realpath(unit.path))
    name, folder = import_name(path)
    return [str(path), name, str(folder)]
