"""Suggestions for a target that does not exist."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tcready.static.frontend import module_search

FOLDERS = 2000
"""Folders below the root that are searched for a package."""
_FILE = re.compile(r"(?P<place>.+\.(?:py|ipynb)):(?P<name>[A-Za-z_][\w.]*)")
_MODULE = re.compile(r"(?P<place>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_][\w.]*)")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_PASSED_BY = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "env"})


def for_place(text: str, place: str, root: Path) -> str:
    """Return the text after `no such file or folder`; empty if nothing is near."""
    if (found := _FILE.fullmatch(text)) and (root / found["place"]).is_file():
        return f": did you mean {found['place']}::{found['name']}?"
    if (found := _MODULE.fullmatch(text)) and _holds_models(found["place"], root):
        return f": did you mean {found['place']}::{found['name']}?"
    if _DOTTED.fullmatch(text) and not text.endswith((".py", ".ipynb")):
        if _holds_models(text, root):
            return f": {text} is a module; name a class or function of it, as in {text}::Name"
        module, _, name = text.rpartition(".")
        if module and _holds_models(module, root):
            return f": did you mean {module}::{name}?"
    folder = root / os.path.dirname(place)
    near = _near(os.path.basename(place), _readable(folder), 0.7)
    if near:
        return f": did you mean {os.path.join(os.path.dirname(place), near[0])}{text[len(place) :]}?"
    return ""


def for_module(module: str, name: str, root: Path) -> str:
    """Return the text for a module that is not on the search path."""
    there = _below(root, module)
    if there is not None:
        return (
            f"{there} is there, but its package is neither installed nor on the search path: name {there}::{name}, or "
            f"install the package that it is of"
        )
    path = module_search.default_search_path(root)
    parts = module.split(".")
    for count in range(1, len(parts)):
        package = ".".join(parts[:count])
        found = module_search.find_module(package, path)
        whole = f"{package}.{parts[count]}"
        if found is not None and found.name == "__init__.py" and not module_search.find_module(whole, path):
            names = (Path(each).stem for each in _names(found.parent))
            near = _near(parts[count], names, 0.7)
            if near:
                return f"did you mean {'.'.join([package, near[0], *parts[count + 1 :]])}::{name}?"
    return "is its package installed here?"


def _near(word: str, names: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """Return the names spelled almost as `word`, the nearest first."""
    from difflib import get_close_matches  # needed only for a missing name

    return get_close_matches(word, list(names), n=1, cutoff=cutoff)


def near_name(name: str, known: Iterable[str]) -> str:
    """`did you mean NAME?`; empty if none is near."""
    names = list(known)
    alike = {each.lower(): each for each in names}
    near = _near(name, names) or _near(name.lower(), alike)
    return f"did you mean {alike.get(near[0], near[0])}?" if near else ""


def _holds_models(module: str, root: Path) -> bool:
    """Return whether a module exists, and is not of Python's own library, which has no models."""
    file = module_search.find_module(module, module_search.default_search_path(root))
    of_python = module.partition(".")[0] in sys.stdlib_module_names
    return file is not None and not (of_python and not file.is_relative_to(root))


def _readable(folder: Path) -> list[str]:
    """Return the possible targets in a folder: Python files, notebooks, and folders except links to one around it."""
    around = Path(os.path.realpath(folder))

    def can_be_read(name: str) -> bool:
        path = os.path.join(folder, name)
        if name.endswith((".py", ".ipynb")) and os.path.isfile(path):
            return True
        return os.path.isdir(path) and not around.is_relative_to(os.path.realpath(path))

    return list(filter(can_be_read, _names(folder)))


def _names(folder: Path) -> list[str]:
    try:
        return [each for each in os.listdir(folder) if not each.startswith(".")]
    except OSError:
        return []


def _below(root: Path, module: str) -> str | None:
    """Return the file of a module somewhere below the root, relative to it: the nearest one."""
    tails = (Path(*module.split(".")).with_suffix(".py"), Path(*module.split("."), "__init__.py"))
    for folder in _folders(root):
        for tail in tails:
            if os.path.isfile(folder / tail):  # unlike pathlib, it says no of what may not be looked at
                return (folder / tail).relative_to(root).as_posix()
    return None


def _folders(root: Path) -> Iterator[Path]:
    """Folders below the root, the nearest first."""
    waiting = [root]
    for folder in waiting:
        yield folder
        if len(waiting) < FOLDERS:
            waiting += [
                folder / name
                for name in sorted(_names(folder))
                if name not in _PASSED_BY and os.path.isdir(folder / name) and not os.path.islink(folder / name)
            ]
