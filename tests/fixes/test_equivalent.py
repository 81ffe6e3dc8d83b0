"""Functions that are equivalent by the rules of Python alone, and such as only look alike."""

from __future__ import annotations

import ast
import itertools
import random
from collections.abc import Iterator
from textwrap import dedent

import pytest
from tcready.fixes.rewriting.equivalence import canonical_text, with_constants_on_the_right

EQUIVALENT = {
    "negation twice": ("if a and b: return 1", "if not (not a or not b): return 1"),
    "a negated operator": ("if a is None or b in c: return 1", "if not (a is not None and b not in c): return 1"),
    "branches exchanged": ("if a: return b\n else: return c", "if not a: return c\n else: return b"),
    "a conditional expression": ("return b if a is None else c", "return c if a is not None else b"),
    "an elif": (
        "if a: return 1\n elif b: return 2\n else: return 3",
        dedent("""\
            if not a:
              if not b: return 3
              else: return 2
             else: return 1"""),
    ),
    "a loop": ("while not (a and b): a = c", "while not a or not b: a = c"),
    "a local variable": ("x = a + 1\n return x", "y = a + 1\n return y"),
    "a variable assigned in a loop": ("for i in c:\n  a += i\n return a", "for j in c:\n  a += j\n return a"),
}
DIFFERENT = {
    "a value and its truth": ("return a and b", "return not (not a or not b)"),
    "another order of evaluation": ("if a and b: return 1", "if b and a: return 1"),
    "== and !=": ("if a == b: return 1\n else: return 2", "if a != b: return 2\n else: return 1"),
    "another local variable": ("x = 1\n y = 2\n return x", "x = 1\n y = 2\n return y"),
    "a global of the old name": ("x = a\n return x", "y = a\n return x"),
    "a global after a comprehension": ("b = [x for x in a]\n return x", "b = [y for y in a]\n return y"),
    "a function inside": ("x = a\n return lambda: x", "y = a\n return lambda: y"),
    "names that are read": ("x = a\n return locals()", "y = a\n return locals()"),
    "an import": ("import math as m\n m = a\n return m", "import math as m\n k = a\n return k"),
    "a handler": ("try: x = a()\n except b as e: x = e\n return x", "try: x = a()\n except b as e: e = e\n return e"),
    "a global that is declared": ("global x\n x = a", "global y\n y = a"),
    "a branch that is gone": ("if a: return b\n else: return c", "if a: return b\n return c if a else b"),
}


def function(body: str) -> ast.stmt:
    return ast.parse(f"def f(a, b, c):\n {body}\n").body[0]


@pytest.mark.parametrize("name", EQUIVALENT)
def test_equivalent_functions_are_recognised(name: str) -> None:
    one, other = EQUIVALENT[name]
    assert canonical_text(function(one)) == canonical_text(function(other))


@pytest.mark.parametrize("name", DIFFERENT)
def test_functions_that_may_differ_are_told_apart(name: str) -> None:
    one, other = DIFFERENT[name]
    assert canonical_text(function(one)) != canonical_text(function(other))


def test_parameters_keep_their_names() -> None:
    one, other = (ast.parse(f"def f({name}): return {name}").body[0] for name in "ab")
    assert canonical_text(one) != canonical_text(other)


def test_constants_go_to_the_right() -> None:
    tree = ast.parse(
        dedent("""\
        0 < x
        [1, 2] == x
        1 < x < 2
        1 < 2
        None is x""")
    )
    assert ast.unparse(with_constants_on_the_right(tree)).splitlines() == [
        "x > 0", "x == [1, 2]", "1 < x < 2", "1 < 2", "None is x",
    ]  # fmt: skip


def conditions(choose: random.Random, depth: int) -> str:
    """A condition of the names a, b and c."""
    if not depth or choose.random() < 0.3:
        return choose.choice("abc")
    kind = choose.choice(("not", "and", "or", "if"))
    first, second, third = (conditions(choose, depth - 1) for _ in range(3))
    if kind == "not":
        return f"(not {first})"
    return f"({first} {kind} {second})" if kind != "if" else f"({first} if {second} else {third})"


def texts(choose: random.Random) -> Iterator[str]:
    while True:
        test, name = conditions(choose, 2), choose.choice("xy")
        one, other = choose.choice((("1", "2"), ("2", "1")))
        yield f"{name} = a\n if {test}: {name} = {one}\n else: {name} = {other}\n return {name}"


def evaluated(body: str, values: tuple[bool, ...]) -> tuple[object, list[str]]:
    """What a function returns, and the names whose truth it asked for, in order."""
    asked: list[str] = []

    class Value:
        def __init__(self, name: str, *, truth: bool) -> None:
            self.name, self.truth = name, truth

        def __bool__(self) -> bool:
            asked.append(self.name)
            return self.truth

    space: dict[str, object] = {}
    exec(compile(ast.Module([function(body)], []), "<text>", "exec"), space)
    result = space["f"](*(Value(name, truth=value) for name, value in zip("abc", values, strict=True)))  # type: ignore[operator]
    return result, asked


def test_equivalent_functions_return_and_ask_the_same() -> None:
    choose = random.Random(0)
    drawn = list(dict.fromkeys(itertools.islice(texts(choose), 1500)))
    groups: dict[str, list[str]] = {}
    for text in drawn:
        groups.setdefault(canonical_text(function(text)), []).append(text)
    pairs = [(members[0], other) for members in groups.values() for other in members[1:]]
    assert len(pairs) > 100
    for one, other in pairs:
        for values in itertools.product((True, False), repeat=3):
            assert evaluated(one, values) == evaluated(other, values), (one, other)
