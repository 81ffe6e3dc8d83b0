"""Describe Dynamo's graphs as values: operations with shapes and lines, and the splits of DDPOptimizer."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

HELD = re.compile(r"_(?:modules|parameters|buffers)\['([^']+)'\]")
"""What a parameter is reached by, in the name of its source: `L['self']._modules['net']._parameters['weight']`."""


@dataclass(frozen=True)
class Operation:
    """One operation of a graph."""

    name: str
    shapes: str
    """Of what it gives: `float32[2, 8]`."""
    stack: str
    """The traceback of the user's code behind it, as text; empty if the graph has none."""
    collective: bool
    inputs: tuple[int, ...] = ()
    """The operations that it takes, by their places among these; the graph's names are those of the user's variables."""


@dataclass(frozen=True)
class Bucket:
    """One part of a graph, by DDPOptimizer."""

    size: int
    """Bytes of its parameters."""
    parameters: tuple[str, ...]
    stack: str
    """Of its first operation that has one."""


@contextlib.contextmanager
def graphs_seen(seen: Callable[[tuple[Operation, ...]], None]) -> Iterator[None]:
    """Tells the operations of every graph that a `torch.compile` gives to its backend meanwhile, in order."""
    with _every_graph(lambda graph: seen(operations(graph))):
        yield


@contextlib.contextmanager
def squeezes_seen(seen: Callable[[str], None]) -> Iterator[None]:
    """Tells of each `squeeze` of a size that data decides, in the graphs that are compiled meanwhile.

    Dynamo takes such a size for not one and keeps the dimension, without a guard; eager code drops it where it is one
    (measured with torch 2.11 and 2.13: `x.nonzero().squeeze()` with `capture_dynamic_output_shape_ops`).
    """

    def look(graph: torch.fx.GraphModule) -> None:
        for node in graph.graph.nodes:
            if node.op.startswith("call_") and _squeezes_unknown(node):
                seen(_stack(node))

    with _every_graph(look):
        yield


@contextlib.contextmanager
def _every_graph(seen: Callable[[torch.fx.GraphModule], None]) -> Iterator[None]:
    """Every backend is called by `OutputGraph.call_user_compiler`."""
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
    """The calls of a graph in order; what it is given is left out: of a sharded parameter each rank has another part."""
    calls = {
        node: place
        for place, node in enumerate(each for each in graph.graph.nodes if each.op.startswith("call_"))
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
    """Tells, for each graph that DDPOptimizer compiles meanwhile, its parts in the order of the forward.

    It keeps its buckets on itself "for testing and debugging" once it has parted a graph, and nowhere else: the
    `ddp_graphs` log says the same as a table for people.
    """
    from torch._dynamo.backends.distributed import DDPOptimizer

    compile_fn = DDPOptimizer.compile_fn

    def watched(self: Any, graph: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        names = {str(node.target): _held_as(node) for node in graph.graph.nodes if node.op == "placeholder"}
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
    """It fills from the end of the graph: its nodes come last first. Graphs take parameters in the order of their use."""
    parameters = tuple(shown for name, shown in names.items() if name in bucket.params)
    stack = next((text for node in reversed(bucket.nodes) if (text := _stack(node))), "")
    return Bucket(int(bucket.size), parameters, stack)


def _held_as(node: torch.fx.Node) -> str:
    """The dotted name of the parameter that an input of a graph is; of anything else the input's own name."""
    source = getattr(node.meta.get("grapharg"), "source", None)
    name = getattr(source, "name", "")
    parts = HELD.findall(str(name() if callable(name) else name))
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
    """`float32[2, 8]`, `(float32[2], int64[2])`; the type's name of what is no tensor."""
    if isinstance(value, torch.Tensor):
        sizes = ", ".join(map(str, value.shape))
        return f"{str(value.dtype).removeprefix('torch.')}[{sizes}]"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_shapes, value))})"
    return "" if value is None else type(value).__name__
