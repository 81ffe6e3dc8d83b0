"""The arms of a bench: ways to run a model, by name or by code."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tcready.portable.options import BenchOptions
from tcready.schema.bench import Arm
from tcready.schema.enums import EAGER, TcreadyError
from tcready.schema.run import Plan

MODES: Mapping[str, str] = {
    "default": "model = torch.compile(model)",
    "reduce-overhead": 'model = torch.compile(model, mode="reduce-overhead")',
    "max-autotune": 'model = torch.compile(model, mode="max-autotune")',
    "dynamic": "model = torch.compile(model, dynamic=True)",
    "static": "model = torch.compile(model, dynamic=False)",
}
"""Code of the arms that have a fixed name."""
PLAN, PATCHED = "plan", "patched"
OF_A_RUN = (PLAN, PATCHED)
"""Arms that get their code from a run or from a patch."""


@dataclass(frozen=True)
class PatchToMeasure:
    """Changes to the code, and the settings that go with them."""

    sources: tuple[tuple[str, str], ...]
    """Paths of files and their new content."""
    lines: tuple[str, ...] = ()
    """For code: how the changes are made, as a comment, and the settings."""


def arms_of(wanted: BenchOptions, plan: Plan | None, patch: Callable[[], PatchToMeasure]) -> tuple[Arm, ...]:
    """Return the requested arms, eager first; by default `default`, and `plan` if the run has one.

    `patch` returns what the arm `patched` changes. Raises TcreadyError for an unknown name, for invalid code, for a
    missing plan, and whatever `patch` raises.
    """
    named = [name_and_code(text) for text in wanted.arms] or [("default", None)]
    by_itself = not wanted.arms and not wanted.quick and plan is not None and plan.code
    if (by_itself or (wanted.plan_from is not None and plan is not None)) and PLAN not in dict(named):
        named.append((PLAN, None))
    if wanted.patch is not None and PATCHED not in dict(named):
        named.append((PATCHED, None))
    found = [Arm(EAGER, "")]
    for name, code in named:
        if not re.fullmatch(r"\w[\w. -]{0,59}", name):
            raise TcreadyError(f"--arm {name}: name it with letters, digits, spaces, dots and dashes")
        if name in {arm.name for arm in found}:
            if name == EAGER and code is None:
                continue
            raise TcreadyError(f"--arm {name}: it is named twice")
        if name == PATCHED:
            changes = patch()
            lines = _code(name, code) if code is not None else MODES["default"]
            found.append(Arm(name, "\n".join([*changes.lines, lines]), changes.sources))
        elif code is not None:
            found.append(Arm(name, _code(name, code)))
        elif name in MODES:
            found.append(Arm(name, MODES[name]))
        elif name == PLAN:
            if plan is None or not plan.code:
                why = f": {plan.reason}" if plan is not None and plan.reason else ""
                raise TcreadyError(f"--arm plan: there is no plan{why}; `tcready check --plan` makes one")
            found.append(Arm(name, plan.code))
        else:
            known = ", ".join([*MODES, *OF_A_RUN])
            raise TcreadyError(f"--arm {name}: there is {known}; for another, --arm {name}='torch.compile(model, ...)'")
    return tuple(found)


def name_and_code(text: str) -> tuple[str, str | None]:
    name, equals, code = text.partition("=")
    return name.strip(), code.strip() if equals else None


def _code(name: str, code: str) -> str:
    """Return the lines of an arm. An expression is assigned to `model`, unless it is a call that compiles in place."""
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        raise TcreadyError(f"--arm {name}: {error.msg}: {code}") from None
    if not tree.body:
        raise TcreadyError(f"--arm {name}: no code: write {name}='torch.compile(model, ...)'")
    last = tree.body[-1]
    in_place = (
        isinstance(last, ast.Expr)
        and isinstance(last.value, ast.Call)
        and isinstance(last.value.func, ast.Attribute)
        and ast.unparse(last.value.func).startswith("model.")
    )
    if len(tree.body) == 1 and isinstance(last, ast.Expr) and not in_place:
        is_late = any(isinstance(node, ast.Lambda) for node in ast.walk(tree))  # it finds `model` when it is called
        return f"model = (lambda model: {code})(model)" if is_late else f"model = {code}"
    return code
