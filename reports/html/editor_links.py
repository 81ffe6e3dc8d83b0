"""Links that open a line in an editor.

They contain the folder in which the report was made, because editors find files by absolute paths. A page therefore has
them only on request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from types import MappingProxyType

from tcready.reports.shared.anonymous_paths import in_address, is_absolute
from tcready.schema.enums import TcreadyError
from tcready.schema.value_class import dataclass

EDITORS: Mapping[str, str] = MappingProxyType(
    {"vscode": "vscode://file{path}:{line}:{column}", "pycharm": "pycharm://open?file={path}&line={line}"}
)
"""Name -> the address that the editor registers with the system."""
_NEVER = frozenset({"javascript", "data", "vbscript", "blob", "view-source", "filesystem", "about"})
_KNOWN = frozenset({"path", "line", "column"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


@dataclass(frozen=True)
class Editor:
    """An address with `{path}`, `{line}` and `{column}`, the folder that paths are relative to, and the files below
    it."""

    template: str
    root: PurePath
    files: frozenset[str]

    def link(self, path: str, line: int, column: int) -> str:
        """Return the address of a place; empty for a file that does not exist, and for a cell of a notebook."""
        if path not in self.files:
            return ""
        place = in_address((self.root / path).as_posix(), "/:")
        filled = {"path": place if place.startswith("/") else f"/{place}", "line": line, "column": column}
        return re.sub(r"\{(path|line|column)\}", lambda found: str(filled[found[1]]), self.template)


class OpensLines:
    """A page with lines that open in an editor, if requested."""

    editor: Editor | None

    def in_editor(self, path: str, line: int, column: int = 1) -> str:
        """Return the link that opens a line; empty if no editor was requested, or the file is not below the folder."""
        return self.editor.link(path, line, column) if self.editor is not None else ""


class WithoutSource(OpensLines):
    """A page without source code."""

    def anchor(self, path: str, line: int) -> str:
        """Return the link to a line of source on the page: there is none."""
        return ""


def editor_of(editor: str, root: Path | None, paths: Iterable[str]) -> Editor | None:
    """Return the editor named by `asked`, for those of `paths` that are files below `root`; None for `none`.

    Raises TcreadyError as `template_of` does.
    """
    template = template_of(editor)
    if not template or root is None:
        return None
    found = (path for path in set(paths) if not is_absolute(path) and (root / path).is_file())
    return Editor(template, root, frozenset(found))


def template_of(editor: str) -> str:
    """Return the address for `asked`: an editor's name, a template, or `none` (empty).

    Raises TcreadyError for anything else.
    """
    if editor == "none":
        return ""
    template = EDITORS.get(editor, editor)
    scheme = _SCHEME.match(template)
    unknown = set(re.findall(r"\{(\w*)\}", template)) - _KNOWN
    if scheme is None or scheme[1].lower() in _NEVER or "{path}" not in template or unknown:
        raise TcreadyError(
            f"--editor {editor}: use {', '.join(EDITORS)}, none, or an address with {{path}} and {{line}}, "
            "as in 'subl://open?url=file://{path}&line={line}'"
        )
    return template
