"""A logger is used in compiled code."""

from __future__ import annotations

import ast

from tcready.fixes.rewriters.names import receiver_class
from tcready.fixes.rewriters.unresolved import claim_of_use
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call, Unresolved
from tcready.static.domain.values import Unknown, options
from tcready.static.library.semantics import OF_LOGGER

LEVELS = ("debug", "info", "warning", "warn", "error", "critical", "exception", "log")
METHODS = frozenset(
    (
        *LEVELS,
        "fatal",
        "warning_once",
        "info_once",
        "isEnabledFor",
        "getEffectiveLevel",
        "setLevel",
        "hasHandlers",
        "getChild",
    )
)


def check(fact: Call | Unresolved) -> Claim | None:
    if isinstance(fact, Unresolved):
        return claim_of_use("an attribute of a logger", fact) if fact.value is OF_LOGGER else None
    name = fact.constructed
    # the root logger, which no name is given for, is fetched while tracing: no other is
    if name == "logging.getLogger" or (name.startswith("logging.") and fact.gb_id):
        return Claim(f"`{name}` in compiled code: the graph ends here", regardless=True)
    if fact.method not in METHODS:
        return None
    if receiver_class(fact).startswith("logging."):
        return Claim(f"`{fact.method}` of a logger in compiled code: the graph ends here")
    if named_logger(fact):
        return Claim(f"`{fact.method}` of what looks like a logger: the graph ends here", "medium")
    return None


def named_logger(fact: Call) -> bool:
    """`logger.info(...)` on a value of which nothing is known."""
    function = fact.node.func
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id.strip("_").lower() in ("logger", "log")
        and fact.receiver is not None
        and any(isinstance(v, Unknown) for v in options(fact.receiver))
    )


RULE = Rule(
    code="TCR302",
    gb_ids=("GB0291", "GB4841", "GB6215", "GB0007", "GB0156"),
    facts=(Call, Unresolved),
    check=check,
    side_output_only=True,
    rewriters=("messages.unless_compiling",),
    may_autofix=True,
    module=__name__,
)
