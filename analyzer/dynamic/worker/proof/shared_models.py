"""Share models and inputs between the calls of a proof: building a model again takes longer than most of its calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.proof.behaviour_differences import is_as_before
from tcready.dynamic.worker.proof.effects_of_call import HOOKS, state_of
from tcready.schema.enums import Mode
from torch import nn


@dataclass(frozen=True)
class _Built:
    model: nn.Module
    seed: int
    state: dict[str, Any]
    rest: list[Any]


@dataclass
class Models:
    """Caches what the context builds and draws. A model is used again while calls do not change it."""

    context: Context
    _last: _Built | None = None
    _drawn: dict[int, tuple[Case, ...]] = field(default_factory=dict)

    def get_model(self, mode: Mode, seed: int) -> Any:
        """Return a model with the weights of a seed, in its initial state."""
        last = self._last
        if last is not None and last.seed == seed and _is_as_built(last):
            return last.model.train(mode == "train")
        self._last = None  # two are not held at once
        model = self.context.build_as(mode, seed)
        if isinstance(model, nn.Module):
            self._last = _Built(model, seed, state_of(model), _not_in_state(model))
        return model

    def get_inputs(self, seed: int) -> tuple[Case, ...]:
        """Return the inputs of a seed, which must be copied for each call."""
        if seed not in self._drawn:
            self._drawn[seed] = self.context.draw(seed)
        return self._drawn[seed]


def _is_as_built(built: _Built) -> bool:
    return built.rest == _not_in_state(built.model) and is_as_before(built.state, state_of(built.model))


def _not_in_state(model: nn.Module) -> list[Any]:
    """Return state of a model, beyond buffers and attributes, that calls might change: of parameters, modules and
    hooks."""
    found: list[Any] = [(name, id(each), each._version, each.requires_grad) for name, each in model.named_parameters()]
    found += [
        (name, id(module), *(len(getattr(module, hooks)) for hooks in HOOKS)) for name, module in model.named_modules()
    ]
    return found
