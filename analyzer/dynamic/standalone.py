"""The standalone worker: `python worker.pyz --target model.py::Net -o observation.json`.

For a machine that has Python and torch but no tcready: the same launcher, from the same file, watches the run, so
that a model that hangs, crashes or runs out of memory still leaves an observation.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tcready.dynamic.bench_variants import PLAN, PatchToMeasure, arms_of
from tcready.dynamic.launch import observe, refuse_trace_folder
from tcready.dynamic.schedule import Schedule, budget_of, carry, measure, measurement_options, process_of
from tcready.dynamic.worker.core.request import write_json
from tcready.dynamic.worker_process import RunRequest
from tcready.portable.option_fields import Declared, Kind, declared, words
from tcready.portable.options import BenchOptions, ReadOptions, RunOptions, validate_parallel
from tcready.portable.target import Target, quote
from tcready.schema.bench import BenchRun
from tcready.schema.enums import EAGER, TcreadyError
from tcready.schema.observation import Observation

_OPTIONS = tuple(each for each in declared(RunOptions) if each.option.worker)
_BENCH = {each.field: each for each in declared(BenchOptions)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if the model was compiled, whatever was found; 2 if nothing was compiled, and for invalid arguments.

    The observation is written either way, if possible.
    """
    given = _parser().parse_args(arguments)
    began = time.monotonic()
    request = _request(given)
    try:
        _refuse(given)
        validate_parallel(request.options)
        _refuse_unwritable(given.output)
        seen = observe(request, _say)
        seen = _add_measurements(seen, request, given, began) if given.bench else seen
    except TcreadyError as error:
        print(error, file=sys.stderr)
        return 2
    seen = replace(seen, asked=_command_line(given))
    try:
        write_json(given.output, seen)
    except OSError as error:
        print(f"cannot write {given.output}: {error.strerror}", file=sys.stderr)
        return 2
    print(_summary(seen, given.output))
    if given.bench and not _has_times(seen):
        why = next(iter(seen.bench_run.cut), "") if seen.bench_run else "the model did not run"
        print(f"nothing was timed{f': {why}' if why else ''}: give a larger --bench-budget", file=sys.stderr)
        return 2
    return 2 if any(stage.stage == "capture" and stage.state == "not_run" for stage in seen.stages) else 0


def _say(what: object) -> None:
    print(f"{what} ...", file=sys.stderr)


def _refuse(given: argparse.Namespace) -> None:
    """Raise TcreadyError, before anything runs, for options that would fail only after the run."""
    if given.trace_out is not None:
        refuse_trace_folder(Path(given.root) / given.trace_out, given.trace_out)
    if not given.bench:
        if given.arm or given.quick or given.bench_budget is not None or given.accumulate != 1:
            raise TcreadyError("--arm, --quick, --accumulate and --bench-budget are of --bench: add it")
        return
    if given.accumulate < 1:
        raise TcreadyError(f"--accumulate {given.accumulate}: expected a whole number above 0")
    if given.accumulate > 1 and given.mode != "train":
        raise TcreadyError("--accumulate is for training only: add --mode train")
    if given.bench_budget is not None and not 0 < given.bench_budget < float("inf"):
        raise TcreadyError(f"--bench-budget {given.bench_budget}: expected a number of seconds above 0")
    known = replace(_bench_options(given), arms=tuple(arm for arm in given.arm if arm != PLAN))
    if len(arms_of(known, None, _no_patch)) == 1 and PLAN not in given.arm:
        raise TcreadyError("--arm eager: there is nothing to compare it with: add another --arm")


def _refuse_unwritable(path: str) -> None:
    folder = Path(path).absolute().parent
    if Path(path).is_dir() or not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise TcreadyError(f"-o {path}: it cannot be written there")


def _has_times(seen: Observation) -> bool:
    """Return whether a bench timed any arm besides eager."""
    rows = (row for each in (seen.bench_run.processes if seen.bench_run else ()) for row in each.answer.measured)
    return any(row.blocks and row.arm != EAGER for row in rows)


def _no_patch() -> PatchToMeasure:
    raise TcreadyError("--arm patched: apply the patch to the files here, and measure that")


def _bench_options(given: argparse.Namespace) -> BenchOptions:
    return BenchOptions(
        arms=tuple(given.arm), quick=given.quick, bench_budget=given.bench_budget, accumulate=given.accumulate
    )


def _add_measurements(seen: Observation, request: RunRequest, given: argparse.Namespace, began: float) -> Observation:
    """Return the run with the bench measurements, or without them if the model cannot be called."""
    states = {stage.stage: stage.state for stage in seen.stages}
    if any(states[name] != "pass" for name in ("import", "build", "eager")):
        return seen
    wanted = _bench_options(given)
    if PLAN in wanted.arms and (seen.plan is None or not seen.plan.code):
        _say("there is no plan to measure")
        wanted = replace(wanted, arms=tuple(arm for arm in wanted.arms if arm != PLAN))
    arms = arms_of(wanted, seen.plan, _no_patch)
    with tempfile.TemporaryDirectory(prefix="tcready-", ignore_cleanup_errors=True) as folder:
        run = replace(request, options=request.options.without_studies())
        ends = began + budget_of(wanted)
        work = Schedule(process_of(run), wanted, arms, Path(folder), _say, lambda _: None, ends)
        if measure(work):
            carry(work)
    settings = measurement_options(request.options, wanted)
    ran = BenchRun(
        arms,
        tuple(work.done),
        round(time.monotonic() - began, 1),
        tuple(dict.fromkeys(work.cut)),
        tuple((name, value) for name, value in settings.items() if value),
        " ".join(["python", *map(quote, sys.argv)]),
    )
    return replace(seen, bench_run=ran)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="worker.pyz",
        description="Run a model under torch.compile and record what Dynamo does.",
        epilog="Then, on a machine with tcready: tcready check FILE --observation observation.json",
    )
    parser.add_argument(
        "--target",
        required=True,
        metavar="PATH::NAME",
        help="model.py::Net or pkg.mod::Net. A file alone may be enough.",
    )
    for each in _OPTIONS:
        parser.add_argument(f"--{each.name}", dest=each.field, help=_help(each), **_argument(each))
    group = parser.add_argument_group(
        "bench", "Measure as `tcready bench` does. tcready computes the figures from the result."
    )
    group.add_argument("--bench", action="store_true", help="Measure the model in eager mode and compiled.")
    group.add_argument(
        "--quick",
        action="store_true",
        help="Eager and `default`, one cold start, within 120 s unless --bench-budget is given.",
    )
    group.add_argument("--arm", action="append", default=[], metavar="ARM", help=_help(_BENCH["arms"]))
    group.add_argument("--accumulate", type=int, default=1, metavar="N", help=_help(_BENCH["accumulate"]))
    group.add_argument(
        "--bench-budget",
        type=float,
        metavar="SECONDS",
        help="Time limit for everything, including the check. Default: 300, or 120 with --quick.",
    )
    parser.add_argument(
        "--root", default=".", help="File names are relative to this folder. Default: the working folder."
    )
    parser.add_argument("-o", "--output", default="observation.json", metavar="FILE")
    return parser


def _help(each: Declared) -> str:
    default = f" Default: {each.default}." if isinstance(each.default, (str, float)) else ""
    return each.option.help.replace("%", "%%") + default


def _argument(each: Declared) -> dict[str, Any]:
    """Return the argparse settings of an option."""
    option = each.option
    if option.kind == "flag":
        return {"action": argparse.BooleanOptionalAction, "default": each.default}
    kinds: dict[Kind, Any] = {"number": float, "count": int, "command": _words}
    shown = {"default": each.default, "type": kinds.get(option.kind, str)}
    return {**shown, "choices": option.choices} if option.choices else {**shown, "metavar": option.metavar}


def _command_line(given: argparse.Namespace) -> tuple[str, ...]:
    """Return the arguments of `tcready check` for the same run."""
    written = {each.field: getattr(given, each.field) for each in _OPTIONS}
    other = {each.field: written[each.field] for each in _OPTIONS if written[each.field] != each.default}
    other.pop("trace_out", None)  # its folder is not empty any more
    return (given.target, *words(other, ReadOptions, RunOptions))


def _words(text: str) -> tuple[str, ...]:
    return tuple(shlex.split(text))


def _request(given: argparse.Namespace) -> RunRequest:
    package = Target.parse(given.target).package
    run = RunOptions(synthesise=True, **{each.field: getattr(given, each.field) for each in _OPTIONS})
    if given.bench and PLAN in given.arm:
        run = replace(run, plan=True)
    return RunRequest(given.target, run, given.root, (package,) if package else ())


def _summary(seen: Observation, path: str) -> str:
    """Summarize in one line which stages failed, and how much of the model was captured."""
    captured = [stage.detail for stage in seen.stages if stage.stage == "capture" and stage.state == "pass"]
    failed = [f"{stage.stage} failed: {stage.detail}" for stage in seen.stages if stage.state == "fail"]
    share = [f"{seen.coverage.share:.0%} of operations in graphs"] if seen.coverage else []
    missing = next((stage.detail for stage in seen.stages if stage.state == "not_run"), "")
    parts = [*captured, *share, *failed] or [f"not run: {missing}"]
    return f"{seen.target}: {'; '.join(parts)}; written to {path}"
