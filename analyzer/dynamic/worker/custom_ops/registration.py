"""Write the code that would register a foreign operator or function, from one observed call.

Information that one call does not provide is marked with a TODO.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from tcready.dynamic.worker.custom_ops.observed_calls import Meta, Observed, Seen
from tcready.dynamic.worker.torch_internals import operator_registry, pytree
from tcready.schema.run import ObservedArgument, ObservedCall, ObservedNumber, ObservedResult

FAKE, AUTOGRAD, REGISTRATION = "fake kernel", "autograd formula", "registration"
"""Registrations that may be missing."""


@dataclass(frozen=True)
class Parameter:
    name: str
    value: Any
    key: int | str
    """The key of the argument in the call: its position, or its keyword."""

    @property
    def metas(self) -> tuple[Meta, ...]:
        return tuple(_meta(leaf) for leaf in pytree.tree_leaves(self.value) if isinstance(leaf, (torch.Tensor, Meta)))


def _meta(value: torch.Tensor | Meta) -> Meta:
    return value if isinstance(value, Meta) else Meta.of(value)


def skeleton(seen: Seen, lacks: Sequence[str]) -> str:
    """Return code that registers what is missing. Information that the observed call does not provide is marked with a
    TODO."""
    if not lacks:
        return ""
    call = seen.call
    if seen.operator is not None:
        parameters = _of_operator(seen.operator, call)
        qualified = f'"{seen.name}"'
        parts = []
        if FAKE in lacks:
            signature = operator_registry.operator_signature(seen.operator)
            head = f"@torch.library.register_fake({qualified})\ndef _({signature}):"
            parts.append("\n".join([head, *_fake_body(parameters, call)]))
        if AUTOGRAD in lacks:
            parts.append(_autograd(f"torch.library.register_autograd({qualified}, ", [p.name for p in parameters]))
        return "import torch\n\n\n" + "\n\n\n".join(parts) + "\n"
    if call is None:
        return f"# TODO: the call of {seen.spelled} was not observed: its parameters are not known\n"
    parameters = _parameters(seen, call)
    if not any(parameter.metas for parameter in parameters):
        return (
            f"# No tensor goes into {seen.spelled} here, so it makes no operator by itself: call it before the forward\n"
            "# (in __init__), or wrap what is around it, from tensors to tensors, into a torch.library.custom_op\n"
        )
    plain = re.sub(r"\W", "_", seen.name.rsplit(".", 1)[-1])
    space = re.sub(r"\W", "_", seen.name.split(".")[0]) if "." in seen.name else "my_library"
    mutated = [parameter.name for parameter in parameters if parameter.key in call.mutated]
    typed = ", ".join(f"{parameter.name}: {_annotation(parameter.value)}" for parameter in parameters)
    passed = ", ".join(
        parameter.name if isinstance(parameter.key, int) else f"{parameter.key}={parameter.name}"
        for parameter in parameters
    )
    tail = (
        ".clone()  # an operator must not return its argument" if call.aliased and isinstance(call.result, Meta) else ""
    )
    returned = "None" if mutated and call.aliased else _returned(call.result)
    value = f"{seen.spelled}({passed})"
    lines = [
        "import torch",
        "",
        "",
        f'@torch.library.custom_op("{space}::{plain}", mutates_args={_tuple(mutated)})',
        f"def {plain}({typed}) -> {returned}:",
        f"    {value}" if returned == "None" else f"    return {value}{tail}",
    ]
    if returned == "None" and call.result is not None:
        lines.insert(
            3, f"# It gives back what it wrote to, which no operator may: use {mutated[0]} where it is called."
        )
    if not call.whole:
        lines.insert(3, "# TODO: mutates_args: whether it writes to its arguments was not observed")
    head = f"@{plain}.register_fake\ndef _({', '.join(parameter.name for parameter in parameters)}):"
    body = ["    pass"] if returned == "None" else _fake_body(parameters, call)
    lines += ["", "", head, *body]
    if call.wants_grad and seen.around is None:
        lines += ["", "", _autograd(f"{plain}.register_autograd(", [parameter.name for parameter in parameters])]
    return "\n".join(lines) + "\n"


def observed_call(seen: Seen, lacks: Sequence[str]) -> ObservedCall | None:
    """Return the call from which a fake kernel of an operator can be written; None if it has one, or returned anything
    but tensors."""
    call = seen.call
    if seen.operator is None or call is None or FAKE not in lacks:
        return None
    found = _results(_of_operator(seen.operator, call), call)
    return found and replace(found, signature=operator_registry.operator_signature(seen.operator))


def _of_operator(operator: Any, call: Observed | None) -> list[Parameter]:
    names = operator_registry.operator_arguments(operator)
    given = operator_registry.operator_defaults(operator)
    if call is not None:
        given |= dict(zip(names, call.args, strict=False)) | call.kwargs
    return [Parameter(name, given.get(name), name) for name in names]


def _tuple(names: Sequence[str]) -> str:
    inner = ", ".join(f'"{name}"' for name in names)
    return f"({inner},)" if len(names) == 1 else f"({inner})"


def _parameters(seen: Seen, call: Observed) -> list[Parameter]:
    """Return parameters, named like the arguments in the source if these are names and distinct."""
    taken: set[str] = set()
    found: list[Parameter] = []
    given: list[tuple[int | str, Any]] = [*enumerate(call.args), *call.kwargs.items()]
    for key, value in given:
        wanted = key if isinstance(key, str) else seen.labels[key] if key < len(seen.labels) else ""
        if not wanted.isidentifier() or keyword.iskeyword(wanted) or wanted in taken or wanted in ("self", "torch"):
            wanted = f"argument_{len(found)}"
        taken.add(wanted)
        found.append(Parameter(wanted, value, key))
    return found


def _annotation(value: Any) -> str:
    """Return the type of a parameter, as torch.library.infer_schema accepts it."""
    if value is None:
        return "torch.Tensor | None"
    if isinstance(value, (torch.Tensor, Meta)):
        return "torch.Tensor"
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind.__name__
    for name in ("dtype", "device"):
        if isinstance(value, getattr(torch, name)):
            return f"torch.{name}"
    if isinstance(value, (list, tuple)) and value:
        inner = {_annotation(item) for item in value}
        if len(inner) == 1 and inner <= {"torch.Tensor", "int", "float", "bool"}:
            return f"list[{inner.pop()}]"
    return f'"TODO: {type(value).__name__} is no type that an operator takes"'


def _returned(result: Any) -> str:
    if result is None:
        return "None"
    if isinstance(result, (tuple, list)) and result and all(isinstance(item, Meta) for item in result):
        return f"tuple[{', '.join(['torch.Tensor'] * len(result))}]"
    return _annotation(result)


def _fake_body(parameters: Sequence[Parameter], call: Observed | None) -> list[str]:
    """Return the lines of a fake kernel, from the observed call."""
    if call is None:
        return ["    raise NotImplementedError  # TODO: no call was observed"]
    found = _results(parameters, call)
    if found is None:
        results = call.result if isinstance(call.result, (tuple, list)) else [call.result]
        kinds = ", ".join(type(item).__name__ for item in results)
        return [f"    raise NotImplementedError  # TODO: it gave {kinds}, which no fake kernel can know"]
    if not found.results:
        return ["    return None"]
    device = next((str(meta.device) for meta in pytree.tree_leaves(call.result)), "")
    made = [_empty(result, found.arguments, device) for result in found.results]
    notes = [f"    # {note}" for _, note in made]
    values = [value for value, _ in made]
    whole = f"({', '.join(values)},)" if found.several else values[0]
    return [*dict.fromkeys(notes), f"    return {whole}"]


def _results(parameters: Sequence[Parameter], call: Observed) -> ObservedCall | None:
    several = isinstance(call.result, (tuple, list))
    results = list(call.result) if several else [] if call.result is None else [call.result]
    if not all(isinstance(item, Meta) for item in results):
        return None
    given = [(p.name, p.metas[0]) for p in parameters if isinstance(p.value, (torch.Tensor, Meta))]
    arguments = tuple(ObservedArgument(name, meta.shape) for name, meta in given)
    numbers = tuple(
        ObservedNumber(p.name, p.value)
        for p in parameters
        if isinstance(p.value, int) and not isinstance(p.value, bool)
    )
    return ObservedCall("", arguments, tuple(_result(item, given) for item in results), several, numbers)


def _result(result: Meta, given: Sequence[tuple[str, Meta]]) -> ObservedResult:
    alike = [pair for pair in given if (pair[1].shape, pair[1].device) == (result.shape, result.device)]
    like, meta = min(
        alike,
        key=lambda pair: (pair[1].dtype != result.dtype, pair[1].stride != result.stride),
        default=(None, given[0][1] if given else None),
    )
    dtype = None if meta and meta.dtype == result.dtype else str(result.dtype).removeprefix("torch.")
    strides = like is not None and meta is not None and meta.stride != result.stride
    return ObservedResult(result.shape, like, dtype, strides)


def _empty(result: ObservedResult, arguments: Sequence[ObservedArgument], device: str) -> tuple[str, str]:
    """Return an empty tensor like the result, and a comment where its size and type come from."""
    if result.like is not None:
        shape = f"the shape of {result.like}, and torch.{result.dtype}"
        return (result.empty(), f"as observed: {shape if result.dtype else f'shape and dtype of {result.like}'}")
    given = ", ".join(f"{each.name} {each.sizes}" for each in arguments) or "no tensor"
    note = f"TODO: observed {result.sizes} for {given}: write the shape in terms of the arguments"
    dtype = f", dtype=torch.{result.dtype}" if result.dtype else ""
    if not arguments:
        return f"torch.empty({result.sizes}{dtype}, device={device!r})", note
    return f"{arguments[0].name}.new_empty({result.sizes}{dtype})", note


def _autograd(register: str, names: Sequence[str]) -> str:
    """Return both functions that a gradient needs; only the author knows what they compute."""
    return "\n".join(
        [
            "def setup_context(ctx, inputs, output):",
            f"    {', '.join(names)}{',' if len(names) == 1 else ''} = inputs",
            "    # TODO: ctx.save_for_backward(...) what the gradient needs",
            "",
            "",
            "def backward(ctx, *gradients):",
            f"    raise NotImplementedError  # TODO: one gradient, or None, for each of: {', '.join(names)}",
            "",
            "",
            f"{register}backward, setup_context=setup_context)",
        ]
    )
