"""Looks for a call that shows that two versions of a model file differ, and shares no code with what tcready proves.

A scenario is a way to build and call the model: a few calls in one mode, with inputs of one kind. What a caller sees of
each call is written down as plain values, of one version after the other.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import inspect
import io
import logging
import math
import multiprocessing
import random
import re
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import torch
import torch._dynamo  # some operators import it: here, once for all searches
from torch import nn

SECONDS = 20
"""Seconds that one search may take."""
DIGITS = 1e-4
"""The difference of two results, relative to the largest value, up to which it counts as rounding."""
COARSE = 0.1
"""The same for types of 16 bits."""
Change = Callable[[Any], Any]


@dataclass(frozen=True)
class Scenario:
    name: str
    inputs: Change = lambda value: value
    """Changes each leaf of the inputs."""
    model: Callable[[Any], None] = lambda model: None
    """Changes the model once it is built."""
    calls: int = 1
    training: bool = False
    gradients: bool = False
    seed: int = 0
    around: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    by_chance: bool = False
    """Whether the code may take such inputs by chance only: then exceptions say nothing."""
    values: bool = True
    """Whether values are compared, and not types and sizes alone."""


# inputs


def mapped(change: Change, value: Any) -> Any:
    if isinstance(value, list):
        return [mapped(change, each) for each in value]
    if type(value) is tuple:
        return tuple(mapped(change, each) for each in value)
    if type(value) is dict:
        return {key: mapped(change, each) for key, each in value.items()}
    return change(value)


def _floats(change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    return lambda leaf: change(leaf) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf


def _integers(change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    types = (torch.int64, torch.int32)
    return lambda leaf: change(leaf) if isinstance(leaf, torch.Tensor) and leaf.dtype in types else leaf


def _masks(change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    return lambda leaf: change(leaf) if isinstance(leaf, torch.Tensor) and leaf.dtype == torch.bool else leaf


def _numbers(change: Change) -> Change:
    return lambda leaf: change(leaf) if type(leaf) in (int, float, bool) else leaf


def _tensors(change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    return lambda leaf: change(leaf) if isinstance(leaf, torch.Tensor) else leaf


def _with(number: float, places: str) -> Callable[[torch.Tensor], torch.Tensor]:
    def change(tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.clone()
        flat = tensor.view(-1) if tensor.is_contiguous() else tensor.reshape(-1)
        if flat.numel():
            if places == "first":
                flat[0] = number
            elif places == "last":
                flat[-1] = number
            elif places == "all":
                flat[:] = number
            else:
                flat[torch.rand(flat.shape) < 0.3] = number
        return tensor

    return change


def _resized(length: int, other: int) -> Change:
    """Gives every dimension of a length another one."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        for dim, size in enumerate(tensor.shape):
            if size == length and size:
                repeats = math.ceil(other / length)
                tensor = torch.cat([tensor] * max(repeats, 1), dim).narrow(dim, 0, other)
        return tensor.clone()

    return _tensors(change)


def _resized_dim(dim: int, other: int) -> Change:
    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() <= dim or not tensor.shape[dim]:
            return tensor
        repeats = math.ceil(other / tensor.shape[dim])
        return torch.cat([tensor] * max(repeats, 1), dim).narrow(dim, 0, other).clone()

    return _tensors(change)


def _turned(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.transpose(0, -1).contiguous().transpose(0, -1) if tensor.dim() > 1 else tensor


# models


def _modules(model: Any) -> Iterator[nn.Module]:
    if isinstance(model, nn.Module):
        yield from model.modules()


def _attributes(change: Change) -> Callable[[Any], None]:
    """Changes the numbers and flags that modules of the file keep."""

    def carry_out(model: Any) -> None:
        for module in _modules(model):
            if type(module).__module__ != "model":
                continue
            for name, value in list(module.__dict__.items()):
                if name != "training" and not name.startswith("_") and type(value) in (int, float, bool):
                    module.__dict__[name] = change(value)

    return carry_out


def _other_weights(model: Any) -> None:
    with torch.no_grad():
        for module in _modules(model):
            for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
                if tensor.is_floating_point():
                    tensor.add_(0.5 * torch.randn(tensor.shape).to(tensor.dtype))


def _converted(*names: str) -> Callable[[Any], None]:
    def carry_out(model: Any) -> None:
        if isinstance(model, nn.Module):
            for name in names:
                getattr(model, name)()

    return carry_out


def _to_meta(model: Any) -> None:
    if isinstance(model, nn.Module):
        model.to("meta")


def _submodules_turned(model: Any) -> None:
    for module in _modules(model):
        if module is not model:
            module.train(not module.training)


def scenarios(numbers: Iterable[float], lengths: Iterable[int]) -> Iterator[Scenario]:
    """All scenarios; `numbers` stand in the code, `lengths` are those of the inputs as given."""
    yield Scenario("given")
    yield Scenario("other values", seed=1)
    yield Scenario("three calls", calls=3)
    yield Scenario("training, two calls with gradients", training=True, gradients=True, calls=2)
    yield Scenario("eval with gradients", gradients=True)
    yield Scenario("training without gradients", training=True, calls=2)
    yield Scenario("other weights", model=_other_weights)
    yield Scenario("other weights, gradients", model=_other_weights, gradients=True, training=True)
    for scale in (1e-8, 1e-3, -1.0, 30.0, 1e4):
        yield Scenario(f"floats times {scale:g}", _floats(lambda t, by=scale: t * by))
    yield Scenario("floats times 10, gradients", _floats(lambda t: t * 10), gradients=True)
    yield Scenario("floats plus 5", _floats(lambda t: t + 5))
    for number in (0.0, 1.0, math.nan, math.inf, -math.inf):
        for places in ("first", "last", "all", "some"):
            yield Scenario(f"{places} {number}", _floats(_with(number, places)))
    yield Scenario("zeros, gradients", _floats(torch.zeros_like), gradients=True)
    for whole in (0, 1, 2, -1, -100, 1000):
        for places in ("first", "all"):
            yield Scenario(f"integers: {places} {whole}", _integers(_with(whole, places)))
    yield Scenario("integers in another order", _integers(lambda t: t.flip(0) if t.dim() else t))
    for flag in (True, False):
        yield Scenario(f"masks all {flag}", _masks(lambda t, to=flag: torch.full_like(t, to)))
    yield Scenario("masks turned", _masks(lambda t: ~t))
    yield Scenario("one place masked", _masks(lambda t: _with(1, "last")(torch.zeros_like(t))))
    for number in numbers:
        for by in (-1, 0, 1):
            near = number + by * max(abs(number) * 1e-3, 1e-9)
            yield Scenario(f"floats all {near:g}", _floats(_with(near, "all")))
            yield Scenario(f"floats last {near:g}", _floats(_with(near, "last")))
            if number == int(number) and abs(number) < 2**31:
                yield Scenario(f"integers all {number + by:g}", _integers(_with(int(number) + by, "all")))
                yield Scenario(f"integers last {number + by:g}", _integers(_with(int(number) + by, "last")))
                yield Scenario(f"numbers {number + by:g}", _numbers(lambda _, to=int(number) + by: to), by_chance=True)
                if 1 < number + by < 2000:
                    for dim in range(3):
                        yield Scenario(
                            f"dim {dim} is {number + by:g} long", _resized_dim(dim, int(number) + by), by_chance=True
                        )
    for length in lengths:
        for other in (1, 2, 3, 5, length - 1, length + 1, 2 * length):
            if other > 0 and other != length:
                yield Scenario(f"{other} where {length} was", _resized(length, other))
    for dim in range(4):
        for other in (1, 3, 7, 40):
            yield Scenario(f"dim {dim} is {other} long", _resized_dim(dim, other))
    yield Scenario("numbers plus one", _numbers(lambda n: not n if type(n) is bool else n + 1))
    yield Scenario("numbers zero", _numbers(lambda n: type(n)(0)))
    yield Scenario("numbers negative", _numbers(lambda n: n if type(n) is bool else -n - 1))
    yield Scenario("flags turned", _numbers(lambda n: not n if type(n) is bool else n))
    yield Scenario("attributes plus one", model=_attributes(lambda n: n if type(n) is bool else n + 1), by_chance=True)
    yield Scenario(
        "attributes times 1.5", model=_attributes(lambda n: n * 1.5 if type(n) is float else n), by_chance=True
    )
    yield Scenario("attributes of 10000", model=_attributes(lambda n: 10_000 if type(n) is int else n), by_chance=True)
    yield Scenario("attributes turned", model=_attributes(lambda n: not n if type(n) is bool else n), by_chance=True)
    yield Scenario("modules inside in the other mode", model=_submodules_turned, calls=2)
    yield Scenario("other strides", _tensors(_turned))
    yield Scenario("float64", _floats(torch.Tensor.double), _converted("double"))
    yield Scenario("bfloat16", _floats(torch.Tensor.bfloat16), _converted("bfloat16"))
    yield Scenario("autocast", around=lambda: torch.autocast("cpu", torch.bfloat16))
    yield Scenario("one dimension more", _tensors(lambda t: t.unsqueeze(0)), by_chance=True)
    yield Scenario("one dimension less", _tensors(lambda t: t[0] if t.dim() and len(t) else t), by_chance=True)
    yield Scenario("meta", _tensors(lambda t: t.to("meta")), _to_meta, values=False)


# what a caller sees


def shown(value: Any, depth: int = 0) -> Any:
    """A value as plain data, the types of containers included."""
    if isinstance(value, torch.Tensor):
        data = value.detach().clone() if value.device.type == "cpu" and value.layout == torch.strided else None
        kind = "Parameter" if isinstance(value, nn.Parameter) else "Tensor"
        return (kind, str(value.dtype), tuple(value.shape), str(value.device), value.requires_grad, data)
    if depth > 6:
        return ("...",)
    if isinstance(value, dict):
        return (type(value).__name__, [(str(key), shown(each, depth + 1)) for key, each in value.items()])
    if isinstance(value, list | tuple):
        return (type(value).__name__, [shown(each, depth + 1) for each in value])
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, int | float | complex | bool | bytes | type(None)):
        return (type(value).__name__, value)
    if isinstance(value, set | frozenset):
        return (type(value).__name__, sorted(map(repr, value)))
    if hasattr(value, "__dict__") and not isinstance(value, type | ModuleType | nn.Module) and not callable(value):
        return (type(value).__name__, [(key, shown(each, depth + 1)) for key, each in vars(value).items()])
    return (type(value).__name__,)


def plain(text: str) -> str:
    """A text without addresses, and with four digits of each number."""
    text = re.sub(r"0x[0-9a-f]+", "0x", text)
    text = re.sub(r"(File \"|/)[^\s\"]*model\.py", "model.py", text)
    text = re.sub(r"line \d+|model\.py:\d+", "line", text)
    return re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda number: f"{float(number[0]):.3g}", text)


def differs(one: Any, other: Any, *, values: bool = True) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return values and not same_values(one, other)
    if isinstance(one, float) and isinstance(other, float) and values:
        return not same_values(torch.tensor(one), torch.tensor(other))
    if type(one) is not type(other):
        return True
    if isinstance(one, list | tuple):
        if len(one) != len(other):
            return True
        return any(differs(a, b, values=values) for a, b in zip(one, other, strict=True))
    return bool(one != other) if values or not isinstance(one, int | float) else False


def same_values(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not (one.is_floating_point() or one.is_complex()):
        return bool(torch.equal(one, other))
    digits = COARSE if one.dtype in (torch.bfloat16, torch.float16) else DIGITS
    a, b = (each.to(torch.complex128 if each.is_complex() else torch.float64).reshape(-1) for each in (one, other))
    odd = ~torch.isfinite(a) | ~torch.isfinite(b)
    if not torch.equal(torch.nan_to_num(a[odd].abs(), 7.0), torch.nan_to_num(b[odd].abs(), 7.0)):
        return False
    a, b = a[~odd], b[~odd]
    if not a.numel():
        return True
    return bool(((a - b).abs() <= digits * float(a.abs().max())).all())


def memory_of(named: Mapping[str, Any]) -> dict[str, int]:
    """Where the tensors of these values lie."""
    found: dict[str, int] = {}

    def walk(name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            if value.device.type == "cpu" and value.layout == torch.strided and value.numel():
                found[name] = value.untyped_storage().data_ptr()
        elif isinstance(value, dict):
            for key, each in value.items():
                walk(f"{name}[{key}]", each)
        elif isinstance(value, list | tuple):
            for at, each in enumerate(value):
                walk(f"{name}[{at}]", each)

    for name, value in named.items():
        walk(name, value)
    return found


def shared(results: Any, others: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Which results lie in the same memory as something else."""
    places = memory_of({"result": results})
    known = {**memory_of(others), **places}
    return [(a, b) for a, at in places.items() for b, there in known.items() if a != b and at == there]


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.seen: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(Exception):
            self.seen.append((record.levelname, plain(record.getMessage())))


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["model"] = module
    spec.loader.exec_module(module)
    return module


def _seeded(seed: int) -> None:
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    with contextlib.suppress(ImportError):
        import numpy as np

        np.random.seed(seed)


def _built(module: ModuleType) -> Any:
    _seeded(0)
    if not hasattr(module, "Model"):
        return module.model
    given = module.get_init_inputs() if hasattr(module, "get_init_inputs") else ()
    if isinstance(given, dict):
        return module.Model(**given)
    return module.Model(*given)


def arguments(module: ModuleType, seed: int) -> tuple[Any, Any]:
    _seeded(seed + 100)
    given = module.get_inputs()
    if isinstance(given, dict):
        return [], given
    if (
        isinstance(given, tuple)
        and len(given) == 2
        and isinstance(given[0], list | tuple)
        and isinstance(given[1], dict)
    ):
        return list(given[0]), given[1]
    return list(given) if isinstance(given, list | tuple) else [given], {}


def _public(model: Any) -> Any:
    if not isinstance(model, nn.Module):
        return None
    found = []
    for name, module in model.named_modules():
        for key, value in module.__dict__.items():
            if not key.startswith("_"):
                found.append((f"{name}.{key}", shown(value)))
    return sorted(found, key=lambda each: each[0])


def _gradients(model: Any, results: Any, leaves: list[torch.Tensor]) -> Any:
    total = [each.float().sum() for each in _tensors_in(results) if each.requires_grad and not each.is_complex()]
    if total:
        sum(total).backward()
    named = dict(model.named_parameters()) if isinstance(model, nn.Module) else {}
    return [
        *(("input", None if leaf.grad is None else shown(leaf.grad)) for leaf in leaves),
        *((name, None if each.grad is None else shown(each.grad)) for name, each in named.items()),
    ]


def _tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors_in(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors_in(each)


def observe(module: ModuleType, scenario: Scenario) -> list[tuple[str, Any]]:
    """What a caller sees of a scenario, part by part. A part `error` comes last, if there is one."""
    parts: list[tuple[str, Any]] = []
    out, err, records = io.StringIO(), io.StringIO(), _Records()
    root = logging.getLogger()
    level = root.level
    root.addHandler(records)
    root.setLevel(logging.DEBUG)
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            warnings.catch_warnings(record=True) as warned,
        ):
            warnings.simplefilter("always")
            try:
                model = _built(module)
                if isinstance(model, nn.Module):
                    model.train(scenario.training)
                    state = model.state_dict()
                    parts.append(("keys of the state", list(state)))
                    parts.append(("parameters", [(n, p.requires_grad) for n, p in model.named_parameters()]))
                _seeded(7)
                scenario.model(model)
                for call in range(scenario.calls):
                    args, kwargs = arguments(module, scenario.seed + call)
                    _seeded(5)
                    args, kwargs = mapped(scenario.inputs, args), mapped(scenario.inputs, kwargs)
                    leaves = [each for each in _tensors_in([args, kwargs]) if each.is_floating_point()]
                    if scenario.gradients:
                        for leaf in leaves:
                            leaf.requires_grad_()
                    _seeded(3)
                    with scenario.around(), torch.set_grad_enabled(scenario.gradients):
                        results = model(*args, **kwargs)
                    if inspect.isgenerator(results):
                        results = list(results)
                    parts.append((f"result of call {call}", shown(results)))
                    others = {"inputs": [args, kwargs]}
                    if isinstance(model, nn.Module):
                        others["state"] = dict(model.state_dict(keep_vars=True))
                    parts.append(("shared memory", shared(results, others)))
                    parts.append(("inputs after a call", shown([args, kwargs])))
                    parts.append(("random numbers", torch.get_rng_state()))
                    if scenario.gradients:
                        parts.append(("gradients", _gradients(model, results, leaves)))
                if isinstance(model, nn.Module):
                    parts.append(("state", shown(dict(model.state_dict()))))
                    parts.append(("attributes", _public(model)))
            except Exception as error:
                last = traceback.extract_tb(error.__traceback__)[-1]
                own = last.filename == module.__file__ and re.match(r"raise|assert", last.line or "") is not None
                parts.append(("error", (type(error).__name__, plain(str(error)) if own else "", own)))
    finally:
        root.removeHandler(records)
        root.setLevel(level)
    texts = [
        ("printed", plain(out.getvalue())),
        ("printed to stderr", plain(err.getvalue())),
        ("logged", records.seen),
        (
            "warned",
            [(each.category.__name__, plain(str(each.message))) for each in warned if "torch/" not in each.filename],
        ),
    ]
    return [*texts, *parts]


def _difference(scenario: Scenario, one: list[tuple[str, Any]], other: list[tuple[str, Any]]) -> str | None:
    errors = [dict(parts).get("error") for parts in (one, other)]
    if errors[0] is not None and not errors[0][2]:
        return None  # the code does not take such inputs
    if errors[0] != errors[1]:
        return None if scenario.by_chance else f"{errors[0]} became {errors[1]}"
    for (name, a), (_, b) in zip(one, other, strict=False):
        if differs(a, b, values=scenario.values):
            return f"{name} differs: {brief(a)} became {brief(b)}"
    return None


def brief(value: Any) -> str:
    return re.sub(r"\s+", " ", repr(value))[:150]


def lengths_of(module: ModuleType) -> list[int]:
    args, kwargs = arguments(module, 0)
    return sorted({size for each in _tensors_in([args, kwargs]) for size in each.shape if size})


def numbers_of(texts: Iterable[str]) -> list[float]:
    found = [float(each) for text in texts for each in re.findall(r"(?<![\w.])\d+\.?\d*(?:e-?\d+)?", text)]
    return list(dict.fromkeys(each for each in found if math.isfinite(each)))[:8]


@contextlib.contextmanager
def lines_run(path: Path) -> Iterator[set[int]]:
    """Collects the lines of a file that run."""
    found: set[int] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != str(path):
            return None
        found.add(frame.f_lineno)
        return trace

    usual = sys.gettrace()
    sys.settrace(trace)
    try:
        yield found
    finally:
        sys.settrace(usual)


def lines_changed(before: str, after: str) -> set[int]:
    """The lines of `after` that hold code and are not in `before`."""
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    changed = {
        line + 1 for kind, _, _, first, last in matcher.get_opcodes() if kind != "equal" for line in range(first, last)
    }
    with_code: set[int] = set()
    pending = [compile(after, "model.py", "exec")]
    while pending:
        code = pending.pop()
        with_code |= {line for _, _, line in code.co_lines() if line}
        pending += [each for each in code.co_consts if isinstance(each, CodeType)]
    return changed & with_code


def find_witness(
    before: str, after: str, *, agreeing_when_given: bool = False, all_lines_run: bool = False
) -> str | None:
    """The first scenario in which two versions of a file differ, and by what; None if none does.

    Args:
        before, after: The text of each file.
        agreeing_when_given: Whether versions that differ with the inputs as given count as not comparable.
        all_lines_run: Whether versions count as not comparable if no scenario runs one of the changed lines.

    Raises:
        NotComparableError: The file does not run, or differs from itself.
    """
    torch.set_num_threads(1)
    lines = set(before.splitlines()) ^ set(after.splitlines())
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name / "model.py" for name in ("before", "after")]
        for path, text in zip(paths, (before, after), strict=True):
            path.parent.mkdir()
            path.write_text(text, "utf-8")
        first = loaded(paths[0])
        every = list(scenarios(numbers_of(lines), lengths_of(first)))
        given = [observe(loaded(paths[0]), every[0]) for _ in range(2)]
        if dict(given[0]).get("error") is not None:
            raise NotComparableError(f"the file raises {dict(given[0])['error']}")
        try:
            loaded(paths[1])
        except Exception as error:
            return f"{type(error).__name__} at import"
        left = lines_changed(before, after) if all_lines_run else set()
        for scenario in every:
            one = observe(loaded(paths[0]), scenario)
            with lines_run(paths[1]) if left else contextlib.nullcontext(set()) as ran:
                other = observe(loaded(paths[1]), scenario)
            left -= ran
            found = _difference(scenario, one, other)
            if found is not None and scenario is every[0] and agreeing_when_given:
                raise NotComparableError("it differs with the inputs as given")
            if found is not None and _difference(scenario, one, observe(loaded(paths[0]), scenario)) is None:
                return f"{scenario.name}: {found}"
        if left:
            raise NotComparableError("no call runs what is changed")
    return None


class NotComparableError(Exception):
    """Nothing can be said of two versions."""


def search(before: str, after: str, **options: bool) -> tuple[str, str]:
    """Calls `find_witness` in a process of its own.

    Returns:
        `differs`, `same` or `unknown`, and the witness or the reason.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def work() -> None:
        signal.alarm(SECONDS)
        try:
            found = find_witness(before, after, **options)
            theirs.send(("differs", found) if found else ("same", ""))
        except BaseException as error:
            theirs.send(("unknown", f"{type(error).__name__}: {error}"[:300]))

    process = context.Process(target=work)
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(SECONDS + 5) else ("unknown", "it took too long")
    except EOFError:
        return "unknown", "the process ended"
    finally:
        process.kill()
        process.join()
