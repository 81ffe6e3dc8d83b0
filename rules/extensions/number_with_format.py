"""A number that may be symbolic in Dynamo is formatted with a format specification."""

import ast

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call, Format
from tcready.static.domain.values import Plain, Value, likely

MESSAGE = "a number that may become symbolic is formatted: compiling for a second value raises an error"


def check(fact: Format | Call) -> Claim | None:
    if isinstance(fact, Call):
        formats = fact.constructed == "format" and len(fact.args) == 2
        return _claim(fact.args[0], is_argument=False) if formats else None
    if not fact.spec or fact.at_once:
        return None
    return _claim(fact.value, isinstance(fact.node, ast.Name) and fact.where.symbol.endswith(".forward"))


def _claim(value: Value, is_argument: bool) -> Claim | None:
    number = likely(value)
    if not isinstance(number, Plain):
        return None
    if number.origin == "shape":
        return Claim(MESSAGE, form="a size")
    if number.kind not in ("int", "float"):
        return None
    if number.origin == "tensor":
        return Claim(MESSAGE, form="another number")
    if is_argument and number.origin == "config":  # what nothing but an annotation tells of
        return Claim(MESSAGE, "medium", form="another number")
    return None


RULE = Rule(
    code="TCR427",
    name="number-with-format",
    effect="compile_error",
    level="warning",
    gb_ids=(),
    facts=(Format, Call),
    check=check,
    no_rewrite="The author has to decide how to format the number without the specification.",
    module=__name__,
)
