"""Links that open a line in an editor.

They hold the folder in which the report was made, as editors find files by absolute paths. So a page has none unless they
are asked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from types import MappingProxyType
from urllib.parse import quote

from tcready.schema import TcreadyError

EDITORS: Mapping[str, str] = MappingProxyType(
    {
        "vscode": "vscode://file{path}:{line}:{column}",
        "pycharm": "pycharm://open?file={path}&line={line}",
    }
)
"""Name -> the address that the editor registers with the system."""
_NEVER = frozenset({"javascript", "data", "vbscript", "blob"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


@dataclass(frozen=True)
class Editor:
    """An address with `{path}`, `{line}` and `{column}`, the folder that relative paths start from, and the paths of a
    report that are not below it."""

    template: str
    root: PurePath
    elsewhere: frozenset[str] = frozenset()

    def link(self, path: str, line: int, column: int) -> str:
        """The address of a place; empty for a file that is not below the folder, and for a cell of a notebook."""
        if path in self.elsewhere or ".ipynb" in path:
            return ""
        place = quote((self.root / path).as_posix(), safe="/:", errors="surrogateescape")
        filled = {"path": place if place.startswith("/") else f"/{place}", "line": line, "column": column}
        return re.sub(r"\{(path|line|column)\}", lambda found: str(filled[found[1]]), self.template)


def template_of(asked: str) -> str:
    """The address that `asked` stands for: an editor's name, a template, or `none` (empty).

    Raises TcreadyError for anything else.
    """
    if asked == "none":
        return ""
    template = EDITORS.get(asked, asked)
    scheme = _SCHEME.match(template)
    if scheme is None or scheme[1].lower() in _NEVER or "{path}" not in template:
        raise TcreadyError(
            f"--editor {asked}: use {', '.join(EDITORS)}, none, or an address with {{path}} and {{line}}, "
            "as in 'subl://open?url=file://{path}&line={line}'"
        )
    return template
