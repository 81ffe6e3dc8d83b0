"""What recompiles when the sizes of the inputs change, under each setting of `dynamic`, and what to do about it.

The last phase of a run, so that nothing else waits for it or falls with it: the study is written to the journal
after every step, and says what is missing while it is. Each trial is one compiled callable from a reset.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from tcready.dynamic.worker import narrate
from tcready.dynamic.worker.budget import spent
from tcready.dynamic.worker.calling import call, compile_error
from tcready.dynamic.worker.case import Case
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.frames import is_user_file
from tcready.dynamic.worker.journal import BUDGET_SPENT, one_line
from tcready.dynamic.worker.originals import compile_callable
from tcready.dynamic.worker.shape_advice import PLACE, advise, changed, every_size, settles_never
from tcready.dynamic.worker.shape_axes import (
    Candidate,
    Places,
    candidates,
    inputs_of,
    parameter_names,
    resized,
)
from tcready.dynamic.worker.step import Step
from tcready.dynamic.worker.torch_internals import dynamo, pytree
from tcready.dynamic.worker.torch_internals.recording import RECOMPILE_LIMIT, Record, recording
from tcready.schema import (
    Frame,
    InputDimension,
    InputShape,
    RefusedSize,
    ShapeAxis,
    ShapeCall,
    ShapeSetting,
    ShapeStudy,
    ShapeTrial,
)

SETTINGS: tuple[tuple[ShapeSetting, Mapping[str, bool]], ...] = (
    ("default", {}),
    ("dynamic=True", {"dynamic": True}),
    ("dynamic=False", {"dynamic": False}),
)
STEPS = (1, 2, 3)
"""What is added to the given size; where the model takes none of it, this many times the size is added."""
MANY_AXES = 6
"""More groups of dimensions than this are left out, and the study says so."""
CASES = "cases"
SPECIALISED = re.compile(r"You marked .+? as dynamic but your code specialized it to be a constant \(\d+\)")


@dataclass(frozen=True)
class Axis:
    """An axis as it is reported, and the leaves it stands for."""

    shape: ShapeAxis
    places: Places


@dataclass(frozen=True)
class Call:
    """One call of a trial."""

    label: str
    case: Case
    size: int | None = None
    identical: bool = False


class SpentError(Exception):
    """The budget ended the study."""


class DeviceLostError(Exception):
    """The device takes no more calls: on CUDA an index out of range spoils the process."""


@dataclass
class Study:
    """What the study adds up to; `note` writes it, with what is still to come named as cut."""

    context: Context
    names: Sequence[str] = ()
    """The positional parameters of the target."""
    found: ShapeStudy = field(default_factory=ShapeStudy)

    def add(self, **facts: Any) -> None:
        self.found = replace(self.found, **facts)

    def cut(self, text: str) -> None:
        self.add(cut=(*self.found.cut, text))

    def note(self, doing: str) -> None:
        """Ask for the time that is left, then say what comes. Raises SpentError where none is left."""
        if spent(self.context):
            self.cut(f"{BUDGET_SPENT} before {doing}")
            raise SpentError
        journal = self.context.journal
        journal.add(shapes=replace(self.found, cut=(*self.found.cut, f"the run ended during {doing}")))
        journal.write(f"shapes, {doing}")

    def close(self) -> None:
        self.context.journal.add(shapes=self.found)
        self.context.journal.end("pass")


def run(context: Context) -> None:
    """Run the study and leave it in the journal; whatever the model raises becomes part of it."""
    study = Study(context)
    context.journal.begin("shapes", "shapes")
    try:
        study.note("the signature")
        study.names = parameter_names(context.build())
        _cases(study)
        _sweep(study)
    except SpentError:
        pass
    except DeviceLostError as error:
        study.cut(str(error))
    except (Exception, SystemExit) as error:
        study.cut(f"ended by {one_line(error, context.work.root)}")
    finally:
        dynamo.reset()
        study.close()


def _cases(study: Study) -> None:
    """The named cases, one after the other, in one compiled callable under each setting."""
    cases = study.context.cases
    if len(cases) < 2:
        return
    steps = [Call(case.name or f"case {number}", case) for number, case in enumerate(cases, 1)]
    steps.insert(1, Call(f"{steps[0].label} again", cases[0], identical=True))
    trials = [_trial(study, CASES, setting, options, steps) for setting, options in SETTINGS]
    study.add(advice=(*study.found.advice, advise(CASES, trials, (), 1)))


def _sweep(study: Study) -> None:
    """Other sizes of the first case's inputs, axis by axis."""
    case = study.context.cases[0]
    study.add(case=case.name)
    found = candidates(inputs_of(case, study.names))
    if not found:
        study.cut("no tensor among the inputs has a size that could vary")
    for left in found[MANY_AXES:]:
        study.cut(f"{left.name}: only {MANY_AXES} groups of dimensions are varied")
    axes: list[ShapeAxis] = []
    for candidate in found[:MANY_AXES]:
        fixed = {axis.name for axis in axes if axis.fixed}
        if candidate.instead_of is not None and candidate.instead_of not in fixed:
            continue
        axis = _tried(study, case, candidate)
        axes.append(axis.shape)
        study.add(axes=tuple(axes))
        if axis.shape.fixed:
            continue
        if any(item.cure == "mend" for item in study.found.advice):
            study.cut(f"{axis.shape.name} under Dynamo: an identical call recompiles")
        else:
            _vary(study, case, axis)


def _vary(study: Study, case: Case, axis: Axis) -> None:
    """The trials of one axis and the advice from them."""
    given = [Call("given", case), Call("again", case, identical=True)]
    sizes = axis.shape.sizes
    steps = given + _steps(case, axis, sizes)
    trials: list[ShapeTrial] = []
    for setting, options in SETTINGS:
        trial = _trial(study, axis.shape.name, setting, options, steps)
        if setting == "default" and every_size(trial):
            more = _further(study, case, axis)
            if more:
                steps = given + _steps(case, axis, (*sizes, *more))
                study.add(trials=study.found.trials[:-1])
                trial = _trial(study, axis.shape.name, setting, options, steps)
        trials.append(trial)
    if changed(trials[0]) and not settles_never(trials[0]):
        trials.append(_trial(study, axis.shape.name, "mark_dynamic", {}, steps, axis.places))
    limit = int(dynamo.flags().get("recompile_limit", 0))
    advice = advise(axis.shape.name, trials, axis.shape.dimensions, limit, _ranks(case, axis))
    study.add(advice=(*study.found.advice, advice))


def _steps(case: Case, axis: Axis, sizes: Iterable[int]) -> list[Call]:
    """One call for each size; a size of 1, which Dynamo always compiles apart, comes last."""
    ordered = sorted(sizes, key=lambda size: size == 1)
    return [Call(f"{axis.shape.name} {size}", resized(case, axis.places, size), size) for size in ordered]


# The eager model


def _tried(study: Study, case: Case, candidate: Candidate) -> Axis:
    """The sizes that the eager model takes, with the first of the candidate's groups with which it takes any."""
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


def _axis(study: Study, case: Case, candidate: Candidate, places: Places) -> ShapeAxis:
    names = {item.leaf: item.name for item in inputs_of(case, study.names)}
    dimensions = tuple(InputDimension(names[leaf], dimension) for leaf, dimension in places)
    return ShapeAxis(candidate.name, candidate.size, dimensions)


class _Eager:
    """One eager model that is asked about sizes in the order in which compiled ones will be."""

    def __init__(self, study: Study, name: str, case: Case, places: Places) -> None:
        self.study, self.context, self.name = study, study.context, name
        self.case = case
        self.places = places
        self.model: Any = None

    def refuses(self, size: int) -> str | None:
        """The first line of what the model raises with another size, None where it takes it."""
        self.study.note(f"{self.name} {size} in the eager model")
        if self.model is None:
            self.model = self.context.build()
            self._call(self.case)  # raises where the given inputs no longer work: the device is lost
        try:
            self._call(resized(self.case, self.places, size))
        except (Exception, SystemExit) as error:
            self.model = None  # a call that raised half-way may have left anything behind
            reason = one_line(error, self.context.work.root)
            self._settle(f"{self.name} {size} in the eager model: the device was lost: {reason}")
            return reason
        return None

    def _settle(self, message: str) -> None:
        """Wait for the device, which tells of an index out of range only then. Raises DeviceLostError."""
        if self.context.work.options.device.startswith("cuda"):
            try:
                torch.cuda.synchronize()
            except Exception as error:
                raise DeviceLostError(message) from error

    def _call(self, case: Case) -> None:
        with torch.compiler.set_stance("force_eager"):
            call(self.context, self.model, case)
        if self.context.work.options.device.startswith("cuda"):
            torch.cuda.synchronize()  # an index out of range shows only then


def _further(study: Study, case: Case, axis: Axis) -> tuple[int, ...]:
    """Sizes beyond, as many as reach the recompile limit, as far as the eager model takes them."""
    limit = int(dynamo.flags().get("recompile_limit", 0))
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
    study: Study,
    varied: str,
    setting: ShapeSetting,
    options: Mapping[str, bool],
    steps: Sequence[Call],
    marked: Places = (),
) -> ShapeTrial:
    """The calls of one compiled callable, from a reset; the last is the one that raised, where one did.

    `marked`: dimensions that the caller marks dynamic, before each call.
    """
    context = study.context
    study.note(f"{varied} under {setting}")
    dynamo.reset()
    compiled: Callable[..., Any] = compile_callable(context.build(), backend="eager", **options)
    function = _marking(compiled, marked) if marked else compiled
    calls: list[ShapeCall] = []
    for step in steps:
        record = Record()
        error: str | None = None
        try:
            call(context, function, step.case, recording(record, every_guard=True))
        except (Exception, SystemExit) as raised:
            error = compile_error(raised, context)
            if specialised := SPECIALISED.search(str(raised)):
                place = PLACE.search(error)
                error = f"{type(raised).__name__}: {specialised[0]}{place[0] if place else ''}"
        calls.append(_shape_call(study, step, record, error))
        if error is not None:
            break
        if spent(context) and step is not steps[-1]:
            study.cut(f"{BUDGET_SPENT} in {varied} under {setting}, behind {step.label}")
            study.add(trials=(*study.found.trials, _sum(varied, setting, calls)))
            raise SpentError
    trial = _sum(varied, setting, calls)
    study.add(trials=(*study.found.trials, trial))
    return trial


def _sum(varied: str, setting: ShapeSetting, calls: Sequence[ShapeCall]) -> ShapeTrial:
    return ShapeTrial(
        varied,
        setting,
        tuple(calls),
        sum(item.recompiled for item in calls),
        any(item.limit for item in calls),
        next((item.error for item in calls if item.error), None),
    )


def _marking(compiled: Callable[..., Any], marked: Places) -> Callable[..., Any]:
    """Calls `compiled` with the tensors at `marked` marked dynamic, as their caller would."""

    def function(*args: Any, **kwargs: Any) -> Any:
        leaves, _ = pytree.tree_flatten((args, kwargs))
        for leaf, dimension in marked:
            dynamo.mark_dynamic(leaves[leaf], dimension)
        return compiled(*args, **kwargs)

    return function


def _shape_call(study: Study, step: Call, record: Record, error: str | None) -> ShapeCall:
    context = study.context
    known = {(site.path, site.line) for site in context.journal.observation.break_sites}
    for site in narrate.break_sites(record, context.names, step.case.name):
        warning = (
            f"with other sizes ({step.label}) the graph breaks at {site.path}:{site.line}: {site.reason}"
        )
        if (site.path, site.line) not in known and site.action != "skip_frame_unlogged":
            if not any(
                f"{site.path}:{site.line}:" in known_warning
                for known_warning in context.journal.observation.warnings
            ):
                context.journal.warn(warning)
    kept = replace(record, recompiles=[event for event in record.recompiles if event.kept])
    gave_up = [event.place for event in record.skips if event.gb_type == RECOMPILE_LIMIT]
    limit: dict[Frame, None] = {}
    for place in gave_up:
        if is_user_file(place.path):
            limit[context.names.frame(place.path, place.line, place.name)] = None
        else:
            limit[Frame(context.names.path(place.path), place.line, place.name)] = None
    return ShapeCall(
        step.label,
        tuple(InputShape(item.name, tuple(item.tensor.shape)) for item in inputs_of(step.case, study.names)),
        len(record.compiled),
        len(kept.recompiles),
        narrate.recompiles(kept, context.names, step.case.name, step.identical),
        tuple(limit),
        error,
        step.size,
        step.identical,
    )


def _ranks(case: Case, axis: Axis) -> dict[str, int]:
    leaves, _ = pytree.tree_flatten((case.args, case.kwargs))
    names = [item.argument for item in axis.shape.dimensions]
    return {name: leaves[leaf].dim() for name, (leaf, _) in zip(names, axis.places, strict=True)}


STEP = Step("shapes", run, requires=("capture",), asked=lambda context: context.work.options.shapes)
