"""Numbers that are read from tensors: kept tensors where that does as well, declined where it does not."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from rewriting import assert_same, change, forward, proposed
from tcready.fixes.rewriting.suggestions import Proposal
from tcready.static.diagnostics.rule import Declined

KEPT = {
    "a factor": "y = x * 2\nreturn y / y.max().item()",
    "a name": "y = x * 2\npeak = y.max().item()\nreturn y / peak + 1",
    "a name of more than one line": dedent("""\
        y = x * 2
        peak = (
            y.abs()
            .max().item()  # why
        )
        return y / peak"""),
    "arithmetic of numbers": "n = x.abs().sum().item() + 1\nhalf = n / 2\nreturn x * (1 - half)",
    "one item": "return x * x[0, :1].item()",
    "changed later": dedent("""\
        y = x * 2
        first = y[0, 0].item()
        y += 1
        return y * first"""),
    "in place of itself": "y = x * 2\ny /= y[0, 0].item()\nreturn y",
    "an index": "i = x.sum(1).argmax().item()\nreturn x[i] + x[1]",
    "the item from the end": "n = x.sum(1).argmax().item()\nreturn x[n - 4] + x[1]",
    "an item written": "y = x * 2\ny[x.sum(1).argmax().item()] = 0.0\nreturn y",
    "an index of a column": "return x[:, x.sum(0).argmin().item()]",
    "the larger": "return x / max(x.abs().sum().item(), 1)",
    "float": "scale = float(x.abs().max())\nreturn x / scale",
    "float of item": "scale = float(x.abs().max().item())\nreturn x / scale",
    "int": "count = int((x > 0).sum())\nreturn x * count",
    "int of a float": "count = int(x.sum() * 3)\nreturn x * count",
    "bool": "some = bool((x > 100).any())\nreturn x * some",
    "math": "import math\nroot = math.sqrt(x.abs().sum())\nreturn x * root",
    "math of a number": "import math\nreturn x * math.exp(-x.abs().mean().item())",
    "filled": "return x.masked_fill(x > 0, x.min().item())",
    "one bound": "return x.clamp(max=x.mean().item())",
    "where": "y = x * 2\nlow = y.min().item()\nreturn torch.where(y > 0, y, low)",
    "a mask": "mean = x.mean().item()\nkeep = x > mean\nreturn x * keep",
    "cut off": "return x * x.detach().cpu().max().item()",
    "The list is passed to another function": "def scaled(y, by):\n    return y * by\nreturn scaled(x, x.abs().max().item())",
    "stored": "y = x * 2\ny[0] = x.max().item()\nreturn y",
    "rows of a list": "rows = x.sum(1).tolist()\nreturn x + rows[0] - rows[1]",
    "a loop over a list": dedent("""\
        y = x * 2
        for v in x.sum(1).tolist():
            y = y + v
        return y"""),
    "a numbered loop": dedent("""\
        y = x * 2
        for i, v in enumerate(x[0].tolist()):
            y = y + v * i
        return y"""),
    "two lists": dedent("""\
        y = x * 2
        for a, b in zip(x[0].tolist(), [1.0, 2.0]):
            y = y + a
        return y"""),
    "numpy": "scale = float(np.sin(x.detach().numpy()).mean())\nreturn x * scale",
    "numpy's number": "y = x.detach().cpu().numpy()\nreturn x * np.sqrt(np.abs(x.detach().numpy())).max().item()",
    "numpy's arithmetic": "return x * float((x.detach().numpy() * 2 + 1).sum())",
    "numpy's product of sizes": "n = int(np.prod(x.shape[1:]))\nreturn x.reshape(n, -1)",
    "numpy's product": "n = np.prod(x.shape)\nreturn x.reshape(n)",
    "two bounds": "y = x * 2\nreturn y.clamp(0, y.detach().mean() + 1)",
    "two bounds by name": "y = x * 2\nreturn torch.clamp(y, min=y.detach().mean(), max=1.0)",
    "a multiple added": "return torch.add(x, x * 2, alpha=x.detach().mean())",
    "a value filled in": "return x.new_full((4, 8), x.detach().sum()) + x",
    "a value filled in alike": "return torch.full_like(x, x.detach().sum()) + x",
    "numbers": "scales = [1.0, 2.0, 3.0]\nchoice = x.sum(1).argmax() // 2\nreturn x * scales[choice]",
}
DECLINED = {
    "a size": ("return x.new_zeros(x.sum().long().item()).sum() + x", "a size or a bound"),
    "a bound": ("n = (x > 0).sum().item()\nreturn x[:, :n]", "a size or a bound"),
    "a bound of a loop": (
        "for _ in range(int(x.sum())):\n    x = x + 1\nreturn x",
        "The number is the length of a loop",
    ),
    "The function returns the number": ("return x.sum().item()", "The function returns the number"),
    "a key": (
        "k = x.long().sum().item() * 2654435761 % 7\nreturn x * k",
        "may exceed 64 bits, where a tensor overflows",
    ),
    "a shift": ("k = x.long().sum().item() << 8\nreturn x * k", "may exceed 64 bits, where a tensor overflows"),
    "two branches": (
        "n = x.sum().item()\ny = x + 1 if n > 0 else x\nreturn y if n > 1 else x",
        "The number decides a branch",
    ),
    "text": ("n = x.sum().item()\ns = f'{n}'\nreturn x * len(s)", "number is formatted"),
    "a running total": ("total = 0.0\ntotal += x.sum().item()\nreturn x * total", "Python number"),
    "a list": ("seen = []\nseen.append(x.sum().item())\nreturn x * seen[0]", "a container"),
    "a dict": ("seen = {}\nseen['a'] = x.sum().item()\nreturn x", "a container"),
    "an attribute": ("self.last = x.sum().item()\nreturn x", "The number is stored in an attribute"),
    "a number of two bounds": ("return x.clamp(0, x.sum().item())", "takes no tensor together with a number"),
    "a size that is a tensor": ("return x.sum() + torch.zeros((x > 0).sum())", "a size or a bound"),
    "numpy's branch": (
        "n = float(np.abs(x.numpy()).max())\nreturn x + 1 if n > 1 else x",
        "The number decides a branch",
    ),
    "a closure": (
        dedent("""\
        n = x.sum().item()
        def f(y):
            return y * n
        return f(x)"""),
        "An inner function uses `n`",
    ),
    "sizes": ("return x.split((x[:, 0] > 9).long().tolist())[0]", "The list is passed to another function"),
    "rows apart": (
        dedent("""\
        y = x
        for a, b in x[:, :2].tolist():
            y = y + a
        return y"""),
        "The loop unpacks rows of numbers",
    ),
    "modules": (
        "items = [F.relu, F.gelu]\nreturn items[x.sum().long()](x)",
        "The function does not show what the list holds, or indexes it by an expression",
    ),
    "a slice": ("n = (x > 0).sum()\nreturn x[:, :n]", "The length of the slice depends on the value of a tensor"),
}


def inputs() -> tuple[object, ...]:
    import torch

    return (torch.randn(4, 8, requires_grad=True),)


@pytest.mark.torch
@pytest.mark.parametrize("body", KEPT.values(), ids=KEPT)
def test_a_tensor_takes_the_place_of_its_number(body: str, tmp_path: Path) -> None:
    before = "import numpy as np\n\n" + forward(body)
    assert_same(before, change(tmp_path, before), inputs)


@pytest.mark.parametrize(("body", "reason"), DECLINED.values(), ids=DECLINED)
def test_what_has_to_be_a_number_is_declined(body: str, reason: str, tmp_path: Path) -> None:
    found = proposed(tmp_path, "import numpy as np\n\n" + forward(body))
    assert [each for each in found if isinstance(each, Proposal)] == []
    assert any(reason in each.reason for each in found if isinstance(each, Declined)), found
