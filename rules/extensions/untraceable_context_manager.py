"""A `with` block enters a context manager that Dynamo does not trace."""

from __future__ import annotations

import sys
from dataclasses import replace

from tcready.fixes.rewriters.names import receiver_class
from tcready.schema.enums import Confidence
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Attribute, Call, With
from tcready.static.domain.values import (
    UNKNOWN,
    ExternalInstance,
    Function,
    Instance,
    Sequence,
    Unknown,
    Value,
    likely,
    options,
)
from tcready.static.library.semantics import CACHED_PROPERTY

WITHOUT_LOCK = (3, 12)
"""The Python from which on a cached property has none."""


def check(fact: Call | With | Attribute) -> Claim | tuple[Claim, ...] | None:
    if isinstance(fact, Attribute):
        if fact.by != CACHED_PROPERTY or sys.version_info >= WITHOUT_LOCK:
            return None
        return Claim("the first read of a cached property acquires a lock: the function runs eagerly")
    if isinstance(fact, Call):
        if fact.method == "enter_context" and receiver_class(fact) == "contextlib.ExitStack":
            return _entered_through_stack(likely(fact.args[0]) if fact.args else UNKNOWN)
        if isinstance(fact.function, Function) and fact.gb_id:
            shown = (fact.name or "").removesuffix("()")
            return Claim(
                f"a function that is decorated with `{shown}` is called: the graph ends here",
                effect="graph_break",
                form=f"decorated by {shown}",
            )
        return None
    if fact.made_before:
        return Claim(
            "`with` over an object that was created before the call is not traced: the function runs eagerly",
            "high" if likely(fact.value) == fact.value else "medium",
            form="an object made before",
        )
    if fact.builtin:
        return Claim(f"`with` over an object that is also a {fact.builtin} is not traced: the function runs eagerly")
    if fact.context is None or not fact.context.gb_id:
        return None
    sure: Confidence | None = None if len(options(fact.value)) == 1 else "medium"  # one of several is entered
    if fact.context.inside == "before":
        rest = "the function is compiled up to it, and the rest runs eagerly"
        return (
            Claim(f"`with {fact.name}` is not traced: {rest}", sure, form=f"{fact.name}: the rest goes eager"),
            Claim(f"`with {fact.name}` is not traced: the graph ends here", sure, "graph_break"),
        )
    return Claim(f"`with {fact.name}` is not traced: the function runs eagerly", sure)


def _entered_through_stack(manager: Value) -> Claim | None:
    """Of what an `ExitStack` enters, Dynamo follows what is Python: an object of a class that it reads, and a generator
    that `contextlib.contextmanager` wraps. What it has a model of its own for, it enters in a `with` alone."""
    claim = Claim("a context is entered through an `ExitStack`: the function runs eagerly")
    if any(isinstance(v, Unknown) for v in options(manager)):
        return replace(claim, confidence="medium")
    return None if all(_is_python(v) for v in options(manager)) else claim


def _is_python(manager: Value) -> bool:
    if isinstance(manager, Sequence):
        return manager.kind == "iterator"
    return isinstance(manager, Instance) or (
        isinstance(manager, ExternalInstance) and manager.name == "contextlib.suppress"
    )


RULE = Rule(
    code="TCR407",
    effect="frame_skip",
    gb_ids=("GB0142", "GB0208", "GB0008", "GB0262", "GB0007", "GB0147", "GB0066", "GB0156", "GB0294"),
    facts=(Attribute, Call, With),
    check=check,
    rewriters=("state.scope_made_here",),
    may_autofix=True,
    module=__name__,
)
