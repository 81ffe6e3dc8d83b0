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
    "target": frozenset({"schema"}),
    "convention": frozenset(),
    "options": frozenset({"schema"}),
    "placing": frozenset({"schema"}),
    "identity": frozenset(),
    "edits": frozenset({"schema"}),
    "static": frozenset({"schema", "identity", "edits", "options", "target", "convention"}),
    "events": frozenset({"schema"}),
    "dynamic": frozenset({"schema", "options", "target", "convention", "worker"}),
    "worker": frozenset({"schema", "options", "target", "convention", "placing", "events", "quantities"}),
    "traces": frozenset({"schema", "events"}),
    "serving": frozenset({"schema", "target", "static"}),
    "merge": frozenset({"schema", "target", "identity", "placing", "edits"}),
    "quantities": frozenset(),
    "bench": frozenset({"schema", "quantities"}),
    "rules": frozenset({"schema", "static"}),
    "breaks": frozenset({"schema", "rules"}),
    "refactor": frozenset({"schema", "edits", "static"}),
    "reports": frozenset({"schema", "target", "quantities"}),
    "keywords": frozenset({"schema"}),
    "resolve": frozenset({"schema", "options", "static"}),
    "project": frozenset({"schema", "options", "target", "resolve"}),
    "plan": frozenset(
        {"convention", "schema", "options", "target", "resolve", "project", "static", "dynamic"}
    ),
    "observations": frozenset(
        {"schema", "options", "target", "resolve", "plan", "stored", "merge", "static", "dynamic", "traces"}
    ),
    "library": frozenset({"schema", "options", "target", "static"}),
    "narrow": frozenset({"schema", "options", "baseline", "git", "files", "static"}),
    "applying": frozenset({"schema", "git", "files", "static"}),
    "trying": frozenset({"schema", "edits", "static", "refactor", "applying"}),
    "joining": frozenset({"schema", "options", "edits", "applying"}),
    "fixing": frozenset(
        {
            "schema",
            "trying",
            "joining",
            "options",
            "target",
            "edits",
            "static",
            "refactor",
            "dynamic",
            "resolve",
            "plan",
            "observations",
            "applying",
        }
    ),
    "benching": frozenset(
        {
            "schema",
            "options",
            "target",
            "static",
            "dynamic",
            "resolve",
            "plan",
            "observations",
            "applying",
            "bench",
            "git",
        }
    ),
    "sweeping": frozenset(
        {
            "schema",
            "options",
            "target",
            "static",
            "dynamic",
            "resolve",
            "project",
            "plan",
            "library",
            "observations",
            "installed",
            "merge",
            "files",
            "stored",
        }
    ),
    "git": frozenset({"schema"}),
    "files": frozenset({"schema"}),
    "baseline": frozenset({"schema", "options", "target"}),
    "comparison": frozenset({"schema", "target", "bench"}),
    "stored": frozenset({"schema"}),
    "installed": frozenset({"schema", "static", "rules", "breaks", "refactor"}),
    "api": frozenset(
        {
            "installed",
            "schema",
            "options",
            "keywords",
            "resolve",
            "project",
            "plan",
            "static",
            "dynamic",
            "live",
            "library",
            "observations",
            "traces",
            "merge",
            "narrow",
            "explaining",
            "fixing",
            "serving",
            "benching",
            "sweeping",
            "applying",
            "comparison",
            "git",
            "files",
            "reports",
        }
    ),
    "explaining": frozenset({"schema", "target", "static"}),
    "editor": frozenset(
        {
            "schema",
            "options",
            "target",
            "resolve",
            "project",
            "static",
            "refactor",
            "merge",
            "narrow",
            "explaining",
            "installed",
            "reports",
        }
    ),
    "live": frozenset(
        {
            "schema",
            "options",
            "installed",
            "static",
            "dynamic",
            "observations",
            "benching",
            "merge",
            "reports",
        }
    ),
    "ipython": frozenset({"schema", "api"}),
    "init": frozenset({"schema", "project", "files"}),
    "assistants": frozenset({"schema", "options", "target", "resolve", "api", "reports"}),
    "cli": frozenset(
        {"schema", "options", "target", "resolve", "project", "api", "files", "init", "editor", "assistants"}
    ),
    "pytest_plugin": frozenset({"schema", "api"}),
    "package": frozenset({"schema", "api", "ipython"}),
    "__main__": frozenset({"cli"}),
}
"""Room -> the rooms it may import besides itself."""
LIBRARIES: dict[str, frozenset[str]] = {
    "schema": frozenset(),
    "target": frozenset(),
    "convention": frozenset(),
    "options": frozenset(),
    "placing": frozenset(),
    "identity": frozenset(),
    "edits": frozenset(),
    "static": frozenset({"libcst", "nbformat"}),
    "events": frozenset(),
    "traces": frozenset(),
    "dynamic": frozenset(),
    "worker": frozenset({"torch", "safetensors"}),
    "serving": frozenset(),
    "merge": frozenset({"networkx"}),
    "quantities": frozenset(),
    "bench": frozenset({"scipy"}),
    "rules": frozenset({"libcst"}),
    "breaks": frozenset(),
    "refactor": frozenset({"libcst"}),
    "reports": frozenset({"rich", "jinja2", "markupsafe", "pygments"}),
    "keywords": frozenset(),
    "resolve": frozenset(),
    "plan": frozenset(),
    "library": frozenset(),
    "observations": frozenset(),
    "narrow": frozenset(),
    "applying": frozenset(),
    "explaining": frozenset(),
    "editor": frozenset({"pygls", "lsprotocol"}),
    "trying": frozenset(),
    "joining": frozenset(),
    "fixing": frozenset(),
    "benching": frozenset(),
    "sweeping": frozenset({"pyarrow", "ray"}),
    "project": frozenset({"tomli", "tomllib"}),
    "git": frozenset(),
    "files": frozenset(),
    "baseline": frozenset(),
    "comparison": frozenset(),
    "stored": frozenset(),
    "installed": frozenset(),
    "api": frozenset(),
    "live": frozenset(),
    "ipython": frozenset(),
    "init": frozenset(),
    "assistants": frozenset({"mcp", "anyio", "pydantic"}),
    "cli": frozenset({"click", "rich"}),
    "pytest_plugin": frozenset({"pytest"}),
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
    return parts[1] if len(parts) > 1 else "package"


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
    assert {room(module) for module in SOURCES} == set(ALLOWED) == set(LIBRARIES)
    seen = {(module, name) for module, name, _ in _crossings()}
    assert ("tcready.cli.checking", "tcready.api") in seen
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
