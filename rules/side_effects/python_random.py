"""Random numbers of Python or numpy are drawn in compiled code."""

from __future__ import annotations

from tcready.fixes.rewriters.names import sizes
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Arithmetic, Call, Index, Test
from tcready.static.domain.values import NONE, Tensor, is_captured, options
from tcready.static.library.semantics import GENERATORS

BRANCHES = frozenset({"if", "while", "ifexp", "and", "or", "comprehension"})
"""What asks for the truth of a draw in a way that ends the graph; an `assert` is traced."""
SCALAR = frozenset("rand randn randint uniform normal random random_sample sample".split())
"""What torch draws in place of numpy: an array becomes a tensor, one number would have to be read (measured; so would
whatever `choice` picks)."""


def check(fact: Call | Test | Index | Arithmetic) -> Claim | None:
    if isinstance(fact, Arithmetic):
        return Claim("arithmetic with a captured random number: the function runs eagerly", None, "frame_skip")
    if isinstance(fact, Index):
        bound = any(map(is_captured, fact.slices))
        if bound or (isinstance(fact.base, Tensor) and any(map(is_captured, fact.parts))):
            message = "an index by a captured random number: its value has to be read"
            return Claim(message, None, "frame_skip" if bound else None)
        return None
    if isinstance(fact, Test):
        drawn = [is_captured(v) for v in options(fact.value)]
        if any(drawn) and fact.kind in BRANCHES:
            message = "branch on a captured random number: Dynamo cannot know which branch runs"
            return Claim(message, None if all(drawn) else "medium")
        return None
    name = fact.constructed
    if name == "range" and any(map(is_captured, fact.args)):
        return Claim("`range` of a captured random number: the function runs eagerly", None, "frame_skip")
    if any(map(is_captured, sizes(fact))):
        return Claim("a captured random number is used as a size: its value has to be read, and the graph ends here")
    if fact.receiver is not None and set(GENERATORS.values()).intersection(options(fact.receiver)):
        return Claim(f"`{fact.method}` of a numpy generator in compiled code: the graph ends here")
    module, _, draw = name.rpartition(".")
    breaks = draw == "choice" or (draw in SCALAR and scalar(fact, draw))
    if (module == "random" and fact.gb_id) or (module == "numpy.random" and (fact.gb_id or breaks)):
        return Claim(f"`{name}` in compiled code: the graph ends here")
    if module == "numpy.random" and draw in SCALAR:
        return Claim(
            f"`{name}` is drawn by torch in compiled code: the seed of numpy is ignored",
            None,
            "wrong_result",
            "warning",
        )
    return None


def scalar(fact: Call, draw: str) -> bool:
    """The draw gives one number: no shape is asked for."""
    if draw in ("rand", "randn", "random", "random_sample", "sample"):
        return not fact.args and fact.keyword("size") in (None, NONE)
    return fact.keyword("size") in (None, NONE) and len(fact.args) < 3


RULE = Rule(
    code="TCR306",
    gb_ids=("GB0007", "GB0033", "GB0124", "GB0156", "GB0170", "GB0213", "GB0294", "GB4841"),
    facts=(Call, Test, Index, Arithmetic),
    check=check,
    rewriters=("state.rewrite_random",),
    module=__name__,
)
