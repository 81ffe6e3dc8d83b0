"""Choose which cases of a parametrized test run by default. The others are marked `long`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(share: int, cases: Iterable[Any]) -> list[Any]:
    """Return all cases as parameters; every one but the first of each `share` is marked `long`. A tuple is the values of
    several arguments."""
    found = []
    for number, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        found.append(pytest.param(*values, marks=pytest.mark.long if number % share else ()))
    return found
