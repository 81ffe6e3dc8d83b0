"""An expression without an `if` statement requires the truth value of a tensor."""

from __future__ import annotations

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call, Contains, Extremum, Test
from tcready.static.domain.values import Sequence, Value, members_of, options, tensor_of

WORDS = {
    "comprehension": "the `if` of a comprehension",
    "filter": "`filter`",
    "compare": "a comparison chain",
    "match": "`match`",
    "members": "an element-wise comparison of containers",
    "order": "sorting",
    "order of parts": "sorting",
}


def check(fact: Test | Call | Contains | Extremum) -> Claim | None:
    if isinstance(fact, Extremum):
        return Claim("Python's `max` or `min` with a key, over tensors: Dynamo does not trace it", form="key")
    if isinstance(fact, Contains):
        if tensor_of(fact.container):
            return Claim("`in` needs a Python bool from a tensor: the function runs eagerly", effect="frame_skip")
        return None
    if isinstance(fact, Test):
        sorts = fact.kind in ("order", "order of parts")
        form = fact.kind if fact.kind == "order of parts" else ""
        if sorts and not tensor_of(fact.value):
            message = "sorting by objects or modules: Dynamo sorts only by Python constants"
            return Claim(message, form="sorting by objects")
        if fact.kind in WORDS and tensor_of(fact.value):
            return Claim(f"{WORDS[fact.kind]} needs the truth value of a tensor, which Dynamo does not know", form=form)
        return None
    name = fact.constructed
    if name in ("any", "all") and fact.args and walks_tensors(fact.args[0]):
        return Claim(f"Python's `{name}` needs the truth values of tensors: a branch that Dynamo cannot decide")
    return None


def walks_tensors(value: Value) -> bool:
    """A tensor, or a list, tuple or iterator with a tensor among its members."""
    return tensor_of(value) is not None or any(
        isinstance(v, Sequence) and any(tensor_of(m) for m in members_of(v)) for v in options(value)
    )


RULE = Rule(
    code="TCR105",
    gb_ids=("GB0170", "GB8335", "GB0207", "GB0193", "GB6622", "GB0033", "GB0124", "GB5687"),
    facts=(Test, Call, Contains, Extremum),
    check=check,
    rewriters=("tests.written_anew", "truths.rewrite_decisions"),
    module=__name__,
)
