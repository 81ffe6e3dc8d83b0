"""The rules, one hazard a file: `load()` finds them by walking this folder.

A file that holds `RULE` is a rule. Files that start with an underscore are shared helpers; no rule imports another
rule.
"""

from __future__ import annotations

import importlib
import pkgutil

from tcready.static.rule import Rule


def load() -> tuple[Rule, ...]:
    """Every rule, by code. Raises ValueError if two files claim one code."""
    found: dict[str, Rule] = {}
    for entry in pkgutil.iter_modules(__path__):
        if entry.name.startswith("_"):
            continue
        rule: Rule = importlib.import_module(f"{__name__}.{entry.name}").RULE
        if rule.code in found:
            raise ValueError(f"{entry.name}: {rule.code} is already the code of {found[rule.code].name}")
        found[rule.code] = rule
    return tuple(found[code] for code in sorted(found))
