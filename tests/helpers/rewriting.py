"""What rules would write anew in a little file, and the check that it gives what it gave."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reading import PINNED_TEXT
from tcready import api
from tcready.fixes.rewriting.suggestions import Proposal, for_finding
from tcready.source.edits import apply_edits
from tcready.static.diagnostics.cst_view import Concrete
from tcready.static.diagnostics.rule import PRELUDE, Declined
from tcready.static.frontend import source


def proposed(folder: Path, text: str) -> list[Proposal | Declined]:
    """What the rules would write anew in a file, finding by finding."""
    (folder / "model.py").write_text(text)
    report = api.check(["model.py"], run=False, root=folder, torch_version=PINNED_TEXT)
    concrete = Concrete(source.read(folder / "model.py"))
    rules = {rule.code: rule for rule in api.load_rules()}
    return [p for each in report.findings for p in for_finding(concrete, rules[each.rule or ""], each)]


def forward(body: str, arguments: str = "x", init: str = "") -> str:
    """A file with a model whose forward is `body`, unindented."""
    made = f"    def __init__(self):\n        super().__init__()\n{_indented(init)}\n" if init else ""
    return f"{PRELUDE}class Model(nn.Module):\n{made}    def forward(self, {arguments}):\n{_indented(body)}"


def _indented(body: str) -> str:
    return "".join(f"        {line}\n" for line in body.strip("\n").split("\n"))


def change(folder: Path, text: str, number: int = 0) -> str:
    """The file after the proposal of that number, of those that change it."""
    found = [each for each in proposed(folder, text) if isinstance(each, Proposal) and each.edits]
    return apply_edits(text, found[number].edits)


def loaded(text: str) -> Any:
    names: dict[str, Any] = {}
    exec(compile(text, "model.py", "exec"), names)
    return names["Model"]()


def assert_same(before: str, after: str, inputs: Callable[[], tuple[Any, ...]]) -> None:
    """The second file compiles in one piece, without the settings that a full graph switches on, and gives what the first
    gives: values, dtypes, gradients, and what becomes of the inputs and of the state."""
    import torch
    from torch._dynamo.testing import CompileCounter

    old, new, compiled = loaded(before), loaded(after), loaded(after)
    torch._dynamo.reset()
    frames = CompileCounter()
    run = torch.compile(compiled, backend=frames)
    torch._dynamo.utils.counters.clear()
    outcomes = [_outcome(model, inputs) for model in (old, new, run)]
    assert not torch._dynamo.utils.counters["graph_break"], dict(torch._dynamo.utils.counters["graph_break"])
    assert frames.frame_count == 1
    run(*inputs())
    assert frames.frame_count == 1  # nor is it compiled again
    for outcome in outcomes[1:]:
        torch.testing.assert_close(outcome, outcomes[0], equal_nan=True)


def _outcome(model: Any, inputs: Callable[[], tuple[Any, ...]]) -> list[Any]:
    import torch

    torch.manual_seed(0)
    given = inputs()
    tensors = [t for t in given if isinstance(t, torch.Tensor)]
    with warnings.catch_warnings():  # of `float(t)` where t has a gradient
        warnings.simplefilter("ignore")
        out = model(*given)
    total = out.double().sum()
    if total.requires_grad:
        total.backward()
    gradients = [t.grad if t.grad is not None else torch.zeros(0) for t in tensors]
    return [out, *gradients, *tensors]
