"""Find the models of a project that `tcready init` lists as targets, from a report of its sources."""

from __future__ import annotations

import ast
import re
from pathlib import Path, PurePosixPath

from tcready.config.init import ProjectTarget
from tcready.portable.input_conventions import convention_in
from tcready.portable.target import Target
from tcready.schema.observation import ModuleShare
from tcready.schema.report import Report

TESTS = "tests"


def project_targets(report: Report, root: Path) -> tuple[ProjectTarget, ...]:
    """Return the models in `report` that are no part of another one, each once, without those of tests.

    Files are parsed to see how a class is built; nothing is executed.
    """
    modules = [each for target in report.targets for each in target.observation.modules if each.name]
    parts = {_kind(each) for each in modules}
    names: set[str] = set()
    found: list[ProjectTarget] = []
    for target in report.targets:
        named = Target.parse(target.target)
        whole = next((each for each in target.observation.modules if not each.name), None)
        if whole is None or _kind(whole) in parts or _is_test(named.place):
            continue
        tree = _tree_of(root / named.place)
        classes = {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)} if tree else {}
        cls = classes.get(named.name or "")
        if tree is None or cls is None:  # the file only imports it
            continue
        convention = convention_in(tree, cls.name)
        required = () if convention is not None and convention.init else _required(cls)
        found.append(ProjectTarget(_unused(cls.name, names), named.place, cls.name, convention is not None, required))
    return tuple(found)


def _kind(module: ModuleShare) -> tuple[str, str | None, int | None]:
    """Return what modules of one class have in common: its name and the place of its `forward`."""
    return module.type, module.path, module.line


def _is_test(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return TESTS in parts or parts[-1].startswith("test_")


def _tree_of(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def _required(cls: ast.ClassDef) -> tuple[str, ...]:
    """Return the parameters of the constructor of a class that have no default."""
    for node in cls.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            spec = node.args
            positional = [*spec.posonlyargs, *spec.args]
            named = [each for each, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if default is None]
            return tuple(each.arg for each in (*positional[1 : len(positional) - len(spec.defaults)], *named))
    return ()


def _unused(name: str, names: set[str]) -> str:
    """Return a key for the table of a class, `my_net` for `MyNet`, that none before has."""
    key = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    number = 2
    while key in names:
        key, number = f"{key.rstrip('0123456789_')}_{number}", number + 1
    names.add(key)
    return key
