"""Read sources repeatedly in one process, as an editor changes them.

`driver.read` reads once. A Session gives the same result, but keeps what it read: the trees and indexes of files, and
the part of each unit for as long as everything that the unit opened or looked for is as it was. So an edit costs the
one file and the units that opened it. An editor hands in the text that it has not saved yet, and stops a reading that
the next edit has made pointless.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tcready.portable.options import ReadOptions, ReportOptions
from tcready.static.cache import CacheInputs
from tcready.static.diagnostics.rule_texts import RuleTexts
from tcready.static.driver import Question, ReadResult, RuleSet
from tcready.static.frontend.cancellation import Stop, never
from tcready.static.frontend.index import Library
from tcready.static.frontend.source import encoded
from tcready.static.unit_analysis import Edited, Left, analyze_unit
from tcready.static.unit_results import UnitResult
from tcready.static.units import Unit, units

EDITED = 4
"""Units of which it is kept what was interpreted: some MB each."""


@dataclass(frozen=True)
class _Known:
    """The result of a unit, and its inputs."""

    part: UnitResult
    inputs: CacheInputs


class Session:
    """One way of asking, and what has been read for it so far. Several sessions share nothing; one that is asked from
    several threads answers them in turn."""

    def __init__(self, options: ReadOptions, rules: RuleSet) -> None:
        """The options decide where modules are looked for; if `search_path` is empty, that is looked up each time."""
        self._options = options
        self._suggest = rules.suggest
        self._rules = rules.load()
        self._texts = RuleTexts((rule.code for rule in self._rules), rules.load)
        self._tool = rules.tool()
        self._library = Library(edited=True)
        self._known: dict[Unit, _Known] = {}
        self._edited: dict[Unit, Left] = {}
        """The state that the last interpretations of units leave for the next."""
        self._asking = threading.Lock()

    def check(
        self,
        targets: Sequence[str | Unit],
        texts: Mapping[Path, str] | None = None,
        stop: Stop = never,
        report: ReportOptions | None = None,
    ) -> ReadResult:
        """Return the result of `driver.read` if `texts` were saved: their files need not exist yet.

        Raises TcreadyError as `driver.read` does, and StoppedError soon after `stop` requests it: the session can be
        used again, and files read completely by then are stored. A Unit can name what no target text can: a file of any
        name.
        """
        options = self._options
        question = Question(self._texts, self._tool, report or ReportOptions(), options.root)
        unsaved = {Path(os.path.realpath(path)): encoded(text) for path, text in (texts or {}).items()}
        with self._asking:
            library = self._library.over(self._library.disk.refreshed(unsaved), stop)
            self._library = library
            wanted = units(
                [target for target in targets if isinstance(target, str)], options.root, options.exclude, unsaved
            )
            wanted += [target for target in targets if isinstance(target, Unit)]
            return question.result([self._part(unit, library) for unit in wanted])

    def _part(self, unit: Unit, library: Library) -> UnitResult:
        library.go_on()
        known = self._known.get(unit)
        if known is not None and known.inputs.holds(unit, library.disk):
            return known.part
        edited = Edited()
        if known is not None and known.inputs.holds(unit, library.disk, but=unit.path):
            edited = Edited(self._edited.get(unit, Left()))
        part, reading = analyze_unit(unit, self._rules, self._options, self._suggest, library, edited)
        inputs = CacheInputs.of(unit, reading, library.disk)
        if inputs is not None:
            self._known[unit] = _Known(part, inputs)
            self._edited.pop(unit, None)
            self._edited[unit] = edited.now  # behind the others
            while len(self._edited) > EDITED:
                del self._edited[next(iter(self._edited))]
        return part

    def forget(self) -> None:
        """Drop everything that was kept: the next check reads as the first did."""
        with self._asking:
            self._library, self._known, self._edited = Library(edited=True), {}, {}
