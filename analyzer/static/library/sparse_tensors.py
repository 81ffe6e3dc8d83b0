"""Sparse tensors: Dynamo gives up a function that uses one.

What is only passed on is not wrapped: the first thing that is asked of it does that, in the function called, and in the
one that calls it, which cannot end its graph there either.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from tcready.static.domain import facts as F  # noqa: N812 - the facts are many and their names common words
from tcready.static.domain.facts import undecided
from tcready.static.domain.scope import Env, Frame, positional
from tcready.static.domain.values import Function, Tensor, Value, is_sparse
from tcready.static.frontend.index import FunctionInfo
from tcready.static.interp.interfaces import CallSite, Component, Engine

TYPE = re.compile(r"`*(?:torch\.sparse\b|sparse (?:\w+ )?tensor\b)", re.IGNORECASE)
"""The start of a description that calls it sparse."""
OTHERS = re.compile(r"\bor\b|\||\bdense\b|\bUnion\b")
"""Words that mean it may be dense as well."""


class SparseTensors(Component):
    """Sparse tensors: Dynamo wraps none, and gives up the function that gets hold of one."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._documented: dict[FunctionInfo, frozenset[str]] = {}
        self._given_up: dict[int, ast.expr] = {}
        """The first use in each situation of a function that nothing but data decides: behind it runs no graph."""

    def emit_sparse_use(self, node: ast.expr, frame: Frame, *values: Value) -> None:
        """Emit a use of sparse tensors."""
        if not self.engine.untraced and any(map(is_sparse, values)):
            self._emit(node, frame, handed=False)

    def _emit(self, node: ast.expr, frame: Frame, *, handed: bool) -> None:
        if self.engine.untraced or self._given_up.get(frame.context, node) is not node:
            return
        if not undecided(frame.path.conditions):
            self._given_up[frame.context] = node
        self.engine.emit(F.Sparse(self.engine.where(frame), node, handed))

    def emit_sparse_argument(self, function: Function, site: CallSite) -> None:
        """Emit a sparse tensor passed to a function with source."""
        if self.engine.untraced:
            return
        names = [arg.arg for arg, _ in positional(function.info.node.args)][function.bound is not None :]
        documented = self._sparse_parameters(function.info)
        pairs = (*zip(names, site.args, strict=False), *site.keywords.items())
        if any(is_sparse(v) or (n in documented and _is_given(v)) for n, v in pairs):
            self._emit(site.node, site.frame, handed=True)

    def lay_out(self, info: FunctionInfo, env: Env) -> None:
        """Make inputs sparse if the function's documentation says so."""
        for name in self._sparse_parameters(info):
            value = env.get(name)
            if isinstance(value, Tensor) and value.graph_input:
                env[name] = replace(value, sparse=True)

    def _sparse_parameters(self, info: FunctionInfo) -> frozenset[str]:
        """Return the parameters that the documentation of a function calls sparse tensors."""
        if info not in self._documented:
            self._documented[info] = _documented_sparse(info)
        return self._documented[info]


def _is_given(value: Value) -> bool:
    return isinstance(value, Tensor) and value.graph_input


def _documented_sparse(info: FunctionInfo) -> frozenset[str]:
    text = "" if isinstance(info.node, ast.Lambda) else ast.get_docstring(info.node, clean=False) or ""
    if "sparse" not in text and "Sparse" not in text:  # quick to say
        return frozenset()
    return frozenset(name for name, words in info.documented.items() if TYPE.match(words) and not OTHERS.search(words))
