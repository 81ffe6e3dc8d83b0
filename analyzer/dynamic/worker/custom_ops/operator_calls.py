"""Record operators that are not torch's own as they are dispatched, in eager code and inside graphs, and find what
torch.compile lacks for each."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from tcready.dynamic.worker.core.calling_line import calling_line
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.custom_ops.observed_calls import Meta, Observed, Seen, SeenCalls
from tcready.dynamic.worker.custom_ops.registration import AUTOGRAD, FAKE, REGISTRATION, observed_call, skeleton
from tcready.dynamic.worker.torch_internals import dispatch, operator_registry, pytree
from tcready.dynamic.worker.torch_internals.compile_calls import address_of
from tcready.schema.run import CustomOp

MANY_ELEMENTS = 2**20
"""Arguments with more elements than this in total are not stored, so they are neither compared nor checked."""


@contextlib.contextmanager
def watching(found: SeenCalls, case: Case) -> Iterator[None]:
    """Record each foreign operator that is dispatched within the context, once per place."""

    def saw(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]) -> Any:
        place, in_graph, around = calling_line(dispatch.calling_frames())
        name = operator_registry.operator_name(operator)
        key = (name, place[0], place[1])
        known = found.seen.get(key)
        if known is not None:
            found.seen[key] = replace(known, in_graph=known.in_graph or in_graph)
            return run()
        result, call = observed(run, args, kwargs)
        found.seen[key] = Seen(
            name, "operator", place, operator, call, in_graph=in_graph, around=around, case=case.name
        )
        return result

    with dispatch.OperatorMode(saw):
        yield


def observed(run: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Observed]:
    """Return the result of `run`, and a description of the call. Raises what `run` raises."""
    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    whole = sum(tensor.numel() for tensor in tensors) <= MANY_ELEMENTS
    with dispatch.unseen():
        args_before, kwargs_before = pytree.tree_map_only(torch.Tensor, copied if whole else Meta.of, (args, kwargs))
    wants_grad = any(tensor.requires_grad for tensor in tensors)
    result = run()
    mutated: set[int | str] = set()
    if whole:
        pairs: list[tuple[int | str, Any, Any]] = [(i, args[i], args_before[i]) for i in range(len(args))]
        pairs += [(name, kwargs[name], kwargs_before[name]) for name in kwargs]
        with dispatch.unseen():
            for key, after, before in pairs:
                if isinstance(after, torch.Tensor) and not _same(before, after):
                    mutated.add(key)
    stores = {address_of(tensor) for tensor in tensors} - {None}
    outputs = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    aliased = any(address_of(tensor) in stores for tensor in outputs)
    metas = pytree.tree_map_only(torch.Tensor, Meta.of, result)
    return result, Observed(args_before, kwargs_before, whole, metas, frozenset(mutated), aliased, wants_grad)


def copied(tensor: torch.Tensor) -> torch.Tensor:
    copied = tensor.detach().clone()
    return copied.requires_grad_(tensor.requires_grad) if tensor.is_floating_point() else copied


def _same(before: torch.Tensor, after: torch.Tensor) -> bool:
    try:
        with torch.no_grad():
            return before.shape == after.shape and bool(torch.allclose(before, after, rtol=0, atol=0, equal_nan=True))
    except (RuntimeError, NotImplementedError):  # a dtype or layout without comparison
        return True


def record_custom_ops(context: Context) -> None:
    """Add the operators seen so far to the observation."""
    names, mode = context.names, context.work.options.mode
    found: list[CustomOp] = []
    checked: set[str] = set()
    for seen in context.custom_ops.seen.values():
        lacks = _lacks(seen, mode)
        frame = names.frame(*seen.place)
        checks = () if seen.name in checked else context.custom_ops.checks.get(seen.name, ())
        checked.add(seen.name)
        schema = operator_registry.operator_schema(seen.operator) if seen.operator is not None else ""
        code = skeleton(seen, lacks)
        found.append(
            CustomOp(
                seen.name,
                seen.kind,
                frame.path,
                frame.line,
                frame.symbol,
                names.origin(seen.place[0]),
                lacks,
                schema or _signature(code),
                code,
                checks,
                seen.in_graph,
                seen.around,
                seen.case,
                observed_call(seen, lacks),
            )
        )
    context.journal.add(custom_ops=tuple(found))
    context.journal.write("")


def _signature(code: str) -> str:
    match = re.search(r"^def (\w+\(.*\) -> .*):$", code, re.MULTILINE)
    return match[1] if match else ""


def _lacks(seen: Seen, mode: str) -> tuple[str, ...]:
    if seen.operator is None:
        return (REGISTRATION,)
    lacks = [] if operator_registry.has_fake_kernel(seen.operator) else [FAKE]
    wants = mode == "train" and seen.call is not None and seen.call.wants_grad
    # Inside of an autograd.Function the gradient is that one's affair.
    if wants and seen.around is None and not operator_registry.has_autograd(seen.operator):
        lacks.append(AUTOGRAD)
    return tuple(lacks)
