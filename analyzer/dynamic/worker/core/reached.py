"""Find the modules and tensors of this process that the code of a function names, and restore them after a run."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

import torch
from tcready.dynamic.worker.core.frames import is_user_file
from tcready.dynamic.worker.torch_internals import pytree
from torch import nn


@contextlib.contextmanager
def put_back(value: Any) -> Iterator[None]:
    """Restore values, gradients, flags and attributes of modules and tensors that the function `value` names. A
    module that is checked itself is copied, so nothing is done for it.

    Attributes are bound to their previous values; a list that was changed in place is not restored.
    """
    found = _iter_reached(value)
    modules = {id(part): part for each in found if isinstance(each, nn.Module) for part in each.modules()}
    attributes = [(module, dict(vars(module))) for module in modules.values()]
    registered = [
        (module, name, tensor)
        for module in modules.values()
        for name, tensor in (
            *module.named_parameters(recurse=False, remove_duplicate=False),
            *module.named_buffers(recurse=False, remove_duplicate=False),
        )
    ]
    loose = [each for each in found if isinstance(each, torch.Tensor)]
    tensors = {id(tensor): tensor for tensor in (*(tensor for _, _, tensor in registered), *loose)}
    saved = [
        (tensor, _value(tensor), grad, None if grad is None else _value(grad))
        for tensor in tensors.values()
        for grad in (tensor.grad if tensor.is_leaf else None,)
    ]
    try:
        yield
    finally:
        for module, known in attributes:
            for name in vars(module).keys() - known.keys():
                del vars(module)[name]
            vars(module).update(known)
        for module, name, tensor in registered:
            if getattr(module, name, None) is not tensor:
                setattr(module, name, tensor)
        for tensor, before, grad, grad_before in saved:
            _restore(tensor, before)
            if grad is not None and grad_before is not None:
                _restore(grad, grad_before)
            if tensor.is_leaf and tensor.grad is not grad:
                tensor.grad = grad


def _value(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone()


def _restore(tensor: torch.Tensor, before: torch.Tensor) -> None:
    with torch.no_grad(), torch.inference_mode(tensor.is_inference()):
        same = tensor.is_meta or (tensor.layout == torch.strided and torch.equal(tensor, before))
        if not same:
            tensor.copy_(before)


def _iter_reached(value: Any) -> list[Any]:
    """Yield modules and tensors that functions name: in closures, globals, defaults, partials, and in the values of
    these."""
    found: list[Any] = []
    seen: dict[int, Any] = {}
    waiting = _not_copied(value)
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen[id(each)] = each
        if isinstance(each, (nn.Module, torch.Tensor)):
            found.append(each)
        else:
            waiting += _iter_named(each)
    return found


def _not_copied(value: Any) -> list[Any]:
    """Yield the contents of the checked object, without modules that are copied for the run."""
    if isinstance(value, functools.partial):
        leaves = pytree.tree_leaves((value.args, value.keywords))
        return [*_not_copied(value.func), *(leaf for leaf in leaves if not isinstance(leaf, nn.Module))]
    if isinstance(value, nn.Module) or isinstance(getattr(value, "__self__", None), nn.Module):
        return []
    return _iter_named(value)


def _iter_named(value: Any) -> list[Any]:
    """Yield the values in one function, partial, method, container or user object."""
    if isinstance(value, functools.partial):
        return [value.func, *pytree.tree_leaves((value.args, value.keywords))]
    if inspect.ismethod(value):
        return [value.__func__, value.__self__]
    if isinstance(value, FunctionType):
        if not is_user_file(value.__code__.co_filename):
            return [value.__wrapped__] if hasattr(value, "__wrapped__") else []
        names = set(_names(value.__code__))
        cells = [cell.cell_contents for cell in value.__closure__ or () if _filled(cell)]
        used = [global_value for name, global_value in value.__globals__.items() if name in names]
        defaults = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        return [*cells, *used, *defaults, *([value.__wrapped__] if hasattr(value, "__wrapped__") else [])]
    if isinstance(value, (list, tuple, dict)):
        return list(value.values() if isinstance(value, dict) else value)
    if isinstance(value, type):
        return []
    kind = type(value)
    code = next((each.__code__ for each in vars(kind).values() if isinstance(each, FunctionType)), None)
    if code is not None and is_user_file(code.co_filename) and hasattr(value, "__dict__"):
        return list(vars(value).values())
    return []


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _names(const)


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
