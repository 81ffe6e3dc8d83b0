"""`unique`, `bincount`, `one_hot`, `repeat_interleave` or `ctc_loss` has a data-dependent result size."""

from __future__ import annotations

from tcready.fixes.rewriters.names import SELECTING, operands
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call

MESSAGE = "the size of the result depends on the values of a tensor"
NEEDS = "the values of a tensor are needed while tracing: the graph ends here"

SETTING = "capture_dynamic_output_shape_ops"


def check(fact: Call) -> Claim | None:
    if operands(fact, "ctc_loss") is not None:  # the tables have no call of it
        return Claim(MESSAGE)
    if fact.reads not in ("size", "values") or operands(fact, *SELECTING) is not None:
        return None
    if fact.method == "__call__":
        spared = f"; `{fact.specified_by[0]}=` would avoid it" if fact.specified_by else ""
        return Claim((MESSAGE if fact.reads == "size" else NEEDS) + spared)
    hint = f"; {fact.specified_by[0]}=n would specify it" if fact.specified_by else ""
    if fact.reads == "size":
        return Claim(MESSAGE + hint, suppressed_by_config=SETTING)
    return Claim((MESSAGE if hint else NEEDS) + hint)


RULE = Rule(
    code="TCR206",
    gb_ids=("GB0036", "GB0246", "GB0033", "GB0124"),
    settings=(SETTING,),
    facts=(Call,),
    check=check,
    rewriters=("masks.rewrite_count",),
    module=__name__,
)
