"""The layers of the static half: no file imports one that stands above it, not even for a type checker."""

from __future__ import annotations

import ast
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "analyzer" / "static"
LAYERS = {
    "what is named and kept": ("patterns", "locate", "hints", "units", "parts"),
    "program": (
        "process",
        "stop",
        "notebook",
        "source",
        "disk",
        "versions",
        "torch_tables",
        "documentation",
        "graft",
        "imported",
        "index",
    ),
    "engine": (
        "engine.values",
        "engine.written",
        "engine.reach",
        "engine.facts",
        "engine.text",
        "engine.chains",
        "engine.knowledge",
        "engine.precision",
        "engine.python_classes",
        "engine.torch_classes",
        "engine.heap",
        "engine.lineage",
        "engine.scope",
        "engine.models.layouts",
        "engine.models.operations",
        "engine.steps",
        "engine.contract",
        "engine.looks",
        "engine.operators",
        "engine.models.builtins",
        "engine.models.iteration",
        "engine.models.parsers",
        "engine.models.releases",
        "engine.models.constructors",
        "engine.models.library",
        "engine.registries",
        "engine.passed",
        "engine.again",
        "engine.alike",
        "engine.purposes",
        "engine.uses",
        "engine.names",
        "engine.classes",
        "engine.annotations",
        "engine.attributes",
        "engine.protocols",
        "engine.records",
        "engine.recurrent",
        "engine.sparse",
        "engine.unresolved",
        "engine.members",
        "engine.overrides",
        "engine.questions",
        "engine.matching",
        "engine.expressions",
        "engine.containers",
        "engine.assignment",
        "engine.statements",
        "engine.calls",
        "engine.objects",
        "engine.functions",
        "engine.entries",
        "engine.interpreter",
    ),
    "places": ("concrete", "graph", "rule_page", "rule", "settings", "break_effect", "unmet", "classes"),
    "judge": ("cases", "compile_calls", "analyse", "judge", "noqa", "tree"),
    "driver": ("rule_texts", "cache", "examine", "driver", "session"),
}
"""From the lowest to the highest, and so inside each layer."""


def path_of(name: str) -> Path:
    return FOLDER / (name.replace(".", "/") + ".py")


def imported(name: str) -> set[str]:
    """The files of the static half that one imports, lazily too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path_of(name).read_bytes())):
        named: list[str] = []
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tcready.static"):
            named = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        short = {n.removeprefix("tcready.static.") for n in named if n.startswith("tcready.static.")}
        found |= {n for n in short if path_of(n).is_file()}
    return found


def test_every_file_is_in_a_layer() -> None:
    names = [name for layer in LAYERS.values() for name in layer]
    assert sorted(names) == sorted(
        ".".join(path.relative_to(FOLDER).with_suffix("").parts)
        for path in FOLDER.rglob("*.py")
        if path.stem != "__init__"
    )
    assert imported("judge") >= {"analyse", "engine.facts", "rule"}, "imports are seen"


def test_rooms_of_the_engine_know_one_another_by_contract_alone() -> None:
    rooms = LAYERS["engine"][LAYERS["engine"].index("engine.names") : -1]
    wrong = [
        f"{room} imports {other}" for room in rooms for other in sorted(imported(room)) if other in rooms
    ]
    assert wrong == []


def test_no_file_imports_one_above_it() -> None:
    order = [name for layer in LAYERS.values() for name in layer]
    wrong = [
        f"{name} imports {other}"
        for position, name in enumerate(order)
        for other in sorted(imported(name))
        if order.index(other) >= position
    ]
    assert wrong == []
