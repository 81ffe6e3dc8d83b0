"""The dynamic half: a target to an Observation, in a process of its own."""

from tcready.dynamic.bundle import build_bundle
from tcready.dynamic.launch import Prover, RunRequest, bench, observe, prove
from tcready.dynamic.live import observe_live
from tcready.dynamic.worker.convention import Convention, find_convention, find_target

__all__ = [
    "Convention",
    "Prover",
    "RunRequest",
    "bench",
    "build_bundle",
    "find_convention",
    "find_target",
    "observe",
    "observe_live",
    "prove",
]
