"""After an edit all is told that a cold reading tells, though what the edit does not touch is not interpreted again."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest
from tcready.pipeline import registry
from tcready.portable.options import ReadOptions
from tcready.schema.codec import as_json
from tcready.static.diagnostics import diagnose
from tcready.static.frontend.cancellation import StoppedError
from tcready.static.frontend.index import Library
from tcready.static.interp import functions
from tcready.static.session import Session
from tcready.static.units import Unit

TEXT = '''"""Two models of which little is the same."""
import torch
from torch import nn
from nowhere import absent

LIMIT = 4
TABLE = {"a": 1}


def scaled(x, by=2.0):
    return x * by


def picked(x):
    index = torch.nonzero(x)
    return index


class Norm(nn.Module):
    eps = 1e-6

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        y = self.weight * x / (x.norm() + self.eps)
        y += absent(x)
        return y


class Layer(nn.Module):
    def __init__(self, width, act=None):
        super().__init__()
        self.norm, self.act, self.width = Norm(width), act, width

    @property
    def wide(self):
        return self.width > LIMIT

    def forward(self, x, around):
        def inner(z):
            return self.norm(z) + around

        x = inner(x)
        if x.sum() > 0:
            x = scaled(x)
        return [inner(each) for each in (x, x)][0]


class First(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layers = nn.ModuleList([Layer(8, lambda x: x.tolist()) for _ in range(2)])
        self.flag = False

    def shape(self, x):
        return x.shape[0]

    def forward(self, x, mask=None):
        """What it does.

        Args:
            x (`torch.Tensor`): what comes in.
        """
        for layer in self.layers:
            x = layer(x, mask)
            x = layer.act(x)
        if self.flag:
            x.item()
        return x, self.shape(x)


class Second(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layer, self.kept = Layer(8), None

    def forward(self, x):
        x = picked(self.layer(x, x))
        self.kept = x
        return x, len(TABLE)
'''
EDITS = [
    ("    index = torch.nonzero(x)\n", "    made = 0\n    index = torch.nonzero(x)\n"),
    ("    return index\n", "    return index.tolist()\n"),
    ("    return x * by\n", "    return (x * by).item()\n"),
    ("    return x * by\n", "    # scaled\n    return x * by\n"),
    ("by=2.0", "by=None"),
    ("LIMIT = 4\n", "LIMIT = 4\ntorch._dynamo.config.capture_scalar_outputs = True\n"),
    ("LIMIT = 4\n", "LIMIT = 4\nOTHER = 5\n"),
    ("LIMIT = 4\n", "LIMIT = 40\n"),
    ("from torch import nn\n", "import math\nfrom torch import nn\n"),
    ("from torch import nn\n", "\n\nfrom torch import nn\n"),
    ("from nowhere import absent\n", "from elsewhere import absent\n"),
    ("        y += absent(x)\n", ""),
    ("    eps = 1e-6\n", "    eps = 1e-6\n    unused = 3\n"),
    ("    eps = 1e-6\n", "    eps = torch.ones(1)\n"),
    ("        return y\n", "        return y if y.any() else x\n"),
    ("            return self.norm(z) + around\n", "            return self.norm(z) + around.item()\n"),
    ("x = layer(x, mask)", "x = layer(x, x)"),
    ("x.tolist()", "x"),
    ("        self.flag = False\n", "        self.flag = True\n"),
    ("        self.flag = False\n", "        self.flag = False\n        self.act = lambda x: x.tolist()\n"),
    ("        def inner(z):\n", "        def inner(z, y=None):\n"),
    ("        def inner(z):\n", "        around = around.item()\n\n        def inner(z):\n"),
    (
        "            return self.norm(z) + around\n",
        "            def inner(y):\n                return y\n\n            return inner(z)\n",
    ),
    (
        "        x = inner(x)\n",
        "        if mask := x.sum():\n            def inner(z):\n                return z\n        x = inner(x)\n",
    ),
    ("        return x.shape[0]\n", "        self.flag = x\n        return x.shape[0]\n"),
    ("    def shape(self, x):\n        return x.shape[0]\n\n", ""),
    ("def shape(", "def size("),
    ("            x (`torch.Tensor`)", "            x (`list`)"),
    ("        self.kept = x\n", "        if self.kept is None:\n            self.kept = x\n"),
    ("class Second(nn.Module):\n", "class Second(First):\n"),
    ("range(2)", "range(3)"),
    ('{"a": 1}', "{}"),
    ("def picked(x):\n", "def picked(x):  # noqa: TCR206\n"),
    (
        "class First(nn.Module):\n",
        dedent("""\
        class Zeroth(First):
            pass


        class First(nn.Module):
    """),
    ),
]

DEFINED = """import torch
from torch import nn

LIMIT = 0


def made(checked):
    def looked_at(x):
        return x + 1 if checked and x.sum() > LIMIT else x

    class Inner(nn.Module):
        def forward(self, x):
            return looked_at(x)

    return Inner


def applied(scale):
    class Step:
        def run(self, x):
            return x[x > 0] * scale

    return Step()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = made(True)(), made(False)()
        self.table = {}

    def forward(self, x):
        x = self.two(self.one(x))
        found = {"rows": []}
        found["rows"].append(x)
        return applied(2).run(found["rows"][0])
"""
"""Classes that functions define, ahead of the compiled call and in it."""
DEFINED_EDITS = [
    ("made(False)", "made(True)"),
    ("made(True)(), made(False)", "made(False)(), made(False)"),
    ("            return looked_at(x)\n", "            return looked_at(x * 2)\n"),
    ("x.sum() > LIMIT else x", "x.sum().item() > LIMIT else x"),
    ("LIMIT = 0\n", "LIMIT = 1\nOTHER = 2\n"),
    ("            return x[x > 0] * scale\n", "            return x * scale\n"),
    ("applied(2)", "applied(x.item())"),
    ('        found["rows"].append(x)\n', '        found["rows"].append(x)\n        print(found)\n'),
    ("    return Step()\n", "    made = Step()\n    return made\n"),
]


def options(root: Path) -> ReadOptions:
    return ReadOptions(root=root, search_path=(root,))


def told(session: Session, file: Path, text: str) -> str:
    result = session.check([Unit(file.name, file, None)], {file: text}).result
    return json.dumps(as_json(result), sort_keys=True)


@pytest.fixture
def bodies(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is interpreted, as it is; nothing is replaced but the note added."""
    seen: list[str] = []
    real = functions.Functions._body

    def body(self, info, frame):  # type: ignore[no-untyped-def]
        if not self.engine.untraced:
            seen.append(info.symbol)
        return real(self, info, frame)

    monkeypatch.setattr(functions.Functions, "_body", body)
    return seen


def test_after_each_edit_and_its_undoing_all_is_told_as_if_cold(tmp_path: Path, bodies: list[str]) -> None:
    rules, file = registry.rule_set(), tmp_path / "model.py"
    warm = Session(options(tmp_path), rules)
    untouched = told(warm, file, TEXT)
    whole, different, saved = len(bodies), set(), 0
    for old, new in EDITS:
        assert TEXT.count(old) >= 1, old
        text = TEXT.replace(old, new, 1)
        bodies.clear()
        edited = told(warm, file, text)
        saved += len(bodies) < whole
        assert edited == told(Session(options(tmp_path), rules), file, text), (old, new)
        assert told(warm, file, TEXT) == untouched, (old, new)
        different.add(edited)
    assert len(different) > len(EDITS) * 3 // 4  # the edits show
    assert saved > len(EDITS) // 3


def test_edits_one_after_the_other_are_told_as_if_cold(tmp_path: Path) -> None:
    rules, file = registry.rule_set(), tmp_path / "model.py"
    warm, text = Session(options(tmp_path), rules), TEXT
    for old, new in EDITS:
        text = text.replace(old, new, 1)
        edited = told(warm, file, text)
        assert edited == told(Session(options(tmp_path), rules), file, text), (old, new)


def test_edits_around_classes_that_functions_define_are_told_as_if_cold(tmp_path: Path) -> None:
    rules, file = registry.rule_set(), tmp_path / "model.py"
    warm = Session(options(tmp_path), rules)
    untouched, different = told(warm, file, DEFINED), set()
    for old, new in DEFINED_EDITS:
        assert DEFINED.count(old) == 1, old
        text = DEFINED.replace(old, new)
        edited = told(warm, file, text)
        assert edited == told(Session(options(tmp_path), rules), file, text), (old, new)
        assert told(warm, file, DEFINED) == untouched, (old, new)
        different.add(edited)
    assert len(different) > len(DEFINED_EDITS) // 2  # the edits show


def test_only_what_an_edit_touches_is_interpreted_again(tmp_path: Path, bodies: list[str]) -> None:
    file = tmp_path / "model.py"
    warm = Session(ReadOptions(root=tmp_path, search_path=(tmp_path,)), registry.rule_set())
    told(warm, file, TEXT)
    assert {"First.forward", "Second.forward", "Norm.forward", "picked"} <= {*bodies}
    # what stores in an object that was there before, and what calls a function that was defined in __init__
    always = {"Second.forward", "First.forward", "First.__init__.<locals>.<lambda>"}
    # a function that is defined in another knows its variables
    layer = {"Layer.forward", "Layer.forward.<locals>.inner"}
    for old, new, again in (
        ("LIMIT = 4\n", "LIMIT = 4\nOTHER = 5\n", set()),
        ("    eps = 1e-6\n", "    eps = 1e-6\n    unused = 3\n", set()),
        ("    index = torch.nonzero(x)\n", "    index = torch.nonzero(x).tolist()\n", {"picked"}),
        ("    index = torch.nonzero(x)\n", "    # which\n    index = torch.nonzero(x)\n", {"picked"}),
        (
            "    index = torch.nonzero(x)\n",
            "    if global_index := True:\n        index = torch.nonzero(x)\n        index = [*(i for i in index)]\n",
            {"picked"},
        ),
        ("        if x.sum() > 0:\n", "        made = 0\n        if x.sum() > 0:\n", layer),
        ("            return self.norm(z) + around\n", "            return self.norm(z) + around + 1\n", layer),
        (
            "    index = torch.nonzero(x)\n",
            "    global made\n    made = None\n    index = torch.nonzero(x)\n",
            {"picked"},
        ),
    ):
        bodies.clear()
        told(warm, file, TEXT.replace(old, new, 1))
        assert {*bodies} == always | again, old
        told(warm, file, TEXT)


def test_rules_are_asked_again_only_of_what_is_interpreted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = diagnose._claims_of_fact

    def claimed(rules, fact, settings, tables):  # type: ignore[no-untyped-def]
        asked.append(fact.where.symbol)
        return real(rules, fact, settings, tables)

    monkeypatch.setattr(diagnose, "_claims_of_fact", claimed)
    file = tmp_path / "model.py"
    warm = Session(ReadOptions(root=tmp_path, search_path=(tmp_path,)), registry.rule_set())
    told(warm, file, TEXT)
    assert {"Norm.forward", "Layer.forward", "First.forward", "picked"} <= {*asked}
    asked.clear()
    told(warm, file, TEXT.replace("    return index\n", "    return index + 1\n"))
    assert {"picked"} <= {*asked} <= {"picked", "Second.forward", "First.forward", "First.__init__.<locals>.<lambda>"}
    asked.clear()
    config = dedent("""\
        import torch._dynamo

        torch._dynamo.config.capture_scalar_outputs = True
    """)
    told(warm, file, TEXT.replace("LIMIT = 4\n", f"LIMIT = 4\n{config}"))
    assert {"Norm.forward", "Layer.forward", "First.forward", "picked"} <= {*asked}


def test_a_reading_that_was_stopped_leaves_what_is_found_again(tmp_path: Path, bodies: list[str]) -> None:
    rules, file = registry.rule_set(), tmp_path / "model.py"
    warm = Session(options(tmp_path), rules)
    told(warm, file, TEXT)
    for at in range(3, 40, 4):
        asked = 0

        def stop(at: int = at) -> bool:
            nonlocal asked
            asked += 1
            return asked > at

        edited = TEXT.replace("return x * by", f"return x * by + {at}")
        try:
            warm.check([Unit(file.name, file, None)], {file: edited}, stop)
        except StoppedError:
            edited = edited.replace("return index", f"return index.tolist({at})")
        assert told(warm, file, edited) == told(Session(options(tmp_path), rules), file, edited), at


def test_who_reads_once_keeps_nothing(tmp_path: Path) -> None:
    assert not Library().edited


def test_a_name_that_a_function_assigns_counts_with_its_value(tmp_path: Path) -> None:
    text = dedent("""\
            import torch
            from torch import nn

            EXACT = False


            def enable():
                global EXACT
                EXACT = True


            def shared(x):
                if EXACT:
                    return x / x.sum().item()
                return x


            class Model(nn.Module):
                def forward(self, x):
                    enable()
                    return shared(x)
        """)
    file = tmp_path / "model.py"
    opened = Session(options(tmp_path), registry.rule_set())
    told(opened, file, text)
    for value in ("None", "False", "True"):
        now = text.replace("EXACT = True", f"EXACT = {value}")
        assert told(opened, file, now) == told(Session(options(tmp_path), registry.rule_set()), file, now)


def test_who_may_assign_a_name_of_the_file_is_seen_after_each_edit(tmp_path: Path) -> None:
    text = dedent("""\
            import torch
            from torch import nn

            EXACT = False


            def enable():
                global EXACT
                EXACT = True


            def shared(x):
                if EXACT:
                    return x / x.sum().item()
                return x


            class Model(nn.Module):
                def forward(self, x):
                    return shared(x)
        """)
    file, different = tmp_path / "model.py", set()
    opened = Session(options(tmp_path), registry.rule_set())
    for old, new in (
        ("", ""),
        ("    global EXACT\n", ""),
        ("    global EXACT\n", "    x = 1; global EXACT\n"),
        ("    global EXACT\n", "    if True: global EXACT\n"),
        ("def enable():", "def enable(exact):"),
        ("        return shared(x)", "        enable()\n        return shared(x)"),
        ("    EXACT = True\n", "    EXACT = EXACT\n"),
        ("def enable():", "class Switch:\n  def enable(self):"),
        ("    return x\n\n", "    global EXACT\n    EXACT = None\n    return x\n\n"),
    ):
        now = text.replace(old, new, 1)
        found = told(opened, file, now)
        assert found == told(Session(options(tmp_path), registry.rule_set()), file, now), (old, new)
        different.add(json.dumps(json.loads(found)["findings"]))
        told(opened, file, text)
    assert len(different) > 2


def test_what_the_body_of_a_class_hangs_on_is_seen_after_each_edit(tmp_path: Path) -> None:
    text = dedent("""\
            import torch
            from torch import nn

            limit = 1


            class Part(nn.Module):
                def forward(self, x):
                    return x.nonzero()


            class Model(nn.Module):
                other = 3
                kinds = [nn.Identity, Part]
                kind = kinds[limit]

                def __init__(self):
                    super().__init__()
                    self.part = self.kind()

                def forward(self, x):
                    return self.part(x)
        """)
    file, different = tmp_path / "model.py", set()
    opened = Session(options(tmp_path), registry.rule_set())
    for old, new in (
        ("", ""),
        ("    other = 3\n", "    limit = 0\n"),
        ("limit = 1\n", "limit = 0\n"),
        ("    kind = kinds", "    kinds.reverse()\n    kind = kinds"),
        ("[nn.Identity, Part]", "[Part, nn.Identity]"),
        ("    other = 3\n", "    other = 4\n"),
        ("    kind = kinds[limit]\n", "    kind = kinds[limit]\n    kind = kinds[0]\n"),
    ):
        now = text.replace(old, new, 1)
        found = told(opened, file, now)
        assert found == told(Session(options(tmp_path), registry.rule_set()), file, now), (old, new)
        different.add(json.dumps(json.loads(found)["findings"]))
        told(opened, file, text)
    assert len(different) > 1


def test_what_a_function_puts_elsewhere_may_be_a_variable_around_it(tmp_path: Path) -> None:
    text = dedent("""\
            import torch
            from torch import nn

            TABLE = {}
            KEPT = None


            def putting(x):
                value = 1

                def put():
                    global KEPT
                    KEPT = value
                    TABLE['a'] = value
                    nn.Linear.kept = value

                return put


            def shared(x):
                if TABLE['a'] or KEPT or nn.Linear.kept:
                    return x.tolist()
                return x


            class Model(nn.Module):
                def forward(self, x):
                    put = putting(x)
                    put()
                    return shared(x)
        """)
    file = tmp_path / "model.py"
    opened = Session(options(tmp_path), registry.rule_set())
    told(opened, file, text)
    for value in ("x.sum()", "None", "[x]", "1"):
        now = text.replace("value = 1", f"value = {value}")
        assert told(opened, file, now) == told(Session(options(tmp_path), registry.rule_set()), file, now)
