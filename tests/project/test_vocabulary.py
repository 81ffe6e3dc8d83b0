"""Words that may not come back in names, docstrings and documentation, each with the better word beside it.

The rule is general: use the word that a user would type into a search box. See docs/pages/glossary.md for the terms.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[2]
NAMES: Mapping[str, str] = MappingProxyType(
    {
        "told": "reported",
        "tell": "report",
        "tells": "reports",
        "asked": "requested",
        "asks": "requests",
        "kept": "stored",
        "held": "stored",
        "whose": "owner",
        "stands": "is",
        "mend": "fix",
        "cure": "fix",
    }
)
"""Parts of names of functions, classes and variables."""
PROSE: Mapping[str, str] = MappingProxyType(
    {
        "tell": "report",
        "tells": "reports",
        "told": "reported",
        "stand": "be",
        "stands": "is",
        "stood": "was",
        "mend": "fix",
        "mends": "fixes",
        "mended": "fixed",
        "cure": "fix",
        "cures": "fixes",
        "cured": "fixed",
    }
)
"""Words of docstrings and of the documentation."""
FIELDS_OF_THE_JSON = frozenset({"asked", "cure", "kept_out"})
"""Keys of reports that exist: another name would break their readers."""
WORD_IN_PROSE = re.compile(rf"\b({'|'.join(PROSE)})\b", re.I)


def sources() -> Iterator[tuple[str, ast.Module]]:
    for folder in ("analyzer", "rules", "reports"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_bytes())


def name_of(node: ast.AST) -> str | None:
    """Return the name that a definition or an assignment binds."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name
    return node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else None


def wrong_names(path: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        name = name_of(node)
        if name is None or (path.startswith("analyzer/schema/") and name in FIELDS_OF_THE_JSON):
            continue
        for word in name.lower().split("_"):
            if word in NAMES:
                yield f"{path}: {name}: {NAMES[word]!r} says it better than {word!r}"


def wrong_prose(path: str, text: str) -> Iterator[str]:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
    for word in WORD_IN_PROSE.findall(text):
        yield f"{path}: {PROSE[word.lower()]!r} says it better than {word!r}"


def test_names_use_common_words() -> None:
    assert [each for path, tree in sources() for each in wrong_names(path, tree)] == []


def test_docstrings_use_common_words() -> None:
    found = [
        each
        for path, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        for each in wrong_prose(path, ast.get_docstring(node) or "")
    ]
    assert found == []


def test_the_documentation_uses_common_words() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs" / "pages").glob("*.md"))]
    found = [each for page in pages for each in wrong_prose(page.name, page.read_text("utf-8"))]
    assert found == []


def test_such_words_are_found() -> None:
    tree = ast.parse("kept = 1\ndef tell_all(): 'Tell what stands here, but not `told`.'\n")
    assert len(list(wrong_names("x.py", tree))) == 2
    assert len(list(wrong_prose("x.py", "Tell what stands here, but not `told`."))) == 2
