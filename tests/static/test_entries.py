"""What a call of a model gives and leaves out, told by what its forward does with each argument."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from probing import HEAD
from reading import read
from tcready.pipeline import registry as installed
from tcready.portable.options import ReadOptions
from tcready.schema.enums import TcreadyError
from tcready.static.session import Session
from tcready.static.units import Unit

GATES_A_LOSS = {
    "given": "if wanted is not None:\n            return F.cross_entropy(x, wanted[wanted > 0])",
    "returned before": "if wanted is None:\n            return x\n        return self.measure(x, wanted[wanted > 0])",
    "both given": "if weight is not None and wanted is not None:\n            return F.l1_loss(x, wanted[wanted > 0])",
    "an expression": "return x if wanted is None else F.mse_loss(x, wanted[wanted > 0])",
    "a function": "if wanted is not None:\n            return distance(x, wanted)",
    "a name": "if wanted is not None:\n            y, my_loss = self.compute_loss(x, wanted[wanted > 0])",
    "handed on": "return self.head(x, other=wanted)",
    "refused": dedent("""\
        if self.training:
                    if wanted is None:
                        raise ValueError
                return x if wanted is None else wanted[wanted > 0]"""),
}
MADE_UNLESS_GIVEN = {
    "a branch": dedent("""\
        if wanted is None:
                    wanted = x
                else:
                    wanted = wanted[wanted > 0]"""),
    "an expression": "wanted = x if wanted is None else wanted[wanted > 0]\n        return wanted",
    "handed on": "return self.making(x, wanted)",
}
WEIGHT = "weight: torch.Tensor | None = None, "
PARTS = """
import torch.nn.functional as F
def distance(a, b):
    return F.kl_div(a, b[b > 0])
class Head(nn.Module):
    def forward(self, x, weight=None, other=None):
        if other is not None:
            return F.cross_entropy(x, other[other > 0])
class Making(nn.Module):
    def forward(self, x, own=None):
        if own is None:
            own = x + 1
        else:
            own = own[own > 0]
        return own
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.measure, self.head, self.making = nn.CrossEntropyLoss(), Head(), Making()
    def forward(self, x, {weight}wanted: torch.Tensor | None = None):
        {body}
"""


def breaks(folder: Path, source: str, *, plain: bool = False) -> int:
    """How many breaks are told, of whatever confidence above low."""
    (folder / "model.py").write_text(HEAD + source)
    options = ReadOptions(root=folder, search_path=(folder,), mode="infer", plain_call=plain)
    return sum(f.effect in ("graph_break", "frame_skip") for f in read(["model.py::Model"], options).findings)


@pytest.mark.parametrize("form", GATES_A_LOSS)
def test_what_a_loss_hangs_on_is_a_target(form: str, tmp_path: Path) -> None:
    source = PARTS.format(body=GATES_A_LOSS[form], weight=WEIGHT)
    assert breaks(tmp_path, source) == 1
    assert breaks(tmp_path, source, plain=True) == 0


@pytest.mark.parametrize("form", MADE_UNLESS_GIVEN)
def test_what_a_forward_makes_for_itself_is_left_out(form: str, tmp_path: Path) -> None:
    assert breaks(tmp_path, PARTS.format(body=MADE_UNLESS_GIVEN[form], weight="")) == 0


def test_another_tensor_that_may_be_left_out_is_given_as_often_as_not(tmp_path: Path) -> None:
    body = "return x if wanted is None else wanted[wanted > 0]"
    assert breaks(tmp_path, PARTS.format(body=body, weight="")) == 1


CONFIGURATION = """
class {name}:
    kind = "{kind}"
    parts = {parts}
    tower: dict | None = None
"""
TOWER = """
class Tower(nn.Module):
    config: TowerConfig
    def __init__(self, config):
        super().__init__()
    def forward(self, x):
        return x[x > 0]
"""
COMPOSITE = """
class Model(nn.Module):
    config: WholeConfig
    def __init__(self, config: WholeConfig):
        super().__init__()
        self.tower = Registry.make(config.tower)
    def forward(self, x):
        return self.tower(x)
"""


@pytest.mark.parametrize("kind", ["tower", "tower_encoder"])
def test_a_part_that_a_registry_knows_by_a_text(kind: str, tmp_path: Path) -> None:
    whole = CONFIGURATION.format(name="WholeConfig", kind="whole", parts=f'{{"tower": Part(Any, kind="{kind}")}}')
    files = {
        "tower/configuration.py": CONFIGURATION.format(name="TowerConfig", kind=kind, parts="{}"),
        "tower/modeling.py": f"{HEAD}from .configuration import TowerConfig\n{TOWER}",
        "whole/configuration.py": f"from ..registry import Any, Part\n{whole}",
        "whole/modeling.py": f"{HEAD}from ..registry import Registry\nfrom .configuration import WholeConfig\n"
        + COMPOSITE,
        "registry.py": dedent("""\
            class Any: ...
            class Part:
                def __init__(self, cls, kind): self.cls, self.kind = cls, kind
            class Registry:
                @classmethod
                def make(cls, config): return KNOWN[type(config)](config)
        """),
    }
    for name, text in files.items():
        path = tmp_path / "zoo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text)
    options = ReadOptions(root=tmp_path, search_path=(tmp_path,), mode="infer")
    found = read(["zoo.whole.modeling::Model"], options).findings
    assert [f.symbol for f in found if f.effect == "graph_break"] == ["Tower.forward"]


MADE = """\
from torch import nn


def make(dim=8):
    class Net(nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x

    return Net()


def used():
    class Part(nn.Module):
        def forward(self, x):
            return x[x > 0]

    return Part()


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = used()

    def forward(self, x):
        return self.part(x)
"""


@pytest.mark.parametrize(
    ("name", "lines", "targets"),
    [
        ("", [7, 15], ["model.py::Whole", "model.py::make"]),
        ("::Net", [7], ["model.py::Net"]),
        ("::make", [7], ["model.py::make"]),
    ],
)
def test_a_class_in_a_function_is_read(name: str, lines: list[int], targets: list[str], tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MADE)
    result = read([f"model.py{name}"], ReadOptions(root=tmp_path))
    assert [finding.line for finding in result.findings] == lines
    assert [target.target for target in result.targets] == targets


BALLS = """
import torch
from torch import nn, Tensor
class Ball(nn.Module):
    def distance(self, x):
        if x.sum() > 0:
            return x
        return -x
class Smaller(Ball):
    pass
class Named(Tensor):
    def extract(self, names):
        return self.as_subclass(torch.Tensor)
"""
WITH_A_BALL = """
class Model(nn.Module):
    def __init__(self, size, *, ball):
        super().__init__()
        self.ball = ball
    def forward(self, x):
        return self.ball.distance(x)
"""
WITH_NAMES = """
class Model(nn.Module):
    def forward(self, x):
        return x.extract(["a"])
"""


@pytest.mark.parametrize("imports", ["from . import balls", "from .balls import Named as N"])
@pytest.mark.parametrize("model", [WITH_A_BALL, WITH_NAMES], ids=["a module", "a tensor"])
def test_what_has_no_type_is_of_the_class_in_sight_that_owns_what_is_read(
    imports: str, model: str, tmp_path: Path
) -> None:
    """Of a class and one that derives from it the first; a file that is not imported is not in sight."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "balls.py").write_text(BALLS)
    found = {}
    for head in (imports, "from . import none"):
        (folder / "model.py").write_text(f"{HEAD}{head}\n{model}")
        options = ReadOptions(root=tmp_path, search_path=(tmp_path,), mode="infer")
        told = read(["own.model::Model"], options).findings
        found[head] = [f.path for f in told if f.effect in ("graph_break", "frame_skip")]
    assert found == {imports: ["own/balls.py"], "from . import none": []}


COPIED = """
class Other(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.width = config.width
    def forward(self, x):
        return x * x.sum().item()
class Model(nn.Module):
    def __init__(self, {name}):
        super().__init__()
        self.given = {name}
        self.width = {name}.width
    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(self.given, x, use_reentrant=False)
"""


@pytest.mark.parametrize(("name", "told"), [("encoder", 1), ("config", 0)])
def test_an_argument_is_no_module_that_copies_all_of_it_from_one_of_that_name(
    name: str, told: int, tmp_path: Path
) -> None:
    assert breaks(tmp_path, COPIED.format(name=name)) == told


READ_ALONE = """
class Learned(nn.Module):
    def __init__(self):
        super().__init__()
        self.temperature = nn.Parameter(torch.ones(1))
    def forward(self, x):
        return x / self.temperature
class Model(nn.Module):
    def __init__(self, given):
        super().__init__()
        self.given = given
    def forward(self, x):
        if self.given.temperature != 1.0:
            x = {other}
        return x
"""


@pytest.mark.parametrize(("other", "told"), [("x / self.given.temperature", 0), ("self.given(x)", 1)])
def test_what_is_only_read_may_be_a_configuration(other: str, told: int, tmp_path: Path) -> None:
    """One that is called has a parameter of that name, whose value is asked."""
    assert breaks(tmp_path, READ_ALONE.format(other=other)) == told


TOLD_BY_A_BUILDER = """
class Block(nn.Module):
    def forward(self, x):
        return x * x.sum().item()
class Model(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block
    def forward(self, x):
        return self.block(x)
class Trainer:
    def __init__(self, block, options):
        {body}
    def made(self):
        return {made}
"""
BUILDERS = {
    "asked": ("assert isinstance(block, Block); self.model = Model(block)", "None"),
    "a local name": ("block = Block(); self.model = Model(block)", "None"),
    "kept": ("options.block = Block(); self.model = Model(options.block)", "None"),
    "a method": ("self.model = self.made(); self.other = Model(options.block)", "Model(Block())"),
    "another name": ("N = Model; self.model = N(Block()); self.other = Model(block)", "None"),
    "an inner function": ("self.model = (lambda block: Model(block))(Block())", "None"),
}


@pytest.mark.parametrize("case", BUILDERS)
def test_who_makes_a_model_tells_what_it_is_given(case: str, tmp_path: Path) -> None:
    body, made = BUILDERS[case]
    assert breaks(tmp_path, TOLD_BY_A_BUILDER.format(body=body, made=made)) == 1
    assert breaks(tmp_path, TOLD_BY_A_BUILDER.format(body="self.model = Model(options.block)", made="None")) == 0


ANY_NUMBER = """
class Part(nn.Module):
    def forward(self, x):
        return x * x.sum().item()
class Model(nn.Module):
    def __init__(self, *parts{annotation}, scale=2):
        super().__init__()
        self.parts = {kept}
        self.scale = scale
    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x * self.scale
"""


@pytest.mark.parametrize("kept", ["nn.ModuleList(parts)", "tuple(parts)", "parts"])
def test_a_constructor_that_takes_any_number_of_parts_is_given_some(kept: str, tmp_path: Path) -> None:
    assert breaks(tmp_path, ANY_NUMBER.format(annotation=": Part", kept=kept)) == 1
    assert breaks(tmp_path, ANY_NUMBER.format(annotation=": nn.Linear", kept=kept)) == 0
    assert breaks(tmp_path, ANY_NUMBER.format(annotation="", kept=kept)) == 0


@pytest.mark.parametrize(
    ("made", "use", "told"),
    [
        ("np.int64(count)", "self.count", 0),
        ("np.int64(count)", "self.count * 2", 1),
        ("np.dtype(kind).type(count)", "self.count", 0),
    ],
)
def test_a_number_that_an_annotated_object_made_by_a_type_of_numpy_is_known_as_a_size(
    made: str, use: str, told: int, tmp_path: Path
) -> None:
    source = f"""
import numpy as np
class Space:
    def __init__(self, count, kind=np.int64): self.count = {made}
class Model(nn.Module):
    def __init__(self, space: Space):
        super().__init__()
        self.count = space.count
    def forward(self, x):
        return x.view(-1, {use})
"""
    assert breaks(tmp_path, source) == told


HELD = """
import absent
class Part(nn.Module):
    def forward(self, x):
        return x[x > 0]
model = nn.Sequential(nn.Linear(4, 4), Part())
recurrent = nn.LSTM(4, 4)
elsewhere = absent.Model(nn.Linear(4, 4))
number = 5
def build():
    return nn.Sequential(nn.Linear(4, 4), Part())
def named(width=4):
    return nn.Sequential(nn.Linear(width, 4), Part()).eval()
def other():
    return absent.Model(nn.Linear(4, 4))
def taking(x):
    return absent.change(nn.Linear(4, 4)(x))
"""


@pytest.mark.parametrize(
    ("name", "rules", "unread"),
    [
        ("model", {"TCR204"}, 0),
        ("recurrent", {"TCR406"}, 0),
        ("build", {"TCR204"}, 0),
        ("named", {"TCR204"}, 0),
        ("elsewhere", set(), 1),
        ("other", set(), 1),
        ("taking", {"TCR315"}, 0),
    ],
)
def test_a_target_may_be_a_model_of_torch_or_what_gives_one(
    name: str, rules: set[str], unread: int, tmp_path: Path
) -> None:
    (tmp_path / "model.py").write_text(HEAD + HELD)
    found = read([f"model.py::{name}"], ReadOptions(root=tmp_path, search_path=(tmp_path,), mode="infer"))
    assert {f.rule for f in found.findings} == rules
    assert sum(not each.is_read for each in found.targets) == unread


def test_what_is_no_model_is_no_target(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(HEAD + HELD)
    with pytest.raises(TcreadyError, match=r"number is no nn\.Module class with a forward"):
        read(["model.py::number"], ReadOptions(root=tmp_path, search_path=(tmp_path,)))


NESTED = "".join(
    f"""
class Level{level}(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.inner = {f"Level{level - 1}(size)" if level else "nn.LSTM(size, size)"}
    def forward(self, x):
        return self.inner(x)
"""
    for level in range(8)
)


@pytest.mark.parametrize("name", ["Level7", "build", "model", "by_another"])
def test_a_model_is_followed_as_deep_however_it_is_named(name: str, tmp_path: Path) -> None:
    """What runs at import is followed less deep; a model that was asked for is not."""
    made = "\ndef build():\n    return Level7(8)\nmodel = Level7(8)\ndef by_another():\n    return build()\n"
    (tmp_path / "net.py").write_text(HEAD + NESTED + made)
    found = read([f"{tmp_path / 'net.py'}::{name}"], ReadOptions(root=tmp_path)).findings
    assert [finding.rule for finding in found] == ["TCR406"]


@pytest.mark.parametrize(
    ("imports", "is_namespace"),
    [
        ("from parts.net import Net", False),
        ("from parts.net import Net", True),
        ("from parts.net import *", False),
        ("from parts.net import *", True),
        ("import parts.net\nNet = parts.net.Net", False),
    ],
)
def test_a_model_of_an_installed_package_is_read_however_it_is_imported(
    imports: str, is_namespace: bool, tmp_path: Path
) -> None:
    installed = tmp_path / "site-packages"
    (installed / "parts").mkdir(parents=True)
    (installed / "parts" / "net.py").write_text(
        f"{HEAD}class Net(nn.Module):\n    def forward(self, x):\n        return x[x > 0]\n"
    )
    if not is_namespace:
        (installed / "parts" / "__init__.py").touch()
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "made.py").write_text(f"{imports}\n\n\ndef build():\n    return Net()\n")
    options = ReadOptions(root=tmp_path / "own", search_path=(installed,))
    found = read([f"{tmp_path / 'own' / 'made.py'}::build"], options).findings
    assert [finding.rule for finding in found] == ["TCR204"]


CALLED = dedent("""\
        class Model(nn.Module):
            def __init__(self, n=2, flag=False):
                super().__init__()
                self.n, self.flag = n, flag
            def forward(self, x, mask=None, *more, limit=None, **others):
                if self.flag:
                    print(1)
                if mask is not None:
                    x = x[mask]
                for each in more:
                    x = x + each.item()
                if limit is not None:
                    x = x + x.nonzero()[limit]
                if 'loud' in others:
                    print(others['loud'])
                return x
    """)
X, MASK, ITEM, NONZERO, LOUD = "torch.randn(2)", "TCR204", "TCR201", "TCR205", "TCR301"
GIVEN = {
    "one tensor": (f"def get_inputs():\n    return {X}\n", []),
    "one argument": (f"def get_inputs():\n    return [{X}]\n", []),
    "by position": (f"def get_inputs():\n    return {X}, {X} > 0\n", [MASK]),
    "an index": (f"def get_inputs():\n    return {X}, torch.arange(2)\n", []),
    "more than it names": (f"def get_inputs():\n    return {X}, None, {X}\n", [ITEM]),
    "by name": (f"def get_inputs():\n    return dict(x={X}, limit=0)\n", [NONZERO]),
    "a name that it does not have": (f"def get_inputs():\n    return dict(x={X}, loud=True)\n", [LOUD]),
    "both": (f"def get_inputs():\n    return ({X}, {X} > 0), dict(limit=0)\n", [MASK, NONZERO]),
    "two tensors in lists": (f"def get_inputs():\n    return [[{X}], {{}}]\n", []),
    "cases": (
        f"def get_inputs():\n    x = {X}\n"
        "    return {'cases': {'a': (x, x > 0), 'b': dict(x=x, limit=0)}, 'weights': {'a': 2}}\n",
        [MASK, NONZERO],
    ),
    "the other name": (f"def get_example_inputs(n=2):\n    return torch.randn(n), {X} > 0\n", [MASK]),
    "a helper's": (
        f"def made(n):\n    return {X}, torch.zeros(n, dtype=torch.bool)\ndef get_inputs():\n    return made(2)\n",
        [MASK],
    ),
    "a method's": (
        f"class Model(Base):\n    def get_example_inputs(self):\n        return torch.randn(self.n), {X} > 0\n",
        [MASK],
    ),
    "an attribute's": (f"class Model(Base):\n    example_input_array = {X}, {X} > 0\n", [MASK]),
    "a table of tensors": (f"def get_inputs():\n    return {{0: {X}, 1: {X} > 0}}\n", []),
    "how it is built": (
        f"def get_init_inputs():\n    return dict(flag=True)\ndef get_inputs():\n    return [{X}]\n",
        [LOUD],
    ),
}


def called(gives: str) -> str:
    """The model, or what it derives from if that gives the inputs."""
    return CALLED.replace("Model", "Base") if "(Base)" in gives else CALLED


OF_THE_CLASS = {"a method's", "an attribute's", "how it is built"}
"""What a function that makes the model does not take: it gives arguments of its own."""


@pytest.mark.parametrize(
    ("named", "name"),
    [
        *((named, name) for named in ("model.py", "model.py::Model") for name in GIVEN),
        *(("model.py::build", name) for name in GIVEN if name not in OF_THE_CLASS),
    ],
)
def test_a_file_that_gives_inputs_says_how_its_model_is_called(name: str, named: str, tmp_path: Path) -> None:
    gives, rules = GIVEN[name]
    text = HEAD + called(gives) + gives + "def build():\n    return Model()\n"
    (tmp_path / "model.py").write_text(text)
    found = read([named], ReadOptions(root=tmp_path)).findings
    assert [f.rule for f in found if f.confidence != "low"] == rules


@pytest.mark.parametrize("makes", ["def get_model():\n    return Net(flag=True)\n", "model = Net(flag=True)\n"])
def test_a_file_that_makes_its_model_says_how_it_is_built(makes: str, tmp_path: Path) -> None:
    text = HEAD + CALLED.replace("Model", "Net") + makes + f"def get_inputs():\n    return {X}, {X} > 0\n"
    (tmp_path / "model.py").write_text(text)
    found = read(["model.py"], ReadOptions(root=tmp_path)).findings
    assert sorted(f.rule for f in found if f.confidence != "low") == sorted([MASK, LOUD])


COPIES = {
    "spread into a dict": "out = {**batch}",
    "copied": "out = batch.copy()",
    "made a dict": "out = dict(batch)",
    "made an ordered one": "out = collections.OrderedDict(batch)",
    "taken into another": "out = {}\n        out.update(batch)",
    "by a helper": "out = self.halved(batch)",
    "spread over a method": "return self.scored(**batch)",
    "by a function": "out = doubled(batch)",
}
OF_BATCHES = """\
import collections
def doubled(batch):
    return {"row": batch["row"] * 2, "mask": batch["mask"]}
class Model(nn.Module):
    def halved(self, batch):
        batch = dict(batch)
        batch["row"] = batch["row"] / 2
        return batch
    def scored(self, row, mask):
        return row * int(mask.max())
"""


@pytest.mark.parametrize("name", COPIES)
def test_an_argument_that_is_taken_like_a_dict_holds_tensors(name: str, tmp_path: Path) -> None:
    text = f"    def forward(self, batch):\n        {COPIES[name]}\n"
    if "scored" not in text:
        text += '        return out["row"] * int(out["mask"].max())\n'
    (tmp_path / "model.py").write_text(HEAD + OF_BATCHES + text)
    found = read(["model.py"], ReadOptions(root=tmp_path)).findings
    assert [(f.rule, f.confidence) for f in found] == [("TCR203", "high")]


UNKNOWN_INPUTS = {
    "nothing": "def get_inputs():\n    pass\n",
    "what nobody knows": dedent("""\
        from elsewhere import batch
        def get_inputs():
            return batch()
    """),
    "arguments nobody knows": dedent("""\
        from elsewhere import batch
        def get_inputs():
            return [*batch()]
    """),
    "names nobody knows": dedent("""\
        from elsewhere import batch
        def get_inputs():
            return {**batch()}
    """),
    "an argument nobody knows": dedent("""\
        from elsewhere import batch
        def get_inputs():
            return batch(), batch()
    """),
    "a text": "def get_inputs():\n    return 'x'\n",
    "itself": "def get_inputs():\n    return get_inputs()\n",
    "a required argument": "def get_inputs(size):\n    return torch.randn(size)\n",
    "asynchronously": "async def get_inputs():\n    return torch.randn(2)\n",
    "too few": "def get_inputs():\n    return []\n",
    "too many": "def get_inputs():\n    return torch.ones(2) > 0, None, 3\n",
    "another name": "def get_inputs():\n    return dict(y=torch.ones(2) > 0)\n",
    "one twice": "def get_inputs():\n    return (3,), dict(x=torch.ones(2))\n",
    "no more than the mask": "def get_inputs():\n    return dict(mask=torch.ones(2) > 0)\n",
    "cases nobody knows": dedent("""\
        from elsewhere import batch
        def get_inputs():
            return {'cases': batch()}
    """),
    "some cases": dedent("""\
        from elsewhere import batch
        def get_inputs():
            return {'cases': {'a': (3,), **batch()}}
    """),
}


@pytest.mark.parametrize("name", UNKNOWN_INPUTS)
def test_inputs_that_are_not_known_leave_a_usual_call(name: str, tmp_path: Path) -> None:
    model = dedent("""\
        class Model(nn.Module):
            def forward(self, x, mask=None):
                return x.item()
    """)
    (tmp_path / "model.py").write_text(HEAD + model + UNKNOWN_INPUTS[name])
    found = read(["model.py"], ReadOptions(root=tmp_path)).findings
    assert [finding.rule for finding in found] == ["TCR201"]


FLAGGED = """\
class Model(nn.Module):
    def __init__(self, debug=False):
        super().__init__()
        self.example_input_array = torch.randn(2)
        if debug:
            self.example_input_array = (torch.randn(2), True)
    def forward(self, x, flag=False):
        if flag:
            print(x)
        return x
"""
BOTH = "{'cases': {'first': [torch.randn(2)], 'then': dict(x=torch.randn(2), flag=True)}}"


@pytest.mark.parametrize(
    ("gives", "told"),
    [
        ("", "low"),  # the array that is set by default
        ("def get_inputs():\n    return torch.randn(2), True\n", "high"),
        (
            dedent("""\
            def get_inputs():
                return torch.randn(2), True
            del get_inputs
        """),
            "low",
        ),
        (f"def get_inputs():\n    return {BOTH}\n", "high"),
    ],
)
def test_a_flag_is_given_by_what_is_there_once_the_file_has_run(gives: str, told: str, tmp_path: Path) -> None:
    """By one of several calls, too."""
    (tmp_path / "model.py").write_text(HEAD + FLAGGED + gives)
    found = read(["model.py::Model"], ReadOptions(root=tmp_path, low=True)).findings
    assert [(f.rule, f.confidence) for f in found] == [(LOUD, told)]


def test_inputs_are_for_the_model_that_the_file_is_about(tmp_path: Path) -> None:
    """Its other classes are called by it, or like any other."""
    other = CALLED.replace("Model", "Other")
    text = f"{HEAD}{CALLED}{other}def get_inputs():\n    return {X}, {X} > 0\n"
    (tmp_path / "model.py").write_text(text)
    options = ReadOptions(root=tmp_path)
    lines = {line for line, each in enumerate(text.splitlines(), 1) if "x[mask]" in each}
    assert len(lines) == 2
    assert [f.line for f in read(["model.py"], options).findings if f.rule == MASK] == [min(lines)]
    assert [f.line for f in read(["model.py::Other"], options).findings if f.rule == MASK] == [max(lines)]


def test_an_edit_of_the_inputs_is_seen(tmp_path: Path) -> None:
    rules, options = installed.rule_set(), ReadOptions(root=tmp_path)
    file = tmp_path / "model.py"
    warm = Session(options, rules)
    unit = Unit("model.py", file, None)
    for gives, expected in [*GIVEN.values(), *GIVEN.values()]:
        text = HEAD + called(gives) + gives
        found = warm.check([unit], {file: text}).result.findings
        assert [f.rule for f in found if f.confidence != "low"] == expected


def test_an_object_that_keeps_attributes_its_own_way_is_taken_as_in_a_usual_call(tmp_path: Path) -> None:
    """What `batch.x` gives its own code decides, which may be more than is read."""
    bag = dedent("""\
            class Bag:
                def __init__(self, **given):
                    self.__dict__['kept'] = load(given)
                def __getattr__(self, name):
                    return getattr(self.kept, name)
                def __setattr__(self, name, value):
                    setattr(self.kept, name, value)
                @property
                def x(self):
                    return self.kept['x'] if 'x' in self.kept else None
        """)
    model = dedent("""\
        class Model(nn.Module):
            def forward(self, batch):
                return batch.x[batch.x.max().item()]
    """)
    found = []
    for gives in ("", f"def get_inputs():\n    return [Bag(x={X})]\n"):
        (tmp_path / "model.py").write_text(f"{HEAD}from elsewhere import load\n{bag}{model}{gives}")
        found.append([f.rule for f in read(["model.py"], ReadOptions(root=tmp_path)).findings])
    assert found[0] == found[1]


NET = dedent("""\
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
""")
NET += "    def forward(self, x):\n        x = self.linear(x)\n        return x / x.max().item()\n"
AROUND = dedent("""\
    class Around:
        def __init__(self, net):
            self.net = net
""")
AROUND += "    def __call__(self, x):\n        return self.net(x)\n"


@pytest.mark.parametrize("made", ["Net()", "Around(Net())"])
@pytest.mark.parametrize("inputs", ["", f"def get_inputs():\n    return ({X},)\n"])
def test_a_file_that_makes_a_model_of_another_file(made: str, inputs: str, tmp_path: Path) -> None:
    """What `model()` gives is the model, and no part of what is compiled, be it a module or what is around one."""
    (tmp_path / "net.py").write_text(HEAD + NET + AROUND)
    (tmp_path / "entry.py").write_text(f"{HEAD}from net import *\ndef model():\n    return {made}\n{inputs}")
    for target in ("entry.py", "entry.py::model"):
        found = read([target], ReadOptions(root=tmp_path)).findings
        assert [(f.path, f.rule) for f in found] == [("net.py", "TCR201")], target


def test_a_gradient_is_there_in_training(tmp_path: Path) -> None:
    body = "    def forward(self, x):\n        for p in self.parameters():\n            if p.grad is not None:\n"
    body += "                x = x * p.grad.norm().item()\n        return x\n"
    (tmp_path / "model.py").write_text(f"{HEAD}{NET.partition('    def forward')[0]}{body}")
    found = {
        mode: [f.confidence for f in read(["model.py"], ReadOptions(root=tmp_path, mode=mode, low=True)).findings]
        for mode in ("infer", "train")
    }
    assert found == {"infer": ["low"], "train": ["high"]}


OTHER_FILE = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)
    def forward(self, x):
        if x.sum() > 0:
            return x
        return self.layer(x)
"""


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (dedent("""\
            class A:
                def __init__(self):
                    self.run = torch.compile(self._run, dynamic=True)
            {run}"""), "A._run"),
        ("class A:\n    @torch.compile(dynamic=True)\n{run}", "A._run"),
        (dedent("""\
            class A:
                def start(self):
                    compiled = self._run
                    return torch.compile(compiled)
            {run}"""), "A._run"),
        (dedent("""\
            class A:
                def __init__(self):
                    self.net = Net(4).eval()
                    self.net.compile()"""), "A.net"),
        ("class A:\n    def __init__(self):\n        self.net = torch.compile(Net(4))", "A.net"),
        (dedent("""\
            def main(device):
                net = Net(4)
                net = net.to(device)
                run = torch.compile(net)"""), "Net"),
        ("def main():\n    return torch.compile(model=Net(4), backend='eager')", "Net"),
        ("net = Net(4)\nif __name__ == '__main__':\n    net.compile()", "Net"),
        ("def main():\n    for net in nn.ModuleList([Net(4)]):\n        net.compile()", "Net"),
        ("def main():\n    for number, net in enumerate([Net(4)]):\n        run = torch.compile(net)", "Net"),
        ("def main():\n    for name, net in nn.Sequential(Net(4)).named_children():\n        net.compile()", "Net"),
        ("for net in [Net(4)]:\n    net.compile()", "Net"),
        ("import functools\nrun = functools.partial(torch.compile, dynamic=True)(Net(4))", "Net"),
        (dedent("""\
            from functools import partial
            def main():
                fast = partial(torch.compile)
                return fast(Net(4))"""), "Net"),
        (dedent("""\
            from transformers import Trainer, TrainingArguments
            def main(data):
                args = TrainingArguments("out", torch_compile=True)
                net = Net(4)
                Trainer(model=net, args=args, train_dataset=data).train()"""), "Net"),
        (dedent("""\
            from trl import SFTConfig, SFTTrainer
            trainer = SFTTrainer(Net(4), args=SFTConfig(torch_compile_backend="inductor"))"""), "Net"),
        (dedent("""\
            from torch import compile as fast
            def step(x):
                return x if x.sum() > 0 else -x
            fast_step = fast(step)"""), "step"),
    ],
)  # fmt: skip
def test_what_a_file_compiles_is_a_target(source: str, target: str, tmp_path: Path) -> None:
    run = "    def _run(self, x):\n        return x if x.sum() > 0 else -x"
    (tmp_path / "net.py").write_text(OTHER_FILE)
    (tmp_path / "serve.py").write_text(
        f"import torch\nfrom torch import nn\nfrom net import Net\n{source.format(run=run)}\n"
    )
    options = ReadOptions(root=tmp_path, search_path=(tmp_path,), mode="infer")
    found = read(["serve.py"], options)
    assert [each.target for each in found.targets] == [f"serve.py::{target}"]
    assert [finding.rule for finding in found.findings] in (["TCR101"], ["TCR104"])
    if source.startswith("class"):
        assert read(["serve.py::A"], options).targets == found.targets


def test_every_item_of_a_loop_that_compiles_is_a_target(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(OTHER_FILE + OTHER_FILE.replace("Net", "Other"))
    text = dedent("""\
        from torch import nn
        from net import Net, Other
        def main():
            parts = nn.Sequential(Net(4), nn.ReLU(), Other(4))
    """)
    (tmp_path / "serve.py").write_text(f"{text}    for part in parts:\n        part.compile()\n")
    found = read(["serve.py"], ReadOptions(root=tmp_path, search_path=(tmp_path,), mode="infer"))
    assert {each.target for each in found.targets} == {"serve.py::Net", "serve.py::Other"}


def test_a_trainer_that_does_not_compile_has_no_target(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(OTHER_FILE)
    text = dedent("""\
        from transformers import Trainer, TrainingArguments
        from net import Net
        args = TrainingArguments("out", torch_compile=False, torch_compile_mode=None)
        other = TrainingArguments("out", torch_compile=True)
        Trainer(model=Net(4), args=args).train()
    """)
    (tmp_path / "train.py").write_text(text)
    assert not read(["train.py"], ReadOptions(root=tmp_path, search_path=(tmp_path,), mode="infer")).targets


def test_what_another_compile_takes_is_no_target(tmp_path: Path) -> None:
    source = dedent("""\
            import re
            import torch
            class Model:
                def compile(self, loss): ...
                def fit(self, x):
                    {}
        """)
    lines = "self.compile(loss=x); re.compile('a'); compile('1', 'a', 'eval'); torch.jit.compile(x)"
    (tmp_path / "other.py").write_text(source.format(lines))
    assert not read(["other.py"], ReadOptions(root=tmp_path, search_path=(tmp_path,), mode="infer")).targets
