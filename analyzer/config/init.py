"""Additions of `tcready init` to a project: a table in pyproject.toml and a hook in .pre-commit-config.yaml.

Text is only added: every existing byte stays. If a file's form makes that unsafe, the file is not changed, and the user
is shown what to write.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tcready.config import pyproject
from tcready.schema.enums import TcreadyError
from tcready.source.files import stage_file

PROJECT = pyproject.FILE
HOOKS = ".pre-commit-config.yaml"
TABLE = """\
[tool.tcready]
# What `tcready check` takes if the command line says nothing; `tcready check --show-settings` tells what holds.
fail-on = "warning"  # exit 1 at this level and above: error, warning or note
# select = ["TCR1", "TCR2"]  # only these rules; `tcready rules` lists them
# ignore = ["TCR5"]
# exclude = ["third_party"]  # globs of files and folders to pass by
# per-file-ignores = { "tests/**" = ["TCR3"] }
# torch-version = "2.11"  # predict for this torch instead of the installed one

# What `tcready check --run` runs. Without `inputs`, inputs are generated.
"""
EXAMPLE = """\
# [tool.tcready.targets.net]
# target = "src/model.py::Net"
# inputs = "src/model.py::example_inputs"
"""
MANY = 12
"""The number of models that are listed."""
LOCAL = """\
- repo: local
  hooks:
    - id: tcready
      name: tcready
      entry: tcready check --no-run --force-exclude --lenient
      language: system
      types_or: [python, jupyter]
      require_serial: true
    - id: tcready-run
      name: tcready (run)
      entry: tcready check --run --lenient
      language: system
      types_or: [python, jupyter, toml]
      pass_filenames: false
      require_serial: true
      stages: [pre-push, manual]
"""
REMOTE = """\
- repo: {url}
  rev: v{version}
  hooks:
    - id: tcready
    - id: tcready-run
"""
_LABELS = ("repository", "source", "source code", "homepage")
_SHOWN = re.compile(r"\s*(?:#.*)?")
"""A line without content."""
_KEY = re.compile(r"""[\w"'][^\s:]*:(?:\s.*)?""")


@dataclass(frozen=True)
class ProjectTarget:
    """A model of the project, for a table of its own in pyproject.toml."""

    name: str
    """The name of the table."""
    path: str
    cls: str
    gives_inputs: bool
    """Whether its file gives the inputs."""
    required: tuple[str, ...]
    """The parameters of the constructor that have no default and no value in the file: the user has to give them."""


@dataclass(frozen=True)
class Addition:
    """One file before and after the addition."""

    path: Path
    before: bytes | None
    """None if the file does not exist."""
    after: bytes

    def diff(self) -> str:
        """Return the addition as a unified diff."""
        old, new = (text.decode("utf-8").splitlines(keepends=True) for text in (self.before or b"", self.after))
        start = "/dev/null" if self.before is None else f"a/{self.path.name}"
        made = difflib.unified_diff(old, new, start, f"b/{self.path.name}")
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in made)


@dataclass(frozen=True)
class SetupPlan:
    additions: tuple[Addition, ...]
    notes: tuple[str, ...]
    """What already exists, and what the user has to do."""


def plan(root: Path, targets: Sequence[ProjectTarget] = ()) -> SetupPlan:
    """Return what the project at `root` with these models lacks. Nothing is written.

    Raises TcreadyError for a file that cannot be read or written.
    """
    additions: list[Addition] = []
    notes: list[str] = []
    table = TABLE + (_target_tables(targets) or EXAMPLE)
    for name, add in ((pyproject.FILE, partial(_with_table, table)), (HOOKS, partial(_with_hook, root))):
        before = _contents(root / name)
        try:
            after = add(before)
        except _Unable as why:
            notes.append(f"{name}: {why}")
            continue
        additions.append(Addition(root / name, before, after))
    return SetupPlan(tuple(additions), tuple(notes))


def write(additions: Sequence[Addition]) -> None:
    """Write all of them, or none. Raises TcreadyError if one cannot be written, or changed in the meantime."""
    waiting: list[tuple[Addition, Path, str]] = []
    replaced: list[tuple[Addition, Path]] = []
    try:
        for each in additions:
            target = Path(os.path.realpath(each.path))
            waiting.append((each, target, stage_file(target, each.after)))
        for each, target, staged in waiting:
            if _contents(each.path) != each.before:
                raise TcreadyError(f"{each.path.name} was changed meanwhile: nothing was written")
            os.replace(staged, target)
            replaced.append((each, target))
    except BaseException as error:
        for each, target in replaced:
            _put_back(target, each.before)
        if isinstance(error, OSError):
            names = " and ".join(each.path.name for each in additions)
            raise TcreadyError(f"cannot write {names}: {error.strerror}") from None
        raise
    finally:
        for _, _, staged in waiting:
            with contextlib.suppress(OSError):
                os.unlink(staged)


def _put_back(target: Path, before: bytes | None) -> None:
    with contextlib.suppress(OSError):
        if before is None:
            target.unlink()
        else:
            os.replace(stage_file(target, before), target)


def _contents(path: Path) -> bytes | None:
    """Return the content of the file; None if it does not exist. Raises TcreadyError if it cannot be added to."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TcreadyError(f"{path.name} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode):
        raise TcreadyError(f"{path.name} is no file: nothing can be added to it")
    if not found.st_mode & 0o222 or not os.access(path, os.W_OK):
        raise TcreadyError(f"{path.name} is read-only: make it writable, or add to it by hand")
    try:
        data = path.read_bytes()
        data.decode("utf-8")
    except OSError as error:
        raise TcreadyError(f"{path.name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise TcreadyError(f"{path.name} cannot be read: {error}") from None
    return data


class _Unable(Exception):  # noqa: N818 - nothing failed
    """A file cannot be changed safely; the message is the reason."""


# pyproject.toml


def _target_tables(targets: Sequence[ProjectTarget]) -> str:
    """Return a table for each model; one that the user has to complete is a comment."""
    found = []
    for each in targets[:MANY]:
        lines = [f"[{pyproject.TABLES}.{each.name}]", f"target = {json.dumps(f'{each.path}::{each.cls}')}"]
        if each.required:
            made = f"{each.cls}({', '.join(f'{name}=...' for name in each.required)})"
            lines[-1] = f"target = {json.dumps(f'{each.path}::build')}  # a function of yours that returns {made}"
            lines = [f"# {line}" for line in lines]
        elif each.gives_inputs:
            lines[-1] += "  # its file gives the inputs"
        found.append("\n".join(lines) + "\n")
    if len(targets) > MANY:
        found.append(f"# {len(targets) - MANY} more models are not listed here.\n")
    return "\n".join(found)


def _with_table(table: str, before: bytes | None) -> bytes:
    text = (before or b"").decode("utf-8")
    contents = pyproject.parse_project(text.encode())
    tool = contents.get("tool", {})
    if isinstance(tool, dict) and "tcready" in tool:
        raise _Unable(f"it has [{pyproject.TABLE}] already")
    after = _appended(text, table)
    try:
        now = pyproject.parse_project(after.encode())
        grown = dict(now["tool"])
        added = grown.pop("tcready")
        expected = {**now, "tool": grown} if "tool" in contents else {k: v for k, v in now.items() if k != "tool"}
    except (TcreadyError, LookupError, TypeError):
        raise _Unable(f"[{pyproject.TABLE}] cannot be added below the existing text; add it by hand") from None
    if not added or repr(expected) != repr(dict(contents)):
        raise _Unable(f"[{pyproject.TABLE}] cannot be added without changing the existing text; add it by hand")
    return after.encode()


def _appended(text: str, more: str) -> str:
    """Append `more` after a blank line, with the line ends of the text."""
    end = _line_end(text)
    gap = "" if not text.strip() else end if text.endswith(("\n", "\r")) else end * 2
    return text + gap + more.replace("\n", end)


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


# .pre-commit-config.yaml


def _with_hook(root: Path, before: bytes | None) -> bytes:
    text = (before or b"").decode("utf-8")
    if re.search(r"\btcready\b", re.sub(r"(?m)^\s*#.*$", "", text)):
        raise _Unable("it has the hook already")
    entry = hook()
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    if top != root:
        raise _Unable(f"pre-commit reads that file at the top of the repository: run `tcready init` in {top}")
    if all(_SHOWN.fullmatch(line) for line in text.splitlines()):
        return _appended(text, "repos:\n" + _indented(entry, 2)).encode()
    place = _end_of_repos(text)
    if place is None:
        raise _Unable(f"its form is not one that can be added to safely; add this to `repos` by hand:\n{entry}")
    position, depth = place
    end = _line_end(text)
    gap = "" if text[:position].endswith("\n") else end
    return (text[:position] + gap + _indented(entry, depth).replace("\n", end) + text[position:]).encode()


def hook() -> str:
    """Return the entry of `repos`: tcready's own repository if its metadata has one, else a local hook."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        about = metadata("tcready")
    except PackageNotFoundError:
        return LOCAL
    pairs = (line.partition(",") for line in about.get_all("Project-URL") or ())
    urls = {label.strip().lower(): url.strip() for label, _, url in pairs}
    found = next((urls[label] for label in _LABELS if label in urls), None)
    return REMOTE.format(url=found, version=about["Version"]) if found else LOCAL


def _indented(entry: str, depth: int) -> str:
    return "".join(f"{' ' * depth}{line}\n" for line in entry.splitlines())


def _end_of_repos(text: str) -> tuple[int, int] | None:
    """Return the end of the list below a top-level `repos:`, and the indent of its dashes; None unless its form is
    plain.

    Plain means: one document, `repos:` alone on its line, a list in block form below it, and after that nothing or
    another key. Everything nested in the list must be indented deeper than its dashes.
    """
    lines = text.splitlines(keepends=True)
    if "\t" in re.sub(r"(?m)#.*$", "", text) or text.startswith("\ufeff"):
        return None
    bare = [line.rstrip("\r\n") for line in lines]
    heads = [number for number, line in enumerate(bare) if re.match(r"""["']?repos["']?\s*:""", line)]
    documents = [number for number, line in enumerate(bare) if re.match(r"(---|\.\.\.)(\s|$)|%", line)]
    if len(heads) != 1 or not re.fullmatch(r"repos:\s*(#.*)?", bare[heads[0]]):
        return None
    if any(not all(map(_SHOWN.fullmatch, bare[:number])) or bare[number] != "---" for number in documents):
        return None
    depth: int | None = None
    last = heads[0]
    for number in range(heads[0] + 1, len(bare)):
        line = bare[number]
        deep = len(line) - len(line.lstrip(" "))
        if not line.strip():
            continue
        if line.lstrip().startswith("#"):
            if depth is not None and deep > depth:
                last = number  # it belongs to the entry, and may be part of a text of several lines
            continue
        if depth is None:
            depth = deep
        if deep < depth or (deep == depth and not line.lstrip().startswith("- ")):
            if deep or not _KEY.fullmatch(line):
                return None
            break
        last = number
    inside = bare[heads[0] + 1 : last + 1]
    if depth is None or not _is_plain(inside, depth):
        return None
    return sum(map(len, lines[: last + 1])), depth


def _is_plain(lines: Sequence[str], depth: int) -> bool:
    """Return True if text added after a list cannot become part of its last entry: quotes and brackets that open in
    it close in it, deeper than its dashes, and no block text keeps the blank lines that follow."""
    opened = ""
    dashes = False
    for line in lines:
        if opened:
            if line.strip() and not line.startswith(" " * (depth + 1)):
                return False
            opened = f"{opened}\n{line}"
        elif not _SHOWN.fullmatch(line):
            dashes = dashes or line[depth : depth + 2] == "- "
            value = re.sub(r"^(?:-\s+)*(?:[\w-]+:(?:\s+|$))?", "", line.strip())
            if re.match(r"[|>]\d?\+", value):
                return False
            opened = value if value[:1] in tuple("[{'\"") else ""
        if opened and _closes(opened):
            opened = ""
    return dashes and not opened


def _closes(value: str) -> bool:
    """Return True if the quote or bracket at the beginning of a value closes in it."""
    if value[0] in "[{":
        return all(value.count(one) <= value.count(other) for one, other in ("[]", "{}"))
    return re.match(r"""'(?:[^']|'')*'(?!')|"(?:[^"\\]|\\.)*\"""", value, re.DOTALL) is not None
