"""Printing, logging and warnings: left out of what is compiled, done in the same order by eager code."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from textwrap import dedent

import pytest
from rewriting import change, forward, loaded, proposed
from tcready.fixes.rewriting.suggestions import Proposal
from tcready.static.diagnostics.rule import Declined

LOGGER = dedent("""\
    import logging
    import warnings

    logger = logging.getLogger(__name__)
""")
GUARDED = {
    "several statements on a line": "y = x + 1; print(y.shape); z = y * 2  # three\nreturn z",
    "the first of a line": "print(x.shape); y = x * 2\nreturn y",
    "the last of a line": "y = x * 2; print('a')  # why\nreturn y",
    "in a loop": dedent("""\
        for i in range(2):
            print(i)
            x = x + i
        return x"""),
    "once": dedent("""\
        if x.shape[0] > 2:
            warnings.warn('x', stacklevel=2)
            x = x + 1
        return x"""),
    "of a value": "y = x * 2\nprint('mean', y.mean().item(), len(y))\nreturn y",
    "logged": "logger.warning(f'{x.shape} {x.mean()}')\nreturn x + 1",
}
BRANCHES = {
    "of a flag": "y = x + 1\nif x.shape[0] > 2: print('a')\nreturn y",
    "of a value": "if x.sum() > 0 or x.isnan().any():\n    logger.warning('large')\nreturn x + 1",
    "of a level": "if logger.isEnabledFor(10):\n    logger.debug('x %s', x.mean())\nreturn x + 1",
}
DECLINED = {
    "used": ("y = print(x)\nreturn x", "The code uses the value of"),
    "in a loop of one line": ("for i in range(2): print(i)\nreturn x", "Another statement is on the same line"),
    "fetched": ("log = logging.getLogger('a')\nreturn x", "The code uses the value of"),
}


@pytest.mark.torch
@pytest.mark.parametrize("body", [*GUARDED.values(), *BRANCHES.values()])
def test_a_message_is_given_by_eager_code_alone(
    body: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    import torch

    before = LOGGER + forward(body)
    after = change(tmp_path, before)
    caplog.set_level("DEBUG", logger="builtins")
    spoken = []
    for text in (before, after):
        with pytest.warns() if "warnings.warn(" in body else _nothing():
            out = loaded(text)(torch.ones(3))
        spoken.append((out.tolist(), capsys.readouterr().out, caplog.messages))
        caplog.clear()
    assert spoken[0] == spoken[1]
    torch._dynamo.reset()
    model = loaded(after)
    torch.testing.assert_close(torch.compile(model, backend="eager", fullgraph=True)(torch.ones(3)), out)
    assert not capsys.readouterr().out


def written(found: Iterable[Proposal | Declined]) -> list[Proposal]:
    """The changes of the file, without those of settings alone."""
    return [each for each in found if isinstance(each, Proposal) and each.edits]


def _nothing() -> object:
    import contextlib

    return contextlib.nullcontext()


@pytest.mark.parametrize(("body", "reason"), DECLINED.values(), ids=DECLINED)
def test_what_is_no_statement_of_its_own_is_declined(body: str, reason: str, tmp_path: Path) -> None:
    found = proposed(tmp_path, LOGGER + forward(body))
    assert [each for each in found if isinstance(each, Proposal) and each.edits] == []
    assert any(reason in each.reason for each in found if isinstance(each, Declined)), found


NOT_WRITTEN = (
    "rows = [1]\nprint(rows.pop())\nreturn x",
    "print('seen', counters.bump())\nreturn x",
    "print(self.tick())\nreturn x",
)
TESTS = {
    "x > 0": False,
    "x": False,
    "x.sum(0) > 0": False,
    "x.sum() > 0": True,
    "torch.isnan(x).any()": True,
    "x.dim() > 1 and x.mean() > 0": True,
    "len(x) > 2 or x.shape[0] > 1": True,
}


def test_what_may_have_an_effect_is_not_left_out(tmp_path: Path) -> None:
    for body in NOT_WRITTEN:
        found = proposed(tmp_path, forward(body))
        assert [each for each in found if isinstance(each, Proposal) and each.edits] == [], body
    body = "print(x.mean(), len(x.shape))\nprint(x[0])\nreturn x"
    unsafe = [each.unsafe for each in written(proposed(tmp_path, forward(body)))]
    assert unsafe == [None, "an argument is a call or an index, and compiled code would skip its side effects"]


@pytest.mark.parametrize("test", TESTS)
def test_a_test_that_may_raise_is_not_safe(test: str, tmp_path: Path) -> None:
    """Of several truth values Python raises: compiled code would not, once it does not ask."""
    found = proposed(tmp_path, forward(f"if {test}:\n    print('a')\nreturn x"))
    unsafe = {each.unsafe for each in found if isinstance(each, Proposal) and "is tested" in each.how}
    several = "its condition may be a tensor of several values, for which Python raises an error"
    assert unsafe == {None if TESTS[test] else several}


HIDDEN = {
    dedent("""\
        @property
        def size(self):
            COUNTS['n'] += 1
            return 3"""): ("note.size", "size"),
    dedent("""\
        @functools.cached_property
        def size(self):
            self.n = 1
            return 3"""): ("note.size", "size"),
    "def __str__(self):\n    self.n += 1\n    return 'a'": ("f'{note}'", "__str__"),
    "def __format__(self, how):\n    SEEN.append(how)\n    return 'a'": ("f'{note}'", "__format__"),
    dedent("""\
        @property
        def size(self):
            size = self.n * 2
            return size"""): ("note.size", None),
    "def size(self):\n    self.n += 1": ("note.shape", None),
    "def __str__(self):\n    SEEN.append(1)\n    return 'a'": ("'size', 3", None),
    "def mean(self):\n    self.n, mean = 0, 3\n    return mean": ("note.mean()", "mean"),
    "def mean(self):\n    return self.n / 2": ("note.mean()", None),
    "def __int__(self):\n    self.n += 1\n    return 1": ("int(note)", "__int__"),
    "@property\ndef size(self):\n    return next(self.left)": ("note.size", "size"),
    "@property\ndef size(self):\n    return self.log.append(1) or 3": ("note.size", "size"),
    dedent("""\
        @property
        def size(self):
            done = setattr(self, 'n', 1)
            return self.n"""): ("note.size", "size"),
    dedent("""\
        @property
        def size(self):
            for self.n in range(5):
                pass
            return 1"""): ("note.size", "size"),
    "@property\ndef size(self):\n    return COUNTS.update(n=1)": ("note.size", "size"),
    "@property\ndef size(self):\n    return torch.rand(1)": ("note.size", "size"),
    "@property\ndef size(self):\n    return self.total.add_(1)": ("note.size", "size"),
    "@property\ndef size(self):\n    return self.items[0]": ("note.size", "size"),
    "@property\ndef size(self):\n    return 3 in self.left": ("note.size", "size"),
    "@property\ndef size(self):\n    return sum(self.left)": ("note.size", "size"),
    "@property\ndef size(self):\n    return [v for v in self.left]": ("note.size", "size"),
    dedent("""\
        @property
        def size(self):
            return self.bump()

        def bump(self):
            self.n += 1"""): ("note.size", "size"),
    dedent("""\
        @property
        def size(self):
            return self.more

        @property
        def more(self):
            self.n = 1"""): ("note.size", "more"),
    "@functools.cached_property\ndef size(self):\n    return self.n": ("note.size", "size"),
    dedent("""\
        def bump(self):
            self.n += 1
            return 3

        size = property(bump)"""): ("note.size", "size"),
    dedent("""\
        def bump(self):
            self.n += 1
            return 'a'

        __str__ = bump"""): ("note", "__str__"),
    "size = property(lambda self: self.log.append(1))": ("note.size", "size"),
    "size = Counted()": ("note.size", "size"),
    "@property\ndef size(self):\n    return self.norm(self.n)": ("note.size", "size"),
    "@property\ndef size(self):\n    return self.part.norm(self.n)": ("note.size", "size"),
    "@property\ndef size(self):\n    return self.part.sum(0).norm()": ("note.size", None),
    dedent("""\
        try:
            size = 3
        except OSError:
            size = Counted()"""): ("note.size", "size"),
    "pass\n\nNote.__str__ = lambda self: SEEN.append(1)": ("note", "__str__"),
    dedent("""\
        def bump(self):
            self.n += 1

        Note.size = property(bump)"""): ("note.size", "size"),
    "def __str__(self):\n    return self.bump()": ("note", "__str__"),
    "def __repr__(self):\n    return f'{self.log.append(1)}'": ("[note]", "__repr__"),
    "def __round__(self):\n    self.n += 1\n    return 1": ("round(note)", "__round__"),
    "def __get__(self, one, kind=None):\n    SEEN.append(1)\n    return 1": ("self.kept", "__get__"),
    "def __getattr__(self, name):\n    self.log.append(name)": ("note.size", "__getattr__"),
    "def __getitem__(self, key):\n    self.n += 1\n    return 1": ("'%(a)s' % note", "__getitem__"),
    dedent("""\
        @property
        def size(self):
            if self.n > 2:
                return None
            return len(self.names)"""): ("note.size", None),
    dedent("""\
        @property
        def size(self):
            return self.n

        @size.setter
        def size(self, n):
            self.n = n"""): ("note.size", None),
    "@property\ndef device(self):\n    return next(self.parameters()).device": ("note.device", None),
    "@property\ndef size(self):\n    return self.total.mean().item(), self.total.shape[0]": ("note.size", None),
    "def extra_repr(self):\n    return super().extra_repr() + ', n={}'.format(self.n)": ("note", None),
    dedent("""\
        def __str__(self):
            return f'{type(self).__name__} {self.n:.2f}'

        __repr__ = __str__"""): ("note", None),
    "def __getitem__(self, key):\n    SEEN.append(key)\n    return 1": ("note, x.shape[0]", None),
    "def __call__(self):\n    self.n += 1": ("note", None),
}


@pytest.mark.parametrize("method", HIDDEN)
def test_what_runs_without_a_call_is_not_safe_if_it_has_an_effect(method: str, tmp_path: Path) -> None:
    shown, name = HIDDEN[method]
    body = "".join(f"    {line}\n" for line in method.split("\n"))
    text = f"import functools\nCOUNTS = {{'n': 0}}\nSEEN = []\n\n\nclass Note:\n{body}\n\nnote = Note()\n\n\n"
    found = proposed(tmp_path, text + forward(f"print({shown})\nreturn x"))
    unsafe = [each.unsafe for each in written(found)]
    expected = f"`{name}` in this file may run there, and does more than return a value"
    assert unsafe == [expected if name else None]


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (
            dedent("""\
            class Log:
                def info(self, *args):
                    SEEN.append(args)

            logger = Log()
        """),
            "info",
        ),
        (
            dedent("""\
            class Kept(logging.Handler):
                def emit(self, record):
                    SEEN.append(record)
        """),
            "emit",
        ),
        (
            dedent("""\
            class Kept(logging.Handler):
                def level(self):
                    SEEN.append(1)
        """),
            None,
        ),
    ],
)
def test_a_message_that_code_of_the_file_takes_is_not_safe(made: str, name: str | None, tmp_path: Path) -> None:
    made = made.replace("{", "{{").replace("}", "}}")
    text = f"import logging\nSEEN = []\nlogger = logging.getLogger(__name__)\n\n\n{made}\n\n"
    found = proposed(tmp_path, text + forward("logger.info('seen')\nreturn x"))
    expected = f"`{name}` in this file may run there, and does more than return a value" if name else None
    assert [each.unsafe for each in written(found)] == [expected]


@pytest.mark.parametrize(
    ("file", "is_safe"),
    [
        ("file=sys.stderr", True),
        ("file=sys.stdout", True),
        ("file=self.text", False),
        ("file=self.stdout", False),
        ("file=out", False),
        ("**options", False),
    ],
)
def test_what_is_printed_to_may_be_read(file: str, is_safe: bool, tmp_path: Path) -> None:
    found = proposed(
        tmp_path,
        dedent("""\
        import sys


    """)
        + forward(f"print('a', {file})\nreturn x"),
    )
    expected = "code may read its output stream, and compiled code writes nothing to it"
    assert [each.unsafe for each in written(found)] == [None if is_safe else expected]


CAUGHT = "it is in a `try` that may catch an exception of its evaluation"


def test_an_exception_may_be_caught_by_suppress_and_by_a_caller(tmp_path: Path) -> None:
    body = "with contextlib.suppress(RuntimeError):\n    print(x.item())\nreturn x"
    found = proposed(
        tmp_path,
        dedent("""\
        import contextlib


    """)
        + forward(body),
    )
    assert [each.unsafe for each in written(found)] == [CAUGHT]
    caller = "\n\n\ndef outer(model, x):\n    try:\n        return model.forward(x)\n    except RuntimeError:\n        return x\n"
    found = proposed(tmp_path, forward("print(x.item())\nreturn x") + caller)
    assert [each.unsafe for each in written(found)] == [CAUGHT]


def test_what_uses_up_an_iterator_is_not_safe(tmp_path: Path) -> None:
    used_up = (
        *("list(names)", "sum(names)", "*names", "', '.join(names)", "[n for n in names]"),
        *("[*names]", "(1, *self.left)", "3 in self.left", "max(1, 2, key=self.bump)", "torch.sum(x, out=y)"),
    )
    kept = ("3 in x.shape", "[*x.shape]", "list(x.shape)", "*x.shape", "sum([1, 2])", "[n for n in range(3)]")
    body = "\n".join([*(f"print({each})" for each in (*used_up, *kept)), "return x"])
    found = [each.unsafe for each in written(proposed(tmp_path, forward(body)))]
    assert [each is None for each in found] == [*(False for _ in used_up), *(True for _ in kept)]


MODULES = {
    "self.head.double().weight": ("self.head = nn.Linear(8, 8)", "self.head.double"),
    "self.head.cpu()": ("", "self.head.cpu"),
    "self.head.float().double().cpu().weight": ("", "self.head.float().double().cpu"),
    "head.float()": ("", "head.float"),
    "part.float()": ("", "part.float"),
    "x.float(), (x * 2).double(), y.cpu(), y.mean().float()": ("", None),
    "self.n.float()": ("self.register_buffer('n', torch.zeros(2))", None),
    "self.n.double()": ("self.n = nn.Parameter(torch.zeros(2))", None),
    "self.n.cpu()": ("self.n = torch.zeros(2).abs()", None),
    "self.n.cpu(), 1": ("self.n = torch.zeros(2)\nself.n = nn.Linear(2, 2)", "self.n.cpu"),
    "self.n.float()  # torch.nn": ("self.n = torch.nn.Linear(2, 2)", "self.n.float"),
    "self.head.weight.float(), x.grad.cpu()": ("", None),
    "self.head.weight.float()": ("self.head.weight = nn.Linear(2, 2)", "self.head.weight.float"),
}


@pytest.mark.parametrize("shown", MODULES)
def test_a_method_of_tensors_may_change_a_module(shown: str, tmp_path: Path) -> None:
    """`module.double()` changes the module: left out of what is compiled, its weights stay as they are."""
    init, name = MODULES[shown]
    told, _, note = shown.partition("  #")
    body = (
        f"y = self.lin(x)\nhead = self.head\nfor part in self.parts:\n    y = y + 1\nprint({told})  #{note}\nreturn y"
    )
    found = proposed(tmp_path, forward(body, init=init or "self.lin = nn.Linear(8, 8)"))
    expected = f"`{name}` changes its object in place if that is a module" if name else None
    assert [each.unsafe for each in written(found)] == [expected]


@pytest.mark.parametrize(
    ("call", "is_safe"),
    [
        ("self.norm(x)", False),
        ("self.norm()", False),
        ("self.block.norm(x)", False),
        ("head.norm(x)", False),
        ("x.norm(p), (x * 2).max(y), self.head.weight.max(x), torch.norm(x)", True),
        ("self.head.norm(2), head.sum(-1), self.head.mean((0, 1)), ', '.join(['a'])", True),
    ],
)
def test_what_has_the_name_of_a_method_may_be_a_module(call: str, is_safe: bool, tmp_path: Path) -> None:
    found = written(proposed(tmp_path, forward(f"y = x * 2\nhead = self.head\nprint({call})\nreturn y")))
    reason = f"`{call.partition('(')[0]}` may be a module or a stored function, and compiled code would not call it"
    assert [each.unsafe for each in found] == [None if is_safe else reason]


TAKEN = {
    dedent("""\
        import contextlib
        def outer(m, x, t):
            with contextlib.redirect_stdout(t):
                m(x)
    """): (*("redirect_stdout", "redirect_stdout"),),
    dedent("""\
        import sys
        def outer(m, x, t):
            sys.stdout = t
            m(x)
    """): ("sys.stdout", "sys.stdout"),
    dedent("""\
        def outer(m, x):
            with warnings.catch_warnings(record=True) as seen:
                m(x)
    """): (*(None, "catch_warnings"),),
    "__warningregistry__ = {}\n": (None, "__warningregistry__"),
    "logger.addFilter(lambda record: SEEN.append(record))\n": (None, "addFilter"),
    "logger.addHandler(logging.StreamHandler(TEXT))\n": (None, "StreamHandler"),
    "import sys\nlogger.addHandler(logging.StreamHandler(sys.stdout))\n": (None, None),
    "logging.basicConfig(stream=TEXT)\n": (None, "basicConfig"),
    "logging.basicConfig(level=10)\n": (None, None),
    "logger.warning = SEEN.append\n": (None, "logger.warning"),
}


@pytest.mark.parametrize("around", TAKEN)
def test_what_is_told_may_be_taken_elsewhere_in_the_file(around: str, tmp_path: Path) -> None:
    body = "print('a')\nlogger.warning('a')\nreturn x"
    found = [each.unsafe for each in written(proposed(tmp_path, LOGGER + around + forward(body)))]
    taken = "`{}` in this file may receive the message, and compiled code sends none"
    assert found == [taken.format(name) if name else None for name in TAKEN[around]]


@pytest.mark.parametrize(
    ("line", "raises"),
    [
        ("warnings.simplefilter('error')", True),
        ("warnings.filterwarnings(action='error')", True),
        ("warnings.simplefilter('ignore')", False),
    ],
)
def test_a_warning_may_be_raised(line: str, raises: bool, tmp_path: Path) -> None:
    text = f"{LOGGER}{line}\n\n\n" + forward("logger.warning('a')\nwarnings.warn('a')\nreturn x")
    name = line.partition(".")[2].partition("(")[0]
    reason = f"`{name}` in this file may receive the message, and compiled code sends none"
    assert [each.unsafe for each in written(proposed(tmp_path, text))] == [None, reason if raises else None]


@pytest.mark.parametrize(
    ("made", "is_safe"),
    [
        ("logging.getLogger('a')", True),
        ("transformers.utils.logging.get_logger(__name__)", True),
        ("Logger()", False),
        ("tracker.child()", False),
    ],
)
def test_what_is_called_like_a_logger_may_be_none(made: str, is_safe: bool, tmp_path: Path) -> None:
    text = f"import logging\nfrom tracking import Logger, tracker\n\nlogger = {made}\n\n\n"
    found = written(proposed(tmp_path, text + forward("logger.info('a')\nreturn x")))
    name = made.partition("(")[0]
    reason = f"`{name}` creates the logger, which may do more than log"
    assert [each.unsafe for each in found] == [None if is_safe else reason]


@pytest.mark.parametrize(
    ("call", "is_safe"), [("self.worker.join()", False), ("', '.join(['a'])", True), ("f'{x}'.join(['a'])", True)]
)
def test_a_thread_may_be_waited_for(call: str, is_safe: bool, tmp_path: Path) -> None:
    found = proposed(tmp_path, forward(f"print({call})\nreturn x"))
    assert [each.unsafe for each in written(found)] == ([None] if is_safe else [])


def test_a_queue_may_be_asked_in_a_test(tmp_path: Path) -> None:
    for call, is_kept in {"get()": False, "get(True)": False, "get(timeout=1)": False, "get('a')": True}.items():
        body = f"if x.sum() > self.left.{call}:\n    print('a')\nreturn x"
        found = [each for each in proposed(tmp_path, forward(body)) if isinstance(each, Proposal)]
        assert any("is tested" in each.how for each in found) == is_kept


@pytest.mark.parametrize(
    ("body", "is_safe"), [("def __init__(self, text):\n        SEEN.append(text)", False), ("pass", True)]
)
def test_a_warning_is_made_of_a_class(body: str, is_safe: bool, tmp_path: Path) -> None:
    text = f"{LOGGER}SEEN = []\n\n\nclass Odd(UserWarning):\n    {body}\n\n\n"
    found = written(proposed(tmp_path, text + forward("warnings.warn('a', Odd)\nreturn x")))
    hidden = "`__init__` in this file may run there, and does more than return a value"
    assert [each.unsafe for each in found] == [None if is_safe else hidden]


def test_what_sets_something_is_not_safe(tmp_path: Path) -> None:
    body = dedent("""\
        logging.addLevelName(5, 'a')
        logger.setLevel(10)
        logging.warning('a')
        return x""")
    found = [each.unsafe for each in written(proposed(tmp_path, LOGGER + forward(body)))]
    sets = "what it sets is set only in eager mode"
    assert found == [sets, sets, None]


def test_a_function_of_the_file_may_have_the_name_of_a_known_one(tmp_path: Path) -> None:
    text = dedent("""\
        def len(what):
            what.n += 1
            return 1


    """) + forward("print(len(x))\nreturn x")
    hidden = "`len` in this file may run there, and does more than return a value"
    assert [each.unsafe for each in written(proposed(tmp_path, text))] == [hidden]


def test_a_name_of_torch_that_the_file_deletes_is_none(tmp_path: Path) -> None:
    """Eager code asks for it when it is gone."""
    text = forward("print(x.shape)\nreturn x")
    found = proposed(tmp_path, text + "\n\ndel torch\n")
    assert written(found) == []
    assert any(
        "The name `torch` is assigned to something else here" in each.reason
        for each in found
        if isinstance(each, Declined)
    )
    after = change(tmp_path, "import torch as th\n" + text + "\n\ndel torch\n")
    assert "if not th.compiler.is_compiling():" in after


JOINED = [
    (
        "if x.shape[0] > 2 and x.shape[1] > 3:\n    print(x)",
        "if not {c} and x.shape[0] > 2 and x.shape[1] > 3:\n    print(x)",
    ),
    (
        dedent("""\
            if x.shape[0] > 9:
                x = x[0]
            elif x.shape[0] > 2:
                print(x.shape)"""),
        dedent("""\
            if x.shape[0] > 9:
                x = x[0]
            elif not {c} and x.shape[0] > 2:
                print(x.shape)"""),
    ),
    ("print(1)\nprint(2)", "if not {c}:\n    print(1)\n    print(2)"),
    (
        dedent("""\
        print(1)
        if not {c}:
            print(2)
        print(3)"""),
        dedent("""\
        if not {c}:
            print(1)
            print(2)
            print(3)"""),
    ),
    (
        "print(1)\n\nprint(2)",
        dedent("""\
        if not {c}:
            print(1)

        print(2)"""),
    ),
    (
        dedent("""\
        print(1)
        if not {c}:
            print(2)
        else:
            x = x + 1"""),
        None,
    ),
]


@pytest.mark.parametrize(("before", "after"), JOINED)
def test_a_guard_is_joined_with_what_is_there(before: str, after: str | None, tmp_path: Path) -> None:
    def text(body: str) -> str:
        return forward(f"{body}\nreturn x + 1".replace("{c}", "torch.compiler.is_compiling()"))

    made = change(tmp_path, text(before))
    if after is not None:
        assert made == text(after)
    else:
        assert made.count("is_compiling") == 2
