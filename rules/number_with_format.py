"""A number that may be symbolic in Dynamo is formatted with a format specification.

## What it does
Finds f-strings with a format specification (`f"{x.shape[0]:3d}"`) and calls of `format` for a size of a
tensor. For torch 2.14 and later, also finds those for a number that comes from `.item()` or is an argument of
`forward` that is annotated as int or float.

## Why it hurts torch.compile
In the second call with another value, Dynamo makes the number symbolic, and formats the symbol as if it were
a string. The call raises `InternalTorchDynamoError: ValueError: Unknown format code`. The first call works.

## Use instead
`f"{n}"` without a specification, or `"%3d" % n`. Or create the string outside of the compiled code.

## Limits
The source does not show whether a second call has another value.
"""

import ast

from tcready.static.engine.facts import Call, Format
from tcready.static.engine.values import Plain, Value, likely
from tcready.static.rule import Claim, Rule, Sample

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
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        name = f"{x.shape[0]:3d}"  # BAD
        return x * len(name)
""",
            inputs="(torch.randn(5, 8),)",
            again="(torch.randn(6, 8),)",
            raises="Unknown format code",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        name = format(x.shape[0], "3d")  # BAD
        return y * len(name)
""",
            inputs="(torch.randn(5, 8),)",
            again="(torch.randn(6, 8),)",
            raises="AsPythonConstantNotImplementedError",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, mean: float):
        y = x * 2
        name = f"{mean:.3f}"  # BAD
        return y * len(name)
""",
            inputs="(torch.randn(4, 8), 1.5)",
            again="(torch.randn(4, 8), 2.5)",
            raises="Unknown format code",
            torch=(2, 15),
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        name = f"{x.shape[0]}" + "%3d" % x.shape[1]
        return x * len(name)
"""
        ),
    ),
)
