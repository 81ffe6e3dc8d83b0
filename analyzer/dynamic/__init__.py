"""Start workers and convert the files that they leave to an Observation.

A worker is a separate process with limits of time and memory. `launch` watches it, and `fork_client` makes workers as
copies of a process that has imported torch. `standalone` is the standalone worker (`worker.pyz`), which starts itself a
second time, so that a run on another machine is watched like one here. A run that fails is an Observation with a
failed stage, not an exception. Only the package `worker` imports torch.
"""

from tcready.dynamic.bundle import build_bundle
from tcready.dynamic.fork_client import ForkServer
from tcready.dynamic.launch import Prover, StayingWorker, bench, observe, prove, refuse_trace_folder
from tcready.dynamic.live_run import CodeLocation, locate_code, measuring_given, observe_given, observe_live
from tcready.dynamic.worker.core.frames import is_cell
from tcready.dynamic.worker_process import RunRequest, first_signal_alone, signals_wait
from tcready.portable.input_conventions import Convention, find_convention, find_target

__all__ = [
    "CodeLocation",
    "Convention",
    "ForkServer",
    "Prover",
    "RunRequest",
    "StayingWorker",
    "bench",
    "build_bundle",
    "find_convention",
    "find_target",
    "first_signal_alone",
    "is_cell",
    "locate_code",
    "measuring_given",
    "observe",
    "observe_given",
    "observe_live",
    "prove",
    "refuse_trace_folder",
    "signals_wait",
]
