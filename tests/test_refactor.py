"""Suggested changes: what is rewritten gives what it gave, without a break; what might not is left alone."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tcready import api

HEAD = "import torch\nfrom torch import nn\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
REWRITTEN = {
    "two returns": "        y = x * 2\n        if y.sum() > 0:\n            return y + 1\n        else:\n            return y - 1\n",
    "early return": "        y = x * 2\n        # why\n        if y.sum() > 0:\n            return y + 1  # up\n        return -y\n",
    "assignment": "        if x.sum() > 0:\n            x = x * 2\n        return x\n",
    "two assignments": (
        "        if x.mean() > 0:\n            y = (x + 1)\n        else:\n            y = x - 1\n        return y\n"
    ),
    "expression": "        return (x + 1) if x.sum() > 0 else -x\n",
    "print": "        y = x + 1\n        # say it\n        print(y.shape)\n        return y\n",
}
LEFT_ALONE = {
    "lists": "        w = [1] if x.any() else [2]\n        return x * w[0]\n",
    "none": "        return x if x.sum() > 0 else None\n",
    "a slice": "        if x.sum() > 0:\n            x = x[:1]\n        return x\n",
    "other names": "        y = x.mean(0)\n        return x if x.sum() > 0 else y\n",
    "a number": "        if x.sum() > 1:\n            x = 1.0\n        return x\n",
    "a number on its own": "        n = 3\n        n = n + 1 if x.sum() > 0 else n\n        return x * n\n",
    "a call": "        return torch.cat([x, x]) if x.sum() > 0 else x\n",
    "two statements": "        if x.sum() > 0:\n            x = x + 1\n            x = x * 2\n        return x\n",
    "elif": "        if x.shape[0] > 9:\n            return x\n        elif x.sum() > 0:\n            return x + 1\n        return -x\n",
    "print as a value": "        y = print(x)\n        return x\n",
}


def diffs(folder: Path, body: str) -> list[str | None]:
    (folder / "model.py").write_text(HEAD + body)
    found = api.check(["model.py"], run=False, root=folder).findings
    assert found
    return [finding.fix.diff if finding.fix else None for finding in found]


@pytest.mark.dynamo
@pytest.mark.parametrize("body", REWRITTEN.values(), ids=REWRITTEN)
def test_a_change_applies_and_gives_the_same_without_a_break(
    body: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    (diff,) = diffs(tmp_path, body)
    assert diff is not None
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=diff, text=True, check=True)
    before, after = (model(source) for source in (HEAD + body, (tmp_path / "model.py").read_text()))
    torch._dynamo.reset()
    compiled = torch.compile(after, backend="eager", fullgraph=True)
    for sign in (1, -1):
        x = sign * torch.rand(4, 8)
        assert torch.equal(before(x), after(x))
        assert torch.equal(before(x), compiled(x))


def model(source: str) -> Any:
    names: dict[str, Any] = {}
    exec(compile(source, "model.py", "exec"), names)
    return names["Model"]()


@pytest.mark.parametrize("body", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_what_might_change_the_result_is_not_suggested(body: str, tmp_path: Path) -> None:
    assert set(diffs(tmp_path, body)) == {None}


def test_only_the_lines_of_the_statement_change(tmp_path: Path) -> None:
    (diff,) = diffs(tmp_path, REWRITTEN["print"])
    assert diff is not None
    assert diff.splitlines() == [
        "--- a/model.py",
        "+++ b/model.py",
        "@@ -7,4 +7,5 @@",
        "         y = x + 1",
        "         # say it",
        "-        print(y.shape)",
        "+        if not torch.compiler.is_compiling():",
        "+            print(y.shape)",
        "         return y",
    ]
