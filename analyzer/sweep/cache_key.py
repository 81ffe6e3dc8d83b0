"""Find what the result of a task depends on, without importing anything: own files, distributions, torch, Python,
tcready.

Own files are found by import statements, from the file of the target and that of its inputs. Files that code opens by
itself, or imports by a computed name, are not found.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tcready.portable.target import Target
from tcready.schema.codec import as_json
from tcready.schema.display_paths import display_path, import_name, is_installed, source_folders
from tcready.schema.enums import TcreadyError
from tcready.static.frontend.file_cache import Disk
from tcready.sweep.task import Task

FORMAT = 1
OWN_CODE = (".py", ".json", ".md", ".pyz")
_ASK = """\
import sys
if sys.path[:1] == [""]:
    del sys.path[0]  # the working folder may hold a json.py
import json, platform
from importlib.metadata import PackageNotFoundError, version
try:
    torch = version("torch")
except PackageNotFoundError:
    torch = ""
print(json.dumps([platform.python_version(), torch, [entry for entry in sys.path if entry]]))
"""
_REQUIRED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class PythonInterpreter:
    """A Python interpreter for runs, by its own description."""

    program: str | None
    """As named by the user; None: the current one."""
    version: str
    torch: str
    """Empty if it has no torch."""
    path: tuple[str, ...]
    """Its module search path."""


def interpreter(program: str | None, root: Path) -> PythonInterpreter:
    """Query an interpreter. Raises TcreadyError if that fails."""
    if program is None:
        try:
            torch = importlib.metadata.version("torch")
        except importlib.metadata.PackageNotFoundError:
            torch = ""
        return PythonInterpreter(None, platform.python_version(), torch, tuple(filter(os.path.isdir, sys.path)))
    place = str(root / program) if os.path.dirname(program) else program
    try:
        answered = subprocess.run(  # noqa: S603  the interpreter that the user names
            [place, "-c", _ASK], capture_output=True, text=True, timeout=120, check=True, cwd=root
        )
        version, torch, path = json.loads(answered.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        raise TcreadyError(f"the interpreter {program} cannot be asked for its version: {_why(error)}") from None
    return PythonInterpreter(program, version, torch, tuple(path))


def _why(error: Exception) -> str:
    """Return why an interpreter gave no answer, without the query."""
    if isinstance(error, subprocess.CalledProcessError):
        last = (error.stderr or "").strip().rpartition("\n")[2]
        return f"it exits with code {error.returncode}" + (f": {last}" if last else "")
    if isinstance(error, subprocess.TimeoutExpired):
        return f"it does not answer within {error.timeout:g} s"
    return str(error) if isinstance(error, OSError) else "it answers otherwise than Python does"


@dataclass(frozen=True)
class Ground:
    """The inputs of a result. Two results with equal inputs are equal, as far as they are known here."""

    files: Mapping[str, str]
    """SHA-256 of each file of the user's own, by display path."""
    distributions: Mapping[str, str]
    """Versions of installed distributions, by name."""
    torch: str
    python: str
    tcready: str
    """A digest of tcready's own code."""
    options: Mapping[str, Any]
    """All options, as JSON."""

    def key(self, stage: str, target: str) -> str:
        """Return the name under which the result of a stage of a target is stored."""
        text = json.dumps([FORMAT, stage, target, as_json(self)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class Surveyor:
    """Finds the inputs of results for one interpreter, and reads each file once."""

    root: Path
    python: PythonInterpreter
    tcready: str
    disk: Disk = field(default_factory=Disk)
    _places: dict[str, Path] = field(default_factory=dict)
    """Display path -> path of the files of grounds."""
    _imports: dict[Path, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    _installed: Mapping[str, importlib.metadata.Distribution] | None = None
    _needed: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _owners: dict[str, str | None] = field(default_factory=dict)
    _by_request: dict[object, Mapping[str, Any]] = field(default_factory=dict)

    def ground(self, task: Task) -> Ground:
        """Return the inputs of the result of a task; its `key` is ignored."""
        run = task.run
        starts = [task.target, *filter(None, [run.inputs if task.stage == "run" else None])]
        search = tuple(dict.fromkeys((self.root, *map(Path, source_folders(self.root)), *map(Path, self.python.path))))
        files: dict[Path, None] = {}
        packages: set[str] = set()
        for text in starts:
            for path in self._starting(text, task.stage, search, packages):
                files[path] = None
        followed: dict[Path, str] = {}
        queue = list(files)
        while queue:
            path = queue.pop()
            stamp = self.disk.stamp(path)
            if path in followed:
                continue
            followed[path] = stamp.sha256 if stamp is not None else ""
            queue += self._own_imports(path, search, packages)
        if task.stage == "run" and run.checkpoint is not None:
            checkpoint = self.root / run.checkpoint
            followed[checkpoint] = _digest(checkpoint)
        distributions: dict[str, str] = {}
        for package in packages:
            distributions |= self._versions(package)
        places = {display_path(str(path), str(self.root)): path for path in followed}
        self._places |= places
        shown = {name: followed[path] for name, path in places.items()}
        ran = task.stage == "run"
        return Ground(
            files=dict(sorted(shown.items())),
            distributions=dict(sorted(distributions.items())),
            torch=self.python.torch if ran else "",
            python=self.python.version,
            tcready=self.tcready,
            options=self._options(task),
        )

    def holds(self, ground: Ground) -> bool:
        """Return True if no file of a ground that was found here has changed."""
        return all(_digest(self._places[name]) == digest for name, digest in ground.files.items())

    def _options(self, task: Task) -> Mapping[str, Any]:
        """Return the options that affect the result; equal ones are one object."""
        key = (task.source_options, None, None) if task.stage != "run" else (None, task.run, task.given_by)
        if key not in self._by_request:
            self._by_request[key] = _options(task)
        return self._by_request[key]

    def _starting(self, text: str, stage: str, search: tuple[Path, ...], packages: set[str]) -> Iterator[Path]:
        target = Target(kind="module", place=text) if stage == "list" else Target.parse(text)
        if target.kind == "path":
            file = Path(os.path.realpath(self.root / target.place))
            yield file
            for folder in file.parents:  # its packages are imported before it
                if not (folder / "__init__.py").is_file():
                    break
                yield folder / "__init__.py"
        else:
            yield from self._found(target.place, search, packages)

    def _own_imports(self, path: Path, search: tuple[Path, ...], packages: set[str]) -> Iterator[Path]:
        name, folder = import_name(path)
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        around = tuple(dict.fromkeys((folder, path.parent, *search)))
        for module, level in self._imported(path):
            whole = module
            if level:
                above = package.split(".") if package else []
                parents = above[: len(above) - level + 1]
                whole = ".".join([*parents, *filter(None, [module])])
            yield from self._found(whole, around, packages)

    def _found(self, name: str, search: tuple[Path, ...], packages: set[str]) -> Iterator[Path]:
        """Return the own files that importing `name` executes; installed ones are added to `packages`."""
        parts = name.split(".")
        if not name or parts[0] in sys.stdlib_module_names or parts[0] == "torch":
            return
        for end in range(len(parts), 0, -1):
            path = self.disk.find(".".join(parts[:end]), search)
            if path is None:
                continue  # a name in a module, or a package without a file of its own
            if is_installed(str(path)):
                packages.add(parts[0])
                return
            yield path

    def _imported(self, path: Path) -> tuple[tuple[str, int], ...]:
        """Yield every module that a file's import statements may name, with the level of relative ones."""
        if path not in self._imports:
            try:
                tree = ast.parse(self.disk.text(path))
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                tree = ast.Module([], [])
            found: dict[tuple[str, int], None] = {}
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    found |= dict.fromkeys((alias.name, 0) for alias in node.names)
                elif isinstance(node, ast.ImportFrom):
                    base = node.module or ""
                    found[base, node.level] = None
                    found |= dict.fromkeys(
                        (f"{base}.{alias.name}".lstrip("."), node.level) for alias in node.names if alias.name != "*"
                    )
            self._imports[path] = tuple(found)
        return self._imports[path]

    def _versions(self, package: str) -> Mapping[str, str]:
        """Return the distribution of a package, and all installed ones that it requires, with versions."""
        owner = self._owner(package)
        if owner is None:
            return {package: ""}
        if owner not in self._needed:
            installed = self._distributions()
            known: dict[str, str] = {}
            queue = [owner]
            while queue:
                name = queue.pop()
                if name in known or name not in installed or name == "torch":
                    continue
                known[name] = installed[name].version
                lines = installed[name].requires or ()
                queue += [_normal(match[0]) for line in lines if (match := _REQUIRED.match(line))]
            self._needed[owner] = known
        return self._needed[owner]

    def _owner(self, package: str) -> str | None:
        """Return the name of the distribution with a top-level package."""
        if package not in self._owners:
            installed = self._distributions()
            found = _normal(package) if _normal(package) in installed else None
            for name, distribution in installed.items() if found is None else ():
                if package in (distribution.read_text("top_level.txt") or "").split():
                    found = name
                    break
            for name, distribution in installed.items() if found is None else ():
                record = distribution.read_text("RECORD") or ""
                if re.search(rf"^{re.escape(package)}(/|\.py,)", record, re.MULTILINE):
                    found = name
                    break
            self._owners[package] = found
        return self._owners[package]

    def _distributions(self) -> Mapping[str, importlib.metadata.Distribution]:
        if self._installed is None:
            every = importlib.metadata.distributions(path=list(self.python.path))
            # the first on the path is the one that is imported
            found: dict[str, importlib.metadata.Distribution] = {}
            for each in every:
                if (name := each.metadata["Name"]) is not None:
                    found.setdefault(_normal(name), each)
            self._installed = found
        return self._installed


def _options(task: Task) -> dict[str, Any]:
    """Return the options that affect the result."""
    if task.stage != "run":
        options: dict[str, Any] = as_json(task.source_options)
        del options["cache"]
        return options
    run: dict[str, Any] = as_json(task.run)
    return {**run, "given_by": task.given_by}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file; empty for anything else, because opening a pipe blocks."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            digest = hashlib.sha256()
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
            return digest.hexdigest()
    except OSError:
        return ""


def code_of_tcready(packages: Iterable[str]) -> str:
    """Return a digest of tcready's own code: an editable install may change without a new version."""
    digest = hashlib.sha256()
    for path in sorted(set(_sources(packages))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _sources(packages: Iterable[str]) -> Iterator[Path]:
    import importlib.util

    for name in packages:
        spec = importlib.util.find_spec(name)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            yield from (path for path in Path(folder).rglob("*") if path.suffix in OWN_CODE)
