"""`nn.LSTM`, `nn.GRU` or `nn.RNN` is used."""

from collections.abc import Iterator

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Recurrent


def check(fact: Recurrent) -> Iterator[Claim]:
    if fact.use != "traversed":
        yield Claim(
            "a recurrent module is used: the function runs eagerly",
            confidence=fact.confidence,
            suppressed_by_config="allow_rnn",
            form=f"the frame of a module that is {fact.use}",
        )
    if fact.use != "held":
        yield Claim(
            "a recurrent module is used: the graph ends here",
            confidence=fact.confidence,
            effect="graph_break",
            suppressed_by_config="allow_rnn",
            form=f"a module that is {fact.use}",
        )


RULE = Rule(
    code="TCR406",
    effect="frame_skip",
    gb_ids=("GB0014", "GB0148", "GB4841", "GB0175", "GB0150"),
    settings=("allow_rnn",),
    facts=(Recurrent,),
    check=check,
    no_rewrite="The code needs no change: with `torch._dynamo.config.allow_rnn`, Dynamo traces it.",
    module=__name__,
)
