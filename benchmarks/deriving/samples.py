"""torch's own sample inputs for operators and modules, which its testing package carries."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import types
import unittest
from collections.abc import Callable
from typing import Any

import torch


def _testing() -> None:
    """torch.testing imports expecttest, which compares printed text and has no part in samples."""
    if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:
        stub = types.ModuleType("expecttest")
        stub.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        stub.assert_expected_inline = None  # type: ignore[attr-defined]
        sys.modules.setdefault("expecttest", stub)


def operators() -> list[Any]:
    """Every OpInfo: operator, its method, sample inputs by dtype."""
    _testing()
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def modules() -> list[Any]:
    """Every ModuleInfo: class, arguments of its constructor and of its forward."""
    _testing()
    from torch.testing._internal.common_modules import module_db

    return list(module_db)


def unsampled() -> dict[str, tuple[Callable[[], torch.nn.Module], int]]:
    """Modules that torch's tests hold no samples of: how one is made, and how many tensors of (1, 3, 4) it takes."""
    nn = torch.nn

    def encoder() -> torch.nn.Module:
        return nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 1, 8, batch_first=True), 1)

    def decoder() -> torch.nn.Module:
        return nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 1, 8, batch_first=True), 1)

    return {
        "torch.nn.TransformerEncoder": (encoder, 1),
        "torch.nn.TransformerDecoder": (decoder, 2),
        "torch.nn.Transformer": (lambda: nn.Transformer(4, 1, 1, 1, 8, batch_first=True), 2),
        "torch.nn.TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(4, 1, 8, batch_first=True), 1),
        "torch.nn.TransformerDecoderLayer": (lambda: nn.TransformerDecoderLayer(4, 1, 8, batch_first=True), 2),
        "torch.nn.MultiheadAttention": (lambda: nn.MultiheadAttention(4, 1, batch_first=True), 3),
    }


def of_operator(info: Any, dtype: torch.dtype, most: int = 10) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Small (args, keywords) of an operator; none where it does not take the dtype."""
    found = []
    with contextlib.suppress(Exception):
        if info.supports_dtype(dtype, "cpu"):
            for sample in info.sample_inputs("cpu", dtype, requires_grad=False):
                tensors = [t for t in (sample.input, *sample.args) if isinstance(t, torch.Tensor)]
                if all(t.numel() < 5000 for t in tensors):
                    found.append(((sample.input, *sample.args), dict(sample.kwargs)))
                if len(found) >= most:
                    break
    return found
