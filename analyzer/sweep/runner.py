"""Run a sweep from the named targets to its report: create tasks, claim them, have an engine carry them out, and
store the results."""

from __future__ import annotations

import dataclasses
import functools
import gc
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tcready.config import pyproject
from tcready.config.resolution import COMMAND_LINE, Settings, TargetTable
from tcready.dynamic import first_signal_alone, signals_wait
from tcready.pipeline import observations, registry, run_selection
from tcready.pipeline.run_selection import PlannedRun
from tcready.portable.options import SweepOptions
from tcready.portable.target import Target
from tcready.schema.codec import as_json
from tcready.schema.enums import Mode, ModeAsked, TcreadyError, counted
from tcready.schema.observation import Observation, Stage
from tcready.schema.progress import Progress, Progressing
from tcready.schema.report import Reading, Report, TargetReport
from tcready.schema.static import Skipped
from tcready.schema.sweep import Cause, Outcome
from tcready.sweep import aggregate, export, matrix, target_expansion
from tcready.sweep import cache_key as grounds
from tcready.sweep import engine_choice as engines
from tcready.sweep.cache_key import Ground, Surveyor
from tcready.sweep.store import ResultStore
from tcready.sweep.target_expansion import Wanted
from tcready.sweep.task import Result, SourceOptions, Task

Announce = Callable[[str], None]
NO_GROUND = Ground({}, {}, "", "", "", {})
"""The inputs of a result that is not computed."""
AHEAD = 2
"""Number of tasks that an engine gets at a time, as a multiple of those that it works on."""
LOOK = 1.0
"""Seconds between two checks for results of another sweep."""
BEAT = 20.0
"""Seconds between two heartbeats."""


@dataclass(frozen=True)
class SweepStep:
    """A task, its position, and the inputs of its result."""

    position: tuple[int, ...]
    """Position of its target among all, in the order in which they were named."""
    wanted: Wanted
    task: Task
    ground: Ground
    device: str = ""
    setting: str = ""
    """The key that is the same in each sweep of this model in this cell of the matrix."""
    arguments: tuple[str, ...] = ()
    """The arguments of `tcready check` that repeat the run."""
    table: str = ""
    """The table with its settings; empty if there is none."""


@dataclass
class _Done:
    """A finished step, and its result; the value stays in the store."""

    step: SweepStep
    failure: str = ""
    seconds: float | None = None
    stored: bool = False


@dataclass
class _Course:
    """One sweep in progress."""

    settings: Settings
    store: ResultStore
    engine: engines.Engine
    fresh: bool
    run: bool
    cells: tuple[matrix.MatrixCell, ...]
    surveyor: Callable[[str | None], Surveyor]
    source_options: SourceOptions
    announce: Announce
    progress: Progressing
    pending: deque[SweepStep] = field(default_factory=deque)
    under_way: dict[str, list[SweepStep]] = field(default_factory=dict)
    elsewhere: dict[str, list[SweepStep]] = field(default_factory=dict)
    """Steps that another sweep is working on."""
    done: list[_Done] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    """The settings of all steps."""
    made: int = 0
    taken: int = 0

    def go(self) -> None:
        """Carry out all pending steps, and those that follow from them."""
        looked = beaten = time.monotonic()
        while self.pending or self.under_way or self.elsewhere:
            while self.pending and len(self.under_way) < AHEAD * self.engine.slots:
                self._begin(self.pending.popleft())
            result = self.engine.completed(LOOK) if self.under_way else None
            if result is not None:
                self._ended(result)
            elif not self.under_way and not self.pending and self.elsewhere:
                time.sleep(LOOK)  # all that is left is another sweep's work
            now = time.monotonic()
            if self.elsewhere and now - looked >= LOOK:
                looked = now
                waiting = [step for steps in self.elsewhere.values() for step in steps]
                self.elsewhere.clear()
                self.pending.extendleft(reversed(waiting))
            if now - beaten >= BEAT:
                beaten = now
                self.store.beat()

    def _begin(self, step: SweepStep) -> None:
        key = step.task.key
        if key in self.under_way:
            self.under_way[key].append(step)
            return
        claim = self.store.claim(step.task, step.ground, fresh=self.fresh)
        if claim == "theirs":
            self.elsewhere.setdefault(key, []).append(step)
        elif claim == "mine":
            self.under_way[key] = [step]
            self.engine.submit(step.task)
        else:
            self.taken += step.task.stage != "list"
            self._over(step, "", stored=True)

    def _ended(self, result: Result) -> None:
        steps = self.under_way.pop(result.key, [])
        if not steps:
            return
        if result.failure:
            self.store.give_up(result.key)
        else:
            # what changed meanwhile may have been read before or after: the next sweep does not take it
            holds = self._surveyor(steps[0].task).holds(steps[0].ground)
            self.store.finish(dataclasses.replace(result, passing=result.passing or not holds))
        self.made += steps[0].task.stage != "list"
        for step in steps:
            self._over(step, result.failure, stored=False)

    def _over(self, step: SweepStep, failure: str, *, stored: bool) -> None:
        """Add the steps that follow from a finished step."""
        result = self.store.result(step.task.key) if not failure else None
        if result is None and not failure:
            failure = "its result is not in the store any more"
        if step.task.stage == "list":
            if failure:
                self.done.append(_Done(step, failure))
            else:
                assert result is not None
                for number, each in enumerate(
                    target_expansion.members(step.task.target, self.store.read_as(tuple[str, ...], result.value))
                ):
                    self.add((*step.position, number), each)
        else:
            self.done.append(_Done(step, failure, result.seconds if result is not None else None, stored))
            if step.task.stage == "read" and self.run:
                report = self.store.read_as(Report, result.value) if result is not None else None
                if report is not None:
                    self.add_runs(step.position, step.wanted, report)
        self._say()

    def add(self, position: tuple[int, ...], wanted: Wanted) -> None:
        """Add the steps for something that was named."""
        root = str(self.settings.root)
        if wanted.is_unspeakable:
            step = SweepStep(position, wanted, Task("read", "", wanted.target, root), NO_GROUND)
            self.done.append(_Done(step, "its name holds `::`, which parts a file from a class: rename it"))
        elif wanted.kind == "module" or wanted.read:
            reading = dataclasses.replace(self.source_options, mode=self._mode(wanted))
            task = Task("list" if wanted.kind == "module" else "read", "", wanted.target, root, reading)
            self._put(position, wanted, task, wanted.table)
        elif self.run:
            self.add_runs(position, wanted, None)

    def _mode(self, wanted: Wanted) -> ModeAsked:
        """Return the mode to read the sources in: that of the list with the target."""
        if wanted.table is not None:
            mode: ModeAsked = self.settings.with_table(wanted.table).values["mode"]
            return mode
        return run_selection.reading_mode((wanted.target,), self.settings, self.settings.tables or ())

    def add_runs(self, position: tuple[int, ...], wanted: Wanted, report: Report | None) -> None:
        """Add the runs of what was read, in each cell of the matrix."""
        for number, planned in enumerate(target_expansion.runs(wanted, report, self.settings)):
            for cell in self.cells:
                settings = cell.settings(self.settings.with_table(planned.table))
                command = run_selection.command_arguments(
                    planned.target, wanted.named, with_list_settings(settings, wanted)
                )
                for task in self._runs(planned, settings):
                    self._put((*position, number), wanted, task, planned.table or wanted.table, cell, command)

    def _runs(self, planned: PlannedRun, settings: Settings) -> Iterator[Task]:
        for options in dataclasses.replace(planned, table=None).options(settings):
            yield Task(
                "run", "", planned.target, str(settings.root), run=options, given_by=planned.convention(settings)
            )

    def _put(
        self,
        position: tuple[int, ...],
        wanted: Wanted,
        task: Task,
        table: TargetTable | None,
        cell: matrix.MatrixCell | None = None,
        arguments: tuple[str, ...] = (),
    ) -> None:
        ground = self._surveyor(task).ground(task)
        keyed = dataclasses.replace(task, key=ground.key(task.stage, task.target))
        device = task.run.device if cell is not None else ""
        mode = task.run.mode if cell is not None else str(task.source_options.mode)
        named = "" if table is None else table.source
        setting = json.dumps(
            [task.stage, task.target, named, wanted.named, mode, device, cell.python if cell is not None else None]
        )
        if setting not in self.known:  # named twice
            self.known.add(setting)
            self.pending.append(SweepStep(position, wanted, keyed, ground, device, setting, arguments, named))

    def _surveyor(self, task: Task) -> Surveyor:
        """Return the surveyor that finds the inputs of a task. To read sources no interpreter is asked, so nothing
        is executed."""
        return self.surveyor(task.run.python if task.stage == "run" else None)

    def _say(self) -> None:
        over = len(self.known) - len(self.pending) - len(self.under_way) - len(self.elsewhere)
        self.progress(Progress("sweep", f"sweep ({self.taken} taken from the store)", over, len(self.known)))


def sweep(
    names: Sequence[str], settings: Settings, wanted: SweepOptions, run: bool, announce: Announce, progress: Progressing
) -> Report:
    """Read and run everything that was named, or take it from the store, and combine it in one report.

    Raises TcreadyError for errors that the user can fix: a missing target, a store that cannot be used, a matrix that
    names no interpreter.
    """
    began = time.monotonic()
    root = settings.root
    if wanted.export is not None:
        export.refuse(wanted.export, root / wanted.store)
    given = matrix.axes(wanted.matrix)
    settings = matrix.with_modes(settings, given)
    run_selection.validate_programs(settings.run)
    for python in (*given.get("python", ()), *settings.work.interpreters):
        run_selection.validate_programs(dataclasses.replace(settings.run, python=python))
    code = grounds.code_of_tcready(("tcready", "tcready.rules"))

    @functools.cache
    def surveyor(python: str | None) -> Surveyor:
        return Surveyor(root, grounds.interpreter(python, root), code)

    cells = matrix.cells(given, settings, lambda python: surveyor(python).python.torch) if run else ()
    for cell in cells:  # an interpreter that is not Python is reported before anything is read
        surveyor(cell.python or settings.run.python)
    things = target_expansion.resolve_targets(names, settings)
    if not things:
        raise TcreadyError(
            "nothing is named that can be swept: give folders, .py files, classes, packages or a .toml file"
        )
    devices = tuple(cell.device or settings.run.device for cell in cells)
    torch = registry.torch_for(settings.read.torch, root, settings.run.python)
    reading = SourceOptions(
        *(settings.values["mode"], torch, settings.read.low, settings.read.plain_call),
        *(settings.report.select, settings.report.ignore, settings.report.per_file_ignores),
        cache=settings.work.cache,
    )
    collecting = gc.isenabled()
    gc.enable()  # the command line does without: it lasts for one report, a sweep for hours
    try:
        with first_signal_alone(), ResultStore(root / wanted.store, wanted.store) as store:
            store.begin([sorted(names), list(wanted.matrix), run])
            engine = engines.opened(wanted.engine, wanted.workers, devices)
            try:
                course = _Course(
                    *(settings, store, engine, wanted.fresh, run, cells, surveyor, reading, announce, progress)
                )
                doing = "reading and running" if run else "reading"
                announce(
                    f"{doing} {counted(len(things), 'file or model', 'files and models')}, {engine.slots} at a time; "
                    f"results are kept in {wanted.store}"
                )
                for number, each in enumerate(things):
                    course.add((number,), each)
                course.go()
            finally:
                with signals_wait():
                    engine.close()
            report = _report(course, time.monotonic() - began)
            if wanted.export is not None:
                export.write(store, wanted.export)
            return report
    finally:
        if not collecting:
            gc.disable()


def _report(course: _Course, seconds: float) -> Report:
    """Return the report of all finished steps. Results are loaded from the store."""
    settings, store = course.settings, course.store
    tool, advice = registry.tool(), registry.advice()
    empty = Report(tool, (), (), (), (), (), (), {})
    reports: list[tuple[str, Report]] = [("", empty)]
    ran: list[tuple[_Done, Observation]] = []
    for done in sorted(course.done, key=lambda each: (each.step.position, each.step.task.stage)):
        step = done.step
        stored = store.result(step.task.key) if not done.failure else None
        if step.task.stage == "run":
            seen = _failed(step, done.failure) if stored is None else store.read_as(Observation, stored.value)
            ran.append((done, dataclasses.replace(seen, asked=step.arguments)))
        elif stored is None:
            skipped = (Skipped(step.task.target, done.failure),)
            reports.append((step.task.target, dataclasses.replace(empty, skipped=skipped)))
        else:
            reports.append((step.task.target, store.read_as(Report, stored.value)))
    whole = observations.together(reports, [seen for _, seen in ran], tool, advice)
    models = {step.wanted.target: step.wanted.named for step in (done.step for done in course.done)}
    whole = dataclasses.replace(
        whole,
        targets=tuple(
            each.with_command(run_selection.command_arguments(each.target, models.get(each.target), settings))
            for each in whole.targets
        ),
        readings=(_reading(course.source_options),),
    )
    rows = list(_rows(whole, course, ran))
    if not rows and not whole.skipped:
        raise TcreadyError("no model was found in what was named: there is no nn.Module class with a forward")
    store.end([(each.setting, each.key, as_json(each.found)) for each in rows if each.key])
    named = {target.target for target in whole.targets}
    before = store.settings_before()
    now = {each.setting for each in rows}
    found = aggregate.summarize(
        whole,
        [each.row for each in rows],
        sorted({before[setting] for setting in before.keys() - now} - named),
        has_last=bool(before) or any(each.row.before is not None for each in rows),
        made=course.made,
        taken=course.taken,
        seconds=seconds,
    )
    return dataclasses.replace(whole, sweep=found)


@dataclass(frozen=True)
class _Row:
    """A row of the sweep, and its value in the store for the next one."""

    row: aggregate.AggregateRow
    setting: str
    key: str
    """Empty if nothing is to be stored."""
    found: Outcome


def _rows(report: Report, course: _Course, ran: Sequence[tuple[_Done, Observation]]) -> Iterator[_Row]:
    """Return a row for each target of the report, compared with the last sweep that had it."""
    predicted = aggregate.breaking(report)
    for done, setting, target in (*_of_runs(report, ran), *_of_sources(report, course.done)):
        found = aggregate.outcome(target, predicted)
        before: Outcome | None = None
        why: tuple[Cause, ...] = ()
        earlier = course.store.earlier(setting)
        if earlier is not None:
            before = earlier.found
            why = aggregate.causes(earlier.ground, done.step.ground)
        step = done.step
        interpreter = (step.task.run.python or "") if step.task.stage == "run" else ""
        row = aggregate.AggregateRow(
            target, step.device, done.seconds, done.stored, before, why, step.table, interpreter
        )
        yield _Row(row, setting, "" if done.failure else done.step.task.key, found)


def _of_runs(report: Report, ran: Sequence[tuple[_Done, Observation]]) -> Iterator[tuple[_Done, str, TargetReport]]:
    """Pair each run with its target: the report has them in the given order, and identical ones once."""
    in_report = [target for target in report.targets if target.was_run]
    known: dict[str, list[tuple[Observation, TargetReport]]] = {}
    following = iter(in_report)
    for done, seen in ran:
        same = known.setdefault(seen.target, [])
        target = next((there for other, there in same if other == seen), None)
        if target is None:
            target = next(following)
            same.append((seen, target))
        yield done, done.step.setting, target


def _of_sources(report: Report, done: Iterable[_Done]) -> Iterator[tuple[_Done, str, TargetReport]]:
    """Pair each target that was only read with the steps that read it; for a file there may be several."""
    read: dict[tuple[str, Mode], list[_Done]] = {}
    for each in done:
        if each.step.task.stage == "read" and not each.failure:
            mode: Mode = "train" if each.step.task.source_options.mode == "train" else "infer"
            read.setdefault((each.step.task.target, mode), []).append(each)
    for target in report.targets:
        place = Target.place_in(target.target)
        steps = read.get((target.target, target.mode)) or read.get((place, target.mode)) or []
        for step in [] if target.was_run else steps:
            stage, _, *rest = json.loads(step.step.setting)
            yield step, json.dumps([stage, target.target, *rest]), target


def with_list_settings(settings: Settings, wanted: Wanted) -> Settings:
    """Return the settings with those of a list of targets treated as from the command line, because a check has no
    other source for them."""
    table = wanted.table
    if table is None or table.section == pyproject.TABLES:
        return settings
    lent = dict.fromkeys((name for name, who in settings.sources.items() if who == table.source), COMMAND_LINE)
    return dataclasses.replace(settings, sources={**settings.sources, **lent})


def _failed(step: SweepStep, why: str) -> Observation:
    """Return an observation for a run that gave none, with the engine's reason."""
    stages = (Stage("parse", "pass", "read"), Stage("import", "fail", why, reason="error"))
    return Observation(
        target=step.task.target, convention=None, mode=step.task.run.mode, stages=stages, environment=None
    )


def _reading(options: SourceOptions) -> Reading:
    torch = ".".join(map(str, options.torch)) if options.torch else ""
    return Reading(options.mode or "both", options.low, options.plain_call, torch)
