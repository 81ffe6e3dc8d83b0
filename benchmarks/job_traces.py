"""Traces of jobs, for the tests: models of `fixtures/models`, run by a plain script under TORCH_TRACE.

    python benchmarks/job_traces.py --out fixtures/traces

Each model is copied into a folder of its own and called three times under `torch.compile`, as any script would do it;
tcready has no part in that. What torch wrote is kept as it is, but for the folders of this machine, which become `/job`
and `/env`, and for what no reader of breaks wants (`DROPPED`, `SETTINGS`, `EMPTIED`): most of it is code of kernels.
Beside each trace stands what a direct run of `tcready check --run` shows of the same model (`seen.json`), for the tests
to hold the two together.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = ("vq_logging", "ema_tracker", "moe_router")
SCRIPT = """\
import sys

import torch

sys.path.insert(0, sys.argv[1])
from models import {name} as job

torch.manual_seed(0)
model = job.Model(*job.get_init_inputs()).eval()
compiled = torch.compile(model, backend={backend!r})
for _ in range(3):
    torch.manual_seed(1)
    with torch.no_grad():
        compiled(*job.get_inputs())
"""
DROPPED = re.compile(
    r'\] \{"(?:inductor_\w+|aot_\w*graph\w*|chromium_event|describe_\w+|dump_file|graph_dump|guard_added\w*|create_\w+|'
    r"compute_\w+|expression_created|link|dynamo_guards)\"|"
    r'"name": "(?!dynamo_graph_break_reason|recompile_reasons|dynamo_error|torch_version)[^"]*", "encoding"'
)
"""Events that are left out."""
SETTINGS = ("inductor_config", "dynamo_config", "compiler_config", "functorch_config", "graph_node_shapes")
"""Fields of a row of metrics that are left empty: most of its text."""
EMPTIED = '{"dynamo_cpp_guards_str"'
"""An event whose text is left out."""
EVENT = re.compile(r"^V\d{4} [^\n]*?\] \{")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--backend", default="inductor")
    given = parser.parse_args()
    for name in given.models:
        folder = given.out / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        text = traced(name, given.backend)
        with gzip.GzipFile(folder / "dedicated_log_torch_trace_job.log.gz", "wb", mtime=0) as file:
            file.write(text.encode())
        (folder / "seen.json").write_text(json.dumps(direct(name), indent=1) + "\n")
    return 0


def traced(name: str, backend: str) -> str:
    """What torch writes of a job that runs one model."""
    with tempfile.TemporaryDirectory(prefix="job-") as made:
        job = Path(made).resolve()
        (job / "app" / "models").mkdir(parents=True)
        shutil.copy(ROOT / "fixtures" / "models" / f"{name}.py", job / "app" / "models")
        (job / "app" / "train.py").write_text(SCRIPT.format(name=name, backend=backend))
        environment = {
            **os.environ,
            "TORCH_TRACE": str(job / "trace"),
            "TORCHINDUCTOR_CACHE_DIR": str(job / "cache"),
            "PYTHONHASHSEED": "0",
        }
        subprocess.run([sys.executable, "train.py", str(job / "app")], cwd=job / "app", env=environment, check=True)
        (file,) = (job / "trace").glob("dedicated_log_torch_trace_*.log")
        return neutral(file.read_text("utf-8"), job)


def neutral(text: str, job: Path) -> str:
    """The events that are kept, without this machine's folders, and with the digests of what they are then."""
    import torch

    folders = {
        str(Path(torch.__file__).parent.parent): "/env/lib/python3.11/site-packages",
        sysconfig.get_path("purelib"): "/env/lib/python3.11/site-packages",
        sysconfig.get_path("stdlib"): "/env/lib/python3.11",
        str(Path(os.__file__).parent): "/env/lib/python3.11",
        str(job): "/job",
    }
    kept = []
    for head, payload in parted(text):
        if DROPPED.search(head):
            continue
        head = without_settings(head)
        payload = "" if EMPTIED in head else payload
        for folder, shown in folders.items():
            head, payload = head.replace(folder, shown), payload.replace(folder, shown)
        digest = hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()
        head = re.sub(r'"has_payload": "\w+"', f'"has_payload": "{digest}"', head)
        lines = "".join(f"\n\t{line}" for line in payload.split("\n")) if '"has_payload"' in head else ""
        kept.append(f"{head}{lines}\n")
    return "".join(kept)


def without_settings(head: str) -> str:
    """A row of metrics without the texts of settings; any other event as it is."""
    prefix, row, rest = head.partition('{"compilation_metrics"')
    if not row:
        return head
    data = json.loads(row + rest)
    data["compilation_metrics"] |= dict.fromkeys(SETTINGS)
    return prefix + json.dumps(data)


def parted(text: str) -> Iterator[tuple[str, str]]:
    """Each event's own line, and its payload."""
    head: str | None = None
    payload: list[str] = []
    for line in text.split("\n"):
        if line.startswith("\t"):
            payload.append(line[1:])
            continue
        if head is not None:
            yield head, "\n".join(payload)
        head, payload = (line, []) if EVENT.match(line) else (None, [])
    if head is not None:
        yield head, "\n".join(payload)


def direct(name: str) -> dict[str, object]:
    """What a run by tcready shows of the same model, as far as a trace can show it."""
    from tcready import observe
    from tcready.schema.codec import as_json

    seen = as_json(observe(f"models/{name}.py::Model", root=ROOT / "fixtures"))
    return {key: seen[key] for key in ("break_sites", "skipped_frames", "recompiles", "graphs")}


if __name__ == "__main__":
    raise SystemExit(main())
