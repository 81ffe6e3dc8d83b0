"""The models of one run: the target is built once, on its device, and then copied."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import itertools
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from tcready.dynamic.worker.inputs.loading import SEED_BUILD, make_on, modules_of
from tcready.dynamic.worker.torch_internals.compile_calls import address_of, writes
from tcready.schema.enums import Mode
from torch import nn
from torch.nn.parameter import is_lazy


@dataclass(frozen=True)
class Lent:
    """The model that is copied."""

    model: Any
    shared: bool
    """True if copies may share the memory of its parameters."""


class ModelStore:
    """Provides freshly built models, which are copies of one model that is never called.

    `make` builds a model with the weights of a seed, on the current default device. `share`: in inference, the copies
    share the memory of the parameters (16 GB for an 8B model in bfloat16). If a call writes to shared parameters, the
    next request for a model notices it: the original is built again, and nothing is shared from then on.
    """

    def __init__(self, make: Callable[[int], Any], device: str, mode: Mode, *, share: bool) -> None:
        self._make = make
        self._device = device
        self._mode = mode
        self._share = share and mode == "infer"
        self._original: Any = None
        self._values: list[Any] = []
        """Fingerprints that show whether the parameters of the original were written to."""
        self.copies = True
        """True if models are copies. If copies would refer to the original, each model is built instead."""
        self.device_failure: str | None = None
        """The reason why the constructor does not run on the device; models are then built on the CPU and moved."""

    def build(self, mode: Mode, seed: int) -> Any:
        """Return a new model in a mode. Raises what building it raises."""
        if seed != SEED_BUILD or not self.copies:
            return _in_mode(self._build_fresh(seed), mode)
        self._refresh()
        try:
            made = copied(self.original, share=self._share and mode == "infer")
        except Exception:  # an attribute that cannot be copied, such as a lock
            self.copies, self._original = False, None
            made = self._build_fresh(seed)
        return _in_mode(made, mode)

    def rebuild(self) -> Any:
        """Return what the constructor makes: a copy would lose what `module.compile()` leaves."""
        return _in_mode(self._build_fresh(SEED_BUILD), self._mode)

    def keep(self, model: Any) -> None:
        """Use `model`, which was just built and never called, as the original of all copies."""
        self._original = model
        self.copies = not refers_to_itself(model) and not _shares_memory(model) and not _is_of_plain_object(model)
        self._values = _values(model) if self._share else []
        if not self.copies:
            self._original = None

    @property
    def original(self) -> Any:
        """The model that is copied, built if there is none yet; it must not be called."""
        if self._original is None:
            model = self._build_fresh(SEED_BUILD)
            self.keep(model)
            return model
        return self._original

    @contextlib.contextmanager
    def lent(self) -> Iterator[Lent | None]:
        """Lend the original of all copies, for a change that is undone afterwards; it must not be called. None if
        models are not copies."""
        self._refresh()
        if not self.copies:
            yield None
            return
        try:
            yield Lent(self.original, self._share)
        finally:
            self._values = _values(self._original) if self._share else []

    def stop_copying(self) -> None:
        """Build each model from now on: a copy turned out to differ from what the constructor makes."""
        self.copies, self._original = False, None

    def _refresh(self) -> None:
        """Build the model anew if a call wrote to the parameters that it shares."""
        if self._share and self._original is not None and not _same(self._values, _values(self._original)):
            self._share = False
            self.keep(self._build_fresh(SEED_BUILD))

    def _build_fresh(self, seed: int) -> Any:
        device = self._device if self.device_failure is None else "cpu"
        model, failure = make_on(device, functools.partial(self._make, seed))
        self.device_failure = self.device_failure or failure
        return model


def _in_mode(model: Any, mode: Mode) -> Any:
    owner = getattr(model, "__self__", model)
    for module in [owner] if isinstance(owner, nn.Module) else modules_of(owner) if owner is not model else ():
        module.train(mode == "train")
    return model


def _is_of_plain_object(model: Any) -> bool:
    """Return whether a model is a method of an object that is not a module. It is built again each time: what compiled
    functions in its attributes refer to would not be copied."""
    return isinstance(model, types.MethodType) and not isinstance(model.__self__, (nn.Module, type))


def copied(model: Any, *, share: bool) -> Any:
    """Deep-copy a model or a method of one; return a function unchanged.

    `share`: its parameters are new objects over the memory of those of `model`. Raises what copying raises.
    """
    owner = getattr(model, "__self__", model)
    if not isinstance(owner, nn.Module):
        return model
    memo: dict[int, Any] = {}
    if share:
        # A parameter of a subclass may hold several tensors: its own `__deepcopy__` copies it.
        plain = (each for each in owner.parameters() if type(each) is nn.Parameter)
        memo = {id(each): _over_the_same_memory(each) for each in plain}
    return copy.deepcopy(model, memo)


def _over_the_same_memory(parameter: nn.Parameter) -> nn.Parameter:
    """Return a new parameter object: `module.to()` and the like replace the data of a parameter, not the object."""
    made = nn.Parameter(parameter.detach(), requires_grad=parameter.requires_grad)
    vars(made).update(vars(parameter))
    return made


def refers_to_itself(model: Any) -> bool:
    """Return whether a function among the attributes of a model refers to one of its modules, like the closure of
    `self.act = lambda x: self.scale * x`. `copy.deepcopy` does not copy functions, so the one in a copy would call the
    original."""
    owner = getattr(model, "__self__", model)
    if not isinstance(owner, nn.Module):
        return False
    own = {id(module) for module in owner.modules()}

    def refers(value: Any, depth: int = 3) -> bool:
        if id(value) in own:
            return True
        if isinstance(value, types.MethodType):
            return id(value.__self__) in own
        if not depth:
            return False
        return any(refers(each, depth - 1) for each in _iter_references(value))

    functions = (
        value
        for module in owner.modules()
        for attribute in vars(module).values()
        for value in _with_items(attribute)
        if isinstance(inspect.unwrap(value) if callable(value) else value, types.FunctionType)
    )
    return any(refers(each) for each in functions)


def _shares_memory(model: Any) -> bool:
    """Return whether parameters share memory, for example as views of one tensor: in a deep copy they would not."""
    owner = getattr(model, "__self__", model)
    if not isinstance(owner, nn.Module):
        return False
    parameters = [each for each in owner.parameters() if type(each) is nn.Parameter and each.layout == torch.strided]
    places = [each.untyped_storage().data_ptr() for each in parameters if not each.is_meta and each.numel()]
    return len(set(places)) < len(places)


def shares_parameters(one: Any, other: Any) -> bool:
    """Return whether parameters of two models are over the same memory."""
    first, second = (getattr(each, "__self__", each) for each in (one, other))
    if not isinstance(first, nn.Module) or not isinstance(second, nn.Module):
        return False
    places = {address_of(each) for each in first.parameters()} - {None}
    return any(address_of(each) in places for each in second.parameters())


def _with_items(value: Any) -> Iterator[Any]:
    """Yield the value and the items of a plain container: hooks are stored in dicts."""
    yield value
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, (list, tuple)):
        yield from value


def _iter_references(value: Any) -> Iterator[Any]:
    """Yield the objects to which a function refers: cells of its closure, defaults, and the function that it wraps."""
    if isinstance(value, types.FunctionType):
        for cell in value.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # not set yet
                continue
        yield from value.__defaults__ or ()
        yield from vars(value).values()
    elif isinstance(value, functools.partial):
        yield from itertools.chain((value.func,), value.args, value.keywords.values())


def _values(model: Any) -> list[Any]:
    """Return fingerprints of the parameters: version counters, and sums and norms of rows, which also show writes
    through `.data`."""
    owner = getattr(model, "__self__", model)
    if not isinstance(owner, nn.Module):
        return []
    found: list[Any] = []
    with torch.no_grad():
        for parameter in owner.parameters():
            if is_lazy(parameter):
                continue
            found.append(writes(parameter))
            if parameter.layout != torch.strided or parameter.is_meta or not parameter.numel():
                continue
            rows = parameter.detach().reshape(-1, parameter.shape[-1]) if parameter.dim() else parameter.detach()
            if parameter.is_floating_point():
                # float32 accumulates without a copy in float32
                wide = torch.float64 if parameter.dtype == torch.float64 else torch.float32
                found += [rows.sum(-1, dtype=wide), torch.linalg.vector_norm(rows, dim=-1, dtype=wide)]
            elif not parameter.is_complex():
                found.append(rows.sum(-1))
    return found


def _same(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(
        torch.equal(torch.nan_to_num(left), torch.nan_to_num(right))
        if isinstance(left, torch.Tensor)
        else left == right
        for left, right in zip(one, other, strict=True)
    )
