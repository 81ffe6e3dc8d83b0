"""Tables that other files fill when they are imported: registries of models, which nobody looks into by name of a file."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from probing import HEAD
from reading import read
from tcready.pipeline import registry
from tcready.portable.options import ReadOptions
from tcready.schema.static import Finding
from tcready.static import driver
from tcready.static.session import Session

BODY = "    def forward(self, x):\n        return x / x.max().item()\n"
MAKES = dedent("""\
    def get_model():
        return make('peak')
    def get_inputs():
        return (None,)
""")
DECORATED = {
    "reg.py": dedent("""\
        MADE = {}
        def register(cls):
            MADE[cls.__name__.lower()] = cls
            return cls
        def make(name):
            return MADE[name]()
    """),
    "parts.py": f"{HEAD}from reg import register\n@register\nclass Peak(nn.Module):\n{BODY}",
}
OBJECT = dedent("""\
        class Registry:
            def __init__(self, above=None):
                self.above, self._kept = above, {}
            def get(self, key):
                if key in self._kept:
                    return self._kept[key]
                return self.above.get(key)
            def register(self, name=None):
                def put(cls):
                    self._kept[name or cls.__name__.lower()] = cls
                    return cls
                return put
        MODELS = Registry()
        HEADS = Registry(MODELS)
        def make(name):
            return HEADS.get(name)()
    """)
FILES = {
    "a decorator": {**DECORATED, "entry.py": f"import parts\nfrom reg import make\n{MAKES}"},
    "in a function": {
        **DECORATED,
        "reg.py": DECORATED["reg.py"].replace("    return MADE[name]", "    import parts\n    return MADE[name]"),
        "entry.py": f"from reg import make\n{MAKES}",
    },
    "a package": {
        "pkg/__init__.py": dedent("""\
            from . import (  # all of them
                parts,
            )
        """),
        "pkg/reg.py": DECORATED["reg.py"],
        "pkg/parts.py": DECORATED["parts.py"].replace("from reg", "from .reg"),
        "entry.py": f"from pkg.reg import make\n{MAKES}",
    },
    "a package that imports its files": {
        "pkg/__init__.py": dedent("""\
            import importlib, pkgutil
            for m in pkgutil.iter_modules(__path__):
                importlib.import_module(f'{__name__}.{m.name}')
        """),
        "pkg/reg.py": DECORATED["reg.py"],
        "pkg/parts.py": DECORATED["parts.py"].replace("from reg", "from pkg.reg"),
        "entry.py": f"from pkg.reg import make\n{MAKES}",
    },
    "an object": {
        "reg.py": OBJECT,
        "parts.py": f"{HEAD}from reg import MODELS\n@MODELS.register()\nclass Peak(nn.Module):\n{BODY}",
        "entry.py": f"import parts\nfrom reg import make\n{MAKES}",
    },
    "a statement": {
        "reg.py": DECORATED["reg.py"],
        "parts.py": f"{HEAD}import reg\nfrom reg import MADE\nclass Peak(nn.Module):\n{BODY}MADE['peak'] = Peak\n",
        "entry.py": f"import parts\nfrom reg import make\n{MAKES}",
    },
    "a call": {
        "reg.py": dedent("""\
            MADE = {}
            def put(name, cls):
                MADE[name] = cls
            def make(name):
                return MADE[name]()
        """),
        "parts.py": f"{HEAD}from reg import put\nclass Peak(nn.Module):\n{BODY}put('peak', Peak)\n",
        "entry.py": f"import parts\nfrom reg import make\n{MAKES}",
    },
    "a base class": {
        "reg.py": f"{HEAD}class Base(nn.Module):\n    made = {{}}\n"
        "    def __init_subclass__(cls, key=None):\n        Base.made[key] = cls\n"
        "def make(name):\n    return Base.made[name]()\n",
        "parts.py": f"{HEAD}from reg import Base\nclass Peak(Base, key='peak'):\n{BODY}",
        "entry.py": f"import parts\nfrom reg import make\n{MAKES}",
    },
    "a metaclass": {
        "reg.py": f"{HEAD}MADE = {{}}\nclass Meta(type(nn.Module)):\n    def __init__(cls, name, bases, body):\n"
        "        super().__init__(name, bases, body)\n        if 'key' in body:\n            MADE[body['key']] = cls\n"
        "class Base(nn.Module, metaclass=Meta): ...\ndef make(name):\n    return MADE[name]()\n",
        "parts.py": f"{HEAD}from reg import Base\nclass Peak(Base):\n    key = 'peak'\n{BODY}",
        "entry.py": f"import parts\nfrom reg import make\n{MAKES}",
    },
}


def written(files: dict[str, str], folder: Path) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def breaks(findings: tuple[Finding, ...]) -> list[tuple[str, str, str]]:
    return [(each.path.rpartition("/")[2], each.rule, each.confidence) for each in findings]


@pytest.mark.parametrize("case", FILES)
def test_what_a_table_holds_that_another_file_fills(case: str, tmp_path: Path) -> None:
    written(FILES[case], tmp_path)
    options = ReadOptions(root=tmp_path)
    for target in ("entry.py::get_model", "entry.py"):
        assert breaks(read([target], options).findings) == [("parts.py", "TCR201", "high")], target


def test_what_nobody_imports_fills_nothing(tmp_path: Path) -> None:
    written({**FILES["a decorator"], "entry.py": f"from reg import make\n{MAKES}"}, tmp_path)
    assert breaks(read(["entry.py"], ReadOptions(root=tmp_path)).findings) == []


def test_an_import_that_an_edit_adds_is_seen(tmp_path: Path) -> None:
    written({**FILES["a decorator"], "entry.py": f"from reg import make\n{MAKES}"}, tmp_path)
    warm = Session(ReadOptions(root=tmp_path), registry.rule_set())
    entry = tmp_path / "entry.py"
    without = entry.read_text(encoding="utf-8")
    found = [
        breaks(warm.check([str(entry)], {entry: text}).result.findings)
        for text in (without, f"import parts\n{without}", without)
    ]
    assert found == [[], [("parts.py", "TCR201", "high")], []]


EDITS = {
    "a file more": {"pkg/later.py": FILES["a package that imports its files"]["pkg/parts.py"].replace("Peak", "Late")},
    "a class less": {"pkg/parts.py": ""},
    "an import less": {"pkg/__init__.py": ""},
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_is_kept_holds_no_longer_than_the_files(edit: str, tmp_path: Path) -> None:
    files = FILES["a package that imports its files"]
    entry = files["entry.py"].replace("make('peak')", "nn.Sequential(make('peak'), make('late'))")
    written({**files, "entry.py": f"{HEAD}{entry}"}, tmp_path)
    target, options, rules = "entry.py::get_model", ReadOptions(root=tmp_path), registry.rule_set()

    def found(*, cache: bool) -> list[tuple[str, str, str]]:
        return breaks(driver.read([target], options, rules, cache=cache).result.findings)

    before = found(cache=True)
    assert before == found(cache=True) == found(cache=False)
    written(EDITS[edit], tmp_path)
    assert found(cache=True) == found(cache=False) != before
