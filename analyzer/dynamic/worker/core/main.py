"""The worker: `python worker.pyz request.json state.json faults.txt`.

It reads what to run, runs the stages, and leaves an Observation in the state file. Standard output belongs to the
model. Everything needed is imported before the user's folders are added to the path.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib.util
import logging
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.frames import FrameNames
from tcready.dynamic.worker.core.journal import Journal
from tcready.dynamic.worker.core.request import LAUNCHER, Work, read_work
from tcready.dynamic.worker.core.step import climb
from tcready.dynamic.worker.stages import parse
from tcready.portable.input_conventions import find_convention
from tcready.portable.target import Target


def main() -> NoReturn:
    code = _run()
    # Threads and processes that the model left running are waited for otherwise, and Inductor's pool of compilers: 5 to
    # 10 s on a machine with GPUs (torch 2.11). The launcher ends what is left.
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run() -> int:
    """Do what is requested; return the exit code."""
    request_path, state_path, faults_path = sys.argv[1:4]
    die_with_the_launcher()
    rank = os.environ.get("RANK", "0") if "TORCHELASTIC_RUN_ID" in os.environ else "0"
    if rank != "0":  # the first one observes; the others' messages are read only if it could not
        state_path, faults_path = f"{state_path}.rank{rank}", f"{faults_path}.rank{rank}"
    # Kept open on purpose: the fault handler writes to it when the process is about to die.
    faults = open(faults_path, "w", encoding="utf-8")  # noqa: SIM115
    faulthandler.enable(faults)
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, faults)
    work = read_work(request_path)
    if work.options.processes:
        os.chdir(work.root)
    context = _context(work, state_path)
    journal = context.journal
    if climb(context, (parse.STEP,)) is None:
        journal.begin("import", "import of torch")
        if not _torch_found(work):
            missing = f"torch is not installed in {sys.executable}"
            journal.end("not_run", missing, "no_torch")
            journal.rest = (missing, "no_torch")
            journal.close()
            return 0
        if work.proof is not None:
            from tcready.dynamic.worker.proof import fork_pool

            fork_pool.run(work, work.proof, Path(state_path).parent, lambda: _context(work, None))
            return 0
        if work.bench is not None:
            from tcready.dynamic.worker.bench import bench_process

            bench_process.run(context, work.bench, Path(state_path).parent)
            return 0
        if work.waits:
            from tcready.dynamic.worker.bench import bench_process

            bench_process.wait(context, Path(state_path).parent)
        from tcready.dynamic.worker.core import pipeline

        if pipeline.run(context) is None:
            if work.stays:
                from tcready.dynamic.worker.bench import bench_process

                bench_process.serve(context, Path(state_path).parent)
            return 0
    journal.close()
    # One of several that gives up would be waited for by the others in the next collective.
    return 1 if work.options.processes else 0


def _context(work: Work, state_path: str | None) -> Context:
    """Return the context of this run, with the definitions of target and inputs in its file."""
    path = None if work.options.inputs or work.options.model else parse.target_path(work)
    convention = find_convention(Path(path), Target.parse(work.target).name) if path else None
    if work.options.inputs:
        journal = Journal(work, "--inputs", state_path, "option")
    else:
        journal = Journal(
            work, convention.label if convention else None, state_path, "convention" if convention else None
        )
    call = work.options.compile_call
    dynamic = call.value("dynamic") if call is not None else None
    options = {} if dynamic is None else {"dynamic": dynamic}
    return Context(work, journal, FrameNames(work.root, work.own_packages), convention, compile_options=options)


def die_with_the_launcher() -> None:
    """On Linux, end the worker if the launcher is killed and so cannot clean up."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
        if os.environ.pop(LAUNCHER, None) not in (None, str(os.getppid())):
            # it died before it could be followed, or there is another process between
            print("an interpreter that is a script has to become Python: `exec python`", file=sys.stderr, flush=True)
            os._exit(1)


def _torch_found(work: Work) -> bool:
    """Return whether torch is found; if only PYTHONPATH provides it, its entries are added after those of the
    interpreter."""
    if importlib.util.find_spec("torch") is None:
        sys.path.extend(work.python_path)
    return importlib.util.find_spec("torch") is not None
