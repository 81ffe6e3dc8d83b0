"""Describe Dynamo's graphs as values: operations with their shapes and lines, and how DDPOptimizer splits them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

MEMBER_ACCESS = re.compile(r"_(?:modules|parameters|buffers)\['([^']+)'\]")
"""A member access in the source of a parameter: `L['self']._modules['net']._parameters['weight']`."""


@dataclass(frozen=True)
class Operation:
    """One operation of a graph."""

    name: str
    shapes: str
    """The shapes of its results: `float32[2, 8]`."""
    stack: str
    """The traceback of the user's code behind it, as text; empty if the graph has none."""
    collective: bool
    inputs: tuple[int, ...] = ()
    """The operations that it takes as inputs, by their index in this list; the names in the graph are those of the
    user's variables."""


@dataclass(frozen=True)
class Bucket:
    """One part of a graph, by DDPOptimizer."""

    size: int
    """Bytes of its parameters."""
    parameters: tuple[str, ...]
    stack: str
    """The stack of its first operation that has one."""


@contextlib.contextmanager
def graphs_seen(seen: Callable[[tuple[Operation, ...]], None]) -> Iterator[None]:
    """Report the operations of every graph that a `torch.compile` passes to its backend in the context, in order."""
    with _every_graph(lambda graph: seen(operations(graph))):
        yield


@contextlib.contextmanager
def squeezes_seen(seen: Callable[[str], None]) -> Iterator[None]:
    """Report each `squeeze` of a size that depends on data, in the graphs that are compiled in the context.

    Dynamo assumes that such a size is not one and keeps the dimension, without a guard; eager code drops it if it is
    one (measured with torch 2.11 and 2.13: `x.nonzero().squeeze()` with `capture_dynamic_output_shape_ops`).
    """

    def look(graph: torch.fx.GraphModule) -> None:
        for node in graph.graph.nodes:
            if node.op.startswith("call_") and _squeezes_unknown(node):
                seen(_stack(node))

    with _every_graph(look):
        yield


@contextlib.contextmanager
def _every_graph(seen: Callable[[torch.fx.GraphModule], None]) -> Iterator[None]:
    """Report every graph: every backend is called by `OutputGraph.call_user_compiler`."""
    from torch._dynamo.output_graph import OutputGraph

    call_user_compiler = OutputGraph.call_user_compiler

    def watched(self: Any, graph: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        seen(graph)
        return call_user_compiler(self, graph, *args, **kwargs)

    OutputGraph.call_user_compiler = watched
    try:
        yield
    finally:
        OutputGraph.call_user_compiler = call_user_compiler


def _squeezes_unknown(node: torch.fx.Node) -> bool:
    name = str(getattr(node.target, "__name__", node.target)).split(".")[0].rstrip("_")
    if name != "squeeze" or not node.all_input_nodes:
        return False
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    shape = getattr(node.all_input_nodes[0].meta.get("example_value"), "shape", ())
    given = [*node.args[1:], *(value for key, value in node.kwargs.items() if key == "dim")]
    chosen = [each for part in given for each in (part if isinstance(part, (tuple, list)) else (part,))]
    sizes = [shape[each] for each in chosen if isinstance(each, int)] if chosen else shape
    return any(free_unbacked_symbols(size) for size in sizes)


def operations(graph: torch.fx.GraphModule) -> tuple[Operation, ...]:
    """Return the calls of a graph in order, without its inputs: of a sharded parameter each rank has another part."""
    calls = {
        node: place for place, node in enumerate(each for each in graph.graph.nodes if each.op.startswith("call_"))
    }
    return tuple(
        Operation(
            name,
            _shapes(node.meta.get("example_value")),
            _stack(node),
            "c10d" in name,
            tuple(calls[each] for each in node.all_input_nodes if each in calls),
        )
        for node in calls
        for name in [_name(node.target)]
    )


@contextlib.contextmanager
def ddp_splits(seen: Callable[[tuple[Bucket, ...]], None]) -> Iterator[None]:
    """Report, for each graph that DDPOptimizer compiles in the context, its parts in the order of the forward.

    It stores its buckets "for testing and debugging" after splitting a graph, and nowhere else: the `ddp_graphs` log
    has the same as a table for people.
    """
    from torch._dynamo.backends.distributed import DDPOptimizer

    compile_fn = DDPOptimizer.compile_fn

    def watched(self: Any, graph: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        names = {str(node.target): _parameter_name(node) for node in graph.graph.nodes if node.op == "placeholder"}
        try:
            return compile_fn(self, graph, *args, **kwargs)
        finally:
            buckets = getattr(self, "buckets", ())
            if buckets:
                seen(tuple(_bucket(each, names) for each in buckets))

    DDPOptimizer.compile_fn = watched
    try:
        yield
    finally:
        DDPOptimizer.compile_fn = compile_fn


def _bucket(bucket: Any, names: dict[str, str]) -> Bucket:
    """Convert a bucket. It is filled from the end of the graph, so its nodes are in reverse order. Graphs take
    parameters in the order of their use."""
    parameters = tuple(shown for name, shown in names.items() if name in bucket.params)
    stack = next((text for node in reversed(bucket.nodes) if (text := _stack(node))), "")
    return Bucket(int(bucket.size), parameters, stack)


def _parameter_name(node: torch.fx.Node) -> str:
    """Return the dotted name of the parameter that is this input of a graph; for anything else the input's own name."""
    source = getattr(node.meta.get("grapharg"), "source", None)
    name = getattr(source, "name", "")
    parts = MEMBER_ACCESS.findall(str(name() if callable(name) else name))
    return ".".join(parts) or str(node.target)


def _name(target: Any) -> str:
    if isinstance(target, str) or not hasattr(target, "__name__") or "::" in str(target):
        return str(target)
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    module = getattr(target, "__module__", None)
    return f"{module}.{target.__name__}" if module else str(target.__name__)


def _stack(node: torch.fx.Node) -> str:
    return str(node.meta.get("stack_trace") or "")


def _shapes(value: Any) -> str:
    """Format shapes as `float32[2, 8]`, `(float32[2], int64[2])`; for anything but tensors the name of the type."""
    if isinstance(value, torch.Tensor):
        sizes = ", ".join(map(str, value.shape))
        return f"{str(value.dtype).removeprefix('torch.')}[{sizes}]"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_shapes, value))})"
    return "" if value is None else type(value).__name__
