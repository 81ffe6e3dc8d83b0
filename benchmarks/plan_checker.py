"""Executes lines of a plan over a real model and counts what they put in graphs; standard library and torch only.

    python plan_checker.py JOB.json RESULT.json

The job: `zoo` (a folder for sys.path), `build` (`module:function`; its call with `kwargs` gives (module, args,
kwargs)), `snippets` (each executed with `model` and `torch` bound), `oracle` and `timeout` (seconds for one snippet).
The result: `snippets` in the same order, and `oracle`. A job with `timed`, one snippet, gives `seconds` alone.

Nothing here is tcready's: it is what tcready's claims are held against. Each snippet has a process of its own, forked
from one that built the model once, for the imports, and compiled nothing. `torch.compile` has an eager backend there
that knows when a graph runs. The model is called three times; of the third call all ATen dispatches are counted, and
those inside graphs. Eval mode, no gradients, seed 0 before the build and 1 before each call.

A snippet is timed with Inductor, on the GPU if there is one.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import json
import os
import signal
import statistics
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
from torch.utils._python_dispatch import TorchDispatchMode

CALLS = 3
WARM_UP = 5
TIMED = 40
"""Calls of a round before and while it is timed."""
WORDS = 400
"""Characters of an error that are kept."""


class Counting(TorchDispatchMode):
    """Counts dispatches; `seen` is told of each."""

    supports_higher_order_operators = True

    def __init__(self, seen: Callable[[], None]) -> None:
        super().__init__()
        self.seen = seen

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True  # else Dynamo skips every frame under this mode

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") == "invoke_subgraph":  # its operations are what eager runs
            with self:
                return args[0](*args[2:])
        if getattr(func, "namespace", "") != "profiler":
            self.seen()
        return func(*args, **(kwargs or {}))


class Graphs:
    """An eager backend: how many graphs there are, and whether one is running."""

    def __init__(self) -> None:
        self.made = 0
        self.depth = 0
        self.all = 0
        self.inside = 0

    def __call__(self, graph: Any, _inputs: Any) -> Callable[..., Any]:
        self.made += 1

        def run(*args: Any) -> Any:
            self.depth += 1
            try:
                return graph.forward(*args)
            finally:
                self.depth -= 1

        return run

    def seen(self) -> None:
        self.all += 1
        self.inside += self.depth > 0


GRAPHS = Graphs()
_compile = torch.compile


def compile_eagerly(model: Any = None, **options: Any) -> Any:
    """`torch.compile` with the eager backend in place of Inductor, for the models' own decorators too."""
    if options.get("backend", "inductor") == "inductor":
        options["backend"] = GRAPHS
        options.pop("mode", None)
        options.pop("options", None)
    return _compile(**options) if model is None else _compile(model, **options)


def words(error: BaseException) -> str:
    """The first lines of an error."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:WORDS]


class Model:
    """What a record builds."""

    def __init__(self, zoo: str, build: str, kwargs: dict[str, Any]) -> None:
        sys.path.insert(0, zoo)
        self.build, self.kwargs = build, kwargs

    def fresh(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        module, function = self.build.split(":")
        torch.manual_seed(0)
        model, args, kwargs = getattr(importlib.import_module(module), function)(**self.kwargs)
        model.eval()
        return model, tuple(args), dict(kwargs)


def called(model: Any, args: Any, kwargs: Any, *watchers: contextlib.AbstractContextManager[Any]) -> Any:
    """One call with copies of the inputs; the watchers see the call and not the copying."""
    args, kwargs = copy.deepcopy((args, kwargs))
    torch.manual_seed(1)
    with torch.no_grad(), contextlib.ExitStack() as stack:
        for watcher in watchers:
            stack.enter_context(watcher)
        return model(*args, **kwargs)


def tensors(value: Any, seen: set[int]) -> Iterator[torch.Tensor]:
    """Every tensor in an output, in order."""
    if isinstance(value, torch.Tensor):
        yield value
        return
    if id(value) in seen or isinstance(value, (str, bytes, torch.nn.Module)):
        return
    seen.add(id(value))
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, (list, tuple)):
        parts = list(value)
    else:
        parts = list(getattr(value, "__dict__", {}).values())
    for part in parts:
        yield from tensors(part, seen)


def difference(expected: Any, actual: Any) -> str:
    """How two outputs differ; empty if they do not."""
    ours, theirs = list(tensors(expected, set())), list(tensors(actual, set()))
    if len(ours) != len(theirs):
        return f"{len(theirs)} tensors where eager gives {len(ours)}"
    for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        try:
            torch.testing.assert_close(other, one, equal_nan=True)
        except AssertionError as error:
            return f"tensor {index}: {words(error)}"
    return ""


def eager_outputs(model: Model) -> list[Any] | None:
    """Of each call; None where eager code differs from itself."""
    runs = []
    for _ in range(2):
        made, args, kwargs = model.fresh()
        runs.append([called(made, args, kwargs) for _ in range(CALLS)])
    if any(difference(one, other) for one, other in zip(*runs, strict=True)):
        return None
    return runs[0]


def snippet(model: Model, code: str) -> dict[str, Any]:
    """What executing `code` and calling the model comes to."""
    expected = eager_outputs(model)
    torch._dynamo.reset()
    GRAPHS.__init__()  # type: ignore[misc]
    made, args, kwargs = model.fresh()
    names = {"model": made, "torch": torch}
    found: dict[str, Any] = {"error": "", "differs": "", "compared": expected is not None}
    try:
        exec(compile(code, "<snippet>", "exec"), names)
        for index in range(CALLS):
            watchers = [Counting(GRAPHS.seen)] if index == CALLS - 1 else []
            output = called(names["model"], args, kwargs, *watchers)
            if expected is not None and not found["differs"]:
                found["differs"] = difference(expected[index], output)
    except Exception as error:
        found["error"] = words(error)
    share = GRAPHS.inside / GRAPHS.all if GRAPHS.all else 0.0
    return {**found, "graphs": GRAPHS.made, "ops": GRAPHS.all, "captured": GRAPHS.inside, "share": share}


class Calls:
    """What runs in an eager call: the inputs of each module, and how many operations run in which."""

    def __init__(self, model: Any) -> None:
        self.names = {module: name for name, module in model.named_modules()}
        self.inputs: dict[str, list[Any]] = {}
        self.not_copied: set[str] = set()
        self.running: list[str] = []
        self.ops: Counter[frozenset[str]] = Counter()
        """By the modules that were running."""

    def seen(self) -> None:
        self.ops[frozenset(self.running)] += 1

    def in_any(self, names: set[str]) -> int:
        return sum(count for running, count in self.ops.items() if running & names)

    @contextlib.contextmanager
    def watched(self, *, keep: bool) -> Iterator[None]:
        def enter(module: Any, args: Any, kwargs: Any) -> None:
            name = self.names[module]
            self.running.append(name)
            if keep:
                try:
                    self.inputs.setdefault(name, []).append(copy.deepcopy((args, kwargs)))
                except Exception:
                    self.not_copied.add(name)

        def leave(*_: Any) -> None:
            self.running.pop()

        handles = [
            handle
            for module in self.names
            for handle in (
                module.register_forward_pre_hook(enter, with_kwargs=True),
                module.register_forward_hook(leave, always_call=True),
            )
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def compiles_whole(module: Any, calls: list[Any]) -> bool:
    """Whether a module alone compiles with `fullgraph=True` on all calls that it got, and gives what eager gives."""
    expected = [[called(module, args, kwargs) for args, kwargs in calls] for _ in range(2)]
    torch._dynamo.reset()
    GRAPHS.__init__()  # type: ignore[misc]
    try:
        compiled = torch.compile(module, fullgraph=True)
        for one, other, (args, kwargs) in zip(*expected, calls, strict=True):
            output = called(compiled, args, kwargs)
            if not difference(one, other) and difference(one, output):
                return False
    except Exception:
        return False
    return GRAPHS.made > 0


def oracle(model: Model) -> dict[str, Any]:
    """The share of operations in the topmost modules that compile whole by themselves, and these modules."""
    made, args, kwargs = model.fresh()
    calls = Calls(made)
    called(made, args, kwargs, calls.watched(keep=True))
    called(made, args, kwargs)
    called(made, args, kwargs, calls.watched(keep=False), Counting(calls.seen))
    whole: list[str] = []
    waiting = [made]
    while waiting:
        module = waiting.pop()
        name = calls.names[module]
        inputs = calls.inputs.get(name, [])
        if inputs and not calls.in_any({name}):
            continue
        if inputs and name not in calls.not_copied and compiles_whole(module, inputs):
            whole.append(name)
        else:
            waiting += module.children()
    total = sum(calls.ops.values())
    return {"share": calls.in_any(set(whole)) / total if total else 0.0, "modules": whole, "ops": total}


def timed(model: Model, code: str) -> dict[str, float]:
    """Return the median seconds of a call after `code` was executed."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    made, args, kwargs = model.fresh()
    made.to(device)
    args, kwargs = torch.utils._pytree.tree_map_only(torch.Tensor, lambda each: each.to(device), (args, kwargs))
    names = {"model": made, "torch": torch}
    exec(compile(code, "<snippet>", "exec"), names)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    seconds = []
    with torch.no_grad():
        for _ in range(WARM_UP + TIMED):
            start = time.perf_counter()
            names["model"](*args, **kwargs)
            wait()
            seconds.append(time.perf_counter() - start)
    return {"seconds": statistics.median(seconds[WARM_UP:])}


def apart(work: Callable[[], dict[str, Any]], timeout: int) -> dict[str, Any]:
    """What `work` gives in a forked process; `error` where that raises or ends."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.alarm(timeout)
        try:
            found = work()
        except BaseException as error:
            traceback.print_exc()
            found = {"error": words(error)}
        with os.fdopen(writer, "w") as pipe:
            json.dump(found, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if text else {"error": f"the process ended: {os.waitstatus_to_exitcode(status)}"}


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    if "timed" in job:
        signal.alarm(int(job["timeout"]))
        found = timed(Model(job["zoo"], job["build"], job["kwargs"]), job["timed"])
        Path(sys.argv[2]).write_text(json.dumps(found), "utf-8")
        return
    torch.compile = compile_eagerly
    torch.set_num_threads(1)  # a pool of threads does not outlive a fork
    model = Model(job["zoo"], job["build"], job["kwargs"])
    model.fresh()
    timeout = int(job["timeout"])
    result = {"snippets": [apart(lambda code=code: snippet(model, code), timeout) for code in job["snippets"]]}  # type: ignore[misc]
    if job["oracle"]:
        result["oracle"] = apart(lambda: oracle(model), 4 * timeout)  # type: ignore[assignment]
    Path(sys.argv[2]).write_text(json.dumps(result), "utf-8")


if __name__ == "__main__":
    main()
