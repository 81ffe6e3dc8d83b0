"""Attributes that Dynamo does not look up: properties, dicts and classes read by `super().name`, and attributes of
`torch.autograd.Function` or a logger other than methods.

Reading, keeping and returning one is traced, and so is `is None`. Any other use ends the graph, except a test of the
truth of `super().name`, which Dynamo takes for true.
"""

from __future__ import annotations

import ast

from tcready.static.domain import facts as F  # noqa: N812 - the facts are many and their names common words
from tcready.static.domain.facts import undecided
from tcready.static.domain.scope import Frame
from tcready.static.domain.values import Choice, Value, keep
from tcready.static.interp.interfaces import Component, Engine
from tcready.static.library import semantics as K  # noqa: N812


class UnresolvedAttributes(Component):
    """Attributes that Dynamo does not look up."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._first: dict[int, ast.expr] = {}
        """The use by which the function runs as eager code, in each of its situations: nothing breaks after it."""

    def emit_unresolved(self, node: ast.expr, frame: Frame, *values: Value, walked: bool = False) -> None:
        """Emit a use of an attribute that Dynamo has not looked up."""
        left = () if self.engine.untraced else tuple(kind for value in values for kind in _left(value))
        if not left:
            return
        if self._first.get(frame.context, node) is not node:
            return
        # arithmetic and a loop raise in Dynamo's eyes, so that the whole function runs as eager code
        gives_up = walked or isinstance(node, ast.BinOp)
        if not undecided(frame.path.conditions):
            if gives_up:
                self._first[frame.context] = node
            for name, value in [*frame.env.items()]:  # what is behind the break has it, and hands it on
                if type(value) is Choice and _left(value):
                    frame.env[name] = keep(value, lambda option: not K.is_left(option))
        self.engine.emit(F.Unresolved(self.engine.where(frame), node, gives_up, left[0]))

    def emit_truth_test(self, node: ast.expr, frame: Frame, value: Value) -> None:
        """Emit a truth test of it, unless it was read by `super()`."""
        if any(kind != K.UNRESOLVED for kind in _left(value)):
            self.emit_unresolved(node, frame, value, walked=True)


def _left(value: Value) -> list[Value]:
    """Return those of these kinds that a value may be."""
    return [kind for kind in (value.options if type(value) is Choice else (value,)) if K.is_left(kind)]
