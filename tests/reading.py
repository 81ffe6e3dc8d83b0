"""The static half for tests: `read` over given rules, through the same entry as production."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcready import rules as rule_files
from tcready.options import ReadOptions, ReportOptions
from tcready.schema import StaticResult, Tool
from tcready.static import driver
from tcready.static.driver import RuleSet
from tcready.static.rule import Rule

RULES = rule_files.load()


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
