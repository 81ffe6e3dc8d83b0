"""From the tensors of a call, or what the inputs name, to the units of throughput. Torch is not loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tcready.dynamic.worker.bench.items import TensorArgument, derive_items
from tcready.schema.bench import Items


def ids(name: str = "input_ids", *shape: int) -> TensorArgument:
    return TensorArgument(name, shape or (4, 512), "integer")


def floats(name: str, *shape: int) -> TensorArgument:
    return TensorArgument(name, shape, "floating")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            [ids()],
            [
                ("tokens", 2048, "tokens: 4 x 512 input_ids"),
                ("samples", 4, "samples: 4, the first dimension of input_ids"),
            ],
        ),
        (
            [ids("tokens", 2, 8)],
            [("tokens", 16, "tokens: 2 x 8 tokens"), ("samples", 2, "samples: 2, the first dimension of tokens")],
        ),
        # Called by its name it need not be the first, and the key of a mapping is a name too.
        (
            [floats("mask", 4, 1, 8, 8), ids("batch['input_ids']", 4, 8)],
            [
                ("tokens", 32, "tokens: 4 x 8 batch['input_ids']"),
                ("samples", 4, "samples: 4, the first dimension of batch['input_ids']"),
            ],
        ),
        ([floats("x", 8, 3, 224, 224)], [("images", 8, "images: 8 x 3 x 224 x 224 x")]),
        (
            [floats("sample", 2, 4, 64, 64), floats("states", 2, 77, 768)],
            [("images", 2, "images: 2 x 4 x 64 x 64 sample")],
        ),
        # Three tensors of 4 dimensions are queries, keys and values; 64 channels are features.
        (
            [floats(name, 2, 4, 16, 64) for name in ("q", "k", "v")],
            [("samples", 2, "samples: 2, the first dimension of q, k, v")],
        ),
        ([floats("x", 2, 64, 8, 8)], [("samples", 2, "samples: 2, the first dimension of x")]),
        ([floats("x", 16, 32), ids("labels", 16)], [("samples", 16, "samples: 16, the first dimension of x, labels")]),
        (
            [floats(f"x{at}", 4, 2) for at in range(5)],
            [("samples", 4, "samples: 4, the first dimension of all 5 tensors")],
        ),
        # A tensor without dimensions is no reason against a batch.
        ([floats("x", 4, 2), floats("scale")], [("samples", 4, "samples: 4, the first dimension of x")]),
        # Nodes and edges of a graph share nothing, vectors have no batch, nothing is in an empty tensor.
        ([floats("x", 10, 16), ids("edge_index", 2, 40)], []),
        ([floats("x", 10)], []),
        ([floats("x", 0, 3)], []),
        ([TensorArgument("mask", (4, 8), "other")], [("samples", 4, "samples: 4, the first dimension of mask")]),
        ([], []),
    ],
)
def test_the_first_rule_that_fits_names_the_unit(
    arguments: list[TensorArgument], expected: list[tuple[str, float, str]]
) -> None:
    found = derive_items(arguments, "infer")
    assert [(each.unit, each.count, each.label) for each in found] == expected


def test_a_training_step_has_all_its_forwards_and_is_a_unit() -> None:
    assert derive_items([ids("ids", 2, 8)], "train", 3) == (
        Items("tokens", 48, "tokens: 2 x 8 ids, 3 forwards a step"),
        Items("samples", 6, "samples: 2, the first dimension of ids, 3 forwards a step"),
        Items("steps", 1.0, "steps: one a call"),
    )
    assert [each.unit for each in derive_items([], "train")] == ["steps"]


def test_the_rules_do_without_torch() -> None:
    code = "import sys, tcready.dynamic.worker.bench.items; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
