"""What two rules say of a member of an enum."""

from tcready.schema.words import Effect
from tcready.static.engine.facts import DIFFERS, RAISES, OfMember
from tcready.static.rule import Claim


def claimed(fact: OfMember, message: str, broken: Effect) -> Claim:
    """The claim that something comes of a member; `broken` is the effect if that is a break."""
    effects: dict[str, Effect] = {DIFFERS: "wrong_result", RAISES: "compile_error"}
    return Claim(
        message, confidence=None if fact.sure else "medium", effect=effects.get(fact.outcome, broken)
    )
