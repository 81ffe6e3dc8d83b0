"""What one call did, as far as a caller can see it, and whether two did the same."""

from __future__ import annotations

import contextlib
import enum
import hashlib
import io
import logging
import os
import random
import re
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import torch
from tcready.dynamic.worker.frames import is_user_file
from tcready.dynamic.worker.loss import NotTrainedError, loss_of
from tcready.dynamic.worker.parity import compare, flatten
from tcready.schema import Differs, Mode
from torch import nn

SEED_CALL = 1
LONG = 400
"""Characters of a printed value that are kept."""


@dataclass(frozen=True)
class Behaviour:
    """One call. It can be pickled: what is no tensor and no plain value is kept as the name of its type."""

    error: str | None = None
    """The type of what it raised."""
    message: str = ""
    outputs: list[Any] = field(default_factory=list)
    structure: list[str] = field(default_factory=list)
    differentiable: list[bool] = field(default_factory=list)
    """Which outputs require grad."""
    gradients: dict[str, Any] = field(default_factory=dict)
    inputs: list[Any] = field(default_factory=list)
    """What was passed, as the call left it, with its structure."""
    state: dict[str, Any] = field(default_factory=dict)
    """Buffers and attributes of modules, whether they train, and the parameters that the call wrote to."""
    names: dict[str, Any] = field(default_factory=dict)
    """What became of the names of the Python modules that are watched, and of their classes."""
    printed: str = ""
    """On standard output and standard error, and what was logged and warned of."""
    random: str = ""
    strides: list[Any] = field(default_factory=list)
    """Of outputs that are strided tensors, without those of dimensions of length one."""

    @property
    def tells(self) -> bool:
        """Whether something in it could differ: an exception, or a value that is neither NaN nor infinite."""
        tensors = [each for each in self.outputs if isinstance(each, torch.Tensor)]
        if self.error is not None or not tensors:
            return True
        return any(bool(torch.isfinite(each).any()) for each in tensors if each.layout == torch.strided)


def behaviour(
    model: Any,
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    mode: Mode,
    watched: Sequence[ModuleType] = (),
    leaves: Sequence[torch.Tensor] = (),
) -> Behaviour:
    """One call of `function`, which is `model`, its compiled form or one of its functions; the arguments are its own.

    `watched` are modules whose names may be given other values by the call; `leaves` the tensors that the arguments
    are, or are computed from, whose gradients are looked at.
    """
    seeded()
    before = _names(watched)
    written = _versions(model)
    error: BaseException | None = None
    output: Any = None
    gradients: dict[str, Any] = {}
    with heard() as printed:
        try:
            with torch.set_grad_enabled(mode == "train"):
                output = function(*args, **kwargs)
            if mode == "train":
                gradients = _gradients(model, leaves, output)
        except Exception as raised:
            error = raised
    found, structure = flatten(output)
    passed, passed_structure = flatten((args, kwargs))
    return Behaviour(
        _type_of(error) if error is not None else None,
        " ".join(str(error).split())[:LONG] if error is not None else "",
        [_plain(leaf) for leaf in found],
        structure,
        [isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in found],
        gradients,
        [*map(_plain, passed), *passed_structure],
        state_of(model) | _rewritten(model, written),
        _moved(before, _names(watched)),
        printed.getvalue(),
        _drawn(),
        [*map(_strides, found)],
    )


def _strides(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided or not leaf.numel():
        return None
    return [stride for stride, size in zip(leaf.stride(), leaf.shape, strict=True) if size > 1]


def _type_of(error: BaseException) -> str:
    """Its type by a name that no other has: one of the user's own may be called as one of Python's is."""
    kind = type(error)
    known = kind.__module__.partition(".")[0] in ("builtins", "torch")
    return kind.__name__ if known else f"{kind.__module__}.{kind.__qualname__}"


def seeded() -> None:
    """The random numbers of torch, of Python, and of numpy, where that is loaded, begin anew."""
    torch.manual_seed(SEED_CALL)
    random.seed(SEED_CALL)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(SEED_CALL)


def _drawn() -> str:
    """How far they were drawn, in a few letters."""
    state = [torch.get_rng_state().tolist(), random.getstate()]
    if numpy := sys.modules.get("numpy"):
        _, keys, *place = numpy.random.get_state()
        state.append((keys.tolist(), place))
    return hashlib.sha256(repr(state).encode()).hexdigest()


@contextlib.contextmanager
def heard() -> Iterator[io.StringIO]:
    """What is printed, logged and warned of; nothing of it goes anywhere else."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
    loggers = [each for each in logging.root.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    loggers = [
        logging.root,
        *(each for each in loggers if not each.propagate and not each.name.startswith("torch")),
    ]
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(text))
        stack.enter_context(contextlib.redirect_stderr(text))
        warned = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        for logger in loggers:
            logger.addHandler(handler)
            stack.callback(logger.removeHandler, handler)
        stack.enter_context(_below_the_level(text))
        yield text
    for each in warned:
        if is_user_file(each.filename):
            text.write(f"{each.category.__name__}: {each.message}\n")


@contextlib.contextmanager
def _below_the_level(text: io.StringIO) -> Iterator[None]:
    """Notes what is not logged as its logger is set to a higher level: another user may set a lower one."""
    known = logging.Logger.isEnabledFor

    def noting(logger: logging.Logger, level: int) -> bool:
        is_enabled = known(logger, level)
        caller = sys._getframe(1)
        if not is_enabled and caller.f_globals.get("__name__") == "logging":
            text.write(f"not logged: {level} {logger.name} {caller.f_locals.get('msg')!s}\n")
        return is_enabled

    logging.Logger.isEnabledFor = noting  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        logging.Logger.isEnabledFor = known  # type: ignore[method-assign]


def _gradients(model: Any, tensors: Sequence[torch.Tensor], output: Any) -> dict[str, Any]:
    """The gradients of parameters and of the inputs that require them; none where nothing is to be trained."""
    wanted = (
        {f"parameter {n}": p for n, p in model.named_parameters()} if isinstance(model, nn.Module) else {}
    )
    wanted |= {f"input {number}": tensor for number, tensor in enumerate(tensors) if tensor.is_leaf}
    wanted = {name: tensor for name, tensor in wanted.items() if tensor.requires_grad}
    for tensor in wanted.values():
        tensor.grad = None
    try:
        loss_of(output)(output).backward()
    except NotTrainedError:
        return {}
    found = {name: None if t.grad is None else t.grad.detach().clone() for name, t in wanted.items()}
    for tensor in wanted.values():
        tensor.grad = None
    return found


def state_of(model: Any) -> dict[str, Any]:
    """What a module and those in it hold: buffers, and attributes with what is in them."""
    if not isinstance(model, nn.Module):
        return {}
    found: dict[str, Any] = {}
    opened: set[int] = set()
    for name, module in model.named_modules():
        for key, value in list(vars(module).items()):
            if key not in _OF_EVERY_MODULE:
                found.update(_contents(f"{name}.{key}".lstrip("."), value, DEPTH, opened))
        hooks = [len(getattr(module, kind)) for kind in HOOKS]
        if any(hooks):
            found[f"{name}'s hooks".lstrip("'")] = hooks
    return found | {name: _copied(buffer) for name, buffer in model.named_buffers()}


HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


_OF_EVERY_MODULE = frozenset(vars(nn.Module())) - {"training"}
SMALL = 1_000_000
"""Numbers in the parameters of a model that are all compared; of a larger one those that were written to."""


def _versions(model: Any) -> dict[str, int]:
    """How often each parameter was written to; -1 where all are to be compared."""
    if not isinstance(model, nn.Module):
        return {}
    known = dict(model.named_parameters())
    if sum(each.numel() for each in known.values()) <= SMALL:
        return dict.fromkeys(known, -1)
    return {name: each._version for name, each in known.items()}


def _rewritten(model: Any, versions: Mapping[str, int]) -> dict[str, Any]:
    """The parameters that a call has written to, or may have."""
    known = dict(model.named_parameters()) if versions else {}
    return {
        f"parameter {name}": _copied(each)
        for name, each in known.items()
        if each._version != versions.get(name)
    }


def _contents(name: str, value: Any, depth: int, opened: set[int]) -> Iterator[tuple[str, Any]]:
    """A value and what is in it, each by its name; what was `opened` before is not opened again."""
    if isinstance(value, torch.Tensor) or _is_plain(value, DEPTH):
        yield name, _plain(value)
        return
    kind = f"<{type(value).__name__}>"
    if isinstance(value, (set, frozenset)):
        yield name, f"{kind} {sorted(map(repr, value)) if _is_plain(value) else len(value)}"
        return
    items: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        items = [
            (f"[{key!r}]" if _is_plain(key) else f"[{n}]", v) for n, (key, v) in enumerate(value.items())
        ]
        kind += f" of {len(items)}"
    elif isinstance(value, (list, tuple, deque)):
        items = [(f"[{number}]", item) for number, item in enumerate(value)]
        kind += f" of {len(items)}"
    elif not isinstance(value, (nn.Module, type, ModuleType)) and not callable(value):
        items = [(f".{key}", item) for key, item in getattr(value, "__dict__", {}).items()]
    yield name, kind
    if depth and id(value) not in opened:
        opened.add(id(value))
        for key, item in items:
            yield from _contents(name + key, item, depth - 1, opened)


DEPTH = 3
"""Containers and objects in each other that are opened."""


def _names(modules: Sequence[ModuleType]) -> dict[str, Any]:
    """The values of modules and of their classes, each by its full name, as far as a call may give them another one."""
    known = {module.__name__ for module in modules}
    owners: list[tuple[str, Any]] = [(module.__name__, module) for module in modules]
    owners += [
        (f"{name}.{each.__qualname__}", each)
        for name, module in owners
        for each in list(vars(module).values())
        if isinstance(each, type) and each.__module__ == name
    ]
    return {
        f"{owner}.{name}": _now(value)
        for owner, holder in owners
        for name, value in list(vars(holder).items())
        if not name.startswith("__")
        and (isinstance(value, (torch.Tensor, *_CONTAINERS)) or _is_plain(value) or _is_own(value, known))
        and value is not os.environ
    }


def _is_own(value: Any, modules: Set[str]) -> bool:
    """Whether it is an object, no module and no function, of a class that one of these modules defines."""
    return (
        type(value).__module__ in modules and not isinstance(value, (type, nn.Module)) and not callable(value)
    )


_CONTAINERS = (list, tuple, dict, set, deque)


MANY = 1000
"""Values of one name that are compared."""


def _now(value: Any) -> list[tuple[Any, int]]:
    """A value and what is in it, each with how often it was written to, to be told from later ones."""
    found: list[tuple[Any, int]] = []
    pending: list[tuple[Any, int]] = [(value, 0)]
    while pending and len(found) < MANY:
        each, depth = pending.pop()
        is_written_to = isinstance(each, torch.Tensor) and not each.is_inference()
        found.append((each, each._version if is_written_to else 0))
        inside: list[Any] = []
        if isinstance(each, dict):
            inside = [part for item in each.items() for part in item]
        elif isinstance(each, _CONTAINERS):
            inside = list(each)
        elif not isinstance(each, (torch.Tensor, nn.Module, type, ModuleType)) and not callable(each):
            inside = [part for item in getattr(each, "__dict__", {}).items() for part in item]
        if depth <= DEPTH:
            pending += [(part, depth + 1) for part in reversed(inside)]
    return found


def _moved(
    before: Mapping[str, list[tuple[Any, int]]], after: Mapping[str, list[tuple[Any, int]]]
) -> dict[str, Any]:
    """What a call did to them: earlier calls, of which there may be others, leave their traces in the values."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys([*before, *after]):
        one, other = before.get(name, []), after.get(name, [])
        if len(one) != len(other):
            found[name] = f"{len(other) - len(one):+} in it"
            continue
        pairs = [(x, y) for (x, n), (y, m) in zip(one, other, strict=True) if not (n == m and _same(x, y))]
        if pairs:
            pairs = [
                pair for pair in pairs if not all(isinstance(each, _CONTAINERS) for each in pair)
            ] or pairs
            numbers = all(type(each) in (int, float) for pair in pairs for each in pair)
            found[name] = [y - x for x, y in pairs] if numbers else "changed"
    return found


def _same(one: Any, other: Any) -> bool:
    return one is other or (_is_plain(one) and _is_plain(other) and one == other)


def _is_plain(value: Any, depth: int = 0) -> bool:
    if isinstance(value, (list, tuple, set, frozenset)):
        return depth < 3 and all(_is_plain(item, depth + 1) for item in value)
    if isinstance(value, dict):
        return depth < 3 and all(_is_plain(each, depth + 1) for item in value.items() for each in item)
    return value is None or isinstance(value, (bool, int, float, str))


def _plain(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return _copied(leaf)
    if leaf is None or isinstance(leaf, (bool, int, float, str)):
        return leaf
    kind = f"<{type(leaf).__name__}>"
    if type(leaf).__module__ == "numpy":
        with contextlib.suppress(TypeError, ValueError, RuntimeError):
            return [kind, torch.as_tensor(leaf).clone()]
    return f"{kind} {leaf!r}" if isinstance(leaf, _WRITTEN) else kind


_WRITTEN = (torch.dtype, torch.device, torch.layout, torch.Size, complex, bytes, range, slice, enum.Enum)
"""Types whose values are told by how they are written."""


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach()
    return plain.clone() if type(plain) in (torch.Tensor, nn.Parameter) else torch.as_tensor(0)


PRINTED = "what is printed"


def restless(one: Behaviour, other: Behaviour) -> frozenset[str]:
    """The state that differs between two calls of one thing: the time of day. Of what is printed only numbers may."""
    names = one.state.keys() & other.state.keys()
    found = {name for name in names if _moves(one.state[name], other.state[name])}
    found |= {
        name
        for name in one.names.keys() & other.names.keys()
        if _is_clock(one.names[name], other.names[name])
    }
    if one.printed != other.printed and _without_numbers(one.printed) == _without_numbers(other.printed):
        found.add(PRINTED)
    return frozenset(found)


def _is_clock(one: Any, other: Any) -> bool:
    """Whether numbers moved by amounts that are not whole and not the same."""
    moved = [isinstance(each, list) and all(isinstance(x, float) for x in each) for each in (one, other)]
    return all(moved) and one != other


def is_as_before(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether the state of a module is what it was."""
    return one.keys() == other.keys() and not any(_moves(one[name], other[name]) for name in one)


def _moves(one: Any, other: Any) -> bool:
    """Whether two calls leave other values. A number is the same to the last digit: a clock has moved by little."""
    numbers = isinstance(one, float) and isinstance(other, float)
    return one != other if numbers else bool(compare(one, other).difference)


def _without_numbers(text: str) -> str:
    return re.sub(r"[\d.:]+(e[+-]?\d+)?", "0", text)


def same_digits(one: Behaviour, other: Behaviour) -> bool:
    """Whether outputs and gradients are the same to the last digit; what is no tensor is not asked."""
    pairs = [*zip(one.outputs, other.outputs, strict=False)]
    pairs += [(value, other.gradients.get(name)) for name, value in one.gradients.items()]
    return all(
        isinstance(y, torch.Tensor)
        and x.shape == y.shape
        and bool(torch.equal(torch.nan_to_num(x), torch.nan_to_num(y)))
        for x, y in pairs
        if isinstance(x, torch.Tensor) and x.layout == torch.strided
    )


def difference(
    before: Behaviour, after: Behaviour, ignored: frozenset[str] = frozenset()
) -> tuple[Differs, str] | None:
    """What differs first, and how, in one line; None if a caller sees no difference. What is `ignored` is `restless`."""
    if before.error != after.error:
        return "exception", f"{_ending(before)} became {_ending(after)}"
    if before.structure != after.structure:
        return "value", "the output has another structure"
    if found := _of(before.outputs, after.outputs):
        return "value", found
    if before.strides != after.strides:
        return "value", "an output lies in memory in another order: its strides differ"
    if before.differentiable != after.differentiable:
        return "gradient", "an output requires grad in one of them alone"
    if found := _named(before.gradients, after.gradients, "gradient of "):
        return "gradient", found
    if found := _of(before.inputs, after.inputs):
        return "state", f"what was passed is left otherwise: {found}"
    if found := _state(before, after, ignored) or _moved_names(before, after, ignored):
        return "state", found
    spelled = _without_numbers if PRINTED in ignored else str
    if spelled(before.printed) != spelled(after.printed):
        return "state", "another text is printed"
    if before.random != after.random:
        return "state", "other random numbers are drawn"
    return None


def compiled_difference(
    eager: Behaviour, compiled: Behaviour, ignored: frozenset[str] = frozenset()
) -> str | None:
    """The same for compiled code, which may raise another exception, print otherwise and draw otherwise."""
    if (eager.error is None) != (compiled.error is None):
        return f"{_ending(eager)} became {_ending(compiled)}"
    if eager.error is not None:
        return None
    if eager.structure != compiled.structure:
        return "the output has another structure"
    return (
        _of(eager.outputs, compiled.outputs)
        or _named(eager.gradients, compiled.gradients, "gradient of ")
        or _of(eager.inputs, compiled.inputs)
        or _state(eager, compiled, ignored)
        or _moved_names(_counters(eager), _counters(compiled), ignored)
    )


def _counters(seen: Behaviour) -> Behaviour:
    """The numbers that a call moved, alone: what is kept at a first call is there when the compiled one is made."""
    return replace(seen, names={name: value for name, value in seen.names.items() if isinstance(value, list)})


def _moved_names(before: Behaviour, after: Behaviour, ignored: frozenset[str]) -> str | None:
    one, other = ({k: v for k, v in each.names.items() if k not in ignored} for each in (before, after))
    return _named(one, other, "by the call ")


def _state(before: Behaviour, after: Behaviour, ignored: frozenset[str]) -> str | None:
    one, other = ({k: v for k, v in each.state.items() if k not in ignored} for each in (before, after))
    return _named(one, other, "after the call ")


def _ending(seen: Behaviour) -> str:
    return "no exception" if seen.error is None else f"{seen.error}: {seen.message}"[: LONG // 2]


def _of(before: list[Any], after: list[Any]) -> str | None:
    return compare(before, after).difference


def _named(before: Mapping[str, Any], after: Mapping[str, Any], what: str) -> str | None:
    for name in dict.fromkeys([*before, *after]):
        if name not in before or name not in after:
            return f"{what}{name} is there in one of them alone"
        one, other = _as_tensor(before[name], after[name])
        if found := compare(one, other).difference:
            return f"{what}{name}: {found.removeprefix('output 0: ')}"
    return None


def _as_tensor(one: Any, other: Any) -> tuple[Any, Any]:
    """A number beside a tensor of no dimension is one: a counter may be kept in a buffer."""
    if isinstance(one, (int, float)) and isinstance(other, torch.Tensor) and other.dim() == 0:
        return torch.as_tensor(one, dtype=other.dtype, device=other.device), other
    return one, other
