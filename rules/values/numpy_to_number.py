"""A numpy array is converted to a Python number in compiled code."""

from __future__ import annotations

from tcready.fixes.rewriters.names import receiver_class, sizes
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call, Contains, Index, Test
from tcready.static.domain.values import Mapping, Plain, Sequence, Value, members_of, options
from tcready.static.library.semantics import ARRAY, FOLDING, NUMBER, OF_TEXT, WHOLE, is_number_of_numpy, is_text

ARRAYS = (ARRAY, NUMBER)
CONVERSIONS = frozenset({"int", "float", "bool", "complex"})
MAKERS = frozenset({"numpy.array", "numpy.asarray"})
OF_A_LIST = MAKERS | frozenset(f"numpy.{name}" for name in FOLDING)
"""Functions that make one array of a list."""
OF_ARRAYS = frozenset(
    f"numpy.{name}" for name in "column_stack concatenate dstack hstack row_stack stack vstack".split()
)
"""Functions that make one array of each member of a list: those that take `Sequence[ArrayLike]` in `torch._numpy`."""
NOT_FLOAT = frozenset(
    f"math.{name}" for name in "ceil comb factorial floor gcd isclose isfinite isinf isnan isqrt lcm perm trunc".split()
)
"""Functions of `math` that give a whole number or a truth: of a number of numpy Dynamo works out the others."""
READ_AS_NUMBER = frozenset(
    {"if", "while", "ifexp", "assertion", "and", "or", "not", "comprehension", "filter", "members", "order"}
)

WORDS = {"ifexp": "if", "comprehension": "if", "assertion": "assert", "members": "==", "order": "sorted"}


def check(fact: Call | Test | Index | Contains) -> Claim | None:
    if isinstance(fact, Contains):
        return Claim("`in` on a numpy array reads its values back") if array(fact.container) else None
    if _uses_text(fact):
        return Claim("an array of strings: Dynamo converts arrays to tensors, which cannot contain strings")
    if isinstance(fact, Index):
        place = isinstance(fact.base, (Sequence, Mapping)) and array(fact.index)
        place = place or (isinstance(fact.base, Sequence) and whole(fact.index))
        if place or any(array(bound) or whole(bound) for bound in fact.slices):
            return Claim("a numpy number as an index: its value has to be read, and the graph ends here")
        return None
    if isinstance(fact, Test):
        if fact.kind in READ_AS_NUMBER and all(v in ARRAYS or is_number_of_numpy(v) for v in options(fact.value)):
            return Claim(
                f"`{WORDS.get(fact.kind, fact.kind)}` on the value of a numpy array: Dynamo cannot know which branch runs"
            )
        return None
    name = fact.constructed
    if name == "range" and any(v in ARRAYS for arg in fact.args for v in options(arg)):
        return Claim("`range` over a numpy array: its value has to be read back to Python")
    if name in ("any", "all") and any(map(_walks_arrays, fact.args)):
        return Claim(f"Python's `{name}` needs the truth values of numpy arrays: a branch that Dynamo cannot decide")
    if any(map(array, sizes(fact))):
        return Claim("a numpy array is used as a size: its value has to be read, and the graph ends here")
    if any(map(array, fact.numbers)):
        return Claim("a numpy array is passed where torch takes a number: its value is read, and the graph ends here")
    if (name in CONVERSIONS or name == "range") and any(map(whole, fact.args)):
        return Claim(f"`{name}` of a numpy integer: Dynamo does not convert it to a Python number")
    if name in NOT_FLOAT and any(map(is_number_of_numpy, fact.args)):
        return Claim(f"`{name}` of a numpy number: Dynamo does not convert it to a Python number")
    if (name in CONVERSIONS or name.startswith("math.")) and any(map(array, fact.args)):
        return Claim(f"`{name}` of a numpy array reads its value back: the graph ends here")
    if name in MAKERS and fact.args and is_text(fact.args[0]):
        return Claim(f"`{name}` of strings: Dynamo converts arrays to tensors, which cannot contain strings")
    if fact.args and _reads_list(name, fact.args[0]):
        return Claim(f"`{name}` of a list that mixes arrays and numbers: the graph ends here")
    if fact.receiver is not None and (
        (fact.method == "item" and whole(fact.receiver))
        or (fact.method == "tolist" and is_number_of_numpy(fact.receiver))
    ):
        return Claim(f"`.{fact.method}()` of a numpy number: Dynamo does not convert it to a Python number")
    # `.item(place)` is traced as an index
    reads = fact.method == "tolist" or (fact.method == "item" and not fact.args)
    if reads and receiver_class(fact) == ARRAY.name:
        return Claim(f"`.{fact.method}()` of a numpy array reads it back: the graph ends here")
    return None


def whole(value: Value) -> bool:
    return all(isinstance(v, Plain) and v.kind == WHOLE for v in options(value))


def array(value: Value) -> bool:
    return ARRAY in options(value)


def _uses_text(fact: Call | Test | Index) -> bool:
    if isinstance(fact, Call):
        return fact.receiver == OF_TEXT or OF_TEXT in fact.args
    return isinstance(fact, Index) and fact.base == OF_TEXT


def _walks_arrays(value: Value) -> bool:
    """An array, or a list, tuple or iterator with one among its members."""
    return any(array(v) or (isinstance(v, Sequence) and any(map(array, members_of(v)))) for v in options(value))


def _reads_list(name: str, given: Value) -> bool:
    """Whether torch has to read the values of arrays to make one of a list."""
    if not isinstance(given, Sequence):
        return False
    if name in OF_ARRAYS:
        return any(map(_mixes_arrays, members_of(given)))
    return name in OF_A_LIST and _mixes_arrays(given)


def _mixes_arrays(value: Value) -> bool:
    """A list with arrays beside something else, or in lists inside it: not one of arrays alone."""
    if not isinstance(value, Sequence):
        return False
    members = members_of(value)
    return not all(map(_is_array, members)) and any(map(_holds_array, members))


def _holds_array(value: Value) -> bool:
    return _is_array(value) or (isinstance(value, Sequence) and any(map(_holds_array, members_of(value))))


def _is_array(value: Value) -> bool:
    """An array, or a number that numpy made while tracing, of which Dynamo makes one."""
    return value == ARRAY or is_number_of_numpy(value)


RULE = Rule(
    code="TCR209",
    gb_ids=("GB0033", "GB0059", "GB0087", "GB0109", "GB0124", "GB0170", "GB0185", "GB0208"),
    facts=(Call, Test, Index, Contains),
    check=check,
    rewriters=("numpy.without_numpy",),
    module=__name__,
)
