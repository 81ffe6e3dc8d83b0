"""The worker: `python worker.pyz request.json state.json faults.txt`.

Reads what to run, climbs the stages, and leaves an Observation in the state file. Standard output belongs to
the model. Everything needed is imported before the user's folders come onto the path.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib.util
import os
import signal
import sys

from tcready.dynamic.worker.convention import Convention, find_convention
from tcready.dynamic.worker.journal import Journal, StageFailedError, told
from tcready.dynamic.worker.request import Work, read_work


def main() -> int:
    request_path, state_path, faults_path = sys.argv[1:4]
    _die_with_the_launcher()
    rank = os.environ.get("RANK", "0") if "TORCHELASTIC_RUN_ID" in os.environ else "0"
    if rank != "0":  # the first one observes; what the others say is asked only where it never could
        state_path, faults_path = f"{state_path}.rank{rank}", f"{faults_path}.rank{rank}"
    # Kept open on purpose: the fault handler writes to it when the process is about to die.
    faults = open(faults_path, "w", encoding="utf-8")  # noqa: SIM115
    faulthandler.enable(faults)
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, faults)
    work = read_work(request_path)
    if work.options.processes:
        os.chdir(work.root)
    convention = None if work.options.inputs else _convention(work)
    journal = Journal(
        work, "--inputs" if work.options.inputs else convention.label if convention else None, state_path
    )
    try:
        _parse(work, journal)
        journal.begin("import", "import of torch")
        if not _torch_found(work):
            reason = f"torch is not installed in {os.path.basename(sys.executable)}"
            journal.skip("import", reason)
            journal.close(reason)
            return 0
        from tcready.dynamic.worker.run import run

        run(work, convention, journal)
    except StageFailedError:
        journal.close()
        # One of several that gives up would be waited for by the others in the next collective.
        return 1 if work.options.processes else 0
    return 0


def _die_with_the_launcher() -> None:
    """On Linux: a launcher that is killed, and so cannot clean up, takes the worker with it."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def _target_path(work: Work) -> str | None:
    module = work.target.partition("::")[0]
    if module.endswith(".py"):
        return os.path.join(work.root, module)
    relative = os.path.join(*module.split("."))
    for entry in [work.root, *work.python_path, *sys.path]:
        for tail in (f"{relative}.py", os.path.join(relative, "__init__.py")):
            if os.path.isfile(os.path.join(entry, tail)):
                return os.path.join(entry, tail)
    return None


def _convention(work: Work) -> Convention | None:
    from pathlib import Path

    path = _target_path(work)
    return find_convention(Path(path), work.target.partition("::")[2] or None) if path else None


def _parse(work: Work, journal: Journal) -> None:
    journal.begin("parse")
    path = _target_path(work)
    if path is None:
        # Only its import can tell where such a module lies (an editable finder, a compiled module).
        journal.end("pass", "the source was not found before its import")
        return
    try:
        with open(path, "rb") as file:
            compile(file.read(), path, "exec", dont_inherit=True)
    except FileNotFoundError:
        journal.end("fail", f"{work.target.partition('::')[0]}: no such file")
    except (OSError, SyntaxError, ValueError) as error:
        journal.end("fail", told(error, work.root))
    else:
        journal.end("pass")
        return
    raise StageFailedError


def _torch_found(work: Work) -> bool:
    """A torch that only PYTHONPATH gives counts too, after everything the interpreter has itself."""
    if importlib.util.find_spec("torch") is None:
        sys.path.extend(work.python_path)
    return importlib.util.find_spec("torch") is not None
