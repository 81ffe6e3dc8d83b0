"""File globs with ruff's syntax.

`*` and `?` match across folders, `**/` matches any number of folders, `{a,b}` either, `[ab]` one of a set. A glob is
relative to the working folder; one without a slash is the name of a file or folder anywhere.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from tcready.schema.enums import TcreadyError

_PART = re.compile(r"\*\*/|\*+|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)


def matches(pattern: str, path: Path, root: Path) -> bool:
    """Return whether an absolute path, or its last part, matches `pattern`."""
    whole = _compile(pattern, str(root))
    return bool(whole.fullmatch(path.as_posix()) or _compile(pattern, "").fullmatch(path.name))


def is_excluded(path: Path, exclude: Sequence[str], root: Path) -> bool:
    """Return whether an absolute path, or a folder around it below `root`, matches one of the globs."""
    if not exclude:
        return False
    around = [folder for folder in path.parents if folder != root and folder.is_relative_to(root)]
    return any(matches(pattern, each, root) for pattern in exclude for each in (path, *around))


def ignored_in(path: str, per_file: Iterable[tuple[str, tuple[str, ...]]], root: Path) -> tuple[str, ...]:
    """Return the rule codes, or prefixes, ignored in a file; a glob after `!` is for all others."""
    place = root / path
    return tuple(
        code
        for pattern, codes in per_file
        if matches(pattern.removeprefix("!"), place, root) != pattern.startswith("!")
        for code in codes
    )


@functools.cache
def _compile(pattern: str, base: str) -> re.Pattern[str]:
    """Return the glob below the folder `base`; of a name alone if that is empty.

    Raises TcreadyError for one that cannot be read.
    """
    written = pattern.replace(os.sep, "/").removeprefix("./")
    if len(written) > 1:
        written = written.rstrip("/")
    absolute = not base or os.path.isabs(pattern)
    prefix = "" if absolute else re.escape(Path(base).as_posix().rstrip("/") + "/")
    try:
        return re.compile(prefix + _translate(written), re.DOTALL)
    except re.error as error:
        raise TcreadyError(f"the glob {pattern!r} cannot be read: {error}") from None


def _translate(glob: str) -> str:
    """Return the glob as a regular expression; an unclosed brace is literal."""
    braces = glob.count("{") == glob.count("}")
    depth, made = 0, []
    for part in _PART.findall(glob):
        if part == "**/":
            made.append("(?:.*/)?")
        elif part[0] == "*":
            made.append(".*")
        elif part == "?":
            made.append(".")
        elif len(part) > 2:
            made.append(_set(part))
        elif part == "{" and braces:
            depth += 1
            made.append("(?:")
        elif part == "}" and depth:
            depth -= 1
            made.append(")")
        elif part == "," and depth:
            made.append("|")
        else:
            made.append(re.escape(part))
    return "".join(made) + ")" * depth


def _set(part: str) -> str:
    inside = part[1:-1].replace("\\", "\\\\").replace("[", "\\[")
    negated = inside.startswith("!")
    inside = inside.removeprefix("!").replace("]", "\\]").replace("^", "\\^")
    return f"[{'^' if negated else ''}{inside}]"
