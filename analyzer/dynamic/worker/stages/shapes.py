"""Try other sizes of the inputs under each setting: find what raises, differs, breaks or recompiles, and give advice.

This is the last stage, so that nothing else waits for it or fails with it: the study is written to the journal after
every step, and says what is missing so far. Each trial is one compiled callable, after a reset.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from tcready.dynamic.worker.core.budget import begins, spent
from tcready.dynamic.worker.core.calling import call, settle
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.journal import BUDGET_SPENT, one_line
from tcready.dynamic.worker.core.step import Step
from tcready.dynamic.worker.plan.shape_advice import (
    advise,
    changed,
    every_size,
    mark_code,
    pad_code,
    rank_trials,
    settles_never,
    spec_code,
)
from tcready.dynamic.worker.plan.shape_axes import (
    AxisCandidate,
    Places,
    candidates,
    inputs_of,
    parameter_names,
    resize_inputs,
)
from tcready.dynamic.worker.plan.shape_trial import Expected, Made, TrialCall, TrialSetting, calls_of, compared, sum_up
from tcready.dynamic.worker.torch_internals import dynamo, pytree
from tcready.dynamic.worker.torch_internals.compile_calls import compile_callable, takes_dynamic_shapes
from tcready.schema.enums import StageReason
from tcready.schema.run import CASES, InputDimension, RefusedSize, ShapeAxis, ShapeCall, ShapeStudy, ShapeTrial

DEFAULT = TrialSetting("default")
SETTINGS = (
    DEFAULT,
    TrialSetting("dynamic=True", "model = torch.compile(model, dynamic=True)"),
    TrialSetting("dynamic=False", "model = torch.compile(model, dynamic=False)"),
)
STEPS = (1, 2, 3)
"""Numbers that are added to the given size; if the model accepts none of these sizes, multiples of the size are added."""
MANY_AXES = 6
"""The most groups of dimensions that are studied; the study reports groups that are left out."""


@dataclass(frozen=True)
class Axis:
    """A reported axis, and its leaves."""

    shape: ShapeAxis
    places: Places


class SpentError(Exception):
    """The budget ended the study."""


class DeviceLostError(Exception):
    """The device accepts no more calls: on CUDA an index out of range makes the process unusable."""


@dataclass
class Study:
    """The results of the study; `note` writes them, with the remaining work named as cut."""

    context: Context
    names: Sequence[str] = ()
    """The positional parameters of the target."""
    found: ShapeStudy = field(default_factory=ShapeStudy)

    def add(self, **facts: Any) -> None:
        self.found = replace(self.found, **facts)

    def cut(self, text: str) -> None:
        self.add(cut=(*self.found.cut, text))

    def note(self, doing: str) -> None:
        """Check the remaining time, then announce the next step. Raises SpentError if no time is left."""
        if spent(self.context):
            self.cut(f"{BUDGET_SPENT} before {doing}")
            raise SpentError
        journal = self.context.journal
        journal.add(shapes=replace(self.found, cut=(*self.found.cut, f"the run ended during {doing}")))
        journal.write(f"shapes, {doing}")

    def close(self, failure: str | None, reason: StageReason) -> None:
        """End the stage: the effect of the default setting on the model takes precedence over how the study ended."""
        journal = self.context.journal
        journal.add(shapes=self.found)
        usual = [trial for trial in self.found.trials if trial.setting == "default"]
        wrong = [(trial, call) for trial in usual for call in trial.calls if call.error or call.difference]
        if wrong:
            places: dict[tuple[str, str], list[str]] = {}
            for trial, call in wrong:
                places.setdefault(_wrong(call), []).append(trial.at(call))
            words = "; ".join(f"{did} {' and '.join(at)}: {why}" for (did, why), at in places.items())
            raised = any(call.error for _, call in wrong)
            journal.end("fail", words, "compile_error" if raised else "mismatch")
        elif failure is not None:
            journal.end("fail", failure, reason)
        else:
            journal.end("pass", self.summary())

    def summary(self) -> str:
        """Summarize as `batch: mark_dynamic; dimension 1 of x: fixed`."""
        shown = [f"{item.varied}: {item.cure}" for item in self.found.advice]
        shown += [f"{axis.name}: fixed" for axis in self.found.axes if axis.fixed]
        return "; ".join([*shown, *(f"not done: {text}" for text in self.found.cut)])


def _wrong(call: ShapeCall) -> tuple[str, str]:
    """Describe the problem of a call, in text before and after its location."""
    if call.error:
        return "the compiled call raised at", call.error
    return "the compiled call differs from eager at", call.difference or ""


def run(context: Context) -> None:
    """Run the study and leave it in the journal."""
    study = Study(context)
    if not begins(context, "shapes", "shapes"):
        return
    failure: str | None = None
    reason: StageReason = "error"
    try:
        study.note("the signature")
        study.names = parameter_names(context.build())
        _load_symbols()
        _cases(study)
        _sweep(study)
    except SpentError:
        pass
    except DeviceLostError as error:
        study.cut(str(error))
    except (Exception, SystemExit) as error:
        failure = one_line(error, context.work.root)
        study.cut(f"ended by {failure}")
        reason = "exit" if isinstance(error, SystemExit) else "error"
    finally:
        dynamo.reset()
    study.close(failure, reason)


def _load_symbols() -> None:
    """Load what works with symbols, which the first symbolic size of a process does: no trial includes its time."""
    compiled = compile_callable(lambda tensor: tensor + 1, backend="eager", dynamic=True)
    for size in (2, 3):
        compiled(torch.ones(size))


def _cases(study: Study) -> None:
    """Call the named cases, one after the other, in one compiled callable under each setting."""
    cases = study.context.cases
    if len(cases) < 2:
        return
    steps = [TrialCall(case.name or f"case {number}", case) for number, case in enumerate(cases, 1)]
    steps.insert(1, TrialCall(f"{steps[0].label} again", cases[0], identical=True))
    study.note("the cases in the eager model")
    expected = _eager_results(study, CASES, steps)
    if expected is None:
        return
    trials = [_trial(study, CASES, setting, steps, expected) for setting in SETTINGS]
    study.add(advice=(*study.found.advice, advise(CASES, trials, _limit())))


def _eager_results(study: Study, varied: str, steps: Sequence[TrialCall]) -> Expected | None:
    """Return the results of eager code; None if it does not accept the given inputs and those of one more call."""
    expected = Expected(study.context, study.names, steps)
    if expected.error is not None:
        study.cut(f"all of {varied}: called twice each in one eager model, it raised {expected.error}")
    return expected if expected.takes(1) else None


def _limit() -> int:
    """Return how often Dynamo compiles a function before it gives up."""
    return int(dynamo.flags().get("recompile_limit", 0))


def _sweep(study: Study) -> None:
    """Try other sizes of the first case's inputs, axis by axis."""
    case = study.context.cases[0]
    study.add(case=case.name)
    found = candidates(inputs_of(case, study.names))
    if not found:
        study.cut("no tensor among the inputs has a size that could vary")
    for left in found[MANY_AXES:]:
        study.cut(f"{left.name}: only {MANY_AXES} groups of dimensions are varied")
    axes: list[ShapeAxis] = []
    studied: list[Axis] = []
    for candidate in found[:MANY_AXES]:
        fixed = {axis.name for axis in axes if axis.fixed}
        if candidate.instead_of is not None and candidate.instead_of not in fixed:
            continue
        axis = _accepted_sizes(study, case, candidate)
        axes.append(axis.shape)
        study.add(axes=tuple(axes))
        if axis.shape.fixed:
            continue
        if any(item.cure == "mend" for item in study.found.advice):
            study.cut(f"{axis.shape.name} under Dynamo: an identical call recompiles")
        else:
            _vary(study, case, axis)
            studied.append(axis)
    _vary_together(study, case, studied)


def _vary_together(study: Study, case: Case, axes: Sequence[Axis]) -> None:
    """Try the lines for all axes together if more than one axis needs lines: those of one axis say nothing of another."""
    marked = {item.varied for item in study.found.advice if item.cure in ("mark_dynamic", "dynamic_shapes")}
    axes = [axis for axis in axes if axis.shape.name in marked]
    if len(axes) < 2:
        return
    name = " and ".join(axis.shape.name for axis in axes)
    every = case
    for axis in axes:
        every = resize_inputs(every, axis.places, axis.shape.sizes[0])
    steps = _given_twice(case)
    for axis in axes:
        steps += _steps(case, axis, axis.shape.sizes[:2])
    steps.append(TrialCall(f"other {name}", every))
    study.note(f"{name} in the eager model")
    expected = _eager_results(study, name, steps)
    if expected is None:
        return
    dimensions = {axis.shape.name: axis.shape.dimensions for axis in axes}
    marking = mark_code([item for items in dimensions.values() for item in items])
    ranks: dict[str, int] = {}
    for axis in axes:
        ranks |= _ranks(case, axis)
    code = spec_code(dimensions, ranks) if takes_dynamic_shapes() else None
    settings = [DEFAULT, TrialSetting("mark_dynamic", call_code=marking)]
    settings += [TrialSetting("dynamic_shapes", code)] if code is not None else []
    trials = [_trial(study, name, setting, steps, expected) for setting in settings]
    together = advise(name, trials, _limit())
    also = f"; if the other sizes vary too, write the lines for {name}" if together.code else ""
    alone = [replace(item, text=item.text + also) if item.varied in dimensions else item for item in study.found.advice]
    study.add(advice=(*alone, together))


def _vary(study: Study, case: Case, axis: Axis) -> None:
    """Run the trials of one axis and add the advice."""
    name = axis.shape.name
    given = _given_twice(case)
    sizes = axis.shape.sizes
    steps = given + _steps(case, axis, sizes)
    study.note(f"{name} in the eager model")
    expected = _eager_results(study, name, steps)
    if expected is None:
        return
    trials = [_trial(study, name, DEFAULT, steps, expected)]
    if every_size(trials[0]) and (more := _further(study, case, axis)):
        steps = given + _steps(case, axis, (*sizes, *more))
        expected = _eager_results(study, name, steps) or expected
        study.add(trials=study.found.trials[:-1])
        trials = [_trial(study, name, DEFAULT, steps, expected)]
    trials += [_trial(study, name, setting, steps, expected) for setting in SETTINGS[1:]]
    usual = trials[0]
    order = rank_trials(trials)
    quiet = not changed(usual) and bool(order) and order[0] is usual
    if not quiet and not settles_never(usual):
        marking = TrialSetting("mark_dynamic", call_code=mark_code(axis.shape.dimensions))
        trials.append(_trial(study, name, marking, steps, expected))
        code = spec_code({name: axis.shape.dimensions}, _ranks(case, axis)) if takes_dynamic_shapes() else None
        if code is not None:
            trials.append(_trial(study, name, TrialSetting("dynamic_shapes", code), steps, expected))
    order = rank_trials(trials)
    if every_size(usual) and every_size(order[0]):
        padding = TrialSetting("pad", call_code=pad_code(axis.shape.dimensions, _ranks(case, axis)))
        study.note(f"{name} padded in the eager model")
        padded = Expected(study.context, study.names, steps, padding.call_code)
        if padded.error is None:
            trials.append(_trial(study, name, padding, steps, padded))
        else:
            refused = replace(sum_up(name, padding, ()), error=f"in the eager model {padded.error}")
            trials.append(refused)
            study.add(trials=(*study.found.trials, refused))
    study.add(advice=(*study.found.advice, advise(name, trials, _limit(), axis.shape.size)))


def _given_twice(case: Case) -> list[TrialCall]:
    return [TrialCall("given", case), TrialCall("again", case, identical=True)]


def _steps(case: Case, axis: Axis, sizes: Iterable[int]) -> list[TrialCall]:
    """Return one call for each size; a size of 1, which Dynamo always compiles separately, comes last."""
    ordered = sorted(sizes, key=lambda size: size == 1)
    return [TrialCall(f"{axis.shape.name} {size}", resize_inputs(case, axis.places, size), size) for size in ordered]


# The eager model


def _accepted_sizes(study: Study, case: Case, candidate: AxisCandidate) -> Axis:
    """The sizes that the eager model accepts, with the first of the candidate's groups with which it accepts any."""
    size = candidate.size
    complaint: str | None = None
    for places in candidate.groups:
        eager = _Eager(study, candidate.name, case, places)
        for sizes in ([size + step for step in STEPS], [size * (1 + step) for step in STEPS]):
            taken: list[int] = []
            refused: list[RefusedSize] = []
            for other in sizes:
                reason = eager.refuses(other)
                if reason is None:
                    taken.append(other)
                    continue
                refused.append(RefusedSize(other, reason))
                complaint = complaint or reason
                if not taken:
                    break
            if taken:
                if size != 1:
                    reason = eager.refuses(1)
                    taken += [1] if reason is None else []
                    refused += [RefusedSize(1, reason)] if reason else []
                known = _axis(study, case, candidate, places)
                return Axis(replace(known, sizes=tuple(taken), refused=tuple(refused)), places)
    known = _axis(study, case, candidate, candidate.groups[0])
    return Axis(replace(known, fixed=complaint), candidate.groups[0])


def _axis(study: Study, case: Case, candidate: AxisCandidate, places: Places) -> ShapeAxis:
    names = {item.leaf: item.name for item in inputs_of(case, study.names)}
    dimensions = tuple(InputDimension(names[leaf], dimension) for leaf, dimension in places)
    return ShapeAxis(candidate.name, candidate.size, dimensions)


class _Eager:
    """One eager model that tries sizes in the order in which compiled ones will."""

    def __init__(self, study: Study, name: str, case: Case, places: Places) -> None:
        self.study, self.context, self.name = study, study.context, name
        self.case = case
        self.places = places
        self.model: Any = None

    def refuses(self, size: int) -> str | None:
        """Return the first line of the exception of the model with another size; None if it accepts the size."""
        self.study.note(f"{self.name} {size} in the eager model")
        if self.model is None:
            self.model = self.context.build()
            self._call(self.case)  # raises if the given inputs no longer work: the device is lost
        try:
            self._call(resize_inputs(self.case, self.places, size))
        except (Exception, SystemExit) as error:
            self.model = None  # a call that raised half-way may have left anything behind
            reason = one_line(error, self.context.work.root)
            self._settle(f"{self.name} {size} in the eager model: the device was lost: {reason}")
            return reason
        return None

    def _settle(self, message: str) -> None:
        """Wait for the device, which reports an index out of range only then. Raises DeviceLostError."""
        try:
            settle(self.context)
        except Exception as error:
            raise DeviceLostError(message) from error

    def _call(self, case: Case) -> None:
        with torch.compiler.set_stance("force_eager"):
            call(self.context, self.model, case)
        settle(self.context)  # an index out of range shows only then


def _further(study: Study, case: Case, axis: Axis) -> tuple[int, ...]:
    """Return further sizes, as many as reach the recompile limit, as far as the eager model accepts them."""
    limit = _limit()
    tallest = max(axis.shape.sizes)
    step = tallest - sorted(axis.shape.sizes)[-2] if len(axis.shape.sizes) > 1 else 1
    eager = _Eager(study, axis.shape.name, case, axis.places)
    found: list[int] = []
    while len(axis.shape.sizes) + len(found) < limit + 1:
        size = tallest + step * (len(found) + 1)
        if eager.refuses(size) is not None:
            break
        found.append(size)
    return tuple(found)


# Under Dynamo


def _trial(
    study: Study, varied: str, setting: TrialSetting, steps: Sequence[TrialCall], expected: Expected
) -> ShapeTrial:
    """Make the calls of one compiled callable. Raises SpentError if the budget is spent."""
    study.note(f"{varied} under {setting.name}")
    found: list[Made] = []
    for made in calls_of(study.context, setting, steps, study.names, expected):
        found.append(made)
        if spent(study.context) and made.call.label != steps[-1].label:
            study.cut(f"{BUDGET_SPENT} in {varied} under {setting.name}, behind {made.call.label}")
            done = compared(setting, found, expected)
            study.add(trials=(*study.found.trials, sum_up(varied, setting, done)))
            raise SpentError
    trial = sum_up(varied, setting, compared(setting, found, expected))
    study.add(trials=(*study.found.trials, trial))
    return trial


def _ranks(case: Case, axis: Axis) -> dict[str, int]:
    leaves, _ = pytree.tree_flatten((case.args, case.kwargs))
    names = [item.argument for item in axis.shape.dimensions]
    return {name: leaves[leaf].dim() for name, (leaf, _) in zip(names, axis.places, strict=True)}


STEP = Step(
    "shapes", run, requires=("capture",), is_requested=lambda context: context.work.options.shapes, needs_values=True
)
