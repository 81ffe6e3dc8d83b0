"""A logger is used in compiled code.

## What it does
Finds methods of `logging.Logger`, the functions of `logging`, and `logging.getLogger` in code that the
compiled forward reaches. Also finds tests, comparisons and loops that use an attribute of a logger
(`logger.level == logging.DEBUG`).

## Why it hurts torch.compile
Dynamo does not trace loggers, whatever their level. A `debug` that writes nothing ends the graph like any
other call, and so do `isEnabledFor` and `getLogger`. Dynamo does not look up attributes of a logger either:
it traces reading an attribute into a variable, but not using it.

## Use instead
Log outside of the compiled region, or guard the call with `if not torch.compiler.is_compiling():`.
`torch._dynamo.config.ignore_logging_functions.add(logger.info)` drops the call in compiled code, and
`reorderable_logging_functions` moves it after the graph.

## Limits
If the source does not show the class of an object called `logger`, it is assumed to be a logger, with medium
confidence. Run-time settings of Dynamo are not seen.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tcready.rules._names import receiver_class
from tcready.rules._unresolved import claim_of_use
from tcready.static.engine.facts import Call, Unresolved
from tcready.static.engine.knowledge import OF_LOGGER
from tcready.static.engine.values import Unknown, options
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

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

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located


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


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._messages import unless_compiling

    return unless_compiling(place)


RULE = Rule(
    code="TCR302",
    name="logging-call",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB0291",
        "GB4841",
        "GB6215",
        "GB0007",
        "GB0156",
    ),
    facts=(Call, Unresolved),
    check=check,
    incidental=True,
    rewrite=rewrite,
    often_safe=True,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        logger.info("shape %s", x.shape)  # BAD
        return y + 1
""",
            setup="""
import logging

logger = logging.getLogger(__name__)
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.log = logging.getLogger("model")

    def forward(self, x):
        y = x * 2
        logging.info("here")  # BAD
        self.log.debug("here")  # BAD
        y = y + 1
        if self.log.isEnabledFor(logging.DEBUG):  # BAD
            y = y + 1
        late = logging.getLogger("late")  # BAD
        return y + 1
""",
            setup="""
import logging
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        if logger.level <= logging.DEBUG:  # BAD
            y = y + 1
        return y
""",
            setup="""
import logging

logger = logging.getLogger(__name__)
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.log = logger

    def forward(self, x):
        y = x * 2
        for handler in self.log.handlers:  # BAD
            y = y + 1
        return y
""",
            setup="""
import logging

logger = logging.getLogger(__name__)
""",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.talks = logger.level == logging.DEBUG

    def forward(self, x):
        level = logger.level
        y = x + 1 if logger.parent is None else x * 2
        return y + 1 if self.talks else y
""",
            setup="""
import logging

logger = logging.getLogger(__name__)
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        return y + 1
""",
            setup="""
import logging

logger = logging.getLogger(__name__)
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.log = {"scale": 2.0}

    def forward(self, x):
        y = x * 2
        if not torch.compiler.is_compiling():
            logger.info("shape %s", x.shape)
        scale = self.log.get("scale", 1.0)
        return y * torch.log(y.abs() + 1).log1p() * scale
""",
            setup="""
import logging

logger = logging.getLogger(__name__)
""",
        ),
    ),
)
