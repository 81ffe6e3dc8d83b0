"""Constructs by which packages of models hide what they compute with: each was met where a whole model was not read."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from textwrap import dedent, indent

import pytest
from probing import HEAD, forward, known
from reading import PINNED, read
from tcready.portable.options import ReadOptions
from tcready.static.frontend.documentation import as_annotation, types_in

WORDS = {
    "int": "int",
    "int or str, optional": "int | str",
    "torch.Tensor, shape = (n, n)": "torch.Tensor",
    "`~torch.Tensor` or None": None,
    ":class:`~package.module.Thing`": "package.module.Thing",
    ":class:`Thing` | torch.Tensor": "Thing | torch.Tensor",
    "Tuple[int, int], default (3, 3)": "Tuple[int, int]",
    "the number of heads": None,
    "list of int": None,
    "int >= 2": None,
    "{'mean', 'sum'}": None,
    "": None,
}


@pytest.mark.parametrize("words", WORDS)
def test_words_of_a_type(words: str) -> None:
    node = as_annotation(words)
    assert (None if node is None else ast.unparse(node)) == WORDS[words]


STYLES = {
    "numpy": dedent("""\
        Parameters
        ----------
        x : torch.Tensor
            Of nodes.
        n, m : int
            How many.
    """),
    "google": dedent("""\
        Args:
            x (torch.Tensor): of nodes.
            n (int): how many.
            m (int): more.
    """),
    "sphinx": dedent("""\
        :param x: of nodes
        :type x: torch.Tensor
        :type n: int
        :type m: int
    """),
    "sphinx at once": dedent("""\
        :param torch.Tensor x: of nodes
        :param int n: how many
        :param int m: more
    """),
}


@pytest.mark.parametrize("style", STYLES)
def test_styles_of_documentation(style: str) -> None:
    found = types_in(STYLES[style], frozenset("xnm"))
    assert found == {"x": "torch.Tensor", "n": "int", "m": "int"}


def documented(lines: str, body: str, sig: str = "self, x") -> str:
    return forward(f'"""Computes.\n\nArgs:\n{lines}\n"""\n{body}', sig=sig)


DOCUMENTED = {
    "a number": ("    n (int): how many", "see(n > 1, 'a')", "self, x, n", "bool@config"),
    "a tensor stays one": ("    x (Tensor): of nodes", "see(x, 'a')", "self, x", "tensor?"),
    "a dict of tensors": ("    d (dict): of nodes", "see(d['k'], 'a')", "self, d", "tensor?"),
    "a sentence says nothing": ("    n (the number): or so", "see(n, 'a')", "self, n", "tensor?"),
    "an annotation counts more": ("    n (Tensor): no", "see(n, 'a')", "self, n: int", "int@config"),
    "nothing else": ("    n: how many", "see(n, 'a')", "self, n", "tensor?"),
}


@pytest.mark.parametrize("case", DOCUMENTED)
def test_documented_types(case: str, tmp_path: Path) -> None:
    lines, body, sig, expected = DOCUMENTED[case]
    assert known(tmp_path, documented(lines, body, sig))["a"] == expected


def test_a_documented_class_that_the_file_does_not_import(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/labels.py": f"{HEAD}class Labelled(Tensor):\n"
        "    def __init__(self, x):\n        self._labels = {}\n"
        "    def pick(self):\n        see(self._labels, 'labels')\n        return self._labels\n",
        "pkg/tools.py": "from pkg.labels import Labelled\ndef check(x): ...\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    source = forward(
        '":type x: Labelled | torch.Tensor"\nsee(x.pick(), "picked")', before="from pkg.tools import check"
    )
    found = known(tmp_path / "pkg", source)
    assert found == {"labels": "{*: unknown}", "picked": "{*: unknown}"}


READ_ON = {
    "a check that a default seems to fail": (
        dedent("""\
            self.table = find(None)
            if self.table is None:
                raise ValueError
            self.layer = nn.Linear(3, 3)"""),
        "see(self.layer(x), 'a')",
        "def find(x): return x",
        "tensor[float]",
    ),
    "an else that raises": (
        dedent("""\
            if config == 'a':
                pass
            elif n == 7:
                raise ValueError
            self.layer = nn.Linear(3, 3)"""),
        "see(self.layer(x), 'a')",
        "",
        "tensor[float]",
    ),
    "the variables of a function": (
        "self.keep(**locals())",
        "see(self.kept, 'a')",
        "class Base(nn.Module):\n    def keep(self, n, **others): self.kept = n\n",
        "3 | int@config",
    ),
    "keys of a dict by place": (
        "table = {'p': 1, 'q': 2}\nself.first = tuple(table)[0]\nself.names = list(table)",
        "see((self.first, self.names), 'a')",
        "",
        "tuple('p', list('p', 'q'))",
    ),
    "a dict made over a tuple that is kept": (
        "self.lin = nn.Linear(3, 3)\nself.f = torch.abs\nself.names = ('lin', 'f')",
        "see({name: getattr(self, name) for name in self.names}, 'a')",
        "",
        "{'lin': Linear, 'f': abs}",
    ),
    "buffers by name": (
        "self.register_buffer('b', torch.ones(3))\nself.n = 3",
        "see(self._buffers, 'a')",
        "",
        "{'b': tensor[float]}",
    ),
    "a layer of einops": (
        "self.flat = Rearrange('b c -> c b')",
        "see(self.flat(x), 'a')",
        "from einops.layers.torch import Rearrange",
        "tensor",
    ),
    "a layer for so many dimensions": (
        "self.conv = getattr(nn, f'Conv{config}d')(3, 3, 1)",
        "see(self.conv(x), 'a')",
        "",
        "tensor[float]",
    ),
    "a function for so many dimensions": (
        "self.pool = getattr(F, 'max_pool{}d'.format(config))",
        "see(self.pool(x, 2), 'a')",
        "",
        "tensor",
    ),
    "a layer by a name that is not known": (
        "self.act = getattr(nn, config)()",
        "see(self.act(x), 'a')",
        "",
        "tensor[float]",
    ),
}


@pytest.mark.parametrize("case", READ_ON)
def test_what_follows_is_read(case: str, tmp_path: Path) -> None:
    init, body, before, expected = READ_ON[case]
    source = forward(body, init, before=before)
    if "class Base" in before:
        source = source.replace("class Model(nn.Module)", "class Model(Base)")
    assert known(tmp_path, source)["a"] == expected


BLOCKS = """
class Wide(nn.Module):
    def forward(self, x): return see(x, 'wide') or x
class Deep(nn.Module):
    def forward(self, x): return see(x, 'deep') or x
class Other(nn.Module):
    def forward(self, x): return see(x, 'other') or x
class Net(nn.Module):
    def __init__(self, block{annotation}, n):
        super().__init__()
        self.layers = nn.Sequential(*[block() for _ in range(n)])
    def forward(self, x): return self.layers(x)
"""
MAKERS = """
def _net(kind, n): return Net(kind, n)
def wide(): return _net(Wide, 3)
def deep(n=3): return _net(kind=Deep, n=n)
"""


@pytest.mark.parametrize(
    ("annotation", "makers"),
    [("", MAKERS), (": type[Wide | Deep]", ""), (": typing.Type[typing.Union[Wide, Deep]]", "")],
    ids=["passed by functions of the file", "type", "Type of a union"],
)
def test_a_class_that_is_passed_in(annotation: str, makers: str, tmp_path: Path) -> None:
    source = "import typing\n" + BLOCKS.replace("{annotation}", annotation) + makers
    assert sorted(known(tmp_path, source, name="Net")) == ["deep", "wide"]


def test_super_in_a_class_method(tmp_path: Path) -> None:
    source = """
    class Above(torch.autograd.Function):
        @classmethod
        def forward(cls, ctx, x, power): return cls.own(x) ** power
        @classmethod
        def own(cls, x): return x
    class Below(Above):
        @classmethod
        def forward(cls, ctx, x): return super().forward(ctx, x.abs(), power=2)
        @classmethod
        def own(cls, x):
            see(x, 'own')
            return x
    def model(x: Tensor): return Below.apply(x)
    """
    assert known(tmp_path, source, name="model") == {"own": "tensor"}


@pytest.mark.parametrize("call", ["type.__call__(cls, *args, **kwargs)", "super().__call__(*args, **kwargs)"])
def test_a_metaclass_that_makes_objects(call: str, tmp_path: Path) -> None:
    source = f"""
class Counting(type):
    made = 0
    def __call__(cls, *args, **kwargs):
        see(args, 'args')
        return {call}
class Part(metaclass=Counting):
    def __init__(self, size): self.size = size
    def __call__(self, x): return x
def model(x: Tensor):
    see(Part(3).size, 'size')
    return x
"""
    assert known(tmp_path, source, name="model") == {"args": "tuple(3)", "size": "3"}


LAZY = """
import importlib
PLACES = {"Net": "nets", "helper": "tools.more"}
def __getattr__(name):
    if name in PLACES:
        return getattr(importlib.import_module(f".{PLACES[name]}", __name__), name)
    raise AttributeError(name)
"""


def test_a_package_that_imports_when_asked(tmp_path: Path) -> None:
    files = {
        "lazy/__init__.py": LAZY,
        "lazy/nets.py": f"{HEAD}class Net(nn.Module):\n    def forward(self, x):\n        return see(x, 'net') or x\n",
        "lazy/tools/__init__.py": "",
        "lazy/tools/more.py": f"{HEAD}def helper(x): return see(x, 'helper') or x\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    source = forward("self.net(x)\nlazy.helper(x)", "self.net = Net()", before="import lazy\nfrom lazy import Net")
    assert sorted(known(tmp_path, source, name="Model")) == ["helper", "net"]


REGISTRY = """
class Registry:
    def __init__(self): self.table = {}
    def register(self, name=None):
        def keep(cls):
            self.table[name or cls.__name__] = cls
            return cls
        return keep
    def build(self, cfg):
        args = cfg.copy()
        return self.find(args.pop('kind'))(**args)
    def find(self, name):
        import_all(self)
        return unknown_table[self][name]
PARTS = Registry()
def build_part(cfg): return PARTS.build(cfg)
"""


@pytest.mark.parametrize(("text", "decorator"), [("Drop", "@PARTS.register()"), ("drop", "@PARTS.register('drop')")])
def test_a_class_that_a_registry_knows_by_a_text(text: str, decorator: str, tmp_path: Path) -> None:
    source = f"""{REGISTRY}
{decorator}
class Drop(nn.Module):
    def __init__(self, rate=0.5):
        super().__init__()
        self.rate = rate
    def forward(self, x): return see(self.rate, 'rate') or x
class Model(nn.Module):
    def __init__(self, rate: float = 0.1):
        super().__init__()
        self.part = build_part(dict(kind='{text}', rate=rate))
    def forward(self, x): return self.part(x)
"""
    assert known(tmp_path, source, name="Model") == {"rate": "0.1 | float@config"}


VIEWS = {
    "of a dict that is in sight": "self.kept = {'a': 1, 'b': 2}.values()",
    "of a setting": "self.kept = config.items()",
}


@pytest.mark.parametrize("case", VIEWS)
def test_a_view_of_a_dict_is_one_wherever_it_is_made(case: str, tmp_path: Path) -> None:
    source = forward("see(self.kept, 'kept')\nsee({'a': 1}.values(), 'made')", VIEWS[case])
    found = known(tmp_path, source)
    assert found["kept"].startswith("view")
    assert found["made"] == "view(1)"


def test_a_number_of_numpy_is_told_from_those_of_python(tmp_path: Path) -> None:
    body = dedent("""\
        n = np.ceil(np.log(x.shape[0]))
        see(n, 'n')
        see(n.astype('int'), 'a')
        see(n.astype(int).item(), 'i')""")
    found = known(tmp_path, forward(body, before="import numpy as np"))
    assert found == {"n": "numpy.floating@shape", "a": "numpy.integer@shape", "i": "int@tensor"}


def test_a_package_that_is_missing_leaves_the_handler(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("", encoding="utf-8")
    body = """
    try:
        from no_such_package import fast
        see(fast, 'never')
    except ImportError:
        fast = torch.abs
    see(fast(x), 'a')
    """
    assert known(tmp_path, forward(body)) == {"a": "tensor"}


WHAT_IS = {
    "what a packed sequence holds": (
        "p = nn.utils.rnn.pack_padded_sequence(x, [3, 2])\nsee((p.data, p.batch_sizes, p.sorted_indices), 'a')",
        "tuple(tensor, tensor[int], None | tensor[int])",
    ),
    "an annotated packed sequence": ("see(packed.batch_sizes, 'a')", "tensor[int]"),
    "a type that scripting asks for": ("see(torch.jit.isinstance(n, bool), 'a')", "True"),
    "whether torch's older tracer runs": ("see(torch._C._get_tracing_state(), 'a')", "None"),
    "what torch asks of itself": ("see(torch._C._some_setting(), 'a')", "unknown"),
    "dicts joined": ("see({'p': 1} | {'p': 2, 'q': x}, 'a')", "{'p': 2, 'q': tensor?}"),
    "a divergence": ("see(torch.distributions.kl_divergence(x, x), 'a')", "tensor[float]"),
}


@pytest.mark.parametrize("case", WHAT_IS)
def test_what_is_known_by_name(case: str, tmp_path: Path) -> None:
    body, expected = WHAT_IS[case]
    source = forward(body, sig="self, x, packed: nn.utils.rnn.PackedSequence, n: bool = True")
    assert known(tmp_path, source)["a"] == expected


READ_AS_NUMBERS = {
    "x.permute(*order)": True,
    "x.permute((0, order[0], 2))": True,
    "x.flip([order.max()])": True,
    "x.movedim(order.max(), 0)": True,
    "x.permute(0, x.dim() - 1)": False,
    "torch.tensor_split(x, order + 1)": False,
    "torch.cat([x, x])": False,
    "x.sum(order.max())": True,
}


@pytest.mark.parametrize("call", READ_AS_NUMBERS)
def test_tensors_among_sizes(call: str, tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(f"{HEAD}def model(x: Tensor, order: Tensor):\n    return {call}\n", encoding="utf-8")
    options = ReadOptions(root=tmp_path, search_path=(tmp_path,), torch=PINNED)
    found = [f.rule for f in read([f"{path}::model"], options).findings if f.effect == "graph_break"]
    assert found == (["TCR210"] if READ_AS_NUMBERS[call] else [])


def test_packages_that_dynamo_never_goes_into(tmp_path: Path) -> None:
    (tmp_path / "tqdm").mkdir()
    (tmp_path / "tqdm" / "__init__.py").write_text("def tqdm(rows): return rows\n", encoding="utf-8")
    path = tmp_path / "model.py"
    text = dedent("""\
        from tqdm import tqdm
        def model(x: Tensor):
            for n in tqdm([1]):
                x = x + n
            return x
    """)
    path.write_text(HEAD + text, encoding="utf-8")
    options = ReadOptions(root=tmp_path, search_path=(tmp_path,), torch=PINNED)
    assert [f.rule for f in read([f"{path}::model"], options).findings] == ["TCR305"]


def test_own_code_that_only_an_installed_package_calls(tmp_path: Path) -> None:
    installed = tmp_path / "lib" / "python3.11" / "site-packages"
    (installed / "wrapping").mkdir(parents=True)
    (installed / "wrapping" / "__init__.py").write_text(
        f"{HEAD}class Wrapper(nn.Module):\n"
        "    def __init__(self, inner):\n        super().__init__()\n        self.inner = inner\n"
        "    def forward(self, x):\n        return self.inner(x)\n",
        encoding="utf-8",
    )
    own = tmp_path / "own.py"
    own.write_text(
        f"{HEAD}from wrapping import Wrapper\n"
        "class Inner(nn.Module):\n    def forward(self, x):\n        return x + x.sum().item()\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.inner = Wrapper(Inner())\n"
        "    def forward(self, x):\n        print(x.shape)\n        return self.inner(x)\n",
        encoding="utf-8",
    )
    options = ReadOptions(root=tmp_path, search_path=(tmp_path, installed), torch=PINNED)
    found = [(f.rule, f.symbol) for f in read([f"{own}::Net"], options).findings]
    assert sorted(found) == [("TCR201", "Inner.forward"), ("TCR301", "Net.forward")]
    apart = [(f.rule, f.symbol) for f in read([f"{own}::Net"], replace(options, third_party=False)).findings]
    assert apart == [("TCR301", "Net.forward")]


CHOSEN = {
    "by a text that is taken apart": ("self.m = {'A': A, 'B': B}[path.rsplit('.', 1)[1]]()", "path='model.A'", "A"),
    "by eval": ("self.m = eval(name)()", "name='A'", "A"),
    "by globals, one after the other": (
        dedent("""\
            self.ms = nn.ModuleList()
            for name in names:
                self.ms.append(globals()[name]())
            self.m = self.ms[1]"""),
        "names=('A', 'B')",
        "B",
    ),
    "as a module's member by a made-up name": (
        "for i in range(n):\n    self.add_module('m' + str(i), A())\nself.m = next(self.children())",
        "n=2",
        "A",
    ),
    "by a class made on the spot": ("self.m = type('Made', (A,), {})()", "n=2", "A"),
    "by stars out of torch": ("self.m = LSTM(8, 8)", "n=2", "LSTM"),
    "by what else an object has": ("self.m = Outer(A()).inside", "n=2", "B"),
    "by a file's name": ("self.m = importlib.import_module('model').B()", "n=2", "B"),
}
"""How an object picks a part while it is built, what its `__init__` takes, and which part it has."""


@pytest.mark.parametrize("case", CHOSEN)
def test_parts_that_are_chosen(case: str, tmp_path: Path) -> None:
    body, takes, expected = CHOSEN[case]
    before = (
        "import importlib\nfrom torch.nn import *\n"
        "class B(nn.Module):\n    def forward(self, x): return x\n"
        "class A(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.inside = B()\n"
        "    def forward(self, x): return x\n"
        "class Outer(nn.Module):\n"
        "    def __init__(self, inner):\n        super().__init__()\n        self.inner = inner\n"
        "    def __getattr__(self, name):\n"
        "        try:\n            return super().__getattr__(name)\n"
        "        except AttributeError:\n            return getattr(super().__getattr__('inner'), name)\n"
        "class Net(nn.Module):\n"
        f"    def __init__(self, {takes}):\n        super().__init__()\n"
    )
    source = before + indent(body, " " * 8) + "\n    def forward(self, x):\n        see(self.m, 'a')\n"
    found = known(tmp_path, source, name="Net")["a"]
    assert expected in found.split(" | ")


def test_a_method_bound_by_hand(tmp_path: Path) -> None:
    source = forward(
        "self.part.forward(x)",
        init="self.part = nn.Identity()\nself.run = types.MethodType(other, self)\nself.n = 3",
        before=dedent("""\
            import types
            def other(self, x):
                see(self.n, 'a')
        """),
    ).replace("self.part.forward(x)", "self.run(x)")
    assert known(tmp_path, source)["a"] == "3"


@pytest.mark.parametrize(("bases", "expected"), [("nn.Module, Called", {"a": "3"}), ("Called, nn.Module", {})])
def test_a_call_that_stands_behind_a_module(bases: str, expected: dict[str, str], tmp_path: Path) -> None:
    source = forward(
        "see(self.n, 'a')",
        init="self.n = 3",
        before="class Called:\n    def __call__(self, x): raise NotImplementedError\n",
    ).replace("(nn.Module)", f"({bases})")
    assert known(tmp_path, source) == expected


@pytest.mark.parametrize("name", ["Filter", "shorten", "_hidden"])
def test_a_star_over_a_compiled_module(name: str, tmp_path: Path) -> None:
    """`from ._core import *` over an extension brings what no other star binds; not what begins with an underscore."""
    package = tmp_path / "site-packages" / "pkg"
    package.mkdir(parents=True)
    (package / "_core.cpython-311-x86_64-linux-gnu.so").touch()
    (package / "_python.py").write_text("def shorten(x):\n    return x\n", "utf-8")
    (package / "__init__.py").write_text("from ._core import *\nfrom ._python import *\n", "utf-8")
    text = f"import pkg\n{HEAD}{forward(f'return pkg.{name}(x)')}"
    (package / "model.py").write_text(text, "utf-8")
    options = ReadOptions(root=tmp_path, search_path=(tmp_path / "site-packages",), torch=PINNED)
    found = read(["pkg.model::Model"], options).findings
    assert [f.rule for f in found] == (["TCR403"] if name == "Filter" else [])


@pytest.mark.parametrize(
    "written",
    ["from pkg import Gate\n\ndef model(): return Gate()", "from pkg import *\n\ndef model(): return Gate()",
     "import pkg as p\n\ndef model(): return p.parts.Gate()"],
)  # fmt: skip
def test_what_a_stub_imports_when_it_is_asked_for(written: str, tmp_path: Path) -> None:
    """`lazy_loader` reads the stub beside a package, in which nothing but imports may stand."""
    package = tmp_path / "site-packages" / "pkg"
    (package / "parts").mkdir(parents=True)
    for folder, stub in (
        (package, "from . import parts\nfrom .parts import Gate\n"),
        (package / "parts", "from .gate import Gate\n"),
    ):
        (folder / "__init__.py").write_text(
            "import lazy_loader as lazy\n__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)\n"
        )
        (folder / "__init__.pyi").write_text(stub)
    gate = forward("if x.sum() > 0: return -x\nreturn x").replace("class Model", "class Gate")
    (package / "parts" / "gate.py").write_text(f"{HEAD}{gate}")
    (tmp_path / "made.py").write_text(f"{written}\n")
    options = ReadOptions(root=tmp_path, search_path=(tmp_path / "site-packages",), torch=PINNED)
    assert [f.rule for f in read(["made.py::model"], options).findings] == ["TCR101"]


def test_files_beside_are_looked_at_and_the_package_stays_itself(tmp_path: Path) -> None:
    """To tell what a constructor is given the files of the folder are looked at, `__init__.py` among them, under its own
    name. A star over a submodule that binds its own name takes that from the submodule, as it does in Python."""
    package = tmp_path / "site-packages" / "pkg"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        dedent("""\
        from .rate import *
        from .part import *
        from .model import *
    """),
        "utf-8",
    )
    (package / "rate.py").write_text(
        dedent("""\
        class Rate:
            bias = True
        rate = Rate()
    """),
        "utf-8",
    )
    (package / "part.py").write_text(
        f"{HEAD}class Part(nn.Parameter):\n    def __call__(self):\n        return self * 2\n", "utf-8"
    )
    (package / "model.py").write_text(
        f"{HEAD}from . import Part, rate\n"
        "class Model(nn.Module):\n    def __init__(self, kernel):\n        super().__init__()\n"
        "        kernel.first, kernel.second, kernel.third\n"
        "        self.kernel, self.part = kernel, Part(torch.zeros(3))\n"
        "    def forward(self, x):\n        if rate.bias:\n            x = x * self.part()\n        return x\n",
        "utf-8",
    )
    options = ReadOptions(root=tmp_path, search_path=(tmp_path / "site-packages",), torch=PINNED)
    found = read(["pkg.model::Model"], options).findings
    assert [(f.line, f.rule, f.confidence) for f in found] == [(14, "TCR305", "high")]


def test_a_key_made_of_arguments_is_no_message(tmp_path: Path) -> None:
    """What an installed package pickles to look something up by is made whatever decides that it is asked at all."""
    package = tmp_path / "site-packages" / "pkg"
    package.mkdir(parents=True)
    text = (
        f"import pickle, time\n{HEAD}class Model(nn.Module):\n    def __init__(self, kept):\n"
        "        super().__init__()\n        self.kept = kept\n"
        "    def forward(self, x, **given):\n        y = x * 2\n        if self.kept:\n"
        "            key = pickle.dumps(given)\n            time.time()\n        return y + 1\n"
    )
    (package / "model.py").write_text(text, "utf-8")
    (package / "__init__.py").touch()
    options = ReadOptions(root=tmp_path, search_path=(tmp_path / "site-packages",), torch=PINNED)
    found = read(["pkg.model::Model"], options).findings
    line = text.splitlines().index("            key = pickle.dumps(given)") + 1
    assert [(f.line, f.confidence) for f in found if f.confidence != "low"] == [(line, "high")]


BY_NAME = {
    "of a module": 'parts.__dict__["gate"]()',
    "of vars": 'vars(parts)["gate"]()',
    "a module of the package": 'importlib.import_module(".parts", __package__).gate()',
}
"""How a function of another file of the package is reached by its name."""


@pytest.mark.parametrize("case", BY_NAME)
def test_what_a_module_holds_under_a_name(case: str, tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "pkg"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    body = "    def forward(self, x):\n        return x if x.sum() > 0 else x + 1\n"
    (package / "parts.py").write_text(f"{HEAD}class Gate(nn.Module):\n{body}def gate():\n    return Gate()\n", "utf-8")
    (package / "model.py").write_text(
        f"import importlib\n{HEAD}from . import parts\nclass Model(nn.Module):\n    def __init__(self):\n"
        f"        super().__init__()\n        self.part = {BY_NAME[case]}\n"
        "    def forward(self, x):\n        return self.part(x)\n",
        "utf-8",
    )
    options = ReadOptions(root=tmp_path, search_path=(tmp_path / "site-packages",), torch=PINNED)
    assert [f.rule for f in read(["pkg.model::Model"], options).findings] == ["TCR104"]


CLASS_BODIES = {
    "an item that is set": "kinds = {}\nkinds['a'] = Gate\nkind = kinds['a']",
    "a list that grows": "kinds = [nn.Identity]\nkinds.append(Gate)\nkind = kinds[-1]",
    "a list that is added to": "kinds = [nn.Identity]\nkinds += [Gate]\nkind = kinds[1]",
    "a loop": dedent("""\
        kinds = {}
        for name in ('a', 'b'):
            kinds[name] = Gate
        kind = kinds['b']"""),
    "a test": dedent("""\
        if True:
            kind = Gate
        else:
            kind = nn.Identity"""),
    "a dict that is filled from another": "kinds = {'a': nn.Identity}\nkinds.update(Named(a=Gate))\nkind = kinds['a']",
    "a member of an enum": "class Kinds(Enum):\n    gate = Gate\nkind = Kinds.gate.value",
    "a function of the class": "def picked(): return Gate\nkind = picked()",
}
"""Bodies of classes in which more than one statement makes `kind`."""


@pytest.mark.parametrize("case", CLASS_BODIES)
def test_what_a_class_holds_is_made_by_its_whole_body(case: str, tmp_path: Path) -> None:
    source = (
        "from enum import Enum\nclass Named(dict): pass\nclass Gate(nn.Module):\n    def forward(self, x): return x\n"
        f"class Model(nn.Module):\n{indent(CLASS_BODIES[case], '    ')}\n"
        "    def __init__(self):\n        super().__init__()\n        self.part = self.kind()\n"
        "    def forward(self, x):\n        see(self.part, 'a')\n        return x\n"
    )
    assert known(tmp_path, source, name="Model") == {"a": "Gate"}


PLANS = """
class Gate(nn.Module):
    def forward(self, x): return x
def make_gate(): return Gate()
class Plan:
    def __init__(self):
        self.first, self.second, self.third = make_gate, Gate, nn.ReLU
class Part:
    def __init__(self):
        self.first, self.other = nn.GELU, 3
"""
GIVEN = {
    "in the same file": ("", "", "first second", "Gate"),
    "in a file that is imported": ("from pkg.plans import Part\n", "plans", "first second", "Gate"),
    "in another file of the folder": ("", "plans", "first second third", "Gate"),
    "of which too little is read to look further": ("", "plans", "first second", "unknown"),
    "of which one thing is read": ("", "", "first", "unknown"),
    "of which no class has all": ("", "", "first second none", "unknown"),
}
"""Where the class of an object stands that is given without a type, what is read of it, and what its `first` makes."""


@pytest.mark.parametrize("case", GIVEN)
def test_an_object_that_is_given_without_a_type(case: str, tmp_path: Path) -> None:
    imports, file, read_of_it, expected = GIVEN[case]
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").touch()
    if file:
        (package / f"{file}.py").write_text(HEAD + PLANS, "utf-8")
    made = "\n".join(f"        self.{name} = plan.{name}()" for name in read_of_it.split())
    source = (
        f"{imports}{'' if file else PLANS}\nclass Net(nn.Module):\n"
        f"    def __init__(self, plan):\n        super().__init__()\n{made}\n"
        "    def forward(self, x):\n        see(self.first, 'a')\n        return x\n"
    )
    assert known(package, source, name="Net") == {"a": expected}


BUILT = {
    "a function of the file": (
        dedent("""\
        def build(size):
            part = Gate(size)
            return Net(part, 3)
    """),
        "",
        "Gate",
    ),
    "a list of modules": ("def build(n):\n    return Net(other=n, part=[Gate(1), Gate(2)])\n", "", "list(Gate, Gate)"),
    "one that hands on what it is given": (
        dedent("""\
            def inner(part):
                return Net(part, 3)
            def build():
                return inner(Gate(2))
        """),
        "",
        "plain@config",
    ),
    "a class method": ("", "    @classmethod\n    def of(cls, size): return cls(other=1, part=Gate(size))\n", "Gate"),
    "no class method": ("", "    def of(self, size): return cls(other=1, part=Gate(size))\n", "plain@config"),
    "a list of any length": ("def build(n):\n    return Net([Gate(i) for i in range(n)], 3)\n", "", "list[Gate]"),
    "a constructor of another class": (
        dedent("""\
            class Whole(nn.Module):
                def __init__(self, n):
                    super().__init__()
                    self.net = Net(Gate(n), 3)
        """),
        "",
        "Gate",
    ),
    "a method of another class": ("class Whole:\n    def made(self, n): return Net(Gate(n), 3)\n", "", "plain@config"),
    "a number": ("def build(size):\n    return Net(size + 1, 3)\n", "", "plain@config"),
}
"""What makes an object of a class, functions and methods, and what of it is known of its part."""


@pytest.mark.parametrize("case", BUILT)
def test_what_those_who_build_a_model_give_it(case: str, tmp_path: Path) -> None:
    functions, methods, expected = BUILT[case]
    source = (
        "\nclass Gate(nn.Module):\n    def __init__(self, size):\n        super().__init__()\n"
        "    def forward(self, x): return x\n"
        "class Net(nn.Module):\n    def __init__(self, part, other):\n        super().__init__()\n"
        f"        self.part, self.other = part, other\n{methods}"
        f"    def forward(self, x):\n        see(self.part, 'a')\n        return x\n{functions}"
    )
    assert known(tmp_path, source, name="Net") == {"a": expected}


@pytest.mark.parametrize(
    ("named", "expected"), [("from pkg.model import Net", "Linear"), ("Net = dict", "plain@config")]
)
def test_what_a_function_in_a_file_beside_gives_a_model(named: str, expected: str, tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").touch()
    build = f"{HEAD}{named}\ndef build(n):\n    part = nn.Linear(n, n)\n    return Net(part=part)\n"
    (package / "build.py").write_text(build, "utf-8")
    source = (
        "\nclass Net(nn.Module):\n    def __init__(self, part):\n        super().__init__()\n"
        "        self.part = part\n    def forward(self, x):\n        see(self.part, 'a')\n        return x\n"
    )
    assert known(package, source, name="Net") == {"a": expected}


ASKED = {
    "it raises where there is none": ("if part.width is None:\n    raise ValueError", "float@config"),
    "it asserts that there is one": ("assert part.width is not None", "float@config"),
    "it asks for something else": ("if part.scale > 3:\n    raise ValueError", "None | float@config"),
    "it goes on without": ("if part.width is None:\n    self.plain = True", "None | float@config"),
}
"""What a constructor asks of the part it is given, and what the forward knows of that part."""


@pytest.mark.parametrize("case", ASKED)
def test_what_a_constructor_asks_of_a_part(case: str, tmp_path: Path) -> None:
    asked, expected = ASKED[case]
    source = (
        "\nclass Part(nn.Module):\n    def __init__(self, width: float | None = None):\n"
        "        super().__init__()\n        self.width, self.scale = width, 2\n"
        "class Base(nn.Module):\n    def __init__(self, part: Part):\n"
        "        super().__init__()\n        self.part = part\n"
        "    def forward(self, x):\n        see(self.part.width, 'a')\n        return x\n"
        "class Net(Base):\n    def __init__(self, part: Part):\n"
        f"        super().__init__(part)\n{indent(asked, ' ' * 8)}\n"
    )
    assert known(tmp_path, source, name="Net") == {"a": expected}
    assert known(tmp_path, source, name="Base") == {"a": "None | float@config"}


CHECKED = {
    "it asserts its class": ("assert isinstance(part, Part)", "Part"),
    "it raises for any other": ("if not isinstance(part, Part):\n    raise TypeError", "Part"),
    "it asks and goes on": ("if isinstance(part, Part):\n    self.own = True", "plain@config"),
}
"""What a constructor asks of an argument without a type, and what the forward knows of it."""


@pytest.mark.parametrize("case", CHECKED)
def test_the_class_that_a_constructor_asks_for(case: str, tmp_path: Path) -> None:
    asked, expected = CHECKED[case]
    source = (
        "\nclass Part:\n    def run(self, x): return x\n"
        "class Net(nn.Module):\n    def __init__(self, part):\n        super().__init__()\n"
        f"{indent(asked, ' ' * 8)}\n        self.part = part\n"
        "    def forward(self, x):\n        see(self.part, 'a')\n        return x\n"
    )
    assert known(tmp_path, source, name="Net") == {"a": expected}


NAMED = {
    "one of several": ("if kind not in ('LSTM', 'GRU'):\n    raise ValueError", "GRU | LSTM"),
    "one": (
        dedent("""\
        if kind == 'GRU':
            self.flag = 1
        else:
            raise ValueError"""),
        "GRU",
    ),
    "it is something else": (
        dedent("""\
        if kind != 'GRU':
            kind = 'LSTM'
        else:
            raise ValueError"""),
        "LSTM",
    ),
    "nothing is said": ("kind = kind.upper()", "Module"),
}
"""What a constructor asks of a text, and the class of torch.nn that it names."""


@pytest.mark.parametrize("case", NAMED)
def test_a_class_named_by_a_text_that_was_asked(case: str, tmp_path: Path) -> None:
    asked, expected = NAMED[case]
    source = (
        "\nclass Net(nn.Module):\n    def __init__(self, kind, size):\n        super().__init__()\n"
        f"{indent(asked, ' ' * 8)}\n        self.part = getattr(nn, kind)(size, size)\n"
        "    def forward(self, x):\n        see(self.part, 'a')\n        return x\n"
    )
    assert known(tmp_path, source, name="Net") == {"a": expected}


def test_what_was_only_looked_at_is_interpreted_once_it_is_called(tmp_path: Path) -> None:
    """An object without attributes: `model` is first looked at for what it returns, then for what it does."""
    source = (
        f"{HEAD}class Empty:\n    def step(self):\n        return torch.ones(2).sum().item()\n"
        "def model(x, empty: Empty):\n    return x * empty.step()\n"
    )
    path = tmp_path / "model.py"
    path.write_text(source, "utf-8")
    result = read([f"{path}::model"], ReadOptions(root=tmp_path, torch=PINNED))
    assert [found.rule for found in result.findings if found.effect == "graph_break"] == ["TCR201"]


MADE = {
    "a class that is passed": ("kind(input_size=8, hidden_size=8, num_layers=2)", "medium"),
    "a class that is named": ("getattr(nn, kind)(8, hidden_size=8, bidirectional=True)", "medium"),
    "one that is named, of few settings": ("getattr(nn, kind)(8, 8, bidirectional=True)", "medium"),
    "one of many layers that is named": ("getattr(nn, kind)(8, 8, num_layers=2, batch_first=True)", "medium"),
    "a class that is named, of two kinds": ("getattr(nn, kind)(8, 8, batch_first=True)", None),
    "one that is passed, of few settings": ("kind(8, 8, bidirectional=True)", None),
    "another module": ("kind(input_size=8, hidden_size=8)", None),
    "a function of the caller": ("kind(8)", None),
}
"""What a constructor makes of a class that somebody else chooses, and how sure it is a recurrent module."""


@pytest.mark.parametrize("case", MADE)
def test_a_recurrent_module_is_told_by_what_it_is_made_with(case: str, tmp_path: Path) -> None:
    made, expected = MADE[case]
    source = (
        f"{HEAD}class Net(nn.Module):\n    def __init__(self, kind):\n        super().__init__()\n"
        f"        self.part = {made}\n    def forward(self, x):\n        return self.part(x)[0]\n"
    )
    path = tmp_path / "model.py"
    path.write_text(source, "utf-8")
    result = read([f"{path}::Net"], ReadOptions(root=tmp_path, torch=PINNED))
    told = [found.confidence for found in result.findings if found.rule == "TCR406"]
    assert told == ([expected] if expected else [])


def test_a_recurrent_module_is_told_where_it_is_found(tmp_path: Path) -> None:
    """Measured with the worker: a class's own `__getattr__` finds the parts of a module, and its reader runs eagerly."""
    source = (
        f"{HEAD}class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.part = nn.GRU(8, 8)\n    def __getattr__(self, name):\n"
        "        return super().__getattr__(name)\n"
        "    def forward(self, x):\n        return self.part.forward(x)[0]\n"
    )
    path = tmp_path / "model.py"
    path.write_text(source, "utf-8")
    result = read([f"{path}::Net"], ReadOptions(root=tmp_path, torch=PINNED))
    line = source.splitlines().index("        return super().__getattr__(name)") + 1
    told = [found.line for found in result.findings if found.rule == "TCR406" and found.confidence == "high"]
    assert told == [line]


LATER = {
    "a module": ("self.part = nn.Linear(size, 3)", "Linear | None"),
    "by way of a name": ("made = nn.Linear(size, 3)\nself.part = made", "Linear | None"),
    "a tensor": ("self.part = torch.zeros(size)", "None | tensor[float32]"),
    "a number": ("self.part = size", "None | unknown"),
    "what is passed": ("self.part = other", "None | unknown"),
}
"""What a method that nothing calls sets, and what the forward knows of it."""


@pytest.mark.parametrize("case", LATER)
def test_what_is_made_later(case: str, tmp_path: Path) -> None:
    body, expected = LATER[case]
    source = (
        "\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.part = None\n"
        f"    def build(self, size: int, other=None):\n{indent(body, ' ' * 8)}\n"
        "    def forward(self, x):\n        see(self.part, 'a')\n        return x\n"
    )
    assert known(tmp_path, source, name="Net") == {"a": expected}


@pytest.mark.parametrize("annotation", ["", ": nn.Module", ": nn.Module | None", ": 'nn.Module | None'"])
def test_what_functions_give_the_parts_of_parts(annotation: str, tmp_path: Path) -> None:
    """The function that makes the outer object makes the inner one, too: it is run once."""
    source = (
        f"\nclass Inner(nn.Module):\n    def __init__(self, layers{annotation}):\n        super().__init__()\n"
        "        self.layers = layers\n"
        "    def forward(self, x):\n        see(self.layers, 'a')\n        return x\n"
        f"class Net(nn.Module):\n    def __init__(self, inner{annotation}):\n        super().__init__()\n"
        "        self.inner = inner\n    def forward(self, x):\n        return self.inner(x)\n"
        "def build(n):\n    return Net(Inner(nn.ModuleList([nn.Linear(n, n)])))\n"
    )
    assert known(tmp_path, source, name="Net") == {"a": "ModuleList"}


def test_what_is_set_under_unknown_names_is_no_method_of_a_container(tmp_path: Path) -> None:
    source = (
        "\nclass Parts(nn.ModuleDict):\n    def put(self, name, part):\n        self.add_module(name, part)\n"
        "class Net(nn.Module):\n    def __init__(self, names):\n        super().__init__()\n"
        "        self.parts, self.name = Parts(), names[0]\n        self.parts.put(self.name, nn.Linear(2, 2))\n"
        "    def forward(self, x):\n        for part in self.parts.values():\n            see(part, 'a')\n"
        "            x = part(x)\n        return x\n"
    )
    assert known(tmp_path, source, name="Net") == {"a": "Linear"}


def test_each_way_breaks(tmp_path: Path) -> None:
    """Of an installed package: a part that is made for this kind or that is there for any, and if each way through the
    tests of a forward breaks, one of the breaks is met. Where a way goes free none is likely."""
    package = tmp_path / "site-packages" / "pkg"
    package.mkdir(parents=True)
    text = (
        f"{HEAD}class Model(nn.Module):\n    def __init__(self, kind, config):\n        super().__init__()\n"
        "        self.kind, self.config = kind, config\n"
        "        if kind == 'drug':\n            self.rnn = nn.LSTM(4, 4)\n"
        "        if kind == 'protein':\n"
        "            if config['rnn'] == 'LSTM':\n                self.rnn = nn.LSTM(8, 8)\n"
        "            elif config['rnn'] == 'GRU':\n                self.rnn = nn.GRU(8, 8)\n"
        "            else:\n                raise ValueError(config)\n"
        "    def forward(self, x):\n"
        "        if self.kind == 'drug':\n"
        "            if self.config['rnn'] == 'LSTM':\n                y, (h, c) = self.rnn(x)\n"
        "            else:\n                y, h = self.rnn(x)\n"
        "        elif self.kind == 'protein':\n            y = x * x.sum().item()\n"
        "        else:\n            y, h = self.rnn(x)\n"
        "        if self.config['scale'] == 'most':\n            y = y * y.max().item()\n"
        "        elif self.config['scale'] == 'least':\n            y = y * y.min().item()\n"
        "        elif self.config['scale'] == 'mean':\n            y = y * y.mean().item()\n"
        "        return y\n"
    )
    (package / "model.py").write_text(text, "utf-8")
    (package / "__init__.py").touch()
    options = ReadOptions(root=tmp_path, search_path=(tmp_path / "site-packages",), torch=PINNED, low=True)
    found = read(["pkg.model::Model"], options).findings
    lines = text.splitlines()
    assert [(lines[f.line - 1].strip(), f.confidence) for f in found] == [
        ("y, (h, c) = self.rnn(x)", "medium"),
        ("y, h = self.rnn(x)", "medium"),
        ("y = x * x.sum().item()", "medium"),
        ("y, h = self.rnn(x)", "medium"),
        ("y = y * y.max().item()", "low"),
        ("y = y * y.min().item()", "low"),
        ("y = y * y.mean().item()", "low"),
    ]
    assert {f.line for f in read(["pkg.model::Model"], replace(options, low=False)).findings} == {
        f.line for f in found if f.confidence == "medium"
    }


FIRST, SECOND = "x * x.sum().item()", "x * x.max().item()"


@pytest.mark.parametrize(
    ("ways", "expected"),
    [
        (
            f"if self.kind == 'a':\n    return {FIRST}\nelif self.kind == 'b':\n    return {SECOND}\nelse:\n    raise X",
            2,
        ),
        (f"if self.kind == 'a':\n    return {FIRST}\nelif self.kind == 'b':\n    return {SECOND}\nraise X", 2),
        (f"if self.kind == 'a':\n    return {FIRST}\nif self.kind == 'b':\n    return {SECOND}\nraise X", 2),
        (f"if self.kind == 'a':\n    return {FIRST}\nraise X", 1),
        (f"if self.kind == 'a':\n    return {FIRST}\nelif self.kind == 'b':\n    return {SECOND}\nreturn x", 0),
        (f"if self.kind == 'a':\n    x = {FIRST}\nelif self.kind == 'b':\n    return {SECOND}\nraise X", 0),
    ],
)
def test_a_way_that_raises_is_none(ways: str, expected: int, tmp_path: Path) -> None:
    text = (
        f"{HEAD}class Model(nn.Module):\n    def __init__(self, kind):\n        super().__init__()\n"
        "        self.kind = kind\n    def forward(self, x):\n" + indent(ways, "        ") + "\n"
    )
    (tmp_path / "model.py").write_text(text, "utf-8")
    found = read(["model.py"], ReadOptions(root=tmp_path, torch=PINNED)).findings
    assert [f.rule for f in found] == ["TCR201"] * expected


def test_what_a_constructor_chooses_from_is_as_likely_each(tmp_path: Path) -> None:
    text = (
        f"{HEAD}class Model(nn.Module):\n    def __init__(self, kind):\n        super().__init__()\n"
        "        match kind:\n            case 'a':\n                self.way = self.first\n"
        "            case 'b':\n                self.way = self.second\n"
        "            case _:\n                raise ValueError(kind)\n"
        f"    def first(self, x):\n        return {FIRST}\n    def second(self, x):\n        return {SECOND}\n"
        "    def forward(self, x):\n        return self.way(x)\n"
    )
    (tmp_path / "model.py").write_text(text, "utf-8")
    found = read(["model.py"], ReadOptions(root=tmp_path, torch=PINNED)).findings
    assert [f.confidence for f in found] == ["medium", "medium"]


PARTS = dedent("""\
    class Quiet(nn.Module):
        def forward(self, x):
            return x
""") + (f"class Loud(nn.Module):\n    def forward(self, x):\n        return {FIRST}\n")
FILLED_BY = {
    "counted names": (
        "names=('Quiet', 'Loud')",
        dedent("""\
            parts = []
            for place, name in enumerate(names):
                parts.append(globals()[name]())
            self.body = nn.Sequential(*parts)"""),
    ),
    "names beside others": (
        "names=('Quiet', 'Loud')",
        "self.body = nn.Sequential(*[globals()[name]() for name, place in zip(names, (0, 1))])",
    ),
    "a table of tuples": (
        "edges=[('a', 'to', 'b'), ('b', 'by', 'a')]",
        dedent("""\
            kinds = dict(to='Quiet', by='Loud')
            parts = {edge: globals()[kinds[edge[1]]]() for edge in edges}
            self.parts = nn.ModuleDict({'_'.join(edge): part for edge, part in parts.items()})
            self.body = nn.Sequential(*self.parts.values())"""),
    ),
    "a table that defaults list": (
        "names=('Quiet', 'Loud')",
        "self.parts = nn.ModuleDict({name: globals()[name]() for name in names})\nself.body = self.parts['Loud']",
    ),
    "one by one": (
        "",
        "self.body = functools.reduce(lambda first, second: nn.Sequential(first, second), [Quiet(), Loud()])",
    ),
    "a child that is replaced": (
        "",
        dedent("""\
            self.body = nn.Sequential(nn.ReLU(), nn.Linear(4, 4))
            for name, part in self.body.named_children():
                if isinstance(part, nn.ReLU):
                    setattr(self.body, name, Loud())"""),
    ),
}


@pytest.mark.parametrize("name", FILLED_BY)
def test_parts_that_a_constructor_looks_up_by_name_are_known(name: str, tmp_path: Path) -> None:
    takes, fills = FILLED_BY[name]
    text = (
        f"import functools\n{HEAD}{PARTS}class Model(nn.Module):\n    def __init__(self, {takes}):\n"
        f"        super().__init__()\n{indent(fills, '        ')}\n"
        "    def forward(self, x):\n        return self.body(x)\n"
    )
    (tmp_path / "model.py").write_text(text, "utf-8")
    found = read(["model.py::Model"], ReadOptions(root=tmp_path, torch=PINNED)).findings
    assert [(f.rule, f.confidence) for f in found] == [("TCR201", "high")]
