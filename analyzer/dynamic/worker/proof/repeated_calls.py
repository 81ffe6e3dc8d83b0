"""Call one compiled model again and again, as a program does: with the same inputs, other values and other lengths.

The backend is `aot_eager`. It traces operators as Inductor does and compiles the backward; the backend `eager` does
neither. At the end, Inductor compiles one call: it cannot generate code for each graph with numbers and sizes that depend
on data (measured with torch 2.11).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.toolchain import missing_toolchain
from tcready.dynamic.worker.proof.behaviour import Behaviour
from tcready.dynamic.worker.proof.calls import MODES, Key, inputs_in_words
from tcready.dynamic.worker.proof.compiling import Compiling
from tcready.dynamic.worker.proof.input_changes import (
    dimensions,
    has_integers,
    longer,
    other_integers,
    other_values,
    with_rows,
)
from tcready.dynamic.worker.proof.shared_models import Models
from tcready.dynamic.worker.proof.variations import EMPTY, GIVEN
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.dynamic.worker.torch_internals.recording import recording
from tcready.portable.events.record import Place, RecompileEvent, Record
from tcready.portable.events.to_schema import guard_text
from tcready.schema.enums import Mode
from tcready.schema.proof import Trial

CALLS = 6
"""The number of calls of one kind."""
STEPS = 3
"""The number of training steps."""
LAST = 3
"""A function that is recompiled in each of this many last calls is assumed to be recompiled at every call."""
INDUCTOR = "inductor"
COMPILES = 64
"""The most compilations of a function for all kinds of calls. Beyond Dynamo's limit it would run eagerly."""
DIMENSIONS = 3
"""The number of dimensions that are made longer, one after the other."""

BY_BACKEND = re.compile(r"^backend='\w+' raised: ")
"""Prefix of Dynamo's message for an exception that a backend raised."""
QUOTED = 200
"""The number of characters of a message that are quoted."""
Differing = Callable[[Behaviour, Behaviour, frozenset[str]], str | None]
"""Returns the first difference between an eager and a compiled call."""


@dataclass(frozen=True)
class Kind:
    """Calls that differ in one way."""

    words: str
    """The difference between the calls, as the end of a sentence."""
    inputs: tuple[tuple[str, Case], ...]
    """For each call a description of its inputs, and the inputs."""
    may_recompile: bool = False
    """True if functions may be recompiled at every call if they are without the settings, too: code may need each
    length."""
    most: int = CALLS
    """The most calls of this kind. A call that raises in eager code does not count."""


@dataclass(frozen=True)
class Later:
    """The results of calls of one kind."""

    again: Mapping[Place, str] = field(default_factory=dict)
    """Each function that is recompiled at every call, with the guard that failed last."""
    settled: int = 0
    """The number of operations in the graphs of the other functions."""
    error: str | None = None
    """The exception of compiled code that eager code does not raise, as the end of "it ..."."""
    difference: str | None = None
    """The different output of compiled code, in the same form."""
    only_empty: bool = False
    """True if that was seen only for empty inputs."""

    @property
    def fails(self) -> str | None:
        """Return what is wrong in compiled code."""
        return self.error or self.difference


SAME = "with the same inputs"


def same_inputs(models: Models, seed: int, calls: int = CALLS) -> Kind:
    """Return calls with the inputs as given."""
    return Kind(SAME, (("given", models.get_inputs(seed)[0]),) * calls)


def other_inputs(models: Models, seed: int) -> Iterator[Kind]:
    """Yield calls with other inputs, one kind after the other."""
    first, *others = models.get_inputs(seed)
    if others:
        yield Kind("with each set of inputs", tuple((each.label or "given", each) for each in (first, *others)))
    numbers = [*range(1, CALLS), *range(-1, -CALLS, -1)]
    values = [("of other values", _changed(first, other_values, number)) for number in numbers]
    yield Kind("with other values", (("given", first), *values))
    if has_integers((first.args, first.kwargs)):
        numbers = [number for number in numbers if number > 0]
        larger = [(f"with integers larger by {by}", _changed(first, other_integers, by)) for by in numbers]
        yield Kind("with other integers", (("given", first), *larger), may_recompile=True)
    rows = (("of length one", 1), (EMPTY, 0))
    yield Kind("with short inputs", tuple((words, _changed(first, with_rows, number)) for words, number in rows))
    for dimension in range(min(dimensions((first.args, first.kwargs)), DIMENSIONS)):
        yield Kind(
            f"with other lengths of dimension {dimension}", tuple(_lengths(first, dimension)), may_recompile=True
        )


def _lengths(case: Case, dimension: int) -> Iterator[tuple[str, Case]]:
    yield "given", case
    for by in range(1, CALLS):
        case = _changed(case, longer, dimension)
        yield f"longer by {by} in dimension {dimension}", case


def _changed(case: Case, change: Callable[[Any, int], Any], number: int) -> Case:
    args, kwargs = change((case.args, case.kwargs), number)
    return replace(case, args=args, kwargs=kwargs)


class LaterCalls:
    """One compiled model, and an eager one beside it."""

    def __init__(
        self,
        models: Models,
        watched: Sequence[ModuleType],
        unstable: frozenset[str],
        mode: Mode,
        differing: Differing,
        backend: str = "aot_eager",
    ) -> None:
        self._compiling = Compiling(models, watched, unstable, mode, backend)
        self._differing = differing
        self._operations: dict[Place, int] = {}

    def made(self, kind: Kind, seed: int) -> Later:
        """Make the calls of one kind, and compare each with its eager call."""
        compiling = self._compiling
        key = Key(compiling.mode, seed, 0, GIVEN)
        again: list[dict[Place, str]] = []
        for words, case in kind.inputs:
            if len(again) == kind.most:
                break
            eager = compiling.called_eagerly(key, case)
            if eager.error is not None:
                compiling.begin_anew()
                continue
            record = Record()
            compiled = compiling.called_compiled(key, case, recording(record, every_guard=True))
            self._operations |= {frame.place: frame.ops for frame in record.compiled}
            again.append({event.place: _guard(event) for event in record.recompiles})
            only_empty = words == EMPTY
            if compiled.error is not None:
                text = f"it raises {_exception(compiled)} ({inputs_in_words(words)})"
                return Later(error=text, only_empty=only_empty)
            if eager.random != compiled.random:  # it draws other numbers, so its values say nothing
                continue
            if found := self._differing(eager, compiled, compiling.ignored):
                return Later(
                    difference=f"it differs from eager code: {found} ({inputs_in_words(words)})", only_empty=only_empty
                )
        always: dict[Place, str] = {}
        if len(again) > LAST:
            *others, last = again[-LAST:]
            always = {place: last[place] for place in last if all(place in each for each in others)}
        settled = sum(ops for place, ops in self._operations.items() if place not in always)
        return Later(always, settled)


def _exception(seen: Behaviour) -> str:
    """Return the type of an exception and the first sentence of its message, without Dynamo's preamble."""
    message = BY_BACKEND.sub("", seen.message).split(". ")[0]
    return f"{seen.error}: {message[:QUOTED]}{'...' if len(message) > QUOTED else ''}"


def _guard(event: RecompileEvent) -> str:
    """Return the guard of the newest compiled code that failed, without its compile id."""
    newest = max(
        event.reasons, key=lambda reason: [int(n) for n in _id(reason).split("/") if n.isdecimal()], default=""
    )
    return guard_text(newest).removeprefix(f"{_id(newest)}: ")


def _id(reason: str) -> str:
    return reason.partition(": ")[0]


def compare_training(
    models: Models, watched: Sequence[ModuleType], unstable: frozenset[str], differing: Differing, seed: int
) -> Later:
    """Return the results of training steps: forward, and backward through AOTAutograd."""
    steps = same_inputs(models, seed, STEPS)
    return LaterCalls(models, watched, unstable, "train", differing).made(steps, seed)


@dataclass(frozen=True)
class TrainingStudy:
    """Later calls of a changed model, and the results with which they are compared."""

    models: Models
    watched: Sequence[ModuleType]
    unstable: frozenset[str]
    differing: Differing
    seed: int
    usual: Mapping[str, Any]
    """The original values of the settings of the change; empty for a change without settings."""
    trained: Later | None
    """The training steps of the unmodified code; None if training is not requested."""
    seconds: float
    """Seconds for calls with other inputs."""

    def judged(self, trial: Trial) -> Trial:
        """Add the results of later calls to a trial.

        A change is to blame only for problems that the same calls do not have without its settings, and training
        steps not in the unmodified code.
        """
        with dynamo.settings({"recompile_limit": COMPILES}):
            return self._judged(trial)

    def _judged(self, trial: Trial) -> Trial:
        mode = self.models.context.work.options.mode
        recompiled = any(item.identical_call for item in trial.observation.recompiles)
        until = time.monotonic() + self.seconds
        if self.usual or recompiled:
            later = self._calls(mode)
            for kind in self._kinds():
                if kind.words != SAME and time.monotonic() > until:
                    break
                trial = self._with_kind(trial, mode, kind, later.made(kind, self.seed))
                if trial.difference or trial.not_lasting:
                    return trial
                if trial.recompiled:
                    break  # compilations for other inputs could not be distinguished from that
        if not self.usual:
            return trial
        other: Mode = "train" if mode == "infer" else "infer"
        trial = self._with_steps(trial, other)
        for each in (mode, other):
            if not trial.difference:
                trial = self._with_inductor(trial, each)
        return trial

    def _kinds(self) -> Iterator[Kind]:
        yield same_inputs(self.models, self.seed)
        if self.usual:
            yield from other_inputs(self.models, self.seed)

    def _calls(self, mode: Mode, backend: str = "aot_eager") -> LaterCalls:
        return LaterCalls(self.models, self.watched, self.unstable, mode, self.differing, backend)

    def _without_settings(self, mode: Mode, kind: Kind, backend: str = "aot_eager") -> Later:
        with dynamo.settings(self.usual):
            return self._calls(mode, backend).made(kind, self.seed)

    def _with_kind(self, trial: Trial, mode: Mode, kind: Kind, seen: Later) -> Trial:
        if not (seen.fails or seen.again):
            return trial
        before = self._without_settings(mode, kind) if self.usual else Later()
        if seen.fails and self.usual and not before.fails:
            text = f"compiled with `aot_eager`, {seen.fails}"
            if seen.only_empty:
                condition = f"for empty inputs: {text}"
                return replace(trial, condition="; ".join(filter(None, (trial.condition, condition))))
            return replace(trial, difference=text, differs="compiled")
        if not seen.again:
            return trial
        functions = _named(seen.again, self.models.context)
        if kind.words == SAME:
            trial = replace(trial, recompiled=functions)
        gains_nothing = not before.again if kind.may_recompile else before.settled >= seen.settled
        if self.usual and gains_nothing:
            text = f"each call {kind.words} recompiles {functions}; at Dynamo's recompile limit, the code runs eagerly"
            return replace(trial, not_lasting=text)
        return trial

    def _with_steps(self, trial: Trial, mode: Mode) -> Trial:
        """Add the results of calls in a mode: in training forward and backward."""
        if not self._runs_in(mode):
            return trial
        kind = same_inputs(self.models, self.seed, STEPS)
        seen = self._calls(mode).made(kind, self.seed)
        if seen.fails is None or (mode == "infer" and self._without_settings(mode, kind).fails):
            return trial
        if mode == self.models.context.work.options.mode:
            text = f"compiled with `aot_eager` in {MODES[mode]}, {seen.fails}"
            return replace(trial, difference=text, differs="compiled")
        return replace(trial, notice=f"compiled in {MODES[mode]}, {seen.fails}")

    def _with_inductor(self, trial: Trial, mode: Mode) -> Trial:
        """Add the exception that one call raises if Inductor compiles it. Outputs are not compared: it rounds
        otherwise."""
        context = self.models.context
        if not self._runs_in(mode) or missing_toolchain(context.work.options.device, context):
            return trial
        kind = same_inputs(self.models, self.seed, 1)
        seen = self._calls(mode, INDUCTOR).made(kind, self.seed)
        if seen.error is None or self._without_settings(mode, kind, INDUCTOR).error is not None:
            return trial
        text = f"compiled with Inductor in {MODES[mode]}, {seen.error}"
        if mode == context.work.options.mode:
            return replace(trial, difference=text, differs="compiled")
        return replace(trial, notice=trial.notice or text)

    def _runs_in(self, mode: Mode) -> bool:
        """Return whether the unmodified code makes calls in this mode."""
        return mode != "train" or (self.trained is not None and not self.trained.fails)


def _named(again: Mapping[Place, str], context: Context) -> str:
    """Name the recompiled functions, and quote their guards."""
    names = context.names
    found = {names.symbol(place.path, place.line, place.name): guard for place, guard in again.items()}
    return ", ".join(f"`{symbol}` (guard `{guard}`)" for symbol, guard in found.items())
