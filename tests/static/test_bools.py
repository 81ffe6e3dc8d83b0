"""Operators of bools, `hasattr` and `getattr`: what is decided, and what is usual, of values that are known in part."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from probing import HEAD, forward
from reading import PINNED, read
from tcready.portable.options import ReadOptions
from tcready.static.diagnostics.rule import Rule
from tcready.static.domain.facts import Call, Fact
from tcready.static.domain.folding import binary
from tcready.static.domain.values import TAINTED, UNKNOWN, Const, Plain, Value, likely, prefer, truth

TRUE, FALSE, ANY = Const(True), Const(False), Plain("bool")
EITHER = frozenset({True, False})
VALUES: dict[str, tuple[Value, frozenset[bool], frozenset[bool]]] = {
    "true": (TRUE, frozenset({True}), frozenset({True})),
    "false": (FALSE, frozenset({False}), frozenset({False})),
    "a bool": (ANY, EITHER, EITHER),
    "of a call": (Plain("bool", "call"), EITHER, EITHER),
    "usually true": (prefer(TRUE, FALSE), EITHER, frozenset({True})),
    "usually false": (prefer(FALSE, ANY), EITHER, frozenset({False})),
    "not known": (UNKNOWN, EITHER, EITHER),
    "of an object that is not known": (TAINTED, EITHER, EITHER),
}
"""Each with all that it may be, and all that it usually is."""
OPERATORS: dict[str, Callable[[bool, bool], bool]] = {
    "BitOr": operator.or_,
    "BitAnd": operator.and_,
    "BitXor": operator.xor,
}


def common(answers: set[bool]) -> bool | None:
    return answers.pop() if len(answers) == 1 else None


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize(("left", "right"), [*itertools.product(VALUES, VALUES)])
def test_an_operator_decides_what_all_possible_bools_decide(op: str, left: str, right: str) -> None:
    apply = OPERATORS[op]
    (one, all_ones, usual_ones), (other, all_others, usual_others) = VALUES[left], VALUES[right]
    made = binary(op, one, other)
    assert truth(made) == common({apply(a, b) for a in all_ones for b in all_others})
    usual = common({apply(a, b) for a in usual_ones for b in usual_others})
    if usual is not None:
        assert truth(likely(made)) == usual


TESTS = {
    "tracing, joined with what is not known": (
        """\
        test = torch.compiler.is_compiling() or torch.jit.is_tracing()
        test |= elsewhere(x)""",
        True,
    ),
    "tracing, unless something raises": (
        """\
        try:
            test = torch.compiler.is_compiling() if hasattr(torch, "compiler") else False
        except Exception:
            test = False
        test |= elsewhere(x)""",
        True,
    ),
    "an attribute that no tensor has": ("test = hasattr(x, 'jax')", False),
    "an attribute of None": ("test = hasattr(None, 'shape')", False),
    "a module of torch": ("test = hasattr(torch, 'compiler')", True),
    "the default for an object that is not known": ("test = getattr(self.config, 'outputs', False)", False),
    "the default for what only an unusual path sets": ("test = getattr(self, 'checkpointing', False)", False),
    "what only an unusual path sets": ("test = hasattr(self, 'checkpointing')", False),
}
INIT = """\
self.config = config
if getattr(config, 'checkpointing', False):
    self.checkpointing = True"""


@pytest.mark.parametrize("name", TESTS)
def test_the_usual_side_of_a_test_is_known(name: str, tmp_path: Path) -> None:
    body, answer = TESTS[name]
    sides = "\nif test:\n    see(x, 'true')\nelse:\n    see(x, 'false')"
    path = tmp_path / "model.py"
    path.write_text(HEAD + "from nowhere import elsewhere\n" + forward(dedent(body) + sides, INIT), "utf-8")
    likely_sides: set[str] = set()

    def check(fact: Fact) -> None:
        if isinstance(fact, Call) and fact.name == "probe.see" and fact.where.confidence != "low":
            assert isinstance(fact.args[1], Const)
            likely_sides.add(str(fact.args[1].value))

    rule = Rule("TST001", (Call,), check, "probe", "slow", "note")
    read([str(path)], ReadOptions(root=tmp_path, mode="infer", search_path=(tmp_path,), torch=PINNED), [rule])
    assert likely_sides == {str(answer).lower()}
