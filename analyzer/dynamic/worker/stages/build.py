"""The model is built, and its inputs are found or made up."""

from __future__ import annotations

import copy
import inspect
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from tcready.dynamic.worker import by_name, distributed, synthesis
from tcready.dynamic.worker.case import Case, RunError
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.environment import environment, missing_device
from tcready.dynamic.worker.journal import NO_VALUES, StageFailedError, one_line
from tcready.dynamic.worker.loading import SEED_BUILD, Method, build, cases, inputs_of
from tcready.dynamic.worker.originals import replaced
from tcready.dynamic.worker.stand_ins import on_meta
from tcready.dynamic.worker.step import Step, failing
from tcready.schema.observation import SYNTHESISED
from tcready.schema.words import Mode


def run(context: Context) -> None:
    """Leaves what builds a fresh model, and the cases."""
    if context.given:
        _copied(context)
    else:
        _built(context)
    context.journal.add(environment=environment(context.work))


def _copied(context: Context) -> None:
    """The caller gave the object, and what copies it: one copy is tried."""
    journal = context.journal
    journal.begin("build")
    device = context.work.options.device
    missing = f"{NO_VALUES}: the object is not checked there" if on_meta(device) else missing_device(device)
    if missing:
        journal.end("fail", missing, "device_missing")
        raise StageFailedError
    try:
        context.build()
    except RunError as error:
        journal.end("fail", str(error), "error")
        raise StageFailedError from error
    except Exception as error:
        why = one_line(error, context.work.root)
        journal.end("fail", f"it is copied, so that yours stays as it is, and cannot be: {why}", "error")
        raise StageFailedError from error
    journal.end("pass")


def _built(context: Context) -> None:
    work, journal = context.work, context.journal
    made_up = work.options.synthesise and context.inputs is None and context.convention is None
    init = getattr(context.module, "get_init_inputs", None)
    if not callable(init):
        owner = context.value.owner if isinstance(context.value, Method) else context.value
        init = synthesis.init_of(owner) if made_up else None
    with failing(context, "build", _announced(context)):
        distributed.begin(work)
        spread = distributed.spreading(context)

        model = build(context.value, init, work)
        first: Callable[[], Any] = weakref.ref(model) if isinstance(model, torch.nn.Module) else lambda: None

        def build_as(mode: Mode, seed: int) -> Any:
            made = build(context.value, init, replace(work, options=replace(work.options, mode=mode)), seed)
            # A target that caches its model gives the same one every time: what one call leaves on it, others would see.
            return spread(_copied_if_possible(made) if made is first() else made)

        def build_anew() -> Any:
            return build_as(work.options.mode, SEED_BUILD)

        named = by_name.inputs_of(model, work) if made_up and work.options.model else None
        if named is not None:
            label, give = f"{named.label}, of {by_name.command(work.options)}", named.give
            journal.add(convention=label, inputs_from="library")

            def draw(seed: int) -> tuple[Case, ...]:
                torch.manual_seed(seed)
                return cases(give(), label, work)
        elif made_up:
            journal.write("build, looking for inputs")
            made = synthesis.synthesise(model, work, lambda error: one_line(error, work.root))
            journal.add(convention=f"{SYNTHESISED}{made.label}", inputs_from="made_up")
            journal.warn(f"nobody gave the inputs: made up were {made.label}")

            def draw(seed: int) -> tuple[Case, ...]:
                del seed  # made up as they are, they are the same from any
                return cases(made.case, made.label, work)
        else:
            module = context.module
            assert module is not None

            def draw(seed: int) -> tuple[Case, ...]:
                sizes = work.options.sizes
                try:
                    given = inputs_of(context.inputs, module, context.convention, lambda: model, seed, sizes)
                except RunError:
                    raise
                except Exception as error:  # whatever the user's own code raises
                    raise RunError(_no_inputs(context, error)) from error
                return cases(*given, work)

        context.build, context.build_as, context.draw = build_anew, build_as, draw
        if work.options.parallel in ("fsdp", "tp"):
            build_anew()  # a plan that does not fit is no matter of a call
        context.cases = tuple(case for case in draw(SEED_BUILD) if case.name not in work.leave_out)
        journal.cases = tuple(case.name for case in context.cases if case.name is not None)
        device = f"; device auto: {work.options.device}" if context.device_found else ""
        unnamed = work.options.model and named is None  # else what is said of the inputs ends in the name
        built_from = f"; built from {by_name.command(work.options)}" if unnamed else ""
        journal.end("pass", _size(model) + built_from + device)
    if patched := replaced(context.originals):
        more = f" and {len(patched) - 3} more" if len(patched) > 3 else ""
        journal.warn(f"the code replaces {', '.join(patched[:3])}{more}: what ran is a patched torch")


def _no_inputs(context: Context, error: Exception) -> str:
    """That what gives the inputs raises, and what to do if nobody asked for it."""
    why = one_line(error, context.work.root)
    if context.inputs is not None:
        return f"--inputs {context.work.options.inputs} raises {why}"
    label = context.convention.label if context.convention is not None else "what gives the inputs"
    return f"{label} raises {why}; --inputs names others"


def _announced(context: Context) -> str:
    """What is told before a model of a library is built: how large it will be."""
    if on_meta(context.work.options.device):
        return ""
    size = by_name.size_to_be(context.value, context.work)
    if size is None:
        return ""
    if size.bytes < by_name.LARGE:
        return f"build, {size}"
    context.journal.warn(
        f"{context.work.options.model} has {size}: --tiny builds a small one of the same code"
    )
    return f"build, {size} (--tiny builds a small one)"


def _copied_if_possible(model: torch.nn.Module) -> torch.nn.Module:
    try:
        return copy.deepcopy(model)
    except Exception:
        return model


def _size(model: Any) -> str:
    if inspect.ismethod(model):
        return f"method {model.__qualname__}"
    if not isinstance(model, torch.nn.Module):
        return f"function {getattr(model, '__name__', '')}"
    return f"{type(model).__name__}, {by_name.Size.of(model)}"


STEP = Step("build", run, requires=("import",))
