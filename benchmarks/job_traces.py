"""Traces of jobs, for the tests: models of `fixtures/models`, run by a plain script under TORCH_TRACE.

    python benchmarks/job_traces.py --out fixtures/traces

Each model is copied into a folder of its own and called three times under `torch.compile`, as any script would do it;
tcready has no part in that. What torch wrote is kept as it is, but for the folders of this machine, which become `/job`
and `/env`, and for what no reader of breaks wants (`DROPPED`, `SETTINGS`, `EMPTIED`): most of it is code of kernels.

    python benchmarks/job_traces.py --ranks --out fixtures/rank_traces

makes the trace of a job of two ranks in the same way: `fixtures/rank_traces/models/ranks.py`, in a process group that
does not communicate, with `INDUCTOR_PROVENANCE`. Its events of collectives, caches, steps and kernels are kept as well.

Beside each trace of one process stands what a direct run of `tcready check --run` shows of the same model
(`seen.json`), for the tests to hold the two together.
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
RANKS = """\
import os
import sys

import torch
from torch import distributed
from torch.testing._internal.distributed.fake_pg import FakeStore

sys.path.insert(0, sys.argv[1])
from models import ranks as job

distributed.init_process_group("fake", store=FakeStore(), rank=int(os.environ["RANK"]), world_size=2)
torch.manual_seed(0)
model = job.Block().eval()
compiled = torch.compile(model)
with torch.no_grad():
    for step in range(3):
        model.steps = min(step, 1)
        compiled(torch.randn(4, 8))
"""
"""The job of two ranks. They would wait for each other for ever if they did communicate."""
DROPPED = re.compile(
    r'\] \{"(?:inductor_\w+|aot_\w*graph\w*|chromium_event|describe_\w+|dump_file|graph_dump|guard_added\w*|create_\w+|'
    r"compute_\w+|expression_created|link|dynamo_guards)\"|"
    r'"name": "(?!dynamo_graph_break_reason|recompile_reasons|dynamo_error|torch_version)[^"]*", "encoding"'
)
"""Events that are left out."""
DROPPED_OF_RANKS = re.compile(
    r'\] \{"(?:inductor_\w+|aot_\w*graph\w*|describe_\w+|dump_file|graph_dump|guard_added\w*|create_\w+|'
    r"compute_\w+|expression_created|link|dynamo_guards)\"|"
    r'"name": "(?!dynamo_graph_break_reason|recompile_reasons|dynamo_error|torch_version|inductor_collective_schedule|'
    r'inductor_provenance_|fx_graph_cache_|aotautograd_cache_)[^"]*", "encoding"'
)
"""The same, of the job of two ranks."""
SETTINGS = ("inductor_config", "dynamo_config", "compiler_config", "functorch_config", "graph_node_shapes")
"""Fields of a row of metrics that are left empty: most of its text."""
EMPTIED = ('{"dynamo_cpp_guards_str"', "_cache_hit", "_cache_miss")
"""Events whose texts are left out."""
LONGEST = 300
"""Maximum length of an argument of a step that is kept; longer ones are settings and keys of caches."""
EVENT = re.compile(r"^V\d{4} [^\n]*?\] \{")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--ranks", action="store_true")
    given = parser.parse_args()
    if given.ranks:
        write_ranks(given.out)
        return 0
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


def write_ranks(out: Path) -> None:
    """Write what torch writes of a job of two ranks, one after the other."""
    (out / "trace").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="job-") as made:
        job = Path(made).resolve()
        (job / "app" / "models").mkdir(parents=True)
        shutil.copy(ROOT / "fixtures" / "rank_traces" / "models" / "ranks.py", job / "app" / "models")
        (job / "app" / "train.py").write_text(RANKS)
        for rank in ("0", "1"):
            environment = {
                **os.environ,
                "RANK": rank,
                "TORCH_TRACE": str(job / "trace"),
                "TORCHINDUCTOR_CACHE_DIR": str(job / "cache"),
                "INDUCTOR_PROVENANCE": "1",
                "PYTHONHASHSEED": "0",
            }
            subprocess.run([sys.executable, "train.py", str(job / "app")], cwd=job / "app", env=environment, check=True)
            (file,) = (job / "trace").glob(f"dedicated_log_torch_trace_rank_{rank}_*.log")
            name = f"dedicated_log_torch_trace_rank_{rank}_job.log.gz"
            with gzip.GzipFile(out / "trace" / name, "wb", mtime=0) as packed:
                packed.write(neutral(file.read_text("utf-8"), job, DROPPED_OF_RANKS).encode())


def neutral(text: str, job: Path, dropped: re.Pattern[str] = DROPPED) -> str:
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
        if dropped.search(head):
            continue
        head = without_settings(head)
        payload = "" if any(each in head for each in EMPTIED) else payload
        if '{"chromium_event"' in head:
            payload = without_long(payload)
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


def without_long(step: str) -> str:
    """A step of a compilation without its long arguments, written as torch does."""
    data = json.loads(step)
    data["args"] = {name: value for name, value in data["args"].items() if len(str(value)) <= LONGEST}
    return json.dumps(data, indent=0)


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
