"""Start workers as copies of one process that has already imported torch."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from tcready.dynamic.bundle import build_bundle
from tcready.dynamic.worker.core.request import LATE, LAUNCHER

NAME_LENGTH = 15
"""The number of bytes of a process name that Linux stores."""
PATIENCE = 120.0
"""Seconds that the server may take to import torch."""
AWAKE = 1.0
"""Seconds of silence after which a stopped server is continued."""


def _kind(python: str, environment: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    """Return what runs must have in common to be copies of one process."""
    return python, {name: value for name, value in environment.items() if name not in LATE}


class Copy:
    """A forked worker, with the part of the interface of `subprocess.Popen` that watching a run needs."""

    def __init__(self, server: ForkServer, pid: int, output: IO[bytes]) -> None:
        self.pid = pid
        self.stdout: IO[bytes] | None = output
        self.returncode: int | None = None
        self._server = server

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, which is negative for a signal. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            status = self._server.status_of(self.pid, timeout)
            if status is None:
                raise subprocess.TimeoutExpired("a copy of the worker", timeout or 0.0)
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


class ForkServer:
    """A worker that has imported torch. Runs are copies of it, each in a separate process.

    `start` returns None if forking is impossible, if torch is missing, and for a run that needs another interpreter
    or other variables than the server was opened with; such a run gets a new process. Several threads may use it. The
    thread that opens it must live as long as it does, because the server dies with that thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._kind: tuple[str, Mapping[str, str]] | None = None
        self._read = b""
        self._statuses: dict[int, int] = {}
        self._failed = not hasattr(os, "fork") or sys.platform != "linux"
        self._closed = False
        self._has_served = False

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, python: str, environment: Mapping[str, str], seconds: float) -> None:
        """Start the server if it is not running. It may import torch for at most `seconds`. If that fails, runs get new
        processes. An exception (Ctrl-C) ends it."""
        with self._lock:
            if self._failed or self._closed or self._kind is not None:
                return
            self._kind = _kind(python, environment)
            self._failed = True
            try:
                self._failed = not self._open(python, environment, seconds)
                self._has_served = not self._failed
            finally:
                if self._failed:
                    self._shut()

    def start(
        self,
        python: str,
        arguments: list[str],
        folder: str | os.PathLike[str],
        environment: Mapping[str, str],
        mark: tuple[str, str],
    ) -> Copy | None:
        """Return a copy that runs the worker with these arguments in this folder; None if it cannot be a copy.

        `mark` is the environment variable, with its value, that identifies the processes of the run; their names
        begin with the value too. Raises OSError if the server was closed, since then no more runs are wanted.
        """
        with self._lock:
            if self._closed:
                raise OSError(errno.ECANCELED, "the work was ended")
            if self._failed or self._kind != _kind(python, environment) or self._channel is None:
                return None
            request = {
                "arguments": arguments,
                "folder": os.fspath(folder),
                "environment": {**environment, mark[0]: mark[1]},
                "name": mark[1][:NAME_LENGTH],
            }
            output, copied = os.pipe()
            try:
                line = json.dumps(request).encode() + b"\n"
                sent = socket.send_fds(self._channel, [line], [copied])
                self._channel.sendall(line[sent:])
                found = self._next(time.monotonic() + PATIENCE)
                while found is not None and "status" in found:
                    self._statuses[found["pid"]] = found["status"]
                    found = self._next(time.monotonic() + PATIENCE)
            except OSError:
                found = None
            finally:
                os.close(copied)
            if found is None:
                os.close(output)
                self._failed = True
                return None
            return Copy(self, found["pid"], os.fdopen(output, "rb", buffering=0))

    def status_of(self, pid: int, timeout: float | None) -> int | None:
        """Return the status of an ended copy, as in `os.wait`; None if it has not ended within `timeout` seconds."""
        until = time.monotonic() + (PATIENCE if timeout is None else timeout)
        while True:
            with self._lock:
                if pid in self._statuses:
                    return self._statuses.pop(pid)
                if self._channel is None:
                    return signal.SIGKILL  # the server is gone, and its copies died with it
                found = self._next(min(until, time.monotonic() + 0.05))
                if found is not None:
                    self._statuses[found["pid"]] = found["status"]
                    continue
            if timeout is not None and time.monotonic() >= until:
                return None

    @property
    def is_lost(self) -> bool:
        """Return whether the server had imported torch and has ended without being closed: a run may have killed it."""
        return self._has_served and self._channel is None and not self._closed

    def close(self) -> None:
        """End the server, also while another thread opens it. Copies that are still alive die with it."""
        self._closed = True
        if (channel := self._channel) is not None:
            with contextlib.suppress(OSError):
                channel.shutdown(socket.SHUT_RDWR)  # the owner of the lock may wait for an answer
        with self._lock:
            self._shut()
            self._failed = True

    def _shut(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _open(self, python: str, environment: Mapping[str, str], seconds: float) -> bool:
        self._folder = tempfile.TemporaryDirectory(prefix="tcready-", ignore_cleanup_errors=True)
        worker = Path(self._folder.name) / "worker.pyz"
        build_bundle(worker)
        self._channel, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(  # noqa: S603  the interpreter that runs are asked for with
                [python, str(worker), "--fork-server", str(theirs.fileno())],
                cwd=self._folder.name,
                env={**environment, LAUNCHER: str(os.getpid())},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except OSError:
            return False
        finally:
            theirs.close()
        if self._closed:  # by another thread, which may not have seen the channel yet
            return False
        return self._next(time.monotonic() + seconds) is not None

    def _wake(self) -> None:
        """Continue the server: a run may have stopped it, and with it all others."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def _next(self, until: float) -> dict[str, Any] | None:
        """Return the next answer; None if there is none by `until`, or the server has ended."""
        while b"\n" not in self._read:
            if self._channel is None:
                return None
            left = until - time.monotonic()
            self._channel.settimeout(min(max(left, 0.001), AWAKE))
            try:
                data = self._channel.recv(65536)
            except TimeoutError:
                self._wake()
                if left <= AWAKE:
                    return None
                continue
            except OSError:
                data = b""
            if not data:
                self._shut()
                return None
            self._read += data
        line, _, self._read = self._read.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer
