"""The keywords of `tcready.check` and `tcready.observe`, for type checkers and editors.

Written by docs/generate.py: edit analyzer/portable/options.py and run it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from tcready.schema.enums import Engine, Mode, ModeAsked, Parallelism


class RunKeywords(TypedDict, total=False):
    inputs: str | None
    device: str | None
    dtype: str | None
    autocast: str | None
    optimizer: bool | None
    fullgraph: bool | None
    shapes: bool | None
    plan: bool | None
    backend: bool | None
    budget: float | None
    trace_out: str | None
    python: str | None
    launcher: str | Sequence[str] | None
    processes: int | None
    nproc_per_node: int | None
    parallel: Parallelism | None
    tp_plan: str | None
    timeout: float | None
    memory_gb: float | None
    memory: float | None
    allow_downloads: bool | None
    model: str | None
    checkpoint: str | None
    tiny: bool | None
    config: tuple[str, ...] | None


class CheckKeywords(RunKeywords, total=False):
    select: Sequence[str] | None
    ignore: Sequence[str] | None
    per_file_ignores: Mapping[str, Sequence[str]] | None
    baseline: str | None
    write_baseline: str | None
    diff_base: str | None
    serving: Engine | None
    mode: ModeAsked | None
    torch: str | tuple[int, int] | None
    torch_version: str | tuple[int, int] | None
    exclude: Sequence[str] | None
    low: bool | None
    plain_call: bool | None
    lenient: bool | None
    force_exclude: bool | None
    cache: bool | None
    jobs: int | None
    interpreters: tuple[str, ...] | None
    verify_fixes: bool | None
    checkout: bool | None


class ObserveKeywords(RunKeywords, total=False):
    mode: Mode | None
    weights: Mapping[str, float] | None
    synthesise: bool | None
