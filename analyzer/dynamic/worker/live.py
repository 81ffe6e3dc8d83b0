"""Observes an object of this very process: the phases of `run`, on copies, with the process left as it was."""

from __future__ import annotations

import contextlib
import copy
import functools
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tcready.dynamic.worker import run
from tcready.dynamic.worker.frames import Names
from tcready.dynamic.worker.journal import NOT_ASKED, Journal, StageFailedError, told
from tcready.dynamic.worker.originals import compile_callable
from tcready.dynamic.worker.parity import compare
from tcready.dynamic.worker.request import Work
from tcready.dynamic.worker.run import Run
from tcready.dynamic.worker.target import Case
from tcready.dynamic.worker.torch_internals import dynamo, pytree
from tcready.dynamic.worker.torch_internals.recording import Record, recording
from tcready.options import RunOptions
from tcready.schema import Mode, Observation, Origin, StageName, TcreadyError, origin_of
from torch import nn

GIVEN = "the object itself was given"


SCRIPT = (torch.jit.ScriptModule, torch.jit.ScriptFunction, torch.ScriptMethod)


@dataclass
class _Names(Names):
    """Own is what is below further folders, too."""

    folders: tuple[str, ...] = ()

    def origin(self, path: str) -> Origin:
        roots = (self.root, *self.folders)
        found = {origin_of(path, root, self.packages) for root in roots}
        return "own" if "own" in found else "third_party"


def observe_live(
    value: Callable[..., Any],
    cases: Sequence[Case],
    *,
    mode: Mode,
    root: str,
    own_folders: tuple[str, ...],
    own_packages: tuple[str, ...],
    dynamic: bool | None,
    fullgraph: bool,
    parity: bool,
    tolerance: tuple[float, float] | None,
) -> Observation:
    """What compiling `value`, a module or a function, for each of `cases` shows; of several also in turn.

    A module is copied for each phase, so that its parameters, buffers and flags stay as they are, and so is each
    input; a function is called as it is. Random states, grad mode and stance are put back, warnings are not shown,
    and Dynamo's caches are empty afterwards. What goes wrong is told as in any Observation. Raises TcreadyError for
    TorchScript.
    """
    value = dynamo.uncompiled(value)
    if isinstance(value, SCRIPT) or isinstance(getattr(value, "__self__", None), SCRIPT):
        raise TcreadyError(
            "this is TorchScript, which torch.compile does not take: give the module or function that it was made of"
        )
    device = _device_of(value, cases)
    options = RunOptions(mode=mode, device=device, fullgraph=fullgraph)
    work = Work(_name(value), options, root, own_packages)
    journal = Journal(work, GIVEN, None)
    stages: tuple[StageName, ...] = ("parse", "import", "backend", "speed")
    for stage in stages:
        journal.skip(stage, GIVEN if stage in ("parse", "import") else NOT_ASKED)
    this = Run(
        work,
        journal,
        _Names(root, own_packages, folders=own_folders),
        functools.partial(_copied, value, mode),
        tuple(cases),
        options={} if dynamic is None else {"dynamic": dynamic},
        tolerance=tolerance,
        watches_lines=False,
    )
    with _undisturbed():
        try:
            _climb(this, parity=parity)
        except StageFailedError as failed:
            cause = failed.__cause__
            if not isinstance(cause, (Exception, SystemExit, type(None))):
                raise cause from None  # Ctrl-C, or a test's own way to end: not the model's failure
        journal.close()
    return journal.observation


def _climb(this: Run, *, parity: bool) -> None:
    """From build to parity. Raises StageFailedError where a stage ended it."""
    journal = this.journal
    journal.begin("build")
    missing = run.missing_device(this.work.options.device)
    try:
        this.build()
    except Exception as error:
        missing = f"it is copied, so that yours stays as it is, and cannot be: {told(error, this.work.root)}"
    if missing:
        journal.end("fail", missing)
        raise StageFailedError
    journal.end("pass")
    journal.add(environment=run.environment(this.work))
    reference = run.eager(this)
    outputs = run.capture(this)
    difference = _in_turn(this) if len(this.cases) > 1 else None
    if this.work.options.fullgraph:
        run.fullgraph(this)
    else:
        journal.skip("fullgraph", NOT_ASKED)
    if not parity:
        journal.skip("parity", NOT_ASKED)
        return
    run.parity(this, reference, outputs)
    if difference and any(
        stage.stage == "parity" and stage.state == "pass" for stage in journal.done.values()
    ):
        journal.begin("parity")
        journal.end("fail", difference)


def _in_turn(this: Run) -> str | None:
    """One compiled callable for all cases, one after the other: what recompiles or breaks is added to the journal.

    How its outputs differ from those of one eager callable, in one line; None where they do not. Raises
    StageFailedError where it raises and the eager one did not.
    """
    journal = this.journal
    try:
        with torch.compiler.set_stance("force_eager"):
            expected, again = (_all_outputs(this, this.build()) for _ in range(2))
    except Exception as error:
        journal.begin("eager")
        journal.end("fail", f"the calls in turn raised {told(error, this.work.root)}")
        raise StageFailedError from error
    if any(compare(*pair, this.tolerance).difference for pair in zip(expected, again, strict=True)):
        expected = []
    dynamo.reset()
    compiled = compile_callable(this.build(), backend="eager", **this.options)
    difference = None
    for index, case in enumerate(this.cases):
        record = Record()
        try:
            output = run.call(this, compiled, case, recording(record, every_guard=True))
        except Exception as error:
            journal.begin("capture")
            journal.end("fail", f"called in turn, {case.name} raised {told(error, this.work.root)}")
            raise StageFailedError from error
        finally:
            run.add(this, record, case, "in turn")
        if index < len(expected) and difference is None:
            difference = compare(expected[index], output, this.tolerance).difference
            difference = difference and f"{difference}{case.label}, called in turn"
    return difference


def _all_outputs(this: Run, function: Callable[..., Any]) -> list[Any]:
    return [run.call(this, function, case) for case in this.cases]


def _copied(value: Callable[..., Any], mode: Mode) -> Callable[..., Any]:
    """A copy of a module, or of the module that a method is bound to, in its mode; anything else itself."""
    owner = getattr(value, "__self__", None)
    if isinstance(owner, nn.Module):
        method: Callable[..., Any] = getattr(_copied(owner, mode), value.__name__)
        return method
    if not isinstance(value, nn.Module):
        return value
    model: Callable[..., Any] = copy.deepcopy(value)
    # Where the whole is in that mode already, parts of it that are not were set so on purpose.
    if value.training != (mode == "train"):
        model.train(mode == "train")  # type: ignore[attr-defined,unused-ignore]
    return model


def _name(value: Callable[..., Any]) -> str:
    return getattr(value, "__qualname__", None) or type(value).__name__


def _device_of(value: Any, cases: Sequence[Case]) -> str:
    """Where the call computes: the device of the first tensor of the module, else of the inputs."""
    owner = value if isinstance(value, nn.Module) else getattr(value, "__self__", None)
    if isinstance(owner, nn.Module):
        for tensor in (*owner.parameters(), *owner.buffers()):
            return str(tensor.device)
    leaves = pytree.tree_leaves([(case.args, case.kwargs) for case in cases])
    return next((str(leaf.device) for leaf in leaves if isinstance(leaf, torch.Tensor)), "cpu")


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """What runs inside starts from plain settings, and the process finds its own again."""
    states = random.getstate(), torch.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    numpy = sys.modules.get("numpy")
    drawn = numpy.random.get_state() if numpy is not None else None
    try:
        with (
            warnings.catch_warnings(),
            torch.inference_mode(False),
            torch.set_grad_enabled(True),
            dynamo.apart(),
        ):
            warnings.simplefilter("ignore")  # under `-W error` a warning of torch would end the run
            yield
    finally:
        random.setstate(states[0])
        torch.set_rng_state(states[1])
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)
        if numpy is not None:
            numpy.random.set_state(drawn)
