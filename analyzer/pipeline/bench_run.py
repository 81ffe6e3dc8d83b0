"""Run a bench: check its options, start its processes within the budget, and add the result to the run.

Nothing is measured here. Worker processes measure, and `tcready.bench` computes the figures of the report.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import json
import math
import os
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tcready.bench.assembly import assemble_bench, more_processes
from tcready.bench.figures import require_scipy
from tcready.bench.regression import find_regressions, is_compared
from tcready.bench.remedies import remedies_for
from tcready.bench.request_parts import BenchWanted
from tcready.bench.verdicts import Limits
from tcready.config.resolution import Settings, keywords
from tcready.dynamic import StayingWorker, schedule
from tcready.dynamic.bench_variants import MODES, PLAN, PatchToMeasure, name_and_code
from tcready.dynamic.bench_variants import arms_of as known_arms
from tcready.dynamic.schedule import Schedule
from tcready.fixes.patching import apply_patch
from tcready.pipeline import git, observations
from tcready.pipeline.observations import Observed
from tcready.pipeline.run_selection import PlannedRun, validate_file
from tcready.portable.option_fields import words
from tcready.portable.options import BenchOptions, RunOptions
from tcready.portable.target import quote
from tcready.schema.bench import Arm, Bench, BenchAnswer, BenchRequest, Sizes
from tcready.schema.enums import EAGER, StageName, TcreadyError
from tcready.schema.observation import Observation, Stage
from tcready.schema.progress import Progress, Progressing
from tcready.schema.report import Report
from tcready.schema.run import Plan
from tcready.static.frontend import module_search

Announce = Callable[[str], None]
FIXES = "fixes.json"
PATCHES: Mapping[str, str] = {"own.patch": "git apply", "site-packages.patch": "patch -p1 -d SITE_PACKAGES <"}
"""The patches that `tcready fix --patch-dir` writes, with the command that applies each."""
SURE = ("real_gain", "no_gain", "regression")
"""Verdicts that are based on an interval over processes."""
MOST_SIZES = 64
"""The maximum number of sizes in a file: each is a case, which is warmed up and timed separately."""
FIRST_BLOCKS, COMPILING = 8.0, 2.0
"""Estimate of the time to a first answer: seconds for loading the compiler and for the first blocks, and the time to
compile an arm, as a multiple of the eager calls and the capture in the check. Observed on quiet machines: 12 s after a
check with a capture of 2 s (fixtures/models/clean_vit.py, two cores), and 16 s after one of 4 s (a policy of two
layers, H200)."""
LEAST_BUDGET = 20.0
"""Seconds to the first answer for a model of one layer: 6 to 8 for importing torch and the check, then FIRST_BLOCKS."""
SLOWEST = 1.5
"""The largest estimate of how many times longer work takes: the average load includes that of the check itself."""
REPEATED = (
    "inputs", "device", "dtype", "autocast", "python", "timeout", "memory_gb", "allow_downloads", "tiny", "config",
)  # fmt: skip
"""The run options of `tcready bench` that the commands in the checklist repeat."""
NOT_REPEATED = frozenset({"quick", "bench_budget", "soak", "against", "fail_on_regression"})
"""Bench options that commands in the checklist do not repeat: time limits, and what to compare with."""


# What to measure


def arms_of(wanted: BenchOptions, seen: Observation | None, root: Path) -> tuple[Arm, ...]:
    """Return the requested arms, eager first.

    Raises TcreadyError for an invalid arm, and for a patch that cannot be applied.
    """
    plan = seen.plan if seen is not None else None
    return known_arms(wanted, plan, lambda: _patch(wanted.patch, root))


def _patch(given: str | None, root: Path) -> PatchToMeasure:
    """Return the changes of a diff, or those of a folder of `tcready fix --patch-dir`: both patches and the settings."""
    if given is None:
        raise TcreadyError("--arm patched needs a diff: add --patch FILE")
    search = module_search.default_search_path(root)

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
        raise TcreadyError(f"--patch {given}: no changes found: expected {' or '.join(PATCHES)}")
    return PatchToMeasure(tuple(sources), (*lines, *settings))


def _changed(patch: Path, named: str, find: Callable[[str], Path | None]) -> tuple[tuple[str, str], ...]:
    try:
        text = patch.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise TcreadyError(f"--patch {named}: {error.strerror}") from None
    return tuple((str(file.path), file.after) for file in apply_patch(text, named, find))


def _settings_in(path: Path, option: str) -> tuple[str, ...]:
    """Return the lines of code in `fixes.json` that change settings; empty if there is no such file."""
    if not path.is_file():
        return ()
    try:
        lines = json.loads(path.read_text("utf-8"))["settings_code"]
    except (OSError, ValueError, KeyError, TypeError):
        lines = None
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise TcreadyError(f"{option}: {path.name} was not written by `tcready fix --patch-dir`")
    return tuple(lines)


def sizes_of(path: str | None) -> tuple[Sizes, ...]:
    """Return the sizes in a CSV file with a header, or in a JSON lines file. Counts of equal rows are added up.

    Raises TcreadyError, with the line number, if a value is not a whole number above 0, and if there are no rows.
    """
    if path is None:
        return ()
    try:
        text = Path(path).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise TcreadyError(f"--lengths {path}: {getattr(error, 'strerror', None) or 'not a text file'}") from None
    counted: dict[tuple[tuple[str, int], ...], float] = {}
    columns: dict[str, object] | None = None
    for line, row in _rows(text, path):
        count = _number(row.pop("count", 1), path, line, "count")
        columns = row if columns is None else columns
        if columns.keys() != row.keys():
            raise TcreadyError(f"--lengths {path}:{line}: the columns differ from those of the first row")
        values = tuple((name, int(_number(row[name], path, line, name))) for name in columns)
        if not values:
            raise TcreadyError(f"--lengths {path}:{line}: there is no column except `count`")
        counted[values] = counted.get(values, 0.0) + count
    if not counted:
        raise TcreadyError(f"--lengths {path}: the file has no rows")
    if len(counted) > MOST_SIZES:
        raise TcreadyError(f"--lengths {path}: {len(counted)} different sizes: group them into at most {MOST_SIZES}")
    if not math.isfinite(sum(counted.values())):
        raise TcreadyError(f"--lengths {path}: the sum of the counts is too large")
    return tuple(Sizes(values, count) for values, count in counted.items())


def _rows(text: str, path: str) -> Iterator[tuple[int, dict[str, object]]]:
    if text.lstrip().startswith("["):
        raise TcreadyError(f"--lengths {path}:1: expected one JSON object per line, not a list")
    if not text.lstrip().startswith("{"):
        reader = csv.DictReader(io.StringIO(text), strict=True)
        try:
            names = [name.strip() for name in reader.fieldnames or ()]
            if len({*names, ""}) != len(names) + 1:
                raise TcreadyError(f"--lengths {path}:1: each column needs a unique name")
            for row in reader:
                if None in row or None in row.values():
                    raise TcreadyError(
                        f"--lengths {path}:{reader.line_num}: the number of columns differs from the header"
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
                raise TcreadyError(f"--lengths {path}:{line}: expected one JSON object per line")
            yield line, row


def _number(value: object, path: str, line: int, name: str) -> float:
    try:
        number = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else 0.0
    except (ValueError, OverflowError):
        number = 0.0
    if not 0 < number < float("inf") or (name != "count" and number != int(number)):
        kind = "number" if name == "count" else "whole number"
        raise TcreadyError(f"--lengths {path}:{line}: {name} is {str(value)[:40]!r}: expected a {kind} above 0")
    return number


def with_plan_of(seen: Observation, path: str | None) -> Observation:
    """Return the run with the plan that the stored report at `path` contains for its target; unchanged without a path."""
    plans = _plans(path, seen.target) if path is not None else []
    return dataclasses.replace(seen, plan=plans[0]) if plans else seen


def plan_of_last(seen: Observation, last: Report | None) -> Plan | None:
    """Return the plan of the last stored run if its target, mode, inputs, modules, dtypes, device, torch and code are the
    same; else None."""
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
    """Return the runs in a stored file. Raises TcreadyError if tcready did not write it."""
    found = observations.load(path, path)
    return tuple(each.observation for each in found.targets) if isinstance(found, Report) else (found,)


# How it is measured


def measure_bench(
    run: Callable[[BenchRequest, float, Progressing], BenchAnswer],
    arms: tuple[Arm, ...],
    wanted: BenchOptions,
    about: BenchWanted,
    progress: Progressing,
    began: float | None = None,
    ends: float | None = None,
    alone: str = "",
) -> Bench:
    """Run the processes that the arms need, within the budget, and return the bench.

    Args:
        run: Runs one process. Takes the request, the time limit in seconds, and a function to call with its progress.
        arms: The arms, eager first.
        wanted: The options of the bench.
        about: What the report says about the target, and the limits for verdicts.
        progress: Called with the next measurement, the progress of a process, and the time left.
        began: When the command began, by `time.monotonic`; default: now.
        ends: When the budget is spent; default: the budget counts from `began`.
        alone: Why `run` answers all requests in one process; empty if it does not. Measurements that need another
            process are then skipped.
    """
    began = time.monotonic() if began is None else began
    ends = began + schedule.budget_of(wanted) if ends is None else ends
    with tempfile.TemporaryDirectory(prefix="tcready-", ignore_cleanup_errors=True) as folder:

        def decided(work: Schedule) -> bool:
            """Return whether two processes are enough, and report their verdict if so."""
            found = _found(work, about, began)
            sure = found.verdict in SURE and not more_processes(found, wanted.min_effect)
            if sure:
                word = "failed" if found.failed else found.verdict.replace("_", " ")
                progress(Progress("bench", "", news=f"{word}: {found.reason}"))
            return sure

        def remedies(work: Schedule) -> tuple[Arm, ...]:
            return () if wanted.arms or wanted.quick else remedies_for(_found(work, about, began))

        differing = frozenset(name for name, _ in about.differing)
        work = Schedule(run, wanted, arms, Path(folder), progress, progress, ends, alone, decided, remedies, differing)
        if schedule.measure(work):
            found = _found(work, about, began)
            if more_processes(found, wanted.min_effect) and not wanted.quick and not alone:
                schedule.measure_more(work)
            schedule.carry(work)
            if wanted.soak is not None and alone:
                work.cut.append(f"soak: not run: {alone}")
            elif wanted.soak is not None:
                schedule.soak(work, _to_soak(work.arms, _found(work, about, began)), wanted.soak)
        elif wanted.soak is not None:
            work.cut.append(f"soak: {schedule.NOTHING_TIMED}")
        return _found(work, about, began)


def _to_soak(arms: tuple[Arm, ...], found: Bench) -> Arm:
    """Return the recommended arm; if that is eager or none, the fastest compiled arm that did not fail."""
    speed = {
        arm.arm: arm.speedup.median
        for arm in (found.cases[-1].arms if found.cases else ())
        if arm.verdict != "failed" and arm.speedup is not None
    }
    best = found.recommended if found.recommended in speed else max(speed, key=speed.__getitem__, default=None)
    return next((arm for arm in arms if arm.name == best), arms[0])


def _found(work: Schedule, about: BenchWanted, began: float) -> Bench:
    seconds = round(time.monotonic() - began, 1)
    found = assemble_bench(work.done, work.arms, about, seconds=seconds, cut=tuple(dict.fromkeys(work.cut)))
    return dataclasses.replace(found, processes=min(found.processes, 1)) if work.alone else found


def settings_for(wanted: BenchOptions, chosen: Settings) -> Settings:
    """Return the settings of the check that runs first: with the sizes of --lengths, with a plan if it is an arm, and
    within the budget.

    Raises TcreadyError for problems that would otherwise show only after everything was measured, such as a missing
    scipy, an unreadable stored bench or an invalid option.
    """
    require_scipy()
    if wanted.min_effect >= 1:
        raise TcreadyError(f"--min-effect {wanted.min_effect:g}: expected a share below 1, such as 2% or 0.02")
    if str(chosen.values.get("device", "")).partition(":")[0] == "meta":
        raise TcreadyError("--device meta: nothing is computed there, so no times can be measured: use `check`")
    if wanted.against is not None and all(run.bench is None for run in stored_runs(wanted.against)):
        raise TcreadyError(f"--against {wanted.against}: the report contains no bench")
    if wanted.plan_from is not None and all(run.plan is None for run in stored_runs(wanted.plan_from)):
        raise TcreadyError(f"--plan-from {wanted.plan_from}: the report contains no plan")
    if wanted.loader is not None:
        validate_file("--loader", wanted.loader, chosen.root)
    if wanted.loop is not None:
        validate_file("--loop", wanted.loop, chosen.root)
        if wanted.steps > 1 or wanted.accumulate > 1:
            raise TcreadyError(
                "--loop cannot be combined with --steps or --accumulate: the function makes its own steps"
            )
    if wanted.steps > 1 and "train" in chosen.modes:
        raise TcreadyError("--steps is for inference only: for training, use --loop with your training loop")
    if wanted.accumulate > 1 and "train" not in chosen.modes:
        raise TcreadyError("--accumulate is for training only: add --mode train")
    known = arms_of(dataclasses.replace(wanted, arms=tuple(a for a in wanted.arms if a != PLAN)), None, chosen.root)
    if wanted.arms and len(known) == 1 and PLAN not in wanted.arms:
        raise TcreadyError("--arm eager: there is nothing to compare it with: add another --arm")
    if wanted.fail_on_regression is not None:
        _share(wanted.fail_on_regression)
    sizes = sizes_of(wanted.lengths)
    if sizes and chosen.run.inputs is None:
        raise TcreadyError("--lengths requires --inputs: the function that it names is called with the sizes")
    makes_plan = wanted.plan_from is None and any(name_and_code(text) == (PLAN, None) for text in wanted.arms)
    values = {**chosen.values, "sizes": sizes, "plan": chosen.values["plan"] or makes_plan}
    if (limit := _timeout(wanted.bench_budget)) is not None:
        values["timeout"] = min(chosen.run.timeout, limit)
    return dataclasses.replace(chosen, values=values)


def _timeout(budget: float | None) -> float | None:
    """Return the time limit of the check within a budget; None: its own limit, which its cases share."""
    return None if budget is None else max(budget, schedule.LEAST)


def reject_several(planned: Sequence[PlannedRun]) -> None:
    """Raise TcreadyError unless there is exactly one target."""
    if len(planned) != 1:
        every = ", ".join(each.target for each in planned)
        raise TcreadyError(
            f"a bench takes one target: name one of {every}" if every else "found no target that can be run"
        )


def announce_short_budget(wanted: BenchOptions, announce: Announce) -> None:
    """Say before anything starts that a budget is too short for any answer. A model may need more: see `_with_bench`."""
    if schedule.budget_of(wanted) < LEAST_BUDGET:
        announce(
            f"a budget of {schedule.budget_of(wanted):g} s is too short for an answer: a check and first blocks of the "
            f"smallest model take about {LEAST_BUDGET:.0f} s"
        )


def benched(
    seen: Observed,
    planned: Sequence[PlannedRun],
    chosen: Settings,
    wanted: BenchOptions,
    command: str,
    announce: Announce,
    progress: Progressing,
    began: float,
    last: Callable[[], Report | None],
    stays: StayingWorker,
) -> Observed:
    """Add a bench to each run of one target. If a run cannot be timed, its bench says why.

    `began`: when the command began, by `time.monotonic`. The budget counts from there, and the runs share what is left.
    `last` returns the last report stored in the folder. `stays` holds the process of the last run.
    """
    by_mode = {options.mode: options for options in planned[0].options(chosen)}
    ends = began + schedule.budget_of(wanted)
    last = functools.cache(last)  # both modes use the same report
    runs: list[Observation] = []
    for left, each in zip(range(len(seen.runs), 0, -1), seen.runs, strict=True):
        run, now = each, time.monotonic()
        part = _Part(began if not runs else now, now + (ends - now) / left)
        by_itself = not wanted.arms and not wanted.quick and wanted.plan_from is None and run.plan is None
        plan = plan_of_last(run, last()) if by_itself else None
        if plan is not None:
            announce("using the plan of the last run here for the arm plan: nothing has changed since")
            run = dataclasses.replace(run, plan=plan)
        options = by_mode[run.mode]
        runs.append(_with_bench(run, options, chosen, wanted, command, announce, progress, part, stays))
        ends += wanted.soak or 0.0
    return dataclasses.replace(seen, runs=tuple(runs))


@dataclass(frozen=True)
class _Part:
    """The time that one of several runs has, by `time.monotonic`."""

    began: float
    ends: float


def _with_bench(
    seen: Observation,
    options: RunOptions,
    chosen: Settings,
    wanted: BenchOptions,
    command: str,
    announce: Announce,
    progress: Progressing,
    part: _Part,
    stays: StayingWorker,
) -> Observation:
    unfit = _unfit(seen, ("import", "build", "eager"))
    if unfit is not None:
        return dataclasses.replace(seen, bench=unfit)
    if wanted.against is not None:
        reject_other_machine(wanted.against, seen)
    seen = with_plan_of(seen, wanted.plan_from)
    compared = arms_of(wanted, seen, chosen.root)
    about = BenchWanted(
        target=_command_target(seen.target, options, wanted),
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
            f"{left:.0f} s of the budget are left, but a first answer may take {needed:.0f} s here: use --budget "
            f"{least} or more"
        )
    announce(f"measuring {', '.join(arm.name for arm in compared)} of {seen.target}")
    device = str((seen.environment or {}).get("device") or options.device)
    spares = schedule.Spares(schedule.Spares.are_allowed(device))
    with observations.fork_server() as server, spares:
        request = observations.run_request(seen.target, options.without_studies(), chosen.root, server)
        found = measure_bench(
            schedule.process_of(request, stays, spares), compared, wanted, about, progress, part.began, part.ends
        )
    return _with_figures(seen, found, schedule.measurement_options(options, wanted) | _commit(chosen.root))


def _first_answer_after(seen: Observation, arms: int) -> float:
    """Estimate the seconds until all arms have their first blocks: Inductor takes a few times as long as Dynamo."""
    capture = sum(stage.seconds or 0.0 for stage in seen.stages if stage.stage in ("eager", "capture"))
    compiling = (arms - 1) * COMPILING * capture  # on a busy machine the capture was as slow already
    return FIRST_BLOCKS * _slowdown() + compiling


def _slowdown() -> float:
    """Estimate how many times longer work takes because other processes use the processors."""
    try:
        others = max(os.getloadavg()[0] - 1, 0.0)  # 1 is this command itself
    except (OSError, AttributeError):  # the system keeps no such average
        return 1.0
    return min(1 + others / (os.cpu_count() or 1), SLOWEST)


def _unfit(seen: Observation, needed: Sequence[StageName]) -> Bench | None:
    """Return a bench that was not run if one of these stages did not pass; None if all passed."""
    states = {stage.stage: stage for stage in seen.stages}
    unfit = next((states[name] for name in needed if states[name].state != "pass"), None)
    return Bench("not_run", f"not measured: {unfit.stage}: {unfit.detail}", ()) if unfit is not None else None


NOT_OF_AN_OBJECT: Mapping[str, str] = MappingProxyType(
    {
        "lengths": "pass each size as one of `cases`, with its weight",
        "loader": "use `tcready bench --loader`",
        "patch": "a diff is applied before files are imported: use `tcready bench --patch`",
        "plan_from": "pass `plan=True` to make a plan here",
        "against": "use `tcready bench --against`",
        "fail_on_regression": "use `tcready bench --against`",
    }
)
"""Bench options that are not supported for an object of this process, with what to do instead."""


def wanted_of_an_object(given: Mapping[str, Any]) -> BenchOptions:
    """Return the options of a bench, given by the names of their fields or flags.

    Raises TypeError for an unknown option, and TcreadyError for an invalid value or an option that is not supported for
    an object of this process.
    """
    found = keywords(given, (BenchOptions,), "bench")
    for name, instead in NOT_OF_AN_OBJECT.items():
        if name in found:
            raise TcreadyError(f"bench: {name} is not supported for an object of this process: {instead}")
    return BenchOptions(**found)


def bench_object(
    seen: Observation,
    measuring: Callable[[BenchRequest, float, Progressing], BenchAnswer],
    alone: str,
    options: RunOptions,
    wanted: BenchOptions,
    command: str,
    root: Path,
    began: float,
) -> Observation:
    """Return the run of an object of this process with its bench. `measuring` runs the measurements.

    `alone`: why everything is measured in one process; empty if it is not. Raises TcreadyError for an invalid arm.
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
    found = measure_bench(measuring, arms, wanted, about, lambda _: None, began, alone=alone)
    return _with_figures(seen, found, schedule.measurement_options(options, wanted) | _commit(root))


def compute_bench(seen: Observation) -> Observation:
    """Return a run of the standalone worker with a bench computed from its measurements; any other run is unchanged.

    Raises TcreadyError without scipy, or if a time is not above zero.
    """
    ran = seen.bench_run
    if ran is None:
        return seen
    measured_rows = (row for process in ran.processes for row in process.answer.measured)
    if any(seconds <= 0 for row in measured_rows for seconds in row.blocks):
        raise TcreadyError(f"{seen.target}: its bench contains times that are not above zero: run it again")
    requested = dict(ran.asked)
    device = str((seen.environment or {}).get("device") or "cpu")
    options = RunOptions(
        inputs=requested.get("inputs"),
        mode=seen.mode,
        device=device,
        dtype=requested.get("dtype"),
        autocast=requested.get("autocast"),
    )
    about = BenchWanted(
        target=_command_target(seen.target, options, BenchOptions(accumulate=int(requested.get("accumulate") or 1))),
        command=ran.command,
        mode=seen.mode,
        inputs_from=seen.inputs_from,
        dtype=requested.get("dtype"),
        autocast=requested.get("autocast"),
        rollbacks=_rollbacks(seen),
    )
    found = assemble_bench(ran.processes, ran.arms, about, seconds=ran.seconds, cut=ran.cut)
    return _with_figures(dataclasses.replace(seen, bench_run=None), found, requested)


def _rollbacks(seen: Observation) -> tuple[tuple[str, str], ...]:
    return ((PLAN, seen.plan.rollback),) if seen.plan is not None and seen.plan.rollback else ()


def _differing(seen: Observation, arms: Sequence[Arm]) -> tuple[tuple[str, str], ...]:
    """Return the arms that compile the model as the check did, if stage `parity` found that this changes the
    outputs."""
    parity = next((stage for stage in seen.stages if stage.stage == "parity"), None)
    if parity is None or parity.state != "fail" or parity.reason != "mismatch":
        return ()
    alike = [arm.name for arm in arms if arm.code == MODES["default"] and not arm.sources]
    return tuple((name, parity.detail) for name in alike)


def _commit(root: Path) -> dict[str, str]:
    """Return the commit of the working folder; empty outside of a repository."""
    commit = (git.ask(root, "rev-parse", "HEAD") or "").strip()
    changed = git.ask(root, "status", "--porcelain", "--untracked-files=no") if commit else ""
    return {"git commit": f"{commit}{', with changes' if changed else ''}"} if commit else {}


def _with_figures(seen: Observation, found: Bench, requested: Mapping[str, str]) -> Observation:
    """Return the run with its bench. `asked` becomes part of the stack."""
    found = dataclasses.replace(found, stack=(*found.stack, *((n, v) for n, v in requested.items() if v)))
    stages = tuple(stage_of(found) if stage.stage == "speed" else stage for stage in seen.stages)
    return dataclasses.replace(seen, bench=found, stages=stages)


def stage_of(found: Bench) -> Stage:
    """Return the stage `speed`. It passes if there is any verdict."""
    if found.failed:
        differs = any(arm.parity is False for arm in found.cases[-1].arms)
        return Stage("speed", "fail", found.reason, found.seconds, "mismatch" if differs else "compile_error")
    if found.verdict not in ("inconclusive", "not_run"):
        return Stage("speed", "pass", found.reason, found.seconds)
    return Stage("speed", "not_run", found.reason, None, "budget" if found.cut else "error")


def reject_other_plan(planned: Sequence[PlannedRun], wanted: BenchOptions) -> None:
    """Raise TcreadyError if the stored report contains no plan for the target. Called before anything runs."""
    if wanted.plan_from is not None and not _plans(wanted.plan_from, planned[0].target):
        raise TcreadyError(f"--plan-from {wanted.plan_from}: the report contains no plan for {planned[0].target}")


def reject_other_bench(planned: Sequence[PlannedRun], chosen: Settings, wanted: BenchOptions) -> None:
    """Raise TcreadyError if the stored bench has another target, mode, inputs, dtype or device than this one, or was
    timed in one process only. Called before anything runs.
    """
    if wanted.against is None:
        return
    stored = {(run.target, run.mode): run.bench for run in stored_runs(wanted.against) if run.bench}
    for options in planned[0].options(chosen):
        bench = stored.get((planned[0].target, options.mode))
        if bench is None:
            raise TcreadyError(
                f"--against {wanted.against}: the report contains no bench of {planned[0].target} "
                f"(--mode {options.mode})"
            )
        timed = [arm for case in bench.cases for arm in case.arms if arm.arm != EAGER and arm.blocks]
        if timed and all(len(arm.blocks) == 1 for arm in timed):
            raise TcreadyError(
                f"--against {wanted.against}: its arms were timed in one process only, so nothing can be compared: "
                "repeat that bench with a larger --budget"
            )
        requested = schedule.measurement_options(options, wanted)
        if options.device != "auto":
            requested["device"] = options.device
        _reject_differences(wanted.against, bench, requested)


def reject_other_machine(against: str, seen: Observation) -> None:
    """Raise TcreadyError if the stored bench was measured on another machine or with other versions. Called after the
    check, before anything is measured.
    """
    bench = next(
        (run.bench for run in stored_runs(against) if (run.target, run.mode) == (seen.target, seen.mode)), None
    )
    if bench is None:
        return
    known = {**(seen.environment or {}), **(seen.environment or {}).get("packages", {})}
    named = {name: str(value) for name, value in known.items() if isinstance(value, (str, int, float))}
    _reject_differences(against, bench, named)


def _reject_differences(against: str, bench: Bench, now: Mapping[str, str]) -> None:
    before = dict(bench.stack)
    differing = [
        f"{name} ({before.get(name) or '-'}, now {value or '-'})"
        for name, value in now.items()
        if bench.stack and is_compared(name) and before.get(name, "") != value
    ]
    if differing:
        raise TcreadyError(
            f"--against {against}: the benches differ, so they cannot be compared: {', '.join(differing)}"
        )


def _command_target(target: str, options: RunOptions, wanted: BenchOptions) -> str:
    """Return the target with the options that decide what is measured, for use in commands. Time limits are left out."""
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
    arguments = (options.model or target, *mode, *words(of_run, RunOptions), *words(own, BenchOptions))
    return " ".join(map(quote, arguments))


def regressions(before: str, after: Report, wanted: str) -> tuple[str, ...]:
    """Return one line for each arm that is slower than in a stored bench; see `tcready.api.regressions`."""
    threshold = _share(wanted)
    known = {(run.target, run.mode): run.bench for run in stored_runs(before) if run.bench is not None}
    lines: list[str] = []
    for target in after.targets:
        bench = target.observation.bench
        if bench is None:
            continue
        stored = known.get((target.target, target.mode))
        if stored is None:
            raise TcreadyError(f"--against {before}: the report contains no bench of {target.target}")
        found = find_regressions(stored, bench, threshold)
        if not found.comparable:
            raise TcreadyError(f"--against {before}: {found.reason}")
        lines += [each.reason for each in found.changes if each.regressed]
        unknown = [each.why_not for each in found.changes if each.why_not]
        if unknown and not lines:
            raise TcreadyError(f"--against {before}: cannot tell whether it is slower: {unknown[0]}")
    return tuple(lines)


def _share(text: str) -> float:
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        number = -1.0
    if not 0 <= number < (float("inf") if text.endswith("%") else 1):
        raise TcreadyError(f"--fail-on-regression {text}: expected a share such as 5% or 0.05")
    return number
