"""A package that is not installed is imported, inside a `try`, in compiled code."""

from __future__ import annotations

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Imported


def check(fact: Imported) -> Claim | None:
    if "try" not in fact.where.enclosing:
        return None
    return Claim(f"`{fact.package}` is imported but not installed: the function with the `try` runs eagerly")


RULE = Rule(
    code="TCR419",
    effect="frame_skip",
    gb_ids=("GB0069",),
    facts=(Imported,),
    check=check,
    no_rewrite="Move the import to the top of the file, and store the result in a variable of the module.",
    module=__name__,
)
