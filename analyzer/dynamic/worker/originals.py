"""What the user's code replaces in torch: the run is then one of a patched torch, and the report says so."""

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
    """Every callable of the namespaces that users patch."""
    return {
        (space, name): value
        for space, owner in SPACES.items()
        for name, value in vars(owner).items()
        if callable(value) and not isinstance(value, type)
    }


def replaced(before: Snapshot) -> tuple[str, ...]:
    """Dotted names whose value is another than in the snapshot, in its order."""
    return tuple(
        f"{space}.{name}"
        for (space, name), value in before.items()
        if vars(SPACES[space]).get(name) is not value
    )
