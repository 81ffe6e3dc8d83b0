"""Analyze one unit: read it, interpret it in each mode, apply the rules, and collect the findings."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from tcready.portable.options import ReadOptions
from tcready.schema.display_paths import display_path
from tcready.schema.enums import Mode, Origin, TcreadyError
from tcready.schema.static import Finding, Noqa, Skipped, SourceText
from tcready.static.cache import CachedReading
from tcready.static.diagnostics import diagnose
from tcready.static.diagnostics.diagnose import Place, Suggest
from tcready.static.diagnostics.module_tree import static_targets
from tcready.static.diagnostics.rule import Rule
from tcready.static.entry_analysis import Entry, Interpretation, entries, near_method, uses_third_party
from tcready.static.frontend import module_search, noqa
from tcready.static.frontend.index import Library, Program
from tcready.static.frontend.interpreter_settings import SHARED, deep
from tcready.static.interp.interpreter import Interpreter
from tcready.static.summaries.incremental_replay import Recorded
from tcready.static.unit_results import UnitResult, in_both_modes
from tcready.static.units import Unit

Interpreted: TypeAlias = "tuple[Mode | None, int]"
"""One of the interpretations of a unit: the mode, and the number of the program."""


@dataclass(frozen=True)
class Left:
    """The state that the reading of an edited unit leaves for the one after the next edit."""

    recorded: dict[Interpreted, Recorded] = field(default_factory=dict)
    judged: dict[tuple[Interpreted, Origin], diagnose.Diagnoses] = field(default_factory=dict)


@dataclass(frozen=True)
class Edited:
    """A unit with edited files: the state from before the last edit, and the new one."""

    before: Left = field(default_factory=Left)
    now: Left = field(default_factory=Left)


@deep
def analyze_unit(
    unit: Unit,
    rules: Sequence[Rule],
    options: ReadOptions,
    suggest: Suggest | None,
    library: Library,
    edited: Edited | None = None,
) -> tuple[UnitResult, CachedReading]:
    """Return the result of one unit, and its inputs. With `edited`, code that an edit has not touched is not read anew.

    A file that cannot be read is in the part's `skipped`. Raises TcreadyError for a module or a name that is not there,
    StoppedError if the library's `stop` requests it.
    """
    with SHARED.reading():
        return _Examination(unit, rules, options, suggest, library, edited).whole()


@dataclass(frozen=True)
class _Examination:
    """The analysis of one unit."""

    unit: Unit
    rules: Sequence[Rule]
    options: ReadOptions
    suggest: Suggest | None
    library: Library
    edited: Edited | None = None

    def whole(self) -> tuple[UnitResult, CachedReading]:
        """Return the result in the requested modes."""
        unit, options = self.unit, self.options
        search_path = options.search_path or module_search.default_search_path(options.root)
        packages = () if unit.path is not None else (unit.module.partition(".")[0],)
        program = Program(
            options.root, search_path, packages, third_party=False, folder=unit.folder, library=self.library
        )
        skipped: dict[Path, str] = {}
        found = list(entries(unit, program, skipped))
        wanted = options.third_party if options.third_party is not None else unit.name is not None
        programs = [program]
        if wanted and unit.path is None:
            # an installed package was named: what it needs is installed with it, so one reading of all is enough
            programs = [program.widened()]
        elif wanted and uses_third_party(program):
            programs.append(program.widened())
        modes: list[Mode | None] = ["infer", "train"] if options.mode == "both" else [options.mode]
        try:
            parts = [self.part(programs, found, mode, skipped) for mode in modes]
        except RecursionError:  # in what is made of the interpretation: that itself is cut short where it must be
            skipped |= {entry.module.path: "cannot be analysed: nested too deeply" for entry in found}
            parts = [self.part(programs, (), mode, skipped) for mode in modes]
        part = in_both_modes(*parts) if len(parts) == 2 else parts[0]
        whole = not (part.skipped or part.warnings or part.cut) and all(each.is_read for each in part.targets)
        if unit.name is None and found and whole:
            with contextlib.suppress(RecursionError):
                idle = noqa.unused(program, found[0], self.rules, options, part.hiding)
                part = dataclasses.replace(part, idle=idle)
        reading = CachedReading(
            tuple(dict.fromkeys(path for each in (program, *programs) for path in each.opened)),
            {name: path for each in (program, *programs) for name, path in each.lookups.items()},
            program.search_path,
            {folder: names for each in (program, *programs) for folder, names in each.folders.items()},
        )
        return part, reading

    def part(
        self, programs: Sequence[Program], entries: Sequence[Entry], mode: Mode | None, skipped: Mapping[Path, str]
    ) -> UnitResult:
        """Return the result in one mode: by a reading of the user's code alone, and of installed packages."""
        unit, options = self.unit, self.options
        passes = [self.interpreted(each, entries, mode, number) for number, each in enumerate(programs)]
        own, last = passes[0], passes[-1]
        if unit.name is not None and entries and not last.analyses and not last.warnings:
            raise TcreadyError(
                f"{unit.target}: {unit.name} is no nn.Module class with a forward, no such instance and no "
                f"function whose source is read{near_method(unit.name, entries[0].module)}"
            )
        findings: dict[Place, Finding] = {}
        silenced: set[Place] = set()
        hiding: set[Noqa] = set()
        codes: set[str] = set()
        for number, each in enumerate(passes):
            # own code is judged without what happens to be installed, other people's code with it; and own code that
            # nothing but other people's code calls
            origins: list[Origin] = ["own"]
            if each.interpreter.program.third_party:
                origins.append("third_party")
            for origin in origins:
                self.library.go_on()
                claims = self.claims(each, origin, (mode, number))
                if each is last:
                    codes |= {place[3] for place in claims.by_place}
                if origin == "own" and each is not own:
                    claims = diagnose.apart_from(claims, _functions_read(own.interpreter))
                for place, comment in noqa.hidden(each, claims, options.root):
                    silenced.add(place)
                    if origin == "own":
                        hiding.add(comment)
                made = diagnose.findings(each, claims, options, origin, self.suggest)
                findings.update({place: f for place, f in made.items() if place not in findings})
        order = sorted(findings, key=lambda place: (findings[place].path, *place[1:]))
        shown = {finding.path for finding in findings.values()}
        named = self.shown(entries[0].module.path if entries else unit.path)
        left_out = [path for path in skipped if self.is_left_out(path)]
        unread = {path: why for path, why in {**programs[0].skipped, **skipped}.items() if path not in left_out}
        apart = (f"{self.shown(path)} is left out: {skipped[path]}; it does not name torch" for path in left_out)
        part = UnitResult(
            findings=tuple(findings[place] for place in order),
            silenced=tuple(position for position, place in enumerate(order) if place in silenced),
            targets=tuple(static_targets(last, findings, sorted(codes), (mode or "infer",))),
            sources=tuple(_sources(last.interpreter.program, options.root, shown | {named})),
            named=named,
            skipped=tuple(Skipped(self.shown(path), reason) for path, reason in sorted(unread.items())),
            warnings=(*apart, *dict.fromkeys(w for each in passes for w in each.warnings)),
            **_reach(own.interpreter, last.interpreter, options.root),
            hiding=tuple(sorted(hiding, key=lambda comment: (comment.path, comment.line, comment.code))),
        )
        for each in passes:
            each.interpreter.take_apart()
        return part

    def claims(self, interpretation: Interpretation, origin: Origin, interpreted: Interpreted) -> diagnose.Claims:
        """Return the claims of rules; their results for each fact are stored for the reading after an edit."""
        if self.edited is None:
            return diagnose.claims(interpretation, self.rules, origin)
        known = self.edited.before.judged.get((interpreted, origin))
        found = diagnose.claims(interpretation, self.rules, origin, known)
        self.edited.now.judged[interpreted, origin] = found.judgements
        return found

    def interpreted(self, program: Program, entries: Sequence[Entry], mode: Mode | None, number: int) -> Interpretation:
        """One interpretation; what it leaves for the reading after an edit is kept."""
        options, edited = self.options, self.edited
        interpreter = Interpreter(
            program,
            None if mode is None else mode == "train",
            options.low,
            plain_call=options.plain_call,
            dtype=options.dtype,
            autocast=options.autocast,
            torch=options.torch,
            edited=edited is not None,
            before=edited.before.recorded.get((mode, number)) if edited is not None else None,
        )
        interpretation = Interpretation(interpreter, entries)
        if edited is not None and interpreter.replay is not None:
            edited.now.recorded[mode, number] = interpreter.replay.recorded()
        return interpretation

    def shown(self, path: Path | None) -> str:
        return display_path(str(path), str(self.options.root))

    def is_left_out(self, path: Path) -> bool:
        """Return whether a file that cannot be parsed is no reason to fail: a template, a file of another Python. It was
        not named itself, and has no model as it does not mention torch."""
        unit = self.unit
        was_named = unit.name is not None or (unit.folder is None and not self.options.lenient)
        return not was_named and not _names_torch(path, self.library)


def _functions_read(interpreter: Interpreter) -> frozenset[tuple[str, str]]:
    """Return the functions that compiled code calls, by file and symbol."""
    return frozenset((c.path, c.symbol) for c in interpreter.contexts if c.compiled and c.function is not None)


def _names_torch(path: Path, library: Library) -> bool:
    """Return whether the word occurs anywhere in the file, or the file cannot be opened."""
    if library.disk.stamp(path) is None:
        return True
    return b"torch" in library.disk.text(path).replace(b"\0", b"")  # UTF-16 has them in between


def _sources(program: Program, root: Path, shown: set[str]) -> Iterator[SourceText]:
    found = []
    for module in program.modules():
        path = program.library.disk.shown(str(module.path), root)
        if path in shown:
            source = module.source
            found.append(SourceText(path, source.sha256, source.text, source.cells))
    yield from sorted(found, key=lambda s: s.path)


def _reach(own: Interpreter, wide: Interpreter, root: Path) -> dict[str, Any]:
    """Return the fields of a UnitResult that count reached code."""

    def show(path: str) -> str:
        return wide.program.library.disk.shown(path, root)

    def by_file(places: Mapping[tuple[str, int, int], str]) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for (path, line, column), became in places.items():
            found.setdefault(show(path), {})[f"{line}:{column}"] = became
        return found

    return {
        "files": tuple(sorted(show(str(module.path)) for module in wide.program.modules())),
        "reached": tuple(
            sorted({f"{show(c.path)}::{c.symbol}" for c in wide.contexts if c.function is not None and c.compiled})
        ),
        "calls": by_file(wide.call_outcomes),
        "gaps": by_file(wide.gaps),
        "cut": wide.cut + own.cut if own is not wide else wide.cut,
    }
