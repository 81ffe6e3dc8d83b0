"""The engine of one machine: a bounded pool of threads, each of which waits for one process."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from tcready.sweeping.task import Place, Result, Task, prepare, refusal, source_task

VISIBLE = "CUDA_VISIBLE_DEVICES"
THREADS = "OMP_NUM_THREADS"
ON_ANY_CARD = frozenset({"cuda", "auto"})
"""Devices that are whichever GPU a run sees."""
TRIES = 2
"""How often a source is read whose process died of it."""


class LocalEngine:
    """Runs are copies of a process that has imported torch; sources are read by a few processes that stay."""

    def __init__(self, workers: int, variables: Mapping[str, str], cards: tuple[str, ...] = ()) -> None:
        """`variables` are put into the environment of runs. Each run on CUDA has one of the `cards` to itself, which is
        all that it sees; without any they share what there is."""
        self._workers = workers
        self._variables = variables
        self._has_cards = bool(cards)
        self._results: queue.SimpleQueue[Result] = queue.SimpleQueue()
        self._free: queue.SimpleQueue[str] = queue.SimpleQueue()
        for card in cards:
            self._free.put(card)
        self._threads = ThreadPoolExecutor(workers, "tcready-sweep")
        self._place = Place()
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
        """One task. Its result is put down whatever happens: who waits for it would wait for ever."""
        try:
            result = self._run(task) if task.stage == "run" else self._read(task)
        except BaseException as error:
            result = refusal(task, f"{type(error).__name__}: {error}")
        self._results.put(result)

    def _run(self, task: Task) -> Result:
        if not self._has_cards or task.run.device not in ON_ANY_CARD:
            return self._place.run(task, self._variables)
        card = self._free.get()
        try:
            return self._place.run(task, {**self._variables, VISIBLE: card})
        finally:
            self._free.put(card)

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
    """A worker for each core; if all runs are on CUDA one for each GPU."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cards = gpus() if ON_ANY_CARD.intersection(devices) else ()
    count = workers or (len(cards) if cards and ON_ANY_CARD.issuperset(devices) else cores)
    # as many threads as there are cores in each run would have the runs wait for one another
    threads = {} if THREADS in os.environ else {THREADS: str(max(cores // count, 1))}
    return LocalEngine(count, threads, cards)


def gpus() -> tuple[str, ...]:
    """The GPUs that CUDA would show, as CUDA_VISIBLE_DEVICES names them; none if there is no driver to ask."""
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
    """What this thread starts has interrupts (Ctrl-C) kept from it, until it says what to do with them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _prepare_reader() -> None:
    """A process of the pool leaves interrupts to its parent, and ends with it however that ends."""
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
