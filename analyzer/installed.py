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


def page_of(rule: Rule) -> str:
    """The page of a rule as text, with what its rewrite makes of a sample, or why there is no rewrite."""
    from tcready.refactor.example import example

    made = example(rule)
    if made is not None:
        how = " ".join(f"{each}." for each in made.how)
        of = "" if made.before == rule.before else f"Before:\n\n{_indented(made.before)}\n\nAfter:\n\n"
        return f"{rule.document}\n## Rewrite\n\n{how}\n\n{of}{_indented(made.after)}\n"
    return f"{rule.document}\n## Rewrite\n\n{rule.no_rewrite}\n" if rule.no_rewrite else rule.document


def _indented(code: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in code.splitlines())


def _suggest(path: str, rule: Rule, place: Located) -> tuple[Edit, ...]:
    from tcready.refactor.suggest import suggest

    return suggest(path, rule, place)


def rule_set() -> RuleSet:
    from tcready.static.driver import RuleSet

    engine = ("tcready.static.engine", "tcready.static.engine.models")
    packages = ("tcready", "tcready.schema", "tcready.static", *engine, "tcready.rules", "tcready.refactor")
    return RuleSet(load_rules, tool, _suggest, packages)
