"""The definition of a stage, and the order of stages. This does not load torch."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tcready.dynamic.worker.core.case import NoInputsError, NotBuiltError, NoValuesError, RunError
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.journal import (
    NO_VALUES,
    NOT_MEASURED,
    NOT_REQUESTED,
    RunEndedError,
    StageFailedError,
    one_line,
)
from tcready.schema.enums import STAGES, StageName, StageReason


def always(_context: Context) -> bool:
    return True


@dataclass(frozen=True)
class Step:
    """One stage of a run."""

    name: str
    """The name in the schema. A step with another name is not a stage of a report: it adds to the observation, and its
    errors fail nothing."""
    run: Callable[[Context], None] | None
    """Runs it, and leaves the outcome in the journal. Raises StageFailedError if stages that require it cannot run.
    None: no run of this version does it."""
    requires: tuple[str, ...] = ()
    """Steps that must not have failed; a step that was not requested has not."""
    is_requested: Callable[[Context], bool] = always
    """Returns whether it is requested; else the stage is `not_run`."""
    needs_values: bool = False
    """True if it compares or measures values of tensors: on the device `meta` the stage is `not_run`."""


def climb(context: Context, steps: Sequence[Step]) -> StageFailedError | None:
    """Run the steps in order, each one that is requested and has its requirements met; return the first failure, if any.

    Stages that never began get their reason when the journal is closed. Raises RunEndedError if nothing more can be
    found.
    """
    failure: StageFailedError | None = None
    for step in steps:
        if not context.blocked.isdisjoint(step.requires):
            context.blocked.add(step.name)
            continue
        stage = stage_name(step.name)
        if step.run is None or not step.is_requested(context):
            if stage is not None:
                context.journal.skip(stage, NOT_REQUESTED if step.run else NOT_MEASURED, "not_asked")
            continue
        if step.needs_values and context.stand_ins is not None:
            if stage is not None:
                context.journal.skip(stage, NO_VALUES, "no_values")
            continue
        try:
            step.run(context)
        except StageFailedError as error:
            context.blocked.add(step.name)
            failure = failure or error
        _name_sources(context)
    return failure


def stage_name(name: str) -> StageName | None:
    """Return the stage of that name; None for a step that is not a stage of a report."""
    return next((stage for stage in STAGES if stage == name), None)


@contextlib.contextmanager
def failing(context: Context, stage: StageName, note: str = "", reason: StageReason = "error") -> Iterator[None]:
    """Begin the stage; an exception inside fails it, in one line, for `reason`. Raises StageFailedError then."""
    journal = context.journal
    if journal.doing != stage:
        journal.begin(stage, note)
    try:
        yield
    except (StageFailedError, RunEndedError):
        raise
    except RunError as error:
        journal.end("fail", str(error), _reason_of(error, reason))
        raise StageFailedError from error
    except BaseException as error:
        left = isinstance(error, SystemExit)
        journal.end("fail", one_line(error, context.work.root), "exit" if left else reason)
        raise StageFailedError from error


def _reason_of(error: RunError, otherwise: StageReason) -> StageReason:
    if isinstance(error, NoInputsError):
        return "no_inputs"
    if isinstance(error, NotBuiltError):
        return "not_built"
    return "no_values" if isinstance(error, NoValuesError) else otherwise


def _name_sources(context: Context) -> None:
    """Put the files that were named so far into the observation, so that a later crash preserves them."""
    sources = tuple(sorted(context.names.sources.items()))
    if sources != context.journal.observation.sources:
        context.journal.add(sources=sources, digests=digests(sources))
        context.journal.write("")


def digests(sources: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return display path and SHA-256 of each file that can be read."""
    found = []
    for shown, path in sources:
        with contextlib.suppress(OSError), open(path, "rb") as file:
            found.append((shown, hashlib.sha256(file.read()).hexdigest()))
    return tuple(found)
