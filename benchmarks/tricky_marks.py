"""Records where the torch of this interpreter breaks in `fixtures/tricky/`, for a version that is not the pinned one.

    python benchmarks/tricky_marks.py

`fixtures/tricky/marks_by_version.json` then has the files in which it breaks elsewhere than the comments say.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "helpers"))

import dynamo_runs  # noqa: E402
import torch  # noqa: E402
from reading import PINNED  # noqa: E402
from tricky_files import BY_VERSION, Tricky, tricky_files  # noqa: E402


def marks_now(tricky: Tricky, folder: Path) -> dict[int | None, frozenset[str]] | None:
    """The lines that break now, each with the ids that Dynamo gives; None if compiling raises."""
    program = dynamo_runs.Program(tricky.text, "tuple(get_inputs())", train=tricky.train)
    try:
        with torch.set_grad_enabled(tricky.train):
            return dynamo_runs.run(program, folder / tricky.name, calls=1).ids_by_line
    except torch._dynamo.exc.TorchDynamoException:
        return None


def main() -> None:
    logging.disable(logging.CRITICAL)
    version = ".".join(torch.__version__.split(".")[:2])
    if version == "{}.{}".format(*PINNED):
        sys.exit(f"the comments of the files are the marks of torch {version}")
    different: dict[str, dict[str, list[str]] | None] = {}
    with tempfile.TemporaryDirectory() as folder:
        for tricky in tricky_files():
            marks = marks_now(tricky, Path(folder))
            if marks != tricky.marks[PINNED]:
                by_line = marks and {str(line): sorted(ids) for line, ids in marks.items()}
                different[tricky.name] = by_line
                print(tricky.name, different[tricky.name], flush=True)
    recorded = json.loads(BY_VERSION.read_text("utf-8")) if BY_VERSION.exists() else {}
    BY_VERSION.write_text(json.dumps({**recorded, version: different}, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
