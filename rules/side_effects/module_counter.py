"""A module counts its calls in a Python number (`self.step += 1`)."""

from __future__ import annotations

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Store
from tcready.static.domain.values import Class, Const, Function, Plain, Value, options


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


RULE = Rule(
    code="TCR311", effect="recompile", facts=(Store,), check=check, rewriters=("state.counter",), module=__name__
)
