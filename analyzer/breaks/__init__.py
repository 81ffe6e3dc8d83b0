"""Pages on graph breaks and recompilations that a run reports and no rule predicts, one kind per file.

`load()` finds the pages by walking this folder. Every type of PyTorch's registry is on one page, or is claimed by
exactly one rule. A type that several rules claim is on a page too, because a run does not show which of them fits.
The examples of the pages are tests.
"""

from __future__ import annotations

import importlib
import pkgutil

from tcready.breaks.page import Page
from tcready.schema.static import RuleText


def load() -> tuple[Page, ...]:
    """Every page, by name. Raises ValueError if two pages speak of one type."""
    files = [entry.name for entry in pkgutil.iter_modules(__path__) if entry.name != "page"]
    pages: list[Page] = [importlib.import_module(f"{__name__}.{name}").PAGE for name in sorted(files)]
    seen: dict[str, str] = {}
    for page in pages:
        for gb_id in page.gb_ids:
            if gb_id in seen:
                raise ValueError(f"{gb_id} is on two pages: {seen[gb_id]} and {page.name}")
            seen[gb_id] = page.name
    return tuple(pages)


def texts() -> tuple[RuleText, ...]:
    """What the pages say of each type, whose id is the code, and of each finding of a run that is of no type, whose name
    is."""
    return tuple(page.text(code) for page in load() for code in (*page.gb_ids, *page.findings))
