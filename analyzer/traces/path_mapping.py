"""Find the files of a job's machine here, their origin, and the names of their places.

A file is searched in this order: where `--trace-root OLD=NEW` says; below a site-packages folder, if it was below one;
at its own path, if that is in the project; and in the project, the file with the longest common path suffix. Nothing
else is opened: a trace may come from anywhere, and what is read may be shown.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tcready.portable.events.definitions import Definition, definitions_in, innermost, plain_name
from tcready.portable.events.ownership import NOT_USER, SITE_FOLDERS, below_site, slashed, within_site
from tcready.portable.events.record import Place
from tcready.schema.code_line import Frame
from tcready.schema.display_paths import display_path, origin_of
from tcready.schema.enums import Origin

STANDARD = re.compile(r"/lib(?:64)?/python\d+\.\d+t?/|/lib/python\d*\.zip/|/Lib/[a-z_]+(?:/|\.py$)")
"""Pattern of paths of the standard library."""
OURS = re.compile(r"\.pyz/(?:tcready/|__main__\.py$)|/tcready/dynamic/")
"""tcready's own files: a trace may be of one of its runs."""
SKIPPED = frozenset({"node_modules", "__pycache__", "build", "dist", *SITE_FOLDERS})
"""Folders of a project that are not searched for its source, besides hidden ones and virtual environments."""
LARGEST = 8 << 20
"""Maximum size of a source in bytes."""


@dataclass(frozen=True)
class Found:
    """The paths of a job, as far as they were found."""

    here: Mapping[str, str]
    """The job's path -> the path here."""
    ambiguous: Mapping[str, tuple[str, ...]]
    """The job's path -> several candidates here, relative to the project."""


def find(paths: Iterable[str], root: Path, moved: Sequence[tuple[str, str]], search: Sequence[Path]) -> Found:
    """Find files of a job here.

    Args:
        paths: As the job names them.
        root: The working folder: files of the project are below it.
        moved: Folders of the job, and the corresponding ones here (relative to `root`).
        search: Where packages are installed.
    """
    project = _Project(root)
    here: dict[str, str] = {}
    ambiguous: dict[str, tuple[str, ...]] = {}
    for path in sorted(set(paths)):
        given = slashed(path)
        if ".." in given.split("/"):
            continue
        if listed := _moved(given, root, moved):
            here[path] = listed
        elif (inside := within_site(given)) is not None:
            if local := next(filter(os.path.isfile, (str(base / inside) for base in search)), None):
                here[path] = local
        elif os.path.isfile(path) and os.path.realpath(path).startswith(str(root).rstrip(os.sep) + os.sep):
            here[path] = path
        elif alike := project.alike(given):
            if len(alike) == 1:
                here[path] = str(root / alike[0])
            else:
                ambiguous[path] = tuple(alike)
    return Found(here, ambiguous)


def _moved(given: str, root: Path, moved: Sequence[tuple[str, str]]) -> str | None:
    """Return the file according to `--trace-root`, if it exists; of several folders the innermost."""
    for old, new in sorted(moved, key=lambda pair: -len(pair[0])):
        base = slashed(old).rstrip("/")
        if given.startswith(base + "/"):
            rest = given[len(base) + 1 :]
            local = str(root / new / rest)
            if os.path.isfile(local):
                return local
    return None


class _Project:
    """The Python files of a project, by name."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @functools.cached_property
    def _files(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for folder, below, names in os.walk(self._root):
            below[:] = sorted(
                name
                for name in below
                if name not in SKIPPED
                and not name.startswith(".")
                and not os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
            )
            for name in names:
                if name.endswith((".py", ".pyw")):
                    found[name].append(slashed(os.path.relpath(os.path.join(folder, name), self._root)))
        return found

    def alike(self, given: str) -> list[str]:
        """Return the files with the longest common path suffix with `given`; by path.

        A match of the file name alone is enough only for a file directly in the project's folder.
        """
        wanted = given.split("/")
        scores = {file: _common(wanted, file.split("/")) for file in self._files.get(wanted[-1], ())}
        scores = {file: score for file, score in scores.items() if score > 1 or "/" not in file}
        best = max(scores.values(), default=0)
        return sorted(file for file, score in scores.items() if score == best)


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the common suffix, in names."""
    count = 0
    for one, other in zip(reversed(first), reversed(second), strict=False):
        if one != other:
            break
        count += 1
    return count


class Sources:
    """Files here, each read once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[Definition, ...], tuple[str, ...]]] = {}

    def definitions(self, path: str) -> tuple[Definition, ...]:
        """Return its definitions; nothing if the file cannot be read or parsed."""
        return self._read(path)[0]

    def lines(self, path: str) -> tuple[str, ...]:
        """Return its lines; nothing if the file cannot be read."""
        return self._read(path)[1]

    def _read(self, path: str) -> tuple[tuple[Definition, ...], tuple[str, ...]]:
        if path not in self._known:
            self._known[path] = _source(path)
        return self._known[path]


def _source(path: str) -> tuple[tuple[Definition, ...], tuple[str, ...]]:
    try:
        if os.path.getsize(path) > LARGEST:
            return (), ()
        data = Path(path).read_bytes()
    except OSError:
        return (), ()
    try:
        text = importlib.util.decode_source(data)
    except (SyntaxError, ValueError):  # an encoding that is none, or bytes that it does not have
        text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    lines = tuple(text.split("\n"))  # a form feed or U+2028 ends no line of Python's
    try:
        return definitions_in(data), lines
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return (), lines


def _named(definition: Definition, name: str) -> bool:
    return definition.symbol.rpartition(".")[2] == name


@dataclass
class TraceNames:
    """The Naming of a trace: its paths are the job's, and are displayed as those here if they exist here."""

    root: str
    here: Mapping[str, str]
    """The job's path -> the path here."""
    torch_folder: str | None
    """Torch's folder in the job, with a trailing slash."""
    packages: tuple[str, ...] = ()
    named: frozenset[str] = frozenset()
    """Every path of the job."""
    sources: dict[str, str] = field(default_factory=dict)
    """Display path -> file here, for the paths named so far."""
    texts: Sources = field(default_factory=Sources)

    def is_user(self, path: str) -> bool:
        given = slashed(path)
        if given.startswith("<") or "torchinductor_" in given or not given.endswith((".py", ".pyw")):
            return False
        if self.is_ours(path) or (self.torch_folder and given.startswith(self.torch_folder)):
            return False
        installed = below_site(given)
        if installed is not None:
            return installed not in NOT_USER
        return STANDARD.search(given) is None

    def is_ours(self, path: str) -> bool:
        return OURS.search(slashed(path)) is not None

    def path(self, path: str) -> str:
        local = self.here.get(path)
        if local is None or not self.is_user(path):
            return within_site(path) or slashed(path)
        shown = display_path(local, self.root)
        self.sources[shown] = os.path.realpath(local)
        return shown

    def origin(self, path: str) -> Origin:
        """Return the origin as for a file here; the job's own code counts as the user's wherever it was."""
        local = self.here.get(path)
        if local is not None:
            return origin_of(local, self.root, self.packages)
        installed = below_site(path)
        return "own" if installed is None or installed in self.packages else "third_party"

    def around(self, path: str, line: int) -> Definition | None:
        local = self.here.get(path)
        return innermost(self.texts.definitions(local), line) if local is not None else None

    def symbol(self, path: str, line: int, name: str = "") -> str:
        found = self.function(path, line, name)
        return found.symbol if found is not None else plain_name(name) or "<module>"

    def function(self, path: str, line: int, name: str) -> Definition | None:
        """Return the definition that contains a frame: around its line, or the next of its name if the source has
        changed."""
        around = self.around(path, line)
        plain = plain_name(name)
        if not plain or plain.startswith("<") or (around is not None and _named(around, plain)):
            return around
        local = self.here.get(path)
        same = [item for item in (self.texts.definitions(local) if local is not None else ()) if _named(item, plain)]
        return min(same, key=lambda item: (abs(item.first - line), item.first), default=None)

    def frame(self, path: str, line: int, name: str) -> Frame:
        symbol = self.symbol(path, line, name) if self.is_user(path) else plain_name(name)
        return Frame(self.path(path), line, symbol)

    def whole_function(self, place: Place) -> Frame:
        """Return the function of compiled code, at its first line; a part that was resumed after a break is of its
        function."""
        around = self.function(place.path, place.line, place.name)
        line = around.first if around is not None and around.function else place.line
        return Frame(self.path(place.path), line, self.symbol(place.path, place.line, place.name))

    def guard_file(self, shown: str, place: Place) -> str | None:
        """Return the file that a guard names: the frame's own, or another of the job."""
        if self.torch_folder is None:
            return None
        folder = self.torch_folder.rstrip("/")

        def shortened(path: str) -> str:
            try:
                return path[len(posixpath.commonpath([slashed(path), folder])) + 1 :]
            except ValueError:
                return path

        known = (place.path, *sorted(self.named))
        found = next((path for path in known if slashed(shortened(path)) == slashed(shown)), None)
        return found or (f"{self.torch_folder.removesuffix('torch/')}{shown}" if shown.startswith("torch/") else None)

    def break_id(self, kind: str) -> str | None:
        """Return None: the registry is torch's; messages name their page since torch 2.9."""
        return None

    def fits(self, place: Place) -> bool:
        """Return True if code that the job ran begins here at the same line, or if that is unknown."""
        local = self.here.get(place.path)
        if local is None or plain_name(place.name).startswith("<") or plain_name(place.name) != place.name:
            return True
        if not self.texts.lines(local):
            return True
        return any(
            item.function and item.first == place.line and _named(item, place.name)
            for item in self.texts.definitions(local)
        )

    def text(self, path: str, line: int) -> str | None:
        """Return the line of a source here, without its indentation; None if it is not here."""
        local = self.here.get(path)
        lines = self.texts.lines(local) if local is not None else ()
        if local is None or not lines:
            return None
        return lines[line - 1].strip() if 0 < line <= len(lines) else ""
