"""Sparse tensors: Dynamo wraps none, and gives up the function that gets hold of one.

What is only passed on is not wrapped: the first thing that is asked of it does that, in the function called, and in the
one that calls it, which cannot end its graph there either.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from tcready.static.engine import facts as F  # noqa: N812 - the facts are many and their names common words
from tcready.static.engine.contract import CallSite, Engine, Room
from tcready.static.engine.facts import undecided
from tcready.static.engine.models.layouts import OF_SPARSE
from tcready.static.engine.scope import Env, Frame, positional
from tcready.static.engine.values import Function, Tensor, Value, is_sparse
from tcready.static.index import FunctionInfo, ModuleInfo

TYPE = re.compile(r"`*(?:torch\.sparse\b|sparse (?:\w+ )?tensor\b)", re.IGNORECASE)
"""How the words begin that call it sparse."""
OTHERS = re.compile(r"\bor\b|\||\bdense\b|\bUnion\b")
"""What may be dense as well."""

NAMED = re.compile(r"\b(?:sparse\.(?:mm|sum|softmax|log_softmax)|h?spmm)\(")


class Sparse(Room):
    """Sparse tensors: Dynamo wraps none, and gives up the function that gets hold of one."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._documented: dict[FunctionInfo, frozenset[str]] = {}
        self._multiplying: dict[ModuleInfo, bool] = {}
        self._given_up: dict[int, ast.expr] = {}
        """The first use in each situation of a function that nothing but data decides: behind it runs no graph."""

    def tell_sparse(self, node: ast.expr, frame: Frame, *values: Value) -> None:
        """Tells that something is asked of sparse tensors."""
        if not self.engine.quiet and any(map(is_sparse, values)):
            self._tell(node, frame, handed=False)

    def _tell(self, node: ast.expr, frame: Frame, *, handed: bool) -> None:
        if self.engine.quiet or self._given_up.get(frame.context, node) is not node:
            return
        if not undecided(frame.conditions):
            self._given_up[frame.context] = node
        self.engine.tell(F.Sparse(self.engine.where(frame), node, handed))

    def tell_handed(self, function: Function, site: CallSite) -> None:
        """Tells that a function with source is given a sparse tensor."""
        if self.engine.quiet:
            return
        names = [arg.arg for arg, _ in positional(function.info.node.args)][function.bound is not None :]
        documented = self._sparse_parameters(function.info)
        pairs = (*zip(names, site.args, strict=False), *site.keywords.items())
        if any(is_sparse(v) or (n in documented and _is_given(v)) for n, v in pairs):
            self._tell(site.node, site.frame, handed=True)

    def lay_out(self, info: FunctionInfo, env: Env) -> None:
        """What comes in from outside is sparse where the function's documentation says so."""
        for name in self._sparse_parameters(info):
            value = env.get(name)
            if isinstance(value, Tensor) and value.given:
                env[name] = replace(value, sparse=True)

    def _sparse_parameters(self, info: FunctionInfo) -> frozenset[str]:
        """The parameters that the documentation of a function calls sparse tensors, or that it multiplies as such."""
        if info not in self._documented:
            used = _used_as_sparse(info) if self._multiplies(info.module) else frozenset()
            self._documented[info] = _documented_sparse(info) | used
        return self._documented[info]

    def _multiplies(self, module: ModuleInfo) -> bool:
        """Whether a file names a function for sparse tensors: to walk every function takes too long."""
        if module not in self._multiplying:
            self._multiplying[module] = NAMED.search(module.source.text) is not None
        return self._multiplying[module]


def _is_given(value: Value) -> bool:
    return isinstance(value, Tensor) and value.given


def _documented_sparse(info: FunctionInfo) -> frozenset[str]:
    text = "" if isinstance(info.node, ast.Lambda) else ast.get_docstring(info.node, clean=False) or ""
    if "sparse" not in text and "Sparse" not in text:  # quick to say
        return frozenset()
    return frozenset(
        name for name, words in info.documented.items() if TYPE.match(words) and not OTHERS.search(words)
    )


def _used_as_sparse(info: FunctionInfo) -> frozenset[str]:
    """The parameters that a function gives, as they come in, to functions that are there for sparse tensors."""
    spec = info.node.args
    names = {arg.arg for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)}
    for node in info.nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.discard(node.id)
    return frozenset(
        node.args[0].id
        for node in info.nodes
        if isinstance(node, ast.Call)
        and node.args
        and isinstance(node.args[0], ast.Name)
        and node.args[0].id in names
        and ast.unparse(node.func) in OF_SPARSE
    )
