"""Try compiling functions and methods that run many operations outside of proved modules, in their place in the model."""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

import torch
from tcready.dynamic.worker.core.budget import spent
from tcready.dynamic.worker.core.calling import call
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.frames import is_user_file
from tcready.dynamic.worker.measure.dispatch_counts import module_names
from tcready.dynamic.worker.plan.placements import Measured
from tcready.dynamic.worker.torch_internals.dispatch import DispatchMode, calling_frames
from tcready.portable.compile_code import accessor
from tcready.schema.run import RegionTrial
from torch import nn

MIN_SHARE = 0.05
"""The least share of the operations of a function that is tried."""
MOST = 4
"""The most functions that are tried, those with the most operations first; each takes a few calls of the model."""


@dataclass
class _Seen:
    """The operations of each function in one eager call of each case."""

    ops: Counter[types.CodeType] = field(default_factory=Counter)
    owners: dict[types.CodeType, dict[str, None]] = field(default_factory=dict)
    """Names of the modules that have a function as a method; none for a plain function."""
    callers: dict[types.CodeType, dict[str, None]] = field(default_factory=dict)
    """Names of the modules with a calling method."""
    total: int = 0


def function_trials(context: Context, proved: Collection[str], run: Callable[[str], Measured]) -> Iterator[RegionTrial]:
    """Execute functions that hold many operations and are outside of the modules `proved`, in the whole model, with
    `run`.

    If functions call each other, the outermost is tried first; if it is refuted, the next inner one.
    """
    model = context.build()
    if not isinstance(model, nn.Module):
        return
    seen = _watched(context, model, proved)
    modules = dict(model.named_modules())
    done: list[types.CodeType] = []
    tried = 0
    for code, ops in seen.ops.most_common():
        if tried >= MOST or spent(context) or not seen.total or ops < MIN_SHARE * seen.total:
            return
        lines = _lines(code, seen, modules)
        if lines is None or any(_inside(code, other, seen) for other in done):
            continue
        tried += 1
        trial = _trial(context, code, lines, run(lines), ops / seen.total)
        if trial.state == "proved":
            done.append(code)
        yield trial


def _watched(context: Context, model: nn.Module, proved: Collection[str]) -> _Seen:
    seen = _Seen()
    names = module_names(model)

    def dispatched() -> None:
        seen.total += 1
        chain: list[tuple[types.CodeType, str | None]] = []
        for frame in calling_frames():
            code = frame.f_code
            if not is_user_file(code.co_filename):
                continue
            owner = None
            if code.co_argcount:
                owner = names.get(id(frame.f_locals.get(code.co_varnames[0])))
            if owner is not None and any(owner == module or owner.startswith(f"{module}.") for module in proved):
                return
            chain.append((code, owner))
        for index, (code, owner) in enumerate(chain):
            if code in (other for other, _ in chain[:index]):
                continue  # it calls itself
            seen.ops[code] += 1
            owners = seen.owners.setdefault(code, {})
            if owner is not None:
                owners[owner] = None
            caller = next((above for _, above in chain[index + 1 :] if above is not None), None)
            if caller is not None:
                seen.callers.setdefault(code, {})[caller] = None

    with torch.compiler.set_stance("force_eager"):
        for case in context.cases:
            call(context, model, case, DispatchMode(dispatched))
    return seen


def _inside(code: types.CodeType, other: types.CodeType, seen: _Seen) -> bool:
    """Return whether a function is a part of another that was proved: as methods of one module, or with fewer
    operations."""
    return bool(set(seen.callers.get(code, {})) & set(seen.owners.get(other, {}))) or code in other.co_consts


def _lines(code: types.CodeType, seen: _Seen, modules: dict[str, nn.Module]) -> str | None:
    """Return the lines that compile a function in the place in which it is looked up; None for a forward, which belongs
    to a module, and if no lines can."""
    name = code.co_name
    if name == "forward" or name.startswith(("__", "<")):
        return None
    types_of = {module: type(value).__name__ for module, value in modules.items()}
    methods = [
        owner
        for owner in seen.owners.get(code, {})
        if getattr(getattr(type(modules[owner]), name, None), "__code__", None) is code
    ]
    if methods:
        places = [f"{accessor(owner, types_of)}.{name}" for owner in methods]
        return "\n".join(f"{place} = torch.compile({place})" for place in places)
    for caller in seen.callers.get(code, {}):
        scope = getattr(type(modules[caller]).forward, "__globals__", {})
        if getattr(scope.get(name), "__code__", None) is code:
            place = f'type({accessor(caller, types_of)}).forward.__globals__["{name}"]'
            return f"{place} = torch.compile({place})"
    return None


def _trial(context: Context, code: types.CodeType, lines: str, found: Measured, share: float) -> RegionTrial:
    frame = context.names.frame(code.co_filename, code.co_firstlineno, code.co_name)
    covered = found.coverage
    why = found.against
    if why is None and found.sites:
        path, line = min(found.sites)
        why = f"compiled where it is called, it breaks at {path}:{line}: {found.sites[path, line]}"
    if why is None and (covered is None or not covered.ops_captured):
        why = "compiled where it is called, nothing of it runs in graphs"
    return RegionTrial(
        frame.symbol,
        (),
        "refuted" if why else "proved",
        why or f"compiled where it is called, line {frame.line} of {frame.path}: no break, the outputs of eager",
        lines,
        kind="function",
        ops_share=share if why or covered is None else covered.share,
        time_share=None if why or covered is None else covered.time_share,
        compilations=None if why else found.graphs,
    )
