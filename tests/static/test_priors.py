"""Priors: the interpreter lowers the confidence of a path by them alone, and by no more than what was counted allows."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tcready.static.domain import priors
from tcready.static.domain.priors import Prior

FOLDER = Path(__file__).parents[2] / "analyzer" / "static"
PRIORS = {name: value for name, value in vars(priors).items() if isinstance(value, Prior)}
MOST = {"low": 0.1, "medium": 0.5}
"""The share of branches that may run although a prior with this confidence says otherwise."""
UNSUPPORTED = {"CASE"}


def test_no_path_loses_confidence_otherwise() -> None:
    files = [*(FOLDER / "interp").glob("*.py"), *(FOLDER / "library").glob("*.py")]
    changed = [
        f"{path.name}:{node.lineno}"
        for path in files
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("replace")
        if any(keyword.arg == "confidence" for keyword in node.keywords)
    ]
    assert len(files) > 20
    assert not changed


@pytest.mark.parametrize("name", sorted(name for name, prior in PRIORS.items() if prior.branches))
def test_what_was_counted_supports_a_prior(name: str) -> None:
    prior = PRIORS[name]
    assert prior.branches is not None
    supported = prior.ran <= MOST[prior.confidence] * prior.branches
    assert supported == (name not in UNSUPPORTED)
