"""The engine of one machine: a limited pool of threads, each of which waits for one process."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from tcready.sweep.task import Result, Task, TaskPlace, prepare, refusal, source_task

VISIBLE = "CUDA_VISIBLE_DEVICES"
THREADS = "OMP_NUM_THREADS"
ON_ANY_CARD = frozenset({"cuda", "auto"})
"""Devices that mean any GPU that a run sees."""
A_CARD = "cuda:"
"""Prefix of a device that names one GPU of those that a run sees, by its number."""
TRIES = 2
"""How often reading a source is tried if the process dies."""


class Cards:
    """The GPUs of this machine, each of which one run has at a time. Thread-safe."""

    def __init__(self, names: tuple[str, ...]) -> None:
        """`names` are as in CUDA_VISIBLE_DEVICES, in the order of `cuda:0`, `cuda:1`, ..."""
        self._names = names
        self._free = set(range(len(names)))
        self._changed = threading.Condition()

    def used(self, devices: Iterable[str]) -> int:
        """Return how many of them runs on these devices use together."""
        distinct = set(devices)
        if ON_ANY_CARD & distinct:
            return len(self._names)
        return len({card for device in distinct for card in self._named(device)})

    @contextlib.contextmanager
    def reserve(self, device: str, count: int) -> Iterator[Mapping[str, str]]:
        """Wait for the card that a device names, or for any `count`; yield the environment variables of a run on them.

        A run on `cuda` sees only its cards. One on `cuda:1` sees all, or there would be no such device for it.
        """
        anyone = device in ON_ANY_CARD
        with self._changed:
            wanted = min(count, len(self._names))
            if anyone:
                self._changed.wait_for(lambda: len(self._free) >= wanted)
                cards = sorted(self._free)[:wanted]
            else:
                cards = list(self._named(device))
                self._changed.wait_for(lambda: self._free.issuperset(cards))
            self._free.difference_update(cards)
        try:
            yield {VISIBLE: ",".join(self._names[card] for card in cards)} if anyone and cards else {}
        finally:
            with self._changed:
                self._free.update(cards)
                self._changed.notify_all()

    def _named(self, device: str) -> tuple[int, ...]:
        """Return the card that a device names; none if it does not exist, which the run will report."""
        number = device.removeprefix(A_CARD)
        return (int(number),) if number.isdecimal() and int(number) < len(self._names) else ()


def on_cuda(device: str) -> bool:
    """Return True if a run on this device uses a GPU."""
    return device in ON_ANY_CARD or device.startswith(A_CARD)


class LocalEngine:
    """Runs are forked from a process that has imported torch; sources are read by a few persistent processes."""

    def __init__(self, workers: int, variables: Mapping[str, str], cards: Cards | None = None) -> None:
        """`variables` are added to the environment of runs. Each run on CUDA has one of the `cards` to itself;
        without any they share the GPUs. None: cards are detected once a run is on CUDA, which a table may specify."""
        self._workers = workers
        self._variables = variables
        self._cards = cards
        self._results: queue.SimpleQueue[Result] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(workers, "tcready-sweep")
        self._place = TaskPlace()
        self._lock = threading.Lock()
        self._readers: ProcessPoolExecutor | None = None
        self._closed = False

    @property
    def slots(self) -> int:
        return self._workers

    def submit(self, task: Task) -> None:
        self._threads.submit(self._carry_out, task)

    def completed(self, seconds: float) -> Result | None:
        try:
            return self._results.get(timeout=seconds)
        except queue.Empty:
            return None

    def close(self) -> None:
        with self._lock:
            self._closed = True
            readers, self._readers = self._readers, None
        if readers is not None:
            for process in list(getattr(readers, "_processes", None) or {}):
                _end(process)
            readers.shutdown(wait=False, cancel_futures=True)
        self._place.close()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _carry_out(self, task: Task) -> None:
        """Carry out one task. It always puts a result, or the caller would wait forever."""
        try:
            result = self._run(task) if task.stage == "run" else self._read(task)
        except BaseException as error:
            result = refusal(task, f"{type(error).__name__}: {error}")
        self._results.put(result)

    def _run(self, task: Task) -> Result:
        if not on_cuda(task.run.device):
            return self._place.run(task, self._variables)
        with self._lock:
            if self._cards is None:
                self._cards = Cards(gpus())
            cards = self._cards
        with cards.reserve(task.run.device, task.run.processes or 1) as visible:
            return self._place.run(task, {**self._variables, **visible})

    def _read(self, task: Task) -> Result:
        for _ in range(TRIES):
            pool = self._pool()
            if pool is None:
                break
            try:
                with _interrupts_wait():  # a process that begins meanwhile would print a traceback
                    answer = pool.submit(source_task, task)
                return answer.result()
            except BrokenProcessPool:
                with self._lock:
                    if self._readers is pool:  # no other thread has put a new one in its place
                        self._readers = None
        return refusal(task, "the process that read the source died")

    def _pool(self) -> ProcessPoolExecutor | None:
        with self._lock:
            if self._readers is None and not self._closed:
                # a fork of a process with threads may hang
                context = multiprocessing.get_context("spawn")
                self._readers = ProcessPoolExecutor(self._workers, context, _prepare_reader)
            return self._readers


def opened(workers: int | None, devices: tuple[str, ...]) -> LocalEngine:
    """Return an engine with a worker for each core; if all runs are on CUDA, one for each GPU that they use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cards = Cards(gpus()) if any(map(on_cuda, devices)) else None
    used = cards.used(devices) if cards is not None and all(map(on_cuda, devices)) else 0
    count = workers or used or cores
    # as many threads as there are cores in each run would have the runs wait for one another
    threads = {} if THREADS in os.environ else {THREADS: str(max(cores // count, 1))}
    return LocalEngine(count, threads, cards)


def gpus() -> tuple[str, ...]:
    """Return the GPUs that CUDA would show, in the form of CUDA_VISIBLE_DEVICES; none if there is no driver to ask."""
    if VISIBLE in os.environ:
        return tuple(name.strip() for name in os.environ[VISIBLE].split(",") if name.strip())
    try:
        answered = subprocess.run(
            ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"],  # noqa: S607 - found as the user's shell would
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(answered.stdout.split()) if answered.returncode == 0 else ()


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Block interrupts (Ctrl-C) for processes that this thread starts, until they handle them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _prepare_reader() -> None:
    """Prepare a process of the pool: it leaves interrupts to its parent, and ends with it however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow, daemon=True).start()
    prepare()


def _follow() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _end(process: int) -> None:
    try:
        os.kill(process, signal.SIGTERM)
    except OSError:
        return
