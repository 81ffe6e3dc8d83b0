"""The path to the place that is being interpreted, as one immutable value."""

from __future__ import annotations

import ast
from dataclasses import replace

from tcready.schema.enums import Confidence
from tcready.schema.value_class import dataclass
from tcready.static.domain.facts import DECIDED_OUTSIDE, Condition, DecidedBy, Enclosing
from tcready.static.domain.priors import Prior
from tcready.static.domain.values import Answer, FloatType
from tcready.static.unit_results import CONFIDENCES


@dataclass(frozen=True, slots=True, eq=False)
class PathState:
    """How a place of a function is reached. A branch continues with another state; the place before keeps its own."""

    confidence: Confidence = "high"
    """The confidence that a usual call gets here."""
    conditional: bool = False
    """Below a branch taken by a Python value that the source does not decide."""
    multi_path: bool = False
    """Below one of several branches that are all followed: an assignment here may not have run."""
    conditions: tuple[Condition, ...] = ()
    """The conditions for this place that the source does not decide."""
    enclosing: tuple[Enclosing, ...] = ()
    gradients: bool | None = None
    """Whether the innermost `with` of this function that decides it turns gradients on."""

    def against(self, prior: Prior | None) -> PathState:
        """Return this state in code that a usual call does not reach if the prior holds."""
        if prior is None or CONFIDENCES.index(prior.confidence) >= CONFIDENCES.index(self.confidence):
            return self
        return replace(self, confidence=prior.confidence)

    def inside(self, *words: Enclosing) -> PathState:
        """Return this state inside such statements too."""
        return replace(self, enclosing=(*self.enclosing, *words))

    def below(self, conditions: tuple[Condition, ...]) -> PathState:
        """Return this state below further conditions."""
        return replace(self, conditions=(*self.conditions, *conditions)) if conditions else self

    def out_of(self, block: PathState) -> PathState:
        """Return this state after the statements that began in `block`: what was established in them still holds."""
        return replace(self, enclosing=block.enclosing, gradients=block.gradients)


START = PathState()
"""The path to the first statement."""


@dataclass(frozen=True, slots=True, eq=False)
class Fork:
    """A test that splits a path in two branches."""

    test: ast.expr
    decided: bool | None
    """Its result if the source decides it."""
    about: DecidedBy | None
    """What decides it otherwise."""
    default: bool | None
    """The branch of usual calls; the other is improbable."""
    usual: bool | None
    """The most likely result; unlike `default` it says nothing of what the other branch is worth."""
    types: tuple[FloatType, ...] = ()
    """The types in which the test may differ from the default."""
    unforeseen: bool | None = None
    """Whether nothing says what the test usually gives; None if that was not asked yet."""
    rare: bool = False
    """Each branch is one of several cases by name."""
    raises: tuple[bool, ...] = ()
    """The branches that end in `raise`."""
    first: bool | None = None
    """The result in the first call, if it changes later."""

    @classmethod
    def of(cls, test: ast.expr, answer: Answer, about: DecidedBy | None) -> Fork:
        """Return the branches of a test with this answer."""
        return cls(test, answer.decided, about, answer.likely, answer.likely, answer.types)

    @property
    def is_open(self) -> bool:
        """Whether the setup decides the test, and nothing makes one branch the default."""
        return self.decided is None and self.default is None and self.about in DECIDED_OUTSIDE
