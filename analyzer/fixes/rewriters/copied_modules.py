"""Rewrite a module that a forward copies, and only calls: call it with copies of its tensors. Imported only for a
rewrite."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import libcst as cst
from tcready.fixes.rewriters.numbers import Uses
from tcready.fixes.rewriters.rewrites import Decline, Ways, expression, torch_of
from tcready.fixes.rewriters.statements import assigned_in, text
from tcready.static.diagnostics.rule import Change, Declined, Rewrite

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located

STATE = "{name: value.detach().clone() for name, value in (*m.named_parameters(), *m.named_buffers())}"
REASON_STORED = (
    "The copy is not only called. In `__init__` it would keep the initial weights and be part of the `state_dict`, "
    "so only the author can move it."
)


def is_called(place: Located) -> bool:
    """Return True if the result of `copy.deepcopy` is called, so that it is not a tensor."""
    node, parents = place.node, place.piece.parents
    parent = parents[node]
    if isinstance(parent, cst.Call):
        return parent.func is node
    name = _name(place)
    loads = Uses(place.piece, "torch").loads(name) if name is not None else []
    return any(isinstance(call := parents[load], cst.Call) and call.func is load for load in loads)


def _name(place: Located) -> str | None:
    """Return the name of the copy."""
    parent = place.piece.parents[place.node]
    target = parent.targets[0].target if isinstance(parent, cst.Assign) and len(parent.targets) == 1 else None
    return target.value if isinstance(target, cst.Name) else None


def copied_module(place: Located, module: cst.BaseExpression) -> Ways:
    """Rewrite `layer = copy.deepcopy(self.layer)`, then `layer(x)`, as `torch.func.functional_call` with copies of
    its tensors."""
    torch = torch_of(place)
    if not _is_plain(module):
        raise Decline("The copied module is an expression. Assign it to a name first.")
    parents = place.piece.parents
    parent = parents[place.node]
    how = "The module is called with copies of its tensors, instead of a copy of the module"
    unsafe = "what is computed from the copy alone requires no gradient, and attributes that it sets change the module"
    state = expression(STATE, m=module)
    if isinstance(parent, cst.Call):
        made = _called(torch[0], module, state, parent)
        if made is None:
            yield Declined("The copy is called with unpacked arguments (`*args`). Pass them one by one.")
        else:
            yield Rewrite(how, (Change((parent,), (made,)),), unsafe, torch[1])
        return
    name = _name(place)
    uses = Uses(place.piece, "torch")
    line = place.statement
    if name is None or len(uses.values_of(name)) != 1 or not isinstance(line, cst.SimpleStatementLine):
        raise Decline(REASON_STORED)
    state_name = f"{name}_state"
    around = parents[line]
    if state_name in place.piece.bound or not isinstance(around, cst.IndentedBlock):
        raise Decline(f"The function already has a variable `{state_name}`, which the rewrite would need. Rename it.")
    rest = around.body[around.body.index(line) + 1 :]
    if set(_names(module)) & assigned_in(rest):
        raise Decline(f"`{text(module)}` is assigned again after the copy. Use another name.")
    changes = [Change((place.node,), (state,))]
    target = parent.targets[0].target if isinstance(parent, cst.Assign) else None
    assert target is not None
    changes.append(Change((target,), (cst.Name(state_name),)))
    calls: list[cst.Call] = []
    for load in uses.loads(name):
        call = parents[load]
        if not isinstance(call, cst.Call) or call.func is not load or not _is_below(place, call, rest):
            raise Decline(REASON_STORED)
        calls.append(call)
    if any(_is_below(place, call, [other]) for call in calls for other in calls if other is not call):
        raise Decline("The copy is called with its own result. Assign that result to a name first.")
    for call in calls:
        made = _called(torch[0], module, cst.Name(state_name), call)
        if made is None:
            raise Decline("The copy is called with unpacked arguments (`*args`). Pass them one by one.")
        changes.append(Change((call,), (made,)))
    yield Rewrite(how, tuple(changes), unsafe, torch[1])


def _is_plain(module: cst.BaseExpression) -> bool:
    """Return True for a name, an attribute, or an item of one of these by a number."""
    while isinstance(module, (cst.Attribute, cst.Subscript)):
        if isinstance(module, cst.Subscript):
            only = module.slice[0].slice if len(module.slice) == 1 else None
            if not isinstance(only, cst.Index) or not isinstance(only.value, (cst.Integer, cst.Name)):
                return False
        module = module.value
    return isinstance(module, cst.Name)


def _names(module: cst.BaseExpression) -> list[str]:
    """Return the parts of it that may be reassigned: its names, and the attributes of self."""
    found: list[str] = []
    while isinstance(module, (cst.Attribute, cst.Subscript)):
        found.append(text(module))
        if isinstance(module, cst.Subscript):
            only = module.slice[0].slice
            if isinstance(only, cst.Index) and isinstance(only.value, cst.Name):
                found.append(only.value.value)
        module = module.value
    return [*found, text(module)]


def _is_below(place: Located, node: cst.CSTNode, around: Iterable[cst.CSTNode]) -> bool:
    """Return True if a node is inside one of some others, and in the same function as the copy."""
    among = set(around)
    inside: cst.CSTNode | None = node
    while inside is not None:
        if inside in among:
            return True
        if isinstance(inside, (cst.FunctionDef, cst.Lambda)):
            return False
        inside = place.piece.parents.get(inside)
    return False


def _called(
    torch: str, module: cst.BaseExpression, state: cst.BaseExpression, call: cst.Call
) -> cst.BaseExpression | None:
    """Return the call with a state of its own; None unless its arguments are written one by one."""
    if any(arg.star for arg in call.args):
        return None
    given = [arg.value for arg in call.args if arg.keyword is None]
    named = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    parts = {f"g{number}": value for number, value in enumerate((*given, *named.values()))}
    words = list(parts)
    comma = "," if len(given) == 1 else ""
    code = f"{torch}.func.functional_call(m, s, ({', '.join(words[: len(given)])}{comma})"
    if named:
        pairs = ", ".join(f'"{key}": {word}' for key, word in zip(named, words[len(given) :], strict=True))
        code += f", {{{pairs}}}"
    return expression(f"{code})", m=module, s=state, **parts)
