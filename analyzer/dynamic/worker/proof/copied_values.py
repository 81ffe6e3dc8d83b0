"""Store values to compare them in another process: copies of tensors, and of everything else what distinguishes it from
others."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import enum
import fractions
import functools
import hashlib
import io
import itertools
import logging
import random
import re
import sys
import uuid
from collections import deque
from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from pathlib import PurePath
from types import BuiltinFunctionType, EllipsisType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import torch
from tcready.dynamic.worker.measure.output_comparison import attributes_of
from tcready.dynamic.worker.torch_internals import pytree
from torch import nn

DEPTH = 5
"""The nesting depth of containers and objects that are opened."""
DRAINED = 100
"""The number of items that are taken from an iterator."""
FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType)
CONTAINERS = (list, tuple, dict, set, deque)
_OPAQUE = (nn.Module, type, ModuleType, logging.Logger, logging.Handler, random.Random, *FUNCTIONS)
_WRITTEN = (
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    torch.Size,
    complex,
    bytes,
    bytearray,
    range,
    slice,
    enum.Enum,
    EllipsisType,
    decimal.Decimal,
    fractions.Fraction,
    dt.date,
    dt.time,
    dt.timedelta,
    PurePath,
    uuid.UUID,
    re.Pattern,
)
"""Types with values that are identified by their text."""


def is_plain(value: Any, depth: int = 0) -> bool:
    """Return whether a value is a number, text or None, or contains nothing else."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return depth < 3 and all(is_plain(item, depth + 1) for item in value)
    if isinstance(value, dict):
        return depth < 3 and all(is_plain(each, depth + 1) for item in value.items() for each in item)
    return value is None or isinstance(value, (bool, int, float, str))


def plain(leaf: Any) -> Any:
    """Return the stored form of a value that is not opened. It can be pickled."""
    if isinstance(leaf, torch.Tensor):
        return copied(leaf)
    if leaf is None or type(leaf) in (bool, int, float, str):
        return leaf
    kind = f"<{type(leaf).__name__}>"
    if isinstance(leaf, (*_WRITTEN, int, str)):
        return f"{kind} {leaf!r}"
    if isinstance(leaf, (type, *FUNCTIONS)):
        return f"{kind} {getattr(leaf, '__module__', '')}.{getattr(leaf, '__qualname__', '')}"
    if isinstance(leaf, functools.partial):
        return [kind, plain(leaf.func), [*map(plain, leaf.args)], {k: plain(v) for k, v in leaf.keywords.items()}]
    if isinstance(leaf, (set, frozenset, KeysView)):
        return f"{kind} {_of_a_set(leaf)}"
    if isinstance(leaf, (ItemsView, ValuesView, MappingProxyType)):
        items = [*(leaf.items() if isinstance(leaf, MappingProxyType) else leaf)]
        return [kind, pytree.tree_map(plain, items)]
    if isinstance(leaf, (io.StringIO, io.BytesIO)) and not leaf.closed:
        return f"{kind} {leaf.getvalue()!r}"
    with contextlib.suppress(TypeError, ValueError, RuntimeError, AttributeError):
        if (known := stream(leaf)) is not None:
            return f"{kind} {known}"
        if type(leaf).__module__ == "numpy":
            return [kind, _convert_array(leaf)]
    return kind


def stream(value: Any) -> str | None:
    """Return, as a few characters, the position of a source of random numbers, or the content of an array; None for
    anything else."""
    numpy = sys.modules.get("numpy")
    if isinstance(value, torch.Generator):
        return digest(value.get_state().tolist())
    if isinstance(value, random.Random):
        return digest(value.getstate())
    if numpy is None:
        return None
    if isinstance(value, numpy.random.Generator):
        return digest(value.bit_generator.state)
    if isinstance(value, numpy.random.RandomState):
        _, keys, *place = value.get_state()
        return digest((keys.tolist(), place))
    return None


def digest(value: Any) -> str:
    """Return a value in a few characters, by its text."""
    return hashlib.sha256(repr(value).encode(errors="surrogatepass")).hexdigest()


def _convert_array(leaf: Any) -> Any:
    """Convert an array to a tensor; one of words or objects to text."""
    try:
        return torch.as_tensor(leaf).clone()
    except (TypeError, ValueError, RuntimeError):
        return repr(leaf.tolist())


def _of_a_set(value: Any) -> Any:
    items = [*value]
    is_listed = all(is_plain(item) or isinstance(item, _WRITTEN) for item in items)
    return sorted(map(repr, items)) if is_listed else len(items)


def copied(tensor: torch.Tensor) -> Any:
    """Copy a tensor so that nothing else writes to it; for one of another class, return its class name and its parts."""
    bare = tensor.detach()
    if type(bare) in (torch.Tensor, nn.Parameter):
        return bare.clone()
    kind = f"<{type(tensor).__name__}>"
    with contextlib.suppress(TypeError, RuntimeError, NotImplementedError):
        if hasattr(tensor, "__tensor_flatten__"):
            names, _ = tensor.__tensor_flatten__()
            return [kind, *(copied(getattr(tensor, name)) for name in names)]
        return [kind, bare.as_subclass(torch.Tensor).clone()]
    return kind


def drained(value: Any) -> Any:
    """Return a value in which a list of the first DRAINED items replaces each iterator. A `torch.Size` becomes a list
    with its type, since `pytree` does not distinguish it from a tuple."""

    def given(leaf: Any) -> Any:
        if isinstance(leaf, torch.Size):
            return [f"<{type(leaf).__name__}>", *leaf]
        if not isinstance(leaf, Iterator) or isinstance(leaf, (io.IOBase, torch.Tensor)):
            return leaf
        return [f"<{type(leaf).__name__}>", drained([*itertools.islice(leaf, DRAINED)])]

    return pytree.tree_map(given, value, is_leaf=lambda each: isinstance(each, torch.Size))


def inside(value: Any) -> list[tuple[str, Any]]:
    """Return the contents of a value by name: items, and attributes of objects of the user's own classes; nothing for
    functions, modules and types."""
    if isinstance(value, (torch.Tensor, str, bytes, *_WRITTEN, *_OPAQUE)):
        return []
    found: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        found = [(f"[{key!r}]" if is_plain(key) else f"[{n}]", v) for n, (key, v) in enumerate(dict.items(value))]
    elif isinstance(value, (list, tuple, deque)):
        found = [(f"[{number}]", item) for number, item in enumerate(value)]
    is_own = type(value).__module__.partition(".")[0] not in ("builtins", "functools", "torch", "numpy")
    if is_own or not callable(value):
        found += [(f".{name}", item) for name, item in (attributes_of(value) or {}).items()]
    return found


def contents(name: str, value: Any, depth: int, opened: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield a value and its contents, each with its name. Values in `opened` are not opened again."""
    items = inside(value) if depth and id(value) not in opened else []
    if not items:
        sized = isinstance(value, CONTAINERS) and not isinstance(value, set)
        yield name, f"<{type(value).__name__}> of {len(value)}" if sized else plain(value)
        if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter) and value.requires_grad:
            yield f"{name}, part of a graph", True
            if value.retains_grad:
                yield f"{name}, which keeps its gradient", True
        return
    opened.add(id(value))
    size = f" of {len(value)}" if isinstance(value, CONTAINERS) else ""
    keys = f": {', '.join(key for key, _ in items)}" if isinstance(value, dict) and len(items) <= DRAINED else ""
    yield name, f"<{type(value).__name__}>{size}{keys}"
    for key, item in items:
        yield from contents(name + key, item, depth - 1, opened)
