"""A call is used that the selected torch does not trace, but a newer torch does."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call
from tcready.static.domain.values import ExternalInstance, Instance, holds_tensor, options


def check(fact: Call) -> Claim | None:
    name = fact.constructed or fact.name or ""
    if fact.traced_since is None or (name == "copy.deepcopy" and breaks_in_any_torch(fact)):
        return None
    since = ".".join(map(str, fact.traced_since))
    shown = name.removeprefix("torch.nn.Module.")
    return Claim(f"`{shown}` is traced since torch {since}: in older versions, the graph ends here")


def breaks_in_any_torch(fact: Call) -> bool:
    """A tensor, or an object of a library, is copied."""
    return any(
        holds_tensor(arg) or isinstance(v, ExternalInstance) for arg in fact.args[:1] for v in options(arg)
    ) and not any(isinstance(v, Instance) for arg in fact.args[:1] for v in options(arg))


RULE = Rule(
    code="TCR417",
    gb_ids=("GB0179", "GB0023", "GB0059", "GB0007", "GB0156"),
    facts=(Call,),
    check=check,
    no_rewrite="A newer torch traces it.",
    fallback=True,
    module=__name__,
)
