"""Short IDs of findings: the beginnings of fingerprints, like short hashes of commits in git. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

LEAST = 7
"""Minimum digits of a short name; more if needed to distinguish all findings of a report."""


def short_names(prints: Iterable[str]) -> Mapping[str, str]:
    """Return each fingerprint with its short name: `9f3c2a1`, and `9f3c2a1-2` for the second of several equal ones."""
    parted = {print_: print_.partition("-") for print_ in prints}
    starts = sorted({start for start, _, _ in parted.values()})
    alike = [_alike(one, other) for one, other in itertools.pairwise(starts)]
    size = max([LEAST, *(count + 1 for count in alike)])
    return {print_: start[:size] + dash + number for print_, (start, dash, number) in parted.items()}


def named_by(text: str, prints: Iterable[str]) -> list[str]:
    """Return the fingerprints, in order, that `text` names: it is one, or its beginning.

    Of several equal ones it names the first, which has no number, unless it has one itself.
    """
    start, _, number = text.strip().lower().partition("-")
    found = {print_ for print_ in prints if start and print_.partition("-")[0].startswith(start)}
    numbered = {print_ for print_ in found if print_.partition("-")[2] == number}
    return sorted(numbered or (set() if number else found))


def _alike(one: str, other: str) -> int:
    """Return the length of the common prefix of both."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
