"""The worker run by hand: `python worker.pyz --target model.py::Net -o observation.json`.

For a machine that has Python and torch and no tcready: the same launcher, from the same file, watches the run, so
that a model that hangs, dies or eats the memory leaves an observation as well.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from tcready.dynamic.launch import RunRequest, observe
from tcready.dynamic.worker.request import write_json
from tcready.options import Declared, Kind, RunOptions, declared
from tcready.schema import Observation
from tcready.target import Target

_OPTIONS = tuple(each for each in declared(RunOptions) if each.option.worker)


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if the model was compiled, whatever was seen; 2 if nothing was, and for wrong arguments.

    The observation is written either way; 1 if it could not be.
    """
    given = _parser().parse_args(arguments)
    seen = observe(_request(given), lambda note: print(f"{note} ...", file=sys.stderr))
    try:
        write_json(given.output, seen)
    except OSError as error:
        print(f"cannot write {given.output}: {error.strerror}", file=sys.stderr)
        return 1
    print(_summary(seen, given.output))
    return 2 if any(stage.stage == "capture" and stage.state == "not_run" for stage in seen.stages) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="worker.pyz",
        description="Run a model under torch.compile and write down what Dynamo does with it.",
        epilog="Then, where tcready is: tcready check FILE --observation observation.json",
    )
    parser.add_argument(
        "--target",
        required=True,
        metavar="PATH::NAME",
        help="model.py::Net or pkg.mod::Net; a file alone may do",
    )
    for each in _OPTIONS:
        parser.add_argument(f"--{each.name}", dest=each.field, help=_help(each), **_argument(each))
    parser.add_argument(
        "--root", default=".", help="what file names are told relative to; default: this folder"
    )
    parser.add_argument("-o", "--output", default="observation.json", metavar="FILE")
    return parser


def _help(each: Declared) -> str:
    default = f" Default: {each.default}." if isinstance(each.default, (str, float)) else ""
    return each.option.help.replace("%", "%%") + default


def _argument(each: Declared) -> dict[str, Any]:
    """What argparse is told of an option."""
    option = each.option
    if option.kind == "flag":
        return {"action": argparse.BooleanOptionalAction, "default": each.default}
    kinds: dict[Kind, Any] = {"number": float, "count": int, "command": _words}
    shown = {"default": each.default, "type": kinds.get(option.kind, str)}
    return {**shown, "choices": option.choices} if option.choices else {**shown, "metavar": option.metavar}


def _words(text: str) -> tuple[str, ...]:
    return tuple(shlex.split(text))


def _request(given: argparse.Namespace) -> RunRequest:
    package = Target.parse(given.target).package
    run = RunOptions(synthesise=True, **{each.field: getattr(given, each.field) for each in _OPTIONS})
    return RunRequest(given.target, run, given.root, (package,) if package else ())


def _summary(seen: Observation, path: str) -> str:
    """One line: which stages failed, and how much of the model was captured."""
    captured = [stage.detail for stage in seen.stages if stage.stage == "capture" and stage.state == "pass"]
    failed = [f"{stage.stage} failed: {stage.detail}" for stage in seen.stages if stage.state == "fail"]
    share = [f"{seen.coverage.share:.0%} of operations in graphs"] if seen.coverage else []
    missing = next((stage.detail for stage in seen.stages if stage.state == "not_run"), "")
    parts = [*captured, *share, *failed] or [f"not run: {missing}"]
    return f"{seen.target}: {'; '.join(parts)}; written to {path}"
