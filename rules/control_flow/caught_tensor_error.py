"""An `except` clause expects an error that is raised while Dynamo traces."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Handler, NoMember
from tcready.static.domain.values import Const, External, Sequence, Value, members_of, options

TENSOR_ERRORS = frozenset(
    "RuntimeError torch.linalg.LinAlgError torch.cuda.OutOfMemoryError torch.OutOfMemoryError".split()
)
ANY = frozenset({"Exception", "BaseException"})


def check(fact: Handler | NoMember) -> Claim | None:
    if isinstance(fact, NoMember):
        return Claim(
            "no member has this value: in compiled code, the error escapes the `try`",
            None if isinstance(fact.value, Const) else "medium",
            form="enum",
        )
    if fact.reraises:
        return None
    caught = {"BaseException"} if fact.caught is None else names(fact.caught)
    if caught & TENSOR_ERRORS:
        return Claim("in compiled code, an error of a tensor operation escapes this `except`")
    if caught & ANY:
        return Claim("in compiled code, an error of a tensor operation would escape this `except`", level="note")
    return None


def names(value: Value) -> set[str]:
    """The classes that an `except` names, alone or in a tuple."""
    found = {v.name for v in options(value) if isinstance(v, External)}
    for v in options(value):
        if isinstance(v, Sequence):
            found |= {name for member in members_of(v) for name in names(member)}
    return found


RULE = Rule(
    code="TCR121",
    effect="wrong_result",
    level="warning",
    facts=(Handler, NoMember),
    check=check,
    no_rewrite="Only the author knows when the operation fails. Check that before the operation.",
    module=__name__,
)
