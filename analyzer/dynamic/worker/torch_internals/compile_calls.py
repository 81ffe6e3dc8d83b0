"""Execute a user's line of `torch.compile` with another backend, and restore everything after it."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo
from tcready.dynamic.worker.torch_internals import version_differences
from tcready.schema.bench import CarryWay

compile_callable = torch.compile
"""`torch.compile` as it was before any user code ran."""
CODE_MAY_SET = (
    "allow_unspec_int_on_nn_module",
    "capture_scalar_outputs",
    "capture_dynamic_output_shape_ops",
    "recompile_limit",
)
"""The settings of Dynamo that lines of a plan set."""
MARK = "__marked_compile_region_config__"
"""The attribute that `torch.compiler.nested_compile_region` leaves on a function."""


def execute(code: str, model: Any, backend: Any | None, *, isolated: bool = False) -> Any:
    """Run lines of a plan with `model` and `torch`; return the `model` that they leave.

    `backend` replaces the default one, so that the lines run as they are printed; None: Inductor, as printed.
    `isolated`: their compiled code shares no limit of recompilations with other compilations of the same code, if
    this torch supports that. Raises what the lines raise.
    """
    names = {"model": model, "torch": torch}
    defaults: dict[str, Any] = {} if backend is None else {"backend": backend}
    if isolated and isolates_recompiles():
        defaults["isolate_recompiles"] = True
    with _compiling_with(defaults) if defaults else contextlib.nullcontext():
        exec(compile(code, "<plan>", "exec"), names)  # noqa: S102  it is our own code, and it is proved by running it
    return names["model"]


@contextlib.contextmanager
def _compiling_with(defaults: Mapping[str, Any]) -> Iterator[None]:
    original = torch.compile

    def chosen(model: Any = None, **options: Any) -> Any:
        options = {**defaults, **options}
        return compile_callable(**options) if model is None else compile_callable(model, **options)

    torch.compile = chosen
    try:
        yield
    finally:
        torch.compile = original


@dataclass(frozen=True)
class Beside:
    """State beside the model that lines of a plan may change: Dynamo's settings, forwards of classes, functions among
    the globals of these, and marks on them."""

    settings: Mapping[str, Any]
    functions: tuple[tuple[dict[str, Any], str, Any], ...]
    """Each with the globals that hold it, and its name there."""
    forwards: tuple[tuple[type, Any], ...]
    """None if a class has no forward of its own."""
    marks: tuple[tuple[Any, Any], ...]
    """Forwards with the mark of `nested_compile_region`; None if there is none."""

    @classmethod
    def of(cls, classes: Iterable[type]) -> Beside:
        """Return the current state."""
        known = set(classes)
        scopes = {
            id(scope): scope
            for each in known
            if (scope := getattr(each.forward, "__globals__", None))  # type: ignore[attr-defined]
        }
        forwards = tuple((each, vars(each).get("forward")) for each in known)
        return cls(
            version_differences.those_of(torch._dynamo.config, CODE_MAY_SET),
            tuple(
                (scope, name, value)
                for scope in scopes.values()
                for name, value in scope.items()
                if inspect.isfunction(value)
            ),
            forwards,
            tuple(
                (function, vars(function).get(MARK))
                for _, forward in forwards
                if inspect.isfunction(forward)
                for function in [inspect.unwrap(forward)]
            ),
        )

    def now(self) -> Beside:
        """Return the current state of the same places."""
        return Beside(
            version_differences.those_of(torch._dynamo.config, self.settings),
            tuple((scope, name, scope.get(name)) for scope, name, _ in self.functions),
            tuple((each, vars(each).get("forward")) for each, _ in self.forwards),
            tuple((function, vars(function).get(MARK)) for function, _ in self.marks),
        )

    def put(self) -> None:
        """Restore this state."""
        for name, value in self.settings.items():
            if getattr(torch._dynamo.config, name) != value:
                setattr(torch._dynamo.config, name, value)
        for scope, name, value in self.functions:
            scope[name] = value
        for each, forward in self.forwards:
            if forward is not None and vars(each).get("forward") is not forward:
                each.forward = forward  # type: ignore[attr-defined]
        for function, mark in self.marks:
            if mark is None:
                vars(function).pop(MARK, None)
            else:
                vars(function)[MARK] = mark

    def differs(self, other: Beside) -> bool:
        """Return whether anything is another object or value; `other` is of the same places."""
        return (
            self.settings != other.settings
            or any(one[2] is not another[2] for one, another in zip(self.functions, other.functions, strict=True))
            or any(one[1] is not another[1] for one, another in zip(self.forwards, other.forwards, strict=True))
            or any(one[1] is not another[1] for one, another in zip(self.marks, other.marks, strict=True))
        )


@contextlib.contextmanager
def restored(classes: Iterable[type]) -> Iterator[None]:
    """Restore Dynamo's settings, the forwards of `classes` and the functions among their globals afterwards, because
    other placements are tried next."""
    before = Beside.of(classes)
    try:
        yield
    finally:
        before.put()


def takes_dynamic_shapes() -> bool:
    """Return whether `torch.compile` accepts a specification of the sizes that vary: from 2.14 on."""
    return "dynamic_shapes" in inspect.signature(compile_callable).parameters


def isolates_recompiles() -> bool:
    """Return whether `torch.compile` can have a separate limit of recompilations for each time it is called."""
    return "isolate_recompiles" in inspect.signature(compile_callable).parameters


def refusing_breaks() -> contextlib.AbstractContextManager[Any]:
    """Make graph breaks raise in the context. Unlike `fullgraph=True` this captures no more than by default."""
    found: contextlib.AbstractContextManager[Any] = (
        torch._dynamo.error_on_graph_break(True)
        if version_differences.has("error_on_graph_break")
        else contextlib.nullcontext()
    )
    return found


def has_nested_regions() -> bool:
    return version_differences.has("nested_compile_region")


def takes_recompile_limit() -> bool:
    """Return whether `torch.compile` accepts a limit of its own."""
    return "recompile_limit" in inspect.signature(torch.compile).parameters


def can_save(way: CarryWay) -> bool:
    """Return whether this torch can save compiled code in that way."""
    return version_differences.has(way)


def settings_to_save() -> tuple[str, ...]:
    """Return the lines without which functions that this torch compiles have no `aot_compile`."""
    name = "enable_aot_compile"
    is_on = version_differences.those_of(torch._dynamo.config, (name,)).get(name, True)
    return () if is_on else (f"torch._dynamo.config.{name} = True",)


def stance(name: str) -> contextlib.AbstractContextManager[Any]:
    """Use `torch.compiler.set_stance` in the context."""
    found: contextlib.AbstractContextManager[Any] = torch.compiler.set_stance(name)
    return found


def address_of(tensor: torch.Tensor) -> int | None:
    """Return the address of the memory of a tensor; None if it has none of its own, like a sparse or an empty one."""
    try:
        return int(tensor.untyped_storage().data_ptr()) or None
    except (RuntimeError, NotImplementedError):
        return None


def memory_of(tensor: torch.Tensor) -> int:
    """Return the bytes of the memory that a tensor or a view of it keeps alive; 0 if it has none of its own."""
    try:
        return int(tensor.untyped_storage().nbytes())
    except (RuntimeError, NotImplementedError):
        return 0


def writes(tensor: torch.Tensor) -> int:
    """Return how often the memory of a tensor was written to, through it or a view of it."""
    try:
        return int(tensor._version)
    except RuntimeError:  # tensors of inference mode do not count
        return 0


@contextlib.contextmanager
def logs_as_before() -> Iterator[None]:
    """Switch off afterwards what `torch._logging.set_logs` switched on, and write none of it in the context."""
    handlers = {name: [*logging.getLogger(name).handlers] for name in ("torch", "torch._dynamo")}
    try:
        yield
    finally:
        torch._logging.set_logs()
        for name, before in handlers.items():
            logging.getLogger(name).handlers[:] = before
