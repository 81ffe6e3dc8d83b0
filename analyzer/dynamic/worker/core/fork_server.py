"""The worker as a fork server: import torch once, and run each request in a copy of this process."""

from __future__ import annotations

import array
import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Mapping

from tcready.dynamic.worker.core.request import LATE, LAUNCHER

READY = "ready"


def main() -> int:
    """Serve on the socket with the file descriptor in the first argument. In a copy, do the requested run.

    Exits 0 once the other side has closed the socket.
    """
    from tcready.dynamic.worker.core import main as worker

    worker.die_with_the_launcher()
    started = {name: value for name, value in os.environ.items() if name not in LATE}
    channel = socket.socket(fileno=int(sys.argv[2]))
    _load()
    if not _copies_are_whole():
        return 1
    arguments = _copies(channel, started)
    if arguments is None:
        return 0
    sys.argv[1:] = arguments
    return worker.main()


def _load() -> None:
    """Import everything that each run needs. No thread may be alive afterwards."""
    from tcready.dynamic.worker.core import pipeline  # noqa: F401 - it imports torch
    from tcready.dynamic.worker.proof import fork_pool  # noqa: F401
    from tcready.dynamic.worker.torch_internals import dynamo

    dynamo.loaded()
    gc.collect()
    gc.freeze()  # a copy shares the pages that it does not write to


def _copies_are_whole() -> bool:
    """Return whether a copy of this process could use a GPU as well as a separate process."""
    from tcready.dynamic.worker.torch_internals import dynamo

    pid = os.fork()
    if pid == 0:
        os._exit(int(dynamo.copies_lack_the_gpu()))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _copies(channel: socket.socket, started: Mapping[str, str]) -> list[str] | None:
    """Fork for each request. Return its arguments in the copy, and None in the server once the socket is closed.

    A request is one line of JSON, `{"arguments", "folder", "environment", "name"}`, and comes with the descriptor
    that the copy writes to. Answers are lines too: `{"pid"}` when it is started, `{"pid", "status"}` (as in
    `os.wait`) when it has ended. `started` is the environment with which the interpreter began: an interpreter that
    is a script may have set it.
    """
    server = os.getpid()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    before = signal.set_wakeup_fd(wake)
    _say(channel, {"state": READY})
    watched: list[socket.socket | int] = [channel, woken]
    buffer, descriptors = b"", list[int]()
    while True:
        readable, _, _ = select.select(watched, [], [])
        if woken in readable:
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 4096)
            for pid, status in _ended():
                _say(channel, {"pid": pid, "status": status})
        if channel not in readable:
            continue
        data, more = _received(channel)
        if not data:
            return None
        buffer += data
        descriptors += more
        while b"\n" in buffer:
            line, _, buffer = buffer.partition(b"\n")
            request = json.loads(line)
            output = descriptors.pop(0)
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(before)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                channel.close()
                os.close(woken)
                os.close(wake)
                _become(request, output, server, started)
                return list(request["arguments"])
            os.close(output)
            _say(channel, {"pid": pid})


def _received(channel: socket.socket) -> tuple[bytes, list[int]]:
    found = array.array("i")
    data, ancillary, _, _ = channel.recvmsg(65536, socket.CMSG_SPACE(8 * found.itemsize))
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(content[: len(content) - len(content) % found.itemsize])
    return data, list(found)


def _ended() -> list[tuple[int, int]]:
    """Return the copies that have ended since the last call."""
    found = []
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            found.append((pid, status))
    return found


def _become(request: dict[str, object], output: int, server: int, started: Mapping[str, str]) -> None:
    """Set up this copy like a new process with the same request."""
    os.setsid()
    # /proc shows the environment with which the server was started: processes of a copy are identified by name.
    ctypes.CDLL(None).prctl(15, str(request["name"]).encode())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(nothing)
    os.close(output)
    os.chdir(str(request["folder"]))
    environment = request["environment"]
    assert isinstance(environment, dict)
    environment |= started  # the same, unless the interpreter is a script that sets some of them
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)
    os.environ[LAUNCHER] = str(server)


def _say(channel: socket.socket, words: dict[str, object]) -> None:
    channel.sendall(json.dumps(words).encode() + b"\n")
