"""What Dynamo leaves as `super().name` without looking it up: properties, dicts and classes.

Reading it, keeping it, returning it and asking `is None` of it are traced; whatever else is asked of it ends the graph.
"""

from __future__ import annotations

import ast

from tcready.static.engine import facts as F  # noqa: N812 - the facts are many and their names common words
from tcready.static.engine import knowledge as K  # noqa: N812
from tcready.static.engine.contract import Engine, Room
from tcready.static.engine.facts import undecided
from tcready.static.engine.scope import Frame
from tcready.static.engine.values import Choice, Value, keep


class Unresolved(Room):
    """What Dynamo leaves as `super().name` without looking it up."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._first: dict[int, ast.expr] = {}
        """The first use in each situation of a function that nothing but data decides: behind it the value is there."""

    def tell_unresolved(self, node: ast.expr, frame: Frame, *values: Value, walked: bool = False) -> None:
        """Tells that something is asked of an attribute that was read by `super()`."""
        if self.engine.quiet or not any(map(_is_unresolved, values)):
            return
        if self._first.get(frame.context, node) is not node:
            return
        if not undecided(frame.conditions):
            self._first[frame.context] = node
            for name, value in [*frame.env.items()]:  # what is behind the break has it, and hands it on
                if type(value) is Choice and _is_unresolved(value):
                    frame.env[name] = keep(value, lambda option: option is not K.UNRESOLVED)
        # arithmetic and a loop raise in Dynamo's eyes, so that the whole function runs as eager code
        gives_up = walked or isinstance(node, ast.BinOp)
        self.engine.tell(F.Unresolved(self.engine.where(frame), node, gives_up))


def _is_unresolved(value: Value) -> bool:
    return K.UNRESOLVED in value.options if type(value) is Choice else value is K.UNRESOLVED
