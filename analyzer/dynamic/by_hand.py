"""The worker run by hand: `python worker.pyz --target model.py::Net -o observation.json`.

For a machine that has Python and torch and no tcready: the same launcher, from the same file, watches the run, so
that a model that hangs, dies or eats the memory leaves an observation as well.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from typing import get_args

from tcready.dynamic.launch import RunRequest, observe
from tcready.dynamic.worker.request import write_json
from tcready.options import RunOptions
from tcready.schema import Mode, Observation
from tcready.target import Target


def main(arguments: Sequence[str] | None = None) -> int:
    """0 where the model was compiled, whatever was seen; 2 where nothing was, and for wrong arguments.

    The observation is written either way; 1 where it could not be.
    """
    options = _parser().parse_args(arguments)
    launcher = tuple(shlex.split(options.launcher))
    seen = observe(_request(options, launcher), lambda note: print(f"{note} ...", file=sys.stderr))
    try:
        write_json(options.output, seen)
    except OSError as error:
        print(f"cannot write {options.output}: {error.strerror}", file=sys.stderr)
        return 1
    print(_summary(seen, options.output))
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
    parser.add_argument(
        "--inputs", metavar="PATH::NAME", help="what gives the inputs; else what the file gives, else made up"
    )
    parser.add_argument("--mode", choices=get_args(Mode), default="infer")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, mps or auto")
    parser.add_argument("--dtype", help="cast the model and its floating inputs")
    parser.add_argument("--autocast", metavar="DTYPE", help="run under torch.autocast")
    parser.add_argument("--fullgraph", action="store_true", help="try fullgraph=True though there are breaks")
    parser.add_argument("--shapes", action="store_true", help="vary the sizes of the inputs")
    parser.add_argument("--backend", action="store_true", help="compile with Inductor as well")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="for these three together")
    parser.add_argument("--python", metavar="EXE", help="another interpreter to run the model in")
    parser.add_argument(
        "--launcher", default="", metavar="COMMAND", help='what starts the interpreter: "srun -n1"'
    )
    parser.add_argument("--nproc-per-node", type=int, metavar="N", help="N processes under torchrun")
    parser.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS", help="default: 600")
    parser.add_argument(
        "--memory", type=float, metavar="GB", help="end the run above this much resident memory"
    )
    parser.add_argument("--allow-downloads", action="store_true", help="offline otherwise")
    parser.add_argument(
        "--root", default=".", help="what file names are told relative to; default: this folder"
    )
    parser.add_argument("-o", "--output", default="observation.json", metavar="FILE")
    return parser


def _request(options: argparse.Namespace, launcher: tuple[str, ...]) -> RunRequest:
    package = Target.parse(options.target).package
    named = (package,) if package else ()
    run = RunOptions(
        inputs=options.inputs,
        mode=options.mode,
        device=options.device,
        dtype=options.dtype,
        autocast=options.autocast,
        fullgraph=options.fullgraph,
        shapes=options.shapes,
        backend=options.backend,
        budget=options.budget,
        python=options.python,
        timeout=options.timeout,
        memory_gb=options.memory,
        allow_downloads=options.allow_downloads,
        synthesise=True,
        launcher=launcher,
        processes=options.nproc_per_node,
    )
    return RunRequest(options.target, run, options.root, named)


def _summary(seen: Observation, path: str) -> str:
    """One line: where the ladder ended, and how much of the model was captured."""
    captured = [stage.detail for stage in seen.stages if stage.stage == "capture" and stage.state == "pass"]
    failed = [f"{stage.stage} failed: {stage.detail}" for stage in seen.stages if stage.state == "fail"]
    share = [f"{seen.coverage.share:.0%} of operations in graphs"] if seen.coverage else []
    missing = next((stage.detail for stage in seen.stages if stage.state == "not_run"), "")
    told = [*captured, *share, *failed] or [f"not run: {missing}"]
    return f"{seen.target}: {'; '.join(told)}; written to {path}"
