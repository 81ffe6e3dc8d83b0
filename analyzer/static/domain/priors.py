"""Priors: what is assumed of a usual call where the source decides nothing, and the confidence of code that differs.

The interpreter lowers the confidence of a path by these alone. `branches` and `ran` are what supports a prior: of the
branches that it makes unlikely and whose test ran, so many ran. They were counted for `if` statements and handlers in
122 recorded models (62 of transformers, 36 of timm, 24 of torch_geometric) in inference; each branch counts once for
each model. Of 1,407 branches that nothing makes unlikely 573 ran, and of 934 defaults 888.
"""

from __future__ import annotations

from tcready.schema.enums import Confidence
from tcready.schema.value_class import dataclass


@dataclass(frozen=True, slots=True)
class Prior:
    """An assumption about usual calls."""

    confidence: Confidence
    """The confidence of code that runs only if it does not hold."""
    assumption: str
    branches: int | None = None
    """The number of branches that were counted; None: it was not measured."""
    ran: int = 0


DEFAULT = Prior("low", "arguments are left out, and options have their defaults", 1694, 110)
RAISES = Prior("low", "a branch that ends in `raise` does not run", 408, 17)
HANDLER = Prior("low", "nothing is raised inside of `try`", 202, 0)
CASE = Prior("low", "each of several cases by name is one of many", 76, 41)
"""What was counted does not support it: the cases that a model chooses by its configuration run as often as not."""
SIZE = Prior("medium", "a test of a size may have either result", 219, 49)
UNFORESEEN = Prior("medium", "a test of the machine, or of a switch of torch, may have either result", 41, 5)
SETTING = Prior("medium", "so may a test of a setting in the same expression")
GIVEN = Prior("medium", "what is compared with None may be None")
MADE_ONCE = Prior("low", "state of the process exists before the compiled call")
MEMBER = Prior("medium", "the members of a container come in any order")
REST = Prior("low", "a loop goes over the members that are there by default")
CANDIDATE = Prior("medium", "a value that is one of several functions may be any of them")
MANY_CANDIDATES = Prior("low", "a value that is one of many functions is another one")
RECURRENT = Prior("medium", "what may be a recurrent module may be anything else")
BACKWARD = Prior("medium", "somebody needs gradients")
