"""Locks: not taken where it is compiled, if what they guard is not written to, or filled once; declined otherwise."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from rewriting import assert_same, change, forward, loaded, proposed
from tcready.fixes.rewriting.suggestions import Proposal
from tcready.static.diagnostics.rule import Declined

HEAD = dedent("""\
    import threading
    from threading import RLock as Guard

    LOCK = threading.Lock()
""")
HEAD += dedent("""\
    TABLE = [1.0]
    RATE = 1.0

""")
LOCK = "self.lock = threading.Lock()"
UNLOCKED = {
    "of a module": (
        LOCK,
        dedent("""\
        y = x * 2
        with self.lock:  # alone
            z = torch.relu(y)
        return z + y"""),
    ),
    "of a file": ("", "with LOCK, torch.enable_grad():\n    y = (x * 2).sigmoid()\nreturn y"),
    "of another name": ("self.guard = Guard()", "y = x * 2\nwith self.guard:\n    return y + 1"),
}
FILLED = {
    "an item": (
        f"{LOCK}\nself.c = {{}}",
        dedent("""\
            n = x.shape[1]
            with self.lock:
                if n not in self.c:
                    self.c[n] = torch.arange(n).float()
                t = self.c[n]
            return x + t"""),
    ),
    "an attribute": (
        f"{LOCK}\nself.t = None",
        dedent("""\
            with self.lock:
                if self.t is None:
                    self.t = torch.ones(8)
            return x + self.t"""),
    ),
}
OTHER = "\n    def reset(self):\n        with self.lock:\n            self.t = None\n\n    def kept(self):\n        self.c[0] = 1\n"
OTHER += "\n    def table(self, n):\n        return torch.arange(n)\n"
OTHER += "\n    def empty(self):\n        self.d.clear()\n\n    def renew(self):\n        global RATE\n"
OTHER += "        RATE = 2.0\n        TABLE[0] = RATE\n"
DECLINED = {
    "a counter": (
        f"{LOCK}\nself.n = 0",
        "with self.lock:\n    self.n += 1\nreturn x",
        "compiled code does that after the graph has run, without the lock",
    ),
    "a list": (
        f"{LOCK}\nself.s = []",
        "with self.lock:\n    self.s.append(1)\nreturn x",
        "compiled code does that after the graph has run, without the lock",
    ),
    "in place": (
        LOCK,
        "with self.lock:\n    x.add_(1)\nreturn x",
        "compiled code does that after the graph has run, without the lock",
    ),
    "in place, by a name": (
        LOCK,
        "with self.lock:\n    x += 1\nreturn x",
        "compiled code does that after the graph has run, without the lock",
    ),
    "filled by what counts": (
        f"{LOCK}\nself.c = {{}}",
        dedent("""\
            with self.lock:
                if 1 not in self.c:
                    self.c[1] = self.kept()
            return x"""),
        "may write",
    ),
    "filled twice": (
        f"{LOCK}\nself.t = None",
        dedent("""\
            with self.lock:
                if self.t is None:
                    self.t = x
                else:
                    self.t = x * 2
            return x"""),
        "compiled code does that after the graph has run, without the lock",
    ),
    "emptied elsewhere": (
        f"{LOCK}\nself.t = None",
        dedent("""\
            with self.lock:
                if self.t is None:
                    self.t = torch.ones(8)
            return x + self.t"""),
        "Read it before the compiled code",
    ),
    "changed elsewhere": (
        f"{LOCK}\nself.c = {{}}",
        dedent("""\
            with self.lock:
                if 1 not in self.c:
                    self.c[1] = torch.ones(8)
                t = self.c[1]
            return x + t"""),
        "Read it before the compiled code",
    ),
    "emptied by a method": (
        f"{LOCK}\nself.d = {{}}",
        dedent("""\
            with self.lock:
                if 1 not in self.d:
                    self.d[1] = torch.ones(8)
                t = self.d[1]
            return x + t"""),
        "Read it before the compiled code",
    ),
    "of the file, changed elsewhere": (
        "",
        "with LOCK:\n    y = x * TABLE[0]\nreturn y",
        "Read it before the compiled code",
    ),
    "of the file, set elsewhere": ("", "with LOCK:\n    y = x * RATE\nreturn y", "Read it before the compiled code"),
    "into what is given": (
        LOCK,
        "with self.lock:\n    torch.add(x, 1, out=x)\nreturn x",
        "compiled code does that after the graph has run, without the lock",
    ),
    "a module": (f"{LOCK}\nself.l = nn.ReLU()", "with self.lock:\n    y = self.l(x)\nreturn y", "may write"),
    "its value": (LOCK, "with self.lock as held:\n    y = x * 2\nreturn y", "is used"),
    "made elsewhere": ("self.lock = LOCK", "with self.lock:\n    y = x * 2\nreturn y", "no form"),
    "a semaphore": ("self.s = threading.Semaphore()", "with self.s:\n    y = x * 2\nreturn y", "no form"),
}


def inputs() -> tuple[object, ...]:
    import torch

    return (torch.randn(4, 8, requires_grad=True),)


@pytest.mark.torch
@pytest.mark.parametrize(("init", "body"), UNLOCKED.values(), ids=UNLOCKED)
def test_what_is_not_written_to_needs_no_lock(init: str, body: str, tmp_path: Path) -> None:
    before = HEAD + forward(body, init=init)
    after = change(tmp_path, before)
    assert_same(before, after, inputs)
    assert after.count("import contextlib\n") == 1
    assert after.count("# alone") == before.count("# alone")


@pytest.mark.torch
@pytest.mark.parametrize(("init", "body"), FILLED.values(), ids=FILLED)
def test_what_is_filled_once_needs_no_lock(init: str, body: str, tmp_path: Path) -> None:
    import torch

    before = HEAD + forward(body, init=init)
    (found,) = [each for each in proposed(tmp_path, before) if isinstance(each, Proposal)]
    assert "two threads may fill at once" in (found.unsafe or "")
    model = loaded(change(tmp_path, before))
    torch._dynamo.reset()
    x = torch.randn(4, 8)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), loaded(before)(x))


@pytest.mark.parametrize(("init", "body", "reason"), DECLINED.values(), ids=DECLINED)
def test_what_may_need_the_lock_is_declined(init: str, body: str, reason: str, tmp_path: Path) -> None:
    found = proposed(tmp_path, HEAD + forward(body, init=init) + OTHER)
    assert [each for each in found if isinstance(each, Proposal) and each.rule == "TCR407"] == []
    assert any(reason in each.reason for each in found if isinstance(each, Declined)), found
