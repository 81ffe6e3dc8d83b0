"""The static half for tests: `read` over given rules, through the same entry as production."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tcready import rules as rule_files
from tcready.portable.options import ReadOptions, ReportOptions
from tcready.schema.report import Tool
from tcready.schema.static import StaticResult
from tcready.static import driver
from tcready.static.diagnostics.rule import Rule
from tcready.static.driver import RuleSet
from tcready.static.library.torch_versions import version_of

RULES = rule_files.load()
_CONSTRAINTS = (Path(__file__).parents[2] / "constraints.txt").read_text("utf-8").splitlines()
PINNED = version_of(next(line for line in _CONSTRAINTS if line.startswith("torch==")).removeprefix("torch=="))
"""The torch that samples are run with, and so the one whose Dynamo is predicted for them."""
PINNED_TEXT = "{}.{}".format(*PINNED)

# A model in two files: a tensor `if`, and a helper that breaks once it is edited.
NET = """\
import torch
from torch import nn
from helper import scaled


class Net(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        return scaled(x)
"""
HELPER = "def scaled(x):\n    return x * 2\n"
BREAKING = "def scaled(x):\n    return x * x.item()\n"


def read(
    targets: Sequence[str],
    options: ReadOptions,
    rules: Sequence[Rule] = RULES,
    report: ReportOptions | None = None,
    suggest: Any = None,
) -> StaticResult:
    """What `driver.read` says in this process, without a cache."""
    return driver.read(targets, options, RuleSet(lambda: tuple(rules), _tool, suggest), report).result


def _tool() -> Tool:
    return Tool("tcready", "0")
