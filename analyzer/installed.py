"""The tcready that is installed: its version, and its rules with what makes their diffs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from tcready.schema import Tool

if TYPE_CHECKING:
    from tcready.schema import Edit
    from tcready.static.concrete import Located
    from tcready.static.driver import RuleSet
    from tcready.static.rule import Rule


def load_rules() -> tuple[Rule, ...]:
    """Every rule, by code."""
    from tcready import rules

    return rules.load()


def version() -> str:
    """The version of tcready that is installed."""
    # `importlib.metadata` takes longer to load than a warm check
    for folder in filter(os.path.isdir, sys.path):
        for name in os.listdir(folder):
            if name.startswith("tcready-") and name.endswith(".dist-info"):
                return name.removeprefix("tcready-").removesuffix(".dist-info")
    from importlib.metadata import version as installed

    return installed("tcready")


def tool() -> Tool:
    return Tool("tcready", version())


def _suggest(path: str, rule: Rule, place: Located) -> tuple[Edit, ...]:
    from tcready.refactor.suggest import suggest

    return suggest(path, rule, place)


def rule_set() -> RuleSet:
    from tcready.static.driver import RuleSet

    engine = ("tcready.static.engine", "tcready.static.engine.models")
    packages = ("tcready", "tcready.schema", "tcready.static", *engine, "tcready.rules", "tcready.refactor")
    return RuleSet(load_rules, tool, _suggest, packages)
