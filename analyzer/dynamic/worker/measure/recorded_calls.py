"""Record the calls of modules in a real eager forward (inputs, outputs and random state), to repeat them alone."""

from __future__ import annotations

import contextlib
import copy
import types
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from tcready.dynamic.worker.core.calling import call
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.torch_internals import pytree
from tcready.dynamic.worker.torch_internals.compile_calls import writes
from torch import nn

CALLS_OF_ONE = 3
"""The most recorded calls of one module, with different inputs: more would be other steps of a loop."""
UNCHANGED = (
    *(bool, int, float, complex, str, bytes, type(None), type, types.FunctionType, nn.Module),
    *(torch.dtype, torch.device, torch.Size),
)
"""Types that are not copied: no call changes such a value, or it is a part of the model."""
Number = tuple[str, int]
"""The name of a module, and the index of its recorded call."""


@dataclass(frozen=True)
class GlobalState:
    """The modes and random numbers under which a call was made."""

    random: torch.Tensor
    device_random: torch.Tensor | None
    grad: bool
    autocast: tuple[str, torch.dtype] | None

    @staticmethod
    def now(device: torch.device) -> GlobalState:
        cast = torch.is_autocast_enabled(device.type)
        return GlobalState(
            torch.get_rng_state(),
            torch.cuda.get_rng_state() if device.type == "cuda" else None,
            torch.is_grad_enabled(),
            (device.type, torch.get_autocast_dtype(device.type)) if cast else None,
        )

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        torch.set_rng_state(self.random)
        if self.device_random is not None:
            torch.cuda.set_rng_state(self.device_random)
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.set_grad_enabled(self.grad))
            if self.autocast:
                stack.enter_context(torch.autocast(self.autocast[0], dtype=self.autocast[1]))
            yield


@dataclass(frozen=True)
class RecordedCall:
    """One call of one module in the model."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    output: Any
    surroundings: GlobalState

    def call(self, function: Any, *watchers: contextlib.AbstractContextManager[Any]) -> Any:
        """Repeat the call with copies of its inputs, because modules change them. Watchers see only the call."""
        args, kwargs = _copy((self.args, dict(self.kwargs)), tensors=True)
        with self.surroundings.again(), contextlib.ExitStack() as stack:
            for watcher in watchers:
                stack.enter_context(watcher)
            return function(*args, **kwargs)


@dataclass
class _Watch:
    """One eager forward. Calls in `copies` have all values copied at once; of other calls the objects are stored."""

    device: torch.device
    copies: Collection[Number]
    inputs: dict[str, list[tuple[tuple[Any, Any], GlobalState]]] = field(default_factory=lambda: defaultdict(list))
    outputs: dict[Number, Any] = field(default_factory=dict)
    versions: dict[Number, list[int]] = field(default_factory=dict)
    """Version counters of the tensors that are stored as references, at the time they were stored."""
    refused: set[str] = field(default_factory=set)
    """Modules with values that cannot be copied."""

    @contextlib.contextmanager
    def on(self, module: nn.Module, name: str) -> Iterator[None]:
        seen: list[Any] = []
        running: list[int | None] = []

        def enter(_module: nn.Module, args: Any, kwargs: Any) -> None:
            signature = _signature((args, kwargs))
            if name in self.refused or signature in seen or len(seen) >= CALLS_OF_ONE:
                running.append(None)
                return
            running.append(len(seen))
            seen.append(signature)
            values = self._record((name, running[-1] or 0), (args, kwargs))
            self.inputs[name].append((values, GlobalState.now(self.device)))

        def leave(_module: nn.Module, _args: Any, output: Any) -> None:
            number = running.pop()
            if number is not None:
                self.outputs[name, number] = self._record((name, number), output)

        # before the module's own hooks, which the call that is made again runs too
        before = module.register_forward_pre_hook(enter, with_kwargs=True, prepend=True)
        after = module.register_forward_hook(leave)
        try:
            yield
        finally:
            before.remove()
            after.remove()

    def _record(self, number: Number, values: Any) -> Any:
        try:
            recorded = _copy(values, tensors=number in self.copies)
        except Exception:  # an object that refuses to be copied
            self.refused.add(number[0])
            return values
        if number not in self.copies:
            self.versions.setdefault(number, []).extend(_versions(recorded))
        return recorded

    def changed(self) -> frozenset[Number]:
        """Return the calls with tensors that were written to after they were stored."""
        return frozenset(
            number
            for number, output in self.outputs.items()
            if number not in self.copies
            and self.versions[number] != [*_versions(self.inputs[number[0]][number[1]][0]), *_versions(output)]
        )


def record_calls(context: Context, case: Case, names: Collection[str]) -> dict[str, list[RecordedCall]]:
    """Record the first calls, with different inputs, of each named module in one eager forward of a new model.

    Inputs and outputs are references if nothing writes to them until the forward is over; those that are written to
    are copied in a second forward. A module that is not called, or that has values that cannot be copied, has no
    entry. Raises what the model raises.
    """
    watch = _forward(context, case, names, frozenset())
    if changed := watch.changed():
        watch = _forward(context, case, names, changed)
    return {
        name: [
            RecordedCall(values[0], values[1], watch.outputs[name, number], surroundings)
            for number, (values, surroundings) in enumerate(calls)
            if (name, number) in watch.outputs
        ]
        for name, calls in watch.inputs.items()
        if name not in watch.refused
    }


def _forward(context: Context, case: Case, names: Collection[str], copies: Collection[Number]) -> _Watch:
    watch = _Watch(torch.device(context.work.options.device), copies)
    model = context.build()
    with contextlib.ExitStack() as stack:
        for name, module in model.named_modules() if isinstance(model, nn.Module) else ():
            if name in names:
                stack.enter_context(watch.on(module, name))
        with torch.compiler.set_stance("force_eager"):
            call(context, model, case)
    return watch


def _copy(values: Any, *, tensors: bool) -> Any:
    """Copy everything that a call may change; tensors only if requested. Aliases remain aliases."""
    memo: dict[int, Any] = {}

    def copied(leaf: Any) -> Any:
        if isinstance(leaf, UNCHANGED) or (isinstance(leaf, torch.Tensor) and not tensors):
            return leaf
        if not isinstance(leaf, torch.Tensor):
            return copy.deepcopy(leaf, memo)
        if id(leaf) not in memo:
            memo[id(leaf)] = leaf.detach().clone().requires_grad_(leaf.requires_grad)
        return memo[id(leaf)]

    return pytree.tree_map(copied, values)


def _versions(values: Any) -> list[int]:
    return [writes(leaf) for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _signature(values: Any) -> list[Any]:
    """Return the properties that decide whether two calls are equal for Dynamo, roughly: structure, shapes, dtypes,
    plain values."""
    leaves, structure = pytree.tree_flatten(values)
    return [
        str(structure),
        *(
            (tuple(leaf.shape), leaf.dtype)
            if isinstance(leaf, torch.Tensor)
            else leaf
            if isinstance(leaf, (bool, int, float, str, type(None)))
            else type(leaf)
            for leaf in leaves
        ),
    ]
