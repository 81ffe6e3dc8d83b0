"""A module counts its calls in a Python number (`self.step += 1`).

## What it does
Finds attributes of modules and other long-lived objects that the compiled forward increments: an int, which
is reported as an error, or a float or bool.

## Why it hurts torch.compile
Dynamo guards on the value of the number, even if nothing uses it. An int that changes in each call causes a
recompilation in each call, up to the limit of 8. After that, the function always runs eagerly. A float causes
one recompilation and is dynamic after it.

## Use instead
A tensor buffer (`self.register_buffer("step", torch.zeros((), dtype=torch.long))` and `self.step += 1`). Or
count outside of the compiled region, or set `torch._dynamo.config.allow_unspec_int_on_nn_module = True`.

## Limits
A counter under `if self.training:` counts only in training. Assigning a value that does not depend on the old
value is harmless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.static.engine.facts import Store
from tcready.static.engine.values import Class, Const, Function, Plain, Value, options
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located


def check(fact: Store) -> Claim | tuple[Claim, ...] | None:
    if fact.kind not in ("attribute", "item") or not fact.augmented or fact.owner is None:
        return None
    if any(isinstance(v, (Class, Function)) for v in options(fact.owner)):
        return None
    kinds = {kind_of(v) for old in (fact.old, fact.value) if old is not None for v in options(old)}
    if "int" in kinds and "float" not in kinds and None not in kinds - {"plain"}:
        setting = "allow_unspec_int_on_nn_module" if fact.own_module else None
        message = f"`{fact.name}` counts in a Python int: recompiles"
        every = Claim(f"{message} in each call, up to the limit", suppressed_by_config=setting)
        return (every, Claim(f"{message}, once", level="warning")) if setting else every
    if kinds & {"float", "bool"} and kinds <= {"int", "float", "bool", "plain"}:
        return Claim(f"`{fact.name}` changes a guarded Python number: recompiles", level="warning")
    return None


def kind_of(value: Value) -> str | None:
    """`int`, `float`, `bool`; `plain` for a Python value of unknown kind; None for anything else."""
    if isinstance(value, Const):
        kind = type(value.value).__name__
        return kind if kind in ("int", "float", "bool") else None
    if isinstance(value, Plain):
        kind = value.kind or "plain"
        return kind if kind in ("int", "float", "bool", "plain") else None
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._state import counter

    return counter(place)


RULE = Rule(
    code="TCR311",
    name="module-counter",
    effect="recompile",
    level="error",
    gb_ids=(),
    facts=(Store,),
    check=check,
    rewrite=rewrite,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x):
        self.step += 1  # BAD
        return x * 2
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = 0

    def forward(self, x):
        self.seen = self.seen + x.shape[0]  # BAD
        return x * 2
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.counts = {"calls": 0}

    def forward(self, x):
        self.counts["calls"] += 1  # BAD
        return x * 2
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.state = State()

    def forward(self, x):
        self.state.step += 1  # BAD
        return x * 2
""",
            setup="""
class State:
    def __init__(self):
        self.step = 0
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 1.0

    def forward(self, x):
        self.scale *= 0.5  # BAD
        return x * self.scale
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.odd = False

    def forward(self, x):
        self.odd = not self.odd  # BAD
        return x * 2
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("step", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.step += 1
        return x * 2
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0
        self.rows = 0
        self.flag = True
        self.name = "a"
        self.last = None
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x):
        if self.training:
            self.step += 1
        self.rows = x.shape[0]
        self.flag = True
        self.name = "a"
        self.last = x * 2
        self.mean = self.mean * 0.9 + x.mean(0) * 0.1
        local = 0
        local += 1
        return x * 2 + local + self.mean
"""
        ),
    ),
)
