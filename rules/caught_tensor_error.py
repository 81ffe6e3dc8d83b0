"""An `except` clause expects an error that is raised while Dynamo traces.

## What it does
Finds `except RuntimeError` (also errors of torch such as `torch.OutOfMemoryError`, `Exception` and a bare
`except`) around code that computes tensors, in compiled code. Also finds, inside a `try`, the call of an enum
with a value that no member has.

## Why it hurts torch.compile
Dynamo runs the operation on fake tensors while it traces. An error there, such as a shape mismatch, leaves
the compiled call as one of Dynamo's own errors: the `except` that works in eager code never sees it. Since
torch 2.12, Dynamo looks up members of an enum itself, so the same is true of the `ValueError` that
`Mode("none")` raises.

## Use instead
Test the precondition of the operation (`if a.shape[-1] == b.shape[-2]`), use a variant that reports the error
instead of raising it (`torch.linalg.cholesky_ex`), or move the `try` out of the compiled region. Look up a
member of an enum when the model is built.

## Limits
If nothing is raised, nothing happens. A clause that ends in a `raise` is not reported. `except Exception` and
a bare `except` are reported as notes, because they are often there for other errors. An error that depends on
values is raised when the graph runs, and also escapes.
"""

from tcready.static.engine.facts import Handler, NoMember
from tcready.static.engine.values import Const, External, Sequence, Value, members_of, options
from tcready.static.rule import Claim, Rule, Sample

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
        return Claim(
            "in compiled code, an error of a tensor operation would escape this `except`", level="note"
        )
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
    name="caught-tensor-error",
    effect="wrong_result",
    level="warning",
    gb_ids=(),
    facts=(Handler, NoMember),
    check=check,
    no_rewrite="Only the author knows when the operation fails. Check that before the operation.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        try:
            y = y @ y
        except RuntimeError:  # BAD
            y = y + 1
        return y * 3
""",
            raises="matmul.*FakeTensor",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        try:
            y = torch.cat([x, x[:, :2]])
        except (ValueError, RuntimeError):  # BAD
            y = x
        return y * 3
""",
            raises="method cat .*FakeTensor",
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self, mode="max"):
        super().__init__()
        self.mode = mode

    def forward(self, x):
        return reduced(x * 2, self.mode)


def reduced(x, mode):
    try:
        found = Mode(mode)  # BAD
    except ValueError:
        found = Mode.SUM
    return x.sum() if found is Mode.SUM else x.mean()
""",
            setup="""
import enum


class Mode(enum.Enum):
    SUM = "sum"
    MEAN = "mean"
""",
            raises="'max' is not a valid Mode",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self, mode="mean"):
        super().__init__()
        self.mode = mode

    def forward(self, x):
        try:
            found = Mode(self.mode)
        except ValueError:
            found = Mode.SUM
        return x.sum() if found is Mode.SUM else x.mean()
""",
            setup="""
import enum


class Mode(enum.Enum):
    SUM = "sum"
    MEAN = "mean"
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        y = y @ y if y.shape[0] == y.shape[1] else y + 1
        return y * 3
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        table = {"a": 1}
        try:
            y = x * table["b"]
        except (KeyError, IndexError):
            y = x * 2
        try:
            y = checked(y)
        except ValueError:
            y = y + 1
        try:
            y = y.view(4, 8)
        except RuntimeError as error:
            raise ValueError("not four by eight") from error
        return y * 3
""",
            setup="""
def checked(x):
    if x.dim() == 2:
        raise ValueError("two")
    return x
""",
        ),
    ),
)
