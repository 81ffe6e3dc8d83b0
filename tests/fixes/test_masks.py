"""Reads through a mask: written over the full length where that gives the same, declined where it does not."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from rewriting import assert_same, change, forward, proposed
from tcready.fixes.rewriting.suggestions import Proposal
from tcready.static.diagnostics.rule import Declined

OVER_ALL = {
    "a sum": "y = x * 2\nreturn y[y > 0].sum() + y",
    "a mean": "y = x * 2\nreturn y[y > 0].mean() + y",
    "a mean of rows": "y = x * 2\nkeep = y.sum(1) > 0\nreturn y[keep].mean() + y",
    "a mean of squares": "y = x * 2\nreturn y[y > 0].log().square().mean() + y",
    "by a function": "y = x * 2\nreturn torch.sum(y[y > 0]) + y",
    "a name": dedent("""\
        y = x * 2
        keep = y > 0
        part = y[keep]
        return part.mean() + part.sum() + y"""),
    "any": "keep = x > 0\nreturn (x > 1)[keep].any() + x",
    "all": "keep = x > 0\nreturn (x > 1)[keep].all() + x",
    "selected": "return x.masked_select(x > 0).mean() + x",
    "selected by a row": "return torch.masked_select(x, x[:1] > 0).mean() + x",
    "copied": dedent("""\
        y = x * 2
        z = torch.zeros_like(y)
        keep = y > 0
        z[keep] = y[keep]
        return z"""),
    "copied by rows": dedent("""\
        z = torch.zeros_like(x)
        keep = x.sum(1) > 0
        z[keep] = x[keep] * 3 + 1
        return z"""),
    "a root": dedent("""\
        y = x * 2
        keep = y > 0
        y[keep] = torch.sqrt(y[keep])
        return y"""),
    "a product": dedent("""\
        y = x * 2
        keep = y > 0
        y[keep] = y[keep] * y[keep]
        return y"""),
    "a fraction": dedent("""\
        y = x * 2
        keep = y != 0
        y[keep] = 1 / y[keep]
        return y"""),
    "added": "y = x * 2\ny[y > 0] += 1\nreturn y",
    "a multiple": "y = x * 2\ny[y > 0] *= 0.5\nreturn y",
    "written where": "y = x * 2\ny[torch.where(y > 0)] = 0.0\nreturn y",
    "written at places": dedent("""\
        y = x * 2
        at = (y > 0).nonzero(as_tuple=True)
        y[at] = 0.0
        return y"""),
    "cross entropy": ("keep = x[:, 0] > 0\nlabels = x.argmax(1)\nreturn F.cross_entropy(x[keep], labels[keep]) + x"),
    "squared error": "keep = x > 0\nreturn F.mse_loss(x[keep], (x * 3)[keep]) + x",
    "squared error of rows": "keep = x[:, 0] > 0\ny = x * 3\nreturn F.mse_loss(x[keep], y[keep]) + x",
    "absolute error": "y = x * 3\nk = x > 0\nreturn F.l1_loss(x[k], y[k], reduction='sum') + x",
    "counted": "at = x.argmax(1)\nreturn torch.bincount(at, minlength=8) + x",
}
REPEATED = {
    "a function": "return torch.repeat_interleave(x, n, dim=0)",
    "a method": "y = x * 2\nreturn y.repeat_interleave(n + 1, 0)",
    "words": "return torch.repeat_interleave(dim=1, repeats=n, input=x[:, :3])",
    "places": "return x[torch.repeat_interleave(n)]",
    "lines": dedent("""\
        return torch.repeat_interleave(
            x,  # rows
            n,
            dim=0,
        )"""),
}
"""How often each is repeated is a tensor `n`."""
DECLINED = {
    "kept": ("return x[x > 0]", "capture_dynamic_output_shape_ops"),
    "columns": ("keep = x.sum(0) > 0\nreturn x[:, keep]", "capture_dynamic_output_shape_ops"),
    "the largest": ("return x[x > 0].max() + x", "capture_dynamic_output_shape_ops"),
    "a function of its own": (
        dedent("""\
            y = x * 2
            keep = y > 0
            y[keep] = F.softmax(y[keep], dim=0)
            return y"""),
        "capture_dynamic_output_shape_ops",
    ),
    "another mask": (
        dedent("""\
        y = x * 2
        a = y > 0
        b = x > 0
        y[a] = x[b]
        return y"""),
        "capture_dynamic_output_shape_ops",
    ),
    "a list": ("return x[[True, False, True, True]].sum() + x", "as numbers"),
    "what may have an effect": (
        "return x[self.mask(x)].sum()",
        "computed twice, by a call that may have a side effect",
    ),
    "places": ("return x + torch.nonzero(x > 0).sum()", "capture_dynamic_output_shape_ops"),
    "classes": ("return F.one_hot(x.argmax(1)) + x[:, :1]", "The size of the result of"),
    "counted without places": (
        "return torch.bincount(x.argmax(1)).sum() + x",
        "`bincount` is called without `minlength`",
    ),
    "repeated by a call": (
        "return x.repeat_interleave(x.argmax(1).add_(1), 0)",
        "computed twice, by a call that may have a side effect",
    ),
    "the different": ("return torch.unique(x.argmax(1)).sum() + x", "The size of the result of"),
}


def inputs(sign: int) -> tuple[object, ...]:
    """Items on both sides of 0; above it alone; below it alone; and rows on each side."""
    import torch

    x = torch.randn(4, 8) if sign in (0, 2) else sign * (torch.rand(4, 8) + 0.1)
    if sign == 2:
        x = x.abs() * torch.tensor([1, -1, 1, -1])[:, None]
    return (x.requires_grad_(),)


@pytest.mark.torch
@pytest.mark.parametrize("body", OVER_ALL.values(), ids=OVER_ALL)
@pytest.mark.sampled(6)
def test_it_is_worked_out_over_all(body: str, tmp_path: Path) -> None:
    before = forward(body)
    after = change(tmp_path, before)
    for sign in (0, 1, -1, 2):
        assert_same(before, after, lambda sign=sign: inputs(sign))


@pytest.mark.torch
@pytest.mark.parametrize("body", REPEATED.values(), ids=REPEATED)
def test_a_size_that_is_the_sum_of_repeats_is_read(body: str, tmp_path: Path) -> None:
    import torch

    before = forward(body, "x, n")
    after = change(tmp_path, before)
    assert "output_size=" in after
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        assert_same(before, after, lambda: (torch.ones(3, 8, requires_grad=True), torch.tensor([2, 0, 3])))


@pytest.mark.parametrize(("body", "reason"), DECLINED.values(), ids=DECLINED)
def test_what_comes_out_in_another_size_is_declined(body: str, reason: str, tmp_path: Path) -> None:
    found = proposed(tmp_path, forward(body) + "\n    def mask(self, x):\n        return x > 0\n")
    assert [each for each in found if isinstance(each, Proposal)] == []
    assert any(reason in each.reason for each in found if isinstance(each, Declined)), found
