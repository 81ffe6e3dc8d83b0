"""The path to the place that is being interpreted, as one immutable value."""

from __future__ import annotations

import ast
from dataclasses import replace

from tcready.schema.enums import Confidence
from tcready.schema.value_class import dataclass
from tcready.static.domain.facts import DECIDED_OUTSIDE, Condition, DecidedBy, Enclosing
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
    gradients: bool = False
    """Below a `with` of this function that turns gradients on."""
    without_gradients: bool = False
    """Below one that turns them off."""

    def at_most(self, confidence: Confidence) -> PathState:
        """Return this state with at most that confidence."""
        sure = min(self.confidence, confidence, key=CONFIDENCES.index)
        return self if sure == self.confidence else replace(self, confidence=sure)

    def inside(self, *words: Enclosing) -> PathState:
        """Return this state inside such statements too."""
        return replace(self, enclosing=(*self.enclosing, *words))

    def below(self, conditions: tuple[Condition, ...]) -> PathState:
        """Return this state below further conditions."""
        return replace(self, conditions=(*self.conditions, *conditions)) if conditions else self

    def with_gradients(self, on: bool, off: bool) -> PathState:
        """Return this state below a `with` that may turn gradients on, or off."""
        if not (on or off):
            return self
        return replace(self, gradients=self.gradients or on, without_gradients=self.without_gradients or off)

    def out_of(self, block: PathState) -> PathState:
        """Return this state after the statements that began in `block`: what was established in them still holds."""
        return replace(
            self, enclosing=block.enclosing, gradients=block.gradients, without_gradients=block.without_gradients
        )


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
    of_if: bool = False
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
