"""What recompiles when the sizes of the inputs change, under each setting of `dynamic`, and what to do about it.

The last phase of a run, so that nothing else waits for it or falls with it: the study is written to the journal
after every step, and says what is missing while it is. Each trial is one compiled callable from a reset.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from tcready.dynamic.worker import narrate
from tcready.dynamic.worker.frames import is_user_file
from tcready.dynamic.worker.journal import BUDGET_SPENT, told
from tcready.dynamic.worker.originals import compile_callable
from tcready.dynamic.worker.target import Case
from tcready.dynamic.worker.torch_internals import dynamo, pytree
from tcready.dynamic.worker.torch_internals.recording import RECOMPILE_LIMIT, Record, recording
from tcready.schema import (
    Frame,
    InputDimension,
    InputShape,
    RefusedSize,
    ShapeAdvice,
    ShapeAxis,
    ShapeCall,
    ShapeSetting,
    ShapeStudy,
    ShapeTrial,
)

if TYPE_CHECKING:
    from tcready.dynamic.worker.run import Run

SETTINGS: tuple[tuple[ShapeSetting, Mapping[str, bool]], ...] = (
    ("default", {}),
    ("dynamic=True", {"dynamic": True}),
    ("dynamic=False", {"dynamic": False}),
)
STEPS = (1, 2, 3)
"""What is added to the given size; where the model takes none of it, this many times the size is added."""
MANY_AXES = 6
"""More groups of dimensions than this are left out, and told."""
CASES = "cases"
SPECIALISED = re.compile(r"You marked .+? as dynamic but your code specialized it to be a constant \(\d+\)")
PLACE = re.compile(r" \(([^()]+:\d+)\)$")
IMAGE, SERIES, TABLE = 4, 3, 2
"""Dimensions of a float input by which it is taken for images, for a series of vectors, or for vectors."""

Places = tuple[tuple[int, int], ...]
"""Dimensions that are varied together: (number of the leaf among the inputs, dimension)."""


@dataclass(frozen=True)
class Input:
    """A tensor among the inputs: the number of its leaf, and how the caller would spell it."""

    leaf: int
    name: str
    tensor: torch.Tensor

    @property
    def counts(self) -> bool:
        """Token ids, indices or a mask, and no features."""
        return not self.tensor.is_floating_point() and not self.tensor.is_complex()


@dataclass(frozen=True)
class Candidate:
    """Dimensions of one size. `groups`: which of them go together, the likeliest first; the eager model decides."""

    name: str
    size: int
    groups: tuple[Places, ...]
    instead_of: str | None = None
    """The candidate that must have turned out fixed before this one is tried."""


@dataclass(frozen=True)
class Axis:
    """An axis as it is told, and the leaves it stands for."""

    told: ShapeAxis
    places: Places


@dataclass(frozen=True)
class Step:
    """One call of a trial."""

    label: str
    case: Case
    size: int | None = None
    identical: bool = False


class SpentError(Exception):
    """The budget ended the study."""


class LostError(Exception):
    """The device takes no more calls: on CUDA an index out of range spoils the process."""


@dataclass
class Study:
    """What the study adds up to; `note` writes it, with what is still to come told as cut."""

    this: Run
    call: Callable[..., Any]
    """One call with fresh inputs and the seed of every call: `run.call` of this run."""
    error: Callable[[BaseException], str]
    """What compiled code raised, in one line: `run.compile_error` of this run."""
    names: Sequence[str]
    """The positional parameters of the target."""
    found: ShapeStudy = field(default_factory=ShapeStudy)

    def add(self, **facts: Any) -> None:
        self.found = replace(self.found, **facts)

    def cut(self, text: str) -> None:
        self.add(cut=(*self.found.cut, text))

    def note(self, doing: str) -> None:
        """Ask for the time that is left, then say what comes. Raises SpentError where none is left."""
        if self.this.spent():
            self.cut(f"{BUDGET_SPENT} before {doing}")
            raise SpentError
        journal = self.this.journal
        journal.add(shapes=replace(self.found, cut=(*self.found.cut, f"the run ended during {doing}")))
        journal.write(f"shapes, {doing}")

    def close(self) -> None:
        self.this.journal.add(shapes=self.found)
        self.this.journal.write("")


def study_shapes(this: Run, call: Callable[..., Any], error: Callable[[BaseException], str]) -> None:
    """Run the study and leave it in the journal; whatever the model raises becomes part of it."""
    study = Study(this, call, error, ())
    try:
        study.note("the signature")
        study.names = _names(this.build())
        _cases(study)
        _sweep(study)
    except SpentError:
        pass
    except LostError as error:
        study.cut(str(error))
    except (Exception, SystemExit) as error:
        study.cut(f"ended by {told(error, this.work.root)}")
    finally:
        dynamo.reset()
        study.close()


def _cases(study: Study) -> None:
    """The named cases, one after the other, in one compiled callable under each setting."""
    cases = study.this.cases
    if len(cases) < 2:
        return
    steps = [Step(case.name or f"case {number}", case) for number, case in enumerate(cases, 1)]
    steps.insert(1, Step(f"{steps[0].label} again", cases[0], identical=True))
    trials = [_trial(study, CASES, setting, options, steps) for setting, options in SETTINGS]
    study.add(advice=(*study.found.advice, advise(CASES, trials, (), 1)))


def _sweep(study: Study) -> None:
    """Other sizes of the first case's inputs, axis by axis."""
    case = study.this.cases[0]
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
        axes.append(axis.told)
        study.add(axes=tuple(axes))
        if axis.told.fixed:
            continue
        if any(item.cure == "mend" for item in study.found.advice):
            study.cut(f"{axis.told.name} under Dynamo: an identical call recompiles")
        else:
            _vary(study, case, axis)


def _vary(study: Study, case: Case, axis: Axis) -> None:
    """The trials of one axis and the advice from them."""
    given = [Step("given", case), Step("again", case, identical=True)]
    sizes = axis.told.sizes
    steps = given + _steps(case, axis, sizes)
    trials: list[ShapeTrial] = []
    for setting, options in SETTINGS:
        trial = _trial(study, axis.told.name, setting, options, steps)
        if setting == "default" and _every_size(trial):
            more = _further(study, case, axis)
            if more:
                steps = given + _steps(case, axis, (*sizes, *more))
                study.add(trials=study.found.trials[:-1])
                trial = _trial(study, axis.told.name, setting, options, steps)
        trials.append(trial)
    if _changed(trials[0]) and not _settles_never(trials[0]):
        trials.append(_trial(study, axis.told.name, "mark_dynamic", {}, steps, axis.places))
    limit = int(dynamo.flags().get("recompile_limit", 0))
    advice = advise(axis.told.name, trials, axis.told.dimensions, limit, _ranks(case, axis))
    study.add(advice=(*study.found.advice, advice))


# Which dimensions


def inputs_of(case: Case, names: Sequence[str]) -> list[Input]:
    """The strided tensors with a dimension among the inputs; `names` are those of the positional parameters."""
    found = []
    leaves, _ = pytree.tree_flatten_with_path((case.args, case.kwargs))
    for number, (path, leaf) in enumerate(leaves):
        if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided and leaf.dim() and leaf.numel():
            key = path[1].idx if isinstance(path[1], pytree.SequenceKey) else path[1].key
            if isinstance(key, int):
                key = names[key] if key < len(names) else f"args[{key}]"
            found.append(Input(number, f"{key}{pytree.keystr(path[2:])}", leaf))
    return found


def _names(model: Any) -> list[str]:
    """The positional parameters of the target; none where its signature cannot be read."""
    function = model.forward if isinstance(model, torch.nn.Module) else model
    with contextlib.suppress(TypeError, ValueError):
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return [p.name for p in inspect.signature(function).parameters.values() if p.kind in kinds]
    return []


def candidates(inputs: Sequence[Input]) -> list[Candidate]:
    """Groups of dimensions that may vary together, by kind and size.

    The first dimension that most inputs share is the batch. The further dimensions of integer and boolean
    inputs, with those of the same size elsewhere, are sequences. Of float inputs alone: height and width of
    images, the dimensions of a series or a vector; never the channels of an image.
    """
    if not inputs:
        return []
    # Of equally frequent sizes, Counter gives the one met first.
    size = Counter(item.tensor.size(0) for item in inputs).most_common(1)[0][0]
    batch = tuple((item.leaf, 0) for item in inputs if item.tensor.size(0) == size)
    everywhere = _of_size(inputs, size, ())
    found = [Candidate("batch", size, tuple(dict.fromkeys((batch, everywhere))))]
    taken = set(batch)
    found += _sequences(inputs, taken)
    found += _features(inputs, taken)
    return found


def _of_size(inputs: Iterable[Input], size: int, taken: Iterable[tuple[int, int]]) -> Places:
    return tuple(
        (item.leaf, dimension)
        for item in inputs
        for dimension, length in enumerate(item.tensor.shape)
        if length == size and (item.leaf, dimension) not in taken
    )


def _sequences(inputs: Sequence[Input], taken: set[tuple[int, int]]) -> Iterator[Candidate]:
    """The sizes of the further dimensions of integer and boolean inputs; adds to `taken`."""
    sizes: dict[int, str] = {}
    for item in inputs:
        if item.counts and item.tensor.dim() > 1:
            for length in item.tensor.shape[1:]:
                # A mask is [batch, 1, length, length]: its 1 is no size.
                if length > 1 or item.tensor.dim() == TABLE:
                    sizes.setdefault(length, item.name)
    batch = frozenset(taken)
    for length, name in sizes.items():
        everywhere = _of_size(inputs, length, batch)
        tokens = {item.leaf for item in inputs if item.counts}
        narrow = tuple(place for place in everywhere if place[0] in tokens or place[1] == 1)
        taken.update(everywhere)
        label = "sequence" if len(sizes) == 1 else f"sequence of {name}"
        yield Candidate(label, length, tuple(dict.fromkeys((everywhere, narrow))))


def _features(inputs: Sequence[Input], taken: set[tuple[int, int]]) -> Iterator[Candidate]:
    """Sizes of float inputs that no integer input shares."""
    floats = [item for item in inputs if not item.counts]
    for item in floats:
        if item.tensor.dim() == IMAGE and (item.leaf, 2) not in taken:
            height, width = item.tensor.shape[2:]
            images = [other for other in floats if other.tensor.shape[2:] == item.tensor.shape[2:]]
            images = [other for other in images if other.tensor.dim() == IMAGE]
            taken.update((other.leaf, dimension) for other in images for dimension in (2, 3))
            rows, columns = (tuple((other.leaf, dimension) for other in images) for dimension in (2, 3))
            if height == width:
                yield Candidate("height and width", height, ((*rows, *columns),))
            else:
                yield Candidate("height", height, (rows,))
                yield Candidate("width", width, (columns,))
        elif item.tensor.dim() in (TABLE, SERIES) and (item.leaf, 1) not in taken:
            alike = [other for other in floats if other.tensor.dim() == item.tensor.dim()]
            for dimension in range(1, item.tensor.dim()):
                size = item.tensor.size(dimension)
                places = tuple((o.leaf, dimension) for o in alike if o.tensor.size(dimension) == size)
                taken.update(places)
                before = f"dimension {dimension - 1} of {item.name}" if dimension > 1 else None
                yield Candidate(f"dimension {dimension} of {item.name}", size, (places,), before)


def resized(case: Case, places: Places, size: int) -> Case:
    """The inputs with each of `places` repeated or cut to `size` along its dimension: every value is a given one.

    A tensor that is passed twice stays one tensor.
    """
    leaves, spec = pytree.tree_flatten((case.args, case.kwargs))
    made: dict[int, torch.Tensor] = {}
    for tensor, dimensions in _by_tensor(leaves, places).values():
        new = tensor.detach()
        for dimension in dimensions:
            order = torch.arange(size, device=tensor.device) % tensor.size(dimension)
            new = new.index_select(dimension, order)
        if (
            tensor.dim() == IMAGE
            and not tensor.is_contiguous()
            and tensor.is_contiguous(memory_format=torch.channels_last)
        ):
            new = new.contiguous(memory_format=torch.channels_last)
        made[id(tensor)] = new.requires_grad_(tensor.requires_grad)
    args, kwargs = pytree.tree_unflatten([made.get(id(leaf), leaf) for leaf in leaves], spec)
    return replace(case, args=args, kwargs=kwargs)


def _by_tensor(leaves: Sequence[Any], places: Places) -> dict[int, tuple[torch.Tensor, list[int]]]:
    found: dict[int, tuple[torch.Tensor, list[int]]] = {}
    for leaf, dimension in places:
        tensor = leaves[leaf]
        dimensions = found.setdefault(id(tensor), (tensor, []))[1]
        if dimension not in dimensions:
            dimensions.append(dimension)
    return found


def _steps(case: Case, axis: Axis, sizes: Iterable[int]) -> list[Step]:
    """One call for each size; a size of 1, which Dynamo always compiles apart, comes last."""
    ordered = sorted(sizes, key=lambda size: size == 1)
    return [Step(f"{axis.told.name} {size}", resized(case, axis.places, size), size) for size in ordered]


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
        self.study, self.this, self.name = study, study.this, name
        self.case = case
        self.places = places
        self.model: Any = None

    def refuses(self, size: int) -> str | None:
        """The first line of what the model raises with another size, None where it takes it."""
        self.study.note(f"{self.name} {size} in the eager model")
        if self.model is None:
            self.model = self.this.build()
            self._call(self.case)  # raises where the given inputs no longer work: the device is lost
        try:
            self._call(resized(self.case, self.places, size))
        except (Exception, SystemExit) as error:
            self.model = None  # a call that raised half-way may have left anything behind
            reason = told(error, self.this.work.root)
            self._settle(f"{self.name} {size} in the eager model: the device was lost: {reason}")
            return reason
        return None

    def _settle(self, lost: str) -> None:
        """Wait for the device, which tells of an index out of range only then. Raises LostError."""
        if self.this.work.options.device.startswith("cuda"):
            try:
                torch.cuda.synchronize()
            except Exception as error:
                raise LostError(lost) from error

    def _call(self, case: Case) -> None:
        with torch.compiler.set_stance("force_eager"):
            self.study.call(self.model, case)
        if self.this.work.options.device.startswith("cuda"):
            torch.cuda.synchronize()  # an index out of range is told only then


def _further(study: Study, case: Case, axis: Axis) -> tuple[int, ...]:
    """Sizes beyond, as many as reach the recompile limit, as far as the eager model takes them."""
    limit = int(dynamo.flags().get("recompile_limit", 0))
    tallest = max(axis.told.sizes)
    step = tallest - sorted(axis.told.sizes)[-2] if len(axis.told.sizes) > 1 else 1
    eager = _Eager(study, axis.told.name, case, axis.places)
    found: list[int] = []
    while len(axis.told.sizes) + len(found) < limit + 1:
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
    steps: Sequence[Step],
    marked: Places = (),
) -> ShapeTrial:
    """The calls of one compiled callable, from a reset; the last is the one that raised, where one did.

    `marked`: dimensions that the caller marks dynamic, before each call.
    """
    this = study.this
    study.note(f"{varied} under {setting}")
    dynamo.reset()
    compiled: Callable[..., Any] = compile_callable(this.build(), backend="eager", **options)
    function = _marking(compiled, marked) if marked else compiled
    calls: list[ShapeCall] = []
    for step in steps:
        record = Record()
        error: str | None = None
        try:
            study.call(function, step.case, recording(record, every_guard=True))
        except (Exception, SystemExit) as raised:
            error = study.error(raised)
            if specialised := SPECIALISED.search(str(raised)):
                place = PLACE.search(error)
                error = f"{type(raised).__name__}: {specialised[0]}{place[0] if place else ''}"
        calls.append(_told_call(study, step, record, error))
        if error is not None:
            break
        if this.spent() and step is not steps[-1]:
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


def _told_call(study: Study, step: Step, record: Record, error: str | None) -> ShapeCall:
    this = study.this
    known = {(site.path, site.line) for site in this.journal.observation.break_sites}
    for site in narrate.break_sites(record, this.names, step.case.name):
        told = f"with other sizes ({step.label}) the graph breaks at {site.path}:{site.line}: {site.reason}"
        if (site.path, site.line) not in known and site.action != "skip_frame_unlogged":
            if not any(
                f"{site.path}:{site.line}:" in warning for warning in this.journal.observation.warnings
            ):
                this.journal.warn(told)
    kept = replace(record, recompiles=[event for event in record.recompiles if event.kept])
    lost = [event.place for event in record.skips if event.gb_type == RECOMPILE_LIMIT]
    limit: dict[Frame, None] = {}
    for place in lost:
        if is_user_file(place.path):
            limit[this.names.frame(place.path, place.line, place.name)] = None
        else:
            limit[Frame(this.names.path(place.path), place.line, place.name)] = None
    return ShapeCall(
        step.label,
        tuple(InputShape(item.name, tuple(item.tensor.shape)) for item in inputs_of(step.case, study.names)),
        len(record.compiled),
        len(kept.recompiles),
        narrate.recompiles(kept, this.names, step.case.name, step.identical),
        tuple(limit),
        error,
        step.size,
        step.identical,
    )


# What follows


def _changed(trial: ShapeTrial) -> list[ShapeCall]:
    """The calls with another size, or another case, that recompiled."""
    return [call for call in trial.calls if not call.identical and call.recompiled]


def _settles_never(trial: ShapeTrial) -> bool:
    """Whether the identical call recompiled: then it is not the sizes that do it."""
    return any(call.identical and call.recompiled for call in trial.calls)


def _every_size(trial: ShapeTrial) -> bool:
    """Whether each of several other sizes, 1 aside, was compiled anew, up to the recompile limit."""
    others = [call for call in trial.calls if call.size not in (None, 1)]
    gave_up = next((index for index, call in enumerate(others) if call.limit), len(others))
    before = others[:gave_up]
    return len(before) > 1 and not _settles_never(trial) and all(call.recompiled for call in before)


def advise(
    varied: str,
    trials: Sequence[ShapeTrial],
    dimensions: Sequence[InputDimension],
    limit: int,
    ranks: Mapping[str, int] | None = None,
) -> ShapeAdvice:
    """What the trials of one axis (or of the cases) bear out; a setting is recommended only where it measured less.

    `limit` is the recompile limit, `ranks` the number of dimensions of each argument.
    """
    by = {trial.setting: trial for trial in trials}
    usual = by["default"]
    counts = ", ".join(f"{name} {_count(trial)}" for name, trial in by.items())
    if usual.error:
        return ShapeAdvice(varied, "unknown", f"no advice: the compiled call raised {usual.error}")
    if _settles_never(usual):
        events = [event for call in usual.calls if call.identical for event in call.recompiles]
        why = next((f" ({reason})" for event in events for reason in event.reasons), "")
        return ShapeAdvice(
            varied,
            "mend",
            f"an identical call recompiles{why}: mend that first, it hides what the sizes cost",
        )
    if not _changed(usual):
        return ShapeAdvice(varied, "none", f"nothing recompiles ({counts})")
    names: tuple[ShapeSetting, ...] = ("mark_dynamic", "dynamic=True")
    sound = [by[name] for name in names if name in by and not by[name].error]
    best = min(sound, key=_weight, default=usual)
    better = _weight(best) < _weight(usual)
    if not better and _every_size(usual):
        return _pad(varied, by, dimensions, limit, ranks or {}, counts)
    one = any(call.size == 1 for call in _changed(best if better else usual))
    apart = "; a size of 1 is compiled apart" if one else ""
    if not better:
        why = "no setting recompiled less" if usual.recompiled > 1 else "it recompiles once and then is quiet"
        return ShapeAdvice(varied, "keep", f"leave the default: {why} ({counts}){apart}")
    if best.setting == "dynamic=True":
        code = "model = torch.compile(model, dynamic=True)"
        return ShapeAdvice(varied, "dynamic=True", f"dynamic=True recompiled less ({counts}){apart}", code)
    marks = [f"torch._dynamo.mark_dynamic({place.argument}, {place.dimension})" for place in dimensions]
    text = f"mark it dynamic, which recompiled less ({counts}){apart}"
    return ShapeAdvice(varied, "mark_dynamic", text, "\n".join(marks))


def _pad(
    varied: str,
    by: Mapping[ShapeSetting, ShapeTrial],
    dimensions: Sequence[InputDimension],
    limit: int,
    ranks: Mapping[str, int],
    counts: str,
) -> ShapeAdvice:
    """Every size is compiled anew whatever the setting: have few sizes."""
    usual = by["default"]
    marked = by.get("mark_dynamic")
    # The guards name where the tensor is first used; what makes its size a constant, only this error tells.
    place = PLACE.search(marked.error) if marked is not None and marked.error else None
    at = f", a constant at {place[1]}" if place else ""
    text = f"every size is compiled anew{at}: pad or bucket to at most {limit} sizes ({counts})"
    gave_up = next((call for call in usual.calls if call.limit), None)
    if gave_up is not None:
        who = ", ".join(frame.symbol for frame in gave_up.limit)
        text += f"; from {gave_up.label} on {who} ran eagerly, at the recompile limit of {limit}"
    static = by.get("dynamic=False")
    if static is not None and not static.error and _weight(static) <= _weight(usual):
        text += "; for a fixed list of sizes dynamic=False recompiled no more"
    code = "\n".join(_padding(item, ranks[item.argument]) for item in dimensions if item.argument in ranks)
    return ShapeAdvice(varied, "pad", text, code or None)


def _padding(place: InputDimension, rank: int) -> str:
    """The statement that pads one dimension to the next multiple of 8 with zeros."""
    name = place.argument
    zeros = "0, 0, " * (rank - 1 - place.dimension)
    return f"{name} = torch.nn.functional.pad({name}, ({zeros}0, -{name}.shape[{place.dimension}] % 8))"


def _ranks(case: Case, axis: Axis) -> dict[str, int]:
    leaves, _ = pytree.tree_flatten((case.args, case.kwargs))
    names = [item.argument for item in axis.told.dimensions]
    return {name: leaves[leaf].dim() for name, (leaf, _) in zip(names, axis.places, strict=True)}


def _count(trial: ShapeTrial) -> str | int:
    return "raised" if trial.error else trial.recompiled


def _weight(trial: ShapeTrial) -> int:
    return trial.recompiled + sum(len(call.limit) for call in trial.calls)
