"""Models that were called once before: what they make at their first call is there when they are compiled."""

from __future__ import annotations

from typing import Any

import torch
from tcready.dynamic.worker.calling import autocast
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.loading import fresh
from tcready.dynamic.worker.proof.behaviour import Behaviour, heard
from tcready.dynamic.worker.proof.calls import Key, called
from tcready.dynamic.worker.proof.variations import GIVEN
from tcready.schema import Mode
from torch import nn


class CalledBefore:
    """From here on each model that the context builds is called with the inputs as given, as a user would call it: in
    inference, without gradients."""

    def __init__(self, context: Context) -> None:
        self._context = context
        build, self._build_as = context.build, context.build_as

        def begun() -> Any:
            return self._begun(build())

        def begun_as(mode: Mode, seed: int) -> Any:
            return self._begun(self._build_as(mode, seed))

        context.build, context.build_as = begun, begun_as

    def second(self, key: Key) -> Behaviour | None:
        """What the second of two calls does to a model as it stands, if `key` is the first call of one.

        What such a model draws, prints or notes at its first call alone a model that was called before does not.
        """
        if key.variation != GIVEN or key.function is not None or key.case:
            return None
        model = self._build_as(key.mode, key.seed)
        case = self._context.draw(key.seed)[0]
        called(self._context, model, model, case, key)
        return called(self._context, model, model, case, key)

    def _begun(self, model: Any) -> Any:
        is_module = isinstance(model, nn.Module)
        training = {id(module): module.training for module in model.modules()} if is_module else {}
        case = fresh(self._context.cases[0])
        if is_module:
            model.eval()
        with heard(), torch.no_grad(), autocast(self._context):
            model(*case.args, **case.kwargs)
        for module in model.modules() if is_module else ():
            module.training = training.get(id(module), training[id(model)])
        return model
