"""Which processes a bench needs, in which order, within its budget; and what their answers come to.

Nothing is measured here: every figure comes from a worker process, and `tcready.bench` makes the report's of them.
"""

from __future__ import annotations

import ast
import csv
import dataclasses
import io
import json
import math
import re
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tcready import observations
from tcready.applying import patched
from tcready.bench.assemble import assembled, more_processes
from tcready.bench.regression import regressed
from tcready.bench.verdicts import Limits
from tcready.bench.wanted import BenchWanted, Process, Purpose
from tcready.observations import Observed
from tcready.options import BenchOptions, RunOptions
from tcready.plan import PlannedRun
from tcready.resolve import Settings
from tcready.schema import (
    EAGER,
    Arm,
    Bench,
    BenchAnswer,
    BenchRequest,
    Observation,
    Report,
    Sizes,
    Stage,
    TcreadyError,
)
from tcready.static import locate
from tcready.target import Target

Tell = Callable[[str], None]
MODES: Mapping[str, str] = {
    "default": "model = torch.compile(model)",
    "reduce-overhead": 'model = torch.compile(model, mode="reduce-overhead")',
    "max-autotune": 'model = torch.compile(model, mode="max-autotune")',
    "dynamic": "model = torch.compile(model, dynamic=True)",
    "static": "model = torch.compile(model, dynamic=False)",
}
"""Arms that are known by name."""
PLAN, PATCHED = "plan", "patched"
OF_A_RUN = (PLAN, PATCHED)
"""Arms whose code a run, or a patch, gives."""
BUDGET, QUICK_BUDGET = 300.0, 120.0
TIMED, QUICK_TIMED = 20.0, 8.0
"""Seconds of timed calls in one process, at most."""
EXTRA = 2
"""Processes more if the verdict is near a threshold."""
LEAST = 20.0
"""Seconds without which no process is begun."""
CARRIED = "artifacts.bin"
PARITY_SHARE = 0.15
"""Of the budget, for outputs from further seeds and in other layouts."""
LOADER_SECONDS = 20.0
MOST_SIZES = 64
"""Named cases of a file of sizes: each is warmed up and timed by itself."""


# What is to be measured


def arms_of(wanted: BenchOptions, seen: Observation | None, root: Path) -> tuple[Arm, ...]:
    """The arms that are asked for, eager first; by default `default`, and `plan` where the run has one.

    Raises TcreadyError for a name that is not known, for code that is none, for a plan that nothing gives, and for a
    patch that cannot be carried out.
    """
    named = [_parted(text) for text in wanted.arms] or [("default", None)]
    plan = seen.plan if seen is not None else None
    if not wanted.arms and not wanted.quick and plan is not None and plan.code:
        named.append((PLAN, None))
    if wanted.patch is not None and PATCHED not in dict(named):
        named.append((PATCHED, None))
    found = [Arm(EAGER, "")]
    for name, code in named:
        if not re.fullmatch(r"\w[\w. -]{0,59}", name):
            raise TcreadyError(f"--arm {name}: name it with letters, digits, spaces, dots and dashes")
        if name in {arm.name for arm in found}:
            if name == EAGER and code is None:
                continue
            raise TcreadyError(f"--arm {name}: it is named twice")
        if code is not None:
            found.append(Arm(name, _code(name, code)))
        elif name in MODES:
            found.append(Arm(name, MODES[name]))
        elif name == PLAN:
            if plan is None or not plan.code:
                why = f": {plan.reason}" if plan is not None and plan.reason else ""
                raise TcreadyError(f"--arm plan: there is no plan{why}; `tcready check --plan` makes one")
            found.append(Arm(name, plan.code))
        elif name == PATCHED:
            found.append(Arm(name, MODES["default"], _sources(wanted.patch, root)))
        else:
            known = ", ".join([*MODES, *OF_A_RUN])
            raise TcreadyError(
                f"--arm {name}: there is {known}; for another, --arm {name}='torch.compile(model, ...)'"
            )
    return tuple(found)


def _parted(text: str) -> tuple[str, str | None]:
    name, equals, code = text.partition("=")
    return name.strip(), code.strip() if equals else None


def _code(name: str, code: str) -> str:
    """The lines of an arm; an expression gives the model, unless it is a call that compiles in place."""
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        raise TcreadyError(f"--arm {name}: {error.msg}: {code}") from None
    if not tree.body:
        raise TcreadyError(f"--arm {name}: no code: write {name}='torch.compile(model, ...)'")
    last = tree.body[-1]
    in_place = (
        isinstance(last, ast.Expr)
        and isinstance(last.value, ast.Call)
        and isinstance(last.value.func, ast.Attribute)
        and ast.unparse(last.value.func).startswith("model.")
    )
    if len(tree.body) == 1 and isinstance(last, ast.Expr) and not in_place:
        return f"model = {code}"
    return code


def _sources(patch: str | None, root: Path) -> tuple[tuple[str, str], ...]:
    if patch is None:
        raise TcreadyError("--arm patched: name the diff with --patch FILE")
    try:
        text = Path(patch).read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise TcreadyError(f"--patch {patch}: {error.strerror}") from None
    search = locate.default_search_path(root)

    def find(shown: str) -> Path | None:
        places = (root / shown, *(folder / shown for folder in search))
        return next((place.resolve() for place in places if place.is_file()), None)

    return tuple((str(file.path), file.after) for file in patched(text, patch, find))


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
    columns: set[str] | None = None
    for line, row in _rows(text, path):
        if columns not in (None, row.keys() - {"count"}):
            raise TcreadyError(f"--lengths {path}:{line}: other columns than above")
        columns = row.keys() - {"count"}
        count = _number(row.pop("count", 1), path, line, "count")
        values = tuple((name, int(_number(value, path, line, name))) for name, value in row.items())
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
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf") or (name != "count" and number != int(number)):
        raise TcreadyError(f"--lengths {path}:{line}: {name} is {value!r}: expected a whole number above 0")
    return number


def with_plan_of(seen: Observation, path: str | None) -> Observation:
    """The run with the plan that a stored report holds for its target. Raises TcreadyError if there is none."""
    if path is None:
        return seen
    plans = [run.plan for run in stored_runs(path) if run.target == seen.target and run.plan is not None]
    if not plans:
        raise TcreadyError(f"--plan-from {path}: it holds no plan for {seen.target}")
    return dataclasses.replace(seen, plan=plans[0])


def stored_runs(path: str) -> tuple[Observation, ...]:
    """The runs that a stored file holds. Raises TcreadyError if it is none of tcready's."""
    found = observations.load(path, path)
    return tuple(each.observation for each in found.targets) if isinstance(found, Report) else (found,)


# How it is measured


@dataclass
class _Bench:
    """One bench under way."""

    run: Callable[[BenchRequest, float, Tell], BenchAnswer]
    """One process that takes at most so many seconds."""
    wanted: BenchOptions
    arms: tuple[Arm, ...]
    room: Path
    tell: Tell
    progress: Tell
    ends: float
    done: list[Process] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    longest: float = LEAST

    @property
    def compiled(self) -> tuple[Arm, ...]:
        """Arms beside eager that share its sources."""
        return tuple(arm for arm in self.standing if arm.code and not arm.sources)

    @property
    def patched(self) -> tuple[Arm, ...]:
        return tuple(arm for arm in self.standing if arm.sources)

    @property
    def standing(self) -> tuple[Arm, ...]:
        """Arms that did not fail in every case of a process: what did is not measured again. None if eager is alone."""
        rows: dict[str, list[bool]] = {}
        for process in self.done:
            if process.purpose == "steady":
                for name in {row.arm for row in process.answer.measured}:
                    errors = [row.error for row in process.answer.measured if row.arm == name]
                    rows.setdefault(name, []).append(all(errors))
        left = tuple(arm for arm in self.arms if not any(rows.get(arm.name, ())))
        return left if left[:1] == self.arms[:1] and len(left) > 1 else ()

    @property
    def shares(self) -> bool:
        """Whether compiled arms share one limit of recompilations in this torch, as far as that is known."""
        return any(dict(each.answer.stack).get("isolate_recompiles") == "no" for each in self.done)

    def left(self) -> float:
        return self.ends - time.monotonic()

    def ask(
        self, purpose: Purpose, request: BenchRequest, words: str, *, more: float = 0.0
    ) -> BenchAnswer | None:
        """One process; None, and a line in `cut`, if the budget does not reach for it. `more` is not of the budget."""
        if self.done and self.left() + more < min(self.longest, LEAST):
            self.cut.append(f"{words}: the budget was spent")
            return None
        self.tell(f"  {max(self.left(), 0.0):.0f} s left: {words}")
        began = time.monotonic()
        answer = self.run(request, max(self.left(), LEAST) + more, self.progress)
        self.longest = max(self.longest, time.monotonic() - began) if purpose == "steady" else self.longest
        self.ends += more
        self.done.append(Process(request, answer, purpose))
        return answer

    def cache_of(self, arms: Sequence[Arm]) -> str:
        """Folder of Inductor's files: of its own for each set of sources."""
        number = self.arms.index(arms[0]) if arms[0].sources else 0
        return str(self.room / f"warm-{number}")

    def groups(self) -> tuple[tuple[Arm, ...], ...]:
        """Arms that go into one process: all, unless compiled arms share one limit of recompilations in this torch."""
        eager = self.standing[:1]
        together = [(*eager, arm) for arm in self.compiled] if self.shares else [(*eager, *self.compiled)]
        return (*(each for each in together if each), *((arm,) for arm in self.patched))


def measured(
    run: Callable[[BenchRequest, float, Tell], BenchAnswer],
    arms: tuple[Arm, ...],
    wanted: BenchOptions,
    about: BenchWanted,
    tell: Tell,
    progress: Tell,
    began: float | None = None,
    ends: float | None = None,
) -> Bench:
    """Every process that the arms need, as far as the budget reaches, and what they come to.

    Args:
        run: Runs one process: what it is asked, for at most how many seconds, and what to call with its progress.
        arms: Eager first.
        wanted: What is asked for.
        about: What the report says of the target, and its limits.
        tell: Called with what is measured next, and how much time is left.
        progress: Called with what a process does.
        began: When the command began, by `time.monotonic`; now if that is not given.
        ends: When the budget is spent; if that is not given, the budget counts from `began`.
    """
    began = time.monotonic() if began is None else began
    ends = began + budget_of(wanted) if ends is None else ends
    budget = max(ends - time.monotonic(), LEAST)
    with tempfile.TemporaryDirectory(prefix="tcready-", ignore_cleanup_errors=True) as folder:
        work = _Bench(run, wanted, arms, Path(folder), tell, progress, ends)
        if _steady(work, 0):
            if wanted.loader is not None:
                _fed(work, wanted.loader)
            # Without these two no verdict stands: they come before what makes it narrower.
            _profile(work)
            _parity(work, budget)
            for number in range(1, wanted.at_least):
                _steady(work, number)
            _cold(work)
            if not wanted.quick:
                _warm(work)
            found = _found(work, about, began)
            if more_processes(found, work.wanted.min_effect) and not wanted.quick:
                for number in range(wanted.at_least, wanted.at_least + EXTRA):
                    _steady(work, number)
            if wanted.soak is not None:
                _soak(work, _found(work, about, began), wanted.soak)
        return _found(work, about, began)


def budget_of(wanted: BenchOptions) -> float:
    """Seconds for everything but a soak."""
    return wanted.bench_budget or (QUICK_BUDGET if wanted.quick else BUDGET)


def _found(work: _Bench, about: BenchWanted, began: float) -> Bench:
    seconds = round(time.monotonic() - began, 1)
    return assembled(work.done, work.arms, about, seconds=seconds, cut=tuple(dict.fromkeys(work.cut)))


def _steady(work: _Bench, number: int) -> bool:
    """The `number`-th process in which arms are timed in turn; whether anything was timed."""
    timed = min(QUICK_TIMED if work.wanted.quick else TIMED, max(work.left(), LEAST) / 4)
    done: set[tuple[str, ...]] = set()
    any_timed = False
    while waiting := [arms for arms in work.groups() if tuple(arm.name for arm in arms) not in done]:
        arms = waiting[0]
        done.add(tuple(arm.name for arm in arms))
        request = BenchRequest(
            "steady",
            arms,
            seed=number,
            latencies=50 if work.wanted.quick else 100,
            seconds=timed,
            accumulate=work.wanted.accumulate,
            cache=work.cache_of(arms),
            profile=number == 0,
        )
        answer = work.ask("steady", request, f"steady state of {_named(arms)}, process {number + 1}")
        if answer is None:
            continue
        any_timed |= any(each.blocks for each in answer.measured)
        if len(arms) > 2 and work.shares:
            # Only now is it known that arms share a limit here: those behind the first get processes of their own.
            first = arms[:2]
            kept = tuple(each for each in answer.measured if each.arm in {arm.name for arm in first})
            work.done[-1] = Process(
                dataclasses.replace(request, arms=first), dataclasses.replace(answer, measured=kept), "steady"
            )
            done.add(tuple(arm.name for arm in first))
    return any_timed


def _profile(work: _Bench) -> None:
    """Of what the first process of each arm did not profile itself."""
    seen = {each.arm for process in work.done for each in process.answer.measured if each.profile is not None}
    for arms in work.groups():
        if seen >= {arm.name for arm in arms}:
            continue
        request = BenchRequest("profile", arms, accumulate=work.wanted.accumulate, cache=work.cache_of(arms))
        work.ask("profile", request, f"{_named(arms)} under the profiler")


def _parity(work: _Bench, budget: float) -> None:
    """Beside eager code of the same sources: what a patch itself changes is for `tcready prove`."""
    for arms in work.groups():
        request = BenchRequest("parity", arms, seconds=budget * PARITY_SHARE, cache=work.cache_of(arms))
        names = _named([arm for arm in arms if arm.code])
        work.ask("parity", request, f"outputs of {names} against eager")


def _cold(work: _Bench) -> None:
    """Each arm from an empty cache."""
    for arm in reversed(work.standing):
        request = BenchRequest(
            "cold",
            (arm,),
            accumulate=work.wanted.accumulate,
            cache=str(work.room / f"cold-{arm.name}"),
            artifacts=str(work.room / f"{arm.name}-{CARRIED}")
            if arm.code and not work.wanted.quick
            else None,
        )
        work.ask("cold", request, f"first call of {arm.name}, nothing cached")


def _fed(work: _Bench, loader: str) -> None:
    request = BenchRequest("loader", work.arms[:1], loader=loader, seconds=LOADER_SECONDS)
    work.ask("loader", request, f"eager, fed by {loader}")


def _named(arms: Sequence[Arm]) -> str:
    return ", ".join(arm.name for arm in arms)


def _warm(work: _Bench) -> None:
    """First calls in processes that find files of the one before, or get its artifacts alone."""
    for arm in (*work.compiled, *work.patched):
        base = BenchRequest("cold", (arm,), accumulate=work.wanted.accumulate)
        kept = dataclasses.replace(base, cache=str(work.room / f"cold-{arm.name}"))
        work.ask("cold_warm_cache", kept, f"first call of {arm.name}, with a warm cache")
        artifacts = work.room / f"{arm.name}-{CARRIED}"
        if artifacts.exists():
            carried = dataclasses.replace(base, artifacts=str(artifacts))
            work.ask("cold_carried", carried, f"first call of {arm.name}, with saved artifacts")


def _soak(work: _Bench, found: Bench, seconds: float) -> None:
    arm = next((arm for arm in work.arms if arm.name == found.recommended), work.arms[0])
    request = BenchRequest(
        "soak", (arm,), seconds=seconds, accumulate=work.wanted.accumulate, cache=work.cache_of((arm,))
    )
    work.ask("soak", request, f"{arm.name} for {seconds:.0f} s", more=seconds + LEAST)


def process_of(
    target: str, options: RunOptions, root: Path, toolchain: str
) -> Callable[[BenchRequest, float, Tell], BenchAnswer]:
    """What runs one process of a bench of this target; `toolchain` is a folder that all of them share."""

    def run(request: BenchRequest, seconds: float, tell: Tell) -> BenchAnswer:
        from tcready import dynamic

        # a soak may take longer than any run: its own seconds are its limit
        limit = seconds if request.kind == "soak" else min(options.timeout, seconds)
        limited = dataclasses.replace(options, timeout=round(limit))
        return dynamic.bench(observations.run_request(target, limited, root, toolchain), request, tell)

    return run


def settings_for(wanted: BenchOptions, chosen: Settings) -> Settings:
    """The settings of the check that comes first: with the sizes of a file, and with a plan if that is an arm.

    Raises TcreadyError for what would be wrong only after everything was measured: a stored bench that cannot be read.
    """
    if wanted.against is not None and all(run.bench is None for run in stored_runs(wanted.against)):
        raise TcreadyError(f"--against {wanted.against}: it holds no bench")
    if wanted.plan_from is not None and all(run.plan is None for run in stored_runs(wanted.plan_from)):
        raise TcreadyError(f"--plan-from {wanted.plan_from}: it holds no plan")
    if wanted.loader is not None:
        _refuse_no_file("--loader", wanted.loader, chosen.root)
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
    makes_plan = wanted.plan_from is None and any(_parted(text) == (PLAN, None) for text in wanted.arms)
    values = {**chosen.values, "sizes": sizes, "plan": chosen.values["plan"] or makes_plan}
    return dataclasses.replace(chosen, values=values)


def _refuse_no_file(option: str, named: str, root: Path) -> None:
    """Raises TcreadyError if what is named is a file that is not there, or names nothing in it."""
    target = Target.parse(named)
    if not target.name:
        raise TcreadyError(f"{option} {named}: name what gives it, as in {named}::name")
    if target.is_file and not (root / target.place).is_file():
        raise TcreadyError(f"{option} {named}: there is no file {target.place}")


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
    progress: Tell,
    began: float,
) -> Observed:
    """The runs, of one target, each with its bench; one that captured nothing that could be timed says why.

    `began`: when the command did, by `time.monotonic`: the budget counts from there, and runs share what is left of it.
    """
    by_mode = {options.mode: options for options in planned[0].options(chosen)}
    ends = began + budget_of(wanted)
    runs: list[Observation] = []
    for left, run in zip(range(len(seen.runs), 0, -1), seen.runs, strict=True):
        now = time.monotonic()
        part = _Part(began if not runs else now, now + (ends - now) / left)
        runs.append(_with_bench(run, by_mode[run.mode], chosen, wanted, command, announce, progress, part))
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
    progress: Tell,
    part: _Part,
) -> Observation:
    states = {stage.stage: stage for stage in seen.stages}
    unfit = next(
        (states[name] for name in ("import", "build", "eager") if states[name].state != "pass"), None
    )
    if unfit is not None:
        text = f"not measured: {unfit.stage}: {unfit.detail}"
        return dataclasses.replace(seen, bench=Bench("not_run", text, ()))
    if wanted.against is not None:
        refuse_another_machine(wanted.against, seen)
    seen = with_plan_of(seen, wanted.plan_from)
    arms = arms_of(wanted, seen, chosen.root)
    about = BenchWanted(
        target=_as_asked(seen.target, options, wanted),
        command=command,
        limits=Limits(min_effect=wanted.min_effect),
        mode=seen.mode,
        inputs_from=seen.inputs_from,
        dtype=options.dtype,
        autocast=options.autocast,
        rollbacks=((PLAN, seen.plan.rollback),) if seen.plan is not None and seen.plan.rollback else (),
    )
    announce(f"measuring {', '.join(arm.name for arm in arms)} of {seen.target}")
    with tempfile.TemporaryDirectory(prefix="tcready-", ignore_cleanup_errors=True) as tools:
        run = process_of(seen.target, options.without_studies(), chosen.root, tools)
        found = measured(run, arms, wanted, about, announce, progress, part.began, part.ends)
    asked = asked_of(options, wanted)
    found = dataclasses.replace(found, stack=(*found.stack, *((n, v) for n, v in asked.items() if v)))
    stages = tuple(stage_of(found) if stage.stage == "speed" else stage for stage in seen.stages)
    return dataclasses.replace(seen, bench=found, stages=stages)


def stage_of(found: Bench) -> Stage:
    """The rung `speed`: passed if there is a verdict, whatever it is."""
    if found.failed:
        differs = any(arm.parity is False for arm in found.cases[-1].arms)
        return Stage("speed", "fail", found.reason, found.seconds, "mismatch" if differs else "compile_error")
    if found.verdict in ("real_gain", "no_gain", "regression"):
        return Stage("speed", "pass", found.reason, found.seconds)
    return Stage("speed", "not_run", found.reason, None, "budget" if found.cut else "error")


def asked_of(options: RunOptions, wanted: BenchOptions) -> dict[str, str]:
    """What was asked for that decides what is measured, by its name in the stack."""
    return {
        "inputs": options.inputs or "",
        "lengths": wanted.lengths or "",
        "dtype": options.dtype or "",
        "autocast": options.autocast or "",
        "accumulate": str(wanted.accumulate),
    }


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
        asked = asked_of(options, wanted)
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
        if bench.stack and before.get(name, "") != value
    ]
    if differing:
        raise TcreadyError(f"--against {against}: not the same machine and stack: {', '.join(differing)}")


def _as_asked(target: str, options: RunOptions, wanted: BenchOptions) -> str:
    """The target with the options that decide what is measured, for commands."""
    known = {
        "--inputs": options.inputs,
        "--lengths": wanted.lengths,
        "--mode": "train" if options.mode == "train" else None,
        "--device": options.device if options.device != "cpu" else None,
        "--dtype": options.dtype,
        "--autocast": options.autocast,
    }
    return " ".join([target, *(f"{name} {shlex.quote(value)}" for name, value in known.items() if value)])


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
    return tuple(lines)


def _share(text: str) -> float:
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise TcreadyError(f"--fail-on-regression {text}: write 5% or 0.05")
    return number
