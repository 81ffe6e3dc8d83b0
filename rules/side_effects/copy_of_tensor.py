"""`copy.deepcopy` or `copy.copy` copies tensors, modules or containers."""

from __future__ import annotations

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call
from tcready.static.domain.values import ExternalInstance, Instance, Mapping, Sequence, Value, holds_tensor, options

TO_CONTAINERS = ("dataclasses.asdict", "dataclasses.astuple")


def check(fact: Call) -> Claim | None:
    name = fact.constructed
    if name in TO_CONTAINERS and holds_tensor(fact.result):
        return Claim(f"`{name}` deep-copies the tensors of an object: the graph ends here")
    if name not in ("copy.deepcopy", "copy.copy") or not fact.args:
        return None
    what = fact.args[0]
    shallow = name == "copy.copy" and any(isinstance(v, Mapping) or _is_list(v) for v in options(what))
    deep = name == "copy.deepcopy" and any(map(is_module, options(what)))
    namespace = name == "copy.deepcopy" and any(map(is_namespace, options(what)))
    of_module = any(isinstance(v, ExternalInstance) and is_module(v) for v in options(what))
    if shallow or deep or of_module or fact.gb_id or holds_tensor(what):
        return Claim(f"`{name}` in compiled code: the graph ends here")
    if namespace:
        return Claim(f"`{name}` in compiled code: the graph ends here", form="of a SimpleNamespace")
    return None


def is_module(value: Value) -> bool:
    if isinstance(value, ExternalInstance):
        return value.name.startswith("torch.nn.")
    return isinstance(value, Instance) and "forward" in value.cls.functions


def is_namespace(value: Value) -> bool:
    return isinstance(value, ExternalInstance) and value.name == "types.SimpleNamespace"


def _is_list(value: Value) -> bool:
    return isinstance(value, Sequence) and value.kind == "list"


RULE = Rule(
    code="TCR321",
    gb_ids=("GB4198", "GB0208", "GB0007", "GB0008", "GB0156"),
    facts=(Call,),
    check=check,
    rewriters=("state.rewrite_deepcopy",),
    module=__name__,
)
