"""Context managers, decorators, modules, distributions, attributes of tensors, settings, and ids of graph breaks."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import re
import types
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import torch

from deriving import calls, samples, trying
from deriving.operators import letter, structure

CONTEXTS_OF = ("torch.", "contextlib.", "threading.", "warnings.", "decimal.", "tempfile.", "numpy.", "open", "io.")
DECORATORS_OF = ("torch.", "functools.", "contextlib.", "typing.", "types.", "abc.", "enum.")
COMPILERS = ("torch.compile", "torch.compiler.compile", "torch._dynamo.optimize", "torch._dynamo.optimize_assert")
"""Decorators that Dynamo is to trace through, and that compile with Inductor where they are tried."""
NOT_DECORATORS = ("torch.hub", "torch.distributed", "torch.multiprocessing", "torch.Tensor.", "torch.distributions")


def _arguments() -> Iterator[tuple[Callable[[], tuple[Any, ...]], dict[str, Any]]]:
    """What the makers of context managers and decorators are given, in turn."""
    yield tuple, {}
    yield (lambda: ("cpu",)), {}
    yield (lambda: (True,)), {}
    yield (lambda: ("cpu", 1)), {}
    yield (lambda: (None,)), {}
    yield (lambda: (calls._double, calls._double)), {}
    yield (lambda: (1,)), {}
    yield (lambda: ("abc",)), {}
    yield tuple, {"device_type": "cpu"}
    yield tuple, {"device_type": "cpu", "cast_inputs": torch.float32}
    yield tuple, {"enabled": True}
    yield (lambda: (torch.nn.attention.SDPBackend.MATH,)), {}
    yield (lambda: (torch.nn.Linear(2, 2),)), {}
    yield (lambda: (torch.float64,)), {}
    yield (lambda: (ValueError,)), {}
    yield (lambda: ([],)), {}
    yield (lambda: (torch.nn.Linear(2, 2), {})), {}


def _entered(value: Any) -> Any:
    """The arguments with which `with value(*args)` runs around an addition; None if there are none."""
    for make, named in _arguments():
        try:
            with trying.quiet(), value(*make(), **named):
                done = torch.ones(2) + 1
            if float(done.sum()) == 4.0:
                return make, named
        except BaseException:
            continue
    return None


def context(value: Any) -> list[str] | None:
    """[`traced` or the id of the break that entering ends with, what a break inside does to the function, and the first
    again for one that was made before the compiled call]."""
    found = _entered(value)
    if found is None:
        return None
    make, named = found
    args = make()

    def plain(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        with value(*args, **named):
            y = y + 2
        return y + 3

    def broken(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        with value(*args, **named):
            y = torch.cos(y)
            torch._dynamo.graph_break()
            y = torch.exp(y)
        return torch.tanh(y)

    outcome, detail = trying.compiled(plain, torch.ones(3))
    if outcome == "raises":
        return ["raises", detail.partition(":")[0]]
    entering = detail if outcome == "break" else "traced"
    before = _made_before(value, args, named)
    try:
        operations = {op for graph in trying.graphs(broken, torch.ones(3)) for op in graph}
    except BaseException:
        return [entering, "raises", before]
    fate = "whole"
    if {"sin", "cos", "exp", "tanh"} <= operations:
        fate = "split"
    elif "sin" in operations:
        fate = "around" if "tanh" in operations else "before"
    return [entering, fate, before]


def _made_before(value: Any, args: tuple[Any, ...], named: dict[str, Any]) -> str:
    """What entering ends with where the context manager comes from outside: `traced`, `raises` or the id of a break."""
    grad = torch.is_grad_enabled()
    try:
        with trying.quiet():
            made = value(*args, **named)
    except BaseException:
        return "raises"
    torch.set_grad_enabled(grad)  # some act when they are made

    def program(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        with made:
            y = y + 2
        return y + 3

    outcome, detail = trying.compiled(program, torch.ones(3))
    return detail if outcome == "break" else outcome


def contexts(found: dict[str, Any], processes: int) -> dict[str, list[str]]:
    """Every context manager that can be entered without effect, by what made it."""
    wanted = {}
    for name, value in found.items():
        if not name.startswith(CONTEXTS_OF) or name.startswith(("torch.Tensor.", "torch.distributed")):
            continue
        if name != "open" and not calls._runs(name):
            continue
        kind = value if inspect.isclass(value) else None
        maker = inspect.isfunction(value) and hasattr(value, "__wrapped__")
        if (kind is not None and hasattr(kind, "__enter__")) or maker or name in LOCKS:
            wanted[name] = value
    results = trying.each(wanted, lambda name: context(wanted[name]), processes, "contexts")
    return {name: r for name, r in results.items() if isinstance(r, list)}


LOCKS = ("threading.Lock", "threading.RLock", "torch.random.fork_rng", "torch.device", "torch.inference_mode")
"""Functions that give a context manager and do not say so."""


def body(x: torch.Tensor) -> torch.Tensor:
    """What is decorated: `sinh` in a graph tells that it was traced."""
    return torch.sinh(x) + 1


def _decorators() -> Iterator[Callable[[Any], Any]]:
    """Ways to apply a decorator: bare, called without arguments, called with the usual ones."""
    yield lambda value: value(body)
    yield lambda value: value()(body)
    yield lambda value: value("cpu")(body)
    yield lambda value: value(device_type="cpu")(body)
    yield lambda value: value(maxsize=8)(body)
    yield lambda value: value(calls._double)(body)
    yield lambda value: value(True)(body)
    yield lambda value: value("derived::body", mutates_args=())(body)
    yield lambda value: value(fullgraph=False)(body)
    yield lambda value: value("reason")(body)
    yield lambda value: value(torch.Tensor)(body)


def decorator(value: Any) -> list[str] | None:
    """[`traced`, `opaque` or the id of a break] for a function so decorated, as Dynamo meets it in a call; behind a break
    whether the function is `compiled` by itself or runs `eager`."""
    given = torch.full((2,), 0.5)
    for apply in _decorators():
        try:
            with trying.quiet():
                decorated = apply(value)
                if decorated is value or not callable(decorated) or isinstance(decorated, torch.nn.Module):
                    continue
                if hasattr(decorated, "register_fake"):
                    decorated.register_fake(torch.empty_like)
                same = decorated(given)
                if not torch.allclose(same, body(given)):
                    continue
        except BaseException:
            continue

        def program(x: torch.Tensor, decorated: Any = decorated) -> torch.Tensor:
            return decorated(x + 2) * 3

        outcome, detail = trying.compiled(program, given)
        if outcome == "break":
            try:
                operations = {op for graph in trying.graphs(program, given) for op in graph}
            except BaseException:
                return [detail, "raises"]
            return [detail, "compiled" if "sinh" in operations else "eager"]
        if outcome == "traced":
            names = " ".join(target for _, target in detail.operations)
            return ["traced" if "sinh" in names else "opaque"]
        return ["raises", str(detail).partition(":")[0]]
    return None


def decorators(found: dict[str, Any], processes: int, only: Collection[str] | None = None) -> dict[str, list[str]]:
    """Everything that takes a function and gives one that does the same."""
    wanted = {
        name: value
        for name, value in found.items()
        if name.startswith(DECORATORS_OF)
        and not name.startswith(NOT_DECORATORS)
        and name not in COMPILERS
        and calls._runs(name)
        and not isinstance(value, (types.BuiltinFunctionType, type(torch.Tensor.add)))
        and not (inspect.isclass(value) and issubclass(value, (torch.nn.Module, BaseException)))
    }
    of_dynamo = [f"torch._dynamo.{name}" for name in torch._dynamo.__all__]
    for name in (*of_dynamo, "torch._disable_dynamo", "torch.jit.script"):
        owner, _, last = name.rpartition(".")
        if name not in COMPILERS and (only is None or name in only):
            wanted[name] = getattr(importlib.import_module(owner), last)
    results = trying.each(wanted, lambda name: decorator(wanted[name]), processes, "decorators")
    return {name: r for name, r in results.items() if isinstance(r, list)}


def module(info: Any) -> list[str] | None:
    """[what Dynamo does with calls of such a module, in evaluation and in training; structure of the result].

    The first of torch's samples decides; `traced GB0124` is traced there and breaks with other settings.
    """
    outcomes = []
    shape = "?"
    for training in (False, True):
        with trying.quiet():
            inputs = info.module_inputs_func(info, "cpu", torch.float32, False, training)
        found: list[str] = []
        for each in inputs:
            if each.forward_input is None or len(found) == 4:
                continue

            def fresh(each: Any = each, training: bool = training) -> Any:
                torch.manual_seed(0)
                made = info.module_cls(*each.constructor_input.args, **each.constructor_input.kwargs)
                return made.train(training)

            args, keywords = each.forward_input.args, each.forward_input.kwargs
            try:
                with trying.quiet():
                    result = fresh()(*args, **keywords)
                    outcome, detail = trying.call(fresh(), args, keywords)
            except BaseException:
                continue
            if not found and not training:
                shape = str(structure(result)).replace("'", "").replace(", ", " ")
            found.append(detail if outcome == "break" else outcome)
        more = sorted({word for word in found[1:] if word.startswith("GB") and word != found[0]})
        outcomes.append(" ".join([*found[:1], *more]) or "undecided")
    return [*outcomes, shape]


def modules(processes: int, only: Collection[str] | None = None) -> dict[str, list[str]]:
    """The classes of torch.nn that torch's tests know how to call."""
    infos: dict[str, Any] = {}
    for info in samples.modules():
        if info.module_cls.__module__.startswith("torch.nn.modules."):
            name = f"torch.nn.{info.module_cls.__name__}"
            if only is None or name in only:
                infos.setdefault(name, info)
    results = trying.each(infos, lambda name: module(infos[name]), processes, "modules")
    return {name: r for name, r in results.items() if isinstance(r, list)}


def _masks() -> Iterator[torch.Tensor]:
    """What an optional argument of a module of attention may be, for three places: a mask of them, one of a sequence."""
    yield torch.nn.Transformer.generate_square_subsequent_mask(3)
    yield torch.zeros(1, 3, dtype=torch.bool)


def arguments_of(make: Callable[[], torch.nn.Module], tensors: int) -> list[str]:
    """The optional arguments of a module with which its call breaks, each as `name@place GB0124 spared,by`: a flag that,
    given as False, spares the break."""
    given = [torch.randn(1, 3, 4) for _ in range(tensors)]
    parameters = list(inspect.signature(make().forward).parameters.values())
    optional = [p for p in parameters if p.default is not inspect.Parameter.empty]

    def outcome(**named: Any) -> str:
        with trying.quiet():
            made = make().eval()
            made(*given, **named)  # raises where the argument is none for it
            result, detail = trying.call(make().eval(), tuple(given), named)
        return str(detail) if result == "break" else result

    found = []
    for parameter in (p for p in optional if p.default is None):
        for mask in _masks():
            with contextlib.suppress(Exception):
                gb_id = outcome(**{parameter.name: mask})
                if not gb_id.startswith("GB"):
                    continue
                spared = []
                for flag in (p.name for p in optional if p.name != parameter.name):
                    with contextlib.suppress(Exception):
                        if outcome(**{parameter.name: mask, flag: False}) == "traced":
                            spared.append(flag)
                place = parameters.index(parameter)
                found.append(f"{parameter.name}@{place} {gb_id} {','.join(spared) or '-'}")
                break
    return found


def arguments(processes: int, only: Collection[str] | None = None) -> dict[str, list[str]]:
    """Modules that break with some of their optional arguments, and with which."""
    wanted = {n: v for n, v in samples.unsampled().items() if only is None or n in only}
    results = trying.each(wanted, lambda name: arguments_of(*wanted[name]), processes, "arguments")
    return {name: r for name, r in results.items() if isinstance(r, list) and r}


def _parameters(cls: Any) -> dict[str, torch.Tensor]:
    """Valid parameters of a distribution, made from the constraints it states."""
    made = {}
    for name, constraint in cls.arg_constraints.items():
        text = f"{constraint} {type(constraint).__name__}"
        if "logits" in name and "probs" in cls.arg_constraints:
            continue
        if any(word in text for word in ("ositive_?definite", "PositiveDefinite", "Cholesky")):
            if name not in ("scale_tril", "covariance_matrix") or "covariance_matrix" not in made:
                if not made or name != "precision_matrix":
                    made[name] = torch.eye(2)
        elif "Simplex" in text:
            made[name] = torch.tensor([0.25, 0.75])
        elif "IndependentConstraint" in text:
            made[name] = torch.ones(2)
        elif "UnitInterval" in text or "Interval(lower_bound=0.0, upper_bound=1.0" in text or "Interval" in text:
            made[name] = torch.tensor([0.5, 0.25])
        elif "Integer" in text:
            made[name] = 3
        else:
            made[name] = torch.tensor([1.5, 2.5])
    return made


def distribution(cls: Any) -> list[str] | None:
    """Ids of breaks of `sample`, `log_prob`, `entropy` and `rsample`, with arguments validated and without."""
    outcomes: list[str] = []
    for validate in (True, False):
        for way in ("sample", "rsample", "log_prob", "entropy"):
            parameters = _parameters(cls)
            if cls.__name__ in ("MultivariateNormal", "LowRankMultivariateNormal", "Wishart"):
                parameters = {k: v for k, v in parameters.items() if k in ("loc", "covariance_matrix", "df")}
                parameters["df"] = torch.tensor(3.0)
                if cls.__name__ != "Wishart":
                    del parameters["df"]
            if cls.__name__ == "Uniform":
                parameters = {"low": torch.zeros(2), "high": torch.ones(2)}
            if cls.__name__ == "LKJCholesky":
                parameters = {"dim": 3, "concentration": torch.tensor(1.0)}

            def use(x: torch.Tensor, parameters: Any = parameters, validate: bool = validate, way: str = way) -> Any:
                made = cls(**parameters, validate_args=validate)
                if way == "log_prob":
                    return made.log_prob(x)
                return getattr(made, way)()

            try:
                with trying.quiet():
                    value = cls(**parameters, validate_args=False).sample()
                    use(value)
            except BaseException:
                outcomes.append("-")
                continue
            outcome, detail = trying.compiled(use, value)
            outcomes.append(detail if outcome == "break" else outcome)
    return outcomes


def distributions(processes: int, only: Collection[str] | None = None) -> dict[str, list[str]]:
    """Classes of torch.distributions whose parameters' constraints say how to make one."""
    import torch.distributions as D  # noqa: N812

    wanted = {}
    for name in D.__all__:
        cls = getattr(D, name)
        if inspect.isclass(cls) and issubclass(cls, D.Distribution) and cls is not D.Distribution:
            with contextlib.suppress(Exception):
                asked = only is None or f"torch.distributions.{name}" in only
                if asked and cls.arg_constraints and not isinstance(cls.arg_constraints, property):
                    wanted[f"torch.distributions.{name}"] = cls
    results = trying.each(wanted, lambda name: distribution(wanted[name]), processes, "distributions")
    return {n: r for n, r in results.items() if isinstance(r, list) and set(r) != {"-"}}


def attributes() -> dict[str, str]:
    """What attributes of a tensor that are no methods are, and what Dynamo makes of reading them."""
    made = {}
    for name in sorted({*dir(torch.Tensor), "_version", "_base"}):
        if name.startswith("_") and name not in ("_version", "_base"):
            continue
        raw = inspect.getattr_static(torch.Tensor, name, None)
        if callable(raw) or raw is None:
            continue
        kinds = {}
        for dtype in (torch.float32, torch.complex64):
            x = torch.ones((2, 2), dtype=dtype)
            with contextlib.suppress(Exception), trying.quiet():
                value = getattr(x, name)
                kind = structure(value)
                kinds[letter(dtype)] = kind if isinstance(kind, str) else kind[0]
                if kind == "n":
                    kinds[letter(dtype)] = type(value).__name__
                if isinstance(value, torch.Tensor):
                    kinds[letter(dtype)] = f"T{letter(value.dtype)}"

        def read(x: torch.Tensor, name: str = name) -> torch.Tensor:
            getattr(x, name)
            return x + 1

        outcome, detail = trying.compiled(read, torch.ones(2, 2))
        words = sorted({("T" if k[0] == "T" else k) for k in kinds.values()}) or ["?"]
        if kinds.get("f") == "Tf" and kinds.get("c") == "Tf":
            words = ["Tf"]
        made[name] = "|".join(words) + (f" {detail}" if outcome == "break" else "")
    return made


def config() -> dict[str, Any]:
    """Settings of torch._dynamo.config with a plain value, as they are by default; sets are lists of names."""
    found: dict[str, Any] = {}
    for name, entry in sorted(torch._dynamo.config._config.items()):
        with trying.quiet():
            value = getattr(torch._dynamo.config, name, entry)
        if isinstance(value, (set, frozenset, list, tuple)):
            value = sorted(getattr(v, "__name__", None) or str(v) for v in value)
            value = [v for v in value if " at 0x" not in v and "/" not in v]
        plain = value is None or isinstance(value, (bool, int, float, list))
        if plain or (isinstance(value, str) and "/" not in value):
            found[name] = value
    return found


def registry() -> dict[str, str]:
    """Id -> the one line by which each graph break is known: the newest entry of torch's own registry."""
    path = Path(torch._dynamo.__file__).parent / "graph_break_registry.json"
    entries = json.loads(path.read_text("utf-8"))
    return {name: versions[0]["Gb_type"] for name, versions in sorted(entries.items())}


def constants_while_tracing(found: dict[str, Any]) -> dict[str, bool]:
    """Questions about the state of the process that have one answer while Dynamo traces, by every name they have.

    Asked are the functions of Dynamo's own table and of torch.overrides, by what branch Dynamo takes.
    """
    from torch._dynamo.variables import torch as handlers

    asked = {f"{f.__module__}.{f.__name__}": f for f in handlers.tracing_state_functions()}
    objects = {id(function) for function in asked.values()}
    overridden = re.compile(r"torch\.overrides\.(has|is)_")
    asked.update({n: v for n, v in found.items() if id(v) in objects or overridden.match(n)})
    answers: dict[str, bool] = {}
    for name, function in sorted(asked.items()):
        for args in ((), (torch.ones(2),), ((torch.ones(2),),)):

            def program(x: torch.Tensor, function: Any = function, args: Any = args) -> torch.Tensor:
                return torch.sin(x) if function(*args) else torch.cos(x)

            with contextlib.suppress(Exception):
                function(*args)
                outcome, detail = trying.compiled(program, torch.ones(2))
                if outcome == "traced":
                    answers[name] = any("sin" in target for _, target in detail.operations)
                break
    return answers
