"""Where a module's source stands, found without importing anything."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest
from reading import read
from tcready.portable.options import ReadOptions
from tcready.schema.display_paths import import_name
from tcready.schema.static import Finding
from tcready.static.frontend import module_search
from tcready.static.frontend.index import Import, Program


def _write(folder: Path, *names: str, text: str = "") -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _site(folder: Path) -> Path:
    site = folder / "lib" / "site-packages"
    site.mkdir(parents=True)
    return site


def test_packages_modules_and_namespaces(tmp_path: Path) -> None:
    _write(tmp_path, "pkg/__init__.py", "pkg/mod.py", "pkg/sub/__init__.py", "ns/inner/leaf.py", "single.py")
    found = {
        name: module_search.find_module(name, [tmp_path])
        for name in ("pkg", "pkg.mod", "pkg.sub", "single", "ns.inner.leaf", "ns", "pkg.none", "none.mod")
    }
    assert found == {
        "pkg": tmp_path / "pkg/__init__.py",
        "pkg.mod": tmp_path / "pkg/mod.py",
        "pkg.sub": tmp_path / "pkg/sub/__init__.py",
        "single": tmp_path / "single.py",
        "ns.inner.leaf": tmp_path / "ns/inner/leaf.py",
        "ns": None,
        "pkg.none": None,
        "none.mod": None,
    }


def test_a_package_comes_before_a_module_of_its_name(tmp_path: Path) -> None:
    _write(tmp_path, "both.py", "both/__init__.py")
    assert module_search.find_module("both", [tmp_path]) == tmp_path / "both/__init__.py"


def test_the_first_folder_of_the_path_wins(tmp_path: Path) -> None:
    _write(tmp_path, "one/m.py", "two/m.py", "two/only.py")
    path = [tmp_path / "one", tmp_path / "two"]
    assert module_search.find_module("m", path) == tmp_path / "one/m.py"
    assert module_search.find_module("only", path) == tmp_path / "two/only.py"


def test_a_namespace_that_two_folders_share(tmp_path: Path) -> None:
    _write(tmp_path, "one/ns/a.py", "two/ns/b.py")
    path = [tmp_path / "one", tmp_path / "two"]
    assert module_search.find_module("ns.b", path) == tmp_path / "two/ns/b.py"


def test_pth_files(tmp_path: Path) -> None:
    site = _site(tmp_path)
    _write(tmp_path, "src/dev/__init__.py", "lib/site-packages/vendored/v.py")
    (site / "dev.pth").write_text(
        f"# a comment\n\n{tmp_path / 'src'}\nimport os; os.abort()\n/no/such/folder\nvendored\n\0\n", encoding="utf-8"
    )
    assert module_search.find_module("dev", [site]) == tmp_path / "src/dev/__init__.py"
    assert module_search.find_module("v", [site]) == site / "vendored/v.py"


def test_a_pth_file_counts_only_in_a_site_packages(tmp_path: Path) -> None:
    _write(tmp_path, "src/dev.py", "plain/here.py")
    (tmp_path / "plain" / "dev.pth").write_text(str(tmp_path / "src"), encoding="utf-8")
    assert module_search.find_module("dev", [tmp_path / "plain"]) is None


FINDER = """\
from __future__ import annotations
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder

MAPPING: dict[str, str] = {mapping}
NAMESPACES: dict[str, list[str]] = {{}}
PATH_PLACEHOLDER = '__editable__.x-0.1.finder' + ".__path_hook__"
raise SystemExit


class _EditableFinder:
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        return None
"""


def test_editable_installs(tmp_path: Path) -> None:
    site = _site(tmp_path)
    _write(tmp_path, "repo/code/__init__.py", "repo/code/mod.py", "repo/extra/__init__.py", "repo/solo.py")
    mapping = {
        "dev": str(tmp_path / "repo/code"),
        "dev.extra": str(tmp_path / "repo/extra"),
        "solo": str(tmp_path / "repo/solo.py"),
    }
    (site / "__editable__.x-0.1.pth").write_text("import __editable___x_0_1_finder; ...install()", encoding="utf-8")
    (site / "__editable___x_0_1_finder.py").write_text(FINDER.format(mapping=mapping), encoding="utf-8")
    assert module_search.find_module("dev", [site]) == tmp_path / "repo/code/__init__.py"
    assert module_search.find_module("dev.mod", [site]) == tmp_path / "repo/code/mod.py"
    assert module_search.find_module("dev.extra", [site]) == tmp_path / "repo/extra/__init__.py"
    assert module_search.find_module("solo", [site]) == tmp_path / "repo/solo.py"
    assert module_search.find_module("dev.none", [site]) is None


@pytest.mark.parametrize(
    "mapping", ["{'dev': os.path.join('a', 'b'), **other, 'good': GOOD}", "{1: 2, 'good': GOOD}", "{'good': GOOD}"]
)
def test_a_finder_that_computes_its_mapping(mapping: str, tmp_path: Path) -> None:
    site = _site(tmp_path)
    _write(tmp_path, "repo/good.py")
    text = FINDER.format(mapping=mapping.replace("GOOD", repr(str(tmp_path / "repo/good.py"))))
    (site / "__editable___x_finder.py").write_text(text, encoding="utf-8")
    assert module_search.find_module("dev", [site]) is None
    assert module_search.find_module("good", [site]) == tmp_path / "repo/good.py"


@pytest.mark.parametrize("text", ["MAPPING = {", "MAPPING = 3\n", "MAPPING = None\n", "\0"])
def test_a_finder_that_makes_no_sense(text: str, tmp_path: Path) -> None:
    site = _site(tmp_path)
    (site / "__editable___x_finder.py").write_text(text, encoding="utf-8")
    assert module_search.find_module("dev", [site]) is None


def test_the_name_of_a_file(tmp_path: Path) -> None:
    _write(tmp_path, "src/pkg/__init__.py", "src/pkg/sub/__init__.py", "src/pkg/sub/mod.py", "lone/file.py")
    assert import_name(tmp_path / "src/pkg/sub/mod.py") == ("pkg.sub.mod", tmp_path / "src")
    assert import_name(tmp_path / "src/pkg/__init__.py") == ("pkg", tmp_path / "src")
    assert import_name(tmp_path / "lone/file.py") == ("file", tmp_path / "lone")


@pytest.mark.parametrize(
    ("name", "opaque"),
    [
        ("torch", True),
        ("torch.nn.functional", True),
        ("os.path", True),
        ("numpy", True),
        ("torchvision.models", False),
        ("transformers", False),
        ("osprey", False),
    ],
)
def test_whose_source_is_never_read(name: str, opaque: bool) -> None:
    assert module_search.is_opaque(name) is opaque


def _lines(findings: tuple[Finding, ...]) -> list[tuple[str, int]]:
    return [(finding.path, finding.line) for finding in findings]


def test_a_module_that_raises_at_import_is_read_and_not_imported(tmp_path: Path) -> None:
    _write(tmp_path, "src/tcready_boom/__init__.py", text="raise SystemExit('imported')\n")
    _write(
        tmp_path,
        "src/tcready_boom/net.py",
        text=dedent("""\
            raise ImportError
            from torch import nn
            class Net(nn.Module):
                def forward(self, x): return x
        """),
    )
    before, path_before = dict(sys.modules), list(sys.path)
    result = read(["tcready_boom.net::Net"], ReadOptions(root=tmp_path, search_path=(tmp_path / "src",)), [])
    assert [target.target for target in result.targets] == ["tcready_boom.net::Net"]
    assert result.targets[0].modules[0].path == "src/tcready_boom/net.py"
    new = sys.modules.keys() - before.keys()
    assert not [name for name in new if not name.startswith("tcready.")]
    assert sys.path == path_before


def test_a_src_layout_finds_its_own_package(tmp_path: Path) -> None:
    """A file says by the `__init__.py`s around it what its package is called and where that starts."""
    _write(tmp_path, "src/pkg/__init__.py", "src/pkg/nets/__init__.py")
    _write(
        tmp_path,
        "src/pkg/base.py",
        text=dedent("""\
            from torch import nn
            class Base(nn.Module):
                def forward(self, x): return x
        """),
    )
    _write(tmp_path, "src/pkg/nets/net.py", text="from pkg.base import Base\nclass Net(Base): pass\n")
    result = read(["src/pkg/nets/net.py"], ReadOptions(root=tmp_path, search_path=()), [])
    (target,) = result.targets
    assert target.modules[0].type == "Net"
    assert target.modules[0].path == "src/pkg/base.py"


def test_relative_imports_beyond_the_top_are_no_module(tmp_path: Path) -> None:
    _write(
        tmp_path,
        "a.py",
        text=dedent("""\
        from .... import b
        from ..c import d
        from . import e
    """),
    )
    program = Program(tmp_path, (tmp_path,), third_party=False)
    module = program.file(tmp_path / "a.py")
    names = [binding.module for found in module.bindings.values() for binding in found if isinstance(binding, Import)]
    assert len(names) == 3
    assert [program.module(name) for name in names] == [None, None, None]
    assert not program.skipped


def test_the_search_path_starts_with_the_root(tmp_path: Path) -> None:
    path = module_search.default_search_path(tmp_path)
    assert path[0] == tmp_path
    assert len(set(path)) == len(path)
    assert all(folder.is_dir() for folder in path)


def test_what_stands_in_a_compiled_extension(tmp_path: Path) -> None:
    _write(tmp_path, "pkg/__init__.py", "pkg/plain.py", "pkg/inner/_fast.cpython-311-x86_64-linux-gnu.so")
    program = Program(tmp_path, (tmp_path,), third_party=True)
    names = ("pkg.inner._fast.twice", "pkg.inner._fast.Mode.of", "pkg.plain.twice", "pkg.inner.none.twice", "len")
    assert [name for name in names if program.is_native(name)] == list(names[:2])


def test_a_module_that_its_own_package_names(tmp_path: Path) -> None:
    """`from . import flags` in the package's `__init__.py` is the module `flags` of it."""
    _write(tmp_path, "pkg/__init__.py", text="from . import flags, other\nfrom pkg import flags as again\n")
    _write(tmp_path, "pkg/other.py")
    _write(
        tmp_path,
        "pkg/flags.py",
        text=dedent("""\
            from torch import nn
            class Base(nn.Module):
                def forward(self, x): return x
        """),
    )
    _write(tmp_path, "net.py", text="from pkg import flags\nclass Net(flags.Base): pass\n")
    (target,) = read(["net.py"], ReadOptions(root=tmp_path, search_path=(tmp_path,)), []).targets
    assert target.modules[0].path == "pkg/flags.py"
