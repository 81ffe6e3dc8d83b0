"""Detect what the user's code replaces in torch: the report then says that torch was patched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as functional
from torch import nn

SPACES: Mapping[str, Any] = {
    "torch": torch,
    "torch.nn.functional": functional,
    "torch.Tensor": torch.Tensor,
    "torch.nn.Module": nn.Module,
}

Snapshot = dict[tuple[str, str], Any]


def snapshot() -> Snapshot:
    """Return every callable of the namespaces that users patch."""
    return {
        (space, name): value
        for space, owner in SPACES.items()
        for name, value in vars(owner).items()
        if callable(value) and not isinstance(value, type)
    }


def find_replaced(before: Snapshot) -> tuple[str, ...]:
    """Return dotted names with another value than in the snapshot, in its order.

    A wrapper around `torch.compile` does not count: Lightning installs one when it is imported, to record the
    arguments, and the run compiles with the original.
    """
    found = []
    for (space, name), value in before.items():
        now = vars(SPACES[space]).get(name)
        wraps = name == "compile" and getattr(now, "__wrapped__", None) is value
        if now is not value and not wraps:
            found.append(f"{space}.{name}")
    return tuple(found)
