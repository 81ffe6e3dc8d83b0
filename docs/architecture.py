"""Describe the packages of the source: what each is for, its files, and which packages it imports."""

from __future__ import annotations

import ast
import functools
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {"analyzer": "tcready", "rules": "tcready.rules", "reports": "tcready.reports"}
WORKER = "tcready.dynamic.worker"
OF_SEVERAL = ("config", "fixes", "integrations", "pipeline", "portable", "source")
"""Packages in which each module or package is a component by itself."""
LISTED_ELSEWHERE = {"rules"}
"""Components with files that have pages of their own."""


def find_modules() -> dict[str, Path]:
    """Every module by its dotted name; a package by its own."""
    found = {}
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join((package, *parts)).removesuffix(".__init__")] = path
    return found


def component_of(module: str) -> str:
    """The component that a module belongs to: a package below `tcready`, or a module or package in one of OF_SEVERAL; the
    worker is one by itself."""
    if module == WORKER or module.startswith(f"{WORKER}."):
        return "dynamic.worker"
    parts = module.split(".")
    return ".".join(parts[1:3] if parts[1:2] and parts[1] in OF_SEVERAL else parts[1:2])


def imports_of(path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    """The modules of tcready that a file imports, at its top or inside functions."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in modules else node.module for name in names)


def find_imports(modules: Mapping[str, Path]) -> dict[str, set[str]]:
    """Which other components each component imports."""
    found: dict[str, set[str]] = {component_of(module): set() for module in modules}
    for module, path in modules.items():
        found[component_of(module)] |= {component_of(name) for name in imports_of(path, modules)}
    found.pop("", None)  # the package `tcready` itself hands on what `api` offers
    return {name: others - {name, ""} for name, others in found.items()}


def find_levels(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Components by level: each imports only components of lower levels."""

    @functools.cache
    def level(name: str) -> int:
        return max((level(other) + 1 for other in imports[name]), default=0)

    levels: list[list[str]] = [[] for _ in range(max(map(level, imports)) + 1)]
    for name in sorted(imports):
        levels[level(name)].append(name)
    return levels


def describe() -> str:
    """The page as Markdown, without its title."""
    modules = find_modules()
    imports = find_imports(modules)
    text = (
        "## Which component imports which\n\n"
        "A component imports only components of the rows below it. `tests/project/test_rooms.py` lists what each may "
        "import.\n\n"
        f"```text\n{_draw(find_levels(imports))}```\n\n"
        "| component | imports |\n|---|---|\n"
    )
    for name in sorted(imports):
        text += f"| `{name}` | {', '.join(f'`{other}`' for other in sorted(imports[name])) or 'none'} |\n"
    packages = [name for name, path in modules.items() if path.name == "__init__.py"]
    return text + "".join(_describe_package(name, modules) for name in sorted(packages))


def _draw(levels: list[list[str]]) -> str:
    width = 96
    rows = []
    for names in reversed(levels):
        lines = textwrap.wrap("   ".join(names), width, break_on_hyphens=False)
        rows.append("".join(f"| {line:<{width}} |\n" for line in lines))
    rule = f"+{'-' * (width + 2)}+\n"
    return rule + rule.join(rows) + rule


def _describe_package(package: str, modules: Mapping[str, Path]) -> str:
    folder = modules[package].parent.relative_to(ROOT).as_posix()
    text = f"\n## `{folder}/`\n\n{_docstring(modules[package])}\n"
    files = [name for name in modules if name.rpartition(".")[0] == package and modules[name].stem != "__init__"]
    if not files or component_of(package) in LISTED_ELSEWHERE:
        return text
    text += "\n| file | |\n|---|---|\n"
    for name in files:
        summary = " ".join(_docstring(modules[name]).split("\n\n")[0].split()).replace("|", "\\|")
        text += f"| `{modules[name].name}` | {summary} |\n"
    return text


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_bytes())) or ""
