"""The calls before and after a change: of the model, and of the changed functions alone."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from types import FunctionType, MappingProxyType, MethodType, ModuleType, NoneType
from typing import Any

import torch
from tcready.dynamic.worker.core.calling import autocast, seed_generators, settle
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.frames import is_user_file
from tcready.dynamic.worker.core.generators import Generators
from tcready.dynamic.worker.inputs.loading import SEED_BUILD, fresh
from tcready.dynamic.worker.proof.alterations import (
    COPIED,
    altered,
    changes_to_arguments,
    plain_values,
    setting,
    weights_of,
)
from tcready.dynamic.worker.proof.behaviour import Behaviour
from tcready.dynamic.worker.proof.constructors import build_with
from tcready.dynamic.worker.proof.copied_values import drained
from tcready.dynamic.worker.proof.effects_of_call import (
    GRADIENT_SCALE,
    LARGE_GRADIENT_SCALE,
    describe_tensors,
    observe_call,
    reduce_to_outputs,
    reduce_to_types,
)
from tcready.dynamic.worker.proof.exception_handlers import Caught, caught_around
from tcready.dynamic.worker.proof.global_state import environment_set
from tcready.dynamic.worker.proof.input_changes import VaryOne, drawn, map_plain, plain_leaves
from tcready.dynamic.worker.proof.shared_models import Models
from tcready.dynamic.worker.proof.variations import (
    AFTER_INFERENCE,
    AFTER_OTHER_MODE,
    APART_BY_FIRST,
    AS_NUMPY,
    AS_PYTHON,
    AS_TENSORS,
    BY_DEFAULT,
    DOUBLE_BY_DEFAULT,
    DTYPES,
    EMPTY,
    FALSE_FOR_NONE,
    FEWER_ARGUMENTS,
    FLAGS_ALONE,
    FROZEN,
    GIVEN,
    GRADIENTS_LEFT,
    GRADIENTS_TURNED,
    IN_FEW_DIGITS,
    IN_INFERENCE_MODE,
    IN_MODULES,
    IN_TURN,
    INFINITE,
    LARGE_WEIGHTS,
    LEFT_OUT,
    LOGGED,
    MASKS_AND_FLAGS,
    MASKS_FOR_NONE,
    MORE_ARGUMENTS,
    NUMBERS_FOR_NONE,
    OF_MODULES,
    OF_PYTHON,
    ON_META,
    ONE_LEFT_OUT,
    OTHER_MODE_INSIDE,
    OTHER_NUMBERS,
    OTHER_WEIGHTS,
    RETYPED,
    SECOND_ORDER,
    SEEDED,
    STRINGS,
    TENSORS_FOR_NONE,
    TWICE,
    UNDER_AUTOCAST,
    WITH_GRADIENTS,
    built_with,
    environments,
    every,
    fitting,
    late,
    set_to,
    with_one_more_item,
    with_one_more_tensor,
)
from tcready.dynamic.worker.proof.widening import Widening
from tcready.dynamic.worker.torch_internals import pytree
from tcready.portable.events.ownership import below_site
from tcready.schema.enums import Mode
from tcready.schema.proof import FunctionPlace, ProofRequest
from torch import nn

RECORDED = 2
"""The number of recorded calls of a function, which are repeated alone."""


@dataclass(frozen=True)
class Key:
    """Identifies a call."""

    mode: Mode
    seed: int
    case: int
    variation: str
    function: FunctionPlace | None = None
    """The function that is called alone; `case` is then the number of the recorded call. None: the model is called."""
    constants: tuple[float | str, ...] = ()
    """Values of inputs that are tried."""

    @property
    def words(self) -> str:
        """Describe the call for people."""
        what = f"`{self.function.name}` called by itself, " if self.function else ""
        return f"{what}{MODES[self.mode]}, seed {self.seed}, {inputs_in_words(self.variation)}"

    @property
    def only(self) -> str:
        """Describe the limiting inputs for people: "for empty inputs"."""
        if self.variation == EMPTY:
            return "for empty inputs"
        given = f"{GIVEN}, "
        setting = self.variation.removeprefix(given)
        return setting if self.variation.startswith(given) else f"for inputs {self.variation}"


def inputs_in_words(variation: str) -> str:
    """Describe the inputs of a call for people."""
    return variation.replace(GIVEN, "given inputs", 1) if variation.startswith(GIVEN) else f"inputs {variation}"


MODES: Mapping[Mode, str] = MappingProxyType({"train": "training", "infer": "inference"})
"""Descriptions of modes for people."""


Adjust = Callable[[Any, Any, Any], tuple[Any, Any]]
"""Takes a function and its arguments, and returns other arguments for it."""


def calls_of_model(
    models: Models, request: ProofRequest, widening: Widening | None = None, adjust: Adjust | None = None
) -> Iterator[tuple[Key, Callable[[], Behaviour]]]:
    """Make each call of the model, in this order: later calls see the state that earlier ones leave."""
    context = models.context
    watched = reached_modules({place.path for place in request.functions})
    for seed in request.seeds:
        cases = models.get_inputs(seed)
        for mode in request.modes:
            model = models.get_model(mode, seed)
            more: tuple[str, ...] = (OTHER_WEIGHTS, LARGE_WEIGHTS) if weights_of(model) else ()
            if mode == "train" and _trains(model):
                more = (WITH_GRADIENTS, SECOND_ORDER, TWICE, *more)
            more = (IN_TURN, *more, *_settings_for(context, mode, request))
            more += tuple(AFTER_INFERENCE) if mode == "train" else request.builds
            more += (AFTER_OTHER_MODE,) if weights_of(model) else ()
            fits = [
                _applicable_variations(
                    model,
                    case.args,
                    case.kwargs,
                    request.constants,
                    (*more, *_with_plain_values(model, case, request.constants)),
                )
                for case in cases
            ]
            names = dict.fromkeys(name for of_case in fits for name in of_case)
            for variation in names if seed == request.seeds[0] else SEEDED:
                if variation in request.without:
                    continue
                for number, case in enumerate(cases):
                    if variation not in fits[number]:
                        continue
                    key = Key(mode, seed, number, variation, constants=request.constants)
                    how: dict[str, Any] = {"widening": widening, "adjust": adjust}
                    call = functools.partial(called, context, model, model, case, key, watched, **how)
                    if change := built_with(request.constants).get(variation):
                        call = functools.partial(_built_and_called, context, case, key, watched, change, **how)
                    yield key, functools.partial(_in_environment, request, key, call)


def _in_environment(request: ProofRequest, key: Key, call: Callable[[], Behaviour]) -> Behaviour:
    """Make a call; if its variation says so, with other values of the environment variables that it reads."""
    value = environments(request.constants).get(key.variation)
    if value is None:
        return call()
    with environment_set(dict.fromkeys(request.environment, value)):
        return call()


def _settings_for(context: Context, mode: Mode, request: ProofRequest) -> tuple[str, ...]:
    """Return the variations of settings that change a call in this mode."""
    found = [GRADIENTS_TURNED[mode], DOUBLE_BY_DEFAULT, OTHER_MODE_INSIDE, *LOGGED]
    found += [FROZEN] if mode == "train" else []
    found += environments(request.constants) if request.environment else []
    found += [IN_INFERENCE_MODE, GRADIENTS_LEFT, ON_META] if mode == "infer" else []
    found += [UNDER_AUTOCAST] if context.work.options.autocast is None else []
    return tuple(found)


def _built_and_called(
    context: Context,
    case: Case,
    key: Key,
    watched: Sequence[ModuleType],
    change: VaryOne,
    *,
    widening: Widening | None,
    adjust: Adjust | None,
) -> Behaviour:
    """Call a model that is built with other arguments. If torch rejects the call, because the inputs no longer fit, the
    state of the model is still compared."""
    seed_generators()
    try:
        model = build_with(context, key.mode, watched, change)
    except Exception as error:
        return Behaviour(type(error).__name__, raised=True)
    drawn = Generators.now().digest()
    seen = called(context, model, model, case, key, watched, widening=widening, adjust=adjust)
    weights = model.named_parameters() if isinstance(model, nn.Module) else ()
    shapes = {f"the shape of {name}": [*each.shape] for name, each in weights}
    seen = replace(seen, state=seen.state | shapes | {"what the build draws": drawn})
    return seen if seen.error is None or seen.raised else Behaviour(state=seen.state)


Made = Callable[[Callable[..., Any], Caught], Callable[..., Any]]
"""Takes a function and the exceptions that its callers catch, and returns its replacement."""


def alone(
    models: Models,
    request: ProofRequest,
    functions: Sequence[FunctionPlace],
    made: Made | None = None,
    widening: Widening | None = None,
    adjust: Adjust | None = None,
) -> Iterator[tuple[Key, Callable[[], Behaviour]]]:
    """Make each call of a function alone, with arguments recorded from a call of the model; `made` returns the
    replacement of the function."""
    context = models.context
    seed = request.seeds[0]
    watched = reached_modules({place.path for place in request.functions})
    found = {place: each for place in functions if (each := _resolve_function(place)) is not None}
    for mode in request.modes:
        recorded: dict[FunctionPlace, list[tuple[Any, Any, Caught]]] = {}
        of: Any = None
        for place, (_, _, function) in found.items():
            model = models.get_model(mode, seed)
            if mode == "infer" and _is_called_as(model, function):
                continue  # these calls have been made; in training they are, for gradients of varied inputs
            if of is None or of is not model:  # the arguments are modules of it
                of, recorded = model, _record_arguments(models, model, found, seed)
            calls = recorded[place]
            fits = [
                _applicable_variations(
                    function, args, kwargs, request.constants, _with_other_numbers(function, args, kwargs)
                )
                for args, kwargs, _ in calls
            ]
            for variation in dict.fromkeys(name for of_call in fits for name in of_call):
                if variation in request.without:
                    continue
                for number, (args, kwargs, caught) in enumerate(calls):
                    if variation not in fits[number]:
                        continue
                    key = Key(mode, seed, number, variation, place, request.constants)
                    owner = args[0] if args and isinstance(args[0], nn.Module) else None
                    case = Case(None, args[1:] if owner is not None else args, kwargs)
                    bound = MethodType(function, owner) if owner is not None else function
                    whole = bound if made is None else made(bound, caught)
                    how: dict[str, Any] = {"counts": made is None, "widening": widening, "adjust": adjust}
                    yield key, functools.partial(called, context, owner, whole, case, key, watched, **how)


def called(
    context: Context,
    model: Any,
    function: Any,
    case: Case,
    key: Key,
    watched: Sequence[ModuleType] = (),
    *,
    counts: bool = True,
    widening: Widening | None = None,
    adjust: Adjust | None = None,
) -> Behaviour:
    """Make the call `key` of `function`, which is `model`, its compiled form or one of its functions. With `counts`,
    calls of modules are counted. With `widening`, use a wide dtype. `adjust` changes the arguments last."""
    plain = model if key.function is None else function
    if dtype := DTYPES.get(key.variation):
        model, function = _convert_floats(model, function, dtype)
    if key.variation == TWICE:
        function = _twice(function)
    if key.variation == IN_TURN:
        function = _in_turn(function)
    if key.variation == AFTER_OTHER_MODE:
        function = _after_other_mode(model, function)
    if key.variation in AFTER_INFERENCE:
        function = _after_inference(function, watched)
    draw = torch.Generator().manual_seed(key.seed)
    args, kwargs = _arguments(case)
    args, kwargs = every(key.constants)[key.variation]((args, kwargs), draw)
    args, kwargs = _retype_arguments(model if key.function is None else function, args, kwargs, key.variation) or (
        args,
        kwargs,
    )
    gradients = (key.mode == "train") != (key.variation in GRADIENTS_TURNED.values())
    with contextlib.ExitStack() as stack:
        if change := changes_to_arguments(key.variation, key.constants):
            args, kwargs = map_plain(change, (args, _plain_defaults(model, args, kwargs) | kwargs))
        stack.enter_context(altered(model, key.variation, key.constants, draw, change))
        if adjust is not None:
            args, kwargs = adjust(plain, args, kwargs)
        requires_gradients = (
            key.function is not None or key.variation in (WITH_GRADIENTS, SECOND_ORDER) or not _trains(model)
        )
        if gradients and requires_gradients:
            args, kwargs = pytree.tree_map_only(torch.Tensor, _as_leaf, (args, kwargs))
        function = _cast(context, function)
        if widening is not None:
            args, kwargs = stack.enter_context(widening.widened(context, model, args, kwargs, key.variation))
            function = widening.within(function)
        leaves = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        if gradients:  # arguments inside a model are not leaves, and in-place operations on a leaf raise
            args, kwargs = pytree.tree_map_only(torch.Tensor, _as_result, (args, kwargs))
        stack.enter_context(setting(key.variation))
        if key.variation == ON_META:
            function = _on_meta(model)
        if key.variation == IN_INFERENCE_MODE:
            function = torch.inference_mode()(function)
        called_once = functools.partial(
            observe_call,
            model,
            watched=watched,
            leaves=leaves,
            gradients=gradients,
            second=key.variation == SECOND_ORDER,
            scale=LARGE_GRADIENT_SCALE if key.variation == WITH_GRADIENTS else GRADIENT_SCALE,
            counts=counts,
        )
        if key.variation == ON_META:
            return describe_tensors(called_once(function, args, kwargs))
        if key.variation in IN_FEW_DIGITS:
            return reduce_to_outputs(called_once(function, args, kwargs))
        if key.variation != UNDER_AUTOCAST:
            return called_once(function, args, kwargs)
        whole = called_once(function, *pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs)))
        cast = torch.autocast(torch.device(context.work.options.device).type, torch.bfloat16)(function)
        return reduce_to_types(called_once(cast, args, kwargs), whole)


def _convert_floats(model: Any, function: Any, dtype: torch.dtype) -> tuple[Any, Any]:
    """Return a copy of a module with floats of a dtype, and the function as its method. Parts that cannot be copied do
    not change."""
    if not isinstance(model, nn.Module) or sum(each.numel() for each in model.parameters()) > COPIED:
        return model, function
    if function is not model and not isinstance(function, MethodType):  # compiled code belongs to one model
        return model, function
    try:
        converted = copy.deepcopy(model).to(dtype)
    except Exception:  # whatever the user's own objects raise
        return model, function
    return converted, converted if function is model else MethodType(function.__func__, converted)


def _on_meta(model: Any) -> Callable[..., Any]:
    """Call a copy of a model on the meta device. Raises if something cannot be copied."""

    def call(*args: Any, **kwargs: Any) -> Any:
        moved = model
        if isinstance(model, nn.Module):
            if sum(each.numel() for each in model.parameters()) > COPIED:
                raise NotImplementedError("the model is too large to be copied")
            moved = copy.deepcopy(model).to("meta")
        args, kwargs = pytree.tree_map_only(torch.Tensor, lambda each: each.to("meta"), (args, kwargs))
        return moved(*args, **kwargs)

    return call


def _with_plain_values(model: Any, case: Case, constants: tuple[float | str, ...]) -> tuple[str, ...]:
    """Return the variations of Python's numbers, flags and strings that change a call."""
    given = (case.args, case.kwargs, _plain_defaults(model, case.args, case.kwargs))
    passed = plain_leaves(given)
    leaves = [leaf for leaf in passed if type(leaf) is not str]
    leaves += [value for _, _, value in plain_values(model, float)]
    plain_constants = [value for _, _, value in plain_values(model, int, bool, NoneType)]
    in_modules = [value for _, _, value in plain_values(model, int, str, float, own=True)]
    flags = [value for value in (*passed, *plain_constants) if type(value) is bool]
    return (
        *(
            name
            for name, change in OF_PYTHON.items()
            for values in [passed if name == INFINITE else leaves]
            if [*map(change, values)] != values
        ),
        *(name for name, change in OF_MODULES.items() if [*map(change, plain_constants)] != plain_constants),
        *(APART_BY_FIRST if len(leaves) + len(plain_constants) > 1 else ()),
        *([*FLAGS_ALONE][: len(flags)] if len(flags) > 1 else ()),
        *(
            name
            for name, change in set_to(constants).items()
            for values in [in_modules if name.endswith(IN_MODULES) else passed]
            if [*map(change, values)] != values
        ),
    )


def _with_other_numbers(function: FunctionType, args: Any, kwargs: Any) -> tuple[str, ...]:
    """Return the variations of Python's numbers that change a call of a function alone, unless it is private."""
    passed = plain_leaves((args, kwargs))
    if function.__name__.startswith("_"):
        return ()
    return tuple(name for name, change in OTHER_NUMBERS.items() if [*map(change, passed)] != passed)


SIZES = 3
"""The number of sizes of the first tensor that are tried for integers among the arguments."""


def sizes_beside_integers(context: Context) -> tuple[int, ...]:
    """Return the sizes of the first tensor, if a call also takes an integer, which may be a length or an index."""
    model = context.build_as("infer", SEED_BUILD + 1)
    found: dict[int, None] = {}
    for case in context.draw(SEED_BUILD):
        given = (case.args, case.kwargs, _plain_defaults(model, case.args, case.kwargs))
        tensors = [each for each in pytree.tree_leaves(given) if isinstance(each, torch.Tensor)]
        if tensors and any(type(each) is int for each in plain_leaves(given)):
            found |= dict.fromkeys(tensors[0].shape)
    return tuple(found)[:SIZES]


def _plain_defaults(model: Any, args: Any, kwargs: Any) -> dict[str, float | str]:
    """Return the parameters with a number, a flag or a string as default that a call leaves out."""
    try:
        bound = inspect.signature(getattr(model, "forward", model)).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return {}
    return {
        name: parameter.default
        for name, parameter in bound.signature.parameters.items()
        if type(parameter.default) in PLAIN
        and name not in bound.arguments
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }


def _twice(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: [drained(function(*args, **kwargs)) for _ in range(2)]


def _after_other_mode(model: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Call, change the weights and set the mode again; call in the other mode, and once more. Return both outputs."""

    def again(args: Any, kwargs: Any) -> Any:
        return function(*pytree.tree_map_only(torch.Tensor, torch.clone, args), **kwargs)

    def call(*args: Any, **kwargs: Any) -> Any:
        mode = model.training
        with torch.no_grad():
            again(args, kwargs)
            for each in weights_of(model):
                each.data.mul_(1.25)
            model.train(mode)
            first = drained(again(args, kwargs))
            model.train(not mode)
            again(args, kwargs)
        model.train(mode)
        return [first, drained(function(*args, **kwargs))]

    return call


def _after_inference(function: Callable[..., Any], modules: Sequence[ModuleType]) -> Callable[..., Any]:
    """Call in inference mode and then as usual, with caches of functions that start empty."""

    def call(*args: Any, **kwargs: Any) -> Any:
        for value in (value for module in modules for value in vars(module).values()):
            if isinstance(value, functools._lru_cache_wrapper):
                value.cache_clear()
        with torch.inference_mode():
            function(*pytree.tree_map_only(torch.Tensor, torch.clone, args), **kwargs)
        return function(*args, **kwargs)

    return call


def _shift_in_place(tensor: torch.Tensor) -> None:
    if tensor.layout != torch.strided:
        return
    with contextlib.suppress(RuntimeError):  # its elements share memory
        if tensor.is_floating_point():
            tensor.mul_(1.25)
        elif tensor.dtype == torch.bool:
            tensor.view(-1)[::2].logical_not_()


def _in_turn(function: Callable[..., Any]) -> Callable[..., Any]:
    """Call with the given arguments, with other values twice, and without gradients with the first tensors again, which
    have other values then. Return the outputs as they are after the last call."""

    def call(*args: Any, **kwargs: Any) -> Any:
        inputs = [(args, kwargs), *(drawn((args, kwargs), seed) for seed in (1, 2))]
        results = [drained(function(*given, **named)) for given, named in inputs]
        if not torch.is_grad_enabled():  # the same tensors with other values: a cache may know them by identity
            pytree.tree_map_only(torch.Tensor, _shift_in_place, inputs[0])
            given, named = inputs[0]
            results.append(drained(function(*given, **named)))
        return results

    return call


def _applicable_variations(
    function: Any, args: Any, kwargs: Any, constants: tuple[float | str, ...], more: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the names of the variations for these arguments; those that may spoil state of the model come last."""
    retyped = [name for name in (*RETYPED, AS_NUMPY) if _retype_arguments(function, args, kwargs, name) is not None]
    names, last = (*fitting((args, kwargs), constants), *more, *retyped), late(constants)
    return (*(name for name in names if name not in last), *(name for name in names if name in last))


PLAIN = (bool, int, float, str, torch.dtype)
LARGEST = 10_000
"""The largest default with which a call is made: it may be a size."""
_NO_TENSOR = re.compile(r"\b(bool|int|float|complex|Number|Any|object)\b")
"""Types in annotations that allow a value other than a tensor."""
_TENSOR = re.compile(r"\b(\w*Tensor|Any|object)\b")
_NUMBER = re.compile(r"\b(int|float|Number|Any|object)\b")


def _retype_arguments(function: Any, args: Any, kwargs: Any, variation: str) -> tuple[Any, Any] | None:
    """Return the arguments with values of another type, as one of `RETYPED` or `AS_NUMPY` says; None if none changes."""
    if variation == AS_NUMPY:
        tensors = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        if not tensors or any(each.requires_grad for each in tensors):
            return None
        try:
            arrays: tuple[Any, Any] = pytree.tree_map_only(torch.Tensor, _as_numpy, (args, kwargs))
        except Exception:  # a container that accepts only tensors, such as a PackedSequence
            return None
        return arrays
    if variation not in RETYPED:
        return None
    try:
        bound = inspect.signature(getattr(function, "forward", function)).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None
    like = next((each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)), None)
    changed = {}
    if variation in ONE_LEFT_OUT:
        return _without_one(bound, ONE_LEFT_OUT[variation])
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            if (other := _more_or_fewer(bound.arguments.get(name), variation)) is not None:
                changed[name] = other
            continue
        value = bound.arguments.get(name, parameter.default)
        other = _retype_value(parameter, value, name in bound.arguments, like, variation)
        if other is not value:
            changed[name] = other
    if variation == MASKS_AND_FLAGS and len({type(each) is bool for each in changed.values()}) < 2:
        return None
    bound.arguments.update(changed)
    return (bound.args, bound.kwargs) if changed else None


def _without_one(bound: inspect.BoundArguments, position: int) -> tuple[Any, Any] | None:
    """Return the arguments without one of several optional ones; None if there are not so many."""
    parameters = bound.signature.parameters
    optional = [name for name in bound.arguments if parameters[name].default is not inspect.Parameter.empty]
    if len(optional) < 2 or position >= len(optional):
        return None
    bound.arguments[optional[position]] = parameters[optional[position]].default
    return bound.args, bound.kwargs


def _more_or_fewer(given: Any, variation: str) -> Any:
    """Return the values of `*args` or `**kwargs`, one more or one less; None if there is none to copy or to spare."""
    if variation == FEWER_ARGUMENTS and given and len(given) > 1:
        return given[:-1] if isinstance(given, tuple) else dict([*given.items()][:-1])
    if variation != MORE_ARGUMENTS or not given:
        return None
    more = tuple(with_one_more_tensor([*given])) if isinstance(given, tuple) else with_one_more_item(given)
    return more if len(more) > len(given) else None


def _retype_value(
    parameter: inspect.Parameter, value: Any, is_given: bool, like: torch.Tensor | None, variation: str
) -> Any:
    """Return the value to pass for a parameter in place of `value`, or `value` itself. `like` is a tensor of the call."""
    default, annotation = parameter.default, str(parameter.annotation)
    is_open = parameter.annotation is parameter.empty
    if variation == LEFT_OUT and is_given and default is None:
        return None
    if variation == BY_DEFAULT and is_given and type(default) in (bool, int, float) and abs(default) <= LARGEST:
        return value if type(value) in PLAIN and value == default else default
    if variation == AS_PYTHON and isinstance(value, torch.Tensor) and not value.dim():
        return value.item() if is_open or _NO_TENSOR.search(annotation) else value
    if variation == AS_TENSORS and type(value) is float and (is_open or _TENSOR.search(annotation)):
        return torch.tensor(value, requires_grad=True)
    if variation in STRINGS and type(value) is str:
        return STRINGS[variation](value)
    if variation in STRINGS and type(value) in (list, tuple) and value and all(type(each) is str for each in value):
        return type(value)(map(STRINGS[variation], value))
    if variation == MASKS_AND_FLAGS and type(value) is bool:
        return not value
    if value is None and like is not None:
        if variation == TENSORS_FOR_NONE and (is_open or _TENSOR.search(annotation)):
            return like.detach().flip(tuple(range(like.dim())))
        if variation in (MASKS_FOR_NONE, FALSE_FOR_NONE, MASKS_AND_FLAGS) and (is_open or _TENSOR.search(annotation)):
            mask = torch.ones(like.shape[:-1] or like.shape, dtype=torch.bool, device=like.device)
            mask.view(-1)[1::2] = False
            return torch.zeros_like(mask) if variation == FALSE_FOR_NONE else mask
        if variation in NUMBERS_FOR_NONE and (is_open or _NUMBER.search(annotation)):
            return NUMBERS_FOR_NONE[variation]
    return value


def _as_numpy(tensor: torch.Tensor) -> Any:
    try:
        return tensor.detach().numpy()
    except (TypeError, RuntimeError):  # another device or layout, or a type that NumPy has not
        return tensor


def _cast(context: Context, function: Any) -> Callable[..., Any]:
    """Return the function under the requested `torch.autocast`."""

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
"""The owner of a function, its attribute name, and the function."""


def _record_arguments(
    models: Models, model: Any, functions: Mapping[FunctionPlace, _Found], seed: int
) -> dict[FunctionPlace, list[tuple[Any, Any, Caught]]]:
    """The arguments with which calls of a model call functions, and the exceptions that are caught around these calls."""
    calls: dict[FunctionPlace, list[tuple[Any, Any, Caught]]] = {place: [] for place in functions}
    with contextlib.ExitStack() as stack:
        for place, found in functions.items():
            stack.enter_context(_recording(found, calls[place]))
        for case in models.get_inputs(seed):
            observe_call(model, _cast(models.context, model), *_arguments(case))
    return calls


def _is_called_as(model: Any, function: FunctionType) -> bool:
    """Return whether a call of the model is a call of that function, with the same arguments."""
    return model is function or (
        isinstance(model, nn.Module) and inspect.getattr_static(model, "forward", None) is function
    )


@contextlib.contextmanager
def _recording(found: _Found, calls: list[tuple[Any, Any, Caught]]) -> Iterator[None]:
    """Record the arguments of the first calls of a function."""
    owner, name, function = found

    @functools.wraps(function)
    def noting(*args: Any, **kwargs: Any) -> Any:
        if len(calls) < RECORDED:
            is_method = bool(args) and isinstance(args[0], nn.Module)
            own = fresh(Case(None, args[1:] if is_method else args, kwargs))
            caught = caught_around(sys._getframe(1), observe_call.__name__)
            calls.append(((*args[: int(is_method)], *own.args), own.kwargs, caught))
        return function(*args, **kwargs)

    places = [(owner, name), *(_imported_names(function) if isinstance(owner, ModuleType) else ())]
    for holder, called_there in places:
        setattr(holder, called_there, noting)
    try:
        yield
    finally:
        for holder, called_there in places:
            setattr(holder, called_there, function)


def _imported_names(function: FunctionType) -> list[tuple[ModuleType, str]]:
    """Return the names by which Python modules refer to the function, including modules that imported it from its own."""
    return [
        (module, name)
        for module in list(sys.modules.values())
        if isinstance(module, ModuleType)
        for name, value in list(vars(module).items())
        if value is function
    ]


def _modules(paths: Set[str]) -> Sequence[ModuleType]:
    """Return the modules of these files."""
    return _modules_among(frozenset(paths), tuple(map(id, sys.modules.values())))


@functools.lru_cache(maxsize=16)
def _modules_among(paths: frozenset[str], _loaded: tuple[int, ...]) -> Sequence[ModuleType]:
    """Search all modules for those of these files. `_loaded` is a cache key: the result depends on it."""
    wanted = {os.path.realpath(path) for path in paths}
    names = {os.path.basename(path) for path in wanted | paths}
    found = [(getattr(module, "__file__", None), module) for module in list(sys.modules.values())]
    # Check the name first: the real path takes a while for thousands of modules.
    near = [(path, module) for path, module in found if path and os.path.basename(path) in names]
    return tuple(module for path, module in near if os.path.realpath(path) in wanted)


def reached_modules(paths: Set[str]) -> list[ModuleType]:
    """Return the modules of these files, and the user's own modules to which they refer, recursively."""
    found: dict[str, ModuleType] = {}
    pending = [*_modules(paths)]
    while pending:
        module = pending.pop()
        if module.__name__ in found:
            continue
        found[module.__name__] = module
        for value in list(vars(module).values()):
            name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            other = sys.modules.get(name) if isinstance(name, str) else None
            path = getattr(other, "__file__", None)
            if other is not None and isinstance(path, str) and _is_own(path):
                pending.append(other)
    return list(found.values())


def _is_own(path: str) -> bool:
    """Return whether a file is the user's, not an installed one."""
    return is_user_file(path) and below_site(os.path.realpath(path)) is None


def _resolve_function(place: FunctionPlace) -> _Found | None:
    """Return a function and its owner; None if there is no plain function at that place."""
    *outer, name = place.name.split(".")
    for module in _modules({place.path}):
        owner: Any = module
        for part in outer:
            owner = getattr(owner, part, None)
        function = inspect.getattr_static(owner, name, None) if owner is not None else None
        if isinstance(function, FunctionType):
            return owner, name, function
    return None


def numbers_of_callees(functions: Iterable[FunctionPlace]) -> list[float]:
    """Return the numbers in functions of the same files, or that they read from their module, if changed functions name
    them: `check_length(x)` contains its bound."""
    found: dict[float, None] = {}
    for place in functions:
        known = _resolve_function(place)
        names = known[2].__code__.co_names if known is not None else ()
        outer = known[2].__globals__ if known is not None else {}
        for name in names:
            callee = outer.get(name)
            if not isinstance(callee, FunctionType) or not _is_own(callee.__code__.co_filename):
                continue
            code = callee.__code__
            values = [*code.co_consts, *(callee.__globals__.get(each) for each in code.co_names)]
            found |= dict.fromkeys(float(value) for value in values if type(value) in (int, float))
    return [*found]


SHORT = 0.3
"""Seconds for the repeated calls of a measurement."""


def cost(models: Models, request: ProofRequest) -> float | None:
    """Return the seconds of the shortest eager call, to compare the speed of two versions; None if a call raises.

    On a CPU these are seconds of one thread, so that other processes do not affect them.
    """
    if torch.device(models.context.work.options.device).type != "cpu":
        return shortest(models, request)
    usual = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return shortest(models, request, time.thread_time)
    finally:
        torch.set_num_threads(usual)


def shortest(models: Models, request: ProofRequest, clock: Callable[[], float] = time.perf_counter) -> float | None:
    """Return the seconds of the shortest eager call with the inputs as given; None if one raises."""
    context = models.context
    try:
        model = models.get_model("infer", request.seeds[0])
        case = models.get_inputs(request.seeds[0])[0]
        times: list[float] = []
        with torch.no_grad(), autocast(context):
            since = time.perf_counter()
            while len(times) < 5 or (time.perf_counter() - since < SHORT and len(times) < 200):
                args, kwargs = _arguments(case)
                begun = clock()
                model(*args, **kwargs)
                settle(context)
                times.append(clock() - begun)
        return min(times)
    except Exception:  # the user's own: a model that raises has no time
        return None
