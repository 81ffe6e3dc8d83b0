"""Versions of torch: as text, the installed one, and those with tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeAlias

from tcready.schema.enums import TcreadyError
from tcready.static.frontend import module_search

Version: TypeAlias = "tuple[int, int]"
FOLDER = Path(__file__).parent.with_name("tables")
SITE_PACKAGES = ("lib/python*/site-packages", "Lib/site-packages")
"""Where an environment has its packages, below its folder."""


def version_of(text: str) -> Version:
    """`2.11`, `2.11.0+cu130`, `2.11rc1` or `v2.11.0a0+git1f2e3d` as (2, 11). Raises TcreadyError for anything else."""
    found = re.fullmatch(r"v?(\d)\.(0|[1-9]\d*)(?:\.\d+)?(?:(?:a|b|rc|\.dev)\d+)?(?:\+[\w.]+)?", text.strip())
    if found is None or found[1] != "2":
        raise TcreadyError(f"{text!r} is no version of torch 2: write it like 2.13")
    return int(found[1]), int(found[2])


def installed(search_path: tuple[Path, ...]) -> Version | None:
    """Return the version of the torch on a search path, read from its source; None if there is none."""
    path = module_search.find_module("torch.version", search_path)
    try:
        text = path.read_text("utf-8", errors="replace") if path is not None else ""
    except OSError:
        return None
    found = re.search(r"^__version__\s*=\s*['\"](\d+)\.(\d+)", text, re.M)
    return (int(found[1]), int(found[2])) if found else None


def installed_beside(python: str) -> Version | None:
    """Return the version of the torch in the environment of an interpreter, which is not executed; None if that does
    not show it."""
    folder = Path(python).parent.parent
    return installed(tuple(path for pattern in SITE_PACKAGES for path in sorted(folder.glob(pattern))))


def predicted_by(version: Version | None, known: tuple[Version, ...]) -> Version:
    """Return the version with the tables for `version`: the newest of the `known` ones that is no newer, else the oldest;
    the newest if none is named."""
    fitting = [each for each in known if version is None or each <= version]
    return fitting[-1] if fitting else known[0]


def with_tables(folder: Path = FOLDER) -> tuple[Version, ...]:
    """Return the versions of torch that there are tables of, oldest first."""
    found = (re.fullmatch(r"torch-(\d+)\.(\d+)\.json", path.name) for path in folder.glob("torch-*.json"))
    return tuple(sorted((int(match[1]), int(match[2])) for match in found if match))
