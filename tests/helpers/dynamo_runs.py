"""Runs one small program under the real Dynamo and says what it did, in plain values.

In-process and for tiny models only: the programs' whole point is that their lines and effects are real. Needs
torch and the standard library alone, so that it also runs where tcready is not installed.
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
from torch._logging._internal import trace_log

BENIGN = ("no content in function call", "no tensor")
"""Words of a give-up that costs nothing: the frame held no tensor work."""


@dataclass(frozen=True)
class Program:
    """A file that defines `class Model(nn.Module)` or `def model(...)`, and how it is called.

    `inputs` is the expression of the argument tuple; `again` that of one more call, for a claim that needs other
    values or lengths. `config` are keyword arguments of torch._dynamo.config.patch.
    """

    text: str
    inputs: str = "(torch.randn(4, 8),)"
    again: str | None = None
    train: bool = False
    config: str = ""

    @property
    def calls(self) -> list[str]:
        """Three identical calls, then the other one."""
        return [self.inputs] * 3 + ([self.again] if self.again else [])


@dataclass(frozen=True)
class Break:
    """A logged graph break: `line` of the program (None: outside of it), the ids of its page and of those of the
    breaks that came of it (a loop or a context around it), and the text Dynamo gave."""

    line: int | None
    gb_ids: tuple[str, ...]
    text: str

    @property
    def gb_id(self) -> str | None:
        return self.gb_ids[0] if self.gb_ids else None


@dataclass(frozen=True)
class Run:
    """What the calls of one compiled model showed.

    `recompiles[i]` are the reasons of call i + 1 (0-based, the first call always compiles); `skipped` are
    the (first line, reason) of the program's frames that Dynamo gave up on; `outputs` are one per call.
    """

    breaks: tuple[Break, ...]
    skipped: tuple[tuple[int, str], ...]
    recompiles: tuple[tuple[str, ...], ...]
    outputs: tuple[Any, ...]
    generators: frozenset[int] = frozenset()
    """First lines of the program's generators that Dynamo was asked to compile by themselves: that is in no log."""

    @property
    def lines(self) -> set[int | None]:
        return {b.line for b in self.breaks}

    @property
    def ids_by_line(self) -> dict[int | None, frozenset[str]]:
        """For each line that breaks, every id that Dynamo gave there; "-" for a break without one."""
        found: dict[int | None, frozenset[str]] = {}
        for each in self.breaks:
            found[each.line] = found.get(each.line, frozenset()) | set(each.gb_ids or ("-",))
        return found


def load(program: Program, path: Path) -> ModuleType:
    """The program's module, imported from `path`, where its text is written first."""
    path.write_text(program.text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    torch.manual_seed(0)
    with quiet():
        spec.loader.exec_module(module)
    return module


def seed() -> None:
    """Python's and numpy's generators, the same at every call."""
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)


def build(module: ModuleType, train: bool = False) -> Any:
    """A fresh model: an instance of `Model` in eval or train mode, or the function `model`."""
    torch.manual_seed(0)
    return module.Model().train(train) if hasattr(module, "Model") else module.model


def arguments(module: ModuleType, expression: str) -> tuple[Any, ...]:
    """The argument tuple of a program, the same at every call."""
    torch.manual_seed(1)
    return eval(expression, vars(module))  # type: ignore[no-any-return]


def configured(program: Program, module: ModuleType) -> contextlib.AbstractContextManager[Any]:
    """The program's settings of torch._dynamo.config, for as long as they are entered."""
    settings = eval(f"dict({program.config})", vars(module))
    return torch._dynamo.config.patch(**settings) if settings else contextlib.nullcontext()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What a program prints, logs or warns of is not the test's business."""
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
            gb = tuple(f"GB{number}" for number in re.findall(r"\bgb(\d+)\.html", text, re.I))
            self.seen.append(Break(int(at[-1]) if at else None, gb, text))
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


@contextlib.contextmanager
def generators(path: Path) -> Iterator[set[int]]:
    """The first lines of generators of a file that Dynamo gives up."""
    from torch._dynamo import convert_frame

    known = convert_frame.unimplemented
    seen: set[int] = set()

    def noted(*args: Any, **named: Any) -> Any:
        code = sys._getframe(1).f_locals.get("code")
        if named.get("gb_type") == "Attempt to trace generator" and code is not None:
            if code.co_filename == str(path):
                seen.add(code.co_firstlineno)
        return known(*args, **named)

    convert_frame.unimplemented = noted
    try:
        yield seen
    finally:
        convert_frame.unimplemented = known


@contextlib.contextmanager
def own_settings() -> Iterator[None]:
    """What a file sets in Dynamo's configuration ends with it."""
    config = torch._dynamo.config
    names = ("capture_scalar_outputs", "capture_dynamic_output_shape_ops", "allow_rnn")
    with config.patch({name: getattr(config, name) for name in names}):
        ignored = set(config.ignore_logging_functions)
        try:
            yield
        finally:
            config.ignore_logging_functions.clear()
            config.ignore_logging_functions.update(ignored)


@own_settings()
def run(program: Program, path: Path, calls: int | None = None, **settings: Any) -> Run:
    """The program's calls, or the first `calls` of them, of its compiled model.

    Keyword arguments are those of torch.compile. Raises what the compiled model raises.
    """
    from torch._dynamo.utils import clear_compilation_metrics, get_compilation_metrics

    module = load(program, path)
    torch._dynamo.reset()
    clear_compilation_metrics()
    with configured(program, module), recorded(path) as handler, generators(path) as given_up, quiet():
        model = build(module, program.train)
        compiled = torch.compile(model, backend="eager", **settings)
        recompiles: list[tuple[str, ...]] = []
        outputs: list[Any] = []
        for expression in program.calls[:calls]:
            handler.reasons.clear()
            given = arguments(module, expression)
            seed()
            outputs.append(compiled(*given))
            recompiles.append(tuple(handler.reasons))
    skipped = tuple(
        (metric.co_firstlineno or 0, metric.fail_reason or "")
        for metric in get_compilation_metrics()
        if metric.co_filename == str(path) and metric.fail_type is not None and not _benign(metric)
    )
    return Run(tuple(handler.seen), skipped, tuple(recompiles), tuple(outputs), frozenset(given_up))


def _benign(metric: Any) -> bool:
    reason = metric.fail_reason or ""
    return any(word in reason for word in BENIGN)


def eager(program: Program, path: Path, calls: int | None = None) -> tuple[Any, ...]:
    """The outputs of the same calls without torch.compile."""
    module = load(program, path)
    outputs = []
    with quiet():
        model = build(module, program.train)
        for expression in program.calls[:calls]:
            given = arguments(module, expression)
            seed()
            outputs.append(model(*given))
    return tuple(outputs)
