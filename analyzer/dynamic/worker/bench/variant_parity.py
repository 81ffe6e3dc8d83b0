"""Compare outputs, gradients and losses of every arm with those of eager code, and of eager code in float64."""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch
from tcready.dynamic.worker.bench import state
from tcready.dynamic.worker.bench.measurement_loop import COMPILED_NOTHING, GAVE_UP, any_given_up, compiler, error_of
from tcready.dynamic.worker.bench.variants import RunningVariant, build_arm
from tcready.dynamic.worker.core.calling import call
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.journal import one_line
from tcready.dynamic.worker.inputs.loading import SEED_BUILD
from tcready.dynamic.worker.inputs.loss import Loss
from tcready.dynamic.worker.measure.agreement import UNSTEADY_WORDS, Agreement, ComparedCalls, Prepare, judge
from tcready.dynamic.worker.measure.call_outcome import CallOutcome, OutcomeDifference
from tcready.dynamic.worker.measure.gradients import wanted_parameters
from tcready.dynamic.worker.measure.outcome_structure import differs
from tcready.dynamic.worker.measure.precision import (
    SMALL,
    Called,
    Repeats,
    bytes_of,
    called,
    called_eagerly,
    case_in_float64,
    created_in_float64,
    in_float64,
    loss_in_float64,
    tolerance,
)
from tcready.dynamic.worker.torch_internals import compile_calls, inductor, pytree
from tcready.dynamic.worker.torch_internals.recording import recording
from tcready.portable.events.record import Record
from tcready.schema.bench import PARITY_SEEDS, Arm, ArmMeasured, BenchAnswer, BenchRequest, ParityMeasured

SEEDS = tuple(SEED_BUILD + number for number in range(PARITY_SEEDS))
"""The seeds for weights, and for inputs if they are drawn."""
TIMES = 10.0
"""A loss may differ from eager code by the tolerance plus this multiple of eager code's own error against float64."""
TOO_FAR = 0.1
"""The share of the largest loss above which losses are not called equal, however far eager code is from float64."""
LEARNING_RATE = 1e-3
"""The learning rate of compared steps: large enough that a wrong gradient shows in the next loss."""
REPLAYED = 3
"""The number of compared calls: a varying size appears in the second, which also records CUDA graphs, and the third
replays them."""
EAGER_RUNS = 4
"""The number of runs with REPLAYED calls each that must fit into the time; on CUDA they are made in any case."""

FIRST_ALONE = "only the outputs of first calls were compared: calls are too slow to compare later ones"
NOTHING_COMPARED = "nothing was compared: no tensor in the outputs contains a finite value"


@dataclass(frozen=True)
class _Reference:
    """The results of eager code for one set of inputs."""

    case: Case
    index: int
    """The index of the case."""
    words: str
    """Suffix for messages that says which inputs these are."""
    layout: str | None
    eager: Called
    differs: bool
    """True if a second eager run gives another result."""
    how: Repeats
    stateful: bool = False
    """True if a call changes the model. Each case then starts with a new model."""


def run(context: Context, request: BenchRequest, keep: Callable[[BenchAnswer], None]) -> BenchAnswer:
    """Compare every compiled arm in every case: first seed, losses in training, further seeds, other input layouts.

    Everything after the first seed may take `request.seconds`. Another layout needs a new compilation, so it is skipped
    if less time is left than the first seed took. Earlier results are kept.
    """
    arms = [arm for arm in request.arms if arm.code.strip()]
    found = {
        (arm.name, index): ArmMeasured(arm.name, case.name) for arm in arms for index, case in enumerate(context.cases)
    }

    def answer() -> BenchAnswer:
        return BenchAnswer("parity", tuple(found.values()))

    with compiler(context, request) as missing:
        until, first = math.inf, 0.0
        reusable: dict[str, RunningVariant] = {}
        for number, (seed, layout) in enumerate(_rounds(request)):
            began = time.monotonic()
            if began + (first if layout is not None else 0.0) > until:
                break
            context.journal.write(f"bench: parity, seed {seed}, inputs {layout or 'as given'}")
            seeded = _with_seed(context, seed)
            references = _references(context, seeded, seed, layout, found, request.seconds)
            for arm in arms:
                wanted = [each for each in references if not found[arm.name, each.index].error]
                try:
                    _with_generator(seeded, arm, wanted, found, reusable)
                except Exception as error:
                    why = error_of(error, context, missing)
                    for each in wanted:
                        _fail(found, arm, each.index, why)
                keep(answer())
            if number == 0:
                first = time.monotonic() - began
            if number == 0 and context.work.options.mode == "train":
                draws = any(each.eager.draws for each in references)
                with inductor.eager_random() if draws else contextlib.nullcontext():
                    _train(seeded, arms, references, request.steps, found)
                keep(answer())
            if number == 0:
                until = time.monotonic() + request.seconds
    return answer()


def _with_generator(
    context: Context, arm: Arm, references: Sequence[_Reference], found: Found, reusable: dict[str, RunningVariant]
) -> None:
    """Compare an arm in all cases. If eager code draws random numbers, make compiled code draw the same: Inductor's own
    generator gives others. Otherwise keep Inductor's, so that code in the compile caches can be used."""
    if not any(each.eager.draws for each in references):
        before = {key: measured for key, measured in found.items() if key[0] == arm.name}
        _arm(context, arm, references, found, reusable)
        if all(_has_agreed(found[key]) or not _has_agreed(before[key]) for key in before):
            return
        # It may draw and then restore the state of the generator.
        found.update(before)
        reusable.pop(arm.name, None)
        inductor.forget_compiled()
    with inductor.eager_random():
        _arm(context, arm, references, found, reusable)


def _has_agreed(measured: ArmMeasured) -> bool:
    """Return whether no difference was found so far."""
    return measured.parity is None or measured.parity.same is not False


def _rounds(request: BenchRequest) -> Iterator[tuple[int, str | None]]:
    yield SEEDS[0], None
    if request.first_seed_only:
        return
    for seed in SEEDS[1:]:
        yield seed, None
    for layout in LAYOUTS:
        yield SEEDS[0], layout


def _with_seed(context: Context, seed: int) -> Context:
    """Return the context with models of this seed. A large model keeps its weights, because other weights would take as
    much memory again; only its inputs change."""
    if seed == SEED_BUILD or bytes_of(context.build()) > SMALL:
        return context
    return replace(context, build=functools.partial(context.build_as, context.work.options.mode, seed))


Found = dict[tuple[str, int], ArmMeasured]


def _fail(found: Found, arm: Arm, index: int, why: str) -> None:
    """Record that an arm cannot be compared. An earlier difference is kept."""
    known = found[arm.name, index].parity
    parity = known if known is not None and known.same is False else ParityMeasured(None, why)
    found[arm.name, index] = replace(found[arm.name, index], error=why, parity=parity)


def _raises(found: Found, arm: Arm, index: int, why: str) -> None:
    """Record that compiled code raises, but eager code does not."""
    known = found[arm.name, index].parity or ParityMeasured(None)
    detail = known.detail if known.same is False else f"raises, but eager code does not: {why}"
    found[arm.name, index] = replace(
        found[arm.name, index], error=why, parity=replace(known, same=False, detail=detail)
    )


def _references(
    context: Context, seeded: Context, seed: int, layout: str | None, found: Found, seconds: float
) -> list[_Reference]:
    """Return references for cases that eager code accepts. If it raises with the first seed, every arm gets the error."""
    drawn = [case for case in context.draw(seed) if case.name not in context.work.leave_out]
    references = []
    for index, case in enumerate(drawn):
        given = replace(case, name=None)  # the state file must not name the case
        words = f"{case.label} (seed {seed}{f', inputs {layout}' if layout else ''})"
        try:
            if layout is not None:
                given = LAYOUTS[layout](given)
            reference = _reference(seeded, given, index, words, layout, seconds)
        except _NotOtherwiseError:
            continue
        except Exception as error:
            if seed == SEEDS[0] and layout is None:
                for name, number in found:
                    if number == index:
                        why = f"eager code raises {one_line(error, context.work.root)}"
                        found[name, number] = replace(found[name, number], error=why)
            continue
        references.append(reference)
        if reference.how.number == 1:
            for key in (key for key in found if key[1] == index):
                found[key] = replace(found[key], notes=(FIRST_ALONE,))
    return references


def _reference(context: Context, case: Case, index: int, words: str, layout: str | None, seconds: float) -> _Reference:
    model = context.build()
    before = state.marks(model)
    how = Repeats(after=True)
    began = time.monotonic()
    eager = called_eagerly(context, lambda: model, case, how)
    took = time.monotonic() - began
    stateful = state.marks(model) != before
    is_cuda = torch.device(context.work.options.device).type == "cuda"
    if is_cuda or took * REPLAYED * EAGER_RUNS <= seconds:
        how = replace(how, number=REPLAYED, in_a_row=eager.wrote)
        try:
            eager = called_eagerly(context, context.build, case, how)
        except Exception:
            if not how.in_a_row:
                raise
            how = replace(how, in_a_row=False)  # it does not accept the changed inputs
            eager = called_eagerly(context, context.build, case, how)
    again = called_eagerly(context, context.build, case, how)
    return _Reference(case, index, words, layout, eager, differs(eager.outcome, again.outcome), how, stateful)


def _arm(
    context: Context, arm: Arm, references: Sequence[_Reference], found: Found, reusable: dict[str, RunningVariant]
) -> None:
    """Compare one arm in all cases. Code compiled for an earlier seed is used with the weights of this seed, if the
    results agree. Otherwise a new model is compiled; one for each case if calls change the model.

    Raises what building it raises.
    """
    stateful = any(each.stateful for each in references)
    earlier = None if stateful else reusable.get(arm.name)
    references = [each for each in references if not _agrees(context, arm, earlier, each, found)]
    running: RunningVariant | None = None
    compiled = False

    def again(model: Any, _: Case) -> RunningVariant:
        return recompile(context, arm, model)

    for each in references:
        key = arm.name, each.index
        record = Record()
        if running is None or stateful:
            if arm.name in reusable or running is not None:
                inductor.forget_compiled()
            running, compiled = build_arm(context, arm), False
            if each.layout is None:
                reusable[arm.name] = running
        try:
            with recording(record):
                actual = _called(context, running, each)
        except Exception as error:
            _raises(found, arm, each.index, f"{error_of(error, context, None)}{each.words}")
            continue
        compiled |= any(frame.ops for frame in record.compiled)
        if not compiled or any_given_up(record):
            _fail(found, arm, each.index, GAVE_UP if compiled else COMPILED_NOTHING)
            continue
        parity = found[key].parity or ParityMeasured(None)
        found[key] = replace(
            found[key], parity=_add_comparison(parity, each, actual, _judge(context, again, each, actual))
        )


def _called(context: Context, running: RunningVariant, reference: _Reference) -> Called:
    with running.in_place():
        return called(context, running.function, running.model, reference.case, reference.eager.loss, reference.how)


def _agrees(context: Context, arm: Arm, running: RunningVariant | None, reference: _Reference, found: Found) -> bool:
    """Return whether code compiled earlier agrees with eager code after its model got the weights of this seed; if so,
    record it. If not, the models of two seeds may differ in more than weights."""
    key = arm.name, reference.index
    if running is None or reference.layout is not None or reference.stateful or found[key].parity is None:
        return False
    try:
        if not state.as_built(running.model, context.build()):
            return False
        actual = _called(context, running, reference)
    except Exception:
        return False
    judged = _judge(context, lambda model, _: recompile(context, arm, model), reference, actual)
    if not judged.ok:
        return False
    parity = found[key].parity or ParityMeasured(None)
    found[key] = replace(found[key], parity=_add_comparison(parity, reference, actual, judged))
    return True


def compare_case(
    context: Context,
    load: Callable[[Any, int], RunningVariant],
    compile_anew: Callable[[Any, Case], RunningVariant],
    index: int,
    seconds: float,
) -> ParityMeasured:
    """Compare code that was loaded with eager code, in one case and with the first seed. See `compare_outputs`."""
    case = context.cases[index]
    try:
        reference = _reference(context, replace(case, name=None), index, case.label, None, seconds)
    except Exception as error:
        return ParityMeasured(None, f"eager code raises {one_line(error, context.work.root)}{case.label}")
    try:
        actual = _called(context, load(context.build(), index), reference)
    except Exception as error:
        return ParityMeasured(
            False, f"raises, but eager code does not: {error_of(error, context, None)}{reference.words}"
        )
    judged = _judge(context, compile_anew, reference, actual)
    return _add_comparison(ParityMeasured(None), reference, actual, judged)


def recompile(context: Context, arm: Arm, model: Any) -> RunningVariant:
    """Return an arm that is compiled again, over a given model."""
    inductor.forget_compiled()
    return build_arm(replace(context, build=lambda: model), arm)


def _judge(
    context: Context, compile_anew: Callable[[Any, Case], RunningVariant], reference: _Reference, actual: Called
) -> Agreement:
    """Compare compiled code with eager code, up to rounding. `compile_anew` compiles it for other inputs."""

    def run(model: Any, prepare: Prepare, is_compiled: bool) -> CallOutcome:
        case = prepare(reference.case)
        if not is_compiled:
            return called(context, model, model, case, reference.eager.loss, reference.how).outcome
        return _called(context, compile_anew(model, case), replace(reference, case=case)).outcome

    calls = ComparedCalls(run, context.build, (reference.case,), fused=True)
    return judge(context, reference.eager.outcome, actual.outcome, calls)


def _add_comparison(parity: ParityMeasured, reference: _Reference, actual: Called, judged: Agreement) -> ParityMeasured:
    """Add one more comparison. The first difference is the one that is reported."""
    parity = replace(parity, eager_differs=bool(parity.eager_differs) or reference.differs)
    if judged.compared is not None:
        parity = replace(
            parity,
            error=_worse(parity.error, judged.compared.compiled_error),
            eager_error=_worse(parity.eager_error, judged.compared.eager_error),
        )
    if reference.layout is None:
        gradients = max(parity.gradients, reference.eager.gradients)
        parity = replace(parity, seeds=parity.seeds + 1, gradients=gradients)
    elif reference.layout not in parity.layouts:
        parity = replace(parity, layouts=(*parity.layouts, reference.layout))
    if judged.ok:
        if parity.same is not None or parity.detail not in ("", NOTHING_COMPARED):
            return parity  # an earlier result that was not comparable stays
        compared = _has_finite_values(reference.eager)
        return replace(parity, same=compared or None, detail="" if compared else NOTHING_COMPARED)
    why = ""
    if reference.eager.draws and reference.eager.random != actual.random:
        why = "not comparable: compiled code draws different random numbers"
    elif judged.verdict == "not_comparable":
        why = f"not comparable: {UNSTEADY_WORDS}"
    if why:
        same = parity.same if parity.same is False else None
        return replace(parity, same=same, detail=parity.detail or why + reference.words)
    if parity.same is False:
        return parity
    return replace(parity, same=False, detail=f"{judged.text}{reference.words}")


def _has_finite_values(eager: Called) -> bool:
    """Return whether a difference could have been found: the outputs or gradients contain a finite value, or an
    argument was changed."""
    gave = [leaf for label, leaf in eager.outcome.leaves if not label.startswith(("argument", "buffer"))]
    return eager.wrote or any(isinstance(leaf, torch.Tensor) and _has_value(leaf) for leaf in gave)


def _has_value(tensor: torch.Tensor) -> bool:
    plain = tensor.to_dense() if tensor.is_sparse else tensor
    if plain.layout != torch.strided or plain.is_quantized:
        return False
    return bool(torch.isfinite(plain).any())


def _worse(one: float | None, other: float | None) -> float | None:
    """Return the larger one. Values that are not finite are ignored: the message reports them."""
    return max((each for each in (one, other) if each is not None and math.isfinite(each)), default=None)


# Losses of training steps


def _train(context: Context, arms: Sequence[Arm], references: Sequence[_Reference], steps: int, found: Found) -> None:
    """Compare the losses of some AdamW steps with the same weights and random numbers."""
    for each in references:
        loss = each.eager.loss
        if loss is None or each.differs:
            continue
        with compile_calls.stance("force_eager"):
            model = context.build()
            expected = _losses(context, model, model, each.case, loss, steps)
        exact = _exact_losses(context, each, loss, steps)
        allowed = tolerance(context, model, each.eager.outcome, exact=exact is not None)
        for arm in arms:
            measured = found[arm.name, each.index]
            if measured.error or measured.parity is None:
                continue
            try:
                running = build_arm(context, arm)
                with running.in_place():
                    actual = _losses(context, running.function, running.model, each.case, loss, steps)
            except Exception as error:
                raised = f"{error_of(error, context, None)} (training steps{each.words})"
                _raises(found, arm, each.index, raised)
                continue
            parity = replace(measured.parity, losses=tuple(zip(expected, actual, strict=True)))
            judged = losses_differ(expected, actual, exact, allowed)
            if judged.text and parity.same is not False:
                words = f"not decided: {judged.text}" if judged.unsure else judged.text
                same = None if judged.unsure else False
                parity = replace(parity, same=same, detail=f"{words}{each.words}")
            found[arm.name, each.index] = replace(measured, parity=parity)


def _losses(
    context: Context, function: Callable[..., Any], model: Any, case: Case, loss: Loss, steps: int
) -> list[float]:
    """Return the loss before each step. Raises what the model raises."""
    wanted = list(wanted_parameters(model).values())
    optimizer = torch.optim.AdamW(wanted, lr=LEARNING_RATE) if wanted else None
    values = []
    for _ in range(steps):
        value = loss(call(context, function, case))
        value.backward()
        values.append(float(value.detach()))
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    return values


def _exact_losses(context: Context, reference: _Reference, loss: Loss, steps: int) -> list[float] | None:
    """Return the losses in float64; None if the model cannot run in it."""
    if reference.eager.draws:
        return None
    try:
        with compile_calls.stance("force_eager"):
            model = in_float64(context.build())
            with created_in_float64():
                wide = case_in_float64(reference.case)
                return _losses(context, model, model, wide, loss_in_float64(loss), steps)
    except Exception:  # such as out of memory: the optimiser takes as much again
        return None


def losses_differ(
    expected: Sequence[float], actual: Sequence[float], exact: Sequence[float] | None, tolerance: float
) -> OutcomeDifference:
    """Return the first step with a loss that differs by more than the tolerance (relative to the largest loss) plus a
    multiple of the distance of eager code from float64. Otherwise return, as unsure, the first one that differs by more
    than TOO_FAR."""
    scale = max((abs(value) for value in expected if math.isfinite(value)), default=0.0)
    own = max((abs(one - right) for one, right in zip(expected, exact or (), strict=False)), default=0.0)
    allowed = tolerance * scale + TIMES * (own if math.isfinite(own) else 0.0)
    found = OutcomeDifference(None)
    for step, (one, other) in enumerate(zip(expected, actual, strict=True)):
        words = f"loss of training step {step + 1}: {one:.6g} became {other:.6g}"
        if math.isfinite(one) != math.isfinite(other) or abs(one - other) > allowed:
            return OutcomeDifference(words)
        if found.text is None and abs(one - other) > max(TOO_FAR, tolerance) * scale:
            found = OutcomeDifference(words, unsure=True)
    return found


# Other layouts of the same inputs


class _NotOtherwiseError(Exception):
    """No tensor of the inputs can have this layout."""


def _map_tensors(case: Case, change: Callable[[torch.Tensor], torch.Tensor]) -> Case:
    """Raises _NotOtherwiseError if nothing changes."""
    changed = False

    def each(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal changed
        if type(tensor) is not torch.Tensor or tensor.layout != torch.strided or tensor.numel() < 2:
            return tensor
        other = change(tensor.detach())
        changed = changed or other.stride() != tensor.stride()
        return other.requires_grad_(tensor.requires_grad)

    args, kwargs = pytree.tree_map_only(torch.Tensor, each, (case.args, case.kwargs))
    if not changed:
        raise _NotOtherwiseError
    return replace(case, args=args, kwargs=kwargs)


def _non_contiguous(case: Case) -> Case:
    """Keep the values, but swap the last two dimensions in memory; make a vector the column of a matrix."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() >= 2:
            return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
        return torch.stack([tensor, tensor], -1)[..., 0] if tensor.dim() else tensor

    return _map_tensors(case, change)


def _expand_rows(case: Case) -> Case:
    """Replace every row by the first row, without a copy, in all tensors with the length of the first one."""
    leaves = pytree.tree_leaves((case.args, case.kwargs))
    length = next((leaf.shape[0] for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.dim()), 0)

    def change(tensor: torch.Tensor) -> torch.Tensor:
        fits = tensor.dim() and tensor.shape[0] == length and length > 1
        return tensor[:1].expand(tensor.shape) if fits else tensor

    return _map_tensors(case, change)


LAYOUTS: Mapping[str, Callable[[Case], Case]] = MappingProxyType(
    {"non-contiguous": _non_contiguous, "expanded": _expand_rows}
)
