"""Scratch repositories, for tests that meet this one as its users do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from fixture_markers import ROOT


def git(folder: Path, *arguments: str) -> str:
    """git in `folder`, untouched by the configuration of whoever runs the tests."""
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
    }
    identity = ["-c", "user.name=Tests", "-c", "user.email=tests@example.invalid", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def tool_tree(base: Path) -> tuple[Path, str]:
    """The tree, uncommitted edits included, as a repository that can be cloned; and the tag of its version."""
    tool = base / "tool"
    for name in git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
        if name and (ROOT / name).is_file():
            (tool / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tool / name)
    git(tool, "init", "--quiet")
    git(tool, "add", "--all")
    git(tool, "commit", "--quiet", "--message", "the tree under test")
    (version,) = re.findall(r'^version = "(.*)"$', (tool / "pyproject.toml").read_text(encoding="utf-8"), re.M)
    git(tool, "tag", "--annotate", "--message", version, f"v{version}")
    return tool, f"v{version}"
