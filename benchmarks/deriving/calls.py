"""What Dynamo does with a call of each public name: what its rules say, and what came of trying.

Arguments are found in one process and the call is compiled in another: a pattern that `re` has compiled before, or a
function that has filled its cache, is traced otherwise than a new one.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import inspect
import logging
import pickle
import re
import uuid
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

import torch
from torch._dynamo import trace_rules
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.misc import get_np_to_tnp_map
from torch._dynamo.variables.torch import TorchInGraphFunctionVariable

from deriving import trying
from deriving.names import Method

NEVER_RUN = (
    "os. subprocess. socket. shutil. tempfile. ctypes. multiprocessing. torch.multiprocessing torch.hub "
    "torch.distributed torch.onnx torch.package torch.utils.data torch.utils.model_zoo "
    "torch.utils.bundled_inputs torch.save torch.utils.cpp_backtrace torch.utils.mobile_optimizer torch.export "
    "torch.monitor input breakpoint exit quit help open pathlib. io.open importlib. torch.jit.save "
    "torch.serialization torch.utils.collect_env torch.quantization torch.ao torch.fx torch.utils.viz "
    "torch.cuda.memory torch.cuda.gds"
).split()
"""Names that are traced and never executed: they may act on files, processes or the network."""
RUN_ALL_THE_SAME = ("os.path.", "torch.distributed.is_", "torch.serialization.get")


def rule(value: Any) -> str:
    """The word for what Dynamo's rules say of a callable, before any call of it is tried."""
    try:
        found = trace_rules.lookup_callable(value) or trace_rules.lookup(value)
    except Exception:
        return "unknown"
    if found is None:
        return "unknown"
    kind = found.__name__
    if kind == "PolyfilledFunctionVariable":
        return "polyfill"
    if issubclass(found, BuiltinVariable):
        name = getattr(value, "__name__", "")
        if found is not BuiltinVariable or hasattr(BuiltinVariable, f"call_{name}"):
            return "special"
        variable = BuiltinVariable(value)
        if variable.can_constant_fold_through():
            return "fold"
        try:
            return "special" if variable.can_insert_in_graph() or variable._handlers else "builtin"
        except Exception:
            return "builtin"
    if issubclass(found, TorchInGraphFunctionVariable):
        try:
            if value in TorchInGraphFunctionVariable._get_handlers():
                return "special"
            if TorchInGraphFunctionVariable(value).can_constant_fold_through():
                return "fold"
        except Exception:
            return "in_graph"
        return "in_graph"
    return {"SkipFunctionVariable": "skip", "UserFunctionVariable": "inline"}.get(kind, "special")


@dataclasses.dataclass
class _Record:
    """A dataclass, for what takes one."""

    field: int


def _double(value: Any) -> Any:
    return value * 2


def candidates(tensors_first: bool) -> Iterator[Callable[[], tuple[Any, ...]]]:
    """Arguments to try in turn, made anew each time: what a call may take."""

    def x() -> torch.Tensor:
        return torch.tensor([[0.5, 0.25], [0.75, 0.125]])

    tensors: list[Callable[[], tuple[Any, ...]]] = [
        lambda: (x(),),
        lambda: (x(), x()),
        lambda: (x(), 1),
        lambda: (x(), 0, 1),
        lambda: (x(), torch.tensor([0, 1])),
        lambda: (x(), (2, 2)),
        lambda: ([x(), x()],),
        lambda: (x(), x(), x()),
        lambda: (x(), 0, torch.tensor([0, 1])),
        lambda: (x(), 0, torch.tensor([[0, 1], [0, 1]]), x()),
        lambda: (torch.tensor([0, 1]),),
        lambda: (x() > 0.5,),
        lambda: (torch.tensor([0, 1]), torch.tensor([2, 3])),
        lambda: (x() > 0.5, x() > 0.25),
        lambda: (x(), 0, 0, 1),
        lambda: (torch.tensor([0, 1]), x()),
        lambda: (x(), 0.5, True),
        lambda: (x(), x(), 0, 1),
        lambda: (x()[0].cfloat(),),
        lambda: (x(), torch.float64),
        lambda: (x(), "abc"),
        lambda: (x()[None],),
        lambda: (x()[None, None],),
        lambda: (torch.float32,),
        lambda: (torch.float32, torch.float32),
        lambda: ("cpu",),
        lambda: (torch.device("cpu"),),
        lambda: (_double, x()),
        lambda: (_double, (x(),)),
        lambda: (_double,),
        lambda: (torch.nn.Linear(2, 2),),
        lambda: (torch.nn.Linear(2, 2), x()),
        lambda: (torch.nn.Linear(2, 2), "weight"),
        lambda: (list(torch.nn.Linear(2, 2).parameters()), 1.0),
    ]
    plain: list[Callable[[], tuple[Any, ...]]] = [
        tuple,
        lambda: (2,),
        lambda: (0.5,),
        lambda: ("abc",),
        lambda: ([3.0, 1.0, 2.0],),
        lambda: ({"a": 1},),
        lambda: (2, 3),
        lambda: (0.5, 0.25),
        lambda: ("abc", "b"),
        lambda: (_double,),
        lambda: (_double, [1, 2]),
        lambda: (max, [1, 2]),
        lambda: ([1, 2], 1),
        lambda: ([1, 2], [3, 4]),
        lambda: ({"a": 1}, "a"),
        lambda: (dict, "name"),
        lambda: (int, "3"),
        lambda: (b"abc",),
        lambda: ("i", 3),
        lambda: (True,),
        lambda: (int,),
        lambda: (1, int),
        lambda: (bool, int),
        lambda: ([3, 1, 2], 1, 2),
        lambda: (2, 1, 3),
        lambda: ("a", "b", "abc"),
        lambda: ({"a": 1}, "a", 2),
        lambda: (type("Plain", (), {"a": 1})(), "a"),
        lambda: (type("Plain", (), {"a": 1})(), "a", 2),
        lambda: (2, [1, 2, 3]),
        lambda: (None,),
        lambda: (type("Plain", (), {"a": 1})(),),
        lambda: ("[1, 2]",),
        lambda: ("3",),
        lambda: ("x",),
        lambda: (iter([1, 2]),),
        lambda: ("1", "abc", "eval"),
        lambda: (pickle.dumps(1),),
        lambda: ("i", b"abcd"),
        lambda: (_Record(1),),
        lambda: (dt.datetime(2020, 1, 2),),
        lambda: ("2020-01-02",),
        lambda: (uuid.NAMESPACE_DNS, "abc"),
        lambda: ("12345678123456781234567812345678",),
        lambda: (dt.timedelta(1),),
        lambda: (b"YWJj",),
        lambda: (logging.LogRecord("a", 1, "b", 1, "c", None, None),),
        lambda: (("a", 1),),
        lambda: ("a", 10, "b", 1, "c", (), None),
        lambda: (10, "abc"),
    ]
    yield from (*tensors, *plain) if tensors_first else (*plain, *tensors)


def _runs(name: str) -> bool:
    return name.startswith(RUN_ALL_THE_SAME) or not name.startswith(tuple(NEVER_RUN))


def _binds(value: Any, args: tuple[Any, ...]) -> bool:
    """Whether a signature takes that many arguments, and callables where it asks for them; True if it cannot be read.

    `torch.func.jacrev` and others that return a function do not look at what they are given: anything would seem to fit.
    """
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return True
    try:
        given = signature.bind(*args).arguments
    except TypeError:
        return False
    return all(callable(each) or not _is_callable(signature.parameters[name]) for name, each in given.items())


def _is_callable(parameter: inspect.Parameter) -> bool:
    """Whether the annotation of a parameter says that it is a callable."""
    said = parameter.annotation
    return (
        re.match(r"(typing\.|collections\.abc\.)?Callable\b", said if isinstance(said, str) else str(said)) is not None
    )


Way = tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]
"""A callable and what makes its arguments."""


def _ways(name: str, value: Any) -> list[Way]:
    """How a name may be called, in the order in which it is tried; an object that is needed comes in as an argument."""
    if not isinstance(value, Method):
        first = name.startswith("torch.") and not name.startswith(PLAIN_FIRST)
        return [(value, make) for make in candidates(first)]
    filled: tuple[Callable[[], tuple[Any, ...]], ...] = (
        lambda: ([3.0, 1.0, 2.0],),
        lambda: ({"a": 1},),
        lambda: ([("a", 1)],),
    )
    for build in (*filled, *candidates(False)):
        try:
            if _runs(name) or name.startswith("pathlib."):
                value.cls(*build())
                return [(value, partial(_with_object, value.cls, build, make)) for make in candidates(False)]
        except BaseException:
            continue
    return []


PLAIN_FIRST = ("torch.cuda.", "torch.backends.", "torch.jit.")
"""Of torch, but seldom given tensors."""


def _with_object(
    cls: type, build: Callable[[], tuple[Any, ...]], make: Callable[[], tuple[Any, ...]]
) -> tuple[Any, ...]:
    return (cls(*build()), *make())


def _may_take(name: str, function: Any, args: tuple[Any, ...]) -> bool:
    """Whether arguments are of the number that a callable takes, and a tensor's method is given a tensor."""
    if isinstance(function, Method):
        return _binds(getattr(args[0], function.name), args[1:])
    if name.startswith("torch.Tensor.") and not (args and isinstance(args[0], torch.Tensor)):
        return False
    return _binds(function, args)


def fitting(name: str, value: Any) -> int:
    """The position of the first arguments that a call takes without Dynamo; -1 if there are none."""
    for position, (function, make) in enumerate(_ways(name, value)):
        try:
            args = make()
            if _may_take(name, function, args):
                torch.manual_seed(0)
                with trying.quiet():
                    function(*args)
                return position
        except BaseException:
            continue
    return -1


def tried(name: str, value: Any, position: int | None) -> list[str]:
    """[outcome, detail] of a call with the arguments at `position`, in a process where nothing of the kind ran before.

    What is never executed (None) is traced with each in turn until Dynamo is past the arguments.
    """
    last = ["undecided", "no arguments fit"]
    ways = _ways(name, value)
    if position is not None:
        ways = ways[position : position + 1] if position >= 0 else []
    for function, make in ways:
        try:
            args = make()
            if not _may_take(name, function, args):
                continue
        except BaseException:
            continue
        outcome, detail = trying.call(function, args)
        if outcome == "traced":
            return ["traced", ""]
        if outcome == "break" and (detail != "GB0088" or position is not None):
            return ["break", detail]
        last = ["undecided", str(detail)[:80]]
    return last


def lacks_counterpart(name: str, value: Any) -> bool:
    """Whether it is a function of numpy that Dynamo has no function of its own for, whatever it is given."""
    is_function = inspect.isroutine(value) or (hasattr(value, "nin") and not isinstance(value, type))
    if not name.startswith("numpy.") or not is_function:
        return False
    return value not in get_np_to_tnp_map()


def derive(found: dict[str, Any], processes: int, only: Collection[str] | None = None) -> dict[str, list[str]]:
    """name -> [rule, outcome, id of the break] of every callable; what has several names is tried once."""
    once: dict[int, str] = {}
    for name, value in found.items():
        known = once.setdefault(id(value), name)
        if len(name) < len(known):
            once[id(value)] = name
    wanted = {name: value for name, value in found.items() if only is None or name in only}
    canonical = sorted({once[id(value)] for value in wanted.values()})
    run = [name for name in canonical if _runs(name)]
    fits = trying.each(run, lambda name: fitting(name, found[name]), processes, "arguments")
    places = {name: fit if isinstance(fit, int) else -1 for name, fit in fits.items()}
    outcomes = trying.each(canonical, lambda name: tried(name, found[name], places.get(name)), processes, "calls")
    table: dict[str, list[str]] = {}
    for name, value in wanted.items():
        outcome = outcomes[once[id(value)]]
        if isinstance(outcome, dict):
            outcome = ["undecided", outcome["failed"]]
        if outcome[0] == "undecided" and lacks_counterpart(name, value):
            outcome = ["break", "GB0294"]
        word = "method" if isinstance(value, Method) else rule(value)
        table[name] = [word, outcome[0], outcome[1] if outcome[0] == "break" else ""]
    return table
