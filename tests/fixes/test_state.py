"""State that a forward keeps or makes: made before, or kept as a tensor; what has to stay as it is, is declined."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from rewriting import assert_same, change, forward, proposed
from tcready.fixes.rewriting.suggestions import Proposal
from tcready.static.diagnostics.rule import Declined

HEAD = dedent("""\
    import copy
    import random
    import types

""")
COUNTER = "self.n = 0"
REWRITTEN = {
    "a counter": (COUNTER, "self.n += 1\nreturn x * 2"),
    "a counter that is used": ("self.n = 3  # three", "self.n += 1\nscale = 1 / (self.n + 1)\nreturn x * scale"),
    "a sum of sizes": (COUNTER, "self.n = self.n + x.shape[0]\nreturn x * 2"),
    "a factor": ("self.f = 1.0", "self.f *= 0.5\nreturn x * 2 + self.f * 2 * x"),
    "a buffer in place": ("self.e = nn.Buffer(torch.zeros(8))", "self.e = self.e.add_(1)\nreturn x + self.e"),
    "a buffer converted": (
        "self.e = nn.Buffer(torch.ones(8))",
        "y = x * 2\nself.e = self.e.to(y.dtype)  # as y\nreturn y + self.e",
    ),
    "a deep copy": (
        "",
        dedent("""\
        y = x.detach() * 2
        z = copy.deepcopy(y)
        z += 1
        return x * z + y"""),
    ),
    "a copied module": (
        "self.l = nn.Sequential(nn.LayerNorm(8), nn.BatchNorm1d(8))",
        dedent("""\
            y = x * 2
            layer = copy.deepcopy(self.l)  # anew
            z = layer(y) + layer(input=x)
            return z + self.l[1].running_mean"""),
    ),
    "a copied module called at once": (
        "self.l = nn.ModuleList([nn.LayerNorm(8), nn.Sigmoid()])",
        "y = x * 2\nreturn copy.deepcopy(self.l[0])(y) + self.l[1](x)",
    ),
    "copied modules of a loop": (
        "self.l = nn.ModuleList([nn.LayerNorm(8), nn.PReLU(), nn.Sigmoid()])",
        dedent("""\
            y = x * 2
            for each in self.l:
                one = copy.deepcopy(each)
                y = one(y)
            return y"""),
    ),
    "a norm of roots": ("", "y = x * 2\nnorm = nn.RMSNorm(8)\nreturn norm(y) + y"),
    "a leaf": ("", "y = x * 2\nloss = torch.tensor(0.0, requires_grad=True)\nreturn y + loss"),
    "a leaf among others": ("", "y = x * 2\nreturn y + torch.zeros(8, requires_grad=True, dtype=x.dtype)"),
    "a parameter": ("", "y = x * 2\nweight = nn.Parameter(torch.full((8,), 2.0))\nreturn y * weight"),
    "a norm": ("", "y = x * 2\nnorm = nn.LayerNorm(8)\nreturn norm(y) + y"),
    "a norm with a comment": ("", "y = x * 2\nnorm = nn.LayerNorm(8)  # plain\nreturn norm(y) + y"),
    "a norm called at once": ("", "y = x * 2\nreturn nn.LayerNorm(x.shape[-1])(y) + y"),
    "a norm of batches": ("", "y = x * 2\nreturn nn.BatchNorm1d(8)(y) - y"),
    "a distribution": (
        "",
        "y = x * 2\nd = torch.distributions.Normal(y, torch.ones(8), validate_args=True)\nreturn d.mean + y",
    ),
    "a scope": (
        "self.quiet = torch.no_grad()",
        dedent("""\
        y = x * 2
        with self.quiet:
            z = y * 2
        return y + z"""),
    ),
    "a list of text": (
        "",
        dedent("""\
            y = x * 2
            parts = 'a,b,c'.split(',')
            last = parts.pop()
            return y + len(parts) + len(last)"""),
    ),
    "a power": ("", "y = -pow(x, 2).sum()\nreturn y + x"),
}
DECLINED = {
    "a counter that is asked": (
        COUNTER,
        dedent("""\
        self.n += 1
        if self.n > 3:
            x = x + 1
        return x"""),
        "is used where Python needs a number",
    ),
    "a counter that is set": (
        COUNTER,
        dedent("""\
        self.n += 1
        if x.dim() > 7:
            self.n = 0
        return x"""),
        "set to a number",
    ),
    "a counter of a dict": (
        "self.c = {'n': 0}",
        "self.c['n'] += 1\nreturn x",
        "is not an attribute of the module itself",
    ),
    "a counter that gradients need": (COUNTER, "self.n += 1\nreturn x * self.n", "a gradient may need"),
    "a counter that is kept elsewhere": (
        COUNTER,
        "self.n += 1\nself.last = self.n + 1\nreturn x",
        "A value computed from `self.n` is stored",
    ),
    "a counter in an exponent": (
        COUNTER,
        "self.n += 1\nreturn x + 2 ** self.n",
        "A power of `self.n` may exceed 64 bits",
    ),
    "a counter that doubles": (
        "self.n = 1",
        "self.n *= 2\nreturn x",
        "may exceed 64 bits, the range of an integer tensor",
    ),
    "a counter that doubles itself": (
        "self.n = 1",
        "self.n = self.n * 2 + 1\nreturn x",
        "may exceed 64 bits, the range of an integer tensor",
    ),
    "a norm with a small number of its own": (
        "",
        "y = x * 2\nreturn nn.LayerNorm(8, 2e-5)(y)",
        "gets more arguments than its size",
    ),
    "a counter of no number": ("self.n = int('3')", "self.n += 1\nreturn x", "so it cannot become a buffer"),
    "another tensor": (
        "self.e = nn.Buffer(torch.zeros(8))\nself.g = nn.Buffer(torch.zeros(8))",
        dedent("""\
            self.e = self.e.to(x.dtype)
            if x.dim() > 1:
                self.e = self.e.to(x.dtype)
            return x + self.e"""),
        "`self.e` is assigned more than once",
    ),
    "a copied list": ("", "z = copy.deepcopy([x])\nreturn z[0]", "may be a container, an object or a module"),
    "a copied list with a name": (
        "",
        "y = [x]\nz = copy.deepcopy(y)\nreturn z[0]",
        "may be a container, an object or a module",
    ),
    "a copied module that is kept": (
        "self.l = nn.Linear(8, 8)",
        "y = copy.deepcopy(self.l)\nself.last = y\nreturn y(x)",
        "The copy is not only called",
    ),
    "a copied module whose weights are read": (
        "self.l = nn.Linear(8, 8)",
        "y = copy.deepcopy(self.l)\nreturn y(x) + y.weight",
        "The copy is not only called",
    ),
    "a copied module or another": (
        "self.l = nn.Linear(8, 8)",
        dedent("""\
            y = self.l
            if x.dim() > 1:
                y = copy.deepcopy(self.l)
            return y(x)"""),
        "The copy is not only called",
    ),
    "a copied module, called behind its block": (
        "self.l = nn.Linear(8, 8)",
        "if x.dim() > 1:\n    y = copy.deepcopy(self.l)\nreturn y(x)",
        "The copy is not only called",
    ),
    "a copied module that is replaced": (
        "self.l = nn.Linear(8, 8)",
        "y = copy.deepcopy(self.l)\nself.l = nn.ReLU()\nreturn y(x)",
        "`self.l` is assigned again after the copy",
    ),
    "a copied module, called twice at once": (
        "self.l = nn.Linear(8, 8)",
        "y = copy.deepcopy(self.l)\nreturn y(y(x))",
        "The copy is called with its own result",
    ),
    "a copied module that is made there": (
        "",
        "y = copy.deepcopy(nn.Linear(8, 8))\nreturn y(x)",
        "The copied module is an expression",
    ),
    "a copied module, called with a list": (
        "self.l = nn.Linear(8, 8)",
        "y = copy.deepcopy(self.l)\nreturn y(*[x])",
        "unpacked arguments",
    ),
    "a drawn branch": ("", "if random.random() > 0.5:\n    x = x + 1\nreturn x", "The number decides a branch"),
    "a choice": (
        "",
        "return x * random.choice([1, 2])",
        "torch has no function that draws one number like `random.choice`",
    ),
    "a layer": ("", "layer = nn.Linear(8, 8)\nreturn layer(x)", "gets new weights in each call"),
    "a scope of one's own": (
        "self.scope = torch.autograd.set_detect_anomaly(True)",
        "with self.scope:\n    x = x + 1\nreturn x",
        "no form",
    ),
}


def inputs() -> tuple[object, ...]:
    import torch

    return (torch.randn(4, 8, requires_grad=True),)


@pytest.mark.torch
@pytest.mark.parametrize(("init", "body"), REWRITTEN.values(), ids=REWRITTEN)
@pytest.mark.sampled(5)
def test_it_gives_what_it_gave(init: str, body: str, tmp_path: Path) -> None:
    before = HEAD + forward(body, init=init)
    assert_same(before, change(tmp_path, before), inputs)


@pytest.mark.parametrize(("init", "body", "reason"), DECLINED.values(), ids=DECLINED)
def test_what_would_change_is_declined(init: str, body: str, reason: str, tmp_path: Path) -> None:
    found = proposed(tmp_path, HEAD + forward(body, init=init))
    assert [each for each in found if isinstance(each, Proposal)] == []
    assert any(reason in each.reason for each in found if isinstance(each, Declined)), found


def test_what_is_drawn_stays_a_tensor(tmp_path: Path) -> None:
    text = HEAD + forward("keep = random.gauss(1, 2)\nreturn x * keep")
    assert "keep = 1 + 2 * torch.randn(())" in change(tmp_path, text)


def test_a_counter_changes_the_line_that_makes_it_alone(tmp_path: Path) -> None:
    text = forward("self.n += 1\nreturn x", init=COUNTER)
    register = 'self.register_buffer("n", torch.tensor(0), persistent=False)'
    assert change(tmp_path, text) == text.replace(COUNTER, register)
