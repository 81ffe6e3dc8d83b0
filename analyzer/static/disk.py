"""What one process has seen of the disk: the contents of files, and where modules stand. Each is asked once."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from tcready.static import locate
from tcready.static.source import contents


@dataclass(frozen=True)
class Stamp:
    """A file as it was read, for whoever must know whether it changed since."""

    modified: int | None
    """Nanoseconds, as `os.stat` counts them; None if that is not to be trusted."""
    size: int
    sha256: str


@dataclass(eq=False)
class Disk:
    """Answers stay as they were first given: a run sees one state of each file."""

    _texts: dict[Path, bytes] = field(default_factory=dict)
    _stamps: dict[Path, Stamp | None] = field(default_factory=dict)
    _places: dict[tuple[str, Path], Path | None] = field(default_factory=dict)
    _added: dict[Path, locate.Additions] = field(default_factory=dict)
    _same: dict[tuple[Path, Stamp], bool] = field(default_factory=dict)

    def text(self, path: Path) -> bytes:
        """The bytes of a file; empty if it cannot be opened."""
        if path not in self._texts:
            try:
                data, stat = contents(path)
            except OSError:
                self._stamps[path], self._texts[path] = None, b""
            else:
                self._stamps[path] = Stamp(stat.st_mtime_ns, stat.st_size, hashlib.sha256(data).hexdigest())
                self._texts[path] = data
        return self._texts[path]

    def stamp(self, path: Path) -> Stamp | None:
        """The stamp of a file; None if it cannot be opened."""
        self.text(path)
        return self._stamps[path]

    def is_still(self, path: Path, stamp: Stamp) -> bool:
        """Whether a file holds what it held: by its time and size, or if those differ by its contents."""
        key = path, stamp
        if key not in self._same:
            try:
                stat = path.stat()
            except OSError:
                self._same[key] = False
            else:
                unmoved = stat.st_size == stamp.size and stat.st_mtime_ns == stamp.modified
                now = None if unmoved or stat.st_size != stamp.size else self.stamp(path)
                self._same[key] = unmoved or (now is not None and now.sha256 == stamp.sha256)
        return self._same[key]

    def find(self, name: str, search_path: tuple[Path, ...]) -> Path | None:
        """As `locate.find_module`, links resolved."""
        for folder in search_path:
            key = name, folder
            if key not in self._places:
                found = locate.find_module(name, (folder,), self._additions)
                self._places[key] = Path(os.path.realpath(found)) if found is not None else None
            place = self._places[key]
            if place is not None:
                return place
        return None

    def _additions(self, folder: Path) -> locate.Additions:
        if folder not in self._added:
            self._added[folder] = locate.additions(folder)
        return self._added[folder]
