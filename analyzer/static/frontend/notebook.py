"""A notebook as one program: its code cells in order, without the parts that only IPython understands.

Lines stay where they are: what is left out becomes `pass`, or an empty line. Columns are those of the code that runs:
the indent of a whole cell and prompts are no part of it.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tcready.schema.enums import lines_of
from tcready.schema.notebook_cells import Cell

EXTRA = "reading notebooks needs nbformat: pip install 'tcready[notebook]'"
PYTHON_CELLS = frozenset({"capture", "debug", "prun", "pypy", "python", "python3", "tcready", "time", "timeit"})
"""Cell magics with Python in the cell, as in ruff."""

_SCANNED = re.compile(
    r"""(?P<comment>\#.*)|(?P<open>[rbfut]*(?:'''|\"\"\"))|(?P<text>'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?)"""
    r"""|(?P<in>[\[({])|(?P<out>[\])}])""",
    re.IGNORECASE | re.VERBOSE,
)
_MAGIC = re.compile(r"(?P<indent>\s*)(?:[%!?,;].*|/[A-Za-z_].*|[A-Za-z_*][\w.*%]*\?{1,2}\s*)\Z", re.DOTALL)
_ASSIGNED = re.compile(r"(?P<target>\s*[A-Za-z_][\w., \t\[\]'\"]*=\s*)(?:!|%[A-Za-z_]).*\Z", re.DOTALL)
_PROMPTS = (
    (re.compile(r">>>(?: |$)"), re.compile(r"(?:>>>|\.\.\.)(?: |$)")),
    (re.compile(r"In \[\d+\]: ?"), re.compile(r"(?:In \[\d+\]:|\s*\.{3,}:) ?")),
)
"""The prefixes of the first line, and of any line, of a pasted session."""
_JSON = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


class NotebookError(Exception):
    """A notebook that cannot be read; the message is the reason, one line."""

    def __init__(self, reason: str, cell: int | None = None, error: SyntaxError | None = None) -> None:
        super().__init__(reason)
        self.cell = cell
        """The cell that is no Python, over cells of every kind; None if the reason is another."""
        self.error = error
        """Python's error for that cell."""


@dataclass(frozen=True)
class NotebookProgram:
    """The contents of a notebook's code cells, one after the other."""

    text: str
    cells: tuple[Cell, ...]


def read(data: bytes) -> NotebookProgram:
    """Return the program of an .ipynb file that holds `data`.

    Raises NotebookError if nbformat is not installed, the file is no notebook or one of another language, or a cell
    cannot be parsed.
    """
    try:
        import nbformat
        from nbformat import reader
    except ImportError:
        raise NotebookError(EXTRA) from None
    try:
        text = data.decode("utf-8-sig")
        # without the validation of `nbformat.reads`: what Jupyter opens is read
        notebook = nbformat.convert(reader.reads(text), 4)
        written = [(at, str(cell.source)) for at, cell in enumerate(notebook.cells, 1) if cell.cell_type == "code"]
    except UnicodeDecodeError as error:
        raise NotebookError(f"cannot be decoded: {error.encoding} does not fit at byte {error.start}") from None
    except Exception as error:  # whatever nbformat makes of a file that is no notebook
        why = str(error).strip().splitlines()
        raise NotebookError(f"not a notebook: {why[0] if why else type(error).__name__}") from None
    language = _language(notebook.metadata)
    if language.lower() not in ("python", "ipython"):
        raise NotebookError(f"its language is {language}, not Python")
    places = _file_lines(text)
    lines: list[str] = []
    cells: list[Cell] = []
    for number, source in written:
        own = lines_of(source)
        python = _python(own)
        _refuse_unparsable(python, number)
        there = places.get(number, ())
        cells.append(Cell(number, len(lines) + 1, tuple(there[at] if at < len(there) else 1 for at in range(len(own)))))
        lines += python
    return NotebookProgram("".join(f"{line}\n" for line in lines), tuple(cells))


def _language(metadata: Any) -> str:
    """Return the language of the cells; Python if the notebook does not say."""
    for about, name in (("language_info", "name"), ("kernelspec", "language")):
        known = metadata.get(about) if isinstance(metadata, dict) else None
        if isinstance(known, dict) and known.get(name):
            return " ".join(str(known[name]).split())
    return "python"


def _refuse_unparsable(lines: list[str], number: int) -> None:
    """Raise NotebookError if a cell is no Python."""
    try:
        ast.parse("\n".join(lines))
    except SyntaxError as error:
        reason = f"syntax error in cell {number}, line {error.lineno or 1}: {error.msg}"
        raise NotebookError(reason, number, error) from None
    except ValueError as error:
        raise NotebookError(f"cell {number} cannot be parsed: {error}", number) from None
    except (RecursionError, MemoryError):
        raise NotebookError(f"cell {number} cannot be parsed: nested too deeply", number) from None


def _python(lines: list[str]) -> list[str]:
    """Return the lines of a cell with prompts, the indent of the first line, magics and shell lines left out."""
    lines = _dedent(_without_prompts(lines))
    first = next((line for line in lines if line.strip()), "")
    kind = re.match(r"%%([\w!.]*)", first)
    if kind is not None and kind[1] not in PYTHON_CELLS:
        return [""] * len(lines)
    found: list[str] = []
    inside = _Inside()
    left_out = False
    for line in lines:
        if left_out:  # a shell line that goes on behind a backslash
            left_out = line.endswith("\\")
            found.append("")
            continue
        magic = None if inside.goes_on else _MAGIC.match(line)
        assigned = None if inside.goes_on else _ASSIGNED.match(line)
        if magic is not None:
            found.append(f"{magic['indent']}pass")
        elif assigned is not None:
            found.append(f"{assigned['target']}get_ipython()")
        else:
            found.append(line)
            inside.read(line)
            continue
        left_out = line.endswith("\\")
    return found


def _without_prompts(lines: list[str]) -> list[str]:
    """Return the lines without `>>> ` and `... `, or `In [1]: ` and `...: `, if the first that holds something has
    one."""
    first = next((line for line in lines if line.strip()), "")
    for begins, prompt in _PROMPTS:
        if begins.match(first):
            return [prompt.sub("", line, count=1) if prompt.match(line) else line for line in lines]
    return lines


def _dedent(lines: list[str]) -> list[str]:
    """Return the lines without the indent of the first that holds something, as IPython runs them."""
    first = next((line for line in lines if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip())]
    return [line.removeprefix(indent) for line in lines]


class _Inside:
    """Tracks whether the next line continues a statement: in brackets, in a long string, after a backslash."""

    def __init__(self) -> None:
        self._quotes = ""
        self._depth = 0
        self._joined = False

    @property
    def goes_on(self) -> bool:
        return bool(self._quotes) or self._depth > 0 or self._joined

    def read(self, line: str) -> None:
        at = 0
        while True:
            if self._quotes:
                closed = re.compile(rf"(?:[^\\]|\\.)*?{self._quotes}", re.DOTALL).match(line, at)
                if closed is None:
                    return
                self._quotes, at = "", closed.end()
            found = _SCANNED.search(line, at)
            if found is None or found.lastgroup == "comment":
                break
            at = found.end()
            if found.lastgroup == "open":
                self._quotes = found[0][-3:]
            elif found.lastgroup in ("in", "out"):
                self._depth = max(self._depth + (1 if found.lastgroup == "in" else -1), 0)
        self._joined = found is None and line.endswith("\\")


def _file_lines(text: str) -> dict[int, tuple[int, ...]]:
    """Return, for each cell, from 1, the line in the file of each line of its source: nbformat does not record it."""
    found: dict[int, list[int]] = {}
    begun: dict[int, bool] = {}
    for keys, string, file_line in _strings(text):
        keys = keys[:-1] if isinstance(keys[-1], int) else keys  # a source is one string, or a list of them
        match keys:
            case (*_, "cells", int(index), "source" | "input"):  # `input` before format 4
                number = index + 1
            case _:
                continue
        lines = found.setdefault(number, [file_line])
        if not begun.get(number):  # the string before ended its line
            lines[-1] = file_line
        first, *others = lines_of(json.loads(string, strict=False))
        lines += [file_line] * len(others)
        begun[number] = bool(others[-1]) if others else begun.get(number, False) or bool(first)
    return {number: tuple(lines) for number, lines in found.items()}


def _strings(text: str) -> Iterator[tuple[list[str | int | None], str, int]]:
    """Return each string of a JSON text with the keys and positions that lead to it, and its line."""
    line, counted = 1, 0
    keys: list[str | int | None] = []
    for match in _JSON.finditer(text):
        word = match[0]
        if word == "{":
            keys.append(None)
        elif word == "[":
            keys.append(0)
        elif word in "}]" and keys:
            keys.pop()
        elif word == "," and keys:
            keys[-1] = keys[-1] + 1 if isinstance(keys[-1], int) else None
        elif word[0] == '"' and keys:
            if keys[-1] is None:
                keys[-1] = str(json.loads(word, strict=False))
            else:
                line += text.count("\n", counted, match.start())
                counted = match.start()
                yield list(keys), word, line
