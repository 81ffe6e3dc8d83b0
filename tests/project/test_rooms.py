"""Who may import whom (the design's section 2), and what a fresh interpreter loads."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"analyzer": "tcready", "rules": "tcready.rules", "reports": "tcready.reports"}

ALLOWED: dict[str, frozenset[str]] = {
    "schema": frozenset(),
    "portable.target": frozenset({"schema"}),
    "portable.input_conventions": frozenset(),
    "portable.option_fields": frozenset({"schema"}),
    "portable.options": frozenset({"portable.option_fields", "schema"}),
    "portable.compile_code": frozenset({"schema"}),
    "source.fingerprint": frozenset(),
    "source.edits": frozenset({"schema"}),
    "static": frozenset(
        {
            "portable.input_conventions",
            "portable.options",
            "portable.target",
            "schema",
            "source.edits",
            "source.fingerprint",
        }
    ),
    "portable.events": frozenset({"schema"}),
    "traces": frozenset({"portable.events", "schema"}),
    "integrations.vllm": frozenset({"portable.target", "schema", "static"}),
    "merge": frozenset({"portable.compile_code", "portable.target", "schema", "source.edits", "source.fingerprint"}),
    "portable.quantities": frozenset(),
    "worker": frozenset(
        {
            "portable.compile_code",
            "portable.events",
            "portable.input_conventions",
            "portable.options",
            "portable.quantities",
            "portable.target",
            "schema",
        }
    ),
    "dynamic": frozenset(
        {
            "portable.input_conventions",
            "portable.option_fields",
            "portable.options",
            "portable.target",
            "schema",
            "worker",
        }
    ),
    "bench": frozenset({"portable.quantities", "schema"}),
    "fixes.rewriters": frozenset({"schema", "static"}),
    "rules": frozenset({"fixes.rewriters", "schema", "static"}),
    "pipeline.break_pages": frozenset({"rules", "schema"}),
    "fixes.rewriting": frozenset({"fixes.rewriters", "schema", "source.edits", "static"}),
    "reports": frozenset({"portable.quantities", "portable.target", "schema"}),
    "config.keywords": frozenset({"schema"}),
    "config.resolution": frozenset({"portable.option_fields", "portable.options", "schema", "static"}),
    "config.pyproject": frozenset(
        {"config.resolution", "portable.option_fields", "portable.options", "portable.target", "schema"}
    ),
    "pipeline.run_selection": frozenset(
        {
            "config.pyproject",
            "config.resolution",
            "dynamic",
            "portable.input_conventions",
            "portable.option_fields",
            "portable.options",
            "portable.target",
            "schema",
            "static",
        }
    ),
    "pipeline.named_models": frozenset({"portable.options", "portable.target", "schema", "static"}),
    "pipeline.git": frozenset({"schema"}),
    "source.files": frozenset({"schema"}),
    "fixes.patching": frozenset({"pipeline.git", "schema", "source.files", "static"}),
    "fixes.multi_target": frozenset({"fixes.patching", "portable.options", "schema", "source.edits"}),
    "pipeline.baseline": frozenset({"portable.options", "portable.target", "schema"}),
    "pipeline.filtering": frozenset(
        {"pipeline.baseline", "pipeline.git", "portable.options", "schema", "source.files", "static"}
    ),
    "pipeline.comparison": frozenset({"bench", "portable.target", "schema"}),
    "pipeline.report_loading": frozenset({"schema"}),
    "pipeline.observations": frozenset(
        {
            "config.resolution",
            "dynamic",
            "merge",
            "pipeline.report_loading",
            "pipeline.run_selection",
            "portable.options",
            "portable.target",
            "schema",
            "source.files",
            "static",
            "traces",
        }
    ),
    "pipeline.bench_run": frozenset(
        {
            "bench",
            "config.resolution",
            "dynamic",
            "fixes.patching",
            "pipeline.git",
            "pipeline.observations",
            "pipeline.run_selection",
            "portable.option_fields",
            "portable.options",
            "portable.target",
            "schema",
            "static",
        }
    ),
    "pipeline.registry": frozenset({"fixes.rewriting", "pipeline.break_pages", "rules", "schema", "static"}),
    "sweep": frozenset(
        {
            "config.pyproject",
            "config.resolution",
            "dynamic",
            "merge",
            "pipeline.named_models",
            "pipeline.observations",
            "pipeline.registry",
            "pipeline.report_loading",
            "pipeline.run_selection",
            "portable.options",
            "portable.target",
            "schema",
            "source.files",
            "static",
        }
    ),
    "pipeline.explanation": frozenset({"portable.target", "schema", "static"}),
    "integrations.lsp": frozenset(
        {
            "config.pyproject",
            "config.resolution",
            "fixes.rewriting",
            "merge",
            "pipeline.explanation",
            "pipeline.filtering",
            "pipeline.registry",
            "portable.options",
            "portable.target",
            "reports",
            "schema",
            "static",
        }
    ),
    "pipeline.live_objects": frozenset(
        {
            "dynamic",
            "merge",
            "pipeline.bench_run",
            "pipeline.observations",
            "pipeline.registry",
            "portable.options",
            "reports",
            "schema",
            "static",
        }
    ),
    "config.init": frozenset({"config.pyproject", "schema", "source.files"}),
    "pipeline.project_targets": frozenset({"config.init", "portable.input_conventions", "portable.target", "schema"}),
    "fixes.candidates": frozenset({"fixes.patching", "fixes.rewriting", "schema", "source.edits", "static"}),
    "fixes.rounds": frozenset({"fixes.candidates", "fixes.rewriting", "schema", "source.edits", "static"}),
    "fixes.proposals": frozenset(
        {
            "config.resolution",
            "dynamic",
            "fixes.candidates",
            "fixes.multi_target",
            "fixes.patching",
            "fixes.rewriting",
            "fixes.rounds",
            "pipeline.observations",
            "pipeline.run_selection",
            "portable.options",
            "portable.target",
            "schema",
            "source.edits",
            "static",
        }
    ),
    "pipeline.report_steps": frozenset(
        {
            "config.pyproject",
            "config.resolution",
            "dynamic",
            "fixes.proposals",
            "integrations.vllm",
            "merge",
            "pipeline.bench_run",
            "pipeline.filtering",
            "pipeline.git",
            "pipeline.named_models",
            "pipeline.observations",
            "pipeline.registry",
            "pipeline.run_selection",
            "reports",
            "schema",
            "static",
            "traces",
        }
    ),
    "api": frozenset(
        {
            "config.init",
            "config.keywords",
            "config.resolution",
            "dynamic",
            "fixes.patching",
            "fixes.proposals",
            "merge",
            "pipeline.bench_run",
            "pipeline.comparison",
            "pipeline.explanation",
            "pipeline.live_objects",
            "pipeline.named_models",
            "pipeline.observations",
            "pipeline.project_targets",
            "pipeline.registry",
            "pipeline.report_steps",
            "pipeline.run_selection",
            "portable.options",
            "reports",
            "schema",
            "source.files",
            "sweep",
        }
    ),
    "integrations.ipython": frozenset({"api", "schema"}),
    "integrations.mcp": frozenset(
        {"api", "config.resolution", "portable.options", "portable.target", "reports", "schema"}
    ),
    "cli": frozenset(
        {
            "api",
            "config.init",
            "config.pyproject",
            "config.resolution",
            "integrations.lsp",
            "integrations.mcp",
            "portable.option_fields",
            "portable.options",
            "portable.target",
            "schema",
            "source.files",
        }
    ),
    "integrations.pytest_plugin": frozenset({"api", "schema"}),
    "package": frozenset({"api", "integrations.ipython", "schema"}),
    "__main__": frozenset({"cli"}),
}
"""Component -> the components that it may import besides itself, lowest first."""
LIBRARIES: dict[str, frozenset[str]] = {
    "static": frozenset({"libcst", "nbformat"}),
    "worker": frozenset({"torch", "safetensors"}),
    "merge": frozenset({"networkx"}),
    "bench": frozenset({"scipy"}),
    "fixes.rewriters": frozenset({"libcst"}),
    "fixes.rewriting": frozenset({"libcst"}),
    "reports": frozenset({"rich", "jinja2", "markupsafe", "pygments"}),
    "integrations.lsp": frozenset({"pygls", "lsprotocol"}),
    "sweep": frozenset({"pyarrow", "ray"}),
    "config.pyproject": frozenset({"tomli", "tomllib"}),
    "integrations.mcp": frozenset({"mcp", "anyio", "pydantic"}),
    "cli": frozenset({"click", "rich"}),
    "integrations.pytest_plugin": frozenset({"pytest"}),
}
"""Component -> what it may import that is neither the standard library nor tcready; for others nothing."""

LATE: dict[str, str] = {
    "__main__": "`python -m tcready` reports a missing package in one line",
    "api": "`import tcready` in a notebook or a test suite loads what the called function needs",
    "bench": "scipy is an extra, and slow to import",
    "cli": "`--help` and completion answer at once; rich and tracebacks are for a terminal and for a failure",
    "config": "suggestions for a misspelling, and tomllib or tomli, whichever there is",
    "dynamic": "a run in this process needs torch; one in a worker does not",
    "fixes.proposals": "a proof needs the launcher; a rewrite does not",
    "fixes.rewriting": "the process that suggests loads libcst in place of this one",
    "integrations": "extras, and a pytest plugin that costs nothing where it is not used",
    "merge": "networkx is slow to import, and only regions need it",
    "package": "IPython calls it by name",
    "pipeline": "a check that finds its results in the cache loads neither the engine, nor runs, nor git",
    "reports": "one format of many is rendered",
    "schema": "text with unprintable characters is rare",
    "source.edits": "only a diff needs difflib",
    "static": "libcst is for rewrites, nbformat for notebooks, processes for many files",
    "sweep": "ray and pyarrow are extras",
    "worker": "parts of torch that not every version and build has, or that take long to import",
}
"""Component, or the first part of its name -> why functions of it import what they use."""


def sources() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join((package, *parts))
            found[name.removesuffix(".__init__")] = path
    return found


SOURCES = sources()


def room(module: str) -> str:
    """The room a dotted name below tcready belongs to."""
    parts = module.split(".")
    if parts[:3] == ["tcready", "dynamic", "worker"]:
        return "worker"
    if parts[1:2] and parts[1] in OF_SEVERAL:
        return ".".join(parts[1:3])
    return parts[1] if len(parts) > 1 else "package"


OF_SEVERAL = ("config", "fixes", "integrations", "pipeline", "portable", "source")
"""Packages in which each module or package is a component by itself."""


@functools.cache
def imports(module: str) -> tuple[tuple[str, bool], ...]:
    """Every dotted name that a module imports, lazily too; and whether only a type checker sees it."""
    return tuple(_imports(module))


def _imports(module: str) -> Iterator[tuple[str, bool]]:
    path = SOURCES[module]
    tree = ast.parse(path.read_bytes())
    typed = {
        id(below)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in node.body
        for below in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) in typed
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module if path.name == "__init__.py" else module.rpartition(".")[0]
                base = ".".join(
                    (*package.split(".")[: len(package.split(".")) - node.level + 1], *filter(None, [base]))
                )
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                yield (whole if whole in SOURCES else base), id(node) in typed


def _crossings() -> list[tuple[str, str, bool]]:
    return [
        (module, name, typed)
        for module in SOURCES
        for name, typed in imports(module)
        if name.partition(".")[0] == "tcready"
    ]


def test_every_room_is_known_and_imports_are_seen() -> None:
    known = {room(module) for module in SOURCES} - {*OF_SEVERAL}
    assert known == set(ALLOWED) >= set(LIBRARIES)
    seen = {(module, name) for module, name, _ in _crossings()}
    assert ("tcready.cli.check_command", "tcready.api") in seen
    assert ("tcready.api", "tcready.reports") in seen, "lazy imports count"


def test_imports_point_one_way() -> None:
    wrong = [
        f"{module} imports {name}"
        for module, name, _ in _crossings()
        if room(name) != room(module)
        and room(name) not in ALLOWED[room(module)]
        and not (room(name) == "package" and name == "tcready")
    ]
    assert wrong == []


def test_functions_import_only_where_there_is_a_reason() -> None:
    found = {
        room(module)
        for module, path in SOURCES.items()
        for function in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    reasons = {name: next((n for n in (name, name.partition(".")[0]) if n in LATE), None) for name in found}
    assert [name for name, reason in reasons.items() if reason is None] == []
    assert LATE.keys() == set(reasons.values())


def test_rules_do_not_import_each_other() -> None:
    wrong = [
        f"{module} imports {name}"
        for module, name, _ in _crossings()
        if room(module) == room(name) == "rules" and not name.rpartition(".")[2].startswith("_")
    ]
    assert wrong == []


def test_each_room_has_its_libraries_and_only_the_worker_torch() -> None:
    wrong = [
        f"{module} imports {name}"
        for module in SOURCES
        for name, typed in imports(module)
        if (top := name.partition(".")[0]) != "tcready"
        and top not in sys.stdlib_module_names
        and top not in LIBRARIES.get(room(module), frozenset())
        and not typed
    ]
    assert wrong == []


def test_modules_import_each_other_in_no_circle() -> None:
    """A package's `__init__` may gather its modules, which never go through it in turn."""
    edges = {module: {name for name, _ in imports(module) if name in SOURCES and name != module} for module in SOURCES}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path, module))
        if module not in done:
            for name in sorted(edges[module]):
                visit(name, (*path, module))
            done.add(module)

    for module in edges:
        visit(module, ())


OF_RUNS = tuple(
    f"tcready.schema.{name}" for name in ("bench", "comparison", "parallel", "proof", "run", "serving", "sweep")
)
"""What describes runs and what is made of them: making these classes takes longer than a check of an unchanged file."""
HEAVY = (
    "torch",
    "numpy",
    "scipy",
    "libcst",
    "networkx",
    "rich",
    "click",
    "jinja2",
    "mcp",
    "pydantic",
    "tcready.api",
    "tcready.dynamic",
    *OF_RUNS,
)


def loaded(code: str, cwd: Path) -> set[str]:
    """Which of HEAVY a fresh interpreter holds after `code`."""
    script = f"""
import sys
try:
    {code}
except SystemExit:
    pass
print("loaded:", *[name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], cwd=cwd, capture_output=True, text=True, check=True, timeout=120
    )
    return set(done.stdout.splitlines()[-1].split()[1:])


def command(*arguments: str) -> str:
    return f"from tcready.cli import main; main({list(arguments)!r})"


@pytest.mark.parametrize(
    ("code", "may"),
    [
        ("import tcready", set()),
        ("from tcready import Report, TcreadyError", set()),
        ("from tcready import check, observe", {"tcready.api"}),
        (
            "from tcready import Comparison, Finding, compare, exit_code, load, render",
            {"tcready.api", *(f"tcready.schema.{name}" for name in ("bench", "comparison", "run", "parallel"))},
        ),
        (command("--version"), {"tcready.api", "click"}),
        (command("check", "--help"), {"tcready.api", "click"}),
        (command("rules"), {"tcready.api", "click"}),
        (command("check", "plain.py", "--no-run", "--output-format", "json"), {"tcready.api", "click"}),
        (command("check", "clean.py", "--no-run", "--output-format", "json"), {"tcready.api", "click"}),
        (
            command("check", "plain.py", "--no-run", "--output-format", "json", "--write-baseline", "b.json"),
            {"tcready.api", "click"},
        ),
        (
            command("report", "--compare", "report.json", "report.json"),
            {"tcready.api", "click", "rich", *OF_RUNS},  # rich for the width of characters
        ),
        (command("check", "clean.py", "--no-run"), {"tcready.api", "click", "rich"}),
        (
            command("check", "clean.py", "--no-run", "--html", "page.html"),
            {"tcready.api", "click", "rich", "jinja2", *OF_RUNS},
        ),
    ],
)
def test_a_fresh_interpreter_loads_only_what_it_needs(code: str, may: set[str], tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("def f(x):\n    return x\n")
    (tmp_path / "clean.py").write_text(
        dedent("""\
            from torch import nn


            class Net(nn.Module):
                def forward(self, x):
                    return x + 1
        """)
    )
    (tmp_path / "report.json").write_text(
        '{"tool": {"name": "tcready", "version": "0"}, "statistics": {}, "findings": [], "targets": [], "rules": [],'
        ' "sources": [], "skipped": [], "warnings": []}'
    )
    assert loaded(code, tmp_path) <= may
