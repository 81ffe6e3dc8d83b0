"""The disk as seen by one process: the contents of files, and the locations of modules. Each is read once."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from pathlib import Path

from tcready.schema.display_paths import contents, display_path, origin_of
from tcready.schema.enums import Origin
from tcready.schema.value_class import dataclass
from tcready.static.frontend import module_search

SETTLED = 2_000_000_000
"""Nanoseconds: a file changed more recently may change again with the same time; its contents decide."""


@dataclass(frozen=True)
class Stamp:
    """A file as it was read, for whoever must know whether it changed since."""

    modified: int | None
    """Nanoseconds, as `os.stat` counts them; None if that is not to be trusted."""
    size: int
    sha256: str


def files_in(folder: Path) -> tuple[str, ...]:
    """Return the names of the Python files in a folder, sorted; none if it cannot be listed."""
    try:
        return tuple(sorted(name for name in os.listdir(folder) if name.endswith(".py")))
    except OSError:
        return ()


@dataclasses.dataclass(eq=False)
class Disk:
    """Answers stay as they were first given: a run sees one state of each file."""

    unsaved: Mapping[Path, bytes] = field(default_factory=dict)
    """Replacements for files, by their real paths: an editor's text. These files are not read."""
    before: Disk | None = None
    """An earlier state: what it read is not read again where neither time nor size of the file are others."""
    _texts: dict[Path, bytes] = field(default_factory=dict)
    _stamps: dict[Path, Stamp | None] = field(default_factory=dict)
    _places: dict[tuple[str, Path], Path | None] = field(default_factory=dict)
    _tops: dict[tuple[str, Path], bool] = field(default_factory=dict)
    _added: dict[Path, module_search.Additions] = field(default_factory=dict)
    _shown: dict[tuple[str, Path], str] = field(default_factory=dict)
    _origins: dict[tuple[Path, Path, tuple[str, ...]], Origin] = field(default_factory=dict)
    _same: dict[tuple[Path, Stamp], bool] = field(default_factory=dict)

    @cached_property
    def _unsaved_names(self) -> frozenset[str]:
        return frozenset(path.name for path in self.unsaved)

    def text(self, path: Path) -> bytes:
        """Return the bytes of a file; empty if it cannot be opened."""
        if path not in self._texts:
            self._stamps[path], self._texts[path] = self._look(path)
        return self._texts[path]

    def _look(self, path: Path) -> tuple[Stamp | None, bytes]:
        if path in self.unsaved:
            data = self.unsaved[path]
            return Stamp(None, len(data), hashlib.sha256(data).hexdigest()), data
        known = self._reuse_contents(path)
        if known is not None:
            return known
        now = time.time_ns()
        try:
            data, stat = contents(path)
        except OSError:
            return None, b""
        # who changed it a moment ago may change it again, and leave time and size as they are
        modified = stat.st_mtime_ns if stat.st_mtime_ns < now - SETTLED else None
        return Stamp(modified, stat.st_size, hashlib.sha256(data).hexdigest()), data

    def _reuse_contents(self, path: Path) -> tuple[Stamp, bytes] | None:
        """Return the contents that an earlier state read of a file that has not been touched since."""
        stamp = self.before._stamps.get(path) if self.before is not None else None
        if self.before is None or stamp is None or stamp.modified is None:
            return None
        try:
            stat = path.stat()
        except OSError:
            return None
        same = stat.st_mtime_ns == stamp.modified and stat.st_size == stamp.size
        return (stamp, self.before._texts[path]) if same else None

    def is_file(self, path: Path) -> bool:
        """Return whether a module may be read there."""
        if os.path.isfile(path):
            return True
        # a link alone has another name than what it leads to: real paths are resolved folder by folder
        if path.name not in self._unsaved_names and not os.path.islink(path):
            return False
        return Path(os.path.realpath(path)) in self.unsaved

    def refreshed(self, unsaved: Mapping[Path, bytes]) -> Disk:
        """Return the current state of the disk, with other unsaved texts; unchanged files are not read again."""
        known = dataclasses.replace(self, before=None)
        if self.before is not None:  # what this state did not ask for is still known from the one before
            for path in self.before._stamps.keys() - self._stamps.keys():
                known._stamps[path], known._texts[path] = self.before._stamps[path], self.before._texts[path]
        return Disk(unsaved, known)

    def origin_of(self, path: Path, root: Path, packages: tuple[str, ...]) -> Origin:
        """As `schema.origin_of`."""
        key = path, root, packages
        if key not in self._origins:
            self._origins[key] = origin_of(str(path), str(root), packages)
        return self._origins[key]

    def shown(self, path: str, root: Path) -> str:
        """As `schema.display_path`."""
        key = path, root
        if key not in self._shown:
            self._shown[key] = display_path(path, str(root))
        return self._shown[key]

    def stamp(self, path: Path) -> Stamp | None:
        """Return the stamp of a file; None if it cannot be opened."""
        self.text(path)
        return self._stamps[path]

    def is_still(self, path: Path, stamp: Stamp) -> bool:
        """Return whether a file is unchanged: by its time and size, or if those differ by its contents."""
        key = path, stamp
        if key not in self._same:
            self._same[key] = self._compare_contents(path, stamp)
        return self._same[key]

    def _compare_contents(self, path: Path, stamp: Stamp) -> bool:
        if path not in self.unsaved:
            try:
                stat = path.stat()
            except OSError:
                return False
            if stat.st_size != stamp.size or stat.st_mtime_ns == stamp.modified:
                return stat.st_size == stamp.size
        now = self.stamp(path)
        return now is not None and now.sha256 == stamp.sha256

    def find(self, name: str, search_path: tuple[Path, ...]) -> Path | None:
        """As `locate.find_module`, links resolved."""
        for folder in search_path:
            key = name, folder
            if key not in self._places:
                found = module_search.find_module(name, (folder,), self._additions, self.is_file, self._has)
                self._places[key] = Path(os.path.realpath(found)) if found is not None else None
            place = self._places[key]
            if place is not None:
                return place
        return None

    def _has(self, folder: Path, name: str) -> bool:
        """Return whether a folder has an entry of that name: most packages looked up in a working folder are not
        there."""
        key = name, folder
        if key not in self._tops:
            self._tops[key] = os.path.exists(folder / name)
        return self._tops[key]

    def _additions(self, folder: Path) -> module_search.Additions:
        if folder not in self._added:
            self._added[folder] = module_search.additions(folder)
        return self._added[folder]
