"""Use models that were called once before: state that they create at their first call exists when they are compiled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from tcready.dynamic.worker.core.calling import autocast, seed_generators
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.generators import restore_generators
from tcready.dynamic.worker.inputs.loading import fresh
from tcready.dynamic.worker.proof.behaviour import Behaviour
from tcready.dynamic.worker.proof.behaviour_differences import difference
from tcready.dynamic.worker.proof.calls import Key, called
from tcready.dynamic.worker.proof.effects_of_call import heard
from tcready.dynamic.worker.proof.variations import GIVEN
from tcready.schema.enums import Mode
from tcready.schema.proof import Differs
from torch import nn


class CalledBefore:
    """Call each model that the context builds from now on once with the inputs as given, as a user would: in inference,
    without gradients."""

    def __init__(self, context: Context) -> None:
        self._context = context
        build, self._build_as = context.build, context.build_as

        def begun() -> Any:
            return self._begun(build())

        def begun_as(mode: Mode, seed: int) -> Any:
            return self._begun(self._build_as(mode, seed))

        context.build, context.build_as = begun, begun_as

    def difference(
        self, key: Key, first: Behaviour, actual: Behaviour, ignored: frozenset[str]
    ) -> tuple[Differs, str] | None:
        """Return the difference between `actual` and the call `key` of a model that was not called before.

        Output and random numbers of the very first call may be missing. Such numbers change later ones: in training
        the call is then compared with the second of two calls.
        """
        found = difference(first, actual, ignored)
        if found is None or key.variation != GIVEN or key.function is not None or key.case:
            return found
        model = self._build_as(key.mode, key.seed)
        case = self._context.draw(key.seed)[0]
        called(self._context, model, model, case, key)
        second = called(self._context, model, model, case, key)
        found = difference(replace(first, printed=second.printed, random=second.random), actual, ignored)
        if found is not None and key.mode == "train" and first.random != second.random:
            return difference(second, actual, ignored)
        return found

    def _begun(self, model: Any) -> Any:
        is_module = isinstance(model, nn.Module)
        training = {id(module): module.training for module in model.modules()} if is_module else {}
        case = fresh(self._context.cases[0])
        if is_module:
            model.eval()
        with restore_generators(), heard(), torch.no_grad(), autocast(self._context):
            seed_generators()
            model(*case.args, **case.kwargs)
        for module in model.modules() if is_module else ():
            module.training = training.get(id(module), training[id(model)])
        return model
