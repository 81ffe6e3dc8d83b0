"""A global, class or function attribute is incremented in compiled code."""

from collections.abc import Iterator

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Store
from tcready.static.domain.values import Class, Const, Function, Plain, Value, holds_tensor, options


def check(fact: Store) -> Claim | Iterator[Claim] | None:
    owners = () if fact.owner is None else options(fact.owner)
    if fact.kind == "attribute" and any(isinstance(v, Function) and v.bound is None for v in owners):
        return _of_function(fact)
    on_class = fact.kind == "attribute" and any(isinstance(v, Class) for v in owners)
    if not fact.augmented or not (on_class or fact.kind in ("global", "nonlocal")) or not number(fact.value):
        return None
    if on_class:
        return _of_class(fact)
    form = "" if fact.read_elsewhere else "a global variable that nothing else reads"
    once = fact.kind == "nonlocal" or (fact.old is not None and is_float(fact.old))
    if once:
        message = f"`{fact.name}` increments a guarded Python number: recompiles, once"
        return Claim(message, level="warning", form=form)
    return Claim(f"`{fact.name}` increments a guarded Python number: recompiles in each call", form=form)


def _of_class(fact: Store) -> Iterator[Claim]:
    yield Claim(
        "attribute of a class is written: the graph ends here", effect="graph_break", form="an attribute of a class"
    )
    once = fact.old is not None and is_float(fact.old)
    message = f"`{fact.name}` increments a guarded Python number: recompiles"
    yield Claim(f"{message}, once" if once else f"{message} in each call", level="warning" if once else None)


def _of_function(fact: Store) -> Iterator[Claim]:
    yield Claim(
        "attribute of a function is written: the graph ends here",
        effect="graph_break",
        form="an attribute of a function",
    )
    if fact.augmented and not holds_tensor(fact.value):
        message = f"`{fact.name}` increments a guarded Python number: recompiles in each call"
        yield Claim(message, form="a number of a function, traced")


def number(value: Value) -> bool:
    found = options(value)
    return all(isinstance(v, Plain) or (isinstance(v, Const) and isinstance(v.value, (int, float))) for v in found)


def is_float(value: Value) -> bool:
    return any(
        (isinstance(v, Plain) and v.kind == "float") or (isinstance(v, Const) and isinstance(v.value, float))
        for v in options(value)
    )


RULE = Rule(
    code="TCR313",
    effect="recompile",
    gb_ids=("GB0467",),
    facts=(Store,),
    check=check,
    no_rewrite="A global has no module with a buffer that could count in the graph. Count outside of the compiled code.",
    module=__name__,
)
