"""Compare the results that fake kernels predict with the results of their operators.

Code that is compiled with the backend `eager` calls the operators themselves, so the prediction does not affect its
results; other backends allocate, and index, by the prediction.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from tcready.dynamic.worker.proof.calls import calls_of_model
from tcready.dynamic.worker.proof.shared_models import Models
from tcready.dynamic.worker.proof.variations import ON_META
from tcready.dynamic.worker.torch_internals import dispatch, operator_registry, pytree
from tcready.schema.proof import ProofRequest, Variant

REGISTERING = ("register_fake", "impl_abstract", '"Meta"', "'Meta'")
"""Texts in a file that registers shapes of an operator's results."""


def registers(variant: Variant) -> bool:
    """Return whether a file of the variant may register a fake kernel."""
    return any(word in text for _, text in variant.sources for word in REGISTERING)


def disagreement(
    models: Models, request: ProofRequest, sources: Sequence[tuple[str, str]], seconds: float
) -> str | None:
    """Return, in one line, where a fake kernel predicts another result than its operator returns.

    The calls of the model with the first seed are made: those with the inputs as given without a time limit, others
    for some `seconds`. Operators that `sources`, the texts of files by path, name are called with other sizes too.
    """
    found: list[str] = []

    def saw(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]) -> Any:
        with dispatch.unseen():
            predicted = operator_registry.fake_result(operator, args, kwargs)
            given = _vary_sizes(args, kwargs) if predicted is not None else []
        result = run()
        if predicted is not None and not found:
            name = operator_registry.operator_name(operator)
            found.extend(_result_differences(name, predicted[0], result))
            if not operator_registry.declares_aliases(operator) and _in_memory(result) & _in_memory((args, kwargs)):
                found.append(f"`{name}` returns memory of an argument, which its schema does not declare")
            if not found and any(name in text for _, text in sources):
                found.extend(_disagreement_for(operator, given))
        return result

    until = time.monotonic() + seconds
    for number, (key, call) in enumerate(calls_of_model(models, replace(request, seeds=request.seeds[:1]))):
        if number and time.monotonic() > until:
            break
        if key.variation == ON_META:
            continue  # there the fake kernel itself is called, and memory has no addresses
        with dispatch.OperatorMode(saw):
            call()
        if found:
            return f"{found[0]} ({key.words})"
    return None


def _vary_sizes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Return other arguments: for each size, with tensors twice as long in every dimension of that size, because two
    sizes, or a size and a number, may be equal by chance. Then with each integer one less and one more, and with one
    more leading dimension of the tensors that have most dimensions."""
    tensors = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
    if any(each.layout != torch.strided for each in tensors) or sum(each.numel() for each in tensors) > LARGE:
        return []

    def longer(tensor: torch.Tensor, size: int) -> torch.Tensor:
        made = tensor.detach()
        for dimension, own in enumerate(tensor.shape):
            if own == size:
                made = torch.cat([made, made], dimension)
        return made.clone(memory_format=torch.contiguous_format)

    sizes = dict.fromkeys(size for each in tensors for size in each.shape if size > 1)
    leaves, spec = pytree.tree_flatten((args, kwargs))
    found = [[longer(each, size) if isinstance(each, torch.Tensor) else each for each in leaves] for size in sizes]
    for number, each in enumerate(leaves):
        if isinstance(each, int) and not isinstance(each, bool):
            found += [[*leaves[:number], each + step, *leaves[number + 1 :]] for step in (-1, 1)]
    most = max((each.dim() for each in tensors), default=0)
    found.append(
        [
            torch.stack([each.detach()] * 2) if isinstance(each, torch.Tensor) and each.dim() == most else each
            for each in leaves
        ]
    )
    return [pytree.tree_unflatten(changed, spec) for changed in found]


LARGE = 1_000_000
"""The most numbers in the arguments of an operator that is also called with other sizes."""


def _disagreement_for(operator: Any, given: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> list[str]:
    """Return where the fake kernel predicts another result than the operator returns for such arguments, if it accepts
    them."""
    for args, kwargs in given:
        with dispatch.unseen(), torch.no_grad(), contextlib.suppress(Exception):
            predicted = operator_registry.fake_result(operator, args, kwargs)
            result = operator(*args, **kwargs)
            if predicted is not None and (
                found := _result_differences(operator_registry.operator_name(operator), predicted[0], result)
            ):
                return [f"{found[0]}, in a call with other sizes or numbers"]
    return []


def _result_differences(name: str, predicted: Any, given: Any) -> list[str]:
    """Return how the tensors of a result differ from the prediction."""
    one, other = pytree.tree_leaves(predicted), pytree.tree_leaves(given)
    if len(one) != len(other):
        return [f"the fake kernel of `{name}` returns {len(one)} values, and the operator {len(other)}"]
    pairs = [pair for pair in zip(one, other, strict=True) if all(isinstance(each, torch.Tensor) for each in pair)]
    return [
        f"the fake kernel of `{name}` returns {_words(fake)}, and the operator {_words(real)}"
        for fake, real in pairs
        if not _agree(fake, real)
    ]


def _agree(fake: torch.Tensor, real: torch.Tensor) -> bool:
    if (fake.dtype, fake.device.type, fake.dim()) != (real.dtype, real.device.type, real.dim()):
        return False
    # a size that data decides is no number in a fake kernel
    known = [(one, other) for one, other in zip(fake.shape, real.shape, strict=True) if isinstance(one, int)]
    if any(one != other for one, other in known) or len(known) < real.dim() or real.layout != torch.strided:
        return all(one == other for one, other in known)
    if not real.numel():
        return True
    steps = [
        (one, other) for size, one, other in zip(real.shape, fake.stride(), real.stride(), strict=True) if size > 1
    ]
    return all(one == other for one, other in steps)


def _in_memory(values: Any) -> set[int]:
    """Return the memory addresses of the tensors among some values: a graph may reuse the memory of an operator's
    arguments, and write to its results."""
    tensors = [each for each in pytree.tree_leaves(values) if isinstance(each, torch.Tensor)]
    return {each.untyped_storage().data_ptr() for each in tensors if each.layout == torch.strided and each.numel()}


def _words(tensor: torch.Tensor) -> str:
    steps = f", strides {tuple(tensor.stride())}" if tensor.layout == torch.strided else ""
    return f"{tuple(tensor.shape)} of {tensor.dtype} on {tensor.device.type}{steps}"
