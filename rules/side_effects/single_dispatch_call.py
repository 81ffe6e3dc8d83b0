"""A `functools.singledispatch` function is called in compiled code."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call
from tcready.static.domain.values import Const, Plain, options, tensor_of


def check(fact: Call) -> Claim | tuple[Claim, ...] | None:
    if fact.constructed != "functools.singledispatch()" or not fact.args:
        return None
    if tensor_of(fact.args[0]):
        return Claim(
            "a `singledispatch` function is called with a tensor: its table is guarded, so the next call recompiles",
            effect="recompile",
            level="warning",
        )
    if any(isinstance(v, (Const, Plain)) for v in options(fact.args[0])):  # of other objects Dynamo knows the type
        return (
            Claim(
                "a `singledispatch` function is called with a number or a string: the graph ends here",
                form="a number or a text",
            ),
            Claim(
                "a `singledispatch` function is called with a number or a string: its table is guarded, so the next call "
                "recompiles",
                effect="recompile",
                level="warning",
                form="a number or a text, traced",
            ),
        )
    return None


RULE = Rule(
    code="TCR310",
    gb_ids=("GB0811",),
    facts=(Call,),
    check=check,
    no_rewrite="The function depends on types that the code does not show. Test with `isinstance`.",
    module=__name__,
)
