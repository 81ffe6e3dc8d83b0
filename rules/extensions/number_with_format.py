"""A number that may be symbolic in Dynamo is formatted with a format specification."""

import ast
import re

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call, Format
from tcready.static.domain.values import Const, Plain, Value, likely

MESSAGE = "a number that may become symbolic is formatted: compiling for a second value raises an error"
LONG = re.compile(r"\d{4,}")
"""A width or precision in the code that is read must not cost its length in memory."""


def check(fact: Format | Call) -> Claim | None:
    if isinstance(fact, Call):
        formats = fact.constructed == "format" and len(fact.args) == 2
        return _claim(fact.args[0], is_argument=False, form="") if formats else None
    if fact.spec is None or _fits_text(fact.spec):
        return None
    return _claim(fact.value, fact.argument, "" if isinstance(fact.node, ast.BinOp) else "a number as it is")


def _fits_text(spec: str) -> bool:
    """Return whether a string can be formatted with it, as Dynamo formats a symbol."""
    try:
        format("s0", LONG.sub("1", spec))
    except ValueError:
        return False
    return True


def _claim(value: Value, is_argument: bool, form: str) -> Claim | None:
    number = likely(value)
    if isinstance(number, Const):
        is_number = type(number.value) in (int, float)
        return Claim(MESSAGE, "medium", form=form) if is_argument and is_number else None
    if not isinstance(number, Plain):
        return None
    if number.origin == "shape":
        return Claim(MESSAGE)
    if number.kind not in ("int", "float"):
        return None
    if number.origin == "tensor":
        return Claim(MESSAGE, form=form)
    if is_argument and number.origin == "config":  # what nothing but an annotation tells of
        return Claim(MESSAGE, "medium", form=form)
    return None


RULE = Rule(
    code="TCR427",
    effect="compile_error",
    level="warning",
    facts=(Format, Call),
    check=check,
    no_rewrite="The author has to decide how to format the number without the specification.",
    module=__name__,
)
