"""The layers of the static half: no file imports one that stands above it, not even for a type checker."""

from __future__ import annotations

import ast
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "analyzer" / "static"
LAYERS = {
    "what is named and kept": ("patterns", "units", "parts"),
    "program": ("source", "locate", "disk", "index", "versions", "torch_tables"),
    "engine": (
        "values",
        "facts",
        "text",
        "knowledge",
        "objects",
        "scope",
        "evaluate",
        "registries",
        "interp",
    ),
    "places": ("concrete", "graph", "rule", "break_effect"),
    "judge": ("analyse", "judge", "noqa", "tree"),
    "driver": ("cache", "examine", "driver"),
}
"""From the lowest to the highest, and so inside each layer."""


def imported(name: str) -> set[str]:
    """The files of the static half that one imports, lazily too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((FOLDER / f"{name}.py").read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module == "tcready.static":
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tcready.static."):
            found.add((node.module or "").removeprefix("tcready.static."))
        elif isinstance(node, ast.Import):
            found.update(
                alias.name.removeprefix("tcready.static.")
                for alias in node.names
                if alias.name.startswith("tcready.static.")
            )
    return found


def test_every_file_is_in_a_layer() -> None:
    names = [name for layer in LAYERS.values() for name in layer]
    assert sorted(names) == sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
    assert imported("judge") >= {"analyse", "facts", "rule"}, "imports are seen"


def test_no_file_imports_one_above_it() -> None:
    order = [name for layer in LAYERS.values() for name in layer]
    wrong = [
        f"{name} imports {other}"
        for position, name in enumerate(order)
        for other in sorted(imported(name))
        if order.index(other) >= position
    ]
    assert wrong == []
