"""Which processes a bench needs, in which order, within its budget; and what their answers come to.

Nothing is measured here: every figure comes from a worker process, and `tcready.bench` makes the report's of them.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import json
import math
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tcready import git, observations
from tcready.applying import patched
from tcready.bench.assemble import assembled, more_processes
from tcready.bench.figures import refuse_without_scipy
from tcready.bench.regression import is_compared, regressed
from tcready.bench.remedies import remedies_for
from tcready.bench.verdicts import Limits
from tcready.bench.wanted import BenchWanted
from tcready.dynamic import StayingWorker, schedule
from tcready.dynamic.arms import MODES, PLAN, PatchToMeasure, name_and_code
from tcready.dynamic.arms import arms_of as known_arms
from tcready.dynamic.schedule import Schedule
from tcready.observations import Observed
from tcready.options import BenchOptions, RunOptions, words
from tcready.plan import PlannedRun, refuse_no_file
from tcready.resolve import Settings, keywords
from tcready.schema.bench import Arm, Bench, BenchAnswer, BenchRequest, Sizes
from tcready.schema.observation import Observation, Stage
from tcready.schema.progress import Progress, Progressing
from tcready.schema.report import Report
from tcready.schema.run import Plan
from tcready.schema.words import EAGER, StageName, TcreadyError
from tcready.static import locate
from tcready.target import quoted

Tell = Callable[[str], None]
FIXES = "fixes.json"
PATCHES: Mapping[str, str] = {
    "own.patch": "git apply",
    "site-packages.patch": "patch -p1 -d SITE_PACKAGES <",
}
"""What `tcready fix --patch-dir` writes, with what carries it out."""
SURE = ("real_gain", "no_gain", "regression")
"""Verdicts that an interval over processes gave."""
MOST_SIZES = 64
"""Named cases of a file of sizes: each is warmed up and timed by itself."""
FIRST_BLOCKS, COMPILING = 10.0, 3.0
"""Of the time to a first answer: seconds for loading the compiler and for the first blocks, and how many times as long as
the eager calls and the capture of the check compiling an arm takes. Seen: 12 s after a check with a capture of 2 s
(fixtures/models/clean_vit.py, two cores), 16 s after one of 4 s (a policy of two layers, H200)."""
REPEATED = (
    "inputs", "device", "dtype", "autocast", "python", "timeout", "memory_gb", "allow_downloads", "tiny", "config",
)  # fmt: skip
"""Options of a run that the command takes; a command of the checklist repeats them."""
NOT_REPEATED = frozenset({"quick", "bench_budget", "soak", "against", "fail_on_regression"})
"""Options of a bench that say how long it may take, or what it is held against."""


# What is to be measured


def arms_of(wanted: BenchOptions, seen: Observation | None, root: Path) -> tuple[Arm, ...]:
    """The arms that are asked for, eager first.

    Raises TcreadyError for one that cannot be, and for a patch that cannot be carried out.
    """
    plan = seen.plan if seen is not None else None
    return known_arms(wanted, plan, lambda: _patch(wanted.patch, root))


def _patch(given: str | None, root: Path) -> PatchToMeasure:
    """What a diff changes, or all that a folder of `tcready fix --patch-dir` holds: both patches, and the settings."""
    if given is None:
        raise TcreadyError("--arm patched: name the diff with --patch FILE")
    search = locate.default_search_path(root)

    def find(shown: str) -> Path | None:
        places = (root / shown, *(folder / shown for folder in search))
        return next((place.resolve() for place in places if place.is_file()), None)

    path = Path(given)
    if not path.is_dir():
        return PatchToMeasure(_changed(path, given, find), (f"# after: git apply {shlex.quote(given)}",))
    settings = _settings_in(path / FIXES, f"--patch {given}")
    sources: list[tuple[str, str]] = []
    lines: list[str] = []
    for name, command in PATCHES.items():
        patch = path / name
        if patch.is_file() and patch.stat().st_size:
            sources += _changed(patch, str(patch), find)
            lines.append(f"# after: {command} {shlex.quote(str(patch))}")
    if not sources and not settings:
        raise TcreadyError(f"--patch {given}: it holds no change: {' or '.join(PATCHES)}")
    return PatchToMeasure(tuple(sources), (*lines, *settings))


def _changed(patch: Path, named: str, find: Callable[[str], Path | None]) -> tuple[tuple[str, str], ...]:
    try:
        text = patch.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise TcreadyError(f"--patch {named}: {error.strerror}") from None
    return tuple((str(file.path), file.after) for file in patched(text, named, find))


def _settings_in(path: Path, asked: str) -> tuple[str, ...]:
    """The lines of code that make the settings of `fixes.json`; none where there is no such file."""
    if not path.is_file():
        return ()
    try:
        lines = json.loads(path.read_text("utf-8"))["settings_code"]
    except (OSError, ValueError, KeyError, TypeError):
        lines = None
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise TcreadyError(f"{asked}: {path.name} in it was not written by `tcready fix --patch-dir`")
    return tuple(lines)


def sizes_of(path: str | None) -> tuple[Sizes, ...]:
    """The sizes in a file of CSV, with a header, or of JSON lines; equal rows are counted together.

    Raises TcreadyError, with the line, for what is no whole number above 0, and if there is no row.
    """
    if path is None:
        return ()
    try:
        text = Path(path).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise TcreadyError(
            f"--lengths {path}: {getattr(error, 'strerror', None) or 'it is no text'}"
        ) from None
    counted: dict[tuple[tuple[str, int], ...], float] = {}
    columns: dict[str, object] | None = None
    for line, row in _rows(text, path):
        count = _number(row.pop("count", 1), path, line, "count")
        columns = row if columns is None else columns
        if columns.keys() != row.keys():
            raise TcreadyError(f"--lengths {path}:{line}: other columns than above")
        values = tuple((name, int(_number(row[name], path, line, name))) for name in columns)
        if not values:
            raise TcreadyError(f"--lengths {path}:{line}: no column besides `count`")
        counted[values] = counted.get(values, 0.0) + count
    if not counted:
        raise TcreadyError(f"--lengths {path}: no row")
    if len(counted) > MOST_SIZES:
        raise TcreadyError(
            f"--lengths {path}: {len(counted)} sizes: put them into {MOST_SIZES} groups at most"
        )
    if not math.isfinite(sum(counted.values())):
        raise TcreadyError(f"--lengths {path}: the counts are too large")
    return tuple(Sizes(values, count) for values, count in counted.items())


def _rows(text: str, path: str) -> Iterator[tuple[int, dict[str, object]]]:
    if text.lstrip().startswith("["):
        raise TcreadyError(f"--lengths {path}:1: write an object a line, not a list of them")
    if not text.lstrip().startswith("{"):
        reader = csv.DictReader(io.StringIO(text), strict=True)
        try:
            names = [name.strip() for name in reader.fieldnames or ()]
            if len({*names, ""}) != len(names) + 1:
                raise TcreadyError(f"--lengths {path}:1: each column needs a name of its own")
            for row in reader:
                if None in row or None in row.values():
                    raise TcreadyError(
                        f"--lengths {path}:{reader.line_num}: not as many columns as the header"
                    )
                yield reader.line_num, {name.strip(): value for name, value in row.items()}
        except csv.Error as error:
            raise TcreadyError(f"--lengths {path}:{reader.line_num}: {error}") from None
        return
    for line, part in enumerate(text.splitlines(), 1):
        if part.strip():
            try:
                row = json.loads(part)
            except ValueError as error:
                raise TcreadyError(f"--lengths {path}:{line}: {error}") from None
            if not isinstance(row, dict):
                raise TcreadyError(f"--lengths {path}:{line}: write an object a line")
            yield line, row


def _number(value: object, path: str, line: int, name: str) -> float:
    try:
        number = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else 0.0
    except (ValueError, OverflowError):
        number = 0.0
    if not 0 < number < float("inf") or (name != "count" and number != int(number)):
        kind = "number" if name == "count" else "whole number"
        raise TcreadyError(
            f"--lengths {path}:{line}: {name} is {str(value)[:40]!r}: expected a {kind} above 0"
        )
    return number


def with_plan_of(seen: Observation, path: str | None) -> Observation:
    """The run with the plan that a stored report holds for its target, if that is asked for."""
    plans = _plans(path, seen.target) if path is not None else []
    return dataclasses.replace(seen, plan=plans[0]) if plans else seen


def plan_of_last(seen: Observation, last: Report | None) -> Plan | None:
    """The plan of the run that was kept last, if that was of this target in the same mode, with the same inputs, modules,
    types, device and torch, and of code that is as it was; else None."""
    for each in last.targets if last is not None else ():
        then = each.observation
        if _alike(then) == _alike(seen) and then.plan is not None and then.digests:
            now = dict(seen.digests)
            if all(now.get(path) == digest for path, digest in then.digests):
                return then.plan
    return None


def _alike(seen: Observation) -> tuple[object, ...]:
    environment = seen.environment or {}
    of_it = [environment.get(name) for name in ("torch", "python", "device", "gpu", "dtype", "autocast")]
    modules = [(module.name, module.type) for module in seen.modules]
    return seen.target, seen.mode, seen.convention, of_it, modules


def _plans(path: str, target: str) -> list[Plan]:
    return [run.plan for run in stored_runs(path) if run.target == target and run.plan is not None]


def stored_runs(path: str) -> tuple[Observation, ...]:
    """The runs that a stored file holds. Raises TcreadyError if it is none of tcready's."""
    found = observations.load(path, path)
    return tuple(each.observation for each in found.targets) if isinstance(found, Report) else (found,)


# How it is measured


def measured(
    run: Callable[[BenchRequest, float, Progressing], BenchAnswer],
    arms: tuple[Arm, ...],
    wanted: BenchOptions,
    about: BenchWanted,
    progress: Progressing,
    began: float | None = None,
    ends: float | None = None,
    alone: str = "",
) -> Bench:
    """Every process that the arms need, as far as the budget reaches, and what they come to.

    Args:
        run: Runs one process: what it is asked, for at most how many seconds, and what to call with its progress.
        arms: Eager first.
        wanted: What is asked for.
        about: What the report says of the target, and its limits.
        progress: Called with what is measured next, with what a process does, and how much time is left.
        began: When the command began, by `time.monotonic`; now if that is not given.
        ends: When the budget is spent; if that is not given, the budget counts from `began`.
        alone: Why `run` answers all requests in one process, if it does: then nothing is measured that needs another.
    """
    began = time.monotonic() if began is None else began
    ends = began + schedule.budget_of(wanted) if ends is None else ends
    with tempfile.TemporaryDirectory(prefix="tcready-", ignore_cleanup_errors=True) as folder:

        def decided(work: Schedule) -> bool:
            """Whether two processes are enough; what they say is shown at once."""
            found = _found(work, about, began)
            sure = found.verdict in SURE and not more_processes(found, wanted.min_effect)
            if sure:
                word = "failed" if found.failed else found.verdict.replace("_", " ")
                progress(Progress("bench", "", news=f"{word}: {found.reason}"))
            return sure

        def remedies(work: Schedule) -> tuple[Arm, ...]:
            return () if wanted.arms or wanted.quick else remedies_for(_found(work, about, began))

        differing = frozenset(name for name, _ in about.differing)
        work = Schedule(
            run, wanted, arms, Path(folder), progress, progress, ends, alone, decided, remedies, differing
        )
        if schedule.measure(work):
            found = _found(work, about, began)
            if more_processes(found, wanted.min_effect) and not wanted.quick and not alone:
                schedule.measure_more(work)
            if wanted.soak is not None and alone:
                work.cut.append(f"soak: not run: {alone}")
            elif wanted.soak is not None:
                schedule.soak(work, _to_soak(work.arms, _found(work, about, began)), wanted.soak)
        elif wanted.soak is not None:
            work.cut.append(f"soak: {schedule.NOTHING_TIMED}")
        return _found(work, about, began)


def _to_soak(arms: tuple[Arm, ...], found: Bench) -> Arm:
    """The recommended arm; if that is eager, or none is, the fastest of the compiled ones that did not fail."""
    speed = {
        arm.arm: arm.speedup.median
        for arm in (found.cases[-1].arms if found.cases else ())
        if arm.verdict != "failed" and arm.speedup is not None
    }
    best = (
        found.recommended if found.recommended in speed else max(speed, key=speed.__getitem__, default=None)
    )
    return next((arm for arm in arms if arm.name == best), arms[0])


def _found(work: Schedule, about: BenchWanted, began: float) -> Bench:
    seconds = round(time.monotonic() - began, 1)
    found = assembled(work.done, work.arms, about, seconds=seconds, cut=tuple(dict.fromkeys(work.cut)))
    return dataclasses.replace(found, processes=min(found.processes, 1)) if work.alone else found


def settings_for(wanted: BenchOptions, chosen: Settings) -> Settings:
    """The settings of the check that comes first: with the sizes of a file, with a plan if that is an arm, and within a
    budget that was given.

    Raises TcreadyError for what would be wrong only after everything was measured: no scipy, a stored bench that cannot
    be read, a smallest effect that is no share.
    """
    refuse_without_scipy()
    if wanted.min_effect >= 1:
        raise TcreadyError(f"--min-effect {wanted.min_effect:g}: give a share below 1: 2% or 0.02")
    if wanted.against is not None and all(run.bench is None for run in stored_runs(wanted.against)):
        raise TcreadyError(f"--against {wanted.against}: it holds no bench")
    if wanted.plan_from is not None and all(run.plan is None for run in stored_runs(wanted.plan_from)):
        raise TcreadyError(f"--plan-from {wanted.plan_from}: it holds no plan")
    if wanted.loader is not None:
        refuse_no_file("--loader", wanted.loader, chosen.root)
    if wanted.loop is not None:
        refuse_no_file("--loop", wanted.loop, chosen.root)
        if wanted.steps > 1 or wanted.accumulate > 1:
            raise TcreadyError("--loop makes its own steps: leave --steps and --accumulate out")
    if wanted.steps > 1 and "train" in chosen.modes:
        raise TcreadyError("--steps is of inference: name your training loop with --loop")
    if wanted.accumulate > 1 and "train" not in chosen.modes:
        raise TcreadyError("--accumulate is of training steps: add --mode train")
    known = arms_of(
        dataclasses.replace(wanted, arms=tuple(a for a in wanted.arms if a != PLAN)), None, chosen.root
    )
    if wanted.arms and len(known) == 1 and PLAN not in wanted.arms:
        raise TcreadyError("--arm eager: name an arm to hold against it")
    if wanted.fail_on_regression is not None:
        _share(wanted.fail_on_regression)
    sizes = sizes_of(wanted.lengths)
    if sizes and chosen.run.inputs is None:
        raise TcreadyError("--lengths goes with --inputs: what it names is called with the sizes")
    makes_plan = wanted.plan_from is None and any(name_and_code(text) == (PLAN, None) for text in wanted.arms)
    values = {**chosen.values, "sizes": sizes, "plan": chosen.values["plan"] or makes_plan}
    if (limit := _timeout(wanted.bench_budget)) is not None:
        values["timeout"] = min(chosen.run.timeout, limit)
    return dataclasses.replace(chosen, values=values)


def _timeout(budget: float | None) -> float | None:
    """Seconds that the check has within a budget; None: its own limit, of which each case has a share."""
    return None if budget is None else max(budget, schedule.LEAST)


def refuse_several(planned: Sequence[PlannedRun]) -> None:
    """Raises TcreadyError if not just one target is due."""
    if len(planned) != 1:
        every = ", ".join(each.target for each in planned)
        raise TcreadyError(
            f"a bench takes one target: name one of {every}" if every else "nothing here can be run"
        )


def benched(
    seen: Observed,
    planned: Sequence[PlannedRun],
    chosen: Settings,
    wanted: BenchOptions,
    command: str,
    announce: Tell,
    progress: Progressing,
    began: float,
    last: Callable[[], Report | None],
    stays: StayingWorker,
) -> Observed:
    """The runs, of one target, each with its bench; one that captured nothing that could be timed says why.

    `began`: when the command did, by `time.monotonic`: the budget counts from there, and runs share what is left of it.
    `last` gives the report that was kept last in the folder. `stays` has the process of the last run.
    """
    by_mode = {options.mode: options for options in planned[0].options(chosen)}
    ends = began + schedule.budget_of(wanted)
    last = functools.cache(last)  # one report for both modes
    runs: list[Observation] = []
    for left, each in zip(range(len(seen.runs), 0, -1), seen.runs, strict=True):
        run, now = each, time.monotonic()
        part = _Part(began if not runs else now, now + (ends - now) / left)
        by_itself = not wanted.arms and not wanted.quick and wanted.plan_from is None and run.plan is None
        plan = plan_of_last(run, last()) if by_itself else None
        if plan is not None:
            announce("the arm plan is that of the last run here: nothing changed since")
            run = dataclasses.replace(run, plan=plan)
        options = by_mode[run.mode]
        runs.append(_with_bench(run, options, chosen, wanted, command, announce, progress, part, stays))
        ends += wanted.soak or 0.0
    return dataclasses.replace(seen, runs=tuple(runs))


@dataclass(frozen=True)
class _Part:
    """The time of one run of several, by `time.monotonic`."""

    began: float
    ends: float


def _with_bench(
    seen: Observation,
    options: RunOptions,
    chosen: Settings,
    wanted: BenchOptions,
    command: str,
    announce: Tell,
    progress: Progressing,
    part: _Part,
    stays: StayingWorker,
) -> Observation:
    unfit = _unfit(seen, ("import", "build", "eager"))
    if unfit is not None:
        return dataclasses.replace(seen, bench=unfit)
    if wanted.against is not None:
        refuse_another_machine(wanted.against, seen)
    seen = with_plan_of(seen, wanted.plan_from)
    compared = arms_of(wanted, seen, chosen.root)
    about = BenchWanted(
        target=_as_asked(seen.target, options, wanted),
        command=command,
        limits=Limits(min_effect=wanted.min_effect),
        mode=seen.mode,
        inputs_from=seen.inputs_from,
        dtype=options.dtype,
        autocast=options.autocast,
        rollbacks=_rollbacks(seen),
        differing=_differing(seen, compared),
    )
    left = max(part.ends - time.monotonic(), 0.0)
    if left < (needed := _first_answer_after(seen, len(compared))):
        least = math.ceil((time.monotonic() - part.began + needed) / 10) * 10
        announce(
            f"{left:.0f} s of the budget are left, and a first answer takes about {needed:.0f} s here: give --budget "
            f"{least} or more"
        )
    announce(f"measuring {', '.join(arm.name for arm in compared)} of {seen.target}")
    device = str((seen.environment or {}).get("device") or options.device)
    spares = schedule.Spares(schedule.Spares.are_allowed(device))
    with observations.fork_server() as server, spares:
        request = observations.run_request(
            seen.target, options.without_studies(), chosen.root, stays.toolchain, server
        )
        found = measured(
            schedule.process_of(request, stays, spares),
            compared,
            wanted,
            about,
            progress,
            part.began,
            part.ends,
        )
    return _with_figures(seen, found, schedule.asked_of(options, wanted) | _commit(chosen.root))


def _first_answer_after(seen: Observation, arms: int) -> float:
    """About how many seconds the first blocks of all arms take: Inductor takes a few times as long as Dynamo did."""
    capture = sum(stage.seconds or 0.0 for stage in seen.stages if stage.stage in ("eager", "capture"))
    return FIRST_BLOCKS + (arms - 1) * COMPILING * capture


def _unfit(seen: Observation, needed: Sequence[StageName]) -> Bench | None:
    """The bench of a run in which one of these stages did not pass; None if all did."""
    states = {stage.stage: stage for stage in seen.stages}
    unfit = next((states[name] for name in needed if states[name].state != "pass"), None)
    return Bench("not_run", f"not measured: {unfit.stage}: {unfit.detail}", ()) if unfit is not None else None


NOT_OF_AN_OBJECT: Mapping[str, str] = MappingProxyType(
    {
        "lengths": "give each size as one of `cases`, with its weight",
        "loader": "name the model for `tcready bench --loader`",
        "patch": "it lays a diff over files before they are imported: name the model for `tcready bench --patch`",
        "plan_from": "`plan=True` makes the plan here",
        "against": "name the model for `tcready bench --against`",
        "fail_on_regression": "name the model for `tcready bench --against`",
    }
)
"""What a bench can be asked for and that of an object of this process cannot, with what to do."""


def wanted_of_an_object(given: Mapping[str, Any]) -> BenchOptions:
    """The options of a bench by the names of their fields or flags.

    Raises TypeError for one that there is not, and TcreadyError for a value that it does not take, or where an object of
    this process has no use for it.
    """
    found = keywords(given, (BenchOptions,), "bench")
    for name, instead in NOT_OF_AN_OBJECT.items():
        if name in found:
            raise TcreadyError(f"bench: {name} does not go with an object of this process: {instead}")
    return BenchOptions(**found)


def of_an_object(
    seen: Observation,
    measuring: Callable[[BenchRequest, float, Progressing], BenchAnswer],
    alone: str,
    options: RunOptions,
    wanted: BenchOptions,
    command: str,
    root: Path,
    began: float,
) -> Observation:
    """The run of an object of this process with its bench, by what `measuring` answers.

    `alone`: why that is in one process alone, if it is. Raises TcreadyError for an arm that cannot be.
    """
    unfit = _unfit(seen, ("build", "eager"))
    if unfit is not None:
        return dataclasses.replace(seen, bench=unfit)
    arms = arms_of(wanted, seen, root)
    about = BenchWanted(
        target=seen.target,
        command=command,
        limits=Limits(min_effect=wanted.min_effect),
        mode=seen.mode,
        inputs_from=seen.inputs_from,
        in_process=True,
        arms=wanted.arms,
        rollbacks=_rollbacks(seen),
        differing=_differing(seen, arms),
    )
    found = measured(measuring, arms, wanted, about, lambda _: None, began, alone=alone)
    return _with_figures(seen, found, schedule.asked_of(options, wanted) | _commit(root))


def worked_out(seen: Observation) -> Observation:
    """What the travelling worker measured, as a bench; another run stays as it is.

    Raises TcreadyError without scipy, or if a time is not above zero.
    """
    ran = seen.bench_run
    if ran is None:
        return seen
    measured_rows = (row for process in ran.processes for row in process.answer.measured)
    if any(seconds <= 0 for row in measured_rows for seconds in row.blocks):
        raise TcreadyError(f"{seen.target}: its bench holds times that are not above zero: run it again")
    asked = dict(ran.asked)
    device = str((seen.environment or {}).get("device") or "cpu")
    options = RunOptions(
        inputs=asked.get("inputs"),
        mode=seen.mode,
        device=device,
        dtype=asked.get("dtype"),
        autocast=asked.get("autocast"),
    )
    about = BenchWanted(
        target=_as_asked(seen.target, options, BenchOptions(accumulate=int(asked.get("accumulate") or 1))),
        command=ran.command,
        mode=seen.mode,
        inputs_from=seen.inputs_from,
        dtype=asked.get("dtype"),
        autocast=asked.get("autocast"),
        rollbacks=_rollbacks(seen),
    )
    found = assembled(ran.processes, ran.arms, about, seconds=ran.seconds, cut=ran.cut)
    return _with_figures(dataclasses.replace(seen, bench_run=None), found, asked)


def _rollbacks(seen: Observation) -> tuple[tuple[str, str], ...]:
    return ((PLAN, seen.plan.rollback),) if seen.plan is not None and seen.plan.rollback else ()


def _differing(seen: Observation, arms: Sequence[Arm]) -> tuple[tuple[str, str], ...]:
    """Arms that compile the model as the check did, if its stage `parity` found that this changes what comes out."""
    parity = next((stage for stage in seen.stages if stage.stage == "parity"), None)
    if parity is None or parity.state != "fail" or parity.reason != "mismatch":
        return ()
    alike = [arm.name for arm in arms if arm.code == MODES["default"] and not arm.sources]
    return tuple((name, parity.detail) for name in alike)


def _commit(root: Path) -> dict[str, str]:
    """The commit that the working folder is at; nothing outside of a repository."""
    commit = (git.ask(root, "rev-parse", "HEAD") or "").strip()
    changed = git.ask(root, "status", "--porcelain", "--untracked-files=no") if commit else ""
    return {"git commit": f"{commit}{', with changes' if changed else ''}"} if commit else {}


def _with_figures(seen: Observation, found: Bench, asked: Mapping[str, str]) -> Observation:
    """The run with its bench: `asked` becomes part of the stack."""
    found = dataclasses.replace(found, stack=(*found.stack, *((n, v) for n, v in asked.items() if v)))
    stages = tuple(stage_of(found) if stage.stage == "speed" else stage for stage in seen.stages)
    return dataclasses.replace(seen, bench=found, stages=stages)


def stage_of(found: Bench) -> Stage:
    """The rung `speed`: passed if there is a verdict, whatever it is."""
    if found.failed:
        differs = any(arm.parity is False for arm in found.cases[-1].arms)
        return Stage("speed", "fail", found.reason, found.seconds, "mismatch" if differs else "compile_error")
    if found.verdict not in ("inconclusive", "not_run"):
        return Stage("speed", "pass", found.reason, found.seconds)
    return Stage("speed", "not_run", found.reason, None, "budget" if found.cut else "error")


def refuse_another_plan(planned: Sequence[PlannedRun], wanted: BenchOptions) -> None:
    """Before anything is run. Raises TcreadyError if the stored report holds no plan for the target."""
    if wanted.plan_from is not None and not _plans(wanted.plan_from, planned[0].target):
        raise TcreadyError(f"--plan-from {wanted.plan_from}: it holds no plan for {planned[0].target}")


def refuse_another_bench(planned: Sequence[PlannedRun], chosen: Settings, wanted: BenchOptions) -> None:
    """Before anything is run.

    Raises TcreadyError if the stored bench to compare with is of another target or mode, or of other inputs, types or
    device than are asked for.
    """
    if wanted.against is None:
        return
    stored = {(run.target, run.mode): run.bench for run in stored_runs(wanted.against) if run.bench}
    for options in planned[0].options(chosen):
        bench = stored.get((planned[0].target, options.mode))
        if bench is None:
            raise TcreadyError(
                f"--against {wanted.against}: it holds no bench of {planned[0].target} (--mode {options.mode})"
            )
        timed = [arm for case in bench.cases for arm in case.arms if arm.arm != EAGER and arm.blocks]
        if timed and all(len(arm.blocks) == 1 for arm in timed):
            raise TcreadyError(
                f"--against {wanted.against}: its arms were timed in one process, so nothing can be called slower: "
                "bench it again with a larger --budget"
            )
        asked = schedule.asked_of(options, wanted)
        if options.device != "auto":
            asked["device"] = options.device
        _refuse_differences(wanted.against, bench, asked)


def refuse_another_machine(against: str, seen: Observation) -> None:
    """After the check, before anything is measured.

    Raises TcreadyError if the check says that machine or versions are others than those of the stored bench.
    """
    bench = next(
        (run.bench for run in stored_runs(against) if (run.target, run.mode) == (seen.target, seen.mode)),
        None,
    )
    if bench is None:
        return
    known = {**(seen.environment or {}), **(seen.environment or {}).get("packages", {})}
    named = {name: str(value) for name, value in known.items() if isinstance(value, (str, int, float))}
    _refuse_differences(against, bench, named)


def _refuse_differences(against: str, bench: Bench, now: Mapping[str, str]) -> None:
    before = dict(bench.stack)
    differing = [
        f"{name} ({before.get(name) or '-'}, now {value or '-'})"
        for name, value in now.items()
        if bench.stack and is_compared(name) and before.get(name, "") != value
    ]
    if differing:
        raise TcreadyError(f"--against {against}: not the same machine and stack: {', '.join(differing)}")


def _as_asked(target: str, options: RunOptions, wanted: BenchOptions) -> str:
    """The target with the options that decide what is measured, for commands: how long it takes is theirs to add."""
    of_run = {
        name: getattr(options, name)
        for name in REPEATED
        if getattr(options, name) != getattr(RunOptions(), name)
        if name != "timeout" or options.timeout != _timeout(wanted.bench_budget)
    }
    own = {
        each.name: getattr(wanted, each.name)
        for each in dataclasses.fields(wanted)
        if each.name not in NOT_REPEATED and getattr(wanted, each.name) != each.default
    }
    mode = () if options.mode == RunOptions().mode else ("--mode", options.mode)
    asked = (options.model or target, *mode, *words(of_run, RunOptions), *words(own, BenchOptions))
    return " ".join(map(quoted, asked))


def regressions(before: str, after: Report, wanted: str) -> tuple[str, ...]:
    """What is slower than in a stored bench, in one line each; see `tcready.api.regressions`."""
    threshold = _share(wanted)
    known = {(run.target, run.mode): run.bench for run in stored_runs(before) if run.bench is not None}
    lines: list[str] = []
    for target in after.targets:
        bench = target.observation.bench
        if bench is None:
            continue
        stored = known.get((target.target, target.mode))
        if stored is None:
            raise TcreadyError(f"--against {before}: it holds no bench of {target.target}")
        found = regressed(stored, bench, threshold)
        if not found.comparable:
            raise TcreadyError(f"--against {before}: {found.reason}")
        lines += [each.reason for each in found.changes if each.regressed]
        unknown = [each.why_not for each in found.changes if each.why_not]
        if unknown and not lines:
            raise TcreadyError(f"--against {before}: whether it is slower cannot be said: {unknown[0]}")
    return tuple(lines)


def _share(text: str) -> float:
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        number = -1.0
    if not 0 <= number < (float("inf") if text.endswith("%") else 1):
        raise TcreadyError(f"--fail-on-regression {text}: write 5% or 0.05")
    return number
