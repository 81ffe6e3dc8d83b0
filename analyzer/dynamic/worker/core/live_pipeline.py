"""Observe an object of this process: run some steps of the pipeline on copies, and restore the state of the process."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import io
import json
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tcready.dynamic.worker.bench import bench_process, copies
from tcready.dynamic.worker.core import pipeline, reached
from tcready.dynamic.worker.core.case import Case, RunError
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.frames import FrameNames, is_cell
from tcready.dynamic.worker.core.generators import restore_generators
from tcready.dynamic.worker.core.journal import NOT_REQUESTED, Journal, one_line
from tcready.dynamic.worker.core.lines import can_watch
from tcready.dynamic.worker.core.request import DROPPED_IN_A_BENCH, Work, ended_early, read_state
from tcready.dynamic.worker.inputs.loading import SEED_BUILD
from tcready.dynamic.worker.proof.input_changes import drawn
from tcready.dynamic.worker.torch_internals import dynamo, pytree
from tcready.portable.options import RunOptions
from tcready.schema.bench import BenchAnswer, BenchRequest
from tcready.schema.codec import from_json
from tcready.schema.display_paths import origin_of
from tcready.schema.enums import STAGES, Mode, Origin, TcreadyError
from tcready.schema.observation import Observation
from tcready.schema.progress import Progressing
from torch import nn

GIVEN = "the object itself was given"
IN_THE_CALL = "given in the call"
DONE_EARLY = "it ended with code 0 before it was done"
STORES = ("_parameters", "_buffers")
"""The attributes of a module that hold what was registered with `register_parameter` and `register_buffer`."""
SCRIPT = (torch.jit.ScriptModule, torch.jit.ScriptFunction, torch.ScriptMethod)


@dataclass
class _Names(FrameNames):
    """Names for which code below further folders is own, too."""

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
    """Observe how `value`, a module or a function, compiles for each of `cases`; with several cases also in turn. With
    `as_a_target`, further stages run if `options` request them.

    A module is copied for each phase, so that its parameters, buffers and flags do not change, and so is each input and
    each module of a partial. A function is called directly, and its changes to modules and tensors that it names are
    undone. Random states, grad mode, default dtype and device, and stance are restored, warnings are not shown, and
    Dynamo's caches are empty afterwards. Errors are recorded as in any Observation. Raises TcreadyError for TorchScript.
    """
    value = _unwrap_compiled(value)
    device = _device_of(value, cases)
    options = dataclasses.replace(options, device=device)
    work = Work(name or _name(value), options, root, own_packages)
    journal = Journal(work, IN_THE_CALL if as_a_target else GIVEN, None, "object")
    for stage in STAGES:
        if stage not in pipeline.steps_of(as_a_target):
            detail = GIVEN if stage in ("parse", "import") else NOT_REQUESTED
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
        build=functools.partial(_copied_or_refused, value, options.mode, work.target),
        cases=tuple(cases),
    )
    quiet = _silent() if as_a_target else contextlib.nullcontext()
    with _isolated_state(), reached.put_back(value), quiet:
        failure = pipeline.run(context)
        cause = failure.__cause__ if failure else None
        if not isinstance(cause, (Exception, SystemExit, type(None))):
            raise cause from None  # Ctrl-C, or a test's own way to end: not the model's failure
    return journal.observation


def _unwrap_compiled(value: Callable[..., Any]) -> Callable[..., Any]:
    """Return the object that was passed to `torch.compile`. Raises TcreadyError for TorchScript."""
    value = dynamo.uncompiled(value)
    if isinstance(value, SCRIPT) or isinstance(getattr(value, "__self__", None), SCRIPT):
        raise TcreadyError(
            "this is TorchScript, which torch.compile does not take: give the module or function that it was made of"
        )
    return value


@dataclass(frozen=True)
class Measuring:
    """Measures an object of this process: called with a request of a bench, it returns the answer.

    Each request is answered in a copy of this process, or in this one if there can be none. The object and its inputs
    are restored as in `observe_live`.
    """

    value: Callable[..., Any]
    cases: tuple[Case, ...]
    work: Work
    names: FrameNames
    alone: str
    """The reason why there is no process but this one; empty if there are copies."""

    def __call__(self, request: BenchRequest, seconds: float, _announce: Progressing) -> BenchAnswer:
        """Return the measurements; their `failure` says why there are no more. In this process itself the limit
        `seconds` does not apply."""
        with tempfile.TemporaryDirectory(prefix="tcready-", ignore_cleanup_errors=True) as folder:
            room, ending = Path(folder), copies.CopyEnding()
            if self.alone:
                self._measure(request, room)
            else:
                ending = copies.run_in_copy(functools.partial(self._measure, request, room), seconds)
            left, state = room / "result.json", room / "state.json"
            known = from_json(BenchAnswer, json.loads(left.read_text("utf-8"))) if left.exists() else None
            now = read_state(str(state)) if state.exists() else None
        found = known or BenchAnswer(request.kind)
        why = ending.why or (DONE_EARLY if now is None or now.doing is not None else "")
        if why and not found.failure:
            found = ended_early(found, now, why, ending.late)
        return dataclasses.replace(found, notes=(*found.notes, *self._notes()))

    def _measure(self, request: BenchRequest, room: Path) -> None:
        mode, name = self.work.options.mode, self.work.target
        context = Context(
            self.work,
            Journal(self.work, IN_THE_CALL, str(room / "state.json"), "object"),
            self.names,
            given=True,
            as_a_target=True,
            watches_lines=False,
            build=functools.partial(_copied_or_refused, self.value, mode, name),
            build_as=lambda mode, _seed: _copied_or_refused(self.value, mode, name),
            draw=self._draw_inputs,
            cases=self.cases,
        )
        with _isolated_state(), reached.put_back(self.value), _silent():
            bench_process.run(context, request, room)

    def _draw_inputs(self, seed: int) -> tuple[Case, ...]:
        """Return the given inputs; for any seed but the first, with other values."""
        if seed == SEED_BUILD:
            return self.cases
        return tuple(
            dataclasses.replace(case, args=args, kwargs=kwargs)
            for case in self.cases
            for args, kwargs in [drawn((case.args, case.kwargs), seed)]
        )

    def _notes(self) -> Iterator[str]:
        yield "parity of an object: its weights are its own; from further seeds its inputs have other values"
        if not self.alone:
            yield "memory of copies: each process is a copy of the one that has the object, whose memory counts in it"
        if names := sorted(name for name in os.environ if name.startswith(DROPPED_IN_A_BENCH)):
            yield f"set in this process, so what torch writes for it was timed: {', '.join(names)}"


def measuring(
    value: Callable[..., Any],
    cases: Sequence[Case],
    *,
    options: RunOptions,
    root: str,
    own_folders: tuple[str, ...],
    own_packages: tuple[str, ...],
    name: str,
) -> Measuring:
    """Return the object that measures `value`, called with each of `cases`.

    Raises TcreadyError for TorchScript.
    """
    value = _unwrap_compiled(value)
    device = _device_of(value, cases)
    work = Work(name, dataclasses.replace(options, device=device), root, own_packages)
    names = _Names(root, own_packages, folders=own_folders)
    return Measuring(value, tuple(cases), work, names, copies.none_because(device))


def _writes(handler: logging.Handler) -> bool:
    """Return whether a handler writes to the terminal, or to its replacement in a notebook."""
    return isinstance(handler, logging.StreamHandler) and not isinstance(handler, logging.FileHandler)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Suppress the output of the model and torch's logs: there are many calls, and the caller did not request their
    output."""
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


def _copied_or_refused(value: Callable[..., Any], mode: Mode, name: str) -> Callable[..., Any]:
    """Copy as `_copy_value` does. Raises RunError with the name of the attribute if an attribute of a module cannot be
    copied."""
    try:
        return _copy_value(value, mode, {})
    except Exception as error:
        for owner in _owners(value):
            for path, why in _find_uncopiable(owner):
                again = f", or check the class in its file: `tcready check {name}`" if ".py::" in name else ""
                raise RunError(
                    f"the model is copied, so that yours stays as it is, and its attribute {path} cannot be: {why}; "
                    f"delete the attribute before the check{again}"
                ) from error
        raise


def _find_uncopiable(model: nn.Module) -> Iterator[tuple[str, str]]:
    """Yield each attribute that cannot be copied, with the reason."""
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if isinstance(value, nn.Module) or key == "_modules":
                continue
            entries = value.items() if isinstance(value, dict) and key in STORES else [(key, value)]
            for attribute, each in entries:
                path = f"{name}.{attribute}" if name else attribute
                if isinstance(each, torch.Tensor) and not each.is_leaf:
                    yield path, "it is the result of an earlier call, with the gradients' graph behind it"
                    continue
                try:
                    copy.deepcopy(each)
                except Exception as error:
                    yield path, one_line(error, "")


def _copy_value(value: Callable[..., Any], mode: Mode, known: dict[int, Any]) -> Callable[..., Any]:
    """Copy a module, the module that a method is bound to, or those in a partial, in its mode; return anything else
    unchanged. `known` is the memo of `copy.deepcopy`: copies share what their originals share."""
    if isinstance(value, functools.partial):

        def part(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor) and not leaf.is_leaf:
                # a backward would reach the tensors that it was computed from
                return leaf.detach().clone().requires_grad_()
            return _copy_value(leaf, mode, known) if isinstance(leaf, nn.Module) else leaf

        args, kwargs = pytree.tree_map(part, (value.args, value.keywords))
        return functools.partial(_copy_value(value.func, mode, known), *args, **kwargs)
    owner = getattr(value, "__self__", None)
    if isinstance(owner, nn.Module):
        method: Callable[..., Any] = getattr(_copy_value(owner, mode, known), value.__name__)
        return method
    if not isinstance(value, nn.Module):
        return value
    model: Callable[..., Any] = copy.deepcopy(value, known)
    # If the whole is in that mode already, parts that are not were set so on purpose.
    if value.training != (mode == "train"):
        model.train(mode == "train")  # type: ignore[attr-defined,unused-ignore]
    return model


def _owners(value: Any) -> list[nn.Module]:
    """Return the modules that are copied for `value`."""
    if isinstance(value, functools.partial):
        leaves = pytree.tree_leaves((value.args, value.keywords))
        return [*_owners(value.func), *(leaf for leaf in leaves if isinstance(leaf, nn.Module))]
    owner = value if isinstance(value, nn.Module) else getattr(value, "__self__", None)
    return [owner] if isinstance(owner, nn.Module) else []


def _name(value: Callable[..., Any]) -> str:
    return getattr(value, "__qualname__", None) or type(value).__name__


def _device_of(value: Any, cases: Sequence[Case]) -> str:
    """Return the device of the call: that of the first tensor of the module, else of the inputs."""
    for owner in _owners(value):
        for tensor in (*owner.parameters(), *owner.buffers()):
            return str(tensor.device)
    leaves = pytree.tree_leaves([(case.args, case.kwargs) for case in cases])
    return next((str(leaf.device) for leaf in leaves if isinstance(leaf, torch.Tensor)), "cpu")


@contextlib.contextmanager
def _isolated_state() -> Iterator[None]:
    """Run the code inside with default settings, and restore the settings of the process afterwards."""
    dtype, device = torch.get_default_dtype(), torch.get_default_device()
    try:
        with (
            restore_generators(),
            warnings.catch_warnings(),
            torch.inference_mode(False),
            torch.set_grad_enabled(True),
            dynamo.apart(),
        ):
            warnings.simplefilter("ignore")  # under `-W error` a warning of torch would end the run
            yield
    finally:
        torch.set_default_dtype(dtype)
        if torch.get_default_device() != device:
            torch.set_default_device(None if device == torch.device("cpu") else device)
