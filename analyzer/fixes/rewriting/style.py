"""Format changed text in the style of its project: line length, and no unused imports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tcready.fixes.rewriting.imports import remove_unused
from tcready.fixes.rewriting.line_wrapping import wrap
from tcready.schema.display_paths import is_installed
from tcready.static.frontend.source import Source

DEFAULT = 88
"""The line length of Black and Ruff if nothing else is set."""
KEYS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        ".ruff.toml": {"": "line-length"},
        "ruff.toml": {"": "line-length"},
        "pyproject.toml": {"tool.ruff": "line-length", "tool.black": "line-length"},
        ".flake8": {"flake8": "max-line-length"},
        "setup.cfg": {"flake8": "max-line-length", "pycodestyle": "max-line-length"},
        "tox.ini": {"flake8": "max-line-length", "pycodestyle": "max-line-length"},
        ".editorconfig": {"*.py": "max-line-length", "*": "max-line-length"},
    }
)
"""The sections and their key that set the line length, for each settings file."""
_SECTION = re.compile(r"\s*\[([^\]]*(?:\{[^}]*\}[^\]]*)?)\]\s*(?:[#;].*)?")
_NUMBER = re.compile(r"\s*([\w-]+)\s*=\s*(\d{2,3})\s*(?:[#;].*)?")


def tidy(before: Source, after: str) -> str:
    """Return the changed text of a file without imports that became unused, and with long new lines wrapped;
    unchanged if it does not parse, or is a notebook."""
    if before.cells or after == before.text:
        return after
    try:
        made = remove_unused(before.text, after, before.path.name)
        return wrap(before.text, made, before.derive(_line_length), before.derive(_step))
    except (SyntaxError, ValueError, RecursionError):
        return after


def _line_length(source: Source) -> int:
    return line_length(source.path)


def _step(source: Source) -> str:
    """Return one level of indentation, as in the first indented line."""
    first = next((re.match(r"[ \t]+", line) for line in source.lines if line[:1] in (" ", "\t") and line.strip()), None)
    return first[0] if first else "    "


def line_length(path: Path) -> int:
    """Return the line length of the project around a file, from the nearest settings file that sets one."""
    if is_installed(str(path)):
        return DEFAULT
    for folder in path.resolve().parents:
        for name, keys in KEYS.items():
            if (found := _length_in(folder / name, keys)) is not None:
                return found
        if (folder / ".git").exists():
            break
    return DEFAULT


def _length_in(file: Path, keys: Mapping[str, str]) -> int | None:
    """Return the line length in a settings file, TOML or INI; None if the file or the setting is missing."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    found: dict[str, int] = {}
    section = ""
    for line in text.splitlines():
        if header := _SECTION.fullmatch(line):
            section = header[1].strip()
        elif entry := _NUMBER.fullmatch(line):
            for wanted, key in keys.items():
                if _is_section(section, wanted) and entry[1].replace("_", "-") == key:
                    found.setdefault(wanted, int(entry[2]))
    return next((found[wanted] for wanted in keys if wanted in found), None)


def _is_section(section: str, wanted: str) -> bool:
    """Return True for the right section; in .editorconfig `[*.{js,py}]` covers `*.py`."""
    if section == wanted:
        return True
    suffix = wanted.removeprefix("*.")
    return suffix != wanted and section.startswith("*.{") and suffix in re.split(r"[{},\s]+", section)
