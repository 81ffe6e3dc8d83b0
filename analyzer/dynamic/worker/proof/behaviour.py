"""What one call did, as far as a caller can see it, and whether two did the same."""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from tcready.dynamic.worker.loss import NotTrainedError, loss_of
from tcready.dynamic.worker.parity import compare, flatten
from tcready.dynamic.worker.torch_internals import pytree
from tcready.schema import Differs, Mode
from torch import nn

SEED_CALL = 1
LONG = 400
"""Characters of a printed value that are kept."""


@dataclass(frozen=True)
class Behaviour:
    """One call. It can be pickled: what is no tensor and no plain value is kept as the name of its type."""

    error: str | None = None
    """The type of what it raised."""
    message: str = ""
    outputs: list[Any] = field(default_factory=list)
    structure: list[str] = field(default_factory=list)
    differentiable: list[bool] = field(default_factory=list)
    """Which outputs require grad."""
    gradients: dict[str, Any] = field(default_factory=dict)
    inputs: list[Any] = field(default_factory=list)
    """The tensors that were passed, as the call left them."""
    state: dict[str, Any] = field(default_factory=dict)
    """Buffers and plain attributes, by name."""
    printed: str = ""
    random: str = ""


def behaviour(model: Any, function: Callable[..., Any], args: Any, kwargs: Any, mode: Mode) -> Behaviour:
    """One call of `function`, which is `model`, its compiled form or one of its functions; the arguments are its own."""
    torch.manual_seed(SEED_CALL)
    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    printed = io.StringIO()
    error: BaseException | None = None
    output: Any = None
    gradients: dict[str, Any] = {}
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        try:
            with torch.set_grad_enabled(mode == "train"):
                output = function(*args, **kwargs)
            if mode == "train":
                gradients = _gradients(model, tensors, output)
        except Exception as raised:
            error = raised
    leaves, structure = flatten(output)
    return Behaviour(
        type(error).__name__ if error is not None else None,
        " ".join(str(error).split())[:LONG] if error is not None else "",
        [_plain(leaf) for leaf in leaves],
        structure,
        [isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves],
        gradients,
        [_copied(tensor) for tensor in tensors],
        state_of(model),
        printed.getvalue(),
        hashlib.sha256(torch.get_rng_state().numpy().tobytes()).hexdigest(),
    )


def _gradients(model: Any, tensors: list[torch.Tensor], output: Any) -> dict[str, Any]:
    """The gradients of parameters and of the inputs that require them; none where nothing is to be trained."""
    wanted = (
        {f"parameter {n}": p for n, p in model.named_parameters()} if isinstance(model, nn.Module) else {}
    )
    wanted |= {f"input {number}": tensor for number, tensor in enumerate(tensors) if tensor.is_leaf}
    wanted = {name: tensor for name, tensor in wanted.items() if tensor.requires_grad}
    for tensor in wanted.values():
        tensor.grad = None
    try:
        loss_of(output)(output).backward()
    except NotTrainedError:
        return {}
    found = {name: None if t.grad is None else t.grad.detach().clone() for name, t in wanted.items()}
    for tensor in wanted.values():
        tensor.grad = None
    return found


def state_of(model: Any) -> dict[str, Any]:
    """Buffers, and attributes that hold a plain value or several, of a module and those in it."""
    if not isinstance(model, nn.Module):
        return {}
    found: dict[str, Any] = {}
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if not key.startswith("_") and _is_plain(value):
                found[f"{name}.{key}".lstrip(".")] = (
                    value if isinstance(value, (bool, int, float)) else repr(value)[:LONG]
                )
    return found | {name: _copied(buffer) for name, buffer in model.named_buffers()}


def _is_plain(value: Any, depth: int = 0) -> bool:
    if isinstance(value, (list, tuple, set, frozenset)):
        return depth < 3 and all(_is_plain(item, depth + 1) for item in value)
    if isinstance(value, dict):
        return depth < 3 and all(_is_plain(each, depth + 1) for item in value.items() for each in item)
    return value is None or isinstance(value, (bool, int, float, str))


def _plain(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return _copied(leaf)
    return leaf if leaf is None or isinstance(leaf, (bool, int, float, str)) else f"<{type(leaf).__name__}>"


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach()
    return plain.clone() if type(plain) in (torch.Tensor, nn.Parameter) else torch.as_tensor(0)


def difference(before: Behaviour, after: Behaviour) -> tuple[Differs, str] | None:
    """What differs first, and how, in one line; None if a caller sees no difference."""
    if before.error != after.error:
        return "exception", f"{_ending(before)} became {_ending(after)}"
    if before.structure != after.structure:
        return "value", "the output has another structure"
    if found := _of(before.outputs, after.outputs):
        return "value", found
    if before.differentiable != after.differentiable:
        return "gradient", "an output requires grad in one of them alone"
    if found := _named(before.gradients, after.gradients, "gradient of "):
        return "gradient", found
    if found := _of(before.inputs, after.inputs):
        return "state", f"what was passed is left otherwise: {found}"
    if found := _named(before.state, after.state, "after the call "):
        return "state", found
    if before.printed != after.printed:
        return "state", "another text is printed"
    if before.random != after.random:
        return "state", "other random numbers are drawn"
    return None


def compiled_difference(eager: Behaviour, compiled: Behaviour) -> str | None:
    """The same for compiled code, which may raise another exception, print otherwise and draw otherwise."""
    if (eager.error is None) != (compiled.error is None):
        return f"{_ending(eager)} became {_ending(compiled)}"
    if eager.error is not None:
        return None
    if eager.structure != compiled.structure:
        return "the output has another structure"
    return (
        _of(eager.outputs, compiled.outputs)
        or _named(eager.gradients, compiled.gradients, "gradient of ")
        or _of(eager.inputs, compiled.inputs)
        or _named(eager.state, compiled.state, "after the call ")
    )


def _ending(seen: Behaviour) -> str:
    return "no exception" if seen.error is None else f"{seen.error}: {seen.message}"[: LONG // 2]


def _of(before: list[Any], after: list[Any]) -> str | None:
    return compare(before, after).difference


def _named(before: Mapping[str, Any], after: Mapping[str, Any], what: str) -> str | None:
    for name in dict.fromkeys([*before, *after]):
        if name not in before or name not in after:
            return f"{what}{name} is there in one of them alone"
        one, other = _as_tensor(before[name], after[name])
        if found := compare(one, other).difference:
            return f"{what}{name}: {found.removeprefix('output 0: ')}"
    return None


def _as_tensor(one: Any, other: Any) -> tuple[Any, Any]:
    """A number beside a tensor of no dimension is one: a counter may be kept in a buffer."""
    if isinstance(one, (int, float)) and isinstance(other, torch.Tensor) and other.dim() == 0:
        return torch.as_tensor(one, dtype=other.dtype, device=other.device), other
    return one, other
