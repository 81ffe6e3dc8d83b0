"""A sample of wrong patches and right refactorings of fixture models: `prove` refuses the one and accepts the other.

`benchmarks/proof_mutants.py` is the long tier, with thousands of patches.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import right_patches
import witness
import wrong_patches
from rewriting_models import Model, Rewrite, candidates, carried_out, models, patch_between
from tcready import api

pytestmark = [pytest.mark.dynamo, pytest.mark.slow]
