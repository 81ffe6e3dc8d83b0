"""Objects as Python asks them: special methods, descriptors, records, enums, namespaces and getters."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from probing import forward, known

OWN = """
class Own:
    def __init__(self, v, n=3): self.v, self.n = v, n
    def __add__(self, o): return self.v
    def __radd__(self, o): return self.n
    __rmul__ = __add__
    def __sub__(self, o): return NotImplemented
    def __rsub__(self, o): return 'r'
    def __iadd__(self, o): return 'in place'
    def __neg__(self): return 'neg'
    def __lt__(self, o): return self.v < o
    def __eq__(self, o): return bool((self.v == o).all())
    def __contains__(self, o): return self.n == o
    def __len__(self): return self.n
    def __getitem__(self, i): return self.v[i]
    def __iter__(self): return iter([self.v, self.v])
    def __enter__(self): return self.v
    def __exit__(self, *a): pass
    def __call__(self, x): return self.n
    def __int__(self): return 7
    def __format__(self, spec): return 'text'
    def __repr__(self): return 'repr'
class Steps:
    def __init__(self, v): self.v = v
    def __iter__(self): return self
    def __next__(self): return self.v
class Desc:
    def __init__(self, k): self.k = k
    def __set_name__(self, owner, name): self.name = name
    def __get__(self, o, owner=None): return o.base * self.k if o is not None else self.name
    def __set__(self, o, v): o.base = v
class Holder:
    twice = Desc(2)
    def __init__(self): self.base = 5
class Fallback:
    def __init__(self): self.a = 1
    def __getattr__(self, name): return 'fallback ' + name
import collections, typing, dataclasses, enum, types, argparse, operator, itertools
P = collections.namedtuple("P", "a b c", defaults=(9,))
class Q(typing.NamedTuple):
    t: Tensor
    k: int = 4
    def both(self): return self.t, self.k
@dataclasses.dataclass
class D:
    t: Tensor
    k: int = 4
    l: list = dataclasses.field(default_factory=list)
    late: int = dataclasses.field(init=False, default=0)
    start: dataclasses.InitVar[int] = 2
    def __post_init__(self, start): self.late = self.k + start
class Pool(enum.Enum):
    MEAN = "mean"
    LAST = "last"
class Level(enum.IntEnum):
    LOW = enum.auto()
    HIGH = enum.auto()
NS = types.SimpleNamespace(debug=False, k=3)
ARGS = argparse.Namespace(debug=False)
PICK = operator.itemgetter(0)
"""
VALUES = {
    "an operator": ("see(Own(x) + 1,'a')", "tensor?"),
    "a reflected operator": ("see(1 + Own(x),'a')", "3"),
    "an operator by another name": ("see(2 * Own(x),'a')", "tensor?"),
    "an operator that is not implemented": ("see(Own(x) - Own(x),'a')", "'r'"),
    "an operator in place": ("o = Own(x)\no += 1\nsee(o,'a')", "'in place'"),
    "a sign": ("see(-Own(x),'a')", "'neg'"),
    "an order": ("see(Own(x) < 1,'a')", "tensor[bool]?"),
    "equality": ("see(Own(x) == 1,'a')", "bool@tensor"),
    "inequality by equality": ("see(Own(x) != 1,'a')", "bool@tensor"),
    "a reflected order": ("see(1 > Own(x),'a')", "tensor[bool]?"),
    "membership": ("see(3 in Own(x),'a')", "True"),
    "no membership": ("see(3 not in Own(x),'a')", "False"),
    "length": ("see(len(Own(x)),'a')", "3"),
    "an index": ("see(Own(x)[0],'a')", "tensor?"),
    "a loop": ("for r in Own(x):\n    see(r,'a')", "tensor?"),
    "unpacking": ("p, q = Own(x)\nsee(q,'a')", "tensor?"),
    "a display": ("see([*Own(x)],'a')", "list(tensor?, tensor?)"),
    "a list of it": ("see(list(Own(x)),'a')", "list(tensor?, tensor?)"),
    "a comprehension": ("see([r for r in Own(x)],'a')", "list(tensor?, tensor?)"),
    "a block": ("with Own(x) as w:\n    see(w,'a')", "tensor?"),
    "a call": ("see(Own(x)(1),'a')", "3"),
    "a number of it": ("see(int(Own(x)),'a')", "7"),
    "an f-string": ("see(f'{Own(x)}','a')", "'text'"),
    "text": ("see(str(Own(x)),'a')", "'repr'"),
    "truth by length": (
        dedent("""\
        if Own(x, 0):
            see(1,'a')
        else:
            see(2,'a')"""),
        "2",
    ),
    "the next one": ("see(next(Steps(x)),'a')", "tensor?"),
    "a loop over steps": ("for r in Steps(x):\n    see(r,'a')", "tensor?"),
    "the next one of an iterator": ("see(next(iter(Steps(x))),'a')", "tensor?"),
    "zip": ("for r, s in zip(Steps(x), [1]):\n    see(r,'a')", "tensor?"),
    "a descriptor": ("see(Holder().twice,'a')", "10"),
    "a descriptor of a class": ("see(Holder.twice,'a')", "'twice'"),
    "an attribute made up": ("see(Fallback().b,'a')", "'fallback b'"),
    "an attribute that is there": ("see(Fallback().a,'a')", "1"),
    "a named tuple": ("see(P(x, 2).a,'a')", "tensor?"),
    "a default of a named tuple": ("see(P(x, b=2).c,'a')", "9"),
    "a named tuple by place": ("see(P(x, 2)[1],'a')", "2"),
    "a named tuple unpacked": ("a, b, c = P(x, 2)\nsee(b,'a')", "2"),
    "a named tuple with another field": ("see(P(x, 2)._replace(b=5).b,'a')", "5"),
    "a named tuple as a dict": ("see(P(x,2)._asdict(),'a')", "{'a': tensor?, 'b': 2, 'c': 9}"),
    "a named tuple as a list": ("see(list(P(x,2)),'a')", "list(tensor?, 2, 9)"),
    "the length of a named tuple": ("see(len(P(x,2)),'a')", "3"),
    "a slice of a named tuple": ("see(P(x,2)[:2],'a')", "tuple(tensor?, 2)"),
    "a named tuple made in a function": ("R = collections.namedtuple('R', ['u', 'v'])\nsee(R(x, 1).v,'a')", "1"),
    "a typed named tuple": ("see(Q(x).k,'a')", "4"),
    "a method of a named tuple": ("see(Q(x).both(),'a')", "tuple(tensor?, 4)"),
    "a typed named tuple made by a call": (
        "R = typing.NamedTuple('R', [('u', Tensor), ('v', int)])\nsee(R(x, 1)[1],'a')",
        "1",
    ),
    "a dataclass": ("see(D(x).k,'a')", "4"),
    "a field that is made": ("see(D(x).l,'a')", "list()"),
    "a dataclass with another field": ("see(dataclasses.replace(D(x), k=6).k,'a')", "6"),
    "the value of a member": ("see(Pool.MEAN.value,'a')", "'mean'"),
    "members apart": ("see(Pool.MEAN is Pool.LAST,'a')", "False"),
    "members numbered": ("see(Level.HIGH > Level.LOW,'a')", "True"),
    "a member by value": ("see(Pool('mean') == Pool.MEAN,'a')", "True"),
    "the members of an enum": ("for p in Pool:\n    see(p,'a')", "'last' / 'mean'"),
    "a member by name": ("see(Pool['MEAN'],'a')", "'mean'"),
    "a namespace": ("see(NS.debug,'a')", "False"),
    "a namespace of arguments": ("see(ARGS.debug,'a')", "False"),
    "a namespace made here": ("n = types.SimpleNamespace(t=x)\nsee(n.t,'a')", "tensor?"),
    "a namespace that is changed": ("n = types.SimpleNamespace(t=1)\nn.t = x\nsee(n.t,'a')", "tensor?"),
    "an itemgetter that is kept": ("see(PICK([x, 1]),'a')", "tensor?"),
    "an itemgetter": ("see(operator.itemgetter(1, 0)([x, 1]),'a')", "tuple(1, tensor?)"),
    "an attrgetter": ("see(operator.attrgetter('k')(NS),'a')", "3"),
    "a methodcaller": ("see(operator.methodcaller('item')(x),'a')", "plain@tensor"),
    "a method by its class": ("see(torch.Tensor.item(x),'a')", "plain@tensor"),
    "a size by its class": ("see(Tensor.size(x, 0),'a')", "int@shape"),
    "a method of text by its class": ("see(str.lower('AB'),'a')", "'ab'"),
    "an attribute by an f-string": ("see(getattr(NS, f'de{\"bug\"}'),'a')", "False"),
    "formatted text": ("see('x_{}'.format('a'),'a')", "'x_a'"),
    "text by percent": ("see('x_%s' % 'a','a')", "'x_a'"),
    "vars": ("see(vars(Own(x))['n'],'a')", "3"),
    "the dict of an object": ("see(Own(x).__dict__['n'],'a')", "3"),
    "attributes set in a loop": (
        dedent("""\
        o = Own(x)
        for n in ('p','q'):
            setattr(o, n, x)
        see(o.q,'a')"""),
        "tensor?",
    ),
    "the largest by a key": ("see(max([x, x], key=lambda r: r.dim()),'a')", "tensor?"),
    "setdefault": ("d = {}\nd.setdefault('k', x)\nsee(d['k'],'a')", "tensor?"),
    "setdefault of what is there": ("d = {'k': 1}\nsee(d.setdefault('k', x),'a')", "1"),
    "pop": ("d = {'k': 1}\nsee(d.pop('k', 2),'a')", "1"),
    "get": ("see({'k': 1}.get('j', 2),'a')", "2"),
    "the largest of sizes": ("s = [t.shape[0] for t in (x, x)]\nsee(max(s),'a')", "int@shape"),
    "a sum of lengths": ("s = [len(t) for t in (x, x)]\nsee(sum(s[1:]),'a')", "int@shape"),
    "shapes added": ("see((x.shape + x.shape)[0],'a')", "int@shape"),
    "sizes zipped": ("for n, t in zip([t.shape[0] for t in (x,x)], (x, x)):\n    see(n,'a')", "int@shape"),
    "sizes numbered": ("for i, n in enumerate(x.shape):\n    see(n,'a')", "int@shape"),
    "a list of sizes": ("see(list(x.shape)[0],'a')", "int@shape"),
    "sorted sizes": ("see(sorted(x.shape)[0],'a')", "int@shape"),
    "a Size": ("see(torch.Size([x.shape[0], 2])[0],'a')", "int@shape"),
    "sizes accumulated": ("see(list(itertools.accumulate(x.shape)),'a')", "list[int@shape]"),
    "a product of sizes": ("import math\nsee(math.prod(x.shape),'a')", "int@shape"),
    "a walrus in a comprehension": ("ys = [h for n in [1,2] if (h := n // 2)]\nsee(h,'a')", "1"),
    "a walrus of the last round": ("ys = [h for n in [3,2,3] if (h := n - 2)]\nsee(h,'a')", "1"),
    "the name of a class": ("see(Own(x).__class__.__name__,'a')", "'Own'"),
    "the name of a type": ("see(type(Own(x)).__name__.lower(),'a')", "'own'"),
    "a special method called": ("see(Own(x).__len__(),'a')", "3"),
    "a cached function": (
        dedent("""\
        @functools.lru_cache(None)
        def f(a):
            return a.item()
        see(f(x),'a')"""),
        "plain@tensor",
    ),
    "a wrapper": (
        dedent("""\
            def deco(fn):
                @functools.wraps(fn)
                def inner(*a, **k):
                    return fn(*a, **k)
                return inner
            @deco
            def g(a, b=2):
                return b
            see(g(x),'a'); see(g(x, b=3),'b')"""),
        "2",
    ),
    "lists of constants": ("see([1,2]==[1,2],'a')", "True"),
    "tuples of constants": ("see((2,1) < (2,0),'a')", "False"),
}


@pytest.mark.parametrize("case", VALUES)
def test_an_object_is_asked_as_python_asks_it(case: str, tmp_path: Path) -> None:
    body, expected = VALUES[case]
    assert known(tmp_path, OWN + forward(body))["a"] == expected


TABLES = """
BY_NAME = {}
class Registry:
    def __init__(self): self.known = {}
    def register(self, name):
        def add(cls):
            self.known[name] = cls
            return cls
        return add
REGISTRY = Registry()
class Base:
    below = {}
    def __init_subclass__(cls, **options):
        cls.below[cls.__name__.lower()] = cls
def listed(cls):
    BY_NAME[cls.__name__] = cls
    return cls
@listed
class First(Base): pass
@REGISTRY.register("second")
class Second(Base): pass
"""
FILLED = {
    "a table of the module": ("see(BY_NAME['First'], 'a')", "class First"),
    "a table of an object": ("see(REGISTRY.known['second'], 'a')", "class Second"),
    "a table of a class": ("see(Base.below['second'], 'a')", "class Second"),
}


@pytest.mark.parametrize("case", FILLED)
def test_tables_hold_what_decorators_put_there(case: str, tmp_path: Path) -> None:
    body, expected = FILLED[case]
    assert known(tmp_path, TABLES + forward(body))["a"] == expected


def test_an_attribute_by_a_name_in_parts_is_any_that_fits(tmp_path: Path) -> None:
    methods = "\n    def pool_a(self): return 1\n    def pool_b(self): return 'b'\n    def other(self): return x\n"
    body = "see(getattr(self, f'pool_{kind}'), 'a')"
    found = known(tmp_path, forward(body, sig="self, x, kind: str") + methods)
    assert found["a"] == "def pool_a | def pool_b"


def test_what_train_puts_in_evaluation_stays_there(tmp_path: Path) -> None:
    part = dedent("""\
        class Part(nn.Module):
            def forward(self, x):
                see(self.training, 'part')
    """)
    methods = """
    def train(self, mode=True):
        super().train(mode)
        self.part.eval()
        return self
"""
    source = part + forward("see(self.training, 'a')\nself.part(x)", "self.part = Part()") + methods
    assert known(tmp_path, source, mode="train", name="Model") == {"a": "True", "part": "False"}


def test_a_method_that_changed_nothing_once_is_followed_again(tmp_path: Path) -> None:
    methods = """
    def fill(self, number):
        if number == 2:
            self.extra = "two"
"""
    source = forward("see(self.extra, 'a')", "self.fill(1)\nself.fill(2)") + methods
    assert known(tmp_path, source, name="Model") == {"a": "'two'"}
    source = source.replace("def fill(self, number):\n        if number == 2", "def fill(self):\n        if self.ready")
    source = source.replace("self.fill(1)", "self.ready = False; self.fill(); self.ready = True")
    assert known(tmp_path, source.replace("self.fill(2)", "self.fill()"), name="Model") == {"a": "'two'"}
