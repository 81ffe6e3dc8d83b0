"""Record the effects of importing and building a model, before any call."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

import torch
from tcready.dynamic.worker.core.calling import seed_generators
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.generators import Generators
from tcready.dynamic.worker.core.journal import RunEndedError
from tcready.dynamic.worker.core.pipeline import TO_A_MODEL
from tcready.dynamic.worker.core.step import climb
from tcready.dynamic.worker.inputs.loading import SEED_BUILD
from tcready.dynamic.worker.proof.behaviour import Behaviour
from tcready.dynamic.worker.proof.behaviour_differences import lines_that_move
from tcready.dynamic.worker.proof.effects_of_call import heard, state_of
from tcready.dynamic.worker.proof.global_state import (
    environment_read,
    environment_set,
    global_state,
    left_otherwise,
    writes,
)
from tcready.dynamic.worker.proof.shared_models import Models
from tcready.dynamic.worker.proof.variations import environments
from tcready.schema.proof import ProofRequest
from torch import nn


@dataclass(frozen=True)
class Build:
    """The import and the build of a model."""

    failure: str | None = None
    """The reason for the failure, in one line."""
    seen: Behaviour = field(default_factory=Behaviour)
    """Its output, writes, random numbers and settings of the process."""
    restless: frozenset[str] = frozenset()
    """Differences between two builds."""


def start(context: Context) -> str | None:
    """Import and build. Return why that failed, in one line."""
    with contextlib.suppress(RunEndedError):
        climb(context, TO_A_MODEL)
    context.journal.write("")
    failed = [s for s in context.journal.observation.stages if s.stage in ("import", "build") and s.state != "pass"]
    return f"{failed[0].stage}: {failed[0].detail}" if failed else None


def begin(context: Context, request: ProofRequest) -> Build:
    """Import and build, and build again with other values of environment variables that the changed files read."""
    changed = {place.path for place in request.functions}
    with heard() as (printed, _), environment_read(changed) as names, writes().noted() as written:
        before = global_state()  # warnings have other filters meanwhile
        failure = start(context)
        process = left_otherwise(before, global_state())
    if failure is not None:
        return Build(failure)
    process |= written
    for value in environments(request.constants).values() if names else ():
        made = f"{', '.join(names)} is {value!r}, and the model is built with"
        with environment_set(dict.fromkeys(names, value)), heard():
            try:
                state = state_of(context.build_as("infer", SEED_BUILD + 1))
            except Exception as error:
                state = {"an exception": type(error).__name__}
        process |= {f"{made} {name}": entry for name, entry in state.items()}
    seed_generators()
    with heard() as (again, _):
        context.build_as("infer", SEED_BUILD + 1)
    random = Generators.now().digest()
    known = {*printed.getvalue().splitlines()}
    new = [line for line in again.getvalue().splitlines() if line not in known]
    seen = Behaviour(printed=printed.getvalue(), process=process, random=random)
    return Build(None, seen, lines_that_move(new))


def weights_built(models: Models, request: ProofRequest) -> dict[str, tuple[Any, ...]]:
    """Return values that identify the weights of a build."""
    model = models.get_model("infer", request.seeds[0])
    state = model.state_dict() if isinstance(model, nn.Module) else {}
    tensors = [*model.parameters(), *model.buffers()] if isinstance(model, nn.Module) else []
    own = {each.data_ptr() for each in tensors if each.layout == torch.strided}
    return {
        name: (
            value.shape,
            value.dtype,
            float(torch.nan_to_num(value.detach().double()).sum()),
            value.data_ptr() in own,
        )
        for name, value in state.items()
        if isinstance(value, torch.Tensor) and value.layout == torch.strided and not value.is_complex()
    }
