"""Small functions compiled in child processes: what Dynamo makes of one call, with nothing left behind.

Each trial runs in a fork of its own with a time limit, so that what a call changes, prints or hangs in stays
there. The backend stops as soon as it has the graph: code that was traced does not run.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import re
import resource
import select
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from typing import Any

import torch
import torch._dynamo
from torch._dynamo import exc

SECONDS = 12
"""Of one child's own work; what takes longer stays undecided, however busy the machine is."""
PATIENCE = 45
"""Seconds after which a child that waits is ended."""
MEMORY = 24 << 30
"""Bytes of address space of one child: a candidate argument may be taken for a size."""


class Traced(Exception):  # noqa: N818 - it is no error: the backend's way to stop
    """The backend was reached; `operations` are the (kind, target) of the graph's nodes."""

    def __init__(self, operations: list[tuple[str, str]], targets: list[Any]) -> None:
        super().__init__()
        self.operations = operations
        self.targets = targets


def stop(module: torch.fx.GraphModule, _example: list[Any]) -> Any:
    nodes = [n for n in module.graph.nodes if n.op not in ("placeholder", "output", "get_attr")]
    raise Traced([(n.op, str(n.target)) for n in nodes], [n.target for n in nodes])


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


Outcome = tuple[str, Any]
"""("traced", the Traced), ("break", GB id), ("raises", text): what came of compiling one function."""


def compiled(function: Callable[..., Any], *args: Any) -> Outcome:
    """What Dynamo makes of `function(*args)` with its default settings, up to the first break."""
    torch._dynamo.reset()
    with quiet(), torch._dynamo.error_on_graph_break(True):
        try:
            torch.compile(function, backend=stop, dynamic=False)(*args)
        except exc.BackendCompilerFailed as error:
            return ("traced", error.inner_exception)
        except exc.Unsupported as error:
            return ("break", gb_id(str(error)))
        except BaseException as error:
            return ("raises", f"{type(error).__name__}: {error}"[:200])
    return ("raises", "no graph")


def gb_id(text: str) -> str:
    """The id of the page that a break's text names; `-` if it names none."""
    found = re.search(r"\bgb(\d+)\.html", text, re.I)
    return f"GB{found[1]}" if found else "-"


def call(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any] | None = None) -> Outcome:
    """What Dynamo makes of `function(*args, **keywords)` between two operations on a tensor.

    A method of a tensor is called as one: its `super()` is no other's, and Dynamo has handlers of its own for methods.
    """
    named = keywords or {}
    method = getattr(function, "__name__", "")
    if getattr(torch.Tensor, method, None) is function:

        def function(made: Any, *rest: Any, **named: Any) -> Any:
            return getattr(made, method)(*rest, **named)

    def program(given: torch.Tensor, *rest: Any) -> torch.Tensor:
        before = given + 1
        function(*rest, **named)
        return before

    return compiled(program, torch.ones(3), *args)


def graphs(function: Callable[..., Any], *args: Any) -> list[list[str]]:
    """The operations of each graph, when breaks are allowed and everything runs."""
    found: list[list[str]] = []

    def count(module: torch.fx.GraphModule, _example: list[Any]) -> Any:
        nodes = [n for n in module.graph.nodes if n.op not in ("placeholder", "output", "get_attr")]
        found.append([str(getattr(n.target, "__name__", n.target)) for n in nodes])
        return module.forward

    torch._dynamo.reset()
    with quiet():
        torch.compile(function, backend=count, dynamic=False)(*args)
    return found


def _child(work: Callable[[], Any], out: int, folder: str) -> None:
    os.chdir(tempfile.mkdtemp(dir=folder))  # what a call writes by a relative name
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    signal.alarm(PATIENCE)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    gc.disable()  # a collection would write to every page that is shared with the parent
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    logging.disable(logging.CRITICAL)
    # what looks for modules is Python's alone: a package that is installed here may have added its own
    sys.meta_path[:] = [BuiltinImporter, FrozenImporter, PathFinder]
    try:
        torch.manual_seed(0)
        answer = json.dumps(work())
    except BaseException as error:
        answer = json.dumps({"failed": f"{type(error).__name__}: {error}"[:200]})
    with contextlib.suppress(OSError):
        data = answer.encode()
        while data:
            data = data[os.write(out, data) :]
    os._exit(0)


def each(names: Iterable[str], work: Callable[[str], Any], processes: int, say: str = "") -> dict[str, Any]:
    """`work(name)` of each name, in a child each; what died or ran out of time is `{"failed": ...}`."""
    scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    pending = list(names)[::-1]
    total = len(pending)
    began = time.monotonic()
    running: dict[int, tuple[int, str, list[bytes]]] = {}
    results: dict[str, Any] = {}
    sys.stdout.flush()
    while pending or running:
        while pending and len(running) < processes:
            name = pending.pop()
            read, write = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(read)
                _child(lambda name=name: work(name), write, scratch.name)
            os.close(write)
            running[read] = (pid, name, [])
        for read in select.select(list(running), [], [])[0]:
            pid, name, parts = running[read]
            data = os.read(read, 1 << 16)
            if data:
                parts.append(data)
                continue
            os.close(read)
            del running[read]
            _, status = os.waitpid(pid, 0)
            text = b"".join(parts).decode()
            results[name] = json.loads(text) if text else {"failed": f"ended by {status}"}
    scratch.cleanup()
    if say:
        print(f"{say}: {total} in {time.monotonic() - began:.0f} s", flush=True)
    return {name: results[name] for name in sorted(results)}


def warm() -> None:
    """Loads in this process what every child would load: Dynamo, its handlers and its messages."""
    torch.set_num_threads(1)
    call(torch.sin, (torch.ones(2),))
    call(print, ("",))
    call(torch.nonzero, (torch.ones(2),))
    torch._dynamo.reset()
    gc.collect()
    gc.freeze()
