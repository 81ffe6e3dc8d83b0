"""Find the items that each case of a bench processes in a call: as the inputs define them, else derived from their
tensors."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import torch
from tcready.dynamic.worker.bench.items import TensorArgument, TensorKind, derive_items, for_a_step
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.inputs.loading import MethodTarget, takes_inputs
from tcready.dynamic.worker.plan.shape_axes import inputs_of, parameter_names
from tcready.schema.bench import BenchRequest, Items


def case_items(context: Context, request: BenchRequest) -> tuple[Items, ...]:
    """Return what a timed step of each case processes (possibly in several forwards), with the name of the case.
    Nothing is known about a loop of the user's own."""
    if request.loop is not None:
        return ()
    accumulate = request.accumulate
    mode = context.work.options.mode
    names = _names_of_parameters(context.value)
    found: list[Items] = []
    for case in context.cases:
        if case.items is not None:
            items = for_a_step([case.items], mode, accumulate)
        else:
            items = derive_items(tensor_arguments(case, names), mode, accumulate)
        if request.calls > 1:
            in_a_row = f", {request.calls} calls in a row"
            items = tuple(
                replace(each, count=each.count * request.calls, label=each.label + in_a_row) for each in items
            )
        found += [replace(each, case=case.name) for each in items]
    return tuple(found)


def tensor_arguments(case: Case, names: list[str]) -> list[TensorArgument]:
    """The strided tensors with dimensions, in the order of the call. `names` are those of the positional parameters."""
    return [
        TensorArgument(each.name, tuple(each.tensor.shape), _kind(each.tensor.dtype)) for each in inputs_of(case, names)
    ]


def _kind(dtype: torch.dtype) -> TensorKind:
    if dtype.is_floating_point:
        return "floating"
    return "other" if dtype.is_complex or dtype is torch.bool else "integer"


def _names_of_parameters(value: Any) -> list[str]:
    """Return the names of the positional parameters of a target, without building it; none for a callable that returns
    a model."""
    if isinstance(value, MethodTarget):
        names = parameter_names(getattr(value.owner, value.name))
        return names[1:] if inspect.isclass(value.owner) else names
    if inspect.isclass(value):
        cls: Any = value
        return parameter_names(cls.forward)[1:] if issubclass(cls, torch.nn.Module) else []
    return parameter_names(value) if isinstance(value, torch.nn.Module) or takes_inputs(value) else []
