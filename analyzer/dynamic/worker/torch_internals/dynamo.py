"""Access Dynamo's state and settings, the author's compiled functions, and AOTAutograd."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import inspect
import os
import pkgutil
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch._dynamo
import torch._dynamo.exc
import torch._guards
from tcready.dynamic.worker.torch_internals import logs, version_differences
from tcready.schema.proof import setting_of
from torch._dynamo import utils as dynamo_utils

CUDA_NOT_INITIALIZED = 3
"""The result of the driver's cuInit in a copy of a process that called it (cuda.h: CUDA_ERROR_NOT_INITIALIZED)."""
EVENTS = ("TorchDynamo Cache Lookup", "Pregraph bytecode")
"""Names in the profiler of Dynamo's work in a call of compiled code before its graphs run."""
WRAPPED = "_orig_mod"
"""The attribute of a compiled module with the original one."""
FSDP2 = os.path.join("torch", "distributed", "fsdp", "_fully_shard")


def is_failure(error: str | None) -> bool:
    """Return whether an exception, by the name of its type, means that Dynamo could not compile."""
    kind = getattr(torch._dynamo.exc, error or "", None)
    return isinstance(kind, type) and issubclass(kind, torch._dynamo.exc.TorchDynamoException)


def reset() -> None:
    torch._dynamo.reset()


def forget_sizes() -> None:
    """Make Dynamo forget sizes of earlier calls: otherwise these would make a size dynamic, whichever code was compiled
    then."""
    if version_differences.has("sizes_seen"):
        from torch._dynamo import pgo

        pgo.reset_code_state()


def loaded() -> None:
    """Load what the first compile of a process loads, which takes about 2 s, and leave nothing compiled.

    If torch was built for a GPU, nothing is compiled: Dynamo checks whether there is one, and a process that has
    called CUDA cannot be forked into copies that use it. (With torch 2.11 on an H100 that was so even if Python
    answered for `torch.cuda` and `torch.accelerator`; copies of a process that had imported everything, and compiled
    nothing, could use it.)
    """
    if not any(getattr(torch.version, name, None) for name in ("cuda", "hip", "xpu")):
        torch.compile(lambda tensor: -tensor, backend="eager")(torch.ones(1))
        reset()


def copies_lack_the_gpu() -> bool:
    """Return whether this is a copy (os.fork) of a process that had called CUDA, so that the copy cannot use it.

    torch's own mark is not sufficient: `torch.accelerator.is_available()` calls CUDA and does not set it (seen with
    2.11 on an H200). So the driver is checked. Without a driver there is no GPU to lose, whatever the mark is.
    """
    try:
        answer = ctypes.CDLL("libcuda.so.1").cuInit(0)
    except (OSError, AttributeError):
        return False
    return bool(answer == CUDA_NOT_INITIALIZED or getattr(torch._C, "_cuda_isInBadFork", bool)())


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Isolate a run in a foreign process: Dynamo starts with nothing compiled, leaves nothing behind, and compiles
    meanwhile even if a stance forbids it. Earlier compiled code is compiled again at its next call."""
    metrics = dynamo_utils._compilation_metrics
    counters = {name: dict(counter) for name, counter in dynamo_utils.counters.items()}
    # Tools that listen to all loggers (pytest, from 9 on) would show thousands of lines of the structured trace.
    trace = logs.structured()
    listeners = [handler for handler in trace.handlers if not type(handler).__module__.startswith("torch.")]
    for handler in listeners:
        trace.removeHandler(handler)
    reset()
    try:
        with torch.compiler.set_stance("default"):
            yield
    finally:
        dynamo_utils._compilation_metrics = metrics
        for handler in listeners:
            trace.addHandler(handler)
        reset()
        for name, counter in dynamo_utils.counters.items():
            counter.clear()
            counter.update(counters.get(name, {}))


def is_compiled_module(value: Any) -> bool:
    """Return whether a value is a module compiled by `torch.compile`, which has the original as its submodule
    `WRAPPED`."""
    return isinstance(value, torch._dynamo.OptimizedModule)


def uncompiled(value: Any) -> Any:
    """Return the module or function inside the result of `torch.compile`; any other value unchanged. Of a method that is
    decorated with it, return the method."""
    if is_compiled_module(value):
        return getattr(value, WRAPPED)
    known = decided(value)
    if known is None or known.kind != "compiled":
        return value
    inside = value._torchdynamo_orig_callable
    is_decorated = inspect.ismethod(value) and inspect.isfunction(inside)
    return types.MethodType(inside, value.__self__) if is_decorated else inside


def explaining(backend: Callable[..., Any]) -> Any:
    """Return `backend` wrapped in the collector of `torch._dynamo.explain`, which returns explain's answer from
    `output()`.

    One run then serves for explain and for the record; explain itself would compile everything once more.
    """
    from torch._dynamo.backends.debugging import ExplainWithBackend

    return ExplainWithBackend(backend)


def flags() -> dict[str, Any]:
    """Return the Dynamo settings that decide what breaks and what recompiles."""
    names = tuple(
        """
        recompile_limit accumulated_recompile_limit automatic_dynamic_shapes assume_static_by_default
        capture_scalar_outputs capture_dynamic_output_shape_ops allow_unspec_int_on_nn_module allow_rnn
        inline_inbuilt_nn_modules nested_graph_breaks suppress_errors specialize_float
        """.split()
    )
    return version_differences.those_of(torch._dynamo.config, names)


SPEAKS = "reorderable_logging_functions"
"""The setting by which compiled code prints after a graph has run."""


def set_flag(name: str) -> tuple[str, Any]:
    """Set one of Dynamo's settings to True, or to its number (`name=64`), or add a function to it (`name=print`), for
    the rest of the process. Return its name and its previous value.

    Raises AttributeError if there is no such setting.
    """
    of, value = setting_of(name)
    usual = getattr(torch._dynamo.config, of)
    if isinstance(value, str):
        function = pkgutil.resolve_name(value if "." in value else f"builtins.{value}")
        setattr(torch._dynamo.config, of, {*getattr(torch._dynamo.config, of), function})
    else:
        setattr(torch._dynamo.config, of, value)
    return of, usual


def settings(values: Mapping[str, Any]) -> contextlib.AbstractContextManager[Any]:
    """Set Dynamo's settings to these values within the context."""
    found: contextlib.AbstractContextManager[Any] = torch._dynamo.config.patch(dict(values))
    return found


def optimize_ddp() -> str:
    """Return how Dynamo treats a graph below DistributedDataParallel: `ddp_optimizer` splits it along gradient
    buckets."""
    return str(dynamo_utils.get_optimize_ddp_mode())


def is_sharded(model: Any) -> bool:
    """Return whether FSDP2 has a module of the model, without loading its package."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    kind = getattr(fsdp, "FSDPModule", None)
    return (
        kind is not None
        and isinstance(model, torch.nn.Module)
        and any(isinstance(module, kind) for module in model.modules())
    )


def gathers_parameters(frames: Iterator[types.FrameType]) -> bool:
    """Return whether FSDP2's own code is among the calling frames: it gathers and frees parameters."""
    return any(FSDP2 in frame.f_code.co_filename for frame in frames)


def torch_folder() -> str:
    return str(os.path.dirname(torch.__file__))


def shorten_path(path: str) -> str:
    """A file as Dynamo's guards name it: without the common prefix with torch's folder, and without one more character.

    As `torch.utils._traceback.shorten_filename` does: of a path that shares only the root, `/tmp/a.py`, `mp/a.py`
    remains.
    """
    try:
        return path[len(os.path.commonpath([path, torch_folder()])) + 1 :]
    except ValueError:  # another drive
        return path


@dataclass(frozen=True)
class Decided:
    """A function that `torch.compile` or `torch.compiler.disable` wraps, and the code inside."""

    kind: Literal["compiled", "disabled"]
    code: types.CodeType


def decided(value: Any) -> Decided | None:
    """Return the author's decision about a function; None if there is none."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if isinstance(value, type) or not callable(value):
        return None
    attributes = getattr(value, "__dict__", {})
    inside = attributes.get("_torchdynamo_orig_callable")
    if inside is None:
        return None
    code = getattr(inspect.unwrap(inside), "__code__", None)
    if code is None:
        code = getattr(getattr(inside, "forward", None), "__code__", None)
    kind: Literal["compiled", "disabled"] = "disabled" if attributes.get("_torchdynamo_disable") else "compiled"
    return None if code is None else Decided(kind, code)


def is_compiled(value: Any) -> bool:
    """Return whether a function is the result of `torch.compile`."""
    known = decided(value)
    return known is not None and known.kind == "compiled"


def compile_id() -> str | None:
    """Return the id (`0/0`) of the current compilation; None outside of one."""
    found = torch._guards.CompileContext.current_compile_id()
    return None if found is None else str(found)


def aot_backend(
    forward: Callable[..., Any], backward: Callable[..., Any], inference: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a backend that has AOTAutograd split each graph; each compiler gets a graph and its example inputs.

    Raises ImportError if torch has it elsewhere. Loading it takes most of a second, so it is loaded only on request.
    """
    from torch._dynamo.backends.common import aot_autograd

    return aot_autograd(fw_compiler=forward, bw_compiler=backward, inference_compiler=inference)  # type: ignore[no-any-return]


def repeatable_backward() -> contextlib.AbstractContextManager[Any]:
    """Make AOTAutograd keep saved tensors in code compiled in the context if a backward retains the graph."""
    from torch._functorch import config

    found: contextlib.AbstractContextManager[Any] = config.patch(donated_buffer=False)
    return found


def inner_error(error: BaseException) -> BaseException:
    """Return the exception of a backend from Dynamo's exception, which has no useful first line."""
    found = getattr(error, "inner_exception", None)
    return found if isinstance(found, BaseException) else error


def boxed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function for AOTAutograd, which calls it with one list of arguments."""
    from torch._functorch.aot_autograd import make_boxed_func

    return make_boxed_func(function)  # type: ignore[no-any-return]


@contextlib.contextmanager
def replacing_graphs(
    replace: Callable[[torch.fx.GraphModule, Callable[[], Callable[..., Any]]], Callable[..., Any]],
) -> Iterator[None]:
    """Call every graph of a `torch.compile` in the context, also of the author's inner ones, through `replace`.

    `replace(graph, make)`: `make()` has the backend compile the graph; `graph` is a copy that no backend has changed.
    Every backend is called by `OutputGraph.call_user_compiler`.
    """
    from torch._dynamo.output_graph import OutputGraph

    call_user_compiler = OutputGraph.call_user_compiler

    def watched(self: Any, graph: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        untouched = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
        return replace(untouched, lambda: call_user_compiler(self, graph, *args, **kwargs))

    OutputGraph.call_user_compiler = watched
    try:
        yield
    finally:
        OutputGraph.call_user_compiler = call_user_compiler


def mark_dynamic(tensor: torch.Tensor, dimension: int) -> None:
    """Make Dynamo compile for every size of this dimension; it raises if the code makes a constant of it."""
    torch._dynamo.mark_dynamic(tensor, dimension)


def compiled_in_place(module: torch.nn.Module) -> bool:
    """Return whether `module.compile()` was called."""
    return getattr(module, "_compiled_call_impl", None) is not None
