"""Observes an object of this very process: some steps of the pipeline, on copies, with the process left as it was."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import io
import logging
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tcready.dynamic.worker import pipeline
from tcready.dynamic.worker.case import Case
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.frames import Names, is_cell
from tcready.dynamic.worker.journal import NOT_ASKED, Journal
from tcready.dynamic.worker.lines import can_watch
from tcready.dynamic.worker.request import Work
from tcready.dynamic.worker.torch_internals import dynamo, pytree
from tcready.options import RunOptions
from tcready.schema import STAGES, Mode, Observation, Origin, TcreadyError, origin_of
from torch import nn

GIVEN = "the object itself was given"


SCRIPT = (torch.jit.ScriptModule, torch.jit.ScriptFunction, torch.ScriptMethod)


@dataclass
class _Names(Names):
    """Own is what is below further folders, too."""

    folders: tuple[str, ...] = ()

    def origin(self, path: str) -> Origin:
        if is_cell(path):
            return "own"
        roots = (self.root, *self.folders)
        found = {origin_of(path, root, self.packages) for root in roots}
        return "own" if "own" in found else "third_party"


def observe_live(
    value: Callable[..., Any],
    cases: Sequence[Case],
    *,
    options: RunOptions,
    root: str,
    own_folders: tuple[str, ...],
    own_packages: tuple[str, ...],
    name: str = "",
    as_a_target: bool = False,
    dynamic: bool | None = None,
    parity: bool = True,
    tolerance: tuple[float, float] | None = None,
) -> Observation:
    """What compiling `value`, a module or a function, for each of `cases` shows; of several also in turn. `as_a_target`
    it climbs further stages if `options` ask for them.

    A module is copied for each phase, so that its parameters, buffers and flags stay as they are, and so is each
    input; a function is called as it is. Random states, grad mode and stance are put back, warnings are not shown,
    and Dynamo's caches are empty afterwards. What goes wrong is recorded as in any Observation. Raises TcreadyError for
    TorchScript.
    """
    value = dynamo.uncompiled(value)
    if isinstance(value, SCRIPT) or isinstance(getattr(value, "__self__", None), SCRIPT):
        raise TcreadyError(
            "this is TorchScript, which torch.compile does not take: give the module or function that it was made of"
        )
    device = _device_of(value, cases)
    options = dataclasses.replace(options, device=device)
    work = Work(name or _name(value), options, root, own_packages)
    journal = Journal(work, "given in the call" if as_a_target else GIVEN, None, "object")
    for stage in STAGES:
        if stage not in pipeline.steps_of(as_a_target):
            detail = GIVEN if stage in ("parse", "import") else NOT_ASKED
            journal.skip(stage, detail, "not_asked")
    context = Context(
        work,
        journal,
        _Names(root, own_packages, folders=own_folders),
        given=True,
        as_a_target=as_a_target,
        compile_options={} if dynamic is None else {"dynamic": dynamic},
        tolerance=tolerance,
        compares=parity,
        watches_lines=as_a_target and can_watch(),
        build=functools.partial(_copied, value, options.mode),
        cases=tuple(cases),
    )
    with _undisturbed(), _silent() if as_a_target else contextlib.nullcontext():
        failure = pipeline.run(context)
        cause = failure.__cause__ if failure else None
        if not isinstance(cause, (Exception, SystemExit, type(None))):
            raise cause from None  # Ctrl-C, or a test's own way to end: not the model's failure
    return journal.observation


def _writes(handler: logging.Handler) -> bool:
    """Whether a handler writes to the terminal, or what a notebook has for one."""
    return isinstance(handler, logging.StreamHandler) and not isinstance(handler, logging.FileHandler)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """What the model prints and torch logs, in many calls, is not what whoever asks wants to read."""
    known = logging.root.manager.loggerDict
    loggers = [logging.getLogger(name) for name in list(known) if name.partition(".")[0] == "torch"]
    handlers = [(each, each.level) for logger in loggers for each in logger.handlers if _writes(each)]
    for handler, _ in handlers:
        handler.setLevel(logging.CRITICAL + 1)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        for handler, level in handlers:
            handler.setLevel(level)


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
