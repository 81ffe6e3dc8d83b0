"""Texts of two rules on members of enums, and the enums of their samples."""

from tcready.schema.words import Effect
from tcready.static.engine.facts import DIFFERS, RAISES, OfMember
from tcready.static.rule import Claim


def claim_of_use(fact: OfMember, message: str, broken: Effect) -> Claim:
    """Return the claim about the use of a member; `broken` is the effect if that is a break."""
    effects: dict[str, Effect] = {DIFFERS: "wrong_result", RAISES: "compile_error"}
    return Claim(
        message, confidence=None if fact.sure else "medium", effect=effects.get(fact.outcome, broken)
    )
