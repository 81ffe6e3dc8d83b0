"""What two rules say of an attribute that Dynamo has not looked up."""

from tcready.static.engine.facts import Unresolved
from tcready.static.rule import Claim


def used(what: str, fact: Unresolved) -> Claim:
    """The claim that something is asked of it; `what` it is stands first."""
    message = f"{what} is used: Dynamo does not resolve it"
    return (
        Claim(message, effect="frame_skip") if fact.gives_up else Claim(f"{message}, and the graph ends here")
    )
