"""Record what importing and building a model shows, before any call of it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

import torch
from tcready.dynamic.worker.calling import seed_generators
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.generators import Generators
from tcready.dynamic.worker.journal import RunEndedError
from tcready.dynamic.worker.loading import SEED_BUILD
from tcready.dynamic.worker.pipeline import TO_A_MODEL
from tcready.dynamic.worker.proof.behaviour import Behaviour, heard, lines_that_move, state_of
from tcready.dynamic.worker.proof.models import Models
from tcready.dynamic.worker.proof.surroundings import (
    environment_read,
    environment_set,
    left_otherwise,
    surroundings,
    writes,
)
from tcready.dynamic.worker.proof.variations import ENVIRONMENT
from tcready.dynamic.worker.step import climb
from tcready.schema.proof import ProofRequest
from torch import nn


@dataclass(frozen=True)
class Build:
    """The import and the build of a model."""

    failure: str | None = None
    """Why it failed, in one line."""
    seen: Behaviour = field(default_factory=Behaviour)
    """What it prints, writes, draws and sets for the process."""
    restless: frozenset[str] = frozenset()
    """What differs between two builds."""


def start(context: Context) -> str | None:
    """Import and build. Return why that failed, in one line."""
    with contextlib.suppress(RunEndedError):
        climb(context, TO_A_MODEL)
    context.journal.write("")
    failed = [
        s for s in context.journal.observation.stages if s.stage in ("import", "build") and s.state != "pass"
    ]
    return f"{failed[0].stage}: {failed[0].detail}" if failed else None


def begin(context: Context, request: ProofRequest) -> Build:
    """Import and build, and build again where environment variables that the changed files read have other values."""
    changed = {place.path for place in request.functions}
    with heard() as (printed, _), environment_read(changed) as names, writes().noted() as written:
        before = surroundings()  # warnings have other filters meanwhile
        failure = start(context)
        process = left_otherwise(before, surroundings())
    if failure is not None:
        return Build(failure)
    process |= written
    for value in ENVIRONMENT.values() if names else ():
        made = f"{', '.join(names)} is {value!r}, and the model is built with"
        with environment_set(dict.fromkeys(names, value)), heard():
            try:
                state = state_of(context.build_as("infer", SEED_BUILD + 1))
            except Exception as error:
                state = {"an exception": type(error).__name__}
        process |= {f"{made} {name}": kept for name, kept in state.items()}
    seed_generators()
    with heard() as (again, _):
        context.build_as("infer", SEED_BUILD + 1)
    random = Generators.now().digest()
    known = {*printed.getvalue().splitlines()}
    new = [line for line in again.getvalue().splitlines() if line not in known]
    seen = Behaviour(printed=printed.getvalue(), process=process, random=random)
    return Build(None, seen, lines_that_move(new))


def weights_built(models: Models, request: ProofRequest) -> dict[str, tuple[Any, ...]]:
    """What tells the weights of one build from those of another."""
    model = models.built("infer", request.seeds[0])
    state = model.state_dict() if isinstance(model, nn.Module) else {}
    held = [*model.parameters(), *model.buffers()] if isinstance(model, nn.Module) else []
    own = {each.data_ptr() for each in held if each.layout == torch.strided}
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
