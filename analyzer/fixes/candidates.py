"""Candidates of a round: changes to try, and the files that they change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, Sized
from dataclasses import dataclass
from pathlib import Path

from tcready.fixes.patching import ChangedFile
from tcready.fixes.rewriting.changes import LineMap
from tcready.fixes.rewriting.style import tidy
from tcready.fixes.rewriting.suggestions import Proposal
from tcready.schema.display_paths import display_path
from tcready.schema.edit import Edit
from tcready.schema.proof import FixChange
from tcready.source.edits import apply_edits
from tcready.static.diagnostics.rule import Declined, Rule
from tcready.static.frontend import module_search, source
from tcready.static.frontend.source import Source

CALLED_BEFORE = "(called before)"
"""Marks among the settings that the model is called once before it is compiled."""


@dataclass(frozen=True)
class FixOptions:
    """Options of `tcready fix`."""

    unsafe: bool = False
    third_party: bool = False
    select: tuple[str, ...] = ()
    keep_output: bool = False
    """Output, logs and warnings must remain in compiled code."""

    def filter_output(self, ways: Iterable[Proposal | Declined]) -> Iterator[Proposal | Declined]:
        """Return the rewrites, without those that drop output if that must remain."""
        for way in ways:
            if self.keep_output and isinstance(way, Proposal) and way.silences:
                yield Declined("Compiled code would not print, log or warn, and `--keep-output` requires that.")
            else:
                yield way


@dataclass(frozen=True)
class Candidate:
    """A change of the code of this round, and the break that it should fix."""

    change: FixChange
    sources: Mapping[str, str]
    """Whole new text of each file that differs from the unmodified code, by absolute path."""
    asserts: bool = False
    """Compiled code may raise RuntimeError in place of the exception of a check."""


class Files:
    """The files of one run, unmodified and with the changes accepted so far."""

    def __init__(self, root: Path, sources: Iterable[tuple[str, str]]) -> None:
        """`sources`: display path and location of the files that a run named."""
        self.root = root
        self._named = dict(sources)
        self._search = module_search.default_search_path(root)
        self._before: dict[str, Source] = {}
        self.now: dict[str, str] = {}
        """Text of changed files by absolute path."""

    def path(self, shown: str) -> Path | None:
        """Return the location of a file named in a report; None if it is unknown."""
        places = [Path(self._named[shown])] if shown in self._named else []
        places += [self.root / shown, *(folder / shown for folder in self._search)]
        return next((Path(place).resolve() for place in places if place.is_file()), None)

    def before(self, path: str) -> Source:
        if path not in self._before:
            self._before[path] = source.read(Path(path))
        return self._before[path]

    def text(self, path: str) -> str:
        return self.now.get(path, self.before(path).text)

    def source(self, path: str) -> Source:
        """Return the current text of a file."""
        return source.of_text(Path(path), self.now[path]) if path in self.now else self.before(path)

    def original_line(self, path: str, line: int) -> int:
        """Return the line in the unmodified text for a line of the current text; the same line if it is new."""
        return self.original_lines(path, (line,))[0]

    def original_lines(self, path: str, lines: Iterable[int]) -> list[int]:
        """Return the same for several lines, in their order."""
        if path not in self.now:
            return sorted(lines)
        known = LineMap(self.before(path).text, self.now[path])
        return [known.came_from(line) or line for line in sorted(lines)]

    def maps(self) -> dict[str, LineMap]:
        """Return where the lines of each changed file were before."""
        return {path: LineMap(self.before(path).text, text) for path, text in self.now.items()}

    def with_edits(self, edits: Sequence[Edit]) -> dict[str, str]:
        """Return every changed file with these edits applied to the accepted text, and formatted.

        Raises TcreadyError if two overlap.
        """
        texts = dict(self.now)
        for shown in dict.fromkeys(edit.path for edit in edits):
            path = str(self.path(shown))
            made = apply_edits(self.text(path), [edit for edit in edits if edit.path == shown])
            texts[path] = tidy(self.before(path), made)
        return texts

    def changed(self) -> tuple[ChangedFile, ...]:
        """Return the changed files."""
        return tuple(
            ChangedFile(Path(path), display_path(path, str(self.root)), self.before(path).text, text)
            for path, text in self.now.items()
            if text != self.before(path).text
        )


def why_none(ways: Iterable[Proposal | Declined], rules: Iterable[Rule]) -> str:
    """Return why there is no rewrite: the reason of `rules`, which found it, else that of each proposal.

    A reason for several rewrites is given once, with their names in front.
    """
    known = dict.fromkeys(rule.no_rewrite for rule in rules if rule.no_rewrite)
    reasons: dict[str, dict[str, None]] = {}
    for way in ways:
        if isinstance(way, Declined):
            reasons.setdefault(way.reason, {})[way.rewrite] = None
    labelled = (f"{_label(names)}{reason}" for reason, names in reasons.items())
    return " ".join(known) or " ".join(labelled) or "No rewrite is known for this code."


def _label(rewrites: Iterable[str]) -> str:
    """Return the names of rewrites as a prefix; nothing if the reason holds for any."""
    names = [*rewrites]
    return f"{' and '.join(f'`{name}`' for name in names)}: " if all(names) else ""


def counted(items: Sized, noun: str) -> str:
    return f"{len(items)} {noun}{'' if len(items) == 1 else 's'}"


def identity_of(change: FixChange) -> tuple[object, ...]:
    """Return what identifies a change, even if it moved: a setting is the same wherever it is needed."""
    if names_of(change) and not change.edits:
        return names_of(change)
    return change.path, change.line, change.how, tuple(edit.new_text for edit in change.edits)


def next_ones(candidates: Iterable[Candidate], tried: Set[tuple[object, ...]]) -> list[Candidate]:
    """Return for each break the first change that was not tried yet."""
    found: dict[object, Candidate] = {}
    for each in candidates:
        change = each.change
        if identity_of(change) not in tried:
            place = (change.path, change.line, bool(change.settings))
            found.setdefault(place if change.edits else names_of(change) or place, each)
    alone = {key: c for key, c in found.items() if c.change.edits or len(c.change.settings) < 2}
    if not alone:  # sets of settings come last, the largest first: that of two may take what a set of three does not
        largest = max((len(c.change.settings) for c in found.values()), default=0)
        return [c for c in found.values() if len(c.change.settings) == largest]
    found = alone
    places = {(c.change.path, c.change.line) for c in found.values() if not c.change.settings}
    # If an edit may fix a break, no setting is tried for it before the edit. If a setting alone may fix it, the code is
    # not rewritten for another setting.
    settings_alone = any(c.change.settings and not c.change.edits for c in found.values())
    return [
        c
        for c in found.values()
        if not c.change.settings
        or ((c.change.path, c.change.line) not in places and not (c.change.edits and settings_alone))
    ]


def names_of(change: FixChange) -> tuple[str, ...]:
    """Return the settings of a change, and the mark of one that calls the model before."""
    return (*change.settings, CALLED_BEFORE) if change.called_before else change.settings


def describe(change: FixChange) -> str:
    """Describe the change that is tried, in a few words."""
    return f"{change.path}:{change.line} {', '.join(names_of(change)) or change.rule or ''}".strip()
