"""What executing a user's line of `torch.compile` needs: another backend under it, and everything put back after it."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch._dynamo
from tcready.dynamic.worker.torch_internals import differences

compile_callable = torch.compile
"""`torch.compile` as it was before any of the user's code ran."""
CODE_MAY_SET = (
    "allow_unspec_int_on_nn_module",
    "capture_scalar_outputs",
    "capture_dynamic_output_shape_ops",
    "recompile_limit",
)
"""The settings of Dynamo that lines of a plan set."""
MARK = "__marked_compile_region_config__"
"""What `torch.compiler.nested_compile_region` leaves on a function."""


def executed(code: str, model: Any, backend: Any | None) -> Any:
    """Run lines of a plan over `model` and `torch`; what they leave as `model`.

    `backend` takes the place of the default one, so that the lines run as they are printed; None: Inductor, as printed.
    Raises what the lines raise.
    """
    names = {"model": model, "torch": torch}
    with _compiling_with(backend) if backend is not None else contextlib.nullcontext():
        exec(compile(code, "<plan>", "exec"), names)  # noqa: S102  it is our own code: that is what is proved
    return names["model"]


@contextlib.contextmanager
def _compiling_with(backend: Any) -> Iterator[None]:
    original = torch.compile

    def chosen(model: Any = None, **options: Any) -> Any:
        options.setdefault("backend", backend)
        return compile_callable(**options) if model is None else compile_callable(model, **options)

    torch.compile = chosen
    try:
        yield
    finally:
        torch.compile = original


@contextlib.contextmanager
def restored(classes: Iterable[type]) -> Iterator[None]:
    """Dynamo's settings, the forwards of `classes` and the functions among their globals are as before afterwards: other
    placements are tried next."""
    known = set(classes)
    forwards = [(cls, vars(cls).get("forward")) for cls in known]
    scopes = {id(scope): scope for cls in known if (scope := getattr(cls.forward, "__globals__", None))}  # type: ignore[attr-defined]
    functions = [
        (scope, name, value)
        for scope in scopes.values()
        for name, value in scope.items()
        if inspect.isfunction(value)
    ]
    with torch._dynamo.config.patch(differences.those_of(torch._dynamo.config, CODE_MAY_SET)):
        try:
            yield
        finally:
            for scope, name, value in functions:
                scope[name] = value
            for cls, forward in forwards:
                if forward is not None and vars(cls).get("forward") is not forward:
                    cls.forward = forward  # type: ignore[attr-defined]
                if inspect.isfunction(forward):
                    vars(inspect.unwrap(forward)).pop(MARK, None)


def refusing_breaks() -> contextlib.AbstractContextManager[Any]:
    """A graph break raises meanwhile. Unlike `fullgraph=True` it captures no more than by default."""
    found: contextlib.AbstractContextManager[Any] = (
        torch._dynamo.error_on_graph_break(True)
        if differences.has("error_on_graph_break")
        else contextlib.nullcontext()
    )
    return found


def has_nested_regions() -> bool:
    return differences.has("nested_compile_region")


def takes_recompile_limit() -> bool:
    """Whether `torch.compile` takes a limit of its own."""
    return "recompile_limit" in inspect.signature(torch.compile).parameters


def stance(name: str) -> contextlib.AbstractContextManager[Any]:
    """`torch.compiler.set_stance` for a while."""
    found: contextlib.AbstractContextManager[Any] = torch.compiler.set_stance(name)
    return found


def writes(tensor: torch.Tensor) -> int:
    """How often the memory of a tensor was written to, through it or a view of it."""
    try:
        return int(tensor._version)
    except RuntimeError:  # tensors of inference mode do not count
        return 0


@contextlib.contextmanager
def logs_as_before() -> Iterator[None]:
    """What `torch._logging.set_logs` switched on is off again afterwards, and is written nowhere meanwhile."""
    handlers = {name: [*logging.getLogger(name).handlers] for name in ("torch", "torch._dynamo")}
    try:
        yield
    finally:
        torch._logging.set_logs()
        for name, before in handlers.items():
            logging.getLogger(name).handlers[:] = before
