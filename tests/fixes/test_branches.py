"""Branches, checks and truths of tensors: written anew they give what they gave, on both sides, without a break."""

from __future__ import annotations

import textwrap
from pathlib import Path
from textwrap import dedent
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
    "two returns": dedent("""\
        if x.sum() > 0:
            return x + 1
        else:
            return x - 1"""),
    "early return": dedent("""\
        # why
        if x.sum() > 0:
            return x + 1  # up
        return -x"""),
    "early return, statements behind": dedent("""\
        if x.sum() > 0:
            return x * 2
        y = x * 3
        y = y + x
        return y"""),
    "early return of what changes": dedent("""\
        if x.sum() == 0:
            return x * 2
        x = x / x.sum()
        return x"""),
    "early return of a tuple": "if x.sum() > 0:\n    return x * 2, x + 1\nreturn x * 3, x + 1",
    "early returns": dedent("""\
        if x.sum() > 30:
            return x
        y = x * 2
        if y.sum() > 0:
            return y + 1
        return y * x"""),
    "early return behind Python": "if self.flag and x.sum() > 0:\n    return x + 1\nreturn -x",
    "one arm": "if x.sum() > 0:\n    x = x * 2\nreturn x",
    "brackets": dedent("""\
        if x.mean() > 0:
            y = (x + 1)
        else:
            y = x - 1
        return y"""),
    "several names": dedent("""\
        if x.sum() > 0:
            a, b = x + 1, x * 2
        else:
            a, b = x - 1, x * 3
        return a * b"""),
    "names that depend": dedent("""\
        y = x * 2
        z = x * 3
        if y.sum() > 0:
            y = y + 1
            z = z * y
        return y + z"""),
    "swap": dedent("""\
        y = x * 2
        if x.sum() > 0:
            x, y = y, x
        return x - y"""),
    "test reads what changes": dedent("""\
        y = x * 1
        z = x * 2
        if y.sum() > 0:
            y = y - 9
            z = z + 1
        return y + z"""),
    "elif below Python": dedent("""\
        if x.dim() > 4:
            y = x
        elif x.sum() > 0:
            y = x + 1
        else:
            y = x - 1
        return y"""),
    "elif": dedent("""\
        if x.sum() > 3:
            y = x
        elif x.sum() > 0:
            y = x + 1
        else:
            y = x - 1
        return y"""),
    "elif that returns": dedent("""\
        if x.sum() > 30:
            return x
        elif x.sum() > 0:
            return x + 1
        else:
            return x - 1"""),
    "nested": dedent("""\
        y = x
        if x.sum() > 0:
            if x.max() > 2:
                y = x * 2
        return y"""),
    "nested, assigned before": dedent("""\
        y = x
        if x.sum() > 0:
            y = x * 2
            if x.max() > 2:
                y = y + 1
        else:
            y = x - 1
        return y"""),
    "nested Python": dedent("""\
        y = x
        if x.sum() > 0:
            if self.flag:
                y = x * 2
            y = y + 1
        return y"""),
    "in a loop": dedent("""\
        for _ in range(3):
            if x.sum() > 3:
                x = x * 0.5
        return x"""),
    "a name of one side": dedent("""\
        if not torch.isfinite(x).all():
            c = torch.finfo(x.dtype).max - 1000
            x = torch.clamp(x, min=-c, max=c)
        return x"""),
    "a name of two branches": dedent("""\
        if x.isnan().any():
            c = 3
            x = x * c
        if x.sum() > 0:
            c = 4
            x = x * c
        return x"""),
    "attribute": dedent("""\
        if x.sum() > 0:
            self.last = x * 2
        else:
            self.last = x * 3
        return self.last + 1"""),
    "division": "if x.sum() > 0:\n    x = x / x.sum()\nreturn x",
    "division by a name": dedent("""\
        n = x.norm()
        if n > 1:
            x = x / n
        return x"""),
    "root": "return torch.sqrt(x) if (x >= 0).all() else x",
    "logarithm": dedent("""\
        if (x > 0).all():
            y = x.log()
        else:
            y = x.exp()
        return y"""),
    "overflow": dedent("""\
        if x.max() < 10:
            y = x.exp()
        else:
            y = x * 2
        return y"""),
    "power": dedent("""\
        if (x > 0).all():
            y = x ** 0.5
        else:
            y = x ** 2
        return y"""),
    "and": dedent("""\
        if x.sum() > 0 and x.max() < 100:
            y = x + 1
        else:
            y = x - 1
        return y"""),
    "or not": dedent("""\
        if not (x.sum() > 0 or x.max() < 100):
            y = x + 1
        else:
            y = x - 1
        return y"""),
    "chain": "if 0 < x.sum() < 30:\n    x = x + 1\nreturn x",
    "Python's part": "if self.flag and x.sum() > 0:\n    x = x + 1\nreturn x",
    "Python's part, else": dedent("""\
        if x.sum() > 0 and self.flag:
            y = x + 1
        else:
            y = x - 1
        return y"""),
    "bool": "if bool(x.sum() > 0):\n    x = x + 1\nreturn x",
    "item": "if x.sum().item() > 0:\n    x = x + 1\nreturn x",
    "number as a test": "if x.sum():\n    x = x + 1\nreturn x",
    "allclose": dedent("""\
        y = x * 2
        if torch.allclose(x, y):
            y = y + 1
        return y"""),
    "layers": dedent("""\
        if x.sum() > 0:
            y = self.layer(x)
        else:
            y = self.layer(x * 2) + 1
        return y"""),
    "layers in an expression": "return self.layer(x) if x.sum() > 0 else self.layer(x * 2)",
    "expression": "return (x + 1) if x.sum() > 0 else -x",
    "expression in an expression": "return 1 + (x * 2 if x.sum() > 0 else x)",
    "numbers": "s = 0.25 if x.sum() > 0 else 0.5\nreturn x * s",
    "numbers in a branch": dedent("""\
        if x.sum() > 0:
            s = 2
        else:
            s = 3
        return x * s"""),
    "truth": "c = True if x.sum() > 0 else False\nreturn x * c",
    "in place": dedent("""\
        y = x * 2
        if y.sum() > 0:
            y += x
        return y"""),
    "in place on an input": "if x.sum() > 0:\n    x += x * 2\nreturn x",
    "in place by methods": dedent("""\
        y = x * 2
        z = x * 3
        if y.sum() > 0:
            y.add_(x)
            z.copy_(y)
            y.clamp_(max=3)
        return y + z"""),
    "zeros": dedent("""\
        y = x * 2
        if y.sum() > 0:
            y.zero_()
        return y"""),
    "mask written": dedent("""\
        y = x * 2
        m = y > 4
        if m.any():
            y[m] = 0.0
        return y"""),
    "mask filled": dedent("""\
        y = x * 2
        m = x[:, 0] > 1
        if m.any():
            y = y.masked_fill(m.unsqueeze(-1), 7.0)
        return y"""),
    "mask multiplied": dedent("""\
        m = x[:, 0] > 1
        if not m.all():
            x = x * m[:, None]
        return x"""),
    "integers multiplied": dedent("""\
        m = (x[:, 0] * 3).long()
        if not m.all():
            x = x * m[:, None]
        return x"""),
    "integers that sum to zero": dedent("""\
        m = (x * 3).long()
        m[0] = -m[1]
        if m.sum() != 0:
            x = x.masked_fill(m.bool(), 7.0)
        return x"""),
    "mask chosen": dedent("""\
        y = x * 1
        if (x > 1).any():
            y = torch.where(x > 1, x * 2, y)
        return y"""),
    "limit": "if (x > 100).any():\n    x = x.clamp(max=100)\nreturn x",
    "largest": dedent("""\
        y = x * 2
        if y.max() > 5:
            y[y > 5] = 5
        return y"""),
    "rows": dedent("""\
        y = x * 2
        if y.sum() == 0:
            y[y.sum(1).eq(0)] = 1
        return y"""),
    "element": dedent("""\
        y = x * 2
        if y.min() == y.max():
            y[0, 0] = y[0, 0] + 1e-3
        return y"""),
    "slice": dedent("""\
        y = x * 2
        if y.sum() > 0:
            y[1:] = y[1:] * 2
        return y"""),
    "message": dedent("""\
        y = x + 1
        if y.isnan().any():
            print('nan')
        return y"""),
    "operator": "c = x.sum() > 0 and x.max() < 3\nreturn x * c",
    "or a number": "c = x.sum() or 1.0\nreturn x * c",
    "not": "c = not x.any()\nreturn x * c",
    "all of a list": "c = all([r.sum() > -1 for r in x])\nreturn x * c",
    "while": dedent("""\
        y = x.abs() + 1
        n = y * 0
        while y.max() > 1.5:
            y = y * 0.5
            n = n + 1
        return y + n"""),
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
    "else": dedent("""\
        if (x < 100).all():
            y = x + 1
        else:
            raise ValueError('big')
        return y"""),
    "elif": dedent("""\
        if not self.flag:
            y = x
        elif (x > 100).any():
            raise ValueError('big')
        else:
            y = x + 1
        return y"""),
    "item": "if (x > 100).any().item():\n    raise ValueError('big')\nreturn x + 1",
    "bool": "if bool((x > 100).any()):\n    raise ValueError('big')\nreturn x + 1",
    "not None": "if x is not None and (x > 100).any():\n    raise ValueError('big')\nreturn x + 1",
    "not None, the opposite": "if x is not None and not torch.all(x < 100):\n    raise ValueError('big')\nreturn x + 1",
    "a tensor by its type": "if isinstance(x, torch.Tensor) and x.max() >= 100:\n    raise ValueError('big')\nreturn x + 1",
    "message before": dedent("""\
        if (x > 100).any():
            text = 'big'
            raise ValueError(text)
        return x + 1"""),
    "assert": "assert not (x > 100).any(), 'big'\nreturn x + 1",
    "assert of an item": "assert x.max().item() <= 100\nreturn x + 1",
    "assert with a message": "assert self.flag and (x < 100).all(), f'odd {x.shape}'\nreturn x + 1",
}
DECLINED = {
    "print as a value": ("y = print(x)\nreturn x", "The code uses the value of `print(x)`"),
    "lists": ("w = [1] if x.any() else [2]\nreturn x * w[0]", "is not a tensor"),
    "none": ("return x if x.sum() > 0 else None", "have the same shape"),
    "a slice": ("if x.sum() > 0:\n    x = x[:1]\nreturn x", "have the same shape"),
    "another name": ("y = x.mean(0)\nreturn x if x.sum() > 0 else y", "have the same shape"),
    "a number for a tensor": ("if x.sum() > 1:\n    x = 1.0\nreturn x", "have the same shape"),
    "an effect": ("if x.sum() > 0:\n    self.rows.append(x)\nreturn x", "`self.rows.append(x)` has a side effect"),
    "bound on one side": ("if x.sum() > 0:\n    y = x * 2\nreturn x if self.flag else y", "`y` is assigned in one branch only"),
    "break": (dedent("""\
        for _ in range(3):
            if x.sum() > 0:
                break
            x = x + 1
        return x"""), "The `if` ends in `break`"),
    "caught": (dedent("""\
        try:
            if x.sum() > 0:
                raise ValueError('no')
        except ValueError:
            x = x + 1
        return x"""), "A `try` around the check may catch its error"),
    "or Python": (dedent("""\
        if x.shape[0] > 9 or x.sum() > 0:
            x = x + 1
        else:
            x = x - 1
        return x"""), "neither part can be evaluated alone"),
    "another torch": (dedent("""\
        torch = self
        if x.sum() > 0:
            x = x + 1
        return x"""), "The name `torch` is assigned to something else here"),
    "operand": ("c = x.sum() and x.mean()\nreturn x * c", "may not be a bool"),
    "while with a break": (dedent("""\
        while x.sum() > 0:
            x = x - 1
            if self.flag:
                break
        return x"""), "The body of the loop contains a block"),
    "selected items": ("return x.nonzero()", "capture_dynamic_output_shape_ops"),
    "filtered": ("rows = [r for r in x.unbind() if r.sum() > 0]\nreturn x + len(rows)", "The number of items that the comprehension keeps"),
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
    caught, bool_of_python = "A `try` in this file calls the function", "so a subclass may return a bool"
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
