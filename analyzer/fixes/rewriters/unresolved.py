"""Texts of two rules on attributes that Dynamo has not looked up."""

from tcready.static.diagnostics.rule import Claim
from tcready.static.domain.facts import Unresolved


def claim_of_use(what: str, fact: Unresolved) -> Claim:
    """Return the claim about a use of it; `what` describes it and comes first."""
    message = f"{what} is used: Dynamo does not resolve it"
    return Claim(message, effect="frame_skip") if fact.gives_up else Claim(f"{message}, and the graph ends here")
