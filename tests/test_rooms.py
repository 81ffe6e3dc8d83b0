"""Who may import whom (the design's section 2), and what a fresh interpreter loads."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {"analyzer": "tcready", "rules": "tcready.rules", "reports": "tcready.reports"}

ALLOWED: dict[str, frozenset[str]] = {
    "schema": frozenset(),
    "portable.target": frozenset({"schema"}),
    "portable.input_conventions": frozenset(),
    "portable.options": frozenset({"schema"}),
    "portable.compile_code": frozenset({"schema"}),
    "source.fingerprint": frozenset(),
    "source.edits": frozenset({"schema"}),
    "static": frozenset(
        {
            "schema",
            "source.fingerprint",
            "source.edits",
            "portable.options",
            "portable.target",
            "portable.input_conventions",
        }
    ),
    "portable.events": frozenset({"schema"}),
    "dynamic": frozenset(
        {"schema", "portable.options", "portable.target", "portable.input_conventions", "worker"}
    ),
    "worker": frozenset(
        {
            "schema",
            "portable.options",
            "portable.target",
            "portable.input_conventions",
            "portable.compile_code",
            "portable.events",
            "portable.quantities",
        }
    ),
    "traces": frozenset({"schema", "portable.events"}),
    "integrations.vllm": frozenset({"schema", "portable.target", "static"}),
    "merge": frozenset(
        {"schema", "portable.target", "source.fingerprint", "portable.compile_code", "source.edits"}
    ),
    "portable.quantities": frozenset(),
    "bench": frozenset({"schema", "portable.quantities"}),
    "rules": frozenset({"schema", "static", "fixes.rewriters"}),
    "fixes.rewriters": frozenset({"schema", "static", "rules"}),
    "pipeline.break_pages": frozenset({"schema", "rules"}),
    "fixes.rewriting": frozenset({"schema", "source.edits", "static"}),
    "reports": frozenset({"schema", "portable.target", "portable.quantities"}),
    "config.keywords": frozenset({"schema"}),
    "config.resolution": frozenset({"schema", "portable.options", "static"}),
    "config.pyproject": frozenset({"schema", "portable.options", "portable.target", "config.resolution"}),
    "pipeline.run_selection": frozenset(
        {
            "portable.input_conventions",
            "schema",
            "portable.options",
            "portable.target",
            "config.resolution",
            "config.pyproject",
            "static",
            "dynamic",
        }
    ),
    "pipeline.observations": frozenset(
        {
            "schema",
            "portable.options",
            "portable.target",
            "config.resolution",
            "pipeline.run_selection",
            "pipeline.report_loading",
            "merge",
            "static",
            "dynamic",
            "traces",
        }
    ),
    "pipeline.named_models": frozenset({"schema", "portable.options", "portable.target", "static"}),
    "pipeline.filtering": frozenset(
        {"schema", "portable.options", "pipeline.baseline", "pipeline.git", "source.files", "static"}
    ),
    "fixes.patching": frozenset({"schema", "pipeline.git", "source.files", "static"}),
    "fixes.rounds": frozenset({"schema", "source.edits", "static", "fixes.rewriting", "fixes.patching"}),
    "fixes.multi_target": frozenset({"schema", "portable.options", "source.edits", "fixes.patching"}),
    "fixes.proposals": frozenset(
        {
            "schema",
            "fixes.rounds",
            "fixes.multi_target",
            "portable.options",
            "portable.target",
            "source.edits",
            "static",
            "fixes.rewriting",
            "dynamic",
            "config.resolution",
            "pipeline.run_selection",
            "pipeline.observations",
            "fixes.patching",
        }
    ),
    "pipeline.bench_run": frozenset(
        {
            "schema",
            "portable.options",
            "portable.target",
            "static",
            "dynamic",
            "config.resolution",
            "pipeline.run_selection",
            "pipeline.observations",
            "fixes.patching",
            "bench",
            "pipeline.git",
        }
    ),
    "sweep": frozenset(
        {
            "schema",
            "portable.options",
            "portable.target",
            "static",
            "dynamic",
            "config.resolution",
            "config.pyproject",
            "pipeline.run_selection",
            "pipeline.named_models",
            "pipeline.observations",
            "pipeline.registry",
            "merge",
            "source.files",
            "pipeline.report_loading",
        }
    ),
    "pipeline.git": frozenset({"schema"}),
    "source.files": frozenset({"schema"}),
    "pipeline.baseline": frozenset({"schema", "portable.options", "portable.target"}),
    "pipeline.comparison": frozenset({"schema", "portable.target", "bench"}),
    "pipeline.report_loading": frozenset({"schema"}),
    "pipeline.registry": frozenset({"schema", "static", "rules", "pipeline.break_pages", "fixes.rewriting"}),
    "api": frozenset(
        {
            "pipeline.registry",
            "schema",
            "portable.options",
            "config.keywords",
            "config.resolution",
            "config.pyproject",
            "pipeline.run_selection",
            "static",
            "dynamic",
            "pipeline.live_objects",
            "pipeline.named_models",
            "pipeline.observations",
            "traces",
            "merge",
            "pipeline.filtering",
            "pipeline.explanation",
            "fixes.proposals",
            "integrations.vllm",
            "pipeline.bench_run",
            "sweep",
            "fixes.patching",
            "pipeline.comparison",
            "pipeline.git",
            "source.files",
            "reports",
        }
    ),
    "pipeline.explanation": frozenset({"schema", "portable.target", "static"}),
    "integrations.lsp": frozenset(
        {
            "schema",
            "portable.options",
            "portable.target",
            "config.resolution",
            "config.pyproject",
            "static",
            "fixes.rewriting",
            "merge",
            "pipeline.filtering",
            "pipeline.explanation",
            "pipeline.registry",
            "reports",
        }
    ),
    "pipeline.live_objects": frozenset(
        {
            "schema",
            "portable.options",
            "pipeline.registry",
            "static",
            "dynamic",
            "pipeline.observations",
            "pipeline.bench_run",
            "merge",
            "reports",
        }
    ),
    "integrations.ipython": frozenset({"schema", "api"}),
    "config.init": frozenset({"schema", "config.pyproject", "source.files"}),
    "integrations.mcp": frozenset(
        {"schema", "portable.options", "portable.target", "config.resolution", "api", "reports"}
    ),
    "cli": frozenset(
        {
            "schema",
            "portable.options",
            "portable.target",
            "config.resolution",
            "config.pyproject",
            "api",
            "source.files",
            "config.init",
            "integrations.lsp",
            "integrations.mcp",
        }
    ),
    "integrations.pytest_plugin": frozenset({"schema", "api"}),
    "package": frozenset({"schema", "api", "integrations.ipython"}),
    "__main__": frozenset({"cli"}),
}
"""Room -> the rooms it may import besides itself."""
LIBRARIES: dict[str, frozenset[str]] = {
    "schema": frozenset(),
    "portable.target": frozenset(),
    "portable.input_conventions": frozenset(),
    "portable.options": frozenset(),
    "portable.compile_code": frozenset(),
    "source.fingerprint": frozenset(),
    "source.edits": frozenset(),
    "static": frozenset({"libcst", "nbformat"}),
    "portable.events": frozenset(),
    "traces": frozenset(),
    "dynamic": frozenset(),
    "worker": frozenset({"torch", "safetensors"}),
    "integrations.vllm": frozenset(),
    "merge": frozenset({"networkx"}),
    "portable.quantities": frozenset(),
    "bench": frozenset({"scipy"}),
    "rules": frozenset({"libcst"}),
    "fixes.rewriters": frozenset({"libcst"}),
    "pipeline.break_pages": frozenset(),
    "fixes.rewriting": frozenset({"libcst"}),
    "reports": frozenset({"rich", "jinja2", "markupsafe", "pygments"}),
    "config.keywords": frozenset(),
    "config.resolution": frozenset(),
    "pipeline.run_selection": frozenset(),
    "pipeline.named_models": frozenset(),
    "pipeline.observations": frozenset(),
    "pipeline.filtering": frozenset(),
    "fixes.patching": frozenset(),
    "pipeline.explanation": frozenset(),
    "integrations.lsp": frozenset({"pygls", "lsprotocol"}),
    "fixes.rounds": frozenset(),
    "fixes.multi_target": frozenset(),
    "fixes.proposals": frozenset(),
    "pipeline.bench_run": frozenset(),
    "sweep": frozenset({"pyarrow", "ray"}),
    "config.pyproject": frozenset({"tomli", "tomllib"}),
    "pipeline.git": frozenset(),
    "source.files": frozenset(),
    "pipeline.baseline": frozenset(),
    "pipeline.comparison": frozenset(),
    "pipeline.report_loading": frozenset(),
    "pipeline.registry": frozenset(),
    "api": frozenset(),
    "pipeline.live_objects": frozenset(),
    "integrations.ipython": frozenset(),
    "config.init": frozenset(),
    "integrations.mcp": frozenset({"mcp", "anyio", "pydantic"}),
    "cli": frozenset({"click", "rich"}),
    "integrations.pytest_plugin": frozenset({"pytest"}),
    "package": frozenset(),
    "__main__": frozenset(),
}
"""Room -> what it may import that is neither the standard library nor tcready."""


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
    assert known == set(ALLOWED) == set(LIBRARIES)
    seen = {(module, name) for module, name, _ in _crossings()}
    assert ("tcready.cli.check_command", "tcready.api") in seen
    assert ("tcready.api", "tcready.static.driver") in seen, "lazy imports count"


def test_imports_point_one_way() -> None:
    wrong = [
        f"{module} imports {name}"
        for module, name, _ in _crossings()
        if room(name) != room(module)
        and room(name) not in ALLOWED[room(module)]
        and not (room(name) == "package" and name == "tcready")
    ]
    assert wrong == []


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
        and top not in LIBRARIES[room(module)]
        and not typed
    ]
    assert wrong == []


def test_modules_import_each_other_in_no_circle() -> None:
    """A package's `__init__` may gather its modules, which never go through it in turn."""
    edges = {
        module: {name for name, _ in imports(module) if name in SOURCES and name != module}
        for module in SOURCES
    }
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
    f"tcready.schema.{name}"
    for name in ("bench", "comparison", "parallel", "proof", "run", "serving", "sweep")
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
            {
                "tcready.api",
                *(f"tcready.schema.{name}" for name in ("bench", "comparison", "run", "parallel")),
            },
        ),
        (command("--version"), {"tcready.api", "click"}),
        (command("check", "--help"), {"tcready.api", "click"}),
        (command("rules"), {"tcready.api", "click"}),
        (command("check", "plain.py", "--no-run", "--output-format", "json"), {"tcready.api", "click"}),
        (
            command("check", "clean.py", "--no-run", "--output-format", "json"),
            {"tcready.api", "click"},
        ),
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
        "from torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x + 1\n"
    )
    (tmp_path / "report.json").write_text(
        '{"tool": {"name": "tcready", "version": "0"}, "statistics": {}, "findings": [], "targets": [], "rules": [],'
        ' "sources": [], "skipped": [], "warnings": []}'
    )
    assert loaded(code, tmp_path) <= may
