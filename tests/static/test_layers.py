"""The layers of the static half: no file imports one that stands above it, not even for a type checker."""

from __future__ import annotations

import ast
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "analyzer" / "static"
LAYERS = {
    "what is named and kept": (
        "frontend.globs",
        "frontend.module_search",
        "diagnostics.suggestions",
        "units",
        "unit_results",
    ),
    "program": (
        "frontend.interpreter_settings",
        "frontend.cancellation",
        "frontend.notebook",
        "frontend.source",
        "frontend.file_cache",
        "library.torch_versions",
        "library.torch_tables",
        "frontend.documentation",
        "frontend.tree_reuse",
        "frontend.import_scan",
        "frontend.index",
    ),
    "engine": (
        "domain.values",
        "domain.const_eval",
        "summaries.call_statistics",
        "domain.facts",
        "domain.constant_text",
        "interp.match_lowering",
        "library.semantics",
        "library.dtype_tests",
        "library.python_classes",
        "library.torch_classes",
        "domain.heap",
        "domain.mro",
        "domain.priors",
        "domain.path_state",
        "domain.scope",
        "library.shape_semantics",
        "library.torch_operations",
        "summaries.call_summaries",
        "interp.interfaces",
        "interp.frame_filter",
        "domain.folding",
        "library.builtins",
        "library.iteration",
        "library.argparse_options",
        "library.package_versions",
        "library.constructors",
        "library.functions",
        "library.config_registries",
        "interp.call_site_inference",
        "summaries.incremental_replay",
        "summaries.hash_consing",
        "interp.argument_roles",
        "interp.usage_inference",
        "interp.forks",
        "interp.names",
        "interp.class_bodies",
        "interp.annotations",
        "interp.attributes",
        "interp.protocols",
        "interp.records",
        "library.recurrent_modules",
        "library.sparse_tensors",
        "interp.unresolved_attributes",
        "interp.enum_semantics",
        "interp.torch_function",
        "interp.truth",
        "interp.match_patterns",
        "interp.expressions",
        "interp.containers",
        "interp.assignment",
        "interp.statements",
        "interp.calls",
        "interp.objects",
        "interp.functions",
        "interp.entries",
        "interp.interpreter",
    ),
    "places": (
        "diagnostics.cst_view",
        "diagnostics.call_graph",
        "diagnostics.rule_page",
        "diagnostics.rule",
        "diagnostics.dynamo_settings",
        "diagnostics.break_effect",
        "diagnostics.shadowed_breaks",
        "diagnostics.model_classes",
    ),
    "judge": (
        "diagnostics.input_cases",
        "diagnostics.compile_calls",
        "entry_analysis",
        "diagnostics.diagnose",
        "frontend.noqa",
        "diagnostics.module_tree",
    ),
    "driver": ("diagnostics.rule_texts", "cache", "unit_analysis", "driver", "session"),
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
    assert imported("diagnostics.diagnose") >= {"entry_analysis", "domain.facts", "diagnostics.rule"}, (
        "imports are seen"
    )


def test_rooms_of_the_engine_know_one_another_by_contract_alone() -> None:
    rooms = LAYERS["engine"][LAYERS["engine"].index("interp.names") : -1]
    wrong = [f"{room} imports {other}" for room in rooms for other in sorted(imported(room)) if other in rooms]
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
