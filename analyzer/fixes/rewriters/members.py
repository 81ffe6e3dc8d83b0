"""Texts of two rules on members of enums, and the enums of their samples."""

from tcready.schema.enums import Effect
from tcready.static.diagnostics.rule import Claim
from tcready.static.domain.facts import DIFFERS, RAISES, OfMember


def claim_of_use(fact: OfMember, message: str, broken: Effect) -> Claim:
    """Return the claim about the use of a member; `broken` is the effect if that is a break."""
    effects: dict[str, Effect] = {DIFFERS: "wrong_result", RAISES: "compile_error"}
    return Claim(message, confidence=None if fact.sure else "medium", effect=effects.get(fact.outcome, broken))
