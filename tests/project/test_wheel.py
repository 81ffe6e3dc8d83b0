"""The wheel holds what the tree holds: an explicit `packages` list forgets, and a renaming map is not followed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from textwrap import dedent

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETTINGS = PROJECT["tool"]["setuptools"]
FOLDERS = {folder: package for package, folder in SETTINGS["package-dir"].items()}
NOT_SHIPPED = {".pyc", ".pyo"}


def tree() -> dict[str, bytes]:
    """Every file of the package's folders, by its path in site-packages."""
    found = {}
    for folder, package in FOLDERS.items():
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix not in NOT_SHIPPED and "__pycache__" not in path.parts:
                name = Path(*package.split("."), path.relative_to(ROOT / folder)).as_posix()
                found[name] = path.read_bytes()
    return found


def test_the_packages_list_names_every_sub_package() -> None:
    packages = {str(Path(name).parent).replace("/", ".") for name in tree() if name.endswith("/__init__.py")}
    assert sorted(SETTINGS["packages"]) == sorted(packages)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what the build reads, so that no earlier build leaks in."""
    pytest.importorskip("setuptools", minversion="77")
    source = tmp_path_factory.mktemp("source")
    for name, content in tree().items():
        package = max((p for p in FOLDERS.values() if name.startswith(p.replace(".", "/"))), key=len)
        folder = next(folder for folder, its in FOLDERS.items() if its == package)
        path = source / folder / Path(name).relative_to(package.replace(".", "/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for name in ("pyproject.toml", PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]):
        (source / name).write_bytes((ROOT / name).read_bytes())
    out = tmp_path_factory.mktemp("wheel")
    script = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", script, str(out)], cwd=source, check=True, capture_output=True, timeout=120)
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_holds_the_tree_and_one_top_level_name(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    shipped = {name: content for name, content in held.items() if ".dist-info/" not in name}
    assert {name.split("/")[0] for name in shipped} == {"tcready"}
    expected = tree()
    assert sorted(shipped) == sorted(expected)
    assert shipped == expected
    assert "tcready/py.typed" in shipped
    assert any(name.endswith((".jinja", ".css")) for name in shipped)


def test_the_wheel_alone_runs(wheel: Path, tmp_path: Path) -> None:
    """From the wheel, without the tree: the package imports, and its rules and pages are found."""
    script = dedent("""\
            import sys; sys.path.insert(0, sys.argv[1])
            import tcready; assert '.whl' in tcready.__file__, tcready.__file__
            from tcready.pipeline import break_pages
            from tcready.api import load_rules
            print(len({rule.summary for rule in load_rules()}), len(break_pages.load()))
        """)
    done = subprocess.run(
        [sys.executable, "-c", script, str(wheel)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    rules = list((ROOT / "rules").glob("*/[!_]*.py"))
    pages = list((ROOT / "rules" / "break_pages").iterdir())
    assert rules
    assert pages
    assert done.stdout.split() == [str(len(rules)), str(len(pages))]


def test_a_source_tree_that_is_not_installed_has_a_version(tmp_path: Path) -> None:
    (tmp_path / "tcready").symlink_to(ROOT / "analyzer", target_is_directory=True)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom tcready.pipeline.registry import version\nprint(version())"
    shown = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert shown.stdout == "0+unknown\n"
