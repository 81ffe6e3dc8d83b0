"""The stages in order: all of them for a target, some of them for an object of this process."""

from __future__ import annotations

from tcready.dynamic.worker import distributed
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.environment import with_peaks
from tcready.dynamic.worker.journal import RunEndedError, StageFailedError
from tcready.dynamic.worker.stages import (
    backend,
    blocks,
    build,
    capture,
    custom_ops,
    eager,
    fullgraph,
    import_,
    in_turn,
    parity,
    parse,
    plan,
    shapes,
    training,
)
from tcready.dynamic.worker.step import Step, climb

ORDER: tuple[Step, ...] = (
    parse.STEP,  # run by `main`, before it is known whether there is a torch
    import_.STEP,
    build.STEP,
    eager.STEP,
    capture.STEP,
    in_turn.STEP,
    blocks.STEP,
    fullgraph.STEP,
    parity.STEP,
    training.STEP,
    Step("speed", None, requires=("capture", "in_turn")),
    # What runs generated or foreign code comes late, since it may end the process; the shape study last, since an
    # index out of range may lose the device.
    plan.STEP,
    backend.STEP,
    custom_ops.STEP,
    shapes.STEP,
)
TO_A_MODEL = (import_.STEP, build.STEP)
TO_GRAPHS = (eager.STEP, capture.STEP, fullgraph.STEP)
"""The steps of a proof: up to a model, and from there to what Dynamo captures of it."""
OF_AN_OBJECT = frozenset({"build", "eager", "capture", "in_turn", "fullgraph", "parity"})
"""The steps for an object that the caller of this process gave. The other stages are `not_run`."""
FURTHER = frozenset({"training", "plan", "backend", "shapes"})
"""Those that it climbs as well if it is checked as a target is. Foreign operators are not tried: they may end the process
of whoever asks."""


def steps_of(as_a_target: bool) -> frozenset[str]:
    """The names of the steps for an object that was given."""
    return OF_AN_OBJECT | FURTHER if as_a_target else OF_AN_OBJECT


def run(context: Context) -> StageFailedError | None:
    """Climb from import to the end; the journal has every stage. The first failure that later stages could not bear.

    For an object that was given the steps are those of `steps_of`.
    """
    if context.given:
        names = steps_of(context.as_a_target)
        failure = climb(context, [step for step in ORDER if step.name in names])
        context.journal.close()
        return failure
    try:
        failure = climb(context, [step for step in ORDER if step is not parse.STEP])
    except RunEndedError:
        failure = None
    else:
        if failure is None:
            distributed.end(context.work)
    known = context.journal.observation.environment
    context.journal.add(environment=with_peaks(known, context.work, context.peak_bytes))
    context.journal.close()
    return failure
