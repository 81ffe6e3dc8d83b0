"""Write changed files, each whole or not at all, and apply a patch to copies of files."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tcready.pipeline import git
from tcready.schema.enums import TcreadyError
from tcready.source.files import stage_file
from tcready.static.frontend import source

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class ChangedFile:
    """A file before and after a change."""

    path: Path
    shown: str
    before: str
    after: str


def write(files: Sequence[ChangedFile], root: Path, *, dirty: bool) -> None:
    """Write every file, or none if one of them may not be written.

    Args:
        files: The files to write.
        root: The working folder. Nothing outside of it, nor below a site-packages folder in it, is written.
        dirty: Write files with uncommitted changes as well.

    Raises:
        TcreadyError: A file changed since it was read, is outside of `root`, has uncommitted changes, or
            cannot be written.
    """
    ready: list[tuple[str, Path]] = []
    try:
        for file in files:
            data = _read_if_writable(file, root, dirty=dirty)
            new = source.encoded(file.after)
            mark = _BOM if data.startswith(_BOM) and not new.startswith(_BOM) else b""
            ready.append((stage_file(file.path, mark + new), file.path))
        while ready:
            partial, path = ready[0]
            os.replace(partial, path)
            ready.pop(0)
    except OSError as error:
        raise TcreadyError(f"cannot write {error.filename}: {error.strerror}") from None
    finally:
        for partial, _ in ready:
            with contextlib.suppress(OSError):
                os.unlink(partial)


def _read_if_writable(file: ChangedFile, root: Path, *, dirty: bool) -> bytes:
    """Read the file. Raises TcreadyError if it may not be written."""
    inside = file.path.is_relative_to(root) and "site-packages" not in file.path.relative_to(root).parts
    if not inside:
        raise TcreadyError(f"{file.shown} is outside the working folder: nothing was written")
    data = file.path.read_bytes()
    if source.parse(file.path, data, "").text != file.before:
        raise TcreadyError(f"{file.shown} changed since it was read: nothing was written; run it again")
    if not dirty:
        reject_uncommitted([file.shown], root)
    return data


def reject_uncommitted(files: Iterable[str], root: Path) -> None:
    """Raise TcreadyError if one of the files, relative to `root`, has uncommitted changes according to git."""
    for each in files:
        if git.ask(root, "status", "--porcelain", "--", str(root / each)):
            raise TcreadyError(
                f"{each} has changes that are not committed: nothing was written; commit them, or add --allow-dirty"
            )


def changed_by(text: str, named: str) -> list[str]:
    """Return the files that a unified diff changes, as it names them; `named` is the name of the patch.

    Raises TcreadyError for an invalid diff.
    """
    listed = _git(["apply", "--numstat", "-z", "-"], text, named, Path(tempfile.gettempdir()))
    names = [entry.split("\t", 2)[2] for entry in listed.split("\0") if entry.count("\t") >= 2]
    if not names:
        raise TcreadyError(f"{named} holds no change of a file: give a unified diff")
    return names


def apply_patch(text: str, named: str, find: Callable[[str], Path | None]) -> tuple[ChangedFile, ...]:
    """Apply a unified diff with `git apply` to copies of the files that it names, and return them.

    `named` is the name of the patch; `find` returns the location of a file that it names. Raises TcreadyError if a file
    is missing, or if the patch does not apply or creates, deletes or renames files.
    """
    names = changed_by(text, named)
    with tempfile.TemporaryDirectory(prefix="tcready-") as folder:
        copies = Path(folder)
        found: list[tuple[str, Path]] = []
        for name in names:
            if os.path.isabs(name) or ".." in Path(name).parts:  # a copy of it would not stay in the folder
                raise TcreadyError(f"{named} changes {name}: give paths below the working folder")
            path = find(name)
            if path is None:
                raise TcreadyError(f"{named} changes {name}, which is neither here nor installed")
            if path.suffix != ".py":  # tried code is imported from copies; all other files are unchanged
                raise TcreadyError(f"{named} changes {name}: only changes of Python sources (.py) can be tried")
            copy = copies / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
            found.append((name, path))
        try:
            _git(["apply", "--whitespace=nowarn", "-"], text, named, copies)
        except TcreadyError as error:
            raise TcreadyError(f"{error}{_line_end_message(text, found)}") from None
        try:
            return tuple(
                ChangedFile(path, name, source.read(path).text, source.read(copies / name).text) for name, path in found
            )
        except source.UnreadableError as error:
            raise TcreadyError(f"{named}: a file that it changes {error}") from None


_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_SIDES = {"-": (1, 0), "+": (0, 1), " ": (1, 1), "": (1, 1)}
"""First character of a line of a hunk -> whether the line is in the file before, and in the file after."""


def _miscount_message(text: str) -> str:
    """Return an error message about the first hunk with a wrong number of lines in its header; empty if there is
    none."""
    lines = text.split("\n")
    for at, header in enumerate(lines):
        if (found := _HUNK.match(header)) is None:
            continue
        stated = [1 if number is None else int(number) for number in found.groups()]
        body = _body(lines[at + 1 :])
        blank = len(body) - len("\n".join(body).rstrip("\n").split("\n")) if any(body) else len(body)
        counts = [
            [sum(_SIDES.get(line[:1], (0, 0))[side] for line in body[: len(body) - less]) for side in (0, 1)]
            for less in range(blank, -1, -1)  # empty lines at its end may be of the patch, or lines of the file
        ]
        if stated not in counts:
            before, after = counts[0]
            return (
                f"; line {at + 1} is `{found[0]}`, but {before} old and {after} new lines follow it: correct these "
                "counts"
            )
    return ""


def _line_end_message(text: str, files: Sequence[tuple[str, Path]]) -> str:
    """Return an error message about the first file with other line ends than the patch; empty if there is none."""
    body = [line for line in text.split("\n") if line[:1] in _SIDES and line and line[:4] not in ("--- ", "+++ ")]
    of_patch = {line.endswith("\r") for line in body}
    for name, path in files:
        data = path.read_bytes()
        of_file = {line.endswith(b"\r") for line in data.split(b"\n")[:-1]}
        if len(of_patch) == len(of_file) == 1 and of_patch != of_file:
            one, other = ("LF", "CRLF") if of_patch == {True} else ("CRLF", "LF")
            return f"; the lines of {name} end in {one}, those of the patch in {other}"
    return ""


def _body(lines: Sequence[str]) -> list[str]:
    """Return the lines of a hunk from `lines`, which starts after its header: up to the next hunk, file, or end of a
    mail."""
    ends = (
        number
        for number, line in enumerate(lines)
        if line.startswith(("@@ ", "diff ", "index "))
        or line == "-- "
        or (line.startswith("--- ") and "".join(lines[number + 1 : number + 2]).startswith("+++ "))
    )
    return list(lines[: next(ends, len(lines))])


def _git(arguments: Sequence[str], text: str, named: str, folder: Path) -> str:
    command = ["git", "-c", "core.autocrlf=false", *arguments]
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent), "GIT_DIR": os.devnull}
    try:
        done = subprocess.run(  # noqa: S603
            command, cwd=folder, env=environment, input=text.encode("utf-8", "surrogateescape"),
            capture_output=True, timeout=git.SECONDS, check=False,
        )  # fmt: skip
    except OSError as error:
        raise TcreadyError(f"{named}: git is needed to apply a patch: {error.strerror}") from None
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").splitlines() or ["it does not apply"]
        if "No valid patches" in lines[0]:
            what = "is no patch: give a unified diff" if text.strip() else "is empty: there is nothing to try"
            raise TcreadyError(f"{named} {what}")
        raise TcreadyError(f"{named} does not apply: {lines[0].removeprefix('error: ')}{_miscount_message(text)}")
    return done.stdout.decode("utf-8", "surrogateescape")
