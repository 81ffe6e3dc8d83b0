"""What the engine knows of a value at a marked place, over tables of small programs."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from probing import forward, known

VALUES = {
    "parameter": ("see(x, 'a')", "tensor?"),
    "comparison": ("see(x > 0, 'a')", "tensor[bool]?"),
    "operation": ("see(torch.flip(x, (0,)), 'a')", "tensor"),
    "argmax": ("see(x.argmax(-1), 'a')", "tensor[int]"),
    "item": ("see(x.item(), 'a')", "plain@tensor"),
    "item of int": ("see(x.argmax().item(), 'a')", "int@tensor"),
    "int of tensor": ("see(int(x.sum()), 'a')", "int@tensor"),
    "bool of tensor": ("see(bool(x.any()), 'a')", "bool@tensor"),
    "float of item": ("see(float(x.item()) + 1, 'a')", "float@tensor"),
    "tolist": ("see(x.tolist()[0], 'a')", "plain@tensor"),
    "allclose": ("see(torch.allclose(x, x), 'a')", "bool@tensor"),
    "shape": ("see(x.shape[0], 'a')", "int@shape"),
    "size": ("see(x.size(0), 'a')", "int@shape"),
    "sizes unpacked": ("b, n = x.shape\nsee(b * n, 'a')", "int@shape"),
    "len": ("see(len(x), 'a')", "int@shape"),
    "compared shape": ("see(x.shape[0] > 1, 'a')", "bool@shape"),
    "chained comparison of shapes": ("see(0 < x.shape[0] < 9, 'a')", "bool@shape"),
    "dim": ("see(x.dim(), 'a')", "int@config"),
    "dtype": ("see(x.dtype == torch.float32, 'a')", "bool@config"),
    "device": ("see(x.device, 'a')", "device@config"),
    "is None of tensor": ("see(x.abs() is None, 'a')", "False"),
    "random": ("import random\nsee(random.random() < 0.5, 'a')", "bool@random"),
    "nonzero tuple": ("see(x.nonzero(as_tuple=True)[0], 'a')", "tensor[int]"),
    "where tuple": ("see(torch.where(x > 0)[0], 'a')", "tensor[int]"),
    "max over dim": ("see(x.max(dim=-1), 'a')", "tuple(tensor, tensor[int])"),
    "max": ("see(x.max(), 'a')", "tensor"),
    "named field of max": ("see(x.max(dim=-1).indices, 'a')", "tensor[int]"),
    "topk unpacked": ("v, i = torch.topk(x, 3)\nsee(i, 'a')", "tensor[int]"),
    "chunks": ("q, k, v = x.chunk(3, dim=-1)\nsee(k, 'a')", "tensor"),
    "new tensor": ("see(torch.zeros(3, dtype=torch.long), 'a')", "tensor[int]"),
    "arange": ("see(torch.arange(3), 'a')", "tensor[int]"),
    "cat": ("see(torch.cat([x.argmax(-1), x.argmin(-1)]), 'a')", "tensor[int]"),
    "index": ("see(x[:, 0], 'a')", "tensor?"),
    "mask": ("see((x > 0) & (x < 1), 'a')", "tensor[bool]?"),
    "masks that are multiplied": ("see((x > 0) * (x < 1), 'a')", "tensor[bool]?"),
    "a mask times a number": ("see((x > 0) * 2, 'a')", "tensor?"),
    "an old class of tensors": ("see(x.type(torch.BoolTensor), 'a')", "tensor[bool]"),
    "an old class by its name": ("see(x.type('torch.cuda.LongTensor'), 'a')", "tensor[int]"),
    "folded": ("see(2 * 3 + 1, 'a')", "7"),
    "division by zero": ("see(1 / 0, 'a')", "unknown"),
    "slice by steps of zero": ("see((x, x)[::0], 'a')", "tuple[tensor?]"),
    "unknown is no tensor": ("from elsewhere import thing\nsee(thing(), 'a')", "unknown"),
    "unresolved call given a tensor": ("from elsewhere import thing\nsee(thing(x), 'a')", "tainted"),
    "f-string": ("see(f'{n}', 'a')", "str@config", "self, x, n: int"),
    "int parameter": ("see(n > 3, 'a')", "bool@config", "self, x, n: int"),
    "default decides the kind": ("see(n, 'a')", "4 | int@call", "self, x, n=4"),
    "optional tensor": ("see(m, 'a')", "None | tensor", "self, x, m: Tensor | None = None"),
    "optional tensor in words": ("see(m, 'a')", "None | tensor", "self, x, m: 'torch.Tensor | None' = None"),
    "list of tensors": ("see(xs[0], 'a')", "tensor", "self, xs: list[Tensor]"),
    "tuple of tensors": ("a, b = p\nsee(b, 'a')", "tensor", "self, p: tuple[Tensor, Tensor]"),
    "dict of tensors": ("see(d['k'], 'a')", "tensor", "self, d: dict[str, Tensor]"),
    "star arguments": ("see(args[1], 'a')", "tensor?", "self, x, *args"),
    "keyword only": ("see(m, 'a')", "tensor?", "self, x, *, m"),
    "numbers keep their type": ("see(torch.tensor(0.0), 'a'); see(torch.tensor(0), 'b')", "tensor[float32]"),
}


@pytest.mark.parametrize("case", VALUES)
def test_values(case: str, tmp_path: Path) -> None:
    body, expected, *rest = VALUES[case]
    assert known(tmp_path, forward(body, sig=rest[0] if rest else "self, x"))["a"] == expected


# Which places are reached: a label that is absent is code the engine knows not to run.
NARROWING: dict[str, tuple[str, dict[str, str]]] = {
    "not training": (
        dedent("""\
        if self.training:
            see(x, 'a')
        else:
            see(x, 'b')"""),
        {"b": "tensor?"},
    ),
    "is None": (
        dedent("""\
        if m is None:
            see(m, 'a')
        else:
            see(m, 'b')"""),
        {"a": "None", "b": "tensor"},
    ),
    "is not None": ("if m is not None:\n    see(m, 'a')\nsee(m, 'b')", {"a": "tensor", "b": "None | tensor"}),
    "early return": ("if m is None:\n    return x\nsee(m, 'a')", {"a": "tensor"}),
    "early raise": ("if m is None:\n    raise ValueError\nsee(m, 'a')", {"a": "tensor"}),
    "assert": ("assert m is not None\nsee(m, 'a')", {"a": "tensor"}),
    "filled in": ("if m is None:\n    m = torch.ones(3)\nsee(m, 'a')", {"a": "tensor"}),
    "and": ("if m is not None and see(m, 'a'):\n    see(m, 'b')", {"a": "tensor", "b": "tensor"}),
    "or": (
        dedent("""\
        if m is None or see(m, 'a'):
            pass
        else:
            see(m, 'b')"""),
        {"a": "tensor", "b": "tensor"},
    ),
    "not": ("if not (m is None):\n    see(m, 'a')", {"a": "tensor"}),
    "not and": (
        dedent("""\
            if not (m is not None and n > 1):
                see(m, 'a')
            else:
                see(m, 'b')"""),
        {"a": "None | tensor", "b": "tensor"},
    ),
    "conditional expression": ("see(1 if m is None else m, 'a')", {"a": "1 | tensor"}),
    "is_tensor": ("if torch.is_tensor(u):\n    see(u, 'a')", {"a": "tensor"}),
    "isinstance": ("if isinstance(u, torch.Tensor):\n    see(u, 'a')", {"a": "tensor"}),
    "isinstance of several": ("if isinstance(u, (int, float)):\n    see(u, 'a')", {"a": "plain@config"}),
    "isinstance of classes in a name": (
        dedent("""\
            kinds = (dict, torch.Tensor)
            if isinstance(m, kinds):
                see(m, 'a')
            if isinstance(m, (str, *kinds)):
                see(m, 'b')
            odd = (str, dict)
            if isinstance(torch.ones(2), odd):
                see(m, 'c')"""),
        {"a": "tensor", "b": "tensor"},
    ),
    "isinstance decides": (
        dedent("""\
            y = [x]
            if isinstance(y, list):
                see(y, 'a')
            else:
                see(y, 'b')"""),
        {"a": "list(tensor?)"},
    ),
    "isinstance, else": (
        dedent("""\
            y = x if n > 1 else [x]
            if isinstance(y, list):
                see(y, 'a')
            else:
                see(y, 'b')"""),
        {"a": "list(tensor?)", "b": "tensor?"},
    ),
    "isinstance keeps constants": (
        dedent("""\
            y = 3 if n > 1 else x
            if isinstance(y, int):
                see(y, 'a')
            else:
                see(y, 'b')"""),
        {"a": "3", "b": "tensor?"},
    ),
    "attribute": ("if self.head is not None:\n    see(self.head(x), 'a')", {"a": "tensor[float]"}),
    "walrus": ("if (y := m) is not None:\n    see(y, 'a')", {"a": "tensor"}),
    "walrus after a narrowing operand": (
        "if m is not None and (y := m.sum()) is not None:\n    see(y, 'a')",
        {"a": "tensor"},
    ),
    "walrus in a call": ("see((y := x.abs()), 'a')\nsee(y, 'b')", {"a": "tensor", "b": "tensor"}),
    "constant folding": (
        dedent("""\
        if 1 > 2:
            see(x, 'a')
        else:
            see(x, 'b')"""),
        {"b": "tensor?"},
    ),
    "compiling": (
        dedent("""\
        if torch.compiler.is_compiling():
            see(x, 'a')
        else:
            see(x, 'b')"""),
        {"a": "tensor?"},
    ),
    "in a literal": (
        dedent("""\
        if 'a' in ('a', 'b'):
            see(x, 'a')
        else:
            see(x, 'b')"""),
        {"a": "tensor?"},
    ),
    "after return": ("return x\nsee(x, 'a')", {}),
    "after if that returns on both sides": (
        dedent("""\
        if n > 1:
            return x
        else:
            return m
        see(x, 'a')"""),
        {},
    ),
    "undecided": ("y = x.argmax() if n > 1 else x.shape[0]\nsee(y, 'a')", {"a": "int@shape | tensor[int]"}),
}


@pytest.mark.parametrize("case", NARROWING)
def test_narrowing(case: str, tmp_path: Path) -> None:
    body, expected = NARROWING[case]
    source = forward(
        body,
        init="self.head = nn.Linear(3, 3) if config else None",
        sig="self, x, m: Tensor | None = None, n: int = 2, u=None",
    )
    assert known(tmp_path, source) == expected


@pytest.mark.parametrize(("mode", "expected"), [("infer", {"b"}), ("train", {"a"}), (None, {"a", "b"})])
def test_training_is_what_the_mode_says(mode: str, expected: set[str], tmp_path: Path) -> None:
    source = forward(
        dedent("""\
        if self.training:
            see(x, 'a')
        else:
            see(x, 'b')""")
    )
    assert set(known(tmp_path, source, mode=mode)) == expected  # type: ignore[arg-type]


STATEMENTS: dict[str, tuple[str, dict[str, str]]] = {
    "for over range": ("for i in range(n):\n    see(i, 'a')", {"a": "int@config"}),
    "for over range of a shape": ("for i in range(x.shape[0]):\n    see(i, 'a')", {"a": "int@shape"}),
    "for over a tensor": ("for row in x:\n    see(row, 'a')", {"a": "tensor?"}),
    "for over a literal": ("for i in (1, 2):\n    see(i, 'a')", {"a": "1 / 2"}),
    "for over nothing": (
        dedent("""\
        for i in ():
            see(i, 'a')
        else:
            see(x, 'b')"""),
        {"b": "tensor?"},
    ),
    "enumerate": ("for i, y in enumerate([x, x]):\n    see(i, 'a')", {"a": "0 / 1"}),
    "enumerate from one": ("for i, y in enumerate([x, x], 1):\n    see(i, 'a')", {"a": "1 / 2"}),
    "enumerate from one by name": ("for i, y in enumerate([x, x], start=1):\n    see(i, 'a')", {"a": "1 / 2"}),
    "zip": ("for a, b in zip([x], [3]):\n    see(b, 'a')", {"a": "3"}),
    "loop carried": (
        dedent("""\
        y = 0
        for i in range(n):
            y = y + x
        see(y, 'a')"""),
        {"a": "0 | tensor?"},
    ),
    "break": (
        dedent("""\
        y = 0
        for i in range(n):
            y = x
            break
        see(y, 'a')"""),
        {"a": "0 | tensor?"},
    ),
    "continue": (
        dedent("""\
            y = 0
            for i in range(n):
                if i:
                    continue
                y = x
            see(y, 'a')"""),
        {"a": "0 | tensor?"},
    ),
    "while": (
        dedent("""\
        y = 0
        while n > 0:
            y = x
            n -= 1
        see(y, 'a')"""),
        {"a": "0 | tensor?"},
    ),
    "while false": ("while False:\n    see(x, 'a')", {}),
    "try and except": (
        dedent("""\
            try:
                y = x
            except ValueError as e:
                see(e, 'a')
                raise
            see(y, 'b')"""),
        {"a": "unknown", "b": "tensor?"},
    ),
    "finally": (
        dedent("""\
        try:
            return x
        finally:
            see(x, 'a')"""),
        {"a": "tensor?"},
    ),
    "try else": (
        dedent("""\
        try:
            y = 1
        except KeyError:
            pass
        else:
            see(y, 'a')"""),
        {"a": "1"},
    ),
    "with": ("with torch.no_grad():\n    y = x.abs()\nsee(y, 'a')", {"a": "tensor"}),
    "match": (
        dedent("""\
            match n:
                case 0:
                    y = x.abs()
                case _:
                    y = x.argmax()
            see(y, 'a')"""),
        {"a": "tensor"},
    ),
    "match capture": ("match x:\n    case [first, *rest]:\n        see(first, 'a')", {"a": "unknown"}),
    "match in parts": (
        dedent("""\
            match (1, [x, 2, 3]):
                case (0, _):
                    see(x, 'a')
                case (n, [y, *rest]):
                    see(n, 'b')
                    see(y, 'c')
                    see(rest, 'd')
                case _:
                    see(x, 'e')"""),
        {"b": "1", "c": "tensor?", "d": "list(2, 3)"},
    ),
    "match keys": (
        dedent("""\
            match {'kind': 'soft', 'n': 3}:
                case {'kind': 'hard'} | {'m': _}:
                    see(x, 'a')
                case {'kind': str(kind), 'n': 3 as n}:
                    see(kind, 'b')
                    see(n, 'c')
                case _:
                    see(x, 'd')"""),
        {"b": "'soft'", "c": "3"},
    ),
    "match that ends": (
        dedent("""\
        match 1:
            case 1:
                return x
        see(x, 'a')"""),
        {},
    ),
    "match without a case": (
        dedent("""\
        match 1:
            case 2:
                return x
        see(x, 'a')"""),
        {"a": "tensor?"},
    ),
    "augmented": ("y = x.shape[0]\ny += 1\nsee(y, 'a')", {"a": "int@shape"}),
    "augmented item": ("y = [1, x]\ny[0] += x\nsee(y[0], 'a')", {"a": "tensor?"}),
    "unpacking": ("a, (b, *c) = 1, (x, 2, 3)\nsee(b, 'a')\nsee(c, 'b')", {"a": "tensor?", "b": "list(2, 3)"}),
    "starred display": ("y = [*[x, 1], 2]\nsee(y[1], 'a')", {"a": "1"}),
    "swap": ("a, b = 1, x\na, b = b, a\nsee(a, 'a')", {"a": "tensor?"}),
    "chained assignment": ("a = b = x\nsee(b, 'a')", {"a": "tensor?"}),
    "append": ("y = []\ny.append(x)\nsee(y[0], 'a')", {"a": "tensor?"}),
    "append in a loop": (
        dedent("""\
            y = []
            for i in range(n):
                y.append(x.argmax())
            see(torch.stack(y), 'a')"""),
        {"a": "tensor[int]"},
    ),
    "dict item": ("d = {}\nd['k'] = x\nsee(d['k'], 'a')", {"a": "tensor?"}),
    "dict display": ("d = {'k': x, **{'j': 1}}\nsee(d['j'], 'a')", {"a": "1"}),
    "dict get": ("d = {'k': x}\nsee(d.get('k'), 'a')\nsee(d.get('z', 3), 'b')", {"a": "tensor?", "b": "3"}),
    "dict items": ("for k, v in {'k': x}.items():\n    see(k, 'a')\n    see(v, 'b')", {"a": "'k'", "b": "tensor?"}),
    "del": ("d = {'k': x, 'j': 1}\ndel d['j']\nsee(d['k'], 'a')", {"a": "tensor?"}),
    "slice of a list": ("see([1, x, 2][1:][0], 'a')", {"a": "tensor?"}),
    "list comprehension": ("see([y.argmax() for y in x][0], 'a')", {"a": "tensor[int]"}),
    "comprehension has its own scope": ("y = 1\nz = [y for y in x]\nsee(y, 'a')", {"a": "1"}),
    "comprehension condition": ("see([y for y in (1, None) if y is not None], 'a')", {"a": "list(1)"}),
    "dict comprehension": ("see({k: x for k in range(n)}[0], 'a')", {"a": "tensor?"}),
    "generator expression": ("see(sum(y.argmax() for y in x), 'a')", {"a": "tensor[int]"}),
    "global": ("global G\nG = x\nsee(x, 'a')", {"a": "tensor?"}),
    "assert with message": ("assert n, see(x, 'b')\nsee(x, 'a')", {"a": "tensor?"}),
    "import in a function": ("import torch as t\nsee(t.sigmoid(x), 'a')", {"a": "tensor[floating]"}),
    "local class": (
        dedent("""\
            class A:
                def f(self, y):
                    return y.argmax()
            see(A().f(x), 'a')"""),
        {"a": "tensor[int]"},
    ),
    "annotated assignment": ("from elsewhere import f\ny: torch.Tensor = f(n)\nsee(y, 'a')", {"a": "tensor"}),
    "conversion by to": ("see(x.to(torch.int64), 'a')", {"a": "tensor[int]?"}),
}


@pytest.mark.parametrize("case", STATEMENTS)
def test_statements(case: str, tmp_path: Path) -> None:
    body, expected = STATEMENTS[case]
    assert known(tmp_path, forward(body, sig="self, x, n: int = 2")) == expected


CALLS: dict[str, tuple[str, str, dict[str, str]]] = {
    "positional": ("def f(a, b): see(b, 'a')", "f(1, x)", {"a": "tensor?"}),
    "by name": ("def f(a, b): see(b, 'a')", "f(b=x, a=1)", {"a": "tensor?"}),
    "default": ("def f(a, b=None): see(b, 'a')", "f(x)", {"a": "None"}),
    "each call has its own situation": ("def f(a): see(a, 'a')", "f(x)\nf(3)", {"a": "3 / tensor?"}),
    "keyword only": ("def f(a, *, b=2): see(b, 'a')", "f(x, b=x)", {"a": "tensor?"}),
    "positional only": ("def f(a, /, b): see(a, 'a')", "f(x, 1)", {"a": "tensor?"}),
    "star parameter": ("def f(*a): see(a, 'a')", "f(x, 1)", {"a": "tuple(tensor?, 1)"}),
    "star argument": ("def f(a, b): see(b, 'a')", "f(*(1, x))", {"a": "tensor?"}),
    "keyword parameter": ("def f(**k): see(k['m'], 'a')", "f(m=x)", {"a": "tensor?"}),
    "keyword argument": ("def f(a, m): see(m, 'a')", "f(1, **{'m': x})", {"a": "tensor?"}),
    "passed on": ("def g(a, m=None): see(m, 'a')\ndef f(*a, **k): g(*a, **k)", "f(1, m=x)", {"a": "tensor?"}),
    "returns": ("def f(a): return a.argmax()", "see(f(x), 'a')", {"a": "tensor[int]"}),
    "returns nothing": ("def f(a): a.argmax()", "see(f(x), 'a')", {"a": "None"}),
    "returns one of two": ("def f(a, n):\n    if n: return a\n    return 1", "see(f(x, n), 'a')", {"a": "1 | tensor?"}),
    "returns what it says": (
        "from elsewhere import g\ndef f(a) -> torch.Tensor: return g()",
        "see(f(x), 'a')",
        {"a": "tensor"},
    ),
    "annotated parameter": ("from elsewhere import g\ndef f(a: torch.Tensor): see(a, 'a')", "f(g())", {"a": "tensor"}),
    "tuple of results": ("def f(a): return a, a.argmax()", "p, q = f(x)\nsee(q, 'a')", {"a": "tensor[int]"}),
    "lambda": ("f = lambda a: a.argmax()", "see(f(x), 'a')", {"a": "tensor[int]"}),
    "lambda with default": ("", "see((lambda a, b=x: b)(1), 'a')", {"a": "tensor?"}),
    "closure": ("def f(a):\n    def g(): return a\n    return g", "see(f(x)(), 'a')", {"a": "tensor?"}),
    "closure of two calls": (
        "def f(a):\n    return lambda: a",
        "g, h = f(1), f(x)\nsee(g(), 'a')\nsee(h(), 'b')",
        {"a": "1", "b": "tensor?"},
    ),
    "nonlocal": (
        dedent("""\
            def f(a):
                y = 1
                def g():
                    nonlocal y
                    y = a
                g()
                return y"""),
        "see(f(x), 'a')",
        {"a": "1 | tensor?"},
    ),
    "partial": ("def f(a, b): see(b, 'a')", "functools.partial(f, 1)(x)", {"a": "tensor?"}),
    "partial by name": ("def f(a, b=2): see(b, 'a')", "functools.partial(f, b=x)(1)", {"a": "tensor?"}),
    "partial of a method": (
        dedent("""\
            class A:
                def f(self, a, b):
                    see(self, 'a')
                    see(b, 'b')"""),
        "functools.partial(A().f, 1)(x)",
        {"a": "A", "b": "tensor?"},
    ),
    "partial of a partial": (
        "def f(a, b, c): see((a, b, c), 'a')",
        "functools.partial(functools.partial(f, 1), 2)(x)",
        {"a": "tuple(1, 2, tensor?)"},
    ),
    "map": ("def f(a): return a.argmax()", "see(list(map(f, [x, x]))[0], 'a')", {"a": "tensor[int]"}),
    "generator": (
        "def f(a):\n    for row in a:\n        yield row.argmax()",
        "for y in f(x):\n    see(y, 'a')",
        {"a": "tensor[int]"},
    ),
    "yield from": (
        dedent("""\
            def f(a):
                yield 1
            def g(a):
                yield from f(a)"""),
        "for y in g(x):\n    see(y, 'a')",
        {"a": "1"},
    ),
    "recursion": (
        dedent("""\
            def f(a, n):
                see(a, 'a')
                if n == 0: return a
                return f(a.abs(), n - 1)"""),
        "f(x, n)",
        {"a": "tensor / tensor?"},
    ),
    "mutual recursion": (
        dedent("""\
            def f(a, n):
                return g(a, n - 1)
            def g(a, n):
                see(a, 'a')
                return f(a, n)"""),
        "f(x, n)",
        {"a": "tensor?"},
    ),
    "no_grad": ("@torch.no_grad()\ndef f(a): return a.argmax()", "see(f(x), 'a')", {"a": "tensor[int]"}),
    "wrapper": (
        dedent("""\
            def deco(g):
                @functools.wraps(g)
                def w(*a, **k):
                    see(a, 'b')
                    return g(*a, **k)
                return w
            @deco
            def f(a): see(a, 'a')"""),
        "f(x)",
        {"a": "tensor?", "b": "tuple(tensor?)"},
    ),
    "decorator factory": (
        dedent("""\
            def factory(n):
                def deco(g):
                    def w(a):
                        return g(a, n)
                    return w
                return deco
            @factory(7)
            def f(a, n): see(n, 'a')"""),
        "f(x)",
        {"a": "7"},
    ),
    "disabled": ("@torch.compiler.disable\ndef f(a): see(a, 'a')", "f(x)", {}),
    "checkpoint": (
        "from torch.utils.checkpoint import checkpoint\ndef f(a, b): see(b, 'a')",
        "checkpoint(f, 1, x, use_reentrant=False)",
        {"a": "tensor?"},
    ),
    "cond": (
        "def f(a): see(a, 'a')\ndef g(a): see(a, 'b')",
        "torch.cond(x.sum() > 0, f, g, (x,))",
        {"a": "tensor?", "b": "tensor?"},
    ),
    "autograd function": (
        dedent("""\
            class Op(torch.autograd.Function):
                @staticmethod
                def forward(ctx, a, n):
                    see(a, 'a')
                    return a.argmax()"""),
        "see(Op.apply(x, 2), 'b')",
        {"a": "tensor?", "b": "tensor[int]"},
    ),
    "table of functions": (
        "def f(a): see(a, 'a')\ndef g(a): see(a, 'b')\nT = {'f': f, 'g': g}",
        "T['f'](x)\nT[self.kind](1)",
        {"a": "1 / tensor?", "b": "1"},
    ),
    "redefined under a condition": (
        dedent("""\
            try:
                from fast import f
            except ImportError:
                def f(a): see(a, 'a')"""),
        "f(x)",
        {"a": "tensor?"},
    ),
    "dataclass": (
        dedent("""\
            import dataclasses
            @dataclasses.dataclass
            class Out:
                a: torch.Tensor
                n: int = 1"""),
        "o = Out(x.argmax(), n=4)\nsee(o.a, 'a')\nsee(o.n, 'b')",
        {"a": "tensor[int]", "b": "4"},
    ),
    "named tuple": (
        dedent("""\
            from typing import NamedTuple
            class Out(NamedTuple):
                a: torch.Tensor
                n: int"""),
        "see(Out(x.argmax(), 4).a, 'a')",
        {"a": "tensor[int]"},
    ),
    "property of a plain class": (
        dedent("""\
            class A:
                def __init__(self, y): self.y = y
                @property
                def top(self): return self.y.argmax()"""),
        "see(A(x).top, 'a')",
        {"a": "tensor[int]"},
    ),
    "class method": (
        dedent("""\
            class A:
                @classmethod
                def make(cls, y):
                    o = cls()
                    o.y = y
                    return o"""),
        "see(A.make(x).y, 'a')",
        {"a": "tensor?"},
    ),
    "static method": (
        "class A:\n    @staticmethod\n    def f(y): return y.argmax()",
        "see(A.f(x), 'a')\nsee(A().f(x), 'b')",
        {"a": "tensor[int]", "b": "tensor[int]"},
    ),
    "callable object": (
        "class A:\n    def __call__(self, y): return y.argmax()",
        "see(A()(x), 'a')",
        {"a": "tensor[int]"},
    ),
    "shadowed builtin": ("def len(a): return a", "see(len(x), 'a')", {"a": "tensor?"}),
    "global constant": ("SIZE = 4", "see(SIZE, 'a')", {"a": "4"}),
    "global list outlives the call": ("L = [1, 2]", "see(L[0], 'a')", {"a": "1"}),
    "global flag that a function sets": (
        dedent("""\
            FLAG = False
            def enable():
                global FLAG
                FLAG = True"""),
        dedent("""\
            if FLAG:
                see(x, 'a')
            else:
                see(x, 'b')"""),
        {"a": "tensor?", "b": "tensor?"},
    ),
    "global counter": (
        dedent("""\
            COUNT = 0
            def count():
                global COUNT
                COUNT += 1"""),
        "see(COUNT > 0, 'a')",
        {"a": "bool@config"},
    ),
    "global built up": ("N = 1\nN += 2", "see(N == 1, 'a')", {"a": "bool@config"}),
    "made in a match": ("match 1:\n    case _:\n        def f(a): see(a, 'a')", "f(x)", {"a": "tensor?"}),
    "global made by a call": ("def f(): return 3\nN = f()", "see(N, 'a')", {"a": "3"}),
    "aliased module": ("import torch.nn.functional as G", "see(G.softmax(x, -1), 'a')", {"a": "tensor[floating]"}),
    "aliased function": ("from torch import argmax as am", "see(am(x), 'a')", {"a": "tensor[int]"}),
    "callable": (
        "class C:\n    def __call__(self): pass\nclass D: pass",
        "see(callable(len), 'a'); see(callable(self.forward), 'b'); see(callable(None), 'c')\n"
        "see(callable(x), 'd'); see(callable(C()), 'e'); see(callable(D()), 'f'); see(callable(x.sum), 'g')",
        {"a": "bool@call", "b": "True", "c": "False", "d": "False", "e": "True", "f": "bool@call", "g": "True"},
    ),
    "object of one of several classes": (
        "class A: pass\nclass B: pass\nclass C(A): pass",
        "see(isinstance(C(), (A, B)), 'a'); see(isinstance(C(), B), 'b'); see(isinstance(B(), (A, C)), 'c')",
        {"a": "True", "b": "False", "c": "False"},
    ),
    "what is handed around is rarely text": (
        "from elsewhere import thing",
        "if isinstance(thing(x), str):\n    see(1, 'low')\nsee(isinstance(thing(x), str), 'a')",
        {"low": "1", "a": "False | bool@call"},
    ),
    "asked whether it is a tensor": (
        "",
        "see(torch.is_tensor(x), 'a'); see(torch.is_tensor(3), 'b'); see(torch.is_tensor(print), 'c')",
        {"a": "True", "b": "False", "c": "bool@call"},
    ),
    "dict over known keys": (
        "",
        "see({k: x.argmax() for k in ['a', 'b']}, 'a'); see({k: x for k in n}, 'b')",
        {"a": "{'a': tensor[int], 'b': tensor[int]}", "b": "{*: tensor?}"},
    ),
    "attribute by a name in parts": (
        dedent("""\
            class C:
                one_part = 1.5
                two_part = 2.5
                other = None"""),
        "c = C()\nsee(getattr(c, '{}_part'.format(torch.version.git_version)), 'a'); see(getattr(c, '%s_part' % torch.version.git_version), 'b')\n"
        "see(getattr(c, torch.version.git_version + '_part'), 'c')",
        {"a": "float@constant", "b": "float@constant", "c": "float@constant"},
    ),
    "torch as an attribute of torch": (
        "from torch import torch as t",
        "see(t.argmax(x), 'a'); see(torch.torch.argmax(x), 'b')",
        {"a": "tensor[int]", "b": "tensor[int]"},
    ),
    "versions of torch": (
        "from packaging import version",
        "see(version.parse(torch.__version__) >= version.parse('1.9'), 'a')\n"
        "see(int(torch.__version__.split('.')[0]) >= 2, 'b'); see(torch.__version__.startswith('1.'), 'c')",
        {"a": "True", "b": "True", "c": "False"},
    ),
    "decorator of torch.jit": (
        "@torch.jit.ignore\ndef f(a): return a.argmax()",
        "see(f(x), 'a')",
        {"a": "tensor[int]"},
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_calls(case: str, tmp_path: Path) -> None:
    before, body, expected = CALLS[case]
    assert known(tmp_path, forward(body, sig="self, x, n: int = 2", before=before)) == expected


BLOCK = """
class Block(nn.Module):
    def forward(self, x):
        see(x, 'block')
        return x.argmax()
class Other(nn.Module):
    def forward(self, x):
        see(x, 'other')
        return x
"""

# (statements above, __init__, forward, expected)
MODULES: dict[str, tuple[str, str, str, dict[str, str]]] = {
    "submodule": (BLOCK, "self.b = Block()", "see(self.b(x), 'a')", {"block": "tensor?", "a": "tensor[int]"}),
    "configuration is plain": ("", "self.n = n", "see(self.n, 'a')", {"a": "3 | int@config"}),
    "unknown configuration": ("", "self.h = config.heads", "see(self.h > 1, 'a')", {"a": "bool@config"}),
    "constant attribute": ("", "self.n = 4", "see(self.n, 'a')", {"a": "4"}),
    "buffer": ("", "self.register_buffer('m', torch.zeros(3).bool())", "see(self.m, 'a')", {"a": "tensor[bool]"}),
    "parameter": ("", "self.w = nn.Parameter(torch.zeros(3))", "see(self.w, 'a')", {"a": "tensor"}),
    "weight of a layer": ("", "self.l = nn.Linear(3, 3)", "see(self.l.weight, 'a')", {"a": "tensor[float]"}),
    "layer of torch": ("", "self.l = nn.Linear(3, 3)", "see(self.l(x), 'a')", {"a": "tensor[float]"}),
    "lstm": ("", "self.l = nn.LSTM(3, 3)", "y, (h, c) = self.l(x)\nsee(c, 'a')", {"a": "tensor[float]"}),
    "alternatives": (
        BLOCK,
        dedent("""\
            if config:
                self.b = Block()
            else:
                self.b = Other()"""),
        "self.b(x)",
        {"block": "tensor?", "other": "tensor?"},
    ),
    "table of classes": (
        BLOCK + "KINDS = {'block': Block, 'other': Other}",
        "self.b = KINDS[config.kind]()",
        "self.b(x)",
        {"block": "tensor?", "other": "tensor?"},
    ),
    "table of classes, known key": (
        BLOCK + "KINDS = {'block': Block, 'other': Other}",
        "self.b = KINDS['other']()",
        "self.b(x)",
        {"other": "tensor?"},
    ),
    "list of modules": (
        BLOCK,
        "self.bs = nn.ModuleList([Block() for _ in range(n)])",
        "for b in self.bs:\n    x = b(x)\nsee(x, 'a')",
        {"block": "tensor?", "a": "tensor?"},
    ),
    "list of modules by append": (
        BLOCK,
        "self.bs = nn.ModuleList()\nfor i in range(n):\n    self.bs.append(Other())",
        "for i, b in enumerate(self.bs):\n    b(x)",
        {"other": "tensor?"},
    ),
    "list of modules by index": (
        BLOCK,
        "self.bs = nn.ModuleList([Block(), Other()])",
        "self.bs[1](x)\nsee(self.bs[0](x), 'a')",
        {"block": "tensor?", "other": "tensor?", "a": "tensor[int]"},
    ),
    "slice of a list of modules": (
        BLOCK,
        "self.bs = nn.ModuleList([Block(), Block()])",
        "for b in self.bs[1:]:\n    b(x)",
        {"block": "tensor?"},
    ),
    "dict of modules": (
        BLOCK,
        "self.bs = nn.ModuleDict({'a': Block(), 'b': Other()})",
        "self.bs['b'](x)",
        {"other": "tensor?"},
    ),
    "dict of modules, walked": (
        BLOCK,
        "self.bs = nn.ModuleDict()\nself.bs['a'] = Block()",
        "for k, b in self.bs.items():\n    b(x)",
        {"block": "tensor?"},
    ),
    "sequential": (
        BLOCK,
        "self.s = nn.Sequential(Block(), Other())",
        "see(self.s(x), 'a')",
        {"block": "tensor?", "other": "tensor[int]", "a": "tensor[int]"},
    ),
    "sequential of a dict": (
        "from collections import OrderedDict\n" + BLOCK,
        "self.s = nn.Sequential(OrderedDict([('a', Block()), ('b', Other())]))",
        "self.s(x)",
        {"block": "tensor?", "other": "tensor[int]"},
    ),
    "sequential of a list": (
        BLOCK,
        "ls = [Block()]\nls.append(Other())\nself.s = nn.Sequential(*ls)",
        "self.s(x)",
        {"block": "tensor?", "other": "tensor[int]"},
    ),
    "subclass of sequential": (
        BLOCK + "class S(nn.Sequential):\n    def __init__(self):\n        super().__init__(Block(), Other())",
        "self.s = S()",
        "see(self.s(x), 'a')",
        {"block": "tensor?", "other": "tensor[int]", "a": "tensor[int]"},
    ),
    "subclass of sequential with a forward": (
        BLOCK
        + dedent("""\
            class S(nn.Sequential):
                def forward(self, y):
                    for m in self:
                        y = m(y)
                    return y"""),
        "self.s = S(Block())",
        "see(self.s(x), 'a')",
        {"block": "tensor?", "a": "tensor?"},
    ),
    "by name": (
        BLOCK,
        "for i in range(n):\n    setattr(self, f'layer{i}', Block())\nself.layer0 = Block()",
        "getattr(self, f'layer{x.shape[0]}')(x)",
        {"block": "tensor?"},
    ),
    "added by name": (BLOCK, "self.add_module('b', Block())", "self.b(x)", {"block": "tensor?"}),
    "annotated attribute": (
        dedent("""\
            class Model0(nn.Module):
                scale: torch.Tensor
                def set(self, k, v): setattr(self, k, v)
                def forward(self, x): return self.scale"""),
        "self.b = Model0()",
        "see(self.b(x), 'a')",
        {"a": "tensor?"},
    ),
    "a hook function in an attribute": ("def f(a): see(a, 'a')", "self.act = f", "self.act(x)", {"a": "tensor?"}),
    "activation by name": ("", "self.act = getattr(F, 'sigmoid')", "see(self.act(x), 'a')", {"a": "tensor[floating]"}),
    "method": ("", "self.n = 4", "see(self.extra_repr() is None, 'a')", {"a": "True"}),
}


@pytest.mark.parametrize("case", MODULES)
def test_modules(case: str, tmp_path: Path) -> None:
    before, init, body, expected = MODULES[case]
    found = known(tmp_path, forward(body, init=init, before=before), name="Model")
    assert found == expected


def test_a_module_wrapped_in_a_loop_reaches_what_it_wraps(tmp_path: Path) -> None:
    source = forward(
        "self.net(x)",
        init=dedent("""\
            net = Block()
            for i in range(n):
                net = nn.Sequential(net, Other())
            self.net = net"""),
        before=BLOCK,
    )
    assert known(tmp_path, source, name="Model").keys() == {"block", "other"}


CLASSES: dict[str, tuple[str, dict[str, str]]] = {
    "inherited forward": (
        "class Base(nn.Module):\n    def forward(self, x): see(x, 'a')\nclass Model(Base): pass",
        {"a": "tensor?"},
    ),
    "super": (
        dedent("""\
            class Base(nn.Module):
                def forward(self, x):
                    see(x, 'a')
                    return x.argmax()
            class Model(Base):
                def forward(self, x):
                    see(super().forward(x), 'b')"""),
        {"a": "tensor?", "b": "tensor[int]"},
    ),
    "super in words": (
        dedent("""\
            class Base(nn.Module):
                def forward(self, x): see(x, 'a')
            class Model(Base):
                def forward(self, x): super(Model, self).forward(1)"""),
        {"a": "1"},
    ),
    "super of init": (
        dedent("""\
            class Base(nn.Module):
                def __init__(self, k):
                    super().__init__()
                    self.k = k
            class Model(Base):
                def __init__(self):
                    super().__init__(5)
                def forward(self, x): see(self.k, 'a')"""),
        {"a": "5"},
    ),
    "overridden hook": (
        dedent("""\
            class Base(nn.Module):
                def forward(self, x): self.step(x)
                def step(self, x): see(x, 'a')
            class Model(Base):
                def step(self, x): see(x, 'b')"""),
        {"b": "tensor?"},
    ),
    "diamond": (
        dedent("""\
            class A(nn.Module):
                def forward(self, x): see(x, 'a')
            class B(A):
                def forward(self, x):
                    see(x, 'b')
                    super().forward(x)
            class C(A):
                def forward(self, x):
                    see(x, 'c')
                    super().forward(2)
            class Model(B, C): pass"""),
        {"a": "2", "b": "tensor?", "c": "tensor?"},
    ),
    "mixin before the module": (
        dedent("""\
            class Mixin:
                def help(self, x): see(x, 'a')
            class Model(Mixin, nn.Module):
                def forward(self, x): self.help(x)"""),
        {"a": "tensor?"},
    ),
    "abstract base of a generic": (
        dedent("""\
            from typing import Generic, TypeVar
            T = TypeVar('T')
            class Base(nn.Module, Generic[T]):
                def forward(self, x): see(x, 'a')
            class Model(Base[int]): pass"""),
        {"a": "tensor?"},
    ),
    "flag of a class that a with block sets": (
        dedent("""\
            class flag:
                _state = None
                @classmethod
                def on(cls):
                    return True if cls._state is None else cls._state
                @classmethod
                def _set(cls, state): cls._state = state
                def __init__(self, state):
                    self.before = self.__class__._state
                    self.state = state
                def __enter__(self): self.__class__._set(self.state)
                def __exit__(self, *args): self.__class__._set(self.before)
            class Model(nn.Module):
                def forward(self, x):
                    if not flag.on():
                        see(1, 'a')
                    with flag(False):
                        if flag.on():
                            see(2, 'b')
                        else:
                            see(3, 'c')
                    if flag.on():
                        see(4, 'd')"""),
        {"a": "1", "c": "3", "d": "4"},
    ),
    "new gives an object of another class": (
        dedent("""\
            class Fast(nn.Module):
                def __init__(self, n):
                    super().__init__()
                    self.n = n
            class Any(nn.Module):
                def __new__(cls, kind):
                    if kind == 'fast':
                        return Fast(4)
                    return super().__new__(cls)
                def __init__(self, kind):
                    super().__init__()
                    self.kind = kind
            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.one, self.other = Any('fast'), Any('slow')
                def forward(self, x):
                    see(self.one.n, 'a')
                    see(self.other.kind, 'b')"""),
        {"a": "4", "b": "'slow'"},
    ),
    "class attribute": (
        "class Model(nn.Module):\n    size = 3\n    def forward(self, x): see(self.size, 'a')",
        {"a": "3"},
    ),
    "class attribute overridden": (
        dedent("""\
            class Base(nn.Module):
                size = 3
                def forward(self, x): see(self.size, 'a')
            class Model(Base):
                size = 4"""),
        {"a": "4"},
    ),
    "property": (
        dedent("""\
            class Model(nn.Module):
                @property
                def n(self): return 3
                def forward(self, x): see(self.n, 'a')"""),
        {"a": "3"},
    ),
    "property with a setter": (
        dedent("""\
            class Model(nn.Module):
                @property
                def n(self): return 3
                @n.setter
                def n(self, v): pass
                def forward(self, x): see(self.n, 'a')"""),
        {"a": "3"},
    ),
    "attribute made in a helper of init": (
        dedent("""\
            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.make(4)
                def make(self, n): self.n = n
                def forward(self, x): see(self.n, 'a')"""),
        {"a": "4"},
    ),
    "state written by forward": (
        dedent("""\
            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.last = None
                def forward(self, x):
                    see(self.last, 'a')
                    self.last = x
                    see(self.last, 'b')"""),
        {"a": "None | unknown", "b": "tensor?"},
    ),
    "state written by another method": (
        dedent("""\
            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.step = 0
                    self.width = 4
                def set_step(self, n):
                    self.step = n
                def forward(self, x):
                    see(self.step, 'a')
                    see(self.width, 'b')"""),
        {"a": "int@config", "b": "4"},
    ),
    "inner class": (
        dedent("""\
            class Model(nn.Module):
                class Inner:
                    def f(self, y): return y.argmax()
                def forward(self, x): see(self.Inner().f(x), 'a')"""),
        {"a": "tensor[int]"},
    ),
    "a class that reads itself": (
        dedent("""\
            class A:
                size = 1
            class A(A):
                size = A.size
            class Model(nn.Module):
                def forward(self, x): see(x, 'a')
        """),
        {"a": "tensor?"},
    ),
    "a circle of bases": (
        dedent("""\
            class A(B): pass
            class B(A):
                def forward(self, x): pass
            class Model(nn.Module):
                def forward(self, x): see(x, 'a')
        """),
        {"a": "tensor?"},
    ),
}


@pytest.mark.parametrize("case", CLASSES)
def test_classes(case: str, tmp_path: Path) -> None:
    source, expected = CLASSES[case]
    assert known(tmp_path, source, name="Model") == expected


@pytest.mark.parametrize(
    "line", ["from base import Base", "import base\nBase = base.Base", "from .base import Base", "from base import *"]
)
def test_a_base_class_in_another_file(line: str, tmp_path: Path) -> None:
    (tmp_path / "base.py").write_text(
        dedent("""\
            from torch import nn
            from probe import see
            class Base(nn.Module):
                def forward(self, x): self.step(x)
                def step(self, x): see(x, 'base')
        """),
        encoding="utf-8",
    )
    source = line + "\nclass Model(Base):\n    def step(self, x): super().step(x.argmax())\n"
    assert known(tmp_path, source, name="Model") == {"base": "tensor[int]"}


@pytest.mark.parametrize(
    ("exported", "builtin"),
    [
        ("", False),
        ("__all__ = ['other']\n", True),
        ("__all__ = ['other']\n__all__ += ['zip']\n", False),
        ("__all__ = ['other', *more()]\n", False),
        ("__all__ = ['other']\n__all__.append('zip')\n", False),
    ],
)
def test_a_star_brings_what_the_module_says_and_hides_no_builtin(exported: str, builtin: bool, tmp_path: Path) -> None:
    (tmp_path / "base.py").write_text(
        exported
        + dedent("""\
            def zip(*args): return [(1, 1)]
            _hidden = 3
            other = 4
        """),
        encoding="utf-8",
    )
    (tmp_path / "between.py").write_text("from base import *\n", encoding="utf-8")
    source = dedent("""\
            from between import *
            class Model(nn.Module):
                def forward(self, x):
                    for a, b in zip([x], [x]): see(a, 'a')
        """)
    assert (known(tmp_path, source, name="Model")["a"] == "tensor?") is builtin


def test_a_base_class_in_a_package_beside_it(tmp_path: Path) -> None:
    inner = tmp_path / "pkg" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "pkg" / "__init__.py").write_text("from .inner.base import Base as Public\n", encoding="utf-8")
    (inner / "__init__.py").write_text("", encoding="utf-8")
    (inner / "base.py").write_text(
        dedent("""\
            from torch import nn
            from probe import see
            from ..util import top
            class Base(nn.Module):
                def forward(self, x): see(top(x), 'a')
        """),
        encoding="utf-8",
    )
    (tmp_path / "pkg" / "util.py").write_text("def top(y):\n    return y.argmax()\n", encoding="utf-8")
    assert known(tmp_path, "from pkg import Public\nclass Model(Public): pass\n", name="Model") == {"a": "tensor[int]"}


def test_a_module_that_inherits_its_forward_from_torch(tmp_path: Path) -> None:
    chained = dedent("""\
        class Block(nn.Module):
            def forward(self, x):
                see(x, 'a')
                return x.argmax()
    """)
    chained += "class Model(nn.Sequential):\n    def __init__(self): super().__init__(Block(), Block())\n"
    assert known(tmp_path, chained, name="Model") == {"a": "tensor? / tensor[int]"}
    replaced = dedent("""\
        class Model(nn.Linear):
            @property
            def weight(self):
                see(self.w, 'a')
    """)
    replaced += "    def __init__(self): self.w = nn.Parameter(torch.zeros(3))\n"
    assert known(tmp_path, replaced, name="Model") == {"a": "tensor"}


def test_an_installed_package_takes_a_process_that_was_told_nothing(tmp_path: Path) -> None:
    body = dedent("""\
        import torch.distributed as dist
        if dist.is_available() and dist.is_initialized():
            see(x, 'a')
    """)
    body += "see(x, 'b')"
    assert set(known(tmp_path, forward(body))) == {"a", "b"}
    site = tmp_path / "site-packages"
    site.mkdir()
    assert set(known(site, forward(body))) == {"b"}


def test_a_function_as_target_starts_from_its_signature(tmp_path: Path) -> None:
    source = dedent("""\
        def model(x, n=2, *, m: Tensor):
            see(x, 'a')
            see(n, 'b')
            see(m, 'c')
    """)
    assert known(tmp_path, source, name="model") == {"a": "tensor?", "b": "2 | int@call", "c": "tensor"}


def test_a_function_that_builds_a_module_starts_from_its_forward(tmp_path: Path) -> None:
    source = forward("see(self.n, 'a')", init="self.n = n") + "def make():\n    return Model(n=6)\n"
    assert known(tmp_path, source, name="make") == {"a": "6"}


def test_an_instance_as_target_keeps_what_it_was_given(tmp_path: Path) -> None:
    source = forward("see(self.n, 'a')", init="self.n = n") + "net = Model(n=6)\n"
    assert known(tmp_path, source, name="net") == {"a": "6"}
