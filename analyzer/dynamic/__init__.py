"""The dynamic half: a target to an Observation, in a process of its own."""

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
