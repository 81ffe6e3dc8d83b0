"""Search smaller inputs with which a call still differs after a change.

A search has rounds. In each, one process makes a call of the unmodified code with several simplifications of its
inputs, and another makes the same calls with the variant and compares them. The best one is where the next round begins.
"""

from __future__ import annotations

import inspect
import itertools
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.measure.precision import NotWideError
from tcready.dynamic.worker.proof.behaviour import Behaviour
from tcready.dynamic.worker.proof.building import start
from tcready.dynamic.worker.proof.calls import Key, alone, calls_of_model
from tcready.dynamic.worker.proof.rounding import UnsettledError, WideCalls
from tcready.dynamic.worker.proof.shared_models import Models
from tcready.dynamic.worker.proof.source_overlay import Overlay
from tcready.dynamic.worker.proof.trace import CallTrace, ended_after, is_condition, save_of, says_nothing
from tcready.dynamic.worker.proof.widening import WideCall, Widening
from tcready.dynamic.worker.torch_internals import dynamo, pytree
from tcready.schema.proof import CallId, CaseResult, CaseValue, Counterexample, Differs, ProofRequest, Variant

ROUNDS = 8
SECONDS = 20.0
"""Time for the calls of one process of a round."""
MOST_STEPS = 60
"""Number of simplifications that are tried in a round."""
SHOWN_ELEMENTS = 16
"""The most elements of a tensor of which the values are shown."""
SHOWN_VALUES = 6
"""The most arguments, and outputs, that are shown."""
LONGEST = 400
"""The most characters of a value, or of the text of an exception."""
FROM_PLAIN = (bool, int, float, str)


@dataclass(frozen=True)
class Step:
    """One simplification of the arguments of a call.

    `cut` keeps the items from `first` to before `last` in every dimension of a size; `number` sets a number among the
    arguments, the `leaf`-th value; the others set values of the `leaf`-th one, a tensor.
    """

    kind: Literal["cut", "number", "zeros", "ones", "whole", "tenths"]
    size: int = 0
    first: int = 0
    last: int = 0
    leaf: int = 0
    number: int = 0


@dataclass(frozen=True)
class Smallest:
    """The smallest of the calls of a round that differ."""

    steps: tuple[Step, ...] = ()
    case: Counterexample | None = None
    """None if no call differs."""
    tried: int = 0


@dataclass(frozen=True)
class _Made:
    """A call of the unmodified code."""

    steps: tuple[Step, ...]
    arguments: tuple[CaseValue, ...]
    cost: tuple[int, ...]
    seen: Behaviour
    wide: WideCall | str


def simplified(given: Any, steps: Sequence[Step]) -> Any:
    """Return arguments after simplifications. Values that a step does not fit stay as they are."""
    for step in steps:
        leaves, structure = pytree.tree_flatten(given)
        given = pytree.tree_unflatten([_stepped(leaf, number, step) for number, leaf in enumerate(leaves)], structure)
    return given


def _stepped(leaf: Any, number: int, step: Step) -> Any:
    if step.kind == "cut":
        return _cut(leaf, step) if isinstance(leaf, torch.Tensor) else leaf
    if number != step.leaf:
        return leaf
    if step.kind == "number":
        return type(leaf)(step.number) if type(leaf) in (int, float) else leaf
    if not isinstance(leaf, torch.Tensor):
        return leaf
    with torch.no_grad():
        if step.kind in ("zeros", "ones"):
            fill = torch.zeros_like if step.kind == "zeros" else torch.ones_like
            return fill(leaf).requires_grad_(leaf.requires_grad)
        factor = 1 if step.kind == "whole" else 10
        return (torch.round(leaf * factor) / factor).requires_grad_(leaf.requires_grad)


def _cut(tensor: torch.Tensor, step: Step) -> torch.Tensor:
    if step.size not in tensor.shape:
        return tensor
    found = tensor.detach()
    for dimension, size in enumerate(tensor.shape):
        if size == step.size:
            found = found.narrow(dimension, step.first, step.last - step.first)
    return found.clone().requires_grad_(tensor.requires_grad)


def steps_for(given: Any) -> Iterator[Step]:
    """Yield simplifications of arguments, the largest first."""
    leaves = pytree.tree_leaves(given)
    tensors = [(number, leaf) for number, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    sizes = sorted({size for _, tensor in tensors for size in tensor.shape if size > 1}, reverse=True)
    for size in sizes:
        half = size // 2
        ranges = ((0, 1), (size - 1, size), (1, 2), (0, 2), (size - 2, size), (0, half), (half, size), (0, size - 1))
        for first, last in dict.fromkeys(ranges):
            if 0 < last - first < size:
                yield Step("cut", size=size, first=first, last=last)
    for number, leaf in enumerate(leaves):
        if type(leaf) in (int, float) and abs(leaf) < 2**62 and leaf == leaf:
            whole = int(leaf)
            smaller = [0, 1, -1, 2, *(whole // 2**power for power in range(1, whole.bit_length())), whole - 1]
            for value in dict.fromkeys(smaller):
                if abs(value) < abs(leaf):
                    yield Step("number", leaf=number, number=value)
    for number, tensor in tensors:
        yield Step("zeros", leaf=number)
        yield Step("ones", leaf=number)
        if tensor.is_floating_point():
            yield Step("whole", leaf=number)
            yield Step("tenths", leaf=number)


def cost_of(given: Any) -> tuple[int, ...]:
    """Return the sort key of arguments: the number of elements, the size of numbers, and how long their values are."""
    leaves = pytree.tree_leaves(given)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    numbers = [leaf for leaf in leaves if type(leaf) in (int, float) and leaf == leaf]
    elements = sum(tensor.numel() for tensor in tensors)
    digits = sum(len(repr(tensor.tolist())) for tensor in tensors) if elements <= 4096 else 0
    return elements, sum(int(min(abs(number), 2**62)) for number in numbers), digits


def make_calls(
    context: Context, request: ProofRequest, call: CallId, trace_path: Path, begun: tuple[Step, ...], path: Path
) -> Smallest:
    """Make a call of the unmodified code with the steps so far, and with each further step, and save them."""
    caller = _Caller(context, request, call, trace_path)
    first = caller.make(begun)
    if first is None:
        return Smallest()
    made, given = [first], caller.given
    until = time.monotonic() + SECONDS
    for step in itertools.islice(steps_for(given), MOST_STEPS):
        if time.monotonic() > until:
            break
        cost = cost_of(simplified(given, (step,)))
        if cost < first.cost and (found := caller.make((*begun, step))) is not None:
            made.append(found)
    save_of(made, path)
    return Smallest(begun, None, len(made) - 1)


def compare_calls(
    context: Context,
    request: ProofRequest,
    variant: Variant,
    call: CallId,
    differs: Differs,
    trace_path: Path,
    path: Path,
) -> Smallest:
    """Make the saved calls with a variant. Return the smallest one that differs in the same kind of way."""
    made: list[_Made] = sorted(torch.load(path, weights_only=False), key=lambda each: each.cost)
    Overlay(dict(variant.sources))
    for name in variant.settings:
        dynamo.set_flag(name)
    caller = _Caller(context, request, call, trace_path)
    until = time.monotonic() + SECONDS
    for tried, each in enumerate(made):
        if time.monotonic() > until and tried + 1 < len(made):
            continue  # the last one is where the round began
        now = caller.make(each.steps)
        found = caller.difference(each, now) if now is not None else None
        if now is None or found is None or found[0] != differs:
            continue
        case = Counterexample(
            call.mode,
            call.seed,
            call.variation,
            found[1],
            call.function.name if call.function is not None else None,
            each.arguments,
            _result(each.seen),
            _result(now.seen),
            bool(each.steps),
        )
        return Smallest(each.steps, case, len(made) - 1)
    return Smallest(tried=len(made) - 1)


class _Caller:
    """Makes one call of a proof with simplified arguments, each time on a model in its initial state."""

    def __init__(self, context: Context, request: ProofRequest, call: CallId, trace_path: Path) -> None:
        self.trace: CallTrace = torch.load(trace_path, weights_only=False)
        self.given: Any = ()
        """The arguments of the last call."""
        self._call = call
        self._request = replace(
            request,
            seeds=(call.seed,),
            modes=(call.mode,),
            constants=self.trace.constants,
            environment=self.trace.environment,
            builds=self.trace.builds,
        )
        self._models = Models(context) if start(context) is None else None
        self._arguments: tuple[CaseValue, ...] = ()
        self._key: Key | None = None
        torch.set_num_threads(self.trace.threads)

    def make(self, steps: tuple[Step, ...]) -> _Made | None:
        """Make the call, and once more in a wide dtype; None if it cannot be made again, or takes too long."""
        try:
            with ended_after(SECONDS):
                seen = self._made(steps, None)
                arguments, cost = self._arguments, cost_of(self.given)
                if seen is None:
                    return None
                given, widening = self.given, Widening()
                wide: WideCall | str
                try:
                    widely = self._made(steps, widening)
                    wide = widening.made(widely) if widely is not None else "it cannot be made again"
                except Exception as error:  # no wide dtype, or an object that cannot be copied
                    wide = str(error) if isinstance(error, NotWideError) else type(error).__name__
                self.given = given
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            return None
        return _Made(steps, arguments, cost, seen, wide)

    def difference(self, expected: _Made, actual: _Made) -> tuple[Differs, str] | None:
        """Return how a call differs after the change; None if it does not, or if that does not count."""
        key = self._key
        if key is None or says_nothing(key, expected.seen):
            return None
        self.trace.wide = WideCalls({key: expected.wide}, {key: actual.wide})
        try:
            seen = self.trace.rounded(key.function, expected.seen, actual.seen)
            seen, found = self.trace.differing(key, expected.seen, seen)
            counts = found is not None and not is_condition(self.trace, key, expected.seen, seen)
        except UnsettledError:
            return None
        return found if counts else None

    def _made(self, steps: tuple[Step, ...], widening: Widening | None) -> Behaviour | None:
        if self._models is None:
            return None

        def adjust(function: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
            self.given = simplified((args, kwargs), steps)
            if widening is None:
                self._arguments = tuple(_named(function, *self.given))
            args, kwargs = self.given
            return args, kwargs

        for key, call in self._calls(adjust, widening):
            if CallId(key.mode, key.seed, key.case, key.variation, key.function) == self._call:
                self._key = key
                return call()
        return None

    def _calls(
        self, adjust: Callable[[Any, Any, Any], tuple[Any, Any]], widening: Widening | None
    ) -> Iterator[tuple[Key, Callable[[], Behaviour]]]:
        assert self._models is not None
        if self._call.function is None:
            return calls_of_model(self._models, self._request, widening, adjust)
        return alone(self._models, self._request, (self._call.function,), widening=widening, adjust=adjust)


def _named(function: Any, args: Any, kwargs: Any) -> Iterator[CaseValue]:
    try:
        bound = inspect.signature(getattr(function, "forward", function)).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        bound = {**{f"argument {number}": each for number, each in enumerate(args)}, **kwargs}
    return itertools.islice((each for name, value in bound.items() for each in _described(name, value)), SHOWN_VALUES)


def _described(name: str, value: Any) -> Iterator[CaseValue]:
    if isinstance(value, torch.Tensor):
        small = value.layout == torch.strided and value.numel() <= SHOWN_ELEMENTS and value.device.type != "meta"
        text = _short(_written(value)) if small else None
        yield CaseValue(name, type(value).__name__, tuple(value.shape), str(value.dtype), text)
    elif isinstance(value, (list, tuple)) and any(isinstance(each, torch.Tensor) for each in value):
        for number, each in enumerate(value):
            yield from _described(f"{name}[{number}]", each)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _described(f"{name}[{key!r}]", each)
    else:
        is_plain = value is None or type(value) in FROM_PLAIN
        yield CaseValue(name, type(value).__name__, value=_short(repr(value)) if is_plain else None)


def _written(tensor: torch.Tensor) -> str:
    """Return the values as Python writes them, with enough digits to distinguish them."""
    text = repr(tensor.detach().tolist())
    if tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return text
    return re.sub(r"-?\d+\.\d+(e[+-]?\d+)?", lambda found: repr(float(f"{float(found[0]):.9g}")), text)


def _result(seen: Behaviour) -> CaseResult:
    if seen.error is not None:
        text = " ".join(seen.message.split())[:LONGEST]
        return CaseResult(raises=f"{seen.error}: {text}" if text else seen.error)
    described = (each for number, value in enumerate(seen.outputs) for each in _described(f"output {number}", value))
    return CaseResult(tuple(itertools.islice(described, SHOWN_VALUES)))


def _short(text: str) -> str | None:
    return text if len(text) <= LONGEST else None
