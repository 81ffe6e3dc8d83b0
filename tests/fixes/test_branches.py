"""Branches, checks and truths of tensors: written anew they give what they gave, on both sides, without a break."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
from rewriting import loaded, proposed
from tcready import api
from tcready.fixes.rewriting.suggestions import Proposal, at_line
from tcready.source.edits import apply_edits
from tcready.static.diagnostics.cst_view import Concrete
from tcready.static.diagnostics.rule import PRELUDE, Declined
from tcready.static.frontend import source

HEAD = f"""{PRELUDE}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.layer = nn.Linear(8, 8)
        self.flag = True

    def forward(self, x):
"""

# fmt: off
SAME = {
    "two returns": "if x.sum() > 0:\n    return x + 1\nelse:\n    return x - 1",
    "early return": "# why\nif x.sum() > 0:\n    return x + 1  # up\nreturn -x",
    "early return, statements behind": "if x.sum() > 0:\n    return x * 2\ny = x * 3\ny = y + x\nreturn y",
    "early return of what changes": "if x.sum() == 0:\n    return x * 2\nx = x / x.sum()\nreturn x",
    "early return of a tuple": "if x.sum() > 0:\n    return x * 2, x + 1\nreturn x * 3, x + 1",
    "early returns": "if x.sum() > 30:\n    return x\ny = x * 2\nif y.sum() > 0:\n    return y + 1\nreturn y * x",
    "early return behind Python": "if self.flag and x.sum() > 0:\n    return x + 1\nreturn -x",
    "one arm": "if x.sum() > 0:\n    x = x * 2\nreturn x",
    "brackets": "if x.mean() > 0:\n    y = (x + 1)\nelse:\n    y = x - 1\nreturn y",
    "several names": "if x.sum() > 0:\n    a, b = x + 1, x * 2\nelse:\n    a, b = x - 1, x * 3\nreturn a * b",
    "names that depend": "y = x * 2\nz = x * 3\nif y.sum() > 0:\n    y = y + 1\n    z = z * y\nreturn y + z",
    "swap": "y = x * 2\nif x.sum() > 0:\n    x, y = y, x\nreturn x - y",
    "test reads what changes": "y = x * 1\nz = x * 2\nif y.sum() > 0:\n    y = y - 9\n    z = z + 1\nreturn y + z",
    "elif below Python": "if x.dim() > 4:\n    y = x\nelif x.sum() > 0:\n    y = x + 1\nelse:\n    y = x - 1\nreturn y",
    "elif": "if x.sum() > 3:\n    y = x\nelif x.sum() > 0:\n    y = x + 1\nelse:\n    y = x - 1\nreturn y",
    "elif that returns": "if x.sum() > 30:\n    return x\nelif x.sum() > 0:\n    return x + 1\nelse:\n    return x - 1",
    "nested": "y = x\nif x.sum() > 0:\n    if x.max() > 2:\n        y = x * 2\nreturn y",
    "nested, assigned before": "y = x\nif x.sum() > 0:\n    y = x * 2\n    if x.max() > 2:\n        y = y + 1\nelse:\n    y = x - 1\nreturn y",
    "nested Python": "y = x\nif x.sum() > 0:\n    if self.flag:\n        y = x * 2\n    y = y + 1\nreturn y",
    "in a loop": "for _ in range(3):\n    if x.sum() > 3:\n        x = x * 0.5\nreturn x",
    "a name of one side": "if not torch.isfinite(x).all():\n    c = torch.finfo(x.dtype).max - 1000\n    x = torch.clamp(x, min=-c, max=c)\nreturn x",
    "a name of two branches": "if x.isnan().any():\n    c = 3\n    x = x * c\nif x.sum() > 0:\n    c = 4\n    x = x * c\nreturn x",
    "attribute": "if x.sum() > 0:\n    self.last = x * 2\nelse:\n    self.last = x * 3\nreturn self.last + 1",
    "division": "if x.sum() > 0:\n    x = x / x.sum()\nreturn x",
    "division by a name": "n = x.norm()\nif n > 1:\n    x = x / n\nreturn x",
    "root": "return torch.sqrt(x) if (x >= 0).all() else x",
    "logarithm": "if (x > 0).all():\n    y = x.log()\nelse:\n    y = x.exp()\nreturn y",
    "overflow": "if x.max() < 10:\n    y = x.exp()\nelse:\n    y = x * 2\nreturn y",
    "power": "if (x > 0).all():\n    y = x ** 0.5\nelse:\n    y = x ** 2\nreturn y",
    "and": "if x.sum() > 0 and x.max() < 100:\n    y = x + 1\nelse:\n    y = x - 1\nreturn y",
    "or not": "if not (x.sum() > 0 or x.max() < 100):\n    y = x + 1\nelse:\n    y = x - 1\nreturn y",
    "chain": "if 0 < x.sum() < 30:\n    x = x + 1\nreturn x",
    "Python's part": "if self.flag and x.sum() > 0:\n    x = x + 1\nreturn x",
    "Python's part, else": "if x.sum() > 0 and self.flag:\n    y = x + 1\nelse:\n    y = x - 1\nreturn y",
    "bool": "if bool(x.sum() > 0):\n    x = x + 1\nreturn x",
    "item": "if x.sum().item() > 0:\n    x = x + 1\nreturn x",
    "number as a test": "if x.sum():\n    x = x + 1\nreturn x",
    "allclose": "y = x * 2\nif torch.allclose(x, y):\n    y = y + 1\nreturn y",
    "layers": "if x.sum() > 0:\n    y = self.layer(x)\nelse:\n    y = self.layer(x * 2) + 1\nreturn y",
    "layers in an expression": "return self.layer(x) if x.sum() > 0 else self.layer(x * 2)",
    "expression": "return (x + 1) if x.sum() > 0 else -x",
    "expression in an expression": "return 1 + (x * 2 if x.sum() > 0 else x)",
    "numbers": "s = 0.25 if x.sum() > 0 else 0.5\nreturn x * s",
    "numbers in a branch": "if x.sum() > 0:\n    s = 2\nelse:\n    s = 3\nreturn x * s",
    "truth": "c = True if x.sum() > 0 else False\nreturn x * c",
    "in place": "y = x * 2\nif y.sum() > 0:\n    y += x\nreturn y",
    "in place on an input": "if x.sum() > 0:\n    x += x * 2\nreturn x",
    "in place by methods": "y = x * 2\nz = x * 3\nif y.sum() > 0:\n    y.add_(x)\n    z.copy_(y)\n    y.clamp_(max=3)\nreturn y + z",
    "zeros": "y = x * 2\nif y.sum() > 0:\n    y.zero_()\nreturn y",
    "mask written": "y = x * 2\nm = y > 4\nif m.any():\n    y[m] = 0.0\nreturn y",
    "mask filled": "y = x * 2\nm = x[:, 0] > 1\nif m.any():\n    y = y.masked_fill(m.unsqueeze(-1), 7.0)\nreturn y",
    "mask multiplied": "m = x[:, 0] > 1\nif not m.all():\n    x = x * m[:, None]\nreturn x",
    "integers multiplied": "m = (x[:, 0] * 3).long()\nif not m.all():\n    x = x * m[:, None]\nreturn x",
    "integers that sum to zero": "m = (x * 3).long()\nm[0] = -m[1]\nif m.sum() != 0:\n    x = x.masked_fill(m.bool(), 7.0)\nreturn x",
    "mask chosen": "y = x * 1\nif (x > 1).any():\n    y = torch.where(x > 1, x * 2, y)\nreturn y",
    "limit": "if (x > 100).any():\n    x = x.clamp(max=100)\nreturn x",
    "largest": "y = x * 2\nif y.max() > 5:\n    y[y > 5] = 5\nreturn y",
    "rows": "y = x * 2\nif y.sum() == 0:\n    y[y.sum(1).eq(0)] = 1\nreturn y",
    "element": "y = x * 2\nif y.min() == y.max():\n    y[0, 0] = y[0, 0] + 1e-3\nreturn y",
    "slice": "y = x * 2\nif y.sum() > 0:\n    y[1:] = y[1:] * 2\nreturn y",
    "message": "y = x + 1\nif y.isnan().any():\n    print('nan')\nreturn y",
    "operator": "c = x.sum() > 0 and x.max() < 3\nreturn x * c",
    "or a number": "c = x.sum() or 1.0\nreturn x * c",
    "not": "c = not x.any()\nreturn x * c",
    "all of a list": "c = all([r.sum() > -1 for r in x])\nreturn x * c",
    "while": "y = x.abs() + 1\nn = y * 0\nwhile y.max() > 1.5:\n    y = y * 0.5\n    n = n + 1\nreturn y + n",
    "count": "k = len(x.nonzero())\nreturn x * k",
    "assert of an object": "rows = [x, x + 1]\nassert rows\nreturn rows[1]",
}
RAISING = {
    "raise": "if (x > 100).any():\n    raise ValueError(f'big {x.shape}')\nreturn x + 1",
    "RuntimeError": "if not (x < 100).all():\n    raise RuntimeError('big')\nreturn x + 1",
    "AssertionError": "if x.max() > 100:\n    raise AssertionError('big')\nreturn x + 1",
    "or": "if x.dim() > 5 or (x > 100).any() or x.isnan().any():\n    raise ValueError('big')\nreturn x + 1",
    "and": "if self.flag and (x > 100).any():\n    raise ValueError('big')\nreturn x + 1",
    "both": "if (self.flag and (x > 100).any()) or (x.dim() == 2 and x.sum() < -1e6):\n    raise ValueError('big')\nreturn x + 1",
    "else": "if (x < 100).all():\n    y = x + 1\nelse:\n    raise ValueError('big')\nreturn y",
    "elif": "if not self.flag:\n    y = x\nelif (x > 100).any():\n    raise ValueError('big')\nelse:\n    y = x + 1\nreturn y",
    "item": "if (x > 100).any().item():\n    raise ValueError('big')\nreturn x + 1",
    "bool": "if bool((x > 100).any()):\n    raise ValueError('big')\nreturn x + 1",
    "not None": "if x is not None and (x > 100).any():\n    raise ValueError('big')\nreturn x + 1",
    "not None, the opposite": "if x is not None and not torch.all(x < 100):\n    raise ValueError('big')\nreturn x + 1",
    "a tensor by its type": "if isinstance(x, torch.Tensor) and x.max() >= 100:\n    raise ValueError('big')\nreturn x + 1",
    "message before": "if (x > 100).any():\n    text = 'big'\n    raise ValueError(text)\nreturn x + 1",
    "assert": "assert not (x > 100).any(), 'big'\nreturn x + 1",
    "assert of an item": "assert x.max().item() <= 100\nreturn x + 1",
    "assert with a message": "assert self.flag and (x < 100).all(), f'odd {x.shape}'\nreturn x + 1",
}
DECLINED = {
    "print as a value": ("y = print(x)\nreturn x", "its value is used"),
    "lists": ("w = [1] if x.any() else [2]\nreturn x * w[0]", "no tensor"),
    "none": ("return x if x.sum() > 0 else None", "shapes"),
    "a slice": ("if x.sum() > 0:\n    x = x[:1]\nreturn x", "shapes"),
    "another name": ("y = x.mean(0)\nreturn x if x.sum() > 0 else y", "shapes"),
    "a number for a tensor": ("if x.sum() > 1:\n    x = 1.0\nreturn x", "shapes"),
    "an effect": ("if x.sum() > 0:\n    self.rows.append(x)\nreturn x", "writes to an object of its surroundings"),
    "bound on one side": ("if x.sum() > 0:\n    y = x * 2\nreturn x if self.flag else y", "on one side only"),
    "break": ("for _ in range(3):\n    if x.sum() > 0:\n        break\n    x = x + 1\nreturn x", "ends a loop"),
    "caught": ("try:\n    if x.sum() > 0:\n        raise ValueError('no')\nexcept ValueError:\n    x = x + 1\nreturn x", "caught around it"),
    "or Python": ("if x.shape[0] > 9 or x.sum() > 0:\n    x = x + 1\nelse:\n    x = x - 1\nreturn x", "neither can be evaluated separately"),
    "another torch": ("torch = self\nif x.sum() > 0:\n    x = x + 1\nreturn x", "means something else"),
    "operand": ("c = x.sum() and x.mean()\nreturn x * c", "may not be a bool"),
    "while with a break": ("while x.sum() > 0:\n    x = x - 1\n    if self.flag:\n        break\nreturn x", "a block of its own"),
    "selected items": ("return x.nonzero()", "capture_dynamic_output_shape_ops"),
    "filtered": ("rows = [r for r in x.unbind() if r.sum() > 0]\nreturn x + len(rows)", "how many items are left"),
}
# fmt: on


def text_of(body: str) -> str:
    return HEAD + textwrap.indent(body, " " * 8) + "\n"


def anew(body: str, folder: Path) -> str:
    """The file after the first proposal, of one finding after the other."""
    text = text_of(body)
    for _ in range(4):
        found = [each for each in proposed(folder, text) if isinstance(each, Proposal)]
        if not found:
            break
        text = apply_edits(text, found[0].edits)
    assert text != text_of(body)
    return text


def outcome(model: Any, x: Any) -> list[Any]:
    """What comes out, the gradient, and what became of the input."""
    import torch
    from dynamo_runs import quiet

    leaf = x.clone().requires_grad_()
    given = leaf * 1
    with quiet():  # Dynamo looks at the gradient of what is no leaf
        made = model(given)
    total = sum(each.sum() for each in made) if isinstance(made, tuple) else made.sum()
    total.backward()
    assert leaf.grad is not None
    given = given.detach()
    return [made, leaf.grad, given, *(torch.zeros(1) if p.grad is None else p.grad for p in model.parameters())]


def inputs() -> list[Any]:
    import torch

    torch.manual_seed(0)
    x = torch.randn(4, 8)
    return [x.abs(), -x.abs(), x * 0, x * 300, x.abs() / x.abs().max()]


def error_of(model: Any, x: Any) -> Exception | None:
    try:
        model(x)
    except Exception as error:
        return error
    return None


@pytest.mark.torch
@pytest.mark.parametrize("body", SAME.values(), ids=SAME)
@pytest.mark.sampled(6)
def test_both_sides_are_the_same_without_a_break(body: str, tmp_path: Path) -> None:
    import torch

    text = anew(body, tmp_path)
    torch._dynamo.reset()
    compiled = torch.compile(loaded(text), backend="eager", fullgraph=True)
    for x in inputs():
        expected = outcome(loaded(text_of(body)), x)
        torch.testing.assert_close(outcome(loaded(text), x), expected, equal_nan=True)
        compiled.zero_grad()
        torch.testing.assert_close(outcome(compiled, x), expected, equal_nan=True)
    torch._dynamo.reset()
    assert torch._dynamo.explain(loaded(text))(inputs()[0]).graph_break_count == 0


@pytest.mark.torch
@pytest.mark.parametrize("body", RAISING.values(), ids=RAISING)
def test_eager_raises_what_it_raised_and_the_compiled_model_raises_too(body: str, tmp_path: Path) -> None:
    import torch

    text = anew(body, tmp_path)
    torch._dynamo.reset()
    before, after = (
        loaded(text_of(body)),
        loaded(text),
    )  # an operator that is defined twice may be gone from the first
    compiled = torch.compile(after, backend="eager", fullgraph=True)
    x = inputs()[0]
    torch.testing.assert_close(after(x), before(x))
    torch.testing.assert_close(compiled(x), x + 1)
    raised, now, then = (error_of(model, x * 1000) for model in (before, after, compiled))
    assert (type(now), str(now)) == (type(raised), str(raised))
    assert type(then) is RuntimeError
    assert "custom_op" not in text  # the last of the ways


@pytest.mark.torch
@pytest.mark.parametrize("body", [RAISING[name] for name in RAISING if "None" in name or "type" in name])
def test_what_python_decides_stays_python_whatever_was_met(body: str, tmp_path: Path) -> None:
    """Where nothing was predicted, any operand may be what the rewrite begins with."""
    text = text_of(body)
    (tmp_path / "model.py").write_text(text)
    line = text.splitlines().index(f"        {body.splitlines()[0]}") + 1
    rules = [rule for rule in api.load_rules() if rule.code == "TCR101"]
    ways = at_line(Concrete(source.read(tmp_path / "model.py")), "model.py", line, rules)
    found = {apply_edits(text, way.edits) for way in ways if isinstance(way, Proposal)}
    assert len(found) == 3
    x = inputs()[0]
    for each in found:
        assert loaded(each)(x).equal(x + 1)
        assert error_of(loaded(each), x * 1000) is not None


@pytest.mark.parametrize(("body", "reason"), DECLINED.values(), ids=DECLINED)
def test_what_might_change_the_result_is_declined(body: str, reason: str, tmp_path: Path) -> None:
    found = proposed(tmp_path, text_of(body))
    # `torch.cond` refuses by itself what the form does not tell
    assert [each.how for each in found if isinstance(each, Proposal) and "torch.cond" not in each.how] == []
    assert any(isinstance(each, Declined) and reason in each.reason for each in found), found


ELSEWHERE = f"""{PRELUDE}
def check(s):
    if s.mean() >= 6:
        raise ValueError("large")


def checked(s):
    check(s)


class Model(nn.Module):
    def gate(self, x):
        return x.sum() > 0

    def forward(self, x):
        try:
            checked(x)
        except ValueError:
            return -x
        if self.gate(x):
            x = x * 2
        return x
"""


def test_what_a_caller_catches_and_what_a_subclass_may_give_is_declined(tmp_path: Path) -> None:
    caught, bool_of_python = "a `try` in this file catches it", "a subclass may give a bool"
    for text, words in (
        (ELSEWHERE, [caught, bool_of_python]),
        (ELSEWHERE.replace("except ValueError", "except KeyError"), [bool_of_python]),
        (ELSEWHERE.replace("gate(self, x)", "gate(self, x) -> torch.Tensor"), [caught]),
    ):
        found = [each.reason for each in proposed(tmp_path, text) if isinstance(each, Declined)]
        assert [w for w in (caught, bool_of_python) if any(w in each for each in found)] == words


@pytest.mark.parametrize(
    ("test", "made"),
    [
        ("x.sum().item() > 0.1", "x.sum().double() > 0.1"),
        ("x.sum().item() > 0.5", "x.sum() > 0.5"),
        ("x.sum().item() > self.limit", "x.sum().double() > self.limit"),
        ("x.sum() > 0.1", "x.sum() > 0.1"),
        ("float(x.sum()) <= -1001", "x.sum().double() <= -1001"),
        ("int(x.sum()) > 2", "x.sum().long() > 2"),
        ("int((x > 0).sum()) > 2", "(x > 0).sum() > 2"),
        ("x.min().item() < x.max().item()", "x.min() < x.max()"),
    ],
)
def test_a_number_that_is_read_is_compared_as_python_does(test: str, made: str, tmp_path: Path) -> None:
    """Python compares numbers of 64 bits: torch rounds a number to the type of the tensor."""
    found = proposed(tmp_path, text_of(f"if {test}:\n    x = x * 2\nreturn x"))
    assert any(f"torch.where({made}," in e.new_text for p in found if isinstance(p, Proposal) for e in p.edits)
