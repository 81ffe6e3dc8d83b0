"""What a different result of compiled code is narrowed down to."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from tcready import api
from tcready.dynamic.worker.torch_internals import compiling_checks
from tcready.reports.shared.wording import parity_cause_words
from tcready.schema.run import ParityCause

pytestmark = pytest.mark.torch


def cause_in(folder: Path, text: str) -> ParityCause | None:
    (folder / "model.py").write_text(dedent(text))
    (target,) = api.check(["model.py::Model"], root=folder, run=True).targets
    assert [stage.stage for stage in target.stages if stage.reason == "mismatch"] == ["parity"]
    return target.observation.parity_cause


CHECKED = """\
    import torch
    from torch import nn
    from torch.compiler import is_compiling


    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
            self.kept = []
            for block in self.blocks:
                block.register_forward_hook(self.keep)

        def keep(self, module, args, output):
            if is_compiling():
                return
            self.kept.append(output)

        def forward(self, x):
            self.kept.clear()
            x = x + 1 if torch.compiler.is_compiling() else 1 + x
            for block in self.blocks:
                x = block(x)
            return x + sum(self.kept)


    def get_inputs():
        return [torch.randn(4, 8)]
"""


def test_a_check_whether_it_is_compiled_is_named(tmp_path: Path) -> None:
    """The check in `forward` makes no difference."""
    cause = cause_in(tmp_path, CHECKED)
    assert cause is not None
    assert cause.place is not None
    assert (cause.kind, cause.place.path, cause.place.line, cause.caller) == ("compiling_check", "model.py", 15, None)
    assert parity_cause_words(cause) == (
        "eager code gives another result, too, if the check `is_compiling()` at model.py:15 is true"
    )


TOGETHER = """\
    import torch
    from torch import nn


    class Model(nn.Module):
        def forward(self, x):
            first = torch.compiler.is_compiling()
            second = torch.compiler.is_compiling()
            return x * 2 if first and second else x


    def get_inputs():
        return [torch.randn(4, 8)]
"""


def test_checks_that_change_the_result_only_together_are_not_named_alone(tmp_path: Path) -> None:
    cause = cause_in(tmp_path, TOGETHER)
    assert cause == ParityCause("compiling_check", None)
    assert parity_cause_words(cause) == (
        "eager code gives another result, too, if all checks of `is_compiling()` are true"
    )


HIDDEN = """\
    import torch
    from torch import nn

    def factor():
        return 2.0 if torch.compiler._is_compiling_flag else 1.0  # is no call of a check


    class Scale(nn.Module):
        def forward(self, x):
            return x * SCALE


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(8, 8)
            self.scale = Scale()

        def forward(self, x):
            return self.scale(self.lin(x))


    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(8, 8)
            self.blocks = nn.ModuleList(Block() for _ in range(2))
            self.first.register_forward_hook(lambda module, args, output: output + 1)
            self.first.register_forward_hook(lambda module, args, output: output * HOOK)

        def forward(self, x):
            x = self.first(x)
            for block in self.blocks:
                x = block(x)
            return x


    def get_inputs():
        return [torch.randn(4, 8)]
"""


def test_a_hook_is_named(tmp_path: Path) -> None:
    cause = cause_in(tmp_path, HIDDEN.replace("SCALE", "1.0").replace("HOOK", "factor()"))
    assert cause is not None
    assert cause.place is not None
    assert (cause.kind, cause.module, cause.place.line) == ("hook", "first", 29)
    assert parity_cause_words(cause) == ("without the hook at model.py:29 of `first`, compiled and eager code agree")


def test_the_smallest_module_is_named(tmp_path: Path) -> None:
    cause = cause_in(tmp_path, HIDDEN.replace("SCALE", "factor()").replace("HOOK", "1.0"))
    assert cause is not None
    assert cause.place is not None
    assert (cause.kind, cause.module, cause.place.line) == ("module", "blocks.0.scale", 9)
    assert parity_cause_words(cause) == (
        "compiling `blocks.0.scale` alone changes the result (its forward is at model.py:9)"
    )


def test_checks_answer_as_before_afterwards() -> None:
    import torch
    from torch.compiler import is_compiling

    checks: list[str] = []
    with compiling_checks.answered_checks(lambda check: bool(checks.append(check.path)) or True):
        assert is_compiling()
        assert torch.compiler.is_dynamo_compiling()
        assert torch._dynamo.is_compiling()
    assert set(checks) == {__file__}
    assert not is_compiling()
    assert torch.compile(lambda x: x + is_compiling(), backend="eager")(torch.zeros(1)).item() == 1
