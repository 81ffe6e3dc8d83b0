"""Call a model eagerly and compiled, with the same weights and inputs."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.proof.behaviour import Behaviour
from tcready.dynamic.worker.proof.behaviour_differences import restless
from tcready.dynamic.worker.proof.calls import Key, called
from tcready.dynamic.worker.proof.effects_of_call import state_of
from tcready.dynamic.worker.proof.shared_models import Models
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.dynamic.worker.torch_internals.compile_calls import compile_callable
from tcready.schema.enums import Mode
from torch import nn


class Compiling:
    """A model in eager mode and compiled, both with the weights of the seed of each call."""

    def __init__(
        self,
        models: Models,
        watched: Sequence[ModuleType],
        unstable: frozenset[str],
        mode: Mode,
        backend: str = "eager",
    ) -> None:
        """Compile nothing yet. `unstable` names state that differs between two calls of the unmodified code."""
        self.models = models
        self.mode = mode
        self.watched = watched
        self.ignored = self.unstable = unstable
        """`ignored` also contains what torch writes into a module that it compiles."""
        self.eager = Behaviour()
        """The last eager call."""
        self._backend = backend
        self._seed: int | None = None
        self._eager: Any = None
        self._model: Any = None
        self._compiled: Any = None
        dynamo.reset()

    def called(self, key: Key) -> tuple[Behaviour, Behaviour]:
        """Make one call, eager and compiled."""
        eager = self.called_eagerly(key)
        compiled = self.called_compiled(key)
        if eager.error is not None:
            self._seed = None  # each may have ended elsewhere: its counts until then are not a difference
        return eager, compiled

    def compiled(self, key: Key) -> Behaviour:
        """Make one call, eager and compiled, and return the effects of the compiled one."""
        return self.called(key)[1]

    def called_eagerly(self, key: Key, case: Case | None = None) -> Behaviour:
        """Make only the eager call, with the inputs of the seed unless a case is given."""
        if key.seed != self._seed:
            self._begin(key.seed)
        case = case or self.models.get_inputs(key.seed)[key.case]
        self.eager = called(self.models.context, self._eager, self._eager, case, key, self.watched)
        return self.eager

    def called_compiled(
        self, key: Key, case: Case | None = None, watching: contextlib.AbstractContextManager[Any] | None = None
    ) -> Behaviour:
        """Make the compiled call that follows an eager one."""
        case = case or self.models.get_inputs(key.seed)[key.case]
        with watching or contextlib.nullcontext():
            compiled = called(self.models.context, self._model, self._compiled, case, key, self.watched, counts=False)
        if compiled.error is not None:
            self._seed = None
        return compiled

    def begin_anew(self) -> None:
        """Build the models again for the next call. Compiled code is used again if it fits."""
        self._seed = None

    def _begin(self, seed: int) -> None:
        context = self.models.context
        self._seed, self._eager = seed, self.models.get_model(self.mode, seed)
        if self._model is None or not _takes_over(self._model, self._eager, self.ignored):
            self._model = context.build_as(self.mode, seed)
            own = state_of(self._model).keys()
            self._compiled = compile_callable(self._model, backend=self._backend)
            self.ignored = self.unstable | (state_of(self._model).keys() - own)


def _takes_over(model: Any, other: Any, ignored: frozenset[str]) -> bool:
    """Return whether a compiled module equals another one after loading its weights, except for `ignored` names: then
    it is not compiled again."""
    if not isinstance(model, nn.Module):
        return False
    with contextlib.suppress(RuntimeError, KeyError, TypeError):
        model.load_state_dict(other.state_dict())
        one, two = state_of(model), state_of(other)
        alike = one.keys() - two.keys() <= ignored and two.keys() <= one.keys()
        return alike and restless(Behaviour(state=two), Behaviour(state=one)) <= ignored
    return False
