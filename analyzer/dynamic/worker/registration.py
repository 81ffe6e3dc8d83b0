"""The code that would register an operator or a function of others, written from one call that was observed.

What one call cannot tell is a TODO that says so.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tcready.dynamic.worker.observed_calls import Meta, Observed, Seen
from tcready.dynamic.worker.torch_internals import operators, pytree

FAKE, AUTOGRAD, REGISTRATION = "fake kernel", "autograd formula", "registration"
"""What may be lacking."""


@dataclass(frozen=True)
class Parameter:
    name: str
    value: Any
    key: int | str
    """How the call named it: its position, or its keyword."""

    @property
    def metas(self) -> tuple[Meta, ...]:
        return tuple(
            _meta(leaf) for leaf in pytree.tree_leaves(self.value) if isinstance(leaf, (torch.Tensor, Meta))
        )


def _meta(value: torch.Tensor | Meta) -> Meta:
    return value if isinstance(value, Meta) else Meta.of(value)


def skeleton(seen: Seen, lacks: Sequence[str]) -> str:
    """Code that registers what is lacking; what the one observed call cannot tell is a TODO that says so."""
    if not lacks:
        return ""
    call = seen.call
    if seen.operator is not None:
        arguments = operators.operator_arguments(seen.operator)
        given = {} if call is None else dict(zip(arguments, call.args, strict=False)) | call.kwargs
        parameters = [Parameter(name, given.get(name), name) for name in arguments]
        qualified = f'"{seen.name}"'
        parts = []
        if FAKE in lacks:
            head = f"@torch.library.register_fake({qualified})\ndef _({operators.operator_signature(seen.operator)}):"
            parts.append("\n".join([head, *_fake_body(parameters, call)]))
        if AUTOGRAD in lacks:
            parts.append(_autograd(f"torch.library.register_autograd({qualified}, ", arguments))
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
        ".clone()  # an operator must not return its argument"
        if call.aliased and isinstance(call.result, Meta)
        else ""
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
            3,
            f"# It gives back what it wrote to, which no operator may: use {mutated[0]} where it is called.",
        )
    if not call.whole:
        lines.insert(3, "# TODO: mutates_args: whether it writes to its arguments was not observed")
    head = f"@{plain}.register_fake\ndef _({', '.join(parameter.name for parameter in parameters)}):"
    body = ["    pass"] if returned == "None" else _fake_body(parameters, call)
    lines += ["", "", head, *body]
    if call.wants_grad and seen.around is None:
        lines += [
            "",
            "",
            _autograd(f"{plain}.register_autograd(", [parameter.name for parameter in parameters]),
        ]
    return "\n".join(lines) + "\n"


def _tuple(names: Sequence[str]) -> str:
    inner = ", ".join(f'"{name}"' for name in names)
    return f"({inner},)" if len(names) == 1 else f"({inner})"


def _parameters(seen: Seen, call: Observed) -> list[Parameter]:
    """Named as the source names the arguments, where it does and the names are distinct."""
    taken: set[str] = set()
    found: list[Parameter] = []
    given: list[tuple[int | str, Any]] = [*enumerate(call.args), *call.kwargs.items()]
    for key, value in given:
        wanted = key if isinstance(key, str) else seen.labels[key] if key < len(seen.labels) else ""
        if (
            not wanted.isidentifier()
            or keyword.iskeyword(wanted)
            or wanted in taken
            or wanted in ("self", "torch")
        ):
            wanted = f"argument_{len(found)}"
        taken.add(wanted)
        found.append(Parameter(wanted, value, key))
    return found


def _annotation(value: Any) -> str:
    """The type of a parameter, of those that torch.library.infer_schema takes."""
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
    """The lines of a fake kernel, by the one call that was observed."""
    if call is None:
        return ["    raise NotImplementedError  # TODO: no call was observed"]
    if call.result is None:
        return ["    return None"]
    results = list(call.result) if isinstance(call.result, (tuple, list)) else [call.result]
    if not all(isinstance(item, Meta) for item in results):
        kinds = ", ".join(type(item).__name__ for item in results)
        return [f"    raise NotImplementedError  # TODO: it gave {kinds}, which no fake kernel can know"]
    made = [_empty(item, parameters) for item in results]
    notes = [f"    # {note}" for _, note in made]
    values = [value for value, _ in made]
    whole = values[0] if not isinstance(call.result, (tuple, list)) else f"({', '.join(values)},)"
    return [*dict.fromkeys(notes), f"    return {whole}"]


def _empty(result: Meta, parameters: Sequence[Parameter]) -> tuple[str, str]:
    """An empty tensor as the result was, and where its size and type come from."""
    single = [(p.name, p.metas[0]) for p in parameters if isinstance(p.value, (torch.Tensor, Meta))]
    alike = [
        (name, meta) for name, meta in single if (meta.shape, meta.device) == (result.shape, result.device)
    ]
    for name, meta in sorted(
        alike, key=lambda pair: (pair[1].dtype != result.dtype, pair[1].stride != result.stride)
    ):
        options = []
        note = f"as observed: shape and dtype of {name}"
        if meta.dtype != result.dtype:
            options.append(f"dtype={result.dtype}")
            note = f"as observed: the shape of {name}, and {result.dtype}"
        if meta.stride != result.stride:
            options.append("memory_format=torch.contiguous_format")
        return f"torch.empty_like({', '.join([name, *options])})", note
    given = ", ".join(f"{name} {meta.shape}" for name, meta in single) or "no tensor"
    note = f"TODO: observed {result.shape} for {given}: write the shape in terms of the arguments"
    if not single:
        return f"torch.empty({result.shape}, dtype={result.dtype}, device={str(result.device)!r})", note
    dtype = "" if single[0][1].dtype == result.dtype else f", dtype={result.dtype}"
    return f"{single[0][0]}.new_empty({result.shape}{dtype})", note


def _autograd(register: str, names: Sequence[str]) -> str:
    """Both functions that a gradient needs; what they compute only the author knows."""
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
