"""The arms of a bench: ways to run a model, by name or by code."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tcready.options import BenchOptions
from tcready.schema.bench import Arm
from tcready.schema.run import Plan
from tcready.schema.words import EAGER, TcreadyError

MODES: Mapping[str, str] = {
    "default": "model = torch.compile(model)",
    "reduce-overhead": 'model = torch.compile(model, mode="reduce-overhead")',
    "max-autotune": 'model = torch.compile(model, mode="max-autotune")',
    "dynamic": "model = torch.compile(model, dynamic=True)",
    "static": "model = torch.compile(model, dynamic=False)",
}
"""Arms that are known by name."""
PLAN, PATCHED = "plan", "patched"
OF_A_RUN = (PLAN, PATCHED)
"""Arms whose code a run, or a patch, gives."""


@dataclass(frozen=True)
class PatchToMeasure:
    """Changes to the code, and the settings that go with them."""

    sources: tuple[tuple[str, str], ...]
    """Paths of files, and what is to stand in them."""
    lines: tuple[str, ...] = ()
    """Of code: how the changes are made, as a comment, and the settings."""


def arms_of(wanted: BenchOptions, plan: Plan | None, patch: Callable[[], PatchToMeasure]) -> tuple[Arm, ...]:
    """The arms that are asked for, eager first; by default `default`, and `plan` where the run has one.

    `patch` gives what the arm `patched` changes. Raises TcreadyError for a name that is not known, for code that is
    none, for a plan that nothing gives, and what `patch` raises.
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
            raise TcreadyError(
                f"--arm {name}: there is {known}; for another, --arm {name}='torch.compile(model, ...)'"
            )
    return tuple(found)


def name_and_code(text: str) -> tuple[str, str | None]:
    name, equals, code = text.partition("=")
    return name.strip(), code.strip() if equals else None


def _code(name: str, code: str) -> str:
    """The lines of an arm; an expression gives the model, unless it is a call that compiles in place."""
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
        is_late = any(
            isinstance(node, ast.Lambda) for node in ast.walk(tree)
        )  # it finds `model` when it is called
        return f"model = (lambda model: {code})(model)" if is_late else f"model = {code}"
    return code
