"""Runs one rule sample under the real Dynamo and says what it did, in plain values.

In-process and for tiny models only: the samples' whole point is that their lines and effects are real.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import random
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from tcready.static.rule import PRELUDE, Sample
from torch._logging._internal import trace_log

BENIGN = ("no content in function call", "no tensor")
"""Words of a give-up that costs nothing: the frame held no tensor work."""


@dataclass(frozen=True)
class Break:
    """A logged graph break: `line` of the sample (None: outside of it) and the text Dynamo gave."""

    line: int | None
    gb_id: str | None
    text: str


@dataclass(frozen=True)
class Run:
    """What the calls of one compiled model showed.

    `recompiles[i]` are the reasons of call i + 1 (0-based, the first call always compiles); `skipped` are
    the (first line, reason) of the sample's frames that Dynamo gave up on; `outputs` are one per call.
    """

    breaks: tuple[Break, ...]
    skipped: tuple[tuple[int, str], ...]
    recompiles: tuple[tuple[str, ...], ...]
    outputs: tuple[Any, ...]

    @property
    def lines(self) -> set[int | None]:
        return {b.line for b in self.breaks}


def source_of(sample: Sample) -> str:
    """The file a sample stands in, as lint and Dynamo see it."""
    setup = sample.setup.strip("\n")
    return PRELUDE + (setup + "\n\n\n" if setup else "") + sample.source.strip("\n") + "\n"


def bad_lines(sample: Sample) -> set[int | None]:
    """1-based lines of the file that end in `# BAD`."""
    return {n for n, line in enumerate(source_of(sample).splitlines(), 1) if re.search(r"# BAD\b", line)}


def load(sample: Sample, path: Path) -> ModuleType:
    """The sample's module, imported from `path`, where its source is written first."""
    path.write_text(source_of(sample), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    with quiet():
        spec.loader.exec_module(module)
    return module


def build(module: ModuleType) -> Any:
    """A fresh model: an instance of `Model` in eval mode, or the function `model`."""
    torch.manual_seed(0)
    return module.Model().eval() if hasattr(module, "Model") else module.model


def arguments(module: ModuleType, expression: str) -> tuple[Any, ...]:
    """The argument tuple of a sample, the same at every call."""
    torch.manual_seed(1)
    return eval(expression, vars(module))  # type: ignore[no-any-return]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What a sample prints, logs or warns of is not the test's business."""
    out = io.StringIO()
    disabled = logging.root.manager.disable
    with warnings.catch_warnings(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logging.disable(disabled)


class _Breaks(logging.Handler):
    def __init__(self, path: Path) -> None:
        super().__init__(logging.DEBUG)
        self.path = path
        self.seen: list[Break] = []
        self.reasons: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        metadata = getattr(record, "metadata", None) or {}
        name = (metadata.get("artifact") or {}).get("name")
        payload = getattr(record, "payload", None)
        if name == "dynamo_graph_break_reason" and payload is not None:
            text = str(payload)
            at = re.findall(rf'"{re.escape(str(self.path))}", line (\d+)', text) or re.findall(
                rf"{re.escape(str(self.path))}:(\d+)", text
            )
            gb = re.search(r"\bgb(\d+)\.html", text, re.I)
            self.seen.append(Break(int(at[-1]) if at else None, f"GB{gb[1]}" if gb else None, text))
        elif name == "recompile_reasons" and payload is not None:
            self.reasons.append(str(payload))


@contextlib.contextmanager
def recorded(path: Path) -> Iterator[_Breaks]:
    handler = _Breaks(path)
    level, propagate = trace_log.level, trace_log.propagate
    trace_log.addHandler(handler)
    trace_log.setLevel(logging.DEBUG)
    trace_log.propagate = False
    try:
        yield handler
    finally:
        trace_log.removeHandler(handler)
        trace_log.setLevel(level)
        trace_log.propagate = propagate


def run(sample: Sample, path: Path, calls: int = 3, **settings: Any) -> Run:
    """`calls` calls of the compiled model with the same arguments, then one with `again` where there is one.

    Keyword arguments are those of torch.compile. Raises what the compiled model raises.
    """
    from torch._dynamo.utils import clear_compilation_metrics, get_compilation_metrics

    module = load(sample, path)
    torch._dynamo.reset()
    clear_compilation_metrics()
    with recorded(path) as handler, quiet():
        model = build(module)
        compiled = torch.compile(model, backend="eager", **settings)
        recompiles: list[tuple[str, ...]] = []
        outputs: list[Any] = []
        for expression in [sample.inputs] * calls + ([sample.again] if sample.again else []):
            handler.reasons.clear()
            given = arguments(module, expression)
            random.seed(0)
            outputs.append(compiled(*given))
            recompiles.append(tuple(handler.reasons))
    skipped = tuple(
        (metric.co_firstlineno or 0, metric.fail_reason or "")
        for metric in get_compilation_metrics()
        if metric.co_filename == str(path) and metric.fail_type is not None and not _benign(metric)
    )
    return Run(tuple(handler.seen), skipped, tuple(recompiles), tuple(outputs))


def _benign(metric: Any) -> bool:
    reason = metric.fail_reason or ""
    return any(word in reason for word in BENIGN)


def eager(sample: Sample, path: Path, calls: int = 3) -> tuple[Any, ...]:
    """The outputs of the same calls without torch.compile."""
    module = load(sample, path)
    outputs = []
    with quiet():
        model = build(module)
        for expression in [sample.inputs] * calls + ([sample.again] if sample.again else []):
            given = arguments(module, expression)
            random.seed(0)
            outputs.append(model(*given))
    return tuple(outputs)
