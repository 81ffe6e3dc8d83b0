"""The calls that are made before and after a change: of the model, and of the changed functions alone."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import torch
from tcready.dynamic.worker.calling import autocast, settle
from tcready.dynamic.worker.case import Case
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.loading import fresh
from tcready.dynamic.worker.proof.behaviour import Behaviour, behaviour
from tcready.dynamic.worker.proof.models import Models
from tcready.dynamic.worker.proof.variations import EVERY, SEEDED, fitting
from tcready.dynamic.worker.torch_internals import pytree
from tcready.schema import FunctionPlace, Mode, ProofRequest
from torch import nn

RECORDED = 2
"""Calls of a function that are kept, to be made again alone."""


@dataclass(frozen=True)
class Key:
    """Which call it is."""

    mode: Mode
    seed: int
    case: int
    variation: str
    function: FunctionPlace | None = None
    """Called alone; `case` is the number of the call that was recorded. None: the model is called."""

    @property
    def words(self) -> str:
        """How a person would say it."""
        what = f"{self.function.name} alone, " if self.function else ""
        mode = "training" if self.mode == "train" else "inference"
        return f"{what}{mode}, seed {self.seed}, inputs {self.variation}"


def of_model(models: Models, request: ProofRequest) -> Iterator[tuple[Key, Callable[[], Behaviour]]]:
    """Each call of the model, to be made in this order: what one leaves behind the next one finds."""
    context = models.context
    watched = _modules({place.path for place in request.functions})
    for seed in request.seeds:
        cases = models.drawn(seed)
        every = [fitting((case.args, case.kwargs)) for case in cases]
        names = dict.fromkeys(name for of_case in every for name in of_case)
        for mode in request.modes:
            model = models.built(mode, seed)
            for variation in names if seed == request.seeds[0] else SEEDED:
                for number, case in enumerate(cases):
                    if variation not in every[number]:
                        continue
                    key = Key(mode, seed, number, variation)
                    yield key, functools.partial(called, context, model, model, case, key, watched)


def alone(
    models: Models, request: ProofRequest, functions: Sequence[FunctionPlace]
) -> Iterator[tuple[Key, Callable[[], Behaviour]]]:
    """Each call of a function alone, on arguments that a call of the model gave it."""
    context = models.context
    seed = request.seeds[0]
    watched = _modules({place.path for place in request.functions})
    found = {place: each for place in functions if (each := _resolved(place)) is not None}
    for mode in request.modes:
        recorded: dict[FunctionPlace, list[tuple[Any, Any]]] = {}
        of: Any = None
        for place, (_, _, function) in found.items():
            model = models.built(mode, seed)
            if of is None or of is not model:  # the arguments are modules of it
                of, recorded = model, _recorded(models, model, found, seed)
            calls = recorded[place]
            every = [fitting(call) for call in calls]
            for variation in dict.fromkeys(name for of_call in every for name in of_call):
                for number, (args, kwargs) in enumerate(calls):
                    if variation not in every[number]:
                        continue
                    key = Key(mode, seed, number, variation, place)
                    owner = args[0] if args and isinstance(args[0], nn.Module) else None
                    case = Case(None, args[1:] if owner is not None else args, kwargs)
                    bound = functools.partial(function, owner) if owner is not None else function
                    yield key, functools.partial(called, context, owner, bound, case, key, watched)


def called(
    context: Context, model: Any, function: Any, case: Case, key: Key, watched: Sequence[ModuleType] = ()
) -> Behaviour:
    """The call `key` of `function`, which is `model`, its compiled form or one of its functions."""
    draw = torch.Generator().manual_seed(key.seed)
    args, kwargs = _arguments(case)
    args, kwargs = EVERY[key.variation]((args, kwargs), draw)
    if key.mode == "train" and (key.function is not None or not _trains(model)):
        args, kwargs = pytree.tree_map_only(torch.Tensor, _as_leaf, (args, kwargs))
    leaves = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
    if key.mode == "train":  # what is passed on is no leaf in a model, and work in place on a leaf raises
        args, kwargs = pytree.tree_map_only(torch.Tensor, _as_result, (args, kwargs))
    return behaviour(model, _cast(context, function), args, kwargs, key.mode, watched, leaves)


def _cast(context: Context, function: Any) -> Callable[..., Any]:
    """The function under the `torch.autocast` that was asked for."""

    def within(*args: Any, **kwargs: Any) -> Any:
        with autocast(context):
            return function(*args, **kwargs)

    return within


def _arguments(case: Case) -> tuple[Any, Any]:
    copied = fresh(case)
    return copied.args, copied.kwargs


def _trains(model: Any) -> bool:
    return isinstance(model, nn.Module) and any(p.requires_grad for p in model.parameters())


def _as_leaf(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().requires_grad_(True) if tensor.is_floating_point() else tensor


def _as_result(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone() if tensor.requires_grad and tensor.is_leaf else tensor


_Found = tuple[Any, str, FunctionType]
"""What a function is an attribute of, under which name, and itself."""


def _recorded(
    models: Models, model: Any, functions: Mapping[FunctionPlace, _Found], seed: int
) -> dict[FunctionPlace, list[tuple[Any, Any]]]:
    """The arguments that calls of a model give to functions."""
    calls: dict[FunctionPlace, list[tuple[Any, Any]]] = {place: [] for place in functions}
    with contextlib.ExitStack() as stack:
        for place, found in functions.items():
            stack.enter_context(_recording(found, calls[place]))
        for case in models.drawn(seed):
            behaviour(model, _cast(models.context, model), *_arguments(case), "infer")
    return calls


@contextlib.contextmanager
def _recording(found: _Found, calls: list[tuple[Any, Any]]) -> Iterator[None]:
    """Keeps the arguments of the first calls of a function."""
    owner, name, function = found

    @functools.wraps(function)
    def noting(*args: Any, **kwargs: Any) -> Any:
        if len(calls) < RECORDED:
            is_method = bool(args) and isinstance(args[0], nn.Module)
            kept = fresh(Case(None, args[1:] if is_method else args, kwargs))
            calls.append(((*args[: int(is_method)], *kept.args), kept.kwargs))
        return function(*args, **kwargs)

    places = [(owner, name), *_imported(function)]
    for holder, called_there in places:
        setattr(holder, called_there, noting)
    try:
        yield
    finally:
        for holder, called_there in places:
            setattr(holder, called_there, function)


def _imported(function: FunctionType) -> list[tuple[ModuleType, str]]:
    """The names by which Python modules hold a function: those too that imported it from where it stands."""
    return [
        (module, name)
        for module in list(sys.modules.values())
        if isinstance(module, ModuleType)
        for name, value in list(vars(module).items())
        if value is function
    ]


def _modules(paths: Set[str]) -> list[ModuleType]:
    """The modules that were made of these files."""
    wanted = {os.path.realpath(path) for path in paths}
    names = {os.path.basename(path) for path in wanted | paths}
    found = [(getattr(module, "__file__", None), module) for module in list(sys.modules.values())]
    # The name is asked first: the real path takes a while for thousands of modules.
    near = [(path, module) for path, module in found if path and os.path.basename(path) in names]
    return [module for path, module in near if os.path.realpath(path) in wanted]


def _resolved(place: FunctionPlace) -> _Found | None:
    """A function, and where it is found; None for what is no plain function there."""
    *outer, name = place.name.split(".")
    for module in _modules({place.path}):
        owner: Any = module
        for part in outer:
            owner = getattr(owner, part, None)
        function = inspect.getattr_static(owner, name, None) if owner is not None else None
        if isinstance(function, FunctionType):
            return owner, name, function
    return None


SHORT = 0.3
"""Seconds that the repeated calls of a measurement may take."""


def shortest(models: Models, request: ProofRequest) -> float | None:
    """Seconds of the shortest eager call with the inputs as given; None if one raises."""
    context = models.context
    try:
        model = models.built("infer", request.seeds[0])
        case = models.drawn(request.seeds[0])[0]
        times: list[float] = []
        with torch.no_grad(), autocast(context):
            since = time.perf_counter()
            while len(times) < 5 or (time.perf_counter() - since < SHORT and len(times) < 200):
                args, kwargs = _arguments(case)
                begun = time.perf_counter()
                model(*args, **kwargs)
                settle(context)
                times.append(time.perf_counter() - begun)
        return min(times)
    except Exception:  # the user's own: a model that raises has no time
        return None
