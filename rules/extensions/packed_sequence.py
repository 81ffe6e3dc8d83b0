"""A packed sequence is created or unpacked in compiled code."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call


def check(fact: Call) -> Claim | None:
    module, _, name = fact.constructed.rpartition(".")
    if module == "torch.nn.utils.rnn" and fact.gb_id:
        return Claim(f"`{name}` depends on lengths that are data: the graph ends here", regardless=True)
    return None


RULE = Rule(
    code="TCR409",
    gb_ids=("GB0007",),
    facts=(Call,),
    check=check,
    no_rewrite="The size of a packed sequence depends on data. Padded tensors and a mask are another algorithm.",
    module=__name__,
)
