"""A Python loop runs once for each element of a dimension (`for i in range(x.shape[0])`)."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Loop
from tcready.static.domain.values import Plain, Sequence, options


def check(fact: Loop) -> Claim | None:
    for v in options(fact.value):
        if isinstance(v, Sequence) and v.kind in ("range", "iterator") and v.items is None:
            if any(isinstance(step, Plain) and step.origin == "shape" for step in options(v.element)):
                return Claim("loop over a dimension: it is unrolled, and recompiled for each new size")
    return None


RULE = Rule(
    code="TCR501",
    effect="recompile",
    level="warning",
    facts=(Loop,),
    check=check,
    no_rewrite="The loop is traced. If the sizes vary, mark them dynamic, or pad.",
    module=__name__,
)
