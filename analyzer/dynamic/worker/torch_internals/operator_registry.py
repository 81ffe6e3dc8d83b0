"""Query how an operator is registered."""

from __future__ import annotations

from typing import Any

import torch
from tcready.dynamic.worker.torch_internals import pytree, version_differences

AUTOGRAD_KEYS = ("Autograd", "AutogradCPU", "AutogradCUDA", "AutogradOther", "CompositeImplicitAutograd")


def operator_name(operator: Any) -> str:
    """Return a name such as `mylib::gate`, with the overload if there is more than the default one."""
    return str(operator.name())


def operator_schema(operator: Any) -> str:
    return str(operator._schema)


def operator_signature(operator: Any) -> str:
    """Return the parameters of a fake kernel for an operator: torch leaves out arguments that equal their default when
    it calls one."""
    parts: list[str] = []
    for argument in operator._schema.arguments:
        if argument.kwarg_only and "*" not in parts:
            parts.append("*")
        default = f"={argument.default_value!r}" if argument.has_default_value() else ""
        parts.append(f"{argument.name}{default}")
    return ", ".join(parts)


def operator_defaults(operator: Any) -> dict[str, Any]:
    """Return the defaults of the parameters that have one: torch leaves out arguments that equal them when it calls an
    operator."""
    return {a.name: a.default_value for a in operator._schema.arguments if a.has_default_value()}


def operator_arguments(operator: Any) -> tuple[str, ...]:
    return tuple(argument.name for argument in operator._schema.arguments)


def has_fake_kernel(operator: Any) -> bool:
    """Return whether Dynamo can derive the shape of an operator's result without running it."""
    from torch._library import utils

    if version_differences.has("fake_kernel_check"):
        return bool(utils.has_fake_kernel(operator))
    # Before that helper: the same questions, but for operators that need no kernel since they only mutate.
    name = operator._name
    keys = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "Meta")
    if any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys):
        return True
    entry = torch._library.simple_registry.singleton.find(name)
    return entry.fake_impl.kernel is not None


def fake_result(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
    """Return the result that the fake kernel of an operator predicts without data; None if this is no such operator, or
    if it has none."""
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


def declares_aliases(operator: Any) -> bool:
    """Return whether the schema declares that the operator returns, or writes to, memory of its arguments."""
    schema = operator._schema
    return any(each.alias_info is not None for each in (*schema.arguments, *schema.returns))


def has_autograd(operator: Any) -> bool:
    """Return whether a gradient flows through an operator: a formula is registered, not only the key."""
    from torch._library import custom_ops

    definition = custom_ops._maybe_get_opdef(operator._name)
    if definition is not None:  # torch.library.custom_op takes the key for every operator
        return getattr(definition, "_backward_fn", None) is not None
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(operator._name, key) for key in AUTOGRAD_KEYS)
