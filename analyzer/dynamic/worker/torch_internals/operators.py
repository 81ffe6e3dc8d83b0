"""Read how an operator is registered."""

from __future__ import annotations

from typing import Any

import torch
from tcready.dynamic.worker.torch_internals import differences, pytree

AUTOGRAD_KEYS = ("Autograd", "AutogradCPU", "AutogradCUDA", "AutogradOther", "CompositeImplicitAutograd")


def operator_name(operator: Any) -> str:
    """`mylib::gate`, with the overload where there is more than the default one."""
    return str(operator.name())


def operator_schema(operator: Any) -> str:
    return str(operator._schema)


def operator_signature(operator: Any) -> str:
    """The parameters of a fake kernel for an operator: torch leaves out what equals its default when it calls one."""
    parts: list[str] = []
    for argument in operator._schema.arguments:
        if argument.kwarg_only and "*" not in parts:
            parts.append("*")
        default = f"={argument.default_value!r}" if argument.has_default_value() else ""
        parts.append(f"{argument.name}{default}")
    return ", ".join(parts)


def operator_defaults(operator: Any) -> dict[str, Any]:
    """What the parameters that have a default have: torch leaves out what equals it when it calls an operator."""
    return {a.name: a.default_value for a in operator._schema.arguments if a.has_default_value()}


def operator_arguments(operator: Any) -> tuple[str, ...]:
    return tuple(argument.name for argument in operator._schema.arguments)


def has_fake_kernel(operator: Any) -> bool:
    """Whether Dynamo can learn the shape of an operator's result without running it."""
    from torch._library import utils

    if differences.has("fake_kernel_check"):
        return bool(utils.has_fake_kernel(operator))
    # Before that helper: the same questions, but for operators that need no kernel since they only mutate.
    name = operator._name
    keys = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "Meta")
    if any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys):
        return True
    entry = torch._library.simple_registry.singleton.find(name)
    return entry.fake_impl.kernel is not None


def fake_result(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
    """What an operator is told to give, worked out without data; None if it is no such operator, or nothing tells."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    if not isinstance(operator, torch._ops.OpOverload) or not has_fake_kernel(operator):
        return None
    mode = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True)
    try:
        given, named = pytree.tree_map_only(torch.Tensor, mode.from_tensor, (args, kwargs))
        with mode:
            return (operator(*given, **named),)
    except Exception:  # then Dynamo does not trace it either
        return None


def tells_of_aliases(operator: Any) -> bool:
    """Whether its schema says that it gives, or writes to, memory of what it is given."""
    schema = operator._schema
    return any(each.alias_info is not None for each in (*schema.arguments, *schema.returns))


def has_autograd(operator: Any) -> bool:
    """Whether a gradient flows through an operator: a formula is registered, not only the key."""
    from torch._library import custom_ops

    definition = custom_ops._maybe_get_opdef(operator._name)
    if definition is not None:  # torch.library.custom_op takes the key for every operator
        return getattr(definition, "_backward_fn", None) is not None
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(operator._name, key) for key in AUTOGRAD_KEYS)
