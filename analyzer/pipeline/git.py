"""Facts about the working folder from the `git` program; none if it does not exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

from tcready.schema.display_paths import display_path
from tcready.schema.enums import TcreadyError
from tcready.schema.report import Checkout

SECONDS = 20
"""Seconds after which a git that does not answer is ignored."""
_REMOTE = re.compile(
    r"(?:(?P<scheme>https?|ssh|git)://(?:[^@/\s]+@)?(?P<host>[\w.-]+)(?P<port>:\d+)?/|(?:[^@/\s:]+@)?(?P<short>[\w.-]+):(?![/\\]))"
    r"(?P<path>[^\s?#]+)"
)
"""A remote as an address, or as `host:path`; an absolute path on a host has no page."""
_HUNK = re.compile(r"@@ -\d+(?:,(?P<old>\d+))? \+(?P<at>\d+)(?:,(?P<new>\d+))? @@")
_ESCAPE = re.compile(r"\\([0-7]{3}|.)")
_SPELLED = {"a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}
_PATCH = (
    "diff --text --unified=0 --inter-hunk-context=0 --find-renames --src-prefix=a/ --dst-prefix=b/ --submodule=short "
    "--no-color --no-ext-diff --no-textconv --no-relative"
)
"""Options that override the user's configuration of diffs."""
_LINES = {"github": "blob/{}/", "gitlab": "-/blob/{}/"}
"""A word in the name of a host -> how the addresses of its files at a commit begin (docs.github.com,
docs.gitlab.com)."""


def ask(root: Path, *arguments: str) -> str | None:
    """Return the output of `git ARGUMENTS` in the folder `root`; None if it fails, or git is missing."""
    command = ["git", "-c", "core.quotepath=off", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else None


def checkout(root: Path, paths: Iterable[str]) -> Checkout | None:
    """Return the commit that `root` is a checkout of, and which of `paths` (relative to it) are as committed."""
    shown = ask(root, "rev-parse", "HEAD", "--show-prefix")
    if shown is None:
        return None
    commit, prefix, *_ = (*shown.split("\n"), "")
    within = sorted({path for path in paths if not os.path.isabs(path) and (root / path).is_file()})
    listed = ask(root, "ls-tree", "-z", "--name-only", commit, "--", *within) if within else ""
    unlike = ask(root, "diff", "-z", "--name-only", "--relative", commit, "--", *within) if within else ""
    same = {*(listed or "").split("\0")} - {*(unlike or "").split("\0")}
    remote = ask(root, "remote", "get-url", "origin")
    return Checkout(
        commit=commit,
        link=_link((remote or "").strip(), commit, prefix),
        files=tuple(path for path in within if path in same) if unlike is not None else (),
    )


def _link(remote: str, commit: str, prefix: str) -> str | None:
    """Return the address of a line at `commit`, with {path} and {line} as placeholders; None for an unknown host."""
    found = _REMOTE.fullmatch(remote)
    if found is None:
        return None
    host, path = found["host"] or found["short"], found["path"].strip("/").removesuffix(".git")
    port = (found["port"] or "") if (found["scheme"] or "").startswith("http") else ""
    begins = next((begin for word, begin in _LINES.items() if word in host.split(".")), None)
    if begins is None:
        return None
    there = quote(prefix).replace("{", "%7B").replace("}", "%7D")
    return f"https://{host}{port}/{quote(path)}/{begins.format(commit)}{there}{{path}}#L{{line}}"


def changed_lines(root: Path, revision: str) -> tuple[str, dict[str, list[tuple[int, int]]]]:
    """Return the merge base of HEAD and `revision`, and by display path the lines of the working tree that differ from
    it.

    Lines are inclusive (first, last), and (n + 1, n) if lines after line n were deleted. As in `git diff REVISION...`,
    later commits on `revision` do not count; uncommitted changes do, and so do untracked files that are not ignored. A
    renamed file counts if its lines changed.

    Raises TcreadyError outside of a git checkout, and for an unknown revision.
    """
    option = f"--diff-base {revision}"
    top = ask(root, "rev-parse", "--show-toplevel")
    if top is None:
        raise TcreadyError(f"{option}: {root} is in no git checkout, or there is no git")
    if revision.startswith("-") or ask(root, "rev-parse", "--verify", "-q", f"{revision}^{{commit}}") is None:
        raise TcreadyError(f"{option}: there is no such commit in this checkout (is it fetched?)")
    parted = ask(root, "merge-base", revision, "HEAD")
    if parted is None:
        raise TcreadyError(f"{option}: it has no commit in common with HEAD (is the checkout a shallow one?)")
    commit, folder = parted.strip(), top.removesuffix("\n")
    patch = ask(root, *_PATCH.split(), commit, "--")
    unknown = ask(Path(folder), "ls-files", "--others", "--exclude-standard", "-z")
    if patch is None or unknown is None:
        raise TcreadyError(f"{option}: git did not list the changes")
    found: dict[str, list[tuple[int, int]]] = {}
    whole = ((name, (1, sys.maxsize)) for name in unknown.split("\0") if name)
    for name, lines in (*_hunks(patch), *whole):
        found.setdefault(display_path(os.path.join(folder, name), str(root)), []).append(lines)
    return commit, found


def unwatched_files(root: Path, paths: Iterable[str]) -> set[str]:
    """Return those of `paths`, relative to `root`, for which git shows no changes although it does not ignore them:
    files of a nested repository, and files marked to be skipped."""
    files = {path for path in paths if not os.path.isabs(path) and (root / path).is_file()}
    if not files:
        return files
    known = ask(root, "ls-files", "-v", "-z", "--", *sorted(files)) or ""
    ignored = ask(root, "ls-files", "-o", "-i", "--exclude-standard", "-z", "--", *sorted(files)) or ""
    looked_at = {entry[2:] for entry in known.split("\0") if entry.startswith("H ")}
    return files - looked_at - {*ignored.split("\0")}


def _hunks(patch: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield each run of changed lines in a patch, with its file relative to the top of the checkout."""
    name = ""
    old = new = at = 0
    for line in patch.split("\n"):  # a carriage return belongs to the line's text
        if old or new:  # inside of a hunk
            if line.startswith("+"):
                yield name, (at, at)
                at, new = at + 1, new - 1
            elif line.startswith("-"):
                yield name, (at, at - 1)
                old -= 1
            elif not line.startswith("\\"):
                at, old, new = at + 1, old - 1, new - 1
        elif line.startswith("+++ "):
            name = _unquoted(line.removeprefix("+++ ").removesuffix("\t")).removeprefix("b/")
        elif found := _HUNK.match(line):
            old, new = (int(found[side] or 1) for side in ("old", "new"))
            at = int(found["at"]) + (new == 0)  # a hunk without new lines is named by the line before it


def _unquoted(name: str) -> str:
    """Return a file's name without the quotes and escapes that git puts around control characters, quotes and
    backslashes."""
    if not name.startswith('"'):
        return name
    return _ESCAPE.sub(
        lambda found: chr(int(found[1], 8)) if found[1].isdigit() else _SPELLED.get(found[1], found[1]), name[1:-1]
    )
