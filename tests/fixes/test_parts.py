"""Attention over parts, and what becomes an operator: written anew, or declined."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from rewriting import assert_same, change, forward, loaded, proposed
from tcready import api
from tcready.fixes.rewriting.suggestions import Proposal, at_line
from tcready.source.edits import apply_edits
from tcready.static.diagnostics.cst_view import Concrete
from tcready.static.diagnostics.rule import Declined
from tcready.static.frontend import source

ATTEND = "def attend(q, k, v, attention_mask=None, is_causal=False):\n"
ATTEND += "    scores = q @ k.transpose(2, 3)\n"
ATTEND += "    scores = scores if attention_mask is None else scores + attention_mask\n"
ATTEND += "    return (scores.softmax(-1) @ v).transpose(1, 2), scores\n\n\n"
SPLIT = "splits = [torch.split(t, sizes.tolist(), dim=2) for t in (q, k, v)]\n"
LOOP = "parts = [attend(a, b, c, attention_mask=None, is_causal=False)[0] for a, b, c in zip(*splits)]\n"
JOIN = "return torch.cat(parts, dim=1)"
APART = dedent("""\
        qs = q.split(sizes.tolist(), 2)
        ks = torch.split(k, sizes.tolist(), dim=-2)
        vs = v.split(sizes.tolist(), 2)
        return torch.cat([F.scaled_dot_product_attention(a, b, c) for a, b, c in zip(qs, ks, vs)], dim=2)""")
DECLINED = {
    "a mask of each part": (SPLIT + LOOP.replace("mask=None", "mask=self.mask") + JOIN, "Each part has its own mask"),
    "causal": (SPLIT + LOOP.replace("False)", "True)") + JOIN, "is causal"),
    "something else of the part": (
        SPLIT + LOOP.replace("c, att", "c, a.shape[2], att") + JOIN,
        "which is computed from the part",
    ),
    "no mask": (SPLIT + LOOP.replace(", attention_mask=None", "") + JOIN, "gets no mask, and may accept none"),
    "The parts are also used by other code": (
        SPLIT + LOOP + "x = len(splits)\n" + JOIN,
        "The parts are not used for one attention each",
    ),
    "read behind": (
        SPLIT + LOOP + "y = torch.cat(parts, dim=1)\nreturn y, parts",
        "The parts are also used by other code",
    ),
    "stacked": (SPLIT + LOOP + "return torch.stack(parts)", "The parts are not used for one attention each"),
    "twice the same": (
        SPLIT + LOOP.replace("a, b, c, att", "a, b, b, att") + JOIN,
        "The parts are not used for one attention each",
    ),
}


def text(body: str) -> str:
    return ATTEND + forward("q = q * 2\n" + body, "q, k, v, sizes")


def inputs(*sizes: int, rows: int = 2, spoiled: bool = False) -> tuple[Any, ...]:
    import torch

    draw = torch.Generator().manual_seed(3)
    tensors = [torch.randn(rows, 2, 7, 4, generator=draw) for _ in range(3)]
    if spoiled:
        tensors[1][0, 0, 0, 0] = float("nan")
    return (*(each.requires_grad_() for each in tensors), torch.tensor(sizes))


@pytest.mark.torch
@pytest.mark.parametrize("body", [SPLIT + LOOP + JOIN, APART], ids=["in a list", "apart"])
def test_one_attention_over_padded_parts_gives_the_same(tmp_path: Path, body: str) -> None:
    """A NaN stays in its part, forwards and backwards; a part may be empty; wrong sizes raise what they raised."""
    import torch

    before = text(body)
    after = change(tmp_path, before)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        assert_same(before, after, lambda: inputs(3, 0, 4))
    with torch._dynamo.config.patch(capture_scalar_outputs=False):
        old, new = loaded(before), loaded(after)
        for case in (inputs(2, 1, 4, spoiled=True), inputs(7, rows=1)):
            grads = []
            for model in (old, new):
                given = [each.detach().requires_grad_(each.is_floating_point()) for each in case]
                out = model(*given)
                out.sum().backward()
                grads.append([out, *(each.grad for each in given[:3])])
            torch.testing.assert_close(grads[1], grads[0], equal_nan=True)
        q, k, v, sizes = inputs(3, 4)
        for wrong in (inputs(3, 3), inputs(8, -1), (q, k[:, :, :1], v, sizes), (q, k, v[:, :, :1], sizes)):
            for model in (old, new):
                with pytest.raises(RuntimeError):
                    model(*wrong)


@pytest.mark.parametrize(("body", "reason"), DECLINED.values(), ids=DECLINED)
def test_other_parts_are_declined(tmp_path: Path, body: str, reason: str) -> None:
    found = proposed(tmp_path, text(body))
    assert not any(isinstance(each, Proposal) and "padded" in each.how for each in found)
    assert any(isinstance(each, Declined) and reason in each.reason for each in found)


CHECK = dedent("""\
    y = x * 2
    if y.max() > 9:
        raise {kind}(f"too large: {{y.max()}}")
    return y + 1""")


LAST = 2
"""The operator is the third way: an assertion in the graph is shorter."""


@pytest.mark.torch
def test_a_check_raises_its_own_exception_where_it_is_compiled(tmp_path: Path) -> None:
    import torch

    before = forward(CHECK.format(kind="ValueError"))
    after = change(tmp_path, before, LAST)
    assert_same(before, after, lambda: (torch.ones(3, requires_grad=True),))
    torch._dynamo.reset()
    for backend in ("eager", "aot_eager"):
        compiled = torch.compile(loaded(after), backend=backend, fullgraph=True)
        compiled(torch.ones(4))
        with pytest.raises(ValueError, match=r"too large: \.\.\."):
            compiled(torch.full((4,), 5.0))


@pytest.mark.parametrize("kind", ["Mine", "KeyboardInterrupt"])
def test_an_exception_that_is_not_built_in_has_no_operator(tmp_path: Path, kind: str) -> None:
    found = proposed(
        tmp_path,
        dedent("""\
        class Mine(Exception): ...


    """)
        + forward(CHECK.format(kind=kind)),
    )
    ways = [each for each in found if isinstance(each, Proposal)]
    assert ways
    assert not any("operator" in each.how for each in ways)


def test_one_operator_serves_two_checks(tmp_path: Path) -> None:
    body = CHECK.format(kind="ValueError").replace(
        "return y + 1", 'if y.min() < -9:\n    raise ValueError("low")\nreturn y'
    )
    once = change(tmp_path, forward(body), LAST)
    twice = change(tmp_path, once, LAST)
    assert once.count("custom_op") == twice.count("custom_op") == 1
    assert twice.count("_value_error_unless(") == 3


MATCH = dedent("""\
    from scipy.optimize import {name}


""")


def test_another_function_of_scipy_is_declined(tmp_path: Path) -> None:
    found = proposed(tmp_path, MATCH.format(name="minimize") + forward("y = x * 2\nreturn minimize(y, y)"))
    assert any(isinstance(each, Declined) and "does not know the shapes and types" in each.reason for each in found)


MADE = """\
class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Buffer(torch.ones(8))

    @torch.no_grad()
    def forward(self, x):
        # all of it
        return x * self.weight


"""


@pytest.mark.torch
def test_a_module_made_in_compiled_code_is_traced_with_its_method_without_gradients(tmp_path: Path) -> None:
    import torch

    head, _, body = forward("y = x * 2\nreturn Scale()(y) + y").partition("class Model")
    before = f"{head}{MADE}class Model{body}"
    after = change(tmp_path, before)
    assert "# all of it" in after
    assert "@torch.no_grad()" not in after
    assert_same(before, after, lambda: (torch.ones(2, 8, requires_grad=True),))


@pytest.mark.torch
@pytest.mark.parametrize("stem", ["model", "2d-model", "prim", "_net", "aten_net"])
def test_torch_takes_the_name_of_an_operator(stem: str, tmp_path: Path) -> None:
    """It is the file's, with letters before what torch refuses, or keeps for itself."""
    import torch

    text = forward(CHECK.format(kind="ValueError"))
    path = tmp_path / f"{stem}.py"
    path.write_text(text)
    line = next(number for number, each in enumerate(text.splitlines(), 1) if "if " in each)
    ways = at_line(Concrete(source.of_text(path, text)), path.name, line, api.load_rules())
    found = next(each for each in ways if isinstance(each, Proposal) and "operator" in each.how)
    assert loaded(apply_edits(text, found.edits))(torch.ones(4)).shape == (4,)
