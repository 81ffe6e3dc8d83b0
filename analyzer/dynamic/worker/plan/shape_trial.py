"""One trial of a shape study: execute user code as it is printed, then make calls with one size after the other."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from tcready.dynamic.worker.core.calling import CALLS, call, compile_error, error_place, settle
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.frames import is_user_file
from tcready.dynamic.worker.core.journal import one_line
from tcready.dynamic.worker.measure.agreement import ComparedCalls, Prepare, judge
from tcready.dynamic.worker.measure.call_outcome import CallOutcome
from tcready.dynamic.worker.measure.dispatch_counts import CountingBackend, Counts
from tcready.dynamic.worker.measure.outcome_structure import differs
from tcready.dynamic.worker.measure.output_comparison import outcome_of, tensors_in
from tcready.dynamic.worker.plan.shape_axes import inputs_of
from tcready.dynamic.worker.torch_internals import dynamo, pytree
from tcready.dynamic.worker.torch_internals.compile_calls import execute
from tcready.dynamic.worker.torch_internals.recording import recording
from tcready.portable.events import to_schema
from tcready.portable.events.record import RECOMPILE_LIMIT, Record
from tcready.schema.code_line import Frame
from tcready.schema.enums import ShapeSetting
from tcready.schema.run import InputShape, ShapeCall, ShapeTrial

SPECIALISED = re.compile(r"You marked .+? as dynamic but your code specialized it to be a constant \(\d+\)")
COMPILE = "model = torch.compile(model)"


@dataclass(frozen=True)
class TrialSetting:
    """The code to execute before the first call, and before each call."""

    name: ShapeSetting
    model_code: str = COMPILE
    """Assigns a new `model`."""
    call_code: str = ""
    """Changes the arguments, by the names of the parameters."""

    @property
    def code(self) -> str:
        return self.call_code or self.model_code


@dataclass(frozen=True)
class TrialCall:
    """One call of a trial."""

    label: str
    case: Case
    size: int | None = None
    identical: bool = False


@dataclass(frozen=True)
class Made:
    """A finished call, and every line at which Dynamo broke in it."""

    call: ShapeCall
    broke: frozenset[tuple[str, int]] = frozenset()
    outputs: tuple[tuple[int, Any], ...] = ()
    """Outputs that are compared after the trial, since that compiles; with the numbers of their calls."""


@dataclass
class Expected:
    """The results of a new eager model for the same calls in the same order, each repeated as in a trial."""

    context: Context
    names: Sequence[str]
    steps: Sequence[TrialCall]
    call_code: str = ""
    error: str | None = None
    """The exception that it raised; there are no outputs from there on."""
    outputs: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.outputs = self._all()

    def takes(self, number: int) -> bool:
        """Return whether eager made both calls of the pair with that number."""
        return 2 * number + 1 < len(self.outputs)

    def difference(self, setting: TrialSetting, number: int, output: Any) -> tuple[bool | None, str | None]:
        """Return whether the output of a call is equal to that of eager, None if that is not known; and how it differs.

        To judge unequal outputs, the calls up to that one are compiled again, after a reset.
        """

        def run(model: Any, prepare: Prepare, is_compiled: bool) -> CallOutcome:
            if is_compiled:
                dynamo.reset()
                model = execute(setting.model_code, model, "eager")
            function = with_arguments(setting.call_code, self.names, model)
            for first, _ in [*_pairs(self.steps)][: number // 2 + 1]:
                for repeat in range(2):
                    found = call(self.context, function, prepare(first.case))
                    if first is last and repeat == number % 2:
                        break
            return outcome_of(found)

        last = [*_pairs(self.steps)][number // 2][0]
        expected = outcome_of(self.outputs[number])
        found = judge(self.context, expected, outcome_of(output), ComparedCalls(run, cases=(last.case,)))
        if found.verdict == "not_comparable":
            return None, None
        if not found.ok:
            return False, found.text
        return (True if tensors_in(expected) else None), None

    def _all(self) -> list[Any]:
        found: list[Any] = []
        function = with_arguments(self.call_code, self.names, self.context.build())
        try:
            for first, _ in _pairs(self.steps):
                for _ in range(2):
                    with torch.compiler.set_stance("force_eager"):
                        output = call(self.context, function, first.case)
                    # A copy: the model may give out a buffer that a later call writes to.
                    found.append(pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), output))
        except (Exception, SystemExit) as error:
            self.error = one_line(error, self.context.work.root)
        return found


def _pairs(steps: Sequence[TrialCall]) -> Iterator[tuple[TrialCall, TrialCall | None]]:
    """Return each call with the identical one that follows it; None if the steps have none."""
    for step, following in zip(steps, (*steps[1:], None), strict=True):
        if not step.identical:
            yield step, following if following is not None and following.identical else None


def calls_of(
    context: Context, setting: TrialSetting, steps: Sequence[TrialCall], names: Sequence[str], expected: Expected
) -> Iterator[Made]:
    """Make the calls of one compiled callable, after a reset, as far as eager accepts them. If one raises, it is the
    last.

    Each call is made twice, and the operations of the second one are counted. If `steps` do not contain such a second
    call, it is not a call of its own.
    """
    dynamo.reset()
    model = context.build()
    backend = CountingBackend(model, context.work.options.device)
    compiled = execute(setting.model_code, model, backend)

    def counted(*args: Any, **kwargs: Any) -> Any:
        with backend.count():  # only around the model: dispatches of `call_code` are the caller's
            return compiled(*args, **kwargs)

    function = with_arguments(setting.call_code, names, compiled)
    counting = with_arguments(setting.call_code, names, counted)
    for number, (step, again) in enumerate(_pairs(steps)):
        if not expected.takes(number):
            return
        record = Record()
        output, seconds, failure = _time_call(context, function, step, recording(record, every_guard=True), backend)
        cold = _made(context, names, step, record)
        if failure is not None:
            yield replace(cold, call=_raised(context, model, cold.call, failure, CALLS[0]))
            return
        cold = _with_output(cold, expected, 2 * number, output)
        backend.counts = Counts()
        record = Record()
        output, warm, failure = _time_call(context, counting, step, recording(record, every_guard=True), backend)
        counts = backend.counts
        cold = replace(
            cold,
            call=replace(
                cold.call,
                ops_total=counts.total.ops.total(),
                ops_captured=counts.captured.ops.total(),
                compile_seconds=round(max(seconds - warm, 0.0), 4),
            ),
        )
        second = _made(context, names, again, record) if again is not None else cold
        if failure is not None:
            second = replace(second, call=_raised(context, model, second.call, failure, CALLS[1]))
        else:
            second = _with_output(second, expected, 2 * number + 1, output)
        yield from (cold, second) if again is not None else (second,)
        if failure is not None:
            return


def sum_up(varied: str, setting: TrialSetting, made: Sequence[Made]) -> ShapeTrial:
    calls = [item.call for item in made]
    counted = [item for item in calls if item.ops_total is not None]
    total = sum(item.ops_total or 0 for item in counted)
    seconds = [item.compile_seconds for item in calls if item.compile_seconds is not None]
    return ShapeTrial(
        varied,
        setting.name,
        tuple(calls),
        sum(item.recompiled for item in calls),
        any(item.limit for item in calls),
        next((item.error for item in calls if item.error), None),
        next((item.difference for item in calls if item.difference), None),
        sum(item.ops_captured or 0 for item in counted) / total if total else None,
        len({place for item in made for place in item.broke}),
        round(sum(seconds), 4) if seconds else None,
        setting.code,
    )


def with_arguments(code: str, names: Sequence[str], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `function` with the arguments after running `code`, which uses the names of the
    parameters."""
    if not code:
        return function
    compiled = compile(code, "<code for the arguments>", "exec")

    def changed(*args: Any, **kwargs: Any) -> Any:
        rest = list(args)
        named = names[: len(rest)]
        scope: dict[str, Any] = {"torch": torch, **dict(zip(named, rest, strict=False)), **kwargs, "args": rest}
        exec(compiled, scope)  # noqa: S102  the code of the report is proved by running it
        rest[: len(named)] = [scope[name] for name in named]
        return function(*rest, **{name: scope[name] for name in kwargs})

    return changed


def _time_call(
    context: Context, function: Callable[..., Any], step: TrialCall, watcher: Any, backend: CountingBackend
) -> tuple[Any, float, BaseException | None]:
    """Return the output of a call, its seconds, and its exception."""
    start = time.perf_counter()
    output: Any = None
    failure: BaseException | None = None
    try:
        output = call(context, function, step.case, watcher, backend.adopting())
        settle(context)
    except (Exception, SystemExit) as error:
        failure = error
    return output, time.perf_counter() - start, failure


def _raised(context: Context, model: Any, made: ShapeCall, failure: BaseException, which: str) -> ShapeCall:
    error = compile_error(failure, context, which)
    place = error_place(failure)
    if specialised := SPECIALISED.search(str(failure)):
        at = f" ({context.names.path(place[0])}:{place[1]})" if place else ""
        error = f"{type(failure).__name__}: {specialised[0]}{at}"
    return replace(_placed(context, made, place or _forward_of(model)), error=error, parity=None)


def _with_output(made: Made, expected: Expected, number: int, output: Any) -> Made:
    """Return the call with the output of one more call: equal to that of eager, or to be compared later."""
    eager = outcome_of(expected.outputs[number])
    if expected.context.work.options.processes or differs(eager, outcome_of(output)):
        return replace(made, outputs=(*made.outputs, (number, output)))
    return replace(made, call=_with_parity(made.call, number, True if tensors_in(eager) else None))


def _with_parity(made: ShapeCall, number: int, parity: bool | None) -> ShapeCall:
    repeated = number % 2 == 1 and not made.identical
    return replace(made, parity=parity and made.parity if repeated else parity)


def compared(setting: TrialSetting, made: Sequence[Made], expected: Expected) -> list[Made]:
    """Return the calls of a finished trial, with their outputs compared; the first difference of a call is reported."""
    place = _forward_of(expected.context.build())
    found = []
    for item in made:
        call = item.call
        for number, output in item.outputs:
            if call.difference:
                continue
            parity, difference = expected.difference(setting, number, output)
            if difference:
                call = replace(_placed(expected.context, call, place), parity=False, difference=difference)
            else:
                call = _with_parity(call, number, parity)
        found.append(replace(item, call=call, outputs=()))
    dynamo.reset()
    return found


def _placed(context: Context, made: ShapeCall, place: to_schema.RawFrame | None) -> ShapeCall:
    if place is None:
        return made
    return replace(made, place=context.names.frame(*place), origin=context.names.origin(place[0]))


def _forward_of(model: Any) -> to_schema.RawFrame | None:
    """Return the first line of the code of the target's forward; None if that is not user code."""
    function = inspect.unwrap(type(model).forward if isinstance(model, torch.nn.Module) else model)
    code = getattr(function, "__code__", None)
    if code is None or not is_user_file(code.co_filename):
        return None
    return code.co_filename, code.co_firstlineno, code.co_name


def _made(context: Context, names: Sequence[str], step: TrialCall, record: Record) -> Made:
    known = {(site.path, site.line) for site in context.journal.observation.break_sites}
    # `limit` reports frames that the recompile limit gives up.
    other = replace(record, skips=[event for event in record.skips if event.gb_type != RECOMPILE_LIMIT])
    sites = to_schema.break_sites(other, context.names, step.case.name)
    successful = replace(record, recompiles=[event for event in record.recompiles if event.recompiled])
    gave_up = [event.place for event in record.skips if event.gb_type == RECOMPILE_LIMIT]
    limit: dict[Frame, None] = {}
    for place in gave_up:
        if is_user_file(place.path):
            limit[context.names.frame(place.path, place.line, place.name)] = None
        else:
            limit[Frame(context.names.path(place.path), place.line, place.name)] = None
    made = ShapeCall(
        step.label,
        tuple(InputShape(item.name, tuple(item.tensor.shape)) for item in inputs_of(step.case, names)),
        len(record.compiled),
        len(successful.recompiles),
        to_schema.recompiles(successful, context.names, step.case.name, step.identical),
        tuple(limit),
        size=step.size,
        identical=step.identical,
        break_sites=tuple(site for site in sites if (site.path, site.line) not in known),
    )
    return Made(made, frozenset((site.path, site.line) for site in sites))
