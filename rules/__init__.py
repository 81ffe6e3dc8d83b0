"""The rules, one hazard each: `load()` finds them by walking the folders, one for each family of codes.

A rule is a module that holds `RULE`, and a Markdown file beside it with its page and samples. Files that start with an
underscore are shared helpers; no rule imports another rule.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator

from tcready.static.diagnostics.rule import Rule


def load() -> tuple[Rule, ...]:
    """Every rule, by code. Raises ValueError if two files claim one code."""
    found: dict[str, Rule] = {}
    for name in _find_modules(__path__, __name__):
        rule: Rule = importlib.import_module(name).RULE
        if rule.code in found:
            raise ValueError(f"{name}: {rule.code} is already the code of {found[rule.code].name}")
        found[rule.code] = rule
    return tuple(found[code] for code in sorted(found))


def _find_modules(path: Iterable[str], package: str) -> Iterator[str]:
    """The modules in the folders of a package and in those below them, without helpers."""
    for entry in pkgutil.iter_modules(path):
        name = f"{package}.{entry.name}"
        if entry.ispkg:
            yield from _find_modules(importlib.import_module(name).__path__, name)
        elif not entry.name.startswith("_"):
            yield name
