"""Import the target's module, on an available device."""

from __future__ import annotations

from tcready.dynamic.worker.core import distributed
from tcready.dynamic.worker.core.case import RunError
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.environment import device_of, environment, missing_device
from tcready.dynamic.worker.core.journal import NO_VALUES, RunEndedError
from tcready.dynamic.worker.core.monkeypatches import snapshot
from tcready.dynamic.worker.core.request import with_device
from tcready.dynamic.worker.core.step import Step, failing
from tcready.dynamic.worker.inputs import library_models
from tcready.dynamic.worker.inputs.loading import import_target, named, open_path, target_in
from tcready.dynamic.worker.inputs.stand_ins import StandIns, on_meta
from tcready.portable.target import Target


def run(context: Context) -> None:
    """Set the module, the target, and the object that `--inputs` names (None without it)."""
    wanted = context.work.options.device
    context.device_found = wanted == "auto"
    context.work = work = distributed.place_work(with_device(context.work, device_of(wanted)))
    journal = context.journal
    journal.add(environment=environment(work))
    missing = missing_device(work.options.device)
    if on_meta(work.options.device):
        if work.proof is not None or work.bench is not None:
            missing = f"{NO_VALUES}: nothing can be compared or measured there"
        context.stand_ins = StandIns(context.names)
    if missing:
        journal.skip("import", missing, "device_missing")
        journal.rest = (missing, "device_missing")
        raise RunEndedError
    context.originals = snapshot()
    target = Target.parse(work.target)
    with failing(context, "import"):
        open_path(work, target)
        if work.options.model:
            context.module, context.value = library_models.imported(work, work.options.model)
        else:
            module = import_target(target, work.root)
            name = target.name or (context.convention.target if context.convention else None)
            if name is None:
                raise RunError(f"{target.place}: no target: name one as {target.place}::Name, with --inputs")
            context.module, context.value = module, target_in(module, name, target.place)
        if work.options.inputs:
            context.inputs = named(work.options.inputs, "--inputs", work)
        journal.end("pass")


STEP = Step("import", run, requires=("parse",))
