"""The stages in their order: all for a target, some for an object of this process."""

from __future__ import annotations

from tcready.dynamic.worker.core import distributed
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.environment import with_peaks
from tcready.dynamic.worker.core.journal import RunEndedError, StageFailedError
from tcready.dynamic.worker.core.step import Step, climb
from tcready.dynamic.worker.stages import (
    backend,
    blocks,
    build,
    capture,
    compare_outputs,
    compile_plan,
    eager,
    fullgraph,
    import_target,
    operators,
    own_compiles,
    parse,
    sequential_calls,
    shapes,
    training,
)

ORDER: tuple[Step, ...] = (
    parse.STEP,  # run by `main`, before it is known whether there is a torch
    import_target.STEP,
    build.STEP,
    eager.STEP,
    capture.STEP,
    sequential_calls.STEP,
    blocks.STEP,
    own_compiles.STEP,
    fullgraph.STEP,
    compare_outputs.STEP,
    training.STEP,
    Step("speed", None, requires=("capture", "in_turn")),
    # Stages that run generated or foreign code come late, since it may end the process; the shape study last, since an
    # index out of range may lose the device.
    compile_plan.STEP,
    backend.STEP,
    operators.STEP,
    shapes.STEP,
)
TO_A_MODEL = (import_target.STEP, build.STEP)
TO_GRAPHS = (eager.STEP, capture.STEP, fullgraph.STEP)
"""The steps of a proof: up to a model, and from there to the graphs that Dynamo captures."""
OF_AN_OBJECT = frozenset({"build", "eager", "capture", "in_turn", "fullgraph", "parity"})
"""The steps for an object that the caller of this process passed in. The other stages are `not_run`."""
FURTHER = frozenset({"training", "plan", "backend", "shapes"})
"""Further steps for such an object if it is checked like a target. Foreign operators are not tried, because they may
end the caller's process."""


def steps_of(as_a_target: bool) -> frozenset[str]:
    """Return the names of the steps for an object that was passed in."""
    return OF_AN_OBJECT | FURTHER if as_a_target else OF_AN_OBJECT


def run(context: Context) -> StageFailedError | None:
    """Run all steps from import to the end; the journal has every stage. Return the first failure that later stages
    could not tolerate.

    For an object that was passed in, the steps are those of `steps_of`.
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
