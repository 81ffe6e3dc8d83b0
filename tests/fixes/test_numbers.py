"""Numbers read from tensors, with the branch, the sort or the loop that asks for them."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from rewriting import assert_same, change, forward, proposed
from tcready.static.diagnostics.rule import Declined

MASK = "mask = x.sum(1) > 0\n"
WRITTEN = {
    "a norm clip": (
        dedent("""\
        n = x.norm().item()
        if n > 1:
            x = x / n
        return x + 1"""),
        "x = x / torch.where(n > 1, n, 1)",
    ),
    "a norm clip that multiplies": (
        dedent("""\
            total = torch.linalg.vector_norm(x).item()
            if total > 2.0:
                x = x * (2.0 / total)
            return x"""),
        "x = x * torch.where(condition, 2.0 / torch.where(condition, total, 1), 1)",
    ),
    "a peak of two tensors": (
        dedent("""\
            y = x + 1
            peak = float(x.abs().max())
            if peak > 0.5:
                x = x * 0.5
                y = y - peak
            return x + y"""),
        "torch.where(condition, y - peak, y)",
    ),
    "sorted": (
        "scores = x.sum(1)\norder = sorted(range(len(scores)), key=lambda i: scores[i].item())\nreturn x[order]",
        "order = scores.argsort(stable=True)",
    ),
    "sorted from the largest": (
        "scores = x.sum(1)\norder = sorted(range(x.size(0)), key=lambda i: float(scores[i]), reverse=True)\n"
        "return x[torch.tensor(order)]",
        "return x[order]",
    ),
    "sorted by the negative": (
        "scores = x.sum(1)\norder = sorted(range(4), key=lambda i: -scores[i].item())\n"
        "return torch.stack([x[i] for i in order])",
        "scores[:4].argsort(descending=True, stable=True)",
    ),
    "a loop over a mask": (
        f"{MASK}out = x.clone()\nfor i in mask.nonzero():\n    out[i] = torch.sqrt(x[i].abs()) + 1\nreturn out",
        "out.copy_(torch.where(chosen,",
    ),
    "a loop over places": (
        dedent("""\
            mask = x > 0
            out = x.clone()
            for b, t in torch.nonzero(mask).tolist():
                out[b, t] = x[b, t] * 2
            return out"""),
        "out.copy_(torch.where(chosen, torch.where(chosen, x, 1) * 2, out))",
    ),
}
DECLINED = {
    "order = sorted(range(4), key=lambda i: x[i].sum().item())\nreturn x[order]": "is more than an item of one tensor",
    "s = x.sum(1)\norder = sorted([0, 1], key=lambda i: s[i].item())\nreturn x[order]": "`sorted` sorts other items than indices",
    f"{MASK}for i in mask.nonzero():\n    x[i] = x[i].sum()\nreturn x": "reduces a row to one number",
    f"{MASK}for i in mask.nonzero():\n    x[i] = self.f(x[i])\nreturn x": "calls what may be a module",
    f"{MASK}for i in mask.nonzero():\n    x = x + i\nreturn x": "The loop does more than write one value at each position",
    dedent("""\
        for _ in range(3):
            if x.norm() < 1:
                break
            x = x / 2
        return x"""): "a graph cannot leave a loop",
    dedent("""\
        for _ in range(3):
            if x.norm() < 1:
                return x
            x = x / 2
        return x"""): "a graph cannot leave a loop",
    "for i in range(x.argmax().item()):\n    x = x + i\nreturn x": "The number is the length of a loop",
}


@pytest.mark.torch
@pytest.mark.parametrize(("body", "written"), WRITTEN.values(), ids=WRITTEN)
def test_it_is_written_with_tensors(body: str, written: str, tmp_path: Path) -> None:
    import torch

    before = forward(body)
    after = change(tmp_path, before)
    assert written in after
    for scale in (0.01, 1.0, 100.0):

        def inputs() -> tuple[Any, ...]:
            made = torch.randn(4, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * scale  # noqa: B023
            return (made.requires_grad_(),)

        assert_same(before, after, inputs)


@pytest.mark.parametrize("body", DECLINED)
def test_it_is_declined_with_a_reason(body: str, tmp_path: Path) -> None:
    reasons = [each.reason for each in proposed(tmp_path, forward(body)) if isinstance(each, Declined)]
    assert any(DECLINED[body] in reason for reason in reasons), reasons
