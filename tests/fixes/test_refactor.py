"""Rewrites: what is written anew gives what it gave, without a break; what might not is declined, or not called safe."""

from __future__ import annotations

import subprocess
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from tcready import api
from tcready.fixes.rewriting.suggestions import Proposal, for_finding
from tcready.source.edits import patch
from tcready.static.diagnostics.cst_view import Concrete
from tcready.static.diagnostics.rule import Declined
from tcready.static.frontend import source

HEAD = dedent("""\
    import torch
    from torch import nn


    class Model(nn.Module):
        def forward(self, x):
""")
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


def proposed(folder: Path, body: str) -> list[Proposal | Declined]:
    """What the rules would write anew in a model whose forward is `body`."""
    (folder / "model.py").write_text(HEAD + body)
    report = api.check(["model.py"], run=False, root=folder)
    concrete = Concrete(source.read(folder / "model.py"))
    rules = {rule.code: rule for rule in api.load_rules()}
    return [p for each in report.findings for p in for_finding(concrete, rules[each.rule or ""], each)]


@pytest.mark.torch
@pytest.mark.parametrize("body", REWRITTEN.values(), ids=REWRITTEN)
def test_a_change_applies_and_gives_the_same_without_a_break(body: str, tmp_path: Path) -> None:
    import torch

    change = proposed(tmp_path, body)[0]
    assert isinstance(change, Proposal)
    diff = patch({"model.py": HEAD + body}, change.edits)
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


def test_a_check_shows_what_is_safe_alone(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(HEAD + "        print(x)\n        return x if x.sum() > 0 else -x\n")
    found = api.check(["model.py"], run=False, root=tmp_path).findings
    assert [bool(each.fix and each.fix.edits) for each in found] == [True, False]


def test_only_the_lines_of_the_statement_change(tmp_path: Path) -> None:
    change, setting = proposed(tmp_path, REWRITTEN["print"])
    assert isinstance(change, Proposal)
    assert isinstance(setting, Proposal)
    assert (setting.edits, setting.settings) == ((), ("reorderable_logging_functions=print",))
    assert patch({"model.py": HEAD + REWRITTEN["print"]}, change.edits).splitlines() == [
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
