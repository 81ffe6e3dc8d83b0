"""What git says of the working folder: asked of the `git` program, and nothing where there is none."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from tcready.schema import Checkout

SECONDS = 20
"""After which a git that does not answer counts as none."""
_REMOTE = re.compile(
    r"(?:(?:https?|ssh|git)://)?(?:[^@/\s]+@)?(?P<host>[\w.-]+)(?::\d+/|[:/])/*(?P<path>[^\s?#]+)"
)
_LINES = {"github": "blob/{}/", "gitlab": "-/blob/{}/"}
"""A word of a host's name -> how its pages of a file at a commit begin (docs.github.com, docs.gitlab.com)."""


def ask(root: Path, *arguments: str) -> str | None:
    """What `git ARGUMENTS` prints in the folder `root`; None where it fails, or there is no git."""
    command = ["git", "-c", "core.quotepath=off", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else None


def checkout(root: Path, paths: Iterable[str]) -> Checkout | None:
    """The commit that `root` is a checkout of, and which of `paths` (relative to it) are as committed."""
    told = ask(root, "rev-parse", "HEAD", "--show-prefix")
    if told is None:
        return None
    commit, prefix, *_ = (*told.split("\n"), "")
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
    """The page of one line at `commit`, with {path} and {line} to be put in; None for a host we do not know."""
    found = _REMOTE.fullmatch(remote)
    if found is None:
        return None
    host, path = found["host"], found["path"].removesuffix("/").removesuffix(".git")
    begins = next((begin for word, begin in _LINES.items() if word in host.split(".")), None)
    if begins is None:
        return None
    there = quote(prefix).replace("{", "%7B").replace("}", "%7D")
    return f"https://{host}/{quote(path)}/{begins.format(commit)}{there}{{path}}#L{{line}}"
