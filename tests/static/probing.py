"""What the engine knows of the values at marked places of a small program: `see(value, "label")`."""

from __future__ import annotations

import textwrap
from pathlib import Path

from reading import PINNED, read
from tcready.portable.options import ReadOptions
from tcready.schema.enums import Mode
from tcready.static.diagnostics.rule import Rule
from tcready.static.domain.facts import Call, Fact
from tcready.static.domain.values import (
    Choice,
    Class,
    Const,
    External,
    ExternalInstance,
    Function,
    Instance,
    Mapping,
    Method,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    members_of,
)

HEAD = """\
import functools
import torch
import torch.nn.functional as F
from torch import nn, Tensor
from probe import see
"""


def shown(value: Value) -> str:
    """A value in a few words: `tensor[int]`, `tensor?` where only convention says so, `int@shape`, `3`."""
    if isinstance(value, Choice):
        return " | ".join(sorted(shown(option) for option in value.options))
    if isinstance(value, Tensor):
        return "tensor" + (f"[{value.dtype}]" if value.dtype else "") + ("" if value.sure else "?")
    if isinstance(value, Const):
        return repr(value.value)
    if isinstance(value, Plain):
        return f"{value.kind or 'plain'}@{value.origin}"
    if isinstance(value, Sequence):
        inner = ", ".join(map(shown, members_of(value)))
        return f"{value.kind}({inner})" if value.items is not None else f"{value.kind}[{inner}]"
    if isinstance(value, Mapping):
        items = [f"{key!r}: {shown(item)}" for key, item in value.entries]
        return "{" + ", ".join([*items, *([f"*: {shown(value.element)}"] if value.element else [])]) + "}"
    if isinstance(value, Unknown):
        return "tainted" if value.tainted else "unknown"
    if isinstance(value, Instance):
        return value.cls.name
    if isinstance(value, Class):
        return f"class {value.info.name}"
    if isinstance(value, Function):
        return f"def {value.info.name}"
    if isinstance(value, (External, ExternalInstance)):
        return value.name.rpartition(".")[2]
    if isinstance(value, Method):
        return f"{shown(value.receiver)}.{value.name}"
    return type(value).__name__


def listener(seen: dict[str, set[str]]) -> Rule:
    """A rule that claims nothing and writes down what reaches `see`."""

    def check(fact: Fact) -> None:
        if isinstance(fact, Call) and fact.name == "probe.see":
            label = fact.args[1]
            assert isinstance(label, Const)
            seen.setdefault(str(label.value), set()).add(shown(fact.args[0]))

    return Rule("TST001", (Call,), check, "probe", "slow", "note")


def known(folder: Path, source: str, *, mode: Mode | None = "infer", name: str = "") -> dict[str, str]:
    """By label, what reaches it: the situations sorted, parted by ` / `; a place not reached is absent."""
    path = folder / "model.py"
    path.write_text(HEAD + textwrap.dedent(source), encoding="utf-8")
    seen: dict[str, set[str]] = {}
    target = f"{path}::{name}" if name else str(path)
    result = read([target], ReadOptions(root=folder, mode=mode, search_path=(folder,), torch=PINNED), [listener(seen)])
    assert not result.skipped
    assert not result.warnings
    return {label: " / ".join(sorted(values)) for label, values in seen.items()}


def forward(body: str, init: str = "", sig: str = "self, x", before: str = "") -> str:
    """A model class with that `forward` (and `__init__`) below the statements `before`."""
    text = textwrap.dedent(before) + "\nclass Model(nn.Module):\n"
    text += "    def __init__(self, config=None, n: int = 3):\n        super().__init__()\n"
    text += textwrap.indent(textwrap.dedent(init), " " * 8)
    text += f"\n    def forward({sig}):\n" + textwrap.indent(textwrap.dedent(body), " " * 8) + "\n"
    return text
