"""Find the part of a backend of torch that changes a result, and write a script that shows it."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tcready.dynamic.worker.torch_internals import inductor
from tcready.dynamic.worker.torch_internals.compile_calls import compile_callable

LAYERS = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")
"""Backends of which each adds something to the one before: Dynamo alone, AOTAutograd, its decompositions, Inductor."""
OF_TORCH = frozenset({"aten", "prims", "inductor", "higher_order"})
"""Namespaces of operators that torch defines."""


@dataclass(frozen=True)
class Suspect:
    """A part of a backend that changes a result."""

    part: str
    """Its name in torch's bisector: `lowerings`, `post_grad_passes`, `decomposition`."""
    detail: str = ""
    """What torch notes of the application that changes the result: a node, the name of a pass."""


class _OutOfTimeError(Exception):
    """The search is over; what was found so far is unknown to the caller."""


def bisected(is_good: Callable[[], bool], has_time: Callable[[], bool]) -> Suspect | None:
    """Return the part of a backend that makes `is_good` false if it compiles; None if this torch has no bisector, if it
    names none, or if the time is over.

    Code that raises with a backend is no wrong result. The bisector replaces the backend of each torch.compile.
    """

    def tried() -> bool:
        if not has_time():
            raise _OutOfTimeError
        with contextlib.suppress(Exception):
            return is_good()
        return True

    try:
        from torch._inductor.compiler_bisector import CompilerBisector

        with contextlib.redirect_stdout(io.StringIO()), uncached():
            found = CompilerBisector.do_bisect(tried)
    except Exception:  # of the bisector itself, which is not part of torch's interface
        return None
    if found is None or found.subsystem is None:
        return None
    return Suspect(str(found.subsystem), " ".join(str(found.debug_info or "").split()))


@contextlib.contextmanager
def uncached() -> Iterator[None]:
    """Let Inductor compile everything in the context anew."""
    from torch._inductor import config

    with config.patch(force_disable_caches=True):
        yield


def reproducer(function: Callable[..., Any], call: Callable[[Callable[..., Any]], object], backend: str) -> str:
    """Return a script, of torch alone, with the first graph of a function that gives another result with a backend;
    empty if no graph does by itself, or if it calls operators that are not torch's.

    `call` calls the function compiled.
    """
    found: list[str] = []

    def compare(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        if not found:
            with contextlib.suppress(Exception):
                found.extend(_script(graph, inputs, backend))
        run: Callable[..., Any] = graph.forward
        return run

    inductor.forget_compiled()
    with torch.no_grad():
        call(compile_callable(function, backend=compare))
    return found[0] if found else ""


def _script(graph: torch.fx.GraphModule, inputs: Sequence[Any], backend: str) -> Iterator[str]:
    from torch._dynamo.backends.registry import lookup_backend
    from torch._dynamo.repro.after_dynamo import generate_dynamo_fx_repro_string

    if any(_namespace(node.target) not in OF_TORCH for node in graph.graph.nodes if node.op == "call_function"):
        return
    given = [each.detach().clone() if isinstance(each, torch.Tensor) else each for each in inputs]
    real = [torch.randn_like(each) if _is_fake(each) and each.is_floating_point() else each for each in given]
    expected = graph.forward(*real)
    with uncached():
        actual = lookup_backend(backend)(graph, inputs)(*real)
    pairs = zip(_tensors(expected), _tensors(actual), strict=True)
    if all(torch.allclose(one.double(), two.double(), rtol=1e-2, atol=1e-3, equal_nan=True) for one, two in pairs):
        return
    yield (
        generate_dynamo_fx_repro_string(graph, inputs, backend, check_accuracy=True, stable_output=True).strip() + "\n"
    )


def _namespace(target: Any) -> str:
    """Return the namespace of an operator; that of torch for functions of torch and of Python."""
    return str(getattr(target, "namespace", "aten"))


def _is_fake(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and type(value).__name__ == "FakeTensor"


def _tensors(value: Any) -> list[torch.Tensor]:
    values = value if isinstance(value, (tuple, list)) else [value]
    return [each for each in values if isinstance(each, torch.Tensor)]
