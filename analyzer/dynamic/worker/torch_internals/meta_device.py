"""Make calls on the device `meta`: code that reads values gets placeholders, and Dynamo traces tensors that are created
there."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo.utils
import torch._guards
from tcready.dynamic.worker.torch_internals import pytree
from tcready.dynamic.worker.torch_internals.known_values import KnownValues, moved_to_meta
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

SMALL = 2**20
"""The number of elements up to which memory is allocated for a placeholder."""
Scalar = bool | int | float | complex


@dataclass(frozen=True)
class Taken:
    """One placeholder: the value that was read, and its replacement."""

    what: str
    value: str


class StandInMode(TorchDispatchMode):  # type: ignore[misc]
    """Replaces the operators that read values of tensors on `meta`, and those that have no kernel there.

    `number(what, plain)` returns the number or truth value as which a tensor is read; `plain` is the default of its
    dtype. `note(taken)` is called with every other placeholder.
    """

    supports_higher_order_operators = True

    def __init__(self, number: Callable[[str, Scalar], Scalar], note: Callable[[Taken], None]) -> None:
        super().__init__()
        self.number = number
        self.note = note
        self.known = KnownValues()

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch._guards.CompileContext.current_compile_id() is not None:
            return func(*args, **kwargs)  # Dynamo's own fake tensors have rules of their own
        if isinstance(func, torch._ops.HigherOrderOperator):
            return self._higher_order(func, args, kwargs)
        given = self.known.known_arguments(func, args, kwargs)
        answer = _ANSWERS.get(func)
        if answer is not None and _on_meta(args) and not (func is _ATEN.copy_.default and args[0].is_meta):
            computed = self.known.compute_on_cpu(func, given) if given is not None else None
            if computed is None:
                return answer(self, func, args, kwargs)
            if func is _ATEN.copy_.default or (func is _ATEN._to_copy.default and not _stays(kwargs)):
                return computed.value
            return moved_to_meta(computed.value)
        result = self._run(func, args, kwargs)
        if given is not None:
            self.known.store(result, func, given)
        return result

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        try:
            return func(*args, **kwargs)
        except (NotImplementedError, DynamicOutputShapeException):
            if not _on_meta((args, kwargs)):
                raise
            return self._without_kernel(func, args, kwargs)

    def _higher_order(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Handle the operators inside of a higher-order one as well."""
        name = getattr(func, "__name__", "")
        if name == "invoke_subgraph":
            with self:
                return args[0](*args[2:])
        if name == "cond" and isinstance(args[0], torch.Tensor) and args[0].is_meta:
            known = self.known.value_of(args[0])
            taken = known.item() if known is not None else self.number("the condition of torch.cond", False)
            with self:
                return (args[1] if taken else args[2])(*args[3])
        return func(*args, **kwargs)

    def _on_cpu(self, tensor: torch.Tensor) -> torch.Tensor:
        known = self.known.value_of(tensor) if tensor.is_meta else None
        return made_up(tensor) if known is None else known.clone()

    def _without_kernel(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return the results of the CPU kernel for known or generated values, without their values; for large
        arguments, or if that raises, results like the first tensor argument."""
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        what = f"the result of {func.name()}, which has no kernel on meta,"
        if sum(tensor.numel() for tensor in tensors) <= SMALL:
            with contextlib.suppress(Exception):
                known = [self.known.value_of(tensor) for tensor in tensors if tensor.is_meta]
                given, named = pytree.tree_map_only(torch.Tensor, self._on_cpu, (args, kwargs))
                result = func(*given, **named)
                if None in known:
                    self.note(Taken(what, "what its CPU kernel gives for zeros"))
                return pytree.tree_map_only(torch.Tensor, lambda made: made.to("meta"), result)
        returns = func._schema.returns
        if not tensors or any(str(each.type) != "Tensor" for each in returns):
            return func(*args, **kwargs)  # raises
        self.note(Taken(what, "a tensor like its first argument"))
        made = tuple(torch.empty_like(tensors[0], device="meta") for _ in returns)
        return made[0] if len(made) == 1 else made or None


def made_up(tensor: torch.Tensor) -> torch.Tensor:
    """Return zeros on the CPU in place of a tensor on `meta`; any other tensor unchanged."""
    return torch.zeros(tensor.shape, dtype=tensor.dtype) if tensor.is_meta else tensor


def _on_meta(values: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) and leaf.is_meta for leaf in pytree.tree_leaves(values))


def plain_value(dtype: torch.dtype) -> Scalar:
    """Return the default value for that dtype."""
    if dtype == torch.bool:
        return False
    if dtype.is_complex:
        return complex(1)
    return 1.0 if dtype.is_floating_point else 1


def _part(count: int) -> int:
    """Return how many of `count` elements are assumed to be selected."""
    return max(count // 2, min(count, 1))


def _number(mode: StandInMode, _func: Any, args: Any, _kwargs: Any) -> Scalar:
    plain = plain_value(args[0].dtype)
    what = "a tensor that is read as a truth value" if plain is False else "a tensor that is read as a number"
    return mode.number(what, plain)


def _equality(mode: StandInMode, func: Any, _args: Any, _kwargs: Any) -> Scalar:
    return mode.number(f"torch.{func._schema.name.partition('::')[2]}", False)


def _nonzero(mode: StandInMode, _func: Any, args: Any, _kwargs: Any) -> torch.Tensor:
    count = _part(args[0].numel())
    mode.note(Taken("the number of nonzero elements", f"{count} of {args[0].numel()}"))
    return torch.empty(count, args[0].dim(), dtype=torch.int64, device="meta")


def _selected(mode: StandInMode, mask: torch.Tensor) -> int:
    """The number of elements that a mask selects; assumed if the values of the mask are unknown."""
    known = mode.known.value_of(mask) if mask.is_meta else mask
    if known is not None:
        return int(known.count_nonzero())
    whole = mask.numel()
    mode.note(Taken("the number of elements that a mask selects", f"{_part(whole)} of {whole}"))
    return _part(whole)


def _masked_select(mode: StandInMode, _func: Any, args: Any, _kwargs: Any) -> torch.Tensor:
    tensor, mask = args[0], args[1]
    whole = torch.broadcast_shapes(tensor.shape, mask.shape)
    count = _selected(mode, mask) * whole.numel() // max(mask.numel(), 1)
    return tensor.new_empty(count, device="meta")


def _index(mode: StandInMode, func: Any, args: Any, kwargs: Any) -> Any:
    """Replace a mask among the indices by as many indices as it has dimensions."""
    indices: list[Any] = []
    for index in args[1]:
        if isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8):
            count = _selected(mode, index)
            indices += [torch.empty(count, dtype=torch.int64, device="meta") for _ in range(index.dim())]
        else:
            indices.append(index)
    return func(args[0], indices, *args[2:], **kwargs)


def _unique(mode: StandInMode, func: Any, args: Any, kwargs: Any) -> Any:
    """Assume that half of the values are distinct; along a dimension, half of its slices."""
    x = args[0]
    sizes: tuple[int, ...]
    dimension = _argument(func, args, kwargs, "dim")
    if dimension is None:
        whole, inverse, sizes = x.numel(), x.shape, (_part(x.numel()),)
    else:
        whole = x.shape[dimension]
        inverse, sizes = (whole,), tuple(x.shape)
        sizes = (*sizes[: dimension % x.dim()], _part(whole), *sizes[dimension % x.dim() + 1 :])
    mode.note(Taken("the number of distinct values", f"{_part(whole)} of {whole}"))
    found = [x.new_empty(sizes)]
    long = functools.partial(torch.empty, dtype=torch.int64, device="meta")
    found += [long(inverse if _argument(func, args, kwargs, "return_inverse") is not False else 0)]
    if len(func._schema.returns) > 2:
        found += [long(_part(whole) if _argument(func, args, kwargs, "return_counts") else 0)]
    return tuple(found)


def _argument(func: Any, args: Sequence[Any], kwargs: Any, name: str) -> Any:
    for place, each in enumerate(func._schema.arguments):
        if each.name == name:
            default = each.default_value if each.has_default_value() else None
            return args[place] if place < len(args) else kwargs.get(name, default)
    return None


def _repeated(mode: StandInMode, func: Any, args: Any, kwargs: Any) -> Any:
    if kwargs.get("output_size") is not None:
        return func(*args, **kwargs)
    count = args[0].numel()
    mode.note(Taken("the numbers of repeats", "1"))
    return torch.empty(count, dtype=torch.int64, device="meta")


def _to_cpu(mode: StandInMode, func: Any, args: Any, kwargs: Any) -> Any:
    if _stays(kwargs):
        return func(*args, **kwargs)
    tensor, dtype = args[0], kwargs.get("dtype") or args[0].dtype
    value = plain_value(dtype)
    mode.note(Taken("what is copied to the CPU", f"a tensor of {value}"))
    filled = torch.full(tensor.shape if tensor.numel() <= SMALL else (), value, dtype=dtype)
    return filled.expand(tensor.shape)


def _stays(kwargs: Any) -> bool:
    """Return whether a copy with these arguments is on `meta`."""
    device = kwargs.get("device")
    return device is None or torch.device(device).type == "meta"


def _copied(mode: StandInMode, _func: Any, args: Any, _kwargs: Any) -> Any:
    mode.note(Taken("what is copied to the CPU", f"a tensor of {plain_value(args[0].dtype)}"))
    return args[0].fill_(plain_value(args[0].dtype))


_ATEN = torch.ops.aten
_ANSWERS: dict[Any, Callable[[StandInMode, Any, Any, Any], Any]] = {
    _ATEN._local_scalar_dense.default: _number,
    _ATEN.equal.default: _equality,
    _ATEN.allclose.default: _equality,
    _ATEN.nonzero.default: _nonzero,
    _ATEN.masked_select.default: _masked_select,
    _ATEN.index.Tensor: _index,
    _ATEN._unique.default: _unique,
    _ATEN._unique2.default: _unique,
    _ATEN.unique_dim.default: _unique,
    _ATEN.unique_consecutive.default: _unique,
    _ATEN.unique_dim_consecutive.default: _unique,
    _ATEN.repeat_interleave.Tensor: _repeated,
    _ATEN._to_copy.default: _to_cpu,
    _ATEN.copy_.default: _copied,
}


@contextlib.contextmanager
def tensors_of_meta() -> Iterator[None]:
    """Make tensors on `meta` readable, printable and addressable in the context, and make Dynamo trace `torch.tensor`
    there.

    `torch.tensor(..., device="meta")` takes a shortcut past the dispatcher (torch 2.13), so that the fake tensors of
    Dynamo refuse its result.
    """
    tensor = torch.Tensor
    numpy, formatted, address = tensor.numpy, tensor.__format__, tensor.data_ptr
    run_node = torch._dynamo.utils.run_node
    allocated: list[torch.Tensor] = []

    @functools.wraps(numpy)
    def numpy_of(self: torch.Tensor, *, force: bool = False) -> Any:
        return numpy(self, force=force or (self.is_meta and not isinstance(self, FakeTensor)))

    @functools.wraps(formatted)
    def format_of(self: torch.Tensor, format_spec: str) -> str:
        if self.is_meta and self.dim() == 0 and format_spec and not isinstance(self, FakeTensor):
            return str(self.detach().item().__format__(format_spec))
        return str(formatted(self, format_spec))

    @functools.wraps(address)
    def address_of(self: torch.Tensor) -> int:
        if not self.is_meta or isinstance(self, FakeTensor):
            return int(address(self))
        if self.numel() > SMALL:
            raise RuntimeError("a tensor on the device meta has no address")
        allocated.append(made_up(self))
        return int(address(allocated[-1]))

    def run_and_convert(*args: Any, **kwargs: Any) -> Any:
        result = run_node(*args, **kwargs)
        if type(result) is torch.Tensor and result.is_meta:
            mode = torch._guards.detect_fake_mode()
            if isinstance(mode, FakeTensorMode):
                return mode.from_tensor(result)
        return result

    patches = (
        (tensor, "numpy", numpy_of),
        (tensor, "__format__", format_of),
        (tensor, "data_ptr", address_of),
        (torch._dynamo.utils, "run_node", run_and_convert),
    )
    with contextlib.ExitStack() as stack:
        for owner, name, changed in patches:
            if name in vars(owner):
                stack.callback(setattr, owner, name, vars(owner)[name])
            else:  # of the class above
                stack.callback(delattr, owner, name)
            # else Dynamo compiles these, as it does any code behind a break
            setattr(owner, name, torch.compiler.disable(changed) if owner is tensor else changed)
        yield
