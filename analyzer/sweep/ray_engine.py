"""The engine of a cluster: each task is a Ray task. Ray chooses its machine, and restarts it if that is lost."""

from __future__ import annotations

import functools
import os
import socket
from collections import deque
from typing import Any

from tcready.schema.enums import TcreadyError
from tcready.sweep.local_engine import A_CARD, VISIBLE, on_cuda
from tcready.sweep.task import Result, Task, TaskPlace, prepare, refusal, source_task

RETRIES = 3
"""How often a task is restarted if its process or machine is lost."""
QUIET = {"RAY_USAGE_STATS_ENABLED": "0"}
"""Setting that keeps Ray from reporting its use over the network."""


class RayEngine:
    """One Ray task for each task: it takes a core, and a GPU if it runs on one."""

    def __init__(self, ray: Any, limit: int | None, *, starts: bool) -> None:
        """`limit`: how many tasks Ray gets at a time; None: all. `starts`: Ray ends with this engine."""
        from tcready.pipeline.registry import tool

        self._ray = ray
        self._limit = limit
        self._starts = starts
        self._version = tool().version
        self._waiting: deque[Task] = deque()
        self._given: dict[Any, Task] = {}
        self._remote = ray.remote(max_retries=RETRIES, retry_exceptions=False)(carried_out)

    @property
    def slots(self) -> int:
        return self._limit or max(int(self._ray.cluster_resources().get("CPU", 1)), 1)

    def submit(self, task: Task) -> None:
        self._waiting.append(task)
        self._give()

    def completed(self, seconds: float) -> Result | None:
        done, _ = self._ray.wait(list(self._given), num_returns=1, timeout=seconds)
        if not done:
            return None
        task = self._given.pop(done[0])
        self._give()
        try:
            result: Result = self._ray.get(done[0])
        except self._ray.exceptions.RayError as error:
            why = str(error).strip().partition("\n")[0]
            return refusal(task, f"Ray lost it {RETRIES + 1} times: {type(error).__name__}: {why}")
        return result

    def close(self) -> None:
        for each in self._given:
            self._ray.cancel(each, force=True)
        self._given.clear()
        if self._starts:
            self._ray.shutdown()

    def _give(self) -> None:
        while self._waiting and (self._limit is None or len(self._given) < self._limit):
            task = self._waiting.popleft()
            options = self._remote.options(num_cpus=1, num_gpus=self._cards(task))
            self._given[options.remote(task, self._version)] = task

    def _cards(self, task: Task) -> int:
        """Return how many GPUs a task gets: no more than a machine has, or it would wait forever."""
        if task.stage != "run" or not on_cuda(task.run.device):
            return 0
        most = max((node["Resources"].get("GPU", 0) for node in self._ray.nodes() if node["Alive"]), default=0)
        return min(task.run.processes or 1, int(most))


def carried_out(task: Task, version: str) -> Result:
    """Carry out the task in a process of Ray, if this machine has the files and this version of tcready."""
    from tcready.pipeline.registry import tool

    here = tool().version
    if here != version:
        return refusal(task, f"{socket.gethostname()} has tcready {here}, and the sweep was started by {version}")
    try:
        os.chdir(task.root)
    except OSError as error:
        return refusal(task, f"{socket.gethostname()} cannot enter {task.root}: {error.strerror}")
    if task.stage != "run":
        _prepared()
        return source_task(task)
    # another GPU may be given to this process for its next task
    return _place().run(task, {VISIBLE: os.environ[VISIBLE]} if VISIBLE in os.environ else {})


@functools.cache
def _prepared() -> None:
    prepare()


@functools.cache
def _place() -> TaskPlace:
    """Return the place of this process: one process with torch imported serves all its tasks."""
    return TaskPlace()


def opened(workers: int | None, devices: tuple[str, ...]) -> RayEngine:
    """Open an engine on the cluster of RAY_ADDRESS or one that was started on this machine; else start Ray here.

    Raises TcreadyError if Ray is not installed, if the cluster cannot be reached, or has no GPU and one is requested,
    or if a device is one of several GPUs: Ray decides which one a task sees.
    """
    for device in devices:
        if device.startswith(A_CARD) and device != f"{A_CARD}0":
            raise TcreadyError(
                f"--engine ray: device {device}: Ray gives each run a GPU, the only one that it sees: write cuda"
            )
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise TcreadyError("--engine ray needs Ray: install tcready[ray]") from None
    starts = not ray.is_initialized()
    if starts:
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        try:
            ray.init(log_to_driver=False, include_dashboard=False, logging_level="error")
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise TcreadyError(f"--engine ray: {str(error).strip().partition(chr(10))[0]}") from None
    if any(device.partition(":")[0] == "cuda" for device in devices) and not ray.cluster_resources().get("GPU"):
        if starts:
            ray.shutdown()
        raise TcreadyError("--engine ray: no machine of the cluster has a GPU")
    return RayEngine(ray, workers, starts=starts)
