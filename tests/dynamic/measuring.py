"""Runs one process of a bench on a target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tcready.dynamic import RunRequest, bench
from tcready.portable.options import RunOptions
from tcready.schema.bench import Arm, BenchAnswer, BenchKind, BenchRequest
from tcready.schema.codec import as_json, from_json

BENCH = Path(__file__).resolve().parents[2] / "fixtures" / "bench"
CAPTURED = Arm("captured", 'model = torch.compile(model, backend="aot_eager")')
"""Compiled by Dynamo and AOTAutograd alone: what is looked for shows there too, and no compiler is waited for."""


def measure(
    kind: BenchKind, target: str, *arms: Arm, root: Path = BENCH, asked: dict[str, Any] | None = None, **options: Any
) -> BenchAnswer:
    """`asked` are fields of BenchRequest, `options` those of RunOptions."""
    request = BenchRequest(kind, arms, **(asked or {}))
    run = RunRequest(target, RunOptions(**{"timeout": 300, **options}), str(root))
    answer = bench(run, request)
    assert from_json(BenchAnswer, as_json(answer)) == answer
    return answer
