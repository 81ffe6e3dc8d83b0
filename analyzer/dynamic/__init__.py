"""Start workers, and make an Observation of what they leave.

A worker is a process of its own, with limits of time and memory; `launch` watches it, and `fork_server` makes workers
as copies of a process that has imported torch. `by_hand` is the standalone worker (`worker.pyz`), which starts itself
a second time, so that a run on another machine is watched like one here. A run that fails is an Observation with a
failed stage, not an exception. Only the package `worker` imports torch.
"""

from tcready.convention import Convention, find_convention, find_target
from tcready.dynamic.bundle import build_bundle
from tcready.dynamic.fork_server import ForkServer
from tcready.dynamic.launch import Prover, StayingWorker, bench, observe, prove, refuse_trace_folder
from tcready.dynamic.live import Standing, measuring_given, observe_given, observe_live, standing
from tcready.dynamic.process import RunRequest, first_signal_alone, signals_wait
from tcready.dynamic.worker.frames import is_cell

__all__ = [
    "Convention",
    "ForkServer",
    "Prover",
    "RunRequest",
    "Standing",
    "StayingWorker",
    "bench",
    "build_bundle",
    "find_convention",
    "find_target",
    "first_signal_alone",
    "is_cell",
    "measuring_given",
    "observe",
    "observe_given",
    "observe_live",
    "prove",
    "refuse_trace_folder",
    "signals_wait",
    "standing",
]
