"""The time that is only told or kept: left out of what is compiled; where it decides something, declined."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from rewriting import assert_same, change, forward, proposed
from tcready.fixes.rewriting.suggestions import Proposal
from tcready.static.diagnostics.rule import Declined

HEAD = dedent("""\
    import logging
    import time
    from datetime import datetime
    from time import perf_counter as now

""")
HEAD += "logger = logging.getLogger(__name__)\n\n"
TOLD = {
    "printed": (
        "",
        dedent("""\
            start = time.time()  # begin
            y = x * 2
            # told
            print('took', time.time() - start)
            return y"""),
        None,
    ),
    "logged": (
        "",
        dedent("""\
            begun = now()
            y = x * 2
            seconds = now() - begun
            logger.debug('%s for %s', seconds, y.shape)
            return y"""),
        None,
    ),
    "in a loop": (
        "",
        dedent("""\
            total = 0.0
            for i in range(2):
                begun = time.perf_counter()
                x = x + i
                total += time.perf_counter() - begun
            print(f'{total} s')
            return x * 2"""),
        None,
    ),
    "not used": ("", "y = x * 2\nday = datetime.now()\nreturn y", None),
    "kept": (
        "self.last = 0.0",
        "y = x * 2\nself.last = time.monotonic()\nreturn y",
        "the stored times are those of eager calls only",
    ),
    "in a try": (
        "",
        dedent("""\
            y = x * 2
            try:
                print(time.time())
            except OSError:
                y = y + 1
            return y"""),
        "it is in a `try` that may catch an exception of its evaluation",
    ),
}
DECLINED = {
    "a branch": (
        "",
        dedent("""\
        t = time.time()
        y = x * 2
        if t > 5:
            y = y + 1
        return y"""),
        "A condition, a loop or an inner function uses the time",
    ),
    "The function returns the time, or compiled code uses it": (
        "",
        "t = time.time()\nreturn x * 2, t",
        "The function returns the time, or compiled code uses it",
    ),
    "a factor": ("", "t = time.time()\ny = x * t\nreturn y", "The function returns the time, or compiled code uses it"),
    "handed on": ("", "t = time.time()\nself.tell(t)\nreturn x * 2", "compiled calls would be missing"),
    "a list": (
        "self.times = []",
        "y = x * 2\nself.times.append(time.time())\nreturn y",
        "compiled calls would be missing",
    ),
    "an item": ("self.t = {}", "y = x * 2\nself.t['a'] = time.time()\nreturn y", "compiled calls would be missing"),
    "kept, and begun nowhere": (
        "",
        "self.last = time.time()\nreturn x * 2",
        "the assignment of `self.last`, and `__init__` gives it no value",
    ),
    "kept, and read": (
        "self.last = 0.0",
        "self.last = time.time()\nreturn x * self.last",
        "Compiled code reads `self.last`",
    ),
    "a parameter": (
        "",
        dedent("""\
        y = x * 2
        x = time.time()
        print(x)
        return y"""),
        "The function returns the time, or compiled code uses it",
    ),
    "a global": ("", "global t\nt = time.time()\nreturn x * 2", "whose uses tcready does not follow"),
    "with an effect": ("", "print(time.time(), self.tick())\nreturn x * 2", "`self.tick()` may have a side effect"),
    "named on the way": ("", "print(t := time.time())\nreturn x * t", "within an expression"),
    "on a line with others": (
        "",
        "t = time.time(); y = x * 2\nreturn y",
        "Another statement is on the line that uses the time",
    ),
    "one of two": ("", "y, t = x * 2, time.time()\nreturn y", "whose uses tcready does not follow"),
    "added to a tensor in place": (
        "",
        dedent("""\
            y = x * 2
            t = y
            t += time.time()
            print(t.shape)
            return y"""),
        "which may be a tensor or list that other code holds",
    ),
    "added to a buffer in place": (
        "self.b = torch.zeros(8)",
        dedent("""\
            t = self.b
            t += time.time()
            print(t.shape)
            return x * 2"""),
        "which may be a tensor or list that other code holds",
    ),
    "added to a list": (
        "self.times = []",
        "y = x * 2\nself.times += [time.time()]\nreturn y",
        "which may be a tensor or list that other code holds",
    ),
    "told in a function inside": (
        "",
        dedent("""\
            t = time.time()
            def tell():
                print(t)
            y = x * 2
            tell()
            return y"""),
        "An inner function uses `t`",
    ),
    "its names are asked for": (
        "",
        "t = time.time()\nprint(t)\nreturn x * len(locals())",
        "The function calls `locals`",
    ),
    "its names are listed": ("", "t = time.time()\nprint(t)\nreturn x * len(dir())", "The function calls `dir`"),
    "no clock": ("", "time.sleep(0)\nreturn x * 2", "cannot query the system"),
}


def inputs() -> tuple[object, ...]:
    import torch

    return (torch.randn(4, 8, requires_grad=True),)


@pytest.mark.torch
@pytest.mark.parametrize(("init", "body", "unsafe"), TOLD.values(), ids=TOLD)
def test_a_time_that_is_told_is_left_out_of_what_is_compiled(
    init: str, body: str, unsafe: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = HEAD + forward(body, init=init)
    found = [each for each in proposed(tmp_path, before) if isinstance(each, Proposal) and each.rule == "TCR305"]
    assert {each.unsafe for each in found} == {unsafe}
    after = before
    for _ in range(3):  # what another clock tells is another change
        left = [each for each in proposed(tmp_path, after) if isinstance(each, Proposal) and each.edits]
        after = change(tmp_path, after) if left else after
    assert_same(before, after, inputs)
    told = [line for line in capsys.readouterr().out.splitlines() if line]
    assert len(told) == 2 * ("print(" in body), "eager code alone, before and after"
    for comment in ("# begin", "# told"):
        assert after.count(comment) == before.count(comment)


@pytest.mark.parametrize(("init", "body", "reason"), DECLINED.values(), ids=DECLINED)
def test_a_time_that_decides_something_is_declined(init: str, body: str, reason: str, tmp_path: Path) -> None:
    found = proposed(tmp_path, HEAD + forward(body, init=init))
    assert [each for each in found if isinstance(each, Proposal) and each.rule == "TCR305"] == []
    assert any(reason in each.reason for each in found if isinstance(each, Declined)), found


HELPER = "\n\n    def due(self):\n        return time.time() - self.last > 60\n"
OWN = {
    "read in a method that is called": (
        HEAD + forward("y = x * 2\nself.last = time.time()\nreturn y * self.due()", init="self.last = 0.0").rstrip()
        + HELPER,
        "Compiled code reads `self.last`",
    ),
    "a function of the file that is called print": (
        HEAD + forward("t = time.time()\nprint(t)\nreturn x * 2") + "\n\ndef print(*a):\n    M.n = 1\n",
        "a function of this file",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), OWN.values(), ids=OWN)
def test_what_the_rest_of_the_file_does_with_a_time_is_asked(text: str, reason: str, tmp_path: Path) -> None:
    found = proposed(tmp_path, text)
    assert [each for each in found if isinstance(each, Proposal) and each.rule == "TCR305"] == []
    assert any(reason in each.reason for each in found if isinstance(each, Declined)), found


def test_an_operator_of_the_file_may_have_an_effect(tmp_path: Path) -> None:
    text = HEAD + forward("t = time.time() + self.log\nprint(t)\nreturn x * 2", init="self.log = Tally()")
    text += "\n\nclass Tally:\n    def __radd__(self, what):\n        self.n = 1\n        return 0\n"
    found = [each for each in proposed(tmp_path, text) if isinstance(each, Proposal) and each.rule == "TCR305"]
    assert found
    assert all("`__radd__` in this file" in (each.unsafe or "") for each in found)


def test_what_tells_the_time_may_be_no_logger(tmp_path: Path) -> None:
    text = HEAD + forward("y = x * 2\nself.log.info(time.time())\nreturn y", init="self.log = Tally()")
    text += "\n\nclass Tally:\n    def info(self, what):\n        self.n = 1\n"
    found = [each for each in proposed(tmp_path, text) if isinstance(each, Proposal) and each.rule == "TCR305"]
    assert found
    assert all("may do more than log" in (each.unsafe or "") for each in found)


def test_what_follows_is_put_below_one_test(tmp_path: Path) -> None:
    text = HEAD + forward(
        dedent("""\
        y = x * 2
        start = now()
        # why
        print(now() - start)  # told
        return y""")
    )
    assert change(tmp_path, text) == text.replace(
        "        start = now()\n        # why\n        print(now() - start)  # told\n",
        "        if not torch.compiler.is_compiling():\n            start = now()\n            # why\n"
        "            print(now() - start)  # told\n",
    )


LOOP = dedent("""\
    last = now()
    for i in range(3):
        x = x + i
        this = now()
        print(i, this - last)
        last = this
    return x""")


def test_times_that_are_told_together_are_left_out_together(tmp_path: Path) -> None:
    """One change takes both clocks: after it, nothing is left to guard, and no guard stands within another."""
    text = HEAD + forward(LOOP)
    found = [each for each in proposed(tmp_path, text) if isinstance(each, Proposal) and each.rule == "TCR305"]
    assert {each.unsafe for each in found} == {None}
    assert len({each.edits for each in found}) == 1
    after = change(tmp_path, text)
    guard = "            if not torch.compiler.is_compiling():\n"
    assert f"{guard}                this = now()\n                print(i, this - last)\n" in after
    assert after.count("is_compiling()") == 2
    assert not any(isinstance(each, Proposal) and each.edits for each in proposed(tmp_path, after))


def test_what_is_guarded_is_not_guarded_again(tmp_path: Path) -> None:
    body = dedent("""\
            if not torch.compiler.is_compiling():
                last = now()
            x = x + 1
            this = now()
            if not torch.compiler.is_compiling():
                print(this - last)
            return x""")
    text = HEAD + forward(body)
    assert change(tmp_path, text) == text.replace(
        "        this = now()\n", "        if not torch.compiler.is_compiling():\n            this = now()\n"
    )
