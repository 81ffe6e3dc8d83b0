"""Record the effects of one call that a caller can see, and compare those of two calls."""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import itertools
import linecache
import logging
import math
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any

import torch
from tcready.dynamic.worker.core.calling import seed_generators
from tcready.dynamic.worker.core.frames import is_user_file
from tcready.dynamic.worker.core.generators import Generators
from tcready.dynamic.worker.inputs.loss import NotTrainedError, loss_of, with_terms_apart
from tcready.dynamic.worker.measure.output_comparison import flatten
from tcready.dynamic.worker.proof.behaviour import LONG, NOT_SAVED, REPLACED, Behaviour
from tcready.dynamic.worker.proof.behaviour_differences import without_numbers
from tcready.dynamic.worker.proof.copied_values import (
    CONTAINERS,
    DEPTH,
    DRAINED,
    contents,
    copied,
    digest,
    drained,
    inside,
    is_plain,
    plain,
    stream,
)
from tcready.dynamic.worker.proof.global_state import global_state, left_otherwise, writes
from tcready.dynamic.worker.proof.sharing import Pair, same_containers, shared
from tcready.dynamic.worker.torch_internals import pytree
from torch import nn

GRADIENT_SCALE = -64.0
"""The gradient of the loss. It is not 1, because a user's backward may ignore or clamp the gradient that it gets. A
power of two changes no digit."""
LARGE_GRADIENT_SCALE = 4096.0
"""A second gradient of the loss: gradients of ordinary losses do not reach the bounds at which some code clamps them."""


def observe_call(
    model: Any,
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    watched: Sequence[ModuleType] = (),
    leaves: Sequence[torch.Tensor] = (),
    *,
    gradients: bool = False,
    second: bool = False,
    scale: float = GRADIENT_SCALE,
    counts: bool = True,
) -> Behaviour:
    """Record one call of `function`, which is `model`, its compiled form or one of its functions; the arguments are
    its own.

    `watched` are modules with names that the call may change; `leaves` are the tensors among the arguments, or from
    which these are computed. With `gradients`, their gradients and those of parameters are compared, and with
    `second` those of their squares; the loss is multiplied by `scale`. With `counts`, hooks count the calls of
    modules; compiled calls do not use this.
    """
    seed_generators()
    before = _names(watched)
    written = _versions(model)
    originals = _containers(model)
    error: BaseException | None = None
    output: Any = None
    containers: frozenset[Pair] = frozenset()
    grads: dict[str, Any] = {}
    with heard() as (printed, warned), writes().noted() as process:
        set_before: dict[str | bytes, Any] = {}
        set_after: dict[str | bytes, Any] = {}
        called: Counter[str] = Counter()
        by_position: Counter[str] = Counter()
        written_to: Counter[str] = Counter()
        callback_calls: dict[str, list[Any]] = {}
        given_by: dict[str, list[tuple[float, tuple[int, ...]]]] = {}
        try:
            with torch.set_grad_enabled(gradients):
                set_before = global_state()
                with contextlib.ExitStack() as stack:
                    if counts:
                        stack.enter_context(_count_calls(model, called, by_position, written_to, given_by))
                        callback_calls = stack.enter_context(_record_callback_calls(model))
                    try:
                        given = function(*args, **kwargs)
                        containers = same_containers(given, (args, kwargs), model)
                        output = drained(given)
                    finally:
                        set_after = global_state()
            if gradients:
                grads = _gradients(model, leaves, output, scale, second=second)
        except Exception as raised:
            error = raised
    found, structure = flatten(output)
    passed, passed_structure = flatten((args, kwargs))
    moved, left = _find_changed_names(before, _names(watched))
    return Behaviour(
        _type_of(error) if error is not None else None,
        " ".join(str(error).split())[:LONG] if error is not None else "",
        [plain(leaf) for leaf in found],
        structure,
        [*map(_in_autograd, found)],
        grads,
        [*map(plain, passed), *passed_structure, *map(_in_autograd, passed)],
        state_of(model)
        | _rewritten(model, written)
        | _find_replaced(model, originals)
        | _find_attached(model, found, passed, error),
        moved,
        left,
        process | left_otherwise(set_before, set_after) | callback_calls,
        shared(found, passed, model) | containers,
        dict(called),
        dict(by_position),
        dict(written_to),
        given_by,
        error is not None and _is_raised(error),
        printed.getvalue(),
        Generators.now().digest(),
        [*map(_strides, found)],
        tuple(warned),
    )


EXACT = 1e-5
"""The largest difference between floats, relative to the largest, if they were not computed with fewer digits."""


def reduce_to_types(seen: Behaviour, whole: Behaviour) -> Behaviour:
    """Reduce the result of a call under autocast to types: for tensors the dtype, the shape, and whether they have all
    digits of the `whole` call without autocast."""

    def written(one: Any, other: Any) -> str:
        if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
            return f"<{type(one).__name__}>"
        digits = ""
        if one.is_floating_point() and one.shape == other.shape and one.numel():
            apart = torch.nan_to_num(one.double() - other.double()).abs().max()
            has_all = bool(apart <= EXACT * torch.nan_to_num(other.double()).abs().max())
            digits = ", all digits" if has_all else ", fewer digits"
        return f"{one.dtype} {[*one.shape]}{digits}"

    pairs = itertools.zip_longest(seen.outputs, whole.outputs)
    outputs = [written(one, other) for one, other in pairs]
    return Behaviour(seen.error, seen.message, outputs, seen.structure, raised=seen.raised)


def describe_tensors(seen: Behaviour) -> Behaviour:
    """Describe the tensors among the outputs, wherever they are: those on the meta device have no values to compare."""
    described = [
        f"{each.dtype} {[*each.shape]} {each.device}" if isinstance(each, torch.Tensor) else each
        for each in seen.outputs
    ]
    return replace(seen, outputs=described)


def reduce_to_outputs(seen: Behaviour) -> Behaviour:
    """Return only the outputs, exceptions and printed text of a call; the text without its numbers."""
    return Behaviour(
        seen.error,
        seen.message,
        seen.outputs,
        seen.structure,
        raised=seen.raised,
        printed=without_numbers(seen.printed),
    )


def _in_autograd(leaf: Any) -> tuple[bool, bool]:
    return (leaf.requires_grad, leaf.is_inference()) if isinstance(leaf, torch.Tensor) else (False, False)


def _is_raised(error: BaseException) -> bool:
    """Return whether an exception comes from a user statement that raises, not from invalid arguments of torch."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not is_user_file(trace.tb_frame.f_code.co_filename):
        return False
    line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno).strip()
    statement = "assert" if isinstance(error, AssertionError) else "raise"
    return re.search(rf"(^|[:;]\s*){statement}\b", line) is not None


@contextlib.contextmanager
def _count_calls(
    model: Any,
    called: Counter[str],
    by_position: Counter[str],
    written: Counter[str],
    returned: dict[str, list[tuple[float, tuple[int, ...]]]],
) -> Iterator[None]:
    """Count the calls of modules, by the names that the model has for them before or after the call, and the later writes
    to their outputs.

    An unknown module counts if it has hooks: a module that the call creates for itself is not visible to others later.
    """
    # Modules are kept alive: a new one that is made during the call could have the id of a deleted one.
    calls: list[tuple[nn.Module, int]] = []
    given: list[tuple[nn.Module, torch.Tensor, int, float]] = []

    def named() -> dict[int, tuple[str, nn.Module]]:
        found = model.named_modules() if isinstance(model, nn.Module) else ()
        return {id(module): (name, module) for name, module in found}

    def noting(module: nn.Module, args: Any) -> None:
        calls.append((module, len(args) if isinstance(args, tuple) else 1))

    def keeping(module: nn.Module, _args: Any, output: Any) -> None:
        if module is not model and isinstance(output, torch.Tensor) and not output.is_inference():
            given.append((module, output, output._version, _mean(output)))

    before = named()
    handles = [
        nn.modules.module.register_module_forward_pre_hook(noting),
        nn.modules.module.register_module_forward_hook(keeping),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        known = named() | before
        for module, count in calls:
            if id(module) in known or module._forward_hooks or module._forward_pre_hooks:
                name, _ = known.get(id(module), ("", module))
                name = name or f"<{type(module).__name__}>"
                called[name] += 1
                by_position[name] += count
        for module, output, version, mean in given:
            if id(module) in known:
                name = known[id(module)][0]
                written[name] += output._version - version
                returned.setdefault(name, []).append((mean, tuple(output.shape)))


@contextlib.contextmanager
def _record_callback_calls(model: Any) -> Iterator[dict[str, list[Any]]]:
    """Record the arguments of the user functions that modules store as attributes: another user of the model may pass
    another function."""
    found: dict[str, list[Any]] = {}
    originals = [
        (module, name, value)
        for module in (model.modules() if isinstance(model, nn.Module) else ())
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) and is_user_file(value.__code__.co_filename)
    ]

    def noting(name: str, function: FunctionType) -> Callable[..., Any]:
        @functools.wraps(function)
        def note(*args: Any, **kwargs: Any) -> Any:
            calls = found.setdefault(f"calls of {name}", [])
            if len(calls) < DRAINED:
                calls.append(pytree.tree_map(plain, [args, kwargs]))
            return function(*args, **kwargs)

        return note

    noted = [(module, name, value, noting(name, value)) for module, name, value in originals]
    for module, name, _, note in noted:
        setattr(module, name, note)
    try:
        yield found
    finally:
        for module, name, value, note in noted:
            if vars(module).get(name) is note:
                setattr(module, name, value)


def _mean(output: torch.Tensor) -> float:
    """Return the mean absolute value of a tensor of numbers on a device; NaN for any other value."""
    if output.layout != torch.strided or output.device.type == "meta" or output.is_quantized or not output.numel():
        return math.nan
    with torch.no_grad():
        return float(output.detach().abs().double().mean()) if output.dtype != torch.bool else math.nan


def _strides(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided or not leaf.numel():
        return None
    return [stride for stride, size in zip(leaf.stride(), leaf.shape, strict=True) if size > 1]


def _type_of(error: BaseException) -> str:
    """Return the type of an exception by a unique name: a user's class may have the name of one of Python's."""
    kind = type(error)
    known = kind.__module__.partition(".")[0] in ("builtins", "torch")
    return kind.__name__ if known else f"{kind.__module__}.{kind.__qualname__}"


class _Labelled(io.TextIOBase):
    """Writes whole lines to another stream, each after a label."""

    def __init__(self, text: io.StringIO, label: str) -> None:
        self._text, self._label, self._line = text, label, ""

    def write(self, text: str) -> int:
        *lines, self._line = (self._line + text).split("\n")
        self._text.writelines(f"{self._label}{line}\n" for line in lines)
        return len(text)

    def end(self) -> None:
        """Write the last line if it has no line break."""
        if self._line:
            self.write("\n")


def user_loggers() -> list[logging.Logger]:
    """Return the root logger and all existing loggers except torch's."""
    known = [each for each in logging.root.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    return [logging.root, *(each for each in known if each.name.partition(".")[0] != "torch")]


@contextlib.contextmanager
def heard() -> Iterator[tuple[io.StringIO, list[str]]]:
    """Capture what code other than torch's prints, logs and warns of, and torch's warnings from C++. Nothing of it is
    shown."""
    text = io.StringIO()
    own: list[str] = []
    errors = _Labelled(text, "on standard error: ")
    handler = logging.StreamHandler(text)
    handler.setFormatter(_WithExtra("%(levelname)s %(name)s %(message)s"))
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(text))
        stack.enter_context(contextlib.redirect_stderr(errors))
        warned = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        for logger in user_loggers():
            if logger is logging.root or not logger.propagate:
                logger.addHandler(handler)
                stack.callback(logger.removeHandler, handler)
        stack.enter_context(_below_the_level(text))
        yield text, own
    errors.end()
    for each in warned:
        line = f"{each.category.__name__}: {each.message}\n"
        if TRIGGERED in line:
            own.append(line)
        elif is_user_file(each.filename):
            text.write(line)


_OF_EVERY_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class _WithExtra(logging.Formatter):
    """Also writes the `extra` of a log call."""

    def format(self, record: logging.LogRecord) -> str:
        extra = {name: value for name, value in vars(record).items() if name not in _OF_EVERY_RECORD}
        return super().format(record) + (f" extra {extra}" if extra else "")


TRIGGERED = "(Triggered internally at "
"""A part of each warning from torch's C++ code. Such a warning may name any line of Python."""


def _said(named: Mapping[str, Any]) -> str:
    """Return the message of a call of a logger, given its local variables, with its arguments if they fit."""
    message, args = str(named.get("msg")), named.get("args")
    try:
        return message % args if args else message
    except Exception:  # whatever the arguments raise; a logger would print that
        return message


@contextlib.contextmanager
def _below_the_level(text: io.StringIO) -> Iterator[None]:
    """Record messages that are not logged because of a higher level of the logger: another user may set a lower one."""
    known = logging.Logger.isEnabledFor

    def noting(logger: logging.Logger, level: int) -> bool:
        is_enabled = known(logger, level)
        caller = sys._getframe(1)
        of_torch = logger.name.partition(".")[0] == "torch"  # it records compiled code
        if not is_enabled and not of_torch and caller.f_globals.get("__name__") == "logging":
            text.write(f"not logged: {level} {logger.name} {_said(caller.f_locals)}\n")
        return is_enabled

    logging.Logger.isEnabledFor = noting  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        logging.Logger.isEnabledFor = known  # type: ignore[method-assign]


def _gradients(
    model: Any, tensors: Sequence[torch.Tensor], output: Any, scale: float, *, second: bool = False
) -> dict[str, Any]:
    """Return the gradients of parameters and of the inputs that require them, and which gradients of outputs were
    written to; empty if nothing is to be trained. With `second`, also the gradients of the sum of their squares."""
    wanted = {f"parameter {n}": p for n, p in model.named_parameters()} if isinstance(model, nn.Module) else {}
    wanted |= {f"input {number}": tensor for number, tensor in enumerate(tensors) if tensor.is_leaf}
    wanted = {name: tensor for name, tensor in wanted.items() if tensor.requires_grad}
    for tensor in wanted.values():
        tensor.grad = None
    passed: list[tuple[int, torch.Tensor, torch.Tensor]] = []
    try:
        loss = with_terms_apart(loss_of(output))(output) * scale
        for number, each in enumerate(flatten(output)[0]):
            if isinstance(each, torch.Tensor) and each.grad_fn is not None:
                each.register_hook(lambda given, number=number: passed.append((number, given, given.clone())))
        if second:
            given = torch.autograd.grad(loss, [*wanted.values()], create_graph=True, allow_unused=True)
            squares = [(each**2).sum() for each in given if each is not None and each.requires_grad]
            torch.stack(squares).sum().backward() if squares else None
        else:
            loss.backward()
    except NotTrainedError:
        return {}
    if second:  # if a formula has no second gradient, another one of the same function may return zeros
        for tensor in wanted.values():
            tensor.grad = torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
    found = {name: None if t.grad is None else t.grad.detach().clone() for name, t in wanted.items()}
    for tensor in wanted.values():
        tensor.grad = None
    written = {number for number, given, before in passed if not torch.equal(given, before)}
    return found | {f"output {number}, which its backward writes to,": torch.ones(()) for number in written}


def state_of(model: Any) -> dict[str, Any]:
    """Return the state of a module and its submodules: buffers, attributes with their contents, the list of modules,
    which parameters train and which have a gradient."""
    if not isinstance(model, nn.Module):
        return {}
    found: dict[str, Any] = {}
    opened: set[int] = set()
    for name, module in model.named_modules():
        for key, value in list(vars(module).items()):
            if key not in _OF_EVERY_MODULE:
                found.update(contents(f"{name}.{key}".lstrip("."), value, DEPTH, opened))
        hooks = [len(getattr(module, kind)) for kind in HOOKS]
        if any(hooks):
            found[f"hooks of {name or 'the model'}"] = hooks
        if name:
            found[f"module {name}"] = f"<{type(module).__name__}>"
        for key in module._non_persistent_buffers_set:
            found[f"{name}.{key}".lstrip(".") + NOT_SAVED] = True
        for key, value in _saved_by_user_code(module):
            found.update(contents(f"{key} of {name or 'the model'}", value, DEPTH, opened))
    found["order of parameters"] = ", ".join(name for name, _ in model.named_parameters())
    found["order of saved buffers"] = ", ".join(_saved_buffers(model))
    found["order of modules"] = ", ".join(name for name, _ in model.named_modules())
    for name, parameter in model.named_parameters():
        found[f"parameter {name}, trained"] = parameter.requires_grad
        if parameter.grad is not None:
            found[f"gradient left on parameter {name}"] = copied(parameter.grad)
        for key, value in vars(parameter).items():
            if not key.startswith("_"):  # torch has its own there
                found.update(contents(f"parameter {name}.{key}", value, DEPTH, opened))
    return found | {name: copied(buffer) for name, buffer in model.named_buffers()}


def _saved_buffers(model: nn.Module) -> Iterator[str]:
    """Yield the names of buffers in the `state_dict`."""
    for prefix, module in model.named_modules():
        for key, _ in module.named_buffers(recurse=False):
            if key not in module._non_persistent_buffers_set:
                yield f"{prefix}.{key}".lstrip(".")


COPYING = ("__getstate__", "__setstate__", "__deepcopy__", "__copy__", "__reduce__", "__reduce_ex__")
"""Methods that decide what a copy of a module contains."""


def _saved_by_user_code(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield what user code stores of a module in its `state_dict`, and in a copy, apart from buffers and parameters."""

    def is_own(name: str) -> bool:
        function = getattr(type(module), name, None)
        return function is not getattr(nn.Module, name, None) and is_user_file(
            getattr(getattr(function, "__code__", None), "co_filename", "")
        )

    try:
        if is_own("get_extra_state"):
            yield "extra state", module.get_extra_state()
        if any(map(is_own, COPYING)):
            attributes = vars(copy.deepcopy(module))
            yield "copy", {key: value for key, value in attributes.items() if key not in _OF_EVERY_MODULE}
    except Exception as error:  # whatever the user's own code raises
        yield "copy", type(error).__name__


HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


_OF_EVERY_MODULE = frozenset(vars(nn.Module())) - {"training"}
SMALL = 1_000_000
"""The most parameter values of a model that are all compared; of a larger one, those that were written to are."""


def _versions(model: Any) -> dict[str, tuple[int, int, int | None]]:
    """Return for each parameter its identity, its number of writes and, in a large model, a checksum, because writes to
    `.data` are not counted."""
    known = dict(model.named_parameters()) if isinstance(model, nn.Module) else {}
    is_small = _is_small(known)
    return {name: _version(each, is_small) for name, each in known.items()}


def _is_small(parameters: Mapping[str, nn.Parameter]) -> bool:
    return bool(sum(each.numel() for each in parameters.values()) <= SMALL)


def _version(parameter: nn.Parameter, is_small: bool) -> tuple[int, int, int | None]:
    tensor = parameter.detach()
    has_bits = type(tensor) is torch.Tensor and tensor.layout == torch.strided and not tensor.is_meta
    return id(parameter), parameter._version, _checksum(tensor) if has_bits and not is_small else None


INTEGERS = MappingProxyType({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64})
"""For each size in bytes, the integer dtype of that size."""


def _checksum(tensor: torch.Tensor) -> int:
    """Return the sum of the bits of a tensor, read as integers. It changes if a call writes to one row of a large table.

    Read eight bytes at a time, 110 million float32 values take 0.17 s on two cores; converted one by one, 1.3 s.
    """
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    size, flat = tensor.element_size(), tensor.contiguous().view(-1)
    if flat.numel() * size % 8:
        return int(flat.view(INTEGERS[size]).sum(dtype=torch.int64))
    if flat.storage_offset() * size % 8:
        flat = flat.clone()
    return int(flat.view(torch.int64).sum())


def _containers(model: Any) -> dict[str, Any]:
    """Return the dicts, lists, sets and buffers that modules store: others may refer to them as well."""
    found: dict[str, Any] = {}
    for name, module in model.named_modules() if isinstance(model, nn.Module) else ():
        own = [(key, value) for key, value in vars(module).items() if not key.startswith("_")]
        values = [(key, value) for key, value in own if isinstance(value, (dict, list, set))]
        found |= {f"{name}.{key}".lstrip("."): value for key, value in (*values, *module._buffers.items())}
    return found


def _find_replaced(model: Any, originals: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether each of them is another object now."""
    now = _containers(model)
    return {name + REPLACED: now.get(name) is not originals[name] for name in originals}


def _find_attached(
    model: Any, outputs: Sequence[Any], inputs: Sequence[Any], error: BaseException | None
) -> dict[str, Any]:
    """Return attributes that user code added to outputs, inputs and buffers, or to an exception of its own."""
    buffers = model.named_buffers() if isinstance(model, nn.Module) else ()
    tensors = [
        *((f"output {number}", each) for number, each in enumerate(outputs)),
        *((f"input {number}", each) for number, each in enumerate(inputs)),
        *((f"buffer {name}", each) for name, each in buffers),
    ]
    found = {
        f"attribute {name} of {of}": plain(value)
        for of, each in tensors
        if isinstance(each, torch.Tensor)
        for name, value in vars(each).items()
        if not name.startswith("_dynamo")
    }
    if error is not None and type(error).__module__.partition(".")[0] not in ("builtins", "torch"):
        found |= {
            f"attribute {name} of the exception": plain(value)
            for name, value in vars(error).items()
            if not name.startswith("_")
        }
    return found


def _rewritten(model: Any, versions: Mapping[str, tuple[int, int, int | None]]) -> dict[str, Any]:
    """Return the parameters that a call has written to, or may have."""
    known = dict(model.named_parameters()) if isinstance(model, nn.Module) else {}
    is_small = _is_small(known)
    found: dict[str, Any] = {}
    for name, each in known.items():
        was, now = versions.get(name), _version(each, is_small)
        if is_small or was != now:
            found[f"parameter {name}"] = copied(each)
        if was is None or was[0] != now[0]:
            found[f"parameter {name}, another one"] = True
    return found


def _names(modules: Sequence[ModuleType]) -> dict[str, Any]:
    """Return the values of modules and of their classes, each by its full name."""
    known = {module.__name__ for module in modules}
    owners: list[tuple[str, Any]] = [(module.__name__, module) for module in modules]
    owners += [
        (f"{name}.{each.__qualname__}", each)
        for name, module in owners
        for each in list(vars(module).values())
        if isinstance(each, type) and each.__module__ == name
    ]
    return {
        f"{owner}.{name}": _now(value, known)
        for owner, holder in owners
        for name, value in list(vars(holder).items())
        if not name.startswith("__") and not isinstance(value, ModuleType) and value is not os.environ
    }


MANY = 1000
"""The most values of one name that are compared."""


def _now(value: Any, modules: Set[str]) -> list[tuple[Any, Any]]:
    """Return a value and its contents, each with its number of writes, to detect later changes."""
    found: list[tuple[Any, Any]] = []
    pending: list[tuple[Any, int]] = [(value, 0)]
    while pending and len(found) < MANY:
        each, depth = pending.pop()
        found.append((each, _mark(each)))
        if depth <= WATCHED and (depth or _is_watched(each, modules)):
            pending += [(part, depth + 1) for part in reversed(_parts(each))]
    return found


WATCHED = 3
"""The nesting depth of containers and objects that are opened."""


def _mark(value: Any) -> Any:
    """Return a value that changes if the argument is written to."""
    if isinstance(value, torch.Tensor):
        return 0 if value.is_inference() else value._version
    if type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
        return digest(value.tobytes())
    return stream(value)


def _is_watched(value: Any, modules: Set[str]) -> bool:
    """Return whether the contents of a value are watched: those of containers, modules, and definitions of these Python
    modules."""
    if isinstance(value, (*CONTAINERS, nn.Module)):
        return True
    return (value.__module__ if isinstance(value, FunctionType) else type(value).__module__) in modules


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [part for item in dict.items(value) for part in item]
    if isinstance(value, CONTAINERS):
        return list(value)
    if isinstance(value, nn.Module):
        return [*value.parameters(), *value.buffers()]
    pairs = vars(value).items() if isinstance(value, FunctionType) else inside(value)
    return [part for item in pairs for part in item]


def _find_changed_names(
    before: Mapping[str, list[tuple[Any, Any]]], after: Mapping[str, list[tuple[Any, Any]]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return how a call changed the names, and their new values. Only new values count: the rest has traces of earlier
    calls, of which there may be others."""
    found: dict[str, Any] = {}
    left: dict[str, Any] = {}
    for name in dict.fromkeys([*before, *after]):
        one, other = before.get(name, []), after.get(name, [])
        if len(one) != len(other):
            found[name] = f"{len(other) - len(one):+} in it"
            known = {id(x) for x, _ in one}
            left[name] = [plain(y) for y, _ in other if id(y) not in known]
            continue
        pairs = [(x, y) for (x, n), (y, m) in zip(one, other, strict=True) if not (n == m and _same(x, y))]
        if pairs:
            pairs = [pair for pair in pairs if not all(isinstance(each, CONTAINERS) for each in pair)] or pairs
            numbers = all(type(each) in (int, float) for pair in pairs for each in pair)
            found[name] = [y - x for x, y in pairs] if numbers else "changed"
            left |= {} if numbers else {name: [plain(y) for _, y in pairs]}
    return found, left


def _same(one: Any, other: Any) -> bool:
    return one is other or (is_plain(one) and is_plain(other) and one == other)
