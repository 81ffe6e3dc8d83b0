"""Build the model, and find or generate its inputs."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from tcready.dynamic.worker.core import distributed, memory
from tcready.dynamic.worker.core.case import Case, NotBuiltError, RunError
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.environment import environment, missing_device
from tcready.dynamic.worker.core.journal import NO_VALUES, StageFailedError, one_line
from tcready.dynamic.worker.core.model_store import ModelStore
from tcready.dynamic.worker.core.monkeypatches import find_replaced
from tcready.dynamic.worker.core.request import Work
from tcready.dynamic.worker.core.step import Step, failing
from tcready.dynamic.worker.inputs import library_models, synthesis
from tcready.dynamic.worker.inputs.loading import SEED_BUILD, MethodTarget, build, cases, inputs_of, make_on
from tcready.dynamic.worker.inputs.stand_ins import on_meta
from tcready.dynamic.worker.torch_internals.inner_compile import InnerCalls
from tcready.schema.enums import Mode
from tcready.schema.observation import SYNTHESISED

_Given = TypeVar("_Given")


def run(context: Context) -> None:
    """Set the function that builds a new model, and the cases."""
    if context.given:
        _copy_given(context)
    else:
        _built(context)
    context.journal.add(environment=environment(context.work))


def _copy_given(context: Context) -> None:
    """Set a function that copies the object that the caller passed in; one copy is tried."""
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
        owner = context.value.owner if isinstance(context.value, MethodTarget) else context.value
        init = synthesis.init_of(owner) if made_up else None
    with failing(context, "build"):
        journal.write(_announce_size(context) or "build")
        distributed.begin(work)
        spread = distributed.make_distributor(context)

        def make(seed: int) -> Any:
            return build(context.value, init, work, seed)

        # Ranks shard parameters, and a proof changes those of the models that it requests.
        share = not work.options.processes and work.proof is None
        store = ModelStore(make, work.options.device, work.options.mode, share=share)
        inner = InnerCalls()
        with _explaining_memory(context, make), inner.noted():
            model = store.original
        context.compiles_itself = bool(inner.calls) and not work.options.processes
        context.rebuild = store.rebuild

        def build_as(mode: Mode, seed: int) -> Any:
            return spread(store.build(mode, seed))

        def build_anew() -> Any:
            return build_as(work.options.mode, SEED_BUILD)

        named = library_models.inputs_of(build_anew(), work) if made_up and work.options.model else None
        if named is not None:
            label, give = f"{named.label}, of {library_models.command(work.options)}", named.give
            journal.add(convention=label, inputs_from="library")

            def draw(seed: int) -> tuple[Case, ...]:
                return cases(_draw_inputs(work, seed, give), label, work)
        elif made_up:
            journal.write("build, looking for inputs")
            made = synthesis.synthesise(build_anew(), work, lambda error: one_line(error, work.root))
            journal.add(convention=f"{SYNTHESISED}{made.label}", inputs_from="made_up")
            journal.warn(f"the inputs were made up: {made.label}")

            def draw(seed: int) -> tuple[Case, ...]:
                del seed  # generated inputs are the same for each seed
                return cases(made.case, made.label, work)
        else:
            module = context.module
            assert module is not None

            def draw(seed: int) -> tuple[Case, ...]:
                sizes = work.options.sizes

                def give() -> tuple[Any, str]:
                    return inputs_of(context.inputs, module, context.convention, lambda: model, seed, sizes)

                try:
                    given = _draw_inputs(work, seed, give)
                except RunError:
                    raise
                except Exception as error:  # whatever the user's own code raises
                    raise RunError(_no_inputs(context, error)) from error
                return cases(*given, work)

        context.build, context.build_as, context.draw = build_anew, build_as, draw
        context.lent = None if work.options.processes else store.lent
        context.stop_copying = store.stop_copying
        if work.options.parallel in ("fsdp", "tp"):
            build_anew()  # a plan that does not fit is no matter of a call
        context.cases = tuple(case for case in draw(SEED_BUILD) if case.name not in work.leave_out)
        journal.cases = tuple(case.name for case in context.cases if case.name is not None)
        device = f"; device auto: {work.options.device}" if context.device_found else ""
        unnamed = work.options.model and named is None  # else the description of the inputs ends in the name
        built_from = f"; built from {library_models.command(work.options)}" if unnamed else ""
        how = "; ".join(["", *_how_built(store)])
        journal.end("pass", _size(model) + built_from + device + how)
    if patched := find_replaced(context.originals):
        more = f" and {len(patched) - 3} more" if len(patched) > 3 else ""
        journal.warn(f"the code replaces {', '.join(patched[:3])}{more}: what ran is a patched torch")


def _no_inputs(context: Context, error: Exception) -> str:
    """Return the error for inputs that raise, with the remedy if nobody requested these inputs."""
    why = one_line(error, context.work.root)
    if context.inputs is not None:
        return f"--inputs {context.work.options.inputs} raises {why}"
    label = context.convention.label if context.convention is not None else "what gives the inputs"
    return f"{label} raises {why}; --inputs names others"


def _announce_size(context: Context) -> str:
    """Show the size of a library model while it is built. Raises RunError if it does not fit."""
    work = context.work
    if on_meta(work.options.device):
        return ""
    size = library_models.size_to_be(context.value, work)
    if size is None:
        return ""
    if not memory.fits(size, work):
        raise RunError(memory.too_large(size, work, library_models.layers_that_fit(work)))
    if size.bytes < library_models.LARGE:
        return f"build, {size}"
    context.journal.warn(f"{work.options.model} has {size}: --tiny builds a small one of the same code")
    return f"build, {size} (--tiny builds a small one)"


def _draw_inputs(work: Work, seed: int, give: Callable[[], _Given]) -> _Given:
    """Draw inputs on the device if possible: the function may build a model for its configuration."""
    torch.manual_seed(seed)
    # Small inputs have their values on the device meta too: they are drawn on the CPU.
    return make_on("cpu" if on_meta(work.options.device) else work.options.device, give)[0]


def _how_built(store: ModelStore) -> Iterator[str]:
    if store.device_failure is not None:
        yield f"built on the CPU and moved: on the device the constructor raises {store.device_failure}"
    if not store.copies:
        yield "built again for each phase: copies would share state with the first"


@contextlib.contextmanager
def _explaining_memory(context: Context, make: Callable[[int], Any]) -> Iterator[None]:
    """Raise RunError with the size of the model if the device has too little memory for it, and NotBuiltError if the
    constructor raises anything else."""
    try:
        yield
    except RunError:
        raise
    except Exception as error:
        allocator = isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)
        if not allocator and not isinstance(error, torch.OutOfMemoryError):
            raise NotBuiltError(one_line(error, context.work.root)) from error
        device = context.work.options.device
        with contextlib.suppress(Exception), torch.device("meta"):
            raise RunError(memory.too_large(memory.Size.of(make(SEED_BUILD)), context.work)) from error
        raise RunError(f"the device {device} has too little memory for the model: {error}") from error


def _size(model: Any) -> str:
    if inspect.ismethod(model):
        return f"method {model.__qualname__}"
    if not isinstance(model, torch.nn.Module):
        return f"function {getattr(model, '__name__', '')}"
    return f"{type(model).__name__}, {memory.Size.of(model)}"


STEP = Step("build", run, requires=("import",))
