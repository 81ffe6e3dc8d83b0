"""Kinds of patches that the prover is tried on: each applies to some fixture model, and gives Python."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest
import right_patches
import wrong_patches
from rewriting_models import Rewrite, candidates, carried_out, models


@pytest.mark.parametrize("kinds", [wrong_patches.KINDS, right_patches.KINDS], ids=["wrong", "right"])
def test_each_kind_applies_to_a_model(kinds: Mapping[str, Rewrite]) -> None:
    assert len(kinds) >= 30
    missing = dict(kinds)
    for model in models():
        for kind, site, other in candidates(model.text, dict(missing)):
            if kind in missing and carried_out(site, other) is not None:
                del missing[kind]
        if not missing:
            break
    assert not missing


def test_the_witness_search_shares_no_code_with_the_prover() -> None:
    tree = ast.parse((Path(__file__).parents[1] / "helpers" / "witness.py").read_text("utf-8"))
    imported = {each.module or "" for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)} | {
        name.name for each in ast.walk(tree) if isinstance(each, ast.Import) for name in each.names
    }
    assert "torch" in imported
    assert not {each for each in imported if each.startswith("tcready")}
