"""`tcready.check(model, inputs)`: find the sources of an object of this process, and run it here.

Cells that IPython has run are read as one program with the name `notebook`. Their text is in `linecache`, so IPython
itself is not needed.
"""

from __future__ import annotations

import ast
import dataclasses
import linecache
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tcready import reports
from tcready.pipeline.registry import advice, rule_set
from tcready.portable.options import BenchOptions, ReadOptions, ReportOptions, RunOptions
from tcready.schema.display_paths import display_path, is_installed
from tcready.schema.enums import TcreadyError, Verdict, lines_of
from tcready.schema.notebook_cells import Cell, move_paths
from tcready.schema.observation import Observation
from tcready.schema.report import Reading, Report, TargetReport, Tool
from tcready.schema.static import RuleText, SourceText, StaticResult

if TYPE_CHECKING:
    from tcready.dynamic import CodeLocation
    from tcready.static.units import Unit

NOTEBOOK = "notebook"
"""Name of the program of all cells."""
NOT_HERE: Mapping[str, str] = MappingProxyType(
    {
        "timeout": "nothing can end a run in this process: name the model for `tcready check`, which runs it in its own",
        "memory": "nothing can end a run in this process: name the model for `tcready check`, which runs it in its own",
        "device": "the model is on a device already: move it and its inputs with `.to()`",
        "dtype": "cast the model and its inputs with `.to()`",
        "python": "the object is in this process",
    }
)
"""Options of targets that an object of this process does not support, with the reason."""
TAKEN = tuple("fullgraph shapes plan backend budget weights low plain_call select ignore".split())
"""The options for an object, in addition to `NAMED`."""
NAMED = ("inputs", "cases", "mode", "bench", "root")
"""The parameters of `tcready.check` that have a default of their own."""


@dataclass(frozen=True, repr=False)
class Checked:
    """The result of a check of an object of this process. A notebook displays it as a page, a terminal as text."""

    report: Report

    @property
    def verdict(self) -> Verdict:
        """`ready`, `ready_by_region`, `not_ready` or `unknown`."""
        return self.target.verdict

    @property
    def target(self) -> TargetReport:
        """The object, with all results of the run."""
        return self.report.targets[0]

    def to_text(self, *, width: int = 100, verbose: bool = False) -> str:
        """The report as `tcready check` prints it, or `tcready check -v` does."""
        return reports.render(self.report, "text", width=width, verbose=verbose, of_a_result=True)

    def to_html(self) -> str:
        """The whole page, as `tcready check --html` writes it."""
        return reports.render(self.report, "html")

    def to_json(self) -> str:
        """The report as JSON, which `tcready.load` reads back from a file."""
        return reports.render(self.report, "json")

    def _repr_html_(self) -> str:
        return reports.render_summary(self.report)

    def __repr__(self) -> str:
        return self.to_text().rstrip("\n")


@dataclass(frozen=True)
class ToMeasure:
    """What a bench of the object should measure."""

    options: BenchOptions
    given: Mapping[str, Any]
    """The options as given, for the call that repeats it."""
    began: float
    """When the call began, by `time.monotonic`: the budget counts from there."""


def check_live(
    value: Callable[..., Any],
    inputs: Any,
    run: RunOptions,
    read: ReadOptions,
    report: ReportOptions,
    bench: ToMeasure | None = None,
) -> Checked:
    """Return the report on an object of this process, from its sources and from a run in this process.

    Raises TcreadyError if torch is missing, the inputs are invalid, or `value` is TorchScript; also for an invalid arm
    of a bench.
    """
    from tcready import dynamic
    from tcready.merge import merge
    from tcready.pipeline.observations import sources_of

    where = dynamic.locate_code(value, read.root)
    cells = _cells([path for path, _, _ in where.code])
    read = dataclasses.replace(read, root=Path(where.base))
    units, unread = _units(where, cells)
    name = units[0].target if len(units) == 1 else (getattr(value, "__qualname__", None) or type(value).__name__)
    observed = dynamic.observe_given(value, inputs, run, name, where)
    if bench is not None:
        observed = _with_bench(observed, value, inputs, run, name, where, bench)
    seen = cells.in_program(observed, where.base)
    sources = _read(units, cells, read, report)
    static = sources.result
    texts = tuple(cells.placed(text) for text in static.sources)
    static = dataclasses.replace(
        static,
        # the classes inside of a container of torch's own are parts of the object, no targets
        targets=tuple(target for target in static.targets if target.target == name),
        sources=(*texts, *sources_of([seen], texts)),
        warnings=(*unread, *sources.warnings, *static.warnings),
    )
    made = merge(static, [seen], sources.rules, sources.tool, advice())
    version = ".".join(map(str, read.torch)) if read.torch else ""
    how = Reading(run.mode, read.low, read.plain_call, version)
    return Checked(dataclasses.replace(made, readings=(how,), in_process=True))


def _with_bench(
    seen: Observation,
    value: Callable[..., Any],
    inputs: Any,
    run: RunOptions,
    name: str,
    where: CodeLocation,
    bench: ToMeasure,
) -> Observation:
    """Return the run with its bench."""
    from tcready import dynamic
    from tcready.pipeline import bench_run

    given = {"mode": run.mode} if run.mode != "infer" else {}
    keywords = {**given, **({"plan": True} if run.plan else {}), "bench": dict(bench.given) or True}
    command = f"tcready.check(model, inputs, {', '.join(f'{key}={value!r}' for key, value in keywords.items())})"
    measuring = dynamic.measuring_given(value, inputs, run.without_studies(), name, where)
    root = Path(where.base)
    return bench_run.bench_object(seen, measuring, measuring.alone, run, bench.options, command, root, bench.began)


def check_live_cell(text: str, read: ReadOptions, report: ReportOptions) -> Checked:
    """Return what the source shows about a cell that was run, with code `text`; the other cells are read as well."""
    from tcready.dynamic import is_cell
    from tcready.merge import merge
    from tcready.static.units import Unit

    of_text = [p for p in linecache.cache if is_cell(p) and "".join(linecache.getlines(p)).strip() == text.strip()]
    if not of_text:
        raise TcreadyError("this cell was not run by IPython: nothing is known of it")
    cells = _cells(of_text[-1:])
    begin = cells.first[of_text[-1]]
    within = range(begin, begin + len(lines_of(text.strip())) + 1)
    sources = _read([Unit(NOTEBOOK, read.root / NOTEBOOK, None)], cells, read, report)
    found = sources.result
    static = dataclasses.replace(
        found,
        findings=tuple(each for each in found.findings if each.path != NOTEBOOK or each.line in within),
        hidden=tuple(each for each in found.hidden if each.path != NOTEBOOK or each.line in within),
        sources=tuple(cells.placed(text) for text in found.sources),
        warnings=(*sources.warnings, *found.warnings),
    )
    made = merge(static, [], sources.rules, sources.tool)
    return Checked(dataclasses.replace(made, in_process=True))


# What is read


@dataclass(frozen=True)
class _Read:
    result: StaticResult
    rules: Mapping[str, RuleText]
    tool: Tool
    warnings: tuple[str, ...]


def _units(where: CodeLocation, cells: _Program) -> tuple[list[Unit], list[str]]:
    """Return the code of the object to read, and a warning about code without a known source."""
    from tcready.static.units import Unit

    found: list[Unit] = []
    unread: list[str] = []
    for path, module, symbol in where.code:
        if "<locals>" in symbol:
            unread.append(f"{symbol} is defined in a function: only the run speaks of it")
        elif path in cells.first:
            found.append(Unit(f"{NOTEBOOK}::{symbol}", Path(where.base, NOTEBOOK), symbol))
        elif not path:
            unread.append(f"the source of {symbol} is not known: only the run speaks of it")
        elif is_installed(path):
            found.append(Unit(f"{module}::{symbol}", None, symbol, module=module))
        else:
            found.append(Unit(f"{display_path(path, where.base)}::{symbol}", Path(path), symbol))
    return list(dict.fromkeys(found)), unread


def _read(units: Sequence[Unit], cells: _Program, read: ReadOptions, report: ReportOptions) -> _Read:
    """Read the sources; add a warning for a name that is not found there."""
    from tcready.static.session import Session

    session = Session(read, rule_set())
    texts = {read.root / NOTEBOOK: cells.text} if cells.cells else {}
    good: list[Unit] = []
    warnings = []
    for unit in units:
        try:
            session.check([unit], texts, report=report)
            good.append(unit)
        except TcreadyError as error:  # made by code, a lambda, read by nobody
            warnings.append(f"not read: {error}")
    found = session.check(good, texts, report=report)
    return _Read(found.result, found.rules, found.tool, tuple(warnings))


# Cells


@dataclass(frozen=True)
class _Program:
    """All cells that this process has run, one after the other."""

    text: str = ""
    cells: tuple[Cell, ...] = ()
    first: Mapping[str, int] = field(default_factory=dict)
    """The line of the program on which each cell begins, by the file name in its code objects."""

    def placed(self, source: SourceText) -> SourceText:
        """Add the cells to the program's source; return any other source unchanged."""
        return dataclasses.replace(source, cells=self.cells) if source.path == NOTEBOOK and self.cells else source

    def in_program(self, seen: Observation, base: str) -> Observation:
        """Return a run with lines of cells replaced by lines of the program."""
        shown = {display_path(path, base): line for path, line in self.first.items()}

        def move(path: str, line: int) -> tuple[str, int] | None:
            return (NOTEBOOK, shown[path] + line - 1) if path in shown else None

        return move_paths(seen, move) if shown else seen


def _cells(used: Sequence[str]) -> _Program:
    """Return the program of the cells that were run. If several cells define a class or function, only one
    definition is kept: that of a cell with code in `used`, else the last."""
    from tcready.dynamic import is_cell

    texts = {path: "".join(linecache.getlines(path)) for path in linecache.cache if is_cell(path)}
    if not texts.keys() & set(used):
        return _Program()
    numbers = _numbers(texts)
    lines: list[str] = []
    cells: list[Cell] = []
    first: dict[str, int] = {}
    outdated = _outdated(texts, used)
    for at, (path, text) in enumerate(texts.items(), 1):
        own = lines_of(text.removesuffix("\n"))
        for begin, end in outdated[path]:
            own[begin - 1 : end] = [""] * (end - begin + 1)
        first[path] = len(lines) + 1
        begin = len(lines) + 1
        lines += own
        cells.append(Cell(numbers.get(path, at), begin, tuple(range(begin, len(lines) + 1))))
    return _Program("\n".join(lines) + "\n", tuple(cells), first)


def _outdated(texts: Mapping[str, str], used: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
    """Return the lines of definitions that were replaced by others; all lines of a cell that cannot be parsed."""
    found: dict[str, list[tuple[int, int]]] = {path: [] for path in texts}
    valid: dict[str, tuple[str, tuple[int, int]]] = {}
    for path, text in texts.items():
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            found[path].append((1, len(lines_of(text))))
            continue
        for node in tree.body:
            if not isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            here = path, (first, node.end_lineno or node.lineno)
            before = valid.get(node.name)
            if before is not None and before[0] in used and path not in used:
                found[path].append(here[1])
                continue
            if before is not None:
                found[before[0]].append(before[1])
            valid[node.name] = here
    return found


def _numbers(paths: Iterable[str]) -> dict[str, int]:
    """Return the number that IPython gave a cell when it ran, if known: `In [3]`."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    known = getattr(getattr(shell, "compile", None), "_filename_map", {})
    found = {path: known[path] for path in paths if path in known}
    for path in paths:
        named = re.match(r"<ipython-input-(\d+)-", path)
        if named is not None:
            found[path] = int(named[1])
    return found
