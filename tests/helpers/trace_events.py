"""Events of a structured trace as torch writes them, for traces that no real job would leave."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PREFIX = "V1123 05:21:02.123456 12345 torch/_dynamo/convert_frame.py:303] "
TORCH = "/env/lib/python3.11/site-packages/torch"
APP = "/job/app"
NAME = "dedicated_log_torch_trace_abc.log"
BREAK = """\
Graph break in user code at {path}:{line}
Graph Break Reason: Data-dependent branching
  Explanation: Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`).
  Hint: Use `torch.cond` to express dynamic control flow.

  Developer debug context: attempted to jump with TensorVariable()

 For more details about this graph break, please visit: https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0170.html

User code traceback:
  File "/job/app/train.py", line 9, in <module>
    model(x)
  File "{path}", line {line}, in forward
    {text}

Traceback (most recent call last):
  File "{torch}/_dynamo/symbolic_convert.py", line 1, in step
"""


def event(data: dict[str, Any], payload: str | None = None) -> str:
    """One event with its payload."""
    if payload is not None:
        data = {**data, "has_payload": hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()}
    lines = "".join(f"\t{line}\n" for line in payload.split("\n")) if payload is not None else ""
    return f"{PREFIX}{json.dumps(data)}\n{lines}"


class Job:
    """What one process writes."""

    def __init__(self, rank: int | None = None) -> None:
        self.rank = {} if rank is None else {"rank": rank}
        self.strings: dict[str, int] = {}
        self.text = ""
        self.add({"chromium_event": {}}, '{\n"name": "dynamo"\n}')
        self.artifact("torch_version", '{\n"pytorch_version": "2.13.0+cpu"\n}')

    def add(self, data: dict[str, Any], payload: str | None = None, **ids: int) -> None:
        self.text += event({**data, **self.rank, **ids}, payload)

    def artifact(self, name: str, payload: str, **ids: int) -> None:
        self.add({"artifact": {"name": name, "encoding": "string"}}, payload, **ids)

    def string(self, text: str) -> int:
        if text not in self.strings:
            self.strings[text] = len(self.strings)
            self.text += event({"str": [text, self.strings[text]]})
        return self.strings[text]

    def start(
        self,
        frame: int,
        again: int,
        path: str,
        line: int,
        name: str = "forward",
        above: Sequence[tuple[str, str]] = ((f"{TORCH}/_dynamo/eval_frame.py", "compile_wrapper"),),
    ) -> dict[str, int]:
        """The beginning of a compilation, with who called (files and functions); its ids."""
        ids = {"frame_id": frame, "frame_compile_id": again, "attempt": 0}
        files = [*((file, 100, of) for file, of in above), (path, line, name)]
        self.string(f"{TORCH}/_dynamo/convert_frame.py")
        stack = [{"line": at, "name": of, "filename": self.string(file)} for file, at, of in files]
        self.add({"dynamo_start": {"stack": stack}}, **ids)
        return ids

    def end(
        self, ids: dict[str, int], path: str, line: int, name: str = "forward", seconds: float = 0.5, **row: Any
    ) -> None:
        """The row of metrics that ends a compilation."""
        if row.get("has_guarded_code", True):
            self.add({"dynamo_cpp_guards_str": {}}, "TREE_GUARD_MANAGER", **ids)
        metrics = {
            "compile_id": "-",
            "co_name": name,
            "co_filename": path,
            "co_firstlineno": line,
            "graph_op_count": 2,
            "guard_count": 7,
            "has_guarded_code": True,
            "dynamo_cumulative_compile_time_us": int(seconds * 1e6),
            "python_version": "3.11.9 (main)",
            "pytorch_version": "2.13.0+cpu",
            **row,
        }
        self.add({"compilation_metrics": metrics}, **ids)

    def graph(self, ids: dict[str, int], *places: tuple[str, int]) -> None:
        lines = "".join(f"\n         # File: {path}:{line} in forward, code: x" for path, line in places)
        body = f'class GraphModule:\n    def forward(self, L_x_: "f32[4, 8][8, 1]cuda:0"):{lines}\n'
        self.add({"dynamo_output_graph": {"sizes": {}}}, body, **ids)

    def broke(self, ids: dict[str, int], path: str, line: int, text: str = "if x.sum() > 0:") -> None:
        self.artifact("dynamo_graph_break_reason", BREAK.format(path=path, line=line, text=text, torch=TORCH), **ids)

    def written(self, folder: Path, name: str = NAME) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(self.text, "utf-8")
        return folder
